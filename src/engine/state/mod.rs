//! The working copy of a [`CompiledFleet`]: its current usage. Every change is journaled, so that a hypothesis is tested by
//! [`State::mark`], changes, evaluation, and [`State::undo_to`], at a cost proportional to the changes.

mod allocation;
mod condition;
mod gates;
mod node_free;
mod quota;
mod view;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use model::base::Moment;

use super::compiled::{
    CompiledFleet, FlavorId, NodeId, PairId, QueueId, QuotaTree, Quotas, ResourceId, WorkloadId,
};
use super::snapshot::{Status, Workload};

use condition::Memo;
pub(super) use condition::PodFit;
pub(super) use gates::{Gate, Gates};
pub(super) use quota::QuotaUsage;
use view::Views;

pub(super) use view::View;

pub use allocation::{Allocation, PodPlacement, PodSetAllocation};
use node_free::NodeChangeLog;
pub use node_free::NodeFree;

#[derive(Clone, PartialEq, Debug)]
pub struct WorkloadState {
    pub status: Status,
    pub allocation: Option<Arc<Allocation>>,
    pub priority: i32,
    /// Start of its allocation.
    pub since: Option<Moment>,
}

/// Everything that changes. Two occupancies of one compiled fleet can be exchanged ([`State::exchange`]).
#[derive(Clone, Debug)]
pub struct Occupancy {
    nodes: Vec<NodeFree>,
    /// Free thousandths of every unit of every node.
    left: Vec<i32>,
    changes: NodeChangeLog,
    /// Reserved nodes, and whether they count as closed.
    kept: BTreeSet<NodeId>,
    beside: bool,
    views: Views,
    tree: Arc<QuotaTree>,
    usage: QuotaUsage,
    workloads: Vec<WorkloadState>,
}

impl Occupancy {
    /// Whether a workload has an allocation.
    pub(super) fn is_allocated(&self, work: WorkloadId) -> bool {
        self.workloads[work].allocation.is_some()
    }

    /// Quota that a queue may still use, of a flavor and resource.
    pub(super) fn available(&self, queue: QueueId, pair: PairId) -> i64 {
        self.usage.available(&self.tree, queue, pair)
    }

    /// Uses quota of a queue, or releases it if negative.
    fn change_usage(&mut self, queue: QueueId, pair: PairId, amount: i64) {
        let Self { tree, usage, .. } = self;
        if amount >= 0 {
            usage.take(tree, queue, pair, amount);
        } else {
            usage.give(tree, queue, pair, amount.saturating_neg());
        }
    }
}

/// The inverse of one change.
#[derive(Clone, Debug)]
enum InverseChange {
    /// A pod was placed (`1`) or removed (`-1`).
    PodPlacement {
        placement: PodPlacement,
        want: usize,
        sign: i64,
        condition: u32,
    },
    /// A queue used this much of a pair; releasing is the exact inverse.
    Usage(QueueId, PairId, i64),
    Work(WorkloadId, WorkloadState),
    Open(NodeId, bool),
    Tree(Arc<QuotaTree>, Box<QuotaUsage>),
    Node,
}

/// A position in the journal to undo to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Savepoint(usize);

/// Working copy of a compiled fleet.
#[derive(Clone, Debug)]
pub struct State<'p> {
    compiled: &'p CompiledFleet,
    now: Moment,
    memo: Memo,
    occupancy: Occupancy,
    journal: Vec<InverseChange>,
    pub(super) gates: Gates,
}

impl<'p> State<'p> {
    /// The fleet as in the snapshot: running workloads keep their allocations, even beyond capacity.
    pub fn new(compiled: &'p CompiledFleet) -> Self {
        let mut occupancy = Occupancy {
            nodes: Vec::with_capacity(compiled.nodes.len()),
            left: Vec::new(),
            changes: NodeChangeLog::default(),
            kept: BTreeSet::new(),
            beside: false,
            views: Views::default(),
            tree: compiled.tree.clone(),
            usage: QuotaUsage::new(&compiled.tree),
            workloads: compiled
                .snapshot
                .workloads
                .iter()
                .map(|work| WorkloadState {
                    status: work.status,
                    allocation: None,
                    priority: work.priority,
                    since: None,
                })
                .collect(),
        };
        for (node, site) in compiled.nodes.iter().enumerate() {
            occupancy.add_room(compiled, node, *site);
        }
        let mut state = Self {
            compiled,
            now: compiled.snapshot.at,
            memo: Memo::default(),
            occupancy,
            journal: Vec::new(),
            gates: Gates::default(),
        };
        for pod in &compiled.snapshot.residents {
            if let Some(node) = compiled.node(&pod.node) {
                let placement = PodPlacement {
                    node,
                    units: Arc::default(),
                };
                let plain = (pod.cpu_milli, pod.memory_bytes);
                state.occupancy.apply(compiled, &placement, plain, 1);
            }
        }
        for work in 0..compiled.workloads.len() {
            state.settle_in(work);
        }
        state.journal.clear();
        state
    }

    pub fn compiled(&self) -> &'p CompiledFleet {
        self.compiled
    }

    /// Current time: that of the snapshot, until it is set.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Sets the current time. Not journaled.
    pub fn set_now(&mut self, now: Moment) {
        self.now = now;
    }

    /// The workload as in the snapshot.
    pub fn workload(&self, work: WorkloadId) -> &'p Workload {
        &self.compiled.snapshot.workloads[work]
    }

    /// The current position in the journal.
    pub fn mark(&self) -> Savepoint {
        Savepoint(self.journal.len())
    }

    /// Undoes all changes since a mark.
    pub fn undo_to(&mut self, mark: Savepoint) {
        while self.journal.len() > mark.0 {
            let Some(undo) = self.journal.pop() else {
                return;
            };
            self.take_back(undo);
        }
    }

    /// Clears the journal: the changes so far become permanent.
    pub fn commit(&mut self) {
        self.journal.clear();
    }

    /// Drops the journal since a mark: those changes become permanent.
    pub(super) fn forget_since(&mut self, mark: Savepoint) {
        self.journal.truncate(mark.0);
    }

    /// Exchanges the occupancy for another of the same compiled fleet, and returns the previous one. Earlier marks are valid
    /// again after exchanging back; undo or commit the changes made in between before that.
    pub fn exchange(&mut self, other: &mut Occupancy) {
        std::mem::swap(&mut self.occupancy, other);
    }

    /// A copy of the occupancy.
    pub fn occupancy(&self) -> Occupancy {
        self.occupancy.clone()
    }

    fn take_back(&mut self, undo: InverseChange) {
        match undo {
            InverseChange::PodPlacement {
                placement,
                want,
                sign,
                condition,
            } => {
                self.apply(&placement, want, -sign);
                self.occupancy.recall(placement.node, condition);
            }
            InverseChange::Usage(queue, pair, amount) => {
                self.occupancy
                    .change_usage(queue, pair, amount.saturating_neg());
            }
            InverseChange::Work(work, standing) => self.occupancy.workloads[work] = standing,
            InverseChange::Open(node, open) => {
                self.occupancy.nodes[node].open = open;
                self.occupancy.changes.add(node);
            }
            InverseChange::Tree(tree, usage) => {
                self.occupancy.tree = tree;
                self.occupancy.usage = *usage;
            }
            InverseChange::Node => self.occupancy.drop_room(),
        }
    }

    // Workloads.

    /// Start of a workload's allocation, if known.
    pub fn since(&self, work: WorkloadId) -> Option<Moment> {
        self.occupancy.workloads[work].since
    }

    pub fn workload_state(&self, work: WorkloadId) -> &WorkloadState {
        &self.occupancy.workloads[work]
    }

    pub fn allocation(&self, work: WorkloadId) -> Option<&Arc<Allocation>> {
        self.occupancy.workloads[work].allocation.as_ref()
    }

    /// Its current priority, which may differ from the snapshot's.
    pub fn priority(&self, work: WorkloadId) -> i32 {
        self.occupancy.workloads[work].priority
    }

    /// Workloads with quota or nodes allocated, in order.
    pub fn holders(&self) -> impl Iterator<Item = WorkloadId> + '_ {
        let all = self.occupancy.workloads.iter().enumerate();
        all.filter(|(_, standing)| standing.allocation.is_some())
            .map(|(work, _)| work)
    }

    /// Pending workloads that can be started, in order.
    pub fn waiting(&self) -> impl Iterator<Item = WorkloadId> + '_ {
        let all = self.occupancy.workloads.iter().enumerate();
        let waits = |it: &WorkloadState| it.status == Status::Waiting && it.allocation.is_none();
        all.filter(move |(work, it)| waits(it) && self.workload(*work).blocked.is_none())
            .map(|(work, _)| work)
    }

    fn set_standing(&mut self, work: WorkloadId, standing: WorkloadState) {
        let before = std::mem::replace(&mut self.occupancy.workloads[work], standing);
        self.journal.push(InverseChange::Work(work, before));
    }

    /// Sets a hypothetical priority.
    pub fn set_priority(&mut self, work: WorkloadId, priority: i32) {
        let standing = WorkloadState {
            priority,
            ..self.workload_state(work).clone()
        };
        self.set_standing(work, standing);
    }

    /// Sets a hypothetical status; the allocation is unchanged.
    pub fn set_status(&mut self, work: WorkloadId, status: Status) {
        let standing = WorkloadState {
            status,
            ..self.workload_state(work).clone()
        };
        self.set_standing(work, standing);
    }

    /// Admits a workload with an allocation that was found for this state. Nothing is checked.
    pub fn admit(&mut self, work: WorkloadId, allocation: Arc<Allocation>) {
        self.seat_all(work, &allocation);
        self.allocate(work, allocation);
    }

    /// Records an allocation whose resources are already taken.
    pub(crate) fn allocate(&mut self, work: WorkloadId, allocation: Arc<Allocation>) {
        let standing = WorkloadState {
            status: Status::Running,
            allocation: Some(allocation),
            priority: self.priority(work),
            since: Some(self.now),
        };
        self.set_standing(work, standing);
    }

    fn seat_all(&mut self, work: WorkloadId, allocation: &Allocation) {
        for (set, held) in self.compiled.workloads[work]
            .sets
            .iter()
            .zip(&allocation.sets)
        {
            for placement in &held.placements {
                self.place_pod(placement, set.want);
            }
        }
        if let Some(queue) = allocation.queue {
            for &(pair, amount) in &allocation.usage {
                self.use_quota(queue, pair, amount);
            }
        }
    }

    /// Evicts a workload; it becomes pending again. Returns its allocation.
    pub fn evict(&mut self, work: WorkloadId) -> Option<Arc<Allocation>> {
        let allocation = self.occupancy.workloads[work].allocation.clone()?;
        for (set, held) in self.compiled.workloads[work]
            .sets
            .iter()
            .zip(&allocation.sets)
        {
            for placement in &held.placements {
                self.remove_pod(placement, set.want);
            }
        }
        if let Some(queue) = allocation.queue {
            for &(pair, amount) in &allocation.usage {
                self.use_quota(queue, pair, -amount);
            }
        }
        let standing = WorkloadState {
            status: Status::Waiting,
            allocation: None,
            priority: self.priority(work),
            since: None,
        };
        self.set_standing(work, standing);
        Some(allocation)
    }

    /// Finishes a workload: its resources are free and it is no longer pending.
    pub fn finish(&mut self, work: WorkloadId) -> Option<Arc<Allocation>> {
        let allocation = self.evict(work);
        self.set_status(work, Status::Ending);
        allocation
    }

    // Quota.

    /// The queue tree, with hypothetical quotas.
    pub fn tree(&self) -> &QuotaTree {
        &self.occupancy.tree
    }

    /// Usage of all quotas.
    pub(super) fn usage(&self) -> &QuotaUsage {
        &self.occupancy.usage
    }

    /// Quota that a queue may still use, of a flavor and resource; negative if usage exceeds it.
    pub fn available(&self, queue: QueueId, pair: PairId) -> i64 {
        self.occupancy
            .usage
            .available(&self.occupancy.tree, queue, pair)
    }

    /// Usage that counts against a queue's own quota and what its descendants lend it.
    pub fn used(&self, queue: QueueId, pair: PairId) -> i64 {
        self.occupancy
            .usage
            .counted(&self.occupancy.tree, queue, pair)
    }

    /// Total usage of a queue and its descendants.
    pub fn gross(&self, queue: QueueId, pair: PairId) -> i64 {
        self.occupancy
            .usage
            .gross(&self.occupancy.tree, queue, pair)
    }

    /// Usage of a queue above its own quota.
    pub fn borrowed(&self, queue: QueueId, pair: PairId) -> i64 {
        self.occupancy
            .usage
            .borrowed(&self.occupancy.tree, queue, pair)
    }

    /// Uses quota of a queue, or releases it if negative. Nothing is checked.
    pub fn use_quota(&mut self, queue: QueueId, pair: PairId, amount: i64) {
        self.journal.push(InverseChange::Usage(queue, pair, amount));
        self.occupancy.change_usage(queue, pair, amount);
    }

    /// Sets hypothetical quotas of a queue; usage is unchanged.
    pub fn set_quota(&mut self, queue: QueueId, pair: PairId, quotas: Quotas) {
        let tree = Arc::new(self.occupancy.tree.with(queue, pair, quotas));
        let before = std::mem::replace(&mut self.occupancy.tree, tree);
        let usage = QuotaUsage::new(&self.occupancy.tree);
        let usage = std::mem::replace(&mut self.occupancy.usage, usage);
        self.journal
            .push(InverseChange::Tree(before, Box::new(usage)));
        let Occupancy {
            tree,
            usage,
            workloads: works,
            ..
        } = &mut self.occupancy;
        for allocation in works.iter().filter_map(|work| work.allocation.as_ref()) {
            if let Some(queue) = allocation.queue {
                for &(pair, amount) in &allocation.usage {
                    usage.take(tree, queue, pair, amount);
                }
            }
        }
    }

    // Nodes.

    /// Number of nodes, including hypothetical ones.
    pub fn nodes(&self) -> usize {
        self.occupancy.nodes.len()
    }

    pub fn node_free(&self, node: NodeId) -> &NodeFree {
        &self.occupancy.nodes[node]
    }

    /// Free thousandths of each unit of a node, in the order of its shape.
    pub fn left(&self, node: NodeId) -> &[i32] {
        let room = &self.occupancy.nodes[node];
        let units = self.compiled.node_shapes[room.node_shape].units.len();
        &self.occupancy.left[room.begin..room.begin + units]
    }

    /// Opens a node to new pods, or closes it.
    pub fn set_open(&mut self, node: NodeId, open: bool) {
        let before = std::mem::replace(&mut self.occupancy.nodes[node].open, open);
        self.occupancy.changes.add(node);
        self.journal.push(InverseChange::Open(node, before));
    }

    /// Adds a hypothetical node, open and empty, with another node's shape, labels and topology.
    pub fn add_node(&mut self, like: NodeId) -> NodeId {
        let origin = self.occupancy.nodes[like].origin;
        let site = super::compiled::CompiledNode {
            open: true,
            ..self.compiled.nodes[origin]
        };
        self.occupancy.add_room(self.compiled, origin, site);
        self.journal.push(InverseChange::Node);
        self.occupancy.nodes.len() - 1
    }

    /// Places a pod. Nothing is checked.
    pub fn place_pod(&mut self, placement: &PodPlacement, want: usize) {
        let condition = self.apply(placement, want, 1);
        self.journal.push(InverseChange::PodPlacement {
            placement: placement.clone(),
            want,
            sign: 1,
            condition,
        });
    }

    pub fn remove_pod(&mut self, placement: &PodPlacement, want: usize) {
        let condition = self.apply(placement, want, -1);
        self.journal.push(InverseChange::PodPlacement {
            placement: placement.clone(),
            want,
            sign: -1,
            condition,
        });
    }

    fn apply(&mut self, placement: &PodPlacement, want: usize, sign: i64) -> u32 {
        let ask = &self.compiled.requests[want].ask;
        let plain = (ask.cpu_milli * sign, ask.memory_bytes * sign);
        self.occupancy.apply(self.compiled, placement, plain, sign)
    }

    /// How a pod fits a node.
    pub(super) fn look(&mut self, node: NodeId, want: usize) -> PodFit {
        let condition = self
            .occupancy
            .condition(self.compiled, &mut self.memo, node);
        self.memo.look(self.compiled, want, condition)
    }

    /// Number of such pods that fit the free devices of a node, regardless of CPU and memory.
    pub(super) fn by_devices(&mut self, node: NodeId, want: usize) -> u64 {
        let condition = self
            .occupancy
            .condition(self.compiled, &mut self.memo, node);
        let pods = self.memo.by_devices(self.compiled, want, condition);
        pods.unsigned_abs()
    }

    /// Sets the reserved nodes.
    pub(super) fn keep_nodes(&mut self, nodes: BTreeSet<NodeId>) {
        let before = std::mem::replace(&mut self.occupancy.kept, nodes);
        let changed: Vec<NodeId> = before
            .symmetric_difference(&self.occupancy.kept)
            .copied()
            .collect();
        for node in changed {
            self.occupancy.changes.add(node);
        }
    }

    /// Whether a node is open, and not reserved if reserved nodes count as closed.
    pub(super) fn takes_pods(&self, node: NodeId) -> bool {
        let Occupancy { beside, kept, .. } = &self.occupancy;
        self.node_free(node).open && !(*beside && kept.contains(&node))
    }

    /// Sets whether reserved nodes count as closed.
    pub(super) fn set_beside(&mut self, beside: bool) {
        self.occupancy.beside = beside;
    }

    /// Number of free whole units of a resource on open nodes.
    pub fn free_units(&self, resource: ResourceId) -> usize {
        let free = |node: NodeId| {
            let room = self.node_free(node);
            let units = self.compiled.node_shapes[room.node_shape].units.iter();
            let whole = units.zip(self.left(node)).filter(|(unit, left)| {
                unit.resource == resource && unit.sound && **left == super::snapshot::WHOLE
            });
            if room.open { whole.count() } else { 0 }
        };
        (0..self.nodes()).map(free).sum()
    }

    /// Flavors whose labels a node has.
    pub fn flavors_of(&self, node: NodeId) -> impl Iterator<Item = FlavorId> + '_ {
        let origin = self.occupancy.nodes[node].origin;
        let labels = &self.compiled.snapshot.nodes[origin].labels;
        let flavors = self.compiled.snapshot.flavors.iter().enumerate();
        flavors
            .filter(move |(_, flavor)| {
                let carried = |(key, value)| labels.get(key) == Some(value);
                flavor.labels.iter().all(carried)
            })
            .map(|(flavor, _)| flavor)
    }
}
