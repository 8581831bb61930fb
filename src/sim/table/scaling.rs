//! Printer columns of autoscalers: Karpenter's, requests for capacity, pods'.

use serde_json::Value;

use super::custom::{AGE, condition_status, count, shown};
use super::{NAME, PrinterColumn, age, column};
use crate::json::{list, name, text};
use model::base::Moment;

pub(super) const NODE_POOLS: &[PrinterColumn] = &[
    NAME,
    column("NodeClass", "The template of its machines."),
    column("Nodes", "Nodes that it has."),
    column("Ready", "Whether it works."),
    AGE,
    column("Weight", "The higher is tried first.")
        .typed("integer")
        .wide(),
];

pub(super) fn node_pool(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        shown(object, "/spec/template/spec/nodeClassRef/name"),
        shown(object, "/status/resources/nodes"),
        condition_status(object, "Ready"),
        age(object, now),
        count(object, "/spec/weight"),
    ]
}

pub(super) const NODE_CLAIMS: &[PrinterColumn] = &[
    NAME,
    column("Type", "Its machine type."),
    column("Capacity", "How it is paid."),
    column("Zone", "Its zone."),
    column("Node", "Its node."),
    column("Ready", "Whether it works."),
    AGE,
    column("NodePool", "The node pool that made it.").wide(),
];

pub(super) fn node_claim(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        shown(object, "/metadata/labels/node.kubernetes.io~1instance-type"),
        shown(object, "/metadata/labels/karpenter.sh~1capacity-type"),
        shown(object, "/metadata/labels/topology.kubernetes.io~1zone"),
        shown(object, "/status/nodeName"),
        condition_status(object, "Ready"),
        age(object, now),
        shown(object, "/metadata/labels/karpenter.sh~1nodepool"),
    ]
}

pub(super) const REQUESTS: &[PrinterColumn] = &[
    NAME,
    column("Accepted", "Whether a controller acts on it."),
    column("Provisioned", "Whether the capacity is there."),
    column("Failed", "Whether it will not be met."),
    AGE,
];

pub(super) fn request(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        condition_status(object, "Accepted"),
        condition_status(object, "Provisioned"),
        condition_status(object, "Failed"),
        age(object, now),
    ]
}

pub(super) const SCALED_OBJECTS: &[PrinterColumn] = &[
    NAME,
    column("ScaleTargetKind", "The kind of what it scales."),
    column("ScaleTargetName", "What it scales."),
    column("Min", "Pods at least.").typed("integer"),
    column("Max", "Pods at most.").typed("integer"),
    column("Ready", "Whether it works."),
    column("Active", "Whether a trigger asks for pods."),
    column("Fallback", "Whether it scales by its fallback."),
    AGE,
];

pub(super) fn scaled_object(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        shown(object, "/status/scaleTargetKind"),
        shown(object, "/spec/scaleTargetRef/name"),
        count(object, "/spec/minReplicaCount"),
        count(object, "/spec/maxReplicaCount"),
        condition_status(object, "Ready"),
        condition_status(object, "Active"),
        condition_status(object, "Fallback"),
        age(object, now),
    ]
}

pub(super) const POD_AUTOSCALERS: &[PrinterColumn] = &[
    NAME,
    column("Reference", "What it scales."),
    column("Targets", "Its metrics: current and target values."),
    column("MinPods", "Pods at least."),
    column("MaxPods", "Pods at most."),
    column("Replicas", "Pods now.").typed("integer"),
    column("Age", "Time since the object was created."),
];

pub(super) fn pod_autoscaler(object: &Value, now: Moment) -> Vec<Value> {
    let metrics = list(object, "/spec/metrics").iter().enumerate();
    let targets: Vec<String> = metrics
        .map(|(at, metric)| {
            let aim = text(metric, "/pods/target/averageValue");
            let read = format!("/status/currentMetrics/{at}/pods/current/averageValue");
            match text(object, &read) {
                "" => format!("<unknown>/{aim}"),
                read => format!("{read}/{aim}"),
            }
        })
        .collect();
    let number = |pointer: &str| match object.pointer(pointer) {
        Some(number) => number.to_string().into(),
        None => Value::from("<unset>"),
    };
    let target = format!(
        "{}/{}",
        text(object, "/spec/scaleTargetRef/kind"),
        text(object, "/spec/scaleTargetRef/name")
    );
    vec![
        name(object).into(),
        target.into(),
        targets.join(", ").into(),
        number("/spec/minReplicas"),
        number("/spec/maxReplicas"),
        count(object, "/status/currentReplicas"),
        age(object, now),
    ]
}
