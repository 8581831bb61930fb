//! Reprioritise: changes the priority of one job, by the mutation of its queueing system.

use serde_json::Value;

use cluster::mutations::{self, KUEUE_CLASS};
use model::base::Moment;
use model::plan::{Intent, Mutation, Plan, Refusal, RefusalCode, Step, Undo, Verb};

use super::hold::already;
use super::{FoundObject, JobSubject, StartSystem, SubjectPriorityClass, not_computed};

/// Warning about preemption after a priority change, where only the object is known.
pub(super) const MAY_PREEMPT: &str = "depending on its queue's policy, a job with a higher priority may preempt others, and one with a lower priority may be preempted";

/// Note on a step that changes the priority class of a job of KAI. Source: KAI's pod-grouper, which reconciles pods and reads the
/// labels of their owners.
pub(super) const KAI_LATER: &str = "KAI reads the class of a job when one of its pods changes";

/// The plan that changes the priority of a job to a number or to the name of a priority class.
///
/// # Errors
/// It has that priority already, has ended, or its priority cannot be changed.
pub fn plan(subject: &JobSubject, priority: &str, now: Moment) -> Result<Plan, Refusal> {
    let top = subject.top();
    let number: Option<i32> = priority.parse().ok();
    let all = match subject.system() {
        StartSystem::Kueue => kueue(subject, priority, number)?,
        StartSystem::VolcanoJob => {
            let name = class(&subject.classes, priority, number, "PriorityClass")?;
            vec![(top, Mutation::VolcanoPriorityClass { name })]
        }
        StartSystem::VolcanoGroup => {
            let group = subject.pod_group.as_ref().unwrap_or(top);
            let name = class(&subject.classes, priority, number, "PriorityClass")?;
            vec![(group, Mutation::VolcanoPriorityClass { name })]
        }
        StartSystem::Kai => {
            let name = class(&subject.classes, priority, number, "PriorityClass")?;
            vec![(top, Mutation::KaiPriorityClass { name })]
        }
        StartSystem::Ours => {
            let Some(number) = number else {
                let sentence =
                    format!("`{priority}` is not a number; stokehold.dev/priority takes a number");
                return Err(Refusal::new(RefusalCode::Unsupported, sentence));
            };
            let mutation = Mutation::Annotate {
                key: "stokehold.dev/priority".to_owned(),
                value: Some(number.to_string()),
            };
            vec![(top, mutation)]
        }
        StartSystem::None => {
            let sentence = format!(
                "{}: a pod's priority is fixed when the pod is created, and no queueing system manages this job",
                top.object
            );
            return Err(Refusal::new(RefusalCode::Unsupported, sentence)
                .instead("recreate it with another priorityClassName")
                .instead("submit it to a Kueue queue, whose order can be changed"));
        }
    };
    let mut steps = Vec::new();
    for (found, mutation) in all {
        let mut step = Step::new(Verb::Reprioritise, found.object.clone(), mutation);
        mutations::support(&step.object, &step.mutation)?;
        if mutations::is_done(&step, Some(&found.now)) {
            continue;
        }
        mutations::illegal(&step, &found.now)?;
        let fields = mutations::fields(&step);
        step.guards
            .extend(fields.iter().map(|path| found.same(path)));
        step.job = Some(match step.mutation {
            Mutation::WorkloadPriority { .. } => subject.reference_of(found),
            _ => subject.reference(),
        });
        step.reason = "requested".to_owned();
        if let (Mutation::Annotate { key, .. }, Some(number)) = (&step.mutation, number)
            && let Some(label) = mutations::entry(&found.now, "labels", key)
            && label.trim().parse() != Ok(number)
        {
            let note = format!("the annotation now overrides the label {key}={label}");
            step.side_effects.notes.push(note);
        }
        if matches!(step.mutation, Mutation::WorkloadPriority { .. }) {
            step.side_effects.notes.push(
                "the pods keep the priority they were created with: only Kueue's order changes"
                    .to_owned(),
            );
        }
        if matches!(step.mutation, Mutation::KaiPriorityClass { .. }) {
            step.side_effects.notes.push(KAI_LATER.to_owned());
        }
        steps.push(step);
    }
    let Some(first) = steps.first() else {
        return Err(already(format!("{} already has that priority", top.object)));
    };
    let of_kueue = matches!(first.mutation, Mutation::WorkloadPriority { .. });
    let mut plan = Plan::new(
        format!("set priority of {} to {priority}", subject.job()),
        Intent::Reprioritise {
            job: subject.job(),
            priority: priority.to_owned(),
        },
        now,
    );
    plan.effect = not_computed();
    plan.reasons.extend(subject.detour());
    if of_kueue {
        plan.warnings.push(MAY_PREEMPT.to_owned());
    }
    plan.undo = Undo {
        possible: true,
        notes: vec![
            "undo restores the old priority; it does not bring back jobs that were preempted in between"
                .to_owned(),
        ],
    };
    let reads = steps.iter().flat_map(|step| step.guards.iter().cloned());
    plan.reads = reads.collect();
    plan.steps = steps;
    Ok(plan)
}

fn kueue<'a>(
    subject: &'a JobSubject,
    priority: &str,
    number: Option<i32>,
) -> Result<Vec<(&'a FoundObject, Mutation)>, Refusal> {
    let top = subject.top();
    if let Some(value) = number {
        let made = subject.made_workloads()?.iter();
        return Ok(made
            .map(|workload| (workload, Mutation::WorkloadPriority { value }))
            .collect());
    }
    if priority.parse::<f64>().is_ok() {
        let sentence = format!(
            "`{priority}` is not a whole number from {} to {}",
            i32::MIN,
            i32::MAX
        );
        return Err(Refusal::new(RefusalCode::Unsupported, sentence));
    }
    let name = class(
        &subject.workload_classes,
        priority,
        None,
        "WorkloadPriorityClass",
    )
    .map_err(|refusal| {
        refusal.instead(format!(
            "give a number: `plan reprioritise {} NUMBER`",
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
            "{} runs without a class, and Kueue does not allow adding one to a running job",
            top.object
        );
        return Err(
            Refusal::new(RefusalCode::IllegalState, sentence).instead(format!(
                "give the number: `plan reprioritise {} {number}`",
                subject.job()
            )),
        );
    }
    Ok(vec![(top, Mutation::KueuePriorityClass { name })])
}

pub(super) fn class(
    known: &[SubjectPriorityClass],
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
        let sentence = match all.is_empty() {
            true => format!("there is no {kind} `{wanted}`, nor any other"),
            false => format!(
                "there is no {kind} `{wanted}`; there are {}",
                all.join(", ")
            ),
        };
        Refusal::new(RefusalCode::NotFound, sentence)
    })
}
