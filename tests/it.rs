//! The one integration-test binary.

mod catalog;
mod checks;
#[path = "exporter.rs"]
mod exporter;
#[path = "exporter_text.rs"]
mod exporter_text;
#[path = "exporter_toml.rs"]
mod exporter_toml;
#[path = "fuzz/exposition.rs"]
mod fuzz_exposition;
mod history;
mod parts;
mod simapi;
mod simrecorded;
