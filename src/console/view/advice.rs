//! Advice: what to do about jobs' devices and about pools, largest saving first. Keys on a row act on its job or pool.

use std::cmp::Reverse;

use model::advice::{Advice, Certainty};
use model::base::Name;
use table::Facts;
use table::cell::{Cell, Value};
use table::column::{Column, KindSpec, Row, id_of};
use table::kinds::advice;
use table::role::Role;
use table::silence::Silence;

use table::navigation::{Destination, RowScope, Selection, ViewId};

/// The table of advice.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::number("saves", "SAVES $/MONTH", 0, 9, |facts, row| {
            of(facts, row, |advice| {
                Value::known(advice.saves_a_month(), Value::Sum)
            })
            .role(Role::Accent)
        })
        .sign(|facts, row| match silence(facts, row) {
            Some(Silence::Muted) => ("–", Role::Muted),
            Some(Silence::Acknowledged) => ("✓", Role::Muted),
            None => ("○", Role::Info),
        }),
        Column::words("job", "JOB OR POOL", 0, (20, 40), |facts, row| {
            of(facts, row, |advice| match advice.pool() {
                Some(_) => Value::text(advice.object()),
                None => Value::path(&advice.job.key),
            })
            .role(Role::Title)
        }),
        Column::words("team", "TEAM", 5, (8, 16), |facts, row| {
            of(facts, row, |advice| match advice.pool() {
                Some(_) => Value::Unknown,
                None => Value::text(advice.team.as_str()),
            })
        }),
        Column::words("bound", "BOUND BY 30m", 3, (6, 13), |facts, row| {
            of(facts, row, |advice| {
                Value::known(advice.bound, |bound| Value::text(bound.name()))
            })
        }),
        Column::words("advice", "ADVICE", 1, (30, 200), |facts, row| {
            of(facts, row, |own| Value::text(advice::words(facts, own)))
        }),
        Column::words("certainty", "CERTAINTY", 4, (9, 9), |facts, row| {
            // A mute or acknowledgment is shown in its place, as in alerts.
            if let Some(silence) = silence(facts, row) {
                return Cell::text(silence.name()).role(Role::Muted);
            }
            let role = match advice_of(facts, row).map(|advice| advice.certainty) {
                Some(Certainty::High) => Role::Text,
                _ => Role::Muted,
            };
            of(facts, row, |advice| Value::text(advice.certainty.name())).role(role)
        }),
        Column::number("costs", "DEVICES $/MONTH", 6, 9, |facts, row| {
            of(facts, row, |own| {
                Value::known(own.costs.map(model::advice::a_month), Value::Sum)
            })
        }),
    ],
    collect: |facts, _| {
        // (A scope keeps the rows of its jobs.) Jobs and pools together, what saves most first.
        let of = |count: usize, list: u32| (0..count as u32).map(move |at| (at, list));
        let pools = advice::of_pools(facts).len();
        let mut rows: Vec<Row> = of(facts.advice.len(), 0).chain(of(pools, 1)).collect();
        let rank = |row: &Row| advice_of(facts, *row).map(|own| (own.saves, own.costs));
        rows.sort_by_key(|row| Reverse(rank(row)));
        rows
    },
    id: |facts, row| advice_of(facts, row).map_or(0, |advice| id_of(advice.id())),
    label: |_, _, _| None,
    selection: |facts, row| {
        let own = advice_of(facts, row)?;
        Some(match own.pool() {
            Some(pool) => Selection::Pool(pool.clone()),
            None => Selection::Job(own.job.clone()),
        })
    },
    open: |facts, row| {
        let own = advice_of(facts, row)?;
        Some(match own.pool() {
            Some(pool) => Destination::Part(ViewId::Pools, RowScope::Pool(pool.clone())),
            None => Destination::Part(ViewId::Jobs, RowScope::Job(own.job.clone())),
        })
    },
    faulty: |_, _| false,
    worst: None,
    last: |facts, row| silence(facts, row).is_some(),
    searched: None,
    sort: None,
    none: "no advice: the last half hour is not read yet (then BOUND BY of view 5 is empty), or no job could do better",
    output: None,
};

fn advice_of(facts: &Facts, row: Row) -> Option<&Advice> {
    let list = match row.1 {
        0 => &*facts.advice,
        _ => advice::of_pools(facts),
    };
    list.get(row.0 as usize)
}

/// What the rows that are shown save together, and how many save an unknown sum; what is muted is not counted.
pub(super) fn total(facts: &Facts, rows: impl Iterator<Item = Row>) -> Option<String> {
    let of_row = |row| advice_of(facts, row).map(|own| (own, silence(facts, row)));
    let counted = rows
        .filter_map(of_row)
        .filter(|(_, silence)| *silence != Some(Silence::Muted));
    let words = advice::total_words(counted.map(|(own, _)| own))?;
    // The money by team in view 7 is of this moment: a job may work again, or have just begun to idle.
    Some(format!("{words} (by the last 30 min; view 7: now)"))
}

fn silence(facts: &Facts, row: Row) -> Option<Silence> {
    advice::silence(facts, advice_of(facts, row)?)
}

/// The id of a row's advice, and what was done with it.
pub(super) fn hushed(facts: &Facts, row: Row) -> Option<(Name, Option<Silence>)> {
    let own = advice_of(facts, row)?;
    Some((Name::from(own.id()), advice::silence(facts, own)))
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a Advice) -> Value<'a>) -> Cell<'a> {
    Cell::new(advice_of(facts, row).map_or(Value::Unknown, make))
}
