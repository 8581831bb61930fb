//! The search for victims: flavors, candidates until the workload fits, and removal of unnecessary victims.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::compiled::{FlavorId, NodeId, PairId, QueueId, WorkloadId};
use crate::snapshot::WHOLE;
use crate::state::{Allocation, State};

use super::candidate::{Candidate, candidates, may_do};
use super::fair::Tournament;
use super::holders::Holders;
use super::search_context::SearchContext;
use super::{NoPreemption, PreemptMode, PreemptionReason, Spared, Victim, Victims, exact, least};

/// A sufficient set of victims.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct VictimSet {
    /// Indices of candidates, in order of eviction.
    pub(super) taken: Vec<usize>,
    pub(super) allocation: Allocation,
}

impl VictimSet {
    /// Cost: device-milliseconds lost, then number of victims.
    pub(super) fn cost(&self, candidates: &[Candidate]) -> (i64, usize) {
        let lost = self.taken.iter().map(|at| candidates[*at].lost);
        (lost.fold(0, i64::saturating_add), self.taken.len())
    }
}

/// Parameters of a search.
pub(super) struct SearchOptions<'a> {
    /// How victims are selected.
    pub(super) mode: PreemptMode,
    /// Requires exactly this many pods of each set.
    pub(super) counts: Option<&'a [u32]>,
    pub(super) holders: &'a Holders,
    /// Workloads that must not be preempted.
    pub(super) spared: Spared<'a>,
}

/// Tries flavors in order and searches for victims in each.
pub(super) fn run(
    state: &mut State<'_>,
    work: WorkloadId,
    queue: QueueId,
    flavors: &[Vec<Vec<FlavorId>>],
    wanted: &SearchOptions<'_>,
) -> Result<Victims, NoPreemption> {
    let &SearchOptions {
        mode,
        holders,
        spared,
        ..
    } = wanted;
    let mut refusal = NoPreemption::Hopeless(Vec::new());
    let sets = &state.compiled().workloads[work].sets;
    let all: Vec<u32> = sets.iter().map(|set| set.count).collect();
    let fewest = sets.iter().map(|set| set.min.max(1).min(set.count));
    let fewest: Vec<u32> = fewest.collect();
    let tries: Vec<Vec<u32>> = match (wanted.counts, mode) {
        (Some(counts), _) => vec![counts.to_vec()],
        (None, PreemptMode::AsCluster) if all != fewest => vec![all, fewest],
        (None, _) => vec![fewest],
    };
    for counts in tries {
        let mut best: Option<((i64, i64), Victims)> = None;
        let mut all_proven = true;
        for own in flavors {
            let counts = counts.clone();
            let Some(mut context) = SearchContext::of(state, work, queue, own, counts, mode) else {
                continue;
            };
            if wanted.counts.is_some() {
                context = context.with_topologies(state);
            }
            let mut some = candidates(state, &context, holders, spared);
            if some.list.is_empty() {
                if matches!(refusal, NoPreemption::Hopeless(_)) {
                    refusal = NoPreemption::Protected;
                }
                continue;
            }
            if !may_do(state, &context, &some.list) {
                refusal = NoPreemption::TooFew;
                continue;
            }
            let found = match mode {
                PreemptMode::AsCluster => {
                    as_cluster(state, &context, &some.list, &some.tries).map(|found| (found, false))
                }
                PreemptMode::Least | PreemptMode::ByHand => {
                    some.weigh(state);
                    let (found, proven) = least::least(state, &context, &some.list, &some.tries);
                    all_proven &= proven;
                    found.map(|found| (found, proven))
                }
            };
            let Some((found, _)) = found else {
                refusal = NoPreemption::TooFew;
                continue;
            };
            let borrows = context_borrows(state, &context, &found, &some.list);
            let victims = victims(state, &found, &some.list);
            let key = match mode {
                PreemptMode::Least | PreemptMode::ByHand => {
                    (victims.lost_ms, victims.list.len() as i64)
                }
                PreemptMode::AsCluster => {
                    // Reclaiming comes before preemption in its own queue, and that before borrowing.
                    let inside = victims
                        .list
                        .iter()
                        .any(|it| it.reason == PreemptionReason::InQueue);
                    (i64::from(inside), i64::from(borrows))
                }
            };
            if best.as_ref().is_none_or(|best| key < best.0) {
                best = Some((key, victims));
            }
        }
        if let Some((_, mut victims)) = best {
            victims.proven = mode.is_least() && all_proven;
            return Ok(victims);
        }
    }
    Err(refusal)
}

/// Victims with which a workload fits nodes, with these flavors and pod counts.
pub(crate) fn for_nodes(
    state: &mut State<'_>,
    (work, queue): (WorkloadId, QueueId),
    (flavors, counts): (&[Vec<FlavorId>], &[u32]),
    holders: &Holders,
    spared: Spared<'_>,
) -> Result<Victims, NoPreemption> {
    let wanted = SearchOptions {
        mode: PreemptMode::AsCluster,
        counts: Some(counts),
        holders,
        spared,
    };
    run(state, work, queue, &[flavors.to_vec()], &wanted)
}

/// Victims with which a part of a workload's quota suffices, as Kueue chooses them; nodes are ignored.
pub(crate) fn for_quota(
    state: &mut State<'_>,
    (work, queue): (WorkloadId, QueueId),
    (flavors, counts): (&[Vec<FlavorId>], &[u32]),
    usage: Vec<(PairId, i64)>,
    holders: &Holders,
    spared: Spared<'_>,
) -> Result<Victims, NoPreemption> {
    let mode = PreemptMode::AsCluster;
    let (own, counts) = ((work, queue), counts.to_vec());
    let Some(mut context) = SearchContext::for_usage(state, own, flavors, counts, usage, mode)
    else {
        return Err(NoPreemption::Hopeless(Vec::new()));
    };
    context.relaxation.no_nodes = true;
    let some = candidates(state, &context, holders, spared);
    if some.list.is_empty() {
        return Err(NoPreemption::Protected);
    }
    if !may_do(state, &context, &some.list) {
        return Err(NoPreemption::TooFew);
    }
    let found = as_cluster(state, &context, &some.list, &some.tries);
    let found = found.ok_or(NoPreemption::TooFew)?;
    Ok(victims(state, &found, &some.list))
}

fn victims(state: &State<'_>, found: &VictimSet, list: &[Candidate]) -> Victims {
    let taken = found.taken.iter().map(|at| &list[*at]);
    let (ending, evicted): (Vec<&Candidate>, Vec<&Candidate>) = taken.partition(|one| one.ending);
    let list: Vec<Victim> = evicted.iter().map(|one| one.victim(state)).collect();
    let lost = list.iter().map(|victim| victim.lost_ms);
    Victims {
        lost_ms: lost.fold(0, i64::saturating_add),
        list,
        ending: ending.iter().map(|one| one.work).collect(),
        allocation: Arc::new(found.allocation.clone()),
        proven: false,
    }
}

fn context_borrows(
    state: &mut State<'_>,
    context: &SearchContext,
    found: &VictimSet,
    list: &[Candidate],
) -> bool {
    let mark = state.mark();
    for at in &found.taken {
        state.evict(list[*at].work);
    }
    for &(pair, amount) in &found.allocation.usage {
        state.use_quota(context.queue, pair, amount);
    }
    let borrows = context.borrows(state, &found.allocation);
    state.undo_to(mark);
    borrows
}

/// Selects as Kueue does.
pub(super) fn as_cluster(
    state: &mut State<'_>,
    context: &SearchContext,
    list: &[Candidate],
    tries: &[bool],
) -> Option<VictimSet> {
    let fair = state.compiled().snapshot.options.fair_sharing.is_some();
    if fair {
        let mut tournament = Tournament::new(context, list);
        let found = take(state, context, list, true, |state| tournament.next(state))?;
        return Some(give_back(state, context, list, found, true, None));
    }
    tries.iter().find_map(|&borrow| {
        let found = in_order(
            state,
            context,
            list,
            borrow,
            &(0..list.len()).collect::<Vec<_>>(),
        )?;
        Some(give_back(state, context, list, found, borrow, None))
    })
}

/// Selects candidates in the given order, each that is eligible at that point, until the workload fits.
pub(super) fn in_order(
    state: &mut State<'_>,
    context: &SearchContext,
    list: &[Candidate],
    borrow: bool,
    order: &[usize],
) -> Option<VictimSet> {
    let mut next = order.iter().copied();
    take(state, context, list, borrow, |state| {
        let at = next.find(|at| list[*at].may_go(state, context, borrow))?;
        state.evict(list[at].work);
        Some(at)
    })
}

/// Takes candidates from `next` until the workload fits: the shortest prefix. Tests after 1, 2, 4 ... of them, then backwards.
fn take<'p>(
    state: &mut State<'p>,
    context: &SearchContext,
    list: &[Candidate],
    borrow: bool,
    mut next: impl FnMut(&mut State<'p>) -> Option<usize>,
) -> Option<VictimSet> {
    let start = state.mark();
    let mut taken: Vec<usize> = Vec::new();
    let (mut no, mut look_at) = (0, 1);
    loop {
        let more = next(state);
        taken.extend(more);
        if more.is_some() && taken.len() < look_at {
            continue;
        }
        if context.fits(state, borrow) {
            break;
        }
        if more.is_none() {
            state.undo_to(start);
            return None;
        }
        no = taken.len();
        look_at = no * 2;
    }
    let mut yes = taken.len();
    state.undo_to(start);
    let evict = |state: &mut State<'p>, some: &[usize]| {
        for at in some {
            state.evict(list[*at].work);
        }
    };
    evict(state, &taken[..no.min(yes)]);
    while yes - no > 1 {
        let middle = no.midpoint(yes);
        let mark = state.mark();
        evict(state, &taken[no..middle]);
        if context.fits(state, borrow) {
            yes = middle;
            state.undo_to(mark);
        } else {
            no = middle;
        }
    }
    evict(state, &taken[no..yes]);
    let allocation = context.start(state, borrow);
    state.undo_to(start);
    taken.truncate(yes);
    Some(VictimSet {
        taken,
        allocation: allocation?,
    })
}

/// Removes victims without which the workload still fits: in the given order, or else from the last but one to the first.
pub(super) fn give_back(
    state: &mut State<'_>,
    context: &SearchContext,
    list: &[Candidate],
    found: VictimSet,
    borrow: bool,
    order: Option<&[usize]>,
) -> VictimSet {
    let start = state.mark();
    let VictimSet {
        mut taken,
        allocation,
    } = found;
    let mut held: Vec<Option<Arc<Allocation>>> = vec![None; list.len()];
    for &at in &taken {
        held[at] = state.evict(list[at].work);
    }
    let mut allocation = Arc::new(allocation);
    state.admit(context.work, allocation.clone());
    let mut nodes: BTreeSet<NodeId> = allocation.nodes().into_iter().collect();
    let reverse: Vec<usize> = taken.iter().rev().skip(1).copied().collect();
    let mut gone: BTreeSet<usize> = BTreeSet::new();
    for &at in order.unwrap_or(&reverse) {
        let Some(theirs) = held[at].clone() else {
            continue;
        };
        let mark = state.mark();
        state.admit(list[at].work, theirs.clone());
        if stays_placed(state, context, &allocation, &theirs, &nodes, borrow) {
            gone.insert(at);
            continue;
        }
        state.undo_to(mark);
        state.evict(context.work);
        state.admit(list[at].work, theirs);
        if let Some(other) = context.start(state, borrow) {
            allocation = Arc::new(other);
            state.allocate(context.work, allocation.clone());
            nodes = allocation.nodes().into_iter().collect();
            gone.insert(at);
        } else {
            state.undo_to(mark);
        }
    }
    state.undo_to(start);
    taken.retain(|at| !gone.contains(at));
    VictimSet {
        taken,
        allocation: Allocation::clone(&allocation),
    }
}

/// Whether the placed workload can stay with one victim restored.
fn stays_placed(
    state: &State<'_>,
    context: &SearchContext,
    allocation: &Allocation,
    theirs: &Allocation,
    nodes: &BTreeSet<NodeId>,
    borrow: bool,
) -> bool {
    let quota = |&(pair, _): &(usize, i64)| state.available(context.queue, pair) >= 0;
    let sound = |node: NodeId| {
        let room = state.node_free(node);
        let left = state.left(node);
        room.cpu >= 0 && room.memory >= 0 && left.iter().all(|left| (0..=WHOLE).contains(left))
    };
    allocation.usage.iter().all(quota)
        && (borrow || !context.borrows(state, allocation))
        && theirs
            .nodes()
            .into_iter()
            .all(|node| !nodes.contains(&node) || sound(node))
}

/// Whether these may be preempted one after the other, each eligible at that point: those of the preemptor's own queue first,
/// then the smallest first, since each leaves less to preempt. Returns them in that order.
pub(super) fn lawful(
    state: &mut State<'_>,
    context: &SearchContext,
    list: &[Candidate],
    borrow: bool,
    taken: &[usize],
) -> Option<Vec<usize>> {
    let size = |at: usize| {
        let allocation = state.allocation(list[at].work);
        let pair = context.short.first();
        let uses = |allocation: &Arc<Allocation>| {
            pair.map_or(0, |pair| super::candidate::uses(allocation, *pair))
        };
        allocation.map_or(0, uses)
    };
    let mut order: Vec<(bool, i64, usize)> = taken
        .iter()
        .map(|&at| (!list[at].own, size(at), at))
        .collect();
    order.sort_unstable();
    let mark = state.mark();
    let mut lawful = true;
    for &(_, _, at) in &order {
        if !list[at].may_go(state, context, borrow) {
            lawful = false;
            break;
        }
        state.evict(list[at].work);
    }
    state.undo_to(mark);
    lawful.then(|| order.into_iter().map(|(_, _, at)| at).collect())
}

/// The preemptor's allocation after these evictions, if they are eligible and sufficient.
pub(super) fn makes_room(
    state: &mut State<'_>,
    context: &SearchContext,
    list: &[Candidate],
    borrow: bool,
    taken: &[usize],
) -> Option<VictimSet> {
    let taken = lawful(state, context, list, borrow, taken)?;
    let mark = state.mark();
    for &at in &taken {
        state.evict(list[at].work);
    }
    let allocation = context.start(state, borrow);
    state.undo_to(mark);
    Some(VictimSet {
        taken,
        allocation: allocation?,
    })
}

/// The same, if every candidate is necessary.
pub(super) fn needs_all(
    state: &mut State<'_>,
    context: &SearchContext,
    list: &[Candidate],
    borrow: bool,
    taken: &[usize],
) -> Option<VictimSet> {
    let found = makes_room(state, context, list, borrow, taken)?;
    let in_vain = taken.iter().any(|spared| {
        let mark = state.mark();
        for at in taken.iter().filter(|at| *at != spared) {
            state.evict(list[*at].work);
        }
        let fits = context.fits(state, borrow);
        state.undo_to(mark);
        fits
    });
    (!in_vain).then_some(found)
}

/// The smallest set by exhaustive search, if there are few candidates; with whether the search was complete.
pub(super) fn exhaustive(
    state: &mut State<'_>,
    context: &SearchContext,
    list: &[Candidate],
    tries: &[bool],
    start: Option<VictimSet>,
) -> (Option<VictimSet>, bool) {
    let mut best = start;
    let mut proven = true;
    for &borrow in tries {
        let (found, all) = exact::exact(state, context, list, borrow, best.take());
        best = found;
        proven &= all;
    }
    (best, proven)
}
