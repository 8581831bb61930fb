//! The one integration-test binary.

#[path = "exporter.rs"]
mod exporter;
mod simrecorded;
mod simapi;
