//! The table of resources that the simulated cluster serves.

use super::change::Resource;
use super::resource::Spec;

const STATUS: &[&str] = &["status"];
const SCALED: &[&str] = &["scale", "status"];

const fn core(
    resource: Resource,
    kind: &'static str,
    names: [&'static str; 2],
    short: &'static [&'static str],
    namespaced: bool,
    subresources: &'static [&'static str],
    hash: &'static str,
) -> Spec {
    let [plural, singular] = names;
    Spec {
        resource,
        group: "",
        version: "v1",
        kind,
        plural,
        singular,
        short,
        categories: &[],
        namespaced,
        custom: false,
        subresources,
        hash,
    }
}

/// Every resource served, grouped by API group and version in discovery order.
pub static SPECS: &[Spec] = &[
    core(
        Resource::ConfigMaps,
        "ConfigMap",
        ["configmaps", "configmap"],
        &["cm"],
        true,
        &[],
        "qFsyl6wFWjQ=",
    ),
    core(
        Resource::Events,
        "Event",
        ["events", "event"],
        &["ev"],
        true,
        &[],
        "r2yiGXH7wu8=",
    ),
    core(
        Resource::Namespaces,
        "Namespace",
        ["namespaces", "namespace"],
        &["ns"],
        false,
        &["finalize", "status"],
        "Q3oi5N2YM8M=",
    ),
    core(
        Resource::Nodes,
        "Node",
        ["nodes", "node"],
        &["no"],
        false,
        &["proxy", "status"],
        "XwShjMxG9Fs=",
    ),
    core(
        Resource::PersistentVolumeClaims,
        "PersistentVolumeClaim",
        ["persistentvolumeclaims", "persistentvolumeclaim"],
        &["pvc"],
        true,
        STATUS,
        "QWTyNDq0dC4=",
    ),
    core(
        Resource::Pods,
        "Pod",
        ["pods", "pod"],
        &["po"],
        true,
        &[
            "attach",
            "binding",
            "ephemeralcontainers",
            "eviction",
            "exec",
            "log",
            "portforward",
            "proxy",
            "resize",
            "status",
        ],
        "xPOwRZ+Yhw8=",
    )
    .all(),
    core(
        Resource::ServiceAccounts,
        "ServiceAccount",
        ["serviceaccounts", "serviceaccount"],
        &["sa"],
        true,
        &[],
        "pbx9ZvyFpBE=",
    ),
    core(
        Resource::Services,
        "Service",
        ["services", "service"],
        &["svc"],
        true,
        &["proxy", "status"],
        "0/CO1lhkEBI=",
    )
    .all(),
    core(
        Resource::DaemonSets,
        "DaemonSet",
        ["daemonsets", "daemonset"],
        &["ds"],
        true,
        STATUS,
        "dd7pWHUlMKQ=",
    )
    .all()
    .of("apps", "v1"),
    core(
        Resource::Deployments,
        "Deployment",
        ["deployments", "deployment"],
        &["deploy"],
        true,
        SCALED,
        "8aSe+NMegvE=",
    )
    .all()
    .of("apps", "v1"),
    core(
        Resource::ReplicaSets,
        "ReplicaSet",
        ["replicasets", "replicaset"],
        &["rs"],
        true,
        SCALED,
        "P1RzHs8/mWQ=",
    )
    .all()
    .of("apps", "v1"),
    core(
        Resource::StatefulSets,
        "StatefulSet",
        ["statefulsets", "statefulset"],
        &["sts"],
        true,
        SCALED,
        "H+vl74LkKdo=",
    )
    .all()
    .of("apps", "v1"),
    core(
        Resource::PodAutoscalers,
        "HorizontalPodAutoscaler",
        ["horizontalpodautoscalers", "horizontalpodautoscaler"],
        &["hpa"],
        true,
        STATUS,
        "qwQve8ut294=",
    )
    .all()
    .of("autoscaling", "v2"),
    core(
        Resource::Jobs,
        "Job",
        ["jobs", "job"],
        &[],
        true,
        STATUS,
        "mudhfqk/qZY=",
    )
    .all()
    .of("batch", "v1"),
    core(
        Resource::PodDisruptionBudgets,
        "PodDisruptionBudget",
        ["poddisruptionbudgets", "poddisruptionbudget"],
        &["pdb"],
        true,
        STATUS,
        "EVWiDmWqyJw=",
    )
    .of("policy", "v1"),
    core(
        Resource::PriorityClasses,
        "PriorityClass",
        ["priorityclasses", "priorityclass"],
        &["pc"],
        false,
        &[],
        "1QwjyaZjj3Y=",
    )
    .of("scheduling.k8s.io", "v1"),
    core(
        Resource::Leases,
        "Lease",
        ["leases", "lease"],
        &[],
        true,
        &[],
        "gqkMMb/YqFM=",
    )
    .of("coordination.k8s.io", "v1"),
    core(
        Resource::DeviceClasses,
        "DeviceClass",
        ["deviceclasses", "deviceclass"],
        &[],
        false,
        &[],
        "Yk2PTc1Ybxk=",
    )
    .of("resource.k8s.io", "v1"),
    core(
        Resource::ResourceClaims,
        "ResourceClaim",
        ["resourceclaims", "resourceclaim"],
        &[],
        true,
        STATUS,
        "wgAZaHcZxUg=",
    )
    .of("resource.k8s.io", "v1"),
    core(
        Resource::ResourceClaimTemplates,
        "ResourceClaimTemplate",
        ["resourceclaimtemplates", "resourceclaimtemplate"],
        &[],
        true,
        &[],
        "TuzjC49aUfM=",
    )
    .of("resource.k8s.io", "v1"),
    core(
        Resource::ResourceSlices,
        "ResourceSlice",
        ["resourceslices", "resourceslice"],
        &[],
        false,
        &[],
        "KsC072WgaEY=",
    )
    .of("resource.k8s.io", "v1"),
    core(
        Resource::ClusterRoleBindings,
        "ClusterRoleBinding",
        ["clusterrolebindings", "clusterrolebinding"],
        &[],
        false,
        &[],
        "48tpQ8gZHFc=",
    )
    .of("rbac.authorization.k8s.io", "v1"),
    core(
        Resource::ClusterRoles,
        "ClusterRole",
        ["clusterroles", "clusterrole"],
        &[],
        false,
        &[],
        "bYE5ZWDrJ44=",
    )
    .of("rbac.authorization.k8s.io", "v1"),
    core(
        Resource::RoleBindings,
        "RoleBinding",
        ["rolebindings", "rolebinding"],
        &[],
        true,
        &[],
        "eGsCzGH6b1g=",
    )
    .of("rbac.authorization.k8s.io", "v1"),
    core(
        Resource::Roles,
        "Role",
        ["roles", "role"],
        &[],
        true,
        &[],
        "7FuwZcIIItM=",
    )
    .of("rbac.authorization.k8s.io", "v1"),
    core(
        Resource::NetworkPolicies,
        "NetworkPolicy",
        ["networkpolicies", "networkpolicy"],
        &["netpol"],
        true,
        &[],
        "YpfwF18m1G8=",
    )
    .of("networking.k8s.io", "v1"),
    core(
        Resource::MutatingAdmissionPolicies,
        "MutatingAdmissionPolicy",
        ["mutatingadmissionpolicies", "mutatingadmissionpolicy"],
        &[],
        false,
        &[],
        "mHCkTKpUTrE=",
    )
    .of("admissionregistration.k8s.io", "v1"),
    core(
        Resource::MutatingAdmissionPolicyBindings,
        "MutatingAdmissionPolicyBinding",
        [
            "mutatingadmissionpolicybindings",
            "mutatingadmissionpolicybinding",
        ],
        &[],
        false,
        &[],
        "ZKgZT1uTmZ0=",
    )
    .of("admissionregistration.k8s.io", "v1"),
    core(
        Resource::ValidatingAdmissionPolicies,
        "ValidatingAdmissionPolicy",
        ["validatingadmissionpolicies", "validatingadmissionpolicy"],
        &[],
        false,
        STATUS,
        "6OxvlMmQ6is=",
    )
    .of("admissionregistration.k8s.io", "v1"),
    core(
        Resource::ValidatingAdmissionPolicyBindings,
        "ValidatingAdmissionPolicyBinding",
        [
            "validatingadmissionpolicybindings",
            "validatingadmissionpolicybinding",
        ],
        &[],
        false,
        &[],
        "v9715VZqakg=",
    )
    .of("admissionregistration.k8s.io", "v1"),
    core(
        Resource::JobSets,
        "JobSet",
        ["jobsets", "jobset"],
        &[],
        true,
        STATUS,
        "KpiKgyjBCag=",
    )
    .of("jobset.x-k8s.io", "v1alpha2")
    .custom(),
    core(
        Resource::PyTorchJobs,
        "PyTorchJob",
        ["pytorchjobs", "pytorchjob"],
        &[],
        true,
        STATUS,
        "qvtXFuAPskk=",
    )
    .of("kubeflow.org", "v1")
    .custom(),
    core(
        Resource::RayClusters,
        "RayCluster",
        ["rayclusters", "raycluster"],
        &[],
        true,
        STATUS,
        "UP2gQIHfhcY=",
    )
    .all()
    .of("ray.io", "v1")
    .custom(),
    core(
        Resource::RayJobs,
        "RayJob",
        ["rayjobs", "rayjob"],
        &[],
        true,
        STATUS,
        "GU5vyArtV8Q=",
    )
    .all()
    .of("ray.io", "v1")
    .custom(),
    core(
        Resource::LeaderWorkerSets,
        "LeaderWorkerSet",
        ["leaderworkersets", "leaderworkerset"],
        &["lws"],
        true,
        SCALED,
        "P5Sive80X4M=",
    )
    .of("leaderworkerset.x-k8s.io", "v1")
    .custom(),
    core(
        Resource::VolcanoJobs,
        "Job",
        ["jobs", "job"],
        &["vcjob", "vj"],
        true,
        STATUS,
        "DbMX/QqtM30=",
    )
    .of("batch.volcano.sh", "v1alpha1")
    .custom(),
    core(
        Resource::VolcanoCommands,
        "Command",
        ["commands", "command"],
        &[],
        true,
        &[],
        "p7JEXLgF6MU=",
    )
    .of("bus.volcano.sh", "v1alpha1")
    .custom(),
    core(
        Resource::VolcanoPodGroups,
        "PodGroup",
        ["podgroups", "podgroup"],
        &["pg", "podgroup-v1beta1"],
        true,
        STATUS,
        "yufRBZAGAC0=",
    )
    .of("scheduling.volcano.sh", "v1beta1")
    .custom(),
    core(
        Resource::VolcanoQueues,
        "Queue",
        ["queues", "queue"],
        &["q", "queue-v1beta1"],
        false,
        STATUS,
        "Xss8xwFDxtc=",
    )
    .of("scheduling.volcano.sh", "v1beta1")
    .custom(),
    core(
        Resource::KaiQueues,
        "Queue",
        ["queues", "queue"],
        &[],
        false,
        STATUS,
        "4LpWE/3WmcI=",
    )
    .of("scheduling.run.ai", "v2")
    .custom(),
    core(
        Resource::KaiPodGroups,
        "PodGroup",
        ["podgroups", "podgroup"],
        &[],
        true,
        STATUS,
        "m9mi0BIXT9o=",
    )
    .of("scheduling.run.ai", "v2alpha2")
    .custom(),
    core(
        Resource::ClusterQueues,
        "ClusterQueue",
        ["clusterqueues", "clusterqueue"],
        &["cq"],
        false,
        STATUS,
        "iGds19+cj/o=",
    )
    .of("kueue.x-k8s.io", "v1beta1")
    .custom(),
    core(
        Resource::LocalQueues,
        "LocalQueue",
        ["localqueues", "localqueue"],
        &["queue", "queues", "lq"],
        true,
        STATUS,
        "QS3xrHsn1fU=",
    )
    .of("kueue.x-k8s.io", "v1beta1")
    .custom(),
    core(
        Resource::ResourceFlavors,
        "ResourceFlavor",
        ["resourceflavors", "resourceflavor"],
        &["flavor", "flavors", "rf"],
        false,
        &[],
        "8cmMw/zZL6I=",
    )
    .of("kueue.x-k8s.io", "v1beta1")
    .custom(),
    core(
        Resource::Workloads,
        "Workload",
        ["workloads", "workload"],
        &["wl"],
        true,
        STATUS,
        "/RGEkJN+gBs=",
    )
    .of("kueue.x-k8s.io", "v1beta1")
    .custom(),
    core(
        Resource::NodePools,
        "NodePool",
        ["nodepools", "nodepool"],
        &[],
        false,
        STATUS,
        "Vc6J1THIlNI=",
    )
    .of("karpenter.sh", "v1")
    .custom(),
    core(
        Resource::NodeClaims,
        "NodeClaim",
        ["nodeclaims", "nodeclaim"],
        &[],
        false,
        STATUS,
        "QTizURWjI3E=",
    )
    .of("karpenter.sh", "v1")
    .custom(),
    core(
        Resource::ProvisioningRequests,
        "ProvisioningRequest",
        ["provisioningrequests", "provisioningrequest"],
        &["provreq", "provreqs"],
        true,
        STATUS,
        "qffvPoUECeA=",
    )
    .of("autoscaling.x-k8s.io", "v1")
    .custom(),
    core(
        Resource::ScaledObjects,
        "ScaledObject",
        ["scaledobjects", "scaledobject"],
        &["so"],
        true,
        STATUS,
        "GB5mKGeb4xM=",
    )
    .of("keda.sh", "v1alpha1")
    .custom(),
];
