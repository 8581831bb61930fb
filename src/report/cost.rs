//! Rows of `cost`: money an hour by pool, queue, team, job and class. An estimate, never a bill.

use serde::Serialize;

use crate::cost;

use super::Facts;

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
    /// Which book and row the price came from; `mixed` when several did.
    pub price_source: Option<&'a str>,
    /// The oldest date among the prices.
    pub price_as_of: Option<&'a str>,
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
        free_usd_per_hour: spend.map(|spend| spend.free.usd()),
        idle_allocated_usd_per_hour: spend.map(|spend| spend.idle_allocated.usd()),
        price_source: row.price_source.as_deref(),
        price_as_of: row.price_as_of.as_deref(),
    }
}
