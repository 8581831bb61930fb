//! The columns of every resource that is served, one a line: title, cell, description.

use super::cells::*;
use super::{AGE, CellSource, DATED, NAME, PrinterColumn};
use crate::json::text;
use crate::specs::Resource;
use CellSource::{Condition, Count, Flag, Int, Length, Number, Or, Scalar, Since, Text, Words};

const CONTAINERS: PrinterColumn = column(
    "Containers",
    Words(|o| containers(o, "/name")),
    "Names of the template's containers.",
)
.wide();
const IMAGES: PrinterColumn = column(
    "Images",
    Words(|o| containers(o, "/image")),
    "Images of the template's containers.",
)
.wide();
const SELECTOR: PrinterColumn =
    column("Selector", Words(selector), "Label selector of its pods.").wide();
const PARAM_KIND: PrinterColumn = column(
    "ParamKind",
    Words(parameter_kind),
    "Kind of its parameters.",
);

const fn column(title: &'static str, cell: CellSource, description: &'static str) -> PrinterColumn {
    PrinterColumn {
        name: title,
        kind: "string",
        format: "",
        priority: 0,
        description,
        cell,
    }
}

const fn integer(
    title: &'static str,
    cell: CellSource,
    description: &'static str,
) -> PrinterColumn {
    column(title, cell, description).typed("integer")
}

macro_rules! columns {
    ($($($resource:ident)|+: $($column:expr),+;)+) => {
        pub fn columns(resource: Resource) -> &'static [PrinterColumn] {
            match resource {
                $($(Resource::$resource)|+ => const { &[$($column),+] },)+
            }
        }
    };
}

columns! {
    Nodes:
        NAME,
        column("Status", Words(node_status), "Whether the node is ready, and whether it takes pods."),
        column("Roles", Words(roles), "Roles by the node's labels."),
        AGE,
        column("Version", Text("/status/nodeInfo/kubeletVersion"), "Version of the kubelet."),
        column("Internal-IP", Words(|o| address(o, "InternalIP")), "First internal address.").wide(),
        column("External-IP", Words(|o| address(o, "ExternalIP")), "First external address.").wide(),
        column("OS-Image", Or("/status/nodeInfo/osImage", "<unknown>"), "Operating system image.").wide(),
        column("Kernel-Version", Words(kernel), "Kernel version.").wide(),
        column("Container-Runtime", Or("/status/nodeInfo/containerRuntimeVersion", "<unknown>"), "Container runtime and its version.").wide();
    Pods:
        NAME,
        column("Ready", Words(pod_ready), "Ready containers of all containers."),
        column("Status", Words(|o| container_summary(o).reason), "What the pod's containers do, in one word."),
        column("Restarts", Since(pod_restarts), "Restarts of all containers, and when the last was."),
        AGE,
        column("IP", Or("/status/podIPs/0/ip", "<none>"), "The pod's address.").wide(),
        column("Node", Or("/spec/nodeName", "<none>"), "The node it is bound to.").wide(),
        column("Nominated Node", Or("/status/nominatedNodeName", "<none>"), "The node that preemption clears for it.").wide(),
        column("Readiness Gates", Words(readiness_gates), "Readiness gates that are true of all.").wide();
    Namespaces:
        NAME,
        column("Status", Text("/status/phase"), "Whether the namespace is in use."),
        AGE;
    Events:
        column("Last Seen", Since(event_last), "Time since it was last seen."),
        column("Type", Text("/type"), "Normal or Warning."),
        column("Reason", Text("/reason"), "Why, in one word."),
        column("Object", Words(event_object), "What it is about."),
        column("Subobject", Text("/involvedObject/fieldPath"), "The part of the object that it is about.").wide(),
        column("Source", Words(event_source), "Who reported it.").wide(),
        column("Message", Words(|o| text(o, "/message").trim().to_owned()), "What happened."),
        column("First Seen", Since(event_first), "Time since it was first seen.").wide(),
        column("Count", Number(event_count), "How often it was seen.").wide(),
        NAME.wide();
    ConfigMaps:
        NAME,
        column("Data", Number(data_keys), "How many keys it holds."),
        AGE;
    ServiceAccounts | ResourceClaimTemplates | DeviceClasses: NAME, AGE;
    Services:
        NAME,
        column("Type", Text("/spec/type"), "How the service is reached."),
        column("Cluster-IP", Words(cluster_ip), "Its address in the cluster."),
        column("External-IP", Words(external_ip), "Its addresses outside of the cluster."),
        column("Port(s)", Words(ports), "Its ports."),
        AGE,
        column("Selector", Words(|o| labels(o.pointer("/spec/selector"))), "Labels of the pods behind it.").wide();
    PriorityClasses:
        NAME,
        integer("Value", Int("/value"), "The priority of its pods."),
        column("Global-Default", Flag("/globalDefault"), "Whether pods without a class get it.").typed("boolean"),
        AGE,
        column("PreemptionPolicy", Text("/preemptionPolicy"), "Whether its pods preempt others.");
    Leases:
        NAME,
        column("Holder", Text("/spec/holderIdentity"), "Who holds it."),
        AGE;
    Deployments:
        NAME,
        column("Ready", Words(ready_of_desired), "Ready pods of wanted pods."),
        column("Up-to-date", Int("/status/updatedReplicas"), "Pods with the wanted template."),
        column("Available", Int("/status/availableReplicas"), "Pods that have been ready long enough."),
        AGE,
        CONTAINERS,
        IMAGES,
        column("Selector", Words(deployment_selector), "Label selector of its pods.").wide();
    ReplicaSets:
        NAME,
        integer("Desired", Number(desired_pods), "Wanted pods."),
        integer("Current", Int("/status/replicas"), "Pods that there are."),
        integer("Ready", Int("/status/readyReplicas"), "Ready pods."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR;
    StatefulSets:
        NAME,
        column("Ready", Words(ready_of_desired), "Ready pods of wanted pods."),
        AGE,
        CONTAINERS,
        IMAGES;
    DaemonSets:
        NAME,
        integer("Desired", Int("/status/desiredNumberScheduled"), "Nodes that should run its pod."),
        integer("Current", Int("/status/currentNumberScheduled"), "Nodes that run its pod."),
        integer("Ready", Int("/status/numberReady"), "Nodes whose pod is ready."),
        integer("Up-to-date", Int("/status/updatedNumberScheduled"), "Nodes whose pod has the wanted template."),
        integer("Available", Int("/status/numberAvailable"), "Nodes whose pod has been ready long enough."),
        column("Node Selector", Words(|o| labels(o.pointer("/spec/template/spec/nodeSelector"))), "Labels of the nodes that run its pod."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR;
    Jobs:
        NAME,
        column("Status", Words(|o| job_status(o).to_owned()), "What the job does, in one word."),
        column("Completions", Words(completions), "Finished pods of wanted completions."),
        column("Duration", Since(job_duration), "Time it has taken."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR;
    PodDisruptionBudgets:
        NAME,
        column("Min Available", Words(|o| number_or_text(o, "/spec/minAvailable", "N/A")), "Pods that must stay available."),
        column("Max Unavailable", Words(|o| number_or_text(o, "/spec/maxUnavailable", "N/A")), "Pods that may be unavailable."),
        integer("Allowed Disruptions", Int("/status/disruptionsAllowed"), "Pods that may be disrupted now."),
        AGE;
    PodAutoscalers:
        NAME,
        column("Reference", Words(scale_target), "What it scales."),
        column("Targets", Words(scale_metrics), "Its metrics: current and target values."),
        column("MinPods", Words(|o| number_or_text(o, "/spec/minReplicas", "<unset>")), "Pods at least."),
        column("MaxPods", Words(|o| number_or_text(o, "/spec/maxReplicas", "<unset>")), "Pods at most."),
        integer("Replicas", Count("/status/currentReplicas"), "Pods now."),
        AGE;
    PersistentVolumeClaims:
        NAME,
        column("Status", Text("/status/phase"), "Its phase."),
        column("Volume", Text("/spec/volumeName"), "The volume that it is bound to."),
        column("Capacity", Text("/status/capacity/storage"), "Size of that volume."),
        column("Access Modes", Words(access_modes), "How that volume is mounted."),
        column("StorageClass", Text("/spec/storageClassName"), "The class that it asks for."),
        column("VolumeAttributesClass", Or("/spec/volumeAttributesClassName", "<unset>"), "The class of attributes that it asks for."),
        AGE,
        column("VolumeMode", Text("/spec/volumeMode"), "A file system or a block device.").wide();
    ResourceSlices:
        NAME,
        column("Node", Text("/spec/nodeName"), "The node of its devices."),
        column("Driver", Text("/spec/driver"), "The driver that publishes them."),
        column("Pool", Text("/spec/pool/name"), "The pool that it is a part of."),
        AGE;
    ResourceClaims:
        NAME,
        column("State", Words(claim_state), "Whether it is allocated, and reserved for a pod."),
        AGE;
    Roles | ClusterRoles:
        NAME,
        column("Created At", Text("/metadata/creationTimestamp"), "When it was created.").typed("date");
    RoleBindings | ClusterRoleBindings:
        NAME,
        column("Role", Words(|o| joined(o, "/roleRef", ["kind", "name"])), "The role that it grants."),
        AGE,
        column("Users", Words(|o| subjects(o, "User")), "Users that have the role by it.").wide(),
        column("Groups", Words(|o| subjects(o, "Group")), "Groups that have the role by it.").wide(),
        column("ServiceAccounts", Words(|o| subjects(o, "ServiceAccount")), "Service accounts that have the role by it.").wide();
    NetworkPolicies:
        NAME,
        column("Pod-Selector", Words(pod_selector), "Label selector of the pods that it is for."),
        AGE;
    ValidatingAdmissionPolicies:
        NAME,
        integer("Validations", Length("/spec/validations"), "Number of its validations."),
        PARAM_KIND,
        AGE;
    MutatingAdmissionPolicies:
        NAME,
        integer("Mutations", Length("/spec/mutations"), "Number of its mutations."),
        PARAM_KIND,
        AGE;
    ValidatingAdmissionPolicyBindings | MutatingAdmissionPolicyBindings:
        NAME,
        column("PolicyName", Text("/spec/policyName"), "The policy that it puts into effect."),
        column("ParamRef", Words(parameters), "The parameters that it gives the policy."),
        AGE;
    ResourceFlavors | VolcanoCommands | KaiPodGroups: NAME, DATED;
    JobSets:
        NAME,
        column("TerminalState", Scalar("/status/terminalState"), "How the job set ended."),
        column("Restarts", Scalar("/status/restarts"), "How often it was restarted."),
        column("Completed", Condition("Completed"), "Whether it is complete."),
        column("Suspended", Scalar("/spec/suspend"), "Whether it is suspended."),
        DATED;
    PyTorchJobs:
        NAME,
        column("State", CellSource::LastCondition, "The type of its last condition."),
        DATED;
    RayJobs:
        NAME,
        column("job status", Scalar("/status/jobStatus"), "What Ray says of the job."),
        column("deployment status", Scalar("/status/jobDeploymentStatus"), "How far KubeRay is with it."),
        column("ray cluster name", Scalar("/status/rayClusterName"), "The cluster that was made for it."),
        column("start time", CellSource::Ago("/status/startTime"), "When it started.").typed("date"),
        column("end time", CellSource::Ago("/status/endTime"), "When it ended.").typed("date"),
        DATED;
    RayClusters:
        NAME,
        integer("desired workers", Count("/status/desiredWorkerReplicas"), "Workers that it should have."),
        integer("available workers", Count("/status/availableWorkerReplicas"), "Workers that it has."),
        column("cpus", Scalar("/status/desiredCPU"), "CPUs of all its pods."),
        column("memory", Scalar("/status/desiredMemory"), "Memory of all its pods."),
        column("gpus", Scalar("/status/desiredGPU"), "GPUs of all its pods."),
        column("tpus", Scalar("/status/desiredTPU"), "TPUs of all its pods.").wide(),
        column("status", Scalar("/status/state"), "Its state."),
        DATED,
        column("head pod IP", Scalar("/status/head/podIP"), "Address of the head's pod.").wide(),
        column("head service IP", Scalar("/status/head/serviceIP"), "Address of the head's service.").wide();
    LeaderWorkerSets:
        NAME,
        integer("Ready", Count("/status/readyReplicas"), "Groups whose pods are all ready."),
        integer("Desired", Count("/spec/replicas"), "Groups that it should have."),
        integer("Up-to-date", Count("/status/updatedReplicas"), "Groups of the latest template."),
        DATED,
        integer("Size", Count("/spec/leaderWorkerTemplate/size"), "Pods of a group.").wide();
    VolcanoJobs:
        NAME,
        column("STATUS", Scalar("/status/state/phase"), "Its phase."),
        integer("minAvailable", Count("/spec/minAvailable"), "Pods without which it does nothing."),
        integer("RUNNINGS", Count("/status/running"), "Pods that run."),
        DATED,
        column("QUEUE", Scalar("/spec/queue"), "The queue that it was submitted to.").wide();
    VolcanoPodGroups:
        NAME,
        column("STATUS", Scalar("/status/phase"), "Its phase."),
        integer("minMember", Count("/spec/minMember"), "Pods without which it does nothing."),
        integer("RUNNINGS", Count("/status/running"), "Pods that run."),
        DATED,
        column("QUEUE", Scalar("/spec/queue"), "The queue that it is in.").wide();
    VolcanoQueues:
        NAME,
        column("PARENT", Scalar("/spec/parent"), "The queue above.");
    KaiQueues:
        NAME,
        integer("Priority", Count("/spec/priority"), "Rank among queues."),
        column("Parent", Scalar("/spec/parentQueue"), "The queue above."),
        column("Children", Scalar("/status/childQueues"), "The queues below."),
        column("DisplayName", Scalar("/spec/displayName"), "What people call it.");
    ClusterQueues:
        NAME,
        column("Cohort", Scalar("/spec/cohort"), "The cohort that it lends to and borrows from."),
        column("Strategy", Scalar("/spec/queueingStrategy"), "In which order it admits.").wide(),
        integer("Pending Workloads", Count("/status/pendingWorkloads"), "Workloads that wait in it."),
        integer("Admitted Workloads", Count("/status/admittedWorkloads"), "Admitted workloads that have not finished.").wide();
    LocalQueues:
        NAME,
        column("ClusterQueue", Scalar("/spec/clusterQueue"), "The cluster queue behind it."),
        integer("Pending Workloads", Count("/status/pendingWorkloads"), "Workloads that wait in it."),
        integer("Admitted Workloads", Count("/status/admittedWorkloads"), "Admitted workloads that have not finished.");
    Workloads:
        NAME,
        column("Queue", Scalar("/spec/queueName"), "The local queue that it was submitted to."),
        column("Reserved in", Scalar("/status/admission/clusterQueue"), "The cluster queue whose quota it holds."),
        column("Admitted", Condition("Admitted"), "Whether it is admitted."),
        column("Finished", Condition("Finished"), "Whether it has finished."),
        DATED;
    NodePools:
        NAME,
        column("NodeClass", Scalar("/spec/template/spec/nodeClassRef/name"), "The template of its machines."),
        column("Nodes", Scalar("/status/resources/nodes"), "Nodes that it has."),
        column("Ready", Condition("Ready"), "Whether it works."),
        DATED,
        integer("Weight", Count("/spec/weight"), "The higher is tried first.").wide();
    NodeClaims:
        NAME,
        column("Type", Scalar("/metadata/labels/node.kubernetes.io~1instance-type"), "Its machine type."),
        column("Capacity", Scalar("/metadata/labels/karpenter.sh~1capacity-type"), "How it is paid."),
        column("Zone", Scalar("/metadata/labels/topology.kubernetes.io~1zone"), "Its zone."),
        column("Node", Scalar("/status/nodeName"), "Its node."),
        column("Ready", Condition("Ready"), "Whether it works."),
        DATED,
        column("NodePool", Scalar("/metadata/labels/karpenter.sh~1nodepool"), "The node pool that made it.").wide();
    ProvisioningRequests:
        NAME,
        column("Accepted", Condition("Accepted"), "Whether a controller acts on it."),
        column("Provisioned", Condition("Provisioned"), "Whether the capacity is there."),
        column("Failed", Condition("Failed"), "Whether it will not be met."),
        DATED;
    ScaledObjects:
        NAME,
        column("ScaleTargetKind", Scalar("/status/scaleTargetKind"), "The kind of what it scales."),
        column("ScaleTargetName", Scalar("/spec/scaleTargetRef/name"), "What it scales."),
        integer("Min", Count("/spec/minReplicaCount"), "Pods at least."),
        integer("Max", Count("/spec/maxReplicaCount"), "Pods at most."),
        column("Ready", Condition("Ready"), "Whether it works."),
        column("Active", Condition("Active"), "Whether a trigger asks for pods."),
        column("Fallback", Condition("Fallback"), "Whether it scales by its fallback."),
        DATED;
}
