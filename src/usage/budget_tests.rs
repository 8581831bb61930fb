//! Budgets over scripted months.

use std::time::Duration;

use super::super::HourAmount;
use super::*;

fn at(text: &str) -> Moment {
    Moment::parse(text).expect("a moment")
}

fn budget(limit: f64) -> UsageBudget {
    UsageBudget {
        name: "research".into(),
        scope: BudgetScope::Part(Dimension::Team, "research".into()),
        unit: BudgetUnit::Usd,
        limit: BudgetUnit::Usd.amount(limit),
        period: BudgetPeriod::Month,
        zone: TimeZone::UTC,
        zone_name: "UTC".to_owned(),
        steps: vec![50, 80, 100],
        warns_of_forecast: true,
    }
}

/// Hours from October 2026 to `until`, each at `cost` dollars.
fn hours(until: Moment, cost: impl Fn(Moment) -> f64) -> BudgetHours {
    let from = hour_of(at("2026-10-01T00:00:00Z"));
    let hour = |hour: i64| HourAmount {
        amount: BudgetUnit::Usd.amount(cost(start_of(hour))),
        observed_ms: HOUR_MS,
    };
    BudgetHours {
        amounts: HourAmounts {
            from,
            hours: (from..hour_of(until)).map(hour).collect(),
        },
        unpriced_ms: 0,
        is_by_list: false,
        is_known: true,
    }
}

fn zone(offset_hours: i8) -> TimeZone {
    TimeZone::fixed(jiff::tz::offset(offset_hours))
}

#[test]
fn periods_begin_at_midnight_of_their_zone() {
    let spans = |period, zone: TimeZone, now: &str| {
        let budget = UsageBudget {
            period,
            zone,
            ..budget(1.0)
        };
        let span = budget.span(at(now));
        [span.from, span.to].map(|hour| start_of(hour).rfc3339()[..16].to_owned())
    };
    // Central Europe, whose clocks go forward on 2026-03-29 and back on 2026-10-25.
    let berlin = || TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a rule");
    let india = TimeZone::posix("IST-5:30").expect("a rule");
    for (period, zone, now, from, to) in [
        (
            BudgetPeriod::Month,
            TimeZone::UTC,
            "2026-11-21T08:00:00Z",
            "2026-11-01T00:00",
            "2026-12-01T00:00",
        ),
        (
            BudgetPeriod::Month,
            berlin(),
            "2026-03-31T21:59:00Z",
            "2026-02-28T23:00",
            "2026-03-31T22:00",
        ),
        (
            BudgetPeriod::Month,
            berlin(),
            "2026-03-31T22:00:00Z",
            "2026-03-31T22:00",
            "2026-04-30T22:00",
        ),
        (
            BudgetPeriod::Month,
            berlin(),
            "2026-10-31T12:00:00Z",
            "2026-09-30T22:00",
            "2026-10-31T23:00",
        ),
        // A week in which the clocks go back has 169 hours.
        (
            BudgetPeriod::Week,
            berlin(),
            "2026-10-25T12:00:00Z",
            "2026-10-18T22:00",
            "2026-10-25T23:00",
        ),
        (
            BudgetPeriod::Week,
            TimeZone::UTC,
            "2026-11-23T00:00:00Z",
            "2026-11-23T00:00",
            "2026-11-30T00:00",
        ),
        (
            BudgetPeriod::Quarter,
            TimeZone::UTC,
            "2026-12-31T23:59:59Z",
            "2026-10-01T00:00",
            "2027-01-01T00:00",
        ),
        (
            BudgetPeriod::Quarter,
            zone(-8),
            "2027-01-01T07:59:00Z",
            "2026-10-01T08:00",
            "2027-01-01T08:00",
        ),
        (
            BudgetPeriod::Month,
            TimeZone::UTC,
            "2028-02-29T10:00:00Z",
            "2028-02-01T00:00",
            "2028-03-01T00:00",
        ),
        // Where midnight is at half past, a period begins with the next hour.
        (
            BudgetPeriod::Month,
            india,
            "2026-11-21T08:00:00Z",
            "2026-10-31T19:00",
            "2026-11-30T19:00",
        ),
    ] {
        assert_eq!(spans(period, zone, now), [from, to], "{period:?} {now}");
    }
}

#[test]
fn a_scripted_month_fires_each_step_once_and_in_order() {
    // $100 an hour in October; from 10 November on $150: the month comes to $97 200 of $80 000.
    let cost = |hour: Moment| match hour < at("2026-11-10T00:00:00Z") {
        true => 100.0,
        false => 150.0,
    };
    let budget = budget(80_000.0);
    let mut seen: Vec<(String, Moment, Moment)> = Vec::new();
    let mut last: Vec<Name> = Vec::new();
    let mut now = at("2026-11-01T00:30:00Z");
    let end = at("2026-12-01T02:00:00Z");
    while now < end {
        // Each look is that of a program that was started anew: nothing but the ledger is known.
        let state = BudgetState::of(&budget, &hours(now, cost), now);
        let findings = state.findings(false);
        for finding in &findings {
            let known = seen.iter().find(|(id, ..)| finding.id.as_str() == id);
            match known {
                Some((_, _, since)) => {
                    assert_eq!(finding.since, *since, "it is as old as it was");
                    assert!(last.contains(&finding.id), "{} fired twice", finding.id);
                }
                None => seen.push((finding.id.to_string(), now, finding.since)),
            }
        }
        last = findings.iter().map(|finding| finding.id.clone()).collect();
        now = now.plus(Duration::from_secs(3_600));
    }
    let fired: Vec<String> = seen
        .iter()
        .map(|(id, at, _)| {
            format!(
                "{} {}",
                &at.rfc3339()[..13],
                id.rsplit('/').next().unwrap_or("")
            )
        })
        .collect();
    assert_eq!(
        fired,
        [
            "2026-11-14T00 forecast",
            "2026-11-15T03 50",
            "2026-11-21T19 80",
            "2026-11-26T06 100",
        ]
    );
    // The month is over: its findings ended, and December has begun.
    assert_eq!(last, Vec::<Name>::new());
}

#[test]
fn a_budget_finding_states_amounts_and_period() {
    let now = at("2026-11-18T00:10:00Z");
    let state = BudgetState::of(&budget(40_000.0), &hours(now, |_| 101.0), now);
    assert_eq!(state.spent, Some(41_208_000_000));
    let [finding] = &state.findings(false)[..] else {
        panic!("one finding: {:?}", state.findings(false));
    };
    assert_eq!(
        finding.message,
        "budget research: $41 208 of $40 000 for November spent (103 %)"
    );
    assert_eq!(finding.severity, Severity::Warn);
    assert_eq!(
        finding.repair,
        "see where it went: stokehold cost --by job --period month --team research"
    );
    assert_eq!(state.findings(true)[0].repair, "see where it went: view 7");
    assert_eq!(
        finding.id.as_str(),
        "budget/research/2026-11-01T00:00:00Z/100"
    );
    assert_eq!(finding.since.rfc3339(), "2026-11-17T12:00:00Z");
    assert_eq!(
        state.exhausted_at.map(|hour| start_of(hour).rfc3339()),
        Some("2026-11-17T12:00:00Z".to_owned())
    );
    let listed = BudgetHours {
        is_by_list: true,
        ..hours(now, |_| 101.0)
    };
    let listed = BudgetState::of(&budget(40_000.0), &listed, now);
    let plain = state.spent_words().expect("known");
    assert_eq!(listed.spent_words(), Some(plain + "*"));
    // The pace: 17 of 30 days.
    assert_eq!(state.expected / 1_000_000, 22_675);
    // Exceeded, nothing is forecast to exceed.
    assert_eq!(state.exceeds_since, None);
}

#[test]
fn what_is_nearly_spent_is_not_spent() {
    let now = at("2026-11-18T00:10:00Z");
    // 408 hours of $98: $39 984 of $40 000.
    let state = BudgetState::of(&budget(40_000.0), &hours(now, |_| 98.0), now);
    assert_eq!(
        (state.spent_percent(), state.reached.map(|(step, _)| step)),
        (Some(99), Some(80))
    );
    assert_eq!(BudgetUnit::Usd.words(11_958_695), "$11.96");
    assert_eq!(BudgetUnit::DeviceHours.words(HOUR_MS * 1_250), "1 250 h");
    assert_eq!(BudgetUnit::DeviceHours.words(HOUR_MS * 3 / 2), "1.5 h");
}

#[test]
fn a_forecast_that_comes_down_ends_its_finding_for_the_period() {
    let cost = |hour: Moment| match hour {
        hour if hour < at("2026-11-06T00:00:00Z") => 200.0,
        _ => 20.0,
    };
    let codes = |now: &str| {
        let now = at(now);
        let state = BudgetState::of(&budget(100_000.0), &hours(now, cost), now);
        state
            .findings(false)
            .iter()
            .any(|finding| finding.code.as_str() == "budget-forecast")
    };
    assert!(codes("2026-11-02T12:00:00Z") && codes("2026-11-06T12:00:00Z"));
    assert!(!codes("2026-11-20T12:00:00Z"));
}

#[test]
fn nothing_observed_and_nothing_priced_is_unknown_not_zero() {
    let now = at("2026-11-18T00:10:00Z");
    let state = BudgetState::of(&budget(40_000.0), &BudgetHours::default(), now);
    assert_eq!(
        (state.spent, state.forecast, state.exhausted_at),
        (None, None, None)
    );
    assert_eq!(state.observed_ratio, 0.0);
    let unpriced = BudgetHours {
        is_known: false,
        ..hours(now, |_| 0.0)
    };
    let state = BudgetState::of(&budget(40_000.0), &unpriced, now);
    assert_eq!(
        (state.spent, state.reached, state.exceeds_since),
        (None, None, None)
    );
    assert!(state.observed_ratio > 0.99);
}
