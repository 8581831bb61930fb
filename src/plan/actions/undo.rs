//! `undo`: takes back what a run has changed. Its plan is made from the journal.

use clap::Args;
use model::plan::{Intent, Plan, Refusal, RefusalCode};

use super::{ActionSpec, Names, ParseError, PlannedFrom, PlannerInput, Values};

/// Undo a run
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Undo {
    /// The run, as `plan --log` names it
    pub run: String,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "undo",
    planned_from: PlannedFrom::Journal,
    completes: &[("run", Values::Runs)],
};

impl Undo {
    pub(super) fn intent(&self, _: &Names<'_>) -> Result<Intent, ParseError> {
        let run = self.run.clone();
        Ok(Intent::Undo { run })
    }
}

pub(super) fn plan(_: &PlannerInput<'_>, run: &str) -> Result<Plan, Refusal> {
    let sentence = format!("what {run} did is in the journal, not in the fleet");
    Err(Refusal::new(RefusalCode::Unknown, sentence)
        .instead(format!("`plan undo {run}` reads the journal")))
}
