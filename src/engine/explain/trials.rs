//! Tests changes to a workload at the point where it could not start: which of them would have started it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::base::SmallSort;

use crate::compiled::{CompiledFleet, FlavorId, WorkloadId};
use crate::cycle::{self, Attempt, CycleInput, CycleWatch};
use crate::fit::{Miss, Relaxation, Why};

use super::change::TaintName;
use super::node_capacity::open_taints;
use super::{Explainer, job_levels};

/// How often workloads of one shape are tested again while others are admitted in between.
const MOST_AGAIN: usize = 64;

/// Maximum number of taints that are tested one by one.
const MOST_TAINTS: usize = 16;

/// Changes that would have helped.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Trials {
    /// Tolerating these taints; all are necessary.
    pub taints: Option<Vec<TaintName>>,
    /// Not requiring one topology domain.
    pub no_topology: bool,
    /// The first flavors of its queue, other than its own, that would fit.
    pub flavors: Vec<FlavorId>,
    /// Not requiring node labels.
    pub no_labels: bool,
    pub no_quota: bool,
    /// Reservations decided some test of another workload of its shape: its own duration, or a later turn, may decide otherwise.
    pub by_reservations: bool,
    /// Tested at this workload's own turn, not at an earlier one of its shape.
    pub exact: bool,
}

/// Runs the tests at each failed start, once per shape while nothing changes.
#[derive(Debug, Default)]
pub(super) struct Trier {
    pub found: BTreeMap<WorkloadId, Arc<Trials>>,
    /// By shape: epoch and number of its tests, and their result for the workloads that follow.
    known: BTreeMap<usize, (usize, usize, Arc<Trials>)>,
}

impl Trier {
    pub(super) fn missed(&mut self, turn: &mut Attempt<'_, '_>) {
        let shape = turn.compiled().workloads[turn.work].shape;
        let known = self.known.get(&shape).cloned();
        let trials = match known {
            Some((epoch, _, trials)) if epoch == turn.epoch => trials,
            Some((_, times, trials)) if times >= MOST_AGAIN => Arc::new(Trials {
                exact: trials.is_barren(),
                ..(*trials).clone()
            }),
            // Nothing becomes free during a cycle: what did not help before does not help now.
            Some((_, times, trials)) => {
                let trials = Arc::new(again(turn, &trials));
                self.known
                    .insert(shape, (turn.epoch, times + 1, trials.clone()));
                trials
            }
            None => {
                let trials = Arc::new(first(turn));
                let reserved = |miss: &Miss| matches!(miss.why, Why::Reserved { .. });
                let others = Trials {
                    by_reservations: turn.by_reservations || turn.misses.iter().any(reserved),
                    ..(*trials).clone()
                };
                self.known.insert(shape, (turn.epoch, 1, Arc::new(others)));
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

impl Explainer<'_> {
    /// Tests changes to a workload that reservations keep from starting, at its own turn: on more nodes it may delay no reservation.
    pub(super) fn beside_reservations(&mut self, work: WorkloadId, known: &Trials) -> Trials {
        let compiled = self.state.compiled();
        if !self.affords(work, 1, None) {
            return Trials {
                exact: known.is_barren() || known.exact && !known.by_reservations,
                ..known.clone()
            };
        }
        let mut starts = |relaxation: &Relaxation| self.starts_relaxed(work, relaxation);
        let insists = !job_levels(compiled, work).is_empty();
        let labels = requires_labels(compiled, work);
        Trials {
            taints: tolerable(compiled, work, &mut starts),
            no_topology: insists && starts(&no_topology()),
            flavors: others(compiled, work)
                .into_iter()
                .filter(|flavor| starts(&only(*flavor)))
                .collect(),
            no_labels: labels && starts(&no_labels()),
            exact: true,
            ..known.clone()
        }
    }

    /// Whether a workload starts in a cycle that ignores some constraints at its turn. False if the budget does not cover it.
    fn starts_relaxed(&mut self, work: WorkloadId, relaxation: &Relaxation) -> bool {
        if !self.affords(work, 1, None) {
            return false;
        }
        self.turns -= self.turns_to(work, None);
        let mark = self.state.mark();
        let watch = CycleWatch {
            until: Some(work),
            relaxation: Some(relaxation),
            known: Some(CycleInput {
                lines: self.lines.clone(),
                durations: self.durations.clone(),
            }),
            ..CycleWatch::default()
        };
        cycle::watched(&mut self.state, watch);
        let starts = self.state.allocation(work).is_some();
        self.state.undo_to(mark);
        starts
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
    // Where a reservation blocks it, the same is tested for those alone that are explained: `Explainer::beside_reservations`.
    let room = any(&|why| matches!(why, Why::Topology { .. } | Why::Nodes { .. }));
    let taints = room || any(&|why| matches!(why, Why::FlavorTaint { .. }));
    let compiled = turn.compiled();
    let insists = !job_levels(compiled, turn.work).is_empty();
    let asks_labels = requires_labels(compiled, turn.work);
    Trials {
        taints: if taints {
            tolerable(compiled, turn.work, |relaxation| turn.starts(relaxation))
        } else {
            None
        },
        no_topology: room && insists && turn.starts(&no_topology()),
        flavors: others(compiled, turn.work)
            .into_iter()
            .filter(|flavor| turn.starts(&only(*flavor)))
            .collect(),
        no_labels: room && asks_labels && turn.starts(&no_labels()),
        no_quota: quota && turn.fits(&no_quota()),
        by_reservations: false,
        exact: true,
    }
}

/// Whether pods of a workload require node labels.
fn requires_labels(compiled: &CompiledFleet, work: WorkloadId) -> bool {
    compiled.workloads[work].sets.iter().any(|set| {
        let constraint = &compiled.constraints[set.constraint];
        !constraint.selector.is_empty() || !constraint.affinity.is_empty()
    })
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
        by_reservations: before.by_reservations,
        exact: true,
    }
}

/// The fewest taints whose toleration would have helped.
fn tolerable(
    compiled: &CompiledFleet,
    work: WorkloadId,
    mut starts: impl FnMut(&Relaxation) -> bool,
) -> Option<Vec<TaintName>> {
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
        for set in &compiled.workloads[work].sets {
            all.extend(open_taints(compiled, set.constraint, taints));
        }
    }
    all.small_sort();
    all.dedup();
    if all.is_empty() || !starts(&tolerating(&all)) {
        return None;
    }
    if all.len() == 1 {
        return Some(all);
    }
    for taint in all.iter().take(MOST_TAINTS) {
        let one = std::slice::from_ref(taint);
        if starts(&tolerating(one)) {
            return Some(one.to_vec());
        }
    }
    drop_needless(&mut all, |fewer| starts(&tolerating(fewer)));
    Some(all)
}

/// Flavors that a workload does not name and its queue has; if its queue has none, all flavors.
fn others(compiled: &CompiledFleet, work: WorkloadId) -> Vec<FlavorId> {
    let Some(choices) = &compiled.workloads[work].choices else {
        return Vec::new();
    };
    let Some(queue) = compiled.workloads[work].queue else {
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

/// Removes each item, from the first on, without which the rest still suffices.
pub(super) fn drop_needless<T>(items: &mut Vec<T>, mut suffices: impl FnMut(&[T]) -> bool) {
    let mut at = 0;
    while at < items.len() {
        let item = items.remove(at);
        if !suffices(items) {
            items.insert(at, item);
            at += 1;
        }
    }
}
