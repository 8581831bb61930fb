//! Nodes as the fleet shows them: facts, pool, devices and the pods on them.

use std::sync::Arc;

use crate::base::{Moment, Name};

use super::device::{Device, Pod};
use super::observed::seen::{NodeSeen, PodSeen};

/// User, time and reason of a cordon, where known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cordon {
    pub by: Option<Name>,
    pub at: Option<Moment>,
    pub reason: Option<Name>,
}

/// Words in the key of a taint by which people and agents say that a node is broken or worked on.
const REPAIR: [&str; 9] = [
    "repair",
    "maintenance",
    "rma",
    "broken",
    "fault",
    "quarantine",
    "unhealthy",
    "out-of-service",
    "remediation",
];

/// True for the key of a taint that says that a node is broken or worked on: `example.com/under-repair`.
fn speaks_of_repair(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let mut words = key.split(['/', '.', '-', '_', '=']);
    // `rma` is a word of its own, not a part of `normal`.
    words.any(|word| REPAIR.contains(&word))
        || REPAIR
            .iter()
            .any(|repair| repair.len() > 4 && key.contains(repair))
}

/// Billing mode of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Billing {
    /// Per hour of use.
    OnDemand,
    /// Discounted, may be reclaimed at any time.
    Spot,
    Reserved,
    Owned,
}

crate::words! {
    impl Billing {
        /// Name in the JSON contract.
        pub fn name(self) {
            OnDemand => "on-demand",
            Spot => "spot",
            Reserved => "reserved",
            Owned => "owned",
        }
    }
}

impl Billing {
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

#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    pub seen: Arc<NodeSeen>,
    pub pool: Name,
    /// Ready; `None` when its kubelet stopped posting node status.
    pub ready: Option<bool>,
    /// Start of the current ready state.
    pub ready_since: Option<Moment>,
    pub cordon: Option<Cordon>,
    /// Billing mode, where known.
    pub billing: Option<Billing>,
    pub instance_type: Option<Name>,
    pub zone: Option<Name>,
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
    pub device_allocatable: u32,
    /// True when its devices are allocated by claim and its ResourceSlices are not visible: the number of devices is not known,
    /// beyond those that exporters report.
    pub withheld: bool,
    /// Reported device counts above the maximum for one node, which are ignored: the resource, label or driver, and the count.
    pub ignored_counts: Box<[(Name, u32)]>,
    /// Pods on it that have not finished.
    pub pod_count: u32,
    /// Pods on it with devices allocated.
    pub pods: Box<[Arc<Pod>]>,
    /// Pods on it that have not finished and have no devices allocated: a drain must evict them too.
    pub others: Box<[Arc<PodSeen>]>,
}

impl Node {
    pub fn name(&self) -> &Name {
        &self.seen.name
    }

    /// True when the number of its devices is known.
    pub fn is_counted(&self) -> bool {
        !self.withheld && (self.ignored_counts.is_empty() || !self.devices.is_empty())
    }

    /// What its own object says against uncordoning it, one sentence each: the reason of its cordon, a failed condition, a taint
    /// of a repair. Empty for a node without a cordon.
    pub fn against_uncordon(&self) -> Vec<String> {
        let Some(cordon) = &self.cordon else {
            return Vec::new();
        };
        let mut all = Vec::new();
        if let Some(reason) = cordon.reason.as_ref().filter(|reason| !reason.is_empty()) {
            let by = cordon.by.as_ref().map(|by| format!(" by {by}"));
            let since = cordon.at.map(|at| format!(" since {}", at.rfc3339()));
            let (by, since) = (by.unwrap_or_default(), since.unwrap_or_default());
            all.push(format!("cordoned{by}{since}: {reason}"));
        }
        let conditions = self.seen.conditions.iter();
        let failed = conditions.filter(|condition| condition.is_wrong() == Some(true));
        all.extend(failed.map(|condition| {
            let why = [&condition.message, &condition.reason];
            let why = why.into_iter().find(|words| !words.is_empty());
            let why = why.map_or_else(String::new, |words| format!(": {words}"));
            format!("condition {}{why}", condition.kind)
        }));
        let taints = self.seen.taints.iter();
        let repairs = taints.filter(|taint| speaks_of_repair(&taint.key));
        all.extend(repairs.map(|taint| format!("taint {}", taint.key)));
        all
    }

    pub fn device(&self, index: u32) -> Option<&Device> {
        self.devices.iter().find(|device| device.index == index)
    }
}
