//! Background task of the console's actions: makes and carries out plans off the event loops, and reads the journal for past runs.
//! Without a grant it writes nothing.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use cluster::mutations::Right;
use console::action_keys::{ConfirmedPlan, PlanOutcome, PlanRequest};
use exec::blocking;
use exec::target_reader::Unseen;
use exec::{self, Journal, Progress, Run, RunEnd, StepResult};
use model::base::{Exit, Failure, Name};
use model::plan::{Intent, JobName, Mutation, Plan, Refusal, RefusalCode};
use plan::actions::{ACTIONS, NeededRight};
use settings::Settings;
use source::kubeconfig::ContextChoice;
use table::Facts;
use table::actions::{ActionState, May, RunRow, RunState, StepRow, StepState, opens_faulty};
use table::rows::lost_work::losses_of;
use table::what_if::Supposed;

use super::action_service::ActionService;
use super::run_outcome::{FleetLook, RunOutcome};
use crate::runtime::host::Host;
use crate::runtime::kubectl::Kubectl;

/// Capacity of the event channel to the screen.
const BACKLOG: usize = 32;

/// How often the journal is checked for runs of other processes.
const JOURNAL: Duration = Duration::from_secs(5);

/// Most runs shown; the latest ones.
const SHOWN: usize = 200;

/// What an action task reports.
#[derive(Debug)]
pub enum ActionEvent {
    /// Which actions are allowed, and the runs of the journal.
    ActionState(Arc<ActionState>),
    /// The plan that was requested, or why there is none.
    PlanOutcome(u64, PlanOutcome),
    /// Result of a what-if computation.
    Supposed(Name, Supposed),
    /// Whether a run began: its name, or why it was refused.
    Began(u64, Result<String, String>),
}

/// Why rights are missing, by the command that needs them.
type Lacks = Mutex<BTreeMap<&'static str, String>>;

fn locked(lacks: &Lacks) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
    lacks.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run of this process: its stop switch and its progress.
struct ActiveRun {
    stop: watch::Sender<bool>,
    progress: watch::Receiver<Option<Progress>>,
}

/// Plans and runs of one session.
pub struct ActionTask {
    action_service: Arc<ActionService>,
    facts: watch::Receiver<Option<Arc<Facts>>>,
    out: mpsc::Sender<ActionEvent>,
    news: mpsc::Receiver<ActionEvent>,
    running: Vec<ActiveRun>,
    /// Why rights are missing, by the command that needs them.
    lacks: Arc<Lacks>,
    /// When a run of this console last made progress.
    acted: watch::Sender<Option<Instant>>,
    /// Dropped with the session. A run in progress then stops where it is and can be resumed later.
    gone: watch::Sender<()>,
}

impl ActionTask {
    /// A task for one cluster; reads rights and runs at once. Must be called within a runtime.
    pub fn new(action_service: ActionService, facts: watch::Receiver<Option<Arc<Facts>>>) -> Self {
        let (out, news) = mpsc::channel(BACKLOG);
        let latest = facts.clone();
        let look: FleetLook = Arc::new(move || {
            let facts = latest.borrow().clone();
            Box::pin(std::future::ready(facts))
        });
        let actions = Self {
            action_service: Arc::new(action_service.with_fleet_reader(look)),
            facts,
            out,
            news,
            running: Vec::new(),
            lacks: Arc::default(),
            acted: watch::Sender::new(None),
            gone: watch::Sender::new(()),
        };
        actions.look();
        actions.follow();
        actions
    }

    /// When a run of this console last made progress; facts from before that may be outdated.
    pub fn acted(&self) -> watch::Receiver<Option<Instant>> {
        self.acted.subscribe()
    }

    pub async fn next(&mut self) -> ActionEvent {
        match self.news.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Runs `work` until the session ends.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut gone = self.gone.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                () = work => {}
                _ = gone.changed() => {}
            }
        });
    }

    /// What opens shells and port-forwards.
    ///
    /// # Errors
    /// As [`ActionService::kubectl`].
    pub fn kubectl(&self) -> Result<&Kubectl, String> {
        self.action_service.kubectl()
    }

    /// Reads which actions are allowed, and the runs of the journal.
    pub fn look(&self) {
        let (action_service, out) = (Arc::clone(&self.action_service), self.out.clone());
        let lacks = Arc::clone(&self.lacks);
        self.spawn(async move {
            let first = acts(&action_service, &lacks).await;
            let granted = first.may == May::Yes;
            let _ = out.send(ActionEvent::ActionState(Arc::new(first))).await;
            if granted {
                let lacking = lacking(&action_service).await;
                let is_new = lacking != *locked(&lacks);
                *locked(&lacks) = lacking;
                if is_new {
                    let _ = out.send(news(&action_service, &lacks).await).await;
                }
            }
        });
    }

    /// Watches the journal for runs of other processes; all processes of one user share it.
    fn follow(&self) {
        let (action_service, out) = (Arc::clone(&self.action_service), self.out.clone());
        let lacks = Arc::clone(&self.lacks);
        self.spawn(async move {
            let stamp = || action_service.journal().ok().and_then(Journal::stamp);
            let mut known = stamp();
            loop {
                tokio::time::sleep(JOURNAL).await;
                let now = stamp();
                if std::mem::replace(&mut known, now) == now {
                    continue;
                }
                let state = news(&action_service, &lacks).await;
                if out.send(state).await.is_err() {
                    return;
                }
            }
        });
    }

    /// Makes a plan from the latest snapshot.
    pub fn plan(&self, ask: PlanRequest) {
        let (action_service, out) = (Arc::clone(&self.action_service), self.out.clone());
        let facts = self.facts.borrow().clone();
        self.spawn(async move {
            let made = match make_plan(&action_service, &ask, facts.as_deref()).await {
                Ok(mut plan) => {
                    action_service.settle(&mut plan).await;
                    action_service.check(&mut plan).await;
                    PlanOutcome::Plan(Box::new(plan))
                }
                Err(Unseen::Refused(refusal)) => PlanOutcome::Refused(refusal),
                Err(Unseen::Failed(failure)) => PlanOutcome::Failed(failure.message),
            };
            let _ = out.send(ActionEvent::PlanOutcome(ask.number, made)).await;
        });
    }

    /// Computes the effect of changes on the latest snapshot (what-if). It writes nothing and needs no grant.
    pub fn suppose(&self, changes: Name) {
        let out = self.out.clone();
        let facts = self.facts.borrow().clone();
        self.spawn(async move {
            let supposed = match facts {
                Some(facts) => blocking(|| Supposed::of(&facts, &changes)),
                None => Supposed::Failed(NO_PICTURE.to_owned()),
            };
            let _ = out.send(ActionEvent::Supposed(changes, supposed)).await;
        });
    }

    /// Carries out a confirmed plan.
    pub fn carry_out(&mut self, order: ConfirmedPlan) {
        let (number, plan, consent) = (order.number, order.plan, order.confirmation);
        self.run(number, |action_service, progress, stop| async move {
            let approved = action_service.approve(plan, consent)?;
            whole(action_service.carry_out(&approved, progress, stop).await?)
        });
    }

    /// Resumes a stopped run.
    pub fn go_on(&mut self, run: String) {
        self.run(0, |action_service, progress, stop| async move {
            whole(action_service.resume_run(&run, progress, stop).await?)
        });
    }

    fn run<F>(
        &mut self,
        number: u64,
        work: impl FnOnce(
            Arc<ActionService>,
            watch::Sender<Option<Progress>>,
            watch::Receiver<bool>,
        ) -> F,
    ) where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let (progress, seen) = watch::channel(None);
        let (stop, stopped) = watch::channel(false);
        self.running.retain(|run| !run.is_over());
        self.running.push(ActiveRun {
            stop,
            progress: seen.clone(),
        });
        let (action_service, out) = (Arc::clone(&self.action_service), self.out.clone());
        let lacks = Arc::clone(&self.lacks);
        let acted = self.acted.clone();
        let work = work(Arc::clone(&action_service), progress, stopped);
        self.spawn(async move {
            let mut seen = seen;
            let reports = async {
                let mut begun = false;
                while seen.changed().await.is_ok() {
                    acted.send_replace(Some(Instant::now()));
                    let run = seen.borrow_and_update().as_ref().map(|it| it.run.clone());
                    if let Some(run) = run
                        && !std::mem::replace(&mut begun, true)
                    {
                        let _ = out.send(ActionEvent::Began(number, Ok(run))).await;
                    }
                    let _ = out.send(news(&action_service, &lacks).await).await;
                }
            };
            let (end, ()) = tokio::join!(work, reports);
            if let Err(failure) = end {
                let _ = out
                    .send(ActionEvent::Began(number, Err(failure.message)))
                    .await;
            }
            let _ = out.send(news(&action_service, &lacks).await).await;
        });
    }

    /// Name of a run of this console that is in progress; closing the session would interrupt it.
    pub fn goes_on(&self) -> Option<String> {
        let run = self.running.iter().find(|run| !run.is_over())?;
        let name = run.progress.borrow().as_ref().map(|it| it.run.clone());
        Some(name.unwrap_or_else(|| String::from("a run that was just confirmed")))
    }

    /// Stops a run of this console after its current step; false when this console does not carry it out.
    pub fn stop(&self, run: &str) -> bool {
        let is = |running: &&ActiveRun| {
            let progress = running.progress.borrow();
            progress.as_ref().is_some_and(|it| it.run == run)
        };
        match self.running.iter().find(is) {
            Some(running) => {
                running.stop.send_replace(true);
                true
            }
            None => false,
        }
    }
}

impl ActiveRun {
    fn is_over(&self) -> bool {
        // A run that was refused before its first step reports no end.
        let has_ended = self
            .progress
            .borrow()
            .as_ref()
            .is_some_and(|it| it.end.is_some());
        has_ended || self.progress.has_changed().is_err()
    }
}

/// Turns an outcome that is not as planned into an error.
fn whole(outcome: RunOutcome) -> Result<(), Failure> {
    match outcome.unmet() {
        Some(words) => Err(Failure::new(Exit::Failed, words)),
        None => Ok(()),
    }
}

/// Makes a plan: from the snapshot where it needs the whole fleet, else from the objects as they are read now.
async fn make_plan(
    action_service: &ActionService,
    ask: &PlanRequest,
    facts: Option<&Facts>,
) -> Result<Plan, Unseen> {
    if let Intent::Undo { run } = &ask.intent {
        let elsewhere = |sentence| Refusal::new(RefusalCode::NotFound, sentence).into();
        let mut plan = action_service.undo(run, facts, elsewhere).await?;
        let findings = facts.map_or(&[][..], |facts| &facts.fleet.findings);
        plan.warnings.extend(opens_faulty(findings, &plan));
        return Ok(plan);
    }
    action_service.plan(&ask.intent, &ask.known, facts).await
}

/// The state that [`acts`] reads, as an event.
async fn news(action_service: &ActionService, lacks: &Lacks) -> ActionEvent {
    ActionEvent::ActionState(Arc::new(acts(action_service, lacks).await))
}

/// The same for a single picture of a cluster; nothing is known where it cannot be reached.
pub async fn once(host: &Host, settings: &Settings, choice: ContextChoice) -> ActionState {
    match ActionService::open(host, settings, choice, false) {
        Ok(action_service) => acts(&action_service, &Lacks::default()).await,
        Err(_) => ActionState::default(),
    }
}

/// Which actions are allowed, and the runs on this cluster.
async fn acts(action_service: &ActionService, lacks: &Lacks) -> ActionState {
    let lacking = locked(lacks).clone();
    let may = match action_service.grant() {
        Ok(_) => May::Yes,
        Err(denied) => May::No {
            short: denied.short.to_owned(),
            sentence: denied.sentence.clone(),
        },
    };
    let journal = action_service.journal().ok();
    let (all, doubts): (Vec<Run>, Vec<Option<String>>) =
        action_service.runs().await.into_iter().unzip();
    let latest = all.iter().zip(doubts).rev().take(SHOWN);
    let runs = latest
        .map(|(run, doubt)| {
            // Only a run without an end may still be in progress.
            let open = run.end.is_none();
            let running = open && journal.is_some_and(|journal| journal.is_running(&run.name));
            let mut row = row(run, running, exec::undone_by(&all, &run.name));
            if let Some(doubt) = doubt {
                row.words = match row.words.is_empty() {
                    true => doubt,
                    false => format!("{}; {doubt}", row.words),
                };
            }
            row
        })
        .collect();
    ActionState { may, lacking, runs }
}

fn row(run: &Run, running: bool, undo: Option<&Run>) -> RunRow {
    let (state, words) = match (&run.end, undo) {
        (Some(_), Some(undo)) => (RunState::Undone, format!("undone by {}", undo.name)),
        (Some(RunEnd::Done), None) => match run.unmet() {
            Some(words) => (RunState::Incomplete, words),
            None => (RunState::Done, String::new()),
        },
        (Some(RunEnd::Stopped), None) => (RunState::Stopped, String::new()),
        (Some(RunEnd::Failed { step, words }), None) => {
            (RunState::Failed, format!("step {step} failed: {words}"))
        }
        (None, _) if running => (RunState::Running, String::new()),
        (None, Some(undo)) => (RunState::Undone, format!("undone by {}", undo.name)),
        (None, None) => (RunState::BrokenOff, String::new()),
    };
    let steps = run.steps.iter().zip(&run.plan.steps);
    let cordons = steps.clone().filter(|(trace, step)| {
        matches!(step.mutation, Mutation::Cordon { .. }) && trace.has_written()
    });
    let cordons = cordons.map(|(_, step)| step.object.name.clone()).collect();
    let stopped = stopped(run);
    RunRow {
        no_undo: match state {
            RunState::Done => run.undo(run.begun).err().map(|refusal| refusal.sentence),
            _ => None,
        },
        cordons,
        starts: match &run.plan.intent {
            Intent::Admit { job, .. } => Some(job.clone()),
            _ => None,
        },
        losses: losses_of(&run.plan, &stopped),
        stopped,
        evicted: run.evicted_pods(),
        suspended_jobs: run.suspended_jobs(),
        name: run.name.clone(),
        title: run.plan.title.clone(),
        begun: run.begun,
        last: run.last,
        by: run.who.name().to_owned(),
        reason: run.reason.clone(),
        state,
        words,
        steps: steps
            .map(|(trace, step)| StepRow {
                words: step.words(),
                began: trace.began,
                state: match trace.over {
                    Some(StepResult::Done) => StepState::Done,
                    Some(StepResult::Already) => StepState::Already,
                    Some(StepResult::Left) => StepState::Left,
                    Some(StepResult::Failed) => StepState::Failed,
                    None if trace.is_unresolved() => StepState::Unresolved,
                    None if trace.has_written() || !trace.words.is_empty() => StepState::Waiting,
                    None => StepState::Todo,
                },
                note: match trace.over {
                    Some(StepResult::Done) => String::new(),
                    _ => trace.words.clone(),
                },
            })
            .collect(),
    }
}

/// The jobs that a run has stopped: by a step of its own, or preempted by the scheduler after such a step.
fn stopped(run: &Run) -> Vec<JobName> {
    let steps = || run.steps.iter().zip(&run.plan.steps);
    if !steps().any(|(trace, _)| trace.has_written()) {
        return Vec::new();
    }
    let is_sent = |job: &&JobName| {
        let mut own = steps()
            .filter(|(_, step)| step.job.as_ref().is_some_and(|own| own.name == **job))
            .peekable();
        own.peek().is_none() || own.any(|(trace, _)| trace.has_written())
    };
    let all = run.plan.evicts();
    all.into_iter().filter(is_sent).cloned().collect()
}

/// The rights that commands which are no action need; any one of a row suffices.
const NEEDS: &[(&str, &[NeededRight])] = &[
    // In a pod, or on a node.
    (
        "shell",
        &[("create", "", "pods", "exec"), ("create", "", "pods", "")],
    ),
    ("port-forward", &[("create", "", "pods", "portforward")]),
];

/// What is missing for each command, by the server's access reviews.
async fn lacking(action_service: &ActionService) -> BTreeMap<&'static str, String> {
    let actions = ACTIONS.iter().map(|spec| (spec.command, spec.rights));
    let mut commands_by_need: BTreeMap<&[NeededRight], Vec<&'static str>> = BTreeMap::new();
    for (command, needs) in actions.chain(NEEDS.iter().copied()) {
        commands_by_need.entry(needs).or_default().push(command);
    }
    let mut out = BTreeMap::new();
    for (needs, commands) in commands_by_need {
        let rights: Vec<Right> = needs
            .iter()
            .map(|(verb, group, resource, subresource)| Right {
                verb,
                group: (*group).to_owned(),
                resource: (*resource).to_owned(),
                subresource,
                namespace: String::new(),
            })
            .collect();
        let missing = action_service.missing(&rights).await;
        if missing.len() == rights.len()
            && let Some(first) = missing.first()
        {
            for command in commands {
                out.insert(command, first.to_string());
            }
        }
    }
    out
}

pub(crate) const NO_PICTURE: &str = "the fleet has not been read yet";

/// The error for a plan that needs the fleet before the first snapshot.
pub(crate) fn no_picture() -> Unseen {
    Unseen::Failed(Failure::new(Exit::Unreachable, NO_PICTURE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exec::record::Who;
    use exec::{ClusterIdentity, Trace};
    use model::base::{Moment, ObjectKey};
    use model::plan::{Displaced, Forecast, JobRef, Loss, Object, PlanEffect, Step, Verb};

    fn job(name: &str) -> JobName {
        JobName(ObjectKey::new("nlp", name))
    }

    /// A run that suspends two jobs one after the other, for which the scheduler evicts a third.
    fn run(sent: usize) -> Run {
        let intent = Intent::Admit {
            job: job("new"),
            preempt: true,
        };
        let mut plan = Plan::new("start nlp/new", intent, Moment::default());
        for name in ["a", "b"] {
            let object = Object::new("batch", "v1", "jobs", "Job", name).within("nlp");
            let mut step = Step::new(Verb::Suspend, object, Mutation::Suspend { value: true });
            step.job = Some(JobRef {
                name: job(name),
                devices: Some(8),
                gang: None,
            });
            step.side_effects.interrupts = true;
            plan.steps.push(step);
        }
        plan.effect = PlanEffect::Forecast(Forecast {
            displaced: vec![Displaced {
                job: job("c"),
                team: Name::default(),
                priority: None,
                devices: 8,
                loss: Loss::default(),
                back: None,
                back_p10: None,
                back_p90: None,
            }],
            ..Forecast::default()
        });
        let trace = |at: usize| Trace {
            accepted: (at < sent).then_some(true),
            ..Trace::default()
        };
        Run {
            name: "run-1".to_owned(),
            begun: Moment::default(),
            last: Moment::default(),
            cluster: ClusterIdentity {
                context: "demo".to_owned(),
                server: String::new(),
                uid: String::new(),
            },
            who: Who {
                user: "kim".to_owned(),
                local: String::new(),
            },
            reason: String::new(),
            plan,
            steps: vec![trace(0), trace(1)],
            end: None,
            aftermath: String::new(),
        }
    }

    #[test]
    fn a_run_has_stopped_what_a_step_that_was_sent_stops() {
        assert_eq!(row(&run(0), true, None).stopped, []);
        assert_eq!(row(&run(1), true, None).stopped, [job("a"), job("c")]);
        let row = row(&run(2), true, None);
        assert_eq!(row.stopped, [job("a"), job("b"), job("c")]);
        assert_eq!(row.starts, Some(job("new")));
        let lost: Vec<u64> = row.losses.iter().map(|it| it.jobs).collect();
        assert_eq!(lost, [1], "of c alone the plan has a forecast");
    }

    /// A run that is refused before its first step reports no end, and must not count as in progress.
    #[test]
    fn a_run_that_never_began_is_over() {
        let (progress, seen) = watch::channel(None);
        let running = ActiveRun {
            stop: watch::channel(false).0,
            progress: seen,
        };
        assert!(!running.is_over(), "it is about to begin");
        drop(progress);
        assert!(running.is_over());
    }
}
