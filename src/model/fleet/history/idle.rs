//! Since when a device is idle: the one answer for findings, advice, tables and pages.

use std::time::Duration;

use super::{History, Track};
use crate::base::{Age, Moment};
use crate::fleet::device::Device;
use crate::fleet::fleet::Fleet;

/// Past utilization is looked at in steps of a minute.
const STEP: Duration = Duration::from_secs(60);

/// Since when a device, or a job by its devices, is idle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IdleSince {
    /// The beginning, as far as it is known.
    pub since: Moment,
    /// True where it was idle at the first reading that is kept, and so may have been idle before: `since` is that reading.
    pub at_least: bool,
}

impl IdleSince {
    /// Of a device by the readings of this process alone; `None` for one that is not idle.
    pub fn of(device: &Device) -> Option<Self> {
        Some(Self {
            since: device.idle_since?,
            at_least: device.idle_first_seen,
        })
    }

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

impl History {
    /// Since when an allocated device is idle; `None` for one that is not. What was read before this process started counts as well,
    /// where the history has it.
    pub fn idle_since(&self, fleet: &Fleet, device: &Device) -> Option<IdleSince> {
        let known = IdleSince::of(device)?;
        let first = known.since;
        let idle = |since, at_least| Some(IdleSince { since, at_least });
        let held = device.held_since();
        let from = self.since().max(held);
        let Some(from) = from.filter(|from| known.at_least && *from < first) else {
            return Some(known);
        };
        let steps = first.since(from).millis() / Age::from(STEP).millis();
        let track = Track::DeviceUtil(device.id.clone());
        let span = (first.minus(STEP.saturating_mul(steps as u32)), first);
        let read = self.window_since(&track, span, held, steps as usize);
        let below = fleet.policy.idle_util_below;
        let is_idle = |util: &&Option<f32>| util.is_some_and(|util| f64::from(util) < below);
        let count = read.iter().rev().take_while(is_idle).count();
        let since = first.minus(STEP.saturating_mul(count as u32));
        match read.len().checked_sub(count + 1) {
            // It was busy then, or has no reading.
            Some(before) => idle(since, read[before].is_none()),
            // Idle since its pod got it, or for the whole history.
            None => match held.filter(|held| *held == from) {
                Some(held) => idle(held, false),
                None => idle(since, true),
            },
        }
    }
}
