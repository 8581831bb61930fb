//! What must happen before a pending job can start, where its queue or queueing system reports it. The engine plans any other
//! changes.

use model::fleet::job::Job;
use model::fleet::queue::QueueKind;

use crate::Facts;

/// What must happen first, as short text; `None` where nothing reports it.
pub fn comes_first(facts: &Facts, job: &Job) -> Option<String> {
    let queue = job.queue.as_ref().and_then(|name| {
        let mut queues = facts.fleet.queues.iter();
        queues.find(|queue| queue.key.kind == QueueKind::Queue && queue.name() == name)
    });
    if let Some(queue) = queue.filter(|queue| queue.is_stopped()) {
        return Some(format!("queue {} resumes", queue.name()));
    }
    let seen = &job.admission.as_ref()?.seen;
    if !seen.active {
        return Some(String::from("activate its Workload (spec.active)"));
    }
    if let Some(check) = seen.checks.first() {
        return Some(format!("check {} passes: now {}", check.name, check.state));
    }
    let at = seen.requeue.and_then(|requeue| requeue.at)?;
    (at > facts.now).then(|| format!("the pause after its eviction ends at {}", at.clock()))
}
