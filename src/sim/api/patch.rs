//! Patches: JSON Patch, JSON Merge Patch, and strategic merge with the merge keys of the built-in types.

use serde_json::{Map, Value};

use super::status::ApiStatus;
use model::base::SmallSort;

use crate::json::fault;

/// How a list is merged.
pub enum Merging {
    /// The patch's list replaces it.
    Replace,
    /// Items with the same value under this key are one item.
    ByKey(&'static str),
    /// A set of scalars.
    Set,
}

/// How the list at `field` of an object with the field name `parent` is merged, as the API types declare it.
pub fn merging(parent: &str, field: &str) -> Merging {
    match (parent, field) {
        (_, "containers" | "initContainers" | "ephemeralContainers" | "volumes" | "env") => {
            Merging::ByKey("name")
        }
        (_, "imagePullSecrets" | "schedulingGates" | "resourceClaims" | "secrets") => {
            Merging::ByKey("name")
        }
        (_, "resourceClaimStatuses" | "allocatedResourcesStatus") => Merging::ByKey("name"),
        (_, "conditions" | "addresses") => Merging::ByKey("type"),
        (_, "ownerReferences") => Merging::ByKey("uid"),
        (_, "podIPs" | "hostIPs" | "hostAliases") => Merging::ByKey("ip"),
        (_, "volumeMounts") => Merging::ByKey("mountPath"),
        (_, "volumeDevices") => Merging::ByKey("devicePath"),
        (_, "topologySpreadConstraints") => Merging::ByKey("topologyKey"),
        ("spec", "ports") => Merging::ByKey("port"),
        (_, "ports") => Merging::ByKey("containerPort"),
        ("metadata", "finalizers") | ("spec", "podCIDRs") => Merging::Set,
        _ => Merging::Replace,
    }
}

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";

fn bad(why: &str) -> ApiStatus {
    ApiStatus::bad_request(why)
}

/// Decodes the body of a patch and checks that it has the shape of its type.
///
/// # Errors
/// 400 with the real server's message.
pub fn decoded(body: &[u8], wanted: &str, fits: fn(&Value) -> bool) -> Result<Value, ApiStatus> {
    let patch: Value = serde_json::from_slice(body)
        .map_err(|error| bad(&format!("error decoding patch: {}", fault(body, &error))))?;
    if fits(&patch) {
        return Ok(patch);
    }
    let kind = match patch {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    Err(bad(&format!(
        "error decoding patch: json: cannot unmarshal {kind} into Go value of type {wanted}"
    )))
}

/// Applies a strategic merge patch to an object.
///
/// # Errors
/// 400 when the patch has an unknown directive or a shape that does not fit the object.
pub fn strategic(object: &mut Value, patch: &Value) -> Result<(), ApiStatus> {
    let (Some(object), Some(patch)) = (object.as_object_mut(), patch.as_object()) else {
        return Err(bad("a strategic merge patch is an object"));
    };
    merge_map(object, patch, "")
}

fn merge_map(
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    parent: &str,
) -> Result<(), ApiStatus> {
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => {
            *target = cleaned(patch);
            return Ok(());
        }
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        None | Some("merge") => {}
        Some(other) => return Err(bad(&format!("unknown patch type: {other}"))),
    }
    if let Some(retained) = patch.get(RETAIN).and_then(Value::as_array) {
        target.retain(|key, _| retained.iter().any(|r| r.as_str() == Some(key)));
    }
    for (key, value) in patch {
        if key == DIRECTIVE || key == RETAIN || key.starts_with(ORDER) {
            continue;
        }
        if let Some(field) = key.strip_prefix(DELETE_FROM) {
            let gone = value.as_array().map_or(&[][..], Vec::as_slice);
            if let Some(list) = target.get_mut(field).and_then(Value::as_array_mut) {
                list.retain(|item| !gone.contains(item));
            }
            continue;
        }
        match (value, target.get_mut(key)) {
            (Value::Null, _) => {
                target.remove(key);
            }
            (Value::Object(patch), Some(Value::Object(old))) => merge_map(old, patch, key)?,
            (Value::Object(patch), _) => {
                if patch.get(DIRECTIVE).and_then(Value::as_str) != Some("delete") {
                    target.insert(key.clone(), Value::Object(cleaned(patch)));
                }
            }
            (Value::Array(items), old) => {
                let old = match old {
                    Some(Value::Array(old)) => std::mem::take(old),
                    _ => Vec::new(),
                };
                let order = patch
                    .get(&format!("{ORDER}{key}"))
                    .and_then(Value::as_array);
                let merged = merge_list(old, items, order, parent, key)?;
                target.insert(key.clone(), Value::Array(merged));
            }
            (scalar, _) => {
                target.insert(key.clone(), scalar.clone());
            }
        }
    }
    // A `$setElementOrder` directive may come without changed items.
    for (key, order) in patch {
        let Some(field) = key.strip_prefix(ORDER).filter(|f| !patch.contains_key(*f)) else {
            continue;
        };
        if let (Some(Value::Array(list)), Some(order)) = (target.get_mut(field), order.as_array()) {
            let old = std::mem::take(list);
            *list = merge_list(old, &[], Some(order), parent, field)?;
        }
    }
    Ok(())
}

/// The patch as a new value: without directives and removals.
fn cleaned(patch: &Map<String, Value>) -> Map<String, Value> {
    patch
        .iter()
        .filter(|(key, value)| !key.starts_with('$') && !value.is_null())
        .map(|(key, value)| (key.clone(), cleaned_value(value)))
        .collect()
}

fn cleaned_value(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(cleaned(map)),
        Value::Array(items) => items
            .iter()
            .filter(|item| item.get(DIRECTIVE).is_none())
            .map(cleaned_value)
            .collect(),
        other => other.clone(),
    }
}

fn merge_list(
    mut old: Vec<Value>,
    items: &[Value],
    order: Option<&Vec<Value>>,
    parent: &str,
    field: &str,
) -> Result<Vec<Value>, ApiStatus> {
    let key = match merging(parent, field) {
        Merging::Replace => return Ok(items.iter().map(cleaned_value).collect()),
        Merging::Set => {
            for item in items {
                if !old.contains(item) {
                    old.push(item.clone());
                }
            }
            return Ok(ordered(old, order, Value::clone));
        }
        Merging::ByKey(key) => key,
    };
    let directive = |item: &Value| {
        item.get(DIRECTIVE)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    if items
        .iter()
        .any(|item| directive(item).as_deref() == Some("replace"))
    {
        return Ok(items
            .iter()
            .filter(|item| directive(item).is_none())
            .map(cleaned_value)
            .collect());
    }
    for item in items {
        let Some(patch) = item.as_object() else {
            return Err(bad(&format!("an item of {field} is no object")));
        };
        let Some(id) = patch.get(key) else {
            return Err(bad(&format!(
                "map: {item} does not contain declared merge key: {key}"
            )));
        };
        if directive(item).as_deref() == Some("delete") {
            old.retain(|o| o.get(key) != Some(id));
            continue;
        }
        match old.iter_mut().find(|o| o.get(key) == Some(id)) {
            Some(Value::Object(found)) => merge_map(found, patch, field)?,
            _ => old.push(Value::Object(cleaned(patch))),
        }
    }
    Ok(ordered(old, order, |item| {
        item.get(key).cloned().unwrap_or(Value::Null)
    }))
}

/// The items in the patch's order. An item that the order does not list stays behind its predecessor.
fn ordered(
    items: Vec<Value>,
    order: Option<&Vec<Value>>,
    id: impl Fn(&Value) -> Value,
) -> Vec<Value> {
    let Some(order) = order else { return items };
    let rank = |item: &Value| {
        order
            .iter()
            .position(|o| id(o) == id(item) || *o == id(item))
    };
    let mut groups: Vec<(Option<usize>, Vec<Value>)> = Vec::new();
    for item in items {
        match (rank(&item), groups.last_mut()) {
            (None, Some((_, group))) => group.push(item),
            (rank, _) => groups.push((rank, vec![item])),
        }
    }
    groups.small_sort_by_key(|(rank, _)| *rank);
    groups.into_iter().flat_map(|(_, group)| group).collect()
}

/// Applies a JSON Patch.
///
/// # Errors
/// 400 when it is invalid, 422 when it does not apply (a failed `test` included).
pub fn json_patch(object: &mut Value, body: &[u8]) -> Result<(), ApiStatus> {
    let patch = decoded(body, "[]handlers.jsonPatchOp", Value::is_array)?;
    let patch: json_patch::Patch = serde_json::from_value(patch)
        .map_err(|error| bad(&format!("error decoding patch: {error}")))?;
    for operation in patch.0 {
        if let json_patch::PatchOperation::Test(test) = &operation
            && test.value.is_null()
            && is_missing(object, &test.path.to_string())
        {
            // As in the real server's library: a missing value is null if its parent exists.
            continue;
        }
        json_patch::patch(object, &[operation]).map_err(|_| ApiStatus::patch_failed())?;
    }
    Ok(())
}

/// True when the object at the pointer's parent lacks the last key.
fn is_missing(object: &Value, pointer: &str) -> bool {
    let Some((parent, _)) = pointer.rsplit_once('/') else {
        return false;
    };
    object.pointer(parent).is_some_and(Value::is_object) && object.pointer(pointer).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(mut object: Value, patch: Value) -> Value {
        strategic(&mut object, &patch).expect("applies");
        object
    }

    #[test]
    fn lists_merge_by_their_keys() {
        let pod = json!({"spec": {
            "containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}], "ports": [{"containerPort": 80}]}, {"name": "b"}],
            "tolerations": [{"key": "k"}],
        }});
        let patch = json!({"spec": {
            "containers": [
                {"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}, {"name": "X", "$patch": "delete"}]},
                {"name": "b", "$patch": "delete"},
                {"name": "c", "tty": null},
            ],
            "tolerations": [{"key": "l"}],
        }});
        assert_eq!(
            patched(pod, patch),
            json!({"spec": {
                "containers": [{"name": "a", "image": "2", "env": [{"name": "Y", "value": "2"}], "ports": [{"containerPort": 80}]}, {"name": "c"}],
                "tolerations": [{"key": "l"}],
            }})
        );
    }

    #[test]
    fn ports_of_a_service_and_of_a_container_have_different_keys() {
        let service = json!({"spec": {"ports": [{"port": 80, "targetPort": 1}]}});
        let out = patched(
            service,
            json!({"spec": {"ports": [{"port": 80, "targetPort": 2}]}}),
        );
        assert_eq!(out["spec"]["ports"], json!([{"port": 80, "targetPort": 2}]));
    }

    #[test]
    fn directives_do_what_they_say() {
        let object = json!({"metadata": {"finalizers": ["a", "b"], "labels": {"x": "1", "y": "2"}}, "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
        let patch = json!({
            "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"], "labels": {"$patch": "replace", "z": "3"}},
            "spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
        });
        assert_eq!(
            patched(object, patch),
            json!({"metadata": {"finalizers": ["b", "c"], "labels": {"z": "3"}}, "spec": {"strategy": {"type": "Recreate"}}})
        );
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Disk"}]}});
        let patch = json!({"status": {"$setElementOrder/conditions": [{"type": "Disk"}, {"type": "Ready"}], "conditions": [{"type": "Ready", "status": "False"}]}});
        assert_eq!(
            patched(status, patch)["status"]["conditions"],
            json!([{"type": "Disk"}, {"type": "Ready", "status": "False"}])
        );
        assert!(strategic(&mut json!({"a": {}}), &json!({"a": {"$patch": "explode"}})).is_err());
        assert!(strategic(&mut json!({}), &json!({"containers": [{"image": "x"}]})).is_err());
    }

    #[test]
    fn a_failed_test_of_a_json_patch_is_422() {
        let mut object = json!({"spec": {"unschedulable": true}});
        let test = br#"[{"op":"test","path":"/spec/unschedulable","value":false}]"#;
        assert_eq!(json_patch(&mut object, test).unwrap_err().code, 422);
        assert_eq!(json_patch(&mut object, b"{}").unwrap_err().code, 400);
        let absent = br#"[{"op":"test","path":"/spec/taints","value":null},{"op":"test","path":"/spec/unschedulable","value":true}]"#;
        json_patch(&mut object, absent).expect("what is not there is null");
        let nowhere = br#"[{"op":"test","path":"/metadata/labels/x","value":null}]"#;
        assert_eq!(json_patch(&mut object, nowhere).unwrap_err().code, 422);
    }
}
