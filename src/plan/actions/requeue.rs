//! `requeue`: evicts a job and requeues it.

use clap::Args;
use model::plan::{Intent, JobName, Plan, Refusal};

use super::{
    ActionRequest, ActionSpec, NameResolver, ObjectKind, PATCH_WORK, ParseError, PlannedFrom,
    PlannerInput, Selected, Values, while_it_runs,
};

/// Evict a job and requeue it
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct RequeueArguments {
    /// NAMESPACE/NAME; the name alone where one job has it
    job: String,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "requeue",
    planned_from: PlannedFrom::Fleet,
    completes: &[("job", Values::RunningJobs)],
    command: "requeue",
    key: Some("R"),
    done_by: None,
    title: "requeue",
    run_title: None,
    doc: "plan: evict the job and requeue it",
    fits: &[ObjectKind::Job, ObjectKind::Scalable],
    rights: PATCH_WORK,
    request,
    availability: while_it_runs,
};

impl RequeueArguments {
    pub(super) fn intent(&self, names: &NameResolver<'_>) -> Result<Intent, ParseError> {
        let job = names.job(&self.job)?;
        Ok(Intent::Requeue { job })
    }
}

fn request(selected: &Selected<'_>) -> Result<ActionRequest, String> {
    let job = selected.unfinished_job_name()?;
    Ok(ActionRequest::Intent(Intent::Requeue { job }))
}

pub(super) fn plan(on: &PlannerInput<'_>, job: &JobName) -> Result<Plan, Refusal> {
    crate::preempt::requeue(on.snapshot, job)
}
