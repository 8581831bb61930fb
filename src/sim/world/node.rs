//! A node of the fleet: its devices, their allocation and health.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::base::{Moment, Name};

use super::catalog::{DRA, POOLS, PoolSpec};
use super::clients::patch::Edit;
use super::pod::PodId;

/// Index of a node; never reused.
pub(super) type NodeId = usize;

/// A schedulable unit: a whole device, or a MIG slice of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SchedulableUnit {
    pub gpu: u8,
    /// Index of its resource among the pool's.
    pub resource: u8,
    /// GPU instance id; 0 for a whole device.
    pub instance: u8,
}

/// State of a physical device. Its readings are computed, not stored.
#[derive(Clone, Debug, Default)]
pub(super) struct SimDevice {
    /// Energy used up to `energy_at`, in joules.
    pub energy: f64,
    /// When `energy` was last updated.
    pub energy_at: Moment,
    /// Mean watts since then.
    pub draw: f64,
    /// The last XID and when.
    pub xid: Option<(u16, Moment)>,
    /// Since when it is off the bus: the exporter no longer lists it.
    pub vanished: Option<Moment>,
    pub remapped: u16,
    pub remapped_soft: u16,
    pub remap_failed: bool,
    /// Double-bit ECC errors, the volatile counter.
    pub double_bit: u16,
    pub single_bit: u16,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SimTaint {
    pub key: Name,
    pub value: Name,
    pub effect: Name,
    pub added: Option<Moment>,
}

impl SimTaint {
    pub(super) fn new(key: &str, value: &str, effect: &str, added: Option<Moment>) -> Self {
        let (key, value, effect) = (Name::new(key), Name::new(value), Name::new(effect));
        Self {
            key,
            value,
            effect,
            added,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct SimNode {
    pub name: Name,
    /// Index into the catalog's pools.
    pub pool: usize,
    /// Number within the pool, from 1.
    pub serial: u32,
    /// TPU slice within the pool, from 0.
    pub slice: u32,
    pub slice_hosts: u32,
    /// Rack of the node, from 1.
    pub rack: u32,
    /// Place within the rack, from 0 (bottom).
    pub rack_position: u32,
    pub zone: &'static str,
    pub created: Moment,
    pub uid: u64,
    pub cordoned: bool,
    pub cordoned_at: Option<Moment>,
    /// Taints besides the pool's own.
    pub taints: Vec<SimTaint>,
    /// The kubelet posts its status.
    pub ready: bool,
    pub ready_since: Moment,
    pub heartbeat: Moment,
    /// The device plugin has not registered.
    pub plugin_down: bool,
    /// The condition that the health agent set: reason and message.
    pub complaint: Option<(Name, Name, Moment)>,
    pub units: Arc<[SchedulableUnit]>,
    /// The pod that each unit is allocated to.
    pub unit_pods: Vec<Option<PodId>>,
    /// Units of each of the pool's resources.
    pub masks: [u128; 2],
    pub taken: u128,
    /// Units that the device plugin reports unhealthy.
    pub lost: u128,
    pub cpu_free: i64,
    pub memory_free: i64,
    pub pods: BTreeSet<PodId>,
    pub devices: Vec<SimDevice>,
    /// It was removed from the cluster.
    pub gone: bool,
    pub edit: Edit,
}

impl SimNode {
    pub(super) fn spec(&self) -> &'static PoolSpec {
        &POOLS[self.pool]
    }

    /// Its devices are allocated through DRA: no device plugin offers them.
    pub(super) fn by_claim(&self) -> bool {
        self.pool == DRA
    }

    /// Units of one resource that the machine has.
    pub(super) fn capacity(&self, resource: usize) -> u32 {
        self.masks[resource].count_ones()
    }

    /// Units of one resource that the device plugin offers now.
    pub(super) fn allocatable(&self, resource: usize) -> u32 {
        if self.plugin_down {
            return 0;
        }
        (self.masks[resource] & !self.lost).count_ones()
    }

    /// Free units of one resource. An allocated unit that was lost still counts as allocated,
    /// as in the scheduler, which has only counts.
    pub(super) fn free(&self, resource: usize) -> u32 {
        let held = (self.masks[resource] & self.taken).count_ones();
        self.allocatable(resource).saturating_sub(held)
    }

    /// Allocates `count` units to the pod, lowest first; the caller has checked that they are free.
    pub(super) fn take(&mut self, pod: PodId, resource: usize, count: u32) -> Box<[u8]> {
        let mut taken = Vec::with_capacity(count as usize);
        for at in 0..self.units.len() {
            if taken.len() as u32 == count {
                break;
            }
            if usize::from(self.units[at].resource) == resource
                && self.unit_pods[at].is_none()
                && self.lost >> at & 1 == 0
            {
                self.unit_pods[at] = Some(pod);
                self.taken |= 1 << at;
                taken.push(at as u8);
            }
        }
        taken.into_boxed_slice()
    }

    /// Frees the pod's units.
    pub(super) fn release(&mut self, pod: PodId) {
        for (at, holder) in self.unit_pods.iter_mut().enumerate() {
            if *holder == Some(pod) {
                *holder = None;
                self.taken &= !(1 << at);
            }
        }
        self.pods.remove(&pod);
    }

    /// The index of a resource among the pool's.
    pub(super) fn resource(&self, name: &str) -> Option<usize> {
        self.spec().resources.iter().position(|have| *have == name)
    }

    /// Every taint: the pool's own, the cordon's, and the rest.
    pub(super) fn all_taints(&self) -> Vec<SimTaint> {
        let own = self
            .spec()
            .taint
            .map(|(key, value)| SimTaint::new(key, value, "NoSchedule", None));
        let mut all: Vec<SimTaint> = own.into_iter().chain(self.taints.iter().cloned()).collect();
        if self.cordoned {
            all.push(SimTaint::new(
                "node.kubernetes.io/unschedulable",
                "",
                "NoSchedule",
                self.cordoned_at,
            ));
        }
        all
    }
}
