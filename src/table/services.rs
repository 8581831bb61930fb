//! Rows of `services`: each model served by a workload, its performance, and the cost of a million tokens.

use schemars::JsonSchema;
use serde::Serialize;

use model::base::{SmallSort, natural};
use model::cost::Money;
use model::fleet::histogram::Latency;
use model::fleet::job::Job;
use model::fleet::served_model::{Saturation, ServedModel};
use model::schema::one_of;

use super::jobs::money;
use super::list_price::{list_usd, rate_cell};
use super::select::Labelled;
use super::table::Column;
use super::text::{UNKNOWN, amount, latency, or_unknown, percent, usd, word};
use super::{Facts, non_empty};

/// Latency percentiles.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
pub struct LatencyCell {
    /// Median (50th percentile), seconds.
    #[schemars(range(min = 0))]
    pub p50: Option<f64>,
    /// 95th percentile, seconds.
    #[schemars(range(min = 0))]
    pub p95: Option<f64>,
    /// 99th percentile, seconds.
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

/// One of [`PERCENTILES`].
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
        /// Name in JSON.
        pub fn name(self) {
            Requests => "requests",
            Tokens => "tokens",
        }
    }
}

impl LatencyCell {
    fn of(latency: &Latency) -> Self {
        let all = [0.5, 0.95, 0.99].map(|q| latency.quantile(q));
        let [p50, p95, p99] = all.map(|told| told.map(|told| told.seconds));
        let open = all.map(|told| told.filter(|told| told.at_least));
        let first = open.iter().position(Option::is_some);
        Self {
            p50,
            p95,
            p99,
            at_least: first.and_then(|at| open[at]).map(|told| told.seconds),
            at_least_from: first.map(|at| PERCENTILES[at]),
        }
    }

    /// A percentile as a table cell, by its index in [`PERCENTILES`].
    fn words(&self, at: usize) -> String {
        let seconds = [self.p50, self.p95, self.p99][at];
        let from = self.at_least_from;
        let open = from.is_some_and(|from| PERCENTILES[..=at].contains(&from));
        format!("{}{}", if open { ">=" } else { "" }, latency(seconds))
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
    /// The labels of its workload and of the workload's pods.
    #[serde(skip)]
    pub labels: Labelled<'a>,
    /// Namespace of the workload.
    pub namespace: &'a str,
    /// Name of the workload.
    pub name: &'a str,
    /// Kind of the workload, `Deployment`.
    pub kind: &'a str,
    /// The model; null where its servers do not name it.
    pub model: Option<&'a str>,
    /// The serving engine: the dialect of its metrics, `vllm`.
    pub engine: &'a str,
    /// The team that it counts for.
    pub team: &'a str,
    /// Pods with a recent answer.
    pub replicas: u32,
    /// Replicas with rates over the window: read twice without a restart in between.
    pub replicas_measured: u32,
    /// Requests being processed.
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
    /// The objectives that `[[service]]` of the settings gives.
    pub objectives: ObjectivesCell,
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
    /// Name of the HorizontalPodAutoscaler of its workload.
    pub scaler: Option<&'a str>,
}

type Row<'a> = ServiceRow<'a>;

/// Columns as a table.
pub(super) fn columns<'a>() -> Vec<Column<ServiceRow<'a>>> {
    vec![
        Column::text("NAMESPACE", |row: &Row<'_>| row.namespace.to_owned()),
        Column::text("NAME", |row| row.name.to_owned()),
        Column::wide_text("KIND", |row: &Row<'_>| row.kind.to_owned()),
        Column::text("MODEL", |row: &Row<'_>| word(row.model)),
        Column::wide_text("ENGINE", |row: &Row<'_>| row.engine.to_owned()),
        Column::wide_text("TEAM", |row: &Row<'_>| row.team.to_owned()),
        Column::number("REPLICAS", |row: &Row<'_>| row.replicas.to_string()),
        Column::number("RUNNING", |row: &Row<'_>| amount(row.running)),
        Column::number("WAITING", |row: &Row<'_>| amount(row.waiting)),
        Column::number("KV", |row: &Row<'_>| percent(row.kv_cache_ratio)).by("kv_cache_ratio"),
        Column::wide_number("KV MEAN", |row: &Row<'_>| percent(row.kv_cache_mean_ratio))
            .by("kv_cache_mean_ratio"),
        Column::wide_number("PREFIX HIT", |row: &Row<'_>| percent(row.prefix_hit_ratio))
            .by("prefix_hit_ratio"),
        Column::wide_number("TTFT P50", |row: &Row<'_>| row.ttft_seconds.words(0))
            .by("ttft_seconds.p50"),
        Column::number("TTFT P95", |row: &Row<'_>| row.ttft_seconds.words(1))
            .by("ttft_seconds.p95"),
        Column::wide_number("TTFT P99", |row: &Row<'_>| row.ttft_seconds.words(2))
            .by("ttft_seconds.p99"),
        Column::wide_number("TPOT P50", |row: &Row<'_>| row.tpot_seconds.words(0))
            .by("tpot_seconds.p50"),
        Column::number("TPOT P95", |row: &Row<'_>| row.tpot_seconds.words(1))
            .by("tpot_seconds.p95"),
        Column::wide_number("TPOT P99", |row: &Row<'_>| row.tpot_seconds.words(2))
            .by("tpot_seconds.p99"),
        Column::number("TOK/S", |row: &Row<'_>| amount(row.tokens_per_second))
            .by("tokens_per_second"),
        Column::wide_number("REQ/S", |row: &Row<'_>| {
            or_unknown(row.requests_per_second.map(rate))
        })
        .by("requests_per_second"),
        Column::number("GOODPUT/S", |row: &Row<'_>| {
            or_unknown(row.goodput.low.zip(row.goodput.high).map(goodput))
        })
        .by("goodput.low"),
        Column::wide_number("PREEMPTIONS", |row: &Row<'_>| amount(row.preemptions)),
        Column::number("$/H", |row: &Row<'_>| {
            rate_cell(row.burn_usd_per_hour, row.list_usd_per_hour)
        })
        .by("burn_usd_per_hour"),
        Column::number("$/M TOK", |row: &Row<'_>| {
            rate_cell(row.usd_per_million_tokens, row.list_usd_per_hour)
        })
        .by("usd_per_million_tokens"),
        Column::text("STATE", |row: &Row<'_>| {
            verdict(row.saturated, row.saturated_by.iter().copied())
        })
        .by("saturated"),
        Column::text("SCALER", |row: &Row<'_>| word(row.scaler)),
    ]
}

/// Requests per second: `0.42`, `12.5`, `230`.
pub fn rate(number: f64) -> String {
    match number {
        number if number < 10.0 => format!("{number:.2}"),
        number if number < 100.0 => format!("{number:.1}"),
        number => format!("{number:.0}"),
    }
}

/// Goodput as a range, or as one number where both ends read the same.
pub fn goodput((low, high): (f64, f64)) -> String {
    let (low, high) = (rate(low), rate(high));
    match low == high {
        true => low,
        false => format!("{low}-{high}"),
    }
}

/// `saturated: waiting, kv-cache`, `ok`, or `-`.
pub fn verdict(saturated: Option<bool>, by: impl Iterator<Item = &'static str>) -> String {
    match saturated {
        Some(true) => format!("saturated: {}", by.collect::<Vec<&str>>().join(", ")),
        Some(false) => String::from("ok"),
        None => String::from(UNKNOWN),
    }
}

/// Every served model by namespace, workload and model: the index of the job, and of the model within the job.
pub fn places(facts: &Facts) -> Vec<(usize, usize)> {
    let jobs = facts.fleet.jobs.iter().enumerate();
    let mut all: Vec<(usize, usize)> = jobs
        .flat_map(|(at, job)| {
            let served = job
                .serving
                .as_ref()
                .map_or(0, |serving| serving.served.len());
            (0..served).map(move |within| (at, within))
        })
        .collect();
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
    let served = job.serving.as_ref()?.served.get(within)?;
    Some((job, served))
}

/// Every service, by namespace, workload and model.
pub fn rows(facts: &Facts) -> Vec<ServiceRow<'_>> {
    let all = places(facts).into_iter();
    all.filter_map(|place| at(facts, place))
        .map(|(job, served)| row(facts, job, served))
        .collect()
}

/// A service in one line, for its workload's page; unknown values are left out.
pub fn words(facts: &Facts, job: &Job, served: &ServedModel) -> String {
    let row = row(facts, job, served);
    let (ttft, tpot) = (row.ttft_seconds, row.tpot_seconds);
    let p95 = |name: &str, cell: LatencyCell| {
        let words = cell.words(1);
        cell.p95.map(|_| format!("{name} p95 {words}"))
    };
    let all = [
        Some(format!("{} × {}", row.replicas, row.engine)),
        p95("TTFT", ttft),
        p95("TPOT", tpot),
        row.tokens_per_second.map(|rate| format!("{rate:.0} tok/s")),
        served
            .goodput()
            .map(|range| format!("goodput {}/s", goodput(range))),
        row.usd_per_million_tokens
            .map(|cost| format!("{} per million tokens", usd(Some(cost)))),
        row.saturated
            .map(|_| verdict(row.saturated, row.saturated_by.iter().copied())),
    ];
    let known: Vec<String> = all.into_iter().flatten().collect();
    known.join(" · ")
}

/// The note where no server was read twice, as in a one-shot command. `None` where nothing is served.
pub fn read_once(facts: &Facts) -> Option<&'static str> {
    let all = places(facts).into_iter();
    let mut served = all.filter_map(|place| at(facts, place)).peekable();
    served.peek()?;
    served.all(|(_, one)| one.window_seconds.is_none()).then_some(
        "rates, latencies, goodput and state are unknown: each server was read once; `stokehold get services --watch` and the console keep reading, and `--at -0m` reads the context's record",
    )
}

/// The unique key of a service: `NAMESPACE/NAME (KIND, MODEL)`.
pub fn key(job: &Job, served: &ServedModel) -> String {
    key_of(
        &job.id.key.namespace,
        &job.id.key.name,
        &job.id.kind,
        served.model.as_deref(),
    )
}

fn key_of(namespace: &str, name: &str, kind: &str, model: Option<&str>) -> String {
    match model {
        Some(model) => format!("{namespace}/{name} ({kind}, {model})"),
        None => format!("{namespace}/{name} ({kind})"),
    }
}

impl ServiceRow<'_> {
    /// Its unique key; see [`key`].
    pub fn key(&self) -> String {
        key_of(self.namespace, self.name, self.kind, self.model)
    }
}

/// USD per million generated tokens: the workload's rate over the tokens that all its models generate. `None` without a
/// price, without tokens, and while a replica has not been read twice.
pub fn usd_per_million_tokens(facts: &Facts, job: &Job) -> Option<f64> {
    let usd = money(facts, job)?.rate.usd();
    let served = &job.serving.as_ref()?.served;
    let all = served.iter().map(|one| {
        let whole = one.measured == one.replicas;
        one.tokens_per_second.filter(|_| whole)
    });
    let tokens: f64 = all.sum::<Option<f64>>()? * 3600.0;
    (tokens > 0.0).then(|| usd / tokens * 1e6)
}

/// The autoscaler of a service's workload.
pub fn scaler<'a>(facts: &'a Facts, job: &'a Job) -> Option<&'a str> {
    let mut scalers = facts.fleet.scaling.pod_scalers_of(job);
    non_empty(&scalers.next()?.key.name)
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
        labels: Labelled::Job(job),
        namespace: job.namespace(),
        name: job.name(),
        kind: &job.id.kind,
        model: served.model.as_deref(),
        engine: &served.engine,
        team: &job.team,
        replicas: served.replicas,
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
        objectives: ObjectivesCell {
            ttft_seconds: served.objectives.ttft,
            tpot_seconds: served.objectives.tpot,
        },
        burn_usd_per_hour: rate.map(Money::usd),
        list_usd_per_hour: list_usd(rate),
        usd_per_million_tokens: usd_per_million_tokens(facts, job),
        saturated: served.is_saturated(),
        saturated_by: served.saturation().map(Saturation::name).collect(),
        scaler: scaler(facts, job),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::facts;

    #[test]
    fn a_percentile_on_the_last_bound_is_not_one_above_it() {
        // The slowest of the first half took exactly the last bound.
        let cell = LatencyCell {
            p50: Some(0.5),
            p95: Some(0.5),
            p99: Some(0.5),
            at_least: Some(0.5),
            at_least_from: Some("p99"),
        };
        let told = [0, 1, 2].map(|at| cell.words(at));
        assert_eq!(told, ["500ms", "500ms", ">=500ms"]);
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
        assert_eq!(
            (ttft.words(1).as_str(), ttft.words(2).as_str()),
            (">=500ms", ">=500ms")
        );
        assert!(ttft.p50.is_some_and(|p50| (0.1..0.5).contains(&p50)));
        // 40 to 90 of 100 are within 0.4 s, at 10 a second.
        let (low, high) = (known.goodput.low, known.goodput.high);
        assert_eq!((low, high), (Some(4.0), Some(9.0)));
        assert_eq!(goodput((4.0, 9.0)), "4.00-9.00");
        assert_eq!(goodput((12.5, 12.5)), "12.5");
        // Both models together generate 1200 tokens a second.
        let usd = known.burn_usd_per_hour.expect("has a price");
        let cost = known.usd_per_million_tokens.expect("has a price");
        assert!((cost - usd / 4.32).abs() < 1e-9, "{cost} of {usd}");
        assert_eq!(known.key(), "nlp/train (Job, org/llama)");
        let (job, served) = at(&facts, places(&facts)[1]).expect("it is there");
        let told = words(&facts, job, served);
        assert!(
            told.starts_with("1 × vllm · TTFT p95 >=500ms · 1200 tok/s · goodput 4.00-9.00/s · $"),
            "{told}"
        );
        assert!(
            told.ends_with(" per million tokens · saturated: kv-cache"),
            "{told}"
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
        assert!(read_once(&facts).is_some_and(|said| said.contains("--watch")));
        std::sync::Arc::make_mut(&mut facts.fleet).jobs = std::sync::Arc::from([]);
        assert_eq!(read_once(&facts), None, "nothing is served");
    }

    #[test]
    fn what_tokens_cost_is_unknown_without_tokens_or_while_a_replica_is_not_measured() {
        let facts = facts();
        let cost = |change: fn(&mut ServedModel)| {
            let mut jobs = facts.fleet.jobs.iter();
            let job = jobs.find(|job| job.serving.is_some()).expect("one serves");
            let mut job = (**job).clone();
            let served = job.serving.as_mut().map(|serving| &mut serving.served[1]);
            change(served.expect("it serves two"));
            usd_per_million_tokens(&facts, &job)
        };
        assert!(cost(|_| ()).is_some());
        assert_eq!(cost(|one| one.tokens_per_second = Some(0.0)), None);
        assert_eq!(cost(|one| one.tokens_per_second = None), None);
        assert_eq!(cost(|one| one.replicas = 2), None);
    }
}
