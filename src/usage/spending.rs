//! What a change of workloads or pools does to a budget.

use std::collections::BTreeMap;

use model::base::{Moment, Name};
use model::cost::{BudgetChange, BudgetUnit, FleetSpending, JobSpending, PeriodEnd};
use model::fleet::job::JobKey;

use super::{BudgetScope, BudgetState, Dimension, HOUR_MS, UsageForecast, start_of};

/// What a change at `at` does to a budget; `None` where it does nothing. `queue` names the queue of a workload as the ledger has
/// it, nothing where that is not known.
pub fn budget_change(
    state: &BudgetState,
    [before, after]: [&FleetSpending; 2],
    queue: impl Fn(&JobKey) -> Option<Name>,
    at: Moment,
) -> Option<BudgetChange> {
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
    let forecast = state.forecast.as_ref();
    let later = forecast.zip(change).map(|(forecast, change)| {
        let add = |amount: i64| amount.saturating_add(change);
        [add(forecast.low), add(forecast.mid), add(forecast.high)]
    });
    let ends = |[low, mid, high]: [i64; 3]| PeriodEnd {
        low: unit.number(low),
        mid: unit.number(mid),
        high: unit.number(high),
    };
    let reached = |mid: i64| {
        let reaches = |step: &&u32| mid as f64 >= budget.limit as f64 * f64::from(**step) / 100.0;
        budget.steps.iter().filter(reaches).count()
    };
    let steps = forecast
        .zip(later)
        .map(|(forecast, later)| (reached(forecast.mid), reached(later[1])));
    Some(BudgetChange {
        name: budget.name.clone(),
        period: state.period_words(),
        unit,
        amount: unit.number(budget.limit),
        change: change.map(|change| unit.number(change)),
        forecast_before: forecast
            .map(|forecast: &UsageForecast| ends([forecast.low, forecast.mid, forecast.high])),
        forecast_after: later.map(ends),
        reaches_percent: steps
            .filter(|(was, is)| is > was)
            .map(|(_, is)| budget.steps[is - 1]),
        stays_below_percent: steps
            .filter(|(was, is)| is < was)
            .map(|(_, is)| budget.steps[is]),
    })
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
