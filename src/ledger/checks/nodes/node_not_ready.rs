//! `node-not-ready`: a node with devices is not ready, or its kubelet stopped posting node status.

use model::base::Age;
use model::fleet::kinds::Table;
use model::fleet::node::Node;

use crate::checks::context::{CheckContext, FindingDraft, counted, subject};
use crate::checks::{Check, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "node-not-ready",
    walk: CheckWalk::Nodes(check_node),
};

/// A node that is younger may still be starting.
const YOUNG: Age = Age::from_seconds(600);

fn check_node(context: &mut CheckContext<'_>, node: &Node) {
    if !context.fleet.visibility(Table::Nodes).is_known() {
        context.report_unknown(node.name());
        return;
    }
    let age = context.now.since(node.seen.created);
    let since = node.ready_since.map(|at| at.max(node.seen.created));
    context.report_with_start(node.name(), check(node, age), since, |devices| {
        let state = if node.ready.is_none() {
            "kubelet stopped posting node status"
        } else {
            "not ready"
        };
        FindingDraft::new(
            subject("Node", node.name()),
            format!(
                "{state}: {} unavailable, {} on it",
                counted(devices as usize, "device"),
                counted(node.pods.len(), "pod")
            ),
            "check kubelet, network and power of the node; drain it if it stays NotReady",
        )
        .value(devices)
    });
}

/// Firing with the number of devices.
fn check(node: &Node, age: Age) -> Verdict {
    let devices = u32::try_from(node.devices.len())
        .unwrap_or(u32::MAX)
        .max(node.device_capacity);
    if devices == 0 || node.ready == Some(true) || age < YOUNG {
        return Verdict::Ok;
    }
    Verdict::Firing(f64::from(devices))
}
