//! Rows of `budgets`: spend, forecast for the period, and observed ratio of each budget.

use schemars::JsonSchema;
use serde::Serialize;

use model::base::{Moment, Name};
use model::cost::{BudgetChange, FleetSpending};
use model::fleet::job::JobKey;
use model::plan::{Plan, PlanEffect};
use model::schema::{columns, of_rows};
use usage::{BudgetPeriod, BudgetScope, BudgetState, Dimension, start_of};

use super::kind::{KindNames, UNKNOWN_IS_NULL};
use super::spend::{device_hours, safe_line, stamp};
use super::table::{cell, text_table};
use super::text::or_unknown;
use super::{Facts, Scope, non_empty};

/// How budgets are called.
pub static NAMES: KindNames = KindNames {
    plural: "budgets",
    singular: "budget",
    aliases: &["budget"],
    help: "Budgets of the settings by the usage ledger of a record: spent, forecast",
    title: "Budgets",
    description: UNKNOWN_IS_NULL,
    schema: of_rows::<BudgetRow<'_>>,
};

/// The subject kind of budget findings.
pub const SUBJECT: &str = "Budget";

/// `a week`; nothing of a month.
pub fn each(period: BudgetPeriod) -> String {
    match period {
        BudgetPeriod::Month => String::new(),
        other => format!(" a {}", other.name()),
    }
}

/// One budget. Unknown is null.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct BudgetRow<'a> {
    /// Name of the budget in the settings.
    pub name: &'a str,
    /// What it is for.
    pub scope: ScopeCell<'a>,
    /// The period that it is in now.
    pub period: PeriodCell<'a>,
    /// Unit of `amount`, `spent`, `expected` and `forecast`; `device_hours` are those of allocated devices.
    #[schemars(with = "model::cost::BudgetUnit")]
    pub unit: &'static str,
    /// How much there is for the period.
    pub amount: f64,
    /// Spent as far as it was observed; null where nothing was, or nothing has a price.
    pub spent: Option<f64>,
    /// The share of the amount that the part of the period that is over would be.
    pub expected: f64,
    /// What the period comes to, unobserved hours filled in; null where less than 24 hours of the last 14 days or less than
    /// half of the period so far was observed.
    pub forecast: ForecastCell,
    /// How far off earlier forecasts were.
    pub forecast_error: ErrorCell,
    /// Start of the hour by whose end the amount was spent, or by the forecast will be; null where it will not be, or that is
    /// unknown (`forecast.mid` is null).
    #[schemars(with = "Option<model::base::Moment>")]
    pub exhausted_at: Option<String>,
    /// How much of the spend is known.
    pub coverage: CoverageCell,
}

/// What a budget is for.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ScopeCell<'a> {
    /// What the budget is for.
    #[schemars(with = "BudgetScope")]
    pub kind: &'static str,
    /// Name of the team, queue, pool or namespace; null for the fleet.
    pub name: Option<&'a str>,
}

/// The period of a budget.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct PeriodCell<'a> {
    /// How long a period is.
    #[schemars(with = "usage::BudgetPeriod")]
    pub kind: &'static str,
    /// Its start, RFC 3339, a whole hour of UTC.
    #[schemars(with = "model::base::Moment")]
    pub start: String,
    /// Its end, RFC 3339, a whole hour of UTC.
    #[schemars(with = "model::base::Moment")]
    pub end: String,
    /// IANA name of the zone whose midnight begins it.
    pub time_zone: &'a str,
}

/// The forecast spend of the period.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ForecastCell {
    /// 10th percentile of the forecast.
    pub low: Option<f64>,
    /// Expected value of the forecast.
    pub mid: Option<f64>,
    /// 90th percentile of the forecast.
    pub high: Option<f64>,
}

/// The error of forecasts made earlier in the record.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ErrorCell {
    /// Mean absolute error of forecasts made earlier in this record, as a share of what it came to.
    pub ratio: Option<f64>,
    /// How many days ahead they looked.
    pub days: Option<usize>,
    /// Number of these forecasts.
    pub forecasts: Option<usize>,
}

/// How much of the spend is known.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct CoverageCell {
    /// Observed share of the part of the period that is over, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub observed_ratio: f64,
    /// Device time in the period without a price, hours: in no sum of dollars.
    pub unpriced_device_hours: f64,
}

/// True when a budget is visible in a scope: only the scope's own budgets are.
pub fn is_of(scope: &Scope, budget: &BudgetScope) -> bool {
    match budget {
        _ if scope.is_all() => true,
        BudgetScope::Part(Dimension::Team, team) => {
            scope.team.as_ref() == Some(team) && scope.namespaces.is_empty()
        }
        BudgetScope::Part(Dimension::Namespace, name) => {
            scope.team.is_none() && scope.namespaces.contains(name)
        }
        _ => false,
    }
}

/// The budget rows in the JSON contract's form.
pub fn rows(states: &[BudgetState]) -> Vec<BudgetRow<'_>> {
    states.iter().map(row).collect()
}

fn row(state: &BudgetState) -> BudgetRow<'_> {
    let budget = &state.budget;
    let number = |amount: i64| budget.unit.number(amount);
    let predicted = state.forecast.as_ref();
    let error = predicted.and_then(|predicted| predicted.error);
    BudgetRow {
        name: &budget.name,
        scope: ScopeCell {
            kind: budget.scope.kind(),
            name: budget.scope.name().and_then(|name| non_empty(name)),
        },
        period: PeriodCell {
            kind: budget.period.name(),
            start: start_of(state.span.from).rfc3339(),
            end: start_of(state.span.to).rfc3339(),
            time_zone: &budget.zone_name,
        },
        unit: budget.unit.name(),
        amount: number(budget.limit),
        spent: state.spent.map(number),
        expected: number(state.expected),
        forecast: ForecastCell {
            low: predicted.map(|predicted| number(predicted.low)),
            mid: predicted.map(|predicted| number(predicted.mid)),
            high: predicted.map(|predicted| number(predicted.high)),
        },
        forecast_error: ErrorCell {
            ratio: error.map(|error| error.ratio),
            days: error.map(|error| error.days),
            forecasts: error.map(|error| error.forecasts),
        },
        exhausted_at: state.exhausted_at.map(|hour| start_of(hour).rfc3339()),
        coverage: CoverageCell {
            observed_ratio: state.observed_ratio,
            unpriced_device_hours: device_hours(state.unpriced_ms),
        },
    }
}

/// The rows as CSV.
pub fn csv(states: &[BudgetState], titled: bool) -> String {
    let fields = columns(&NAMES.schema());
    let mut out = String::new();
    if titled {
        out.push_str(&safe_line(&fields));
    }
    for row in rows(states) {
        let value = serde_json::to_value(row).unwrap_or_default();
        let cells = fields.iter().map(|field| {
            let of = field.split('.').try_fold(&value, |of, name| of.get(name));
            match of {
                Some(serde_json::Value::String(text)) => text.clone(),
                None | Some(serde_json::Value::Null) => String::new(),
                Some(other) => other.to_string(),
            }
        });
        out.push_str(&safe_line(&cells.collect::<Vec<String>>()));
    }
    out
}

/// The rows as a table; `wide` adds the pace, the time zone and the unknown share.
pub fn table(states: &[BudgetState], now: Moment, titled: bool, wide: bool) -> String {
    let mut titles = vec![
        ("NAME", false),
        ("SCOPE", false),
        ("PERIOD", false),
        ("SPENT", true),
        ("BUDGET", true),
        ("USED", true),
        ("FORECAST", true),
        ("EXHAUSTED", false),
        ("OBSERVED", true),
    ];
    if wide {
        titles.extend([
            ("EXPECTED", true),
            ("FORECAST ERROR", false),
            ("NO PRICE H", true),
            ("FROM", false),
            ("TO", false),
            ("TIME ZONE", false),
        ]);
    }
    let lines: Vec<Vec<String>> = states.iter().map(|state| line(state, now, wide)).collect();
    text_table(titles, &lines, titled)
}

/// Why it is not known what a budget has spent, `unknown: no price for 12.0 device-hours`; `None` where it is.
pub fn unknown_words(state: &BudgetState) -> Option<String> {
    let why = match state.unpriced_ms {
        _ if state.spent.is_some() => return None,
        _ if state.observed_ratio == 0.0 => {
            format!("nothing of {} was observed", state.period_words())
        }
        0 => "what it is for is not visible to the recorder".to_owned(),
        ms => format!("no price for {:.1} device-hours", device_hours(ms)),
    };
    Some(format!("unknown: {why}"))
}

/// What the period comes to, or why that is not known.
pub fn forecast_words(state: &BudgetState) -> String {
    let words = state.forecast_words();
    words.unwrap_or_else(|| "unknown: too few hours were observed".to_owned())
}

/// When a budget was or will be exhausted: `11-21 08:00`, prefixed with `~` for a forecast.
pub fn exhausted_words(state: &BudgetState, now: Moment) -> Option<String> {
    let hour = state.exhausted_at?;
    let is_spent = (state.spent).is_some_and(|spent| spent >= state.budget.limit);
    if !is_spent && start_of(hour) <= now {
        return Some(String::from("~this hour"));
    }
    let about = if is_spent { "" } else { "~" };
    Some(format!("{about}{}", &stamp(hour)[5..]))
}

fn line(state: &BudgetState, now: Moment, wide: bool) -> Vec<String> {
    let budget = &state.budget;
    let words = |amount: i64| budget.unit.words(amount);
    let mut line = vec![
        cell(&budget.name),
        cell(&budget.scope.words()),
        state.period_words(),
        or_unknown(state.spent_words()),
        words(budget.limit),
        or_unknown(state.spent_percent().map(|percent| format!("{percent}%"))),
        or_unknown(state.forecast_words()),
        match state.forecast.is_some() {
            // The forecast stays within the budget.
            true => exhausted_words(state, now).unwrap_or_else(|| "no".to_owned()),
            false => or_unknown(exhausted_words(state, now).or_else(|| unknown_words(state))),
        },
        // Rounded down: never 100 while something is missing.
        format!("{:.1}%", (state.observed_ratio * 1_000.0).floor() / 10.0),
    ];
    if wide {
        let error = state.forecast.as_ref().and_then(|forecast| forecast.error);
        line.extend([
            words(state.expected),
            or_unknown(
                error.map(|error| format!("{:.1}% over {} days", error.ratio * 100.0, error.days)),
            ),
            format!("{:.1}", device_hours(state.unpriced_ms)),
            stamp(state.span.from),
            stamp(state.span.to),
            cell(&budget.zone_name),
        ]);
    }
    line
}

/// Effects of a change on the visible budgets; budgets that it does not affect are left out.
pub fn changes(
    facts: &Facts,
    [before, after]: [&FleetSpending; 2],
    at: Moment,
) -> Vec<BudgetChange> {
    let queue = |key: &JobKey| queue_of(facts, key);
    facts
        .budgets()
        .filter_map(|state| usage::budget_change(state, [before, after], queue, at))
        .collect()
}

/// Adds a plan's effects on budgets to the plan.
pub fn add_forecast(facts: &Facts, plan: &mut Plan) {
    let at = plan.computed_at;
    if let PlanEffect::Forecast(forecast) = &mut plan.effect
        && let Some(spending) = &forecast.spending
    {
        let [before, after] = &**spending;
        forecast.budgets = changes(facts, [before, after], at);
    }
}

/// The job's queue as named in the ledger. A hypothetical copy (`name+2`) uses its original's queue.
fn queue_of(facts: &Facts, key: &JobKey) -> Option<Name> {
    let jobs = || facts.fleet.jobs.iter();
    let found = jobs().find(|job| job.id == *key).or_else(|| {
        let (name, _) = key.key.name.rsplit_once('+')?;
        jobs().find(|job| {
            let id = &job.id;
            id.kind == key.kind && id.key.namespace == key.key.namespace && *id.key.name == *name
        })
    });
    found?.queue.clone()
}
