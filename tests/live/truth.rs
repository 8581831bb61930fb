//! What the plane holds, by `kubectl` and by the exporters' placement.

use std::collections::BTreeMap;

use serde_json::Value;

use super::plane::{items, placement};

/// The kinds whose objects stand above pods, by how `kubectl` names them, and below whom each is looked for.
const OWNERS: [&str; 16] = [
    "replicasets.apps",
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "jobsets.jobset.x-k8s.io",
    "leaderworkersets.leaderworkerset.x-k8s.io",
    "pytorchjobs.kubeflow.org",
    "mpijobs.kubeflow.org",
    "trainjobs.trainer.kubeflow.org",
    "rayjobs.ray.io",
    "rayclusters.ray.io",
    "jobs.batch.volcano.sh",
    "workloads.kueue.x-k8s.io",
    "podgroups.scheduling.k8s.io",
    "podgroups.scheduling.run.ai",
];

/// The label of a node's pool, by the order in which the settings look for it.
const POOLS: [&str; 4] = [
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
];

/// Namespace and name.
pub type Key = (String, String);

/// The text at a pointer; empty without one.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The objects of a list at a pointer.
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Namespace and name of an object.
pub fn key(object: &Value) -> Key {
    let part = |pointer| text(object, pointer).to_owned();
    (part("/metadata/namespace"), part("/metadata/name"))
}

/// How many devices, or parts of such, a list of resources speaks of.
pub fn devices(resources: &Value) -> u64 {
    let counts = resources.as_object().into_iter().flatten();
    counts
        .filter(|(name, _)| name.starts_with("nvidia.com/") || *name == "google.com/tpu")
        .map(|(_, count)| {
            count
                .as_str()
                .and_then(|c| c.parse::<u64>().ok())
                .expect("a count")
        })
        .sum()
}

/// How many devices, or parts of such, a pod spec asks for.
pub fn asked(spec: &Value) -> u64 {
    let containers = list(spec, "/containers").iter();
    containers
        .map(|container| devices(&container["resources"]["limits"]))
        .sum()
}

/// How many devices a claim's spec asks for.
fn claimed(spec: &Value) -> u64 {
    let requests = list(spec, "/devices/requests").iter();
    requests
        .map(|request| {
            let count = request.pointer("/exactly/count").and_then(Value::as_u64);
            count.expect("an exact count")
        })
        .sum()
}

/// True when a condition of the object holds.
pub fn holds(object: &Value, kind: &str) -> bool {
    list(object, "/status/conditions")
        .iter()
        .any(|c| c["type"] == kind && c["status"] == "True")
}

/// A job as it should be shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Kind of its top object.
    pub kind: String,
    /// State.
    pub state: &'static str,
    /// Devices that it asks for.
    pub requested: u64,
    /// Devices that its pods hold.
    pub allocated: u64,
    /// Why it waits: what the scheduler says of one of its pods, or Kueue of its workload.
    pub reasons: Vec<String>,
    /// Exit codes of its failed containers.
    pub exits: Vec<i64>,
}

/// Everything there is.
pub struct Truth {
    /// Nodes by name.
    pub nodes: BTreeMap<String, Value>,
    /// Pods.
    pub pods: Vec<Value>,
    /// What the exporters tell, by node.
    pub exporters: BTreeMap<String, Value>,
    /// Devices that drivers tell of, by node.
    pub slices: BTreeMap<String, Vec<Value>>,
    /// Claims, and templates of such, by kind and key.
    claims: BTreeMap<(String, Key), Value>,
    /// Objects that own pods or other such objects, and Kueue's workloads, by uid; pods too.
    owners: BTreeMap<String, Value>,
}

impl Truth {
    /// Asks for it.
    pub fn now() -> Self {
        let nodes = items("nodes")
            .into_iter()
            .map(|node| (key(&node).1, node))
            .collect();
        let exporters = list(&placement(), "/exporters")
            .iter()
            .map(|exporter| (text(exporter, "/node").to_owned(), exporter.clone()))
            .collect();
        let pods = items("pods");
        let mut owners: BTreeMap<String, Value> = OWNERS
            .iter()
            .flat_map(|kind| items(kind))
            .map(|object| (text(&object, "/metadata/uid").to_owned(), object))
            .collect();
        for pod in &pods {
            owners.insert(text(pod, "/metadata/uid").to_owned(), pod.clone());
        }
        let mut slices: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for slice in items("resourceslices.resource.k8s.io") {
            let own = slices.entry(text(&slice, "/spec/nodeName").to_owned());
            let devices = list(&slice, "/spec/devices").iter().cloned();
            own.or_default().extend(devices);
        }
        let kinds = ["resourceclaims", "resourceclaimtemplates"];
        let claims = kinds.iter().flat_map(|kind| {
            let all = items(&format!("{kind}.resource.k8s.io")).into_iter();
            all.map(|claim| ((text(&claim, "/kind").to_owned(), key(&claim)), claim))
        });
        Self {
            nodes,
            pods,
            exporters,
            slices,
            claims: claims.collect(),
            owners,
        }
    }

    /// How many devices, or parts of such, a pod spec asks for, by its containers or by claims.
    fn asked(&self, namespace: &str, spec: &Value) -> u64 {
        let claims = list(spec, "/resourceClaims").iter().map(|claim| {
            let (kind, name, at) = match claim["resourceClaimName"].as_str() {
                Some(name) => ("ResourceClaim", name, "/spec"),
                None => (
                    "ResourceClaimTemplate",
                    text(claim, "/resourceClaimTemplateName"),
                    "/spec/spec",
                ),
            };
            let key = (kind.to_owned(), (namespace.to_owned(), name.to_owned()));
            claimed(self.claims[&key].pointer(at).expect("a spec"))
        });
        asked(spec) + claims.sum::<u64>()
    }

    /// The same of a pod.
    pub fn asked_by(&self, pod: &Value) -> u64 {
        self.asked(text(pod, "/metadata/namespace"), &pod["spec"])
    }

    /// Devices of a node that its drivers tell of.
    pub fn sliced(&self, node: &str) -> &[Value] {
        self.slices.get(node).map_or(&[], Vec::as_slice)
    }

    /// The pool of a node, by its labels.
    pub fn pool_of(&self, node: &str) -> &str {
        let labels = &self.nodes[node]["metadata"]["labels"];
        let named = POOLS.iter().find_map(|key| labels[*key].as_str());
        named.unwrap_or_else(|| panic!("{node} is in a pool"))
    }

    /// Pods on a node that are not over.
    pub fn pods_on(&self, node: &str) -> usize {
        self.on(node).count()
    }

    fn on(&self, node: &str) -> impl Iterator<Item = &Value> {
        let on = self.pods.iter();
        on.filter(move |pod| text(pod, "/spec/nodeName") == node && !is_over(pod))
    }

    /// Devices of a node: those its exporter tells of, else those it says it has.
    pub fn devices_of(&self, node: &str) -> u64 {
        match self.exporters.get(node) {
            Some(exporter) => list(exporter, "/devices").len() as u64,
            None => {
                devices(&self.nodes[node]["status"]["capacity"]) + self.sliced(node).len() as u64
            }
        }
    }

    /// What pods hold of a node's devices: of a MIG instance its compute slices, of which an A100 has seven; of a time-sliced device its
    /// replicas.
    pub fn held_on(&self, node: &str) -> f64 {
        let Some(exporter) = self.exporters.get(node) else {
            return self.on(node).map(|pod| self.asked_by(pod)).sum::<u64>() as f64;
        };
        let label = text(
            &self.nodes[node],
            "/metadata/labels/nvidia.com~1gpu.replicas",
        );
        let replicas: f64 = label.parse().unwrap_or(1.0);
        let of_device = |device: &Value| {
            let slices = list(device, "/slices");
            if slices.is_empty() {
                return holders(device).len() as f64 / replicas;
            }
            let held = slices.iter().filter(|slice| slice["owner"].is_object());
            let compute = held.map(|slice| {
                let (compute, _) = text(slice, "/profile").split_once("g.").expect("a profile");
                compute.parse::<f64>().expect("a number")
            });
            compute.sum::<f64>() / 7.0
        };
        list(exporter, "/devices").iter().map(of_device).sum()
    }

    /// All devices of all nodes.
    pub fn devices(&self) -> u64 {
        self.nodes.keys().map(|node| self.devices_of(node)).sum()
    }

    /// The object at the top of those that own this one; the object itself when none does.
    fn root<'a>(&'a self, object: &'a Value) -> &'a Value {
        let above = list(object, "/metadata/ownerReferences").iter();
        let mut above = above.filter_map(|owner| self.owners.get(text(owner, "/uid")));
        let above = above.next().or_else(|| self.group(object));
        above.map_or(object, |owner| self.root(owner))
    }

    /// The group of a pod that nobody owns: the core scheduler's, or KAI's.
    fn group(&self, pod: &Value) -> Option<&Value> {
        let core = text(pod, "/spec/schedulingGroup/podGroupName");
        let kai = text(pod, "/metadata/annotations/pod-group-name");
        let named = [core, kai].into_iter().find(|name| !name.is_empty())?;
        self.owners.values().find(|object| {
            object["kind"] == "PodGroup" && key(object) == (key(pod).0, named.to_owned())
        })
    }

    /// Every job that asks for devices.
    pub fn jobs(&self) -> BTreeMap<Key, Job> {
        let mut pods: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| self.asked_by(pod) > 0) {
            let root = text(self.root(pod), "/metadata/uid");
            pods.entry(root).or_default().push(pod);
        }
        let mut jobs = BTreeMap::new();
        for (uid, object) in &self.owners {
            let pods = pods.get(uid.as_str()).map_or(&[][..], Vec::as_slice);
            let is_top = std::ptr::eq(self.root(object), object);
            let kind = text(object, "/kind");
            let wanted = self.wanted(object, pods);
            // (A job that is done wants none any more.)
            let own = self.asked(&key(object).0, &object["spec"]["template"]["spec"]);
            let asks = wanted > 0 || own > 0;
            if is_top && asks && kind != "ReplicaSet" {
                jobs.insert(key(object), self.job(object, wanted, pods));
            }
        }
        jobs
    }

    /// Devices that an object asks for in all.
    fn wanted(&self, object: &Value, pods: &[&Value]) -> u64 {
        let each = self.asked(&key(object).0, &object["spec"]["template"]["spec"]);
        let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64);
        match (text(object, "/kind"), text(object, "/apiVersion")) {
            // What a Job still has to run, as far as it may at one time.
            ("Job", "batch/v1") => {
                let left = number("/spec/completions").expect("a count")
                    - number("/status/succeeded").unwrap_or(0);
                each * left.min(number("/spec/parallelism").expect("a count"))
            }
            ("Deployment" | "StatefulSet", _) => each * number("/spec/replicas").expect("a count"),
            ("Pod", _) => self.asked_by(object),
            // Those of other systems have all their pods here.
            _ => pods.iter().map(|pod| self.asked_by(pod)).sum(),
        }
    }

    /// Kueue's workload of an object.
    pub fn workload(&self, object: &Value) -> Option<&Value> {
        let uid = text(object, "/metadata/uid");
        self.owners.values().find(|workload| {
            let owned = list(workload, "/metadata/ownerReferences").iter();
            workload["kind"] == "Workload"
                && workload["apiVersion"]
                    .as_str()
                    .is_some_and(|version| version.starts_with("kueue"))
                && owned.into_iter().any(|owner| text(owner, "/uid") == uid)
        })
    }

    /// The name of the object that a Workload of Kueue's stands for.
    pub fn job_of_workload(&self, workload: &Key) -> Option<String> {
        let found = self
            .owners
            .values()
            .find(|object| object["kind"] == "Workload" && key(object) == *workload)?;
        Some(text(found, "/metadata/ownerReferences/0/name").to_owned())
    }

    fn job(&self, object: &Value, requested: u64, pods: &[&Value]) -> Job {
        let live: Vec<&&Value> = pods.iter().filter(|pod| !is_over(pod)).collect();
        let bound = live
            .iter()
            .filter(|pod| !text(pod, "/spec/nodeName").is_empty());
        let running = live
            .iter()
            .filter(|pod| text(pod, "/status/phase") == "Running")
            .count();
        let gang = match text(object, "/spec/completionMode") {
            "Indexed" => object["spec"]["completions"].as_u64().expect("a count"),
            _ => 1,
        };
        let allocated: u64 = bound.clone().map(|pod| self.asked_by(pod)).sum();
        let pending = self
            .workload(object)
            .filter(|workload| !holds(workload, "QuotaReserved"));
        let state = if holds(object, "Complete") {
            "done"
        } else if holds(object, "Failed") {
            "failed"
        } else if pending.is_some() {
            "waiting"
        } else if object["spec"]["suspend"] == true {
            "suspended"
        } else if running as u64 >= gang {
            "running"
        } else if bound.count() > 0 {
            "starting"
        } else {
            "waiting"
        };
        let unbound = live
            .iter()
            .flat_map(|pod| list(pod, "/status/conditions"))
            .filter(|c| c["type"] == "PodScheduled" && c["status"] == "False");
        let unadmitted = pending
            .into_iter()
            .flat_map(|workload| list(workload, "/status/conditions"))
            .filter(|c| c["type"] == "QuotaReserved" && c["status"] == "False");
        let reasons = unbound
            .chain(unadmitted)
            .map(|c| text(c, "/message").to_owned())
            .collect();
        let exits = pods
            .iter()
            .flat_map(|pod| list(pod, "/status/containerStatuses"))
            .filter_map(|status| status.pointer("/state/terminated/exitCode")?.as_i64())
            .filter(|code| *code != 0)
            .collect();
        Job {
            kind: match text(object, "/apiVersion") {
                "batch.volcano.sh/v1alpha1" => "VolcanoJob".to_owned(),
                _ => text(object, "/kind").to_owned(),
            },
            state,
            requested,
            allocated,
            reasons,
            exits,
        }
    }
}

/// Who holds a device, whole or in part.
pub fn holders(device: &Value) -> Vec<Key> {
    let slices = list(device, "/slices").iter().map(|slice| &slice["owner"]);
    list(device, "/owners")
        .iter()
        .chain(slices)
        .filter(|owner| owner.is_object())
        .map(|owner| {
            (
                text(owner, "/namespace").to_owned(),
                text(owner, "/pod").to_owned(),
            )
        })
        .collect()
}

fn is_over(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}
