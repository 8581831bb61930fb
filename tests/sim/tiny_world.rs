//! A tiny world for tests of the API: three nodes, two teams, one disruption budget, one exporter.

use std::collections::BTreeMap;

use model::base::{Moment, ObjectKey};
use serde_json::{Value, json};
use sim::change::{Request, Resource, ServedPage, SimBackend, WorldChange};

/// When the tiny world begins.
pub const START: &str = "2026-11-21T08:00:00Z";

/// A handful of objects; pods that are deleted with grace go when it has passed.
pub struct Tiny {
    now: Moment,
    objects: BTreeMap<(Resource, String, String), Value>,
    /// Pods that go at a moment.
    leaving: Vec<(Moment, ObjectKey)>,
    /// Counts minutes, so that time passes visibly.
    ticks: i64,
}

impl Tiny {
    /// The world at its start.
    pub fn new() -> Self {
        Self {
            now: Moment::parse(START).expect("a moment"),
            objects: BTreeMap::new(),
            leaving: Vec::new(),
            ticks: 0,
        }
    }

    fn keep(&mut self, resource: Resource, object: Value) -> WorldChange {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or("").to_owned();
        let key = (resource, text("namespace"), text("name"));
        self.objects.insert(key, object.clone());
        WorldChange::Put(resource, object)
    }
}

fn meta(namespace: &str, name: &str, labels: Value) -> Value {
    let mut meta = json!({
        "name": name, "uid": format!("uid-{namespace}-{name}"), "labels": labels,
        "creationTimestamp": "2026-11-21T07:00:00Z",
    });
    if !namespace.is_empty() {
        meta["namespace"] = namespace.into();
    }
    meta
}

/// A running pod with one container.
pub fn pod(namespace: &str, name: &str, node: &str, owner: &str, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": namespace, "name": name, "uid": format!("uid-{namespace}-{name}"),
            "labels": {"app": owner}, "creationTimestamp": "2026-11-21T07:30:00Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "owner", "controller": true}],
        },
        "spec": {
            "nodeName": node, "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "main", "image": "registry/main:1", "ports": [{"name": "metrics", "containerPort": port}],
                "resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}}],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}], "qosClass": "BestEffort",
            "startTime": "2026-11-21T07:30:02Z",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"name": "main", "ready": true, "started": true, "restartCount": 0, "image": "registry/main:1",
                "imageID": "", "state": {"running": {"startedAt": "2026-11-21T07:30:05Z"}}, "lastState": {}}],
        },
    })
}

fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": meta("", name, json!({"kubernetes.io/hostname": name, "node-role.kubernetes.io/gpu": "", "pool": "h100"})),
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"},
            "allocatable": {"cpu": "95", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"},
            "addresses": [{"type": "InternalIP", "address": "10.1.0.1"}, {"type": "Hostname", "address": name}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready",
                "lastHeartbeatTime": "2026-11-21T07:59:50Z", "lastTransitionTime": "2026-11-21T07:00:10Z"}],
            "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Linux", "kernelVersion": "6.8.0", "architecture": "amd64",
                "containerRuntimeVersion": "containerd://2.0.0", "operatingSystem": "linux", "machineID": "", "systemUUID": "",
                "bootID": "", "kubeProxyVersion": ""},
        },
    })
}

impl SimBackend for Tiny {
    fn start(&mut self) -> Vec<WorldChange> {
        let mut changes = Vec::new();
        for name in ["default", "kube-system", "nlp", "vision", "monitoring"] {
            let labels = match name {
                "nlp" | "vision" => json!({"team": name}),
                _ => json!({}),
            };
            changes.push((Resource::Namespaces, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta("", name, labels), "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}})));
        }
        for name in ["a", "b", "c"] {
            changes.push((Resource::Nodes, node(&format!("gpu-{name}"))));
        }
        changes.push((Resource::ReplicaSets, json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta("nlp", "serve", json!({"app": "serve"})),
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "serve"}}, "template": {"metadata": {"labels": {"app": "serve"}}, "spec": {"containers": [{"name": "main", "image": "registry/main:1"}]}}},
            "status": {"replicas": 3, "readyReplicas": 3, "observedGeneration": 1},
        })));
        for (at, on) in ["gpu-a", "gpu-a", "gpu-b"].iter().enumerate() {
            changes.push((
                Resource::Pods,
                pod("nlp", &format!("serve-{at}"), on, "serve", 8000),
            ));
        }
        changes.push((
            Resource::Pods,
            pod("monitoring", "exporter-a", "gpu-a", "exporter", 9400),
        ));
        changes.push((Resource::Services, json!({
            "apiVersion": "v1", "kind": "Service", "metadata": meta("monitoring", "exporter", json!({})),
            "spec": {"type": "ClusterIP", "clusterIP": "10.2.0.1", "clusterIPs": ["10.2.0.1"], "selector": {"app": "exporter"}, "ports": [{"name": "metrics", "port": 80, "protocol": "TCP", "targetPort": "metrics"}]},
            "status": {"loadBalancer": {}},
        })));
        changes.push((Resource::PodDisruptionBudgets, json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta("nlp", "serve", json!({})),
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "serve"}}},
            "status": {"currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3, "disruptionsAllowed": 1, "observedGeneration": 0},
        })));
        changes.push((Resource::Workloads, json!({
            "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": meta("nlp", "job-x", json!({})),
            "spec": {"queueName": "nlp", "priority": 5}, "status": {"conditions": [{"type": "Admitted", "status": "True"}]},
        })));
        changes
            .into_iter()
            .map(|(resource, object)| self.keep(resource, object))
            .collect()
    }

    fn now(&self) -> Moment {
        self.now
    }

    fn advance(&mut self, to: Moment) -> Vec<WorldChange> {
        self.now = self.now.max(to);
        let now = self.now;
        let mut changes = Vec::new();
        let (gone, left): (Vec<_>, Vec<_>) = self.leaving.drain(..).partition(|(at, _)| *at <= now);
        self.leaving = left;
        for (_, key) in gone {
            self.objects.remove(&(
                Resource::Pods,
                key.namespace.to_string(),
                key.name.to_string(),
            ));
            changes.push(WorldChange::Remove(Resource::Pods, key));
        }
        let ticks = self.now.millis() / 60_000;
        if ticks != self.ticks {
            self.ticks = ticks;
            let lease = json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta("kube-system", "beat", json!({})),
                "spec": {"holderIdentity": "tiny", "renewTime": self.now.rfc3339()},
            });
            changes.push(self.keep(Resource::Leases, lease));
        }
        changes
    }

    fn request(&mut self, request: Request) -> Vec<WorldChange> {
        match request {
            Request::Write(resource, object) => vec![self.keep(resource, object)],
            Request::Delete(resource, key, grace) => {
                let id = (resource, key.namespace.to_string(), key.name.to_string());
                let grace = grace.unwrap_or(0);
                match (resource, self.objects.get(&id).cloned()) {
                    (Resource::Pods, Some(mut pod)) if grace > 0 => {
                        let end = self.now.plus(std::time::Duration::from_secs(grace));
                        self.leaving.push((end, key));
                        pod["metadata"]["deletionTimestamp"] = end.rfc3339().into();
                        pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
                        vec![self.keep(resource, pod)]
                    }
                    _ => {
                        self.objects.remove(&id);
                        vec![WorldChange::Remove(resource, key)]
                    }
                }
            }
        }
    }

    fn page(&self, pod: &ObjectKey, port: u16, path: &str) -> Option<ServedPage> {
        (&*pod.name == "exporter-a" && port == 9400 && path == "/metrics").then(|| ServedPage {
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            body: "# HELP tiny_busy Busy.\n# TYPE tiny_busy gauge\ntiny_busy{gpu=\"0\",pod=\"serve-0\"} 42\ntiny_busy{gpu=\"1\",pod=\"\"} 7\n".into(),
        })
    }

    fn log(
        &self,
        pod: &ObjectKey,
        container: Option<&str>,
        previous: bool,
    ) -> Option<Vec<(Moment, String)>> {
        let id = (
            Resource::Pods,
            pod.namespace.to_string(),
            pod.name.to_string(),
        );
        if previous || container != Some("main") || !self.objects.contains_key(&id) {
            return None;
        }
        // A line each ten seconds since 07:59.
        let first = Moment::parse("2026-11-21T07:59:00Z")?.millis();
        let lines = (first..=self.now.millis()).step_by(10_000);
        Some(
            lines
                .enumerate()
                .map(|(at, millis)| (Moment::from_millis(millis), format!("step {at}")))
                .collect(),
        )
    }

    fn exporters(&self) -> Vec<(ObjectKey, u16, &'static str)> {
        vec![(ObjectKey::new("monitoring", "exporter-a"), 9400, "/metrics")]
    }
}
