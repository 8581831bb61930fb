//! Kubernetes objects in, observations out; plan steps in, API calls out ([`mutations`]). Pure: takes JSON that a source
//! has read and keeps no object.
//!
//! Each table has a partial struct with only the fields that the fleet uses. Every field is read leniently: a field that is
//! null, absent or of another type than the API specifies counts as absent, never as an error, so that one malformed object
//! loses neither itself nor the rest of the list.

pub mod accelerators;
pub mod admission;
pub mod claim;
pub mod discovery;
pub mod event;
pub mod gang;
pub mod govern;
pub mod groups;
pub mod job;
pub mod kai;
pub mod karpenter;
pub mod keda;
pub mod kueue;
pub mod kueue_config;
pub mod leader;
pub mod lenient_json;
pub mod meta;
pub mod mutations;
pub mod node;
pub mod pod;
pub mod pod_placement;
pub mod pod_sets;
pub mod policy;
pub mod quota;
pub mod ray;
pub mod resources;
pub mod rights;
pub mod scaling;
mod shared_counters;
pub mod training;
pub mod volcano;
pub mod workload;

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
        Table::Jobs => of::<job::JobObject>,
        Table::JobSets => of::<job::JobSetObject>,
        Table::ReplicaSets | Table::Deployments | Table::StatefulSets | Table::DaemonSets => {
            of::<workload::ReplicatedObject>
        }
        Table::LeaderWorkerSets => of::<leader::LeaderWorkerSetObject>,
        Table::PyTorchJobs
        | Table::TfJobs
        | Table::MpiJobs
        | Table::JaxJobs
        | Table::PaddleJobs
        | Table::XgBoostJobs => of::<training::ReplicaJobObject>,
        Table::TrainJobs => of::<training::TrainJobObject>,
        Table::RayJobs => of::<ray::RayJobObject>,
        Table::RayClusters => of::<ray::RayClusterObject>,
        Table::VolcanoJobs => of::<volcano::VolcanoJobObject>,
        Table::KueueWorkloads => of::<admission::WorkloadObject>,
        Table::ClusterQueues | Table::Cohorts => of::<kueue::QueueObject>,
        Table::LocalQueues => of::<kueue::LocalQueueObject>,
        Table::ResourceFlavors => of::<kueue::FlavorObject>,
        Table::Topologies => of::<kueue::TopologyObject>,
        Table::WorkloadPriorityClasses | Table::PriorityClasses => {
            of::<policy::PriorityClassObject>
        }
        Table::VolcanoPodGroups => of::<volcano::VolcanoPodGroupObject>,
        Table::VolcanoQueues => of::<volcano::VolcanoQueueObject>,
        Table::KaiPodGroups => of::<kai::KaiPodGroupObject>,
        Table::KaiQueues => of::<kai::KaiQueueObject>,
        Table::Workloads | Table::PodGroups => of::<gang::GangObject>,
        Table::Budgets => of::<policy::BudgetObject>,
        Table::ResourceSlices => of::<claim::SliceObject>,
        Table::ResourceClaims => of::<claim::ClaimObject>,
        Table::ResourceClaimTemplates => of::<claim::TemplateObject>,
        Table::DeviceClasses => of::<claim::ClassObject>,
        Table::NodePools => of::<karpenter::NodePoolObject>,
        Table::NodeClaims => of::<karpenter::NodeClaimObject>,
        Table::LaunchFailures => of::<event::EventObject>,
        Table::NodeGroups => of::<groups::NodeGroupsObject>,
        Table::KueueConfig => of::<kueue_config::KueueConfigObject>,
        Table::GovernQueues => of::<govern::GovernQueuesObject>,
        Table::ProvisioningRequests => of::<scaling::ProvisionObject>,
        Table::PodAutoscalers => of::<scaling::PodScalerObject>,
        Table::ScaledObjects => of::<keda::ScaledObjectObject>,
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
#[cfg(test)]
mod tests_claims;
#[cfg(test)]
mod tests_gangs;
#[cfg(test)]
mod tests_jobs;
#[cfg(test)]
mod tests_queues;
#[cfg(test)]
mod tests_scaling;
