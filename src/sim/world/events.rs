//! Kubernetes events: recorded as things happen, deleted after an hour.

use serde_json::json;

use model::base::{Name, ObjectKey};

use super::super::change::Resource;
use super::noise::{hash, hex, mix, uuid};
use super::render::served_kind;
use super::work::{Kind, Scheduler, VOLCANO_JOB, WorkId};
use super::{Happening, Ref, World};

/// The API server forgets an event after this long.
const KEEP: i64 = 3_600_000;

impl World {
    /// Records an event about an object: its kind, name and uid word.
    pub(super) fn event(
        &mut self,
        namespace: &str,
        about: (&str, &str, u64),
        grade: &str,
        reason: &str,
        message: String,
    ) {
        let (kind, name, uid) = about;
        let now = self.now;
        let word = self.fresh();
        let (api, component) = match kind {
            "Pod" => (
                "v1",
                match reason {
                    "Scheduled" | "FailedScheduling" => self.scheduler_of(namespace, name),
                    "TaintManagerEviction" => "taint-eviction-controller",
                    _ => "kubelet",
                },
            ),
            "Node" => (
                "v1",
                match reason {
                    "NodeNotReady" | "RegisteredNode" | "RemovingNode" => "node-controller",
                    "DisruptionLaunching" | "SpotInterrupted" => "karpenter",
                    "NodeHasSufficientMemory"
                    | "NodeReady"
                    | "NodeNotSchedulable"
                    | "NodeSchedulable" => "kubelet",
                    _ => "node-problem-detector",
                },
            ),
            "Job" => (
                "batch/v1",
                if reason == "Completed"
                    || reason.starts_with("Success")
                    || reason == "Suspended"
                    || reason == "Resumed"
                {
                    "job-controller"
                } else {
                    "kueue-job-controller"
                },
            ),
            "PyTorchJob" => ("kubeflow.org/v1", "pytorchjob-controller"),
            "RayJob" => ("ray.io/v1", "rayjob-controller"),
            "RayCluster" => ("ray.io/v1", "raycluster-controller"),
            "LeaderWorkerSet" => ("leaderworkerset.x-k8s.io/v1", "leaderworkerset"),
            VOLCANO_JOB => ("batch.volcano.sh/v1alpha1", "vc-controller-manager"),
            "JobSet" => ("jobset.x-k8s.io/v1alpha2", "jobset"),
            "Workload" => ("kueue.x-k8s.io/v1beta1", "kueue-admission"),
            "Deployment" => ("apps/v1", "deployment-controller"),
            "ReplicaSet" => ("apps/v1", "replicaset-controller"),
            "StatefulSet" => ("apps/v1", "statefulset-controller"),
            "DaemonSet" => ("apps/v1", "daemonset-controller"),
            _ => ("v1", "stokehold-sim"),
        };
        let host = self
            .pod_names
            .get(&ObjectKey::new(namespace, name))
            .filter(|_| component == "kubelet")
            .and_then(|pod| self.pods.get(pod))
            .and_then(|pod| pod.node)
            .map(|node| self.nodes[node].name.to_string());
        let stamp = now.rfc3339();
        let event_name = format!("{name}.{}", hex(word, 16));
        let mut source = json!({"component": component});
        if let Some(host) = host {
            source["host"] = json!(host);
        }
        let object_namespace = if kind == "Node" { "default" } else { namespace };
        let mut involved =
            json!({"kind": served_kind(kind), "apiVersion": api, "name": name, "uid": uuid(uid)});
        if kind == "Node" {
            involved["uid"] = json!(name);
        } else {
            involved["namespace"] = json!(namespace);
        }
        let object = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": event_name,
                "namespace": object_namespace,
                "uid": uuid(mix(word, 1)),
                "creationTimestamp": stamp,
            },
            "involvedObject": involved,
            "reason": reason,
            "message": message,
            "type": grade,
            "count": 1,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "eventTime": null,
            "reportingComponent": component,
            "reportingInstance": "",
            "source": source,
        });
        let key = ObjectKey::new(object_namespace, event_name);
        self.plain.insert((Resource::Events, key.clone()), object);
        self.touch(Ref::Plain(Resource::Events, key.clone()));
        self.after(KEEP, Happening::Forget(key));
    }

    /// The scheduler of a pod.
    fn scheduler_of(&self, namespace: &str, name: &str) -> &'static str {
        self.pod_names
            .get(&ObjectKey::new(namespace, name))
            .and_then(|pod| self.works.get(&self.pods.get(pod)?.work))
            .map_or(Scheduler::Kube.name(), |work| work.scheduler.name())
    }

    /// Records an event about a pod.
    pub(super) fn pod_event(
        &mut self,
        key: &ObjectKey,
        uid: u64,
        grade: &str,
        reason: &str,
        message: String,
    ) {
        if self.live {
            self.event(
                &key.namespace,
                ("Pod", &key.name, uid),
                grade,
                reason,
                message,
            );
        }
    }

    /// Records an event about a node.
    pub(super) fn node_event(&mut self, node: usize, grade: &str, reason: &str, message: String) {
        let (name, uid) = (self.nodes[node].name.clone(), self.nodes[node].uid);
        self.event("default", ("Node", &name, uid), grade, reason, message);
    }

    /// Records an event about a work's controller.
    pub(super) fn work_event(&mut self, id: WorkId, grade: &str, reason: &str, message: String) {
        if !self.live {
            return;
        }
        let Some(work) = self.works.get(&id) else {
            return;
        };
        if work.kind == Kind::Pod {
            return;
        }
        let (namespace, kind, name, uid) = (
            work.namespace.clone(),
            work.kind.word(),
            work.name.clone(),
            work.uid,
        );
        self.event(&namespace, (kind, &name, uid), grade, reason, message);
    }

    /// Records an event about a work's Workload.
    pub(super) fn workload_event(&mut self, id: WorkId, reason: &str, message: String) {
        let Some((namespace, name, uid)) = self.works.get(&id).and_then(|work| {
            let workload = work.workload.as_ref()?;
            Some((work.namespace.clone(), workload.name.clone(), workload.uid))
        }) else {
            return;
        };
        self.event(
            &namespace,
            ("Workload", &name, uid),
            "Normal",
            reason,
            message,
        );
    }

    /// The uid of a plain object: the same for the same resource and key.
    pub(super) fn plain_uid(&self, resource: Resource, key: &ObjectKey) -> String {
        let kind = Name::from(format!("{resource:?}"));
        uuid(mix(
            mix(self.options.seed, hash(&kind)),
            mix(hash(&key.namespace), hash(&key.name)),
        ))
    }
}
