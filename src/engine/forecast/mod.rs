//! When waiting workloads start, by running cycles at the ends of what runs. Arrivals are not modelled: what comes later and
//! goes before makes the truth later than the forecast. Who starts now by preempting others does, and they are named; later in it
//! nobody is preempted: who may preempt then starts sooner.
//!
//! What a workload says of its runtime is taken as it is. Where it says nothing, its owner's past runs give the runtime a
//! distribution, and the timeline is run several times with runtimes drawn from it, the same for the same snapshot. What
//! neither tells never ends, and whoever needs what it holds has no forecast.

mod runtime;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;

use serde::Serialize;

use model::base::{Moment, Name};

use super::compiled::{CompiledFleet, WorkloadId};
use super::cycle::{self, Cycle, Series, at_speed};
use super::explain::{AS_TOLD, job};
use super::preempt::evicted;
use super::rng::Rng;
use super::snapshot::Status;
use super::state::State;
use model::plan::{Evicted, JobName};

pub use runtime::{remaining, runtime};

/// How often the timeline is run where runtimes are drawn.
const RUNS: usize = 15;

/// How many timelines are run at a time at most: each holds a state of its own.
const MOST_AT_A_TIME: usize = 4;

/// So much may be done in all timelines ([`Series::work_done`]) at the end of each workload, by exact cycles. After that what ends
/// within a part of the time that has passed until then counts as ending at once, and who starts then did so within that time; the
/// more has been done the larger is the part.
const EXACT_WORK: usize = 30_000;

/// That part: one in so many, and how much work makes it twice that.
const PART: i64 = 32;
const COARSER: usize = 8;

/// What may be done in all at most; who has not started by then starts later than is known.
const MOST_WORK: usize = 1_500_000;

/// The seed that runtimes are drawn with.
const SEED: u64 = 0x5706_e401d;

/// What a forecast was reckoned from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Nothing had to end first.
    Now,
    /// Runtimes that workloads say themselves.
    Limits,
    /// Past runs too.
    History,
    /// Nothing: it is unknown.
    None,
}

/// When a workload starts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Start {
    /// Namespace and name.
    pub job: JobName,
    /// One in ten that it starts by then; null where that is unknown.
    #[serde(serialize_with = "moment")]
    pub p10: Option<Moment>,
    /// One in two.
    #[serde(serialize_with = "moment")]
    pub p50: Option<Moment>,
    /// Nine in ten.
    #[serde(serialize_with = "moment")]
    pub p90: Option<Moment>,
    /// What it was reckoned from.
    pub basis: Basis,
    /// Who is evicted when it starts now; none for one that fits beside all others, or starts later.
    pub victims: Vec<Evicted>,
}

impl Start {
    /// The start of one that nothing has to end for.
    pub(crate) fn at_once(compiled: &CompiledFleet, work: WorkloadId, now: Moment) -> Self {
        Self {
            job: job(&compiled.workload(work).key),
            p10: Some(now),
            p50: Some(now),
            p90: Some(now),
            basis: Basis::Now,
            victims: Vec::new(),
        }
    }
}

#[allow(clippy::ref_option, reason = "serde passes references")]
fn moment<S: serde::Serializer>(at: &Option<Moment>, out: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => out.serialize_some(&at.rfc3339()),
        None => out.serialize_none(),
    }
}

/// When one workload starts in one run of the timeline.
#[derive(Clone, Copy)]
struct Span {
    /// The earliest moment.
    from: Moment,
    /// The moment of its cycle.
    at: Moment,
    /// The latest moment.
    to: Moment,
}

/// One run of the timeline.
struct Timeline {
    /// Per workload: when it starts.
    starts: BTreeMap<WorkloadId, Span>,
    /// The first moment at which a runtime that was drawn had ended.
    drawn: Option<Moment>,
}

/// When each waiting workload of a state starts, by workload.
pub fn forecast(state: &State<'_>) -> BTreeMap<WorkloadId, Start> {
    forecast_for(state, None)
}

/// The same once a cycle has been run: nobody is preempted any more.
pub fn forecast_after(state: &State<'_>) -> BTreeMap<WorkloadId, Start> {
    forecast_from(state, (state, &Cycle::default()), None)
}

/// The same for one workload. The timeline ends when it has started.
pub fn forecast_one(state: &State<'_>, work: WorkloadId) -> Option<Start> {
    forecast_for(state, Some(work)).remove(&work)
}

fn forecast_for(state: &State<'_>, only: Option<WorkloadId>) -> BTreeMap<WorkloadId, Start> {
    if !is_whole(state.compiled()) {
        return BTreeMap::new();
    }
    let mut settled = state.clone();
    let cycle = cycle::cycle(&mut settled, AS_TOLD);
    forecast_from(state, (&settled, &cycle), only)
}

/// What a part of the fleet would do is no forecast of the fleet.
fn is_whole(compiled: &CompiledFleet) -> bool {
    compiled.snapshot.not_visible.is_empty()
}

/// The same where the cycle of now has been run, as explanations have it: it left the state `settled`.
pub(crate) fn forecast_from(
    state: &State<'_>,
    (settled, cycle): (&State<'_>, &Cycle),
    only: Option<WorkloadId>,
) -> BTreeMap<WorkloadId, Start> {
    let compiled = state.compiled();
    if !is_whole(compiled) {
        return BTreeMap::new();
    }
    let wanted: Vec<WorkloadId> = match only {
        Some(work) => state.waiting().filter(|waits| *waits == work).collect(),
        None => state.waiting().collect(),
    };
    let any_drawn = state
        .holders()
        .chain(state.waiting())
        .any(|work| is_drawn(compiled, work));
    let times = if any_drawn { RUNS } else { 1 };
    let now = state.now();
    // Who starts in it, and who is evicted for each.
    let mut begun: BTreeMap<WorkloadId, Vec<Evicted>> = BTreeMap::new();
    begun.extend(cycle.admitted.iter().map(|one| (one.work, Vec::new())));
    let pushes = cycle.preempted.iter();
    begun.extend(pushes.map(|push| (push.by, evicted(compiled, &push.victims.list))));
    let starts = begun.keys().map(|work| {
        (
            *work,
            Span {
                from: now,
                at: now,
                to: now,
            },
        )
    });
    let starts = starts.collect();
    let runs = timelines(settled, &shares(compiled, times), only, &starts);
    wanted
        .into_iter()
        .map(|work| {
            let sorted = |part: fn(&Span) -> Moment| {
                let of_run = |run: &Timeline| run.starts.get(&work).map(part);
                let mut starts: Vec<Option<Moment>> = runs.iter().map(of_run).collect();
                // Unknown is later than any moment.
                starts.sort_by_key(|start| (start.is_none(), *start));
                starts
            };
            let (from, at, to) = (sorted(|it| it.from), sorted(|it| it.at), sorted(|it| it.to));
            let place = |percent: usize| (times * percent).div_ceil(100).max(1) - 1;
            let half = at[place(50)];
            let touched = runs.iter().any(|run| {
                let start = run.starts.get(&work);
                run.drawn
                    .is_some_and(|drawn| start.is_none_or(|start| start.at >= drawn))
            });
            let basis = match half {
                None => Basis::None,
                Some(start) if start <= now => Basis::Now,
                Some(_) if touched => Basis::History,
                Some(_) => Basis::Limits,
            };
            let start = Start {
                job: job(&compiled.workload(work).key),
                p10: from[place(10)],
                p50: half,
                p90: to[place(90)],
                basis,
                victims: begun.remove(&work).unwrap_or_default(),
            };
            (work, start)
        })
        .collect()
}

/// Whether its runtime is drawn: it says nothing, and its owner's past runs are known.
fn is_drawn(compiled: &CompiledFleet, work: WorkloadId) -> bool {
    compiled.workload(work).estimate_ms.is_none() && runtime::past(compiled, work).is_some()
}

/// Per run, per workload: the share of its distribution that the run takes, in thousandths; the median where there is one run.
/// What one owner runs at a time is alike, all of it longer or all of it shorter than what was before: half of what decides
/// which run takes which part is the owner's, half the workload's own. Each run takes a part of its own of each distribution,
/// so that few runs show all of it; where in its part is drawn too, since the first of many to end is sooner than any part's
/// middle.
fn shares(compiled: &CompiledFleet, times: usize) -> Vec<Vec<u32>> {
    let mut shares = vec![vec![500; compiled.works.len()]; times];
    if times == 1 {
        return shares;
    }
    // By the place of its first workload, which is the same for the same snapshot.
    let mut of_owners: BTreeMap<&Name, Vec<usize>> = BTreeMap::new();
    let mut runs: Vec<(usize, usize)> = Vec::with_capacity(times);
    for (work, _) in compiled.works.iter().enumerate() {
        let turn = (work as u64).wrapping_mul(0x9e37_79b9);
        let common = of_owners
            .entry(&compiled.workload(work).owner)
            .or_insert_with(|| spread(&mut Rng::new(!SEED ^ turn), times));
        let mut own = spread(&mut Rng::new(SEED ^ turn), times);
        runs.clear();
        runs.extend((0..times).map(|run| (common[run] + own[run], run)));
        runs.sort_unstable();
        own.sort_unstable();
        for (draw, (_, run)) in own.iter().zip(&runs) {
            shares[*run][work] = u32::try_from(draw / times).unwrap_or(500);
        }
    }
    shares
}

/// One draw of each of so many parts of a whole, in a drawn order.
fn spread(rng: &mut Rng, times: usize) -> Vec<usize> {
    let mut parts: Vec<usize> = (0..times).collect();
    rng.shuffle(&mut parts);
    for part in &mut parts {
        *part = *part * 1_000 + rng.below(1_000);
    }
    parts
}

/// Runs a timeline with each of these shares, beside one another where there are processors for it. A timeline depends on
/// nothing but its state and its shares, so the number of processors changes nothing.
fn timelines(
    state: &State<'_>,
    shares: &[Vec<u32>],
    only: Option<WorkloadId>,
    begun: &BTreeMap<WorkloadId, Span>,
) -> Vec<Timeline> {
    let times = shares.len();
    let some = |shares: &[Vec<u32>]| -> Vec<Timeline> {
        let mut state = state.clone();
        let mut series = Series::new(&state);
        let run = |shares: &Vec<u32>| timeline(&mut state, &mut series, shares, only, begun, times);
        shares.iter().map(run).collect()
    };
    let processors = thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(MOST_AT_A_TIME);
    let mut parts = shares.chunks(times.div_ceil(processors).max(1));
    let first = parts.next().unwrap_or_default();
    thread::scope(|scope| {
        let others: Vec<_> = parts.map(|part| scope.spawn(|| some(part))).collect();
        let mut runs = some(first);
        for other in others {
            runs.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        runs
    })
}

/// Runs cycles at once and at every end, or at some together, until nothing is left to wait for, or the bound is reached. Some
/// have started already: what the evicted left, and room that was kept for one that has started, may be enough for others.
fn timeline(
    state: &mut State<'_>,
    series: &mut Series,
    shares: &[u32],
    only: Option<WorkloadId>,
    begun: &BTreeMap<WorkloadId, Span>,
    times: usize,
) -> Timeline {
    let compiled = state.compiled();
    let begin = state.now();
    let mark = state.mark();
    series.restart();
    let mut out = Timeline {
        starts: begun.clone(),
        drawn: None,
    };
    let mut ends: BTreeSet<(Moment, WorkloadId)> = state
        .holders()
        .collect::<Vec<_>>()
        .into_iter()
        .filter_map(|work| Some((end_of_holder(state, work, shares[work])?, work)))
        .collect();
    let mut since = begin;
    loop {
        let done = only.is_some_and(|work| out.starts.contains_key(&work));
        if done || series.waiting() == 0 || series.work_done() > MOST_WORK / times {
            break;
        }
        // What the scheduler believes of runtimes, not what this run draws, decides whom it lets pass.
        let exact = series.work_done() <= EXACT_WORK / times;
        let started = series.cycle(state, since, exact);
        let now = state.now();
        for (work, allocation) in started {
            out.starts.insert(work, span(begin, since, now, exact));
            if let Some(lasts) = runtime(compiled, work, shares[work]) {
                let lasts = at_speed(lasts, allocation.speed_milli).max(1);
                let end = Moment::from_millis(now.millis().saturating_add(lasts));
                ends.insert((end, work));
            }
        }
        let Some(&(next, _)) = ends.first() else {
            break;
        };
        since = next;
        let next = together(&ends, begin, next, series.work_done() * times);
        state.set_now(next);
        while let Some(&(at, work)) = ends.first()
            && at <= next
        {
            ends.pop_first();
            if is_drawn(compiled, work) {
                out.drawn = out.drawn.or(Some(at));
            }
            series.finish(state, work);
        }
    }
    state.undo_to(mark);
    state.set_now(begin);
    out
}

/// When a workload starts whose cycle stands for the ends between two moments. Once ends are taken together a start may be
/// off by as much as they are apart, even where one end stood alone: the range is widened by that on both sides.
fn span(begin: Moment, since: Moment, at: Moment, exact: bool) -> Span {
    if exact {
        return Span {
            from: since,
            at,
            to: at,
        };
    }
    let margin = at.millis().saturating_sub(begin.millis()).max(0) / PART;
    let from = Moment::from_millis(since.millis().saturating_sub(margin));
    let to = Moment::from_millis(at.millis().saturating_add(margin));
    Span {
        from: from.max(begin),
        at,
        to,
    }
}

/// The last of the ends that count as one with the next, once so much was done.
fn together(
    ends: &BTreeSet<(Moment, WorkloadId)>,
    begin: Moment,
    next: Moment,
    done: usize,
) -> Moment {
    if done <= EXACT_WORK {
        return next;
    }
    let (mut part, mut level) = (PART, EXACT_WORK * COARSER);
    while done > level && part > 4 {
        (part, level) = (part / 2, level.saturating_mul(COARSER));
    }
    let passed = next.millis().saturating_sub(begin.millis()).max(0);
    let until = Moment::from_millis(next.millis().saturating_add(passed / part));
    let some = ends.range(..=(until, WorkloadId::MAX));
    some.last().map_or(next, |end| end.0)
}

/// When one that runs is expected to end: what it says, else half of its owner's past runs that got as far ended by then. `None`
/// where neither is known.
pub fn expected_end(state: &State<'_>, work: WorkloadId) -> Option<Moment> {
    end_of_holder(state, work, 500)
}

/// When one that runs ends. One that ran over what it said ends a minute from now.
fn end_of_holder(state: &State<'_>, work: WorkloadId, share: u32) -> Option<Moment> {
    let compiled = state.compiled();
    if state.standing(work).status == Status::Ending {
        return cycle::end_of(state, work, None);
    }
    if compiled.workload(work).estimate_ms.is_some() {
        return cycle::end_of(state, work, compiled.workload(work).estimate_ms);
    }
    let now = state.now();
    let speed = state.allocation(work)?.speed_milli.max(1);
    let since = state.since(work).unwrap_or(now);
    let age = now.millis().saturating_sub(since.millis()).max(0);
    // At speed 1 it would have come as far in more, or less, time.
    let age = i64::try_from(i128::from(age) * i128::from(speed) / 1_000).unwrap_or(i64::MAX);
    let left = at_speed(remaining(compiled, work, age, share)?, speed).max(1);
    Some(Moment::from_millis(now.millis().saturating_add(left)))
}
