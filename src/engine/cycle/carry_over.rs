//! Reservations that are carried from one cycle into the next. While running workloads end as expected, the earliest start of a
//! waiting workload stays the same, and so does the fleet at that time, except for workloads started since, which are added.

use std::sync::Arc;

use crate::compiled::WorkloadId;
use crate::fit::Shortages;
use crate::state::{Allocation, State};
use model::base::Moment;

use super::reservation::{PlannedStart, Reservations, take_from};

impl Reservations {
    /// Starts a cycle in which resources released since `since` are free. Reservations of the previous cycle become candidates
    /// for workloads that are still due one.
    pub(super) fn begin(&mut self, state: &mut State<'_>, since: Moment) {
        let mut all = std::mem::take(&mut self.made);
        all.append(&mut self.carried);
        self.carried = all;
        self.nodes_passed = false;
        self.ends = None;
        while let Some(late) = self.carried.iter().position(|it| it.at < since) {
            self.give_up(state, late);
        }
    }

    /// Whether it is already known that no reservation can be made for a workload.
    pub(super) fn is_in_vain(&self, state: &State<'_>, work: WorkloadId) -> bool {
        let shape = state.compiled().workloads[work].shape;
        let until = self.in_vain.get(&work);
        self.never.contains(&shape) || until.is_some_and(|until| state.now() < *until)
    }

    /// Whether a workload that starts now would lack quota at the start of a reservation, so that it cannot start. False
    /// where that is uncertain.
    pub(super) fn lacks_quota(
        &mut self,
        state: &mut State<'_>,
        shortages: &Shortages,
        work: WorkloadId,
    ) -> bool {
        let compiled = state.compiled();
        if compiled.workloads[work].choices.is_some() {
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
            // Reservations not processed yet in this cycle do not count.
            for carried in &self.carried {
                take_from(state, &mut made.then, carried.work);
            }
            if !shortages.has_quota(compiled, work, &made.then) {
                return true;
            }
        }
        false
    }

    pub(super) fn forget(&mut self) {
        self.made.clear();
        self.carried.clear();
        self.nodes_passed = false;
        self.surprises = 0;
        self.in_vain.clear();
    }

    /// Whether a workload has a reservation from the previous cycle.
    pub(super) fn is_carried(&self, work: WorkloadId) -> bool {
        self.carried.iter().any(|it| it.work == work)
    }

    /// Drops an invalid reservation.
    fn give_up(&mut self, state: &mut State<'_>, place: usize) {
        let work = self.carried.remove(place).work;
        self.forget_workload(state, work);
        self.surprises += 1;
    }

    /// Removes a workload from the states at other reservations' starts: it ended, perhaps early, or lost its own reservation.
    pub(super) fn forget_workload(&mut self, state: &mut State<'_>, work: WorkloadId) {
        for it in self.made.iter_mut().chain(&mut self.carried) {
            take_from(state, &mut it.then, work);
        }
    }

    /// Removes and returns a workload's reservation from the previous cycle, to process it now.
    pub(super) fn take_carried(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
    ) -> Option<PlannedStart> {
        let place = self.carried.iter().position(|it| it.work == work)?;
        let own = self.carried.remove(place);
        self.forget_workload(state, work);
        Some(own)
    }

    /// A workload with a reservation has started: if it started early, all others may start earlier too.
    pub(super) fn started(&mut self, state: &State<'_>, own: &PlannedStart) {
        if own.at > state.now() {
            self.surprises += 1;
        }
    }

    /// Keeps a workload's reservation from the previous cycle if it is still valid.
    pub(super) fn carry_on(&mut self, state: &mut State<'_>, mut own: PlannedStart) -> bool {
        let mut holds = own.at > state.now();
        for made in &mut self.made {
            if !holds {
                break;
            }
            // Reservations that start while this one runs must still find their allocation free with this one in place.
            if made.at > own.at && own.is_there(made.at) {
                made.moved.extend(own.allocation.nodes());
                holds = made.make_room_for(state, own.work, &own.allocation);
            } else if made.at <= own.at
                && made.is_there(own.at)
                && !own.then.is_allocated(made.work)
            {
                own.moved.extend(made.allocation.nodes());
                holds = own.make_room_for(state, made.work, &made.allocation);
            }
        }
        if holds {
            self.made.push(own);
            self.nodes_passed = false;
        } else {
            self.forget_workload(state, own.work);
            self.surprises += 1;
        }
        holds
    }

    /// A workload starts now: carried reservations must fit beside it, or they are recomputed.
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
