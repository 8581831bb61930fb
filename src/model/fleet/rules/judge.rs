//! Judgements of single devices: idle, healthy. Pure functions of a device, the time and the policy.

use crate::base::{Age, Moment};

use super::policy::Policy;
use crate::fleet::device::Device;
use crate::fleet::finding::Severity;
use crate::fleet::signal::Signal;

/// Activity of a device by its last readings, 0 to 1: the larger of utilization and engine activity.
pub fn activity(device: &Device) -> Option<f64> {
    device
        .util()
        .into_iter()
        .chain(device.signals.get(Signal::SmActive))
        .chain(device.signals.get(Signal::TensorActive))
        .reduce(f64::max)
}

/// True when the readings show the device idle: utilization (or engine activity) below the threshold, and power, where both it
/// and the model's idle power are known, near idle.
pub fn does_nothing(device: &Device, policy: &Policy) -> Option<bool> {
    let util = activity(device)?;
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

/// A gang whose median utilization (0 to 1) is lower is not working now: it starts, checkpoints, or waits as a whole, and nothing is known of a straggler.
pub const GANG_WORKS: f64 = 0.5;

/// A device is hot within this distance of its slowdown temperature, degrees Celsius: `approach` of the check `heat`.
pub const NEAR_SLOWDOWN: f64 = 3.0;

/// A device without a known slowdown temperature is hot from here, degrees Celsius: `fallback` of the check `heat`.
pub const HOT_DEFAULT: f64 = 85.0;

/// How severe a temperature is for a device of this class, by its own or its model's slowdown temperature: critical from that on, a
/// warning near it. Without a known slowdown temperature it is a warning at most; `None` is not hot.
pub fn heat_severity(
    celsius: f64,
    own_slowdown: Option<f64>,
    class: &str,
    policy: &Policy,
) -> Option<Severity> {
    let model = || policy.catalog.of_class(class)?.slowdown_celsius;
    match own_slowdown.filter(|limit| *limit > 40.0).or_else(model) {
        Some(limit) if celsius >= limit => Some(Severity::Crit),
        limit => {
            let near = limit.map_or(HOT_DEFAULT, |limit| limit - NEAR_SLOWDOWN);
            (celsius >= near).then_some(Severity::Warn)
        }
    }
}

/// How severe the temperature of the device's last reading is; `None` is not hot, or unknown.
pub fn device_heat_severity(device: &Device, policy: &Policy) -> Option<Severity> {
    let own = device.signals.get(Signal::TempSlowdown);
    let celsius = device.signals.get(Signal::Temp)?;
    heat_severity(celsius, own, &device.class, policy)
}

/// True when the device is allocated, for longer than the grace period, has a fresh reading, and is idle. A shared device counts
/// only as a whole, a device without telemetry never.
pub fn is_idle(device: &Device, now: Moment, policy: &Policy) -> bool {
    // The join sets `idle_since` when it first sees an allocated device idle: most devices stop here.
    device.idle_since.is_some()
        && device.is_allocated()
        && !device.is_stale(now)
        && device
            .held_since()
            .is_some_and(|since| now.since(since) >= Age::from(policy.idle_grace))
        && does_nothing(device, policy) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::rules::thresholds::Thresholds;

    #[test]
    fn hot_is_what_the_check_calls_hot() {
        let (thresholds, policy) = (Thresholds::default(), Policy::default());
        let rule = thresholds.rule("heat");
        assert_eq!((rule.approach, rule.fallback), (NEAR_SLOWDOWN, HOT_DEFAULT));
        let severity = |celsius, own, class| heat_severity(celsius, own, class, &policy);
        assert_eq!(severity(86.0, Some(90.0), "H100"), None);
        assert_eq!(severity(87.0, Some(90.0), "H100"), Some(Severity::Warn));
        assert_eq!(severity(90.0, Some(90.0), "H100"), Some(Severity::Crit));
        assert_eq!(severity(99.0, None, "of no catalog"), Some(Severity::Warn));
    }
}
