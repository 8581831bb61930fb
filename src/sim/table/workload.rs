//! Columns and cells of the groups apps, batch and policy.

use serde_json::{Value, json};

use super::{
    AGE, CONTAINERS, IMAGES, NAME, PrinterColumn, SELECTOR, age, column, containers, labels,
    selector,
};
use crate::human::{duration, since};
use crate::json::{condition, int, name, text};
use crate::selector::Labels;
use model::base::Moment;

pub(super) const DEPLOYMENTS: &[PrinterColumn] = &[
    NAME,
    column("Ready", "Ready pods of wanted pods."),
    column("Up-to-date", "Pods with the wanted template."),
    column("Available", "Pods that have been ready long enough."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

/// `spec.replicas`, which the API defaults to one.
fn desired_pods(object: &Value) -> i64 {
    object
        .pointer("/spec/replicas")
        .and_then(Value::as_i64)
        .unwrap_or(1)
}

pub(super) fn deployment(object: &Value, now: Moment) -> Vec<Value> {
    let [names, images] = containers(object);
    let shown = match object.pointer("/spec/selector").map(Labels::of_object) {
        Some(Some(labels)) => labels.show(),
        Some(None) => "<invalid>".into(),
        None => String::new(),
    };
    vec![
        name(object).into(),
        format!(
            "{}/{}",
            int(object, "/status/readyReplicas"),
            desired_pods(object)
        )
        .into(),
        int(object, "/status/updatedReplicas").into(),
        int(object, "/status/availableReplicas").into(),
        age(object, now),
        names,
        images,
        shown.into(),
    ]
}

pub(super) const REPLICA_SETS: &[PrinterColumn] = &[
    NAME,
    column("Desired", "Wanted pods.").typed("integer"),
    column("Current", "Pods that there are.").typed("integer"),
    column("Ready", "Ready pods.").typed("integer"),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn replica_set(object: &Value, now: Moment) -> Vec<Value> {
    let [names, images] = containers(object);
    vec![
        name(object).into(),
        desired_pods(object).into(),
        int(object, "/status/replicas").into(),
        int(object, "/status/readyReplicas").into(),
        age(object, now),
        names,
        images,
        selector(object).into(),
    ]
}

pub(super) const STATEFUL_SETS: &[PrinterColumn] = &[
    NAME,
    column("Ready", "Ready pods of wanted pods."),
    AGE,
    CONTAINERS,
    IMAGES,
];

pub(super) fn stateful_set(object: &Value, now: Moment) -> Vec<Value> {
    let [names, images] = containers(object);
    vec![
        name(object).into(),
        format!(
            "{}/{}",
            int(object, "/status/readyReplicas"),
            desired_pods(object)
        )
        .into(),
        age(object, now),
        names,
        images,
    ]
}

pub(super) const DAEMON_SETS: &[PrinterColumn] = &[
    NAME,
    column("Desired", "Nodes that should run its pod.").typed("integer"),
    column("Current", "Nodes that run its pod.").typed("integer"),
    column("Ready", "Nodes whose pod is ready.").typed("integer"),
    column("Up-to-date", "Nodes whose pod has the wanted template.").typed("integer"),
    column("Available", "Nodes whose pod has been ready long enough.").typed("integer"),
    column("Node Selector", "Labels of the nodes that run its pod."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn daemon_set(object: &Value, now: Moment) -> Vec<Value> {
    let [names, images] = containers(object);
    let count = |field: &str| Value::from(int(object, &format!("/status/{field}")));
    vec![
        name(object).into(),
        count("desiredNumberScheduled"),
        count("currentNumberScheduled"),
        count("numberReady"),
        count("updatedNumberScheduled"),
        count("numberAvailable"),
        labels(object.pointer("/spec/template/spec/nodeSelector")).into(),
        age(object, now),
        names,
        images,
        selector(object).into(),
    ]
}

pub(super) const JOBS: &[PrinterColumn] = &[
    NAME,
    column("Status", "What the job does, in one word."),
    column("Completions", "Finished pods of wanted completions."),
    column("Duration", "Time it has taken."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

pub(super) fn job(object: &Value, now: Moment) -> Vec<Value> {
    let [names, images] = containers(object);
    let done = int(object, "/status/succeeded");
    let completions = match object.pointer("/spec/completions").and_then(Value::as_i64) {
        Some(all) => format!("{done}/{all}"),
        None => match int(object, "/spec/parallelism") {
            parallel if parallel > 1 => format!("{done}/1 of {parallel}"),
            _ => format!("{done}/1"),
        },
    };
    let (start, end) = (
        text(object, "/status/startTime"),
        text(object, "/status/completionTime"),
    );
    let took = match (Moment::parse(start), Moment::parse(end)) {
        (None, _) => String::new(),
        (Some(_), None) => since(now, start),
        (Some(start), Some(end)) => duration(end.millis() - start.millis()),
    };
    let is = |kind: &str| condition(object, kind) == "True";
    let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
    let status = if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if deleting {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    vec![
        name(object).into(),
        status.into(),
        completions.into(),
        took.into(),
        age(object, now),
        names,
        images,
        selector(object).into(),
    ]
}

pub(super) const BUDGETS: &[PrinterColumn] = &[
    NAME,
    column("Min Available", "Pods that must stay available."),
    column("Max Unavailable", "Pods that may be unavailable."),
    column("Allowed Disruptions", "Pods that may be disrupted now.").typed("integer"),
    AGE,
];

pub(super) fn budget(object: &Value, now: Moment) -> Vec<Value> {
    let bound = |pointer: &str| match object.pointer(pointer) {
        Some(Value::Number(number)) => json!(number.to_string()),
        Some(Value::String(text)) => json!(text),
        _ => json!("N/A"),
    };
    vec![
        name(object).into(),
        bound("/spec/minAvailable"),
        bound("/spec/maxUnavailable"),
        int(object, "/status/disruptionsAllowed").into(),
        age(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_budgets_print_as_the_real_server_does() {
        let now = Moment::parse("2026-11-21T08:00:00Z").expect("a moment");
        let running = json!({
            "metadata": {"name": "j", "creationTimestamp": "2026-11-21T07:50:00Z"},
            "spec": {"completions": 4, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
            "status": {"succeeded": 1, "startTime": "2026-11-21T07:52:30Z"},
        });
        let shown: Vec<String> = job(&running, now).iter().map(Value::to_string).collect();
        assert_eq!(
            shown.join(" "),
            r#""j" "Running" "1/4" "7m30s" "10m" "c" "i" "a=b""#
        );
        let budgeted = json!({"metadata": {"name": "b"}, "spec": {"maxUnavailable": "20%"}, "status": {"disruptionsAllowed": 2}});
        let shown: Vec<String> = budget(&budgeted, now)
            .iter()
            .map(Value::to_string)
            .collect();
        assert_eq!(shown.join(" "), r#""b" "N/A" "20%" 2 "<unknown>""#);
    }
}
