//! Queues, their quotas and policies, in one form for every system that has them: Kueue's cluster queues and
//! cohorts, Volcano's and KAI's queues, Stokehold's own.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey};

use super::observe::{Labels, Taint};
use super::siting::Toleration;

/// The system that a queue, a Workload or a PodGroup belongs to.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum QueueSystem {
    /// Kueue.
    Kueue,
    /// Volcano.
    Volcano,
    /// KAI.
    Kai,
    /// Stokehold's own (`govern`).
    Stokehold,
    /// Nobody's that we know: a label alone, or the gangs of Kubernetes itself, which have no queues.
    #[default]
    None,
}

impl QueueSystem {
    /// Kind of the object that stands behind one of its queues.
    pub const fn object_kind(self) -> &'static str {
        match self {
            Self::Kueue => "ClusterQueue",
            Self::Volcano | Self::Kai | Self::Stokehold | Self::None => "Queue",
        }
    }

    /// As in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kueue => "kueue",
            Self::Volcano => "volcano",
            Self::Kai => "kai",
            Self::Stokehold => "stokehold",
            Self::None => "none",
        }
    }

    /// The system whose label this is: it put the job into its queue.
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

/// What stands at a place in the tree of queues.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum QueueKind {
    /// A group of queues that lend to each other (Kueue's Cohort); no job waits in it.
    Cohort,
    /// A queue.
    #[default]
    Queue,
}

impl QueueKind {
    /// As in the fleet document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cohort => "cohort",
            Self::Queue => "queue",
        }
    }
}

/// What names a queue: Kueue's cohorts and queues may share a name, and so may two systems' queues.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueKey {
    /// Its system.
    pub system: QueueSystem,
    /// Cohort or queue.
    pub kind: QueueKind,
    /// Name.
    pub name: Name,
}

impl fmt::Display for QueueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.name, f)
    }
}

/// Whether a queue lets work in.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Stop {
    /// It does.
    #[default]
    None,
    /// Nothing new; what runs ends by itself.
    Hold,
    /// Nothing new; what runs is evicted.
    Drain,
}

impl Stop {
    /// As in the fleet document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Hold => "hold",
            Self::Drain => "drain",
        }
    }
}

/// What happens to a queue whose head does not fit.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Strategy {
    /// Everything behind it waits.
    Strict,
    /// Whatever behind it fits may pass.
    #[default]
    BestEffort,
}

impl Strategy {
    /// As in the fleet document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::BestEffort => "best-effort",
        }
    }
}

/// Whom of its own queue a workload may preempt.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Within {
    /// Nobody.
    #[default]
    Never,
    /// Lower priorities.
    LowerPriority,
    /// Lower priorities, and equal ones that came later.
    LowerOrNewerEqual,
}

impl Within {
    /// As in the fleet document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::LowerPriority => "lower-priority",
            Self::LowerOrNewerEqual => "lower-or-newer-equal",
        }
    }
}

/// Whom of other queues, that run on what they borrowed, a workload within its own quota may preempt.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Reclaim {
    /// Nobody.
    #[default]
    Never,
    /// Lower priorities.
    LowerPriority,
    /// Anybody.
    Any,
}

impl Reclaim {
    /// As in the fleet document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::LowerPriority => "lower-priority",
            Self::Any => "any",
        }
    }
}

/// Whom of other queues a workload that must borrow itself may preempt.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Borrow {
    /// Nobody.
    #[default]
    Never,
    /// Lower priorities, up to the threshold where there is one.
    LowerPriority,
}

impl Borrow {
    /// As in the fleet document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::LowerPriority => "lower-priority",
        }
    }
}

/// Whom a queue's workloads may preempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Preemption {
    /// In the same queue.
    pub within: Within,
    /// In other queues, to get its own back.
    pub reclaim: Reclaim,
    /// In other queues, to borrow.
    pub borrow: Borrow,
    /// The highest priority that may be preempted in order to borrow; `None` sets no bound.
    pub borrow_max_priority: Option<i32>,
    /// How long its own workloads run, in milliseconds, before others of the queue may preempt them; `None` where the queue above
    /// says it.
    pub min_runtime_ms: Option<i64>,
    /// The same, before others of other queues may.
    pub reclaim_min_runtime_ms: Option<i64>,
}

/// The name under which a quota counts accelerators of every kind together (KAI's `gpu`).
pub const DEVICES: &str = "devices";

/// In which unit an amount of a resource is counted.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum Measure {
    /// Thousandths of a device or a slice.
    MilliDevices,
    /// Thousandths of a core.
    MilliCores,
    /// Bytes.
    Bytes,
    /// Whole units: pods, credits.
    #[default]
    Units,
}

impl Measure {
    /// Amounts of it that make one whole.
    pub const fn whole(self) -> i64 {
        match self {
            Self::MilliDevices | Self::MilliCores => 1000,
            Self::Bytes | Self::Units => 1,
        }
    }

    /// As in the fleet document.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MilliDevices => "devices",
            Self::MilliCores => "cores",
            Self::Bytes => "bytes",
            Self::Units => "units",
        }
    }
}

/// What a queue may have of one resource in one flavor. Amounts are in units of `measure`, never negative.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Quota {
    /// Flavor; empty in systems that have none (Volcano, KAI).
    pub flavor: Name,
    /// Resource: `nvidia.com/gpu`, `cpu`, `memory`, or [`DEVICES`].
    pub resource: Name,
    /// Unit of every amount here.
    pub measure: Measure,
    /// Which of the queue's groups the flavor stands in, from 0: within a group flavors are tried in order.
    pub group: u32,
    /// The queue's own; `None` is without bound.
    pub nominal: Option<i64>,
    /// How much more it may take of what others lend; `None` is as much as there is.
    pub borrow_limit: Option<i64>,
    /// How much of its own it lends; `None` is all of it.
    pub lend_limit: Option<i64>,
    /// What it may never exceed (KAI's limit, Volcano's capability); `None` is without bound.
    pub cap: Option<i64>,
    /// Weight among the takers of what is left over (KAI).
    pub surplus_weight: Option<i64>,
    /// Held by admitted work, as the system says.
    pub used: Option<i64>,
    /// Set aside for work with a reservation, admitted or not, as the system says.
    pub reserved: Option<i64>,
    /// Of `used`, more than its own.
    pub borrowed: Option<i64>,
}

/// How much work a queue has, as its system counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueCounts {
    /// Waits.
    pub pending: Option<u32>,
    /// Has its quota reserved, admitted or not.
    pub reserving: Option<u32>,
    /// Admitted.
    pub admitted: Option<u32>,
}

/// Whether a queue works, and why not.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// It does; `None` when its system does not say.
    pub active: Option<bool>,
    /// A word for programs: `Stopped`, `FlavorNotFound`.
    pub reason: Name,
    /// A sentence for people.
    pub message: Name,
}

/// A namespace's door to a queue: Kueue's LocalQueue.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Door {
    /// Namespace and name.
    pub key: ObjectKey,
    /// The queue behind it.
    pub queue: Name,
    /// Whether it lets work in.
    pub stop: Stop,
    /// Whether it works.
    pub activity: Activity,
    /// Its work.
    pub counts: QueueCounts,
}

/// A queue or a cohort.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// System, kind and name.
    pub key: QueueKey,
    /// Unique id.
    pub uid: Name,
    /// Name of what stands above it: a cohort in Kueue, a queue elsewhere.
    pub parent: Option<Name>,
    /// Weight among its siblings, for fair sharing; `None` when it has none.
    pub weight: Option<f64>,
    /// Its rank among queues: the higher goes first (Volcano, KAI).
    pub priority: Option<i32>,
    /// Whether it lets work in.
    pub stop: Stop,
    /// Whether it works.
    pub activity: Activity,
    /// What happens when its head does not fit.
    pub strategy: Strategy,
    /// Whom its work may preempt.
    pub preemption: Preemption,
    /// Others may take back what it borrowed.
    pub reclaimable: bool,
    /// It takes the next flavor rather than borrow in this one (Kueue's `whenCanBorrow: TryNextFlavor`).
    pub next_before_borrow: bool,
    /// It takes the next flavor rather than preempt in this one (Kueue's `whenCanPreempt: TryNextFlavor`).
    pub next_before_preempt: bool,
    /// How far its use is above its own, against its weight, as its system says; infinite for a borrower
    /// of weight 0. Only comparable within one system.
    pub share: Option<f64>,
    /// Its quotas, in the order in which its flavors are tried.
    pub quotas: Box<[Quota]>,
    /// Its work.
    pub counts: QueueCounts,
    /// Its doors, by namespace and name.
    pub doors: Box<[Door]>,
    /// When it was made.
    pub created: Moment,
}

impl Queue {
    /// Name.
    pub fn name(&self) -> &Name {
        &self.key.name
    }

    /// System.
    pub fn system(&self) -> QueueSystem {
        self.key.system
    }

    /// What names its parent.
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

    /// True when it lets nothing in: stopped, or inactive by its system's word.
    pub fn is_stopped(&self) -> bool {
        self.stop != Stop::None || self.activity.active == Some(false)
    }
}

/// A kind of machine that quotas are set for: Kueue's ResourceFlavor.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Flavor {
    /// Name.
    pub name: Name,
    /// Labels of its nodes.
    pub node_labels: Labels,
    /// Taints of its nodes, which its users must tolerate.
    pub taints: Box<[Taint]>,
    /// Tolerations that its users are given.
    pub tolerations: Box<[Toleration]>,
    /// Its topology.
    pub topology: Option<Name>,
}

/// Levels of a network, as node labels.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Topology {
    /// Name.
    pub name: Name,
    /// Node labels from the widest level to the narrowest.
    pub levels: Box<[Name]>,
}

/// What a priority class is for.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub enum PriorityKind {
    /// Pods: `scheduling.k8s.io` PriorityClass.
    #[default]
    Pod,
    /// The order in Kueue's queues alone: WorkloadPriorityClass.
    Workload,
}

impl PriorityKind {
    /// The kind of object.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pod => "PriorityClass",
            Self::Workload => "WorkloadPriorityClass",
        }
    }
}

/// A name for a priority.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PriorityClass {
    /// What it is for.
    pub kind: PriorityKind,
    /// Name.
    pub name: Name,
    /// The priority; the higher goes first.
    pub value: i32,
    /// Pods that name no class get this one.
    pub is_default: bool,
    /// Its pods preempt nobody.
    pub never_preempts: bool,
}
