//! Exposition pages of exporters, and the dialects that turn them into canonical readings.
//!
//! The path of a page: [`exposition::scan`] finds its series, [`Dialects::detect`] names its dialect, and
//! [`read`] turns each series into a value of a [`model::fleet::signal::Signal`] at a node, device or slice.
//! The meaning of an exporter's metrics is defined only in `config/exporters/*.toml`; `spec.rs` documents every key.

mod buckets;
mod compile;
mod contribution;
mod device_rows;
pub mod dialect;
mod emit;
pub mod exposition;
mod faults;
mod fold;
mod labels;
mod line;
pub mod mapper;
pub mod page;
pub mod prometheus_restore;
pub mod promql;
pub mod rate;
pub mod samples;
mod spec;
#[cfg(test)]
mod through_tests;

pub use dialect::{Dialect, Dialects, HostRule};
pub use exposition::{Limits, Series, scan};
pub use mapper::{PageSource, read};
pub use page::{PageReport, ParsedPage};
pub use prometheus_restore::{Scrape, Ups};
pub use promql::Matchers;
pub use rate::Rates;
pub use samples::Samples;
