//! The least victims against all sets there are, and what cannot be taken. The rules stand in the scenarios.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::candidate::candidates;
use super::search::needs_all;
use super::search_context::{SearchContext, assignments};
use super::*;
use crate::compiled::CompiledFleet;
use crate::fixture::{check, compiled, id, name, node, work};
use crate::rng::Rng;

/// A crowded fleet of one workload that waits and up to ten that run, in some queues or in none.
fn crowd(seed: u64) -> CompiledFleet {
    let mut rng = Rng::new(seed);
    let fair = rng.below(3) == 0;
    let queued = rng.below(4) > 0;
    let hosts = rng.below(4) + 1;
    let nodes: Vec<Value> = (0..hosts)
        .map(|at| node(&format!("n{at}"), 4, &format!("r{}", at / 2), "b"))
        .collect();
    let queues = ["a", "b", "c"];
    let words = ["never", "lower-priority", "any"];
    let mut works = Vec::new();
    let mut free = vec![4; hosts];
    for at in 0..rng.below(10) + 1 {
        let host = rng.below(hosts);
        let gpus = rng.below(4) + 1;
        if free[host] < gpus {
            continue;
        }
        free[host] -= gpus;
        let devices: Vec<usize> = (free[host]..free[host] + gpus).collect();
        let mut more = json!({
            "state": "running", "priority": rng.below(4), "preemptible": rng.below(6) > 0,
            "admitted_at": format!("2026-11-21T06:{:02}:00Z", rng.below(30)),
            "placements": [{ "node": format!("n{host}"), "devices": devices }],
        });
        if rng.below(3) == 0 {
            more["last_checkpoint"] = json!(format!("2026-11-21T06:{:02}:00Z", rng.below(40)));
        }
        if queued {
            more["queue"] = json!(queues[rng.below(3)]);
        }
        works.push(work(&format!("w{at}"), 1, gpus as u32, more));
    }
    let mut more = json!({ "priority": rng.below(5) + 1 });
    if queued {
        more["queue"] = json!("a");
    }
    if rng.below(3) == 0 {
        more["topology"] = json!({ "level": "rack" });
    }
    if rng.below(3) == 0 {
        more["min"] = json!(1);
    }
    works.push(work(
        "new",
        rng.below(3) as u32 + 1,
        rng.below(4) as u32 + 1,
        more,
    ));
    let rules = json!({
        "within": (["never", "lower-priority", "lower-or-newer-equal-priority"][rng.below(3)]),
        "reclaim": (words[rng.below(3)]),
        "borrow": (words[rng.below(2)]),
    });
    let mut list = vec![
        json!({ "name": "all", "admits": false, "quota": [{ "flavor": "f", "nominal": rng.below(5) }] }),
    ];
    for queue in queues {
        let mut quota = json!({ "flavor": "f", "nominal": rng.below(7) });
        if rng.below(3) == 0 {
            quota["lend_limit"] = json!(rng.below(3));
        }
        list.push(
            json!({ "name": queue, "parent": "all", "preemption": rules, "quota": [quota],
                          "weight": rng.below(3) }),
        );
    }
    compiled(json!({
        "nodes": nodes, "flavors": [{ "name": "f" }], "workloads": works,
        "queues": if queued { json!(list) } else { json!([]) },
        "engine": { "fair_sharing": fair },
    }))
}

/// The cheapest of all sets of candidates that may go and make room.
fn by_force(state: &mut State<'_>, new: WorkloadId) -> Option<(i64, usize)> {
    let queue = state.gate_of_queue(new).ok()?;
    let mut best: Option<(i64, usize)> = None;
    for flavors in assignments(state, new, queue) {
        let Some(scene) = SearchContext::new(state, new, queue, &flavors, false) else {
            continue;
        };
        let mut some = candidates(state, &scene, &Holders::new(state), &|_| false);
        some.weigh(state);
        for &borrow in &some.tries {
            for mask in 1_u32..1 << some.list.len() {
                let taken: Vec<usize> = (0..some.list.len())
                    .filter(|at| mask >> at & 1 == 1)
                    .collect();
                let found = needs_all(state, &scene, &some.list, borrow, &taken);
                let cost = found.map(|found| found.cost(&some.list));
                best = match (best, cost) {
                    (Some(best), Some(cost)) => Some(best.min(cost)),
                    (best, cost) => best.or(cost),
                };
            }
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn the_least_victims_are_those_that_brute_force_finds(seed in any::<u64>()) {
        let compiled = crowd(seed);
        let new = id(&compiled, "new");
        let mut state = State::new(&compiled);
        if state.find(new, &Relaxation::default()).is_ok() {
            return Ok(());
        }
        let (least, cluster) = (state.victims(new, Mode::Least), state.victims(new, Mode::AsCluster));
        check(&state);
        let force = by_force(&mut state, new).into_iter();
        let force = force.chain(cluster.as_ref().ok().map(|it| (it.lost_ms, it.list.len()))).min();
        prop_assert_eq!(least.as_ref().ok().map(|it| (it.lost_ms, it.list.len())), force);
        let Ok(least) = least else {
            prop_assert!(cluster.is_err(), "{cluster:?}");
            return Ok(());
        };
        prop_assert!(least.proven);
        for victims in std::iter::once(&least).chain(cluster.as_ref().ok()) {
            let mark = state.mark();
            state.preempt(new, victims);
            check(&state);
            state.undo_to(mark);
            for victim in &victims.list {
                prop_assert!(state.workload(victim.work).preemptible);
            }
        }
        // Of those that would do without one of them none is in it.
        for spared in &least.list {
            let mark = state.mark();
            for victim in least.list.iter().filter(|it| *it != spared) {
                state.evict(victim.work);
            }
            // One that must not borrow fits no sooner because it could by borrowing.
            let reclaims = least.list.iter().any(|it| it.reason == Reason::Reclaim);
            prop_assert!(reclaims || state.find(new, &Relaxation::default()).is_err());
            state.undo_to(mark);
        }
    }
}

#[test]
fn work_is_lost_since_the_last_checkpoint() {
    let compiled = compiled(json!({
        "at": "2026-11-21T06:40:00Z", "nodes": [node("n", 8, "r", "b")],
        "workloads": [
            work("saved", 1, 4, json!({ "state": "running", "admitted_at": "2026-11-21T06:00:00Z",
                "last_checkpoint": "2026-11-21T06:39:00Z", "placements": [{ "node": "n" }] })),
            work("not", 1, 4, json!({ "state": "running", "admitted_at": "2026-11-21T06:30:00Z",
                "last_checkpoint": "2026-11-21T06:10:00Z", "placements": [{ "node": "n" }] })),
            work("new", 1, 4, json!({ "priority": 1 })),
        ],
    }));
    let mut state = State::new(&compiled);
    assert_eq!(state.lost_ms(id(&compiled, "saved")), 4 * 60_000);
    assert_eq!(state.lost_ms(id(&compiled, "not")), 4 * 600_000);
    let names = |victims: Victims| -> Vec<String> {
        let list = victims.list.iter();
        list.map(|it| name(&compiled, it.work).to_owned()).collect()
    };
    let new = id(&compiled, "new");
    assert_eq!(
        state.victims(new, Mode::AsCluster).map(names),
        Ok(vec!["not".to_owned()])
    );
    assert_eq!(
        state.victims(new, Mode::Least).map(names),
        Ok(vec!["saved".to_owned()])
    );
}

#[test]
fn refusals_tell_rules_from_room() {
    let compiled = compiled(json!({
        "nodes": [node("n", 4, "r", "b")],
        "workloads": [
            work("runs", 1, 2, json!({ "state": "running", "priority": 5, "placements": [{ "node": "n" }] })),
            work("low", 1, 4, json!({ "priority": 5 })),
            work("wide", 1, 8, json!({ "priority": 9 })),
            work("fits", 1, 2, json!({})),
            work("lost", 1, 1, json!({ "topology": { "level": "zone" } })),
        ],
    }));
    let mut state = State::new(&compiled);
    let mut ask = |name: &str| {
        state
            .victims(id(&compiled, name), Mode::AsCluster)
            .expect_err("a refusal")
    };
    assert_eq!(ask("low"), Refusal::Protected);
    assert_eq!(ask("wide"), Refusal::TooFew);
    assert_eq!(ask("fits"), Refusal::Needless);
    assert_eq!(ask("runs"), Refusal::Needless);
    assert_eq!(ask("lost"), Refusal::Protected);
}
