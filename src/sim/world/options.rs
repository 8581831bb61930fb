//! How large a fleet, from which seed, at what time.

use model::base::Moment;

/// What a simulated fleet is made from. The same options give the same fleet, byte for byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// The number of nodes wanted; the pools keep their proportions.
    pub nodes: Option<u32>,
    /// The number of schedulable devices wanted (a MIG slice counts as one); loses against `nodes`.
    pub devices: Option<u32>,
    /// The virtual time at the start.
    pub at: Moment,
    /// Jobs that ended before the start are still there, and forecasts know from the first minute how long jobs run.
    pub past: bool,
}

impl Options {
    /// The demo fleet (3,368 devices) at `at`.
    pub const fn new(at: Moment) -> Self {
        Self {
            seed: 1,
            nodes: None,
            devices: None,
            at,
            past: true,
        }
    }
}
