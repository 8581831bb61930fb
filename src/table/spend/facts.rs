//! Usage and budgets from the usage ledger, beside one snapshot of the fleet.

use model::base::{Moment, SmallSort};
use model::cost::{Money, SpendScope};
use model::fleet::finding::Finding;
use usage::{BudgetState, Period, UsageSum, UsageTotals};

use super::{CostBasis, ObservedSpan, cost_of};
use crate::{Facts, Scope, budgets};

/// Whether the usage ledger could be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum UsageStatus {
    #[default]
    Unread,
    Absent,
    /// Read; its latest hour ends at this moment.
    Read(Moment),
    /// Reading failed, with the reason.
    Failed(String),
}

/// Usage of a period and of the period before it, by team and namespace.
#[derive(Clone, PartialEq, Debug)]
pub struct PeriodSums {
    pub period: Period,
    /// The period's span and observed ratio.
    pub now: ObservedSpan,
    /// The span and observed ratio of the period before.
    pub before: ObservedSpan,
    /// Sums of the period, one per step of [`super::PeriodCost::steps`]; the names are a team and a namespace.
    pub sums: Vec<UsageSum>,
    /// Sums of the period before.
    pub sums_before: Vec<UsageSum>,
}

/// True for a sum inside the scope; without a scope, for every sum.
fn is_in(scope: Option<&Scope>, sum: &UsageSum) -> bool {
    match (scope, &sum.names[..]) {
        (Some(scope), [team, namespace]) => scope.has(Some(namespace), Some(team)),
        _ => true,
    }
}

impl PeriodSums {
    /// Totals of the scope in the period and in the one before; `None` where nothing was observed.
    pub fn of(&self, scope: Option<&Scope>) -> [Option<UsageTotals>; 2] {
        let sum = |seen: &ObservedSpan, sums: &[UsageSum]| {
            seen.is_observed().then(|| {
                let mut all = UsageTotals::default();
                let own = sums.iter().filter(|sum| is_in(scope, sum));
                own.for_each(|sum| all += sum.totals);
                all
            })
        };
        [
            sum(&self.now, &self.sums),
            sum(&self.before, &self.sums_before),
        ]
    }

    /// The sums of the period within the scope.
    pub fn of_scope<'a>(&'a self, scope: Option<&'a Scope>) -> impl Iterator<Item = &'a UsageSum> {
        self.sums.iter().filter(move |sum| is_in(scope, sum))
    }

    /// What a team cost in the period within the scope, USD; `None` where nothing was observed or nothing has a price.
    pub fn of_team(&self, team: &str, scope: Option<&Scope>) -> Option<Money> {
        let is_its = |sum: &&UsageSum| sum.names.first().is_some_and(|name| *name == team);
        let own = self.of_scope(scope).filter(is_its).map(|sum| sum.totals);
        let all = own.reduce(|mut all, more| {
            all += more;
            all
        });
        match all {
            Some(all) => cost_of(&all),
            None => self.now.is_observed().then_some(Money::ZERO),
        }
    }

    /// What a scope cost in each step of the period, micro-USD; `None` where nothing was observed.
    pub fn trend(&self, scope: Option<&Scope>) -> Vec<Option<i64>> {
        let mut trend = vec![None; super::PeriodCost::steps(self.now.span)];
        for sum in &self.sums {
            let Some(step) = trend.get_mut(sum.step) else {
                continue;
            };
            // Where priced usage was observed outside the scope, the scope's own cost is zero, not unknown.
            if let Some(micros) = sum.totals.cost_micros() {
                *step = Some(step.unwrap_or(0) + if is_in(scope, sum) { micros } else { 0 });
            }
        }
        trend
    }
}

/// Everything read from the usage ledger.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct UsageFacts {
    /// Whether it could be read.
    pub status: UsageStatus,
    /// The Prometheus server that the hours were read from; `None` for the local ledger.
    pub prometheus: Option<String>,
    /// True for a demo: its ledger is in this process alone, and no command reads it.
    pub is_demo: bool,
    /// Periods that end now.
    pub periods: Vec<PeriodSums>,
    /// Sums of the month so far by pool, class and queue, each with one name.
    pub month: Vec<(SpendScope, Vec<UsageSum>)>,
    /// Budgets from the settings, in the order of the settings.
    pub budgets: Vec<BudgetState>,
    /// Energy rates and time zone of the sums.
    pub basis: CostBasis,
}

impl Facts {
    /// Sets the usage and replaces the budget findings.
    pub fn take_usage(&mut self, usage: std::sync::Arc<UsageFacts>) {
        let of_budget = |finding: &&Finding| finding.subject.kind == budgets::SUBJECT;
        let had = self
            .fleet
            .findings
            .iter()
            .any(|finding| of_budget(&finding));
        let new: Vec<Finding> = usage
            .budgets
            .iter()
            .flat_map(|state| state.findings(usage.is_demo))
            .collect();
        self.usage = usage;
        if !had && new.is_empty() {
            return;
        }
        let others = self.fleet.findings.iter();
        let mut all: Vec<Finding> = others
            .filter(|finding| !of_budget(finding))
            .cloned()
            .collect();
        all.extend(new);
        all.small_sort_by_key(|finding| finding.severity);
        std::sync::Arc::make_mut(&mut self.fleet).findings = all.into();
    }

    /// Budgets visible in the current scope; without a scope, every budget.
    pub fn budgets(&self) -> impl Iterator<Item = &BudgetState> {
        let scope = self.part.as_ref().map(|part| &part.scope);
        let all = self.usage.budgets.iter();
        all.filter(move |state| {
            scope.is_none_or(|scope| budgets::is_of(scope, &state.budget.scope))
        })
    }
}
