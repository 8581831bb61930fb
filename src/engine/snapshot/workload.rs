//! Workloads: their pods, requests, placement constraints, placements and allowed mutations.

use std::collections::BTreeMap;

use model::base::{Moment, Name, SmallSort};
use model::fleet::job::JobKey;
use model::fleet::siting::Operator;

use super::WHOLE;
use super::node::{SnapshotTaint, TaintEffect};
use super::queue::System;

/// The taint of a cordoned node.
pub const CORDON: &str = "node.kubernetes.io/unschedulable";

/// Devices of one resource that a pod requests.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceRequest {
    /// Extended resource: `nvidia.com/gpu`, `nvidia.com/mig-1g.10gb`, `google.com/tpu`.
    pub resource: Name,
    pub count: u32,
    /// Share of each device, in thousandths; [`WHOLE`] for a whole device.
    pub milli: i32,
}

impl DeviceRequest {
    /// Thousandths of devices in all.
    pub fn all_milli(&self) -> i64 {
        i64::from(self.count) * i64::from(self.milli)
    }
}

/// Requests of one pod.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ResourceRequests {
    /// CPU in thousandths of a core.
    pub cpu_milli: i64,
    /// Requested memory of the pod, bytes.
    pub memory_bytes: i64,
    /// Devices by resource; no entry has a count of zero.
    pub devices: Vec<DeviceRequest>,
}

impl ResourceRequests {
    /// Number of devices and slices of all resources.
    pub fn device_count(&self) -> u32 {
        self.devices
            .iter()
            .fold(0, |sum, ask| sum.saturating_add(ask.count))
    }

    /// Thousandths of devices of all resources.
    pub fn device_milli(&self) -> i64 {
        self.devices.iter().map(DeviceRequest::all_milli).sum()
    }
}

/// One comparison of a node's label (`matchExpressions` of required node affinity).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Requirement {
    pub key: Name,
    pub op: Operator,
    /// Values to compare with.
    pub values: Vec<Name>,
}

impl Requirement {
    /// Whether a node with these labels matches.
    pub fn is_met(&self, labels: &BTreeMap<Name, Name>) -> bool {
        let here = labels.get(&self.key);
        let number = |text: &str| text.parse::<i64>().ok();
        let than = || self.values.first().and_then(|value| number(value));
        match self.op {
            Operator::In => here.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => !here.is_some_and(|value| self.values.contains(value)),
            Operator::Exists => here.is_some(),
            Operator::DoesNotExist => here.is_none(),
            Operator::Gt | Operator::Lt => match (here.and_then(|value| number(value)), than()) {
                (Some(here), Some(than)) if self.op == Operator::Gt => here > than,
                (Some(here), Some(than)) => here < than,
                _ => false,
            },
        }
    }
}

/// A toleration of node taints.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SnapshotToleration {
    /// Key; none for every key.
    pub key: Option<Name>,
    /// Value; none where the key alone counts (`Exists`).
    pub value: Option<Name>,
    /// Effect; none for every effect.
    pub effect: Option<TaintEffect>,
}

impl SnapshotToleration {
    /// Whether it tolerates a taint.
    pub fn covers(&self, taint: &SnapshotTaint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self
                .value
                .as_ref()
                .is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

/// Requests that the pods of a set are placed in one domain of a topology level.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopologyRequest {
    /// Level of [`super::SnapshotNode::topology`], or a node label's key; empty for Kueue's unconstrained topology: its flavor has one,
    /// and the pods may be anywhere in it.
    pub level: Name,
    /// True: all pods start in one domain or none starts. False: preferred, as close as possible.
    pub required: bool,
}

impl TopologyRequest {
    pub fn is_unconstrained(&self) -> bool {
        self.level.is_empty()
    }
}

/// A device, or a part of a device, that is allocated to a pod.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HeldDevices {
    /// Index of the device on its node.
    pub device: u32,
    /// Slice; none for the device itself.
    pub slice: Option<Name>,
    /// Allocated share, in thousandths.
    pub milli: i32,
}

/// The object of a queueing system for a workload: Kueue's Workload, a PodGroup of Volcano or KAI.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Handle {
    /// Queueing system of the object.
    pub system: System,
    /// Its name, in the workload's namespace.
    pub name: Name,
    /// Its unique id; empty where unknown.
    pub uid: Name,
    /// The other objects of the workload in that system: a LeaderWorkerSet has a Workload for each of its groups.
    pub others: Vec<OtherHandle>,
}

/// One more object of a workload in its queueing system.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct OtherHandle {
    /// Its name, in the workload's namespace.
    pub name: Name,
    /// Its unique id; empty where unknown.
    pub uid: Name,
    /// Whether its system may admit it.
    pub active: bool,
    /// Whether it has quota.
    pub has_quota: bool,
}

/// Node and devices of one pod.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Placement {
    /// Pod name; empty if it has none yet.
    pub pod: Name,
    /// Its unique id; empty where unknown.
    pub uid: Name,
    pub deleted: Option<Moment>,
    pub node: Name,
    /// Allocated devices. Empty although the pod requests devices: it is unknown which ones.
    pub devices: Vec<HeldDevices>,
    /// Start of the allocation: when its containers first ran, or when it was bound.
    pub started: Option<Moment>,
}

/// A set of identical pods.
#[derive(Clone, PartialEq, Debug)]
pub struct PodSet {
    /// Name within the workload.
    pub name: Name,
    /// Requested number of pods.
    pub count: u32,
    /// Minimum number of pods to start.
    pub min: u32,
    /// Requests of each pod.
    pub requests: ResourceRequests,
    pub selector: BTreeMap<Name, Name>,
    /// Required node affinity: all requirements of at least one list must match. Empty: any node.
    pub affinity: Vec<Vec<Requirement>>,
    pub tolerations: Vec<SnapshotToleration>,
    pub topology: Option<TopologyRequest>,
    /// Admitted flavor by resource, where known.
    pub admitted: BTreeMap<Name, Name>,
    /// Quota usage of each pod by resource, in the resource's unit ([`super::unit_is_milli`]), if its queueing system counts in
    /// resources of its own; if empty, the requests count.
    pub quota: BTreeMap<Name, i64>,
    /// Placements of its pods.
    pub placements: Vec<Placement>,
}

impl PodSet {
    /// Whether its pods tolerate the taint of a cordoned node.
    pub fn tolerates_cordon(&self) -> bool {
        let cordon = SnapshotTaint {
            key: Name::from(CORDON),
            value: Name::default(),
            effect: TaintEffect::NoSchedule,
        };
        let mut all = self.tolerations.iter();
        all.any(|toleration| toleration.covers(&cordon))
    }
}

impl Default for PodSet {
    fn default() -> Self {
        Self {
            name: Name::from("main"),
            count: 1,
            min: 1,
            requests: ResourceRequests::default(),
            selector: BTreeMap::new(),
            affinity: Vec::new(),
            tolerations: Vec::new(),
            topology: None,
            admitted: BTreeMap::new(),
            quota: BTreeMap::new(),
            placements: Vec::new(),
        }
    }
}

/// A flavor that a workload can use, and its speed there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlavorChoice {
    pub flavor: Name,
    /// Speed in thousandths: at 1,300 a workload finishes in 1/1.3 of the time.
    pub speed_milli: i64,
}

/// Mutations that the owner's kind supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkloadMutations {
    /// It can be suspended.
    pub suspend: bool,
    /// Its priority can be changed in place.
    pub reprioritise: bool,
    /// Stopping it goes through the eviction API, which checks disruption budgets.
    pub honours_budgets: bool,
}

impl Default for WorkloadMutations {
    fn default() -> Self {
        Self {
            suspend: true,
            reprioritise: false,
            honours_budgets: false,
        }
    }
}

/// Status of a workload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Status {
    #[default]
    Waiting,
    /// Quota reserved; its pods run or are starting.
    Running,
    /// Suspended or on hold: neither runs nor is considered.
    Held,
    /// Terminating; its resources are still allocated.
    Ending,
}

model::words! {
    impl Status {
        /// Name in the document.
        pub fn name(self) {
            Waiting => "waiting",
            Running => "running",
            Held => "held",
            Ending => "ending",
        }
    }
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Workload {
    /// Kind, namespace, name; unique.
    pub key: JobKey,
    /// Unique id; empty where unknown.
    pub uid: Name,
    /// Queue; none if it belongs to no queue.
    pub queue: Option<Name>,
    /// Team; empty where unknown.
    pub team: Name,
    /// Labels that routes match.
    pub labels: BTreeMap<Name, Name>,
    /// Priority; higher comes first.
    pub priority: i32,
    /// Creation time; breaks ties in priority.
    pub created: Moment,
    pub sets: Vec<PodSet>,
    /// Flavors in the workload's order of preference; empty: those of its queue, in the queue's order.
    pub flavors: Vec<FlavorChoice>,
    /// Declared run time in milliseconds, at speed 1.
    pub estimate_ms: Option<i64>,
    /// Owner whose past runs predict its run time ([`super::OwnerRuntimes::owner`]); empty for none.
    pub owner: Name,
    /// Last checkpoint: work since then is lost when it is stopped. None: all work is lost.
    pub checkpoint: Option<Moment>,
    /// Deadline for its completion.
    pub deadline: Option<Moment>,
    /// Whether it may be preempted.
    pub preemptible: bool,
    /// Its pods have `preemptionPolicy: Never`: without a queue it preempts no other workload.
    pub never_preempts: bool,
    pub mutations: WorkloadMutations,
    /// Object of its queueing system; none if no queueing system manages it.
    pub admission: Option<Handle>,
    pub status: Status,
    /// Why neither a queue nor the scheduler can start its pods, in words: a scheduling gate or another of its roles comes first,
    /// or where they may run is not known. It is not considered then; quota that it has stays reserved.
    pub blocked: Option<Name>,
    /// Its pods run on another cluster: it has quota here and needs no node. `blocked` says where.
    pub elsewhere: bool,
    /// What decides whether and when it starts beside priority, quota and nodes, in words. The engine has no rule for it: it counts what
    /// the workload asks for, and does not say that it starts.
    pub not_forecast: Option<Name>,
    /// Time of its last quota reservation.
    pub admitted_at: Option<Moment>,
}

impl Workload {
    /// Requested devices and slices in all.
    pub fn device_count(&self) -> u64 {
        let count = |set: &PodSet| u64::from(set.count) * u64::from(set.requests.device_count());
        self.sets.iter().map(count).sum()
    }

    /// Requested pods in all.
    pub fn pod_count(&self) -> u64 {
        self.sets.iter().map(|set| u64::from(set.count)).sum()
    }

    pub(super) fn settle(&mut self) {
        for set in &mut self.sets {
            set.requests
                .devices
                .retain(|ask| ask.count > 0 && ask.milli > 0);
            set.requests.devices.small_sort();
            for ask in &mut set.requests.devices {
                ask.milli = ask.milli.min(WHOLE);
            }
            set.tolerations.small_sort();
            set.tolerations.dedup();
            set.placements.small_sort();
        }
    }
}
