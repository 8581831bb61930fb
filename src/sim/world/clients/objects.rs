//! Pods and controllers that clients create: parses the written objects into the world's own form.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use model::base::quantities::{quantity, quantity_milli};
use model::base::time::parse_span;
use model::base::{Name, ObjectKey};

use super::requests::{number, text};
use crate::change::Resource;
use crate::world::World;
use crate::world::noise::{hash, suffix};
use crate::world::render::template_of;
use crate::world::work::{Profile, SimToleration, WorkKind, WorkParameters, WorkloadRequests};

impl World {
    /// Value of a priority class: the catalog's, or one that a client made.
    pub(in crate::world) fn priority_of(&self, class: &str) -> i32 {
        self.plain
            .get(&(Resource::PriorityClasses, ObjectKey::new("", class)))
            .and_then(|object| object.get("value"))
            .and_then(Value::as_i64)
            .map_or(0, |value| value as i32)
    }

    /// A client made a pod or a controller.
    pub(in crate::world) fn create(&mut self, kind: WorkKind, key: &ObjectKey, mut object: Value) {
        strip(&mut object);
        let template = template_of(&object, kind)
            .cloned()
            .unwrap_or_else(|| json!({}));
        let spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
        let mut draft = WorkParameters::new(&key.namespace, &key.name, kind);
        let label = |name: &str| {
            let path = format!("/metadata/labels/{}", name.replace('/', "~1"));
            object
                .pointer(&path)
                .or_else(|| template.pointer(&path))
                .and_then(Value::as_str)
                .map(Name::new)
        };
        draft.queue = label("kueue.x-k8s.io/queue-name");
        draft.team = label("team").unwrap_or(draft.team);
        draft.class = Name::new(text(&spec, "/priorityClassName"));
        draft.priority = self.priority_of(&draft.class);
        draft.ask = ask(&spec);
        draft.selector = strings(spec.get("nodeSelector"));
        draft.tolerations = tolerations(&spec);
        let devices = draft.ask.count > 0;
        (draft.profile, draft.util, draft.memory) = match (kind, devices) {
            (_, false) => (Profile::Infra, 0.0, 0.0),
            (WorkKind::JobSet, true) => (Profile::Train, 0.88, 0.75),
            (WorkKind::Job | WorkKind::Pod, true) => (Profile::Sweep, 0.8, 0.6),
            _ => (Profile::Serve, 0.6, 0.88),
        };
        draft.length = object
            .pointer("/metadata/annotations/stokehold.dev~1runtime-estimate")
            .and_then(Value::as_str)
            .and_then(parse_span)
            .map_or(if devices { 1_800_000 } else { 60_000 }, |span| {
                span.as_millis() as i64
            });
        draft.held = object
            .pointer("/spec/suspend")
            .and_then(Value::as_bool)
            .unwrap_or(false)
            && draft.queue.is_none();
        draft.groups = groups(&object, kind, key);
        draft.gang = kind == WorkKind::JobSet;
        let bare = kind == WorkKind::Pod;
        draft.foreign = Some(Arc::new(object));
        let id = self.begin(draft, self.now);
        if bare {
            self.make_pod(id, 0, 0);
            self.kick_scheduler();
        }
    }
}

/// Removes what the API server keeps: status, version and field owners.
pub(in crate::world) fn strip(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
}

/// The texts of a map of texts.
pub(in crate::world) fn strings(object: Option<&Value>) -> BTreeMap<Name, Name> {
    object
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((Name::new(key), Name::new(value.as_str()?))))
        .collect()
}

pub(in crate::world) fn tolerations(spec: &Value) -> Vec<SimToleration> {
    spec.get("tolerations")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|row| SimToleration {
            key: Name::new(text(row, "/key")),
            value: (text(row, "/operator") != "Exists").then(|| Name::new(text(row, "/value"))),
            effect: Name::new(text(row, "/effect")),
            seconds: row.get("tolerationSeconds").and_then(Value::as_i64),
        })
        .collect()
}

/// What the containers of a pod ask for together.
pub(in crate::world) fn ask(spec: &Value) -> WorkloadRequests {
    let mut ask = WorkloadRequests::default();
    for container in spec
        .get("containers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let mut amounts: Map<String, Value> = Map::new();
        for section in ["limits", "requests"] {
            if let Some(Value::Object(rows)) = container.pointer(&format!("/resources/{section}")) {
                amounts.extend(rows.clone());
            }
        }
        for (name, amount) in amounts {
            let written = amount
                .as_str()
                .map_or_else(|| amount.to_string(), str::to_owned);
            match name.as_str() {
                "cpu" => ask.cpu_milli += quantity_milli(&written).unwrap_or(0),
                "memory" => ask.memory_mib += quantity(&written).unwrap_or(0) / 1_048_576,
                name if name.contains('/') => {
                    ask.resource = Some(Name::new(name));
                    ask.count += quantity(&written).unwrap_or(0).clamp(0, 1 << 20) as u32;
                }
                _ => {}
            }
        }
    }
    ask
}

/// Groups of a controller that a client wrote: name, pods at the same time, completions.
fn groups(object: &Value, kind: WorkKind, key: &ObjectKey) -> Vec<(Name, u32, u32)> {
    let own = key.name.clone();
    match kind {
        WorkKind::Job => {
            let parallelism = number(object, "/spec/parallelism").unwrap_or(1);
            let completions = number(object, "/spec/completions").unwrap_or(parallelism.max(1));
            vec![(own, parallelism, completions)]
        }
        WorkKind::JobSet => {
            let jobs = object
                .pointer("/spec/replicatedJobs")
                .and_then(Value::as_array);
            let all: Vec<(Name, u32, u32)> = jobs
                .into_iter()
                .flatten()
                .flat_map(|job| {
                    let name = text(job, "/name").to_owned();
                    let parallelism = number(job, "/template/spec/parallelism").unwrap_or(1);
                    let completions =
                        number(job, "/template/spec/completions").unwrap_or(parallelism);
                    let own = key.name.clone();
                    (0..number(job, "/replicas").unwrap_or(1)).map(move |at| {
                        (
                            Name::from(format!("{own}-{name}-{at}")),
                            parallelism,
                            completions,
                        )
                    })
                })
                .collect();
            if all.is_empty() {
                vec![(own, 1, 1)]
            } else {
                all
            }
        }
        WorkKind::Deployment => {
            let replicas = number(object, "/spec/replicas").unwrap_or(1);
            let name = Name::from(format!(
                "{own}-{}",
                suffix(hash(&object["spec"]["template"].to_string()), 10)
            ));
            vec![(name, replicas, replicas)]
        }
        WorkKind::StatefulSet => {
            let replicas = number(object, "/spec/replicas").unwrap_or(1);
            vec![(own, replicas, replicas)]
        }
        WorkKind::DaemonSet
        | WorkKind::Pod
        | WorkKind::PyTorchJob
        | WorkKind::RayJob
        | WorkKind::VolcanoJob
        | WorkKind::LeaderWorkerSet => {
            vec![(own, 1, 1)]
        }
    }
}
