//! Resume: releases a job from hold so that it may run again, or a queue so that it admits again.

use cluster::mutations::{self, text};
use model::base::Moment;
use model::plan::{
    Alternative, Intent, Mutation, Plan, Refusal, RefusalCode, Step, StopPolicy, Test, Undo, Verb,
    VolcanoAction,
};

use super::hold::{already, govern_hold, is_active, is_scaled, keeps_out};
use super::{ActionTarget, FoundObject, JobSubject, StartSystem, not_computed};

/// The plan that resumes a job or queue that is on hold; `named` is the name as it was typed.
///
/// # Errors
/// It is not on hold, has ended, or its kind does not support it.
pub fn plan(target: &ActionTarget, named: &str, now: Moment) -> Result<Plan, Refusal> {
    let mut plan = Plan::new(
        format!("resume {named}"),
        Intent::Resume {
            target: named.to_owned(),
        },
        now,
    );
    plan.effect = not_computed();
    plan.steps = match target {
        ActionTarget::Job(subject) => {
            plan.reasons.extend(subject.detour());
            job(subject)?
        }
        ActionTarget::Queue(found) => vec![queue(found)?],
    };
    plan.undo.possible = true;
    let reads = plan.steps.iter().flat_map(|step| &step.guards);
    plan.reads.extend(reads.cloned().collect::<Vec<_>>());
    plan.alternatives.push(Alternative {
        sentence: "undo it later".to_owned(),
        command: Some(format!("plan hold {named}")),
    });
    let starts = |step: &Step| !matches!(step.mutation, Mutation::Annotate { .. });
    if !plan.steps.iter().any(starts) {
        plan.reasons.push(QUEUED.to_owned());
    } else if matches!(target, ActionTarget::Job(_)) {
        plan.undo = Undo {
            possible: true,
            notes: vec!["work until then is lost, unless it saves a checkpoint".to_owned()],
        };
    }
    Ok(plan)
}

/// What a resume does to a job that a hold keeps in its queue of `govern`.
pub(super) const QUEUED: &str = "it stays suspended in its queue: `govern` admits it once its queue has quota and devices are free";

fn job(subject: &JobSubject) -> Result<Vec<Step>, Refusal> {
    if subject.system() != StartSystem::Kueue {
        return Ok(vec![top(subject)?]);
    }
    let made = subject.made_workloads()?;
    let held: Vec<&FoundObject> = made.iter().filter(|one| !is_active(one)).collect();
    if held.is_empty() {
        let not_held = already(format!("{} is not held", subject.top().object));
        return Err(not_held.instead("look at why it waits: `explain job`"));
    }
    let steps = held.into_iter().map(|one| workload(subject, one));
    steps.collect()
}

/// The step that lets Kueue admit one Workload of a job again.
fn workload(subject: &JobSubject, workload: &FoundObject) -> Result<Step, Refusal> {
    let mutation = Mutation::WorkloadActive { value: true };
    let mut step = Step::new(Verb::Resume, workload.object.clone(), mutation);
    step.guards.push(workload.same("/spec/active"));
    mutations::support(&step.object, &step.mutation)?;
    mutations::illegal(&step, &workload.now)?;
    step.job = Some(subject.reference_of(workload));
    step.reason = "requested".to_owned();
    Ok(step)
}

/// The step that resumes a job by its top owner.
fn top(subject: &JobSubject) -> Result<Step, Refusal> {
    let top = subject.top();
    let not_held = || already(format!("{} is not held", top.object));
    let (mut step, on) = match subject.system() {
        StartSystem::VolcanoJob => {
            if !matches!(
                text(&top.now, "/status/state/phase"),
                "Aborting" | "Aborted"
            ) {
                return Err(not_held());
            }
            let mutation = Mutation::VolcanoCommand {
                action: VolcanoAction::ResumeJob,
            };
            (
                Step::new(Verb::Resume, top.object.clone(), mutation),
                &top.now,
            )
        }
        _ if is_scaled(&top.object) => {
            let sentence = format!(
                "{} is held at 0 replicas, and only the journal has the previous number",
                top.object
            );
            return Err(Refusal::new(RefusalCode::Unsupported, sentence)
                .instead("undo the run that held it: `plan undo RUN`")
                .instead(format!("scale it: `plan scale {} REPLICAS`", subject.job())));
        }
        _ => {
            // What waits in a queue of `govern` stays suspended until it is admitted: only its hold ends.
            let is_kept_out =
                subject.system() == StartSystem::Ours && govern_hold(top) == Some("true");
            let mutation = match is_kept_out {
                true => keeps_out(false),
                false => Mutation::Suspend { value: false },
            };
            let mut step = Step::new(Verb::Resume, top.object.clone(), mutation);
            mutations::support(&step.object, &step.mutation)?;
            if mutations::is_done(&step, Some(&top.now)) {
                return Err(not_held());
            }
            let fields = mutations::fields(&step);
            step.guards.extend(fields.iter().map(|path| top.same(path)));
            (step, &top.now)
        }
    };
    mutations::support(&step.object, &step.mutation)?;
    mutations::illegal(&step, on)?;
    step.job = Some(subject.reference());
    step.reason = "requested".to_owned();
    Ok(step)
}

fn queue(found: &FoundObject) -> Result<Step, Refusal> {
    let mutation = match &*found.object.place.group {
        "scheduling.volcano.sh" => Mutation::VolcanoCommand {
            action: VolcanoAction::OpenQueue,
        },
        _ => Mutation::StopPolicy {
            value: StopPolicy::None,
        },
    };
    let mut step = Step::new(Verb::Release, found.object.clone(), mutation);
    mutations::support(&step.object, &step.mutation)?;
    if mutations::is_done(&step, Some(&found.now)) {
        return Err(already(format!("{} is not held", found.object)));
    }
    step.guards.push(match step.mutation {
        Mutation::StopPolicy { .. } => found.same("/spec/stopPolicy"),
        _ => found.fact(Test::Exists),
    });
    step.reason = "requested".to_owned();
    Ok(step)
}
