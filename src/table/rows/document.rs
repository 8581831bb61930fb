//! The `fleet` document: the whole fleet at one moment as versioned JSON, enough to plan without a cluster.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use model::base::{DeviceAmount, Name, ObjectKey};
use model::cost::Money;
use model::fleet::TableState;
use model::fleet::device::Pod;
use model::fleet::job::{Job, JobState};
use model::fleet::observe::{Resources, Table};
use model::fleet::policy::Policy;

use super::inventory::{NodeCell, label_map, node_cell};
use super::jobs::GangCell;
use super::list_price::list_usd;
use super::pools::{PoolRow, unallocated, waiting_devices};
use super::scheduling::{
    AdmissionCell, PodSetCell, PriorityClassCell, Scheduling, admission, scheduling,
};
use crate::{Facts, kinds, non_empty};

/// The version of the document.
pub const VERSION: u32 = 1;

/// The header's figures: of the whole fleet, or of the scope.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
pub struct FleetFigures {
    /// Number of nodes; in a scope those on which it has devices. This and the following counts are null where RBAC hides them.
    pub nodes: Option<u32>,
    /// Devices; in a scope those of which it has all or a part.
    pub devices: Option<u32>,
    /// Allocated devices, and of shared devices the parts that are allocated.
    pub allocated: Option<DeviceAmount>,
    /// Devices that are not allocated; null in a scope, to which no free device belongs.
    pub free: Option<DeviceAmount>,
    /// Free devices that a new pod could use now: not cordoned, ready, healthy, allocatable.
    pub free_usable: Option<DeviceAmount>,
    /// Faulty, or on a node that is not ready.
    pub unhealthy: Option<u32>,
    /// Allocated devices that are idle.
    pub idle_allocated: Option<DeviceAmount>,
    /// Devices that have no price.
    pub unpriced: u32,
    /// Jobs that wait to start.
    pub waiting_jobs: Option<u32>,
    /// Devices, and slices of devices, that the waiting jobs request.
    pub waiting_devices: Option<u32>,
    /// How many of these are slices.
    pub waiting_slices: Option<u32>,
    /// Rate of all devices, USD/h.
    #[schemars(range(min = 0))]
    pub burn_usd_per_hour: Option<f64>,
    /// The part of that rate that is list prices in place of what is paid, which is not known, USD/h.
    #[schemars(range(min = 0))]
    pub list_usd_per_hour: Option<f64>,
    /// Rate of the free devices, USD/h.
    #[schemars(range(min = 0))]
    pub free_usd_per_hour: Option<f64>,
    /// Rate of the idle allocated devices, USD/h.
    #[schemars(range(min = 0))]
    pub idle_allocated_usd_per_hour: Option<f64>,
}

/// Amounts of a node's capacity or of a pod's requests.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Amounts<'a> {
    /// CPU, thousandths of a core; null where a node does not report it.
    pub cpu_milli: Option<i64>,
    /// Memory, bytes; null where a node does not report it.
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
    /// A node's amounts: zero CPU or memory means that the node does not report it.
    pub(crate) fn of_node(resources: &'a Resources) -> Self {
        let mut amounts = Self::from(resources);
        amounts.cpu_milli = amounts.cpu_milli.filter(|amount| *amount > 0);
        amounts.memory_bytes = amounts.memory_bytes.filter(|amount| *amount > 0);
        amounts
    }
}

/// A job as the document states it.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct JobCell<'a> {
    /// Namespace of the job.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Kind of the object, `JobSet`.
    pub kind: &'a str,
    /// Unique id of the object.
    pub uid: Option<&'a str>,
    /// The queue that it is submitted to.
    pub queue: Option<&'a str>,
    /// The team that it counts for.
    pub team: &'a str,
    /// Priority of its pods.
    pub priority: Option<i32>,
    /// What it does now.
    #[schemars(with = "JobState")]
    pub state: &'static str,
    /// Its gang; null for a job whose pods start alone.
    pub gang: Option<GangCell>,
    /// Devices or slices that it requests.
    pub devices_requested: u32,
    /// Devices or slices allocated to it.
    pub devices_allocated: u32,
    /// Class of those devices.
    pub class: Option<&'a str>,
    /// Creation time, RFC 3339.
    #[schemars(with = "model::base::Moment")]
    pub created: String,
    /// Start time, RFC 3339.
    #[schemars(with = "Option<model::base::Moment>")]
    pub started: Option<String>,
    /// When it began to wait, RFC 3339.
    #[schemars(with = "Option<model::base::Moment>")]
    pub waiting_since: Option<String>,
    /// Its pods, by name.
    pub pods: Vec<&'a str>,
    /// Its requests, by pod set.
    pub pod_sets: Vec<PodSetCell<'a>>,
    /// Its admission status in the queueing system.
    pub admission: Option<AdmissionCell<'a>>,
    /// Its devices: node, index of the device, slice.
    pub placements: Vec<(&'a str, u32, Option<&'a str>)>,
}

/// A pod that requests devices.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct PodCell<'a> {
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the pod.
    pub name: &'a str,
    /// Unique id of the pod.
    pub uid: Option<&'a str>,
    /// Kind of its job.
    pub job_kind: &'a str,
    /// Name of its job.
    pub job: &'a str,
    /// The node it is bound to.
    pub node: Option<&'a str>,
    /// Phase as the API reports it.
    #[schemars(with = "model::fleet::observe::Phase")]
    pub phase: &'static str,
    /// Priority of the pod.
    pub priority: i32,
    /// Resources that it requests.
    #[schemars(with = "engine::document::RequestCell")]
    pub requests: Amounts<'a>,
    /// Labels that its node must have.
    pub node_selector: BTreeMap<&'a str, &'a str>,
    /// Creation time, RFC 3339.
    #[schemars(with = "model::base::Moment")]
    pub created: String,
    /// When it was scheduled, RFC 3339.
    #[schemars(with = "Option<model::base::Moment>")]
    pub scheduled: Option<String>,
    /// Deletion timestamp, RFC 3339.
    #[schemars(with = "Option<model::base::Moment>")]
    pub deleted: Option<String>,
}

/// The price of one device.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct PriceCell<'a> {
    /// Pool of the device.
    pub pool: &'a str,
    /// Class of the device.
    pub class: &'a str,
    /// Machine type of its node.
    pub instance_type: Option<&'a str>,
    /// Region of its node.
    pub region: Option<&'a str>,
    /// How it is paid for; null where it is not known.
    #[schemars(with = "Option<model::fleet::node::Billing>")]
    pub billing: Option<&'static str>,
    /// Price, USD per device-hour; null where it is not known.
    #[schemars(range(min = 0))]
    pub usd_per_device_hour: Option<f64>,
    /// True where that is a list price in place of what is paid, which is not known.
    pub list_price: bool,
    /// Price book and row.
    pub source: Option<&'a str>,
    /// Date of the price, as far as it is known.
    pub as_of: Option<&'a str>,
}

/// The policy settings that the fleet was built with.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct PolicyCell<'a> {
    /// Node labels that name a pool.
    pub pool_labels: &'a [String],
    /// Node labels that name a rack.
    pub rack_labels: &'a [String],
    /// Labels that name a team.
    pub team_labels: &'a [String],
    /// Labels that name a queue.
    pub queue_labels: &'a [String],
    /// Utilization below which an allocated device counts as idle, 0 to 1.
    pub idle_util_below: f64,
    /// Multiple of its idle power below which such a device counts as idle.
    pub idle_power_factor: f64,
    /// Seconds a device must have been allocated before it can count as idle.
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

/// The fleet document as it is printed.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Document<'a> {
    /// Version of the document.
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    /// The moment of the snapshot, RFC 3339.
    #[schemars(with = "model::base::Moment")]
    pub at: String,
    /// Name of the kubeconfig context.
    pub context: &'a str,
    /// State of each table of objects, by its name.
    #[schemars(with = "BTreeMap<&str, TableState>")]
    pub known: BTreeMap<&'static str, &'static str>,
    /// Figures of the whole fleet, or of the scope.
    pub figures: FleetFigures,
    /// Pools, as in `get pools`.
    pub pools: Vec<PoolRow<'a>>,
    /// Nodes with their devices.
    pub nodes: Vec<NodeCell<'a>>,
    /// Jobs that request or hold devices.
    pub jobs: Vec<JobCell<'a>>,
    /// Pods of these jobs.
    pub pods: Vec<PodCell<'a>>,
    /// The engine's inputs: queues, flavors, topologies, disruption budgets, workloads.
    #[serde(flatten)]
    pub scheduling: Scheduling<'a>,
    /// Priority classes of pods and of workloads.
    pub priority_classes: Vec<PriorityClassCell<'a>>,
    /// Prices of one device.
    pub prices: Vec<PriceCell<'a>>,
    /// Policy settings that the fleet was built with.
    pub policy: PolicyCell<'a>,
}

/// The header's figures; they are the sums of the rows.
pub fn figures(facts: &Facts) -> FleetFigures {
    let fleet = &facts.fleet;
    let (nodes, counts) = match &facts.part {
        Some(part) => part.counts(facts),
        None => {
            let nodes = (!fleet.is_hidden(Table::Nodes)).then_some(fleet.nodes.len() as u32);
            (nodes, fleet.visible_counts())
        }
    };
    let sees_jobs = !fleet.is_hidden(Table::Pods);
    let spend = facts.spend_rates.known();
    let waiting = waiting_devices(facts);
    let waits = |job: &&std::sync::Arc<Job>| job.state == JobState::Waiting && facts.has_job(job);
    FleetFigures {
        nodes,
        devices: counts.total,
        allocated: counts.allocated,
        free: counts.free,
        free_usable: counts.free_usable,
        unhealthy: counts.unhealthy,
        idle_allocated: counts.idle_allocated,
        unpriced: facts.spend_rates.unpriced,
        waiting_jobs: sees_jobs.then(|| fleet.jobs.iter().filter(waits).count() as u32),
        waiting_devices: sees_jobs.then_some(waiting.0),
        waiting_slices: sees_jobs.then_some(waiting.1),
        burn_usd_per_hour: spend.map(|spend| spend.rate.usd()),
        list_usd_per_hour: list_usd(spend.map(|spend| spend.rate)),
        free_usd_per_hour: spend
            .and_then(|spend| unallocated(facts, &spend))
            .map(Money::usd),
        idle_allocated_usd_per_hour: spend.and_then(|spend| spend.idle_allocated).map(Money::usd),
    }
}

/// The document of a fleet. In a scope its figures and pools are those of the scope, as in `get pools`; the objects stay all,
/// since a plan is computed on the whole fleet.
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
            .map(|(table, known)| (table.name(), known.name()))
            .collect(),
        figures: figures(facts),
        pools: kinds::pools::rows(facts),
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
            .spend_rates
            .prices
            .iter()
            .map(|group| PriceCell {
                pool: &group.pool,
                class: &group.class,
                instance_type: group.instance_type.as_deref(),
                region: group.region.as_deref(),
                billing: group.billing.map(|billing| billing.name()),
                usd_per_device_hour: group.price.as_ref().map(|price| price.rate.usd()),
                list_price: group.price.as_ref().is_some_and(|price| price.is_stand_in),
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

fn job_cell(job: &Job) -> JobCell<'_> {
    JobCell {
        namespace: job.namespace(),
        name: job.name(),
        kind: &job.id.kind,
        uid: non_empty(&job.uid),
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
        uid: non_empty(&seen.uid),
        job_kind: &pod.job.kind,
        job: &pod.job.key.name,
        node: seen.node.as_ref().map(Name::as_str),
        phase: seen.phase.name(),
        priority: seen.priority,
        requests: Amounts::from(&seen.requests),
        node_selector: label_map(&seen.node_selector),
        created: seen.created.rfc3339(),
        scheduled: seen.scheduled.map(|at| at.rfc3339()),
        deleted: seen.deleted.map(|at| at.rfc3339()),
    }
}
