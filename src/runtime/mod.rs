//! Runtime: the composition root, the two event loops, the terminal and the clock around the pure layers.

pub mod actions;
pub mod clock;
pub mod connection;
pub mod doctor;
pub mod election;
pub mod export;
mod exporter_answers;
mod first_look;
pub mod govern;
pub mod host;
pub mod identity;
pub mod kubectl;
pub mod reading;
pub mod records;
mod scratch;
pub mod screen;
pub mod session;
pub mod setup;
pub mod silence;
pub(crate) mod simulated;
mod source_options;
pub mod status_server;
pub mod store;
mod store_loop;
pub mod telemetry;
#[cfg(test)]
mod tests_prometheus;
pub mod usage;
pub mod watch;
