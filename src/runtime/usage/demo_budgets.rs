//! Budgets of a demo whose settings have none.

use model::base::Name;
use model::cost::tco::MONTH_HOURS;
use model::cost::{BudgetUnit, SpendScope};
use table::{Facts, UNATTRIBUTED};
use usage::{BudgetPeriod, BudgetScope, Dimension, Period, TimeZone, UsageBudget, hour_of};

/// Budgets of the calendar month: one of the fleet that suffices, one of the team with the highest
/// rate that is nearly spent.
pub(super) fn budgets(facts: &Facts) -> Vec<UsageBudget> {
    /// Least part of the month that the team's budget covers: early in a month a budget that is nearly spent would be a small one.
    const LEAST: f64 = 0.2;
    let (span, _) = Period::Month.spans(facts.now, &TimeZone::UTC);
    let so_far = (hour_of(facts.now) - span.from) as f64;
    let month = |rate: f64, part: f64| {
        // Three digits, as a person would write it.
        let exact = rate * MONTH_HOURS * part;
        let digit = 10f64.powf(exact.max(1.0).log10().floor() - 2.0);
        (exact / digit).ceil() * digit
    };
    let of = |name: &str, scope: BudgetScope, usd: f64| UsageBudget {
        name: Name::new(name),
        scope,
        unit: BudgetUnit::Usd,
        limit: BudgetUnit::Usd.amount(usd).max(1),
        period: BudgetPeriod::Month,
        zone: TimeZone::UTC,
        zone_name: "UTC".to_owned(),
        steps: vec![80, 100],
        warns_of_forecast: true,
    };
    let rates = &facts.spend_rates;
    let Some(all) = rates.known().map(|spend| spend.rate.usd()) else {
        return Vec::new();
    };
    let mut budgets = vec![of("fleet", BudgetScope::Fleet, month(all, 1.02))];
    let teams = rates.rows.get(&SpendScope::Team).into_iter().flatten();
    let teams = teams.filter(|row| *row.name != *UNATTRIBUTED);
    let top = teams.filter_map(|row| Some((row.known()?.rate.usd(), &row.name)));
    if let Some((rate, team)) = top.max_by(|a, b| a.0.total_cmp(&b.0)) {
        let scope = BudgetScope::Part(Dimension::Team, team.clone());
        let part = (so_far / MONTH_HOURS).max(LEAST);
        budgets.push(of(team, scope, month(rate, part)));
    }
    budgets
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::base::Moment;

    /// Budgets are set when the demo opens. The fleet's covers a month at its rate. That of the most expensive team equals what the team
    /// has spent so far, at least a fifth of its month.
    #[test]
    fn a_budget_suffices_and_one_is_nearly_spent() {
        let mut facts = table::sample::facts();
        let rate = facts.spend_rates.known().expect("a rate").rate.usd();
        let month = |usd: f64| BudgetUnit::Usd.amount(usd * MONTH_HOURS);
        for (day, part) in [("02", 0.2), ("25", 24.0 * 24.0 / MONTH_HOURS)] {
            facts.now = Moment::parse(&format!("2026-11-{day}T00:00:00Z")).expect("a moment");
            let all = budgets(&facts);
            let [fleet, team] = all.as_slice() else {
                panic!("{all:?}");
            };
            assert_eq!(fleet.scope, BudgetScope::Fleet);
            assert!(
                (month(rate)..month(rate * 1.04)).contains(&fleet.limit),
                "{fleet:?}"
            );
            let BudgetScope::Part(Dimension::Team, name) = &team.scope else {
                panic!("{team:?}");
            };
            let row = facts
                .spend_rates
                .row(SpendScope::Team, name)
                .expect("a row");
            let own = row.known().expect("a rate").rate.usd();
            let wanted = month(own * part)..=month(own * part * 1.02);
            assert!(wanted.contains(&team.limit), "{day}: {team:?}");
            let others = facts.spend_rates.rows[&SpendScope::Team].iter();
            let mut others = others.filter(|other| *other.name != *UNATTRIBUTED);
            assert!(others.all(|other| other.known().is_none_or(|spend| spend.rate.usd() <= own)));
        }
    }
}
