//! Status written to pending jobs: position, reason, and expected start.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::mutations::{GovernSeen, GovernWrite};
use engine::explanations;
use engine::snapshot::Snapshot;
use model::base::Moment;
use model::fleet::govern::{ETA, POSITION, REASON};
use model::fleet::job::JobKey;

use super::{AdmissionState, Decision, GovernedJob, PlannedWrite, Purpose};

/// Longest reason that is written, characters.
const LONGEST: usize = 400;

/// Why a job is pending, and when it is expected to start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PendingStatus {
    /// The reason, in words.
    pub reason: String,
    /// The median of the forecast.
    pub start: Option<Moment>,
}

/// The explanation of each pending job.
pub type PendingStatuses = BTreeMap<JobKey, PendingStatus>;

/// Explains each pending job and forecasts its start. Takes up to seconds with 10,000 nodes.
pub fn answers(snapshot: &Snapshot) -> PendingStatuses {
    let all = explanations::explain_all(snapshot).into_iter();
    all.map(|(key, answer)| {
        let status = PendingStatus {
            reason: answer.explanation.reason,
            start: answer.start.and_then(|start| start.p50),
        };
        (key, status)
    })
    .collect()
}

/// A queue position as it is written: exact up to 20, then rounded up to tens and hundreds, so that a start at the head does not
/// cause thousands of writes.
fn position_word(position: usize) -> String {
    let step = match position {
        0..=20 => 1,
        21..=200 => 10,
        _ => 100,
    };
    position.div_ceil(step).saturating_mul(step).to_string()
}

/// Rounding of an expected start, and how far it may move before it is written again: a twentieth of the time until then,
/// at least five minutes.
fn grain(now: Moment, start: Moment) -> Duration {
    let left = Duration::from_secs(start.since(now).seconds());
    let steps = [300, 900, 3600, 6 * 3600];
    let twentieth = left / 20;
    let found = steps
        .into_iter()
        .map(Duration::from_secs)
        .find(|step| *step >= twentieth);
    found.unwrap_or(Duration::from_secs(24 * 3600))
}

/// The expected start as it is written; the old value where that is still about right.
fn eta_word(old: Option<Moment>, now: Moment, start: Option<Moment>) -> Option<String> {
    let start = start.filter(|start| *start > now)?;
    let grain = grain(now, start);
    if let Some(old) = old
        && old > now
    {
        let apart = old.since(start).max(start.since(old));
        if apart <= grain.into() {
            return Some(old.rfc3339());
        }
    }
    let step = i64::try_from(grain.as_millis()).unwrap_or(i64::MAX).max(1);
    let millis = start.millis().div_euclid(step).saturating_add(1);
    Some(Moment::from_millis(millis.saturating_mul(step)).rfc3339())
}

/// The status writes for pending jobs, only where they differ from the current annotations. A job in its queue without an answer
/// gets its new position, where it has one.
pub fn status_writes(
    decision: &Decision,
    jobs: &[GovernedJob],
    answers: &PendingStatuses,
) -> Vec<PlannedWrite> {
    let now = decision.snapshot.at;
    let mut writes: Vec<((bool, usize), PlannedWrite)> = Vec::new();
    for job in jobs {
        let answer = answers.get(&job.key);
        let (rank, position, reason, eta): (usize, Option<String>, String, Option<String>) =
            match decision.standings.get(&job.key) {
                Some(AdmissionState::Waiting(position)) => {
                    let Some(answer) = answer else {
                        // Only its position is known, and it says no other than its reason does.
                        let place = position_word(*position);
                        let old = job.governed.notes.get(POSITION);
                        if old.is_some_and(|old| *old.as_str() != *place) {
                            writes.push((
                                (true, *position),
                                note(job, vec![(POSITION, Some(place))]),
                            ));
                        }
                        continue;
                    };
                    let old = job.governed.moment(ETA);
                    let reason = answer.reason.chars().take(LONGEST).collect();
                    let eta = eta_word(old, now, answer.start);
                    (*position, Some(position_word(*position)), reason, eta)
                }
                Some(AdmissionState::WaitsForPods(position)) => {
                    let words = "admitted next: pods of other jobs are starting, ending or about to be preempted";
                    (
                        *position,
                        Some(position_word(*position)),
                        words.to_owned(),
                        None,
                    )
                }
                Some(AdmissionState::Held(why)) => (1, None, why.clone(), None),
                _ => continue,
            };
        let reason = match job.governed.priority_words() {
            Some(words) if !reason.is_empty() => format!("{reason}; {words}"),
            Some(words) => words,
            None => reason,
        };
        let notes: Vec<(&'static str, Option<String>)> = [
            (POSITION, position),
            (REASON, Some(reason).filter(|words| !words.is_empty())),
            (ETA, eta),
        ]
        .into_iter()
        .filter(|(key, value)| job.governed.notes.get(key).map(|it| &**it) != value.as_deref())
        .collect();
        if notes.is_empty() {
            continue;
        }
        let knows = has_status(job) || job.governed.is_held();
        writes.push(((knows, rank), note(job, notes)));
    }
    // First the jobs without a status, and of these the ones that start soonest.
    writes.sort_by(|(a, one), (b, other)| a.cmp(b).then_with(|| one.job.cmp(&other.job)));
    writes.into_iter().map(|(_, write)| write).collect()
}

/// Whether a pending job has a status already.
pub fn has_status(job: &GovernedJob) -> bool {
    job.governed.notes.get(POSITION).is_some()
}

fn note(job: &GovernedJob, notes: Vec<(&'static str, Option<String>)>) -> PlannedWrite {
    PlannedWrite {
        job: job.key.clone(),
        purpose: Purpose::Status,
        write: GovernWrite {
            object: job.object.clone(),
            seen: GovernSeen::of(&job.governed),
            suspend: None,
            notes,
            nodes: None,
        },
        queue: job.governed.queue.clone(),
        devices: 0,
        reason: "its status has changed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Moment {
        Moment::parse(text).expect("a moment")
    }

    #[test]
    fn positions_grow_coarse() {
        for (position, word) in [(1, "1"), (20, "20"), (21, "30"), (200, "200"), (201, "300")] {
            assert_eq!(position_word(position), word);
        }
    }

    #[test]
    fn an_expected_start_moves_only_when_it_matters() {
        let now = at("2026-11-21T06:00:00Z");
        let first = eta_word(None, now, Some(at("2026-11-21T07:01:10Z")));
        assert_eq!(first.as_deref(), Some("2026-11-21T07:05:00Z"));
        let old = first.as_deref().map(at);
        let later = at("2026-11-21T06:00:40Z");
        let moved = eta_word(old, later, Some(at("2026-11-21T07:04:00Z")));
        assert_eq!(moved, first);
        let far = eta_word(old, later, Some(at("2026-11-21T08:30:00Z")));
        assert_ne!(far, first);
        assert_eq!(eta_word(old, later, None), None);
    }
}
