//! Room kept for those that cannot start yet: the earliest moment at which they can, by when what runs is expected to end,
//! and the fleet as it will be then. Whoever starts before must leave that as it is.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::Moment;
use crate::engine::fit::Lens;
use crate::engine::plant::{NodeId, QueueId, WorkId};
use crate::engine::state::{Occupancy, State, Tenure};

use super::{Reservation, at_speed, end_of};

/// How many later moments are tried where the earliest is taken by another reservation.
const MOST_TRIES: usize = 16;

/// One reservation, with the fleet at its start.
struct Promise {
    work: WorkId,
    queue: QueueId,
    at: Moment,
    end: Option<Moment>,
    tenure: Arc<Tenure>,
    /// What is used when it has started.
    then: Occupancy,
}

/// All reservations of a cycle.
pub(super) struct Promises {
    durations: Vec<Option<i64>>,
    made: Vec<Promise>,
    /// Shapes for which there is no room even when all has ended that will.
    never: BTreeSet<usize>,
}

impl Promises {
    pub(super) fn new(durations: Vec<Option<i64>>) -> Self {
        Self {
            durations,
            made: Vec::new(),
            never: BTreeSet::new(),
        }
    }

    /// How many of a queue hold one.
    pub(super) fn of_queue(&self, queue: QueueId) -> usize {
        self.made.iter().filter(|made| made.queue == queue).count()
    }

    /// Nodes that are kept.
    pub(super) fn nodes(&self) -> Vec<NodeId> {
        let nodes = self.made.iter().flat_map(|made| made.tenure.nodes());
        let nodes: BTreeSet<NodeId> = nodes.collect();
        nodes.into_iter().collect()
    }

    fn end(&self, from: Moment, work: WorkId, tenure: &Tenure) -> Option<Moment> {
        let lasts = at_speed(self.durations[work]?, tenure.speed_milli);
        Some(Moment::from_millis(from.millis().saturating_add(lasts)))
    }

    /// The reservation that a workload would delay if it held this from now on.
    pub(super) fn conflict(
        &mut self,
        state: &mut State<'_>,
        work: WorkId,
        tenure: &Arc<Tenure>,
    ) -> Option<WorkId> {
        let end = self.end(state.now(), work, tenure);
        let mut conflict = None;
        for made in &mut self.made {
            if end.is_some_and(|end| end <= made.at) {
                continue;
            }
            if !fits_then(state, &mut made.then, work, tenure, false) {
                conflict = Some(made.work);
                break;
            }
        }
        conflict
    }

    /// A workload starts now: it is there when those start whose reservations begin before its end.
    pub(super) fn keep(&mut self, state: &mut State<'_>, work: WorkId, tenure: &Arc<Tenure>) {
        let end = self.end(state.now(), work, tenure);
        for made in &mut self.made {
            if end.is_none_or(|end| end > made.at) {
                fits_then(state, &mut made.then, work, tenure, true);
            }
        }
    }

    /// A workload starts now in the place of others; false, and nothing done, where it would delay a reservation.
    pub(super) fn replace(
        &mut self,
        state: &mut State<'_>,
        gone: &[WorkId],
        work: WorkId,
        tenure: &Arc<Tenure>,
    ) -> bool {
        let before: Vec<Occupancy> = self.made.iter().map(|made| made.then.clone()).collect();
        for made in &mut self.made {
            state.exchange(&mut made.then);
            let mark = state.mark();
            for victim in gone {
                state.evict(*victim);
            }
            state.forget_since(mark);
            state.exchange(&mut made.then);
        }
        if self.conflict(state, work, tenure).is_none() {
            self.keep(state, work, tenure);
            return true;
        }
        for (made, then) in self.made.iter_mut().zip(before) {
            made.then = then;
        }
        false
    }

    /// Keeps room for a workload that cannot start now: at the earliest moment at which it can, others' reservations
    /// considered. Nothing where no such moment is known.
    pub(super) fn make(
        &mut self,
        state: &mut State<'_>,
        queue: QueueId,
        work: WorkId,
    ) -> Option<Reservation> {
        let shape = state.plant().works[work].shape;
        if self.never.contains(&shape) {
            return None;
        }
        let mut ends: Vec<(Moment, WorkId)> = state
            .holders()
            .filter_map(|holder| Some((end_of(state, holder, self.durations[holder])?, holder)))
            .collect();
        ends.sort_unstable();
        let Some(first) = earliest(state, work, &ends) else {
            self.never.insert(shape);
            return None;
        };
        let first = ends.get(first).map_or(state.now(), |end| end.0);
        let mut moments: BTreeSet<Moment> = ends.iter().map(|end| end.0).collect();
        moments.extend(self.made.iter().filter_map(|made| made.end));
        let tries: Vec<Moment> = moments.range(first..).copied().take(MOST_TRIES).collect();
        for at in tries {
            if let Some(promise) = self.promise_at(state, queue, work, at, &ends) {
                let reservation = Reservation {
                    work,
                    at,
                    tenure: promise.tenure.clone(),
                };
                self.made.push(promise);
                return Some(reservation);
            }
        }
        None
    }

    fn promise_at(
        &mut self,
        state: &mut State<'_>,
        queue: QueueId,
        work: WorkId,
        at: Moment,
        ends: &[(Moment, WorkId)],
    ) -> Option<Promise> {
        let mark = state.mark();
        for (_, holder) in ends.iter().take_while(|end| end.0 <= at) {
            state.evict(*holder);
        }
        for made in &self.made {
            let there = made.at <= at && made.end.is_none_or(|end| end > at);
            if there && let Some(tenure) = state.seat_again(made.work, &made.tenure) {
                state.admit(made.work, tenure);
            }
        }
        let found = state.start(work, &Lens::default());
        let then = found.as_ref().ok().map(|_| state.occupancy());
        state.undo_to(mark);
        let (tenure, then) = (found.ok()?, then?);
        let end = self.end(at, work, &tenure);
        // Those that begin while it runs must find what they were promised.
        for made in &mut self.made {
            let during = made.at > at && end.is_none_or(|end| end > made.at);
            if during && !fits_then(state, &mut made.then, work, &tenure, false) {
                return None;
            }
        }
        for made in &mut self.made {
            if made.at > at && end.is_none_or(|end| end > made.at) {
                fits_then(state, &mut made.then, work, &tenure, true);
            }
        }
        Some(Promise {
            work,
            queue,
            at,
            end,
            tenure,
            then,
        })
    }
}

/// Whether a workload can hold a tenure at some other moment, on the same nodes; and, if told to, lets it.
fn fits_then(
    state: &mut State<'_>,
    then: &mut Occupancy,
    work: WorkId,
    tenure: &Arc<Tenure>,
    keep: bool,
) -> bool {
    state.exchange(then);
    let again = state.seat_again(work, tenure);
    if keep && let Some(tenure) = again.clone() {
        let mark = state.mark();
        state.admit(work, tenure);
        state.forget_since(mark);
    }
    state.exchange(then);
    again.is_some()
}

/// The least number of ends after which a workload fits, less one: the index of the last of those ends.
fn earliest(state: &mut State<'_>, work: WorkId, ends: &[(Moment, WorkId)]) -> Option<usize> {
    let start = state.mark();
    let mut marks = vec![(0_usize, start)];
    let lens = Lens::default();
    let mut done = 0;
    let mut step = 1;
    // Ever larger steps until it fits, then back and forth between the last two.
    let (mut no, mut yes) = (0, None);
    while yes.is_none() {
        if done == ends.len() {
            state.undo_to(start);
            return None;
        }
        let until = ends.len().min(done + step);
        for (_, holder) in &ends[done..until] {
            state.evict(*holder);
        }
        done = until;
        step *= 2;
        if state.find(work, &lens).is_ok() {
            yes = Some(done);
        } else {
            no = done;
            marks.push((done, state.mark()));
        }
    }
    let mut yes = yes.unwrap_or(ends.len());
    while yes - no > 1 {
        let (at, mark) = marks.last().copied().unwrap_or((0, start));
        state.undo_to(mark);
        let middle = (no + yes) / 2;
        for (_, holder) in &ends[at..middle] {
            state.evict(*holder);
        }
        if state.find(work, &lens).is_ok() {
            yes = middle;
        } else {
            no = middle;
            marks.push((middle, state.mark()));
        }
    }
    state.undo_to(start);
    Some(yes - 1)
}
