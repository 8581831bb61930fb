//! Budgets: a limit in dollars or device-hours for a part of the fleet and a calendar period, with spend from the ledger,
//! forecast and findings.

use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use model::base::{Moment, Name, ObjectKey};
use model::cost::{BudgetUnit, LIST_MARK};
use model::fleet::finding::{Finding, Severity, Subject};

use super::period::{date_in, start_in};
use super::{Dimension, HOUR_MS, HourAmounts, Span, UsageForecast, hour_of, start_of};

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BudgetScope {
    Fleet,
    /// The rows of one value of a dimension of the ledger: a team, queue, pool or namespace.
    Part(Dimension, Name),
}

model::written_as!(
    BudgetScope,
    model::schema::one_of(
        std::iter::once(Self::Fleet.kind()).chain(Self::PARTS.map(Dimension::name))
    )
);

impl BudgetScope {
    /// The dimensions that a budget may be for.
    pub const PARTS: [Dimension; 4] = [
        Dimension::Team,
        Dimension::Queue,
        Dimension::Pool,
        Dimension::Namespace,
    ];

    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Part(by, _) => by.name(),
        }
    }

    /// Name of the part; `None` for the fleet.
    pub fn name(&self) -> Option<&Name> {
        match self {
            Self::Fleet => None,
            Self::Part(_, name) => Some(name),
        }
    }

    pub fn words(&self) -> String {
        match self {
            Self::Fleet => "fleet".to_owned(),
            Self::Part(by, name) => format!("{} {name}", by.name()),
        }
    }
}

/// The calendar period of a budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BudgetPeriod {
    /// A week from Monday.
    Week,
    Month,
    /// Three calendar months from January, April, July or October.
    Quarter,
}

model::words! {
    impl BudgetPeriod {
        /// Name in the settings.
        pub fn name(self) {
            Week => "week",
            Month => "month",
            Quarter => "quarter",
        }
    }
}

impl BudgetPeriod {
    pub const ALL: [Self; 3] = [Self::Week, Self::Month, Self::Quarter];

    /// First day of the period that contains `day`, and of the next period.
    fn around(self, day: Date) -> (Date, Date) {
        let first = match self {
            Self::Week => {
                let since = i64::from(day.weekday().to_monday_zero_offset());
                day.checked_sub(since.days()).unwrap_or(day)
            }
            Self::Month => day.first_of_month(),
            Self::Quarter => {
                let since = i64::from((day.month() - 1) % 3);
                let first = day.first_of_month();
                first.checked_sub(since.months()).unwrap_or(first)
            }
        };
        let long = match self {
            Self::Week => 7.days(),
            Self::Month => 1.month(),
            Self::Quarter => 3.months(),
        };
        (first, first.checked_add(long).unwrap_or(first))
    }

    /// Name of the period that starts on a day: `November`, `Q4`, `the week of 2026-11-23`.
    fn words(self, first: Date) -> String {
        const MONTHS: [&str; 12] = [
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ];
        let month = usize::try_from(first.month() - 1).unwrap_or(0);
        match self {
            Self::Week => format!("the week of {first}"),
            Self::Month => MONTHS[month.min(11)].to_owned(),
            Self::Quarter => format!("Q{}", month / 3 + 1),
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct UsageBudget {
    pub name: Name,
    /// What it is for.
    pub scope: BudgetScope,
    pub unit: BudgetUnit,
    /// Limit per period: micro-USD or milliseconds.
    pub limit: i64,
    pub period: BudgetPeriod,
    /// Time zone of the period's start.
    pub zone: TimeZone,
    /// Name of the time zone, `Europe/Berlin`.
    pub zone_name: String,
    /// Thresholds in percent of the budget, ascending; each opens a finding.
    pub steps: Vec<u32>,
    /// True when a forecast above the budget opens a finding.
    pub warns_of_forecast: bool,
}

impl UsageBudget {
    /// The period that contains `at`, in whole UTC hours.
    pub fn span(&self, at: Moment) -> Span {
        let (first, next) = self.period.around(date_in(at, &self.zone));
        Span {
            from: start_in(first, &self.zone),
            to: start_in(next, &self.zone),
        }
    }

    /// The hours needed to evaluate the budget at `at`: its period, and the reference hours of the forecast.
    pub fn looks_at(&self, at: Moment) -> Span {
        let now = hour_of(at);
        Span {
            from: self.span(at).from.min(now - super::forecast::LOOKS_BACK),
            to: now + 1,
        }
    }
}

/// The hours of a budget's scope.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BudgetHours {
    /// Amounts of the scope, hour by hour.
    pub amounts: HourAmounts,
    /// Device time without a price in the period, milliseconds; not part of any dollar amount.
    pub unpriced_ms: i64,
    /// True if part of the period's cost is list prices in place of what is paid.
    pub is_by_list: bool,
    /// False where the amounts are not known: no device has a price, or the recorder does not see all pods and sees none of the scope.
    pub is_known: bool,
}

/// Evaluation of a budget.
#[derive(Clone, PartialEq, Debug)]
pub struct BudgetState {
    pub budget: UsageBudget,
    pub span: Span,
    /// Observed spend, micro-USD or milliseconds; `None` where nothing was observed or nothing has a price.
    pub spent: Option<i64>,
    /// The limit times the elapsed share of the period.
    pub expected: i64,
    /// Forecast for the whole period.
    pub forecast: Option<UsageForecast>,
    /// The hour by whose end the budget is exhausted: from the ledger, else from the forecast.
    pub exhausted_at: Option<i64>,
    /// Observed time as a share of the elapsed part of the period.
    pub observed_ratio: f64,
    /// Device time without a price in the period, milliseconds.
    pub unpriced_ms: i64,
    /// True if part of the spend is list prices in place of what is paid.
    pub is_by_list: bool,
    /// The highest threshold reached, and the hour in which it was reached.
    pub reached: Option<(u32, i64)>,
    /// The hour of the first daily forecast above the limit, while forecasts have not dropped below it again.
    pub exceeds_since: Option<i64>,
}

/// A forecast at or below this share of the budget resolves the finding.
const CLEARS_BELOW: f64 = 0.95;

impl BudgetState {
    /// Evaluates the budget at `at`, from the hours of [`UsageBudget::looks_at`].
    pub fn of(budget: &UsageBudget, hours: &BudgetHours, at: Moment) -> Self {
        let span = budget.span(at);
        let amounts = &hours.amounts;
        let now = hour_of(at);
        let past = Span {
            from: span.from,
            to: (now + 1).min(span.to),
        };
        let over = at.since(start_of(span.from)).millis().max(1) as f64;
        let whole = (span.hours() * HOUR_MS).max(1) as f64;
        let seen = amounts.seen(past);
        let known = seen > 0.0 && hours.is_known;
        let forecast = known
            .then(|| UsageForecast::of(amounts, span, now))
            .flatten();
        let limit = budget.limit;
        let spent_by = |part: f64| {
            let wanted = limit as f64 * part;
            let mut sum = 0;
            (past.from..past.to).find(|hour| {
                sum += amounts.at(*hour).amount;
                sum as f64 >= wanted
            })
        };
        let steps = budget.steps.iter().rev();
        let reached = steps
            .filter(|_| known)
            .find_map(|step| Some((*step, spent_by(f64::from(*step) / 100.0)?)));
        let exhausted = spent_by(1.0).filter(|_| known);
        let ahead = forecast
            .as_ref()
            .and_then(|predicted| predicted.reaches(limit));
        Self {
            span,
            spent: known.then(|| amounts.sum(past)),
            expected: (limit as f64 * (over / whole).min(1.0)).round() as i64,
            exhausted_at: exhausted.or(ahead),
            observed_ratio: (seen * HOUR_MS as f64 / over).min(1.0),
            unpriced_ms: hours.unpriced_ms,
            is_by_list: hours.is_by_list,
            reached,
            exceeds_since: match known && exhausted.is_none() {
                true => exceeds_since(amounts, span, now, limit),
                false => None,
            },
            forecast,
            budget: budget.clone(),
        }
    }

    /// Spend as a share of the limit.
    pub fn spent_ratio(&self) -> Option<f64> {
        Some(self.spent? as f64 / self.budget.limit.max(1) as f64)
    }

    /// The same in whole percent, rounded down: never 100 before the limit is reached.
    pub fn spent_percent(&self) -> Option<i64> {
        Some((self.spent_ratio()? * 100.0).floor() as i64)
    }

    /// The name of its period: `November`.
    pub fn period_words(&self) -> String {
        let budget = &self.budget;
        let first = date_in(start_of(self.span.from), &budget.zone);
        budget.period.words(first)
    }

    /// The spend so far: `$41 208`; `$41 208*` where part of it is at list prices.
    pub fn spent_words(&self) -> Option<String> {
        Some(self.budget.unit.words(self.spent?) + self.mark())
    }

    const fn mark(&self) -> &'static str {
        if self.is_by_list { LIST_MARK } else { "" }
    }

    /// The forecast as a range: `$48 700–$55 900`, marked as what is spent.
    pub fn forecast_words(&self) -> Option<String> {
        let forecast = self.forecast.as_ref()?;
        let unit = self.budget.unit;
        let words = match (unit.words(forecast.low), unit.words(forecast.high)) {
            (low, high) if low == high => low,
            (low, high) => format!("{low}–{high}"),
        };
        Some(words + self.mark())
    }

    /// The command that prints where the spend of its period went, as far as `cost` can limit its rows to the budget's.
    fn command(&self) -> String {
        let mut command = "stokehold cost --by job".to_owned();
        if self.budget.period != BudgetPeriod::Week {
            command.push_str(" --period month");
        }
        match &self.budget.scope {
            BudgetScope::Part(Dimension::Team, team) => {
                command.push_str(&format!(" --team {team}"))
            }
            BudgetScope::Part(Dimension::Namespace, name) => {
                command.push_str(&format!(" -n {name}"))
            }
            BudgetScope::Fleet | BudgetScope::Part(..) => {}
        }
        command
    }

    /// Findings: the highest threshold reached, and a forecast above the budget. The id has the budget, the period and the
    /// threshold, and the start is an hour of the ledger, so a restart gives the same finding; it ends with the period. The ledger of a
    /// demo is read by no command: its repair is the console's own view.
    pub fn findings(&self, is_demo: bool) -> Vec<Finding> {
        let budget = &self.budget;
        let (unit, name) = (budget.unit, &budget.name);
        let limit = unit.words(budget.limit);
        let period = self.period_words();
        let finding = |what: &str, severity, hour, value, threshold, message| Finding {
            id: format!(
                "budget/{name}/{}/{what}",
                start_of(self.span.from).rfc3339()
            )
            .into(),
            severity,
            code: Name::new(match what {
                "forecast" => "budget-forecast",
                _ => "budget-spent",
            }),
            subject: Subject {
                kind: "Budget",
                key: ObjectKey::new("", name.clone()),
            },
            since: start_of(hour),
            first_seen: false,
            at_least: false,
            value: Some(value),
            threshold: Some(threshold),
            message,
            repair: match is_demo {
                true => "see where it went: view 7".to_owned(),
                false => format!("see where it went: {}", self.command()),
            },
            members: Box::default(),
            also: Box::default(),
        };
        let mut out = Vec::new();
        if let (Some((step, hour)), Some(spent)) = (self.reached, self.spent_words()) {
            let severity = match step {
                80.. => Severity::Warn,
                _ => Severity::Info,
            };
            let percent = self.spent_percent().unwrap_or(0);
            let message =
                format!("budget {name}: {spent} of {limit} for {period} spent ({percent} %)");
            let what = step.to_string();
            out.push(finding(
                &what,
                severity,
                hour,
                percent as f64,
                f64::from(step),
                message,
            ));
        }
        let forecast = self.forecast.as_ref().zip(self.forecast_words());
        if let (Some(hour), Some((forecast, words)), true) =
            (self.exceeds_since, forecast, budget.warns_of_forecast)
        {
            let was_above = match forecast.mid < budget.limit {
                true => "; it exceeded the budget before and is now just below it",
                false => "",
            };
            let message = format!(
                "budget {name}: {} ({words}) of {limit} forecast for {period}{was_above}",
                unit.words(forecast.mid)
            );
            let (value, threshold) = (unit.number(forecast.mid), unit.number(budget.limit));
            out.push(finding(
                "forecast",
                Severity::Warn,
                hour,
                value,
                threshold,
                message,
            ));
        }
        out
    }
}

/// The hour of the first daily forecast above `limit` that is still in effect. A finding opens at most once per period.
fn exceeds_since(amounts: &HourAmounts, span: Span, now: i64, limit: i64) -> Option<i64> {
    let mut since = None;
    for day in (span.from + 24..=now.min(span.to - 1)).step_by(24) {
        let Some(end) = UsageForecast::expected(amounts, span, day) else {
            continue;
        };
        match since {
            None if end > limit => since = Some(day),
            Some(_) if (end as f64) < limit as f64 * CLEARS_BELOW => return None,
            _ => {}
        }
    }
    since
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
