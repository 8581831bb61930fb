//! What the plane holds, by `kubectl` and by the exporters' placement.

use std::collections::BTreeMap;

use serde_json::Value;

use super::plane::{items, placement};

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
        .filter(|(name, _)| name.starts_with("nvidia.com/"))
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
    pub kind: &'static str,
    /// State.
    pub state: &'static str,
    /// Devices that it asks for.
    pub requested: u64,
    /// Devices that its pods hold.
    pub allocated: u64,
    /// Why it waits: what the scheduler says of one of its pods.
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
        Self {
            nodes,
            pods: items("pods"),
            exporters,
        }
    }

    /// Pods on a node that are not over.
    pub fn pods_on(&self, node: &str) -> usize {
        let on = self
            .pods
            .iter()
            .filter(|pod| text(pod, "/spec/nodeName") == node);
        on.filter(|pod| !is_over(pod)).count()
    }

    /// Devices of a node that a pod holds, whole or in part.
    pub fn held_on(&self, node: &str) -> usize {
        list(&self.exporters[node], "/devices")
            .iter()
            .filter(|device| !holders(device).is_empty())
            .count()
    }

    /// Every job that asks for devices.
    pub fn jobs(&self) -> BTreeMap<Key, Job> {
        let mut jobs = BTreeMap::new();
        for (kind, what) in [
            ("Job", "jobs"),
            ("Deployment", "deployments"),
            ("StatefulSet", "statefulsets"),
        ] {
            for object in items(what) {
                let each = asked(&object["spec"]["template"]["spec"]);
                let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64);
                let count = match kind {
                    // What a Job still has to run, as far as it may at one time.
                    "Job" => {
                        let left = number("/spec/completions").expect("a count")
                            - number("/status/succeeded").unwrap_or(0);
                        left.min(number("/spec/parallelism").expect("a count"))
                    }
                    _ => number("/spec/replicas").expect("a count"),
                };
                if each > 0 {
                    let pods = self.pods_of(&object);
                    jobs.insert(key(&object), job(kind, &object, each * count, &pods));
                }
            }
        }
        for pod in &self.pods {
            let bare = list(pod, "/metadata/ownerReferences").is_empty();
            let each = asked(&pod["spec"]);
            if bare && each > 0 {
                jobs.insert(key(pod), job("Pod", pod, each, &[pod]));
            }
        }
        jobs
    }

    /// The pods that an object's selector selects.
    fn pods_of(&self, object: &Value) -> Vec<&Value> {
        let labels = object["spec"]["selector"]["matchLabels"]
            .as_object()
            .expect("labels");
        self.pods
            .iter()
            .filter(|pod| key(pod).0 == key(object).0)
            .filter(|pod| {
                labels
                    .iter()
                    .all(|(k, v)| pod["metadata"]["labels"].get(k) == Some(v))
            })
            .collect()
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

fn job(kind: &'static str, object: &Value, requested: u64, pods: &[&Value]) -> Job {
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
    let allocated: u64 = bound.clone().map(|pod| asked(&pod["spec"])).sum();
    let state = if holds(object, "Complete") {
        "done"
    } else if holds(object, "Failed") {
        "failed"
    } else if object["spec"]["suspend"] == true {
        "suspended"
    } else if running as u64 >= gang {
        "running"
    } else if bound.count() > 0 {
        "starting"
    } else {
        "waiting"
    };
    let reasons = live
        .iter()
        .flat_map(|pod| list(pod, "/status/conditions"))
        .filter(|c| c["type"] == "PodScheduled" && c["status"] == "False")
        .map(|c| text(c, "/message").to_owned())
        .collect();
    let exits = pods
        .iter()
        .flat_map(|pod| list(pod, "/status/containerStatuses"))
        .filter_map(|status| status.pointer("/state/terminated/exitCode")?.as_i64())
        .filter(|code| *code != 0)
        .collect();
    Job {
        kind,
        state,
        requested,
        allocated,
        reasons,
        exits,
    }
}
