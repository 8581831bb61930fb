//! Reprioritise: another priority for one job, by the lever that its queueing system has.

use serde_json::Value;

use cluster::mutations::{self, KUEUE_CLASS};
use model::base::Moment;
use model::plan::{Intent, Mutation, Plan, Refusal, RefusalCode, Step, Undo, Verb};

use super::hold::already;
use super::{Class, Found, Subject, System, not_computed};

/// What a priority may do besides, as far as the object alone tells it.
pub(super) const MAY_PREEMPT: &str = "a higher priority may preempt others, a lower one may be preempted, as its queue's policy says";

/// The plan that gives a job another priority: a number, or the name of a class.
///
/// # Errors
/// It has that priority, has ended, or nothing can change its priority.
pub fn plan(subject: &Subject, priority: &str, now: Moment) -> Result<Plan, Refusal> {
    let top = subject.top();
    let number: Option<i32> = priority.parse().ok();
    let (found, lever) = match subject.system() {
        System::Kueue => kueue(subject, priority, number)?,
        System::VolcanoJob => {
            let name = class(&subject.classes, priority, number, "PriorityClass")?;
            (top, Mutation::VolcanoPriorityClass { name })
        }
        System::VolcanoGroup => {
            let group = subject.pod_group.as_ref().unwrap_or(top);
            let name = class(&subject.classes, priority, number, "PriorityClass")?;
            (group, Mutation::VolcanoPriorityClass { name })
        }
        System::Kai => {
            let name = class(&subject.classes, priority, number, "PriorityClass")?;
            (top, Mutation::KaiPriorityClass { name })
        }
        System::Ours => {
            let Some(number) = number else {
                let sentence =
                    format!("`{priority}` is not a number, and stokehold.dev/priority is one");
                return Err(Refusal::new(RefusalCode::Unsupported, sentence));
            };
            let lever = Mutation::Annotate {
                key: "stokehold.dev/priority".to_owned(),
                value: Some(number.to_string()),
            };
            (top, lever)
        }
        System::None => {
            let sentence = format!(
                "{}: a pod's priority is fixed when the pod is made, and no queueing system orders this job",
                top.object
            );
            return Err(Refusal::new(RefusalCode::Unsupported, sentence)
                .instead("hold the jobs ahead in the queue: `plan hold NS/NAME`")
                .instead("recreate it with another priorityClassName")
                .instead("submit it to a Kueue queue, whose order can be changed"));
        }
    };
    let mut step = Step::new(Verb::Reprioritise, found.object.clone(), lever);
    mutations::support(&step.object, &step.lever)?;
    if mutations::is_done(&step, Some(&found.now)) {
        return Err(already(format!("{} has that priority already", top.object)));
    }
    mutations::illegal(&step, &found.now)?;
    let fields = mutations::fields(&step);
    step.guards
        .extend(fields.iter().map(|path| found.same(path)));
    step.job = Some(subject.reference());
    step.reason = "it was asked for".to_owned();
    let mut plan = Plan::new(
        format!("reprioritise {} to {priority}", subject.job()),
        Intent::Reprioritise {
            job: subject.job(),
            priority: priority.to_owned(),
        },
        now,
    );
    plan.effect = not_computed();
    plan.reasons.extend(subject.detour());
    if matches!(step.lever, Mutation::WorkloadPriority { .. }) {
        step.side_effects.notes.push(
            "the pods keep the priority they were made with: only Kueue's order changes".to_owned(),
        );
        plan.warnings.push(MAY_PREEMPT.to_owned());
    }
    plan.undo = Undo {
        possible: true,
        notes: vec!["what was preempted meanwhile does not come back by it".to_owned()],
    };
    plan.reads.clone_from(&step.guards);
    plan.steps.push(step);
    Ok(plan)
}

fn kueue<'a>(
    subject: &'a Subject,
    priority: &str,
    number: Option<i32>,
) -> Result<(&'a Found, Mutation), Refusal> {
    let top = subject.top();
    if let Some(value) = number {
        let workload = subject.workload.as_ref().ok_or_else(|| {
            let sentence = format!(
                "{} is under Kueue, which has made no Workload for it",
                top.object
            );
            Refusal::new(RefusalCode::Unknown, sentence)
        })?;
        return Ok((workload, Mutation::WorkloadPriority { value }));
    }
    let name = class(
        &subject.workload_classes,
        priority,
        None,
        "WorkloadPriorityClass",
    )
    .map_err(|refusal| {
        refusal.instead(format!(
            "a number is taken: `plan reprioritise {} NUMBER`",
            subject.job()
        ))
    })?;
    let had = mutations::entry(&top.now, "labels", KUEUE_CLASS);
    let suspended = top.now.pointer("/spec/suspend").and_then(Value::as_bool);
    if had.is_none() && suspended != Some(true) {
        let wanted = subject
            .workload_classes
            .iter()
            .find(|class| class.name == name);
        let number = wanted.map_or_else(String::new, |class| class.value.to_string());
        let sentence = format!(
            "{} runs without a class, and Kueue lets none be added to what runs",
            top.object
        );
        return Err(
            Refusal::new(RefusalCode::IllegalState, sentence).instead(format!(
                "give the number: `plan reprioritise {} {number}`",
                subject.job()
            )),
        );
    }
    Ok((top, Mutation::KueuePriorityClass { name }))
}

/// The class of this name or value.
pub(super) fn class(
    known: &[Class],
    wanted: &str,
    number: Option<i32>,
    kind: &str,
) -> Result<String, Refusal> {
    let found = match number {
        Some(number) => known.iter().find(|class| class.value == i64::from(number)),
        None => known.iter().find(|class| class.name == wanted),
    };
    found.map(|class| class.name.clone()).ok_or_else(|| {
        let mut all: Vec<String> = known
            .iter()
            .map(|class| format!("{} ({})", class.name, class.value))
            .collect();
        all.truncate(8);
        let there = if all.is_empty() {
            "there is none".to_owned()
        } else {
            format!("there are {}", all.join(", "))
        };
        let sentence = format!("there is no {kind} `{wanted}`: {there}");
        Refusal::new(RefusalCode::NotFound, sentence)
    })
}
