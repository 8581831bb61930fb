//! The ledger from outside: what checks find, when it shows and when it ends.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod any_readings;
mod checks;
mod faults;
mod held_jobs;
mod objectives;
#[path = "../model/parts.rs"]
mod parts;
mod recalled;
