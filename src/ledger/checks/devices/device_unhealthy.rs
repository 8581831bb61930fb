//! `device-unhealthy`: the exporter itself calls the device unhealthy.

use model::fleet::signal::Signal;

use crate::checks::context::{CheckContext, FindingDraft, on_it, subject};
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "device-unhealthy",
    walk: CheckWalk::Devices(evaluate),
};

fn evaluate(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    context.report(&input.device.id, check(input), |_| {
        FindingDraft::new(
            subject("Device", &input.device.id),
            format!("reported unhealthy by its exporter; {}", on_it(input.device)),
            "drain the node, then reset the GPU; read its exporter's page and the node's kernel log for the cause",
        )
    });
}

/// Firing when the reading says so.
pub(crate) fn check(input: &CheckInput<'_>) -> Verdict {
    Verdict::when(input.flag(Signal::Health).map(|healthy| !healthy))
}
