//! What the fleet burns an hour now. Estimates from list prices, never a bill.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{Name, Rate};
use crate::fleet::job::JobKey;
use crate::fleet::node::Billing;

use super::prices::Price;

/// The name of the row that holds what no other row of its scope does.
pub const UNATTRIBUTED: &str = "unattributed";

/// Money an hour, three ways. `idle` and `free` never count one device twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spend {
    /// All devices, held or not.
    pub burn: Rate,
    /// Devices that nobody holds; `None` where not every node and pod is visible, so that it is not known which are free.
    pub free: Option<Rate>,
    /// Devices that are held and do no work; `None` where no held device has a reading that tells.
    pub idle_allocated: Option<Rate>,
}

impl Default for Spend {
    fn default() -> Self {
        Self {
            burn: Rate::ZERO,
            free: Some(Rate::ZERO),
            idle_allocated: None,
        }
    }
}

impl Spend {
    /// Free and held without work, together: what is known of it; unknown where it is not known what is free.
    pub fn idle(&self) -> Option<Rate> {
        let idle = self.idle_allocated.unwrap_or_default();
        self.free.map(|free| free + idle)
    }

    /// What the units from `before` on, `part` of them, have of money that is spread over `all`. Cut from a running sum, so that
    /// parts add up to the micro-dollar.
    pub fn cut(&self, before: u64, part: u64, all: u64) -> Self {
        let cut = |rate: Rate| rate.share(before + part, all) - rate.share(before, all);
        Self {
            burn: cut(self.burn),
            free: self.free.map(cut),
            idle_allocated: self.idle_allocated.map(cut),
        }
    }
}

impl std::ops::AddAssign for Spend {
    fn add_assign(&mut self, other: Self) {
        self.burn += other.burn;
        // What is not known of a part is not known of the sum.
        self.free = self.free.zip(other.free).map(|(a, b)| a + b);
        self.idle_allocated = match (self.idle_allocated, other.idle_allocated) {
            (Some(a), Some(b)) => Some(a + b),
            // Devices without a reading are left out of the sum, as those without a price are.
            (a, b) => a.or(b),
        };
    }
}

/// What a row is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// A pool.
    Pool,
    /// A queue.
    Queue,
    /// A team.
    Team,
    /// A job.
    Job,
    /// A class of device.
    Class,
}

impl Scope {
    /// Every scope, in the order of the JSON contract.
    pub const ALL: [Self; 5] = [Self::Pool, Self::Queue, Self::Team, Self::Job, Self::Class];

    /// As in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::Queue => "queue",
            Self::Team => "team",
            Self::Job => "job",
            Self::Class => "class",
        }
    }
}

/// One row of one scope.
#[derive(Clone, PartialEq, Debug)]
pub struct CostRow {
    /// Scope.
    pub scope: Scope,
    /// Name; `unattributed` for what no row of the scope holds.
    pub name: Name,
    /// Devices that the row stands for; each device counts in one row of a scope.
    pub devices: u32,
    /// Those of them that are shared in slices: each counts in the row of its first holder.
    pub shared: u32,
    /// Money an hour; devices without a price are not in it.
    pub spend: Spend,
    /// Devices of the row that have no price.
    pub unpriced: u32,
    /// Which book and row the price came from; `mixed` when several did.
    pub price_source: Option<Name>,
    /// The date of that price, `2026-07-20`.
    pub price_as_of: Option<Name>,
}

/// Devices that have one price.
#[derive(Clone, PartialEq, Debug)]
pub struct PriceGroup {
    /// Pool.
    pub pool: Name,
    /// Class.
    pub class: Name,
    /// Machine type.
    pub instance_type: Option<Name>,
    /// Region.
    pub region: Option<Name>,
    /// How the hours are paid.
    pub billing: Option<Billing>,
    /// The price of one device; `None` when nobody knows it.
    pub price: Option<Arc<Price>>,
}

/// What the fleet burns, by every scope. In each scope the rows add up to `total`, to the micro-dollar.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Burn {
    /// The header.
    pub total: Spend,
    /// Devices in all.
    pub devices: u32,
    /// Devices without a price.
    pub unpriced: u32,
    /// Rows by scope, in name order, `unattributed` last.
    pub rows: BTreeMap<Scope, Vec<CostRow>>,
    /// What one device costs, for each way in which devices differ in price.
    pub prices: Vec<PriceGroup>,
    /// Money an hour of each node (all its devices); a node of which no device has a price is not in it.
    pub nodes: BTreeMap<Name, Rate>,
    /// Money an hour and money so far (micro-USD) of each job that holds devices of which at least one
    /// has a price.
    pub jobs: BTreeMap<JobKey, (Spend, Rate)>,
}

impl CostRow {
    /// The row stands for parts of devices alone: a number of devices would say too little or too much.
    pub fn is_part(&self) -> bool {
        self.devices <= self.shared && self.spend.burn > Rate::ZERO
    }

    /// The row's money; `None` when it has devices and none of them has a price: unknown, not nothing.
    pub fn known(&self) -> Option<Spend> {
        (self.unpriced == 0 || self.unpriced < self.devices || self.spend.burn > Rate::ZERO)
            .then_some(self.spend)
    }
}

impl Burn {
    /// The header's money; `None` when there are devices and none of them has a price, and when there is none in
    /// sight and not everything may be seen.
    pub fn known(&self) -> Option<Spend> {
        let known = match self.devices {
            0 => self.total.free.is_some(),
            devices => self.unpriced < devices,
        };
        known.then_some(self.total)
    }

    /// The row of this scope and name.
    pub fn row(&self, scope: Scope, name: &str) -> Option<&CostRow> {
        let rows = self.rows.get(&scope)?;
        let (last, sorted) = rows.split_last()?;
        if last.name.as_str() == name {
            return Some(last);
        }
        // Only the last row, `unattributed`, may stand out of order.
        sorted
            .binary_search_by(|row| row.name.as_str().cmp(name))
            .ok()
            .map(|at| &sorted[at])
    }
}
