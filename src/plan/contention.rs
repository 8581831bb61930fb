//! Who starts at once may hang on who comes first: queues admit while the pods that leave still end, and pods without gang
//! scheduling take what becomes free one by one. A plan looks at that order of things too, and does not claim what only one has.

use std::collections::BTreeSet;

use engine::compiled::{CompiledFleet, NodeId, WorkloadId};
use engine::cycle::{self, Options};
use engine::snapshot::{Status, System};
use engine::state::State;
use model::fleet::job::JobKey;

use super::planner_context;

/// So many waiting jobs are held back for one that starts; where more would take what becomes free, none is.
const HELD_BACK: usize = 20;

/// Which waiting jobs would be admitted while victims leave one after the other, and so take quota or nodes before `work` can have
/// them. Empty for one victim: then all of it becomes free at once.
pub(super) struct Rivals {
    /// Those that can be kept from it, by the `active` field of their Workload; at most [`HELD_BACK`].
    pub(super) hold: Vec<WorkloadId>,
    /// There are others: no queue of Kueue keeps them, or they are too many.
    pub(super) more: bool,
}

impl Rivals {
    /// Looks at the fleet after each victim, in the order given and in the reverse one: which ends first is not known.
    pub(super) fn of(compiled: &CompiledFleet, work: WorkloadId, victims: &[WorkloadId]) -> Self {
        let none = Self {
            hold: Vec::new(),
            more: false,
        };
        if victims.len() < 2 {
            return none;
        }
        let mut state = State::new(compiled);
        let mark = state.mark();
        let anyway = admitted(&mut state);
        let mut rivals: BTreeSet<WorkloadId> = BTreeSet::new();
        let mut more = false;
        for backwards in [false, true] {
            state.undo_to(mark);
            for rival in &rivals {
                state.set_status(*rival, Status::Held);
            }
            for step in 1..victims.len() {
                let at = match backwards {
                    true => victims.len() - step,
                    false => step - 1,
                };
                state.evict(victims[at]);
                state.set_status(victims[at], Status::Held);
                loop {
                    let mark = state.mark();
                    let fresh = admitted(&mut state);
                    state.undo_to(mark);
                    let taken = fresh
                        .iter()
                        .filter(|it| **it != work && !anyway.contains(it));
                    let held: Vec<WorkloadId> = taken
                        .clone()
                        .copied()
                        .filter(|it| can_hold(compiled, *it) && !rivals.contains(it))
                        .collect();
                    more |= taken.count() > held.len();
                    if held.is_empty() {
                        break;
                    }
                    for rival in held {
                        state.set_status(rival, Status::Held);
                        rivals.insert(rival);
                    }
                    if rivals.len() > HELD_BACK {
                        return Self { more: true, ..none };
                    }
                }
            }
        }
        Self {
            hold: rivals.into_iter().collect(),
            more,
        }
    }
}

/// Whom a cycle starts, and to whom it gives quota.
fn admitted(state: &mut State<'_>) -> BTreeSet<WorkloadId> {
    let (seated, _) = cycle::place(state, &[]);
    let options = Options {
        quota_alone: true,
        ..Options::default()
    };
    let cycle = cycle::cycle(state, options);
    let seated = seated.into_iter().map(|(work, _)| work);
    let fresh = cycle.admitted.into_iter().map(|admission| admission.work);
    seated.chain(fresh).chain(cycle.quota_reserved).collect()
}

/// It waits in a queue of Kueue without quota, so its Workload can be made inactive and nothing is lost.
fn can_hold(compiled: &CompiledFleet, work: WorkloadId) -> bool {
    let model = compiled.workload(work);
    model.status == Status::Waiting && planner_context::admission(model, System::Kueue).is_some()
}

/// Who starts at once where some are out of their queues while these admit others: a job of Kueue that is requeued is inactive, and
/// has no quota, from when it stops until it is active again.
pub(super) fn start_in_gap(compiled: &CompiledFleet, away: &[WorkloadId]) -> BTreeSet<JobKey> {
    let mut state = State::new(compiled);
    let options = Options {
        quota_alone: true,
        ..Options::default()
    };
    for work in away {
        state.set_status(*work, Status::Held);
    }
    let (seated, _) = cycle::place(&mut state, &[]);
    let first = cycle::cycle(&mut state, options);
    for work in away {
        state.set_status(*work, Status::Waiting);
    }
    let (more, _) = cycle::place(&mut state, &first.quota_reserved);
    let then = cycle::cycle(&mut state, options);
    let admitted = first.admitted.iter().chain(&then.admitted);
    let seated = seated.iter().chain(&more).map(|(work, _)| *work);
    let started = admitted.map(|admission| admission.work).chain(seated);
    started
        .map(|work| compiled.workload(work).key.clone())
        .collect()
}

/// Who starts at once where queues have admitted who comes next before anybody has a node: then all that are admitted take nodes by
/// priority, and gangs hold some of what they need.
pub(super) fn start_late(compiled: &CompiledFleet) -> BTreeSet<JobKey> {
    let mut state = State::new(compiled);
    let options = Options {
        quota_alone: true,
        ..Options::default()
    };
    let all = 0..state.nodes();
    let open: Vec<NodeId> = all.filter(|node| state.room(*node).open).collect();
    for node in &open {
        state.set_open(*node, false);
    }
    let first = cycle::cycle(&mut state, options);
    for node in &open {
        state.set_open(*node, true);
    }
    let grabbed = cycle::bind(&mut state, &first.quota_reserved);
    let then = cycle::cycle(&mut state, options);
    let admitted = first.admitted.iter().chain(&then.admitted);
    let started = admitted.map(|admission| admission.work).chain(grabbed);
    let key = |work: WorkloadId| compiled.workload(work).key.clone();
    started.map(key).collect()
}
