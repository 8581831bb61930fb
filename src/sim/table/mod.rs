//! Tables: the columns that the API server prints for each resource, and the cells of one object.
//!
//! Column names, types, priorities and the rules for cells follow
//! `k8s.io/kubernetes/pkg/printers/internalversion` and, for custom resources, the printer columns of their
//! definitions. Ages are relative to the server's clock.

mod claims;
mod core;
mod custom;
mod groups;
mod policies;
mod scaling;
mod training;
mod workload;

use serde_json::{Value, json};

use super::change::Resource;
use super::human::since;
use super::json::{list, text};
use super::selector::Labels;
use model::base::{Moment, SmallSort};

/// One column: name, type, format, priority (1: only in wide output), description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PrinterColumn {
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    /// `name` for the column that names the object.
    pub format: &'static str,
    /// 0 is always shown, 1 only in wide output.
    pub priority: u8,
    pub description: &'static str,
}

const fn column(name: &'static str, description: &'static str) -> PrinterColumn {
    PrinterColumn {
        name,
        kind: "string",
        format: "",
        priority: 0,
        description,
    }
}

impl PrinterColumn {
    const fn typed(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }

    const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    const fn named(mut self) -> Self {
        self.format = "name";
        self
    }

    /// The column definition of a `meta.k8s.io/v1` Table.
    pub fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format,
            "description": self.description, "priority": self.priority,
        })
    }
}

const NAME: PrinterColumn =
    column("Name", "Name of the object, unique within its namespace.").named();
const AGE: PrinterColumn = column("Age", "Time since the object was created.");
const CONTAINERS: PrinterColumn =
    column("Containers", "Names of the template's containers.").wide();
const IMAGES: PrinterColumn = column("Images", "Images of the template's containers.").wide();
const SELECTOR: PrinterColumn = column("Selector", "Label selector of its pods.").wide();

/// The columns of a resource.
pub fn columns(resource: Resource) -> &'static [PrinterColumn] {
    match resource {
        Resource::Nodes => core::NODES,
        Resource::Pods => core::PODS,
        Resource::Namespaces => core::NAMESPACES,
        Resource::Events => core::EVENTS,
        Resource::ConfigMaps => core::CONFIG_MAPS,
        Resource::Services => core::SERVICES,
        Resource::ServiceAccounts => core::SERVICE_ACCOUNTS,
        Resource::PriorityClasses => core::PRIORITY_CLASSES,
        Resource::Leases => core::LEASES,
        Resource::Deployments => workload::DEPLOYMENTS,
        Resource::ReplicaSets => workload::REPLICA_SETS,
        Resource::StatefulSets => workload::STATEFUL_SETS,
        Resource::DaemonSets => workload::DAEMON_SETS,
        Resource::Jobs => workload::JOBS,
        Resource::PodDisruptionBudgets => workload::BUDGETS,
        Resource::JobSets => custom::JOB_SETS,
        Resource::PyTorchJobs => training::PYTORCH_JOBS,
        Resource::RayJobs => training::RAY_JOBS,
        Resource::RayClusters => training::RAY_CLUSTERS,
        Resource::LeaderWorkerSets => training::LEADER_WORKER_SETS,
        Resource::ResourceSlices => claims::SLICES,
        Resource::ResourceClaims => claims::CLAIMS,
        Resource::ResourceClaimTemplates => claims::TEMPLATES,
        Resource::DeviceClasses => claims::CLASSES,
        Resource::VolcanoJobs => groups::VOLCANO_JOBS,
        Resource::VolcanoPodGroups => groups::VOLCANO_POD_GROUPS,
        Resource::VolcanoQueues => groups::VOLCANO_QUEUES,
        Resource::ResourceFlavors | Resource::VolcanoCommands | Resource::KaiPodGroups => {
            custom::NAMED
        }
        Resource::KaiQueues => groups::KAI_QUEUES,
        Resource::ClusterQueues => custom::CLUSTER_QUEUES,
        Resource::LocalQueues => custom::LOCAL_QUEUES,
        Resource::Workloads => custom::WORKLOADS,
        Resource::NodePools => scaling::NODE_POOLS,
        Resource::NodeClaims => scaling::NODE_CLAIMS,
        Resource::ProvisioningRequests => scaling::REQUESTS,
        Resource::PodAutoscalers => scaling::POD_AUTOSCALERS,
        Resource::ScaledObjects => scaling::SCALED_OBJECTS,
        Resource::PersistentVolumeClaims => policies::CLAIMS,
        Resource::Roles | Resource::ClusterRoles => policies::ROLES,
        Resource::RoleBindings | Resource::ClusterRoleBindings => policies::BINDINGS,
        Resource::NetworkPolicies => policies::NETWORK,
        Resource::ValidatingAdmissionPolicies => policies::VALIDATING,
        Resource::MutatingAdmissionPolicies => policies::MUTATING,
        Resource::ValidatingAdmissionPolicyBindings | Resource::MutatingAdmissionPolicyBindings => {
            policies::POLICY_BINDINGS
        }
    }
}

/// The cells of one object, one for each column.
pub fn cells(resource: Resource, object: &Value, now: Moment) -> Vec<Value> {
    match resource {
        Resource::Nodes => core::node(object, now),
        Resource::Pods => core::pod(object, now),
        Resource::Namespaces => core::namespace(object, now),
        Resource::Events => core::event(object, now),
        Resource::ConfigMaps => core::config_map(object, now),
        Resource::Services => core::service(object, now),
        Resource::ServiceAccounts => core::service_account(object, now),
        Resource::PriorityClasses => core::priority_class(object, now),
        Resource::Leases => core::lease(object, now),
        Resource::Deployments => workload::deployment(object, now),
        Resource::ReplicaSets => workload::replica_set(object, now),
        Resource::StatefulSets => workload::stateful_set(object, now),
        Resource::DaemonSets => workload::daemon_set(object, now),
        Resource::Jobs => workload::job(object, now),
        Resource::PodDisruptionBudgets => workload::budget(object, now),
        Resource::JobSets => custom::job_set(object, now),
        Resource::PyTorchJobs => training::pytorch_job(object, now),
        Resource::RayJobs => training::ray_job(object, now),
        Resource::RayClusters => training::ray_cluster(object, now),
        Resource::LeaderWorkerSets => training::leader_worker_set(object, now),
        Resource::ResourceSlices => claims::slice(object, now),
        Resource::ResourceClaims => claims::claim(object, now),
        Resource::ResourceClaimTemplates | Resource::DeviceClasses => claims::named(object, now),
        Resource::VolcanoJobs => groups::volcano_job(object, now),
        Resource::VolcanoPodGroups => groups::volcano_pod_group(object, now),
        Resource::VolcanoQueues => groups::volcano_queue(object),
        Resource::ResourceFlavors | Resource::VolcanoCommands | Resource::KaiPodGroups => {
            custom::named(object, now)
        }
        Resource::KaiQueues => groups::kai_queue(object),
        Resource::ClusterQueues => custom::cluster_queue(object),
        Resource::LocalQueues => custom::local_queue(object),
        Resource::Workloads => custom::workload(object, now),
        Resource::NodePools => scaling::node_pool(object, now),
        Resource::NodeClaims => scaling::node_claim(object, now),
        Resource::ProvisioningRequests => scaling::request(object, now),
        Resource::PodAutoscalers => scaling::pod_autoscaler(object, now),
        Resource::ScaledObjects => scaling::scaled_object(object, now),
        Resource::PersistentVolumeClaims => policies::claim(object, now),
        Resource::Roles | Resource::ClusterRoles => policies::role(object),
        Resource::RoleBindings | Resource::ClusterRoleBindings => policies::binding(object, now),
        Resource::NetworkPolicies => policies::network(object, now),
        Resource::ValidatingAdmissionPolicies => {
            policies::admission(object, "/spec/validations", now)
        }
        Resource::MutatingAdmissionPolicies => policies::admission(object, "/spec/mutations", now),
        Resource::ValidatingAdmissionPolicyBindings | Resource::MutatingAdmissionPolicyBindings => {
            policies::policy_binding(object, now)
        }
    }
}

/// The row's conditions: set for a pod that has ended.
pub fn conditions(resource: Resource, object: &Value) -> Option<Value> {
    let done = |reason: &str, message: &str| {
        Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
    };
    match (resource, text(object, "/status/phase")) {
        (Resource::Pods, "Succeeded") => done("Succeeded", "The pod has completed successfully."),
        (Resource::Pods, "Failed") => done("Failed", "The pod failed."),
        _ => None,
    }
}

fn age(object: &Value, now: Moment) -> Value {
    since(now, text(object, "/metadata/creationTimestamp")).into()
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// `NAME,...` and `IMAGE,...` of a template's containers.
fn containers(object: &Value) -> [Value; 2] {
    let all = list(object, "/spec/template/spec/containers");
    ["/name", "/image"].map(|field| {
        let texts: Vec<&str> = all.iter().map(|c| text(c, field)).collect();
        texts.join(",").into()
    })
}

/// The selector as most tables print it: `<none>` when there is none or it matches all.
fn selector(object: &Value) -> String {
    let shown = match object.pointer("/spec/selector") {
        Some(selector) => match Labels::of_object(selector) {
            Some(labels) => labels.show(),
            None => return "<error>".into(),
        },
        None => String::new(),
    };
    or(&shown, "<none>").to_owned()
}

/// A map of labels as tables print it: `a=b,c=d`, `<none>` when empty.
fn labels(map: Option<&Value>) -> String {
    let mut pairs: Vec<String> = map
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    pairs.small_sort();
    or(&pairs.join(","), "<none>").to_owned()
}
