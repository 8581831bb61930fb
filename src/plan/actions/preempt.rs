//! `preempt`: evicts a job so that another can start; it is requeued.

use clap::Args;
use model::plan::{Intent, JobName, Plan, Refusal};

use super::{
    ActionRequest, ActionSpec, NameResolver, ObjectKind, PATCH_WORK, ParseError, PlannedFrom,
    PlannerInput, Selected, Values, while_it_runs,
};

/// Evict a job so that another can start; it is requeued
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct PreemptArguments {
    /// NAMESPACE/NAME; the name alone where one job has it
    job: String,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "preempt",
    planned_from: PlannedFrom::Fleet,
    completes: &[("job", Values::RunningJobs)],
    command: "preempt",
    key: Some("X"),
    done_by: None,
    title: "preempt",
    run_title: None,
    doc: "plan: preempt the job",
    fits: &[ObjectKind::Job, ObjectKind::Scalable],
    rights: PATCH_WORK,
    request,
    availability: while_it_runs,
};

impl PreemptArguments {
    pub(super) fn intent(&self, names: &NameResolver<'_>) -> Result<Intent, ParseError> {
        let job = names.job(&self.job)?;
        Ok(Intent::Preempt { job })
    }
}

fn request(selected: &Selected<'_>) -> Result<ActionRequest, String> {
    let job = selected.unfinished_job_name()?;
    Ok(ActionRequest::Intent(Intent::Preempt { job }))
}

pub(super) fn plan(on: &PlannerInput<'_>, job: &JobName) -> Result<Plan, Refusal> {
    crate::preempt::preempt(on.snapshot, job)
}
