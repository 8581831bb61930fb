//! `pods-stuck`: deleted pods still hold devices, because their node cannot confirm that they ended.

use model::base::Moment;
use model::fleet::kinds::Table;
use model::fleet::node::Node;

use crate::checks::context::{CheckContext, FindingDraft, counted, subject};
use crate::checks::{Check, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "pods-stuck",
    walk: CheckWalk::Nodes(check_node),
};

fn check_node(context: &mut CheckContext<'_>, node: &Node) {
    let fleet = context.fleet;
    if !fleet.visibility(Table::Nodes).is_known() || !fleet.visibility(Table::Pods).is_known() {
        context.report_unknown(node.name());
        return;
    }
    let (verdict, since, first) = check(node);
    context.report_with_start(node.name(), verdict, since, |devices| {
        FindingDraft::new(
            subject("Node", node.name()),
            format!(
                "{} allocated to terminating pods ({first}) on a node that is not ready",
                counted(devices as usize, "device")
            ),
            "check kubelet, network and power of the node; only when the machine is certainly off, delete the pods by force",
        )
        .value(devices)
    });
}

/// Firing with the number of devices; since when, and which pods.
fn check(node: &Node) -> (Verdict, Option<Moment>, String) {
    if node.ready == Some(true) {
        return (Verdict::Ok, None, String::new());
    }
    let stuck = || {
        node.pods
            .iter()
            .filter(|pod| pod.holds_devices())
            .filter_map(|pod| pod.seen.deleted.map(|at| (pod, at)))
    };
    let devices: u32 = stuck()
        .map(|(pod, _)| pod.seen.requests.device_count())
        .sum();
    if devices == 0 {
        return (Verdict::Ok, None, String::new());
    }
    let mut names: Vec<String> = stuck().map(|(pod, _)| pod.key().to_string()).collect();
    let more = names.len().saturating_sub(2);
    names.truncate(2);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    (
        Verdict::Firing(f64::from(devices)),
        stuck().map(|(_, at)| at).min(),
        names.join(", "),
    )
}
