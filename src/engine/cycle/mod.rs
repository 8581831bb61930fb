//! One scheduling cycle: which workloads start and where, which wait and why, and which get a reservation.
//!
//! Queues nominate their heads in rounds, as Kueue's scheduler does: each round takes the head of every queue, those that
//! need not borrow before those that do (or, with fair sharing, by the share that their queue would have), then by priority,
//! then by age. In a strict queue, a workload that cannot start blocks those behind it; in another queue they may overtake it,
//! unless that delays an earlier workload's reservation.

mod admitted;
mod carry_over;
mod order;
mod reservation;
mod series;
pub mod share;
mod watch;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::base::Moment;

use super::compiled::{CompiledFleet, PairId, QueueId, WorkloadId};
use super::fit::{Miss, Relaxation, Why};
use super::preempt::{Holders, PreemptMode, Victim, Victims};
use super::schedulers;
use super::snapshot::{QueueingStrategy, Status};
use super::state::{Allocation, State};

use admitted::Unplaced;
use order::NominatedHead;

pub use admitted::{bind, place, unplaced};
pub(super) use order::Nominated;
pub use order::{pending, precedes};
pub(super) use reservation::Reservations;
pub(super) use series::CycleSeries;
pub(super) use watch::{Attempt, CycleInput, CycleWatch};

/// A workload that starts.
#[derive(Clone, PartialEq, Debug)]
pub struct AdmittedWorkload {
    pub work: WorkloadId,
    /// Its allocation from now on.
    pub allocation: Arc<Allocation>,
    /// It starts before a workload that precedes it in its queue.
    pub overtook: bool,
}

/// A workload that starts by preempting others.
#[derive(Clone, PartialEq, Debug)]
pub struct Preempted {
    /// The preemptor; also listed in `admitted` or `quota_reserved`, unless it waits for others that are being evicted already or its
    /// start is not forecast.
    pub by: WorkloadId,
    pub victims: Victims,
}

/// Reserved capacity for a workload.
#[derive(Clone, PartialEq, Debug)]
pub struct Reservation {
    pub work: WorkloadId,
    pub at: Moment,
    pub allocation: Arc<Allocation>,
}

/// Decisions of a cycle.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cycle {
    /// Workloads that get nodes and are not new: those that had quota, which come first, and victims that start again.
    pub placed: Vec<(WorkloadId, Arc<Allocation>)>,
    /// Workloads that start, in order of decision.
    pub admitted: Vec<AdmittedWorkload>,
    /// Preemptions, in order of decision.
    pub preempted: Vec<Preempted>,
    /// Workloads evicted before any start because their queue is being drained.
    pub drained: Vec<Victim>,
    /// Workloads that do not run after the cycle, and why: every failed attempt.
    pub waiting: BTreeMap<WorkloadId, Arc<[Miss]>>,
    /// Reservations, in the order in which they were made.
    pub reservations: Vec<Reservation>,
    /// Workloads whose quota is reserved from now on and that fit no nodes.
    pub quota_reserved: Vec<WorkloadId>,
}

impl Cycle {
    /// Workloads whose start is decided by what is not modeled are not known to start, though the cycle has counted them.
    fn set_apart(&mut self, compiled: &CompiledFleet) {
        let is_apart = |work: WorkloadId| compiled.workload(work).not_forecast.is_some();
        self.quota_reserved.retain(|work| !is_apart(*work));
        for one in self.admitted.extract_if(.., |one| is_apart(one.work)) {
            let misses = Miss::plain(Why::NotForecast).into();
            self.waiting.insert(one.work, misses);
        }
    }
}

/// Expected duration of a workload, in milliseconds at speed 1: its own estimate, else the 90th percentile of its owner's
/// past runs, else none.
pub fn expected(compiled: &CompiledFleet, work: WorkloadId) -> Option<i64> {
    let workload = compiled.workload(work);
    let past = || {
        let runs = &compiled.snapshot.runs;
        let found = runs.binary_search_by(|runs| runs.owner.cmp(&workload.owner));
        Some(runs[found.ok()?].p90_ms)
    };
    workload.estimate_ms.or_else(past)
}

/// The [`expected`] duration of each workload.
pub(super) fn durations(compiled: &CompiledFleet) -> Arc<[Option<i64>]> {
    let works = 0..compiled.workloads.len();
    works.map(|work| expected(compiled, work)).collect()
}

/// Duration at another speed of work that takes `duration` at speed 1, rounded up.
pub fn at_speed(duration: i64, speed_milli: i64) -> i64 {
    let speed = i128::from(speed_milli.max(1));
    let wide = (i128::from(duration.max(0)) * 1_000 + speed - 1) / speed;
    i64::try_from(wide).unwrap_or(i64::MAX)
}

/// Expected end of a workload with an allocation: its start (now if unknown) plus its duration. An overdue workload
/// ends one minute from now, and so does one that is being evicted.
pub fn end_of(state: &State<'_>, work: WorkloadId, duration: Option<i64>) -> Option<Moment> {
    let allocation = state.allocation(work)?;
    let now = state.now();
    if state.workload_state(work).status == Status::Ending {
        return Some(not_overdue(now, now));
    }
    let since = state.since(work).unwrap_or(now).min(now);
    let lasts = at_speed(duration?, allocation.speed_milli);
    let end = Moment::from_millis(since.millis().saturating_add(lasts));
    Some(not_overdue(end, now))
}

/// An expected end, or one minute from now if it has passed.
fn not_overdue(end: Moment, now: Moment) -> Moment {
    if end > now {
        end
    } else {
        Moment::from_millis(now.millis().saturating_add(60_000))
    }
}

/// Runs a cycle. Afterwards the state contains the admitted workloads.
pub fn cycle(state: &mut State<'_>) -> Cycle {
    watched(state, CycleWatch::default())
}

/// The same without preemption, and without eviction from a queue that is being drained.
pub fn without_evictions(state: &mut State<'_>) -> Cycle {
    let watch = CycleWatch {
        spare_all: true,
        ..CycleWatch::default()
    };
    watched(state, watch)
}

/// The same for a fleet in which the pods that wait for nodes are workloads of their own.
pub fn with_pending_pods(state: &mut State<'_>) -> Cycle {
    let watch = CycleWatch {
        pods_apart: true,
        ..CycleWatch::default()
    };
    watched(state, watch)
}

/// Runs a cycle with a [`CycleWatch`], optionally only until one workload has been tried.
pub(super) fn watched(state: &mut State<'_>, mut watch: CycleWatch<'_>) -> Cycle {
    let compiled = state.compiled();
    let known = watch.known.take();
    let durations = match &known {
        Some(known) => known.durations.clone(),
        None => durations(compiled),
    };
    let placed = match watch.pods_apart {
        true => Vec::new(),
        false => place(state).0,
    };
    let mut drained = Vec::new();
    if !watch.spare_all {
        drained = state.drained();
        for victim in &drained {
            state.evict(victim.work);
        }
    }
    // Drained workloads are pending as well.
    let lines = match known.filter(|_| drained.is_empty()) {
        Some(known) => order::lines_of(compiled, known.lines),
        None => order::lines(state),
    };
    let mut run = CycleRun {
        failed: vec![None; compiled.shapes],
        spared: vec![watch.spare_all; compiled.shapes],
        fresh: BTreeSet::new(),
        holders: None,
        unplaced: Unplaced::default(),
        held: Vec::new(),
        reservations: Reservations::new(durations),
        lines,
        out: Cycle {
            placed,
            drained,
            ..Cycle::default()
        },
        over: false,
    };
    while run.round(state, &mut watch) {}
    let all = watch.until.is_none() && !watch.pods_apart;
    if all && !(run.out.preempted.is_empty() && run.out.drained.is_empty()) {
        run.again(state);
    }
    run.release(state);
    state.keep_nodes(BTreeSet::new());
    if watch.until.is_none() {
        run.out.set_apart(compiled);
    }
    run.out
}

/// A queue with its pending workloads.
#[derive(Clone, Debug)]
struct QueueCursor {
    queue: QueueId,
    works: Vec<WorkloadId>,
    /// Number of workloads already tried.
    next: usize,
    /// The first workload that could not start.
    blocked: Option<WorkloadId>,
    strict: bool,
}

/// A workload whose turn it is in a cycle.
pub(crate) struct Turn<'w, 'm> {
    pub(crate) work: WorkloadId,
    line: usize,
    /// Constraints that are ignored, in a trial.
    pub(crate) relaxation: Option<&'w Relaxation>,
    pub(crate) watch: &'m mut CycleWatch<'w>,
}

/// What happens to a workload that a timeline starts.
pub(crate) enum Started {
    OnNodes(Arc<Allocation>),
    /// It has its quota, and its pods wait for nodes.
    WithQuota,
    /// It waits; at the head of a strict queue it keeps quota from others.
    Waits {
        misses: Vec<Miss>,
        kept: Vec<(PairId, i64)>,
    },
}

/// A cycle in progress.
pub(crate) struct CycleRun {
    /// By workload shape: why it does not start. Valid until a preemption.
    pub(crate) failed: Vec<Option<Arc<[Miss]>>>,
    /// By shape: preempts no workload. The first of a shape in a line may preempt the most.
    pub(crate) spared: Vec<bool>,
    /// Workloads started in this cycle.
    pub(crate) fresh: BTreeSet<WorkloadId>,
    /// Workloads with an allocation when preemption was first considered.
    pub(crate) holders: Option<Holders>,
    unplaced: Unplaced,
    /// Quota kept until the end of the cycle for workloads that wait for others to end.
    held: Vec<(QueueId, PairId, i64)>,
    pub(crate) reservations: Reservations,
    lines: Vec<QueueCursor>,
    out: Cycle,
    /// The workload at which the cycle was to stop has been tried.
    over: bool,
}

impl CycleRun {
    /// Tries the head of every queue. False if there is none.
    fn round(&mut self, state: &mut State<'_>, watch: &mut CycleWatch<'_>) -> bool {
        let mut heads: Vec<(usize, WorkloadId)> = Vec::new();
        for (at, line) in self.lines.iter_mut().enumerate() {
            if let Some(&work) = line.works.get(line.next) {
                line.next += 1;
                heads.push((at, work));
            }
        }
        if heads.is_empty() {
            return false;
        }
        let heads = heads
            .into_iter()
            .map(|(line, work)| NominatedHead {
                line,
                work,
                nominated: self.nominate(state, work),
            })
            .collect();
        let mut turns = order::HeadOrder::new(state, heads);
        while let Some((line, work)) = turns.next(state) {
            let admitted = self.try_workload(state, line, work, watch);
            if self.over {
                return false;
            }
            turns.done(state, work, admitted);
        }
        true
    }

    /// What a workload's scheduler nominates for it; nothing where it is known to fail, or alone in its tree.
    fn nominate(&mut self, state: &mut State<'_>, work: WorkloadId) -> Nominated {
        let compiled = state.compiled();
        let it = &compiled.workloads[work];
        if self.failed[it.shape].is_some() || !order::may_borrow(state, work) {
            return Nominated::default();
        }
        (schedulers::of(compiled, it.queue).nominate)(self, state, work)
    }

    /// What victims leave over may suffice for workloads that had their turn before, or for victims elsewhere: all that wait have
    /// another turn, in which nothing is preempted.
    fn again(&mut self, state: &mut State<'_>) {
        self.release(state);
        self.lines = order::lines(state);
        self.reservations.forget();
        self.reservations.ends = None;
        self.out.reservations.clear();
        self.failed.fill(None);
        self.spared.fill(true);
        let mut watch = CycleWatch::default();
        while self.round(state, &mut watch) {}
        let out = &mut self.out;
        out.waiting
            .retain(|work, _| !out.admitted.iter().any(|one| one.work == *work));
        let victims = out.preempted.iter().flat_map(|it| &it.victims.list);
        let gone: BTreeSet<WorkloadId> = victims.map(|it| it.work).collect();
        out.waiting.retain(|work, _| !gone.contains(work));
        out.quota_reserved.retain(|work| !gone.contains(work));
        out.reservations.retain(|it| !gone.contains(&it.work));
        let again = out.admitted.extract_if(.., |one| gone.contains(&one.work));
        out.placed
            .extend(again.map(|one| (one.work, one.allocation)));
    }

    fn try_workload(
        &mut self,
        state: &mut State<'_>,
        line: usize,
        work: WorkloadId,
        watch: &mut CycleWatch<'_>,
    ) -> bool {
        let compiled = state.compiled();
        let last = watch.until == Some(work);
        self.over |= last;
        let mut turn = Turn {
            work,
            line,
            relaxation: watch.relaxation.filter(|_| last),
            watch,
        };
        let queue = compiled.workloads[work].queue;
        (schedulers::of(compiled, queue).turn)(self, state, &mut turn)
    }

    /// The victims with which a workload starts, if it may preempt any. None is asked for twice for one shape.
    pub(crate) fn victims(&mut self, state: &mut State<'_>, work: WorkloadId) -> Option<Victims> {
        let it = &state.compiled().workloads[work];
        if self.spared[it.shape] || !state.may_preempt(it.queue?) {
            return None;
        }
        let fresh = &self.fresh;
        let holders = self.holders.get_or_insert_with(|| Holders::new(state));
        let spared = |work| fresh.contains(&work);
        let mode = PreemptMode::AsCluster;
        let found = state.victims_except(work, mode, holders, &spared);
        self.spared[it.shape] = found.is_err();
        found.ok()
    }

    /// Records that a workload starts; the state has its allocation.
    pub(crate) fn admitted(&mut self, turn: &Turn<'_, '_>, allocation: Arc<Allocation>) {
        let overtook = self.lines[turn.line].blocked.is_some();
        self.fresh.insert(turn.work);
        self.out.admitted.push(AdmittedWorkload {
            work: turn.work,
            allocation,
            overtook,
        });
    }

    /// Gives a workload its quota; its pods wait for nodes, for which `misses` says what is short.
    pub(crate) fn gets_quota(
        &mut self,
        state: &mut State<'_>,
        turn: &mut Turn<'_, '_>,
        allocation: Arc<Allocation>,
        misses: Vec<Miss>,
    ) {
        let misses: Arc<[Miss]> = misses.into();
        self.missed(state, turn, &misses);
        state.admit(turn.work, allocation);
        // The end of this workload is not in the list.
        self.reservations.ends = None;
        self.fresh.insert(turn.work);
        self.out.quota_reserved.push(turn.work);
        self.out.waiting.insert(turn.work, misses);
    }

    /// Nodes for a workload that gets quota now; those that had it before come first.
    pub(crate) fn nodes_for(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        allocation: &Allocation,
    ) -> Result<Allocation, Vec<Miss>> {
        let waiting = (&mut self.unplaced, &self.out.quota_reserved[..]);
        admitted::unplaced_first(waiting, state, work, allocation)
    }

    /// Records the victims of a workload, which the state has no more.
    pub(crate) fn preempted(&mut self, by: WorkloadId, victims: Victims) {
        self.out.preempted.push(Preempted { by, victims });
        // Capacity left over by the victims may suffice for other workloads.
        self.failed.fill(None);
    }

    /// Keeps quota of a queue until the end of the cycle.
    pub(crate) fn hold_quota(
        &mut self,
        state: &mut State<'_>,
        queue: QueueId,
        usage: &[(PairId, i64)],
    ) {
        for &(pair, amount) in usage {
            state.use_quota(queue, pair, amount);
            self.held.push((queue, pair, amount));
        }
    }

    fn release(&mut self, state: &mut State<'_>) {
        for (queue, pair, amount) in self.held.drain(..) {
            state.use_quota(queue, pair, -amount);
        }
    }

    /// Whether the workload's queue is strict.
    pub(crate) fn is_strict(&self, turn: &Turn<'_, '_>) -> bool {
        self.lines[turn.line].strict
    }

    /// Records that a workload does not start, and what that means for those behind it.
    pub(crate) fn waits(
        &mut self,
        state: &mut State<'_>,
        turn: &mut Turn<'_, '_>,
        misses: Arc<[Miss]>,
    ) {
        self.missed(state, turn, &misses);
        self.blocked(state, turn, misses);
    }

    fn missed(&mut self, state: &mut State<'_>, turn: &mut Turn<'_, '_>, misses: &Arc<[Miss]>) {
        if let Some(seen) = &mut turn.watch.missed {
            let epoch = self.out.admitted.len() + self.out.reservations.len();
            seen(&mut Attempt {
                state,
                reservations: &mut self.reservations,
                work: turn.work,
                misses,
                epoch,
                by_reservations: false,
            });
        }
    }

    fn blocked(&mut self, state: &mut State<'_>, turn: &Turn<'_, '_>, misses: Arc<[Miss]>) {
        let compiled = state.compiled();
        let work = turn.work;
        let line = &mut self.lines[turn.line];
        line.blocked.get_or_insert(work);
        if line.strict {
            let behind: Arc<[Miss]> = Miss::plain(Why::Behind { work }).into();
            for work in line.works.drain(line.next..) {
                self.over |= turn.watch.until == Some(work);
                self.out.waiting.insert(work, behind.clone());
            }
        } else if misses.iter().any(|miss| miss.why.may_pass())
            && self.reservations.is_due(compiled, line.queue)
        {
            let queue = line.queue;
            if let Ok(reservation) = self.reservations.reserve(state, queue, work) {
                self.out.reservations.push(reservation);
            }
        }
        self.out.waiting.insert(work, misses);
    }
}

/// Whether a queue is strict. Queues known by name alone are not.
pub(crate) fn is_strict(compiled: &CompiledFleet, queue: QueueId) -> bool {
    let known = compiled.snapshot.queues.get(queue);
    known.is_some_and(|queue| queue.order == QueueingStrategy::Strict)
}
