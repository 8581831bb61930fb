//! The shell around the pure rooms: the composition root, the two loops, the terminal and the clock.

pub mod acting;
pub mod clock;
pub mod hush;
pub mod pace;
pub mod reading;
pub mod session;
pub mod store;
pub mod telemetry;
pub mod terminal;
pub mod ui;
