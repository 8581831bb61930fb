//! Joins of jobs with the objects of queueing systems and gang schedulers.

use super::support::*;
use super::*;
use model::fleet::admission::{Eviction, GroupSeen};
use model::fleet::job::{Gang, JobState};
use model::fleet::object_parts::OwnerRef;
use model::fleet::observe::Pending;
use model::fleet::queue::{
    Door, PriorityClass, PriorityKind, Queue, QueueKey, QueueKind, QueueSystem,
};
use model::fleet::siting::{ConstraintMode, JobPodSet, Membership, Siting, TopologyConstraint};

pub(super) fn group(
    table: Table,
    system: QueueSystem,
    name: &str,
    owner: Option<OwnerRef>,
) -> GroupSeen {
    let kind = match table {
        Table::KueueWorkloads | Table::Workloads => "Workload",
        _ => "PodGroup",
    };
    let mut seen = GroupSeen::unknown(table, system, Name::new(kind), ObjectKey::new("ns", name));
    seen.uid = Name::from(format!("{kind}-{name}"));
    seen.owner = owner;
    seen.created = NOW.minus(std::time::Duration::from_secs(5000));
    seen
}

pub(super) fn kueue(
    name: &str,
    owner: Option<OwnerRef>,
    pending: Option<(&str, &str)>,
) -> GroupSeen {
    let mut seen = group(Table::KueueWorkloads, QueueSystem::Kueue, name, owner);
    seen.queue_name = Some(Name::new("lq"));
    seen.pending = pending.map(|(word, text)| (Name::new(word), Name::new(text)));
    if pending.is_none() {
        seen.reserved_at = Some(NOW);
        seen.admitted_at = Some(NOW);
    }
    seen
}

pub(super) fn seen(group: GroupSeen) -> Observation {
    Observation::Group(Box::new(group))
}

pub(super) fn door(name: &str, queue: &str) -> Observation {
    Observation::Door(Box::new(Door {
        key: ObjectKey::new("ns", name),
        queue: Name::new(queue),
        ..Door::default()
    }))
}

pub(super) fn cluster_queue(name: &str, cohort: Option<&str>) -> Observation {
    let queue = Queue {
        key: QueueKey {
            system: QueueSystem::Kueue,
            kind: QueueKind::Queue,
            name: Name::new(name),
        },
        parent: cohort.map(Name::new),
        ..Queue::default()
    };
    Observation::Queue(Table::ClusterQueues, Box::new(queue))
}

/// A pod without a controller that names a group.
pub(super) fn member(name: &str, on: Option<&str>, kind: &str, of: &str) -> Observation {
    let mut pod = pod_seen(name, on, &[("nvidia.com/gpu", 1)]);
    pod.siting = Some(Arc::new(Siting {
        member_of: Some(Membership {
            kind: Name::new(kind),
            name: Name::new(of),
        }),
        ..Siting::default()
    }));
    Observation::Pod(Box::new(pod))
}

fn suspended_job(name: &str) -> Observation {
    let mut job = workload(Table::Jobs, "Job", name, 2, 8, None);
    job.suspended = true;
    job.labels = labels(&[("kueue.x-k8s.io/queue-name", "lq")]);
    Observation::Workload(Box::new(job))
}

/// The fleet after these observations, in every rotation of their order; all must be alike.
fn in_any_order(all: &[Observation]) -> Fleet {
    let mut first: Option<(String, Fleet)> = None;
    for start in 0..all.len() {
        for backwards in [false, true] {
            let mut order: Vec<Observation> =
                all[start..].iter().chain(&all[..start]).cloned().collect();
            if backwards {
                order.reverse();
            }
            let fleet = fold(order).publish(NOW);
            let text = format!("{:#?}{:#?}", fleet.jobs, fleet.queues);
            match &first {
                Some((expected, _)) => {
                    assert_eq!(&text, expected, "from {start}, backwards {backwards}")
                }
                None => first = Some((text, fleet)),
            }
        }
    }
    first.expect("something to fold").1
}

#[test]
fn a_workload_decorates_the_job_that_owns_it() {
    let fleet = in_any_order(&[
        suspended_job("train"),
        seen(kueue(
            "job-train-1",
            Some(owner_ref("Job", "train")),
            Some(("WaitingForQuota", "8 more needed")),
        )),
        door("lq", "nlp"),
        cluster_queue("nlp", Some("research")),
        Observation::Pending(Box::new(Pending {
            queue: Name::new("nlp"),
            rows: vec![
                (ObjectKey::new("ns", "other"), 0, 0),
                (ObjectKey::new("ns", "job-train-1"), 1, 0),
            ],
        })),
    ]);
    assert_eq!(fleet.jobs.len(), 1, "a Workload is no job of its own");
    let job = &fleet.jobs[0];
    assert_eq!((&*job.id.kind, &**job.name()), ("Job", "train"));
    assert_eq!(job.state, JobState::Waiting);
    assert_eq!(
        (job.reason_code, &*job.reason),
        (Some("quota"), "8 more needed")
    );
    assert_eq!(
        (job.queue.as_deref(), job.queue_system),
        (Some("nlp"), QueueSystem::Kueue)
    );
    // The team is named by what its owner wrote.
    assert_eq!(&*job.team, "lq");
    let admission = job.admission.as_ref().expect("known to Kueue");
    assert_eq!(
        (admission.position, admission.local_position),
        (Some(1), Some(0))
    );
    assert!(!admission.has_quota());
    // The cohort that only its queue names exists, and the queue has its LocalQueue.
    let names: Vec<(&str, &str)> = fleet
        .queues
        .iter()
        .map(|queue| (queue.key.kind.name(), &**queue.name()))
        .collect();
    assert_eq!(names, [("cohort", "research"), ("queue", "nlp")]);
    assert_eq!(fleet.queues[1].doors.len(), 1);
    assert_eq!(
        fleet.queues[1].parent_key(),
        Some(fleet.queues[0].key.clone())
    );
}

/// A LeaderWorkerSet has a Workload for each group: one job, whose admission is that of the group which waits.
#[test]
fn the_workloads_of_all_groups_are_one_job() {
    let set = || Some(owner_ref("LeaderWorkerSet", "serve"));
    let mut served = workload(
        Table::LeaderWorkerSets,
        "LeaderWorkerSet",
        "serve",
        4,
        8,
        None,
    );
    served.labels = labels(&[("kueue.x-k8s.io/queue-name", "lq")]);
    let mut ended = kueue("serve-old", set(), None);
    ended.outcome = Some(true);
    let fleet = in_any_order(&[
        Observation::Workload(Box::new(served)),
        seen(kueue("serve-0", set(), None)),
        seen(kueue(
            "serve-1",
            set(),
            Some(("WaitingForQuota", "8 more needed")),
        )),
        seen(kueue("serve-2", set(), None)),
        seen(ended),
        door("lq", "nlp"),
        cluster_queue("nlp", None),
    ]);
    let names: Vec<&str> = fleet.jobs.iter().map(|job| &**job.name()).collect();
    assert_eq!(names, ["serve"], "no Workload is a job of its own");
    let admission = fleet.jobs[0].admission.as_ref().expect("known to Kueue");
    assert_eq!(&*admission.seen.key.name, "serve-1");
    let others: Vec<&str> = admission.others.iter().map(|one| &*one.key.name).collect();
    assert_eq!(others, ["serve-0", "serve-2"], "those that have not ended");
}

#[test]
fn a_job_that_kueue_deactivated_is_on_hold() {
    let mut taken = kueue("w", Some(owner_ref("Job", "train")), Some(("Pending", "")));
    taken.active = false;
    taken.evictions = Box::from([Eviction {
        reason: Name::new("Deactivated"),
        message: Name::new("by a person"),
        count: 1,
        at: Some(NOW),
        ..Eviction::default()
    }]);
    let fleet = in_any_order(&[suspended_job("train"), seen(taken)]);
    let job = &fleet.jobs[0];
    assert_eq!(job.state, JobState::Suspended);
    assert_eq!(
        (job.reason_code, &*job.reason),
        (Some("deactivated"), "by a person")
    );
    let failure = job.failure.as_ref().expect("evicted");
    assert_eq!(failure.last_eviction, Some(NOW));
}

#[test]
fn the_door_decides_the_queue_and_may_lead_elsewhere() {
    let mut ledger = fold([
        node("a", &[("nvidia.com/gpu", 8)], &[]),
        suspended_job("train"),
        {
            let mut pod = pod_seen("p", Some("a"), &[("nvidia.com/gpu", 1)]);
            pod.labels = labels(&[("kueue.x-k8s.io/queue-name", "lq")]);
            Observation::Pod(Box::new(pod))
        },
    ]);
    let queues = |ledger: &mut Ledger| -> Vec<String> {
        let fleet = ledger.publish(NOW);
        let mut all: Vec<String> = fleet
            .jobs
            .iter()
            .map(|job| job.queue.as_ref().expect("queued").to_string())
            .collect();
        let held = fleet.node("a").expect("there").devices[0].holder.as_ref();
        all.push(
            held.and_then(|pod| pod.queue.as_deref())
                .unwrap_or("")
                .to_owned(),
        );
        all
    };
    assert_eq!(
        queues(&mut ledger),
        ["lq", "lq", "lq"],
        "a door that nobody knows"
    );
    ledger.apply(door("lq", "nlp"));
    assert_eq!(queues(&mut ledger), ["nlp", "nlp", "nlp"]);
    ledger.apply(door("lq", "vision"));
    assert_eq!(queues(&mut ledger), ["vision", "vision", "vision"]);
    ledger.apply(Observation::Absent(Table::LocalQueues));
    assert_eq!(queues(&mut ledger), ["lq", "lq", "lq"]);
}

#[test]
fn bare_pods_of_one_group_are_one_job() {
    let fleet = in_any_order(&[
        node("a", &[("nvidia.com/gpu", 8)], &[]),
        member("p-0", Some("a"), "Workload", "pods"),
        member("p-1", None, "Workload", "pods"),
        seen({
            let mut group = kueue("pods", None, None);
            group.pod_sets = Arc::from([JobPodSet {
                name: Name::new("main"),
                count: 2,
                min: 2,
                request: devices(&[("nvidia.com/gpu", 1)]),
                ..JobPodSet::default()
            }]);
            group
        }),
    ]);
    assert_eq!(fleet.jobs.len(), 1);
    let job = &fleet.jobs[0];
    assert_eq!((&*job.id.kind, &**job.name()), ("Workload", "pods"));
    assert_eq!(
        (job.devices_requested, job.devices_allocated, job.pods.len()),
        (2, 1, 2)
    );
    assert_eq!(job.chain.last().map(|link| &*link.name), Some("pods"));
    assert_eq!(&*job.uid, "Workload-pods");
}

#[test]
fn a_group_that_a_pod_owns_decorates_the_pod() {
    // KAI makes a PodGroup for every lone pod; the pod names it, too.
    let mut group = group(
        Table::KaiPodGroups,
        QueueSystem::Kai,
        "pg-p-uid",
        Some(OwnerRef {
            kind: Name::new("Pod"),
            name: Name::new("p"),
            uid: Name::new("p"),
        }),
    );
    group.queue_name = Some(Name::new("team-a"));
    group.gang_min = Some(1);
    group.pending = Some((Name::new("OverLimit"), Name::new("team-a is at its limit")));
    let fleet = in_any_order(&[
        member("p", None, "PodGroup", "pg-p-uid"),
        seen(group),
        pod("other", None, &[("nvidia.com/gpu", 1)]),
    ]);
    let kinds: Vec<(&str, &str)> = fleet
        .jobs
        .iter()
        .map(|job| (&*job.id.kind, &**job.name()))
        .collect();
    assert_eq!(kinds, [("Pod", "other"), ("Pod", "p")]);
    let job = &fleet.jobs[1];
    assert_eq!(
        (job.queue.as_deref(), job.queue_system),
        (Some("team-a"), QueueSystem::Kai)
    );
    assert_eq!(job.reason_code, Some("exceeds-quota"));
    assert_eq!(job.gang, None, "one pod is no gang");
}

/// An indexed Job of two pods under KAI, which makes a PodGroup for each: half of it may run.
#[test]
fn a_job_whose_pods_kai_starts_one_by_one_is_no_gang() {
    let mut job = workload(Table::Jobs, "Job", "train", 2, 1, None);
    job.gang_min = Some(2);
    let of_pod = |pod: &str| {
        let owner = Some(owner_ref("Job", "train"));
        let mut group = group(Table::KaiPodGroups, QueueSystem::Kai, pod, owner);
        group.gang_min = Some(1);
        group.queue_name = Some(Name::new("lab"));
        seen(group)
    };
    let apply_groups = |groups: &[Observation]| {
        let mut all = vec![
            Observation::Workload(Box::new(job.clone())),
            node("n1", &[("nvidia.com/gpu", 8)], &[]),
            owned("train-0", Some("n1"), 1, "Job", "train"),
            owned("train-1", None, 1, "Job", "train"),
        ];
        all.extend(groups.iter().cloned());
        let fleet = in_any_order(&all);
        let job = &fleet.jobs[0];
        let mins: Vec<u32> = job.pod_sets.iter().map(|set| set.min).collect();
        (job.gang, job.state, mins)
    };
    let whole = Gang { size: 2, min: 2 };
    assert_eq!(
        apply_groups(&[]),
        (Some(whole), JobState::Starting, vec![2])
    );
    let groups = [of_pod("pg-train-0"), of_pod("pg-train-1")];
    assert_eq!(apply_groups(&groups), (None, JobState::Running, vec![1]));
}

#[test]
fn a_pod_groups_minimum_is_the_gangs() {
    let mut volcano = group(
        Table::VolcanoPodGroups,
        QueueSystem::Volcano,
        "podgroup-1",
        Some(owner_ref("VolcanoJob", "v")),
    );
    volcano.gang_min = Some(3);
    volcano.queue_name = Some(Name::new("research"));
    volcano.topology = Some(Box::new(TopologyConstraint {
        mode: ConstraintMode::Required,
        level: Name::new("tier-2"),
        slice: None,
    }));
    let mut job = workload(Table::VolcanoJobs, "VolcanoJob", "v", 4, 8, None);
    job.gang_min = Some(4);
    let fleet = in_any_order(&[
        Observation::Workload(Box::new(job)),
        owned("v-0", None, 8, "VolcanoJob", "v"),
        seen(volcano),
    ]);
    let job = &fleet.jobs[0];
    assert_eq!(job.gang.map(|gang| (gang.size, gang.min)), Some((4, 3)));
    assert_eq!(job.queue.as_deref(), Some("research"));
    let topology = job.pod_sets[0].topology.as_ref().expect("the group's wish");
    assert_eq!(&*topology.level, "tier-2");
}

#[test]
fn a_controller_named_without_an_id_is_found() {
    let job = workload(
        Table::Jobs,
        "Job",
        "set-a",
        2,
        8,
        Some(owner_ref("JobSet", "set")),
    );
    let mut core = group(
        Table::Workloads,
        QueueSystem::None,
        "gang",
        Some(OwnerRef {
            kind: Name::new("Job"),
            name: Name::new("set-a"),
            uid: Name::default(),
        }),
    );
    core.gang_min = Some(2);
    // Its PodGroup is below the Workload.
    let runtime = group(
        Table::PodGroups,
        QueueSystem::None,
        "gang-0",
        Some(owner_ref("Workload", "gang")),
    );
    let all = [
        Observation::Workload(Box::new(job)),
        Observation::Workload(Box::new(workload(
            Table::JobSets,
            "JobSet",
            "set",
            2,
            8,
            None,
        ))),
        seen(core),
        seen(runtime),
    ];
    let fleet = in_any_order(&all);
    assert_eq!(fleet.jobs.len(), 1);
    assert_eq!(&*fleet.jobs[0].id.kind, "JobSet");
    let mut ledger = fold(all);
    ledger.apply(Observation::Gone(
        Table::Workloads,
        ObjectKey::new("ns", "gang"),
    ));
    ledger.apply(Observation::Gone(
        Table::PodGroups,
        ObjectKey::new("ns", "gang-0"),
    ));
    assert!(ledger.publish(NOW).jobs[0].admission.is_none());
    assert!(ledger.groups.is_empty());
}

#[test]
fn a_leaders_workers_belong_to_the_leaders_set() {
    let mut set = workload(
        Table::LeaderWorkerSets,
        "LeaderWorkerSet",
        "llm",
        3,
        8,
        None,
    );
    set.gang_min = Some(3);
    let mut workers = workload(Table::StatefulSets, "StatefulSet", "llm-0", 2, 8, None);
    // The leader pod owns the set of its workers.
    workers.owner = Some(OwnerRef {
        kind: Name::new("Pod"),
        name: Name::new("llm-0"),
        uid: Name::new("llm-0"),
    });
    let fleet = in_any_order(&[
        Observation::Workload(Box::new(set)),
        Observation::Workload(Box::new(workload(
            Table::StatefulSets,
            "StatefulSet",
            "llm",
            1,
            8,
            Some(owner_ref("LeaderWorkerSet", "llm")),
        ))),
        owned("llm-0", Some("a"), 8, "StatefulSet", "llm"),
        Observation::Workload(Box::new(workers)),
        owned("llm-0-1", Some("a"), 8, "StatefulSet", "llm-0"),
        owned("llm-0-2", None, 8, "StatefulSet", "llm-0"),
    ]);
    assert_eq!(fleet.jobs.len(), 1, "{:#?}", fleet.jobs);
    let job = &fleet.jobs[0];
    assert_eq!((&*job.id.kind, job.pods.len()), ("LeaderWorkerSet", 3));
    assert_eq!((job.devices_requested, job.state), (24, JobState::Starting));
}

#[test]
fn a_launcher_without_devices_does_not_keep_a_gang_from_running() {
    let mut mpi = workload(Table::MpiJobs, "MPIJob", "m", 3, 8, None);
    mpi.gang_min = Some(3);
    mpi.total = devices(&[("nvidia.com/gpu", 16)]);
    mpi.pod_sets = [("launcher", 1, 0), ("worker", 2, 8)]
        .iter()
        .map(|(name, count, gpus)| JobPodSet {
            name: Name::new(name),
            count: *count,
            min: *count,
            request: match gpus {
                0 => Default::default(),
                gpus => devices(&[("nvidia.com/gpu", *gpus)]),
            },
            ..JobPodSet::default()
        })
        .collect();
    let state = |workers: &[Option<&str>]| {
        let pods = workers
            .iter()
            .enumerate()
            .map(|(at, on)| owned(&format!("m-{at}"), *on, 8, "MPIJob", "m"));
        fold(pods.chain([Observation::Workload(Box::new(mpi.clone()))]))
            .publish(NOW)
            .jobs[0]
            .state
    };
    assert_eq!(state(&[Some("a"), None]), JobState::Starting);
    assert_eq!(state(&[Some("a"), Some("b")]), JobState::Running);
}

#[test]
fn classes_give_their_priority_to_jobs_without_pods() {
    let mut job = workload(Table::Jobs, "Job", "j", 1, 8, None);
    job.priority_class = Some(Name::new("high"));
    let class = |value| {
        Observation::Priority(Box::new(PriorityClass {
            kind: PriorityKind::Pod,
            name: Name::new("high"),
            value,
            ..PriorityClass::default()
        }))
    };
    let mut ledger = fold([Observation::Workload(Box::new(job)), class(1000)]);
    assert_eq!(ledger.publish(NOW).jobs[0].priority, Some(1000));
    ledger.apply(class(7));
    assert_eq!(ledger.publish(NOW).jobs[0].priority, Some(7));
    ledger.apply(Observation::Absent(Table::PriorityClasses));
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.jobs[0].priority, None, "unknown is not zero");
    assert!(fleet.priority_classes.is_empty());
}

/// A class that is changed in the queueing system orders the job, regardless of the priority that its pods were created with.
#[test]
fn the_class_of_a_pod_group_counts_before_its_pods() {
    let job = workload(Table::Jobs, "Job", "j", 1, 8, None);
    let mut one = owned("j-0", None, 8, "Job", "j");
    if let Observation::Pod(pod) = &mut one {
        pod.priority = 20;
    }
    let owner = Some(owner_ref("Job", "j"));
    let mut kai = group(Table::KaiPodGroups, QueueSystem::Kai, "j", owner);
    kai.priority_class = Some(Name::new("high"));
    let class = Observation::Priority(Box::new(PriorityClass {
        kind: PriorityKind::Pod,
        name: Name::new("high"),
        value: 40,
        ..PriorityClass::default()
    }));
    let mut ledger = fold([Observation::Workload(Box::new(job)), one, seen(kai), class]);
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.jobs.len(), 1);
    assert_eq!(fleet.jobs[0].priority, Some(40));
    ledger.apply(Observation::Absent(Table::PriorityClasses));
    let unknown = ledger.publish(NOW).jobs[0].priority;
    assert_eq!(unknown, None, "KAI does not order by the pods' priority");
}

#[test]
fn the_labels_and_annotations_of_a_job_are_read() {
    let mut job = workload(Table::Jobs, "Job", "j", 1, 8, None);
    job.annotations = labels(&[
        ("stokehold.dev/runtime-estimate", "2h30m"),
        ("stokehold.dev/last-checkpoint", "2026-11-21T06:40:00Z"),
    ]);
    job.labels = labels(&[("stokehold.dev/priority", "-3")]);
    job.time_limit = Some(60);
    let mut ledger = fold([Observation::Workload(Box::new(job))]);
    let fleet = ledger.publish(NOW);
    let job = &fleet.jobs[0];
    assert_eq!(job.estimate.map(|span| span.as_secs()), Some(9000));
    assert_eq!(job.last_checkpoint, Moment::parse("2026-11-21T06:40:00Z"));
    assert_eq!(
        (job.priority, job.time_limit.map(|span| span.as_secs())),
        (Some(-3), Some(60))
    );
}

#[test]
fn kinds_that_vanish_take_their_rows_with_them() {
    let mut ledger = fold([
        suspended_job("train"),
        seen(kueue(
            "w",
            Some(owner_ref("Job", "train")),
            Some(("Pending", "")),
        )),
        door("lq", "nlp"),
        cluster_queue("nlp", Some("research")),
        Observation::End(Table::ClusterQueues),
    ]);
    let fleet = ledger.publish(NOW);
    assert_eq!(
        (fleet.queues.len(), fleet.visibility(Table::ClusterQueues)),
        (2, &TableState::Live)
    );
    for table in [
        Table::ClusterQueues,
        Table::LocalQueues,
        Table::KueueWorkloads,
    ] {
        ledger.apply(Observation::Absent(table));
    }
    let fleet = ledger.publish(NOW);
    assert!(fleet.queues.is_empty() && fleet.jobs[0].admission.is_none());
    assert_eq!(fleet.visibility(Table::ClusterQueues), &TableState::Absent);
    // And they may come back.
    ledger.apply(Observation::Begin(Table::ClusterQueues));
    ledger.apply(cluster_queue("nlp", None));
    ledger.apply(Observation::End(Table::ClusterQueues));
    let fleet = ledger.publish(NOW);
    assert_eq!(
        (fleet.queues.len(), fleet.visibility(Table::ClusterQueues)),
        (1, &TableState::Live)
    );
    // A relist that does not mention it any more sweeps it.
    ledger.apply(Observation::Begin(Table::ClusterQueues));
    ledger.apply(Observation::End(Table::ClusterQueues));
    assert!(ledger.publish(NOW).queues.is_empty());
}

#[test]
fn a_label_of_ours_that_names_a_queue_of_kueue_is_kueues() {
    let mut job = workload(Table::Jobs, "Job", "train", 1, 8, None);
    job.labels = labels(&[("stokehold.dev/queue", "research")]);
    let mut ledger = fold([Observation::Workload(Box::new(job))]);
    let systems = |fleet: &Fleet| fleet.jobs[0].queue_system;
    assert_eq!(systems(&ledger.publish(NOW)), QueueSystem::Stokehold);
    ledger.apply(cluster_queue("research", None));
    assert_eq!(systems(&ledger.publish(NOW)), QueueSystem::Kueue);
    let gone = ObjectKey::new("", "research");
    ledger.apply(Observation::Gone(Table::ClusterQueues, gone));
    assert_eq!(systems(&ledger.publish(NOW)), QueueSystem::Stokehold);
    ledger.apply(door("research", "shared"));
    let fleet = ledger.publish(NOW);
    assert_eq!(systems(&fleet), QueueSystem::Kueue);
    assert_eq!(fleet.jobs[0].queue.as_deref(), Some("shared"));
}

#[test]
fn a_job_without_a_workload_is_reported_as_unknown_to_kueue() {
    let mut job = workload(Table::Jobs, "Job", "train", 1, 8, None);
    job.labels = labels(&[("kueue.x-k8s.io/queue-name", "lq")]);
    job.suspended = true;
    let mut ledger = fold([Observation::Workload(Box::new(job))]);
    let fleet = ledger.publish(NOW);
    assert_eq!(fleet.jobs[0].state, JobState::Waiting);
    assert!(
        fleet.jobs[0]
            .reason
            .contains("no Kueue Workload in queue lq yet")
    );
    // Its Workload exists and has no condition.
    let mut silent = kueue("train", Some(owner_ref("Job", "train")), None);
    (silent.reserved_at, silent.admitted_at) = (None, None);
    ledger.apply(seen(silent));
    let reason = ledger.publish(NOW).jobs[0].reason.clone();
    assert!(!reason.contains("created no pods"), "{reason}");
}

#[test]
fn a_job_that_a_worker_cluster_runs_is_running_though_it_has_no_pod_here() {
    let mut far = kueue("far", Some(owner_ref("Job", "train")), None);
    far.cluster = Some(Name::new("worker-1"));
    let job = || {
        let mut job = workload(Table::Jobs, "Job", "train", 2, 8, None);
        job.labels = labels(&[("kueue.x-k8s.io/queue-name", "lq")]);
        job
    };
    let fleet = in_any_order(&[Observation::Workload(Box::new(job())), seen(far.clone())]);
    let shown = &fleet.jobs[0];
    assert_eq!(shown.state, JobState::Running);
    assert_eq!(shown.reason.as_str(), "runs on worker cluster worker-1");
    assert_eq!(shown.waiting_since, None);
    // Kinds that Kueue cannot keep from starting here stay suspended.
    let mut suspended = job();
    suspended.suspended = true;
    let fleet = in_any_order(&[
        Observation::Workload(Box::new(suspended)),
        seen(far.clone()),
    ]);
    assert_eq!(fleet.jobs[0].state, JobState::Running);
    // Without quota it runs nowhere.
    far.reserved_at = None;
    far.admitted_at = None;
    far.pending = Some((Name::new("Pending"), Name::new("8 more needed")));
    let fleet = in_any_order(&[Observation::Workload(Box::new(job())), seen(far)]);
    assert_eq!(fleet.jobs[0].state, JobState::Waiting);
    assert_eq!(fleet.jobs[0].reason.as_str(), "8 more needed");
}
