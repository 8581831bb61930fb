//! Autoscalers of nodes and pods: current and desired counts, and why they do not scale.

use std::borrow::Cow;

use model::fleet::observe::Table;
use model::schema::of_rows;

use crate::Facts;
use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::kind::{Exporters, KindNames, KindView};
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::role::Role;
use crate::rows::scalers::{ScalerAt, ScalerRow, job_of, places, row};

/// Node pools and node groups, then pod autoscalers, then ProvisioningRequests. A row is its type and its index among those.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("name", "NAME", 0, (16, 32), |facts, row| {
            let name = scaler(facts, row)
                .map(|own| Value::Path(own.namespace.unwrap_or_default(), own.name));
            let name = Cell::new(name.unwrap_or(Value::Unknown)).role(Role::Title);
            name.middle()
        })
        .sign(|facts, row| match scaler(facts, row) {
            Some(own) if own.stuck => ("▲", Role::Warn),
            Some(_) => ("●", Role::Ok),
            None => ("–", Role::Muted),
        })
        .by("name"),
        Column::words("kind", "KIND", 3, (12, 23), |facts, row| {
            words(facts, row, |own| Some(own.kind)).role(Role::Muted)
        })
        .by("kind"),
        Column::number("now", "NOW", 1, 4, |facts, row| {
            count(facts, row, |own| own.now)
        })
        .by("now"),
        Column::number("wanted", "DESIRED", 1, 4, |facts, row| {
            count(facts, row, |own| own.wanted)
        })
        .by("wanted"),
        Column::number("min", "MIN", 3, 4, |facts, row| {
            count(facts, row, |own| own.min)
        })
        .by("min"),
        Column::number("max", "MAX", 3, 4, |facts, row| {
            count(facts, row, |own| own.max)
        })
        .by("max"),
        Column::words("signal", "SIGNAL", 6, (10, 28), |facts, row| {
            words(facts, row, |own| own.signal)
        })
        .by("signal"),
        Column::number("value", "VALUE", 5, 6, |facts, row| {
            words(facts, row, |own| own.value)
        })
        .by("value"),
        Column::number("target", "TARGET", 5, 6, |facts, row| {
            words(facts, row, |own| own.target)
        })
        .by("target"),
        Column::words("state", "STATE", 0, (11, 16), |facts, row| {
            let stuck = scaler(facts, row).is_some_and(|own| own.stuck);
            let role = if stuck { Role::Warn } else { Role::Text };
            words(facts, row, |own| Some(own.state)).role(role)
        })
        .by("state"),
        Column::number("since", "SINCE", 5, 6, |facts, row| {
            let since = scaler(facts, row).and_then(|own| own.at);
            Cell::new(Value::known(since, Value::Since))
        })
        .by("since")
        .wide_output(),
        Column::words("scales", "SCALES", 7, (12, 28), |facts, row| {
            words(facts, row, |own| own.scales)
        })
        .by("scales")
        .wide_output(),
        Column::words("why", "WHY", 2, (30, 100), |facts, row| {
            words(facts, row, |own| own.why)
        })
        .by("why"),
    ],
    collect,
    id: |facts, row| scaler(facts, row).map_or(0, |own| id_of((own.kind, own.namespace, own.name))),
    label: |_, _, _| None,
    selection: |facts, row| match scaler(facts, row)?.pool {
        Some(pool) => Some(Selection::Pool(pool.clone())),
        None => job_of(facts, ScalerAt::of(row)).map(|job| Selection::Job(job.id.clone())),
    },
    open: |facts, row| {
        Some(match scaler(facts, row)?.pool {
            Some(pool) => Destination::Part(ViewId::Pools, RowScope::Pool(pool.clone())),
            None => {
                let job = job_of(facts, ScalerAt::of(row))?.id.clone();
                Destination::Part(ViewId::Jobs, RowScope::Replicas(job))
            }
        })
    },
    faulty: |facts, row| scaler(facts, row).is_some_and(|own| own.stuck),
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: "no autoscalers found: no NodePool, cluster autoscaler status, HorizontalPodAutoscaler or ScaledObject",
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "scalers",
        singular: "scaler",
        aliases: &["scaler"],
        help: "Autoscalers of nodes and pods, and requests for capacity: desired counts, and why they do not scale",
        title: "Autoscalers of nodes and pods, and requests for capacity",
        description: "Unknown is null, never 0; times are RFC 3339.",
        schema: of_rows::<ScalerRow<'_>>,
    },
    view: KindView::under(
        ViewId::Pools,
        "autoscalers of nodes and pods: desired counts, and why they do not scale",
    )
    .key("f4")
    .words(&["hpa", "nodepools"])
    .with_facts(),
    reads: |table| {
        !table.holds_rules()
            && (table.holds_scaling() || matches!(table, Table::Nodes | Table::Pods))
    },
    exporters: |_| Exporters::DevicesUnknown,
    note: |_, _| None,
    rows: |facts, _| collect(facts, &RowScope::All),
    key: |facts, row| {
        let own = scaler(facts, row);
        own.map_or_else(String::new, |own| format!("{} ({})", own.path(), own.kind))
    },
    also: |facts, row| {
        let own = scaler(facts, row).into_iter();
        own.flat_map(|own| [own.path(), own.name.to_owned()])
            .collect()
    },
    name: None,
    place: None,
    labels: None,
    json: |facts, rows, style| style.each(rows, |row| scaler(facts, row)),
};

fn collect(facts: &Facts, _: &RowScope) -> Vec<Row> {
    places(facts).into_iter().map(ScalerAt::row).collect()
}

fn scaler(facts: &Facts, at: Row) -> Option<ScalerRow<'_>> {
    row(facts, ScalerAt::of(at))
}

/// Why it does not scale, in full; `None` where nothing is said.
pub fn why(facts: &Facts, row: Row) -> Option<String> {
    scaler(facts, row)?.why
}

fn words<'a, T: Into<Cow<'a, str>>>(
    facts: &'a Facts,
    row: Row,
    of: fn(ScalerRow<'a>) -> Option<T>,
) -> Cell<'a> {
    let words = scaler(facts, row).and_then(of);
    Cell::new(Value::known(words, Value::text))
}

fn count(facts: &Facts, row: Row, of: fn(ScalerRow<'_>) -> Option<u32>) -> Cell<'_> {
    let number = scaler(facts, row).and_then(of);
    Cell::new(Value::known(number, |number| {
        Value::Count(i64::from(number))
    }))
}
