//! Everything that is printed as JSON and has a schema, by name.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use model::schema::{SchemaHead, columns as columns_of, of_rows};

use super::rows::document::FleetFigures;
use super::{Kind, budgets, checkup, spend, tco};

type MakeSchema = fn() -> Value;

/// What has a schema besides the kinds of objects.
const OTHERS: [(&str, MakeSchema); 5] = [
    ("budgets", || budgets::NAMES.schema()),
    ("usage", || spend::NAMES.schema()),
    ("plan", model::plan::schema),
    ("tco", tco::schema),
    ("doctor", checkup::schema),
];

/// The names: the kinds of objects in their order, then the rest.
pub fn names() -> impl Iterator<Item = &'static str> {
    let kinds = Kind::ALL.into_iter().map(Kind::name);
    kinds.chain(OTHERS.into_iter().map(|(name, _)| name))
}

/// The JSON Schema of this name; `None` for an unknown name.
pub fn schema(name: &str) -> Option<Value> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
    let other = || OTHERS.into_iter().find(|(other, _)| *other == name);
    match kind {
        Some(kind) => Some(kind.schema()),
        None => other().map(|(_, schema)| schema()),
    }
}

static COLUMNS: LazyLock<BTreeMap<Kind, Vec<String>>> = LazyLock::new(|| {
    let all = Kind::ALL.into_iter();
    all.map(|kind| (kind, derived(kind))).collect()
});

/// The columns of a kind as CSV, without those of single signals.
pub(super) fn columns(kind: Kind) -> &'static [String] {
    COLUMNS.get(&kind).map_or(&[], Vec::as_slice)
}

fn derived(kind: Kind) -> Vec<String> {
    if kind != Kind::Fleet {
        return columns_of(&kind.schema());
    }
    // Of the whole document, a line has its head and its figures.
    let head = SchemaHead {
        name: "figures",
        title: "Figures of a fleet",
        description: "",
    };
    let figures = columns_of(&of_rows::<FleetFigures>(head)).into_iter();
    let head = ["version", "at", "context"].map(str::to_owned).into_iter();
    head.chain(figures.map(|name| format!("figures.{name}")))
        .collect()
}
