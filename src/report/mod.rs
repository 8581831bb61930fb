//! Facts turned into the rows that the contract names: one set for `get`, the console and every other output.

pub mod facts;

pub use facts::Facts;
