//! Objects as the API serves them, rendered from the world's state.

mod budget;
mod claims;
mod fill;
mod kueue;
mod node;
mod pod;
mod schedulers;
mod template;
mod work;

pub(super) use claims::request;
pub(super) use fill::{Fill, fields_of, filled, filled_with, values};
pub(super) use node::{AMD_DRIVER, NVIDIA_DRIVER};
use serde_json::{Map, Value};
pub(super) use template::{port_of, template_of, texts};

use model::base::{Moment, Name, ObjectKey};

use super::super::change::{Resource, WorldChange};
use super::noise::uuid;
use super::work::VOLCANO_JOB;
use super::{Ref, World};

impl World {
    /// The object as it is now; `None` when it was deleted.
    pub(super) fn render(&self, object: &Ref) -> Option<WorldChange> {
        let (resource, value) = match object {
            Ref::Plain(resource, key) => (
                *resource,
                self.plain.get(&(*resource, key.clone()))?.clone(),
            ),
            Ref::Node(id) => (Resource::Nodes, self.render_node(*id)?),
            Ref::Lease(id) => (Resource::Leases, self.render_lease(*id)?),
            Ref::Cluster(at) => (Resource::ClusterQueues, self.render_cluster(*at)?),
            Ref::Local(at) => (Resource::LocalQueues, self.render_local(*at)?),
            Ref::Work(id) => {
                let work = self.works.get(id)?;
                let resource = work.kind.resource()?;
                self.owns_name(resource, &work.namespace, &work.name, object)?;
                (resource, self.render_work(*id, work))
            }
            Ref::Group(id, at) => {
                let work = self.works.get(id)?;
                let (resource, name) = work.children().into_iter().nth(*at as usize)?;
                self.owns_name(resource, &work.namespace, &name, object)?;
                (resource, self.render_child(work, *at)?)
            }
            Ref::Workload(id) => {
                let work = self.works.get(id)?;
                let workload = work.workload.as_ref()?;
                self.owns_name(Resource::Workloads, &work.namespace, &workload.name, object)?;
                (Resource::Workloads, self.render_workload(work, workload))
            }
            Ref::Pod(id) => (Resource::Pods, self.render_pod(self.pods.get(id)?)?),
            Ref::VolcanoQueue(at) => (Resource::VolcanoQueues, self.render_volcano_queue(*at)?),
            Ref::KaiQueue(at) => (Resource::KaiQueues, self.render_kai_queue(*at)?),
            Ref::Slice(id) => (Resource::ResourceSlices, self.render_slice(*id)?),
            Ref::Claim(id) => (Resource::ResourceClaims, self.render_claim(*id)?),
            Ref::Budget(key) => (
                Resource::PodDisruptionBudgets,
                self.render_budget(key, self.budgets.get(key)?),
            ),
        };
        Some(WorldChange::Put(resource, value))
    }

    /// `Some` while the name is this object's: a deleted one has lost it, maybe to another, while its last pods end.
    fn owns_name(
        &self,
        resource: Resource,
        namespace: &Name,
        name: &Name,
        object: &Ref,
    ) -> Option<()> {
        let key = ObjectKey::new(namespace.clone(), name.clone());
        (self.names.get(&(resource, key)) == Some(object)).then_some(())
    }
}

/// Name, namespace, UID and creation time of an object.
pub(super) fn identity(
    namespace: &str,
    name: &str,
    uid: u64,
    created: Moment,
) -> Map<String, Value> {
    let mut fields = Map::new();
    for (key, value) in [("name", name), ("namespace", namespace)] {
        if !value.is_empty() {
            fields.insert(key.to_owned(), value.value());
        }
    }
    fields.insert("uid".to_owned(), uuid(uid).value());
    fields.insert("creationTimestamp".to_owned(), created.value());
    fields
}

/// The status of a condition.
pub(super) const fn flag(on: bool) -> &'static str {
    if on { "True" } else { "False" }
}

/// A number that is not zero.
pub(super) fn some(number: u32) -> Option<u32> {
    Some(number).filter(|number| *number > 0)
}

/// Adds the fields that an object does not have.
fn fill_missing(object: &mut Map<String, Value>, defaults: Value) {
    for (key, value) in fields_of(defaults) {
        object.entry(key).or_insert(value);
    }
}

/// Lays one object over another, field by field.
fn lay(object: &mut Value, over: Value) {
    match (object, over) {
        (Value::Object(fields), Value::Object(over)) => {
            for (key, value) in over {
                lay(fields.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, over) => *object = over,
    }
}

/// The kind as it is served.
pub(super) fn served_kind(kind: &str) -> &str {
    match kind {
        VOLCANO_JOB => "Job",
        kind => kind,
    }
}

/// The references of an object to its controller.
fn owner(api: &str, kind: &str, name: &str, uid: u64) -> Value {
    let own = values!(api: api, kind: served_kind(kind), name: name, uid: uuid(uid));
    Value::Array(vec![filled("owner", own)])
}

/// The API version of a controller kind.
pub(super) fn api_of(kind: &str) -> &'static str {
    match kind {
        "Job" => "batch/v1",
        "JobSet" => "jobset.x-k8s.io/v1alpha2",
        "PyTorchJob" => "kubeflow.org/v1",
        VOLCANO_JOB => "batch.volcano.sh/v1alpha1",
        "RayJob" | "RayCluster" => "ray.io/v1",
        "LeaderWorkerSet" => "leaderworkerset.x-k8s.io/v1",
        "Workload" => "kueue.x-k8s.io/v1beta1",
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => "apps/v1",
        _ => "v1",
    }
}
