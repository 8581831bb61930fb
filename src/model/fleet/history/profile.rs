//! The profiles of jobs, made of what the history holds of their devices.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::base::{Moment, Name};
use crate::fleet::fleet::Fleet;
use crate::fleet::job::JobKey;
use crate::fleet::profile::{
    self, Evidence, IDLE_BELOW, JobProfile, NotJudged, Profiles, STOPPED_FOR, SWING_BETWEEN,
    SWING_HIGH, SWING_LOW, SWING_SHARE, SWING_TURNS,
};

use super::activity::{ACTIVITY_KEEP, DeviceActivity, Flows};
use super::ring::Roster;
use super::{DEVICE_STEP, History, unpack_ratio};

/// Steps over which a job is seen to have stopped.
const LATELY: i64 = STOPPED_FOR.millis() as i64 / DEVICE_STEP;

/// A sum with its count.
#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.count += 1;
        }
    }

    fn get(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// A mean with what varies about it.
#[derive(Clone, Copy, Default)]
struct Spread {
    mean: Mean,
    squares: f64,
}

impl Spread {
    fn add(&mut self, value: Option<f64>) {
        self.mean.add(value);
        self.squares += value.map_or(0.0, |value| value * value);
    }

    fn variance(&self) -> Option<f64> {
        let mean = self.mean.get()?;
        Some((self.squares / f64::from(self.mean.count) - mean * mean).max(0.0))
    }
}

/// The greatest three of up to 60 values: one of them is the 95th percentile.
#[derive(Clone, Copy, Default)]
struct TopThree([f32; 3]);

impl TopThree {
    fn add(&mut self, value: Option<f64>) {
        let mut value = value.map_or(0.0, |value| value as f32);
        for place in &mut self.0 {
            if value > *place {
                std::mem::swap(place, &mut value);
            }
        }
    }

    /// The 95th percentile of so many values.
    fn p95(&self, count: u32) -> Option<f64> {
        let above = (count.checked_sub(1)?) as usize / 20;
        Some(f64::from(self.0[above.min(2)]))
    }
}

/// One device in its job's hands.
struct ProfileTally {
    job: usize,
    /// Its node among those of the job.
    node: usize,
    /// First step since its current allocation.
    first: i64,
    steps: u32,
    util: Mean,
    lately: Mean,
    sm: Spread,
    tensor: Mean,
    dram: Mean,
    pcie: Mean,
    link: Mean,
    memory: u32,
    memory_top: TopThree,
    sm_top: TopThree,
    low: u32,
    high: u32,
    turns: u32,
    was_high: Option<bool>,
}

impl ProfileTally {
    fn new(job: usize, node: usize, first: i64) -> Self {
        Self {
            job,
            node,
            first,
            steps: 0,
            util: Mean::default(),
            lately: Mean::default(),
            sm: Spread::default(),
            tensor: Mean::default(),
            dram: Mean::default(),
            pcie: Mean::default(),
            link: Mean::default(),
            memory: 0,
            memory_top: TopThree::default(),
            sm_top: TopThree::default(),
            low: 0,
            high: 0,
            turns: 0,
            was_high: None,
        }
    }

    fn add(
        &mut self,
        util: Option<f64>,
        memory: Option<f64>,
        activity: &DeviceActivity,
        late: bool,
    ) {
        let known = util.or(activity.sm).or(activity.tensor);
        if late {
            // (A collective that never ends keeps utilization at 100 %.)
            self.lately.add(activity.sm.or(util).or(activity.tensor));
        }
        self.steps += u32::from(known.is_some());
        self.util.add(util);
        self.sm.add(activity.sm);
        self.sm_top.add(activity.sm);
        self.tensor.add(activity.tensor);
        self.dram.add(activity.dram);
        self.pcie.add(activity.pcie);
        self.link.add(activity.link);
        self.memory += u32::from(memory.is_some());
        self.memory_top.add(memory);
        let Some(util) = util else { return };
        let is_high = match util {
            util if util < SWING_LOW => false,
            util if util >= SWING_HIGH => true,
            _ => return,
        };
        *(if is_high {
            &mut self.high
        } else {
            &mut self.low
        }) += 1;
        self.turns += u32::from(self.was_high.is_some_and(|was| was != is_high));
        self.was_high = Some(is_high);
    }

    fn swings(&self) -> Option<bool> {
        let count = f64::from(self.util.count);
        if self.util.count == 0 {
            return None;
        }
        let (low, high) = (f64::from(self.low), f64::from(self.high));
        Some(
            low >= SWING_SHARE * count
                && high >= SWING_SHARE * count
                && count - low - high <= SWING_BETWEEN * count
                && self.turns >= SWING_TURNS,
        )
    }
}

/// One job's devices on one node.
#[derive(Default)]
struct OnNode {
    name: Name,
    devices: u32,
    /// SM activity over these devices, at the step that is being read.
    now: Mean,
    together: Spread,
    single: Mean,
}

/// One job's devices together.
#[derive(Default)]
struct JobSum {
    devices: u32,
    /// What its model's links carry, bytes a second; `None` where not known or devices differ.
    link_peak: Option<f64>,
    nodes: Vec<OnNode>,
    /// SM activity over its devices, at the step that is being read.
    now: Mean,
    together: Spread,
    single: Mean,
    steps: u64,
    util: Mean,
    util_most: Option<f64>,
    most_lately: Option<f64>,
    /// Devices of which anything was read lately.
    read_lately: u32,
    /// Devices of which anything was read.
    devices_read: u32,
    sm: Mean,
    tensor: Mean,
    dram: Mean,
    pcie: Mean,
    link: Mean,
    swinging: Mean,
    memory_p95: Option<f64>,
    sm_p95: Option<f64>,
    idle_devices: u32,
}

impl JobSum {
    fn fold(&mut self, device: &ProfileTally) {
        self.steps += u64::from(device.steps);
        let busy = [device.util.get(), device.sm.mean.get(), device.tensor.get()];
        let busy = busy.into_iter().flatten().reduce(f64::max);
        self.util.add(device.util.get());
        self.devices_read += u32::from(busy.is_some());
        self.util_most = self.util_most.into_iter().chain(busy).reduce(f64::max);
        let lately = device.lately.get();
        self.read_lately += u32::from(lately.is_some());
        self.most_lately = self.most_lately.into_iter().chain(lately).reduce(f64::max);
        self.idle_devices += u32::from(busy.is_some_and(|busy| busy < IDLE_BELOW));
        self.sm.add(device.sm.mean.get());
        self.single.add(device.sm.variance());
        self.nodes[device.node].single.add(device.sm.variance());
        self.tensor.add(device.tensor.get());
        self.dram.add(device.dram.get());
        self.pcie.add(device.pcie.get());
        self.link.add(device.link.get());
        self.swinging
            .add(device.swings().map(|swings| f64::from(u8::from(swings))));
        let most =
            |so_far: Option<f64>, own: Option<f64>| so_far.into_iter().chain(own).reduce(f64::max);
        self.memory_p95 = most(self.memory_p95, device.memory_top.p95(device.memory));
        self.sm_p95 = most(self.sm_p95, device.sm_top.p95(device.sm.mean.count));
    }

    /// Variance of its devices' SM activity over time: what they have in common, and that of a single device.
    ///
    /// An exporter collects all devices of its node at once, and that of another node up to an interval later: what happens in
    /// seconds is seen together on one node only. So a job with several devices on a node is judged by its nodes.
    fn variances(&self) -> Option<(f64, f64)> {
        let (mut common, mut single, mut devices) = (0.0, 0.0, 0.0);
        for node in self.nodes.iter().filter(|node| node.devices > 1) {
            if let Some((own, one)) = node.together.variance().zip(node.single.get()) {
                let count = f64::from(node.devices);
                common += own * count;
                single += one * count;
                devices += count;
            }
        }
        if devices > 0.0 {
            return Some((common / devices, single / devices));
        }
        let gang = self.together.variance().filter(|_| self.devices > 1);
        gang.zip(self.single.get())
    }

    fn finish(self) -> JobProfile {
        // A value counts if most of its devices report it: one device in a hundred does not represent the others.
        let enough = |mean: Mean| mean.get().filter(|_| mean.count * 2 > self.devices);
        // (Half of its devices' SM activity or none.)
        let variances = enough(self.single).and_then(|_| self.variances());
        let link = enough(self.link);
        let evidence = Evidence {
            util: enough(self.util),
            // A device that is silent may be busy.
            util_most: self.util_most.filter(|_| self.devices_read == self.devices),
            // (The one that broke is silent.)
            most_lately: self
                .most_lately
                .filter(|_| self.read_lately * 4 >= self.devices * 3),
            sm: enough(self.sm),
            tensor: enough(self.tensor),
            dram: enough(self.dram),
            pcie: enough(self.pcie),
            link,
            link_share: link.zip(self.link_peak).map(|(link, peak)| link / peak),
            dip: variances.map(|(common, _)| common.sqrt()),
            together: variances
                .filter(|(_, single)| *single > 0.0)
                .map(|(common, single)| (common / single).min(1.0)),
            swinging: enough(self.swinging),
            memory_p95: self.memory_p95,
            sm_p95: self.sm_p95,
            idle_devices: self.idle_devices,
        };
        let whole = f64::from(self.devices) * ACTIVITY_KEEP as f64;
        let known = (self.steps as f64 / whole).min(1.0);
        JobProfile {
            devices: self.devices,
            known,
            verdict: profile::judge(known, &evidence),
            evidence,
        }
    }
}

impl History {
    /// The profiles of jobs, as [`History::judge`] last made them.
    pub fn profiles(&self) -> &Arc<Profiles> {
        &self.profiles
    }

    /// Makes the profiles anew where a step or a past has come since.
    pub fn judge(&mut self, fleet: &Fleet) {
        let newest = self.activity.newest().map(|frame| frame.slot);
        if self.profiled == newest {
            return;
        }
        self.profiled = newest;
        let mut jobs: Vec<(JobKey, JobSum)> = Vec::new();
        let mut places: FxHashMap<JobKey, usize> = FxHashMap::default();
        let mut sliced: Vec<JobKey> = Vec::new();
        let mut names: Vec<&Name> = Vec::new();
        let mut tallies: Vec<ProfileTally> = Vec::new();
        for (node, device) in fleet.devices() {
            for slice in &device.slices {
                sliced.extend(slice.holder.iter().map(|pod| pod.job.clone()));
            }
            let Some(pod) = device.holder.as_ref().filter(|_| device.slices.is_empty()) else {
                continue;
            };
            let peak = fleet.policy.catalog.of_class(&device.class);
            let peak = peak.and_then(|model| Some(model.link_gb_s? * 1e9));
            let place = *places.entry(pod.job.clone()).or_insert_with(|| {
                let sum = JobSum {
                    link_peak: peak,
                    ..JobSum::default()
                };
                jobs.push((pod.job.clone(), sum));
                jobs.len() - 1
            });
            let sum = &mut jobs[place].1;
            sum.devices += 1;
            sum.link_peak = sum.link_peak.filter(|_| sum.link_peak == peak);
            if (sum.nodes.last()).is_none_or(|last| last.name != *node.name()) {
                sum.nodes.push(OnNode {
                    name: node.name().clone(),
                    ..OnNode::default()
                });
            }
            let on_node = sum.nodes.len() - 1;
            sum.nodes[on_node].devices += 1;
            names.push(&device.id);
            let first = self.activity.slot(pod.held_since());
            tallies.push(ProfileTally::new(place, on_node, first));
        }
        self.read(&names, &mut tallies, &mut jobs);
        for tally in &tallies {
            jobs[tally.job].1.fold(tally);
        }
        let mut profiles: Profiles = jobs
            .into_iter()
            .map(|(job, sum)| (job, sum.finish()))
            .collect();
        for job in sliced {
            profiles.entry(job).or_insert(JobProfile {
                devices: 0,
                known: 0.0,
                evidence: Evidence::default(),
                verdict: Err(NotJudged::Slices),
            });
        }
        self.profiles = Arc::new(profiles);
    }

    /// Adds every step of the window to the devices' and jobs' sums.
    fn read(&self, names: &[&Name], tallies: &mut [ProfileTally], jobs: &mut [(JobKey, JobSum)]) {
        let flows = Flows::new();
        let mut known: Option<(*const Roster, Vec<Option<usize>>)> = None;
        let Some(newest) = self.activity.newest().map(|frame| frame.slot) else {
            return;
        };
        for frame in self.activity.iter() {
            if frame.slot <= newest - ACTIVITY_KEEP {
                continue;
            }
            let Some(usual) = self.devices.at(frame.slot) else {
                continue;
            };
            // Frames share their roster while no device comes or goes.
            let roster = Arc::as_ptr(&usual.roster);
            if known.as_ref().is_none_or(|(last, _)| *last != roster) {
                let rows = names.iter().map(|name| usual.roster.row(name)).collect();
                known = Some((roster, rows));
            }
            let same = Arc::ptr_eq(&usual.roster, &frame.roster);
            let rows = known.iter().flat_map(|(_, rows)| rows);
            for ((tally, row), name) in tallies.iter_mut().zip(rows).zip(names) {
                if frame.slot < tally.first {
                    continue;
                }
                let Some(row) = *row else { continue };
                let own = if same {
                    Some(row)
                } else {
                    frame.roster.row(name)
                };
                let activity = own.map_or_else(DeviceActivity::default, |row| {
                    frame.columns.row(row, &flows)
                });
                let ratio = |packed: u8| unpack_ratio(packed).map(f64::from);
                let columns = &usual.columns;
                tally.add(
                    ratio(columns.util[row]),
                    ratio(columns.memory[row]),
                    &activity,
                    frame.slot > newest - LATELY,
                );
                let sum = &mut jobs[tally.job].1;
                sum.now.add(activity.sm);
                sum.nodes[tally.node].now.add(activity.sm);
            }
            for (_, sum) in jobs.iter_mut() {
                let now = std::mem::take(&mut sum.now);
                sum.together.add(now.get());
                for node in &mut sum.nodes {
                    let now = std::mem::take(&mut node.now);
                    node.together.add(now.get());
                }
            }
        }
    }
}

/// When a window that ends at `at` begins.
pub fn window_start(at: Moment) -> Moment {
    Moment::from_millis(at.millis().saturating_sub(ACTIVITY_KEEP * DEVICE_STEP))
}

#[cfg(test)]
mod tests;
