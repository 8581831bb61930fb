//! Devices and their slices: joined, judged, with their last readings.

use std::sync::Arc;
use std::time::Duration;

use crate::base::{Age, DeviceAmount, Moment, Name, ObjectKey, Rate};

use super::job::JobKey;
use super::observed::object_parts::Phase;
use super::observed::seen::PodSeen;
use super::rules::accelerator::{DeviceKind, Vendor};
use super::signal::{Signal, Signals};

/// How the pod of a device is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Attribution {
    /// The device is not allocated, or no pod is known.
    #[default]
    None,
    /// From the requests of the node's pods: the count is exact, the device is a guess.
    Counted,
    /// From the API: a DRA claim, or the device plugin's id in the pod's status.
    Claim,
    /// From the exporter's labels.
    Exporter,
}

crate::words! {
    impl Attribution {
        /// Name in the JSON contract.
        pub fn name(self) {
            None => "none",
            Counted => "counted",
            Claim => "claim",
            Exporter => "exporter",
        }
    }
}

impl Attribution {
    /// Mark that the console shows beside an inferred join.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Counted => "~",
            _ => "",
        }
    }
}

/// The rule that set a team.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TeamSource {
    /// The map in the settings.
    Settings,
    /// A label of the workload or pod.
    Label,
    /// A label of the namespace.
    NamespaceLabel,
    Queue,
    Namespace,
}

crate::words! {
    impl TeamSource {
        /// Name in the JSON contract.
        pub fn name(self) {
            Settings => "settings",
            Label => "label",
            NamespaceLabel => "namespace-label",
            Queue => "queue",
            Namespace => "namespace",
        }
    }
}

crate::words! {
    impl Phase {
        /// The phase as the API spells it.
        pub fn name(self) {
            Pending => "Pending",
            Running => "Running",
            Succeeded => "Succeeded",
            Failed => "Failed",
            Unknown => "Unknown",
        }
    }
}

/// A pod with its joins.
#[derive(Clone, PartialEq, Debug)]
pub struct Pod {
    pub seen: Arc<PodSeen>,
    /// Its job: the top of its owner chain, or the pod itself.
    pub job: JobKey,
    /// The queue that its job waits in or is charged to.
    pub queue: Option<Name>,
    pub team: Name,
    /// The rule that set the team.
    pub team_source: TeamSource,
}

impl Pod {
    pub fn key(&self) -> &ObjectKey {
        &self.seen.key
    }

    /// True while devices are allocated to it: scheduled and not finished (a terminating pod keeps its devices).
    pub fn holds_devices(&self) -> bool {
        self.seen.node.is_some()
            && !self.seen.phase.is_over()
            && self.seen.requests.device_count() > 0
    }

    /// Start of its allocation: when it was scheduled, else started, else created.
    pub fn held_since(&self) -> Moment {
        self.seen
            .scheduled
            .or(self.seen.started)
            .unwrap_or(self.seen.created)
    }
}

/// Health of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Health {
    /// No fault is reported, and a source that could report one is present.
    Ok,
    /// Works, with a warning.
    Warn(Name),
    /// Failed or about to fail.
    Fault(Name),
    #[default]
    Unknown,
}

crate::words! {
    impl Health {
        /// Name in the JSON contract: `ok`, `warn`, `fault`, `unknown`.
        pub fn name(&self) {
            Ok => "ok",
            Warn(_) => "warn",
            Fault(_) => "fault",
            Unknown => "unknown",
        }
    }
}

impl Health {
    /// The reason for a warning or a fault.
    pub fn why(&self) -> Option<&Name> {
        match self {
            Self::Warn(why) | Self::Fault(why) => Some(why),
            Self::Ok | Self::Unknown => None,
        }
    }

    pub const fn is_fault(&self) -> bool {
        matches!(self, Self::Fault(_))
    }
}

/// A MIG instance, a partition, or one share of a time-sliced device.
#[derive(Clone, PartialEq, Debug)]
pub struct Slice {
    /// Id within the device: `1g.10gb-7`, `share-0`.
    pub name: Name,
    /// The extended resource that requests it, where known.
    pub resource: Option<Name>,
    /// The pod that it is allocated to.
    pub holder: Option<Arc<Pod>>,
    /// How that pod is known.
    pub attribution: Attribution,
    /// Its part of the device. Of one device the parts of all slices are known, and add up to one at most, or none is.
    pub share: Option<DeviceAmount>,
    /// The slice's own readings.
    pub signals: Signals,
}

impl Slice {
    /// An unallocated slice of this resource, of unknown size and without readings.
    pub fn free(name: Name, resource: &Name) -> Self {
        Self {
            name,
            resource: Some(resource.clone()),
            holder: None,
            attribution: Attribution::None,
            share: None,
            signals: Signals::default(),
        }
    }
}

/// A part of a device that is allocated to one pod, or to none. The cells of a device add up to it: every count of devices and all
/// money is a sum of cells.
#[derive(Clone, Copy, Debug)]
pub struct AllocationCell<'d> {
    /// The slice; `None` for a whole device, and for the rest that is in no slice.
    pub slice: Option<&'d Slice>,
    /// The pod that it is allocated to.
    pub holder: Option<&'d Arc<Pod>>,
    /// The part of the device that the cells before it are.
    before: DeviceAmount,
    /// Its part of the device; `None` where that is not known.
    pub share: Option<DeviceAmount>,
}

impl AllocationCell<'_> {
    /// Its cost where the device costs `rate`; zero where its part is not known. Cut from a running sum, so that the cells of a device
    /// add up to the micro-dollar.
    pub fn cost(&self, rate: Rate) -> Rate {
        let until = self.before + self.share.unwrap_or_default();
        until.of(rate) - self.before.of(rate)
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Device {
    /// `NODE/gpu3`: stable while the node and the index are.
    pub id: Name,
    /// Index on its node, from 0.
    pub index: u32,
    pub uuid: Option<Name>,
    pub serial: Option<Name>,
    pub pci: Option<Name>,
    pub vendor: Vendor,
    /// GPU, TPU or other.
    pub kind: DeviceKind,
    /// Product name; empty when unknown.
    pub model: Name,
    /// Short class; the product name when the catalog does not have it; `unknown` when there is none.
    pub class: Name,
    /// The extended resource that requests it.
    pub resource: Name,
    /// The pod that the whole device is allocated to.
    pub holder: Option<Arc<Pod>>,
    /// How that pod is known.
    pub attribution: Attribution,
    pub health: Health,
    pub signals: Signals,
    /// Time of the last readings; `None` when it was never read.
    pub read_at: Option<Moment>,
    /// Scrape interval of its exporter.
    pub interval: Duration,
    /// Start of the current idle period while allocated.
    pub idle_since: Option<Moment>,
    /// True when it was idle at the first reading that is known: the real start is not known, `idle_since` is that reading.
    pub idle_first_seen: bool,
    /// Slices; empty for a whole device.
    pub slices: Box<[Slice]>,
    /// Its driver makes slices on demand: the rest that is in no slice can be allocated.
    pub makes_slices: bool,
    /// Its slices are fractions that a scheduler gives of a whole device, each as large as its pod asks.
    pub fractions: bool,
}

impl Device {
    /// Its cells: the device itself where it is whole, else its slices and the rest. Without the parts of its slices there is no rest.
    pub fn cells(&self) -> impl Iterator<Item = AllocationCell<'_>> {
        let is_whole = self.holder.is_some() || self.slices.is_empty();
        let slices = self.slices.iter().filter(move |_| !is_whole);
        let mut before = DeviceAmount::ZERO;
        let cells = slices.map(move |slice| {
            let cell = AllocationCell {
                slice: Some(slice),
                holder: slice.holder.as_ref(),
                before,
                share: slice.share,
            };
            before += slice.share.unwrap_or_default();
            cell
        });
        cells.chain(self.rest().map(|rest| AllocationCell {
            slice: None,
            holder: self.holder.as_ref(),
            before: DeviceAmount::ONE.less(rest),
            share: Some(rest),
        }))
    }

    /// The part that is in no slice: all of a whole device. `None` where nothing is left, or the parts of its slices are not known.
    fn rest(&self) -> Option<DeviceAmount> {
        let taken = match self.holder {
            Some(_) => Some(DeviceAmount::ZERO),
            None => self.slices.iter().map(|slice| slice.share).sum(),
        };
        let rest = taken.map(|taken| DeviceAmount::ONE.less(taken));
        rest.filter(|rest| !rest.is_zero())
    }

    /// The part that is allocated to pods. Where the parts of its slices are not known, the whole device once a pod has a slice.
    pub fn allocated(&self) -> DeviceAmount {
        if self.has_unknown_slices() {
            return match self.is_allocated() {
                true => DeviceAmount::ONE,
                false => DeviceAmount::ZERO,
            };
        }
        self.held_by(|_| true)
    }

    /// The part that is allocated to these pods, as far as it is known.
    pub fn held_by(&self, has: impl Fn(&Pod) -> bool) -> DeviceAmount {
        let cells = self.cells();
        let own = cells.filter(|cell| cell.holder.is_some_and(|pod| has(pod)));
        own.filter_map(|cell| cell.share).sum()
    }

    /// The part that is allocated to no pod: the rest of [`Self::allocated`].
    pub fn free(&self) -> DeviceAmount {
        DeviceAmount::ONE.less(self.allocated())
    }

    /// True when the parts of its slices are not known.
    pub fn has_unknown_slices(&self) -> bool {
        self.holder.is_none() && self.slices.iter().any(|slice| slice.share.is_none())
    }

    /// The free part that is in no slice, where slices are made in advance: no pod can have it.
    pub fn uncut(&self) -> DeviceAmount {
        let can_be_cut = self.slices.is_empty() || self.makes_slices || self.holder.is_some();
        self.rest().filter(|_| !can_be_cut).unwrap_or_default()
    }

    /// True when allocated, whole or in part.
    pub fn is_allocated(&self) -> bool {
        self.holder.is_some() || self.slices.iter().any(|slice| slice.holder.is_some())
    }

    /// Every pod that the device or one of its slices is allocated to, and how that is known.
    pub fn holders(&self) -> impl Iterator<Item = (&Arc<Pod>, Attribution)> {
        self.holder.iter().map(|pod| (pod, self.attribution)).chain(
            self.slices
                .iter()
                .filter_map(|slice| slice.holder.as_ref().map(|pod| (pod, slice.attribution))),
        )
    }

    /// The pod to show where only one fits.
    pub fn first_holder(&self) -> Option<(&Arc<Pod>, Attribution)> {
        self.holders().next()
    }

    /// Start of the oldest current allocation.
    pub fn held_since(&self) -> Option<Moment> {
        self.holders().map(|(pod, _)| pod.held_since()).min()
    }

    /// True when its readings are older than its oldest current allocation, or it was never read.
    pub fn is_read_before_held(&self) -> bool {
        self.held_since()
            .is_some_and(|since| self.read_at < Some(since))
    }

    /// Age of its readings.
    pub fn age(&self, now: Moment) -> Option<Age> {
        self.read_at.map(|at| now.since(at))
    }

    /// True when its readings are older than three scrape intervals (at least 90 s).
    pub fn is_stale(&self, now: Moment) -> bool {
        self.fresh_until().is_some_and(|until| now > until)
    }

    /// The last moment at which its readings are not stale; `None` if it was never read.
    pub fn fresh_until(&self) -> Option<Moment> {
        let most = self.interval.saturating_mul(3).max(Duration::from_secs(90));
        Some(self.read_at?.plus(most))
    }

    /// True when it has readings that are not stale.
    pub fn is_fresh(&self, now: Moment) -> bool {
        self.read_at.is_some() && !self.is_stale(now)
    }

    /// Utilization, 0 to 1: its own, else (a partitioned device has none) the mean of the slices with a reading.
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

    /// Memory used and total, bytes; the sum over its slices where the device has no reading.
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

    /// Memory in use as a share of the total, 0 to 1.
    pub fn memory_ratio(&self) -> Option<f64> {
        match self.memory() {
            (Some(used), Some(total)) if total > 0.0 => Some((used / total).clamp(0.0, 1.0)),
            _ => self.signals.get(Signal::MemUsedRatio),
        }
    }
}
