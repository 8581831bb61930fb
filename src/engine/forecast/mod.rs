//! Forecasts when pending workloads start, by running cycles at the ends of running workloads. Future arrivals are not modeled:
//! later workloads that go first delay the real start. Preemption is applied at the current time only, and the victims are named;
//! later in the timeline nothing is preempted, so workloads that may preempt can start earlier than forecast.
//!
//! A workload's own runtime estimate is used as it is. Without one, its owner's past runs give the runtime a distribution, and
//! the timeline is run several times with runtimes drawn from it; draws are the same for the same snapshot. A workload with
//! neither never ends in the forecast, and workloads that need its resources have no forecast.

mod runtime;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use model::base::{Moment, Name};

use super::compiled::{CompiledFleet, WorkloadId};
use super::cycle::{self, Cycle, CycleSeries, at_speed};
use super::explain::job;
use super::preempt::evicted;
use super::rng::Rng;
use super::snapshot::Status;
use super::state::State;
use model::plan::{Evicted, JobName};

pub use runtime::{remaining, runtime};

/// Number of timelines if runtimes are drawn.
const RUNS: usize = 15;

/// Maximum number of concurrent timelines; each has its own copy of the state.
const MOST_AT_A_TIME: usize = 4;

/// Work budget for exact cycles, over all timelines ([`CycleSeries::work_done`]): within it, a cycle is run at the end of each
/// workload. After that, ends within a fraction of the elapsed time are taken together, and starts are known to that interval
/// only; the fraction grows with the work done.
const EXACT_WORK: usize = 30_000;

/// That fraction is one in `PART`; it doubles each time the work done has grown by a factor of `COARSER`.
const PART: i64 = 32;
const COARSER: usize = 8;

/// Maximum work in all. Starts after that are unknown.
const MOST_WORK: usize = 1_500_000;

/// How long a fleet in which nothing happens keeps its timelines, milliseconds: at first, and at most.
const QUIET: i64 = 15 * 60_000;
const MOST_QUIET: i64 = 60 * 60_000;

/// By how much, in percent, drawn timelines come too late at their 10th percentile and too early at their 90th, as parts of the wait:
/// they have no later arrivals, no later evictions and no faults. In rehearsed weeks of nine seeds a range that is widened by
/// these holds four of five starts.
const EARLIER: i64 = 80;
const LATER: i64 = 200;

/// A start that the timelines expected before now is expected this soon.
const SOON: Duration = Duration::from_mins(1);

/// Seed of the runtime draws.
const SEED: u64 = 0x5706_e401d;

/// Basis of a forecast.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// No other workload had to end first.
    Now,
    /// Runtime estimates of the workloads themselves.
    Limits,
    /// Past runs as well.
    History,
    /// None: the start is unknown.
    None,
    /// None, because a rule that is not modeled decides ([`super::snapshot::Workload::not_forecast`]).
    NotForecast,
}

/// Forecast start of a workload.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Start {
    pub job: JobName,
    /// 10th percentile; null if unknown.
    #[serde(serialize_with = "moment")]
    pub p10: Option<Moment>,
    #[serde(serialize_with = "moment")]
    pub p50: Option<Moment>,
    #[serde(serialize_with = "moment")]
    pub p90: Option<Moment>,
    /// Basis of the forecast.
    pub basis: Basis,
    /// Workloads that are preempted for it now; empty if it starts without preemption. It may wait for nodes
    /// after that, if its scheduler admits by quota.
    pub victims: Vec<Evicted>,
}

/// The standard error of the median of a start, milliseconds: that of [`RUNS`] draws is 1.25 σ / √15, and p10 and p90 lie 2.56 σ
/// apart. 0 where one of these is unknown.
pub fn error_ms(p10: Option<Moment>, p90: Option<Moment>) -> i64 {
    match (p10, p90) {
        (Some(p10), Some(p90)) => (p90.millis() - p10.millis()) / 8,
        _ => 0,
    }
}

impl Start {
    /// Start of a workload that needs no other to end first.
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

/// Start of one workload in one timeline, as a range.
#[derive(Clone, Copy)]
struct StartRange {
    from: Moment,
    /// Time of its cycle.
    at: Moment,
    to: Moment,
}

/// One run of the timeline.
struct TimelineRun {
    starts: BTreeMap<WorkloadId, StartRange>,
    /// Earliest time at which a workload with a drawn runtime ended.
    drawn: Option<Moment>,
}

/// Forecast start of each pending workload, by workload.
pub fn forecast(state: &State<'_>) -> BTreeMap<WorkloadId, Start> {
    forecast_for(state, None)
}

/// The same after a cycle has been run: nothing more is preempted.
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
    let cycle = cycle::cycle(&mut settled);
    forecast_from(state, (&settled, &cycle), only)
}

/// A fleet that is only partly visible gets no forecast.
fn is_whole(compiled: &CompiledFleet) -> bool {
    compiled.snapshot.not_visible.is_empty()
}

/// The same with the current cycle already run, as explanations do: it left the state `settled`.
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
    let begin = beginning(state);
    let at_once = StartRange {
        from: begin,
        at: begin,
        to: begin,
    };
    let begun = cycle.admitted.iter().map(|one| one.work);
    let begun = begun.chain(cycle.placed.iter().map(|(work, _)| *work));
    let starts = begun.map(|work| (work, at_once)).collect();
    let pushes = cycle.preempted.iter();
    let mut victims: BTreeMap<WorkloadId, Vec<Evicted>> = pushes
        .map(|push| (push.by, evicted(compiled, &push.victims.list)))
        .collect();
    let runs = timelines((settled, begin), &shares(compiled, times), only, &starts);
    wanted
        .into_iter()
        .map(|work| {
            let sorted = |part: fn(&StartRange) -> Moment| {
                let of_run = |run: &TimelineRun| run.starts.get(&work).map(part);
                let mut starts: Vec<Option<Moment>> = runs.iter().map(of_run).collect();
                // Unknown sorts after any time.
                starts.sort_by_key(|start| (start.is_none(), *start));
                starts
            };
            let (from, at, to) = (sorted(|it| it.from), sorted(|it| it.at), sorted(|it| it.to));
            let place = |percent: usize| (times * percent).div_ceil(100).max(1) - 1;
            // What the cycle starts starts now; what timelines that began earlier expected since then is due.
            let is_now = starts.contains_key(&work) || begin == now;
            let from_now = |at: Moment| match is_now && at <= begin {
                true => now,
                false => at.max(now.plus(SOON)),
            };
            let half = at[place(50)].map(from_now);
            let (mut p10, mut p90) = (from[place(10)], to[place(90)]);
            let touched = runs.iter().any(|run| {
                let start = run.starts.get(&work);
                run.drawn
                    .is_some_and(|drawn| start.is_none_or(|start| start.at >= drawn))
            });
            let basis = match half {
                None if compiled.workload(work).not_forecast.is_some() => Basis::NotForecast,
                None => Basis::None,
                Some(start) if start <= now => Basis::Now,
                Some(_) if touched => Basis::History,
                Some(_) => Basis::Limits,
            };
            if basis == Basis::History {
                p10 = p10.map(|at| after(begin, at, EARLIER));
                p90 = p90.map(|at| after(begin, at, LATER));
            }
            let start = Start {
                job: job(&compiled.workload(work).key),
                p10: p10.map(from_now),
                p50: half,
                p90: p90.map(from_now),
                basis,
                victims: victims.remove(&work).unwrap_or_default(),
            };
            (work, start)
        })
        .collect()
}

/// A moment whose distance from the first is this percentage of another one's.
fn after(begin: Moment, at: Moment, percent: i64) -> Moment {
    let wait = at.millis().saturating_sub(begin.millis()).max(0);
    let wait = i64::try_from(i128::from(wait) * i128::from(percent) / 100).unwrap_or(i64::MAX);
    Moment::from_millis(begin.millis().saturating_add(wait))
}

/// Whether its runtime is drawn: it has no estimate, and its owner's past runs are known.
fn is_drawn(compiled: &CompiledFleet, work: WorkloadId) -> bool {
    compiled.workload(work).estimate_ms.is_none() && runtime::past(compiled, work).is_some()
}

/// When the timelines of a fleet begin: at the last thing that happened to a workload. So the forecasts of an unchanged fleet are the
/// same whenever they are asked for. In a fleet that stays quiet they begin anew each time it has been quiet a quarter longer.
fn beginning(state: &State<'_>) -> Moment {
    let now = state.now();
    let moments = state.compiled().snapshot.workloads.iter().flat_map(|work| {
        let pods = work.sets.iter().flat_map(|set| &set.placements);
        let pods = pods.filter_map(|pod| pod.started);
        pods.chain([work.created]).chain(work.admitted_at)
    });
    let known = moments.filter(|at| *at <= now && *at != Moment::default());
    let Some(last) = known.max() else {
        return now;
    };
    let quiet = now.millis().saturating_sub(last.millis());
    let (mut passed, mut next) = (0_i64, QUIET);
    while next <= quiet {
        passed = next;
        next = next.saturating_add((next / 4).min(MOST_QUIET));
    }
    Moment::from_millis(last.millis().saturating_add(passed))
}

/// Per timeline and workload: the quantile of its runtime distribution, in thousandths; the median if there is one timeline.
/// Concurrent workloads of one owner are correlated: the owner and the workload each contribute half to the order in which
/// timelines take quantiles. The draws are stratified: each timeline takes its own stratum of each distribution, so that a few
/// timelines cover the whole distribution. The position in the stratum is drawn too, since the first of many workloads to end does so
/// before the middle of any stratum.
fn shares(compiled: &CompiledFleet, times: usize) -> Vec<Vec<u32>> {
    let mut shares = vec![vec![500; compiled.workloads.len()]; times];
    if times == 1 {
        return shares;
    }
    // Seeded by names: a job keeps its draws while others come and go, so that two pictures differ by what changed alone.
    let mut of_owners: BTreeMap<&Name, Vec<usize>> = BTreeMap::new();
    let mut runs: Vec<(usize, usize)> = Vec::with_capacity(times);
    for (work, _) in compiled.workloads.iter().enumerate() {
        let model = compiled.workload(work);
        let common = of_owners
            .entry(&model.owner)
            .or_insert_with(|| spread(&mut Rng::new(seed(!SEED, &[&model.owner])), times));
        let key = &model.key;
        let names = [&key.kind, &key.key.namespace, &key.key.name].map(Name::as_str);
        let mut own = spread(&mut Rng::new(seed(SEED, &names)), times);
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

/// A seed out of names: FNV-1a.
fn seed(start: u64, names: &[&str]) -> u64 {
    let bytes = names.iter().flat_map(|name| name.bytes().chain([0]));
    bytes.fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// One draw from each of `times` strata, in random order.
fn spread(rng: &mut Rng, times: usize) -> Vec<usize> {
    let mut parts: Vec<usize> = (0..times).collect();
    rng.shuffle(&mut parts);
    for part in &mut parts {
        *part = *part * 1_000 + rng.below(1_000);
    }
    parts
}

/// Runs a timeline for each of these quantile lists, concurrently if there are processors. A timeline depends only on its state
/// and its quantiles, so the number of processors does not change the result.
fn timelines(
    (state, begin): (&State<'_>, Moment),
    shares: &[Vec<u32>],
    only: Option<WorkloadId>,
    begun: &BTreeMap<WorkloadId, StartRange>,
) -> Vec<TimelineRun> {
    let times = shares.len();
    let some = |shares: &[Vec<u32>]| -> Vec<TimelineRun> {
        let mut state = state.clone();
        state.set_now(begin);
        let mut series = CycleSeries::new(&state);
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

/// Runs cycles now and at every end, or at several ends together, until nothing is pending or the work limit is reached. Some
/// workloads may have started already: capacity left over by victims, or by a started reservation, may suffice for others.
fn timeline(
    state: &mut State<'_>,
    series: &mut CycleSeries,
    shares: &[u32],
    only: Option<WorkloadId>,
    begun: &BTreeMap<WorkloadId, StartRange>,
    times: usize,
) -> TimelineRun {
    let compiled = state.compiled();
    let begin = state.now();
    let mark = state.mark();
    series.restart();
    let mut out = TimelineRun {
        starts: begun.clone(),
        drawn: None,
    };
    let mut ends: BTreeSet<(Moment, WorkloadId)> = state
        .holders()
        .filter(|work| !series.is_unplaced(*work))
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
        // Backfill is decided by the scheduler's expected runtimes, not by this timeline's draws.
        let exact = series.work_done() <= EXACT_WORK / times;
        let started = series.cycle(state, since, exact);
        let now = state.now();
        for (work, allocation) in started {
            if compiled.workload(work).not_forecast.is_none() {
                out.starts.insert(work, span(begin, since, now, exact));
            }
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

/// Start range of a workload whose cycle covers the ends between two times. Once ends are grouped, a start may be off by the
/// width of a group, even for a single end: the range is widened by that on both sides.
fn span(begin: Moment, since: Moment, at: Moment, exact: bool) -> StartRange {
    if exact {
        return StartRange {
            from: since,
            at,
            to: at,
        };
    }
    let margin = at.millis().saturating_sub(begin.millis()).max(0) / PART;
    let from = Moment::from_millis(since.millis().saturating_sub(margin));
    let to = Moment::from_millis(at.millis().saturating_add(margin));
    StartRange {
        from: from.max(begin),
        at,
        to,
    }
}

/// The last of the ends that are grouped with the next one, given the work done so far.
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

/// Expected end of a running workload: by its own estimate, else the median remaining time of its owner's past runs that
/// reached its age. `None` if neither is known.
pub fn expected_end(state: &State<'_>, work: WorkloadId) -> Option<Moment> {
    end_of_holder(state, work, 500)
}

/// End of a running workload. One that exceeds its own estimate ends a minute from now.
fn end_of_holder(state: &State<'_>, work: WorkloadId, share: u32) -> Option<Moment> {
    let compiled = state.compiled();
    if state.workload_state(work).status == Status::Ending {
        return cycle::end_of(state, work, None);
    }
    if compiled.workload(work).estimate_ms.is_some() {
        return cycle::end_of(state, work, compiled.workload(work).estimate_ms);
    }
    let now = state.now();
    let speed = state.allocation(work)?.speed_milli.max(1);
    let since = state.since(work).unwrap_or(now);
    let age = now.millis().saturating_sub(since.millis()).max(0);
    // Age at speed 1.
    let age = i64::try_from(i128::from(age) * i128::from(speed) / 1_000).unwrap_or(i64::MAX);
    let left = at_speed(remaining(compiled, work, age, share)?, speed).max(1);
    Some(Moment::from_millis(now.millis().saturating_add(left)))
}
