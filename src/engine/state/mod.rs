//! The working copy: what is used of a [`CompiledFleet`] now. Everything that is done to it is journalled, so that a
//! supposition is explored by [`State::mark`], doing, looking, and [`State::undo_to`]; that costs as much as what was done.

mod allocation;
mod condition;
mod node_free;
mod quota;
mod view;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use model::base::Moment;

use super::compiled::{
    CompiledFleet, FlavorId, NodeId, PairId, QueueId, Quotas, ResourceId, Tree, WorkloadId,
};
use super::snapshot::{Status, Workload};

pub(super) use condition::Look;
use condition::Memo;
pub(super) use quota::Usage;
use view::Views;

pub(super) use view::View;

pub use allocation::{Allocation, PodPlacement, PodSetAllocation};
use node_free::Changes;
pub use node_free::NodeFree;

/// Where a workload stands in a state.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkloadState {
    /// Its status.
    pub status: Status,
    /// What it holds.
    pub allocation: Option<Arc<Allocation>>,
    /// Its priority.
    pub priority: i32,
    /// When it got what it holds.
    pub since: Option<Moment>,
}

/// All that changes. Two of one compiled fleet can be exchanged ([`State::exchange`]).
#[derive(Clone, Debug)]
pub struct Occupancy {
    rooms: Vec<NodeFree>,
    /// What is left of every unit of every node.
    left: Vec<i32>,
    changes: Changes,
    /// Nodes that are kept for somebody, and whether they count as closed.
    kept: BTreeSet<NodeId>,
    beside: bool,
    views: Views,
    tree: Arc<Tree>,
    usage: Usage,
    works: Vec<WorkloadState>,
}

impl Occupancy {
    /// Whether a workload holds something.
    pub(super) fn holds(&self, work: WorkloadId) -> bool {
        self.works[work].allocation.is_some()
    }

    /// What a queue may still take of a flavor and resource.
    pub(super) fn available(&self, queue: QueueId, pair: PairId) -> i64 {
        self.usage.available(&self.tree, queue, pair)
    }
}

/// One thing that was done, as what takes it back.
#[derive(Clone, Debug)]
enum Undo {
    /// A pod sat down (`1`) or got up (`-1`).
    PodPlacement {
        placement: PodPlacement,
        want: usize,
        sign: i64,
        condition: u32,
    },
    /// Usage and gross usage before, by place.
    Usage(Vec<(usize, i64, i64)>),
    Work(WorkloadId, WorkloadState),
    Open(NodeId, bool),
    Tree(Arc<Tree>, Box<Usage>),
    Node,
}

/// A point to go back to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Mark(usize);

/// The working copy.
#[derive(Clone, Debug)]
pub struct State<'p> {
    compiled: &'p CompiledFleet,
    now: Moment,
    memo: Memo,
    occupancy: Occupancy,
    journal: Vec<Undo>,
    pub(super) gates: super::fit::Gates,
}

impl<'p> State<'p> {
    /// The fleet as the snapshot shows it: what runs holds what it holds, even where that is more than there is.
    pub fn new(compiled: &'p CompiledFleet) -> Self {
        let mut occupancy = Occupancy {
            rooms: Vec::with_capacity(compiled.sites.len()),
            left: Vec::new(),
            changes: Changes::default(),
            kept: BTreeSet::new(),
            beside: false,
            views: Views::default(),
            tree: compiled.tree.clone(),
            usage: Usage::new(&compiled.tree),
            works: compiled
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
        for (node, site) in compiled.sites.iter().enumerate() {
            occupancy.add_room(compiled, node, *site);
        }
        let mut state = Self {
            compiled,
            now: compiled.snapshot.at,
            memo: Memo::default(),
            occupancy,
            journal: Vec::new(),
            gates: super::fit::Gates::default(),
        };
        for pod in &compiled.snapshot.residents {
            if let Some(node) = compiled.node(&pod.node) {
                let placement = PodPlacement {
                    node,
                    grips: Arc::default(),
                };
                let plain = (pod.cpu_milli, pod.memory_bytes);
                state.occupancy.apply(compiled, &placement, plain, 1);
            }
        }
        for work in 0..compiled.works.len() {
            state.settle_in(work);
        }
        state.journal.clear();
        state
    }

    /// What it is a state of.
    pub fn compiled(&self) -> &'p CompiledFleet {
        self.compiled
    }

    /// The moment that it is at: that of the snapshot, until it is moved.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Moves its moment. Not journalled.
    pub fn set_now(&mut self, now: Moment) {
        self.now = now;
    }

    /// The model of a workload.
    pub fn workload(&self, work: WorkloadId) -> &'p Workload {
        &self.compiled.snapshot.workloads[work]
    }

    /// This point.
    pub fn mark(&self) -> Mark {
        Mark(self.journal.len())
    }

    /// Takes back all that was done since a point.
    pub fn undo_to(&mut self, mark: Mark) {
        while self.journal.len() > mark.0 {
            let Some(undo) = self.journal.pop() else {
                return;
            };
            self.take_back(undo);
        }
    }

    /// Forgets how to go back: what was done so far stays.
    pub fn commit(&mut self) {
        self.journal.clear();
    }

    /// Forgets how to take back what was done since a point: it stays.
    pub(super) fn forget_since(&mut self, mark: Mark) {
        self.journal.truncate(mark.0);
    }

    /// Changes what is used for another of the same compiled fleet, and gives back the one so far. Marks from before hold
    /// again once it is exchanged back; what is done in between is taken back, or stays for good, before that.
    pub fn exchange(&mut self, other: &mut Occupancy) {
        std::mem::swap(&mut self.occupancy, other);
    }

    /// A copy of what is used.
    pub fn occupancy(&self) -> Occupancy {
        self.occupancy.clone()
    }

    fn take_back(&mut self, undo: Undo) {
        match undo {
            Undo::PodPlacement {
                placement,
                want,
                sign,
                condition,
            } => {
                self.apply(&placement, want, -sign);
                self.occupancy.recall(placement.node, condition);
            }
            Undo::Usage(before) => {
                for (at, counted, gross) in before {
                    self.occupancy.usage.counted[at] = counted;
                    self.occupancy.usage.gross[at] = gross;
                }
            }
            Undo::Work(work, standing) => self.occupancy.works[work] = standing,
            Undo::Open(node, open) => {
                self.occupancy.rooms[node].open = open;
                self.occupancy.changes.add(node);
            }
            Undo::Tree(tree, usage) => {
                self.occupancy.tree = tree;
                self.occupancy.usage = *usage;
            }
            Undo::Node => self.occupancy.drop_room(),
        }
    }

    // Workloads.

    /// When a workload that holds something got it, where that is known.
    pub fn since(&self, work: WorkloadId) -> Option<Moment> {
        self.occupancy.works[work].since
    }

    /// Where a workload stands.
    pub fn standing(&self, work: WorkloadId) -> &WorkloadState {
        &self.occupancy.works[work]
    }

    /// What a workload holds.
    pub fn allocation(&self, work: WorkloadId) -> Option<&Arc<Allocation>> {
        self.occupancy.works[work].allocation.as_ref()
    }

    /// Its priority, as it is supposed to be.
    pub fn priority(&self, work: WorkloadId) -> i32 {
        self.occupancy.works[work].priority
    }

    /// Workloads that hold quota or nodes, in order.
    pub fn holders(&self) -> impl Iterator<Item = WorkloadId> + '_ {
        let all = self.occupancy.works.iter().enumerate();
        all.filter(|(_, standing)| standing.allocation.is_some())
            .map(|(work, _)| work)
    }

    /// Workloads that want to start, in order.
    pub fn waiting(&self) -> impl Iterator<Item = WorkloadId> + '_ {
        let all = self.occupancy.works.iter().enumerate();
        all.filter(|(_, standing)| {
            standing.status == Status::Waiting && standing.allocation.is_none()
        })
        .map(|(work, _)| work)
    }

    fn set_standing(&mut self, work: WorkloadId, standing: WorkloadState) {
        let before = std::mem::replace(&mut self.occupancy.works[work], standing);
        self.journal.push(Undo::Work(work, before));
    }

    /// Supposes another priority.
    pub fn set_priority(&mut self, work: WorkloadId, priority: i32) {
        let standing = WorkloadState {
            priority,
            ..self.standing(work).clone()
        };
        self.set_standing(work, standing);
    }

    /// Supposes another status; what it holds stays with it.
    pub fn set_status(&mut self, work: WorkloadId, status: Status) {
        let standing = WorkloadState {
            status,
            ..self.standing(work).clone()
        };
        self.set_standing(work, standing);
    }

    /// Gives a workload what a tenure says, which was found for this state. Nothing is checked.
    pub fn admit(&mut self, work: WorkloadId, allocation: Arc<Allocation>) {
        self.seat_all(work, &allocation);
        self.hold(work, allocation);
    }

    /// Says that a workload holds what was taken for it already.
    pub(crate) fn hold(&mut self, work: WorkloadId, allocation: Arc<Allocation>) {
        let standing = WorkloadState {
            status: Status::Running,
            allocation: Some(allocation),
            priority: self.priority(work),
            since: Some(self.now),
        };
        self.set_standing(work, standing);
    }

    fn seat_all(&mut self, work: WorkloadId, allocation: &Allocation) {
        for (set, held) in self.compiled.works[work].sets.iter().zip(&allocation.sets) {
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

    /// Takes from a workload all that it holds; it waits again. Gives back what it held.
    pub fn evict(&mut self, work: WorkloadId) -> Option<Arc<Allocation>> {
        let allocation = self.occupancy.works[work].allocation.clone()?;
        for (set, held) in self.compiled.works[work].sets.iter().zip(&allocation.sets) {
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

    /// Ends a workload: what it holds is free, and it wants nothing more.
    pub fn finish(&mut self, work: WorkloadId) -> Option<Arc<Allocation>> {
        let allocation = self.evict(work);
        self.set_status(work, Status::Ending);
        allocation
    }

    // Quota.

    /// The tree of queues, with what is supposed of it.
    pub fn tree(&self) -> &Tree {
        &self.occupancy.tree
    }

    /// What is in use of all quotas.
    pub(super) fn usage(&self) -> &Usage {
        &self.occupancy.usage
    }

    /// What a queue may still take of a flavor and resource; below nothing where more is in use than there is.
    pub fn available(&self, queue: QueueId, pair: PairId) -> i64 {
        self.occupancy
            .usage
            .available(&self.occupancy.tree, queue, pair)
    }

    /// What counts against a queue's own and what those below lend it.
    pub fn used(&self, queue: QueueId, pair: PairId) -> i64 {
        self.occupancy
            .usage
            .counted(&self.occupancy.tree, queue, pair)
    }

    /// All that a queue and those below it use.
    pub fn gross(&self, queue: QueueId, pair: PairId) -> i64 {
        self.occupancy
            .usage
            .gross(&self.occupancy.tree, queue, pair)
    }

    /// What a queue uses above its own.
    pub fn borrowed(&self, queue: QueueId, pair: PairId) -> i64 {
        self.occupancy
            .usage
            .borrowed(&self.occupancy.tree, queue, pair)
    }

    /// How high in its tree a queue borrows when it takes so much more: 0 where its own suffices, else the levels below the lowest
    /// cohort around it that has enough of its own; those of the whole tree where none has. Kueue:
    /// `FindHeightOfLowestSubtreeThatFits`.
    pub(super) fn borrow_height(&self, queue: QueueId, pair: PairId, more: i64) -> usize {
        let tree = self.tree();
        let mut left = more;
        for node in tree.path(queue) {
            let quotas = tree.quota(node, pair);
            let used = self.used(node, pair);
            if used.saturating_add(left) <= quotas.subtree {
                return tree.branches[node].height;
            }
            left = (left - (quotas.guaranteed - used).max(0)).max(0);
        }
        tree.branches[tree.branches[queue].root].height
    }

    /// Takes (or, below nothing, gives back) quota of a queue. Nothing is checked.
    pub fn use_quota(&mut self, queue: QueueId, pair: PairId, amount: i64) {
        let Occupancy { tree, usage, .. } = &mut self.occupancy;
        let before = tree
            .path(queue)
            .map(|up| tree.branches[up].base + pair)
            .map(|at| (at, usage.counted[at], usage.gross[at]))
            .collect();
        self.journal.push(Undo::Usage(before));
        if amount >= 0 {
            usage.take(tree, queue, pair, amount);
        } else {
            usage.give(tree, queue, pair, -amount);
        }
    }

    /// Supposes other quotas for a queue; what is in use stays.
    pub fn set_quota(&mut self, queue: QueueId, pair: PairId, quotas: Quotas) {
        let tree = Arc::new(self.occupancy.tree.with(queue, pair, quotas));
        let before = std::mem::replace(&mut self.occupancy.tree, tree);
        let usage = Usage::new(&self.occupancy.tree);
        let usage = std::mem::replace(&mut self.occupancy.usage, usage);
        self.journal.push(Undo::Tree(before, Box::new(usage)));
        let Occupancy {
            tree, usage, works, ..
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

    /// How many nodes there are, supposed ones included.
    pub fn nodes(&self) -> usize {
        self.occupancy.rooms.len()
    }

    /// A node.
    pub fn room(&self, node: NodeId) -> &NodeFree {
        &self.occupancy.rooms[node]
    }

    /// What is left of each unit of a node, in the order of its make, in thousandths.
    pub fn left(&self, node: NodeId) -> &[i32] {
        let room = &self.occupancy.rooms[node];
        let units = self.compiled.makes[room.make].units.len();
        &self.occupancy.left[room.begin..room.begin + units]
    }

    /// Opens or closes a node for new pods.
    pub fn set_open(&mut self, node: NodeId, open: bool) {
        let before = std::mem::replace(&mut self.occupancy.rooms[node].open, open);
        self.occupancy.changes.add(node);
        self.journal.push(Undo::Open(node, before));
    }

    /// Supposes one more node, open and empty, like another: same shape, labels and place.
    pub fn add_node(&mut self, like: NodeId) -> NodeId {
        let origin = self.occupancy.rooms[like].origin;
        let site = super::compiled::CompiledNode {
            open: true,
            ..self.compiled.sites[origin]
        };
        self.occupancy.add_room(self.compiled, origin, site);
        self.journal.push(Undo::Node);
        self.occupancy.rooms.len() - 1
    }

    /// A pod sits down. Nothing is checked.
    pub fn place_pod(&mut self, placement: &PodPlacement, want: usize) {
        let condition = self.apply(placement, want, 1);
        self.journal.push(Undo::PodPlacement {
            placement: placement.clone(),
            want,
            sign: 1,
            condition,
        });
    }

    /// A pod gets up.
    pub fn remove_pod(&mut self, placement: &PodPlacement, want: usize) {
        let condition = self.apply(placement, want, -1);
        self.journal.push(Undo::PodPlacement {
            placement: placement.clone(),
            want,
            sign: -1,
            condition,
        });
    }

    fn apply(&mut self, placement: &PodPlacement, want: usize, sign: i64) -> u32 {
        let ask = &self.compiled.wants[want].ask;
        let plain = (ask.cpu_milli * sign, ask.memory_bytes * sign);
        self.occupancy.apply(self.compiled, placement, plain, sign)
    }

    /// How a pod would do on a node.
    pub(super) fn look(&mut self, node: NodeId, want: usize) -> Look {
        let condition = self
            .occupancy
            .condition(self.compiled, &mut self.memo, node);
        self.memo.look(self.compiled, want, condition)
    }

    /// Says which nodes are kept for somebody.
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

    /// Whether a node is open, and not kept for others where that counts.
    pub(super) fn takes_pods(&self, node: NodeId) -> bool {
        let Occupancy { beside, kept, .. } = &self.occupancy;
        self.room(node).open && !(*beside && kept.contains(&node))
    }

    /// Whether nodes that are kept for somebody count as closed.
    pub(super) fn set_beside(&mut self, beside: bool) {
        self.occupancy.beside = beside;
    }

    /// Whole units of a resource that nobody holds, on open nodes.
    pub fn free_units(&self, resource: ResourceId) -> usize {
        let free = |node: NodeId| {
            let room = self.room(node);
            let units = self.compiled.makes[room.make].units.iter();
            let whole = units.zip(self.left(node)).filter(|(unit, left)| {
                unit.resource == resource && unit.sound && **left == super::snapshot::WHOLE
            });
            if room.open { whole.count() } else { 0 }
        };
        (0..self.nodes()).map(free).sum()
    }

    /// The flavors whose labels a node carries.
    pub fn flavors_of(&self, node: NodeId) -> impl Iterator<Item = FlavorId> + '_ {
        let origin = self.occupancy.rooms[node].origin;
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
