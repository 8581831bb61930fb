//! Collects how long jobs ran as they end, by the groups of [`Runtimes`].

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use model::base::{Moment, Name};
use model::fleet::job::{Job, JobKey, JobState};
use model::fleet::runtimes::{Runtimes, Tenths, groups};

/// Runs that a group remembers: the last ones, since habits change.
const KEPT: usize = 96;

/// Fewer runs than this say nothing.
const ENOUGH: usize = 5;

/// Most groups: names come from users.
const GROUPS: usize = 20_000;

/// One run, ordered by its end: the latest ends are kept longest, in any order of arrival.
type Past = BTreeMap<(Moment, JobKey), i64>;

/// Collects runs as jobs end.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RunCollector {
    groups: BTreeMap<Name, Past>,
    /// Jobs that have been counted and are still there, with their ends and their groups.
    counted: FxHashMap<JobKey, (Moment, Vec<String>)>,
    /// The class of each job that has not ended: an ended one has no devices that would tell.
    #[serde(skip)]
    classes: FxHashMap<JobKey, Name>,
    #[serde(skip)]
    published: Runtimes,
    /// Groups are summed up anew at the next picture; so they are after they were read from a file.
    #[serde(skip, default = "yes")]
    changed: bool,
}

const fn yes() -> bool {
    true
}

impl RunCollector {
    /// Counts a job that has ended, once; where it turns out to be of other groups, in those.
    pub(crate) fn note(&mut self, job: &Job) {
        if !matches!(job.state, JobState::Done | JobState::Failed) {
            // The same name may run again.
            self.counted.remove(&job.id);
            if let Some(class) = &job.class
                && self.classes.get(&job.id) != Some(class)
            {
                self.classes.insert(job.id.clone(), class.clone());
            }
            return;
        }
        let (Some(started), Some(finished)) = (job.started, job.finished) else {
            return;
        };
        let ran = finished.millis().saturating_sub(started.millis());
        if ran <= 0 {
            return;
        }
        let class = job.class.as_ref().or_else(|| self.classes.get(&job.id));
        let groups = groups(job, class.map(Name::as_str));
        let entry = (finished, job.id.clone());
        if let Some((at, before)) = self.counted.get(&job.id) {
            if *at == finished && *before == groups {
                return;
            }
            // Its requests were not known yet when it was first seen.
            for group in before {
                if let Some(runs) = self.groups.get_mut(group.as_str()) {
                    runs.remove(&(*at, job.id.clone()));
                }
            }
        }
        for group in &groups {
            if self.groups.len() >= GROUPS && !self.groups.contains_key(group.as_str()) {
                continue;
            }
            let runs = self.groups.entry(Name::new(group)).or_default();
            runs.insert(entry.clone(), ran);
            if runs.len() > KEPT {
                runs.pop_first();
            }
        }
        self.counted.insert(job.id.clone(), (finished, groups));
        self.changed = true;
    }

    /// The runs alone. A job that is listed again replaces its own run: runs are keyed by end and job.
    pub(crate) fn handed_on(self) -> Self {
        Self {
            groups: self.groups,
            changed: true,
            ..Self::default()
        }
    }

    /// A job has gone: another of its name is another job.
    pub(crate) fn forget(&mut self, job: &JobKey) {
        self.counted.remove(job);
        self.classes.remove(job);
    }

    /// Runtimes of the runs so far.
    pub(crate) fn publish(&mut self) -> Runtimes {
        if std::mem::take(&mut self.changed) {
            self.groups.retain(|_, runs| !runs.is_empty());
            let published = self
                .groups
                .iter()
                .filter(|(_, runs)| runs.len() >= ENOUGH)
                .filter_map(|(group, runs)| {
                    Some((group.clone(), Tenths::of(runs.values().copied())?))
                });
            self.published = published.collect();
        }
        self.published.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::ObjectKey;

    fn job(name: &str, minutes: Option<i64>, state: JobState) -> Job {
        let mut job = Job::unknown(JobKey {
            key: ObjectKey {
                namespace: Name::new("nlp"),
                name: Name::new(name),
            },
            kind: Name::new("Job"),
        });
        job.class = Some(Name::new("H100"));
        job.devices_requested = 8;
        job.state = state;
        job.started = Some(Moment::from_seconds(0));
        job.finished = minutes.map(|minutes| Moment::from_seconds(minutes * 60));
        job
    }

    #[test]
    fn the_narrowest_group_with_enough_runs_decides() {
        let mut runs = RunCollector::default();
        for at in 0..4 {
            runs.note(&job(&format!("sweep-{at}"), Some(10), JobState::Done));
        }
        let waits = job("sweep-9f3a", None, JobState::Waiting);
        assert_eq!(runs.publish().of(&waits), None, "four are too few");
        runs.note(&job("eval-1", Some(100), JobState::Failed));
        let published = runs.publish();
        let (group, tenths) = published.of(&waits).expect("five of the team");
        assert_eq!((group.as_str(), tenths.count), ("team nlp on 2-8 H100", 5));
        assert_eq!((tenths.p50_ms, tenths.p90_ms), (600_000, 6_000_000));
        runs.note(&job("sweep-7", Some(20), JobState::Done));
        let published = runs.publish();
        assert_eq!(
            published.of(&waits).expect("known").0.as_str(),
            "Job nlp/sweep"
        );
    }

    #[test]
    fn a_run_that_is_handed_on_counts_once() {
        let mut before = RunCollector::default();
        let jobs: Vec<Job> = (0..ENOUGH)
            .map(|at| job(&format!("sweep-{at}"), Some(10), JobState::Done))
            .collect();
        jobs.iter().for_each(|job| before.note(job));
        let mut next = before.clone().handed_on();
        assert_eq!(next.publish(), before.publish());
        // They are still listed.
        jobs.iter().for_each(|job| next.note(job));
        assert_eq!(next.publish(), before.publish());
        // They have gone, and another of the same name has run: that is one more run.
        let mut next = before.handed_on();
        next.note(&job("sweep-0", Some(20), JobState::Done));
        let published = next.publish();
        let (_, tenths) = published.of(&jobs[0]).expect("is known");
        assert_eq!(tenths.count as usize, ENOUGH + 1);
    }

    #[test]
    fn a_run_counts_once_and_the_last_ones_are_kept() {
        let mut runs = RunCollector::default();
        let done = job("sweep-1", Some(10), JobState::Done);
        for _ in 0..7 {
            runs.note(&done);
        }
        assert_eq!(runs.publish().iter().count(), 0, "one run is one run");
        // The latest ends are kept, in any order of arrival.
        let mut backwards = RunCollector::default();
        for at in 1..=2 * KEPT as i64 {
            runs.note(&job(&format!("run-{at}"), Some(at), JobState::Done));
            let at = 2 * KEPT as i64 + 1 - at;
            backwards.note(&job(&format!("run-{at}"), Some(at), JobState::Done));
        }
        let published = runs.publish();
        assert_eq!(published, backwards.publish());
        assert!(
            published
                .iter()
                .all(|(_, tenths)| tenths.count as usize == KEPT)
        );
        assert!(
            published
                .iter()
                .all(|(_, tenths)| tenths.p10_ms > KEPT as i64 * 60_000)
        );
        // Its requests may become known after its end: then it counts there, and only there.
        let mut late = RunCollector::default();
        for at in 0..5 {
            let mut done = job(&format!("late-{at}"), Some(10), JobState::Done);
            let class = done.class.take();
            late.note(&done);
            done.class = class;
            late.note(&done);
        }
        let published = late.publish();
        let groups: Vec<_> = published.iter().map(|(group, _)| group.as_str()).collect();
        assert!(groups.contains(&"all on H100"), "{groups:?}");
        let (_, all) = published
            .iter()
            .find(|(group, _)| group.as_str() == "all on any")
            .expect("all");
        assert_eq!(all.count, 5, "each once");
        // Its devices are known while it runs, and no more when it has ended.
        let mut seen = RunCollector::default();
        for at in 0..5 {
            let name = format!("run-{at}");
            seen.note(&job(&name, None, JobState::Running));
            let mut done = job(&name, Some(10), JobState::Done);
            done.class = None;
            seen.note(&done);
        }
        assert_eq!(seen.publish().iter().count(), published.iter().count());
        // A job without an end, or with an end before its start, is no run.
        let mut runs = RunCollector::default();
        for at in 0..9 {
            runs.note(&job(&format!("a-{at}"), None, JobState::Done));
            runs.note(&job(&format!("b-{at}"), Some(-5), JobState::Done));
        }
        assert_eq!(runs.publish().iter().count(), 0);
    }
}
