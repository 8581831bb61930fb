//! Money: price books and what the fleet burns, by pool, queue, team, job and class.

pub mod burn;

pub use burn::{Burn, CostRow, Scope, Spend};
