//! What workloads and pools cost an hour, and what a change of that does to a budget: as data. The crate `usage` computes it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::quantities::grouped;
use crate::base::time::HOUR_MS;
use crate::base::{Moment, Name};
use crate::fleet::job::JobKey;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetUnit {
    /// Cost in micro-USD: of allocated devices; for a pool or the fleet, of all its devices.
    Usd,
    /// Allocated device time, in milliseconds.
    DeviceHours,
}

crate::words! {
    impl BudgetUnit {
        /// Name in the JSON contract.
        pub fn name(self) {
            Usd => "usd",
            DeviceHours => "device_hours",
        }
    }
}

impl BudgetUnit {
    /// An amount (micro-USD or milliseconds) as dollars or hours.
    pub fn number(self, amount: i64) -> f64 {
        amount as f64 / self.scale()
    }

    /// Dollars or hours as an amount (micro-USD or milliseconds).
    pub fn amount(self, number: f64) -> i64 {
        (number * self.scale()).round() as i64
    }

    const fn scale(self) -> f64 {
        match self {
            Self::Usd => 1e6,
            Self::DeviceHours => HOUR_MS as f64,
        }
    }

    /// `$41 200`, `1 200 h`; below a hundred with cents or tenths.
    pub fn words(self, amount: i64) -> String {
        let number = self.number(amount);
        let whole = grouped(number.round() as i64);
        match (self, number < 99.5) {
            (Self::Usd, false) => format!("${whole}"),
            (Self::Usd, true) => format!("${number:.2}"),
            (Self::DeviceHours, false) => format!("{whole} h"),
            (Self::DeviceHours, true) => format!("{number:.1} h"),
        }
    }
}

/// Allocation and spend rate of one workload in one pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobSpending {
    pub key: JobKey,
    /// Its team; empty where unknown.
    pub team: Name,
    pub pool: Name,
    /// Thousandths of devices; `None` where it has slices allocated.
    pub milli: Option<i64>,
    /// Micro-USD per hour; `None` where it has slices allocated, or a device without a price.
    pub rate: Option<i64>,
    /// Its end, where its runtime is known.
    pub ends: Option<Moment>,
}

/// Spend rate of all devices of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSpending {
    pub pool: Name,
    /// Micro-USD per hour, of the devices with a price.
    pub rate: i64,
    /// Devices without a price.
    pub unpriced: usize,
}

/// Spend of a fleet at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FleetSpending {
    /// By workload and pool.
    pub jobs: Vec<JobSpending>,
    pub pools: Vec<PoolSpending>,
}

/// Forecast for a period, with an 80 % interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PeriodEnd {
    /// 10th percentile of the forecast.
    pub low: f64,
    /// Expected value of the forecast.
    pub mid: f64,
    /// 90th percentile of the forecast.
    pub high: f64,
}

/// Effect of a change on a budget. Amounts are dollars or device-hours; unknown values are null.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetChange {
    /// Name of the budget.
    pub name: Name,
    /// Name of its period, `November`.
    pub period: String,
    /// Unit of the amounts.
    pub unit: BudgetUnit,
    /// Limit of the budget.
    pub amount: f64,
    /// Amount that the change adds until the end of the period; negative for savings.
    pub change: Option<f64>,
    /// Forecast without the change.
    pub forecast_before: Option<PeriodEnd>,
    /// Forecast with the change.
    pub forecast_after: Option<PeriodEnd>,
    /// The highest threshold that is newly forecast to be reached, in percent; null for none.
    pub reaches_percent: Option<u32>,
    /// The lowest threshold that is no longer forecast to be reached, in percent.
    pub stays_below_percent: Option<u32>,
}

/// How the change of a budget is computed.
pub const ASSUMPTION: &str = "budgets: the $/h change applies until the period or the job ends";

impl BudgetChange {
    /// A forecast as a range: `$48 700–$55 900`.
    pub fn end_words(&self, end: PeriodEnd) -> String {
        match (self.word(end.low), self.word(end.high)) {
            (low, high) if low == high => low,
            (low, high) => format!("{low}–{high}"),
        }
    }

    /// The change and the threshold that it reaches: `+$1 200, reaches 100 %`.
    pub fn change_words(&self) -> String {
        let mut words = match self.change {
            None => "unknown".to_owned(),
            Some(change) if change < 0.0 => format!("-{}", self.word(-change)),
            Some(change) => format!("+{}", self.word(change)),
        };
        if let Some(step) = self.reaches_percent {
            words.push_str(&format!(", reaches {step} %"));
        }
        if let Some(step) = self.stays_below_percent {
            words.push_str(&format!(", stays below {step} %"));
        }
        words
    }

    /// The complete line: `budget research, November: $48 700–$55 900 → $49 900–$57 100 of $50 000 forecast (+$1 200, reaches 100 %)`.
    pub fn words(&self) -> String {
        let forecast = match (self.forecast_before, self.forecast_after) {
            (Some(before), Some(after)) => {
                format!("{} → {}", self.end_words(before), self.end_words(after))
            }
            (Some(before), None) => format!("{} without the change", self.end_words(before)),
            (None, _) => "unknown".to_owned(),
        };
        format!(
            "budget {}, {}: forecast {forecast} of {} ({})",
            self.name,
            self.period,
            self.word(self.amount),
            self.change_words()
        )
    }

    fn word(&self, number: f64) -> String {
        self.unit.words(self.unit.amount(number))
    }
}
