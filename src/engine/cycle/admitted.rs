//! Admitted workloads that have no pod on a node yet: they take free capacity first.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::compiled::WorkloadId;
use crate::fit::{Miss, Relaxation};
use crate::snapshot::Status;
use crate::state::{Allocation, PodSetAllocation, State};

/// Workloads that have quota and no pod on a node, in the scheduler's order: by priority, then by the time at which they got it.
pub fn unplaced(state: &State<'_>) -> Vec<WorkloadId> {
    lacking(state, |allocation| allocation.pods() == 0)
}

/// Admitted workloads whose allocation matches a predicate, in the same order.
fn lacking(state: &State<'_>, lacks: impl Fn(&Allocation) -> bool) -> Vec<WorkloadId> {
    if state.nodes() == 0 {
        // A fleet without nodes has no placements.
        return Vec::new();
    }
    let all = state.holders();
    let mut all: Vec<WorkloadId> = all
        .filter(|work| waits_for_nodes(state, *work, &lacks))
        .collect();
    in_order(state, &mut all);
    all
}

/// Whether a workload has quota and its allocation matches a predicate.
fn waits_for_nodes(
    state: &State<'_>,
    work: WorkloadId,
    lacks: impl Fn(&Allocation) -> bool,
) -> bool {
    let model = state.workload(work);
    let standing = state.workload_state(work);
    let lacks = standing
        .allocation
        .as_ref()
        .is_some_and(|allocation| lacks(allocation));
    // Without devices, the pods of what has quota already may not be in the fleet.
    let is_known = model.device_count() > 0 || model.status == Status::Waiting;
    lacks && standing.status == Status::Running && model.blocked.is_none() && is_known
}

fn in_order(state: &State<'_>, works: &mut [WorkloadId]) {
    works.sort_by_key(|work| {
        let since = state.since(*work);
        (
            Reverse(state.priority(*work)),
            since.is_none(),
            since,
            *work,
        )
    });
}

/// Workloads that had quota and no pod on a node at the first query in a cycle. During the cycle this list only shrinks; those
/// that get quota in the cycle are appended.
#[derive(Debug, Default)]
pub(super) struct Unplaced(Option<Vec<WorkloadId>>);

impl Unplaced {
    /// Same result as [`unplaced`].
    fn now(&mut self, state: &State<'_>, fresh: &[WorkloadId]) -> Vec<WorkloadId> {
        let known = self.0.get_or_insert_with(|| unplaced(state));
        let mut all: Vec<WorkloadId> = known.iter().chain(fresh).copied().collect();
        all.sort_unstable();
        all.dedup();
        all.retain(|work| waits_for_nodes(state, *work, |held| held.pods() == 0));
        in_order(state, &mut all);
        all
    }
}

/// Places workloads that have quota and no pod on a node, as the scheduler does before any new workload: returns those that were
/// placed and those that were not.
pub fn place(state: &mut State<'_>) -> (Vec<(WorkloadId, Arc<Allocation>)>, Vec<WorkloadId>) {
    let all = unplaced(state);
    place_these(state, all)
}

/// The same for some of them, in this order.
pub(super) fn place_these(
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

/// Places all pods of an admitted workload, in its flavors; if the nodes do not suffice, the state is unchanged.
fn seat_whole(state: &mut State<'_>, work: WorkloadId) -> Option<Arc<Allocation>> {
    let mark = state.mark();
    let held = state.evict(work)?;
    let Ok(allocation) = state.place_as(work, &held, &past_quota()) else {
        state.undo_to(mark);
        return None;
    };
    let allocation = Arc::new(allocation);
    state.admit(work, allocation.clone());
    Some(allocation)
}

/// Binds the pods of admitted workloads one by one, as a scheduler without gang scheduling does: a workload that cannot place all
/// its pods still takes capacity from the next one. Returns workloads that had no pod on a node and now have all of them.
/// Afterwards the state may only be read: the additional pods are recorded in no allocation.
pub fn bind(state: &mut State<'_>) -> Vec<WorkloadId> {
    let lacks = |set: &PodSetAllocation| set.count as usize > set.placements.len();
    let some = lacking(state, |allocation| allocation.sets.iter().any(lacks));
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

/// Nodes for a workload that gets quota now, once those that wait for nodes and precede it are placed. The state is unchanged.
///
/// # Errors
/// The sets of pods that fit no nodes.
pub(super) fn unplaced_first(
    (known, fresh): (&mut Unplaced, &[WorkloadId]),
    state: &mut State<'_>,
    work: WorkloadId,
    allocation: &Allocation,
) -> Result<Allocation, Vec<Miss>> {
    let mut before = known.now(state, fresh);
    debug_assert_eq!(before, unplaced(state));
    let mark = state.mark();
    // A changed workload priority does not change its pods' priority, so no more of the waiting workloads come after it.
    let own = state
        .priority(work)
        .min(state.compiled().workload(work).priority);
    before.retain(|other| state.priority(*other) >= own);
    place_these(state, before);
    let placed = state.place_as(work, allocation, &Relaxation::default());
    state.undo_to(mark);
    placed
}
