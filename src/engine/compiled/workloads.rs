//! Compiled workloads: equal requests, constraints and shapes are shared.

use std::collections::BTreeMap;

use crate::snapshot::{
    FlavorChoice, PodSet, Requirement, ResourceRequests, Route, Snapshot, SnapshotToleration,
    Workload,
};
use model::base::Name;

use super::topology_tree::{self, TopologyTree};
use super::tree::QuotaTree;
use super::{FlavorId, KeyIndex, QueueId, ResourceId};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodRequest {
    /// The request in the snapshot.
    pub ask: ResourceRequests,
    /// Devices: resource, count, thousandths of each.
    pub devices: Vec<(ResourceId, u32, i32)>,
}

/// Placement constraints, without topology and flavors.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Constraint {
    pub selector: BTreeMap<Name, Name>,
    /// Node affinity: one of these lists must match.
    pub affinity: Vec<Vec<Requirement>>,
    pub tolerations: Vec<SnapshotToleration>,
}

/// A set of identical pods.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CompiledPodSet {
    /// Index of its requests in [`super::CompiledFleet::requests`].
    pub want: usize,
    /// Index of its constraints in [`super::CompiledFleet::constraints`].
    pub constraint: usize,
    /// Requested number of pods.
    pub count: u32,
    /// Minimum number of pods to start.
    pub min: u32,
    /// Ladder, level, and whether it is required.
    pub topology_level: Option<(usize, usize, bool)>,
    /// Quota usage of each pod, where it differs from the requests.
    pub quota: BTreeMap<Name, i64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompiledWorkload {
    /// Its queue; none if it names a missing one.
    pub queue: Option<QueueId>,
    pub sets: Vec<CompiledPodSet>,
    /// Allowed flavors, best first, each with its speed in thousandths; none: those of its queue.
    pub choices: Option<Vec<(FlavorId, i64)>>,
    /// Shape: workloads of one shape have the same result at any one time.
    pub shape: usize,
}

/// Common properties of workloads of one shape: queue, pods, flavors.
type Shape = (
    Option<QueueId>,
    Vec<CompiledPodSet>,
    Option<Vec<(FlavorId, i64)>>,
);

pub(super) struct Workloads {
    pub(super) wants: Vec<PodRequest>,
    pub(super) constraints: Vec<Constraint>,
    pub(super) works: Vec<CompiledWorkload>,
    pub(super) shapes: usize,
}

pub(super) fn compile(
    snapshot: &Snapshot,
    resources: &[Name],
    ladders: &mut Vec<TopologyTree>,
    tree: &QuotaTree,
) -> Workloads {
    let mut want_index: KeyIndex<&ResourceRequests> = KeyIndex::new();
    let mut constraint_index: KeyIndex<Constraint> = KeyIndex::new();
    let mut shape_index: KeyIndex<Shape> = KeyIndex::new();
    let (mut wants, mut constraints, mut works) = (Vec::new(), Vec::new(), Vec::new());
    for workload in &snapshot.workloads {
        let name = workload.queue.as_deref().unwrap_or_default();
        let queue = tree.queue(name);
        let sets: Vec<CompiledPodSet> = workload
            .sets
            .iter()
            .map(|set| {
                let (want, new) = want_index.of(&set.requests);
                if new {
                    wants.push(compiled(&set.requests, resources));
                }
                let constraint = Constraint {
                    selector: set.selector.clone(),
                    affinity: set.affinity.clone(),
                    tolerations: set.tolerations.clone(),
                };
                let (at, new) = constraint_index.of(constraint.clone());
                if new {
                    constraints.push(constraint);
                }
                CompiledPodSet {
                    want,
                    constraint: at,
                    count: set.count,
                    min: set.min.min(set.count),
                    topology_level: topology_request(set, snapshot, ladders),
                    quota: set.quota.clone(),
                }
            })
            .collect();
        let choices = choices(workload, snapshot);
        let (shape, _) = shape_index.of((queue, sets.clone(), choices.clone()));
        works.push(CompiledWorkload {
            queue,
            sets,
            choices,
            shape,
        });
    }
    Workloads {
        wants,
        constraints,
        works,
        shapes: shape_index.at.len(),
    }
}

fn compiled(ask: &ResourceRequests, resources: &[Name]) -> PodRequest {
    let devices = ask.devices.iter().map(|device| {
        let resource = resources.binary_search(&device.resource);
        (
            resource.unwrap_or(usize::MAX),
            device.count,
            device.milli.clamp(1, crate::snapshot::WHOLE),
        )
    });
    PodRequest {
        devices: devices.collect(),
        ask: ask.clone(),
    }
}

/// Ladder and level of a topology request. A level that no topology has is treated as a node label key.
fn topology_request(
    set: &PodSet,
    snapshot: &Snapshot,
    ladders: &mut Vec<TopologyTree>,
) -> Option<(usize, usize, bool)> {
    let topology = set
        .topology
        .as_ref()
        .filter(|asked| !asked.is_unconstrained())?;
    let find = |ladders: &[TopologyTree]| {
        let mut all = ladders.iter().enumerate();
        all.find_map(|(at, ladder)| Some((at, ladder.level(&topology.level)?)))
    };
    let (ladder, level) = find(ladders).unwrap_or_else(|| {
        let keys = std::slice::from_ref(&topology.level);
        let mut ladder = topology_tree::of_labels(topology.level.clone(), keys, &snapshot.nodes);
        if ladder.levels.is_empty() {
            // No node has it: a level without domains, which fits nothing.
            ladder.levels.push(topology.level.clone());
        }
        ladders.push(ladder);
        (ladders.len() - 1, 0)
    });
    Some((ladder, level, topology.required))
}

/// Flavors that a workload names, or else those of the first matching route.
fn choices(workload: &Workload, snapshot: &Snapshot) -> Option<Vec<(FlavorId, i64)>> {
    let route = || {
        let matches = |route: &&Route| {
            let labels = |(key, value): (&Name, &Name)| workload.labels.get(key) == Some(value);
            (route.queue.is_none() || route.queue == workload.queue)
                && route.labels.iter().all(labels)
        };
        snapshot.routes.iter().find(matches)
    };
    let (list, most): (&[FlavorChoice], Option<i64>) = if workload.flavors.is_empty() {
        let route = route()?;
        (&route.flavors, route.most_price)
    } else {
        (&workload.flavors, None)
    };
    let flavor = |choice: &FlavorChoice| {
        let at = snapshot
            .flavors
            .binary_search_by(|flavor| flavor.name.cmp(&choice.flavor))
            .ok()?;
        let price = snapshot.flavors[at].price;
        let dear = most.is_some_and(|most| price.is_some_and(|price| price > most));
        (!dear).then_some((at, choice.speed_milli.max(1)))
    };
    Some(list.iter().filter_map(flavor).collect())
}
