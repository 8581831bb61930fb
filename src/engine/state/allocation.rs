//! Allocations of workloads, and how they are built from the snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compiled::{FlavorId, NodeId, PairId, QueueId, WorkloadId};
use crate::snapshot::{PodSet, Status, WHOLE};
use model::base::Name;

use super::{State, WorkloadState};

/// A pod on a node, with its devices.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PodPlacement {
    pub node: NodeId,
    /// Units of the node's shape, and thousandths of each.
    pub units: Arc<[(u32, i32)]>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PodSetAllocation {
    /// Number of pods that were admitted.
    pub count: u32,
    /// Flavors: one for each resource group that it requests.
    pub flavors: Vec<FlavorId>,
    /// Pods with a node; fewer than `count` if some are not placed yet.
    pub placements: Vec<PodPlacement>,
}

/// Allocation of a workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// The queue whose quota it uses.
    pub queue: Option<QueueId>,
    /// Quota usage: pair of the queue's tree, amount.
    pub usage: Vec<(PairId, i64)>,
    pub sets: Vec<PodSetAllocation>,
    /// Speed in thousandths: that of the slowest flavor in use.
    pub speed_milli: i64,
}

impl Allocation {
    /// Number of pods with a node.
    pub fn pods(&self) -> usize {
        self.sets.iter().map(|set| set.placements.len()).sum()
    }

    /// Nodes of its pods, in order.
    pub fn nodes(&self) -> Vec<NodeId> {
        let placements = self.sets.iter().flat_map(|set| &set.placements);
        let mut nodes: Vec<NodeId> = placements.map(|placement| placement.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Thousandths of devices and slices that are allocated.
    pub fn device_milli(&self) -> i64 {
        let placements = self.sets.iter().flat_map(|set| &set.placements);
        let grips = placements.flat_map(|placement| placement.units.iter());
        grips.map(|(_, milli)| i64::from(*milli)).sum()
    }
}

impl State<'_> {
    /// Allocated thousandths of each physical device; a device with any allocated slice counts as whole.
    pub fn device_use(&self) -> BTreeMap<(NodeId, usize), i32> {
        let mut held: BTreeMap<(NodeId, usize), i32> = BTreeMap::new();
        let allocations = self.holders().filter_map(|work| self.allocation(work));
        let placements = allocations
            .flat_map(|allocation| allocation.sets.iter().flat_map(|set| &set.placements));
        for placement in placements {
            let units = &self.compiled.node_shapes[self.node_free(placement.node).node_shape].units;
            for (unit, milli) in placement.units.iter() {
                let unit = &units[*unit as usize];
                let whole = held.entry((placement.node, unit.device)).or_default();
                let milli = if unit.slice.is_some() { WHOLE } else { *milli };
                *whole = whole.saturating_add(milli).min(WHOLE);
            }
        }
        held
    }

    /// Admits a workload with an allocation from another state of the fleet, on the same nodes. False, without any change, if
    /// its quota or one of its pods does not fit here.
    pub fn admit_again(&mut self, work: WorkloadId, allocation: &Arc<Allocation>) -> bool {
        let nodes = allocation.nodes().into_iter().collect();
        let again = self.seat_again(work, allocation, &nodes);
        if let Some(allocation) = &again {
            self.admit(work, allocation.clone());
        }
        again.is_some()
    }

    /// Admits a workload with its allocation from the snapshot.
    pub(super) fn settle_in(&mut self, work: WorkloadId) {
        let workload = self.workload(work);
        let placed = workload.sets.iter().any(|set| !set.placements.is_empty());
        let has_quota = match workload.status {
            Status::Running => true,
            // Until its eviction is complete.
            Status::Ending => workload.sets.iter().any(|set| !set.admitted.is_empty()),
            Status::Waiting | Status::Held => false,
        };
        if !placed && !has_quota {
            return;
        }
        let queue = self.compiled.workloads[work].queue;
        let mut allocation = Allocation {
            queue,
            usage: Vec::new(),
            sets: Vec::new(),
            speed_milli: 1_000,
        };
        for (at, set) in workload.sets.iter().enumerate() {
            let want = self.compiled.workloads[work].sets[at].want;
            let mut placements = Vec::new();
            for placement in &set.placements {
                let Some(node) = self.compiled.node(&placement.node) else {
                    continue;
                };
                let placement = self.seat_of(node, set, &placement.devices);
                // Apply it immediately, so that the next pod with unknown devices takes others.
                self.apply(&placement, want, 1);
                placements.push(placement);
            }
            let flavors = self.flavors_in_use(work, at, &placements);
            let placed = u32::try_from(placements.len()).unwrap_or(u32::MAX);
            allocation.sets.push(PodSetAllocation {
                // An admitted workload counts in full even if some pods have no node; one that only runs counts its running pods.
                count: if set.admitted.is_empty() && placed > 0 {
                    placed
                } else {
                    set.count
                },
                flavors,
                placements,
            });
        }
        allocation.speed_milli = self.speed(work, &allocation.sets);
        if let Some(queue) = queue {
            allocation.usage = self.usage_of(work, queue, &allocation.sets);
            for (set, own) in allocation.sets.iter().enumerate() {
                let beyond = self.amounts_beyond(work, set, queue, own.count);
                allocation.usage.extend(beyond);
            }
            allocation.usage.sort_unstable();
            for &(pair, amount) in &allocation.usage {
                self.use_quota(queue, pair, amount);
            }
        }
        let priority = workload.priority;
        self.occupancy.workloads[work] = WorkloadState {
            status: match workload.status {
                // Part of its pods run already.
                Status::Waiting => Status::Running,
                status => status,
            },
            allocation: Some(Arc::new(allocation)),
            priority,
            since: workload.admitted_at,
        };
    }

    /// Speed of the slowest flavor in use, in thousandths; 1,000 if unknown.
    pub(crate) fn speed(&self, work: WorkloadId, sets: &[PodSetAllocation]) -> i64 {
        let choices = self.compiled.workloads[work].choices.as_ref();
        let speed = |flavor: &FlavorId| {
            let mut all = choices?.iter();
            all.find(|(choice, _)| choice == flavor)
                .map(|(_, speed)| *speed)
        };
        let used = sets.iter().flat_map(|set| &set.flavors);
        used.filter_map(speed).min().unwrap_or(1_000)
    }

    /// Units of a node that a pod uses: the ones in the snapshot, or else the first free ones.
    fn seat_of(
        &self,
        node: NodeId,
        set: &PodSet,
        grips: &[crate::snapshot::HeldDevices],
    ) -> PodPlacement {
        let compiled = self.compiled;
        let units = &compiled.node_shapes[compiled.nodes[node].node_shape].units;
        let devices = &compiled.snapshot.nodes[node].devices;
        let mut held: Vec<(u32, i32)> = Vec::new();
        for grip in grips {
            let named = |unit: &crate::compiled::AllocatableUnit| {
                let device = &devices[unit.device];
                let slice = unit.slice.map(|slice| &device.slices[slice].name);
                // If the device has since been split into slices, all of them count as allocated.
                device.index == grip.device
                    && (grip.slice.is_none() || slice == grip.slice.as_ref())
            };
            let milli = |unit: &crate::compiled::AllocatableUnit| match unit.slice {
                Some(_) => WHOLE,
                None => grip.milli.clamp(1, WHOLE),
            };
            let named = units.iter().enumerate().filter(|(_, unit)| named(unit));
            held.extend(named.map(|(at, unit)| (at as u32, milli(unit))));
        }
        if grips.is_empty() {
            let left = self.left(node);
            for ask in &set.requests.devices {
                let of = |at: &usize| compiled.resources[units[*at].resource] == ask.resource;
                let mut own: Vec<usize> = (0..units.len()).filter(of).collect();
                // The first free units, then those with most left: an unknown device still counts as allocated.
                own.sort_by_key(|&at| (!units[at].sound, left[at] < WHOLE, -left[at], at));
                let milli = |at: usize| match units[at].slice {
                    Some(_) => WHOLE,
                    None => ask.milli.clamp(1, WHOLE),
                };
                let taken = own.iter().take(ask.count as usize);
                held.extend(taken.map(|&at| (at as u32, milli(at))));
            }
        }
        held.sort_unstable();
        held.dedup_by_key(|grip| grip.0);
        PodPlacement {
            node,
            units: held.into(),
        }
    }

    /// Flavor of each resource group that a running pod set requests: as admitted, or else the first that matches its nodes.
    fn flavors_in_use(
        &self,
        work: WorkloadId,
        set: usize,
        placements: &[PodPlacement],
    ) -> Vec<FlavorId> {
        let compiled = self.compiled;
        let Some(queue) = compiled.workloads[work].queue else {
            return Vec::new();
        };
        let admitted = &self.workload(work).sets[set].admitted;
        let nodes: Vec<NodeId> = placements.iter().map(|placement| placement.node).collect();
        let (groups, _) = self.covering_groups(work, set, queue);
        let flavor = |group: usize| {
            let group = &self.tree().branches[queue].groups[group];
            let named = |resource: &Name| compiled.flavor(admitted.get(resource)?);
            let flavor_name = group.resources.iter().find_map(named);
            // The flavor of accelerators may be recorded under their own resource name.
            let own = self.workload(work).sets[set].requests.devices.iter();
            let flavor_name = flavor_name.or_else(|| {
                let devices = group
                    .resources
                    .iter()
                    .any(|name| &**name == crate::snapshot::DEVICES);
                own.filter(|_| devices).find_map(|ask| named(&ask.resource))
            });
            flavor_name
                .or_else(|| {
                    let carried = |flavor: &&FlavorId| {
                        let all = |node: &NodeId| self.flavors_of(*node).any(|own| own == **flavor);
                        !nodes.is_empty() && nodes.iter().all(all)
                    };
                    group.flavors.iter().find(carried).copied()
                })
                .or_else(|| group.flavors.first().copied())
        };
        groups.into_iter().filter_map(flavor).collect()
    }
}
