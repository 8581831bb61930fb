//! What serving pods say over time: windows, restarts, replicas that are merged.

use std::time::Duration;

use crate::fold::tests::support::*;
use crate::fold::*;
use model::fleet::histogram::Histogram;
use model::fleet::job::Serving;
use model::fleet::reading::{Page, Reading, ReadingScope};
use model::fleet::served_model::ServedModel;
use model::fleet::signal::Signal as S;

/// A second of the test.
fn at(seconds: u64) -> Moment {
    NOW.plus(Duration::from_secs(seconds))
}

/// The page of a pod that answered `done` requests since it started, each within 0.1 to 0.2 s and 100 tokens long.
fn page_of(pod: &str, seconds: u64, done: u64, waiting: f64) -> Observation {
    let mut reading = Reading::new(Name::new("vllm"), ReadingScope::Serving);
    reading.pod = Some(ObjectKey::new("ns", pod));
    reading.model = Some(Name::new("m"));
    reading.signals = [
        (S::RequestsRunning, 2.0),
        (S::RequestsWaiting, waiting),
        (S::KvCache, if pod == "a" { 0.25 } else { 0.75 }),
        (S::RequestsDone, done as f64),
        (S::GeneratedTokens, 100.0 * done as f64),
        (S::Preemptions, 0.0),
    ]
    .into_iter()
    .collect();
    let buckets = vec![(0.1, 0.0), (0.2, done as f64), (f64::INFINITY, done as f64)];
    reading.histograms = vec![Histogram::new(S::Ttft, buckets).expect("it is one")];
    Observation::Page(Box::new(Page {
        node: Some(Name::new("n1")),
        at: at(seconds),
        interval: Duration::from_secs(15),
        readings: vec![reading],
    }))
}

/// A Deployment of two pods on one node.
fn two() -> Ledger {
    fold([
        node("n1", &[("nvidia.com/gpu", 8)], &[]),
        owned("a", Some("n1"), 1, "ReplicaSet", "chat"),
        owned("b", Some("n1"), 1, "ReplicaSet", "chat"),
    ])
}

fn serving(ledger: &mut Ledger, seconds: u64) -> Serving {
    let fleet = ledger.publish(at(seconds));
    let mut all = fleet.jobs.iter().filter_map(|job| job.serving.clone());
    all.next().expect("its pods say something")
}

fn only(ledger: &mut Ledger, seconds: u64) -> ServedModel {
    let [model] = serving(ledger, seconds)
        .served
        .try_into()
        .expect("one model");
    model
}

#[test]
fn the_first_page_gives_no_rates_and_no_latencies() {
    let mut ledger = two();
    ledger.apply(page_of("a", 0, 50, 1.0));
    ledger.apply(page_of("b", 1, 30, 2.0));
    let model = only(&mut ledger, 1);
    assert_eq!((model.replicas, model.measured), (2, 0));
    assert_eq!((model.running, model.waiting), (Some(4.0), Some(3.0)));
    assert_eq!((model.kv_mean, model.kv_max), (Some(0.5), Some(0.75)));
    assert_eq!(model.window_seconds, None);
    assert_eq!(model.tokens_per_second, None);
    assert_eq!(model.preemptions, None);
    assert_eq!(model.is_saturated(), None);
    assert!(
        model.ttft.is_unknown(),
        "those since the start are of another time"
    );
}

#[test]
fn rates_and_latencies_are_of_the_window_and_added_up_over_replicas() {
    let mut ledger = two();
    for (seconds, done) in [(0, 1000), (15, 1030)] {
        ledger.apply(page_of("a", seconds, done, 0.0));
        ledger.apply(page_of("b", seconds, 2 * done, 0.0));
    }
    let model = only(&mut ledger, 15);
    assert_eq!((model.measured, model.window_seconds), (2, Some(15.0)));
    assert_eq!(model.requests_per_second, Some(6.0));
    assert_eq!(model.tokens_per_second, Some(600.0));
    assert_eq!(model.preemptions, Some(0.0));
    assert_eq!(model.ttft.total(), 90.0);
    assert!(model.tpot.is_unknown(), "nobody told it");
    let median = model.ttft.quantile(0.5).expect("there are some").seconds;
    assert!((0.1..=0.2).contains(&median));
}

#[test]
fn each_replica_keeps_its_own_figures() {
    let mut ledger = two();
    for (seconds, done) in [(0, 1000), (15, 1030)] {
        ledger.apply(page_of("b", seconds, 2 * done, 3.0));
        ledger.apply(page_of("a", seconds, done, 0.0));
    }
    // The second was restarted: it has no window.
    ledger.apply(page_of("b", 30, 5, 2.0));
    let serving = serving(&mut ledger, 30);
    let of = |pod: &str| {
        let replica = serving.replica(&ObjectKey::new("ns", pod));
        let one = &replica.expect("it has metrics").figures;
        let rates = (one.window_seconds, one.requests_per_second);
        (one.waiting, one.kv_max, rates, one.ttft.total())
    };
    let first = (Some(0.0), Some(0.25), (Some(15.0), Some(2.0)), 30.0);
    assert_eq!(of("a"), first);
    assert_eq!(of("b"), (Some(2.0), Some(0.75), (None, None), 0.0));
    assert_eq!(serving.replicas.len(), 2);
    assert_eq!(serving.replica(&ObjectKey::new("ns", "c")), None);
}

#[test]
fn the_window_moves_on() {
    let mut ledger = two();
    for step in 0..200 {
        ledger.apply(page_of("a", step * 15, step * 30, 0.0));
        let seconds = only(&mut ledger, step * 15).window_seconds;
        if step * 15 < 150 {
            assert_eq!(seconds.unwrap_or(0.0), (step * 15) as f64);
        } else {
            assert!(seconds.is_some_and(|seconds| (150.0..=315.0).contains(&seconds)));
        }
    }
    let model = only(&mut ledger, 199 * 15);
    assert_eq!(model.requests_per_second, Some(2.0));
}

#[test]
fn a_restarted_replica_is_a_gap_and_no_spike() {
    let mut ledger = two();
    for (seconds, done) in [(0, 9000), (15, 9030)] {
        ledger.apply(page_of("a", seconds, done, 0.0));
        ledger.apply(page_of("b", seconds, done, 0.0));
    }
    // The second was restarted and has answered five since.
    ledger.apply(page_of("a", 30, 9060, 0.0));
    ledger.apply(page_of("b", 30, 5, 0.0));
    let model = only(&mut ledger, 30);
    assert_eq!((model.replicas, model.measured), (2, 1));
    assert_eq!(model.requests_per_second, Some(2.0));
    assert_eq!(model.ttft.total(), 60.0, "those of the first alone");
    ledger.apply(page_of("b", 45, 35, 0.0));
    let model = only(&mut ledger, 45);
    assert_eq!((model.measured, model.requests_per_second), (2, Some(4.0)));
    // A page that comes twice changes nothing.
    ledger.apply(page_of("b", 45, 35, 0.0));
    assert_eq!(only(&mut ledger, 45), model);
}

#[test]
fn a_queue_grows_over_three_readings_of_all_replicas() {
    let mut ledger = two();
    let mut counts = Vec::new();
    for (step, (a, b)) in [(1.0, 5.0), (2.0, 5.0), (4.0, 4.0), (6.0, 3.0), (6.0, 3.0)]
        .into_iter()
        .enumerate()
    {
        let seconds = step as u64 * 15;
        ledger.apply(page_of("a", seconds, 0, a));
        ledger.apply(page_of("b", seconds, 0, b));
        counts.push(only(&mut ledger, seconds).waiting_grows);
    }
    let grows = [None, None, Some(true), Some(true), Some(false)];
    assert_eq!(counts, grows, "6, 7, 8, 9, 9");
}

#[test]
fn what_is_remembered_is_saved() {
    let mut ledger = two();
    for (seconds, done) in [(0, 1000), (15, 1030), (30, 1070)] {
        ledger.apply(page_of("a", seconds, done, 0.0));
    }
    let before = only(&mut ledger, 30);
    let mut other = two();
    other.restore(ledger.save());
    assert_eq!(only(&mut other, 30), before);
}
