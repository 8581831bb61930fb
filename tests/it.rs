//! The one integration-test binary.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::zombie_processes,
    reason = "tests wait for real processes and look at the clock while they do; a failed unwrap fails the test"
)]

mod acting;
mod catalog;
mod checks;
mod cli;
#[path = "compile_fail.rs"]
mod compile_fail;
#[path = "engine.rs"]
mod engine;
#[path = "exporter.rs"]
mod exporter;
#[path = "exporter_fleet.rs"]
mod exporter_fleet;
#[path = "exporter_serving.rs"]
mod exporter_serving;
#[path = "exporter_text.rs"]
mod exporter_text;
#[path = "exporter_toml.rs"]
mod exporter_toml;
#[path = "exporter_vendors.rs"]
mod exporter_vendors;
#[path = "frames.rs"]
mod frames;
#[path = "frames_checks.rs"]
mod frames_checks;
#[path = "frames_fleet.rs"]
mod frames_fleet;
#[path = "frames_words.rs"]
mod frames_words;
#[path = "fuzz/exposition.rs"]
mod fuzz_exposition;
#[path = "fuzz/watch.rs"]
mod fuzz_watch;
#[path = "hands.rs"]
mod hands;
mod history;
#[path = "keys.rs"]
mod keys;
#[path = "link.rs"]
mod link;
mod live;
mod parts;
mod readme;
mod simapi;
mod simrecorded;
mod source;
mod steady;
mod tidy;
