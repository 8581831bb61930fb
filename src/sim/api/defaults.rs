//! What the server fills in on a new object: identity, defaults, the first status.

use serde_json::{Map, Value, json};

use super::status::ApiStatus;
use crate::change::Resource;
use crate::cluster::Core;
use crate::json::{list, map_mut, name, text};
use crate::resource::Spec;
use model::base::Moment;

/// Fills in what the server sets on a new object.
///
/// # Errors
/// 400 when a revision is set, 422 when it has no name.
pub fn begin(
    core: &mut Core,
    object: &mut Value,
    spec: &Spec,
    now: Moment,
) -> Result<(), ApiStatus> {
    if !text(object, "/metadata/resourceVersion").is_empty() {
        return Err(ApiStatus::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let serial = core.next_serial();
    let uid = core.uid(serial);
    let metadata = map_mut(object, "metadata");
    let base = metadata
        .get("generateName")
        .and_then(Value::as_str)
        .unwrap_or("")
        .to_owned();
    let unnamed = metadata
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or("")
        .is_empty();
    if unnamed && base.is_empty() {
        return Err(ApiStatus::invalid(
            spec,
            "",
            vec![(
                "FieldValueRequired",
                "Required value: name or generateName is required".into(),
                "metadata.name".into(),
            )],
        ));
    }
    if unnamed {
        // Letters that spell no words, as the real server chooses them, drawn from the uid.
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let suffix: String = uid
            .bytes()
            .filter(u8::is_ascii_hexdigit)
            .collect::<Vec<_>>()
            .chunks(3)
            .take(5)
            .map(|chunk| {
                let number = chunk.iter().fold(0usize, |n, b| n * 31 + usize::from(*b));
                char::from(LETTERS[number % LETTERS.len()])
            })
            .collect();
        metadata.insert("name".into(), format!("{base}{suffix}").into());
    }
    for key in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
    ] {
        metadata.remove(key);
    }
    metadata.insert("uid".into(), uid.as_str().into());
    metadata.insert("creationTimestamp".into(), now.rfc3339().into());
    if spec.has_generation() {
        metadata.insert("generation".into(), 1.into());
    } else {
        metadata.remove("generation");
    }
    let own_name = metadata.get("name").cloned().unwrap_or_default();
    if spec.has_status() && !spec.is_custom() && spec.resource != Resource::Nodes {
        object["status"] = json!({});
    }
    let kind = spec.resource;
    match kind {
        Resource::Namespaces => {
            let metadata = map_mut(object, "metadata");
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            if let Some(labels) = labels.as_object_mut() {
                labels.insert("kubernetes.io/metadata.name".into(), own_name);
            }
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
        }
        Resource::Pods => {
            default_pod(map_mut(object, "spec"));
            object["status"] = json!({"phase": "Pending", "qosClass": quality(object)});
        }
        Resource::Jobs => {
            default_job(object, &uid);
            default_template(object);
        }
        Resource::Deployments | Resource::ReplicaSets | Resource::StatefulSets => {
            let spec = map_mut(object, "spec");
            fill(spec, json!({"replicas": 1}));
            if kind == Resource::Deployments {
                let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
                let rest = json!({"progressDeadlineSeconds": 600, "revisionHistoryLimit": 10});
                fill(spec, json!({"strategy": rolling}));
                fill(spec, rest);
            }
            default_template(object);
        }
        Resource::DaemonSets => default_template(object),
        Resource::PersistentVolumeClaims => {
            let spec = map_mut(object, "spec");
            fill(spec, json!({"volumeMode": "Filesystem"}));
            // There are no volumes: a claim is never bound.
            object["status"] = json!({"phase": "Pending"});
        }
        _ => {}
    }
    Ok(())
}

/// Fills in a workload's pod template, but not what only admission fills in on a pod.
fn default_template(object: &mut Value) {
    let template = map_mut(object, "spec")
        .entry("template")
        .or_insert_with(|| json!({}));
    let spec = map_mut(template, "spec");
    let own: Vec<&str> = ADMITTED
        .iter()
        .copied()
        .filter(|key| spec.contains_key(*key))
        .collect();
    default_pod(spec);
    spec.retain(|key, _| !ADMITTED.contains(&key.as_str()) || own.contains(&key.as_str()));
}

/// Fields of a pod's spec that admission fills in, on pods but not on templates.
const ADMITTED: &[&str] = &[
    "serviceAccountName",
    "serviceAccount",
    "enableServiceLinks",
    "preemptionPolicy",
    "priority",
];

/// Sets the fields that are absent.
fn fill(map: &mut Map<String, Value>, defaults: Value) {
    if let Value::Object(defaults) = defaults {
        for (key, value) in defaults {
            map.entry(key).or_insert(value);
        }
    }
}

fn default_pod(spec: &mut Map<String, Value>) {
    let defaults = json!({
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "enableServiceLinks": true,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
    });
    fill(spec, defaults);
    for key in ["containers", "initContainers"] {
        let containers = spec.get_mut(key).and_then(Value::as_array_mut);
        let containers = containers.into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            let image = container.get("image").and_then(Value::as_str).unwrap_or("");
            let tagged = image.rsplit('/').next().unwrap_or("");
            let latest = !tagged.contains([':', '@']) || tagged.ends_with(":latest");
            let defaults = json!({
                "imagePullPolicy": if latest { "Always" } else { "IfNotPresent" },
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            });
            fill(container, defaults);
        }
    }
}

/// The quality of service that a pod's requests and limits earn.
fn quality(pod: &Value) -> &'static str {
    let containers = list(pod, "/spec/containers");
    let set =
        |c: &Value, what: &str, of: &str| c.pointer(&format!("/resources/{what}/{of}")).cloned();
    let any = containers.iter().any(|c| {
        ["requests", "limits"]
            .iter()
            .any(|w| ["cpu", "memory"].iter().any(|o| set(c, w, o).is_some()))
    });
    let guaranteed = containers.iter().all(|c| {
        ["cpu", "memory"].iter().all(|of| {
            let limit = set(c, "limits", of);
            limit.is_some() && set(c, "requests", of).is_none_or(|r| Some(r) == limit)
        })
    });
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn default_job(object: &mut Value, uid: &str) {
    let job = name(object).to_owned();
    let spec = map_mut(object, "spec");
    if !spec.contains_key("parallelism") && !spec.contains_key("completions") {
        spec.insert("completions".into(), 1.into());
    }
    let defaults = json!({
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": false,
        "manualSelector": false,
        "podReplacementPolicy": "TerminatingOrFailed",
    });
    fill(spec, defaults);
    if spec.get("manualSelector") != Some(&Value::Bool(true)) {
        spec.insert(
            "selector".into(),
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}),
        );
        let labels = json!({
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": job,
            "controller-uid": uid,
            "job-name": job,
        });
        let template = spec.entry("template").or_insert_with(|| json!({}));
        let metadata = map_mut(template, "metadata");
        let own = metadata.entry("labels").or_insert_with(|| json!({}));
        if let (Some(own), Value::Object(labels)) = (own.as_object_mut(), labels) {
            own.extend(labels);
        }
    }
}
