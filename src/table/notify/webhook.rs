//! Messages of the generic webhook: JSON (docs/watch.md).

use serde_json::{Value, json};

use model::base::Moment;
use model::base::name::printable;
use model::fleet::finding::Severity;

use super::entry::{AlertGroup, Entry, FindingEnd, News};
use super::text;
use crate::kinds::alerts;

/// Version of the message format, in each message.
const VERSION: u32 = 1;
/// Maximum number of findings listed in a message; the others are counted in `omitted`.
const MOST: usize = 100;

/// The JSON document about the findings of a group.
pub(super) fn body(cluster: &str, group: &AlertGroup, entries: &[&Entry], now: Moment) -> String {
    // The most severe is the least.
    let severities = entries.iter().map(|entry| entry.alert.finding.severity);
    let place = group.place.as_ref();
    let alerts = entries.iter().take(MOST).map(|entry| alert(entry, now));
    let mut body = json!({
        "version": VERSION,
        "status": status(group, entries),
        "cluster": cluster,
        "at": now.rfc3339(),
        "code": group.code.as_str(),
        "severity": severities.min().map(|severity| severity.name()),
        "place": place.map(|(kind, name)| json!({"kind": kind, "name": name.as_str()})),
        "count": entries.len(),
        "text": text::headline(cluster, group, entries, Severity::name),
        "alerts": alerts.collect::<Vec<Value>>(),
        "omitted": entries.len().saturating_sub(MOST),
    });
    clean(&mut body);
    body.to_string()
}

/// `firing`, `resolved`, or `muted` if all entries were muted.
pub(super) fn status(group: &AlertGroup, entries: &[&Entry]) -> &'static str {
    let mut all = entries.iter();
    match group.news {
        News::Firing => "firing",
        News::Over if all.all(|entry| entry.ended == Some(FindingEnd::Muted)) => "muted",
        News::Over => "resolved",
    }
}

/// The alert as in `get alerts -o json`, with its node, rack and pool, and whether it is acknowledged or muted.
fn alert(entry: &Entry, now: Moment) -> Value {
    let row = alerts::row(&entry.alert.finding, now);
    let mut value = serde_json::to_value(row).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        let place = &entry.alert.place;
        let parts = [
            ("node", &place.node),
            ("rack", &place.rack),
            ("pool", &place.pool),
        ];
        for (name, part) in parts {
            object.insert(name.to_owned(), json!(part.as_deref()));
        }
        object.insert("acknowledged".to_owned(), entry.alert.acknowledged.into());
        object.insert(
            "muted".to_owned(),
            (entry.ended == Some(FindingEnd::Muted)).into(),
        );
    }
    value
}

/// Replaces control and invisible characters of every string value by visible ones.
fn clean(value: &mut Value) {
    match value {
        Value::String(text) => *text = printable(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(fields) => fields.values_mut().for_each(clean),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
