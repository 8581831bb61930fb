//! Changes of jobs between two snapshots.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::base::quantities::{counted, first_named};
use model::base::{Moment, Name};
use model::fleet::admission::Eviction;
use model::fleet::job::{Job, JobState};

use super::{Dated, FleetChange, FleetChangeKind, Topic, pairs};
use crate::Facts;
use crate::rows::job_failure::with_preemptor;
use crate::rows::jobs::class_words;

/// The number of nodes named in a change.
const NAMED: usize = 3;

pub(super) fn compare(before: &Facts, after: &Facts, out: &mut Vec<FleetChange>) {
    let both = pairs(&before.fleet.jobs, &after.fleet.jobs, |job| &job.id);
    for (was, is) in both {
        let in_scope =
            was.is_some_and(|job| before.has_job(job)) || is.is_some_and(|job| after.has_job(job));
        if !in_scope {
            continue;
        }
        match (was, is) {
            (Some(was), Some(is)) if Arc::ptr_eq(was, is) => {}
            // A different object with the same name.
            (Some(was), Some(is)) if was.uid != is.uid && !was.uid.is_empty() => {
                came(after, is, out);
            }
            (Some(was), Some(is)) => changed(after, was, is, out),
            (None, Some(is)) => came(after, is, out),
            (Some(was), None) => went(was, out),
            (None, None) => {}
        }
    }
}

fn change(job: &Job, event: FleetChangeKind, at: Option<Dated>, detail: String) -> FleetChange {
    FleetChange {
        at,
        topic: Topic::Job,
        event,
        id: job.id.kind.clone(),
        namespace: job.namespace().clone(),
        name: job.name().clone(),
        team: (!job.team.is_empty()).then(|| job.team.clone()),
        severity: None,
        cause: Name::default(),
        detail,
        sizes: None,
    }
}

/// `11 to 12 devices`.
pub(super) fn sizes_words((from, to): (u32, u32)) -> String {
    format!("{from} to {}", counted(u64::from(to), "device"))
}

/// `8 h100, queue research`.
fn request_text(job: &Job) -> String {
    let devices = match class_words(job) {
        Some(class) => format!("{} {class}", job.devices_requested),
        None => counted(u64::from(job.devices_requested), "device"),
    };
    match &job.queue {
        Some(queue) => format!("{devices}, queue {queue}"),
        None => devices,
    }
}

fn came(facts: &Facts, job: &Job, out: &mut Vec<FleetChange>) {
    let dated = |at| Some(Dated::Reported(at));
    out.push(match job.state {
        JobState::Waiting | JobState::Suspended | JobState::Starting => {
            let reason = match job.reason.is_empty() {
                true => String::new(),
                false => format!(": {}", with_preemptor(&facts.fleet, &job.reason)),
            };
            let detail = format!("{}{reason}", request_text(job));
            change(job, FleetChangeKind::Queued, dated(job.created), detail)
        }
        JobState::Running | JobState::Finishing => change(
            job,
            FleetChangeKind::Started,
            job.started.and_then(dated),
            request_text(job),
        ),
        JobState::Done | JobState::Failed => ended(job),
    });
}

/// What a job states of the time since `from`: it was made and waits, it started, it ended, it was evicted.
pub(super) fn stated(facts: &Facts, job: &Job, from: Moment, out: &mut Vec<FleetChange>) {
    let is_recent = |at: Option<Moment>| at.is_some_and(|at| at >= from);
    let moment = match job.state {
        JobState::Waiting | JobState::Suspended | JobState::Starting => Some(job.created),
        JobState::Running | JobState::Finishing => job.started,
        JobState::Done | JobState::Failed => job.finished,
    };
    if is_recent(moment) {
        came(facts, job, out);
    }
    let last = evictions(job).first();
    if let Some(last) = last.filter(|last| is_recent(last.at)) {
        out.push(evicted(facts, job, last));
    }
}

fn evicted(facts: &Facts, job: &Job, last: &Eviction) -> FleetChange {
    let mut detail = with_preemptor(&facts.fleet, &why(last)).into_owned();
    if is_running(job) || job.state == JobState::Starting {
        detail.push_str(match detail.is_empty() {
            true => "runs again",
            false => "; runs again",
        });
    }
    let at = last.at.map(Dated::Reported);
    FleetChange {
        cause: Name::from(why(last)),
        ..change(job, FleetChangeKind::Evicted, at, detail)
    }
}

fn is_running(job: &Job) -> bool {
    matches!(job.state, JobState::Running | JobState::Finishing)
}

fn ended(job: &Job) -> FleetChange {
    let ran = job.started.zip(job.finished);
    let ran = ran.map(|(from, to)| format!("ran {}", to.since(from)));
    let at = job.finished.map(Dated::Reported);
    if job.state == JobState::Done {
        let parts: Vec<String> = ran.into_iter().chain([request_text(job)]).collect();
        return change(job, FleetChangeKind::Ended, at, parts.join(", "));
    }
    let why = job
        .failure
        .as_ref()
        .map(|failure| failure.message.to_string());
    let parts: Vec<String> = ran
        .into_iter()
        .chain(why)
        .filter(|word| !word.is_empty())
        .collect();
    change(job, FleetChangeKind::Failed, at, parts.join(": "))
}

/// A job that no longer exists. One that had already finished is not reported.
fn went(job: &Job, out: &mut Vec<FleetChange>) {
    let detail = match job.state {
        JobState::Done | JobState::Failed => return,
        JobState::Waiting | JobState::Suspended => "was waiting".to_owned(),
        _ => format!("was on {}", nodes_of(&nodes(job))),
    };
    out.push(change(job, FleetChangeKind::Gone, None, detail));
}

fn evictions(job: &Job) -> &[Eviction] {
    let seen = job.admission.as_ref().map(|admission| &admission.seen);
    seen.map_or(&[], |seen| &seen.evictions)
}

fn nodes(job: &Job) -> BTreeSet<&Name> {
    job.places.iter().map(|place| &place.node).collect()
}

fn nodes_of(nodes: &BTreeSet<&Name>) -> String {
    match nodes.len() {
        0 => "no known node".to_owned(),
        _ => first_named(&nodes.iter().collect::<Vec<_>>(), NAMED),
    }
}

fn changed(facts: &Facts, was: &Job, is: &Job, out: &mut Vec<FleetChange>) {
    let runs = is_running;
    let holds = |job: &Job| runs(job) || job.state == JobState::Starting;
    let waits = |job: &Job| matches!(job.state, JobState::Waiting | JobState::Suspended);
    let over = |job: &Job| !job.is_live();
    let count = |job: &Job| evictions(job).iter().map(|own| own.count).sum::<u32>();
    let is_evicted = count(is) > count(was);
    if is_evicted {
        let nothing = Eviction::default();
        let last = evictions(is).first().unwrap_or(&nothing);
        out.push(evicted(facts, is, last));
    }
    if over(is) {
        if is.state != was.state {
            out.push(ended(is));
        }
        return;
    }
    if runs(is) && !runs(was) {
        let at = is.started.map(Dated::Reported);
        let on = nodes(is);
        let on = if on.is_empty() {
            request_text(is)
        } else {
            format!("{} on {}", request_text(is), nodes_of(&on))
        };
        out.push(change(is, FleetChangeKind::Started, at, on));
    } else if waits(is) && holds(was) && !is_evicted {
        let detail = format!("was on {}", nodes_of(&nodes(was)));
        out.push(change(is, FleetChangeKind::Displaced, None, detail));
    } else if is.state == JobState::Starting && runs(was) && !is_evicted {
        let why = is
            .failure
            .as_ref()
            .map(|failure| failure.message.to_string());
        out.push(change(
            is,
            FleetChangeKind::Degraded,
            None,
            why.unwrap_or_default(),
        ));
    } else if is.state == JobState::Suspended && was.state == JobState::Waiting {
        out.push(FleetChange {
            cause: is.reason.clone(),
            ..change(is, FleetChangeKind::Suspended, None, is.reason.to_string())
        });
    } else if is.state == JobState::Waiting && was.state == JobState::Suspended {
        out.push(change(is, FleetChangeKind::Resumed, None, request_text(is)));
    } else if runs(is) && runs(was) {
        let (from, to) = (nodes(was), nodes(is));
        let (held, holds) = (was.devices_allocated, is.devices_allocated);
        if held != holds {
            let sizes = (held, holds);
            out.push(FleetChange {
                sizes: Some(sizes),
                ..change(is, FleetChangeKind::Resized, None, sizes_words(sizes))
            });
        } else if from != to && !from.is_empty() && !to.is_empty() {
            let gone: BTreeSet<&Name> = from.difference(&to).copied().collect();
            let new: BTreeSet<&Name> = to.difference(&from).copied().collect();
            let detail = format!("from {} to {}", nodes_of(&gone), nodes_of(&new));
            out.push(change(is, FleetChangeKind::Moved, None, detail));
        }
    }
    if let (Some(from), Some(to)) = (&was.queue, &is.queue)
        && from != to
    {
        let detail = format!("from queue {from} to queue {to}");
        out.push(change(is, FleetChangeKind::Moved, None, detail));
    }
}

/// Why a job was evicted, as its queueing system reports it.
fn why(eviction: &Eviction) -> String {
    let words = [&eviction.reason, &eviction.cause];
    let words: Vec<&str> = words
        .iter()
        .map(|word| word.as_str())
        .filter(|word| !word.is_empty())
        .collect();
    match eviction.message.is_empty() {
        true => words.join(", "),
        false => eviction.message.to_string(),
    }
}
