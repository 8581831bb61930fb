//! Pods: the template that their work gives them, and what became of them.

use serde_json::{Map, Value};

use super::super::World;
use super::super::noise::{hash, hex, mix, suffix, uuid};
use super::super::pod::{Ending, PodPhase, SimPod};
use super::super::work::{ReplicaGroup, Scheduler, Work, WorkKind};
use super::template::template_of;
use super::{Fill, api_of, fields_of, filled, filled_with, flag, identity, owner, values};

impl World {
    pub(in super::super) fn pod_labels(&self, pod: &SimPod, work: &Work) -> Map<String, Value> {
        let mut labels = self.labels_from(work, pod.foreign.as_deref());
        if let Some(group) = work.groups.get(pod.group as usize) {
            let more = |name: &str| of_pod(pod, work, group, name);
            let own = filled_with(&format!("pod-labels-{}", work.kind.word()), vec![], &more);
            labels.extend(fields_of(own));
        }
        labels
    }

    pub(super) fn render_pod(&self, pod: &SimPod) -> Option<Value> {
        let mut object = self.render_pod_base(pod)?;
        pod.edit.apply(&mut object);
        Some(object)
    }

    /// The pod without what clients wrote.
    pub(in super::super) fn render_pod_base(&self, pod: &SimPod) -> Option<Value> {
        let work = self.works.get(&pod.work)?;
        let group = work.groups.get(pod.group as usize)?;
        let more = |name: &str| of_pod(pod, work, group, name);
        let mut annotations = Map::new();
        if let Some(object) = &pod.foreign
            && let Some(template) = template_of(object, work.kind)
            && let Some(Value::Object(written)) = template.pointer("/metadata/annotations")
        {
            annotations.extend(written.clone());
        }
        for word in [work.scheduler.name(), work.kind.word()] {
            let own = filled_with(&format!("pod-annotations-{word}"), vec![], &more);
            annotations.extend(fields_of(own));
        }
        let spec = self.spec_from(work, pod.foreign.as_deref());
        let node_ready = pod.node.is_none_or(|node| self.nodes[node].ready);
        let is_ready = pod.is_ready() && node_ready;
        let unready = match pod.phase {
            PodPhase::Succeeded => Some("PodCompleted"),
            PodPhase::Failed => Some("PodFailed"),
            _ if is_ready => None,
            _ => Some("ContainersNotReady"),
        };
        let container = || self.container_name(pod, work);
        let unready_message = (unready == Some("ContainersNotReady"))
            .then(|| format!("containers with unready status: [{}]", container()));
        let host = pod.node.filter(|_| pod.scheduled.is_some());
        let owner_of = work.owner_of(pod.group, pod.index, pod.attempt);
        let verdict = pod.verdict.as_ref().filter(|_| pod.node.is_none());
        let scheduled = pod.scheduled.unwrap_or(pod.created);
        let disrupted = pod.disrupted.as_ref();
        let own = values!(
            identity: identity(&pod.key.namespace, &pod.key.name, pod.uid, pod.created),
            labels: self.pod_labels(pod, work),
            annotations: annotations,
            owner: owner_of.map(|(kind, name, uid)| owner(api_of(kind), kind, &name, uid)),
            deleted: pod.deleting.map(|(at, _)| at),
            grace: pod.deleting.map(|(_, grace)| grace),
            node: pod.node.map(|node| &self.nodes[node].name),
            tolerations: tolerations(work, &spec),
            priority: work.priority,
            hostname: work.kind.is_indexed().then(|| format!("{}-{}", group.name, pod.index)),
            phase: pod.phase.word(),
            qos: qos(&spec),
            running: flag(pod.phase == PodPhase::Running),
            initialized: (pod.phase == PodPhase::Succeeded).then_some("PodCompleted"),
            scheduled: scheduled,
            startedOrScheduled: pod.started.unwrap_or(scheduled),
            ready: flag(is_ready),
            containersReady: flag(pod.is_ready()),
            unready: unready,
            unreadyMessage: unready_message,
            readySince: pod.ready.or(pod.finished).or(pod.started).unwrap_or(scheduled),
            verdict: verdict.map(|(message, _)| message),
            created: pod.created,
            disrupted: disrupted.map(|(reason, ..)| *reason),
            disruption: disrupted.map(|(_, message, _)| message),
            disruptedAt: disrupted.map(|(.., at)| *at),
            claimName: (work.ask.claim.is_some() && !pod.phase.is_over()).then(|| Self::claim_key(pod).name.to_string()),
            reason: pod.reason.as_ref().map(|(reason, _)| reason),
            message: pod.reason.as_ref().map(|(_, message)| message),
            hostIp: host.map(|node| self.node_ip(node)),
            startTime: host.map(|_| scheduled),
            podIp: host.filter(|_| pod.started.is_some()).map(|node| self.pod_ip(pod, node)),
            containers: host.map(|_| container_statuses(pod, &spec)),
            spec: spec,
        );
        Some(filled_with("pod", own, &more))
    }

    pub(super) fn pod_ip(&self, pod: &SimPod, node: usize) -> String {
        let last = 4 + mix(pod.uid, 13) % 250;
        format!("10.{}.{}.{last}", 128 + (node >> 8 & 63), node & 255)
    }
}

/// What the templates of labels and annotations name of a pod.
fn of_pod(pod: &SimPod, work: &Work, group: &ReplicaGroup, name: &str) -> Option<Value> {
    let leads = pod.index == 0;
    let value = match name {
        "pod" => pod.key.name.value(),
        "index" => pod.index.value(),
        "ordinal" if leads => pod.group.value(),
        "ordinal" => pod.index.value(),
        "attempt" => pod.attempt.value(),
        "work" => work.name.value(),
        "namespace" => work.namespace.value(),
        "restarts" => work.restarts.value(),
        "revision" => suffix(work.uid, 9).value(),
        "longRevision" => suffix(work.uid, 10).value(),
        "templateHash" => template_hash(work).value(),
        "exclusive" => work
            .sliced
            .then_some("cloud.google.com/gke-nodepool")
            .value(),
        "schedulerQueue" => match &work.scheduler {
            Scheduler::Kube => "".value(),
            Scheduler::Volcano(queue) | Scheduler::Kai(queue) => queue.value(),
        },
        "podGroup" => work.children().first().map_or("", |(_, name)| name).value(),
        "groups" => work.groups.len().value(),
        "group" => group.name.value(),
        "groupIndex" => pod.group.value(),
        "groupUid" => uuid(group_uid(work, pod.group)).value(),
        "groupKey" => hex(group.uid, 40).value(),
        "completions" => group.completions.value(),
        "jobRole" => (pod.group == 0).then_some("master").value(),
        "cluster" => work.cluster(pod.attempt).0.value(),
        "rayType" if pod.group == 0 => "head".value(),
        "rayType" => "worker".value(),
        "rayGroup" if pod.group == 0 => "headgroup".value(),
        "rayGroup" => group.name.value(),
        "set" if leads => work.name.value(),
        "set" => group.name.value(),
        "leader" => (!leads).then_some(&group.name).value(),
        "generateName" => match work.kind {
            WorkKind::JobSet | WorkKind::Job => Some(format!("{}-{}-", group.name, pod.index)),
            WorkKind::StatefulSet | WorkKind::DaemonSet => Some(format!("{}-", work.name)),
            WorkKind::LeaderWorkerSet if leads => Some(format!("{}-", work.name)),
            WorkKind::Deployment | WorkKind::LeaderWorkerSet => Some(format!("{}-", group.name)),
            WorkKind::Pod | WorkKind::PyTorchJob | WorkKind::RayJob | WorkKind::VolcanoJob => None,
        }
        .value(),
        _ => return None,
    };
    // Labels and annotations are texts.
    match value {
        Value::Null => None,
        Value::Number(number) => Some(number.to_string().value()),
        value => Some(value),
    }
}

/// The tolerations of a pod: the spec's, and those that the API server adds. A DaemonSet's pods tolerate all.
fn tolerations(work: &Work, spec: &Value) -> Option<Vec<Value>> {
    if work.kind == WorkKind::DaemonSet {
        return None;
    }
    let written = spec.get("tolerations").and_then(Value::as_array);
    let mut all = written.cloned().unwrap_or_default();
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        if !all.iter().any(|have| have["key"] == key) {
            let own = values!(key: key, operator: "Exists", effect: "NoExecute", seconds: 300_u32);
            all.push(filled("toleration", own));
        }
    }
    Some(all)
}

fn container_statuses(pod: &SimPod, spec: &Value) -> Value {
    let containers = spec.get("containers").and_then(Value::as_array);
    let run = |ending: Ending, started, finished, id: u64| {
        let id = hex(mix(pod.uid, id), 64);
        let (code, reason) = (ending.code(), ending.reason());
        filled(
            "past-run",
            values!(code: code, reason: reason, started: started, finished: finished, id: id),
        )
    };
    let row = |(at, container): (usize, &Value)| {
        let image = container["image"].as_str().unwrap_or_default();
        let word = 80 + at as u64 + u64::from(pod.restarts);
        let state = match (pod.phase, pod.started) {
            (PodPhase::Pending, _) | (_, None) => "waiting",
            (PodPhase::Running, _) => "running",
            _ => "ended",
        };
        let started = pod.started;
        let image_id = started.map_or(String::new(), |_| {
            let name = image.split(':').next().unwrap_or_default();
            format!("{name}@sha256:{}", hex(hash(image), 64))
        });
        let ending = pod.ending.unwrap_or(Ending::Success);
        let ended =
            started.map(|started| run(ending, started, pod.finished.unwrap_or(started), word));
        let own = values!(
            name: container["name"].as_str().unwrap_or_default(),
            image: image,
            imageId: image_id,
            id: started.map(|_| format!("containerd://{}", hex(mix(pod.uid, word), 64))),
            ready: pod.is_ready(),
            running: pod.phase == PodPhase::Running,
            restarts: pod.restarts,
            state: state,
            startedAt: started,
            run: ended.filter(|_| state == "ended"),
            last: pod.last.map(|last| run(last.ending, last.started, last.finished, 79)),
        );
        filled("container-status", own)
    };
    containers
        .into_iter()
        .flatten()
        .enumerate()
        .map(row)
        .collect()
}

/// The uid word of the object that owns a group's pods.
pub(in super::super) fn group_uid(work: &Work, group: u32) -> u64 {
    match work.kind {
        WorkKind::JobSet | WorkKind::Deployment => work
            .groups
            .get(group as usize)
            .map_or(work.uid, |group| group.uid),
        _ => work.uid,
    }
}

/// `pod-template-hash`: the tail of the ReplicaSet's name.
pub(in super::super) fn template_hash(work: &Work) -> String {
    let set = work
        .groups
        .first()
        .and_then(|group| group.name.rsplit('-').next());
    set.unwrap_or_default().to_owned()
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
