//! Alerts for Alertmanager: `POST /api/v2/alerts`, an array of `postableAlert`
//! (<https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml>).

use std::time::Duration;

use serde_json::{Map, Value, json};

use model::base::Moment;
use model::base::name::printable;
use model::fleet::finding::Severity;

use super::entry::{ALERT_LASTS, Entry};

/// Margin by which the end of an alert is dated back. Alertmanager ignores an `endsAt` that is in the future by its own
/// clock while the alert that it has lasts longer, and our clock is accurate to about a second. (`Merge` in
/// <https://github.com/prometheus/common/blob/main/model/alert.go> and Alertmanager's `types.Alert`.)
pub(super) const CLOCKS_DIFFER: Duration = Duration::from_secs(10);

/// The `severity` label, in the convention of Prometheus rules.
pub(crate) const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Crit => "critical",
        Severity::Warn => "warning",
        Severity::Info => "info",
    }
}

/// The request body for these entries.
pub(super) fn body<'a>(
    cluster: &str,
    entries: impl Iterator<Item = &'a Entry>,
    now: Moment,
) -> String {
    let mut alerts = Vec::new();
    for entry in entries {
        let current = entry.alert.finding.severity;
        // The severity is a label and thus part of the alert's identity: the alert with the previous severity ends.
        let over = entry
            .sent_severity
            .filter(|previous| entry.ended.is_some() || *previous != current);
        if let Some(previous) = over {
            let ended = now.minus(CLOCKS_DIFFER);
            let began = entry.alert.finding.since.min(now);
            alerts.push(alert(cluster, entry, previous, now, ended.max(began)));
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
        // `startsAt` is then the first sighting: the real start is unknown.
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

/// Leaves out empty texts: Alertmanager treats them as missing.
fn texts<const N: usize>(pairs: [(&str, String); N]) -> Value {
    let known = pairs.into_iter().filter(|(_, text)| !text.is_empty());
    let all =
        known.map(|(name, text)| (name.to_owned(), Value::from(printable(&text).into_owned())));
    Value::Object(all.collect::<Map<String, Value>>())
}
