//! The jobs that are evicted so that a waiting job starts now: one answer for the plan and for the explanation before it.

use std::collections::BTreeSet;

use engine::compiled::WorkloadId;
use engine::cycle;
use engine::fit::Relaxation;
use engine::preempt::{self, PreemptMode, Victims};
use engine::snapshot::Snapshot;
use engine::state::State;

use model::base::SmallSort;

use crate::planner_context;
use crate::priority_raise::above_all;

/// The sets of jobs that may be evicted for a job that is first in its queue.
pub(crate) struct Sets {
    /// As its cluster would choose.
    pub(crate) cluster: Result<Victims, preempt::NoPreemption>,
    /// With the least work lost.
    pub(crate) least: Result<Victims, preempt::NoPreemption>,
    /// Jobs behind it in the order, where only nodes are short.
    pub(crate) by_hand: Option<Victims>,
}

impl Sets {
    /// `None` where the job fits once it is first.
    pub(crate) fn of(state: &mut State<'_>, work: WorkloadId) -> Option<Self> {
        let snapshot = &state.compiled().snapshot;
        let own = snapshot.workloads[work].priority;
        // First in its queue, it may fit, or its own scheduler may preempt for it.
        state.set_priority(work, above_all(snapshot));
        if state.find(work, &Relaxation::default()).is_ok() {
            return None;
        }
        let cluster = state.victims(work, PreemptMode::AsCluster);
        let least = state.victims(work, PreemptMode::Least);
        let by_hand = match (&cluster, &least) {
            (Err(_), Err(_)) => for_nodes(state, work, own),
            _ => None,
        };
        Some(Self {
            cluster,
            least,
            by_hand,
        })
    }

    /// The set that a plan takes: the one with the least lost work whose jobs can be stopped.
    pub(crate) fn picked(&self, snapshot: &Snapshot) -> Option<&Victims> {
        self.all(snapshot).into_iter().next()
    }

    /// Every set whose jobs can be stopped: the least lost work first, the one that no queue would preempt last.
    pub(crate) fn all(&self, snapshot: &Snapshot) -> Vec<&Victims> {
        let can_stop = |victims: &&Victims| {
            let mut all = victims.list.iter();
            all.all(|victim| planner_context::can_stop(snapshot, victim.work))
        };
        let chosen = self.least.iter().chain(&self.cluster);
        let mut chosen: Vec<&Victims> = chosen.filter(can_stop).collect();
        chosen.small_sort_by_key(|victims| victims.lost_ms);
        chosen.extend(self.by_hand.iter().filter(can_stop));
        chosen
    }

    /// Any set, whether its jobs can be stopped or not.
    pub(crate) fn any(&self) -> Result<&Victims, &preempt::NoPreemption> {
        let others = self.least.as_ref().ok().or(self.by_hand.as_ref());
        self.cluster
            .as_ref()
            .or_else(|refusal| others.ok_or(refusal))
    }
}

/// The jobs that the plan to admit a waiting job evicts: the first set with which it starts, by `helps`. `None` where no eviction
/// is needed or none is possible. The state is restored afterwards.
pub fn leavers(
    state: &mut State<'_>,
    work: WorkloadId,
    helps: &dyn Fn(&Victims) -> bool,
) -> Option<Victims> {
    let snapshot = &state.compiled().snapshot;
    let mark = state.mark();
    let sets = Sets::of(state, work);
    state.undo_to(mark);
    let sets = sets?;
    let mut all = sets.all(snapshot).into_iter();
    all.find(|victims| helps(victims)).cloned()
}

/// As [`leavers`], for a job with quota reserved, in a state of [`explanations::past_queues`].
pub fn leavers_of_nodes(
    state: &mut State<'_>,
    work: WorkloadId,
    helps: &dyn Fn(&Victims) -> bool,
) -> Option<Victims> {
    let mark = state.mark();
    let found = seat_victims(state, work);
    state.undo_to(mark);
    found.ok().filter(helps)
}

/// The jobs that are evicted from their nodes for a job with quota reserved.
pub(crate) fn seat_victims(
    state: &mut State<'_>,
    work: WorkloadId,
) -> Result<Victims, preempt::NoPreemption> {
    // Other admitted jobs that fit take free devices first.
    let cycle = cycle::without_evictions(state);
    let fresh: BTreeSet<WorkloadId> = cycle.admitted.iter().map(|one| one.work).collect();
    state.victims_but(work, PreemptMode::ByHand, &|other| fresh.contains(&other))
}

/// Where quota suffices and only nodes are short: jobs behind it that may be requeued so that it fits.
fn for_nodes(state: &mut State<'_>, work: WorkloadId, priority: i32) -> Option<Victims> {
    let blind = Relaxation {
        no_nodes: true,
        ..Relaxation::default()
    };
    state.find(work, &blind).ok()?;
    state.set_priority(work, priority);
    state.victims(work, PreemptMode::ByHand).ok()
}
