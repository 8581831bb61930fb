//! Services as `get` has them against what the simulated world knows of their requests: pages are served, read, observed and joined as
//! in a console, in virtual time.

use std::time::Duration;

use model::base::ObjectKey;
use sim::change::{Request, Resource, SimBackend, WorldChange};
use sim::world::Options;
use table::rows::services::{ServiceRow, rows};

use super::accounts::{Lived, begin, memory};

/// vLLM's bounds, seconds.
const TTFT: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0,
];
const TPOT: &[f64] = &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3];

fn lived(devices: u32) -> Lived {
    let options = Options {
        devices: Some(devices),
        ..Options::new(begin().plus(Duration::from_secs(12 * 3600)))
    };
    Lived::begin(options, false, memory())
}

fn live(lived: &mut Lived, seconds: u64) {
    let to = lived.world.now().plus(Duration::from_secs(seconds));
    lived.live(to, Duration::from_secs(15), Some(1));
}

/// The bucket around a latency.
fn around(bounds: &[f64], value: f64) -> (f64, f64) {
    let at = bounds.partition_point(|bound| *bound < value);
    let low = at.checked_sub(1).map_or(0.0, |at| bounds[at]);
    (low, bounds.get(at).copied().unwrap_or(f64::INFINITY))
}

/// True when a percentile lies in the bucket of the true one.
fn within(bounds: &[f64], mut truth: Vec<f64>, q: f64, estimate: Option<f64>) {
    truth.sort_by(f64::total_cmp);
    let rank = ((q * truth.len() as f64).ceil() as usize).clamp(1, truth.len());
    let (low, high) = around(bounds, truth[rank - 1]);
    let estimate = estimate.expect("is known");
    assert!(
        low <= estimate && estimate <= high,
        "p{}: {estimate} of {} requests, in truth {}",
        q * 100.0,
        truth.len(),
        truth[rank - 1]
    );
}

fn of<'r, 'f>(rows: &'r [ServiceRow<'f>], service: &ObjectKey) -> &'r ServiceRow<'f> {
    let mut found = rows.iter();
    let found =
        found.find(|row| row.namespace == &*service.namespace && row.name == &*service.name);
    found.unwrap_or_else(|| panic!("{service} is no row"))
}

#[test]
fn services_are_what_the_world_knows_of_their_requests() {
    let mut lived = lived(200);
    live(&mut lived, 15);
    let mut saturated = 0;
    let mut compared = 0;
    // A half hour, the surge of the small chat in it.
    for _ in 0..12 {
        live(&mut lived, 150);
        let now = lived.world.now();
        let facts = lived.store.publish(now);
        let rows = rows(&facts);
        let services = lived.world.served();
        assert!(services.len() >= 2, "{services:?}");
        assert_eq!(rows.len(), services.len());
        for service in services {
            let row = of(&rows, &service);
            let seconds = row.window_seconds.expect("was read often");
            let from = now.minus(Duration::from_secs_f64(seconds));
            let truth = lived.world.serving_truth(&service, from, now);
            let (running, waiting) = (truth.running as f64, truth.waiting as f64);
            assert_eq!((row.running, row.waiting), (Some(running), Some(waiting)));
            let replicas = u32::try_from(truth.replicas).ok();
            let mut jobs = facts.fleet.jobs.iter();
            let job = jobs.find(|job| job.id.key == service);
            let serving = job.and_then(|job| job.serving.as_ref());
            let own = serving.expect("it serves").replicas.iter();
            let own: f64 = own.filter_map(|one| one.figures.running).sum();
            assert_eq!(own, running, "each replica has its part");
            if row.replicas_read != replicas || Some(row.replicas_measured) != replicas {
                // One came or went within the window.
                continue;
            }
            compared += 1;
            let tokens = row.tokens_per_second.expect("was read often");
            assert!((tokens - truth.tokens / seconds).abs() < 1e-6, "{tokens}");
            assert!(row.usd_per_million_tokens.is_some_and(|usd| usd > 0.0));
            for q in [0.5, 0.95, 0.99] {
                let percentile = |cell: &table::rows::services::LatencyCell| match q {
                    0.5 => cell.p50,
                    0.95 => cell.p95,
                    _ => cell.p99,
                };
                within(TTFT, truth.ttft.clone(), q, percentile(&row.ttft_seconds));
                within(TPOT, truth.tpot.clone(), q, percentile(&row.tpot_seconds));
            }
            saturated += usize::from(row.saturated == Some(true));
        }
    }
    assert!(compared > 20, "{compared} compared");
    assert!(
        saturated > 0 && saturated < compared,
        "{saturated} of {compared}"
    );
}

#[test]
fn a_restarted_replica_is_a_gap_in_its_service() {
    let mut lived = lived(500);
    live(&mut lived, 300);
    let service = ObjectKey::new("prod", "ranker-v3");
    let before = {
        let facts = lived.store.publish(lived.world.now());
        of(&rows(&facts), &service).tokens_per_second
    };
    let before = before.expect("was read often");
    let pods = lived
        .world
        .objects()
        .into_iter()
        .filter_map(|object| match object {
            WorldChange::Put(Resource::Pods, pod) => {
                let name = pod["metadata"]["name"].as_str()?.to_owned();
                name.starts_with("ranker-v3")
                    .then(|| ObjectKey::new("prod", name))
            }
            _ => None,
        });
    let pod = pods.take(1).next().expect("it has pods");
    lived.request(Request::Delete(Resource::Pods, pod, Some(1)));
    let mut came_back = false;
    for _ in 0..30 {
        live(&mut lived, 15);
        let facts = lived.store.publish(lived.world.now());
        let rows = rows(&facts);
        let row = of(&rows, &service);
        let tokens = row.tokens_per_second.unwrap_or(0.0);
        assert!(tokens < 1.6 * before, "{tokens} after {before}");
        came_back |= Some(row.replicas_measured) < row.replicas_read;
    }
    assert!(came_back, "the new pod begins with no window");
}
