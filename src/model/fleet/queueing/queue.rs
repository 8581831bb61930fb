//! Queues, quotas and policies in one form for all systems: Kueue ClusterQueues and Cohorts, Volcano and KAI queues, and
//! Stokehold's own.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey};

use super::siting::Toleration;
use crate::fleet::observed::object_parts::{Labels, Taint};

/// The system that a queue, a Workload or a PodGroup belongs to.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum QueueSystem {
    Kueue,
    Volcano,
    Kai,
    Stokehold,
    /// No known system: a label alone, or Kubernetes' own gangs, which have no queues.
    #[default]
    None,
}

crate::words! {
    impl QueueSystem {
        /// Name in the JSON contract.
        pub fn name(self) {
            Kueue => "kueue",
            Volcano => "volcano",
            Kai => "kai",
            Stokehold => "stokehold",
            None => "none",
        }
    }
}

impl QueueSystem {
    /// Its name in its own spelling.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Kueue => "Kueue",
            Self::Volcano => "Volcano",
            Self::Kai => "KAI",
            Self::Stokehold => "Stokehold",
            Self::None => "Kubernetes",
        }
    }

    /// Kind of the API object of its queues.
    pub const fn object_kind(self) -> &'static str {
        match self {
            Self::Kueue => "ClusterQueue",
            Self::Volcano | Self::Kai | Self::Stokehold | Self::None => "Queue",
        }
    }

    /// The system that this queue label belongs to.
    pub fn of_label(key: &str) -> Self {
        match key.split_once('/').map_or("", |(domain, _)| domain) {
            "kueue.x-k8s.io" => Self::Kueue,
            "kai.scheduler" | "runai" => Self::Kai,
            "volcano.sh" | "scheduling.volcano.sh" => Self::Volcano,
            "stokehold.dev" => Self::Stokehold,
            _ => Self::None,
        }
    }
}

/// Kind of a node in the queue tree.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum QueueKind {
    /// A group of queues that share quota (Kueue's Cohort); no job waits in it.
    Cohort,
    #[default]
    Queue,
}

crate::words! {
    impl QueueKind {
        /// Name in the fleet document.
        pub fn name(self) {
            Cohort => "cohort",
            Queue => "queue",
        }
    }
}

/// Key of a queue: a cohort and a queue may share a name, and so may two systems' queues.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueKey {
    pub system: QueueSystem,
    pub kind: QueueKind,
    pub name: Name,
}

impl fmt::Display for QueueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.name, f)
    }
}

/// Whether a queue admits workloads.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Stop {
    #[default]
    None,
    /// It admits none; running ones continue.
    Hold,
    /// It admits none; running ones are evicted.
    Drain,
}

crate::words! {
    impl Stop {
        /// Name in the fleet document.
        pub fn name(self) {
            None => "none",
            Hold => "hold",
            Drain => "drain",
        }
    }
}

/// Queueing strategy when the first workload does not fit.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Strategy {
    /// All workloads behind it wait.
    Strict,
    /// Workloads behind it that fit may be admitted.
    #[default]
    BestEffort,
}

impl Strategy {
    /// Name in the fleet document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::BestEffort => "best-effort",
        }
    }
}

/// Which workloads of its own queue a workload may preempt.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Within {
    #[default]
    Never,
    LowerPriority,
    /// Lower priorities, and newer workloads of equal priority.
    LowerOrNewerEqual,
}

impl Within {
    /// Name in the fleet document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::LowerPriority => "lower-priority",
            Self::LowerOrNewerEqual => "lower-or-newer-equal",
        }
    }

    /// Whether a workload of priority `theirs` may be preempted by one of priority `mine`; `came_later` is called if both are equal.
    pub fn takes(self, mine: i32, theirs: i32, came_later: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Never => false,
            Self::LowerPriority => theirs < mine,
            Self::LowerOrNewerEqual => theirs < mine || theirs == mine && came_later(),
        }
    }
}

crate::words! {
    impl Within {
        /// Name in the engine's document.
        pub fn engine_name(self) {
            Never => "never",
            LowerPriority => "lower-priority",
            LowerOrNewerEqual => "lower-or-newer-equal-priority",
        }
    }
}

/// Which borrowing workloads of other queues a workload within nominal quota may preempt.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Reclaim {
    #[default]
    Never,
    LowerPriority,
    Any,
}

crate::words! {
    impl Reclaim {
        /// Name in documents.
        pub fn name(self) {
            Never => "never",
            LowerPriority => "lower-priority",
            Any => "any",
        }
    }
}

/// Which workloads of other queues a borrowing workload may preempt.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Borrow {
    #[default]
    Never,
    /// Lower priorities, up to the threshold if there is one.
    LowerPriority,
}

crate::words! {
    impl Borrow {
        /// Name in the fleet document.
        pub fn name(self) {
            Never => "never",
            LowerPriority => "lower-priority",
        }
    }
}

/// Preemption policy of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PreemptionPolicy {
    /// In the same queue.
    pub within: Within,
    /// In other queues, to reclaim nominal quota.
    pub reclaim: Reclaim,
    /// In other queues, while borrowing.
    pub borrow: Borrow,
    /// The highest priority that may be preempted while borrowing; `None` for no limit.
    pub borrow_max_priority: Option<i32>,
    /// Minimum runtime of its workloads, in milliseconds, before others in the queue may preempt them; `None` inherits
    /// from the parent queue.
    pub min_runtime_ms: Option<i64>,
    /// The same for preemption by other queues.
    pub reclaim_min_runtime_ms: Option<i64>,
}

/// Resource name of a quota that counts accelerators of every kind (KAI's `gpu`).
pub const DEVICES: &str = "devices";

/// Unit of a resource amount.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Measure {
    /// Thousandths of a device or a slice.
    MilliDevices,
    /// Thousandths of a core.
    MilliCores,
    Bytes,
    /// Whole units: pods, credits.
    #[default]
    Units,
}

crate::words! {
    impl Measure {
        /// Name in the fleet document.
        pub fn name(self) {
            MilliDevices => "devices",
            MilliCores => "cores",
            Bytes => "bytes",
            Units => "units",
        }
    }
}

impl Measure {
    /// Amounts per whole unit.
    pub const fn whole(self) -> i64 {
        match self {
            Self::MilliDevices | Self::MilliCores => 1000,
            Self::Bytes | Self::Units => 1,
        }
    }
}

/// A queue's quota of one resource in one flavor. Amounts are in units of `measure`, never negative.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    /// Flavor; empty in systems that have none (Volcano, KAI).
    pub flavor: Name,
    /// Resource: `nvidia.com/gpu`, `cpu`, `memory`, or [`DEVICES`].
    pub resource: Name,
    /// Unit of every amount here.
    pub measure: Measure,
    /// Index of the queue's resource group with the flavor, from 0: within a group flavors are tried in order.
    pub group: u32,
    /// Nominal quota; `None` is unlimited.
    pub nominal: Option<i64>,
    /// Borrowing limit; `None` is unlimited.
    pub borrow_limit: Option<i64>,
    /// Lending limit; `None` lends the whole nominal quota.
    pub lend_limit: Option<i64>,
    /// Hard limit (KAI's limit, Volcano's capability); `None` is unlimited.
    pub cap: Option<i64>,
    /// Weight for sharing the surplus (KAI).
    pub surplus_weight: Option<i64>,
    /// Usage of admitted workloads, from the system's status.
    pub used: Option<i64>,
    /// Reserved quota, admitted or not, from the system's status.
    pub reserved: Option<i64>,
    /// The borrowed part of `used`.
    pub borrowed: Option<i64>,
}

impl Quota {
    /// Converts units of a resource that represents devices into devices.
    pub fn count_devices(&mut self) {
        if self.measure != Measure::Units {
            return;
        }
        self.measure = Measure::MilliDevices;
        for amount in [
            &mut self.nominal,
            &mut self.borrow_limit,
            &mut self.lend_limit,
            &mut self.cap,
            &mut self.used,
            &mut self.reserved,
            &mut self.borrowed,
        ] {
            *amount = amount.map(|units| units.saturating_mul(Measure::MilliDevices.whole()));
        }
    }
}

/// Workload counts of a queue, from its system's status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueCounts {
    pub pending: Option<u32>,
    /// Quota reserved, admitted or not.
    pub reserving: Option<u32>,
    pub admitted: Option<u32>,
}

/// Whether a queue is active, and why not.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueActivity {
    /// True when active; `None` when its system does not say.
    pub active: Option<bool>,
    /// Reason code: `Stopped`, `FlavorNotFound`.
    pub reason: Name,
    pub message: Name,
}

/// Kueue's LocalQueue: a namespace's access to a queue.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Door {
    pub key: ObjectKey,
    pub queue: Name,
    /// Whether it admits workloads.
    pub stop: Stop,
    /// Whether it is active.
    pub activity: QueueActivity,
    pub counts: QueueCounts,
}

/// A queue or a cohort.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// System, kind and name.
    pub key: QueueKey,
    pub uid: Name,
    /// Name of its parent: a cohort in Kueue, a queue elsewhere.
    pub parent: Option<Name>,
    /// Fair-sharing weight among its siblings; `None` when it has none.
    pub weight: Option<f64>,
    /// Priority among queues: the highest goes first (Volcano, KAI).
    pub priority: Option<i32>,
    /// Whether it admits workloads.
    pub stop: Stop,
    /// Whether it is active.
    pub activity: QueueActivity,
    pub strategy: Strategy,
    pub preemption: PreemptionPolicy,
    /// True when other queues may reclaim what it borrowed.
    pub reclaimable: bool,
    /// True when it tries the next flavor before borrowing (Kueue's `whenCanBorrow: TryNextFlavor`).
    pub next_before_borrow: bool,
    /// True when it tries the next flavor before preempting (Kueue's `whenCanPreempt: TryNextFlavor`).
    pub next_before_preempt: bool,
    /// True when it takes a flavor that needs preemption rather than one that needs borrowing. Source: Kueue's
    /// `flavorFungibility.preference`, if it is `PreemptionOverBorrowing`.
    pub preempts_before_borrowing: bool,
    /// Admission checks that a workload must pass once its quota is reserved.
    ///
    /// Source: `admissionChecksStrategy` of a ClusterQueue, and before `v1beta2` its `admissionChecks`.
    pub checks: Box<[Name]>,
    /// True when it orders workloads by the past usage of their LocalQueues, before priority: a ClusterQueue with the `admissionMode`
    /// `UsageBasedAdmissionFairSharing` in its `admissionScope`.
    pub orders_by_usage: bool,
    /// True when it tries its flavors for a workload at the same time. Source: `concurrentAdmissionPolicy` of a ClusterQueue.
    pub tries_all_flavors: bool,
    /// Usage above its own quota relative to its weight, from its system's status; infinite for a borrower of weight 0. Only
    /// comparable within one system.
    pub share: Option<f64>,
    /// Its quotas, in the order in which its flavors are tried.
    pub quotas: Box<[Quota]>,
    pub counts: QueueCounts,
    /// Its LocalQueues, sorted by namespace and name.
    pub doors: Box<[Door]>,
    pub created: Moment,
}

impl Queue {
    pub fn name(&self) -> &Name {
        &self.key.name
    }

    pub fn system(&self) -> QueueSystem {
        self.key.system
    }

    pub fn parent_key(&self) -> Option<QueueKey> {
        self.parent.clone().map(|name| QueueKey {
            system: self.key.system,
            kind: match self.key.system {
                QueueSystem::Kueue | QueueSystem::Stokehold => QueueKind::Cohort,
                _ => QueueKind::Queue,
            },
            name,
        })
    }

    /// True when it admits nothing: stopped, or inactive.
    pub fn is_stopped(&self) -> bool {
        self.stop != Stop::None || self.activity.active == Some(false)
    }
}

/// A kind of machine with quotas: Kueue's ResourceFlavor.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Flavor {
    pub name: Name,
    /// Labels of its nodes.
    pub node_labels: Labels,
    /// Taints of its nodes, which workloads must tolerate.
    pub taints: Box<[Taint]>,
    /// Tolerations added to its workloads.
    pub tolerations: Box<[Toleration]>,
    pub topology: Option<Name>,
}

/// Network topology levels, as node labels.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Topology {
    pub name: Name,
    /// Node labels from the widest level to the narrowest.
    pub levels: Box<[Name]>,
}

/// Scope of a priority class.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum PriorityKind {
    #[default]
    Pod,
    /// Order in Kueue's queues only: WorkloadPriorityClass.
    Workload,
}

crate::words! {
    impl PriorityKind {
        /// The kind of object.
        pub fn name(self) {
            Pod => "PriorityClass",
            Workload => "WorkloadPriorityClass",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PriorityClass {
    pub kind: PriorityKind,
    pub name: Name,
    /// Priority; the highest goes first.
    pub value: i32,
    /// True for the default class.
    pub is_default: bool,
    /// True for `preemptionPolicy: Never`.
    pub never_preempts: bool,
}
