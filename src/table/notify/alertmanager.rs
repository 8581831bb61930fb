//! Alerts for Alertmanager: `POST /api/v2/alerts`, an array of `postableAlert`
//! (<https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml>).

use serde_json::{Map, Value, json};

use model::base::Moment;
use model::base::name::printable;
use model::fleet::finding::Severity;

use super::delivery::{ALERT_LASTS, Entry};

/// The label `severity`, as rules for Prometheus have it.
pub(super) const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Crit => "critical",
        Severity::Warn => "warning",
        Severity::Info => "info",
    }
}

/// What alerts are sent of entries at a moment.
pub(super) fn body<'a>(
    cluster: &str,
    entries: impl Iterator<Item = &'a Entry>,
    now: Moment,
) -> String {
    let mut alerts = Vec::new();
    for entry in entries {
        let current = entry.alert.finding.severity;
        // The severity is one of the labels, and these tell alerts apart: the one of before ends.
        let over = entry
            .told
            .filter(|told| entry.ended.is_some() || *told != current);
        if let Some(told) = over {
            alerts.push(alert(cluster, entry, told, now, now));
        }
        if entry.ended.is_none() {
            alerts.push(alert(cluster, entry, current, now, now.plus(ALERT_LASTS)));
        }
    }
    Value::Array(alerts).to_string()
}

fn alert(cluster: &str, entry: &Entry, as_severe: Severity, now: Moment, ends: Moment) -> Value {
    let (finding, place) = (&entry.alert.finding, &entry.alert.place);
    let key = &finding.subject.key;
    let or_empty =
        |name: &Option<model::base::Name>| name.as_deref().unwrap_or_default().to_owned();
    let labels = [
        ("alertname", finding.code.to_string()),
        ("severity", severity(as_severe).to_owned()),
        ("cluster", cluster.to_owned()),
        ("id", finding.id.to_string()),
        ("kind", finding.subject.kind.to_owned()),
        ("namespace", key.namespace.to_string()),
        ("name", key.name.to_string()),
        ("node", or_empty(&place.node)),
        ("rack", or_empty(&place.rack)),
        ("pool", or_empty(&place.pool)),
    ];
    let number = |value: Option<f64>| value.filter(|value| value.is_finite());
    let annotations = [
        ("summary", finding.message.clone()),
        ("repair", finding.repair.clone()),
        (
            "value",
            number(finding.value).map_or_else(String::new, |value| value.to_string()),
        ),
        (
            "threshold",
            number(finding.threshold).map_or_else(String::new, |value| value.to_string()),
        ),
        ("acknowledged", yes(entry.alert.acknowledged)),
        // `startsAt` is when it was first seen: how long it has been true is not known.
        ("first_seen", yes(finding.first_seen)),
    ];
    json!({
        "labels": texts(labels),
        "annotations": texts(annotations),
        "startsAt": finding.since.min(now).rfc3339(),
        "endsAt": ends.rfc3339(),
    })
}

fn yes(is: bool) -> String {
    if is { "true".to_owned() } else { String::new() }
}

/// Alertmanager reads an empty text as none.
fn texts<const N: usize>(pairs: [(&str, String); N]) -> Value {
    let known = pairs.into_iter().filter(|(_, text)| !text.is_empty());
    let all =
        known.map(|(name, text)| (name.to_owned(), Value::from(printable(&text).into_owned())));
    Value::Object(all.collect::<Map<String, Value>>())
}
