//! Rows of `pools`: size, allocation, utilization and rate of each pool.

use schemars::JsonSchema;
use serde::Serialize;

use model::base::DeviceAmount;
use model::cost::{Money, Spend, SpendScope};
use model::fleet::node::Billing;
use model::fleet::pool::{ClassCount, NodeCounts, Pool, VisibleCounts, WaitingOutside};
use model::schema::one_of;

use super::list_price::list_usd;
use crate::Facts;

/// Devices of one class in a pool.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ClassCell<'a> {
    /// Short name of the class, `H100`.
    pub class: &'a str,
    /// Vendor of the devices.
    #[schemars(with = "model::fleet::accelerator::Vendor")]
    pub vendor: &'static str,
    /// What kind of accelerator they are.
    #[schemars(with = "model::fleet::accelerator::DeviceKind")]
    pub kind: &'static str,
    /// Number of its devices in the pool.
    pub devices: u32,
}

impl<'a> From<&'a ClassCount> for ClassCell<'a> {
    fn from(count: &'a ClassCount) -> Self {
        Self {
            class: &count.class,
            vendor: count.vendor.name(),
            kind: count.kind.name(),
            devices: count.devices,
        }
    }
}

/// Node counts; null where RBAC hides nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct NodesCell {
    /// All nodes of the pool.
    pub total: Option<u32>,
    /// Nodes that report ready.
    pub ready: Option<u32>,
    /// Nodes that are cordoned.
    pub cordoned: Option<u32>,
    /// Smallest size in nodes; null where it is not known.
    pub min: Option<u32>,
    /// Largest size in nodes; null where it is not known.
    pub max: Option<u32>,
}

impl NodesCell {
    fn of(counts: Option<NodeCounts>) -> Self {
        Self {
            total: counts.map(|counts| counts.total),
            ready: counts.map(|counts| counts.ready),
            cordoned: counts.map(|counts| counts.cordoned),
            min: counts.and_then(|counts| counts.min),
            max: counts.and_then(|counts| counts.max),
        }
    }
}

/// Device counts; `total = allocated + free`. In a scope, `allocated`, `unhealthy` and `idle_allocated` count the devices of
/// its jobs. Null where RBAC hides some nodes or pods.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct DevicesCell {
    /// Physical devices of the pool.
    pub total: Option<u32>,
    /// Allocated devices, and of shared devices the parts that are allocated.
    pub allocated: Option<DeviceAmount>,
    /// Devices that are not allocated.
    pub free: Option<DeviceAmount>,
    /// Free devices that a new pod could use now: not cordoned, ready, healthy, allocatable.
    pub free_usable: Option<DeviceAmount>,
    /// Faulty, or on a node that is not ready.
    pub unhealthy: Option<u32>,
    /// Allocated devices that are idle.
    pub idle_allocated: Option<DeviceAmount>,
}

impl From<VisibleCounts> for DevicesCell {
    fn from(counts: VisibleCounts) -> Self {
        Self {
            total: counts.total,
            allocated: counts.allocated,
            free: counts.free,
            free_usable: counts.free_usable,
            unhealthy: counts.unhealthy,
            idle_allocated: counts.idle_allocated,
        }
    }
}

/// Billing of a pool whose nodes are not all paid for in one way.
const MIXED: &str = "mixed";

/// How a pool's nodes are paid for: one way, or several.
struct PoolBilling;

model::written_as!(
    PoolBilling,
    one_of(Billing::WORDS.iter().copied().chain([MIXED]))
);

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct PoolRow<'a> {
    /// Name; `(no pool)`, `(unknown)` or `(not visible)` for waiting devices that count in no pool.
    pub name: &'a str,
    /// Whether an autoscaler may change its size; null where it is not known.
    #[schemars(with = "Option<model::fleet::pool::PoolMode>")]
    pub mode: Option<&'static str>,
    /// How its nodes are paid for; `mixed` where they differ, null where it is not known.
    #[schemars(with = "Option<PoolBilling>")]
    pub billing: Option<&'static str>,
    /// The team that the settings name as its owner.
    pub owner: Option<&'a str>,
    /// Its devices by class, largest count first.
    pub classes: Vec<ClassCell<'a>>,
    /// Counts of its nodes.
    pub nodes: NodesCell,
    /// Counts of its devices.
    pub devices: DevicesCell,
    /// Mean utilization of its devices, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub util_ratio: Option<f64>,
    /// Mean share of their memory in use, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub mem_used_ratio: Option<f64>,
    /// Temperature of its hottest device, degrees Celsius.
    pub temp_max_celsius: Option<f64>,
    /// Power drawn by its devices, watts.
    #[schemars(range(min = 0))]
    pub power_watts: Option<f64>,
    /// Sum of the power limits of its devices, watts.
    #[schemars(range(min = 0))]
    pub power_limit_watts: Option<f64>,
    /// Devices of this pool, and slices of devices, that waiting jobs request; null where its nodes do not say what they serve.
    pub waiting_devices: Option<u32>,
    /// How many of these are slices.
    pub waiting_slices: Option<u32>,
    /// Rate of all its devices, USD/h.
    #[schemars(range(min = 0))]
    pub burn_usd_per_hour: Option<f64>,
    /// The part of that rate that is list prices in place of what is paid, which is not known, USD/h.
    #[schemars(range(min = 0))]
    pub list_usd_per_hour: Option<f64>,
    /// Rate of its free devices, USD/h.
    #[schemars(range(min = 0))]
    pub free_usd_per_hour: Option<f64>,
    /// Rate of its idle allocated devices, USD/h.
    #[schemars(range(min = 0))]
    pub idle_allocated_usd_per_hour: Option<f64>,
}

impl<'a> PoolRow<'a> {
    /// Waiting devices of no pool: such a row has no nodes, devices or money.
    pub fn outside(name: &'a str, devices: u32) -> Self {
        Self {
            name,
            mode: None,
            billing: None,
            owner: None,
            classes: Vec::new(),
            nodes: NodesCell::of(None),
            devices: DevicesCell::default(),
            util_ratio: None,
            mem_used_ratio: None,
            temp_max_celsius: None,
            power_watts: None,
            power_limit_watts: None,
            waiting_devices: Some(devices),
            waiting_slices: None,
            burn_usd_per_hour: None,
            list_usd_per_hour: None,
            free_usd_per_hour: None,
            idle_allocated_usd_per_hour: None,
        }
    }
}

/// Waiting devices of the scope that count in no pool.
pub fn waiting_outside(facts: &Facts) -> WaitingOutside {
    facts.fleet.waiting_outside(|job| facts.has_job(job))
}

/// Devices and slices of devices that all waiting jobs request, and how many of these are slices: the header's figures.
pub fn waiting_devices(facts: &Facts) -> (u32, u32) {
    let jobs = facts.fleet.jobs.iter().filter(|job| facts.has_job(job));
    // Saturating: a malicious request can exceed the range.
    jobs.fold((0, 0), |(all, slices), job| {
        let own = job.devices_waiting();
        let cut = if job.is_sliced() { own } else { 0 };
        (all.saturating_add(own), slices.saturating_add(cut))
    })
}

/// Rate of a pool's devices; `None` where none has a price.
pub fn spend(facts: &Facts, pool: &Pool) -> Option<Spend> {
    match facts.spend_rates.row(SpendScope::Pool, &pool.name) {
        Some(row) => row.known().map(|spend| Spend {
            free: unallocated(facts, &spend),
            ..spend
        }),
        // A scope whose jobs only wait for the pool has no devices there.
        None if facts.part.is_some() => Some(Spend {
            free: None,
            idle_allocated: Some(Money::ZERO),
            ..Spend::default()
        }),
        None => (pool.counts().total == Some(0)).then(Spend::default),
    }
}

/// Rate of free devices; `None` in a scope, because free devices belong to no team or namespace.
pub fn unallocated(facts: &Facts, spend: &Spend) -> Option<Money> {
    spend.free.filter(|_| facts.part.is_none())
}

/// Rate of wasted devices: free or idle ones, in a scope only the idle ones, because free devices belong to no team or namespace.
pub fn waste(facts: &Facts, spend: &Spend) -> Option<Money> {
    match facts.part {
        None => spend.idle(),
        Some(_) => spend.idle_allocated,
    }
}

/// The row of one pool.
pub fn row<'a>(facts: &'a Facts, pool: &'a Pool) -> PoolRow<'a> {
    let spend = spend(facts, pool);
    PoolRow {
        name: &pool.name,
        mode: pool.mode.map(|mode| mode.name()),
        billing: if pool.billing_mixed {
            Some(MIXED)
        } else {
            pool.billing.map(|billing| billing.name())
        },
        owner: pool.owner.as_deref(),
        classes: pool.classes.iter().map(ClassCell::from).collect(),
        nodes: NodesCell::of(pool.visible_nodes()),
        devices: pool.counts().into(),
        util_ratio: pool.util,
        mem_used_ratio: pool.mem_used,
        temp_max_celsius: pool.temp_max,
        power_watts: pool.power_watts,
        power_limit_watts: pool.power_limit_watts,
        waiting_devices: pool.visibility.nodes.then_some(pool.waiting_devices),
        waiting_slices: pool.visibility.nodes.then_some(pool.waiting_slices),
        burn_usd_per_hour: spend.map(|spend| spend.rate.usd()),
        list_usd_per_hour: list_usd(spend.map(|spend| spend.rate)),
        free_usd_per_hour: spend.and_then(|spend| spend.free).map(Money::usd),
        idle_allocated_usd_per_hour: spend.and_then(|spend| spend.idle_allocated).map(Money::usd),
    }
}
