//! Services: each model that a workload serves, its latency against its objective, and the cost of its tokens.

use model::fleet::histogram::Latency;
use model::fleet::job::Job;
use model::fleet::served_model::{Saturation, ServedModel};
use table::Facts;
use table::cell::{Cell, Value};
use table::column::{Column, KindSpec, Row, id_of};
use table::jobs::money;
use table::role::Role;
use table::select::label_of_job;
use table::services::{at, goodput, key, places, scaler, usd_per_million_tokens, verdict};

use table::navigation::{Destination, RowScope, Selection, ViewId};

/// The table of services. A row is the place of its workload among all jobs, and of its model in that.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("service", "SERVICE", 0, (18, 40), |facts, row| {
            of(facts, row, |job, _| Value::path(&job.id.key)).role(Role::Title)
        })
        .sign(|facts, row| service(facts, row).map_or(("–", Role::Muted), |(_, one)| sign(one))),
        Column::words("model", "MODEL", 6, (12, 36), |facts, row| {
            of(facts, row, |_, one| {
                Value::known(one.model.as_deref(), Value::text)
            })
            .middle()
        }),
        Column::words("engine", "ENGINE", 11, (4, 8), |facts, row| {
            of(facts, row, |_, one| Value::text(one.engine.as_str())).role(Role::Muted)
        })
        .wide(),
        Column::number("replicas", "REPL", 5, 4, |facts, row| {
            of(facts, row, |_, one| Value::Count(i64::from(one.replicas)))
        }),
        Column::number("running", "RUN", 6, 4, |facts, row| {
            of(facts, row, |_, one| Value::known(one.running, whole))
        }),
        Column::number("waiting", "WAIT", 1, 4, |facts, row| {
            let grows = service(facts, row).is_some_and(|(_, one)| one.waiting_grows == Some(true));
            let role = if grows { Role::Warn } else { Role::Text };
            of(facts, row, |_, one| Value::known(one.waiting, whole)).role(role)
        }),
        Column::number("kv", "KV", 2, 4, |facts, row| {
            let full = by(facts, row, Saturation::CacheFull);
            let role = if full { Role::Warn } else { Role::Text };
            of(facts, row, |_, one| Value::known(one.kv_max, Value::Ratio)).role(role)
        }),
        Column::number("prefix", "PREFIX", 12, 4, |facts, row| {
            of(facts, row, |_, one| {
                Value::known(one.prefix_hit, Value::Ratio)
            })
        })
        .wide(),
        Column::number("ttft", "TTFT P95", 1, 6, |facts, row| {
            latency(facts, row, |one| (&one.ttft, one.objectives.ttft))
        }),
        Column::number("tpot", "TPOT P95", 3, 6, |facts, row| {
            latency(facts, row, |one| (&one.tpot, one.objectives.tpot))
        }),
        Column::number("tokens", "TOK/S", 4, 5, |facts, row| {
            of(facts, row, |_, one| {
                Value::known(one.tokens_per_second, whole)
            })
        }),
        Column::number("goodput", "GOODPUT/S", 6, 9, |facts, row| {
            of(facts, row, |_, one| {
                Value::known(one.goodput().map(goodput), Value::text)
            })
        }),
        Column::number("burn", "$/h", 7, 6, |facts, row| {
            of(facts, row, |job, _| {
                Value::known(money(facts, job), |spend| Value::Money(spend.rate))
            })
            .role(Role::Accent)
        }),
        Column::number("per-token", "$/M TOK", 4, 6, |facts, row| {
            of(facts, row, |job, _| {
                Value::known(usd_per_million_tokens(facts, job), Value::Number)
            })
            .role(Role::Accent)
        }),
        Column::words("state", "STATE", 2, (9, 34), |facts, row| {
            let Some((_, one)) = service(facts, row) else {
                return Cell::new(Value::Unknown);
            };
            let saturated = one.is_saturated();
            let words = verdict(saturated, one.saturation().map(Saturation::name));
            match saturated {
                Some(true) => Cell::text(words).role(Role::Warn),
                Some(false) => Cell::text(words).role(Role::Muted),
                None => Cell::new(Value::Unknown),
            }
        }),
        Column::words("scaler", "SCALER", 10, (8, 20), |facts, row| {
            of(facts, row, |job, _| {
                Value::known(scaler(facts, job), Value::text)
            })
        }),
        Column::words("team", "TEAM", 9, (8, 16), |facts, row| {
            of(facts, row, |job, _| Value::text(job.team.as_str()))
        })
        .wide(),
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
    output: None,
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
    match service(facts, row) {
        Some((job, one)) => Cell::new(make(job, one)),
        None => Cell::new(Value::Unknown),
    }
}

fn whole(number: f64) -> Value<'static> {
    Value::Count(number.round() as i64)
}

fn by(facts: &Facts, row: Row, why: Saturation) -> bool {
    service(facts, row).is_some_and(|(_, one)| one.saturation().any(|known| known == why))
}

/// The 95th percentile, marked where it is a lower bound, colored where it misses the objective.
fn latency(facts: &Facts, row: Row, of: fn(&ServedModel) -> (&Latency, Option<f64>)) -> Cell<'_> {
    let Some((latency, promised)) = service(facts, row).map(|(_, one)| of(one)) else {
        return Cell::new(Value::Unknown);
    };
    let Some(told) = latency.quantile(0.95) else {
        return Cell::new(Value::Unknown);
    };
    let missed = promised.is_some_and(|limit| told.seconds > limit);
    let role = if missed { Role::Warn } else { Role::Text };
    let cell = Cell::new(Value::Millis((told.seconds * 1000.0).round() as u64)).role(role);
    cell.mark(if told.at_least { "+" } else { "" })
}

/// A service's state as a sign.
fn sign(one: &ServedModel) -> (&'static str, Role) {
    match one.is_saturated() {
        Some(true) => ("▲", Role::Warn),
        Some(false) => ("●", Role::Ok),
        None => ("○", Role::Muted),
    }
}
