//! Rows of `services`: each model served by a workload.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Serialize;

use model::base::quantities::counted;
use model::base::{SmallSort, natural};
use model::cost::Money;
use model::fleet::finding::{Finding, OBJECTIVE_MISSED};
use model::fleet::histogram::Latency;
use model::fleet::job::{Job, JobState};
use model::fleet::served_model::{Saturation, ServedModel};
use model::schema::one_of;

use super::jobs::money;
use super::list_price::list_usd;
use super::token_cost::usd_per_million_tokens;
use crate::{Facts, non_empty};

/// Percentiles of a latency, seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, JsonSchema)]
pub struct LatencyCell {
    /// Median (50th percentile), seconds.
    #[schemars(range(min = 0))]
    pub p50: Option<f64>,
    /// 95th percentile of the latency, seconds.
    #[schemars(range(min = 0))]
    pub p95: Option<f64>,
    /// 99th percentile of the latency, seconds.
    #[schemars(range(min = 0))]
    pub p99: Option<f64>,
    /// Lower bound, seconds, of the percentiles from `at_least_from` on, which lie above the last bucket. Null where none does.
    #[schemars(range(min = 0))]
    pub at_least: Option<f64>,
    /// The lowest such percentile; null where none lies above the last bucket.
    #[schemars(with = "Option<Percentile>")]
    pub at_least_from: Option<&'static str>,
}

/// The latency percentiles, ascending.
const PERCENTILES: [&str; 3] = ["p50", "p95", "p99"];

struct Percentile;

model::written_as!(Percentile, one_of(PERCENTILES));

/// What the time per output token is a mean of.
#[derive(Clone, Copy)]
enum TokenTimeOf {
    Requests,
    Tokens,
}

model::words! {
    impl TokenTimeOf {
        pub fn name(self) {
            Requests => "requests",
            Tokens => "tokens",
        }
    }
}

impl LatencyCell {
    pub(crate) fn of(latency: &Latency) -> Self {
        let all = [0.5, 0.95, 0.99].map(|q| latency.quantile(q));
        let [p50, p95, p99] = all.map(|quantile| quantile.map(|quantile| quantile.seconds));
        let open = all.map(|quantile| quantile.filter(|quantile| quantile.at_least));
        let first = open.iter().position(Option::is_some);
        Self {
            p50,
            p95,
            p99,
            at_least: first
                .and_then(|at| open[at])
                .map(|quantile| quantile.seconds),
            at_least_from: first.map(|at| PERCENTILES[at]),
        }
    }
}

/// Requests per second that meet the objectives.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
pub struct GoodputCell {
    /// Lower bound, requests per second.
    #[schemars(range(min = 0))]
    pub low: Option<f64>,
    /// Upper bound, requests per second.
    #[schemars(range(min = 0))]
    pub high: Option<f64>,
}

/// Latency objectives from the settings, seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ObjectivesCell {
    /// Time to first token, seconds.
    #[schemars(range(min = 0))]
    pub ttft_seconds: Option<f64>,
    /// Time per output token after the first, mean of a request, seconds.
    #[schemars(range(min = 0))]
    pub tpot_seconds: Option<f64>,
}

/// One model of one workload.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ServiceRow<'a> {
    /// Namespace of the workload.
    pub namespace: &'a str,
    /// Name of the workload.
    pub name: &'a str,
    /// Kind of the workload, `Deployment`.
    pub kind: &'a str,
    /// The model; null where its servers do not name it.
    pub model: Option<&'a str>,
    /// The serving engine: the dialect of its metrics, `vllm`; null where no request metrics are read.
    pub engine: Option<&'a str>,
    /// The team that it counts for.
    pub team: &'a str,
    /// Replicas of its workload: as its autoscaler counts them, else its pods.
    pub replicas: Option<u32>,
    /// Replicas with a recent answer; null where no request metrics are read.
    pub replicas_read: Option<u32>,
    /// Replicas with rates over the window: read twice without a restart in between.
    pub replicas_measured: u32,
    /// Requests being processed in the servers.
    #[schemars(range(min = 0))]
    pub running: Option<f64>,
    /// Requests queued in the servers.
    #[schemars(range(min = 0))]
    pub waiting: Option<f64>,
    /// KV-cache use of the fullest replica, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub kv_cache_ratio: Option<f64>,
    /// Mean KV-cache use of the replicas, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub kv_cache_mean_ratio: Option<f64>,
    /// Share of prompt tokens found in the cache, 0 to 1; mean over replicas.
    #[schemars(range(min = 0, max = 1))]
    pub prefix_hit_ratio: Option<f64>,
    /// Window of rates, latencies and preemptions, seconds. Null where no replica was read twice: these are then unknown.
    #[schemars(range(min = 0))]
    pub window_seconds: Option<f64>,
    /// Time from a request to its first token.
    pub ttft_seconds: LatencyCell,
    /// Time per output token after the first: per request where `tpot_of` says so, otherwise between two tokens.
    pub tpot_seconds: LatencyCell,
    /// What `tpot_seconds` is a mean of: a request, or the time between two tokens; null where it is unknown.
    #[schemars(with = "Option<TokenTimeOf>")]
    pub tpot_of: Option<&'static str>,
    /// Generated tokens per second.
    #[schemars(range(min = 0))]
    pub tokens_per_second: Option<f64>,
    /// Prompt tokens per second.
    #[schemars(range(min = 0))]
    pub prompt_tokens_per_second: Option<f64>,
    /// Completed requests per second.
    #[schemars(range(min = 0))]
    pub requests_per_second: Option<f64>,
    /// Requests preempted because the cache was full, in the window.
    #[schemars(range(min = 0))]
    pub preemptions: Option<f64>,
    /// Requests per second that meet all objectives: histograms tell how many meet each objective, not which, so it is a range.
    pub goodput: GoodputCell,
    /// Least share of requests that meet all objectives, 0 to 1; null without objectives or requests.
    #[schemars(range(min = 0, max = 1))]
    pub within_objectives_ratio: Option<f64>,
    /// The objectives that `[[service]]` of the settings gives.
    pub objectives: ObjectivesCell,
    /// Since when it misses an objective, RFC 3339, as the finding `objective-missed` says; null while it does not.
    #[schemars(with = "Option<model::base::Moment>")]
    pub objective_missed_since: Option<String>,
    /// Restarts of the containers of its pods; null where no pod is visible.
    pub restarts: Option<u32>,
    /// Rate of its workload's devices, USD/h.
    #[schemars(range(min = 0))]
    pub burn_usd_per_hour: Option<f64>,
    /// The part of that rate that is list prices in place of what is paid, which is not known, USD/h.
    #[schemars(range(min = 0))]
    pub list_usd_per_hour: Option<f64>,
    /// USD per million generated tokens at current rates: the workload's rate over all tokens that it generates.
    #[schemars(range(min = 0))]
    pub usd_per_million_tokens: Option<f64>,
    /// Whether it is saturated; null where it is not known.
    pub saturated: Option<bool>,
    /// Why it is saturated; empty where it is not.
    #[schemars(with = "Vec<Saturation>")]
    pub saturated_by: Vec<&'static str>,
    /// Its state in words: `objective missed; saturated: waiting`, `ok`, `no request metrics`; null where it is not known.
    pub state: Option<String>,
    /// Name of the HorizontalPodAutoscaler of its workload.
    pub scaler: Option<&'a str>,
}

/// The place, among the models of a job, of a service without request metrics.
pub const UNREAD: usize = u32::MAX as usize;

/// What is known of a service without request metrics.
static UNREAD_MODEL: LazyLock<ServedModel> = LazyLock::new(ServedModel::default);

/// Every served model by namespace, workload and model: the index of the job, and of the model within the job.
pub fn places(facts: &Facts) -> Vec<(usize, usize)> {
    sorted(facts, read(facts).collect())
}

/// Every served model, and each workload that serves, by its kind or its autoscaler, and of which no request metrics are read.
pub fn all_places(facts: &Facts) -> Vec<(usize, usize)> {
    let serves = |job: &Job| {
        let is_scaled = || facts.fleet.scaling.pod_scalers_of(job).next().is_some();
        let runs = matches!(job.state, JobState::Running | JobState::Starting);
        let serving = job.serving.as_ref();
        let is_read = serving.is_some_and(|all| !all.served.is_empty());
        !is_read && runs && job.devices_allocated > 0 && (job.is_service() || is_scaled())
    };
    let jobs = facts.fleet.jobs.iter().enumerate();
    let unread = jobs.filter(|(_, job)| serves(job));
    let unread = unread.map(|(at, _)| (at, UNREAD));
    sorted(facts, read(facts).chain(unread).collect())
}

/// The served models, job by job.
fn read(facts: &Facts) -> impl Iterator<Item = (usize, usize)> {
    facts.fleet.jobs.iter().enumerate().flat_map(|(at, job)| {
        let served = job.serving.as_ref().map_or(0, |all| all.served.len());
        (0..served).map(move |within| (at, within))
    })
}

fn sorted(facts: &Facts, mut all: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    let key = |at: usize| &facts.fleet.jobs[at].id.key;
    all.small_sort_by(|a, b| {
        let (one, other) = (key(a.0), key(b.0));
        natural(&one.namespace, &other.namespace)
            .then_with(|| natural(&one.name, &other.name))
            .then(a.cmp(b))
    });
    all
}

/// The service at an index pair of [`places`].
pub fn at(facts: &Facts, (job, within): (usize, usize)) -> Option<(&Job, &ServedModel)> {
    let job = facts.fleet.jobs.get(job)?;
    if within == UNREAD {
        return Some((job, &UNREAD_MODEL));
    }
    Some((job, job.serving.as_ref()?.served.get(within)?))
}

/// Every service, by namespace, workload and model.
pub fn rows(facts: &Facts) -> Vec<ServiceRow<'_>> {
    let all = places(facts).into_iter();
    let all = all.filter_map(|place| at(facts, place));
    all.map(|(job, served)| row(facts, job, served)).collect()
}

/// The unique key of a service: `NAMESPACE/NAME (KIND, MODEL)`.
pub fn key(job: &Job, served: &ServedModel) -> String {
    let (path, kind) = (&job.id.key, &job.id.kind);
    match served.model.as_deref() {
        Some(model) => format!("{path} ({kind}, {model})"),
        None => format!("{path} ({kind})"),
    }
}

/// The autoscaler of a service's workload.
pub fn scaler<'a>(facts: &'a Facts, job: &'a Job) -> Option<&'a str> {
    let mut scalers = facts.fleet.scaling.pod_scalers_of(job);
    non_empty(&scalers.next()?.key.name)
}

/// The finding that says since when it misses an objective.
pub fn missed<'a>(facts: &'a Facts, job: &Job, served: &ServedModel) -> Option<&'a Finding> {
    let mut all = facts.fleet.findings.iter();
    let is_its = |id: &str| id.ends_with(&format!(":{}", served.of_kind(&job.id.kind)));
    all.find(|own| {
        *own.code == *OBJECTIVE_MISSED && own.subject.key == job.id.key && is_its(&own.id)
    })
}

/// Replicas of a service's workload: as its autoscaler counts them, else its pods, where each pod is a replica. At least those that
/// answered just now: an autoscaler counts every 15 seconds.
pub fn replicas(facts: &Facts, job: &Job, served: &ServedModel) -> Option<u32> {
    let mut scalers = facts.fleet.scaling.pod_scalers_of(job);
    let pods = || {
        let present = job.pods.iter().map(|pod| &pod.seen);
        let present = present.filter(|pod| pod.deleted.is_none() && !pod.phase.is_over());
        (job.gang.is_none()).then(|| present.count() as u32)
    };
    let count = scalers.find_map(|scaler| scaler.current).or_else(pods);
    let read = served.replicas;
    Some(count.unwrap_or(0).max(read)).filter(|count| *count > 0)
}

/// Restarts of the containers of a workload's pods.
pub fn restarts(job: &Job) -> Option<u32> {
    let failures = job.pods.iter().filter_map(|pod| pod.seen.failure.as_ref());
    let restarts = failures.map(|failure| failure.restarts);
    (!job.pods.is_empty()).then(|| restarts.fold(0, u32::saturating_add))
}

/// The state of a service that misses an objective.
pub const OBJECTIVE_IS_MISSED: &str = "objective missed";

/// What else is wrong with a service: `saturated: waiting; a slow replica`. `None` where nothing is known to be.
pub fn trouble(job: &Job, served: &ServedModel) -> Option<String> {
    let words = |why: Saturation| match (why, served.preemptions) {
        (Saturation::Preempts, Some(count)) => counted(count as u64, "preemption"),
        _ => why.name().to_owned(),
    };
    let why: Vec<String> = served.saturation().map(words).collect();
    let saturated = (!why.is_empty()).then(|| format!("saturated: {}", why.join(", ")));
    let slow = job.slow_replica().map(|_| String::from("a slow replica"));
    let words: Vec<String> = saturated.into_iter().chain(slow).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The state of a service in words: `objective missed; saturated: waiting`. `None` where it is not known.
pub fn state(facts: &Facts, job: &Job, served: &ServedModel) -> Option<String> {
    if served.replicas == 0 {
        return Some(String::from("no request metrics"));
    }
    let missed = missed(facts, job, served).map(|_| String::from(OBJECTIVE_IS_MISSED));
    let mut words: Vec<String> = missed.into_iter().chain(trouble(job, served)).collect();
    if words.is_empty() && served.is_saturated() == Some(false) {
        words.push(String::from("ok"));
    }
    (!words.is_empty()).then(|| words.join("; "))
}

/// Least share of requests that meet all objectives, 0 to 1; `None` without objectives, or while no request is answered.
pub fn within_objectives(served: &ServedModel) -> Option<f64> {
    let (low, _) = served.goodput()?;
    let rate = served.requests_per_second.filter(|rate| *rate > 0.0)?;
    Some((low / rate).clamp(0.0, 1.0))
}

/// The row of one service.
pub fn row<'a>(facts: &'a Facts, job: &'a Job, served: &'a ServedModel) -> ServiceRow<'a> {
    let (low, high) = served.goodput().unzip();
    let rate = money(facts, job).map(|spend| spend.rate);
    let tpot = match (served.tpot.is_unknown(), served.tpot_of_requests) {
        (true, _) => None,
        (false, true) => Some(TokenTimeOf::Requests.name()),
        (false, false) => Some(TokenTimeOf::Tokens.name()),
    };
    ServiceRow {
        namespace: job.namespace(),
        name: job.name(),
        kind: &job.id.kind,
        model: served.model.as_deref(),
        engine: non_empty(&served.engine),
        team: &job.team,
        replicas: replicas(facts, job, served),
        replicas_read: (served.replicas > 0).then_some(served.replicas),
        replicas_measured: served.measured,
        running: served.running,
        waiting: served.waiting,
        kv_cache_ratio: served.kv_max,
        kv_cache_mean_ratio: served.kv_mean,
        prefix_hit_ratio: served.prefix_hit,
        window_seconds: served.window_seconds,
        ttft_seconds: LatencyCell::of(&served.ttft),
        tpot_seconds: LatencyCell::of(&served.tpot),
        tpot_of: tpot,
        tokens_per_second: served.tokens_per_second,
        prompt_tokens_per_second: served.prompt_tokens_per_second,
        requests_per_second: served.requests_per_second,
        preemptions: served.preemptions,
        goodput: GoodputCell { low, high },
        within_objectives_ratio: within_objectives(served),
        objectives: ObjectivesCell {
            ttft_seconds: served.objectives.ttft,
            tpot_seconds: served.objectives.tpot,
        },
        objective_missed_since: missed(facts, job, served).map(|own| own.since.rfc3339()),
        restarts: restarts(job),
        burn_usd_per_hour: rate.map(Money::usd),
        list_usd_per_hour: list_usd(rate),
        usd_per_million_tokens: usd_per_million_tokens(facts, job),
        saturated: served.is_saturated(),
        saturated_by: served.saturation().map(Saturation::name).collect(),
        state: state(facts, job, served),
        scaler: scaler(facts, job),
    }
}
