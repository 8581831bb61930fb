//! Observations: the only input that changes a fleet. Sources emit them; the ledger folds them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey, SmallSort};

use super::admission::GroupSeen;
use super::budget::Budget;
use super::claim::{ClaimAsk, ClaimSeen, ClassSeen, Consumed, SliceSeen, TemplateSeen};
use super::govern::GovernQueues;
use super::queue::{Door, Flavor, PriorityClass, Queue, Topology};
use super::reading::Page;
use super::run_hold::OpenRun;
use super::scaling::{GroupsSeen, NodeClaim, PodScaler, Provision, ScaledObject, Scaler};
use super::scheduling::KueueConfig;
use super::siting::{PodSet, Siting};
pub use super::tables::Table;

/// One observation of a source.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Observation {
    /// A (re)list of a table begins; no rows are removed yet.
    Begin(Table),
    /// The (re)list is complete: rows that it did not contain are removed.
    End(Table),
    /// The table's source failed; its rows stay and age.
    Lost(Table, Lost),
    /// The table's source answers again without a missed event: its rows are live.
    Back(Table),
    /// The table does not exist on this cluster (its API group is not served): known to be empty.
    Absent(Table),
    /// Namespaces that the lists of pods cover from now on.
    Covers(ListedNamespaces),
    /// A node was added or updated.
    Node(Box<NodeSeen>),
    /// A pod was added or updated.
    Pod(Box<PodSeen>),
    /// A workload was added or updated.
    Workload(Box<WorkloadSeen>),
    /// A namespace or its labels were added or updated.
    Namespace(Name, Labels),
    /// A Workload or PodGroup of a queueing system or gang scheduler was added or updated.
    Group(Box<GroupSeen>),
    /// A queue or cohort of this table was added or updated, without its LocalQueues.
    Queue(Table, Box<Queue>),
    /// A LocalQueue was added or updated.
    Door(Box<Door>),
    /// A flavor was added or updated.
    Flavor(Box<Flavor>),
    /// A topology was added or updated.
    Topology(Box<Topology>),
    /// A disruption budget was added or updated.
    Budget(Box<Budget>),
    /// A priority class was added or updated.
    Priority(Box<PriorityClass>),
    /// Kueue's configuration was read.
    KueueConfig(Box<KueueConfig>),
    /// The queues of `govern` were read.
    GovernQueues(Box<GovernQueues>),
    /// A ResourceSlice was added or updated.
    Slice(Box<SliceSeen>),
    /// A ResourceClaim was added or updated.
    Claim(Box<ClaimSeen>),
    /// A ResourceClaimTemplate was added or updated.
    ClaimTemplate(Box<TemplateSeen>),
    /// A DeviceClass was added or updated.
    DeviceClass(Box<ClassSeen>),
    /// A NodePool was added or updated.
    NodePool(Box<Scaler>),
    /// A NodeClaim was added or updated.
    NodeClaim(Box<NodeClaim>),
    /// An event of a NodeClaim without capacity was added or updated.
    LaunchFailure(Box<super::launch_failure::LaunchFailure>),
    /// All node groups of a cluster autoscaler.
    NodeGroups(Box<GroupsSeen>),
    /// A ProvisioningRequest was added or updated.
    Provision(Box<Provision>),
    /// A HorizontalPodAutoscaler was added or updated.
    PodScaler(Box<PodScaler>),
    /// A KEDA ScaledObject was added or updated.
    ScaledObject(Box<ScaledObject>),
    /// The complete order of a queue's pending workloads.
    Pending(Box<Pending>),
    /// No source gives the order of pending workloads, or access to it is forbidden.
    OrderNotTold,
    /// An object was deleted; the key's namespace is empty for a cluster-scoped object.
    Gone(Table, ObjectKey),
    /// One page of readings.
    Page(Box<Page>),
    /// All runs of this machine that have left jobs suspended.
    #[serde(skip)]
    OpenRuns(Arc<[OpenRun]>),
    /// Past readings, for the history only.
    #[serde(skip)]
    Past(Box<Past>),
    /// Past readings show these devices idle for longer than is known.
    IdleBefore(Box<[super::idle::IdleBefore]>),
    /// Health of a source.
    Source(SourceHealth),
    /// Every exporter among the listed pods has been reported as a source.
    ExportersFound,
    /// The source of this name was removed (its exporter's pod was deleted).
    SourceGone(Name),
    /// Server clock minus local clock, milliseconds.
    Skew(i64),
}

/// Past readings.
#[derive(Clone, PartialEq, Debug)]
pub struct Past {
    /// Pages of devices, each with one timestamp.
    pub pages: Vec<Page>,
    /// Time that each page is valid for, from its timestamp.
    pub step: std::time::Duration,
    /// True for the last message.
    pub last: bool,
}

/// The order of a queue's pending workloads, from its queueing system.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pending {
    /// The queue.
    pub queue: Name,
    /// Workload, position in the queue, and position in its LocalQueue, from 0.
    pub rows: Vec<(ObjectKey, u32, u32)>,
}

/// The listed namespaces.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum ListedNamespaces {
    /// All namespaces.
    #[default]
    All,
    /// The namespaces that the operator chose.
    Chosen(Arc<[Name]>),
    /// Those of the chosen namespaces that our permissions allow; the others of them are forbidden.
    Only(Arc<[Name]>),
    /// One namespace, because listing all is forbidden. Which others may be read is not known: none was tried.
    Fallback {
        /// The namespace.
        namespace: Name,
        /// True for the namespace of the context, false for the first of the settings.
        of_context: bool,
    },
}

/// Why a table's source is lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum LostKind {
    /// Forbidden: 403.
    Rights,
    /// Unauthorized: 401, or the login failed.
    Login,
    /// No answer, or an invalid one.
    Unreachable,
}

/// A lost source, with a message that names the repair.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lost {
    /// The cause; it selects exit code 3 or 4.
    pub kind: LostKind,
    /// Time of the loss.
    pub since: Moment,
    /// What failed, where, and the repair.
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

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Sorts again: a file may have any order.
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

/// Resources of a node, or requests of a pod.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// CPU in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
    /// Accelerators by extended-resource name (`nvidia.com/gpu`), sorted; zeros are kept.
    pub devices: Box<[(Name, u32)]>,
    /// Requests by resource claim, with their count; the ledger adds the devices of the claims.
    pub claims: Box<[(ClaimAsk, u32)]>,
    /// The part of each device that is requested; `None` for whole devices.
    pub part: Option<DevicePart>,
}

/// A part of a device, as a scheduler that shares devices is asked for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum DevicePart {
    /// Thousandths of a device, 1 to 1000.
    Milli(u32),
    /// MiB of its memory.
    MemoryMib(u64),
}

/// What a scheduler's placeholder pod holds a device for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reserved {
    /// The group of pods that share the device.
    pub group: Name,
    /// Index or id of the device, where it is known.
    pub device: Option<Name>,
}

impl Resources {
    /// True when devices are requested, or may be: a claim lists its devices elsewhere.
    pub fn wants_devices(&self) -> bool {
        self.device_count() > 0 || !self.claims.is_empty()
    }

    /// All accelerators, whatever their resource name.
    pub fn device_count(&self) -> u32 {
        self.devices
            .iter()
            .fold(0, |sum, (_, count)| u32::saturating_add(sum, *count))
    }

    /// The count of one resource; `None` when it is absent.
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
    /// Type, such as `Ready`.
    pub kind: Name,
    /// True, false, or `None` for Unknown.
    pub status: Option<bool>,
    /// Reason code.
    pub reason: Name,
    /// Message.
    pub message: Name,
    /// Last transition time.
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

/// The fields of a Node that the ledger uses.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSeen {
    /// Name.
    pub name: Name,
    /// Uid.
    pub uid: Name,
    /// Every label.
    pub labels: Labels,
    /// Annotations that we read (cordon marks).
    pub annotations: Labels,
    /// The cloud provider's id of the machine.
    pub provider_id: Option<Name>,
    /// Cordoned.
    pub unschedulable: bool,
    /// Taints.
    pub taints: Vec<Taint>,
    /// Conditions.
    pub conditions: Vec<Condition>,
    /// Capacity of the machine.
    pub capacity: Resources,
    /// Allocatable resources.
    pub allocatable: Resources,
    /// Creation time.
    pub created: Moment,
}

/// A controller reference.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct OwnerRef {
    /// Kind, such as `Job`.
    pub kind: Name,
    /// Name, in the same namespace.
    pub name: Name,
    /// Unique id.
    pub uid: Name,
}

/// A pod's phase.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Phase {
    /// Accepted; not all containers are running.
    #[default]
    Pending,
    /// Scheduled; at least one container is running.
    Running,
    /// Succeeded.
    Succeeded,
    /// Failed.
    Failed,
    /// The node does not answer.
    Unknown,
}

impl Phase {
    /// True once no container runs again: its devices are free.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Why a workload stopped.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkloadFailure {
    /// Exit code of the last terminated container.
    pub exit_code: Option<i32>,
    /// `OOMKilled`, `Error`, `Evicted`, … with the message where there is one.
    pub message: Name,
    /// Restarts in total.
    pub restarts: u32,
    /// Time of the last eviction of a pod.
    pub last_eviction: Option<Moment>,
    /// Time of the restart that ended the failure; `None` while it lasts.
    pub restarted: Option<Moment>,
    /// True when the message after its first colon is the container's own last output, which may be the end of its log.
    pub own_words: bool,
}

/// A device that the API reports as allocated to a pod.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Claimed {
    /// By the device plugin's id, from `status.containerStatuses[].allocatedResourcesStatus`.
    Id(Name),
    /// By a DRA claim: driver, pool, device.
    Claim(Name, Name, Name),
}

/// A part of a device that a pod has by a DRA claim.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClaimedPart {
    /// Driver, pool and name of the device.
    pub device: (Name, Name, Name),
    /// What the claim consumes of it.
    pub consumed: Consumed,
}

/// Whether the annotation of this key lists a pod's devices as HAMi allocated them: `UUID,TYPE,MIB,CORES:` each, `;` after a container.
pub fn is_hami_allocation(key: &str) -> bool {
    key.starts_with("hami.io/") && key.ends_with("-devices-allocated")
}

/// The fields of a Pod that the ledger uses.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodSeen {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Uid.
    pub uid: Name,
    /// The node that it is scheduled on.
    pub node: Option<Name>,
    /// Phase.
    pub phase: Phase,
    /// Labels; kept only for pods that request devices or serve readings.
    pub labels: Labels,
    /// Annotations that we read.
    pub annotations: Labels,
    /// Its controller.
    pub owner: Option<OwnerRef>,
    /// Requests (the larger of init and main containers, plus overhead).
    pub requests: Resources,
    /// Resolved priority.
    pub priority: i32,
    /// Creation time.
    pub created: Moment,
    /// When it was scheduled.
    pub scheduled: Option<Moment>,
    /// When its containers first started.
    pub started: Option<Moment>,
    /// Deletion timestamp; its devices stay allocated until it is gone.
    pub deleted: Option<Moment>,
    /// True when all containers are ready.
    pub ready: bool,
    /// Reason and message of the scheduler while it is unschedulable.
    pub unschedulable: Option<(Name, Name)>,
    /// Node selector.
    pub node_selector: Labels,
    /// Other scheduling constraints and gates; `None` when it has none.
    pub siting: Option<Arc<Siting>>,
    /// Why it failed or is restarting.
    pub failure: Option<WorkloadFailure>,
    /// Devices that the API reports as allocated to it.
    pub claimed: Vec<Claimed>,
    /// Its parts of devices that several claims share. Empty in a pod as it is read: the claims say it.
    pub parts: Vec<ClaimedPart>,
    /// The resource claims that it uses, in its namespace.
    pub claims: Box<[Name]>,
    /// Requested resources that a claim serves; they count once.
    pub by_claim: Box<[Name]>,
    /// IP address.
    pub ip: Option<Name>,
    /// Set for a placeholder that holds a device for pods that share it: the device is not its own.
    pub reserves: Option<Box<Reserved>>,
}

/// The fields of a workload controller that the ledger uses.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WorkloadSeen {
    /// The table it was listed in.
    pub table: Table,
    /// Kind, such as `JobSet`.
    pub kind: Name,
    /// Namespace and name.
    pub key: ObjectKey,
    /// Uid.
    pub uid: Name,
    /// Labels.
    pub labels: Labels,
    /// Annotations that we read.
    pub annotations: Labels,
    /// Its controller: the next link of the owner chain.
    pub owner: Option<OwnerRef>,
    /// Creation time.
    pub created: Moment,
    /// True for `spec.suspend`.
    pub suspended: bool,
    /// Number of pods that run in parallel.
    pub pods: u32,
    /// Minimum number of pods that must run together; `None` when pods are independent.
    pub gang_min: Option<u32>,
    /// Requests of one pod (of the largest pod set).
    pub per_pod: Resources,
    /// Requests of all its pods.
    pub total: Resources,
    /// Node selector of its largest pod set.
    pub node_selector: Labels,
    /// Name of the priority class.
    pub priority_class: Option<Name>,
    /// Conditions.
    pub conditions: Vec<Condition>,
    /// Deletion timestamp.
    pub deleted: Option<Moment>,
    /// First start.
    pub started: Option<Moment>,
    /// Completion time.
    pub finished: Option<Moment>,
    /// True when it succeeded, false when it failed, `None` before its end.
    pub outcome: Option<bool>,
    /// Failed pods.
    pub failed_pods: u32,
    /// Its pod sets; empty when its spec has none.
    pub pod_sets: Arc<[PodSet]>,
    /// Maximum runtime, seconds.
    pub time_limit: Option<u64>,
    /// The controller that manages it, when it is not its kind's own (`spec.managedBy`).
    #[serde(default)]
    pub managed_by: Option<Name>,
    /// The scheduler of its pods, where its template sets one.
    #[serde(default)]
    pub scheduler: Option<Name>,
    /// Pods of [`Self::pods`] that succeeded and are not replaced.
    #[serde(default)]
    pub succeeded_pods: u32,
    /// How often its controller has created all of its pods again after a failure.
    #[serde(default)]
    pub restarts: u32,
    /// `metadata.generation`, from 1; 0 where absent.
    #[serde(default)]
    pub generation: i64,
}

/// Freshness of a source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum SourceState {
    /// Access was always forbidden: missing permissions, not a failure.
    NotVisible,
    /// Answers in time.
    Live,
    /// No answer for longer than `patience`.
    Stale,
    /// Fails.
    Lost,
}

/// Health of a source.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SourceHealth {
    /// Name: `api pods`, `dcgm gpu-operator/nvidia-dcgm-exporter-x7`.
    pub name: Name,
    /// `kubernetes`, or the name of the dialect.
    pub kind: Name,
    /// State that the source reports; the ledger may age it to stale.
    pub state: SourceState,
    /// The node that it runs on or describes, for a source of one node.
    pub node: Option<Name>,
    /// First failure after its last successful answer; `None` while it answers or where not known.
    pub failing_since: Option<Moment>,
    /// Start and end of the last outage; `None` where none ended while we watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outage: Option<(Moment, Moment)>,
    /// Last successful answer.
    pub last_ok: Option<Moment>,
    /// Time without an answer after which it is stale.
    pub patience: std::time::Duration,
    /// Latency of its last answer, milliseconds.
    pub latency_ms: Option<u32>,
    /// Failures since the start.
    pub errors: u64,
    /// Series turned into readings in the last page.
    pub series_used: Option<u32>,
    /// Series or lines that were skipped.
    pub series_skipped: Option<u32>,
    /// Requests sent in the last minute.
    pub calls_per_minute: Option<u32>,
    /// Error and repair; empty when it is healthy.
    pub message: String,
}

crate::words! {
    impl SourceState {
        /// Name in the JSON contract.
        pub fn name(self) {
            NotVisible => "not-visible",
            Live => "live",
            Stale => "stale",
            Lost => "lost",
        }
    }
}

impl SourceHealth {
    /// True for an exporter, and for Prometheus in place of exporters.
    pub fn gives_readings(&self) -> bool {
        self.kind.as_str() != "kubernetes"
    }

    /// True once it has answered or failed.
    pub fn has_spoken(&self) -> bool {
        self.last_ok.is_some() || self.state == SourceState::Lost
    }
}
