//! `under-used`: a job whose devices work, but little, over a long window. Jobs on shared devices are left out:
//! the utilization of a shared device says nothing about one of its holders.

use std::collections::VecDeque;

use model::base::{Age, Moment};
use model::fleet::job::{Job, JobState};
use model::fleet::thresholds::Rule;

use crate::checks::context::{CheckContext, FindingDraft, counted, job_name, job_subject};
use crate::checks::{Check, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "under-used",
    walk: CheckWalk::Fleet(check_fleet),
};

/// Buckets of a window: it moves in steps of this part of itself.
const BUCKETS: i64 = 12;
/// A longer silence between two values is a gap.
const GAP: Age = Age::from_seconds(90);
/// Share of the window that must be known.
const KNOWN: f64 = 0.8;

/// A mean over a moving window in which gaps do not count.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct WindowMean {
    /// Number of the bucket, value times seconds, seconds.
    buckets: VecDeque<(i64, f64, f64)>,
    last: Option<Moment>,
}

impl WindowMean {
    /// Adds a value that was valid since the previous one, unless that was too long ago.
    fn add(&mut self, now: Moment, value: Option<f64>, window: Age) {
        let step = (i64::try_from(window.millis()).unwrap_or(i64::MAX) / BUCKETS).max(1);
        let slot = now.millis().div_euclid(step);
        if self
            .buckets
            .back()
            .is_some_and(|(newest, ..)| *newest > slot)
        {
            // The clock was set back: earlier measurements have no valid time.
            *self = Self::default();
        }
        while self
            .buckets
            .front()
            .is_some_and(|(oldest, ..)| *oldest <= slot - BUCKETS)
        {
            self.buckets.pop_front();
        }
        let Some(value) = value else {
            self.last = None;
            return;
        };
        let since = self.last.replace(now).map(|last| now.since(last));
        let Some(span) = since.filter(|span| *span <= GAP) else {
            return;
        };
        let seconds = span.millis() as f64 / 1000.0;
        match self
            .buckets
            .back_mut()
            .filter(|(newest, ..)| *newest == slot)
        {
            Some((_, sum, known)) => {
                *sum += value * seconds;
                *known += seconds;
            }
            None => self.buckets.push_back((slot, value * seconds, seconds)),
        }
    }

    /// The mean, when enough of the window is known.
    fn get(&self, window: Age) -> Option<f64> {
        let known: f64 = self.buckets.iter().map(|(_, _, seconds)| seconds).sum();
        let sum: f64 = self.buckets.iter().map(|(_, sum, _)| sum).sum();
        (known >= KNOWN * window.millis() as f64 / 1000.0).then(|| sum / known)
    }
}

fn check_fleet(context: &mut CheckContext<'_>) {
    let window = Age::from(context.rule.window);
    let mut means = std::mem::take(&mut context.check_state.means);
    let mut kept = rustc_hash::FxHashMap::default();
    for job in context.fleet.jobs.iter() {
        if job.state != JobState::Running || job.places.iter().any(|place| place.slice.is_some()) {
            continue;
        }
        let name = job_name(&job.id);
        let mut mean = means.remove(&name).unwrap_or_default();
        mean.add(context.now, job.util, window);
        // While the utilization is not known, its history counts as a gap too.
        let known = job.util.and(mean.get(window));
        let verdict = check(job, known, context.rule);
        let threshold = context.rule.threshold;
        context.report(&name, verdict, |util| {
            FindingDraft::new(
                job_subject(&job.id),
                format!(
                    "{} at {:.0} % mean utilization over the last {window}",
                    counted(job.devices_allocated as usize, "device"),
                    util * 100.0
                ),
                "look for what it waits on (input, network, one slow pod), or give it fewer devices",
            )
            .detail(&job.id.kind)
            .value(util)
            .threshold(threshold)
        });
        kept.insert(name, mean);
    }
    context.check_state.means = kept;
}

/// Firing with the mean. A job whose devices are all idle is the business of `idle-allocated`.
fn check(job: &Job, mean: Option<f64>, rule: &Rule) -> Verdict {
    if job.devices_allocated > 0 && job.idle_devices >= job.devices_allocated {
        return Verdict::Ok;
    }
    Verdict::of(mean, rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Moment {
        Moment::from_seconds(1_000_000 + seconds)
    }

    #[test]
    fn a_mean_needs_most_of_its_window_and_skips_gaps() {
        let window = Age::from_seconds(3600);
        let mut mean = WindowMean::default();
        for minute in 0..40 {
            mean.add(at(minute * 60), Some(0.05), window);
        }
        assert_eq!(mean.get(window), None, "40 minutes are not an hour");
        for minute in 40..61 {
            mean.add(at(minute * 60), None, window);
        }
        assert_eq!(mean.get(window), None, "a gap is not a low value");
        for minute in 61..125 {
            mean.add(at(minute * 60), Some(0.05), window);
        }
        let known = mean.get(window).expect("an hour is known");
        assert!((known - 0.05).abs() < 1e-9, "{known}");
        mean.add(at(0), Some(0.9), window);
        assert_eq!(mean.get(window), None, "a clock that went back starts anew");
    }
}
