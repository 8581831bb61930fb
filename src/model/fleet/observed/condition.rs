//! Conditions of objects, and whether one says that something is wrong.

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name};

/// A status condition of an object.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Condition {
    /// Type, such as `Ready`.
    pub kind: Name,
    /// True, false, or `None` for Unknown.
    pub status: Option<bool>,
    pub reason: Name,
    pub message: Name,
    pub since: Option<Moment>,
}

/// Ends of condition types that are well when true.
const GOOD_ENDS: &[&str] = &["ready", "healthy", "available", "operational", "ok"];
/// Ends that look like those and name a problem.
const BAD_ENDS: &[&str] = &["unavailable", "unhealthy", "notready", "inoperational"];
/// Parts of a reason that mean a good state, whatever the status.
const CALM: &[&str] = &[
    "noerror",
    "hasno",
    "isready",
    "ishealthy",
    "noxid",
    "nofault",
];
/// Parts of a reason that say that something is wrong.
const ALARM: &[&str] = &[
    "error",
    "uncorrectable",
    "fault",
    "fail",
    "xid",
    "unhealthy",
    "lost",
    "degraded",
    "down",
];

impl Condition {
    /// True for a condition that says that something is wrong, false for one that says that all is well, `None` where its
    /// status is not known. Of any node condition, `Ready` among them.
    pub fn is_wrong(&self) -> Option<bool> {
        let (kind, reason) = (lower(&self.kind), lower(&self.reason));
        if CALM.iter().any(|word| reason.contains(word)) {
            return Some(false);
        }
        let alarmed = ALARM.iter().any(|word| reason.contains(word));
        let ends = |ends: &[&str]| ends.iter().any(|end| kind.ends_with(end));
        if ends(GOOD_ENDS) && !ends(BAD_ENDS) {
            self.status.map(|status| !status)
        } else if kind.ends_with("health") {
            self.status.map(|_| alarmed)
        } else {
            self.status
        }
    }
}

/// A word of an agent, without case and separators.
pub fn lower(text: &str) -> String {
    text.to_ascii_lowercase().replace(['_', '-', ' '], "")
}
