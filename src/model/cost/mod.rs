//! Money: price books and what the fleet burns, by pool, queue, team, job and class.

pub mod book;
pub mod burn;
pub mod prices;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
mod spread;
pub mod tco;
#[cfg(test)]
mod tests;

pub use book::PriceBook;
pub use burn::{Burn, CostRow, PriceGroup, Scope, Spend};
pub use prices::{Override, Owned, PoolPrice, Price, Prices};
pub use spread::{burn, sizes};
