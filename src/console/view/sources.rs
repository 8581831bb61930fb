//! Sources: their age, their errors, and our requests to the API server.

use model::base::Name;
use model::fleet::observe::{SourceHealth, SourceState};
use table::Facts;
use table::cell::{Cell, Value};
use table::column::{Column, KindSpec, Row, id_of};
use table::role::Role;
use table::sources::{message, state_words};

use super::describe::Description;
use table::navigation::{Destination, RowScope, Selection, ViewId};

/// The table of sources: the kinds, each with its sources that are broken; or each source by itself.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("source", "SOURCE", 0, (30, 50), name).sign(|facts, row| {
            let worst = sources(facts, row).map(|source| source.state).max();
            worst.map_or(("–", Role::Muted), |state| {
                let (sign, role, _) = state_of(state);
                (sign, role)
            })
        }),
        Column::words("kind", "KIND", 6, (6, 20), |facts, row| {
            of(facts, row, |source| Value::text(source.kind.as_str())).role(Role::Muted)
        }),
        Column::words("state", "STATE", 0, (12, 18), state),
        Column::words("node", "NODE", 0, (8, 20), |facts, row| {
            of(facts, row, |source| match &source.node {
                Some(node) => Value::text(node.as_str()),
                // The API server's tables are on no node.
                None if !source.gives_readings() => Value::Empty,
                None => Value::Unknown,
            })
            .middle()
        }),
        Column::number("failing", "FAILING", 1, 5, |facts, row| {
            of(facts, row, |source| match facts.fleet.fails_since(source) {
                Some((at, true)) => Value::SeenSince(at),
                Some((at, false)) => Value::Since(at),
                None => Value::Empty,
            })
        }),
        // Of a kind: the oldest of those that answer.
        Column::number("age", "AGE", 1, 4, |facts, row| {
            let live = sources(facts, row).filter(|source| is_folded(row) <= is_well(source));
            Cell::new(Value::known(
                live.filter_map(|source| source.last_ok).min(),
                Value::Since,
            ))
        }),
        Column::number("latency", "LATENCY", 4, 7, |facts, row| {
            let slowest = sources(facts, row)
                .filter_map(|source| source.latency_ms)
                .max();
            Cell::new(Value::known(slowest, |millis| {
                Value::Millis(u64::from(millis))
            }))
        }),
        Column::number("errors", "ERRORS", 3, 4, errors),
        Column::number("used", "USED", 5, 4, |facts, row| {
            sum(facts, row, |source| source.series_used)
        }),
        Column::number("skipped", "SKIPPED", 5, 4, |facts, row| {
            sum(facts, row, |source| source.series_skipped)
        }),
        Column::number("calls", "CALLS/MIN", 4, 5, |facts, row| {
            sum(facts, row, |source| source.calls_per_minute)
        }),
        Column::words("message", "MESSAGE", 1, (24, 90), |facts, row| {
            if let Some(hidden) = hidden(facts, row) {
                return Cell::text(hidden).role(Role::Muted);
            }
            // A refusal is shown once, above every view; the server's message is on the source's own page.
            of(facts, row, |source| match source.state {
                SourceState::NotVisible => Value::Empty,
                _ => Value::text(message(facts, source)),
            })
            .role(Role::Warn)
        }),
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
            true => Destination::Part(
                ViewId::Sources,
                RowScope::Sources(Some(source.kind.clone())),
            ),
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
    output: None,
};

/// Marks a row of all sources of a kind; its first number is the place of one of them.
const FOLDED: u32 = 1;

const fn is_folded(row: Row) -> bool {
    row.1 == FOLDED
}

fn collect(facts: &Facts, row_scope: &RowScope) -> Vec<Row> {
    let all = &facts.fleet.sources;
    let rows = (0..all.len() as u32).map(|at| (at, 0));
    match row_scope {
        RowScope::Sources(Some(kind)) => rows
            .filter(|row| all[row.0 as usize].kind == *kind)
            .collect(),
        RowScope::Sources(None) => rows.collect(),
        _ => {
            let folded = |(_, places): (&Name, Vec<u32>)| match places[..] {
                [one] => vec![(one, 0)],
                _ => {
                    let head = (places[0], FOLDED);
                    let broken = |at: &u32| !is_well(&all[*at as usize]);
                    let broken = places.into_iter().filter(broken).map(|at| (at, 0));
                    std::iter::once(head).chain(broken).collect()
                }
            };
            by_kind(facts).into_iter().flat_map(folded).collect()
        }
    }
}

/// True for a source that answers, or that this user may not read.
fn is_well(source: &SourceHealth) -> bool {
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
fn sources(facts: &Facts, row: Row) -> impl Iterator<Item = &SourceHealth> {
    let one = first(facts, row);
    let kind = one.filter(|_| is_folded(row)).map(|source| &source.kind);
    let all = facts.fleet.sources.iter();
    let of_kind = all.filter(move |source| Some(&source.kind) == kind);
    of_kind.chain(source(facts, row))
}

/// What is known of a kind of sources: how many answer, and each that does not.
pub(super) fn of_kind(facts: &Facts, row: Row) -> Option<Description> {
    let kind = &first(facts, row)?.kind;
    let mut table = Description {
        title: format!("sources of {kind}"),
        ..Description::default()
    };
    let worst = sources(facts, row).map(|source| source.state).max()?;
    let (live, ours) = live_of(sources(facts, row));
    let words = format!("{live} of {ours} live");
    table.words("state", words, state_of(worst).1);
    if let Some(hidden) = hidden(facts, row) {
        table.words("rights", hidden, Role::Muted);
    }
    for source in sources(facts, row).filter(|source| !is_well(source)) {
        let (role, word) = words_of(source);
        let message = message(facts, source);
        table.words(word, format!("{}: {message}", source.name), role);
    }
    table.words("", "enter lists each of them", Role::Muted);
    Some(table)
}

/// What only a single source has; empty for a kind.
fn of<'a>(
    facts: &'a Facts,
    row: Row,
    make: impl FnOnce(&'a SourceHealth) -> Value<'a>,
) -> Cell<'a> {
    match source(facts, row) {
        Some(source) => Cell::new(make(source)),
        None => Cell::new(Value::Empty),
    }
}

/// A count of a source, or of all of a kind that are known.
fn sum(facts: &Facts, row: Row, count: impl Fn(&SourceHealth) -> Option<u32>) -> Cell<'_> {
    let known = sources(facts, row).filter_map(count);
    let sum = known.map(i64::from).reduce(|sum, one| sum + one);
    Cell::new(Value::known(sum, Value::Count))
}

/// How many of some sources are live, and how many we may read.
pub(super) fn live_of<'a>(sources: impl Iterator<Item = &'a SourceHealth>) -> (usize, usize) {
    let ours = sources.filter(|source| source.state != SourceState::NotVisible);
    ours.fold((0, 0), |(live, all), source| {
        (
            live + usize::from(source.state == SourceState::Live),
            all + 1,
        )
    })
}

/// The places of all sources by kind, kinds in the order of their first.
pub(super) fn by_kind(facts: &Facts) -> Vec<(&Name, Vec<u32>)> {
    let mut kinds: Vec<(&Name, Vec<u32>)> = Vec::new();
    for (at, source) in facts.fleet.sources.iter().enumerate() {
        match kinds.iter_mut().find(|(known, _)| **known == source.kind) {
            Some((_, places)) => places.push(at as u32),
            None => kinds.push((&source.kind, vec![at as u32])),
        }
    }
    kinds
}

/// A source's state as a sign and a word.
pub const fn state_of(state: SourceState) -> (&'static str, Role, &'static str) {
    let word = state_words(state);
    match state {
        SourceState::NotVisible => ("–", Role::Muted, word),
        SourceState::Live => ("●", Role::Ok, word),
        SourceState::Stale => ("◐", Role::Warn, word),
        SourceState::Lost => ("▲", Role::Crit, word),
    }
}

/// The same in words: one that has never answered is not stale.
pub const fn words_of(source: &SourceHealth) -> (Role, &'static str) {
    let (_, role, word) = state_of(source.state);
    match (source.state, source.last_ok) {
        (SourceState::Stale, None) => (role, "no answer yet"),
        _ => (role, word),
    }
}

fn name(facts: &Facts, row: Row) -> Cell<'_> {
    let name = first(facts, row).map_or(Value::Unknown, |source| match is_folded(row) {
        true => Value::text(source.kind.as_str()),
        false => Value::text(source.name.as_str()),
    });
    Cell::new(name).role(Role::Title).middle()
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
    if worst == SourceState::NotVisible {
        return Cell::text(worst.name()).role(state_of(worst).1);
    }
    let (live, ours) = live_of(sources(facts, row));
    let words = format!("{live}/{ours} {}", SourceState::Live.name());
    Cell::text(words).role(state_of(worst).1)
}

/// How many sources of a kind this user may not read: `16 not-visible`; `None` where all are hidden, or for a single source.
fn hidden(facts: &Facts, row: Row) -> Option<String> {
    let hidden = sources(facts, row).filter(|source| source.state == SourceState::NotVisible);
    let count = Some(hidden.count()).filter(|count| *count > 0 && is_folded(row))?;
    Some(format!("{count} {}", SourceState::NotVisible.name()))
}

fn errors(facts: &Facts, row: Row) -> Cell<'_> {
    let sum: u64 = sources(facts, row).map(|source| source.errors).sum();
    let count = Value::Count(i64::try_from(sum).unwrap_or(i64::MAX));
    Cell::new(count).role(if sum > 0 { Role::Warn } else { Role::Muted })
}
