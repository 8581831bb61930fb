//! The cost of the month, from the usage ledger: periods with the ones before them, the parts of the cost, budgets.

use ratatui::layout::Rect;

use crate::painter::Painter;
use crate::text::wrap;
use crate::widget::bar::bar;
use crate::widget::panel::{foot, panel};
use model::base::Moment;
use model::cost::Money;
use table::Facts;
use table::budgets::{exhausted_words, forecast_words, unknown_words};
use table::role::Role;
use table::rows::list_price;
use table::spend::{
    UsageStatus, cost_of, dollars, list_words, listed_dollars, part_words, spark, unit_words,
};
use table::text::or_unknown;
use usage::{BudgetState, CostPart, HOUR_MS, Period, UsageTotals, start_of};

/// Budgets shown in the panel; of the others only their number.
const MOST_BUDGETS: usize = 5;
/// Cells of a budget's bar.
const BAR: u16 = 20;
/// Shown where nothing was recorded.
const NO_RECORD: &str = "no record: run `stokehold record` to record costs";

/// A period is compared with the one before where so much of that was seen.
const COMPARABLE: f64 = 0.9;

/// Lines of the panel with its border; none where nothing was read.
pub(super) fn height(facts: &Facts, width: u16) -> u16 {
    match &facts.usage.status {
        UsageStatus::Unread => 0,
        UsageStatus::Absent | UsageStatus::Failed(_) => 1,
        UsageStatus::Read(_) => {
            let budgets = facts.budgets().count();
            let budgets = budgets.min(MOST_BUDGETS) + usize::from(budgets > MOST_BUDGETS);
            let words = details(facts);
            let words: usize = words.map(|words| wrap(&words, inner(width)).len()).sum();
            (2 + facts.usage.periods.len() + words + budgets) as u16
        }
    }
}

fn inner(width: u16) -> usize {
    usize::from(width.saturating_sub(4)).max(20)
}

/// Budgets of a small screen.
const FOLDED_BUDGETS: usize = 2;

/// Lines of a small screen, the month, the waste of 30 days and the first budgets; where there is no ledger the one that says so.
pub(super) fn lines(facts: &Facts) -> Vec<String> {
    match &facts.usage.status {
        UsageStatus::Unread => Vec::new(),
        UsageStatus::Absent => vec![NO_RECORD.to_owned()],
        UsageStatus::Failed(why) => vec![why.clone()],
        UsageStatus::Read(_) => {
            let month = totals(facts, Period::Month);
            let mut first = format!("month to date {}", cost(month[0]));
            let more = facts.budgets().count().saturating_sub(FOLDED_BUDGETS);
            if more > 0 {
                first.push_str(&format!("   +{more} more budgets: stokehold get budgets"));
            }
            let budgets = facts.budgets().take(FOLDED_BUDGETS);
            let budgets = budgets.map(|state| folded(state, facts.now));
            let days = totals(facts, Period::Days30)[0];
            let part = |part: CostPart| {
                let at = CostPart::ALL.iter().position(|own| *own == part)?;
                Some(dollars(days?.parts_micros?[at]))
            };
            let second = format!(
                "30 days {}: idle {}, unallocated {}",
                cost(days),
                or_unknown(part(CostPart::Idle)),
                or_unknown(part(CostPart::Unallocated))
            );
            [first, second].into_iter().chain(budgets).collect()
        }
    }
}

/// A budget in one line of a small screen: what is spent of how much, when it runs out, the forecast.
fn folded(state: &BudgetState, now: Moment) -> String {
    let name = &state.budget.name;
    let limit = state.budget.unit.words(state.budget.limit);
    if let Some(why) = unknown_words(state) {
        return format!("budget {name} of {limit}: {why}");
    }
    let (used, forecast) = (or_unknown(used(state)), forecast_words(state));
    let end = end_words(state, now).map_or_else(String::new, |end| format!(", {end}"));
    format!("budget {name} {used} of {limit}{end}, forecast {forecast}")
}

/// When a budget runs out, or did; else whether its forecast is within it. `None` without a forecast.
fn end_words(state: &BudgetState, now: Moment) -> Option<String> {
    let Some(when) = exhausted_words(state, now) else {
        let words = match state.forecast.as_ref()?.high > state.budget.limit {
            true => "may exceed it",
            false => "within it",
        };
        return Some(words.to_owned());
    };
    let runs = if when.starts_with('~') { "runs" } else { "ran" };
    Some(format!("{runs} out {when}"))
}

pub(super) fn draw(facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
    let UsageStatus::Read(until) = &facts.usage.status else {
        if let Some(words) = lines(facts).first() {
            painter.text_in_role(
                area.x + 2,
                area.y,
                area.width.saturating_sub(2),
                words,
                Role::Muted,
            );
        }
        return;
    };
    let to = &until.rfc3339().replace('T', " ")[..16];
    let mut note = match &facts.usage.prometheus {
        Some(name) => format!("{name} to {to} UTC"),
        None => format!("recorded to {to} UTC"),
    };
    let zone = &facts.usage.basis.zone.name;
    if zone != "UTC" {
        note.push_str(&format!(", days of {zone}"));
    }
    let inside = panel(painter, area, "cost over time", &note);
    let prices = format!(
        "{}, not a bill",
        list_price::dated(&facts.spend_rates.prices)
    );
    foot(painter, area, &prices, Role::Muted);
    let mut y = inside.y;
    for sums in &facts.usage.periods {
        if y >= inside.bottom() {
            return;
        }
        let scope = facts.part.as_ref().map(|part| &part.scope);
        let [now, before] = sums.of(scope);
        let (text, muted, accent) = (
            painter.render_style.fg(Role::Text),
            painter.render_style.fg(Role::Muted),
            painter.render_style.bold(Role::Title),
        );
        let seen = (sums.now.ratio * 1_000.0).floor() / 10.0;
        // This period is not over, and of both some time may be missing: the one before counts for as much time as this one has
        // pictures of.
        let mark = before.as_ref().and_then(cost_of).map_or("", Money::mark);
        let before = micros(before).map(|before| {
            let span = sums.now.span;
            let whole = ((span.to - span.from).max(1) * HOUR_MS) as f64 * sums.before.ratio;
            let gone = until.since(start_of(span.from)).millis() as f64 * sums.now.ratio;
            (before as f64 * (gone / whole.max(1.0)).min(1.0)).round() as i64
        });
        let change = micros(now).zip(before.filter(|before| *before > 0));
        let change = change.map(|(now, before)| {
            let percent = ((now - before) as f64 / before as f64 * 100.0).round() as i64;
            match percent {
                0 => String::from("0 %"),
                percent => format!("{percent:+} %"),
            }
        });
        // What was seen in part is no measure for the whole: it has no sum beside that of the whole.
        let before = match sums.before.ratio < COMPARABLE {
            true => match (sums.before.ratio * 100.0).round() {
                0.0 => String::from("no data"),
                percent => format!("data for only {percent:.0} %"),
            },
            false => format!(
                "{:>12}  {:>8}",
                or_unknown(before.map(|before| dollars(before) + mark)),
                or_unknown(change)
            ),
        };
        painter.text(inside.x, y, 14, period_words(sums.period), text);
        painter.text_right(inside.x + 30, y, 16, &cost(now), accent);
        let words = format!(
            "before {before:>22}  time observed {seen:>5.1} % {}",
            spark(&sums.trend(scope))
        );
        painter.text(
            inside.x + 33,
            y,
            inside.width.saturating_sub(33),
            &words,
            muted,
        );
        y += 1;
    }
    for words in details(facts) {
        for words in wrap(&words, inner(area.width)) {
            if y >= inside.bottom() {
                return;
            }
            painter.text_in_role(inside.x, y, inside.width, &words, Role::Text);
            y += 1;
        }
    }
    let budgets = facts.budgets().count();
    for state in facts.budgets().take(MOST_BUDGETS) {
        if y >= inside.bottom() {
            return;
        }
        budget(
            state,
            facts,
            painter,
            Rect::new(inside.x, y, inside.width, 1),
        );
        y += 1;
    }
    if budgets > MOST_BUDGETS && y < inside.bottom() {
        let words = format!("+{} more: stokehold get budgets", budgets - MOST_BUDGETS);
        painter.text_in_role(inside.x, y, inside.width, &words, Role::Muted);
    }
}

/// One budget: its bar with a mark where it would be by now, what is spent, the forecast.
fn budget(state: &BudgetState, facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
    let budget = &state.budget;
    let role = role_of(state);
    let title = painter.render_style.fg(Role::Title);
    painter.text(area.x, area.y, 16, &budget.name, title);
    let x = area.x + 18;
    if area.width < 18 + BAR + 8 {
        return;
    }
    // An empty bar would be nothing spent.
    if let Some(ratio) = state.spent_ratio() {
        bar(painter, x, area.y, BAR, ratio, role);
    }
    let pace = state.expected as f64 / budget.limit.max(1) as f64 * f64::from(BAR);
    let mark = (pace as u16).min(BAR - 1);
    painter.sign(x + mark, area.y, "│", title);
    let (words, _) = budget_words(state, facts.now);
    painter.text_in_role(
        x + BAR + 1,
        area.y,
        area.right().saturating_sub(x + BAR + 1),
        &words,
        Role::Text,
    );
}

/// A budget in words: share and sum that are spent, forecast, when it runs out, how much of the period was observed.
/// Beside them the role of its state.
pub(super) fn budget_words(state: &BudgetState, now: Moment) -> (String, Role) {
    let budget = &state.budget;
    let each = table::budgets::each(budget.period);
    let limit = format!("{}{each}", budget.unit.words(budget.limit));
    let Some(spent) = state.spent_words() else {
        let why = unknown_words(state).unwrap_or_default();
        return (format!("of {limit}: {why}"), role_of(state));
    };
    let mut words = format!(
        "{:>5}  {spent} / {limit}   forecast {}",
        or_unknown(used(state)),
        forecast_words(state)
    );
    if let Some(end) = end_words(state, now) {
        words.push_str(&format!("   {end}"));
    }
    if state.unpriced_ms > 0 {
        let hours = state.unpriced_ms as f64 / HOUR_MS as f64;
        words.push_str(&format!("   no price for {hours:.1} device-hours"));
    }
    if state.observed_ratio < 0.99 {
        let seen = (state.observed_ratio * 1_000.0).floor() / 10.0;
        words.push_str(&format!("   observed {seen:.1} %"));
    }
    (words, role_of(state))
}

/// Exceeded, forecast to be, neither, or not known.
fn role_of(state: &BudgetState) -> Role {
    let over = |amount: i64| amount > state.budget.limit;
    let exceeds = (state.forecast.as_ref()).is_some_and(|forecast| over(forecast.mid));
    match state.spent {
        Some(spent) if over(spent) => Role::Crit,
        Some(_) if exceeds => Role::Warn,
        Some(_) => Role::Ok,
        None => Role::Muted,
    }
}

fn used(state: &BudgetState) -> Option<String> {
    Some(format!("{} %", state.spent_percent()?))
}

const fn period_words(period: Period) -> &'static str {
    match period {
        Period::Today => "today",
        Period::Week => "7 days",
        Period::Days30 => "30 days",
        Period::Month => "month to date",
        Period::LastMonth => "last month",
    }
}

/// Usage of a period in the scope, and of the period before; `None` where it is not known.
pub(super) fn totals(facts: &Facts, period: Period) -> [Option<UsageTotals>; 2] {
    let scope = facts.part.as_ref().map(|part| &part.scope);
    let all = facts.usage.periods.iter();
    all.into_iter()
        .find(|sums| sums.period == period)
        .map_or([None; 2], |sums| sums.of(scope))
}

/// Below the periods: the parts of the cost of 30 days and of the month, the month's list prices and unit costs.
fn details(facts: &Facts) -> impl Iterator<Item = String> {
    let parts = |period: Period, name: &str| {
        let words = part_words(&totals(facts, period)[0]?)?;
        Some(format!("of {name}: {words}"))
    };
    let month = totals(facts, Period::Month)[0];
    let units = month.map(|month| unit_words(&month, facts.usage.basis.energy));
    let units = units.filter(|words| !words.is_empty());
    [
        parts(Period::Days30, "30 days"),
        parts(Period::Month, "the month"),
        month.and_then(|month| list_words(&month)),
        units.map(|words| format!("unit costs: {}", words.join(" · "))),
    ]
    .into_iter()
    .flatten()
}

/// Cost in micro-USD: zero where the fleet was observed without usage.
fn micros(totals: Option<UsageTotals>) -> Option<i64> {
    let totals = totals?;
    let nothing = totals == UsageTotals::default();
    totals.cost_micros().or(nothing.then_some(0))
}

fn cost(totals: Option<UsageTotals>) -> String {
    match totals.as_ref().and_then(cost_of) {
        Some(sum) => listed_dollars(sum),
        None => or_unknown(micros(totals).map(dollars)),
    }
}
