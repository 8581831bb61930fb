//! The same fleet with something changed: what runs, who starts when, and what it burns, before and after.

mod change;
mod grammar;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use model::base::{Moment, Name};
use model::fleet::job::JobKey;

use super::compiled::CompiledFleet;
use super::cycle;
use super::explain::{AS_TOLD, job};
use super::forecast::{self, Start};
use super::snapshot::Snapshot;
use super::state::State;
use model::plan::JobName;

pub use change::Suppose;
pub use grammar::{GRAMMAR, parse};

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

/// A workload whose start changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Shift {
    /// Which.
    pub job: JobName,
    /// When it starts without the changes; null where that is unknown, or it is not there.
    #[serde(serialize_with = "moment")]
    pub before: Option<Moment>,
    /// When it starts with them.
    #[serde(serialize_with = "moment")]
    pub after: Option<Moment>,
}

#[allow(clippy::ref_option, reason = "serde passes references")]
fn moment<S: serde::Serializer>(at: &Option<Moment>, out: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => out.serialize_some(&at.rfc3339()),
        None => out.serialize_none(),
    }
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Outcome {
    /// What was supposed, as it was understood.
    pub changes: Vec<String>,
    /// Without it.
    pub before: Figures,
    /// With it.
    pub after: Figures,
    /// Workloads that lose their nodes and wait again.
    pub displaced: Vec<JobName>,
    /// Workloads whose median start changes, by name.
    pub starts: Vec<Shift>,
    /// What to keep in mind.
    pub notes: Vec<String>,
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
    let (after, new) = figures(changed);
    let keys: BTreeSet<&JobKey> = old.keys().chain(new.keys()).collect();
    let starts = keys.into_iter().filter_map(|key| {
        let at = |side: &BTreeMap<JobKey, Start>| side.get(key).and_then(|start| start.p50);
        let (before, after) = (at(&old), at(&new));
        (before != after).then(|| Shift {
            job: job(key),
            before,
            after,
        })
    });
    let mut notes = vec!["arrivals are not modelled".to_owned()];
    if before
        .devices_without_price
        .max(after.devices_without_price)
        > 0
    {
        notes.push("devices of unknown price are left out of the burn".to_owned());
    }
    Ok(Outcome {
        changes: changes.iter().map(ToString::to_string).collect(),
        starts: starts.collect(),
        before,
        after,
        displaced: displaced.iter().map(job).collect(),
        notes,
    })
}

fn figures(snapshot: Snapshot) -> (Figures, BTreeMap<JobKey, Start>) {
    let compiled = CompiledFleet::new(snapshot);
    let mut state = State::new(&compiled);
    let starts = forecast::forecast(&state);
    cycle::cycle(&mut state, AS_TOLD);
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
    waits.sort_unstable();
    let figures = Figures {
        nodes: compiled.snapshot.nodes.len(),
        devices: compiled.snapshot.devices(),
        allocated_milli: state.device_use().into_values().map(i64::from).sum(),
        running: state.holders().count(),
        waiting: state.waiting().count(),
        unknown: starts.len() - waits.len(),
        wait_p50_seconds: waits.get(waits.len().saturating_sub(1) / 2).copied(),
        burn_micro_usd_per_hour: devices().filter_map(|device| device.price).sum(),
        devices_without_price: devices().filter(|device| device.price.is_none()).count(),
    };
    let named = starts
        .into_iter()
        .map(|(work, start)| (compiled.workload(work).key.clone(), start));
    (figures, named.collect())
}

/// The names that a fleet knows of a kind, for spelling.
pub(super) fn names<'a>(all: impl Iterator<Item = &'a Name>) -> Vec<&'a str> {
    let set: BTreeSet<&str> = all
        .map(Name::as_str)
        .filter(|name| !name.is_empty())
        .collect();
    set.into_iter().collect()
}
