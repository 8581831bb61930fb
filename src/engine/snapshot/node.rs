//! Nodes with their devices, slices, labels, taints and places in the topology.

use std::collections::BTreeMap;

use model::base::{Moment, Name, SmallSort};
use model::fleet::node::Billing;

/// How a device is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Health {
    /// Nothing says otherwise.
    Ok,
    /// Works, with something to look at.
    Warn,
    /// Broken: nothing new is placed on it.
    Fault,
    /// Nothing is known; it is taken to work.
    #[default]
    Unknown,
}

/// A part of a device that can be asked for on its own: a MIG instance or a replica of a shared device.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Slice {
    /// Id within the device.
    pub name: Name,
    /// The extended resource that asks for it.
    pub resource: Name,
}

/// A device. One that has slices is only given out by slices.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Device {
    /// Index on its node.
    pub index: u32,
    /// Class: `h100-sxm`.
    pub class: Name,
    /// The extended resource that asks for it: `nvidia.com/gpu`.
    pub resource: Name,
    /// Health.
    pub health: Health,
    /// Price in micro-USD an hour, where known.
    pub price: Option<i64>,
    /// Slices, by name.
    pub slices: Vec<Slice>,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TaintEffect {
    /// No new pods.
    NoSchedule,
    /// Rather no new pods; the engine lets them.
    PreferNoSchedule,
    /// No new pods, and those there must go.
    NoExecute,
}

impl TaintEffect {
    /// Every effect.
    pub const ALL: [Self; 3] = [Self::NoSchedule, Self::PreferNoSchedule, Self::NoExecute];

    /// As Kubernetes writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// A taint of a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Taint {
    /// Key.
    pub key: Name,
    /// Value; may be empty.
    pub value: Name,
    /// Effect.
    pub effect: TaintEffect,
}

/// A topology made of node labels, as Kueue's `Topology` object names them, from wide to narrow.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Topology {
    /// Its name; flavors refer to it.
    pub name: Name,
    /// Label keys, from wide to narrow.
    pub levels: Vec<Name>,
}

/// A pod on a node that holds no devices.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Resident {
    /// Namespace.
    pub namespace: Name,
    /// Name.
    pub name: Name,
    /// Unique id; empty where unknown.
    pub uid: Name,
    /// Node.
    pub node: Name,
    /// Kind of its controller: `DaemonSet`, `Node` for a static pod; empty where it has none.
    pub owner: Name,
    /// When it was told to end.
    pub deleted: Option<Moment>,
    /// CPU that it asks for, in thousandths of a core; nothing for one that a workload counts.
    pub cpu_milli: i64,
    /// Memory that it asks for, in bytes; nothing for one that a workload counts.
    pub memory_bytes: i64,
}

/// Whether pods of a controller of this kind belong to their node and stay when it is drained: daemons, and static pods.
pub fn belongs_to_node(kind: &str) -> bool {
    matches!(kind, "DaemonSet" | "Node")
}

/// A node.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Node {
    /// Name, unlike every other.
    pub name: Name,
    /// Unique id; empty where unknown.
    pub uid: Name,
    /// Pool.
    pub pool: Name,
    /// False only where it is known not to be ready.
    pub ready: bool,
    /// Takes no new pods.
    pub cordoned: bool,
    /// Labels.
    pub labels: BTreeMap<Name, Name>,
    /// Taints, in order.
    pub taints: Vec<Taint>,
    /// CPU that pods may ask for, in thousandths of a core; [`super::PLENTY`] where unknown.
    pub cpu_milli: i64,
    /// Memory that pods may ask for, in bytes; [`super::PLENTY`] where unknown.
    pub memory_bytes: i64,
    /// How its hours are paid.
    pub billing: Option<Billing>,
    /// Machine type.
    pub instance_type: Option<Name>,
    /// Region.
    pub region: Option<Name>,
    /// Its place: level and value, from wide to narrow; `block`, `rack`, `clique`, `slice`.
    pub topology: Vec<(Name, Name)>,
    /// Devices, by index.
    pub devices: Vec<Device>,
}

impl Node {
    /// Whether new pods may be placed here, taints aside.
    pub fn is_open(&self) -> bool {
        self.ready && !self.cordoned
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
