//! Pool sizing: which pending workloads start with more nodes in a pool, and which idle nodes can be removed without delaying any
//! workload. Nodes of one slice (a multi-host TPU slice) are added and removed together.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use model::base::{Name, natural};
use model::cost::Money;
use model::fleet::job::JobKey;
use model::fleet::node::Billing;
use model::plan::JobName;

use crate::compiled::CompiledFleet;
use crate::cycle;
use crate::explain::job;
use crate::forecast::Start;
use crate::snapshot::{Snapshot, SnapshotDevice, SnapshotNode, Status, Workload};
use crate::state::State;
use crate::what_if;

/// Maximum number of nodes that are added to a pool in a test.
const MOST: usize = 64;

/// Maximum number of forecasts in a search for removable nodes, since each is slow on a large fleet. Pools not reached get no advice.
const MOST_FORECASTS: usize = 24;

/// The topology level whose nodes are added and removed together.
const SLICE: &str = "slice";

/// A pool in which more nodes let pending workloads start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Growth {
    pub pool: Name,
    /// Additional nodes: the fewest with which these start.
    pub nodes: u32,
    /// Devices of these nodes.
    pub devices: u32,
    /// Class of their devices.
    pub class: Name,
    /// Workloads that start now only with these nodes.
    pub starts: Vec<JobName>,
    /// Their rate; none if a price is unknown.
    pub rate: Option<Money>,
}

/// Idle nodes of a pool whose removal delays no workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shrink {
    pub pool: Name,
    pub nodes: Vec<Name>,
    pub devices: u32,
    /// Class of their devices.
    pub class: Name,
    /// Their rate; none if a price is unknown.
    pub rate: Option<Money>,
    /// The part of the rate that removal saves: reserved and owned nodes are paid anyway.
    pub saves: Option<Money>,
}

/// Workloads that start now in a fleet, and their nodes. With `sparing` without preemption.
fn starters(snapshot: Snapshot, sparing: bool) -> (BTreeSet<JobKey>, BTreeSet<Name>) {
    let compiled = CompiledFleet::new(snapshot);
    let mut state = State::new(&compiled);
    let cycle = match sparing {
        true => cycle::without_evictions(&mut state),
        false => cycle::cycle(&mut state),
    };
    let admitted = cycle.admitted.iter().map(|one| one.work);
    let started = cycle.placed.iter().map(|(work, _)| *work);
    let started = started.chain(admitted);
    let started = started
        .map(|work| compiled.workload(work).key.clone())
        .collect();
    let held = state.device_use().into_keys().map(|(node, _)| {
        let origin = state.node_free(node).origin;
        compiled.snapshot.nodes[origin].name.clone()
    });
    (started, held.collect())
}

fn slice(node: &SnapshotNode) -> Option<&Name> {
    let mut levels = node.topology.iter();
    levels
        .find(|(level, _)| &**level == SLICE)
        .map(|(_, value)| value)
}

/// The nodes that are added together with a node: its slice, or itself.
fn unit<'s>(snapshot: &'s Snapshot, node: &'s SnapshotNode) -> Vec<&'s SnapshotNode> {
    match slice(node) {
        Some(own) => {
            let same = |other: &&SnapshotNode| other.pool == node.pool && slice(other) == Some(own);
            snapshot.nodes.iter().filter(same).collect()
        }
        None => vec![node],
    }
}

fn devices(nodes: &[&SnapshotNode]) -> u32 {
    let count: usize = nodes.iter().map(|node| node.devices.len()).sum();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Rate of nodes; none if a price is unknown.
fn rate(nodes: &[&SnapshotNode]) -> Option<Money> {
    let all = nodes.iter().flat_map(|node| &node.devices);
    all.map(SnapshotDevice::rate).sum()
}

fn class(nodes: &[&SnapshotNode]) -> Name {
    let first = nodes.iter().find_map(|node| node.devices.first());
    first.map_or_else(Name::default, |device| device.class.clone())
}

fn pools(snapshot: &Snapshot) -> BTreeSet<&Name> {
    snapshot.nodes.iter().map(|node| &node.pool).collect()
}

/// A healthy node as the template for new nodes of a pool.
fn template<'s>(snapshot: &'s Snapshot, pool: &Name) -> Option<&'s SnapshotNode> {
    let sound = |node: &SnapshotNode| node.is_open() && !node.has_fault();
    let mut nodes = snapshot.nodes.iter();
    nodes.find(|node| {
        node.pool == *pool
            && !node.devices.is_empty()
            && unit(snapshot, node).iter().all(|one| sound(one))
    })
}

/// The same fleet with additional copies of a unit; they are named after its nodes, with the prefix `~`.
fn with_more(snapshot: &Snapshot, unit: &[&SnapshotNode], count: usize) -> Snapshot {
    let mut then = snapshot.clone();
    for at in 0..count {
        for origin in unit {
            let mut node = (*origin).clone();
            node.name = Name::from(format!("~{}+{at:05}", origin.name));
            node.uid = Name::default();
            for (level, value) in &mut node.topology {
                if &**level == SLICE {
                    *value = Name::from(format!("~{value}+{at:05}"));
                }
            }
            then.nodes.push(node);
        }
    }
    then.settle();
    then
}

/// Whether a workload is pending: for quota, or for nodes.
fn waits(work: &Workload) -> bool {
    let unplaced = work.sets.iter().all(|set| set.placements.is_empty());
    if work.blocked.is_some() {
        return false;
    }
    match work.status {
        Status::Waiting => work.device_count() > 0,
        Status::Running => unplaced && work.device_count() > 0,
        Status::Held | Status::Ending => false,
    }
}

/// Each pool in which more nodes let pending workloads start, by pool; only workloads that `counts` accepts. The snapshot must be
/// settled. Empty if not all of the fleet is visible.
pub fn growth(snapshot: &Snapshot, counts: &dyn Fn(&JobKey) -> bool) -> Vec<Growth> {
    if !snapshot.not_visible.is_empty() || !snapshot.workloads.iter().any(waits) {
        return Vec::new();
    }
    let (mut now, _) = starters(snapshot.clone(), true);
    now.extend(starters(snapshot.clone(), false).0);
    let pending: Vec<&Workload> = snapshot
        .workloads
        .iter()
        .filter(|work| waits(work) && !now.contains(&work.key) && counts(&work.key))
        .collect();
    let mut all = Vec::new();
    for pool in pools(snapshot) {
        let Some(node) = template(snapshot, pool) else {
            continue;
        };
        let unit = unit(snapshot, node);
        let resources: BTreeSet<&Name> = node
            .devices
            .iter()
            .flat_map(|device| {
                let slices = device.slices.iter().map(|slice| &slice.resource);
                slices.chain([&device.resource])
            })
            .collect();
        let asked: u64 = pending
            .iter()
            .flat_map(|work| &work.sets)
            .flat_map(|set| set.requests.devices.iter().map(|ask| (set.count, ask)))
            .filter(|(_, ask)| resources.contains(&ask.resource))
            .map(|(count, ask)| u64::from(count) * u64::from(ask.count))
            .sum();
        if asked == 0 {
            continue;
        }
        let most = (MOST / unit.len()).max(1);
        // Pods of a gang may need a node each.
        let count = usize::try_from(asked).map_or(most, |asked| asked.min(most));
        let (started, held) = starters(with_more(snapshot, &unit, count), true);
        let new = |started: &BTreeSet<JobKey>| -> BTreeSet<JobKey> {
            let new = started.difference(&now);
            new.filter(|job| counts(job)).cloned().collect()
        };
        let starts = new(&started);
        if starts.is_empty() {
            continue;
        }
        // Binary search for the fewest with which the same workloads start: at most the number used now.
        let used = held.iter().filter(|name| name.starts_with('~')).count();
        let suffices = |count: usize| {
            let (started, _) = starters(with_more(snapshot, &unit, count), true);
            new(&started).is_superset(&starts)
        };
        let held = used.div_ceil(unit.len()).clamp(1, count);
        let (mut low, mut high) = match held < count && suffices(held) {
            true => (0, held),
            false => (0, count),
        };
        while low + 1 < high {
            let middle = low.midpoint(high);
            match suffices(middle) {
                true => high = middle,
                false => low = middle,
            }
        }
        let units = high;
        let units_of = |each: u32| each.saturating_mul(u32::try_from(units).unwrap_or(u32::MAX));
        let mut names: Vec<JobName> = starts.iter().map(job).collect();
        names.sort_by(|a, b| natural(&a.to_string(), &b.to_string()));
        all.push(Growth {
            pool: pool.clone(),
            nodes: units_of(u32::try_from(unit.len()).unwrap_or(u32::MAX)),
            devices: units_of(devices(&unit)),
            class: class(&unit),
            starts: names,
            rate: rate(&unit).map(|rate| rate.times(units as u64)),
        });
    }
    all
}

/// The fleet without quota limits: workloads that wait for quota only get it.
fn without_quotas(snapshot: &Snapshot) -> Snapshot {
    const ENOUGH: i64 = 1 << 50;
    let mut then = snapshot.clone();
    for quota in then.queues.iter_mut().flat_map(|queue| &mut queue.quotas) {
        quota.nominal = quota.nominal.max(ENOUGH);
        quota.cap = None;
    }
    then
}

/// Idle nodes of each pool that no job needs, by pool: without those of one pool, and without all of them together, no forecast
/// start is later, no other job is preempted, and each job that waits for quota still fits once it has quota, if it would now.
/// `least` is how many nodes a pool must keep; the devices of `spared` are out of use. The snapshot must be settled. Empty if not
/// all of the fleet is visible.
pub fn shrink(
    snapshot: &Snapshot,
    least: &BTreeMap<Name, u32>,
    spared: &BTreeSet<Name>,
) -> Vec<Shrink> {
    if !snapshot.not_visible.is_empty() {
        return Vec::new();
    }
    let mut busy: BTreeSet<&Name> = BTreeSet::new();
    for set in snapshot.workloads.iter().flat_map(|work| &work.sets) {
        busy.extend(set.placements.iter().map(|placement| &placement.node));
    }
    let stays = snapshot.residents.iter();
    busy.extend(
        stays
            .filter(|pod| !matches!(pod.owner.as_str(), "DaemonSet" | "Node"))
            .map(|pod| &pod.node),
    );
    let anybody = snapshot.workloads.iter().any(waits);
    let mut now: Option<Outlook> = None;
    let mut gone: BTreeSet<Name> = BTreeSet::new();
    let mut all = Vec::new();
    let mut forecasts = 0;
    for pool in pools(snapshot) {
        let own: Vec<&SnapshotNode> = snapshot
            .nodes
            .iter()
            .filter(|node| node.pool == *pool)
            .collect();
        let mut units: Vec<Vec<&SnapshotNode>> = Vec::new();
        let mut seen: BTreeSet<&Name> = BTreeSet::new();
        for node in &own {
            if seen.contains(&node.name) {
                continue;
            }
            let unit = unit(snapshot, node);
            seen.extend(unit.iter().map(|node| &node.name));
            let idle = |node: &&SnapshotNode| {
                let sound = !spared.contains(&node.name) && !node.has_fault();
                node.is_open() && sound && !node.devices.is_empty() && !busy.contains(&node.name)
            };
            if unit.iter().all(idle) {
                units.push(unit);
            }
        }
        // Remove the last by name first.
        units.sort_by(|a, b| natural(&b[0].name, &a[0].name));
        let keeps = least.get(pool).copied().unwrap_or(0) as usize;
        let mut room = own.len().saturating_sub(keeps);
        let fitting = units.iter().take_while(|unit| {
            let fits = unit.len() <= room;
            room = room.saturating_sub(unit.len());
            fits
        });
        let mut high = fitting.count();
        let names = |count: usize| -> BTreeSet<Name> {
            let nodes = units[..count].iter().flatten();
            nodes.map(|node| node.name.clone()).collect()
        };
        if high > 0 && anybody {
            let now = now.get_or_insert_with(|| Outlook::of(snapshot.clone()));
            let mut delays_nothing = |without: &BTreeSet<Name>| {
                // A fleet without any node is forecast by quota alone.
                if without.len() == snapshot.nodes.len() {
                    return false;
                }
                forecasts += 1;
                forecasts <= MOST_FORECASTS
                    && !now.is_worse(&Outlook::of(lacking(snapshot, without)))
            };
            // An operator may carry out this removal alone.
            let mut harmless = |count: usize| {
                let own = names(count);
                let all = gone.union(&own).cloned().collect();
                delays_nothing(&all) && (gone.is_empty() || delays_nothing(&own))
            };
            if !harmless(high) {
                // Binary search for fewer; the result has been tested.
                let mut low = 0;
                while low + 1 < high {
                    let middle = low.midpoint(high);
                    match harmless(middle) {
                        true => low = middle,
                        false => high = middle,
                    }
                }
                high = low;
            }
        }
        if high == 0 {
            continue;
        }
        let mut nodes: Vec<&SnapshotNode> = units[..high].iter().flatten().copied().collect();
        nodes.sort_by(|a, b| natural(&a.name, &b.name));
        gone.extend(names(high));
        all.push(Shrink {
            pool: pool.clone(),
            devices: devices(&nodes),
            class: class(&nodes),
            rate: rate(&nodes),
            saves: {
                let committed =
                    |node: &&&SnapshotNode| node.billing.is_some_and(Billing::is_committed);
                let paid = nodes.iter().filter(|node| !committed(node));
                rate(&paid.copied().collect::<Vec<_>>())
            },
            nodes: nodes.into_iter().map(|node| node.name.clone()).collect(),
        });
    }
    all
}

/// The fleet without these idle nodes.
fn lacking(snapshot: &Snapshot, gone: &BTreeSet<Name>) -> Snapshot {
    let mut then = snapshot.clone();
    then.nodes.retain(|node| !gone.contains(&node.name));
    then.residents.retain(|pod| !gone.contains(&pod.node));
    then.settle();
    then
}

/// Starts of pending workloads, and the workloads that are preempted now.
struct Outlook {
    starts: BTreeMap<JobKey, Start>,
    preempted: BTreeSet<JobName>,
    /// Workloads that would start now without quota limits.
    with_quota: BTreeSet<JobKey>,
}

impl Outlook {
    fn of(snapshot: Snapshot) -> Self {
        let (with_quota, _) = starters(without_quotas(&snapshot), true);
        let (starts, preempted) = what_if::starts(snapshot);
        Self {
            starts,
            preempted,
            with_quota,
        }
    }

    /// Whether in the other outlook some workload starts later, is preempted there only, or no longer fits once it has quota.
    fn is_worse(&self, then: &Self) -> bool {
        let later = |(key, was): (&JobKey, &Start)| {
            let Some(is) = then.starts.get(key) else {
                return true;
            };
            let later = |was: Option<_>, is: Option<_>| match (was, is) {
                (Some(was), Some(is)) => is > was,
                (Some(_), None) => true,
                (None, _) => false,
            };
            later(was.p10, is.p10) || later(was.p50, is.p50) || later(was.p90, is.p90)
        };
        self.starts.iter().any(later)
            || !then.preempted.is_subset(&self.preempted)
            || !then.with_quota.is_superset(&self.with_quota)
    }
}
