//! A pod, and the pods of a job: where they run and how they ended.

use model::base::{ObjectKey, SmallSort, natural};
use model::fleet::device::Pod;
use model::fleet::job::Job;
use model::fleet::observe::Phase;
use table::Facts;
use table::kinds::services::replica_words;
use table::role::Role;
use table::rows::job_failure::why_failed;

use crate::painter::Painter;

use super::Description;

/// Pods, or groups of similar pods, that are shown.
const PODS: usize = 6;
/// Cells of a pod's name beside its words; a longer name is on the line before them.
const NAME: usize = 12;

/// Pods with something to report first, then the others, as many as fit.
pub(super) fn of_job(table: &mut Description, facts: &Facts, job: &Job, painter: &mut Painter<'_>) {
    let mut pods: Vec<&Pod> = job.pods.iter().map(|pod| &**pod).collect();
    if pods.is_empty() {
        return;
    }
    let slowest = job.slow_replica();
    let slow = |pod: &Pod| slowest.is_some_and(|slow| slow.replica.pod == *pod.key());
    let rank = |pod: &Pod| (!slow(pod), pod.seen.failure.is_none(), pod.seen.ready);
    pods.small_sort_by(|a, b| {
        let by_name = || natural(&a.key().name, &b.key().name);
        rank(a).cmp(&rank(b)).then_with(by_name)
    });
    table.head("pods");
    // Pods with the same words are grouped.
    let mut groups: Vec<(String, Role, Vec<&Pod>)> = Vec::new();
    for pod in pods {
        let (mut words, mut role) = pod_words(facts, pod, painter);
        if slow(pod) && role == Role::Text {
            role = Role::Warn;
        }
        if let Some(served) = replica_words(job, pod.key()) {
            words.push_str(&format!(" · {served}"));
        }
        match groups.iter_mut().find(|group| group.0 == words) {
            Some((.., members)) => members.push(pod),
            None => groups.push((words, role, vec![pod])),
        }
    }
    let rest: usize = groups.iter().skip(PODS).map(|group| group.2.len()).sum();
    for (words, role, members) in groups.into_iter().take(PODS) {
        match members.as_slice() {
            [one] => {
                let name = short(one, job);
                if name.len() < NAME {
                    table.words(name, words, role);
                } else {
                    table.words("", format!("{name}: {words}"), role);
                }
            }
            many => table.words(format!("{} ×", many.len()), words, role),
        }
    }
    if rest > 0 {
        let more = format!("and {rest} more");
        table.words("", more, Role::Muted);
    }
}

/// The part of a pod's name that distinguishes it from the job's other pods.
fn short(pod: &Pod, job: &Job) -> String {
    let name = pod.key().name.as_str();
    let rest = name.strip_prefix(job.name().as_str()).unwrap_or(name);
    let rest = rest.trim_start_matches('-');
    if rest.is_empty() { name } else { rest }.to_owned()
}

fn pod_words(facts: &Facts, pod: &Pod, painter: &mut Painter<'_>) -> (String, Role) {
    let seen = &pod.seen;
    let (state, mut role) = match seen.phase {
        _ if seen.deleted.is_some() => ("ending", Role::Info),
        Phase::Pending if seen.node.is_none() => ("waiting", Role::Text),
        Phase::Pending => ("starting", Role::Info),
        Phase::Running if seen.ready => ("running", Role::Text),
        Phase::Running => ("running, not ready", Role::Warn),
        Phase::Succeeded => ("done", Role::Muted),
        Phase::Failed => ("failed", Role::Crit),
        Phase::Unknown => ("unknown", Role::Warn),
    };
    let mut words = state.to_owned();
    if let Some(node) = &seen.node {
        words.push_str(&format!(" on {node}"));
    }
    let ended = seen.failure.as_ref().and_then(|failure| failure.ended);
    match (seen.started.or(seen.scheduled), ended) {
        (Some(since), _) if !seen.phase.is_over() => {
            words.push_str(&format!(" for {}", painter.age(since)));
        }
        (Some(since), Some(ended)) => {
            let (ago, ran) = (painter.age(ended), ended.since(since));
            words.push_str(&format!(" {ago} ago, after {ran}"));
        }
        (Some(since), None) => words.push_str(&format!(", started {} ago", painter.age(since))),
        (None, _) => {}
    }
    if let Some(failure) = &seen.failure {
        words.push_str(&format!(" · {}", why_failed(facts, failure)));
        if role == Role::Text {
            role = Role::Warn;
        }
    }
    if let Some((reason, message)) = &seen.unschedulable {
        words.push_str(&format!(" · {reason}: {message}"));
    }
    (words, role)
}

/// What is known of a pod.
pub(super) fn lines(
    table: &mut Description,
    facts: &Facts,
    key: &ObjectKey,
    painter: &mut Painter<'_>,
) -> Option<()> {
    let pod = facts.fleet.pod(key)?;
    table.note = String::from("Pod");
    let (words, role) = pod_words(facts, pod, painter);
    table.words("state", words, role);
    table.known("job", Some(format!("{} {}", pod.job.kind, pod.job)));
    let job = facts.fleet.job(&pod.job);
    table.known("serves", job.and_then(|job| replica_words(job, key)));
    table.known("node", pod.seen.node.as_ref());
    table.known("queue", pod.queue.as_ref());
    table.words(
        "team",
        format!("{} · by {}", pod.team, pod.team_source.name()),
        Role::Text,
    );
    for (resource, count) in &pod.seen.requests.devices {
        table.words("requests", format!("{count} {resource}"), Role::Text);
    }
    table.known("priority", Some(pod.seen.priority));
    table.known("address", pod.seen.ip.as_ref());
    table.words(
        "created",
        format!("{} ago", painter.age(pod.seen.created)),
        Role::Text,
    );
    Some(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use model::fleet::object_parts::WorkloadFailure;

    use super::*;
    use crate::painter::unseen;

    #[test]
    fn a_failed_pod_says_when_it_failed_and_how_long_it_ran() {
        let facts = table::sample::facts();
        let ago = |minutes: u64| facts.now.minus(Duration::from_secs(60 * minutes));
        let mut pods = facts.fleet.jobs.iter().flat_map(|job| job.pods.iter());
        let mut pod = Pod::clone(pods.next().expect("a pod"));
        let seen = Arc::make_mut(&mut pod.seen);
        seen.node = Some("l4-46".into());
        (seen.phase, seen.deleted, seen.started) = (Phase::Failed, None, Some(ago(252)));
        seen.unschedulable = None;
        let failure = WorkloadFailure {
            message: "Error".into(),
            ended: Some(ago(1)),
            ..WorkloadFailure::default()
        };
        seen.failure = Some(failure);
        let words = |pod: &Pod| unseen(facts.now, |painter| pod_words(&facts, pod, painter).0);
        assert_eq!(words(&pod), "failed on l4-46 1m ago, after 4h11m · Error");
        let seen = Arc::make_mut(&mut pod.seen);
        seen.failure.as_mut().expect("it failed").ended = None;
        assert_eq!(words(&pod), "failed on l4-46, started 4h12m ago · Error");
    }
}
