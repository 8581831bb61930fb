//! Schedulers that look at quotas and nodes together.

use std::sync::Arc;

use crate::compiled::WorkloadId;
use crate::cycle::{CycleRun, Nominated, Reservations, Started, Turn};
use crate::fit::{Miss, Relaxation, Why};
use crate::preempt::{Holders, NoPreemption, PreemptMode, Spared, Victims};
use crate::state::State;

/// Tries to start a workload; it preempts others if it does not fit and its queue may.
pub(super) fn turn(run: &mut CycleRun, state: &mut State<'_>, turn: &mut Turn<'_, '_>) -> bool {
    let compiled = state.compiled();
    let (work, shape) = (turn.work, compiled.workloads[turn.work].shape);
    // A relaxed trial must not preempt other workloads.
    let pushes = turn.relaxation.is_none();
    if let Some(misses) = run.failed[shape].clone().filter(|_| pushes) {
        run.waits(state, turn, misses);
        return false;
    }
    let plain = Relaxation::default();
    let relaxation = turn.relaxation.unwrap_or(&plain);
    match run.reservations.try_start(state, work, relaxation) {
        Ok(allocation) => {
            run.admitted(turn, allocation);
            true
        }
        Err(misses) => {
            let misses: Arc<[Miss]> = misses.into();
            let promised = |miss: &Miss| matches!(miss.why, Why::Reserved { .. });
            if pushes && misses.iter().any(|miss| miss.why.may_pass()) && preempts(run, state, turn)
            {
                return true;
            }
            if !misses.iter().any(promised) {
                run.failed[shape] = Some(misses.clone());
            }
            run.waits(state, turn, misses);
            false
        }
    }
}

/// The first flavors that quota allows.
pub(super) fn nominate(_run: &mut CycleRun, state: &mut State<'_>, work: WorkloadId) -> Nominated {
    let usage = state.nominated(work, &Relaxation::default());
    Nominated::of_usage(state, work, usage)
}

/// Starts a workload by preempting others, if it may and no reservation is delayed.
fn preempts(run: &mut CycleRun, state: &mut State<'_>, turn: &Turn<'_, '_>) -> bool {
    let work = turn.work;
    let shape = state.compiled().workloads[work].shape;
    let Some(victims) = run.victims(state, work) else {
        return false;
    };
    let gone: Vec<WorkloadId> = victims.list.iter().map(|it| it.work).collect();
    if !victims.ending.is_empty()
        || !run
            .reservations
            .replace(state, &gone, work, &victims.allocation)
    {
        run.spared[shape] = true;
        return false;
    }
    state.preempt(work, &victims);
    run.admitted(turn, victims.allocation.clone());
    run.preempted(work, victims);
    true
}

/// Starts a workload in a timeline, without preemption.
pub(super) fn start(
    state: &mut State<'_>,
    reservations: &mut Reservations,
    work: WorkloadId,
    _ending: Option<&Holders>,
) -> Started {
    match reservations.try_start(state, work, &Relaxation::default()) {
        Ok(allocation) => Started::OnNodes(allocation),
        Err(misses) => Started::Waits {
            misses,
            kept: Vec::new(),
        },
    }
}

pub(super) fn victims(
    state: &mut State<'_>,
    work: WorkloadId,
    holders: &Holders,
    spared: Spared<'_>,
) -> Result<Victims, NoPreemption> {
    state.victims_on_nodes(work, PreemptMode::AsCluster, holders, spared)
}
