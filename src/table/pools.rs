//! Rows of `pools`: size, allocation, utilization and rate of each pool.

use schemars::JsonSchema;
use serde::Serialize;

use model::base::natural;
use model::base::{DeviceAmount, SmallSort};
use model::cost::{Money, Scope, Spend};
use model::fleet::node::Billing;
use model::fleet::pool::{ClassCount, NodeCounts, Pool, Unusable, VisibleCounts, WaitingOutside};
use model::schema::one_of;

use super::Facts;
use super::list_price::{ListMarks, list_usd, marked};
use super::table::Column;
use super::text::{celsius, or_unknown, percent, watts, word};

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

/// One pool.
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
    /// Why the other free devices cannot be used.
    #[serde(skip)]
    pub unusable: Option<Unusable>,
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
    /// Devices of this pool that waiting jobs request; null where its nodes do not say what they serve.
    pub waiting_devices: Option<u32>,
    /// Rate of all its devices, USD/h.
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
    /// Rate of its devices that are free or idle, USD/h.
    #[serde(skip)]
    pub waste_usd_per_hour: Option<f64>,
}

impl<'a> PoolRow<'a> {
    /// Waiting devices of no pool: such a row has no nodes, devices or money.
    fn outside(name: &'a str, devices: u32) -> Self {
        Self {
            name,
            mode: None,
            billing: None,
            owner: None,
            classes: Vec::new(),
            nodes: NodesCell::of(None),
            devices: DevicesCell::default(),
            unusable: None,
            util_ratio: None,
            mem_used_ratio: None,
            temp_max_celsius: None,
            power_watts: None,
            power_limit_watts: None,
            waiting_devices: Some(devices),
            burn_usd_per_hour: None,
            list_usd_per_hour: None,
            list: ListMarks::default(),
            free_usd_per_hour: None,
            idle_allocated_usd_per_hour: None,
            waste_usd_per_hour: None,
        }
    }
}

/// Columns as a table.
pub(super) fn columns<'a>() -> Vec<Column<PoolRow<'a>>> {
    vec![
        Column::text("NAME", |row: &PoolRow<'_>| row.name.to_owned()),
        Column::text("CLASS", |row: &PoolRow<'_>| {
            let classes: Vec<&str> = row.classes.iter().map(|class| class.class).collect();
            classes.join(",")
        })
        .by("classes"),
        Column::text("MODE", |row| word(row.mode)),
        Column::text("BILLING", |row| word(row.billing)),
        Column::wide_text("OWNER", |row| word(row.owner)),
        Column::number("NODES", |row: &PoolRow<'_>| {
            part(row.nodes.ready, row.nodes.total)
        })
        .by("nodes.total")
        .whole("POOL NODES"),
        Column::wide_number("CORDONED", |row: &PoolRow<'_>| {
            or_unknown(row.nodes.cordoned)
        })
        .by("nodes.cordoned")
        .whole("POOL CORDONED"),
        Column::wide_number("MIN", |row: &PoolRow<'_>| or_unknown(row.nodes.min)).by("nodes.min"),
        Column::wide_number("MAX", |row: &PoolRow<'_>| or_unknown(row.nodes.max)).by("nodes.max"),
        Column::number("FREE/TOTAL", |row: &PoolRow<'_>| {
            part(row.devices.free_usable, row.devices.total)
        })
        .by("devices.free_usable")
        .whole("POOL FREE/TOTAL"),
        Column::wide_text("FREE BUT NOT USABLE", |row: &PoolRow<'_>| {
            let unusable = row.unusable.and_then(|unusable| unusable.words());
            word(unusable.as_deref())
        })
        .by("")
        .whole("POOL FREE BUT NOT USABLE"),
        Column::number("ALLOC", |row: &PoolRow<'_>| {
            let whole = row.devices.total.filter(|total| *total > 0);
            let share = |(part, whole): (DeviceAmount, u32)| part.devices() / f64::from(whole);
            percent(row.devices.allocated.zip(whole).map(share))
        })
        .by("devices.allocated"),
        Column::wide_number("UNHEALTHY", |row: &PoolRow<'_>| {
            or_unknown(row.devices.unhealthy)
        })
        .by("devices.unhealthy"),
        Column::wide_number("IDLE ALLOC", |row: &PoolRow<'_>| {
            or_unknown(row.devices.idle_allocated)
        })
        .by("devices.idle_allocated"),
        Column::number("UTIL", |row: &PoolRow<'_>| percent(row.util_ratio)).by("util_ratio"),
        Column::number("MEM", |row: &PoolRow<'_>| percent(row.mem_used_ratio)).by("mem_used_ratio"),
        Column::number("TMAX", |row: &PoolRow<'_>| celsius(row.temp_max_celsius))
            .by("temp_max_celsius"),
        Column::number("POWER", |row: &PoolRow<'_>| watts(row.power_watts)).by("power_watts"),
        Column::wide_number("CAP", |row: &PoolRow<'_>| watts(row.power_limit_watts))
            .by("power_limit_watts"),
        Column::number("WAIT", |row: &PoolRow<'_>| or_unknown(row.waiting_devices))
            .by("waiting_devices"),
        Column::number("$/H", |row: &PoolRow<'_>| {
            marked(row.burn_usd_per_hour, row.list.rate)
        })
        .by("burn_usd_per_hour"),
        Column::number("UNALLOC $/H", |row: &PoolRow<'_>| {
            marked(row.free_usd_per_hour, row.list.free)
        })
        .by("free_usd_per_hour"),
        Column::number("IDLE ALLOC $/H", |row: &PoolRow<'_>| {
            marked(row.idle_allocated_usd_per_hour, row.list.idle_allocated)
        })
        .by("idle_allocated_usd_per_hour"),
        Column::wide_number("IDLE $/H", |row: &PoolRow<'_>| {
            let is_by_list =
                row.list.idle_allocated || row.list.free && row.free_usd_per_hour.is_some();
            marked(row.waste_usd_per_hour, is_by_list)
        })
        .by(""),
    ]
}

/// `3/8`, or `-`.
fn part<T: ToString>(part: Option<T>, whole: Option<u32>) -> String {
    or_unknown(
        part.zip(whole)
            .map(|(part, whole)| format!("{}/{whole}", part.to_string())),
    )
}

/// Every pool by name; in a scope, the pools that its jobs use or wait for. Then rows for waiting devices of no pool, by reason.
pub fn rows(facts: &Facts) -> Vec<PoolRow<'_>> {
    let part = facts.part.as_ref();
    let reached = |pool: &&Pool| {
        part.is_none_or(|part| part.reach.has_pool(&pool.name) || pool.waiting_devices > 0)
    };
    let pools = facts.pools().iter().filter(reached);
    let mut rows: Vec<PoolRow<'_>> = pools.map(|pool| row(facts, pool)).collect();
    rows.small_sort_by(|a, b| natural(a.name, b.name));
    for (name, devices) in waiting_outside(facts).rows() {
        // Pods on nodes that are not visible have a row of that name already.
        match rows.iter_mut().find(|row| row.name == name) {
            Some(row) => row.waiting_devices = Some(devices),
            None => rows.push(PoolRow::outside(name, devices)),
        }
    }
    rows
}

/// Waiting devices of the scope that count in no pool.
pub fn waiting_outside(facts: &Facts) -> WaitingOutside {
    facts.fleet.waiting_outside(|job| facts.has_job(job))
}

/// Devices that all waiting jobs request: the header's figure.
pub fn waiting_devices(facts: &Facts) -> u32 {
    let jobs = facts.fleet.jobs.iter().filter(|job| facts.has_job(job));
    // Saturating: a malicious request can exceed the range.
    jobs.fold(0, |sum, job| sum.saturating_add(job.devices_waiting()))
}

/// Rate of a pool's devices; `None` where none has a price.
pub fn spend(facts: &Facts, pool: &Pool) -> Option<Spend> {
    match facts.spend_rates.row(Scope::Pool, &pool.name) {
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

/// Rate of wasted devices: free or idle ones, in a scope only the idle ones, because free devices belong to no team or
/// namespace.
pub fn waste(facts: &Facts, spend: &Spend) -> Option<Money> {
    match facts.part {
        None => spend.idle(),
        Some(_) => spend.idle_allocated,
    }
}

/// The row of one pool.
fn row<'a>(facts: &'a Facts, pool: &'a Pool) -> PoolRow<'a> {
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
        unusable: pool.counts().unusable,
        util_ratio: pool.util,
        mem_used_ratio: pool.mem_used,
        temp_max_celsius: pool.temp_max,
        power_watts: pool.power_watts,
        power_limit_watts: pool.power_limit_watts,
        waiting_devices: pool.sight.nodes.then_some(pool.waiting_devices),
        burn_usd_per_hour: spend.map(|spend| spend.rate.usd()),
        list_usd_per_hour: list_usd(spend.map(|spend| spend.rate)),
        list: ListMarks::of(spend),
        free_usd_per_hour: spend.and_then(|spend| spend.free).map(Money::usd),
        idle_allocated_usd_per_hour: spend.and_then(|spend| spend.idle_allocated).map(Money::usd),
        waste_usd_per_hour: spend.and_then(|spend| waste(facts, &spend)).map(Money::usd),
    }
}
