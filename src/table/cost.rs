//! Rows of `cost`: money an hour by pool, queue, team, job and class. An estimate, never a bill.

use std::borrow::Cow;

use serde::Serialize;

use model::base::Rate;
use model::cost;

use super::Facts;
use super::table::Column;
use super::text::{usd, word};

/// One row of one scope. In each scope the rows add up to the header.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CostRow<'a> {
    /// `pool`, `queue`, `team`, `job` or `class`.
    pub scope: &'static str,
    /// Name; `unattributed` for what no other row of the scope holds.
    pub name: &'a str,
    /// Devices, each counted in one row of a scope.
    pub devices: u32,
    /// USD an hour of all of them; `None` when none has a price.
    pub burn_usd_per_hour: Option<f64>,
    /// USD an hour of those that nobody holds.
    pub free_usd_per_hour: Option<f64>,
    /// USD an hour of those that are held and do no work.
    pub idle_allocated_usd_per_hour: Option<f64>,
    /// Which book and row the price came from; `mixed` when several did; devices without a price are counted
    /// behind it.
    pub price_source: Option<Cow<'a, str>>,
    /// The oldest date among the prices.
    pub price_as_of: Option<&'a str>,
}

/// Columns as CSV.
pub(super) const FIELDS: &[&str] = &[
    "scope",
    "name",
    "devices",
    "burn_usd_per_hour",
    "free_usd_per_hour",
    "idle_allocated_usd_per_hour",
    "price_source",
    "price_as_of",
];

/// Columns as a table.
pub(super) fn columns<'a>() -> Vec<Column<CostRow<'a>>> {
    vec![
        Column::text("SCOPE", |row: &CostRow<'_>| row.scope.to_owned()),
        Column::text("NAME", |row| row.name.to_owned()),
        Column::number("DEVICES", |row| match row.devices {
            // A part of a device, which counts where its first holder does.
            0 if row.burn_usd_per_hour > Some(0.0) => "<1".to_owned(),
            devices => devices.to_string(),
        }),
        Column::number("$/H", |row| usd(row.burn_usd_per_hour)),
        Column::number("FREE $/H", |row| usd(row.free_usd_per_hour)),
        Column::number("IDLE $/H", |row| usd(row.idle_allocated_usd_per_hour)),
        Column::text("PRICED", |row| word(row.price_as_of)),
        Column::text("BY", |row| word(row.price_source.as_deref())),
    ]
}

/// Every row, scope by scope.
pub fn rows(facts: &Facts) -> Vec<CostRow<'_>> {
    cost::Scope::ALL
        .iter()
        .filter_map(|scope| facts.burn.rows.get(scope))
        .flatten()
        .map(row)
        .collect()
}

/// The row as the contract has it.
pub fn row(row: &cost::CostRow) -> CostRow<'_> {
    let spend = row.known();
    CostRow {
        scope: row.scope.name(),
        name: &row.name,
        devices: row.devices,
        burn_usd_per_hour: spend.map(|spend| spend.burn.usd()),
        free_usd_per_hour: spend.and_then(|spend| spend.free).map(Rate::usd),
        idle_allocated_usd_per_hour: spend.and_then(|spend| spend.idle_allocated).map(Rate::usd),
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
