//! The API resource of each table: group, version, plural, kind and scope.

use model::fleet::observe::Table;

use super::event;

/// The API coordinates of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableResource {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version; empty where the cluster decides and discovery is needed.
    pub version: &'static str,
    /// Kind of one object.
    pub kind: &'static str,
    /// True when its objects live in namespaces.
    pub namespaced: bool,
    /// Namespace and name of its only object, where no other of the kind is of interest.
    pub only: Option<(&'static str, &'static str)>,
    /// Namespace and field selector of its objects, where others of the kind are of no interest.
    pub selected: Option<(&'static str, &'static str)>,
    /// The table without which it has no objects: it is read where that one is served.
    pub follows: Option<Table>,
}

/// ConfigMap in which the cluster autoscaler reports the status of its node groups.
///
/// Source: the cluster autoscaler's FAQ and its flag `--status-config-map-name`.
const NODE_GROUPS: (&str, &str) = ("kube-system", "cluster-autoscaler-status");

/// Where Kueue's manifests put its own configuration.
const KUEUE_CONFIG: (&str, &str) = ("kueue-system", "kueue-manager-config");

/// ConfigMap of the queues of `govern`, unless the settings name another namespace.
const GOVERN_QUEUES: (&str, &str) = ("stokehold", "stokehold-queues");

impl TableResource {
    /// The one namespace in which its objects are, where it is one.
    pub fn namespace(&self) -> Option<&'static str> {
        self.only.or(self.selected).map(|(namespace, _)| namespace)
    }

    /// The field selector of its objects, where not all of the kind are of interest.
    pub fn fields(&self) -> Option<String> {
        let name = self.only.map(|(_, name)| format!("metadata.name={name}"));
        name.or_else(|| Some(self.selected?.1.to_owned()))
    }

    /// Kind under which its objects are shown as jobs. Volcano's Job has the same kind as Kubernetes' own, and two such jobs may
    /// have the same name, so they need different kinds.
    pub const fn job_kind(&self) -> &'static str {
        match self.group.as_bytes() {
            b"batch.volcano.sh" => VOLCANO_JOB,
            _ => self.kind,
        }
    }
}

/// The displayed kind of Volcano's Job.
pub const VOLCANO_JOB: &str = "VolcanoJob";

/// The table of a job kind.
pub fn of_job_kind(kind: &str) -> Option<Table> {
    Table::ALL
        .iter()
        .copied()
        .find(|table| table.holds_jobs() && place(*table).job_kind() == kind)
}

/// The API coordinates of `table`.
pub const fn place(table: Table) -> TableResource {
    // Versions that have changed before and will again are left to discovery.
    let (group, version, kind, namespaced) = match table {
        Table::Nodes => ("", "v1", "Node", false),
        Table::Pods => ("", "v1", "Pod", true),
        Table::Namespaces => ("", "v1", "Namespace", false),
        Table::ReplicaSets => ("apps", "v1", "ReplicaSet", true),
        Table::Deployments => ("apps", "v1", "Deployment", true),
        Table::StatefulSets => ("apps", "v1", "StatefulSet", true),
        Table::DaemonSets => ("apps", "v1", "DaemonSet", true),
        Table::Jobs => ("batch", "v1", "Job", true),
        Table::JobSets => ("jobset.x-k8s.io", "", "JobSet", true),
        Table::LeaderWorkerSets => ("leaderworkerset.x-k8s.io", "", "LeaderWorkerSet", true),
        Table::PyTorchJobs => ("kubeflow.org", "", "PyTorchJob", true),
        Table::TfJobs => ("kubeflow.org", "", "TFJob", true),
        Table::MpiJobs => ("kubeflow.org", "", "MPIJob", true),
        Table::TrainJobs => ("trainer.kubeflow.org", "", "TrainJob", true),
        Table::RayJobs => ("ray.io", "", "RayJob", true),
        Table::RayClusters => ("ray.io", "", "RayCluster", true),
        Table::VolcanoJobs => ("batch.volcano.sh", "", "Job", true),
        Table::KueueWorkloads => ("kueue.x-k8s.io", "", "Workload", true),
        Table::ClusterQueues => ("kueue.x-k8s.io", "", "ClusterQueue", false),
        Table::LocalQueues => ("kueue.x-k8s.io", "", "LocalQueue", true),
        Table::Cohorts => ("kueue.x-k8s.io", "", "Cohort", false),
        Table::ResourceFlavors => ("kueue.x-k8s.io", "", "ResourceFlavor", false),
        Table::Topologies => ("kueue.x-k8s.io", "", "Topology", false),
        Table::WorkloadPriorityClasses => ("kueue.x-k8s.io", "", "WorkloadPriorityClass", false),
        Table::VolcanoPodGroups => ("scheduling.volcano.sh", "", "PodGroup", true),
        Table::VolcanoQueues => ("scheduling.volcano.sh", "", "Queue", false),
        Table::KaiPodGroups => ("scheduling.run.ai", "", "PodGroup", true),
        Table::KaiQueues => ("scheduling.run.ai", "", "Queue", false),
        Table::Workloads => ("scheduling.k8s.io", "", "Workload", true),
        Table::PodGroups => ("scheduling.k8s.io", "", "PodGroup", true),
        Table::Budgets => ("policy", "v1", "PodDisruptionBudget", true),
        Table::PriorityClasses => ("scheduling.k8s.io", "v1", "PriorityClass", false),
        Table::ResourceSlices => ("resource.k8s.io", "", "ResourceSlice", false),
        Table::ResourceClaims => ("resource.k8s.io", "", "ResourceClaim", true),
        Table::ResourceClaimTemplates => ("resource.k8s.io", "", "ResourceClaimTemplate", true),
        Table::DeviceClasses => ("resource.k8s.io", "", "DeviceClass", false),
        Table::NodePools => ("karpenter.sh", "", "NodePool", false),
        Table::NodeClaims => ("karpenter.sh", "", "NodeClaim", false),
        // Those in one namespace, regardless of the selected ones.
        Table::LaunchFailures => ("", "v1", "Event", false),
        // One object of the cluster, regardless of the selected namespaces.
        Table::NodeGroups | Table::KueueConfig | Table::GovernQueues => {
            ("", "v1", "ConfigMap", false)
        }
        Table::ProvisioningRequests => ("autoscaling.x-k8s.io", "", "ProvisioningRequest", true),
        Table::PodAutoscalers => ("autoscaling", "", "HorizontalPodAutoscaler", true),
        Table::ScaledObjects => ("keda.sh", "", "ScaledObject", true),
    };
    TableResource {
        group,
        version,
        kind,
        namespaced,
        only: match table {
            Table::NodeGroups => Some(NODE_GROUPS),
            Table::KueueConfig => Some(KUEUE_CONFIG),
            Table::GovernQueues => Some(GOVERN_QUEUES),
            _ => None,
        },
        selected: match table {
            Table::LaunchFailures => Some((event::NAMESPACE, event::NO_CAPACITY)),
            _ => None,
        },
        follows: match table {
            Table::LaunchFailures => Some(Table::NodeClaims),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_job_leads_back_to_its_table() {
        for table in Table::ALL.iter().filter(|table| table.holds_jobs()) {
            assert_eq!(of_job_kind(place(*table).job_kind()), Some(*table));
        }
        assert_eq!(of_job_kind("Pod"), None);
    }

    #[test]
    fn what_belongs_to_the_cluster_is_in_no_namespace() {
        for table in Table::ALL {
            let wide = matches!(
                table,
                Table::Nodes
                    | Table::Namespaces
                    | Table::ClusterQueues
                    | Table::Cohorts
                    | Table::ResourceFlavors
                    | Table::Topologies
                    | Table::WorkloadPriorityClasses
                    | Table::VolcanoQueues
                    | Table::KaiQueues
                    | Table::PriorityClasses
                    | Table::ResourceSlices
                    | Table::DeviceClasses
                    | Table::NodePools
                    | Table::NodeClaims
                    | Table::LaunchFailures
                    | Table::NodeGroups
                    | Table::KueueConfig
                    | Table::GovernQueues
            );
            assert_eq!(place(*table).namespaced, !wide, "{table:?}");
        }
    }
}
