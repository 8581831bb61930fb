//! `throttling`: the device is slowed by heat or by its board. The software's power cap is normal under load and
//! does not count; the power brake has a check of its own.

use model::fleet::signal::Signal;
use model::fleet::xid::{slowdown, slowdown_words};

use crate::checks::context::{CheckContext, FindingDraft, on_it, subject};
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "throttling",
    walk: CheckWalk::Devices(evaluate),
};

fn evaluate(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    context.report(&input.device.id, check(input), |bits| {
        let bits = bits as u64;
        let why = slowdown_words(bits);
        FindingDraft::new(
            subject("Device", &input.device.id),
            format!("{why}; {}", on_it(input.device)),
            "check cooling and power of the node; the whole gang runs at the pace of its slowest device",
        )
        .value(bits as f64)
        .group(
            subject("Node", input.node.name()),
            "devices in thermal or HW slowdown",
        )
    });
}

/// Firing with the harmful bits.
pub(crate) fn check(input: &CheckInput<'_>) -> Verdict {
    let Some(bits) = input.bits(Signal::ThrottleReasons) else {
        return Verdict::Unknown;
    };
    let harmful = slowdown(bits);
    if harmful == 0 {
        Verdict::Ok
    } else {
        Verdict::Firing(harmful as f64)
    }
}
