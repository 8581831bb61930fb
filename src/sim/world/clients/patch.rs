//! What clients wrote over an object that the world renders: a merge patch, laid over every rendering.

use serde_json::{Map, Value};

/// A client's lasting changes to one object. Empty for nearly all objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::world) struct Edit(Option<Box<ClientPatch>>);

#[derive(Clone, Debug, Default, PartialEq)]
struct ClientPatch {
    patch: Value,
    generations: i64,
}

impl Edit {
    /// Lays the client's changes over a fresh rendering.
    pub(in crate::world) fn apply(&self, object: &mut Value) {
        if let Some(inner) = &self.0 {
            merge(object, &inner.patch);
        }
    }

    /// Keeps the differences of `written` from `rendered` in metadata and spec (and in the body of an
    /// object without a spec). The world owns the status.
    pub(in crate::world) fn learn(&mut self, rendered: &Value, written: &Value) {
        let mut patch = Map::new();
        for field in ["labels", "annotations", "finalizers"] {
            let (old, new) = (
                rendered.pointer(&format!("/metadata/{field}")),
                written.pointer(&format!("/metadata/{field}")),
            );
            if let Some(change) = difference(old, new) {
                let metadata = patch
                    .entry("metadata")
                    .or_insert_with(|| Value::Object(Map::new()));
                metadata[field] = change;
            }
        }
        if let Some(change) = difference(rendered.get("spec"), written.get("spec")) {
            patch.insert("spec".into(), change);
        }
        let generations = self.0.as_ref().map_or(0, |inner| inner.generations);
        self.0 = (!patch.is_empty() || generations > 0).then(|| {
            Box::new(ClientPatch {
                patch: Value::Object(patch),
                generations,
            })
        });
    }

    /// Counts a change of the spec.
    pub(in crate::world) fn bump(&mut self) {
        self.0.get_or_insert_default().generations += 1;
    }

    pub(in crate::world) fn generation(&self) -> i64 {
        1 + self.0.as_ref().map_or(0, |inner| inner.generations)
    }
}

/// JSON Merge Patch (RFC 7396), in place.
pub(in crate::world) fn merge(target: &mut Value, patch: &Value) {
    match patch {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            if let Value::Object(object) = target {
                for (key, change) in fields {
                    if change.is_null() {
                        object.remove(key);
                    } else {
                        merge(object.entry(key.clone()).or_insert(Value::Null), change);
                    }
                }
            }
        }
        Value::Null => {}
        other => *target = other.clone(),
    }
}

/// The merge patch that turns `old` into `new`; `None` when they are equal.
fn difference(old: Option<&Value>, new: Option<&Value>) -> Option<Value> {
    match (old, new) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let mut patch = Map::new();
            for (key, value) in new {
                if let Some(change) = difference(old.get(key), Some(value)) {
                    patch.insert(key.clone(), change);
                }
            }
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                patch.insert(key.clone(), Value::Null);
            }
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        (old, new) if old == new => None,
        (Some(_), None) => Some(Value::Null),
        (_, Some(new)) => Some(new.clone()),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_clients_change_survives_a_new_rendering() {
        let before = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"replicas": 3}});
        let written = json!({"metadata": {"labels": {"a": "9"}, "annotations": {"who": "me"}}, "spec": {"replicas": 3, "paused": true}});
        let mut edit = Edit::default();
        edit.learn(&before, &written);
        let mut after = json!({"metadata": {"labels": {"a": "1", "b": "2", "c": "3"}}, "spec": {"replicas": 4}});
        edit.apply(&mut after);
        assert_eq!(
            after,
            json!({"metadata": {"labels": {"a": "9", "c": "3"}, "annotations": {"who": "me"}}, "spec": {"replicas": 4, "paused": true}})
        );
        assert_eq!(edit.generation(), 1);
        edit.bump();
        assert_eq!(edit.generation(), 2);
    }

    #[test]
    fn no_difference_keeps_nothing() {
        let same = json!({"metadata": {"labels": {"a": "1"}}, "spec": {}});
        let mut edit = Edit::default();
        edit.learn(&same, &same);
        assert_eq!(edit, Edit::default());
    }
}
