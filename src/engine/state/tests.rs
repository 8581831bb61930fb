//! Tests of quotas up the tree, computed by hand, and of undo.

use serde_json::json;

use super::*;
use crate::fit::Relaxation;
use crate::fixture::{check, compiled, id, node, work};

/// `left` keeps 2 of its 10 to itself and borrows up to 3; `right` lends all of its 6; the cohort has 4 of its own and may
/// borrow no more than 1 from the root, which has 5.
fn tree() -> CompiledFleet {
    compiled(json!({
        "flavors": [{ "name": "f" }],
        "queues": [
            { "name": "top", "admits": false, "quota": [{ "flavor": "f", "nominal": 5 }] },
            { "name": "mid", "admits": false, "parent": "top", "quota": [{ "flavor": "f", "nominal": 4, "borrow_limit": 1 }] },
            { "name": "left", "parent": "mid", "quota": [{ "flavor": "f", "nominal": 10, "lend_limit": 8, "borrow_limit": 3 }] },
            { "name": "right", "parent": "mid", "quota": [{ "flavor": "f", "nominal": 6 }] },
        ],
    }))
}

#[test]
fn what_is_left_of_a_quota_counts_lending_and_borrowing_at_every_level() {
    let compiled = tree();
    let queue = |name: &str| compiled.tree.queue(name).expect("a queue");
    let (left, right, mid, top) = (queue("left"), queue("right"), queue("mid"), queue("top"));
    let own = |queue: QueueId| {
        let quotas = compiled.tree.quota(queue, 0);
        (quotas.subtree, quotas.guaranteed, quotas.potential)
    };
    assert_eq!(own(left), (10_000, 2_000, 13_000));
    // 4 of its own, 8 lent by left, 6 by right.
    assert_eq!(own(mid), (18_000, 0, 19_000));
    assert_eq!(own(top), (23_000, 0, 23_000));
    assert_eq!(own(right), (6_000, 0, 19_000));

    let mut state = State::new(&compiled);
    assert_eq!(state.available(left, 0), 13_000);
    assert_eq!(state.available(right, 0), 19_000);
    state.use_quota(right, 0, 15_000);
    // 4 more in the cohort, with the 1 that it may borrow, and 2 that left keeps.
    assert_eq!(state.available(left, 0), 6_000);
    assert_eq!(state.borrowed(right, 0), 9_000);
    state.use_quota(left, 0, 6_000);
    assert_eq!(
        (state.available(left, 0), state.available(right, 0)),
        (0, 0)
    );
    assert_eq!((state.used(mid, 0), state.gross(mid, 0)), (19_000, 21_000));
    state.use_quota(left, 0, -6_000);
    state.use_quota(right, 0, -15_000);
    for queue in [left, right, mid, top] {
        assert_eq!((state.used(queue, 0), state.gross(queue, 0)), (0, 0));
    }
}

#[test]
fn a_cap_holds_whatever_could_be_borrowed_and_supposed_quotas_are_taken_back() {
    let compiled = tree();
    let left = compiled.tree.queue("left").expect("a queue");
    let mut state = State::new(&compiled);
    let mark = state.mark();
    let quotas = *state.tree().quota(left, 0);
    state.set_quota(
        left,
        0,
        Quotas {
            cap: Some(4_000),
            ..quotas
        },
    );
    assert_eq!(state.available(left, 0), 4_000);
    state.use_quota(left, 0, 3_000);
    state.set_quota(
        left,
        0,
        Quotas {
            nominal: 20_000,
            ..quotas
        },
    );
    assert_eq!(state.tree().quota(left, 0).potential, 23_000);
    state.undo_to(mark);
    assert_eq!(state.available(left, 0), 13_000);
}

/// Resources that the scheduler counts against a node count here too.
#[test]
fn pods_without_devices_take_their_cpu_and_memory() {
    let fleet = |cpu: i64, gib: i64| {
        let compiled = compiled(json!({
            "nodes": [node("a", 4, "r", "b")],
            "residents": [
                { "name": "daemon", "node": "a", "owner_kind": "DaemonSet", "cpu_milli": cpu, "memory_bytes": gib << 30 },
                { "name": "elsewhere", "node": "b", "cpu_milli": 90_000 },
            ],
            "workloads": [work("waits", 1, 1, json!({}))],
        }));
        let mut state = State::new(&compiled);
        check(&state);
        state
            .start(id(&compiled, "waits"), &Relaxation::default())
            .is_ok()
    };
    // Of 48 cores and 384 GiB it asks for one each.
    assert!(fleet(47_000, 383));
    assert!(!fleet(47_001, 0));
    assert!(!fleet(0, 384));
}

#[test]
fn what_runs_holds_what_the_document_says_even_if_it_does_not_say_which() {
    let compiled = compiled(json!({
        "nodes": [node("a", 4, "r", "b")],
        "flavors": [{ "name": "f", "node_labels": { "class": "h100" } }, { "name": "other" }],
        "queues": [{ "name": "q", "quota": [{ "flavor": "f", "nominal": 3 }, { "flavor": "other", "nominal": 1 }] }],
        "workloads": [
            work("known", 1, 1, json!({ "queue": "q", "state": "running", "placements": [{ "node": "a", "devices": [2] }] })),
            work("unknown", 1, 2, json!({ "queue": "q", "state": "running", "placements": [{ "node": "a" }] })),
            work("waits", 1, 1, json!({})),
        ],
    }));
    let mut state = State::new(&compiled);
    check(&state);
    assert_eq!(state.left(0), [0, 0, 0, 1_000]);
    let queue = compiled.tree.queue("q").expect("a queue");
    assert_eq!(state.available(queue, 0), 0);
    let mark = state.mark();
    state.finish(id(&compiled, "unknown"));
    assert_eq!(state.available(queue, 0), 2_000);
    assert_eq!(state.left(0), [1_000, 1_000, 0, 1_000]);
    state
        .start(id(&compiled, "waits"), &Relaxation::default())
        .expect("room");
    check(&state);
    state.undo_to(mark);
    check(&state);
    assert_eq!(state.left(0), [0, 0, 0, 1_000]);
    assert_eq!(state.available(queue, 0), 0);
}
