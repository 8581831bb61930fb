//! What would have helped at the very turn of a workload, by itself: a change to nobody but it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::base::SmallSort;

use crate::compiled::{CompiledFleet, FlavorId, WorkloadId};
use crate::cycle::Attempt;
use crate::fit::{Relaxation, Why};

use super::around::open_taints;
use super::change::TaintName;

/// How often the workloads of one shape are tried anew while others are admitted in between.
const MOST_AGAIN: usize = 64;

/// Most taints of which each is tried by itself.
const MOST_TAINTS: usize = 16;

/// What would have helped.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Trials {
    /// Tolerating these taints; none of them could be left out.
    pub taints: Option<Vec<TaintName>>,
    /// Not to insist on one domain.
    pub no_topology: bool,
    /// The first flavors of its queue, other than those it names, that would do.
    pub flavors: Vec<FlavorId>,
    /// Not to ask for labels of nodes.
    pub no_labels: bool,
    /// No limit of quota.
    pub no_quota: bool,
    /// Found at this very turn, and not at that of one of its shape before.
    pub exact: bool,
}

/// Tries at each turn, once for all of one shape while nothing changes.
#[derive(Debug, Default)]
pub(super) struct Trier {
    pub found: BTreeMap<WorkloadId, Arc<Trials>>,
    known: BTreeMap<usize, (usize, usize, Arc<Trials>)>,
}

impl Trier {
    pub(super) fn missed(&mut self, turn: &mut Attempt<'_, '_>) {
        let shape = turn.compiled().works[turn.work].shape;
        let known = self.known.get(&shape).cloned();
        let trials = match known {
            Some((epoch, _, trials)) if epoch == turn.epoch => trials,
            Some((_, times, trials)) if times >= MOST_AGAIN => Arc::new(Trials {
                exact: trials.is_barren(),
                ..(*trials).clone()
            }),
            // Nothing becomes free in a cycle: what did not help before does not now.
            Some((_, times, trials)) => {
                let trials = Arc::new(again(turn, &trials));
                self.known
                    .insert(shape, (turn.epoch, times + 1, trials.clone()));
                trials
            }
            None => {
                let trials = Arc::new(first(turn));
                self.known.insert(shape, (turn.epoch, 1, trials.clone()));
                trials
            }
        };
        self.found.insert(turn.work, trials);
    }
}

impl Trials {
    fn is_barren(&self) -> bool {
        self.taints.is_none()
            && !self.no_topology
            && self.flavors.is_empty()
            && !self.no_labels
            && !self.no_quota
    }
}

fn tolerating(taints: &[TaintName]) -> Relaxation {
    Relaxation {
        tolerate: taints.iter().map(TaintName::toleration).collect(),
        ..Relaxation::default()
    }
}

fn no_topology() -> Relaxation {
    Relaxation {
        no_topology: true,
        ..Relaxation::default()
    }
}

fn no_labels() -> Relaxation {
    Relaxation {
        no_labels: true,
        ..Relaxation::default()
    }
}

fn no_quota() -> Relaxation {
    Relaxation {
        no_quota: true,
        ..Relaxation::default()
    }
}

fn only(flavor: FlavorId) -> Relaxation {
    Relaxation {
        only_flavor: Some(flavor),
        ..Relaxation::default()
    }
}

fn first(turn: &mut Attempt<'_, '_>) -> Trials {
    let any = |test: &dyn Fn(&Why) -> bool| turn.misses.iter().any(|miss| test(&miss.why));
    let quota = any(&|why| matches!(why, Why::Quota { .. } | Why::OverMost { .. }));
    let topology = any(&|why| matches!(why, Why::Topology { .. } | Why::Nodes { .. }));
    let taints = any(&|why| {
        matches!(
            why,
            Why::FlavorTaint { .. } | Why::Topology { .. } | Why::Nodes { .. }
        )
    });
    let compiled = turn.compiled();
    let sets = &compiled.works[turn.work].sets;
    let insists = sets
        .iter()
        .any(|set| set.wish.is_some_and(|(_, _, required)| required));
    Trials {
        taints: if taints { tolerable(turn) } else { None },
        no_topology: topology && insists && turn.starts(&no_topology()),
        flavors: others(compiled, turn.work)
            .into_iter()
            .filter(|flavor| turn.starts(&only(*flavor)))
            .collect(),
        no_labels: topology && turn.starts(&no_labels()),
        no_quota: quota && turn.fits(&no_quota()),
        exact: true,
    }
}

fn again(turn: &mut Attempt<'_, '_>, before: &Trials) -> Trials {
    let taints = before.taints.clone();
    Trials {
        taints: taints.filter(|taints| turn.starts(&tolerating(taints))),
        no_topology: before.no_topology && turn.starts(&no_topology()),
        flavors: before
            .flavors
            .iter()
            .copied()
            .filter(|flavor| turn.starts(&only(*flavor)))
            .collect(),
        no_labels: before.no_labels && turn.starts(&no_labels()),
        no_quota: before.no_quota && turn.fits(&no_quota()),
        exact: true,
    }
}

/// The fewest taints, tolerating which would have helped.
fn tolerable(turn: &mut Attempt<'_, '_>) -> Option<Vec<TaintName>> {
    let compiled = turn.compiled();
    let mut all: Vec<TaintName> = Vec::new();
    let zones = compiled
        .zones
        .iter()
        .map(|node| &compiled.snapshot.nodes[*node].taints);
    let flavors = compiled
        .snapshot
        .flavors
        .iter()
        .map(|flavor| &flavor.taints);
    for taints in zones.chain(flavors) {
        for set in &compiled.works[turn.work].sets {
            all.extend(open_taints(compiled, set.constraint, taints));
        }
    }
    all.small_sort();
    all.dedup();
    if all.is_empty() || !turn.starts(&tolerating(&all)) {
        return None;
    }
    for taint in all.iter().take(MOST_TAINTS) {
        let one = std::slice::from_ref(taint);
        if turn.starts(&tolerating(one)) {
            return Some(one.to_vec());
        }
    }
    let mut at = 0;
    while at < all.len() {
        let left_out = all.remove(at);
        if !turn.starts(&tolerating(&all)) {
            all.insert(at, left_out);
            at += 1;
        }
    }
    Some(all)
}

/// Flavors that a workload does not name and its queue has, or, where its queue has none, that there are.
fn others(compiled: &CompiledFleet, work: WorkloadId) -> Vec<FlavorId> {
    let Some(choices) = &compiled.works[work].choices else {
        return Vec::new();
    };
    let Some(queue) = compiled.works[work].queue else {
        return Vec::new();
    };
    let groups = &compiled.tree.branches[queue].groups;
    let mut all: Vec<FlavorId> = match groups.is_empty() {
        true => (0..compiled.snapshot.flavors.len()).collect(),
        false => groups
            .iter()
            .filter(|group| {
                let plain = |name: &model::base::Name| matches!(&**name, "cpu" | "memory" | "pods");
                !group.resources.iter().all(plain)
            })
            .flat_map(|group| group.flavors.iter().copied())
            .collect(),
    };
    all.retain(|flavor| choices.iter().all(|(own, _)| own != flavor));
    all
}
