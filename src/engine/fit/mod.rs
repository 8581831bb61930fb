//! Fit: whether a workload can start in a state, with which flavors and on which nodes; and if not, why, by flavor.
//!
//! A workload starts as a gang (at least the minimum of every pod set) or not at all. Pod sets that compete for the same
//! nodes or quota are placed largest first, each with its first flavors that fit; if a later set then does not fit, flavor
//! combinations of all sets are tried, and other orders. A fit that needs more than that is not found.

mod bound;
mod gang;
mod gate;
mod needs;
mod option;
mod placement;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use model::base::Name;

use super::compiled::{FlavorId, PairId, QueueId, WorkloadId};
use super::snapshot::SnapshotToleration;
use super::state::{Allocation, PodSetAllocation, State};

pub(super) use bound::PodSetBound;
pub(super) use needs::Shortages;

/// Maximum number of flavor combinations of a workload's sets that are tried.
const MOST_WAYS: usize = 32;

/// Constraints that are ignored in a search, to isolate one cause from another.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Relaxation {
    pub no_quota: bool,
    /// Free capacity of nodes; the result has no placements.
    pub no_nodes: bool,
    /// Topology requests, including required ones.
    pub no_topology: bool,
    pub no_taints: bool,
    /// Labels that pods require (those of flavors still apply).
    pub no_labels: bool,
    pub tolerate: Vec<SnapshotToleration>,
    /// Only this flavor for accelerators, overriding the workload's own list; it must be one of the queue's.
    pub only_flavor: Option<FlavorId>,
}

/// Why a workload cannot start with some flavors.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Why {
    /// Its queue does not exist.
    NoQueue,
    /// Its queue, or one above it, does not admit now.
    Stopped { queue: QueueId },
    /// Its queue is a cohort, which admits nothing.
    Cohort,
    /// Its queue has no quota for a requested resource.
    NotCovered { resource: Name },
    /// None of its own flavors belongs to its queue.
    NoFlavor,
    /// The flavor's nodes have a taint that it does not tolerate.
    FlavorTaint {
        flavor: FlavorId,
        /// Key of the taint.
        key: Name,
    },
    /// It requires labels other than the flavor's.
    FlavorLabels { flavor: FlavorId },
    /// It asks for a topology level that the flavor has not, or for none, and the flavor is for those that ask.
    FlavorTopology { flavor: FlavorId },
    /// It requests more than its queue could ever use, borrowing included.
    OverMost {
        /// Flavor and resource in the queue's tree.
        pair: PairId,
        asked: i64,
        most: i64,
    },
    Quota {
        /// Flavor and resource in the queue's tree.
        pair: PairId,
        asked: i64,
        /// Free for its queue now.
        free: i64,
        /// In use by its queue and its descendants now, and what its queue borrows of that.
        used: i64,
        borrowed: i64,
    },
    /// Too few pods fit on nodes.
    Nodes { set: usize, asked: u32, room: u64 },
    /// Enough capacity is free, but not in one domain.
    Topology {
        set: usize,
        /// Index of the ladder.
        ladder: usize,
        /// Index of the level.
        level: usize,
        asked: u32,
        /// Most pods that fit in one domain.
        best: u64,
    },
    /// The queue is strict, and another workload is ahead.
    Behind { work: WorkloadId },
    /// It starts once this one has ended, which is being evicted already.
    Ending { work: WorkloadId },
    /// It would delay a reservation.
    Reserved {
        /// The workload with the reservation.
        work: WorkloadId,
    },
    /// What is not modeled decides ([`crate::snapshot::Workload::not_forecast`]); quota and nodes suffice.
    NotForecast,
}

impl Why {
    /// Whether waiting can resolve it: resources in use may become free.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Quota { .. }
                | Self::Nodes { .. }
                | Self::Topology { .. }
                | Self::Behind { .. }
                | Self::Ending { .. }
                | Self::Reserved { .. }
        )
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Miss {
    /// The pod set that failed.
    pub set: usize,
    /// Flavors that were tried; empty if it failed earlier.
    pub flavors: Vec<FlavorId>,
    pub why: Why,
}

impl Miss {
    pub(super) fn plain(why: Why) -> Vec<Self> {
        vec![Self {
            set: 0,
            flavors: Vec::new(),
            why,
        }]
    }
}

impl State<'_> {
    /// Starts a workload if it fits now, and returns its allocation.
    ///
    /// # Errors
    /// Every failed attempt, in order; the state is unchanged.
    pub fn start(
        &mut self,
        work: WorkloadId,
        relaxation: &Relaxation,
    ) -> Result<Arc<Allocation>, Vec<Miss>> {
        let mark = self.mark();
        match self.tenure_for(work, relaxation) {
            Ok(allocation) => {
                // The search already took its resources; only the allocation has to be recorded.
                let allocation = Arc::new(allocation);
                self.allocate(work, allocation.clone());
                Ok(allocation)
            }
            Err(misses) => {
                self.undo_to(mark);
                Err(misses)
            }
        }
    }

    /// The allocation of a workload if it started now; the state is unchanged.
    ///
    /// # Errors
    /// As [`State::start`].
    pub fn find(
        &mut self,
        work: WorkloadId,
        relaxation: &Relaxation,
    ) -> Result<Arc<Allocation>, Vec<Miss>> {
        let mark = self.mark();
        let found = self.tenure_for(work, relaxation);
        self.undo_to(mark);
        found.map(Arc::new)
    }

    /// The workload's queue, if it admits.
    ///
    /// # Errors
    /// Why it does not admit.
    pub fn gate_of_queue(&self, work: WorkloadId) -> Result<QueueId, Why> {
        use super::snapshot::QueueStop;
        let Some(queue) = self.compiled().workloads[work].queue else {
            return Err(Why::NoQueue);
        };
        let known = &self.compiled().snapshot.queues;
        if known.get(queue).is_some_and(|queue| !queue.admits) {
            return Err(Why::Cohort);
        }
        let stopped = self.tree().path(queue).find(|&up| {
            known
                .get(up)
                .is_some_and(|queue| queue.stop != QueueStop::None)
        });
        match stopped {
            Some(queue) => Err(Why::Stopped { queue }),
            None => Ok(queue),
        }
    }

    /// Quota that a workload would use in its queue, with the first flavors that quotas alone allow; with the first of all
    /// if they allow none.
    pub(super) fn nominated(
        &mut self,
        work: WorkloadId,
        relaxation: &Relaxation,
    ) -> Vec<(PairId, i64)> {
        let quota_only = Relaxation {
            no_nodes: true,
            ..relaxation.clone()
        };
        if let Ok(allocation) = self.find(work, &quota_only) {
            return allocation.usage.clone();
        }
        let Ok(queue) = self.gate_of_queue(work) else {
            return Vec::new();
        };
        let sets = 0..self.compiled().workloads[work].sets.len();
        let first = |set: usize| {
            let options = self.options(work, set, queue, relaxation).ok()?;
            Some(PodSetAllocation {
                count: self.compiled().workloads[work].sets[set].count,
                flavors: options.into_iter().next()?,
                placements: Vec::new(),
            })
        };
        let sets: Vec<PodSetAllocation> = sets.map_while(first).collect();
        self.usage_of(work, queue, &sets)
    }

    fn tenure_for(
        &mut self,
        work: WorkloadId,
        relaxation: &Relaxation,
    ) -> Result<Allocation, Vec<Miss>> {
        let queue = self.gate_of_queue(work).map_err(Miss::plain)?;
        let start = self.mark();
        let mut held: Vec<Option<PodSetAllocation>> =
            vec![None; self.compiled().workloads[work].sets.len()];
        for set in self.by_size(work) {
            match self.start_set(work, set, queue, relaxation) {
                Ok(allocation) => held[set] = Some(allocation),
                Err(misses) if held.len() == 1 => return Err(misses),
                Err(misses) => {
                    // Earlier sets may have taken resources that only this set can use.
                    self.undo_to(start);
                    return self.start_otherwise(work, queue, relaxation).ok_or(misses);
                }
            }
        }
        Ok(self.tenure_of(work, queue, held))
    }

    fn tenure_of(
        &self,
        work: WorkloadId,
        queue: QueueId,
        held: Vec<Option<PodSetAllocation>>,
    ) -> Allocation {
        let sets: Vec<PodSetAllocation> = held.into_iter().flatten().collect();
        Allocation {
            queue: Some(queue),
            usage: self.usage_of(work, queue, &sets),
            speed_milli: self.speed(work, &sets),
            sets,
        }
    }

    /// Starts one pod set: with the first flavors in which it fits whole; or, if fewer pods suffice, the first in which its minimum fits.
    fn start_set(
        &mut self,
        work: WorkloadId,
        set: usize,
        queue: QueueId,
        relaxation: &Relaxation,
    ) -> Result<PodSetAllocation, Vec<Miss>> {
        let options = self.options(work, set, queue, relaxation)?;
        let (count, least) = {
            let model = &self.compiled().workloads[work].sets[set];
            (model.count, model.min.max(1))
        };
        let mut misses: Vec<Miss> = Vec::new();
        let mut mosts: Vec<u32> = Vec::new();
        for flavors in &options {
            let mark = self.mark();
            match self.attempt(work, set, queue, flavors, count, relaxation) {
                Ok(allocation) => return Ok(allocation),
                Err((why, most)) => {
                    self.undo_to(mark);
                    mosts.push(most);
                    misses.push(Miss {
                        set,
                        flavors: flavors.clone(),
                        why,
                    });
                }
            }
        }
        for (flavors, &most) in options.iter().zip(&mosts) {
            let most = most.min(count.saturating_sub(1));
            if let Some(allocation) =
                self.start_fewer(work, set, queue, flavors, (least, most), relaxation)
            {
                return Ok(allocation);
            }
        }
        Err(misses)
    }

    /// Starts as many pods of a set as fit, from a maximum down to a minimum.
    pub(super) fn start_fewer(
        &mut self,
        work: WorkloadId,
        set: usize,
        queue: QueueId,
        flavors: &[FlavorId],
        (least, mut most): (u32, u32),
        relaxation: &Relaxation,
    ) -> Option<PodSetAllocation> {
        // Quota, nodes and a required domain each allow fewer pods: a failure says how many.
        while most >= least {
            let mark = self.mark();
            match self.attempt(work, set, queue, flavors, most, relaxation) {
                Ok(allocation) => return Some(allocation),
                Err((_, fewer)) => {
                    self.undo_to(mark);
                    most = fewer.min(most - 1);
                }
            }
        }
        None
    }

    /// Places a workload with the given flavors and pod counts of each set, if it fits. Otherwise the state is unchanged.
    pub(super) fn start_with(
        &mut self,
        work: WorkloadId,
        queue: QueueId,
        flavors: &[Vec<FlavorId>],
        counts: &[u32],
        relaxation: &Relaxation,
    ) -> Option<Allocation> {
        let mut orders = self.orders(work).into_iter();
        orders.find_map(|order| self.start_in(work, queue, flavors, counts, &order, relaxation))
    }

    /// Nodes for an allocation that has none yet, with the same flavors and counts. The state is unchanged.
    ///
    /// # Errors
    /// The sets of pods that fit no nodes.
    pub(super) fn place_as(
        &mut self,
        work: WorkloadId,
        allocation: &Allocation,
        relaxation: &Relaxation,
    ) -> Result<Allocation, Vec<Miss>> {
        let queue = allocation.queue.ok_or(Why::NoQueue).map_err(Miss::plain)?;
        let sets = || allocation.sets.iter();
        let flavors: Vec<_> = sets().map(|set| set.flavors.clone()).collect();
        let counts: Vec<u32> = sets().map(|set| set.count).collect();
        let mark = self.mark();
        let found = self.start_with(work, queue, &flavors, &counts, relaxation);
        self.undo_to(mark);
        if let Some(found) = found {
            return Ok(found);
        }
        let mut misses = Vec::new();
        for set in self.by_size(work) {
            let (own, count) = (&flavors[set], counts[set]);
            if let Err((why, _)) = self.attempt(work, set, queue, own, count, relaxation) {
                let flavors = flavors[set].clone();
                misses.push(Miss { set, flavors, why });
                break;
            }
        }
        self.undo_to(mark);
        Err(misses)
    }

    /// The same, with a given order of sets.
    fn start_in(
        &mut self,
        work: WorkloadId,
        queue: QueueId,
        flavors: &[Vec<FlavorId>],
        counts: &[u32],
        order: &[usize],
        relaxation: &Relaxation,
    ) -> Option<Allocation> {
        let start = self.mark();
        let mut held: Vec<Option<PodSetAllocation>> = vec![None; flavors.len()];
        for &set in order {
            match self.attempt(work, set, queue, &flavors[set], counts[set], relaxation) {
                Ok(allocation) => held[set] = Some(allocation),
                Err(_) => {
                    self.undo_to(start);
                    return None;
                }
            }
        }
        Some(self.tenure_of(work, queue, held))
    }

    /// Starts a workload of several sets with other flavor combinations, or in another order of sets, than each set alone
    /// would choose: all of its pods, or else its minimum.
    fn start_otherwise(
        &mut self,
        work: WorkloadId,
        queue: QueueId,
        relaxation: &Relaxation,
    ) -> Option<Allocation> {
        let sets = &self.compiled().workloads[work].sets;
        let mut all: Vec<Vec<Vec<FlavorId>>> = vec![Vec::new()];
        for set in 0..sets.len() {
            let options = self.options(work, set, queue, relaxation).ok()?;
            let longer = |some: &Vec<Vec<FlavorId>>| {
                let some = some.clone();
                let options = options.clone();
                options
                    .into_iter()
                    .map(move |flavors| [&some[..], &[flavors]].concat())
            };
            all = all.iter().flat_map(longer).take(MOST_WAYS).collect();
        }
        let whole: Vec<u32> = sets.iter().map(|set| set.count).collect();
        let least: Vec<u32> = sets
            .iter()
            .map(|set| set.min.max(1).min(set.count))
            .collect();
        let mut counts = vec![whole];
        if !counts.contains(&least) {
            counts.push(least);
        }
        let orders = self.orders(work);
        for counts in &counts {
            for flavors in &all {
                for order in &orders {
                    let found = self.start_in(work, queue, flavors, counts, order, relaxation);
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
        None
    }

    /// Orders in which pod sets are placed: largest request first; sets that require one domain first; and smallest request first.
    fn orders(&self, work: WorkloadId) -> Vec<Vec<usize>> {
        let by_size = self.by_size(work);
        if by_size.len() < 2 {
            return vec![by_size];
        }
        let sets = &self.compiled().workloads[work].sets;
        let mut close = by_size.clone();
        close.sort_by_key(|&set| !sets[set].topology_level.is_some_and(|level| level.2));
        let reverse: Vec<usize> = by_size.iter().rev().copied().collect();
        let mut orders = vec![by_size];
        for order in [close, reverse] {
            if !orders.contains(&order) {
                orders.push(order);
            }
        }
        orders
    }

    /// Pod sets, largest request first.
    fn by_size(&self, work: WorkloadId) -> Vec<usize> {
        let sets = &self.compiled().workloads[work].sets;
        let mut order: Vec<usize> = (0..sets.len()).collect();
        let size = |set: &usize| {
            let ask = &self.compiled().requests[sets[*set].want].ask;
            (ask.device_milli(), ask.cpu_milli)
        };
        order.sort_by_key(|set| std::cmp::Reverse(size(set)));
        order
    }

    /// A shortage of quota, with the usage of now.
    pub(super) fn short_of(&self, queue: QueueId, pair: PairId, asked: i64) -> Why {
        Why::Quota {
            pair,
            asked,
            free: self.available(queue, pair),
            used: self.gross(queue, pair),
            borrowed: self.borrowed(queue, pair),
        }
    }

    /// Starts this many pods of a set with these flavors. Otherwise returns why not and how many would fit.
    fn attempt(
        &mut self,
        work: WorkloadId,
        set: usize,
        queue: QueueId,
        flavors: &[FlavorId],
        count: u32,
        relaxation: &Relaxation,
    ) -> Result<PodSetAllocation, (Why, u32)> {
        self.flavors_suit(work, set, flavors, relaxation)
            .map_err(|why| (why, 0))?;
        let usage = self.amounts(work, set, queue, flavors, 1);
        if !relaxation.no_quota {
            let mut most = count;
            let mut failed = None;
            for &(pair, each) in &usage {
                let asked = each.saturating_mul(i64::from(count));
                let free = self.available(queue, pair);
                if each == 0 || asked <= free {
                    continue;
                }
                most = most.min(u32::try_from((free / each).max(0)).unwrap_or(count));
                let limit = self.tree().quota(queue, pair).potential;
                let why = if asked > limit {
                    Why::OverMost {
                        pair,
                        asked,
                        most: limit,
                    }
                } else {
                    self.short_of(queue, pair, asked)
                };
                failed = failed.or(Some(why));
            }
            if let Some(why) = failed {
                return Err((why, most));
            }
        }
        for &(pair, each) in &usage {
            self.use_quota(queue, pair, each.saturating_mul(i64::from(count)));
        }
        let placements = if relaxation.no_nodes || self.nodes() == 0 {
            Vec::new()
        } else {
            self.place(work, set, flavors, count, relaxation)?
        };
        Ok(PodSetAllocation {
            count,
            flavors: flavors.to_vec(),
            placements,
        })
    }
}
