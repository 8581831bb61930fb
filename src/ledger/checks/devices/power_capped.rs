//! `power-capped`: a power limit below the model's is set, and the device reaches it.

use model::fleet::signal::Signal;
use model::fleet::thresholds::Rule;

use crate::checks::context::{CheckContext, FindingDraft, subject};
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "power-capped",
    walk: CheckWalk::Devices(check_device),
};

/// The clock-event bit of the software's power cap.
const SOFTWARE_CAP: u64 = 0x4;

fn check_device(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    let threshold = context.rule.threshold;
    context.report(&input.device.id, check(input, context.rule), |share| {
        FindingDraft::new(
            subject("Device", &input.device.id),
            format!(
                "power capped at {:.0} % of its model's limit",
                share * 100.0
            ),
            "raise the limit, unless it was set on purpose",
        )
        .value(share)
        .threshold(threshold)
        .group(
            subject("Node", input.node.name()),
            "devices power capped below their model's limit",
        )
    });
}

/// Firing with the limit as a share of the model's; only while the cap bites.
pub(crate) fn check(input: &CheckInput<'_>, rule: &Rule) -> Verdict {
    let (Some(bits), Some(limit), Some(model)) = (
        input.bits(Signal::ThrottleReasons),
        input.get(Signal::PowerLimit),
        input.model.and_then(|model| model.tdp_watts),
    ) else {
        return Verdict::Unknown;
    };
    if bits & SOFTWARE_CAP == 0 {
        return Verdict::Ok;
    }
    Verdict::of(Some(limit / model), rule)
}
