//! Lower bounds of what a set of victims must release and of its cost.

use std::collections::BTreeMap;

use crate::compiled::NodeId;
use crate::fit::Relaxation;
use crate::snapshot::WHOLE;
use crate::state::State;

use super::candidate::{Candidate, uses};
use super::search_context::SearchContext;

/// Resolution of a fraction of a pod.
const PARTS: i64 = 1 << 20;

/// One missing resource, and the most that each candidate can release.
#[derive(Debug)]
struct ResourceShortage {
    need: i64,
    brings: Vec<i64>,
    /// Candidates that release some, those with least lost work per amount first.
    cheap: Vec<usize>,
    /// Candidates that release most first.
    large: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct MissingResources {
    lacks: Vec<ResourceShortage>,
    lost: Vec<i64>,
}

impl MissingResources {
    pub(super) fn new(state: &mut State<'_>, context: &SearchContext, list: &[Candidate]) -> Self {
        let lost: Vec<i64> = list.iter().map(|candidate| candidate.lost).collect();
        let mut bounds = Self {
            lacks: Vec::new(),
            lost,
        };
        for &(pair, amount) in &context.usage {
            let need = amount - state.available(context.queue, pair);
            let brings = |candidate: &Candidate| {
                let allocation = state.allocation(candidate.work);
                allocation.map_or(0, |allocation| uses(allocation, pair))
            };
            let brings = list.iter().map(brings).collect();
            bounds.add(need, brings);
        }
        for set in 0..context.flavors.len() {
            bounds.add_devices(state, context, list, set);
        }
        bounds
    }

    fn add(&mut self, need: i64, brings: Vec<i64>) {
        if need <= 0 {
            return;
        }
        let some = (0..brings.len()).filter(|at| brings[*at] > 0);
        let mut large: Vec<usize> = some.collect();
        let mut cheap = large.clone();
        large.sort_by_key(|at| std::cmp::Reverse(brings[*at]));
        cheap.sort_by(|&a, &b| {
            let cross = |x: usize, y: usize| i128::from(self.lost[x]) * i128::from(brings[y]);
            cross(a, b).cmp(&cross(b, a))
        });
        self.lacks.push(ResourceShortage {
            need,
            brings,
            cheap,
            large,
        });
    }

    /// Nodes for the pods of a set, by whole devices alone: each freed device contributes at most what completes
    /// one more pod there.
    fn add_devices(
        &mut self,
        state: &mut State<'_>,
        context: &SearchContext,
        list: &[Candidate],
        set: usize,
    ) {
        let compiled = state.compiled();
        let own = &compiled.workloads[context.work].sets[set];
        let Some(&(resource, each, WHOLE)) = compiled.requests[own.want].devices.first() else {
            return;
        };
        if state.nodes() == 0 || each == 0 {
            return;
        }
        let count = context.counts[set];
        let gate = state.gate(
            own.constraint,
            &context.flavors[set],
            &Relaxation::default(),
        );
        let each = i64::from(each);
        // Per node: free whole units that complete no pod.
        let mut over: BTreeMap<NodeId, i64> = BTreeMap::new();
        let mut need = i64::from(count);
        for node in 0..state.nodes() {
            let room = *state.node_free(node);
            let make = &compiled.node_shapes[room.node_shape];
            if !room.open || !gate[make.zone] {
                continue;
            }
            let units = make.units.iter().zip(state.left(node));
            let free = units
                .filter(|(unit, left)| unit.resource == resource && unit.sound && **left == WHOLE)
                .count() as i64;
            need -= free / each;
            over.insert(node, free % each);
        }
        let brings = |candidate: &Candidate| {
            let Some(allocation) = state.allocation(candidate.work) else {
                return 0;
            };
            let placements = allocation.sets.iter().flat_map(|set| &set.placements);
            let parts = placements.map(|placement| {
                let Some(over) = over.get(&placement.node) else {
                    return 0;
                };
                let units = &compiled.node_shapes[state.node_free(placement.node).node_shape].units;
                let held = placement
                    .units
                    .iter()
                    .filter(|(unit, _)| units[*unit as usize].resource == resource);
                let lacks = each - over;
                (held.count() as i64 * PARTS + lacks - 1) / lacks
            });
            parts.sum()
        };
        let brings = list.iter().map(brings).collect();
        self.add(need.max(0) * PARTS, brings);
    }

    /// Minimum cost (device-milliseconds and victims) to release the resources that the taken candidates do not release, using
    /// candidates from `next` on. `None` if even all of those do not suffice.
    pub(super) fn least(&self, taken: &[usize], next: usize) -> Option<(i64, usize)> {
        let mut most = (0, 0);
        for lack in &self.lacks {
            let brought: i64 = taken.iter().map(|at| lack.brings[*at]).sum();
            let need = lack.need - brought;
            if need <= 0 {
                continue;
            }
            let (mut left, mut lost) = (need, 0_i64);
            for &at in lack.cheap.iter().filter(|at| **at >= next) {
                let brings = lack.brings[at];
                if brings >= left {
                    let part = i128::from(self.lost[at]) * i128::from(left) / i128::from(brings);
                    lost = lost.saturating_add(i64::try_from(part).unwrap_or(i64::MAX));
                    left = 0;
                    break;
                }
                left -= brings;
                lost = lost.saturating_add(self.lost[at]);
            }
            if left > 0 {
                return None;
            }
            let (mut left, mut count) = (need, 0);
            for &at in lack.large.iter().filter(|at| **at >= next) {
                if left <= 0 {
                    break;
                }
                left -= lack.brings[at];
                count += 1;
            }
            most = (most.0.max(lost), most.1.max(count));
        }
        Some(most)
    }
}
