//! Counters beside the fold: fed the same pictures they come to the same.

use std::time::Duration;

use model::base::{Moment, Name, Rate};
use model::cost::sample::{allocated_to, device, fleet, node, pod, resting, sliced};
use model::cost::{PoolPrice, Prices};
use model::fleet::Fleet;
use model::fleet::fleet::TableState;
use model::fleet::kinds::Table;

use super::counters::OTHER;
use super::{GAP, UsageClass, UsageCounters, UsageFold, UsageSample};

fn start() -> Moment {
    super::start_of(super::hour_of(model::cost::sample::now()))
}

fn sample(seconds: u64, fleet: &Fleet) -> UsageSample {
    let mut fleet = fleet.clone();
    fleet.at = start().plus(Duration::from_secs(seconds));
    let all = Table::ALL.iter().map(|table| (*table, TableState::Live));
    fleet.known = std::sync::Arc::new(all.collect());
    let prices = Prices::default().with_pool("a", PoolPrice::Rate(Rate::from_micros(4_123_457)));
    UsageSample::of(fleet.at, &fleet, &prices)
}

/// A fleet of a few jobs, one slice among them, and a pool without a price.
fn some(jobs: usize) -> Fleet {
    let pods: Vec<_> = (0..jobs)
        .map(|at| {
            pod(
                "ns",
                &format!("train{at}-0"),
                Some("q"),
                &format!("team-{at}"),
            )
        })
        .collect();
    let devices = pods.iter().enumerate().map(|(at, pod)| {
        let device = device("n1", at as u32, "H100");
        allocated_to(if at % 2 == 0 { resting(device) } else { device }, pod)
    });
    let mut devices: Vec<_> = devices.collect();
    devices.push(device("n1", 90, "H100"));
    if let Some(pod) = pods.first() {
        devices.push(sliced(
            device("n1", 91, "H100"),
            &[("1g.10gb", Some(pod)), ("2g.20gb", None)],
        ));
    }
    fleet(vec![
        node("n1", "a", None, devices),
        node("n2", "unpriced", None, vec![device("n2", 0, "L4")]),
    ])
}

#[test]
fn counters_come_to_what_the_fold_comes_to() {
    let mut counters = UsageCounters::new(800, false);
    let mut fold = UsageFold::new(GAP, []);
    // A gap of five minutes is in neither; a step back of the clock neither.
    for (seconds, jobs) in [
        (0, 3),
        (17, 4),
        (60, 1),
        (360, 2),
        (400, 5),
        (380, 5),
        (500, 0),
        (3_590, 1),
        (3_600, 2),
        (3_700, 2),
    ] {
        let sample = sample(seconds, &some(jobs));
        counters.take(&sample);
        fold.take(sample);
    }
    let hours: Vec<_> = fold.closed().into_iter().chain(fold.open()).collect();
    let rows = || hours.iter().flat_map(|hour| &hour.rows);
    for part in UsageClass::ALL {
        let ms: u64 = rows().map(|row| row.device_ms[part as usize]).sum();
        let micros: i64 = rows()
            .filter_map(|row| row.cost_micros)
            .map(|cost| cost[part as usize])
            .sum();
        let counted: f64 = counters
            .rows()
            .iter()
            .map(|(_, row)| row.device_seconds(part))
            .sum();
        let usd: f64 = counters.rows().iter().map(|(_, row)| row.usd(part)).sum();
        assert!(
            (counted - ms as f64 / 1e3).abs() < 0.1,
            "{part:?}: {counted} s and {ms} ms"
        );
        assert!(
            (usd - micros as f64 / 1e6).abs() < 1e-3,
            "{part:?}: {usd} and {micros}"
        );
    }
    assert!(
        rows()
            .map(|row| row.device_ms.iter().sum::<u64>())
            .sum::<u64>()
            > 1_000_000
    );
    let observed: u64 = hours.iter().map(|hour| hour.observed_ms).sum();
    assert_eq!(counters.observed_seconds(), observed as f64 / 1e3);
    let unpriced = counters
        .rows()
        .into_iter()
        .filter(|(key, _)| !key.is_priced);
    assert!(unpriced.clone().count() > 0);
    assert!(
        unpriced
            .clone()
            .all(|(_, row)| row.usd(UsageClass::Unallocated) == 0.0)
    );
}

#[test]
fn rows_are_bounded_and_sums_stay_whole() {
    let mut counters = UsageCounters::new(10, false);
    let all = |counters: &UsageCounters| -> f64 {
        let rows = counters.rows();
        let times = rows
            .iter()
            .flat_map(|(_, row)| UsageClass::ALL.map(|part| row.device_seconds(part)));
        times.sum()
    };
    counters.take(&sample(0, &some(40)));
    counters.take(&sample(100, &some(40)));
    let rows = counters.rows();
    assert!(rows.len() <= 12, "{} rows", rows.len());
    assert!(counters.dropped() >= 28);
    assert!(rows.iter().any(|(key, _)| key.team == Name::from(OTHER)));
    assert!(
        (all(&counters) - 43.0 * 100.0).abs() < 0.1,
        "{}",
        all(&counters)
    );
    // An hour later the others have gone: there is room for who is there.
    for seconds in (200..4_000).step_by(100) {
        counters.take(&sample(seconds, &some(0)));
    }
    counters.take(&sample(4_000, &some(4)));
    let dropped = counters.dropped();
    assert!(
        counters
            .rows()
            .iter()
            .any(|(key, _)| key.team == Name::from("team-3"))
    );
    counters.take(&sample(4_050, &some(4)));
    assert_eq!(counters.dropped(), dropped);
}

#[test]
fn counters_have_a_job_label_only_where_enabled() {
    for (jobs, rows) in [(false, 0), (true, 2)] {
        let mut counters = UsageCounters::new(800, jobs);
        counters.take(&sample(0, &some(2)));
        let named = counters
            .rows()
            .into_iter()
            .filter(|(key, _)| !key.job.is_empty());
        assert_eq!(named.count(), rows);
    }
}
