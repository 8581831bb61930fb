//! Devices and their slices as the fleet shows them: joined, judged, with their last readings.

use std::sync::Arc;
use std::time::Duration;

use crate::base::{Age, Moment, Name, ObjectKey};

use super::accelerator::{DeviceKind, Vendor};
use super::job::JobKey;
use super::observe::PodSeen;
use super::signal::{Signal, Signals};

/// How a placement is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Attribution {
    /// Nobody holds it, or nobody is known to.
    #[default]
    None,
    /// By counting what the node's pods ask for: the device is a guess, the count is not.
    Counted,
    /// The API says so: a DRA claim, or the device plugin's id in the pod's status.
    Claim,
    /// The exporter says so.
    Exporter,
}

impl Attribution {
    /// As in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Counted => "counted",
            Self::Claim => "claim",
            Self::Exporter => "exporter",
        }
    }

    /// The mark a console shows beside an inferred join.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Counted => "~",
            _ => "",
        }
    }
}

/// Which rule named a team.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TeamSource {
    /// The settings' map.
    Settings,
    /// A label of the workload or pod.
    Label,
    /// A label of the namespace.
    NamespaceLabel,
    /// The queue.
    Queue,
    /// The namespace itself.
    Namespace,
}

impl TeamSource {
    /// As in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Label => "label",
            Self::NamespaceLabel => "namespace-label",
            Self::Queue => "queue",
            Self::Namespace => "namespace",
        }
    }
}

/// A pod with its joins.
#[derive(Clone, PartialEq, Debug)]
pub struct Pod {
    /// As last seen.
    pub seen: Arc<PodSeen>,
    /// The job it belongs to: the top of its owner chain, or itself.
    pub job: JobKey,
    /// The queue its job waits in or draws from.
    pub queue: Option<Name>,
    /// Team.
    pub team: Name,
    /// Which rule named the team.
    pub team_source: TeamSource,
}

impl Pod {
    /// Namespace and name.
    pub fn key(&self) -> &ObjectKey {
        &self.seen.key
    }

    /// True while it takes up devices: bound, not over (a terminating pod still holds).
    pub fn holds_devices(&self) -> bool {
        self.seen.node.is_some()
            && !self.seen.phase.is_over()
            && self.seen.requests.device_count() > 0
    }

    /// Since when it has held its devices.
    pub fn held_since(&self) -> Moment {
        self.seen
            .scheduled
            .or(self.seen.started)
            .unwrap_or(self.seen.created)
    }
}

/// A device's state of health.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Health {
    /// Nothing says otherwise, and somebody could have said it.
    Ok,
    /// Works, with something to look at.
    Warn(Name),
    /// Broken or about to be.
    Fault(Name),
    /// No reading says anything.
    #[default]
    Unknown,
}

impl Health {
    /// As in the JSON contract: `ok`, `warn`, `fault`, `unknown`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn(_) => "warn",
            Self::Fault(_) => "fault",
            Self::Unknown => "unknown",
        }
    }

    /// Why, when it is not well.
    pub fn why(&self) -> Option<&Name> {
        match self {
            Self::Warn(why) | Self::Fault(why) => Some(why),
            Self::Ok | Self::Unknown => None,
        }
    }

    /// True for a fault.
    pub const fn is_fault(&self) -> bool {
        matches!(self, Self::Fault(_))
    }
}

/// A MIG instance, a partition, or one share of a time-sliced device.
#[derive(Clone, PartialEq, Debug)]
pub struct Slice {
    /// Id within the device: `1g.10gb-7`, `share-0`.
    pub name: Name,
    /// The extended resource that asks for it, where known.
    pub resource: Option<Name>,
    /// Who holds it.
    pub holder: Option<Arc<Pod>>,
    /// How that is known.
    pub attribution: Attribution,
    /// Its own readings.
    pub signals: Signals,
}

impl Slice {
    /// A slice of this resource that no pod holds, without readings.
    pub fn free(name: Name, resource: &Name) -> Self {
        Self {
            name,
            resource: Some(resource.clone()),
            holder: None,
            attribution: Attribution::None,
            signals: Signals::default(),
        }
    }
}

/// A physical device.
#[derive(Clone, PartialEq, Debug)]
pub struct Device {
    /// `NODE/gpu3`: stable for as long as the node and the index are.
    pub id: Name,
    /// Index on its node, from 0.
    pub index: u32,
    /// The vendor's id.
    pub uuid: Option<Name>,
    /// Board serial number.
    pub serial: Option<Name>,
    /// PCI address.
    pub pci: Option<Name>,
    /// Vendor.
    pub vendor: Vendor,
    /// GPU, TPU or other.
    pub kind: DeviceKind,
    /// Product name; empty when unknown.
    pub model: Name,
    /// Short class; the product name where the catalogue does not know it; `unknown` when there is none.
    pub class: Name,
    /// The extended resource that asks for it.
    pub resource: Name,
    /// Who holds it whole.
    pub holder: Option<Arc<Pod>>,
    /// How that is known.
    pub attribution: Attribution,
    /// Health.
    pub health: Health,
    /// Last readings.
    pub signals: Signals,
    /// When they were taken; `None` when it has never been read.
    pub read_at: Option<Moment>,
    /// How long its exporter keeps a value.
    pub interval: Duration,
    /// Allocated, and seen doing nothing since then without a break.
    pub idle_since: Option<Moment>,
    /// It was idle when we first read it: since when is not known, `idle_since` is our first look.
    pub idle_first_seen: bool,
    /// Slices; empty for a whole device.
    pub slices: Box<[Slice]>,
}

impl Device {
    /// Held, whole or in part. A device counts once, however many slices are held.
    pub fn is_allocated(&self) -> bool {
        self.holder.is_some() || self.slices.iter().any(|slice| slice.holder.is_some())
    }

    /// Every pod that holds it or a slice of it, with how that is known.
    pub fn holders(&self) -> impl Iterator<Item = (&Arc<Pod>, Attribution)> {
        self.holder.iter().map(|pod| (pod, self.attribution)).chain(
            self.slices
                .iter()
                .filter_map(|slice| slice.holder.as_ref().map(|pod| (pod, slice.attribution))),
        )
    }

    /// The pod that stands for it where there is room for one.
    pub fn first_holder(&self) -> Option<(&Arc<Pod>, Attribution)> {
        self.holders().next()
    }

    /// Since when it has been held, by the pod that has held it longest.
    pub fn held_since(&self) -> Option<Moment> {
        self.holders().map(|(pod, _)| pod.held_since()).min()
    }

    /// True where its readings are older than its oldest holder, or were never taken.
    pub fn is_read_before_held(&self) -> bool {
        self.held_since()
            .is_some_and(|since| self.read_at < Some(since))
    }

    /// How old its readings are.
    pub fn age(&self, now: Moment) -> Option<Age> {
        self.read_at.map(|at| now.since(at))
    }

    /// True when its readings are older than three of its exporter's intervals (at least 90 s).
    pub fn is_stale(&self, now: Moment) -> bool {
        self.age(now).is_some_and(|age| {
            age > Age::from(self.interval.saturating_mul(3).max(Duration::from_secs(90)))
        })
    }

    /// True when it has been read, and its readings are not stale.
    pub fn is_fresh(&self, now: Moment) -> bool {
        self.read_at.is_some() && !self.is_stale(now)
    }

    /// Utilization: its own, else (a partitioned device has none) the mean of its slices that are known.
    pub fn util(&self) -> Option<f64> {
        self.signals.get(Signal::Util).or_else(|| {
            let known: Vec<f64> = self
                .slices
                .iter()
                .filter_map(|slice| slice.signals.get(Signal::Util))
                .collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        })
    }

    /// Memory in use and in all, bytes. Slices are added up where the device itself is silent.
    pub fn memory(&self) -> (Option<f64>, Option<f64>) {
        let own = (
            self.signals.get(Signal::MemUsed),
            self.signals.get(Signal::MemTotal),
        );
        let summed = |signal| {
            let known: Vec<f64> = self
                .slices
                .iter()
                .filter_map(|slice| slice.signals.get(signal))
                .collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>())
        };
        (
            own.0.or_else(|| summed(Signal::MemUsed)),
            own.1.or_else(|| summed(Signal::MemTotal)),
        )
    }

    /// Memory in use as a share of all, 0 to 1.
    pub fn memory_ratio(&self) -> Option<f64> {
        match self.memory() {
            (Some(used), Some(total)) if total > 0.0 => Some((used / total).clamp(0.0, 1.0)),
            _ => self.signals.get(Signal::MemUsedRatio),
        }
    }
}
