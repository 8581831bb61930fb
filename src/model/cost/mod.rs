//! Money: price books and what the fleet burns, by pool, queue, team, job and class.

pub mod book;
mod money;
pub mod prices;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
pub mod spend_rates;
mod spending;
mod spread;
pub mod tco;
#[cfg(test)]
mod tests;

pub use book::PriceBook;
pub use money::{LIST_MARK, LIST_NOTE, Money};
pub use prices::{Override, Owned, PoolPrice, Price, Prices};
pub use spend_rates::{NodePrices, PriceGroup, RateRow, Spend, SpendRates, SpendScope};
pub use spending::{
    ASSUMPTION, BudgetChange, BudgetUnit, FleetSpending, JobSpending, PeriodEnd, PoolSpending,
};
pub use spread::{spend_rates, spend_rates_of};
