//! Forecasts against a world that is stepped minute by minute, and what is unknown.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{compiled, id, node, work};

fn runs(name: &str, node: &str, gpus: u32, more: Value) -> Value {
    let mut all = json!({ "state": "running", "admitted_at": "2026-11-21T06:30:00Z", "placements": [{ "node": node }] });
    let all_map = all.as_object_mut().expect("a map");
    all_map.extend(more.as_object().expect("a map").clone());
    work(name, 1, gpus, all)
}

fn minutes(count: u32) -> Value {
    json!({ "runtime_estimate_seconds": count * 60 })
}

fn start(document: Value, name: &str) -> Start {
    let compiled = compiled(document);
    let state = State::new(&compiled);
    let one = forecast_one(&state, id(&compiled, name)).expect("it waits");
    assert_eq!(forecast(&state)[&id(&compiled, name)], one);
    one
}

fn clock(at: Option<Moment>) -> Option<String> {
    at.map(|at| at.rfc3339()[11..16].to_owned())
}

#[test]
fn known_limits_give_one_moment() {
    let it = start(
        json!({
            "nodes": [node("a", 8, "r", "b")],
            "workloads": [runs("r", "a", 8, minutes(30)), work("first", 1, 8, json!({ "created": "2026-11-21T05:00:00Z", "runtime_estimate_seconds": 600 })),
                          work("waits", 1, 8, minutes(5))],
        }),
        "waits",
    );
    // Half an hour from :30, then ten minutes of the first.
    assert_eq!(clock(it.p50), Some("07:10".to_owned()));
    assert_eq!((it.p10, it.p90), (it.p50, it.p50));
    assert_eq!(it.basis, Basis::Limits);
}

#[test]
fn what_fits_starts_now_and_what_nothing_is_known_of_is_unknown() {
    let fleet = |estimate: Value| {
        json!({
            "nodes": [node("a", 8, "r", "b")],
            "workloads": [runs("r", "a", 4, estimate), work("fits", 1, 4, json!({ "priority": 1 })), work("waits", 1, 8, json!({}))],
        })
    };
    let fits = start(fleet(json!({})), "fits");
    assert_eq!(
        (clock(fits.p50), fits.basis),
        (Some("06:40".to_owned()), Basis::Now)
    );
    let waits = start(fleet(minutes(20)), "waits");
    assert_eq!((waits.p10, waits.p50, waits.p90), (None, None, None));
    assert_eq!(waits.basis, Basis::None);
    let json = serde_json::to_value(&waits).expect("serializes");
    assert_eq!(
        (&json["p50"], &json["basis"]),
        (&Value::Null, &json!("none"))
    );
}

#[test]
fn past_runs_give_an_interval() {
    let it = start(
        json!({
            "nodes": [node("a", 8, "r", "b")],
            "runs": [{ "owner": "ana", "count": 40, "p10_seconds": 1200, "p50_seconds": 3600, "p90_seconds": 36000 }],
            "workloads": [runs("r", "a", 8, json!({ "owner": "ana" })), work("waits", 1, 8, json!({}))],
        }),
        "waits",
    );
    assert_eq!(it.basis, Basis::History);
    // It has run for ten minutes; half of those that got as far run for 63 in all, or a little more.
    let (p10, p50, p90) = (
        it.p10.expect("known"),
        it.p50.expect("known"),
        it.p90.expect("known"),
    );
    assert!(p10 < p50 && p50 < p90, "{it:?}");
    let from = |at: Moment| {
        (at.millis()
            - Moment::parse("2026-11-21T06:30:00Z")
                .expect("a time")
                .millis())
            / 60_000
    };
    assert!((15..40).contains(&from(p10)), "{}", from(p10));
    assert!((60..110).contains(&from(p50)), "{}", from(p50));
    assert!((400..900).contains(&from(p90)), "{}", from(p90));
}

#[test]
fn the_older_one_is_the_longer_it_still_runs() {
    let compiled = compiled(json!({
        "runs": [{ "owner": "ana", "count": 9, "p10_seconds": 100, "p50_seconds": 1000, "p90_seconds": 2000 }],
        "workloads": [work("w", 1, 1, json!({ "owner": "ana" })), work("x", 1, 1, json!({ "owner": "eve" }))],
    }));
    assert_eq!(runtime(&compiled, 0, 100), Some(100_000));
    // Half-way between 1,000 and 2,000 by ratio.
    assert_eq!(runtime(&compiled, 0, 700), Some(1_414_213));
    assert_eq!(runtime(&compiled, 0, 950), Some(4_000_000));
    // Of those that ran for 1,000 s half are left; half of them are gone at 75 in a hundred of all: 1,000 s by 2 to 5/8.
    let left = remaining(&compiled, 0, 1_000_000, 500).expect("is known");
    assert!((542_000..543_000).contains(&left), "{left}");
    assert_eq!(remaining(&compiled, 0, 8_000_000, 500), Some(8_000_000));
    assert_eq!(remaining(&compiled, 0, 0, 500), runtime(&compiled, 0, 500));
    assert_eq!(
        (runtime(&compiled, 1, 500), remaining(&compiled, 1, 0, 500)),
        (None, None)
    );
}

/// When everybody starts, minute by minute. Whoever may preempt does so now, and what is left over then is taken at once; later
/// nobody is preempted.
fn stepped(compiled: &CompiledFleet) -> BTreeMap<WorkloadId, Moment> {
    let mut state = State::new(compiled);
    let asked: Vec<WorkloadId> = state.waiting().collect();
    let mut starts = BTreeMap::new();
    for minute in 0..2_000_i64 {
        state.set_now(Moment::from_millis(
            compiled.snapshot.at.millis() + minute * 60_000,
        ));
        let holders: Vec<WorkloadId> = state.holders().collect();
        for holder in holders {
            let since = state.since(holder).expect("told").millis();
            let lasts = compiled.workload(holder).estimate_ms.expect("told");
            if since + lasts <= state.now().millis() {
                state.finish(holder);
            }
        }
        if minute == 0 {
            for admission in cycle::cycle(&mut state, AS_TOLD).admitted {
                starts.insert(admission.work, state.now());
            }
        }
        let spared = Options {
            spare_all: true,
            ..Options::default()
        };
        for admission in cycle::cycle(&mut state, spared).admitted {
            starts.insert(admission.work, state.now());
        }
    }
    // Who was evicted starts again, and is not asked for.
    starts.retain(|work, _| asked.contains(work));
    starts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn with_durations_known_and_no_arrivals_the_forecast_is_what_happens(
        running in prop::collection::vec((1_u32..5, 11_u32..90), 0..4),
        waiting in prop::collection::vec((1_u32..3, 1_u32..9, 1_u32..60, 0_i32..3), 1..10),
        backfill in 0_u8..3,
    ) {
        let mut works: Vec<Value> = running
            .iter()
            .enumerate()
            .map(|(at, (gpus, lasts))| runs(&format!("r{at}"), &format!("n{at}"), *gpus, minutes(*lasts)))
            .collect();
        works.extend(waiting.iter().enumerate().map(|(at, (pods, gpus, lasts, priority))| {
            work(&format!("w{at}"), *pods, *gpus, json!({ "priority": priority, "runtime_estimate_seconds": lasts * 60 }))
        }));
        let nodes: Vec<Value> = (0..4).map(|at| node(&format!("n{at}"), 8, "r", "b")).collect();
        let compiled = compiled(json!({ "nodes": nodes, "workloads": works, "engine": { "backfill": backfill } }));
        let told: BTreeMap<WorkloadId, Moment> = forecast(&State::new(&compiled))
            .into_iter()
            .filter_map(|(work, start)| Some((work, start.p50?)))
            .collect();
        prop_assert_eq!(told, stepped(&compiled));
    }
}
