//! Device activity for job profiles: half an hour per device, next to the hour of utilization, at 5 bytes per device and step.

use crate::fleet::device::Device;
use crate::fleet::profile::WINDOW;
use crate::fleet::signal::{Signal, Signals};

use super::past::DeviceGaps;
use super::{DEVICE_STEP, pack_ratio, unpack_ratio};

/// Steps that are kept: what a profile looks back on.
pub(super) const ACTIVITY_KEEP: i64 = WINDOW.millis() as i64 / DEVICE_STEP;

/// The signals that are taken.
pub const ACTIVITY_SIGNALS: &[Signal] = &[
    Signal::SmActive,
    Signal::TensorActive,
    Signal::DramActive,
    Signal::PcieTx,
    Signal::PcieRx,
    Signal::Nvlink,
    Signal::NvlinkTx,
    Signal::NvlinkRx,
];

/// Bytes a second are kept between 10 MB/s and 10 TB/s, each level 5.6 % above the one before; less is 0.
const LEAST_FLOW: f64 = 1e7;
/// Levels between the ends, six decades.
const FLOW_LEVELS: f64 = 253.0;
/// Decades between the ends.
const FLOW_DECADES: f64 = 6.0;
/// Largest relative error of a flow that has been kept.
#[cfg(test)]
const FLOW_ERROR: f64 = 0.028;

fn pack_flow(value: Option<f64>) -> u8 {
    match value.filter(|value| value.is_finite()) {
        Some(value) if value < LEAST_FLOW => 0,
        Some(value) => {
            let level = (value / LEAST_FLOW).log10() / FLOW_DECADES * FLOW_LEVELS;
            1 + level.clamp(0.0, FLOW_LEVELS).round() as u8
        }
        None => u8::MAX,
    }
}

fn unpack_flow(packed: u8) -> Option<f64> {
    match packed {
        u8::MAX => None,
        0 => Some(0.0),
        level => Some(LEAST_FLOW * 10f64.powf(f64::from(level - 1) / FLOW_LEVELS * FLOW_DECADES)),
    }
}

/// Rates of every level of a flow: computed once for many rows.
pub(super) struct Flows([Option<f64>; 256]);

impl Flows {
    pub(super) fn new() -> Self {
        let mut level = 0;
        Self([(); 256].map(|()| {
            let value = unpack_flow(level);
            level = level.wrapping_add(1);
            value
        }))
    }

    fn of(&self, packed: u8) -> Option<f64> {
        self.0[usize::from(packed)]
    }
}

/// What the parts of one device did at one step.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DeviceActivity {
    /// Share of streaming multiprocessors active, 0 to 1.
    pub sm: Option<f64>,
    /// Share of cycles with tensor units active, 0 to 1.
    pub tensor: Option<f64>,
    /// Share of cycles with device memory active, 0 to 1.
    pub dram: Option<f64>,
    /// PCIe bytes a second, both directions.
    pub pcie: Option<f64>,
    /// NVLink or xGMI bytes a second, both directions.
    pub link: Option<f64>,
}

impl DeviceActivity {
    /// Activity from a device's readings.
    pub fn of(signals: &Signals) -> Self {
        let get = |signal| signals.get(signal);
        // One direction alone is not both.
        let sum = |one: Option<f64>, other: Option<f64>| one.zip(other).map(|(a, b)| a + b);
        Self {
            sm: get(Signal::SmActive),
            tensor: get(Signal::TensorActive),
            dram: get(Signal::DramActive),
            pcie: sum(get(Signal::PcieTx), get(Signal::PcieRx)),
            link: get(Signal::Nvlink).or_else(|| sum(get(Signal::NvlinkTx), get(Signal::NvlinkRx))),
        }
    }
}

/// Every device at one step; the largest number is a gap.
#[derive(Clone, Debug)]
pub(super) struct ActivityColumns {
    sm: Box<[u8]>,
    tensor: Box<[u8]>,
    dram: Box<[u8]>,
    pcie: Box<[u8]>,
    link: Box<[u8]>,
}

impl DeviceGaps for ActivityColumns {
    fn gaps(count: usize) -> Self {
        let gap = || vec![u8::MAX; count].into_boxed_slice();
        Self {
            sm: gap(),
            tensor: gap(),
            dram: gap(),
            pcie: gap(),
            link: gap(),
        }
    }

    fn fill(&mut self, row: usize, signals: &Signals) {
        let read = DeviceActivity::of(signals);
        let put = |column: &mut Box<[u8]>, packed: u8| {
            if column[row] == u8::MAX {
                column[row] = packed;
            }
        };
        put(&mut self.sm, pack_ratio(read.sm));
        put(&mut self.tensor, pack_ratio(read.tensor));
        put(&mut self.dram, pack_ratio(read.dram));
        put(&mut self.pcie, pack_flow(read.pcie));
        put(&mut self.link, pack_flow(read.link));
    }
}

impl ActivityColumns {
    /// Of these devices; `None` where readings are not fresh.
    pub(super) fn of<'a>(devices: impl Iterator<Item = Option<&'a Device>>, count: usize) -> Self {
        let mut columns = Self::gaps(count);
        for (row, device) in devices.take(count).enumerate() {
            if let Some(device) = device {
                columns.fill(row, &device.signals);
            }
        }
        columns
    }

    pub(super) fn row(&self, row: usize, flows: &Flows) -> DeviceActivity {
        let ratio = |packed: u8| unpack_ratio(packed).map(f64::from);
        DeviceActivity {
            sm: ratio(self.sm[row]),
            tensor: ratio(self.tensor[row]),
            dram: ratio(self.dram[row]),
            pcie: flows.of(self.pcie[row]),
            link: flows.of(self.link[row]),
        }
    }

    pub(super) const fn heap_bytes(&self) -> usize {
        self.sm.len() * 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_come_back_within_their_error() {
        for value in [0.0, 5e6, 1.2e7, 9.9e8, 1e9, 1.01e9, 3.6e11, 9e12] {
            let back = unpack_flow(pack_flow(Some(value))).expect("is known");
            if value < LEAST_FLOW {
                assert_eq!(back, 0.0);
            } else {
                assert!((back / value - 1.0).abs() <= FLOW_ERROR, "{value} {back}");
            }
            assert_eq!(Flows::new().of(pack_flow(Some(value))), Some(back));
        }
        assert_eq!(unpack_flow(pack_flow(Some(1e20))), Some(1e13));
        assert_eq!(unpack_flow(pack_flow(None)), None);
        assert_eq!(unpack_flow(pack_flow(Some(f64::NAN))), None);
    }
}
