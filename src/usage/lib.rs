//! Usage: what every device was used for and what that cost, hour by hour; budgets and forecasts. Pure: no async, no clock, no
//! I/O, no global state.
//!
//! A [`UsageSample`] is what one picture of the fleet says; a [`UsageFold`] takes one after the other and adds up the time
//! between them. What stood on a picture counts until the next one. Money is that of [`model::cost::spend_rates`]: the price of each
//! device from the same list, cut over the slices of a shared device in the same way. Estimates from list prices, never a bill.

mod budget;
mod counters;
#[cfg(test)]
mod counters_tests;
mod energy;
mod fold;
mod forecast;
mod period;
mod row;
mod sample;
mod spending;
#[cfg(test)]
mod tests;
mod totals;

pub use jiff::tz::TimeZone;

pub use budget::{BudgetHours, BudgetPeriod, BudgetScope, BudgetState, UsageBudget};
pub use counters::{CounterKey, CounterRow, OTHER, UsageCounters};
pub use energy::EnergyRates;
pub use fold::{GAP, UsageFold};
pub use forecast::{ForecastError, HourAmount, HourAmounts, UsageForecast};
pub use period::{CalendarZone, Period, Span, month};
pub use row::{
    FinishedJob, HourUsage, LossCause, RunLoss, UsageClass, UsageKey, UsageLoss, UsageRow,
};
pub use sample::{UNDER_USED_BELOW, UsageSample};
pub use spending::budget_change;
pub use totals::{CostPart, Dimension, HourRow, UsageFilter, UsageSum, UsageTotals};

pub use model::base::time::HOUR_MS;

/// The hour that a moment lies in: whole hours since the Unix epoch, in UTC.
pub fn hour_of(at: model::base::Moment) -> i64 {
    at.millis().div_euclid(HOUR_MS)
}

/// The first moment of an hour.
pub fn start_of(hour: i64) -> model::base::Moment {
    model::base::Moment::from_millis(hour.saturating_mul(HOUR_MS))
}
