//! Rows of `cost`: rate (USD/h) by pool, queue, team, job and class. An estimate, never a bill.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;

use model::base::{DeviceAmount, SmallSort, natural};
use model::cost::{self, Money};

use super::list_price::{ListMarks, list_usd, marked};
use super::pools::unallocated;
use super::table::Column;
use super::text::word;
use super::{Facts, UNATTRIBUTED};

/// One row of one scope. The rows of each scope add up to the header's figure.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct CostRow<'a> {
    /// What the row sums up.
    #[schemars(with = "cost::Scope")]
    pub scope: &'static str,
    /// Name; `unattributed` for devices outside every other row of the scope.
    pub name: &'a str,
    /// Devices, and of shared devices its parts; null where the size of a part is not known.
    pub devices: Option<DeviceAmount>,
    /// The same as text.
    #[serde(skip)]
    pub devices_words: String,
    /// Rate of all its devices, USD/h; null when none has a price.
    #[schemars(range(min = 0))]
    pub burn_usd_per_hour: Option<f64>,
    /// The part of that rate that is list prices in place of what is paid, which is not known, USD/h.
    #[schemars(range(min = 0))]
    pub list_usd_per_hour: Option<f64>,
    /// Which of its amounts are marked so in a table.
    #[serde(skip)]
    pub list: ListMarks,
    /// Rate of its free devices, USD/h.
    #[schemars(range(min = 0))]
    pub free_usd_per_hour: Option<f64>,
    /// Rate of its idle allocated devices, USD/h.
    #[schemars(range(min = 0))]
    pub idle_allocated_usd_per_hour: Option<f64>,
    /// Price book and row; `mixed` for more than one. Devices without a price are counted after it.
    pub price_source: Option<Cow<'a, str>>,
    /// The oldest date among the prices, as far as it is known.
    pub price_as_of: Option<&'a str>,
}

/// The devices of a row as far as they are known: `225.9`; `≥3` where the part of a slice is not.
pub fn known_devices(row: &cost::RateRow) -> String {
    match row.unknown_slices {
        0 => row.devices.to_string(),
        _ if row.devices.is_zero() => word(None),
        _ => format!("≥{}", row.devices),
    }
}

/// Columns as a table.
pub(super) fn columns<'a>() -> Vec<Column<CostRow<'a>>> {
    vec![
        Column::text("SCOPE", |row: &CostRow<'_>| row.scope.to_owned()),
        Column::text("NAME", |row| row.name.to_owned()),
        Column::number("DEVICES", |row: &CostRow<'_>| row.devices_words.clone()).by("devices"),
        Column::number("$/H", |row: &CostRow<'_>| {
            marked(row.burn_usd_per_hour, row.list.rate)
        })
        .by("burn_usd_per_hour"),
        Column::number("UNALLOC $/H", |row: &CostRow<'_>| {
            marked(row.free_usd_per_hour, row.list.free)
        })
        .by("free_usd_per_hour"),
        Column::number("IDLE ALLOC $/H", |row: &CostRow<'_>| {
            marked(row.idle_allocated_usd_per_hour, row.list.idle_allocated)
        })
        .by("idle_allocated_usd_per_hour"),
        Column::text("PRICE FROM", |row: &CostRow<'_>| {
            word(row.price_source.as_deref())
        })
        .by("price_source"),
        Column::text("PRICE DATE", |row: &CostRow<'_>| word(row.price_as_of)).by("price_as_of"),
    ]
}

/// Every row, grouped by scope.
pub fn rows(facts: &Facts) -> Vec<CostRow<'_>> {
    let scopes = cost::Scope::ALL.iter();
    let rows = scopes.filter_map(|scope| facts.spend_rates.rows.get(scope));
    let mut all: Vec<CostRow<'_>> = rows.flatten().map(|known| row(facts, known)).collect();
    // Scopes in their order; in each scope the unattributed row is last.
    let place = |row: &CostRow<'_>| {
        let mut scopes = cost::Scope::ALL.iter();
        let at = scopes.position(|scope| scope.name() == row.scope);
        (at, row.name == UNATTRIBUTED)
    };
    all.small_sort_by(|a, b| {
        place(a)
            .cmp(&place(b))
            .then_with(|| natural(a.name, b.name))
    });
    all
}

/// The row in the JSON contract's form.
pub fn row<'a>(facts: &Facts, row: &'a cost::RateRow) -> CostRow<'a> {
    let spend = row.known();
    CostRow {
        scope: row.scope.name(),
        name: &row.name,
        devices: (row.unknown_slices == 0).then_some(row.devices),
        devices_words: known_devices(row),
        burn_usd_per_hour: spend.map(|spend| spend.rate.usd()),
        list_usd_per_hour: list_usd(spend.map(|spend| spend.rate)),
        list: ListMarks::of(spend),
        free_usd_per_hour: spend
            .and_then(|spend| unallocated(facts, &spend))
            .map(Money::usd),
        idle_allocated_usd_per_hour: spend.and_then(|spend| spend.idle_allocated).map(Money::usd),
        price_source: row
            .price_source
            .as_deref()
            .map(|source| match row.unpriced {
                0 => Cow::Borrowed(source),
                1 => Cow::Owned(format!("{source}; 1 device without a price")),
                count => Cow::Owned(format!("{source}; {count} devices without a price")),
            }),
        price_as_of: row.price_as_of.as_deref(),
    }
}
