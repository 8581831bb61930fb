//! What is not as a plan meant it to be although every step of its run is over: pods that a drain has left behind, a job that it
//! started and that does not run.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;

use exec::End;
use exec::record::Record;
use model::plan::{Intent, JobName, Plan};
use table::Facts;
use table::actions::not_started;

/// How long what a plan asked for may take after its last step: a queue tells pods to end, a scheduler places new ones.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked at meanwhile.
const AGAIN: Duration = Duration::from_secs(1);

/// Reads the fleet as it is now; `None` where that cannot be done.
pub type FleetLook =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Option<Arc<Facts>>>>> + Send + Sync>;

/// What was carried out: the run's name and how it ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The run.
    pub run: String,
    /// How it ended.
    pub end: End,
    /// What is not as it was to be, for the journal; `None` where all of it is.
    pub aftermath: Option<Record>,
}

impl Outcome {
    /// What is not as it was to be, and what to do about it; `None` where there is nothing.
    pub fn undone(&self) -> Option<String> {
        let record = self.aftermath.as_ref()?;
        let words = exec::history::aftermath_words(record)?;
        Some(format!("every step is done, but {words}"))
    }

    /// Pods that a drain has left behind, as `NAMESPACE/NAME on NODE`.
    pub fn left(&self) -> &[String] {
        match &self.aftermath {
            Some(Record::Behind { pods, .. }) => pods,
            _ => &[],
        }
    }
}

/// What a run that is over has left to be said; `None` for a plan of which nothing can be.
pub async fn of(plan: &Plan, client: &Client, look: Option<&FleetLook>) -> Option<Record> {
    match &plan.intent {
        Intent::Drain { .. } => Some(behind(plan, client).await),
        Intent::Admit { job, .. } => unstarted(job, look?).await,
        _ => None,
    }
}

async fn behind(plan: &Plan, client: &Client) -> Record {
    let look = || exec::behind::left_behind(client, plan);
    let mut left = look().await;
    for _ in 0..10 {
        if matches!(&left, Ok(left) if left.is_empty()) {
            break;
        }
        tokio::time::sleep(AGAIN).await;
        left = look().await;
    }
    Record::Behind {
        pods: left.clone().unwrap_or_default(),
        unknown: left.err().unwrap_or_default(),
    }
}

async fn unstarted(job: &JobName, look: &FleetLook) -> Option<Record> {
    let begun = tokio::time::Instant::now();
    loop {
        let why = match look().await {
            Some(facts) => not_started(&facts.fleet, job)?,
            None => String::from("the fleet could not be read: whether it runs is not known"),
        };
        if begun.elapsed() >= PATIENCE {
            let job = job.to_string();
            return Some(Record::NotStarted { job, why });
        }
        tokio::time::sleep(AGAIN).await;
    }
}
