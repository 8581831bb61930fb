//! Reading and checking what clients send: bodies, names, options, and the fields that may not change.

use serde_json::{Value, json};

use super::ApiRequest;
use super::request::ResourcePath;
use super::status::{ApiStatus, Cause};
use crate::change::Resource;
use crate::json::{fault, flag, list, name, text};
use crate::names::{bad_key, bad_segment, bad_subdomain, bad_value, quoted};
use crate::resource::Spec;

const BODIES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The body as an object, from JSON, YAML or protocol buffers.
///
/// # Errors
/// 415 on another content type, 400 when it does not parse or is no object.
pub fn body(asked: &ApiRequest, expected: &str) -> Result<Value, ApiStatus> {
    let value: Value = match asked.media_type() {
        "" | "application/json" => serde_json::from_slice(&asked.body).map_err(|error| {
            ApiStatus::bad_request(format!(
                "the object provided is unrecognized (must be of type {expected}): couldn't get version/kind; json parse error: {} ({})",
                fault(&asked.body, &error),
                shown(&asked.body)
            ))
        })?,
        "application/yaml" => yaml(&asked.body)?,
        "application/vnd.kubernetes.protobuf" => {
            super::protobuf::object(&asked.body).map_err(ApiStatus::bad_request)?
        }
        _ => return Err(ApiStatus::unsupported_media(BODIES)),
    };
    is_object(value)
}

/// The body of an apply, YAML or JSON, as an object.
///
/// # Errors
/// 400 when it does not parse or is no object.
pub fn configuration(asked: &ApiRequest) -> Result<Value, ApiStatus> {
    match serde_json::from_slice(&asked.body) {
        Ok(value) => is_object(value),
        Err(_) => is_object(yaml(&asked.body)?),
    }
}

fn is_object(value: Value) -> Result<Value, ApiStatus> {
    match value {
        Value::Object(_) => Ok(value),
        _ => Err(ApiStatus::bad_request(
            "the object provided is unrecognized: it is no object",
        )),
    }
}

fn yaml(body: &[u8]) -> Result<Value, ApiStatus> {
    let text =
        std::str::from_utf8(body).map_err(|_| ApiStatus::bad_request("the body is not UTF-8"))?;
    serde_saphyr::from_str_with_options(text, serde_saphyr::options! { strict_booleans: true })
        .map_err(|error| ApiStatus::bad_request(format!("error converting YAML to JSON: {error}")))
}

/// The beginning of a body, as a message quotes it: a text, or bytes in hexadecimal.
fn shown(body: &[u8]) -> String {
    const MOST: usize = 96;
    match std::str::from_utf8(body) {
        Ok(text) => match text.char_indices().nth(MOST) {
            Some((end, _)) => format!("{} ...", &text[..end]),
            None => text.to_owned(),
        },
        Err(_) => body
            .iter()
            .take(MOST)
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    }
}

/// Reads `dryRun` values of options of this kind: true for `All`.
///
/// # Errors
/// 422 on any other value.
pub fn dry_run<'a>(
    options: &str,
    values: impl Iterator<Item = &'a str>,
) -> Result<bool, ApiStatus> {
    let values: Vec<&str> = values.filter(|v| !v.is_empty()).collect();
    if values.iter().any(|value| *value != "All") {
        let values = Value::from(values);
        let what = format!("Unsupported value: {values}: supported values: \"All\"");
        return Err(ApiStatus::options(options, "dryRun", &what));
    }
    Ok(!values.is_empty())
}

/// Checks that the body is of the kind, version, name and namespace that the path names, and fills these in.
///
/// # Errors
/// 400 where body and path disagree.
pub fn place(object: &mut Value, target: &ResourcePath, spec: &Spec) -> Result<(), ApiStatus> {
    let version = spec.api_version();
    let (kind, given) = (
        text(object, "/kind").to_owned(),
        text(object, "/apiVersion").to_owned(),
    );
    if !kind.is_empty() && kind != spec.kind {
        return Err(ApiStatus::bad_request(format!(
            "{kind} in version {} cannot be handled as a {}: converting ({}.{kind}) to ({}.{}): unknown conversion",
            quoted(spec.version),
            spec.kind,
            spec.version,
            spec.package(),
            spec.kind,
        )));
    }
    if !given.is_empty() && given != version {
        return Err(ApiStatus::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({version})"
        )));
    }
    object["kind"] = spec.kind.into();
    object["apiVersion"] = version.into();
    let metadata = crate::json::map_mut(object, "metadata");
    if spec.namespaced {
        let given = metadata
            .get("namespace")
            .and_then(Value::as_str)
            .unwrap_or("");
        if given.is_empty() {
            metadata.insert("namespace".into(), target.namespace.as_str().into());
        } else if given != target.namespace {
            return Err(ApiStatus::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    } else {
        metadata.remove("namespace");
    }
    if !target.name.is_empty() {
        let given = metadata.get("name").and_then(Value::as_str).unwrap_or("");
        if given.is_empty() {
            metadata.insert("name".into(), target.name.as_str().into());
        } else if given != target.name {
            return Err(ApiStatus::bad_request(format!(
                "the name of the object ({given}) does not match the name on the URL ({})",
                target.name
            )));
        }
    }
    Ok(())
}

/// Checks name, labels and the few fields of a spec without which the object means nothing.
///
/// # Errors
/// 422 with one cause for each fault.
pub fn shape(object: &Value, spec: &Spec) -> Result<(), ApiStatus> {
    let mut causes: Vec<Cause> = Vec::new();
    let mut invalid = |field: &str, value: &str, why: String| {
        let message = format!("Invalid value: {}: {why}", quoted(value));
        causes.push(("FieldValueInvalid", message, field.to_owned()));
    };
    // Names of roles and bindings are any segment of a path, like `system:node`.
    let bad_name = match spec.group == "rbac.authorization.k8s.io" {
        true => bad_segment(name(object)),
        false => bad_subdomain(name(object)),
    };
    if let Some(why) = bad_name {
        invalid("metadata.name", name(object), why);
    }
    if let Some(labels) = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
    {
        for (key, value) in labels {
            if let Some(why) = bad_key(key) {
                invalid("metadata.labels", key, why);
            }
            let value = value.as_str().unwrap_or("");
            if let Some(why) = bad_value(value) {
                invalid("metadata.labels", value, why);
            }
        }
    }
    if let Some(annotations) = object
        .pointer("/metadata/annotations")
        .and_then(Value::as_object)
    {
        for key in annotations.keys() {
            if let Some(why) = bad_key(&key.to_lowercase()) {
                invalid("metadata.annotations", key, why);
            }
        }
    }
    for (list_at, field) in match spec.resource {
        Resource::Pods => &[("/spec/containers", "spec.containers")][..],
        Resource::Jobs
        | Resource::Deployments
        | Resource::ReplicaSets
        | Resource::StatefulSets
        | Resource::DaemonSets => &[(
            "/spec/template/spec/containers",
            "spec.template.spec.containers",
        )][..],
        _ => &[],
    } {
        let containers = list(object, list_at);
        if containers.is_empty() {
            causes.push((
                "FieldValueRequired",
                "Required value".into(),
                (*field).into(),
            ));
        }
        for (at, container) in containers.iter().enumerate() {
            for key in ["name", "image"] {
                if text(container, &format!("/{key}")).is_empty() {
                    let place = format!("{field}[{at}].{key}");
                    causes.push(("FieldValueRequired", "Required value".into(), place));
                }
            }
        }
    }
    if spec.resource == Resource::PodDisruptionBudgets {
        for field in ["minAvailable", "maxUnavailable"] {
            let number = object
                .pointer(&format!("/spec/{field}"))
                .and_then(Value::as_i64);
            if let Some(number) = number.filter(|number| *number < 0) {
                let message =
                    format!("Invalid value: {number}: must be greater than or equal to 0");
                causes.push(("FieldValueInvalid", message, format!("spec.{field}")));
            }
        }
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(ApiStatus::invalid(spec, name(object), causes))
    }
}

/// Fields of a pod's spec that may change after it was made.
fn without_mutable(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    if let Some(map) = spec.as_object_mut() {
        for key in [
            "activeDeadlineSeconds",
            "terminationGracePeriodSeconds",
            "tolerations",
            "schedulingGates",
        ] {
            map.remove(key);
        }
        // A gated pod's placement may be narrowed; whether it is narrowed is not checked here.
        for key in ["nodeSelector", "affinity"] {
            if !list(pod, "/spec/schedulingGates").is_empty() {
                map.remove(key);
            }
        }
    }
    for key in ["containers", "initContainers"] {
        let Some(items) = spec.get_mut(key).and_then(Value::as_array_mut) else {
            continue;
        };
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.remove("image");
        }
    }
    spec
}

/// Checks an update against what may not change.
///
/// # Errors
/// 422 naming the field.
pub fn update(old: &Value, new: &Value, spec: &Spec) -> Result<(), ApiStatus> {
    let refuse = |field: &str, message: &str| {
        Err(ApiStatus::invalid(
            spec,
            name(old),
            vec![("FieldValueForbidden", message.to_owned(), field.to_owned())],
        ))
    };
    match spec.resource {
        Resource::Pods => {
            let kept: Vec<&Value> = list(old, "/spec/tolerations").iter().collect();
            let lost = kept
                .iter()
                .any(|t| !list(new, "/spec/tolerations").contains(t));
            if without_mutable(old) != without_mutable(new) || lost {
                return refuse(
                    "spec",
                    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
                );
            }
        }
        Resource::Jobs => {
            let at = |object: &Value, pointer: &str| object.pointer(pointer).cloned();
            // The scheduling directives of a suspended job's template may change.
            let template = |object: &Value| {
                let mut template = at(object, "/spec/template").unwrap_or_default();
                if flag(old, "/spec/suspend") {
                    template["metadata"] = json!({});
                    for key in ["nodeSelector", "affinity", "tolerations", "schedulingGates"] {
                        if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut)
                        {
                            spec.remove(key);
                        }
                    }
                }
                template
            };
            for field in ["selector", "completionMode"] {
                let pointer = format!("/spec/{field}");
                if at(old, &pointer) != at(new, &pointer) {
                    return refuse(
                        &format!("spec.{field}"),
                        "Invalid value: field is immutable",
                    );
                }
            }
            if template(old) != template(new) {
                return refuse("spec.template", "Invalid value: field is immutable");
            }
        }
        Resource::PriorityClasses if old.get("value") != new.get("value") => {
            return refuse("value", "Forbidden: may not be changed in an update.");
        }
        _ => {}
    }
    Ok(())
}

/// The options of a deletion request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Deletion {
    /// Grace period of the deletion, seconds.
    pub grace: Option<u64>,
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The revision that the object must have.
    pub revision: Option<String>,
    /// True when nothing is to be deleted.
    pub dry_run: bool,
}

impl Deletion {
    /// Reads `DeleteOptions` (`Value::Null` for none).
    ///
    /// # Errors
    /// 422 on an unknown dry run, an unknown propagation policy or a negative grace.
    pub fn of_options(options: &Value) -> Result<Self, ApiStatus> {
        let owned = |pointer: &str| {
            options
                .pointer(pointer)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let grace = options
            .pointer("/gracePeriodSeconds")
            .and_then(Value::as_i64);
        let policy = owned("/propagationPolicy");
        if let Some(policy) =
            policy.filter(|p| !matches!(p.as_str(), "Orphan" | "Background" | "Foreground"))
        {
            let message = format!(
                "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: {}: supported values: \"Background\", \"Foreground\", \"Orphan\"",
                quoted(&policy)
            );
            return Err(ApiStatus::new(422, "Invalid", message));
        }
        Ok(Self {
            // A negative grace means one second, as on the real server.
            grace: grace.map(|seconds| u64::try_from(seconds).unwrap_or(1)),
            uid: owned("/preconditions/uid"),
            revision: owned("/preconditions/resourceVersion"),
            dry_run: dry_run(
                "DeleteOptions",
                list(options, "/dryRun").iter().filter_map(Value::as_str),
            )?,
        })
    }

    /// Reads the body and the query of a `DELETE`.
    ///
    /// # Errors
    /// 400 and 422 on malformed options.
    pub fn read(asked: &ApiRequest) -> Result<Self, ApiStatus> {
        let options = if asked.body.is_empty() {
            Value::Null
        } else {
            body(asked, "DeleteOptions")?
        };
        let mut deletion = Self::of_options(&options)?;
        deletion.dry_run |= asked.dry_run()?;
        if let Some(text) = asked.query.get("gracePeriodSeconds") {
            let seconds: i64 = text.parse().map_err(|_| {
                ApiStatus::bad_request(format!(
                    "gracePeriodSeconds is a number, not {}",
                    quoted(text)
                ))
            })?;
            deletion.grace = Some(u64::try_from(seconds).unwrap_or(1));
        }
        Ok(deletion)
    }

    /// Checks the preconditions.
    ///
    /// # Errors
    /// 409 when the object is another one or has changed.
    pub fn check(&self, object: &Value, spec: &Spec) -> Result<(), ApiStatus> {
        let differs = |what: &str, wanted: &Option<String>, pointer: &str, meaning: &str| {
            let found = text(object, pointer);
            match wanted {
                Some(wanted) if wanted != found => Err(ApiStatus::precondition(
                    spec,
                    name(object),
                    &format!(
                        "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {meaning}"
                    ),
                )),
                _ => Ok(()),
            }
        };
        differs(
            "UID",
            &self.uid,
            "/metadata/uid",
            "deleted and then recreated",
        )?;
        differs(
            "ResourceVersion",
            &self.revision,
            "/metadata/resourceVersion",
            "modified",
        )
    }
}

/// A pod's grace period in seconds: none when it never ran or has ended, else the requested one, else its own.
pub fn grace(pod: &Value, asked: Option<u64>) -> u64 {
    let done = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    if done || text(pod, "/spec/nodeName").is_empty() {
        return 0;
    }
    let own = pod
        .pointer("/spec/terminationGracePeriodSeconds")
        .and_then(Value::as_u64)
        .unwrap_or(30);
    asked.unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::spec;

    #[test]
    fn pods_are_mostly_immutable() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "a", "image": "1"}], "tolerations": [{"key": "a"}]}});
        let mut image = pod.clone();
        image["spec"]["containers"][0]["image"] = "2".into();
        image["spec"]["tolerations"] = json!([{"key": "a"}, {"key": "b"}]);
        assert!(update(&pod, &image, spec(Resource::Pods)).is_ok());
        let mut moved = pod.clone();
        moved["spec"]["nodeName"] = "m".into();
        assert_eq!(
            update(&pod, &moved, spec(Resource::Pods)).unwrap_err().code,
            422
        );
        let mut intolerant = pod.clone();
        intolerant["spec"]["tolerations"] = json!([]);
        assert!(update(&pod, &intolerant, spec(Resource::Pods)).is_err());
    }

    #[test]
    fn preconditions_hold_or_conflict() {
        let object = json!({"metadata": {"name": "p", "uid": "u", "resourceVersion": "5"}});
        let checked = |uid: &str, version: &str| {
            let options = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
            Deletion::of_options(&options)
                .expect("valid")
                .check(&object, spec(Resource::Pods))
        };
        assert!(checked("u", "5").is_ok() && checked("", "").is_ok());
        assert_eq!(checked("v", "5").unwrap_err().code, 409);
        assert_eq!(checked("u", "4").unwrap_err().code, 409);
    }

    #[test]
    fn shapes_are_checked() {
        let nodeless =
            json!({"metadata": {"name": "Bad_Name", "labels": {"a": "b c"}}, "spec": {}});
        let body = shape(&nodeless, spec(Resource::Pods)).unwrap_err().body();
        let causes = body["details"]["causes"].as_array().map_or(0, Vec::len);
        assert_eq!((body["code"].as_i64(), causes), (Some(422), 3), "{body}");
    }
}
