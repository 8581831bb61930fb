//! Candidates for preemption, in the order in which Kueue considers them.

use std::sync::Arc;

use crate::compiled::{PairId, QueueId, WorkloadId};
use crate::fit::{PodSetBound, Relaxation};
use crate::snapshot::{Borrow, Preemption, Reclaim, SnapshotQueue, Within};
use crate::state::{Allocation, Gate, State};
use model::base::Moment;

use super::holders::{Holder, Holders, Rank, UsefulRelease};
use super::search_context::SearchContext;
use super::{PreemptionReason, Victim};

/// A workload that may be preempted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub(super) work: WorkloadId,
    pub(super) queue: QueueId,
    pub(super) reason: PreemptionReason,
    /// It is in the preemptor's queue.
    pub(super) own: bool,
    /// It is being evicted already.
    pub(super) ending: bool,
    /// Lowest common ancestor of its queue and the preemptor's.
    meet: QueueId,
    /// Only if the preemptor then borrows nothing.
    only_own: bool,
    /// Device-milliseconds lost; 0 until the minimum is searched.
    pub(super) lost: i64,
}

impl Candidate {
    pub(super) fn victim(&self, state: &State<'_>) -> Victim {
        Victim {
            work: self.work,
            reason: self.reason,
            lost_ms: state.lost_ms(self.work),
        }
    }

    /// Whether it may be preempted now: its queue, and the ancestors that do not contain the preemptor's queue, exceed their own quota.
    pub(super) fn may_go(
        &self,
        state: &mut State<'_>,
        context: &SearchContext,
        borrow: bool,
    ) -> bool {
        if self.own {
            return true;
        }
        if state.compiled().snapshot.options.fair_sharing.is_some() {
            return super::fair::evens_out(state, context, self);
        }
        if borrow && self.only_own {
            return false;
        }
        let mut around = state.tree().path(self.queue);
        let around: Vec<QueueId> = around
            .by_ref()
            .take_while(|node| *node != self.meet)
            .collect();
        !around
            .into_iter()
            .any(|node| context.is_within_own(state, node))
    }
}

/// Usage of a pair in an allocation.
pub(super) fn uses(allocation: &Allocation, pair: PairId) -> i64 {
    let mut usage = allocation.usage.iter();
    usage
        .find(|(of, _)| *of == pair)
        .map_or(0, |(_, amount)| *amount)
}

/// Candidates, and whether to search for a set with which the preemptor may borrow (true) or must not (false), in order.
pub(super) struct Candidates {
    pub(super) list: Vec<Candidate>,
    pub(super) tries: Vec<bool>,
}

impl Candidates {
    /// Computes the lost work of each candidate.
    pub(super) fn weigh(&mut self, state: &State<'_>) {
        for candidate in &mut self.list {
            candidate.lost = state.lost_ms(candidate.work);
        }
    }
}

/// All candidates of a search context.
pub(super) fn candidates(
    state: &mut State<'_>,
    context: &SearchContext,
    holders: &Holders,
    spared: &dyn Fn(WorkloadId) -> bool,
) -> Candidates {
    let fair = state.compiled().snapshot.options.fair_sharing.is_some();
    let mut hierarchical: Vec<(Rank, Candidate)> = Vec::new();
    let mut others: Vec<(Rank, Candidate)> = Vec::new();
    let mut own: Vec<(Rank, Candidate)> = Vec::new();
    let meets = meets(state, context);
    let now = state.now();
    let gates: Vec<Arc<Gate>> = (0..context.flavors.len())
        .map(|set| {
            let constraint = state.compiled().workloads[context.work].sets[set].constraint;
            state.gate(constraint, &context.flavors[set], &Relaxation::default())
        })
        .collect();
    let of_use = UsefulRelease::new(state, context, gates);
    for queue in holders.queues() {
        let Some(side) = side(state, context, queue, &meets) else {
            continue;
        };
        let branches = &state.tree().branches;
        let same_tree = branches[queue].root == branches[context.queue].root;
        let least = left_alone(state, context, queue, side);
        let part = match side {
            QueueSide::Own => &mut own,
            QueueSide::Other { claim: true, .. } => &mut hierarchical,
            QueueSide::Other { .. } => &mut others,
        };
        for holder in holders.of_queue(state, queue) {
            let Some(candidate) = candidate(state, context, holder, (queue, side), least) else {
                continue;
            };
            if of_use.is_of(state, context, holder, same_tree)
                && holder.is_there(state)
                && !spared(holder.work)
            {
                part.push((holder.rank(now), candidate));
            }
        }
    }
    let none_of_others = hierarchical.is_empty() && others.is_empty();
    let tries = if fair {
        vec![true]
    } else {
        let no_borrowing = context.rules.borrow == Borrow::Never;
        if none_of_others || no_borrowing && !context.is_under_own(state) {
            vec![true]
        } else if no_borrowing && hierarchical.is_empty() {
            vec![false, true]
        } else {
            vec![true, false]
        }
    };
    if fair {
        others.append(&mut hierarchical);
    }
    let mut list = Vec::with_capacity(hierarchical.len() + others.len() + own.len());
    for mut part in [hierarchical, others, own] {
        // Each queue's candidates are already sorted: the sort only merges the queues.
        part.sort_by_key(|(rank, _)| *rank);
        list.extend(part.into_iter().map(|(_, candidate)| candidate));
    }
    list.sort_by_key(|candidate| !candidate.ending);
    Candidates { list, tries }
}

/// Per queue: whether it is the preemptor's queue or an ancestor, and whether the preemptor has a claim on everything below
/// regardless of priority: it fits the own quota of a subtree below.
fn meets(state: &State<'_>, context: &SearchContext) -> Vec<(bool, bool)> {
    let mut out = vec![(false, false); state.tree().branches.len()];
    let mut left = context.usage.clone();
    let mut claim = false;
    for node in state.tree().path(context.queue) {
        out[node] = (true, claim);
        let mut fits = true;
        for (pair, amount) in &mut left {
            let quotas = state.tree().quota(node, *pair);
            let used = state.used(node, *pair);
            fits &= used.saturating_add(*amount) <= quotas.subtree;
            *amount = (*amount - (quotas.guaranteed - used).max(0)).max(0);
        }
        claim |= fits;
    }
    out
}

/// Position of a queue relative to the preemptor's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum QueueSide {
    Own,
    /// Another queue that exceeds its own quota.
    Other {
        meet: QueueId,
        /// The preemptor has a claim on everything below it.
        claim: bool,
    },
}

/// Position of a queue; none if its workloads must not be preempted.
fn side(
    state: &State<'_>,
    context: &SearchContext,
    queue: QueueId,
    meets: &[(bool, bool)],
) -> Option<QueueSide> {
    let branches = &state.tree().branches;
    if context.by_hand || queue == context.queue || context.nameless && branches[queue].nameless {
        return (context.rules.within != Within::Never).then_some(QueueSide::Own);
    }
    if context.rules.reclaim == Reclaim::Never
        || branches[queue].root != branches[context.queue].root
    {
        return None;
    }
    let meet = state.tree().path(queue).find(|node| meets[*node].0)?;
    // Under fair sharing, cohorts are looked at by their shares.
    let fair = state.compiled().snapshot.options.fair_sharing.is_some();
    let levels = if fair { 1 } else { usize::MAX };
    let around = state.tree().path(queue).take_while(|node| *node != meet);
    if around
        .take(levels)
        .any(|node| context.is_within_own(state, node))
    {
        return None;
    }
    let claim = meets[meet].1;
    Some(QueueSide::Other { meet, claim })
}

/// Minimum run time before a queue's workload may be preempted, by the rules for its own queue or for other queues.
fn left_alone(
    state: &State<'_>,
    context: &SearchContext,
    queue: QueueId,
    side: QueueSide,
) -> Option<i64> {
    match side {
        QueueSide::Own if context.by_hand => None,
        QueueSide::Own => first_set(state, queue, |queue| queue.left_alone.preempt_ms),
        // The queue directly below the common ancestor, or else what its ancestors say.
        QueueSide::Other { meet, .. } => {
            let below = state.tree().path(queue).take_while(|node| *node != meet);
            first_set(state, below.last().unwrap_or(queue), |queue| {
                queue.left_alone.reclaim_ms
            })
        }
    }
}

/// A workload of a queue as a candidate, if the rules allow its preemption.
fn candidate(
    state: &State<'_>,
    context: &SearchContext,
    holder: &Holder,
    (queue, side): (QueueId, QueueSide),
    least: Option<i64>,
) -> Option<Candidate> {
    let &Holder { work, priority, .. } = holder;
    let fair = state.compiled().snapshot.options.fair_sharing.is_some();
    let mine = state.priority(context.work);
    // A search by quota counts on what is being evicted already; a search for nodes looks at that first.
    if holder.ending && !context.relaxation.no_nodes {
        return None;
    }
    let came_later = || holder.created > state.workload(context.work).created;
    let rule_allows = match side {
        QueueSide::Own => context.rules.within.takes(mine, priority, came_later),
        QueueSide::Other { .. } => match context.rules.reclaim {
            Reclaim::Never => false,
            Reclaim::LowerPriority => priority < mine,
            Reclaim::Any => true,
        },
    };
    if !rule_allows || work == context.work || is_left_alone(state, holder, least) {
        return None;
    }
    let plain = Candidate {
        work,
        queue,
        reason: match context.by_hand {
            true => PreemptionReason::ByHand,
            false => PreemptionReason::InQueue,
        },
        own: true,
        ending: holder.ending,
        meet: context.queue,
        only_own: false,
        lost: 0,
    };
    let QueueSide::Other { meet, claim } = side else {
        return (!context.by_hand || holder.can_suspend).then_some(plain);
    };
    let borrows = may_borrow(&context.rules, priority, mine);
    let reason = match (fair, claim, borrows) {
        (true, _, _) if context.within_nominal => PreemptionReason::Reclaim,
        (true, _, _) => PreemptionReason::FairSharing,
        (_, true, _) | (_, _, false) => PreemptionReason::Reclaim,
        _ => PreemptionReason::ReclaimWhileBorrowing,
    };
    Some(Candidate {
        reason,
        own: false,
        meet,
        only_own: !fair && !claim && !borrows,
        ..plain
    })
}

/// The value of a queue, or else of its closest ancestor with a value.
fn first_set(
    state: &State<'_>,
    queue: QueueId,
    setting: impl Fn(&SnapshotQueue) -> Option<i64>,
) -> Option<i64> {
    let known = &state.compiled().snapshot.queues;
    state
        .tree()
        .path(queue)
        .find_map(|up| setting(known.get(up)?))
}

/// Whether a workload has run too briefly to be preempted. False if its start is unknown.
fn is_left_alone(state: &State<'_>, holder: &Holder, least: Option<i64>) -> bool {
    let ran = |since: Moment| state.now().millis().saturating_sub(since.millis());
    let ran = holder.since.map(ran);
    least.zip(ran).is_some_and(|(least, ran)| ran < least)
}

/// Whether a workload of this priority may be preempted by one that borrows.
fn may_borrow(rules: &Preemption, theirs: i32, mine: i32) -> bool {
    rules.borrow == Borrow::LowerPriority
        && theirs < mine
        && rules.borrow_threshold.is_none_or(|most| theirs <= most)
}

/// Whether preempting all candidates may suffice: sums that are far cheaper than an attempt.
pub(super) fn may_do(state: &mut State<'_>, context: &SearchContext, list: &[Candidate]) -> bool {
    for &(pair, amount) in &context.usage {
        let mut free = state.available(context.queue, pair);
        for candidate in list {
            if free >= amount {
                break;
            }
            let held = state.allocation(candidate.work);
            free += held.map_or(0, |allocation| uses(allocation, pair));
        }
        if free < amount {
            return false;
        }
    }
    if state.nodes() == 0 || context.relaxation.no_nodes {
        return true;
    }
    (0..context.flavors.len()).all(|set| {
        let flavors = &context.flavors[set];
        let mut reach = PodSetBound::new(state, context.work, set, flavors, context.counts[set]);
        for candidate in list {
            if reach.may_fit() {
                break;
            }
            reach.release(state, candidate.work);
        }
        reach.may_fit()
    })
}
