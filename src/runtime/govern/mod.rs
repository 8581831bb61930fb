//! The loop of `govern`: pictures come in, decisions are made of them, and what they write goes out, so many a second at most. Nothing
//! is kept between two decisions but what was written and has not been seen yet: nothing is decided before it has.

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
    Comparison, Decision, GovernRules, GovernedJob, PlannedWrite, Standing, compare, decide,
    governed_jobs, not_ready,
};
use settings::Settings;
use table::Facts;

mod log;
pub mod metrics;
mod writes;

use self::log::{line, logged};
use self::writes::{BATCH_SECONDS, Denied, Pacer};
use super::session::{self, ClusterTarget, Session, Setup};

/// Pictures are this far apart.
pub const PACE: Duration = Duration::from_secs(1);
/// Without news, a decision is made this often: back-offs end.
const IDLE: Duration = Duration::from_secs(5);
/// What was written and is not seen by then is believed to have been undone by somebody.
const SEEN_WITHIN: Duration = Duration::from_secs(30);
/// A loop that has decided nothing for so long is stuck.
const LATE: Duration = Duration::from_secs(60);
/// How long a turn may take to end when we are told to.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// Who has begun to lead looks for so long what the one before wrote last.
const TAKES_OVER: Duration = Duration::from_secs(3);

/// Starts everything for pictures alone, [`PACE`] apart, and for writing on jobs where `writes` says so and the settings grant it.
///
/// # Errors
/// When the kubeconfig cannot be used, or nothing grants writing.
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
        session::Purpose::Govern(PACE),
        None,
    );
    Ok((session, writer))
}

/// What the settings say.
fn rules(settings: &Settings, observe: bool) -> GovernRules {
    GovernRules {
        checkpoint_grace: settings.govern.checkpoint_grace.duration(),
        backoff: settings.govern.backoff.duration(),
        since: Moment::default(),
        observe,
    }
}

/// How governing goes.
#[derive(Clone, Debug, Default)]
pub struct GovernStatus {
    /// When a decision was last made.
    pub decided: Option<Instant>,
    /// Why none can be made; `None` while they are.
    pub trouble: Option<String>,
    /// Jobs that are left alone because the server refuses to have them changed.
    pub denied: usize,
    /// Writes by what they were for and what became of them.
    pub writes: BTreeMap<(&'static str, &'static str), u64>,
    /// Decisions.
    pub decisions: u64,
    /// How long the last took.
    pub took: Duration,
    /// Jobs with the label by queue and where they stand.
    pub jobs: BTreeMap<(String, &'static str), u64>,
    /// Whether this process governs; `None` where it is the only one.
    pub leads: Option<bool>,
    /// The term of our leadership by the Lease, and since when it lasts.
    pub led: Option<(u32, Instant)>,
}

impl GovernStatus {
    /// Why who leads does not govern; nothing while it does, and for one that does not lead.
    pub fn stuck(&self) -> Option<String> {
        let is_late = |at: Instant| at.elapsed() > LATE;
        if !self.led.is_some_and(|(_, since)| is_late(since)) || !self.decided.is_none_or(is_late) {
            return None;
        }
        let seconds = LATE.as_secs();
        let late = format!("nothing was decided in the last {seconds} seconds");
        Some(match &self.trouble {
            Some(why) => format!("{late}: {why}"),
            None => late,
        })
    }
}

/// Decides, and writes where it may.
pub struct Governor {
    facts: watch::Receiver<Option<Arc<Facts>>>,
    /// Nothing where it only observes.
    writer: Option<GovernWriter>,
    rules: GovernRules,
    pacer: Pacer,
    /// Writes of a batch.
    batch: usize,
    /// What was written and has not been seen yet.
    unseen: BTreeMap<JobKey, (GovernWrite, Instant)>,
    denied: BTreeMap<JobKey, Denied>,
    /// How often in a row a job was another than it was decided on.
    stale: BTreeMap<JobKey, u32>,
    /// Admitted jobs whose pods are not all on nodes, and since when that was seen.
    missing: BTreeMap<JobKey, Moment>,
    /// What jobs are still to be told of where they stand.
    untold: VecDeque<PlannedWrite>,
    told: BTreeMap<JobKey, Instant>,
    explained: Option<Instant>,
    /// The revision that was last decided on.
    revision: Option<u64>,
    quiet_until: Option<Instant>,
    busy: u32,
    /// What was said of what it would do.
    proposed: BTreeSet<(JobKey, &'static str)>,
    compared: Option<Comparison>,
    /// Who governs, where several may.
    lead: Lead,
    /// We are told to end: nothing more is sent.
    ends: Arc<AtomicBool>,
    status: watch::Sender<GovernStatus>,
}

impl Governor {
    /// One that goes by these pictures. Must be called within a tokio runtime.
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
            untold: VecDeque::new(),
            missing: BTreeMap::new(),
            told: BTreeMap::new(),
            explained: None,
            revision: None,
            quiet_until: None,
            busy: 0,
            proposed: BTreeSet::new(),
            compared: None,
            lead: Lead::default(),
            ends: Arc::default(),
            status: watch::Sender::default(),
        }
    }

    /// One of several, which governs while it leads.
    #[must_use]
    pub fn led(self, lead: Lead) -> Self {
        Self { lead, ..self }
    }

    /// Whether to decide: we lead, and have seen what the one before wrote last.
    fn may_decide(&mut self) -> bool {
        let Some(leads) = self.lead.told() else {
            return true;
        };
        let term = self.lead.term().number();
        let before = self.status.borrow().led;
        // Who has lost the Lease and holds it again takes over anew: somebody else may have led between two turns.
        let goes_on = before.filter(|led| led.0 == term);
        let led = leads.then(|| goes_on.unwrap_or_else(|| (term, Instant::now())));
        self.status.send_if_modified(|status| {
            let told = (
                status.leads.replace(leads),
                std::mem::replace(&mut status.led, led),
            );
            told != (Some(leads), led)
        });
        if led.is_none() || led != before {
            // What stands is read anew.
            self.revision = None;
            self.unseen.clear();
            self.untold.clear();
            self.missing.clear();
            self.explained = None;
        }
        led.is_some_and(|(_, since)| since.elapsed() >= TAKES_OVER)
    }

    /// How it goes, from now on.
    pub fn status(&self) -> watch::Receiver<GovernStatus> {
        self.status.subscribe()
    }

    /// What was compared last, where it observes.
    pub fn compared(&self) -> Option<&Comparison> {
        self.compared.as_ref()
    }

    /// Governs until `end` comes; `say` is given each line of the log.
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
            // A write is one call: to be stopped between two leaves nothing half done. One that is under way is waited for: another may
            // begin to govern once we have ended.
            let ends = Arc::clone(&self.ends);
            let turn = self.turn(say);
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

    /// Decides on the last picture, where it may, and writes.
    async fn turn(&mut self, say: &mut dyn FnMut(&str)) {
        if !self.may_decide() {
            return;
        }
        let Some(facts) = self.facts.borrow_and_update().clone() else {
            return;
        };
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
        if self.status.borrow().trouble != trouble {
            match &trouble {
                Some(why) => say(&line(
                    fleet.at,
                    &[("level", "warn"), ("decides", "nothing"), ("reason", why)],
                )),
                None => say(&line(fleet.at, &[("level", "info"), ("decides", "again")])),
            }
        }
        let is_ready = trouble.is_none();
        self.status.send_modify(|status| status.trouble = trouble);
        if !is_ready || !self.has_seen_all(fleet, now) {
            return;
        }
        self.revision = Some(fleet.revision);
        let begun = Instant::now();
        let (decision, jobs) = self.decided(Arc::clone(&facts)).await;
        self.tell(&decision, &jobs, begun);
        match self.writer.is_some() {
            true => self.write_all(&decision, &jobs, say).await,
            false => self.propose(fleet, &decision, &jobs, say),
        }
    }

    /// A decision on a thread of its own: on ten thousand nodes it takes up to a second.
    async fn decided(&mut self, facts: Arc<Facts>) -> (Decision, Vec<GovernedJob>) {
        let mut rules = self.rules;
        let state = facts.fleet.govern.as_ref();
        rules.since = state.map_or(rules.since, |state| state.created);
        let missing = self.missing.clone();
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
            }
            let snapshot = live::snapshot(&facts.fleet, &facts.burn);
            (decide(snapshot, &jobs, &rules), jobs)
        });
        match task.await {
            Ok(made) => {
                let seen = std::mem::take(&mut self.missing);
                let at = made.0.snapshot.at;
                let since = |key: &JobKey| seen.get(key).copied().unwrap_or(at);
                let missing = made.0.missing.iter();
                self.missing = missing.map(|key| (key.clone(), since(key))).collect();
                made
            }
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// True once the picture shows all that was written.
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
            // Whatever it is now, it is so after the write: one on another than it was decided on would not have been carried out.
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

    fn tell(&self, decision: &Decision, jobs: &[GovernedJob], begun: Instant) {
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

    /// Says what it would do, once each, and how that compares to what kube-scheduler has done.
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
                Standing::Refused(why) => ("left alone", why),
                Standing::Held(why) => ("not admitted", why),
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
