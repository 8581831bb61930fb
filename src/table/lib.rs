//! Converts facts into the rows of the JSON contract: one set for `get`, the console and every other output.
//!
//! Rows borrow from the facts, so building one copies a few pointers. Unknown is `None`, never zero.

pub mod actions;
pub mod budgets;
pub mod cell;
pub mod changes;
pub mod checkup;
pub mod column;
pub mod facts;
pub mod kind;
pub mod kinds;
pub mod metrics;
pub mod navigation;
pub mod notify;
pub mod output;
pub mod past_facts;
pub mod plan_steps;
mod pool_advice;
mod query;
pub mod role;
pub mod row_labels;
pub mod rows;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod schemas;
pub mod silence;
pub mod spend;
pub mod table;
pub mod tco;
#[cfg(test)]
mod tests;
pub mod text;
pub mod timeline;
pub mod waiting;
pub mod watch;
pub mod what_if;

pub use facts::Facts;
pub use kind::Format;
pub use kinds::Kind;
pub use output::render;
pub use output::template::Template;
pub use query::missing_data::{READ_PROMETHEUS, gaps, losses, no_readings, silent, unplannable};
pub use query::needs::{NeededReadings, Needs};
pub use query::order::Sort;
pub use query::scope::{Scope, ScopedFleet, ScopedObjects};
pub use query::select::Select;
pub use query::{NotFound, Query, Unanswered};
pub use rows::document::{FleetFigures, figures};
pub use watch::Watch;

/// Name of the row for everything outside an output's other rows.
pub const UNATTRIBUTED: &str = model::cost::spend_rates::UNATTRIBUTED;

/// True for the name of a row that is a remainder and no object: `unattributed`, or one in parentheses.
pub fn is_remainder(name: &str) -> bool {
    name.starts_with(UNATTRIBUTED) || name.starts_with('(')
}

/// The text, or `None` when it is empty.
fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
