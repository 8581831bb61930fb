//! Carries out an approved plan: drives the state machine, sends calls, and writes the journal before and after each call.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use model::base::name::printable;
use model::base::{Exit, Failure, Moment};
use model::plan::{Object, Plan, Step};
use plan::grant::{Approved, Confirmation, Confirmed, Grant};

use super::history::{Run, runs, undone_by};
use super::journal::{Journal, JournalFault, JournalWriter};
use super::machine::{Machine, Note, RunCommand, RunEnd, StepResult, StepStatus};
use super::record::{Record, Same, Who};
use super::response::ResponseKind;
use super::writer::Writer;

/// Progress of a run, for observers.
#[derive(Clone, PartialEq, Debug)]
pub struct Progress {
    pub run: String,
    /// Each step's status, with what it waits for or why it failed.
    pub steps: Vec<(StepStatus, String)>,
    /// How it ended; `None` while it runs.
    pub end: Option<RunEnd>,
}

/// Why a run could not start, or was aborted.
#[derive(Debug)]
pub enum RunError {
    /// The journal cannot be written: nothing more is sent.
    Journal(JournalFault),
    /// The run may not be started or resumed.
    Refused(String),
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Journal(fault) => fault.fmt(f),
            Self::Refused(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for RunError {}

impl From<RunError> for Failure {
    fn from(broken: RunError) -> Self {
        let exit = match &broken {
            RunError::Journal(_) => Exit::Failed,
            RunError::Refused(_) => Exit::Refused,
        };
        Self::new(exit, broken.to_string())
    }
}

impl From<JournalFault> for RunError {
    fn from(fault: JournalFault) -> Self {
        Self::Journal(fault)
    }
}

/// A name for a new run: the start time and enough randomness that two concurrent runs differ. Valid as a Kubernetes name.
pub fn name_of_run(now: Moment) -> String {
    let digits: String = now.rfc3339().chars().filter(char::is_ascii_digit).collect();
    let chance = RandomState::new().build_hasher().finish() & 0xff_ffff;
    format!("{digits}-{chance:06x}")
}

/// True for the names that [`name_of_run`] makes: letters, digits and hyphens only, so that the name is safe as a file name.
pub fn is_name_of_run(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('-')
}

/// Dependencies of a run.
pub struct RunContext<'a> {
    /// Sends calls to the cluster.
    pub writer: &'a Writer,
    pub journal: &'a Journal,
    pub local: String,
    /// This machine's clock, for the journal.
    pub clock: &'a (dyn Fn() -> Moment + Send + Sync),
    pub progress: watch::Sender<Option<Progress>>,
    /// True once the operator asked to stop after the current step.
    pub stop: watch::Receiver<bool>,
}

impl RunContext<'_> {
    async fn actor(&self) -> Who {
        Who {
            user: self.writer.user().await,
            local: self.local.clone(),
        }
    }

    async fn versions(&self, plan: &Plan) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        let objects = plan.steps.iter().flat_map(Step::objects);
        let unsettled = objects.filter(|object| object.place.version.is_empty());
        let unsettled: Vec<&Object> = unsettled.collect();
        for object in unsettled {
            let (group, plural) = (object.place.group.as_str(), object.place.plural.as_str());
            if !versions.contains_key(group)
                && let Some(version) = self.writer.version_of(group, plural).await
            {
                versions.insert(group.to_owned(), version);
            }
        }
        versions
    }

    /// Carries out a plan. `run` is its name, from [`name_of_run`].
    ///
    /// # Errors
    /// The journal cannot be written, or the plan is for another cluster.
    pub async fn carry_out(mut self, approved: &Approved, run: &str) -> Result<RunEnd, RunError> {
        let cluster = self.writer.named();
        if *cluster.context != **approved.context() {
            return Err(RunError::Refused(format!(
                "the plan was approved for {}, but this cluster is {}",
                approved.context(),
                cluster.context
            )));
        }
        let cluster = self.writer.cluster().await;
        let mut pen = self.journal.open(run, (self.clock)())?;
        let who = self.actor().await;
        let plan = approved.plan();
        let begin = Record::Begin {
            cluster,
            who: who.clone(),
            reason: approved.reason().to_owned(),
            plan: Box::new(plan.clone()),
        };
        pen.write((self.clock)(), begin)?;
        let versions = self.versions(plan).await;
        let machine = Machine::new(run, plan, &versions).by(who.name());
        self.drive(machine, pen, plan, &who, approved.reason())
            .await
    }

    /// Resumes a run whose process has ended, or that was stopped. No step is carried out twice: calls without an
    /// answer are resolved first.
    ///
    /// # Errors
    /// No such run exists on this cluster, it has ended, another process carries it out, or the journal fails.
    pub async fn resume_run(mut self, grant: &Grant, run: &str) -> Result<RunEnd, RunError> {
        // An unknown run must not create a lock file.
        find(self.journal, run)?;
        let mut pen = self.journal.open(run, (self.clock)())?;
        let past = find(self.journal, run)?;
        let cluster = self.writer.cluster().await;
        if past.cluster.compare(&cluster) == Same::No {
            return Err(RunError::Refused(format!(
                "{run} ran on {}, but this cluster is {cluster}",
                past.cluster
            )));
        }
        past.can_go_on().map_err(RunError::Refused)?;
        if let Some(undo) = undone_by(&runs(&self.journal.read()?), run) {
            return Err(RunError::Refused(format!(
                "{run} was undone by {}; make a new plan",
                undo.name
            )));
        }
        let consent = Confirmation {
            // The reason was accepted when the run began, perhaps by an earlier version.
            reason: printable(&past.reason).into_owned(),
            confirmed: Confirmed::ByFlag,
        };
        let approved = grant
            .approve(past.plan.clone(), consent)
            .map_err(|error| RunError::Refused(error.to_string()))?;
        let who = self.actor().await;
        pen.write((self.clock)(), Record::TakenUp { who: who.clone() })?;
        let plan = approved.plan();
        let versions = self.versions(plan).await;
        let machine = Machine::new(run, plan, &versions)
            .by(who.name())
            .with_items(past.items());
        self.drive(machine, pen, plan, &who, approved.reason())
            .await
    }

    async fn drive(
        &mut self,
        mut machine: Machine,
        mut pen: JournalWriter,
        plan: &Plan,
        who: &Who,
        reason: &str,
    ) -> Result<RunEnd, RunError> {
        loop {
            if *self.stop.borrow() {
                machine.stop();
            }
            let order = machine.next(self.writer.now());
            self.write_notes(&mut machine, &mut pen, plan, who, reason)
                .await?;
            self.report_progress(&machine, &pen, None);
            match order {
                RunCommand::Read(object) => {
                    let seen = self.writer.read(&object).await;
                    machine.read(self.writer.now(), seen);
                }
                RunCommand::Write {
                    step,
                    attempt,
                    call,
                    before,
                } => {
                    let intent = Record::Intent {
                        step,
                        attempt,
                        call: (*call).clone(),
                        before,
                    };
                    pen.write((self.clock)(), intent)?;
                    let answer = self.writer.send(&call).await;
                    let accepted = match answer.verdict(&call) {
                        ResponseKind::Accepted => Some(true),
                        ResponseKind::Unknown(_) => None,
                        _ => Some(false),
                    };
                    let record = Record::Answer {
                        step,
                        attempt,
                        code: answer.code,
                        accepted,
                        words: if accepted == Some(true) {
                            String::new()
                        } else {
                            answer.words()
                        },
                    };
                    pen.write((self.clock)(), record)?;
                    machine.answered(self.writer.now(), &answer);
                }
                RunCommand::Sleep(until) => {
                    let wait = Duration::from_millis(until.since(self.writer.now()).millis());
                    let wait = wait.max(Duration::from_millis(10));
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        changed = self.stop.changed() => if changed.is_err() {
                            // The sender is gone, so no stop can arrive: the run continues to its end.
                            tokio::time::sleep(wait).await;
                        }
                    }
                }
                RunCommand::End(end) => {
                    pen.write((self.clock)(), Record::End { end: end.clone() })?;
                    self.report_progress(&machine, &pen, Some(end.clone()));
                    return Ok(end);
                }
            }
        }
    }

    /// Writes the machine's notes to the journal, and writes Events for finished steps.
    async fn write_notes(
        &self,
        machine: &mut Machine,
        pen: &mut JournalWriter,
        plan: &Plan,
        who: &Who,
        reason: &str,
    ) -> Result<(), RunError> {
        for note in machine.notes() {
            let record = match &note {
                Note::Resolved { step, done } => Record::Resolved {
                    step: *step,
                    done: *done,
                },
                Note::Waits { step, words } => Record::Waits {
                    step: *step,
                    words: words.clone(),
                },
                Note::Finished { step, how, words } => Record::Finished {
                    step: *step,
                    how: *how,
                    words: words.clone(),
                },
            };
            pen.write((self.clock)(), record)?;
            if let Note::Finished { step, how, words } = &note
                && *how != StepResult::Already
                && let Some(planned) = plan.steps.get((*step as usize).wrapping_sub(1))
            {
                self.report_to_cluster(pen.run(), *step, planned, *how, words, who, reason)
                    .await;
            }
        }
        Ok(())
    }

    fn report_progress(&self, machine: &Machine, pen: &JournalWriter, end: Option<RunEnd>) {
        let progress = Progress {
            run: pen.run().to_owned(),
            steps: machine
                .step_statuses()
                .map(|(_, stand, words)| (stand, words.to_owned()))
                .collect(),
            end,
        };
        self.progress.send_replace(Some(progress));
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one event, all of whose words differ"
    )]
    async fn report_to_cluster(
        &self,
        run: &str,
        number: u32,
        step: &Step,
        how: StepResult,
        words: &str,
        who: &Who,
        reason: &str,
    ) {
        let (namespace, event) = event(
            run,
            number,
            step,
            how,
            words,
            who,
            reason,
            self.writer.now(),
        );
        let answer = self.writer.create_event(&namespace, &event).await;
        if answer.code.is_none_or(|code| code >= 300) {
            tracing::warn!(words = %answer.words(), "a Kubernetes Event could not be written");
        }
    }
}

/// Finds the run with this name in the journal.
///
/// # Errors
/// The journal cannot be read, or has no such run.
pub fn find(journal: &Journal, run: &str) -> Result<Run, RunError> {
    if !is_name_of_run(run) {
        return Err(RunError::Refused(format!(
            "`{}` is not the name of a run; `plan --log` lists them",
            printable(run)
        )));
    }
    let pages = journal.read()?;
    runs(&pages)
        .into_iter()
        .rev()
        .find(|known| known.name == run)
        .ok_or_else(|| {
            RunError::Refused(format!(
                "the journal {} has no run {run}; `plan --log` lists its runs; `plan undo {run}` resumes what a run of another machine has suspended",
                journal.path().display()
            ))
        })
}

/// The Event for a step's object, and its namespace: the object's, or `default`.
#[expect(
    clippy::too_many_arguments,
    reason = "one event, all of whose words differ"
)]
fn event(
    run: &str,
    number: u32,
    step: &Step,
    how: StepResult,
    words: &str,
    who: &Who,
    reason: &str,
    now: Moment,
) -> (String, Value) {
    let it = &step.object;
    let namespace = if it.namespace.is_empty() {
        "default"
    } else {
        it.namespace.as_str()
    };
    let outcome = match how {
        StepResult::Failed => format!("could not {}: {words}", step.verb.word()),
        StepResult::Left => format!("skipped: {}: {words}", step.verb.word()),
        StepResult::Done | StepResult::Already => step.verb.word().to_owned(),
    };
    let why = if reason.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    };
    let message: String = format!(
        "{outcome} by {} through stokehold (run {run}){why}",
        who.name()
    )
    .chars()
    .take(1000)
    .collect();
    let version = if it.place.group.is_empty() {
        it.place.version.to_string()
    } else {
        format!("{}/{}", it.place.group, it.place.version)
    };
    // Object names are limited to 253 characters.
    let name: String = it.name.chars().take(200).collect();
    let stamp = now.rfc3339();
    let event = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{name}.{run}-{number}"), "namespace": namespace},
        "involvedObject": {
            "kind": it.kind, "namespace": it.namespace, "name": it.name, "uid": it.uid,
            "apiVersion": version,
        },
        "reason": match how { StepResult::Failed | StepResult::Left => "StokeholdFailed", _ => "Stokehold" },
        "message": message,
        "type": match how { StepResult::Failed | StepResult::Left => "Warning", _ => "Normal" },
        "count": 1,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "source": {"component": "stokehold"},
        "reportingComponent": "stokehold.dev/console",
        "reportingInstance": "stokehold",
        "action": step.verb.word(),
    });
    (namespace.to_owned(), event)
}
