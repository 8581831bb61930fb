//! A snapshot compiled for decisions: names become dense indices, equal constraints are shared, and nodes that no constraint
//! distinguishes form one zone. Immutable; mutable state is in [`crate::state`].

mod nodes;
mod topology_tree;
mod tree;
mod workloads;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::base::Name;

use super::packing::PackingDemand;
use super::snapshot::Snapshot;

pub use nodes::{AllocatableUnit, CompiledNode, NodeShape};
pub use topology_tree::{TopologyDomain, TopologyTree};
pub use tree::{Branch, QuotaTree, Quotas, ResourceGroup};
pub use workloads::{CompiledPodSet, CompiledWorkload, Constraint, PodRequest};

/// Index of a node in [`Snapshot::nodes`]; beyond them, a hypothetical node.
pub type NodeId = usize;
/// Index of a workload in [`Snapshot::workloads`].
pub type WorkloadId = usize;
/// Index in [`QuotaTree::branches`]: those of [`Snapshot::queues`], then queues known by name only.
pub type QueueId = usize;
/// Index of a flavor in [`Snapshot::flavors`].
pub type FlavorId = usize;
/// Index of a device resource in [`CompiledFleet::resources`].
pub type ResourceId = usize;
/// Index of a flavor and resource in [`QuotaTree::pairs`] of one root.
pub type PairId = usize;

#[derive(Clone, Debug)]
pub struct CompiledFleet {
    /// The settled source snapshot.
    pub snapshot: Arc<Snapshot>,
    /// Resources of devices and slices, by name.
    pub resources: Vec<Name>,
    pub node_shapes: Vec<NodeShape>,
    /// Per node: its shape and whether it is open.
    pub nodes: Vec<CompiledNode>,
    /// Per zone: one representative node.
    pub zones: Vec<NodeId>,
    /// Topologies: first that of [`super::snapshot::SnapshotNode::topology`], then those of labels.
    pub ladders: Vec<TopologyTree>,
    /// Queue tree with quotas.
    pub tree: Arc<QuotaTree>,
    pub requests: Vec<PodRequest>,
    pub constraints: Vec<Constraint>,
    pub workloads: Vec<CompiledWorkload>,
    /// Number of distinct workload shapes: [`CompiledWorkload::shape`] is below it.
    pub shapes: usize,
    pub(super) demand: PackingDemand,
}

impl CompiledFleet {
    /// Compiles a snapshot, which must be settled ([`Snapshot::settle`]).
    pub fn new(snapshot: impl Into<Arc<Snapshot>>) -> Self {
        let snapshot = snapshot.into();
        let resources = nodes::resources(&snapshot);
        let (makes, sites, zones, demand) = nodes::compile(&snapshot, &resources);
        let mut ladders = topology_tree::compile(&snapshot);
        let tree = QuotaTree::new(&snapshot);
        let compiled = workloads::compile(&snapshot, &resources, &mut ladders, &tree);
        Self {
            resources,
            node_shapes: makes,
            nodes: sites,
            zones,
            ladders,
            tree: Arc::new(tree),
            requests: compiled.wants,
            constraints: compiled.constraints,
            workloads: compiled.works,
            shapes: compiled.shapes,
            demand,
            snapshot,
        }
    }

    pub fn node(&self, name: &str) -> Option<NodeId> {
        let found = |node: &super::snapshot::SnapshotNode| (*node.name).cmp(name);
        self.snapshot.nodes.binary_search_by(found).ok()
    }

    pub fn flavor(&self, name: &str) -> Option<FlavorId> {
        let found = |flavor: &super::snapshot::SnapshotFlavor| (*flavor.name).cmp(name);
        self.snapshot.flavors.binary_search_by(found).ok()
    }

    pub fn work(&self, key: &model::fleet::job::JobKey) -> Option<WorkloadId> {
        let found = |work: &super::snapshot::Workload| work.key.cmp(key);
        self.snapshot.workloads.binary_search_by(found).ok()
    }

    pub fn workload(&self, work: WorkloadId) -> &super::snapshot::Workload {
        &self.snapshot.workloads[work]
    }
}

/// Assigns one index to equal keys, in order of first use.
#[derive(Debug)]
struct KeyIndex<K> {
    at: BTreeMap<K, usize>,
}

impl<K: Ord> KeyIndex<K> {
    fn new() -> Self {
        Self {
            at: BTreeMap::new(),
        }
    }

    /// The index of a key, and whether it is new.
    fn of(&mut self, key: K) -> (usize, bool) {
        let next = self.at.len();
        let at = *self.at.entry(key).or_insert(next);
        (at, at == next)
    }
}
