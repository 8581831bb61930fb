//! Who leaves so that a waiting job starts now: one answer for the plan that starts it and for what is said of it before.

use std::collections::BTreeSet;

use engine::compiled::WorkloadId;
use engine::cycle;
use engine::fit::Relaxation;
use engine::preempt::{self, Mode, Victims};
use engine::snapshot::Snapshot;
use engine::state::State;

use model::base::SmallSort;

use super::planner_context;
use super::raise::above_all;

/// The sets of jobs that may leave for one that is put first.
pub(super) struct Sets {
    /// As its cluster would choose.
    pub(super) cluster: Result<Victims, preempt::Refusal>,
    /// With the least work lost.
    pub(super) least: Result<Victims, preempt::Refusal>,
    /// Who stands behind it, where nodes alone are short.
    pub(super) by_hand: Option<Victims>,
}

impl Sets {
    /// `None` where it finds room once it is first.
    pub(super) fn of(state: &mut State<'_>, work: WorkloadId) -> Option<Self> {
        let snapshot = &state.compiled().snapshot;
        let own = snapshot.workloads[work].priority;
        // First in its queue, it may be that it fits, or that its own scheduler makes room for it.
        state.set_priority(work, above_all(snapshot));
        if state.find(work, &Relaxation::default()).is_ok() {
            return None;
        }
        let cluster = state.victims(work, Mode::AsCluster);
        let least = state.victims(work, Mode::Least);
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

    /// The set that a plan takes: of those that can be stopped the one that loses least.
    pub(super) fn picked(&self, snapshot: &Snapshot) -> Option<&Victims> {
        self.all(snapshot).into_iter().next()
    }

    /// Every set whose jobs can be stopped: the one that loses least first, the one that no queue would preempt last.
    pub(super) fn all(&self, snapshot: &Snapshot) -> Vec<&Victims> {
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
    pub(super) fn any(&self) -> Result<&Victims, &preempt::Refusal> {
        let others = self.least.as_ref().ok().or(self.by_hand.as_ref());
        self.cluster
            .as_ref()
            .or_else(|refusal| others.ok_or(refusal))
    }
}

/// Who leaves so that a waiting job starts now, as the plan that admits it has it; `None` where nobody need leave, or nobody
/// may. The state stays as it is.
pub fn leavers(state: &mut State<'_>, work: WorkloadId) -> Option<Victims> {
    let snapshot = &state.compiled().snapshot;
    let mark = state.mark();
    let sets = Sets::of(state, work);
    state.undo_to(mark);
    sets?.picked(snapshot).cloned()
}

/// The same for one that has its quota, in a state of [`explanations::past_queues`].
pub fn leavers_of_nodes(state: &mut State<'_>, work: WorkloadId) -> Option<Victims> {
    let mark = state.mark();
    let found = seat_victims(state, work);
    state.undo_to(mark);
    found.ok()
}

/// Who leaves its nodes for one that has its quota.
pub(super) fn seat_victims(
    state: &mut State<'_>,
    work: WorkloadId,
) -> Result<Victims, preempt::Refusal> {
    // Those that are admitted and find room take it first.
    let options = cycle::Options {
        spare_all: true,
        ..cycle::Options::default()
    };
    let cycle = cycle::cycle(state, options);
    let fresh: BTreeSet<WorkloadId> = cycle.admitted.iter().map(|one| one.work).collect();
    state.victims_but(work, Mode::ByHand, &|other| fresh.contains(&other))
}

/// Where the quota suffices and nodes alone are short: who stands behind it and may be requeued, so that it finds room.
fn for_nodes(state: &mut State<'_>, work: WorkloadId, priority: i32) -> Option<Victims> {
    let blind = Relaxation {
        no_nodes: true,
        ..Relaxation::default()
    };
    state.find(work, &blind).ok()?;
    state.set_priority(work, priority);
    state.victims(work, Mode::ByHand).ok()
}
