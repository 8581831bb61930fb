//! Workloads: what waits or runs, what each pod of it asks for, where it may go, and what may be done to it.

use std::collections::BTreeMap;

use model::base::{Moment, Name, SmallSort};
use model::fleet::job::JobKey;

use super::WHOLE;
use super::node::{Taint, TaintEffect};
use super::queue::System;

/// The taint that says no more than that a node is cordoned.
pub const CORDON: &str = "node.kubernetes.io/unschedulable";

/// Devices of one resource that a pod asks for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceAsk {
    /// Extended resource: `nvidia.com/gpu`, `nvidia.com/mig-1g.10gb`, `google.com/tpu`.
    pub resource: Name,
    /// How many.
    pub count: u32,
    /// How much of each, in thousandths; [`WHOLE`] for all of it.
    pub milli: i32,
}

/// What one pod asks for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Ask {
    /// CPU in thousandths of a core.
    pub cpu_milli: i64,
    /// Memory in bytes.
    pub memory_bytes: i64,
    /// Devices, by resource, none of a count of zero.
    pub devices: Vec<DeviceAsk>,
}

impl Ask {
    /// Devices and slices of all resources.
    pub fn device_count(&self) -> u32 {
        self.devices
            .iter()
            .fold(0, |sum, ask| sum.saturating_add(ask.count))
    }

    /// Thousandths of devices of all resources.
    pub fn device_milli(&self) -> i64 {
        let milli = |ask: &DeviceAsk| i64::from(ask.count) * i64::from(ask.milli);
        self.devices.iter().map(milli).sum()
    }
}

/// How a label is compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Op {
    /// One of the values.
    In,
    /// None of the values, or absent.
    NotIn,
    /// There.
    Exists,
    /// Not there.
    DoesNotExist,
    /// A whole number above the value.
    Gt,
    /// A whole number below the value.
    Lt,
}

impl Op {
    /// Every operator.
    pub const ALL: [Self; 6] = [
        Self::In,
        Self::NotIn,
        Self::Exists,
        Self::DoesNotExist,
        Self::Gt,
        Self::Lt,
    ];

    /// As Kubernetes writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
        }
    }
}

/// One comparison of a node's label (`matchExpressions` of required node affinity).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Requirement {
    /// Label key.
    pub key: Name,
    /// How.
    pub op: Op,
    /// With what.
    pub values: Vec<Name>,
}

impl Requirement {
    /// Whether a node of these labels meets it.
    pub fn is_met(&self, labels: &BTreeMap<Name, Name>) -> bool {
        let here = labels.get(&self.key);
        let number = |text: &str| text.parse::<i64>().ok();
        let than = || self.values.first().and_then(|value| number(value));
        match self.op {
            Op::In => here.is_some_and(|value| self.values.contains(value)),
            Op::NotIn => !here.is_some_and(|value| self.values.contains(value)),
            Op::Exists => here.is_some(),
            Op::DoesNotExist => here.is_none(),
            Op::Gt | Op::Lt => match (here.and_then(|value| number(value)), than()) {
                (Some(here), Some(than)) if self.op == Op::Gt => here > than,
                (Some(here), Some(than)) => here < than,
                _ => false,
            },
        }
    }
}

/// What lets a pod onto a tainted node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Toleration {
    /// Key; none for every key.
    pub key: Option<Name>,
    /// Value; none where the key alone counts (`Exists`).
    pub value: Option<Name>,
    /// Effect; none for every effect.
    pub effect: Option<TaintEffect>,
}

impl Toleration {
    /// Whether it lets pods past a taint.
    pub fn covers(&self, taint: &Taint) -> bool {
        self.key.as_ref().is_none_or(|key| *key == taint.key)
            && self
                .value
                .as_ref()
                .is_none_or(|value| *value == taint.value)
            && self.effect.is_none_or(|effect| effect == taint.effect)
    }
}

/// Pods of a set want to be in one domain of a level.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TopologyRequest {
    /// Level of [`super::Node::topology`], or a node label's key.
    pub level: Name,
    /// They start in one domain or not at all; otherwise as near as can be.
    pub required: bool,
}

/// A device, or a part of one, that a pod holds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HeldDevices {
    /// Index of the device on its node.
    pub device: u32,
    /// Slice; none for the device itself.
    pub slice: Option<Name>,
    /// How much, in thousandths.
    pub milli: i32,
}

/// The object that a queueing system keeps of a workload: Kueue's Workload, a PodGroup of Volcano or KAI.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Handle {
    /// Whose it is.
    pub system: System,
    /// Its name, in the workload's namespace.
    pub name: Name,
    /// Its unique id; empty where unknown.
    pub uid: Name,
}

/// Where a pod runs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Placement {
    /// Pod; empty where it has no name yet.
    pub pod: Name,
    /// Its unique id; empty where unknown.
    pub uid: Name,
    /// When it was told to end.
    pub deleted: Option<Moment>,
    /// Node.
    pub node: Name,
    /// What it holds. Empty although it asks for devices: which ones is not known.
    pub grips: Vec<HeldDevices>,
    /// Since when it holds it: when its containers first ran, or it was bound.
    pub started: Option<Moment>,
}

/// Pods that are alike.
#[derive(Clone, PartialEq, Debug)]
pub struct PodSet {
    /// Name within the workload.
    pub name: Name,
    /// Pods that it wants.
    pub count: u32,
    /// Pods without which it does not start.
    pub min: u32,
    /// What each asks for.
    pub ask: Ask,
    /// Labels that a node must carry.
    pub selector: BTreeMap<Name, Name>,
    /// Required affinity: one of these lists must be met in full. None: anywhere.
    pub affinity: Vec<Vec<Requirement>>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Wish for closeness.
    pub topology: Option<TopologyRequest>,
    /// The flavor by resource that it was admitted with, where known.
    pub admitted: BTreeMap<Name, Name>,
    /// Where its pods run.
    pub placements: Vec<Placement>,
}

impl PodSet {
    /// Whether its pods may be placed on a cordoned node: they tolerate its taint.
    pub fn tolerates_cordon(&self) -> bool {
        let cordon = Taint {
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
            ask: Ask::default(),
            selector: BTreeMap::new(),
            affinity: Vec::new(),
            tolerations: Vec::new(),
            topology: None,
            admitted: BTreeMap::new(),
            placements: Vec::new(),
        }
    }
}

/// A flavor that a workload can use, and how fast it is there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Choice {
    /// Flavor.
    pub flavor: Name,
    /// Speed in thousandths: 1,300 finishes in 1/1.3 of the time.
    pub speed_milli: i64,
}

/// What the kind of object that owns a workload lets be done to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkloadMutations {
    /// It can be suspended.
    pub suspend: bool,
    /// Its priority can be changed in place.
    pub reprioritise: bool,
    /// The way it is stopped asks disruption budgets first.
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

/// Where a workload stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Status {
    /// Wants to start.
    #[default]
    Waiting,
    /// Has its quota; its pods run or are about to.
    Running,
    /// Held by somebody: neither runs nor is considered.
    Held,
    /// Told to end; still holds what it holds.
    Ending,
}

/// A workload.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Workload {
    /// Kind, namespace, name; unlike every other.
    pub key: JobKey,
    /// Unique id; empty where unknown.
    pub uid: Name,
    /// Queue; none: it is nobody's.
    pub queue: Option<Name>,
    /// Team; empty where unknown.
    pub team: Name,
    /// Labels that routes match.
    pub labels: BTreeMap<Name, Name>,
    /// Priority; more is first.
    pub priority: i32,
    /// When it was made; orders equals.
    pub created: Moment,
    /// Its pods.
    pub sets: Vec<PodSet>,
    /// Flavors in its own order of preference; empty: those of its queue, in the queue's order.
    pub flavors: Vec<Choice>,
    /// How long it says it runs, in milliseconds, at speed 1.
    pub estimate_ms: Option<i64>,
    /// Whose past runs tell how long it runs ([`super::Runs::owner`]); empty for nobody's.
    pub owner: Name,
    /// Its last checkpoint: work since then is lost when it is stopped. None: all of it is.
    pub checkpoint: Option<Moment>,
    /// When it should be done.
    pub deadline: Option<Moment>,
    /// It may be preempted.
    pub preemptible: bool,
    /// What may be done to it.
    pub levers: WorkloadMutations,
    /// What its queueing system keeps of it; none where no such system knows it.
    pub admission: Option<Handle>,
    /// Where it stands.
    pub status: Status,
    /// When it last got its quota.
    pub admitted_at: Option<Moment>,
}

impl Workload {
    /// Devices and slices that it wants in all.
    pub fn device_count(&self) -> u64 {
        let count = |set: &PodSet| u64::from(set.count) * u64::from(set.ask.device_count());
        self.sets.iter().map(count).sum()
    }

    /// Pods that it wants.
    pub fn pod_count(&self) -> u64 {
        self.sets.iter().map(|set| u64::from(set.count)).sum()
    }

    pub(super) fn settle(&mut self) {
        for set in &mut self.sets {
            set.ask.devices.retain(|ask| ask.count > 0 && ask.milli > 0);
            set.ask.devices.small_sort();
            for ask in &mut set.ask.devices {
                ask.milli = ask.milli.min(WHOLE);
            }
            set.tolerations.small_sort();
            set.tolerations.dedup();
            set.placements.small_sort();
        }
    }
}
