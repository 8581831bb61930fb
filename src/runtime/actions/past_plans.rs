//! Plans and what-ifs on a moment of a record, from the recorded facts only. There is no client, so nothing can be carried out.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use console::action_keys::{PlanOutcome, PlanRequest};
use exec::target_reader::Unseen;
use model::base::{Exit, Failure};
use model::plan::{Intent, KnownVictims, Plan};
use plan::Author;
use plan::actions::{ACTIONS, PlannedFrom, spec_of};
use table::Facts;
use table::actions::{ActionState, May};
use table::what_if::Supposed;

use super::action_task::{ActionEvent, NO_PICTURE, no_picture};
use super::picture_plans::plan_on;
use model::base::Name;

/// Message why nothing can be changed in a record.
pub const RECORDED: &str = "this is a record: plans can be computed but not applied";

/// Message why a run cannot be undone or continued in a record.
pub const OF_JOURNAL: &str = "undo and continue use the journal and do not work on a record";

/// Makes plans on a replay.
pub struct PastPlans {
    facts: watch::Receiver<Option<Arc<Facts>>>,
    out: mpsc::UnboundedSender<ActionEvent>,
    news: mpsc::UnboundedReceiver<ActionEvent>,
}

impl PastPlans {
    /// Plans on the latest facts shown; first reports that no action is allowed.
    pub fn new(facts: watch::Receiver<Option<Arc<Facts>>>) -> Self {
        let (out, news) = mpsc::unbounded_channel();
        let state = ActionState {
            may: May::No {
                short: "record".to_owned(),
                sentence: RECORDED.to_owned(),
            },
            ..ActionState::default()
        };
        // The receiver is owned by this struct.
        let _ = out.send(ActionEvent::ActionState(Arc::new(state)));
        Self { facts, out, news }
    }

    pub async fn next(&mut self) -> ActionEvent {
        match self.news.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Runs `work` off the event loops.
    fn spawn(&self, work: impl FnOnce(Option<Arc<Facts>>) -> ActionEvent + Send + 'static) {
        let (out, facts) = (self.out.clone(), self.facts.borrow().clone());
        tokio::task::spawn_blocking(move || {
            // The receiver is gone once the session has ended.
            let _ = out.send(work(facts));
        });
    }

    /// Makes a plan on the facts shown.
    pub fn plan(&self, ask: PlanRequest) {
        self.spawn(move |facts| {
            ActionEvent::PlanOutcome(ask.number, outcome(facts.as_deref(), &ask))
        });
    }

    /// Computes the effect of changes on the facts shown (what-if).
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

/// Checks that what is planned from `source` can be planned on a record.
///
/// # Errors
/// It reads an object of the API server, or the journal.
pub fn plannable(source: PlannedFrom) -> Result<(), Failure> {
    let verbs = |of: &[PlannedFrom]| {
        let all = ACTIONS
            .iter()
            .filter(|spec| of.contains(&spec.planned_from));
        let verbs: Vec<&str> = all.map(|spec| spec.verb).collect();
        verbs.join(", ")
    };
    let why = match source {
        PlannedFrom::Fleet | PlannedFrom::ObjectOrFleet => return Ok(()),
        PlannedFrom::Object => {
            let these = verbs(&[PlannedFrom::Object]);
            format!("{these} need the object's manifest, which a record does not have")
        }
        PlannedFrom::Journal => OF_JOURNAL.to_owned(),
    };
    let others = verbs(&[PlannedFrom::Fleet, PlannedFrom::ObjectOrFleet]);
    let message = format!("{why}; these can be planned on a record: {others}");
    Err(Failure::new(Exit::Refused, message))
}

/// The plan that is asked for, on facts without a cluster behind them.
pub fn outcome(facts: Option<&Facts>, ask: &PlanRequest) -> PlanOutcome {
    match past_plan(facts, &ask.intent, &ask.known) {
        Ok(plan) => PlanOutcome::Plan(Box::new(plan)),
        Err(Unseen::Refused(refusal)) => PlanOutcome::Refused(refusal),
        Err(Unseen::Failed(failure)) => PlanOutcome::Failed(failure.message),
    }
}

/// The plan for an intent on facts of a record; `known` as for [`plan::plan_again`].
///
/// # Errors
/// It is refused, lacks facts, or cannot be planned on a record.
pub fn past_plan(
    facts: Option<&Facts>,
    intent: &Intent,
    known: &KnownVictims,
) -> Result<Plan, Unseen> {
    plannable(spec_of(intent).planned_from).map_err(Unseen::Failed)?;
    let facts = facts.ok_or_else(no_picture)?;
    plan_on(facts, intent, known, &Author::default())
}
