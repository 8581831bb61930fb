//! Kubernetes objects in, observations out; plan steps in, API calls out ([`mutations`]). Pure: takes JSON that a source
//! has read and keeps no object.
//!
//! Each table has a partial struct with only the fields that the fleet uses. Every field is read leniently: a field that is
//! null, absent or of another type than the API specifies counts as absent, never as an error, so that one malformed object
//! loses neither itself nor the rest of the list.

pub mod accelerators;
pub mod capacity;
pub mod claim;
pub mod discovery;
pub mod event;
pub mod lenient_json;
pub mod meta;
pub mod mutations;
pub mod node;
pub mod pod;
pub mod pod_placement;
pub mod policy;
pub mod queues;
pub mod resources;
pub mod rights;
mod shared_counters;
pub mod workloads;

use serde::de::DeserializeOwned;

use model::base::Names;
use model::fleet::observe::{Observation, Table};

pub use meta::Meta;
use pod::PodObject;

/// A partial object of one or more tables, ready to be converted to the fleet's model.
pub trait Projected: Send + std::fmt::Debug + 'static {
    fn meta(&self) -> &Meta;
    /// The observation of the object's current state. `None` when the object has no name, because it cannot be identified.
    fn project(&self, table: Table, names: &mut Names) -> Option<Observation>;
    /// The object as a pod, where it is one: a source also tracks what a pod serves.
    fn as_pod(&self) -> Option<&PodObject> {
        None
    }
}

/// Reads an object of `table`; the only place that maps a table to its type.
///
/// # Errors
/// `json` is not JSON. Fields are read leniently.
pub fn read(table: Table, json: &str) -> serde_json::Result<Box<dyn Projected>> {
    fn of<T: Projected + DeserializeOwned>(json: &str) -> serde_json::Result<Box<dyn Projected>> {
        Ok(Box::new(serde_json::from_str::<T>(json)?))
    }
    let read = match table {
        Table::Nodes => of::<node::NodeObject>,
        Table::Pods => of::<PodObject>,
        Table::Namespaces => of::<node::NamespaceObject>,
        Table::Jobs => of::<workloads::job::JobObject>,
        Table::JobSets => of::<workloads::job::JobSetObject>,
        Table::ReplicaSets | Table::Deployments | Table::StatefulSets | Table::DaemonSets => {
            of::<workloads::workload::ReplicatedObject>
        }
        Table::LeaderWorkerSets => of::<workloads::leader::LeaderWorkerSetObject>,
        Table::PyTorchJobs
        | Table::TfJobs
        | Table::MpiJobs
        | Table::JaxJobs
        | Table::PaddleJobs
        | Table::XgBoostJobs => of::<workloads::training::ReplicaJobObject>,
        Table::TrainJobs => of::<workloads::training::TrainJobObject>,
        Table::RayJobs => of::<workloads::ray::RayJobObject>,
        Table::RayClusters => of::<workloads::ray::RayClusterObject>,
        Table::VolcanoJobs => of::<queues::volcano::VolcanoJobObject>,
        Table::KueueWorkloads => of::<queues::admission::WorkloadObject>,
        Table::ClusterQueues | Table::Cohorts => of::<queues::kueue::QueueObject>,
        Table::LocalQueues => of::<queues::kueue::LocalQueueObject>,
        Table::ResourceFlavors => of::<queues::kueue::FlavorObject>,
        Table::Topologies => of::<queues::kueue::TopologyObject>,
        Table::WorkloadPriorityClasses | Table::PriorityClasses => {
            of::<policy::PriorityClassObject>
        }
        Table::VolcanoPodGroups => of::<queues::volcano::VolcanoPodGroupObject>,
        Table::VolcanoQueues => of::<queues::volcano::VolcanoQueueObject>,
        Table::KaiPodGroups => of::<queues::kai::KaiPodGroupObject>,
        Table::KaiQueues => of::<queues::kai::KaiQueueObject>,
        Table::Workloads | Table::PodGroups => of::<queues::gang::GangObject>,
        Table::Budgets => of::<policy::BudgetObject>,
        Table::ResourceSlices => of::<claim::SliceObject>,
        Table::ResourceClaims => of::<claim::ClaimObject>,
        Table::ResourceClaimTemplates => of::<claim::TemplateObject>,
        Table::DeviceClasses => of::<claim::ClassObject>,
        Table::NodePools => of::<capacity::karpenter::NodePoolObject>,
        Table::NodeClaims => of::<capacity::karpenter::NodeClaimObject>,
        Table::LaunchFailures => of::<event::EventObject>,
        Table::NodeGroups => of::<capacity::groups::NodeGroupsObject>,
        Table::KueueConfig => of::<queues::kueue_config::KueueConfigObject>,
        Table::GovernQueues => of::<queues::govern::GovernQueuesObject>,
        Table::ProvisioningRequests => of::<capacity::scaling::ProvisionObject>,
        Table::PodAutoscalers => of::<capacity::scaling::PodScalerObject>,
        Table::ScaledObjects => of::<capacity::keda::ScaledObjectObject>,
    };
    read(json)
}

/// The observation that a watch would make of an object of `table`; `None` for one without a name.
pub fn seen(table: Table, object: &serde_json::Value, names: &mut Names) -> Option<Observation> {
    let object = read(table, &object.to_string()).ok()?;
    object.project(table, names)
}

#[cfg(test)]
mod tests;
