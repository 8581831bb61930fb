//! Jobs: requests, allocation, state with its reason, and cost of each job.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use model::base::{SmallSort, natural};
use model::cost::Money;
use model::fleet::job::{Job, JobState};
use model::fleet::object_parts::WorkloadFailure;
use model::schema::of_rows;

use crate::cell::{Cell, Value};
use crate::column::{Column, KindSpec, Row, RowOutput, id_of};
use crate::kind::{Exporters, Format, KindNames, KindView, UNKNOWN_IS_NULL, is_needed_for_jobs};
use crate::navigation::{Destination, RowScope, Selection, ViewId};
use crate::role::Role;
use crate::row_labels::{RowLabels, label_of_job};
use crate::rows::job_failure::why_failed;
use crate::rows::job_place::{fails_now, runs_and_fails, worst_words};
use crate::rows::jobs::JobRow;
use crate::rows::jobs::{self, JobAge};
use crate::rows::queue_tree;
use crate::{Facts, waiting};

/// Jobs. A row is the rank of a job's state and its place among all jobs.
pub static KIND: KindSpec = KindSpec {
    columns: &[
        Column::words("namespace", "NAMESPACE", 15, (8, 20), |facts, row| {
            of(facts, row, |job| Value::text(job.namespace().as_str())).role(Role::Muted)
        })
        .by("namespace")
        .wide(),
        Column::words("job", "NAME", 0, (24, 44), name)
            .by("name")
            .sign(|facts, row| {
                let own = job(facts, row);
                own.map_or(("–", Role::Muted), |job| match jobs::worst(facts, job) {
                    Some(finding) => ("▲", Role::of_severity(finding.severity)),
                    None => sign(job.state),
                })
            }),
        Column::words("state", "STATE", 6, (8, 9), state).by("state"),
        Column::words("kind", "KIND", 10, (5, 14), |facts, row| {
            of(facts, row, |job| Value::text(job.id.kind.as_str())).role(Role::Muted)
        })
        .by("kind")
        .wide_on_screen(),
        Column::words("queue", "QUEUE", 8, (9, 16), |facts, row| {
            of(facts, row, |job| {
                Value::known(job.queue.as_deref(), Value::text)
            })
        })
        .by("queue"),
        Column::words("team", "TEAM", 7, (8, 16), |facts, row| {
            of(facts, row, |job| Value::text(job.team.as_str()))
        })
        .by("team"),
        Column::number("devices", "DEVICES", 0, 3, devices).by("devices_requested"),
        Column::words("class", "CLASS", 6, (4, 12), |facts, row| {
            let is_sliced = job(facts, row).is_some_and(Job::is_sliced);
            of(facts, row, |job| {
                Value::known(job.class.as_deref(), Value::text)
            })
            .mark(if is_sliced { " slices" } else { "" })
        })
        .by("class"),
        Column::number("prio", "PRIO", 9, 4, |facts, row| {
            of(facts, row, |job| {
                Value::known(job.priority, |priority| Value::Count(i64::from(priority)))
            })
            .role(Role::Muted)
        })
        .by("priority")
        .wide_output(),
        Column::number("gang", "GANG", 13, 4, |facts, row| {
            of(facts, row, |job| match job.gang {
                Some(gang) => Value::Part(gang.min.into(), gang.size.into()),
                None => Value::Empty,
            })
        })
        .by("gang.min")
        .wide(),
        // Wait time, run time so far and total run time are three different values.
        Column::number("wait-run", "WAIT/RUN", 1, 6, clock)
            .by("waiting_seconds|running_seconds")
            .apart(|facts, row| match job(facts, row).map(|job| job.state) {
                Some(JobState::Waiting | JobState::Suspended) => 0,
                Some(JobState::Starting | JobState::Running | JobState::Finishing) => 1,
                Some(JobState::Failed | JobState::Done) | None => 2,
            }),
        // A reading: leaving it out spares the exporters.
        Column::number("util", "UTIL", 5, 5, util)
            .by("util_ratio")
            .wide_output()
            .gives_way(),
        Column::words("bound", "LIMITED BY", 9, (6, 13), |facts, row| {
            of(facts, row, |job| match job.devices_allocated {
                0 => Value::Empty,
                _ => Value::known(jobs::bound(facts, job), |bound| Value::text(bound.name())),
            })
        })
        .by("bound")
        .wide_output()
        .gives_way(),
        Column::words("place", "REASON OR PLACE", 2, (23, 60), place),
        Column::words(
            "start",
            "WHAT WOULD START IT",
            12,
            (20, 60),
            |facts, row| {
                let words = job(facts, row)
                    .filter(|job| job.state == JobState::Waiting)
                    .map(|job| waiting::mend(facts, job));
                Cell::text(words.unwrap_or_default()).role(Role::Info)
            },
        )
        .on_screen()
        .rare(),
        Column::number("eta", "ETA", 2, 6, |facts, row| {
            let eta = job(facts, row).and_then(|job| waiting::eta(facts, job));
            Cell::new(eta.map_or(Value::Empty, |(words, at)| Value::Starts(words, at)))
        })
        .on_screen()
        .rare(),
        Column::number("burn", "$/h", 3, 5, rate_cell).by("burn_usd_per_hour"),
        Column::number("cost", "COST SINCE START", 11, 6, cost)
            .by("cost_usd")
            .wide_on_screen(),
        Column::words("no-cost", "COST UNKNOWN", 15, (8, 40), |facts, row| {
            of(facts, row, |job| {
                jobs::why_no_cost(facts, job).map_or(Value::Empty, Value::text)
            })
        })
        .wide()
        .rare(),
        Column::number("age", "AGE", 12, 5, |facts, row| {
            of(facts, row, |job| Value::Since(job.created))
        })
        .by("age_seconds")
        .wide_on_screen(),
        Column::number("idle", "IDLE ALLOC", 12, 4, |facts, row| {
            of(facts, row, |job| Value::Count(i64::from(job.idle_devices)))
        })
        .wide(),
        Column::number("pods", "PODS", 13, 4, |facts, row| {
            of(facts, row, |job| Value::Count(job.pods.len() as i64))
        })
        .wide(),
        Column::number("restarts", "RESTARTS", 14, 4, |facts, row| {
            of(facts, row, |job| {
                Value::known(job.failure.as_ref(), |failure| {
                    Value::Count(i64::from(failure.restarts))
                })
            })
        })
        .by("failure.restarts")
        .wide(),
    ],
    collect,
    id: |facts, row| job(facts, row).map_or(0, |job| id_of(&job.id)),
    label: |facts, row, key| {
        let label = label_of_job(job(facts, row)?, key);
        label.map(ToString::to_string)
    },
    selection: |facts, row| job(facts, row).map(|job| Selection::Job(job.id.clone())),
    open: |facts, row| {
        job(facts, row).map(|job| Destination::Part(ViewId::Jobs, RowScope::Job(job.id.clone())))
    },
    faulty: |facts, row| {
        job(facts, row).is_some_and(|job| match job.state {
            JobState::Failed => true,
            JobState::Done => false,
            _ => {
                // Evicted by its queueing system and pending again: not a fault.
                let is_queued_again = |failure: &WorkloadFailure| {
                    job.pods.is_empty()
                        && failure.exit_code.is_none()
                        && failure.last_eviction.is_some()
                };
                let fails = |failure: &WorkloadFailure| {
                    jobs::is_failing(failure, facts.now) && !is_queued_again(failure)
                };
                job.failure.as_ref().is_some_and(fails) || jobs::worst(facts, job).is_some()
            }
        })
    },
    // Those that failed, the newest failure on top; then those that fail and do not run; then those that run.
    worst: Some(|facts, row| {
        job(facts, row).map_or((u8::MAX, Reverse(None)), |job| {
            let gravity = match job.state {
                JobState::Failed => 0,
                JobState::Waiting | JobState::Starting => 1,
                JobState::Running => 2,
                JobState::Suspended | JobState::Finishing | JobState::Done => 3,
            };
            (gravity, Reverse(jobs::failed_at(job)))
        })
    }),
    last: |_, _| false,
    searched: None,
    sort: None,
    none: "no job requests an accelerator",
};

/// How `get` finds and writes the rows.
pub static OUTPUT: RowOutput = RowOutput {
    names: KindNames {
        plural: "jobs",
        singular: "job",
        aliases: &["job"],
        help: "What teams submitted",
        title: "Jobs",
        description: UNKNOWN_IS_NULL,
        schema: of_rows::<JobRow<'_>>,
    },
    view: KindView::tab(ViewId::Jobs).words(&["jo"]).with_facts(),
    reads: is_needed_for_jobs,
    exporters: |asked| match asked.format {
        Format::Table if !asked.uses_readings => Exporters::Priced,
        Format::Name if !asked.uses_readings && !asked.is_named => Exporters::DevicesUnknown,
        _ => Exporters::OfRows,
    },
    note: |_, _| None,
    rows: |facts, select| {
        let mut rows = collect(facts, &RowScope::All);
        let at = |row: &Row| &facts.fleet.jobs[row.1 as usize];
        match select("state", "failed") {
            // The latest failure first; jobs without a known failure time are last.
            true => rows.small_sort_by_key(|row| {
                let job = at(row);
                (Reverse(jobs::failed_at(job)), job.id.clone())
            }),
            false => rows.small_sort_by(|a, b| {
                let (a, b) = (at(a), at(b));
                natural(a.namespace(), b.namespace()).then_with(|| natural(a.name(), b.name()))
            }),
        }
        rows
    },
    key: |facts, row| {
        let job = job(facts, row);
        job.map_or_else(String::new, |job| {
            format!("{} ({})", job.id.key, job.id.kind)
        })
    },
    also: |facts, row| {
        let names = job(facts, row).map(|job| [job.id.key.to_string(), job.name().to_string()]);
        names.into_iter().flatten().collect()
    },
    name: Some(|facts, row| {
        let job = job(facts, row);
        job.map_or_else(String::new, |job| {
            format!("{}/{}", job.id.kind.to_ascii_lowercase(), job.id.key)
        })
    }),
    place: Some(|facts, row| match job(facts, row) {
        Some(job) => (Some(job.namespace()), Some(&job.team)),
        None => (None, None),
    }),
    labels: Some(|facts, row| job(facts, row).map(RowLabels::Job)),
    json: |facts, rows, style| {
        let rows = rows.iter();
        rows.map(|row| style.write(&job(facts, *row).map(|job| jobs::row(facts, job))))
            .collect()
    },
};

/// By rank of the state; those that wait by their wait, the longest first; those that failed, the latest first; then by name.
fn collect(facts: &Facts, row_scope: &RowScope) -> Vec<Row> {
    let members = match row_scope {
        RowScope::Cohort(cohort) => queue_tree::members(&facts.fleet.queues, cohort),
        _ => BTreeSet::new(),
    };
    let mut rows: Vec<_> = facts
        .fleet
        .jobs
        .iter()
        .enumerate()
        .filter(|(_, job)| match row_scope {
            RowScope::Team(team) => job.team == *team,
            RowScope::Queue(queue) => job.queue.as_ref() == Some(queue),
            RowScope::Cohort(_) => {
                let queue = job.queue.as_ref();
                queue.is_some_and(|queue| members.contains(queue))
            }
            RowScope::Class(class) => job.class.as_ref() == Some(class),
            RowScope::Namespace(namespace) => job.namespace() == namespace,
            RowScope::Pool(pool) => job.pools.contains(pool),
            _ => true,
        })
        .map(|(at, job)| {
            // The wait that its column shows.
            let since = || job.waiting_since.unwrap_or(job.created);
            let waits = (job.state == JobState::Waiting).then(since);
            let failed = (job.state == JobState::Failed).then(|| jobs::failed_at(job));
            ((rank(job.state), waits, Reverse(failed.flatten())), at)
        })
        .collect();
    let key = |at: usize| &facts.fleet.jobs[at].id.key;
    rows.small_sort_by(|a, b| {
        let (one, other) = (key(a.1), key(b.1));
        (a.0.cmp(&b.0))
            .then_with(|| natural(&one.namespace, &other.namespace))
            .then_with(|| natural(&one.name, &other.name))
            .then(a.1.cmp(&b.1))
    });
    let rows = rows.into_iter();
    rows.map(|((rank, ..), at)| (rank, at as u32)).collect()
}

/// Sort rank: states that need action first, finished jobs last.
const fn rank(state: JobState) -> u32 {
    match state {
        JobState::Waiting => 0,
        JobState::Failed => 1,
        JobState::Suspended => 2,
        JobState::Starting => 3,
        JobState::Running | JobState::Finishing => 4,
        JobState::Done => 5,
    }
}

fn job(facts: &Facts, row: Row) -> Option<&Job> {
    facts.fleet.jobs.get(row.1 as usize).map(|job| &**job)
}

fn of<'a>(facts: &'a Facts, row: Row, make: impl FnOnce(&'a Job) -> Value<'a>) -> Cell<'a> {
    match job(facts, row) {
        Some(job) => Cell::new(make(job)),
        None => Cell::new(Value::Unknown),
    }
}

/// A job's state as a sign.
pub const fn sign(state: JobState) -> (&'static str, Role) {
    match state {
        JobState::Waiting => ("○", Role::Text),
        JobState::Starting | JobState::Finishing => ("◐", Role::Info),
        JobState::Running => ("●", Role::Ok),
        JobState::Suspended => ("□", Role::Muted),
        JobState::Failed => ("×", Role::Crit),
        JobState::Done => ("✓", Role::Muted),
    }
}

fn name(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |job| Value::path(&job.id.key)).role(Role::Title)
}

fn state(facts: &Facts, row: Row) -> Cell<'_> {
    let role = match job(facts, row).map(|job| job.state) {
        Some(JobState::Waiting) => Role::Text,
        Some(JobState::Failed) => Role::Crit,
        _ => Role::Muted,
    };
    of(facts, row, |job| Value::text(job.state.name())).role(role)
}

fn devices(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |job| {
        let (held, asked) = (job.devices_allocated, job.devices_requested);
        // Requested and allocated are shown as one number where they are equal, or where nothing is allocated.
        match held == asked || held == 0 {
            true => Value::Count(asked.into()),
            false => Value::Part(held.into(), asked.into()),
        }
    })
}

fn clock(facts: &Facts, row: Row) -> Cell<'_> {
    let Some(job) = job(facts, row) else {
        return Cell::new(Value::Unknown);
    };
    let role = if job.state == JobState::Waiting {
        Role::Title
    } else {
        Role::Text
    };
    // The clock of an ended job shows its run time; its page shows when it ended.
    Cell::new(match jobs::clock(job) {
        Some(JobAge::Since(at)) => Value::Since(at),
        Some(JobAge::Over(span)) => Value::Span(span),
        None => Value::Unknown,
    })
    .role(role)
}

fn util(facts: &Facts, row: Row) -> Cell<'_> {
    let idle = job(facts, row)
        .is_some_and(|job| job.idle_devices > 0 && job.idle_devices * 2 >= job.devices_allocated);
    let cell = of(facts, row, |job| {
        if job.devices_allocated == 0 {
            return Value::Empty;
        }
        Value::known(jobs::util(job), Value::Ratio)
    });
    if idle {
        cell.role(Role::IdleMoney).mark("▲")
    } else {
        // Keeps the numbers aligned, with and without the mark.
        cell.mark(" ")
    }
}

fn place(facts: &Facts, row: Row) -> Cell<'_> {
    let worst = job(facts, row).and_then(|job| worst_words(facts, job));
    let role = match job(facts, row) {
        Some(job) if job.state == JobState::Failed => Role::Crit,
        Some(job) if job.state == JobState::Waiting => Role::Text,
        Some(job) if fails_now(job) || worst.is_some() => Role::Warn,
        _ => Role::Muted,
    };
    of(facts, row, |job| {
        let failure = runs_and_fails(job).map(|failure| why_failed(facts, failure));
        let place = waiting::why_and_start(facts, job);
        let words = failure.into_iter().chain(worst).chain([place]);
        Value::text(words.collect::<Vec<_>>().join(" · "))
    })
    .role(role)
}

fn rate_cell(facts: &Facts, row: Row) -> Cell<'_> {
    let cell = of(facts, row, |job| {
        Value::known(jobs::money(facts, job), |spend| Value::Money(spend.rate))
    });
    // What has no devices costs nothing: that is not what one looks for.
    let is_nothing = cell.value == Value::Money(Money::ZERO);
    cell.role(if is_nothing { Role::Muted } else { Role::Text })
}

fn cost(facts: &Facts, row: Row) -> Cell<'_> {
    of(facts, row, |job| {
        Value::known(jobs::so_far(facts, job), Value::Sum)
    })
}
