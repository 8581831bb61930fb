//! Reservations for workloads that cannot start yet: the earliest start by the expected ends of running workloads, and the
//! fleet at that time. Workloads that start earlier must not delay a reservation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::compiled::{CompiledFleet, NodeId, QueueId, WorkloadId};
use crate::fit::Relaxation;
use crate::schedulers;
use crate::state::{Allocation, Occupancy, State};
use model::base::Moment;

use super::{Reservation, at_speed, end_of, not_overdue};

/// How many later start times are tried if the earliest conflicts with another reservation.
const MOST_TRIES: usize = 16;

/// One reservation, with the fleet at its start.
pub(super) struct PlannedStart {
    pub(super) work: WorkloadId,
    queue: QueueId,
    pub(super) at: Moment,
    end: Option<Moment>,
    pub(super) allocation: Arc<Allocation>,
    /// Occupancy after its start.
    pub(super) then: Occupancy,
    /// Nodes that get an allocation by then that they do not have now: pods may find other units there than now, or none.
    /// On all other nodes, each allocation at that time also exists now, so what fits now also fits then.
    pub(super) moved: BTreeSet<NodeId>,
}

/// All reservations of a cycle.
pub(crate) struct Reservations {
    pub(super) durations: Arc<[Option<i64>]>,
    pub(super) made: Vec<PlannedStart>,
    /// Reservations of the previous cycle that are not processed yet, in the order in which they were made ([`super::carry_over`]).
    pub(super) carried: Vec<PlannedStart>,
    /// Shapes that do not fit even after every workload with a known end has ended.
    pub(super) never: BTreeSet<usize>,
    /// Whether the state already has the list of reserved nodes.
    pub(super) nodes_passed: bool,
    /// How often the fleet deviated from what a reservation assumed.
    pub(super) surprises: usize,
    /// Workloads that got no reservation because of other reservations, and the time until which the search is not repeated.
    pub(super) in_vain: BTreeMap<WorkloadId, Moment>,
    /// Expected ends of all workloads with an allocation, in order; none if not computed.
    pub(super) ends: Option<Vec<(Moment, WorkloadId)>>,
}

impl Reservations {
    pub(super) fn new(durations: Arc<[Option<i64>]>) -> Self {
        Self {
            durations,
            made: Vec::new(),
            carried: Vec::new(),
            never: BTreeSet::new(),
            nodes_passed: true,
            surprises: 0,
            in_vain: BTreeMap::new(),
            ends: None,
        }
    }

    /// Number of reservations of a queue.
    pub(super) fn of_queue(&self, queue: QueueId) -> usize {
        self.made.iter().filter(|made| made.queue == queue).count()
    }

    /// Passes the list of reserved nodes to the state.
    pub(super) fn pass_nodes(&mut self, state: &mut State<'_>) {
        if !self.nodes_passed {
            let nodes = self.made.iter().flat_map(|made| made.allocation.nodes());
            state.keep_nodes(nodes.collect());
            self.nodes_passed = true;
        }
    }

    fn end(&self, from: Moment, work: WorkloadId, allocation: &Allocation) -> Option<Moment> {
        let lasts = at_speed(self.durations[work]?, allocation.speed_milli);
        Some(Moment::from_millis(from.millis().saturating_add(lasts)))
    }

    /// The reservation that a workload would delay if it had this allocation from now on.
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
                // Reservations not processed yet in this cycle do not count.
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

    /// Records a workload that starts now in every reservation that starts before its end.
    pub(crate) fn keep(
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
        self.add_end(state, work, end);
        self.keep_carried(state, work, allocation, end);
    }

    /// Adds the expected end of a workload that starts now.
    fn add_end(&mut self, state: &State<'_>, work: WorkloadId, end: Option<Moment>) {
        let (Some(ends), Some(end)) = (&mut self.ends, end) else {
            return;
        };
        let own = (not_overdue(end, state.now()), work);
        ends.insert(ends.partition_point(|known| *known < own), own);
    }

    /// Records a workload that starts now by preemption. False, without any change, if it would delay a reservation.
    pub(crate) fn replace(
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
        for victim in gone {
            self.evicted(state, *victim);
        }
        self.keep(state, work, allocation);
        true
    }

    /// Records that a workload is evicted.
    pub(crate) fn evicted(&mut self, state: &mut State<'_>, victim: WorkloadId) {
        for made in &mut self.made {
            take_from(state, &mut made.then, victim);
        }
        if let Some(ends) = &mut self.ends {
            ends.retain(|(_, work)| *work != victim);
        }
    }

    /// Whether a queue may have another reservation: its scheduler makes any, and there are not too many.
    pub(super) fn is_due(&self, compiled: &CompiledFleet, queue: QueueId) -> bool {
        let options = &compiled.snapshot.options;
        schedulers::of(compiled, Some(queue)).reserves
            && self.made.len() < options.most_reservations as usize
            && self.of_queue(queue) < options.backfill.depth()
    }

    /// Makes a reservation for a workload that cannot start now, at the earliest possible time that respects other reservations.
    ///
    /// # Errors
    /// The last time that was tried, if other reservations conflict; none if no such time exists.
    pub(super) fn reserve(
        &mut self,
        state: &mut State<'_>,
        queue: QueueId,
        work: WorkloadId,
    ) -> Result<Reservation, Option<Moment>> {
        let shape = state.compiled().workloads[work].shape;
        if self.never.contains(&shape) {
            return Err(None);
        }
        let ends = self.ends.take().unwrap_or_else(|| self.ends_of(state));
        debug_assert_eq!(
            ends,
            self.ends_of(state),
            "every start and eviction was reported"
        );
        let made = self.make_by(state, queue, work, &ends);
        self.ends = Some(ends);
        made
    }

    /// Expected ends of all workloads with an allocation, in order.
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
            self.never.insert(state.compiled().workloads[work].shape);
            return Err(None);
        };
        // The state is now without the first workloads to end; each try below removes as many more as it needs.
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
        // Reservations that start while this one runs must still find their allocation free with this one in place.
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
        self.nodes_passed = false;
        Ok(reservation)
    }

    /// The reservation at a time at which all workloads with an earlier end are gone, if the workload fits.
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
    /// Whether the reserved workload still runs at a given time.
    pub(super) fn is_there(&self, at: Moment) -> bool {
        self.end.is_none_or(|end| end > at)
    }

    /// Whether a workload with this allocation now can keep it when the reservation starts.
    pub(super) fn has_room(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        allocation: &Arc<Allocation>,
    ) -> bool {
        fits_then(state, &mut self.then, work, allocation, &self.moved, false)
    }

    /// Adds a workload with this allocation now to the fleet at the reservation's start.
    pub(super) fn make_room_for(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        allocation: &Arc<Allocation>,
    ) -> bool {
        fits_then(state, &mut self.then, work, allocation, &self.moved, true)
    }
}

/// Whether an allocation fits on the same nodes in another state of the fleet; if requested, also adds it there.
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

/// Index of the last of the fewest ends after which a workload fits. Afterwards the state is without the workloads up to it.
fn earliest(
    state: &mut State<'_>,
    work: WorkloadId,
    ends: &[(Moment, WorkloadId)],
) -> Option<usize> {
    let start = state.mark();
    let relaxation = Relaxation::default();
    // The workload cannot fit earlier than this, and usually fits then.
    let least = state.least_ends(work, ends)?;
    let mut marks = vec![(0_usize, start)];
    let mut done = 0;
    let mut step = 1;
    // Exponential search until it fits, then binary search between the last two.
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

/// Removes a workload's allocation, if any, from another state of the fleet.
pub(super) fn take_from(state: &mut State<'_>, then: &mut Occupancy, work: WorkloadId) {
    if !then.is_allocated(work) {
        return;
    }
    state.exchange(then);
    let mark = state.mark();
    state.evict(work);
    state.forget_since(mark);
    state.exchange(then);
}
