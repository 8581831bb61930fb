//! Tests of pool sizing, on hand-written and generated fleets.

use serde_json::{Value, json};

use model::base::{Moment, Rate};
use model::cost::Money;

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

fn usd(micros: i64) -> Option<Money> {
    Some(Money::known(Rate::from_micros(micros)))
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
    let found = growth(&snapshot, &|_| true);
    let [one] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!((&*one.pool, one.nodes, one.devices), ("h100", 4, 32));
    let starts: Vec<String> = one.starts.iter().map(ToString::to_string).collect();
    assert_eq!(starts, ["ml/gang", "ml/small"]);
    assert_eq!(one.rate, usd(32 * 2_000_000));
    // No nodes are bought for a job that has just arrived.
    let old = |key: &JobKey| key.key.name.as_str() != "gang";
    let found = growth(&snapshot, &old);
    assert_eq!(found[0].starts.len(), 1, "{found:?}");
    assert_eq!(found[0].nodes, 1, "{found:?}");
    // With the nodes they start.
    let (node, unit) = (&snapshot.nodes[0], 4);
    let (started, _) = starters(with_more(&snapshot, &[node], unit), true);
    assert_eq!(started.len(), 2);
    // A job that starts anyway needs nothing.
    let free = fleet(&nodes, &[work("gang", 1, 8, &[], "h100")]);
    assert!(growth(&free, &|_| true).is_empty());
}

#[test]
fn a_slice_comes_and_goes_whole() {
    let of = |name: &str, slice: &str| node(name, "tpu", json!({ "topology": [["slice", slice]] }));
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
    let found = growth(&full, &|_| true);
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
fn idle_nodes_are_removed_unless_a_job_would_start_later() {
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
    assert_eq!(found[0].rate, usd(16 * 2_000_000));
    // A job that is about to start needs one of them.
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
    // Nor do all nodes go of a fleet on which a job is about to start.
    let empty = fleet(&nodes[..3], &[work("y", 1, 8, &[], "h100")]);
    assert_eq!(shrunk(&empty, &none)[0].nodes.len(), 2);
}

/// Nodes on which a job would start once it has quota are not removable.
#[test]
fn nodes_are_kept_for_jobs_that_wait_only_for_quota() {
    let nodes = ["a", "b", "c", "d"].map(|name| node(name, "h100", json!({})));
    let queued = |name: &str, pods: u32, on: &[&str]| {
        let mut work = work(name, pods, 8, on, "h100");
        work["queue"] = json!("ml");
        work
    };
    let with = |workloads: &[Value]| {
        let document = json!({
            "version": 1, "at": "2026-11-21T06:00:00Z", "nodes": nodes, "workloads": workloads,
            "flavors": [{ "name": "h100", "node_labels": { "pool": "h100" } }],
            "queues": [{ "name": "ml", "quota": [{ "flavor": "h100", "nominal": 8 }] }],
        });
        document::from_value(&document, "test").expect("a document")
    };
    let names = |snapshot: &Snapshot| -> Vec<String> {
        let found = shrunk(snapshot, &BTreeMap::new());
        let nodes = found.iter().flat_map(|one| &one.nodes);
        nodes.map(ToString::to_string).collect()
    };
    let runs = queued("runs", 1, &["a"]);
    assert_eq!(names(&with(std::slice::from_ref(&runs))), ["b", "c", "d"]);
    // It requests more than its queue may ever have: its start is unknown, so no forecast is later without the nodes.
    let waits = with(&[runs.clone(), queued("waits", 2, &[])]);
    assert_eq!(names(&waits), ["d"]);
    // Even with quota it does not fit on all nodes.
    let large = with(&[runs, queued("large", 4, &[])]);
    assert_eq!(names(&large), ["b", "c", "d"]);
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
    assert_eq!(found[0].rate, usd(16 * 2_000_000));
    assert_eq!(found[0].saves, usd(8 * 2_000_000), "a is paid all the same");
}

/// The document of a fleet with these nodes deleted, read back.
fn deleted(snapshot: &Snapshot, gone: &BTreeSet<&Name>) -> Snapshot {
    let mut document = document::value(snapshot);
    let stays = |at: &Value| !gone.iter().any(|name| *at == name.as_str());
    for (list, key) in [("nodes", "name"), ("residents", "node")] {
        let Some(Value::Array(items)) = document.get_mut(list) else {
            panic!("no {list}")
        };
        items.retain(|item| stays(&item[key]));
    }
    document::from_value(&document, "test").expect("a document")
}

/// Starts of pending workloads, and the workloads that are preempted now.
type Starts = (BTreeMap<JobKey, Start>, BTreeSet<JobName>);

/// Pending workloads that start later in the other fleet, at one of the percentiles, and workloads that are preempted there only.
fn harmed((was, spared): &Starts, (is, preempted): &Starts) -> Vec<String> {
    let late = |was: Option<Moment>, is: Option<Moment>| {
        was.is_some_and(|was| is.is_none_or(|is| is > was))
    };
    let mut harmed: Vec<String> = Vec::new();
    for (key, was) in was {
        let is = is.get(key);
        let percentile = |of: fn(&Start) -> Option<Moment>| late(of(was), is.and_then(of));
        if percentile(|it| it.p10) || percentile(|it| it.p50) || percentile(|it| it.p90) {
            harmed.push(format!("{}: {was:?}, then {is:?}", job(key)));
        }
    }
    let only_there = preempted.difference(spared);
    harmed.extend(only_there.map(|job| format!("{job} is preempted")));
    harmed
}

/// On generated fleets of many shapes: with one of the advised removals carried out, or with all of them, no start is later, by the
/// forecast of the document without these nodes.
fn no_removal_delays_a_start(fleets: u64) {
    let (mut advised, mut together, mut kept) = (0, 0, 0);
    for seed in 0..fleets {
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
        if found.is_empty() {
            kept += 1;
            continue;
        }
        advised += 1;
        together += usize::from(found.len() > 1);
        let before = what_if::starts(snapshot.clone());
        let all: Vec<&Name> = found.iter().flat_map(|one| &one.nodes).collect();
        let each = found.iter().map(|one| one.nodes.iter().collect());
        for nodes in each.chain([all]) {
            let gone: BTreeSet<&Name> = nodes.into_iter().collect();
            let after = deleted(&snapshot, &gone);
            assert_eq!(after.nodes.len() + gone.len(), snapshot.nodes.len());
            let harmed = harmed(&before, &what_if::starts(after));
            assert!(
                harmed.is_empty(),
                "seed {seed} without {gone:?}: {harmed:#?}"
            );
        }
    }
    let least = |part| fleets as usize / part;
    assert!(
        advised > least(5) && kept > least(25) && together > least(25),
        "{advised} {together} {kept}"
    );
}

#[test]
fn on_generated_fleets_no_advised_removal_delays_a_forecast_start() {
    no_removal_delays_a_start(120);
}

#[test]
#[ignore = "long: tests/long"]
fn on_500_generated_fleets_no_advised_removal_delays_a_forecast_start() {
    no_removal_delays_a_start(500);
}
