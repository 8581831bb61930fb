//! The fleet as one row: its figures in a table, the whole document as JSON.

use model::base::DeviceAmount;
use model::cost::{Money, Spend};
use model::schema::of_document;

use crate::Facts;
use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput};
use crate::kind::{Exporters, KindNames, KindView};
use crate::navigation::ViewId;
use crate::rows::document::Document;
use crate::rows::document::{FleetFigures, document, figures};
use crate::rows::pools::unallocated;

/// The fleet, in one row.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("context", "CONTEXT", 0, (8, 40), |facts, _| {
            Cell::text(&*facts.context)
        })
        .by("context"),
        Column::words("at", "AT", 1, (8, 24), |facts, _| {
            Cell::text(facts.now.rfc3339())
        })
        .by("at"),
        Column::number("nodes", "NODES", 0, 5, |facts, _| {
            count(facts, |of| of.nodes)
        })
        .by("figures.nodes"),
        Column::number("devices", "DEVICES", 0, 7, |facts, _| {
            count(facts, |of| of.devices)
        })
        .by("figures.devices"),
        Column::number("allocated", "ALLOCATED", 0, 7, |facts, _| {
            amount(facts, |of| of.allocated)
        })
        .by("figures.allocated"),
        Column::number("free", "FREE", 0, 4, |facts, _| {
            amount(facts, |of| of.free_usable)
        })
        .by("figures.free_usable"),
        Column::number("unhealthy", "UNHEALTHY", 0, 4, |facts, _| {
            count(facts, |of| of.unhealthy)
        })
        .by("figures.unhealthy"),
        Column::number("idle", "IDLE ALLOC", 0, 4, |facts, _| {
            amount(facts, |of| of.idle_allocated)
        })
        .by("figures.idle_allocated"),
        Column::number("unpriced", "UNPRICED", 0, 4, |facts, _| {
            count(facts, |of| Some(of.unpriced))
        })
        .by("figures.unpriced")
        .wide(),
        Column::number("waiting", "WAITING JOBS", 0, 4, |facts, _| {
            count(facts, |of| of.waiting_jobs)
        })
        .by("figures.waiting_jobs"),
        Column::number("wait", "WAITING DEVICES AND SLICES", 0, 4, |facts, _| {
            count(facts, |of| of.waiting_devices)
        })
        .by("figures.waiting_devices"),
        Column::number("wait-slices", "WAITING SLICES", 0, 4, |facts, _| {
            count(facts, |of| of.waiting_slices)
        })
        .by("figures.waiting_slices"),
        Column::number("burn", "$/h", 0, 6, |facts, _| {
            money(facts, |_, spend| Some(spend.rate))
        })
        .by("figures.burn_usd_per_hour"),
        Column::number("unallocated", "UNALLOC $/h", 0, 6, |facts, _| {
            money(facts, unallocated)
        })
        .by("figures.free_usd_per_hour"),
        Column::number("idle-cost", "IDLE ALLOC $/h", 0, 6, |facts, _| {
            money(facts, |_, spend| spend.idle_allocated)
        })
        .by("figures.idle_allocated_usd_per_hour"),
    ],
    collect: |_, _| vec![(0, 0)],
    id: |_, _| 0,
    label: |_, _, _| None,
    selection: |_, _| None,
    open: |_, _| None,
    faulty: |_, _| false,
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: "",
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "fleet",
        singular: "fleet",
        aliases: &[],
        help: "Everything as one versioned document",
        title: "The fleet at one moment",
        description: "Unknown is null, never 0; units are in the names; times are RFC 3339. With --team or -n, `figures` and `pools` are those of the scope; all other fields are those of the whole fleet.",
        schema: of_document::<Document<'_>>,
    },
    view: KindView::tab(ViewId::Fleet).words(&["pulse", "pulses", "pu"]),
    reads: |_| true,
    exporters: |_| Exporters::All,
    note: |_, _| None,
    rows: |_, _| vec![(0, 0)],
    key: |_, _| String::from("fleet"),
    also: |_, _| Vec::new(),
    name: Some(|_, _| String::from("fleet")),
    place: None,
    labels: None,
    json: |facts, rows, style| {
        let document = document(facts);
        rows.iter().map(|_: &Row| style.write(&document)).collect()
    },
};

fn count(facts: &Facts, of: fn(&FleetFigures) -> Option<u32>) -> Cell<'static> {
    let count = of(&figures(facts));
    Cell::new(Value::known(count, |count| Value::Count(count.into())))
}

fn amount(facts: &Facts, of: fn(&FleetFigures) -> Option<DeviceAmount>) -> Cell<'static> {
    let amount = of(&figures(facts));
    Cell::new(Value::known(amount, |amount| Value::Devices(amount, None)))
}

fn money(facts: &Facts, of: fn(&Facts, &Spend) -> Option<Money>) -> Cell<'static> {
    let spend = facts.spend_rates.known();
    let money = spend.and_then(|spend| of(facts, &spend));
    Cell::new(Value::known(money, Value::Money))
}
