//! Kubernetes objects in, observations out; plan steps in, API calls out ([`mutations`]). Pure: takes JSON that a source
//! has read and keeps no object.
//!
//! Each table has a partial struct that reads only the fields that the fleet uses. Every field is read
//! leniently: one that is null, absent or of another type than the API promises counts as not given,
//! never as an error, so that one odd object loses neither itself nor the list that it stands in.

pub mod accelerators;
pub mod admission;
pub mod claim;
pub mod discovery;
pub mod gang;
pub mod groups;
pub mod job;
pub mod kai;
pub mod karpenter;
pub mod kinds;
pub mod kueue;
pub mod kueue_config;
pub mod leader;
pub mod meta;
pub mod mutations;
pub mod node;
pub mod partial;
pub mod pod;
pub mod policy;
pub mod quota;
pub mod ray;
pub mod resources;
pub mod rights;
pub mod scaling;
pub mod sets;
pub mod siting;
pub mod table;
pub mod training;
pub mod volcano;
pub mod workload;

use model::base::Names;
use model::fleet::observe::{Observation, Table};

pub use meta::Meta;
use pod::PodObject;

/// A partial object of one or more tables, ready to be turned into what the fleet calls it.
pub trait Projected:
    serde::de::DeserializeOwned + Clone + Send + std::fmt::Debug + 'static
{
    /// Its metadata.
    fn meta(&self) -> &Meta;
    /// The observation that it has been seen as it now is. `None` when it has no name: nothing could be
    /// said about such an object.
    fn project(&self, table: Table, names: &mut Names) -> Option<Observation>;
    /// Itself, where it is a pod: what a pod serves is of interest to others than the fleet.
    fn as_pod(&self) -> Option<&PodObject> {
        None
    }
}

/// What is to be done with the type that a table's objects are read as.
pub trait Visit {
    /// What comes of it.
    type Out;
    /// Does it.
    fn visit<T: Projected>(self) -> Self::Out;
}

/// Hands the type that the objects of `table` are read as to a visitor: the one place that knows it.
pub fn visit<V: Visit>(table: Table, visitor: V) -> V::Out {
    match table {
        Table::Nodes => visitor.visit::<node::NodeObject>(),
        Table::Pods => visitor.visit::<PodObject>(),
        Table::Namespaces => visitor.visit::<node::NamespaceObject>(),
        Table::Jobs => visitor.visit::<job::JobObject>(),
        Table::JobSets => visitor.visit::<job::JobSetObject>(),
        Table::ReplicaSets | Table::Deployments | Table::StatefulSets | Table::DaemonSets => {
            visitor.visit::<workload::ReplicatedObject>()
        }
        Table::LeaderWorkerSets => visitor.visit::<leader::LeaderWorkerSetObject>(),
        Table::PyTorchJobs | Table::TfJobs | Table::MpiJobs => {
            visitor.visit::<training::ReplicaJobObject>()
        }
        Table::TrainJobs => visitor.visit::<training::TrainJobObject>(),
        Table::RayJobs => visitor.visit::<ray::RayJobObject>(),
        Table::RayClusters => visitor.visit::<ray::RayClusterObject>(),
        Table::VolcanoJobs => visitor.visit::<volcano::VolcanoJobObject>(),
        Table::KueueWorkloads => visitor.visit::<admission::WorkloadObject>(),
        Table::ClusterQueues | Table::Cohorts => visitor.visit::<kueue::QueueObject>(),
        Table::LocalQueues => visitor.visit::<kueue::LocalQueueObject>(),
        Table::ResourceFlavors => visitor.visit::<kueue::FlavorObject>(),
        Table::Topologies => visitor.visit::<kueue::TopologyObject>(),
        Table::WorkloadPriorityClasses | Table::PriorityClasses => {
            visitor.visit::<policy::PriorityClassObject>()
        }
        Table::VolcanoPodGroups => visitor.visit::<volcano::VolcanoPodGroupObject>(),
        Table::VolcanoQueues => visitor.visit::<volcano::VolcanoQueueObject>(),
        Table::KaiPodGroups => visitor.visit::<kai::KaiPodGroupObject>(),
        Table::KaiQueues => visitor.visit::<kai::KaiQueueObject>(),
        Table::Workloads | Table::PodGroups => visitor.visit::<gang::GangObject>(),
        Table::Budgets => visitor.visit::<policy::BudgetObject>(),
        Table::ResourceSlices => visitor.visit::<claim::SliceObject>(),
        Table::ResourceClaims => visitor.visit::<claim::ClaimObject>(),
        Table::ResourceClaimTemplates => visitor.visit::<claim::TemplateObject>(),
        Table::DeviceClasses => visitor.visit::<claim::ClassObject>(),
        Table::NodePools => visitor.visit::<karpenter::NodePoolObject>(),
        Table::NodeClaims => visitor.visit::<karpenter::NodeClaimObject>(),
        Table::NodeGroups => visitor.visit::<groups::NodeGroupsObject>(),
        Table::KueueConfig => visitor.visit::<kueue_config::KueueConfigObject>(),
        Table::ProvisioningRequests => visitor.visit::<scaling::ProvisionObject>(),
        Table::PodAutoscalers => visitor.visit::<scaling::PodScalerObject>(),
    }
}

/// An object of `table` as a watch would tell of it; `None` for one that cannot be read or has no name.
pub fn seen(table: Table, object: serde_json::Value, names: &mut Names) -> Option<Observation> {
    struct Read<'n>(Table, serde_json::Value, &'n mut Names);
    impl Visit for Read<'_> {
        type Out = Option<Observation>;
        fn visit<T: Projected>(self) -> Self::Out {
            let object = serde_json::from_value::<T>(self.1).ok()?;
            object.project(self.0, self.2)
        }
    }
    visit(table, Read(table, object, names))
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
