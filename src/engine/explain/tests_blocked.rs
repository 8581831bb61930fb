//! Jobs that wait themselves: what no scheduler can start, and what holds quota without devices.

use serde_json::json;

use super::*;
use crate::fixture::{compiled, id, node, work};

fn codes(answer: &Explanation) -> Vec<&'static str> {
    answer.reasons.iter().map(Reason::code).collect()
}

/// A job that no queue and no scheduler can start takes no devices, starts at no time, and keeps the quota that it has.
#[test]
fn a_blocked_job_says_why_and_keeps_its_quota() {
    let why = "its role node waits until role init is Complete";
    let blocked = json!({ "blocked": why, "created": "2026-11-21T05:00:00Z" });
    let mut reserved = blocked.clone();
    reserved["state"] = json!("running");
    reserved["queue"] = json!("q");
    let compiled = compiled(json!({
        "nodes": [node("a", 8, "r", "b")], "flavors": [{ "name": "f" }], "queues": [{ "name": "q", "quota": [{ "flavor": "f", "nominal": 5 }] }],
        "workloads": [
            work("later", 1, 8, blocked), work("reserved", 1, 4, reserved),
            work("free", 1, 8, json!({})), work("queued", 1, 4, json!({ "queue": "q" })),
        ],
    }));
    let mut explainer = Explainer::new(&compiled);
    for name in ["later", "reserved"] {
        let answer = explainer.explain(id(&compiled, name));
        assert_eq!(answer.state, StartState::Blocked, "{name}");
        assert_eq!(
            (codes(&answer), answer.reason.as_str()),
            (vec!["blocked"], why)
        );
        assert!(answer.unblock.is_none() && answer.position.is_none());
        assert!(
            !explainer.forecast().contains_key(&id(&compiled, name)),
            "{name}"
        );
    }
    let free = explainer.explain(id(&compiled, "free"));
    assert_eq!(free.state, StartState::Ready, "its devices are not taken");
    let queued = explainer.explain(id(&compiled, "queued"));
    assert!(codes(&queued).contains(&"quota"), "{}", queued.reason);
}

/// An admitted job that waits for nodes has quota and no devices: its eviction is said to release quota only.
#[test]
fn a_victim_that_holds_no_devices_only_releases_its_quota() {
    let mut admitted = json!({ "queue": "q", "state": "running", "priority": 1 });
    let mut with = |nodes: &[&str]| {
        admitted["placements"] = nodes.iter().map(|node| json!({ "node": node })).collect();
        let compiled = compiled(json!({
            "nodes": [node("a", 8, "r", "b")],
            "flavors": [{ "name": "f" }],
            "queues": [{ "name": "q", "quota": [{ "flavor": "f", "nominal": 4 }],
                "preemption": { "within": "lower-priority" } }],
            "workloads": [
                work("holds", 1, 4, admitted.clone()),
                work("waits", 1, 4, json!({ "queue": "q", "priority": 1 })),
            ],
        }));
        let answer = Explainer::new(&compiled).explain(id(&compiled, "waits"));
        let all = answer.unblock.into_iter().chain(answer.alternatives);
        let mut all = all.filter(|unblock| !unblock.victims.is_empty());
        let unblock = all.next().expect("its priority or an eviction helps");
        let first = &unblock.victims[0];
        (unblock.sentence.clone(), first.devices, first.quota_devices)
    };
    assert_eq!(
        with(&[]),
        (
            "priority 2 instead of 1, preempting ml/holds (no devices allocated: releases its quota for 4 devices)"
                .to_owned(),
            0,
            4
        )
    );
    let (sentence, devices, quota) = with(&["a"]);
    assert!(sentence.contains("ml/holds (4 devices, "), "{sentence}");
    assert_eq!((devices, quota), (4, 0));
}
