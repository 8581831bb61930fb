//! Pod templates: what a work's pods are made from.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::World;
use super::super::claims::POD_CLAIM;
use super::super::pod::Pod;
use super::super::work::{Kind, Profile, Toleration, Work};
use super::object;

impl World {
    /// The name of a pod's (first) container.
    pub(in super::super) fn container_name(&self, pod: &Pod, work: &Work) -> String {
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
        let mut labels = Map::new();
        for (key, value) in &work.labels {
            labels.insert(key.to_string(), Value::String(value.to_string()));
        }
        if work.kind == Kind::DaemonSet {
            return labels;
        }
        labels.insert("app".into(), Value::String(work.name.to_string()));
        if !work.team.is_empty() {
            labels.insert("team".into(), Value::String(work.team.to_string()));
        }
        if !work.user.is_empty() {
            labels.insert("owner".into(), Value::String(work.user.to_string()));
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
        let mut amounts = Map::new();
        amounts.insert("cpu".into(), json!(cpu_text(work.ask.cpu_milli)));
        amounts.insert("memory".into(), json!(memory_text(work.ask.memory_mib)));
        if let (Some(name), None) = (&work.ask.resource, &work.ask.claim) {
            amounts.insert(name.to_string(), json!(work.ask.count.to_string()));
        }
        let mut container = json!({
            "name": container_of(work),
            "image": work.image,
            "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        });
        container["resources"] = object([
            ("requests", Value::Object(amounts.clone())),
            ("limits", Value::Object(amounts)),
        ]);
        if work.ask.claim.is_some() {
            container["resources"]["claims"] = json!([{"name": POD_CLAIM}]);
        }
        match work.profile {
            Profile::Infra => {
                if let Some((port, path)) = port_of(work) {
                    container["ports"] =
                        json!([{"name": "metrics", "containerPort": port, "protocol": "TCP"}]);
                    container["readinessProbe"] = json!({"httpGet": {"path": path, "port": port, "scheme": "HTTP"}, "initialDelaySeconds": 45, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
                }
            }
            Profile::Serve => {
                container["args"] = json!(["serve", "--port", "8000"]);
                container["ports"] =
                    json!([{"name": "http", "containerPort": 8000, "protocol": "TCP"}]);
                container["readinessProbe"] = json!({"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 5, "successThreshold": 1, "failureThreshold": 3});
            }
            Profile::Notebook => {
                container["args"] = json!(["jupyter", "lab", "--ip=0.0.0.0"]);
            }
            Profile::Eval => {
                container["command"] = json!(["python", "-m", "evals.run", "--suite", &*work.name])
            }
            _ => {
                container["command"] = json!([
                    "python",
                    "-m",
                    "train",
                    "--config",
                    format!("configs/{}.yaml", work.name)
                ])
            }
        }
        let mut spec = json!({
            "restartPolicy": if work.kind.is_batch() || work.kind == Kind::Pod { "Never" } else { "Always" },
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "schedulerName": work.scheduler.name(),
            "securityContext": {},
        });
        spec["containers"] = Value::Array(vec![container]);
        if let Some(template) = &work.ask.claim {
            spec["resourceClaims"] =
                json!([{"name": POD_CLAIM, "resourceClaimTemplateName": &**template}]);
        }
        if !work.selector.is_empty() {
            spec["nodeSelector"] = json!(
                work.selector
                    .iter()
                    .map(|(key, value)| (key.to_string(), value.to_string()))
                    .collect::<BTreeMap<_, _>>()
            );
        }
        if !work.class.is_empty() {
            spec["priorityClassName"] = json!(&*work.class);
        }
        if !work.tolerations.is_empty() {
            spec["tolerations"] = Value::Array(work.tolerations.iter().map(toleration).collect());
        }
        spec
    }
}

/// The pod template inside a controller.
pub(in super::super) fn template_of(object: &Value, kind: Kind) -> Option<&Value> {
    match kind {
        Kind::JobSet => object.pointer("/spec/replicatedJobs/0/template/spec/template"),
        Kind::Pod => Some(object),
        _ => object.pointer("/spec/template"),
    }
}

fn container_of(work: &Work) -> &'static str {
    match work.kind {
        // The training operator looks for the container of this name.
        Kind::PyTorchJob => return "pytorch",
        Kind::RayJob => return "ray",
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

fn toleration(toleration: &Toleration) -> Value {
    let mut fields = Map::new();
    if !toleration.key.is_empty() {
        fields.insert("key".into(), json!(&*toleration.key));
    }
    match &toleration.value {
        Some(value) => {
            fields.insert("operator".into(), json!("Equal"));
            fields.insert("value".into(), json!(&**value));
        }
        None => {
            fields.insert("operator".into(), json!("Exists"));
        }
    }
    if !toleration.effect.is_empty() {
        fields.insert("effect".into(), json!(&*toleration.effect));
    }
    if let Some(seconds) = toleration.seconds {
        fields.insert("tolerationSeconds".into(), json!(seconds));
    }
    Value::Object(fields)
}

/// Defaults that the API server would have filled in.
fn fill_spec(spec: &mut Value, work: &Work) {
    let Some(fields) = spec.as_object_mut() else {
        return;
    };
    let policy = if work.kind.is_batch() {
        "Never"
    } else {
        "Always"
    };
    for (key, value) in [
        ("restartPolicy", json!(policy)),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("securityContext", json!({})),
    ] {
        fields.entry(key).or_insert(value);
    }
    if let Some(containers) = fields.get_mut("containers").and_then(Value::as_array_mut) {
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            container
                .entry("imagePullPolicy")
                .or_insert(json!("IfNotPresent"));
            container
                .entry("terminationMessagePath")
                .or_insert(json!("/dev/termination-log"));
            container
                .entry("terminationMessagePolicy")
                .or_insert(json!("File"));
            let resources = container.entry("resources").or_insert(json!({}));
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
