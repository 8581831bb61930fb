//! `memory-saturated`: device memory is full. The next allocation may fail.

use model::fleet::thresholds::Rule;

use crate::checks::context::{CheckContext, FindingDraft, job_subject, on_it, subject};
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "memory-saturated",
    walk: CheckWalk::Devices(check_device),
};

fn check_device(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    let threshold = context.rule.threshold;
    context.report(&input.device.id, check(input, context.rule), |share| {
        let draft = FindingDraft::new(
            subject("Device", &input.device.id),
            format!(
                "{:.1} % of its memory is in use; {}",
                share * 100.0,
                on_it(input.device)
            ),
            "reduce the batch size or the cache, unless the program preallocates memory on purpose",
        )
        .value(share)
        .threshold(threshold);
        match input.device.first_holder() {
            Some((pod, _)) => draft.group(
                job_subject(&pod.job),
                "of its devices have their memory full",
            ),
            None => draft,
        }
    });
}

/// Firing with the share of memory in use.
pub(crate) fn check(input: &CheckInput<'_>, rule: &Rule) -> Verdict {
    Verdict::of(
        input.fresh.then(|| input.device.memory_ratio()).flatten(),
        rule,
    )
}
