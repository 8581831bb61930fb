//! What the usage ledger of the record of a cluster tells, beside a picture of it.

use model::base::{Moment, SmallSort};
use model::fleet::finding::Finding;
use model::usage::{BudgetState, Period, UsageSum, UsageTotals};

use super::{CostBasis, Seen};
use crate::{Facts, Scope, budgets};

/// How the ledger stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum UsageStatus {
    /// It was not looked for.
    #[default]
    Unread,
    /// There is none.
    Absent,
    /// It was read, and has come to this moment.
    Read(Moment),
    /// Why it cannot be read.
    Failed(String),
}

/// What a period and the one before it came to, by team and namespace.
#[derive(Clone, PartialEq, Debug)]
pub struct PeriodSums {
    /// Which period.
    pub period: Period,
    /// The period, and how much of it was observed.
    pub now: Seen,
    /// The one before.
    pub before: Seen,
    /// Its sums, in the steps of [`super::PeriodCost::steps`]: the names of each are a team and a namespace.
    pub sums: Vec<UsageSum>,
    /// Those of the one before.
    pub sums_before: Vec<UsageSum>,
}

/// True for a sum that a scope has; without one every sum.
fn is_in(scope: Option<&Scope>, sum: &UsageSum) -> bool {
    match (scope, &sum.names[..]) {
        (Some(scope), [team, namespace]) => scope.has(Some(namespace), Some(team)),
        _ => true,
    }
}

impl PeriodSums {
    /// What a scope has of the period and of the one before it; `None` where nothing was observed.
    pub fn of(&self, scope: Option<&Scope>) -> [Option<UsageTotals>; 2] {
        let sum = |seen: &Seen, sums: &[UsageSum]| {
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

    /// What a team cost in the period, of a scope what is in it, micro-USD; `None` where nothing was observed or has a price.
    pub fn of_team(&self, team: &str, scope: Option<&Scope>) -> Option<i64> {
        let is_its = |sum: &&UsageSum| sum.names.first().is_some_and(|name| *name == team);
        let own = self.sums.iter().filter(is_its);
        let own = own.filter(|sum| is_in(scope, sum)).map(|sum| sum.totals);
        let all = own.reduce(|mut all, more| {
            all += more;
            all
        });
        match all {
            Some(all) => all.cost_micros(),
            None => self.now.is_observed().then_some(0),
        }
    }

    /// What a scope cost in each step of the period, micro-USD; `None` where nothing was observed.
    pub fn trend(&self, scope: Option<&Scope>) -> Vec<Option<i64>> {
        let mut trend = vec![None; super::PeriodCost::steps(self.now.span)];
        for sum in &self.sums {
            let Some(step) = trend.get_mut(sum.step) else {
                continue;
            };
            // Where the fleet was observed and has a price, what a scope does not have cost nothing.
            if let Some(micros) = sum.totals.cost_micros() {
                *step = Some(step.unwrap_or(0) + if is_in(scope, sum) { micros } else { 0 });
            }
        }
        trend
    }
}

/// What the ledger tells.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct UsageFacts {
    /// How it stands.
    pub status: UsageStatus,
    /// The Prometheus that the hours were read from; `None` where they are of this machine.
    pub prometheus: Option<String>,
    /// Periods that end now.
    pub periods: Vec<PeriodSums>,
    /// Budgets of the settings, in their order.
    pub budgets: Vec<BudgetState>,
    /// What periods go by.
    pub basis: CostBasis,
}

impl Facts {
    /// Takes what the ledger tells; what is to be said of budgets stands among the findings.
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
            .flat_map(BudgetState::findings)
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

    /// The budgets that whoever works in the scope may see: in a scope its own alone.
    pub fn budgets(&self) -> impl Iterator<Item = &BudgetState> {
        let scope = self.part.as_ref().map(|part| &part.scope);
        let all = self.usage.budgets.iter();
        all.filter(move |state| {
            scope.is_none_or(|scope| budgets::is_of(scope, &state.budget.scope))
        })
    }
}
