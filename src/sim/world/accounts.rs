//! The world's own accounts: device time by who had the device and whether it worked, kept at each event. What a ledger says of
//! usage and cost is held against them.

use std::collections::{BTreeMap, BTreeSet};

use model::base::{Moment, Name};

use super::World;
use super::catalog::POOLS;
use super::node::{Node, NodeId};

/// Parts of a device that any number of slices of the world divides: 7 and 3.
const PARTS: u64 = 21;

/// A device is accounted as idle when it has done nothing for so long, milliseconds.
const GRACE_MS: u64 = 15 * 60_000;

/// What the time of a device went into.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DeviceUse {
    /// A pod of this team has it.
    Allocated(Name),
    /// No pod has it, and one could.
    Unallocated,
    /// No pod has it, and none could: the node is cordoned or not ready, or the device is broken.
    OutOfService,
}

/// One row of the accounts.
#[derive(Clone, PartialEq, Debug)]
pub struct AccountRow {
    /// Pool of the nodes.
    pub pool: &'static str,
    /// The device's product label.
    pub product: &'static str,
    /// What the time went into.
    pub device_use: DeviceUse,
    /// Hours of whole devices.
    pub device_hours: f64,
    /// Of these, sampled at the end of each step: devices that do nothing, and whose pod is older than 15 minutes.
    pub idle_hours: f64,
}

type Key = (usize, DeviceUse);

/// Device time in [`PARTS`] of a device times milliseconds.
#[derive(Clone, Copy, Default, Debug)]
struct Sum {
    time: u64,
    idle: u64,
}

/// What a node's devices are used for since a moment.
#[derive(Clone, Default, Debug)]
struct Standing {
    since: Moment,
    uses: Vec<(DeviceUse, u64)>,
}

/// The books.
#[derive(Clone, Default, Debug)]
pub(super) struct Accounts {
    standing: BTreeMap<NodeId, Standing>,
    /// Nodes of which something has changed at this moment.
    pub(super) changed: BTreeSet<NodeId>,
    sums: BTreeMap<Key, Sum>,
    /// Samples what devices do as well.
    activity: bool,
}

impl World {
    /// Keeps accounts from now on; `activity` also samples what each device does at the end of each step.
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

    /// The accounts up to now; none where they are not kept.
    pub fn accounts(&mut self) -> Vec<AccountRow> {
        if let Some(accounts) = &mut self.accounts {
            accounts.changed = accounts.standing.keys().copied().collect();
        }
        self.settle_accounts();
        let sums = self.accounts.iter().flat_map(|accounts| &accounts.sums);
        let hours = |time: u64| time as f64 / (PARTS * 3_600_000) as f64;
        sums.map(|((pool, device_use), sum)| AccountRow {
            pool: POOLS[*pool].name,
            product: POOLS[*pool].product,
            device_use: device_use.clone(),
            device_hours: hours(sum.time),
            idle_hours: hours(sum.idle),
        })
        .collect()
    }

    /// Notes that a node has changed at this moment.
    pub(super) fn account(&mut self, node: NodeId) {
        if let Some(accounts) = &mut self.accounts {
            accounts.changed.insert(node);
        }
    }

    /// Books the time of the nodes that have changed, up to now.
    pub(super) fn settle_accounts(&mut self) {
        let Some(mut accounts) = self.accounts.take() else {
            return;
        };
        for id in std::mem::take(&mut accounts.changed) {
            let node = &self.nodes[id];
            let uses = match node.gone {
                true => Vec::new(),
                false => self.uses(node),
            };
            let now = Standing {
                since: self.now,
                uses,
            };
            let Some(before) = accounts.standing.insert(id, now) else {
                continue;
            };
            let span = self.now.since(before.since).millis();
            for (device_use, parts) in before.uses {
                let sum = accounts.sums.entry((node.pool, device_use)).or_default();
                sum.time += parts * span;
            }
        }
        self.accounts = Some(accounts);
    }

    /// Parts of the node's devices by what they are used for.
    fn uses(&self, node: &Node) -> Vec<(DeviceUse, u64)> {
        let mut uses: BTreeMap<DeviceUse, u64> = BTreeMap::new();
        for unit in 0..node.units.len() {
            *uses.entry(self.use_of(node, unit)).or_default() += share(node, unit);
        }
        uses.into_iter().collect()
    }

    fn use_of(&self, node: &Node, unit: usize) -> DeviceUse {
        let team = node.held[unit]
            .and_then(|pod| self.pods.get(&pod))
            .and_then(|pod| self.works.get(&pod.work))
            .map(|work| work.team.clone());
        match team {
            Some(team) => DeviceUse::Allocated(team),
            None if node.cordoned || !node.ready || node.lost >> unit & 1 == 1 => {
                DeviceUse::OutOfService
            }
            None => DeviceUse::Unallocated,
        }
    }

    /// Samples what each device that somebody has does now, for the `span` milliseconds before.
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
                    .filter(|unit| node.held[*unit].is_some());
                let held: Vec<usize> = held.collect();
                let oldest = held.iter().filter_map(|unit| {
                    let pod = self.pods.get(&node.held[*unit]?)?;
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

/// How much of its device a unit is, in [`PARTS`].
fn share(node: &Node, unit: usize) -> u64 {
    let own = node.units[unit].gpu;
    let units = node.units.iter().filter(|unit| unit.gpu == own).count() as u64;
    PARTS / units.max(1)
}
