//! Tests of a cycle on small fleets.

use serde_json::{Value, json};

use super::*;
use crate::fixture::{check, compiled, id, name, node, reserving, work};

fn nodes(count: usize) -> Vec<Value> {
    (0..count)
        .map(|at| node(&format!("n{at}"), 8, "r", "b"))
        .collect()
}

fn at(minute: u32) -> String {
    format!("2026-11-21T06:{minute:02}:00Z")
}

fn run(document: Value) -> (Vec<String>, Vec<(String, String)>) {
    let compiled = compiled(document);
    let mut state = State::new(&compiled);
    let cycle = cycle(&mut state);
    check(&state);
    let admitted = cycle.admitted.iter();
    let kept = cycle.reservations.iter();
    (
        admitted
            .map(|it| name(&compiled, it.work).to_owned())
            .collect(),
        kept.map(|it| (name(&compiled, it.work).to_owned(), it.at.rfc3339()))
            .collect(),
    )
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn priority_then_age_and_a_strict_queue_waits_for_its_first() {
    let works = || {
        json!([
            work("young", 1, 8, json!({ "queue": "q", "created": at(5) })),
            work("old", 1, 8, json!({ "queue": "q", "created": at(3) })),
            work(
                "big",
                3,
                8,
                json!({ "queue": "q", "priority": 1, "created": at(9) })
            ),
        ])
    };
    let document = |strategy: &str| {
        json!({
            "nodes": nodes(2), "flavors": [{ "name": "f" }], "workloads": works(),
            "queues": [{ "name": "q", "strategy": strategy, "quota": [{ "flavor": "f", "nominal": 64 }] }],
        })
    };
    assert_eq!(run(document("best-effort")).0, names(&["old", "young"]));
    assert_eq!(run(document("strict")).0, names(&[]));
}

#[test]
fn backfill_does_not_delay_whom_room_is_kept_for() {
    let running = |node: &str, minutes: u32| {
        json!({ "state": "running", "admitted_at": at(30), "runtime_estimate_seconds": minutes * 60,
                "placements": [{ "node": node }] })
    };
    let document = |backfill: Value| {
        reserving(json!({
            "at": at(40), "nodes": nodes(3), "engine": { "backfill": backfill },
            "workloads": [
                work("r0", 1, 8, running("n0", 20)),
                work("r1", 1, 8, running("n1", 60)),
                work("head", 2, 8, json!({ "created": at(1) })),
                work("short", 1, 4, json!({ "created": at(2), "runtime_estimate_seconds": 600 })),
                work("long", 1, 4, json!({ "created": at(3), "runtime_estimate_seconds": 6000 })),
                work("ever", 1, 4, json!({ "created": at(4) })),
            ],
        }))
    };
    let (admitted, kept) = run(document(json!("head")));
    assert_eq!(admitted, names(&["short"]));
    assert_eq!(kept, [("head".to_owned(), at(50))]);
    // Other schedulers reserve nothing, whatever is set.
    for system in ["kueue", "kai", "volcano", "none"] {
        let mut theirs = document(json!("head"));
        theirs["flavors"] = json!([{ "name": "f" }]);
        theirs["queues"][0]["system"] = json!(system);
        theirs["queues"][0]["quota"] = json!([
            { "flavor": "f", "nominal": 64 }, { "flavor": "f", "resource": "cpu", "nominal": 64_000 },
            { "flavor": "f", "resource": "memory", "nominal": 1_i64 << 40 },
        ]);
        let (admitted, kept) = run(theirs);
        let all = names(&["short", "long"]);
        assert_eq!((admitted, kept.len()), (all, 0), "{system}");
    }
    let (admitted, kept) = run(document(json!("none")));
    assert_eq!(admitted, names(&["short", "long"]));
    assert!(kept.is_empty());
}

#[test]
fn a_second_reservation_leaves_the_first_alone() {
    let running = |node: &str, minutes: u32| {
        json!({ "state": "running", "admitted_at": at(30), "runtime_estimate_seconds": minutes * 60,
                "placements": [{ "node": node }] })
    };
    let (admitted, kept) = run(reserving(json!({
        "at": at(40), "nodes": nodes(2), "engine": { "backfill": 2 },
        "workloads": [
            work("r0", 1, 8, running("n0", 15)),
            work("r1", 1, 8, running("n1", 20)),
            work("first", 2, 8, json!({ "created": at(1), "runtime_estimate_seconds": 300 })),
            work("second", 1, 8, json!({ "created": at(2), "runtime_estimate_seconds": 300 })),
            work("third", 1, 8, json!({ "created": at(3), "runtime_estimate_seconds": 60 })),
        ],
    })));
    assert_eq!(admitted, names(&[]));
    // The second would fit on n0 at :45 and end at :50, when the first begins.
    assert_eq!(
        kept,
        [("first".to_owned(), at(50)), ("second".to_owned(), at(45))]
    );
}

#[test]
fn those_that_need_not_borrow_come_first_and_shares_even_out() {
    let queues = |weight: u32| {
        json!([
            { "name": "all", "admits": false },
            { "name": "a", "parent": "all", "weight": weight, "quota": [{ "flavor": "f", "nominal": 8 }] },
            { "name": "b", "parent": "all", "quota": [{ "flavor": "f", "nominal": 8 }] },
            { "name": "idle", "parent": "all", "quota": [{ "flavor": "f", "nominal": 32 }] },
        ])
    };
    let document = |weight: u32, fair: bool| {
        let mut works = Vec::new();
        for at in 0..12 {
            works.push(work(
                &format!("a{at:02}"),
                1,
                4,
                json!({ "queue": "a", "priority": 1 }),
            ));
            works.push(work(&format!("b{at:02}"), 1, 4, json!({ "queue": "b" })));
        }
        json!({ "flavors": [{ "name": "f" }], "queues": queues(weight), "workloads": works,
                "engine": { "fair_sharing": fair } })
    };
    let count =
        |list: &[String], queue: &str| list.iter().filter(|name| name.starts_with(queue)).count();
    // Rounds alternate between queues, whatever the priority; heads with equal borrowing go by priority.
    let (plain, _) = run(document(1, false));
    assert_eq!(plain[..4], names(&["a00", "b00", "a01", "b01"]));
    assert_eq!(plain.len(), 12);
    let (fair, _) = run(document(1, true));
    assert_eq!((count(&fair, "a"), count(&fair, "b")), (6, 6));
}

#[test]
fn a_share_is_what_is_borrowed_by_what_is_lendable_by_weight() {
    let compiled = compiled(json!({
        "flavors": [{ "name": "f" }],
        "queues": [
            { "name": "all", "admits": false },
            { "name": "a", "parent": "all", "weight": 2, "quota": [{ "flavor": "f", "nominal": 10 }] },
            { "name": "b", "parent": "all", "weight": 0, "quota": [{ "flavor": "f", "nominal": 30, "lend_limit": 10 }] },
        ],
        "workloads": [work("w", 1, 1, json!({ "queue": "a" }))],
    }));
    let mut state = State::new(&compiled);
    let queue = |name: &str| compiled.tree.queue(name).expect("a queue");
    state.use_quota(queue("a"), 0, 10_000);
    assert_eq!(state.share(queue("a")).rounded(), 0);
    state.use_quota(queue("a"), 0, 5_000);
    // 5 borrowed of 20 lendable, by 2.
    assert_eq!(state.share(queue("a")).rounded(), 125);
    state.use_quota(queue("b"), 0, 31_000);
    assert!(state.share(queue("b")) > state.share(queue("a")));
    assert_eq!(state.share(queue("b")).rounded(), i64::MAX);
    assert!(id(&compiled, "w") == 0);
}

#[test]
fn kueue_lets_in_by_quota_alone_where_that_is_looked_at() {
    let document = || {
        json!({
            "nodes": nodes(1), "flavors": [{ "name": "f" }],
            "queues": [{ "name": "q", "system": "kueue", "quota": [
                { "flavor": "f", "nominal": 16 }, { "flavor": "f", "resource": "cpu", "nominal": 64_000 },
                { "flavor": "f", "resource": "memory", "nominal": 1_i64 << 40 },
            ] }],
            "workloads": [
                work("runs", 1, 8, json!({ "queue": "q", "state": "running", "placements": [{ "node": "n0" }] })),
                work("first", 1, 8, json!({ "queue": "q", "created": at(1) })),
                work("next", 1, 4, json!({ "queue": "q", "created": at(2) })),
            ],
        })
    };
    let run = |document: Value| {
        let compiled = compiled(document);
        let mut state = State::new(&compiled);
        let cycle = cycle(&mut state);
        check(&state);
        assert!(cycle.admitted.is_empty());
        let quota_reserved: Vec<String> = cycle
            .quota_reserved
            .iter()
            .map(|work| name(&compiled, *work).to_owned())
            .collect();
        let next = cycle.waiting[&id(&compiled, "next")][0].why.clone();
        (quota_reserved, matches!(next, Why::Quota { .. }))
    };
    // The first takes the last of the quota, although it fits no node; so the next lacks quota.
    assert_eq!(run(document()), (names(&["first"]), true));
    // A scheduler that looks at nodes, too, gives it nothing.
    let mut own = document();
    own["queues"][0]["system"] = json!("stokehold");
    assert_eq!(run(own), (names(&[]), false));
}

#[test]
fn kueue_preempts_for_quota_though_no_node_has_room_then() {
    let on = |node: &str, queue: Option<&str>| json!({ "queue": queue, "state": "running", "admitted_at": at(1), "placements": [{ "node": node }] });
    let document = json!({
        "nodes": nodes(2), "flavors": [{ "name": "f" }],
        "queues": [{ "name": "q", "system": "kueue", "preemption": { "within": "lower-priority" }, "quota": [
            { "flavor": "f", "nominal": 8 }, { "flavor": "f", "resource": "cpu", "nominal": 64_000 },
            { "flavor": "f", "resource": "memory", "nominal": 1_i64 << 40 },
        ] }],
        "workloads": [
            work("other-a", 1, 4, on("n0", None)), work("other-b", 1, 4, on("n1", None)),
            work("low-a", 1, 4, on("n0", Some("q"))), work("low-b", 1, 4, on("n1", Some("q"))),
            work("high", 1, 8, json!({ "queue": "q", "priority": 5, "created": at(2) })),
        ],
    });
    let compiled = compiled(document);
    let high = id(&compiled, "high");
    let mut state = State::new(&compiled);
    let cycle = cycle(&mut state);
    check(&state);
    assert!(cycle.admitted.is_empty());
    let all = cycle.preempted.iter().flat_map(|it| &it.victims.list);
    let mut gone: Vec<String> = all.map(|it| name(&compiled, it.work).to_owned()).collect();
    gone.sort();
    let reserved = cycle.quota_reserved;
    assert_eq!((reserved, gone), (vec![high], names(&["low-a", "low-b"])));
}
