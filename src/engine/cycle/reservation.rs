//! Room kept for those that cannot start yet: the earliest moment at which they can, by when what runs is expected to end,
//! and the fleet as it will be then. Whoever starts before must leave that as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::compiled::{NodeId, QueueId, WorkloadId};
use crate::fit::Relaxation;
use crate::state::{Allocation, Occupancy, State};
use model::base::Moment;

use super::carried::take_from;
use super::{Reservation, at_speed, end_of};

/// How many later moments are tried where the earliest is taken by another reservation.
const MOST_TRIES: usize = 16;

/// One reservation, with the fleet at its start.
pub(super) struct PlannedStart {
    pub(super) work: WorkloadId,
    queue: QueueId,
    pub(super) at: Moment,
    end: Option<Moment>,
    pub(super) allocation: Arc<Allocation>,
    /// What is used when it has started.
    pub(super) then: Occupancy,
    /// Nodes on which somebody sits then who does not sit there now: there pods may find other units than now, or none.
    /// Elsewhere whoever holds something then holds it now too, and what fits now fits then.
    pub(super) moved: BTreeSet<NodeId>,
}

/// All reservations of a cycle.
pub(super) struct Reservations {
    pub(super) durations: Arc<[Option<i64>]>,
    pub(super) made: Vec<PlannedStart>,
    /// Those of the cycle before whose turn has not come, in the order in which they were made ([`super::carried`]).
    pub(super) carried: Vec<PlannedStart>,
    /// Shapes for which there is no room even when all has ended that will.
    pub(super) never: BTreeSet<usize>,
    /// The state knows which nodes are kept.
    pub(super) nodes_told: bool,
    /// How often something went otherwise than was believed when room was kept.
    pub(super) surprises: usize,
    /// Those for whom no room could be kept, as others' was, until when that is not looked for again.
    pub(super) in_vain: BTreeMap<WorkloadId, Moment>,
    /// They are carried from cycle to cycle.
    pub(super) carries: bool,
    /// When all that hold something are believed to end, in order, where that is known still.
    pub(super) ends: Option<Vec<(Moment, WorkloadId)>>,
}

impl Reservations {
    pub(super) fn new(durations: Arc<[Option<i64>]>) -> Self {
        Self {
            durations,
            made: Vec::new(),
            carried: Vec::new(),
            never: BTreeSet::new(),
            nodes_told: true,
            surprises: 0,
            in_vain: BTreeMap::new(),
            carries: false,
            ends: None,
        }
    }

    /// How many of a queue hold one.
    pub(super) fn of_queue(&self, queue: QueueId) -> usize {
        self.made.iter().filter(|made| made.queue == queue).count()
    }

    /// Tells the state which nodes are kept.
    pub(super) fn tell_nodes(&mut self, state: &mut State<'_>) {
        if !self.nodes_told {
            let nodes = self.made.iter().flat_map(|made| made.allocation.nodes());
            state.keep_nodes(nodes.collect());
            self.nodes_told = true;
        }
    }

    fn end(&self, from: Moment, work: WorkloadId, allocation: &Allocation) -> Option<Moment> {
        let lasts = at_speed(self.durations[work]?, allocation.speed_milli);
        Some(Moment::from_millis(from.millis().saturating_add(lasts)))
    }

    /// The reservation that a workload would delay if it held this from now on.
    pub(super) fn conflict(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        allocation: &Arc<Allocation>,
    ) -> Option<WorkloadId> {
        let end = self.end(state.now(), work, allocation);
        let mut conflict = None;
        for made in &mut self.made {
            if end.is_some_and(|end| end <= made.at) {
                continue;
            }
            let mut room = made.has_room(state, work, allocation);
            if !room && !self.carried.is_empty() {
                // Whose turn is to come has no say yet.
                for carried in &self.carried {
                    take_from(state, &mut made.then, carried.work);
                }
                room = made.has_room(state, work, allocation);
            }
            if !room {
                conflict = Some(made.work);
                break;
            }
        }
        conflict
    }

    /// A workload starts now: it is there when those start whose reservations begin before its end.
    pub(super) fn keep(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        allocation: &Arc<Allocation>,
    ) {
        let end = self.end(state.now(), work, allocation);
        for made in &mut self.made {
            if end.is_none_or(|end| end > made.at) {
                made.make_room_for(state, work, allocation);
            }
        }
        self.ends = None;
        self.keep_carried(state, work, allocation, end);
    }

    /// A workload starts now in the place of others; false, and nothing done, where it would delay a reservation.
    pub(super) fn replace(
        &mut self,
        state: &mut State<'_>,
        gone: &[WorkloadId],
        work: WorkloadId,
        allocation: &Arc<Allocation>,
    ) -> bool {
        let end = self.end(state.now(), work, allocation);
        let lasts = |made: &PlannedStart| end.is_none_or(|end| end > made.at);
        for made in self.made.iter_mut().filter(|made| lasts(made)) {
            state.exchange(&mut made.then);
            let mark = state.mark();
            for victim in gone {
                state.evict(*victim);
            }
            let fits = state.seat_again(work, allocation, &made.moved).is_some();
            state.undo_to(mark);
            state.exchange(&mut made.then);
            if !fits {
                return false;
            }
        }
        for made in &mut self.made {
            state.exchange(&mut made.then);
            let mark = state.mark();
            for victim in gone {
                state.evict(*victim);
            }
            state.forget_since(mark);
            state.exchange(&mut made.then);
        }
        self.keep(state, work, allocation);
        true
    }

    /// Keeps room for a workload that cannot start now: at the earliest moment at which it can, others' reservations
    /// considered.
    ///
    /// # Errors
    /// The last moment that was tried, others' reservations being in the way; nothing where there is no such moment.
    pub(super) fn make(
        &mut self,
        state: &mut State<'_>,
        queue: QueueId,
        work: WorkloadId,
    ) -> Result<Reservation, Option<Moment>> {
        let shape = state.compiled().works[work].shape;
        if self.never.contains(&shape) {
            return Err(None);
        }
        let ends = self.ends.take().unwrap_or_else(|| self.ends_of(state));
        let made = self.make_by(state, queue, work, &ends);
        // Elsewhere somebody may hold something of which nobody was told here.
        self.ends = self.carries.then_some(ends);
        made
    }

    /// When all that hold something are believed to end, in order.
    fn ends_of(&self, state: &State<'_>) -> Vec<(Moment, WorkloadId)> {
        let mut ends: Vec<(Moment, WorkloadId)> = state
            .holders()
            .filter_map(|holder| Some((end_of(state, holder, self.durations[holder])?, holder)))
            .collect();
        ends.sort_unstable();
        ends
    }

    fn make_by(
        &mut self,
        state: &mut State<'_>,
        queue: QueueId,
        work: WorkloadId,
        ends: &[(Moment, WorkloadId)],
    ) -> Result<Reservation, Option<Moment>> {
        let start = state.mark();
        let Some(first) = earliest(state, work, ends) else {
            state.undo_to(start);
            self.never.insert(state.compiled().works[work].shape);
            return Err(None);
        };
        // The first so many have gone now; from here on as many more as each try needs.
        let mut gone = first + 1;
        let first = ends.get(first).map_or(state.now(), |end| end.0);
        let later = &ends[ends.partition_point(|end| end.0 < first)..];
        let mut tries: Vec<Moment> = later
            .chunk_by(|one, next| one.0 == next.0)
            .map(|same| same[0].0)
            .take(MOST_TRIES)
            .collect();
        let made = self.made.iter().filter_map(|made| made.end);
        tries.extend(made.filter(|end| *end >= first));
        tries.sort_unstable();
        tries.dedup();
        tries.truncate(MOST_TRIES);
        let last = tries.last().copied();
        let mut found = None;
        for at in tries {
            while let Some((_, holder)) = ends.get(gone).filter(|end| end.0 <= at) {
                state.evict(*holder);
                gone += 1;
            }
            found = self.promise_at(state, queue, work, at);
            if found.is_some() {
                break;
            }
        }
        state.undo_to(start);
        let promise = found.ok_or(last)?;
        // Those that begin while it runs must find what they were promised, and it beside them.
        for made in &mut self.made {
            if promise.is_there(made.at) && made.at > promise.at {
                made.moved.extend(promise.allocation.nodes());
                made.make_room_for(state, work, &promise.allocation);
            }
        }
        let reservation = Reservation {
            work,
            at: promise.at,
            allocation: promise.allocation.clone(),
        };
        self.made.push(promise);
        self.nodes_told = false;
        Ok(reservation)
    }

    /// The promise of a moment at which all have gone that end until then, if there is room.
    fn promise_at(
        &mut self,
        state: &mut State<'_>,
        queue: QueueId,
        work: WorkloadId,
        at: Moment,
    ) -> Option<PlannedStart> {
        let mark = state.mark();
        let mut moved = BTreeSet::new();
        for made in &self.made {
            if made.at <= at && made.is_there(at) {
                moved.extend(made.allocation.nodes());
                if let Some(allocation) = state.seat_again(made.work, &made.allocation, &moved) {
                    state.admit(made.work, allocation);
                }
            }
        }
        let Ok(allocation) = state.start(work, &Relaxation::default()) else {
            state.undo_to(mark);
            return None;
        };
        let end = self.end(at, work, &allocation);
        for made in &mut self.made {
            if made.at <= at || end.is_some_and(|end| end <= made.at) {
                continue;
            }
            let mut moved = made.moved.clone();
            moved.extend(allocation.nodes());
            if !fits_then(state, &mut made.then, work, &allocation, &moved, false) {
                state.undo_to(mark);
                return None;
            }
        }
        let then = state.occupancy();
        state.undo_to(mark);
        moved.extend(allocation.nodes());
        Some(PlannedStart {
            work,
            queue,
            at,
            end,
            allocation,
            then,
            moved,
        })
    }
}

impl PlannedStart {
    /// Whether it has not ended by a moment.
    pub(super) fn is_there(&self, at: Moment) -> bool {
        self.end.is_none_or(|end| end > at)
    }

    /// Whether a workload that holds this now can hold it when the promised one begins.
    pub(super) fn has_room(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        allocation: &Arc<Allocation>,
    ) -> bool {
        fits_then(state, &mut self.then, work, allocation, &self.moved, false)
    }

    /// A workload that holds this now holds it when the promised one begins.
    pub(super) fn make_room_for(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        allocation: &Arc<Allocation>,
    ) -> bool {
        fits_then(state, &mut self.then, work, allocation, &self.moved, true)
    }
}

/// Whether a workload can hold a tenure at some other moment, on the same nodes; and, if told to, lets it.
fn fits_then(
    state: &mut State<'_>,
    then: &mut Occupancy,
    work: WorkloadId,
    allocation: &Arc<Allocation>,
    moved: &BTreeSet<NodeId>,
    keep: bool,
) -> bool {
    state.exchange(then);
    let again = state.seat_again(work, allocation, moved);
    if keep && let Some(allocation) = again.clone() {
        let mark = state.mark();
        state.admit(work, allocation);
        state.forget_since(mark);
    }
    state.exchange(then);
    again.is_some()
}

/// The least number of ends after which a workload fits, less one: the index of the last of those ends. So many are gone
/// from the state then.
fn earliest(
    state: &mut State<'_>,
    work: WorkloadId,
    ends: &[(Moment, WorkloadId)],
) -> Option<usize> {
    let start = state.mark();
    let relaxation = Relaxation::default();
    // Before that it cannot fit: most often it does then.
    let least = state.least_ends(work, ends)?;
    let mut marks = vec![(0_usize, start)];
    let mut done = 0;
    let mut step = 1;
    // Ever larger steps until it fits, then back and forth between the last two.
    let (mut no, mut yes) = (least.saturating_sub(1), None);
    while yes.is_none() {
        if done == ends.len() {
            return None;
        }
        let until = if done == 0 {
            least.max(1)
        } else {
            ends.len().min(done + step)
        };
        for (_, holder) in &ends[done..until] {
            state.evict(*holder);
        }
        if done > 0 {
            step *= 2;
        }
        done = until;
        if state.find(work, &relaxation).is_ok() {
            yes = Some(done);
        } else {
            no = done;
            marks.push((done, state.mark()));
        }
    }
    let mut yes = yes.unwrap_or(ends.len());
    let mut there = yes;
    while yes - no > 1 {
        let (at, mark) = marks.last().copied().unwrap_or((0, start));
        state.undo_to(mark);
        let middle = (no + yes) / 2;
        for (_, holder) in &ends[at..middle] {
            state.evict(*holder);
        }
        there = middle;
        if state.find(work, &relaxation).is_ok() {
            yes = middle;
        } else {
            no = middle;
            marks.push((middle, state.mark()));
        }
    }
    if there != yes {
        let (at, mark) = marks.last().copied().unwrap_or((0, start));
        state.undo_to(mark);
        for (_, holder) in &ends[at..yes] {
            state.evict(*holder);
        }
    }
    Some(yes - 1)
}
