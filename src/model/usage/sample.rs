//! What one picture of the fleet says of usage: how many devices each row has, in which part, at what rate.

use std::collections::HashMap;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use crate::base::{Moment, Name};
use crate::cost::prices::PriceList;
use crate::cost::{Price, Prices, sizes};
use crate::fleet::Fleet;
use crate::fleet::device::{Device, Pod};
use crate::fleet::fleet::Known;
use crate::fleet::job::{Job, JobKey, JobState};
use crate::fleet::judge::activity;
use crate::fleet::node::Node;
use crate::fleet::observe::Table;
use crate::fleet::signal::Signal;

use super::row::{Part, UsageKey};

type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// A device that works less than this share of the time is under-used. Below one half it is likely not used effectively
/// (NVIDIA's DCGM guide, of SM activity).
pub const UNDER_USED_BELOW: f64 = 0.5;

/// A whole device, in the unit in which shares of devices are counted.
pub(super) const DEVICE: u64 = 1_000_000;

/// So much of a row in one part.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Share {
    /// Devices, in millionths.
    pub devices: u64,
    /// Micro-USD an hour.
    pub rate: i64,
    /// Of spot devices: micro-USD an hour on demand; 0 where it is not known.
    pub on_demand: i64,
}

/// A row at one moment.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Cell {
    pub key: UsageKey,
    pub shares: [Share; 6],
    /// Devices that look free and may be held by a pod that is not visible, in millionths.
    pub hidden: u64,
    /// What its shares would cost on demand, micro-USD an hour; `None` where it is not known of all of them.
    pub on_demand: Option<i64>,
}

/// The energy counter of a device, and the row that pays for what it uses.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Counter {
    pub device: Name,
    pub joules: u64,
    pub cell: u32,
}

/// A job.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Run {
    /// Since when it holds what it holds; `None` when it holds nothing.
    pub since: Option<Moment>,
    pub checkpoint: Option<Moment>,
    pub failed: bool,
    /// It ended well.
    pub done: bool,
    /// Evictions in all, by its queueing system.
    pub evictions: u64,
    /// When a pod of it was last evicted.
    pub last_eviction: Option<Moment>,
    pub team: Name,
    /// Empty where it has none.
    pub queue: Name,
}

/// What one picture says.
#[derive(Clone, PartialEq, Debug)]
pub struct UsageSample {
    /// The moment of the picture.
    pub(super) at: Moment,
    /// Nodes and pods are known: what is held and what is free can be said. Else the time after it counts as unobserved.
    pub(super) observed: bool,
    pub(super) cells: Vec<Cell>,
    pub(super) counters: Vec<Counter>,
    pub(super) runs: Map<JobKey, Run>,
}

impl UsageSample {
    /// What a picture of `at` says, at these prices.
    pub fn of(at: Moment, fleet: &Fleet, prices: &Prices) -> Self {
        let known = |table| {
            matches!(
                fleet.known(table),
                Known::Live | Known::Absent | Known::NotVisible(_)
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

    /// The same at an earlier moment, with no job told apart and no energy: a past for a simulated fleet.
    #[must_use]
    pub fn as_past(&self, at: Moment) -> Self {
        let mut past = self.clone();
        past.at = at;
        past.counters.clear();
        for cell in &mut past.cells {
            let key = &mut cell.key;
            (key.owner, key.job, key.model) = Default::default();
        }
        past
    }

    /// The moment of the picture.
    pub fn at(&self) -> Moment {
        self.at
    }

    /// The row of a job that has most devices.
    pub(super) fn most_of(&self, id: &JobKey) -> Option<&UsageKey> {
        let cells = self.cells.iter().filter(|cell| {
            let key = &cell.key;
            key.job == id.key.name && key.namespace == id.key.namespace && key.owner == id.kind
        });
        let devices = |cell: &Cell| cell.shares.iter().map(|share| share.devices).sum::<u64>();
        let most = cells.max_by(|a, b| {
            let by_devices = devices(a).cmp(&devices(b));
            by_devices.then_with(|| b.key.cmp(&a.key))
        });
        most.map(|cell| &cell.key)
    }
}

/// Rows while they are filled.
struct Sampler<'a> {
    at: Moment,
    fleet: &'a Fleet,
    visible: bool,
    empty: Name,
    cells: Vec<Cell>,
    counters: Vec<Counter>,
    /// By key.
    index: Map<UsageKey, u32>,
    /// By the pod's address, which is alive for as long as the fleet is; of one node and one price.
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

    /// Adds a device to its rows; gives that of its first holder, else the one of what nobody holds.
    fn device(&mut self, node: &Node, device: &Device, price: Option<&Price>) -> u32 {
        let whole = Share {
            devices: DEVICE,
            rate: price.map_or(0, |price| price.rate.micros()),
            on_demand: on_demand(price).map_or(0, crate::base::Rate::micros),
        };
        let broken = node.ready != Some(true) || node.cordon.is_some() || device.health.is_fault();
        let free = match (broken, self.visible) {
            (true, _) => Some(Part::OutOfService),
            (false, true) => Some(Part::Unallocated),
            (false, false) => None,
        };
        if !device.is_allocated() {
            return self.add(node, device, price, None, free, whole);
        }
        let held = Some(self.judged(device));
        if let Some(pod) = &device.holder {
            return self.add(node, device, price, Some(pod), held, whole);
        }
        // Cut from running sums, as the money of the moment is, so that the slices add up to the device.
        let weights = sizes(device.slices.iter().map(|slice| &slice.name));
        let all: u64 = weights.iter().sum();
        let rate = price.map_or(crate::base::Rate::ZERO, |price| price.rate);
        let list = on_demand(price).unwrap_or_default();
        let (mut before, mut first) = (0, None);
        for (slice, weight) in device.slices.iter().zip(weights) {
            let after = before + weight;
            let share = Share {
                devices: DEVICE * after / all - DEVICE * before / all,
                rate: (rate.share(after, all) - rate.share(before, all)).micros(),
                on_demand: (list.share(after, all) - list.share(before, all)).micros(),
            };
            before = after;
            let holder = slice.holder.as_ref();
            let part = if holder.is_some() { held } else { free };
            let cell = self.add(node, device, price, holder, part, share);
            first = first.or(holder.map(|_| cell));
        }
        first.unwrap_or_default()
    }

    /// What an allocated device does. A reading that is stale, or older than its holder, tells nothing.
    fn judged(&self, device: &Device) -> Part {
        let silent = !device.is_fresh(self.at) || device.is_read_before_held();
        match activity(device).filter(|_| !silent) {
            None => Part::NotRead,
            Some(_) if self.fleet.is_idle(device) => Part::Idle,
            Some(share) if share < UNDER_USED_BELOW => Part::UnderUsed,
            Some(_) => Part::Useful,
        }
    }

    /// Adds a share to the row of its holder; `None` as part is what cannot be told to be free.
    fn add(
        &mut self,
        node: &Node,
        device: &Device,
        price: Option<&Price>,
        pod: Option<&Arc<Pod>>,
        part: Option<Part>,
        share: Share,
    ) -> u32 {
        let address = pod.map_or(0, |pod| Arc::as_ptr(pod) as usize);
        let at = match self.near.get(&address) {
            Some(at) => *at,
            None => {
                let key = self.key(node, device, price, pod);
                let next = self.cells.len() as u32;
                let at = *self.index.entry(key.clone()).or_insert(next);
                if at == next {
                    self.cells.push(Cell {
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

fn on_demand(price: Option<&Price>) -> Option<crate::base::Rate> {
    price.and_then(|price| price.on_demand)
}

/// Every job.
fn runs(fleet: &Fleet) -> Map<JobKey, Run> {
    let jobs = fleet.jobs.iter();
    jobs.map(|job| (job.id.clone(), run_of(job))).collect()
}

fn run_of(job: &Job) -> Run {
    let evictions = job
        .admission
        .iter()
        .flat_map(|admission| admission.seen.evictions.iter());
    Run {
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
