//! The scheduler: decides what runs where. Pure: no clock, no I/O, no hash order, no float in a decision, and
//! randomness only from a seed, so that the same input gives the same bytes on every machine.
//!
//! A [`snapshot::Snapshot`] (read by [`document`]) is compiled into a [`compiled::CompiledFleet`], and a [`state::State`] is its
//! working copy; [`packing`] says what a placement costs, [`fit`] decides whether and where a workload starts, [`preempt`] selects
//! victims, and [`cycle`] decides what starts next, each as the cluster's own scheduler does (`schedulers`). Planners return a [`plan`] as data, and other crates execute it.

pub mod compiled;
pub mod contended_resources;
pub mod cycle;
pub mod document;
pub mod explain;
pub mod explanations;
pub mod fit;
#[cfg(test)]
pub(crate) mod fixture;
pub mod forecast;
pub mod live;
pub mod options;
pub mod packing;
pub mod preempt;
#[cfg(test)]
mod properties;
pub mod route;
pub mod sample;
#[cfg(test)]
mod scenarios;
pub(crate) mod schedulers;
pub mod sizing;
pub mod snapshot;
pub mod spending;
pub mod state;
pub mod what_if;

pub use model::base::rng;
