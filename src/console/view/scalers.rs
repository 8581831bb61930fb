//! Autoscalers of nodes and pods: current and desired counts, and why they do not scale.

use table::Facts;
use table::cell::{Cell, Value};
use table::column::{Column, KindSpec, Row, id_of};
use table::role::Role;
use table::scalers::{ScalerAt, ScalerRow, job_of, places};

use table::navigation::{Destination, RowScope, Selection, ViewId};

/// The table of autoscalers.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("name", "NAME", 0, (20, 44), |facts, row| {
            of(facts, row, |own| match own.namespace {
                Some(namespace) => Value::text(format!("{namespace}/{}", own.name)),
                None => Value::text(own.name.to_owned()),
            })
            .role(Role::Title)
        })
        .sign(|facts, row| match scaler(facts, row) {
            Some(own) if own.stuck => ("▲", Role::Warn),
            Some(_) => ("●", Role::Ok),
            None => ("–", Role::Muted),
        }),
        Column::words("kind", "KIND", 5, (8, 23), |facts, row| {
            of(facts, row, |own| Value::text(own.kind)).role(Role::Muted)
        }),
        Column::number("now", "NOW", 1, 4, |facts, row| {
            of(facts, row, |own| count(own.now))
        }),
        Column::number("wanted", "WANTED", 1, 4, |facts, row| {
            of(facts, row, |own| count(own.wanted))
        }),
        Column::number("min", "MIN", 3, 4, |facts, row| {
            of(facts, row, |own| count(own.min))
        }),
        Column::number("max", "MAX", 3, 4, |facts, row| {
            of(facts, row, |own| count(own.max))
        }),
        Column::words("state", "STATE", 0, (8, 16), |facts, row| {
            let role = match scaler(facts, row) {
                Some(own) if own.stuck => Role::Warn,
                _ => Role::Text,
            };
            of(facts, row, |own| Value::text(own.state)).role(role)
        }),
        Column::words("why", "WHY", 2, (20, 70), |facts, row| {
            of(facts, row, |own| Value::known(own.why, Value::text))
        }),
        Column::words("signal", "SIGNAL", 4, (8, 28), |facts, row| {
            of(facts, row, |own| {
                Value::known(own.signal.map(str::to_owned), Value::text)
            })
        }),
        Column::number("value", "VALUE", 4, 6, |facts, row| {
            of(facts, row, |own| Value::known(own.value, Value::text))
        }),
        Column::number("target", "TARGET", 4, 6, |facts, row| {
            of(facts, row, |own| Value::known(own.target, Value::text))
        }),
        Column::words("scales", "SCALES", 6, (8, 40), |facts, row| {
            of(facts, row, |own| Value::known(own.scales, Value::text))
        }),
        Column::number("since", "FOR", 5, 6, |facts, row| {
            of(facts, row, |own| Value::known(own.at, Value::Since))
        }),
    ],
    collect: |facts, _| {
        let place = |at| match at {
            ScalerAt::Nodes(at) => (0, at as u32),
            ScalerAt::Pods(at) => (1, at as u32),
            ScalerAt::Scaled(at) => (3, at as u32),
            ScalerAt::Request(at) => (2, at as u32),
        };
        places(facts).into_iter().map(place).collect()
    },
    id: |facts, row| scaler(facts, row).map_or(0, |own| id_of((own.kind, own.namespace, own.name))),
    label: |_, _, _| None,
    selection: |facts, row| match scaler(facts, row)?.pool {
        Some(pool) => Some(Selection::Pool(pool.clone())),
        None => job_of(facts, at(row)).map(|job| Selection::Job(job.id.clone())),
    },
    open: |facts, row| {
        Some(match scaler(facts, row)?.pool {
            Some(pool) => Destination::Part(ViewId::Pools, RowScope::Pool(pool.clone())),
            None => {
                let job = job_of(facts, at(row))?.id.clone();
                Destination::Part(ViewId::Jobs, RowScope::Job(job))
            }
        })
    },
    faulty: |facts, row| scaler(facts, row).is_some_and(|own| own.stuck),
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: "no autoscaler is known: no NodePool, no status of the cluster autoscaler, no HorizontalPodAutoscaler, no ScaledObject",
    output: None,
};

/// A row is the sort of scaler and its place among its like.
const fn at(row: Row) -> ScalerAt {
    match row {
        (0, at) => ScalerAt::Nodes(at as usize),
        (1, at) => ScalerAt::Pods(at as usize),
        (3, at) => ScalerAt::Scaled(at as usize),
        (_, at) => ScalerAt::Request(at as usize),
    }
}

fn scaler(facts: &Facts, row: Row) -> Option<ScalerRow<'_>> {
    table::scalers::row(facts, at(row))
}

fn count<'a>(number: Option<u32>) -> Value<'a> {
    Value::known(number, |number| Value::Count(i64::from(number)))
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(ScalerRow<'a>) -> Value<'a>) -> Cell<'a> {
    Cell::new(scaler(facts, row).map_or(Value::Unknown, make))
}
