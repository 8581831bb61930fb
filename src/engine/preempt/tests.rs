//! Tests of least-cost victims against all possible sets, and of protected workloads. The scenarios test the rules.

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

/// The cheapest of all sets of candidates that may be preempted and suffice.
fn by_force(state: &mut State<'_>, new: WorkloadId) -> Option<(i64, usize)> {
    let queue = state.gate_of_queue(new).ok()?;
    let mut best: Option<(i64, usize)> = None;
    let sets = state.compiled().workloads[new].sets.iter();
    let fewest: Vec<u32> = sets.map(|set| set.min.max(1).min(set.count)).collect();
    for flavors in assignments(state, new, queue) {
        let Some(context) = SearchContext::new(state, new, queue, &flavors, fewest.clone()) else {
            continue;
        };
        let mut some = candidates(state, &context, &Holders::new(state), &|_| false);
        some.weigh(state);
        for &borrow in &some.tries {
            for mask in 1_u32..1 << some.list.len() {
                let taken: Vec<usize> = (0..some.list.len())
                    .filter(|at| mask >> at & 1 == 1)
                    .collect();
                let found = needs_all(state, &context, &some.list, borrow, &taken);
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
        let (least, cluster) = (state.victims(new, PreemptMode::Least), state.victims(new, PreemptMode::AsCluster));
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
        // No victim is unnecessary.
        for spared in &least.list {
            let mark = state.mark();
            for victim in least.list.iter().filter(|it| *it != spared) {
                state.evict(victim.work);
            }
            // One that must not borrow fits no sooner because it could by borrowing.
            let reclaims = least.list.iter().any(|it| it.reason == PreemptionReason::Reclaim);
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
        state.victims(new, PreemptMode::AsCluster).map(names),
        Ok(vec!["not".to_owned()])
    );
    assert_eq!(
        state.victims(new, PreemptMode::Least).map(names),
        Ok(vec!["saved".to_owned()])
    );
}

#[test]
fn refusals_distinguish_rules_from_capacity() {
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
            .victims(id(&compiled, name), PreemptMode::AsCluster)
            .expect_err("a refusal")
    };
    assert_eq!(ask("low"), NoPreemption::Protected);
    assert_eq!(ask("wide"), NoPreemption::TooFew);
    assert_eq!(ask("fits"), NoPreemption::Needless);
    assert_eq!(ask("runs"), NoPreemption::Needless);
    assert_eq!(ask("lost"), NoPreemption::Protected);
}

/// The list of flavor assignments is cut: a workload that fits in one beyond it still preempts in an earlier flavor.
#[test]
fn a_fit_beyond_the_listed_flavors_is_no_reason_against_preemption() {
    let flavors: Vec<String> = (0..9).map(|at| format!("f{at}")).collect();
    let quotas = flavors.iter().map(|flavor| {
        let has_quota = flavor == "f0" || flavor == "f8";
        json!({ "flavor": flavor, "nominal": if has_quota { 2 } else { 0 } })
    });
    let named: Vec<Value> = flavors.iter().map(|name| json!({ "name": name })).collect();
    let one =
        |name: &str| json!({ "name": name, "requests": { "devices": { "nvidia.com/gpu": 1 } } });
    let compiled = compiled(json!({
        "nodes": [node("n", 8, "r", "b")], "flavors": named,
        "queues": [{
            "name": "q", "system": "kueue", "quota": quotas.collect::<Vec<Value>>(),
            "preemption": { "within": "lower-priority" }, "fungibility": { "preempt": "stop" },
        }],
        "workloads": [
            work("runs", 1, 2, json!({
                "queue": "q", "state": "running", "placements": [{ "node": "n" }], "flavors": [{ "flavor": "f0" }],
                "requests": { "devices": { "nvidia.com/gpu": 2 } },
            })),
            work("new", 0, 0, json!({ "queue": "q", "priority": 9, "pod_sets": [one("lead"), one("worker")] })),
        ],
    }));
    let mut state = State::new(&compiled);
    let new = id(&compiled, "new");
    let fit = state.find(new, &Relaxation::default()).expect("it fits");
    let last = compiled.snapshot.flavors.len() - 1;
    assert!(fit.sets.iter().all(|set| set.flavors == [last]), "{fit:?}");
    let victims = state.victims(new, PreemptMode::AsCluster).expect("victims");
    assert_eq!(victims.list.len(), 1);
}

/// Pods with `preemptionPolicy: Never` wait, whatever their priority. An operator may still evict for them, and a queue preempts
/// by its own rules.
#[test]
fn pods_that_never_preempt_wait() {
    let fleet = |queue: serde_json::Value| {
        let mut runs =
            json!({ "priority": 1, "state": "running", "placements": [{ "node": "a" }] });
        let mut waits = json!({ "priority": 9, "never_preempts": true });
        if !queue.is_null() {
            runs["queue"] = queue.clone();
            waits["queue"] = queue;
        }
        compiled(json!({
            "nodes": [node("a", 8, "r", "b")], "flavors": [{ "name": "f" }],
            "queues": [{
                "name": "q", "quota": [{ "flavor": "f", "nominal": 8 }], "preemption": { "within": "lower-priority" },
            }],
            "workloads": [work("runs", 1, 8, runs), work("waits", 1, 8, waits)],
        }))
    };
    let ask = |compiled: &CompiledFleet, mode| {
        State::new(compiled)
            .victims(id(compiled, "waits"), mode)
            .map(|victims| victims.list.len())
    };
    let plain = fleet(serde_json::Value::Null);
    assert_eq!(
        ask(&plain, PreemptMode::AsCluster),
        Err(NoPreemption::Protected)
    );
    assert_eq!(
        ask(&plain, PreemptMode::Least),
        Err(NoPreemption::Protected)
    );
    assert_eq!(ask(&plain, PreemptMode::ByHand), Ok(1));
    let queued = fleet(json!("q"));
    assert_eq!(ask(&queued, PreemptMode::AsCluster), Ok(1));
}
