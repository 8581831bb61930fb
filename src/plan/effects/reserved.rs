//! When jobs with quota reserved but without nodes start: after all queues, as the list of jobs shows it for admitted ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::effect::{Estimate, estimate};
use engine::compiled::WorkloadId;
use engine::explanations;
use engine::snapshot::{Placement, Snapshot, Status};
use engine::state::{Allocation, State};
use model::fleet::job::JobKey;

/// When each of them starts. `state` is the fleet after a cycle that has started some.
pub(crate) fn starts(
    state: &State<'_>,
    started: &[(WorkloadId, Arc<Allocation>)],
    quota_reserved: &[WorkloadId],
) -> BTreeMap<JobKey, Estimate> {
    if quota_reserved.is_empty() {
        return BTreeMap::new();
    }
    let compiled = state.compiled();
    let all = explanations::forecast(&explanations::past_queues(&after(
        state,
        started,
        quota_reserved,
    )));
    let keys = quota_reserved
        .iter()
        .map(|work| &compiled.workload(*work).key);
    keys.map(|key| (key.clone(), all.get(key).map_or([None; 3], estimate)))
        .collect()
}

/// The fleet after the cycle.
fn after(
    state: &State<'_>,
    started: &[(WorkloadId, Arc<Allocation>)],
    quota_reserved: &[WorkloadId],
) -> Snapshot {
    let compiled = state.compiled();
    let mut then = Snapshot::clone(&compiled.snapshot);
    let at = then.at;
    for (work, model) in then.workloads.iter_mut().enumerate() {
        let holds = state.allocation(work).is_some();
        if model.status == Status::Running && !holds {
            // It was preempted: others come first.
            model.status = Status::Waiting;
            model.admitted_at = None;
            for set in &mut model.sets {
                set.placements.clear();
                set.admitted.clear();
            }
        }
    }
    for (work, allocation) in started {
        let model = &mut then.workloads[*work];
        (model.status, model.admitted_at) = (Status::Running, Some(at));
        for (set, held) in model.sets.iter_mut().zip(&allocation.sets) {
            let place = |place: &engine::state::PodPlacement| Placement {
                node: compiled.snapshot.nodes[state.node_free(place.node).origin]
                    .name
                    .clone(),
                started: Some(at),
                ..Placement::default()
            };
            set.placements = held.placements.iter().map(place).collect();
        }
    }
    for (turn, work) in quota_reserved.iter().enumerate() {
        let model = &mut then.workloads[*work];
        if explanations::has_reserved_quota(model) {
            continue;
        }
        // Their pods are taken in the order of their admission.
        let admitted_at = at.plus(Duration::from_millis(turn as u64));
        (model.status, model.admitted_at) = (Status::Running, Some(admitted_at));
        let Some(allocation) = state.allocation(*work) else {
            continue;
        };
        for (set, held) in model.sets.iter_mut().zip(&allocation.sets) {
            let flavors = held.flavors.iter();
            let names = flavors.map(|flavor| compiled.snapshot.flavors[*flavor].name.clone());
            set.admitted = names.map(|name| (name.clone(), name)).collect();
        }
    }
    then
}
