//! Since when a device is idle: one computation for findings, advice, tables and device pages.

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name};

use super::device::Device;

/// Since when a device, or a job by its devices, is idle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct IdleSince {
    /// Start of the idle time, as far as it is known.
    pub since: Moment,
    /// True where it was idle at the first reading that is known, and so may have been idle before: `since` is that reading.
    pub at_least: bool,
}

impl IdleSince {
    /// The longest of several idle times; `None` if there are none.
    pub fn longest(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        // Of two with the same start, take the lower bound: it may be longer.
        all.into_iter()
            .min_by_key(|idle| (idle.since, !idle.at_least))
    }

    /// How long it is idle at `now`: `43m`, and `>43m` where it may be longer.
    pub fn words(&self, now: Moment) -> String {
        let mark = if self.at_least { ">" } else { "" };
        format!("{mark}{}", now.since(self.since))
    }
}

/// The idle time of a device that was idle at the first reading of this process, by the readings before it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IdleBefore {
    pub node: Name,
    /// Index on the node, from 0.
    pub device: u32,
    pub idle: IdleSince,
}

impl Device {
    /// Since when it is allocated and idle; `None` where it is not idle, or is free.
    pub fn idle(&self) -> Option<IdleSince> {
        Some(IdleSince {
            since: self.idle_since?,
            at_least: self.idle_first_seen,
        })
    }
}
