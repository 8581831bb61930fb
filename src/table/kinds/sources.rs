//! Data sources: their freshness, their faults, and our requests to the API server.

use std::borrow::Cow;
use std::collections::BTreeSet;

use cluster::accelerators::is_unlisted_device;
use schemars::JsonSchema;
use serde::Serialize;

use model::base::{Name, SmallSort, natural};
use model::fleet::observe::{SourceHealth, SourceState};
use model::fleet::skipped_series::SkippedSeries;
use model::fleet::source_errors::SourceError;
use model::fleet::source_fault::SourceFault;
use model::schema::of_rows;

use crate::Facts;
use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::kind::{Exporters, KindNames, KindView, UNKNOWN_IS_NULL};
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::role::Role;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct SourceRow<'a> {
    /// Its own name.
    pub name: &'a str,
    /// `kubernetes`, or the dialect's name.
    pub kind: &'a str,
    /// Freshness; `not-visible` where RBAC refuses it.
    #[schemars(with = "SourceState")]
    pub state: &'static str,
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
    /// The last of these failures, newest first, at most five.
    pub last_errors: Vec<SourceErrorRow<'a>>,
    /// Series turned into readings in the last page.
    pub series_used: Option<u32>,
    /// Series or lines that were skipped.
    pub series_skipped: Option<u32>,
    /// The metrics of the skipped series, those with the most series first, at most 24.
    pub skipped: &'a [SkippedSeries],
    /// Requests sent in the last minute.
    pub calls_per_minute: Option<u32>,
    /// The fault and its fix; null without a fault.
    pub message: Option<Cow<'a, str>>,
}

/// A failure of a source.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct SourceErrorRow<'a> {
    /// Time of the failure, on the server's clock.
    #[schemars(with = "model::base::Moment")]
    pub at: String,
    /// What failed, and the repair where one is known.
    pub message: &'a str,
}

/// Sources: each by itself, or the kinds, each with its sources that are broken. A row is the index of a source and whether it
/// is of all sources of that one's kind ([`FOLDED`]).
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("name", "NAME", 0, (30, 50), |facts, row| {
            let name = first(facts, row).map(|source| match is_folded(row) {
                true => source.kind.as_str(),
                false => source.name.as_str(),
            });
            Cell::maybe(name).role(Role::Title).middle()
        })
        .sign(|facts, row| {
            let worst = sources(facts, row).map(|source| source.state).max();
            worst.map_or(("–", Role::Muted), state_sign)
        })
        .by("name"),
        Column::words("kind", "KIND", 6, (6, 20), |facts, row| {
            of(facts, row, |source| Value::text(source.kind.as_str())).role(Role::Muted)
        })
        .by("kind"),
        Column::words("state", "STATE", 0, (12, 18), state).by("state"),
        Column::words("node", "NODE", 0, (8, 20), |facts, row| {
            of(facts, row, |source| match &source.node {
                Some(node) => Value::text(node.as_str()),
                // The API server's tables are on no node.
                None if !source.gives_readings() => Value::Empty,
                None => Value::Unknown,
            })
            .middle()
        })
        .by("node"),
        Column::number("failing", "FAILING", 1, 5, |facts, row| {
            of(facts, row, |source| match facts.fleet.fails_since(source) {
                Some((at, true)) => Value::SeenSince(at),
                Some((at, false)) => Value::Since(at),
                None => Value::Empty,
            })
        })
        .by("failing_seconds"),
        // Of a kind: the oldest of those that answer.
        Column::number("age", "AGE", 1, 4, |facts, row| {
            let live = sources(facts, row).filter(|source| is_folded(row) <= is_well(source));
            let oldest = live.filter_map(|source| source.last_ok).min();
            Cell::new(Value::known(oldest, Value::Since))
        })
        .by("age_seconds"),
        Column::number("latency", "LATENCY", 4, 7, |facts, row| {
            let all = sources(facts, row);
            let slowest = all.filter_map(|source| source.latency_ms).max();
            Cell::new(Value::known(slowest.map(u64::from), Value::Millis))
        })
        .by("latency_ms"),
        Column::number("errors", "ERRORS", 3, 4, |facts, row| {
            let sum: u64 = sources(facts, row).map(|source| source.errors).sum();
            let role = if sum > 0 { Role::Warn } else { Role::Muted };
            Cell::new(Value::Count(i64::try_from(sum).unwrap_or(i64::MAX))).role(role)
        })
        .by("errors"),
        Column::number("used", "USED", 5, 4, |facts, row| {
            sum(facts, row, |source| source.series_used)
        })
        .by("series_used"),
        Column::number("skipped", "SKIPPED", 5, 4, |facts, row| {
            sum(facts, row, |source| source.series_skipped)
        })
        .by("series_skipped"),
        Column::number("calls", "CALLS/MIN", 4, 5, |facts, row| {
            sum(facts, row, |source| source.calls_per_minute)
        })
        .by("calls_per_minute"),
        Column::words("message", "MESSAGE", 1, (24, 90), |facts, row| {
            if is_folded(row) {
                let hidden = not_visible(sources(facts, row));
                return hidden
                    .map_or(Cell::new(Value::Empty), Cell::text)
                    .role(Role::Muted);
            }
            let refused = first(facts, row).is_none_or(|one| one.state == SourceState::NotVisible);
            let role = if refused { Role::Muted } else { Role::Warn };
            of(facts, row, |source| Value::text(message(facts, source))).role(role)
        })
        .by("message"),
    ],
    collect,
    id: |facts, row| match (is_folded(row), first(facts, row)) {
        (true, Some(source)) => id_of(("kind", &source.kind)),
        (_, source) => source.map_or(0, |source| id_of(&source.name)),
    },
    label: |_, _, _| None,
    selection: |facts, row| source(facts, row).map(|source| Selection::Source(source.name.clone())),
    open: |facts, row| {
        let source = first(facts, row)?;
        Some(match is_folded(row) {
            true => {
                let of_kind = RowScope::Sources(Some(source.kind.clone()));
                Destination::Part(ViewId::Sources, of_kind)
            }
            false => Destination::Facts(Selection::Source(source.name.clone())),
        })
    },
    faulty: |facts, row| sources(facts, row).any(|source| !is_well(source)),
    worst: None,
    // Sources with a fault are the first rows.
    last: |facts, row| sources(facts, row).all(is_well),
    searched: Some(RowScope::Sources(None)),
    sort: None,
    none: "no source has answered yet",
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "sources",
        singular: "source",
        aliases: &["source"],
        help: "Where facts come from and how fresh they are",
        title: "Where facts come from",
        description: UNKNOWN_IS_NULL,
        schema: of_rows::<SourceRow<'_>>,
    },
    view: KindView::tab(ViewId::Sources).with_facts(),
    reads: |_| false,
    exporters: |_| Exporters::All,
    note: |_, _| None,
    rows: |facts, _| collect(facts, &RowScope::Sources(None)),
    key: |facts, row| source(facts, row).map_or_else(String::new, |one| one.name.to_string()),
    also: |_, _| Vec::new(),
    name: None,
    place: None,
    labels: None,
    json: |facts, rows, style| {
        style.each(rows, |row| {
            source(facts, row).map(|source| self::row(facts, source))
        })
    },
};

/// Marks a row of all sources of a kind; its first number is the index of one of them.
const FOLDED: u32 = 1;

const fn is_folded(row: Row) -> bool {
    row.1 == FOLDED
}

/// Each source, most severe first, then by name; or the kinds in the order of their first source.
fn collect(facts: &Facts, row_scope: &RowScope) -> Vec<Row> {
    let all = &facts.fleet.sources;
    let RowScope::Sources(wanted) = row_scope else {
        return folded(facts);
    };
    let mut rows: Vec<(Row, &SourceHealth)> = (0..)
        .zip(all.iter())
        .filter(|(_, source)| wanted.as_ref().is_none_or(|kind| source.kind == *kind))
        .map(|(at, source)| ((at, 0), source))
        .collect();
    rows.small_sort_by(|(_, a), (_, b)| {
        let worst_first = b.state.cmp(&a.state);
        worst_first.then_with(|| natural(&a.name, &b.name))
    });
    rows.into_iter().map(|(row, _)| row).collect()
}

/// A row for each kind, followed by its sources that are broken; a source that is alone of its kind is a row by itself.
fn folded(facts: &Facts) -> Vec<Row> {
    let all = &facts.fleet.sources;
    let of_kind = |(_, places): (&Name, Vec<u32>)| match places[..] {
        [one] => vec![(one, 0)],
        _ => {
            let head = (places[0], FOLDED);
            let broken = |at: &u32| !is_well(&all[*at as usize]);
            let broken = places.into_iter().filter(broken).map(|at| (at, 0));
            std::iter::once(head).chain(broken).collect()
        }
    };
    by_kind(facts).into_iter().flat_map(of_kind).collect()
}

/// True for a source that answers, or that this user may not read.
pub const fn is_well(source: &SourceHealth) -> bool {
    matches!(source.state, SourceState::Live | SourceState::NotVisible)
}

/// The source of a row; of a row of several it is any.
fn first(facts: &Facts, row: Row) -> Option<&SourceHealth> {
    facts.fleet.sources.get(row.0 as usize)
}

/// The source of a row that has one.
fn source(facts: &Facts, row: Row) -> Option<&SourceHealth> {
    first(facts, row).filter(|_| !is_folded(row))
}

/// The sources of a row.
pub fn sources(facts: &Facts, row: Row) -> impl Iterator<Item = &SourceHealth> {
    let folded = first(facts, row).filter(|_| is_folded(row)).into_iter();
    let of_kind = folded.flat_map(move |one| {
        let all = facts.fleet.sources.iter();
        all.filter(move |source| source.kind == one.kind)
    });
    of_kind.chain(source(facts, row))
}

/// What only a single source has; empty for a kind.
fn of<'a>(
    facts: &'a Facts,
    row: Row,
    make: impl FnOnce(&'a SourceHealth) -> Value<'a>,
) -> Cell<'a> {
    Cell::new(source(facts, row).map_or(Value::Empty, make))
}

/// A count of a source, or of all of a kind that are known.
fn sum(facts: &Facts, row: Row, count: impl Fn(&SourceHealth) -> Option<u32>) -> Cell<'_> {
    let known = sources(facts, row).filter_map(count);
    let sum = known.map(i64::from).reduce(|sum, one| sum + one);
    Cell::new(Value::known(sum, Value::Count))
}

/// The state of a source; of a kind, how many are live of those that we may read: `328/329 live`.
fn state(facts: &Facts, row: Row) -> Cell<'_> {
    if let Some(source) = source(facts, row) {
        let (role, word) = words_of(source);
        return Cell::text(word).role(role);
    }
    let Some(worst) = sources(facts, row).map(|source| source.state).max() else {
        return Cell::new(Value::Unknown);
    };
    let (_, role) = state_sign(worst);
    if worst == SourceState::NotVisible {
        return Cell::text(worst.name()).role(role);
    }
    let (live, ours) = live_of(sources(facts, row));
    let words = format!("{live}/{ours} {}", SourceState::Live.name());
    Cell::text(words).role(role)
}

/// The number of live sources, and the number of sources that this user may read.
pub fn live_of<'a>(sources: impl Iterator<Item = &'a SourceHealth>) -> (usize, usize) {
    let ours = sources.filter(|source| source.state != SourceState::NotVisible);
    ours.fold((0, 0), |(live, all), source| {
        (
            live + usize::from(source.state == SourceState::Live),
            all + 1,
        )
    })
}

/// How many of some sources this user may not read: `16 not-visible`; `None` for none.
pub fn not_visible<'a>(sources: impl Iterator<Item = &'a SourceHealth>) -> Option<String> {
    let hidden = sources.filter(|source| source.state == SourceState::NotVisible);
    let count = Some(hidden.count()).filter(|count| *count > 0)?;
    Some(format!("{count} {}", SourceState::NotVisible.name()))
}

/// The indices of all sources by kind, kinds in the order of their first.
pub fn by_kind(facts: &Facts) -> Vec<(&Name, Vec<u32>)> {
    let mut kinds: Vec<(&Name, Vec<u32>)> = Vec::new();
    for (at, source) in (0..).zip(facts.fleet.sources.iter()) {
        match kinds.iter_mut().find(|(known, _)| **known == source.kind) {
            Some((_, places)) => places.push(at),
            None => kinds.push((&source.kind, vec![at])),
        }
    }
    kinds
}

/// A source's state as a sign, and its role.
pub const fn state_sign(state: SourceState) -> (&'static str, Role) {
    match state {
        SourceState::NotVisible => ("–", Role::Muted),
        SourceState::Live => ("●", Role::Ok),
        SourceState::Stale => ("◐", Role::Warn),
        SourceState::Lost => ("▲", Role::Crit),
    }
}

/// A source's state in words, and its role: one that has never answered is not stale.
pub const fn words_of(source: &SourceHealth) -> (Role, &'static str) {
    let (_, role) = state_sign(source.state);
    match (source.state, source.last_ok) {
        (SourceState::Stale, None) => (role, "no answer yet"),
        _ => (role, state_words(source.state)),
    }
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

/// A source's fault and its fix, with its node first where that is not ready; without a fault what it says that no list
/// knows. Empty without either.
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
    let offered = lists.filter(|(resource, count)| *count > 0 && is_unlisted_device(resource));
    let names: BTreeSet<&str> = offered.map(|(resource, _)| resource.as_str()).collect();
    let mut shown = names
        .iter()
        .take(NAMED)
        .copied()
        .collect::<Vec<&str>>()
        .join(", ");
    if names.len() > NAMED {
        shown.push_str(&format!(" and {} more", names.len() - NAMED));
    }
    match shown.is_empty() {
        true => shown,
        false => format!("no known device plugin offers {shown}: each one counts as a device"),
    }
}

/// The row of one source.
pub fn row<'a>(facts: &Facts, source: &'a SourceHealth) -> SourceRow<'a> {
    let error = |error: &'a SourceError| SourceErrorRow {
        at: error.at.rfc3339(),
        message: &error.message,
    };
    SourceRow {
        name: &source.name,
        kind: &source.kind,
        state: source.state.name(),
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
        last_errors: source.last_errors.iter().map(error).collect(),
        series_used: source.series_used,
        series_skipped: source.series_skipped,
        skipped: &source.skipped,
        calls_per_minute: source.calls_per_minute,
        message: Some(message(facts, source)).filter(|words| !words.is_empty()),
    }
}
