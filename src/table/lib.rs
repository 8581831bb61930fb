//! Facts turned into the rows that the contract names: one set for `get`, the console and every other output.
//!
//! Rows borrow the facts, so building one costs a few copies of pointers. Unknown is `None`, never zero.

pub mod actions;
pub mod advice;
pub mod alerts;
pub mod budgets;
pub mod changes;
pub mod checkup;
pub mod cost;
mod csv_output;
pub mod devices;
pub mod document;
mod encode;
pub mod explanations;
pub mod facts;
pub mod inventory;
pub mod jobs;

mod kind;
mod losses;
pub mod metrics;
mod needs;
pub mod nodes;
pub mod notify;
mod order;
pub mod output;
pub mod past;
pub mod pods;
mod pool_advice;
pub mod pools;
mod query;
pub mod queue_tree;
pub mod queues;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod scalers;
pub mod scheduling;
mod scope;
mod scoped_cost;
pub mod select;
pub mod services;
pub mod silence;
pub mod sources;
pub mod spend;
pub mod table;
pub mod tco;
mod template;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_scheduling;
pub mod text;
pub mod timeline;
mod unselected;
pub mod watch;
pub mod what_if;

pub use document::{Figures, figures};
pub use facts::Facts;
pub use kind::{Format, Kind};
pub use losses::{gaps, losses, silent};
pub use needs::{Needs, Readings};
pub use order::Sort;
pub use output::render;
pub use query::{NotFound, Query, Unanswered};
pub use scope::{Part, Reach, Scope};
pub use select::Select;
pub use template::Template;
pub use watch::Watch;

/// The name of the row that holds what no other row of an output does.
pub const UNATTRIBUTED: &str = model::cost::burn::UNATTRIBUTED;

/// The text, or `None` when it is empty: an empty text says nothing.
fn said(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
