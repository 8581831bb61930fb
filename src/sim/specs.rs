//! The resources that the simulated cluster serves, a row each: what kubectl and discovery say of a kind, besides its row in the
//! table of kinds.

use model::fleet::observe::Table;

use super::resource::Spec;

const STATUS: &[&str] = &["status"];
const SCALED: &[&str] = &["scale", "status"];

macro_rules! resources {
    ($($(#[$doc:meta])* $name:ident $version:literal $of:ident($($place:expr),*)$(.$set:ident($($value:expr),*))*;)*) => {
        /// A resource that the simulated cluster serves.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Resource {
            $(
                #[doc = concat!("In the version ", $version, ".")]
                $(#[$doc])*
                $name,
            )*
        }

        /// Every resource served, grouped by API group and version in discovery order.
        pub static SPECS: &[Spec] = &[$(Spec::$of(Resource::$name, $version, $($place),*)$(.$set($($value),*))*),*];
    };
}

resources! {
    ConfigMaps "v1" own("", "configmaps", "ConfigMap").short(&["cm"]);
    Events "v1" own("", "events", "Event").short(&["ev"]);
    Namespaces "v1" listed(Table::Namespaces).sub(&["finalize", "status"]).short(&["ns"]);
    Nodes "v1" listed(Table::Nodes).sub(&["proxy", "status"]).short(&["no"]);
    /// Claims stay unbound: no controller binds them.
    PersistentVolumeClaims "v1" own("", "persistentvolumeclaims", "PersistentVolumeClaim").sub(STATUS).short(&["pvc"]);
    Pods "v1" listed(Table::Pods).sub(&["attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy", "resize", "status"]).short(&["po"]).all();
    ServiceAccounts "v1" own("", "serviceaccounts", "ServiceAccount").short(&["sa"]);
    Services "v1" own("", "services", "Service").sub(&["proxy", "status"]).short(&["svc"]).all();
    DaemonSets "v1" listed(Table::DaemonSets).sub(STATUS).short(&["ds"]).all();
    Deployments "v1" listed(Table::Deployments).sub(SCALED).short(&["deploy"]).all();
    ReplicaSets "v1" listed(Table::ReplicaSets).sub(SCALED).short(&["rs"]).all();
    StatefulSets "v1" listed(Table::StatefulSets).sub(SCALED).short(&["sts"]).all();
    PodAutoscalers "v2" listed(Table::PodAutoscalers).sub(STATUS).short(&["hpa"]).all();
    Jobs "v1" listed(Table::Jobs).sub(STATUS).all();
    PodDisruptionBudgets "v1" listed(Table::Budgets).sub(STATUS).short(&["pdb"]);
    PriorityClasses "v1" listed(Table::PriorityClasses).short(&["pc"]);
    Leases "v1" own("coordination.k8s.io", "leases", "Lease");
    DeviceClasses "v1" listed(Table::DeviceClasses);
    ResourceClaims "v1" listed(Table::ResourceClaims).sub(STATUS);
    ResourceClaimTemplates "v1" listed(Table::ResourceClaimTemplates);
    ResourceSlices "v1" listed(Table::ResourceSlices);
    ClusterRoleBindings "v1" own("rbac.authorization.k8s.io", "clusterrolebindings", "ClusterRoleBinding").cluster_wide();
    ClusterRoles "v1" own("rbac.authorization.k8s.io", "clusterroles", "ClusterRole").cluster_wide();
    RoleBindings "v1" own("rbac.authorization.k8s.io", "rolebindings", "RoleBinding");
    /// Users have the rights of `users`, whatever roles are written.
    Roles "v1" own("rbac.authorization.k8s.io", "roles", "Role");
    /// No traffic is simulated.
    NetworkPolicies "v1" own("networking.k8s.io", "networkpolicies", "NetworkPolicy").short(&["netpol"]);
    /// They are not evaluated.
    MutatingAdmissionPolicies "v1" own("admissionregistration.k8s.io", "mutatingadmissionpolicies", "MutatingAdmissionPolicy").cluster_wide();
    MutatingAdmissionPolicyBindings "v1" own("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding").cluster_wide();
    /// They are not evaluated.
    ValidatingAdmissionPolicies "v1" own("admissionregistration.k8s.io", "validatingadmissionpolicies", "ValidatingAdmissionPolicy").cluster_wide().sub(STATUS);
    ValidatingAdmissionPolicyBindings "v1" own("admissionregistration.k8s.io", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding").cluster_wide();
    JobSets "v1alpha2" listed(Table::JobSets).sub(STATUS);
    PyTorchJobs "v1" listed(Table::PyTorchJobs).sub(STATUS);
    RayClusters "v1" listed(Table::RayClusters).sub(STATUS).all();
    RayJobs "v1" listed(Table::RayJobs).sub(STATUS).all();
    LeaderWorkerSets "v1" listed(Table::LeaderWorkerSets).sub(SCALED).short(&["lws"]);
    VolcanoJobs "v1alpha1" listed(Table::VolcanoJobs).sub(STATUS).short(&["vcjob", "vj"]);
    VolcanoCommands "v1alpha1" own("bus.volcano.sh", "commands", "Command");
    VolcanoPodGroups "v1beta1" listed(Table::VolcanoPodGroups).sub(STATUS).short(&["pg", "podgroup-v1beta1"]);
    VolcanoQueues "v1beta1" listed(Table::VolcanoQueues).sub(STATUS).short(&["q", "queue-v1beta1"]);
    KaiQueues "v2" listed(Table::KaiQueues).sub(STATUS);
    KaiPodGroups "v2alpha2" listed(Table::KaiPodGroups).sub(STATUS);
    ClusterQueues "v1beta1" listed(Table::ClusterQueues).sub(STATUS).short(&["cq"]);
    LocalQueues "v1beta1" listed(Table::LocalQueues).sub(STATUS).short(&["queue", "queues", "lq"]);
    ResourceFlavors "v1beta1" listed(Table::ResourceFlavors).short(&["flavor", "flavors", "rf"]);
    Workloads "v1beta1" listed(Table::KueueWorkloads).sub(STATUS).short(&["wl"]);
    NodePools "v1" listed(Table::NodePools).sub(STATUS);
    NodeClaims "v1" listed(Table::NodeClaims).sub(STATUS);
    ProvisioningRequests "v1" listed(Table::ProvisioningRequests).sub(STATUS).short(&["provreq", "provreqs"]);
    ScaledObjects "v1alpha1" listed(Table::ScaledObjects).sub(STATUS).short(&["so"]);
}
