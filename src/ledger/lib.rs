//! The ledger: folds observations into fleets ([`Ledger`]) and judges them ([`checks`]). Pure: no async, no clock, no I/O, no global
//! state.

pub mod checks;
mod fold;

pub use fold::{Ledger, SavedLedger};
