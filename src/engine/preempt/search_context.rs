//! Search context: one flavor assignment that would let a workload start, and the resources that it lacks.

use crate::compiled::{FlavorId, PairId, QueueId, WorkloadId};
use crate::fit::Relaxation;
use crate::snapshot::{Borrow, Preemption, Reclaim, Within};
use crate::state::{Allocation, PodSetAllocation, State};

use super::PreemptMode;

/// Maximum number of flavor assignments of pod sets that are tried.
const MOST_ASSIGNMENTS: usize = 64;

/// A workload with flavors assigned to each of its sets.
#[derive(Debug)]
pub(super) struct SearchContext {
    pub(super) work: WorkloadId,
    pub(super) queue: QueueId,
    pub(super) flavors: Vec<Vec<FlavorId>>,
    /// Pods of each set: all, or the minimum. Preemption starts either all pods or only the minimum.
    pub(super) counts: Vec<u32>,
    /// Minimum quota that it needs.
    pub(super) usage: Vec<(PairId, i64)>,
    /// Pairs of `usage` that its queue lacks; all pairs if only node capacity is short.
    pub(super) short: Vec<PairId>,
    /// Quota is short, not only node capacity.
    pub(super) by_quota: bool,
    /// Under fair sharing: with the workload, its queue stays within its nominal quota of the missing resources, so it reclaims
    /// regardless of shares (Kueue's `FairSharingPreemptWithinNominal`).
    pub(super) within_nominal: bool,
    /// Preemption rules of its queue.
    pub(super) rules: Preemption,
    /// The queue is unknown: only priority counts.
    pub(super) nameless: bool,
    /// For an operator: queue policies do not apply.
    pub(super) by_hand: bool,
    /// Relaxation of node checks.
    pub(super) relaxation: Relaxation,
}

impl SearchContext {
    /// The context for the cluster's scheduler, if preemption could help at all.
    #[cfg(test)]
    pub(super) fn new(
        state: &State<'_>,
        work: WorkloadId,
        queue: QueueId,
        flavors: &[Vec<FlavorId>],
        counts: Vec<u32>,
    ) -> Option<Self> {
        Self::of(state, work, queue, flavors, counts, PreemptMode::AsCluster)
    }

    /// The context for a selection mode, if preemption could help at all.
    pub(super) fn of(
        state: &State<'_>,
        work: WorkloadId,
        queue: QueueId,
        flavors: &[Vec<FlavorId>],
        counts: Vec<u32>,
        mode: PreemptMode,
    ) -> Option<Self> {
        let sets: Vec<PodSetAllocation> = flavors
            .iter()
            .zip(&counts)
            .map(|(flavors, count)| PodSetAllocation {
                count: *count,
                flavors: flavors.clone(),
                placements: Vec::new(),
            })
            .collect();
        let usage = state.usage_of(work, queue, &sets);
        Self::for_usage(state, (work, queue), flavors, counts, usage, mode)
    }

    /// The same for a part of the workload's quota.
    pub(super) fn for_usage(
        state: &State<'_>,
        (work, queue): (WorkloadId, QueueId),
        flavors: &[Vec<FlavorId>],
        counts: Vec<u32>,
        usage: Vec<(PairId, i64)>,
        mode: PreemptMode,
    ) -> Option<Self> {
        let compiled = state.compiled();
        let nameless = state.tree().branches[queue].nameless;
        let known = compiled.snapshot.queues.get(queue);
        let rules = known.map_or_else(Preemption::default, |queue| queue.preemption);
        let by_hand = mode == PreemptMode::ByHand;
        let inside = |within| Preemption {
            within,
            ..Preemption::default()
        };
        let mut context = Self {
            work,
            queue,
            flavors: flavors.to_vec(),
            counts,
            short: Vec::new(),
            by_quota: false,
            within_nominal: false,
            rules: match (by_hand, nameless) {
                (true, _) => inside(Within::LowerOrNewerEqual),
                (_, true) => inside(Within::LowerPriority),
                _ => rules,
            },
            nameless,
            by_hand,
            relaxation: Relaxation::default(),
            usage,
        };
        for &(pair, amount) in &context.usage {
            if amount <= state.available(queue, pair) {
                continue;
            }
            if !context.may_get(state, pair, amount) {
                return None;
            }
            context.short.push(pair);
        }
        context.by_quota = !context.short.is_empty();
        context.within_nominal = context.by_quota && context.stays_within_nominal(state);
        if !context.by_quota {
            context.short = context.usage.iter().map(|(pair, _)| *pair).collect();
        }
        Some(context)
    }

    fn stays_within_nominal(&self, state: &State<'_>) -> bool {
        state.compiled().snapshot.options.fair_sharing.is_some()
            && self.usage.iter().all(|&(pair, amount)| {
                let own = state.tree().quota(self.queue, pair).nominal;
                !self.short.contains(&pair) || state.used(self.queue, pair) + amount <= own
            })
    }

    /// Kueue preempts for every resource of flavors with a topology as soon as it preempts for one.
    /// Source: `updateModeForTASRequests` of its `flavorassigner`.
    pub(super) fn with_topologies(mut self, state: &State<'_>) -> Self {
        let compiled = state.compiled();
        let pairs = state.tree().pairs_of(self.queue);
        let has_topology =
            |pair: PairId| compiled.snapshot.flavors[pairs[pair].0].topology.is_some();
        for &(pair, _) in &self.usage {
            if has_topology(pair) && !self.short.contains(&pair) {
                self.short.push(pair);
            }
        }
        self.within_nominal = self.by_quota && self.stays_within_nominal(state);
        self
    }

    /// Whether an amount can be obtained by preemption: within the own quota of the queue or of a cohort below the root, or by
    /// borrowing if it may preempt to borrow.
    fn may_get(&self, state: &State<'_>, pair: PairId, amount: i64) -> bool {
        let quotas = state.tree().quota(self.queue, pair);
        if amount > quotas.potential {
            return false;
        }
        if self.by_hand {
            return true;
        }
        let fair = state.compiled().snapshot.options.fair_sharing.is_some();
        let while_borrowing = if fair {
            self.rules.reclaim != Reclaim::Never
        } else {
            self.rules.borrow != Borrow::Never
        };
        amount <= quotas.nominal
            || while_borrowing
            || state.fits_below_top(self.queue, pair, amount)
    }

    /// Places the workload now; without `borrow` only if its queue then stays within its own quota.
    pub(super) fn start(&self, state: &mut State<'_>, borrow: bool) -> Option<Allocation> {
        let mark = state.mark();
        let allocation = match self.relaxation.no_nodes {
            true => self.take_quota(state)?,
            false => state.start_with(
                self.work,
                self.queue,
                &self.flavors,
                &self.counts,
                &self.relaxation,
            )?,
        };
        if borrow || !self.borrows(state, &allocation) {
            return Some(allocation);
        }
        state.undo_to(mark);
        None
    }

    /// Uses its quota, if that suffices; the allocation has no nodes.
    fn take_quota(&self, state: &mut State<'_>) -> Option<Allocation> {
        let free = |&(pair, amount): &(PairId, i64)| amount <= state.available(self.queue, pair);
        if !self.usage.iter().all(free) {
            return None;
        }
        for &(pair, amount) in &self.usage {
            state.use_quota(self.queue, pair, amount);
        }
        let sets = self.flavors.iter().zip(&self.counts);
        let sets: Vec<PodSetAllocation> = sets
            .map(|(flavors, count)| PodSetAllocation {
                count: *count,
                flavors: flavors.clone(),
                placements: Vec::new(),
            })
            .collect();
        Some(Allocation {
            queue: Some(self.queue),
            usage: self.usage.clone(),
            speed_milli: state.speed(self.work, &sets),
            sets,
        })
    }

    /// Whether it fits now.
    pub(super) fn fits(&self, state: &mut State<'_>, borrow: bool) -> bool {
        let mark = state.mark();
        let fits = self.start(state, borrow).is_some();
        state.undo_to(mark);
        fits
    }

    /// Whether its queue, after admitting this allocation, exceeds its own quota of the pairs in use.
    pub(super) fn borrows(&self, state: &State<'_>, allocation: &Allocation) -> bool {
        let mut usage = allocation.usage.iter();
        usage.any(|(pair, _)| state.borrowed(self.queue, *pair) > 0)
    }

    /// Whether a queue or cohort stays within its nominal quota of the missing resources.
    pub(super) fn is_within_own(&self, state: &State<'_>, queue: QueueId) -> bool {
        let mut short = self.short.iter();
        short.all(|pair| state.borrowed(queue, *pair) == 0)
    }

    /// Whether its own queue uses less than its nominal quota of every missing resource.
    pub(super) fn is_under_own(&self, state: &State<'_>) -> bool {
        let mut short = self.short.iter();
        short.all(|&pair| {
            let quotas = state.tree().quota(self.queue, pair);
            state.used(self.queue, pair) < quotas.nominal
        })
    }
}

/// Flavors for every set of pods, in the order in which they are tried.
pub(super) fn assignments(
    state: &State<'_>,
    work: WorkloadId,
    queue: QueueId,
) -> Vec<Vec<Vec<FlavorId>>> {
    let relaxation = Relaxation::default();
    let mut all: Vec<Vec<Vec<FlavorId>>> = vec![Vec::new()];
    for set in 0..state.compiled().workloads[work].sets.len() {
        let Ok(options) = state.options(work, set, queue, &relaxation) else {
            return Vec::new();
        };
        let suits = |flavors: &Vec<FlavorId>| {
            let suits = state.flavors_suit(work, set, flavors, &relaxation);
            suits.is_ok()
        };
        let options: Vec<Vec<FlavorId>> = options.into_iter().filter(suits).collect();
        let mut longer = Vec::new();
        for start in &all {
            for option in &options {
                let mut next = start.clone();
                next.push(option.clone());
                longer.push(next);
            }
        }
        longer.truncate(MOST_ASSIGNMENTS);
        all = longer;
    }
    all
}
