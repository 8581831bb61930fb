//! A snapshot compiled once for deciding: names become dense indices, constraints that are alike become one, nodes that
//! constraints cannot tell apart become one zone. Immutable; what changes is [`crate::state`].

mod nodes;
mod topology_tree;
mod tree;
mod workloads;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::base::Name;

use super::packing::Demand;
use super::snapshot::Snapshot;

pub use nodes::{CompiledNode, NodeShape, Unit};
pub use topology_tree::{Domain, TopologyTree};
pub use tree::{Branch, Group, Quotas, Tree};
pub use workloads::{CompiledPodSet, CompiledWorkload, Constraint, PodRequest};

/// Index of a node in [`Snapshot::nodes`]; beyond them, a node that is only supposed.
pub type NodeId = usize;
/// Index in [`Snapshot::workloads`].
pub type WorkloadId = usize;
/// Index in [`Tree::branches`]: those of [`Snapshot::queues`], then those that only have a name.
pub type QueueId = usize;
/// Index in [`Snapshot::flavors`].
pub type FlavorId = usize;
/// Index of a device resource in [`CompiledFleet::resources`].
pub type ResourceId = usize;
/// Index of a flavor and resource in [`Tree::pairs`] of one root.
pub type PairId = usize;

/// A snapshot, compiled.
#[derive(Clone, Debug)]
pub struct CompiledFleet {
    /// What it was made from, settled.
    pub snapshot: Arc<Snapshot>,
    /// Resources of devices and slices, by name.
    pub resources: Vec<Name>,
    /// Shapes of nodes.
    pub makes: Vec<NodeShape>,
    /// Per node: its shape and whether it is open.
    pub sites: Vec<CompiledNode>,
    /// Per zone: a node that stands for all of it.
    pub zones: Vec<NodeId>,
    /// Topologies: first that of [`super::snapshot::Node::topology`], then those of labels.
    pub ladders: Vec<TopologyTree>,
    /// Quotas.
    pub tree: Arc<Tree>,
    /// What pods ask for; those that ask for the same share one.
    pub wants: Vec<PodRequest>,
    /// Where pods may go; those that may go to the same places share one.
    pub constraints: Vec<Constraint>,
    /// Per workload.
    pub works: Vec<CompiledWorkload>,
    /// How many different workloads there are to the scheduler: [`CompiledWorkload::shape`] is below it.
    pub shapes: usize,
    /// What pods typically ask for.
    pub(super) demand: Demand,
}

impl CompiledFleet {
    /// Compiles a snapshot, which must be settled ([`Snapshot::settle`]).
    pub fn new(snapshot: impl Into<Arc<Snapshot>>) -> Self {
        let snapshot = snapshot.into();
        let resources = nodes::resources(&snapshot);
        let (makes, sites, zones, demand) = nodes::compile(&snapshot, &resources);
        let mut ladders = topology_tree::compile(&snapshot);
        let tree = Tree::new(&snapshot);
        let compiled = workloads::compile(&snapshot, &resources, &mut ladders, &tree);
        Self {
            resources,
            makes,
            sites,
            zones,
            ladders,
            tree: Arc::new(tree),
            wants: compiled.wants,
            constraints: compiled.constraints,
            works: compiled.works,
            shapes: compiled.shapes,
            demand,
            snapshot,
        }
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        let found = |node: &super::snapshot::Node| (*node.name).cmp(name);
        self.snapshot.nodes.binary_search_by(found).ok()
    }

    /// The flavor of this name.
    pub fn flavor(&self, name: &str) -> Option<FlavorId> {
        let found = |flavor: &super::snapshot::Flavor| (*flavor.name).cmp(name);
        self.snapshot.flavors.binary_search_by(found).ok()
    }

    /// The workload of this key.
    pub fn work(&self, key: &model::fleet::job::JobKey) -> Option<WorkloadId> {
        let found = |work: &super::snapshot::Workload| work.key.cmp(key);
        self.snapshot.workloads.binary_search_by(found).ok()
    }

    /// The model of a workload.
    pub fn workload(&self, work: WorkloadId) -> &super::snapshot::Workload {
        &self.snapshot.workloads[work]
    }
}

/// Gives equal keys one index, in the order of first mention.
#[derive(Debug)]
struct Index<K> {
    at: BTreeMap<K, usize>,
}

impl<K: Ord> Index<K> {
    fn new() -> Self {
        Self {
            at: BTreeMap::new(),
        }
    }

    /// The index of a key, and whether this is its first mention.
    fn of(&mut self, key: K) -> (usize, bool) {
        let next = self.at.len();
        let at = *self.at.entry(key).or_insert(next);
        (at, at == next)
    }
}
