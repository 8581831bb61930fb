//! Action service: plans and carries out actions on one cluster. The only place that turns settings into a grant, and a grant
//! into a client that can write.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};

use cluster::mutations::Right;
use engine::live;
use exec::blocking;
use exec::govern::GovernWriter;
use exec::target_reader::Unseen;
use exec::{
    self, ClusterIdentity, Journal, Looker, Probe, Progress, Run, RunContext, RunEnd, RunError,
    Runs, Same, Writer, WritingClient, checks, name_of_run,
};
use model::base::{Exit, Failure, Moment};
use model::plan::{Intent, KnownVictims, Plan, Refusal, RefusalCode};
use plan::grant::{Approved, Confirmation, Denied, Grant};
use plan::scale::Autoscalers;
use plan::{self, ActionTarget, Author, hold, reprioritise, resume, scale};
use settings::Settings;
use sim;
use source::api_stats::Clock;
use source::client::{self, Connection};
use source::kubeconfig::ContextChoice;
use table::{self, Facts};

use super::action_task::no_picture;
use super::journal_place::{journal, no_home};
use super::own_runs::{ClusterFlags, OwnRuns, cluster_flags};
use super::picture_plans::{self, plan_on};
use super::run_outcome::{self, FleetLook, RunOutcome};
use crate::runtime::host::Host;
use crate::runtime::kubectl::{Kubectl, NO_CONTAINERS};

/// Longest time that the list of runs waits for the cluster's identity.
const PROMPT: Duration = Duration::from_secs(5);

/// A cluster to act on, with the right to write to it where the settings grant one.
pub struct ActionService {
    connection: Connection,
    right: Result<(Grant, WritingClient), Denied>,
    /// Opens shells and port-forwards; `None` on a simulated cluster, which has no containers.
    kubectl: Option<Kubectl>,
    clock: Clock,
    /// The runs of this process, and the flags of this cluster for the processes in which they go on; `None` on a simulated
    /// cluster, which ends with this process.
    own_runs: Option<(OwnRuns, ClusterFlags)>,
    /// User name on this host.
    local: String,
    journal: Option<Journal>,
    /// The cluster's identity (UID), and the epoch of the connection that it was read in.
    identity: Mutex<Option<(u64, String)>>,
    /// The runs of the journal as last read.
    runs: Mutex<Runs>,
    /// Reads the fleet, to check whether a job that was started runs.
    look: Option<FleetLook>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that asks settings for a grant"
)]
impl ActionService {
    /// Connects to a cluster of the kubeconfig. Nothing is sent yet.
    ///
    /// # Errors
    /// The kubeconfig cannot be used.
    pub fn open(
        host: &Host,
        settings: &Settings,
        choice: ContextChoice,
        interactive: bool,
    ) -> Result<Self, Failure> {
        let usage =
            |fault: source::kubeconfig::ConfigFault| Failure::new(Exit::Usage, fault.to_string());
        let connection =
            client::connect(choice.clone(), host.clock.clone(), [], interactive).map_err(usage)?;
        let flags = cluster_flags(&choice, &connection.context);
        let right = match Grant::from_settings(settings, &connection.context, false) {
            Ok(grant) => {
                let stats = Arc::clone(&connection.stats);
                let kubectl = Kubectl::new(&grant, &choice, &settings.shell);
                let writing = exec::connect(&grant, choice, stats, interactive).map_err(usage)?;
                Ok(((grant, writing), kubectl))
            }
            Err(denied) => Err(denied),
        };
        let (right, kubectl) = match right {
            Ok((right, kubectl)) => (Ok(right), Some(kubectl)),
            Err(denied) => (Err(denied), None),
        };
        Ok(Self {
            connection,
            right,
            kubectl,
            clock: host.clock.clone(),
            own_runs: Some((host.own_runs.clone(), flags)),
            local: host.user_name(),
            journal: journal(settings),
            identity: Mutex::default(),
            runs: Mutex::default(),
            look: None,
        })
    }

    /// A simulated cluster in this process. Writing is granted unless the settings deny it.
    pub fn on_simulated(
        host: &Host,
        settings: &Settings,
        context: &str,
        service: sim::Service,
    ) -> Self {
        let clock = service.cluster().machine_clock();
        let connection = client::client_for(service.clone(), context, clock, []);
        let right = Grant::from_settings(settings, &connection.context, true).map(|grant| {
            let stats = Arc::clone(&connection.stats);
            let writing = exec::client_for(&grant, service, stats);
            (grant, writing)
        });
        Self {
            connection,
            right,
            kubectl: None,
            clock: host.clock.clone(),
            own_runs: None,
            local: host.user_name(),
            journal: journal(settings),
            identity: Mutex::default(),
            runs: Mutex::default(),
            look: None,
        }
    }

    /// Sets the function that reads the fleet to check whether a job that was started runs.
    #[must_use]
    pub fn with_fleet_reader(mut self, look: FleetLook) -> Self {
        self.look = Some(look);
        self
    }

    /// Returns what opens shells and port-forwards.
    ///
    /// # Errors
    /// The settings grant no writing, or the cluster is simulated.
    pub fn kubectl(&self) -> Result<&Kubectl, String> {
        self.grant().map_err(ToString::to_string)?;
        self.kubectl
            .as_ref()
            .ok_or_else(|| NO_CONTAINERS.to_owned())
    }

    /// The writer for `govern`.
    ///
    /// # Errors
    /// The settings grant no writing.
    pub fn governor(&self) -> Result<GovernWriter, Failure> {
        match &self.right {
            Ok((grant, client)) => Ok(GovernWriter::new(grant, client.clone())),
            Err(denied) => {
                let message = format!("{denied}; `govern --observe` writes nothing");
                Err(Failure::new(Exit::Refused, message))
            }
        }
    }

    /// The grant.
    ///
    /// # Errors
    /// Why the settings grant no writing.
    pub fn grant(&self) -> Result<&Grant, &Denied> {
        self.right.as_ref().map(|(grant, _)| grant)
    }

    pub fn context(&self) -> &str {
        &self.connection.context
    }

    pub fn now(&self) -> Moment {
        self.connection.stats.now()
    }

    pub fn local_now(&self) -> Moment {
        (self.clock)()
    }

    /// Reads the objects that an action changes.
    pub fn looker(&self) -> Looker {
        let connection = &self.connection;
        Looker::new(connection.client.clone(), connection.namespace.clone())
    }

    /// The job or queue of this name; `namespace` applies where the name has none.
    ///
    /// # Errors
    /// As [`Looker::target`].
    pub async fn target(
        &self,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<ActionTarget, Unseen> {
        let own = namespace.unwrap_or(&self.connection.namespace);
        let looker = Looker::new(self.connection.client.clone(), own);
        looker.target(name).await
    }

    /// The default namespace, for names without one.
    pub fn namespace(&self) -> &str {
        &self.connection.namespace
    }

    /// The user name that the server reports for us, else the user name on this machine.
    pub async fn user(&self) -> String {
        match &self.right {
            Ok((grant, client)) => {
                let reported = Writer::new(grant, client.clone()).user().await;
                if reported.is_empty() {
                    self.local.clone()
                } else {
                    reported
                }
            }
            Err(_) => self.local.clone(),
        }
    }

    /// Fills in the API versions that the cluster serves, where the plan leaves them open.
    pub async fn settle(&self, plan: &mut Plan) {
        self.looker().settle(plan).await;
    }

    /// The journal.
    ///
    /// # Errors
    /// There is no home directory to keep it in.
    pub fn journal(&self) -> Result<&Journal, Failure> {
        self.journal.as_ref().ok_or_else(no_home)
    }

    fn named(&self, uid: String) -> ClusterIdentity {
        ClusterIdentity {
            context: self.connection.context.to_string(),
            server: self.connection.server.clone(),
            uid,
        }
    }

    /// Identity of this cluster, and, where its UID cannot be read, the reason.
    pub async fn cluster(&self) -> (ClusterIdentity, Option<String>) {
        let connection = &self.connection;
        let epoch = connection.stats.epoch();
        let mut known = self.identity.lock().await;
        if let Some((_, uid)) = known.as_ref().filter(|(of, _)| *of == epoch) {
            return (self.named(uid.clone()), None);
        }
        match exec::request::identity(&connection.client).await {
            Ok(uid) => {
                *known = Some((epoch, uid.clone()));
                (self.named(uid), None)
            }
            Err(why) => (self.named(String::new()), Some(why)),
        }
    }

    /// The runs of the journal that were, or may have been, carried out on this cluster, oldest first; each with the reason for
    /// doubt, if any. Reads only what is new in the journal. Empty where there is no journal or it cannot be read.
    pub async fn runs(&self) -> Vec<(Run, Option<String>)> {
        let Some(journal) = &self.journal else {
            return Vec::new();
        };
        let asked = tokio::time::timeout(PROMPT, self.cluster()).await;
        let late = || (self.named(String::new()), Some("no answer yet".to_owned()));
        let (here, why) = asked.unwrap_or_else(|_| late());
        let mut runs = self.runs.lock().await;
        let Ok(all) = runs.look(journal) else {
            return Vec::new();
        };
        all.iter()
            .filter_map(|run| match run.cluster.compare(&here) {
                Same::Yes => Some((run.clone(), None)),
                Same::ByAddress => Some((run.clone(), Some(doubt(why.as_deref())))),
                Same::No => None,
            })
            .collect()
    }

    /// Why it is uncertain that a run was carried out on this cluster; `None` where it is certain.
    ///
    /// # Errors
    /// There is no such run, or it was carried out on another cluster.
    pub async fn identity_warning(&self, run: &str) -> Result<Option<String>, Failure> {
        let past = exec::run::find(self.journal()?, run)?;
        let (here, why) = self.cluster().await;
        match past.cluster.compare(&here) {
            Same::Yes => Ok(None),
            Same::ByAddress => Ok(Some(doubt(why.as_deref()))),
            Same::No => Err(Failure::new(
                Exit::Refused,
                format!("{run} ran on {}, but this cluster is {here}", past.cluster),
            )),
        }
    }

    /// Those of `rights` that the server says we lack.
    pub async fn missing(&self, rights: &[Right]) -> Vec<Right> {
        exec::request::missing(&self.connection.client, rights).await
    }

    /// The plan that holds a job or queue; `namespace` applies where the name has none.
    ///
    /// # Errors
    /// It does not exist, is on hold already, or cannot be put on hold.
    pub async fn hold(&self, namespace: Option<&str>, name: &str) -> Result<Plan, Unseen> {
        let found = self.target(namespace, name).await?;
        Ok(hold::plan(&found, name, self.now())?)
    }

    /// The plan that resumes a job or queue that is on hold.
    ///
    /// # Errors
    /// It does not exist, is not on hold, or cannot be resumed.
    pub async fn resume(&self, namespace: Option<&str>, name: &str) -> Result<Plan, Unseen> {
        let found = self.target(namespace, name).await?;
        Ok(resume::plan(&found, name, self.now())?)
    }

    /// The plan that changes the priority of a job to a number or to the name of a priority class.
    ///
    /// # Errors
    /// The job does not exist, is a queue, or its priority cannot be changed.
    pub async fn reprioritise(
        &self,
        namespace: Option<&str>,
        name: &str,
        priority: &str,
    ) -> Result<Plan, Unseen> {
        match self.target(namespace, name).await? {
            ActionTarget::Job(subject) => Ok(reprioritise::plan(&subject, priority, self.now())?),
            ActionTarget::Queue(queue) => {
                let sentence = format!("{} is a queue: only jobs have a priority", queue.object);
                Err(Refusal::new(RefusalCode::Unsupported, sentence).into())
            }
        }
    }

    /// The plan that sets the number of replicas of a Deployment, StatefulSet or LeaderWorkerSet.
    ///
    /// # Errors
    /// It does not exist, has no replicas, or another controller sets their number.
    pub async fn scale(
        &self,
        namespace: Option<&str>,
        name: &str,
        replicas: u32,
    ) -> Result<Plan, Unseen> {
        let own = namespace.unwrap_or(&self.connection.namespace);
        let looker = Looker::new(self.connection.client.clone(), own);
        let subject = looker.job(name).await?;
        let of = subject.top().object.namespace.clone();
        let (scalers, unseen) = match looker.autoscalers(&of).await {
            Ok(scalers) => (scalers, None),
            Err(Unseen::Failed(failure)) => (Autoscalers::default(), Some(failure.message)),
            Err(refused) => return Err(refused),
        };
        let mut plan = scale::plan(&subject, &scalers, replicas, self.now())?;
        plan.warnings.extend(
            unseen.map(|why| format!("an autoscaler may set its replicas, this is unknown: {why}")),
        );
        Ok(plan)
    }

    /// The plan that undoes a run. `elsewhere` turns the message that the run was on another cluster into the error.
    ///
    /// # Errors
    /// There is no journal or no such run in it and no job states that this run holds it, the run was undone already, or nothing
    /// in it can be undone.
    pub async fn undo(
        &self,
        run: &str,
        facts: Option<&Facts>,
        elsewhere: impl FnOnce(String) -> Unseen,
    ) -> Result<Plan, Unseen> {
        let journal = self.journal().map_err(Unseen::Failed)?;
        let past = match exec::run::find(journal, run) {
            Ok(past) => past,
            Err(broken) => match facts.and_then(|facts| picture_plans::end_holds(facts, run)) {
                Some(plan) => return Ok(plan?),
                None => return Err(Unseen::Failed(broken.into())),
            },
        };
        let doubt = match self.identity_warning(run).await {
            Ok(doubt) => doubt,
            Err(failure) if failure.exit == Exit::Refused => {
                return Err(elsewhere(failure.message));
            }
            Err(failure) => return Err(Unseen::Failed(failure)),
        };
        let pages = journal.read();
        let pages = pages.map_err(|fault| Unseen::Failed(exec::RunError::from(fault).into()))?;
        if let Some(undo) = exec::undone_by(&exec::runs(&pages), run) {
            let sentence = format!("{run} was already undone by {}", undo.name);
            return Err(Refusal::new(RefusalCode::AlreadySo, sentence).into());
        }
        if journal.is_running(run) {
            let sentence = format!("{run} is under way: wait for its end or stop it, then undo it");
            return Err(Refusal::new(RefusalCode::IllegalState, sentence).into());
        }
        let mut plan = past.undo(self.now())?;
        plan.warnings.extend(doubt);
        Ok(plan)
    }

    /// The plan for an intent, from the latest snapshot and from the objects as they are read now; `known` as for [`plan::plan_again`].
    ///
    /// # Errors
    /// The plan is refused, or what it needs cannot be read.
    pub async fn plan(
        &self,
        intent: &Intent,
        known: &KnownVictims,
        facts: Option<&Facts>,
    ) -> Result<Plan, Unseen> {
        let mut plan = match intent {
            Intent::Hold { target } => self.hold(None, target).await?,
            Intent::Resume { target } => self.resume(None, target).await?,
            Intent::Reprioritise { job, priority } => {
                self.reprioritise(None, &job.to_string(), priority).await?
            }
            Intent::Scale { target, replicas } => self.scale(None, target, *replicas).await?,
            _ => {
                let facts = facts.ok_or_else(no_picture)?;
                let author = Author {
                    by: self.user().await,
                    ..Author::default()
                };
                return blocking(|| plan_on(facts, intent, known, &author));
            }
        };
        if let Some(facts) = facts {
            blocking(|| {
                plan::add_forecast(&live::snapshot(&facts.fleet, &facts.spend_rates), &mut plan);
            });
        }
        Ok(plan)
    }

    /// Runs the checks of a plan that are possible before it is confirmed.
    pub async fn check(&self, plan: &mut Plan) {
        let probe = self
            .right
            .as_ref()
            .ok()
            .map(|(grant, client)| Probe::new(grant, client.clone()));
        plan.checks = checks(plan, &self.connection.client, probe.as_ref()).await;
    }

    /// Approves a plan.
    ///
    /// # Errors
    /// There is no grant, or the plan is not confirmed.
    pub fn approve(&self, plan: Plan, consent: Confirmation) -> Result<Approved, Failure> {
        let grant = self
            .grant()
            .map_err(|denied| Failure::new(Exit::Refused, denied.to_string()))?;
        grant
            .approve(plan, consent)
            .map_err(|error| Failure::new(Exit::Refused, error.to_string()))
    }

    /// Carries out an approved plan. Progress goes to `progress`; when `stop` turns true, the run stops after the current step.
    ///
    /// # Errors
    /// The journal cannot be written, or the run is refused.
    pub async fn carry_out(
        &self,
        approved: &Approved,
        progress: watch::Sender<Option<Progress>>,
        stop: watch::Receiver<bool>,
    ) -> Result<RunOutcome, Failure> {
        let run = name_of_run((self.clock)());
        let end = self
            .with_context(&run, progress, stop, async |context, _| {
                context.carry_out(approved, &run).await
            })
            .await?;
        Ok(self.outcome(&run, approved.plan(), end).await)
    }

    /// Resumes a run that was stopped, or whose process has ended.
    ///
    /// # Errors
    /// As [`RunContext::resume_run`].
    pub async fn resume_run(
        &self,
        run: &str,
        progress: watch::Sender<Option<Progress>>,
        stop: watch::Receiver<bool>,
    ) -> Result<RunOutcome, Failure> {
        let end = self
            .with_context(run, progress, stop, async |context, grant| {
                context.resume_run(grant, run).await
            })
            .await?;
        let past = exec::run::find(self.journal()?, run)?;
        Ok(self.outcome(run, &past.plan, end).await)
    }

    /// The outcome of a run. What is not as planned is added to the journal.
    async fn outcome(&self, run: &str, plan: &Plan, end: RunEnd) -> RunOutcome {
        let aftermath = match end {
            RunEnd::Done => {
                run_outcome::of(plan, &self.connection.client, self.look.as_ref()).await
            }
            _ => None,
        };
        if let Some(record) = &aftermath
            && let Ok(journal) = self.journal()
            && let Err(fault) = journal
                .open(run, (self.clock)())
                .and_then(|mut pen| pen.write((self.clock)(), record.clone()))
        {
            tracing::warn!(%fault, "the result of the run is not written to the journal");
        }
        RunOutcome {
            run: run.to_owned(),
            end,
            aftermath,
        }
    }

    async fn with_context<F>(
        &self,
        run: &str,
        progress: watch::Sender<Option<Progress>>,
        stop: watch::Receiver<bool>,
        act: F,
    ) -> Result<RunEnd, Failure>
    where
        F: AsyncFnOnce(RunContext<'_>, &Grant) -> Result<RunEnd, RunError>,
    {
        let (grant, client) = self
            .right
            .as_ref()
            .map_err(|denied| Failure::new(Exit::Refused, denied.to_string()))?;
        let journal = self.journal.as_ref().ok_or_else(no_home)?;
        let runs = self.own_runs.as_ref();
        let _own = runs.map(|(runs, flags)| runs.begin(run, flags.clone()));
        let writer = Writer::new(grant, client.clone());
        let context = RunContext {
            writer: &writer,
            journal,
            local: self.local.clone(),
            clock: &*self.clock,
            progress,
            stop,
        };
        Ok(act(context, grant).await?)
    }
}

/// Warning that the cluster was identified by less than its UID.
fn doubt(why: Option<&str>) -> String {
    let why = why.unwrap_or("the run's record does not name it");
    format!(
        "the run's cluster is identified by context and address only: the UID of namespace kube-system is unknown ({why})"
    )
}

/// Channels for a run without an observer: progress is dropped, and it is never stopped.
pub fn unwatched() -> (watch::Sender<Option<Progress>>, watch::Receiver<bool>) {
    (watch::Sender::new(None), watch::channel(false).1)
}
