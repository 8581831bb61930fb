//! The built program against a real control plane: run by `tests/live/run`, inside the plane's network namespace.
//!
//! Each test takes the plane as `kubectl` and the exporters' placement describe it and holds the program to that.

#![allow(
    clippy::disallowed_methods,
    reason = "these tests wait for other processes by the real clock"
)]

#[path = "live_tests/acting.rs"]
mod acting;
#[path = "live_tests/autoscalers.rs"]
mod autoscalers;
#[path = "live_tests/bystanders.rs"]
mod bystanders;
#[path = "live_tests/console.rs"]
mod console;
#[path = "live_tests/faults.rs"]
mod faults;
#[path = "live_tests/get.rs"]
mod get;
#[path = "live_tests/levers.rs"]
mod levers;
#[path = "live_tests/outages.rs"]
mod outages;
#[path = "live_tests/plane.rs"]
mod plane;
#[path = "live_tests/queues.rs"]
mod queues;
#[path = "live_tests/rights.rs"]
mod rights;
#[path = "live_tests/road.rs"]
mod road;
#[path = "live_tests/roads.rs"]
mod roads;
#[path = "live_tests/steady.rs"]
mod steady;
#[path = "live_tests/terminal.rs"]
mod terminal;
#[path = "live_tests/truth.rs"]
mod truth;
#[path = "live_tests/turns.rs"]
mod turns;
