//! Services: each model served by a workload, its latency against its objective, and the cost of its tokens.

use crate::kind::{Exporters, Format, KindNames};
use model::fleet::observe::Table;
use model::schema::of_rows;
use schemars::JsonSchema;
use serde::Serialize;

use model::base::{SmallSort, natural};
use model::cost::Money;
use model::fleet::histogram::Latency;
use model::fleet::job::Job;
use model::fleet::served_model::{Saturation, ServedModel};
use model::schema::one_of;

use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::jobs::money;
use crate::labelled::{Labelled, label_of_job};
use crate::list_price::list_usd;
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::role::Role;
use crate::text::{UNKNOWN, bounded_latency, decimal, usd};
use crate::token_cost::{per_million_tokens, usd_per_million_tokens};
use crate::{Facts, non_empty};

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

/// Services. A row is the index of its workload among all jobs, and of its model in that.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("name", "NAME", 0, (18, 40), |facts, row| {
            of(facts, row, |job, _| Value::path(&job.id.key)).role(Role::Title)
        })
        .sign(|facts, row| service(facts, row).map_or(("–", Role::Muted), |(_, one)| sign(one)))
        .by("name"),
        Column::words("namespace", "NAMESPACE", 13, (8, 20), |facts, row| {
            text(facts, row, |job, _| Some(job.namespace()))
        })
        .by("namespace")
        .wide(),
        Column::words("kind", "KIND", 13, (8, 20), |facts, row| {
            text(facts, row, |job, _| Some(&job.id.kind)).role(Role::Muted)
        })
        .by("kind")
        .wide(),
        Column::words("model", "MODEL", 6, (12, 36), |facts, row| {
            text(facts, row, |_, one| one.model.as_deref()).middle()
        })
        .by("model"),
        Column::words("engine", "ENGINE", 11, (4, 8), |facts, row| {
            text(facts, row, |_, one| Some(&one.engine)).role(Role::Muted)
        })
        .by("engine")
        .wide(),
        Column::words("team", "TEAM", 9, (8, 16), |facts, row| {
            text(facts, row, |job, _| Some(&job.team))
        })
        .by("team")
        .wide(),
        Column::number("replicas", "REPLICAS", 5, 4, |facts, row| {
            of(facts, row, |_, one| Value::Count(i64::from(one.replicas)))
        })
        .by("replicas"),
        Column::number("running", "RUNNING", 6, 4, |facts, row| {
            whole(facts, row, |one| one.running)
        })
        .by("running"),
        Column::number("waiting", "WAITING", 1, 4, |facts, row| {
            let grows = service(facts, row).is_some_and(|(_, one)| one.waiting_grows == Some(true));
            let role = if grows { Role::Warn } else { Role::Text };
            whole(facts, row, |one| one.waiting).role(role)
        })
        .by("waiting"),
        Column::number("kv", "KV", 2, 4, |facts, row| {
            let full = |one: &ServedModel| one.saturation().any(|why| why == Saturation::CacheFull);
            let full = service(facts, row).is_some_and(|(_, one)| full(one));
            let role = if full { Role::Warn } else { Role::Text };
            ratio(facts, row, |one| one.kv_max).role(role)
        })
        .by("kv_cache_ratio"),
        Column::number("kv-mean", "KV MEAN", 12, 4, |facts, row| {
            ratio(facts, row, |one| one.kv_mean)
        })
        .by("kv_cache_mean_ratio")
        .wide(),
        Column::number("prefix", "PREFIX HIT", 12, 4, |facts, row| {
            ratio(facts, row, |one| one.prefix_hit)
        })
        .by("prefix_hit_ratio")
        .wide(),
        Column::number("ttft-p50", "TTFT P50", 12, 6, |facts, row| {
            ttft(facts, row, 0.5)
        })
        .by("ttft_seconds.p50")
        .wide(),
        Column::number("ttft", "TTFT P95", 1, 6, |facts, row| {
            ttft(facts, row, 0.95)
        })
        .by("ttft_seconds.p95"),
        Column::number("ttft-p99", "TTFT P99", 12, 6, |facts, row| {
            ttft(facts, row, 0.99)
        })
        .by("ttft_seconds.p99")
        .wide(),
        Column::number("tpot-p50", "TPOT P50", 12, 6, |facts, row| {
            tpot(facts, row, 0.5)
        })
        .by("tpot_seconds.p50")
        .wide(),
        Column::number("tpot", "TPOT P95", 3, 6, |facts, row| {
            tpot(facts, row, 0.95)
        })
        .by("tpot_seconds.p95"),
        Column::number("tpot-p99", "TPOT P99", 12, 6, |facts, row| {
            tpot(facts, row, 0.99)
        })
        .by("tpot_seconds.p99")
        .wide(),
        Column::number("tokens", "TOK/S", 4, 5, |facts, row| {
            whole(facts, row, |one| one.tokens_per_second)
        })
        .by("tokens_per_second"),
        Column::number("requests", "REQ/S", 12, 5, |facts, row| {
            of(facts, row, |_, one| {
                Value::known(one.requests_per_second, Value::Number)
            })
        })
        .by("requests_per_second")
        .wide(),
        Column::number("goodput", "GOODPUT/S", 6, 9, |facts, row| {
            of(facts, row, |_, one| {
                Value::known(one.goodput().map(goodput), Value::text)
            })
        })
        .by("goodput.low"),
        Column::number("preemptions", "PREEMPTIONS", 12, 4, |facts, row| {
            whole(facts, row, |one| one.preemptions)
        })
        .by("preemptions")
        .wide(),
        Column::number("burn", "$/h", 7, 6, |facts, row| {
            let rate = |job| money(facts, job).map(|spend| spend.rate);
            of(facts, row, |job, _| Value::known(rate(job), Value::Money)).role(Role::Accent)
        })
        .by("burn_usd_per_hour"),
        Column::number("per-token", "$/M TOK", 4, 6, |facts, row| {
            let cost = |job| per_million_tokens(facts, job);
            of(facts, row, |job, _| Value::known(cost(job), Value::Sum)).role(Role::Accent)
        })
        .by("usd_per_million_tokens"),
        Column::words("state", "STATE", 2, (9, 34), |facts, row| {
            let saturated = service(facts, row).and_then(|(_, one)| one.is_saturated());
            let by = |one: &ServedModel| verdict(saturated, one.saturation().map(Saturation::name));
            let role = match saturated {
                Some(true) => Role::Warn,
                Some(false) => Role::Muted,
                None => return Cell::new(Value::Unknown),
            };
            of(facts, row, |_, one| Value::text(by(one))).role(role)
        })
        .by("saturated"),
        Column::words("scaler", "SCALER", 10, (8, 20), |facts, row| {
            of(facts, row, |job, _| {
                Value::known(scaler(facts, job), Value::text)
            })
        })
        .by("scaler"),
    ],
    collect,
    id: |facts, row| service(facts, row).map_or(0, |(job, one)| id_of(key(job, one))),
    label: |facts, row, key| {
        let label = label_of_job(service(facts, row)?.0, key);
        label.map(ToString::to_string)
    },
    selection: |facts, row| service(facts, row).map(|(job, _)| Selection::Job(job.id.clone())),
    open: |facts, row| {
        service(facts, row)
            .map(|(job, _)| Destination::Part(ViewId::Jobs, RowScope::Job(job.id.clone())))
    },
    faulty: |facts, row| {
        service(facts, row).is_some_and(|(_, one)| one.is_saturated() == Some(true))
    },
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: "no model server is known: none of their pages was read yet, or there is none",
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "services",
        singular: "service",
        aliases: &["service", "svc"],
        help: "Models that workloads serve: requests, cache, latencies, tokens, money for them",
        title: "Services",
        description: "Models that workloads serve. Unknown is null, never 0; units are in the names; times are RFC 3339.",
        schema: of_rows::<ServiceRow<'_>>,
    },
    reads: |table| {
        // Its autoscaler.
        !table.holds_rules() && (!table.holds_scaling() || matches!(table, Table::PodAutoscalers))
    },
    exporters: |_| Exporters::All,
    note: |facts, format| match format {
        Format::Name => None,
        _ => read_once(facts).map(str::to_owned),
    },
    rows: |facts, _| collect(facts, &RowScope::All),
    key: |facts, row| service(facts, row).map_or_else(String::new, |(job, one)| key(job, one)),
    also: |facts, row| {
        let service = service(facts, row).into_iter();
        let names = service.flat_map(|(job, one)| {
            let model = one.model.as_ref().map(ToString::to_string);
            let names = [job.name().to_string(), job.id.key.to_string()];
            names.into_iter().chain(model)
        });
        names.collect()
    },
    name: None,
    place: Some(|facts, row| match service(facts, row) {
        Some((job, _)) => (Some(job.namespace()), Some(&job.team)),
        None => (None, None),
    }),
    labels: Some(|facts, row| service(facts, row).map(|(job, _)| Labelled::Job(job))),
    json: |facts, rows, style| {
        style.each(rows, |row| {
            service(facts, row).map(|(job, one)| self::row(facts, job, one))
        })
    },
};

fn collect(facts: &Facts, row_scope: &RowScope) -> Vec<Row> {
    let all = places(facts).into_iter();
    let wanted = |job: usize| match row_scope {
        RowScope::Services(Some(namespace)) => facts.fleet.jobs[job].namespace() == namespace,
        _ => true,
    };
    all.filter(|(job, _)| wanted(*job))
        .map(|(job, within)| (job as u32, within as u32))
        .collect()
}

fn service(facts: &Facts, row: Row) -> Option<(&Job, &ServedModel)> {
    at(facts, (row.0 as usize, row.1 as usize))
}

fn of<'a>(
    facts: &'a Facts,
    row: Row,
    make: impl FnOnce(&'a Job, &'a ServedModel) -> Value<'a>,
) -> Cell<'a> {
    let value = service(facts, row).map(|(job, one)| make(job, one));
    Cell::new(value.unwrap_or(Value::Unknown))
}

fn text<'a>(
    facts: &'a Facts,
    row: Row,
    words: fn(&'a Job, &'a ServedModel) -> Option<&'a str>,
) -> Cell<'a> {
    of(facts, row, |job, one| {
        Value::known(words(job, one), Value::text)
    })
}

fn whole(facts: &Facts, row: Row, number: fn(&ServedModel) -> Option<f64>) -> Cell<'_> {
    of(facts, row, |_, one| {
        Value::known(number(one), |number| Value::Count(number.round() as i64))
    })
}

fn ratio(facts: &Facts, row: Row, share: fn(&ServedModel) -> Option<f64>) -> Cell<'_> {
    of(facts, row, |_, one| Value::known(share(one), Value::Ratio))
}

fn ttft(facts: &Facts, row: Row, percentile: f64) -> Cell<'_> {
    latency(facts, row, percentile, |one| {
        (&one.ttft, one.objectives.ttft)
    })
}

fn tpot(facts: &Facts, row: Row, percentile: f64) -> Cell<'_> {
    latency(facts, row, percentile, |one| {
        (&one.tpot, one.objectives.tpot)
    })
}

/// A percentile of a latency, marked where it is a lower bound, colored where it misses the objective.
fn latency(
    facts: &Facts,
    row: Row,
    percentile: f64,
    of: fn(&ServedModel) -> (&Latency, Option<f64>),
) -> Cell<'_> {
    let found = service(facts, row).map(|(_, one)| of(one));
    let found =
        found.and_then(|(latency, promised)| Some((latency.quantile(percentile)?, promised)));
    let Some((told, promised)) = found else {
        return Cell::new(Value::Unknown);
    };
    let missed = promised.is_some_and(|limit| told.seconds > limit);
    let role = if missed { Role::Warn } else { Role::Text };
    Cell::new(Value::Latency(told.seconds, told.at_least)).role(role)
}

/// A service's state as a sign.
fn sign(one: &ServedModel) -> (&'static str, Role) {
    match one.is_saturated() {
        Some(true) => ("▲", Role::Warn),
        Some(false) => ("●", Role::Ok),
        None => ("○", Role::Muted),
    }
}

/// Goodput as a range, or as one number where both ends read the same.
fn goodput((low, high): (f64, f64)) -> String {
    let (low, high) = (decimal(low), decimal(high));
    match low == high {
        true => low,
        false => format!("{low}-{high}"),
    }
}

/// `saturated: waiting, kv-cache`, `ok`, or `-`.
fn verdict(saturated: Option<bool>, by: impl Iterator<Item = &'static str>) -> String {
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
            let served = job.serving.as_ref().map_or(0, |all| all.served.len());
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
    Some((job, job.serving.as_ref()?.served.get(within)?))
}

/// Every service, by namespace, workload and model.
pub fn rows(facts: &Facts) -> Vec<ServiceRow<'_>> {
    let all = places(facts).into_iter();
    let all = all.filter_map(|place| at(facts, place));
    all.map(|(job, served)| row(facts, job, served)).collect()
}

/// A service in one line, for its workload's page; unknown values are left out.
pub fn words(facts: &Facts, job: &Job, served: &ServedModel) -> String {
    let row = row(facts, job, served);
    let p95 = |name: &str, latency: &Latency| {
        let told = latency.quantile(0.95)?;
        let words = bounded_latency(told.seconds, told.at_least);
        Some(format!("{name} p95 {words}"))
    };
    let all = [
        Some(format!("{} × {}", row.replicas, row.engine)),
        p95("TTFT", &served.ttft),
        p95("TPOT", &served.tpot),
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
    let (path, kind) = (&job.id.key, &job.id.kind);
    match served.model.as_deref() {
        Some(model) => format!("{path} ({kind}, {model})"),
        None => format!("{path} ({kind})"),
    }
}

/// The autoscaler of a service's workload.
fn scaler<'a>(facts: &'a Facts, job: &'a Job) -> Option<&'a str> {
    let mut scalers = facts.fleet.scaling.pod_scalers_of(job);
    non_empty(&scalers.next()?.key.name)
}

/// The row of one service.
fn row<'a>(facts: &'a Facts, job: &'a Job, served: &'a ServedModel) -> ServiceRow<'a> {
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
#[path = "tests_services.rs"]
mod tests;
