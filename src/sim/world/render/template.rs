//! Pod templates: what a work's pods are made from.

use serde_json::{Map, Value, json};

use model::base::Name;

use super::super::World;
use super::super::pod::SimPod;
use super::super::work::{Profile, SimToleration, Work, WorkKind};
use super::{Fill, fill_missing, filled, values};

impl World {
    /// The name of a pod's (first) container.
    pub(in super::super) fn container_name(&self, pod: &SimPod, work: &Work) -> String {
        let written = pod
            .foreign
            .as_deref()
            .and_then(|object| template_of(object, work.kind))
            .and_then(|template| template.pointer("/spec/containers/0/name"));
        if let Some(name) = written.and_then(Value::as_str) {
            return name.to_owned();
        }
        container_of(work).to_owned()
    }

    /// Labels that the template of a work gives its pods.
    pub(in super::super) fn template_labels(&self, work: &Work) -> Map<String, Value> {
        self.labels_from(work, work.foreign.as_deref())
    }

    /// The same from the controller, or the bare pod, as a client had written it.
    pub(super) fn labels_from(&self, work: &Work, written: Option<&Value>) -> Map<String, Value> {
        if let Some(object) = written {
            let labels = template_of(object, work.kind)
                .and_then(|template| template.pointer("/metadata/labels"));
            return match labels {
                Some(Value::Object(labels)) => labels.clone(),
                _ => Map::new(),
            };
        }
        let mut labels = texts(work.labels.iter().map(|(key, value)| (key, value)));
        if work.kind == WorkKind::DaemonSet {
            return labels;
        }
        for (key, value) in [
            ("app", &work.name),
            ("team", &work.team),
            ("owner", &work.user),
        ] {
            if !value.is_empty() {
                labels.insert(key.to_owned(), value.value());
            }
        }
        labels
    }

    /// The pod template's spec.
    pub(in super::super) fn template_spec(&self, work: &Work) -> Value {
        self.spec_from(work, work.foreign.as_deref())
    }

    /// The same from the controller, or the bare pod, as a client had written it.
    pub(super) fn spec_from(&self, work: &Work, written: Option<&Value>) -> Value {
        if let Some(object) = written {
            let mut spec = template_of(object, work.kind)
                .and_then(|template| template.get("spec"))
                .cloned()
                .unwrap_or_else(|| json!({}));
            fill_spec(&mut spec, work);
            return spec;
        }
        let amounts = || {
            let ask = &work.ask;
            let mut amounts = Map::new();
            amounts.insert("cpu".into(), cpu_text(ask.cpu_milli).value());
            amounts.insert("memory".into(), memory_text(ask.memory_mib).value());
            if let (Some(name), None) = (&ask.resource, &ask.claim) {
                amounts.insert(name.to_string(), ask.count.to_string().value());
            }
            amounts
        };
        let port = port_of(work);
        let behavior = values!(name: &work.name, port: port.map(|(port, _)| port), path: port.map(|(_, path)| path));
        let ends = work.kind.is_batch() || work.kind == WorkKind::Pod;
        let own = values!(
            restart: if ends { "Never" } else { "Always" },
            scheduler: work.scheduler.name(),
            selector: texts(work.selector.iter()),
            class: some_text(&work.class),
            tolerations: work.tolerations.iter().map(toleration).collect::<Vec<Value>>(),
            claim: work.ask.claim.as_ref(),
            container: container_of(work),
            image: work.image,
            requests: amounts(),
            limits: amounts(),
            behavior: filled(&format!("container-{:?}", work.profile), behavior),
        );
        filled("pod-spec", own)
    }
}

/// Names as an object of texts.
pub(in super::super) fn texts<'a>(
    pairs: impl Iterator<Item = (&'a Name, &'a Name)>,
) -> Map<String, Value> {
    pairs
        .map(|(key, value)| (key.to_string(), value.value()))
        .collect()
}

/// A name that is not empty.
pub(super) fn some_text(name: &Name) -> Option<&Name> {
    Some(name).filter(|name| !name.is_empty())
}

/// The pod template inside a controller.
pub(in super::super) fn template_of(object: &Value, kind: WorkKind) -> Option<&Value> {
    match kind {
        WorkKind::JobSet => object.pointer("/spec/replicatedJobs/0/template/spec/template"),
        WorkKind::Pod => Some(object),
        _ => object.pointer("/spec/template"),
    }
}

fn container_of(work: &Work) -> &'static str {
    match work.kind {
        // The training operator looks for the container of this name.
        WorkKind::PyTorchJob => return "pytorch",
        WorkKind::RayJob => return "ray",
        _ => {}
    }
    match work.profile {
        Profile::Serve => "server",
        Profile::Notebook => "notebook",
        Profile::Eval => "eval",
        Profile::Infra => match &*work.name {
            "nvidia-dcgm-exporter" | "nvidia-dcgm-exporter-mig" => "nvidia-dcgm-exporter",
            "tpu-device-plugin" => "tpu-device-plugin",
            "default-metrics-exporter" => "metrics-exporter-container",
            _ => "main",
        },
        _ => "trainer",
    }
}

/// Port and readiness path of an exporter.
pub(in super::super) fn port_of(work: &Work) -> Option<(u16, &'static str)> {
    match &*work.name {
        "nvidia-dcgm-exporter" => Some((9400, "/health")),
        "tpu-device-plugin" => Some((2112, "/metrics")),
        "default-metrics-exporter" => Some((5000, "/metrics")),
        _ => None,
    }
}

fn toleration(toleration: &SimToleration) -> Value {
    let operator = match &toleration.value {
        Some(_) => "Equal",
        None => "Exists",
    };
    let own = values!(
        key: some_text(&toleration.key),
        operator: operator,
        value: toleration.value.as_ref(),
        effect: some_text(&toleration.effect),
        seconds: toleration.seconds,
    );
    filled("toleration", own)
}

/// Defaults that the API server would have filled in.
fn fill_spec(spec: &mut Value, work: &Work) {
    let policy = if work.kind.is_batch() {
        "Never"
    } else {
        "Always"
    };
    let defaults = |template| filled(template, values!(restart: policy));
    let Some(fields) = spec.as_object_mut() else {
        return;
    };
    fill_missing(fields, defaults("pod-spec-defaults"));
    let containers = fields.get_mut("containers").and_then(Value::as_array_mut);
    for container in containers
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        fill_missing(container, defaults("container-defaults"));
        let resources = container
            .entry("resources")
            .or_insert(Value::Object(Map::new()));
        // Requests default to limits.
        if let Some(Value::Object(limits)) = resources.get("limits").cloned() {
            for (name, amount) in limits {
                if resources["requests"].get(&name).is_none() {
                    resources["requests"][name] = amount;
                }
            }
        }
    }
}

fn cpu_text(milli: i64) -> String {
    if milli % 1000 == 0 {
        (milli / 1000).to_string()
    } else {
        format!("{milli}m")
    }
}

fn memory_text(mib: i64) -> String {
    if mib % 1024 == 0 {
        format!("{}Gi", mib / 1024)
    } else {
        format!("{mib}Mi")
    }
}
