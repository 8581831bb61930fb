//! Where a job runs, or why it does not, as short text.

use model::fleet::job::{Job, JobState};
use model::fleet::object_parts::WorkloadFailure;

use super::job_failure::why_failed;
use super::jobs;
use crate::Facts;
use crate::rows::gangs;

/// Why it waits or failed; else where it runs.
pub fn where_or_why(facts: &Facts, job: &Job) -> String {
    match job.state {
        JobState::Waiting | JobState::Suspended => {
            if job.reason.is_empty() {
                job.reason_code.unwrap_or("–").to_owned()
            } else {
                jobs::reason(facts, job)
            }
        }
        JobState::Failed => job.failure.as_ref().map_or_else(
            || job.reason.to_string(),
            |failure| failed_words(facts, job, failure),
        ),
        _ => {
            let mut nodes: Vec<&str> = job.places.iter().map(|place| place.node.as_str()).collect();
            nodes.dedup();
            match (nodes.as_slice(), &*job.pools) {
                ([], []) => String::from("–"),
                ([one], _) => (*one).to_owned(),
                ([], pools) => pools.join(" "),
                (many, []) => format!("{} nodes", many.len()),
                (many, pools) => format!("{} · {} nodes", pools.join(" "), many.len()),
            }
        }
    }
}

/// Why a job failed, and before that when: `12m ago: OOMKilled, exit code 137`.
fn failed_words(facts: &Facts, job: &Job, failure: &WorkloadFailure) -> String {
    let why = why_failed(facts, failure);
    match jobs::failed_at(job) {
        Some(at) => format!("{} ago: {why}", facts.now.since(at)),
        None => why,
    }
}

/// The failure of a job that runs on all the same: restarts, a pod that failed.
pub fn runs_and_fails(job: &Job) -> Option<&WorkloadFailure> {
    let runs = matches!(
        job.state,
        JobState::Starting | JobState::Running | JobState::Finishing
    );
    job.failure.as_ref().filter(|_| runs)
}

/// True for a running job with a current failure; a failure followed by a restart is over.
pub fn fails_now(job: &Job) -> bool {
    runs_and_fails(job).is_some_and(|failure| failure.restarted.is_none())
}

/// The worst finding of a running job: `straggler worker-6 on a100-17`, `xid-79 on a100-17/gpu3`, `gang-stalled`. `None` for a single
/// snapshot, which may have no readings.
pub fn worst_words(facts: &Facts, job: &Job) -> Option<String> {
    let worst = jobs::worst(facts, job).filter(|_| !facts.is_first_look())?;
    let device = facts.fleet.device_of(&worst.subject.key.name);
    let Some((node, device)) = device.filter(|_| worst.subject.kind == "Device") else {
        return Some(worst.code.to_string());
    };
    if worst.code.as_str() != "straggler" {
        return Some(format!("{} on {}", worst.code, device.id));
    }
    let pod = device.first_holder().map(|(pod, _)| &pod.key().name);
    let more = match gangs::stragglers(facts, job).len() {
        0 | 1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    Some(format!("straggler {} on {}{more}", pod?, node.name()))
}
