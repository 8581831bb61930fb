//! Cells that are made of several fields of an object.

use std::collections::BTreeSet;

use serde_json::Value;

use model::base::{Moment, SmallSort};

use super::or;
use crate::human::{duration, since};
use crate::json::{condition, flag, int, list, text};
use crate::selector::LabelSelector;

pub(super) fn node_status(node: &Value) -> String {
    let ready = match condition(node, "Ready") {
        "" => "Unknown",
        "True" => "Ready",
        _ => "NotReady",
    };
    match flag(node, "/spec/unschedulable") {
        true => format!("{ready},SchedulingDisabled"),
        false => ready.to_owned(),
    }
}

pub(super) fn roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let roles: BTreeSet<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix("node-role.kubernetes.io/"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    listed(roles)
}

pub(super) fn address(node: &Value, kind: &str) -> String {
    let mut all = list(node, "/status/addresses").iter();
    let found = all.find(|a| text(a, "/type") == kind);
    found.map_or("<none>", |a| text(a, "/address")).to_owned()
}

pub(super) fn kernel(node: &Value) -> String {
    let version = or(text(node, "/status/nodeInfo/kernelVersion"), "<unknown>");
    match text(node, "/status/nodeInfo/architecture") {
        "" => version.to_owned(),
        architecture => format!("{version} ({architecture})"),
    }
}

/// What the containers of a pod add up to.
pub(super) struct ContainerSummary {
    pub(super) reason: String,
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

pub(super) fn container_summary(pod: &Value) -> ContainerSummary {
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

pub(super) fn pod_ready(pod: &Value) -> String {
    let sidecars = list(pod, "/spec/initContainers")
        .iter()
        .filter(|c| text(c, "/restartPolicy") == "Always")
        .count();
    let total = list(pod, "/spec/containers").len() + sidecars;
    format!("{}/{total}", container_summary(pod).ready)
}

pub(super) fn pod_restarts(pod: &Value, now: Moment) -> String {
    let ContainerSummary { restarts, last, .. } = container_summary(pod);
    match last {
        Some(last) if restarts != 0 => {
            format!("{restarts} ({} ago)", since(now, &last.rfc3339()))
        }
        _ => restarts.to_string(),
    }
}

pub(super) fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    let open = |gate: &&Value| condition(pod, text(gate, "/conditionType")) == "True";
    match gates.len() {
        0 => "<none>".to_owned(),
        all => format!("{}/{all}", gates.iter().filter(open).count()),
    }
}

pub(super) fn event_first(event: &Value, now: Moment) -> String {
    let first = text(event, "/firstTimestamp");
    since(now, or(first, text(event, "/eventTime")))
}

pub(super) fn event_last(event: &Value, now: Moment) -> String {
    if event.pointer("/series").is_some_and(Value::is_object) {
        return since(now, text(event, "/series/lastObservedTime"));
    }
    match text(event, "/lastTimestamp") {
        "" => event_first(event, now),
        last => since(now, last),
    }
}

pub(super) fn event_count(event: &Value) -> i64 {
    match event.pointer("/series").is_some_and(Value::is_object) {
        true => int(event, "/series/count"),
        false => int(event, "/count").max(1),
    }
}

pub(super) fn event_object(event: &Value) -> String {
    let kind = text(event, "/involvedObject/kind").to_lowercase();
    match text(event, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

pub(super) fn event_source(event: &Value) -> String {
    let either = |a: &str, b: &str| or(text(event, a), text(event, b)).to_owned();
    let component = either("/source/component", "/reportingComponent");
    match either("/source/host", "/reportingInstance") {
        instance if instance.is_empty() => component,
        instance => format!("{component}, {instance}"),
    }
}

pub(super) fn data_keys(map: &Value) -> i64 {
    let keys = ["data", "binaryData"].map(|key| map.get(key).and_then(Value::as_object));
    let count: usize = keys.into_iter().flatten().map(serde_json::Map::len).sum();
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn cluster_ip(service: &Value) -> String {
    let address = text(service, "/spec/clusterIPs/0");
    or(or(address, text(service, "/spec/clusterIP")), "<none>").to_owned()
}

pub(super) fn external_ip(service: &Value) -> String {
    let externals = list(service, "/spec/externalIPs").iter();
    let externals = externals.filter_map(Value::as_str);
    let balancers: BTreeSet<&str> = list(service, "/status/loadBalancer/ingress")
        .iter()
        .map(|ingress| or(text(ingress, "/ip"), text(ingress, "/hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" => listed(externals),
        "LoadBalancer" => {
            let all: Vec<&str> = balancers.into_iter().chain(externals).collect();
            or(&all.join(","), "<pending>").to_owned()
        }
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

pub(super) fn ports(service: &Value) -> String {
    let port = |port: &Value| {
        let protocol = or(text(port, "/protocol"), "TCP");
        match int(port, "/nodePort") {
            0 => format!("{}/{protocol}", int(port, "/port")),
            node => format!("{}:{node}/{protocol}", int(port, "/port")),
        }
    };
    listed(list(service, "/spec/ports").iter().map(port))
}

/// `spec.replicas`, which the API defaults to one.
pub(super) fn desired_pods(object: &Value) -> i64 {
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64);
    replicas.unwrap_or(1)
}

pub(super) fn ready_of_desired(object: &Value) -> String {
    let ready = int(object, "/status/readyReplicas");
    format!("{ready}/{}", desired_pods(object))
}

/// A field of each container of a template: `NAME,...`.
pub(super) fn containers(object: &Value, field: &str) -> String {
    let all = list(object, "/spec/template/spec/containers").iter();
    all.map(|c| text(c, field)).collect::<Vec<_>>().join(",")
}

/// The label selector at a pointer: `none` when there is none or it matches all, `bad` when it is none.
fn selector_at(object: &Value, pointer: &str, none: &str, bad: &str) -> String {
    match object.pointer(pointer).map(LabelSelector::of_object) {
        Some(Some(labels)) => or(&labels.show(), none).to_owned(),
        Some(None) => bad.to_owned(),
        None => none.to_owned(),
    }
}

pub(super) fn selector(object: &Value) -> String {
    selector_at(object, "/spec/selector", "<none>", "<error>")
}

pub(super) fn deployment_selector(object: &Value) -> String {
    selector_at(object, "/spec/selector", "", "<invalid>")
}

pub(super) fn pod_selector(policy: &Value) -> String {
    selector_at(policy, "/spec/podSelector", "<none>", "<none>")
}

pub(super) fn job_status(job: &Value) -> &'static str {
    let is = |kind: &str| condition(job, kind) == "True";
    let deleting = job.pointer("/metadata/deletionTimestamp").is_some();
    let kinds = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
    match ["Complete", "Failed"].into_iter().find(|kind| is(kind)) {
        Some(ended) => ended,
        None if deleting => "Terminating",
        None => kinds.into_iter().find(|kind| is(kind)).unwrap_or("Running"),
    }
}

pub(super) fn completions(job: &Value) -> String {
    let done = int(job, "/status/succeeded");
    match job.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(all) => format!("{done}/{all}"),
        None => match int(job, "/spec/parallelism") {
            parallel if parallel > 1 => format!("{done}/1 of {parallel}"),
            _ => format!("{done}/1"),
        },
    }
}

pub(super) fn job_duration(job: &Value, now: Moment) -> String {
    let [start, end] = ["startTime", "completionTime"]
        .map(|at| Moment::parse(text(&job["status"], &format!("/{at}"))));
    start.map_or_else(String::new, |start| {
        duration(end.unwrap_or(now).millis().saturating_sub(start.millis()))
    })
}

/// A number or a text at a pointer, else `none`.
pub(super) fn number_or_text(object: &Value, pointer: &str, none: &str) -> String {
    match object.pointer(pointer) {
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::String(text)) => text.clone(),
        _ => none.to_owned(),
    }
}

pub(super) fn scale_target(scaler: &Value) -> String {
    joined(scaler, "/spec/scaleTargetRef", ["kind", "name"])
}

pub(super) fn scale_metrics(scaler: &Value) -> String {
    let metrics = list(scaler, "/spec/metrics").iter().enumerate();
    let targets = metrics.map(|(at, metric)| {
        let read = format!("/status/currentMetrics/{at}/pods/current/averageValue");
        let read = or(text(scaler, &read), "<unknown>");
        format!("{read}/{}", text(metric, "/pods/target/averageValue"))
    });
    targets.collect::<Vec<_>>().join(", ")
}

pub(super) fn access_modes(claim: &Value) -> String {
    let modes = list(claim, "/status/accessModes").iter().map(|mode| {
        match mode.as_str().unwrap_or_default() {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        }
    });
    modes.collect::<Vec<_>>().join(",")
}

pub(super) fn claim_state(claim: &Value) -> String {
    let deleted = !text(claim, "/metadata/deletionTimestamp").is_empty();
    let allocated = claim.pointer("/status/allocation").is_some();
    let reserved = allocated && !list(claim, "/status/reservedFor").is_empty();
    let states = [
        (deleted, "deleted"),
        (allocated, "allocated"),
        (reserved, "reserved"),
        (!allocated && !deleted, "pending"),
    ];
    let states = states.into_iter().filter(|(is, _)| *is);
    states.map(|(_, state)| state).collect::<Vec<_>>().join(",")
}

/// Two fields of the object at a pointer, as `A/B`.
pub(super) fn joined(object: &Value, pointer: &str, fields: [&str; 2]) -> String {
    let fields = fields.map(|field| text(object, &format!("{pointer}/{field}")));
    fields.join("/")
}

pub(super) fn subjects(binding: &Value, kind: &str) -> String {
    let of_kind = list(binding, "/subjects").iter();
    let of_kind = of_kind.filter(|subject| text(subject, "/kind") == kind);
    let names = of_kind.map(|subject| match text(subject, "/namespace") {
        "" => text(subject, "/name").to_owned(),
        namespace => format!("{namespace}/{}", text(subject, "/name")),
    });
    names.collect::<Vec<_>>().join(", ")
}

/// The kind of an admission policy's parameters.
pub(super) fn parameter_kind(policy: &Value) -> String {
    match joined(policy, "/spec/paramKind", ["apiVersion", "kind"]) {
        none if none == "/" => "<unset>".to_owned(),
        kind => kind,
    }
}

/// The parameters that a binding of an admission policy names.
pub(super) fn parameters(binding: &Value) -> String {
    match binding.pointer("/spec/paramRef") {
        None => "<unset>".to_owned(),
        Some(parameters) if text(parameters, "/name").is_empty() => {
            labels(parameters.pointer("/selector/matchLabels"))
        }
        Some(parameters) => joined(parameters, "", ["namespace", "name"]),
    }
}

/// A map of labels: `a=b,c=d`.
pub(super) fn labels(map: Option<&Value>) -> String {
    let pairs = map.and_then(Value::as_object).into_iter().flatten();
    let mut pairs: Vec<String> = pairs
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    pairs.small_sort();
    listed(pairs)
}

/// Texts with commas between them, `<none>` for none.
fn listed<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let mut all = String::new();
    for (at, text) in texts.into_iter().enumerate() {
        all.push_str(if at == 0 { "" } else { "," });
        all.push_str(text.as_ref());
    }
    or(&all, "<none>").to_owned()
}
