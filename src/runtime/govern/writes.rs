//! Writes of `govern`: rate-limited; none for a while on objects that the server denies, and none once another process may lead.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use cluster::mutations::{GovernSeen, GovernWrite};
use exec::govern::GovernOutcome;
use exec::lease::Term;
use model::base::Moment;
use model::fleet::job::JobKey;
use plan::govern::{
    AdmissionState, Decision, GovernedJob, PendingStatuses, PlannedWrite, Purpose, answers, batch,
    has_status, status_writes,
};

use super::Governor;
use super::log::logged;

/// Back-off of a job whose change the server denied; doubled each further time.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// Back-off of a job whose write got no answer, or that keeps changing before the write.
const UNCLEAR_FOR: Duration = Duration::from_secs(10);
/// Longest back-off of a job.
const LEFT_FOR: Duration = Duration::from_secs(1800);
/// How many times in a row a job may have changed since the decision: snapshots lag behind.
const STALE: u32 = 3;
/// Shortest interval between two computations of positions and expected starts, and between two writes of them to a job.
const EXPLAINED_EVERY: Duration = Duration::from_secs(30);
const STATUS_EVERY: Duration = Duration::from_secs(60);
/// Shortest interval between two computations while a pending job has no status yet.
const FIRST_EVERY: Duration = Duration::from_secs(2);
/// Shortest interval between two writes to a job of what needs no computation: its position, and that it is next.
const MOVED_EVERY: Duration = Duration::from_secs(10);
/// By then a first status is visible.
const SHOWN_WITHIN: Duration = Duration::from_secs(5);
/// At most one part in this many of the time is spent on explanations for the sake of new jobs.
const SHARE: u32 = 4;
/// First and longest back-off of a busy server.
const BUSY: Duration = Duration::from_secs(1);
const BUSIEST: Duration = Duration::from_secs(30);
/// A batch holds this many seconds' worth of writes; then the next decision is made.
pub(super) const BATCH_SECONDS: f64 = 2.0;
#[derive(Debug)]
pub(super) struct Pacer {
    every: Duration,
    next: Instant,
}

impl Pacer {
    pub(super) fn new(per_second: f64) -> Self {
        Self {
            every: Duration::from_secs_f64(1.0 / per_second.max(0.01)),
            next: Instant::now(),
        }
    }

    async fn next_slot(&mut self) {
        sleep_until(self.next).await;
        self.next = Instant::now() + self.every;
    }
}

#[derive(Clone, Debug)]
pub(super) struct BackedOffJob {
    pub(super) why: String,
    pub(super) until: Instant,
    /// Denials in a row.
    times: u32,
    /// The denied write: it is tried as a dry run before the job is considered again.
    write: GovernWrite,
}

impl Governor {
    /// Sends the decided writes, up to one batch, and writes explanations to some jobs.
    pub(super) async fn write_all(
        &mut self,
        decision: &Decision,
        jobs: &[GovernedJob],
        say: &mut dyn FnMut(&str),
    ) {
        let term = self.lead.term();
        let keys: BTreeSet<&JobKey> = jobs.iter().map(|job| &job.key).collect();
        self.denied.retain(|key, _| keys.contains(key));
        self.stale.retain(|key, _| keys.contains(key));
        if !self.probe(&term, jobs).await {
            return;
        }
        let may = |write: &PlannedWrite| !self.denied.contains_key(&write.job);
        let writes = batch(&decision.writes, self.batch, may);
        for write in &writes {
            if !self.send(write, &term, decision.snapshot.at, say).await {
                return;
            }
        }
        self.explain(decision, jobs).await;
        // However many writes there are, some explanations are sent.
        let room = match writes.is_empty() {
            true => self.batch,
            false => self.batch.div_ceil(4),
        };
        for _ in 0..room {
            let Some(write) = self.unwritten.pop_front() else {
                return;
            };
            self.last_written.insert(write.job.clone(), Instant::now());
            if !self.send(&write, &term, decision.snapshot.at, say).await {
                return;
            }
        }
    }

    /// Computes the explanations of pending jobs where they are due, and what is written to the jobs: first those without a status,
    /// then the least recently written.
    async fn explain(&mut self, decision: &Decision, jobs: &[GovernedJob]) {
        let first: BTreeSet<&JobKey> = (jobs.iter())
            .filter(|job| {
                let standing = decision.standings.get(&job.key);
                matches!(standing, Some(AdmissionState::Waiting(_))) && !has_status(job)
            })
            .map(|job| &job.key)
            .collect();
        let soon = FIRST_EVERY.max(self.explaining * SHARE);
        let every = match first.is_empty() {
            true => EXPLAINED_EVERY,
            false => soon.min(EXPLAINED_EVERY),
        };
        let is_due = self.explained.is_none_or(|at| at.elapsed() >= every);
        let mut statuses = PendingStatuses::new();
        if is_due {
            let begun = Instant::now();
            self.explained = Some(begun);
            self.last_written
                .retain(|key, _| decision.standings.contains_key(key));
            let snapshot = decision.snapshot.clone();
            let task = tokio::task::spawn_blocking(move || answers(&snapshot));
            let Ok(made) = task.await else {
                return;
            };
            statuses = made;
            self.explaining = begun.elapsed();
        }
        let mut status = status_writes(decision, jobs, &statuses);
        let pause = match is_due {
            true => STATUS_EVERY,
            false => MOVED_EVERY,
        };
        status.retain(|write| {
            // A first status that was just sent may not be visible yet.
            let pause = match first.contains(&write.job) {
                true => SHOWN_WITHIN,
                false => pause,
            };
            let last = self.last_written.get(&write.job);
            last.is_none_or(|at| at.elapsed() >= pause)
        });
        let written: BTreeSet<&JobKey> = decision.writes.iter().map(|write| &write.job).collect();
        status
            .retain(|write| !self.denied.contains_key(&write.job) && !written.contains(&write.job));
        status.sort_by_key(|write| {
            let is_known = !first.contains(&write.job);
            (is_known, self.last_written.get(&write.job).copied())
        });
        if is_due {
            self.unwritten.clear();
        }
        let again: BTreeSet<JobKey> = status.iter().map(|write| write.job.clone()).collect();
        self.unwritten.retain(|write| !again.contains(&write.job));
        // What an explanation has for new jobs goes before the positions of others.
        self.unwritten.extend(status);
    }

    /// Puts a job in back-off, longer each time in a row.
    fn back_off(&mut self, job: &JobKey, write: &GovernWrite, why: &str, first: Duration) {
        let times = self.denied.get(job).map_or(0, |denied| denied.times);
        let span = first.saturating_mul(1 << times.min(8)).min(LEFT_FOR);
        let denied = BackedOffJob {
            why: why.to_owned(),
            until: Instant::now() + span,
            times: times + 1,
            write: write.clone(),
        };
        self.denied.insert(job.clone(), denied);
    }

    /// Retries, as a dry run, the denied write of each job whose back-off has expired; until that succeeds, no decision depends
    /// on the job. False where nothing more is to be sent.
    async fn probe(&mut self, term: &Term, jobs: &[GovernedJob]) -> bool {
        let now = Instant::now();
        let is_due = |(_, denied): &(&JobKey, &BackedOffJob)| denied.until <= now;
        let due: Vec<JobKey> = self
            .denied
            .iter()
            .filter(is_due)
            .map(|(key, _)| key.clone())
            .take(self.batch)
            .collect();
        for key in due {
            let job = jobs.iter().find(|job| job.key == key);
            let (Some(job), Some(denied)) = (job, self.denied.get(&key)) else {
                continue;
            };
            let write = GovernWrite {
                seen: GovernSeen::of(&job.governed),
                ..denied.write.clone()
            };
            let may = self.may_send(term).await;
            let Some(writer) = self.writer.as_ref().filter(|_| may) else {
                return false;
            };
            match writer.probe(&write, term).await {
                GovernOutcome::Busy(_, wait) => {
                    self.rest(wait);
                    return false;
                }
                GovernOutcome::Ceased => return false,
                GovernOutcome::Refused(why) => self.back_off(&key, &write, &why, REFUSED_FOR),
                GovernOutcome::Unknown(why) => self.back_off(&key, &write, &why, UNCLEAR_FOR),
                GovernOutcome::Written | GovernOutcome::Already | GovernOutcome::Stale(_) => {
                    self.denied.remove(&key);
                }
            }
        }
        true
    }

    /// Backs off from a busy server.
    fn rest(&mut self, wait: Option<Duration>) {
        let doubled = BUSY.saturating_mul(1 << self.busy.min(8));
        self.busy += 1;
        let wait = wait.unwrap_or_default().max(doubled.min(BUSIEST));
        self.quiet_until = Some(Instant::now() + wait);
    }

    /// Waits for the rate limit; whether we may still write then.
    async fn may_send(&mut self, term: &Term) -> bool {
        self.pacer.next_slot().await;
        let ends = self.ends.load(Ordering::SeqCst);
        !ends && term.lasts()
    }

    /// Sends one write in the term of its decision; false where the server is busy or we no longer lead.
    async fn send(
        &mut self,
        write: &PlannedWrite,
        term: &Term,
        at: Moment,
        say: &mut dyn FnMut(&str),
    ) -> bool {
        let may = self.may_send(term).await;
        let Some(writer) = self.writer.as_ref().filter(|_| may) else {
            return false;
        };
        let outcome = writer.write(&write.write, term).await;
        let is_status = write.purpose == Purpose::Status;
        let (word, why) = match &outcome {
            GovernOutcome::Written => ("done", write.reason.as_str()),
            GovernOutcome::Already => ("already", write.reason.as_str()),
            GovernOutcome::Stale(why) => ("stale", why.as_str()),
            GovernOutcome::Busy(why, _) => ("busy", why.as_str()),
            GovernOutcome::Refused(why) => ("refused", why.as_str()),
            GovernOutcome::Unknown(why) => ("unknown", why.as_str()),
            GovernOutcome::Ceased => return false,
        };
        let goes_without_saying = is_status && matches!(word, "done" | "already" | "stale");
        if !goes_without_saying {
            say(&logged(at, write, word, why));
        }
        self.status.send_modify(|status| {
            let key = (write.purpose.word(), word);
            *status.writes.entry(key).or_default() += 1;
        });
        if matches!(outcome, GovernOutcome::Written | GovernOutcome::Unknown(_)) && !is_status {
            let sent = (write.write.clone(), Instant::now());
            self.unseen.insert(write.job.clone(), sent);
        }
        let stale = self.stale.remove(&write.job).unwrap_or(0);
        match &outcome {
            GovernOutcome::Busy(_, wait) => {
                self.rest(*wait);
                return false;
            }
            GovernOutcome::Refused(_) => self.back_off(&write.job, &write.write, why, REFUSED_FOR),
            GovernOutcome::Unknown(_) => self.back_off(&write.job, &write.write, why, UNCLEAR_FOR),
            GovernOutcome::Stale(_) if !is_status => match stale + 1 {
                STALE.. => self.back_off(&write.job, &write.write, why, UNCLEAR_FOR),
                count => drop(self.stale.insert(write.job.clone(), count)),
            },
            GovernOutcome::Written => {
                if let Some((reason, action)) = event(&write.purpose)
                    && self.may_send(term).await
                    && let Some(writer) = &self.writer
                {
                    let object = &write.write.object;
                    writer
                        .create_event(object, "Normal", (reason, action), &write.reason)
                        .await;
                }
            }
            GovernOutcome::Already | GovernOutcome::Stale(_) | GovernOutcome::Ceased => {}
        }
        self.busy = 0;
        true
    }
}

/// The Event of a write: its reason and its action.
const fn event(purpose: &Purpose) -> Option<(&'static str, &'static str)> {
    match purpose {
        Purpose::Admit => Some(("Admitted", "admit")),
        Purpose::Preempt => Some(("Preempted", "preempt")),
        Purpose::Requeue => Some(("Requeued", "requeue")),
        Purpose::Suspend
        | Purpose::Adopt
        | Purpose::Hold
        | Purpose::AskCheckpoint
        | Purpose::KeepRunning
        | Purpose::Status => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writes_are_spaced_evenly() {
        let begun = Instant::now();
        let mut pacer = Pacer::new(20.0);
        for _ in 0..201 {
            pacer.next_slot().await;
        }
        assert_eq!(begun.elapsed().as_millis() / 100, 100);
    }
}
