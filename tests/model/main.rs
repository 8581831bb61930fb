//! The model from outside: checks, history, the catalog.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod any_readings;
mod catalog;
mod checks;
mod faults;
mod held_jobs;
mod history;
mod parts;
mod recalled;
