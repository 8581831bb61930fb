//! Verifies changes on a recompiled fleet: more nodes change which resources are scarce, and so where all pods are placed, so a
//! result from a state with hypothetical nodes is compared with the fleet compiled with them.

use std::collections::BTreeSet;

use crate::compiled::{CompiledFleet, WorkloadId};
use crate::cycle;
use crate::fit::Relaxation;
use crate::snapshot::{Snapshot, least_amount};
use crate::state::State;
use model::base::Name;
use model::fleet::job::JobKey;
use model::plan::Evicted;

use super::Explainer;
use super::change::{Unblock, UnblockChange};
use super::trials::drop_needless;
use super::unblock::Axis;

/// Nodes times workloads up to which a fleet is recompiled for this.
const MOST: usize = 50_000;

/// Nodes and units of quota that are added step by step if a change does not help: other workloads may take them first.
const MORE: [i64; 8] = [1, 1, 2, 4, 8, 16, 32, 64];

/// Maximum amount up to which each amount is tested.
const MOST_SCANNED: i64 = 8;

/// Number of nodes, and of workloads, up to which any change of nodes is tried on the recompiled fleet.
const TINY: usize = 32;

/// How many numbers of new nodes are tried so for one workload.
const MOST_RECOMPILED: usize = 64;

impl Explainer<'_> {
    /// Whether more nominal quota moves the workload forward in the order while capacity is free: workloads that borrow
    /// come after all others.
    pub(super) fn goes_sooner(&mut self, work: WorkloadId, axis: Axis) -> bool {
        let beyond = Relaxation {
            no_quota: true,
            ..Relaxation::default()
        };
        let queue = self.state.compiled().workloads[work].queue;
        queue.is_some_and(|queue| self.state.tree().branches[queue].parent.is_some())
            && self.turns >= self.turns_to(work, None).saturating_mul(4)
            && self.state.find(work, &beyond).is_ok()
            && {
                let most = self.demand(work, axis);
                self.helps(work, &[(axis, most)], None).is_some() || self.scan(work, axis).is_some()
            }
    }

    /// The smallest amount that helps if larger ones do not, because other workloads take them. Small fleets only.
    pub(super) fn scan(&mut self, work: WorkloadId, axis: Axis) -> Option<Unblock> {
        if !is_small(&self.state.compiled().snapshot) {
            return None;
        }
        for some in 1..=MOST_SCANNED {
            if self.turns < self.turns_to(work, None) {
                return None;
            }
            if let Some(victims) = self.helps(work, &[(axis, some)], None) {
                return Some(Unblock::evicting(
                    vec![self.change(work, axis, some)],
                    true,
                    victims,
                ));
            }
        }
        None
    }

    /// Changes that add nodes, verified on the recompiled fleet; on a large fleet they count as estimates.
    pub(super) fn held_to_fleet(&self, work: WorkloadId, all: Vec<Unblock>) -> Vec<Unblock> {
        let snapshot = &self.state.compiled().snapshot;
        let small = is_small(snapshot);
        let key = &snapshot.workloads[work].key;
        let held = |unblock: Unblock| {
            let adds = |change: &UnblockChange| {
                matches!(
                    change,
                    UnblockChange::Nodes { .. }
                        | UnblockChange::Uncordon { .. }
                        | UnblockChange::Preempt { .. }
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
            if let [UnblockChange::Preempt { jobs }] = &least[..]
                && !self.outlasts(key, jobs)
            {
                least = enough;
            }
            let victims = match &least[..] {
                [UnblockChange::Preempt { jobs }] => {
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

    /// Adds new or uncordoned nodes that help indirectly: the workload's own pods need not fit them, but workloads ahead in
    /// its queue are placed there. Only for tiny fleets, and only if the list has no such change yet.
    pub(super) fn add_indirect(&self, work: WorkloadId, all: &mut Vec<Unblock>) {
        let snapshot = &self.state.compiled().snapshot;
        if snapshot.nodes.len() > TINY || snapshot.workloads.len() > TINY {
            return;
        }
        let lacks = |all: &[Unblock], is_kind: fn(&UnblockChange) -> bool| {
            let mut singles = all.iter().filter(|unblock| unblock.changes.len() == 1);
            !singles.any(|unblock| is_kind(&unblock.changes[0]))
        };
        if lacks(all, |change| {
            matches!(change, UnblockChange::Uncordon { .. })
        }) {
            all.extend(self.any_uncordoned(work));
        }
        if lacks(all, |change| matches!(change, UnblockChange::Nodes { .. })) {
            all.extend(self.any_nodes(work));
        }
    }

    /// The fewest new nodes, like any existing one, that help on the recompiled fleet.
    fn any_nodes(&self, work: WorkloadId) -> Option<Unblock> {
        let compiled = self.state.compiled();
        let snapshot = &compiled.snapshot;
        let key = &snapshot.workloads[work].key;
        let domains = |node: usize| -> Vec<Option<usize>> {
            let ladders = compiled.ladders.iter();
            ladders
                .map(|ladder| ladder.paths[node].last().copied())
                .collect()
        };
        let mut seen = BTreeSet::new();
        let mut left = MOST_RECOMPILED;
        let mut best: Option<(usize, Unblock)> = None;
        for (like, site) in compiled.nodes.iter().enumerate() {
            if !seen.insert((site.node_shape, domains(like))) {
                continue;
            }
            let counts = (1..=MOST_SCANNED).take(left);
            let found = counts.into_iter().find_map(|count| {
                left -= 1;
                let changes = vec![self.change(work, Axis::Nodes(like), count)];
                let victims = starts(snapshot, key, &changes)?;
                Some((count as usize, Unblock::evicting(changes, true, victims)))
            });
            let Some((count, found)) = found else {
                continue;
            };
            let devices = count * snapshot.nodes[like].devices.len().max(1);
            if best.as_ref().is_none_or(|best| devices < best.0) {
                best = Some((devices, found));
            }
        }
        best.map(|(_, found)| found)
    }

    /// The fewest cordoned nodes, of any shape, that help on the recompiled fleet.
    fn any_uncordoned(&self, work: WorkloadId) -> Option<Unblock> {
        let snapshot = &self.state.compiled().snapshot;
        let key = &snapshot.workloads[work].key;
        let closed = snapshot.nodes.iter();
        let closed = closed.filter(|node| node.may_be_opened());
        let mut nodes: Vec<Name> = closed.map(|node| node.name.clone()).collect();
        let uncordoned = |nodes: &[Name]| {
            let changes = vec![UnblockChange::Uncordon {
                nodes: nodes.to_vec(),
            }];
            let victims = starts(snapshot, key, &changes)?;
            Some(Unblock::evicting(changes, true, victims))
        };
        let mut ones = nodes.iter();
        if let Some(one) = ones.find_map(|node| uncordoned(std::slice::from_ref(node))) {
            return Some(one);
        }
        let mut found = uncordoned(&nodes).filter(|_| nodes.len() > 1)?;
        drop_needless(&mut nodes, |fewer| match uncordoned(fewer) {
            Some(fewer) => {
                found = fewer;
                true
            }
            None => false,
        });
        Some(found)
    }

    /// One change; proven if the recompiled fleet confirms it.
    pub(super) fn held_one(&self, work: WorkloadId, change: UnblockChange) -> Unblock {
        let snapshot = &self.state.compiled().snapshot;
        let changes = vec![change];
        let proven = is_small(snapshot)
            && starts(snapshot, &snapshot.workloads[work].key, &changes).is_some();
        Unblock::new(changes, proven)
    }
}

/// Whether a fleet is small enough to be recompiled for one change.
pub(super) fn is_small(snapshot: &Snapshot) -> bool {
    snapshot.nodes.len() * snapshot.workloads.len() <= MOST
}

/// The changes, increased a little if necessary, if they help.
fn grown(
    snapshot: &Snapshot,
    key: &JobKey,
    mut changes: Vec<UnblockChange>,
) -> Option<Vec<UnblockChange>> {
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

/// The smallest amounts that still help: in decreasing steps, until one less of any is too little.
fn shrunk(
    snapshot: &Snapshot,
    key: &JobKey,
    mut changes: Vec<UnblockChange>,
) -> Vec<UnblockChange> {
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
        // A reduction here may allow a reduction of an earlier change.
        if !gave {
            steps.next();
        }
    }
    changes
}

const fn is_amount(change: &UnblockChange) -> bool {
    matches!(
        change,
        UnblockChange::Nodes { .. } | UnblockChange::Quota { .. }
    )
}

/// The change with its amount increased or reduced; none if nothing is left, or if it has no amount.
fn by(change: &UnblockChange, more: i64) -> Option<UnblockChange> {
    let mut other = change.clone();
    match &mut other {
        UnblockChange::Nodes { count, .. } => {
            *count = u32::try_from(i64::from(*count) + more).ok()?;
            (*count > 0).then_some(other)
        }
        UnblockChange::Quota {
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
        UnblockChange::Preempt { jobs } => fewer(jobs, more).then_some(other),
        UnblockChange::Uncordon { nodes } => fewer(nodes, more).then_some(other),
        _ => None,
    }
}

/// Shortens a list, but not to empty; it cannot grow.
fn fewer<T>(list: &mut Vec<T>, by: i64) -> bool {
    let left = usize::try_from(list.len() as i64 + by).unwrap_or(0);
    let less = left > 0 && left < list.len();
    list.truncate(left);
    less
}

/// Whether a cycle starts the workload on the fleet with these changes; if so, the workloads that are evicted for it.
fn starts(snapshot: &Snapshot, key: &JobKey, changes: &[UnblockChange]) -> Option<Vec<Evicted>> {
    let mut after = snapshot.clone();
    for change in changes {
        change.apply(&mut after, key);
    }
    let compiled = CompiledFleet::new(after);
    let work = compiled.work(key)?;
    let mut state = State::new(&compiled);
    let cycle = cycle::cycle(&mut state);
    let mut admitted = cycle.admitted.iter();
    let starts = admitted.any(|admission| admission.work == work);
    starts.then(|| super::victims_of(&compiled, &cycle, work))
}
