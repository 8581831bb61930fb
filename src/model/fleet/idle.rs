//! Since when a device is idle: the one answer for findings, advice, tables and pages.

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name};

use super::device::Device;

/// Since when a device, or a job by its devices, is idle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct IdleSince {
    /// The beginning, as far as it is known.
    pub since: Moment,
    /// True where it was idle at the first reading that is known, and so may have been idle before: `since` is that reading.
    pub at_least: bool,
}

impl IdleSince {
    /// Of several devices the one that is idle longest.
    pub fn longest(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        // Of two with one beginning the lower bound may be the longer.
        all.into_iter()
            .min_by_key(|idle| (idle.since, !idle.at_least))
    }

    /// How long: `43m`, and `>43m` where it may be longer.
    pub fn words(&self, now: Moment) -> String {
        let mark = if self.at_least { ">" } else { "" };
        format!("{mark}{}", now.since(self.since))
    }
}

/// What past readings say of a device that was idle at the first reading of this process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IdleBefore {
    pub node: Name,
    pub device: u32,
    /// Since when it is idle.
    pub idle: IdleSince,
}

impl Device {
    /// Since when it is idle; `None` where it is not, or is not allocated.
    pub fn idle(&self) -> Option<IdleSince> {
        Some(IdleSince {
            since: self.idle_since?,
            at_least: self.idle_first_seen,
        })
    }
}
