//! Flavors, the queue tree, quotas and preemption rules. The terms are those of Kueue's `v1beta2` API
//! (`ResourceFlavor`, `ClusterQueue`, `Cohort`), with a hard cap in addition.

use std::collections::BTreeMap;

use model::base::Name;
use model::fleet::node::Billing;
use model::fleet::queue::{Borrow, Reclaim, Within};

use super::node::SnapshotTaint;
use super::workload::SnapshotToleration;

/// A kind of capacity with its own quota: a set of nodes that share labels.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SnapshotFlavor {
    pub name: Name,
    /// Labels of its nodes. None: any node.
    pub labels: BTreeMap<Name, Name>,
    /// Taints of its nodes: a workload must tolerate them to use the flavor.
    pub taints: Vec<SnapshotTaint>,
    /// Tolerations that the flavor adds to those of its pods.
    pub tolerations: Vec<SnapshotToleration>,
    /// Name of the [`super::Topology`] of its nodes.
    pub topology: Option<Name>,
    /// Billing model of its hours.
    pub billing: Option<Billing>,
    /// Price in micro-USD a device-hour, where known.
    pub price: Option<i64>,
}

/// The queueing system that manages a queue, which determines what its rules mean in detail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum System {
    Kueue,
    Volcano,
    Kai,
    Stokehold,
    /// No queueing system: pods are placed wherever they fit.
    #[default]
    None,
}

model::words! {
    impl System {
        /// Name in the document.
        pub fn name(self) {
            Kueue => "kueue",
            Volcano => "volcano",
            Kai => "kai",
            Stokehold => "stokehold",
            None => "none",
        }
    }
}

impl System {
    pub const ALL: [Self; 5] = [
        Self::Kueue,
        Self::Volcano,
        Self::Kai,
        Self::Stokehold,
        Self::None,
    ];
}

/// The flavor of queues whose system does not distinguish devices: Volcano's and KAI's.
pub const ANY_FLAVOR: &str = "any";

/// Whether a resource is counted in thousandths: CPU and every countable device. Memory and storage are counted in bytes.
pub fn unit_is_milli(resource: &str) -> bool {
    !matches!(resource, "memory" | "ephemeral-storage") && !resource.starts_with("hugepages-")
}

/// Smallest unit of allocation of a resource, in its unit: a device, a core, a GiB.
pub fn least_amount(resource: &str) -> i64 {
    if unit_is_milli(resource) {
        1_000
    } else {
        1 << 30
    }
}

/// Quota of a queue for one resource in one flavor, in the resource's unit ([`unit_is_milli`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotQuota {
    pub flavor: Name,
    /// Resource; [`super::DEVICES`] for accelerators of every kind.
    pub resource: Name,
    pub nominal: i64,
    /// Borrowing limit above the nominal quota. None: as much as others lend.
    pub borrow: Option<i64>,
    /// Lending limit: the part of the nominal quota that others may use. `None` lends the whole quota.
    pub lend: Option<i64>,
    /// Maximum usage of the queue and its descendants, even if more is free.
    pub cap: Option<i64>,
}

/// Which workloads a queue's workloads may preempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Preemption {
    pub within: Within,
    /// In the cohort, to reclaim nominal quota.
    pub reclaim: Reclaim,
    /// In the cohort, while borrowing.
    pub borrow: Borrow,
    /// With `borrow`: only workloads up to this priority may be preempted.
    pub borrow_threshold: Option<i32>,
}

/// Effect of a workload that cannot start on those behind it in the queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum QueueingStrategy {
    /// They wait as well.
    Strict,
    #[default]
    BestEffort,
}

model::words! {
    impl QueueingStrategy {
        /// Name in the document.
        pub fn name(self) {
            Strict => "strict",
            BestEffort => "best-effort",
        }
    }
}

/// Whether and how a queue stops admitting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum QueueStop {
    #[default]
    None,
    /// Admits nothing new; running workloads continue.
    Hold,
    /// Admits nothing new; running workloads are evicted.
    Drain,
    /// Admits nothing new because its system reports it inactive (for example a missing flavor); there is no stop policy to revert.
    Inactive,
}

model::words! {
    impl QueueStop {
        /// Name in the document.
        pub fn name(self) {
            None => "none",
            Hold => "hold",
            Drain => "drain",
            Inactive => "inactive",
        }
    }
}

/// When the search through flavors ends early. Source: Kueue's `flavorFungibility`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fungibility {
    /// Takes the first flavor in which the workload fits by borrowing; otherwise continues to one that needs no borrowing.
    pub borrow_stops: bool,
    /// Takes the first flavor in which the workload fits by preempting; otherwise continues to one that needs no preemption.
    pub preempt_stops: bool,
    /// Which of the flavors is taken that did not end the search.
    pub preference: FlavorPreference,
}

/// Which flavor comes first where one needs borrowing and another one preemption. Source: Kueue's `flavorFungibility.preference`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum FlavorPreference {
    #[default]
    Borrowing,
    Preemption,
}

model::words! {
    impl FlavorPreference {
        /// Name in the document: Kueue's.
        pub fn name(self) {
            Borrowing => "BorrowingOverPreemption",
            Preemption => "PreemptionOverBorrowing",
        }
    }
}

impl Default for Fungibility {
    fn default() -> Self {
        Self {
            borrow_stops: true,
            preempt_stops: false,
            preference: FlavorPreference::default(),
        }
    }
}

/// Minimum run time before a queue's workloads may be preempted, in milliseconds; none if unset or inherited from the parent.
/// Source: KAI's `preemptMinRuntime`, `reclaimMinRuntime`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeftAlone {
    /// Against preemption by the same queue.
    pub preempt_ms: Option<i64>,
    /// Against reclaim by other queues: the value of the topmost ancestor that is not an ancestor of the reclaiming queue.
    pub reclaim_ms: Option<i64>,
}

/// A queue, or a cohort, which admits nothing itself.
#[derive(Clone, PartialEq, Debug)]
pub struct SnapshotQueue {
    pub name: Name,
    /// Name of its object, if it differs from [`Self::name`], which is unique; otherwise empty.
    pub object: Name,
    /// Parent cohort or queue.
    pub parent: Option<Name>,
    /// Queueing system that manages it.
    pub system: System,
    /// False for a cohort.
    pub admits: bool,
    /// Fair-sharing weight in thousandths; 0 comes last.
    pub weight_milli: i64,
    /// Quotas, in the order in which flavors are tried. Empty: no limit.
    pub quotas: Vec<SnapshotQuota>,
    pub preemption: Preemption,
    /// Minimum run times of its workloads.
    pub left_alone: LeftAlone,
    pub order: QueueingStrategy,
    /// Whether it admits now.
    pub stop: QueueStop,
    /// Order in which flavors are tried.
    pub fungibility: Fungibility,
    /// Whether its order is that of past usage, which is not known here: its workloads have no position.
    pub orders_by_usage: bool,
}

impl Default for SnapshotQueue {
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
            stop: QueueStop::default(),
            fungibility: Fungibility::default(),
            orders_by_usage: false,
        }
    }
}
