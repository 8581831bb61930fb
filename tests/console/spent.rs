//! What the usage ledger tells, on the screen: the panel of view 7, budgets of queues, findings.

use std::sync::Arc;
use std::time::Duration;

use console::color::ColorDepth;
use console::{App, AppOptions, Msg, render_text};
use model::base::Moment;
use model::cost::{BudgetUnit, SpendScope};
use table::Facts;
use table::navigation::ViewId;
use table::spend::{CostBasis, ObservedSpan, PeriodSums, UsageFacts, UsageStatus};
use usage::{
    BudgetHours, BudgetPeriod, BudgetScope, BudgetState, Dimension, EnergyRates, HOUR_MS,
    HourAmount, HourAmounts, Period, TimeZone, UsageBudget, UsageSum, UsageTotals, hour_of,
};

use crate::frames::{LARGE, console, press};

/// A budget of which every hour of the last sixty days came to so many dollars.
fn budget(name: &str, scope: BudgetScope, usd: f64, an_hour: i64, now: Moment) -> BudgetState {
    let budget = UsageBudget {
        name: name.into(),
        scope,
        unit: BudgetUnit::Usd,
        limit: BudgetUnit::Usd.amount(usd),
        period: BudgetPeriod::Month,
        zone: TimeZone::UTC,
        zone_name: "UTC".to_owned(),
        steps: vec![50, 80, 100],
        warns_of_forecast: true,
    };
    let hour = HourAmount {
        amount: an_hour * 1_000_000,
        observed_ms: HOUR_MS,
    };
    let hours = BudgetHours {
        amounts: HourAmounts {
            from: hour_of(now) - 60 * 24,
            hours: vec![hour; 60 * 24],
        },
        unpriced_ms: 0,
        is_by_list: false,
        is_known: true,
    };
    BudgetState::of(&budget, &hours, now)
}

fn part(by: Dimension, name: &str) -> BudgetScope {
    BudgetScope::Part(by, name.into())
}

fn sums(micros: i64) -> Vec<UsageSum> {
    let row = |team: &str, parts: [i64; 8]| UsageSum {
        names: vec![team.to_owned(), team.to_owned()],
        step: 0,
        totals: UsageTotals {
            busy_ms: 900 * HOUR_MS,
            idle_ms: 300 * HOUR_MS,
            priced_allocated_ms: 1_200 * HOUR_MS,
            priced_busy_ms: 900 * HOUR_MS,
            finished: Some(if team.is_empty() { 0 } else { 41 }),
            energy_mwh: Some(345_600_000),
            metered_ms: 1_200 * HOUR_MS,
            parts_micros: Some(parts),
            ..UsageTotals::default()
        },
    };
    vec![
        row("", [0, 0, 0, 0, micros, micros / 7, 0, 0]),
        row(
            "research",
            [2 * micros, micros, micros, 0, 0, 0, micros / 3, 0],
        ),
    ]
}

fn usage_facts(facts: &Facts) -> UsageFacts {
    let now = facts.now;
    let periods = [Period::Today, Period::Week, Period::Days30, Period::Month];
    let periods = periods.into_iter().zip(1..).map(|(period, times)| {
        let (this, before) = period.spans(now, &TimeZone::UTC);
        let seen = |span, ratio| ObservedSpan { span, ratio };
        PeriodSums {
            period,
            now: seen(this, 0.97),
            // Nothing was recorded two months ago.
            before: seen(before, if times < 3 { 1.0 } else { 0.0 }),
            sums: sums(times * 1_234_560_000),
            sums_before: sums(times * 1_000_000_000),
        }
    });
    UsageFacts {
        prometheus: None,
        is_demo: false,
        status: UsageStatus::Read(now.minus(Duration::from_secs(40))),
        periods: periods.collect(),
        month: Vec::new(),
        budgets: vec![
            budget(
                "research",
                part(Dimension::Team, "research"),
                20_000.0,
                50,
                now,
            ),
            budget(
                "nlp",
                part(Dimension::Queue, "research"),
                90_000.0,
                100,
                now,
            ),
            budget("all", BudgetScope::Fleet, 50_000.0, 101, now),
        ],
        basis: CostBasis {
            energy: EnergyRates {
                usd_per_kwh: Some(0.12),
                pue: Some(1.3),
                kg_co2e_per_kwh: Some(0.35),
            },
            ..CostBasis::default()
        },
    }
}

fn shown(usage: UsageFacts, view: ViewId, size: (u16, u16), options: AppOptions) -> App {
    let mut app = console(&LARGE, view, size, options);
    let _ = app.update(Msg::Usage(Arc::new(usage)));
    app
}

fn plain() -> AppOptions {
    AppOptions {
        depth: ColorDepth::None,
        ..AppOptions::default()
    }
}

#[test]
fn the_ledger_is_below_the_cost_table_and_folds_on_a_small_screen() {
    for (name, size) in [("spent_120x40", (120, 40)), ("spent_80x24", (80, 24))] {
        let app = shown(usage_facts(&LARGE), ViewId::Cost, size, plain());
        insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
            insta::assert_snapshot!(name, render_text(&app, size.0, size.1));
        });
    }
    for (width, height) in [(1, 1), (40, 10), (60, 50), (80, 30), (400, 120)] {
        let mut app = shown(usage_facts(&LARGE), ViewId::Cost, (120, 40), plain());
        let _ = app.update(Msg::Resize(width, height));
        crate::frames::drawn(&app, (width, height));
    }
    // The table keeps its rows.
    let rows = |app: &App, size: (u16, u16)| {
        let text = render_text(app, size.0, size.1);
        text.lines()
            .filter(|line| line.contains("research"))
            .count()
    };
    let without = console(&LARGE, ViewId::Cost, (80, 24), plain());
    let with = shown(usage_facts(&LARGE), ViewId::Cost, (80, 24), plain());
    assert!(rows(&with, (80, 24)) >= rows(&without, (80, 24)));
}

#[test]
fn the_forecast_of_the_fleet_is_on_a_small_screen_and_an_unknown_budget_says_why() {
    let mut usage = usage_facts(&LARGE);
    usage.budgets.rotate_right(1);
    let fleet = usage.budgets[0].forecast_words().expect("a forecast");
    let text = |usage: &UsageFacts, size: (u16, u16)| {
        let app = shown(usage.clone(), ViewId::Cost, size, plain());
        render_text(&app, size.0, size.1)
    };
    let small = text(&usage, (80, 24));
    assert!(small.contains(&format!("forecast {fleet}")), "{small}");
    assert!(
        small.contains("+1 more budgets: stokehold get budgets"),
        "{small}"
    );
    let unknown = &mut usage.budgets[0];
    (unknown.spent, unknown.forecast, unknown.unpriced_ms) = (None, None, 12 * HOUR_MS);
    unknown.exhausted_at = None;
    for size in [(80, 24), (160, 60)] {
        let text = text(&usage, size);
        assert!(
            text.contains("unknown: no price for 12.0 device-hours"),
            "{text}"
        );
    }
    assert!(
        table::budgets::table(&usage.budgets, LARGE.now, true, false)
            .contains("unknown: no price for 12.0 device-hours")
    );
}

#[test]
fn a_pool_says_what_it_cost_this_month_and_how_much_of_that_is_at_list_prices() {
    let mut facts = LARGE.clone();
    let pools = &facts.spend_rates.rows[&SpendScope::Pool];
    let row = pools.first().expect("a pool costs").clone();
    let mut usage = usage_facts(&LARGE);
    let mut sum = sums(1_000_000_000).remove(1);
    sum.names = vec![row.name.to_string()];
    let all = sum.totals.cost_micros().expect("priced");
    sum.totals.list_micros = all / 2;
    usage.month = vec![(SpendScope::Pool, vec![sum])];
    facts.usage = Arc::new(usage);
    let month = table::kinds::cost::month_of(&facts, &row).expect("a month");
    let month = month.expect("priced");
    assert_eq!(month.all.micros(), all);
    assert_eq!(
        table::spend::list_share(month).as_deref(),
        Some(" (50 % at list prices)")
    );
    // Of a class nothing was read: that is no sum of zero.
    let class = &facts.spend_rates.rows[&SpendScope::Class][0];
    assert_eq!(table::kinds::cost::month_of(&facts, class), None);
}

#[test]
fn a_sum_with_list_prices_is_marked_and_how_much_of_it_is_said_once() {
    let mut usage = usage_facts(&LARGE);
    for sums in &mut usage.periods {
        for sum in &mut sums.sums {
            sum.totals.list_micros = sum.totals.cost_micros().expect("priced") / 2;
        }
    }
    let app = shown(usage, ViewId::Cost, (200, 60), plain());
    let text = render_text(&app, 200, 60);
    assert_eq!(text.matches("list prices (*): $").count(), 1, "{text}");
    assert!(
        text.contains("(50 %); the price actually paid is unknown"),
        "{text}"
    );
    let month = text.lines().find(|line| line.contains("month to date"));
    let month = month.unwrap_or_else(|| panic!("{text}"));
    assert!(month.contains("* "), "{month}");
    // The dollars of what was idle and of what no pod had.
    for words in ["of 30 days: ", "idle $", "unallocated $"] {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn without_a_record_one_line_says_how_to_start_one() {
    let absent = UsageFacts {
        status: UsageStatus::Absent,
        ..UsageFacts::default()
    };
    for size in [(120, 40), (80, 24)] {
        let app = shown(absent.clone(), ViewId::Cost, size, plain());
        let text = render_text(&app, size.0, size.1);
        assert!(
            text.contains("no record: run `stokehold record` to record costs"),
            "{text}"
        );
        assert!(
            !text.contains("month to date") && !text.contains("$0"),
            "{text}"
        );
    }
}

#[test]
fn budgets_are_findings_and_a_queue_has_its_own_column() {
    let app = shown(usage_facts(&LARGE), ViewId::Alerts, (200, 50), plain());
    let text = render_text(&app, 200, 50);
    let messages: Vec<&str> = app
        .facts()
        .fleet
        .findings
        .iter()
        .filter(|finding| finding.subject.kind == "Budget")
        .map(|finding| finding.message.as_str())
        .collect();
    assert!(
        messages
            .iter()
            .any(|words| words.starts_with("budget research: $") && words.ends_with("%)")),
        "{messages:?}"
    );
    assert!(text.contains("budget research: $"), "{text}");
    // The same ledger again says nothing twice, and new facts of the cluster keep what it says.
    let mut again = shown(usage_facts(&LARGE), ViewId::Alerts, (200, 50), plain());
    let _ = again.update(Msg::Usage(Arc::new(usage_facts(&LARGE))));
    let _ = again.update(Msg::Facts(LARGE.clone()));
    assert_eq!(again.facts().fleet.findings, app.facts().fleet.findings);
    let _ = again.update(Msg::Usage(Arc::default()));
    assert_eq!(again.facts().fleet.findings, LARGE.fleet.findings);

    let queues = shown(usage_facts(&LARGE), ViewId::Queues, (200, 50), plain());
    let text = render_text(&queues, 200, 50);
    let line = text.lines().find(|line| line.contains("MTD / BUDGET"));
    assert!(line.is_some() && text.contains("/ $90 000"), "{text}");
    let none = console(&LARGE, ViewId::Queues, (200, 50), plain());
    assert!(!render_text(&none, 200, 50).contains("BUDGET"));
}

#[test]
fn a_lead_sees_the_own_budget_and_no_finding_of_anothers() {
    for (team, own) in [("research", &["research"][..]), ("prod", &[])] {
        let options = AppOptions {
            team: Some(team.into()),
            ..plain()
        };
        let mut app = shown(usage_facts(&LARGE), ViewId::Cost, (160, 60), options);
        let text = render_text(&app, 160, 60);
        assert!(text.contains("month to date"), "{text}");
        let names = ["research", "nlp", "all"];
        let budgets: Vec<&str> = names
            .into_iter()
            .filter(|name| {
                text.lines()
                    .any(|line| line.contains("forecast") && line.contains(&format!("│ {name} ")))
            })
            .collect();
        assert_eq!(budgets, own, "{text}");
        press(&mut app, "8");
        let alerts = render_text(&app, 160, 60);
        assert_eq!(
            alerts.contains("budget research:"),
            !own.is_empty(),
            "{alerts}"
        );
        assert!(!alerts.contains("budget all:"), "{alerts}");
    }
}

#[test]
fn a_supposed_change_and_a_plan_say_what_they_do_to_budgets() {
    use model::base::Rate;
    use model::cost::{PoolPrice, Prices};
    use model::fleet::TableState;
    use model::fleet::observe::Table;
    use table::what_if::Supposed;

    let mut facts: Facts = LARGE.clone();
    let known = &mut Arc::make_mut(&mut facts.fleet).known;
    Arc::make_mut(known).extend(Table::ALL.iter().map(|table| (*table, TableState::Live)));
    let pool = facts.fleet.pools[0].name.clone();
    let rate = PoolPrice::Rate(Rate::from_micros(2_000_000));
    let prices = Prices::default().with_pool(&pool, rate);
    facts.spend_rates = Arc::new(model::cost::spend_rates(&facts.fleet, &prices));
    let changes = format!("nodes {pool} +4");
    let usage_page = |usage: UsageFacts| {
        let mut app = console(&facts, ViewId::Fleet, (170, 44), plain());
        let _ = app.update(Msg::Usage(Arc::new(usage)));
        press(&mut app, &format!(":what-if {changes}\n"));
        let answer = Supposed::of(&facts, &changes);
        let _ = app.update(Msg::Supposed(changes.as_str().into(), answer));
        render_text(&app, 170, 44)
    };
    let with = usage_page(usage_facts(&facts));
    let line = with.lines().find(|line| line.contains("budget all, "));
    let line = line.unwrap_or_else(|| panic!("{with}"));
    assert!(line.contains(" +$"), "{line}");
    assert!(with.contains("until the period or the job ends"), "{with}");
    // Nothing of it is another team's, and without a budget there is no line.
    assert!(!with.contains("budget research, "), "{with}");
    let without = usage_page(UsageFacts {
        budgets: Vec::new(),
        ..usage_facts(&facts)
    });
    assert!(!without.contains("budget"), "{without}");
}

#[test]
fn each_day_of_the_last_thirty_is_a_column_of_its_teams() {
    let mut usage = usage_facts(&LARGE);
    // Seven days in which research costs the same and what is no team's less.
    let days = usage
        .periods
        .iter_mut()
        .find(|sums| sums.period == Period::Days30);
    let days = days.expect("the last 30 days");
    let each = days.sums.clone();
    let of_day = |step| {
        each.iter()
            .cloned()
            .map(move |sum| UsageSum { step, ..sum })
    };
    days.sums = (10..17).flat_map(of_day).collect();
    let all: i64 = days
        .sums
        .iter()
        .filter_map(|sum| sum.totals.cost_micros())
        .sum();
    let text = render_text(
        &shown(usage, ViewId::Cost, (200, 60), AppOptions::default()),
        200,
        60,
    );
    assert!(text.contains("cost a day by team"), "{text}");
    let total = model::base::quantities::grouped((all as f64 / 1e6).round() as i64);
    assert!(text.contains(&format!("30 days ${total}")), "{text}");
    assert!(
        text.contains("line: budget all $1 6"),
        "a thirtieth of 50 000\n{text}"
    );
    // The days without a record are no columns: seven have the letter's color, and 23 or 24 a dot.
    let bottom = text
        .lines()
        .rfind(|line| line.contains("····") || line.contains("·  "))
        .expect("days");
    assert!(
        bottom.matches('·').count() >= 20 && bottom.contains('█'),
        "{text}"
    );
}
