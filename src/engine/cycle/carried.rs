//! Reservations that are carried from one cycle into the next. While what runs ends when it was believed to, the earliest moment at
//! which somebody can start stays what it was, and so does the fleet of that moment but for what started since: that is told it.

use std::sync::Arc;

use crate::compiled::WorkloadId;
use crate::fit::Shortages;
use crate::state::{Allocation, Occupancy, State};
use model::base::Moment;

use super::reservation::{PlannedStart, Reservations};

impl Reservations {
    /// A cycle begins, in which what has ended since a moment is free: reservations of those before it are there for those who are
    /// still due one.
    pub(super) fn begin(&mut self, state: &mut State<'_>, since: Moment) {
        let mut all = std::mem::take(&mut self.made);
        all.append(&mut self.carried);
        self.carried = all;
        self.nodes_told = false;
        self.ends = None;
        while let Some(late) = self.carried.iter().position(|it| it.at < since) {
            self.give_up(state, late);
        }
    }

    /// Whether there is no room that could be kept for one, as far as is known.
    pub(super) fn is_in_vain(&self, state: &State<'_>, work: WorkloadId) -> bool {
        let shape = state.compiled().works[work].shape;
        let until = self.in_vain.get(&work);
        self.never.contains(&shape) || until.is_some_and(|until| state.now() < *until)
    }

    /// Whether one that starts now would lack quota when another begins for which room is kept: then it cannot start. Where that
    /// is not sure it says no.
    pub(super) fn lacks_quota(
        &mut self,
        state: &mut State<'_>,
        shortages: &Shortages,
        work: WorkloadId,
    ) -> bool {
        let compiled = state.compiled();
        if compiled.works[work].choices.is_some() {
            return false;
        }
        let now = state.now().millis();
        let end = self.durations[work].map(|lasts| now.saturating_add(lasts.max(0)));
        for made in &mut self.made {
            if end.is_some_and(|end| end <= made.at.millis())
                || shortages.has_quota(compiled, work, &made.then)
            {
                continue;
            }
            // Whose turn is to come has no say yet.
            for carried in &self.carried {
                take_from(state, &mut made.then, carried.work);
            }
            if !shortages.has_quota(compiled, work, &made.then) {
                return true;
            }
        }
        false
    }

    /// Forgets all that is kept.
    pub(super) fn forget(&mut self) {
        self.made.clear();
        self.carried.clear();
        self.nodes_told = false;
        self.surprises = 0;
        self.in_vain.clear();
    }

    /// Whether one holds a reservation from the cycle before.
    pub(super) fn is_carried(&self, work: WorkloadId) -> bool {
        self.carried.iter().any(|it| it.work == work)
    }

    /// Drops a reservation that does not hold.
    fn give_up(&mut self, state: &mut State<'_>, place: usize) {
        let work = self.carried.remove(place).work;
        self.leave(state, work);
        self.surprises += 1;
    }

    /// One is no longer there when others begin: it ends, perhaps sooner than believed, or its own room is given up.
    pub(super) fn leave(&mut self, state: &mut State<'_>, work: WorkloadId) {
        for it in self.made.iter_mut().chain(&mut self.carried) {
            take_from(state, &mut it.then, work);
        }
    }

    /// Takes out what was kept for one in the cycle before: it is its turn.
    pub(super) fn take_carried(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
    ) -> Option<PlannedStart> {
        let place = self.carried.iter().position(|it| it.work == work)?;
        let own = self.carried.remove(place);
        self.leave(state, work);
        Some(own)
    }

    /// One for which room was kept has started: where that is sooner than it was to, all others may start sooner too.
    pub(super) fn started(&mut self, state: &State<'_>, own: &PlannedStart) {
        if own.at > state.now() {
            self.surprises += 1;
        }
    }

    /// Keeps what was kept for one in the cycle before, if nothing speaks against it.
    pub(super) fn carry_on(&mut self, state: &mut State<'_>, mut own: PlannedStart) -> bool {
        let mut holds = own.at > state.now();
        for made in &mut self.made {
            if !holds {
                break;
            }
            // Those that begin while the other runs must find what they were promised, and it beside them.
            if made.at > own.at && own.is_there(made.at) {
                made.moved.extend(own.allocation.nodes());
                holds = made.make_room_for(state, own.work, &own.allocation);
            } else if made.at <= own.at && made.is_there(own.at) && !own.then.holds(made.work) {
                own.moved.extend(made.allocation.nodes());
                holds = own.make_room_for(state, made.work, &made.allocation);
            }
        }
        if holds {
            self.made.push(own);
            self.nodes_told = false;
        } else {
            self.leave(state, own.work);
            self.surprises += 1;
        }
        holds
    }

    /// A workload starts now: those that are carried begin beside it, or are looked for anew.
    pub(super) fn keep_carried(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        allocation: &Arc<Allocation>,
        end: Option<Moment>,
    ) {
        if self.carried.is_empty() {
            return;
        }
        let mut place = 0;
        while let Some(it) = self.carried.get_mut(place) {
            if end.is_none_or(|end| end > it.at) && !it.make_room_for(state, work, allocation) {
                self.give_up(state, place);
            } else {
                place += 1;
            }
        }
    }
}

/// Takes from one all that it holds in some other state of the fleet, if it holds anything there.
pub(super) fn take_from(state: &mut State<'_>, then: &mut Occupancy, work: WorkloadId) {
    if !then.holds(work) {
        return;
    }
    state.exchange(then);
    let mark = state.mark();
    state.evict(work);
    state.forget_since(mark);
    state.exchange(then);
}
