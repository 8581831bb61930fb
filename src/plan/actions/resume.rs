//! `resume`: resumes a held job or queue.

use clap::Args;
use model::plan::{Intent, Plan, Refusal};

use super::{
    ActionName, ActionRequest, ActionSpec, NameResolver, ObjectKind, PATCH_WORK, ParseError,
    PlannedFrom, PlannerInput, Selected, Values, always,
};

/// Resume a held job or queue
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct ResumeArguments {
    /// NAME, NAMESPACE/NAME, KIND/NAME or KIND/NAMESPACE/NAME
    pub target: String,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "resume",
    planned_from: PlannedFrom::Object,
    completes: &[("target", Values::JobsAndQueues)],
    command: "resume",
    key: None,
    done_by: Some(ActionName::Hold),
    title: "resume",
    run_title: None,
    doc: "plan: resume the held job or queue",
    fits: &[ObjectKind::Job, ObjectKind::Scalable, ObjectKind::Queue],
    rights: PATCH_WORK,
    request,
    availability: always,
};

impl ResumeArguments {
    pub(super) fn intent(&self, _: &NameResolver<'_>) -> Result<Intent, ParseError> {
        Ok(Intent::Resume {
            target: self.target.clone(),
        })
    }
}

fn request(selected: &Selected<'_>) -> Result<ActionRequest, String> {
    let (target, _) = super::hold::target(selected)?;
    Ok(ActionRequest::Intent(Intent::Resume { target }))
}

pub(super) fn plan(on: &PlannerInput<'_>, target: &str) -> Result<Plan, Refusal> {
    crate::queue_actions::resume(on.snapshot, target)
}
