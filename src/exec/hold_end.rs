//! Until when a run holds what it suspends: the latest time at which its step that resumes the object is sent.

use std::time::Duration;

use model::base::Moment;
use model::plan::{Step, Until, Verb, Wait, WaitOrder};

use super::command::StepStatus;
use super::machine::{BUDGET, PATIENCE, StepProgress};

/// Time for calls and answers besides the waits of steps: a run waits so long for a server that does not answer, and goes on.
const MARGIN: Duration = Duration::from_secs(PATIENCE.as_secs() + 5 * 60);

/// The latest time at which the object of a suspend step, by its index, is resumed by a later step; `None` where none resumes it.
pub(super) fn holds_until(
    steps: &[Step],
    items: &[StepProgress],
    now: Moment,
    at: usize,
) -> Option<Moment> {
    let step = steps.get(at).filter(|step| step.verb == Verb::Suspend)?;
    let ends = |later: &&Step| later.verb == Verb::Resume && later.object.is(&step.object);
    let last = at + 1 + steps[at + 1..].iter().position(|later| ends(&later))?;
    // The longest chain of waits up to each step, in order: a step needs earlier ones only.
    let mut done: Vec<Duration> = Vec::with_capacity(last + 1);
    for (one, (step, item)) in steps.iter().zip(items).enumerate().take(last + 1) {
        if matches!(item.status, StepStatus::Finished(_)) {
            done.push(Duration::ZERO);
            continue;
        }
        let needs = step.needs.iter().filter_map(|need| {
            let needed = (*need as usize).checked_sub(1)?;
            done.get(needed)
        });
        let begins = needs.max().copied().unwrap_or_default();
        // The last step has resumed the object once its call is sent.
        let waits = step.waits.iter();
        let waits = waits.filter(|wait| one < last || wait.when == WaitOrder::Before);
        done.push(begins + waits.map(|wait| longest(wait, now)).sum::<Duration>());
    }
    Some(now.plus(*done.last()? + MARGIN))
}

/// How long a wait can take.
fn longest(wait: &Wait, now: Moment) -> Duration {
    let left = |at: Moment| Duration::from_millis(at.since(now).millis());
    match (&wait.until, wait.limit(now)) {
        (Until::Elapsed { seconds }, _) => Duration::from_secs(*seconds),
        (Until::Time { at }, _) => left(*at),
        (_, Some(limit)) => left(limit),
        (_, None) => BUDGET,
    }
}
