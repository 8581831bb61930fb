//! Commands about money and use: what the fleet costs, budgets, and what devices were used for.

pub(super) mod budgets;
pub(super) mod cost;
pub(super) mod tco;
pub(super) mod usage;
