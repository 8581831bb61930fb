//! The engine held against what is known: published traces, replayed by its policies and by others ([`packing`], [`queueing`]), and its
//! forecasts of a simulated week ([`rehearsal`]). The program of this package prints the figures; the product needs none of it.

pub mod cli;
mod csv_table;
pub mod packing;
pub mod queueing;
pub mod ratio;
pub mod rehearsal;
