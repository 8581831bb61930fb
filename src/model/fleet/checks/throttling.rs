//! `throttling`: the device is slowed by heat or by its board. The software's power cap is normal under load and
//! does not count; the power brake has a check of its own.

use crate::fleet::signal::Signal;

use super::context::{CheckContext, Draft, on_it, subject};
use super::{Check, Input, Verdict, Walk};

pub(super) const CHECK: Check = Check {
    code: "throttling",
    walk: Walk::Devices(look),
};

/// Clock-event bits as NVML defines them.
const HARDWARE: u64 = 0x8;
const SOFTWARE_HEAT: u64 = 0x20;
const HARDWARE_HEAT: u64 = 0x40;
const POWER_BRAKE: u64 = 0x80;

fn look(context: &mut CheckContext<'_>, input: &Input<'_>) {
    context.report(&input.device.id, check(input), |bits| {
        let bits = bits as u64;
        let why = if bits & HARDWARE_HEAT != 0 {
            "HW thermal slowdown"
        } else if bits & SOFTWARE_HEAT != 0 {
            "SW thermal slowdown"
        } else {
            "HW slowdown"
        };
        Draft::new(
            subject("Device", &input.device.id),
            format!("{why}; {}", on_it(input.device)),
            "check cooling and power of the node; the whole gang runs at the pace of its slowest device",
        )
        .value(bits as f64)
        .group(
            subject("Node", input.node.name()),
            "devices in thermal or HW slowdown",
        )
    });
}

/// Firing with the harmful bits.
pub(super) fn check(input: &Input<'_>) -> Verdict {
    let Some(bits) = input.bits(Signal::ThrottleReasons) else {
        return Verdict::Unknown;
    };
    let mut harmful = bits & (HARDWARE | SOFTWARE_HEAT | HARDWARE_HEAT);
    if bits & POWER_BRAKE != 0 {
        // The brake sets the general hardware bit too.
        harmful &= !HARDWARE;
    }
    if harmful == 0 {
        Verdict::Ok
    } else {
        Verdict::Firing(harmful as f64)
    }
}
