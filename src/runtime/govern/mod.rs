//! The loop of `govern`: takes snapshots, decides, and sends the resulting writes at a limited rate. The only state kept between
//! two decisions is the writes that no snapshot shows yet; it decides again once all of them are visible.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use cluster::mutations::{GovernSeen, GovernWrite};
use engine::live;
use exec::govern::GovernWriter;
use exec::lease::Lead;
use model::base::{Exit, Failure, Moment};
use model::fleet::Fleet;
use model::fleet::job::JobKey;
use plan::govern::{
    AdmissionState, Comparison, Decision, GovernRules, GovernedJob, PlannedWrite, compare, decide,
    governed_jobs, not_ready,
};
use settings::Settings;
use table::Facts;

mod complaints;
mod log;
pub mod metrics;
mod writes;

use self::log::{line, logged};
use self::writes::{BATCH_SECONDS, BackedOffJob, Pacer};
use super::session::{self, ClusterTarget, Session};
use super::setup::Setup;

pub const PACE: Duration = Duration::from_secs(1);
/// Interval between decisions without news: back-offs expire.
const IDLE: Duration = Duration::from_secs(5);
/// A write that is not visible by then counts as reverted by someone else.
const SEEN_WITHIN: Duration = Duration::from_secs(30);
/// A loop without a decision for this long is stuck.
const LATE: Duration = Duration::from_secs(60);
/// Longest time for the current turn to end after a shutdown signal.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// How long a new leader waits for the last writes of its predecessor to become visible.
const TAKES_OVER: Duration = Duration::from_secs(3);

/// Opens a session for snapshots only, [`PACE`] apart, and a writer for jobs where `writes` is set and the settings grant it.
///
/// # Errors
/// The kubeconfig cannot be used, or the settings grant no writing.
pub fn open(
    setup: &Setup,
    target: ClusterTarget,
    writes: bool,
) -> Result<(Session, Option<GovernWriter>), Failure> {
    let demo = !matches!(target, ClusterTarget::Cluster(_));
    let (connection, action_service, _) = session::connected(setup, target, writes)?;
    let writer = action_service
        .map(|service| service.governor())
        .transpose()?;
    let session = session::start(
        setup,
        connection,
        None,
        demo,
        session::StartFor::Govern(PACE),
        None,
    );
    Ok((session, writer))
}

fn rules(settings: &Settings, observe: bool) -> GovernRules {
    GovernRules {
        checkpoint_grace: settings.govern.checkpoint_grace.duration(),
        backoff: settings.govern.backoff.duration(),
        since: Moment::default(),
        observe,
    }
}

#[derive(Clone, Debug, Default)]
pub struct GovernStatus {
    /// When a decision was last made.
    pub decided: Option<Instant>,
    /// Why none can be made; `None` while decisions are made.
    pub blocked: Option<String>,
    /// What is wrong with the document of the queues, and since when; `None` while it is valid, or not known.
    pub fault: Option<(String, Moment)>,
    /// Number of jobs that are left alone because the server denies changes to them.
    pub denied: usize,
    /// Number of writes by purpose and result.
    pub writes: BTreeMap<(&'static str, &'static str), u64>,
    pub decisions: u64,
    /// Duration of the last decision.
    pub took: Duration,
    /// Number of jobs with the label, by queue and state.
    pub jobs: BTreeMap<(String, &'static str), u64>,
    /// Whether this process leads; `None` without leader election.
    pub leads: Option<bool>,
    /// The term of our leadership by the Lease, and since when we lead.
    pub led: Option<(u32, Instant)>,
}

impl GovernStatus {
    /// Why a leader is stuck; `None` while it decides, and for a process that does not lead.
    pub fn stuck(&self) -> Option<String> {
        let is_late = |at: Instant| at.elapsed() > LATE;
        if !self.led.is_some_and(|(_, since)| is_late(since)) || !self.decided.is_none_or(is_late) {
            return None;
        }
        let seconds = LATE.as_secs();
        let late = format!("nothing was decided in the last {seconds} seconds");
        Some(match &self.blocked {
            Some(why) => format!("{late}: {why}"),
            None => late,
        })
    }
}

/// Decides, and writes where it may.
pub struct Governor {
    facts: watch::Receiver<Option<Arc<Facts>>>,
    /// `None` where it only observes.
    writer: Option<GovernWriter>,
    rules: GovernRules,
    pacer: Pacer,
    /// Most writes of a batch.
    batch: usize,
    /// Writes that no snapshot shows yet.
    unseen: BTreeMap<JobKey, (GovernWrite, Instant)>,
    denied: BTreeMap<JobKey, BackedOffJob>,
    /// How many times in a row a job had changed since the decision.
    stale: BTreeMap<JobKey, u32>,
    /// Admitted jobs whose pods are not all scheduled, and since when.
    missing: BTreeMap<JobKey, Moment>,
    /// Jobs that the last decision found unsuspended and new.
    entering: BTreeSet<JobKey>,
    /// Status explanations that are still to be written to jobs.
    unwritten: VecDeque<PlannedWrite>,
    last_written: BTreeMap<JobKey, Instant>,
    explained: Option<Instant>,
    /// How long the last explanation took.
    explaining: Duration,
    /// The revision of the last decision.
    revision: Option<u64>,
    quiet_until: Option<Instant>,
    busy: u32,
    /// Whether the log says that Jobs are created unsuspended.
    unsuspended_logged: bool,
    /// The fault that the last Event on the document reports.
    event_fault: Option<String>,
    /// What was logged as proposed.
    proposed: BTreeSet<(JobKey, &'static str)>,
    compared: Option<Comparison>,
    /// Leader election; see [`Lead`].
    lead: Lead,
    /// Set by a shutdown signal: nothing more is sent.
    ends: Arc<AtomicBool>,
    status: watch::Sender<GovernStatus>,
}

impl Governor {
    /// A governor on these snapshots. Must be called within a tokio runtime.
    pub fn new(
        facts: watch::Receiver<Option<Arc<Facts>>>,
        writer: Option<GovernWriter>,
        settings: &Settings,
    ) -> Self {
        let per_second = settings.govern.per_second.get();
        Self {
            facts,
            rules: rules(settings, writer.is_none()),
            writer,
            pacer: Pacer::new(per_second),
            batch: (per_second * BATCH_SECONDS).ceil().max(1.0) as usize,
            unseen: BTreeMap::new(),
            denied: BTreeMap::new(),
            stale: BTreeMap::new(),
            unwritten: VecDeque::new(),
            missing: BTreeMap::new(),
            entering: BTreeSet::new(),
            last_written: BTreeMap::new(),
            explained: None,
            explaining: Duration::ZERO,
            revision: None,
            quiet_until: None,
            busy: 0,
            unsuspended_logged: false,
            event_fault: None,
            proposed: BTreeSet::new(),
            compared: None,
            lead: Lead::default(),
            ends: Arc::default(),
            status: watch::Sender::default(),
        }
    }

    /// A governor that decides only while it leads.
    #[must_use]
    pub fn only_while_leading(self, lead: Lead) -> Self {
        Self { lead, ..self }
    }

    /// Whether to decide: we lead, and the last writes of the previous leader had time to become visible.
    fn may_decide(&mut self) -> bool {
        let Some(leads) = self.lead.leads_if_elected() else {
            return true;
        };
        let term = self.lead.term().number();
        let before = self.status.borrow().led;
        // A process that lost the Lease and got it back takes over anew: another one may have led between two turns.
        let goes_on = before.filter(|led| led.0 == term);
        let led = leads.then(|| goes_on.unwrap_or_else(|| (term, Instant::now())));
        self.status.send_if_modified(|status| {
            let previous = (
                status.leads.replace(leads),
                std::mem::replace(&mut status.led, led),
            );
            previous != (Some(leads), led)
        });
        if led.is_none() || led != before {
            // The state is read anew.
            self.revision = None;
            self.unseen.clear();
            self.unwritten.clear();
            self.missing.clear();
            self.explained = None;
        }
        led.is_some_and(|(_, since)| since.elapsed() >= TAKES_OVER)
    }

    /// The status, from now on.
    pub fn status(&self) -> watch::Receiver<GovernStatus> {
        self.status.subscribe()
    }

    /// The last comparison with kube-scheduler, where it only observes.
    pub fn compared(&self) -> Option<&Comparison> {
        self.compared.as_ref()
    }

    /// Governs until `end` resolves; `say` gets each line of the log.
    ///
    /// # Errors
    /// Every source has ended.
    pub async fn run(
        &mut self,
        end: impl Future<Output = ()>,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), Failure> {
        let mut ticks = interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => return Ok(()),
                changed = self.facts.changed() => {
                    if changed.is_err() {
                        let message = "every source has ended; start again";
                        return Err(Failure::new(Exit::Unreachable, message));
                    }
                }
                _ = ticks.tick() => {}
            }
            // A write is one call, so that stopping between two leaves nothing half done. Wait for one in flight: another process
            // may begin to govern once this one has ended.
            let ends = Arc::clone(&self.ends);
            let turn = self.decide_and_write(say);
            tokio::pin!(turn);
            tokio::select! {
                () = &mut end => {
                    ends.store(true, Ordering::SeqCst);
                    let _ = timeout(ENDS_WITHIN, turn).await;
                    return Ok(());
                }
                () = &mut turn => {}
            }
        }
    }

    /// Decides on the latest snapshot, where it may, and writes.
    async fn decide_and_write(&mut self, say: &mut dyn FnMut(&str)) {
        let facts = self.facts.borrow_and_update().clone();
        // A process that does not lead says it too: it is the next to decide by the document.
        if let Some(facts) = &facts {
            self.say_fault(&facts.fleet, say);
        }
        if !self.may_decide() {
            return;
        }
        let Some(facts) = facts else {
            return;
        };
        self.report_fault(&facts.fleet).await;
        let fleet = &facts.fleet;
        let now = Instant::now();
        let decided = self.status.borrow().decided;
        let is_due = decided.is_none_or(|at| now.duration_since(at) >= IDLE);
        if self.quiet_until.is_some_and(|until| until > now)
            || self.revision == Some(fleet.revision) && !is_due
        {
            return;
        }
        let trouble = not_ready(fleet);
        if self.status.borrow().blocked != trouble {
            match &trouble {
                Some(why) => say(&line(
                    fleet.at,
                    &[("level", "warn"), ("decides", "nothing"), ("reason", why)],
                )),
                None => say(&line(fleet.at, &[("level", "info"), ("decides", "again")])),
            }
        }
        let is_ready = trouble.is_none();
        self.status.send_modify(|status| status.blocked = trouble);
        if !is_ready || !self.has_seen_all(fleet, now) {
            return;
        }
        self.revision = Some(fleet.revision);
        let begun = Instant::now();
        let (decision, jobs) = self.decided(Arc::clone(&facts)).await;
        self.publish(&decision, &jobs, begun);
        self.say_unsuspended(fleet.at, &decision, &jobs, say);
        match self.writer.is_some() {
            true => self.write_all(&decision, &jobs, say).await,
            false => self.propose(fleet, &decision, &jobs, say),
        }
    }

    /// Decides on a thread of its own: with 10,000 nodes it takes up to a second.
    async fn decided(&mut self, facts: Arc<Facts>) -> (Decision, Vec<GovernedJob>) {
        let mut rules = self.rules;
        let state = facts.fleet.govern.as_ref();
        rules.since = state.map_or(rules.since, |state| state.created);
        let missing = self.missing.clone();
        let entering = self.entering.clone();
        let denied: BTreeMap<JobKey, String> = self
            .denied
            .iter()
            .map(|(key, denied)| (key.clone(), denied.why.clone()))
            .collect();
        let task = tokio::task::spawn_blocking(move || {
            let mut jobs = governed_jobs(&facts.fleet);
            for job in &mut jobs {
                job.denied = denied.get(&job.key).cloned();
                job.missing_since = missing.get(&job.key).copied();
                job.was_new = entering.contains(&job.key);
            }
            let snapshot = live::snapshot(&facts.fleet, &facts.spend_rates);
            (decide(snapshot, &jobs, &rules), jobs)
        });
        match task.await {
            Ok(made) => {
                let seen = std::mem::take(&mut self.missing);
                let at = made.0.snapshot.at;
                let since = |key: &JobKey| seen.get(key).copied().unwrap_or(at);
                let missing = made.0.missing.iter();
                self.missing = missing.map(|key| (key.clone(), since(key))).collect();
                // One whose suspension was denied is as new as before once it is tried again.
                self.entering.retain(|key| self.denied.contains_key(key));
                self.entering.extend(made.0.entering.iter().cloned());
                made
            }
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// True once the snapshot shows all writes.
    fn has_seen_all(&mut self, fleet: &Fleet, now: Instant) -> bool {
        let shows = |key: &JobKey, write: &GovernWrite| {
            let Some(job) = fleet.jobs.iter().find(|job| job.id == *key) else {
                return true;
            };
            if write.object.uid.as_ref().is_some_and(|uid| *uid != job.uid) {
                return true;
            }
            let Some(governed) = job.govern.as_deref() else {
                return true;
            };
            // Any change is newer than the write: the write would have failed on a job that had changed since the decision.
            if GovernSeen::of(governed) != write.seen {
                return true;
            }
            let noted = |(name, value): &(&str, Option<String>)| {
                governed.notes.get(name).map(|it| &**it) == value.as_deref()
            };
            write.suspend.is_none_or(|it| it == governed.suspended) && write.notes.iter().all(noted)
        };
        self.unseen
            .retain(|key, (write, at)| now.duration_since(*at) < SEEN_WITHIN && !shows(key, write));
        self.unseen.is_empty()
    }

    fn publish(&self, decision: &Decision, jobs: &[GovernedJob], begun: Instant) {
        let mut counts: BTreeMap<(String, &'static str), u64> = BTreeMap::new();
        for job in jobs {
            let Some(standing) = decision.standings.get(&job.key) else {
                continue;
            };
            let key = (job.governed.queue.to_string(), standing.word());
            *counts.entry(key).or_default() += 1;
        }
        self.status.send_modify(|status| {
            status.decided = Some(Instant::now());
            status.took = begun.elapsed();
            status.decisions += 1;
            status.jobs = counts;
            status.denied = jobs.iter().filter(|job| job.denied.is_some()).count();
        });
    }

    /// Logs each proposal once, and how it compares to what kube-scheduler did.
    fn propose(
        &mut self,
        fleet: &Fleet,
        decision: &Decision,
        jobs: &[GovernedJob],
        say: &mut dyn FnMut(&str),
    ) {
        let proposed: BTreeSet<(JobKey, &'static str)> = decision
            .writes
            .iter()
            .map(|write| (write.job.clone(), write.purpose.word()))
            .collect();
        for write in &decision.writes {
            let key = (write.job.clone(), write.purpose.word());
            if !self.proposed.contains(&key) {
                say(&logged(fleet.at, write, "would", &write.reason));
            }
        }
        for (key, standing) in &decision.standings {
            let (word, why) = match standing {
                AdmissionState::Refused(why) => ("left alone", why),
                AdmissionState::Held(why) => ("not admitted", why),
                _ => continue,
            };
            if self.proposed.insert((key.clone(), word)) {
                let name = key.key.to_string();
                let fields = [
                    ("level", "info"),
                    ("job", &name),
                    ("stands", word),
                    ("reason", why),
                ];
                say(&line(fleet.at, &fields));
            }
        }
        self.proposed
            .retain(|(_, word)| matches!(*word, "left alone" | "not admitted"));
        self.proposed.extend(proposed);
        let compared = compare(fleet, decision, jobs);
        if self.compared.as_ref() != Some(&compared) {
            say(&line(
                fleet.at,
                &[("level", "info"), ("compared", &compared.sentence())],
            ));
            self.compared = Some(compared);
        }
    }
}
