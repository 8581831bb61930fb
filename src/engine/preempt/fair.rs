//! Preemption under fair sharing: queues with the greatest share are preempted first, as long as that evens out shares. Source:
//! Kueue's `fairSharing.preemptionStrategies`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::compiled::QueueId;
use crate::cycle::share::Share;
use crate::snapshot::FairStrategy;
use crate::state::State;

use super::candidate::Candidate;
use super::search_context::SearchContext;

/// What makes the next queue to preempt from: its share, whether it is a cohort, and its first candidate.
type Highest = (Share, bool, Reverse<usize>);

fn strategies<'p>(state: &State<'p>) -> &'p [FairStrategy] {
    let compiled = state.compiled();
    compiled
        .snapshot
        .options
        .fair_sharing
        .as_deref()
        .unwrap_or(&[])
}

fn lets(strategy: FairStrategy, mine: Share, before: Share, after: Share) -> bool {
    match strategy {
        FairStrategy::FinalShare => mine <= after,
        FairStrategy::InitialShare => mine < before,
    }
}

/// The children of the lowest common ancestor of two queues that contain the first and the second queue.
fn sides(state: &State<'_>, mine: QueueId, theirs: QueueId) -> Option<(QueueId, QueueId)> {
    let up: Vec<QueueId> = state.tree().path(mine).collect();
    let other: Vec<QueueId> = state.tree().path(theirs).collect();
    let at = other.iter().position(|node| up.contains(node))?;
    let of_mine = up.iter().position(|node| *node == other[at])?;
    Some((
        *up.get(of_mine.checked_sub(1)?)?,
        *other.get(at.checked_sub(1)?)?,
    ))
}

/// Adds (1) or removes (-1) the workload's usage.
fn suppose(state: &mut State<'_>, context: &SearchContext, sign: i64) {
    for &(pair, amount) in &context.usage {
        state.use_quota(context.queue, pair, sign * amount);
    }
}

/// Shares with the workload admitted: of its side, of the candidate's side, and of the latter without the candidate.
fn shares(
    state: &mut State<'_>,
    context: &SearchContext,
    candidate: &Candidate,
) -> Option<[Share; 3]> {
    let (mine, theirs) = sides(state, context.queue, candidate.queue)?;
    let (own, before) = (state.share(mine), state.share(theirs));
    let mark = state.mark();
    if let Some(allocation) = state.allocation(candidate.work).cloned() {
        for &(pair, amount) in &allocation.usage {
            state.use_quota(candidate.queue, pair, -amount);
        }
    }
    let after = state.share(theirs);
    state.undo_to(mark);
    Some([own, before, after])
}

/// Whether preempting a candidate of another queue now evens out shares, by any of the strategies.
pub(super) fn evens_out(
    state: &mut State<'_>,
    context: &SearchContext,
    candidate: &Candidate,
) -> bool {
    let all = strategies(state);
    let mark = state.mark();
    suppose(state, context, 1);
    let shares = shares(state, context, candidate);
    state.undo_to(mark);
    shares.is_some_and(|[mine, before, after]| {
        let lets = || all.iter().any(|it| lets(*it, mine, before, after));
        before > Share::default() && (context.within_nominal || lets())
    })
}

/// Selects candidates one by one, in the order of the strategies.
pub(super) struct Tournament<'a> {
    context: &'a SearchContext,
    candidates: &'a [Candidate],
    /// Per queue: its remaining candidates, in order.
    left: BTreeMap<QueueId, VecDeque<usize>>,
    /// Candidates that the first strategy protects.
    again: Vec<usize>,
    dropped: BTreeSet<QueueId>,
    /// Index of the current strategy.
    round: usize,
}

impl<'a> Tournament<'a> {
    pub(super) fn new(context: &'a SearchContext, candidates: &'a [Candidate]) -> Self {
        let mut tournament = Self {
            context,
            candidates,
            left: BTreeMap::new(),
            again: Vec::new(),
            dropped: BTreeSet::new(),
            round: 0,
        };
        tournament.line_up(0..candidates.len());
        tournament
    }

    fn line_up(&mut self, all: impl IntoIterator<Item = usize>) {
        self.left.clear();
        self.dropped.clear();
        for at in all {
            let queue = self.candidates[at].queue;
            self.left.entry(queue).or_default().push_back(at);
        }
    }

    /// The next victim; it is evicted from the state, without the preemptor's usage.
    pub(super) fn next(&mut self, state: &mut State<'_>) -> Option<usize> {
        let all = strategies(state);
        loop {
            let Some(strategy) = all.get(self.round.min(all.len().saturating_sub(1))) else {
                // No strategy: only its own queue is preempted.
                return None;
            };
            suppose(state, self.context, 1);
            let found = self.pick(state, *strategy);
            suppose(state, self.context, -1);
            if let Some(at) = found {
                state.evict(self.candidates[at].work);
                return Some(at);
            }
            self.round += 1;
            if self.round >= all.len() {
                return None;
            }
            let again = std::mem::take(&mut self.again);
            self.line_up(again);
        }
    }

    fn pick(&mut self, state: &mut State<'_>, strategy: FairStrategy) -> Option<usize> {
        let own = self.context.queue;
        if state.tree().branches[own].parent.is_none() {
            return self.left.get_mut(&own)?.pop_front();
        }
        let root = state.tree().branches[own].root;
        while !self.dropped.contains(&root) {
            let Some(queue) = self.next_queue(state, root) else {
                continue;
            };
            if queue == own || self.context.within_nominal {
                return self.left.get_mut(&queue)?.pop_front();
            }
            if self.round > 0 {
                // The second strategy takes at most one workload per queue.
                let at = self.left.get_mut(&queue)?.pop_front()?;
                self.dropped.insert(queue);
                let [mine, before, after] = shares(state, self.context, &self.candidates[at])?;
                if lets(strategy, mine, before, after) {
                    return Some(at);
                }
                continue;
            }
            while let Some(at) = self.left.get_mut(&queue)?.pop_front() {
                let [mine, before, after] = shares(state, self.context, &self.candidates[at])?;
                if lets(strategy, mine, before, after) {
                    return Some(at);
                }
                self.again.push(at);
            }
        }
        None
    }

    /// The next queue below a cohort to preempt from; none if the cohort, or one below it, was dropped just now.
    fn next_queue(&mut self, state: &State<'_>, cohort: QueueId) -> Option<QueueId> {
        let own: BTreeSet<QueueId> = state.tree().path(self.context.queue).collect();
        let mut highest: Option<(Highest, QueueId)> = None;
        for &child in &state.tree().branches[cohort].children {
            if self.dropped.contains(&child) {
                continue;
            }
            let is_cohort = !state.tree().branches[child].children.is_empty();
            let share = state.share(child);
            let empty = !is_cohort && self.left.get(&child).is_none_or(VecDeque::is_empty);
            if empty || share == Share::default() && !own.contains(&child) {
                self.dropped.insert(child);
                continue;
            }
            // Among equal shares a cohort first, then the queue whose first candidate precedes; of cohorts the last.
            let first = self.left.get(&child).and_then(VecDeque::front);
            let key = (share, is_cohort, Reverse(first.copied().unwrap_or(0)));
            if highest.is_none_or(|(highest, _)| key >= highest) {
                highest = Some((key, child));
            }
        }
        match highest {
            None => {
                self.dropped.insert(cohort);
                None
            }
            Some(((_, true, _), child)) => self.next_queue(state, child),
            Some(((_, false, _), child)) => Some(child),
        }
    }
}
