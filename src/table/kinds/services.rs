//! Services: each model served by a workload, its latency against its objective, and the cost of its tokens.

use model::base::{Age, ObjectKey};
use model::fleet::histogram::Latency;
use model::fleet::job::Job;
use model::fleet::observe::Table;
use model::fleet::served_model::{Saturation, ServedModel};
use model::schema::of_rows;

use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::kind::{Exporters, Format, KindNames, KindView};
use crate::kinds::alerts::age_mark;
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::role::Role;
use crate::row_labels::{RowLabels, label_of_job};
use crate::rows::jobs::money;
use crate::rows::services::{
    OBJECTIVE_IS_MISSED, ServiceRow, all_places, at, key, missed, places, replicas, restarts, row,
    scaler, state, trouble, within_objectives,
};
use crate::rows::token_cost::per_million_tokens;
use crate::text::{bounded_latency, decimal, percent, usd};
use crate::{Facts, non_empty};

/// Services. A row is the index of its workload among all jobs, and of its model in that.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("name", "NAME", 0, (18, 40), |facts, row| {
            of(facts, row, |job, _| Value::path(&job.id.key)).role(Role::Title)
        })
        .sign(|facts, row| {
            service(facts, row).map_or(("–", Role::Muted), |(job, one)| sign(facts, job, one))
        })
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
        Column::words("model", "MODEL", 6, (12, 18), |facts, row| {
            text(facts, row, |_, one| one.model.as_deref()).middle()
        })
        .by("model"),
        Column::words("engine", "ENGINE", 11, (4, 8), |facts, row| {
            text(facts, row, |_, one| non_empty(&one.engine)).role(Role::Muted)
        })
        .by("engine")
        .wide(),
        Column::words("team", "TEAM", 9, (8, 16), |facts, row| {
            text(facts, row, |job, _| Some(&job.team))
        })
        .by("team")
        .wide(),
        Column::number("replicas", "REPLICAS", 5, 4, |facts, row| {
            of(facts, row, |job, one| {
                let all = replicas(facts, job, one);
                Value::known(all, |all| match one.replicas {
                    read if read > 0 && read < all => Value::Part(read.into(), all.into()),
                    _ => Value::Count(all.into()),
                })
            })
        })
        .by("replicas"),
        Column::number("restarts", "RESTARTS", 11, 4, |facts, row| {
            of(facts, row, |job, _| {
                Value::known(restarts(job), |count| Value::Count(i64::from(count)))
            })
        })
        .by("restarts")
        .wide_output(),
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
        Column::words("objective", "OBJECTIVE", 8, (21, 22), |facts, row| {
            of(facts, row, |_, one| {
                Value::known(objective(one), Value::text)
            })
            .role(Role::Muted)
        })
        .on_screen()
        .rare(),
        Column::number("within", "WITHIN", 3, 4, |facts, row| {
            let share = service(facts, row).and_then(|(_, one)| within_objectives(one));
            let role = match share {
                Some(share) if share < MET => Role::Crit,
                _ => Role::Text,
            };
            Cell::new(Value::known(share, Value::Ratio)).role(role)
        })
        .by("within_objectives_ratio")
        .rare(),
        Column::number("missed", "MISSED FOR", 3, 6, |facts, row| {
            let missed = service(facts, row).and_then(|(job, one)| missed(facts, job, one));
            Cell::new(match missed {
                Some(finding) if finding.at_least => Value::SeenSince(finding.since),
                Some(finding) => Value::Since(finding.since),
                None => Value::Empty,
            })
            .role(Role::Crit)
        })
        .by("objective_missed_since")
        .rare(),
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
            of(facts, row, |job, _| Value::known(rate(job), Value::Money))
        })
        .by("burn_usd_per_hour"),
        Column::number("per-token", "$/M TOK", 4, 6, |facts, row| {
            let cost = |job| per_million_tokens(facts, job);
            of(facts, row, |job, _| Value::known(cost(job), Value::Sum))
        })
        .by("usd_per_million_tokens"),
        Column::words("state", "STATE", 2, (34, 44), |facts, row| {
            let (role, words) = match service(facts, row) {
                Some((job, one)) => (sign(facts, job, one).1, state(facts, job, one)),
                None => (Role::Muted, None),
            };
            let role = if role == Role::Ok { Role::Muted } else { role };
            Cell::new(Value::known(words, Value::text)).role(role)
        })
        .by("saturated|state"),
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
            .map(|(job, _)| Destination::Part(ViewId::Jobs, RowScope::Replicas(job.id.clone())))
    },
    faulty: |facts, row| {
        let service = service(facts, row);
        service.is_some_and(|(job, one)| sign(facts, job, one).0 == "▲")
    },
    worst: None,
    last: |_, _| false,
    searched: None,
    sort: None,
    none: "no model servers found, or their metrics are not read yet",
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
    view: KindView::under(
        ViewId::Jobs,
        "model servers: requests, cache, latencies, tokens, $ per million tokens",
    )
    .key("f3")
    .with_facts()
    .by_namespace(),
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
    labels: Some(|facts, row| service(facts, row).map(|(job, _)| RowLabels::Job(job))),
    json: |facts, rows, style| {
        style.each(rows, |row| {
            service(facts, row).map(|(job, one)| self::row(facts, job, one))
        })
    },
};

fn collect(facts: &Facts, row_scope: &RowScope) -> Vec<Row> {
    let all = all_places(facts).into_iter();
    let wanted = |job: usize| match row_scope {
        RowScope::Kind(_, Some(namespace)) => facts.fleet.jobs[job].namespace() == namespace,
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
        (&one.tpot, one.tpot_objective())
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
    let Some((measured, promised)) = found else {
        return Cell::new(Value::Unknown);
    };
    let missed = promised.is_some_and(|limit| measured.seconds > limit);
    let role = if missed { Role::Crit } else { Role::Text };
    Cell::new(Value::Latency(measured.seconds, measured.at_least)).role(role)
}

/// A service's state as a sign.
fn sign(facts: &Facts, job: &Job, one: &ServedModel) -> (&'static str, Role) {
    match one.is_saturated() {
        _ if missed(facts, job, one).is_some() => ("▲", Role::Crit),
        Some(true) => ("▲", Role::Warn),
        _ if job.slow_replica().is_some() => ("▲", Role::Warn),
        Some(false) => ("●", Role::Ok),
        None => ("○", Role::Muted),
    }
}

/// Goodput: the least that is known, marked where it may be more.
fn goodput((low, high): (f64, f64)) -> String {
    let (low, high) = (decimal(low), decimal(high));
    match low == high {
        true => low,
        false => format!("≥{low}"),
    }
}

/// Objectives are those of the 95th percentile: as many requests as this are to meet them.
const MET: f64 = 0.95;

/// The objectives with their names: `TTFT 2.0s, TPOT 80ms`. `None` without any.
fn objective(one: &ServedModel) -> Option<String> {
    let named =
        |name, limit: Option<f64>| Some(format!("{name} {}", bounded_latency(limit?, false)));
    let all = [
        named("TTFT", one.objectives.ttft),
        named("TPOT", one.objectives.tpot),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// A service in one line, for its workload's page; unknown values are left out.
pub fn words(facts: &Facts, job: &Job, served: &ServedModel) -> String {
    let row = row(facts, job, served);
    let p95 = |name: &str, latency: &Latency, limit: Option<f64>| {
        let quantile = latency.quantile(0.95)?;
        let words = bounded_latency(quantile.seconds, quantile.at_least);
        let limit = limit.map(|limit| format!(" (objective {})", bounded_latency(limit, false)));
        Some(format!("{name} p95 {words}{}", limit.unwrap_or_default()))
    };
    let all = [
        Some(format!("{} × {}", served.replicas, served.engine)),
        // Of this time is what follows.
        served.window_seconds.map(|seconds| {
            let window = Age::from_millis((seconds * 1000.0) as u64);
            format!("over the last {window}")
        }),
        p95("TTFT", &served.ttft, served.objectives.ttft),
        p95(served.tpot_name(), &served.tpot, served.tpot_objective()),
        row.within_objectives_ratio
            .map(|share| format!("{} within objectives", percent(Some(share)))),
        row.tokens_per_second.map(|rate| format!("{rate:.0} tok/s")),
        served
            .goodput()
            .map(|range| format!("goodput {}/s", goodput(range))),
        row.usd_per_million_tokens
            .map(|cost| format!("{} per million tokens", usd(Some(cost)))),
        missed(facts, job, served).map(|own| {
            let mark = age_mark(own);
            format!(
                "{OBJECTIVE_IS_MISSED} for {mark}{}",
                facts.now.since(own.since)
            )
        }),
        // What is missed stands before it, with its time.
        row.saturated.and(match missed(facts, job, served) {
            Some(_) => trouble(job, served),
            None => row.state,
        }),
    ];
    let known: Vec<String> = all.into_iter().flatten().collect();
    known.join(" · ")
}

/// What a pod says of its requests, for its line; unknown values are left out. `None` without any.
pub fn replica_words(job: &Job, pod: &ObjectKey) -> Option<String> {
    let one = &job.serving.as_ref()?.replica(pod)?.figures;
    let p95 = one.ttft.quantile(0.95);
    let all = [
        p95.map(|p95| format!("TTFT p95 {}", bounded_latency(p95.seconds, p95.at_least))),
        one.kv_max
            .map(|share| format!("KV {}", percent(Some(share)))),
        one.waiting.map(|count| format!("{count:.0} waiting")),
    ];
    let known: Vec<String> = all.into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// The replica of a workload that answers far more slowly than its others, in words.
pub fn slow_replica(job: &Job) -> Option<String> {
    let slow = job.slow_replica()?;
    let p95 = bounded_latency(slow.p95.seconds, slow.p95.at_least);
    let median = bounded_latency(slow.median, false);
    let pod = &slow.replica.pod.name;
    let name = slow.name;
    Some(format!(
        "pod {pod}: {name} p95 {p95}, the median of the replicas {median}"
    ))
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

#[cfg(test)]
#[path = "tests_services.rs"]
mod tests;
