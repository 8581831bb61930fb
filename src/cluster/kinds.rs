//! The registry of workload and queue kinds: each one's names, its place in the API, and the operations allowed on it. Discovery,
//! the object reader, names on the command line, the write gate and the roles are derived from it.

use model::fleet::observe::Table;

/// What a kind is to its users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A job: plans find it by its name. A name is looked up in the order of [`ALL`].
    Job,
    /// A queue: plans find it by its name.
    Queue,
    /// Owns pods or decorates jobs; read only on request.
    Read,
}

/// A kind of workload or queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectKind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plural name in the API.
    pub plural: &'static str,
    /// Kind of one object.
    pub kind: &'static str,
    /// True when its objects live in namespaces.
    pub namespaced: bool,
    /// What it is to its users.
    pub role: Role,
    /// The table that lists it; `None` where there is no such table.
    pub table: Option<Table>,
    /// True when plans may patch it.
    pub patched: bool,
}

impl ObjectKind {
    const fn new(group: &'static str, plural: &'static str, kind: &'static str) -> Self {
        Self {
            group,
            plural,
            kind,
            namespaced: true,
            role: Role::Job,
            table: None,
            patched: false,
        }
    }

    const fn listed(mut self, table: Table) -> Self {
        self.table = Some(table);
        self
    }

    const fn patched(mut self) -> Self {
        self.patched = true;
        self
    }

    const fn queue(mut self, namespaced: bool) -> Self {
        self.role = Role::Queue;
        self.namespaced = namespaced;
        self
    }

    const fn read(mut self) -> Self {
        self.role = Role::Read;
        self
    }

    const fn cluster_wide(mut self) -> Self {
        self.namespaced = false;
        self
    }
}

const fn kind(group: &'static str, plural: &'static str, kind: &'static str) -> ObjectKind {
    ObjectKind::new(group, plural, kind)
}

/// Every kind.
pub const ALL: &[ObjectKind] = &[
    kind("jobset.x-k8s.io", "jobsets", "JobSet")
        .listed(Table::JobSets)
        .patched(),
    kind("trainer.kubeflow.org", "trainjobs", "TrainJob")
        .listed(Table::TrainJobs)
        .patched(),
    kind("kubeflow.org", "pytorchjobs", "PyTorchJob")
        .listed(Table::PyTorchJobs)
        .patched(),
    kind("kubeflow.org", "mpijobs", "MPIJob")
        .listed(Table::MpiJobs)
        .patched(),
    kind("kubeflow.org", "tfjobs", "TFJob")
        .listed(Table::TfJobs)
        .patched(),
    kind("kubeflow.org", "xgboostjobs", "XGBoostJob").patched(),
    kind("kubeflow.org", "paddlejobs", "PaddleJob").patched(),
    kind("kubeflow.org", "jaxjobs", "JAXJob").patched(),
    kind("ray.io", "rayjobs", "RayJob")
        .listed(Table::RayJobs)
        .patched(),
    kind("ray.io", "rayclusters", "RayCluster")
        .listed(Table::RayClusters)
        .patched(),
    kind("ray.io", "rayservices", "RayService"),
    kind("batch.volcano.sh", "jobs", "Job")
        .listed(Table::VolcanoJobs)
        .patched(),
    kind(
        "leaderworkerset.x-k8s.io",
        "leaderworkersets",
        "LeaderWorkerSet",
    )
    .listed(Table::LeaderWorkerSets)
    .patched(),
    kind("batch", "jobs", "Job").listed(Table::Jobs).patched(),
    kind("apps", "deployments", "Deployment")
        .listed(Table::Deployments)
        .patched(),
    kind("apps", "statefulsets", "StatefulSet")
        .listed(Table::StatefulSets)
        .patched(),
    kind("apps", "replicasets", "ReplicaSet").listed(Table::ReplicaSets),
    kind("", "pods", "Pod").listed(Table::Pods).patched(),
    kind("kueue.x-k8s.io", "clusterqueues", "ClusterQueue")
        .listed(Table::ClusterQueues)
        .queue(false)
        .patched(),
    kind("kueue.x-k8s.io", "localqueues", "LocalQueue")
        .listed(Table::LocalQueues)
        .queue(true)
        .patched(),
    kind("scheduling.volcano.sh", "queues", "Queue")
        .listed(Table::VolcanoQueues)
        .queue(false)
        .patched(),
    kind("scheduling.run.ai", "queues", "Queue")
        .listed(Table::KaiQueues)
        .queue(false),
    kind("apps", "daemonsets", "DaemonSet")
        .listed(Table::DaemonSets)
        .read(),
    kind("kueue.x-k8s.io", "workloads", "Workload")
        .listed(Table::KueueWorkloads)
        .read()
        .patched(),
    kind("scheduling.volcano.sh", "podgroups", "PodGroup")
        .listed(Table::VolcanoPodGroups)
        .read()
        .patched(),
    kind("", "nodes", "Node")
        .listed(Table::Nodes)
        .read()
        .cluster_wide()
        .patched(),
    kind("batch", "cronjobs", "CronJob").read(),
    kind("", "replicationcontrollers", "ReplicationController").read(),
    kind("workload.codeflare.dev", "appwrappers", "AppWrapper").read(),
    kind("serving.kserve.io", "inferenceservices", "InferenceService").read(),
    kind("kubeflow.org", "notebooks", "Notebook").read(),
    kind(
        "sparkoperator.k8s.io",
        "sparkapplications",
        "SparkApplication",
    )
    .read(),
];

/// Writes that patch no object of a kind above.
const OTHER_WRITES: &[(&str, &str, &str, &str)] = &[
    ("", "pods", "eviction", "create"),
    ("", "events", "", "create"),
    ("bus.volcano.sh", "commands", "", "create"),
];

/// Kinds that are jobs, in the order in which a name is looked up.
pub fn jobs() -> impl Iterator<Item = &'static ObjectKind> {
    ALL.iter().filter(|kind| kind.role == Role::Job)
}

/// Kinds that are queues.
pub fn queues() -> impl Iterator<Item = &'static ObjectKind> {
    ALL.iter().filter(|kind| kind.role == Role::Queue)
}

/// The kind of this name that no table lists.
pub fn unlisted(name: &str) -> Option<&'static ObjectKind> {
    ALL.iter()
        .find(|kind| kind.table.is_none() && kind.kind == name)
}

/// Everything that plans, and the runs around them, ever write: group, plural, subresource, verb.
pub fn writable() -> impl Iterator<Item = (&'static str, &'static str, &'static str, &'static str)>
{
    let patched = ALL.iter().filter(|kind| kind.patched);
    patched
        .map(|kind| (kind.group, kind.plural, "", "patch"))
        .chain(OTHER_WRITES.iter().copied())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::table::place;

    #[test]
    fn a_kind_stands_where_its_table_does() {
        for kind in ALL {
            let Some(table) = kind.table else { continue };
            let place = place(table);
            assert_eq!(
                (kind.group, kind.plural, kind.kind, kind.namespaced),
                (place.group, table.plural(), place.kind, place.namespaced),
                "{table:?}"
            );
        }
    }

    #[test]
    fn every_table_of_jobs_and_queues_is_of_a_kind() {
        let queues = [
            Table::ClusterQueues,
            Table::LocalQueues,
            Table::VolcanoQueues,
            Table::KaiQueues,
        ];
        let known: BTreeSet<Table> = ALL.iter().filter_map(|kind| kind.table).collect();
        let jobs = Table::ALL.iter().filter(|table| table.holds_jobs());
        for table in jobs.chain(&queues) {
            assert!(known.contains(table), "{table:?}");
        }
        let listed = ALL.iter().filter(|kind| kind.table.is_some()).count();
        assert_eq!(known.len(), listed, "no table is of two kinds");
    }

    #[test]
    fn no_kind_stands_there_twice() {
        let names: BTreeSet<(&str, &str)> =
            ALL.iter().map(|kind| (kind.group, kind.kind)).collect();
        assert_eq!(names.len(), ALL.len());
        let plurals: BTreeSet<(&str, &str)> =
            ALL.iter().map(|kind| (kind.group, kind.plural)).collect();
        assert_eq!(plurals.len(), ALL.len());
    }
}
