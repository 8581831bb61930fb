//! The hands behind the console: plans are made and carried out off every loop, and the journal is read for what was
//! done. Without a grant nothing here can write.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

use cluster::levers::Right;
use console::deeds::{Ask, Made, Order};
use exec::look::Unseen;
use exec::{self, End, Over, Progress, Run};
use model::base::{Exit, Failure};
use model::plan::{Intent, Plan, Refusal, RefusalCode};
use table::Facts;
use table::acts::{Acts, May, RunRow, RunState, Stand, StepRow};

use super::acting::{Acting, Outcome};

/// Pieces of news that may wait for the screen.
const BACKLOG: usize = 32;

/// Runs that are shown, the latest.
const SHOWN: usize = 200;

/// What comes of deeds.
#[derive(Debug)]
pub enum Deed {
    /// What may be done, and what was done.
    Acts(Arc<Acts>),
    /// A plan, or why there is none.
    Made(u64, Made),
    /// How a run began.
    Began(u64, Result<String, String>),
}

/// A run that this console carries out: its stop, and where it says how far it is.
struct Running {
    stop: watch::Sender<bool>,
    progress: watch::Receiver<Option<Progress>>,
}

/// The hands of one session.
pub struct Deeds {
    acting: Arc<Acting>,
    facts: watch::Receiver<Option<Arc<Facts>>>,
    out: mpsc::Sender<Deed>,
    news: mpsc::Receiver<Deed>,
    running: Vec<Running>,
    /// Dropped with the session: what is carried out then is left where it stands, and can be taken up again.
    gone: watch::Sender<()>,
}

impl Deeds {
    /// Hands for a cluster; looks at once what may be done and what was done. Must be called within a runtime.
    pub fn new(acting: Acting, facts: watch::Receiver<Option<Arc<Facts>>>) -> Self {
        let (out, news) = mpsc::channel(BACKLOG);
        let deeds = Self {
            acting: Arc::new(acting),
            facts,
            out,
            news,
            running: Vec::new(),
            gone: watch::Sender::new(()),
        };
        deeds.look();
        deeds
    }

    /// The next piece of news.
    pub async fn next(&mut self) -> Deed {
        match self.news.recv().await {
            Some(deed) => deed,
            None => std::future::pending().await,
        }
    }

    /// Runs work on a thread of its own, until the session ends.
    fn spawn<F, T>(&self, work: T)
    where
        F: Future<Output = ()>,
        T: FnOnce() -> F + Send + 'static,
    {
        let mut gone = self.gone.subscribe();
        let handle = Handle::current();
        tokio::task::spawn_blocking(move || {
            handle.block_on(async move {
                tokio::select! {
                    () = work() => {}
                    _ = gone.changed() => {}
                }
            });
        });
    }

    /// Looks what may be done and what was done.
    pub fn look(&self) {
        let (acting, out) = (Arc::clone(&self.acting), self.out.clone());
        self.spawn(move || async move {
            let first = acts(&acting, BTreeMap::new()).await;
            let granted = first.may == May::Yes;
            let _ = out.send(Deed::Acts(Arc::new(first))).await;
            if granted {
                let lacking = lacking(&acting).await;
                if !lacking.is_empty() {
                    let _ = out
                        .send(Deed::Acts(Arc::new(acts(&acting, lacking).await)))
                        .await;
                }
            }
        });
    }

    /// Makes a plan on the latest picture.
    pub fn plan(&self, ask: Ask) {
        let (acting, out) = (Arc::clone(&self.acting), self.out.clone());
        let facts = self.facts.borrow().clone();
        self.spawn(move || async move {
            let made = match make(&acting, &ask.intent, facts.as_deref()).await {
                Ok(mut plan) => {
                    acting.settle(&mut plan).await;
                    acting.check(&mut plan).await;
                    Made::Plan(Box::new(plan))
                }
                Err(Unseen::Refused(refusal)) => Made::Refused(refusal),
                Err(Unseen::Failed(failure)) => Made::Failed(failure.message),
            };
            let _ = out.send(Deed::Made(ask.number, made)).await;
        });
    }

    /// Carries out a confirmed plan.
    pub fn carry_out(&mut self, order: Order) {
        let (number, plan, consent) = (order.number, order.plan, order.consent);
        self.run(number, async move |acting, progress, stop| {
            let approved = acting.approve(plan, consent)?;
            whole(acting.carry_out(&approved, progress, stop).await?)
        });
    }

    /// Goes on with a run that stands.
    pub fn go_on(&mut self, run: String) {
        self.run(0, async move |acting, progress, stop| {
            whole(acting.take_up(&run, progress, stop).await?)
        });
    }

    fn run<W>(&mut self, number: u64, work: W)
    where
        W: AsyncFnOnce(
                &Acting,
                watch::Sender<Option<Progress>>,
                watch::Receiver<bool>,
            ) -> Result<(), Failure>
            + Send
            + 'static,
    {
        let (progress, seen) = watch::channel(None);
        let (stop, stopped) = watch::channel(false);
        self.running.retain(|run| !run.is_over());
        self.running.push(Running {
            stop,
            progress: seen.clone(),
        });
        let (acting, out) = (Arc::clone(&self.acting), self.out.clone());
        self.spawn(move || async move {
            let mut seen = seen;
            let told = async {
                let mut begun = false;
                while seen.changed().await.is_ok() {
                    let run = seen.borrow_and_update().as_ref().map(|it| it.run.clone());
                    if let Some(run) = run
                        && !std::mem::replace(&mut begun, true)
                    {
                        let _ = out.send(Deed::Began(number, Ok(run))).await;
                    }
                    let _ = out
                        .send(Deed::Acts(Arc::new(acts(&acting, BTreeMap::new()).await)))
                        .await;
                }
            };
            let (end, ()) = tokio::join!(work(&acting, progress, stopped), told);
            if let Err(failure) = end {
                let _ = out.send(Deed::Began(number, Err(failure.message))).await;
            }
            let _ = out
                .send(Deed::Acts(Arc::new(acts(&acting, BTreeMap::new()).await)))
                .await;
        });
    }

    /// Stops a run of this console after its current step; false when it is not one of ours.
    pub fn stop(&self, run: &str) -> bool {
        let is = |running: &&Running| {
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

impl Running {
    fn is_over(&self) -> bool {
        let progress = self.progress.borrow();
        progress.as_ref().is_some_and(|it| it.end.is_some())
    }
}

/// Tells of what a run left behind.
fn whole(outcome: Outcome) -> Result<(), Failure> {
    match outcome.undone() {
        Some(words) => Err(Failure::new(Exit::Failed, words)),
        None => Ok(()),
    }
}

/// Makes a plan: what the whole fleet is needed for on the picture, the rest on the objects as they are read now.
async fn make(acting: &Acting, intent: &Intent, facts: Option<&Facts>) -> Result<Plan, Unseen> {
    if let Intent::Undo { run } = intent {
        let elsewhere = |sentence| Refusal::new(RefusalCode::NotFound, sentence).into();
        return acting.undo(run, elsewhere).await;
    }
    acting.plan(intent, facts).await
}

/// What may be done, and the runs on this cluster.
async fn acts(acting: &Acting, lacking: BTreeMap<&'static str, String>) -> Acts {
    let may = match acting.grant() {
        Ok(_) => May::Yes,
        Err(denied) => May::No {
            short: denied.short.to_owned(),
            sentence: denied.sentence.clone(),
        },
    };
    let journal = acting.journal().ok();
    let (all, doubts): (Vec<Run>, Vec<Option<String>>) = acting.runs().await.into_iter().unzip();
    let latest = all.iter().zip(doubts).rev().take(SHOWN);
    let runs = latest
        .map(|(run, doubt)| {
            // Only a run without an end may still be carried out.
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
    Acts { may, lacking, runs }
}

fn row(run: &Run, running: bool, undo: Option<&Run>) -> RunRow {
    let (state, words) = match (&run.end, undo) {
        (Some(_), Some(undo)) => (RunState::Undone, format!("taken back by {}", undo.name)),
        (Some(End::Done), None) => match run.undone() {
            Some(words) => (RunState::Incomplete, words),
            None => (RunState::Done, String::new()),
        },
        (Some(End::Stopped), None) => (RunState::Stopped, String::new()),
        (Some(End::Failed { step, words }), None) => {
            (RunState::Failed, format!("step {step} failed: {words}"))
        }
        (None, _) if running => (RunState::Running, String::new()),
        (None, Some(undo)) => (RunState::Undone, format!("taken back by {}", undo.name)),
        (None, None) => (RunState::BrokenOff, String::new()),
    };
    let steps = run.steps.iter().zip(&run.plan.steps);
    RunRow {
        name: run.name.clone(),
        title: run.plan.title.clone(),
        begun: run.begun,
        by: run.who.name().to_owned(),
        reason: run.reason.clone(),
        state,
        words,
        steps: steps
            .map(|(trace, step)| StepRow {
                words: step.to_string(),
                stand: match trace.over {
                    Some(Over::Done) => Stand::Done,
                    Some(Over::Already) => Stand::Already,
                    Some(Over::Left) => Stand::Left,
                    Some(Over::Failed) => Stand::Failed,
                    None if trace.is_unresolved() => Stand::Unresolved,
                    None if trace.has_written() || !trace.words.is_empty() => Stand::Waiting,
                    None => Stand::Todo,
                },
                note: match trace.over {
                    Some(Over::Done) => String::new(),
                    _ => trace.words.clone(),
                },
            })
            .collect(),
    }
}

/// A verb on a resource that a command cannot do without.
type Need = (&'static str, &'static str, &'static str, &'static str);

/// The rights without which a command can do nothing anywhere; any one of a row suffices.
const NEEDS: &[(&[&str], &[Need])] = &[
    (&["cordon"], &[("patch", "", "nodes", "")]),
    (&["drain"], &[("create", "", "pods", "eviction")]),
    (
        &["hold", "preempt", "requeue", "start", "priority"],
        &[
            ("patch", "batch", "jobs", ""),
            ("patch", "kueue.x-k8s.io", "workloads", ""),
        ],
    ),
];

/// What is missing for each command, by the server's access reviews.
async fn lacking(acting: &Acting) -> BTreeMap<&'static str, String> {
    let mut out = BTreeMap::new();
    for (commands, needs) in NEEDS {
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
        let missing = acting.missing(&rights).await;
        if missing.len() == rights.len()
            && let Some(first) = missing.first()
        {
            for command in *commands {
                out.insert(*command, first.to_string());
            }
        }
    }
    out
}

/// That a plan needs the fleet, and there is none yet.
pub(super) fn no_picture() -> Unseen {
    let message = "the fleet has not been read yet";
    Unseen::Failed(Failure::new(Exit::Unreachable, message))
}
