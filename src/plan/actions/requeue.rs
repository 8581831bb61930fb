//! `requeue`: evicts a job and requeues it.

use clap::Args;
use model::plan::{Intent, JobName, Plan, Refusal};

use super::{ActionSpec, Names, ParseError, PlannedFrom, PlannerInput, Values};

/// Evict a job and requeue it
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Requeue {
    /// NAMESPACE/NAME; the name alone where one job has it
    job: String,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "requeue",
    planned_from: PlannedFrom::Fleet,
    completes: &[("job", Values::RunningJobs)],
};

impl Requeue {
    pub(super) fn intent(&self, names: &Names<'_>) -> Result<Intent, ParseError> {
        let job = names.job(&self.job)?;
        Ok(Intent::Requeue { job })
    }
}

pub(super) fn plan(on: &PlannerInput<'_>, job: &JobName) -> Result<Plan, Refusal> {
    crate::preempt::requeue(on.snapshot, job)
}
