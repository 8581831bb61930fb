//! Sums over the devices of pools, of all of them or within a scope, and the pool in which pending devices count.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::{DeviceAmount, Moment, Name};

use super::device::{Device, Pod};
use super::fleet::{Fleet, TableState};
use super::job::Job;
use super::node::Node;
use super::observed::kinds::Table;
use super::observed::object_parts::{Labels, Resources};
use super::observed::seen::NodeSeen;
use super::pool::{DeviceCounts, Pool, WaitingOutside};
use super::queueing::siting::JobPodSet;
use super::rules::judge;
use super::rules::policy::Policy;
use super::signal::Signal;

/// Nodes that have devices, by pool.
pub fn members(nodes: &[Arc<Node>]) -> BTreeMap<&Name, Vec<&Node>> {
    let mut members: BTreeMap<&Name, Vec<&Node>> = BTreeMap::new();
    for node in nodes.iter().filter(|node| !node.devices.is_empty()) {
        members.entry(&node.pool).or_default().push(node);
    }
    members
}

impl Fleet {
    /// The pools within a scope: allocated, idle and unhealthy devices, readings and waiting devices are those of the
    /// devices of pods matched by `holds` and the jobs matched by `waits`. Nodes, all devices and free devices stay the pool's.
    pub fn pools_of(
        &self,
        at: Moment,
        holds: impl Fn(&Pod) -> bool,
        waits: impl Fn(&Job) -> bool,
    ) -> Vec<Pool> {
        let members = members(&self.nodes);
        let jobs = self.jobs.iter().map(|job| &**job);
        let jobs = jobs.filter(|job| waits(job));
        let waiting = WaitingDevices::of(&members, jobs, &mut PoolOfRequest::default()).by_pool;
        let nodes_lost = matches!(self.visibility(Table::Nodes), TableState::Lost(_));
        let part = |pool: &Pool| {
            let mut sum = PoolSum::default();
            for node in members.get(&pool.name).into_iter().flatten() {
                let devices = node.devices.iter();
                for device in devices.filter(|device| device.holders().any(|(pod, _)| holds(pod))) {
                    let held = device.held_by(&holds);
                    sum.take(node, device, held, (&self.policy, at));
                }
            }
            let requested = waiting.get(&pool.name).copied();
            let (waiting_devices, waiting_slices) = requested.unwrap_or_default();
            Pool {
                devices: DeviceCounts {
                    total: pool.devices.total,
                    free: pool.devices.free,
                    unusable: pool.devices.unusable,
                    ..sum.devices
                },
                stale: sum.stale || nodes_lost,
                waiting_devices,
                waiting_slices,
                ..sum.readings(pool.clone())
            }
        };
        self.pools.iter().map(part).collect()
    }

    /// The pool that most of the devices count in that this job waits for.
    pub fn pool_waited_for(&self, job: &Job) -> Option<Name> {
        let members = members(&self.nodes);
        let jobs = std::iter::once(job);
        let waiting = WaitingDevices::of(&members, jobs, &mut PoolOfRequest::default()).by_pool;
        let most = waiting.into_iter().max_by_key(|(_, (devices, _))| *devices);
        most.map(|(pool, _)| pool)
    }

    /// Devices that the waiting jobs matched by `waits` request and that count in no pool.
    pub fn waiting_outside(&self, waits: impl Fn(&Job) -> bool) -> WaitingOutside {
        let jobs = self.jobs.iter().map(|job| &**job);
        let jobs = jobs.filter(|job| waits(job));
        if self.is_hidden(Table::Nodes) {
            return WaitingOutside {
                not_visible: jobs.fold(0, |sum, job| sum.saturating_add(job.devices_waiting())),
                ..WaitingOutside::default()
            };
        }
        WaitingDevices::of(&members(&self.nodes), jobs, &mut PoolOfRequest::default()).outside
    }
}

#[derive(Default)]
struct UtilMean {
    sum: f64,
    count: u32,
}

impl UtilMean {
    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

#[derive(Default)]
struct Means {
    util: UtilMean,
    memory_used: f64,
    memory_total: f64,
    temp_max: Option<f64>,
    power: Option<f64>,
    power_limit: Option<f64>,
    /// The class of the last lookup, with its design power: devices of one class are adjacent.
    tdp: Option<(Name, Option<f64>)>,
}

impl Means {
    fn tdp(&mut self, class: &Name, policy: &Policy) -> Option<f64> {
        if let Some((_, tdp)) = self.tdp.as_ref().filter(|(known, _)| known == class) {
            return *tdp;
        }
        let model = policy.catalog.of_class(class);
        let tdp = model.and_then(|model| model.tdp_watts);
        self.tdp = Some((class.clone(), tdp));
        tdp
    }

    fn take(&mut self, device: &Device, policy: &Policy, at: Moment) {
        if device.is_stale(at) {
            return;
        }
        if let Some(util) = device.util() {
            self.util.sum += util;
            self.util.count += 1;
        }
        if let (Some(used), Some(total)) = device.memory() {
            self.memory_used += used;
            self.memory_total += total;
        }
        if let Some(temp) = device.signals.get(Signal::Temp) {
            self.temp_max = Some(self.temp_max.map_or(temp, |max| max.max(temp)));
        }
        if let Some(power) = device.signals.get(Signal::Power) {
            *self.power.get_or_insert(0.0) += power;
            let limit = device.signals.get(Signal::PowerLimit);
            if let Some(limit) = limit.or_else(|| self.tdp(&device.class, policy)) {
                *self.power_limit.get_or_insert(0.0) += limit;
            }
        }
    }
}

/// Counts and readings of devices.
#[derive(Default)]
pub struct PoolSum {
    pub devices: DeviceCounts,
    means: Means,
    /// True when one of the devices is stale.
    pub stale: bool,
}

impl PoolSum {
    /// Adds a device of which this much is held.
    pub fn take(
        &mut self,
        node: &Node,
        device: &Device,
        held: DeviceAmount,
        (policy, at): (&Policy, Moment),
    ) {
        let devices = &mut self.devices;
        devices.total += 1;
        devices.allocated += held;
        devices.free += DeviceAmount::ONE.less(held);
        devices.unhealthy += u32::from(device.health.is_fault() || node.ready != Some(true));
        if judge::is_idle(device, at, policy) {
            devices.idle_allocated += held;
        }
        self.stale |= device.is_stale(at);
        self.means.take(device, policy, at);
    }

    pub fn readings(self, pool: Pool) -> Pool {
        let means = self.means;
        Pool {
            util: means.util.mean(),
            mem_used: (means.memory_total > 0.0).then(|| means.memory_used / means.memory_total),
            temp_max: means.temp_max,
            power_watts: means.power,
            power_limit_watts: means.power_limit,
            ..pool
        }
    }
}

/// A selector and the requested resources: pod sets with the same ones belong to the same pool.
pub type RequestShape = (Vec<(Name, Name)>, Vec<Name>);

/// The pool that could serve a pod set of each shape; `None` where none could.
pub type PoolOfRequest = BTreeMap<RequestShape, Option<Name>>;

/// Devices that pending jobs request: a pod set's devices count in one pool, the largest that could serve it.
#[derive(Default)]
pub struct WaitingDevices {
    /// Devices and slices together, and how many of them are slices.
    pub by_pool: BTreeMap<Name, (u32, u32)>,
    pub outside: WaitingOutside,
}

impl WaitingDevices {
    /// Counts the jobs' pending devices; `found` keeps which pool serves a pod set of each shape.
    pub fn of<'j>(
        members: &BTreeMap<&Name, Vec<&Node>>,
        jobs: impl Iterator<Item = &'j Job>,
        found: &mut PoolOfRequest,
    ) -> Self {
        let mut by_size: Vec<(&Name, &Vec<&Node>)> =
            members.iter().map(|(name, nodes)| (*name, nodes)).collect();
        by_size.sort_by_key(|(name, nodes)| (std::cmp::Reverse(nodes.len()), *name));
        let mut waiting = Self::default();
        for job in jobs {
            let mut missing = job.devices_waiting();
            let is_sliced = job.is_sliced();
            for set in job.pod_sets.iter() {
                let own = set.request.device_count().saturating_mul(set.count);
                let own = own.min(missing);
                if own == 0 || !set.has_placement() {
                    continue;
                }
                missing -= own;
                let pool = found.entry(shape(set)).or_insert_with(|| {
                    let serves = |nodes: &[&Node]| {
                        let mut nodes = nodes.iter();
                        nodes.any(|node| could_serve(&node.seen, &set.request, &set.node_selector))
                    };
                    let first = by_size.iter().find(|(_, nodes)| serves(nodes));
                    first.map(|(name, _)| (*name).clone())
                });
                let sum = match pool {
                    Some(pool) => {
                        let (all, slices) = waiting.by_pool.entry(pool.clone()).or_default();
                        *slices = slices.saturating_add(if is_sliced { own } else { 0 });
                        all
                    }
                    None => &mut waiting.outside.no_pool,
                };
                *sum = sum.saturating_add(own);
            }
            let unknown = &mut waiting.outside.not_known;
            *unknown = unknown.saturating_add(missing);
        }
        waiting
    }
}

fn shape(set: &JobPodSet) -> RequestShape {
    let selector = set.node_selector.iter();
    let devices = set.request.devices.iter();
    (
        selector
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        devices.map(|(name, _)| name.clone()).collect(),
    )
}

/// True when a node with these labels and this capacity could serve one pod of the request.
fn could_serve(node: &NodeSeen, request: &Resources, selector: &Labels) -> bool {
    selector
        .iter()
        .all(|(key, value)| node.labels.get(key) == Some(value))
        && request
            .devices
            .iter()
            .filter(|(_, count)| *count > 0)
            .all(|(resource, _)| {
                node.capacity
                    .device(resource)
                    .is_some_and(|count| count > 0)
            })
}
