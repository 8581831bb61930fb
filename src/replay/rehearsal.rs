//! Backtest of the start forecasts: runs a simulated week, forecasts each job's start when it begins to wait, and compares the
//! forecast with the actual start.
//!
//! The world has its own model of kube-scheduler and Kueue, draws durations that the forecast does not see, and keeps submitting
//! jobs. The forecast sees the objects that any console sees, and the runs that have ended by then.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use cluster::seen;
use engine::explanations;
use engine::forecast::{Basis, Start};
use engine::live;
use ledger::Ledger;
use model::base::{Moment, Names, SmallSort};
use model::cost::SpendRates;
use model::fleet::Fleet;
use model::fleet::job::{JobKey, JobState};
use model::fleet::observe::{Observation, Table};
use model::fleet::policy::Policy;
use sim::change::{Resource, SimBackend, WorldChange};
use sim::resource::spec;
use sim::specs::SPECS;
use sim::world::{Options, World};

/// Simulated time between two snapshots, ms.
const LOOK: i64 = 60_000;

/// World and duration of a backtest.
#[derive(Clone, Copy, Debug)]
pub struct BacktestSetup {
    pub world: Options,
    /// Simulated milliseconds before forecasts are evaluated: at first there are no past runs.
    pub warm_up_ms: i64,
    /// Simulated milliseconds in which forecasts are evaluated.
    pub length_ms: i64,
    /// Whether forecasts use the durations of past runs.
    pub history: bool,
}

/// Results of a backtest. Times in seconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct BacktestResult {
    /// Number of nodes of the world.
    pub nodes: usize,
    /// Number of devices and slices of the world.
    pub devices: usize,
    /// Jobs that began to wait and got a forecast.
    pub asked: usize,
    /// Of these, still waiting when as much time again had passed after the last forecast.
    pub still_waiting: usize,
    /// Of those, with an interval that had not ended by then: nothing can be said of them.
    pub open: usize,
    /// Of these, deleted without a start.
    pub gone: usize,
    /// Of those that started: the forecast was "unknown".
    pub unknown: usize,
    /// All but those that are gone or open. The ratios below are about these; errors and waits are of those that started.
    pub judged: usize,
    /// Median absolute error of the forecast start.
    pub abs_error_p50_seconds: Option<f64>,
    /// 90th percentile of the absolute error.
    pub abs_error_p90_seconds: Option<f64>,
    /// Median waiting time, for comparison with the error.
    pub wait_p50_seconds: Option<f64>,
    /// 90th percentile of the waiting time.
    pub wait_p90_seconds: Option<f64>,
    /// Share that started within the interval from p10 to p90, give or take one snapshot interval, 0 to 1. Unknown starts and
    /// those that wait beyond their p90 are outside.
    pub coverage_ratio: Option<f64>,
    /// Share that started before the interval, 0 to 1.
    pub early_ratio: Option<f64>,
    /// Number of forecasts by basis.
    pub by_basis: BTreeMap<String, usize>,
}

/// A forecast whose job has not started yet.
struct PendingForecast {
    at: Moment,
    start: Start,
}

/// Runs the backtest. `progress` is called after each simulated hour with the hours done and all hours.
pub fn rehearse(setup: &BacktestSetup, mut progress: impl FnMut(usize, usize)) -> BacktestResult {
    let mut world = World::new(setup.world);
    let mut ledger = Ledger::new(Arc::new(Policy::default()));
    let mut names = Names::default();
    for table in tables() {
        ledger.apply(Observation::Begin(table));
    }
    fold(&mut ledger, &mut names, world.start());
    for table in tables() {
        ledger.apply(Observation::End(table));
    }
    let begin = world.now();
    let (counts_from, end) = (
        begin.millis() + setup.warm_up_ms,
        begin.millis() + setup.warm_up_ms + setup.length_ms,
    );
    let mut open: BTreeMap<JobKey, PendingForecast> = BTreeMap::new();
    // Jobs that were waiting at the last snapshot: only newly waiting ones get a forecast.
    let mut waited: BTreeMap<JobKey, ()> = BTreeMap::new();
    let mut judged: Vec<(PendingForecast, Moment)> = Vec::new();
    let (mut asked, mut gone) = (0, 0);
    let hour = |at: i64| usize::try_from((at - begin.millis()) / 3_600_000).unwrap_or(0);
    let mut nodes = 0;
    let mut at = begin.millis();
    // Those that wait at the end of the forecasts may still start.
    let last = end + setup.length_ms;
    while at < end || at < last && !open.is_empty() {
        at += LOOK;
        let now = Moment::from_millis(at);
        fold(&mut ledger, &mut names, world.advance(now));
        let fleet = ledger.publish(now);
        nodes = nodes.max(fleet.nodes.len());
        settle(&fleet, &mut open, &mut judged, &mut gone);
        let waits: BTreeMap<JobKey, ()> = fleet
            .jobs
            .iter()
            .filter(|job| job.state == JobState::Waiting && job.devices_requested > 0)
            .map(|job| (job.id.clone(), ()))
            .collect();
        let fresh: Vec<&JobKey> = waits
            .keys()
            .filter(|key| !waited.contains_key(*key))
            .collect();
        if at > counts_from && at <= end && !fresh.is_empty() {
            let mut snapshot = live::snapshot(&fleet, &SpendRates::default());
            if !setup.history {
                snapshot.runs.clear();
            }
            let mut starts = explanations::forecast(&snapshot);
            for key in fresh {
                if let Some(start) = starts.remove(key) {
                    asked += 1;
                    open.insert(key.clone(), PendingForecast { at: now, start });
                }
            }
        }
        waited = waits;
        progress(hour(at), hour(last));
    }
    let over = |waits: &&PendingForecast| match (waits.start.p50, waits.start.p90) {
        (None, _) => true,
        (Some(_), p90) => p90.is_some_and(|p90| at > p90.millis() + LOOK),
    };
    let late = open.values().filter(over).count();
    BacktestResult {
        asked,
        gone,
        still_waiting: open.len(),
        open: open.len() - late,
        nodes,
        devices: world.devices(),
        ..outcome(&judged, late)
    }
}

/// Removes forecasts of jobs that started or disappeared from `open`.
fn settle(
    fleet: &Fleet,
    open: &mut BTreeMap<JobKey, PendingForecast>,
    judged: &mut Vec<(PendingForecast, Moment)>,
    gone: &mut usize,
) {
    let over: Vec<(JobKey, Option<Moment>)> = open
        .keys()
        .filter_map(|key| {
            let Some(job) = fleet.job(key) else {
                return Some((key.clone(), None));
            };
            match job.state {
                JobState::Waiting => None,
                JobState::Starting | JobState::Running => Some((key.clone(), Some(fleet.at))),
                JobState::Finishing | JobState::Done | JobState::Failed | JobState::Suspended => {
                    Some((key.clone(), job.started))
                }
            }
        })
        .collect();
    for (key, started) in over {
        let Some(asked) = open.remove(&key) else {
            continue;
        };
        match started {
            Some(started) => judged.push((asked, started)),
            None => *gone += 1,
        }
    }
}

/// The outcome of all that started, and of a number that still wait after their interval; the counts of the fleet are left at 0.
fn outcome(all: &[(PendingForecast, Moment)], waiting_late: usize) -> BacktestResult {
    let mut errors = Vec::new();
    let mut waits = Vec::new();
    let (mut within, mut early) = (0usize, 0usize);
    let mut by_basis: BTreeMap<String, usize> = BTreeMap::new();
    for (asked, started) in all {
        let basis = match asked.start.basis {
            Basis::Now => "now",
            Basis::Limits => "limits",
            Basis::History => "history",
            Basis::None => "none",
            Basis::NotForecast => "not-forecast",
        };
        *by_basis.entry(basis.to_owned()).or_default() += 1;
        let Some(p50) = asked.start.p50 else { continue };
        errors.push(p50.millis().abs_diff(started.millis()));
        waits.push(started.millis().abs_diff(asked.at.millis()));
        let Some(p10) = asked.start.p10 else { continue };
        // Without a p90 the interval is open-ended; the tolerance is one snapshot interval.
        let late = asked
            .start
            .p90
            .is_some_and(|p90| started.millis() > p90.millis() + LOOK);
        let soon = started.millis() < p10.millis() - LOOK;
        within += usize::from(!late && !soon);
        early += usize::from(soon);
    }
    errors.small_sort();
    waits.small_sort();
    let at = |sorted: &[u64], percent: usize| {
        let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
        sorted.get(rank).map(|millis| *millis as f64 / 1_000.0)
    };
    let judged = all.len() + waiting_late;
    let share = |part: usize| (judged > 0).then(|| part as f64 / judged as f64);
    BacktestResult {
        unknown: all.len() - errors.len(),
        judged,
        abs_error_p50_seconds: at(&errors, 50),
        abs_error_p90_seconds: at(&errors, 90),
        wait_p50_seconds: at(&waits, 50),
        wait_p90_seconds: at(&waits, 90),
        coverage_ratio: share(within),
        early_ratio: share(early),
        by_basis,
        ..BacktestResult::default()
    }
}

/// The tables that the world serves and that its forecasts follow: without autoscalers.
pub fn tables() -> Vec<Table> {
    SPECS
        .iter()
        .filter_map(|spec| table(spec.resource))
        .collect()
}

/// The table of a resource, for those that are watched.
fn table(resource: Resource) -> Option<Table> {
    spec(resource).table.filter(|table| !table.holds_scaling())
}

fn fold(ledger: &mut Ledger, names: &mut Names, changes: Vec<WorldChange>) {
    for change in changes {
        if let Some(observation) = observed(change, names) {
            ledger.apply(observation);
        }
    }
}

/// The observation of a change of the world; `None` where its kind is not watched.
pub fn observed(change: WorldChange, names: &mut Names) -> Option<Observation> {
    match change {
        WorldChange::Put(resource, object) => seen(table(resource)?, &object, names),
        WorldChange::Remove(resource, key) => Some(Observation::Gone(table(resource)?, key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forecasts_are_judged_by_what_the_world_does() {
        let at = Moment::parse("2026-11-21T08:00:00Z").expect("a moment");
        let setup = BacktestSetup {
            world: Options {
                nodes: Some(24),
                ..Options::new(at)
            },
            warm_up_ms: 2 * 3_600_000,
            length_ms: 4 * 3_600_000,
            history: true,
        };
        let outcome = rehearse(&setup, |_, _| ());
        assert!(outcome.asked > 0, "{outcome:?}");
        assert_eq!(outcome.asked, outcome.open + outcome.gone + outcome.judged);
        let started: usize = outcome.by_basis.values().sum();
        assert_eq!(
            started + outcome.still_waiting,
            outcome.open + outcome.judged
        );
        assert_eq!(outcome, rehearse(&setup, |_, _| ()), "twice the same");
    }
}
