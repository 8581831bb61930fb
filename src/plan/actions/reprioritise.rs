//! `reprioritise`: changes the priority of a job.

use clap::Args;
use model::plan::{Intent, JobName, Plan, Refusal};

use super::{ActionSpec, Names, ParseError, PlannedFrom, PlannerInput, Values};

/// Change the priority of a job
#[derive(Args, Clone, PartialEq, Eq, Debug)]
#[command(alias = "reprioritize")]
pub struct Reprioritise {
    /// NAME, NAMESPACE/NAME, KIND/NAME or KIND/NAMESPACE/NAME
    pub job: String,
    /// A number, or the name of a priority class
    #[arg(allow_negative_numbers = true)]
    pub priority: String,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "reprioritise",
    planned_from: PlannedFrom::Object,
    completes: &[("job", Values::Jobs), ("priority", Values::PriorityClasses)],
};

impl Reprioritise {
    pub(super) fn intent(&self, names: &Names<'_>) -> Result<Intent, ParseError> {
        Ok(Intent::Reprioritise {
            job: names.job(&self.job)?,
            priority: self.priority.clone(),
        })
    }
}

pub(super) fn plan(on: &PlannerInput<'_>, job: &JobName, priority: &str) -> Result<Plan, Refusal> {
    crate::queue_actions::reprioritise(on.snapshot, job, priority)
}
