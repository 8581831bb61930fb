//! Tests of the rows of services.

use std::sync::Arc;
use std::time::Duration;

use model::base::Name;
use model::fleet::finding::{OBJECTIVE_MISSED, Subject};
use model::fleet::job::JobState;
use model::fleet::observe::Phase;
use model::fleet::scaling::PodScaler;

use super::*;
use crate::rows::services::{GoodputCell, UNREAD, rows};
use crate::sample::facts;
use crate::text::UNKNOWN;

/// A service's cell in a printed table.
fn printed(facts: &Facts, place: (usize, usize), id: &str) -> String {
    let column = KIND.columns.iter().find(|column| column.id == id);
    let row = (place.0 as u32, place.1 as u32);
    let cell = (column.expect("a column").cell)(facts, row);
    cell.value.plain(facts.now).into_owned()
}

#[test]
fn a_model_is_a_row_with_what_is_known_of_it() {
    let facts = facts();
    let all = rows(&facts);
    let [unknown, known] = all.as_slice() else {
        panic!("{} rows", all.len())
    };
    assert_eq!((unknown.running, unknown.saturated), (None, None));
    assert_eq!(unknown.ttft_seconds.p50, None);
    assert_eq!(
        unknown.goodput,
        GoodputCell {
            low: None,
            high: None
        }
    );
    assert_eq!(known.kv_cache_ratio, Some(0.96), "of the fullest replica");
    assert_eq!(known.saturated_by, ["kv-cache"]);
    let ttft = known.ttft_seconds;
    assert_eq!((ttft.p99, ttft.at_least), (Some(0.5), Some(0.5)));
    assert_eq!(ttft.at_least_from, Some("p95"));
    let place = places(&facts)[1];
    let cells = ["ttft", "ttft-p99"].map(|id| printed(&facts, place, id));
    assert_eq!(cells, [">=500ms", ">=500ms"]);
    assert!(!printed(&facts, place, "ttft-p50").starts_with(">="));
    assert_eq!(printed(&facts, places(&facts)[0], "ttft"), UNKNOWN);
    assert!(ttft.p50.is_some_and(|p50| (0.1..0.5).contains(&p50)));
    // 40 to 90 of 100 are within 0.4 s, at 10 a second.
    let (low, high) = (known.goodput.low, known.goodput.high);
    assert_eq!((low, high), (Some(4.0), Some(9.0)));
    assert_eq!(goodput((4.0, 9.0)), "≥4.00");
    assert_eq!(goodput((12.5, 12.5)), "12.5");
    // Both models together generate 1200 tokens a second.
    let usd = known.burn_usd_per_hour.expect("has a price");
    let cost = known.usd_per_million_tokens.expect("has a price");
    assert!((cost - usd / 4.32).abs() < 1e-9, "{cost} of {usd}");
    // Part of the rate is by list, and so is what tokens cost by it.
    let (rate, tokens) = ("burn", "per-token");
    let is_marked = |id| printed(&facts, place, id).ends_with('*');
    assert_eq!(is_marked(rate), is_marked(tokens));
    let (job, served) = at(&facts, place).expect("it is there");
    assert_eq!(key(job, served), "nlp/train (Job, org/llama)");
    let shown = words(&facts, job, served);
    assert!(
        shown.starts_with("1 × vllm · over the last 2m · TTFT p95 >=500ms (objective 400ms) · 40% within objectives · 1200 tok/s · goodput ≥4.00/s · $"),
        "{shown}"
    );
    assert!(
        shown.ends_with(" per million tokens · saturated: kv-cache"),
        "{shown}"
    );
}

#[test]
fn a_single_reading_of_each_server_is_noted() {
    let mut facts = facts();
    assert_eq!(read_once(&facts), None, "one was read twice");
    let fleet = std::sync::Arc::make_mut(&mut facts.fleet);
    let once = |job: &std::sync::Arc<Job>| {
        let mut job = (**job).clone();
        for one in job
            .serving
            .iter_mut()
            .flat_map(|serving| &mut serving.served)
        {
            one.window_seconds = None;
        }
        std::sync::Arc::new(job)
    };
    fleet.jobs = fleet.jobs.iter().map(once).collect();
    assert!(read_once(&facts).is_some_and(|message| message.contains("--watch")));
    std::sync::Arc::make_mut(&mut facts.fleet).jobs = std::sync::Arc::from([]);
    assert_eq!(read_once(&facts), None, "nothing is served");
}

#[test]
fn a_service_says_which_objective_it_misses_and_since_when() {
    let mut facts = facts();
    let (other, place) = (places(&facts)[0], places(&facts)[1]);
    let (job, served) = at(&facts, place).expect("it is there");
    assert_eq!(objective(served).as_deref(), Some("TTFT 400ms"));
    let mut both = served.clone();
    both.objectives.tpot = Some(0.08);
    assert_eq!(objective(&both).as_deref(), Some("TTFT 400ms, TPOT 80ms"));
    assert_eq!(printed(&facts, place, "missed"), UNKNOWN);
    let mut finding = facts.fleet.findings[0].clone();
    finding.code = Name::new(OBJECTIVE_MISSED);
    finding.subject = Subject {
        kind: "Job",
        key: job.id.key.clone(),
    };
    let which = served.of_kind(&job.id.kind);
    finding.id = Name::from(format!("{OBJECTIVE_MISSED}:Job:{}:{which}", job.id.key));
    finding.since = facts.now.minus(Duration::from_secs(22 * 60));
    let since = finding.since.rfc3339();
    Arc::make_mut(&mut facts.fleet).findings = Arc::from([finding]);
    let cells = ["missed", "state"].map(|id| printed(&facts, place, id));
    assert_eq!(cells, ["22m", "objective missed; saturated: kv-cache"]);
    assert_eq!(printed(&facts, other, "missed"), UNKNOWN, "another model");
    let (job, served) = at(&facts, place).expect("it is there");
    let row = row(&facts, job, served);
    assert_eq!(row.objective_missed_since, Some(since));
    let words = words(&facts, job, served);
    assert!(words.contains(" · objective missed for 22m · "), "{words}");
}

#[test]
fn a_service_without_request_metrics_has_a_row_that_says_so() {
    for kind in ["Deployment", "LeaderWorkerSet"] {
        says_so(kind);
    }
}

fn says_so(kind: &'static str) {
    let mut facts = facts();
    let before = all_places(&facts);
    let mut jobs = facts.fleet.jobs.to_vec();
    let is_new = |at: &usize| jobs[*at].serving.is_none() && !before.contains(&(*at, UNREAD));
    let at = (0..jobs.len()).find(is_new).expect("one serves nothing");
    let job = Arc::make_mut(&mut jobs[at]);
    job.id.kind = Name::new(kind);
    job.state = JobState::Running;
    job.devices_allocated = 1;
    Arc::make_mut(&mut facts.fleet).jobs = jobs.into();
    let after = all_places(&facts);
    assert_eq!(after.len(), before.len() + 1);
    let place = (at, UNREAD);
    assert!(after.contains(&place) && !before.contains(&place));
    let cells = ["state", "replicas", "ttft"].map(|id| printed(&facts, place, id));
    assert_eq!(cells, ["no request metrics", UNKNOWN, UNKNOWN]);
    let row = (place.0 as u32, place.1 as u32);
    let (job, served) = service(&facts, row).expect("a row");
    let json = self::row(&facts, job, served);
    assert_eq!((json.engine, json.replicas), (None, None));
}

#[test]
fn replicas_are_those_that_the_autoscaler_counts_else_pods() {
    let mut facts = facts();
    let place = places(&facts)[1];
    let mut jobs = facts.fleet.jobs.to_vec();
    let job = Arc::make_mut(&mut jobs[place.0]);
    (job.gang, job.id.kind) = (None, Name::new("Deployment"));
    let mut pod = (*job.pods[0]).clone();
    let seen = Arc::make_mut(&mut pod.seen);
    (seen.phase, seen.deleted) = (Phase::Running, None);
    let present = Arc::new(pod.clone());
    Arc::make_mut(&mut pod.seen).phase = Phase::Succeeded;
    let ended = Arc::new(pod);
    job.pods = Box::from([Arc::clone(&present), present, ended]);
    let scaler = PodScaler {
        key: ObjectKey::new(job.namespace().clone(), "hpa"),
        target: (job.id.kind.clone(), job.name().clone()),
        current: Some(7),
        ..PodScaler::default()
    };
    let fleet = Arc::make_mut(&mut facts.fleet);
    fleet.jobs = jobs.into();
    let shown = |facts: &Facts, place| {
        let (job, served) = at(facts, place).expect("a service");
        let row = row(facts, job, served);
        let cell = printed(facts, place, "replicas");
        (cell, row.replicas, row.replicas_read)
    };
    let cell = |words: &str, all, read| (words.to_owned(), Some(all), read);
    assert_eq!(shown(&facts, place), cell("1/2", 2, Some(1)), "one answers");
    let unread = (place.0, UNREAD);
    assert_eq!(shown(&facts, unread), cell("2", 2, None));
    Arc::make_mut(&mut facts.fleet).scaling.pod_scalers = Arc::from([Arc::new(scaler)]);
    assert_eq!(shown(&facts, place), cell("1/7", 7, Some(1)));
    assert_eq!(shown(&facts, unread), cell("7", 7, None));
}

#[test]
fn the_time_between_tokens_is_not_held_against_the_objective_of_a_request() {
    let facts = facts();
    let (job, served) = at(&facts, places(&facts)[1]).expect("it is there");
    let mut one = served.clone();
    (one.tpot, one.objectives.tpot) = (one.ttft.clone(), Some(0.01));
    let shown = words(&facts, job, &one);
    assert!(shown.contains(" · ITL p95 >=500ms · "), "{shown}");
    one.tpot_of_requests = true;
    let shown = words(&facts, job, &one);
    assert!(
        shown.contains(" · TPOT p95 >=500ms (objective 10ms) · "),
        "{shown}"
    );
}
