//! Successive cycles on one fleet as workloads end. Each cycle tries only workloads for which the free capacity may suffice and
//! workloads that are due a reservation. An exact cycle starts the same workloads as a separate cycle would; other cycles carry
//! reservations over while workloads end as expected ([`super::carry_over`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::compiled::{PairId, QueueId, WorkloadId};
use crate::fit::{Relaxation, Shortages, Why};
use crate::preempt::Holders;
use crate::schedulers;
use crate::snapshot::Status;
use crate::state::{Allocation, State};

use super::order::{self, HeadOrder, Nominated, NominatedHead};
use super::reservation::Reservations;
use model::base::Moment;

use super::admitted::{place_these, unplaced};
use super::{Started, at_speed, durations, is_strict};

/// One in this many running workloads may end earlier than expected before all reservations are recomputed.
const BELIEVED: usize = 16;

/// Maximum number of reservation searches for a queue in one cycle.
const MOST_LOOKS: usize = 2;

/// Pending workloads of one queue.
#[derive(Clone, Debug)]
struct PendingQueue {
    queue: QueueId,
    works: Vec<WorkloadId>,
    strict: bool,
}

/// Progress of a cycle in a line.
#[derive(Clone, Copy, Default, Debug)]
struct LineProgress {
    /// Next workload to examine.
    next: usize,
    /// No later workload of the line is tried.
    over: bool,
    /// Reservation searches so far.
    looks: usize,
}

/// Cycles of timelines that begin with one state.
pub(crate) struct CycleSeries {
    begin: Vec<PendingQueue>,
    lines: Vec<PendingQueue>,
    shortages: Shortages,
    reservations: Reservations,
    /// Start attempts and reservation searches.
    work_done: usize,
    /// Number of workloads with an allocation now, and at the beginning.
    holders: usize,
    held: usize,
    /// Workloads with quota whose pods wait for nodes: now, and at the beginning.
    unplaced: Vec<WorkloadId>,
    unplaced_begin: Vec<WorkloadId>,
    /// Workloads that are being evicted when a timeline begins, and whether none of them has ended yet.
    ending: Option<Holders>,
    before_ends: bool,
}

impl CycleSeries {
    /// Series for the pending workloads of a state.
    pub(crate) fn new(state: &State<'_>) -> Self {
        let compiled = state.compiled();
        let line = |(queue, works)| PendingQueue {
            queue,
            works,
            strict: is_strict(compiled, queue),
        };
        let begin: Vec<PendingQueue> = order::pending(state).into_iter().map(line).collect();
        Self {
            lines: begin.clone(),
            begin,
            shortages: Shortages::new(compiled),
            reservations: Reservations::new(durations(compiled)),
            work_done: 0,
            holders: state.holders().count(),
            held: state.holders().count(),
            unplaced: unplaced(state),
            unplaced_begin: unplaced(state),
            ending: Holders::ending(state),
            before_ends: true,
        }
    }

    /// Starts another timeline from the same state.
    pub(crate) fn restart(&mut self) {
        self.lines.clone_from(&self.begin);
        self.unplaced.clone_from(&self.unplaced_begin);
        self.reservations.forget();
        (self.work_done, self.holders, self.before_ends) = (0, self.held, true);
    }

    /// Work since the timeline began: 1 for a start attempt, [`LOOK_FOR_ROOM`] for a reservation search.
    pub(crate) fn work_done(&self) -> usize {
        self.work_done
    }

    /// Number of pending workloads in existing queues, and of those that have quota and no nodes.
    pub(crate) fn waiting(&self) -> usize {
        let lines = self.lines.iter().map(|line| line.works.len());
        lines.sum::<usize>() + self.unplaced.len()
    }

    /// Whether a workload has quota and waits for nodes: it has not begun.
    pub(crate) fn is_unplaced(&self, work: WorkloadId) -> bool {
        self.unplaced.contains(&work)
    }

    /// Ends a running workload.
    pub(crate) fn finish(&mut self, state: &mut State<'_>, work: WorkloadId) {
        if self.is_sooner(state, work) {
            self.reservations.surprises += 1;
        }
        self.reservations.forget_workload(state, work);
        state.finish(work);
        self.holders = self.holders.saturating_sub(1);
        self.before_ends = false;
    }

    /// Whether a workload that ends now was expected to run longer.
    fn is_sooner(&self, state: &State<'_>, work: WorkloadId) -> bool {
        let believed = || {
            let lasts = self.reservations.durations[work]?;
            let lasts = at_speed(lasts, state.allocation(work)?.speed_milli);
            Some(state.since(work)?.millis().saturating_add(lasts))
        };
        let ends = state.workload_state(work).status == Status::Ending;
        !ends && believed().is_none_or(|end| end > state.now().millis())
    }

    /// Runs a cycle without preemption: returns the workloads that start, in order of decision. Resources released since `since`
    /// are free. An `exact` cycle starts what [`super::cycle`] would; another makes fewer reservation searches.
    pub(crate) fn cycle(
        &mut self,
        state: &mut State<'_>,
        since: Moment,
        exact: bool,
    ) -> Vec<(WorkloadId, Arc<Allocation>)> {
        self.shortages.look_anew();
        // Pods that exist come before any new workload.
        self.work_done += self.unplaced.len();
        let (mut started, unplaced) = place_these(state, std::mem::take(&mut self.unplaced));
        self.unplaced = unplaced;
        for (work, allocation) in &started {
            self.reservations.evicted(state, *work);
            self.reservations.keep(state, *work, allocation);
        }
        if !self.any_may_fit(state) {
            return started;
        }
        self.reservations.begin(state, since);
        if exact || self.reservations.surprises > self.holders / BELIEVED {
            self.reservations.forget();
        }
        let fair = state.compiled().snapshot.options.fair_sharing.is_some();
        let mut run = SeriesRun {
            failed: FxHashMap::default(),
            places: vec![LineProgress::default(); self.lines.len()],
            heads: BTreeMap::new(),
            most_looks: if exact { usize::MAX } else { MOST_LOOKS },
            held: Vec::new(),
        };
        for line in 0..self.lines.len() {
            self.seek(state, &mut run, line);
        }
        while let Some((round, mut heads)) = run.heads.pop_first() {
            if fair {
                // Heads that cannot start take part in the tournament too.
                heads = self.all_heads(&run, round);
            }
            let mut turns = self.turns(state, &heads, round);
            while let Some((line, work)) = turns.next(state) {
                let start = self.try_workload(state, &mut run, line, work);
                turns.done(state, work, start.is_some());
                if let Some(Started::OnNodes(allocation)) = start {
                    started.push((work, allocation));
                }
            }
            for line in heads {
                if run.places[line].next == round + 1 {
                    self.seek(state, &mut run, line);
                }
            }
        }
        for (queue, pair, amount) in run.held {
            state.use_quota(queue, pair, -amount);
        }
        state.keep_nodes(std::collections::BTreeSet::new());
        self.reservations.nodes_passed = false;
        for line in &mut self.lines {
            line.works.retain(|work| state.allocation(*work).is_none());
        }
        started
    }

    fn ignores_nodes(&self, state: &State<'_>, work: WorkloadId) -> bool {
        let queue = state.compiled().workloads[work].queue;
        queue.is_some_and(|queue| schedulers::ignores_nodes(state.compiled(), queue))
    }

    fn any_may_fit(&mut self, state: &mut State<'_>) -> bool {
        let Self {
            lines, shortages, ..
        } = self;
        lines.iter().any(|line| {
            let most = if line.strict { 1 } else { usize::MAX };
            let mut works = line.works.iter().take(most);
            works.any(|work| shortages.may_fit(state, *work))
        })
    }

    /// Finds the next workload of a line to try.
    fn seek(&mut self, state: &mut State<'_>, run: &mut SeriesRun, at: usize) {
        let line = &self.lines[at];
        let place = &mut run.places[at];
        if place.over {
            return;
        }
        let due = self.reservations.is_due(state.compiled(), line.queue);
        while let Some(&work) = line.works.get(place.next) {
            // The head of a strict queue of Kueue keeps quota even where it cannot start.
            let keeps = line.strict
                && place.next == 0
                && schedulers::ignores_nodes(state.compiled(), line.queue);
            let may_fit = self.shortages.may_fit(state, work) || keeps;
            let for_room = due
                && !line.strict
                && (self.reservations.is_carried(work)
                    || place.looks < run.most_looks
                        && !self.reservations.is_in_vain(state, work)
                        && self.shortages.may_pass(state, work) != Some(false));
            if may_fit || for_room {
                run.heads.entry(place.next).or_default().push(at);
                place.next += 1;
                return;
            }
            // A strict queue is blocked by a workload that does not start.
            if line.strict {
                break;
            }
            place.next += 1;
        }
        place.over = true;
    }

    /// Lines that have a workload at this position.
    fn all_heads(&self, run: &SeriesRun, round: usize) -> Vec<usize> {
        let all = self.lines.iter().enumerate();
        let there = |(at, line): &(usize, &PendingQueue)| {
            line.works.len() > round && !(line.strict && run.places[*at].next < round)
        };
        all.filter(there).map(|(at, _)| at).collect()
    }

    fn turns(&mut self, state: &mut State<'_>, heads: &[usize], round: usize) -> HeadOrder {
        let heads = heads.iter().map(|&at| (at, self.lines[at].works[round]));
        let heads: Vec<(usize, WorkloadId)> = heads.collect();
        let known = heads.into_iter().map(|(line, work)| {
            let usage = match order::may_borrow(state, work) {
                true => self.shortages.nominated(state, work),
                false => Vec::new(),
            };
            NominatedHead {
                line,
                work,
                nominated: Nominated::of_usage(state, work, usage),
            }
        });
        let known: Vec<_> = known.collect();
        HeadOrder::new(state, known)
    }

    fn try_workload(
        &mut self,
        state: &mut State<'_>,
        run: &mut SeriesRun,
        at: usize,
        work: WorkloadId,
    ) -> Option<Started> {
        let shape = state.compiled().workloads[work].shape;
        let own = self.reservations.take_carried(state, work);
        let passes = if let Some(passes) = run.failed.get(&shape) {
            *passes
        } else if self.shortages.may_fit(state, work)
            && !self.ignores_nodes(state, work)
            && self.reservations.lacks_quota(state, &self.shortages, work)
        {
            // It would take reserved capacity.
            true
        } else if self.shortages.may_fit(state, work)
            || self.lines[at].strict && self.ignores_nodes(state, work)
        {
            self.work_done += 1;
            let queue = state.compiled().workloads[work].queue;
            let start = schedulers::of(state.compiled(), queue).start;
            let ending = self.ending.as_ref().filter(|_| self.before_ends);
            match start(state, &mut self.reservations, work, ending) {
                Started::Waits { misses, kept } => {
                    let queue = queue.filter(|_| self.lines[at].strict);
                    for (pair, amount) in kept {
                        if let Some(queue) = queue {
                            state.use_quota(queue, pair, amount);
                            run.held.push((queue, pair, amount));
                        }
                    }
                    let passes = misses.iter().any(|miss| miss.why.may_pass());
                    let promised = |why: &Why| matches!(why, Why::Reserved { .. });
                    if !misses.iter().any(|miss| promised(&miss.why)) {
                        run.failed.insert(shape, passes);
                    }
                    passes
                }
                start => {
                    self.shortages.look_anew();
                    if let Some(own) = own {
                        self.reservations.started(state, &own);
                    }
                    self.holders += 1;
                    if matches!(start, Started::WithQuota) {
                        self.unplaced.push(work);
                    }
                    return Some(start);
                }
            }
        } else {
            let known = self.shortages.may_pass(state, work);
            known.unwrap_or_else(|| {
                let none = Relaxation::default();
                let misses = state.find(work, &none).err().unwrap_or_default();
                misses.iter().any(|miss| miss.why.may_pass())
            })
        };
        let line = &self.lines[at];
        if line.strict {
            // The line has no further heads.
            let place = &mut run.places[at];
            (place.over, place.next) = (true, place.next.saturating_sub(1));
        } else if passes && self.reservations.is_due(state.compiled(), line.queue) {
            let queue = line.queue;
            let kept = own.is_some_and(|own| self.reservations.carry_on(state, own));
            let looks = &mut run.places[at].looks;
            if !kept && *looks < run.most_looks && !self.reservations.is_in_vain(state, work) {
                *looks += 1;
                self.work_done += LOOK_FOR_ROOM;
                if let Err(Some(until)) = self.reservations.reserve(state, queue, work) {
                    self.reservations.in_vain.insert(work, until);
                }
            }
        } else if let Some(own) = own {
            // It may become due again when others are not.
            self.reservations.carried.push(own);
        }
        None
    }
}

/// Cost of a reservation search, in start attempts.
const LOOK_FOR_ROOM: usize = 100;

struct SeriesRun {
    /// By shape: it does not start; the value is whether that may change.
    failed: FxHashMap<usize, bool>,
    places: Vec<LineProgress>,
    /// By position: the lines whose workload at that position is tried.
    heads: BTreeMap<usize, Vec<usize>>,
    /// Maximum number of reservation searches in a line.
    most_looks: usize,
    /// Quota that heads of strict queues keep until the end of the cycle.
    held: Vec<(QueueId, PairId, i64)>,
}
