//! Tests of which workloads start on small fleets.

use serde_json::{Value, json};

use super::*;
use crate::fixture::{check, compiled, id, node, spots, work};

/// Two blocks of two racks of two nodes of eight GPUs.
fn racks() -> Vec<Value> {
    (0..8)
        .map(|at| {
            let (rack, block) = (at / 2, at / 4);
            node(
                &format!("n{at}"),
                8,
                &format!("r{rack}"),
                &format!("b{block}"),
            )
        })
        .collect()
}

fn on(node: &str, gpus: u32) -> Value {
    json!({ "state": "running", "placements": [{ "pod": "p", "node": node, "devices": (0..gpus).collect::<Vec<u32>>() }] })
}

#[test]
fn a_gang_takes_the_smallest_domain_that_holds_it() {
    let compiled = compiled(json!({
        "nodes": racks(),
        "workloads": [
            work("old", 1, 2, on("n0", 2)),
            work("two", 2, 8, json!({})),
            work("four", 4, 8, json!({})),
            work("six", 6, 8, json!({})),
            work("small", 3, 2, json!({})),
            work("rack", 3, 8, json!({ "topology": { "level": "rack" } })),
            work("block", 3, 8, json!({ "topology": { "level": "block" } })),
            work("near", 3, 8, json!({ "topology": { "level": "rack", "required": false } })),
            work("nowhere", 1, 1, json!({ "topology": { "level": "zone" } })),
        ],
    }));
    let mut state = State::new(&compiled);
    let mut spots = |name: &str| spots(&mut state, name, &Relaxation::default());
    assert_eq!(spots("two"), Ok(vec!["n2".into(), "n3".into()]));
    assert_eq!(spots("four").map(|nodes| nodes[0].clone()), Ok("n4".into()));
    assert_eq!(spots("six").map(|nodes| nodes.len()), Ok(6));
    // One node takes all three.
    assert_eq!(spots("small"), Ok(vec!["n0".into(); 3]));
    let Err(Why::Topology { asked, best, .. }) = spots("rack") else {
        panic!("three nodes are in no rack");
    };
    assert_eq!((asked, best), (3, 2));
    assert_eq!(
        spots("block").map(|nodes| nodes.iter().all(|node| **node < *"n4")),
        Ok(true),
        "the block with seven nodes' room would be split less by it"
    );
    assert_eq!(spots("near"), spots("block"));
    assert!(matches!(
        spots("nowhere"),
        Err(Why::Topology { best: 0, .. })
    ));
    check(&state);
}

#[test]
fn labels_taints_and_closed_nodes_keep_pods_away() {
    let mut nodes = racks();
    nodes[0]["taints"] = json!([{ "key": "team", "value": "x", "effect": "NoSchedule" }]);
    nodes[1]["unschedulable"] = json!(true);
    nodes[2]["devices"][0]["health"] = json!("fault");
    let here = |node: &str| json!({ "kubernetes.io/hostname": node });
    let compiled = compiled(json!({
        "nodes": nodes,
        "workloads": [
            work("tainted", 1, 1, json!({ "node_selector": here("n0") })),
            work("tolerant", 1, 1, json!({ "node_selector": here("n0"),
                "tolerations": [{ "key": "team", "operator": "Equal", "value": "x", "effect": "NoSchedule" }] })),
            work("closed", 1, 1, json!({ "node_selector": here("n1") })),
            work("broken", 1, 8, json!({ "node_selector": here("n2") })),
            work("sound", 1, 7, json!({ "node_selector": here("n2") })),
            work("not", 7, 8, json!({ "affinity":
                [[{ "key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n3"] }]] })),
        ],
    }));
    let mut state = State::new(&compiled);
    let none = Relaxation::default();
    assert!(matches!(
        spots(&mut state, "tainted", &none),
        Err(Why::Nodes { room: 0, .. })
    ));
    let untainted = Relaxation {
        no_taints: true,
        ..Relaxation::default()
    };
    assert!(spots(&mut state, "tainted", &untainted).is_ok());
    assert!(spots(&mut state, "tolerant", &none).is_ok());
    assert!(spots(&mut state, "closed", &none).is_err());
    let mark = state.mark();
    state.set_open(1, true);
    assert!(spots(&mut state, "closed", &none).is_ok());
    state.undo_to(mark);
    assert!(spots(&mut state, "closed", &none).is_err());
    assert!(spots(&mut state, "broken", &none).is_err());
    assert!(spots(&mut state, "sound", &none).is_ok());
    // Without n0, n1, n2 (a device short) and n3.
    assert!(matches!(
        spots(&mut state, "not", &none),
        Err(Why::Nodes {
            asked: 7,
            room: 4,
            ..
        })
    ));
    let mark = state.mark();
    for _ in 0..3 {
        state.add_node(7);
    }
    assert!(spots(&mut state, "not", &none).is_ok());
    state.undo_to(mark);
    assert_eq!(state.nodes(), 8);
    check(&state);
}

#[test]
fn shares_and_slices_are_given_out_by_the_part() {
    let mut mig = node("mig", 2, "r", "b");
    mig["devices"][0]["slices"] = json!([
        { "name": "1", "resource": "nvidia.com/mig-3g" }, { "name": "2", "resource": "nvidia.com/mig-3g" }
    ]);
    let slice = json!({ "requests": { "devices": { "nvidia.com/mig-3g": 1 } } });
    let compiled = compiled(json!({
        "nodes": [mig],
        "workloads": [
            work("slices", 2, 0, slice.clone()),
            work("three", 3, 0, slice),
            work("part", 2, 1, json!({ "milli": 400 })),
            work("parts", 3, 1, json!({ "milli": 400 })),
            work("whole", 1, 1, json!({})),
        ],
    }));
    let mut state = State::new(&compiled);
    let none = Relaxation::default();
    assert!(spots(&mut state, "three", &none).is_err());
    assert!(spots(&mut state, "parts", &none).is_err());
    state
        .start(id(&compiled, "slices"), &none)
        .expect("two slices");
    state
        .start(id(&compiled, "part"), &none)
        .expect("two parts of one device");
    check(&state);
    assert_eq!(state.left(0), [0, 0, 200]);
    assert!(spots(&mut state, "whole", &none).is_err());
    state.evict(id(&compiled, "part"));
    assert!(spots(&mut state, "whole", &none).is_ok());
    check(&state);
}

#[test]
fn an_elastic_gang_starts_with_what_there_is_down_to_its_minimum() {
    let compiled = compiled(json!({
        "nodes": racks(),
        "flavors": [{ "name": "h100" }],
        "queues": [{ "name": "q", "quota": [{ "flavor": "h100", "nominal": 40 }] }],
        "workloads": [
            work("wide", 10, 8, json!({ "min": 2 })),
            work("rigid", 10, 8, json!({})),
            work("queued", 10, 8, json!({ "min": 2, "queue": "q" })),
            work("racked", 10, 8, json!({ "min": 2, "topology": { "level": "rack" } })),
        ],
    }));
    let mut state = State::new(&compiled);
    let none = Relaxation::default();
    assert_eq!(
        spots(&mut state, "wide", &none).map(|nodes| nodes.len()),
        Ok(8)
    );
    assert!(spots(&mut state, "rigid", &none).is_err());
    assert_eq!(
        spots(&mut state, "queued", &none).map(|nodes| nodes.len()),
        Ok(5)
    );
    assert_eq!(
        spots(&mut state, "racked", &none).map(|nodes| nodes.len()),
        Ok(2)
    );
}

#[test]
fn flavors_are_tried_in_order() {
    let document = || {
        json!({
            "flavors": [{ "name": "a", "node_labels": { "class": "a" } }, { "name": "b", "node_labels": { "class": "b" } }],
            "queues": [
                { "name": "all", "admits": false },
                { "name": "mine", "parent": "all",                   "quota": [{ "flavor": "b", "nominal": 1 }, { "flavor": "a", "nominal": 8 }] },
                { "name": "yours", "parent": "all", "quota": [{ "flavor": "b", "nominal": 8 }] },
            ],
            "workloads": [
                work("w", 1, 4, json!({ "queue": "mine" })),
                work("only", 1, 4, json!({ "queue": "mine", "flavors": ["a"] })),
                work("labelled", 1, 4, json!({ "queue": "mine", "node_selector": { "class": "a" } })),
                work("huge", 1, 17, json!({ "queue": "mine" })),
                work("lost", 1, 1, json!({ "queue": "nobody's" })),
            ],
        })
    };
    {
        let compiled = compiled(document());
        let mut state = State::new(&compiled);
        let mut flavor_of = |name: &str| {
            let allocation = state.find(id(&compiled, name), &Relaxation::default());
            allocation.map(|allocation| {
                compiled.snapshot.flavors[allocation.sets[0].flavors[0]]
                    .name
                    .to_string()
            })
        };
        assert_eq!(flavor_of("w"), Ok("b".into()));
        assert_eq!(flavor_of("only"), Ok("a".into()));
        assert_eq!(flavor_of("labelled"), Ok("a".into()));
        assert_eq!(flavor_of("huge").map_err(|misses| misses.len()), Err(2));
        assert_eq!(
            flavor_of("lost").map_err(|misses| misses[0].why.clone()),
            Err(Why::NoQueue)
        );
    }
}

/// A workload of two sets of one pod each.
fn pair(first: Value, second: Value) -> Value {
    let set = |name: &str, more: Value| {
        let mut set =
            json!({ "name": name, "requests": { "devices": { "nvidia.com/gpu": more["gpus"] } } });
        for key in ["node_selector", "topology"] {
            if let Some(value) = more.get(key) {
                set[key] = value.clone();
            }
        }
        set
    };
    json!({ "namespace": "ml", "name": "pair", "kind": "Job", "queue": "q",
            "pod_sets": [set("first", first), set("second", second)] })
}

#[test]
fn a_set_gives_up_its_first_flavor_where_another_needs_that() {
    let mut nodes = [node("a", 4, "r", "b"), node("b", 4, "r", "b")];
    nodes[0]["labels"] = json!({ "class": "a" });
    nodes[1]["labels"] = json!({ "class": "b" });
    let document = |quota: u32| {
        json!({
            "nodes": nodes,
            "flavors": [{ "name": "a", "node_labels": { "class": "a" } }, { "name": "b", "node_labels": { "class": "b" } }],
            "queues": [{ "name": "q", "quota": [{ "flavor": "a", "nominal": 4 }, { "flavor": "b", "nominal": quota }] }],
            "workloads": [pair(json!({ "gpus": 4 }), json!({ "gpus": 2, "node_selector": { "class": "a" } }))],
        })
    };
    let found = |quota: u32| {
        let compiled = compiled(document(quota));
        let mut state = State::new(&compiled);
        let spots = spots(&mut state, "pair", &Relaxation::default());
        check(&state);
        spots
    };
    assert_eq!(found(4), Ok(vec!["b".to_owned(), "a".to_owned()]));
    assert!(found(3).is_err());
}

#[test]
fn a_set_that_must_be_in_one_domain_goes_before_a_larger_one_where_that_helps() {
    let document = json!({
        "nodes": [node("a", 4, "near", "b"), node("b", 2, "near", "b"), node("c", 5, "far", "b")],
        "flavors": [{ "name": "f" }], "queues": [{ "name": "q", "quota": [{ "flavor": "f", "nominal": 11 }] }],
        "workloads": [{
            "namespace": "ml", "name": "pair", "kind": "Job", "queue": "q",
            "pod_sets": [
                { "name": "one", "requests": { "devices": { "nvidia.com/gpu": 3 } } },
                { "name": "near", "count": 3, "requests": { "devices": { "nvidia.com/gpu": 2 } },
                  "topology": { "level": "rack" } },
            ],
        }],
    });
    let compiled = compiled(document);
    let mut state = State::new(&compiled);
    let spots = spots(&mut state, "pair", &Relaxation::default()).expect("it fits");
    assert_eq!(spots[0], "c");
    assert!(spots[1..].iter().all(|spot| spot != "c"), "{spots:?}");
}
