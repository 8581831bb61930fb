//! The built program against a real control plane: run by `tests/live/run`, inside the plane's network namespace.
//!
//! Each test takes the plane as `kubectl` and the exporters' placement describe it and holds the program to that.

#![allow(
    clippy::disallowed_methods,
    reason = "these tests wait for other processes by the real clock"
)]

mod acting;
mod autoscalers;
mod bystanders;
mod console;
mod controllers;
mod delivery;
mod faults;
mod gate;
mod get;
mod govern;
mod interrupted;
mod lossy_proxy;
mod metric_apis;
mod month;
mod mutations;
mod outages;
mod plane;
mod queues;
mod replicas;
mod rewind;
mod rights;
mod scrape_paths;
mod second;
mod steady;
mod terminal;
mod truth;
mod turns;
