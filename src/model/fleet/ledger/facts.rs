//! What a node's labels, taints and conditions say: pool, billing, zone, rack, cordon, product.

use crate::base::{Moment, Name, Names};
use crate::fleet::node::{Billing, Cordon};
use crate::fleet::observe::NodeSeen;
use crate::fleet::policy::Policy;

/// Labels that carry the product of a node's devices, first present wins (the vendors' own first).
const PRODUCT_LABELS: &[&str] = &[
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-tpu-accelerator",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "gpu.nvidia.com/class",
    "gpu.nvidia.com/model",
    "cloud.google.com/gke-accelerator",
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-name",
    "karpenter.k8s.aws/instance-accelerator-name",
    "karpenter.azure.com/sku-gpu-name",
    "gpu.intel.com/product",
    "habana.ai/product.name",
    "skypilot.co/accelerator",
    "k8s.amazonaws.com/accelerator",
    "aliyun.accelerator/nvidia_name",
];

const DRIVER_LABELS: &[&str] = &[
    "nvidia.com/cuda.driver-version.full",
    "amd.com/gpu.driver-version",
];

const CLIQUE_LABELS: &[&str] = &[
    "nvidia.com/gpu.clique",
    "nvidia.com/gpu.imex-domain",
    "accelerator.topograph.run/domain",
    "network.topology.nvidia.com/accelerator",
    "oci.oraclecloud.com/host.gpu_memory_fabric_id",
];

/// Topology levels from wide to narrow, by any provider.
const TOPOLOGY_LABELS: &[(&str, &str)] = &[
    ("block", "cloud.provider.com/topology-block"),
    ("block", "cloud.google.com/gce-topology-block"),
    ("core", "network.topology.nvidia.com/core"),
    ("spine", "network.topology.nvidia.com/spine"),
    ("spine", "topology.k8s.aws/network-node-layer-1"),
    ("layer-2", "topology.k8s.aws/network-node-layer-2"),
    ("island", "oci.oraclecloud.com/rdma.hpc_island_id"),
    ("leaf", "network.topology.nvidia.com/leaf"),
    ("leaf", "topology.k8s.aws/network-node-layer-3"),
    ("subblock", "cloud.google.com/gce-topology-subblock"),
    ("rack", "cloud.provider.com/topology-rack"),
    ("rack", "topology.kubernetes.io/rack"),
    ("host", "cloud.google.com/gce-topology-host"),
];

/// What a node's object and the policy say of it, whatever is read on it. Worked out when the node is seen: readings come
/// far more often.
#[derive(Default)]
pub(super) struct Said {
    /// The product of its devices.
    pub(super) product: Option<Name>,
    /// The driver version.
    pub(super) driver: Option<Name>,
    pub(super) cordon: Option<Cordon>,
    pub(super) billing: Option<Billing>,
    pub(super) instance_type: Option<Name>,
    pub(super) zone: Option<Name>,
    pub(super) region: Option<Name>,
    pub(super) rack: Option<Name>,
    pub(super) topology: Box<[(Name, Name)]>,
    pub(super) clique: Option<Name>,
}

impl Said {
    pub(super) fn of(node: &NodeSeen, policy: &Policy, names: &mut Names) -> Self {
        let label = |key: &str| node.labels.get(key).cloned();
        Self {
            product: node.labels.first(PRODUCT_LABELS.iter().copied()).cloned(),
            driver: driver(node, names),
            cordon: cordon(node),
            billing: billing(node, policy),
            instance_type: label("node.kubernetes.io/instance-type")
                .or_else(|| label("beta.kubernetes.io/instance-type")),
            zone: label("topology.kubernetes.io/zone")
                .or_else(|| label("failure-domain.beta.kubernetes.io/zone")),
            region: label("topology.kubernetes.io/region")
                .or_else(|| label("failure-domain.beta.kubernetes.io/region")),
            rack: node
                .labels
                .first(policy.rack_labels.iter().map(String::as_str))
                .cloned(),
            topology: topology(node, names),
            clique: clique(node),
        }
    }
}

/// The driver version: one label, or the three of older GPU Feature Discovery.
fn driver(node: &NodeSeen, names: &mut Names) -> Option<Name> {
    if let Some(full) = node.labels.first(DRIVER_LABELS.iter().copied()) {
        return Some(full.clone());
    }
    let part = |key: &str| node.labels.get(&format!("nvidia.com/cuda.driver.{key}"));
    let (major, minor) = (part("major")?, part("minor")?);
    let text = match part("rev").filter(|rev| !rev.is_empty()) {
        Some(rev) => format!("{major}.{minor}.{rev}"),
        None => format!("{major}.{minor}"),
    };
    Some(names.intern(&text))
}

/// The scale-up domain: an NVLink clique, or the node pool that makes up a TPU slice.
fn clique(node: &NodeSeen) -> Option<Name> {
    if node
        .labels
        .get("cloud.google.com/gke-tpu-topology")
        .is_some()
    {
        return node.labels.get("cloud.google.com/gke-nodepool").cloned();
    }
    node.labels.first(CLIQUE_LABELS.iter().copied()).cloned()
}

/// Topology levels that are labelled, wide to narrow; one a level.
fn topology(node: &NodeSeen, names: &mut Names) -> Box<[(Name, Name)]> {
    let mut levels: Vec<(Name, Name)> = Vec::new();
    for (level, key) in TOPOLOGY_LABELS {
        if let Some(value) = node.labels.get(key)
            && !levels.iter().any(|(known, _)| known.as_str() == *level)
        {
            levels.push((names.intern(level), value.clone()));
        }
    }
    levels.into_boxed_slice()
}

/// The pool: the settings', else the first pool label, else the machine type, else the class.
pub(super) fn pool(
    node: &NodeSeen,
    class: Option<&Name>,
    policy: &Policy,
    names: &mut Names,
) -> Name {
    if let Some(rule) = policy.pool_rule(&node.labels) {
        return names.intern(&rule.name);
    }
    if let Some(label) = node
        .labels
        .first(policy.pool_labels.iter().map(String::as_str))
    {
        return label.clone();
    }
    match (class, node.labels.get("node.kubernetes.io/instance-type")) {
        (Some(_), Some(machine)) if !machine.is_empty() => machine.clone(),
        (Some(class), _) => names.intern(&class.to_lowercase()),
        (None, _) => crate::fleet::fleet::unpooled(),
    }
}

/// How a node's hours are paid, by the settings or by the capacity-type label of its provider.
///
/// Sources: the label tables of Karpenter, EKS, GKE and AKS. GKE and AKS label only what is not
/// on-demand, so silence on their pools says on-demand; elsewhere silence says nothing.
fn billing(node: &NodeSeen, policy: &Policy) -> Option<Billing> {
    if let Some(rule) = policy.pool_rule(&node.labels)
        && rule.billing.is_some()
    {
        return rule.billing;
    }
    let label = |key: &str| node.labels.get(key).map(|value| value.to_ascii_lowercase());
    if let Some(said) = label("stokehold.dev/billing").and_then(|name| Billing::from_name(&name)) {
        return Some(said);
    }
    let is = |key: &str, wanted: &str| label(key).as_deref() == Some(wanted);
    if is("cloud.google.com/gke-spot", "true")
        || is("cloud.google.com/gke-preemptible", "true")
        || is("kubernetes.azure.com/scalesetpriority", "spot")
        || is("scheduling.cast.ai/spot", "true")
    {
        return Some(Billing::Spot);
    }
    // A reserved node of GKE says `standard` as well.
    if label("cloud.google.com/reservation-name").is_some() {
        return Some(Billing::Reserved);
    }
    let typed = [
        "karpenter.sh/capacity-type",
        "eks.amazonaws.com/capacityType",
        "cloud.google.com/gke-provisioning",
    ];
    for value in typed.iter().filter_map(|key| label(key)) {
        match value.as_str() {
            "spot" => return Some(Billing::Spot),
            "reserved" | "capacity_block" | "capacity-block" => return Some(Billing::Reserved),
            "on-demand" | "on_demand" | "standard" => return Some(Billing::OnDemand),
            _ => {}
        }
    }
    let silent_means_on_demand = label("cloud.google.com/gke-nodepool").is_some()
        || label("kubernetes.azure.com/agentpool").is_some();
    silent_means_on_demand.then_some(Billing::OnDemand)
}

/// The cordon of an unschedulable node: our marks first, then the taint's time, then any message.
fn cordon(node: &NodeSeen) -> Option<Cordon> {
    if !node.unschedulable {
        return None;
    }
    let taint = node
        .taints
        .iter()
        .find(|taint| taint.key.as_str() == "node.kubernetes.io/unschedulable");
    Some(Cordon {
        by: node.annotations.get("stokehold.dev/cordoned-by").cloned(),
        at: taint.and_then(|taint| taint.since),
        reason: node.annotations.get("stokehold.dev/cordoned-why").cloned(),
    })
}

/// Whether the node is ready, and since when.
pub(super) fn ready(node: &NodeSeen) -> (Option<bool>, Option<Moment>) {
    node.conditions
        .iter()
        .find(|condition| condition.kind.as_str() == "Ready")
        .map_or((None, None), |condition| {
            (condition.status, condition.since)
        })
}
