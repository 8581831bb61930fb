//! Every kind of queue, Workload and PodGroup, in every version that is served.

use model::base::Name;
use serde_json::{Value, json};

use crate::policy::{BudgetObject, PriorityClassObject};
use crate::queues::admission::{PendingList, WorkloadObject};
use crate::queues::gang::GangObject;
use crate::queues::kai::{KaiPodGroupObject, KaiQueueObject};
use crate::queues::kueue::{FlavorObject, LocalQueueObject, QueueObject, TopologyObject};
use crate::queues::volcano::{VolcanoPodGroupObject, VolcanoQueueObject};
use crate::tests::jobs::{sets, template};
use crate::tests::read;
use crate::*;
use model::fleet::admission::GroupSeen;
use model::fleet::queue::{
    Borrow, Measure, PriorityKind, Queue, QueueKind, QueueSystem, Reclaim, Stop, Strategy, Within,
};
use model::fleet::siting::ConstraintMode;

pub(crate) fn group<T: Projected + DeserializeOwned>(table: Table, value: &Value) -> GroupSeen {
    match read::<T>(value).project(table, &mut Names::default()) {
        Some(Observation::Group(seen)) => *seen,
        other => panic!("not a group: {other:?}"),
    }
}

pub(crate) fn queue<T: Projected + DeserializeOwned>(table: Table, value: &Value) -> Queue {
    match read::<T>(value).project(table, &mut Names::default()) {
        Some(Observation::Queue(of, seen)) if of == table => *seen,
        other => panic!("not a queue: {other:?}"),
    }
}

fn workload(value: &Value) -> GroupSeen {
    group::<WorkloadObject>(Table::KueueWorkloads, value)
}

pub(crate) fn word(seen: &GroupSeen) -> Option<&str> {
    seen.pending.as_ref().map(|(word, _)| &**word)
}

#[test]
fn a_cluster_queue_of_either_version_is_a_queue_with_quotas() {
    let object = |version: &str, cohort: &str, fungible: &str| {
        json!({"apiVersion": format!("kueue.x-k8s.io/{version}"), "kind": "ClusterQueue", "metadata": {"name": "nlp", "uid": "q1"},
            "spec": {cohort: "research", "queueingStrategy": "StrictFIFO", "stopPolicy": "HoldAndDrain",
                "fairSharing": {"weight": "2500m"},
                "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": fungible},
                "preemption": {"withinClusterQueue": "LowerOrNewerEqualPriority", "reclaimWithinCohort": "Any",
                    "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 100}},
                "resourceGroups": [{"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": [
                    {"name": "h100", "resources": [
                        {"name": "cpu", "nominalQuota": 96},
                        {"name": "nvidia.com/gpu", "nominalQuota": "8", "borrowingLimit": "4", "lendingLimit": 2}]},
                    {"name": "a100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "16"}]}]},
                    {"coveredResources": ["memory"], "flavors": [
                        {"name": "any", "resources": [{"name": "memory", "nominalQuota": "1Ti"}]}]}]},
            "status": {"pendingWorkloads": 3, "reservingWorkloads": 2, "admittedWorkloads": 1,
                "flavorsReservation": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": "12", "borrowed": "4"}]}],
                "flavorsUsage": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": "10", "borrowed": "2"}]}],
                "fairSharing": {"weightedShare": 250},
                "conditions": [{"type": "Active", "status": "False", "reason": "Stopped", "message": "is stopped"}]}})
    };
    let old = queue::<QueueObject>(
        Table::ClusterQueues,
        &object("v1beta1", "cohort", "Preempt"),
    );
    let new = queue::<QueueObject>(
        Table::ClusterQueues,
        &object("v1beta2", "cohortName", "MayStopSearch"),
    );
    assert_eq!(old, new, "both versions say the same");
    assert_eq!(
        (new.system(), new.key.kind, new.parent.as_deref()),
        (QueueSystem::Kueue, QueueKind::Queue, Some("research"))
    );
    assert_eq!((new.weight, new.share), (Some(2.5), Some(0.25)));
    assert_eq!((new.stop, new.strategy), (Stop::Drain, Strategy::Strict));
    assert!(new.is_stopped() && new.next_before_borrow && !new.next_before_preempt);
    let policy = new.preemption;
    assert_eq!(
        (policy.within, policy.reclaim, policy.borrow),
        (
            Within::LowerOrNewerEqual,
            Reclaim::Any,
            Borrow::LowerPriority
        )
    );
    assert_eq!(policy.borrow_max_priority, Some(100));
    let cells: Vec<_> = new
        .quotas
        .iter()
        .map(|quota| (&*quota.flavor, &*quota.resource, quota.group, quota.nominal))
        .collect();
    assert_eq!(
        cells,
        [
            ("h100", "cpu", 0, Some(96_000)),
            ("h100", "nvidia.com/gpu", 0, Some(8_000)),
            ("a100", "nvidia.com/gpu", 0, Some(16_000)),
            ("any", "memory", 1, Some(1 << 40)),
        ]
    );
    let gpus = &new.quotas[1];
    assert_eq!(
        (gpus.borrow_limit, gpus.lend_limit, gpus.cap),
        (Some(4_000), Some(2_000), None)
    );
    assert_eq!(
        (gpus.used, gpus.reserved, gpus.borrowed),
        (Some(10_000), Some(12_000), Some(2_000))
    );
    assert_eq!(
        new.quotas[2].used,
        Some(0),
        "what it does not list is not used"
    );
    assert_eq!(new.quotas[3].measure, Measure::Bytes);
    assert_eq!(new.counts.pending, Some(3));
    // Without a status nothing is known of its use.
    let fresh = queue::<QueueObject>(
        Table::ClusterQueues,
        &json!({"metadata": {"name": "q"}, "spec": {"resourceGroups": [{"flavors": [
            {"name": "f", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "1"}]}]}]}}),
    );
    assert_eq!(fresh.quotas[0].used, None);
    assert_eq!(fresh.counts.pending, None);
    assert!(!fresh.is_stopped() && fresh.next_before_preempt && !fresh.next_before_borrow);
}

#[test]
fn a_cluster_queue_says_what_else_decides() {
    let read = |spec: Value| {
        let queue = queue::<QueueObject>(
            Table::ClusterQueues,
            &json!({"metadata": {"name": "q"}, "spec": spec}),
        );
        let checks: Vec<String> = queue.checks.iter().map(ToString::to_string).collect();
        (checks, queue.orders_by_usage, queue.tries_all_flavors)
    };
    assert_eq!(read(json!({})), (Vec::new(), false, false));
    let old = read(
        json!({"admissionChecks": ["prov"], "admissionScope": {"admissionMode": "NoAdmissionFairSharing"}}),
    );
    assert_eq!(old, (vec!["prov".to_owned()], false, false));
    let new = read(json!({
        "admissionChecksStrategy": {"admissionChecks": [{"name": "prov", "onFlavors": ["spot"]}, {"name": "multikueue"}]},
        "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
        "concurrentAdmissionPolicy": {"migration": {"mode": "RetainFirstAdmission"}},
    }));
    let both = vec!["prov".to_owned(), "multikueue".to_owned()];
    assert_eq!(new, (both, true, true));
}

#[test]
fn cohorts_stand_in_cohorts() {
    for (version, key) in [
        ("v1alpha1", "parent"),
        ("v1beta1", "parentName"),
        ("v1beta2", "parentName"),
    ] {
        let seen = queue::<QueueObject>(
            Table::Cohorts,
            &json!({"apiVersion": format!("kueue.x-k8s.io/{version}"), "metadata": {"name": "research"},
                "spec": {key: "all", "cohort": "not-this", "cohortName": "nor-this"},
                "status": {"fairSharing": {"weightedShare": 9223372036854775807i64}}}),
        );
        assert_eq!(seen.key.kind, QueueKind::Cohort);
        assert_eq!(seen.parent.as_deref(), Some("all"), "{version}");
        assert_eq!(seen.share, Some(f64::INFINITY));
    }
    let own = json!({"metadata": {"name": "a"}, "spec": {"parentName": "a"}});
    assert_eq!(queue::<QueueObject>(Table::Cohorts, &own).parent, None);
}

#[test]
fn doors_flavors_topologies_and_classes_are_read() {
    let mut names = Names::default();
    let door = read::<LocalQueueObject>(
        &json!({"metadata": {"name": "lq", "namespace": "ml"}, "spec": {"clusterQueue": "nlp", "stopPolicy": "Hold"},
        "status": {"pendingWorkloads": 7, "conditions": [{"type": "Active", "status": "True", "reason": "Ready"}]}}),
    )
    .project(Table::LocalQueues, &mut names);
    let Some(Observation::Door(door)) = door else {
        panic!("{door:?}")
    };
    assert_eq!(
        (&*door.queue, door.stop, door.counts.pending),
        ("nlp", Stop::Hold, Some(7))
    );
    let flavor = read::<FlavorObject>(&json!({"metadata": {"name": "h100"}, "spec": {
        "nodeLabels": {"gpu": "h100"}, "topologyName": "default",
        "nodeTaints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}, null],
        "tolerations": [{"key": "gpu", "operator": "Exists"}]}}))
    .project(Table::ResourceFlavors, &mut names);
    let Some(Observation::Flavor(flavor)) = flavor else {
        panic!("{flavor:?}")
    };
    assert_eq!((flavor.taints.len(), flavor.tolerations.len()), (1, 1));
    assert!(flavor.tolerations[0].covers(&flavor.taints[0]));
    assert_eq!(flavor.topology.as_deref(), Some("default"));
    let topology = read::<TopologyObject>(
        &json!({"metadata": {"name": "default"}, "spec": {"levels": [
        {"nodeLabel": "block"}, {}, {"nodeLabel": "kubernetes.io/hostname"}]}}),
    )
    .project(Table::Topologies, &mut names);
    let Some(Observation::Topology(topology)) = topology else {
        panic!("{topology:?}")
    };
    assert_eq!(topology.levels.len(), 2);
    for (table, kind) in [
        (Table::PriorityClasses, PriorityKind::Pod),
        (Table::WorkloadPriorityClasses, PriorityKind::Workload),
    ] {
        let class = read::<PriorityClassObject>(
            &json!({"metadata": {"name": "high"}, "value": 1000, "globalDefault": true, "preemptionPolicy": "Never"}),
        )
        .project(table, &mut names);
        let Some(Observation::Priority(class)) = class else {
            panic!("{class:?}")
        };
        assert_eq!((class.kind, class.value), (kind, 1000));
        assert!(class.is_default && class.never_preempts);
    }
}

#[test]
fn a_budget_says_how_many_may_go() {
    let read = |value: &Value| match read::<BudgetObject>(value)
        .project(Table::Budgets, &mut Names::default())
    {
        Some(Observation::Budget(budget)) => *budget,
        other => panic!("{other:?}"),
    };
    let budget = read(
        &json!({"metadata": {"name": "b", "namespace": "ml", "generation": 2},
        "spec": {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": {
            "matchLabels": {"app": "x"}, "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["test"]}]}},
        "status": {"disruptionsAllowed": 1, "currentHealthy": 4, "desiredHealthy": 3, "expectedPods": 4, "observedGeneration": 2}}),
    );
    assert_eq!(
        (
            budget.allowed,
            budget.healthy,
            budget.wanted,
            budget.expected
        ),
        (1, 4, 3, 4)
    );
    assert!(budget.spares_unhealthy && !budget.unobserved);
    let labels = |tier: &str| {
        [("app", "x"), ("tier", tier)]
            .into_iter()
            .map(|(key, value)| (model::base::Name::new(key), model::base::Name::new(value)))
            .collect()
    };
    assert!(budget.covers("ml", &labels("prod")) && !budget.covers("ml", &labels("test")));
    let stale = read(
        &json!({"metadata": {"name": "b", "generation": 3}, "status": {"observedGeneration": 2}}),
    );
    assert!(stale.unobserved && stale.selector.is_none());
    // A word that we do not know narrows to nothing rather than to everything.
    let odd = read(
        &json!({"metadata": {"name": "b", "namespace": "ml"}, "spec": {"selector": {
        "matchExpressions": [{"key": "tier", "operator": "Resembles", "values": ["prod"]}]}}}),
    );
    assert!(!odd.covers("ml", &labels("prod")));
}

fn admitted(version: &str, assignment: Value) -> Value {
    json!({"apiVersion": format!("kueue.x-k8s.io/{version}"), "kind": "Workload",
        "metadata": {"name": "job-train-1", "namespace": "ml", "uid": "w1", "creationTimestamp": "2026-11-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j1", "controller": true}]},
        "spec": {"queueName": "lq", "priority": 50, "active": true, "maximumExecutionTimeSeconds": 7200,
            "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "mid"},
            "podSets": [{"name": "main", "count": 8, "minCount": 4, "template": template(8),
                "topologyRequest": {"required": "block", "podSetSliceRequiredTopology": "rack", "podSetSliceSize": 2}}]},
        "status": {"admission": {"clusterQueue": "nlp", "podSetAssignments": [
                {"name": "main", "count": 8, "flavors": {"nvidia.com/gpu": "h100"}, "topologyAssignment": assignment}]},
            "admissionChecks": [{"name": "prov", "state": "Ready"}],
            "conditions": [
                {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "lastTransitionTime": "2026-11-01T00:10:00Z"},
                {"type": "Admitted", "status": "True", "reason": "Admitted", "lastTransitionTime": "2026-11-01T00:11:00Z"},
                {"type": "PodsReady", "status": "True"},
                {"type": "Evicted", "status": "False", "reason": "QuotaReserved"}]}})
}

#[test]
fn an_admitted_workload_of_either_version_says_where_its_pods_go() {
    let old = admitted(
        "v1beta1",
        json!({"levels": ["block", "rack"], "domains": [
            {"values": ["b1", "r-1"], "count": 4}, {"values": ["b1", "r-2"], "count": 2}, {"values": ["b1", "r-3"], "count": 2}]}),
    );
    let new = admitted(
        "v1beta2",
        json!({"levels": ["block", "rack"], "slices": [
            {"domainCount": 1, "valuesPerLevel": [{"universalValue": "b1"}, {"universalValue": "r-1"}], "universalPodCount": 4},
            {"domainCount": 2, "valuesPerLevel": [{"universalValue": "b1"}, {"prefix": "r-", "roots": ["2", "3"]}], "podCounts": [2, 2]}]}),
    );
    let seen = workload(&new);
    assert_eq!(workload(&old).assigned, seen.assigned);
    assert_eq!(seen.assigned[0].domains.len(), 3);
    assert_eq!(
        seen.assigned[0]
            .domains
            .iter()
            .map(|domain| domain.count)
            .sum::<u32>(),
        8
    );
    assert_eq!(sets(&seen.pod_sets), [("main", 8, 4, 8)]);
    let topology = seen.pod_sets[0].topology.as_ref().expect("a wish");
    assert_eq!(
        (topology.mode, &*topology.level),
        (ConstraintMode::Required, "block")
    );
    assert_eq!(
        topology
            .slice
            .as_ref()
            .map(|(level, size)| (&**level, *size)),
        Some(("rack", 2))
    );
    assert_eq!(seen.owner.as_ref().map(|owner| &*owner.uid), Some("j1"));
    assert_eq!(
        (seen.queue_name.as_deref(), seen.admitted_by.as_deref()),
        (Some("lq"), Some("nlp"))
    );
    assert_eq!(
        (seen.priority, seen.priority_class.as_deref()),
        (Some(50), Some("mid"))
    );
    assert!(seen.admitted_at > seen.reserved_at && seen.pending.is_none());
    assert_eq!((seen.ready, seen.time_limit), (Some(true), Some(7200)));
    assert!(seen.evictions.is_empty() && seen.checks.is_empty());
}

#[test]
fn a_packed_assignment_never_unpacks_to_more_than_it_says() {
    let seen = workload(&admitted(
        "v1beta2",
        json!({"levels": ["h"], "slices": [
            {"domainCount": 4294967295u64, "valuesPerLevel": [{"roots": ["a", "b"]}], "universalPodCount": 1},
            {"domainCount": 3, "valuesPerLevel": [{"universalValue": "c"}], "universalPodCount": 1},
            {"domainCount": -4, "valuesPerLevel": null}, null, 7]}),
    ));
    assert_eq!(seen.assigned[0].domains.len(), 5);
    let huge = workload(&admitted(
        "v1beta2",
        json!({"slices": [{"domainCount": 4294967295u64, "universalPodCount": 1}, {"domainCount": 4294967295u64}]}),
    ));
    assert_eq!(huge.assigned[0].domains.len(), 100_000);
}

#[test]
fn a_pending_workload_says_why_and_what_befell_it() {
    let base = |conditions: Value, more: Value| {
        let mut object = json!({"metadata": {"name": "w", "namespace": "n", "uid": "u", "creationTimestamp": "2026-11-01T00:00:00Z",
                "annotations": {"kueue.x-k8s.io/priority-boost": "-5"}},
            "spec": {"queueName": "lq", "priority": 10, "priorityClassName": "low"},
            "status": {"conditions": conditions}});
        for (key, value) in more.as_object().into_iter().flatten() {
            object["status"][key] = value.clone();
        }
        workload(&object)
    };
    let fresh = base(json!([]), json!({}));
    assert_eq!(word(&fresh), Some("PendingEvaluation"));
    assert_eq!(
        (fresh.priority, fresh.priority_class.as_deref()),
        (Some(5), Some("low"))
    );
    let evicted = base(
        json!([
            {"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota", "message": "8 more needed"},
            {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "short", "lastTransitionTime": "2026-11-02T00:00:00Z"},
            {"type": "Preempted", "status": "True", "reason": "InCohortReclamation",
                "message": "Preempted to accommodate a workload (UID: 1234-abcd, JobUID: x) due to reclamation within the cohort"},
            {"type": "Requeued", "status": "True", "reason": "Preempted", "lastTransitionTime": "2026-11-02T00:00:05Z"}]),
        json!({"requeueState": {"count": 2, "requeueAt": "2026-11-02T00:05:00Z"},
            "schedulingStats": {"evictions": [
                {"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 3},
                {"reason": "Preempted", "underlyingCause": "InCohortReclamation", "count": 2}, {"count": 0}]}}),
    );
    assert_eq!(word(&evicted), Some("WaitingForQuota"));
    assert_eq!(evicted.evictions.len(), 2);
    let last = &evicted.evictions[0];
    assert_eq!(
        (&*last.reason, &*last.cause, last.count),
        ("Preempted", "InCohortReclamation", 2)
    );
    assert_eq!(last.preemptor.as_deref(), Some("1234-abcd"));
    assert!(last.at.is_some() && evicted.queued_at > last.at);
    assert_eq!(evicted.ordered_at, None, "who is preempted keeps its place");
    let never_ready = base(
        json!([
            {"type": "Evicted", "status": "True", "reason": "PodsReadyTimeout", "lastTransitionTime": "2026-11-02T00:00:00Z"}]),
        json!({}),
    );
    assert!(never_ready.ordered_at.is_some() && never_ready.ordered_at == never_ready.queued_at);
    assert_eq!(evicted.requeue.map(|requeue| requeue.count), Some(2));
    // Where the count names no cause, the condition's is the same eviction.
    let uncaused = base(
        json!([
            {"type": "Evicted", "status": "True", "reason": "Preempted"},
            {"type": "Preempted", "status": "True", "reason": "InCohortReclamation"}]),
        json!({"schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]}}),
    );
    assert_eq!(uncaused.evictions.len(), 1);
    assert_eq!(&*uncaused.evictions[0].cause, "InCohortReclamation");
    let checks = base(
        json!([{"type": "QuotaReserved", "status": "True", "lastTransitionTime": "2026-11-02T00:00:00Z"},
            {"type": "Admitted", "status": "False", "reason": "UnsatisfiedAdmissionChecks", "message": "prov is pending"}]),
        json!({"admissionChecks": [{"name": "prov", "state": "Pending", "message": "ETA 5m"}]}),
    );
    assert_eq!(word(&checks), Some("UnsatisfiedAdmissionChecks"));
    assert_eq!(checks.checks.len(), 1);
    for (reason, outcome) in [
        ("Succeeded", true),
        ("Failed", false),
        ("JobFinished", true),
    ] {
        let done = base(
            json!([{"type": "Finished", "status": "True", "reason": reason}]),
            json!({}),
        );
        assert_eq!((done.outcome, word(&done)), (Some(outcome), None));
    }
    let held = workload(&json!({"metadata": {"name": "w"}, "spec": {"active": false}}));
    assert!(!held.active);
}

#[test]
fn the_visibility_api_gives_queue_positions() {
    let list: PendingList = serde_json::from_value(json!({"kind": "PendingWorkloadsSummary", "items": [
        {"metadata": {"name": "a", "namespace": "ml"}, "priority": 5, "localQueueName": "lq", "positionInClusterQueue": 0, "positionInLocalQueue": 0},
        {"metadata": {"name": "b", "namespace": "ml"}, "positionInClusterQueue": 1, "positionInLocalQueue": 0},
        {"metadata": {}}, null]}))
    .expect("lenient");
    let pending = list.read("nlp", &mut Names::default());
    assert_eq!(&*pending.queue, "nlp");
    let rows: Vec<_> = pending
        .rows
        .iter()
        .map(|(key, at, door)| (&*key.name, *at, *door))
        .collect();
    assert_eq!(rows, [("a", 0, 0), ("b", 1, 0)]);
}

#[test]
fn no_odd_object_is_an_error() {
    let hostile = [
        json!(null),
        json!("text"),
        json!({"metadata": {"name": "x"}}),
        json!({"metadata": {"name": "x", "ownerReferences": {"a": 1}, "annotations": 5}, "spec": [], "status": true}),
        json!({"metadata": {"name": "x"}, "spec": {"resourceGroups": [null, {"flavors": [{"name": 7, "resources": [{}]}, 3]}], "fairSharing": []}}),
        json!({"metadata": {"name": "x"}, "spec": {"resourceGroups": [{"flavors": [{"name": "f", "resources": [
            {"name": "memory", "nominalQuota": "99999999Ei"}, {"name": "nvidia.com/gpu", "nominalQuota": -3, "borrowingLimit": "lots"}]}]}]},
            "status": {"fairSharing": {"weightedShare": -1}, "pendingWorkloads": -2}}),
        json!({"metadata": {"name": "x"}, "spec": {"resources": {"gpu": {"quota": "2", "limit": 1e300, "overQuotaWeight": null}}}}),
        json!({"metadata": {"name": "x"}, "spec": {"podSets": [{"count": 4294967295u64, "minCount": 9e18, "template": template(4294967)}, 1], "priority": 1e99}}),
        json!({"metadata": {"name": "x"}, "spec": {"capability": {"nvidia.com/gpu": {}}, "weight": -1}, "status": {"allocated": [], "conditions": {"type": 1}}}),
        json!({"metadata": {"name": "x"}, "spec": {"selector": null, "levels": {"a": 1}, "tolerations": [[], {"operator": 1}]}}),
    ];
    for value in &hostile {
        let mut names = Names::default();
        let all = [
            read::<QueueObject>(value).project(Table::ClusterQueues, &mut names),
            read::<QueueObject>(value).project(Table::Cohorts, &mut names),
            read::<LocalQueueObject>(value).project(Table::LocalQueues, &mut names),
            read::<FlavorObject>(value).project(Table::ResourceFlavors, &mut names),
            read::<TopologyObject>(value).project(Table::Topologies, &mut names),
            read::<WorkloadObject>(value).project(Table::KueueWorkloads, &mut names),
            read::<VolcanoPodGroupObject>(value).project(Table::VolcanoPodGroups, &mut names),
            read::<VolcanoQueueObject>(value).project(Table::VolcanoQueues, &mut names),
            read::<KaiPodGroupObject>(value).project(Table::KaiPodGroups, &mut names),
            read::<KaiQueueObject>(value).project(Table::KaiQueues, &mut names),
            read::<GangObject>(value).project(Table::Workloads, &mut names),
            read::<GangObject>(value).project(Table::PodGroups, &mut names),
            read::<BudgetObject>(value).project(Table::Budgets, &mut names),
            read::<PriorityClassObject>(value).project(Table::PriorityClasses, &mut names),
        ];
        let named = value.pointer("/metadata/name").is_some();
        assert!(all.iter().all(|seen| seen.is_some() == named), "{value}");
        for seen in all.into_iter().flatten() {
            if let Observation::Queue(_, queue) = seen {
                let amounts = |quota: &model::fleet::queue::Quota| {
                    [quota.nominal, quota.borrow_limit, quota.cap, quota.used]
                };
                assert!(
                    queue
                        .quotas
                        .iter()
                        .flat_map(amounts)
                        .flatten()
                        .all(|amount| amount >= 0),
                    "{queue:?}"
                );
            }
        }
    }
}

#[test]
fn a_workload_says_its_worker_cluster_what_it_uses_and_what_it_gives_back() {
    let object = |status: Value| json!({"metadata": {"name": "w", "namespace": "ml"}, "spec": {}, "status": status});
    let seen = workload(&object(json!({
        "clusterName": "worker-1",
        "reclaimablePods": [{"name": "main", "count": 5}, {"count": 1}],
        "admission": {"clusterQueue": "nlp", "podSetAssignments": [
            {"name": "main", "count": 8, "flavors": {"whole-gpus": "any"}, "resourceUsage": {"whole-gpus": "8", "memory": "64Gi"}}]},
    })));
    assert_eq!(seen.cluster.as_deref(), Some("worker-1"));
    let main = Name::new("main");
    assert_eq!(*seen.reclaimable, [(main.clone(), 5), (main.clone(), 1)]);
    assert_eq!(
        *seen.assigned[0].usage,
        [
            (Name::new("memory"), (64 << 30) * 1000),
            (Name::new("whole-gpus"), 8_000)
        ]
    );
    let pending = workload(&object(json!({
        "resourceRequests": [{"name": "main", "resources": {"whole-gpus": "1"}}],
        "admissionChecks": [{"name": "mk", "state": "Pending", "message": "The workload got reservation on \"worker-2\""}],
    })));
    assert_eq!(pending.cluster.as_deref(), Some("worker-2"));
    assert_eq!(*pending.requests[0].1, [(Name::new("whole-gpus"), 1_000)]);
    let other = workload(&object(
        json!({"admissionChecks": [{"name": "mk", "state": "Pending", "message": "waits for \"a\""}]}),
    ));
    assert_eq!(other.cluster, None);
}
