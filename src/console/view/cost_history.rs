//! The cost of the month, from the usage ledger: periods with the ones before them, the parts of the cost, budgets.

use ratatui::layout::Rect;

use crate::painter::Painter;
use crate::text::wrap;
use crate::widget::bar::bar;
use crate::widget::panel::{foot, panel};
use model::base::Moment;
use table::Facts;
use table::budgets::exhausted_words;
use table::role::Role;
use table::spend::{UsageStatus, dollars, shares, spark, unit_words};
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
            let words = parts_words(facts).into_iter().chain(units(facts));
            let words: usize = words.map(|words| wrap(&words, inner(width)).len()).sum();
            (2 + facts.usage.periods.len() + words + budgets) as u16
        }
    }
}

fn inner(width: u16) -> usize {
    usize::from(width.saturating_sub(4)).max(20)
}

/// One line: of a small screen, and where there is no ledger.
pub(super) fn line(facts: &Facts) -> Option<String> {
    match &facts.usage.status {
        UsageStatus::Unread => None,
        UsageStatus::Absent => Some(NO_RECORD.to_owned()),
        UsageStatus::Failed(why) => Some(why.clone()),
        UsageStatus::Read(_) => {
            let month = totals(facts, Period::Month);
            let mut words = format!("month to date {}", cost(month[0]));
            for state in facts.budgets() {
                let used = or_unknown(used(state));
                words.push_str(&format!("   budget {} {used}", state.budget.name));
            }
            Some(words)
        }
    }
}

pub(super) fn draw(facts: &Facts, painter: &mut Painter<'_>, area: Rect) {
    let UsageStatus::Read(until) = &facts.usage.status else {
        if let Some(words) = line(facts) {
            painter.text_in_role(
                area.x + 2,
                area.y,
                area.width.saturating_sub(2),
                &words,
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
    foot(painter, area, "list prices, not a bill", Role::Muted);
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
            true => format!(
                "{:>24}",
                match (sums.before.ratio * 100.0).round() {
                    0.0 => String::from("no data"),
                    percent => format!("only {percent:.0} % observed"),
                }
            ),
            false => format!(
                "{:>14}  {:>9}",
                or_unknown(before.map(dollars)),
                or_unknown(change)
            ),
        };
        painter.text(inside.x, y, 14, period_words(sums.period), text);
        painter.text_right(inside.x + 30, y, 16, &cost(now), accent);
        let words = format!(
            "before {before:>25}   observed {seen:>5.1} %  {}",
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
    for words in parts_words(facts).into_iter().chain(units(facts)) {
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
    bar(
        painter,
        x,
        area.y,
        BAR,
        state.spent_ratio().unwrap_or(0.0),
        role,
    );
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
    let unit = budget.unit;
    let spent = or_unknown(state.spent.map(|spent| unit.words(spent)));
    let mut words = format!(
        "{:>5}  {spent} / {}{}",
        or_unknown(used(state)),
        unit.words(budget.limit),
        table::budgets::each(budget.period)
    );
    words.push_str("   forecast ");
    words.push_str(&or_unknown(state.forecast_words()));
    if let Some(when) = exhausted_words(state, now) {
        words.push_str(&format!(
            "   {} {when}",
            if when.starts_with('~') {
                "runs out"
            } else {
                "ran out"
            }
        ));
    }
    if state.observed_ratio < 0.99 {
        let seen = (state.observed_ratio * 1_000.0).floor() / 10.0;
        words.push_str(&format!("   observed {seen:.1} %"));
    }
    (words, role_of(state))
}

/// Exceeded, forecast to be, or neither.
fn role_of(state: &BudgetState) -> Role {
    let over = |amount: i64| amount > state.budget.limit;
    let exceeds = (state.forecast.as_ref()).is_some_and(|forecast| over(forecast.mid));
    match state.spent {
        Some(spent) if over(spent) => Role::Crit,
        Some(_) if exceeds => Role::Warn,
        _ => Role::Ok,
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

fn totals(facts: &Facts, period: Period) -> [Option<UsageTotals>; 2] {
    let scope = facts.part.as_ref().map(|part| &part.scope);
    let all = facts.usage.periods.iter();
    all.into_iter()
        .find(|sums| sums.period == period)
        .map_or([None; 2], |sums| sums.of(scope))
}

/// The parts of the month's cost: shares that add up to 100 %.
fn parts_words(facts: &Facts) -> Option<String> {
    let parts = totals(facts, Period::Month)[0]?.parts_micros?;
    let tenths = shares(&parts)?;
    let tenth_shares = CostPart::ALL.iter().zip(tenths);
    let tenth_shares = tenth_shares.filter(|(_, tenths)| *tenths > 0);
    let tenth_shares: Vec<String> = tenth_shares
        .map(|(part, tenths)| format!("{} {}.{} %", part.words(), tenths / 10, tenths % 10))
        .collect();
    Some(format!("of the month: {}", tenth_shares.join(" · ")))
}

/// Unit costs of the month.
fn units(facts: &Facts) -> Option<String> {
    let words = unit_words(&totals(facts, Period::Month)[0]?, facts.usage.basis.energy);
    (!words.is_empty()).then(|| format!("unit costs: {}", words.join(" · ")))
}

/// Cost in micro-USD: zero where the fleet was observed without usage.
fn micros(totals: Option<UsageTotals>) -> Option<i64> {
    let totals = totals?;
    let nothing = totals == UsageTotals::default();
    totals.cost_micros().or(nothing.then_some(0))
}

fn cost(totals: Option<UsageTotals>) -> String {
    or_unknown(micros(totals).map(dollars))
}
