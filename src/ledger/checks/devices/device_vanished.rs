//! `device-vanished`: a device was read, and now its exporter reports only the others of its node. The driver
//! may have lost it before it could report an XID.

use std::time::Duration;

use model::base::Age;

use crate::checks::context::{CheckContext, FindingDraft, on_it, subject};
use crate::checks::{Check, CheckInput, CheckWalk, Verdict};

pub(crate) const CHECK: Check = Check {
    code: "device-vanished",
    walk: CheckWalk::Devices(evaluate),
};

fn evaluate(context: &mut CheckContext<'_>, input: &CheckInput<'_>) {
    context.report_since(&input.device.id, check(input), input.device.read_at, |seconds| {
        FindingDraft::new(
            subject("Device", &input.device.id),
            format!(
                "not reported by its exporter for {}, while the node's other devices are; {}",
                Age::from_seconds(seconds as u64),
                on_it(input.device)
            ),
            "drain the node, then power-cycle it; look for XID 79 (GPU has fallen off the bus) in its kernel log",
        )
        .value(seconds)
    });
}

/// Firing with the seconds that it is behind the newest of the others.
pub(crate) fn check(input: &CheckInput<'_>) -> Verdict {
    let device = input.device;
    let Some(read) = device.read_at else {
        return Verdict::Ok;
    };
    let Some(newest) = (input.node.devices.iter())
        .filter(|other| other.id != device.id)
        .filter_map(|other| other.read_at)
        .max()
    else {
        // It is alone: a silent exporter and a vanished device look the same.
        return if input.fresh {
            Verdict::Ok
        } else {
            Verdict::Unknown
        };
    };
    let limit = device
        .interval
        .saturating_mul(5)
        .checked_div(2)
        .unwrap_or_default()
        .max(Duration::from_secs(75));
    let behind = newest.since(read);
    if input.now.since(newest) > Age::from(limit.saturating_mul(2)) {
        return Verdict::Unknown;
    }
    if behind > Age::from(limit) {
        Verdict::Firing(behind.seconds() as f64)
    } else {
        Verdict::Ok
    }
}
