//! Aftermath of a run: what is not as the plan intended although every step is done, such as pods left on a drained node or a job
//! that does not start.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;

use exec::RunEnd;
use exec::record::Record;
use model::plan::{Intent, JobName, Plan};
use table::Facts;
use table::actions::not_started;

/// How long the effects of a plan may take after its last step: a queue ends pods, a scheduler places new ones.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often the effects are checked meanwhile.
const AGAIN: Duration = Duration::from_secs(1);

/// Reads the current facts of the fleet; `None` where they cannot be read.
pub type FleetLook =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Option<Arc<Facts>>> + Send>> + Send + Sync>;

/// Outcome of a run: its name and how it ended.
#[derive(Clone, PartialEq, Debug)]
pub struct RunOutcome {
    pub run: String,
    pub end: RunEnd,
    /// What is not as planned, for the journal; `None` where everything is.
    pub aftermath: Option<Record>,
}

impl RunOutcome {
    /// What is not as planned, and what to do about it; `None` where everything is.
    pub fn unmet(&self) -> Option<String> {
        let record = self.aftermath.as_ref()?;
        let words = exec::history::aftermath_words(record)?;
        Some(format!("all steps are done, but {words}"))
    }

    /// Pods that a drain left on its nodes, as `NAMESPACE/NAME on NODE`.
    pub fn left(&self) -> &[String] {
        match &self.aftermath {
            Some(Record::Behind { pods, .. }) => pods,
            _ => &[],
        }
    }
}

/// The aftermath of a finished run; `None` for intents that have none.
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
            None => String::from("the fleet could not be read: its state is unknown"),
        };
        if begun.elapsed() >= PATIENCE {
            let job = job.to_string();
            return Some(Record::NotStarted { job, why });
        }
        tokio::time::sleep(AGAIN).await;
    }
}
