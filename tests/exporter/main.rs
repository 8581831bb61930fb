//! Exporter pages as they are published, and what is read from them.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod dialects;
mod fleet;
mod pages;
mod serving;
mod skipped;
mod text;
mod vendors;
