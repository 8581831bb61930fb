//! `pcie-replay`: the device's PCIe link repeats packets. A loose riser, a worn cable or a failing slot does that, and every
//! copy between host and device becomes slower.
//!
//! Source of the default level: DCGM's health watch, `dcgmlib/src/DcgmGpuHardwareLimits.h`: 8 replays a minute at most.

use model::base::{Age, Moment};
use model::fleet::signal::Signal;

use crate::checks::context::{CheckContext, FindingDraft, LastValue, on_it, subject};
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "pcie-replay",
    walk: CheckWalk::Devices(look),
};

/// Least time between two readings that are compared. One to two minutes pass between `base` and now.
const MINUTE: Age = Age::from_seconds(60);

fn look(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    let id = &input.device.id;
    let Some(count) = input.get(Signal::PcieReplay) else {
        context.report_unknown(id);
        return;
    };
    let known = context.check_state.memory.get(id).copied();
    // Of a device without replays nothing is kept.
    let memory = (known.is_some() || count > 0.0).then(|| sample(known, count, input.now));
    if let Some(memory) = memory
        && known.is_none_or(|known| known.read != memory.read)
    {
        context.check_state.memory.insert(id.clone(), memory);
    }
    let rate = memory.map_or(Some(0.0), |memory| per_minute(&memory, count, input.now));
    let threshold = context.rule.threshold;
    let verdict = Verdict::of(rate, context.rule);
    context.report(id, verdict, |replays| {
        FindingDraft::new(
            subject("Device", id),
            format!("{replays:.0} PCIe replays a minute; {}", on_it(input.device)),
            "drain the node, then reseat the GPU or its riser; if the replays continue, replace the slot or the GPU",
        )
        .value(replays)
        .threshold(threshold)
        .group(
            subject("Node", input.node.name()),
            "devices with PCIe replays",
        )
    });
}

/// Keeps two readings of the counter, the second at least a minute after the first. A counter that was set back began at 0
/// after its last reading.
fn sample(known: Option<LastValue>, count: f64, now: Moment) -> LastValue {
    let (base, changed) = match known {
        Some(known) if count < known.value => (0.0, known.read),
        Some(known) if now.since(known.read) < MINUTE => return known,
        Some(known) => (known.value, known.read),
        None => (count, now),
    };
    LastValue {
        value: count,
        base,
        changed,
        read: now,
    }
}

/// Replays a minute since the first of the two readings; `None` while that is less than a minute ago.
fn per_minute(memory: &LastValue, count: f64, now: Moment) -> Option<f64> {
    let age = now.since(memory.changed);
    (age >= MINUTE).then(|| (count - memory.base) * 60.0 / age.seconds() as f64)
}
