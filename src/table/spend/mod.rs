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
pub use hours::{FIELDS, SCHEMA, UsageHour, csv, hours, table};
pub use period::{PeriodCost, PeriodRow, Seen, spark};
pub use report::{IdleShare, Report, ReportRow, UNALLOCATED};
pub use units::unit_words;

use model::base::SmallSort;
use model::base::quantities::grouped;
use model::usage::{CalendarZone, CostPart, EnergyRates, UsageTotals, start_of};

use super::output::csv_line;

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

/// Cents as dollars: `$1 204.50`.
pub fn dollars(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    let cents = cents.abs();
    format!("{sign}${}.{:02}", grouped(cents / 100), cents % 100)
}

/// Rounds micro-USD to cents cumulatively, so that the rounded rows add up to the rounded sum.
#[derive(Default)]
pub(crate) struct Cents {
    micros: i64,
    cents: i64,
}

impl Cents {
    pub(crate) fn next(&mut self, micros: i64) -> i64 {
        self.micros += micros;
        let cents = (self.micros + 5_000).div_euclid(10_000);
        let own = cents - self.cents;
        self.cents = cents;
        own
    }
}

/// Shares in tenths of a percent that add up to 1000, by largest remainder; `None` where the sum is not positive.
pub fn shares(parts: &[i64]) -> Option<Vec<i64>> {
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
