//! Cost over time from the usage ledger: hourly rows, the cost of a period, and monthly chargeback reports.
//!
//! All costs are estimates from list prices, never a bill, and each states what share of its span was observed.

mod facts;
mod focus;
mod hours;
mod period;
mod report;
#[cfg(test)]
mod tests;
mod units;

pub use facts::{PeriodSums, UsageFacts, UsageStatus};
pub use focus::{KEYS as FOCUS_KEYS, focus};
pub use hours::{NAMES, UsageHour, csv, hours, table};
pub use period::{ObservedSpan, PeriodCost, PeriodRow, spark};
pub use report::{IdleShare, Report, ReportRow};
pub use units::{part_words, unit_words};

use model::base::quantities::grouped;
use model::base::{Rate, SmallSort};
use model::cost::{LIST_MARK, Money};
use usage::{CalendarZone, CostPart, EnergyRates, UsageTotals, start_of};

use super::output::csv::csv_line;

/// The settings that cost reports use besides the ledger.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CostBasis {
    /// Price and carbon intensity of energy.
    pub energy: EnergyRates,
    /// The time zone that days and months are counted in.
    pub zone: CalendarZone,
}

/// Milliseconds of device time as device-hours.
pub(crate) fn device_hours(ms: i64) -> f64 {
    ms as f64 / 3.6e6
}

/// Micro-USD as USD, for JSON: exact to the micro-dollar.
pub(crate) fn usd(micros: i64) -> f64 {
    micros as f64 / 1e6
}

/// Micro-USD as a decimal number, exact: `12.345678`.
pub(crate) fn decimal(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// Rounds micro-USD cumulatively, so that the rounded rows add up to the rounded sum: to whole dollars, and to cents where the sum
/// is below ten dollars. What a price list gives is not known to the cent.
pub(crate) struct Rounded {
    /// Micro-USD of the last digit shown.
    unit: i64,
    micros: i64,
    /// Units given so far.
    units: i64,
}

impl Rounded {
    /// Rows that add up to `sum`, micro-USD.
    pub(crate) const fn to(sum: i64) -> Self {
        Self {
            unit: match sum.abs() < 10_000_000 {
                true => 10_000,
                false => 1_000_000,
            },
            micros: 0,
            units: 0,
        }
    }

    /// The next row, in the unit of the sum.
    fn count(&mut self, micros: i64) -> i64 {
        self.micros += micros;
        let units = (self.micros + self.unit / 2).div_euclid(self.unit);
        let own = units - self.units;
        self.units = units;
        own
    }

    /// The next row: `$1 204`, `$0.50`.
    pub(crate) fn next(&mut self, micros: i64) -> String {
        let count = self.count(micros);
        let sign = if count < 0 { "-" } else { "" };
        let count = count.abs();
        match self.unit {
            1_000_000 => format!("{sign}${}", grouped(count)),
            _ => format!("{sign}${}.{:02}", count / 100, count % 100),
        }
    }
}

/// A sum of money: `$1 204`, and `$4.50` below ten dollars.
pub fn dollars(micros: i64) -> String {
    Rounded::to(micros).next(micros)
}

/// The cost in USD, with its part at list prices; `None` where no device has a price.
pub fn cost_of(totals: &UsageTotals) -> Option<Money> {
    totals.cost_micros().map(|micros| Money {
        all: Rate::from_micros(micros),
        by_list: Rate::from_micros(totals.list_micros),
    })
}

/// A sum of money with the mark of list prices: `$1 204*`.
pub fn listed_dollars(sum: Money) -> String {
    dollars(sum.all.micros()) + sum.mark()
}

/// The note below marked sums: how much of the total is at list prices. `None` where nothing is.
pub fn list_words(totals: &UsageTotals) -> Option<String> {
    let cost = cost_of(totals)?;
    let percent = list_percent(cost)?;
    let (part, all) = (dollars(cost.by_list.micros()), dollars(cost.all.micros()));
    Some(format!(
        "list prices ({LIST_MARK}): {part} of {all} ({percent:.0} %); the price actually paid is unknown"
    ))
}

/// ` (78 % at list prices)`; `None` where the price paid is known.
pub fn list_share(cost: Money) -> Option<String> {
    let percent = list_percent(cost)?;
    Some(format!(" ({percent:.0} % at list prices)"))
}

/// How much of a cost is at list prices, percent; `None` where the price paid is known.
fn list_percent(cost: Money) -> Option<f64> {
    let percent = || cost.by_list.usd() / cost.all.usd().max(f64::MIN_POSITIVE) * 100.0;
    cost.is_by_list().then(percent)
}

/// A change in percent: `+12%`, `-3%`; `0%` without a sign.
pub(crate) fn percent_change(now: i64, past: i64) -> String {
    let percent = ((now - past) as f64 / past as f64 * 100.0).round();
    match percent == 0.0 {
        true => "0%".to_owned(),
        false => format!("{percent:+.0}%"),
    }
}

/// Shares in tenths of a percent that add up to 1000, by largest remainder; `None` where the sum is not positive.
pub(crate) fn shares(parts: &[i64]) -> Option<Vec<i64>> {
    let all: i128 = parts.iter().map(|part| i128::from(*part)).sum();
    if all <= 0 || parts.iter().any(|part| *part < 0) {
        return None;
    }
    let exact = parts.iter().map(|part| i128::from(*part) * 1_000);
    let mut out: Vec<(i64, i128)> = exact
        .map(|part| ((part / all) as i64, part % all))
        .collect();
    let missing = 1_000 - out.iter().map(|(tenths, _)| tenths).sum::<i64>();
    let mut order: Vec<usize> = (0..out.len()).collect();
    order.small_sort_by_key(|at| std::cmp::Reverse(out[*at].1));
    for at in order
        .into_iter()
        .take(usize::try_from(missing).unwrap_or(0))
    {
        out[at].0 += 1;
    }
    Some(out.into_iter().map(|(tenths, _)| tenths).collect())
}

/// The start of an hour: `2026-11-21 08:00`.
pub(crate) fn stamp(hour: i64) -> String {
    let text = start_of(hour).rfc3339();
    text.get(..16).unwrap_or(&text).replace('T', " ")
}

/// A CSV line that spreadsheets do not evaluate: a cell that starts like a formula gets a leading `'`.
pub(crate) fn safe_line(cells: &[String]) -> String {
    let safe = |cell: &String| match cell.chars().next() {
        // Negative and signed numbers stay numbers.
        Some('-' | '+') if cell.parse::<f64>().is_ok() => cell.clone(),
        Some('=' | '+' | '-' | '@' | '\t' | '\r' | '\n') => format!("'{cell}"),
        _ => cell.clone(),
    };
    csv_line(&cells.iter().map(safe).collect::<Vec<_>>())
}

/// Micro-USD of devices that are not allocated: unallocated and out of service.
pub(crate) fn nobodys(totals: &UsageTotals) -> i64 {
    [CostPart::Unallocated, CostPart::OutOfService]
        .iter()
        .filter_map(|part| totals.part_micros(*part))
        .sum()
}

/// Observed time in words: `97.0 % observed`. Rounded down, so that it is never 100 while something is missing.
pub(crate) fn coverage_words(ratio: f64) -> String {
    let tenths = (ratio * 1_000.0).floor() / 10.0;
    format!("{tenths:.1} % observed")
}
