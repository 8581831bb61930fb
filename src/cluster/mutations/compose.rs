//! Composes the call of a step from the step and its object as it was just read.

use serde_json::{Value, json};

use model::base::Name;
use model::fleet::run_hold::{HELD, RunHold};
use model::plan::{Mutation, Object, Refusal, RefusalCode, Step, Test};

use super::call::{Call, Method, Subresource};
use super::support::{illegal, supports, suspend_path};
use super::{CORDONED_BY, CORDONED_WHY, KAI_CLASS, KUEUE_CLASS, entry, text};

/// The run and step that a call belongs to. New objects are named after it, so that a repeated call creates nothing new.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunStep<'a> {
    pub run: &'a str,
    /// The step's number, from 1.
    pub step: u32,
    /// The hold that a suspended object states when the run resumes it later; a resumed object states no hold.
    pub hold: Option<&'a RunHold>,
}

/// The call of a step on its object as it was just read.
///
/// # Errors
/// The kind does not support the mutation, or the object's state does not allow it.
pub fn call(step: &Step, object: &Value, mark: RunStep<'_>) -> Result<Call, Refusal> {
    supports(&step.object, &step.mutation)?;
    illegal(step, object)?;
    match &step.mutation {
        Mutation::Evict { grace_seconds } => Ok(evict(step, *grace_seconds)),
        Mutation::VolcanoCommand { action } => Ok(command(step, object, action.word(), mark)),
        _ => Ok(Call {
            method: Method::Patch,
            object: step.object.clone(),
            subresource: Subresource::None,
            body: patch(step, object, mark)?,
        }),
    }
}

fn evict(step: &Step, grace: Option<u32>) -> Call {
    let mut options = json!({});
    if let Some(uid) = &step.object.uid {
        options["preconditions"] = json!({ "uid": uid });
    }
    if let Some(grace) = grace {
        options["gracePeriodSeconds"] = grace.into();
    }
    Call {
        method: Method::Create,
        object: step.object.clone(),
        subresource: Subresource::Eviction,
        body: json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": step.object.name, "namespace": step.object.namespace},
            "deleteOptions": options,
        }),
    }
}

/// The call that creates a Volcano Command. Volcano's controller carries the Command out on its target and deletes the Command.
fn command(step: &Step, object: &Value, action: &str, mark: RunStep<'_>) -> Call {
    let target = &step.object;
    // A Queue is cluster-wide; a Command is not.
    let namespace = if target.namespace.is_empty() {
        Name::new("default")
    } else {
        target.namespace.clone()
    };
    let name = format!("stokehold-{}-{}", mark.run, mark.step);
    let reference = json!({
        "apiVersion": format!("{}/{}", target.place.group, target.place.version),
        "kind": target.kind,
        "name": target.name,
        "uid": text(object, "/metadata/uid"),
        "controller": true,
        "blockOwnerDeletion": true,
    });
    Call {
        method: Method::Create,
        object: Object::new("bus.volcano.sh", "v1alpha1", "commands", "Command", &name)
            .within(&namespace),
        subresource: Subresource::None,
        body: json!({
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": [reference]},
            "action": action,
            "target": reference,
            "reason": "stokehold",
            "message": step.reason,
        }),
    }
}

/// A JSON Patch under construction: tests first, then writes, each applied to the object as the earlier ones leave it.
pub(super) struct PatchDraft<'a> {
    object: &'a Value,
    tests: Vec<Value>,
    writes: Vec<Value>,
    made: Vec<String>,
}

pub(super) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

impl<'a> PatchDraft<'a> {
    /// An empty patch of an object as it was just read.
    pub(super) const fn new(object: &'a Value) -> Self {
        Self {
            object,
            tests: Vec::new(),
            writes: Vec::new(),
            made: Vec::new(),
        }
    }

    pub(super) fn finish(mut self) -> Value {
        self.tests.append(&mut self.writes);
        self.tests.into()
    }

    /// Adds an empty map at `path` when the object has no value there.
    pub(super) fn ensure_path(&mut self, path: &str) {
        let missing = self.object.pointer(path).is_none_or(Value::is_null);
        if missing && !self.made.iter().any(|made| made == path) {
            self.test(path);
            self.made.push(path.to_owned());
            self.writes
                .push(json!({"op": "add", "path": path, "value": {}}));
        }
    }
}

impl PatchDraft<'_> {
    /// Tests that the field is unchanged since it was read. An absent field is tested as null, which servers accept as long as
    /// its parent exists; without a parent, the parent is tested.
    pub(super) fn test(&mut self, path: &str) {
        let mut at = path;
        let found = loop {
            match self.object.pointer(at) {
                Some(found) => break found.clone(),
                None => match at.rsplit_once('/') {
                    Some((parent, _)) if self.object.pointer(parent).is_none() => at = parent,
                    _ => break Value::Null,
                },
            }
        };
        let test = json!({"op": "test", "path": at, "value": found});
        if !at.is_empty() && !self.tests.contains(&test) {
            self.tests.push(test);
        }
    }

    pub(super) fn set(&mut self, path: &str, value: Value) {
        let Some((parent, _)) = path.rsplit_once('/') else {
            return;
        };
        if !parent.is_empty() {
            // Another client may create the parent meanwhile: this write must not replace that parent.
            self.ensure_path(parent);
        }
        self.writes
            .push(json!({"op": "add", "path": path, "value": value}));
    }

    fn remove(&mut self, path: &str) {
        if self.object.pointer(path).is_some() {
            self.test(path);
            self.writes.push(json!({"op": "remove", "path": path}));
        }
    }

    pub(super) fn entry(&mut self, map: &str, key: &str, value: Option<&str>) {
        let path = format!("/metadata/{map}/{}", escaped(key));
        match value {
            Some(value) => self.set(&path, value.into()),
            None => self.remove(&path),
        }
    }

    /// Sets the annotation that names the holder of the object; removes it for `None`.
    fn hold(&mut self, hold: Option<&RunHold>) {
        self.entry("annotations", HELD, hold.map(RunHold::text).as_deref());
    }
}

fn patch(step: &Step, object: &Value, mark: RunStep<'_>) -> Result<Value, Refusal> {
    let mut draft = PatchDraft::new(object);
    if step.object.uid.is_some() {
        draft.test("/metadata/uid");
    }
    for guard in step
        .guards
        .iter()
        .filter(|fact| fact.object.is(&step.object))
    {
        match &guard.test {
            Test::Exists => {}
            Test::Is { path, .. } | Test::Absent { path } => draft.test(path),
            Test::Version { .. } => draft.test("/metadata/resourceVersion"),
        }
    }
    match &step.mutation {
        Mutation::Suspend { value } => {
            let path = suspend_path(&step.object).ok_or_else(|| no_way(step))?;
            draft.set(path, (*value).into());
            draft.hold(mark.hold.filter(|_| *value));
        }
        Mutation::WorkloadActive { value } => {
            draft.set("/spec/active", (*value).into());
            draft.hold(mark.hold.filter(|_| !*value));
        }
        Mutation::WorkloadPriority { value } => draft.set("/spec/priority", (*value).into()),
        Mutation::KueuePriorityClass { name } => draft.entry("labels", KUEUE_CLASS, Some(name)),
        Mutation::StopPolicy { value } => draft.set("/spec/stopPolicy", value.word().into()),
        Mutation::VolcanoPriorityClass { name } if name.is_empty() => {
            draft.remove("/spec/priorityClassName");
        }
        Mutation::VolcanoPriorityClass { name } => {
            draft.set("/spec/priorityClassName", name.as_str().into());
        }
        Mutation::VolcanoQueueWeight { value } => draft.set("/spec/weight", (*value).into()),
        Mutation::KaiPriorityClass { name } => {
            let value = Some(name.as_str()).filter(|name| !name.is_empty());
            draft.entry("labels", KAI_CLASS, value);
        }
        Mutation::Cordon { by, why } => {
            draft.set("/spec/unschedulable", true.into());
            draft.entry("annotations", CORDONED_BY, Some(by));
            let why = Some(why.as_str()).filter(|why| !why.is_empty());
            draft.entry("annotations", CORDONED_WHY, why);
        }
        Mutation::Uncordon => {
            draft.remove("/spec/unschedulable");
            draft.entry("annotations", CORDONED_BY, None);
            draft.entry("annotations", CORDONED_WHY, None);
        }
        Mutation::Taint { key, value, effect } => {
            let mut taint = json!({"key": key, "effect": effect});
            if !value.is_empty() {
                taint["value"] = value.as_str().into();
            }
            draft.list(
                "/spec/taints",
                |taint| is_taint(taint, key, effect),
                Some(taint),
            );
        }
        Mutation::Untaint { key, effect } => {
            draft.list("/spec/taints", |taint| is_taint(taint, key, effect), None);
        }
        Mutation::Ungate { gate } => {
            draft.list(
                "/spec/schedulingGates",
                |found| text(found, "/name") == gate,
                None,
            );
        }
        Mutation::Scale { replicas } => draft.set("/spec/replicas", (*replicas).into()),
        Mutation::Annotate { key, value } => draft.entry("annotations", key, value.as_deref()),
        Mutation::Evict { .. } | Mutation::VolcanoCommand { .. } => return Err(no_way(step)),
    }
    Ok(draft.finish())
}

fn no_way(step: &Step) -> Refusal {
    Refusal::new(
        RefusalCode::Unsupported,
        format!("{} has no field for this", step.object),
    )
}

pub(super) fn is_taint(taint: &Value, key: &str, effect: &str) -> bool {
    text(taint, "/key") == key && text(taint, "/effect") == effect
}

impl PatchDraft<'_> {
    /// Removes matching items from a list and adds one. The list is tested as it was read, because items are addressed by index.
    fn list(&mut self, path: &str, matches: impl Fn(&Value) -> bool, put: Option<Value>) {
        let old = self.object.pointer(path).and_then(Value::as_array);
        let mut new: Vec<Value> = old
            .into_iter()
            .flatten()
            .filter(|item| !matches(item))
            .cloned()
            .collect();
        new.extend(put);
        self.test(path);
        if new.is_empty() {
            self.remove(path);
        } else {
            self.set(path, new.into());
        }
    }
}

/// The value of a label or annotation that a mutation writes; for undo.
pub(super) fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    entry(object, "labels", key)
}
