//! One cycle: who starts now and where, who waits and why, and for whom room is kept.
//!
//! Queues put forward their first in rounds, as Kueue's scheduler does: in each round the first of every queue, those that
//! need not borrow before those that do (or, with fair sharing, by the share that their queue would have), then by priority,
//! then by age. What a strict queue cannot start holds up those behind it; in another queue they may pass, unless a
//! reservation of one before them would be delayed.

mod admitted;
mod carried;
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
use super::preempt::{Holders, Mode, Victim, Victims};
use super::snapshot::{QueueingStrategy, Status, System};
use super::state::{Allocation, State};

use admitted::{looks_at_quota_alone, placed};
use reservation::Reservations;

pub(super) use admitted::unplaced;
pub use admitted::{bind, place};
pub use order::{pending, precedes};
pub(super) use series::Series;
pub(super) use watch::{Attempt, Known, Watch};

/// How to run a cycle.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options<'a> {
    /// How long each workload runs from start to end, in milliseconds at speed 1; nothing for one of which nothing is known.
    /// Without the list, [`expected`].
    pub durations: Option<&'a [Option<i64>]>,
    /// Nobody is preempted, and nobody evicted from a queue that is being drained.
    pub spare_all: bool,
    /// Queues of Kueue admit by their quotas alone, as Kueue does where a flavor has no topology: what finds no room holds its
    /// quota, and its pods wait for nodes. Nobody is kept room for there, and nobody goes for want of nodes.
    pub quota_alone: bool,
    /// In queues of Kueue nobody goes for want of nodes: where the quota suffices Kueue preempts nobody, unless the flavor has a
    /// topology.
    pub spare_for_room: bool,
}

/// A workload that starts.
#[derive(Clone, PartialEq, Debug)]
pub struct Admission {
    /// Which.
    pub work: WorkloadId,
    /// What it holds from now on.
    pub allocation: Arc<Allocation>,
    /// It starts before one that stands before it in its queue.
    pub passed: bool,
}

/// A workload that starts in the place of others.
#[derive(Clone, PartialEq, Debug)]
pub struct Preempted {
    /// Which; it is among those admitted as well.
    pub by: WorkloadId,
    /// Who goes.
    pub victims: Victims,
}

/// Room kept for a workload.
#[derive(Clone, PartialEq, Debug)]
pub struct Reservation {
    /// Which.
    pub work: WorkloadId,
    /// When it starts.
    pub at: Moment,
    /// What it will hold.
    pub allocation: Arc<Allocation>,
}

/// What a cycle decides.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Cycle {
    /// Who starts, in the order in which it was decided.
    pub admitted: Vec<Admission>,
    /// Who goes so that another starts, in the order in which it was decided.
    pub preempted: Vec<Preempted>,
    /// Who goes before anybody starts, because its queue is being drained.
    pub drained: Vec<Victim>,
    /// Who waits, by workload, and why: every attempt that failed.
    pub waiting: BTreeMap<WorkloadId, Arc<[Miss]>>,
    /// Room that is kept, in the order in which it was.
    pub reservations: Vec<Reservation>,
    /// Who has its quota from now on, and no room on nodes.
    pub quota_reserved: Vec<WorkloadId>,
}

/// How long a workload is expected to run, in milliseconds at speed 1: what it says; or else what nine tenths of its owner's
/// past runs stayed below; or else nothing.
pub fn expected(compiled: &CompiledFleet, work: WorkloadId) -> Option<i64> {
    let workload = compiled.workload(work);
    let past = || {
        let runs = &compiled.snapshot.runs;
        let found = runs.binary_search_by(|runs| runs.owner.cmp(&workload.owner));
        Some(runs[found.ok()?].p90_ms)
    };
    workload.estimate_ms.or_else(past)
}

/// What is [`expected`] of each workload.
pub(super) fn durations(compiled: &CompiledFleet) -> Arc<[Option<i64>]> {
    let works = 0..compiled.works.len();
    works.map(|work| expected(compiled, work)).collect()
}

/// How long something of a duration at speed 1 takes at another speed, rounded up.
pub fn at_speed(duration: i64, speed_milli: i64) -> i64 {
    let speed = i128::from(speed_milli.max(1));
    let wide = (i128::from(duration.max(0)) * 1_000 + speed - 1) / speed;
    i64::try_from(wide).unwrap_or(i64::MAX)
}

/// When a workload that holds something ends: its start (now, where that is not known) and its duration. One that ran over
/// ends a minute from now.
pub fn end_of(state: &State<'_>, work: WorkloadId, duration: Option<i64>) -> Option<Moment> {
    let allocation = state.allocation(work)?;
    let now = state.now();
    if state.standing(work).status == Status::Ending {
        return Some(now);
    }
    let since = state.since(work).unwrap_or(now);
    let lasts = at_speed(duration?, allocation.speed_milli);
    let end = Moment::from_millis(since.millis().saturating_add(lasts));
    Some(if end > now {
        end
    } else {
        Moment::from_millis(now.millis().saturating_add(60_000))
    })
}

/// Runs a cycle: the state then holds what was admitted.
pub fn cycle(state: &mut State<'_>, options: Options<'_>) -> Cycle {
    watched(state, options, Watch::default())
}

/// Runs a cycle under the eyes of somebody, or only up to the turn of one workload.
pub(super) fn watched(state: &mut State<'_>, options: Options<'_>, mut watch: Watch<'_>) -> Cycle {
    let compiled = state.compiled();
    let known = watch.known.take();
    let durations = match (options.durations, &known) {
        (Some(list), _) => {
            let works = 0..compiled.works.len();
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
    // Those that are drained wait too.
    let lines = match known.filter(|_| drained.is_empty()) {
        Some(known) => order::lines_of(compiled, known.lines),
        None => order::lines(state),
    };
    let mut run = Run {
        failed: vec![None; compiled.shapes],
        spared: vec![options.spare_all; compiled.shapes],
        spared_whole: vec![options.spare_all; compiled.shapes],
        fresh: BTreeSet::new(),
        holders: None,
        reservations: Reservations::new(durations),
        lines,
        out: Cycle {
            drained,
            ..Cycle::default()
        },
        quota_alone: options.quota_alone,
        spare_for_room: options.spare_for_room,
        over: false,
    };
    while run.round(state, &mut watch) {}
    state.keep_nodes(BTreeSet::new());
    run.out
}

/// A queue with those who want to start from it.
#[derive(Clone, Debug)]
struct Line {
    queue: QueueId,
    /// In order.
    works: Vec<WorkloadId>,
    /// How many have had their turn.
    next: usize,
    /// The first that could not start.
    blocked: Option<WorkloadId>,
    strict: bool,
}

struct Run {
    /// By shape of workload: why it does not start. That stays until somebody is preempted.
    failed: Vec<Option<Arc<[Miss]>>>,
    /// By shape: it preempts nobody. In a line the first of a shape may take the most.
    spared: Vec<bool>,
    /// By shape: it preempts nobody for all of its pods.
    spared_whole: Vec<bool>,
    /// Those that started in this cycle.
    fresh: BTreeSet<WorkloadId>,
    /// Those that held something when somebody was first to be preempted.
    holders: Option<Holders>,
    reservations: Reservations,
    lines: Vec<Line>,
    out: Cycle,
    quota_alone: bool,
    spare_for_room: bool,
    /// The one up to whose turn it was to go has had it.
    over: bool,
}

impl Run {
    /// Gives the first of every queue its turn. False where there was none.
    fn round(&mut self, state: &mut State<'_>, watch: &mut Watch<'_>) -> bool {
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
            let admitted = self.turn(state, line, work, watch);
            if self.over {
                return false;
            }
            turns.done(state, work, admitted);
        }
        true
    }

    fn turn(
        &mut self,
        state: &mut State<'_>,
        line: usize,
        work: WorkloadId,
        watch: &mut Watch<'_>,
    ) -> bool {
        let shape = state.compiled().works[work].shape;
        let first = state.compiled().works[work].queue;
        let last = watch.until == Some(work);
        self.over |= last;
        let relaxation = watch.relaxation.filter(|_| last);
        // Who is looked at through a lens is not to push others out for it.
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

    /// Lets a workload in as Kueue does: by the first flavors whose quota suffices, with room on their nodes or without.
    fn by_quota(&mut self, state: &mut State<'_>, line: usize, work: WorkloadId) -> bool {
        let compiled = state.compiled();
        let short = |misses: &Arc<[Miss]>| {
            let of_nodes = |why: &Why| matches!(why, Why::Nodes { .. } | Why::Topology { .. });
            !misses.iter().any(|miss| of_nodes(&miss.why))
        };
        // Quotas only shrink until somebody is preempted.
        if self.failed[compiled.works[work].shape]
            .as_ref()
            .is_some_and(short)
        {
            return false;
        }
        let Some(queue) = compiled.works[work]
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
        debug_assert!(state.gate_of_queue(work) == Ok(queue), "its queue lets in");
        let started = state.start(work, &blind).is_ok();
        if started {
            self.fresh.insert(work);
            self.out.quota_reserved.push(work);
        }
        started
    }

    fn admitted(&mut self, line: usize, work: WorkloadId, allocation: Arc<Allocation>) {
        let passed = self.lines[line].blocked.is_some();
        self.fresh.insert(work);
        self.out.admitted.push(Admission {
            work,
            allocation,
            passed,
        });
    }

    /// Kueue preempts for all pods of a workload before it lets in fewer of them.
    fn whole_first(&mut self, state: &mut State<'_>, work: WorkloadId, line: usize) -> bool {
        let compiled = state.compiled();
        let it = &compiled.works[work];
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

    /// Starts a workload in the place of others, if it may and delays no reservation; where `whole` says so, all of its pods.
    fn preempts(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        line: usize,
        whole: bool,
    ) -> bool {
        let shape = state.compiled().works[work].shape;
        let Some(queue) = state.compiled().works[work].queue else {
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
            true => Mode::ByQuota,
            false => Mode::AsCluster,
        };
        let found = state.victims_except(work, (mode, whole), holders, &spared);
        let kept = found.ok().and_then(|mut victims| {
            let mark = state.mark();
            let gone: Vec<WorkloadId> = victims.list.iter().map(|it| it.work).collect();
            for victim in &gone {
                state.evict(*victim);
            }
            if mode == Mode::ByQuota {
                let quota_reserved = &self.out.quota_reserved;
                let Some(placed) = placed(state, work, queue, &victims.allocation, quota_reserved)
                else {
                    state.undo_to(mark);
                    return None;
                };
                victims.allocation = Arc::new(placed);
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
        self.admitted(line, work, victims.allocation.clone());
        self.out.preempted.push(Preempted { by: work, victims });
        // What they leave over may be enough for others.
        self.failed.fill(None);
        true
    }

    fn missed(
        &mut self,
        state: &mut State<'_>,
        work: WorkloadId,
        misses: &Arc<[Miss]>,
        watch: &mut Watch<'_>,
    ) {
        if let Some(seen) = &mut watch.missed {
            let epoch = self.out.admitted.len() + self.out.reservations.len();
            seen(&mut Attempt {
                state,
                reservations: &mut self.reservations,
                work,
                misses,
                epoch,
            });
        }
    }

    fn blocked(
        &mut self,
        state: &mut State<'_>,
        at: usize,
        work: WorkloadId,
        misses: Arc<[Miss]>,
        watch: &Watch<'_>,
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
            if let Ok(reservation) = self.reservations.make(state, queue, work) {
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

/// Whether none of these flavors has a topology: then Kueue looks at no node for them.
fn are_flat(compiled: &CompiledFleet, flavors: &[FlavorId]) -> bool {
    let mut flavors = flavors.iter();
    flavors.all(|flavor| compiled.snapshot.flavors[*flavor].topology.is_none())
}

/// Whether Kueue would let one in and leave it to find nodes, by flavors that have no topology.
fn lacks_nodes(compiled: &CompiledFleet, queue: Option<QueueId>, misses: &[Miss]) -> bool {
    let flat = |miss: &Miss| are_flat(compiled, &miss.flavors);
    let of_nodes = |miss: &Miss| matches!(miss.why, Why::Nodes { .. } | Why::Topology { .. });
    queue.is_some_and(|queue| is_kueue(compiled, queue))
        && misses.iter().any(|miss| of_nodes(miss) && flat(miss))
}

/// Whether a queue is strict; those that are only names are not.
pub(crate) fn is_strict(compiled: &CompiledFleet, queue: QueueId) -> bool {
    let known = compiled.snapshot.queues.get(queue);
    known.is_some_and(|queue| queue.order == QueueingStrategy::Strict)
}
