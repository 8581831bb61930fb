//! Who must go so that a workload can start: as the cluster's own scheduler would choose, or with the least work lost.
//!
//! The first follows Kueue: candidates of other queues in the cohort that use more than their own, then those of the
//! workload's queue; of these the lowest priority first, then the most recently admitted; one after the other until the
//! workload fits; then each is given back, from the last to the first, if it fits all the same. Under fair sharing the queue
//! with the greatest share pays first, as long as that evens out shares. The second searches for the set that loses the
//! fewest device-milliseconds since the last checkpoint, then for the smallest: through all sets where candidates are few.
//!
//! What is not preemptible, what is ending and what priority or policy protects is never taken, and gangs only whole.

mod bound;
mod candidate;
mod evicted;
mod exact;
mod fair;
mod least;
mod search;
mod search_context;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::compiled::{QueueId, WorkloadId};
use super::fit::{Miss, Relaxation};
use super::snapshot::{Status, Stop};
use super::state::{Allocation, State};

pub(super) use candidate::Holders;
pub use evicted::evicted;

/// How victims are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// As the cluster's own scheduler would, nodes considered.
    AsCluster,
    /// As Kueue does where no flavor has a topology: until the quota suffices. What the workload then holds has no place on
    /// nodes.
    ByQuota,
    /// So that the least device-time is lost; of equals the fewest victims.
    Least,
    /// The same, as an operator may requeue them: whatever queues' policies say, those that stand behind the workload (of lower
    /// priority, or as high and made later) and can be stopped.
    ByHand,
}

impl Mode {
    /// How nodes are looked at.
    fn relaxation(self) -> Relaxation {
        Relaxation {
            no_nodes: self == Self::ByQuota,
            ..Relaxation::default()
        }
    }

    /// Whether the set that loses least is looked for.
    fn is_least(self) -> bool {
        matches!(self, Self::Least | Self::ByHand)
    }
}

/// Why a workload may be made to go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// It is in the same queue, of lower priority or newer. Kueue: `InClusterQueue`.
    InQueue,
    /// Its queue uses more than its own, which another needs back. Kueue: `InCohortReclamation`.
    Reclaim,
    /// The same, for one that itself needs to borrow. Kueue: `InCohortReclaimWhileBorrowing`.
    ReclaimWhileBorrowing,
    /// Its queue has the greater share. Kueue: `InCohortFairSharing`.
    FairSharing,
    /// Its queue is being drained. Kueue: `ClusterQueueStopped`.
    Drained,
    /// An operator requeues it: it stands behind the one that starts.
    ByHand,
}

impl Reason {
    /// As in the JSON contract.
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

/// A workload that goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim {
    /// Which.
    pub work: WorkloadId,
    /// Why it may be taken.
    pub reason: Reason,
    /// Device-milliseconds of work since its last checkpoint.
    pub lost_ms: i64,
}

/// Who goes, and what the workload then holds.
#[derive(Clone, PartialEq, Debug)]
pub struct Victims {
    /// In the order in which they were chosen; in this order each may be taken.
    pub list: Vec<Victim>,
    /// What the workload holds when they are gone.
    pub allocation: Arc<Allocation>,
    /// Device-milliseconds of work lost in all.
    pub lost_ms: i64,
    /// No set that may be taken loses less, or as much with fewer victims: all were looked at. Only for [`Mode::Least`] and [`Mode::ByHand`].
    pub proven: bool,
}

/// Why nobody is preempted for a workload.
#[derive(Clone, PartialEq, Debug)]
pub enum Refusal {
    /// It starts as it is, or holds something already.
    Needless,
    /// Nothing that becomes free would let it start; every attempt.
    Hopeless(Vec<Miss>),
    /// Its queue's rules and others' priorities protect all that run.
    Protected,
    /// Those that may be taken do not make enough room.
    TooFew,
}

impl State<'_> {
    /// Device-milliseconds of work that are lost when a workload goes now: its devices since its last checkpoint, or since it
    /// got them. Where that is not known, since it was made.
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
            sets.map(|(held, set)| i64::from(held.count) * set.ask.device_milli())
                .sum()
        };
        let lasted = i128::from(self.now().millis().saturating_sub(since.millis()).max(0));
        i64::try_from(lasted * i128::from(milli) / 1_000).unwrap_or(i64::MAX / 1_024)
    }

    /// Who must go so that a workload can start. The state stays as it is.
    ///
    /// # Errors
    /// Why nobody is preempted.
    pub fn victims(&mut self, work: WorkloadId, mode: Mode) -> Result<Victims, Refusal> {
        self.victims_but(work, mode, &|_| false)
    }

    /// The same, with some that are not to be taken.
    ///
    /// # Errors
    /// As [`State::victims`].
    pub fn victims_but(
        &mut self,
        work: WorkloadId,
        mode: Mode,
        spared: &dyn Fn(WorkloadId) -> bool,
    ) -> Result<Victims, Refusal> {
        let holders = Holders::new(self);
        self.victims_except(work, (mode, false), &holders, spared)
    }

    /// The same; where `whole` says so for all of its pods and no fewer. Of `holders` those count that hold something still.
    pub(super) fn victims_except(
        &mut self,
        work: WorkloadId,
        (mode, whole): (Mode, bool),
        holders: &Holders,
        spared: &dyn Fn(WorkloadId) -> bool,
    ) -> Result<Victims, Refusal> {
        let standing = self.standing(work);
        if standing.allocation.is_some() || standing.status != Status::Waiting {
            return Err(Refusal::Needless);
        }
        let relaxation = Relaxation {
            whole,
            ..mode.relaxation()
        };
        let found = self.find(work, &relaxation);
        let queue = match (&found, self.gate_of_queue(work)) {
            (_, Ok(queue)) => queue,
            (Err(misses), Err(_)) => return Err(Refusal::Hopeless(misses.clone())),
            (Ok(_), Err(_)) => return Err(Refusal::Needless),
        };
        let flavors = search_context::assignments(self, work, queue);
        let (flavors, misses) = match found {
            Ok(allocation) => {
                // Only a flavor before that in which it fits would be preempted in, and only where the queue says so.
                let fits = |own: &Vec<Vec<usize>>| {
                    let held = allocation.sets.iter().map(|set| &set.flavors);
                    held.eq(own.iter())
                };
                let first = flavors.iter().position(fits).unwrap_or(0);
                if !self.preempt_stops(queue) || first == 0 || mode == Mode::ByHand {
                    return Err(Refusal::Needless);
                }
                (flavors[..first].to_vec(), None)
            }
            Err(misses) => (flavors, Some(misses)),
        };
        let wanted = search::Wanted {
            mode,
            whole,
            stops: misses.is_none(),
            holders,
            spared,
        };
        let result = search::run(self, work, queue, &flavors, &wanted);
        match (result, misses) {
            (Ok(victims), _) => Ok(victims),
            (Err(_), None) => Err(Refusal::Needless),
            (Err(Refusal::Hopeless(_)), Some(misses)) => Err(Refusal::Hopeless(misses)),
            (Err(refusal), _) => Err(refusal),
        }
    }

    /// Whether a queue's workloads may take anything from anybody at all.
    pub(super) fn may_preempt(&self, queue: QueueId) -> bool {
        use super::snapshot::{Reclaim, Within};
        let known = self.compiled().snapshot.queues.get(queue);
        known.map_or(self.tree().branches[queue].nameless, |queue| {
            let rules = queue.preemption;
            rules.within != Within::Never || rules.reclaim != Reclaim::Never
        })
    }

    /// Lets victims go and the workload start.
    pub fn preempt(&mut self, work: WorkloadId, victims: &Victims) {
        for victim in &victims.list {
            self.evict(victim.work);
        }
        self.admit(work, victims.allocation.clone());
    }

    /// Those that must go because their queue, or one above it, is being drained; in order.
    pub fn drained(&self) -> Vec<Victim> {
        let queues = &self.compiled().snapshot.queues;
        if queues.iter().all(|queue| queue.stop != Stop::Drain) {
            return Vec::new();
        }
        let drains = |queue: QueueId| {
            let mut path = self.tree().path(queue);
            path.any(|up| queues.get(up).is_some_and(|it| it.stop == Stop::Drain))
        };
        let goes = |work: &WorkloadId| {
            let standing = self.standing(*work);
            let queue = standing
                .allocation
                .as_ref()
                .and_then(|allocation| allocation.queue);
            standing.status == Status::Running && queue.is_some_and(drains)
        };
        let victim = |work| Victim {
            work,
            reason: Reason::Drained,
            lost_ms: self.lost_ms(work),
        };
        self.holders().filter(goes).map(victim).collect()
    }

    /// A flavor in which it fits by preempting is taken before those that follow are looked at.
    pub(super) fn preempt_stops(&self, queue: QueueId) -> bool {
        let known = self.compiled().snapshot.queues.get(queue);
        known.is_some_and(|queue| queue.fungibility.preempt_stops)
    }
}
