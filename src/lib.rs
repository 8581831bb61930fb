#![doc = include_str!("ARCHITECTURE.md")]

pub mod action;
pub mod base;
pub mod cli;
pub mod cluster;
pub mod console;
pub mod cost;
pub mod engine;
pub mod exec;
pub mod exporter;
pub mod fleet;
pub mod grant;
pub mod report;
pub mod runtime;
pub mod settings;
pub mod sim;
pub mod source;
