//! What a node's labels, taints and conditions say: pool, billing, zone, rack, cordon, product.

use model::base::{Moment, Name, Names};
use model::fleet::accelerator::Vendor;
use model::fleet::node::{Billing, Cordon};
use model::fleet::policy::Policy;
use model::fleet::seen::NodeSeen;

use crate::fold::devices::offer::vendor_of;

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

/// Facts of a node from its object and the policy, without readings. Computed when the node is observed, which is rarer than a reading.
#[derive(Default)]
pub(super) struct NodeLabels {
    /// The product of its devices.
    pub(super) product: Option<Name>,
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

impl NodeLabels {
    pub(super) fn of(node: &NodeSeen, policy: &Policy, names: &mut Names) -> Self {
        let label = |key: &str| node.labels.get(key).cloned();
        Self {
            product: node
                .labels
                .first(PRODUCT_LABELS.iter().copied())
                .cloned()
                .or_else(|| unlabeled_product(node).map(|product| names.intern(product))),
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

/// Machine types whose name implies the accelerator: prefix, resource prefix and accelerator.
///
/// Source: AWS's tables of accelerated instance types.
const MACHINES: &[(&str, &str, &str)] = &[
    ("trn1", "aws.amazon.com/", "Trainium1"),
    ("trn2", "aws.amazon.com/", "Trainium2"),
    ("trn3", "aws.amazon.com/", "Trainium3"),
    ("inf1", "aws.amazon.com/", "Inferentia1"),
    ("inf2", "aws.amazon.com/", "Inferentia2"),
    ("dl1.", "habana.ai/", "Gaudi1"),
];

/// PCI ids of Intel's data center GPUs, as Intel's feature rules label them (`gpu.intel.com/device-id.0300-56c0.present`).
const INTEL_IDS: &[(&str, &str)] = &[
    ("56c0", "Intel Data Center GPU Flex 170"),
    ("56c1", "Intel Data Center GPU Flex 140"),
    ("0bd5", "Intel Data Center GPU Max 1550"),
    ("0bda", "Intel Data Center GPU Max 1100"),
];

/// The product of a node's devices where no label names it: from the machine type, or from the PCI id of Intel's GPUs.
fn unlabeled_product(node: &NodeSeen) -> Option<&'static str> {
    let offers = |domain: &str| {
        let mut devices = node.capacity.devices.iter();
        devices.any(|(resource, count)| *count > 0 && resource.starts_with(domain))
    };
    if offers("gpu.intel.com/") {
        let mut ids = INTEL_IDS.iter().filter(|(id, _)| {
            let classes = ["0300", "0380", "1200"];
            classes.iter().any(|class| {
                let key = format!("gpu.intel.com/device-id.{class}-{id}.present");
                node.labels
                    .get(&key)
                    .is_some_and(|value| value.as_str() == "true")
            })
        });
        // Of two models in one node neither is every device's.
        if let (Some((_, product)), None) = (ids.next(), ids.next()) {
            return Some(product);
        }
    }
    let machine = node
        .labels
        .first([
            "node.kubernetes.io/instance-type",
            "beta.kubernetes.io/instance-type",
        ])?
        .to_ascii_lowercase();
    let product_of = MACHINES
        .iter()
        .find(|(start, domain, _)| machine.starts_with(start) && offers(domain));
    if let Some((.., product)) = product_of {
        return Some(product);
    }
    ["Gaudi3", "Gaudi2"]
        .into_iter()
        .find(|product| offers("habana.ai/") && machine.contains(&product.to_ascii_lowercase()))
}

/// What a label of this vendor says of its devices.
pub(super) fn product_of(node: &NodeSeen, vendor: Vendor) -> Option<Name> {
    let own = PRODUCT_LABELS.iter().copied();
    let own = own.filter(|label| vendor_of(label) == vendor);
    node.labels.first(own).cloned()
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
        (None, _) => model::fleet::fleet::unpooled(),
    }
}

/// How a node's hours are billed, from the settings or the capacity-type label of its provider.
///
/// Sources: the label tables of Karpenter, EKS, GKE and AKS. GKE and AKS label only nodes that are not
/// on-demand, so a missing label means on-demand on their pools; elsewhere it means unknown.
fn billing(node: &NodeSeen, policy: &Policy) -> Option<Billing> {
    if let Some(rule) = policy.pool_rule(&node.labels)
        && rule.billing.is_some()
    {
        return rule.billing;
    }
    let label = |key: &str| node.labels.get(key).map(|value| value.to_ascii_lowercase());
    if let Some(labeled) = label("stokehold.dev/billing").and_then(|name| Billing::from_name(&name))
    {
        return Some(labeled);
    }
    let is = |key: &str, wanted: &str| label(key).as_deref() == Some(wanted);
    if is("cloud.google.com/gke-spot", "true")
        || is("cloud.google.com/gke-preemptible", "true")
        || is("kubernetes.azure.com/scalesetpriority", "spot")
        || is("scheduling.cast.ai/spot", "true")
    {
        return Some(Billing::Spot);
    }
    // A reserved node of GKE has the label `standard` as well.
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
