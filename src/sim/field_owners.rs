//! Which field manager applied which field of an object.
//!
//! Paths are written as the real server's messages write them: `.spec.template.spec.containers[name="main"].image`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::api::patch::{Merging, merging};
use super::change::Resource;
use super::json::{name, namespace, text};
use super::store::key_of;

/// Fields by path, each with its value. An item of a list that merges by a key, and an item of a set, is a field of its
/// own without a value.
pub type Fields = BTreeMap<String, Value>;

/// The paths that each field manager owns in one object.
pub type Managers = BTreeMap<String, BTreeSet<String>>;

/// The field managers of every object that was applied. Only applies count: a field that another write set has no owner.
#[derive(Default)]
pub struct FieldOwners(BTreeMap<(Resource, String), (String, Managers)>);

impl FieldOwners {
    /// The managers of an object; none when it was made again since.
    pub fn of(&self, resource: Resource, object: &Value) -> Managers {
        let key = (resource, key_of(namespace(object), name(object)));
        match self.0.get(&key) {
            Some((uid, managers)) if uid == text(object, "/metadata/uid") => managers.clone(),
            _ => Managers::new(),
        }
    }

    /// Replaces the managers of an object.
    pub fn set(&mut self, resource: Resource, object: &Value, managers: Managers) {
        let key = (resource, key_of(namespace(object), name(object)));
        let uid = text(object, "/metadata/uid").to_owned();
        self.0.insert(key, (uid, managers));
    }
}

/// Fields without an owner: they identify the object, or belong to the server.
const UNOWNED: [&str; 11] = [
    ".apiVersion",
    ".kind",
    ".metadata.creationTimestamp",
    ".metadata.generateName",
    ".metadata.generation",
    ".metadata.managedFields",
    ".metadata.name",
    ".metadata.namespace",
    ".metadata.resourceVersion",
    ".metadata.selfLink",
    ".metadata.uid",
];

/// The fields of an object. Lists of a custom resource are one field each, as without a schema.
pub fn fields(object: &Value, custom: bool) -> Fields {
    let mut out = Fields::new();
    if let Some(map) = object.as_object() {
        collect(map, "", "", custom, &mut out);
    }
    out.retain(|path, _| !UNOWNED.contains(&path.as_str()));
    out
}

fn lists(parent: &str, field: &str, custom: bool) -> Merging {
    match custom {
        true => Merging::Replace,
        false => merging(parent, field),
    }
}

/// The path of an item: by its value under the merge key, or by its own value.
fn item_path(path: &str, key: &str, id: &Value) -> String {
    format!("{path}[{key}={id}]")
}

fn collect(map: &Map<String, Value>, path: &str, parent: &str, custom: bool, out: &mut Fields) {
    for (field, value) in map {
        let path = format!("{path}.{field}");
        match value {
            Value::Object(inner) if !inner.is_empty() => collect(inner, &path, field, custom, out),
            Value::Array(items) if !items.is_empty() => match lists(parent, field, custom) {
                Merging::ByKey(key) => {
                    for item in items {
                        let (Some(id), Some(inner)) = (item.get(key), item.as_object()) else {
                            continue;
                        };
                        let path = item_path(&path, key, id);
                        collect(inner, &path, field, custom, out);
                        out.insert(path, Value::Null);
                    }
                }
                Merging::Set => {
                    out.extend(
                        items
                            .iter()
                            .map(|item| (item_path(&path, "", item), Value::Null)),
                    );
                }
                Merging::Replace => {
                    out.insert(path, value.clone());
                }
            },
            _ => {
                out.insert(path, value.clone());
            }
        }
    }
}

/// What an apply takes out of an object.
pub struct Removal<'a> {
    /// Paths that the manager owned and does not apply any more.
    pub gone: BTreeSet<String>,
    /// Paths that it applies now or that others own.
    pub kept: BTreeSet<&'a str>,
    /// True for a custom resource.
    pub custom: bool,
}

impl Removal<'_> {
    /// True for a path to be removed with everything below it.
    fn takes(&self, path: &str) -> bool {
        let below = |other: &&str| {
            other
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.gone.contains(path)
            && !self
                .kept
                .range::<&str, _>(path..)
                .take_while(|other| other.starts_with(path))
                .any(below)
    }

    /// Removes the fields. A map or list item that is empty afterwards goes too.
    pub fn apply(&self, object: &mut Value) {
        if !self.gone.is_empty()
            && let Some(map) = object.as_object_mut()
        {
            self.prune(map, "", "");
        }
    }

    fn prune(&self, map: &mut Map<String, Value>, path: &str, parent: &str) {
        map.retain(|field, value| {
            let path = format!("{path}.{field}");
            if self.takes(&path) {
                return false;
            }
            match value {
                Value::Object(inner) if !inner.is_empty() => {
                    self.prune(inner, &path, field);
                    !inner.is_empty()
                }
                Value::Array(items) if !items.is_empty() => {
                    match lists(parent, field, self.custom) {
                        Merging::ByKey(key) => items.retain_mut(|item| {
                            let Some(id) = item.get(key) else { return true };
                            let path = item_path(&path, key, id);
                            if self.takes(&path) {
                                return false;
                            }
                            if let Some(inner) = item.as_object_mut() {
                                self.prune(inner, &path, field);
                            }
                            true
                        }),
                        Merging::Set => {
                            items.retain(|item| !self.takes(&item_path(&path, "", item)));
                        }
                        Merging::Replace => {}
                    }
                    !items.is_empty()
                }
                _ => true,
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_of_keyed_lists_are_told_apart() {
        let pod = json!({"kind": "Pod", "metadata": {"name": "a", "labels": {"x": "1"}, "finalizers": ["f"]}, "spec": {
            "containers": [{"name": "main", "image": "1", "args": ["a", "b"]}], "nodeSelector": {},
        }});
        let paths: Vec<String> = fields(&pod, false).into_keys().collect();
        assert_eq!(
            paths,
            [
                ".metadata.finalizers[=\"f\"]",
                ".metadata.labels.x",
                ".spec.containers[name=\"main\"]",
                ".spec.containers[name=\"main\"].args",
                ".spec.containers[name=\"main\"].image",
                ".spec.containers[name=\"main\"].name",
                ".spec.nodeSelector",
            ]
        );
        let own: Vec<String> = fields(&pod, true).into_keys().collect();
        assert!(own.contains(&".spec.containers".to_owned()), "{own:?}");
    }

    #[test]
    fn what_is_applied_no_more_goes_unless_another_keeps_it() {
        let mut pod = json!({"metadata": {"labels": {"x": "1"}, "finalizers": ["f", "g"]}, "spec": {"containers": [
            {"name": "main", "image": "1", "pull": "Always"}, {"name": "side", "image": "2", "pull": "Always"},
        ]}});
        let gone = fields(&pod, false)
            .into_keys()
            .filter(|path| !path.contains("pull") && !path.contains("\"g\""));
        let kept = [
            ".spec.containers[name=\"main\"]",
            ".spec.containers[name=\"main\"].name",
        ];
        let removal = Removal {
            gone: gone.collect(),
            kept: kept.into_iter().collect(),
            custom: false,
        };
        removal.apply(&mut pod);
        // Defaults of a kept item stay; an item without an owner is removed as a whole.
        assert_eq!(
            pod,
            json!({"metadata": {"finalizers": ["g"]}, "spec": {"containers": [{"name": "main", "pull": "Always"}]}})
        );
    }
}
