//! The kinds of object that sources list as a whole.

use serde::{Deserialize, Serialize};

/// The kinds of object that a source lists as a whole, so that a relist can sweep what has gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Table {
    /// Nodes.
    Nodes,
    /// Pods.
    Pods,
    /// Namespaces (for the labels that name a team).
    Namespaces,
    /// ReplicaSets: links of an owner chain.
    ReplicaSets,
    /// Deployments.
    Deployments,
    /// StatefulSets.
    StatefulSets,
    /// DaemonSets: links of an owner chain.
    DaemonSets,
    /// batch/v1 Jobs.
    Jobs,
    /// JobSets.
    JobSets,
    /// LeaderWorkerSets.
    LeaderWorkerSets,
    /// Kubeflow's PyTorchJobs.
    PyTorchJobs,
    /// Kubeflow's TFJobs.
    TfJobs,
    /// Kubeflow's MPIJobs.
    MpiJobs,
    /// Kubeflow's TrainJobs.
    TrainJobs,
    /// RayJobs.
    RayJobs,
    /// RayClusters.
    RayClusters,
    /// Volcano's Jobs.
    VolcanoJobs,
    /// Kueue's Workloads.
    KueueWorkloads,
    /// Kueue's ClusterQueues.
    ClusterQueues,
    /// Kueue's LocalQueues.
    LocalQueues,
    /// Kueue's Cohorts.
    Cohorts,
    /// Kueue's ResourceFlavors.
    ResourceFlavors,
    /// Kueue's Topologies.
    Topologies,
    /// Kueue's WorkloadPriorityClasses.
    WorkloadPriorityClasses,
    /// The one ConfigMap that holds Kueue's own configuration.
    KueueConfig,
    /// The one ConfigMap that holds the queues of `govern`.
    GovernQueues,
    /// Volcano's PodGroups.
    VolcanoPodGroups,
    /// Volcano's Queues.
    VolcanoQueues,
    /// KAI's PodGroups.
    KaiPodGroups,
    /// KAI's Queues.
    KaiQueues,
    /// Kubernetes' own Workloads (gangs, from 1.35).
    Workloads,
    /// Kubernetes' own PodGroups (gangs, from 1.36).
    PodGroups,
    /// PodDisruptionBudgets.
    Budgets,
    /// PriorityClasses.
    PriorityClasses,
    /// ResourceSlices: what drivers publish of devices.
    ResourceSlices,
    /// ResourceClaims.
    ResourceClaims,
    /// ResourceClaimTemplates.
    ResourceClaimTemplates,
    /// DeviceClasses.
    DeviceClasses,
    /// Karpenter's NodePools.
    NodePools,
    /// Karpenter's NodeClaims.
    NodeClaims,
    /// Events of NodeClaims that Karpenter deleted because there was no capacity for them.
    LaunchFailures,
    /// The one ConfigMap in which the cluster autoscaler says how its node groups stand.
    NodeGroups,
    /// ProvisioningRequests: capacity asked for before pods are made.
    ProvisioningRequests,
    /// HorizontalPodAutoscalers.
    PodAutoscalers,
    /// KEDA's ScaledObjects.
    ScaledObjects,
}

impl Table {
    /// Every table, in display order.
    pub const ALL: &'static [Self] = &[
        Self::Nodes,
        Self::Pods,
        Self::Namespaces,
        Self::ReplicaSets,
        Self::Deployments,
        Self::StatefulSets,
        Self::DaemonSets,
        Self::Jobs,
        Self::JobSets,
        Self::LeaderWorkerSets,
        Self::PyTorchJobs,
        Self::TfJobs,
        Self::MpiJobs,
        Self::TrainJobs,
        Self::RayJobs,
        Self::RayClusters,
        Self::VolcanoJobs,
        Self::KueueWorkloads,
        Self::ClusterQueues,
        Self::LocalQueues,
        Self::Cohorts,
        Self::ResourceFlavors,
        Self::Topologies,
        Self::WorkloadPriorityClasses,
        Self::KueueConfig,
        Self::GovernQueues,
        Self::VolcanoPodGroups,
        Self::VolcanoQueues,
        Self::KaiPodGroups,
        Self::KaiQueues,
        Self::Workloads,
        Self::PodGroups,
        Self::Budgets,
        Self::PriorityClasses,
        Self::ResourceSlices,
        Self::ResourceClaims,
        Self::ResourceClaimTemplates,
        Self::DeviceClasses,
        Self::NodePools,
        Self::NodeClaims,
        Self::LaunchFailures,
        Self::NodeGroups,
        Self::ProvisioningRequests,
        Self::PodAutoscalers,
        Self::ScaledObjects,
    ];

    /// The plural resource name in the API; several groups may use the same.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Pods => "pods",
            Self::Namespaces => "namespaces",
            Self::ReplicaSets => "replicasets",
            Self::Deployments => "deployments",
            Self::StatefulSets => "statefulsets",
            Self::DaemonSets => "daemonsets",
            Self::Jobs | Self::VolcanoJobs => "jobs",
            Self::JobSets => "jobsets",
            Self::LeaderWorkerSets => "leaderworkersets",
            Self::PyTorchJobs => "pytorchjobs",
            Self::TfJobs => "tfjobs",
            Self::MpiJobs => "mpijobs",
            Self::TrainJobs => "trainjobs",
            Self::RayJobs => "rayjobs",
            Self::RayClusters => "rayclusters",
            Self::KueueWorkloads | Self::Workloads => "workloads",
            Self::ClusterQueues => "clusterqueues",
            Self::LocalQueues => "localqueues",
            Self::Cohorts => "cohorts",
            Self::ResourceFlavors => "resourceflavors",
            Self::Topologies => "topologies",
            Self::WorkloadPriorityClasses => "workloadpriorityclasses",
            Self::VolcanoPodGroups | Self::KaiPodGroups | Self::PodGroups => "podgroups",
            Self::VolcanoQueues | Self::KaiQueues => "queues",
            Self::Budgets => "poddisruptionbudgets",
            Self::PriorityClasses => "priorityclasses",
            Self::ResourceSlices => "resourceslices",
            Self::ResourceClaims => "resourceclaims",
            Self::ResourceClaimTemplates => "resourceclaimtemplates",
            Self::DeviceClasses => "deviceclasses",
            Self::NodePools => "nodepools",
            Self::NodeClaims => "nodeclaims",
            Self::LaunchFailures => "events",
            Self::NodeGroups | Self::KueueConfig | Self::GovernQueues => "configmaps",
            Self::ProvisioningRequests => "provisioningrequests",
            Self::PodAutoscalers => "horizontalpodautoscalers",
            Self::ScaledObjects => "scaledobjects",
        }
    }

    /// Its own name among all tables: the plural, with the API group where another table has the same.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VolcanoJobs => "jobs.batch.volcano.sh",
            Self::KueueWorkloads => "workloads.kueue.x-k8s.io",
            Self::VolcanoPodGroups => "podgroups.scheduling.volcano.sh",
            Self::VolcanoQueues => "queues.scheduling.volcano.sh",
            Self::KaiPodGroups => "podgroups.scheduling.run.ai",
            Self::KaiQueues => "queues.scheduling.run.ai",
            Self::Workloads => "workloads.scheduling.k8s.io",
            Self::PodGroups => "podgroups.scheduling.k8s.io",
            Self::LaunchFailures => "events/nodeclaims",
            Self::NodeGroups => "configmaps/cluster-autoscaler-status",
            Self::KueueConfig => "configmaps/kueue-manager-config",
            Self::GovernQueues => "configmaps/stokehold-queues",
            other => other.plural(),
        }
    }

    /// True when its rows are links of an owner chain: what a team may have submitted.
    pub const fn holds_jobs(self) -> bool {
        matches!(
            self,
            Self::ReplicaSets
                | Self::Deployments
                | Self::StatefulSets
                | Self::DaemonSets
                | Self::Jobs
                | Self::JobSets
                | Self::LeaderWorkerSets
                | Self::PyTorchJobs
                | Self::TfJobs
                | Self::MpiJobs
                | Self::TrainJobs
                | Self::RayJobs
                | Self::RayClusters
                | Self::VolcanoJobs
        )
    }

    /// True when its rows are rules by which work is queued, admitted or evicted: without them nodes, devices and jobs
    /// are shown whole.
    pub const fn holds_rules(self) -> bool {
        matches!(
            self,
            Self::ClusterQueues
                | Self::Cohorts
                | Self::ResourceFlavors
                | Self::Topologies
                | Self::WorkloadPriorityClasses
                | Self::KueueConfig
                | Self::GovernQueues
                | Self::VolcanoQueues
                | Self::KaiQueues
                | Self::Budgets
                | Self::PriorityClasses
        )
    }

    /// True where a cluster without it lacks nothing: that it may not be read is said of no other answer.
    pub const fn is_optional(self) -> bool {
        matches!(self, Self::GovernQueues)
    }

    /// True when its rows are about devices by claim.
    pub const fn holds_claims(self) -> bool {
        matches!(
            self,
            Self::ResourceSlices
                | Self::ResourceClaims
                | Self::ResourceClaimTemplates
                | Self::DeviceClasses
        )
    }

    /// True for tables of autoscaling objects: without them the current state is complete, but not how far it may scale.
    pub const fn holds_scaling(self) -> bool {
        matches!(
            self,
            Self::NodePools
                | Self::NodeClaims
                | Self::LaunchFailures
                | Self::NodeGroups
                | Self::ProvisioningRequests
                | Self::PodAutoscalers
                | Self::ScaledObjects
        )
    }

    /// True when its rows decorate jobs: what a queueing system or a gang scheduler keeps of them.
    pub const fn holds_groups(self) -> bool {
        matches!(
            self,
            Self::KueueWorkloads
                | Self::VolcanoPodGroups
                | Self::KaiPodGroups
                | Self::Workloads
                | Self::PodGroups
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Table;
    use std::collections::BTreeSet;

    #[test]
    fn every_table_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = Table::ALL.iter().map(|table| table.name()).collect();
        assert_eq!(names.len(), Table::ALL.len());
        for table in Table::ALL {
            assert!(table.name().starts_with(table.plural()), "{table:?}");
            let kinds = [
                table.holds_jobs(),
                table.holds_groups(),
                table.holds_rules(),
                table.holds_claims(),
                table.holds_scaling(),
            ];
            assert!(kinds.iter().filter(|kind| **kind).count() <= 1, "{table:?}");
        }
    }
}
