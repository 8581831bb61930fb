//! Changes made by others: an operator requeues jobs, uncordons nodes, or resumes a queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::compiled::{CompiledFleet, NodeId, QueueId, WorkloadId};
use crate::cycle::{self, CycleInput};
use crate::fit::{Miss, Relaxation};
use crate::preempt::{Holders, PreemptMode, Victim, evicted};
use crate::snapshot::{QueueStop, Snapshot, Status};
use crate::state::State;
use model::base::SmallSort;
use model::fleet::job::JobKey;
use model::plan::{Evicted, JobName};

use super::change::{Unblock, UnblockChange, job};
use super::unblock::{Axis, MOST_LIKES};
use super::verification::is_small;
use super::{Explainer, estimates};

/// Number of workloads per fleet for which requeueing by an operator is searched: a search costs far more than a turn.
pub(super) const MOST_BY_HAND: usize = 24;

/// Above this number of workloads the search is skipped.
const MOST_WORKS: usize = 4_000;

/// Number of victims for which it is tested whether each is necessary.
const MOST_SPARED: usize = 16;

/// Maximum number of cordoned nodes that are considered.
const MOST_CLOSED: usize = 64;

impl Explainer<'_> {
    /// Jobs behind it whose eviction by an operator lets it start with the least lost work.
    pub(super) fn preempt(&mut self, work: WorkloadId) -> Option<Unblock> {
        let compiled = self.state.compiled();
        let too_many = compiled.workloads.len() > MOST_WORKS;
        if self.by_hand == 0 || too_many || !self.affords(work, 2, None) {
            return None;
        }
        self.by_hand -= 1;
        // Workloads that start earlier in the cycle have allocations by then; a workload that just started is not evicted again.
        let holders = Holders::new(&self.state);
        let fresh = |other: WorkloadId| self.state.allocation(other).is_none();
        // Where it has quota after the cycle, only nodes are short.
        let mark = self.settled.mark();
        self.settled.evict(work);
        let found = self
            .settled
            .victims_except(work, PreemptMode::ByHand, &holders, &fresh);
        self.settled.undo_to(mark);
        let mut list = found.ok()?.list;
        // Pods without a queue find nodes before requeued workloads are admitted and have pods.
        let queue = compiled.workloads[work].queue;
        let behind_queues = queue.is_some_and(|queue| self.state.tree().branches[queue].nameless);
        let helps = |explainer: &mut Self, list: &[Victim]| {
            let known = behind_queues.then(|| CycleInput {
                lines: explainer.lines.clone(),
                durations: explainer.durations.clone(),
            });
            let starts = explainer.starts_with(work, None, known, |state| {
                for victim in list {
                    state.evict(victim.work);
                }
            });
            // Further evictions would not be the operator's choice.
            starts.is_some_and(|more| more.is_empty())
        };
        if !helps(self, &list) {
            return None;
        }
        // Most expensive first: keep every victim that is not necessary.
        let mut order: Vec<WorkloadId> = list.iter().map(|victim| victim.work).collect();
        order.small_sort_by_key(|other| std::cmp::Reverse(self.state.lost_ms(*other)));
        // With many victims, the search itself already removed the unnecessary ones.
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
        let change = UnblockChange::Preempt { jobs };
        let victims = evicted(compiled, &list);
        Some(Unblock::evicting(vec![change], proven, victims))
    }

    /// Whether no other workload can take the released capacity before an admitted workload does. Jobs do not end at the same
    /// time: while the nodes of a gang become free one by one, pods of other workloads are bound to them.
    pub(super) fn outlasts(&self, key: &JobKey, jobs: &[JobName]) -> bool {
        let Some(queued) = &self.queued else {
            return true;
        };
        let mut works = queued.snapshot.workloads.iter();
        let Some(model) = works.find(|work| work.key == *key) else {
            return false;
        };
        // A single pod is bound as soon as a single other job is gone.
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
        // Workloads that queues admit with the remaining quota, and workloads that wait for nodes like this one.
        let mut others = cycle::unplaced(&state);
        for other in &others {
            // Its pods are bound one by one below.
            state.set_status(*other, Status::Held);
        }
        let cycle = cycle::cycle(&mut state);
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
        others.extend(&cycle.quota_reserved);
        others.retain(|other| *other != work);
        // One pod of the other workload suffices.
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

    /// The fewest cordoned nodes that suffice; nodes that fit the most pods come first.
    pub(super) fn uncordon(&mut self, work: WorkloadId) -> Option<Unblock> {
        let closed = self.closed(work);
        if closed.is_empty() || !self.affords(work, 2, None) {
            return None;
        }
        let opened = |explainer: &mut Self, nodes: &[NodeId]| {
            explainer.starts_if(work, None, |state| {
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
        let change = UnblockChange::Uncordon {
            nodes: named.collect(),
        };
        Some(Unblock::evicting(vec![change], proven, victims))
    }

    /// Cordoned nodes that may be uncordoned and would fit a pod of the workload; nodes that fit the most pods come first.
    fn closed(&mut self, work: WorkloadId) -> Vec<NodeId> {
        let compiled = self.state.compiled();
        let mut out: Vec<(i64, NodeId)> = Vec::new();
        for set in &compiled.workloads[work].sets {
            let gate = self.state.gate(set.constraint, &[], &Relaxation::default());
            for (node, site) in compiled.nodes.iter().enumerate() {
                let model = &compiled.snapshot.nodes[node];
                let known = || out.iter().any(|(_, known)| *known == node);
                if model.may_be_opened()
                    && gate[compiled.node_shapes[site.node_shape].zone]
                    && estimates::pods_of(compiled, site.node_shape, set.want) > 0
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

    /// The fewest additional nodes with which a workload starts. Copies of nodes that fit its pods are tried first; if none helps
    /// and the fleet is small, copies of nodes that fit the workloads ahead in its queue.
    pub(super) fn nodes(&mut self, work: WorkloadId, misses: &[Miss]) -> Option<Unblock> {
        let compiled = self.state.compiled();
        let likes = self.likes(work, misses);
        let found = self.nodes_like(work, &likes);
        if found.is_some() || !is_small(&compiled.snapshot) {
            return found;
        }
        let mut seen: BTreeSet<usize> = likes
            .iter()
            .map(|it| compiled.nodes[*it].node_shape)
            .collect();
        let sites = compiled.nodes.iter().enumerate();
        let others = sites.filter(|(_, site)| seen.insert(site.node_shape));
        let others: Vec<NodeId> = others.map(|(node, _)| node).take(MOST_LIKES).collect();
        let found = self.nodes_like(work, &others);
        found.filter(|unblock| unblock.proven)
    }

    fn nodes_like(&mut self, work: WorkloadId, likes: &[NodeId]) -> Option<Unblock> {
        let compiled = self.state.compiled();
        let mut best: Option<((bool, i64, usize), Unblock)> = None;
        for (at, &like) in likes.iter().enumerate() {
            let Some(found) = self.amount(work, Axis::Nodes(like)) else {
                continue;
            };
            let count = match &found.changes[..] {
                [UnblockChange::Nodes { count, .. }] => i64::from(*count),
                _ => continue,
            };
            let devices = compiled.snapshot.nodes[like].devices.len() as i64;
            let key = (!found.proven, count * devices.max(1), at);
            if best.as_ref().is_none_or(|best| key < best.0) {
                best = Some((key, found));
            }
        }
        best.map(|(_, found)| found)
    }

    /// Resumes the stopped queues among its queue and those above; if that is not enough, with other changes.
    pub(super) fn resume_queue(&mut self, work: WorkloadId) -> Option<Unblock> {
        let compiled = self.state.compiled();
        let queue = compiled.workloads[work].queue?;
        let known = &compiled.snapshot.queues;
        let path = self.state.tree().path(queue);
        let stopped: Vec<QueueId> = path
            .filter(|up| known.get(*up).is_some_and(|it| it.stop != QueueStop::None))
            .collect();
        if stopped
            .iter()
            .any(|up| known[*up].stop == QueueStop::Inactive)
        {
            return None;
        }
        let changes: Vec<UnblockChange> = stopped
            .iter()
            .map(|up| UnblockChange::ResumeQueue {
                queue: known[*up].name.clone(),
            })
            .collect();
        let after = || {
            let mut after = Snapshot::clone(&compiled.snapshot);
            for up in &stopped {
                after.queues[*up].stop = QueueStop::None;
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

/// Workloads that start in a cycle, with the evictions for each.
fn all_that_start(compiled: &CompiledFleet) -> BTreeMap<WorkloadId, Vec<Evicted>> {
    let mut state = State::new(compiled);
    let cycle = cycle::cycle(&mut state);
    let admitted = cycle.admitted.iter().map(|admission| admission.work);
    admitted
        .map(|work| (work, super::victims_of(compiled, &cycle, work)))
        .collect()
}
