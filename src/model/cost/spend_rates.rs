//! The fleet's current spend rate. Estimates from list prices, never a bill.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{DeviceAmount, Name, Rate};
use crate::fleet::device::{AllocationCell, Device};
use crate::fleet::job::JobKey;
use crate::fleet::node::{Billing, Node};

use super::money::Money;
use super::prices::Price;

/// Name of the row for devices and money that no other row of its scope covers.
pub const UNATTRIBUTED: &str = "unattributed";

/// Spend rates. No device counts in both `idle_allocated` and `free`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spend {
    /// All devices, allocated or not.
    pub rate: Money,
    /// Unallocated devices; `None` where not all nodes and pods are visible, so that free devices are not known.
    pub free: Option<Money>,
    /// Allocated devices that are idle; `None` where no allocated device has a usable reading.
    pub idle_allocated: Option<Money>,
}

impl Default for Spend {
    fn default() -> Self {
        Self {
            rate: Money::ZERO,
            free: Some(Money::ZERO),
            idle_allocated: None,
        }
    }
}

impl Spend {
    /// Free plus idle-allocated spend; `None` where either is not known.
    pub fn idle(&self) -> Option<Money> {
        (self.free.zip(self.idle_allocated)).map(|(free, idle)| free + idle)
    }

    /// True when some of it is spent on allocated devices, or when free devices are not known.
    fn may_be_allocated(&self) -> bool {
        self.free != Some(self.rate)
    }

    /// The part of one cell of a device, where this is the spend of the device.
    pub fn of_cell(&self, cell: &AllocationCell<'_>) -> Self {
        let cost = |money: Money| money.of_cell(cell);
        Self {
            rate: cost(self.rate),
            free: self.free.map(cost),
            idle_allocated: self.idle_allocated.map(cost),
        }
    }
}

impl std::ops::AddAssign for Spend {
    fn add_assign(&mut self, other: Self) {
        let allocated = (self.may_be_allocated(), other.may_be_allocated());
        self.rate += other.rate;
        // Unknown in one part makes the sum unknown.
        self.free = self.free.zip(other.free).map(|(a, b)| a + b);
        self.idle_allocated = match (allocated, self.idle_allocated, other.idle_allocated) {
            // A zero of free devices is no reading of the allocated ones.
            ((true, false), idle, _) | ((false, true), _, idle) => idle,
            (_, Some(a), Some(b)) => Some(a + b),
            // Devices without a reading are omitted from the sum, as are those without a price.
            (_, a, b) => a.or(b),
        };
    }
}

/// What a row is grouped by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SpendScope {
    Pool,
    Queue,
    Team,
    Job,
    Class,
}

crate::words! {
    impl SpendScope {
        /// Name in the JSON contract.
        pub fn name(self) {
            Pool => "pool",
            Queue => "queue",
            Team => "team",
            Job => "job",
            Class => "class",
        }
    }
}

impl SpendScope {
    /// Every scope, in the order of the JSON contract.
    pub const ALL: [Self; 5] = [Self::Pool, Self::Queue, Self::Team, Self::Job, Self::Class];
}

/// One row of one scope.
#[derive(Clone, PartialEq, Debug)]
pub struct RateRow {
    pub scope: SpendScope,
    /// Name; `unattributed` for the part that no row of the scope covers.
    pub name: Name,
    /// Devices of the row, and of shared devices its parts.
    pub devices: DeviceAmount,
    /// Slices of unknown size: they are not in `devices`, nor in the spend.
    pub unknown_slices: u32,
    /// Spend rates, without devices that have no price.
    pub spend: Spend,
    /// Devices of the row without a price.
    pub unpriced: u32,
    /// Price book and row of the price; `mixed` for several.
    pub price_source: Option<Name>,
    /// Date of that price, `2026-07-20`.
    pub price_as_of: Option<Name>,
}

/// Devices with the same price.
#[derive(Clone, PartialEq, Debug)]
pub struct PriceGroup {
    pub pool: Name,
    pub class: Name,
    pub instance_type: Option<Name>,
    pub region: Option<Name>,
    pub billing: Option<Billing>,
    /// Price of one device; `None` when not known.
    pub price: Option<Arc<Price>>,
}

/// Prices of a node's devices, in their order.
#[derive(Clone, PartialEq, Debug)]
pub enum NodePrices {
    /// All have this one; `None` where they have no price.
    Alike(Option<Arc<Price>>),
    Each(Box<[Option<Arc<Price>>]>),
}

impl NodePrices {
    /// The price of the device at this place.
    pub fn of(&self, at: usize) -> Option<&Arc<Price>> {
        match self {
            Self::Alike(price) => price.as_ref(),
            Self::Each(prices) => prices.get(at)?.as_ref(),
        }
    }
}

impl FromIterator<Option<Arc<Price>>> for NodePrices {
    fn from_iter<I: IntoIterator<Item = Option<Arc<Price>>>>(prices: I) -> Self {
        let all: Box<[Option<Arc<Price>>]> = prices.into_iter().collect();
        match all.split_first() {
            Some((first, rest)) if rest.iter().all(|price| price == first) => {
                Self::Alike(first.clone())
            }
            Some(_) => Self::Each(all),
            None => Self::Alike(None),
        }
    }
}

/// The fleet's spend rate by every scope. In each scope the rows add up to `total`, to the micro-dollar.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SpendRates {
    pub total: Spend,
    /// Devices in total; of nodes that are known from their pods alone, what those hold.
    pub devices: DeviceAmount,
    /// Devices without a price, or with a slice of unknown size.
    pub unpriced: u32,
    /// Rows by scope, in name order, `unattributed` last.
    pub rows: BTreeMap<SpendScope, Vec<RateRow>>,
    /// Price of one device for each group of equally priced devices.
    pub prices: Vec<PriceGroup>,
    /// The price of each device of each node.
    pub device_prices: Arc<BTreeMap<Name, NodePrices>>,
    /// Spend rate of each node (all its devices); nodes without a priced device are omitted.
    pub nodes: BTreeMap<Name, Money>,
    /// Spend rate and cost so far (USD in all) of each job with at least one priced device allocated.
    pub jobs: BTreeMap<JobKey, (Spend, Money)>,
}

impl RateRow {
    /// The row's spend; `None` when it has devices and none has a price: unknown, not zero.
    pub fn known(&self) -> Option<Spend> {
        (self.unpriced == 0
            || DeviceAmount::whole(self.unpriced) < self.devices
            || self.spend.rate.all > Rate::ZERO)
            .then_some(self.spend)
    }
}

impl SpendRates {
    /// The total; `None` when there are devices and none has a price, and when no device is visible and visibility is limited.
    pub fn known(&self) -> Option<Spend> {
        let known = match (self.devices.is_zero(), self.unpriced) {
            (true, 0) => self.total.free.is_some(),
            (_, unpriced) => {
                DeviceAmount::whole(unpriced) < self.devices || self.total.rate.all > Rate::ZERO
            }
        };
        known.then_some(self.total)
    }

    /// The price of the whole device, for any holder; `None` where unknown.
    pub fn price_of(&self, node: &Node, device: &Device) -> Option<&Arc<Price>> {
        let at = node.devices.iter().position(|one| one.id == device.id)?;
        self.device_prices.get(node.name())?.of(at)
    }

    pub fn row(&self, scope: SpendScope, name: &str) -> Option<&RateRow> {
        let rows = self.rows.get(&scope)?;
        let (last, sorted) = rows.split_last()?;
        if last.name.as_str() == name {
            return Some(last);
        }
        // Only the last row, `unattributed`, may be out of order.
        sorted
            .binary_search_by(|row| row.name.as_str().cmp(name))
            .ok()
            .map(|at| &sorted[at])
    }
}
