//! Findings: unhealthy or wasteful things, ranked, each with the repair that is suggested.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::base::{Moment, Name, ObjectKey};

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Severity {
    /// Acts on its own: somebody must look now.
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
    /// `xid-79`, `idle-allocated`, ….
    pub code: Name,
    /// What it is about.
    pub subject: Subject,
    /// Since when it has been true.
    pub since: Moment,
    /// True where neither an object nor an exporter says when it began: `since` is when this program first saw it.
    pub first_seen: bool,
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
}
