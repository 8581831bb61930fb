//! Queues and PodGroups of Volcano, KAI and the core, in every version that is served.

use serde_json::{Value, json};

use crate::queues::gang::GangObject;
use crate::queues::kai::{KaiPodGroupObject, KaiQueueObject};
use crate::queues::volcano::{VolcanoPodGroupObject, VolcanoQueueObject};
use crate::tests::queues::{group, queue, word};
use crate::*;
use model::fleet::queue::{Reclaim, Stop, Strategy};
use model::fleet::siting::ConstraintMode;

#[test]
fn volcano_groups_and_queues_are_read() {
    let pod_group = |status: Value| {
        group::<VolcanoPodGroupObject>(
            Table::VolcanoPodGroups,
            &json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "metadata": {"name": "pg", "namespace": "n", "uid": "g",
                    "creationTimestamp": "2026-11-01T00:00:00Z",
                    "ownerReferences": [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "v", "uid": "v1", "controller": true}]},
                "spec": {"minMember": 4, "queue": "research", "priorityClassName": "high",
                    "networkTopology": {"mode": "soft", "highestTierName": "rack"}},
                "status": status}),
        )
    };
    let waiting = pod_group(json!({"phase": "Pending"}));
    assert_eq!(
        (waiting.gang_min, waiting.queue_name.as_deref()),
        (Some(4), Some("research"))
    );
    assert_eq!(
        waiting.owner.as_ref().map(|owner| &*owner.kind),
        Some("VolcanoJob")
    );
    assert_eq!(word(&waiting), Some("Pending"));
    assert_eq!(
        waiting.topology.as_ref().map(|topology| topology.mode),
        Some(ConstraintMode::Preferred)
    );
    let refused = pod_group(json!({"phase": "Inqueue", "conditions": [
        {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "4/4 tasks unschedulable",
            "lastTransitionTime": "2026-11-01T01:00:00Z"}]}));
    assert_eq!(word(&refused), Some("NotEnoughResources"));
    assert!(refused.reserved_at.is_some() && refused.admitted_at.is_none());
    let running = pod_group(json!({"phase": "Running", "conditions": [
        {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "lastTransitionTime": "2026-11-01T01:00:00Z"},
        {"type": "Scheduled", "status": "True", "lastTransitionTime": "2026-11-01T02:00:00Z"}]}));
    assert_eq!(word(&running), None);
    assert!(running.admitted_at.is_some());
    let seen = queue::<VolcanoQueueObject>(
        Table::VolcanoQueues,
        &json!({"metadata": {"name": "research"}, "spec": {"weight": 4, "parent": "root", "priority": 7, "reclaimable": false,
                "dequeueStrategy": "fifo", "capability": {"nvidia.com/gpu": 32},
                "deserved": {"nvidia.com/gpu": "16", "cpu": "64"}, "guarantee": {"resource": {"nvidia.com/gpu": "4"}}},
            "status": {"state": "Closing", "allocated": {"nvidia.com/gpu": "20", "cpu": "8", "memory": "1Gi"},
                "pending": 2, "inqueue": 1, "running": 3}}),
    );
    let gpus = seen
        .quotas
        .iter()
        .find(|quota| &*quota.resource == "nvidia.com/gpu")
        .expect("GPUs");
    assert_eq!(
        (gpus.nominal, gpus.lend_limit, gpus.cap),
        (Some(16_000), Some(12_000), Some(32_000))
    );
    assert_eq!((gpus.used, gpus.borrowed), (Some(20_000), Some(4_000)));
    let root = queue::<VolcanoQueueObject>(
        Table::VolcanoQueues,
        &json!({"metadata": {"name": "root"}, "status": {"state": "Open", "allocated": {"nvidia.com/gpu": "8"}}}),
    );
    let own = (root.quotas.iter()).map(|quota| (quota.nominal, quota.used, quota.borrowed));
    assert!(
        own.eq([(None, Some(8_000), None)]),
        "what it owns is not told"
    );
    assert!(
        !seen.quotas.iter().any(|quota| &*quota.resource == "memory"),
        "nothing bounds it"
    );
    assert_eq!(
        (seen.weight, seen.priority, seen.reclaimable),
        (Some(4.0), Some(7), false)
    );
    assert_eq!((seen.stop, seen.strategy), (Stop::Hold, Strategy::Strict));
    assert_eq!(
        (
            seen.counts.pending,
            seen.counts.reserving,
            seen.counts.admitted
        ),
        (Some(2), Some(4), Some(3))
    );
}

#[test]
fn kai_groups_and_queues_are_read() {
    let pod_group = |spec: Value, status: Value| {
        group::<KaiPodGroupObject>(
            Table::KaiPodGroups,
            &json!({"apiVersion": "scheduling.run.ai/v2alpha2", "metadata": {"name": "pg-x", "namespace": "n", "uid": "g",
                    "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j1"}]},
                "spec": spec, "status": status}),
        )
    };
    let stuck = pod_group(
        json!({"minMember": 8, "queue": "team-a", "priorityClassName": "train", "preemptibility": "non-preemptible",
            "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack", "preferredTopologyLevel": "host"}}),
        json!({"pending": 8, "schedulingConditions": [
            {"type": "UnschedulableOnNodePool", "nodePool": "default", "reason": "Unschedulable", "message": "old",
                "lastTransitionTime": "2026-11-01T00:00:00Z",
                "reasons": [{"reason": "NonPreemptibleOverQuota", "message": "queue team-a is over quota", "details": {"queueDetails": {}}}]}]}),
    );
    assert_eq!(
        stuck.owner.as_ref().map(|owner| &*owner.name),
        Some("train"),
        "its only owner counts"
    );
    assert_eq!((stuck.gang_min, stuck.preemptible), (Some(8), Some(false)));
    assert_eq!(word(&stuck), Some("NonPreemptibleOverQuota"));
    assert_eq!(
        stuck.topology.as_ref().map(|topology| &*topology.level),
        Some("rack")
    );
    let older = pod_group(
        json!({"subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 3}]}),
        json!({"schedulingConditions": [{"reason": "Unschedulable", "message": "no node fits"}]}),
    );
    assert_eq!(
        (older.gang_min, word(&older)),
        (Some(4), Some("Unschedulable"))
    );
    let running = pod_group(
        json!({}),
        json!({"running": 1, "schedulingConditions": [{"reason": "Unschedulable"}]}),
    );
    assert_eq!((word(&running), running.preemptible), (None, None));
    let seen = queue::<KaiQueueObject>(
        Table::KaiQueues,
        &json!({"apiVersion": "scheduling.run.ai/v2", "metadata": {"name": "team-a"}, "spec": {"parentQueue": "dept", "priority": 200,
                "preemptMinRuntime": "1h30m", "reclaimMinRuntime": "90.5s",
                "resources": {"gpu": {"quota": 2.5, "limit": 8, "overQuotaWeight": 3},
                    "cpu": {"quota": -1, "limit": -1}, "memory": {"quota": 4000, "limit": 0}}},
            "status": {"allocated": {"nvidia.com/gpu": "3500m", "cpu": "12", "memory": "5G"}}}),
    );
    let cells: Vec<_> = seen
        .quotas
        .iter()
        .map(|quota| {
            (
                &*quota.resource,
                quota.nominal,
                quota.cap,
                quota.used,
                quota.borrowed,
            )
        })
        .collect();
    assert_eq!(
        cells,
        [
            (
                "devices",
                Some(2_500),
                Some(8_000),
                Some(3_500),
                Some(1_000)
            ),
            ("cpu", None, None, Some(12_000), Some(0)),
            (
                "memory",
                Some(4_000_000_000),
                Some(4_000_000_000),
                Some(5_000_000_000),
                Some(1_000_000_000)
            ),
        ]
    );
    assert_eq!(
        (seen.parent.as_deref(), seen.weight, seen.priority),
        (Some("dept"), Some(3.0), Some(200))
    );
    assert_eq!(seen.preemption.reclaim, Reclaim::Any);
    let least = |seen: &model::fleet::queue::Queue| {
        let rules = &seen.preemption;
        (rules.min_runtime_ms, rules.reclaim_min_runtime_ms)
    };
    assert_eq!(least(&seen), (Some(5_400_000), Some(90_500)));
    for (text, millis) in [
        ("0", Some(0)),
        ("1m0.25s", Some(60_250)),
        ("1500µs", Some(1)),
        ("", None),
        ("soon", None),
        ("5", None),
        (".h", None),
        ("-1h", None),
        ("9999999999999999999h", None),
        ("1.9999999999999999999999999s", None),
    ] {
        let spec = json!({"metadata": {"name": "q"}, "spec": {"preemptMinRuntime": text}});
        let seen = queue::<KaiQueueObject>(Table::KaiQueues, &spec);
        assert_eq!(least(&seen), (millis, None), "{text}");
    }
}

#[test]
fn the_three_shapes_of_the_core_gang_say_the_same() {
    let controller = json!({"apiGroup": "batch", "kind": "Job", "name": "train"});
    let v1alpha1 = json!({"apiVersion": "scheduling.k8s.io/v1alpha1", "metadata": {"name": "w", "namespace": "n", "uid": "g"},
        "spec": {"controllerRef": controller, "podGroups": [{"name": "a", "policy": {"gang": {"minCount": 4}}}]}});
    let v1alpha2 = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "metadata": {"name": "w", "namespace": "n", "uid": "g"},
        "spec": {"controllerRef": controller, "podGroupTemplates": [{"name": "a", "schedulingPolicy": {"gang": {"minCount": 4}}}]}});
    let old = group::<GangObject>(Table::Workloads, &v1alpha1);
    assert_eq!(old, group::<GangObject>(Table::Workloads, &v1alpha2));
    assert_eq!(old.gang_min, Some(4));
    assert_eq!(
        old.owner.as_ref().map(|owner| (&*owner.kind, &*owner.uid)),
        Some(("Job", ""))
    );
    let several = json!({"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [
        {"schedulingPolicy": {"gang": {"minCount": 4}}}, {"schedulingPolicy": {"basic": {}}}]}});
    assert_eq!(
        group::<GangObject>(Table::Workloads, &several).gang_min,
        None
    );
    let pod_group = |condition: &str, status: &str| {
        group::<GangObject>(
            Table::PodGroups,
            &json!({"metadata": {"name": "pg", "namespace": "n", "ownerReferences": [{"kind": "Job", "name": "train", "uid": "j1", "controller": true}]},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}, "schedulingConstraints": {"topology": [{"key": "rack"}]},
                    "priority": 100, "priorityClassName": "high", "disruptionMode": "all"},
                "status": {"conditions": [{"type": condition, "status": status, "reason": "Unschedulable", "message": "no room",
                        "lastTransitionTime": "2026-11-01T00:00:00Z"},
                    {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "lastTransitionTime": "2026-11-01T00:00:00Z"}]}}),
        )
    };
    for condition in ["PodGroupScheduled", "PodGroupInitiallyScheduled"] {
        let waiting = pod_group(condition, "False");
        assert_eq!(
            (waiting.gang_min, word(&waiting)),
            (Some(4), Some("Unschedulable"))
        );
        assert_eq!(
            waiting.topology.as_ref().map(|topology| &*topology.level),
            Some("rack")
        );
        assert_eq!(waiting.evictions.len(), 1);
        let placed = pod_group(condition, "True");
        assert!(placed.admitted_at.is_some() && placed.pending.is_none());
    }
    assert_eq!(pod_group("Other", "True").priority, Some(100));
}
