//! Tests of documents: reading, rejecting and writing.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::snapshot::{QueueingStrategy, Status, Within};

fn sample() -> Value {
    json!({
        "version": 1,
        "revision": 7,
        "at": "2026-11-21T06:40:00Z",
        "nodes": [
            { "name": "b", "pool": "p", "ready": true, "rack": "r1", "labels": {"k": "v"},
              "taints": [{"key": "gpu", "value": "", "effect": "NoSchedule"}],
              "allocatable": {"cpu_milli": 64000, "memory_bytes": 1024, "devices": {"nvidia.com/gpu": 2}},
              "devices": [
                { "index": 0, "class": "h100", "resource": "nvidia.com/gpu", "health": "ok",
                  "holder": {"namespace": "ml", "pod": "one-0", "attribution": "claim"} },
                { "index": 1, "class": "h100", "resource": "nvidia.com/gpu", "health": "fault", "slices": [] }] },
            { "name": "a", "allocatable": {"devices": {"nvidia.com/gpu": 3}}, "class": "h100" }
        ],
        "prices": [{"pool": "p", "class": "h100", "usd_per_device_hour": 2.5}],
        "flavors": [{"name": "h100", "node_labels": {"k": "v"}}, {"name": "tpu"}],
        "queues": [
            {"name": "top", "admits": false, "quota": [{"flavor": "h100", "nominal": 4}]},
            {"name": "nlp", "parent": "top", "weight": 2, "strategy": "strict", "system": "kueue",
             "preemption": {"within": "lower-priority", "reclaim": "any", "borrow": "never"},
             "quota": [{"flavor": "h100", "nominal": 1.5, "borrow_limit": 2, "lend_limit": "500m"},
                       {"flavor": "h100", "resource": "memory", "nominal": "64Gi"}]}
        ],
        "jobs": [
            {"namespace": "ml", "name": "one", "kind": "Job", "state": "running", "priority": null,
             "created": "2026-11-20T06:40:00Z", "pods": ["one-0"]},
            {"namespace": "ml", "name": "two", "kind": "JobSet", "queue": "nlp", "state": "waiting",
             "gang": {"size": 4, "min": 2}, "devices_requested": 32, "class": "h100",
             "created": "2026-11-20T06:40:00Z"},
            {"namespace": "ml", "name": "old", "kind": "Job", "state": "done", "created": "2026-11-20T06:40:00Z"}
        ],
        "pods": [
            {"namespace": "ml", "name": "one-0", "job_kind": "Job", "job": "one", "node": "b", "phase": "Running",
             "priority": 3, "requests": {"cpu_milli": 1000, "memory_bytes": 10, "devices": {"nvidia.com/gpu": 1}},
             "node_selector": {}, "created": "2026-11-20T06:40:00Z"}
        ],
        "workloads": [
            {"namespace": "ml", "name": "three", "kind": "TrainJob", "queue": "nlp", "priority": 5,
             "pod_sets": [{"count": 8, "min": 4, "requests": {"devices": {"nvidia.com/gpu": 8}},
                           "affinity": [[{"key": "k", "operator": "In", "values": ["v"]}]],
                           "tolerations": [{"key": "gpu", "operator": "Exists"}],
                           "topology": {"level": "rack"}}],
             "runtime_estimate_seconds": "2h", "flavors": ["h100", {"flavor": "tpu", "speed": 1.3}]}
        ],
        "engine": {"backfill": 4, "fair_sharing": true}
    })
}

#[test]
fn a_document_is_read_in_one_order_with_what_it_leaves_out_unknown() {
    let snapshot = from_value(&sample(), "fleet.json").expect("is right");
    let names: Vec<&str> = snapshot.nodes.iter().map(|node| &*node.name).collect();
    assert_eq!(names, ["a", "b"]);
    let [a, b] = &snapshot.nodes[..] else {
        panic!("two nodes");
    };
    assert_eq!((a.devices.len(), a.cpu_milli), (3, crate::snapshot::PLENTY));
    assert_eq!(b.topology.len(), 1);
    assert_eq!(b.devices[0].price, Some(2_500_000));
    let [nlp, top] = &snapshot.queues[..] else {
        panic!("two queues");
    };
    assert!(!top.admits && nlp.order == QueueingStrategy::Strict);
    assert_eq!(nlp.preemption.within, Within::LowerPriority);
    assert_eq!(
        (nlp.quotas[0].nominal, nlp.quotas[0].lend),
        (1_500, Some(500))
    );
    assert_eq!(nlp.quotas[1].nominal, 64 << 30);
    let names: Vec<&str> = snapshot
        .workloads
        .iter()
        .map(|it| &*it.key.key.name)
        .collect();
    assert_eq!(names, ["one", "three", "two"]);
    let [one, three, two] = &snapshot.workloads[..] else {
        panic!("three workloads");
    };
    assert_eq!((one.status, one.priority), (Status::Running, 3));
    assert_eq!(one.sets[0].placements[0].devices[0].device, 0);
    assert_eq!((two.sets[0].count, two.sets[0].min), (4, 2));
    assert_eq!(two.sets[0].requests.devices[0].count, 8);
    assert_eq!(three.estimate_ms, Some(7_200_000));
    assert_eq!(three.flavors[1].speed_milli, 1_300);
}

#[test]
fn what_is_written_is_read_back() {
    let snapshot = from_value(&sample(), "fleet.json").expect("is right");
    let again = from_value(&value(&snapshot), "again").expect("was written by us");
    assert_eq!(snapshot, again);
}

#[test]
fn the_order_of_lists_does_not_matter() {
    let mut turned = sample();
    for key in ["nodes", "queues", "jobs", "workloads"] {
        if let Some(Value::Array(items)) = turned.get_mut(key) {
            items.reverse();
        }
    }
    assert_eq!(from_value(&sample(), "x"), from_value(&turned, "x"));
}

#[test]
fn a_mistake_is_named_with_its_place() {
    for (text, expected) in [
        ("{", "f:1: is not JSON"),
        ("[]", "f: is a list, must be an object"),
        ("{}", "f: lacks `version`"),
        (
            r#"{"version": 2}"#,
            "f: the document's version is 2; this program reads version 1",
        ),
        (
            r#"{"version": 1, "nodes": {}}"#,
            "f: nodes: is an object, must be a list",
        ),
        (
            r#"{"version": 1, "nodes": [{}]}"#,
            "f: nodes[0]: lacks `name`",
        ),
        (
            r#"{"version": 1, "nodes": [{"name": "a", "devices": [{"index": -1}]}]}"#,
            "f: nodes[0].devices[0].index: is -1, must be a whole number from 0 to 65535",
        ),
        (
            r#"{"version": 1, "nodes": [{"name": "a"}, {"name": "a"}]}"#,
            "f: nodes[1]: another node has this name",
        ),
        (
            r#"{"version": 1, "nodes": [{"name": "a", "devices": [{"health": "okay"}]}]}"#,
            "f: nodes[0].devices[0].health: unknown health `okay`; valid: ok, warn, fault, unknown",
        ),
        (
            r#"{"version": 1, "queues": [{"name": "a", "parent": "b"}]}"#,
            "f: queues[0]: its parent `b` is not in the list; add it, with `admits: false` for a cohort",
        ),
        (
            r#"{"version": 1, "queues": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]}"#,
            "f: queues[0]: it is its own ancestor",
        ),
        (
            r#"{"version": 1, "queues": [{"name": "a", "quota": [{"flavor": "f", "nominal": "lots"}]}]}"#,
            "f: queues[0].quota[0].nominal: `lots` is not a quantity; write 8, 500m or 64Gi",
        ),
        (
            r#"{"version": 1, "flavors": [{"name": "f"}, {"name": "f"}]}"#,
            "f: flavors[1]: another flavor has the name `f`",
        ),
        (
            r#"{"version": 1, "flavors": [{"name": "h100"}], "queues": [{"name": "a", "quota": [{"flavor": "h10", "nominal": 1}]}]}"#,
            "f: queues[0].quota[0].flavor: there is no flavor `h10`; did you mean `h100`?",
        ),
        (
            r#"{"version": 1, "queues": [{"name": "a", "quota": [{"flavor": "f", "nominal": 1}]}]}"#,
            "f: queues[0].quota[0].flavor: there is no flavor `f`: the document lists no flavors",
        ),
        (
            r#"{"version": 1, "flavors": [{"name": "f"}], "workloads": [{"name": "a", "flavors": ["g"]}]}"#,
            "f: workloads[0].flavors[0]: there is no flavor `g`",
        ),
        (
            r#"{"version": 1, "flavors": [{"name": "f"}], "workloads": [{"name": "a", "pod_sets": [{"admitted": {"cpu": "ff"}}]}]}"#,
            "f: workloads[0].pod_sets[0].admitted.cpu: there is no flavor `ff`; did you mean `f`?",
        ),
        (
            r#"{"version": 1, "nodes": [{"name": "node-1"}], "workloads": [{"name": "a", "placements": [{"node": "node-2"}]}]}"#,
            "f: workloads[0].placements[0].node: there is no node `node-2`; did you mean `node-1`?",
        ),
        (
            r#"{"version": 1, "nodes": [{"name": "n"}], "workloads": [
                {"name": "a", "namespace": "t", "placements": [{"node": "n", "pod": "a-0", "devices": [1, 2]}]},
                {"name": "b", "namespace": "t", "placements": [{"node": "n", "pod": "b-0", "devices": [2]}]}]}"#,
            "f: workloads[1].placements[0].devices[0]: device 2 of node n is allocated to t/a-0 already",
        ),
        (
            r#"{"version": 1, "workloads": [{"name": "a", "count": 2, "min": 3}]}"#,
            "f: workloads[0]: its minimum of 3 pods is above its count of 2",
        ),
        (
            r#"{"version": 1, "workloads": [{"name": "a", "created": "yesterday"}]}"#,
            "f: workloads[0].created: `yesterday` is not a time; write 2026-11-21T06:40:00Z",
        ),
        (
            r#"{"version": 1, "workloads": [{"name": "a", "stat": 1, "state": "wating"}]}"#,
            "f: workloads[0].state: unknown state `wating`; did you mean `waiting`?",
        ),
    ] {
        let fault = read(text, "f").expect_err(text).to_string();
        assert!(fault.starts_with(expected), "{text}\n{fault}\n{expected}");
    }
}

/// A shared device has as many holders as its parts allow, and an ended workload holds nothing.
#[test]
fn parts_of_a_device_add_up_and_what_is_over_holds_nothing() {
    let placed = |name: &str, milli: i64, state: &str| {
        json!({ "name": name, "state": state, "milli": milli,
                "placements": [{ "node": "n", "pod": name, "devices": [0] }] })
    };
    let fleet =
        |works: Vec<Value>| json!({ "version": 1, "nodes": [{ "name": "n" }], "workloads": works });
    let fits = fleet(vec![
        placed("a", 600, "running"),
        placed("b", 400, "running"),
        placed("c", 1000, "done"),
    ]);
    assert!(from_value(&fits, "f").is_ok());
    let more = fleet(vec![
        placed("a", 600, "running"),
        placed("b", 401, "running"),
    ]);
    assert!(from_value(&more, "f").is_err());
}

/// The depth limit of a chain of queues applies whichever end comes first in the list.
#[test]
fn the_depth_of_queues_is_limited_in_any_order() {
    let chain = |length: usize, turned: bool| {
        let queue = |at: usize| match at {
            0 => json!({ "name": "q0" }),
            at => json!({ "name": format!("q{at}"), "parent": format!("q{}", at - 1) }),
        };
        let mut queues: Vec<Value> = (0..length).map(queue).collect();
        if turned {
            queues.reverse();
        }
        from_value(&json!({ "version": 1, "queues": queues }), "f")
    };
    for turned in [false, true] {
        assert!(chain(limits::QUEUE_DEPTH + 1, turned).is_ok(), "{turned}");
        for length in [limits::QUEUE_DEPTH + 2, 20_000] {
            let fault = chain(length, turned).expect_err("is too deep").to_string();
            assert!(fault.contains("it has more than 32 ancestors"), "{fault}");
        }
    }
}

/// Arbitrary JSON, of the kinds that hostile documents contain.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|number| json!(number)),
        any::<f64>().prop_map(|number| json!(number)),
        Just(json!(u64::MAX)),
        "[a-z/0-9.:é\u{1b}-]{0,8}".prop_map(Value::String),
        Just(json!("9999999999999999999Ei")),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map("[a-z_]{1,6}", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Every path in a document.
fn places(value: &Value, way: &mut Vec<String>, out: &mut Vec<String>) {
    out.push(format!("/{}", way.join("/")));
    let mut below = |step: String, inner: &Value| {
        way.push(step);
        places(inner, way, out);
        way.pop();
    };
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                below(key.replace('~', "~0").replace('/', "~1"), inner);
            }
        }
        Value::Array(items) => {
            for (at, inner) in items.iter().enumerate() {
                below(at.to_string(), inner);
            }
        }
        _ => {}
    }
}

/// Rejected with a clear message, or stable when read, written and read again.
fn check(document: &Value) {
    match from_value(document, "f") {
        Ok(snapshot) => {
            let again = from_value(&super::value(&snapshot), "again");
            assert_eq!(Ok(snapshot), again, "{document}");
        }
        Err(fault) => assert!(!fault.to_string().chars().any(char::is_control)),
    }
}

#[test]
fn nothing_in_any_one_place_panics_or_is_lost() {
    let mut all = Vec::new();
    places(&sample(), &mut Vec::new(), &mut all);
    for place in all.iter().skip(1) {
        for value in [json!(""), json!([""]), json!(0), json!({ "": "" })] {
            let mut document = sample();
            *document.pointer_mut(place).expect("a place") = value;
            check(&document);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn no_shape_of_document_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 1..4)) {
        let mut document = sample();
        for (at, value) in changes {
            let mut all = Vec::new();
            places(&document, &mut Vec::new(), &mut all);
            let place = at.get(&all);
            let place = if place == "/" { "" } else { place };
            if let Some(slot) = document.pointer_mut(place) {
                *slot = value;
            }
        }
        check(&document);
    }
}
