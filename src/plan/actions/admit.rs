//! `admit`: starts a waiting job.

use clap::Args;
use model::plan::{Intent, JobName, Plan, Refusal};

use super::{ActionSpec, Names, ParseError, PlannedFrom, PlannerInput, Values};

/// Start a waiting job
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Admit {
    /// NAMESPACE/NAME; the name alone where one job has it
    job: String,
    /// Preempt other jobs for it if needed
    #[arg(long)]
    preempt: bool,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "admit",
    planned_from: PlannedFrom::Fleet,
    completes: &[("job", Values::WaitingJobs)],
};

impl Admit {
    pub(super) fn intent(&self, names: &Names<'_>) -> Result<Intent, ParseError> {
        Ok(Intent::Admit {
            job: names.job(&self.job)?,
            preempt: self.preempt,
        })
    }
}

pub(super) fn plan(on: &PlannerInput<'_>, job: &JobName, preempt: &bool) -> Result<Plan, Refusal> {
    crate::admit::plan(on.snapshot, job, *preempt, on.known)
}
