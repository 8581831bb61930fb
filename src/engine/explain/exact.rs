//! More nodes change what is scarce, and with it where everybody's pods go: what a state with supposed nodes says is held
//! against the fleet compiled anew with them.

use crate::compiled::{CompiledFleet, WorkloadId};
use crate::cycle;
use crate::snapshot::{Snapshot, least_amount};
use crate::state::State;
use model::fleet::job::JobKey;
use model::plan::Evicted;

use super::Explainer;
use super::change::{Change, Unblock};

/// Nodes times workloads up to which a fleet is compiled anew for it.
const MOST: usize = 50_000;

/// Nodes and units of quota that are added, one after the other, to what did not help: others may take them first.
const MORE: [i64; 8] = [1, 1, 2, 4, 8, 16, 32, 64];

impl Explainer<'_> {
    /// Changes that add nodes, as the fleet compiled anew with them says; on a large fleet they count as reckoned.
    pub(super) fn held_to_fleet(&self, work: WorkloadId, all: Vec<Unblock>) -> Vec<Unblock> {
        let snapshot = &self.state.compiled().snapshot;
        let small = is_small(snapshot);
        let key = &snapshot.workloads[work].key;
        let held = |unblock: Unblock| {
            let adds = |change: &Change| {
                matches!(
                    change,
                    Change::Nodes { .. } | Change::Uncordon { .. } | Change::Preempt { .. }
                )
            };
            if !unblock.proven || !unblock.changes.iter().any(adds) {
                return Some(unblock);
            }
            if !small {
                return Some(Unblock {
                    proven: false,
                    ..unblock
                });
            }
            let enough = grown(snapshot, key, unblock.changes)?;
            let mut least = shrunk(snapshot, key, enough.clone());
            if let [Change::Preempt { jobs }] = &least[..]
                && !self.outlasts(key, jobs)
            {
                least = enough;
            }
            let victims = match &least[..] {
                [Change::Preempt { jobs }] => {
                    let mut victims = unblock.victims;
                    victims.retain(|victim| jobs.contains(&victim.job));
                    victims
                }
                _ => starts(snapshot, key, &least)?,
            };
            Some(Unblock::evicting(least, true, victims))
        };
        all.into_iter().filter_map(held).collect()
    }

    /// One change, proven where the fleet compiled anew with it says so.
    pub(super) fn held_one(&self, work: WorkloadId, change: Change) -> Unblock {
        let snapshot = &self.state.compiled().snapshot;
        let changes = vec![change];
        let proven = is_small(snapshot)
            && starts(snapshot, &snapshot.workloads[work].key, &changes).is_some();
        Unblock::new(changes, proven)
    }
}

/// Whether a fleet may be compiled anew for one change.
pub(super) fn is_small(snapshot: &Snapshot) -> bool {
    snapshot.nodes.len() * snapshot.workloads.len() <= MOST
}

/// The changes, or a little more of them, if they help.
fn grown(snapshot: &Snapshot, key: &JobKey, mut changes: Vec<Change>) -> Option<Vec<Change>> {
    for more in MORE {
        if starts(snapshot, key, &changes).is_some() {
            return Some(changes);
        }
        if !changes.iter().any(is_amount) {
            return None;
        }
        for change in &mut changes {
            if let Some(more) = by(change, more) {
                *change = more;
            }
        }
    }
    starts(snapshot, key, &changes).is_some().then_some(changes)
}

/// As little of each as still helps: in steps that grow smaller, until one less of any is too little.
fn shrunk(snapshot: &Snapshot, key: &JobKey, mut changes: Vec<Change>) -> Vec<Change> {
    let mut steps = MORE[1..].iter().rev().skip(1).copied().peekable();
    while let Some(&step) = steps.peek() {
        let mut at = 0;
        let mut gave = false;
        while at < changes.len() {
            let mut less = changes.clone();
            match by(&changes[at], -step) {
                Some(change) => less[at] = change,
                None if is_amount(&changes[at]) && changes.len() > 1 => _ = less.remove(at),
                None => {
                    at += 1;
                    continue;
                }
            }
            if starts(snapshot, key, &less).is_some() {
                changes = less;
                gave = true;
            } else {
                at += 1;
            }
        }
        // Less of this may be less of what comes before it.
        if !gave {
            steps.next();
        }
    }
    changes
}

const fn is_amount(change: &Change) -> bool {
    matches!(change, Change::Nodes { .. } | Change::Quota { .. })
}

/// So much more of it, or less; nothing where none is left, or it has no amount.
fn by(change: &Change, more: i64) -> Option<Change> {
    let mut other = change.clone();
    match &mut other {
        Change::Nodes { count, .. } => {
            *count = u32::try_from(i64::from(*count) + more).ok()?;
            (*count > 0).then_some(other)
        }
        Change::Quota {
            resource,
            add,
            nominal,
            ..
        } => {
            let unit = least_amount(resource);
            *add += more * unit;
            *nominal += more * unit;
            (*add > 0).then_some(other)
        }
        Change::Preempt { jobs } => fewer(jobs, more).then_some(other),
        Change::Uncordon { nodes } => fewer(nodes, more).then_some(other),
        _ => None,
    }
}

/// So many fewer of a list; there is no more of it, and never nothing.
fn fewer<T>(list: &mut Vec<T>, by: i64) -> bool {
    let left = usize::try_from(list.len() as i64 + by).unwrap_or(0);
    let less = left > 0 && left < list.len();
    list.truncate(left);
    less
}

/// Whether a cycle starts it on the fleet with these changes: then who is evicted for it.
fn starts(snapshot: &Snapshot, key: &JobKey, changes: &[Change]) -> Option<Vec<Evicted>> {
    let mut after = snapshot.clone();
    for change in changes {
        change.apply(&mut after, key);
    }
    let compiled = CompiledFleet::new(after);
    let work = compiled.work(key)?;
    let mut state = State::new(&compiled);
    cycle::place(&mut state, &[]);
    let cycle = cycle::cycle(&mut state, super::AS_DONE);
    let mut admitted = cycle.admitted.iter();
    let starts = admitted.any(|admission| admission.work == work);
    starts.then(|| super::victims_of(&compiled, &cycle, work))
}
