//! Who may be made to go for a workload, in the order in which Kueue looks at them.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::compiled::{PairId, QueueId, WorkloadId};
use crate::fit::{Gate, Reach, Relaxation};
use crate::snapshot::{Borrow, Preemption, Queue, Reclaim, Status, Within};
use crate::state::{Allocation, State};
use model::base::Moment;

use super::search_context::SearchContext;
use super::{Reason, Victim};

/// Somebody who may be made to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub(super) work: WorkloadId,
    /// Its queue.
    pub(super) queue: QueueId,
    pub(super) reason: Reason,
    /// It is of the workload's own queue.
    pub(super) own: bool,
    /// Where the way up from its queue meets that of the workload's.
    meet: QueueId,
    /// Only if the workload then borrows nothing.
    only_own: bool,
    /// Device-milliseconds lost; nothing while nobody asks for the least.
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

    /// Whether it may be taken as things are now: its queue, and those around it that do not hold the workload's, use more
    /// than their own.
    pub(super) fn may_go(
        &self,
        state: &mut State<'_>,
        scene: &SearchContext,
        borrow: bool,
    ) -> bool {
        if self.own {
            return true;
        }
        if state.compiled().snapshot.options.fair_sharing.is_some() {
            return super::fair::evens_out(state, scene, self);
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
            .any(|node| scene.is_within_own(state, node))
    }
}

/// What a tenure uses of a pair.
pub(super) fn uses(allocation: &Allocation, pair: PairId) -> i64 {
    let mut usage = allocation.usage.iter();
    usage
        .find(|(of, _)| *of == pair)
        .map_or(0, |(_, amount)| *amount)
}

/// Candidates, and whether to look for a set with which the workload may borrow (true), or need not (false), in order.
pub(super) struct Candidates {
    pub(super) list: Vec<Candidate>,
    pub(super) tries: Vec<bool>,
}

impl Candidates {
    /// Works out what going loses of each.
    pub(super) fn weigh(&mut self, state: &State<'_>) {
        for candidate in &mut self.list {
            candidate.lost = state.lost_ms(candidate.work);
        }
    }
}

/// Those that hold something, by queue.
#[derive(Debug)]
pub(crate) struct Holders(Vec<Vec<WorkloadId>>);

impl Holders {
    /// As things are now.
    pub(crate) fn new(state: &State<'_>) -> Self {
        let mut queues = vec![Vec::new(); state.tree().branches.len()];
        for work in state.holders() {
            let allocation = state.allocation(work);
            if let Some(queue) = allocation.and_then(|allocation| allocation.queue) {
                queues[queue].push(work);
            }
        }
        Self(queues)
    }
}

/// All candidates of a scene.
pub(super) fn candidates(
    state: &mut State<'_>,
    scene: &SearchContext,
    holders: &Holders,
    spared: &dyn Fn(WorkloadId) -> bool,
) -> Candidates {
    let fair = state.compiled().snapshot.options.fair_sharing.is_some();
    let mut hierarchical: Vec<Candidate> = Vec::new();
    let mut others: Vec<Candidate> = Vec::new();
    let mut own: Vec<Candidate> = Vec::new();
    let meets = meets(state, scene);
    let gates: Vec<Arc<Gate>> = (0..scene.flavors.len())
        .map(|set| {
            let constraint = state.compiled().works[scene.work].sets[set].constraint;
            state.gate(constraint, &scene.flavors[set], &Relaxation::default())
        })
        .collect();
    for (queue, works) in holders.0.iter().enumerate() {
        if works.is_empty() {
            continue;
        }
        let Some(side) = side(state, scene, queue, &meets) else {
            continue;
        };
        for &work in works {
            let Some(candidate) = candidate(state, scene, work, queue, side, fair) else {
                continue;
            };
            if spared(work) || !is_of_use(state, scene, work, &gates) {
                continue;
            }
            match side {
                Side::Own => own.push(candidate),
                Side::Other { claim: true, .. } => hierarchical.push(candidate),
                Side::Other { .. } => others.push(candidate),
            }
        }
    }
    let none_of_others = hierarchical.is_empty() && others.is_empty();
    let tries = if fair {
        vec![true]
    } else {
        let no_borrowing = scene.rules.borrow == Borrow::Never;
        if none_of_others || no_borrowing && !scene.is_under_own(state) {
            vec![true]
        } else if no_borrowing && hierarchical.is_empty() {
            vec![false, true]
        } else {
            vec![true, false]
        }
    };
    let mut list = Vec::new();
    for mut part in [hierarchical, others, own] {
        part.sort_by_key(|candidate| rank(state, candidate));
        list.append(&mut part);
    }
    if fair {
        list.sort_by_key(|candidate| rank(state, candidate));
    }
    Candidates { list, tries }
}

/// Other queues first, then the lower priority, then the more recently admitted.
fn rank(state: &State<'_>, candidate: &Candidate) -> (bool, i32, Reverse<Moment>, WorkloadId) {
    let since = state.since(candidate.work).unwrap_or(state.now());
    let priority = state.priority(candidate.work);
    (candidate.own, priority, Reverse(since), candidate.work)
}

/// Per queue above the workload's, or itself: whether it is, and whether the workload has a claim on all below it that is
/// older than anybody's priority: it fits in what a subtree below has of its own.
fn meets(state: &State<'_>, scene: &SearchContext) -> Vec<(bool, bool)> {
    let mut out = vec![(false, false); state.tree().branches.len()];
    let mut left = scene.usage.clone();
    let mut claim = false;
    for node in state.tree().path(scene.queue) {
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

/// Where a queue stands to that of the workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    /// It is the same.
    Own,
    /// It is another, and uses more than its own.
    Other {
        /// Where their ways up meet.
        meet: QueueId,
        /// The workload has a claim on all below.
        claim: bool,
    },
}

/// Where a queue stands; nothing where nobody of it may be taken.
fn side(
    state: &State<'_>,
    scene: &SearchContext,
    queue: QueueId,
    meets: &[(bool, bool)],
) -> Option<Side> {
    let branches = &state.tree().branches;
    if scene.by_hand || queue == scene.queue || scene.nameless && branches[queue].nameless {
        return (scene.rules.within != Within::Never).then_some(Side::Own);
    }
    if scene.rules.reclaim == Reclaim::Never || branches[queue].root != branches[scene.queue].root {
        return None;
    }
    let meet = state.tree().path(queue).find(|node| meets[*node].0)?;
    let mut around = state.tree().path(queue).take_while(|node| *node != meet);
    if around.any(|node| scene.is_within_own(state, node)) {
        return None;
    }
    let claim = meets[meet].1;
    Some(Side::Other { meet, claim })
}

fn candidate(
    state: &State<'_>,
    scene: &SearchContext,
    work: WorkloadId,
    queue: QueueId,
    side: Side,
    fair: bool,
) -> Option<Candidate> {
    let standing = state.standing(work);
    let mine = state.priority(scene.work);
    // Most are told apart by their priority: the rest of them, far away in memory, is not read.
    let came_later = || state.workload(work).created > state.workload(scene.work).created;
    let rule_allows = match side {
        Side::Own => scene
            .rules
            .within
            .takes(mine, standing.priority, came_later),
        Side::Other { .. } => match scene.rules.reclaim {
            Reclaim::Never => false,
            Reclaim::LowerPriority => standing.priority < mine,
            Reclaim::Any => true,
        },
    };
    if !rule_allows || standing.allocation.is_none() || standing.status != Status::Running {
        return None;
    }
    let model = state.workload(work);
    if !model.preemptible || work == scene.work {
        return None;
    }
    let plain = Candidate {
        work,
        queue,
        reason: match scene.by_hand {
            true => Reason::ByHand,
            false => Reason::InQueue,
        },
        own: true,
        meet: scene.queue,
        only_own: false,
        lost: 0,
    };
    let Side::Other { meet, claim } = side else {
        let alone = || {
            let told = |queue: &Queue| queue.left_alone.preempt_ms;
            is_left_alone(state, work, first_told(state, queue, told))
        };
        let may = match scene.by_hand {
            true => model.levers.suspend,
            false => !alone(),
        };
        return may.then_some(plain);
    };
    // The queue right below where the ways meet, or what those above it say.
    let below = state.tree().path(queue).take_while(|node| *node != meet);
    let told = |queue: &Queue| queue.left_alone.reclaim_ms;
    let least = first_told(state, below.last().unwrap_or(queue), told);
    if is_left_alone(state, work, least) {
        return None;
    }
    let borrows = may_borrow(&scene.rules, standing.priority, mine);
    let reason = match (fair, claim, borrows) {
        (true, _, _) if scene.within_nominal => Reason::Reclaim,
        (true, _, _) => Reason::FairSharing,
        (_, true, _) | (_, _, false) => Reason::Reclaim,
        _ => Reason::ReclaimWhileBorrowing,
    };
    Some(Candidate {
        reason,
        own: false,
        meet,
        only_own: !fair && !claim && !borrows,
        ..plain
    })
}

/// What a queue says, or else the first above it.
fn first_told(
    state: &State<'_>,
    queue: QueueId,
    told: impl Fn(&Queue) -> Option<i64>,
) -> Option<i64> {
    let known = &state.compiled().snapshot.queues;
    state.tree().path(queue).find_map(|up| told(known.get(up)?))
}

/// Whether a workload has not run long enough to be taken. One of which nobody knows since when it runs has.
fn is_left_alone(state: &State<'_>, work: WorkloadId, least: Option<i64>) -> bool {
    let ran = state
        .since(work)
        .map(|since| state.now().millis().saturating_sub(since.millis()));
    least.zip(ran).is_some_and(|(least, ran)| ran < least)
}

/// Whether one of a priority may be taken for one that borrows.
fn may_borrow(rules: &Preemption, theirs: i32, mine: i32) -> bool {
    rules.borrow == Borrow::LowerPriority
        && theirs < mine
        && rules.borrow_threshold.is_none_or(|most| theirs <= most)
}

/// Whether its going frees anything that the workload lacks: quota that is short, or room where it may go.
fn is_of_use(
    state: &State<'_>,
    scene: &SearchContext,
    work: WorkloadId,
    gates: &[Arc<Gate>],
) -> bool {
    let Some(allocation) = state.allocation(work) else {
        return false;
    };
    let same_tree = allocation.queue.is_some_and(|queue| {
        state.tree().branches[queue].root == state.tree().branches[scene.queue].root
    });
    let quota = same_tree && scene.short.iter().any(|pair| uses(allocation, *pair) > 0);
    if !scene.by_hand && (scene.by_quota || !quota && !scene.short.is_empty()) {
        return quota;
    }
    if quota && scene.by_quota {
        return true;
    }
    // Only room is short.
    let compiled = state.compiled();
    gates.iter().any(|gate| {
        let placements = allocation.sets.iter().flat_map(|set| &set.placements);
        let mut rooms = placements.map(|placement| state.room(placement.node));
        rooms.any(|room| room.open && gate[compiled.makes[room.make].zone])
    })
}

/// Whether there may be enough if all candidates go: sums that cost far less than trying.
pub(super) fn may_do(state: &mut State<'_>, scene: &SearchContext, list: &[Candidate]) -> bool {
    for &(pair, amount) in &scene.usage {
        let mut free = state.available(scene.queue, pair);
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
    if state.nodes() == 0 || scene.relaxation.no_nodes {
        return true;
    }
    (0..scene.flavors.len()).all(|set| {
        let flavors = &scene.flavors[set];
        let mut reach = Reach::new(state, scene.work, set, flavors, scene.counts[set]);
        for candidate in list {
            if reach.may_fit() {
                break;
            }
            reach.release(state, candidate.work);
        }
        reach.may_fit()
    })
}
