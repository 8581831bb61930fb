//! Preemption: which workloads to evict so that another can start, as the cluster's own scheduler would choose or with the least
//! lost work.
//!
//! The first mode follows Kueue: candidates of other queues in the cohort that exceed their own quota, then those of the
//! workload's queue; lowest priority first, then the most recently admitted; one after the other until the workload fits; then
//! each victim is removed from the set, from last to first, if the workload still fits. Under fair sharing the queue
//! with the greatest share is preempted first, as long as that evens out shares. The second mode searches for the set with the
//! fewest lost device-milliseconds since the last checkpoint, then for the smallest: exhaustively if there are few candidates.
//!
//! Workloads that are not preemptible, terminating, or protected by priority or policy are never preempted; gangs only as a
//! whole.

mod bound;
mod candidate;
mod evicted;
mod exact;
mod fair;
mod holders;
mod least;
mod search;
mod search_context;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::compiled::{QueueId, WorkloadId};
use super::fit::{Miss, Relaxation};
use super::snapshot::{QueueStop, Status};
use super::state::{Allocation, State};

pub use evicted::{evicted, evicted_for};
pub(super) use holders::Holders;

/// How victims are selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PreemptMode {
    /// As the cluster's own scheduler does, nodes considered.
    AsCluster,
    /// As Kueue does if no flavor has a topology: until the quota suffices. The resulting allocation has no nodes.
    ByQuota,
    /// With the least lost device-time; among equals the fewest victims.
    Least,
    /// The same for requeueing by an operator: regardless of queue policies, any workload after the preemptor in order (lower
    /// priority, or equal and newer) that can be stopped.
    ByHand,
}

impl PreemptMode {
    /// Relaxation of node checks.
    fn relaxation(self) -> Relaxation {
        Relaxation {
            no_nodes: self == Self::ByQuota,
            ..Relaxation::default()
        }
    }

    /// Whether the set with the least lost work is searched.
    fn is_least(self) -> bool {
        matches!(self, Self::Least | Self::ByHand)
    }
}

/// Why a workload may be preempted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PreemptionReason {
    /// It is in the same queue, of lower priority or newer. Kueue: `InClusterQueue`.
    InQueue,
    /// Its queue exceeds its own quota, which another queue reclaims. Kueue: `InCohortReclamation`.
    Reclaim,
    /// The same, for a preemptor that itself borrows. Kueue: `InCohortReclaimWhileBorrowing`.
    ReclaimWhileBorrowing,
    /// Its queue has the greater share. Kueue: `InCohortFairSharing`.
    FairSharing,
    /// Its queue is being drained. Kueue: `ClusterQueueStopped`.
    Drained,
    /// An operator requeues it: it comes after the preemptor in order.
    ByHand,
}

impl PreemptionReason {
    /// Name in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InQueue => "in-queue",
            Self::Reclaim => "reclaim",
            Self::ReclaimWhileBorrowing => "reclaim-while-borrowing",
            Self::FairSharing => "fair-sharing",
            Self::Drained => "drained",
            Self::ByHand => "by-hand",
        }
    }
}

/// A workload to evict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim {
    pub work: WorkloadId,
    /// Why it may be preempted.
    pub reason: PreemptionReason,
    /// Device-milliseconds of work since its last checkpoint.
    pub lost_ms: i64,
}

/// Victims, and the preemptor's resulting allocation.
#[derive(Clone, PartialEq, Debug)]
pub struct Victims {
    /// In order of selection; in this order each may be preempted.
    pub list: Vec<Victim>,
    /// Allocation of the preemptor after the evictions.
    pub allocation: Arc<Allocation>,
    /// Device-milliseconds of work lost in all.
    pub lost_ms: i64,
    /// Exhaustive search found no eligible set with less lost work, or equal with fewer victims. Only
    /// for [`PreemptMode::Least`] and [`PreemptMode::ByHand`].
    pub proven: bool,
}

/// Why there is no preemption for a workload.
#[derive(Clone, PartialEq, Debug)]
pub enum NoPreemption {
    /// It starts without preemption, or already has an allocation.
    Needless,
    /// No eviction would let it start; every failed attempt.
    Hopeless(Vec<Miss>),
    /// Queue rules and priorities protect all running workloads.
    Protected,
    /// The eligible victims do not release enough.
    TooFew,
}

impl State<'_> {
    /// Device-milliseconds of work lost if a workload is evicted now: its devices since its last checkpoint, or since the start
    /// of its allocation. If that is unknown, since its creation.
    pub fn lost_ms(&self, work: WorkloadId) -> i64 {
        let Some(allocation) = self.allocation(work) else {
            return 0;
        };
        let model = self.workload(work);
        let since = self.since(work).unwrap_or(model.created);
        let since = model
            .checkpoint
            .filter(|at| *at <= self.now())
            .map_or(since, |at| at.max(since));
        let milli = if allocation.pods() > 0 {
            allocation.device_milli()
        } else {
            let sets = allocation.sets.iter().zip(&model.sets);
            sets.map(|(held, set)| i64::from(held.count) * set.requests.device_milli())
                .sum()
        };
        let lasted = i128::from(self.now().millis().saturating_sub(since.millis()).max(0));
        i64::try_from(lasted * i128::from(milli) / 1_000).unwrap_or(i64::MAX / 1_024)
    }

    /// The victims with which a workload can start. The state is unchanged.
    ///
    /// # Errors
    /// Why there is no preemption.
    pub fn victims(
        &mut self,
        work: WorkloadId,
        mode: PreemptMode,
    ) -> Result<Victims, NoPreemption> {
        self.victims_but(work, mode, &|_| false)
    }

    /// The same, with some workloads excluded.
    ///
    /// # Errors
    /// As [`State::victims`].
    pub fn victims_but(
        &mut self,
        work: WorkloadId,
        mode: PreemptMode,
        spared: &dyn Fn(WorkloadId) -> bool,
    ) -> Result<Victims, NoPreemption> {
        let holders = Holders::new(self);
        self.victims_except(work, (mode, false), &holders, spared)
    }

    /// The same; with `whole` for all of its pods and no fewer. Workloads of `holders` that have been evicted are ignored.
    pub(super) fn victims_except(
        &mut self,
        work: WorkloadId,
        (mode, whole): (PreemptMode, bool),
        holders: &Holders,
        spared: &dyn Fn(WorkloadId) -> bool,
    ) -> Result<Victims, NoPreemption> {
        let standing = self.workload_state(work);
        if standing.allocation.is_some()
            || standing.status != Status::Waiting
            || self.workload(work).blocked.is_some()
        {
            return Err(NoPreemption::Needless);
        }
        // Queues preempt by their own rules, not by the pods' policy; an operator evicts manually.
        let model = self.workload(work);
        if model.never_preempts && model.queue.is_none() && mode != PreemptMode::ByHand {
            return Err(NoPreemption::Protected);
        }
        let relaxation = Relaxation {
            whole,
            ..mode.relaxation()
        };
        let found = self.find(work, &relaxation);
        let queue = match (&found, self.gate_of_queue(work)) {
            (_, Ok(queue)) => queue,
            (Err(misses), Err(_)) => return Err(NoPreemption::Hopeless(misses.clone())),
            (Ok(_), Err(_)) => return Err(NoPreemption::Needless),
        };
        let flavors = search_context::assignments(self, work, queue);
        let (flavors, misses) = match found {
            Ok(allocation) => {
                // Preemption is considered only in a flavor before the one in which it fits, and only if the queue allows it.
                let fits = |own: &Vec<Vec<usize>>| {
                    let held = allocation.sets.iter().map(|set| &set.flavors);
                    held.eq(own.iter())
                };
                // The list is cut: missing assignments come after the listed ones.
                let first = flavors.iter().position(fits).unwrap_or(flavors.len());
                if !self.preempt_stops(queue) || first == 0 || mode == PreemptMode::ByHand {
                    return Err(NoPreemption::Needless);
                }
                (flavors[..first].to_vec(), None)
            }
            Err(misses) => (flavors, Some(misses)),
        };
        let wanted = search::SearchOptions {
            mode,
            whole,
            stops: misses.is_none(),
            holders,
            spared,
        };
        let result = search::run(self, work, queue, &flavors, &wanted);
        match (result, misses) {
            (Ok(victims), _) => Ok(victims),
            (Err(_), None) => Err(NoPreemption::Needless),
            (Err(NoPreemption::Hopeless(_)), Some(misses)) => Err(NoPreemption::Hopeless(misses)),
            (Err(refusal), _) => Err(refusal),
        }
    }

    /// Whether a queue's workloads may preempt at all.
    pub(super) fn may_preempt(&self, queue: QueueId) -> bool {
        use super::snapshot::{Reclaim, Within};
        let known = self.compiled().snapshot.queues.get(queue);
        known.map_or(self.tree().branches[queue].nameless, |queue| {
            let rules = queue.preemption;
            rules.within != Within::Never || rules.reclaim != Reclaim::Never
        })
    }

    /// Evicts the victims and starts the workload.
    pub fn preempt(&mut self, work: WorkloadId, victims: &Victims) {
        for victim in &victims.list {
            self.evict(victim.work);
        }
        self.admit(work, victims.allocation.clone());
    }

    /// Workloads to evict because their queue, or one above it, is being drained; in order.
    pub fn drained(&self) -> Vec<Victim> {
        let queues = &self.compiled().snapshot.queues;
        if queues.iter().all(|queue| queue.stop != QueueStop::Drain) {
            return Vec::new();
        }
        let drains = |queue: QueueId| {
            let mut path = self.tree().path(queue);
            path.any(|up| queues.get(up).is_some_and(|it| it.stop == QueueStop::Drain))
        };
        let goes = |work: &WorkloadId| {
            let standing = self.workload_state(*work);
            let queue = standing
                .allocation
                .as_ref()
                .and_then(|allocation| allocation.queue);
            standing.status == Status::Running && queue.is_some_and(drains)
        };
        let victim = |work| Victim {
            work,
            reason: PreemptionReason::Drained,
            lost_ms: self.lost_ms(work),
        };
        self.holders().filter(goes).map(victim).collect()
    }

    /// Whether a flavor in which it fits by preemption is taken before later flavors are tried.
    pub(super) fn preempt_stops(&self, queue: QueueId) -> bool {
        let known = self.compiled().snapshot.queues.get(queue);
        known.is_some_and(|queue| queue.fungibility.preempt_stops)
    }
}
