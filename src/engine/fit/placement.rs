//! Places one pod: the node that the placement policy chooses, and the units on it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::compiled::{NodeId, WorkloadId};
use crate::snapshot::WHOLE;
use crate::state::{Allocation, Gate, PodFit, PodPlacement, State};

impl State<'_> {
    /// The best node for one pod in the zones of a gate: lowest cost, then least left over, then the first.
    pub(super) fn best_node(&mut self, want: usize, gate: &Gate) -> Option<NodeId> {
        let view = self.take_view(want, gate, None, true);
        let best = view.order().next();
        self.give_view(view);
        best
    }

    /// Places one pod on a node where it fits.
    pub(super) fn take_seat(&mut self, node: NodeId, want: usize) -> PodPlacement {
        let look = self.look(node, want);
        let placement = PodPlacement {
            node,
            units: self.pick_devices(node, want, look).into(),
        };
        self.place_pod(&placement, want);
        placement
    }

    /// Reallocates a workload on the same nodes: any free units on some of them, the same units on the others. `None` if its
    /// quota or one of its pods does not fit. The state is unchanged.
    pub(crate) fn seat_again(
        &mut self,
        work: WorkloadId,
        allocation: &Arc<Allocation>,
        moved: &BTreeSet<NodeId>,
    ) -> Option<Arc<Allocation>> {
        let placements = || allocation.sets.iter().flat_map(|set| &set.placements);
        if moved.is_empty() || placements().all(|placement| !moved.contains(&placement.node)) {
            let fits = self.has_quota(allocation);
            return fits.then(|| allocation.clone());
        }
        let mark = self.mark();
        let again = self.sit_again(work, allocation, moved);
        self.undo_to(mark);
        again.map(Arc::new)
    }

    fn has_quota(&self, allocation: &Allocation) -> bool {
        let mut usage = allocation.usage.iter();
        allocation
            .queue
            .is_none_or(|queue| usage.all(|&(pair, amount)| self.available(queue, pair) >= amount))
    }

    fn sit_again(
        &mut self,
        work: WorkloadId,
        allocation: &Allocation,
        moved: &BTreeSet<NodeId>,
    ) -> Option<Allocation> {
        let compiled = self.compiled();
        if !self.has_quota(allocation) {
            return None;
        }
        let mut again = allocation.clone();
        for (set, held) in compiled.workloads[work].sets.iter().zip(&mut again.sets) {
            let free = held.placements.iter_mut();
            for placement in free.filter(|placement| moved.contains(&placement.node)) {
                if self.look(placement.node, set.want).room == 0 {
                    return None;
                }
                *placement = self.take_seat(placement.node, set.want);
            }
        }
        Some(again)
    }

    /// Units that a pod takes: whole units from the first; of shared devices the one that the policy chose, or, if
    /// it needs several, those with most left, so that as many further pods as possible fit.
    fn pick_devices(&self, node: NodeId, want: usize, look: PodFit) -> Vec<(u32, i32)> {
        let compiled = self.compiled();
        let units = &compiled.node_shapes[self.node_free(node).node_shape].units;
        let left = self.left(node);
        let mut grips: Vec<(u32, i32)> = Vec::new();
        for &(resource, count, milli) in &compiled.requests[want].devices {
            let fits = |at: &usize| {
                let unit = &units[*at];
                let whole = milli == WHOLE || unit.slice.is_some();
                unit.resource == resource
                    && unit.sound
                    && left[*at] >= if whole { WHOLE } else { milli }
            };
            let mut own: Vec<usize> = (0..units.len()).filter(fits).collect();
            match (milli, count) {
                (WHOLE, _) => own.sort_by_key(|&at| (units[at].slice.is_some(), at)),
                (_, 1) => own.sort_by_key(|&at| {
                    (
                        units[at].slice.is_some(),
                        left[at] != look.left,
                        left[at],
                        at,
                    )
                }),
                _ => own.sort_by_key(|&at| (units[at].slice.is_some(), -left[at], at)),
            }
            grips.extend(own.into_iter().take(count as usize).map(|at| {
                let part = if units[at].slice.is_some() {
                    WHOLE
                } else {
                    milli
                };
                (at as u32, part)
            }));
        }
        grips.sort_unstable();
        grips
    }
}
