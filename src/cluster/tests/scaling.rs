//! Decoding of the objects that add and remove nodes and pods.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::*;
use model::base::Moment;
use model::fleet::scaling::{
    GroupsSeen, MetricOf, NodeClaim, PodScaler, PolicySelect, Provision, ProvisionState, Scaler,
    ScalerState, ScalingPolicy, Stage,
};

fn decoded(table: Table, value: Value) -> Option<Observation> {
    seen(table, &value, &mut Names::default())
}

fn node_pool(value: Value) -> Scaler {
    match decoded(Table::NodePools, value) {
        Some(Observation::NodePool(pool)) => *pool,
        other => panic!("{other:?}"),
    }
}

fn node_claim(value: Value) -> NodeClaim {
    match decoded(Table::NodeClaims, value) {
        Some(Observation::NodeClaim(claim)) => *claim,
        other => panic!("{other:?}"),
    }
}

fn provision(value: Value) -> Provision {
    match decoded(Table::ProvisioningRequests, value) {
        Some(Observation::Provision(provision)) => *provision,
        other => panic!("{other:?}"),
    }
}

fn pod_scaler(value: Value) -> PodScaler {
    match decoded(Table::PodAutoscalers, value) {
        Some(Observation::PodScaler(scaler)) => *scaler,
        other => panic!("{other:?}"),
    }
}

fn groups(status: &str, updated: Option<&str>) -> GroupsSeen {
    let mut value = json!({"metadata": {"name": "cluster-autoscaler-status", "namespace": "kube-system"}, "data": {"status": status}});
    if let Some(at) = updated {
        value["metadata"]["annotations"] =
            json!({"cluster-autoscaler.kubernetes.io/last-updated": at});
    }
    match decoded(Table::NodeGroups, value) {
        Some(Observation::NodeGroups(seen)) => *seen,
        other => panic!("{other:?}"),
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-11-20T08:00:00Z"})
}

fn at(text: &str) -> Option<Moment> {
    Some(Moment::parse(text).expect("a moment"))
}

#[test]
fn a_node_pool_says_how_far_it_may_go() {
    let pool = node_pool(json!({
        "metadata": {"name": "h100"},
        "spec": {
            "limits": {"nvidia.com/gpu": "64", "cpu": 1000},
            "weight": 10,
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m", "budgets": [
                {"nodes": "10%"}, {"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}]},
            "template": {
                "metadata": {"labels": {"team": "research"}},
                "spec": {"requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]},
                    {"key": "some", "operator": "Beyond", "values": ["1"]}]}}},
        "status": {"resources": {"nvidia.com/gpu": "40", "cpu": "960", "nodes": "5"},
            "conditions": [condition("Ready", "True", "Ready", "")]}}));
    assert_eq!((pool.min, pool.max, pool.now), (Some(0), None, Some(5)));
    assert_eq!(
        (pool.state, pool.weight, pool.fixed),
        (ScalerState::Steady, Some(10), false)
    );
    assert_eq!(&*pool.disruption, "WhenEmpty after 5m, 10% at a time");
    let gpus = pool
        .limits
        .iter()
        .find(|limit| &*limit.resource == "nvidia.com/gpu")
        .expect("a limit");
    assert_eq!((gpus.most, gpus.used), (64_000, Some(40_000)));
    assert_eq!(
        pool.labels.get("team").map(|team| &**team),
        Some("research")
    );
    // A comparison of tomorrow is one that nothing satisfies, and no error.
    assert!(!pool.requirements[1].holds(Some("1")));

    let full = node_pool(
        json!({"metadata": {"name": "a"}, "spec": {"limits": {"nodes": "8"}},
        "status": {"nodes": 8, "resources": {"nodes": "8"}}}),
    );
    assert_eq!(
        (full.state, full.max, full.now),
        (ScalerState::Full, Some(8), Some(8))
    );
    assert_eq!(&*full.why.0, "LimitReached");

    let broken = node_pool(json!({"metadata": {"name": "a"}, "status": {"conditions": [
        condition("Ready", "False", "UnhealthyDependents", "NodeClassReady=False"),
        condition("NodeClassReady", "False", "NodeClassNotFound", "no EC2NodeClass gpu")]}}));
    assert_eq!(broken.state, ScalerState::Broken);
    assert_eq!(
        (&*broken.why.0, &*broken.why.1),
        ("NodeClassNotFound", "no EC2NodeClass gpu")
    );
    assert_eq!(broken.now, None, "what is not said is not zero");

    let fixed = node_pool(
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 4, "limits": {"nodes": "6"}}}),
    );
    assert_eq!(
        (fixed.fixed, fixed.min, fixed.max, fixed.target),
        (true, Some(4), Some(4), Some(4))
    );
}

#[test]
fn a_node_claim_is_as_far_as_its_last_true_condition() {
    let claim = |conditions: Vec<Value>| {
        node_claim(json!({
            "metadata": {"name": "h100-x2k9p", "labels": {"karpenter.sh/nodepool": "h100"}, "creationTimestamp": "2026-11-20T07:59:00Z"},
            "spec": {"resources": {"requests": {"cpu": "8", "nvidia.com/gpu": "8"}}},
            "status": {"conditions": conditions}}))
    };
    let new = claim(vec![]);
    assert_eq!(
        (new.stage, new.failing, new.since),
        (Stage::Launching, false, at("2026-11-20T07:59:00Z"))
    );
    assert_eq!(new.node_pool.as_deref(), Some("h100"));
    assert_eq!(new.resources.device("nvidia.com/gpu"), Some(8));

    let waits = claim(vec![condition(
        "Launched",
        "Unknown",
        "AwaitingReconciliation",
        "object is awaiting reconciliation",
    )]);
    assert!(!waits.failing);
    let again = claim(vec![condition(
        "Launched",
        "Unknown",
        "LaunchFailed",
        "creating instance, throttled",
    )]);
    assert_eq!((again.stage, again.failing), (Stage::Launching, true));
    let boots = claim(vec![
        condition("Launched", "True", "Launched", ""),
        condition(
            "Registered",
            "Unknown",
            "NodeNotFound",
            "Node not registered with cluster",
        ),
    ]);
    assert_eq!(
        (boots.stage, boots.failing, &*boots.why.0),
        (Stage::Launched, false, "NodeNotFound")
    );
    let twice = claim(vec![
        condition("Launched", "True", "Launched", ""),
        condition(
            "Registered",
            "False",
            "MultipleNodesFound",
            "Invariant violated, matched multiple nodes",
        ),
    ]);
    assert_eq!((twice.stage, twice.failing), (Stage::Launched, true));
    let driver = claim(vec![
        condition("Launched", "True", "Launched", ""),
        condition("Registered", "True", "Registered", ""),
        condition(
            "Initialized",
            "Unknown",
            "ResourceNotRegistered",
            "Resource \"nvidia.com/gpu\" was requested but not registered",
        ),
    ]);
    assert_eq!(
        (driver.stage, &*driver.why.0),
        (Stage::Registered, "ResourceNotRegistered")
    );
    assert!(driver.is_coming());
    let ready = claim(vec![
        condition("Launched", "True", "Launched", ""),
        condition("Registered", "True", "Registered", ""),
        condition("Initialized", "True", "Initialized", ""),
    ]);
    assert_eq!((ready.stage, ready.is_coming()), (Stage::Ready, false));

    let leaving = node_claim(json!({
        "metadata": {"name": "a", "deletionTimestamp": "2026-11-20T09:00:00Z", "ownerReferences": [{"kind": "NodePool", "name": "spot"}]},
        "status": {"capacity": {"nvidia.com/gpu": "4"}, "conditions": [condition("Launched", "False", "X", "y")]}}));
    assert_eq!((leaving.stage, leaving.failing), (Stage::Leaving, false));
    assert_eq!(leaving.node_pool.as_deref(), Some("spot"));
    assert_eq!(leaving.resources.device_count(), 4);
}

const YAML: &str = r#"time: 2026-11-20 08:00:10.5 +0000 UTC m=+71.25
autoscalerStatus: Running
clusterWide:
  health:
    status: Healthy
  scaleUp:
    status: InProgress
nodeGroups:
- name: https://www.googleapis.com/compute/v1/projects/p/zones/z/instanceGroups/gke-c-a3-1f2e-grp
  health:
    status: Healthy
    nodeCounts:
      registered:
        total: 6
        ready: 5
        notStarted: 0
        unready:
          total: 1
          resourceUnready: 1
      longUnregistered: 0
      unregistered: 0
    cloudProviderTarget: 8
    minSize: 0
    maxSize: 16
    lastTransitionTime: "2026-11-20T07:00:00Z"
  scaleUp:
    status: InProgress
    lastTransitionTime: "2026-11-20T07:58:00Z"
  scaleDown:
    status: CandidatesPresent
    candidates: 2
- name: eks-l4-spot
  health:
    status: Unhealthy
    nodeCounts:
      registered: {total: 4, ready: 1}
      longUnregistered: 3
    cloudProviderTarget: 7
    minSize: 1
    maxSize: 7
    lastTransitionTime: "2026-11-20T06:00:00Z"
  scaleUp:
    status: Backoff
    backoffInfo:
      errorCode: QUOTA_EXCEEDED
      errorMessage: 'Quota ''GPUS'' exceeded: limit 8 in region r'
    lastTransitionTime: "2026-11-20T07:50:00Z"
- health: {status: Healthy}
"#;

const TEXT: &str = "Cluster-autoscaler status at 2022-03-01 10:00:00.123456789 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=9 unready=0 notStarted=0 longNotStarted=0 registered=9 longUnregistered=0)
               LastProbeTime:      2022-03-01 10:00:00.1 +0000 UTC m=+60.5
               LastTransitionTime: 2022-03-01 09:00:00.1 +0000 UTC m=+1.5
  ScaleUp:     NoActivity (ready=9 registered=9)
  ScaleDown:   NoCandidates (candidates=0)

NodeGroups:
  Name:        aks-gpu-12345678-vmss
  Health:      Healthy (ready=3 unready=1 (resourceUnready=1) notStarted=0 longNotStarted=0 registered=4 longUnregistered=0 cloudProviderTarget=4 (minSize=2, maxSize=10))
               LastProbeTime:      2022-03-01 10:00:00.1 +0000 UTC m=+60.5
               LastTransitionTime: 2022-03-01 09:00:00.1 +0000 UTC m=+1.5
  ScaleUp:     Backoff (ready=3 cloudProviderTarget=4)
               LastProbeTime:      2022-03-01 10:00:00.1 +0000 UTC m=+60.5
               LastTransitionTime: 2022-03-01 09:30:00 +0000 UTC m=+31.5
  ScaleDown:   CandidatesPresent (candidates=1)
               LastProbeTime:      2022-03-01 10:00:00.1 +0000 UTC m=+60.5
               LastTransitionTime: 0001-01-01 00:00:00 +0000 UTC

  Name:        MachineDeployment/default/md-0
  Health:      Unhealthy (ready=0 unready=2 notStarted=0 longNotStarted=0 registered=2 longUnregistered=0 cloudProviderTarget=2 (minSize=2, maxSize=2))
  ScaleUp:     NoActivity (ready=0 cloudProviderTarget=2)
  ScaleDown:   NoCandidates (candidates=0)
";

#[test]
fn the_autoscaler_is_understood_in_yaml() {
    let seen = groups(YAML, None);
    let names: Vec<&str> = seen.groups.iter().map(|group| &*group.name).collect();
    assert_eq!(
        names,
        ["eks-l4-spot", "gke-c-a3-1f2e-grp"],
        "a group without a name is nobody's"
    );
    let [l4, a3] = &*seen.groups else {
        panic!("two groups")
    };
    assert_eq!(
        (a3.now, a3.ready, a3.target, a3.min, a3.max),
        (Some(6), Some(5), Some(8), Some(0), Some(16))
    );
    assert_eq!(
        (a3.state, a3.resource_unready, a3.candidates),
        (ScalerState::Growing, 1, Some(2))
    );
    assert_eq!(a3.since, at("2026-11-20T07:58:00Z"));
    assert_eq!(a3.reported, at("2026-11-20T08:00:10.5Z"));
    assert_eq!(l4.state, ScalerState::Backoff);
    assert_eq!(
        (&*l4.why.0, &*l4.why.1),
        (
            "QUOTA_EXCEEDED",
            "Quota 'GPUS' exceeded: limit 8 in region r"
        )
    );
    assert_eq!(l4.since, at("2026-11-20T07:50:00Z"));
    // The annotation is written last.
    let later = groups(YAML, Some("2026-11-20 08:03:00.25 +0000 UTC"));
    assert_eq!(later.groups[0].reported, at("2026-11-20T08:03:00.25Z"));
    let silent = later.groups[0].silent_ms(at("2026-11-20T08:07:00.25Z").expect("a moment"));
    assert_eq!(silent, Some(240_000));
    assert_eq!(
        later.groups[0].silent_ms(at("2026-11-20T08:05:00Z").expect("a moment")),
        None
    );
}

#[test]
fn the_autoscaler_is_understood_in_its_old_text() {
    let seen = groups(TEXT, None);
    let [md, gpu] = &*seen.groups else {
        panic!("two groups: {seen:?}")
    };
    assert_eq!(&*gpu.name, "aks-gpu-12345678-vmss");
    assert_eq!(
        (gpu.now, gpu.ready, gpu.target, gpu.min, gpu.max),
        (Some(4), Some(3), Some(4), Some(2), Some(10))
    );
    assert_eq!(
        (gpu.state, gpu.resource_unready, gpu.candidates),
        (ScalerState::Backoff, 1, Some(1))
    );
    assert_eq!(gpu.since, at("2022-03-01T09:30:00Z"));
    assert_eq!(gpu.reported, at("2022-03-01T10:00:00.123456789Z"));
    assert_eq!(
        (md.state, &*md.why.1),
        (ScalerState::Broken, "0 of 2 nodes ready")
    );
    // An offset that is not UTC's, and one that is cut off.
    let zoned = TEXT
        .replace("UTC:\nCluster", "CET:\nCluster")
        .replace("789 +0000 CET", "789 +0100 CET");
    assert_eq!(
        groups(&zoned, None).groups[0].reported,
        at("2022-03-01T09:00:00.123456789Z")
    );
    for cut in [" +0", " +", "", " é00"] {
        let text = TEXT.replacen(" +0000 UTC:", &format!("{cut}:"), 1);
        assert_eq!(groups(&text, None).groups.len(), 2, "{cut}");
    }
}

#[test]
fn nothing_is_made_up_of_a_status_that_says_nothing() {
    for text in [
        "",
        "Initializing",
        "time: x\nautoscalerStatus: Initializing",
        "nodeGroups: 7",
        "nodeGroups:\n- 7\n- [a]\n- name: [b]",
        "{",
        "a: &a [*a]",
        "NodeGroups:",
        "NodeGroups:\n  Health: Healthy (ready=1)",
    ] {
        assert!(groups(text, None).groups.is_empty(), "{text}");
    }
    let sized = |min: u32| {
        let text = format!(
            "nodeGroups:\n- name: g\n  health: {{cloudProviderTarget: 4, minSize: {min}, maxSize: 4}}\n"
        );
        groups(&text, None).groups[0].state
    };
    assert_eq!(
        (sized(1), sized(4)),
        (ScalerState::Full, ScalerState::Steady),
        "a fixed size is no end"
    );
    let bare = groups("nodeGroups:\n- name: g\n", None);
    let group = &bare.groups[0];
    assert_eq!(
        (
            group.now,
            group.target,
            group.min,
            group.max,
            group.reported
        ),
        (None, None, None, None, None)
    );
    assert_eq!(group.state, ScalerState::Steady);
}

#[test]
fn a_request_for_capacity_is_where_its_worst_condition_is() {
    let asked = |conditions: Vec<Value>| {
        provision(json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1",
            "metadata": {"name": "job-a-1", "namespace": "lab", "creationTimestamp": "2026-11-20T07:00:00Z",
                "ownerReferences": [{"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "name": "job-a", "uid": "w1", "controller": true}]},
            "spec": {"provisioningClassName": "queued-provisioning.gke.io", "podSets": [{"count": 4}, {"count": 2}, {}]},
            "status": {"conditions": conditions}}))
    };
    let new = asked(vec![]);
    assert_eq!(
        (new.state, new.pods, &*new.class),
        (ProvisionState::Pending, 6, "queued-provisioning.gke.io")
    );
    assert_eq!(new.owner.as_ref().map(|owner| &*owner.uid), Some("w1"));
    assert_eq!(new.since, at("2026-11-20T07:00:00Z"));
    let waits = asked(vec![
        condition("Accepted", "True", "Accepted", "taken up"),
        condition(
            "Provisioned",
            "False",
            "CapacityIsNotFound",
            "no capacity in any zone",
        ),
    ]);
    assert_eq!(
        (waits.state, &*waits.why.1),
        (ProvisionState::Accepted, "no capacity in any zone")
    );
    assert_eq!(waits.state_name(), "retrying");
    let there = asked(vec![
        condition("Accepted", "True", "", ""),
        condition("Provisioned", "True", "Provisioned", "nodes are there"),
    ]);
    assert_eq!(
        (there.state_name(), &*there.why.1),
        ("provisioned", "nodes are there")
    );
    for (kind, state) in [
        ("BookingExpired", ProvisionState::BookingExpired),
        ("CapacityRevoked", ProvisionState::CapacityRevoked),
        ("Failed", ProvisionState::Failed),
    ] {
        let lost = asked(vec![
            condition("Provisioned", "True", "Provisioned", ""),
            condition(kind, "True", "Why", "so"),
        ]);
        assert_eq!((lost.state, &*lost.why.0), (state, "Why"));
        assert!(lost.state.is_lost());
    }
}

/// The controller leaves the field at 0 until it has computed a number.
#[test]
fn a_number_that_was_never_computed_is_unknown() {
    for (least, current, desired, expected) in [
        (json!(1), json!(4), json!(0), None),
        (json!(null), json!(4), json!(0), None),
        (json!(1), json!(null), json!(0), None),
        (json!(1), json!(4), json!(6), Some(6)),
        // The target was scaled to none, or may be.
        (json!(1), json!(0), json!(0), Some(0)),
        (json!(0), json!(4), json!(0), Some(0)),
        (json!(1), json!(4), json!(null), None),
    ] {
        let scaler = pod_scaler(json!({
            "metadata": {"name": "chat", "namespace": "serve"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "chat"}, "minReplicas": least, "maxReplicas": 8},
            "status": {"currentReplicas": current, "desiredReplicas": desired, "currentMetrics": [{"type": ""}]}}));
        assert_eq!(scaler.desired, expected, "{least} {current} {desired}");
    }
}

#[test]
fn a_pod_autoscaler_says_what_it_goes_by_and_what_stops_it() {
    let scaler = pod_scaler(json!({
        "metadata": {"name": "chat", "namespace": "serve"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}, "minReplicas": 2, "maxReplicas": 8,
            "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}},
                {"type": "Pods", "pods": {"metric": {"name": "queue_depth"}, "target": {"type": "AverageValue", "averageValue": "8"}}},
                {"type": "External", "external": {"metric": {"name": "tokens"}, "target": {"type": "Value", "value": "1k"}}}, 7, {},
                {"type": "External", "external": {"metric": {"name": "tokens"}, "target": {"type": "AverageValue", "averageValue": "5"}}}],
            "behavior": {
                "scaleUp": {"selectPolicy": "Min", "tolerance": "0.05", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100}, {"type": "Other", "value": 1}]},
                "scaleDown": {"selectPolicy": "Disabled"}}},
        "status": {"currentReplicas": 8, "desiredReplicas": 8, "lastScaleTime": "2026-11-20T07:30:00Z",
            "currentMetrics": [{"type": ""}, {"type": "Pods", "pods": {"metric": {"name": "queue_depth"}, "current": {"averageValue": "12500m"}}}, {"type": ""}, {}, {},
                {"type": "External", "external": {"metric": {"name": "tokens"}, "current": {"averageValue": "7"}}}],
            "conditions": [condition("AbleToScale", "True", "ReadyForNewScale", ""), condition("ScalingActive", "True", "ValidMetricFound", ""),
                condition("ScalingLimited", "True", "TooManyReplicas", "the desired replica count is more than the maximum replica count")]}}));
    assert_eq!(
        (scaler.min, scaler.max, scaler.current, scaler.desired),
        (2, Some(8), Some(8), Some(8))
    );
    assert_eq!(
        (&*scaler.target.0, &*scaler.target.1),
        ("Deployment", "chat")
    );
    let read: Vec<(&str, MetricOf, &str, Option<&str>)> = scaler
        .metrics
        .iter()
        .map(|metric| {
            let current = metric.current.as_deref();
            (&*metric.name, metric.of, &*metric.target, current)
        })
        .collect();
    // (Of two metrics of one name, each has its own value.)
    assert_eq!(
        read,
        [
            ("cpu", MetricOf::Cpu, "70%", None),
            ("queue_depth", MetricOf::Pods, "8", Some("12500m")),
            ("tokens", MetricOf::Total, "1k", None),
            ("tokens", MetricOf::TotalPerPod, "5", Some("7")),
        ]
    );
    let (up, down) = scaler.behavior.as_ref().expect("a behavior");
    assert_eq!((up.tolerance_milli, down.tolerance_milli), (Some(50), None));
    assert_eq!(
        (up.select, down.select),
        (PolicySelect::Min, PolicySelect::Disabled)
    );
    assert_eq!(
        *up.policies,
        [ScalingPolicy::Pods(4), ScalingPolicy::Percent(100)]
    );
    assert_eq!(
        scaler.limited.as_ref().map(|(word, _)| &**word),
        Some("TooManyReplicas")
    );
    assert_eq!((scaler.failing, scaler.stabilized), (None, Some(false)));
    for (reason, stabilized) in [
        ("ScaleDownStabilized", Some(true)),
        ("ScaleUpStabilized", Some(true)),
        ("SucceededRescale", None),
    ] {
        let scaler = pod_scaler(json!({"metadata": {"name": "a", "namespace": "b"},
            "status": {"conditions": [condition("AbleToScale", "True", reason, "")]}}));
        assert_eq!(scaler.stabilized, stabilized, "{reason}");
    }

    let blind = pod_scaler(json!({"metadata": {"name": "a", "namespace": "b"},
        "status": {"conditions": [condition("ScalingActive", "False", "FailedGetPodsMetric", "no metrics returned")]}}));
    assert_eq!((blind.min, blind.max, blind.current), (1, None, None));
    assert_eq!(
        blind.failing.as_ref().map(|(_, why)| &**why),
        Some("no metrics returned")
    );
}

fn hostile() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9é.:/-]{0,12}".prop_map(Value::from),
        Just(json!("Unknown")),
        Just(json!("-9999999999999999999e99")),
    ];
    let key = prop_oneof![
        Just("spec"),
        Just("status"),
        Just("metadata"),
        Just("name"),
        Just("limits"),
        Just("nodes"),
        Just("conditions"),
        Just("type"),
        Just("data"),
        Just("template"),
        Just("replicas"),
        Just("metrics"),
        Just("podSets"),
        Just("count"),
        Just("labels"),
        Just("deletionTimestamp"),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|pairs| pairs
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_object_brings_it_down(mut value in hostile(), text in "(?s).{0,200}", at in 0usize..2000) {
        for table in [Table::NodePools, Table::NodeClaims, Table::LaunchFailures, Table::NodeGroups, Table::ProvisioningRequests, Table::PodAutoscalers, Table::ScaledObjects] {
            decoded(table, value.clone());
        }
        if value.is_object() {
            value["metadata"] = json!({"name": "x", "namespace": "y"});
            for table in [Table::NodePools, Table::NodeClaims, Table::LaunchFailures, Table::NodeGroups, Table::ProvisioningRequests, Table::PodAutoscalers, Table::ScaledObjects] {
                prop_assert!(decoded(table, value.clone()).is_some());
            }
        }
        groups(&text, Some(&text));
        for whole in [YAML, TEXT] {
            let cut: String = whole.chars().take(at).collect();
            groups(&cut, None);
            groups(&format!("{cut}{text}"), None);
        }
    }
}

#[test]
fn a_scaled_object_says_its_bounds_triggers_and_whether_it_is_paused() {
    let of = |value: Value| match decoded(Table::ScaledObjects, value) {
        Some(Observation::ScaledObject(object)) => *object,
        other => panic!("{other:?}"),
    };
    let mut value = json!({
        "apiVersion": "keda.sh/v1alpha1",
        "metadata": {"name": "asr", "namespace": "speech", "annotations": {}},
        "spec": {
            "scaleTargetRef": {"name": "asr-stream"},
            "minReplicaCount": 2, "maxReplicaCount": 8,
            "triggers": [{"type": "prometheus", "metadata": {"query": "x"}}, {"type": "cron", "metadata": {}}],
        },
        "status": {
            "hpaName": "keda-hpa-asr",
            "conditions": [
                condition("Ready", "True", "ScaledObjectReady", "ScaledObject is defined correctly and is ready for scaling"),
                condition("Active", "True", "ScalerActive", "Scaling is performed because triggers are active"),
                condition("Fallback", "False", "NoFallbackFound", "No fallbacks are active on this scaled object"),
            ],
        },
    });
    let found = of(value.clone());
    assert_eq!(found.key.to_string(), "speech/asr");
    assert_eq!(
        (&*found.target.0, &*found.target.1),
        ("Deployment", "asr-stream")
    );
    assert_eq!((found.min, found.max), (2, 8));
    let triggers: Vec<&str> = found.triggers.iter().map(|name| name.as_str()).collect();
    assert_eq!(triggers, ["prometheus", "cron"]);
    assert_eq!(found.autoscaler.as_deref(), Some("keda-hpa-asr"));
    assert_eq!(
        (found.paused, found.active, found.fallback),
        (false, Some(true), false)
    );
    assert_eq!(
        (found.failing, found.since),
        (None, at("2026-11-20T08:00:00Z"))
    );
    for (key, word, paused) in [
        ("autoscaling.keda.sh/paused", "true", true),
        ("autoscaling.keda.sh/paused", "false", false),
        ("autoscaling.keda.sh/paused-replicas", "0", true),
    ] {
        value["metadata"]["annotations"] = json!({ key: word });
        assert_eq!(of(value.clone()).paused, paused, "{key}={word}");
    }
    let broken = of(json!({
        "metadata": {"name": "b", "namespace": "c"},
        "spec": {"scaleTargetRef": {"kind": "StatefulSet", "name": "d"}},
        "status": {"conditions": [condition("Ready", "False", "ScaledObjectCheckFailed", "no metrics"), condition("Active", "Unknown", "", "")]},
    }));
    assert_eq!(
        (broken.min, broken.max, broken.active),
        (0, 100, None),
        "KEDA's own defaults"
    );
    assert_eq!(
        broken.failing.map(|why| why.0.to_string()).as_deref(),
        Some("ScaledObjectCheckFailed")
    );
}

#[test]
fn two_containers_of_a_pod_have_metrics_of_their_own() {
    let metric = |container: &str, name: &str, value: Value| {
        json!({"type": "ContainerResource",
        "containerResource": {"name": "cpu", "container": container, name: {"averageUtilization": value}}})
    };
    let scaler = pod_scaler(json!({"metadata": {"name": "chat", "namespace": "t"},
        "spec": {"metrics": [metric("server", "target", json!(80)), metric("proxy", "target", json!(50))]},
        "status": {"currentMetrics": [metric("server", "current", json!(20)), metric("proxy", "current", json!(95))]}}));
    let rows: Vec<(&str, Option<&str>)> = scaler
        .metrics
        .iter()
        .map(|metric| (&*metric.name, metric.current.as_deref()))
        .collect();
    assert_eq!(
        rows,
        [
            ("cpu of container server", Some("20%")),
            ("cpu of container proxy", Some("95%")),
        ]
    );
    assert_eq!(scaler.metrics[1].of, MetricOf::Cpu);
}
