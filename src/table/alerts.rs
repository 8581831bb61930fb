//! Rows of `alerts`: findings, worst first, each with the repair that is suggested.

use serde::Serialize;

use model::base::{Age, Moment};
use model::fleet::finding::Finding;

use super::silence::Silence;
use super::table::Column;
use super::text::{or_unknown, word};
use super::{Facts, said};

/// What was first seen less than this ago was there when the first look was taken.
const FIRST_LOOK: Age = Age::from_seconds(30);

/// What an alert is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ObjectCell<'a> {
    /// `Device`, `Node`, `Job`, ….
    pub kind: &'static str,
    /// Namespace; `None` for what has none.
    pub namespace: Option<&'a str>,
    /// Name.
    pub name: &'a str,
}

/// One alert.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AlertRow<'a> {
    /// Stable for as long as it lasts.
    pub id: &'a str,
    /// `crit`, `warn` or `info`.
    pub severity: &'static str,
    /// The same, or what somebody has done about it: `muted`, `acknowledged`.
    #[serde(skip)]
    pub level: &'static str,
    /// `xid-79`, `idle-allocated`, ….
    pub code: &'a str,
    /// What it is about.
    pub object: ObjectCell<'a>,
    /// Since when it has been true, RFC 3339; `None` where neither an object nor an exporter says.
    pub since: Option<String>,
    /// When this program first saw it, where nothing says since when it has been true.
    pub first_seen: Option<String>,
    /// The measured value.
    pub value: Option<f64>,
    /// The threshold that it passed.
    pub threshold: Option<f64>,
    /// A sentence.
    pub message: &'a str,
    /// What to do about it.
    pub repair: Option<&'a str>,
    /// Silenced by somebody.
    pub muted: bool,
}

/// Columns as CSV.
pub(super) const FIELDS: &[&str] = &[
    "id",
    "severity",
    "code",
    "object.kind",
    "object.namespace",
    "object.name",
    "since",
    "first_seen",
    "value",
    "threshold",
    "message",
    "repair",
    "muted",
];

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

/// Every alert, worst first; of a scope those that concern it.
pub fn rows(facts: &Facts) -> Vec<AlertRow<'_>> {
    let findings = facts.fleet.findings.iter();
    findings
        .filter(|finding| facts.concerns(&finding.subject))
        .map(|finding| AlertRow {
            level: level(facts, finding),
            muted: facts.silences.of(finding, facts.now) == Some(Silence::Muted),
            ..row(finding, facts.now)
        })
        .collect()
}

/// How grave a finding is, or what somebody has done about it.
pub fn level(facts: &Facts, finding: &Finding) -> &'static str {
    match facts.silences.of(finding, facts.now) {
        Some(silence) => silence.name(),
        None => finding.severity.name(),
    }
}

/// The row of one finding as of `now`, as if nobody had muted it.
pub fn row(finding: &Finding, now: Moment) -> AlertRow<'_> {
    AlertRow {
        id: &finding.id,
        severity: finding.severity.name(),
        level: finding.severity.name(),
        code: &finding.code,
        object: ObjectCell {
            kind: finding.subject.kind,
            namespace: said(&finding.subject.key.namespace),
            name: &finding.subject.key.name,
        },
        since: (!finding.first_seen).then(|| finding.since.rfc3339()),
        // The first look at a fault, however long it takes, says nothing of its age.
        first_seen: (finding.first_seen && now.since(finding.since) >= FIRST_LOOK)
            .then(|| finding.since.rfc3339()),
        value: finding.value.filter(|value| value.is_finite()),
        threshold: finding.threshold.filter(|value| value.is_finite()),
        message: &finding.message,
        repair: said(&finding.repair),
        muted: false,
    }
}
