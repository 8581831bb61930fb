//! The cost of a period by one dimension: the period before, a trend, a breakdown by cost part, and unit costs.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use model::base::SmallSort;
use model::cost::Money;
use usage::{CostPart, Dimension, EnergyRates, Span, UsageSum, UsageTotals, start_of};

use super::{
    CostBasis, Rounded, cost_of, coverage_words, device_hours, dollars, list_words, percent_change,
    safe_line, shares, units, usd,
};
use crate::UNATTRIBUTED;
use crate::table::{cell, text_table};
use crate::text::UNKNOWN;

/// A span and its observed ratio.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ObservedSpan {
    pub span: Span,
    /// Observed time as a share of the elapsed part of the span, 0 to 1.
    pub ratio: f64,
}

impl ObservedSpan {
    /// True where anything was observed.
    pub fn is_observed(&self) -> bool {
        self.ratio > 0.0
    }
}

/// One row of a period's cost.
#[derive(Clone, PartialEq, Debug)]
pub struct PeriodRow {
    /// The value of the dimension; `unattributed` where it has none.
    pub name: String,
    /// Totals of the period.
    pub now: UsageTotals,
    /// Totals of the period before; `None` where it was not observed.
    pub before: Option<UsageTotals>,
    /// Cost of each step of the period, micro-USD; `None` where nothing was observed.
    pub trend: Vec<Option<i64>>,
}

impl PeriodRow {
    /// Cost of the period before, micro-USD: zero where the row did not exist, `None` where nothing was observed.
    fn before_micros(&self) -> Option<i64> {
        self.before.and_then(|before| match before {
            before if before == UsageTotals::default() => Some(0),
            before => before.cost_micros(),
        })
    }
}

/// The cost of a period, compared with the period before.
#[derive(Clone, PartialEq, Debug)]
pub struct PeriodCost {
    /// Name of the period, such as `7d`.
    pub name: String,
    /// The dimension of its rows.
    pub by: Dimension,
    /// Span and observed ratio of the period.
    pub now: ObservedSpan,
    /// Span and observed ratio of the period before.
    pub before: ObservedSpan,
    /// Rows by descending cost; usage without a value of the dimension is last.
    pub rows: Vec<PeriodRow>,
    /// The sum of the rows.
    pub total: PeriodRow,
    /// Energy rates and time zone of the sums.
    pub basis: CostBasis,
}

/// A span of at most this many hours gets one trend step an hour.
const STEPS: i64 = 24;

impl PeriodCost {
    /// The number of trend steps of a span: hours up to a day, half days up to a week, days beyond.
    pub fn steps(span: Span) -> usize {
        let hours = span.hours().max(1);
        let steps = match hours {
            ..=STEPS => hours,
            hours if hours <= 7 * 24 => (hours + 11) / 12,
            hours => (hours + 23) / 24,
        };
        steps as usize
    }

    /// Joins the sums of both periods by row; `sums` are split into steps, `sums_before` are one step.
    pub fn new(
        name: &str,
        by: Dimension,
        now: ObservedSpan,
        sums: &[UsageSum],
        before: ObservedSpan,
        sums_before: &[UsageSum],
        basis: CostBasis,
    ) -> Self {
        let steps = Self::steps(now.span);
        let fresh = |name: &str| PeriodRow {
            name: name.to_owned(),
            now: UsageTotals::default(),
            before: before.is_observed().then(UsageTotals::default),
            trend: vec![None; steps],
        };
        let mut total = fresh("total");
        let mut rows: BTreeMap<&str, PeriodRow> = BTreeMap::new();
        let label = |sum: &UsageSum| sum.names.first().is_none_or(String::is_empty);
        let name_of = |sum: &'_ UsageSum| match label(sum) {
            true => UNATTRIBUTED.to_owned(),
            false => sum.names[0].clone(),
        };
        let names: Vec<String> = sums.iter().chain(sums_before).map(name_of).collect();
        for (sum, name) in sums.iter().zip(&names) {
            let row = rows.entry(name).or_insert_with(|| fresh(name));
            for row in [row, &mut total] {
                row.now += sum.totals;
                if let (Some(step), Some(micros)) =
                    (row.trend.get_mut(sum.step), sum.totals.cost_micros())
                {
                    *step = Some(step.unwrap_or(0) + micros);
                }
            }
        }
        for (sum, name) in sums_before.iter().zip(&names[sums.len()..]) {
            let row = rows.entry(name).or_insert_with(|| fresh(name));
            for row in [row, &mut total] {
                if let Some(before) = &mut row.before {
                    *before += sum.totals;
                }
            }
        }
        // In an observed step, a row without usage cost zero.
        for row in rows.values_mut() {
            for (own, all) in row.trend.iter_mut().zip(&total.trend) {
                *own = own.or(all.map(|_| 0));
            }
        }
        let mut rows: Vec<PeriodRow> = rows.into_values().collect();
        rows.small_sort_by_key(|row| {
            let cost = row.now.cost_micros().unwrap_or(0);
            (row.name == UNATTRIBUTED, std::cmp::Reverse(cost))
        });
        Self {
            name: name.to_owned(),
            by,
            now,
            before,
            rows,
            total,
            basis,
        }
    }

    /// As a table with a summary below; `wide` adds unit costs to each row.
    pub fn table(&self, wide: bool) -> String {
        let mut titles = vec![
            (title(self.by), false),
            ("COST", true),
            ("BEFORE", true),
            ("CHANGE", true),
            ("TREND", false),
            ("ALLOC H", true),
            ("$/ALLOC H", true),
            ("$/BUSY H", true),
            ("USEFUL", true),
            ("IDLE", true),
        ];
        if wide {
            titles.extend([
                ("JOBS", true),
                ("$/JOB", true),
                ("SPOT SAVED", true),
                ("ENERGY", true),
                ("ENERGY $", true),
                ("CO2E KG", true),
            ]);
        }
        let rounded = |micros: Option<i64>| Rounded::to(micros.unwrap_or_default());
        let sums = || {
            let total = &self.total;
            let (now, before) = (total.now.cost_micros(), total.before_micros());
            (rounded(now), rounded(before))
        };
        let (mut now, mut before) = sums();
        let mut lines: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| line(row, &mut now, &mut before))
            .collect();
        let (mut now, mut before) = sums();
        lines.push(line(&self.total, &mut now, &mut before));
        if wide {
            let rows = self.rows.iter().chain([&self.total]);
            for (line, row) in lines.iter_mut().zip(rows) {
                line.extend(units(&row.now, self.basis.energy));
            }
        }
        let table = text_table(titles, &lines, true);
        format!("{}\n\n{table}\n{}", self.headline(), self.summary())
    }

    /// Both spans with their observed ratios.
    pub fn headline(&self) -> String {
        let of = |seen: &ObservedSpan| {
            let zone = &self.basis.zone;
            let (from, to) = (zone.stamp(seen.span.from), zone.stamp(seen.span.to));
            format!("{from} to {to}, {}", coverage_words(seen.ratio))
        };
        format!(
            "{}: {} ({}; estimates from list prices)\nbefore: {}",
            self.name,
            of(&self.now),
            self.basis.zone.name,
            of(&self.before)
        )
    }

    /// Cost parts, unit costs, energy, and unpriced usage.
    fn summary(&self) -> String {
        let total = &self.total.now;
        let mut lines = Vec::new();
        match total
            .parts_micros
            .and_then(|parts| Some((parts, shares(&parts)?)))
        {
            Some((parts, tenths)) => {
                lines.push("Where each dollar went:".to_owned());
                let mut rounded = Rounded::to(parts.iter().sum());
                let known = CostPart::ALL.iter().zip(parts).zip(tenths);
                for ((part, micros), tenths) in
                    known.filter(|((part, _), _)| total.part_micros(**part).is_some())
                {
                    lines.push(format!(
                        "  {:<18} {:>5}.{} %  {:>14}",
                        part.words(),
                        tenths / 10,
                        tenths % 10,
                        rounded.next(micros),
                    ));
                }
            }
            None if total.cost_micros() == Some(0) => lines.push("Nothing was spent.".to_owned()),
            None => lines.push("What it cost is unknown.".to_owned()),
        }
        let words = units::unit_words(total, self.basis.energy);
        if !words.is_empty() {
            lines.push(format!("Unit costs: {}", words.join(" · ")));
        }
        lines.extend(list_words(total));
        if total.energy_mwh.is_some() {
            lines.push("Energy covers only the devices that report it.".to_owned());
        }
        if total.unpriced_ms > 0 {
            lines.push(format!(
                "Without a price, not in the totals: {:.1} device-hours",
                device_hours(total.unpriced_ms)
            ));
        }
        lines.push(String::new());
        lines.join("\n")
    }

    /// As one JSON document.
    pub fn json(&self) -> String {
        let seen = |seen: &ObservedSpan| {
            json!({
                "from": start_of(seen.span.from).rfc3339(),
                "to": start_of(seen.span.to).rfc3339(),
                "observed_ratio": seen.ratio,
            })
        };
        let rows = self.rows.iter().map(|row| row_json(row, self.basis.energy));
        let document = json!({
            "period": self.name,
            "by": self.by.name(),
            "now": seen(&self.now),
            "before": seen(&self.before),
            "rows": rows.collect::<Vec<Value>>(),
            "total": row_json(&self.total, self.basis.energy),
            "energy_rates": units::rates_json(self.basis.energy),
            "time_zone": self.basis.zone.name,
        });
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    }

    /// As CSV, one line a row; each line repeats the observed ratio.
    pub fn csv(&self) -> String {
        let mut titles = vec![
            self.by.name().to_owned(),
            "cost_usd".to_owned(),
            "before_cost_usd".to_owned(),
        ];
        titles.extend(CostPart::ALL.map(|part| format!("{}_usd", part.field())));
        titles.extend(
            [
                "allocated_device_hours",
                "busy_device_hours",
                "usd_per_allocated_device_hour",
                "usd_per_busy_device_hour",
                "energy_wh",
                "unpriced_device_hours",
                "from",
                "to",
                "observed_ratio",
                "before_observed_ratio",
            ]
            .map(str::to_owned),
        );
        titles.extend(units::FIELDS.map(str::to_owned));
        let mut out = safe_line(&titles);
        for row in &self.rows {
            let money = |micros: Option<i64>| micros.map(super::decimal).unwrap_or_default();
            let rate = |usd: Option<f64>| usd.map(|usd| format!("{usd:.6}")).unwrap_or_default();
            let mut cells = vec![
                row.name.clone(),
                money(row.now.cost_micros()),
                money(row.before_micros()),
            ];
            cells.extend(CostPart::ALL.map(|part| money(row.now.part_micros(part))));
            cells.extend([
                format!("{:.6}", device_hours(row.now.allocated_ms())),
                format!("{:.6}", device_hours(row.now.busy_ms)),
                rate(row.now.usd_per_allocated_hour()),
                rate(row.now.usd_per_busy_hour()),
                row.now
                    .energy_mwh
                    .map(|mwh| format!("{:.3}", mwh as f64 / 1e3))
                    .unwrap_or_default(),
                format!("{:.6}", device_hours(row.now.unpriced_ms)),
                start_of(self.now.span.from).rfc3339(),
                start_of(self.now.span.to).rfc3339(),
                format!("{:.6}", self.now.ratio),
                format!("{:.6}", self.before.ratio),
            ]);
            cells.extend(units::csv(&row.now, self.basis.energy));
            out.push_str(&safe_line(&cells));
        }
        out
    }
}

fn title(by: Dimension) -> &'static str {
    match by {
        Dimension::Pool => "POOL",
        Dimension::Class => "CLASS",
        Dimension::Billing => "BILLING",
        Dimension::Zone => "ZONE",
        Dimension::Namespace => "NAMESPACE",
        Dimension::Team => "TEAM",
        Dimension::Queue => "QUEUE",
        Dimension::Owner => "OWNER",
        Dimension::Job => "JOB",
        Dimension::Model => "MODEL",
    }
}

fn line(row: &PeriodRow, now: &mut Rounded, before: &mut Rounded) -> Vec<String> {
    let unknown = || UNKNOWN.to_owned();
    let (cost, past) = (row.now.cost_micros(), row.before_micros());
    let money = |micros: Option<i64>, of: Option<&UsageTotals>, rounded: &mut Rounded| {
        let mark = of.and_then(cost_of).map_or("", Money::mark);
        micros.map_or_else(unknown, |micros| rounded.next(micros) + mark)
    };
    let share = |parts: &[CostPart]| {
        let all = cost.filter(|all| *all > 0)?;
        let own: i64 = parts
            .iter()
            .filter_map(|part| row.now.part_micros(*part))
            .sum();
        Some(format!("{:.0}%", own as f64 / all as f64 * 100.0))
    };
    let rate = |usd: Option<f64>| usd.map_or_else(unknown, |usd| format!("${usd:.2}"));
    let seen = row.trend.iter().any(Option::is_some);
    let nothing = seen && row.now == UsageTotals::default();
    // In an observed period, a row without usage cost zero.
    let known = cost.or(nothing.then_some(0));
    let change = known.zip(past.filter(|past| *past > 0));
    vec![
        cell(&row.name),
        money(known, Some(&row.now), now),
        money(past, row.before.as_ref(), before),
        change.map_or_else(unknown, |(now, past)| percent_change(now, past)),
        spark(&row.trend),
        format!("{:.1}", device_hours(row.now.allocated_ms())),
        rate(row.now.usd_per_allocated_hour()),
        rate(row.now.usd_per_busy_hour()),
        share(&[CostPart::Useful]).unwrap_or_else(unknown),
        share(&[CostPart::Idle]).unwrap_or_else(unknown),
    ]
}

/// The unit cost cells of a row.
fn units(totals: &UsageTotals, energy: EnergyRates) -> [String; 6] {
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    [
        or_unknown(totals.finished.map(|jobs| jobs.to_string())),
        or_unknown(totals.usd_per_finished_job().map(units::money)),
        or_unknown(totals.spot_saved_micros.map(dollars)),
        or_unknown(totals.energy_mwh.map(units::kwh)),
        or_unknown(energy.usd(totals.energy_mwh).map(units::money)),
        or_unknown(energy.kg_co2e(totals.energy_mwh).map(units::kg)),
    ]
}

/// A trend as bars from zero to its maximum; `·` where nothing was observed.
pub fn spark(trend: &[Option<i64>]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = trend.iter().flatten().max().copied().unwrap_or(0).max(1);
    let bar = |micros: i64| BARS[(i128::from(micros.max(0)) * 7 / i128::from(most)) as usize];
    trend.iter().map(|step| step.map_or('·', bar)).collect()
}

fn row_json(row: &PeriodRow, energy: EnergyRates) -> Value {
    let parts = CostPart::ALL.iter().map(|part| {
        let micros = row.now.part_micros(*part);
        (format!("{}_usd", part.field()), json!(micros.map(usd)))
    });
    let mut value = json!({
        "name": row.name,
        "cost_usd": row.now.cost_micros().map(usd),
        "list_usd": row.now.cost_micros().map(|_| usd(row.now.list_micros)),
        "before_cost_usd": row.before_micros().map(usd),
        "allocated_device_hours": device_hours(row.now.allocated_ms()),
        "busy_device_hours": device_hours(row.now.busy_ms),
        "usd_per_allocated_device_hour": row.now.usd_per_allocated_hour(),
        "usd_per_busy_device_hour": row.now.usd_per_busy_hour(),
        "energy_wh": row.now.energy_mwh.map(|mwh| mwh as f64 / 1e3),
        "unpriced_device_hours": device_hours(row.now.unpriced_ms),
        "trend_usd": row.trend.iter().map(|step| step.map(usd)).collect::<Vec<_>>(),
    });
    if let Value::Object(fields) = &mut value {
        fields.extend(parts);
        units::json(&row.now, energy, fields);
    }
    value
}
