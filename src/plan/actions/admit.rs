//! `admit`: starts a waiting job.

use clap::Args;
use model::fleet::job::JobState;
use model::plan::{Intent, JobName, Plan, Refusal};

use super::{
    ActionRequest, ActionSpec, Availability, NameResolver, ObjectKind, PATCH_WORK, ParseError,
    PlannedFrom, PlannerInput, Selected, Values,
};

/// Start a waiting job
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct AdmitArguments {
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
    command: "admit",
    key: Some("A"),
    done_by: None,
    title: "admit",
    run_title: None,
    doc: "plan: admit the waiting job, preempting others if needed",
    fits: &[ObjectKind::Job, ObjectKind::Scalable],
    rights: PATCH_WORK,
    request,
    availability,
};

impl AdmitArguments {
    pub(super) fn intent(&self, names: &NameResolver<'_>) -> Result<Intent, ParseError> {
        Ok(Intent::Admit {
            job: names.job(&self.job)?,
            preempt: self.preempt,
        })
    }
}

fn request(selected: &Selected<'_>) -> Result<ActionRequest, String> {
    Ok(ActionRequest::Intent(Intent::Admit {
        job: selected.unfinished_job_name()?,
        preempt: true,
    }))
}

fn availability(selected: &Selected<'_>) -> Availability {
    let Some(job) = selected.shown_job() else {
        return Availability::Available;
    };
    let has_quota = || {
        job.admission
            .as_ref()
            .is_some_and(|known| known.has_quota())
    };
    match job.state {
        JobState::Suspended => Availability::Idle(String::from("it is held: press H")),
        JobState::Waiting if has_quota() && !(selected.can_start)(&job.id) => Availability::Idle(
            String::from("its pods wait for nodes, and no known eviction starts it"),
        ),
        JobState::Waiting => Availability::Available,
        _ => Availability::Hidden,
    }
}

pub(super) fn plan(on: &PlannerInput<'_>, job: &JobName, preempt: &bool) -> Result<Plan, Refusal> {
    crate::admit::plan(on.snapshot, job, *preempt, on.known)
}
