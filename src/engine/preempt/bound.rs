//! What any set of victims must bring at least, and what that costs at least.

use std::collections::BTreeMap;

use crate::compiled::NodeId;
use crate::fit::Relaxation;
use crate::snapshot::WHOLE;
use crate::state::State;

use super::candidate::{Candidate, uses};
use super::search_context::SearchContext;

/// Parts of a pod's room.
const PARTS: i64 = 1 << 20;

/// One thing that is lacking, and what each candidate can bring of it at most.
#[derive(Debug)]
struct Lack {
    need: i64,
    brings: Vec<i64>,
    /// Candidates that bring some, those that lose least for it first.
    cheap: Vec<usize>,
    /// Those that bring most first.
    large: Vec<usize>,
}

/// All that is lacking.
#[derive(Debug)]
pub(super) struct Bounds {
    lacks: Vec<Lack>,
    lost: Vec<i64>,
}

impl Bounds {
    pub(super) fn new(state: &mut State<'_>, scene: &SearchContext, list: &[Candidate]) -> Self {
        let lost: Vec<i64> = list.iter().map(|candidate| candidate.lost).collect();
        let mut bounds = Self {
            lacks: Vec::new(),
            lost,
        };
        for &(pair, amount) in &scene.usage {
            let need = amount - state.available(scene.queue, pair);
            let brings = |candidate: &Candidate| {
                let allocation = state.allocation(candidate.work);
                allocation.map_or(0, |allocation| uses(allocation, pair))
            };
            let brings = list.iter().map(brings).collect();
            bounds.add(need, brings);
        }
        for set in 0..scene.flavors.len() {
            bounds.add_devices(state, scene, list, set);
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
        self.lacks.push(Lack {
            need,
            brings,
            cheap,
            large,
        });
    }

    /// Room on nodes for the pods of a set, by whole devices alone: freeing one of them brings at most what it takes to
    /// complete one more pod there.
    fn add_devices(
        &mut self,
        state: &mut State<'_>,
        scene: &SearchContext,
        list: &[Candidate],
        set: usize,
    ) {
        let compiled = state.compiled();
        let own = &compiled.works[scene.work].sets[set];
        let Some(&(resource, each, WHOLE)) = compiled.wants[own.want].devices.first() else {
            return;
        };
        if state.nodes() == 0 || each == 0 {
            return;
        }
        let count = scene.counts[set];
        let gate = state.gate(own.constraint, &scene.flavors[set], &Relaxation::default());
        let each = i64::from(each);
        // Per node: whole units free that complete no pod.
        let mut over: BTreeMap<NodeId, i64> = BTreeMap::new();
        let mut need = i64::from(count);
        for node in 0..state.nodes() {
            let room = *state.room(node);
            let make = &compiled.makes[room.make];
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
                let units = &compiled.makes[state.room(placement.node).make].units;
                let held = placement
                    .grips
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

    /// What it costs at least, device-milliseconds and victims, to bring what these do not: with any of those from `next`
    /// on. Nothing if even all of them cannot.
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
