//! What-if: compares a fleet before and after changes: what runs, when workloads start, and the rate.

mod change;
mod grammar;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use model::base::{Moment, Name, SmallSort, natural};
use model::cost::{LIST_NOTE, Money};
use model::fleet::job::JobKey;

use super::compiled::{CompiledFleet, WorkloadId};
use super::cycle;
use super::explain::job;
use super::explanations;
use super::fit::Relaxation;
use super::forecast::{self, Start};
use super::snapshot::{Snapshot, SnapshotDevice, Status, Workload};
use super::spending::spending;
use super::state::State;
use model::cost::{BudgetChange, FleetSpending};
use model::plan::JobName;

pub use change::{HypotheticalChange, LostPart};
pub use grammar::{GRAMMAR, KEYWORDS, parse, split};

/// Figures of a fleet after everything that can start has started.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct WhatIfFigures {
    pub nodes: usize,
    pub devices: usize,
    /// Allocated thousandths of devices and slices.
    pub allocated_milli: i64,
    pub running: usize,
    pub waiting: usize,
    /// Of these, those with an unknown start.
    pub unknown: usize,
    /// Median of the known waits, including workloads that start now, in seconds; null if none is known.
    pub wait_p50_seconds: Option<i64>,
    /// Rate of all devices with a known price, in micro-USD an hour.
    pub burn_micro_usd_per_hour: i64,
    /// Part of that rate that comes from list prices because the price that is paid is unknown.
    pub list_micro_usd_per_hour: i64,
    /// Devices without a known price.
    pub devices_without_price: usize,
}

/// Effect of the changes on a workload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhatIfEffect {
    /// It starts now; without the changes it starts later or at an unknown time.
    Starts,
    /// It runs; with the changes it loses its nodes or is preempted, and is pending again.
    Evicted,
    /// It is about to be preempted; with the changes it keeps running.
    Kept,
    Earlier,
    Later,
    /// Its start becomes known.
    Known,
    /// Its start is no longer known.
    Unknown,
    /// It exists only with the changes.
    Added,
    /// It exists only without the changes.
    Removed,
}

impl WhatIfEffect {
    /// Name in tables and documents.
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

/// Start of a workload, before or after the changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct StartEstimate {
    /// It runs and continues to run.
    pub runs: bool,
    /// 10th percentile; null if unknown, or if it is not pending.
    #[serde(serialize_with = "moment")]
    pub p10: Option<Moment>,
    #[serde(serialize_with = "moment")]
    pub p50: Option<Moment>,
    #[serde(serialize_with = "moment")]
    pub p90: Option<Moment>,
}

impl StartEstimate {
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

/// A workload that the changes affect.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Shift {
    pub effect: WhatIfEffect,
    pub job: JobName,
    /// The queue that it is pending in or whose quota it uses; null if it has none.
    pub queue: Option<Name>,
    /// Devices and slices that it requests or has allocated.
    pub devices: u64,
    /// Start without the changes; null if it does not exist there.
    pub before: Option<StartEstimate>,
    /// Start with the changes.
    pub after: Option<StartEstimate>,
}

#[allow(clippy::ref_option, reason = "serde passes references")]
fn moment<S: serde::Serializer>(at: &Option<Moment>, out: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => out.serialize_some(&at.rfc3339()),
        None => out.serialize_none(),
    }
}

/// Result of a what-if.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct WhatIfResult {
    /// The changes as they were parsed.
    pub changes: Vec<String>,
    pub before: WhatIfFigures,
    pub after: WhatIfFigures,
    /// Affected workloads: those that start first, then the evicted ones, each by name.
    pub jobs: Vec<Shift>,
    pub notes: Vec<String>,
    /// Effect on budgets. The engine leaves it empty; the caller with access to the usage ledger fills it in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetChange>,
    /// Allocations on both sides, as input for the budgets.
    #[serde(skip)]
    pub spending: [FleetSpending; 2],
}

/// Result of changes to a fleet, applied in order.
///
/// # Errors
/// A change names an object that does not exist; the text names it and the nearest match.
pub fn what_if(
    snapshot: &Snapshot,
    changes: &[HypotheticalChange],
) -> Result<WhatIfResult, String> {
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
    if before.list_micro_usd_per_hour > 0 || after.list_micro_usd_per_hour > 0 {
        notes.push(LIST_NOTE.to_owned());
    }
    Ok(WhatIfResult {
        changes: changes.iter().map(ToString::to_string).collect(),
        before,
        after,
        jobs,
        notes,
        budgets: Vec::new(),
        spending: [old.spending, new.spending],
    })
}

/// Starts and preemptions on one side.
struct WhatIfSide {
    starts: BTreeMap<JobKey, Start>,
    preempted: BTreeSet<JobName>,
    spending: FleetSpending,
}

/// Workloads of one of the two sides, by key.
fn workloads_by_key(snapshot: &Snapshot) -> BTreeMap<&JobKey, &Workload> {
    let all = snapshot.workloads.iter();
    all.map(|work| (&work.key, work)).collect()
}

/// A start that moves by less, in milliseconds, is unchanged: times are shown by the minute.
const LEAST: i64 = 60_000;

fn shifts(
    old: &WhatIfSide,
    new: &WhatIfSide,
    displaced: &BTreeSet<JobKey>,
    snapshots: [&Snapshot; 2],
) -> Vec<Shift> {
    let [before, after] = snapshots.map(workloads_by_key);
    let at = snapshots[0].at;
    let keys: BTreeSet<&JobKey> = before.keys().chain(after.keys()).copied().collect();
    // A terminating workload, or one with unknown requests, runs as long as it has an allocation.
    let runs = |work: &Workload| match work.status {
        Status::Running => work.blocked.is_none() || work.elsewhere,
        Status::Ending => work.sets.iter().any(|set| !set.placements.is_empty()),
        Status::Waiting | Status::Held => false,
    };
    let side = |all: &BTreeMap<&JobKey, &Workload>, side: &WhatIfSide, key: &JobKey| {
        let work = all.get(key)?;
        let gone = side.preempted.contains(&job(key));
        Some(match side.starts.get(key) {
            Some(start) => StartEstimate::of(start),
            None if runs(work) && !gone => StartEstimate::RUNS,
            None => StartEstimate::default(),
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
                devices: work.map_or(0, |work| work.device_count().max(allocated_devices(work))),
                before: was,
                after: is,
            });
        }
    }
    // Stable sort: within an effect, workloads keep their order by name.
    all.small_sort_by(|a, b| {
        let name = |shift: &Shift| shift.job.to_string();
        (a.effect.cmp(&b.effect)).then_with(|| natural(&name(a), &name(b)))
    });
    all
}

/// Devices and slices allocated to a workload.
fn allocated_devices(work: &Workload) -> u64 {
    let placements = work.sets.iter().flat_map(|set| &set.placements);
    placements
        .map(|placement| placement.devices.len() as u64)
        .sum()
}

/// Effect of the changes on a workload; `None` if there is none.
fn effect(
    was: Option<StartEstimate>,
    is: Option<StartEstimate>,
    lost: bool,
    at: Moment,
) -> Option<WhatIfEffect> {
    let (was, is) = match (was, is) {
        (Some(was), Some(is)) => (was, is),
        (None, Some(_)) => return Some(WhatIfEffect::Added),
        (Some(_), None) => return Some(WhatIfEffect::Removed),
        (None, None) => return None,
    };
    if lost || (was.runs && !is.runs) {
        return Some(WhatIfEffect::Evicted);
    }
    // A shift within the standard error of either median is not reported.
    let error = |when: &StartEstimate| forecast::error_ms(when.p10, when.p90);
    let least = LEAST.max(error(&was)).max(error(&is));
    match (was.runs, was.p50, is.runs, is.p50) {
        (false, _, true, _) => Some(WhatIfEffect::Kept),
        (true, _, _, _) => None,
        (_, Some(then), _, Some(now)) if (then.millis() - now.millis()).abs() < LEAST => None,
        (_, _, _, Some(is)) if is <= at => Some(WhatIfEffect::Starts),
        (_, Some(then), _, Some(now)) if (then.millis() - now.millis()).abs() < least => None,
        (_, Some(was), _, Some(is)) if is < was => Some(WhatIfEffect::Earlier),
        (_, Some(_), _, Some(_)) => Some(WhatIfEffect::Later),
        (_, None, _, Some(_)) => Some(WhatIfEffect::Known),
        (_, Some(_), _, None) => Some(WhatIfEffect::Unknown),
        (_, None, _, None) => None,
    }
}

/// Starts of workloads that have quota but no nodes, after the `seated` ones, which have quota too, took theirs.
fn past_queues(
    compiled: &CompiledFleet,
    seated: &[WorkloadId],
    unseated: &[WorkloadId],
) -> BTreeMap<WorkloadId, Start> {
    if unseated.is_empty() {
        return BTreeMap::new();
    }
    let beyond = CompiledFleet::new(explanations::past_queues(&compiled.snapshot));
    let in_beyond = |work: &WorkloadId| beyond.work(&compiled.workload(*work).key);
    let mut state = State::new(&beyond);
    for there in seated.iter().filter_map(in_beyond) {
        // One that finds no node here is forecast like the others.
        let _ = state.start(there, &Relaxation::default());
    }
    let mut starts = forecast::forecast(&state);
    let start_of = |work: &WorkloadId| Some((*work, starts.remove(&in_beyond(work)?)?));
    unseated.iter().filter_map(start_of).collect()
}

fn figures(snapshot: Snapshot) -> (WhatIfFigures, WhatIfSide) {
    let compiled = CompiledFleet::new(snapshot);
    let mut state = State::new(&compiled);
    // Workloads with quota take free nodes before any new workload.
    let (seated, unseated) = cycle::place(&mut state);
    let seated: Vec<WorkloadId> = seated.into_iter().map(|(work, _)| work).collect();
    let at_once = seated
        .iter()
        .map(|work| (*work, Start::at_once(&compiled, *work, state.now())));
    let at_once: Vec<(WorkloadId, Start)> = at_once.collect();
    let mut starts = forecast::forecast(&state);
    starts.extend(at_once);
    starts.extend(past_queues(&compiled, &seated, &unseated));
    // An eviction is reported whether or not a node has free capacity then.
    let cycle = cycle::cycle(&mut state);
    let reserved = unseated.len() + cycle.quota_reserved.len();
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
    let rate: Money = devices().filter_map(SnapshotDevice::rate).sum();
    let now = state.now().millis();
    let mut waits: Vec<i64> = starts
        .values()
        .filter_map(|start| Some((start.p50?.millis() - now) / 1_000))
        .collect();
    waits.small_sort();
    let figures = WhatIfFigures {
        nodes: compiled.snapshot.nodes.len(),
        devices: compiled.snapshot.devices(),
        allocated_milli: state.device_use().into_values().map(i64::from).sum(),
        running: state.holders().count() - reserved,
        waiting: state.waiting().count() + reserved,
        unknown: starts.len() - waits.len(),
        wait_p50_seconds: waits.get(waits.len().saturating_sub(1) / 2).copied(),
        burn_micro_usd_per_hour: rate.all.micros(),
        list_micro_usd_per_hour: rate.by_list.micros(),
        devices_without_price: devices().filter(|device| device.price.is_none()).count(),
    };
    let named = starts
        .into_iter()
        .map(|(work, start)| (compiled.workload(work).key.clone(), start));
    let side = WhatIfSide {
        starts: named.collect(),
        preempted,
        spending: spending(&state),
    };
    (figures, side)
}

/// Starts of pending workloads, and the workloads that are preempted now.
pub(super) fn starts(snapshot: Snapshot) -> (BTreeMap<JobKey, Start>, BTreeSet<JobName>) {
    let (_, side) = figures(snapshot);
    (side.starts, side.preempted)
}

/// Known names of one kind, for spelling suggestions.
pub(super) fn names<'a>(all: impl Iterator<Item = &'a Name>) -> Vec<&'a str> {
    let set: BTreeSet<&str> = all
        .map(Name::as_str)
        .filter(|name| !name.is_empty())
        .collect();
    set.into_iter().collect()
}
