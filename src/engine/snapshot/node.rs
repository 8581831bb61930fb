//! Nodes with their devices, slices, labels, taints and places in the topology.

use std::collections::BTreeMap;

use model::base::{DeviceAmount, Moment, Name, Rate, SmallSort};
use model::cost::Money;
use model::fleet::node::Billing;

/// Health of a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum EngineHealth {
    Ok,
    /// Works, with a warning.
    Warn,
    /// Broken: the engine places nothing new on it.
    Fault,
    /// Unknown; treated as working.
    #[default]
    Unknown,
}

model::words! {
    impl EngineHealth {
        /// Name in the document.
        pub fn name(self) {
            Ok => "ok",
            Warn => "warn",
            Fault => "fault",
            Unknown => "unknown",
        }
    }
}

/// A part of a device that pods can request on its own: a MIG instance or a replica of a shared device.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SnapshotSlice {
    /// Id within the device.
    pub name: Name,
    /// Extended resource that requests it.
    pub resource: Name,
    /// Its part of the device; `None` where that is not known.
    pub share: Option<DeviceAmount>,
}

/// A device. A device with slices is allocated by slices only.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SnapshotDevice {
    /// Index on its node.
    pub index: u32,
    /// Class of the accelerator, `h100-sxm`.
    pub class: Name,
    /// Extended resource that requests it: `nvidia.com/gpu`.
    pub resource: Name,
    pub health: EngineHealth,
    /// Price in micro-USD an hour, where known.
    pub price: Option<i64>,
    /// True for a list price used because the price that is paid is unknown.
    pub by_list: bool,
    pub slices: Vec<SnapshotSlice>,
}

impl SnapshotDevice {
    /// Its price, where known.
    pub fn rate(&self) -> Option<Money> {
        let all = self.price.map(Rate::from_micros)?;
        Some(Money::with_source(all, self.by_list))
    }
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TaintEffect {
    NoSchedule,
    /// Prefers no new pods; the engine allows them.
    PreferNoSchedule,
    /// No new pods; running pods are evicted.
    NoExecute,
}

model::words! {
    impl TaintEffect {
        /// Name as Kubernetes writes it.
        pub fn name(self) {
            NoSchedule => "NoSchedule",
            PreferNoSchedule => "PreferNoSchedule",
            NoExecute => "NoExecute",
        }
    }
}

impl TaintEffect {
    pub const ALL: [Self; 3] = [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute];
}

/// A taint of a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SnapshotTaint {
    pub key: Name,
    /// Value; may be empty.
    pub value: Name,
    pub effect: TaintEffect,
}

/// A pod on a node that uses no devices.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Resident {
    pub namespace: Name,
    pub name: Name,
    /// Unique id; empty where unknown.
    pub uid: Name,
    pub node: Name,
    /// Kind of its controller: `DaemonSet`, `Node` for a static pod; empty where it has none.
    pub owner: Name,
    pub deleted: Option<Moment>,
    /// CPU request in thousandths of a core; 0 if a workload already counts the pod.
    pub cpu_milli: i64,
    /// Memory request in bytes; 0 if a workload already counts the pod.
    pub memory_bytes: i64,
}

/// Whether pods of this controller kind stay when their node is drained: DaemonSet pods and static pods.
pub fn belongs_to_node(kind: &str) -> bool {
    matches!(kind, "DaemonSet" | "Node")
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct SnapshotNode {
    pub name: Name,
    /// Unique id; empty where unknown.
    pub uid: Name,
    pub pool: Name,
    /// False only if the node is known not to be ready.
    pub ready: bool,
    /// Unschedulable: takes no new pods.
    pub cordoned: bool,
    /// Reasons against uncordoning it, one sentence each: no advice asks for it.
    pub against_uncordon: Vec<Name>,
    /// Why the pool's autoscaler adds no node; none where it may add one, or where that is not known.
    pub no_more: Option<Name>,
    pub labels: BTreeMap<Name, Name>,
    pub taints: Vec<SnapshotTaint>,
    /// CPU that pods may request, in thousandths of a core; [`super::PLENTY`] where unknown.
    pub cpu_milli: i64,
    /// Memory that pods may request, in bytes; [`super::PLENTY`] where unknown.
    pub memory_bytes: i64,
    /// Billing model of its hours.
    pub billing: Option<Billing>,
    pub instance_type: Option<Name>,
    pub region: Option<Name>,
    /// Position in the topology: level and value, from wide to narrow; `block`, `rack`, `clique`, `slice`.
    pub topology: Vec<(Name, Name)>,
    pub devices: Vec<SnapshotDevice>,
}

impl SnapshotNode {
    /// Whether the node takes new pods, taints aside.
    pub fn is_open(&self) -> bool {
        self.ready && !self.cordoned
    }

    /// Whether it takes new pods once it is uncordoned, and nothing speaks against that.
    pub fn may_be_opened(&self) -> bool {
        self.cordoned && self.ready && self.against_uncordon.is_empty()
    }

    /// Whether one of its devices has a fault.
    pub fn has_fault(&self) -> bool {
        let mut devices = self.devices.iter();
        devices.any(|device| device.health == EngineHealth::Fault)
    }

    pub(super) fn settle(&mut self) {
        self.taints.small_sort();
        self.taints.dedup();
        for device in &mut self.devices {
            device.slices.small_sort();
        }
        self.devices.small_sort();
        self.devices.dedup_by(|b, a| a.index == b.index);
    }
}
