//! The composition root of acting: the one place where settings become a grant, and a grant a writer.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};

use cluster::mutations::Right;
use engine::live;
use exec::govern::GovernWriter;
use exec::look::Unseen;
use exec::{
    self, Cluster, End, Journal, Looker, Probe, Progress, Run, RunContext, RunError, Runs, Same,
    Writer, WritingClient, checks, name_of_run,
};
use model::base::{Exit, Failure, Moment};
use model::fleet::scaling::PodScaler;
use model::plan::{Intent, Known, Plan, Refusal, RefusalCode};
use plan::grant::{Approved, Confirmation, Denied, Grant};
use plan::{self, ActionTarget, Author, hold, reprioritise, resume, scale};
use settings::Settings;
use sim;
use source::client::{self, Connection};
use source::kubeconfig::Choice;
use table::actions::opens_faulty;
use table::{self, Facts};

use super::action_task::no_picture;
use super::aftermath::{self, FleetLook, Outcome};
use super::clock;
use super::journal_place::{journal, no_home};
use super::kubectl::{Kubectl, NO_CONTAINERS};

/// How long a list of runs waits to be told which cluster this is.
const PROMPT: Duration = Duration::from_secs(5);

/// A cluster to act on, with the right to write to it where the settings grant one.
pub struct ActionService {
    connection: Connection,
    right: Result<(Grant, WritingClient), Denied>,
    /// What opens shells and port-forwards; `None` on a simulated cluster, which has no containers.
    kubectl: Option<Kubectl>,
    journal: Option<Journal>,
    /// The cluster's identity, and which server gave it.
    identity: Mutex<Option<(u64, String)>>,
    /// What the journal was last seen to say.
    runs: Mutex<Runs>,
    /// Looks whether what was started runs.
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
    pub fn open(settings: &Settings, choice: Choice, interactive: bool) -> Result<Self, Failure> {
        let usage =
            |fault: source::kubeconfig::ConfigFault| Failure::new(Exit::Usage, fault.to_string());
        let connection =
            client::connect(choice.clone(), clock::shared(), [], interactive).map_err(usage)?;
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
            journal: journal(settings),
            identity: Mutex::default(),
            runs: Mutex::default(),
            look: None,
        })
    }

    /// The simulated cluster in this process: it is ours, so writing is granted unless somebody says otherwise.
    pub fn on_simulated(settings: &Settings, context: &str, service: sim::Service) -> Self {
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
            journal: journal(settings),
            identity: Mutex::default(),
            runs: Mutex::default(),
            look: None,
        }
    }

    /// The same, which looks at the fleet by `look` whether a job that it started runs.
    #[must_use]
    pub fn looking(mut self, look: FleetLook) -> Self {
        self.look = Some(look);
        self
    }

    /// What opens shells and port-forwards.
    ///
    /// # Errors
    /// Nothing grants it, or the cluster is a simulated one.
    pub fn kubectl(&self) -> Result<&Kubectl, String> {
        self.grant().map_err(ToString::to_string)?;
        self.kubectl
            .as_ref()
            .ok_or_else(|| NO_CONTAINERS.to_owned())
    }

    /// What writes for `govern`.
    ///
    /// # Errors
    /// Nothing grants writing.
    pub fn governor(&self) -> Result<GovernWriter, Failure> {
        match &self.right {
            Ok((grant, client)) => Ok(GovernWriter::new(grant, client.clone())),
            Err(denied) => {
                let message = format!("{denied}; `govern --observe` writes nothing");
                Err(Failure::new(Exit::Refused, message))
            }
        }
    }

    /// The grant, or why there is none.
    ///
    /// # Errors
    /// What says so.
    pub fn grant(&self) -> Result<&Grant, &Denied> {
        self.right.as_ref().map(|(grant, _)| grant)
    }

    /// Name of the context.
    pub fn context(&self) -> &str {
        &self.connection.context
    }

    /// The server's clock.
    pub fn now(&self) -> Moment {
        self.connection.stats.now()
    }

    /// What reads the objects that an action is about.
    pub fn looker(&self) -> Looker {
        let connection = &self.connection;
        Looker::new(connection.client.clone(), connection.namespace.clone())
    }

    /// The job or queue of this name, in `namespace` where it says none.
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

    /// The namespace of names that come without.
    pub fn namespace(&self) -> &str {
        &self.connection.namespace
    }

    /// Who the server takes us for; the name on this machine where it does not say.
    pub async fn user(&self) -> String {
        match &self.right {
            Ok((grant, client)) => {
                let told = Writer::new(grant, client.clone()).user().await;
                if told.is_empty() { local_name() } else { told }
            }
            Err(_) => local_name(),
        }
    }

    /// Writes into a plan the versions that the cluster serves, where the plan leaves them open.
    pub async fn settle(&self, plan: &mut Plan) {
        self.looker().settle(plan).await;
    }

    /// The journal.
    ///
    /// # Errors
    /// There is no home to keep it in.
    pub fn journal(&self) -> Result<&Journal, Failure> {
        self.journal.as_ref().ok_or_else(no_home)
    }

    fn named(&self, uid: String) -> Cluster {
        Cluster {
            context: self.connection.context.to_string(),
            server: self.connection.server.clone(),
            uid,
        }
    }

    /// Which cluster this is. Where its identity may not be read, and why that is.
    pub async fn cluster(&self) -> (Cluster, Option<String>) {
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

    /// The runs of the journal that are about this cluster, or may be, oldest first; each with what is not known of that.
    /// Only what is new in the journal is read. None where there is no journal, or it cannot be read.
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

    /// What is not known of whether a run was carried out on this cluster; `None` where it was.
    ///
    /// # Errors
    /// There is no such run, or it was carried out on another cluster.
    pub async fn doubt(&self, run: &str) -> Result<Option<String>, Failure> {
        let past = exec::run::find(self.journal()?, run)?;
        let (here, why) = self.cluster().await;
        match past.cluster.compare(&here) {
            Same::Yes => Ok(None),
            Same::ByAddress => Ok(Some(doubt(why.as_deref()))),
            Same::No => Err(Failure::new(
                Exit::Refused,
                format!(
                    "{run} was carried out on {}, and this is {here}",
                    past.cluster
                ),
            )),
        }
    }

    /// Those of these rights that the server says we lack.
    pub async fn missing(&self, rights: &[Right]) -> Vec<Right> {
        exec::request::missing(&self.connection.client, rights).await
    }

    /// The plan that holds a job or queue of this name, in `namespace` where it says none.
    ///
    /// # Errors
    /// It is not there, is held already, or has no such lever.
    pub async fn hold(&self, namespace: Option<&str>, name: &str) -> Result<Plan, Unseen> {
        let found = self.target(namespace, name).await?;
        Ok(hold::plan(&found, name, self.now())?)
    }

    /// The plan that lets a held one go on.
    ///
    /// # Errors
    /// It is not there, is not held, or has no such lever.
    pub async fn resume(&self, namespace: Option<&str>, name: &str) -> Result<Plan, Unseen> {
        let found = self.target(namespace, name).await?;
        Ok(resume::plan(&found, name, self.now())?)
    }

    /// The plan that gives a job another priority: a number, or the name of a class.
    ///
    /// # Errors
    /// It is not there, is a queue, or nothing can change its priority.
    pub async fn reprioritise(
        &self,
        namespace: Option<&str>,
        name: &str,
        priority: &str,
    ) -> Result<Plan, Unseen> {
        match self.target(namespace, name).await? {
            ActionTarget::Job(subject) => Ok(reprioritise::plan(&subject, priority, self.now())?),
            ActionTarget::Queue(queue) => {
                let sentence = format!("{} is a queue; a priority is a job's", queue.object);
                Err(Refusal::new(RefusalCode::Unsupported, sentence).into())
            }
        }
    }

    /// The plan that sets the number of replicas of a Deployment, StatefulSet or LeaderWorkerSet.
    ///
    /// # Errors
    /// It is not there, has no replicas, or something else sets their number.
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
        let (scalers, unseen) = match looker.pod_scalers(&of).await {
            Ok(scalers) => (scalers, None),
            Err(Unseen::Failed(failure)) => (Vec::new(), Some(failure.message)),
            Err(refused) => return Err(refused),
        };
        let mut plan = scale::plan(&subject, &scalers, replicas, self.now())?;
        plan.warnings.extend(unseen.map(|why| {
            format!("whether a HorizontalPodAutoscaler sets its replicas is not known: {why}")
        }));
        Ok(plan)
    }

    /// The plan that takes back what a run did; `elsewhere` makes the refusal out of the words that it was on another
    /// cluster.
    ///
    /// # Errors
    /// There is no journal, no such run in it, it was taken back already, or nothing of it can be taken back.
    pub async fn undo(
        &self,
        run: &str,
        elsewhere: impl FnOnce(String) -> Unseen,
    ) -> Result<Plan, Unseen> {
        let journal = self.journal().map_err(Unseen::Failed)?;
        let past = exec::run::find(journal, run).map_err(|broken| Unseen::Failed(broken.into()))?;
        let doubt = match self.doubt(run).await {
            Ok(doubt) => doubt,
            Err(failure) if failure.exit == Exit::Refused => {
                return Err(elsewhere(failure.message));
            }
            Err(failure) => return Err(Unseen::Failed(failure)),
        };
        let pages = journal.read();
        let pages = pages.map_err(|fault| Unseen::Failed(exec::RunError::from(fault).into()))?;
        if let Some(undo) = exec::undone_by(&exec::runs(&pages), run) {
            let sentence = format!("{run} was undone by {} already", undo.name);
            return Err(Refusal::new(RefusalCode::AlreadySo, sentence).into());
        }
        let mut plan = past.undo(self.now())?;
        plan.warnings.extend(doubt);
        Ok(plan)
    }

    /// The plan for an intent, on the latest picture and on the objects as they are read now; `known` as for [`plan::plan_again`].
    ///
    /// # Errors
    /// Why there is none.
    pub async fn plan(
        &self,
        intent: &Intent,
        known: &Known,
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
                return plan_on(facts, intent, known, &author);
            }
        };
        if let Some(facts) = facts {
            plan::foretell(&live::snapshot(&facts.fleet, &facts.burn), &mut plan);
        }
        Ok(plan)
    }

    /// Fills in what can be checked of a plan before it is confirmed.
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

    /// Carries out an approved plan. Progress goes to `progress`; `stop` turned true stops it after a step.
    ///
    /// # Errors
    /// The journal cannot be written, or it is refused.
    pub async fn carry_out(
        &self,
        approved: &Approved,
        progress: watch::Sender<Option<Progress>>,
        stop: watch::Receiver<bool>,
    ) -> Result<Outcome, Failure> {
        let run = name_of_run(clock::now());
        let end = self
            .with_hands(progress, stop, async |hands, _| {
                hands.carry_out(approved, &run).await
            })
            .await?;
        Ok(self.outcome(&run, approved.plan(), end).await)
    }

    /// Takes up a run that was stopped, or whose process has ended.
    ///
    /// # Errors
    /// As [`RunContext::take_up`].
    pub async fn take_up(
        &self,
        run: &str,
        progress: watch::Sender<Option<Progress>>,
        stop: watch::Receiver<bool>,
    ) -> Result<Outcome, Failure> {
        let end = self
            .with_hands(progress, stop, async |hands, grant| {
                hands.take_up(grant, run).await
            })
            .await?;
        let past = exec::run::find(self.journal()?, run)?;
        Ok(self.outcome(run, &past.plan, end).await)
    }

    /// How a run ended, with what is not as it was to be, which the journal keeps.
    async fn outcome(&self, run: &str, plan: &Plan, end: End) -> Outcome {
        let aftermath = match end {
            End::Done => aftermath::of(plan, &self.connection.client, self.look.as_ref()).await,
            _ => None,
        };
        if let Some(record) = &aftermath
            && let Ok(journal) = self.journal()
            && let Err(fault) = journal
                .open(run, clock::now())
                .and_then(|mut pen| pen.write(clock::now(), record.clone()))
        {
            tracing::warn!(%fault, "what is not as the plan meant it is not written down");
        }
        Outcome {
            run: run.to_owned(),
            end,
            aftermath,
        }
    }

    async fn with_hands<F>(
        &self,
        progress: watch::Sender<Option<Progress>>,
        stop: watch::Receiver<bool>,
        act: F,
    ) -> Result<End, Failure>
    where
        F: AsyncFnOnce(RunContext<'_>, &Grant) -> Result<End, RunError>,
    {
        let (grant, client) = self
            .right
            .as_ref()
            .map_err(|denied| Failure::new(Exit::Refused, denied.to_string()))?;
        let journal = self.journal.as_ref().ok_or_else(no_home)?;
        let writer = Writer::new(grant, client.clone());
        let hands = RunContext {
            writer: &writer,
            journal,
            local: local_name(),
            clock: &clock::now,
            progress,
            stop,
        };
        Ok(act(hands, grant).await?)
    }
}

/// The plan of an intent that needs the picture of the fleet alone, with what is not known said in it; `known` as for
/// [`plan::plan_again`].
///
/// # Errors
/// It is refused, or what it needs of the fleet is not known.
pub(super) fn plan_on(
    facts: &Facts,
    intent: &Intent,
    known: &Known,
    author: &Author,
) -> Result<Plan, Unseen> {
    let gaps = table::gaps(facts).map_err(Unseen::Failed)?;
    let fleet = live::snapshot(&facts.fleet, &facts.burn);
    scale::check_owner(&fleet, intent, pod_scalers(facts))?;
    let mut plan = plan::plan_again(&fleet, intent, author, known)?;
    plan.warnings.extend(gaps);
    let faulty = opens_faulty(&facts.fleet.findings, &plan);
    plan.warnings.extend(faulty);
    Ok(plan)
}

/// The HorizontalPodAutoscalers of the fleet.
pub fn pod_scalers(facts: &Facts) -> impl Iterator<Item = &PodScaler> {
    let all = facts.fleet.scaling.pod_scalers.iter();
    all.map(|scaler| &**scaler)
}

/// That two clusters were told apart by less than their identity.
fn doubt(why: Option<&str>) -> String {
    let why = why.unwrap_or("the run's record does not name it");
    format!(
        "that it is the cluster of this run is judged by its context and address alone: the UID of namespace kube-system is not known ({why})"
    )
}

/// Our name on this machine, as far as the environment says.
fn local_name() -> String {
    ["USER", "LOGNAME", "USERNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

/// A progress that nobody looks at, and a stop that never comes.
pub fn unwatched() -> (watch::Sender<Option<Progress>>, watch::Receiver<bool>) {
    (watch::Sender::new(None), watch::channel(false).1)
}

/// Runs `work`; the first interrupt asks it to stop after its step, the second one ends it where it stands.
///
/// # Errors
/// Those of the work; interrupted twice.
pub async fn interruptible<T>(
    stop: watch::Sender<bool>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        end = &mut work => return end,
        heard = tokio::signal::ctrl_c() => if heard.is_err() {
            return work.await;
        }
    }
    stop.send_replace(true);
    tokio::select! {
        end = &mut work => end,
        _ = tokio::signal::ctrl_c() => Err(Failure::quiet(Exit::Interrupted)),
    }
}
