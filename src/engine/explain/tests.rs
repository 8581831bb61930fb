//! Tests of every reason and every kind of change, on small fleets.

use serde_json::{Value, json};

use super::*;
use crate::fixture::{compiled, id, node, reserving, work};

fn on(name: &str) -> Value {
    json!({ "state": "running", "placements": [{ "node": name }] })
}

fn ask(document: Value, name: &str) -> Explanation {
    let compiled = compiled(document);
    Explainer::new(&compiled).explain(id(&compiled, name))
}

fn codes(answer: &Explanation) -> Vec<&'static str> {
    answer.reasons.iter().map(Reason::code).collect()
}

/// The changes, cheapest first, as sentences.
fn helps(answer: &Explanation) -> Vec<String> {
    let all = answer.unblock.iter().chain(&answer.alternatives);
    assert!(all.clone().all(|unblock| unblock.proven));
    all.map(|unblock| unblock.sentence.clone()).collect()
}

fn quota(nominal: u32) -> Value {
    json!([{ "name": "q", "quota": [{ "flavor": "f", "nominal": nominal }] }])
}

#[test]
fn a_quota_in_use_names_its_numbers_and_the_least_that_is_missing() {
    let mut runs = on("a");
    runs["queue"] = json!("q");
    let answer = ask(
        json!({
            "nodes": [node("a", 8, "r", "b")], "flavors": [{ "name": "f" }], "queues": quota(5),
            "workloads": [work("runs", 1, 3, runs), work("waits", 1, 4, json!({ "queue": "q" }))],
        }),
        "waits",
    );
    assert_eq!(answer.state, StartState::Waiting);
    assert_eq!(
        answer.reasons,
        [Reason::Quota {
            queue: "q".into(),
            flavor: "f".into(),
            resource: "devices".into(),
            asked: 4_000,
            free: 2_000,
            used: 3_000,
            nominal: 5_000,
            borrowed: 0,
        }]
    );
    assert_eq!(helps(&answer), ["raise q's quota by 2 devices of f"]);
    assert_eq!((answer.position, answer.ahead), (Some(1), Some(0)));
}

#[test]
fn those_before_it_take_their_share_of_a_larger_quota() {
    let document = json!({
        "nodes": [node("a", 8, "r", "b"), node("b", 8, "r", "b")], "flavors": [{ "name": "f" }], "queues": quota(2),
        "workloads": [
            work("first", 1, 6, json!({ "queue": "q", "created": "2026-11-21T05:00:00Z" })),
            work("second", 1, 3, json!({ "queue": "q" })),
        ],
    });
    let answer = ask(document.clone(), "second");
    assert_eq!(codes(&answer), ["over-most"]);
    // With 3 the second starts, and the first, which needs 6, does not.
    assert_eq!(helps(&answer), ["raise q's quota by 1 device of f"]);
    assert_eq!(
        answer.ahead_first,
        [job(&compiled(document).workload(0).key)]
    );
}

#[test]
fn room_is_fragmented_or_in_use_or_absent() {
    let fleet = |pods: u32, gpus: u32, free: u32| {
        json!({
            "nodes": [node("a", 8, "r", "b"), node("b", 8, "r", "b")],
            "workloads": [
                work("x", 1, 8 - free, on("a")), work("y", 1, 8 - free, on("b")),
                work("waits", pods, gpus, json!({})),
            ],
        })
    };
    let fragmented = ask(fleet(1, 6, 4), "waits");
    assert_eq!(codes(&fragmented), ["fragmented"]);
    assert_eq!(helps(&fragmented), ["add 1 node like a (a)"]);
    let busy = ask(fleet(1, 6, 2), "waits");
    assert_eq!(codes(&busy), ["no-room"]);
    let absent = ask(fleet(5, 8, 8 - 1), "waits");
    assert_eq!(codes(&absent), ["absent"]);
    assert_eq!(helps(&absent), ["add 5 nodes like a (a)"]);
    // The autoscaler decides whether such a node is added.
    let mut full = fleet(1, 6, 4);
    for at in 0..2 {
        full["nodes"][at]["no_more"] = "NodePool a: at its limit on nvidia.com/gpu".into();
    }
    assert_eq!(
        helps(&ask(full, "waits")),
        ["add 1 node like a (a; NodePool a: at its limit on nvidia.com/gpu)"]
    );
}

/// If pods cannot use free devices, the reason says why.
#[test]
fn free_devices_say_why_they_are_of_no_use() {
    let with = |cores: i64, memory: i64| {
        let requests = json!({
            "cpu_milli": cores * 1_000, "memory_bytes": memory << 30, "devices": { "nvidia.com/gpu": 4 },
        });
        let fleet = json!({
            "nodes": [node("a", 8, "r", "b"), node("b", 8, "r", "b")],
            "workloads": [
                work("x", 1, 4, json!({
                    "state": "running", "placements": [{ "node": "a" }],
                    "requests": { "cpu_milli": 60_000, "memory_bytes": 600_i64 << 30, "devices": { "nvidia.com/gpu": 4 } },
                })),
                work("y", 1, 5, on("b")),
                work("waits", 3, 4, json!({ "requests": requests })),
            ],
        });
        ask(fleet, "waits").reasons[0].sentence()
    };
    let needs = "needs 12 devices, 7 free on eligible nodes";
    assert_eq!(with(1, 1), format!("{needs}: room for 1 of 3 pods"));
    let short = |of: &str| format!("{needs}, on nodes short of {of}: room for 0 of 3 pods");
    assert_eq!(with(40, 1), short("CPU"));
    assert_eq!(with(1, 200), short("memory"));
    let apart = json!({
        "nodes": [node("a", 8, "r", "b"), node("b", 8, "r", "b")],
        "workloads": [
            work("x", 1, 4, on("a")), work("y", 1, 4, on("b")), work("waits", 2, 8, json!({})),
        ],
    });
    assert_eq!(
        ask(apart, "waits").reasons[0].sentence(),
        "needs 16 devices, 8 free on eligible nodes, fragmented: room for 0 of 2 pods"
    );
}

#[test]
fn taints_labels_and_cordons_say_how_much_room_they_keep() {
    let with = |key: &str, value: Value| {
        let mut node = node("b", 8, "r", "b");
        node[key] = value;
        node
    };
    let fleet = |other: Value, more: Value| {
        json!({
            "nodes": [node("a", 2, "r", "b"), other],
            "workloads": [work("waits", 2, 4, more)],
        })
    };
    let taint = json!([{ "key": "team", "value": "vision", "effect": "NoSchedule" }]);
    let tainted = ask(fleet(with("taints", taint), json!({})), "waits");
    assert_eq!(codes(&tainted), ["too-large", "taints"]);
    assert_eq!(
        tainted.reasons[1].sentence(),
        "1 node has room for 2 pods, but also taints that it does not tolerate: team"
    );
    assert_eq!(helps(&tainted)[0], "tolerate team=vision:NoSchedule");
    let closed = ask(
        fleet(with("unschedulable", json!(true)), json!({})),
        "waits",
    );
    assert_eq!(codes(&closed), ["absent", "closed"]);
    let selector = json!({ "node_selector": { "class": "h200" } });
    let labels = ask(fleet(node("b", 8, "r", "b"), selector), "waits");
    assert_eq!(codes(&labels), ["absent", "labels"]);
    assert_eq!(helps(&labels), ["remove node selector class"]);
}

#[test]
fn a_required_domain_can_be_let_go() {
    let answer = ask(
        json!({
            "nodes": [node("a", 8, "r0", "b"), node("b", 8, "r1", "b")],
            "workloads": [work("waits", 2, 8, json!({ "topology": { "level": "rack", "required": true } }))],
        }),
        "waits",
    );
    assert_eq!(
        answer.reasons,
        [Reason::Topology {
            level: "rack".into(),
            asked: 2,
            best: 1
        }]
    );
    assert_eq!(
        helps(&answer),
        [
            "prefer one rack instead of requiring it",
            "add 1 node like a (a)"
        ]
    );
}

#[test]
fn another_flavor_is_named_where_its_queue_has_one() {
    let mut other = node("b", 8, "r", "b");
    other["labels"]["class"] = json!("a100");
    let answer = ask(
        json!({
            "nodes": [node("a", 2, "r", "b"), other],
            "flavors": [{ "name": "a100", "node_labels": { "class": "a100" } }, { "name": "h100", "node_labels": { "class": "h100" } }],
            "queues": [{ "name": "q", "quota": [{ "flavor": "h100", "nominal": 8 }, { "flavor": "a100", "nominal": 8 }] }],
            "workloads": [work("waits", 1, 8, json!({ "queue": "q", "flavors": [{ "flavor": "h100" }] }))],
        }),
        "waits",
    );
    assert_eq!(codes(&answer), ["too-large"]);
    assert_eq!(
        answer.reasons[0].sentence(),
        "a pod needs 8 nvidia.com/gpu, and no eligible node has more than 2"
    );
    assert_eq!(helps(&answer), ["request flavor a100"]);
}

#[test]
fn a_pod_larger_than_any_node_gives_that_reason() {
    let mut waits = work("waits", 1, 1, json!({}));
    waits["requests"]["memory_bytes"] = json!(4_i64 << 40);
    let fleet =
        json!({ "nodes": [node("a", 8, "r", "b"), node("b", 8, "r", "b")], "workloads": [waits] });
    let answer = ask(fleet, "waits");
    assert_eq!(codes(&answer), ["too-large"], "{}", answer.reason);
    assert_eq!(
        helps(&answer),
        ["request 768.0 GiB of memory per pod instead of 4096.0 GiB"]
    );
}

/// With a quota of 16 devices and one node of 8, a low-priority job holds half; one of higher priority waits.
fn pressed(system: &str, topology: Value) -> Explanation {
    let mut runs = on("a");
    runs["queue"] = json!("q");
    let quota = json!([
        { "flavor": "f", "nominal": 16 }, { "flavor": "f", "resource": "cpu", "nominal": 1_000_000 },
        { "flavor": "f", "resource": "memory", "nominal": 1_i64 << 50 },
    ]);
    ask(
        json!({
            "nodes": [node("a", 8, "r", "b")], "flavors": [{ "name": "f", "topology": topology }],
            "topologies": [{ "name": "t", "levels": ["rack"] }],
            "queues": [{ "name": "q", "system": system, "quota": quota, "preemption": { "within": "lower-priority" } }],
            "workloads": [work("runs", 1, 8, runs), work("waits", 1, 8, json!({ "queue": "q", "priority": 5 }))],
        }),
        "waits",
    )
}

#[test]
fn kueue_does_not_preempt_for_missing_nodes() {
    let answer = pressed("kueue", Value::Null);
    assert_eq!(
        codes(&answer),
        ["no-room", "gets-quota"],
        "{}",
        answer.reason
    );
    assert!(answer.victims.is_empty());
    // An operator may requeue jobs behind it, before machines are bought.
    assert_eq!(
        helps(&answer),
        [
            "preempt ml/runs (8 devices, 5.3 device-hours of work lost)",
            "add 1 node like a (a)"
        ]
    );
    assert_eq!(pressed("kai", Value::Null).state, StartState::Ready);
    // With a topology Kueue considers nodes.
    assert_eq!(pressed("kueue", json!("t")).state, StartState::Ready);
}

/// Reclaiming yields quota; released nodes go first to workloads that are already admitted and wait for nodes.
#[test]
fn freed_capacity_goes_to_admitted_workloads() {
    let quota = |nominal: u32| {
        json!([
            { "flavor": "f", "nominal": nominal }, { "flavor": "f", "resource": "cpu", "nominal": 1_000_000 },
            { "flavor": "f", "resource": "memory", "nominal": 1_i64 << 50 },
        ])
    };
    let asked = |quota_reserved: Option<i32>| {
        let mut borrows = on("a");
        borrows["queue"] = json!("r");
        let mut works = vec![
            work("borrows", 1, 8, borrows),
            work("waits", 1, 8, json!({ "queue": "q", "priority": 5 })),
        ];
        works.extend(quota_reserved.map(|priority| {
            let more = json!({ "queue": "s", "state": "running", "priority": priority });
            work("reserved", 1, 8, more)
        }));
        ask(
            json!({
                "nodes": [node("a", 8, "r", "b")], "flavors": [{ "name": "f" }],
                "queues": [
                    { "name": "c", "admits": false, "system": "kueue" },
                    { "name": "q", "parent": "c", "system": "kueue", "quota": quota(8), "preemption": { "reclaim": "any" } },
                    { "name": "r", "parent": "c", "system": "kueue", "quota": quota(0) },
                    { "name": "s", "system": "kueue", "quota": quota(8) },
                ],
                "workloads": works,
            }),
            "waits",
        )
    };
    assert_eq!(asked(None).state, StartState::Ready);
    assert_eq!(
        asked(Some(1)).state,
        StartState::Ready,
        "it goes before that"
    );
    let answer = asked(Some(5));
    assert_eq!(answer.state, StartState::Waiting);
    assert!(
        helps(&answer)[0].starts_with("add 1 node"),
        "{:?}: {}",
        helps(&answer),
        answer.reason
    );
}

#[test]
fn a_strict_queue_and_a_reservation_name_whom_they_are_for() {
    let late = |more: Value| {
        let mut all = json!({ "queue": "q", "created": "2026-11-21T06:30:00Z" });
        all.as_object_mut()
            .expect("a map")
            .extend(more.as_object().expect("a map").clone());
        all
    };
    let mut runs = on("a");
    runs["runtime_estimate_seconds"] = json!(3_600);
    runs["admitted_at"] = json!("2026-11-21T06:00:00Z");
    let fleet = |strategy: &str| {
        json!({
            "nodes": [node("a", 8, "r", "b"), node("b", 8, "r", "b")], "flavors": [{ "name": "f" }],
            "queues": [{ "name": "q", "strategy": strategy, "quota": [{ "flavor": "f", "nominal": 64 }] }],
            "workloads": [
                work("runs", 1, 8, runs.clone()),
                work("head", 2, 8, json!({ "queue": "q" })),
                work("waits", 1, 8, late(json!({}))),
            ],
        })
    };
    let behind = ask(fleet("strict"), "waits");
    assert_eq!(codes(&behind), ["behind"]);
    assert_eq!(
        behind.reasons[0].sentence(),
        "its queue is strict FIFO, and ml/head is ahead of it"
    );
    assert_eq!(helps(&behind)[0], "priority 1 instead of 0");
    let reserved = ask(fleet("best-effort"), "waits");
    assert_eq!(codes(&reserved), ["reserved"]);
    assert_eq!(helps(&reserved)[0], "priority 1 instead of 0");
    let head = ask(fleet("best-effort"), "head");
    // Twenty minutes away: nothing need be done.
    assert_eq!(
        head.reserved_at.map(Moment::rfc3339),
        Some("2026-11-21T07:00:00Z".to_owned())
    );
    assert_eq!(helps(&head)[0], "wait until 2026-11-21T07:00:00Z");
}

/// A node with the taint `spot=yes:NoSchedule`.
fn spot(name: &str) -> Value {
    let mut node = node(name, 8, "r", "b");
    node["taints"] = json!([{ "key": "spot", "value": "yes", "effect": "NoSchedule" }]);
    node
}

/// A job on node `a` that ends at 07:00.
fn ends_at_seven() -> Value {
    let mut runs = on("a");
    runs["runtime_estimate_seconds"] = json!(3_600);
    runs["admitted_at"] = json!("2026-11-21T06:00:00Z");
    work("runs", 1, 8, runs)
}

const TOLERATE: &str = "tolerate spot=yes:NoSchedule";

/// On a tainted node it would delay no reservation.
#[test]
fn a_toleration_is_offered_where_a_reservation_blocks() {
    let later = json!({ "created": "2026-11-21T06:30:00Z" });
    let document = reserving(json!({
        "nodes": [node("a", 8, "r", "b"), node("b", 8, "r", "b"), spot("c")],
        "workloads": [ends_at_seven(), work("head", 2, 8, json!({})), work("waits", 1, 8, later)],
    }));
    let answer = ask(document, "waits");
    assert_eq!(codes(&answer), ["reserved"]);
    assert_eq!(helps(&answer)[0], TOLERATE);
}

/// Of two jobs that differ in duration alone, the short one can end before a reservation starts.
#[test]
fn what_helps_beside_a_reservation_depends_on_the_duration() {
    for (short, long) in [(10, 20), (20, 10)] {
        let created = |minute: u32| json!(format!("2026-11-21T06:{minute}:00Z"));
        let document = reserving(json!({
            "nodes": [node("a", 8, "r", "b"), spot("c")],
            "workloads": [
                ends_at_seven(),
                work("head", 2, 8, json!({ "tolerations": [{ "key": "spot", "value": "yes" }] })),
                work("short", 1, 8, json!({ "created": created(short), "runtime_estimate_seconds": 60 })),
                work("long", 1, 8, json!({ "created": created(long) })),
            ],
        }));
        let offers = |name: &str| {
            let answer = ask(document.clone(), name);
            helps(&answer).iter().any(|sentence| sentence == TOLERATE)
        };
        assert!(offers("short"));
        assert!(!offers("long"));
    }
}

/// The uncordoned node is too small for the job, but takes the one ahead of it.
#[test]
fn a_cordoned_node_that_takes_the_job_ahead_is_offered() {
    let mut small = node("small", 2, "r", "b");
    small["unschedulable"] = json!(true);
    let document = json!({
        "nodes": [small, node("large", 3, "r", "b")],
        "workloads": [work("ahead", 1, 1, json!({ "priority": 1 })), work("waits", 1, 3, json!({}))],
    });
    let answer = ask(document, "waits");
    assert_eq!(
        helps(&answer),
        [
            "priority 2 instead of 0",
            "uncordon small",
            "add 1 node like large (large)"
        ]
    );
}

#[test]
fn a_job_that_no_change_unblocks_gives_that_reason() {
    let fleet = |queue: Value, more: Value| {
        json!({
            "nodes": [node("a", 8, "r", "b")], "flavors": [{ "name": "f" }], "queues": [queue],
            "workloads": [work("waits", 1, 1, more)],
        })
    };
    let own = || json!([{ "flavor": "f", "nominal": 8 }]);
    let one = |queue: Value, more: Value, code: &str| {
        let answer = ask(fleet(queue, more), "waits");
        assert_eq!(codes(&answer), [code]);
        assert_eq!(answer.unblock, None);
        assert!(answer.alternatives.is_empty());
        assert!(!answer.reason.is_empty());
    };
    let q = json!({ "queue": "q" });
    // A stopped queue is resumed; nothing else helps.
    let stopped = json!({ "name": "q", "quota": own(), "stopped": "hold" });
    let answer = ask(fleet(stopped, q.clone()), "waits");
    assert_eq!(codes(&answer), ["stopped"]);
    assert_eq!(helps(&answer), ["resume queue q"]);
    one(
        json!({ "name": "q", "quota": own(), "admits": false }),
        q.clone(),
        "cohort",
    );
    one(
        json!({ "name": "other", "quota": own() }),
        q.clone(),
        "no-queue",
    );
    let cpu = json!([{ "flavor": "f", "resource": "cpu", "nominal": 8 }]);
    one(
        json!({ "name": "q", "system": "kueue", "quota": cpu }),
        q,
        "not-covered",
    );
    // The running workload was admitted without a flavor for cpu and memory: Kueue's configuration excludes them.
    let mut passed_over = fleet(
        json!({ "name": "q", "system": "kueue", "quota": [{ "flavor": "f", "nominal": 1 }] }),
        json!({ "queue": "q" }),
    );
    let runs = json!({
        "queue": "q", "state": "running", "admitted": { "nvidia.com/gpu": "f" }, "placements": [{ "node": "a" }],
    });
    passed_over["workloads"]
        .as_array_mut()
        .expect("a list")
        .push(work("runs", 1, 1, runs));
    assert_eq!(codes(&ask(passed_over, "waits")), ["quota"]);
    let held = json!({ "queue": "q", "state": "suspended" });
    one(json!({ "name": "q", "quota": own() }), held, "held");
}

#[test]
fn quota_and_nodes_together_where_neither_alone_does() {
    let answer = ask(
        json!({
            "nodes": [node("a", 8, "r", "b")], "flavors": [{ "name": "f" }], "queues": quota(4),
            "workloads": [work("waits", 3, 8, json!({ "queue": "q" }))],
        }),
        "waits",
    );
    assert_eq!(codes(&answer), ["over-most", "absent"]);
    assert_eq!(
        helps(&answer),
        ["raise q's quota by 20 devices of f and add 2 nodes like a (a)"]
    );
}

#[test]
fn flavors_that_do_not_suit_say_what_of_them() {
    let fleet = |flavor: Value, more: Value| {
        json!({
            "nodes": [node("a", 8, "r", "b")], "flavors": [flavor, { "name": "g" }], "queues": quota(8),
            "workloads": [work("waits", 1, 1, more)],
        })
    };
    let taint = json!([{ "key": "spot", "value": "true", "effect": "NoSchedule" }]);
    let tainted = ask(
        fleet(
            json!({ "name": "f", "node_taints": taint }),
            json!({ "queue": "q" }),
        ),
        "waits",
    );
    assert_eq!(codes(&tainted), ["flavor-taint"]);
    assert_eq!(helps(&tainted), ["tolerate spot=true:NoSchedule"]);
    let labelled = ask(
        fleet(
            json!({ "name": "f", "node_labels": { "class": "h100" } }),
            json!({ "queue": "q", "node_selector": { "class": "a100" } }),
        ),
        "waits",
    );
    assert_eq!(codes(&labelled), ["flavor-labels"]);
    let none = ask(
        fleet(
            json!({ "name": "f" }),
            json!({ "queue": "q", "flavors": [{ "flavor": "g" }] }),
        ),
        "waits",
    );
    assert_eq!(codes(&none), ["no-flavor"]);
    assert_eq!(helps(&none), ["request flavor f"]);
    // It cannot request a flavor of another resource.
    let mut two = fleet(
        json!({ "name": "f" }),
        json!({ "queue": "q", "flavors": [{ "flavor": "tpu" }] }),
    );
    let flavors = two["flavors"].as_array_mut().expect("flavors");
    flavors.push(json!({ "name": "tpu" }));
    let quota = two["queues"][0]["quota"].as_array_mut().expect("quota");
    quota.push(json!({ "flavor": "tpu", "resource": "google.com/tpu", "nominal": 8 }));
    let denied = ask(two, "waits");
    assert_eq!(codes(&denied), ["no-flavor"]);
    let reason = "queue q has quota only for f";
    assert_eq!(denied.reason, reason);
}

#[test]
fn the_effect_lists_jobs_that_start_and_jobs_that_run() {
    let document = json!({
        "nodes": [node("a", 8, "r", "b")],
        "workloads": [work("runs", 1, 4, on("a")), work("ready", 1, 4, json!({}))],
    });
    assert_eq!(ask(document.clone(), "runs").state, StartState::Running);
    let ready = ask(document, "ready");
    assert_eq!(ready.state, StartState::Ready);
    let json = serde_json::to_value(&ready).expect("serializes");
    assert_eq!(
        (&json["job"], &json["state"]),
        (&json!("ml/ready"), &json!("ready"))
    );
    assert_eq!(json["reserved_at"], Value::Null);
}

/// Nodes beyond those that its pods fill are for other jobs, however many pods one node takes.
#[test]
fn nodes_that_other_jobs_take_are_counted_by_what_its_pods_fill() {
    let with = |pods: u32, gpus: u32| {
        let mut runs = on("a");
        runs["queue"] = json!("q");
        let ahead = json!({ "queue": "q", "created": "2026-11-21T05:00:00Z" });
        let answer = ask(
            json!({
                "nodes": [node("a", 8, "r", "b")], "flavors": [{ "name": "f" }],
                "queues": [{ "name": "q", "strategy": "strict", "quota": [{ "flavor": "f", "nominal": 64 }] }],
                "workloads": [
                    work("runs", 1, 8, runs), work("ahead", 2, 8, ahead),
                    work("waits", pods, gpus, json!({ "queue": "q" })),
                ],
            }),
            "waits",
        );
        let mut all = answer.unblock.iter().chain(&answer.alternatives);
        let nodes = all.find(|it| matches!(it.changes[..], [UnblockChange::Nodes { .. }]));
        let nodes = nodes.expect("nodes help");
        (
            nodes.sentence.clone(),
            nodes.for_others(u64::from(pods * gpus)),
        )
    };
    let others = Some("2 of them for jobs ahead of it".to_owned());
    assert_eq!(
        with(8, 1),
        ("add 3 nodes like a (a)".to_owned(), others.clone())
    );
    assert_eq!(with(3, 5), ("add 5 nodes like a (a)".to_owned(), others));
}

/// If nodes are not visible, nothing is concluded about them: neither that capacity is free nor that it is not.
#[test]
fn no_claim_is_made_about_nodes_that_cannot_be_listed() {
    for (devices, hidden) in [(8, json!(["nodes"])), (1, json!(["nodes", "queues"]))] {
        let document = |hidden: &Value| {
            json!({
                "nodes": [node("a", devices, "r", "b")], "not_visible": hidden,
                "workloads": [work("waits", 1, 4, json!({ "queue": "q" }))],
            })
        };
        let seen = ask(document(&json!([])), "waits");
        assert!(!seen.reasons.iter().any(Reason::is_blind));
        let answer = ask(document(&hidden), "waits");
        assert_eq!(codes(&answer), ["not-visible"]);
        assert_eq!(answer.state, StartState::Waiting);
        assert_eq!(
            (answer.unblock, answer.position, answer.ahead),
            (None, None, None)
        );
        assert!(answer.alternatives.is_empty() && answer.reserved_at.is_none());
        assert!(
            answer.reason.ends_with("not visible to you"),
            "{}",
            answer.reason
        );
        let compiled = compiled(document(&hidden));
        let state = crate::state::State::new(&compiled);
        assert!(crate::forecast::forecast(&state).is_empty());
        let asked = crate::explanations::what_if(&compiled.snapshot, &["nodes a +1"]);
        assert!(asked.expect_err("no claim").contains("not visible"));
    }
}

/// Nodes that are too few when they are empty are too few whatever runs on them in namespaces that are not visible.
#[test]
fn what_the_nodes_alone_tell_is_told_though_other_namespaces_are_not_visible() {
    let document = |pods: u32, hidden: &str| {
        json!({
            "nodes": [node("a", 8, "r", "b")], "not_visible": [hidden],
            "workloads": [work("waits", pods, 8, json!({}))],
        })
    };
    let told = ask(document(2, "other namespaces"), "waits");
    let [Reason::Absent(_), Reason::NotVisible { .. }] = &told.reasons[..] else {
        panic!("{:?}", told.reasons);
    };
    assert!(told.unblock.is_none() && told.alternatives.is_empty());
    for (pods, hidden) in [(1, "other namespaces"), (2, "nodes")] {
        let answer = ask(document(pods, hidden), "waits");
        assert_eq!(codes(&answer), ["not-visible"], "{pods} {hidden}");
    }
}

#[test]
fn amounts_read_as_people_write_them() {
    assert_eq!(amount("devices", 8_000), "8");
    assert_eq!(amount("nvidia.com/gpu", 2_500), "2.5");
    assert_eq!(amount("cpu", -500), "-0.5");
    assert_eq!(amount("memory", 3 << 29), "1.5 GiB");
}

/// Two nodes are full of jobs of priority 1; a job of another priority waits in their Kueue queue.
fn two_run(priority: i32, within: &str) -> Value {
    let runs = |name: &str, on: &str, since: &str| {
        work(
            name,
            1,
            8,
            json!({
                "queue": "q", "state": "running", "priority": 1, "admitted_at": since,
                "placements": [{ "node": on }], "admission": { "system": "kueue", "name": format!("wl-{name}") },
            }),
        )
    };
    let quota = json!([
        { "flavor": "f", "nominal": 16 }, { "flavor": "f", "resource": "cpu", "nominal": 1_000_000 },
        { "flavor": "f", "resource": "memory", "nominal": 1_i64 << 50 },
    ]);
    json!({
        "nodes": [node("a", 8, "r", "b"), node("b", 8, "r", "b")], "flavors": [{ "name": "f" }],
        "queues": [{ "name": "q", "system": "kueue", "quota": quota, "preemption": { "within": within } }],
        "workloads": [
            runs("old", "a", "2026-11-20T06:40:00Z"), runs("new", "b", "2026-11-21T05:40:00Z"),
            work("waits", 1, 8, json!({ "queue": "q", "priority": priority })),
        ],
    })
}

/// A workload that starts by preemption is ready, and both explanation and forecast name the victims.
#[test]
fn who_is_evicted_when_it_starts_is_named() {
    let compiled = compiled(two_run(9, "lower-priority"));
    let waits = id(&compiled, "waits");
    let answer = Explainer::new(&compiled).explain(waits);
    assert_eq!(answer.state, StartState::Ready);
    let new = json!([{
        "job": "ml/new", "devices": 8, "quota_devices": 0, "reason": "in-queue", "lost_device_seconds": 28_800,
    }]);
    assert_eq!(serde_json::to_value(&answer.victims).expect("JSON"), new);
    let start = crate::forecast::forecast_one(&State::new(&compiled), waits).expect("waits");
    assert_eq!(start.p50, Some(compiled.snapshot.at));
    assert_eq!(start.victims, answer.victims);
}

/// A higher priority alone lets it preempt another; that costs more than quota, and less than a machine.
#[test]
fn a_priority_that_preempts_is_offered_with_its_victims() {
    let answer = ask(two_run(1, "lower-priority"), "waits");
    assert_eq!(answer.state, StartState::Waiting);
    let unblock = answer.unblock.as_ref().expect("something helps");
    assert_eq!(
        unblock.changes,
        [UnblockChange::Priority { from: 1, to: 2 }]
    );
    assert_eq!(
        unblock.sentence,
        "priority 2 instead of 1, preempting ml/new (8 devices, 8.0 device-hours of work lost)"
    );
    assert_eq!(unblock.victims.len(), 1);
    // If the queue never preempts, no priority helps.
    let never = ask(two_run(1, "never"), "waits");
    let priority =
        |unblock: &Unblock| matches!(unblock.changes[..], [UnblockChange::Priority { .. }]);
    assert!(
        !never
            .unblock
            .iter()
            .chain(&never.alternatives)
            .any(priority)
    );
}

#[test]
fn a_queue_that_is_stopped_is_resumed() {
    let mut document = json!({
        "nodes": [node("a", 8, "r", "b")], "flavors": [{ "name": "f" }], "queues": quota(8),
        "workloads": [work("waits", 1, 8, json!({ "queue": "q" }))],
    });
    document["queues"][0]["stopped"] = json!("hold");
    let answer = ask(document.clone(), "waits");
    assert_eq!(codes(&answer)[0], "stopped");
    assert_eq!(helps(&answer), ["resume queue q"]);
    let change = &answer.unblock.as_ref().expect("one").changes[0];
    let command = change.command(&answer.job);
    assert_eq!(command.as_deref(), Some("plan resume queue/q"));
    // An operator cannot resume a queue that its own system reports inactive.
    document["queues"][0]["stopped"] = json!("inactive");
    assert_eq!(ask(document.clone(), "waits").unblock, None);
    // If that is not enough, the other necessary changes are named too.
    document["queues"][0]["stopped"] = json!("hold");
    document["queues"][0]["quota"][0]["nominal"] = json!(6);
    let answer = ask(document, "waits");
    let both = ["resume queue q and raise q's quota by 2 devices of f"];
    assert_eq!(helps(&answer), both);
}

#[test]
fn cordoned_nodes_are_opened_before_more_are_bought() {
    let cordoned = |name: &str, gpus: u32, ready: bool| {
        let mut node = node(name, gpus, "r", "b");
        node["unschedulable"] = json!(true);
        node["ready"] = json!(ready);
        node
    };
    let answer = ask(
        json!({
            "nodes": [cordoned("a", 8, true), cordoned("b", 8, true), cordoned("c", 8, false), cordoned("d", 2, true)],
            "workloads": [work("waits", 1, 8, json!({}))],
        }),
        "waits",
    );
    let helps = helps(&answer);
    assert_eq!(helps[0], "uncordon a", "{helps:?}");
    assert!(helps[1].starts_with("add 1 node"), "{helps:?}");
}
