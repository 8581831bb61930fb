//! What a step waits for: whether it has happened, its description, and the pause before the next check.

use std::time::Duration;

use serde_json::Value;

use cluster::mutations::{CHECKPOINT, entry, has_condition, is_value, text};
use model::base::Moment;
use model::plan::{Object, Step, Until, Wait, WaitOrder};

/// Interval between reads of an object that a step waits for.
const POLL: Duration = Duration::from_secs(2);
/// First and longest pause after a refusal by a disruption budget, and between retries when the server is busy or does not answer.
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));

/// The pause after this many refusals, at least the server's Retry-After.
pub(super) fn pause(refusals: u32, asked: Option<Duration>) -> Duration {
    let (first, longest) = PAUSES;
    let own = (first * 2_u32.saturating_pow(refusals.min(8))).min(longest);
    own.max(asked.unwrap_or_default())
}

/// Whether the awaited state is reached. `object` is `None` when that object does not exist.
pub(super) fn is_over(
    until: &Until,
    since: Option<Moment>,
    now: Moment,
    object: Option<&Value>,
) -> bool {
    match until {
        Until::Elapsed { seconds } => {
            since.is_some_and(|since| now >= since.plus(Duration::from_secs(*seconds)))
        }
        Until::Budget => true,
        Until::Time { at } => now >= *at,
        Until::Gone => object.is_none(),
        Until::Checkpoint { after } => object
            .and_then(|object| entry(object, "annotations", CHECKPOINT))
            .and_then(Moment::parse)
            .is_some_and(|saved| saved > *after),
        Until::Condition { name, status } => {
            object.is_some_and(|object| has_condition(object, name, status))
        }
        Until::Is { path, value } => object.is_some_and(|object| is_value(object, path, value)),
    }
}

/// Describes what a step waits for.
fn condition_text(wait: &Wait, since: Moment) -> String {
    match &wait.until {
        Until::Budget => "until its disruption budget allows it".to_owned(),
        Until::Time { at } => format!("until {}", at.rfc3339()),
        Until::Elapsed { seconds } => {
            let at = since.plus(Duration::from_secs(*seconds));
            format!(
                "until {}: jobs started by earlier steps get their nodes first",
                at.rfc3339()
            )
        }
        Until::Gone => "until it has ended".to_owned(),
        Until::Checkpoint { .. } => "until it saves a checkpoint".to_owned(),
        Until::Condition { name, status } => format!("until its condition {name} is {status}"),
        Until::Is { path, value } => format!("until {path} is {value}"),
    }
}

/// Whether a step still waits.
pub(super) enum StepWait {
    /// The step does not wait.
    No,
    /// The step waits: the time of the next check, and the description.
    Until(Moment, String),
    /// The awaited state was not reached in time.
    Late(String),
}

/// Objects beside a step's own, as they were read; `None` for one that does not exist.
pub(super) type Others = Vec<(Object, Option<Value>)>;

/// A step's object as it was read, and the others.
pub(super) type Read<'o> = (Option<&'o Value>, &'o Others);

/// What a step still waits for. `since` is when its wait began.
pub(super) fn pending(
    step: &Step,
    since: &mut Option<Moment>,
    now: Moment,
    when: WaitOrder,
    (own, others): Read<'_>,
) -> StepWait {
    let mut next: Option<(Moment, String)> = None;
    for wait in step.waits.iter().filter(|wait| wait.when == when) {
        let shown_by = wait.of.as_ref().unwrap_or(&step.object);
        let read = match &wait.of {
            None => own,
            Some(of) => {
                let mut read = others.iter().filter(|(object, _)| object.is(of));
                read.find_map(|(_, value)| value.as_ref())
            }
        };
        let uid = shown_by.uid.as_deref();
        let object =
            read.filter(|object| uid.is_none_or(|uid| text(object, "/metadata/uid") == uid));
        if is_over(&wait.until, *since, now, object) {
            continue;
        }
        let since = *since.get_or_insert(now);
        let limit = wait.limit(since);
        let words = condition_text(wait, since);
        if limit.is_some_and(|limit| now >= limit) {
            if wait.go_on {
                continue;
            }
            let waited = now.since(since);
            return StepWait::Late(format!("{shown_by}: timed out after {waited}: {words}"));
        }
        let by_clock = matches!(wait.until, Until::Time { .. } | Until::Elapsed { .. });
        if object.is_none() && !by_clock {
            return StepWait::Late(format!("{shown_by} was deleted during the wait: {words}"));
        }
        let look = match wait.until {
            Until::Time { at } => at,
            Until::Elapsed { seconds } => since.plus(Duration::from_secs(seconds)),
            _ => now.plus(POLL),
        };
        let look = limit.map_or(look, |limit| look.min(limit));
        if next.as_ref().is_none_or(|(until, _)| look < *until) {
            let words = match &wait.of {
                Some(of) => format!("{of}: {words}"),
                None => words,
            };
            next = Some((look, words));
        }
    }
    match next {
        Some((until, words)) => StepWait::Until(until, words),
        None => StepWait::No,
    }
}
