//! Facts turned into the rows that the contract names: one set for `get`, the console and every other output.
//!
//! Rows borrow the facts, so building one costs a few copies of pointers. Unknown is `None`, never zero.

pub mod alerts;
pub mod cost;
pub mod devices;
pub mod facts;
pub mod jobs;
pub mod nodes;
pub mod pools;
pub mod queues;
pub mod sources;

pub use facts::Facts;

/// The name of the row that holds what no other row of an output does.
pub const UNATTRIBUTED: &str = crate::cost::burn::UNATTRIBUTED;

/// The text, or `None` when it is empty: an empty text says nothing.
fn said(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
