//! `remap-pending`: a remapped memory row waits for a reset.

use model::fleet::signal::Signal;

use crate::checks::context::{CheckContext, FindingDraft, on_it, subject};
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "remap-pending",
    walk: CheckWalk::Devices(evaluate),
};

fn evaluate(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    context.report(&input.device.id, check(input), |_| {
        FindingDraft::new(
            subject("Device", &input.device.id),
            format!(
                "row remap pending until a GPU reset; {}",
                on_it(input.device)
            ),
            "wait until its jobs have ended, then reset the GPU",
        )
    });
}

/// Firing when the reading says so.
pub(crate) fn check(input: &CheckInput<'_>) -> Verdict {
    Verdict::when(input.flag(Signal::RemapPending))
}
