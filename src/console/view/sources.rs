//! Sources: where the numbers come from, how old they are, what was skipped, what we ask of the API server.

use crate::table_model::{Column, Kind, Row, id_of};
use crate::theme::Role;
use crate::widget::{Cell, Value};
use model::fleet::observe::{SourceHealth, SourceState};
use table::Facts;

use super::{Destination, Selection};

/// The table of sources.
pub static KIND: Kind = Kind {
    columns: &[
        Column::words("source", "SOURCE", 0, (30, 50), name).sign(|facts, row| {
            source(facts, row).map_or(("–", Role::Muted), |source| {
                let (sign, role, _) = state_of(source.state);
                (sign, role)
            })
        }),
        Column::words("kind", "KIND", 6, (6, 20), |facts, row| {
            of(facts, row, |source| Value::text(source.kind.as_str())).role(Role::Muted)
        }),
        Column::words("state", "STATE", 0, (5, 11), state),
        Column::words("node", "NODE", 2, (8, 20), |facts, row| {
            of(facts, row, |source| match &source.node {
                Some(node) => Value::text(node.as_str()),
                // The API server's tables are on no node.
                None if !source.gives_readings() => Value::Empty,
                None => Value::Unknown,
            })
            .middle()
        }),
        Column::number("failing", "FAILING", 1, 5, |facts, row| {
            of(facts, row, |source| match source.failing_since {
                Some(at) if source.last_ok.is_none() => Value::SeenSince(at),
                Some(at) => Value::Since(at),
                None => Value::Empty,
            })
        }),
        Column::number("age", "AGE", 1, 4, |facts, row| {
            of(facts, row, |source| {
                Value::known(source.last_ok, Value::Since)
            })
        }),
        Column::number("latency", "LATENCY", 4, 7, |facts, row| {
            of(facts, row, |source| {
                Value::known(source.latency_ms, |millis| Value::Millis(u64::from(millis)))
            })
        }),
        Column::number("errors", "ERRORS", 3, 4, errors),
        Column::number("used", "USED", 5, 4, |facts, row| {
            of(facts, row, |source| count(source.series_used))
        }),
        Column::number("skipped", "SKIPPED", 5, 4, |facts, row| {
            of(facts, row, |source| count(source.series_skipped))
        }),
        Column::number("calls", "CALLS/MIN", 4, 5, |facts, row| {
            of(facts, row, |source| count(source.calls_per_minute))
        }),
        Column::words("message", "MESSAGE", 1, (24, 90), |facts, row| {
            // A refusal is told once, above every view; what the server said is on the source's own page.
            of(facts, row, |source| match source.state {
                SourceState::NotVisible => Value::Empty,
                _ => Value::text(source.message.as_str()),
            })
            .role(Role::Warn)
        }),
    ],
    collect: |facts, _| {
        (0..facts.fleet.sources.len() as u32)
            .map(|at| (at, 0))
            .collect()
    },
    id: |facts, row| source(facts, row).map_or(0, |source| id_of(&source.name)),
    label: |_, _, _| None,
    selection: |facts, row| source(facts, row).map(|source| Selection::Source(source.name.clone())),
    open: |facts, row| {
        source(facts, row).map(|source| Destination::Facts(Selection::Source(source.name.clone())))
    },
    faulty: |facts, row| source(facts, row).is_some_and(|source| !is_well(source)),
    // What is broken is what one looks for here.
    last: |facts, row| source(facts, row).is_some_and(is_well),
    sort: None,
    none: "no source has answered yet",
};

/// True for a source that answers, or that is not ours to read.
fn is_well(source: &SourceHealth) -> bool {
    matches!(source.state, SourceState::Live | SourceState::NotVisible)
}

fn source(facts: &Facts, row: Row) -> Option<&SourceHealth> {
    facts.fleet.sources.get(row.0 as usize)
}

fn of<'a>(
    facts: &'a Facts,
    row: Row,
    make: impl FnOnce(&'a SourceHealth) -> Value<'a>,
) -> Cell<'a> {
    match source(facts, row) {
        Some(source) => Cell::new(make(source)),
        None => Cell::new(Value::Unknown),
    }
}

fn count(count: Option<u32>) -> Value<'static> {
    Value::known(count, |count| Value::Count(i64::from(count)))
}

/// A source's state as a sign and a word.
pub const fn state_of(state: SourceState) -> (&'static str, Role, &'static str) {
    let word = state.name();
    match state {
        SourceState::NotVisible => ("–", Role::Muted, word),
        SourceState::Live => ("●", Role::Ok, word),
        SourceState::Stale => ("◐", Role::Warn, word),
        SourceState::Lost => ("▲", Role::Crit, word),
    }
}

fn name(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |source| Value::text(source.name.as_str()))
        .role(Role::Title)
        .middle()
}

fn state(facts: &Facts, row: Row) -> Cell<'_> {
    let Some(source) = source(facts, row) else {
        return Cell::new(Value::Unknown);
    };
    let (_, role, word) = state_of(source.state);
    Cell::text(word).role(role)
}

fn errors(facts: &Facts, row: Row) -> Cell<'_> {
    let some = source(facts, row).is_some_and(|source| source.errors > 0);
    of(facts, row, |source| {
        Value::Count(i64::try_from(source.errors).unwrap_or(i64::MAX))
    })
    .role(if some { Role::Warn } else { Role::Muted })
}
