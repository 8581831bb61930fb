//! Who starts at once may hang on who comes first: queues admit while the pods that leave still end, and pods without gang
//! scheduling take what becomes free one by one. A plan looks at that order of things too, and does not claim what only one has.

use std::collections::BTreeSet;

use engine::compiled::{CompiledFleet, NodeId, WorkloadId};
use engine::cycle::{self, Options};
use engine::snapshot::Status;
use engine::state::State;
use model::fleet::job::JobKey;

/// Who starts at once where some are out of their queues while these admit others: a job of Kueue that is requeued is inactive, and
/// has no quota, from when it stops until it is active again.
pub(super) fn start_in_gap(compiled: &CompiledFleet, away: &[WorkloadId]) -> BTreeSet<JobKey> {
    let mut state = State::new(compiled);
    let options = Options {
        quota_alone: true,
        ..Options::default()
    };
    for work in away {
        state.set_status(*work, Status::Held);
    }
    let (seated, _) = cycle::place(&mut state, &[]);
    let first = cycle::cycle(&mut state, options);
    for work in away {
        state.set_status(*work, Status::Waiting);
    }
    let (more, _) = cycle::place(&mut state, &first.quota_reserved);
    let then = cycle::cycle(&mut state, options);
    let admitted = first.admitted.iter().chain(&then.admitted);
    let seated = seated.iter().chain(&more).map(|(work, _)| *work);
    let started = admitted.map(|admission| admission.work).chain(seated);
    started
        .map(|work| compiled.workload(work).key.clone())
        .collect()
}

/// Who starts at once where queues have admitted who comes next before anybody has a node: then all that are admitted take nodes by
/// priority, and gangs hold some of what they need.
pub(super) fn start_late(compiled: &CompiledFleet) -> BTreeSet<JobKey> {
    let mut state = State::new(compiled);
    let options = Options {
        quota_alone: true,
        ..Options::default()
    };
    let all = 0..state.nodes();
    let open: Vec<NodeId> = all.filter(|node| state.room(*node).open).collect();
    for node in &open {
        state.set_open(*node, false);
    }
    let first = cycle::cycle(&mut state, options);
    for node in &open {
        state.set_open(*node, true);
    }
    let grabbed = cycle::bind(&mut state, &first.quota_reserved);
    let then = cycle::cycle(&mut state, options);
    let admitted = first.admitted.iter().chain(&then.admitted);
    let started = admitted.map(|admission| admission.work).chain(grabbed);
    let key = |work: WorkloadId| compiled.workload(work).key.clone();
    started.map(key).collect()
}
