//! Printer columns of the training operator, KubeRay and LeaderWorkerSet.

use serde_json::Value;

use super::custom::{AGE, count, shown};
use super::{NAME, PrinterColumn, age, column};
use crate::human::since;
use crate::json::{list, name, text};
use model::base::Moment;

/// How long ago a moment of the object was: null where it is not set.
fn ago(object: &Value, pointer: &str, now: Moment) -> Value {
    match text(object, pointer) {
        "" => Value::Null,
        at => since(now, at).into(),
    }
}

pub(super) const PYTORCH_JOBS: &[PrinterColumn] = &[
    NAME,
    column("State", "The type of its last condition."),
    AGE,
];

pub(super) fn pytorch_job(object: &Value, now: Moment) -> Vec<Value> {
    let last = list(object, "/status/conditions").last();
    vec![
        name(object).into(),
        last.map_or(Value::Null, |condition| shown(condition, "/type")),
        age(object, now),
    ]
}

pub(super) const RAY_JOBS: &[PrinterColumn] = &[
    NAME,
    column("job status", "What Ray says of the job."),
    column("deployment status", "How far KubeRay is with it."),
    column("ray cluster name", "The cluster that was made for it."),
    column("start time", "When it started.").typed("date"),
    column("end time", "When it ended.").typed("date"),
    AGE,
];

pub(super) fn ray_job(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        shown(object, "/status/jobStatus"),
        shown(object, "/status/jobDeploymentStatus"),
        shown(object, "/status/rayClusterName"),
        ago(object, "/status/startTime", now),
        ago(object, "/status/endTime", now),
        age(object, now),
    ]
}

pub(super) const RAY_CLUSTERS: &[PrinterColumn] = &[
    NAME,
    column("desired workers", "Workers that it should have.").typed("integer"),
    column("available workers", "Workers that it has.").typed("integer"),
    column("cpus", "CPUs of all its pods."),
    column("memory", "Memory of all its pods."),
    column("gpus", "GPUs of all its pods."),
    column("tpus", "TPUs of all its pods.").wide(),
    column("status", "Its state."),
    AGE,
    column("head pod IP", "Address of the head's pod.").wide(),
    column("head service IP", "Address of the head's service.").wide(),
];

pub(super) fn ray_cluster(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        count(object, "/status/desiredWorkerReplicas"),
        count(object, "/status/availableWorkerReplicas"),
        shown(object, "/status/desiredCPU"),
        shown(object, "/status/desiredMemory"),
        shown(object, "/status/desiredGPU"),
        shown(object, "/status/desiredTPU"),
        shown(object, "/status/state"),
        age(object, now),
        shown(object, "/status/head/podIP"),
        shown(object, "/status/head/serviceIP"),
    ]
}

pub(super) const LEADER_WORKER_SETS: &[PrinterColumn] = &[
    NAME,
    column("Ready", "Groups whose pods are all ready.").typed("integer"),
    column("Desired", "Groups that it should have.").typed("integer"),
    column("Up-to-date", "Groups of the latest template.").typed("integer"),
    AGE,
    column("Size", "Pods of a group.").typed("integer").wide(),
];

pub(super) fn leader_worker_set(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        count(object, "/status/readyReplicas"),
        count(object, "/spec/replicas"),
        count(object, "/status/updatedReplicas"),
        age(object, now),
        count(object, "/spec/leaderWorkerTemplate/size"),
    ]
}
