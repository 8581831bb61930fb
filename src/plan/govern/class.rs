//! Classifies the jobs of a decision, only by the state of their objects.

use std::time::Duration;

use engine::snapshot::{Snapshot, SnapshotQueue, System};
use model::fleet::govern::{REQUEUE_AT, parent_words};
use model::fleet::run_hold::RunHold;

use super::GovernedJob;

/// A job whose pods have run this long when it is first seen was there before `govern`: it is not stopped.
const ADOPTED_AFTER: Duration = Duration::from_secs(60);

/// Class of a job in a decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum GovernClass {
    Refused(String),
    Over,
    New,
    Adopted,
    Admitted,
    Leaving,
    /// Someone suspended it after it was admitted.
    TakenBack,
    /// A run suspended it, and was to resume it before now.
    LeftSuspended(RunHold),
    Held(String),
    Waiting,
}

pub(super) fn class_of(job: &GovernedJob, snapshot: &Snapshot, observe: bool) -> GovernClass {
    let governed = &job.governed;
    if let Some(why) = &job.refused {
        return GovernClass::Refused(why.clone());
    }
    if job.is_over {
        return GovernClass::Over;
    }
    // A job that cannot be changed gets no devices reserved and is not preempted; an admitted one keeps its quota.
    if let Some(why) = &job.denied
        && !governed.is_admitted()
    {
        let words = format!("it could not be changed, and is tried again later: {why}");
        return match governed.suspended && !governed.was_admitted() {
            true => GovernClass::Held(words),
            false => GovernClass::Refused(words),
        };
    }
    let queue = queue_of(job, snapshot);
    if !governed.suspended && (!observe || job.has_pods) {
        if governed.is_admitted() {
            return GovernClass::Admitted;
        }
        let ran = job.running_since.map(|since| snapshot.at.since(since));
        // A job with our annotations waits in its queue again, however long its last pods take to end.
        // A job without devices is not stopped: whether its pods run is unknown.
        // Nor does a job count as running before only because its suspension was not sent yet.
        let was_there = job.asks_nothing
            || !job.was_new
                && !governed.was_governed()
                && ran.is_some_and(|ran| ran >= ADOPTED_AFTER.into());
        return match observe || was_there {
            true if queue.is_some_and(|queue| queue.admits) => GovernClass::Adopted,
            true => {
                GovernClass::Refused(format!("it runs, and there is no queue {}", governed.queue))
            }
            false => GovernClass::New,
        };
    }
    let hold = RunHold::of(&governed.notes).filter(|_| governed.suspended);
    if governed.suspended && governed.was_admitted() && hold.is_none() {
        return GovernClass::TakenBack;
    }
    if job.has_pods {
        return GovernClass::Leaving;
    }
    if let Some(hold) = hold {
        return match hold.until > snapshot.at || observe {
            true => GovernClass::Held(hold.words()),
            false => GovernClass::LeftSuspended(hold),
        };
    }
    waiting_class(job, snapshot)
}

/// Class of a job that is in its queue or enters it, by what its queue and its annotations say.
pub(super) fn waiting_class(job: &GovernedJob, snapshot: &Snapshot) -> GovernClass {
    let governed = &job.governed;
    if governed.is_held() {
        return GovernClass::Held(governed.hold_words().to_owned());
    }
    match queue_of(job, snapshot) {
        None => return GovernClass::Held(format!("there is no queue {}", governed.queue)),
        Some(queue) if !queue.admits => return GovernClass::Held(parent_words(&governed.queue)),
        Some(_) => {}
    }
    if !job.is_known {
        return GovernClass::Held("its resource requests are not known yet".to_owned());
    }
    match governed.moment(REQUEUE_AT) {
        Some(at) if at > snapshot.at => GovernClass::Held(format!(
            "preempted {}: not admitted before {}",
            times(governed.evictions()),
            at.rfc3339()
        )),
        _ => GovernClass::Waiting,
    }
}

fn queue_of<'a>(job: &GovernedJob, snapshot: &'a Snapshot) -> Option<&'a SnapshotQueue> {
    let mut ours = snapshot.queues.iter();
    ours.find(|it| it.system == System::Stokehold && it.name == job.queue)
}

fn times(count: u32) -> String {
    match count {
        0 | 1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}
