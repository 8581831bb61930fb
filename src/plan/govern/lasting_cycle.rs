//! The engine's cycle as `govern` uses it: admissions last, and the order alone decides which job is preempted.

use std::time::Duration;

use engine::compiled::WorkloadId;
use engine::cycle::{self, Cycle};
use engine::snapshot::Status;
use engine::state::State;

/// A job is not preempted this soon after its admission: the next snapshot may differ from what was planned.
const SPARED: Duration = Duration::from_secs(30);

/// How often a cycle is repeated without the jobs that it admits in vain.
const MOST_TRIES: usize = 4;

/// A cycle that admits no job that the next cycle would preempt. A cycle does not preempt what it has just admitted, so a
/// borrowing job could start, only to be preempted by a later job of the same cycle that has nominal quota.
pub(super) fn lasting_cycle(state: &State<'_>) -> Cycle {
    let mut base = state.clone();
    let mut tries = 1;
    loop {
        let mut then = base.clone();
        let mut cycle = cycle::with_pending_pods(&mut then);
        if cycle.admitted.is_empty() {
            return cycle;
        }
        then.commit();
        let next = cycle::with_pending_pods(&mut then);
        let victims = next.preempted.iter().flat_map(|it| &it.victims.list);
        let victims: Vec<WorkloadId> = victims.map(|victim| victim.work).collect();
        let in_vain = |work: &WorkloadId| victims.contains(work);
        let vain: Vec<WorkloadId> = (cycle.admitted.iter())
            .map(|admission| admission.work)
            .filter(in_vain)
            .collect();
        if vain.is_empty() {
            return cycle;
        }
        if tries == MOST_TRIES {
            cycle
                .admitted
                .retain(|admission| !vain.contains(&admission.work));
            cycle
                .preempted
                .retain(|preempted| !vain.contains(&preempted.by));
            return cycle;
        }
        for work in vain {
            base.set_status(work, Status::Held);
        }
        base.commit();
        tries += 1;
    }
}

/// Drops the preemptions that are not carried out yet, with the admissions that depend on them: preemptions for a job that must
/// still enter its queue (`enters`), and preemptions of a victim that was admitted less than [`SPARED`] ago. No other job is
/// preempted in place of such a victim; it is preempted itself once [`SPARED`] is over. Returns the jobs that wait for that.
pub(super) fn postpone_preemptions(
    cycle: &mut Cycle,
    state: &State<'_>,
    enters: impl Fn(WorkloadId) -> bool,
) -> Vec<WorkloadId> {
    let now = state.now();
    let is_spared = |work: WorkloadId| {
        let admitted = state.workload(work).admitted_at;
        admitted.is_some_and(|at| now.since(at) < SPARED.into())
    };
    let mut postponed: Vec<WorkloadId> = Vec::new();
    cycle.preempted.retain(|preempted| {
        let mut victims = preempted.victims.list.iter();
        let waits = enters(preempted.by) || victims.any(|victim| is_spared(victim.work));
        if waits {
            postponed.push(preempted.by);
        }
        !waits
    });
    cycle
        .admitted
        .retain(|admission| !postponed.contains(&admission.work));
    postponed
}
