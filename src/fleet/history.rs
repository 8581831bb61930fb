//! History beside the fleet: sealed, quantised columns for a few signals, with gaps kept as gaps.

use crate::base::{Moment, Name};

/// What a column is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Track {
    /// The whole fleet.
    Fleet(FleetSignal),
    /// A pool.
    Pool(Name, FleetSignal),
    /// A device's utilisation, by device id.
    DeviceUtil(Name),
    /// A device's memory in use as a share of all, by device id.
    DeviceMemory(Name),
}

/// What is kept of the fleet and of each pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FleetSignal {
    /// Mean utilisation, 0 to 1.
    Util,
    /// Devices held as a share of all, 0 to 1.
    Allocated,
    /// USD an hour.
    Burn,
    /// USD an hour of free and idle-allocated devices.
    Idle,
    /// Watts.
    Power,
}

/// The history up to now. Cloning costs a few reference counts.
#[derive(Clone, Debug, Default)]
pub struct History {}

impl History {
    /// `points` values between `from` and `to`, oldest first; `None` where nothing was known.
    pub fn window(
        &self,
        _track: &Track,
        _from: Moment,
        _to: Moment,
        points: usize,
    ) -> Vec<Option<f32>> {
        vec![None; points]
    }

    /// When the oldest value that is still held was taken.
    pub fn since(&self) -> Option<Moment> {
        None
    }
}
