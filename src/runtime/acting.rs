//! The composition root of acting: the one place where settings become a grant, and a grant a writer.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use cluster::levers::Right;
use engine::live;
use exec::look::Unseen;
use exec::{
    self, Broken, End, Hands, Journal, Looker, Probe, Progress, Writer, WritingClient, checks,
    name_of_run,
};
use model::base::{Exit, Failure, Moment};
use model::plan::{Intent, Plan, Refusal, RefusalCode};
use plan::grant::{Approved, Consent, Denied, Grant};
use plan::{self, Author, Target, hold, reprioritise, resume};
use settings::Settings;
use sim;
use source::client::{self, Connection};
use source::kubeconfig::Choice;
use table::{self, Facts};

use super::clock;
use super::deeds::no_picture;

/// A cluster to act on, with the right to write to it where the settings grant one.
pub struct Acting {
    connection: Connection,
    right: Result<(Grant, WritingClient), Denied>,
    journal: Option<Journal>,
}

/// What was carried out: the run's name and how it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The run.
    pub run: String,
    /// How it ended.
    pub end: End,
    /// Pods that a drain which is over has left behind, since they came after its plan was made; and why that is not known.
    pub left: Result<Vec<String>, String>,
}

impl Outcome {
    /// What is to be done about pods that were left behind; `None` where there are none.
    pub fn undone(&self) -> Option<String> {
        match &self.left {
            Ok(left) if left.is_empty() => None,
            Ok(left) => Some(format!(
                "every step is done, but {} there still, most likely come after the plan was made: {}; plan the drain again",
                match left.len() {
                    1 => "a pod is".to_owned(),
                    count => format!("{count} pods are"),
                },
                left.iter().take(8).cloned().collect::<Vec<_>>().join(", ")
            )),
            Err(why) => Some(format!(
                "every step is done, but whether the nodes are empty is not known: {why}"
            )),
        }
    }
}

fn journal(settings: &Settings) -> Option<Journal> {
    settings
        .journal_dir
        .clone()
        .or_else(Journal::place)
        .map(Journal::new)
}

/// The journal that the settings name, else the platform's place.
///
/// # Errors
/// There is no home to keep it in.
pub fn journal_of(settings: &Settings) -> Result<Journal, Failure> {
    journal(settings).ok_or_else(no_home)
}

fn no_home() -> Failure {
    let message = "there is no home directory to keep the journal in; set journal_dir";
    Failure::new(Exit::Failed, message)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that asks settings for a grant"
)]
impl Acting {
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
                let wire = Arc::clone(&connection.wire);
                let writing = exec::connect(&grant, choice, wire, interactive).map_err(usage)?;
                Ok((grant, writing))
            }
            Err(denied) => Err(denied),
        };
        Ok(Self {
            connection,
            right,
            journal: journal(settings),
        })
    }

    /// The simulated cluster in this process: it is ours, so writing is granted unless somebody says otherwise.
    pub fn on_simulated(settings: &Settings, context: &str, service: sim::Service) -> Self {
        let connection = client::client_for(service.clone(), context, clock::shared(), []);
        let right = Grant::from_settings(settings, &connection.context, true).map(|grant| {
            let wire = Arc::clone(&connection.wire);
            let writing = exec::client_for(&grant, service, wire);
            (grant, writing)
        });
        Self {
            connection,
            right,
            journal: journal(settings),
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
        self.connection.wire.now()
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
    pub async fn target(&self, namespace: Option<&str>, name: &str) -> Result<Target, Unseen> {
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

    /// Those of these rights that the server says we lack.
    pub async fn missing(&self, rights: &[Right]) -> Vec<Right> {
        exec::ask::missing(&self.connection.client, rights).await
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
            Target::Job(subject) => Ok(reprioritise::plan(&subject, priority, self.now())?),
            Target::Queue(queue) => {
                let sentence = format!("{} is a queue; a priority is a job's", queue.object);
                Err(Refusal::new(RefusalCode::Unsupported, sentence).into())
            }
        }
    }

    /// The plan that takes back what a run did; `elsewhere` makes the refusal out of the words that it was on another
    /// cluster.
    ///
    /// # Errors
    /// There is no journal, no such run in it, or nothing of it can be taken back.
    pub fn undo(
        &self,
        run: &str,
        elsewhere: impl FnOnce(String) -> Unseen,
    ) -> Result<Plan, Unseen> {
        let journal = self.journal().map_err(Unseen::Failed)?;
        let past = exec::run::find(journal, run).map_err(|broken| Unseen::Failed(broken.into()))?;
        if past.cluster.context != self.context() {
            return Err(elsewhere(format!(
                "{run} was carried out on {}, and this is {}",
                past.cluster.context,
                self.context()
            )));
        }
        Ok(past.undo(self.now())?)
    }

    /// The plan for an intent, on the latest picture and on the objects as they are read now.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn plan(&self, intent: &Intent, facts: Option<&Facts>) -> Result<Plan, Unseen> {
        let mut plan = match intent {
            Intent::Hold { target } => self.hold(None, target).await?,
            Intent::Resume { target } => self.resume(None, target).await?,
            Intent::Reprioritise { job, priority } => {
                self.reprioritise(None, &job.to_string(), priority).await?
            }
            _ => {
                let facts = facts.ok_or_else(no_picture)?;
                let gaps = table::gaps(facts).map_err(Unseen::Failed)?;
                let fleet = live::snapshot(&facts.fleet, &facts.burn);
                let author = Author {
                    by: self.user().await,
                    ..Author::default()
                };
                let mut plan = plan::plan(&fleet, intent, &author)?;
                plan.warnings.extend(gaps);
                return Ok(plan);
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
    pub fn approve(&self, plan: Plan, consent: Consent) -> Result<Approved, Failure> {
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
        let left = self.left(approved.plan(), &end).await;
        Ok(Outcome { run, end, left })
    }

    /// Takes up a run that was stopped, or whose process has ended.
    ///
    /// # Errors
    /// As [`Hands::take_up`].
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
        let left = self.left(&past.plan, &end).await;
        Ok(Outcome {
            run: run.to_owned(),
            end,
            left,
        })
    }

    /// What a plan that is over has left behind.
    async fn left(&self, plan: &Plan, end: &End) -> Result<Vec<String>, String> {
        if *end != End::Done {
            return Ok(Vec::new());
        }
        let look = || exec::behind::left_behind(&self.connection.client, plan);
        let mut left = look().await;
        // What a queue has evicted may take a moment to be told to end.
        for _ in 0..10 {
            if matches!(&left, Ok(left) if left.is_empty()) {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            left = look().await;
        }
        left
    }

    async fn with_hands<F>(
        &self,
        progress: watch::Sender<Option<Progress>>,
        stop: watch::Receiver<bool>,
        act: F,
    ) -> Result<End, Failure>
    where
        F: AsyncFnOnce(Hands<'_>, &Grant) -> Result<End, Broken>,
    {
        let (grant, client) = self
            .right
            .as_ref()
            .map_err(|denied| Failure::new(Exit::Refused, denied.to_string()))?;
        let journal = self.journal.as_ref().ok_or_else(no_home)?;
        let writer = Writer::new(grant, client.clone());
        let hands = Hands {
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
