//! Who would take what victims free before the job can that they leave for.

use std::collections::BTreeSet;

use engine::compiled::{CompiledFleet, WorkloadId};
use engine::snapshot::{Snapshot, Status, System};
use engine::state::State;

use super::effect::FirstCycle;
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
    pub(super) fn of(snapshot: &Snapshot, work: WorkloadId, victims: &[WorkloadId]) -> Self {
        let none = Self {
            hold: Vec::new(),
            more: false,
        };
        if victims.len() < 2 {
            return none;
        }
        let compiled = &CompiledFleet::new(snapshot.clone());
        let mut state = State::new(compiled);
        let mark = state.mark();
        let anyway = FirstCycle::of(&mut state, &[]).admitted();
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
                    let fresh = FirstCycle::of(&mut state, &[]).admitted();
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

/// It waits in a queue of Kueue without quota, so its Workload can be made inactive and nothing is lost.
fn can_hold(compiled: &CompiledFleet, work: WorkloadId) -> bool {
    let model = compiled.workload(work);
    model.status == Status::Waiting && planner_context::admission(model, System::Kueue).is_some()
}
