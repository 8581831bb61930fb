//! Which starts a plan moves. A forecast of another fleet draws other runtimes and groups other ends: a job that shares nothing with
//! what the plan touches then moves by minutes too, and that is told of nobody.
//!
//! The rule: a start is told where the job competes for pools, quotas or turns ([`engine::reach`]) with what the plan changes, at first hand
//! or by way of others that wait, and where it moves by a minute and by a sixteenth of the time that is left until then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::compiled::CompiledFleet;
use engine::reach::{self, Contended};
use engine::snapshot::{Snapshot, Status, Workload};
use engine::state::State;
use model::base::Moment;
use model::fleet::job::JobKey;
use model::plan::StartChange;

/// Of the time until a start, so much is no more than the forecast's own coarseness: it takes ends together within half of it
/// (`forecast::PART`), before a change and after it.
const COARSE: i64 = 16;

/// What the works of a fleet compete for.
pub(super) struct Reach {
    snapshot: Arc<Snapshot>,
    by_work: Vec<Arc<BTreeSet<Contended>>>,
    /// By queue: what changes with it.
    by_queue: Vec<BTreeSet<Contended>>,
}

impl Reach {
    pub(super) fn of(compiled: &CompiledFleet) -> Self {
        let queues = compiled.snapshot.queues.iter();
        Self {
            snapshot: compiled.snapshot.clone(),
            by_work: reach::reach(&mut State::new(compiled)),
            by_queue: queues
                .map(|queue| reach::of_queue(compiled, queue))
                .collect(),
        }
    }

    fn works(&self) -> impl Iterator<Item = (&Workload, &BTreeSet<Contended>)> {
        let sets = self.by_work.iter().map(|set| &**set);
        self.snapshot.workloads.iter().zip(sets)
    }

    /// What differs from another fleet, and what that touches here.
    fn differs(
        &self,
        other: &Self,
        touched: &mut BTreeSet<Contended>,
        changed: &mut BTreeSet<JobKey>,
    ) {
        let (own, others) = (&self.snapshot, &other.snapshot);
        for (_, node) in unlike(&own.nodes, &others.nodes, |node| &node.name) {
            touched.insert(Contended::Pool(node.pool.clone()));
        }
        for (at, _) in unlike(&own.queues, &others.queues, |queue| &queue.name) {
            touched.extend(self.by_queue[at].iter().cloned());
        }
        for (at, work) in unlike(&own.workloads, &others.workloads, |work| &work.key) {
            changed.insert(work.key.clone());
            touched.extend(self.by_work[at].iter().cloned());
            let placed = work.sets.iter().flat_map(|set| &set.placements);
            touched.extend(placed.filter_map(|pod| {
                let at = own.nodes.binary_search_by(|node| node.name.cmp(&pod.node));
                Some(Contended::Pool(own.nodes[at.ok()?].pool.clone()))
            }));
        }
    }
}

/// Those that another fleet has not, or has otherwise, with their places.
fn unlike<'a, T: PartialEq, K: Ord + 'a>(
    own: &'a [T],
    others: &'a [T],
    key: impl Fn(&'a T) -> &'a K,
) -> impl Iterator<Item = (usize, &'a T)> {
    let known: BTreeMap<&K, &T> = others.iter().map(|one| (key(one), one)).collect();
    let all = own.iter().enumerate();
    all.filter(move |(_, one)| known.get(key(one)) != Some(one))
}

/// Whose start a change from one fleet to another may move: what it changes itself, and what competes with that.
pub(super) struct Caused {
    changed: BTreeSet<JobKey>,
    reached: BTreeSet<JobKey>,
    now: Moment,
}

impl Caused {
    pub(super) fn of(before: &Reach, after: &Reach) -> Self {
        let (mut touched, mut changed) = (BTreeSet::new(), BTreeSet::new());
        before.differs(after, &mut touched, &mut changed);
        after.differs(before, &mut touched, &mut changed);
        // Who waits hands on what it is touched by: where it starts instead, others do not.
        let moves = |work: &Workload| {
            let unplaced = work.sets.iter().all(|set| set.placements.is_empty());
            work.status == Status::Waiting || (work.status == Status::Running && unplaced)
        };
        let all = before.works().chain(after.works());
        let mut waiting: Vec<(&Workload, &BTreeSet<Contended>)> =
            all.filter(|(work, _)| moves(work)).collect();
        let mut reached = BTreeSet::new();
        loop {
            let (near, far): (Vec<_>, Vec<_>) = waiting
                .into_iter()
                .partition(|(_, own)| !own.is_disjoint(&touched));
            if near.is_empty() {
                break;
            }
            for (work, own) in near {
                reached.insert(work.key.clone());
                touched.extend(own.iter().cloned());
            }
            waiting = far;
        }
        Self {
            changed,
            reached,
            now: after.snapshot.at,
        }
    }

    /// Whether a start that moves is told.
    pub(super) fn tells(&self, key: &JobKey, change: &StartChange) -> bool {
        if self.changed.contains(key) {
            return true;
        }
        let moves = match (change.before, change.after) {
            (Some(before), Some(after)) => {
                let ahead = before.max(after).millis() - self.now.millis();
                (before.millis() - after.millis()).abs() > ahead / COARSE
            }
            _ => true,
        };
        self.reached.contains(key) && moves && change.is_notable()
    }
}
