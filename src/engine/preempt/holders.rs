//! Workloads with allocations, with the fields that every search for victims reads stored contiguously: most searches on a
//! large fleet examine nearly all running workloads and select few.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::sync::Arc;

use crate::compiled::{QueueId, WorkloadId};
use crate::snapshot::Status;
use crate::state::{Allocation, Gate, State};
use model::base::Moment;

use super::candidate::uses;
use super::search_context::SearchContext;

/// Pair and zone numbers are bits of a mask; greater numbers share bits.
const BITS: usize = 64;

/// Order of candidates of one side, as Kueue's `CandidatesOrdering`: those being evicted first, then lower priority, then more
/// recently admitted ones before others.
pub(super) type Rank = (bool, i32, Reverse<Moment>, WorkloadId);

/// A workload with an allocation that may be preempted in principle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) work: WorkloadId,
    pub(super) priority: i32,
    pub(super) created: Moment,
    /// Start of its allocation, if known.
    pub(super) since: Option<Moment>,
    /// It is being evicted already.
    pub(super) ending: bool,
    /// Whether an operator can stop it.
    pub(super) can_suspend: bool,
    /// Mask of the pairs of its queue tree that it uses.
    pairs: u64,
    /// Mask of the zones of open nodes with its pods.
    zones: u64,
}

impl Holder {
    fn of(state: &State<'_>, work: WorkloadId) -> Option<Self> {
        let standing = state.workload_state(work);
        let allocation = standing.allocation.as_ref()?;
        let model = state.workload(work);
        let ending = standing.status == Status::Ending;
        if !ending && (standing.status != Status::Running || !model.preemptible) {
            return None;
        }
        let used = allocation.usage.iter().filter(|(_, amount)| *amount > 0);
        Some(Self {
            work,
            priority: standing.priority,
            created: model.created,
            since: standing.since,
            ending,
            can_suspend: model.mutations.suspend,
            pairs: used.fold(0, |bits, (pair, _)| bits | bit(*pair)),
            zones: zones(state, allocation).fold(0, |bits, zone| bits | bit(zone)),
        })
    }

    /// Rank among candidates of its side.
    pub(super) fn rank(&self, now: Moment) -> Rank {
        let since = Reverse(self.since.unwrap_or(now));
        (!self.ending, self.priority, since, self.work)
    }

    /// Whether it still has its allocation.
    pub(super) fn is_there(&self, state: &State<'_>) -> bool {
        state.allocation(self.work).is_some()
    }
}

const fn bit(number: usize) -> u64 {
    1 << (number % BITS)
}

/// The zones of the open nodes of a workload's pods.
fn zones<'a>(state: &'a State<'_>, allocation: &'a Allocation) -> impl Iterator<Item = usize> + 'a {
    let placements = allocation.sets.iter().flat_map(|set| &set.placements);
    let rooms = placements.map(|placement| state.node_free(placement.node));
    let open = rooms.filter(|room| room.open);
    open.map(|room| state.compiled().node_shapes[room.node_shape].zone)
}

/// Workloads with allocations, by queue. Workloads evicted since then are skipped.
#[derive(Debug)]
pub(crate) struct Holders(Vec<OfQueue>);

#[derive(Debug, Default)]
struct OfQueue {
    works: Vec<WorkloadId>,
    /// By rank; computed on first use of the queue.
    known: OnceCell<Vec<Holder>>,
}

impl Holders {
    /// Starts from the current state.
    pub(crate) fn new(state: &State<'_>) -> Self {
        let branches = state.tree().branches.iter();
        let mut queues: Vec<OfQueue> = branches.map(|_| OfQueue::default()).collect();
        for work in state.holders() {
            let allocation = state.allocation(work);
            if let Some(queue) = allocation.and_then(|allocation| allocation.queue) {
                queues[queue].works.push(work);
            }
        }
        Self(queues)
    }

    /// Only those that are being evicted already; none if there are none.
    pub(crate) fn ending(state: &State<'_>) -> Option<Self> {
        let is_ending = |work: &WorkloadId| state.workload_state(*work).status == Status::Ending;
        let mut all = Self::new(state);
        for of in &mut all.0 {
            of.works.retain(is_ending);
        }
        all.0.iter().any(|of| !of.works.is_empty()).then_some(all)
    }

    /// Queues with at least one allocation.
    pub(super) fn queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        let all = self.0.iter().enumerate();
        all.filter(|(_, of)| !of.works.is_empty())
            .map(|(queue, _)| queue)
    }

    /// Workloads of a queue that may be preempted in principle, by rank.
    pub(super) fn of_queue(&self, state: &State<'_>, queue: QueueId) -> &[Holder] {
        let of = &self.0[queue];
        of.known.get_or_init(|| {
            let works = of.works.iter();
            let mut known: Vec<Holder> =
                works.filter_map(|work| Holder::of(state, *work)).collect();
            known.sort_unstable_by_key(|holder| holder.rank(state.now()));
            known
        })
    }
}

/// What a preemption must release to be useful: quota that is short, or capacity on eligible nodes.
pub(super) struct UsefulRelease {
    gates: Vec<Arc<Gate>>,
    pairs: u64,
    zones: u64,
    /// No two numbers share a bit.
    is_exact: bool,
}

impl UsefulRelease {
    pub(super) fn new(state: &State<'_>, context: &SearchContext, gates: Vec<Arc<Gate>>) -> Self {
        let zones = state.compiled().zones.len();
        let open = (0..zones).filter(|zone| gates.iter().any(|gate| gate[*zone]));
        Self {
            pairs: context.short.iter().fold(0, |bits, pair| bits | bit(*pair)),
            zones: open.fold(0, |bits, zone| bits | bit(zone)),
            is_exact: zones <= BITS && state.tree().pairs_of(context.queue).len() <= BITS,
            gates,
        }
    }

    /// Whether evicting a workload releases something that the preemptor lacks; `same_tree` if both queues are in one tree.
    pub(super) fn is_of(
        &self,
        state: &State<'_>,
        context: &SearchContext,
        holder: &Holder,
        same_tree: bool,
    ) -> bool {
        let allocation = || state.allocation(holder.work);
        let uses_short = || {
            let mut short = context.short.iter();
            allocation().is_some_and(|held| short.any(|pair| uses(held, *pair) > 0))
        };
        let quota = same_tree && self.pairs & holder.pairs != 0 && (self.is_exact || uses_short());
        if !context.by_hand && (context.by_quota || !quota && !context.short.is_empty()) {
            return quota;
        }
        if quota && context.by_quota {
            return true;
        }
        // Only node capacity is short.
        let has_room = || {
            let may_go = |zone: usize| self.gates.iter().any(|gate| gate[zone]);
            allocation().is_some_and(|held| zones(state, held).any(may_go))
        };
        self.zones & holder.zones != 0 && (self.is_exact || has_room())
    }
}
