//! The model: what a fleet is, what it costs, and what may be done to it, as plain data. Pure: no async, no clock, no I/O,
//! no global state.

pub mod advice;
pub mod base;
pub mod cost;
pub mod fleet;
pub mod notify;
pub mod object;
pub mod plan;
pub mod schema;
pub mod value;
