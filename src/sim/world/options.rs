//! How large a fleet, from which seed, at what time.

use model::base::Moment;

/// The parameters of a simulated fleet. The same options give the same fleet, byte for byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// The requested number of nodes; the pools keep their proportions.
    pub nodes: Option<u32>,
    /// The requested number of schedulable devices (a MIG slice counts as one); `nodes` has precedence.
    pub devices: Option<u32>,
    /// The virtual time at the start.
    pub at: Moment,
    /// Jobs that ended before the start still exist, and forecasts have run times from the first minute.
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
