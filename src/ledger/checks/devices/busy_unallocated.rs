//! `busy-unallocated`: a device works, though no pod holds it: a process outside Kubernetes, or an attribution
//! that is wrong. One finding a node.

use model::fleet::device::{Attribution, Device};
use model::fleet::kinds::Table;
use model::fleet::node::Node;
use model::fleet::thresholds::Rule;

use crate::checks::context::{CheckContext, FindingDraft, counted, subject};
use crate::checks::{Check, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "busy-unallocated",
    walk: CheckWalk::Nodes(evaluate),
};

fn evaluate(context: &mut CheckContext<'_>, node: &Node) {
    if node.devices.is_empty() {
        return;
    }
    // A pod out of sight may hold it.
    if !context.fleet.known(Table::Pods).is_known() || !context.fleet.sees_all_work() {
        context.unknown(node.name());
        return;
    }
    let now = context.now;
    let fresh = |device: &Device| device.is_fresh(now).then(|| device.util()).flatten();
    let verdict = check(node, fresh, context.rule);
    let threshold = context.rule.threshold;
    context.report(node.name(), verdict, |count| {
        let names: Vec<&str> = node
            .devices
            .iter()
            .filter(|device| {
                !device.is_allocated() && fresh(device).is_some_and(|util| util >= threshold)
            })
            .take(4)
            .map(|device| device.id.rsplit('/').next().unwrap_or_default())
            .collect();
        FindingDraft::new(
            subject("Node", node.name()),
            format!(
                "{} ({}) busy, but no pod has {} allocated",
                counted(count as usize, "device"),
                names.join(", "),
                if count == 1.0 { "it" } else { "them" }
            ),
            "look for processes outside Kubernetes on the node, or for pods that bypass the device plugin",
        )
        .value(count)
        .threshold(threshold)
    });
}

/// Fires with the number of devices. Where placements are known by counting only, a busy free device may be a wrong guess, so
/// only devices beyond the number of allocated ones count.
fn check(node: &Node, util: impl Fn(&Device) -> Option<f64>, rule: &Rule) -> Verdict {
    let guessed = node
        .devices
        .iter()
        .any(|device| device.holders().any(|(_, how)| how == Attribution::Counted));
    let (mut busy, mut warm, mut unknown, mut quiet_held) = (0u32, 0u32, 0u32, 0u32);
    for device in &node.devices {
        let util = util(device);
        match (device.is_allocated(), util) {
            (true, Some(util)) if util >= rule.threshold => {}
            (true, _) => quiet_held += 1,
            (false, None) => unknown += 1,
            (false, Some(util)) if util >= rule.threshold => busy += 1,
            (false, Some(util)) if util > rule.clear => warm += 1,
            (false, Some(_)) => {}
        }
    }
    if guessed {
        busy = busy.saturating_sub(quiet_held);
        warm = warm.saturating_sub(quiet_held);
    }
    if busy > 0 {
        Verdict::Firing(f64::from(busy))
    } else if unknown > 0 {
        Verdict::Unknown
    } else if warm > 0 {
        Verdict::Held(f64::from(warm))
    } else {
        Verdict::Ok
    }
}
