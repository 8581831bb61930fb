//! Rows of `pools`: what a fleet is made of, how full and busy it is, and what it burns.

use serde::Serialize;

use model::base::natural;
use model::cost::{Scope, Spend};
use model::fleet::job::JobState;
use model::fleet::pool::{ClassCount, DeviceCounts, NodeCounts, Pool};

use super::table::Column;
use super::text::{celsius, or_unknown, percent, usd, watts, word};
use super::{Facts, UNATTRIBUTED};

/// Devices of one class in a pool.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassCell<'a> {
    /// Short class, `H100`.
    pub class: &'a str,
    /// Vendor.
    pub vendor: &'static str,
    /// `gpu`, `tpu` or `other`.
    pub kind: &'static str,
    /// Devices.
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

/// Counts of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct NodesCell {
    /// All.
    pub total: u32,
    /// Ready.
    pub ready: u32,
    /// Cordoned.
    pub cordoned: u32,
    /// Smallest size, where known.
    pub min: Option<u32>,
    /// Largest size, where known.
    pub max: Option<u32>,
}

impl From<NodeCounts> for NodesCell {
    fn from(counts: NodeCounts) -> Self {
        Self {
            total: counts.total,
            ready: counts.ready,
            cordoned: counts.cordoned,
            min: counts.min,
            max: counts.max,
        }
    }
}

/// Counts of devices; `total = allocated + free`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DevicesCell {
    /// All.
    pub total: u32,
    /// Held, whole or in part.
    pub allocated: u32,
    /// Held by nobody.
    pub free: u32,
    /// Faulty, or on a node that is not ready.
    pub unhealthy: u32,
    /// Held, but doing no work.
    pub idle_allocated: u32,
}

impl From<DeviceCounts> for DevicesCell {
    fn from(counts: DeviceCounts) -> Self {
        Self {
            total: counts.total,
            allocated: counts.allocated,
            free: counts.free,
            unhealthy: counts.unhealthy,
            idle_allocated: counts.idle_allocated,
        }
    }
}

/// One pool.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PoolRow<'a> {
    /// Name.
    pub name: &'a str,
    /// `static` or `dynamic`.
    pub mode: Option<&'static str>,
    /// `on-demand`, `spot`, `reserved`, `owned` or `mixed`.
    pub billing: Option<&'static str>,
    /// The team that owns it.
    pub owner: Option<&'a str>,
    /// Its devices by class, most first.
    pub classes: Vec<ClassCell<'a>>,
    /// Its nodes.
    pub nodes: NodesCell,
    /// Its devices.
    pub devices: DevicesCell,
    /// Mean utilisation, 0 to 1.
    pub util_ratio: Option<f64>,
    /// Memory in use, 0 to 1.
    pub mem_used_ratio: Option<f64>,
    /// Hottest device, degrees Celsius.
    pub temp_max_celsius: Option<f64>,
    /// Power drawn, watts.
    pub power_watts: Option<f64>,
    /// Power limits, watts.
    pub power_limit_watts: Option<f64>,
    /// Devices that waiting jobs want of it.
    pub waiting_devices: u32,
    /// USD an hour of all its devices.
    pub burn_usd_per_hour: Option<f64>,
    /// USD an hour of those that nobody holds.
    pub free_usd_per_hour: Option<f64>,
    /// USD an hour of those that are held and do no work.
    pub idle_allocated_usd_per_hour: Option<f64>,
}

/// Columns as CSV.
pub(super) const FIELDS: &[&str] = &[
    "name",
    "mode",
    "billing",
    "owner",
    "classes",
    "nodes.total",
    "nodes.ready",
    "nodes.cordoned",
    "nodes.min",
    "nodes.max",
    "devices.total",
    "devices.allocated",
    "devices.free",
    "devices.unhealthy",
    "devices.idle_allocated",
    "util_ratio",
    "mem_used_ratio",
    "temp_max_celsius",
    "power_watts",
    "power_limit_watts",
    "waiting_devices",
    "burn_usd_per_hour",
    "free_usd_per_hour",
    "idle_allocated_usd_per_hour",
];

/// Columns as a table.
pub(super) fn columns<'a>() -> Vec<Column<PoolRow<'a>>> {
    vec![
        Column::text("NAME", |row: &PoolRow<'_>| row.name.to_owned()),
        Column::text("CLASS", |row| {
            let classes: Vec<&str> = row.classes.iter().map(|class| class.class).collect();
            classes.join(",")
        }),
        Column::text("MODE", |row| word(row.mode)),
        Column::text("BILLING", |row| word(row.billing)),
        Column::wide_text("OWNER", |row| word(row.owner)),
        Column::number("NODES", |row| {
            format!("{}/{}", row.nodes.ready, row.nodes.total)
        }),
        Column::wide_number("CORDONED", |row| row.nodes.cordoned.to_string()),
        Column::wide_number("MIN", |row| or_unknown(row.nodes.min)),
        Column::wide_number("MAX", |row| or_unknown(row.nodes.max)),
        Column::number("FREE/TOTAL", |row| {
            format!("{}/{}", row.devices.free, row.devices.total)
        }),
        Column::number("ALLOC", |row| {
            let (part, whole) = (
                f64::from(row.devices.allocated),
                f64::from(row.devices.total),
            );
            percent((whole > 0.0).then(|| part / whole))
        }),
        Column::wide_number("UNHEALTHY", |row| row.devices.unhealthy.to_string()),
        Column::wide_number("IDLE", |row| row.devices.idle_allocated.to_string()),
        Column::number("UTIL", |row| percent(row.util_ratio)),
        Column::number("MEM", |row| percent(row.mem_used_ratio)),
        Column::number("TMAX", |row| celsius(row.temp_max_celsius)),
        Column::number("POWER", |row| watts(row.power_watts)),
        Column::wide_number("CAP", |row| watts(row.power_limit_watts)),
        Column::number("WAIT", |row| row.waiting_devices.to_string()),
        Column::number("$/H", |row| usd(row.burn_usd_per_hour)),
        Column::number("FREE $/H", |row| usd(row.free_usd_per_hour)),
        Column::number("IDLE $/H", |row| usd(row.idle_allocated_usd_per_hour)),
    ]
}

/// Every pool by name, and an `unattributed` row for waiting devices that no pool counts as its own.
pub fn rows(facts: &Facts) -> Vec<PoolRow<'_>> {
    let mut rows: Vec<PoolRow<'_>> = facts
        .fleet
        .pools
        .iter()
        .map(|pool| row(facts, pool))
        .collect();
    rows.sort_by(|a, b| natural(a.name, b.name));
    let of_pools = sum(rows.iter().map(|row| row.waiting_devices));
    let unclaimed = waiting_devices(facts).saturating_sub(of_pools);
    if unclaimed > 0 {
        rows.push(PoolRow {
            name: UNATTRIBUTED,
            mode: None,
            billing: None,
            owner: None,
            classes: Vec::new(),
            nodes: NodesCell::default(),
            devices: DevicesCell::default(),
            util_ratio: None,
            mem_used_ratio: None,
            temp_max_celsius: None,
            power_watts: None,
            power_limit_watts: None,
            waiting_devices: unclaimed,
            burn_usd_per_hour: Some(0.0),
            free_usd_per_hour: Some(0.0),
            idle_allocated_usd_per_hour: Some(0.0),
        });
    }
    rows
}

/// Devices that all waiting jobs want: the header's figure.
pub fn waiting_devices(facts: &Facts) -> u32 {
    sum(facts.fleet.jobs.iter().map(|job| match job.state {
        JobState::Waiting => job.devices_requested.saturating_sub(job.devices_allocated),
        _ => 0,
    }))
}

/// A hostile request may ask for more devices than there are numbers.
fn sum(counts: impl Iterator<Item = u32>) -> u32 {
    counts.fold(0, u32::saturating_add)
}

/// The row of one pool.
pub fn row<'a>(facts: &'a Facts, pool: &'a Pool) -> PoolRow<'a> {
    let spend = match facts.burn.row(Scope::Pool, &pool.name) {
        Some(row) => row.known(),
        None => (pool.devices.total == 0).then(Spend::default),
    };
    PoolRow {
        name: &pool.name,
        mode: pool.mode.map(|mode| mode.name()),
        billing: if pool.billing_mixed {
            Some("mixed")
        } else {
            pool.billing.map(|billing| billing.name())
        },
        owner: pool.owner.as_deref(),
        classes: pool.classes.iter().map(ClassCell::from).collect(),
        nodes: pool.nodes.into(),
        devices: pool.devices.into(),
        util_ratio: pool.util,
        mem_used_ratio: pool.mem_used,
        temp_max_celsius: pool.temp_max,
        power_watts: pool.power_watts,
        power_limit_watts: pool.power_limit_watts,
        waiting_devices: pool.waiting_devices,
        burn_usd_per_hour: spend.map(|spend| spend.burn.usd()),
        free_usd_per_hour: spend.map(|spend| spend.free.usd()),
        idle_allocated_usd_per_hour: spend.map(|spend| spend.idle_allocated.usd()),
    }
}
