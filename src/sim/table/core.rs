//! Columns and cells of the core group, priority classes and leases.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{AGE, NAME, PrinterColumn, age, column, labels, or};
use crate::human::since;
use crate::json::{condition, flag, int, list, name, text};
use model::base::Moment;

pub(super) const NODES: &[PrinterColumn] = &[
    NAME,
    column(
        "Status",
        "Whether the node is ready, and whether it takes pods.",
    ),
    column("Roles", "Roles by the node's labels."),
    AGE,
    column("Version", "Version of the kubelet."),
    column("Internal-IP", "First internal address.").wide(),
    column("External-IP", "First external address.").wide(),
    column("OS-Image", "Operating system image.").wide(),
    column("Kernel-Version", "Kernel version.").wide(),
    column("Container-Runtime", "Container runtime and its version.").wide(),
];

pub(super) fn node(object: &Value, now: Moment) -> Vec<Value> {
    let mut status = match condition(object, "Ready") {
        "" => "Unknown".to_owned(),
        "True" => "Ready".to_owned(),
        _ => "NotReady".to_owned(),
    };
    if flag(object, "/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles = BTreeSet::new();
    if let Some(labels) = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
    {
        for (key, value) in labels {
            if let Some(role) = key.strip_prefix("node-role.kubernetes.io/") {
                roles.insert(role);
            } else if key == "kubernetes.io/role" {
                roles.insert(value.as_str().unwrap_or(""));
            }
        }
    }
    let roles: Vec<&str> = roles.into_iter().filter(|role| !role.is_empty()).collect();
    let address = |kind: &str| {
        list(object, "/status/addresses")
            .iter()
            .find(|a| text(a, "/type") == kind)
            .map_or("<none>", |a| text(a, "/address"))
    };
    let mut kernel = or(text(object, "/status/nodeInfo/kernelVersion"), "<unknown>").to_owned();
    let architecture = text(object, "/status/nodeInfo/architecture");
    if !architecture.is_empty() {
        kernel.push_str(&format!(" ({architecture})"));
    }
    vec![
        name(object).into(),
        status.into(),
        or(&roles.join(","), "<none>").into(),
        age(object, now),
        text(object, "/status/nodeInfo/kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        or(text(object, "/status/nodeInfo/osImage"), "<unknown>").into(),
        kernel.into(),
        or(
            text(object, "/status/nodeInfo/containerRuntimeVersion"),
            "<unknown>",
        )
        .into(),
    ]
}

pub(super) const PODS: &[PrinterColumn] = &[
    NAME,
    column("Ready", "Ready containers of all containers."),
    column("Status", "What the pod's containers do, in one word."),
    column(
        "Restarts",
        "Restarts of all containers, and when the last was.",
    ),
    AGE,
    column("IP", "The pod's address.").wide(),
    column("Node", "The node it is bound to.").wide(),
    column("Nominated Node", "The node that preemption clears for it.").wide(),
    column("Readiness Gates", "Readiness gates that are true of all.").wide(),
];

/// What the containers of a pod add up to.
struct ContainerSummary {
    reason: String,
    ready: usize,
    restarts: i64,
    last: Option<Moment>,
}

fn restarted(status: &Value, last: &mut Option<Moment>) -> i64 {
    let at = Moment::parse(text(status, "/lastState/terminated/finishedAt"));
    if at > *last {
        *last = at;
    }
    int(status, "/restartCount")
}

/// `PREFIX` and why the container ended.
fn ended(terminated: &Value, prefix: &str) -> String {
    let (reason, signal) = (text(terminated, "/reason"), int(terminated, "/signal"));
    if !reason.is_empty() {
        format!("{prefix}{reason}")
    } else if signal != 0 {
        format!("{prefix}Signal:{signal}")
    } else {
        format!("{prefix}ExitCode:{}", int(terminated, "/exitCode"))
    }
}

fn container_summary(pod: &Value) -> ContainerSummary {
    let mut reason = or(text(pod, "/status/reason"), text(pod, "/status/phase")).to_owned();
    let gated = list(pod, "/status/conditions")
        .iter()
        .any(|c| text(c, "/type") == "PodScheduled" && text(c, "/reason") == "SchedulingGated");
    if gated {
        reason = "SchedulingGated".into();
    }
    let sidecar = |name: &str| {
        list(pod, "/spec/initContainers")
            .iter()
            .any(|c| text(c, "/name") == name && text(c, "/restartPolicy") == "Always")
    };
    let (mut ready, mut restarts, mut last) = (0, 0, None);
    let (mut sidecar_restarts, mut sidecar_last) = (0, None);
    let mut initializing = false;
    for (at, status) in list(pod, "/status/initContainerStatuses")
        .iter()
        .enumerate()
    {
        restarts += restarted(status, &mut last);
        let is_sidecar = sidecar(text(status, "/name"));
        if is_sidecar {
            sidecar_restarts += restarted(status, &mut sidecar_last);
        }
        let terminated = status.pointer("/state/terminated");
        let waiting = text(status, "/state/waiting/reason");
        match terminated {
            Some(t) if int(t, "/exitCode") == 0 => continue,
            _ if is_sidecar && flag(status, "/started") => {
                ready += usize::from(flag(status, "/ready"));
                continue;
            }
            Some(t) => reason = ended(t, "Init:"),
            None if !waiting.is_empty() && waiting != "PodInitializing" => {
                reason = format!("Init:{waiting}");
            }
            None => reason = format!("Init:{at}/{}", list(pod, "/spec/initContainers").len()),
        }
        initializing = true;
        break;
    }
    if !initializing || condition(pod, "Initialized") == "True" {
        (restarts, last) = (sidecar_restarts, sidecar_last);
        let (mut running, mut error) = (false, String::new());
        for status in list(pod, "/status/containerStatuses").iter().rev() {
            restarts += restarted(status, &mut last);
            let waiting = text(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                reason = waiting.to_owned();
            } else if let Some(t) = status.pointer("/state/terminated") {
                reason = ended(t, "");
                if int(t, "/exitCode") != 0 {
                    error.clone_from(&reason);
                }
            } else if flag(status, "/ready") && status.pointer("/state/running").is_some() {
                running = true;
                ready += 1;
            }
        }
        if reason == "Completed" {
            if running && condition(pod, "Ready") == "True" {
                reason = "Running".into();
            } else if !error.is_empty() {
                reason = error;
            } else if running {
                reason = "NotReady".into();
            }
        }
    }
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        if text(pod, "/status/reason") == "NodeLost" {
            reason = "Unknown".into();
        } else if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
            reason = "Terminating".into();
        }
    }
    ContainerSummary {
        reason,
        ready,
        restarts,
        last,
    }
}

pub(super) fn pod(object: &Value, now: Moment) -> Vec<Value> {
    let told = container_summary(object);
    let sidecars = list(object, "/spec/initContainers")
        .iter()
        .filter(|c| text(c, "/restartPolicy") == "Always")
        .count();
    let total = list(object, "/spec/containers").len() + sidecars;
    let restarts = match told.last {
        Some(last) if told.restarts != 0 => {
            format!("{} ({} ago)", told.restarts, since(now, &last.rfc3339()))
        }
        _ => told.restarts.to_string(),
    };
    let gates = list(object, "/spec/readinessGates");
    let open = gates
        .iter()
        .filter(|gate| condition(object, text(gate, "/conditionType")) == "True")
        .count();
    let gates = match gates.len() {
        0 => "<none>".to_owned(),
        all => format!("{open}/{all}"),
    };
    vec![
        name(object).into(),
        format!("{}/{total}", told.ready).into(),
        told.reason.into(),
        restarts.into(),
        age(object, now),
        or(text(object, "/status/podIPs/0/ip"), "<none>").into(),
        or(text(object, "/spec/nodeName"), "<none>").into(),
        or(text(object, "/status/nominatedNodeName"), "<none>").into(),
        gates.into(),
    ]
}

pub(super) const NAMESPACES: &[PrinterColumn] = &[
    NAME,
    column("Status", "Whether the namespace is in use."),
    AGE,
];

pub(super) fn namespace(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        text(object, "/status/phase").into(),
        age(object, now),
    ]
}

pub(super) const EVENTS: &[PrinterColumn] = &[
    column("Last Seen", "Time since it was last seen."),
    column("Type", "Normal or Warning."),
    column("Reason", "Why, in one word."),
    column("Object", "What it is about."),
    column("Subobject", "The part of the object that it is about.").wide(),
    column("Source", "Who reported it.").wide(),
    column("Message", "What happened."),
    column("First Seen", "Time since it was first seen.").wide(),
    column("Count", "How often it was seen.").wide(),
    PrinterColumn {
        priority: 1,
        ..NAME
    },
];

pub(super) fn event(object: &Value, now: Moment) -> Vec<Value> {
    let ago = |pointer: &str| since(now, text(object, pointer));
    let known = |pointer: &str| !text(object, pointer).is_empty();
    let first = if known("/firstTimestamp") {
        ago("/firstTimestamp")
    } else {
        ago("/eventTime")
    };
    let mut last = if known("/lastTimestamp") {
        ago("/lastTimestamp")
    } else {
        first.clone()
    };
    let mut count = int(object, "/count");
    if object.pointer("/series").is_some_and(Value::is_object) {
        last = ago("/series/lastObservedTime");
        count = int(object, "/series/count");
    } else if count == 0 {
        count = 1;
    }
    let kind = text(object, "/involvedObject/kind").to_lowercase();
    let target = match text(object, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let component = or(
        text(object, "/source/component"),
        text(object, "/reportingComponent"),
    );
    let instance = or(
        text(object, "/source/host"),
        text(object, "/reportingInstance"),
    );
    let source = if instance.is_empty() {
        component.to_owned()
    } else {
        format!("{component}, {instance}")
    };
    vec![
        last.into(),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        target.into(),
        text(object, "/involvedObject/fieldPath").into(),
        source.into(),
        text(object, "/message").trim().into(),
        first.into(),
        count.into(),
        name(object).into(),
    ]
}

pub(super) const CONFIG_MAPS: &[PrinterColumn] =
    &[NAME, column("Data", "How many keys it holds."), AGE];

pub(super) fn config_map(object: &Value, now: Moment) -> Vec<Value> {
    let size = |key: &str| {
        object
            .get(key)
            .and_then(Value::as_object)
            .map_or(0, |m| m.len())
    };
    vec![
        name(object).into(),
        json!(size("data") + size("binaryData")),
        age(object, now),
    ]
}

pub(super) const SERVICE_ACCOUNTS: &[PrinterColumn] = &[NAME, AGE];

pub(super) fn service_account(object: &Value, now: Moment) -> Vec<Value> {
    vec![name(object).into(), age(object, now)]
}

pub(super) const SERVICES: &[PrinterColumn] = &[
    NAME,
    column("Type", "How the service is reached."),
    column("Cluster-IP", "Its address in the cluster."),
    column("External-IP", "Its addresses outside of the cluster."),
    column("Port(s)", "Its ports."),
    AGE,
    column("Selector", "Labels of the pods behind it.").wide(),
];

pub(super) fn service(object: &Value, now: Moment) -> Vec<Value> {
    let externals: Vec<&str> = list(object, "/spec/externalIPs")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let balancers: BTreeSet<&str> = list(object, "/status/loadBalancer/ingress")
        .iter()
        .map(|ingress| or(text(ingress, "/ip"), text(ingress, "/hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    let kind = text(object, "/spec/type");
    let external = match kind {
        "ClusterIP" | "NodePort" => or(&externals.join(","), "<none>").to_owned(),
        "LoadBalancer" => {
            let all: Vec<&str> = balancers.into_iter().chain(externals).collect();
            or(&all.join(","), "<pending>").to_owned()
        }
        "ExternalName" => text(object, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    };
    let ports: Vec<String> = list(object, "/spec/ports")
        .iter()
        .map(|port| {
            let protocol = or(text(port, "/protocol"), "TCP");
            match int(port, "/nodePort") {
                0 => format!("{}/{protocol}", int(port, "/port")),
                node => format!("{}:{node}/{protocol}", int(port, "/port")),
            }
        })
        .collect();
    let address = or(
        text(object, "/spec/clusterIPs/0"),
        text(object, "/spec/clusterIP"),
    );
    vec![
        name(object).into(),
        kind.into(),
        or(address, "<none>").into(),
        external.into(),
        or(&ports.join(","), "<none>").into(),
        age(object, now),
        labels(object.pointer("/spec/selector")).into(),
    ]
}

pub(super) const PRIORITY_CLASSES: &[PrinterColumn] = &[
    NAME,
    column("Value", "The priority of its pods.").typed("integer"),
    column("Global-Default", "Whether pods without a class get it.").typed("boolean"),
    AGE,
    column("PreemptionPolicy", "Whether its pods preempt others."),
];

pub(super) fn priority_class(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        int(object, "/value").into(),
        flag(object, "/globalDefault").into(),
        age(object, now),
        text(object, "/preemptionPolicy").into(),
    ]
}

pub(super) const LEASES: &[PrinterColumn] = &[NAME, column("Holder", "Who holds it."), AGE];

pub(super) fn lease(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        text(object, "/spec/holderIdentity").into(),
        age(object, now),
    ]
}

#[cfg(test)]
mod tests {
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
            let cells = pod(&base(status), now());
            cells[1..5]
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
        assert_eq!(pod(&leaving, now())[2], "Terminating");
    }

    #[test]
    fn a_cordoned_node_says_so() {
        let object = json!({
            "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/gpu": "", "kubernetes.io/role": "worker"}},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown"}], "nodeInfo": {"kernelVersion": "6.8", "architecture": "amd64"}},
        });
        let cells = node(&object, now());
        assert_eq!(cells[1], "NotReady,SchedulingDisabled");
        assert_eq!(cells[2], "gpu,worker");
        assert_eq!(cells[3], "<unknown>");
        assert_eq!(cells[8], "6.8 (amd64)");
        assert_eq!(cells.len(), NODES.len());
    }
}
