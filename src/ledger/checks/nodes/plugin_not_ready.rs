//! `plugin-not-ready`: a node that should have devices offers none: the device plugin or the driver is not up.

use model::fleet::kinds::Table;
use model::fleet::node::Node;
use model::fleet::seen::Claimed;

use crate::checks::context::{CheckContext, FindingDraft, subject};
use crate::checks::{Check, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "plugin-not-ready",
    walk: CheckWalk::Nodes(check_node),
};

/// Labels with which something other than the device plugin says that a node has devices.
const PROMISES: &[&str] = &[
    "nvidia.com/gpu.count",
    "nvidia.com/gpu.present",
    "cloud.google.com/gke-accelerator",
    "cloud.google.com/gke-tpu-accelerator",
    "karpenter.k8s.aws/instance-gpu-count",
    "karpenter.k8s.aws/instance-accelerator-count",
    "eks.amazonaws.com/instance-gpu-count",
    "k8s.amazonaws.com/accelerator",
    "kubernetes.azure.com/accelerator",
    "karpenter.azure.com/sku-gpu-count",
    "amd.com/gpu.product-name",
    "beta.amd.com/gpu.product-name",
    "feature.node.kubernetes.io/amd-gpu",
    "gpu.nvidia.com/model",
    "gpu.intel.com/product",
    "habana.ai/product.name",
];

fn check_node(context: &mut CheckContext<'_>, node: &Node) {
    if !context.fleet.visibility(Table::Nodes).is_known() {
        context.report_unknown(node.name());
        return;
    }
    context.report(node.name(), check(node), |_| {
        let message = if node.device_capacity > 0 {
            format!("0 of {} devices allocatable", node.device_capacity)
        } else {
            let promise = promise(node).unwrap_or("of the node");
            format!("label {promise} advertises devices, but the node has none allocatable")
        };
        FindingDraft::new(
            subject("Node", node.name()),
            message,
            "check the device plugin's pod and the driver on the node",
        )
        .value(0.0)
    });
}

/// A label of the node that promises devices.
fn promise(node: &Node) -> Option<&'static str> {
    PROMISES.iter().copied().find(|key| {
        node.seen
            .labels
            .get(key)
            .is_some_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
    })
}

/// Firing when a ready node offers no device, though it has or should have some. Nodes that are not ready
/// have a finding of their own, and devices that are handed out by claims need no plugin.
fn check(node: &Node) -> Verdict {
    if node.ready != Some(true) || node.device_allocatable > 0 {
        return Verdict::Ok;
    }
    // Its claims were ignored: another finding reports that.
    if node.withheld || !node.ignored_counts.is_empty() {
        return Verdict::Ok;
    }
    let claimed = node.pods.iter().any(|pod| {
        pod.seen
            .claimed
            .iter()
            .any(|claimed| matches!(claimed, Claimed::Claim(..)))
    });
    let switched_off = node
        .seen
        .labels
        .get("nvidia.com/gpu.deploy.device-plugin")
        .is_some_and(|value| value.as_str() == "false");
    let should = node.device_capacity > 0 || (promise(node).is_some() && !switched_off);
    Verdict::when(Some(should && !claimed))
}
