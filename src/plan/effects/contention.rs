//! Contention: which jobs start at once may depend on timing. Queues admit while evicted pods still end, and pods without gang
//! scheduling take free devices one by one. A plan simulates these orders too, and claims only what all of them have in common.

use std::collections::BTreeSet;

use engine::compiled::{CompiledFleet, NodeId, WorkloadId};
use engine::cycle;
use engine::snapshot::Status;
use engine::state::State;
use model::fleet::job::JobKey;

/// The jobs that start at once if queues admit others while the jobs in `away` are out of their queues. A requeued Kueue job is
/// inactive and has no quota from its eviction until it is activated again.
pub(crate) fn start_in_gap(compiled: &CompiledFleet, away: &[WorkloadId]) -> BTreeSet<JobKey> {
    let mut state = State::new(compiled);
    for work in away {
        state.set_status(*work, Status::Held);
    }
    let first = cycle::cycle(&mut state);
    for work in away {
        state.set_status(*work, Status::Waiting);
    }
    let then = cycle::cycle(&mut state);
    let admitted = first.admitted.iter().chain(&then.admitted);
    let placed = first.placed.iter().chain(&then.placed);
    let placed = placed.map(|(work, _)| *work);
    let started = admitted.map(|admission| admission.work).chain(placed);
    started
        .map(|work| compiled.workload(work).key.clone())
        .collect()
}

/// The jobs that start at once if queues admit the next jobs before any pod is scheduled. Then all admitted jobs bind by
/// priority, and a gang may bind only some of its pods.
pub(crate) fn start_late(compiled: &CompiledFleet) -> BTreeSet<JobKey> {
    let mut state = State::new(compiled);
    let all = 0..state.nodes();
    let open: Vec<NodeId> = all.filter(|node| state.node_free(*node).open).collect();
    for node in &open {
        state.set_open(*node, false);
    }
    let first = cycle::cycle(&mut state);
    for node in &open {
        state.set_open(*node, true);
    }
    let bound = cycle::bind(&mut state);
    let then = cycle::cycle(&mut state);
    let admitted = first.admitted.iter().chain(&then.admitted);
    let started = admitted.map(|admission| admission.work).chain(bound);
    let key = |work: WorkloadId| compiled.workload(work).key.clone();
    started.map(key).collect()
}
