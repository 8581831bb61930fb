//! `remap-failed`: a memory row could not be remapped, so the spare rows are used up.

use model::fleet::signal::Signal;

use crate::checks::context::{CheckContext, FindingDraft, on_it, subject};
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "remap-failed",
    walk: CheckWalk::Devices(evaluate),
};

fn evaluate(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    context.report(&input.device.id, check(input), |_| {
        FindingDraft::new(
            subject("Device", &input.device.id),
            format!(
                "row remap failed: no spare rows left; {}",
                on_it(input.device)
            ),
            "drain the node, then replace the GPU",
        )
    });
}

/// Firing when the reading says so.
pub(crate) fn check(input: &CheckInput<'_>) -> Verdict {
    Verdict::when(input.flag(Signal::RemapFailed))
}
