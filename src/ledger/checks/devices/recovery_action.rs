//! `recovery-action`: the driver asks for a reset, a reboot or a drain.

use model::fleet::signal::Signal;
use model::fleet::xid::recovery;

use crate::checks::context::{CheckContext, FindingDraft, on_it, subject};
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "recovery-action",
    walk: CheckWalk::Devices(evaluate),
};

fn evaluate(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    context.report(&input.device.id, check(input), |action| {
        let action_words = recovery(action).unwrap_or("act");
        FindingDraft::new(
            subject("Device", &input.device.id),
            format!(
                "the driver requests: {action_words}; {}",
                on_it(input.device)
            ),
            format!("drain the node, then {action_words}"),
        )
        .value(action)
    });
}

/// Firing with the number of the action.
pub(crate) fn check(input: &CheckInput<'_>) -> Verdict {
    match input.get(Signal::RecoveryAction) {
        None => Verdict::Unknown,
        Some(action) if recovery(action).is_some() => Verdict::Firing(action),
        Some(_) => Verdict::Ok,
    }
}
