//! The one integration-test binary.

mod catalog;
mod checks;
mod cli;
#[path = "engine.rs"]
mod engine;
#[path = "exporter.rs"]
mod exporter;
#[path = "exporter_text.rs"]
mod exporter_text;
#[path = "exporter_toml.rs"]
mod exporter_toml;
#[path = "frames.rs"]
mod frames;
#[path = "frames_fleet.rs"]
mod frames_fleet;
#[path = "fuzz/exposition.rs"]
mod fuzz_exposition;
mod history;
#[path = "keys.rs"]
mod keys;
mod live;
mod parts;
mod readme;
mod simapi;
mod simrecorded;
mod source;
mod tidy;
