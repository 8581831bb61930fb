//! Printer columns of the custom resources: JobSet and Kueue.

use serde_json::Value;

use super::{NAME, PrinterColumn, age, column};
use crate::json::{list, name, text};
use model::base::Moment;

pub(super) const AGE: PrinterColumn =
    column("Age", "Time since the object was created.").typed("date");

/// A text column: any scalar as text, null when absent.
pub(super) fn shown(object: &Value, pointer: &str) -> Value {
    match object.pointer(pointer) {
        None | Some(Value::Null) => Value::Null,
        Some(Value::String(text)) => text.as_str().into(),
        Some(other) => other.to_string().into(),
    }
}

/// An integer column: null when absent.
pub(super) fn count(object: &Value, pointer: &str) -> Value {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .map_or(Value::Null, Value::from)
}

/// The status of a condition: null when there is none.
pub(super) fn condition_status(object: &Value, kind: &str) -> Value {
    list(object, "/status/conditions")
        .iter()
        .find(|c| text(c, "/type") == kind)
        .map_or(Value::Null, |c| shown(c, "/status"))
}

pub(super) const JOB_SETS: &[PrinterColumn] = &[
    NAME,
    column("TerminalState", "How the job set ended."),
    column("Restarts", "How often it was restarted."),
    column("Completed", "Whether it is complete."),
    column("Suspended", "Whether it is suspended."),
    AGE,
];

pub(super) fn job_set(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        shown(object, "/status/terminalState"),
        shown(object, "/status/restarts"),
        condition_status(object, "Completed"),
        shown(object, "/spec/suspend"),
        age(object, now),
    ]
}

pub(super) const CLUSTER_QUEUES: &[PrinterColumn] = &[
    NAME,
    column("Cohort", "The cohort that it lends to and borrows from."),
    column("Strategy", "In which order it admits.").wide(),
    column("Pending Workloads", "Workloads that wait in it.").typed("integer"),
    column(
        "Admitted Workloads",
        "Admitted workloads that have not finished.",
    )
    .typed("integer")
    .wide(),
];

pub(super) fn cluster_queue(object: &Value) -> Vec<Value> {
    vec![
        name(object).into(),
        shown(object, "/spec/cohort"),
        shown(object, "/spec/queueingStrategy"),
        count(object, "/status/pendingWorkloads"),
        count(object, "/status/admittedWorkloads"),
    ]
}

pub(super) const LOCAL_QUEUES: &[PrinterColumn] = &[
    NAME,
    column("ClusterQueue", "The cluster queue behind it."),
    column("Pending Workloads", "Workloads that wait in it.").typed("integer"),
    column(
        "Admitted Workloads",
        "Admitted workloads that have not finished.",
    )
    .typed("integer"),
];

pub(super) fn local_queue(object: &Value) -> Vec<Value> {
    vec![
        name(object).into(),
        shown(object, "/spec/clusterQueue"),
        count(object, "/status/pendingWorkloads"),
        count(object, "/status/admittedWorkloads"),
    ]
}

/// What a custom kind without printer columns shows.
pub(super) const NAMED: &[PrinterColumn] = &[NAME, AGE];

pub(super) fn named(object: &Value, now: Moment) -> Vec<Value> {
    vec![name(object).into(), age(object, now)]
}

pub(super) const WORKLOADS: &[PrinterColumn] = &[
    NAME,
    column("Queue", "The local queue that it was submitted to."),
    column("Reserved in", "The cluster queue whose quota it holds."),
    column("Admitted", "Whether it is admitted."),
    column("Finished", "Whether it has finished."),
    AGE,
];

pub(super) fn workload(object: &Value, now: Moment) -> Vec<Value> {
    vec![
        name(object).into(),
        shown(object, "/spec/queueName"),
        shown(object, "/status/admission/clusterQueue"),
        condition_status(object, "Admitted"),
        condition_status(object, "Finished"),
        age(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn absent_fields_are_null_and_scalars_are_text() {
        let now = Moment::parse("2026-11-21T08:00:00Z").expect("a moment");
        let object = json!({
            "metadata": {"name": "s", "creationTimestamp": "2026-11-21T07:59:00Z"},
            "spec": {"suspend": false},
            "status": {"restarts": 2, "conditions": [{"type": "Completed", "status": "True"}]},
        });
        assert_eq!(
            job_set(&object, now),
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
}
