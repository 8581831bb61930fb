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
pub(super) use search::{for_nodes, for_quota};

/// How victims are selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PreemptMode {
    /// As the cluster's own scheduler does ([`crate::schedulers`]). Where it ignores nodes, the resulting allocation has none.
    AsCluster,
    /// With the least lost device-time; among equals the fewest victims.
    Least,
    /// The same for requeueing by an operator: regardless of queue policies, any workload after the preemptor in order (lower
    /// priority, or equal and newer) that can be stopped.
    ByHand,
}

impl PreemptMode {
    /// Whether the set with the least lost work is searched.
    fn is_least(self) -> bool {
        matches!(self, Self::Least | Self::ByHand)
    }
}

/// Above this number of ending workloads, all are named for which one waits.
const MOST_NAMED: usize = 64;

/// Which workloads must not be preempted.
pub(super) type Spared<'a> = &'a dyn Fn(WorkloadId) -> bool;

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
    /// Workloads that are being evicted already: the preemptor waits until they have ended.
    pub ending: Vec<WorkloadId>,
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
    /// It starts once these have ended, which are being evicted already.
    Ending(Vec<WorkloadId>),
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

    /// Victims with which a workload fits the nodes. Workloads of `holders` that have been evicted are ignored.
    pub(super) fn victims_on_nodes(
        &mut self,
        work: WorkloadId,
        mode: PreemptMode,
        holders: &Holders,
        spared: Spared<'_>,
    ) -> Result<Victims, NoPreemption> {
        let queue = self.gate_of_queue(work).map_err(Miss::plain);
        let queue = queue.map_err(NoPreemption::Hopeless)?;
        let Err(misses) = self.find(work, &Relaxation::default()) else {
            return Err(NoPreemption::Needless);
        };
        if mode == PreemptMode::AsCluster
            && let Some(victims) = self.after_ending(work)
        {
            return Ok(victims);
        }
        let flavors = search_context::assignments(self, work, queue);
        let wanted = search::SearchOptions {
            mode,
            counts: None,
            holders,
            spared,
        };
        match search::run(self, work, queue, &flavors, &wanted) {
            Err(NoPreemption::Hopeless(_)) => Err(NoPreemption::Hopeless(misses)),
            found => found,
        }
    }

    /// A workload that fits once those have ended that are being evicted already: nobody else goes for it.
    fn after_ending(&mut self, work: WorkloadId) -> Option<Victims> {
        let is_ending = |work: &WorkloadId| self.workload_state(*work).status == Status::Ending;
        let mut ending: Vec<WorkloadId> = self.holders().filter(is_ending).collect();
        if ending.is_empty() {
            return None;
        }
        let mut without = |gone: &[WorkloadId]| {
            let mark = self.mark();
            for work in gone {
                self.evict(*work);
            }
            let found = self.find(work, &Relaxation::default()).ok();
            self.undo_to(mark);
            found
        };
        let found = without(&ending);
        // Those that it does not wait for are not named.
        let mut at = 0;
        while found.is_some() && at < ending.len() && ending.len() <= MOST_NAMED {
            let one = ending.remove(at);
            if without(&ending).is_none() {
                ending.insert(at, one);
                at += 1;
            }
        }
        found.map(|allocation| Victims {
            list: Vec::new(),
            ending,
            allocation,
            lost_ms: 0,
            proven: false,
        })
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
    ///
    /// Where the preemptor waits for others to end, use it only to see what then follows.
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
}
