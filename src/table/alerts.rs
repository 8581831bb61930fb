//! Rows of `alerts`: findings, most severe first, each with a suggested repair.

use schemars::JsonSchema;
use serde::Serialize;

use model::base::{Age, Moment};
use model::fleet::finding::Finding;
use model::fleet::thresholds::LASTING;

use super::silence::Silence;
use super::table::Column;
use super::text::{or_unknown, word};
use super::{Facts, non_empty};

/// A finding first seen at most this long ago may be older than the first snapshot.
const FIRST_LOOK: Age = Age::from_seconds(30);

/// The object of an alert.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ObjectCell<'a> {
    /// Kind, `Device`, `Node`, `Job`, ….
    pub kind: &'static str,
    /// Namespace; null for a cluster-scoped object.
    pub namespace: Option<&'a str>,
    /// Name of the object.
    pub name: &'a str,
}

/// One alert.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct AlertRow<'a> {
    /// Id, stable while the alert lasts.
    pub id: &'a str,
    /// Severity as its check gives it, whether muted or not.
    #[schemars(with = "model::fleet::finding::Severity")]
    pub severity: &'static str,
    /// The severity, or `muted` or `acknowledged`.
    #[serde(skip)]
    pub level: &'static str,
    /// Stable code of the finding, `xid-79`.
    pub code: &'a str,
    /// The object that it is about.
    pub object: ObjectCell<'a>,
    /// Since when it has been true, RFC 3339; null where neither an object nor an exporter reports it.
    #[schemars(with = "Option<model::base::Moment>")]
    pub since: Option<String>,
    /// When this program first saw it, RFC 3339, where no start time is reported.
    #[schemars(with = "Option<model::base::Moment>")]
    pub first_seen: Option<String>,
    /// The measured value, in the unit of `threshold`.
    pub value: Option<f64>,
    /// The threshold that it passed.
    pub threshold: Option<f64>,
    /// What is wrong, as a sentence.
    pub message: &'a str,
    /// What to do about it.
    pub repair: Option<&'a str>,
    /// Muted by a user.
    pub muted: bool,
}

/// Columns as a table.
pub(super) fn columns<'a>() -> Vec<Column<AlertRow<'a>>> {
    vec![
        Column::text("LEVEL", |row: &AlertRow<'_>| row.level.to_owned()).by("severity"),
        Column::text("CODE", |row| row.code.to_owned()),
        Column::text("OBJECT", |row: &AlertRow<'_>| {
            let namespace = row
                .object
                .namespace
                .map(|namespace| format!("{namespace}/"));
            format!(
                "{} {}{}",
                row.object.kind,
                namespace.unwrap_or_default(),
                row.object.name
            )
        })
        .by("object.name"),
        Column::text("SINCE", |row| match (&row.since, &row.first_seen) {
            (Some(since), _) => since.clone(),
            (None, Some(seen)) => format!("first seen {seen}"),
            (None, None) => word(None),
        }),
        Column::wide_number("VALUE", |row| or_unknown(row.value)),
        Column::wide_number("THRESHOLD", |row| or_unknown(row.threshold)),
        Column::text("MESSAGE", |row| row.message.to_owned()),
        Column::wide_text("REPAIR", |row| word(row.repair)),
    ]
}

/// Every alert, most severe first; in a scope, those that concern it.
pub fn rows(facts: &Facts) -> Vec<AlertRow<'_>> {
    let findings = facts.fleet.findings.iter();
    findings
        .filter(|finding| facts.concerns(finding))
        .map(|finding| AlertRow {
            level: level(facts, finding),
            muted: facts.silences.of(finding, facts.now) == Some(Silence::Muted),
            ..row(finding, facts.now)
        })
        .collect()
}

/// Note for a command that took a single snapshot; `None` where earlier readings exist.
pub fn looked_once(facts: &Facts) -> Option<String> {
    let since = facts.history.readings_since();
    let is_single = since.is_none_or(|since| facts.now.since(since) < FIRST_LOOK);
    is_single.then(|| {
        format!(
            "these are of one reading, which does not show what lasts ({}): `stokehold get alerts --watch` and the console keep reading, and show what may be noise once it has lasted",
            LASTING.join(", ")
        )
    })
}

/// The severity of a finding, or how it was silenced.
pub fn level(facts: &Facts, finding: &Finding) -> &'static str {
    match facts.silences.of(finding, facts.now) {
        Some(silence) => silence.name(),
        None => finding.severity.name(),
    }
}

/// The row of one finding as of `now`, ignoring silences.
pub fn row(finding: &Finding, now: Moment) -> AlertRow<'_> {
    AlertRow {
        id: &finding.id,
        severity: finding.severity.name(),
        level: finding.severity.name(),
        code: &finding.code,
        object: ObjectCell {
            kind: finding.subject.kind,
            namespace: non_empty(&finding.subject.key.namespace),
            name: &finding.subject.key.name,
        },
        since: (!finding.first_seen).then(|| finding.since.rfc3339()),
        // The first snapshot says nothing about a fault's age.
        first_seen: (finding.first_seen && now.since(finding.since) >= FIRST_LOOK)
            .then(|| finding.since.rfc3339()),
        value: finding.value.filter(|value| value.is_finite()),
        threshold: finding.threshold.filter(|value| value.is_finite()),
        message: &finding.message,
        repair: non_empty(&finding.repair),
        muted: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    /// A command takes one snapshot: it names the checks that need minutes of readings.
    #[test]
    fn one_look_says_what_it_cannot_tell() {
        let facts = sample::facts();
        assert_eq!(
            facts.history.readings_since(),
            None,
            "nothing is remembered"
        );
        let said = looked_once(&facts).expect("is said");
        assert!(LASTING.iter().all(|code| said.contains(code)), "{said}");
    }
}
