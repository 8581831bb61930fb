//! Larger and smaller pools: which pending work starts on more nodes of a pool, and which idle nodes can go without anybody starting
//! later. Nodes of one slice (a TPU slice of several hosts) come and go together.

use std::collections::{BTreeMap, BTreeSet};

use model::base::{Name, natural};
use model::fleet::job::JobKey;
use model::fleet::node::Billing;
use model::plan::JobName;

use super::compiled::CompiledFleet;
use super::cycle::{self, Options};
use super::explain::{AS_TOLD, job};
use super::forecast::Start;
use super::snapshot::{Health, Node, Snapshot, Status, Workload};
use super::state::State;
use super::what_if;

/// Most nodes that are added to a pool to see who starts on them.
const MOST: usize = 64;

/// So often all starts are forecast to find what can go: on a large fleet each takes its time. Pools that are left then have no advice.
const MOST_FORECASTS: usize = 24;

/// The level of the topology whose nodes come and go together.
const SLICE: &str = "slice";

/// A pool with more nodes, on which work starts that waits now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Growth {
    /// Pool.
    pub pool: Name,
    /// Nodes more: the fewest on which these start.
    pub nodes: u32,
    /// Devices of these nodes.
    pub devices: u32,
    /// Class of their devices.
    pub class: Name,
    /// Who starts at once and does not without them.
    pub starts: Vec<JobName>,
    /// What they cost an hour, micro-USD; unknown where a price is.
    pub rate: Option<i64>,
}

/// Idle nodes of a pool without which nobody starts later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shrink {
    /// Pool.
    pub pool: Name,
    /// The nodes.
    pub nodes: Vec<Name>,
    /// Their devices.
    pub devices: u32,
    /// Class of their devices.
    pub class: Name,
    /// What they cost an hour, micro-USD; unknown where a price is.
    pub rate: Option<i64>,
    /// What of that is no longer paid without them: reserved and owned nodes are paid all the same.
    pub saves: Option<i64>,
}

/// Who starts at once in a fleet, and on which nodes. With `sparing` nobody is preempted for it.
fn starters(snapshot: Snapshot, sparing: bool) -> (BTreeSet<JobKey>, BTreeSet<Name>) {
    let compiled = CompiledFleet::new(snapshot);
    let mut state = State::new(&compiled);
    let (seated, _) = cycle::place(&mut state, &[]);
    let options = Options {
        spare_all: sparing,
        ..AS_TOLD
    };
    let cycle = cycle::cycle(&mut state, options);
    let admitted = cycle.admitted.iter().map(|one| one.work);
    let started = seated.iter().map(|(work, _)| *work).chain(admitted);
    let started = started
        .map(|work| compiled.workload(work).key.clone())
        .collect();
    let held = state.device_use().into_keys().map(|(node, _)| {
        let origin = state.room(node).origin;
        compiled.snapshot.nodes[origin].name.clone()
    });
    (started, held.collect())
}

/// The slice that a node is a part of, where it is.
fn slice(node: &Node) -> Option<&Name> {
    let mut levels = node.topology.iter();
    levels
        .find(|(level, _)| &**level == SLICE)
        .map(|(_, value)| value)
}

/// The nodes that come together with a node: those of its slice, or itself.
fn unit<'s>(snapshot: &'s Snapshot, node: &'s Node) -> Vec<&'s Node> {
    match slice(node) {
        Some(own) => {
            let same = |other: &&Node| other.pool == node.pool && slice(other) == Some(own);
            snapshot.nodes.iter().filter(same).collect()
        }
        None => vec![node],
    }
}

fn devices(nodes: &[&Node]) -> u32 {
    let count: usize = nodes.iter().map(|node| node.devices.len()).sum();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// What nodes cost an hour, micro-USD; unknown where a price is.
fn rate(nodes: &[&Node]) -> Option<i64> {
    let all = nodes.iter().flat_map(|node| &node.devices);
    all.map(|device| device.price).sum()
}

fn class(nodes: &[&Node]) -> Name {
    let first = nodes.iter().find_map(|node| node.devices.first());
    first.map_or_else(Name::default, |device| device.class.clone())
}

fn pools(snapshot: &Snapshot) -> BTreeSet<&Name> {
    snapshot.nodes.iter().map(|node| &node.pool).collect()
}

/// A node as new ones of its pool will be: it works.
fn template<'s>(snapshot: &'s Snapshot, pool: &Name) -> Option<&'s Node> {
    let sound =
        |node: &Node| node.is_open() && node.devices.iter().all(|one| one.health != Health::Fault);
    let mut nodes = snapshot.nodes.iter();
    nodes.find(|node| {
        node.pool == *pool
            && !node.devices.is_empty()
            && unit(snapshot, node).iter().all(|one| sound(one))
    })
}

/// The same fleet with so many copies of a unit more; they are named after its nodes, with a `~` before.
fn with_more(snapshot: &Snapshot, unit: &[&Node], count: usize) -> Snapshot {
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

/// True for work that waits: for its quota, or for nodes.
fn waits(work: &Workload) -> bool {
    let unplaced = work.sets.iter().all(|set| set.placements.is_empty());
    match work.status {
        Status::Waiting => work.device_count() > 0,
        Status::Running => unplaced && work.device_count() > 0,
        Status::Held | Status::Ending => false,
    }
}

/// Each pool in which more nodes let work start that waits now, by pool. The snapshot must be settled. Nothing where not all of the
/// fleet may be seen.
pub fn growth(snapshot: &Snapshot) -> Vec<Growth> {
    if !snapshot.not_visible.is_empty() || !snapshot.workloads.iter().any(waits) {
        return Vec::new();
    }
    let (mut now, _) = starters(snapshot.clone(), true);
    now.extend(starters(snapshot.clone(), false).0);
    let pending: Vec<&Workload> = snapshot
        .workloads
        .iter()
        .filter(|work| waits(work) && !now.contains(&work.key))
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
            .flat_map(|set| set.ask.devices.iter().map(|ask| (set.count, ask)))
            .filter(|(_, ask)| resources.contains(&ask.resource))
            .map(|(count, ask)| u64::from(count) * u64::from(ask.count))
            .sum();
        if asked == 0 {
            continue;
        }
        let most = (MOST / unit.len()).max(1);
        // Pods of a gang may take a node each.
        let count = usize::try_from(asked).map_or(most, |asked| asked.min(most));
        let (started, held) = starters(with_more(snapshot, &unit, count), true);
        let new = |started: &BTreeSet<JobKey>| -> BTreeSet<JobKey> {
            started.difference(&now).cloned().collect()
        };
        let starts = new(&started);
        if starts.is_empty() {
            continue;
        }
        // The fewest on which the same start, by halves: no more than are held now.
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
            rate: rate(&unit).map(|rate| rate.saturating_mul(units as i64)),
        });
    }
    all
}

/// Idle nodes of each pool without which nobody starts later and nobody else is preempted, by pool: those of all pools together. `least`
/// is how many nodes a pool must keep; the devices of `spared` are out of use. The snapshot must be settled. Nothing where not all of
/// the fleet may be seen.
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
        let own: Vec<&Node> = snapshot
            .nodes
            .iter()
            .filter(|node| node.pool == *pool)
            .collect();
        let mut units: Vec<Vec<&Node>> = Vec::new();
        let mut seen: BTreeSet<&Name> = BTreeSet::new();
        for node in &own {
            if seen.contains(&node.name) {
                continue;
            }
            let unit = unit(snapshot, node);
            seen.extend(unit.iter().map(|node| &node.name));
            let idle = |node: &&Node| {
                let sound = !spared.contains(&node.name)
                    && node.devices.iter().all(|one| one.health != Health::Fault);
                node.is_open() && sound && !node.devices.is_empty() && !busy.contains(&node.name)
            };
            if unit.iter().all(idle) {
                units.push(unit);
            }
        }
        // The last by name go first.
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
            let mut harmless = |count: usize| {
                forecasts += 1;
                if forecasts > MOST_FORECASTS {
                    return false;
                }
                let without = gone.union(&names(count)).cloned().collect();
                !now.is_worse(&Outlook::of(lacking(snapshot, &without)))
            };
            if !harmless(high) {
                // Fewer, by halves; what is found was tried.
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
        let mut nodes: Vec<&Node> = units[..high].iter().flatten().copied().collect();
        nodes.sort_by(|a, b| natural(&a.name, &b.name));
        gone.extend(names(high));
        all.push(Shrink {
            pool: pool.clone(),
            devices: devices(&nodes),
            class: class(&nodes),
            rate: rate(&nodes),
            saves: {
                let committed = |node: &&&Node| node.billing.is_some_and(Billing::is_committed);
                let paid = nodes.iter().filter(|node| !committed(node));
                rate(&paid.copied().collect::<Vec<_>>())
            },
            nodes: nodes.into_iter().map(|node| node.name.clone()).collect(),
        });
    }
    all
}

/// The fleet without these nodes, on which nothing runs.
fn lacking(snapshot: &Snapshot, gone: &BTreeSet<Name>) -> Snapshot {
    let mut then = snapshot.clone();
    then.nodes.retain(|node| !gone.contains(&node.name));
    then.residents.retain(|pod| !gone.contains(&pod.node));
    then.settle();
    then
}

/// When those start that wait, and who is preempted for it at once.
struct Outlook {
    starts: BTreeMap<JobKey, Start>,
    preempted: BTreeSet<JobName>,
}

impl Outlook {
    fn of(snapshot: Snapshot) -> Self {
        let (starts, preempted) = what_if::starts(snapshot);
        Self { starts, preempted }
    }

    /// True when somebody starts later in the other, or is preempted there alone.
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
        self.starts.iter().any(later) || !then.preempted.is_subset(&self.preempted)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::document;
    use crate::sample::Recipe;

    fn node(name: &str, pool: &str, more: Value) -> Value {
        let devices: Vec<Value> = (0..8)
            .map(|at| json!({ "index": at, "class": "h100", "resource": "nvidia.com/gpu", "usd_per_device_hour": 2.0 }))
            .collect();
        let mut node = json!({
            "name": name, "pool": pool, "devices": devices, "labels": { "pool": pool },
            "allocatable": { "cpu_milli": 96_000, "memory_bytes": 1_i64 << 40 },
        });
        if let (Value::Object(node), Value::Object(more)) = (&mut node, more) {
            node.extend(more);
        }
        node
    }

    fn work(name: &str, pods: u32, gpus: u32, nodes: &[&str], pool: &str) -> Value {
        let placements: Vec<Value> = nodes.iter().map(|node| json!({ "node": node })).collect();
        json!({
            "namespace": "ml", "name": name, "kind": "Job", "created": "2026-11-21T05:00:00Z",
            "state": if nodes.is_empty() { "waiting" } else { "running" }, "runtime_estimate_seconds": 7_200,
            "pod_sets": [{
                "count": pods, "min": pods, "placements": placements, "node_selector": { "pool": pool },
                "requests": { "cpu_milli": 1_000, "memory_bytes": 1 << 30, "devices": { "nvidia.com/gpu": gpus } },
            }],
        })
    }

    fn fleet(nodes: &[Value], workloads: &[Value]) -> Snapshot {
        let document = json!({ "version": 1, "at": "2026-11-21T06:00:00Z", "nodes": nodes, "workloads": workloads });
        document::from_value(&document, "test").expect("a document")
    }

    fn shrunk(snapshot: &Snapshot, least: &BTreeMap<Name, u32>) -> Vec<Shrink> {
        shrink(snapshot, least, &BTreeSet::new())
    }

    #[test]
    fn the_fewest_nodes_on_which_gangs_start_and_what_they_cost() {
        let nodes = [node("a", "h100", json!({})), node("b", "cold", json!({}))];
        let snapshot = fleet(
            &nodes,
            &[
                work("runs", 1, 8, &["a"], "h100"),
                work("gang", 3, 8, &[], "h100"),
                work("small", 1, 4, &[], "h100"),
                work("elsewhere", 1, 8, &[], "none"),
            ],
        );
        let found = growth(&snapshot);
        let [one] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!((&*one.pool, one.nodes, one.devices), ("h100", 4, 32));
        let starts: Vec<String> = one.starts.iter().map(ToString::to_string).collect();
        assert_eq!(starts, ["ml/gang", "ml/small"]);
        assert_eq!(one.rate, Some(32 * 2_000_000));
        // With them they start.
        let (node, unit) = (&snapshot.nodes[0], 4);
        let (started, _) = starters(with_more(&snapshot, &[node], unit), true);
        assert_eq!(started.len(), 2);
        // Who starts anyway needs nothing.
        let free = fleet(&nodes, &[work("gang", 1, 8, &[], "h100")]);
        assert!(growth(&free).is_empty());
    }

    #[test]
    fn a_slice_comes_and_goes_whole() {
        let of =
            |name: &str, slice: &str| node(name, "tpu", json!({ "topology": [["slice", slice]] }));
        let nodes = [of("a", "s1"), of("b", "s1"), of("c", "s2"), of("d", "s2")];
        let mut gang = work("gang", 2, 8, &[], "tpu");
        gang["pod_sets"][0]["topology"] = json!({ "level": "slice", "required": true });
        let full = fleet(
            &nodes,
            &[
                work("x", 2, 8, &["a", "b"], "tpu"),
                work("y", 1, 8, &["c"], "tpu"),
                gang.clone(),
            ],
        );
        let found = growth(&full);
        assert_eq!((found[0].nodes, found[0].devices), (2, 16), "{found:?}");
        assert!(
            shrunk(&full, &BTreeMap::new()).is_empty(),
            "half of s2 is in use"
        );
        let idle = fleet(&nodes, &[work("x", 1, 8, &["a"], "tpu")]);
        let found = shrunk(&idle, &BTreeMap::new());
        let names: Vec<&str> = found[0].nodes.iter().map(Name::as_str).collect();
        assert_eq!(names, ["c", "d"]);
        let keeps = BTreeMap::from([(Name::new("tpu"), 3)]);
        assert!(
            shrunk(&idle, &keeps).is_empty(),
            "its bound is in the slice"
        );
    }

    #[test]
    fn idle_nodes_go_unless_somebody_would_start_later() {
        let nodes = [
            node("a", "h100", json!({})),
            node("b", "h100", json!({})),
            node("c", "h100", json!({})),
            node("d", "h100", json!({ "unschedulable": true })),
        ];
        let none = BTreeMap::new();
        let idle = fleet(&nodes, &[work("x", 1, 8, &["a"], "h100")]);
        let found = shrunk(&idle, &none);
        let names: Vec<&str> = found[0].nodes.iter().map(Name::as_str).collect();
        assert_eq!(names, ["b", "c"], "d is cordoned: somebody works on it");
        assert_eq!(found[0].rate, Some(16 * 2_000_000));
        // One that is about to start needs one of them.
        let waits = fleet(
            &nodes,
            &[
                work("x", 1, 8, &["a"], "h100"),
                work("y", 1, 8, &[], "h100"),
            ],
        );
        assert_eq!(shrunk(&waits, &none)[0].nodes.len(), 1);
        let both = fleet(
            &nodes,
            &[
                work("x", 1, 8, &["a"], "h100"),
                work("y", 2, 8, &[], "h100"),
            ],
        );
        assert!(shrunk(&both, &none).is_empty());
        let keeps = BTreeMap::from([(Name::new("h100"), 3)]);
        assert_eq!(shrunk(&idle, &keeps)[0].nodes.len(), 1);
    }

    #[test]
    fn devices_that_are_out_of_use_are_not_idle_and_committed_nodes_save_nothing() {
        let mut broken = node("c", "h100", json!({}));
        broken["devices"][3]["health"] = json!("fault");
        let nodes = [
            node("a", "h100", json!({ "billing": "reserved" })),
            node("b", "h100", json!({})),
            broken,
            node("d", "h100", json!({})),
        ];
        let idle = fleet(&nodes, &[]);
        let spared = BTreeSet::from([Name::new("d")]);
        let found = shrink(&idle, &BTreeMap::new(), &spared);
        let names: Vec<&str> = found[0].nodes.iter().map(Name::as_str).collect();
        assert_eq!(names, ["a", "b"], "c has a fault, d offers nothing");
        assert_eq!(found[0].rate, Some(16 * 2_000_000));
        assert_eq!(
            found[0].saves,
            Some(8 * 2_000_000),
            "a is paid all the same"
        );
    }

    /// On generated fleets of many shapes: without the advised nodes nobody starts later than with them, by `what-if` on the fleet.
    #[test]
    fn on_generated_fleets_no_advised_removal_delays_a_forecast_start() {
        let (mut advised, mut kept) = (0, 0);
        for seed in 0..500_u64 {
            let recipe = Recipe {
                nodes: 4 + (seed % 5) as usize * 2,
                waiting: (seed % 7) as usize,
                full: [0, 30, 60, 85][(seed % 4) as usize],
                queues: 3,
                preempts: seed % 2 == 0,
                fair: seed % 3 == 0,
                widest: 32,
                seed,
            };
            let snapshot = recipe.snapshot();
            let found = shrunk(&snapshot, &BTreeMap::new());
            let gone: BTreeSet<Name> = found.iter().flat_map(|one| one.nodes.clone()).collect();
            if gone.is_empty() {
                kept += 1;
                continue;
            }
            advised += 1;
            let changes: Vec<what_if::Suppose> = gone
                .iter()
                .map(|name| what_if::Suppose::Lost {
                    what: what_if::LostPart::Node,
                    name: name.to_string(),
                })
                .collect();
            let outcome = what_if::what_if(&snapshot, &changes).expect("they are there");
            for shift in &outcome.jobs {
                let harmless = matches!(
                    shift.effect,
                    what_if::Effect::Starts
                        | what_if::Effect::Earlier
                        | what_if::Effect::Known
                        | what_if::Effect::Kept
                );
                assert!(harmless, "seed {seed}: {shift:?} without {gone:?}");
            }
        }
        assert!(advised > 100 && kept > 20, "{advised} {kept}");
    }
}
