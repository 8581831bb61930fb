//! Pods: the template that their work gives them, and what became of them.

use serde_json::{Map, Value, json};

use super::super::World;
use super::super::claims::POD_CLAIM;
use super::super::noise::{hash, hex, mix, suffix};
use super::super::pod::{Phase, Pod};
use super::super::work::{Kind, Work};
use super::template::template_of;
use super::{api_of, condition, metadata, object, owner};

impl World {
    /// The labels of one pod.
    pub(in super::super) fn pod_labels(&self, pod: &Pod, work: &Work) -> Map<String, Value> {
        let mut labels = self.labels_from(work, pod.foreign.as_deref());
        let Some(group) = work.groups.get(pod.group as usize) else {
            return labels;
        };
        match work.kind {
            Kind::JobSet | Kind::Job => {
                let uid = super::super::noise::uuid(group_uid(work, pod.group));
                for key in ["batch.kubernetes.io/job-name", "job-name"] {
                    labels.insert(key.into(), Value::String(group.name.to_string()));
                }
                for key in ["batch.kubernetes.io/controller-uid", "controller-uid"] {
                    labels.insert(key.into(), Value::String(uid.clone()));
                }
                labels.insert(
                    "batch.kubernetes.io/job-completion-index".into(),
                    Value::String(pod.index.to_string()),
                );
                if work.kind == Kind::JobSet {
                    labels.insert(
                        "jobset.sigs.k8s.io/jobset-name".into(),
                        Value::String(work.name.to_string()),
                    );
                    labels.insert(
                        "jobset.sigs.k8s.io/replicatedjob-name".into(),
                        Value::String("workers".into()),
                    );
                    labels.insert(
                        "jobset.sigs.k8s.io/replicatedjob-replicas".into(),
                        Value::String(work.groups.len().to_string()),
                    );
                    labels.insert(
                        "jobset.sigs.k8s.io/job-index".into(),
                        Value::String(pod.group.to_string()),
                    );
                    labels.insert(
                        "jobset.sigs.k8s.io/restart-attempt".into(),
                        Value::String(pod.attempt.to_string()),
                    );
                }
            }
            Kind::Deployment => {
                labels.insert(
                    "pod-template-hash".into(),
                    Value::String(template_hash(work)),
                );
            }
            Kind::StatefulSet => {
                labels.insert(
                    "statefulset.kubernetes.io/pod-name".into(),
                    Value::String(pod.key.name.to_string()),
                );
                labels.insert(
                    "apps.kubernetes.io/pod-index".into(),
                    Value::String(pod.index.to_string()),
                );
                labels.insert(
                    "controller-revision-hash".into(),
                    Value::String(format!("{}-{}", work.name, suffix(work.uid, 9))),
                );
            }
            Kind::DaemonSet => {
                labels.insert(
                    "controller-revision-hash".into(),
                    Value::String(suffix(work.uid, 10)),
                );
                labels.insert("pod-template-generation".into(), Value::String("1".into()));
            }
            Kind::PyTorchJob | Kind::RayJob | Kind::LeaderWorkerSet => {
                labels.extend(super::training::pod_labels(pod, work, group));
            }
            Kind::VolcanoJob => labels.extend(super::groups::volcano_labels(work, group)),
            Kind::Pod => {}
        }
        labels
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
        meta["labels"] = Value::Object(self.pod_labels(pod, work));
        let mut annotations = Map::new();
        if let Some(object) = &pod.foreign
            && let Some(template) = template_of(object, work.kind)
            && let Some(Value::Object(written)) = template.pointer("/metadata/annotations")
        {
            annotations.extend(written.clone());
        }
        annotations.extend(super::groups::group_annotations(pod, work, group));
        if work.kind == Kind::LeaderWorkerSet {
            let size = group.completions.to_string();
            annotations.insert("leaderworkerset.sigs.k8s.io/size".into(), json!(size));
            if pod.index > 0 {
                annotations.insert(
                    "leaderworkerset.sigs.k8s.io/leader-name".into(),
                    json!(&*group.name),
                );
            }
        }
        if work.kind.is_indexed() {
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
            Kind::LeaderWorkerSet if pod.index == 0 => Some(format!("{}-", work.name)),
            Kind::LeaderWorkerSet => Some(format!("{}-", group.name)),
            Kind::Pod | Kind::PyTorchJob | Kind::RayJob | Kind::VolcanoJob => None,
        };
        if let Some(prefix) = generated {
            meta["generateName"] = json!(prefix);
        }
        if let Some((kind, name, uid)) = work.owner_of(pod.group, pod.index, pod.attempt) {
            meta["ownerReferences"] = owner(api_of(kind), kind, &name, uid);
        }
        if let Some((at, grace)) = pod.deleting {
            meta["deletionTimestamp"] = json!(at.rfc3339());
            meta["deletionGracePeriodSeconds"] = json!(grace);
        }
        let mut spec = self.spec_from(work, pod.foreign.as_deref());
        self.bind_spec(&mut spec, pod, work);
        let status = self.pod_status(pod, work, &spec);
        Some(object([
            ("apiVersion", json!("v1")),
            ("kind", json!("Pod")),
            ("metadata", meta),
            ("spec", spec),
            ("status", status),
        ]))
    }

    fn bind_spec(&self, spec: &mut Value, pod: &Pod, work: &Work) {
        if let Some(node) = pod.node {
            spec["nodeName"] = json!(&*self.nodes[node].name);
        }
        spec["serviceAccount"] = json!("default");
        spec["serviceAccountName"] = json!("default");
        spec["enableServiceLinks"] = json!(true);
        // The simulated kube-scheduler preempts no pods; Kueue and KAI preempt by their queues.
        spec["preemptionPolicy"] = json!("Never");
        spec["priority"] = json!(work.priority);
        if work.kind.is_indexed() {
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
        if work.ask.claim.is_some() && !pod.phase.is_over() {
            let claim = Self::claim_key(pod).name;
            status.insert(
                "resourceClaimStatuses".into(),
                json!([{"name": POD_CLAIM, "resourceClaimName": &*claim}]),
            );
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

    pub(super) fn pod_ip(&self, pod: &Pod, node: usize) -> String {
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
