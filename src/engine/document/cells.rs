//! The parts of the document that the engine reads, as they are written.

use std::collections::BTreeMap;

use schemars::{JsonSchema, json_schema};
use serde::Serialize;

use model::base::{Moment, Name};
use model::fleet::node::Billing;
use model::plan::OptionSource;

use crate::snapshot::{
    Borrow, FairStrategy, FlavorPreference, QueueStop, QueueingStrategy, Reclaim, Status, System,
    TaintEffect, Within,
};

/// A number that is written whole where it is whole.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Decimal {
    Whole(i64),
    Part(f64),
}

model::written_as!(Decimal, json_schema!({ "type": "number" }));

impl Decimal {
    /// `amount` of which `whole` make one.
    pub fn of(amount: i64, whole: i64) -> Self {
        match amount % whole {
            0 => Self::Whole(amount / whole),
            _ => Self::Part(amount as f64 / whole as f64),
        }
    }
}

/// An amount of a resource: a whole number of its unit, or thousandths as Kubernetes writes them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Amount {
    Whole(i64),
    /// A quantity in thousandths, written `500m`.
    Milli(String),
}

model::written_as!(Amount, json_schema!({ "type": ["number", "string"] }));

/// A taint of a flavor's nodes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct FlavorTaint {
    /// Key of the taint.
    pub key: Name,
    /// Value; may be empty.
    pub value: Name,
    /// Effect on pods that do not tolerate the taint.
    #[schemars(with = "TaintEffect")]
    pub effect: &'static str,
}

/// A toleration of pods.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct TolerationCell {
    /// Key of the taint; null tolerates every key.
    pub key: Option<Name>,
    /// How the value is compared.
    #[schemars(extend("enum" = ["Exists", "Equal"]))]
    pub operator: &'static str,
    /// Value of the taint; null tolerates every value.
    pub value: Option<Name>,
    /// Effect of the taint; null tolerates every effect.
    #[schemars(with = "Option<TaintEffect>")]
    pub effect: Option<&'static str>,
}

/// A kind of capacity with its own quota.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct FlavorCell {
    /// Name of the flavor.
    pub name: Name,
    /// Labels of its nodes; without one, any node.
    pub node_labels: BTreeMap<Name, Name>,
    /// Taints of its nodes, which a workload must tolerate to use it.
    pub node_taints: Vec<FlavorTaint>,
    /// Tolerations that it adds to those of its pods.
    pub tolerations: Vec<TolerationCell>,
    /// Name of the topology of its nodes.
    pub topology: Option<Name>,
    /// How its devices are paid for; null where it is not known.
    #[schemars(with = "Option<Billing>")]
    pub billing: Option<&'static str>,
    /// Price, USD per device-hour; null where it is not known.
    #[schemars(range(min = 0))]
    pub usd_per_device_hour: Option<f64>,
}

/// A topology of node labels.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct LabelTopology {
    /// Name that flavors refer to.
    pub name: Name,
    /// Keys of its labels, from wide to narrow.
    pub levels: Vec<Name>,
}

/// Quota of one resource in one flavor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct EngineQuota {
    /// Flavor; `any` in systems that have none.
    pub flavor: Name,
    /// Resource; absent for accelerators of every kind together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<Name>,
    /// Nominal quota of the queue or cohort itself.
    pub nominal: Amount,
    /// Borrowing limit; null is as much as others lend.
    pub borrow_limit: Option<Amount>,
    /// Lending limit; null allows lending everything.
    pub lend_limit: Option<Amount>,
    /// Limit that its use never exceeds; null is unlimited.
    pub cap: Option<Amount>,
}

/// Which workloads those of a queue may preempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct PreemptionCell {
    /// Which workloads of the same queue.
    #[schemars(with = "Within")]
    pub within: &'static str,
    /// Which workloads of queues that exceed their nominal quota.
    #[schemars(with = "Reclaim")]
    pub reclaim: &'static str,
    /// Which workloads of other queues, by one that borrows.
    #[schemars(with = "Borrow")]
    pub borrow: &'static str,
    /// Highest priority that one that borrows may preempt; null for no such bound.
    pub borrow_threshold: Option<i32>,
}

/// How long a workload that started is not preempted.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
pub struct LeftAloneCell {
    /// By its own queue, seconds; null for not at all.
    pub preempt_seconds: Option<Decimal>,
    /// By other queues that reclaim their quota, seconds; null for not at all.
    pub reclaim_seconds: Option<Decimal>,
}

/// Whether the search for a flavor ends where borrowing or preemption would be needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct FungibilityCell {
    /// Where it would have to borrow.
    #[schemars(with = "FlavorSearch")]
    pub borrow: &'static str,
    /// Where it would have to preempt.
    #[schemars(with = "FlavorSearch")]
    pub preempt: &'static str,
    /// Which of the flavors is taken that did not end the search.
    #[schemars(with = "FlavorPreference")]
    pub preference: &'static str,
}

/// Whether the search for a flavor goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FlavorSearch {
    Stop,
    Next,
}

model::words! {
    impl FlavorSearch {
        /// Name in the document.
        pub fn name(self) {
            Stop => "stop",
            Next => "next",
        }
    }
}

/// A queue or cohort with its rules; `Q` is how a quota is written.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct EngineQueue<Q> {
    /// Name, unlike every other; differs from `object` where two have one name.
    pub name: Name,
    /// Name of its object.
    pub object: Name,
    /// The parent queue or cohort.
    pub parent: Option<Name>,
    /// The queueing system that it belongs to.
    #[schemars(with = "System")]
    pub system: &'static str,
    /// False for a cohort.
    pub admits: bool,
    /// Weight among its siblings in fair sharing.
    #[schemars(range(min = 0))]
    pub weight: Decimal,
    /// Whether it is stopped.
    #[schemars(with = "QueueStop")]
    pub stopped: &'static str,
    /// Whether a workload that cannot start blocks those behind it.
    #[schemars(with = "QueueingStrategy")]
    pub strategy: &'static str,
    /// Which workloads its own may preempt.
    pub preemption: PreemptionCell,
    /// How long a workload that started is not preempted.
    pub left_alone: LeftAloneCell,
    /// When the search for a flavor ends.
    pub fungibility: FungibilityCell,
    /// True where the past usage of its LocalQueues decides who comes first: its workloads have no position.
    pub orders_by_usage: bool,
    /// Its quotas, by flavor and resource.
    pub quota: Vec<Q>,
}

/// A disruption budget with its pods.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct EngineBudget {
    /// Namespace of the budget and its pods.
    pub namespace: Name,
    /// Name of the PodDisruptionBudget.
    pub name: Name,
    /// Names of its pods.
    pub pods: Vec<Name>,
    /// Evictions that it allows now.
    pub disruptions_allowed: u32,
    /// Healthy pods that it keeps.
    pub desired_healthy: u32,
}

/// A pod without devices on a node that has some.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ResidentCell {
    /// Namespace of the pod.
    pub namespace: Name,
    /// Name of the pod.
    pub name: Name,
    /// Unique id; empty where it is not known.
    pub uid: Name,
    /// The node that it is on.
    pub node: Name,
    /// Kind of its controller: `DaemonSet`, `Node` for a static pod; empty where it has none.
    pub owner_kind: Name,
    /// Deletion timestamp, RFC 3339.
    #[schemars(with = "Option<Moment>")]
    pub deleted: Option<String>,
    /// CPU that it requests, thousandths of a core; 0 for one that a workload counts.
    pub cpu_milli: i64,
    /// Memory that it requests, bytes; 0 for one that a workload counts.
    pub memory_bytes: i64,
}

/// How long past jobs of one owner ran.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct RunsCell {
    /// What these jobs have in common.
    pub owner: Name,
    /// Number of these jobs.
    pub count: u32,
    /// 10th percentile of their run times, seconds.
    pub p10_seconds: Decimal,
    /// Median of their run times, seconds.
    pub p50_seconds: Decimal,
    /// 90th percentile of their run times, seconds.
    pub p90_seconds: Decimal,
}

/// Which workloads a route is for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct RouteMatch {
    /// Name of their queue; null for every queue.
    pub queue: Option<Name>,
    /// Labels that they have.
    pub label: BTreeMap<Name, Name>,
}

/// A flavor that a workload may run on.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ChoiceCell {
    /// Name of the flavor.
    pub flavor: Name,
    /// Speed: at 1.3 a workload finishes in 1/1.3 of the time.
    pub speed: Decimal,
}

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct OriginCell {
    /// What says the value.
    pub source: OptionSource,
    /// The object, or the file and line; for an assumed value the reason why it is unknown; null if no object or file states it.
    pub at: Option<Name>,
}

/// A route from the settings: which flavors workloads may run on.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct RouteCell {
    /// Which workloads it is for.
    #[serde(rename = "match")]
    pub matches: RouteMatch,
    /// Flavors that its workloads may use.
    pub flavors: Vec<ChoiceCell>,
    /// Highest price, USD per device-hour; null for no such bound.
    pub max_usd_per_device_hour: Option<f64>,
    /// Where the route came from.
    pub origin: OriginCell,
}

/// How deep backfill looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum BackfillCell {
    /// `none`: any job that fits starts; `head`: the first job of a queue is never delayed.
    Word(&'static str),
    /// So many jobs of a queue are never delayed.
    Depth(u16),
}

model::written_as!(
    BackfillCell,
    json_schema!({ "type": ["string", "integer"] })
);

/// Where the engine's options came from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct EngineOrigins {
    /// Where the placement policy came from.
    pub placement: OriginCell,
    /// Where the depth of backfill came from.
    pub backfill: OriginCell,
    /// Where the rules of fair sharing came from.
    pub fair_sharing: OriginCell,
}

/// Options of the engine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct EngineCell {
    /// Policy by which nodes are chosen.
    pub placement: &'static str,
    /// How deep backfill looks: `none`, `head`, or a number of jobs.
    pub backfill: BackfillCell,
    /// Strategies of preemption under fair sharing, in their order; null without fair sharing.
    #[schemars(with = "Option<Vec<FairStrategy>>")]
    pub fair_sharing: Option<Vec<&'static str>>,
    /// Up to so many candidates, the smallest set of victims is searched for exactly.
    pub exact_victims: u32,
    /// Most reservations at one time.
    pub most_reservations: u32,
    /// Where these values came from.
    pub origins: EngineOrigins,
}

/// Resource requests of one pod.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct RequestCell {
    /// CPU of one pod, thousandths of a core.
    pub cpu_milli: i64,
    /// Memory of one pod, bytes.
    pub memory_bytes: i64,
    /// Accelerators by resource name.
    pub devices: BTreeMap<Name, u32>,
}

/// One comparison of a node's label.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct RequirementCell {
    /// Key of the label.
    pub key: Name,
    /// How its value is compared.
    #[schemars(with = "model::fleet::siting::Operator")]
    pub operator: &'static str,
    /// Values to compare the label with.
    pub values: Vec<Name>,
}

/// A topology request of a pod set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct SetTopology {
    /// The level within which all pods are placed; empty where they may be anywhere in the topology of their flavor.
    pub level: Name,
    /// False where another level may be used as well.
    pub required: bool,
}

/// A device or slice that a pod holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct HeldCell {
    /// Index of the device on the node.
    pub device: u32,
    /// Slice; null for the device itself.
    pub slice: Option<Name>,
    /// The part that is held, in thousandths of the device.
    #[schemars(range(min = 1, max = 1000))]
    pub milli: i32,
}

/// A pod that is placed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct PlacementCell {
    /// Name of the pod.
    pub pod: Name,
    /// Unique id; empty where it is not known.
    pub uid: Name,
    /// Deletion timestamp, RFC 3339.
    #[schemars(with = "Option<Moment>")]
    pub deleted: Option<String>,
    /// When it started, RFC 3339.
    #[schemars(with = "Option<Moment>")]
    pub started: Option<String>,
    /// The node that it is on.
    pub node: Name,
    /// Devices or slices that the pod holds there.
    pub devices: Vec<HeldCell>,
}

/// A set of equal pods.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct WorkloadPods {
    /// Name of the set.
    pub name: Name,
    /// Number of pods that it requests.
    pub count: u32,
    /// Minimum number of pods; with fewer, none starts.
    pub min: u32,
    /// Part of a device that each pod requests, in thousandths; absent where it requests none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1, max = 1000))]
    pub milli: Option<i32>,
    /// Requests of one pod.
    pub requests: RequestCell,
    /// Labels that its nodes have.
    pub node_selector: BTreeMap<Name, Name>,
    /// Required node affinity: a node matches all comparisons of one of these terms.
    pub affinity: Vec<Vec<RequirementCell>>,
    /// Tolerations of its pods.
    pub tolerations: Vec<TolerationCell>,
    /// How close its pods must be placed.
    pub topology: Option<SetTopology>,
    /// Flavor by resource, where quota is reserved.
    pub admitted: BTreeMap<Name, Name>,
    /// Quota usage of each pod by resource, if its queueing system counts in resources of its own; if empty, the requests count.
    pub quota: BTreeMap<Name, Amount>,
    /// Its pods that are placed.
    pub placements: Vec<PlacementCell>,
}

/// Fields of a workload that may be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct LeversCell {
    /// True where it can be suspended.
    pub suspend: bool,
    /// True where its priority can be changed.
    pub reprioritise: bool,
    /// True where stopping it respects disruption budgets.
    pub honours_budgets: bool,
}

/// A further object of a workload in its queueing system.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct OtherObject {
    /// Name of the object.
    pub name: Name,
    /// Unique id of the object.
    pub uid: Name,
    /// Whether its system may admit it.
    pub active: bool,
    /// Whether quota is reserved for it.
    pub has_quota: bool,
}

/// The object of a workload in its queueing system.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct AdmissionObject {
    /// The queueing system that the object belongs to.
    #[schemars(with = "System")]
    pub system: &'static str,
    /// Name of the object.
    pub name: Name,
    /// Unique id of the object.
    pub uid: Name,
    /// The job's other objects in that system: a LeaderWorkerSet has a Workload for each of its groups.
    pub others: Vec<OtherObject>,
}

/// A workload as the engine sees it.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct WorkloadCell {
    /// Namespace of the workload.
    pub namespace: Name,
    /// Name of the workload.
    pub name: Name,
    /// Kind of the object, `Job`.
    pub kind: Name,
    /// Unique id; empty where it is not known.
    pub uid: Name,
    /// The queue that it is submitted to.
    pub queue: Option<Name>,
    /// The team that it counts for.
    pub team: Name,
    /// Its labels, which routes match.
    pub labels: BTreeMap<Name, Name>,
    /// Priority that orders it.
    pub priority: i32,
    /// Creation time, RFC 3339.
    #[schemars(with = "Moment")]
    pub created: String,
    /// State of the workload at this moment.
    #[schemars(with = "Status")]
    pub state: &'static str,
    /// Its sets of equal pods.
    pub pod_sets: Vec<WorkloadPods>,
    /// Flavors that it may run on; empty for those of its queue.
    pub flavors: Vec<ChoiceCell>,
    /// Estimated run time, seconds; null where there is no estimate.
    #[schemars(range(min = 0))]
    pub runtime_estimate_seconds: Option<Decimal>,
    /// What its past runs have in common with it.
    pub owner: Name,
    /// Its last checkpoint, RFC 3339; null where none is known.
    #[schemars(with = "Option<Moment>")]
    pub last_checkpoint: Option<String>,
    /// When it must be done, RFC 3339.
    #[schemars(with = "Option<Moment>")]
    pub deadline: Option<String>,
    /// False where it is never preempted.
    pub preemptible: bool,
    /// True where it never preempts others.
    pub never_preempts: bool,
    /// Its fields that may be changed.
    #[serde(rename = "levers")]
    pub mutations: LeversCell,
    /// Its object in its queueing system; null where it has none.
    pub admission: Option<AdmissionObject>,
    /// Why neither a queue nor the scheduler can start its pods; null where nothing blocks them. Such a job is not considered;
    /// quota that it has stays reserved.
    pub blocked: Option<Name>,
    /// True for a job whose pods run on another cluster: it has quota here and needs no node.
    pub elsewhere: bool,
    /// What decides about its start beside priority, quota and nodes, so that no start is forecast; null where nothing does.
    pub not_forecast: Option<Name>,
    /// When it was admitted, RFC 3339.
    #[schemars(with = "Option<Moment>")]
    pub admitted_at: Option<String>,
}

/// Everything but nodes and priority classes.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct SchedulingCells {
    /// Queues and cohorts with their quotas.
    pub queues: Vec<EngineQueue<EngineQuota>>,
    /// Flavors of capacity that quotas refer to.
    pub flavors: Vec<FlavorCell>,
    /// Topologies of node labels.
    pub topologies: Vec<LabelTopology>,
    /// Disruption budgets with their pods.
    pub budgets: Vec<EngineBudget>,
    /// Pods without devices on nodes that have some.
    pub residents: Vec<ResidentCell>,
    /// Run times of past jobs.
    pub runs: Vec<RunsCell>,
    /// Routes from the settings.
    pub routes: Vec<RouteCell>,
    /// Options of the engine.
    pub engine: EngineCell,
    /// Workloads as the engine sees them.
    pub workloads: Vec<WorkloadCell>,
    /// Kinds that the caller cannot see: nodes, queues, pods, other namespaces.
    pub not_visible: Vec<Name>,
}
