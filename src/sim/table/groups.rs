//! Printer columns of Volcano and KAI.

use serde_json::Value;

use super::custom::{AGE, count, shown};
use super::{NAME, PrinterColumn, age, column};
use crate::json::name;
use model::base::Moment;

pub(super) const VOLCANO_JOBS: &[PrinterColumn] = &[
    NAME,
    column("STATUS", "Its phase."),
    column("minAvailable", "Pods without which it does nothing.").typed("integer"),
    column("RUNNINGS", "Pods that run.").typed("integer"),
    AGE,
    column("QUEUE", "The queue that it was submitted to.").wide(),
];

pub(super) fn volcano_job(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        shown(object, "/status/state/phase"),
        count(object, "/spec/minAvailable"),
        count(object, "/status/running"),
        age(object, now),
        shown(object, "/spec/queue"),
    ]
}

pub(super) const VOLCANO_POD_GROUPS: &[PrinterColumn] = &[
    NAME,
    column("STATUS", "Its phase."),
    column("minMember", "Pods without which it does nothing.").typed("integer"),
    column("RUNNINGS", "Pods that run.").typed("integer"),
    AGE,
    column("QUEUE", "The queue that it is in.").wide(),
];

pub(super) fn volcano_pod_group(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        shown(object, "/status/phase"),
        count(object, "/spec/minMember"),
        count(object, "/status/running"),
        age(object, now),
        shown(object, "/spec/queue"),
    ]
}

pub(super) const VOLCANO_QUEUES: &[PrinterColumn] = &[NAME, column("PARENT", "The queue above.")];

pub(super) fn volcano_queue(object: &Value) -> Vec<Value> {
    vec![name(object).into(), shown(object, "/spec/parent")]
}

pub(super) const KAI_QUEUES: &[PrinterColumn] = &[
    NAME,
    column("Priority", "Rank among queues.").typed("integer"),
    column("Parent", "The queue above."),
    column("Children", "The queues below."),
    column("DisplayName", "What people call it."),
];

pub(super) fn kai_queue(object: &Value) -> Vec<Value> {
    vec![
        name(object).into(),
        count(object, "/spec/priority"),
        shown(object, "/spec/parentQueue"),
        shown(object, "/status/childQueues"),
        shown(object, "/spec/displayName"),
    ]
}
