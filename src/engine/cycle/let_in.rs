//! Those that their queue has let in and that have no pod on a node yet: theirs is the room that becomes free.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::fit::Lens;
use crate::plant::{Plant, QueueId, WorkId};
use crate::snapshot::Status;
use crate::state::{SetTenure, State, Tenure};

use super::{are_flat, is_kueue};

/// Those that are let in and have no pod on a node, as the scheduler takes them: by priority, then as they were let in.
/// `fresh` are those of this moment, so the last.
pub(crate) fn unseated(state: &State<'_>, fresh: &[WorkId]) -> Vec<WorkId> {
    lacking(state, fresh, |tenure| tenure.pods() == 0)
}

/// Those that are let in and whose pods have nodes as something says, in that order.
fn lacking(state: &State<'_>, fresh: &[WorkId], lacks: impl Fn(&Tenure) -> bool) -> Vec<WorkId> {
    let plant = state.plant();
    let mut all: Vec<WorkId> = state
        .holders()
        .filter(|work| {
            let model = plant.workload(*work);
            let lacks = state.tenure(*work).is_some_and(|tenure| lacks(tenure));
            let waits = model.status == Status::Running || fresh.contains(work);
            lacks && waits && model.device_count() > 0
        })
        .collect();
    all.sort_by_key(|work| {
        let model = plant.workload(*work);
        let let_in = (model.admitted_at.is_none(), model.admitted_at);
        (Reverse(state.priority(*work)), let_in, *work)
    });
    all
}

/// Gives those that were let in and have no pod on a node their nodes, as the scheduler does before anybody new comes: who found
/// room, and who did not.
pub fn seat(state: &mut State<'_>, let_in: &[WorkId]) -> (Vec<(WorkId, Arc<Tenure>)>, Vec<WorkId>) {
    let all = unseated(state, let_in);
    seat_these(state, all)
}

fn seat_these(
    state: &mut State<'_>,
    all: Vec<WorkId>,
) -> (Vec<(WorkId, Arc<Tenure>)>, Vec<WorkId>) {
    let (mut seated, mut unseated) = (Vec::new(), Vec::new());
    for work in all {
        match seat_whole(state, work) {
            Some(tenure) => seated.push((work, tenure)),
            None => unseated.push(work),
        }
    }
    (seated, unseated)
}

/// How nodes are looked at for those who have their quota.
fn past_quota() -> Lens {
    Lens {
        no_quota: true,
        ..Lens::default()
    }
}

/// Gives one that was let in nodes for its pods; where they do not suffice, the state is as before.
fn seat_whole(state: &mut State<'_>, work: WorkId) -> Option<Arc<Tenure>> {
    let mark = state.mark();
    state.evict(work);
    let tenure = state.start(work, &past_quota()).ok();
    if tenure.is_none() {
        state.undo_to(mark);
    }
    tenure
}

/// Lets those that were let in and lack pods on nodes take what there is as a scheduler without gangs does: pod by pod, so that
/// one that lacks room for all of its pods holds what the next would have had. Who had none and has all of them then. No more than
/// looking can be done with the state afterwards: what some hold more is in no tenure.
pub fn grab(state: &mut State<'_>, let_in: &[WorkId]) -> Vec<WorkId> {
    let lacks = |set: &SetTenure| set.count as usize > set.seats.len();
    let some = lacking(state, let_in, |tenure| tenure.sets.iter().any(lacks));
    let mut whole = Vec::new();
    for work in some {
        let Some(tenure) = state.tenure(work).cloned() else {
            continue;
        };
        if tenure.pods() == 0 && seat_whole(state, work).is_some() {
            whole.push(work);
            continue;
        }
        let Some(queue) = tenure.queue else {
            continue;
        };
        for (set, held) in tenure.sets.iter().enumerate() {
            let most = held.count.saturating_sub(held.seats.len() as u32);
            state.start_fewer(work, set, queue, &held.flavors, (1, most), &past_quota());
        }
    }
    whole
}

/// Whether a queue is Kueue's and none of its flavors has a topology, so that nodes are no matter of it.
pub(super) fn looks_at_quota_alone(plant: &Plant, queue: QueueId) -> bool {
    let mut groups = plant.tree.branches[queue].groups.iter();
    is_kueue(plant, queue) && groups.all(|group| are_flat(plant, &group.flavors))
}

/// What one that is let in with a tenure would have with places on nodes, once those have theirs that wait for nodes already
/// and go before it. The state stays as it is.
pub(super) fn seated(
    state: &mut State<'_>,
    work: WorkId,
    queue: QueueId,
    tenure: &Tenure,
    let_in: &[WorkId],
) -> Option<Tenure> {
    let flavors: Vec<_> = tenure.sets.iter().map(|set| set.flavors.clone()).collect();
    let counts: Vec<u32> = tenure.sets.iter().map(|set| set.count).collect();
    let plant = state.plant();
    let mark = state.mark();
    let mut before = unseated(state, let_in);
    // Another priority in its queue is none of its pods: no more of those who wait for nodes stand behind it then.
    let own = state.priority(work).min(plant.workload(work).priority);
    before.retain(|other| state.priority(*other) >= own);
    seat_these(state, before);
    let seated = state.start_with(work, queue, &flavors, &counts, &Lens::default());
    state.undo_to(mark);
    seated
}
