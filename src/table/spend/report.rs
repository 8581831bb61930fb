//! Monthly chargeback report: usage and cost by dimension, and how the cost of unallocated devices is split.

use serde_json::{Value, json};

use model::base::name::printable;
use model::cost::LIST_MARK;
use usage::{CostPart, Dimension, UsageSum, UsageTotals, start_of};

use super::period::ObservedSpan;
use super::{
    CostBasis, Rounded, coverage_words, decimal, device_hours, dollars, list_words, nobodys,
    safe_line, units, usd,
};
use crate::UNATTRIBUTED;
use crate::table::{cell, text_table};
use crate::text::UNKNOWN;

/// How the cost of unallocated devices is split among the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IdleShare {
    /// Not split: a row of its own.
    #[default]
    Separate,
    /// Split equally among the rows that have a cost.
    Share,
    /// Split in proportion to each row's own cost.
    Weighted,
}

impl IdleShare {
    pub const ALL: [Self; 3] = [Self::Separate, Self::Share, Self::Weighted];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Separate => "separate",
            Self::Share => "share",
            Self::Weighted => "weighted",
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct ReportRow {
    /// Values of the dimensions, in the order of the dimensions; empty where one has no value.
    pub names: Vec<String>,
    /// The row's usage in the ledger.
    pub totals: UsageTotals,
    /// Cost of its allocated device time, micro-USD; `None` without a price.
    pub own_micros: Option<i64>,
    /// Its share of the cost of unallocated devices, micro-USD.
    pub idle_micros: i64,
}

impl ReportRow {
    /// Total cost charged to the row, micro-USD.
    pub fn cost_micros(&self) -> Option<i64> {
        match self.own_micros {
            Some(own) => Some(own + self.idle_micros),
            None => (self.idle_micros > 0).then_some(self.idle_micros),
        }
    }
}

/// A chargeback report. Its rows add up to the ledger's total for the month, to the micro-dollar.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The calendar month, written `2026-10`.
    pub month: String,
    /// Span of the month and its observed ratio.
    pub seen: ObservedSpan,
    /// Hours of the month that are still open.
    pub open: i64,
    /// Dimensions of the rows.
    pub by: Vec<Dimension>,
    /// How the cost of unallocated devices is split.
    pub idle: IdleShare,
    /// Rows, ordered by the values of the dimensions.
    pub rows: Vec<ReportRow>,
    /// The ledger's total for the month.
    pub total: UsageTotals,
    /// Energy rates and time zone of the sums.
    pub basis: CostBasis,
}

impl Report {
    /// Builds the report from the ledger's sums.
    pub fn new(
        month: &str,
        seen: ObservedSpan,
        open: i64,
        by: &[Dimension],
        idle: IdleShare,
        sums: Vec<UsageSum>,
        basis: CostBasis,
    ) -> Self {
        let mut total = UsageTotals::default();
        let mut free = 0;
        let mut rows: Vec<ReportRow> = Vec::new();
        for sum in sums {
            total += sum.totals;
            let nobodys = nobodys(&sum.totals);
            free += nobodys;
            let own = sum.totals.cost_micros().map(|cost| cost - nobodys);
            let row = ReportRow {
                names: sum.names,
                totals: sum.totals,
                own_micros: own,
                idle_micros: 0,
            };
            // Sums with unallocated time alone are covered by the unallocated row or its split.
            if sum.totals.allocated_ms() > 0 {
                rows.push(row);
            }
        }
        let weights: Vec<i128> = rows
            .iter()
            .map(|row| match (idle, row.own_micros) {
                (IdleShare::Separate, _) | (_, None) => 0,
                (IdleShare::Share, Some(own)) => i128::from(own > 0),
                (IdleShare::Weighted, Some(own)) => i128::from(own),
            })
            .collect();
        let all: i128 = weights.iter().sum();
        if all > 0 {
            let (mut sum, mut given) = (0, 0);
            for (row, weight) in rows.iter_mut().zip(weights) {
                sum += weight;
                let upto = (i128::from(free) * sum / all) as i64;
                row.idle_micros = upto - given;
                given = upto;
            }
        } else if total.unallocated_ms + total.out_of_service_ms > 0 {
            let known = total.parts_micros.is_some();
            rows.push(ReportRow {
                names: vec![String::new(); by.len()],
                totals: UsageTotals {
                    unallocated_ms: total.unallocated_ms,
                    out_of_service_ms: total.out_of_service_ms,
                    ..UsageTotals::default()
                },
                own_micros: known.then_some(0),
                idle_micros: free,
            });
        }
        Self {
            month: month.to_owned(),
            seen,
            open,
            by: by.to_vec(),
            idle,
            rows,
            total,
            basis,
        }
    }

    /// Notes above the report: the month, its observed ratio, and what the sums leave out.
    pub fn notes(&self) -> Vec<String> {
        let zone = &self.basis.zone;
        let (from, to) = (
            zone.stamp(self.seen.span.from),
            zone.stamp(self.seen.span.to),
        );
        let mut notes = vec![
            format!(
                "{from} to {to} {}, {}",
                zone.name,
                coverage_words(self.seen.ratio)
            ),
            "estimates from list prices, not a bill; time that was not observed is not in the totals".to_owned(),
        ];
        notes.extend(list_words(&self.total));
        if self.open > 0 {
            notes.push("the month is not over: its last hour is still open".to_owned());
        }
        if self.total.unpriced_ms > 0 {
            notes.push(format!(
                "{:.1} device-hours have no price and are not in the totals",
                device_hours(self.total.unpriced_ms)
            ));
        }
        notes
    }

    fn label(&self, row: &ReportRow, at: usize) -> String {
        let nobodys = row.totals.allocated_ms() == 0;
        match row.names[at].as_str() {
            "" if at == 0 && nobodys => "(unallocated)".to_owned(),
            "" if nobodys => String::new(),
            "" => UNATTRIBUTED.to_owned(),
            name => name.to_owned(),
        }
    }

    /// Cells of each row, then of the total. Rounded money of the rows add up to those of the total.
    fn lines(&self) -> Vec<Vec<String>> {
        let unknown = || UNKNOWN.to_owned();
        let cost = self.total.cost_micros();
        let free: i64 = self.rows.iter().map(|row| row.idle_micros).sum();
        let (mut all, mut idle) = (Rounded::to(cost.unwrap_or_default()), Rounded::to(free));
        let mut lines = Vec::new();
        let marked = |sum: String, is_listed: bool| sum + if is_listed { LIST_MARK } else { "" };
        let figures = |totals: &UsageTotals, cost: Option<String>, free: String| {
            let lost = [CostPart::LostToFailure, CostPart::LostToPreemption];
            let lost: Option<i64> = lost.iter().map(|part| totals.part_micros(*part)).sum();
            let part = |micros: Option<i64>| micros.map_or_else(unknown, dollars);
            vec![
                format!("{:.2}", device_hours(totals.allocated_ms())),
                format!("{:.2}", device_hours(totals.busy_ms)),
                part(totals.part_micros(CostPart::Idle)),
                part(lost),
                free,
                cost.unwrap_or_else(unknown),
            ]
        };
        for row in &self.rows {
            let mut line: Vec<String> = (0..self.by.len()).map(|at| self.label(row, at)).collect();
            let is_listed =
                row.totals.list_micros > 0 || (row.idle_micros > 0 && self.total.list_micros > 0);
            let cost = row
                .cost_micros()
                .map(|micros| marked(all.next(micros), is_listed));
            line.extend(figures(&row.totals, cost, idle.next(row.idle_micros)));
            lines.push(line);
        }
        let mut line = vec![String::new(); self.by.len()];
        line[0] = "total".to_owned();
        let cost = cost.map(|micros| marked(dollars(micros), self.total.list_micros > 0));
        line.extend(figures(&self.total, cost, dollars(free)));
        lines.push(line);
        lines
    }

    fn titles(&self) -> Vec<(&'static str, bool)> {
        let names = self.by.iter().map(|by| (by.name(), false));
        let figures = [
            "alloc h",
            "busy h",
            "idle $",
            "lost $",
            "unallocated $",
            "cost",
        ];
        names.chain(figures.map(|title| (title, true))).collect()
    }

    pub fn table(&self) -> String {
        let lines: Vec<Vec<String>> = self
            .lines()
            .iter()
            .map(|line| line.iter().map(|text| cell(text)).collect())
            .collect();
        let table = text_table(self.titles(), &lines, true);
        format!("{}\n\n{table}", self.notes().join("\n"))
    }

    pub fn markdown(&self) -> String {
        let titles = self.titles();
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut out = format!("# Cost of {}\n\n", self.month);
        for note in self.notes() {
            out.push_str(&format!("- {note}\n"));
        }
        out.push('\n');
        out.push_str(&line(
            titles
                .iter()
                .map(|(title, _)| (*title).to_owned())
                .collect(),
        ));
        let rules = titles
            .iter()
            .map(|(_, right)| if *right { "---:" } else { "---" });
        out.push_str(&line(rules.map(str::to_owned).collect()));
        for cells in self.lines() {
            out.push_str(&line(cells.iter().map(|text| marked(text)).collect()));
        }
        out
    }

    /// As CSV; each line repeats the observed ratio.
    pub fn csv(&self) -> String {
        let mut titles: Vec<String> = self.by.iter().map(|by| by.name().to_owned()).collect();
        titles.extend(["cost_usd", "own_usd", "unallocated_share_usd"].map(str::to_owned));
        let held = CostPart::ALL.into_iter().filter(is_held);
        titles.extend(held.clone().map(|part| format!("{}_usd", part.field())));
        titles.extend(
            [
                "allocated_device_hours",
                "busy_device_hours",
                "energy_wh",
                "month",
                "observed_ratio",
            ]
            .map(str::to_owned),
        );
        titles.extend(units::FIELDS.map(str::to_owned));
        let mut out = safe_line(&titles);
        for row in &self.rows {
            let money = |micros: Option<i64>| micros.map(decimal).unwrap_or_default();
            let mut cells: Vec<String> = (0..self.by.len()).map(|at| self.label(row, at)).collect();
            cells.extend([
                money(row.cost_micros()),
                money(row.own_micros),
                decimal(row.idle_micros),
            ]);
            cells.extend(held.clone().map(|part| money(row.totals.part_micros(part))));
            let wh = row
                .totals
                .energy_mwh
                .map(|mwh| format!("{:.3}", mwh as f64 / 1e3));
            cells.extend([
                format!("{:.6}", device_hours(row.totals.allocated_ms())),
                format!("{:.6}", device_hours(row.totals.busy_ms)),
                wh.unwrap_or_default(),
                self.month.clone(),
                format!("{:.6}", self.seen.ratio),
            ]);
            cells.extend(units::csv(&row.totals, self.basis.energy));
            out.push_str(&safe_line(&cells));
        }
        out
    }

    /// As one JSON document.
    pub fn json(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            let mut value = json!({
                "cost_usd": row.cost_micros().map(usd),
                "own_usd": row.own_micros.map(usd),
                "unallocated_share_usd": usd(row.idle_micros),
                "allocated_device_hours": device_hours(row.totals.allocated_ms()),
                "busy_device_hours": device_hours(row.totals.busy_ms),
                "energy_wh": row.totals.energy_mwh.map(|mwh| mwh as f64 / 1e3),
            });
            if let Value::Object(fields) = &mut value {
                for (at, by) in self.by.iter().enumerate() {
                    let name = Some(&row.names[at]).filter(|name| !name.is_empty());
                    fields.insert(by.name().to_owned(), json!(name));
                }
                for part in CostPart::ALL.into_iter().filter(is_held) {
                    let micros = row.totals.part_micros(part);
                    fields.insert(format!("{}_usd", part.field()), json!(micros.map(usd)));
                }
                units::json(&row.totals, self.basis.energy, fields);
            }
            value
        });
        let document = json!({
            "month": self.month,
            "from": start_of(self.seen.span.from).rfc3339(),
            "to": start_of(self.seen.span.to).rfc3339(),
            "observed_ratio": self.seen.ratio,
            "open_hours": self.open,
            "by": self.by.iter().map(|by| by.name()).collect::<Vec<_>>(),
            "idle": self.idle.name(),
            "rows": rows.collect::<Vec<Value>>(),
            "total_cost_usd": self.total.cost_micros().map(usd),
            "unpriced_device_hours": device_hours(self.total.unpriced_ms),
            "notes": self.notes(),
            "energy_rates": units::rates_json(self.basis.energy),
            "time_zone": self.basis.zone.name,
        });
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    }
}

fn is_held(part: &CostPart) -> bool {
    !matches!(part, CostPart::Unallocated | CostPart::OutOfService)
}

/// Escapes a text for a cell of a Markdown table.
fn marked(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut out = String::new();
    for c in printable(&line).chars() {
        if matches!(
            c,
            '|' | '\\' | '`' | '*' | '_' | '<' | '>' | '[' | ']' | '&' | '#' | '~'
        ) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
