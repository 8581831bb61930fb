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

use super::compiled::{CompiledFleet, FlavorId, QueueId, WorkloadId};
use super::fit::{Miss, Relaxation, Why};
use super::preempt::{Holders, PreemptMode, Victim, Victims};
use super::snapshot::{QueueingStrategy, Status, System};
use super::state::{Allocation, State};

use admitted::{Unplaced, looks_at_quota_alone, placed};
use reservation::Reservations;

pub(super) use admitted::unplaced;
pub use admitted::{bind, place};
pub use order::{pending, precedes};
pub(super) use series::CycleSeries;
pub(super) use watch::{Attempt, CycleInput, CycleWatch};

/// Options of a cycle.
#[derive(Clone, Copy, Default, Debug)]
pub struct CycleOptions<'a> {
    /// Duration of each workload from start to end, in milliseconds at speed 1; none where unknown.
    /// Without the list, [`expected`].
    pub durations: Option<&'a [Option<i64>]>,
    /// No preemption, and no eviction from a queue that is being drained.
    pub spare_all: bool,
    /// Kueue queues admit by quota alone, as Kueue does where a flavor has no topology: a workload that fits no node keeps its
    /// quota, and its pods wait for nodes. These queues get no reservations and do not preempt for lack of nodes; a victim of
    /// preemption for quota is evicted even if no node has free capacity then.
    pub quota_alone: bool,
    /// In Kueue queues no workload is preempted for lack of nodes: if the quota suffices, Kueue preempts nothing, unless the
    /// flavor has a topology.
    pub spare_for_room: bool,
}

impl CycleOptions<'static> {
    /// For simulating the effect of a change: Kueue queues admit and preempt by quota alone, as Kueue does.
    pub const BY_QUOTA: Self = Self {
        durations: None,
        spare_all: false,
        quota_alone: true,
        spare_for_room: true,
    };
}

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
    /// The preemptor; also listed in `admitted` or `quota_reserved`.
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
    /// Workloads that start, in order of decision.
    pub admitted: Vec<AdmittedWorkload>,
    /// Preemptions, in order of decision.
    pub preempted: Vec<Preempted>,
    /// Workloads evicted before any start because their queue is being drained.
    pub drained: Vec<Victim>,
    /// Waiting workloads and why: every failed attempt.
    pub waiting: BTreeMap<WorkloadId, Arc<[Miss]>>,
    /// Reservations, in the order in which they were made.
    pub reservations: Vec<Reservation>,
    /// Workloads whose quota is reserved from now on and that fit no nodes.
    pub quota_reserved: Vec<WorkloadId>,
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
/// ends one minute from now.
pub fn end_of(state: &State<'_>, work: WorkloadId, duration: Option<i64>) -> Option<Moment> {
    let allocation = state.allocation(work)?;
    let now = state.now();
    if state.workload_state(work).status == Status::Ending {
        return Some(now);
    }
    let since = state.since(work).unwrap_or(now);
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
pub fn cycle(state: &mut State<'_>, options: CycleOptions<'_>) -> Cycle {
    watched(state, options, CycleWatch::default())
}

/// Runs a cycle with a [`CycleWatch`], optionally only until one workload has been tried.
pub(super) fn watched(
    state: &mut State<'_>,
    options: CycleOptions<'_>,
    mut watch: CycleWatch<'_>,
) -> Cycle {
    let compiled = state.compiled();
    let known = watch.known.take();
    let durations = match (options.durations, &known) {
        (Some(list), _) => {
            let works = 0..compiled.workloads.len();
            works
                .map(|work| list.get(work).copied().flatten())
                .collect()
        }
        (None, Some(known)) => known.durations.clone(),
        (None, None) => durations(compiled),
    };
    let mut drained = Vec::new();
    if !options.spare_all {
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
        spared: vec![options.spare_all; compiled.shapes],
        spared_whole: vec![options.spare_all; compiled.shapes],
        fresh: BTreeSet::new(),
        holders: None,
        unplaced: Unplaced::default(),
        reservations: Reservations::new(durations),
        lines,
        out: Cycle {
            drained,
            ..Cycle::default()
        },
        quota_alone: options.quota_alone,
        spare_for_room: options.spare_for_room || options.quota_alone,
        over: false,
    };
    while run.round(state, &mut watch) {}
    state.keep_nodes(BTreeSet::new());
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

struct CycleRun {
    /// By workload shape: why it does not start. Valid until a preemption.
    failed: Vec<Option<Arc<[Miss]>>>,
    /// By shape: preempts no workload. The first of a shape in a line may preempt the most.
    spared: Vec<bool>,
    /// By shape: preempts no workload to start all of its pods.
    spared_whole: Vec<bool>,
    /// Workloads started in this cycle.
    fresh: BTreeSet<WorkloadId>,
    /// Workloads with an allocation when preemption was first considered.
    holders: Option<Holders>,
    unplaced: Unplaced,
    reservations: Reservations,
    lines: Vec<QueueCursor>,
    out: Cycle,
    quota_alone: bool,
    spare_for_room: bool,
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

    fn try_workload(
        &mut self,
        state: &mut State<'_>,
        line: usize,
        work: WorkloadId,
        watch: &mut CycleWatch<'_>,
    ) -> bool {
        let shape = state.compiled().workloads[work].shape;
        let first = state.compiled().workloads[work].queue;
        let last = watch.until == Some(work);
        self.over |= last;
        let relaxation = watch.relaxation.filter(|_| last);
        // A relaxed trial must not preempt other workloads.
        let pushes = relaxation.is_none();
        if pushes && self.whole_first(state, work, line) {
            return true;
        }
        if self.quota_alone && pushes && self.by_quota(state, line, work) {
            return true;
        }
        if pushes
            && first.is_some_and(|queue| state.preempt_stops(queue))
            && self.preempts(state, work, line, false)
        {
            return true;
        }
        if let Some(misses) = self.failed[shape].clone().filter(|_| relaxation.is_none()) {
            self.missed(state, work, &misses, watch);
            self.blocked(state, line, work, misses, watch);
            return false;
        }
        let relaxation = relaxation.unwrap_or(&watch.plain);
        match self.reservations.try_start(state, work, relaxation) {
            Ok(allocation) => {
                self.admitted(line, work, allocation);
                true
            }
            Err(misses) => {
                let misses: Arc<[Miss]> = misses.into();
                let promised = |miss: &Miss| matches!(miss.why, Why::Reserved { .. });
                if pushes
                    && misses.iter().any(|miss| miss.why.may_pass())
                    && !(self.spare_for_room && lacks_nodes(state.compiled(), first, &misses))
                    && self.preempts(state, work, line, false)
                {
                    return true;
                }
                if !misses.iter().any(promised) {
                    self.failed[shape] = Some(misses.clone());
                }
                self.missed(state, work, &misses, watch);
                self.blocked(state, line, work, misses, watch);
                false
            }
        }
    }

    /// Admits a workload as Kueue does: with the first flavors whose quota suffices, whether or not their nodes have free capacity.
    fn by_quota(&mut self, state: &mut State<'_>, line: usize, work: WorkloadId) -> bool {
        let compiled = state.compiled();
        let short = |misses: &Arc<[Miss]>| {
            let of_nodes = |why: &Why| matches!(why, Why::Nodes { .. } | Why::Topology { .. });
            !misses.iter().any(|miss| of_nodes(&miss.why))
        };
        // Free quota only shrinks until a preemption.
        if self.failed[compiled.workloads[work].shape]
            .as_ref()
            .is_some_and(short)
        {
            return false;
        }
        let Some(queue) = compiled.workloads[work]
            .queue
            .filter(|queue| is_kueue(compiled, *queue))
        else {
            return false;
        };
        let blind = Relaxation {
            no_nodes: true,
            ..Relaxation::default()
        };
        let Ok(found) = state.find(work, &blind) else {
            return false;
        };
        if !found
            .sets
            .iter()
            .all(|set| are_flat(compiled, &set.flavors))
        {
            return false;
        }
        let mut flavors = found.sets.iter().flat_map(|set| &set.flavors).copied();
        let first = flavors.next();
        let there = Relaxation {
            only_flavor: first.filter(|first| flavors.all(|flavor| flavor == *first)),
            ..Relaxation::default()
        };
        if let Ok(allocation) = self.reservations.try_start(state, work, &there) {
            self.admitted(line, work, allocation);
            return true;
        }
        debug_assert!(
            state.gate_of_queue(work) == Ok(queue),
            "its queue admits it"
        );
        let started = state.start(work, &blind).is_ok();
        if started {
            // The end of this workload is not in the list.
            self.reservations.ends = None;
            self.reserved(work);
        }
        started
    }

    /// Records that a workload has its quota and its pods wait for nodes.
    fn reserved(&mut self, work: WorkloadId) {
        self.fresh.insert(work);
        self.out.quota_reserved.push(work);
    }

    fn admitted(&mut self, line: usize, work: WorkloadId, allocation: Arc<Allocation>) {
        let overtook = self.lines[line].blocked.is_some();
        self.fresh.insert(work);
        self.out.admitted.push(AdmittedWorkload {
            work,
            allocation,
            overtook,
        });
    }

    /// Kueue tries preemption for all pods of a workload before it admits fewer of them.
    fn whole_first(&mut self, state: &mut State<'_>, work: WorkloadId, line: usize) -> bool {
        let compiled = state.compiled();
        let it = &compiled.workloads[work];
        let elastic = it.sets.iter().any(|set| set.min < set.count);
        let Some(queue) = it
            .queue
            .filter(|queue| elastic && is_kueue(compiled, *queue))
        else {
            return false;
        };
        if self.spared_whole[it.shape] || !state.may_preempt(queue) {
            return false;
        }
        let whole = Relaxation {
            whole: true,
            no_nodes: looks_at_quota_alone(compiled, queue),
            ..Relaxation::default()
        };
        state.find(work, &whole).is_err() && self.preempts(state, work, line, true)
    }

    /// Starts a workload by preempting others, if it may and no reservation is delayed; with `whole`, only with all of its pods.
    fn preempts(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        line: usize,
        whole: bool,
    ) -> bool {
        let shape = state.compiled().workloads[work].shape;
        let Some(queue) = state.compiled().workloads[work].queue else {
            return false;
        };
        let known = if whole {
            &self.spared_whole
        } else {
            &self.spared
        };
        if known[shape] || !state.may_preempt(queue) {
            return false;
        }
        let fresh = &self.fresh;
        let holders = self.holders.get_or_insert_with(|| Holders::new(state));
        let spared = |work| fresh.contains(&work);
        let mode = match self.spare_for_room && looks_at_quota_alone(state.compiled(), queue) {
            true => PreemptMode::ByQuota,
            false => PreemptMode::AsCluster,
        };
        if mode == PreemptMode::ByQuota {
            self.unplaced.learn(state);
        }
        let found = state.victims_except(work, (mode, whole), holders, &spared);
        let mut waits_for_nodes = false;
        let kept = found.ok().and_then(|mut victims| {
            let mark = state.mark();
            let gone: Vec<WorkloadId> = victims.list.iter().map(|it| it.work).collect();
            for victim in &gone {
                state.evict(*victim);
            }
            if mode == PreemptMode::ByQuota {
                let waiting = (&self.unplaced, &self.out.quota_reserved[..]);
                match placed(state, work, queue, &victims.allocation, waiting) {
                    Some(placed) => victims.allocation = Arc::new(placed),
                    None if self.quota_alone => waits_for_nodes = true,
                    None => {
                        state.undo_to(mark);
                        return None;
                    }
                }
            }
            let free = self
                .reservations
                .replace(state, &gone, work, &victims.allocation);
            state.undo_to(mark);
            free.then_some(victims)
        });
        let Some(victims) = kept else {
            let known = if whole {
                &mut self.spared_whole
            } else {
                &mut self.spared
            };
            known[shape] = true;
            return false;
        };
        state.preempt(work, &victims);
        match waits_for_nodes {
            true => self.reserved(work),
            false => self.admitted(line, work, victims.allocation.clone()),
        }
        self.out.preempted.push(Preempted { by: work, victims });
        // Capacity left over by the victims may suffice for other workloads.
        self.failed.fill(None);
        true
    }

    fn missed(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        misses: &Arc<[Miss]>,
        watch: &mut CycleWatch<'_>,
    ) {
        if let Some(seen) = &mut watch.missed {
            let epoch = self.out.admitted.len() + self.out.reservations.len();
            seen(&mut Attempt {
                state,
                reservations: &mut self.reservations,
                work,
                misses,
                epoch,
                by_reservations: false,
            });
        }
    }

    fn blocked(
        &mut self,
        state: &mut State<'_>,
        at: usize,
        work: WorkloadId,
        misses: Arc<[Miss]>,
        watch: &CycleWatch<'_>,
    ) {
        let options = &state.compiled().snapshot.options;
        let (depth, most) = (options.backfill.depth(), options.most_reservations as usize);
        let line = &mut self.lines[at];
        line.blocked.get_or_insert(work);
        if line.strict {
            let behind: Arc<[Miss]> = Arc::new([Miss {
                set: 0,
                flavors: Vec::new(),
                why: Why::Behind { work },
            }]);
            for work in line.works.drain(line.next..) {
                self.over |= watch.until == Some(work);
                self.out.waiting.insert(work, behind.clone());
            }
        } else if misses.iter().any(|miss| miss.why.may_pass())
            && self.out.reservations.len() < most
            && self.reservations.of_queue(line.queue) < depth
            && !(self.quota_alone && is_kueue(state.compiled(), line.queue))
        {
            let queue = line.queue;
            if let Ok(reservation) = self.reservations.reserve(state, queue, work) {
                self.out.reservations.push(reservation);
            }
        }
        self.out.waiting.insert(work, misses);
    }
}

fn is_kueue(compiled: &CompiledFleet, queue: QueueId) -> bool {
    let known = compiled.snapshot.queues.get(queue);
    known.is_some_and(|queue| queue.system == System::Kueue)
}

/// Whether none of these flavors has a topology, so that Kueue ignores nodes for them.
fn are_flat(compiled: &CompiledFleet, flavors: &[FlavorId]) -> bool {
    let mut flavors = flavors.iter();
    flavors.all(|flavor| compiled.snapshot.flavors[*flavor].topology.is_none())
}

/// Whether Kueue would admit the workload and leave it without nodes, in flavors without a topology.
fn lacks_nodes(compiled: &CompiledFleet, queue: Option<QueueId>, misses: &[Miss]) -> bool {
    let flat = |miss: &Miss| are_flat(compiled, &miss.flavors);
    let of_nodes = |miss: &Miss| matches!(miss.why, Why::Nodes { .. } | Why::Topology { .. });
    queue.is_some_and(|queue| is_kueue(compiled, queue))
        && misses.iter().any(|miss| of_nodes(miss) && flat(miss))
}

/// Whether a queue is strict. Queues known by name alone are not.
pub(crate) fn is_strict(compiled: &CompiledFleet, queue: QueueId) -> bool {
    let known = compiled.snapshot.queues.get(queue);
    known.is_some_and(|queue| queue.order == QueueingStrategy::Strict)
}
