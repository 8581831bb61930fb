//! Who starts at once may hang on who comes first: queues let in while the pods that leave still end, and pods without gang
//! scheduling take what becomes free one by one. A plan looks at that order of things too, and does not claim what only one has.

use std::collections::BTreeSet;

use engine::cycle::{self, Options};
use engine::plant::{NodeId, Plant, WorkId};
use engine::state::State;
use model::fleet::job::JobKey;

/// Who starts at once where queues have let in who comes next before anybody has a node: then all that are let in take nodes by
/// priority, and gangs hold some of what they need.
pub(super) fn start_late(plant: &Plant) -> BTreeSet<JobKey> {
    let mut state = State::new(plant);
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
    let grabbed = cycle::grab(&mut state, &first.let_in);
    let then = cycle::cycle(&mut state, options);
    let admitted = first.admitted.iter().chain(&then.admitted);
    let started = admitted.map(|admission| admission.work).chain(grabbed);
    let key = |work: WorkId| plant.workload(work).key.clone();
    started.map(key).collect()
}
