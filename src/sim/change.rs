//! The interface between the simulated world and its API: the world returns changes, the API passes it requests.
//!
//! Objects have the JSON form that the API serves. The world never sets `metadata.resourceVersion`
//! (the store numbers its writes); it does set `metadata.uid`, `metadata.creationTimestamp` and the rest.

use serde_json::Value;

use model::base::{Moment, ObjectKey};

/// A resource that the simulated cluster serves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Resource {
    /// v1 nodes.
    Nodes,
    /// v1 pods.
    Pods,
    /// v1 namespaces.
    Namespaces,
    /// v1 events.
    Events,
    /// v1 configmaps.
    ConfigMaps,
    /// v1 services.
    Services,
    /// v1 serviceaccounts.
    ServiceAccounts,
    /// apps/v1 deployments.
    Deployments,
    /// apps/v1 replicasets.
    ReplicaSets,
    /// apps/v1 statefulsets.
    StatefulSets,
    /// apps/v1 daemonsets.
    DaemonSets,
    /// batch/v1 jobs.
    Jobs,
    /// jobset.x-k8s.io/v1alpha2 jobsets.
    JobSets,
    /// kubeflow.org/v1 pytorchjobs.
    PyTorchJobs,
    /// ray.io/v1 rayjobs.
    RayJobs,
    /// ray.io/v1 rayclusters.
    RayClusters,
    /// leaderworkerset.x-k8s.io/v1 leaderworkersets.
    LeaderWorkerSets,
    /// batch.volcano.sh/v1alpha1 jobs.
    VolcanoJobs,
    /// bus.volcano.sh/v1alpha1 commands.
    VolcanoCommands,
    /// scheduling.volcano.sh/v1beta1 podgroups.
    VolcanoPodGroups,
    /// scheduling.volcano.sh/v1beta1 queues.
    VolcanoQueues,
    /// scheduling.run.ai/v2alpha2 podgroups.
    KaiPodGroups,
    /// scheduling.run.ai/v2 queues.
    KaiQueues,
    /// resource.k8s.io/v1 resourceslices.
    ResourceSlices,
    /// resource.k8s.io/v1 resourceclaims.
    ResourceClaims,
    /// resource.k8s.io/v1 resourceclaimtemplates.
    ResourceClaimTemplates,
    /// resource.k8s.io/v1 deviceclasses.
    DeviceClasses,
    /// policy/v1 poddisruptionbudgets.
    PodDisruptionBudgets,
    /// scheduling.k8s.io/v1 priorityclasses.
    PriorityClasses,
    /// coordination.k8s.io/v1 leases.
    Leases,
    /// kueue.x-k8s.io/v1beta1 clusterqueues.
    ClusterQueues,
    /// kueue.x-k8s.io/v1beta1 localqueues.
    LocalQueues,
    /// kueue.x-k8s.io/v1beta1 resourceflavors.
    ResourceFlavors,
    /// kueue.x-k8s.io/v1beta1 workloads.
    Workloads,
    /// karpenter.sh/v1 nodepools.
    NodePools,
    /// karpenter.sh/v1 nodeclaims.
    NodeClaims,
    /// autoscaling.x-k8s.io/v1 provisioningrequests.
    ProvisioningRequests,
    /// autoscaling/v2 horizontalpodautoscalers.
    PodAutoscalers,
    /// keda.sh/v1alpha1 scaledobjects.
    ScaledObjects,
    /// v1 persistentvolumeclaims. Nothing binds them.
    PersistentVolumeClaims,
    /// rbac.authorization.k8s.io/v1 roles. Users have the rights of `users`, whatever roles are written.
    Roles,
    /// rbac.authorization.k8s.io/v1 rolebindings.
    RoleBindings,
    /// rbac.authorization.k8s.io/v1 clusterroles.
    ClusterRoles,
    /// rbac.authorization.k8s.io/v1 clusterrolebindings.
    ClusterRoleBindings,
    /// networking.k8s.io/v1 networkpolicies. No traffic is simulated.
    NetworkPolicies,
    /// admissionregistration.k8s.io/v1 validatingadmissionpolicies. They are not evaluated.
    ValidatingAdmissionPolicies,
    /// admissionregistration.k8s.io/v1 validatingadmissionpolicybindings.
    ValidatingAdmissionPolicyBindings,
    /// admissionregistration.k8s.io/v1 mutatingadmissionpolicies. They are not evaluated.
    MutatingAdmissionPolicies,
    /// admissionregistration.k8s.io/v1 mutatingadmissionpolicybindings.
    MutatingAdmissionPolicyBindings,
}

/// One thing that changed in the world.
#[derive(Clone, PartialEq, Debug)]
pub enum WorldChange {
    /// The object's new state (created or replaced).
    Put(Resource, Value),
    /// The object was deleted. The namespace is empty for a cluster-scoped one.
    Remove(Resource, ObjectKey),
}

/// A client's request, after the API has checked rights, versions and shape.
#[derive(Clone, PartialEq, Debug)]
pub enum Request {
    /// Created or written: the whole object in its new state.
    Write(Resource, Value),
    /// Deleted (or evicted, when it is a pod and its budget allowed it), with the grace in seconds.
    Delete(Resource, ObjectKey, Option<u64>),
}

/// A page that a pod of the world serves over HTTP.
#[derive(Clone, PartialEq, Debug)]
pub struct Served {
    /// Content type.
    pub content_type: &'static str,
    /// Body.
    pub body: String,
}

/// What the API needs of a world. One implementation, `sim::world::World`; a trait only so that the
/// API's own tests can drive it with a handful of objects.
pub trait SimBackend: Send {
    /// All objects at the start, in an order in which they could have been created.
    fn start(&mut self) -> Vec<WorldChange>;
    /// The world's clock.
    fn now(&self) -> Moment;
    /// Moves the clock to `to` (never back) and returns the changes on the way, in order.
    fn advance(&mut self, to: Moment) -> Vec<WorldChange>;
    /// Applies a client's write and returns its immediate changes (including the written object).
    fn request(&mut self, request: Request) -> Vec<WorldChange>;
    /// The page at `path` on `port` of a pod; `None` when nothing listens there.
    fn page(&self, pod: &ObjectKey, port: u16, path: &str) -> Option<Served>;
    /// The same page at a past time, if the world can compute it.
    fn page_at(&self, pod: &ObjectKey, port: u16, path: &str, at: Moment) -> Option<Served> {
        (at >= self.now())
            .then(|| self.page(pod, port, path))
            .flatten()
    }
    /// The pod's log so far, oldest line first, each with its time; `None` when the container does not exist.
    fn log(
        &self,
        pod: &ObjectKey,
        container: Option<&str>,
        previous: bool,
    ) -> Option<Vec<(Moment, String)>>;
    /// Every (pod, port, path) that serves an exposition page, in a stable order.
    fn exporters(&self) -> Vec<(ObjectKey, u16, &'static str)>;
}
