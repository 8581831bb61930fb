//! `power-brake`: the hardware power brake slows the device: a power supply or the rack asks for less.

use model::fleet::signal::Signal;
use model::fleet::xid::{BRAKED, is_braked};

use crate::checks::context::{CheckContext, FindingDraft, on_it, subject};
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "power-brake",
    walk: CheckWalk::Devices(evaluate),
};

fn evaluate(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
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
pub(crate) fn check(input: &CheckInput<'_>) -> Verdict {
    Verdict::when(input.bits(Signal::ThrottleReasons).map(is_braked))
}
