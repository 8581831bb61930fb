//! Budgets of the settings, evaluated by the usage ledger.

use std::fs;
use std::path::{Path, PathBuf};

use model::base::{Exit, Failure, Moment, Name};
use record::usage::{UsageFault, UsageFile};
use settings::{BudgetSettings, Settings};
use table::spend::CostBasis;
use usage::{BudgetState, CalendarZone, TimeZone, UsageBudget};

use crate::runtime::host::Host;

/// Directories of the time zone database; `TZDIR` is tried before these.
const ZONES: [&str; 3] = [
    "/usr/share/zoneinfo",
    "/usr/lib/zoneinfo",
    "/usr/share/lib/zoneinfo",
];

/// The budgets of the settings.
///
/// # Errors
/// A time zone is not known on this machine.
pub fn of_settings(host: &Host, settings: &Settings) -> Result<Vec<UsageBudget>, Failure> {
    let all = settings.budget.iter().enumerate();
    all.map(|(at, budget)| {
        let name = budget.time_zone.as_deref().unwrap_or("UTC");
        let zone = zone(host, name).map_err(|why| {
            let message = format!("budget `{}`: time_zone: {why}", budget.name);
            let fault = settings.fault_of_item("budget", at, message);
            Failure::new(Exit::Usage, fault.to_string())
        })?;
        Ok(with_zone(budget, name, zone))
    })
    .collect()
}

/// Basis of the ledger's cost reports: the time zone of the settings, and price and emissions of energy.
///
/// # Errors
/// The time zone is not known on this machine.
pub fn cost_basis(host: &Host, settings: &Settings) -> Result<CostBasis, Failure> {
    let energy = settings.cost.energy();
    let Some(name) = &settings.cost.time_zone else {
        return Ok(CostBasis {
            energy,
            ..CostBasis::default()
        });
    };
    let zone = zone(host, name).map_err(|why| {
        let fault = settings.fault("cost.time_zone", why);
        Failure::new(Exit::Usage, fault.to_string())
    })?;
    Ok(CostBasis {
        energy,
        zone: CalendarZone {
            name: name.clone(),
            zone,
        },
    })
}

fn with_zone(budget: &BudgetSettings, zone_name: &str, zone: TimeZone) -> UsageBudget {
    UsageBudget {
        name: Name::new(&budget.name),
        scope: budget.scope.clone(),
        unit: budget.unit,
        limit: budget.unit.amount(budget.amount).max(1),
        period: budget.period,
        zone,
        zone_name: zone_name.to_owned(),
        steps: budget.steps.clone(),
        warns_of_forecast: budget.forecast,
    }
}

/// A time zone by its IANA name, from the database of `TZDIR` or the system's.
fn zone(host: &Host, name: &str) -> Result<TimeZone, String> {
    if name == "UTC" {
        return Ok(TimeZone::UTC);
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '/');
    let unknown = || format!("`{name}` is no IANA time zone such as Europe/Berlin");
    // A name must not be a path out of the directory.
    if name.is_empty() || name.starts_with('/') || !name.chars().all(plain) {
        return Err(unknown());
    }
    let own = host.variable("TZDIR").map(PathBuf::from);
    let places: Vec<PathBuf> = own
        .into_iter()
        .chain(ZONES.map(PathBuf::from))
        .filter(|place| place.is_dir())
        .collect();
    if places.is_empty() {
        return Err(format!(
            "this machine has no time zone database for `{name}`: install tzdata, or leave time_zone out (UTC)"
        ));
    }
    let read = |place: &PathBuf| fs::read(Path::new(place).join(name)).ok();
    let data = places.iter().find_map(read).ok_or_else(unknown)?;
    TimeZone::tzif(name, &data).map_err(|_| unknown())
}

/// States of the budgets at a moment.
///
/// # Errors
/// The ledger cannot be read.
pub fn states(
    file: &UsageFile,
    budgets: &[UsageBudget],
    at: Moment,
) -> Result<Vec<BudgetState>, UsageFault> {
    let all = budgets.iter();
    all.map(|budget| Ok(BudgetState::of(budget, &file.budget_hours(budget, at)?, at)))
        .collect()
}

#[cfg(test)]
mod tests {
    use model::cost::BudgetUnit;
    use usage::{BudgetPeriod, BudgetScope, start_of};

    use super::*;

    #[test]
    fn a_time_zone_is_a_name_of_the_database() {
        let host = Host::bare(std::sync::Arc::new(|| Moment::from_millis(0)));
        let zone = |name| zone(&host, name);
        assert_eq!(zone("UTC"), Ok(TimeZone::UTC));
        for wrong in ["", "/etc/passwd", "../../etc/passwd", "Europe/Atlantis"] {
            let why = zone(wrong).expect_err("is no zone");
            assert!(
                why.contains("is no IANA time zone") || why.contains("install tzdata"),
                "{why}"
            );
        }
        // With a time zone database, summer and winter time differ.
        if ZONES
            .iter()
            .any(|place| Path::new(place).join("Europe/Berlin").exists())
        {
            let july = Moment::parse("2026-07-10T00:00:00Z").expect("a moment");
            let budget = UsageBudget {
                name: "a".into(),
                scope: BudgetScope::Fleet,
                unit: BudgetUnit::Usd,
                limit: 1,
                period: BudgetPeriod::Quarter,
                zone: zone("Europe/Berlin").expect("is there"),
                zone_name: String::new(),
                steps: Vec::new(),
                warns_of_forecast: false,
            };
            let span = budget.span(july);
            let ends = [span.from, span.to].map(|hour| start_of(hour).rfc3339()[..13].to_owned());
            assert_eq!(ends, ["2026-06-30T22", "2026-09-30T22"]);
            let winter = budget.span(july.plus(std::time::Duration::from_secs(150 * 86_400)));
            assert_eq!(&start_of(winter.to).rfc3339()[..13], "2026-12-31T23");
        }
    }
}
