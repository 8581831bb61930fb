//! Where each table stands in the API: group, version, plural, kind and scope.

use serde::Deserialize;

use crate::fleet::observe::Table;

/// The API coordinates of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version; empty where the cluster decides and discovery must be asked.
    pub version: &'static str,
    /// Kind of one object.
    pub kind: &'static str,
    /// True when its objects live in namespaces.
    pub namespaced: bool,
}

/// The API coordinates of `table`.
pub const fn place(table: Table) -> Place {
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
    };
    Place {
        group,
        version,
        kind,
        namespaced,
    }
}

/// What an API group says of itself (`GET /apis/GROUP`).
#[derive(Deserialize, Default, Debug)]
#[serde(default, rename_all = "camelCase")]
pub struct Group {
    versions: Vec<GroupVersion>,
    preferred_version: Option<GroupVersion>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(default)]
struct GroupVersion {
    version: String,
}

impl Group {
    /// The version to speak: the one the server prefers, else the first it serves.
    pub fn version(&self) -> Option<&str> {
        self.preferred_version
            .iter()
            .chain(&self.versions)
            .map(|known| known.version.as_str())
            .find(|version| !version.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_names_the_version_to_speak() {
        let group: Group = serde_json::from_str(
            r#"{"kind":"APIGroup","versions":[{"version":"v1alpha1"},{"version":"v1alpha2"}],
                "preferredVersion":{"groupVersion":"jobset.x-k8s.io/v1alpha2","version":"v1alpha2"}}"#,
        )
        .expect("a group");
        assert_eq!(group.version(), Some("v1alpha2"));
        let bare: Group =
            serde_json::from_str(r#"{"versions":[{"version":"v1"}]}"#).expect("a group");
        assert_eq!(bare.version(), Some("v1"));
        assert_eq!(Group::default().version(), None);
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
            );
            assert_eq!(place(*table).namespaced, !wide, "{table:?}");
        }
    }
}
