//! Cost a day: of all teams, or of one.

use std::collections::BTreeMap;

use super::{Drawing, ObjectPicture, Stack, TeamPart};
use crate::widget::team_letters::TeamLetters;
use model::base::{Moment, Name, SmallSort};
use model::cost::BudgetUnit;
use table::spend::{PeriodCost, PeriodSums, dollars};
use table::{Facts, UNATTRIBUTED};
use usage::{BudgetScope, Dimension, HOUR_MS, Period, start_of};

/// Teams that have a part of their own in the columns; the rest is one part.
const MOST_TEAMS: usize = 7;

/// The last 30 days of a team, or of all teams in the scope; `None` where no ledger was read.
pub fn of_days(facts: &Facts, team: Option<&Name>) -> Option<ObjectPicture> {
    let mut periods = facts.usage.periods.iter();
    let sums = periods.find(|sums| sums.period == Period::Days30)?;
    let scope = facts.part.as_ref().map(|part| &part.scope);
    let by_team = by_team(sums, scope, team);
    let count = PeriodCost::steps(sums.now.span);
    let seen = sums.trend(None);
    let total = |days: &[i64]| days.iter().sum::<i64>();
    let mut order: Vec<(&str, &Vec<i64>)> =
        by_team.iter().map(|(name, days)| (*name, days)).collect();
    order.small_sort_by_key(|(name, days)| (name.is_empty(), std::cmp::Reverse(total(days))));
    let (named, rest) = order.split_at(order.len().min(MOST_TEAMS));
    let parts_of = |day: usize| {
        let own = named.iter().map(|(_, days)| usd(days[day]));
        let others = (!rest.is_empty()).then(|| usd(rest.iter().map(|(_, days)| days[day]).sum()));
        own.chain(others).collect()
    };
    let span = sums.now.span;
    let step = (span.to - span.from) * HOUR_MS / count.max(1) as i64;
    let days = (0..count).map(|day| {
        let start = start_of(span.from).millis() + step * day as i64;
        // A bar is named for the day in which it ends: the last one ends now.
        let label = Moment::from_millis(start + step - 1).rfc3339();
        let known = seen.get(day).copied().flatten();
        (label[8..10].to_owned(), known.map(|_| parts_of(day)))
    });
    let days: Vec<_> = days.collect();
    let letters = TeamLetters::of(facts);
    let mut teams: Vec<(TeamPart, String, String)> = named
        .iter()
        .map(|(name, days)| {
            let part = letters.place(name).map_or(TeamPart::NoTeam, TeamPart::Team);
            let name = if name.is_empty() { UNATTRIBUTED } else { name };
            (part, name.to_owned(), dollars(total(days)))
        })
        .collect();
    if !rest.is_empty() {
        let sum = rest.iter().map(|(_, days)| total(days)).sum();
        let name = match rest {
            [("", _)] => UNATTRIBUTED,
            [(name, _)] => name,
            [.., ("", _)] => "others, unattributed",
            _ => "others",
        };
        teams.push((TeamPart::Others, name.to_owned(), dollars(sum)));
    }
    let all: i64 = order.iter().map(|(_, days)| total(days)).sum();
    let title = match team {
        Some(team) => format!("cost a day of {team}"),
        None => String::from("cost a day by team"),
    };
    let limit = limit(facts, team);
    let end = start_of(span.to).clock();
    let mut note = format!(
        "30 days {} · each 24 h to {} UTC, the last so far",
        dollars(all),
        &end[..5]
    );
    if let Some((_, words)) = &limit {
        note.push_str(&format!(" · line: {words}"));
    }
    let stack = Stack {
        days,
        teams,
        limit: limit.map(|limit| limit.0),
    };
    Some(ObjectPicture::new(title, note, Drawing::Stack(stack)))
}

/// Cost of each team in each step, micro-USD; the empty name is what belongs to no team.
fn by_team<'a>(
    sums: &'a PeriodSums,
    scope: Option<&'a table::Scope>,
    team: Option<&Name>,
) -> BTreeMap<&'a str, Vec<i64>> {
    let count = PeriodCost::steps(sums.now.span);
    let mut all: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for sum in sums.of_scope(scope) {
        let Some(name) = sum.names.first() else {
            continue;
        };
        if team.is_some_and(|team| team.as_str() != name) {
            continue;
        }
        let days = all.entry(name.as_str()).or_insert_with(|| vec![0; count]);
        if let (Some(day), Some(micros)) = (days.get_mut(sum.step), sum.totals.cost_micros()) {
            *day += micros;
        }
    }
    all
}

/// The part of a day of the first budget in dollars that is for the same: the whole fleet, or this team.
fn limit(facts: &Facts, team: Option<&Name>) -> Option<(f64, String)> {
    let mut budgets = facts.budgets();
    let state = budgets.find(|state| {
        let is_its = match (&state.budget.scope, team) {
            (BudgetScope::Fleet, None) => facts.part.is_none(),
            (BudgetScope::Part(Dimension::Team, name), Some(team)) => name == team,
            _ => false,
        };
        is_its && state.budget.unit == BudgetUnit::Usd
    })?;
    let days = (state.span.to - state.span.from) as f64 / 24.0;
    let a_day = usd(state.budget.limit) / days;
    let words = dollars((a_day * 1e6) as i64);
    Some((a_day, format!("budget {} {words} a day", state.budget.name)))
}

fn usd(micros: i64) -> f64 {
    micros as f64 / 1e6
}
