//! Judgements of single devices: idle, healthy. Pure functions of a device, the time and the policy.

use crate::base::{Age, Moment};

use super::device::Device;
use super::policy::Policy;
use super::signal::Signal;

/// True when the readings alone say that the device does no work: utilisation (or engine activity) below
/// the threshold, and power, where both it and the model's idle power are known, near idle.
pub fn does_nothing(device: &Device, policy: &Policy) -> Option<bool> {
    let util = device
        .util()
        .into_iter()
        .chain(device.signals.get(Signal::SmActive))
        .chain(device.signals.get(Signal::TensorActive))
        .reduce(f64::max)?;
    if util >= policy.idle_util_below {
        return Some(false);
    }
    let idle_watts = policy
        .catalog
        .of_class(&device.class)
        .and_then(|model| model.idle_watts);
    Some(match (device.signals.get(Signal::Power), idle_watts) {
        (Some(power), Some(idle)) => power < idle * policy.idle_power_factor,
        _ => true,
    })
}

/// True when the device is held, has been for longer than the grace, has a fresh reading, and does
/// nothing. A shared device counts only as a whole, a device without telemetry never.
pub fn is_idle(device: &Device, now: Moment, policy: &Policy) -> bool {
    // The join notes when a held device is first seen doing nothing: of most it need not be asked again.
    device.idle_since.is_some()
        && device.is_allocated()
        && !device.is_stale(now)
        && device
            .held_since()
            .is_some_and(|since| now.since(since) >= Age::from(policy.idle_grace))
        && does_nothing(device, policy) == Some(true)
}
