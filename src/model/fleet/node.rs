//! Nodes as the fleet shows them: facts, pool, devices and the pods on them.

use std::sync::Arc;

use crate::base::{Moment, Name};

use super::device::{Device, Pod};
use super::observe::{NodeSeen, PodSeen};

/// Who cordoned a node, when and why, as far as anything says so.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cordon {
    /// Who.
    pub by: Option<Name>,
    /// When.
    pub at: Option<Moment>,
    /// Why.
    pub reason: Option<Name>,
}

/// How a node's hours are paid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Billing {
    /// By the hour, as long as it lives.
    OnDemand,
    /// Cheap, and taken back at will.
    Spot,
    /// Committed.
    Reserved,
    /// Bought.
    Owned,
}

impl Billing {
    /// As in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on-demand",
            Self::Spot => "spot",
            Self::Reserved => "reserved",
            Self::Owned => "owned",
        }
    }

    /// True where an hour is paid whether it is used or not.
    pub const fn is_committed(self) -> bool {
        matches!(self, Self::Reserved | Self::Owned)
    }

    /// The billing of this name.
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
    /// The pool it belongs to.
    pub pool: Name,
    /// Ready; `None` when its kubelet is silent.
    pub ready: Option<bool>,
    /// Since when it has been in that state.
    pub ready_since: Option<Moment>,
    /// Its cordon, if any.
    pub cordon: Option<Cordon>,
    /// How its hours are paid, where anything says so.
    pub billing: Option<Billing>,
    /// Machine type.
    pub instance_type: Option<Name>,
    /// Zone.
    pub zone: Option<Name>,
    /// Region.
    pub region: Option<Name>,
    /// Rack, or the closest topology level that stands for one.
    pub rack: Option<Name>,
    /// Topology levels from wide to narrow: (level, value).
    pub topology: Box<[(Name, Name)]>,
    /// Scale-up domain (NVLink clique, TPU slice).
    pub clique: Option<Name>,
    /// Driver version, from a label or the exporter.
    pub driver: Option<Name>,
    /// Its devices by index.
    pub devices: Box<[Device]>,
    /// Devices that it says it has, and that pods may ask for (by count of its accelerator resources).
    pub device_capacity: u32,
    /// See `device_capacity`.
    pub device_allocatable: u32,
    /// Its devices are handed out by claim, and what its drivers publish is withheld from us: how many it has is not
    /// known, beyond those that exporters show.
    pub withheld: bool,
    /// What it claims beyond the most that one node may have, which is ignored: the resource, label or driver that says
    /// so, and the number.
    pub ignored: Box<[(Name, u32)]>,
    /// Pods on it that are not over.
    pub pod_count: u32,
    /// Pods on it that hold devices.
    pub pods: Box<[Arc<Pod>]>,
    /// Pods on it that are not over and hold none: whoever drains it must take them off it too.
    pub others: Box<[Arc<PodSeen>]>,
}

impl Node {
    /// Name.
    pub fn name(&self) -> &Name {
        &self.seen.name
    }

    /// True when it is known how many devices it has.
    pub fn is_counted(&self) -> bool {
        !self.withheld && (self.ignored.is_empty() || !self.devices.is_empty())
    }

    /// The device of this index.
    pub fn device(&self, index: u32) -> Option<&Device> {
        self.devices.iter().find(|device| device.index == index)
    }
}
