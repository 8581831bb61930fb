//! `allocatable-below-capacity`: the device plugin has taken devices out of use. That none is left is the business
//! of `plugin-not-ready`.

use model::fleet::kinds::Table;
use model::fleet::node::Node;
use model::fleet::thresholds::Rule;

use crate::checks::context::{CheckContext, FindingDraft, subject};
use crate::checks::{Check, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "allocatable-below-capacity",
    walk: CheckWalk::Nodes(evaluate),
};

fn evaluate(context: &mut CheckContext<'_>, node: &Node) {
    if node.device_capacity == 0 {
        return;
    }
    if !context.fleet.known(Table::Nodes).is_known() {
        context.unknown(node.name());
        return;
    }
    let threshold = context.rule.threshold;
    context.report(node.name(), check(node, context.rule), |missing| {
        FindingDraft::new(
            subject("Node", node.name()),
            format!(
                "{} of {} devices allocatable; {missing:.0} unhealthy",
                node.device_allocatable, node.device_capacity
            ),
            "read the device plugin's log: it names the unhealthy devices; reset them or reboot the node",
        )
        .value(missing)
        .threshold(threshold)
    });
}

/// Firing with the number of devices that are missing.
fn check(node: &Node, rule: &Rule) -> Verdict {
    if node.device_allocatable == 0 {
        return Verdict::Ok;
    }
    let missing = node.device_capacity.saturating_sub(node.device_allocatable);
    Verdict::of(Some(f64::from(missing)), rule)
}
