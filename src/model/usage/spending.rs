//! What workloads hold and cost at one moment, with a change and without it, and what the difference does to a budget.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name};
use crate::fleet::job::JobKey;

use super::{BudgetScope, BudgetState, BudgetUnit, Dimension, HOUR_MS, UsageForecast, start_of};

/// What one workload holds in one pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobSpending {
    /// Which workload.
    pub key: JobKey,
    /// Its team; empty where unknown.
    pub team: Name,
    /// The pool.
    pub pool: Name,
    /// Thousandths of devices; `None` where it holds slices of some.
    pub milli: Option<i64>,
    /// Micro-USD an hour; `None` where it holds slices of some, or one has no price.
    pub rate: Option<i64>,
    /// When it ends, where its run time is known.
    pub ends: Option<Moment>,
}

/// What all devices of a pool cost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSpending {
    /// The pool.
    pub pool: Name,
    /// Micro-USD an hour, of the devices with a price.
    pub rate: i64,
    /// Devices without one.
    pub unpriced: usize,
}

/// A fleet at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FleetSpending {
    /// By workload and pool.
    pub jobs: Vec<JobSpending>,
    /// By pool.
    pub pools: Vec<PoolSpending>,
}

/// What a period will come to: one in ten that it is less than `low`, one in ten that it is more than `high`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeriodEnd {
    /// The low end of the 80 % interval.
    pub low: f64,
    /// What is expected.
    pub mid: f64,
    /// The high end.
    pub high: f64,
}

/// What a change does to a budget. Amounts are dollars or device-hours; what is not known is null.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetChange {
    /// The budget.
    pub name: Name,
    /// Its period, `November`.
    pub period: String,
    /// What it counts.
    pub unit: BudgetUnit,
    /// How much there is.
    pub amount: f64,
    /// What the change adds until the period ends; less than 0 where it saves.
    pub change: Option<f64>,
    /// What the period will come to without the change.
    pub forecast_before: Option<PeriodEnd>,
    /// And with it.
    pub forecast_after: Option<PeriodEnd>,
    /// The highest step that the period is now expected to reach, in percent; null where that is as before.
    pub reaches_percent: Option<u32>,
    /// The lowest step that it is no longer expected to reach.
    pub stays_below_percent: Option<u32>,
}

/// How the change of a budget is reckoned, in words.
pub const ASSUMPTION: &str = "budgets: the change an hour, until the period or the job ends";

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
        // What is less than the smallest figure that is shown is nothing.
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

    /// An end of the period in words: `$48 700–$55 900`.
    pub fn end_words(&self, end: PeriodEnd) -> String {
        match (self.word(end.low), self.word(end.high)) {
            (low, high) if low == high => low,
            (low, high) => format!("{low}–{high}"),
        }
    }

    /// What it adds, and which step that reaches: `+$1 200, reaches 100 %`.
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

    /// All of it: `budget research, November: $48 700–$55 900 → $49 900–$57 100 of $50 000 forecast (+$1 200, reaches 100 %)`.
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

/// The change of what all devices of some pools cost, micro-USD.
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
    // Devices that come or go without a price cost nobody knows what.
    (was.1 == is.1).then(|| narrow((is.0 - was.0) * left(at, end) / i128::from(HOUR_MS)))
}

/// The change of what the workloads of a scope cost or hold.
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
