//! Rows of `sources`: data sources, their freshness, and their load.

use std::borrow::Cow;
use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use cluster::accelerators::is_of_unknown_name;
use model::base::{SmallSort, natural};
use model::fleet::observe::{SourceHealth, SourceState};
use model::fleet::source_fault::SourceFault;

use super::Facts;
use super::table::Column;
use super::text::{age, or_unknown, word};

/// One source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct SourceRow<'a> {
    /// Its own name.
    pub name: &'a str,
    /// `kubernetes`, or the dialect's name.
    pub kind: &'a str,
    /// Freshness; `not-visible` where RBAC refuses it.
    #[schemars(with = "SourceState")]
    pub state: &'static str,
    /// The state as displayed.
    #[serde(skip)]
    pub told: &'static str,
    /// The node that it runs on, where it belongs to one.
    pub node: Option<&'a str>,
    /// Seconds since the first failure after its last success; null while it answers or where unknown.
    pub failing_seconds: Option<u64>,
    /// Seconds since its last success; null without one.
    pub age_seconds: Option<u64>,
    /// Latency of its last answer, milliseconds.
    pub latency_ms: Option<u32>,
    /// Failures since the start.
    pub errors: u64,
    /// Series turned into readings in the last page.
    pub series_used: Option<u32>,
    /// Series or lines that were skipped.
    pub series_skipped: Option<u32>,
    /// Requests sent in the last minute.
    pub calls_per_minute: Option<u32>,
    /// The fault and its fix; null without a fault.
    pub message: Option<Cow<'a, str>>,
}

/// Columns as a table.
pub(super) fn columns<'a>() -> Vec<Column<SourceRow<'a>>> {
    vec![
        Column::text("NAME", |row: &SourceRow<'_>| row.name.to_owned()),
        Column::text("KIND", |row| row.kind.to_owned()),
        Column::text("STATE", |row: &SourceRow<'_>| row.told.to_owned()).by("state"),
        Column::text("NODE", |row| word(row.node)),
        Column::number("AGE", |row: &SourceRow<'_>| age(row.age_seconds)).by("age_seconds"),
        Column::number("FAILING", |row: &SourceRow<'_>| age(row.failing_seconds))
            .by("failing_seconds"),
        Column::number("LATENCY", |row: &SourceRow<'_>| {
            or_unknown(row.latency_ms.map(|millis| format!("{millis}ms")))
        })
        .by("latency_ms"),
        Column::number("ERRORS", |row| row.errors.to_string()),
        Column::number("USED", |row: &SourceRow<'_>| or_unknown(row.series_used)).by("series_used"),
        Column::number("SKIPPED", |row: &SourceRow<'_>| {
            or_unknown(row.series_skipped)
        })
        .by("series_skipped"),
        Column::number("CALLS/MIN", |row: &SourceRow<'_>| {
            or_unknown(row.calls_per_minute)
        })
        .by("calls_per_minute"),
        Column::text("MESSAGE", |row| word(row.message.as_deref())),
    ]
}

/// Every source, most severe first, then by name.
pub fn rows(facts: &Facts) -> Vec<SourceRow<'_>> {
    let mut sources: Vec<_> = facts.fleet.sources.iter().collect();
    sources.small_sort_by(|a, b| {
        let worst_first = b.state.cmp(&a.state);
        worst_first.then_with(|| natural(&a.name, &b.name))
    });
    let rows = sources.into_iter();
    rows.map(|source| row(facts, source)).collect()
}

/// What is wrong with a source, and the repair.
pub fn fault(facts: &Facts, source: &SourceHealth) -> SourceFault {
    facts.fleet.source_fault(source, facts.now)
}

/// The state as displayed: a lost source is `unreachable`. In JSON it is `lost`.
pub const fn state_words(state: SourceState) -> &'static str {
    match state {
        SourceState::Lost => "unreachable",
        other => other.name(),
    }
}

/// The JSON name of a state's displayed word.
pub fn state_named(words: &str) -> Option<&'static str> {
    const ALL: [SourceState; 4] = [
        SourceState::NotVisible,
        SourceState::Live,
        SourceState::Stale,
        SourceState::Lost,
    ];
    let state = ALL.into_iter().find(|state| state_words(*state) == words);
    state.map(SourceState::name)
}

/// A source's fault and its fix, with its node first where that is not ready; without a fault what it says that no list knows. Empty
/// without either.
pub fn message(facts: &Facts, source: &SourceHealth) -> Cow<'static, str> {
    match source.message.is_empty() && facts.fleet.node_down(source).is_none() {
        true if source.name.as_str() == NODES => unknown_names(facts).into(),
        true => Cow::Borrowed(""),
        false => Cow::Owned(fault(facts, source).words()),
    }
}

/// The name of the source of nodes.
const NODES: &str = "api nodes";

/// How many names a message has.
const NAMED: usize = 3;

/// The resources of nodes that count as devices by their names alone; empty where there are none.
fn unknown_names(facts: &Facts) -> String {
    let nodes = facts.fleet.nodes.iter();
    let lists = nodes.flat_map(|node| node.seen.capacity.devices.iter());
    let offered = lists.filter(|(resource, count)| *count > 0 && is_of_unknown_name(resource));
    let names: BTreeSet<&str> = offered.map(|(resource, _)| resource.as_str()).collect();
    let mut told = names
        .iter()
        .take(NAMED)
        .copied()
        .collect::<Vec<&str>>()
        .join(", ");
    if names.len() > NAMED {
        told.push_str(&format!(" and {} more", names.len() - NAMED));
    }
    match told.is_empty() {
        true => told,
        false => format!("no known device plugin offers {told}: each one counts as a device"),
    }
}

/// The row of one source.
pub fn row<'a>(facts: &Facts, source: &'a SourceHealth) -> SourceRow<'a> {
    SourceRow {
        name: &source.name,
        kind: &source.kind,
        state: source.state.name(),
        told: state_words(source.state),
        node: source.node.as_deref(),
        // When only our first sighting is known, a one-shot command would print 0 s.
        failing_seconds: facts
            .fleet
            .fails_since(source)
            .filter(|(_, first_seen)| !first_seen)
            .map(|(at, _)| facts.now.since(at).seconds()),
        age_seconds: source.last_ok.map(|at| facts.now.since(at).seconds()),
        latency_ms: source.latency_ms,
        errors: source.errors,
        series_used: source.series_used,
        series_skipped: source.series_skipped,
        calls_per_minute: source.calls_per_minute,
        message: Some(message(facts, source)).filter(|words| !words.is_empty()),
    }
}
