//! Kueue 0.19: a cycle takes one head of each queue, assigns flavors by quota, and preempts where quota is short. Nodes count only in
//! flavors with a topology; elsewhere a workload gets its quota, and its pods wait for nodes. Nothing is reserved.
//! Source: `pkg/scheduler` of Kueue, `scheduler.go`, `flavorassigner` and `preemption`.

mod nominate;

use std::sync::Arc;

use crate::compiled::{CompiledFleet, FlavorId, PairId, QueueId, WorkloadId};
use crate::cycle::{CycleRun, Nominated, Reservations, Started, Turn};
use crate::fit::{Miss, Relaxation, Why};
use crate::preempt::{Holders, NoPreemption, Spared, Victims};
use crate::snapshot::Reclaim;
use crate::state::State;

use super::{SchedulerRules, on_nodes};
use nominate::{Assignment, Evictions, Nomination, Nominator};

pub(super) const SCHEDULER: SchedulerRules = SchedulerRules {
    turn,
    nominate,
    start,
    victims,
    ignores_nodes,
    reserves: false,
    by_class: false,
};

fn ignores_nodes(compiled: &CompiledFleet, flavors: &[FlavorId]) -> bool {
    let mut flavors = flavors.iter();
    flavors.all(|flavor| compiled.snapshot.flavors[*flavor].topology.is_none())
}

/// The flavors that it assigns to a workload now; of a workload that fits none, nothing.
fn nominate(run: &mut CycleRun, state: &mut State<'_>, work: WorkloadId) -> Nominated {
    match state.gate_of_queue(work) {
        Ok(queue) => nominated(run, state, work, queue).1.nominated,
        Err(_) => Nominated::default(),
    }
}

/// The nomination of a workload in a cycle, and what else the nominator knows then.
fn nominated(
    run: &mut CycleRun,
    state: &mut State<'_>,
    work: WorkloadId,
    queue: QueueId,
) -> (Result<Nomination, Vec<Miss>>, Nominator<'static>) {
    let shape = state.compiled().workloads[work].shape;
    let may_preempt = !run.spared[shape] && state.may_preempt(queue);
    let fresh = &run.fresh;
    let spared = |work| fresh.contains(&work);
    let evictions = may_preempt.then(|| Evictions {
        holders: run.holders.get_or_insert_with(|| Holders::new(state)),
        spared: &spared,
    });
    let mut nominator = Nominator::new(work, queue, evictions.as_ref());
    let nomination = nominator.nominate(state);
    let known = Nominator {
        kept: nominator.kept,
        nominated: nominator.nominated,
        ..Nominator::new(work, queue, None)
    };
    (nomination, known)
}

/// Tries a workload: it gets its quota, with nodes where it fits some; or it preempts others.
fn turn(run: &mut CycleRun, state: &mut State<'_>, turn: &mut Turn<'_, '_>) -> bool {
    let work = turn.work;
    let Ok(queue) = state.gate_of_queue(work) else {
        return on_nodes::turn(run, state, turn);
    };
    if turn.relaxation.is_some() {
        return on_nodes::turn(run, state, turn);
    }
    let shape = state.compiled().workloads[work].shape;
    if let Some(misses) = run.failed[shape].clone() {
        run.waits(state, turn, misses);
        return false;
    }
    let (nomination, known) = nominated(run, state, work, queue);
    match nomination {
        Ok(Nomination::Placed(allocation)) => {
            state.admit(work, allocation.clone());
            run.reservations.keep(state, work, &allocation);
            run.admitted(turn, allocation);
            true
        }
        Ok(Nomination::Quota(assignment)) => {
            let own = assignment.allocation(state, work);
            match state.place_as(work, &own, &Relaxation::default()) {
                Ok(allocation) => {
                    let allocation = Arc::new(allocation);
                    state.admit(work, allocation.clone());
                    run.reservations.keep(state, work, &allocation);
                    run.admitted(turn, allocation);
                }
                Err(misses) => run.gets_quota(state, turn, Arc::new(own), misses),
            }
            true
        }
        Ok(Nomination::Evicts(victims)) => evicts(run, state, turn, queue, victims),
        Err(misses) => {
            if let Some(assignment) = known.kept
                && run.is_strict(turn)
            {
                let kept = kept_quota(state, &assignment);
                run.hold_quota(state, queue, &kept);
            }
            // Free quota only shrinks until a preemption.
            run.spared[shape] = true;
            let misses: Arc<[Miss]> = misses.into();
            run.failed[shape] = Some(misses.clone());
            run.waits(state, turn, misses);
            false
        }
    }
}

/// The quota that the head of a strict queue keeps, which has the next turn of its queue as well; none where the queue can always
/// reclaim its quota. Source: `quotaResourcesToReserve`.
fn kept_quota(state: &State<'_>, assignment: &Assignment) -> Vec<(PairId, i64)> {
    let queue = assignment.queue;
    if state.compiled().snapshot.queues[queue].preemption.reclaim == Reclaim::Any {
        return Vec::new();
    }
    assignment
        .usage
        .iter()
        .map(|&(pair, usage)| {
            let (quota, used) = (*state.tree().quota(queue, pair), state.gross(queue, pair));
            let kept = match (assignment.borrow > 0, quota.borrow) {
                (true, None) => usage,
                (true, Some(limit)) => usage.min(quota.nominal.saturating_add(limit) - used),
                (false, _) => usage.min(quota.nominal - used).max(0),
            };
            (pair, kept)
        })
        .collect()
}

/// Evicts the victims of a workload. It gets its quota at once unless others have to end that are being evicted already.
fn evicts(
    run: &mut CycleRun,
    state: &mut State<'_>,
    turn: &mut Turn<'_, '_>,
    queue: QueueId,
    mut victims: Victims,
) -> bool {
    let work = turn.work;
    for victim in &victims.list {
        run.reservations.evicted(state, victim.work);
        state.evict(victim.work);
    }
    if let Some(&first) = victims.ending.first() {
        // Its turn comes again before others take what it waits for.
        let free = |&(pair, amount): &(PairId, i64)| {
            (pair, amount.min(state.available(queue, pair).max(0)))
        };
        let kept: Vec<(PairId, i64)> = victims.allocation.usage.iter().map(free).collect();
        run.hold_quota(state, queue, &kept);
        let misses = Miss::plain(Why::Ending { work: first }).into();
        if !victims.list.is_empty() {
            run.preempted(work, victims);
        }
        run.waits(state, turn, misses);
        return false;
    }
    if victims.allocation.pods() == 0 && state.nodes() > 0 {
        let own = victims.allocation.clone();
        match run.nodes_for(state, work, &own) {
            Ok(allocation) => victims.allocation = Arc::new(allocation),
            Err(misses) => {
                run.gets_quota(state, turn, own, misses);
                run.preempted(work, victims);
                return true;
            }
        }
    }
    let allocation = victims.allocation.clone();
    state.admit(work, allocation.clone());
    run.reservations.keep(state, work, &allocation);
    run.admitted(turn, allocation);
    run.preempted(work, victims);
    true
}

/// Gives a workload its quota in a timeline, with nodes where it fits some; nothing is preempted.
fn start(
    state: &mut State<'_>,
    reservations: &mut Reservations,
    work: WorkloadId,
    ending: Option<&Holders>,
) -> Started {
    let waits = |misses: Vec<Miss>| Started::Waits {
        misses,
        kept: Vec::new(),
    };
    let queue = match state.gate_of_queue(work) {
        Ok(queue) => queue,
        Err(why) => return waits(Miss::plain(why)),
    };
    // Where those that are being evicted suffice, it waits for them.
    let evictions = ending.filter(|_| state.may_preempt(queue));
    let evictions = evictions.map(|holders| Evictions {
        holders,
        spared: &|_| false,
    });
    let mut nominator = Nominator::new(work, queue, evictions.as_ref());
    let (allocation, on_nodes) = match nominator.nominate(state) {
        Ok(Nomination::Placed(allocation)) => (allocation, true),
        Ok(Nomination::Quota(assignment)) => {
            let own = assignment.allocation(state, work);
            match state.place_as(work, &own, &Relaxation::default()) {
                Ok(allocation) => (Arc::new(allocation), true),
                Err(_) => (Arc::new(own), false),
            }
        }
        Ok(Nomination::Evicts(_)) => return waits(Vec::new()),
        Err(misses) => {
            let kept = nominator
                .kept
                .map(|assignment| kept_quota(state, &assignment));
            let kept = kept.unwrap_or_default();
            return Started::Waits { misses, kept };
        }
    };
    state.admit(work, allocation.clone());
    if !on_nodes {
        return Started::WithQuota;
    }
    reservations.keep(state, work, &allocation);
    Started::OnNodes(allocation)
}

fn victims(
    state: &mut State<'_>,
    work: WorkloadId,
    holders: &Holders,
    spared: Spared<'_>,
) -> Result<Victims, NoPreemption> {
    let queue = state.gate_of_queue(work).map_err(Miss::plain);
    let queue = queue.map_err(NoPreemption::Hopeless)?;
    let evictions = Evictions { holders, spared };
    let mut nominator = Nominator::new(work, queue, Some(&evictions));
    match nominator.nominate(state) {
        Ok(Nomination::Evicts(victims)) => Ok(victims),
        Ok(_) => Err(NoPreemption::Needless),
        Err(misses) => Err(match nominator.refusal {
            None | Some(NoPreemption::Hopeless(_)) => NoPreemption::Hopeless(misses),
            Some(other) => other,
        }),
    }
}
