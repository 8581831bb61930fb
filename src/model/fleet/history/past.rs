//! Fills gaps of the history with measurements from before the first snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Moment, Name};
use crate::fleet::fleet::Fleet;
use crate::fleet::signal::{Signal, Signals};

use super::ring::{Frame, Ring, Roster};
use super::{
    DEVICE_STEP, DeviceColumns, FINE_STEP, FleetRows, FleetSignal, History, SIGNALS, pack_ratio,
    pack_temp, pack_watts, unpack_ratio, unpack_watts,
};

/// What a device measured at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct PastReading {
    pub device: Name,
    pub at: Moment,
    /// Its values; only signals that the history keeps are used.
    pub signals: Signals,
}

/// Share of a pool's devices that report power now which must have reported it then for a sum over the pool.
const ENOUGH: f64 = 0.95;

impl History {
    /// Fills gaps in devices' columns with measurements. Each value is valid for `step` from its moment on. Steps older than the
    /// history, and steps after the fleet's own moment, are skipped.
    pub fn fill(&mut self, fleet: &Fleet, step: Duration, readings: &[PastReading]) {
        let mut by_slot: BTreeMap<i64, Vec<&PastReading>> = BTreeMap::new();
        for reading in readings {
            for slot in self.devices.slots(reading.at, reading.at.plus(step)) {
                by_slot.entry(slot).or_default().push(reading);
            }
        }
        let newest = self.devices.slot(fleet.at);
        let roster = Roster::of(self.devices.newest().map(|frame| &frame.roster), || {
            fleet.devices().map(|(_, device)| &device.id)
        });
        for (slot, readings) in by_slot {
            self.activity.fill(slot, newest, |old| {
                Some(filled(slot, old, &roster, &readings))
            });
            self.devices.fill(slot, newest, |old| {
                Some(filled(slot, old, &roster, &readings))
            });
        }
    }

    /// Works out the fleet's and the pools' utilization and power of the past from their devices', where there is a gap.
    pub fn fill_sums(&mut self, fleet: &Fleet) {
        self.has_past = true;
        self.profiled = None;
        let now = self.fine.slot(fleet.at);
        let Some(start) = self.devices.start() else {
            return;
        };
        let first = self.fine.slot(Moment::from_millis(start));
        let names: Vec<&Name> = fleet.pools.iter().map(|pool| &pool.name).collect();
        let row_of = |pool: &str| {
            names
                .iter()
                .position(|name| name.as_str() == pool)
                .map(|at| at + 1)
        };
        // The rows of each device, the fleet's and its pool's; and how many devices of each row report power now.
        let mut rows: BTreeMap<&Name, usize> = BTreeMap::new();
        let mut powered = vec![0u32; names.len() + 1];
        for (node, device) in fleet.devices() {
            let row = row_of(&node.pool).unwrap_or(0);
            rows.insert(&device.id, row);
            if device.signals.get(Signal::Power).is_some() {
                powered[0] += 1;
                if row > 0 {
                    powered[row] += 1;
                }
            }
        }
        let roster = Roster::of(self.fine.newest().map(|frame| &frame.roster), || {
            fleet.pools.iter().map(|pool| &pool.name)
        });
        let mut last: Option<(i64, Vec<[f32; 2]>)> = None;
        for slot in first..=now {
            let device_slot = slot.saturating_mul(FINE_STEP).div_euclid(DEVICE_STEP);
            let known = match &last {
                Some((of, known)) if *of == device_slot => known.clone(),
                _ => match means(&self.devices, device_slot, &rows, &powered) {
                    Some(known) => known,
                    None => continue,
                },
            };
            last = Some((device_slot, known.clone()));
            self.fine.fill(slot, now, |old| {
                let (roster, mut columns) = match old {
                    Some(old) => (Arc::clone(&old.roster), old.columns.clone()),
                    None => (Arc::clone(&roster), gaps(names.len() + 1)),
                };
                for (at, [util, power]) in known.iter().enumerate() {
                    let row = match at {
                        0 => Some(0),
                        at => roster.row(names[at - 1]).map(|row| row + 1),
                    };
                    let Some(values) = row.and_then(|row| columns.get_mut(row)) else {
                        continue;
                    };
                    for (signal, value) in [(FleetSignal::Util, util), (FleetSignal::Power, power)]
                    {
                        let place = &mut values[signal as usize];
                        if !place.is_finite() {
                            *place = *value;
                        }
                    }
                }
                Some(Frame {
                    slot,
                    roster,
                    columns,
                })
            });
        }
    }
}

/// Columns of devices, of which gaps can be filled.
pub(super) trait DeviceGaps: Clone {
    /// Nothing is known of so many devices.
    fn gaps(count: usize) -> Self;

    /// Fills the gaps of a row.
    fn fill(&mut self, row: usize, signals: &Signals);
}

/// The frame of a step with the measurements of that time; without an old frame, of the devices of `roster`.
fn filled<C: DeviceGaps>(
    slot: i64,
    old: Option<&Arc<Frame<C>>>,
    roster: &Arc<Roster>,
    readings: &[&PastReading],
) -> Frame<C> {
    let (roster, mut columns) = match old {
        Some(old) => (Arc::clone(&old.roster), old.columns.clone()),
        None => (Arc::clone(roster), C::gaps(roster.names.len())),
    };
    for reading in readings {
        if let Some(row) = roster.row(&reading.device) {
            columns.fill(row, &reading.signals);
        }
    }
    Frame {
        slot,
        roster,
        columns,
    }
}

fn gaps(rows: usize) -> FleetRows {
    vec![[f32::NAN; SIGNALS]; rows].into()
}

/// Mean utilization and summed power of each row at one step; unknown values are NaN.
fn means(
    devices: &Ring<DeviceColumns>,
    slot: i64,
    rows: &BTreeMap<&Name, usize>,
    powered: &[u32],
) -> Option<Vec<[f32; 2]>> {
    let frame = devices.at(slot)?;
    let mut sums = vec![[(0.0f64, 0u32); 2]; powered.len()];
    for (at, name) in frame.roster.names.iter().enumerate() {
        let Some(row) = rows.get(name).copied() else {
            continue;
        };
        let values = [
            unpack_ratio(frame.columns.util[at]),
            unpack_watts(frame.columns.power[at]),
        ];
        for row in [0, row] {
            if row == 0 || sums.len() > row {
                for (sum, value) in sums[row].iter_mut().zip(values) {
                    if let Some(value) = value {
                        sum.0 += f64::from(value);
                        sum.1 += 1;
                    }
                }
            }
            if rows.get(name) == Some(&0) {
                break;
            }
        }
    }
    let all = sums
        .iter()
        .zip(powered)
        .map(|([util, power], powered)| {
            let mean = match util.1 {
                0 => f32::NAN,
                count => (util.0 / f64::from(count)) as f32,
            };
            let enough = power.1 > 0 && f64::from(power.1) >= f64::from(*powered) * ENOUGH;
            [mean, if enough { power.0 as f32 } else { f32::NAN }]
        })
        .collect();
    Some(all)
}

impl DeviceGaps for DeviceColumns {
    fn gaps(count: usize) -> Self {
        Self {
            util: vec![u8::MAX; count].into(),
            memory: vec![u8::MAX; count].into(),
            temp: vec![u8::MAX; count].into(),
            power: vec![u16::MAX; count].into(),
        }
    }

    fn fill(&mut self, row: usize, signals: &Signals) {
        let get = |signal| signals.get(signal);
        let memory = match (get(Signal::MemUsed), get(Signal::MemTotal)) {
            (Some(used), Some(total)) if total > 0.0 => Some((used / total).clamp(0.0, 1.0)),
            _ => get(Signal::MemUsedRatio),
        };
        if self.util[row] == u8::MAX {
            self.util[row] = pack_ratio(get(Signal::Util));
        }
        if self.memory[row] == u8::MAX {
            self.memory[row] = pack_ratio(memory);
        }
        if self.temp[row] == u8::MAX {
            self.temp[row] = pack_temp(get(Signal::Temp));
        }
        if self.power[row] == u16::MAX {
            self.power[row] = pack_watts(get(Signal::Power));
        }
    }
}
