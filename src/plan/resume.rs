//! Resume: releases a job from hold so that it may run again, or a queue so that it admits again.

use serde_json::Value;

use cluster::mutations::{self, text};
use model::base::Moment;
use model::plan::{
    Alternative, Intent, Mutation, Plan, Policy, Refusal, RefusalCode, Step, Test, Undo, Verb,
    VolcanoAction,
};

use super::hold::{already, is_scaled};
use super::{ActionTarget, FoundObject, Subject, System, not_computed};

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
    let step = match target {
        ActionTarget::Job(subject) => {
            plan.reasons.extend(subject.detour());
            job(subject)?
        }
        ActionTarget::Queue(found) => queue(found)?,
    };
    plan.undo.possible = true;
    plan.reads.extend(step.guards.iter().cloned());
    plan.alternatives.push(Alternative {
        sentence: "undo it later".to_owned(),
        command: Some(format!("plan hold {named}")),
    });
    if matches!(target, ActionTarget::Job(_)) {
        plan.undo = Undo {
            possible: true,
            notes: vec!["work until then is lost, unless it saves a checkpoint".to_owned()],
        };
    }
    plan.steps.push(step);
    Ok(plan)
}

fn job(subject: &Subject) -> Result<Step, Refusal> {
    let top = subject.top();
    let not_held = || already(format!("{} is not held", top.object));
    let (mut step, on) = match subject.system() {
        System::Kueue => {
            let workload = subject.workload.as_ref().ok_or_else(|| {
                let sentence = format!(
                    "{} is managed by Kueue, which has created no Workload for it",
                    top.object
                );
                Refusal::new(RefusalCode::Unknown, sentence)
            })?;
            let active = workload
                .now
                .pointer("/spec/active")
                .and_then(Value::as_bool);
            if active != Some(false) {
                return Err(not_held().instead("look at why it waits: `explain job`"));
            }
            let lever = Mutation::WorkloadActive { value: true };
            let mut step = Step::new(Verb::Resume, workload.object.clone(), lever);
            step.guards.push(workload.same("/spec/active"));
            (step, &workload.now)
        }
        System::VolcanoJob => {
            if !matches!(
                text(&top.now, "/status/state/phase"),
                "Aborting" | "Aborted"
            ) {
                return Err(not_held());
            }
            let lever = Mutation::VolcanoCommand {
                action: VolcanoAction::ResumeJob,
            };
            (Step::new(Verb::Resume, top.object.clone(), lever), &top.now)
        }
        _ if is_scaled(&top.object) => {
            let sentence = format!(
                "{} is held by having no replicas, and only the journal knows how many it had",
                top.object
            );
            return Err(Refusal::new(RefusalCode::Unsupported, sentence)
                .instead("undo the run that held it: `plan undo RUN`")
                .instead(format!("scale it: `plan scale {} REPLICAS`", subject.job())));
        }
        _ => {
            let lever = Mutation::Suspend { value: false };
            let mut step = Step::new(Verb::Resume, top.object.clone(), lever);
            mutations::support(&step.object, &step.lever)?;
            if mutations::is_done(&step, Some(&top.now)) {
                return Err(not_held());
            }
            let fields = mutations::fields(&step);
            step.guards.extend(fields.iter().map(|path| top.same(path)));
            (step, &top.now)
        }
    };
    mutations::support(&step.object, &step.lever)?;
    mutations::illegal(&step, on)?;
    step.job = Some(subject.reference());
    step.reason = "requested".to_owned();
    Ok(step)
}

fn queue(found: &FoundObject) -> Result<Step, Refusal> {
    let lever = match &*found.object.place.group {
        "scheduling.volcano.sh" => Mutation::VolcanoCommand {
            action: VolcanoAction::OpenQueue,
        },
        _ => Mutation::StopPolicy {
            value: Policy::None,
        },
    };
    let mut step = Step::new(Verb::Release, found.object.clone(), lever);
    mutations::support(&step.object, &step.lever)?;
    if mutations::is_done(&step, Some(&found.now)) {
        return Err(already(format!("{} is not held", found.object)));
    }
    step.guards.push(match step.lever {
        Mutation::StopPolicy { .. } => found.same("/spec/stopPolicy"),
        _ => found.fact(Test::Exists),
    });
    step.reason = "requested".to_owned();
    Ok(step)
}
