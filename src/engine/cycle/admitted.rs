//! Admitted workloads that have no pod on a node yet: they take free capacity first.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::compiled::{CompiledFleet, QueueId, WorkloadId};
use crate::fit::Relaxation;
use crate::snapshot::Status;
use crate::state::{Allocation, PodSetAllocation, State};

use super::{are_flat, is_kueue};

/// Admitted workloads with no pod on a node, in the scheduler's order: by priority, then by admission time.
/// `fresh` were admitted in this cycle, so they come last.
pub(crate) fn unplaced(state: &State<'_>, fresh: &[WorkloadId]) -> Vec<WorkloadId> {
    lacking(state, fresh, |allocation| allocation.pods() == 0)
}

/// Admitted workloads whose allocation matches a predicate, in the same order.
fn lacking(
    state: &State<'_>,
    fresh: &[WorkloadId],
    lacks: impl Fn(&Allocation) -> bool,
) -> Vec<WorkloadId> {
    let all = state.holders();
    let mut all: Vec<WorkloadId> = all
        .filter(|work| waits_for_nodes(state, fresh, *work, &lacks))
        .collect();
    in_order(state, &mut all);
    all
}

/// Whether a workload is admitted and its allocation matches a predicate.
fn waits_for_nodes(
    state: &State<'_>,
    fresh: &[WorkloadId],
    work: WorkloadId,
    lacks: impl Fn(&Allocation) -> bool,
) -> bool {
    let model = state.workload(work);
    let lacks = state
        .allocation(work)
        .is_some_and(|allocation| lacks(allocation));
    let waits = model.status == Status::Running || fresh.contains(&work);
    lacks && waits && model.blocked.is_none() && model.device_count() > 0
}

fn in_order(state: &State<'_>, works: &mut [WorkloadId]) {
    works.sort_by_key(|work| {
        let model = state.workload(*work);
        let quota_reserved = (model.admitted_at.is_none(), model.admitted_at);
        (Reverse(state.priority(*work)), quota_reserved, *work)
    });
}

/// Workloads that were admitted and had no pod on a node at the first query in a cycle. During the cycle this list only
/// shrinks; workloads whose quota is reserved in the cycle are appended.
#[derive(Debug, Default)]
pub(super) struct Unplaced(Option<Vec<WorkloadId>>);

impl Unplaced {
    /// Computes the list. Call it while no preemption is being simulated.
    pub(super) fn learn(&mut self, state: &State<'_>) {
        self.0.get_or_insert_with(|| unplaced(state, &[]));
    }

    /// Same result as [`unplaced`].
    fn now(&self, state: &State<'_>, fresh: &[WorkloadId]) -> Vec<WorkloadId> {
        let Some(known) = self.0.as_ref().filter(|_| state.nodes() > 0) else {
            // A fleet without nodes has no placements.
            return unplaced(state, fresh);
        };
        let mut all: Vec<WorkloadId> = known.iter().chain(fresh).copied().collect();
        all.sort_unstable();
        all.dedup();
        all.retain(|work| waits_for_nodes(state, fresh, *work, |held| held.pods() == 0));
        in_order(state, &mut all);
        all
    }
}

/// Places admitted workloads that have no pod on a node, as the scheduler does before any new workload: returns those that were
/// placed and those that were not.
pub fn place(
    state: &mut State<'_>,
    quota_reserved: &[WorkloadId],
) -> (Vec<(WorkloadId, Arc<Allocation>)>, Vec<WorkloadId>) {
    let all = unplaced(state, quota_reserved);
    seat_these(state, all)
}

fn seat_these(
    state: &mut State<'_>,
    all: Vec<WorkloadId>,
) -> (Vec<(WorkloadId, Arc<Allocation>)>, Vec<WorkloadId>) {
    let (mut placed, mut unplaced) = (Vec::new(), Vec::new());
    for work in all {
        match seat_whole(state, work) {
            Some(allocation) => placed.push((work, allocation)),
            None => unplaced.push(work),
        }
    }
    (placed, unplaced)
}

/// Relaxation for workloads that already have quota: nodes are searched without quota checks.
fn past_quota() -> Relaxation {
    Relaxation {
        no_quota: true,
        ..Relaxation::default()
    }
}

/// Places all pods of an admitted workload; if the nodes do not suffice, the state is unchanged.
fn seat_whole(state: &mut State<'_>, work: WorkloadId) -> Option<Arc<Allocation>> {
    let mark = state.mark();
    state.evict(work);
    let allocation = state.start(work, &past_quota()).ok();
    if allocation.is_none() {
        state.undo_to(mark);
    }
    allocation
}

/// Binds the pods of admitted workloads one by one, as a scheduler without gang scheduling does: a workload that cannot place all
/// its pods still takes capacity from the next one. Returns workloads that had no pod on a node and now have all of them.
/// Afterwards the state may only be read: the additional pods are recorded in no allocation.
pub fn bind(state: &mut State<'_>, quota_reserved: &[WorkloadId]) -> Vec<WorkloadId> {
    let lacks = |set: &PodSetAllocation| set.count as usize > set.placements.len();
    let some = lacking(state, quota_reserved, |allocation| {
        allocation.sets.iter().any(lacks)
    });
    let mut whole = Vec::new();
    for work in some {
        let Some(allocation) = state.allocation(work).cloned() else {
            continue;
        };
        if allocation.pods() == 0 && seat_whole(state, work).is_some() {
            whole.push(work);
            continue;
        }
        let Some(queue) = allocation.queue else {
            continue;
        };
        for (set, held) in allocation.sets.iter().enumerate() {
            let most = held.count.saturating_sub(held.placements.len() as u32);
            state.start_fewer(work, set, queue, &held.flavors, (1, most), &past_quota());
        }
    }
    whole
}

/// Whether a queue is Kueue's and none of its flavors has a topology, so that admission ignores nodes.
pub(super) fn looks_at_quota_alone(compiled: &CompiledFleet, queue: QueueId) -> bool {
    let mut groups = compiled.tree.branches[queue].groups.iter();
    is_kueue(compiled, queue) && groups.all(|group| are_flat(compiled, &group.flavors))
}

/// The allocation of an admitted workload after placement on nodes, once the workloads that wait for nodes and precede it
/// are placed. The state is unchanged.
pub(super) fn placed(
    state: &mut State<'_>,
    work: WorkloadId,
    queue: QueueId,
    allocation: &Allocation,
    (known, quota_reserved): (&Unplaced, &[WorkloadId]),
) -> Option<Allocation> {
    let flavors: Vec<_> = allocation
        .sets
        .iter()
        .map(|set| set.flavors.clone())
        .collect();
    let counts: Vec<u32> = allocation.sets.iter().map(|set| set.count).collect();
    let compiled = state.compiled();
    let mark = state.mark();
    let mut before = known.now(state, quota_reserved);
    debug_assert_eq!(before, unplaced(state, quota_reserved));
    // A changed workload priority does not change its pods' priority, so no more of the waiting workloads come after it.
    let own = state.priority(work).min(compiled.workload(work).priority);
    before.retain(|other| state.priority(*other) >= own);
    seat_these(state, before);
    let placed = state.start_with(work, queue, &flavors, &counts, &Relaxation::default());
    state.undo_to(mark);
    placed
}
