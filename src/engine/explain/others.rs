//! Changes that are others' to make: an operator requeues jobs, opens nodes that are cordoned, or resumes a queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::compiled::{CompiledFleet, NodeId, QueueId, WorkloadId};
use crate::cycle::{self, Known};
use crate::fit::Relaxation;
use crate::preempt::{Holders, Mode, Victim, evicted};
use crate::snapshot::{Snapshot, Status, Stop};
use crate::state::State;
use model::base::SmallSort;
use model::fleet::job::JobKey;
use model::plan::{Evicted, JobName};

use super::change::{Change, Unblock, job};
use super::exact::is_small;
use super::{Explainer, reckon};

/// For so many workloads of one fleet it is asked whom an operator may requeue: that costs far more than a turn.
pub(super) const MOST_BY_HAND: usize = 24;

/// With more workloads than this it is not asked at all.
const MOST_WORKS: usize = 4_000;

/// Of so many it is tried whether each has to go.
const MOST_SPARED: usize = 16;

/// Most cordoned nodes that are looked at.
const MOST_CLOSED: usize = 64;

impl Explainer<'_> {
    /// The jobs behind it that, requeued by an operator, let it start with the least work lost.
    pub(super) fn preempt(&mut self, work: WorkloadId) -> Option<Unblock> {
        let compiled = self.state.compiled();
        let too_many = compiled.works.len() > MOST_WORKS;
        if self.by_hand == 0 || too_many || !self.affords(work, 2, None) {
            return None;
        }
        self.by_hand -= 1;
        // Those that start before it hold something by then; whoever just started is not taken off again.
        let holders = Holders::new(&self.state);
        let fresh = |other: WorkloadId| self.state.allocation(other).is_none();
        let found = self
            .settled
            .victims_except(work, (Mode::ByHand, false), &holders, &fresh);
        let mut list = found.ok()?.list;
        // Pods behind all queues find nodes before what is queued again is admitted and has pods.
        let queue = compiled.works[work].queue;
        let behind_queues = queue.is_some_and(|queue| self.state.tree().branches[queue].nameless);
        let helps = |scene: &mut Self, list: &[Victim]| {
            let known = behind_queues.then(|| Known {
                lines: scene.lines.clone(),
                durations: scene.durations.clone(),
            });
            let starts = scene.starts_with(work, None, known, |state| {
                for victim in list {
                    state.evict(victim.work);
                }
            });
            // Who is evicted besides would be no choice of the operator's.
            starts.is_some_and(|more| more.is_empty())
        };
        if !helps(self, &list) {
            return None;
        }
        // The dearest first: whoever can stay does.
        let mut order: Vec<WorkloadId> = list.iter().map(|victim| victim.work).collect();
        order.small_sort_by_key(|other| std::cmp::Reverse(self.state.lost_ms(*other)));
        // Of many the search itself has given back those who are not needed.
        let mut proven = list.len() <= MOST_SPARED;
        for spared in order {
            if list.len() < 2 || !proven {
                break;
            }
            if !self.affords(work, 1, None) {
                proven = false;
                break;
            }
            let mut fewer = list.clone();
            fewer.retain(|victim| victim.work != spared);
            if helps(self, &fewer) {
                list = fewer;
            }
        }
        let jobs = list.iter().map(|it| job(&compiled.workload(it.work).key));
        let jobs: Vec<JobName> = jobs.collect();
        if !self.outlasts(&compiled.workload(work).key, &jobs) {
            return None;
        }
        let change = Change::Preempt { jobs };
        let victims = evicted(compiled, &list);
        Some(Unblock::evicting(vec![change], proven, victims))
    }

    /// Whether no one else can take what these jobs leave before one behind the queues does. Jobs do not end at one moment: while
    /// the nodes of a gang become free one by one, pods of others are bound to them.
    pub(super) fn outlasts(&self, key: &JobKey, jobs: &[JobName]) -> bool {
        let Some(queued) = &self.queued else {
            return true;
        };
        let mut works = queued.snapshot.workloads.iter();
        let Some(model) = works.find(|work| work.key == *key) else {
            return false;
        };
        // One pod is bound at the moment at which one other job is gone.
        if jobs.len() < 2 && model.sets.iter().map(|set| set.count).sum::<u32>() < 2 {
            return true;
        }
        let compile = || CompiledFleet::new(queued.snapshot.clone());
        let compiled = queued.compiled.get_or_init(compile);
        let Some(work) = compiled.work(key) else {
            return false;
        };
        let mut state = State::new(compiled);
        let mut freed: BTreeSet<NodeId> = BTreeSet::new();
        let holders: Vec<WorkloadId> = state.holders().collect();
        for other in holders {
            if jobs.contains(&job(&compiled.workload(other).key)) {
                freed.extend(
                    state
                        .evict(other)
                        .iter()
                        .flat_map(|allocation| allocation.nodes()),
                );
                state.set_status(other, Status::Held);
            }
        }
        for node in 0..state.nodes() {
            if !freed.contains(&node) {
                state.set_open(node, false);
            }
        }
        // Whom queues admit by the quota that is left, and who waits for nodes like this one.
        let cycle = cycle::cycle(&mut state, super::AS_DONE);
        if cycle
            .admitted
            .iter()
            .any(|one| !one.allocation.nodes().is_empty())
        {
            return false;
        }
        let relaxation = Relaxation {
            no_quota: true,
            ..Relaxation::default()
        };
        let mut others = cycle::unplaced(&state, &cycle.quota_reserved);
        others.retain(|other| *other != work);
        // One of its pods is enough.
        let mut takes = |other: WorkloadId| {
            let allocation = state.evict(other)?;
            let queue = allocation.queue?;
            let mut sets = allocation.sets.iter().enumerate();
            sets.find_map(|(set, held)| {
                state.start_fewer(other, set, queue, &held.flavors, (1, 1), &relaxation)
            })
        };
        others.into_iter().all(|other| takes(other).is_none())
    }

    /// As few cordoned nodes as will do, those with most room first.
    pub(super) fn uncordon(&mut self, work: WorkloadId) -> Option<Unblock> {
        let closed = self.closed(work);
        if closed.is_empty() || !self.affords(work, 2, None) {
            return None;
        }
        let opened = |scene: &mut Self, nodes: &[NodeId]| {
            scene.starts_if(work, None, |state| {
                for node in nodes {
                    state.set_open(*node, true);
                }
            })
        };
        let mut victims = opened(self, &closed)?;
        let (mut no, mut yes) = (0, closed.len());
        let mut proven = true;
        while yes - no > 1 && proven {
            proven = self.affords(work, 1, None);
            let middle = usize::midpoint(no, yes);
            match opened(self, &closed[..middle]) {
                Some(fewer) => (yes, victims) = (middle, fewer),
                None => no = middle,
            }
        }
        let mut nodes = closed[..yes].to_vec();
        let mut at = 0;
        while at < nodes.len() && nodes.len() > 1 && proven {
            proven = self.affords(work, 1, None);
            let mut fewer = nodes.clone();
            fewer.remove(at);
            match opened(self, &fewer) {
                Some(own) => (nodes, victims) = (fewer, own),
                None => at += 1,
            }
        }
        let named = nodes.iter().map(|node| {
            let origin = &self.state.compiled().snapshot.nodes[*node];
            origin.name.clone()
        });
        let change = Change::Uncordon {
            nodes: named.collect(),
        };
        Some(Unblock::evicting(vec![change], proven, victims))
    }

    /// Nodes that are cordoned and else in order, and that would take a pod of it; those with most room first.
    fn closed(&mut self, work: WorkloadId) -> Vec<NodeId> {
        let compiled = self.state.compiled();
        let mut out: Vec<(i64, NodeId)> = Vec::new();
        for set in &compiled.works[work].sets {
            let gate = self.state.gate(set.constraint, &[], &Relaxation::default());
            for (node, site) in compiled.sites.iter().enumerate() {
                let model = &compiled.snapshot.nodes[node];
                let known = || out.iter().any(|(_, known)| *known == node);
                if model.cordoned
                    && model.ready
                    && gate[compiled.makes[site.make].zone]
                    && reckon::pods_of(compiled, site.make, set.want) > 0
                    && !known()
                {
                    let left = self.state.left(node).iter();
                    out.push((-left.map(|left| i64::from(*left)).sum::<i64>(), node));
                }
            }
        }
        out.small_sort();
        out.truncate(MOST_CLOSED);
        out.into_iter().map(|(_, node)| node).collect()
    }

    /// To resume what is stopped of its queue and those above; where that is too little, with what is needed besides.
    pub(super) fn resume_queue(&mut self, work: WorkloadId) -> Option<Unblock> {
        let compiled = self.state.compiled();
        let queue = compiled.works[work].queue?;
        let known = &compiled.snapshot.queues;
        let path = self.state.tree().path(queue);
        let stopped: Vec<QueueId> = path
            .filter(|up| known.get(*up).is_some_and(|it| it.stop != Stop::None))
            .collect();
        if stopped.iter().any(|up| known[*up].stop == Stop::Inactive) {
            return None;
        }
        let changes: Vec<Change> = stopped
            .iter()
            .map(|up| Change::ResumeQueue {
                queue: known[*up].name.clone(),
            })
            .collect();
        let after = || {
            let mut after = Snapshot::clone(&compiled.snapshot);
            for up in &stopped {
                after.queues[*up].stop = Stop::None;
            }
            CompiledFleet::new(after)
        };
        let starts = match self.resumed.get(&queue) {
            Some(starts) => starts.clone(),
            None => {
                let starts = Arc::new(all_that_start(&after()));
                self.resumed.insert(queue, starts.clone());
                starts
            }
        };
        if let Some(victims) = starts.get(&work) {
            return Some(Unblock::evicting(changes, true, victims.clone()));
        }
        if self.by_hand == 0 || !is_small(&compiled.snapshot) {
            return None;
        }
        self.by_hand -= 1;
        let compiled = after();
        let more = Explainer::new(&compiled).explain(work).unblock?;
        let all = changes.into_iter().chain(more.changes).collect();
        Some(Unblock::evicting(all, more.proven, more.victims))
    }
}

/// Who starts in a cycle, and who is evicted for each.
fn all_that_start(compiled: &CompiledFleet) -> BTreeMap<WorkloadId, Vec<Evicted>> {
    let mut state = State::new(compiled);
    cycle::place(&mut state, &[]);
    let cycle = cycle::cycle(&mut state, super::AS_DONE);
    let admitted = cycle.admitted.iter().map(|admission| admission.work);
    admitted
        .map(|work| (work, super::victims_of(compiled, &cycle, work)))
        .collect()
}
