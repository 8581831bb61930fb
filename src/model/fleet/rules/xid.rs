//! Meanings of XID codes, and the health of a device by its readings. Rules of ours, in `config/xid.toml`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use crate::base::Name;

use crate::fleet::device::Health;
use crate::fleet::finding::Severity;
use crate::fleet::signal::{Signal, Signals};

/// How bad a code is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum XidSeverity {
    /// The device is unusable until an operator acts.
    Crit,
    Warn,
    Info,
    /// The program's own fault, most likely: blame the pod, not the device.
    App,
}

impl XidSeverity {
    /// The severity of a finding about such a code.
    pub const fn finding(self) -> Severity {
        match self {
            Self::Crit => Severity::Crit,
            Self::Warn => Severity::Warn,
            Self::Info | Self::App => Severity::Info,
        }
    }
}

/// Properties of one code.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Xid {
    pub code: u32,
    /// How bad it is.
    pub severity: XidSeverity,
    /// Its meaning in a few words.
    pub meaning: String,
    pub repair: String,
}

/// Codes with their rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct XidTable(BTreeMap<u32, Arc<Xid>>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct XidFile {
    xid: Vec<Xid>,
}

static EMBEDDED: LazyLock<XidTable> = LazyLock::new(|| {
    let file: XidFile = toml::from_str(include_str!("../../../../config/xid.toml"))
        .expect("the embedded xid.toml is checked by a test");
    XidTable(
        file.xid
            .into_iter()
            .map(|xid| (xid.code, Arc::new(xid)))
            .collect(),
    )
});

impl XidTable {
    /// The table that comes with the program.
    pub fn embedded() -> Self {
        EMBEDDED.clone()
    }

    /// The rule of a code; an unknown code gets a rule that says so.
    pub fn get(&self, code: u32) -> Arc<Xid> {
        self.0.get(&code).cloned().unwrap_or_else(|| {
            Arc::new(Xid {
                code,
                severity: XidSeverity::Warn,
                meaning: String::from("unknown XID"),
                repair: String::from(
                    "look the code up in the driver's documentation and in the node's kernel log",
                ),
            })
        })
    }

    /// Puts a rule in the place of the one for its code.
    pub fn set(&mut self, xid: Xid) {
        self.0.insert(xid.code, Arc::new(xid));
    }

    /// Every code that is described, in order.
    pub fn codes(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.keys().copied()
    }
}

/// The code of a gauge's value; `None` for 0, which means no error, and for values that are no code.
pub fn code(value: f64) -> Option<u32> {
    (value >= 1.0 && value <= f64::from(u16::MAX)).then(|| value.round() as u32)
}

/// What the driver asks for (`DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION`); `None` for 0, nothing.
pub fn recovery(value: f64) -> Option<&'static str> {
    match code(value)? {
        1 => Some("reset the GPU"),
        2 => Some("reboot the node"),
        3 => Some("drain its peer-to-peer traffic, then reset it"),
        4 => Some("drain and reset the GPU"),
        _ => Some("unknown recovery action"),
    }
}

/// Clock-event bits as NVML defines them.
const HARDWARE: u64 = 0x8;
const SOFTWARE_HEAT: u64 = 0x20;
const HARDWARE_HEAT: u64 = 0x40;
const POWER_BRAKE: u64 = 0x80;

/// True where the hardware power brake slows the device.
pub const fn is_braked(bits: u64) -> bool {
    bits & POWER_BRAKE != 0
}

/// Bits that mean a slowdown by heat or by the board. The software's power cap is normal under load, and the power brake
/// has its own finding.
pub const fn slowdown(bits: u64) -> u64 {
    let harmful = bits & (HARDWARE | SOFTWARE_HEAT | HARDWARE_HEAT);
    match is_braked(bits) {
        // The brake sets the general hardware bit too.
        true => harmful & !HARDWARE,
        false => harmful,
    }
}

/// The gravest of those bits in words.
pub const fn slowdown_words(bits: u64) -> &'static str {
    if bits & HARDWARE_HEAT != 0 {
        "HW thermal slowdown"
    } else if bits & SOFTWARE_HEAT != 0 {
        "SW thermal slowdown"
    } else {
        "HW slowdown"
    }
}

/// Words for a device in the hardware power brake.
pub const BRAKED: &str = "HW power brake slowdown";

/// The bits of a bit mask that was read.
pub fn bits(value: f64) -> Option<u64> {
    (0.0..9e15).contains(&value).then_some(value as u64)
}

/// Signals that could report a fault: if none is known, health is unknown.
const WITNESSES: [Signal; 9] = [
    Signal::Health,
    Signal::XidLast,
    Signal::XidWindow,
    Signal::RemapFailed,
    Signal::RemapPending,
    Signal::RecoveryAction,
    Signal::EccUncorrected,
    Signal::TempMargin,
    Signal::ThrottleReasons,
];

/// A device's health by its readings: a fault when one of them reports a broken device, a warning for one that needs attention,
/// unknown when no reading could have reported either.
pub fn health(signals: &Signals, table: &XidTable) -> Health {
    let is_set = |signal| signals.get(signal).is_some_and(|value| value >= 0.5);
    if signals.get(Signal::Health).is_some_and(|value| value < 0.5) {
        return Health::Fault(Name::from("reported unhealthy by its exporter"));
    }
    let xid = signals
        .get(Signal::XidLast)
        .and_then(code)
        .map(|code| table.get(code));
    if let Some(xid) = xid.as_ref().filter(|xid| xid.severity == XidSeverity::Crit) {
        return Health::Fault(Name::from(format!("XID {}: {}", xid.code, xid.meaning)));
    }
    if is_set(Signal::RemapFailed) {
        return Health::Fault(Name::from("row remap failed: no spare rows left"));
    }
    if let Some(action) = signals.get(Signal::RecoveryAction).and_then(recovery) {
        return Health::Fault(Name::from(format!("the driver requests: {action}")));
    }
    if let Some(xid) = xid.as_ref().filter(|xid| xid.severity == XidSeverity::Warn) {
        return Health::Warn(Name::from(format!("XID {}: {}", xid.code, xid.meaning)));
    }
    if is_set(Signal::RemapPending) {
        return Health::Warn(Name::from("row remap pending until a GPU reset"));
    }
    if signals
        .get(Signal::TempMargin)
        .is_some_and(|left| left <= 0.0)
    {
        return Health::Warn(Name::from("at its temperature limit"));
    }
    let throttled = signals.get(Signal::ThrottleReasons).and_then(bits);
    match throttled {
        Some(bits) if is_braked(bits) => return Health::Warn(Name::from(BRAKED)),
        Some(bits) if slowdown(bits) != 0 => return Health::Warn(Name::from(slowdown_words(bits))),
        _ => {}
    }
    if WITNESSES
        .iter()
        .any(|signal| signals.get(*signal).is_some())
    {
        Health::Ok
    } else {
        Health::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(Signal, f64)]) -> Health {
        health(&values.iter().copied().collect(), &XidTable::embedded())
    }

    #[test]
    fn every_rule_of_the_table_applies() {
        let table = XidTable::embedded();
        assert!(table.codes().count() > 80);
        for code in table.codes() {
            let xid = table.get(code);
            assert!(!xid.meaning.is_empty() && !xid.repair.is_empty(), "{code}");
        }
        // The codes on which public fatal lists agree must not be less than critical.
        for code in [46, 48, 62, 64, 74, 79, 95, 119, 120, 140] {
            assert_eq!(table.get(code).severity, XidSeverity::Crit, "{code}");
        }
        for code in [13, 31, 43] {
            assert_eq!(table.get(code).severity, XidSeverity::App, "{code}");
        }
        assert_eq!(table.get(9999).severity, XidSeverity::Warn);
    }

    #[test]
    fn no_word_is_not_health() {
        assert_eq!(of(&[]), Health::Unknown);
        assert_eq!(
            of(&[(Signal::Util, 0.9), (Signal::Power, 300.0)]),
            Health::Unknown
        );
        assert_eq!(of(&[(Signal::XidLast, 0.0)]), Health::Ok);
        assert_eq!(of(&[(Signal::Health, 1.0)]), Health::Ok);
    }

    #[test]
    fn the_worst_word_wins() {
        assert!(of(&[(Signal::XidLast, 79.0)]).is_fault());
        assert!(of(&[(Signal::Health, 0.0), (Signal::XidLast, 0.0)]).is_fault());
        assert!(of(&[(Signal::RemapFailed, 1.0), (Signal::XidLast, 63.0)]).is_fault());
        assert!(of(&[(Signal::RecoveryAction, 2.0)]).is_fault());
        assert_eq!(of(&[(Signal::XidLast, 63.0)]).name(), "warn");
        assert_eq!(of(&[(Signal::RemapPending, 1.0)]).name(), "warn");
        assert_eq!(of(&[(Signal::TempMargin, -1.0)]).name(), "warn");
        // What its findings say, its row does not deny: brake, heat; the power cap of software is no fault.
        let slowed = |bits| of(&[(Signal::ThrottleReasons, bits)]);
        assert_eq!(
            slowed(136.0).why().map(Name::as_str),
            Some("HW power brake slowdown")
        );
        assert_eq!(
            slowed(64.0).why().map(Name::as_str),
            Some("HW thermal slowdown")
        );
        assert_eq!(slowed(4.0), Health::Ok);
        assert_eq!(
            of(&[(Signal::XidLast, 13.0)]),
            Health::Ok,
            "the program's fault"
        );
        assert_eq!(of(&[(Signal::XidLast, 1e12)]), Health::Ok, "no code at all");
    }
}
