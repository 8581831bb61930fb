//! Values computed once for all pending workloads: priorities, requests of workloads ahead, and nodes to copy.

use std::collections::BTreeMap;

use model::base::SmallSort;

use crate::compiled::{FlavorId, NodeId, PairId, QueueId, WorkloadId};
use crate::cycle;
use crate::fit::{Relaxation, Why};

use super::Explainer;

/// Maximum number of nodes from one list, so that several lists contribute different nodes.
const MOST_ALIKE: usize = 8;

/// A node shape and, where it matters, the domain.
pub(super) type Alike = (usize, Option<usize>);

/// Pod request, constraint, flavors, and the ladder and level that matters.
type SumKey = (usize, usize, Vec<FlavorId>, Option<(usize, usize)>);

#[derive(Default, Debug)]
pub(super) struct RequestSums {
    priorities: Option<Vec<i32>>,
    /// By root and pair: requests up to each position; of all workloads, and of those that wait for this quota.
    asked: BTreeMap<(QueueId, PairId), (Vec<i64>, Vec<i64>)>,
    /// Pods up to each position.
    pods: Option<Vec<i64>>,
    /// By shape: nodes that workloads up to each position lack.
    nodes: BTreeMap<usize, Vec<i64>>,
    likes: BTreeMap<SumKey, Vec<(Alike, NodeId)>>,
}

/// Prefix sums of a list.
fn up_to(mut parts: Vec<i64>) -> Vec<i64> {
    let mut sum = 0_i64;
    for part in &mut parts {
        sum = sum.saturating_add(*part);
        *part = sum;
    }
    parts
}

fn at(sums: &[i64], place: usize) -> i64 {
    sums.get(place).or(sums.last()).copied().unwrap_or(0)
}

impl Explainer<'_> {
    /// Priorities of all pending or evictable workloads, and each plus one, ascending.
    pub(super) fn priorities(&mut self) -> &[i32] {
        let Self {
            sums, lines, state, ..
        } = self;
        sums.priorities.get_or_insert_with(|| {
            let waiting = lines.values().flatten().copied();
            let holders = state.holders();
            let evictable = holders.filter(|work| state.workload(*work).preemptible);
            let mut all: Vec<i32> = waiting
                .chain(evictable)
                .map(|work| state.priority(work))
                .flat_map(|priority| [priority, priority.saturating_add(1)])
                .collect();
            all.small_sort();
            all.dedup();
            all
        })
    }

    /// Requests of a tree's workloads up to a position for a pair: of all, and of those that wait for it.
    pub(super) fn requests_ahead(
        &mut self,
        queue: QueueId,
        pair: PairId,
        place: usize,
    ) -> (i64, i64) {
        let root = self.state.tree().branches[queue].root;
        if !self.sums.asked.contains_key(&(root, pair)) {
            let sums = self.requests_ahead_by_place(root, queue, pair);
            self.sums.asked.insert((root, pair), sums);
        }
        let (all, short) = &self.sums.asked[&(root, pair)];
        (at(all, place), at(short, place))
    }

    fn requests_ahead_by_place(
        &self,
        root: QueueId,
        queue: QueueId,
        pair: PairId,
    ) -> (Vec<i64>, Vec<i64>) {
        let compiled = self.state.compiled();
        let tree = self.state.tree();
        let (flavor, _) = tree.pairs_of(queue)[pair];
        let asks = |other: WorkloadId| -> i64 {
            let set = |set: usize| -> i64 {
                let own = compiled.workloads[other].queue.unwrap_or(queue);
                let groups = self.state.groups_of(other, set, own).unwrap_or_default();
                let flavors = vec![flavor; groups.len()];
                let count = compiled.workloads[other].sets[set].count;
                let amounts = self.state.amounts(other, set, own, &flavors, count);
                let own = amounts.iter().filter(|(at, _)| *at == pair);
                own.map(|(_, amount)| *amount).sum()
            };
            (0..compiled.workloads[other].sets.len()).map(set).sum()
        };
        let waits = |other: WorkloadId| {
            let misses = self.cycle.waiting.get(&other);
            misses.is_some_and(|misses| {
                misses.iter().any(|miss| match miss.why {
                    Why::Quota { pair: at, .. } | Why::OverMost { pair: at, .. } => at == pair,
                    _ => false,
                })
            })
        };
        // Every queue that shares the tree may take part of an increase.
        let kin = self.lines.iter().filter(|(other, _)| {
            let known = tree.branches.get(**other);
            known.is_some_and(|it| it.root == root)
        });
        let (mut all, mut short): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
        for (_, line) in kin {
            let length = all.len().max(line.len());
            all.resize(length, 0);
            short.resize(length, 0);
            for (place, &other) in line.iter().enumerate() {
                let asked = asks(other);
                all[place] = all[place].saturating_add(asked);
                if waits(other) {
                    short[place] = short[place].saturating_add(asked);
                }
            }
        }
        (up_to(all), up_to(short))
    }

    /// Pods of all workloads up to a position.
    pub(super) fn pods(&mut self, place: usize) -> i64 {
        let Self {
            sums, lines, state, ..
        } = self;
        let compiled = state.compiled();
        let sums = sums.pods.get_or_insert_with(|| {
            let count = |work: WorkloadId| {
                let sets = compiled.workloads[work].sets.iter();
                sets.map(|set| i64::from(set.count)).sum::<i64>()
            };
            // Admitted workloads take nodes first.
            let quota_reserved = cycle::unplaced(state).into_iter();
            let mut parts: Vec<i64> = vec![quota_reserved.map(count).sum()];
            for line in lines.values() {
                parts.resize(parts.len().max(line.len()), 0);
                for (place, &work) in line.iter().enumerate() {
                    parts[place] += count(work);
                }
            }
            up_to(parts)
        });
        at(sums, place)
    }

    /// Nodes like this one that workloads up to a position would fill, if they wait for nodes and may use it.
    pub(super) fn nodes_requested(&mut self, like: NodeId, place: usize) -> i64 {
        let compiled = self.state.compiled();
        let make = compiled.nodes[like].node_shape;
        if !self.sums.nodes.contains_key(&make) {
            let mut parts: Vec<i64> = Vec::new();
            for line in self.lines.values() {
                parts.resize(parts.len().max(line.len()), 0);
                for (place, &other) in line.iter().enumerate() {
                    let misses = self.cycle.waiting.get(&other);
                    let waits = misses.is_some_and(|misses| {
                        let room =
                            |why: &Why| matches!(why, Why::Nodes { .. } | Why::Topology { .. });
                        misses.iter().any(|miss| room(&miss.why))
                    });
                    for set in compiled.workloads[other].sets.iter().filter(|_| waits) {
                        let gate = self.state.gate(set.constraint, &[], &Relaxation::default());
                        let each = super::estimates::pods_of(compiled, make, set.want);
                        if each > 0 && gate[compiled.node_shapes[make].zone] {
                            parts[place] += (i64::from(set.count) + each - 1) / each;
                        }
                    }
                }
            }
            self.sums.nodes.insert(make, up_to(parts));
        }
        at(&self.sums.nodes[&make], place)
    }

    /// Nodes whose empty copy would fit a pod of a set, few and different: those in the domain with most free capacity first.
    pub(super) fn alike(
        &mut self,
        work: WorkloadId,
        set: usize,
        flavors: &[FlavorId],
        level: Option<(usize, usize)>,
    ) -> Vec<(Alike, NodeId)> {
        let compiled = self.state.compiled();
        let it = &compiled.workloads[work].sets[set];
        let key = (it.want, it.constraint, flavors.to_vec(), level);
        if let Some(known) = self.sums.likes.get(&key) {
            return known.clone();
        }
        let gate = self
            .state
            .gate(it.constraint, flavors, &Relaxation::default());
        let mut able: Vec<(bool, i64, NodeId)> = Vec::new();
        for (node, site) in compiled.nodes.iter().enumerate() {
            let make = &compiled.node_shapes[site.node_shape];
            if gate[make.zone] && super::estimates::pods_of(compiled, site.node_shape, it.want) > 0
            {
                let left = self.state.left(node).iter();
                let free: i64 = left.map(|left| i64::from(*left)).sum();
                able.push((!site.open, -free, node));
            }
        }
        able.small_sort();
        let mut seen = std::collections::BTreeSet::new();
        let mut out = Vec::new();
        for (_, _, node) in able {
            let domain =
                level.and_then(|(ladder, level)| compiled.ladders[ladder].domain_of(node, level));
            let alike = (compiled.nodes[node].node_shape, domain);
            if out.len() < MOST_ALIKE && seen.insert(alike) {
                out.push((alike, node));
            }
        }
        self.sums.likes.insert(key, out.clone());
        out
    }
}
