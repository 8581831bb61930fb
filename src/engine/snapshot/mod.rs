//! The entities that the scheduler reasons over, as plain values: whole numbers only, every list in one order.
//!
//! A [`Snapshot`] is what the engine knows at one moment. It comes from a document ([`crate::document`]) or
//! from a live fleet, and is compiled once into a [`crate::compiled::CompiledFleet`] before anything is decided.

mod node;
mod queue;
mod rules;
mod workload;

pub use model::fleet::queue::{Borrow, Reclaim, Topology, Within};
pub use model::fleet::scheduling::FairStrategy;
pub use model::plan::{OptionOrigin, OptionOrigins, OptionSource};
pub use node::{
    EngineHealth, Resident, SnapshotDevice, SnapshotNode, SnapshotSlice, SnapshotTaint,
    TaintEffect, belongs_to_node,
};
pub use queue::{
    ANY_FLAVOR, FlavorPreference, Fungibility, LeftAlone, Preemption, QueueStop, QueueingStrategy,
    SnapshotFlavor, SnapshotQueue, SnapshotQuota, System, least_amount, unit_is_milli,
};
pub use rules::{
    Backfill, EngineOptions, OwnerRuntimes, Route, SnapshotBudget, SnapshotPriorityClass,
};
pub use workload::{
    CORDON, DeviceRequest, FlavorChoice, Handle, HeldDevices, OtherHandle, Placement, PodSet,
    Requirement, ResourceRequests, SnapshotToleration, Status, TopologyRequest, Workload,
    WorkloadMutations,
};

use model::base::{Moment, Name, SmallSort};

/// A whole device or a whole slice, in thousandths.
pub const WHOLE: i32 = 1_000;

/// The resource name under which a queue's quota counts accelerators of every kind, in thousandths of a device.
pub const DEVICES: &str = "devices";

/// An unlimited or unknown amount. Small enough to add to without overflow.
pub const PLENTY: i64 = i64::MAX / 1024;

/// Everything that the engine knows at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// Revision of the fleet state; plans refer to it.
    pub revision: u64,
    /// Time of the snapshot.
    pub at: Moment,
    pub nodes: Vec<SnapshotNode>,
    /// Topologies of node labels, by name.
    pub topologies: Vec<Topology>,
    pub flavors: Vec<SnapshotFlavor>,
    /// Queues and cohorts, by name. Empty: queues are unknown, and a workload's queue is only a name.
    pub queues: Vec<SnapshotQueue>,
    /// Workloads that request or hold resources, by namespace, name, kind.
    pub workloads: Vec<Workload>,
    /// Disruption budgets, by namespace and name.
    pub budgets: Vec<SnapshotBudget>,
    /// Pods on nodes that use no devices, by namespace and name.
    pub residents: Vec<Resident>,
    /// Priority classes, by kind and name.
    pub classes: Vec<SnapshotPriorityClass>,
    /// Past runs by owner.
    pub runs: Vec<OwnerRuntimes>,
    /// Routes, in order: the first match applies.
    pub routes: Vec<Route>,
    pub options: EngineOptions,
    /// What the author of the snapshot could not see: `nodes`, `queues`, `other namespaces`. If not empty, the engine does not
    /// conclude why a workload waits or when it starts.
    pub not_visible: Vec<Name>,
    /// Origins of the values.
    pub origins: OptionOrigins,
}

impl Snapshot {
    /// Sorts every list, so that input order does not matter. Of several entries with one name, the first in that order stays.
    pub fn settle(&mut self) {
        for node in &mut self.nodes {
            node.settle();
        }
        self.nodes.small_sort_by(|a, b| a.name.cmp(&b.name));
        self.nodes.dedup_by(|b, a| a.name == b.name);
        self.topologies.small_sort();
        self.topologies.dedup_by(|b, a| a.name == b.name);
        for flavor in &mut self.flavors {
            flavor.taints.small_sort();
            flavor.tolerations.small_sort();
        }
        self.flavors.small_sort_by(|a, b| a.name.cmp(&b.name));
        self.flavors.dedup_by(|b, a| a.name == b.name);
        self.queues.small_sort_by(|a, b| a.name.cmp(&b.name));
        self.queues.dedup_by(|b, a| a.name == b.name);
        for workload in &mut self.workloads {
            workload.settle();
        }
        self.workloads.small_sort_by(|a, b| a.key.cmp(&b.key));
        self.workloads.dedup_by(|b, a| a.key == b.key);
        self.budgets
            .small_sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        self.residents.small_sort();
        self.residents
            .dedup_by(|b, a| (&a.namespace, &a.name) == (&b.namespace, &b.name));
        self.classes.small_sort();
        self.classes
            .dedup_by(|b, a| (a.of_workloads, &a.name) == (b.of_workloads, &b.name));
        self.runs.small_sort_by(|a, b| a.owner.cmp(&b.owner));
        self.runs.dedup_by(|b, a| a.owner == b.owner);
    }

    /// Removes a workload from its devices and requeues it, or suspends it if `held`. Kueue orders equal workloads by creation
    /// time, also after an eviction; other systems put the requeued workload last.
    pub fn displace(&mut self, work: usize, held: bool) {
        let at = self.at;
        let work = &mut self.workloads[work];
        let of_kueue = |handle: &Handle| handle.system == System::Kueue;
        let kueue = work.admission.as_ref().is_some_and(of_kueue);
        for set in &mut work.sets {
            set.placements.clear();
            set.admitted.clear();
        }
        work.admitted_at = None;
        if work.status == Status::Running && !kueue {
            work.created = at;
        }
        work.status = if held { Status::Held } else { Status::Waiting };
    }

    /// Number of devices of all nodes.
    pub fn devices(&self) -> usize {
        self.nodes.iter().map(|node| node.devices.len()).sum()
    }
}
