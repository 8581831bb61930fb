//! `hold`: stops a job and keeps it suspended, or stops a queue from admitting.

use clap::Args;
use model::fleet::job::{JobKey, JobState};
use model::fleet::queue::QueueKind;
use model::plan::{Intent, Plan, Refusal};

use super::{
    ActionRequest, ActionSpec, Availability, NameResolver, ObjectKind, PATCH_WORK, ParseError,
    PlannedFrom, PlannerInput, Selected, SelectedObject, Values,
};

/// Stop a job and keep it suspended; or stop a queue from admitting
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct HoldArguments {
    /// NAME, NAMESPACE/NAME, KIND/NAME or KIND/NAMESPACE/NAME
    pub target: String,
}

pub(super) const SPEC: ActionSpec = ActionSpec {
    verb: "hold",
    planned_from: PlannedFrom::Object,
    completes: &[("target", Values::JobsAndQueues)],
    command: "hold",
    key: Some("H"),
    done_by: None,
    title: "hold",
    run_title: Some("continue"),
    doc: "plan: hold or resume the job or queue; continue a stopped run",
    fits: &[
        ObjectKind::Job,
        ObjectKind::Scalable,
        ObjectKind::Queue,
        ObjectKind::Run,
    ],
    rights: PATCH_WORK,
    request,
    availability,
};

impl HoldArguments {
    pub(super) fn intent(&self, _: &NameResolver<'_>) -> Result<Intent, ParseError> {
        Ok(Intent::Hold {
            target: self.target.clone(),
        })
    }
}

/// Resumes held jobs and continues a run.
fn request(selected: &Selected<'_>) -> Result<ActionRequest, String> {
    if selected.kind() == Some(ObjectKind::Run) {
        let run = selected.run.as_ref().ok_or("this run is not known")?;
        return match run.can_continue {
            true => Ok(ActionRequest::Continue(run.name.clone())),
            false => Err(format!(
                "{} is {}: it cannot be continued",
                run.name, run.state
            )),
        };
    }
    let (target, is_held) = target(selected)?;
    Ok(ActionRequest::Intent(match is_held {
        true => Intent::Resume { target },
        false => Intent::Hold { target },
    }))
}

fn availability(selected: &Selected<'_>) -> Availability {
    let run = selected.run.as_ref();
    let run = run.filter(|_| selected.kind() == Some(ObjectKind::Run));
    match run.is_some_and(|run| !run.can_continue) {
        true => Availability::Hidden,
        false => Availability::Available,
    }
}

/// The selected queue or job as the command line names it, and whether it is held.
///
/// # Errors
/// There is no such queue or job, or it has ended.
pub(super) fn target(selected: &Selected<'_>) -> Result<(String, bool), String> {
    if let [SelectedObject::Queue(name)] = selected.objects {
        let mut queues = selected.fleet.queues.iter();
        let queue = queues.find(|queue| queue.key.kind == QueueKind::Queue && queue.name() == name);
        let queue = queue.ok_or_else(|| format!("no queueing system has queue {name}"))?;
        let target = format!("{}/{name}", queue.system().object_kind());
        return Ok((target, queue.is_stopped()));
    }
    let job = selected.unfinished_job()?;
    let JobKey { kind, key, .. } = &job.id;
    let target = format!("{kind}/{}/{}", key.namespace, key.name);
    let admission = job.admission.as_ref();
    let is_held = job.state == JobState::Suspended
        || admission.is_some_and(|admission| !admission.seen.active);
    Ok((target, is_held))
}

pub(super) fn plan(on: &PlannerInput<'_>, target: &str) -> Result<Plan, Refusal> {
    crate::queue_actions::hold(on.snapshot, target)
}
