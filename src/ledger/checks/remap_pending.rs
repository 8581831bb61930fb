//! `remap-pending`: a remapped memory row waits for a reset.

use model::fleet::signal::Signal;

use super::context::{CheckContext, FindingDraft, on_it, subject};
use super::{Check, Input, Verdict, Walk};

pub(super) const CHECK: Check = Check {
    code: "remap-pending",
    walk: Walk::Devices(look),
};

fn look(context: &mut CheckContext<'_>, input: &Input<'_>) {
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
pub(super) fn check(input: &Input<'_>) -> Verdict {
    Verdict::when(input.flag(Signal::RemapPending))
}
