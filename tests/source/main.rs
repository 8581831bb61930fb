//! The sources against API servers that behave, misbehave, and vanish.

#![allow(
    clippy::unwrap_used,
    reason = "what a test is made of is there, or the test fails"
)]

mod api;
mod claims;
mod config;
mod kinds;
mod login;
mod notify;
mod prometheus;
mod reading;
mod remote_write;
mod reread;
mod scrape;
mod simulated;
mod tables;
mod usage_hours;
