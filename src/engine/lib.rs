//! The scheduler: decides what runs where. Pure: no clock, no I/O, no hash order, no float in a decision, and
//! randomness only from a seed, so that the same input gives the same bytes on every machine.
//!
//! It has two parts. Planning: a [`snapshot::Snapshot`] (read by [`document`]) is compiled into a [`compiled::CompiledFleet`],
//! and a [`state::State`] is its working copy; [`fit`] decides whether and where a workload starts, [`preempt`] selects victims,
//! and [`cycle`] decides what starts next. Replay of published traces: [`packing`] (placement policies on a full cluster) and
//! [`queueing`] (queueing disciplines). Planners return a [`plan`] as data, and other crates execute it.

pub mod compiled;
pub mod contended_resources;
pub mod csv_table;
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
pub mod queueing;
pub mod ratio;
pub mod route;
pub mod sample;
#[cfg(test)]
mod scenarios;
pub mod sizing;
pub mod snapshot;
pub mod spending;
pub mod state;
pub mod what_if;

pub use model::base::rng;
