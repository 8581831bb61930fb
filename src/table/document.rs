//! `fleet`: everything at one moment as one versioned document, enough to plan on without a cluster.

use std::collections::BTreeMap;

use serde::Serialize;

use model::base::{Name, ObjectKey, Rate};
use model::fleet::Known;
use model::fleet::device::Pod;
use model::fleet::job::{Job, JobState};
use model::fleet::observe::{Resources, Table};
use model::fleet::policy::Policy;

use super::inventory::{NodeCell, by_key, node_cell};
use super::jobs::GangCell;
use super::pods::phase_name;
use super::pools::{PoolRow, waiting_devices};
use super::scheduling::{
    AdmissionCell, PodSetCell, PriorityClassCell, Scheduling, admission, scheduling,
};
use super::table::Column;
use super::text::{or_unknown, usd};
use super::{Facts, pools, said};

/// The version of the document.
pub const VERSION: u32 = 1;

/// The header: figures over the whole fleet.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Figures {
    /// Nodes; this and what follows is `None` where it may not be seen.
    pub nodes: Option<u32>,
    /// Devices.
    pub devices: Option<u32>,
    /// Held, whole or in part.
    pub allocated: Option<u32>,
    /// Held by nobody.
    pub free: Option<u32>,
    /// Held by nobody, and a new pod could use it now.
    pub free_usable: Option<u32>,
    /// Faulty, or on a node that is not ready.
    pub unhealthy: Option<u32>,
    /// Held, but doing no work.
    pub idle_allocated: Option<u32>,
    /// Devices without a price.
    pub unpriced: u32,
    /// Jobs that wait.
    pub waiting_jobs: Option<u32>,
    /// Devices that they want.
    pub waiting_devices: Option<u32>,
    /// USD an hour of all devices.
    pub burn_usd_per_hour: Option<f64>,
    /// USD an hour of those that nobody holds.
    pub free_usd_per_hour: Option<f64>,
    /// USD an hour of those that are held and do no work.
    pub idle_allocated_usd_per_hour: Option<f64>,
}

/// Amounts of what a node has or a pod asks for.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Amounts<'a> {
    /// Thousandths of a core.
    pub cpu_milli: Option<i64>,
    /// Bytes.
    pub memory_bytes: Option<i64>,
    /// Accelerators by resource name.
    pub devices: BTreeMap<&'a str, u32>,
}

impl<'a> From<&'a Resources> for Amounts<'a> {
    fn from(resources: &'a Resources) -> Self {
        Self {
            cpu_milli: Some(resources.cpu_milli),
            memory_bytes: Some(resources.memory_bytes),
            devices: resources
                .devices
                .iter()
                .map(|(name, count)| (name.as_str(), *count))
                .collect(),
        }
    }
}

impl<'a> Amounts<'a> {
    /// What a node has: none has nothing, so nothing means that it does not say.
    pub(super) fn of_node(resources: &'a Resources) -> Self {
        let mut amounts = Self::from(resources);
        amounts.cpu_milli = amounts.cpu_milli.filter(|amount| *amount > 0);
        amounts.memory_bytes = amounts.memory_bytes.filter(|amount| *amount > 0);
        amounts
    }
}

/// A job.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct JobCell<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Unique id.
    pub uid: Option<&'a str>,
    /// Queue.
    pub queue: Option<&'a str>,
    /// Team.
    pub team: &'a str,
    /// Priority.
    pub priority: Option<i32>,
    /// State.
    pub state: &'static str,
    /// Gang.
    pub gang: Option<GangCell>,
    /// Devices or slices that it asks for.
    pub devices_requested: u32,
    /// Devices or slices that it holds.
    pub devices_allocated: u32,
    /// Class.
    pub class: Option<&'a str>,
    /// RFC 3339.
    pub created: String,
    /// RFC 3339.
    pub started: Option<String>,
    /// RFC 3339.
    pub waiting_since: Option<String>,
    /// Its pods, by name.
    pub pods: Vec<&'a str>,
    /// What it asks for, set by set.
    pub pod_sets: Vec<PodSetCell<'a>>,
    /// Where it stands with its queueing system.
    pub admission: Option<AdmissionCell<'a>>,
    /// What it holds: node, index of the device, slice.
    pub placements: Vec<(&'a str, u32, Option<&'a str>)>,
}

/// A pod that asks for devices.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PodCell<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// Unique id.
    pub uid: Option<&'a str>,
    /// Kind of its job.
    pub job_kind: &'a str,
    /// Its job.
    pub job: &'a str,
    /// The node it is bound to.
    pub node: Option<&'a str>,
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: &'static str,
    /// Priority.
    pub priority: i32,
    /// What it asks for.
    pub requests: Amounts<'a>,
    /// Labels that a node must have.
    pub node_selector: BTreeMap<&'a str, &'a str>,
    /// RFC 3339.
    pub created: String,
    /// RFC 3339.
    pub scheduled: Option<String>,
    /// Told to end; RFC 3339.
    pub deleted: Option<String>,
}

/// A price of one device.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PriceCell<'a> {
    /// Pool.
    pub pool: &'a str,
    /// Class.
    pub class: &'a str,
    /// Machine type.
    pub instance_type: Option<&'a str>,
    /// Region.
    pub region: Option<&'a str>,
    /// How the hours are paid.
    pub billing: Option<&'static str>,
    /// USD an hour.
    pub usd_per_device_hour: Option<f64>,
    /// Book and row.
    pub source: Option<&'a str>,
    /// Date of the price.
    pub as_of: Option<&'a str>,
}

/// The rules that the fleet was made with.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PolicyCell<'a> {
    /// Node labels that name a pool.
    pub pool_labels: &'a [String],
    /// Node labels that stand for a rack.
    pub rack_labels: &'a [String],
    /// Labels that name a team.
    pub team_labels: &'a [String],
    /// Labels that name a queue.
    pub queue_labels: &'a [String],
    /// Use below which a held device does no work.
    pub idle_util_below: f64,
    /// How many times its idle power such a device may draw.
    pub idle_power_factor: f64,
    /// How long it must have been held.
    pub idle_grace_seconds: u64,
}

impl<'a> From<&'a Policy> for PolicyCell<'a> {
    fn from(policy: &'a Policy) -> Self {
        Self {
            pool_labels: &policy.pool_labels,
            rack_labels: &policy.rack_labels,
            team_labels: &policy.team_labels,
            queue_labels: &policy.queue_labels,
            idle_util_below: policy.idle_util_below,
            idle_power_factor: policy.idle_power_factor,
            idle_grace_seconds: policy.idle_grace.as_secs(),
        }
    }
}

/// The whole document.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Document<'a> {
    /// [`VERSION`].
    pub version: u32,
    /// The moment it shows, RFC 3339.
    pub at: String,
    /// Name of the context.
    pub context: &'a str,
    /// How much is known of each table: `waiting`, `live`, `lost`, `not-visible` or `absent`.
    pub known: BTreeMap<&'static str, &'static str>,
    /// Figures over all.
    pub figures: Figures,
    /// Pools.
    pub pools: Vec<PoolRow<'a>>,
    /// Nodes with their devices.
    pub nodes: Vec<NodeCell<'a>>,
    /// Jobs.
    pub jobs: Vec<JobCell<'a>>,
    /// Pods of these jobs.
    pub pods: Vec<PodCell<'a>>,
    /// Queues, flavors, topologies, budgets, workloads: what the engine reads.
    #[serde(flatten)]
    pub scheduling: Scheduling,
    /// Priority classes.
    pub priority_classes: Vec<PriorityClassCell<'a>>,
    /// Prices of one device.
    pub prices: Vec<PriceCell<'a>>,
    /// Rules.
    pub policy: PolicyCell<'a>,
}

/// Columns as CSV: the figures.
pub(super) const FIELDS: &[&str] = &[
    "version",
    "at",
    "context",
    "figures.nodes",
    "figures.devices",
    "figures.allocated",
    "figures.free",
    "figures.free_usable",
    "figures.unhealthy",
    "figures.idle_allocated",
    "figures.unpriced",
    "figures.waiting_jobs",
    "figures.waiting_devices",
    "figures.burn_usd_per_hour",
    "figures.free_usd_per_hour",
    "figures.idle_allocated_usd_per_hour",
];

/// Columns as a table: the figures.
pub(super) fn columns<'a>() -> Vec<Column<Document<'a>>> {
    vec![
        Column::text("CONTEXT", |row: &Document<'_>| row.context.to_owned()),
        Column::text("AT", |row| row.at.clone()),
        Column::number("NODES", |row| or_unknown(row.figures.nodes)),
        Column::number("DEVICES", |row| or_unknown(row.figures.devices)),
        Column::number("ALLOCATED", |row| or_unknown(row.figures.allocated)),
        Column::number("FREE", |row: &Document<'_>| {
            or_unknown(row.figures.free_usable)
        }),
        Column::number("UNHEALTHY", |row| or_unknown(row.figures.unhealthy)),
        Column::number("IDLE ALLOC", |row| or_unknown(row.figures.idle_allocated)),
        Column::wide_number("UNPRICED", |row| or_unknown(Some(row.figures.unpriced))),
        Column::number("WAITING", |row| {
            format!(
                "{} jobs/{}",
                or_unknown(row.figures.waiting_jobs),
                or_unknown(row.figures.waiting_devices)
            )
        }),
        Column::number("$/H", |row| usd(row.figures.burn_usd_per_hour)),
        Column::number("UNALLOC $/H", |row| usd(row.figures.free_usd_per_hour)),
        Column::number("IDLE ALLOC $/H", |row| {
            usd(row.figures.idle_allocated_usd_per_hour)
        }),
    ]
}

/// Figures over the whole fleet: what a header shows. They are the sums of the rows.
pub fn figures(facts: &Facts) -> Figures {
    let fleet = &facts.fleet;
    let counts = fleet.visible_counts();
    let sees_jobs = !fleet.is_hidden(Table::Pods);
    let spend = facts.burn.known();
    let waits = |job: &&std::sync::Arc<Job>| job.state == JobState::Waiting;
    Figures {
        nodes: (!fleet.is_hidden(Table::Nodes)).then_some(fleet.nodes.len() as u32),
        devices: counts.total,
        allocated: counts.allocated,
        free: counts.free,
        free_usable: counts.free_usable,
        unhealthy: counts.unhealthy,
        idle_allocated: counts.idle_allocated,
        unpriced: facts.burn.unpriced,
        waiting_jobs: sees_jobs.then(|| fleet.jobs.iter().filter(waits).count() as u32),
        waiting_devices: sees_jobs.then(|| waiting_devices(facts)),
        burn_usd_per_hour: spend.map(|spend| spend.burn.usd()),
        free_usd_per_hour: spend.and_then(|spend| spend.free).map(Rate::usd),
        idle_allocated_usd_per_hour: spend.and_then(|spend| spend.idle_allocated).map(Rate::usd),
    }
}

/// The document of a fleet.
pub fn document(facts: &Facts) -> Document<'_> {
    let fleet = &facts.fleet;
    let mut pods: BTreeMap<&ObjectKey, &Pod> = BTreeMap::new();
    for job in fleet.jobs.iter() {
        pods.extend(job.pods.iter().map(|pod| (pod.key(), &**pod)));
    }
    Document {
        version: VERSION,
        at: facts.now.rfc3339(),
        context: &facts.context,
        known: fleet
            .known
            .iter()
            .map(|(table, known)| (table.name(), known_name(known)))
            .collect(),
        figures: figures(facts),
        pools: pools::rows(facts),
        nodes: fleet.nodes.iter().map(|node| node_cell(node)).collect(),
        jobs: fleet.jobs.iter().map(|job| job_cell(job)).collect(),
        pods: pods.into_values().map(pod_cell).collect(),
        scheduling: scheduling(facts),
        priority_classes: fleet
            .priority_classes
            .iter()
            .map(|class| PriorityClassCell::from(&**class))
            .collect(),
        prices: facts
            .burn
            .prices
            .iter()
            .map(|group| PriceCell {
                pool: &group.pool,
                class: &group.class,
                instance_type: group.instance_type.as_deref(),
                region: group.region.as_deref(),
                billing: group.billing.map(|billing| billing.name()),
                usd_per_device_hour: group.price.as_ref().map(|price| price.rate.usd()),
                source: group.price.as_ref().map(|price| price.source.as_str()),
                as_of: group
                    .price
                    .as_ref()
                    .and_then(|price| price.as_of.as_deref()),
            })
            .collect(),
        policy: PolicyCell::from(&*fleet.policy),
    }
}

/// The word for how much is known of a table.
pub const fn known_name(known: &Known) -> &'static str {
    match known {
        Known::Waiting => "waiting",
        Known::Live => "live",
        Known::Lost(_) => "lost",
        Known::NotVisible(_) => "not-visible",
        Known::Absent => "absent",
    }
}

fn job_cell(job: &Job) -> JobCell<'_> {
    JobCell {
        namespace: job.namespace(),
        name: job.name(),
        kind: &job.id.kind,
        uid: said(&job.uid),
        queue: job.queue.as_deref(),
        team: &job.team,
        priority: job.priority,
        state: job.state.name(),
        gang: job.gang.map(GangCell::from),
        devices_requested: job.devices_requested,
        devices_allocated: job.devices_allocated,
        class: job.class.as_deref(),
        created: job.created.rfc3339(),
        started: job.started.map(|at| at.rfc3339()),
        waiting_since: job.waiting_since.map(|at| at.rfc3339()),
        pods: job.pods.iter().map(|pod| pod.key().name.as_str()).collect(),
        pod_sets: job.pod_sets.iter().map(PodSetCell::from).collect(),
        admission: admission(job),
        placements: job
            .places
            .iter()
            .map(|place| (place.node.as_str(), place.device, place.slice.as_deref()))
            .collect(),
    }
}

fn pod_cell(pod: &Pod) -> PodCell<'_> {
    let seen = &pod.seen;
    PodCell {
        namespace: &seen.key.namespace,
        name: &seen.key.name,
        uid: said(&seen.uid),
        job_kind: &pod.job.kind,
        job: &pod.job.key.name,
        node: seen.node.as_ref().map(Name::as_str),
        phase: phase_name(seen.phase),
        priority: seen.priority,
        requests: Amounts::from(&seen.requests),
        node_selector: by_key(&seen.node_selector),
        created: seen.created.rfc3339(),
        scheduled: seen.scheduled.map(|at| at.rfc3339()),
        deleted: seen.deleted.map(|at| at.rfc3339()),
    }
}
