//! Undo of a step: the fields that it writes, and the step that restores their values.

use serde_json::Value;

use model::plan::{
    Budgets, Fact, Mutation, SideEffects, Step, StopPolicy, Test, Verb, VolcanoAction,
};

use super::compose::{is_taint, label};
use super::support::suspend_path;
use super::{CORDONED_BY, CORDONED_WHY, KAI_CLASS, KUEUE_CLASS, entry, text};

/// How a step is taken back.
#[derive(Clone, PartialEq, Debug)]
pub enum Inverse {
    Step(Box<Step>),
    /// It was so before: there is nothing to take back.
    Nothing,
    /// Not at all, and why.
    Never(String),
}

/// The paths of the fields that a mutation writes, for the journal.
pub fn fields(step: &Step) -> Vec<String> {
    let key = |map: &str, key: &str| {
        format!(
            "/metadata/{map}/{}",
            key.replace('~', "~0").replace('/', "~1")
        )
    };
    match &step.mutation {
        Mutation::Suspend { .. } => suspend_path(&step.object)
            .map(str::to_owned)
            .into_iter()
            .collect(),
        Mutation::WorkloadActive { .. } => vec!["/spec/active".into()],
        Mutation::WorkloadPriority { .. } => vec!["/spec/priority".into()],
        Mutation::KueuePriorityClass { .. } => vec![key("labels", KUEUE_CLASS)],
        Mutation::StopPolicy { .. } => vec!["/spec/stopPolicy".into()],
        Mutation::VolcanoCommand { .. } => vec!["/status/state".into()],
        Mutation::VolcanoPriorityClass { .. } => vec!["/spec/priorityClassName".into()],
        Mutation::VolcanoQueueWeight { .. } => vec!["/spec/weight".into()],
        Mutation::KaiPriorityClass { .. } => vec![key("labels", KAI_CLASS)],
        Mutation::Evict { .. } => vec!["/spec/nodeName".into()],
        Mutation::Cordon { .. } | Mutation::Uncordon => vec![
            "/spec/unschedulable".into(),
            key("annotations", CORDONED_BY),
            key("annotations", CORDONED_WHY),
        ],
        Mutation::Taint { .. } | Mutation::Untaint { .. } => vec!["/spec/taints".into()],
        Mutation::Ungate { .. } => vec!["/spec/schedulingGates".into()],
        Mutation::Scale { .. } => vec!["/spec/replicas".into()],
        Mutation::Annotate { key: name, .. } => vec![key("annotations", name)],
    }
}

/// How to undo a step, given its object as it was before. Later changes by others are not overwritten:
/// the undo step is guarded by the values that the step wrote.
pub fn inverse(step: &Step, before: &Value) -> Inverse {
    // Only the fields that it writes need be there, not the uid.
    let mut same = step.clone();
    same.object.uid = None;
    if super::is_done(&same, Some(before)) {
        return Inverse::Nothing;
    }
    let never = |why: &str| Inverse::Never(format!("{}: {why}", step.object));
    let (verb, mutation) = match &step.mutation {
        Mutation::Suspend { value } => (
            if *value { Verb::Resume } else { Verb::Suspend },
            Mutation::Suspend { value: !value },
        ),
        Mutation::WorkloadActive { value } => (
            if *value { Verb::Suspend } else { Verb::Resume },
            Mutation::WorkloadActive { value: !value },
        ),
        Mutation::WorkloadPriority { .. } => {
            let old = before.pointer("/spec/priority").and_then(Value::as_i64);
            let value = old.and_then(|old| i32::try_from(old).ok()).unwrap_or(0);
            (Verb::Reprioritise, Mutation::WorkloadPriority { value })
        }
        Mutation::KueuePriorityClass { .. } => match label(before, KUEUE_CLASS) {
            Some(name) => (
                Verb::Reprioritise,
                Mutation::KueuePriorityClass { name: name.into() },
            ),
            None => return never("Kueue does not allow removing a priority class"),
        },
        Mutation::StopPolicy { .. } => {
            let value = match text(before, "/spec/stopPolicy") {
                "Hold" => StopPolicy::Hold,
                "HoldAndDrain" => StopPolicy::HoldAndDrain,
                _ => StopPolicy::None,
            };
            let verb = match value {
                StopPolicy::None => Verb::Release,
                _ => Verb::Hold,
            };
            (verb, Mutation::StopPolicy { value })
        }
        Mutation::VolcanoCommand { action } => {
            let (verb, action) = match action {
                VolcanoAction::AbortJob => (Verb::Resume, VolcanoAction::ResumeJob),
                VolcanoAction::ResumeJob => (Verb::Suspend, VolcanoAction::AbortJob),
                VolcanoAction::CloseQueue => (Verb::Release, VolcanoAction::OpenQueue),
                VolcanoAction::OpenQueue => (Verb::Hold, VolcanoAction::CloseQueue),
                VolcanoAction::RestartJob => return never("a restart cannot be undone"),
            };
            (verb, Mutation::VolcanoCommand { action })
        }
        Mutation::VolcanoPriorityClass { .. } => (
            Verb::Reprioritise,
            Mutation::VolcanoPriorityClass {
                name: text(before, "/spec/priorityClassName").to_owned(),
            },
        ),
        Mutation::VolcanoQueueWeight { .. } => {
            let old = before.pointer("/spec/weight").and_then(Value::as_u64);
            let value = old.and_then(|old| u32::try_from(old).ok()).unwrap_or(1);
            (Verb::Scale, Mutation::VolcanoQueueWeight { value })
        }
        Mutation::KaiPriorityClass { .. } => (
            Verb::Reprioritise,
            Mutation::KaiPriorityClass {
                name: label(before, KAI_CLASS).unwrap_or_default().to_owned(),
            },
        ),
        Mutation::Evict { .. } => return never("an evicted pod does not come back to its node"),
        Mutation::Cordon { .. } => (Verb::Uncordon, Mutation::Uncordon),
        Mutation::Uncordon => (
            Verb::Cordon,
            Mutation::Cordon {
                by: entry(before, "annotations", CORDONED_BY)
                    .unwrap_or("stokehold")
                    .to_owned(),
                why: entry(before, "annotations", CORDONED_WHY)
                    .unwrap_or_default()
                    .to_owned(),
            },
        ),
        Mutation::Taint { key, effect, .. } => match taint_before(before, key, effect) {
            Some(value) => (
                Verb::Taint,
                Mutation::Taint {
                    key: key.clone(),
                    value,
                    effect: effect.clone(),
                },
            ),
            None => (
                Verb::Untaint,
                Mutation::Untaint {
                    key: key.clone(),
                    effect: effect.clone(),
                },
            ),
        },
        Mutation::Untaint { key, effect } => (
            Verb::Taint,
            Mutation::Taint {
                key: key.clone(),
                value: taint_before(before, key, effect).unwrap_or_default(),
                effect: effect.clone(),
            },
        ),
        Mutation::Ungate { .. } => {
            return never("Kubernetes does not allow adding a scheduling gate to a pod");
        }
        Mutation::Scale { .. } => {
            let old = before.pointer("/spec/replicas").and_then(Value::as_u64);
            let replicas = old.and_then(|old| u32::try_from(old).ok()).unwrap_or(1);
            (Verb::Scale, Mutation::Scale { replicas })
        }
        // It only makes a controller look.
        Mutation::Annotate { key, .. } if key == super::TOUCHED => return Inverse::Nothing,
        Mutation::Annotate { key, .. } => (
            Verb::Mark,
            Mutation::Annotate {
                key: key.clone(),
                value: entry(before, "annotations", key).map(str::to_owned),
            },
        ),
    };
    let mut back = Step::new(verb, step.object.clone(), mutation);
    back.job = step.job.clone();
    back.guards = written(step);
    back.side_effects = SideEffects {
        interrupts: matches!(
            back.mutation,
            Mutation::Suspend { value: true } | Mutation::WorkloadActive { value: false }
        ) || matches!(
            back.mutation,
            Mutation::VolcanoCommand {
                action: VolcanoAction::AbortJob
            } | Mutation::StopPolicy {
                value: StopPolicy::HoldAndDrain
            }
        ),
        ..SideEffects::default()
    };
    if back.side_effects.interrupts {
        back.side_effects.budgets = Budgets::Ignored;
    }
    Inverse::Step(Box::new(back))
}

fn taint_before(before: &Value, key: &str, effect: &str) -> Option<String> {
    before
        .pointer("/spec/taints")
        .and_then(Value::as_array)?
        .iter()
        .find(|taint| is_taint(taint, key, effect))
        .map(|taint| text(taint, "/value").to_owned())
}

/// The values that a step has written, as facts that hold until another client writes.
fn written(step: &Step) -> Vec<Fact> {
    let value: Value = match &step.mutation {
        Mutation::Suspend { value } | Mutation::WorkloadActive { value } => (*value).into(),
        Mutation::WorkloadPriority { value } => (*value).into(),
        Mutation::KueuePriorityClass { name }
        | Mutation::VolcanoPriorityClass { name }
        | Mutation::KaiPriorityClass { name } => name.as_str().into(),
        Mutation::StopPolicy { value } => value.word().into(),
        Mutation::VolcanoQueueWeight { value } => (*value).into(),
        Mutation::Cordon { .. } => true.into(),
        Mutation::Uncordon => false.into(),
        Mutation::Scale { replicas } => (*replicas).into(),
        Mutation::Annotate { value, .. } => value.clone().map_or(Value::Null, Value::from),
        Mutation::VolcanoCommand { .. }
        | Mutation::Evict { .. }
        | Mutation::Taint { .. }
        | Mutation::Untaint { .. }
        | Mutation::Ungate { .. } => return Vec::new(),
    };
    let Some(path) = fields(step).into_iter().next() else {
        return Vec::new();
    };
    let test = if value.is_null() {
        Test::Absent { path }
    } else {
        Test::Is { path, value }
    };
    vec![Fact {
        object: step.object.clone(),
        test,
    }]
}
