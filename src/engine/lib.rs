//! The scheduler: what would run where. Pure: no clock, no I/O, no hash order, no float in a decision, and
//! randomness only from a seed, so that the same input gives the same bytes on every machine.
//!
//! Two halves. Plans over a fleet: a [`snapshot::Snapshot`] (read by [`document`]) is compiled into a [`compiled::CompiledFleet`], of which
//! a [`state::State`] is the working copy; [`fit`] says whether and where a workload starts, [`preempt`] who must go for it, [`cycle`] who starts next. And the
//! replay of published traces: [`packing`] (placement policies on a full cluster) and [`queueing`] (who runs next). What planners
//! return and others carry out is a [`plan`], as data.

pub mod compiled;
pub mod csv_table;
pub mod cycle;
pub mod document;
pub mod explain;
pub mod explanations;
pub mod fit;
#[cfg(test)]
pub(crate) mod fixture;
pub mod forecast;
#[cfg(test)]
mod laws;
pub mod live;
pub mod options;
pub mod packing;
pub mod preempt;
pub mod queueing;
pub mod ratio;
pub mod reach;
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
