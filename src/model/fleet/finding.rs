//! Findings: unhealthy or wasteful things, ranked, each with the repair that is suggested.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::base::{Moment, Name, ObjectKey};

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Severity {
    /// An operator must act now.
    Crit,
    /// Will become worse or costs money.
    Warn,
    Info,
}

crate::words! {
    impl Severity {
        /// As in the JSON contract.
        pub fn name(self) {
            Crit => "crit",
            Warn => "warn",
            Info => "info",
        }
    }
}

type Kind = &'static str;

/// What findings are about.
pub const KINDS: &[Kind] = &[
    "Device", "Node", "Pod", "Job", "Pool", "Rack", "Source", "Budget", "Run",
];

/// What a finding is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Subject {
    /// `Device`, `Node`, `Pod`, `Job`, `Pool`, `Rack`, `Source`, `Budget`, `Run`.
    #[serde(deserialize_with = "kind")]
    pub kind: Kind,
    /// Namespace (or empty) and name.
    pub key: ObjectKey,
}

fn kind<'a, D: Deserializer<'a>>(deserializer: D) -> Result<Kind, D::Error> {
    let name = Name::deserialize(deserializer)?;
    let known = KINDS.iter().find(|kind| name.as_str() == **kind);
    known
        .copied()
        .ok_or_else(|| D::Error::custom("it has a finding of a later version"))
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// Stable for as long as it lasts: code and subject.
    pub id: Name,
    pub severity: Severity,
    /// Code of its check: `xid-79`, `idle-allocated`, ….
    pub code: Name,
    /// The subject of the finding.
    pub subject: Subject,
    /// Since when it has been true.
    pub since: Moment,
    /// True where neither an object nor an exporter says when it began: `since` is when this program first saw it.
    pub first_seen: bool,
    /// True where it may have begun before `since`: this program did not see it begin.
    #[serde(default)]
    pub at_least: bool,
    /// The measured value, where there is one.
    pub value: Option<f64>,
    /// The threshold that it passed, where there is one.
    pub threshold: Option<f64>,
    pub message: String,
    /// What to do about it; may be empty.
    pub repair: String,
    /// Where it counts several objects: their names, devices of a rack or node as `NODE/gpu3`. Empty where the subject says all.
    #[serde(default, skip_serializing_if = "<[Name]>::is_empty")]
    pub members: Box<[Name]>,
    /// Ids of the findings that follow from it and are part of its message: they last, and are not listed.
    #[serde(default, skip_serializing_if = "<[Name]>::is_empty")]
    pub also: Box<[Name]>,
}

/// How long a finding stays while its subject is unknown.
pub const PATIENCE: Duration = Duration::from_secs(30 * 60);

/// What is first seen this soon after the first look comes from the first readings: it may have begun before.
pub const FIRST_READINGS: Duration = Duration::from_secs(90);

/// The check of services that miss an objective.
pub const OBJECTIVE_MISSED: &str = "objective-missed";

/// Codes of checks that say that a device is broken. Of several findings of one device the gravest leads, then the first of these.
pub const DEVICE_FAULTS: &[&str] = &[
    "xid",
    "remap-failed",
    "ecc-uncorrected",
    "recovery-action",
    "device-unhealthy",
    "device-vanished",
    "remap-pending",
];

/// The fault that a finding's code names, as words after the name of its node or device: `has XID 79`. `None` for a code that is no
/// fault: such a finding does not keep work away.
pub fn fault(code: &str) -> Option<String> {
    if let Some(number) = code.strip_prefix("xid-") {
        return Some(format!("has XID {number}"));
    }
    let words = match code {
        "node-not-ready" => "is not ready",
        "node-condition" => "has a failed node condition",
        "device-unhealthy" => "is unhealthy",
        "device-vanished" => "is missing",
        "ecc-uncorrected" => "has uncorrectable ECC errors",
        "recovery-action" => "needs a recovery action",
        "remap-failed" => "has a failed row remap",
        "remap-pending" => "has a row remap pending",
        code => return DEVICE_FAULTS.contains(&code).then(|| format!("has {code}")),
    };
    Some(words.to_owned())
}
