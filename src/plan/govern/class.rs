//! How a job enters a decision: what stands on it, and nothing else, says that.

use std::time::Duration;

use engine::snapshot::{Snapshot, System};
use model::fleet::govern::{REQUEUE_AT, parent_words};

use super::GovernedJob;

/// A job whose pods have run for so long when it is first seen was there before `govern`: it is not stopped.
const ADOPTED_AFTER: Duration = Duration::from_secs(60);

/// How a job enters a decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Class {
    Refused(String),
    Over,
    New,
    Adopted,
    Admitted,
    Leaving,
    /// Somebody suspended it once it was admitted.
    TakenBack,
    Held(String),
    Waiting,
}

pub(super) fn class_of(job: &GovernedJob, snapshot: &Snapshot, observe: bool) -> Class {
    let governed = &job.governed;
    if let Some(why) = &job.refused {
        return Class::Refused(why.clone());
    }
    if job.is_over {
        return Class::Over;
    }
    // No room is kept for a job that cannot be changed, and it is not preempted; one that was admitted still holds its quota.
    if let Some(why) = &job.denied
        && !governed.is_admitted()
    {
        let words = format!("it could not be changed, and is tried again later: {why}");
        return match governed.suspended && !governed.was_admitted() {
            true => Class::Held(words),
            false => Class::Refused(words),
        };
    }
    let mut ours = snapshot.queues.iter();
    let queue = ours.find(|it| it.system == System::Stokehold && it.name == job.queue);
    if !governed.suspended && (!observe || job.has_pods) {
        if governed.is_admitted() {
            return Class::Admitted;
        }
        let ran = job.running_since.map(|since| snapshot.at.since(since));
        // What was written on before waits in its queue again, however long its last pods take to end.
        // What holds no devices is not stopped: that its pods do not run is not known.
        let was_there = job.asks_nothing
            || !governed.was_governed() && ran.is_some_and(|ran| ran >= ADOPTED_AFTER.into());
        return match observe || was_there {
            true if queue.is_some_and(|queue| queue.admits) => Class::Adopted,
            true => Class::Refused(format!("it runs, and there is no queue {}", governed.queue)),
            false => Class::New,
        };
    }
    if governed.suspended && governed.was_admitted() {
        return Class::TakenBack;
    }
    if job.has_pods {
        return Class::Leaving;
    }
    if governed.is_held() {
        return Class::Held(governed.hold_words().to_owned());
    }
    match queue {
        None => return Class::Held(format!("there is no queue {}", governed.queue)),
        Some(queue) if !queue.admits => return Class::Held(parent_words(&governed.queue)),
        Some(_) => {}
    }
    if !job.is_known {
        return Class::Held("what it asks for is not known yet".to_owned());
    }
    match governed.moment(REQUEUE_AT) {
        Some(at) if at > snapshot.at => Class::Held(format!(
            "preempted {}: not admitted before {}",
            times(governed.evictions()),
            at.rfc3339()
        )),
        _ => Class::Waiting,
    }
}

fn times(count: u32) -> String {
    match count {
        0 | 1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}
