//! `power-brake`: the hardware power brake slows the device: a power supply or the rack asks for less.

use model::fleet::signal::Signal;
use model::fleet::xid::{BRAKED, is_braked};

use super::context::{CheckContext, FindingDraft, on_it, subject};
use super::{Check, Input, Verdict, Walk};

pub(super) const CHECK: Check = Check {
    code: "power-brake",
    walk: Walk::Devices(look),
};

fn look(context: &mut CheckContext<'_>, input: &Input<'_>) {
    context.report(&input.device.id, check(input), |_| {
        FindingDraft::new(
            subject("Device", &input.device.id),
            format!("{BRAKED}; {}", on_it(input.device)),
            "check the power supplies and the power feed of the node and its rack",
        )
        .group(
            subject("Node", input.node.name()),
            "devices in HW power brake slowdown",
        )
    });
}

/// Firing when the reading says so.
pub(super) fn check(input: &Input<'_>) -> Verdict {
    Verdict::when(input.bits(Signal::ThrottleReasons).map(is_braked))
}
