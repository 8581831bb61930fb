//! The order in which a cycle tries workloads.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use crate::compiled::{CompiledFleet, PairId, QueueId, WorkloadId};
use crate::state::State;
use model::base::Moment;

use super::share::Share;
use super::{QueueCursor, is_strict};

/// Order of workloads in one queue: priority, then age, then name.
type Rank = (Reverse<i32>, Moment, WorkloadId);

fn rank(state: &State<'_>, work: WorkloadId) -> Rank {
    let created = state.workload(work).created;
    (Reverse(state.priority(work)), created, work)
}

/// Compares two workloads of one queue: the lesser one is tried first.
pub fn precedes(state: &State<'_>, a: WorkloadId, b: WorkloadId) -> Ordering {
    rank(state, a).cmp(&rank(state, b))
}

/// Pending workloads by queue, in order. Those of missing queues are left out.
pub fn pending(state: &State<'_>) -> BTreeMap<QueueId, Vec<WorkloadId>> {
    let mut queues: BTreeMap<QueueId, Vec<WorkloadId>> = BTreeMap::new();
    for work in state.waiting() {
        if let Some(queue) = state.compiled().workloads[work].queue {
            queues.entry(queue).or_default().push(work);
        }
    }
    for works in queues.values_mut() {
        works.sort_by_key(|&work| rank(state, work));
    }
    queues
}

/// Lines of the given queues.
pub(super) fn lines_of(
    compiled: &CompiledFleet,
    pending: BTreeMap<QueueId, Vec<WorkloadId>>,
) -> Vec<QueueCursor> {
    let line = |(queue, works)| QueueCursor {
        queue,
        works,
        next: 0,
        blocked: None,
        strict: is_strict(compiled, queue),
    };
    pending.into_iter().map(line).collect()
}

/// Lines of all queues. Workloads of missing queues form a line of their own.
pub(super) fn lines(state: &State<'_>) -> Vec<QueueCursor> {
    let compiled = state.compiled();
    let mut lines = lines_of(compiled, pending(state));
    let lost = state
        .waiting()
        .filter(|work| compiled.workloads[*work].queue.is_none());
    let works: Vec<WorkloadId> = lost.collect();
    if !works.is_empty() {
        lines.push(QueueCursor {
            queue: compiled.tree.branches.len(),
            works,
            next: 0,
            blocked: None,
            strict: false,
        });
    }
    lines
}

/// Order of queue heads in a round.
pub(super) enum HeadOrder {
    /// Heads that need not borrow first, then those that borrow at a lower height of the tree, then by rank.
    Plain(std::vec::IntoIter<(usize, WorkloadId)>),
    Fair(Fair),
}

/// The head of a queue, with what its scheduler nominates for it.
pub(super) struct NominatedHead {
    pub(super) line: usize,
    pub(super) work: WorkloadId,
    pub(super) nominated: Nominated,
}

impl HeadOrder {
    pub(super) fn new(state: &mut State<'_>, heads: Vec<NominatedHead>) -> Self {
        if state.compiled().snapshot.options.fair_sharing.is_some() {
            return Self::Fair(Fair::new(state, heads));
        }
        let mut keyed: Vec<((usize, Rank), (usize, WorkloadId))> = heads
            .into_iter()
            .map(|head| {
                let key = (head.nominated.height, rank(state, head.work));
                (key, (head.line, head.work))
            })
            .collect();
        keyed.sort_unstable();
        let order: Vec<(usize, WorkloadId)> = keyed.into_iter().map(|(_, head)| head).collect();
        Self::Plain(order.into_iter())
    }

    /// Next head to try.
    pub(super) fn next(&mut self, state: &mut State<'_>) -> Option<(usize, WorkloadId)> {
        match self {
            Self::Plain(order) => order.next(),
            Self::Fair(fair) => fair.next(state),
        }
    }

    /// Records that a head was tried.
    pub(super) fn done(&mut self, state: &mut State<'_>, work: WorkloadId, admitted: bool) {
        if let Self::Fair(fair) = self {
            fair.done(state, work, admitted);
        }
    }
}

/// What a scheduler nominates for a workload, before it is the workload's turn.
#[derive(Default)]
pub(crate) struct Nominated {
    /// Quota that it would use in its queue.
    pub(crate) usage: Vec<(PairId, i64)>,
    /// Height in the tree at which its queue would borrow; 0 if the queue's nominal quota suffices.
    pub(crate) height: usize,
}

impl Nominated {
    pub(crate) fn of_usage(state: &State<'_>, work: WorkloadId, usage: Vec<(PairId, i64)>) -> Self {
        let height = height_of(state, work, &usage);
        Self { usage, height }
    }
}

/// Whether a workload's queue is in a cohort.
pub(super) fn may_borrow(state: &State<'_>, work: WorkloadId) -> bool {
    let queue = state.compiled().workloads[work].queue;
    queue.is_some_and(|queue| state.tree().branches[queue].parent.is_some())
}

fn height_of(state: &State<'_>, work: WorkloadId, usage: &[(PairId, i64)]) -> usize {
    let Some(queue) = state.compiled().workloads[work].queue else {
        return 0;
    };
    let heights = usage
        .iter()
        .map(|&(pair, amount)| state.borrow_height(queue, pair, amount));
    heights.max().unwrap_or(0)
}

/// Kueue's fair-sharing tournament in every queue tree: each cohort picks the child that does not borrow what its workload requests,
/// then the one with the least share, including the workload that it nominates; then by priority, then by age.
pub(super) struct Fair {
    /// By queue: its line, its workload and that workload's usage.
    heads: BTreeMap<QueueId, Head>,
    /// Heads of queues without a cohort, in order; they do not compete.
    alone: Vec<(usize, WorkloadId)>,
    /// By queue or cohort: the winner below it.
    winners: BTreeMap<QueueId, Option<QueueId>>,
}

struct Head {
    line: usize,
    work: WorkloadId,
    rank: Rank,
    usage: Vec<(usize, i64)>,
}

impl Fair {
    fn new(state: &State<'_>, heads: Vec<NominatedHead>) -> Self {
        let mut fair = Self {
            heads: BTreeMap::new(),
            alone: Vec::new(),
            winners: BTreeMap::new(),
        };
        for NominatedHead {
            line,
            work,
            nominated,
        } in heads
        {
            let rank = rank(state, work);
            match state.compiled().workloads[work].queue {
                Some(queue) if state.tree().branches[queue].parent.is_some() => {
                    let head = Head {
                        line,
                        work,
                        rank,
                        usage: nominated.usage,
                    };
                    fair.heads.insert(queue, head);
                }
                _ => fair.alone.push((line, work)),
            }
        }
        fair.alone
            .sort_by_key(|(_, work)| Reverse(rank(state, *work)));
        fair
    }

    fn next(&mut self, state: &mut State<'_>) -> Option<(usize, WorkloadId)> {
        if let Some(turn) = self.alone.pop() {
            return Some(turn);
        }
        // One tree after the other: trees are independent.
        let first = *self.heads.keys().next()?;
        let root = state.tree().branches[first].root;
        let queue = self.winner(state, root)?;
        let head = self.heads.remove(&queue)?;
        // Recompute the winners on the path to the root.
        let path: Vec<QueueId> = state.tree().path(queue).collect();
        for up in path {
            self.winners.remove(&up);
        }
        Some((head.line, head.work))
    }

    fn done(&mut self, state: &State<'_>, work: WorkloadId, admitted: bool) {
        if let Some(queue) = state.compiled().workloads[work].queue.filter(|_| admitted) {
            for up in state.tree().path(queue) {
                self.winners.remove(&up);
            }
        }
    }

    fn winner(&mut self, state: &mut State<'_>, at: QueueId) -> Option<QueueId> {
        if let Some(known) = self.winners.get(&at) {
            return *known;
        }
        let own = self.heads.contains_key(&at).then_some(at);
        let children = state.tree().branches[at].children.clone();
        let mut best: Option<((bool, Share, Rank), QueueId)> = None;
        for child in children {
            let Some(queue) = self.winner(state, child) else {
                continue;
            };
            let head = &self.heads[&queue];
            let mark = state.mark();
            for &(pair, amount) in &head.usage {
                state.use_quota(queue, pair, amount);
            }
            // Who does not borrow what the head requests comes first. Source: `FairSharingPrioritizeNonBorrowing`.
            let mut requested = head.usage.iter().filter(|(_, amount)| *amount > 0);
            let borrows = requested.any(|(pair, _)| state.borrowed(child, *pair) > 0);
            let key = (borrows, state.share(child), head.rank);
            state.undo_to(mark);
            if best.as_ref().is_none_or(|best| key < best.0) {
                best = Some((key, queue));
            }
        }
        let winner = best.map(|(_, queue)| queue).or(own);
        self.winners.insert(at, winner);
        winner
    }
}
