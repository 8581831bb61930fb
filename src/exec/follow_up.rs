//! What controllers make of a plan's steps: the objects that show that a step has taken effect, and what makes a controller look.

use std::collections::BTreeMap;

use serde_json::Value;

use cluster::mutations::{KAI_CLASS, TOUCHED, entry, has_condition, text};
use model::fleet::observe::Table;
use model::plan::{Mutation, Object, Plan, Step, Until, Verb, Wait, WaitOrder};
use plan::FoundObject;

use super::target_reader::{Looker, Unseen, owners};

/// How long a controller may take over what a step has written, seconds.
const TAKEN_OVER: u64 = 60;

/// The annotation of a pod that names its PodGroup of KAI's.
const KAI_GROUP: &str = "pod-group-name";

/// Phases of pods that have ended.
const ENDED: [&str; 2] = ["Succeeded", "Failed"];

/// The wait for a controller that writes this value into an object of its own.
fn taken_over(of: &Object, path: &str, value: &str) -> Wait {
    let until = Until::Is {
        path: path.to_owned(),
        value: value.into(),
    };
    Wait {
        of: Some(of.clone()),
        at_most_seconds: Some(TAKEN_OVER),
        ..Wait::new(WaitOrder::After, until)
    }
}

/// True where one of the object's owners has this uid.
fn is_owned(now: &Value, uid: &str) -> bool {
    owners(now).any(|owner| text(owner, "/uid") == uid)
}

/// The class that KAI's pod-grouper gives a pod's group: that of the owner, or of the pod; `None` where it is KAI's own default.
///
/// Source: `calcPodGroupPriorityClass` of KAI's `defaultgrouper`.
fn kai_class<'a>(of_owner: &'a str, pod: &'a Value) -> Option<&'a str> {
    let of_pod = || entry(pod, "labels", KAI_CLASS);
    let named = Some(of_owner)
        .filter(|name| !name.is_empty())
        .or_else(of_pod);
    named
        .or_else(|| Some(text(pod, "/spec/priorityClassName")))
        .filter(|name| !name.is_empty())
}

impl Looker {
    /// Adds to a plan what shows that its steps have taken effect, where the object that a step changes does not: the Workload of
    /// a job whose class changes, and KAI's PodGroups. What cannot be read is a note of the step.
    pub(super) async fn follow_up(&self, plan: &mut Plan) {
        let is_touch = |step: &Step| matches!(&step.mutation, Mutation::Annotate { key, .. } if key == TOUCHED);
        for at in 0..plan.steps.len() {
            let step = &plan.steps[at];
            let name = match &step.mutation {
                Mutation::KueuePriorityClass { name } | Mutation::KaiPriorityClass { name } => {
                    name.clone()
                }
                _ => continue,
            };
            // (A plan that was read has been followed up.)
            if step.shown_by(WaitOrder::After).next().is_some() || plan.steps.iter().any(is_touch) {
                continue;
            }
            let unread = match &step.mutation {
                Mutation::KueuePriorityClass { .. } => match self.workloads(step, &name).await {
                    Ok(waits) => {
                        plan.steps[at].waits.extend(waits);
                        continue;
                    }
                    Err(why) => why,
                },
                _ => match self.touches(plan, at, &name).await {
                    Ok(more) => {
                        plan.steps.extend(more);
                        continue;
                    }
                    Err(why) => why,
                },
            };
            let why = match unread {
                Unseen::Refused(refusal) => refusal.to_string(),
                Unseen::Failed(failure) => failure.message,
            };
            let note = format!("its effect is not checked: {why}");
            plan.steps[at].side_effects.notes.push(note);
        }
    }

    /// Waits for Kueue to give the Workloads of a job its class.
    async fn workloads(&self, step: &Step, class: &str) -> Result<Vec<Wait>, Unseen> {
        let uid = step.object.uid.as_deref().unwrap_or_default();
        let wanted = |now: &Value| is_owned(now, uid) && !has_condition(now, "Finished", "True");
        let all = self
            .owned(Table::KueueWorkloads, &step.object.namespace, wanted)
            .await?;
        let wait = |one: &FoundObject| {
            // (v1beta1 has the name alone.)
            let path = match one.now.pointer("/spec/priorityClassRef") {
                Some(_) => "/spec/priorityClassRef/name",
                None => "/spec/priorityClassName",
            };
            taken_over(&one.object, path, class)
        };
        Ok(all.iter().map(wait).collect())
    }

    /// The steps that make KAI's pod-grouper look at the owner of its pods: it watches pods alone. One pod of each PodGroup gets an
    /// annotation, and the step is done when the PodGroup has the class. Without pods there is nothing to take over yet.
    ///
    /// Source: `pkg/podgrouper/pod_controller.go` of KAI 0.12.
    async fn touches(&self, plan: &Plan, at: usize, class: &str) -> Result<Vec<Step>, Unseen> {
        let step = &plan.steps[at];
        let namespace = &step.object.namespace;
        let uid = step.object.uid.as_deref().unwrap_or_default();
        let groups = self
            .owned(Table::KaiPodGroups, namespace, |now| is_owned(now, uid))
            .await?;
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let group_of = |now: &Value| entry(now, "annotations", KAI_GROUP).map(str::to_owned);
        let grouped = |now: &Value| {
            let name = group_of(now);
            let lives = !ENDED.contains(&text(now, "/status/phase"));
            lives
                && groups
                    .iter()
                    .any(|group| name.as_deref() == Some(&*group.object.name))
        };
        let pods = self.owned(Table::Pods, namespace, grouped).await?;
        let first: BTreeMap<String, &FoundObject> = pods
            .iter()
            .rev()
            .filter_map(|pod| Some((group_of(&pod.now)?, pod)))
            .collect();
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        let touch = |group: &FoundObject| {
            let pod = first.get(&*group.object.name)?;
            let mutation = Mutation::Annotate {
                key: TOUCHED.to_owned(),
                value: Some(
                    format!("{} {class}", plan.computed_at.rfc3339())
                        .trim_end()
                        .to_owned(),
                ),
            };
            let mut touch = Step::new(Verb::Mark, pod.object.clone(), mutation);
            touch.job.clone_from(&step.job);
            touch.needs = vec![number];
            touch.reason = "KAI then reads the class of its job".to_owned();
            let class = kai_class(class, &pod.now);
            touch.waits.extend(
                class.map(|class| taken_over(&group.object, "/spec/priorityClassName", class)),
            );
            Some(touch)
        };
        Ok(groups.iter().filter_map(touch).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_class_of_a_pod_group_is_the_owners_then_the_pods() {
        let pod = json!({"metadata": {"labels": {"priorityClassName": "build"}}, "spec": {"priorityClassName": "train"}});
        assert_eq!(kai_class("inference", &pod), Some("inference"));
        assert_eq!(kai_class("", &pod), Some("build"));
        let plain = json!({"spec": {"priorityClassName": "train"}});
        assert_eq!(kai_class("", &plain), Some("train"));
        assert_eq!(kai_class("", &json!({})), None);
    }
}
