//! `[[budget]]`: a limit on the cost or device-hours of a scope in a calendar period.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny};

use model::base::Name;
use model::base::document::{self, unknown};
use model::cost::BudgetUnit;
use usage::{BudgetPeriod, BudgetScope};

use super::number::Positive;

/// Maximum amount, dollars or device-hours: far below an overflow of sums.
const MOST: f64 = 1e9;
/// Maximum number of steps, and the highest step in percent.
const MOST_STEPS: usize = 10;
const HIGHEST: u32 = 1_000;

#[derive(Clone, PartialEq, Debug)]
pub struct BudgetSettings {
    pub name: String,
    /// The scope that the budget covers.
    pub scope: BudgetScope,
    /// The unit of the amount.
    pub unit: BudgetUnit,
    /// Amount, dollars or device-hours.
    pub amount: f64,
    pub period: BudgetPeriod,
    /// IANA time zone whose midnight starts a period; UTC when absent.
    pub time_zone: Option<String>,
    /// Percentages of the amount at which a finding fires, ascending.
    pub steps: Vec<u32>,
    /// Whether a forecast above the amount is a finding.
    pub forecast: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBudget {
    name: String,
    fleet: Option<bool>,
    team: Option<String>,
    queue: Option<String>,
    pool: Option<String>,
    namespace: Option<String>,
    /// Rejected with a message that names the alternative.
    label: Option<IgnoredAny>,
    usd: Option<Positive>,
    device_hours: Option<Positive>,
    period: String,
    time_zone: Option<String>,
    steps: Option<Vec<u32>>,
    forecast: Option<bool>,
}

impl<'de> Deserialize<'de> for BudgetSettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        document::whole(from, RawBudget::checked)
    }
}

impl RawBudget {
    fn checked(self) -> Result<BudgetSettings, String> {
        let name = self.name;
        if name.trim().is_empty() {
            return Err("a budget needs a name".to_owned());
        }
        if self.label.is_some() {
            return Err(format!(
                "budget `{name}`: the usage ledger has no labels: map the label to a team ([[team]] with match = {{ label = {{ KEY = \"VALUE\" }} }}) and give team = \"NAME\""
            ));
        }
        let names = [self.team, self.queue, self.pool, self.namespace];
        let parts = BudgetScope::PARTS
            .into_iter()
            .zip(names)
            .filter_map(|(by, name)| Some(BudgetScope::Part(by, Name::from(name?))));
        let whole = (self.fleet == Some(true)).then_some(BudgetScope::Fleet);
        let scopes: Vec<BudgetScope> = whole.into_iter().chain(parts).collect();
        let [scope] = &scopes[..] else {
            return Err(format!(
                "budget `{name}` is for {}: give exactly one of fleet = true, team, queue, pool and namespace",
                match scopes.len() {
                    0 => "nothing",
                    _ => "several things",
                }
            ));
        };
        if scope.name().is_some_and(|name| name.is_empty()) {
            return Err(format!("budget `{name}`: {} is empty", scope.kind()));
        }
        let (unit, amount) = match (self.usd, self.device_hours) {
            (Some(usd), None) => (BudgetUnit::Usd, usd.get()),
            (None, Some(hours)) => (BudgetUnit::DeviceHours, hours.get()),
            _ => {
                return Err(format!("budget `{name}`: give one of usd and device_hours"));
            }
        };
        if amount > MOST {
            return Err(format!("budget `{name}`: {amount} is above {MOST}"));
        }
        let known = BudgetPeriod::ALL.map(BudgetPeriod::name);
        let period = BudgetPeriod::ALL
            .into_iter()
            .find(|one| one.name() == self.period)
            .ok_or_else(|| {
                format!(
                    "budget `{name}`: {}",
                    unknown("period", &self.period, &known)
                )
            })?;
        let steps = self.steps.unwrap_or_else(|| vec![50, 80, 100]);
        let rising = steps.windows(2).all(|pair| pair[0] < pair[1]);
        let within = steps.iter().all(|step| (1..=HIGHEST).contains(step));
        if !rising || !within || steps.len() > MOST_STEPS {
            return Err(format!(
                "budget `{name}`: steps are at most {MOST_STEPS} rising percentages from 1 to {HIGHEST}, such as [50, 80, 100]"
            ));
        }
        Ok(BudgetSettings {
            name,
            scope: scope.clone(),
            unit,
            amount,
            period,
            time_zone: self.time_zone,
            steps,
            forecast: self.forecast.unwrap_or(true),
        })
    }
}
