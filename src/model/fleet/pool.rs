//! Pools: nodes that are paid, owned and filled together, with their counts and means.

use crate::base::quantities::counted;
use crate::base::{DeviceAmount, Name};

use super::device::Device;
use super::node::{Billing, Node};
use super::rules::accelerator::{DeviceKind, Vendor};

/// Whether a pool's size changes by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PoolMode {
    Static,
    /// Grown and shrunk by an autoscaler.
    Dynamic,
}

crate::words! {
    impl PoolMode {
        /// As in the JSON contract.
        pub fn name(self) {
            Static => "static",
            Dynamic => "dynamic",
        }
    }
}

/// How many devices of one class a pool has.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ClassCount {
    pub class: Name,
    pub vendor: Vendor,
    /// GPU, TPU or other.
    pub kind: DeviceKind,
    pub devices: u32,
    /// Devices in one node, when all its nodes have the same number.
    pub per_node: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeCounts {
    pub total: u32,
    pub ready: u32,
    pub cordoned: u32,
    /// Smallest size the autoscaler may choose.
    pub min: Option<u32>,
    /// Largest size the autoscaler may choose.
    pub max: Option<u32>,
}

/// Devices and parts of devices that no pod holds and that a new pod cannot use, each counted under the first reason that applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unusable {
    /// Their node is not ready, or it is not known whether it is.
    pub not_ready: DeviceAmount,
    /// Their node is cordoned.
    pub cordoned: DeviceAmount,
    pub unhealthy: DeviceAmount,
    /// Their node does not offer them: its device plugin has taken them out of use, or is not up, or no slice takes them.
    pub not_allocatable: DeviceAmount,
}

impl Unusable {
    /// Those of one node. Of a node with slices it is not known which device a slice that is not offered is of: there a node that offers
    /// nothing counts, and what no slice takes of a device.
    pub fn of(node: &Node) -> Self {
        let free: DeviceAmount = node.devices.iter().map(Device::free).sum();
        if node.ready != Some(true) {
            return Self {
                not_ready: free,
                ..Self::default()
            };
        }
        if node.cordon.is_some() {
            return Self {
                cordoned: free,
                ..Self::default()
            };
        }
        let sound = || {
            let devices = node.devices.iter();
            devices.filter(|device| !device.health.is_fault())
        };
        let is_whole = node.devices.iter().all(|device| device.slices.is_empty());
        let not_uncut = |device: &Device| device.free().less(device.uncut());
        let usable: DeviceAmount = sound().map(not_uncut).sum();
        let sound: DeviceAmount = sound().map(Device::free).sum();
        let offered = match node.device_allocatable {
            0 => DeviceAmount::ZERO,
            // Amounts that the scheduler counts with: allocatable minus requested.
            most if is_whole => {
                let held: DeviceAmount = node.devices.iter().map(Device::allocated).sum();
                DeviceAmount::whole(most).less(held)
            }
            _ => usable,
        };
        Self {
            unhealthy: free.less(sound),
            not_allocatable: sound.less(offered),
            ..Self::default()
        }
    }

    /// The devices of a node, each with true where no new pod can use what is free of it: those that [`Self::of`] counts. A node may
    /// offer fewer devices than it has; then the last free ones count as not usable.
    pub fn devices(node: &Node) -> impl Iterator<Item = (&Device, bool)> {
        let is_out =
            node.ready != Some(true) || node.cordon.is_some() || node.device_allocatable == 0;
        let is_whole = node.devices.iter().all(|device| device.slices.is_empty());
        let mut withheld = match is_whole && !is_out {
            true => Self::of(node).not_allocatable.floor(),
            false => 0,
        };
        let mut all: Vec<(&Device, bool)> = node
            .devices
            .iter()
            .rev()
            .map(|device| {
                if is_out || device.health.is_fault() {
                    return (device, true);
                }
                let is_withheld = withheld > 0 && !device.is_allocated();
                withheld -= u32::from(is_withheld);
                (device, is_withheld)
            })
            .collect();
        all.reverse();
        all.into_iter()
    }

    pub fn total(&self) -> DeviceAmount {
        self.not_ready + self.cordoned + self.unhealthy + self.not_allocatable
    }

    /// Why, with how many each: `8 cordoned, 1 unhealthy`; `None` where all are usable.
    pub fn words(&self) -> Option<String> {
        let all = [
            (self.not_ready, "on nodes that are not ready"),
            (self.cordoned, "cordoned"),
            (self.unhealthy, "unhealthy"),
            (self.not_allocatable, "not allocatable"),
        ];
        let named = all.iter().filter(|(amount, _)| !amount.is_zero());
        let named: Vec<String> = named
            .map(|(amount, why)| format!("{amount} {why}"))
            .collect();
        (!named.is_empty()).then(|| named.join(", "))
    }
}

impl std::ops::AddAssign for Unusable {
    fn add_assign(&mut self, other: Self) {
        self.not_ready += other.not_ready;
        self.cordoned += other.cordoned;
        self.unhealthy += other.unhealthy;
        self.not_allocatable += other.not_allocatable;
    }
}

/// Counts of devices. `total = allocated + free`; the others overlap with both. Of a device that is shared, each part
/// counts where it belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceCounts {
    pub total: u32,
    /// Allocated to pods: whole devices, and the allocated parts of shared ones.
    pub allocated: DeviceAmount,
    /// Allocated to no pod.
    pub free: DeviceAmount,
    /// Those of the free that a new pod cannot use.
    pub unusable: Unusable,
    /// Faulty, or on a node that is not ready.
    pub unhealthy: u32,
    /// Held, but doing no work.
    pub idle_allocated: DeviceAmount,
}

/// Counts of devices as they may be shown: unknown unless every node and pod is visible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VisibleCounts {
    pub total: Option<u32>,
    /// Allocated to pods: whole devices, and the allocated parts of shared ones.
    pub allocated: Option<DeviceAmount>,
    /// Allocated to no pod.
    pub free: Option<DeviceAmount>,
    /// Devices that no pod holds and that a new pod could use now.
    pub free_usable: Option<DeviceAmount>,
    /// Why the others of the free cannot be used.
    pub unusable: Option<Unusable>,
    /// Faulty, or on a node that is not ready.
    pub unhealthy: Option<u32>,
    /// Held, but doing no work.
    pub idle_allocated: Option<DeviceAmount>,
}

impl VisibleCounts {
    /// `38 free`, or with the reason if a new pod cannot use every free device: `38 free, 30 usable: 8 cordoned`.
    pub fn free_words(&self) -> Option<String> {
        let (free, usable) = self.free.zip(self.free_usable)?;
        let why = self.unusable.and_then(|unusable| unusable.words());
        Some(match (why, usable) {
            (None, _) => format!("{free} free"),
            (Some(why), usable) if usable.is_zero() => format!("{free} free, none usable: {why}"),
            (Some(why), _) => format!("{free} free, {usable} usable: {why}"),
        })
    }

    /// Allocated devices as a share of all.
    pub fn allocation(&self) -> Option<f64> {
        let total = self.total.filter(|total| *total > 0)?;
        Some(self.allocated?.devices() / f64::from(total))
    }
}

impl DeviceCounts {
    /// These counts as they may be shown with this visibility.
    pub fn seen_with(self, PoolSight { nodes, pods }: PoolSight) -> VisibleCounts {
        let held = nodes && pods;
        VisibleCounts {
            total: nodes.then_some(self.total),
            allocated: held.then_some(self.allocated),
            free: held.then_some(self.free),
            free_usable: held.then(|| self.free.less(self.unusable.total())),
            unusable: held.then_some(self.unusable),
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
        self.unusable += other.unusable;
        self.unhealthy += other.unhealthy;
        self.idle_allocated += other.idle_allocated;
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Pool {
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
    pub nodes: NodeCounts,
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
    /// Devices, and slices of devices, that pending jobs request from this pool.
    pub waiting_devices: u32,
    /// How many of these are slices.
    pub waiting_slices: u32,
    /// Any of its readings is stale or its nodes are lost.
    pub stale: bool,
    /// Which of its data is visible.
    pub visibility: PoolSight,
}

impl Pool {
    /// Its autoscaler's maximum, when `more` nodes would exceed it; `None` for a static pool.
    pub fn maximum_below(&self, more: u32) -> Option<u32> {
        let wanted = self.nodes.total.saturating_add(more);
        let max = self
            .nodes
            .max
            .filter(|_| self.mode != Some(PoolMode::Static));
        max.filter(|max| wanted > *max)
    }

    /// The visible counts of its devices.
    pub fn counts(&self) -> VisibleCounts {
        self.devices.seen_with(self.visibility)
    }

    /// Its nodes, where they are visible.
    pub fn visible_nodes(&self) -> Option<NodeCounts> {
        self.visibility.nodes.then_some(self.nodes)
    }
}

/// The name of the pool of nodes that are not visible. No pool has such a name: a label's value has no parentheses.
pub const NOT_VISIBLE: &str = "(not visible)";

/// Waiting devices that count in no pool, by reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WaitingOutside {
    /// No node has the labels and the kind of device that the pods ask for.
    pub no_pool: u32,
    /// What the pods ask for is not known yet, or where they may run.
    pub not_known: u32,
    /// The nodes are not visible, so which pool could serve them is not known.
    pub not_visible: u32,
}

impl WaitingOutside {
    /// Names of their rows among the pools.
    pub const NAMES: [&str; 3] = ["(no pool)", "(unknown)", NOT_VISIBLE];

    /// The counts in the order of `NAMES`.
    pub const fn counts(self) -> [u32; 3] {
        [self.no_pool, self.not_known, self.not_visible]
    }

    /// The counts above zero, each with the name of its row.
    pub fn rows(self) -> impl Iterator<Item = (&'static str, u32)> {
        let all = Self::NAMES.into_iter().zip(self.counts());
        all.filter(|(_, devices)| *devices > 0)
    }
}

/// What is requested in its units: `8 devices`, `100 slices`, `8 devices and 100 slices`.
pub fn requested_words(all: u64, slices: u64) -> String {
    let devices = counted(all.saturating_sub(slices), "device");
    match slices {
        0 => devices,
        _ if slices >= all => counted(slices, "slice"),
        _ => format!("{devices} and {}", counted(slices, "slice")),
    }
}

/// Visibility of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolSight {
    /// True when its nodes are visible; otherwise only devices of visible pods are counted.
    pub nodes: bool,
    /// True when all pods on its nodes are visible; otherwise a device that looks free may be allocated.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::sample::{allocated_to, device, node, pod};
    use crate::fleet::device::Health;
    use crate::fleet::node::Cordon;

    #[test]
    fn what_is_requested_is_named_by_its_unit() {
        assert_eq!(requested_words(8, 0), "8 devices");
        assert_eq!(requested_words(1, 1), "1 slice");
        assert_eq!(requested_words(108, 100), "8 devices and 100 slices");
    }

    #[test]
    fn a_free_device_is_usable_where_a_new_pod_could_start_on_it() {
        let own = pod("nlp", "train-0", None, "nlp");
        let devices = vec![
            allocated_to(device("n", 0, "H100"), &own),
            device("n", 1, "H100"),
            device("n", 2, "H100"),
            device("n", 3, "H100"),
        ];
        let mut node = node("n", "h100", None, devices);
        let why = |node: &Node| Unusable::of(node).words();
        let out = |node: &Node| -> Vec<bool> {
            Unusable::devices(node).map(|(_, is_out)| is_out).collect()
        };
        assert_eq!(why(&node), None);
        assert_eq!(out(&node), [false; 4]);
        // Of the four that it offers a pod has one: the scheduler counts with two when it offers three.
        node.device_allocatable = 3;
        assert_eq!(why(&node).as_deref(), Some("1 not allocatable"));
        assert_eq!(out(&node), [false, false, false, true]);
        node.devices[2].health = Health::Fault(Name::new("XID 79"));
        assert_eq!(why(&node).as_deref(), Some("1 unhealthy"), "it is that one");
        assert_eq!(out(&node), [false, false, true, false]);
        node.device_allocatable = 0;
        assert_eq!(
            why(&node).as_deref(),
            Some("1 unhealthy, 2 not allocatable")
        );
        assert_eq!(out(&node), [true; 4]);
        node.device_allocatable = 4;
        node.cordon = Some(Cordon::default());
        assert_eq!(why(&node).as_deref(), Some("3 cordoned"));
        assert_eq!(out(&node), [true; 4]);
        node.ready = None;
        assert_eq!(why(&node).as_deref(), Some("3 on nodes that are not ready"));
        let counts = DeviceCounts {
            total: 4,
            allocated: DeviceAmount::ONE,
            free: DeviceAmount::whole(3),
            unusable: Unusable::of(&node),
            ..DeviceCounts::default()
        };
        let seen = counts.seen_with(PoolSight::default());
        assert_eq!(
            (seen.free, seen.free_usable),
            (Some(DeviceAmount::whole(3)), Some(DeviceAmount::ZERO))
        );
        assert_eq!(
            seen.free_words().as_deref(),
            Some("3 free, none usable: 3 on nodes that are not ready")
        );
    }
}
