//! Spend of workloads at one moment, with and without a change, and the effect on a budget.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name};
use crate::fleet::job::JobKey;

use super::{BudgetScope, BudgetState, BudgetUnit, Dimension, HOUR_MS, UsageForecast, start_of};

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
    /// Its period, `November`.
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
pub const ASSUMPTION: &str = "budgets: the change in $/h, until the period or the job ends";

impl BudgetChange {
    /// What a change at `at` does to a budget; `None` where it does nothing. `queue` names the queue of a workload as the ledger has
    /// it, nothing where that is not known.
    pub fn of(
        state: &BudgetState,
        [before, after]: [&FleetSpending; 2],
        queue: impl Fn(&JobKey) -> Option<Name>,
        at: Moment,
    ) -> Option<Self> {
        let budget = &state.budget;
        let end = start_of(state.span.to);
        let change = match (&budget.scope, budget.unit) {
            (BudgetScope::Fleet, BudgetUnit::Usd) => of_pools([before, after], |_| true, end, at),
            (BudgetScope::Part(Dimension::Pool, pool), BudgetUnit::Usd) => {
                of_pools([before, after], |other| other == pool, end, at)
            }
            (scope, unit) => of_jobs([before, after], scope, unit, &queue, end, at),
        };
        let unit = budget.unit;
        // A change below the smallest displayed amount is no change.
        if change.is_some_and(|change| unit.words(change.abs()) == unit.words(0)) {
            return None;
        }
        let told = state.forecast.as_ref();
        let later = told.zip(change).map(|(told, change)| {
            let add = |amount: i64| amount.saturating_add(change);
            [add(told.low), add(told.mid), add(told.high)]
        });
        let ends = |[low, mid, high]: [i64; 3]| PeriodEnd {
            low: unit.number(low),
            mid: unit.number(mid),
            high: unit.number(high),
        };
        let reached = |mid: i64| {
            let reaches =
                |step: &&u32| mid as f64 >= budget.limit as f64 * f64::from(**step) / 100.0;
            budget.steps.iter().filter(reaches).count()
        };
        let steps = told
            .zip(later)
            .map(|(told, later)| (reached(told.mid), reached(later[1])));
        Some(Self {
            name: budget.name.clone(),
            period: state.period_words(),
            unit,
            amount: unit.number(budget.limit),
            change: change.map(|change| unit.number(change)),
            forecast_before: told.map(|told: &UsageForecast| ends([told.low, told.mid, told.high])),
            forecast_after: later.map(ends),
            reaches_percent: steps
                .filter(|(was, is)| is > was)
                .map(|(_, is)| budget.steps[is - 1]),
            stays_below_percent: steps
                .filter(|(was, is)| is < was)
                .map(|(_, is)| budget.steps[is]),
        })
    }

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

    /// The complete line: `budget research, November: $48 700–$55 900 → $49 900–$57 100 of $50 000 forecast (+$1 200, reaches
    /// 100 %)`.
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

/// Milliseconds from one moment to a later one.
fn left(from: Moment, to: Moment) -> i128 {
    i128::from((to.millis() - from.millis()).max(0))
}

fn narrow(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
}

/// Change in cost of all devices of some pools, micro-USD.
fn of_pools(
    sides: [&FleetSpending; 2],
    is_its: impl Fn(&Name) -> bool,
    end: Moment,
    at: Moment,
) -> Option<i64> {
    let [was, is] = sides.map(|side| {
        let pools = side.pools.iter().filter(|pool| is_its(&pool.pool));
        pools.fold((0_i128, 0), |(rate, unpriced), pool| {
            (rate + i128::from(pool.rate), unpriced + pool.unpriced)
        })
    });
    // The cost of added or removed devices without a price is not known.
    (was.1 == is.1).then(|| narrow((is.0 - was.0) * left(at, end) / i128::from(HOUR_MS)))
}

/// Change in cost or allocated device time of a scope's workloads.
fn of_jobs(
    sides: [&FleetSpending; 2],
    scope: &BudgetScope,
    unit: BudgetUnit,
    queue: &impl Fn(&JobKey) -> Option<Name>,
    end: Moment,
    at: Moment,
) -> Option<i64> {
    let mut all: BTreeMap<(&JobKey, &Name), [Option<&JobSpending>; 2]> = BTreeMap::new();
    for (number, side) in sides.iter().enumerate() {
        for job in &side.jobs {
            all.entry((&job.key, &job.pool)).or_default()[number] = Some(job);
        }
    }
    let mut change = 0_i128;
    for [was, is] in all.values() {
        let Some(job) = was.or(*is) else { continue };
        let what = |job: &JobSpending| (job.milli, job.rate);
        if was.map(what) == is.map(what) || !is_of(scope, job, queue) {
            continue;
        }
        for (job, sign) in [(was, -1), (is, 1)] {
            let Some(job) = job else { continue };
            let time = left(at, job.ends.map_or(end, |ends| ends.min(end)));
            let amount = match unit {
                BudgetUnit::Usd => i128::from(job.rate?) * time / i128::from(HOUR_MS),
                BudgetUnit::DeviceHours => i128::from(job.milli?) * time / 1_000,
            };
            change += sign * amount;
        }
    }
    Some(narrow(change))
}

fn is_of(scope: &BudgetScope, job: &JobSpending, queue: &impl Fn(&JobKey) -> Option<Name>) -> bool {
    match scope {
        BudgetScope::Fleet => true,
        BudgetScope::Part(Dimension::Team, team) => job.team == *team,
        BudgetScope::Part(Dimension::Pool, pool) => job.pool == *pool,
        BudgetScope::Part(Dimension::Namespace, name) => job.key.key.namespace == *name,
        BudgetScope::Part(Dimension::Queue, name) => queue(&job.key).as_ref() == Some(name),
        BudgetScope::Part(..) => false,
    }
}

#[cfg(test)]
#[path = "spending_tests.rs"]
mod tests;
