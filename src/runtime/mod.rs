//! The shell around the pure rooms: the composition root, the two loops, the terminal and the clock.

pub mod acting;
pub mod answering;
pub mod clipboard;
pub mod clock;
pub mod deeds;
pub mod desk;
pub mod doctor;
pub mod encode;
pub mod hush;
pub mod looking;
pub mod pace;
pub mod reading;
pub mod rehearsal;
pub mod session;
pub mod store;
pub mod telemetry;
pub mod terminal;
pub mod ui;
