//! The one integration-test binary.

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
#[path = "keys.rs"]
mod keys;
mod simapi;
mod simrecorded;
