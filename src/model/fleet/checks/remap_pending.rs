//! `remap-pending`: a remapped memory row waits for a reset.

use crate::fleet::signal::Signal;

use super::desk::{Desk, Draft, on_it, subject};
use super::{Check, Input, Verdict, Walk};

pub(super) const CHECK: Check = Check {
    code: "remap-pending",
    walk: Walk::Devices(look),
};

fn look(desk: &mut Desk<'_>, input: &Input<'_>) {
    desk.report(&input.device.id, check(input), |_| {
        Draft::new(
            subject("Device", &input.device.id),
            format!(
                "a remapped memory row waits for a reset; {}",
                on_it(input.device)
            ),
            "let its jobs end, then reset the GPU so that the spare row takes over",
        )
    });
}

/// Firing when the reading says so.
pub(super) fn check(input: &Input<'_>) -> Verdict {
    Verdict::when(input.flag(Signal::RemapPending))
}
