//! How devices glow: each device's state and metric, quantized to a level, for heatmap and strip alike.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::theme::HEAT_LEVELS;
use crate::widget::heat::{HeatCell, HeatLevel};
use crate::widget::spark::level;
use model::base::{Moment, SmallSort};
use model::fleet::device::Device;
use model::fleet::judge::GANG_WORKS;
use model::fleet::node::Node;
use model::fleet::pool::Unusable;
use model::fleet::signal::Signal;
use table::Facts;
use table::column::id_of;

/// What the heatmap shows of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HeatMetric {
    #[default]
    Util,
    Memory,
    Temp,
    /// Power as a share of its limit.
    Power,
    /// Tensor or matrix units active.
    Tensor,
    /// Position of a temperature on the ramp: 0 for a cool room, 1 where boards slow down.
    Dram,
}

impl HeatMetric {
    /// Every metric, in the order of the key.
    pub const ALL: [Self; 6] = [
        Self::Util,
        Self::Memory,
        Self::Temp,
        Self::Power,
        Self::Tensor,
        Self::Dram,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Util => "utilization",
            Self::Memory => "memory",
            Self::Temp => "temperature",
            Self::Power => "power",
            Self::Tensor => "tensor cores",
            Self::Dram => "memory bandwidth",
        }
    }

    /// Labels of the cold and the hot end of the ramp.
    pub const fn ends(self) -> (&'static str, &'static str) {
        match self {
            Self::Util | Self::Tensor | Self::Dram => ("idle", "busy"),
            Self::Memory => ("empty", "full"),
            Self::Temp => ("30°", "90°"),
            Self::Power => ("0%", "limit"),
        }
    }

    /// The metric of a device on the scale of the ramp, 0 to 1.
    pub fn of(self, device: &Device, facts: &Facts) -> Option<f64> {
        match self {
            Self::Util => device.util(),
            Self::Memory => device.memory_ratio(),
            Self::Temp => device
                .signals
                .get(Signal::Temp)
                .map(table::kinds::nodes::warmth),
            Self::Power => {
                let limit = device.signals.get(Signal::PowerLimit).or_else(|| {
                    let model = facts.fleet.policy.catalog.of_class(&device.class)?;
                    model.tdp_watts
                })?;
                (limit > 0.0).then_some(())?;
                Some(device.signals.get(Signal::Power)? / limit)
            }
            Self::Tensor => device.signals.get(Signal::TensorActive),
            Self::Dram => device.signals.get(Signal::DramActive),
        }
    }

    /// The value as text, in its own unit.
    pub fn words(self, device: &Device, facts: &Facts) -> Option<String> {
        match self {
            Self::Temp => device
                .signals
                .get(Signal::Temp)
                .map(|degrees| format!("{degrees:.0}°")),
            _ => self.of(device, facts).map(table::text::whole_percent),
        }
    }
}

/// What the ramp spans.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scale {
    /// The whole range of the metric.
    #[default]
    Absolute,
    /// From the lowest to the highest visible value.
    Relative,
    /// The distance from the median of a device's own gang.
    Outlier,
}

impl Scale {
    /// Every scale, in the order of the key.
    pub const ALL: [Self; 3] = [Self::Absolute, Self::Relative, Self::Outlier];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Absolute => "absolute",
            Self::Relative => "relative",
            Self::Outlier => "outlier in gang",
        }
    }
}

/// Smallest gang whose median is meaningful.
const GANG: u32 = 4;

/// Utilization, 0 to 1, below which a free device counts as cold: monitoring itself causes some load.
const COLD: f64 = 0.02;

/// The heat of every device in one snapshot of the fleet: devices by node, in order.
#[derive(Clone, Debug, Default)]
pub struct DeviceHeats {
    cells: Vec<HeatCell>,
    /// The metric of each device on the ramp's scale; not a number where it is not known.
    values: Vec<f32>,
    /// For outliers, the difference of each device from the median of its gang, negative below it; NaN for a device without a gang.
    apart: Vec<f32>,
    starts: Vec<u32>,
    nodes: Option<Arc<[Arc<Node>]>>,
    made_for: (HeatMetric, Scale),
    /// The time of the last update of all devices.
    whole_at: Moment,
}

/// After this time every device is updated: a reading becomes stale, and a device idle, without a change in the facts.
const WHOLE_EVERY: Duration = Duration::from_secs(15);

impl DeviceHeats {
    /// Takes new facts. Unchanged nodes are skipped, or a fleet with a few changes ten times a
    /// second would be read completely ten times a second.
    pub fn update(&mut self, facts: &Facts, metric: HeatMetric, scale: Scale) {
        let nodes = &facts.fleet.nodes;
        let whole = self.made_for != (metric, scale)
            || facts.now < self.whole_at
            || facts.now >= self.whole_at.plus(WHOLE_EVERY)
            // The span of the ramp depends on all devices.
            || scale != Scale::Absolute;
        let before = self.nodes.take();
        let is_same = |before: &Arc<_>| Arc::ptr_eq(before, nodes);
        if !whole && before.as_ref().is_some_and(is_same) {
            self.nodes = before;
            return;
        }
        let span = HeatRange::of(facts, metric, scale);
        let old = std::mem::take(self);
        self.made_for = (metric, scale);
        self.whole_at = match whole || before.is_none() {
            true => facts.now,
            false => old.whole_at,
        };
        let is_one_ramp = old.made_for == self.made_for && scale == Scale::Absolute;
        self.cells.reserve(old.cells.len());
        self.values.reserve(old.values.len());
        self.apart.reserve(old.apart.len());
        self.starts.reserve(nodes.len() + 1);
        let before = before.as_deref().unwrap_or_default();
        let mut at = 0;
        for node in nodes.iter() {
            self.starts.push(self.cells.len() as u32);
            // Both are in name order.
            while at < before.len() && before[at].name() < node.name() {
                at += 1;
            }
            let known = before.get(at).filter(|known| known.name() == node.name());
            let range = known.and_then(|_| old.node_range(at as u32));
            let range = range.unwrap_or_default();
            if known.is_some_and(|known| !whole && Arc::ptr_eq(known, node)) {
                self.cells.extend_from_slice(&old.cells[range.clone()]);
                self.values.extend_from_slice(&old.values[range]);
                continue;
            }
            let was = &old.cells[if is_one_ramp { range } else { 0..0 }];
            for (nth, (device, is_unusable)) in Unusable::devices(node).enumerate() {
                let value = metric.of(device, facts);
                let was = was.get(nth).map(|cell| cell.heat);
                self.cells.push(
                    match cell(facts, node, device, (metric, value), &span, was) {
                        own if own.heat == HeatLevel::Free && is_unusable => HeatCell {
                            heat: HeatLevel::Unusable,
                            ..own
                        },
                        own => own,
                    },
                );
                self.values
                    .push(value.map_or(f32::NAN, |value| value as f32));
                if scale == Scale::Outlier {
                    let apart = value.and_then(|value| span.apart(facts, device, value));
                    self.apart
                        .push(apart.map_or(f32::NAN, |apart| apart as f32));
                }
            }
        }
        self.starts.push(self.cells.len() as u32);
        self.nodes = Some(nodes.clone());
    }

    /// The metric of a device, or the mean over a node where `device` is beyond its last: sum and how many are known.
    pub fn sum(&self, node: u32, device: u32) -> (f64, u32) {
        self.total(&self.values, node, device, |value| value)
    }

    /// Sort key of a device: the metric, or for outliers the difference from the median of its gang.
    pub fn rank(&self, node: u32, device: u32) -> Option<f64> {
        let (values, size): (_, fn(f64) -> f64) = match self.made_for.1 {
            Scale::Outlier => (&self.apart, f64::abs),
            Scale::Absolute | Scale::Relative => (&self.values, |value| value),
        };
        match self.total(values, node, device, size) {
            (_, 0) => None,
            (sum, count) => Some(sum / f64::from(count)),
        }
    }

    /// How far a device lies above the median of its gang; below it less than zero.
    pub fn above(&self, node: u32, device: u32) -> Option<f64> {
        match self.total(&self.apart, node, device, |value| value) {
            (_, 0) => None,
            (sum, _) => Some(sum),
        }
    }

    fn total(&self, values: &[f32], node: u32, device: u32, size: fn(f64) -> f64) -> (f64, u32) {
        // The differences within gangs are made for the scale of outliers alone.
        let Some(values) = self.node_range(node).and_then(|range| values.get(range)) else {
            return (0.0, 0);
        };
        let selection = match values.get(device as usize) {
            Some(value) => std::slice::from_ref(value),
            None => values,
        };
        selection
            .iter()
            .filter(|value| !value.is_nan())
            .fold((0.0, 0), |(sum, count), value| {
                (sum + size(f64::from(*value)), count + 1)
            })
    }

    /// The glow of a device by its node's place and its own.
    pub fn device(&self, node: u32, device: u32) -> Option<HeatCell> {
        let range = self.node_range(node)?;
        self.cells[range].get(device as usize).copied()
    }

    /// The glows of a node's devices.
    pub fn node(&self, node: u32) -> &[HeatCell] {
        self.node_range(node)
            .map_or(&[], |range| &self.cells[range])
    }

    fn node_range(&self, node: u32) -> Option<std::ops::Range<usize>> {
        let from = *self.starts.get(node as usize)?;
        let to = *self.starts.get(node as usize + 1)?;
        Some(from as usize..to as usize)
    }
}

/// One cell for several devices: a fault wins, then the state of most allocated devices; the heat is their mean, free
/// devices counting as 0.
pub fn together(cells: &[HeatCell]) -> Option<HeatCell> {
    let (mut heat, mut hot, mut idle, mut free, mut unknown) = (0u32, 0u32, 0u32, 0u32, 0u32);
    let mut unusable = 0u32;
    let mut stale = 0usize;
    for cell in cells {
        stale += usize::from(cell.stale);
        match cell.heat {
            HeatLevel::Fault => return Some(HeatCell::fresh(HeatLevel::Fault)),
            HeatLevel::Heat(level) => {
                heat += u32::from(level);
                hot += 1;
            }
            HeatLevel::Idle => idle += 1,
            HeatLevel::Free => free += 1,
            HeatLevel::Unusable => {
                free += 1;
                unusable += 1;
            }
            HeatLevel::Unknown => unknown += 1,
        }
    }
    if cells.is_empty() {
        return None;
    }
    // Free only where no device is allocated; otherwise free devices count as 0 in the mean.
    let heat = if unknown > hot + idle + free {
        HeatLevel::Unknown
    } else if idle > hot {
        HeatLevel::Idle
    } else if hot > 0 {
        HeatLevel::Heat((heat / (hot + free)) as u8)
    } else if unusable > 0 && unusable == free {
        HeatLevel::Unusable
    } else {
        HeatLevel::Free
    };
    Some(HeatCell {
        heat,
        stale: stale * 2 > cells.len(),
    })
}

/// The values of all devices that the scale needs to place one of them.
enum HeatRange {
    Absolute,
    Relative(f64, f64),
    Outlier(FxHashMap<u64, f64>),
}

impl HeatRange {
    fn of(facts: &Facts, metric: HeatMetric, scale: Scale) -> Self {
        match scale {
            Scale::Absolute => Self::Absolute,
            Scale::Relative => {
                let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
                for (_, device) in facts.fleet.devices() {
                    if let Some(value) = metric.of(device, facts).filter(|_| device.is_allocated())
                    {
                        (least, most) = (least.min(value), most.max(value));
                    }
                }
                Self::Relative(least, most)
            }
            Scale::Outlier => {
                let jobs = facts.fleet.jobs.iter();
                let mut gangs: FxHashMap<u64, Vec<f64>> = jobs
                    .filter(|job| job.gang.is_none() || job.is_gang())
                    .filter(|job| job.devices_allocated >= GANG)
                    .map(|job| (id_of(&job.id), Vec::new()))
                    .collect();
                for (_, device) in facts.fleet.devices() {
                    if let (Some((pod, _)), Some(value)) =
                        (facts.first_holder(device), metric.of(device, facts))
                        && let Some(gang) = gangs.get_mut(&id_of(&pod.job))
                    {
                        gang.push(value);
                    }
                }
                Self::Outlier(
                    gangs
                        .into_iter()
                        .filter(|(_, values)| !values.is_empty())
                        .map(|(job, mut values)| {
                            values.small_sort_by(f64::total_cmp);
                            (job, values[values.len() / 2])
                        })
                        .filter(|(_, median)| metric != HeatMetric::Util || *median >= GANG_WORKS)
                        .collect(),
                )
            }
        }
    }

    fn place(&self, facts: &Facts, device: &Device, value: f64) -> f64 {
        match self {
            Self::Absolute => value,
            Self::Relative(least, most) if most > least => (value - least) / (most - least),
            Self::Relative(..) => 0.5,
            Self::Outlier(_) => self
                .apart(facts, device, value)
                .map_or(0.0, |apart| apart.abs() * 2.0),
        }
    }

    /// How far a value lies above the median of the device's gang.
    fn apart(&self, facts: &Facts, device: &Device, value: f64) -> Option<f64> {
        let Self::Outlier(medians) = self else {
            return None;
        };
        let (pod, _) = facts.first_holder(device)?;
        let median = medians.get(&id_of(&pod.job))?;
        Some(value - median)
    }
}

/// The heat level of a share. The former level stays while the share is within half a level of it, so that noise changes no color.
fn steady_level(share: f64, was: Option<HeatLevel>) -> u8 {
    let level = |share| level(share) as u8;
    let half = 0.5 / HEAT_LEVELS as f64;
    match was {
        Some(HeatLevel::Heat(was))
            if (level(share - half)..=level(share + half)).contains(&was) =>
        {
            was
        }
        _ => level(share),
    }
}

fn cell(
    facts: &Facts,
    node: &Node,
    device: &Device,
    (metric, value): (HeatMetric, Option<f64>),
    span: &HeatRange,
    was: Option<HeatLevel>,
) -> HeatCell {
    let stale = is_old(facts.now, node, device);
    let heat = if device.health.is_fault() {
        HeatLevel::Fault
    } else {
        let held = device.is_allocated();
        match value {
            _ if metric == HeatMetric::Util && held && facts.fleet.is_idle(device) => {
                HeatLevel::Idle
            }
            Some(value) if held || (metric == HeatMetric::Util && value >= COLD) => {
                HeatLevel::Heat(steady_level(span.place(facts, device, value), was))
            }
            None if held => HeatLevel::Unknown,
            // A pod that is not visible may have it allocated.
            _ if !facts.fleet.sees_all_work() => HeatLevel::Unknown,
            _ => HeatLevel::Free,
        }
    };
    HeatCell { heat, stale }
}

fn is_old(now: Moment, node: &Node, device: &Device) -> bool {
    device.is_stale(now) || node.ready.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_changes_no_color_and_a_change_does() {
        let was = Some(HeatLevel::Heat(8));
        for (share, level) in [
            (0.51, 8),
            (0.48, 8),
            (0.59, 8),
            (0.46, 7),
            (0.60, 9),
            (1.0, 15),
        ] {
            assert_eq!(steady_level(share, was), level, "{share}");
        }
        assert_eq!(steady_level(0.48, None), 7);
        assert_eq!(steady_level(0.48, Some(HeatLevel::Idle)), 7);
    }

    #[test]
    fn several_devices_glow_as_most_of_them_but_a_fault_shows() {
        let of = |glows: &[HeatLevel]| {
            let cells: Vec<HeatCell> = glows.iter().map(|heat| HeatCell::fresh(*heat)).collect();
            together(&cells).map(|cell| cell.heat)
        };
        assert_eq!(of(&[]), None);
        assert_eq!(
            of(&[HeatLevel::Heat(4), HeatLevel::Heat(8)]),
            Some(HeatLevel::Heat(6))
        );
        assert_eq!(
            of(&[HeatLevel::Heat(4), HeatLevel::Fault]),
            Some(HeatLevel::Fault)
        );
        assert_eq!(
            of(&[HeatLevel::Idle, HeatLevel::Idle, HeatLevel::Heat(9)]),
            Some(HeatLevel::Idle)
        );
        assert_eq!(
            of(&[HeatLevel::Free, HeatLevel::Unknown]),
            Some(HeatLevel::Free)
        );
        assert_eq!(of(&[HeatLevel::Unknown]), Some(HeatLevel::Unknown));
        let out = HeatLevel::Unusable;
        assert_eq!(of(&[out, out]), Some(out));
        assert_eq!(of(&[out, HeatLevel::Free]), Some(HeatLevel::Free));
        assert_eq!(
            of(&[out, HeatLevel::Heat(8)]),
            Some(HeatLevel::Heat(4)),
            "free ones count as 0"
        );
    }
}
