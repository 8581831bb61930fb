//! Plans and suppositions on a moment of a record: made as on a cluster, of what was recorded alone. There is no client, so nothing can be
//! carried out.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use console::action_keys::{PlanOutcome, PlanRequest};
use exec::look::Unseen;
use model::base::{Exit, Failure};
use model::plan::{Intent, Known, Plan};
use plan::Author;
use table::Facts;
use table::actions::{ActionState, May};
use table::what_if::Supposed;

use super::action_service::plan_on;
use super::action_task::{ActionEvent, NO_PICTURE, no_picture};
use model::base::Name;

/// Why nothing can be changed in a record.
pub const RECORDED: &str = "this is a record: plans are computed, and nothing can be changed in it";

/// Makes the plans of a replay.
pub struct PastPlans {
    facts: watch::Receiver<Option<Arc<Facts>>>,
    out: mpsc::UnboundedSender<ActionEvent>,
    news: mpsc::UnboundedReceiver<ActionEvent>,
}

impl PastPlans {
    /// Plans on the picture that is shown last; tells first that nothing may be changed.
    pub fn new(facts: watch::Receiver<Option<Arc<Facts>>>) -> Self {
        let (out, news) = mpsc::unbounded_channel();
        let state = ActionState {
            may: May::No {
                short: "record".to_owned(),
                sentence: RECORDED.to_owned(),
            },
            ..ActionState::default()
        };
        // The receiver is this one's own.
        let _ = out.send(ActionEvent::ActionState(Arc::new(state)));
        Self { facts, out, news }
    }

    /// The next piece of news.
    pub async fn next(&mut self) -> ActionEvent {
        match self.news.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Does work off every loop.
    fn spawn(&self, work: impl FnOnce(Option<Arc<Facts>>) -> ActionEvent + Send + 'static) {
        let (out, facts) = (self.out.clone(), self.facts.borrow().clone());
        tokio::task::spawn_blocking(move || {
            // Nobody waits for it once the session has ended.
            let _ = out.send(work(facts));
        });
    }

    /// Makes a plan on the picture that is shown.
    pub fn plan(&self, ask: PlanRequest) {
        self.spawn(move |facts| {
            let made = match past_plan(facts.as_deref(), &ask.intent, &ask.known) {
                Ok(plan) => PlanOutcome::Plan(Box::new(plan)),
                Err(Unseen::Refused(refusal)) => PlanOutcome::Refused(refusal),
                Err(Unseen::Failed(failure)) => PlanOutcome::Failed(failure.message),
            };
            ActionEvent::PlanOutcome(ask.number, made)
        });
    }

    /// Computes what becomes of the picture that is shown under changes.
    pub fn suppose(&self, changes: Name) {
        self.spawn(move |facts| {
            let supposed = match facts {
                Some(facts) => Supposed::of(&facts, &changes),
                None => Supposed::Failed(NO_PICTURE.to_owned()),
            };
            ActionEvent::Supposed(changes, supposed)
        });
    }
}

/// What cannot be planned on a record: the action reads an object of the API server, or the journal.
///
/// # Errors
/// This intent is such a one.
pub fn plannable(intent: &Intent) -> Result<(), Failure> {
    let why = match intent {
        Intent::Hold { .. } | Intent::Resume { .. } | Intent::Reprioritise { .. } => {
            "hold, resume and priority read the object itself, and a record holds no manifests"
        }
        Intent::Undo { .. } => "undo and continue are about the journal, not about a record",
        _ => return Ok(()),
    };
    let message = format!(
        "{why}; drain, cordon, uncordon, preempt, requeue, admit, scale and rebalance can be planned on a record"
    );
    Err(Failure::new(Exit::Refused, message))
}

/// The plan of an intent on a picture of a record; `known` as for [`plan::plan_again`].
///
/// # Errors
/// It is refused, lacks facts, or is none that a record tells enough for.
pub fn past_plan(facts: Option<&Facts>, intent: &Intent, known: &Known) -> Result<Plan, Unseen> {
    plannable(intent).map_err(Unseen::Failed)?;
    let facts = facts.ok_or_else(no_picture)?;
    plan_on(facts, intent, known, &Author::default())
}
