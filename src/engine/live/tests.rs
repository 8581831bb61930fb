//! Tests of the conversion of a live fleet.

use std::sync::Arc;

use super::*;
use crate::snapshot::{QueueStop, QueueingStrategy, Status};
use model::base::Moment;
use model::fleet::admission::{Admission, Assigned, GroupSeen};
use model::fleet::job::{Job, JobKey, JobState};
use model::fleet::kueue_resources::{DeviceClassMapping, KueueResources};
use model::fleet::observe::{NodeSeen, Phase, PodSeen, Resources, Table};
use model::fleet::policy::Policy;
use model::fleet::queue::{Measure, Queue, QueueKey, QueueKind, QueueSystem, Quota, Strategy};
use model::fleet::scheduling::KueueConfig;
use model::fleet::siting::{
    ConstraintMode, Expression, JobPodSet, NodeTerm, Operator, Siting, TopologyConstraint,
};
use model::fleet::{budget, queue};

fn gpus(count: u32) -> Resources {
    Resources {
        devices: Box::from([(Name::new("nvidia.com/gpu"), count)]),
        ..Resources::default()
    }
}

pub(super) fn key(system: QueueSystem, kind: QueueKind, name: &str) -> QueueKey {
    QueueKey {
        system,
        kind,
        name: Name::new(name),
    }
}

pub(super) fn queue(key: QueueKey, parent: Option<&str>) -> Queue {
    Queue {
        key,
        parent: parent.map(Name::new),
        reclaimable: true,
        ..Queue::default()
    }
}

/// A fleet with these parts, in the order that fleets keep.
pub(super) fn fleet(mut queues: Vec<Queue>, jobs: Vec<Job>) -> Fleet {
    queues.sort_by(|a, b| a.key.cmp(&b.key));
    let mut out = Fleet::unknown(Arc::new(Policy::default()));
    out.queues = queues.into_iter().map(Arc::new).collect();
    out.jobs = jobs.into_iter().map(Arc::new).collect();
    out.nodes = Arc::from([Arc::new(node::Node {
        seen: Arc::new(NodeSeen {
            name: Name::new("a"),
            allocatable: gpus(2),
            ..NodeSeen::default()
        }),
        pool: Name::new("pool"),
        ready: Some(true),
        ready_since: None,
        cordon: None,
        billing: None,
        instance_type: None,
        zone: None,
        region: None,
        rack: Some(Name::new("r1")),
        topology: Box::from([(Name::new("block"), Name::new("b1"))]),
        clique: None,
        driver: None,
        devices: Box::default(),
        device_capacity: 2,
        device_allocatable: 2,
        withheld: false,
        ignored_counts: Box::default(),
        pod_count: 0,
        others: Box::default(),
        pods: Box::default(),
    })]);
    out
}

fn job(name: &str, kind: &str, state: JobState) -> Job {
    let mut job = Job::unknown(JobKey {
        key: ObjectKey::new("ns", name),
        kind: Name::new(kind),
    });
    job.state = state;
    job.pod_sets = Arc::from([JobPodSet {
        name: Name::new("main"),
        count: 2,
        min: 2,
        request: gpus(1),
        ..JobPodSet::default()
    }]);
    job
}

fn pod(name: &str, on: &str) -> Arc<Pod> {
    Arc::new(Pod {
        seen: Arc::new(PodSeen {
            key: ObjectKey::new("ns", name),
            node: Some(Name::new(on)),
            phase: Phase::Running,
            requests: gpus(1),
            labels: [(Name::new("app"), Name::new("x"))].into_iter().collect(),
            ..PodSeen::default()
        }),
        job: JobKey::default(),
        queue: None,
        team: Name::default(),
        team_source: model::fleet::device::TeamSource::Namespace,
    })
}

pub(super) fn see(fleet: &Fleet) -> Snapshot {
    snapshot(fleet, &SpendRates::default())
}

#[test]
fn pods_without_devices_are_residents_of_their_node() {
    let mut fleet = fleet(Vec::new(), Vec::new());
    let mut node = (*fleet.nodes[0]).clone();
    let plain = PodSeen {
        key: ObjectKey::new("ns", "plain"),
        uid: Name::new("u-1"),
        node: Some(Name::new("a")),
        phase: Phase::Running,
        requests: Resources {
            cpu_milli: 250,
            memory_bytes: 1 << 20,
            ..Resources::default()
        },
        ..PodSeen::default()
    };
    node.pods = Box::from([pod("holder", "a")]);
    node.others = Box::from([Arc::new(plain)]);
    fleet.nodes = Arc::from([Arc::new(node)]);
    let seen: Vec<(String, String, i64, i64)> = see(&fleet)
        .residents
        .iter()
        .map(|one| {
            let (name, uid) = (one.name.to_string(), one.uid.to_string());
            (name, uid, one.cpu_milli, one.memory_bytes)
        })
        .collect();
    assert_eq!(seen, [("plain".to_owned(), "u-1".to_owned(), 250, 1 << 20)]);
}

#[test]
fn queues_with_one_name_are_distinct_and_cycles_are_cut() {
    use QueueKind::{Cohort, Queue as Own};
    use QueueSystem::{Kueue, Volcano};
    let seen = see(&fleet(
        vec![
            queue(key(Kueue, Cohort, "prod"), Some("all")),
            queue(key(Kueue, Cohort, "all"), Some("prod")),
            queue(key(Kueue, Own, "prod"), Some("prod")),
            queue(key(Volcano, Own, "prod"), Some("gone")),
            queue(key(Volcano, Own, "alone"), None),
        ],
        vec![],
    ));
    let rows: Vec<(&str, Option<&str>, bool)> = seen
        .queues
        .iter()
        .map(|queue| (&*queue.name, queue.parent.as_deref(), queue.admits))
        .collect();
    assert_eq!(
        rows,
        [
            ("all", None, false),
            ("alone", None, true),
            ("cohort/prod", None, false),
            ("prod", None, true),
            ("volcano/prod", None, true),
        ],
        "whatever stands on a circle has nothing above it"
    );
    let tree = see(&fleet(
        vec![
            queue(key(Kueue, Cohort, "prod"), Some("all")),
            queue(key(Kueue, Cohort, "all"), None),
            queue(key(Kueue, Own, "prod"), Some("prod")),
        ],
        vec![],
    ));
    let parents: Vec<Option<&str>> = tree
        .queues
        .iter()
        .map(|queue| queue.parent.as_deref())
        .collect();
    assert_eq!(parents, [None, Some("all"), Some("cohort/prod")]);
}

#[test]
fn quotas_come_in_the_engines_units_and_unbounded_is_not_nothing() {
    let mut kai = queue(key(QueueSystem::Kai, QueueKind::Queue, "team"), None);
    kai.activity.active = Some(false);
    kai.strategy = Strategy::Strict;
    let quota = |resource: &str, measure, nominal| Quota {
        resource: Name::new(resource),
        measure,
        nominal,
        ..Quota::default()
    };
    kai.quotas = Box::from([
        quota(queue::DEVICES, Measure::MilliDevices, Some(2_500)),
        quota("cpu", Measure::MilliCores, None),
        quota("memory", Measure::Bytes, Some(7)),
        quota("pods", Measure::Units, Some(3)),
    ]);
    let seen = see(&fleet(vec![kai], vec![]));
    let queue = &seen.queues[0];
    let nominal: Vec<(&str, i64)> = queue
        .quotas
        .iter()
        .map(|quota| (&*quota.flavor, quota.nominal))
        .collect();
    assert_eq!(
        nominal,
        [
            ("any", 2_500),
            ("any", PLENTY / 1000 * 1000),
            ("any", 7),
            ("any", 3_000)
        ]
    );
    assert_eq!(
        (queue.stop, queue.order),
        (QueueStop::Inactive, QueueingStrategy::Strict)
    );
    assert_eq!(seen.flavors.len(), 1, "the flavor that stands for none");
}

/// A Workload of Kueue with its quota reserved.
pub(super) fn reserved() -> GroupSeen {
    let mut group = GroupSeen::unknown(
        Table::KueueWorkloads,
        QueueSystem::Kueue,
        Name::new("Workload"),
        ObjectKey::new("ns", "w"),
    );
    group.reserved_at = Some(Moment::from_seconds(5));
    group
}

/// Its admission by the queue `q`.
fn admission(group: GroupSeen) -> Arc<Admission> {
    Arc::new(Admission {
        seen: Arc::new(group),
        queue: Some(Name::new("q")),
        position: None,
        local_position: None,
        others: Box::from([]),
    })
}

#[test]
fn pods_stand_where_they_run_and_unplaced_quota_is_held() {
    let mut running = job("run", "Job", JobState::Running);
    running.pods = Box::from([pod("p-0", "a"), pod("p-1", "elsewhere"), pod("p-2", "a")]);
    let mut admitted = job("reserved", "Job", JobState::Waiting);
    let mut group = reserved();
    group.created = Moment::from_seconds(3);
    group.queued_at = Some(Moment::from_seconds(4));
    group.assigned = Box::from([Assigned {
        name: Name::new("main"),
        count: 2,
        flavors: Box::from([(Name::new("nvidia.com/gpu"), Name::new("h100"))]),
        ..Assigned::default()
    }]);
    admitted.admission = Some(admission(group));
    let mut all = vec![
        job("done", "Job", JobState::Done),
        job("held", "Job", JobState::Suspended),
        admitted,
        running,
        job("waits", "Deployment", JobState::Waiting),
    ];
    all[1].pod_sets = Arc::from([]);
    let mut fleet = fleet(vec![], all);
    fleet.budgets = Arc::from([Arc::new(budget::PodDisruptionBudget {
        key: ObjectKey::new("ns", "b"),
        selector: Some(budget::Selector {
            labels: [(Name::new("app"), Name::new("x"))].into_iter().collect(),
            ..budget::Selector::default()
        }),
        allowed: 3,
        unobserved: true,
        ..budget::PodDisruptionBudget::default()
    })]);
    let seen = see(&fleet);
    let rows: Vec<(&str, Status, usize, u32)> = seen
        .workloads
        .iter()
        .map(|work| {
            let set = &work.sets[0];
            (
                &*work.key.key.name,
                work.status,
                set.placements.len(),
                set.count,
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("held", Status::Held, 0, 1),
            ("reserved", Status::Running, 0, 2),
            ("run", Status::Running, 2, 2),
            ("waits", Status::Waiting, 0, 2),
        ],
        "a node that nobody knows holds nothing"
    );
    assert_eq!(seen.workloads[1].sets[0].admitted.len(), 1);
    assert_eq!(seen.workloads[1].admitted_at, Some(Moment::from_seconds(5)));
    assert_eq!(seen.workloads[1].created, Moment::from_seconds(3));
    let mutations = |at: usize| {
        let mutations = seen.workloads[at].mutations;
        (
            mutations.suspend,
            mutations.reprioritise,
            mutations.honours_budgets,
        )
    };
    assert_eq!(mutations(1), (true, true, false));
    assert_eq!(mutations(2), (true, false, false));
    assert_eq!(mutations(3), (false, false, true));
    assert_eq!(
        (seen.budgets[0].pods.len(), seen.budgets[0].allowed),
        (3, 0)
    );
    // Devices known by count only are included, and unknown limits are unlimited.
    let node = &seen.nodes[0];
    assert_eq!((node.devices.len(), node.cpu_milli), (2, PLENTY));
    assert_eq!(node.topology.len(), 2);
}

#[test]
fn what_nothing_can_meet_is_no_way_in() {
    let expression = |key: &str, operator, values: &[&str]| Expression {
        key: Name::new(key),
        operator,
        values: values.iter().map(|value| Name::new(value)).collect(),
    };
    let affinity = |terms: Vec<NodeTerm>| {
        let mut job = job("j", "Job", JobState::Waiting);
        job.pod_sets = Arc::from([JobPodSet {
            count: 1,
            siting: Some(Arc::new(Siting {
                required: terms.into_boxed_slice(),
                ..Siting::default()
            })),
            topology: Some(Box::new(TopologyConstraint {
                mode: ConstraintMode::Required,
                level: Name::new("tier-2"),
                slice: None,
            })),
            ..JobPodSet::default()
        }]);
        job.queue_system = QueueSystem::Volcano;
        let set = see(&fleet(vec![], vec![job])).workloads[0].sets[0].clone();
        assert_eq!(
            set.topology, None,
            "no label of ours is called like Volcano's tier"
        );
        set.affinity
    };
    let impossible = NodeTerm {
        labels: Box::from([expression("zone", Operator::In, &[])]),
        ..NodeTerm::default()
    };
    let by_name = NodeTerm {
        fields: Box::from([expression("metadata.name", Operator::In, &["a"])]),
        ..NodeTerm::default()
    };
    let both = affinity(vec![impossible.clone(), by_name]);
    assert_eq!(both.len(), 1);
    assert_eq!(&*both[0][0].key, "kubernetes.io/hostname");
    let none = affinity(vec![impossible]);
    assert!(!none.is_empty() && !none[0][0].is_met(&BTreeMap::new()));
    assert!(affinity(vec![]).is_empty());
}

/// What comes first for a job that no queue and no scheduler can start is said, and the job is not a pending one.
#[test]
fn what_no_scheduler_can_start_is_blocked() {
    use model::fleet::siting::StartBlock;

    let follows = |name: &str| JobPodSet {
        name: Name::new(name),
        blocked: Some(Box::new(StartBlock::Role {
            on: Name::new("init"),
            until: Name::new("Complete"),
        })),
        ..job("j", "JobSet", JobState::Waiting).pod_sets[0].clone()
    };
    let free = || job("j", "JobSet", JobState::Waiting).pod_sets[0].clone();
    let with = |sets: Vec<JobPodSet>| {
        let mut job = job("j", "JobSet", JobState::Waiting);
        job.pod_sets = sets.into();
        job
    };
    let seen = |job: Job| {
        let mut all = see(&fleet(vec![], vec![job]));
        let work = all.workloads.remove(0);
        let names: Vec<String> = work.sets.iter().map(|set| set.name.to_string()).collect();
        let blocked = work.blocked.map(|why| why.to_string());
        (work.status, blocked, names.join(" "))
    };
    let why = "its role node waits until role init is Complete";
    let none = || String::from("node");
    assert_eq!(
        seen(with(vec![follows("node")])),
        (Status::Waiting, Some(why.to_owned()), none())
    );
    // Where another role can start the scheduler has that one to start, and no other.
    assert_eq!(
        seen(with(vec![free(), follows("node")])),
        (Status::Waiting, None, "main".to_owned())
    );
    // Kueue reserves quota for all roles together, and keeps it while one of them waits.
    let mut queued = with(vec![free(), follows("node")]);
    (queued.queue_system, queued.queue) = (QueueSystem::Kueue, Some(Name::new("q")));
    assert_eq!(
        seen(queued.clone()),
        (Status::Waiting, None, "main node".to_owned())
    );
    queued.pod_sets = Arc::from([follows("node")]);
    assert_eq!(seen(queued.clone()).1, None);
    queued.admission = Some(admission(reserved()));
    assert_eq!(
        seen(queued),
        (Status::Running, Some(why.to_owned()), none())
    );
    // A gate that its queueing system will remove is that system's affair.
    let gated = |gate: &str| {
        let mut job = job("j", "Job", JobState::Waiting);
        let mut pod = (*pod("p", "a")).clone();
        let mut own = (*pod.seen).clone();
        (own.node, own.phase) = (None, Phase::Pending);
        own.siting = Some(Arc::new(Siting {
            gates: Box::from([Name::new(gate)]),
            ..Siting::default()
        }));
        pod.seen = Arc::new(own);
        job.pods = Box::from([Arc::new(pod)]);
        seen(job).1
    };
    assert_eq!(
        gated("example.com/wait-for-data").as_deref(),
        Some("its pods carry scheduling gates")
    );
    assert_eq!(gated("kueue.x-k8s.io/admission"), None);
    let mut unknown = free();
    unknown.blocked = Some(Box::new(StartBlock::NoPlacement));
    let (_, blocked, _) = seen(with(vec![unknown]));
    assert!(blocked.is_some_and(|why| why.contains("pod placement unknown")));
}

/// For jobs created in the same second, Kueue's own order decides.
#[test]
fn jobs_of_one_second_stand_as_kueue_says() {
    let waiting = |name: &str, position: u32| {
        let mut group = GroupSeen::unknown(
            Table::KueueWorkloads,
            QueueSystem::Kueue,
            Name::new("Workload"),
            ObjectKey::new("ns", name),
        );
        group.created = Moment::from_seconds(3);
        let mut job = job(name, "Job", JobState::Waiting);
        job.admission = Some(Arc::new(Admission {
            seen: Arc::new(group),
            queue: Some(Name::new("q")),
            position: Some(position),
            local_position: None,
            others: Box::from([]),
        }));
        job
    };
    let seen = see(&fleet(vec![], vec![waiting("a", 1), waiting("b", 0)]));
    let made: Vec<i64> = seen
        .workloads
        .iter()
        .map(|work| work.created.millis())
        .collect();
    assert_eq!(made, [3_001, 3_000], "b goes first");
}

/// A node that somebody closed for a reason, or that has a fault, is not offered to be opened; one that was just closed is.
#[test]
fn what_speaks_against_uncordoning_a_node() {
    use model::base::Moment;
    use model::fleet::finding::{Finding, Severity, Subject};
    use model::fleet::node::Cordon;
    use model::fleet::observe::{Condition, Taint};

    let closed = |change: &dyn Fn(&mut node::Node, &mut NodeSeen)| {
        let mut out = fleet(Vec::new(), Vec::new());
        let mut node = (*out.nodes[0]).clone();
        let mut seen = (*node.seen).clone();
        seen.unschedulable = true;
        node.cordon = Some(Cordon::default());
        change(&mut node, &mut seen);
        node.seen = Arc::new(seen);
        out.nodes = Arc::from([Arc::new(node)]);
        out
    };
    let against = |fleet: &Fleet| {
        let node = snapshot(fleet, &SpendRates::default()).nodes.remove(0);
        assert_eq!(node.may_be_opened(), node.against_uncordon.is_empty());
        node.against_uncordon.join("; ")
    };
    assert_eq!(against(&closed(&|_, _| {})), "");
    let rosa = closed(&|node, _| {
        node.cordon = Some(Cordon {
            by: Some(Name::new("rosa")),
            at: Moment::parse("2026-11-21T06:00:00Z"),
            reason: Some(Name::new("RMA 88213 is open")),
        });
    });
    assert_eq!(
        against(&rosa),
        "cordoned by rosa since 2026-11-21T06:00:00Z: RMA 88213 is open"
    );
    let failed = closed(&|_, seen| {
        seen.conditions = vec![Condition {
            kind: Name::new("KernelDeadlock"),
            status: Some(true),
            reason: Name::new("DockerHung"),
            message: Name::default(),
            since: None,
        }];
    });
    assert_eq!(against(&failed), "condition KernelDeadlock: DockerHung");
    for (key, speaks) in [
        ("example.com/under-repair", true),
        ("dc.example.com/rma", true),
        ("node.kubernetes.io/out-of-service", true),
        ("example.com/normal", false),
        ("nvidia.com/gpu", false),
        ("node.kubernetes.io/unschedulable", false),
    ] {
        let tainted = closed(&|_, seen| {
            seen.taints = vec![Taint {
                key: Name::new(key),
                value: Name::new(""),
                effect: Name::new("NoSchedule"),
                since: None,
            }];
        });
        assert_eq!(!against(&tainted).is_empty(), speaks, "{key}");
    }
    for (kind, name, code, severity, speaks) in [
        ("Device", "a/gpu5", "xid-48", Severity::Warn, true),
        ("Device", "b/gpu5", "xid-48", Severity::Warn, false),
        ("Node", "a", "rack-hot", Severity::Crit, true),
        ("Node", "a", "under-used", Severity::Warn, false),
    ] {
        let mut found = closed(&|_, _| {});
        found.findings = Arc::from([Finding {
            id: Name::new("1"),
            severity,
            code: Name::new(code),
            subject: Subject {
                kind,
                key: ObjectKey::new("", name),
            },
            since: Moment::default(),
            first_seen: false,
            at_least: false,
            value: None,
            threshold: None,
            message: "is broken".to_owned(),
            repair: String::new(),
            members: Box::default(),
            also: Box::default(),
        }]);
        assert_eq!(!against(&found).is_empty(), speaks, "{kind} {name} {code}");
    }
}

/// A job of two pods in Kueue's queue `q`.
pub(super) fn queued(name: &str, state: JobState, group: GroupSeen) -> Job {
    let mut job = job(name, "Job", state);
    job.queue_system = QueueSystem::Kueue;
    job.queue = Some(Name::new("q"));
    job.admission = Some(admission(group));
    job
}

fn assigned(usage: &[(&str, i64)]) -> Box<[Assigned]> {
    Box::from([Assigned {
        name: Name::new("main"),
        count: 2,
        usage: usage
            .iter()
            .map(|(resource, milli)| (Name::new(resource), *milli))
            .collect(),
        ..Assigned::default()
    }])
}

#[test]
fn quota_is_what_kueue_counts() {
    let mut partly = reserved();
    partly.assigned = assigned(&[("whole-gpus", 2_000), ("memory", 2_048_000)]);
    partly.reclaimable = Box::from([(Name::new("main"), 1)]);
    let mut pending = GroupSeen {
        reserved_at: None,
        ..reserved()
    };
    pending.requests = Box::from([(
        Name::new("main"),
        Box::from([(Name::new("whole-gpus"), 2_000)]),
    )]);
    let jobs = vec![
        queued("a", JobState::Running, partly),
        queued("b", JobState::Waiting, pending),
    ];
    let seen = see(&fleet(Vec::new(), jobs));
    let set = |at: usize| &seen.workloads[at].sets[0];
    assert_eq!((set(0).count, set(0).min), (1, 1), "one pod has ended");
    let each = |at: usize| -> Vec<(&str, i64)> {
        let all = set(at).quota.iter();
        all.map(|(resource, each)| (&**resource, *each)).collect()
    };
    assert_eq!(each(0), [("memory", 1_024), ("whole-gpus", 1_000)]);
    assert_eq!((each(1), set(1).count), (vec![("whole-gpus", 1_000)], 2));
}

/// A job that Kueue has not considered yet, in a queue whose quota stands for devices of a class.
#[test]
fn a_mapped_resource_is_counted_by_the_configuration_and_unknown_without_it() {
    let cq = Queue {
        quotas: Box::from([Quota {
            flavor: Name::new("f"),
            resource: Name::new("whole-gpus"),
            measure: Measure::MilliDevices,
            nominal: Some(1_000),
            ..Quota::default()
        }]),
        ..queue(key(QueueSystem::Kueue, QueueKind::Queue, "q"), None)
    };
    let pending = GroupSeen {
        reserved_at: None,
        ..reserved()
    };
    let mut waits = queued("w", JobState::Waiting, pending);
    let mut sets = waits.pod_sets.to_vec();
    for set in &mut sets {
        set.request.devices = Box::from([(Name::new("gpu.nvidia.com"), 1)]);
    }
    waits.pod_sets = sets.into();
    let mut fleet = fleet(vec![cq], vec![waits]);
    let seen = see(&fleet);
    let why = seen.workloads[0].blocked.as_deref().unwrap_or_default();
    assert!(
        why.contains("it is unknown which quota Kueue charges for gpu.nvidia.com"),
        "{why}"
    );
    let answer = crate::explanations::explain(&seen, "ns/w")
        .expect("there")
        .explanation;
    assert!(!answer.reason.contains("no quota for"), "{}", answer.reason);
    let configured = |by_source| KueueConfig {
        key: ObjectKey::new("kueue-system", "kueue-manager-config"),
        fair_sharing: Ok(Vec::new()),
        resources: Some(KueueResources {
            device_classes: vec![DeviceClassMapping {
                resource: Name::new("whole-gpus"),
                classes: vec![Name::new("gpu.nvidia.com")],
                by_source,
            }],
            ..KueueResources::default()
        }),
        gates_off: Vec::new(),
    };
    fleet.kueue = Some(Arc::new(configured(false)));
    let seen = see(&fleet);
    assert_eq!(seen.workloads[0].blocked, None);
    let each = &seen.workloads[0].sets[0].quota;
    assert_eq!(each.get("whole-gpus"), Some(&1_000), "{each:?}");
    fleet.kueue = Some(Arc::new(configured(true)));
    let why = see(&fleet).workloads[0].blocked.clone().unwrap_or_default();
    assert!(why.contains("not their number"), "{why}");
}

#[test]
fn what_runs_on_a_worker_cluster_needs_no_node() {
    let mut far = reserved();
    far.cluster = Some(Name::new("worker-1"));
    far.assigned = assigned(&[("nvidia.com/gpu", 2_000)]);
    let seen = see(&fleet(
        Vec::new(),
        vec![queued("far", JobState::Running, far)],
    ));
    let work = &seen.workloads[0];
    assert!(work.elsewhere && work.status == Status::Running);
    assert_eq!(
        work.blocked.as_deref(),
        Some("it runs on worker cluster worker-1")
    );
    let answer = crate::explanations::explain(&seen, "ns/far")
        .expect("there")
        .explanation;
    assert_eq!(answer.state, crate::explain::StartState::Running);
    assert_eq!(answer.reason, "it runs on worker cluster worker-1");
    assert_eq!(answer.unblock, None);
}
