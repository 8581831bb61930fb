//! Those that their queue has admitted and that have no pod on a node yet: theirs is the room that becomes free.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::compiled::{CompiledFleet, QueueId, WorkloadId};
use crate::fit::Relaxation;
use crate::snapshot::Status;
use crate::state::{Allocation, PodSetAllocation, State};

use super::{are_flat, is_kueue};

/// Those that are admitted and have no pod on a node, as the scheduler takes them: by priority, then as they were admitted.
/// `fresh` are those of this moment, so the last.
pub(crate) fn unplaced(state: &State<'_>, fresh: &[WorkloadId]) -> Vec<WorkloadId> {
    lacking(state, fresh, |allocation| allocation.pods() == 0)
}

/// Those that are admitted and whose pods have nodes as something says, in that order.
fn lacking(
    state: &State<'_>,
    fresh: &[WorkloadId],
    lacks: impl Fn(&Allocation) -> bool,
) -> Vec<WorkloadId> {
    let compiled = state.compiled();
    let mut all: Vec<WorkloadId> = state
        .holders()
        .filter(|work| {
            let model = compiled.workload(*work);
            let lacks = state
                .allocation(*work)
                .is_some_and(|allocation| lacks(allocation));
            let waits = model.status == Status::Running || fresh.contains(work);
            lacks && waits && model.device_count() > 0
        })
        .collect();
    all.sort_by_key(|work| {
        let model = compiled.workload(*work);
        let quota_reserved = (model.admitted_at.is_none(), model.admitted_at);
        (Reverse(state.priority(*work)), quota_reserved, *work)
    });
    all
}

/// Gives those that were admitted and have no pod on a node their nodes, as the scheduler does before anybody new comes: who found
/// room, and who did not.
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

/// How nodes are looked at for those who have their quota.
fn past_quota() -> Relaxation {
    Relaxation {
        no_quota: true,
        ..Relaxation::default()
    }
}

/// Gives one that was admitted nodes for its pods; where they do not suffice, the state is as before.
fn seat_whole(state: &mut State<'_>, work: WorkloadId) -> Option<Arc<Allocation>> {
    let mark = state.mark();
    state.evict(work);
    let allocation = state.start(work, &past_quota()).ok();
    if allocation.is_none() {
        state.undo_to(mark);
    }
    allocation
}

/// Lets those that were admitted and lack pods on nodes take what there is as a scheduler without gangs does: pod by pod, so that
/// one that lacks room for all of its pods holds what the next would have had. Who had none and has all of them then. No more than
/// looking can be done with the state afterwards: what some hold more is in no tenure.
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

/// Whether a queue is Kueue's and none of its flavors has a topology, so that nodes are no matter of it.
pub(super) fn looks_at_quota_alone(compiled: &CompiledFleet, queue: QueueId) -> bool {
    let mut groups = compiled.tree.branches[queue].groups.iter();
    is_kueue(compiled, queue) && groups.all(|group| are_flat(compiled, &group.flavors))
}

/// What one that is admitted with an allocation would have with places on nodes, once those have theirs that wait for nodes already
/// and go before it. The state stays as it is.
pub(super) fn placed(
    state: &mut State<'_>,
    work: WorkloadId,
    queue: QueueId,
    allocation: &Allocation,
    quota_reserved: &[WorkloadId],
) -> Option<Allocation> {
    let flavors: Vec<_> = allocation
        .sets
        .iter()
        .map(|set| set.flavors.clone())
        .collect();
    let counts: Vec<u32> = allocation.sets.iter().map(|set| set.count).collect();
    let compiled = state.compiled();
    let mark = state.mark();
    let mut before = unplaced(state, quota_reserved);
    // Another priority in its queue is none of its pods: no more of those who wait for nodes stand behind it then.
    let own = state.priority(work).min(compiled.workload(work).priority);
    before.retain(|other| state.priority(*other) >= own);
    seat_these(state, before);
    let placed = state.start_with(work, queue, &flavors, &counts, &Relaxation::default());
    state.undo_to(mark);
    placed
}
