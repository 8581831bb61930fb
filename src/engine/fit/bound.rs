//! Lower bounds of the resources that must become free before a workload can start: cheap sums that avoid useless attempts.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::compiled::{FlavorId, NodeId, PairId, QueueId, ResourceId, TopologyTree, WorkloadId};
use crate::state::{Gate, State};
use model::base::Moment;

use super::Relaxation;

/// Upper bound of the pods of a set that fit, as resources become free.
pub(crate) struct PodSetBound<'p> {
    gate: Arc<Gate>,
    want: usize,
    /// CPU, memory and thousandths of devices per pod.
    ask: [i64; 3],
    resource: Option<ResourceId>,
    /// Nodes on which resources became free: free amount of each resource, and the pods counted; none if the pods cannot run there.
    free: FxHashMap<NodeId, Option<([i64; 3], i64)>>,
    /// The level at which all pods must be in one domain.
    level: Option<(&'p TopologyTree, usize)>,
    sums: Vec<i64>,
    total: i64,
    need: i64,
    best: i64,
}

impl<'p> PodSetBound<'p> {
    /// Starts from the current state.
    pub(crate) fn new(
        state: &mut State<'p>,
        work: WorkloadId,
        set: usize,
        flavors: &[FlavorId],
        need: u32,
    ) -> Self {
        let compiled = state.compiled();
        let own = &compiled.workloads[work].sets[set];
        let want = &compiled.requests[own.want];
        let gate = state.gate(own.constraint, flavors, &Relaxation::default());
        let device = want.devices.first();
        let topology_level = own.topology_level.filter(|topology_level| topology_level.2);
        let view = state.take_view(
            own.want,
            &gate,
            topology_level.map(|topology_level| topology_level.0),
            false,
        );
        let narrow = |sum: u64| i64::try_from(sum).unwrap_or(i64::MAX / 2);
        let total = narrow(view.total);
        let sums: Vec<i64> = topology_level.map_or_else(Vec::new, |(ladder, _, _)| {
            view.sums(ladder).iter().map(|sum| narrow(*sum)).collect()
        });
        state.give_view(view);
        let level = topology_level.map(|(ladder, level, _)| (&compiled.ladders[ladder], level));
        let best = level.map_or(0, |(ladder, level)| {
            let all = sums.iter().zip(&ladder.domains);
            let own = all.filter(|(_, domain)| domain.level == level);
            own.map(|(sum, _)| *sum).max().unwrap_or(0)
        });
        Self {
            gate,
            want: own.want,
            ask: [
                want.ask.cpu_milli,
                want.ask.memory_bytes,
                device.map_or(0, |device| i64::from(device.1) * i64::from(device.2)),
            ],
            resource: device.map(|device| device.0),
            free: FxHashMap::default(),
            level,
            sums,
            total,
            need: i64::from(need),
            best,
        }
    }

    /// Upper bound of pods that fit these free amounts.
    fn pods_that_fit(&self, free: [i64; 3]) -> i64 {
        let part = |(free, ask): (i64, i64)| match ask {
            ..=0 => i64::from(u32::MAX),
            ask => (free / ask).max(0),
        };
        let parts = free.into_iter().zip(self.ask).map(part);
        parts.min().unwrap_or(0)
    }

    /// Free resources of a node now, and the pods that fit.
    fn now(&self, state: &mut State<'_>, node: NodeId) -> Option<([i64; 3], i64)> {
        let room = *state.node_free(node);
        let make = &state.compiled().node_shapes[room.node_shape];
        if !room.open || !self.gate[make.zone] {
            return None;
        }
        let units = make.units.iter().zip(state.left(node));
        let own = units.filter(|(unit, _)| Some(unit.resource) == self.resource && unit.sound);
        let milli = own.map(|(_, left)| i64::from((*left).max(0))).sum();
        let pods = i64::from(state.look(node, self.want).room);
        Some(([room.cpu, room.memory, milli], pods))
    }

    /// Releases a workload's allocation.
    pub(crate) fn release(&mut self, state: &mut State<'_>, work: WorkloadId) {
        let compiled = state.compiled();
        let Some(allocation) = state.allocation(work).cloned() else {
            return;
        };
        for (set, held) in compiled.workloads[work].sets.iter().zip(&allocation.sets) {
            let ask = &compiled.requests[set.want].ask;
            for placement in &held.placements {
                let known = self.free.get(&placement.node).copied();
                let known = known.unwrap_or_else(|| self.now(state, placement.node));
                let Some((mut free, before)) = known else {
                    self.free.insert(placement.node, None);
                    continue;
                };
                let room = state.node_free(placement.node);
                let units = &compiled.node_shapes[room.node_shape].units;
                let own = placement
                    .units
                    .iter()
                    .filter(|(unit, _)| Some(units[*unit as usize].resource) == self.resource);
                let milli: i64 = own.map(|(_, milli)| i64::from(*milli)).sum();
                free[0] = free[0].saturating_add(ask.cpu_milli);
                free[1] = free[1].saturating_add(ask.memory_bytes);
                free[2] += milli;
                let after = self.pods_that_fit(free).max(before);
                self.free.insert(placement.node, Some((free, after)));
                self.total += after - before;
                if let Some((ladder, level)) = self.level
                    && let Some(domain) = ladder.domain_of(room.origin, level)
                {
                    self.sums[domain] += after - before;
                    self.best = self.best.max(self.sums[domain]);
                }
            }
        }
    }

    /// Whether the workload may fit now.
    pub(crate) fn may_fit(&self) -> bool {
        self.total >= self.need && (self.level.is_none() || self.best >= self.need)
    }
}

impl State<'_> {
    /// How many workloads must end, in the given order, before a workload can fit at all: a lower bound. `None` if it cannot fit
    /// even after all of them have ended.
    pub(crate) fn least_ends(
        &mut self,
        work: WorkloadId,
        ends: &[(Moment, WorkloadId)],
    ) -> Option<usize> {
        let queue = self.gate_of_queue(work).ok()?;
        let relaxation = Relaxation::default();
        let mut most = 0;
        for (set, it) in self.compiled().workloads[work].sets.iter().enumerate() {
            let need = it.min.max(1).min(it.count);
            let options = self.options(work, set, queue, &relaxation).ok()?;
            let mut least: Option<usize> = None;
            for flavors in options {
                if self.flavors_suit(work, set, &flavors, &relaxation).is_err() {
                    continue;
                }
                let usage = self.amounts(work, set, queue, &flavors, need);
                let found = self.ends_for_quota(queue, &usage, ends);
                let found = found.and_then(|quota| {
                    if least.is_some_and(|least| least <= quota) {
                        return None;
                    }
                    Some(quota.max(self.ends_for_room(work, set, &flavors, need, ends)?))
                });
                least = match (least, found) {
                    (Some(least), Some(found)) => Some(least.min(found)),
                    (least, found) => least.or(found),
                };
            }
            most = most.max(least?);
        }
        Some(most)
    }

    fn ends_for_quota(
        &self,
        queue: QueueId,
        usage: &[(PairId, i64)],
        ends: &[(Moment, WorkloadId)],
    ) -> Option<usize> {
        let free = |state: &Self, quota: &crate::state::QuotaUsage| {
            let mut usage = usage.iter();
            usage.all(|&(pair, amount)| quota.available(state.tree(), queue, pair) >= amount)
        };
        let mut quota = self.usage().clone();
        if free(self, &quota) {
            return Some(0);
        }
        let tree = self.tree();
        for (at, (_, holder)) in ends.iter().enumerate() {
            let Some(allocation) = self.allocation(*holder) else {
                continue;
            };
            let Some(from) = allocation.queue else {
                continue;
            };
            if tree.branches[from].root != tree.branches[queue].root {
                continue;
            }
            for &(pair, amount) in &allocation.usage {
                quota.give(tree, from, pair, amount);
            }
            if free(self, &quota) {
                return Some(at + 1);
            }
        }
        None
    }

    fn ends_for_room(
        &mut self,
        work: WorkloadId,
        set: usize,
        flavors: &[FlavorId],
        need: u32,
        ends: &[(Moment, WorkloadId)],
    ) -> Option<usize> {
        if self.nodes() == 0 {
            return Some(0);
        }
        let mut reach = PodSetBound::new(self, work, set, flavors, need);
        if reach.may_fit() {
            return Some(0);
        }
        for (at, (_, holder)) in ends.iter().enumerate() {
            reach.release(self, *holder);
            if reach.may_fit() {
                return Some(at + 1);
            }
        }
        None
    }
}
