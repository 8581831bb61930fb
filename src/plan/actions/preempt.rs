//! `preempt`: evicts a job so that another can start; it is requeued.

use clap::Args;
use model::plan::{Intent, JobName, Plan, Refusal};

use super::{ActionSpec, Names, ParseError, PlannedFrom, PlannerInput, Values};

/// Evict a job so that another can start; it is requeued
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Preempt {
    /// NAMESPACE/NAME; the name alone where one job has it
    job: String,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "preempt",
    planned_from: PlannedFrom::Fleet,
    completes: &[("job", Values::RunningJobs)],
};

impl Preempt {
    pub(super) fn intent(&self, names: &Names<'_>) -> Result<Intent, ParseError> {
        let job = names.job(&self.job)?;
        Ok(Intent::Preempt { job })
    }
}

pub(super) fn plan(on: &PlannerInput<'_>, job: &JobName) -> Result<Plan, Refusal> {
    crate::preempt::preempt(on.snapshot, job)
}
