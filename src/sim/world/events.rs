//! Kubernetes events: recorded as things happen, deleted after an hour.

use model::base::{Name, ObjectKey};

use super::super::change::Resource;
use super::noise::{hash, hex, mix, uuid};
use super::render::{api_of, filled, identity, served_kind, values};
use super::work::{Scheduler, VOLCANO_JOB, WorkId, WorkKind};
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
        let component = match (kind, reason) {
            ("Pod", "Scheduled" | "FailedScheduling") => self.scheduler_of(namespace, name),
            ("Pod", "TaintManagerEviction") => "taint-eviction-controller",
            ("Node", "NodeNotReady" | "RegisteredNode" | "RemovingNode") => "node-controller",
            ("Node", "DisruptionLaunching" | "SpotInterrupted") => "karpenter",
            (
                "Node",
                "NodeHasSufficientMemory" | "NodeReady" | "NodeNotSchedulable" | "NodeSchedulable",
            )
            | ("Pod", _) => "kubelet",
            ("Node", _) => "node-problem-detector",
            ("Job", "Completed" | "Suspended" | "Resumed") => "job-controller",
            ("Job", reason) if reason.starts_with("Success") => "job-controller",
            ("Job", _) => "kueue-job-controller",
            ("PyTorchJob", _) => "pytorchjob-controller",
            ("RayJob", _) => "rayjob-controller",
            ("RayCluster", _) => "raycluster-controller",
            ("LeaderWorkerSet", _) => "leaderworkerset",
            (VOLCANO_JOB, _) => "vc-controller-manager",
            ("JobSet", _) => "jobset",
            ("Workload", _) => "kueue-admission",
            ("Deployment", _) => "deployment-controller",
            ("ReplicaSet", _) => "replicaset-controller",
            ("StatefulSet", _) => "statefulset-controller",
            ("DaemonSet", _) => "daemonset-controller",
            _ => "stokehold-sim",
        };
        let host = self
            .pod_names
            .get(&ObjectKey::new(namespace, name))
            .filter(|_| component == "kubelet")
            .and_then(|pod| self.pods.get(pod))
            .and_then(|pod| pod.node)
            .map(|node| self.nodes[node].name.to_string());
        let event_name = format!("{name}.{}", hex(word, 16));
        let node = kind == "Node";
        let object_namespace = if node { "default" } else { namespace };
        let own = values!(
            identity: identity(object_namespace, &event_name, mix(word, 1), now),
            kind: served_kind(kind),
            api: api_of(kind),
            name: name,
            about: if node { name.to_owned() } else { uuid(uid) },
            namespace: (!node).then_some(namespace),
            reason: reason,
            message: message,
            grade: grade,
            at: now,
            component: component,
            host: host,
        );
        let object = filled("Event", own);
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
        if work.kind == WorkKind::Pod {
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
