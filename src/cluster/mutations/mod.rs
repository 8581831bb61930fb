//! The write side of the dialects: turns a plan's step into the exact API call, or refuses it before the plan is shown.
//!
//! Pure. [`support`] says whether a kind supports a mutation, [`call`] builds the call from the object as it was just read,
//! [`is_done`] whether the object already has the step's target state, [`inverse`] how to undo the step. Every patch is a
//! JSON Patch that tests the object's uid and the fields that it relies on, so that a concurrent write by another client wins
//! and our call fails. [`rights`] lists the permissions that each mutation needs, for keys, checks and the operator's role.

mod call;
mod compose;
mod govern;
mod rights;
mod support;
#[cfg(test)]
mod tests;
mod undo;

pub use call::{AGENT, Call, Method, Subresource, path};
pub use compose::{RunStep, call};
pub use govern::{
    GovernSeen, GovernWrite, NodeRule, govern_call, is_governed_so, is_other_scheduler, may_govern,
};
pub(crate) use rights::CREATED;
pub use rights::{Right, rights, writable, writes};
pub use support::{
    depends_on_the_object, has_ended, illegal, is_own_controller, supports as support,
};
pub use undo::{Inverse, fields, inverse};

use serde_json::Value;

use model::fleet::run_hold::HELD;
use model::plan::{Fact, Mutation, Step, StopPolicy, Test, VolcanoAction};

/// The label on a job with the name of its WorkloadPriorityClass.
pub const KUEUE_CLASS: &str = "kueue.x-k8s.io/priority-class";
/// The label from which KAI's pod-grouper takes a priority class.
pub const KAI_CLASS: &str = "priorityClassName";
/// The annotation with which a pod is touched, so that a controller that watches pods looks again.
pub const TOUCHED: &str = "stokehold.dev/touched";
/// Who cordoned a node.
pub const CORDONED_BY: &str = "stokehold.dev/cordoned-by";
pub const CORDONED_WHY: &str = "stokehold.dev/cordoned-why";
/// When the work was last saved, RFC 3339.
pub const CHECKPOINT: &str = "stokehold.dev/last-checkpoint";

/// A text inside an object; empty when it is not there.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A label or annotation. Keys contain slashes, so this avoids hand-written JSON pointers.
pub fn entry<'a>(object: &'a Value, map: &str, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get(map)?.get(key)?.as_str()
}

/// True for a mirror pod of a static pod, which no API call can end.
pub fn is_mirror(object: &Value) -> bool {
    entry(object, "annotations", "kubernetes.io/config.mirror").is_some()
}

pub fn has_condition(object: &Value, name: &str, status: &str) -> bool {
    object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|found| text(found, "/type") == name && text(found, "/status") == status)
}

/// True for a value that equals an absent field: null, false, 0 or empty.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_f64() == Some(0.0),
        Value::String(value) => value.is_empty(),
        Value::Array(value) => value.is_empty(),
        Value::Object(value) => value.is_empty(),
    }
}

/// Whether a field of an object has this value; an absent field equals false, 0 or empty.
pub fn is_value(object: &Value, path: &str, value: &Value) -> bool {
    match object.pointer(path) {
        Some(found) => found == value || is_nothing(found) && is_nothing(value),
        None => is_nothing(value),
    }
}

/// Whether a fact holds for its object as it was just read (`None`: it does not exist).
///
/// # Errors
/// The difference, in words.
pub fn check_fact(fact: &Fact, object: Option<&Value>) -> Result<(), String> {
    let name = &fact.object;
    let Some(object) = object else {
        return Err(format!("{name} no longer exists"));
    };
    if let Some(uid) = &name.uid
        && text(object, "/metadata/uid") != uid.as_str()
    {
        return Err(format!(
            "{name} is another object now: it was deleted and recreated"
        ));
    }
    let shown = |path: &str| match object.pointer(path) {
        Some(value) => value.to_string(),
        None => "not set".to_owned(),
    };
    match &fact.test {
        Test::Exists => Ok(()),
        Test::Is { path, value } if is_value(object, path, value) => Ok(()),
        Test::Is { path, value } => {
            Err(format!("{name}: {path} is {} and was {value}", shown(path)))
        }
        Test::Absent { path } if object.pointer(path).is_none_or(Value::is_null) => Ok(()),
        Test::Absent { path } => Err(format!("{name}: {path} is {} and was not set", shown(path))),
        Test::Version { resource_version } => {
            if text(object, "/metadata/resourceVersion") == resource_version {
                Ok(())
            } else {
                Err(format!("{name} has changed since"))
            }
        }
    }
}

/// True when the object (`None`: it does not exist) already has the step's target state.
pub fn is_done(step: &Step, object: Option<&Value>) -> bool {
    let Some(object) = object else {
        return matches!(step.mutation, Mutation::Evict { .. });
    };
    let other = step
        .object
        .uid
        .as_ref()
        .is_some_and(|uid| text(object, "/metadata/uid") != uid.as_str());
    if other {
        // The pod to evict is deleted; another object of that name is not the target.
        return matches!(step.mutation, Mutation::Evict { .. });
    }
    let is = |path: &str, value: Value| is_value(object, path, &value);
    match &step.mutation {
        Mutation::Suspend { value } => {
            support::suspend_path(&step.object).is_some_and(|path| is(path, (*value).into()))
                && (*value || states_no_hold(object))
        }
        Mutation::WorkloadActive { value } => {
            let active = object.pointer("/spec/active").and_then(Value::as_bool);
            active.unwrap_or(true) == *value && (!*value || states_no_hold(object))
        }
        Mutation::WorkloadPriority { value } => is("/spec/priority", (*value).into()),
        Mutation::KueuePriorityClass { name } => {
            entry(object, "labels", KUEUE_CLASS) == Some(name.as_str())
        }
        Mutation::StopPolicy { value } => {
            let policy = text(object, "/spec/stopPolicy");
            policy == value.word() || policy.is_empty() && *value == StopPolicy::None
        }
        Mutation::VolcanoCommand { action } => {
            let job = text(object, "/status/state/phase");
            let queue = text(object, "/status/state");
            match action {
                VolcanoAction::AbortJob => matches!(job, "Aborting" | "Aborted"),
                VolcanoAction::ResumeJob => !matches!(job, "Aborting" | "Aborted" | ""),
                VolcanoAction::RestartJob => job == "Restarting",
                VolcanoAction::CloseQueue => matches!(queue, "Closing" | "Closed"),
                VolcanoAction::OpenQueue => queue == "Open",
            }
        }
        Mutation::VolcanoPriorityClass { name } => {
            is("/spec/priorityClassName", name.as_str().into())
        }
        Mutation::VolcanoQueueWeight { value } => is("/spec/weight", (*value).into()),
        Mutation::KaiPriorityClass { name } => {
            entry(object, "labels", KAI_CLASS).unwrap_or_default() == name
        }
        Mutation::Evict { .. } => object.pointer("/metadata/deletionTimestamp").is_some(),
        Mutation::Cordon { .. } => is("/spec/unschedulable", true.into()),
        Mutation::Uncordon => is("/spec/unschedulable", false.into()),
        Mutation::Taint { key, value, effect } => taints(object)
            .any(|taint| compose::is_taint(taint, key, effect) && text(taint, "/value") == value),
        Mutation::Untaint { key, effect } => {
            !taints(object).any(|taint| compose::is_taint(taint, key, effect))
        }
        Mutation::Ungate { gate } => !object
            .pointer("/spec/schedulingGates")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .any(|found| text(found, "/name") == gate),
        // An absent `replicas` means one.
        Mutation::Scale { replicas } => {
            let now = object.pointer("/spec/replicas").and_then(Value::as_u64);
            now.unwrap_or(1) == u64::from(*replicas)
        }
        Mutation::Annotate { key, value } => entry(object, "annotations", key) == value.as_deref(),
    }
}

/// True where an object states no hold of a run; a resumed object must not state one.
fn states_no_hold(object: &Value) -> bool {
    entry(object, "annotations", HELD).is_none()
}

fn taints(node: &Value) -> impl Iterator<Item = &Value> {
    node.pointer("/spec/taints")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}
