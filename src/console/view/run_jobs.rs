//! What became of the jobs that a run has started or stopped, by the present picture: running again, waiting, not back.

use model::base::{Age, Moment, ObjectKey};
use model::fleet::job::{Job, JobState};
use model::fleet::observe::Phase;
use model::plan::JobName;
use table::Facts;
use table::actions::{RunRow, RunState, not_started};
use table::role::Role;

/// State of a job that a run has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Back {
    Running,
    Starting,
    Waiting,
    /// Suspended, failed or deleted: it does not restart without action.
    Not,
    Ended,
    /// Its pods are those that it had before.
    Kept,
    /// Its evicted pods are gone, and no new ones run yet.
    Gone,
    Unknown,
}

/// The jobs that a run was to start, then those that it has stopped: name, state, and the state's role.
pub fn lines(facts: &Facts, run: &RunRow) -> Vec<(String, String, Role)> {
    let started = run.starts.iter().map(|job| {
        let (words, role) = match is_older(facts, run) {
            true => (NOT_READ.to_owned(), Role::Muted),
            false => started(facts, job),
        };
        (job.to_string(), words, role)
    });
    let stopped = run.stopped.iter().map(|job| {
        let (_, words, role) = became(facts, run, job);
        (job.to_string(), words, role)
    });
    started.chain(stopped).collect()
}

/// The same as a summary: `2 jobs stopped: 1 running again, 1 waiting`; `None` where a run has stopped none.
pub fn in_sum(facts: &Facts, run: &RunRow) -> Option<String> {
    if run.stopped.is_empty() {
        return None;
    }
    const WORDS: [(Back, &str); 8] = [
        (Back::Running, "running again"),
        (Back::Starting, "restarting"),
        (Back::Waiting, "waiting"),
        (Back::Not, "not running"),
        (Back::Ended, "completed"),
        (Back::Kept, "not stopped yet"),
        (Back::Gone, "not restarted yet"),
        (Back::Unknown, "unknown"),
    ];
    let all: Vec<Back> = run
        .stopped
        .iter()
        .map(|job| became(facts, run, job).0)
        .collect();
    let parts: Vec<String> = WORDS
        .iter()
        .filter_map(|(back, word)| {
            let count = all.iter().filter(|known| *known == back).count();
            match (count, all.len()) {
                (0, _) => None,
                (_, 1) => Some((*word).to_owned()),
                (count, _) => Some(format!("{count} {word}")),
            }
        })
        .collect();
    let parts = parts.join(", ");
    Some(match all.len() {
        1 => format!("1 job stopped: {parts}"),
        more => format!("{more} jobs stopped: {parts}"),
    })
}

fn find<'a>(facts: &'a Facts, job: &JobName) -> Result<&'a Job, (Back, String, Role)> {
    match facts.fleet.job_named(&job.to_string()) {
        Some(job) => Ok(job),
        None if facts.fleet.is_complete() => Err((Back::Not, String::from("deleted"), Role::Warn)),
        None => {
            let words = String::from("unknown: the fleet has not been read yet");
            Err((Back::Unknown, words, Role::Muted))
        }
    }
}

/// True while the picture is older than the run's last step: what became of its jobs is not read yet.
fn is_older(facts: &Facts, run: &RunRow) -> bool {
    run.state != RunState::Running && facts.fleet.at < run.last
}

/// Shown until the picture is as new as the run.
const NOT_READ: &str = "not read since the last step";

/// Whether a job that was to be started runs.
fn started(facts: &Facts, name: &JobName) -> (String, Role) {
    let job = match find(facts, name) {
        Ok(job) => job,
        Err((_, words, role)) => return (words, role),
    };
    match (not_started(&facts.fleet, name), job.state) {
        (Some(why), _) => (format!("not started: {why}"), Role::Warn),
        (None, JobState::Done) => (String::from("ran to completion"), Role::Ok),
        (None, JobState::Starting) => (
            format!(
                "starting on {}",
                table::rows::job_place::where_or_why(facts, job)
            ),
            Role::Info,
        ),
        (None, _) => (
            format!(
                "running on {}",
                table::rows::job_place::where_or_why(facts, job)
            ),
            Role::Ok,
        ),
    }
}

/// What became of a job that was stopped.
fn became(facts: &Facts, run: &RunRow, name: &JobName) -> (Back, String, Role) {
    if is_older(facts, run) {
        return (Back::Unknown, NOT_READ.to_owned(), Role::Muted);
    }
    let job = match find(facts, name) {
        Ok(job) => job,
        Err(notice) => return notice,
    };
    let short = match job.devices_allocated < job.devices_requested {
        true => format!(
            ", {} of {} devices",
            job.devices_allocated, job.devices_requested
        ),
        false => String::new(),
    };
    match job.state {
        JobState::Running | JobState::Finishing
            if new_pods(job, run.begun) < evicted(run, name).count().max(1) =>
        {
            with_old_pods(facts, run, (name, job), &short)
        }
        JobState::Running | JobState::Finishing => {
            let words = format!(
                "running again on {}{short}",
                table::rows::job_place::where_or_why(facts, job)
            );
            (Back::Running, words, Role::Ok)
        }
        JobState::Starting if job.pods.iter().any(|pod| pod.seen.deleted.is_some()) => {
            let words = String::from("restarting; its old pods are stopping");
            (Back::Starting, words, Role::Info)
        }
        JobState::Starting => {
            let words = format!(
                "restarting on {}{short}",
                table::rows::job_place::where_or_why(facts, job)
            );
            (Back::Starting, words, Role::Info)
        }
        JobState::Waiting => {
            let eta = table::waiting::eta(facts, job).map(|(words, _)| words);
            let when = match eta.as_deref() {
                None => String::new(),
                Some("unknown" | crate::text::UNKNOWN) => String::from("no ETA; "),
                Some("now" | "any moment") => String::from("starts in the next cycle; "),
                Some(eta) => format!("starts {eta}; "),
            };
            let words = format!("waiting again: {when}{}", table::waiting::why(facts, job));
            (Back::Waiting, words, Role::Warn)
        }
        JobState::Suspended => {
            // The run resumes the job itself while it runs or can be continued.
            if run.state == RunState::Running && run.suspended_jobs.contains(name) {
                let words = String::from("on hold until this run resumes it");
                return (Back::Waiting, words, Role::Info);
            }
            let words = match run.suspended_jobs.contains(name) {
                true if run.state.can_go_on() => {
                    format!(
                        "on hold: this run is {}; H continues it, U undoes it",
                        run.state.name()
                    )
                }
                true if run.state == RunState::Failed => {
                    String::from("on hold: this run failed; U undoes it")
                }
                _ => String::from("on hold until you resume it (H)"),
            };
            (Back::Not, words, Role::Warn)
        }
        JobState::Failed => {
            let words = format!(
                "failed: {}",
                table::rows::job_place::where_or_why(facts, job)
            );
            (Back::Not, words, Role::Crit)
        }
        JobState::Done => (Back::Ended, String::from("completed"), Role::Muted),
    }
}

/// What became of a job that runs, but not yet on as many new pods as were evicted.
fn with_old_pods(
    facts: &Facts,
    run: &RunRow,
    (name, job): (&JobName, &Job),
    short: &str,
) -> (Back, String, Role) {
    let gone = |pod: &ObjectKey| job.pods.iter().all(|known| known.key() != pod);
    let new = new_pods(job, run.begun);
    if new > 0 {
        let words = format!("restarting: {new} of its new pods running{short}");
        return (Back::Starting, words, Role::Info);
    }
    let mut leaving = job.pods.iter().filter_map(|pod| pod.seen.deleted);
    if job.state == JobState::Finishing || leaving.next().is_some() {
        return (
            Back::Kept,
            String::from("its pods are stopping"),
            Role::Muted,
        );
    }
    let mut pods = evicted(run, name).peekable();
    if pods.peek().is_some() {
        return match pods.all(gone) {
            true => {
                let words = format!("not restarted yet: its evicted pods are gone{short}");
                (Back::Gone, words, Role::Warn)
            }
            // The server has accepted their eviction: what is shown of them is older, or they were made anew under their names.
            false => (Back::Gone, String::from("not restarted yet"), Role::Muted),
        };
    }
    // A job that its queue or scheduler is to stop shows as stopped only a moment later.
    let is_news = facts.fleet.at.since(run.begun) < Age::from_millis(60_000);
    let words = match run.state {
        RunState::Undone | RunState::Done if !is_news => "still running with its old pods",
        _ => "not stopped yet",
    };
    (Back::Kept, words.to_owned(), Role::Muted)
}

/// The pods of this job that the run evicted.
fn evicted<'a>(run: &'a RunRow, job: &'a JobName) -> impl Iterator<Item = &'a ObjectKey> {
    let pods = run.evicted.iter();
    pods.filter(move |(of, _)| of == job).map(|(_, pod)| pod)
}

/// The number of running pods that were created since; the server's clock has whole seconds.
fn new_pods(job: &Job, begun: Moment) -> usize {
    let pods = job.pods.iter().map(|pod| &pod.seen);
    pods.filter(|seen| seen.deleted.is_none() && seen.phase == Phase::Running)
        .filter(|seen| seen.created.millis() >= begun.millis() / 1_000 * 1_000)
        .count()
}
