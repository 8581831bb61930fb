//! What a change does to a budget: by the rate, by the run time, in either direction, and unknown where something is.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::*;
use crate::{BudgetHours, BudgetPeriod, HourAmount, HourAmounts, UsageBudget, hour_of};
use model::base::ObjectKey;
use model::cost::PoolSpending;

/// Ten days before the end of November.
fn at() -> Moment {
    Moment::parse("2026-11-21T00:00:00Z").expect("a moment")
}

fn budget(scope: BudgetScope, unit: BudgetUnit, limit: f64) -> BudgetState {
    let budget = UsageBudget {
        name: "b".into(),
        scope,
        unit,
        limit: unit.amount(limit),
        period: BudgetPeriod::Month,
        zone: TimeZone::UTC,
        zone_name: "UTC".to_owned(),
        steps: vec![50, 80, 100],
        warns_of_forecast: true,
    };
    let span = budget.looks_at(at());
    // $10, or ten device-hours, an hour: 7 200 in the month.
    let hour = HourAmount {
        amount: unit.amount(10.0),
        observed_ms: HOUR_MS,
    };
    let hours = BudgetHours {
        amounts: HourAmounts {
            from: span.from,
            hours: vec![hour; usize::try_from(hour_of(at()) - span.from).expect("is after")],
        },
        unpriced_ms: 0,
        is_by_list: false,
        is_known: true,
    };
    BudgetState::of(&budget, &hours, at())
}

fn job(name: &str, pool: &str, devices: i64, usd: Option<i64>) -> JobSpending {
    JobSpending {
        key: JobKey {
            kind: "Job".into(),
            key: ObjectKey::new("ns", name),
        },
        team: "t".into(),
        pool: pool.into(),
        milli: Some(devices * 1_000),
        rate: usd.map(|usd| usd * 1_000_000),
        ends: None,
    }
}

fn side(jobs: &[JobSpending], pool_usd: i64, unpriced: usize) -> FleetSpending {
    FleetSpending {
        jobs: jobs.to_vec(),
        pools: vec![PoolSpending {
            pool: "p".into(),
            rate: pool_usd * 1_000_000,
            unpriced,
        }],
    }
}

fn change_of(
    state: &BudgetState,
    before: &FleetSpending,
    after: &FleetSpending,
) -> Option<BudgetChange> {
    let queue = |key: &JobKey| (key.key.name.as_str() == "a").then(|| Name::new("q"));
    budget_change(state, [before, after], queue, at())
}

fn part(by: Dimension, name: &str) -> BudgetScope {
    BudgetScope::Part(by, name.into())
}

#[test]
fn a_job_that_starts_costs_until_it_ends_or_the_period_does() {
    let usd = BudgetUnit::Usd;
    let state = budget(part(Dimension::Team, "t"), usd, 9_000.0);
    let stays = job("stays", "p", 8, None);
    let before = side(std::slice::from_ref(&stays), 50, 0);
    let open = side(&[stays.clone(), job("a", "p", 4, Some(8))], 50, 0);
    // Ten days at $8 an hour.
    let change = change_of(&state, &before, &open).expect("is touched");
    assert_eq!(change.change, Some(1_920.0));
    let middle = |end: Option<PeriodEnd>| end.map(|end| end.mid.round());
    assert_eq!(
        (
            middle(change.forecast_before),
            middle(change.forecast_after)
        ),
        (Some(7_200.0), Some(9_120.0))
    );
    assert_eq!(
        (change.reaches_percent, change.stays_below_percent),
        (Some(100), None)
    );
    assert_eq!(
        change.words(),
        "budget b, November: forecast $7 121–$7 281 → $9 041–$9 201 of $9 000 (+$1 920, reaches 100 %)"
    );
    // It says that it runs for five hours.
    let mut short = open.clone();
    short.jobs[1].ends = Some(at().plus(Duration::from_secs(5 * 3_600)));
    assert_eq!(
        change_of(&state, &before, &short)
            .expect("is touched")
            .change,
        Some(40.0)
    );
    // Undone, it is as much less.
    let back = change_of(&state, &open, &before).expect("is touched");
    assert_eq!(
        (back.change, back.stays_below_percent),
        (Some(-1_920.0), Some(80))
    );
    // In hours of devices, by namespace and by queue.
    for scope in [
        part(Dimension::Namespace, "ns"),
        part(Dimension::Queue, "q"),
        BudgetScope::Fleet,
    ] {
        let hours = budget(scope, BudgetUnit::DeviceHours, 9_000.0);
        let change = change_of(&hours, &before, &open).expect("is touched");
        assert_eq!(change.change, Some(960.0));
    }
}

#[test]
fn unaffected_budgets_are_omitted_and_unknown_amounts_stay_unknown() {
    let usd = BudgetUnit::Usd;
    let before = side(&[], 50, 0);
    let started = side(&[job("a", "p", 4, Some(8))], 50, 0);
    // All devices of a pool are paid for, whether they are allocated or not.
    for scope in [
        BudgetScope::Fleet,
        part(Dimension::Pool, "p"),
        part(Dimension::Team, "other"),
    ] {
        assert_eq!(
            change_of(&budget(scope, usd, 9_000.0), &before, &started),
            None
        );
    }
    // Nodes that come cost from now on.
    let more = side(&[], 60, 0);
    let fleet = budget(BudgetScope::Fleet, usd, 9_000.0);
    assert_eq!(
        change_of(&fleet, &before, &more)
            .expect("is touched")
            .change,
        Some(2_400.0)
    );
    let pool = budget(part(Dimension::Pool, "other"), usd, 9_000.0);
    assert_eq!(change_of(&pool, &before, &more), None);
    // Some of them have no price.
    let dark = side(&[], 60, 2);
    let unknown = change_of(&fleet, &before, &dark).expect("is touched");
    assert_eq!((unknown.change, unknown.forecast_after), (None, None));
    assert!(unknown.forecast_before.is_some());
    // The job has no price.
    let unpriced = side(&[job("a", "p", 4, None)], 50, 0);
    let team = budget(part(Dimension::Team, "t"), usd, 9_000.0);
    let unknown = change_of(&team, &before, &unpriced).expect("is touched");
    assert_eq!(unknown.change, None);
    assert!(
        unknown.words().ends_with("of $9 000 (unknown)"),
        "{}",
        unknown.words()
    );
    // No forecast yet: the change is known, what the period comes to is not.
    let mut young = team.clone();
    young.forecast = None;
    let change = change_of(&young, &before, &started).expect("is touched");
    assert_eq!(
        (change.change, change.forecast_before, change.forecast_after),
        (Some(1_920.0), None, None)
    );
    assert!(
        change.words().contains("forecast unknown of"),
        "{}",
        change.words()
    );
}
