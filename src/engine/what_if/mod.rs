//! The same fleet with something changed: what runs, who starts when, and what it burns, before and after.

mod change;
mod grammar;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use model::base::{Moment, Name, SmallSort, natural};
use model::fleet::job::JobKey;

use super::compiled::{CompiledFleet, WorkloadId};
use super::cycle;
use super::explain::{AS_TOLD, job};
use super::explanations;
use super::forecast::{self, Start};
use super::snapshot::{Snapshot, Status, Workload};
use super::spending::spending;
use super::state::State;
use model::plan::JobName;
use model::usage::{BudgetChange, FleetSpending};

pub use change::{LostPart, Suppose};
pub use grammar::{GRAMMAR, VERBS, parse, split};

/// A fleet in figures, when all that can start has started.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Figures {
    /// Nodes.
    pub nodes: usize,
    /// Devices.
    pub devices: usize,
    /// Thousandths of devices and slices that are held.
    pub allocated_milli: i64,
    /// Workloads that run.
    pub running: usize,
    /// Workloads that wait.
    pub waiting: usize,
    /// Of these, those of whose start nothing is known.
    pub unknown: usize,
    /// The median of the waits that are known, those that start now included, in seconds; null where none is.
    pub wait_p50_seconds: Option<i64>,
    /// What all devices cost, in micro-USD an hour, those of unknown price left out.
    pub burn_micro_usd_per_hour: i64,
    /// Devices of unknown price.
    pub devices_without_price: usize,
}

/// What the changes do to a workload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It starts now; without the changes it starts later, or nobody knows when.
    Starts,
    /// It runs; with the changes it loses its nodes or is preempted, and waits again.
    Evicted,
    /// It runs and is about to be preempted; with the changes it is not.
    Kept,
    /// It starts sooner.
    Earlier,
    /// It starts later.
    Later,
    /// Its start becomes known.
    Known,
    /// Its start is no longer known.
    Unknown,
    /// It is there with the changes alone.
    Added,
    /// It is there without the changes alone.
    Removed,
}

impl Effect {
    /// As tables and documents name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starts => "starts",
            Self::Evicted => "evicted",
            Self::Kept => "kept",
            Self::Earlier => "earlier",
            Self::Later => "later",
            Self::Known => "known",
            Self::Unknown => "unknown",
            Self::Added => "added",
            Self::Removed => "removed",
        }
    }
}

/// When a workload starts, on one side of the changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct When {
    /// It runs and goes on running.
    pub runs: bool,
    /// One in ten that it starts by then; null where that is unknown, or it does not wait.
    #[serde(serialize_with = "moment")]
    pub p10: Option<Moment>,
    /// One in two.
    #[serde(serialize_with = "moment")]
    pub p50: Option<Moment>,
    /// Nine in ten.
    #[serde(serialize_with = "moment")]
    pub p90: Option<Moment>,
}

impl When {
    const RUNS: Self = Self {
        runs: true,
        p10: None,
        p50: None,
        p90: None,
    };

    const fn of(start: &Start) -> Self {
        Self {
            runs: false,
            p10: start.p10,
            p50: start.p50,
            p90: start.p90,
        }
    }
}

/// A workload that the changes do something to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Shift {
    /// What they do.
    pub effect: Effect,
    /// Which.
    pub job: JobName,
    /// The queue that it waits in or draws from; null where it has none.
    pub queue: Option<Name>,
    /// Devices and slices that it asks for, or holds.
    pub devices: u64,
    /// When it starts without the changes; null where it is not there.
    pub before: Option<When>,
    /// When it starts with them.
    pub after: Option<When>,
}

#[allow(clippy::ref_option, reason = "serde passes references")]
fn moment<S: serde::Serializer>(at: &Option<Moment>, out: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => out.serialize_some(&at.rfc3339()),
        None => out.serialize_none(),
    }
}

/// The answer.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// What was supposed, as it was understood.
    pub changes: Vec<String>,
    /// Without it.
    pub before: Figures,
    /// With it.
    pub after: Figures,
    /// What becomes of each workload that they do something to: what starts first, then who is evicted, each by name.
    pub jobs: Vec<Shift>,
    /// What to keep in mind.
    pub notes: Vec<String>,
    /// What it does to budgets. The engine leaves it empty; who can read the usage ledger fills it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetChange>,
    /// What workloads hold on both sides, for that.
    #[serde(skip)]
    pub spending: [FleetSpending; 2],
}

/// What becomes of a fleet under some changes, made in their order.
///
/// # Errors
/// A change names what is not there; the text says which and the nearest that is.
pub fn what_if(snapshot: &Snapshot, changes: &[Suppose]) -> Result<Outcome, String> {
    let mut changed = snapshot.clone();
    let mut displaced: BTreeSet<JobKey> = BTreeSet::new();
    for change in changes {
        displaced.extend(change.apply(&mut changed)?);
        changed.settle();
    }
    let (before, old) = figures(snapshot.clone());
    let (after, new) = figures(changed.clone());
    let jobs = shifts(&old, &new, &displaced, [snapshot, &changed]);
    let mut notes = vec!["new arrivals are not modeled".to_owned()];
    if before
        .devices_without_price
        .max(after.devices_without_price)
        > 0
    {
        notes.push("devices without a price are not counted in $/h".to_owned());
    }
    Ok(Outcome {
        changes: changes.iter().map(ToString::to_string).collect(),
        before,
        after,
        jobs,
        notes,
        budgets: Vec::new(),
        spending: [old.spending, new.spending],
    })
}

/// What becomes of whom on one side: those that wait, and those that run and are preempted at once.
struct Side {
    starts: BTreeMap<JobKey, Start>,
    preempted: BTreeSet<JobName>,
    spending: FleetSpending,
}

/// Workloads of one of the two sides, by key.
fn by_key(snapshot: &Snapshot) -> BTreeMap<&JobKey, &Workload> {
    let all = snapshot.workloads.iter();
    all.map(|work| (&work.key, work)).collect()
}

/// A start that moves by less, in milliseconds, is where it was: times are told by the minute.
const LEAST: i64 = 60_000;

fn shifts(
    old: &Side,
    new: &Side,
    displaced: &BTreeSet<JobKey>,
    snapshots: [&Snapshot; 2],
) -> Vec<Shift> {
    let [before, after] = snapshots.map(by_key);
    let at = snapshots[0].at;
    let keys: BTreeSet<&JobKey> = before.keys().chain(after.keys()).copied().collect();
    // What ends, or of which nobody knows what it asks for, runs as long as it holds something.
    let runs = |work: &Workload| match work.status {
        Status::Running => true,
        Status::Ending => work.sets.iter().any(|set| !set.placements.is_empty()),
        Status::Waiting | Status::Held => false,
    };
    let side = |all: &BTreeMap<&JobKey, &Workload>, side: &Side, key: &JobKey| {
        let work = all.get(key)?;
        let gone = side.preempted.contains(&job(key));
        Some(match side.starts.get(key) {
            Some(start) => When::of(start),
            None if runs(work) && !gone => When::RUNS,
            None => When::default(),
        })
    };
    let mut all: Vec<Shift> = Vec::new();
    for key in keys {
        let (was, is) = (side(&before, old, key), side(&after, new, key));
        let lost = displaced.contains(key);
        if let Some(effect) = effect(was, is, lost, at) {
            let work = before.get(key).or(after.get(key));
            all.push(Shift {
                effect,
                job: job(key),
                queue: work.and_then(|work| work.queue.clone()),
                devices: work.map_or(0, |work| work.device_count().max(held(work))),
                before: was,
                after: is,
            });
        }
    }
    // Stable: within an effect they stand as they are named.
    all.small_sort_by(|a, b| {
        let name = |shift: &Shift| shift.job.to_string();
        (a.effect.cmp(&b.effect)).then_with(|| natural(&name(a), &name(b)))
    });
    all
}

/// Devices and slices that a workload holds.
fn held(work: &Workload) -> u64 {
    let placements = work.sets.iter().flat_map(|set| &set.placements);
    placements
        .map(|placement| placement.grips.len() as u64)
        .sum()
}

/// What the changes do to a workload; `None` where that is nothing.
fn effect(was: Option<When>, is: Option<When>, lost: bool, at: Moment) -> Option<Effect> {
    let (was, is) = match (was, is) {
        (Some(was), Some(is)) => (was, is),
        (None, Some(_)) => return Some(Effect::Added),
        (Some(_), None) => return Some(Effect::Removed),
        (None, None) => return None,
    };
    if lost || (was.runs && !is.runs) {
        return Some(Effect::Evicted);
    }
    match (was.runs, was.p50, is.runs, is.p50) {
        (false, _, true, _) => Some(Effect::Kept),
        (true, _, _, _) => None,
        (_, Some(was), _, Some(is)) if (was.millis() - is.millis()).abs() < LEAST => None,
        (_, _, _, Some(is)) if is <= at => Some(Effect::Starts),
        (_, Some(was), _, Some(is)) if is < was => Some(Effect::Earlier),
        (_, Some(_), _, Some(_)) => Some(Effect::Later),
        (_, None, _, Some(_)) => Some(Effect::Known),
        (_, Some(_), _, None) => Some(Effect::Unknown),
        (_, None, _, None) => None,
    }
}

/// When those start that have their quota and no room on nodes.
fn past_queues(compiled: &CompiledFleet, unseated: &[WorkloadId]) -> BTreeMap<WorkloadId, Start> {
    if unseated.is_empty() {
        return BTreeMap::new();
    }
    let beyond = CompiledFleet::new(explanations::past_queues(&compiled.snapshot));
    let mut starts = forecast::forecast(&State::new(&beyond));
    let start_of = |work: &WorkloadId| {
        let there = beyond.work(&compiled.workload(*work).key)?;
        Some((*work, starts.remove(&there)?))
    };
    unseated.iter().filter_map(start_of).collect()
}

fn figures(snapshot: Snapshot) -> (Figures, Side) {
    let compiled = CompiledFleet::new(snapshot);
    let mut state = State::new(&compiled);
    // Those that have their quota take the nodes that they find before anybody new comes.
    let (seated, unseated) = cycle::place(&mut state, &[]);
    let seated = seated.into_iter().map(|(work, _)| work);
    let at_once = seated.map(|work| (work, Start::at_once(&compiled, work, state.now())));
    let at_once: Vec<(WorkloadId, Start)> = at_once.collect();
    let mut starts = forecast::forecast(&state);
    starts.extend(at_once);
    starts.extend(past_queues(&compiled, &unseated));
    let cycle = cycle::cycle(&mut state, AS_TOLD);
    let pushed = cycle.preempted.iter().flat_map(|push| &push.victims.list);
    let preempted = pushed
        .map(|victim| job(&compiled.workload(victim.work).key))
        .collect();
    let devices = || {
        compiled
            .snapshot
            .nodes
            .iter()
            .flat_map(|node| &node.devices)
    };
    let now = state.now().millis();
    let mut waits: Vec<i64> = starts
        .values()
        .filter_map(|start| Some((start.p50?.millis() - now) / 1_000))
        .collect();
    waits.small_sort();
    let figures = Figures {
        nodes: compiled.snapshot.nodes.len(),
        devices: compiled.snapshot.devices(),
        allocated_milli: state.device_use().into_values().map(i64::from).sum(),
        running: state.holders().count() - unseated.len(),
        waiting: state.waiting().count() + unseated.len(),
        unknown: starts.len() - waits.len(),
        wait_p50_seconds: waits.get(waits.len().saturating_sub(1) / 2).copied(),
        burn_micro_usd_per_hour: devices().filter_map(|device| device.price).sum(),
        devices_without_price: devices().filter(|device| device.price.is_none()).count(),
    };
    let named = starts
        .into_iter()
        .map(|(work, start)| (compiled.workload(work).key.clone(), start));
    let side = Side {
        starts: named.collect(),
        preempted,
        spending: spending(&state),
    };
    (figures, side)
}

/// When those start that wait, and who is preempted for it at once.
pub(super) fn starts(snapshot: Snapshot) -> (BTreeMap<JobKey, Start>, BTreeSet<JobName>) {
    let (_, side) = figures(snapshot);
    (side.starts, side.preempted)
}

/// The names that a fleet knows of a kind, for spelling.
pub(super) fn names<'a>(all: impl Iterator<Item = &'a Name>) -> Vec<&'a str> {
    let set: BTreeSet<&str> = all
        .map(Name::as_str)
        .filter(|name| !name.is_empty())
        .collect();
    set.into_iter().collect()
}
