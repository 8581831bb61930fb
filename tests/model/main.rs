//! The model from outside: history, the catalog.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod catalog;
mod history;
#[allow(
    dead_code,
    reason = "tests of the ledger change more of a fleet than history asks for"
)]
mod parts;
