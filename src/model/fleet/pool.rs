//! Pools: nodes that are paid, owned and filled together, with their counts and means.

use crate::base::Name;

use super::accelerator::{DeviceKind, Vendor};
use super::node::Billing;

/// Whether a pool's size changes by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PoolMode {
    /// Fixed.
    Static,
    /// Grown and shrunk by an autoscaler.
    Dynamic,
}

impl PoolMode {
    /// As in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Dynamic => "dynamic",
        }
    }
}

/// How many devices of one class a pool has.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ClassCount {
    /// Class.
    pub class: Name,
    /// Vendor.
    pub vendor: Vendor,
    /// GPU, TPU or other.
    pub kind: DeviceKind,
    /// Devices.
    pub devices: u32,
    /// Devices in one node, when all its nodes have the same number.
    pub per_node: Option<u32>,
}

/// Counts of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeCounts {
    /// All.
    pub total: u32,
    /// Ready.
    pub ready: u32,
    /// Cordoned.
    pub cordoned: u32,
    /// Smallest size the autoscaler may choose.
    pub min: Option<u32>,
    /// Largest size the autoscaler may choose.
    pub max: Option<u32>,
}

/// Counts of devices. `total = allocated + free`; the other two overlap with both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceCounts {
    /// All.
    pub total: u32,
    /// Held by a pod, whole or in part.
    pub allocated: u32,
    /// Held by nobody.
    pub free: u32,
    /// Faulty, or on a node that is not ready.
    pub unhealthy: u32,
    /// Held, but doing no work.
    pub idle_allocated: u32,
}

/// What may be said of counts of devices: nothing where not every node and pod is visible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VisibleCounts {
    /// All.
    pub total: Option<u32>,
    /// Held by a pod, whole or in part.
    pub allocated: Option<u32>,
    /// Held by none.
    pub free: Option<u32>,
    /// Faulty, or on a node that is not ready.
    pub unhealthy: Option<u32>,
    /// Held, but doing no work.
    pub idle_allocated: Option<u32>,
}

impl VisibleCounts {
    /// Allocated devices as a share of all.
    pub fn allocation(&self) -> Option<f64> {
        let total = self.total.filter(|total| *total > 0)?;
        Some(f64::from(self.allocated?) / f64::from(total))
    }
}

impl DeviceCounts {
    /// What may be said of these counts by who sees so much.
    pub fn seen_with(self, PoolSight { nodes, pods }: PoolSight) -> VisibleCounts {
        let held = nodes && pods;
        VisibleCounts {
            total: nodes.then_some(self.total),
            allocated: held.then_some(self.allocated),
            free: held.then_some(self.free),
            unhealthy: nodes.then_some(self.unhealthy),
            idle_allocated: held.then_some(self.idle_allocated),
        }
    }
}

impl std::ops::AddAssign for DeviceCounts {
    fn add_assign(&mut self, other: Self) {
        self.total += other.total;
        self.allocated += other.allocated;
        self.free += other.free;
        self.unhealthy += other.unhealthy;
        self.idle_allocated += other.idle_allocated;
    }
}

/// A pool.
#[derive(Clone, PartialEq, Debug)]
pub struct Pool {
    /// Name.
    pub name: Name,
    /// Static or dynamic, where anything says so.
    pub mode: Option<PoolMode>,
    /// How its hours are paid; `None` when nothing says so; see `billing_mixed`.
    pub billing: Option<Billing>,
    /// Its nodes are paid in different ways.
    pub billing_mixed: bool,
    /// The team that owns it.
    pub owner: Option<Name>,
    /// Classes of its devices, most devices first.
    pub classes: Box<[ClassCount]>,
    /// Nodes.
    pub nodes: NodeCounts,
    /// Devices.
    pub devices: DeviceCounts,
    /// Mean utilization of devices with a fresh reading, 0 to 1.
    pub util: Option<f64>,
    /// Memory in use as a share of all, over devices that say both.
    pub mem_used: Option<f64>,
    /// Hottest device, degrees Celsius.
    pub temp_max: Option<f64>,
    /// Power drawn, watts, over devices that say.
    pub power_watts: Option<f64>,
    /// Power limits, watts, over devices that say or whose model is known.
    pub power_limit_watts: Option<f64>,
    /// Devices that waiting jobs want of this pool.
    pub waiting_devices: u32,
    /// Any of its readings is stale or its nodes are lost.
    pub stale: bool,
    /// What of it may be seen.
    pub sight: PoolSight,
}

impl Pool {
    /// What may be said of its devices.
    pub fn counts(&self) -> VisibleCounts {
        self.devices.seen_with(self.sight)
    }

    /// Its nodes, where they are visible.
    pub fn visible_nodes(&self) -> Option<NodeCounts> {
        self.sight.nodes.then_some(self.nodes)
    }
}

/// What of a pool may be seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolSight {
    /// Its nodes; without them it is no more than what pods in sight hold.
    pub nodes: bool,
    /// All pods on its nodes; without them, what looks free may be held.
    pub pods: bool,
}

impl Default for PoolSight {
    fn default() -> Self {
        Self {
            nodes: true,
            pods: true,
        }
    }
}
