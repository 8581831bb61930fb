//! Exposition pages of exporters, and the dialects that turn them into canonical readings.
//!
//! The road of a page: [`exposition::scan`] finds its series, [`Dialects::detect`] names its dialect, and
//! [`read`] turns each series into a value of a [`model::fleet::signal::Signal`] at a node, device or slice.
//! What an exporter means is said in `config/exporters/*.toml` and nowhere in code; `spec.rs` documents every key.

mod compile;
pub mod dialect;
mod emit;
pub mod exposition;
mod faults;
mod fold;
mod labels;
mod line;
pub mod map;
pub mod promql;
pub mod rate;
mod rows;
pub mod samples;
mod spec;
pub mod through;
#[cfg(test)]
mod through_tests;

pub use dialect::{Dialect, Dialects, HostRule};
pub use exposition::{Limits, Series, scan};
pub use map::{Read, Report, Target, read};
pub use promql::Matchers;
pub use rate::Rates;
pub use samples::Samples;
pub use through::{Scrape, Ups};
