//! Flavors, queues as a tree, quotas and what a queue may take from others. Meanings are those of Kueue's `v1beta2` API
//! (`ResourceFlavor`, `ClusterQueue`, `Cohort`), with a hard cap besides.

use std::collections::BTreeMap;

use model::base::Name;
use model::fleet::node::Billing;

use super::node::Taint;
use super::workload::Toleration;

/// A kind of capacity that quotas count apart: a set of nodes that share labels.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Flavor {
    /// Name.
    pub name: Name,
    /// Labels that its nodes carry. None: any node.
    pub labels: BTreeMap<Name, Name>,
    /// Taints that its nodes carry: a workload must tolerate them to use it.
    pub taints: Vec<Taint>,
    /// What its pods tolerate on top of what they say.
    pub tolerations: Vec<Toleration>,
    /// Name of the [`super::Topology`] that its nodes are placed in.
    pub topology: Option<Name>,
    /// How its hours are paid.
    pub billing: Option<Billing>,
    /// Price in micro-USD a device-hour, where known.
    pub price: Option<i64>,
}

/// Who rules a queue, and so what its rules mean in detail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum System {
    /// Kueue.
    Kueue,
    /// Volcano.
    Volcano,
    /// KAI.
    Kai,
    /// Ours.
    Stokehold,
    /// Nobody: pods go where there is room.
    #[default]
    None,
}

impl System {
    /// Every system.
    pub const ALL: [Self; 5] = [
        Self::Kueue,
        Self::Volcano,
        Self::Kai,
        Self::Stokehold,
        Self::None,
    ];

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
}

/// The flavor of queues whose system does not tell devices apart: Volcano's and KAI's.
pub const ANY_FLAVOR: &str = "any";

/// True for resources counted in thousandths: CPU, and every countable device. Memory and storage count bytes.
pub fn unit_is_milli(resource: &str) -> bool {
    !matches!(resource, "memory" | "ephemeral-storage") && !resource.starts_with("hugepages-")
}

/// The least amount of a resource that is given, in its unit: a device, a core, a GiB.
pub fn least_amount(resource: &str) -> i64 {
    if unit_is_milli(resource) {
        1_000
    } else {
        1 << 30
    }
}

/// What a queue has of one resource in one flavor, in the resource's unit ([`unit_is_milli`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quota {
    /// Flavor.
    pub flavor: Name,
    /// Resource; [`super::DEVICES`] for accelerators of every kind.
    pub resource: Name,
    /// Its own.
    pub nominal: i64,
    /// Most that it may use above its own; none: as much as others lend.
    pub borrow: Option<i64>,
    /// Most of its own that others may use; none: all of it.
    pub lend: Option<i64>,
    /// Most that it and those below it may use in all, whatever else is free.
    pub cap: Option<i64>,
}

/// Who in the same queue may be preempted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Within {
    /// Nobody.
    #[default]
    Never,
    /// Those of lower priority.
    LowerPriority,
    /// Those, and those of equal priority that came later.
    LowerOrNewerEqualPriority,
}

impl Within {
    /// Whether one of priority `theirs` may be preempted for one of priority `mine`; `came_later` is asked where both are equal.
    pub fn takes(self, mine: i32, theirs: i32, came_later: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Never => false,
            Self::LowerPriority => theirs < mine,
            Self::LowerOrNewerEqualPriority => theirs < mine || theirs == mine && came_later(),
        }
    }
}

/// Who in other queues of the cohort that use more than their own may be preempted to give a queue its own back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Reclaim {
    /// Nobody.
    #[default]
    Never,
    /// Those of lower priority.
    LowerPriority,
    /// Anybody.
    Any,
}

/// Whether a workload that itself needs to borrow may preempt in other queues.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Borrow {
    /// No.
    #[default]
    Never,
    /// Those of lower priority, up to a threshold.
    LowerPriority,
}

/// What a queue's workloads may take from others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Preemption {
    /// In the queue.
    pub within: Within,
    /// In the cohort, to get its own.
    pub reclaim: Reclaim,
    /// In the cohort, to borrow.
    pub borrow: Borrow,
    /// With `borrow`: only workloads up to this priority.
    pub borrow_threshold: Option<i32>,
}

/// What a workload that cannot start does to those behind it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum QueueingStrategy {
    /// They wait as well.
    Strict,
    /// They may start.
    #[default]
    BestEffort,
}

/// Whether a queue admits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Stop {
    /// It does.
    #[default]
    None,
    /// Nothing new; what runs goes on.
    Hold,
    /// Nothing new; what runs is evicted.
    Drain,
    /// Nothing new, for its system says that it does not work (a flavor is missing, say): no stop policy that could be taken back.
    Inactive,
}

/// When the search through flavors ends early. Kueue: `flavorFungibility`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fungibility {
    /// A flavor in which the workload fits by borrowing is taken; otherwise one without borrowing is looked for.
    pub borrow_stops: bool,
    /// A flavor in which it fits by preempting is taken; otherwise one without preemption is looked for.
    pub preempt_stops: bool,
}

impl Default for Fungibility {
    fn default() -> Self {
        Self {
            borrow_stops: true,
            preempt_stops: false,
        }
    }
}

/// How long a queue's workloads are left alone once they run, in milliseconds; nothing where the queue above says it, or
/// nobody. KAI: `preemptMinRuntime`, `reclaimMinRuntime`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeftAlone {
    /// By those of their own queue.
    pub preempt_ms: Option<i64>,
    /// By those of other queues: what the topmost queue says that is above them and not above those.
    pub reclaim_ms: Option<i64>,
}

/// A queue, or a cohort: one that admits nothing itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Queue {
    /// Name, unlike every other.
    pub name: Name,
    /// Name of its object, where [`Self::name`] tells it apart from another; empty where they are the same.
    pub object: Name,
    /// The cohort or queue above.
    pub parent: Option<Name>,
    /// Who rules it.
    pub system: System,
    /// False for a cohort.
    pub admits: bool,
    /// Weight in fair sharing, in thousandths; 0 comes last.
    pub weight_milli: i64,
    /// Quotas, in the order in which flavors are tried. None at all: no limit.
    pub quotas: Vec<Quota>,
    /// What it may take.
    pub preemption: Preemption,
    /// How long its workloads are left alone.
    pub left_alone: LeftAlone,
    /// Order.
    pub order: QueueingStrategy,
    /// Whether it admits now.
    pub stop: Stop,
    /// How flavors are tried.
    pub fungibility: Fungibility,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            name: Name::default(),
            object: Name::default(),
            parent: None,
            system: System::default(),
            admits: true,
            weight_milli: 1_000,
            quotas: Vec::new(),
            preemption: Preemption::default(),
            left_alone: LeftAlone::default(),
            order: QueueingStrategy::default(),
            stop: Stop::default(),
            fungibility: Fungibility::default(),
        }
    }
}
