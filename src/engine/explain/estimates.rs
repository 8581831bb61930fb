//! Estimates what a workload lacks, where testing exceeds the work limit.

use std::sync::Arc;

use crate::compiled::{CompiledFleet, NodeId, PairId, WorkloadId};
use crate::fit::{Miss, Relaxation, Why};

use super::Explainer;
use super::change::{Unblock, UnblockChange};
use super::unblock::{Axis, MOST_NODES};

/// What workloads of one shape lack at the end of the cycle.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct ShapeShortage {
    quota: Vec<(PairId, i64)>,
    /// Missing nodes, like an existing one.
    nodes: Option<(NodeId, i64)>,
    /// Neither quota nor nodes are missing: it only comes too late in the order.
    nothing: bool,
}

/// Pods of a kind that fit an empty node of a shape.
pub(crate) fn pods_of(compiled: &CompiledFleet, make: usize, want: usize) -> i64 {
    let make = &compiled.node_shapes[make];
    let want = &compiled.requests[want];
    let share = |have: i64, asked: i64| match asked {
        ..=0 => i64::MAX,
        asked => have / asked,
    };
    let devices = want.devices.iter().map(|&(resource, count, _)| {
        let units = make.units.iter();
        let own = units.filter(|unit| unit.resource == resource && unit.sound);
        share(own.count() as i64, i64::from(count))
    });
    let plain = share(make.cpu, want.ask.cpu_milli).min(share(make.memory, want.ask.memory_bytes));
    devices.fold(plain, i64::min).max(0)
}

fn over(amount: i64, unit: i64) -> i64 {
    let unit = unit.max(1);
    amount.max(0).saturating_add(unit - 1) / unit
}

impl Explainer<'_> {
    fn lack(&mut self, work: WorkloadId) -> Arc<ShapeShortage> {
        let shape = self.state.compiled().workloads[work].shape;
        if let Some(known) = self.lacks.get(&shape) {
            return known.clone();
        }
        let lack = Arc::new(self.lack_of(work));
        self.lacks.insert(shape, lack.clone());
        lack
    }

    fn lack_of(&mut self, work: WorkloadId) -> ShapeShortage {
        let compiled = self.state.compiled();
        let Some(queue) = compiled.workloads[work].queue else {
            return ShapeShortage::default();
        };
        let Err(misses) = self.settled.find(work, &Relaxation::default()) else {
            return ShapeShortage {
                nothing: true,
                ..ShapeShortage::default()
            };
        };
        let mut lack = ShapeShortage::default();
        let short = |why: &Why| matches!(why, Why::Quota { .. } | Why::OverMost { .. });
        for (set, it) in compiled.workloads[work].sets.iter().enumerate() {
            let mut own = misses.iter().filter(|miss| miss.set == set);
            let Some(miss) = own.find(|miss| short(&miss.why)) else {
                continue;
            };
            for (pair, asked) in self
                .settled
                .amounts(work, set, queue, &miss.flavors, it.count)
            {
                let missing = asked.saturating_sub(self.settled.available(queue, pair));
                if missing > 0 {
                    lack.quota.push((pair, missing));
                }
            }
        }
        let beyond = Relaxation {
            no_quota: true,
            ..Relaxation::default()
        };
        if let Err(more) = self.settled.find(work, &beyond) {
            lack.nodes = more.iter().find_map(|miss| self.nodes_for(work, miss));
        }
        lack
    }

    /// Number of nodes that an attempt lacked, and the node that they copy.
    fn nodes_for(&mut self, work: WorkloadId, miss: &Miss) -> Option<(NodeId, i64)> {
        let compiled = self.state.compiled();
        let (set, missing) = match miss.why {
            Why::Nodes { set, asked, room } => (set, i64::from(asked) - narrow(room)),
            Why::Topology {
                set, asked, best, ..
            } => (set, i64::from(asked) - narrow(best)),
            _ => return None,
        };
        let like = *self.likes(work, std::slice::from_ref(miss)).first()?;
        let want = compiled.workloads[work].sets[set].want;
        let each = pods_of(compiled, compiled.nodes[like].node_shape, want);
        (each > 0).then(|| (like, over(missing, each)))
    }

    /// Per pod set: how many empty nodes like this one its pods fill; none if no pod fits one.
    fn nodes_by_set(&self, work: WorkloadId, like: NodeId) -> impl Iterator<Item = Option<i64>> {
        let compiled = self.state.compiled();
        let make = compiled.nodes[like].node_shape;
        compiled.workloads[work].sets.iter().map(move |set| {
            let each = pods_of(compiled, make, set.want);
            (each > 0).then(|| over(i64::from(set.count), each))
        })
    }

    /// How many empty nodes like this one all of its pods fill that fit one.
    pub(super) fn filled(&self, work: WorkloadId, like: NodeId) -> i64 {
        self.nodes_by_set(work, like).flatten().sum()
    }

    /// Nodes for all of its pods.
    fn own_nodes(&mut self, work: WorkloadId) -> Option<(Axis, i64)> {
        let (_, like) = *self.alike(work, 0, &[], None).first()?;
        let count: Option<i64> = self.nodes_by_set(work, like).sum();
        Some((Axis::Nodes(like), count?))
    }

    /// Estimated amount of one resource that suffices, if it alone is missing: for the workload itself, and for workloads ahead
    /// that wait for the same.
    pub(super) fn estimated_amount(&mut self, work: WorkloadId, axis: Axis) -> Option<Unblock> {
        let lack = self.lack(work);
        let count = match axis {
            Axis::Quota(_, pair, unit) => {
                let own = lack.quota.iter().find(|(at, _)| *at == pair);
                let missing = own.map(|(_, missing)| *missing);
                let missing = missing.filter(|_| lack.quota.len() == 1 && lack.nodes.is_none())?;
                self.units_for(work, axis, over(missing, unit))
            }
            Axis::Nodes(like) => {
                let own = lack
                    .nodes
                    .filter(|(of, _)| *of == like && lack.quota.is_empty());
                self.units_for(work, axis, own?.1)
            }
        };
        let too_many = matches!(axis, Axis::Nodes(_)) && count > MOST_NODES;
        (!too_many).then(|| Unblock::new(vec![self.change(work, axis, count)], false))
    }

    /// Units that a workload needs (`own`), plus the units that the workloads ahead in its queue need.
    fn units_for(&mut self, work: WorkloadId, axis: Axis, own: i64) -> i64 {
        let place = self.places[work].unwrap_or(0);
        let before = match (axis, place.checked_sub(1)) {
            (_, None) => 0,
            (Axis::Quota(queue, pair, unit), Some(last)) => {
                over(self.requests_ahead(queue, pair, last).1, unit)
            }
            (Axis::Nodes(like), Some(last)) => self.nodes_requested(like, last),
        };
        own.max(1).saturating_add(before)
    }

    /// Estimate of everything that it lacks; if that is too much together with workloads ahead, with the priority to go before them.
    pub(super) fn estimate(&mut self, work: WorkloadId) -> Option<Unblock> {
        let lack = self.lack(work);
        let queue = self.state.compiled().workloads[work].queue?;
        let from = self.state.priority(work);
        let top = self.steps(work).last().copied();
        let first = top.map(|to| UnblockChange::Priority { from, to });
        let first = first.filter(|_| self.order_helps);
        let mut axes: Vec<(Axis, i64)> = Vec::new();
        if lack.nothing {
            if first.is_some() {
                return Some(Unblock::new(first.into_iter().collect(), false));
            }
            // Free capacity is reserved for others: it needs nodes of its own.
            axes.push(self.own_nodes(work)?);
        }
        for &(pair, missing) in &lack.quota {
            let unit = self.unit(queue, pair);
            axes.push((Axis::Quota(queue, pair, unit), over(missing, unit)));
        }
        axes.extend(lack.nodes.map(|(like, count)| (Axis::Nodes(like), count)));
        let mut all: Vec<(Axis, i64)> = Vec::new();
        for &(axis, own) in &axes {
            all.push((axis, self.units_for(work, axis, own)));
        }
        let too_many =
            |&(axis, count): &(Axis, i64)| matches!(axis, Axis::Nodes(_)) && count > MOST_NODES;
        let mut changes = Vec::new();
        if all.iter().any(too_many) {
            changes.extend(first);
            all = axes;
        }
        changes.extend(
            all.into_iter()
                .map(|(axis, count)| self.change(work, axis, count)),
        );
        (!changes.is_empty()).then(|| Unblock::new(changes, false))
    }
}

fn narrow(pods: u64) -> i64 {
    i64::try_from(pods).unwrap_or(i64::MAX / 2)
}
