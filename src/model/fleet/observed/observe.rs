//! Observations: the only input that changes a fleet. Sources emit them; the ledger folds them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey};

use super::claim::{ClaimSeen, ClassSeen, SliceSeen, TemplateSeen};
use super::reading::Page;
use super::skipped_series::SkippedSeries;
use super::source_errors::SourceError;
use crate::fleet::idle::IdleBefore;
use crate::fleet::launch_failure::LaunchFailure;
use crate::fleet::queueing::admission::GroupSeen;
use crate::fleet::queueing::budget::PodDisruptionBudget;
use crate::fleet::queueing::govern::GovernQueues;
use crate::fleet::queueing::queue::{Door, Flavor, PriorityClass, Queue, Topology};
use crate::fleet::queueing::run_hold::OpenRun;
use crate::fleet::queueing::scheduling::KueueConfig;
use crate::fleet::scaling::{GroupsSeen, NodeClaim, PodScaler, Provision, ScaledObject, Scaler};

// What an observation is made of, for those who make one.
pub use super::condition::Condition;
pub use super::kinds::Table;
pub use super::object_parts::{
    DevicePart, Labels, OwnerRef, Phase, Reserved, Resources, Taint, WorkloadFailure,
};
pub use super::seen::{Claimed, ClaimedPart, NodeSeen, PodSeen, WorkloadSeen, is_hami_allocation};

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
    Budget(Box<PodDisruptionBudget>),
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
    LaunchFailure(Box<LaunchFailure>),
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
    Past(Box<PastPages>),
    /// Past readings show these devices idle for longer than is known.
    IdleBefore(Box<[IdleBefore]>),
    Source(SourceHealth),
    /// Every exporter among the listed pods has been reported as a source.
    ExportersFound,
    /// The source of this name was removed (its exporter's pod was deleted).
    SourceGone(Name),
    /// Server clock minus local clock, milliseconds.
    Skew(i64),
}

#[derive(Clone, PartialEq, Debug)]
pub struct PastPages {
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
    pub queue: Name,
    /// Workload, position in the queue, and position in its LocalQueue, from 0.
    pub rows: Vec<(ObjectKey, u32, u32)>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum ListedNamespaces {
    #[default]
    All,
    /// The namespaces that the operator chose.
    Chosen(Arc<[Name]>),
    /// Those of the chosen namespaces that our permissions allow; the others of them are forbidden.
    Only(Arc<[Name]>),
    /// One namespace, because listing all is forbidden. Which others may be read is not known: none was tried.
    Fallback {
        namespace: Name,
        /// True for the namespace of the context, false for the first of the settings.
        of_context: bool,
    },
}

/// Why a table's source is lost.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum LostKind {
    /// 403 Forbidden: the user may not list the table.
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

/// Freshness of a source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum SourceState {
    /// Access was always forbidden: missing permissions, not a failure.
    NotVisible,
    Live,
    /// No answer for longer than `patience`.
    Stale,
    Lost,
}

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
    pub last_ok: Option<Moment>,
    /// Time without an answer after which it is stale.
    pub patience: std::time::Duration,
    /// Latency of its last answer, milliseconds.
    pub latency_ms: Option<u32>,
    /// Failures since the start.
    pub errors: u64,
    /// The last of these failures, newest first: [`SourceError::KEPT`] at most.
    #[serde(default, skip_serializing_if = "<[SourceError]>::is_empty")]
    pub last_errors: Arc<[SourceError]>,
    /// Series turned into readings in the last page.
    pub series_used: Option<u32>,
    /// Series or lines that were skipped.
    pub series_skipped: Option<u32>,
    /// The metrics of these series, those with the most series first: [`SkippedSeries::MOST`] at most.
    #[serde(default, skip_serializing_if = "<[SkippedSeries]>::is_empty")]
    pub skipped: Arc<[SkippedSeries]>,
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
    /// A source of which nothing else is known yet: no answer, no error, no message.
    pub fn new(name: Name, kind: Name, state: SourceState, patience: std::time::Duration) -> Self {
        Self {
            name,
            kind,
            state,
            node: None,
            failing_since: None,
            last_outage: None,
            last_ok: None,
            patience,
            latency_ms: None,
            errors: 0,
            last_errors: Arc::default(),
            series_used: None,
            series_skipped: None,
            skipped: Arc::default(),
            calls_per_minute: None,
            message: String::new(),
        }
    }

    /// True for an exporter, and for Prometheus in place of exporters.
    pub fn gives_readings(&self) -> bool {
        self.kind.as_str() != "kubernetes"
    }

    /// True once it has answered or failed.
    pub fn has_spoken(&self) -> bool {
        self.last_ok.is_some() || self.state == SourceState::Lost
    }
}
