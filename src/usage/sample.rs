//! A usage sample of the fleet: devices and spend rate per row and part at one moment.

use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use model::base::{DeviceAmount, Moment, Name};
use model::cost::prices::PriceList;
use model::cost::{Price, Prices};
use model::fleet::Fleet;
use model::fleet::device::{Device, Pod};
use model::fleet::fleet::TableState;
use model::fleet::job::{Job, JobKey, JobState};
use model::fleet::judge::activity;
use model::fleet::kinds::Table;
use model::fleet::node::Node;
use model::fleet::signal::Signal;

use super::row::{UsageClass, UsageKey};

type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// A device with utilization below this ratio is under-used. Below one half it is likely not used effectively (NVIDIA's DCGM
/// guide, of SM activity).
pub const UNDER_USED_BELOW: f64 = 0.5;

/// One whole device in the unit of device shares.
pub(super) const DEVICE: u64 = DeviceAmount::ONE.millionths();

/// The amount of a row in one part.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct PartAmount {
    /// Number of devices, in millionths.
    pub devices: u64,
    /// Rate of these devices, micro-USD an hour.
    pub rate: i64,
    /// Spot devices only: on-demand micro-USD per hour; 0 where not known.
    pub on_demand: i64,
}

/// A row at one moment.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SampleRow {
    pub key: UsageKey,
    pub shares: [PartAmount; 6],
    /// Devices that look free but may be allocated to a pod that is not visible, in millionths.
    pub hidden: u64,
    /// On-demand cost of its shares, micro-USD per hour; `None` unless known for all of them.
    pub on_demand: Option<i64>,
}

/// The energy counter of a device, and the row that its energy counts in.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Counter {
    pub device: Name,
    pub joules: u64,
    pub cell: u32,
}

/// The run state of a job.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct JobRun {
    /// Start of the current allocation; `None` without one.
    pub since: Option<Moment>,
    pub checkpoint: Option<Moment>,
    pub failed: bool,
    /// True when the job succeeded.
    pub done: bool,
    /// Total evictions that its queueing system counts.
    pub evictions: u64,
    /// Time of the last eviction of one of its pods.
    pub last_eviction: Option<Moment>,
    pub team: Name,
    /// Queue; empty where it has none.
    pub queue: Name,
}

#[derive(Clone, PartialEq, Debug)]
pub struct UsageSample {
    /// Time of the sample.
    pub(super) at: Moment,
    /// True when nodes and pods are listed, so that allocated and free devices are known. Otherwise the time after it is unobserved.
    pub(super) observed: bool,
    pub(super) cells: Vec<SampleRow>,
    pub(super) counters: Vec<Counter>,
    pub(super) runs: Map<JobKey, JobRun>,
}

impl UsageSample {
    /// The sample of `fleet` at `at` with these prices.
    pub fn of(at: Moment, fleet: &Fleet, prices: &Prices) -> Self {
        let known = |table| {
            matches!(
                fleet.visibility(table),
                TableState::Live | TableState::Absent | TableState::NotVisible(_)
            )
        };
        let observed = known(Table::Nodes) && known(Table::Pods) && fleet.unread().is_empty();
        let mut sampler = Sampler::new(at, fleet);
        if observed {
            let mut list = PriceList::new(prices);
            for node in fleet.nodes.iter().filter(|node| !node.devices.is_empty()) {
                sampler.node(node, &mut list);
            }
        }
        Self {
            at,
            observed,
            cells: sampler.cells,
            counters: sampler.counters,
            runs: match observed {
                true => runs(fleet),
                false => Map::default(),
            },
        }
    }

    /// The sample moved back to `at`, with energy counters lowered by the energy drawn in between: the past of a simulated
    /// fleet. `watts` is the power of a device in W; a device without it has no counter.
    #[must_use]
    pub fn earlier(&self, at: Moment, watts: impl Fn(&Name) -> Option<f64>) -> Self {
        let mut past = self.clone();
        past.at = at;
        let ago = self.at.since(at).millis() as f64 / 1e3;
        past.counters.retain_mut(|counter| {
            let used = watts(&counter.device).map(|watts| (watts * ago) as u64);
            let before = used.and_then(|used| counter.joules.checked_sub(used));
            counter.joules = before.unwrap_or_default();
            before.is_some()
        });
        past
    }

    /// The sample with all jobs of a row merged.
    #[must_use]
    pub fn without_jobs(mut self) -> Self {
        for cell in &mut self.cells {
            let key = &mut cell.key;
            (key.owner, key.job, key.model) = Default::default();
        }
        self
    }

    /// Time of the sample.
    pub fn at(&self) -> Moment {
        self.at
    }

    /// The row with most of a job's devices.
    pub(super) fn most_of(&self, id: &JobKey) -> Option<&UsageKey> {
        let cells = self.cells.iter().filter(|cell| {
            let key = &cell.key;
            key.job == id.key.name && key.namespace == id.key.namespace && key.owner == id.kind
        });
        let devices = |cell: &SampleRow| cell.shares.iter().map(|share| share.devices).sum::<u64>();
        let most = cells.max_by(|a, b| {
            let by_devices = devices(a).cmp(&devices(b));
            by_devices.then_with(|| b.key.cmp(&a.key))
        });
        most.map(|cell| &cell.key)
    }
}

struct Sampler<'a> {
    at: Moment,
    fleet: &'a Fleet,
    visible: bool,
    empty: Name,
    cells: Vec<SampleRow>,
    counters: Vec<Counter>,
    /// Row index by key.
    index: Map<UsageKey, u32>,
    /// Row index by the pod's address, which is stable while the fleet is borrowed; for one node and one price.
    near: Map<usize, u32>,
    models: Map<JobKey, Name>,
}

impl<'a> Sampler<'a> {
    fn new(at: Moment, fleet: &'a Fleet) -> Self {
        let serving = fleet.jobs.iter().filter_map(|job| {
            let models = &job.serving.as_ref()?.models;
            let names: Vec<&str> = models.iter().map(Name::as_str).collect();
            Some((job.id.clone(), Name::from(names.join(","))))
        });
        Self {
            at,
            fleet,
            visible: fleet.sees_devices(),
            empty: Name::default(),
            cells: Vec::new(),
            counters: Vec::new(),
            index: Map::default(),
            near: Map::default(),
            models: serving.collect(),
        }
    }

    fn node(&mut self, node: &Node, list: &mut PriceList<'_>) {
        let mut last: Option<(&Name, Option<Arc<Price>>)> = None;
        self.near.clear();
        for device in &node.devices {
            let price = match &last {
                Some((class, price)) if **class == device.class => price.clone(),
                _ => {
                    self.near.clear();
                    list.price(node, device)
                }
            };
            last = Some((&device.class, price.clone()));
            let cell = self.device(node, device, price.as_deref());
            let joules = device.signals.get(Signal::Energy);
            if let Some(joules) = joules.filter(|_| !device.is_stale(self.at)) {
                self.counters.push(Counter {
                    device: device.id.clone(),
                    joules: joules.clamp(0.0, 9e15) as u64,
                    cell,
                });
            }
        }
    }

    /// Adds a device to its rows; returns the row of its first holder, else the unallocated row.
    fn device(&mut self, node: &Node, device: &Device, price: Option<&Price>) -> u32 {
        let whole = PartAmount {
            devices: DEVICE,
            rate: price.map_or(0, |price| price.rate.micros()),
            on_demand: on_demand(price).map_or(0, model::base::Rate::micros),
        };
        let broken = node.ready != Some(true) || node.cordon.is_some() || device.health.is_fault();
        let free = match (broken, self.visible) {
            (true, _) => Some(UsageClass::OutOfService),
            (false, true) => Some(UsageClass::Unallocated),
            (false, false) => None,
        };
        if device.has_unknown_slices() {
            // What its pods have of it is not known, and so is what is free of it.
            return self.add(node, device, price, None, None, whole);
        }
        let held = device.is_allocated().then(|| self.judged(device));
        let rate = price.map_or(model::base::Rate::ZERO, |price| price.rate);
        let list = on_demand(price).unwrap_or_default();
        let mut first = None::<(u32, bool)>;
        for cell in device.cells() {
            let share = PartAmount {
                devices: cell.share.map_or(0, DeviceAmount::millionths),
                rate: cell.cost(rate).micros(),
                on_demand: cell.cost(list).micros(),
            };
            let part = if cell.holder.is_some() { held } else { free };
            let row = self.add(node, device, price, cell.holder, part, share);
            let is_first = first.is_none_or(|(_, is_held)| !is_held && cell.holder.is_some());
            if is_first {
                first = Some((row, cell.holder.is_some()));
            }
        }
        first.map_or(0, |(row, _)| row)
    }

    /// Part of an allocated device. A reading that is stale, or older than the allocation, is ignored.
    fn judged(&self, device: &Device) -> UsageClass {
        let silent = !device.is_fresh(self.at) || device.is_read_before_held();
        match activity(device).filter(|_| !silent) {
            None => UsageClass::NotRead,
            Some(_) if self.fleet.is_idle(device) => UsageClass::Idle,
            Some(share) if share < UNDER_USED_BELOW => UsageClass::UnderUsed,
            Some(_) => UsageClass::Useful,
        }
    }

    /// Adds a share to the row of its holder; `None` as part marks devices that may not be free.
    fn add(
        &mut self,
        node: &Node,
        device: &Device,
        price: Option<&Price>,
        pod: Option<&Arc<Pod>>,
        part: Option<UsageClass>,
        share: PartAmount,
    ) -> u32 {
        let address = pod.map_or(0, |pod| Arc::as_ptr(pod) as usize);
        let at = match self.near.get(&address) {
            Some(at) => *at,
            None => {
                let key = self.key(node, device, price, pod);
                let next = self.cells.len() as u32;
                let at = *self.index.entry(key.clone()).or_insert(next);
                if at == next {
                    self.cells.push(SampleRow {
                        key,
                        shares: Default::default(),
                        hidden: 0,
                        on_demand: Some(0),
                    });
                }
                self.near.insert(address, at);
                at
            }
        };
        let cell = &mut self.cells[at as usize];
        match part {
            Some(part) => {
                let sum = &mut cell.shares[part as usize];
                sum.devices += share.devices;
                sum.rate = sum.rate.saturating_add(share.rate);
                let known = cell.on_demand.zip(on_demand(price));
                cell.on_demand = known.map(|(sum, _)| sum.saturating_add(share.on_demand));
            }
            None => cell.hidden += share.devices,
        }
        at
    }

    fn key(
        &self,
        node: &Node,
        device: &Device,
        price: Option<&Price>,
        pod: Option<&Arc<Pod>>,
    ) -> UsageKey {
        let empty = || self.empty.clone();
        let mut key = UsageKey {
            pool: node.pool.clone(),
            class: device.class.clone(),
            billing: node.billing,
            zone: node.zone.clone().unwrap_or_else(empty),
            namespace: empty(),
            team: empty(),
            queue: empty(),
            owner: empty(),
            job: empty(),
            model: empty(),
            price_source: price.map_or_else(empty, |price| price.source.clone()),
            price_as_of: price
                .and_then(|price| price.as_of.clone())
                .unwrap_or_else(empty),
        };
        if let Some(pod) = pod {
            key.namespace = pod.job.key.namespace.clone();
            key.team = pod.team.clone();
            key.queue = pod.queue.clone().unwrap_or_else(empty);
            key.owner = pod.job.kind.clone();
            key.job = pod.job.key.name.clone();
            key.model = self.models.get(&pod.job).cloned().unwrap_or_else(empty);
        }
        key
    }
}

fn on_demand(price: Option<&Price>) -> Option<model::base::Rate> {
    price.and_then(|price| price.on_demand)
}

/// Run state of every job.
fn runs(fleet: &Fleet) -> Map<JobKey, JobRun> {
    let jobs = fleet.jobs.iter();
    jobs.map(|job| (job.id.clone(), run_of(job))).collect()
}

fn run_of(job: &Job) -> JobRun {
    let evictions = job
        .admission
        .iter()
        .flat_map(|admission| admission.seen.evictions.iter());
    JobRun {
        since: job.held_since(),
        checkpoint: job.last_checkpoint,
        failed: job.state == JobState::Failed,
        done: job.state == JobState::Done,
        evictions: evictions.map(|eviction| u64::from(eviction.count)).sum(),
        last_eviction: job
            .failure
            .as_ref()
            .and_then(|failure| failure.last_eviction),
        team: job.team.clone(),
        queue: job.queue.clone().unwrap_or_default(),
    }
}
