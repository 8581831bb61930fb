//! Observations: the only things that change a fleet. Sources emit them; the ledger folds them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey, SmallSort};

use super::admission::GroupSeen;
use super::budget::Budget;
use super::claim::{ClaimAsk, ClaimSeen, ClassSeen, SliceSeen, TemplateSeen};
use super::govern::GovernQueues;
use super::queue::{Door, Flavor, PriorityClass, Queue, Topology};
use super::reading::Page;
use super::scaling::{GroupsSeen, NodeClaim, PodScaler, Provision, ScaledObject, Scaler};
use super::scheduling::KueueConfig;
use super::siting::{PodSet, Siting};

pub use super::tables::Table;

/// One thing that a source saw.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Observation {
    /// A (re)list of a table begins: nothing is forgotten yet.
    Begin(Table),
    /// The (re)list is complete: what it did not mention has gone.
    End(Table),
    /// The table's source failed; its rows stay, aged.
    Lost(Table, Lost),
    /// The table's source answers again and has missed nothing: its rows are as good as live.
    Back(Table),
    /// The table does not exist on this cluster (its API group is not served): known to be empty.
    Absent(Table),
    /// Which namespaces the lists of pods cover from now on.
    Covers(Extent),
    /// A node as it is now.
    Node(Box<NodeSeen>),
    /// A pod as it is now.
    Pod(Box<PodSeen>),
    /// A workload as it is now.
    Workload(Box<WorkloadSeen>),
    /// A namespace and its labels as they are now.
    Namespace(Name, Labels),
    /// What a queueing system or a gang scheduler keeps of a job, as it is now.
    Group(Box<GroupSeen>),
    /// A queue or a cohort of this table as it is now, without its doors.
    Queue(Table, Box<Queue>),
    /// A door to a queue as it is now.
    Door(Box<Door>),
    /// A flavor as it is now.
    Flavor(Box<Flavor>),
    /// A topology as it is now.
    Topology(Box<Topology>),
    /// A disruption budget as it is now.
    Budget(Box<Budget>),
    /// A priority class as it is now.
    Priority(Box<PriorityClass>),
    /// Kueue's own configuration as it is now.
    KueueConfig(Box<KueueConfig>),
    /// The queues of `govern` as they are now.
    GovernQueues(Box<GovernQueues>),
    /// A slice of the devices that a driver publishes as it is now.
    Slice(Box<SliceSeen>),
    /// A claim on devices as it is now.
    Claim(Box<ClaimSeen>),
    /// A template of claims as it is now.
    ClaimTemplate(Box<TemplateSeen>),
    /// A class of devices as it is now.
    DeviceClass(Box<ClassSeen>),
    /// A NodePool as it is now.
    NodePool(Box<Scaler>),
    /// A node on its way, or there, as it is now.
    NodeClaim(Box<NodeClaim>),
    /// All node groups of a cluster autoscaler as they are now.
    NodeGroups(Box<GroupsSeen>),
    /// A request for capacity as it is now.
    Provision(Box<Provision>),
    /// A pod autoscaler as it is now.
    PodScaler(Box<PodScaler>),
    /// A ScaledObject of KEDA as it is now.
    ScaledObject(Box<ScaledObject>),
    /// The order in which a queue's pending work stands now: all of it.
    Pending(Box<Pending>),
    /// Nobody tells the order of pending work, or not to us: none will come for now.
    OrderNotTold,
    /// An object has gone; the key's namespace is empty for whatever lives in none.
    Gone(Table, ObjectKey),
    /// One page of readings.
    Page(Box<Page>),
    /// Readings of the past, for history alone.
    #[serde(skip)]
    Past(Box<Past>),
    /// How a source fares.
    Source(SourceHealth),
    /// Every exporter among the pods that were listed has been told of as a source.
    ExportersFound,
    /// The source of this name is no more (its exporter's pod has gone).
    SourceGone(Name),
    /// The server's clock minus this machine's, in milliseconds.
    Skew(i64),
}

/// Readings of the past.
#[derive(Clone, PartialEq, Debug)]
pub struct Past {
    /// Pages of devices, each of one moment.
    pub pages: Vec<Page>,
    /// How long each stands for, from its moment on.
    pub step: std::time::Duration,
    /// Nothing more will come.
    pub last: bool,
}

/// The order of a queue's pending work, as its system tells it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pending {
    /// The queue.
    pub queue: Name,
    /// Workload, its place in the queue and its place at its door, from 0.
    pub rows: Vec<(ObjectKey, u32, u32)>,
}

/// Which namespaces are listed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Extent {
    /// All of them.
    #[default]
    All,
    /// These, as the operator chose.
    Chosen(Arc<[Name]>),
    /// These: the others are refused to us.
    Only(Arc<[Name]>),
}

impl Extent {
    /// The namespaces, where they are not all.
    pub fn namespaces(&self) -> Option<&[Name]> {
        match self {
            Self::All => None,
            Self::Chosen(names) | Self::Only(names) => Some(names),
        }
    }
}

/// Why a table's source is lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum LostKind {
    /// The server knows us and refuses: 403.
    Rights,
    /// The server does not know us: 401, or the login failed.
    Login,
    /// Nobody answers, or with nonsense.
    Unreachable,
}

/// A lost source, in words that name the mend.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lost {
    /// Rights or reach: decides exit code 3 or 4.
    pub kind: LostKind,
    /// When it was lost.
    pub since: Moment,
    /// What failed, where, and the mend.
    pub message: String,
}

/// Labels or annotations, sorted by key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(Name, Name)>")]
pub struct Labels(Box<[(Name, Name)]>);

impl Labels {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Name> {
        self.0
            .binary_search_by(|(known, _)| known.as_str().cmp(key))
            .ok()
            .map(|at| &self.0[at].1)
    }

    /// The value of the first key that is present and not empty.
    pub fn first<'a>(&self, keys: impl IntoIterator<Item = &'a str>) -> Option<&Name> {
        keys.into_iter()
            .find_map(|key| self.get(key).filter(|value| !value.is_empty()))
    }

    /// Keys and values in key order.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Name)> + '_ {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Sorted anew: a file may say anything.
impl From<Vec<(Name, Name)>> for Labels {
    fn from(pairs: Vec<(Name, Name)>) -> Self {
        pairs.into_iter().collect()
    }
}

impl FromIterator<(Name, Name)> for Labels {
    fn from_iter<I: IntoIterator<Item = (Name, Name)>>(pairs: I) -> Self {
        let mut all: Vec<(Name, Name)> = pairs.into_iter().collect();
        all.small_sort();
        all.dedup_by(|later, first| later.0 == first.0);
        Self(all.into_boxed_slice())
    }
}

/// Amounts of what a node has or a pod asks for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// CPU in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
    /// Accelerators by extended-resource name (`nvidia.com/gpu`), sorted, zeros left in.
    pub devices: Box<[(Name, u32)]>,
    /// What is asked for by claim, and how often; the ledger adds the devices that it comes to.
    pub claims: Box<[(ClaimAsk, u32)]>,
}

impl Resources {
    /// True when it is about devices, or may be: a claim says elsewhere what it asks for.
    pub fn wants_devices(&self) -> bool {
        self.device_count() > 0 || !self.claims.is_empty()
    }

    /// All accelerators together, whatever their resource name.
    pub fn device_count(&self) -> u32 {
        self.devices
            .iter()
            .fold(0, |sum, (_, count)| u32::saturating_add(sum, *count))
    }

    /// The count of one resource; `None` when it is not mentioned.
    pub fn device(&self, resource: &str) -> Option<u32> {
        self.devices
            .iter()
            .find(|(name, _)| &**name == resource)
            .map(|(_, count)| *count)
    }
}

/// A status condition of an object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Condition {
    /// Its type, `Ready` say.
    pub kind: Name,
    /// True, False, or `None` for Unknown.
    pub status: Option<bool>,
    /// A word for programs.
    pub reason: Name,
    /// A sentence for people.
    pub message: Name,
    /// When the status last changed.
    pub since: Option<Moment>,
}

/// A node's taint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Taint {
    /// Key.
    pub key: Name,
    /// Value, may be empty.
    pub value: Name,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: Name,
    /// When it was added, where the API says so.
    pub since: Option<Moment>,
}

/// A node, projected.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSeen {
    /// Name.
    pub name: Name,
    /// Unique id of this incarnation.
    pub uid: Name,
    /// Every label.
    pub labels: Labels,
    /// Annotations that we know how to read (cordon marks).
    pub annotations: Labels,
    /// The cloud's id of the machine.
    pub provider_id: Option<Name>,
    /// Cordoned.
    pub unschedulable: bool,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Conditions.
    pub conditions: Vec<Condition>,
    /// What the machine has.
    pub capacity: Resources,
    /// What pods may ask for.
    pub allocatable: Resources,
    /// When it joined.
    pub created: Moment,
}

/// A controller reference.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct OwnerRef {
    /// Kind, `Job` say.
    pub kind: Name,
    /// Name, in the same namespace.
    pub name: Name,
    /// Unique id.
    pub uid: Name,
}

/// A pod's phase.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Phase {
    /// Accepted, not all containers run.
    #[default]
    Pending,
    /// Bound, at least one container runs.
    Running,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// The node cannot be asked.
    Unknown,
}

impl Phase {
    /// True once no container will run again: its devices are free.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Why something stopped.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// Exit code of the container that ended last.
    pub exit_code: Option<i32>,
    /// `OOMKilled`, `Error`, `Evicted`, … with the message where there is one.
    pub message: Name,
    /// Restarts in all.
    pub restarts: u32,
    /// When and why a pod was last evicted.
    pub last_eviction: Option<Moment>,
    /// When what failed last began to run again: the failure is over. `None` while it stands.
    pub restarted: Option<Moment>,
    /// Behind its first colon the message holds what the container itself wrote last, which may be the end of its log.
    pub own_words: bool,
}

/// A device that the API itself says a pod holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Claimed {
    /// By the device plugin's id, from `status.containerStatuses[].allocatedResourcesStatus`.
    Id(Name),
    /// By a DRA claim: driver, pool, device.
    Claim(Name, Name, Name),
}

/// A pod, projected.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodSeen {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique id of this incarnation.
    pub uid: Name,
    /// The node it is bound to.
    pub node: Option<Name>,
    /// Phase.
    pub phase: Phase,
    /// Labels; kept only for pods that ask for devices or serve readings.
    pub labels: Labels,
    /// Annotations that we know how to read.
    pub annotations: Labels,
    /// Its controller.
    pub owner: Option<OwnerRef>,
    /// What it asks for (the larger of init and main containers, plus overhead).
    pub requests: Resources,
    /// Resolved priority.
    pub priority: i32,
    /// When it was made.
    pub created: Moment,
    /// When it was bound to its node.
    pub scheduled: Option<Moment>,
    /// When its containers first ran.
    pub started: Option<Moment>,
    /// When it was told to end; it holds its devices until it has gone.
    pub deleted: Option<Moment>,
    /// All containers ready.
    pub ready: bool,
    /// Why the scheduler has not placed it: reason and message.
    pub unschedulable: Option<(Name, Name)>,
    /// Node selector.
    pub node_selector: Labels,
    /// Where else it may go, and what holds it back; `None` when it says nothing of the kind.
    pub siting: Option<Arc<Siting>>,
    /// Why it failed or restarts.
    pub failure: Option<Failure>,
    /// Devices that the API says it holds.
    pub claimed: Vec<Claimed>,
    /// The claims in its namespace that it uses.
    pub claims: Box<[Name]>,
    /// Resources that it asks for and that a claim serves: it gets them once.
    pub by_claim: Box<[Name]>,
    /// Its address.
    pub ip: Option<Name>,
}

/// A workload controller, projected: what a team calls its job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WorkloadSeen {
    /// The table it was listed in.
    pub table: Table,
    /// Kind, `JobSet` say.
    pub kind: Name,
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique id of this incarnation.
    pub uid: Name,
    /// Labels.
    pub labels: Labels,
    /// Annotations that we know how to read.
    pub annotations: Labels,
    /// Its own controller: the next link of the chain.
    pub owner: Option<OwnerRef>,
    /// When it was made.
    pub created: Moment,
    /// Held by `spec.suspend`.
    pub suspended: bool,
    /// Pods it wants at the same time.
    pub pods: u32,
    /// Pods that must run together or not at all; `None` when pods are independent.
    pub gang_min: Option<u32>,
    /// What one pod asks for (of the largest pod set).
    pub per_pod: Resources,
    /// What all its pods ask for together.
    pub total: Resources,
    /// Node selector of its largest pod set.
    pub node_selector: Labels,
    /// Name of the priority class.
    pub priority_class: Option<Name>,
    /// Conditions.
    pub conditions: Vec<Condition>,
    /// When it was told to end.
    pub deleted: Option<Moment>,
    /// When it first ran.
    pub started: Option<Moment>,
    /// When it ended.
    pub finished: Option<Moment>,
    /// It ended well (true), badly (false), or has not ended.
    pub outcome: Option<bool>,
    /// Pods that failed.
    pub failed_pods: u32,
    /// Its pods, set by set; none when it does not say.
    pub pod_sets: Arc<[PodSet]>,
    /// How long it may run at most, seconds.
    pub time_limit: Option<u64>,
    /// The controller that manages it, where it names another than its kind's own (`spec.managedBy`).
    #[serde(default)]
    pub managed_by: Option<Name>,
    /// The scheduler of its pods, where its template names one.
    #[serde(default)]
    pub scheduler: Option<Name>,
    /// Pods that ended well and are not made again, of those that [`Self::pods`] counts.
    #[serde(default)]
    pub succeeded_pods: u32,
    /// How often its spec was changed, from 1 (`metadata.generation`); 0 where it does not say.
    #[serde(default)]
    pub generation: i64,
}

/// How fresh a source is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum SourceState {
    /// Refuses us, and always has: a matter of rights, not a failure.
    NotVisible,
    /// Answers in time.
    Live,
    /// Has been silent for longer than it should.
    Stale,
    /// Fails.
    Lost,
}

/// How a source fares.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SourceHealth {
    /// Its own name: `api pods`, `dcgm gpu-operator/nvidia-dcgm-exporter-x7`.
    pub name: Name,
    /// `kubernetes`, or the dialect's name.
    pub kind: Name,
    /// State as the source sees itself; the ledger may age it to stale.
    pub state: SourceState,
    /// The node that it is on or speaks of, where it is one node's.
    pub node: Option<Name>,
    /// Its first failure after its last good answer; `None` while it answers or where that is not known.
    pub failing_since: Option<Moment>,
    /// The last failures that ended: the first of them, and the good answer after; `None` where none did under our eyes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outage: Option<(Moment, Moment)>,
    /// When it last answered well.
    pub last_ok: Option<Moment>,
    /// How long it may be silent before it is stale.
    pub patience: std::time::Duration,
    /// How long its last answer took, milliseconds.
    pub latency_ms: Option<u32>,
    /// Failures since the start.
    pub errors: u64,
    /// Series turned into readings in the last page.
    pub series_used: Option<u32>,
    /// Series or lines that were not.
    pub series_skipped: Option<u32>,
    /// Requests sent in the last minute.
    pub calls_per_minute: Option<u32>,
    /// What is wrong and the mend; empty when all is well.
    pub message: String,
}

impl SourceState {
    /// As in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotVisible => "not-visible",
            Self::Live => "live",
            Self::Stale => "stale",
            Self::Lost => "lost",
        }
    }
}

impl SourceHealth {
    /// True for an exporter, and for Prometheus in exporters' stead.
    pub fn gives_readings(&self) -> bool {
        self.kind.as_str() != "kubernetes"
    }

    /// True once it has answered, or has failed to.
    pub fn has_spoken(&self) -> bool {
        self.last_ok.is_some() || self.state == SourceState::Lost
    }
}
