//! `hold`: stops a job and keeps it suspended, or stops a queue from admitting.

use clap::Args;
use model::plan::{Intent, Plan, Refusal};

use super::{ActionSpec, Names, ParseError, PlannedFrom, PlannerInput, Values};

/// Stop a job and keep it suspended; or stop a queue from admitting
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Hold {
    /// NAME, NAMESPACE/NAME, KIND/NAME or KIND/NAMESPACE/NAME
    pub target: String,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "hold",
    planned_from: PlannedFrom::Object,
    completes: &[("target", Values::JobsAndQueues)],
};

impl Hold {
    pub(super) fn intent(&self, _: &Names<'_>) -> Result<Intent, ParseError> {
        Ok(Intent::Hold {
            target: self.target.clone(),
        })
    }
}

pub(super) fn plan(on: &PlannerInput<'_>, target: &str) -> Result<Plan, Refusal> {
    crate::queue_actions::hold(on.snapshot, target)
}
