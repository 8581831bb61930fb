//! Pods that request devices: node, readiness, allocated devices and cost.

use std::cmp::Reverse;

use model::fleet::device::Pod;
use model::fleet::observe::Phase;
use table::Facts;
use table::cell::{Cell, Value};
use table::column::{Column, KindSpec, Row, id_of};
use table::jobs;
use table::pods::{allocated_devices, asks_for_devices, phase_name, restarts, stage, yes};
use table::role::Role;

use table::navigation::{Destination, RowScope, Selection};

/// The table of pods. A row is the place of its job among all jobs, and its own within that.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("namespace", "NAMESPACE", 4, (8, 20), |facts, row| {
            of(facts, row, |pod| Value::text(pod.key().namespace.as_str())).role(Role::Muted)
        }),
        Column::words("name", "NAME", 0, (24, 56), |facts, row| {
            of(facts, row, |pod| Value::text(pod.key().name.as_str()))
                .role(Role::Title)
                .middle()
        })
        .sign(|facts, row| pod(facts, row).map_or(("–", Role::Muted), sign)),
        Column::words("node", "NODE", 3, (10, 32), |facts, row| {
            of(facts, row, |pod| match &pod.seen.node {
                Some(node) => Value::text(node.as_str()),
                None => Value::Empty,
            })
        }),
        Column::number("devices", "HELD/DEV", 1, 3, |facts, row| {
            of(facts, row, |pod| {
                let asked = pod.seen.requests.device_count();
                Value::Part(u64::from(allocated_devices(facts, pod).0), u64::from(asked))
            })
        }),
        Column::words("ready", "READY", 2, (5, 5), |facts, row| {
            of(facts, row, |pod| Value::text(yes(pod.seen.ready)))
        }),
        Column::number("restarts", "RESTARTS", 5, 3, |facts, row| {
            let count = pod(facts, row).map_or(0, restarts);
            let role = if count > 0 { Role::Warn } else { Role::Muted };
            of(facts, row, |pod| Value::Count(i64::from(restarts(pod)))).role(role)
        }),
        Column::words("phase", "PHASE", 1, (7, 11), |facts, row| {
            let role = pod(facts, row).map_or(Role::Muted, |pod| sign(pod).1);
            of(facts, row, |pod| Value::text(phase(pod))).role(role)
        }),
        Column::number("age", "AGE", 2, 5, |facts, row| {
            of(facts, row, |pod| Value::Since(pod.seen.created))
        }),
        Column::words("job", "JOB", 3, (10, 36), |facts, row| {
            of(facts, row, |pod| Value::text(pod.job.key.name.as_str()))
        }),
        Column::number("burn", "$/h", 1, 6, |facts, row| {
            of(facts, row, |pod| {
                Value::known(allocated_devices(facts, pod).1, Value::Money)
            })
            .role(Role::Accent)
        }),
        Column::words("queue", "QUEUE", 7, (8, 16), |facts, row| {
            of(facts, row, |pod| {
                Value::known(pod.queue.as_deref(), Value::text)
            })
        })
        .wide(),
        Column::words("team", "TEAM", 6, (8, 16), |facts, row| {
            of(facts, row, |pod| Value::text(pod.team.as_str()))
        })
        .wide(),
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
            failure.is_some_and(|failure| jobs::is_failing(failure, facts.now))
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
    none: "no pod asks for an accelerator",
};

fn collect(facts: &Facts, row_scope: &RowScope) -> Vec<Row> {
    let wanted = |pod: &Pod| match row_scope {
        RowScope::Pods(Some(namespace)) => pod.key().namespace == *namespace,
        _ => true,
    };
    let jobs = facts.fleet.jobs.iter().enumerate();
    jobs.flat_map(|(at, job)| {
        let pods = job.pods.iter().enumerate();
        pods.filter(|(_, pod)| asks_for_devices(pod) && wanted(pod))
            .map(move |(within, _)| (at as u32, within as u32))
            .collect::<Vec<Row>>()
    })
    .collect()
}

fn pod(facts: &Facts, row: Row) -> Option<&Pod> {
    let job = facts.fleet.jobs.get(row.0 as usize)?;
    job.pods.get(row.1 as usize).map(|pod| &**pod)
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a Pod) -> Value<'a>) -> Cell<'a> {
    match pod(facts, row) {
        Some(pod) => Cell::new(make(pod)),
        None => Cell::new(Value::Unknown),
    }
}

fn phase(pod: &Pod) -> &'static str {
    stage(phase_name(pod.seen.phase), pod.seen.deleted.is_some())
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
        Phase::Pending if seen.node.is_none() => ("○", Role::Warn),
        Phase::Pending => ("◐", Role::Info),
        Phase::Running if seen.ready => ("●", Role::Ok),
        Phase::Running => ("▲", Role::Warn),
        Phase::Unknown => ("–", Role::Warn),
    }
}
