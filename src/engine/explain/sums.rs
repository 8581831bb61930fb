//! What is worked out once for all that wait: priorities there are, what those before ask for, nodes that more could be like.

use std::collections::BTreeMap;

use model::base::SmallSort;

use crate::compiled::{FlavorId, NodeId, PairId, QueueId, WorkloadId};
use crate::cycle;
use crate::fit::{Relaxation, Why};

use super::Explainer;

/// Most nodes of one list, so that of several lists some are left that are unlike.
const MOST_ALIKE: usize = 8;

/// A shape of nodes and, where that matters, the domain.
pub(super) type Alike = (usize, Option<usize>);

/// What is asked, where pods may go, with which flavors, and the ladder and level that matters.
type SumKey = (usize, usize, Vec<FlavorId>, Option<(usize, usize)>);

/// Sums that are known.
#[derive(Default, Debug)]
pub(super) struct Sums {
    priorities: Option<Vec<i32>>,
    /// By root and pair: what those up to each place ask for; all, and those that wait for that very quota.
    asked: BTreeMap<(QueueId, PairId), (Vec<i64>, Vec<i64>)>,
    /// Pods of those up to each place.
    pods: Option<Vec<i64>>,
    /// By make: nodes like one that those up to each place lack who wait for room.
    nodes: BTreeMap<usize, Vec<i64>>,
    likes: BTreeMap<SumKey, Vec<(Alike, NodeId)>>,
}

/// Turns parts by place into sums up to each.
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
    /// Priorities of all that wait or may be evicted, and one more than each, rising.
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

    /// What those of a tree up to a place in their queues ask for of a pair: all, and those that wait for it.
    pub(super) fn asked(&mut self, queue: QueueId, pair: PairId, place: usize) -> (i64, i64) {
        let root = self.state.tree().branches[queue].root;
        if !self.sums.asked.contains_key(&(root, pair)) {
            let sums = self.asked_by_place(root, queue, pair);
            self.sums.asked.insert((root, pair), sums);
        }
        let (all, short) = &self.sums.asked[&(root, pair)];
        (at(all, place), at(short, place))
    }

    fn asked_by_place(&self, root: QueueId, queue: QueueId, pair: PairId) -> (Vec<i64>, Vec<i64>) {
        let compiled = self.state.compiled();
        let tree = self.state.tree();
        let (flavor, _) = tree.pairs_of(queue)[pair];
        let asks = |other: WorkloadId| -> i64 {
            let set = |set: usize| -> i64 {
                let own = compiled.works[other].queue.unwrap_or(queue);
                let groups = self.state.groups_of(other, set, own).unwrap_or_default();
                let flavors = vec![flavor; groups.len()];
                let count = compiled.works[other].sets[set].count;
                let amounts = self.state.amounts(other, set, own, &flavors, count);
                let own = amounts.iter().filter(|(at, _)| *at == pair);
                own.map(|(_, amount)| *amount).sum()
            };
            (0..compiled.works[other].sets.len()).map(set).sum()
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
        // Whoever shares the tree may take of what is added.
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

    /// Pods of all up to a place in their queues.
    pub(super) fn pods(&mut self, place: usize) -> i64 {
        let Self {
            sums, lines, state, ..
        } = self;
        let compiled = state.compiled();
        let sums = sums.pods.get_or_insert_with(|| {
            let count = |work: WorkloadId| {
                let sets = compiled.works[work].sets.iter();
                sets.map(|set| i64::from(set.count)).sum::<i64>()
            };
            // Those that are admitted take nodes before anybody.
            let quota_reserved = cycle::unplaced(state, &[]).into_iter();
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

    /// Nodes like one that those up to a place in their queues would fill who wait for room and may use them.
    pub(super) fn nodes_asked(&mut self, like: NodeId, place: usize) -> i64 {
        let compiled = self.state.compiled();
        let make = compiled.sites[like].make;
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
                    for set in compiled.works[other].sets.iter().filter(|_| waits) {
                        let gate = self.state.gate(set.constraint, &[], &Relaxation::default());
                        let each = super::reckon::pods_of(compiled, make, set.want);
                        if each > 0 && gate[compiled.makes[make].zone] {
                            parts[place] += (i64::from(set.count) + each - 1) / each;
                        }
                    }
                }
            }
            self.sums.nodes.insert(make, up_to(parts));
        }
        at(&self.sums.nodes[&make], place)
    }

    /// Nodes that an empty one of would take a pod of a set, few and unlike: those in the domain that has most free first.
    pub(super) fn alike(
        &mut self,
        work: WorkloadId,
        set: usize,
        flavors: &[FlavorId],
        level: Option<(usize, usize)>,
    ) -> Vec<(Alike, NodeId)> {
        let compiled = self.state.compiled();
        let it = &compiled.works[work].sets[set];
        let key = (it.want, it.constraint, flavors.to_vec(), level);
        if let Some(known) = self.sums.likes.get(&key) {
            return known.clone();
        }
        let gate = self
            .state
            .gate(it.constraint, flavors, &Relaxation::default());
        let mut able: Vec<(bool, i64, NodeId)> = Vec::new();
        for (node, site) in compiled.sites.iter().enumerate() {
            let make = &compiled.makes[site.make];
            if gate[make.zone] && super::reckon::pods_of(compiled, site.make, it.want) > 0 {
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
            let alike = (compiled.sites[node].make, domain);
            if out.len() < MOST_ALIKE && seen.insert(alike) {
                out.push((alike, node));
            }
        }
        self.sums.likes.insert(key, out.clone());
        out
    }
}
