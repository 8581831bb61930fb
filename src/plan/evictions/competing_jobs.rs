//! Rivals: waiting jobs that would take what evicted jobs free before the intended job can.

use std::collections::BTreeSet;

use engine::compiled::{CompiledFleet, WorkloadId};
use engine::explanations;
use engine::snapshot::{Snapshot, Status, System};
use engine::state::State;

use crate::effects::effect::{FirstCycle, Then};
use crate::planner_context;
use crate::priority_raise::above_all;

/// Most waiting jobs that are put on hold for one that starts; where more compete, none is.
const HELD_BACK: usize = 20;

/// Waiting jobs that would be admitted while victims end one after the other, and so take quota or nodes before `work` can; and
/// those that would take them once all victims have ended, because their queues need not borrow and so come first.
pub(crate) struct Rivals {
    /// Jobs that can be put on hold by the `active` field of their Workload; at most [`HELD_BACK`].
    pub(crate) hold: Vec<WorkloadId>,
    /// There are others: they have no Kueue queue, or they are too many.
    pub(crate) more: bool,
}

impl Rivals {
    /// Simulates the fleet after each victim, in the given order and in reverse: which one ends first is unknown. The devices of
    /// one victim become free at once.
    pub(crate) fn of(snapshot: &Snapshot, work: WorkloadId, victims: &[WorkloadId]) -> Self {
        Self::until(snapshot, work, victims, victims.len().saturating_sub(1))
    }

    /// As [`Self::of`], where only nodes are short: no queue reserves what the last victim frees, and the pods of a small job may
    /// be scheduled before all pods of a gang.
    pub(crate) fn of_nodes(snapshot: &Snapshot, work: WorkloadId, victims: &[WorkloadId]) -> Self {
        Self::until(snapshot, work, victims, victims.len())
    }

    /// Simulates the end of the first `steps` victims.
    fn until(snapshot: &Snapshot, work: WorkloadId, victims: &[WorkloadId], steps: usize) -> Self {
        let compiled = &CompiledFleet::new(snapshot.clone());
        let mut state = State::new(compiled);
        let mark = state.mark();
        let mut look = RivalSearch::of(compiled, &mut state, work);
        for backwards in [false, true] {
            state.undo_to(mark);
            for rival in &look.hold {
                state.set_status(*rival, Status::Held);
            }
            for step in 1..=steps {
                let at = match backwards {
                    true => victims.len() - step,
                    false => step - 1,
                };
                evict(&mut state, victims[at]);
                loop {
                    let mark = state.mark();
                    let first = FirstCycle::of(&mut state, Then::default());
                    state.undo_to(mark);
                    if !look.hold_admitted(&mut state, first) {
                        break;
                    }
                    if look.hold.len() > HELD_BACK {
                        return Self {
                            hold: Vec::new(),
                            more: true,
                        };
                    }
                }
            }
        }
        let sure = look.hold.clone();
        if !look.at_the_end(&mut state, victims) {
            look.hold = sure;
        }
        Self {
            hold: look.hold.into_iter().collect(),
            more: look.more,
        }
    }
}

/// True when a job starts once these victims have left, the way the plan that admits it does it: rivals are on hold until then.
pub fn starts_without(snapshot: &Snapshot, work: WorkloadId, victims: &[WorkloadId]) -> bool {
    let compiled = &CompiledFleet::new(snapshot.clone());
    let mut state = State::new(compiled);
    let mut look = RivalSearch::of(compiled, &mut state, work);
    look.at_the_end(&mut state, victims)
}

/// A search for rivals.
struct RivalSearch<'c> {
    compiled: &'c CompiledFleet,
    work: WorkloadId,
    /// Jobs that start anyway: they do not use what becomes free.
    anyway: BTreeSet<WorkloadId>,
    hold: BTreeSet<WorkloadId>,
    more: bool,
}

impl<'c> RivalSearch<'c> {
    fn of(compiled: &'c CompiledFleet, state: &mut State<'c>, work: WorkloadId) -> Self {
        let mark = state.mark();
        let anyway = FirstCycle::of(state, Then::default()).admitted();
        state.undo_to(mark);
        Self {
            compiled,
            work,
            anyway,
            hold: BTreeSet::new(),
            more: false,
        }
    }

    /// Puts the jobs that a cycle has admitted on hold; false if none can be put on hold.
    fn hold_admitted(&mut self, state: &mut State<'_>, first: FirstCycle) -> bool {
        let fresh = first.admitted().into_iter();
        let taken: Vec<WorkloadId> = fresh
            .filter(|it| *it != self.work && !self.anyway.contains(it))
            .collect();
        let held = taken
            .iter()
            .filter(|it| can_hold(self.compiled, **it) && !self.hold.contains(it));
        let held: Vec<WorkloadId> = held.copied().collect();
        self.more |= taken.len() > held.len();
        for rival in &held {
            state.set_status(*rival, Status::Held);
            self.hold.insert(*rival);
        }
        !held.is_empty()
    }

    /// Whether the job starts once all victims have left, with its rivals on hold.
    fn at_the_end(&mut self, state: &mut State<'_>, victims: &[WorkloadId]) -> bool {
        let mark = state.mark();
        let snapshot = &self.compiled.snapshot;
        let model = &snapshot.workloads[self.work];
        for victim in victims {
            if state.allocation(*victim).is_some() {
                evict(state, *victim);
            }
        }
        let is_kueue = planner_context::system(snapshot, model) == System::Kueue;
        if is_kueue && !explanations::has_reserved_quota(model) {
            state.set_priority(self.work, above_all(snapshot));
        }
        let starts = loop {
            let mark = state.mark();
            let first = FirstCycle::of(state, Then::default());
            state.undo_to(mark);
            if first.starts(self.compiled, self.work) {
                break true;
            }
            if !self.hold_admitted(state, first) || self.hold.len() > HELD_BACK {
                break false;
            }
        };
        state.undo_to(mark);
        starts
    }
}

/// Evicts a victim and keeps it from coming back.
fn evict(state: &mut State<'_>, victim: WorkloadId) {
    state.evict(victim);
    state.set_status(victim, Status::Held);
}

/// It waits in a Kueue queue without quota, so its Workload can be deactivated without loss.
fn can_hold(compiled: &CompiledFleet, work: WorkloadId) -> bool {
    let model = compiled.workload(work);
    model.status == Status::Waiting && planner_context::admission(model, System::Kueue).is_some()
}
