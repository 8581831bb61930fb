//! Tests of forecasts against a minute-by-minute simulation, and of unknown starts.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cycle::Cycle;
use crate::fixture::{compiled, id, node, work};
use crate::sample::Recipe;
use crate::snapshot::{OwnerRuntimes, QueueingStrategy, Snapshot, System};

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
    // It has run for ten minutes; half of the runs that reached that age take 63 in all, or a little more.
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
    assert!((12..40).contains(&from(p10)), "{}", from(p10));
    assert!((60..110).contains(&from(p50)), "{}", from(p50));
    assert!((400..1_300).contains(&from(p90)), "{}", from(p90));
}

/// Owners whose runs differ by a hundred times, and one job after the other in each queue.
fn unsure(seed: u64) -> Snapshot {
    let recipe = Recipe {
        seed,
        ..Recipe::crowded(12, 24)
    };
    let mut snapshot = recipe.snapshot();
    let owners = ["ana", "bob", "eve"];
    let minutes = |minutes: i64| minutes * 60_000;
    snapshot.runs = owners
        .iter()
        .zip([10, 45, 300])
        .map(|(owner, middle)| OwnerRuntimes {
            owner: (*owner).into(),
            count: 20,
            p10_ms: minutes(middle / 5),
            p50_ms: minutes(middle),
            p90_ms: minutes(middle * 5),
        })
        .collect();
    // `govern` reserves by the ends that it expects now, which move with the clock.
    for queue in &mut snapshot.queues {
        queue.system = System::Kueue;
    }
    for (at, work) in snapshot.workloads.iter_mut().enumerate() {
        work.estimate_ms = None;
        work.owner = owners[at % owners.len()].into();
    }
    // Something has happened two minutes ago.
    snapshot.workloads[0].created = Moment::from_millis(snapshot.at.millis() - 120_000);
    snapshot.settle();
    snapshot
}

/// Nothing has happened since: no start moves but with the clock, by the minute that has passed.
#[test]
fn an_unchanged_fleet_has_the_same_forecasts_a_minute_later() {
    let mut known = 0;
    for seed in 0..40 {
        let first = unsure(seed);
        let mut later = first.clone();
        later.at = Moment::from_millis(first.at.millis() + 60_000);
        let [before, after] = [&first, &later].map(|snapshot| {
            let compiled = CompiledFleet::new(snapshot.clone());
            forecast(&State::new(&compiled))
        });
        for (work, before) in &before {
            let after = &after[work];
            for (was, is) in [
                (before.p10, after.p10),
                (before.p50, after.p50),
                (before.p90, after.p90),
            ] {
                let [was, is] = [was, is].map(|at| at.map_or(0, Moment::millis));
                let wait = (was - first.at.millis()).max(0);
                let moved = was.abs_diff(is);
                let most = u64::try_from(wait / 50).unwrap_or(0).max(60_000);
                assert!(moved <= most, "seed {seed}: {before:?} became {after:?}");
            }
            known += usize::from(before.basis == Basis::History);
        }
    }
    assert!(known > 200, "{known}");
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
    // Past 2,000 s by the fourth root of 2 each time that half of the rest has ended.
    assert_eq!(runtime(&compiled, 0, 950), Some(2_378_414));
    // Of those that ran for 1,000 s half are left; half of them are gone at 75 in a hundred of all: 1,000 s by 2 to 5/8.
    let left = remaining(&compiled, 0, 1_000_000, 500).expect("is known");
    assert!((542_000..543_000).contains(&left), "{left}");
    assert_eq!(remaining(&compiled, 0, 8_000_000, 500), Some(1_513_656));
    assert_eq!(remaining(&compiled, 0, 0, 500), runtime(&compiled, 0, 500));
    assert_eq!(
        (runtime(&compiled, 1, 500), remaining(&compiled, 1, 0, 500)),
        (None, None)
    );
}

/// Workloads that get nodes in a cycle.
fn begun(cycle: &Cycle) -> Vec<WorkloadId> {
    let placed = cycle.placed.iter().map(|(work, _)| *work);
    let admitted = cycle.admitted.iter().map(|one| one.work);
    placed.chain(admitted).collect()
}

/// Simulates all starts minute by minute. Preemption happens now only, and leftover capacity is used immediately.
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
            for work in begun(&cycle::cycle(&mut state)) {
                starts.insert(work, state.now());
            }
        }
        for work in begun(&cycle::without_evictions(&mut state)) {
            starts.insert(work, state.now());
        }
    }
    // Evicted workloads start again, but are not part of the question.
    starts.retain(|work, _| asked.contains(work));
    starts
}

/// All starts, with a full cycle at each end.
fn by_cycles(compiled: &CompiledFleet) -> BTreeMap<WorkloadId, Moment> {
    let mut state = State::new(compiled);
    let asked: Vec<WorkloadId> = state.waiting().collect();
    let end = |state: &State<'_>, work: WorkloadId| {
        let end = cycle::end_of(state, work, compiled.workload(work).estimate_ms);
        (end.expect("told"), work)
    };
    let mut ends: BTreeSet<(Moment, WorkloadId)> =
        state.holders().map(|work| end(&state, work)).collect();
    let mut starts = BTreeMap::new();
    let mut first = Some(cycle::cycle(&mut state));
    // Evicted workloads have no allocation any more.
    ends.retain(|(_, work)| state.allocation(*work).is_some());
    loop {
        let was_first = first.is_some();
        let cycle = first.take();
        for work in begun(&cycle.unwrap_or_else(|| cycle::without_evictions(&mut state))) {
            starts.insert(work, state.now());
            ends.insert(end(&state, work));
        }
        if was_first {
            continue;
        }
        let Some(&(next, _)) = ends.first() else {
            break;
        };
        state.set_now(next);
        while let Some(&(at, work)) = ends.first()
            && at <= next
        {
            ends.pop_first();
            state.finish(work);
        }
    }
    starts.retain(|work, _| asked.contains(work));
    starts
}

#[test]
fn little_is_exact_and_much_is_taken_together() {
    let minute = |at: i64| Moment::from_millis(at * 60_000);
    let ends: BTreeSet<(Moment, WorkloadId)> = (0..100).map(|at| (minute(6_400 + at), 7)).collect();
    let last = |done: usize| together(&ends, minute(0), minute(6_400), done);
    assert_eq!(last(EXACT_WORK), minute(6_400));
    // One in 32 of 6,400 minutes, and later twice that: past all that ends.
    assert_eq!(last(EXACT_WORK + 1), minute(6_499));
    let soon = together(&ends, minute(5_440), minute(6_400), EXACT_WORK + 1);
    assert_eq!(soon, minute(6_430));
    let later = together(
        &ends,
        minute(5_440),
        minute(6_400),
        EXACT_WORK * COARSER + 1,
    );
    assert_eq!(later, minute(6_460));
}

#[test]
fn a_crowded_fleet_has_ranges_that_hold_the_moment() {
    let mut snapshot = Recipe {
        preempts: false,
        queues: 6,
        ..Recipe::crowded(60, 160)
    }
    .snapshot();
    estimate_all(&mut snapshot);
    let compiled = CompiledFleet::new(snapshot);
    let (forecasts, cycles) = (forecast(&State::new(&compiled)), by_cycles(&compiled));
    let ranges = forecasts.values().filter(|start| start.p10 < start.p50);
    assert!(ranges.count() > 10, "so much is not worked out end by end");
    // A range covers 80 %.
    let within = forecasts.iter().filter(|(work, start)| {
        let real = cycles.get(work).copied();
        let wait = |at: Option<Moment>| at.map(|at| at.millis() - compiled.snapshot.at.millis());
        wait(start.p10) <= wait(real) && wait(real) <= wait(start.p90)
    });
    let within = within.count();
    assert!(
        within * 10 >= forecasts.len() * 8,
        "{within} of {}",
        forecasts.len()
    );
}

/// Gives every workload an estimate; something has just happened, so that timelines begin now.
fn estimate_all(snapshot: &mut Snapshot) {
    let at = snapshot.at;
    let running = snapshot
        .workloads
        .iter_mut()
        .find(|work| work.status == Status::Running);
    running.expect("one runs").created = at;
    for (at, work) in snapshot.workloads.iter_mut().enumerate() {
        let minutes = 10 * (1 + (at as i64 * 7_919) % 144);
        work.estimate_ms.get_or_insert(60_000 * minutes);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn skipping_who_cannot_start_changes_no_start(
        seed in 0_u64..1_000,
        nodes in 4_usize..16,
        waiting in 8_usize..20,
        preempts in any::<bool>(),
        fair in any::<bool>(),
        queues in 2_usize..5,
    ) {
        let recipe = Recipe { seed, preempts, fair, queues, widest: 64, ..Recipe::crowded(nodes, waiting) };
        let mut snapshot = recipe.snapshot();
        estimate_all(&mut snapshot);
        if seed % 3 == 0 {
            for queue in snapshot.queues.iter_mut().skip(5).step_by(2) {
                queue.order = QueueingStrategy::Strict;
            }
        }
        let compiled = CompiledFleet::new(snapshot);
        let forecasts: BTreeMap<WorkloadId, Moment> = forecast(&State::new(&compiled))
            .into_iter()
            .filter_map(|(work, start)| Some((work, start.p50?)))
            .collect();
        prop_assert_eq!(forecasts, by_cycles(&compiled));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

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
            let more = json!({ "priority": priority, "runtime_estimate_seconds": lasts * 60, "created": "2026-11-21T06:40:00Z" });
            work(&format!("w{at}"), *pods, *gpus, more)
        }));
        let nodes: Vec<Value> = (0..4).map(|at| node(&format!("n{at}"), 8, "r", "b")).collect();
        let compiled = compiled(json!({ "nodes": nodes, "workloads": works, "engine": { "backfill": backfill } }));
        let forecasts: BTreeMap<WorkloadId, Moment> = forecast(&State::new(&compiled))
            .into_iter()
            .filter_map(|(work, start)| Some((work, start.p50?)))
            .collect();
        prop_assert_eq!(forecasts, stepped(&compiled));
    }
}

/// A cycle makes reservations for workloads that others overtake; after it, more may start at the same time.
#[test]
fn who_starts_in_a_second_cycle_at_once_starts_now() {
    for (seed, nodes, waiting) in [(715, 12, 12), (466, 4, 10)] {
        let recipe = Recipe {
            seed,
            preempts: false,
            fair: false,
            queues: 4,
            widest: 64,
            ..Recipe::crowded(nodes, waiting)
        };
        let mut snapshot = recipe.snapshot();
        estimate_all(&mut snapshot);
        let compiled = CompiledFleet::new(snapshot);
        let forecasts: BTreeMap<WorkloadId, Moment> = forecast(&State::new(&compiled))
            .into_iter()
            .filter_map(|(work, start)| Some((work, start.p50?)))
            .collect();
        assert_eq!(forecasts, by_cycles(&compiled), "seed {seed}");
    }
}
