//! `ecc-uncorrected`: uncorrectable memory errors that came while we looked. The counter's own height says little:
//! it may be years old, and a driver reload sets it back.

use model::base::Age;
use model::fleet::signal::Signal;

use crate::checks::context::{CheckContext, FindingDraft, LastValue, counted, on_it, subject};
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "ecc-uncorrected",
    walk: CheckWalk::Devices(check_device),
};

fn check_device(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    let id = &input.device.id;
    let Some(count) = input.get(Signal::EccUncorrected) else {
        context.report_unknown(id);
        return;
    };
    let known = context.check_state.memory.get(id).copied();
    let memory = check(known, count, input, Age::from(context.rule.window));
    if known.is_some() {
        context
            .check_state
            .memory
            .entry(id.clone())
            .and_modify(|kept| *kept = memory);
    } else {
        context.check_state.memory.insert(id.clone(), memory);
    }
    let verdict = Verdict::of(Some(memory.value - memory.base), context.rule);
    let threshold = context.rule.threshold;
    context.report_with_start(id, verdict, Some(memory.changed), |errors| {
        FindingDraft::new(
            subject("Device", id),
            format!(
                "{} since {}; {}",
                counted(errors as usize, "uncorrectable ECC error"),
                memory.changed.clock(),
                on_it(input.device)
            ),
            "drain the node, then reset the GPU; restart the jobs that were on it; replace the GPU if the errors recur",
        )
        .value(errors)
        .threshold(threshold)
    });
}

/// State of the counter after reading `count`: its base rises if no error was added for `window`, and falls with a counter that was reset.
fn check(known: Option<LastValue>, count: f64, input: &CheckInput<'_>, window: Age) -> LastValue {
    let fresh = LastValue {
        value: count,
        base: count,
        changed: input.now,
        read: input.now,
    };
    let Some(known) = known.filter(|known| count >= known.value) else {
        return fresh;
    };
    let begins = known.value == known.base && count > known.value;
    let over = count == known.value && input.now.since(known.changed) > window;
    LastValue {
        value: count,
        base: if over { count } else { known.base },
        changed: if begins || over {
            input.now
        } else {
            known.changed
        },
        read: input.now,
    }
}
