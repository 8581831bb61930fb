//! The shell around the pure rooms: the composition root, the two loops, the terminal and the clock.

pub mod action_service;
pub mod action_task;
pub mod aftermath;
pub mod clipboard;
pub mod clock;
pub mod connection;
pub mod doctor;
pub mod effects;
pub mod encode;
pub mod explanation_task;
mod first_look;
pub mod kubectl;
pub mod pace;
pub mod past;
pub mod playback;
pub mod port_forward;
pub mod reading;
pub mod rehearsal;
pub mod session;
pub mod shell;
pub mod silence;
mod source_options;
pub mod store;
pub mod tape;
pub mod telemetry;
pub mod terminal;
pub mod ui;
