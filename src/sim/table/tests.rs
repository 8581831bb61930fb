//! What tables print of objects, beside what the recorded answers hold.

use super::*;

const NOW: &str = "2026-11-21T08:00:00Z";

fn now() -> Moment {
    Moment::parse(NOW).expect("a moment")
}

#[test]
fn a_pod_says_what_kubectl_would() {
    let base = |status: Value| {
        json!({
            "metadata": {"name": "p", "creationTimestamp": "2026-11-21T07:00:00Z"},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
            "status": status,
        })
    };
    let shown = |status: Value| {
        let shown = cells(Resource::Pods, &base(status), now());
        shown[1..5]
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" | ")
    };
    let running = |ready: bool| json!({"name": "a", "ready": ready, "restartCount": 0, "state": {"running": {}}});
    assert_eq!(
        shown(json!({"phase": "Running", "containerStatuses": [running(true), running(true)]})),
        "2/2 | Running | 0 | 60m"
    );
    let crashed = json!({
        "name": "b", "ready": false, "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"finishedAt": "2026-11-21T07:58:00Z", "exitCode": 1}},
    });
    assert_eq!(
        shown(json!({"phase": "Running", "containerStatuses": [running(true), crashed]})),
        "1/2 | CrashLoopBackOff | 3 (2m ago) | 60m"
    );
    let init = json!({"name": "i", "restartCount": 0, "state": {"running": {}}});
    assert_eq!(
        shown(json!({"phase": "Pending", "initContainerStatuses": [init]})),
        "0/2 | Init:0/1 | 0 | 60m"
    );
    let failed = json!({"name": "a", "restartCount": 0, "state": {"terminated": {"exitCode": 137, "signal": 9}}});
    assert_eq!(
        shown(json!({"phase": "Failed", "containerStatuses": [failed]})),
        "0/2 | Signal:9 | 0 | 60m"
    );
    let gated = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]});
    assert_eq!(shown(gated), "0/2 | SchedulingGated | 0 | 60m");
    let mut leaving = base(json!({"phase": "Running"}));
    leaving["metadata"]["deletionTimestamp"] = NOW.into();
    assert_eq!(cells(Resource::Pods, &leaving, now())[2], "Terminating");
}

#[test]
fn a_cordoned_node_says_so() {
    let object = json!({
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/gpu": "", "kubernetes.io/role": "worker"}},
        "spec": {"unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}], "nodeInfo": {"kernelVersion": "6.8", "architecture": "amd64"}},
    });
    let shown = cells(Resource::Nodes, &object, now());
    assert_eq!(shown[1], "NotReady,SchedulingDisabled");
    assert_eq!(shown[2], "gpu,worker");
    assert_eq!(shown[3], "<unknown>");
    assert_eq!(shown[8], "6.8 (amd64)");
}

#[test]
fn jobs_and_budgets_print_as_the_real_server_does() {
    let running = json!({
        "metadata": {"name": "j", "creationTimestamp": "2026-11-21T07:50:00Z"},
        "spec": {"completions": 4, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
        "status": {"succeeded": 1, "startTime": "2026-11-21T07:52:30Z"},
    });
    let printed = |resource, object: &Value| {
        let cells = cells(resource, object, now());
        cells
            .iter()
            .map(Value::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        printed(Resource::Jobs, &running),
        r#""j" "Running" "1/4" "7m30s" "10m" "c" "i" "a=b""#
    );
    let budgeted = json!({"metadata": {"name": "b"}, "spec": {"maxUnavailable": "20%"}, "status": {"disruptionsAllowed": 2}});
    assert_eq!(
        printed(Resource::PodDisruptionBudgets, &budgeted),
        r#""b" "N/A" "20%" 2 "<unknown>""#
    );
}

#[test]
fn absent_fields_of_custom_kinds_are_null_and_scalars_are_text() {
    let object = json!({
        "metadata": {"name": "s", "creationTimestamp": "2026-11-21T07:59:00Z"},
        "spec": {"suspend": false},
        "status": {"restarts": 2, "conditions": [{"type": "Completed", "status": "True"}]},
    });
    assert_eq!(
        cells(Resource::JobSets, &object, now()),
        [
            json!("s"),
            Value::Null,
            json!("2"),
            json!("True"),
            json!("false"),
            json!("60s")
        ]
    );
}
