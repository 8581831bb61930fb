//! Nodes as the fleet shows them: facts, pool, devices and the pods on them.

use std::sync::Arc;

use crate::base::{Moment, Name};

use super::device::{Device, Pod};
use super::observe::{NodeSeen, PodSeen};

/// User, time and reason of a cordon, where known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cordon {
    /// User.
    pub by: Option<Name>,
    /// Time.
    pub at: Option<Moment>,
    /// Reason.
    pub reason: Option<Name>,
}

/// Billing mode of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Billing {
    /// Per hour of use.
    OnDemand,
    /// Discounted, may be reclaimed at any time.
    Spot,
    /// Committed.
    Reserved,
    /// Purchased.
    Owned,
}

impl Billing {
    /// Name in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::Reserved => "reserved",
            Self::Owned => "owned",
        }
    }

    /// True where an hour is paid whether used or not.
    pub const fn is_committed(self) -> bool {
        matches!(self, Self::Reserved | Self::Owned)
    }

    /// The billing mode with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "on-demand" => Some(Self::OnDemand),
            "spot" => Some(Self::Spot),
            "reserved" => Some(Self::Reserved),
            "owned" => Some(Self::Owned),
            _ => None,
        }
    }
}

/// A node.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// As last seen.
    pub seen: Arc<NodeSeen>,
    /// Its pool.
    pub pool: Name,
    /// Ready; `None` when its kubelet stopped posting node status.
    pub ready: Option<bool>,
    /// Start of the current ready state.
    pub ready_since: Option<Moment>,
    /// Its cordon, if any.
    pub cordon: Option<Cordon>,
    /// Billing mode, where known.
    pub billing: Option<Billing>,
    /// Machine type.
    pub instance_type: Option<Name>,
    /// Zone.
    pub zone: Option<Name>,
    /// Region.
    pub region: Option<Name>,
    /// Rack, or the closest topology level.
    pub rack: Option<Name>,
    /// Topology levels from wide to narrow: (level, value).
    pub topology: Box<[(Name, Name)]>,
    /// Scale-up domain (NVLink clique, TPU slice).
    pub clique: Option<Name>,
    /// Driver version, from a label or the exporter.
    pub driver: Option<Name>,
    /// Its devices by index.
    pub devices: Box<[Device]>,
    /// Capacity and allocatable count of its accelerator resources.
    pub device_capacity: u32,
    /// See `device_capacity`.
    pub device_allocatable: u32,
    /// True when its devices are allocated by claim and its ResourceSlices are not visible: the number of devices is not known,
    /// beyond those that exporters report.
    pub withheld: bool,
    /// Reported device counts above the maximum for one node, which are ignored: the resource, label or driver, and the count.
    pub ignored: Box<[(Name, u32)]>,
    /// Pods on it that have not finished.
    pub pod_count: u32,
    /// Pods on it with devices allocated.
    pub pods: Box<[Arc<Pod>]>,
    /// Pods on it that have not finished and have no devices allocated: a drain must evict them too.
    pub others: Box<[Arc<PodSeen>]>,
}

impl Node {
    /// Name.
    pub fn name(&self) -> &Name {
        &self.seen.name
    }

    /// True when the number of its devices is known.
    pub fn is_counted(&self) -> bool {
        !self.withheld && (self.ignored.is_empty() || !self.devices.is_empty())
    }

    /// The device of this index.
    pub fn device(&self, index: u32) -> Option<&Device> {
        self.devices.iter().find(|device| device.index == index)
    }
}
