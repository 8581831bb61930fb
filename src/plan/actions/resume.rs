//! `resume`: resumes a held job or queue.

use clap::Args;
use model::plan::{Intent, Plan, Refusal};

use super::{ActionSpec, Names, ParseError, PlannedFrom, PlannerInput, Values};

/// Resume a held job or queue
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Resume {
    /// NAME, NAMESPACE/NAME, KIND/NAME or KIND/NAMESPACE/NAME
    pub target: String,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "resume",
    planned_from: PlannedFrom::Object,
    completes: &[("target", Values::JobsAndQueues)],
};

impl Resume {
    pub(super) fn intent(&self, _: &Names<'_>) -> Result<Intent, ParseError> {
        Ok(Intent::Resume {
            target: self.target.clone(),
        })
    }
}

pub(super) fn plan(on: &PlannerInput<'_>, target: &str) -> Result<Plan, Refusal> {
    crate::queue_actions::resume(on.snapshot, target)
}
