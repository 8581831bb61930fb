//! The world's own accounts of device time by team and use, updated at each event. Tests compare the usage ledger with
//! them.

use std::collections::{BTreeMap, BTreeSet};

use model::base::{Moment, Name};

use super::World;
use super::catalog::POOLS;
use super::node::{NodeId, SimNode};
use super::work::Work;

/// Parts of a device: divisible by each number of slices that the world uses, 7 and 3.
const PARTS: u64 = 21;

/// A device counts as idle when its pod is older than this and it does nothing, milliseconds.
const GRACE_MS: u64 = 15 * 60_000;

/// Use of a device's time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DeviceUse {
    /// Allocated to a pod of this team.
    Allocated(Name),
    /// Not allocated, but available.
    Unallocated,
    /// Not allocated and not available: the node is cordoned or not ready, or the device is broken.
    OutOfService,
}

#[derive(Clone, PartialEq, Debug)]
pub struct AccountRow {
    /// Pool of the nodes.
    pub pool: &'static str,
    /// The device's product label.
    pub product: &'static str,
    /// The use of the time.
    pub device_use: DeviceUse,
    /// Hours of whole devices.
    pub device_hours: f64,
    /// Idle hours among these, sampled at the end of each step: devices that do nothing, and whose pod is older than 15 minutes.
    pub idle_hours: f64,
}

/// Device time of one work.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkAccountRow {
    /// Pool of the nodes.
    pub pool: &'static str,
    pub namespace: Name,
    /// Name of the controller.
    pub name: Name,
    /// Hours of whole devices.
    pub device_hours: f64,
}

type Key = (usize, DeviceUse);

/// Namespace and name of a work.
type WorkName = (Name, Name);

/// Device time in [`PARTS`] of a device times milliseconds.
#[derive(Clone, Copy, Default, Debug)]
struct DeviceTime {
    time: u64,
    idle: u64,
}

/// Use of a node's devices since a time.
#[derive(Clone, Default, Debug)]
struct NodeUse {
    since: Moment,
    uses: Vec<(DeviceUse, u64)>,
    works: Vec<(WorkName, u64)>,
}

#[derive(Clone, Default, Debug)]
pub(super) struct Accounts {
    standing: BTreeMap<NodeId, NodeUse>,
    /// Nodes that have changed at this time.
    pub(super) changed: BTreeSet<NodeId>,
    sums: BTreeMap<Key, DeviceTime>,
    /// Device time of each work on each pool, in the same unit.
    works: BTreeMap<(usize, WorkName), u64>,
    /// Also samples device activity.
    activity: bool,
}

impl World {
    /// Keeps accounts from now on; `activity` also samples each device's activity at the end of each step.
    #[must_use]
    pub fn with_accounts(mut self, activity: bool) -> Self {
        let changed = (0..self.nodes.len()).collect();
        self.accounts = Some(Box::new(Accounts {
            changed,
            activity,
            ..Accounts::default()
        }));
        self.settle_accounts();
        self
    }

    /// The accounts up to now; empty if they are not kept.
    pub fn accounts(&mut self) -> Vec<AccountRow> {
        self.settle_all();
        let sums = self.accounts.iter().flat_map(|accounts| &accounts.sums);
        sums.map(|((pool, device_use), sum)| AccountRow {
            pool: POOLS[*pool].name,
            product: POOLS[*pool].product,
            device_use: device_use.clone(),
            device_hours: hours(sum.time),
            idle_hours: hours(sum.idle),
        })
        .collect()
    }

    /// Device time of each work up to now; empty if accounts are not kept.
    pub fn work_accounts(&mut self) -> Vec<WorkAccountRow> {
        self.settle_all();
        let works = self.accounts.iter().flat_map(|accounts| &accounts.works);
        works
            .map(|((pool, (namespace, name)), time)| WorkAccountRow {
                pool: POOLS[*pool].name,
                namespace: namespace.clone(),
                name: name.clone(),
                device_hours: hours(*time),
            })
            .collect()
    }

    fn settle_all(&mut self) {
        if let Some(accounts) = &mut self.accounts {
            accounts.changed = accounts.standing.keys().copied().collect();
        }
        self.settle_accounts();
    }

    /// Notes that a node has changed at this moment.
    pub(super) fn account(&mut self, node: NodeId) {
        if let Some(accounts) = &mut self.accounts {
            accounts.changed.insert(node);
        }
    }

    /// Accounts the time of the changed nodes, up to now.
    pub(super) fn settle_accounts(&mut self) {
        let Some(mut accounts) = self.accounts.take() else {
            return;
        };
        for id in std::mem::take(&mut accounts.changed) {
            let node = &self.nodes[id];
            let (uses, works) = match node.gone {
                true => Default::default(),
                false => (self.uses(node), self.works_on(node)),
            };
            let now = NodeUse {
                since: self.now,
                uses,
                works,
            };
            let Some(before) = accounts.standing.insert(id, now) else {
                continue;
            };
            let span = self.now.since(before.since).millis();
            for (device_use, parts) in before.uses {
                let sum = accounts.sums.entry((node.pool, device_use)).or_default();
                sum.time += parts * span;
            }
            for (work, parts) in before.works {
                *accounts.works.entry((node.pool, work)).or_default() += parts * span;
            }
        }
        self.accounts = Some(accounts);
    }

    /// Parts of the node's devices by use.
    fn uses(&self, node: &SimNode) -> Vec<(DeviceUse, u64)> {
        let mut uses: BTreeMap<DeviceUse, u64> = BTreeMap::new();
        for unit in 0..node.units.len() {
            *uses.entry(self.use_of(node, unit)).or_default() += share(node, unit);
        }
        uses.into_iter().collect()
    }

    /// Parts of the node's devices by work.
    fn works_on(&self, node: &SimNode) -> Vec<(WorkName, u64)> {
        let mut parts: BTreeMap<WorkName, u64> = BTreeMap::new();
        for unit in 0..node.units.len() {
            if let Some(work) = self.work_on(node, unit) {
                let name = (work.namespace.clone(), work.name.clone());
                *parts.entry(name).or_default() += share(node, unit);
            }
        }
        parts.into_iter().collect()
    }

    /// The work that a unit is allocated to.
    fn work_on(&self, node: &SimNode, unit: usize) -> Option<&Work> {
        let pod = self.pods.get(&node.unit_pods[unit]?)?;
        self.works.get(&pod.work)
    }

    fn use_of(&self, node: &SimNode, unit: usize) -> DeviceUse {
        match self.work_on(node, unit).map(|work| work.team.clone()) {
            Some(team) => DeviceUse::Allocated(team),
            None if node.cordoned || !node.ready || node.lost >> unit & 1 == 1 => {
                DeviceUse::OutOfService
            }
            None => DeviceUse::Unallocated,
        }
    }

    /// Samples the activity of each allocated device, for the `span` milliseconds before.
    pub(super) fn account_activity(&mut self, span: u64) {
        let Some(mut accounts) = self.accounts.take_if(|accounts| accounts.activity) else {
            return;
        };
        for (id, node) in self.nodes.iter().enumerate() {
            if node.gone || node.taken == 0 {
                continue;
            }
            for gpu in 0..node.devices.len() {
                let own = |unit: &usize| usize::from(node.units[*unit].gpu) == gpu;
                let held = (0..node.units.len())
                    .filter(own)
                    .filter(|unit| node.unit_pods[*unit].is_some());
                let held: Vec<usize> = held.collect();
                let oldest = held.iter().filter_map(|unit| {
                    let pod = self.pods.get(&node.unit_pods[*unit]?)?;
                    pod.scheduled
                });
                let Some(oldest) = oldest.min() else {
                    continue;
                };
                let reads = self.sample(id, gpu, self.now);
                let works = reads.util.max(reads.sm).max(reads.tensor);
                let idle = works < 0.01 && self.now.since(oldest).millis() >= GRACE_MS;
                for unit in held {
                    let key = (node.pool, self.use_of(node, unit));
                    let sum = accounts.sums.entry(key).or_default();
                    let time = share(node, unit) * span;
                    if idle {
                        sum.idle += time;
                    }
                }
            }
        }
        self.accounts = Some(accounts);
    }
}

/// Device time as hours of whole devices.
fn hours(time: u64) -> f64 {
    time as f64 / (PARTS * 3_600_000) as f64
}

/// A unit's share of its device, in [`PARTS`].
fn share(node: &SimNode, unit: usize) -> u64 {
    let own = node.units[unit].gpu;
    let units = node.units.iter().filter(|unit| unit.gpu == own).count() as u64;
    PARTS / units.max(1)
}
