//! Which start changes a plan causes. A forecast of a changed fleet draws other durations and groups other ends, so unrelated
//! jobs move by minutes, too; these changes are not reported.
//!
//! The rule: a change is reported where the job competes for pools, quotas or turns ([`engine::contended_resources`]) with something that the
//! plan changes, directly or through other waiting jobs, and where it moves by at least a minute and a sixteenth of the time left
//! until the start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::compiled::CompiledFleet;
use engine::contended_resources::{self, Contended};
use engine::snapshot::{Snapshot, Status, Workload};
use engine::state::State;
use model::base::Moment;
use model::fleet::job::JobKey;
use model::plan::StartChange;

/// Resolution of the forecast, as the inverse share of the time until a start: it merges ends within half of this share
/// (`forecast::PART`), before a change and after it.
const COARSE: i64 = 16;

/// What the workloads of a fleet compete for.
pub(crate) struct ContentionIndex {
    snapshot: Arc<Snapshot>,
    by_work: Vec<Arc<BTreeSet<Contended>>>,
    /// By queue: what changes with the queue.
    by_queue: Vec<BTreeSet<Contended>>,
}

impl ContentionIndex {
    pub(crate) fn of(compiled: &CompiledFleet) -> Self {
        let queues = compiled.snapshot.queues.iter();
        Self {
            snapshot: compiled.snapshot.clone(),
            by_work: contended_resources::reach(&mut State::new(compiled)),
            by_queue: queues
                .map(|queue| contended_resources::of_queue(compiled, queue))
                .collect(),
        }
    }

    fn workloads(&self) -> impl Iterator<Item = (&Workload, &BTreeSet<Contended>)> {
        let sets = self.by_work.iter().map(|set| &**set);
        self.snapshot.workloads.iter().zip(sets)
    }

    /// Adds the differences from another fleet to `changed`, and the resources that these workloads compete for here to `touched`.
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

/// Items that the other fleet lacks or has with other values, with their indexes.
fn unlike<'a, T: PartialEq, K: Ord + 'a>(
    own: &'a [T],
    others: &'a [T],
    key: impl Fn(&'a T) -> &'a K,
) -> impl Iterator<Item = (usize, &'a T)> {
    let known: BTreeMap<&K, &T> = others.iter().map(|one| (key(one), one)).collect();
    let all = own.iter().enumerate();
    all.filter(move |(_, one)| known.get(key(one)) != Some(one))
}

/// Jobs whose start a change of the fleet may move: changed ones, and those that compete with them.
pub(crate) struct Caused {
    changed: BTreeSet<JobKey>,
    reached: BTreeSet<JobKey>,
    now: Moment,
}

impl Caused {
    pub(crate) fn of(before: &ContentionIndex, after: &ContentionIndex) -> Self {
        let (mut touched, mut changed) = (BTreeSet::new(), BTreeSet::new());
        before.differs(after, &mut touched, &mut changed);
        after.differs(before, &mut touched, &mut changed);
        // Waiting jobs pass the change on: where such a job starts instead, others cannot.
        let moves = |work: &Workload| {
            let unplaced = work.sets.iter().all(|set| set.placements.is_empty());
            work.blocked.is_none()
                && (work.status == Status::Waiting || (work.status == Status::Running && unplaced))
        };
        let all = before.workloads().chain(after.workloads());
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

    /// Whether a change of a start is reported.
    pub(crate) fn is_caused(&self, key: &JobKey, change: &StartChange) -> bool {
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
