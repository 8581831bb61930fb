#![doc = include_str!("ARCHITECTURE.md")]

pub mod cli;
pub mod runtime;

// The layers, so that one page documents them all.
pub use {cluster, console, engine, exec, exporter, model, plan, settings, sim, source, table};
