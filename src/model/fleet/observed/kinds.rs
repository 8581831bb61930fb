//! The table of Kubernetes kinds, a row a kind: its place in the API, the purpose of its objects, and which fields may be
//! written.
//!
//! Discovery, the watches, names on the command line, the write gate, the roles and the simulator's API follow from it. The type
//! that an object is read as is `cluster::read`'s.

use serde::{Deserialize, Serialize};

/// How objects of a kind are found by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KindRole {
    /// A job: plans find it by its name.
    Job,
    /// A queue: plans find it by its name.
    Queue,
    /// Owns pods or decorates jobs; found by `KIND/NAME` only.
    Owner,
    /// Not found by name: it is only listed.
    Listed,
}

/// What the objects of a kind say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// Nodes, pods and what else the fleet is made of.
    Fleet,
    /// Links of an owner chain: what a team may have submitted.
    Jobs,
    /// What a queueing system or a gang scheduler keeps of jobs.
    Groups,
    /// Rules by which work is queued, admitted or evicted.
    Rules,
    Claims,
    Scaling,
}

/// A Kubernetes kind, or those of its objects that a [`Table`] lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ApiKind {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version; empty where the server's preferred one is asked for: versions that have changed before and will again.
    pub version: &'static str,
    /// Plural name in the API; several groups may use the same.
    pub plural: &'static str,
    /// Kind of one object.
    pub kind: &'static str,
    /// `PLURAL.GROUP`, for the core group with the dot.
    dotted: &'static str,
    /// True when its objects live in namespaces.
    pub namespaced: bool,
    /// How its objects are found by name.
    pub role: KindRole,
    /// What its objects say.
    pub contents: Contents,
    /// True when plans may patch it.
    pub patched: bool,
    /// The field that suspends an object; `None` when its kind has none.
    pub suspend: Option<&'static str>,
    /// True when `govern` may suspend its objects.
    pub governed: bool,
    /// The table that lists it; `None` for a kind whose objects are read one by one.
    pub table: Option<Table>,
    /// The table's name among all tables.
    pub name: &'static str,
    /// Kind under which its objects are shown as jobs and owners: another than their own where another group has the same.
    pub shown: &'static str,
    /// Namespace and name of its only object, where no other of the kind is of interest.
    pub only: Option<(&'static str, &'static str)>,
    /// Namespace and field selector of its objects, where others of the kind are of no interest.
    pub selected: Option<(&'static str, &'static str)>,
    /// The table without which it has no objects: it is read where that one is served.
    pub follows: Option<Table>,
    /// True where a cluster without it lacks nothing: that it may not be read is said of no other answer.
    pub optional: bool,
    /// Facts that are unknown if it may not be read.
    pub what: &'static str,
}

impl ApiKind {
    const fn new(
        group: &'static str,
        plural: &'static str,
        kind: &'static str,
        dotted: &'static str,
    ) -> Self {
        Self {
            group,
            version: "",
            plural,
            kind,
            dotted,
            namespaced: true,
            role: KindRole::Listed,
            contents: Contents::Fleet,
            patched: false,
            suspend: None,
            governed: false,
            table: None,
            name: plural,
            shown: kind,
            only: None,
            selected: None,
            follows: None,
            optional: false,
            what: "nodes, pods and workloads",
        }
    }

    crate::setters! {
        of(table: Table) table = Some(table);
        version(version: &'static str) version = version;
        cluster_wide() namespaced = false;
        role(role: KindRole) role = role;
        holds(contents: Contents) contents = contents;
        patched() patched = true;
        shown_as(kind: &'static str) shown = kind;
        follows(table: Table) follows = Some(table);
        optional() optional = true;
        what(what: &'static str) what = what;
    }

    const fn job(self) -> Self {
        self.role(KindRole::Job).holds(Contents::Jobs)
    }

    /// Named with its group: another table has the same plural.
    const fn named_by_group(mut self) -> Self {
        self.name = self.dotted;
        self
    }

    const fn suspended_by(mut self, path: &'static str) -> Self {
        self.suspend = Some(path);
        self.patched()
    }

    const fn governed_by(mut self, path: &'static str) -> Self {
        self.governed = true;
        self.suspended_by(path)
    }

    const fn only(
        mut self,
        namespace: &'static str,
        object: &'static str,
        name: &'static str,
    ) -> Self {
        self.only = Some((namespace, object));
        self.name = name;
        self.cluster_wide()
    }

    const fn selected(
        mut self,
        namespace: &'static str,
        fields: &'static str,
        name: &'static str,
    ) -> Self {
        self.selected = Some((namespace, fields));
        self.name = name;
        self.cluster_wide()
    }

    /// `PLURAL.GROUP`, for the core group `PLURAL`.
    pub fn qualified(&self) -> &'static str {
        self.dotted.strip_suffix('.').unwrap_or(self.dotted)
    }

    /// The one namespace in which its objects are, where it is one.
    pub fn namespace(&self) -> Option<&'static str> {
        self.only.or(self.selected).map(|(namespace, _)| namespace)
    }

    /// The field selector of its objects, where not all of the kind are of interest.
    pub fn fields(&self) -> Option<String> {
        let name = self.only.map(|(_, name)| format!("metadata.name={name}"));
        name.or_else(|| Some(self.selected?.1.to_owned()))
    }
}

macro_rules! kinds {
    (
        listed { $($(#[$doc:meta])* $table:ident: $group:literal $plural:literal $kind:literal $(.$set:ident($($value:expr),*))*;)* }
        unlisted { $($other_group:literal $other_plural:literal $other_kind:literal $(.$other_set:ident($($other_value:expr),*))*;)* }
    ) => {
        /// The kinds of object that a source lists as a whole, so that a relist can sweep what has gone.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub enum Table { $($(#[$doc])* $table),* }

        impl Table {
            /// Every table, in display order.
            pub const ALL: &'static [Self] = &[$(Self::$table),*];
        }

        const LISTED: &[ApiKind] = &[$(
            ApiKind::new($group, $plural, $kind, concat!($plural, ".", $group))$(.$set($($value),*))*.of(Table::$table)
        ),*];

        const UNLISTED: &[ApiKind] = &[$(
            ApiKind::new($other_group, $other_plural, $other_kind, concat!($other_plural, ".", $other_group))
                $(.$other_set($($other_value),*))*
        ),*];
    };
}

kinds! {
    listed {
        Nodes: "" "nodes" "Node".version("v1").cluster_wide().role(KindRole::Owner).patched();
        Pods: "" "pods" "Pod".version("v1").role(KindRole::Job).patched();
        /// Namespaces (for the labels that name a team).
        Namespaces: "" "namespaces" "Namespace".version("v1").cluster_wide();
        /// ReplicaSets: links of an owner chain.
        ReplicaSets: "apps" "replicasets" "ReplicaSet".version("v1").job();
        Deployments: "apps" "deployments" "Deployment".version("v1").job().patched();
        StatefulSets: "apps" "statefulsets" "StatefulSet".version("v1").job().patched();
        /// DaemonSets: links of an owner chain.
        DaemonSets: "apps" "daemonsets" "DaemonSet".version("v1").role(KindRole::Owner).holds(Contents::Jobs);
        Jobs: "batch" "jobs" "Job".version("v1").job().governed_by("/spec/suspend");
        JobSets: "jobset.x-k8s.io" "jobsets" "JobSet".job().governed_by("/spec/suspend");
        LeaderWorkerSets: "leaderworkerset.x-k8s.io" "leaderworkersets" "LeaderWorkerSet".job().patched();
        PyTorchJobs: "kubeflow.org" "pytorchjobs" "PyTorchJob".job().governed_by("/spec/runPolicy/suspend");
        TfJobs: "kubeflow.org" "tfjobs" "TFJob".job().governed_by("/spec/runPolicy/suspend");
        MpiJobs: "kubeflow.org" "mpijobs" "MPIJob".job().governed_by("/spec/runPolicy/suspend");
        JaxJobs: "kubeflow.org" "jaxjobs" "JAXJob".job().suspended_by("/spec/runPolicy/suspend");
        PaddleJobs: "kubeflow.org" "paddlejobs" "PaddleJob".job().suspended_by("/spec/runPolicy/suspend");
        XgBoostJobs: "kubeflow.org" "xgboostjobs" "XGBoostJob".job().suspended_by("/spec/runPolicy/suspend");
        TrainJobs: "trainer.kubeflow.org" "trainjobs" "TrainJob".job().governed_by("/spec/suspend");
        RayJobs: "ray.io" "rayjobs" "RayJob".job().governed_by("/spec/suspend");
        RayClusters: "ray.io" "rayclusters" "RayCluster".job().suspended_by("/spec/suspend");
        /// Volcano's Jobs. They have the kind of Kubernetes' own, and two such jobs may have the same name.
        VolcanoJobs: "batch.volcano.sh" "jobs" "Job".job().patched().named_by_group().shown_as("VolcanoJob");
        KueueWorkloads: "kueue.x-k8s.io" "workloads" "Workload".role(KindRole::Owner).holds(Contents::Groups).patched().named_by_group();
        ClusterQueues: "kueue.x-k8s.io" "clusterqueues" "ClusterQueue".cluster_wide().role(KindRole::Queue).holds(Contents::Rules).patched();
        LocalQueues: "kueue.x-k8s.io" "localqueues" "LocalQueue".role(KindRole::Queue).patched();
        Cohorts: "kueue.x-k8s.io" "cohorts" "Cohort".cluster_wide().holds(Contents::Rules);
        ResourceFlavors: "kueue.x-k8s.io" "resourceflavors" "ResourceFlavor".cluster_wide().holds(Contents::Rules);
        Topologies: "kueue.x-k8s.io" "topologies" "Topology".cluster_wide().holds(Contents::Rules);
        WorkloadPriorityClasses: "kueue.x-k8s.io" "workloadpriorityclasses" "WorkloadPriorityClass".cluster_wide().holds(Contents::Rules);
        /// The one ConfigMap that holds Kueue's own configuration, where Kueue's manifests put it.
        KueueConfig: "" "configmaps" "ConfigMap".version("v1").holds(Contents::Rules)
            .only("kueue-system", "kueue-manager-config", "configmaps/kueue-manager-config")
            .what("Kueue's configuration: fair sharing, what its quotas count");
        /// The one ConfigMap that holds the queues of `govern`; the settings may name another namespace.
        GovernQueues: "" "configmaps" "ConfigMap".version("v1").holds(Contents::Rules)
            .only("stokehold", "stokehold-queues", "configmaps/stokehold-queues")
            .optional().what("the queues of `stokehold govern`");
        VolcanoPodGroups: "scheduling.volcano.sh" "podgroups" "PodGroup".role(KindRole::Owner).holds(Contents::Groups).patched().named_by_group();
        VolcanoQueues: "scheduling.volcano.sh" "queues" "Queue".cluster_wide().role(KindRole::Queue).holds(Contents::Rules).patched().named_by_group();
        KaiPodGroups: "scheduling.run.ai" "podgroups" "PodGroup".holds(Contents::Groups).named_by_group();
        KaiQueues: "scheduling.run.ai" "queues" "Queue".cluster_wide().role(KindRole::Queue).holds(Contents::Rules).named_by_group();
        /// Kubernetes' own Workloads (gangs, from 1.35).
        Workloads: "scheduling.k8s.io" "workloads" "Workload".holds(Contents::Groups).named_by_group();
        /// Kubernetes' own PodGroups (gangs, from 1.36).
        PodGroups: "scheduling.k8s.io" "podgroups" "PodGroup".holds(Contents::Groups).named_by_group();
        Budgets: "policy" "poddisruptionbudgets" "PodDisruptionBudget".version("v1").holds(Contents::Rules);
        PriorityClasses: "scheduling.k8s.io" "priorityclasses" "PriorityClass".version("v1").cluster_wide().holds(Contents::Rules);
        /// ResourceSlices: what drivers publish of devices.
        ResourceSlices: "resource.k8s.io" "resourceslices" "ResourceSlice".cluster_wide().holds(Contents::Claims);
        ResourceClaims: "resource.k8s.io" "resourceclaims" "ResourceClaim".holds(Contents::Claims);
        ResourceClaimTemplates: "resource.k8s.io" "resourceclaimtemplates" "ResourceClaimTemplate".holds(Contents::Claims);
        DeviceClasses: "resource.k8s.io" "deviceclasses" "DeviceClass".cluster_wide().holds(Contents::Claims);
        NodePools: "karpenter.sh" "nodepools" "NodePool".cluster_wide().holds(Contents::Scaling);
        NodeClaims: "karpenter.sh" "nodeclaims" "NodeClaim".cluster_wide().holds(Contents::Scaling);
        /// Events of NodeClaims that Karpenter deleted because the cloud had no capacity for them. Events about objects without a
        /// namespace are in `default`.
        ///
        /// Source: `pkg/controllers/nodeclaim/lifecycle/launch.go` and `events.go` of Karpenter 1.8.
        LaunchFailures: "" "events" "Event".version("v1").holds(Contents::Scaling)
            .selected("default", "involvedObject.kind=NodeClaim,reason=InsufficientCapacityError", "events/nodeclaims")
            .follows(Table::NodeClaims).what("nodes for which Karpenter found no capacity");
        /// The one ConfigMap in which the cluster autoscaler reports the state of its node groups.
        ///
        /// Source: the cluster autoscaler's FAQ and its flag `--status-config-map-name`.
        NodeGroups: "" "configmaps" "ConfigMap".version("v1").holds(Contents::Scaling)
            .only("kube-system", "cluster-autoscaler-status", "configmaps/cluster-autoscaler-status")
            .what("maximum sizes of the cluster autoscaler's node groups");
        /// ProvisioningRequests: capacity asked for before pods are made.
        ProvisioningRequests: "autoscaling.x-k8s.io" "provisioningrequests" "ProvisioningRequest".holds(Contents::Scaling);
        PodAutoscalers: "autoscaling" "horizontalpodautoscalers" "HorizontalPodAutoscaler".holds(Contents::Scaling);
        ScaledObjects: "keda.sh" "scaledobjects" "ScaledObject".holds(Contents::Scaling);
    }
    unlisted {
        "ray.io" "rayservices" "RayService".job();
        "batch" "cronjobs" "CronJob".role(KindRole::Owner);
        "" "replicationcontrollers" "ReplicationController".version("v1").role(KindRole::Owner);
        "workload.codeflare.dev" "appwrappers" "AppWrapper".role(KindRole::Owner);
        "serving.kserve.io" "inferenceservices" "InferenceService".role(KindRole::Owner);
        "kubeflow.org" "notebooks" "Notebook".role(KindRole::Owner);
        "sparkoperator.k8s.io" "sparkapplications" "SparkApplication".role(KindRole::Owner);
    }
}

/// True for a group that the API server itself serves, without custom resource definitions.
pub fn is_built_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// Every kind, listed ones first.
pub fn all() -> impl Iterator<Item = &'static ApiKind> {
    LISTED.iter().chain(UNLISTED)
}

pub fn find(group: &str, plural: &str) -> Option<&'static ApiKind> {
    all().find(|kind| kind.group == group && kind.plural == plural)
}

/// Kinds whose objects are found by `KIND/NAME`.
pub fn named() -> impl Iterator<Item = &'static ApiKind> {
    all().filter(|kind| kind.role != KindRole::Listed)
}

/// Kinds that are jobs, in the order in which a name is looked up.
pub fn jobs() -> impl Iterator<Item = &'static ApiKind> {
    all().filter(|kind| kind.role == KindRole::Job)
}

pub fn queues() -> impl Iterator<Item = &'static ApiKind> {
    all().filter(|kind| kind.role == KindRole::Queue)
}

/// The kind that is shown under this name: of a table first.
pub fn shown_as(name: &str) -> Option<&'static ApiKind> {
    all().find(|kind| kind.shown == name)
}

/// The name under which an object of this group and kind is shown.
pub fn shown_name<'a>(group: &str, kind: &'a str) -> &'a str {
    let known = LISTED
        .iter()
        .find(|known| known.kind == kind && known.group == group);
    known.map_or(kind, |known| known.shown)
}

impl Table {
    /// Its place in the API, and what its objects are for.
    pub const fn api(self) -> &'static ApiKind {
        &LISTED[self as usize]
    }

    /// The table of a kind of job, by the name under which it is shown.
    pub fn of_job_kind(kind: &str) -> Option<Self> {
        let mut jobs = LISTED
            .iter()
            .filter(|known| known.contents == Contents::Jobs);
        jobs.find(|known| known.shown == kind)?.table
    }

    /// The plural resource name in the API; several groups may use the same.
    pub const fn plural(self) -> &'static str {
        self.api().plural
    }

    /// Its own name among all tables: the plural, with the API group where another table has the same.
    pub const fn name(self) -> &'static str {
        self.api().name
    }

    /// True when its rows are links of an owner chain: what a team may have submitted.
    pub const fn holds_jobs(self) -> bool {
        matches!(self.api().contents, Contents::Jobs)
    }

    /// True when its rows are rules by which work is queued, admitted or evicted: without them nodes, devices and jobs are shown whole.
    pub const fn holds_rules(self) -> bool {
        matches!(self.api().contents, Contents::Rules)
    }

    /// True where a cluster without it lacks nothing: that it may not be read is said of no other answer.
    pub const fn is_optional(self) -> bool {
        self.api().optional
    }

    /// True when its rows are about devices by claim.
    pub const fn holds_claims(self) -> bool {
        matches!(self.api().contents, Contents::Claims)
    }

    /// True for tables of autoscaling objects: without them the current state is complete, but not how far it may scale.
    pub const fn holds_scaling(self) -> bool {
        matches!(self.api().contents, Contents::Scaling)
    }

    /// True when its rows decorate jobs: objects of a queueing system or a gang scheduler about them.
    pub const fn holds_groups(self) -> bool {
        matches!(self.api().contents, Contents::Groups)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_table_has_its_own_row_and_name() {
        let names: BTreeSet<&str> = Table::ALL.iter().map(|table| table.name()).collect();
        assert_eq!(names.len(), Table::ALL.len());
        for table in Table::ALL {
            assert_eq!(table.api().table, Some(*table));
            assert!(table.name().starts_with(table.plural()), "{table:?}");
        }
    }

    #[test]
    fn a_kind_of_job_leads_back_to_its_table() {
        for table in Table::ALL.iter().filter(|table| table.holds_jobs()) {
            assert_eq!(Table::of_job_kind(table.api().shown), Some(*table));
        }
        assert_eq!(Table::of_job_kind("Pod"), None);
        assert_eq!(shown_name("batch.volcano.sh", "Job"), "VolcanoJob");
        assert_eq!(shown_name("batch", "Job"), "Job");
        assert_eq!(shown_name("example.com", "Anything"), "Anything");
    }

    #[test]
    fn no_kind_is_there_twice() {
        let whole = |kind: &&ApiKind| kind.namespace().is_none();
        let kinds: Vec<&ApiKind> = all().filter(whole).collect();
        let names: BTreeSet<_> = kinds.iter().map(|kind| (kind.group, kind.kind)).collect();
        assert_eq!(names.len(), kinds.len());
        let plurals: BTreeSet<_> = kinds.iter().map(|kind| kind.qualified()).collect();
        assert_eq!(plurals.len(), kinds.len());
    }
}
