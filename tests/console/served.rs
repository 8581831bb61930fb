//! Models that workloads serve, as rows of the console.

use std::sync::Arc;

use console::color::ColorDepth;
use console::{AppOptions, Msg};
use model::base::Name;
use model::fleet::device::Pod;
use model::fleet::histogram::{Histogram, Latency};
use model::fleet::job::Serving;
use model::fleet::served_model::{Objectives, ServedModel, ServedReplica};
use model::fleet::signal::Signal;
use table::Facts;
use table::navigation::ViewId;

use crate::frames::{SMALL, console, drawn, press};

fn latency(buckets: &[(f64, f64)]) -> Latency {
    let histogram = Histogram::new(Signal::Ttft, buckets.to_vec()).expect("it is one");
    let mut latency = Latency::default();
    latency.add(histogram.whole());
    latency
}

/// The same fleet, in which each job with pods serves a model: every third is saturated, of every third little is known.
pub fn served(facts: &Facts) -> Facts {
    let mut fleet = (*facts.fleet).clone();
    let serve = |(at, job): (usize, &Arc<model::fleet::job::Job>)| {
        let mut job = (**job).clone();
        let open = f64::INFINITY;
        let known = ServedModel {
            running: Some(7.0),
            waiting: Some(3.0 + at as f64),
            kv_mean: Some(0.5),
            kv_max: Some(if at % 3 == 0 { 0.97 } else { 0.62 }),
            prefix_hit: Some(0.25),
            window_seconds: Some(150.0),
            tokens_per_second: Some(1234.0),
            requests_per_second: Some(10.0),
            preemptions: Some(if at % 3 == 0 { 4.0 } else { 0.0 }),
            waiting_grows: Some(false),
            ttft: latency(&[(0.1, 40.0), (0.5, 96.0), (open, 100.0)]),
            tpot: latency(&[(0.02, 40.0), (0.05, 60.0), (open, 100.0)]),
            tpot_of_requests: true,
            objectives: Objectives {
                ttft: Some(0.5),
                tpot: Some(0.05),
            },
            ..ServedModel::default()
        };
        let one = ServedModel {
            model: Some(Name::new("meta-llama/Llama-3.1-8B-Instruct")),
            engine: Name::new("vllm"),
            replicas: 3,
            measured: 3,
            ..if at % 3 == 2 {
                ServedModel::default()
            } else {
                known
            }
        };
        let replica = |pod: &Arc<Pod>| ServedReplica {
            pod: pod.key().clone(),
            figures: one.clone(),
        };
        let mut replicas: Vec<ServedReplica> = job.pods.iter().map(replica).collect();
        replicas.sort_by(|a, b| a.pod.cmp(&b.pod));
        job.serving = (!job.pods.is_empty()).then(|| Serving {
            servers: 3,
            served: vec![one],
            replicas,
            ..Serving::default()
        });
        Arc::new(job)
    };
    fleet.jobs = fleet.jobs.iter().enumerate().map(serve).collect();
    Facts {
        fleet: Arc::new(fleet),
        ..facts.clone()
    }
}

/// The lines of the view of services, as it is reached by this.
fn lines(keys: &str, size: (u16, u16)) -> Vec<String> {
    let options = AppOptions {
        depth: ColorDepth::None,
        ..AppOptions::default()
    };
    let mut app = console(&served(&SMALL), ViewId::Fleet, size, options);
    let _ = press(&mut app, keys);
    let (buf, _) = drawn(&app, size);
    let line = |y| {
        (0..size.0)
            .map(|x| buf[(x, y)].symbol())
            .collect::<String>()
    };
    (0..size.1).map(line).collect()
}

#[test]
fn services_open_by_their_names_and_lead_to_their_job() {
    for word in ["services", "svc", "service"] {
        let all = lines(&format!(":{word}\n"), (200, 50)).join("\n");
        for wanted in [
            "NAME",
            "REPLICAS",
            "MODEL",
            "TTFT P95",
            "TPOT P95",
            "TOK/S",
            "GOODPUT/S",
            "$/M TOK",
            "SCALER",
            "meta-llama/Llama-3.1-8B-Instruct",
            "saturated: kv-cache, 4 preemptions",
            "493ms",
            "50ms+",
        ] {
            assert!(all.contains(wanted), "{word}: {wanted} in\n{all}");
        }
    }
    let page = lines(":svc\n\n", (200, 50)).join("\n");
    assert!(
        page.contains("Llama-3.1-8B-Instruct: 3 × vllm · over the last 2m · TTFT p95"),
        "{page}"
    );
}

#[test]
fn the_page_of_a_service_lists_its_replicas() {
    for (size, wanted) in [
        (
            (200, 50),
            &[
                "NODE", "READY", "RESTARTS", "RUNNING", "WAITING", "KV", "TTFT P95", "TPOT P95",
            ][..],
        ),
        ((80, 24), &["READY", "WAITING", "TTFT P95"]),
    ] {
        let all = lines(":svc\n\n", size);
        let is_head = |line: &&String| line.contains("READY");
        let at = all.iter().position(|line| is_head(&line));
        let at = at.unwrap_or_else(|| panic!("{}", all.join("\n")));
        for title in wanted {
            assert!(all[at].contains(title), "{title} in {}", all[at]);
        }
        assert!(all[at + 1].contains("493ms"), "{}", all.join("\n"));
    }
}

#[test]
fn services_fit_a_small_screen() {
    let all = lines(":svc\n", (80, 24));
    let head = all.iter().find(|line| line.contains("TTFT P95"));
    let head = head.unwrap_or_else(|| panic!("{}", all.join("\n")));
    for wanted in ["NAME", "WAITING", "KV", "TTFT P95", "STATE"] {
        assert!(head.contains(wanted), "{head}");
    }
}

#[test]
fn faults_alone_are_the_saturated() {
    let mut all = lines(":svc\nz", (200, 50));
    // Below the table is the page of the row under the cursor.
    all.truncate(
        all.iter()
            .position(|line| line.contains('╭'))
            .unwrap_or(all.len()),
    );
    let saturated = all
        .iter()
        .filter(|line| line.contains("saturated:"))
        .count();
    let rows = all.iter().filter(|line| line.contains("Instruct")).count();
    assert!(saturated > 0 && saturated == rows, "{}", all.join("\n"));
}

#[test]
fn advice_about_jobs_and_pools_has_its_total_below() {
    let size = (120, 40);
    let options = AppOptions {
        depth: ColorDepth::None,
        ..AppOptions::default()
    };
    let facts = table::sample::advised(&SMALL);
    let mut about_pool = facts.advice[0].clone();
    about_pool.job.kind = Name::new(model::advice::POOL);
    about_pool.job.key = model::base::ObjectKey::new("", "h100");
    about_pool.action = model::advice::Action::RemoveNodes(Box::from([Name::new("h100-7")]));
    about_pool.saves = Some(model::cost::Money::known(model::base::Rate::from_micros(
        1_000_000_000,
    )));
    let answers = table::waiting::explanations::JobExplanations {
        pools: Arc::from([about_pool]),
        ..Default::default()
    };
    let facts = Facts {
        answers: Arc::new(answers),
        ..facts
    };
    let mut app = console(&facts, ViewId::Fleet, size, options);
    let _ = app.update(Msg::JobExplanations(Arc::clone(&facts.answers)));
    let _ = press(&mut app, ":advice\n");
    let (buf, _) = drawn(&app, size);
    let line = |y| (0..size.0).map(|x| buf[(x, y)].symbol()).collect();
    let all: Vec<String> = (0..size.1).map(line).collect();
    let all = all.join("\n");
    assert!(all.contains("pool h100"), "{all}");
    let total = table::kinds::advice::total_words(table::kinds::advice::all(&facts).into_iter());
    let total = total.expect("there is advice");
    assert!(
        total.contains("known savings: $") && all.contains(&total),
        "{total} in\n{all}"
    );
}
