//! What past readings say of devices that were idle at the first reading of this process.

use std::time::Duration;

use super::{History, Track};
use crate::base::Age;
use crate::fleet::device::Device;
use crate::fleet::fleet::Fleet;
use crate::fleet::idle::{IdleBefore, IdleSince};

/// Past utilization is looked at in steps of a minute.
const STEP: Duration = Duration::from_secs(60);

impl History {
    /// The devices of a fleet that are idle for longer than it says.
    pub fn idle_before(&self, fleet: &Fleet) -> Box<[IdleBefore]> {
        let all = fleet.devices().filter_map(|(node, device)| {
            Some(IdleBefore {
                node: node.name().clone(),
                device: device.index,
                idle: self.longer(fleet, device)?,
            })
        });
        all.collect()
    }

    /// Since when a device is idle by the readings before its first of this process; `None` where they say no more.
    fn longer(&self, fleet: &Fleet, device: &Device) -> Option<IdleSince> {
        let first = device.idle().filter(|idle| idle.at_least)?.since;
        let held = device.held_since();
        let from = self.since().max(held).filter(|from| *from < first)?;
        let steps = first.since(from).millis() / Age::from(STEP).millis();
        let steps = u32::try_from(steps).ok()?;
        let track = Track::DeviceUtil(device.id.clone());
        let span = (first.minus(STEP.saturating_mul(steps)), first);
        let read = self.window_since(&track, span, held, steps as usize);
        let below = fleet.policy.idle_util_below;
        let is_idle = |util: &&Option<f32>| util.is_some_and(|util| f64::from(util) < below);
        let count = read.iter().rev().take_while(is_idle).count();
        let since = first.minus(STEP.saturating_mul(count as u32));
        let (since, at_least) = match read.len().checked_sub(count + 1) {
            // It was busy then, or has no reading.
            Some(before) => (since, read[before].is_none()),
            // Idle since its pod got it, or for the whole history.
            None => match held.filter(|held| *held == from) {
                Some(held) => (held, false),
                None => (since, true),
            },
        };
        (since < first || !at_least).then_some(IdleSince { since, at_least })
    }
}
