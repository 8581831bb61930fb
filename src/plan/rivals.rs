//! Who would take what victims free before the job can that they leave for.

use std::collections::BTreeSet;

use engine::compiled::{CompiledFleet, WorkloadId};
use engine::explanations;
use engine::snapshot::{Snapshot, Status, System};
use engine::state::State;

use super::effect::{FirstCycle, Then};
use super::planner_context;
use super::raise::above_all;

/// So many waiting jobs are held back for one that starts; where more would take what becomes free, none is.
const HELD_BACK: usize = 20;

/// Which waiting jobs would be admitted while victims leave one after the other, and so take quota or nodes before `work` can have
/// them; and which would take them once all have left, since their queues need not borrow and so go first, whatever the priority.
pub(super) struct Rivals {
    /// Those that can be kept from it, by the `active` field of their Workload; at most [`HELD_BACK`].
    pub(super) hold: Vec<WorkloadId>,
    /// There are others: no queue of Kueue keeps them, or they are too many.
    pub(super) more: bool,
}

impl Rivals {
    /// Looks at the fleet after each victim, in the order given and in the reverse one: which ends first is not known. Of one victim
    /// all becomes free at once.
    pub(super) fn of(snapshot: &Snapshot, work: WorkloadId, victims: &[WorkloadId]) -> Self {
        let compiled = &CompiledFleet::new(snapshot.clone());
        let mut state = State::new(compiled);
        let mark = state.mark();
        let mut look = Look::of(compiled, &mut state, work);
        for backwards in [false, true] {
            state.undo_to(mark);
            for rival in &look.hold {
                state.set_status(*rival, Status::Held);
            }
            for step in 1..victims.len() {
                let at = match backwards {
                    true => victims.len() - step,
                    false => step - 1,
                };
                leave(&mut state, victims[at]);
                loop {
                    let mark = state.mark();
                    let first = FirstCycle::of(&mut state, Then::default());
                    state.undo_to(mark);
                    if !look.holds(&mut state, first) {
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

/// True when a job starts once these have left, in the way in which the plan that admits it has them leave: others who would take
/// what becomes free wait until it has it.
pub fn starts_without(snapshot: &Snapshot, work: WorkloadId, victims: &[WorkloadId]) -> bool {
    let compiled = &CompiledFleet::new(snapshot.clone());
    let mut state = State::new(compiled);
    let mut look = Look::of(compiled, &mut state, work);
    look.at_the_end(&mut state, victims)
}

/// A look for rivals.
struct Look<'c> {
    compiled: &'c CompiledFleet,
    work: WorkloadId,
    /// Who starts by itself: what becomes free is not what it starts on.
    anyway: BTreeSet<WorkloadId>,
    hold: BTreeSet<WorkloadId>,
    more: bool,
}

impl<'c> Look<'c> {
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

    /// Holds those whom a cycle has admitted; false where there are none that can be held.
    fn holds(&mut self, state: &mut State<'_>, first: FirstCycle) -> bool {
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

    /// Whether the job starts once all have left, with those held who would take what it needs.
    fn at_the_end(&mut self, state: &mut State<'_>, victims: &[WorkloadId]) -> bool {
        let mark = state.mark();
        let snapshot = &self.compiled.snapshot;
        let model = &snapshot.workloads[self.work];
        for victim in victims {
            if state.allocation(*victim).is_some() {
                leave(state, *victim);
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
            if !self.holds(state, first) || self.hold.len() > HELD_BACK {
                break false;
            }
        };
        state.undo_to(mark);
        starts
    }
}

/// A victim leaves, and is kept from coming back.
fn leave(state: &mut State<'_>, victim: WorkloadId) {
    state.evict(victim);
    state.set_status(victim, Status::Held);
}

/// It waits in a queue of Kueue without quota, so its Workload can be made inactive and nothing is lost.
fn can_hold(compiled: &CompiledFleet, work: WorkloadId) -> bool {
    let model = compiled.workload(work);
    model.status == Status::Waiting && planner_context::admission(model, System::Kueue).is_some()
}
