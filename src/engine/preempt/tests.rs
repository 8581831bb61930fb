//! The least victims against all sets there are, and what cannot be taken. The rules stand in the scenarios.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::candidate::candidates;
use super::scene::{Scene, assignments};
use super::search::needs_all;
use super::*;
use crate::dice::Dice;
use crate::fixture::{check, id, name, node, plant, work};
use crate::plant::Plant;

/// A crowded fleet of one workload that waits and up to ten that run, in some queues or in none.
fn crowd(seed: u64) -> Plant {
    let mut dice = Dice::new(seed);
    let fair = dice.below(3) == 0;
    let queued = dice.below(4) > 0;
    let hosts = dice.below(4) + 1;
    let nodes: Vec<Value> = (0..hosts)
        .map(|at| node(&format!("n{at}"), 4, &format!("r{}", at / 2), "b"))
        .collect();
    let queues = ["a", "b", "c"];
    let words = ["never", "lower-priority", "any"];
    let mut works = Vec::new();
    let mut free = vec![4; hosts];
    for at in 0..dice.below(10) + 1 {
        let host = dice.below(hosts);
        let gpus = dice.below(4) + 1;
        if free[host] < gpus {
            continue;
        }
        free[host] -= gpus;
        let devices: Vec<usize> = (free[host]..free[host] + gpus).collect();
        let mut more = json!({
            "state": "running", "priority": dice.below(4), "preemptible": dice.below(6) > 0,
            "admitted_at": format!("2026-11-21T06:{:02}:00Z", dice.below(30)),
            "placements": [{ "node": format!("n{host}"), "devices": devices }],
        });
        if dice.below(3) == 0 {
            more["last_checkpoint"] = json!(format!("2026-11-21T06:{:02}:00Z", dice.below(40)));
        }
        if queued {
            more["queue"] = json!(queues[dice.below(3)]);
        }
        works.push(work(&format!("w{at}"), 1, gpus as u32, more));
    }
    let mut more = json!({ "priority": dice.below(5) + 1 });
    if queued {
        more["queue"] = json!("a");
    }
    if dice.below(3) == 0 {
        more["topology"] = json!({ "level": "rack" });
    }
    if dice.below(3) == 0 {
        more["min"] = json!(1);
    }
    works.push(work(
        "new",
        dice.below(3) as u32 + 1,
        dice.below(4) as u32 + 1,
        more,
    ));
    let rules = json!({
        "within": (["never", "lower-priority", "lower-or-newer-equal-priority"][dice.below(3)]),
        "reclaim": (words[dice.below(3)]),
        "borrow": (words[dice.below(2)]),
    });
    let mut list = vec![
        json!({ "name": "all", "admits": false, "quota": [{ "flavor": "f", "nominal": dice.below(5) }] }),
    ];
    for queue in queues {
        let mut quota = json!({ "flavor": "f", "nominal": dice.below(7) });
        if dice.below(3) == 0 {
            quota["lend_limit"] = json!(dice.below(3));
        }
        list.push(
            json!({ "name": queue, "parent": "all", "preemption": rules, "quota": [quota],
                          "weight": dice.below(3) }),
        );
    }
    plant(json!({
        "nodes": nodes, "flavors": [{ "name": "f" }], "workloads": works,
        "queues": if queued { json!(list) } else { json!([]) },
        "engine": { "fair_sharing": fair },
    }))
}

/// The cheapest of all sets of candidates that may go and make room.
fn by_force(state: &mut State<'_>, new: WorkId) -> Option<(i64, usize)> {
    let queue = state.gate_of_queue(new).ok()?;
    let mut best: Option<(i64, usize)> = None;
    for flavors in assignments(state, new, queue) {
        let Some(scene) = Scene::new(state, new, queue, &flavors, false) else {
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
        let plant = crowd(seed);
        let new = id(&plant, "new");
        let mut state = State::new(&plant);
        if state.find(new, &Lens::default()).is_ok() {
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
            prop_assert!(reclaims || state.find(new, &Lens::default()).is_err());
            state.undo_to(mark);
        }
    }
}

#[test]
fn work_is_lost_since_the_last_checkpoint() {
    let plant = plant(json!({
        "at": "2026-11-21T06:40:00Z", "nodes": [node("n", 8, "r", "b")],
        "workloads": [
            work("saved", 1, 4, json!({ "state": "running", "admitted_at": "2026-11-21T06:00:00Z",
                "last_checkpoint": "2026-11-21T06:39:00Z", "placements": [{ "node": "n" }] })),
            work("not", 1, 4, json!({ "state": "running", "admitted_at": "2026-11-21T06:30:00Z",
                "last_checkpoint": "2026-11-21T06:10:00Z", "placements": [{ "node": "n" }] })),
            work("new", 1, 4, json!({ "priority": 1 })),
        ],
    }));
    let mut state = State::new(&plant);
    assert_eq!(state.lost_ms(id(&plant, "saved")), 4 * 60_000);
    assert_eq!(state.lost_ms(id(&plant, "not")), 4 * 600_000);
    let names = |victims: Victims| -> Vec<String> {
        let list = victims.list.iter();
        list.map(|it| name(&plant, it.work).to_owned()).collect()
    };
    let new = id(&plant, "new");
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
    let plant = plant(json!({
        "nodes": [node("n", 4, "r", "b")],
        "workloads": [
            work("runs", 1, 2, json!({ "state": "running", "priority": 5, "placements": [{ "node": "n" }] })),
            work("low", 1, 4, json!({ "priority": 5 })),
            work("wide", 1, 8, json!({ "priority": 9 })),
            work("fits", 1, 2, json!({})),
            work("lost", 1, 1, json!({ "topology": { "level": "zone" } })),
        ],
    }));
    let mut state = State::new(&plant);
    let mut ask = |name: &str| {
        state
            .victims(id(&plant, name), Mode::AsCluster)
            .expect_err("a refusal")
    };
    assert_eq!(ask("low"), Refusal::Protected);
    assert_eq!(ask("wide"), Refusal::TooFew);
    assert_eq!(ask("fits"), Refusal::Needless);
    assert_eq!(ask("runs"), Refusal::Needless);
    assert_eq!(ask("lost"), Refusal::Protected);
}
