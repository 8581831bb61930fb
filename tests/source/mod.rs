//! The sources against API servers that behave, misbehave, and vanish.

mod api;
mod config;
mod login;
mod scrape;
mod simulated;
mod tables;
