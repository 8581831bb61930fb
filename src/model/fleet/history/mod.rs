//! Fleet history: quantized frames for a few signals, with gaps kept as gaps.
//!
//! A frame holds one value of every device (or pool) at one step of a fixed time grid, and is immutable. So
//! publishing a history copies no column: a clone is a few reference counts, and a new frame copies at most the list
//! of frames (a few hundred pointers). A device costs 5 bytes per step, 600 bytes for its hour, plus 300 for half an
//! hour of profile data; all frames share the list of device ids until devices are added or removed.

mod activity;
mod idle;
mod past;
mod profile;
mod ring;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{DeviceAmount, Moment, Name};

use super::fleet::Fleet;
use super::job::{JobKey, Serving};
use super::observed::kinds::Table;
use super::profile::Profiles;
use super::served_model::ServedModel;
use super::signal::Signal;
use activity::{ACTIVITY_KEEP, ActivityColumns};
pub use activity::{ACTIVITY_SIGNALS, DeviceActivity};
pub use past::PastReading;
pub use profile::window_start;
use ring::{Chart, Frame, Ring, Roster};

/// One step of a device's columns, milliseconds.
const DEVICE_STEP: i64 = 30_000;
/// Steps of a device's columns that are kept: an hour.
const DEVICE_KEEP: i64 = 120;
/// One step of the fleet's and the pools' columns, milliseconds.
const FINE_STEP: i64 = 15_000;
/// Steps of those that are kept: an hour.
const FINE_KEEP: i64 = 240;
/// One step of the long columns of fleet and pools, milliseconds.
const COARSE_STEP: i64 = 300_000;
/// Steps of those that are kept: a day.
const COARSE_KEEP: i64 = 288;

/// What a column is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Track {
    Fleet(FleetSignal),
    Pool(Name, FleetSignal),
    /// A device's utilization, 0 to 1, by device id.
    DeviceUtil(Name),
    /// A device's memory in use as a share of all, by device id.
    DeviceMemory(Name),
    /// A device's temperature, degrees Celsius, by device id.
    DeviceTemp(Name),
    /// A device's power, watts, by device id.
    DevicePower(Name),
    /// A service, by its job; with several models the worst of them, of counts their sum.
    Served(JobKey, ServedSignal),
}

/// Signals kept for each service.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ServedSignal {
    /// 95th percentile of the time to first token, seconds.
    Ttft,
    /// Requests queued in the servers.
    Waiting,
    /// KV-cache use of the fullest replica, 0 to 1.
    KvCache,
    /// Output tokens a second.
    Tokens,
}

impl ServedSignal {
    const ALL: [Self; SERVED] = [Self::Ttft, Self::Waiting, Self::KvCache, Self::Tokens];

    /// Its present value for a service; `None` while it is unknown.
    pub fn now(self, serving: &Serving) -> Option<f64> {
        let known = |pick: fn(&ServedModel) -> Option<f64>| serving.served.iter().filter_map(pick);
        let sum = |one: f64, other: f64| one + other;
        match self {
            Self::Ttft => known(|model| Some(model.ttft.quantile(0.95)?.seconds)).reduce(f64::max),
            Self::Waiting => known(|model| model.waiting).reduce(sum),
            Self::KvCache => known(|model| model.kv_max).reduce(f64::max),
            Self::Tokens => known(|model| model.tokens_per_second).reduce(sum),
        }
    }
}

/// Signals kept for the fleet and for each pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FleetSignal {
    /// Mean utilization, 0 to 1.
    Util,
    /// Allocated devices as a share of all, 0 to 1.
    Allocated,
    /// Cost of all devices, USD an hour.
    Burn,
    /// USD an hour of free and idle-allocated devices.
    Idle,
    /// Power drawn by all devices, watts.
    Power,
    /// Devices that waiting jobs request.
    Waiting,
}

/// How many [`FleetSignal`]s there are.
const SIGNALS: usize = 6;
/// How many [`ServedSignal`]s there are.
const SERVED: usize = 4;
/// Largest error of a stored ratio: half a step of 254.
pub const RATIO_ERROR: f32 = 0.5 / 254.0;
/// Largest error of a stored temperature or power, within -40 to 214 °C and 0 to 65 534 W.
pub const WHOLE_ERROR: f32 = 0.5;

/// The history up to now. Cloning costs a few reference counts.
#[derive(Clone, Debug)]
pub struct History {
    devices: Ring<DeviceColumns>,
    activity: Ring<ActivityColumns>,
    profiles: Arc<Profiles>,
    /// The step of the stored profiles; `None` when they must be recomputed.
    profiled: Option<i64>,
    has_past: bool,
    fine: Ring<FleetRows>,
    coarse: Ring<FleetRows>,
    served: Ring<ServedRows>,
    open: Arc<Open>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            devices: Ring::new(DEVICE_STEP, DEVICE_KEEP),
            activity: Ring::new(DEVICE_STEP, ACTIVITY_KEEP),
            profiles: Arc::default(),
            profiled: None,
            has_past: false,
            fine: Ring::new(FINE_STEP, FINE_KEEP),
            coarse: Ring::new(COARSE_STEP, COARSE_KEEP),
            served: Ring::new(FINE_STEP, FINE_KEEP),
            open: Arc::default(),
        }
    }
}

/// Every device at one step. The maximum value of a column's type is a gap.
#[derive(Clone, Debug)]
struct DeviceColumns {
    util: Box<[u8]>,
    memory: Box<[u8]>,
    temp: Box<[u8]>,
    power: Box<[u16]>,
}

/// The fleet (row 0) and every pool (from row 1) at one step; NaN is a gap.
type FleetRows = Box<[[f32; SIGNALS]]>;

/// Every service at one step; NaN is a gap.
type ServedRows = Box<[[f32; SERVED]]>;

/// The coarse step being filled: sums and counts by row; `None` is the fleet.
#[derive(Clone, Debug, Default)]
struct Open {
    slot: i64,
    rows: BTreeMap<Option<Name>, [(f64, u32); SIGNALS]>,
}

fn pack_ratio(value: Option<f64>) -> u8 {
    match value.filter(|value| value.is_finite()) {
        Some(value) => (value.clamp(0.0, 1.0) * 254.0).round() as u8,
        None => u8::MAX,
    }
}

fn unpack_ratio(packed: u8) -> Option<f32> {
    (packed != u8::MAX).then(|| f32::from(packed) / 254.0)
}

fn pack_temp(value: Option<f64>) -> u8 {
    match value.filter(|value| value.is_finite()) {
        Some(value) => (value.clamp(-40.0, 214.0) + 40.0).round() as u8,
        None => u8::MAX,
    }
}

fn unpack_temp(packed: u8) -> Option<f32> {
    (packed != u8::MAX).then(|| f32::from(packed) - 40.0)
}

fn pack_watts(value: Option<f64>) -> u16 {
    match value.filter(|value| value.is_finite()) {
        Some(value) => value.clamp(0.0, 65_534.0).round() as u16,
        None => u16::MAX,
    }
}

fn unpack_watts(packed: u16) -> Option<f32> {
    (packed != u16::MAX).then(|| f32::from(packed))
}

impl History {
    /// Records the frames that are due at the fleet's time; does nothing when the step is already recorded, so repeated calls
    /// are harmless. `money` gives USD per hour of total and of idle (free and idle-allocated) spend of a pool, or of the fleet
    /// for `None`; a non-finite value is a gap.
    pub fn record(&mut self, fleet: &Fleet, money: &dyn Fn(Option<&str>) -> (f64, f64)) {
        if let Some(slot) = self.devices.due(fleet.at) {
            let frame = device_frame(slot, fleet, self.devices.newest().map(|old| &old.roster));
            let roster = Arc::clone(&frame.roster);
            self.devices.push(frame);
            self.activity.drop_after(slot - 1);
            self.activity.push(activity_frame(slot, fleet, roster));
        }
        if let Some(slot) = self.fine.due(fleet.at) {
            let old = self.fine.newest().map(|old| &old.roster);
            let frame = fleet_frame(slot, fleet, old, money);
            self.fold(fleet.at, &frame);
            self.fine.push(frame);
        }
        if let Some(slot) = self.served.due(fleet.at) {
            let old = self.served.newest().map(|old| &old.roster);
            let frame = served_frame(slot, fleet, old);
            self.served.push(frame);
        }
    }

    /// Adds a fine frame to the open coarse step; seals that step first when a new one begins.
    fn fold(&mut self, at: Moment, frame: &Frame<FleetRows>) {
        let slot = self.coarse.slot(at);
        if self.open.slot != slot {
            let full = std::mem::take(Arc::make_mut(&mut self.open));
            self.coarse.drop_after(slot);
            // After the clock went back, the step may have its frame already, or lie in what is the future now.
            let newest = self.coarse.newest().map(|newest| newest.slot);
            let due = full.slot < slot && newest.is_none_or(|newest| newest < full.slot);
            if !full.rows.is_empty() && due {
                let old = self.coarse.newest().map(|old| &old.roster);
                let sealed = full.seal(old);
                self.coarse.push(sealed);
            }
        }
        let open = Arc::make_mut(&mut self.open);
        open.slot = slot;
        let names = std::iter::once(None).chain(frame.roster.names.iter().cloned().map(Some));
        for (name, values) in names.zip(frame.columns.iter()) {
            let sums = open.rows.entry(name).or_default();
            for (sum, value) in sums.iter_mut().zip(values) {
                if value.is_finite() {
                    sum.0 += f64::from(*value);
                    sum.1 += 1;
                }
            }
        }
    }

    /// `points` values between `from` and `to`, oldest first: means of the known values over equal spans; `None`
    /// where none is known. A value never lies outside of the measured range of its span.
    pub fn window(
        &self,
        track: &Track,
        from: Moment,
        to: Moment,
        points: usize,
    ) -> Vec<Option<f32>> {
        self.window_since(track, (from, to), None, points)
    }

    /// The same without values from before `since`, so that a pod's history does not show an earlier pod's.
    pub fn window_since(
        &self,
        track: &Track,
        (from, to): (Moment, Moment),
        since: Option<Moment>,
        points: usize,
    ) -> Vec<Option<f32>> {
        let mut chart = Chart::new(from, to, points).not_before(since);
        let mut device = |id: &Name, unpack: &dyn Fn(&DeviceColumns, usize) -> Option<f32>| {
            let mut last: Option<(*const Roster, Option<usize>)> = None;
            self.devices.draw(&mut chart, None, |frame| {
                let roster = Arc::as_ptr(&frame.roster);
                let row = match last {
                    Some((known, row)) if known == roster => row,
                    _ => frame.roster.row(id),
                };
                last = Some((roster, row));
                unpack(&frame.columns, row?)
            });
        };
        match track {
            Track::DeviceUtil(id) => device(id, &|frame, row| unpack_ratio(frame.util[row])),
            Track::DeviceMemory(id) => device(id, &|frame, row| unpack_ratio(frame.memory[row])),
            Track::DeviceTemp(id) => device(id, &|frame, row| unpack_temp(frame.temp[row])),
            Track::DevicePower(id) => device(id, &|frame, row| unpack_watts(frame.power[row])),
            Track::Fleet(signal) => self.rows(&mut chart, None, *signal),
            Track::Pool(name, signal) => self.rows(&mut chart, Some(name), *signal),
            Track::Served(job, signal) => {
                let name = served_name(job);
                self.served.draw(&mut chart, None, |frame| {
                    let row = frame.roster.row(&name)?;
                    Some(frame.columns[row][*signal as usize])
                });
            }
        }
        chart.finish()
    }

    /// Fine rows where available, coarse rows before.
    fn rows(&self, chart: &mut Chart, pool: Option<&Name>, signal: FleetSignal) {
        let value = |frame: &Arc<Frame<FleetRows>>| {
            let row = match pool {
                None => 0,
                Some(name) => frame.roster.row(name)? + 1,
            };
            frame.columns.get(row).map(|values| values[signal as usize])
        };
        self.coarse.draw(chart, self.fine.start(), value);
        self.fine.draw(chart, None, value);
    }

    /// True once the history was backfilled from before the start of the program.
    pub const fn has_past(&self) -> bool {
        self.has_past
    }

    /// Time of the oldest stored value.
    pub fn since(&self) -> Option<Moment> {
        [self.coarse.start(), self.fine.start(), self.devices.start()]
            .into_iter()
            .flatten()
            .min()
            .map(Moment::from_millis)
    }

    /// Time of the newest stored values, to the step.
    pub fn until(&self) -> Option<Moment> {
        [self.coarse.end(), self.fine.end(), self.devices.end()]
            .into_iter()
            .flatten()
            .max()
            .map(Moment::from_millis)
    }

    /// Every device's readings at `at`; `None` when no step near it is stored.
    pub fn readings(&self, at: Moment) -> Option<Readings<'_>> {
        self.devices.near(at).map(Readings)
    }

    /// Time of the oldest stored device readings.
    pub fn readings_since(&self) -> Option<Moment> {
        self.devices.start().map(Moment::from_millis)
    }

    /// Heap bytes of the columns and rosters, without the name strings, which the fleet shares.
    pub fn heap_bytes(&self) -> usize {
        let mut rosters: Vec<*const Roster> = Vec::new();
        let mut bytes = 0;
        let mut once = |roster: &Arc<Roster>| {
            if rosters.contains(&Arc::as_ptr(roster)) {
                return 0;
            }
            rosters.push(Arc::as_ptr(roster));
            roster.heap_bytes()
        };
        for frame in self.devices.iter() {
            let columns = &frame.columns;
            bytes += columns.util.len() + columns.memory.len() + columns.temp.len();
            bytes += size_of_val(&*columns.power);
            bytes += size_of::<Frame<DeviceColumns>>() + once(&frame.roster);
        }
        for frame in self.activity.iter() {
            bytes += frame.columns.heap_bytes();
            bytes += size_of::<Frame<ActivityColumns>>() + once(&frame.roster);
        }
        for frame in self.fine.iter().chain(self.coarse.iter()) {
            bytes += size_of_val(&*frame.columns);
            bytes += size_of::<Frame<FleetRows>>() + once(&frame.roster);
        }
        for frame in self.served.iter() {
            bytes += size_of_val(&*frame.columns);
            bytes += size_of::<Frame<ServedRows>>() + once(&frame.roster);
        }
        bytes
    }
}

/// Every device's readings at one step.
#[derive(Clone, Copy, Debug)]
pub struct Readings<'a>(&'a Frame<DeviceColumns>);

/// Readings of one device at one step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReadThen {
    /// Utilization, 0 to 1.
    pub util: Option<f32>,
    /// Memory in use as a share of all, 0 to 1.
    pub memory: Option<f32>,
    /// Temperature of the device, degrees Celsius.
    pub temp: Option<f32>,
    /// Power that the device draws, watts.
    pub power: Option<f32>,
}

impl ReadThen {
    pub fn is_known(&self) -> bool {
        self.util.is_some() || self.memory.is_some() || self.temp.is_some() || self.power.is_some()
    }
}

impl Readings<'_> {
    /// Readings of this device; `None` when it did not exist at this step.
    pub fn of(&self, id: &str) -> Option<ReadThen> {
        let row = self.0.roster.row(id)?;
        let columns = &self.0.columns;
        Some(ReadThen {
            util: unpack_ratio(columns.util[row]),
            memory: unpack_ratio(columns.memory[row]),
            temp: unpack_temp(columns.temp[row]),
            power: unpack_watts(columns.power[row]),
        })
    }
}

impl Open {
    fn seal(self, old: Option<&Arc<Roster>>) -> Frame<FleetRows> {
        let means = |sums: &[(f64, u32); SIGNALS]| {
            sums.map(|(sum, count)| match count {
                0 => f32::NAN,
                _ => (sum / f64::from(count)) as f32,
            })
        };
        let pools = || self.rows.keys().flatten();
        let columns = std::iter::once(None)
            .chain(pools().map(Some))
            .map(|name| match self.rows.get(&name.cloned()) {
                Some(sums) => means(sums),
                None => [f32::NAN; SIGNALS],
            })
            .collect();
        Frame {
            slot: self.slot,
            roster: Roster::of(old, pools),
            columns,
        }
    }
}

/// The row of a service in a roster: two workloads of a name differ by their kind.
fn served_name(job: &JobKey) -> Name {
    Name::from(format!("{} {}", job.kind, job.key))
}

fn served_frame(slot: i64, fleet: &Fleet, old: Option<&Arc<Roster>>) -> Frame<ServedRows> {
    let serving = fleet
        .jobs
        .iter()
        .filter_map(|job| Some((job, job.serving.as_ref()?)));
    let (names, columns): (Vec<Name>, Vec<[f32; SERVED]>) = serving
        .map(|(job, serving)| {
            let now = |signal: ServedSignal| signal.now(serving).map(|value| value as f32);
            let row = ServedSignal::ALL.map(|signal| now(signal).unwrap_or(f32::NAN));
            (served_name(&job.id), row)
        })
        .unzip();
    Frame {
        slot,
        roster: Roster::of(old, || names.iter()),
        columns: columns.into(),
    }
}

fn device_frame(slot: i64, fleet: &Fleet, old: Option<&Arc<Roster>>) -> Frame<DeviceColumns> {
    let roster = Roster::of(old, || fleet.devices().map(|(_, device)| &device.id));
    let count = roster.names.len();
    let (mut util, mut memory) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let (mut temp, mut power) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for (_, device) in fleet.devices() {
        let fresh = device.is_fresh(fleet.at);
        let known = |value: Option<f64>| value.filter(|_| fresh);
        util.push(pack_ratio(known(device.util())));
        memory.push(pack_ratio(known(device.memory_ratio())));
        temp.push(pack_temp(known(device.signals.get(Signal::Temp))));
        power.push(pack_watts(known(device.signals.get(Signal::Power))));
    }
    Frame {
        slot,
        roster,
        columns: DeviceColumns {
            util: util.into(),
            memory: memory.into(),
            temp: temp.into(),
            power: power.into(),
        },
    }
}

fn activity_frame(slot: i64, fleet: &Fleet, roster: Arc<Roster>) -> Frame<ActivityColumns> {
    let devices = fleet
        .devices()
        .map(|(_, device)| Some(device).filter(|device| device.is_fresh(fleet.at)));
    let columns = ActivityColumns::of(devices, roster.names.len());
    Frame {
        slot,
        roster,
        columns,
    }
}

fn fleet_frame(
    slot: i64,
    fleet: &Fleet,
    old: Option<&Arc<Roster>>,
    money: &dyn Fn(Option<&str>) -> (f64, f64),
) -> Frame<FleetRows> {
    // While a list call fails, its last counts are not current.
    let listed =
        fleet.visibility(Table::Nodes).is_known() && fleet.visibility(Table::Pods).is_known();
    let counted = listed && fleet.sees_devices();
    let row = |util: Option<f64>,
               held: DeviceAmount,
               total: u32,
               power: Option<f64>,
               waiting: u32,
               pool: Option<&str>| {
        let mut row = [f32::NAN; SIGNALS];
        row[FleetSignal::Util as usize] = util.map_or(f32::NAN, |util| util as f32);
        row[FleetSignal::Power as usize] = power.map_or(f32::NAN, |watts| watts as f32);
        if counted {
            let (burn, idle) = money(pool);
            row[FleetSignal::Burn as usize] = burn as f32;
            row[FleetSignal::Idle as usize] = idle as f32;
            row[FleetSignal::Waiting as usize] = waiting as f32;
            if total > 0 {
                row[FleetSignal::Allocated as usize] = (held.devices() / f64::from(total)) as f32;
            }
        }
        row
    };
    let (mut sum, mut known) = (0.0, 0u32);
    for (_, device) in fleet.devices() {
        if let Some(util) = device.util().filter(|_| device.is_fresh(fleet.at)) {
            sum += util;
            known += 1;
        }
    }
    let util = (known > 0).then(|| sum / f64::from(known));
    let powers = || fleet.pools.iter().filter_map(|pool| pool.power_watts);
    let power = powers().next().map(|_| powers().sum());
    let all = fleet.device_counts();
    let waiting = fleet.jobs.iter().map(|job| job.devices_waiting());
    let waiting = waiting.fold(0, u32::saturating_add);
    let whole = row(util, all.allocated, all.total, power, waiting, None);
    let pools = fleet.pools.iter().map(|pool| {
        let counts = &pool.devices;
        let name = Some(pool.name.as_str());
        row(
            pool.util,
            counts.allocated,
            counts.total,
            pool.power_watts,
            pool.waiting_devices,
            name,
        )
    });
    let columns = std::iter::once(whole).chain(pools).collect();
    Frame {
        slot,
        roster: Roster::of(old, || fleet.pools.iter().map(|pool| &pool.name)),
        columns,
    }
}
