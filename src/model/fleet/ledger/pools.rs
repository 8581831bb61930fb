//! Pools out of nodes: counts, means and what waits for them. Each device counts in one pool.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::{DeviceAmount, Moment, Name};
use crate::fleet::device::{Device, Pod};
use crate::fleet::job::Job;
use crate::fleet::judge;
use crate::fleet::kinds::Table;
use crate::fleet::node::{Billing, Node};
use crate::fleet::object_parts::Labels;
use crate::fleet::policy::Policy;
use crate::fleet::pool::{
    ClassCount, DeviceCounts, NodeCounts, Pool, PoolMode, PoolSight, Unusable, WaitingOutside,
};
use crate::fleet::scaling::{NODE_POOL, Scaling};
use crate::fleet::signal::Signal;
use crate::fleet::siting::PodSet;
use crate::fleet::{Fleet, Known};

use super::jobs::could_serve;
use super::scaling;

/// Labels that only an autoscaler writes.
const AUTOSCALED: &[&str] = &[NODE_POOL, "karpenter.sh/provisioner-name"];

/// Labels of managed node groups, which may or may not be scaled: they leave the mode unknown.
const MANAGED: &[&str] = &[
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "agentpool",
];

/// What stays while of the nodes nothing changes but readings and pods.
pub(super) struct Kept {
    policy: Arc<Policy>,
    serves: Serves,
    /// Pools without what changes meanwhile, by name; none until they are made.
    pools: Vec<Pool>,
}

impl Kept {
    pub(super) fn new(policy: Arc<Policy>) -> Self {
        Self {
            policy,
            serves: Serves::new(),
            pools: Vec::new(),
        }
    }

    /// A node was added, deleted, or changed by more than readings and pods.
    pub(super) fn nodes_changed(&mut self) {
        self.serves.clear();
        self.pools.clear();
    }

    /// Autoscalers have changed, on which the pools' bounds depend.
    pub(super) fn scaling_changed(&mut self) {
        self.pools.clear();
    }

    /// Every pool that has devices, by name.
    pub(super) fn build(
        &mut self,
        nodes: &[Arc<Node>],
        jobs: &[Arc<Job>],
        scaling: &Scaling,
        at: Moment,
        nodes_lost: bool,
        sight: PoolSight,
    ) -> Vec<Pool> {
        let members = members(nodes);
        // Which pool could serve a job, only its nodes say.
        let waiting = match sight.nodes {
            true => {
                let jobs = jobs.iter().map(|job| &**job);
                Waiting::of(&members, jobs, &mut self.serves).by_pool
            }
            false => BTreeMap::new(),
        };
        let policy = &*self.policy;
        if self.pools.is_empty() {
            let all = members.iter();
            self.pools = all
                .map(|(name, nodes)| bare(name, nodes, scaling, policy))
                .collect();
        }
        members
            .values()
            .zip(&self.pools)
            .map(|(nodes, bare)| {
                let mut sum = Sum::default();
                for node in nodes {
                    for device in &node.devices {
                        sum.take(node, device, device.allocated(), (policy, at));
                    }
                    sum.devices.unusable += Unusable::of(node);
                }
                let mut pool = Pool {
                    devices: sum.devices,
                    stale: sum.stale || nodes_lost,
                    waiting_devices: waiting.get(&bare.name).copied().unwrap_or(0),
                    ..sum.readings(bare.clone())
                };
                if !sight.nodes {
                    pool.mode = None;
                    pool.classes
                        .iter_mut()
                        .for_each(|class| class.per_node = None);
                }
                pool.sight = sight;
                pool
            })
            .collect()
    }
}

/// Nodes that have devices, by pool.
fn members(nodes: &[Arc<Node>]) -> BTreeMap<&Name, Vec<&Node>> {
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
        let waiting = Waiting::of(&members, jobs, &mut Serves::default()).by_pool;
        let nodes_lost = matches!(self.known(Table::Nodes), Known::Lost(_));
        let part = |pool: &Pool| {
            let mut sum = Sum::default();
            for node in members.get(&pool.name).into_iter().flatten() {
                let devices = node.devices.iter();
                for device in devices.filter(|device| device.holders().any(|(pod, _)| holds(pod))) {
                    let held = device.held_by(&holds);
                    sum.take(node, device, held, (&self.policy, at));
                }
            }
            Pool {
                devices: DeviceCounts {
                    total: pool.devices.total,
                    free: pool.devices.free,
                    unusable: pool.devices.unusable,
                    ..sum.devices
                },
                stale: sum.stale || nodes_lost,
                waiting_devices: waiting.get(&pool.name).copied().unwrap_or(0),
                ..sum.readings(pool.clone())
            }
        };
        self.pools.iter().map(part).collect()
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
        Waiting::of(&members(&self.nodes), jobs, &mut Serves::default()).outside
    }
}

/// A pool without what changes with readings, pods and jobs.
fn bare(name: &Name, nodes: &[&Node], scaling: &Scaling, policy: &Policy) -> Pool {
    let mut counts = NodeCounts::default();
    let mut billings: BTreeSet<Option<Billing>> = BTreeSet::new();
    for node in nodes {
        counts.total += 1;
        counts.ready += u32::from(node.ready == Some(true));
        counts.cordoned += u32::from(node.cordon.is_some());
        billings.insert(node.billing);
    }
    let first = nodes.first().map(|node| &node.seen.labels);
    let rule = first.and_then(|labels| policy.pool_rule(labels));
    let scaled = scaling::bounds(name, nodes, scaling);
    counts.min = rule
        .and_then(|rule| rule.min)
        .or_else(|| scaled.as_ref().and_then(|scaled| scaled.min));
    counts.max = rule
        .and_then(|rule| rule.max)
        .or_else(|| scaled.as_ref().and_then(|scaled| scaled.max));
    Pool {
        name: name.clone(),
        mode: rule
            .and_then(|rule| rule.mode)
            .or_else(|| first.and_then(said_mode))
            .or_else(|| scaled.map(|scaled| scaled.mode))
            .or_else(|| first.and_then(mode)),
        billing: if billings.len() == 1 {
            billings.first().copied().flatten()
        } else {
            None
        },
        billing_mixed: billings.len() > 1,
        owner: rule
            .and_then(|rule| rule.owner.as_deref().map(Name::new))
            .or_else(|| first.and_then(|labels| labels.get("stokehold.dev/owner").cloned())),
        classes: classes(nodes),
        nodes: counts,
        devices: DeviceCounts::default(),
        util: None,
        mem_used: None,
        temp_max: None,
        power_watts: None,
        power_limit_watts: None,
        waiting_devices: 0,
        stale: false,
        sight: PoolSight::default(),
    }
}

/// The mode in the Stokehold label.
fn said_mode(labels: &Labels) -> Option<PoolMode> {
    match labels.get("stokehold.dev/pool-mode").map(Name::as_str) {
        Some("static") => Some(PoolMode::Static),
        Some("dynamic") => Some(PoolMode::Dynamic),
        _ => None,
    }
}

/// Scaled if an autoscaler's label is set, fixed if no managed group owns the nodes.
fn mode(labels: &Labels) -> Option<PoolMode> {
    if labels.first(AUTOSCALED.iter().copied()).is_some() {
        return Some(PoolMode::Dynamic);
    }
    labels
        .first(MANAGED.iter().copied())
        .is_none()
        .then_some(PoolMode::Static)
}

fn classes(nodes: &[&Node]) -> Box<[ClassCount]> {
    let mut classes: BTreeMap<&Name, (ClassCount, BTreeSet<u32>)> = BTreeMap::new();
    for node in nodes {
        let mut here: BTreeMap<&Name, u32> = BTreeMap::new();
        for device in &node.devices {
            *here.entry(&device.class).or_default() += 1;
            let fresh = || ClassCount {
                class: device.class.clone(),
                vendor: device.vendor,
                kind: device.kind,
                devices: 0,
                per_node: None,
            };
            classes
                .entry(&device.class)
                .or_insert_with(|| (fresh(), BTreeSet::new()))
                .0
                .devices += 1;
        }
        for (class, count) in here {
            if let Some((_, sizes)) = classes.get_mut(class) {
                sizes.insert(count);
            }
        }
    }
    let mut all: Vec<ClassCount> = classes
        .into_values()
        .map(|(mut class, sizes)| {
            class.per_node = if sizes.len() == 1 {
                sizes.first().copied()
            } else {
                None
            };
            class
        })
        .collect();
    all.sort_by(|a, b| {
        b.devices
            .cmp(&a.devices)
            .then_with(|| a.class.cmp(&b.class))
    });
    all.into_boxed_slice()
}

#[derive(Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

#[derive(Default)]
struct Means {
    util: Mean,
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
struct Sum {
    devices: DeviceCounts,
    means: Means,
    stale: bool,
}

impl Sum {
    /// Adds a device of which this much is held.
    fn take(
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

    /// The pool with these readings.
    fn readings(self, pool: Pool) -> Pool {
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
type RequestShape = (Vec<(Name, Name)>, Vec<Name>);

/// The pool that could serve a pod set of each shape; `None` where none could.
type Serves = BTreeMap<RequestShape, Option<Name>>;

/// Devices that pending jobs request: a pod set's devices count in one pool, the largest that could serve it.
#[derive(Default)]
struct Waiting {
    by_pool: BTreeMap<Name, u32>,
    outside: WaitingOutside,
}

impl Waiting {
    fn of<'j>(
        members: &BTreeMap<&Name, Vec<&Node>>,
        jobs: impl Iterator<Item = &'j Job>,
        found: &mut Serves,
    ) -> Self {
        let mut by_size: Vec<(&Name, &Vec<&Node>)> =
            members.iter().map(|(name, nodes)| (*name, nodes)).collect();
        by_size.sort_by_key(|(name, nodes)| (std::cmp::Reverse(nodes.len()), *name));
        let mut waiting = Self::default();
        for job in jobs {
            let mut missing = job.devices_waiting();
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
                    Some(pool) => waiting.by_pool.entry(pool.clone()).or_default(),
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

fn shape(set: &PodSet) -> RequestShape {
    let selector = set.node_selector.iter();
    let devices = set.request.devices.iter();
    (
        selector
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        devices.map(|(name, _)| name.clone()).collect(),
    )
}
