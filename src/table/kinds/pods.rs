//! Pods that request devices: node, readiness, allocated devices and cost.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Serialize;

use model::base::{SmallSort, natural};
use model::cost::Money;
use model::fleet::device::Pod;
use model::fleet::histogram::Latency;
use model::fleet::job::Job;
use model::fleet::observe::Phase;
use model::fleet::served_model::ServedModel;
use model::schema::of_rows;

use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::kind::{Exporters, KindNames, KindView, is_needed_for_jobs};
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::role::Role;
use crate::row_labels::RowLabels;
use crate::rows::jobs::is_failing;
use crate::rows::list_price::list_usd;
use crate::rows::services::LatencyCell;
use crate::{Facts, non_empty};

#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct PodRow<'a> {
    /// Namespace of the pod.
    pub namespace: &'a str,
    /// Name of the pod.
    pub name: &'a str,
    /// The node it is bound to.
    pub node: Option<&'a str>,
    /// Devices or slices that it requests.
    pub devices_requested: u32,
    /// Devices or slices known to be allocated to it.
    pub devices_allocated: u32,
    /// True when all its containers are ready.
    pub ready: bool,
    /// Total restarts of its containers.
    pub restarts: u32,
    /// Phase as the API reports it.
    #[schemars(with = "Phase")]
    pub phase: &'static str,
    /// True when it has a deletion timestamp.
    pub terminating: bool,
    /// Its priority (`spec.priority`): the scheduler takes the highest first.
    pub priority: i32,
    /// Seconds since its creation.
    pub age_seconds: u64,
    /// Kind of the object of its job, `JobSet`.
    pub job_kind: &'a str,
    /// Name of its job.
    pub job: &'a str,
    /// The queue of its job.
    pub queue: Option<&'a str>,
    /// The team that it counts for.
    pub team: &'a str,
    /// Requests being processed in it, of all models that it serves; null, as what follows, where its request metrics are not read.
    #[schemars(range(min = 0))]
    pub requests_running: Option<f64>,
    /// Requests queued in it.
    #[schemars(range(min = 0))]
    pub requests_waiting: Option<f64>,
    /// Its KV-cache use, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub kv_cache_ratio: Option<f64>,
    /// Window of its latencies, seconds; null until it was read twice without a restart in between.
    #[schemars(range(min = 0))]
    pub window_seconds: Option<f64>,
    /// Time from a request to its first token.
    pub ttft_seconds: LatencyCell,
    /// Time per output token after the first, as in `services`.
    pub tpot_seconds: LatencyCell,
    /// True for the replica of a service that answers at least twice as slowly as the median; null without request metrics.
    pub slow: Option<bool>,
    /// Why it failed, restarts or is unscheduled.
    pub message: Option<&'a str>,
    /// Rate of its allocated devices, USD/h.
    #[schemars(range(min = 0))]
    pub burn_usd_per_hour: Option<f64>,
    /// The part of that rate that is list prices in place of what is paid, which is not known, USD/h.
    #[schemars(range(min = 0))]
    pub list_usd_per_hour: Option<f64>,
}

/// Pods. A row is the place of its job among all jobs, and its own within that.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("namespace", "NAMESPACE", 4, (8, 20), |facts, row| {
            of(facts, row, |pod| Value::text(pod.key().namespace.as_str())).role(Role::Muted)
        })
        .by("namespace"),
        Column::words("name", "NAME", 0, (24, 56), |facts, row| {
            of(facts, row, |pod| Value::text(pod.key().name.as_str()))
                .role(Role::Title)
                .middle()
        })
        .sign(|facts, row| match found(facts, row) {
            Some((job, pod)) if slow(job, pod) == Some(true) && pod.seen.ready => ("▲", Role::Warn),
            Some((_, pod)) => sign(pod),
            None => ("–", Role::Muted),
        })
        .by("name"),
        Column::words("node", "NODE", 3, (10, 32), |facts, row| {
            of(facts, row, |pod| match &pod.seen.node {
                Some(node) => Value::text(node.as_str()),
                None => Value::Empty,
            })
        })
        .by("node"),
        Column::number("devices", "DEVICES", 3, 3, |facts, row| {
            of(facts, row, |pod| {
                let asked = pod.seen.requests.device_count();
                Value::Part(u64::from(allocated_devices(facts, pod).0), u64::from(asked))
            })
        })
        .by("devices_allocated"),
        Column::words("ready", "READY", 2, (5, 5), |facts, row| {
            of(facts, row, |pod| Value::text(yes(pod.seen.ready)))
        })
        .by("ready"),
        Column::number("restarts", "RESTARTS", 3, 3, |facts, row| {
            let count = pod(facts, row).map_or(0, restarts);
            let role = if count > 0 { Role::Warn } else { Role::Muted };
            of(facts, row, |pod| Value::Count(i64::from(restarts(pod)))).role(role)
        })
        .by("restarts"),
        Column::number("running", "RUNNING", 5, 4, |facts, row| {
            requests(facts, row, |one| one.running)
        })
        .by("requests_running")
        .wide_output()
        .rare()
        .gives_way(),
        Column::number("waiting", "WAITING", 2, 4, |facts, row| {
            requests(facts, row, |one| one.waiting)
        })
        .by("requests_waiting")
        .wide_output()
        .rare()
        .gives_way(),
        Column::number("kv", "KV", 3, 4, |facts, row| {
            served(facts, row, |one| Value::known(one.kv_max, Value::Ratio))
        })
        .by("kv_cache_ratio")
        .wide_output()
        .rare()
        .gives_way(),
        Column::number("ttft", "TTFT P95", 1, 6, |facts, row| {
            served(facts, row, |one| p95(&one.ttft))
        })
        .by("ttft_seconds.p95")
        .wide_output()
        .rare()
        .gives_way(),
        Column::number("tpot", "TPOT P95", 3, 6, |facts, row| {
            served(facts, row, |one| p95(&one.tpot))
        })
        .by("tpot_seconds.p95")
        .wide_output()
        .rare()
        .gives_way(),
        Column::words("phase", "PHASE", 1, (7, 11), |facts, row| {
            let role = pod(facts, row).map_or(Role::Muted, |pod| sign(pod).1);
            of(facts, row, |pod| Value::text(phase(pod))).role(role)
        })
        .by("phase"),
        Column::number("age", "AGE", 3, 5, |facts, row| {
            of(facts, row, |pod| Value::Since(pod.seen.created))
        })
        .by("age_seconds"),
        Column::words("job", "JOB", 4, (10, 36), |facts, row| {
            of(facts, row, |pod| Value::text(pod.job.key.name.as_str()))
        })
        .by("job"),
        Column::number("burn", "$/h", 1, 6, |facts, row| {
            of(facts, row, |pod| {
                Value::known(allocated_devices(facts, pod).1, Value::Money)
            })
        })
        .by("burn_usd_per_hour"),
        Column::number("priority", "PRIORITY", 9, 6, |facts, row| {
            of(facts, row, |pod| Value::Count(i64::from(pod.seen.priority)))
        })
        .by("priority")
        .wide(),
        Column::words("queue", "QUEUE", 7, (8, 16), |facts, row| {
            of(facts, row, |pod| {
                Value::known(pod.queue.as_deref(), Value::text)
            })
        })
        .by("queue")
        .wide(),
        Column::words("team", "TEAM", 6, (8, 16), |facts, row| {
            of(facts, row, |pod| Value::text(pod.team.as_str()))
        })
        .by("team")
        .wide(),
        Column::words("message", "MESSAGE", 8, (12, 60), |facts, row| {
            of(facts, row, |pod| {
                message(pod).map_or(Value::Empty, Value::text)
            })
        })
        .by("message")
        .wide()
        .rare(),
    ],
    collect,
    id: |facts, row| pod(facts, row).map_or(0, |pod| id_of(pod.key())),
    label: |facts, row, key| {
        let value = pod(facts, row)?.seen.labels.get(key);
        value.map(ToString::to_string)
    },
    selection: |facts, row| pod(facts, row).map(|pod| Selection::Pod(pod.key().clone())),
    open: |facts, row| {
        pod(facts, row).map(|pod| Destination::Facts(Selection::Pod(pod.key().clone())))
    },
    faulty: |facts, row| {
        pod(facts, row).is_some_and(|pod| {
            let failure = pod.seen.failure.as_ref();
            failure.is_some_and(|failure| is_failing(failure, facts.now))
        })
    },
    worst: Some(|facts, row| {
        pod(facts, row).map_or((u8::MAX, Reverse(None)), |pod| {
            (gravity(pod), Reverse(pod.seen.started))
        })
    }),
    last: |facts, row| pod(facts, row).is_some_and(|pod| pod.seen.phase == Phase::Succeeded),
    searched: None,
    sort: None,
    none: "no pod requests an accelerator",
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "pods",
        singular: "pod",
        aliases: &["pod", "po"],
        help: "Pods that request devices",
        title: "Pods",
        description: "Pods that request devices. Unknown is null, never 0; units are in the names; times are RFC 3339.",
        schema: of_rows::<PodRow<'_>>,
    },
    view: KindView::under(
        ViewId::Jobs,
        "pods that request devices: node, readiness, restarts, requests that they serve, job, money",
    )
    .with_facts()
    .by_namespace(),
    reads: is_needed_for_jobs,
    exporters: |asked| asked.exporters(Exporters::All),
    note: |_, _| None,
    rows: |facts, _| collect(facts, &RowScope::All),
    key: |facts, row| pod(facts, row).map_or_else(String::new, |pod| pod.key().to_string()),
    also: |facts, row| {
        let pod = pod(facts, row).into_iter();
        pod.map(|pod| pod.key().name.to_string()).collect()
    },
    name: None,
    place: Some(|facts, row| match pod(facts, row) {
        Some(pod) => (Some(&pod.key().namespace), Some(&pod.team)),
        None => (None, None),
    }),
    labels: Some(|facts, row| pod(facts, row).map(|pod| RowLabels::Own(&pod.seen.labels))),
    json: |facts, rows, style| {
        style.each(rows, |row| {
            found(facts, row).map(|(job, pod)| self::row(facts, job, pod))
        })
    },
};

/// Pods that request devices, or all pods of one job, each once, by namespace and name.
fn collect(facts: &Facts, row_scope: &RowScope) -> Vec<Row> {
    let wanted = |pod: &Pod| match row_scope {
        RowScope::Replicas(_) => true,
        RowScope::Kind(_, Some(namespace)) => {
            asks_for_devices(pod) && pod.key().namespace == *namespace
        }
        _ => asks_for_devices(pod),
    };
    let jobs = (0..).zip(facts.fleet.jobs.iter());
    let jobs = jobs.filter(|(_, job)| match row_scope {
        RowScope::Replicas(own) => job.id == *own,
        _ => true,
    });
    let mut pods: Vec<(Row, &Pod)> = jobs
        .flat_map(|(at, job)| {
            let pods = (0..).zip(job.pods.iter());
            pods.map(move |(within, pod)| ((at, within), &**pod))
        })
        .filter(|(_, pod)| wanted(pod))
        .collect();
    pods.small_sort_by(|(_, a), (_, b)| {
        let (a, b) = (a.key(), b.key());
        natural(&a.namespace, &b.namespace).then_with(|| natural(&a.name, &b.name))
    });
    pods.dedup_by_key(|(_, pod)| pod.key());
    pods.into_iter().map(|(row, _)| row).collect()
}

fn found(facts: &Facts, row: Row) -> Option<(&Job, &Pod)> {
    let job = facts.fleet.jobs.get(row.0 as usize)?;
    Some((job, job.pods.get(row.1 as usize)?))
}

fn pod(facts: &Facts, row: Row) -> Option<&Pod> {
    found(facts, row).map(|(_, pod)| pod)
}

/// What a pod says of its requests; empty for the pod of a job that serves nothing.
fn served<'a>(
    facts: &'a Facts,
    row: Row,
    make: impl FnOnce(&'a ServedModel) -> Value<'a>,
) -> Cell<'a> {
    let serving = found(facts, row).and_then(|(job, pod)| Some((job.serving.as_ref()?, pod)));
    Cell::new(serving.map_or(Value::Empty, |(serving, pod)| {
        let replica = serving.replica(pod.key());
        replica.map_or(Value::Unknown, |one| make(&one.figures))
    }))
}

fn requests(facts: &Facts, row: Row, count: fn(&ServedModel) -> Option<f64>) -> Cell<'_> {
    served(facts, row, |one| {
        Value::known(count(one), |count| Value::Count(count.round() as i64))
    })
}

fn p95(latency: &Latency) -> Value<'static> {
    Value::known(latency.quantile(0.95), |p95| {
        Value::Latency(p95.seconds, p95.at_least)
    })
}

/// Whether a pod is the slow replica of its service; `None` without request metrics.
pub fn slow(job: &Job, pod: &Pod) -> Option<bool> {
    let own = job.serving.as_ref()?.replica(pod.key())?;
    let slow = job.slow_replica();
    Some(slow.is_some_and(|slow| slow.replica.pod == own.pod))
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a Pod) -> Value<'a>) -> Cell<'a> {
    match pod(facts, row) {
        Some(pod) => Cell::new(make(pod)),
        None => Cell::new(Value::Unknown),
    }
}

fn phase(pod: &Pod) -> &'static str {
    stage(pod.seen.phase.name(), pod.seen.deleted.is_some())
}

/// How grave the state of a pod with a failure is: failed, failing, running, ending.
fn gravity(pod: &Pod) -> u8 {
    let seen = &pod.seen;
    match seen.phase {
        Phase::Failed => 0,
        Phase::Succeeded => 4,
        _ if seen.deleted.is_some() => 3,
        Phase::Running if seen.ready => 2,
        Phase::Pending | Phase::Running | Phase::Unknown => 1,
    }
}

/// A pod's state as a sign.
fn sign(pod: &Pod) -> (&'static str, Role) {
    let seen = &pod.seen;
    match seen.phase {
        Phase::Failed => ("×", Role::Crit),
        Phase::Succeeded => ("✓", Role::Muted),
        _ if seen.deleted.is_some() => ("◐", Role::Info),
        Phase::Pending if seen.node.is_none() => ("○", Role::Text),
        Phase::Pending => ("◐", Role::Info),
        Phase::Running if seen.ready => ("●", Role::Ok),
        Phase::Running => ("▲", Role::Warn),
        Phase::Unknown => ("–", Role::Warn),
    }
}

pub const fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

/// The phase as a table shows it: `Terminating` after deletion was requested, as in kubectl.
pub const fn stage(phase: &'static str, terminating: bool) -> &'static str {
    if terminating { "Terminating" } else { phase }
}

/// True for a pod that requests devices, by resource or by claim.
pub fn asks_for_devices(pod: &Pod) -> bool {
    let seen = &pod.seen;
    seen.requests.device_count() > 0 || !seen.claims.is_empty() || !seen.claimed.is_empty()
}

/// The row of one pod.
pub fn row<'a>(facts: &Facts, job: &Job, pod: &'a Pod) -> PodRow<'a> {
    let seen = &pod.seen;
    let replica = job.serving.as_ref().and_then(|all| all.replica(pod.key()));
    let figures = replica.map(|replica| &replica.figures);
    let latency = |of: fn(&ServedModel) -> &Latency| {
        let known = figures.map(|one| LatencyCell::of(of(one)));
        known.unwrap_or_default()
    };
    let (held, burn) = allocated_devices(facts, pod);
    PodRow {
        namespace: &seen.key.namespace,
        name: &seen.key.name,
        node: seen.node.as_deref(),
        devices_requested: seen.requests.device_count(),
        devices_allocated: held,
        ready: seen.ready,
        restarts: restarts(pod),
        phase: seen.phase.name(),
        terminating: seen.deleted.is_some(),
        priority: seen.priority,
        age_seconds: facts.now.since(seen.created).seconds(),
        job_kind: &pod.job.kind,
        job: &pod.job.key.name,
        queue: pod.queue.as_deref(),
        team: &pod.team,
        requests_running: figures.and_then(|one| one.running),
        requests_waiting: figures.and_then(|one| one.waiting),
        kv_cache_ratio: figures.and_then(|one| one.kv_max),
        window_seconds: figures.and_then(|one| one.window_seconds),
        ttft_seconds: latency(|one| &one.ttft),
        tpot_seconds: latency(|one| &one.tpot),
        slow: slow(job, pod),
        message: message(pod),
        burn_usd_per_hour: burn.map(Money::usd),
        list_usd_per_hour: list_usd(burn),
    }
}

/// Restarts of a pod's containers; zero where none is reported.
pub fn restarts(pod: &Pod) -> u32 {
    let failure = pod.seen.failure.as_ref();
    failure.map_or(0, |failure| failure.restarts)
}

/// Why a pod failed, restarts or is unscheduled.
fn message(pod: &Pod) -> Option<&str> {
    let failure = pod.seen.failure.as_ref();
    let failure = failure.and_then(|failure| non_empty(&failure.message));
    let unplaced = pod.seen.unschedulable.as_ref();
    failure.or_else(|| unplaced.and_then(|(_, message)| non_empty(message)))
}

/// Devices or slices allocated to a pod, and their rate: zero without devices; `None` where a price is missing, or where it
/// must have devices but they are not known.
pub fn allocated_devices(facts: &Facts, pod: &Pod) -> (u32, Option<Money>) {
    let none = |known: bool| (0, known.then_some(Money::ZERO));
    if !pod.holds_devices() {
        return none(true);
    }
    let node = pod.seen.node.as_ref();
    let Some(node) = node.and_then(|name| facts.fleet.node(name)) else {
        return none(false);
    };
    let prices = facts.spend_rates.device_prices.get(node.name());
    let mut held = 0;
    let mut sum = Some(Money::ZERO);
    for (at, device) in node.devices.iter().enumerate() {
        let price = prices.and_then(|prices| prices.of(at));
        let cells = device.cells();
        for cell in cells.filter(|cell| cell.holder.is_some_and(|held| held.key() == pod.key())) {
            held += 1;
            let cost = price.filter(|_| cell.share.is_some());
            let cost = cost.map(|price| Money::of(price).of_cell(&cell));
            sum = sum.zip(cost).map(|(sum, cost)| sum + cost);
        }
    }
    match held {
        0 => none(false),
        held => (held, sum),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::base::{Name, ObjectKey};
    use model::fleet::histogram::Histogram;
    use model::fleet::served_model::ServedReplica;
    use model::fleet::signal::Signal;

    use super::*;
    use crate::sample::facts;

    #[test]
    fn a_pod_costs_what_its_devices_and_slices_do() {
        let facts = facts();
        let key = ObjectKey::new("nlp", "train-0");
        let pod = facts.fleet.pod(&key).expect("it is there");
        let on = |node: &str| {
            let mut pod = (**pod).clone();
            Arc::make_mut(&mut pod.seen).node = Some(Name::new(node));
            allocated_devices(&facts, &pod)
        };
        let ((whole, rate), (slices, share)) = (on("n1"), on("n2"));
        assert_eq!((whole, slices), (2, 1));
        let (rate, share) = (rate.expect("has a price"), share.expect("has a price"));
        let (spend, _) = facts.spend_rates.jobs[&pod.job];
        assert_eq!(rate + share, spend.rate, "the job's are on both nodes");
        assert!(share.all < rate.all);
        assert_eq!(on("gone"), (0, None), "what it holds there is not known");
    }

    #[test]
    fn what_a_pod_costs_is_unknown_without_a_price_and_nothing_without_a_node() {
        let mut facts = facts();
        let burn = std::sync::Arc::make_mut(&mut facts.spend_rates);
        burn.nodes.clear();
        burn.prices.clear();
        for at in collect(&facts, &RowScope::All) {
            let (job, pod) = found(&facts, at).expect("a row of these facts");
            let row = row(&facts, job, pod);
            let wanted = row.node.is_none().then_some(0.0);
            if row.phase != "Succeeded" && row.phase != "Failed" {
                assert_eq!(row.burn_usd_per_hour, wanted, "{}", row.name);
            }
        }
    }

    #[test]
    fn a_replica_has_its_own_requests_and_the_slow_one_is_marked() {
        let mut facts = facts();
        let mut jobs = facts.fleet.jobs.to_vec();
        let at = jobs.iter().position(|job| job.serving.is_some());
        let job = Arc::make_mut(&mut jobs[at.expect("one serves")]);
        let id = job.id.clone();
        let mut pod = (*job.pods[0]).clone();
        let mut pods = Vec::new();
        let serving = job.serving.as_mut().expect("it serves");
        for (at, name) in ["a", "b", "c", "d", "quiet"].into_iter().enumerate() {
            let seen = Arc::make_mut(&mut pod.seen);
            seen.key.name = Name::new(name);
            (seen.phase, seen.deleted, seen.ready) = (Phase::Running, None, true);
            pods.push(Arc::new(pod.clone()));
            let below = if name == "c" { 0.0 } else { 100.0 };
            let buckets = vec![(0.1, below), (1.0, 100.0), (f64::INFINITY, 100.0)];
            let histogram = Histogram::new(Signal::Ttft, buckets).expect("it is one");
            let mut figures = ServedModel {
                running: Some(4.0),
                waiting: Some(at as f64),
                kv_max: Some(0.5),
                window_seconds: Some(150.0),
                ..ServedModel::default()
            };
            figures.ttft.add(histogram.whole());
            let pod = ObjectKey::new(id.key.namespace.clone(), name);
            serving.replicas.push(ServedReplica { pod, figures });
        }
        serving.replicas.pop();
        job.pods = pods.into();
        Arc::make_mut(&mut facts.fleet).jobs = jobs.into();
        let all = collect(&facts, &RowScope::Replicas(id));
        let rows = all.iter().map(|at| {
            let (job, pod) = found(&facts, *at).expect("a row of these facts");
            let row = row(&facts, job, pod);
            (row.name, row.requests_waiting, row.slow)
        });
        let wanted = [
            ("a", Some(0.0), Some(false)),
            ("b", Some(1.0), Some(false)),
            ("c", Some(2.0), Some(true)),
            ("d", Some(3.0), Some(false)),
            ("quiet", None, None),
        ];
        assert_eq!(rows.collect::<Vec<_>>(), wanted);
        let cell = |row: Row, id: &str| {
            let column = KIND.columns.iter().find(|column| column.id == id);
            let column = column.expect("a column");
            let sign = column.sign.map(|sign| sign(&facts, row).0);
            let words = (column.cell)(&facts, row).value;
            (words.plain(facts.now).into_owned(), sign)
        };
        assert_eq!(cell(all[2], "name").1, Some("▲"));
        assert_eq!(cell(all[3], "name").1, Some("●"));
        assert_eq!(cell(all[0], "kv").0, "50%");
        assert_eq!(cell(all[0], "ttft").0, "95ms");
        assert_eq!(cell(all[4], "ttft").0, "-", "not read");
        let job = &facts.fleet.jobs[all[0].0 as usize];
        assert!(job.slow_replica().is_some(), "its row is marked");
        let words = crate::kinds::services::slow_replica(job);
        let words = words.expect("one is slow");
        assert_eq!(
            words,
            "pod c: TTFT p95 955ms, the median of the replicas 95ms"
        );
    }
}
