//! `reprioritise`: changes the priority of a job.

use clap::Args;
use model::fleet::job::Job;
use model::fleet::queue::QueueSystem;
use model::plan::{Intent, JobName, Plan, Refusal};

use super::{
    ActionRequest, ActionSpec, NameResolver, ObjectKind, PATCH_WORK, ParseError, PlannedFrom,
    PlannerInput, Selected, Values, always,
};

/// Change the priority of a job
#[derive(Args, Clone, PartialEq, Eq, Debug)]
#[command(alias = "reprioritize")]
pub struct ReprioritiseArguments {
    /// NAME, NAMESPACE/NAME, KIND/NAME or KIND/NAMESPACE/NAME
    pub job: String,
    /// A number, or the name of a priority class
    #[arg(
        required_unless_present = "priority_flag",
        allow_negative_numbers = true
    )]
    priority: Option<String>,
    /// The same as PRIORITY after the job
    #[arg(
        long = "priority",
        value_name = "PRIORITY",
        conflicts_with = "priority",
        allow_negative_numbers = true
    )]
    priority_flag: Option<String>,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "reprioritise",
    planned_from: PlannedFrom::Object,
    completes: &[
        ("job", Values::Jobs),
        ("priority", Values::PriorityClasses),
        ("priority_flag", Values::PriorityClasses),
    ],
    command: "priority",
    key: Some("P"),
    done_by: None,
    title: "priority",
    run_title: None,
    doc: "plan: change the priority of the job",
    fits: &[ObjectKind::Job],
    rights: PATCH_WORK,
    request,
    availability: always,
};

impl ReprioritiseArguments {
    /// The priority, from either form; clap requires one of them.
    pub fn priority(&self) -> &str {
        let priority = self.priority.as_deref();
        priority
            .or(self.priority_flag.as_deref())
            .unwrap_or_default()
    }

    pub(super) fn intent(&self, names: &NameResolver<'_>) -> Result<Intent, ParseError> {
        Ok(Intent::Reprioritise {
            job: names.job(&self.job)?,
            priority: self.priority().to_owned(),
        })
    }
}

fn request(selected: &Selected<'_>) -> Result<ActionRequest, String> {
    let job = selected.unfinished_job()?;
    let name = JobName(job.id.key.clone());
    match ordered_by(job) {
        QueueSystem::None => Err(format!(
            "no queueing system manages {name}, and a pod's own priority cannot be changed"
        )),
        _ => Ok(ActionRequest::Priority(name)),
    }
}

/// The system that orders a job.
pub fn ordered_by(job: &Job) -> QueueSystem {
    let admission = job.admission.as_ref();
    admission.map_or(job.queue_system, |known| known.system())
}

pub(super) fn plan(on: &PlannerInput<'_>, job: &JobName, priority: &str) -> Result<Plan, Refusal> {
    crate::queue_actions::reprioritise(on.snapshot, job, priority)
}
