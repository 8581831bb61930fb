//! Pods: the template that their work gives them, and what became of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::World;
use super::super::noise::{hash, hex, mix, suffix};
use super::super::pod::{Phase, Pod};
use super::super::work::{Kind, Profile, Toleration, Work};
use super::{api_of, condition, metadata, owner};

impl World {
    /// The name of a pod's (first) container.
    pub(in super::super) fn container_name(&self, pod: &Pod, work: &Work) -> String {
        let written = pod
            .foreign
            .as_deref()
            .and_then(|object| object.pointer("/spec/containers/0/name"))
            .or_else(|| {
                let object = work.foreign.as_deref()?;
                template_of(object, work.kind)?.pointer("/spec/containers/0/name")
            });
        if let Some(name) = written.and_then(Value::as_str) {
            return name.to_owned();
        }
        container_of(work).to_owned()
    }

    /// Labels that the template of a work gives its pods.
    pub(in super::super) fn template_labels(&self, work: &Work) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        if let Some(object) = &work.foreign {
            let written = if work.kind == Kind::Pod {
                object.pointer("/metadata/labels")
            } else {
                template_of(object, work.kind)
                    .and_then(|template| template.pointer("/metadata/labels"))
            };
            if let Some(Value::Object(fields)) = written {
                for (key, value) in fields {
                    labels.insert(key.clone(), value.as_str().unwrap_or_default().to_owned());
                }
            }
            return labels;
        }
        for (key, value) in &work.labels {
            labels.insert(key.to_string(), value.to_string());
        }
        if work.kind == Kind::DaemonSet {
            return labels;
        }
        labels.insert("app".into(), work.name.to_string());
        if !work.team.is_empty() {
            labels.insert("team".into(), work.team.to_string());
        }
        if !work.user.is_empty() {
            labels.insert("owner".into(), work.user.to_string());
        }
        labels
    }

    /// The labels of one pod.
    pub(in super::super) fn pod_labels(&self, pod: &Pod, work: &Work) -> BTreeMap<String, String> {
        let mut labels = self.template_labels(work);
        let Some(group) = work.groups.get(pod.group as usize) else {
            return labels;
        };
        match work.kind {
            Kind::JobSet | Kind::Job => {
                let uid = super::super::noise::uuid(group_uid(work, pod.group));
                for key in ["batch.kubernetes.io/job-name", "job-name"] {
                    labels.insert(key.into(), group.name.to_string());
                }
                for key in ["batch.kubernetes.io/controller-uid", "controller-uid"] {
                    labels.insert(key.into(), uid.clone());
                }
                labels.insert(
                    "batch.kubernetes.io/job-completion-index".into(),
                    pod.index.to_string(),
                );
                if work.kind == Kind::JobSet {
                    labels.insert(
                        "jobset.sigs.k8s.io/jobset-name".into(),
                        work.name.to_string(),
                    );
                    labels.insert(
                        "jobset.sigs.k8s.io/replicatedjob-name".into(),
                        "workers".into(),
                    );
                    labels.insert(
                        "jobset.sigs.k8s.io/replicatedjob-replicas".into(),
                        work.groups.len().to_string(),
                    );
                    labels.insert("jobset.sigs.k8s.io/job-index".into(), pod.group.to_string());
                    labels.insert(
                        "jobset.sigs.k8s.io/restart-attempt".into(),
                        work.restarts.to_string(),
                    );
                }
            }
            Kind::Deployment => {
                labels.insert("pod-template-hash".into(), template_hash(work));
            }
            Kind::StatefulSet => {
                labels.insert(
                    "statefulset.kubernetes.io/pod-name".into(),
                    pod.key.name.to_string(),
                );
                labels.insert("apps.kubernetes.io/pod-index".into(), pod.index.to_string());
                labels.insert(
                    "controller-revision-hash".into(),
                    format!("{}-{}", work.name, suffix(work.uid, 9)),
                );
            }
            Kind::DaemonSet => {
                labels.insert("controller-revision-hash".into(), suffix(work.uid, 10));
                labels.insert("pod-template-generation".into(), "1".into());
            }
            Kind::Pod => {}
        }
        labels
    }

    /// The pod template's spec.
    pub(in super::super) fn template_spec(&self, work: &Work) -> Value {
        if let Some(object) = &work.foreign {
            let spec = if work.kind == Kind::Pod {
                object.get("spec")
            } else {
                template_of(object, work.kind).and_then(|template| template.get("spec"))
            };
            let mut spec = spec.cloned().unwrap_or_else(|| json!({}));
            fill_spec(&mut spec, work);
            return spec;
        }
        let mut amounts = Map::new();
        amounts.insert("cpu".into(), json!(cpu_text(work.ask.cpu_milli)));
        amounts.insert("memory".into(), json!(memory_text(work.ask.memory_mib)));
        if let Some(name) = &work.ask.resource {
            amounts.insert(name.to_string(), json!(work.ask.count.to_string()));
        }
        let mut container = json!({
            "name": container_of(work),
            "image": work.image,
            "imagePullPolicy": "IfNotPresent",
            "resources": {"requests": amounts.clone(), "limits": amounts},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        });
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
            "containers": [container],
            "restartPolicy": if work.kind.is_batch() || work.kind == Kind::Pod { "Never" } else { "Always" },
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "securityContext": {},
        });
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

    pub(super) fn render_pod(&self, pod: &Pod) -> Option<Value> {
        let mut object = self.render_pod_base(pod)?;
        pod.edit.apply(&mut object);
        Some(object)
    }

    /// The pod without what clients wrote.
    pub(in super::super) fn render_pod_base(&self, pod: &Pod) -> Option<Value> {
        let work = self.works.get(&pod.work)?;
        let group = work.groups.get(pod.group as usize)?;
        let mut meta = metadata(&pod.key.namespace, &pod.key.name, pod.uid, pod.created);
        meta["labels"] = json!(self.pod_labels(pod, work));
        let mut annotations = Map::new();
        if let Some(object) = &pod.foreign
            && let Some(Value::Object(written)) = object.pointer("/metadata/annotations")
        {
            annotations.extend(written.clone());
        }
        if work.kind.is_batch() {
            annotations.insert(
                "batch.kubernetes.io/job-completion-index".into(),
                json!(pod.index.to_string()),
            );
        }
        if work.kind == Kind::JobSet {
            annotations.insert("jobset.sigs.k8s.io/jobset-name".into(), json!(&*work.name));
            if work.sliced {
                annotations.insert(
                    "alpha.jobset.sigs.k8s.io/exclusive-topology".into(),
                    json!("cloud.google.com/gke-nodepool"),
                );
            }
        }
        if !annotations.is_empty() {
            meta["annotations"] = Value::Object(annotations);
        }
        let generated = match work.kind {
            Kind::JobSet | Kind::Job => Some(format!("{}-{}-", group.name, pod.index)),
            Kind::StatefulSet | Kind::DaemonSet => Some(format!("{}-", work.name)),
            Kind::Deployment => Some(format!("{}-", group.name)),
            Kind::Pod => None,
        };
        if let Some(prefix) = generated {
            meta["generateName"] = json!(prefix);
        }
        let reference = match work.kind {
            Kind::Pod => None,
            Kind::JobSet => Some(("Job", &group.name, group_uid(work, pod.group))),
            Kind::Deployment => Some(("ReplicaSet", &group.name, group_uid(work, pod.group))),
            kind => Some((kind.word(), &work.name, work.uid)),
        };
        if let Some((kind, name, uid)) = reference {
            meta["ownerReferences"] = owner(api_of(kind), kind, name, uid);
        }
        if let Some((at, grace)) = pod.deleting {
            meta["deletionTimestamp"] = json!(at.rfc3339());
            meta["deletionGracePeriodSeconds"] = json!(grace);
        }
        let mut spec = self.template_spec(work);
        self.bind_spec(&mut spec, pod, work);
        let status = self.pod_status(pod, work, &spec);
        Some(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}),
        )
    }

    fn bind_spec(&self, spec: &mut Value, pod: &Pod, work: &Work) {
        if let Some(node) = pod.node {
            spec["nodeName"] = json!(&*self.nodes[node].name);
        }
        spec["serviceAccount"] = json!("default");
        spec["serviceAccountName"] = json!("default");
        spec["enableServiceLinks"] = json!(true);
        spec["preemptionPolicy"] = json!("PreemptLowerPriority");
        spec["priority"] = json!(work.priority);
        if work.kind.is_batch() {
            let group = work
                .groups
                .get(pod.group as usize)
                .map(|group| &*group.name)
                .unwrap_or_default();
            spec["hostname"] = json!(format!("{group}-{}", pod.index));
        }
        if work.kind == Kind::DaemonSet {
            return;
        }
        let mut tolerations = spec
            .get("tolerations")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        for key in [
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        ] {
            if !tolerations.iter().any(|have| have["key"] == key) {
                tolerations.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
            }
        }
        spec["tolerations"] = Value::Array(tolerations);
    }

    fn pod_status(&self, pod: &Pod, work: &Work, spec: &Value) -> Value {
        let node_ready = pod.node.is_none_or(|node| self.nodes[node].ready);
        let mut status = Map::new();
        status.insert("phase".into(), json!(pod.phase.word()));
        status.insert("qosClass".into(), json!(qos(spec)));
        let mut conditions = Vec::new();
        let ready_at = pod
            .ready
            .or(pod.finished)
            .or(pod.started)
            .or(pod.scheduled)
            .unwrap_or(pod.created);
        let is_ready = pod.is_ready() && node_ready;
        let reason = match pod.phase {
            Phase::Succeeded => "PodCompleted",
            Phase::Failed => "PodFailed",
            _ if is_ready => "",
            _ => "ContainersNotReady",
        };
        let unready = if reason == "ContainersNotReady" {
            format!(
                "containers with unready status: [{}]",
                self.container_name(pod, work)
            )
        } else {
            String::new()
        };
        let flag = |on: bool| if on { "True" } else { "False" };
        match pod.node {
            Some(_) => {
                let scheduled = pod.scheduled.unwrap_or(pod.created);
                conditions.push(condition(
                    "PodReadyToStartContainers",
                    flag(pod.phase == Phase::Running),
                    "",
                    "",
                    pod.started.unwrap_or(scheduled),
                ));
                conditions.push(condition(
                    "Initialized",
                    "True",
                    if pod.phase == Phase::Succeeded {
                        "PodCompleted"
                    } else {
                        ""
                    },
                    "",
                    scheduled,
                ));
                conditions.push(condition(
                    "Ready",
                    flag(is_ready),
                    reason,
                    &unready,
                    ready_at,
                ));
                conditions.push(condition(
                    "ContainersReady",
                    flag(pod.is_ready()),
                    reason,
                    &unready,
                    ready_at,
                ));
                conditions.push(condition("PodScheduled", "True", "", "", scheduled));
            }
            None => {
                if let Some((message, _)) = &pod.verdict {
                    conditions.push(condition(
                        "PodScheduled",
                        "False",
                        "Unschedulable",
                        message,
                        pod.created,
                    ));
                }
            }
        }
        if let Some((reason, message, at)) = &pod.disrupted {
            conditions.push(condition("DisruptionTarget", "True", reason, message, *at));
        }
        for row in &mut conditions {
            row["lastProbeTime"] = Value::Null;
        }
        if !conditions.is_empty() {
            status.insert("conditions".into(), Value::Array(conditions));
        }
        if let Some((reason, message)) = &pod.reason {
            status.insert("reason".into(), json!(&**reason));
            status.insert("message".into(), json!(&**message));
        }
        if let (Some(node), Some(scheduled)) = (pod.node, pod.scheduled) {
            let host = self.node_ip(node);
            status.insert("hostIP".into(), json!(host));
            status.insert("hostIPs".into(), json!([{"ip": host}]));
            status.insert("startTime".into(), json!(scheduled.rfc3339()));
            if pod.started.is_some() {
                let ip = self.pod_ip(pod, node);
                status.insert("podIP".into(), json!(ip));
                status.insert("podIPs".into(), json!([{"ip": ip}]));
            }
            status.insert(
                "containerStatuses".into(),
                self.container_statuses(pod, work, spec),
            );
        }
        Value::Object(status)
    }

    fn pod_ip(&self, pod: &Pod, node: usize) -> String {
        format!(
            "10.{}.{}.{}",
            128 + (node >> 8 & 63),
            node & 255,
            4 + mix(pod.uid, 13) % 250
        )
    }

    fn container_statuses(&self, pod: &Pod, work: &Work, spec: &Value) -> Value {
        let Some(containers) = spec.get("containers").and_then(Value::as_array) else {
            return json!([]);
        };
        let rows = containers
            .iter()
            .enumerate()
            .map(|(at, container)| {
                let name = container["name"].as_str().unwrap_or_default();
                let image = container["image"].as_str().unwrap_or_default();
                let id = format!("containerd://{}", hex(mix(pod.uid, 80 + at as u64 + u64::from(pod.restarts)), 64));
                let running = pod.phase == Phase::Running;
                let state = match (pod.phase, pod.started) {
                    (Phase::Pending, _) | (_, None) => json!({"waiting": {"reason": "ContainerCreating"}}),
                    (Phase::Running, Some(started)) => json!({"running": {"startedAt": started.rfc3339()}}),
                    (_, Some(started)) => {
                        let ending = pod.ending.unwrap_or(super::super::pod::Ending::Success);
                        json!({"terminated": {
                            "exitCode": ending.code(),
                            "reason": ending.reason(),
                            "startedAt": started.rfc3339(),
                            "finishedAt": pod.finished.unwrap_or(started).rfc3339(),
                            "containerID": id,
                        }})
                    }
                };
                let last = pod.last.map_or_else(
                    || json!({}),
                    |run| {
                        json!({"terminated": {
                            "exitCode": run.ending.code(),
                            "reason": run.ending.reason(),
                            "startedAt": run.started.rfc3339(),
                            "finishedAt": run.finished.rfc3339(),
                            "containerID": format!("containerd://{}", hex(mix(pod.uid, 79), 64)),
                        }})
                    },
                );
                let mut row = json!({
                    "name": name,
                    "image": image,
                    "imageID": format!("{}@sha256:{}", image.split(':').next().unwrap_or_default(), hex(hash(image), 64)),
                    "ready": pod.is_ready(),
                    "started": running,
                    "restartCount": pod.restarts,
                    "state": state,
                    "lastState": last,
                });
                if pod.started.is_some() {
                    row["containerID"] = json!(id);
                } else {
                    row["imageID"] = json!("");
                }
                row
            })
            .collect();
        let _ = work;
        Value::Array(rows)
    }
}

/// The uid word of the object that owns a group's pods.
pub(in super::super) fn group_uid(work: &Work, group: u32) -> u64 {
    match work.kind {
        Kind::JobSet | Kind::Deployment => work
            .groups
            .get(group as usize)
            .map_or(work.uid, |group| group.uid),
        _ => work.uid,
    }
}

/// `pod-template-hash`: the tail of the ReplicaSet's name.
pub(in super::super) fn template_hash(work: &Work) -> String {
    work.groups
        .first()
        .and_then(|group| group.name.rsplit('-').next().map(str::to_owned))
        .unwrap_or_default()
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

fn qos(spec: &Value) -> &'static str {
    let Some(containers) = spec.get("containers").and_then(Value::as_array) else {
        return "BestEffort";
    };
    let (mut any, mut all) = (false, true);
    for container in containers {
        for resource in ["cpu", "memory"] {
            let request = container.pointer(&format!("/resources/requests/{resource}"));
            let limit = container.pointer(&format!("/resources/limits/{resource}"));
            any |= request.is_some() || limit.is_some();
            all &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
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
