//! What the partial objects make of well-formed, odd and hostile JSON.

mod claims;
mod gangs;
mod jobs;
mod queues;
mod scaling;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::node::{NamespaceObject, NodeObject};
use super::pod::PodObject;
use super::workloads::job::{JobObject, JobSetObject};
use super::workloads::workload::ReplicatedObject;
use super::*;
use model::base::Moment;
use model::fleet::observe::{Claimed, DevicePart, NodeSeen, Phase, PodSeen, WorkloadSeen};

pub(super) fn read<T: Projected + DeserializeOwned>(value: &Value) -> T {
    serde_json::from_str(&value.to_string()).expect("lenient reading never fails on JSON")
}

fn node(value: &Value) -> NodeSeen {
    match read::<NodeObject>(value).project(Table::Nodes, &mut Names::default()) {
        Some(Observation::Node(node)) => *node,
        other => panic!("not a node: {other:?}"),
    }
}

fn pod(value: &Value) -> PodSeen {
    read::<PodObject>(value)
        .seen(false, &mut Names::default())
        .expect("a pod with a name")
}

pub(super) fn workload<T: Projected + DeserializeOwned>(
    table: Table,
    value: &Value,
) -> WorkloadSeen {
    match read::<T>(value).project(table, &mut Names::default()) {
        Some(Observation::Workload(seen)) => *seen,
        other => panic!("not a workload: {other:?}"),
    }
}

#[test]
fn a_node_is_projected() {
    let seen = node(&json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "a-1", "uid": "u1", "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
            "annotations": {"stokehold.dev/cordoned-by": "mara", "other.io/blob": "x"},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]},
        "spec": {"providerID": "aws:///z/i-1", "unschedulable": true,
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule",
                "timeAdded": "2026-11-01T00:00:01Z"}, {"value": "no key"}]},
        "status": {
            "capacity": {"cpu": "192", "memory": "2Gi", "nvidia.com/gpu": "8", "nvidia.com/gpumem": "81920", "pods": "110"},
            "allocatable": {"cpu": "191500m", "memory": "1Gi", "nvidia.com/gpu": "7"},
            "conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.", "lastTransitionTime": "2026-11-02T00:00:00Z"}]}
    }));
    assert_eq!((&*seen.name, &*seen.uid), ("a-1", "u1"));
    assert!(seen.unschedulable);
    assert_eq!(seen.provider_id.as_deref(), Some("aws:///z/i-1"));
    assert_eq!(seen.capacity.device("nvidia.com/gpu"), Some(8));
    assert_eq!(seen.capacity.device_count(), 8, "gpumem is no device");
    assert_eq!(seen.allocatable.cpu_milli, 191_500);
    assert_eq!(seen.allocatable.device("nvidia.com/gpu"), Some(7));
    assert_eq!(seen.taints.len(), 1);
    assert_eq!(seen.annotations.len(), 1);
    assert_eq!(seen.conditions[0].status, None);
    assert_eq!(
        seen.conditions[0].since,
        Moment::parse("2026-11-02T00:00:00Z")
    );
}

#[test]
fn neuron_silicon_counts_once() {
    let seen = node(
        &json!({"metadata": {"name": "trn"}, "status": {"capacity": {
        "aws.amazon.com/neuron": "16", "aws.amazon.com/neurondevice": "16", "aws.amazon.com/neuroncore": "32"}}}),
    );
    assert_eq!(seen.capacity.device_count(), 16);
    let cores = node(
        &json!({"metadata": {"name": "trn"}, "status": {"capacity": {
        "aws.amazon.com/neuron": "0", "aws.amazon.com/neuroncore": "32"}}}),
    );
    assert_eq!(cores.capacity.device("aws.amazon.com/neuroncore"), Some(32));
}

#[test]
fn a_pod_asks_for_the_most_it_ever_needs() {
    let seen = pod(&json!({
        "metadata": {"name": "p", "namespace": "ml"},
        "spec": {
            "initContainers": [
                {"name": "fetch", "resources": {"requests": {"cpu": "4", "memory": "1Gi"}}},
                {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
                {"name": "warm", "resources": {"requests": {"cpu": "6"}, "limits": {"nvidia.com/gpu": "1"}}}],
            "containers": [
                {"name": "train", "resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "3"}, "requests": {"cpu": "2"}}},
                {"name": "side", "resources": {"requests": {"cpu": "1", "memory": "2Gi"}}}],
            "overhead": {"cpu": "250m"}}
    }));
    // Init `warm` runs beside the sidecar: 6.5 cores, more than 2 + 1 + 0.5; plus the sandbox.
    assert_eq!(seen.requests.cpu_milli, 6_750);
    assert_eq!(seen.requests.memory_bytes, 2 << 30);
    assert_eq!(seen.requests.device("nvidia.com/gpu"), Some(8));
}

#[test]
fn a_running_pod_is_projected() {
    let seen = pod(&json!({
        "metadata": {"name": "p", "namespace": "ml", "uid": "u", "labels": {"team": "nlp"},
            "ownerReferences": [{"kind": "Old", "name": "x"}, {"kind": "Job", "name": "train", "uid": "j", "controller": true}],
            "deletionTimestamp": "2026-11-03T00:00:00Z"},
        "spec": {"nodeName": "a-1", "priority": 1000, "nodeSelector": {"pool": "h100"},
            "containers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]},
        "status": {"phase": "Running", "podIP": "10.1.2.3", "startTime": "2026-11-01T00:00:10Z",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-01T00:00:05Z"},
                {"type": "Ready", "status": "True"}],
            "containerStatuses": [{"restartCount": 0, "state": {"running": {"startedAt": "2026-11-01T00:01:00Z"}},
                "allocatedResourcesStatus": [
                    {"name": "nvidia.com/mig-1g.10gb", "resources": [{"resourceID": "MIG-1", "health": "Healthy"}]},
                    {"name": "claim:gpu/one", "resources": [{"resourceID": "gpu.nvidia.com/a-1/gpu-0"}]},
                    {"name": "example.com/nic", "resources": [{"resourceID": "nic-0"}]}]}]}
    }));
    assert_eq!(seen.owner.as_ref().map(|owner| &*owner.kind), Some("Job"));
    assert_eq!(
        (seen.priority, seen.phase, seen.ready),
        (1000, Phase::Running, true)
    );
    assert_eq!(seen.scheduled, Moment::parse("2026-11-01T00:00:05Z"));
    assert_eq!(seen.started, Moment::parse("2026-11-01T00:01:00Z"));
    assert!(seen.deleted.is_some() && seen.failure.is_none() && seen.unschedulable.is_none());
    assert_eq!(
        seen.claimed,
        [
            Claimed::Id("MIG-1".into()),
            Claimed::Claim("gpu.nvidia.com".into(), "a-1".into(), "gpu-0".into())
        ]
    );
    assert_eq!(seen.labels.get("team").map(|team| &**team), Some("nlp"));
}

#[test]
fn labels_are_kept_only_where_they_are_read() {
    let value = json!({"metadata": {"name": "p", "labels": {"app": "web"}}});
    assert!(pod(&value).labels.is_empty());
    let served = read::<PodObject>(&value)
        .seen(true, &mut Names::default())
        .expect("named");
    assert_eq!(served.labels.len(), 1);
}

#[test]
fn failures_say_what_happened() {
    let crash = pod(
        &json!({"metadata": {"name": "p"}, "status": {"phase": "Running", "containerStatuses": [{
        "restartCount": 7,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-01T00:00:00Z"}}}]}}),
    );
    let failure = crash.failure.expect("it crashes");
    assert_eq!((failure.exit_code, failure.restarts), (Some(137), 7));
    assert_eq!(&*failure.message, "CrashLoopBackOff: OOMKilled");
    assert!(!failure.own_words, "the kubelet wrote that");
    assert_eq!(
        failure.ended.map(|at| at.rfc3339()).as_deref(),
        Some("2026-11-01T00:00:00Z")
    );

    assert_eq!(failure.restarted, None, "it does not run");

    let again = pod(
        &json!({"metadata": {"name": "p"}, "status": {"phase": "Running", "containerStatuses": [{
        "restartCount": 1,
        "state": {"running": {"startedAt": "2026-11-01T00:05:00Z"}},
        "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-01T00:00:00Z"}}}]}}),
    );
    let failure = again.failure.expect("it restarted");
    assert_eq!(&*failure.message, "OOMKilled");
    let at = failure.restarted.expect("it runs again");
    assert_eq!(at.rfc3339(), "2026-11-01T00:05:00Z");

    let evicted = pod(
        &json!({"metadata": {"name": "p"}, "status": {"phase": "Failed", "reason": "Evicted",
        "message": "The node was low on resource: memory.\nsecond line", "startTime": "2026-11-01T00:00:00Z"}}),
    );
    let failure = evicted.failure.expect("it was evicted");
    assert_eq!(
        &*failure.message,
        "Evicted: The node was low on resource: memory."
    );
    assert!(failure.last_eviction.is_some() && failure.exit_code.is_none());

    let preempted = pod(
        &json!({"metadata": {"name": "p"}, "status": {"phase": "Running", "conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "lastTransitionTime": "2026-11-01T00:00:00Z"}]}}),
    );
    assert_eq!(
        &*preempted.failure.expect("it is disrupted").message,
        "PreemptionByScheduler"
    );

    let ended = pod(
        &json!({"metadata": {"name": "p"}, "status": {"phase": "Failed", "containerStatuses": [
        {"state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no such file"}}}]}}),
    );
    let failure = ended.failure.expect("it ended badly");
    assert_eq!(&*failure.message, "Error: no such file");
    assert!(failure.own_words, "the container wrote that");

    let starting = pod(
        &json!({"metadata": {"name": "p"}, "status": {"phase": "Pending", "containerStatuses": [
        {"state": {"waiting": {"reason": "ContainerCreating"}}}]}}),
    );
    assert_eq!(starting.failure, None);
    let well = pod(
        &json!({"metadata": {"name": "p"}, "status": {"phase": "Succeeded", "containerStatuses": [
        {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}}),
    );
    assert_eq!(well.failure, None);
}

#[test]
fn a_waiting_pod_says_why() {
    let seen = pod(
        &json!({"metadata": {"name": "p"}, "status": {"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/20 nodes are available"}]}}),
    );
    let (reason, message) = seen.unschedulable.expect("it is not placed");
    assert_eq!(
        (&*reason, &*message),
        ("Unschedulable", "0/20 nodes are available")
    );
}

#[test]
fn null_and_wrong_types_lose_a_field_and_no_more() {
    let seen = pod(&json!({
        "metadata": {"name": "p", "namespace": null, "labels": null, "ownerReferences": {"no": "list"}, "uid": 7},
        "spec": {"nodeName": ["a"], "priority": "high", "containers": null, "initContainers": [null, 3, {"resources": null}],
            "overhead": "much"},
        "status": {"phase": "Running", "conditions": [null, {"type": "Ready", "status": "True", "lastTransitionTime": 5}],
            "containerStatuses": [{"state": "running", "restartCount": 1.5}], "podIP": null}
    }));
    assert_eq!(
        (&*seen.key.name, &*seen.key.namespace, &*seen.uid),
        ("p", "", "")
    );
    assert_eq!(
        (seen.phase, seen.ready, seen.priority),
        (Phase::Running, true, 0)
    );
    assert_eq!((seen.node, seen.owner, seen.ip), (None, None, None));
}

#[test]
fn a_job_has_its_width_and_its_gang() {
    let template = json!({"spec": {"priorityClassName": "high", "containers": [{"resources": {"limits": {"nvidia.com/gpu": 8}}}]}});
    let gang = workload::<JobObject>(
        Table::Jobs,
        &json!({"metadata": {"name": "j", "namespace": "ml"},
        "spec": {"parallelism": 4, "completions": 4, "completionMode": "Indexed", "suspend": true, "template": template},
        "status": {"startTime": "2026-11-01T00:00:00Z", "failed": 2,
            "conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-11-01T01:00:00Z"}]}}),
    );
    assert_eq!(
        (gang.pods, gang.gang_min, gang.suspended),
        (4, Some(4), true)
    );
    assert_eq!(
        (gang.per_pod.device_count(), gang.total.device_count()),
        (8, 32)
    );
    assert_eq!((gang.outcome, gang.failed_pods), (Some(false), 2));
    assert_eq!(gang.finished, Moment::parse("2026-11-01T01:00:00Z"));
    assert_eq!(gang.priority_class.as_deref(), Some("high"));

    let sweep = workload::<JobObject>(
        Table::Jobs,
        &json!({"metadata": {"name": "s"},
        "spec": {"parallelism": 10, "completions": 12, "template": template}, "status": {"succeeded": 9}}),
    );
    assert_eq!(
        (sweep.pods, sweep.gang_min, sweep.total.device_count()),
        (3, None, 24)
    );
    let single = workload::<JobObject>(
        Table::Jobs,
        &json!({"metadata": {"name": "one"}, "spec": {"template": template}}),
    );
    assert_eq!((single.pods, single.gang_min), (1, None));
    let done = workload::<JobObject>(
        Table::Jobs,
        &json!({"metadata": {"name": "d"}, "status": {
        "completionTime": "2026-11-01T02:00:00Z", "conditions": [{"type": "Complete", "status": "True"}]}}),
    );
    assert_eq!(
        (done.outcome, done.finished),
        (Some(true), Moment::parse("2026-11-01T02:00:00Z"))
    );
}

#[test]
fn a_jobset_is_one_gang() {
    let pods = |gpus: &str| json!({"spec": {"containers": [{"resources": {"limits": {"google.com/tpu": gpus}}}]}});
    let seen = workload::<JobSetObject>(
        Table::JobSets,
        &json!({"metadata": {"name": "js", "namespace": "ml"},
        "spec": {"replicatedJobs": [
            {"name": "leader", "template": {"spec": {"template": {"spec": {"containers": [{"resources": {"requests": {"cpu": 2}}}]}}}}},
            {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 4, "completions": 4, "template": pods("4")}}}]},
        "status": {"conditions": [{"type": "Completed", "status": "False"}], "replicatedJobsStatus": [{"name": "w", "failed": 1}]}}),
    );
    assert_eq!((seen.pods, seen.gang_min), (9, Some(9)));
    assert_eq!(
        (seen.per_pod.device_count(), seen.total.device_count()),
        (4, 32)
    );
    assert_eq!(
        (seen.total.cpu_milli, seen.outcome, seen.failed_pods),
        (2000, None, 1)
    );
    assert_eq!(&*seen.kind, "JobSet");
}

/// The pods of a role that has ended well are not created again: the gang is what is left. Restarts are the controller's own count.
#[test]
fn a_jobset_of_which_a_role_has_ended_is_the_rest_of_it() {
    let pods =
        json!({"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}});
    let role = |name: &str, replicas: u32, width: u32| {
        json!({"name": name, "replicas": replicas,
        "template": {"spec": {"parallelism": width, "completions": width, "template": pods}}})
    };
    let seen = |conditions: Value| {
        workload::<JobSetObject>(
            Table::JobSets,
            &json!({"metadata": {"name": "js", "namespace": "ml"},
            "spec": {"replicatedJobs": [role("prepare", 1, 2), role("train", 3, 4)]},
            "status": {"restarts": 3, "conditions": conditions,
                "replicatedJobsStatus": [{"name": "train", "succeeded": 1}, {"name": "prepare", "succeeded": 1}]}}),
        )
    };
    let runs = seen(json!([]));
    assert_eq!((runs.pods, runs.gang_min, runs.restarts), (8, Some(8), 3));
    assert_eq!(runs.total.device_count(), 64);
    let done = seen(json!([{"type": "Completed", "status": "True"}]));
    assert_eq!(
        (done.pods, done.outcome),
        (14, Some(true)),
        "its whole size"
    );
}

#[test]
fn replicas_default_to_one_and_daemons_to_none() {
    let spec = json!({"template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}});
    let set = workload::<ReplicatedObject>(
        Table::StatefulSets,
        &json!({"metadata": {"name": "s"}, "spec": spec}),
    );
    assert_eq!(
        (set.pods, set.gang_min, set.total.device_count()),
        (1, None, 1)
    );
    let none = workload::<ReplicatedObject>(
        Table::Deployments,
        &json!({"metadata": {"name": "d"}, "spec": {"replicas": 0, "template": spec["template"]}}),
    );
    assert_eq!((none.pods, none.total.device_count()), (0, 0));
    let daemons = workload::<ReplicatedObject>(
        Table::DaemonSets,
        &json!({"metadata": {"name": "d"}, "spec": spec, "status": {"desiredNumberScheduled": 20}}),
    );
    assert_eq!(daemons.pods, 20);
}

#[test]
fn absurd_numbers_do_not_overflow() {
    let seen = workload::<JobSetObject>(
        Table::JobSets,
        &json!({"metadata": {"name": "js"}, "spec": {"replicatedJobs": [
        {"replicas": 4_000_000_000u32, "template": {"spec": {"parallelism": 4_000_000_000u32, "template": {"spec": {"containers": [
            {"resources": {"limits": {"nvidia.com/gpu": "5000000000", "amd.com/gpu": 4_000_000_000u32, "cpu": "-5", "memory": "9E"}}}]}}}}},
        {"replicas": -1}]}}),
    );
    assert_eq!(
        (seen.pods, seen.per_pod.device_count()),
        (u32::MAX, u32::MAX)
    );
    assert_eq!(seen.total.cpu_milli, 0);
}

#[test]
fn an_object_without_a_name_says_nothing() {
    let mut names = Names::default();
    assert!(
        read::<NodeObject>(&json!({"metadata": {}}))
            .project(Table::Nodes, &mut names)
            .is_none()
    );
    assert!(
        read::<NamespaceObject>(&json!([1, 2]))
            .project(Table::Namespaces, &mut names)
            .is_none()
    );
    assert!(
        read::<JobObject>(&json!("job"))
            .project(Table::Jobs, &mut names)
            .is_none()
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        Just(json!("2026-11-01T00:00:00Z")),
        Just(json!("8Gi")),
    ];
    let keys = prop::sample::select(vec![
        "metadata",
        "name",
        "namespace",
        "labels",
        "annotations",
        "ownerReferences",
        "spec",
        "status",
        "containers",
        "initContainers",
        "resources",
        "requests",
        "limits",
        "nvidia.com/gpu",
        "conditions",
        "type",
        "containerStatuses",
        "state",
        "terminated",
        "exitCode",
        "replicatedJobs",
        "template",
        "parallelism",
        "capacity",
        "taints",
        "other",
    ]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((keys.clone(), inner), 0..6).prop_map(|pairs| Value::Object(
                pairs
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_json_is_read_by_every_partial(value in any_json()) {
        let mut names = Names::default();
        let _ = read::<NodeObject>(&value).project(Table::Nodes, &mut names);
        let _ = read::<PodObject>(&value).seen(true, &mut names);
        let _ = read::<JobObject>(&value).project(Table::Jobs, &mut names);
        let _ = read::<JobSetObject>(&value).project(Table::JobSets, &mut names);
        let _ = read::<ReplicatedObject>(&value).project(Table::Deployments, &mut names);
        let _ = read::<NamespaceObject>(&value).project(Table::Namespaces, &mut names);
    }

    #[test]
    fn a_named_object_survives_any_spec_and_status(spec in any_json(), status in any_json()) {
        let value = json!({"metadata": {"name": "kept"}, "spec": spec, "status": status});
        prop_assert_eq!(&*node(&value).name, "kept");
        prop_assert_eq!(&*pod(&value).key.name, "kept");
        prop_assert_eq!(&*workload::<JobSetObject>(Table::JobSets, &value).key.name, "kept");
    }
}

#[test]
fn a_fraction_of_kai_is_a_request_and_its_placeholder_has_none() {
    let pod = |annotations: Value, scheduler: &str, labels: Value, limits: Value| {
        let object = json!({"metadata": {"name": "p", "namespace": "ml", "annotations": annotations, "labels": labels},
            "spec": {"schedulerName": scheduler, "containers": [{"resources": {"limits": limits}}]}});
        match seen(Table::Pods, &object, &mut Names::default()) {
            Some(Observation::Pod(pod)) => pod,
            other => panic!("{other:?}"),
        }
    };
    let asks =
        |annotations: Value| pod(annotations, "kai-scheduler", json!({}), json!({})).requests;
    let two = asks(json!({"gpu-fraction": "0.6", "gpu-fraction-num-devices": "2"}));
    assert_eq!(
        (two.device("nvidia.com/gpu"), two.part),
        (Some(2), Some(DevicePart::Milli(600)))
    );
    let memory = asks(json!({"gpu-memory": "2000"}));
    assert_eq!(
        (memory.device_count(), memory.part),
        (1, Some(DevicePart::MemoryMib(2000)))
    );
    for odd in [
        json!({"gpu-fraction": "1.5"}),
        json!({"gpu-fraction": "x"}),
        json!({"gpu-memory": "-1"}),
        json!({}),
    ] {
        assert!(!asks(odd.clone()).wants_devices(), "{odd}");
    }
    let half = json!({"gpu-fraction": "0.5"});
    assert!(
        !pod(half, "default-scheduler", json!({}), json!({}))
            .requests
            .wants_devices()
    );
    let placeholder = pod(
        json!({"run.ai/reserve_for_gpu_index": "3"}),
        "default-scheduler",
        json!({"app": "kai-resource-reservation", "runai-gpu-group": "g1"}),
        json!({"nvidia.com/gpu": "1"}),
    );
    assert!(!placeholder.requests.wants_devices());
    let reserved = placeholder
        .reserves
        .as_deref()
        .expect("it holds a device for others");
    assert_eq!(
        (reserved.group.as_str(), reserved.device.as_deref()),
        ("g1", Some("3"))
    );
}
