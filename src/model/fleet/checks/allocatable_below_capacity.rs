//! `allocatable-below-capacity`: the device plugin has taken devices out of use. That none is left is the business
//! of `plugin-not-ready`.

use crate::fleet::node::Node;
use crate::fleet::observe::Table;
use crate::fleet::thresholds::Rule;

use super::desk::{Desk, Draft, subject};
use super::{Check, Verdict, Walk};

pub(super) const CHECK: Check = Check {
    code: "allocatable-below-capacity",
    walk: Walk::Nodes(look),
};

fn look(desk: &mut Desk<'_>, node: &Node) {
    if node.device_capacity == 0 {
        return;
    }
    if !desk.fleet.known(Table::Nodes).is_known() {
        desk.unknown(node.name());
        return;
    }
    let threshold = desk.rule.threshold;
    desk.report(node.name(), check(node, desk.rule), |missing| {
        Draft::new(
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
