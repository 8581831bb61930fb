//! Compares the engine with known results: published traces replayed ([`packing`], [`queueing`]), and forecasts of a simulated week
//! ([`rehearsal`]). The program `stokehold-replay` prints the figures; `stokehold` does not use this package.

pub mod cli;
mod csv_table;
pub mod packing;
pub mod queueing;
pub mod ratio;
pub mod rehearsal;
