//! The loop of `govern`: pictures come in, decisions are made of them, and what they write goes out, so many a second at most. Nothing
//! is kept between two decisions but what was written and has not been seen yet: nothing is decided before it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use cluster::mutations::GovernWrite;
use engine::live;
use exec::govern::{GovernOutcome, GovernWriter};
use exec::lease::Lead;
use model::base::name::printable;
use model::base::{Exit, Failure, Moment};
use model::fleet::Fleet;
use model::fleet::job::JobKey;
use plan::govern::{
    Comparison, Decision, GovernRules, GovernedJob, PlannedWrite, Purpose, Standing, answers,
    compare, decide, governed_jobs, not_ready, status_writes,
};
use settings::Settings;
use table::Facts;

use super::session::{self, ClusterTarget, Session, Setup};

/// Pictures are this far apart.
pub const PACE: Duration = Duration::from_secs(1);
/// Without news, a decision is made this often: back-offs end.
const IDLE: Duration = Duration::from_secs(5);
/// What was written and is not seen by then is believed to have been undone by somebody.
const SEEN_WITHIN: Duration = Duration::from_secs(30);
/// A job that could not be written on is left alone for so long.
const REFUSED_FOR: Duration = Duration::from_secs(60);
/// Positions and expected starts are computed this often, and a job is told of them this often at most.
const EXPLAINED_EVERY: Duration = Duration::from_secs(30);
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// A busy server is left alone for so long at first, and at most.
const BUSY: Duration = Duration::from_secs(1);
const BUSIEST: Duration = Duration::from_secs(30);
/// Who has begun to lead looks for so long what the one before wrote last.
const TAKES_OVER: Duration = Duration::from_secs(3);
/// Of one decision so many seconds' writes are sent before the next is made.
const BATCH_SECONDS: f64 = 2.0;

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
        session::Purpose::Watch(PACE),
        None,
    );
    Ok((session, writer))
}

/// What the settings say.
fn rules(settings: &Settings, observe: bool) -> GovernRules {
    GovernRules {
        checkpoint_grace: settings.govern.checkpoint_grace.duration(),
        backoff: settings.govern.backoff.duration(),
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
    /// Why a write was refused last; `None` once one was carried out.
    pub refused: Option<String>,
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
}

/// Spaces writes evenly.
#[derive(Debug)]
struct Pacer {
    every: Duration,
    next: Instant,
}

impl Pacer {
    fn new(per_second: f64) -> Self {
        Self {
            every: Duration::from_secs_f64(1.0 / per_second.max(0.01)),
            next: Instant::now(),
        }
    }

    async fn turn(&mut self) {
        sleep_until(self.next).await;
        self.next = Instant::now() + self.every;
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
    refused: BTreeMap<JobKey, Instant>,
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
    /// Since when we do.
    led: Option<Instant>,
    status: watch::Sender<GovernStatus>,
}

/// A line of the log: `at=… action=admit job=nlp/train …`.
fn line(at: Moment, fields: &[(&str, &str)]) -> String {
    let mut out = format!("at={}", at.rfc3339());
    for (key, value) in fields {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:".contains(c);
        let value = printable(value);
        match !value.is_empty() && value.chars().all(plain) {
            true => out.push_str(&format!(" {key}={value}")),
            false => out.push_str(&format!(" {key}={value:?}")),
        }
    }
    out
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
            refused: BTreeMap::new(),
            told: BTreeMap::new(),
            explained: None,
            revision: None,
            quiet_until: None,
            busy: 0,
            proposed: BTreeSet::new(),
            compared: None,
            lead: Lead::default(),
            led: None,
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
        self.status.send_if_modified(|status| {
            let before = status.leads.replace(leads);
            before != Some(leads)
        });
        if !leads {
            // What stands is read anew by the next who leads, ourselves too.
            self.led = None;
            self.revision = None;
            self.unseen.clear();
            self.explained = None;
            return false;
        }
        self.led.get_or_insert_with(Instant::now).elapsed() >= TAKES_OVER
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
            // A write is one call: to be stopped between two leaves nothing half done.
            tokio::select! {
                () = &mut end => return Ok(()),
                () = self.turn(say) => {}
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
    async fn decided(&self, facts: Arc<Facts>) -> (Decision, Vec<GovernedJob>) {
        let rules = self.rules;
        let task = tokio::task::spawn_blocking(move || {
            let jobs = governed_jobs(&facts.fleet);
            let snapshot = live::snapshot(&facts.fleet, &facts.burn);
            (decide(snapshot, &jobs, &rules), jobs)
        });
        match task.await {
            Ok(made) => made,
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

    /// Sends what was decided, as much of it as one batch holds.
    async fn write_all(
        &mut self,
        decision: &Decision,
        jobs: &[GovernedJob],
        say: &mut dyn FnMut(&str),
    ) {
        let now = Instant::now();
        self.refused.retain(|_, until| *until > now);
        let is_new = |write: &&PlannedWrite| write.purpose == Purpose::Suspend;
        let may = |write: &&PlannedWrite| !self.refused.contains_key(&write.job);
        let all = || decision.writes.iter().filter(may);
        // Neither keeps the other waiting for long.
        let new = all().filter(is_new).take(self.batch);
        let rest = all().filter(|write| !is_new(write)).take(self.batch);
        let writes: Vec<PlannedWrite> = rest.chain(new).cloned().collect();
        for write in &writes {
            if !self.send(write, decision.snapshot.at, say).await {
                return;
            }
        }
        let is_due = |at: Instant| at.elapsed() >= EXPLAINED_EVERY;
        if !writes.is_empty() || !self.explained.is_none_or(is_due) {
            return;
        }
        self.explained = Some(Instant::now());
        self.told
            .retain(|key, _| decision.standings.contains_key(key));
        let snapshot = decision.snapshot.clone();
        let told = tokio::task::spawn_blocking(move || answers(&snapshot)).await;
        let Ok(told) = told else {
            return;
        };
        let mut status = status_writes(decision, jobs, &told);
        let lately = |at: &Instant| at.elapsed() < TOLD_EVERY;
        status.retain(|write| !self.told.get(&write.job).is_some_and(lately));
        status.retain(|write| !self.refused.contains_key(&write.job));
        for write in status.iter().take(self.batch) {
            self.told.insert(write.job.clone(), Instant::now());
            if !self.send(write, decision.snapshot.at, say).await {
                return;
            }
        }
    }

    /// Sends one write; false where the server is to be left alone.
    async fn send(&mut self, write: &PlannedWrite, at: Moment, say: &mut dyn FnMut(&str)) -> bool {
        let Some(writer) = &self.writer else {
            return false;
        };
        self.pacer.turn().await;
        if !self.lead.leads() {
            return false;
        }
        let outcome = writer.write(&write.write).await;
        let quiet = write.purpose == Purpose::Status;
        let (word, why) = match &outcome {
            GovernOutcome::Written => ("done", write.reason.as_str()),
            GovernOutcome::Already => ("already", write.reason.as_str()),
            GovernOutcome::Stale(why) => ("stale", why.as_str()),
            GovernOutcome::Busy(why, _) => ("busy", why.as_str()),
            GovernOutcome::Refused(why) => ("refused", why.as_str()),
            GovernOutcome::Unknown(why) => ("unknown", why.as_str()),
        };
        if !quiet || !matches!(outcome, GovernOutcome::Written | GovernOutcome::Already) {
            say(&logged(at, write, word, why));
        }
        let refusal = matches!(outcome, GovernOutcome::Refused(_)).then(|| why.to_owned());
        self.status.send_modify(|status| {
            let key = (write.purpose.word(), word);
            *status.writes.entry(key).or_default() += 1;
            match word {
                "done" => status.refused = None,
                "refused" => status.refused = refusal,
                _ => {}
            }
        });
        match outcome {
            GovernOutcome::Busy(_, wait) => {
                let doubled = BUSY.saturating_mul(1 << self.busy.min(8));
                self.busy += 1;
                let wait = wait.unwrap_or_default().max(doubled.min(BUSIEST));
                self.quiet_until = Some(Instant::now() + wait);
                return false;
            }
            GovernOutcome::Refused(_) => {
                let until = Instant::now() + REFUSED_FOR;
                self.refused.insert(write.job.clone(), until);
            }
            GovernOutcome::Written | GovernOutcome::Unknown(_) => {
                let sent = (write.write.clone(), Instant::now());
                self.unseen.insert(write.job.clone(), sent);
                if let (GovernOutcome::Written, Some((reason, action))) =
                    (&outcome, event(&write.purpose))
                {
                    self.pacer.turn().await;
                    let object = &write.write.object;
                    writer.tell(object, reason, &write.reason, action).await;
                }
            }
            GovernOutcome::Already | GovernOutcome::Stale(_) => {}
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

fn logged(at: Moment, write: &PlannedWrite, outcome: &str, why: &str) -> String {
    let level = match outcome {
        "refused" | "unknown" | "busy" => "warn",
        _ => "info",
    };
    let devices = write.devices.to_string();
    line(
        at,
        &[
            ("level", level),
            ("action", write.purpose.word()),
            ("outcome", outcome),
            ("kind", &write.job.kind),
            ("job", &write.job.key.to_string()),
            ("queue", &write.queue),
            ("devices", &devices),
            ("reason", why),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_can_be_read_by_programs() {
        let at = Moment::from_seconds(0);
        let said = line(
            at,
            &[
                ("job", "nlp/train"),
                ("reason", "it \"waits\""),
                ("queue", ""),
            ],
        );
        assert_eq!(
            said,
            "at=1970-01-01T00:00:00Z job=nlp/train reason=\"it \\\"waits\\\"\" queue=\"\""
        );
    }

    #[tokio::test(start_paused = true)]
    async fn writes_are_spaced_evenly() {
        let begun = Instant::now();
        let mut pacer = Pacer::new(20.0);
        for _ in 0..201 {
            pacer.turn().await;
        }
        assert_eq!(begun.elapsed().as_millis() / 100, 100);
    }
}
