//! Queries sums and rows from the usage ledger's file.

use model::base::{Moment, Name};
use model::cost::BudgetUnit;
use model::cost::prices::STAND_IN_REMARKS;
use model::fleet::node::Billing;
use rusqlite::types::Value;
use rusqlite::{Row, params, params_from_iter};
use usage::{
    BudgetHours, BudgetScope, Dimension, HOUR_MS, HourAmount, HourAmounts, HourRow, Span,
    UsageBudget, UsageFilter, UsageKey, UsageSum, UsageTotals,
};

use super::fault::UsageFault;
use super::store::{HOUR, UsageFile};

/// How much of a time range was observed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObservedRatio {
    /// Time in which the fleet was observed, milliseconds.
    pub observed_ms: i64,
    /// Number of open hours in the range.
    pub open: i64,
}

/// The figures of rows of `usage`.
const SUMS: &str = "total(busy_ms), total(idle_ms), total(not_read_ms), total(unallocated_ms), total(out_of_service_ms),
  total(unobserved_ms), total(lost_failure_ms), total(lost_preemption_ms),
  total(CASE WHEN cost_micros IS NULL THEN 0 ELSE allocated_ms END), total(CASE WHEN cost_micros IS NULL THEN 0 ELSE busy_ms END),
  total(CASE WHEN cost_micros IS NULL THEN allocated_ms + unallocated_ms + out_of_service_ms ELSE 0 END),
  sum(energy_milliwatt_hours), sum(useful_micros), sum(under_used_micros), sum(idle_micros), sum(not_read_micros), sum(unallocated_micros),
  sum(out_of_service_micros), sum(lost_failure_micros), sum(lost_preemption_micros),
  total(CASE billing WHEN 'spot' THEN allocated_ms + unallocated_ms + out_of_service_ms ELSE 0 END),
  total(CASE WHEN energy_milliwatt_hours IS NULL THEN 0 ELSE allocated_ms + unallocated_ms + out_of_service_ms END)";

/// The sources of prices that stand in for what is paid, as a query.
fn stand_ins() -> String {
    let says = |remark: &&str| format!("instr(k.price_source, '{remark}') > 0");
    let [of_spot, others @ ..] = &STAND_IN_REMARKS;
    let others: Vec<String> = others.iter().map(says).collect();
    format!(
        "SELECT k.price_source FROM keys k WHERE {} OR (instr(k.price_source, 'settings: ') <> 1 AND ({}))",
        says(of_spot),
        others.join(" OR ")
    )
}

/// Figures of [`SUMS`], then the cost at prices that stand in for what is paid.
fn sums_columns() -> String {
    format!(
        "{SUMS}, total(CASE WHEN price_source IN ({}) THEN cost_micros END)",
        stand_ins()
    )
}

/// Reads the columns of [`sums_columns`], from column `at` on.
fn totals(row: &Row<'_>, at: usize) -> rusqlite::Result<UsageTotals> {
    // Floating-point sums are exact up to 2^53: 285,000 device-years in milliseconds, nine billion dollars in micro-dollars.
    let time = |index: usize| row.get::<_, f64>(at + index).map(|sum| sum as i64);
    let mut parts = Some([0; 8]);
    for index in 0..8 {
        let micros: Option<i64> = row.get(at + 12 + index)?;
        parts = parts.zip(micros).map(|(mut parts, micros)| {
            parts[index] = micros;
            parts
        });
    }
    let mut totals = UsageTotals {
        busy_ms: time(0)?,
        idle_ms: time(1)?,
        not_read_ms: time(2)?,
        unallocated_ms: time(3)?,
        out_of_service_ms: time(4)?,
        unobserved_ms: time(5)?,
        lost_failure_ms: time(6)?,
        lost_preemption_ms: time(7)?,
        losses_unknown: false,
        priced_allocated_ms: time(8)?,
        priced_busy_ms: time(9)?,
        unpriced_ms: time(10)?,
        spot_ms: time(20)?,
        spot_listed_ms: 0,
        spot_saved_micros: None,
        finished: None,
        energy_mwh: row.get(at + 11)?,
        metered_ms: time(21)?,
        list_micros: time(22)?,
        parts_micros: parts,
    };
    // Without observed time the cost is unknown, not zero.
    if totals.observed_ms() == 0 {
        totals.parts_micros = None;
    }
    Ok(totals)
}

/// The SQL condition of a filter. Its values are parameters, from the third on.
fn condition(only: &UsageFilter) -> String {
    let mut text = String::new();
    let mut next = 3;
    if only.team.is_some() {
        text.push_str(" AND team = ?3");
        next += 1;
    }
    if !only.namespaces.is_empty() {
        let all = next..next + only.namespaces.len();
        let all: Vec<String> = all.map(|at| format!("?{at}")).collect();
        text.push_str(&format!(" AND namespace IN ({})", all.join(", ")));
    }
    text
}

fn bounds(span: Span, only: &UsageFilter) -> Vec<Value> {
    let ends = [span.from, span.to].map(|hour| Value::Integer(hour * HOUR));
    let names = only.team.iter().chain(&only.namespaces);
    let names = names.map(|name| Value::Text(name.clone()));
    ends.into_iter().chain(names).collect()
}

/// Grouping of a query.
#[derive(Clone, Copy)]
struct SumGrouping<'a> {
    span: Span,
    by: &'a [Dimension],
    steps: usize,
    only: &'a UsageFilter,
}

/// Adds figures to the sums with the same names and step. Both lists are sorted.
fn add(sums: &mut Vec<UsageSum>, more: Vec<UsageSum>) {
    for other in more {
        let place =
            sums.binary_search_by(|sum| (&sum.names, sum.step).cmp(&(&other.names, other.step)));
        match place {
            Ok(at) => sums[at].totals += other.totals,
            // A job that ended after the last time it had devices allocated.
            Err(at) => sums.insert(at, other),
        }
    }
}

fn column(by: Dimension) -> &'static str {
    match by {
        Dimension::Job => "CASE job WHEN '' THEN '' ELSE namespace || '/' || job END",
        other => other.name(),
    }
}

impl UsageFile {
    /// The sums of a time range by dimensions, each in `steps` equal steps, sorted by the dimensions' values.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn sums(
        &self,
        span: Span,
        by: &[Dimension],
        steps: usize,
        only: &UsageFilter,
    ) -> Result<Vec<UsageSum>, UsageFault> {
        let of = SumGrouping {
            span,
            by,
            steps,
            only,
        };
        let mut sums = self.grouped(of, "usage", "hour_start", &sums_columns(), totals)?;
        for sum in &mut sums {
            sum.totals.losses_unknown = self.ends_unknown;
        }
        if self.counts_finished(span)? {
            sums.iter_mut()
                .for_each(|sum| sum.totals.finished = Some(0));
            let jobs = |row: &Row<'_>, at: usize| {
                Ok(UsageTotals {
                    finished: Some(row.get(at)?),
                    ..UsageTotals::default()
                })
            };
            let from = "finished f JOIN keys ON keys.id = f.key";
            add(
                &mut sums,
                self.grouped(of, from, "f.hour", "count(*)", jobs)?,
            );
        }
        let saved = |row: &Row<'_>, at: usize| {
            let listed: i64 = row.get(at + 1)?;
            Ok(UsageTotals {
                // Rows that contain only unobserved time have no known saving.
                spot_saved_micros: row.get::<_, Option<i64>>(at)?.filter(|_| listed > 0),
                spot_listed_ms: listed,
                ..UsageTotals::default()
            })
        };
        let from = "on_demand o JOIN hour_rows r ON r.hour = o.hour AND r.key = o.key JOIN keys ON keys.id = o.key";
        let figures = "sum(o.micros - r.useful_micros - r.under_used_micros - r.idle_micros - r.not_read_micros
            - r.unallocated_micros - r.out_of_service_micros),
          sum(r.useful_ms + r.under_used_ms + r.idle_ms + r.not_read_ms + r.unallocated_ms + r.out_of_service_ms)";
        add(&mut sums, self.grouped(of, from, "r.hour", figures, saved)?);
        Ok(sums)
    }

    /// Figures of a time range by dimensions and steps. `hour` is the column that contains the hour.
    fn grouped(
        &self,
        of: SumGrouping<'_>,
        from: &str,
        hour: &str,
        figures: &str,
        read: impl Fn(&Row<'_>, usize) -> rusqlite::Result<UsageTotals>,
    ) -> Result<Vec<UsageSum>, UsageFault> {
        let failed = || UsageFault::sql("read", self.path());
        let SumGrouping {
            span,
            by,
            steps,
            only,
        } = of;
        let mut columns: Vec<String> = by.iter().map(|by| column(*by).to_owned()).collect();
        columns.push(format!(
            "({hour} - {}) * {} / {}",
            span.from * HOUR,
            steps.max(1),
            (span.hours() * HOUR).max(1)
        ));
        let places: Vec<String> = (1..=columns.len()).map(|at| at.to_string()).collect();
        let places = places.join(", ");
        let query = format!(
            "SELECT {}, {figures} FROM {from} WHERE {hour} >= ?1 AND {hour} < ?2 {} GROUP BY {places} ORDER BY {places}",
            columns.join(", "),
            condition(only),
        );
        let mut query = self.sql.prepare(&query).map_err(failed())?;
        let count = by.len();
        let rows = query.query_map(params_from_iter(bounds(span, only)), |row| {
            let names = (0..count).map(|at| row.get(at));
            Ok(UsageSum {
                names: names.collect::<rusqlite::Result<_>>()?,
                step: usize::try_from(row.get::<_, i64>(count)?).unwrap_or(0),
                totals: read(row, count + 1)?,
            })
        });
        rows.and_then(Iterator::collect).map_err(failed())
    }

    /// True when successful jobs were counted in every recorded hour of the range.
    fn counts_finished(&self, span: Span) -> Result<bool, UsageFault> {
        if self.ends_unknown {
            return Ok(false);
        }
        let query = "SELECT NOT EXISTS (SELECT 1 FROM hours WHERE hour >= ?1 AND hour < ?2
             AND hour < (SELECT since FROM counted WHERE what = 'finished'))";
        self.sql
            .query_row(query, params![span.from * HOUR, span.to * HOUR], |row| {
                row.get(0)
            })
            .map_err(UsageFault::sql("read", self.path()))
    }

    /// The hourly rows of a time range, by hour and key.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn rows(&self, span: Span, only: &UsageFilter) -> Result<Vec<HourRow>, UsageFault> {
        let failed = || UsageFault::sql("read", self.path());
        let query = format!(
            "SELECT hour_start, state, pool, class, billing, zone, namespace, team, queue, owner, job, model, price_source,
               price_as_of, {}
             FROM usage WHERE hour_start >= ?1 AND hour_start < ?2 {}
             GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14 ORDER BY 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14",
            sums_columns(),
            condition(only)
        );
        let mut query = self.sql.prepare(&query).map_err(failed())?;
        let rows = query.query_map(params_from_iter(bounds(span, only)), |row| {
            let name = |at: usize| row.get::<_, String>(at).map(Name::from);
            Ok(HourRow {
                hour: row.get::<_, i64>(0)? / HOUR,
                closed: row.get::<_, String>(1)? == "closed",
                key: UsageKey {
                    pool: name(2)?,
                    class: name(3)?,
                    billing: Billing::from_name(&row.get::<_, String>(4)?),
                    zone: name(5)?,
                    namespace: name(6)?,
                    team: name(7)?,
                    queue: name(8)?,
                    owner: name(9)?,
                    job: name(10)?,
                    model: name(11)?,
                    price_source: name(12)?,
                    price_as_of: name(13)?,
                },
                totals: UsageTotals {
                    losses_unknown: self.ends_unknown,
                    ..totals(row, 14)?
                },
            })
        });
        rows.and_then(Iterator::collect).map_err(failed())
    }

    /// How much of a time range was observed.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn coverage(&self, span: Span) -> Result<ObservedRatio, UsageFault> {
        let query = "SELECT coalesce(sum(observed_ms), 0), coalesce(sum(state = 'open'), 0) FROM hours WHERE hour >= ?1 AND hour < ?2";
        let (observed_ms, open) = self
            .sql
            .query_row(query, params![span.from * HOUR, span.to * HOUR], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .map_err(UsageFault::sql("read", self.path()))?;
        Ok(ObservedRatio { observed_ms, open })
    }

    /// What a budget counts in each hour of [`UsageBudget::looks_at`] a time. Does not use the view: the query runs once a
    /// minute and does not need the shares of lost work.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn budget_hours(
        &self,
        budget: &UsageBudget,
        at: Moment,
    ) -> Result<BudgetHours, UsageFault> {
        let failed = || UsageFault::sql("read", self.path());
        let span = budget.looks_at(at);
        let period = budget.span(at);
        let ends = [span.from, span.to].map(|hour| Value::Integer(hour * HOUR));
        let mut hours = vec![HourAmount::default(); usize::try_from(span.hours()).unwrap_or(0)];
        let count = hours.len();
        let place = |hour: i64| {
            let at = usize::try_from(hour / HOUR - span.from).ok();
            at.filter(|at| *at < count)
        };
        // How far each hour has come: the present one is not over.
        let mut until = vec![HOUR_MS; count];
        let query = "SELECT hour, observed_ms, until_ms FROM hours WHERE hour >= ?1 AND hour < ?2";
        let mut query = self.sql.prepare(query).map_err(failed())?;
        let mut rows = query
            .query(params_from_iter(ends.clone()))
            .map_err(failed())?;
        while let Some(row) = rows.next().map_err(failed())? {
            if let Some(at) = place(row.get(0).map_err(failed())?) {
                hours[at].observed_ms = row.get(1).map_err(failed())?;
                until[at] = row.get(2).map_err(failed())?;
            }
        }
        let (only, name) = match &budget.scope {
            BudgetScope::Fleet => (String::new(), None),
            BudgetScope::Part(by, name) => {
                let name = Value::Text(name.to_string());
                (format!("AND k.{} = ?3", by.name()), Some(name))
            }
        };
        const ALLOCATED: &str = "r.useful_ms + r.under_used_ms + r.idle_ms + r.not_read_ms";
        let query = format!(
            "SELECT r.hour, sum(r.useful_micros + r.under_used_micros + r.idle_micros + r.not_read_micros
               + r.unallocated_micros + r.out_of_service_micros), sum({ALLOCATED}),
               sum(CASE WHEN r.useful_micros IS NULL THEN {ALLOCATED} + r.unallocated_ms + r.out_of_service_ms ELSE 0 END),
               sum({ALLOCATED} + r.unallocated_ms + r.out_of_service_ms), sum(r.unobserved_ms),
               max(CASE WHEN k.price_source IN ({}) THEN 1 ELSE 0 END)
             FROM hour_rows r JOIN keys k ON k.id = r.key
             WHERE r.hour >= ?1 AND r.hour < ?2 {only} GROUP BY r.hour",
            stand_ins()
        );
        let mut query = self.sql.prepare(&query).map_err(failed())?;
        let values = ends.into_iter().chain(name);
        let mut rows = query.query(params_from_iter(values)).map_err(failed())?;
        let (mut unpriced_ms, mut priced, mut there, mut is_by_list) = (0, false, false, false);
        // Unallocated devices belong to the fleet and to their pool: unobserved time there means that part of their cost is
        // missing.
        let whole = matches!(
            budget.scope,
            BudgetScope::Fleet | BudgetScope::Part(Dimension::Pool, _)
        );
        while let Some(row) = rows.next().map_err(failed())? {
            let start: i64 = row.get(0).map_err(failed())?;
            let micros: Option<i64> = row.get(1).map_err(failed())?;
            let allocated: i64 = row.get(2).map_err(failed())?;
            let unpriced: i64 = row.get(3).map_err(failed())?;
            let seen: i64 = row.get(4).map_err(failed())?;
            let unseen: i64 = row.get(5).map_err(failed())?;
            priced |= micros.is_some();
            there = true;
            if start / HOUR >= period.from {
                unpriced_ms += unpriced;
                is_by_list |= row.get::<_, bool>(6).map_err(failed())?;
            }
            if let Some(at) = place(start) {
                let hour = &mut hours[at];
                if whole && seen + unseen > 0 {
                    let share = seen as f64 / (seen + unseen) as f64;
                    hour.observed_ms = (share * until[at] as f64).round() as i64;
                }
                hour.amount = match budget.unit {
                    BudgetUnit::Usd => micros.unwrap_or(0),
                    BudgetUnit::DeviceHours => allocated,
                };
            }
        }
        let by_money = budget.unit == BudgetUnit::Usd;
        Ok(BudgetHours {
            amounts: HourAmounts {
                from: span.from,
                hours,
            },
            unpriced_ms: if by_money { unpriced_ms } else { 0 },
            is_by_list: by_money && is_by_list,
            // Devices without a price have an unknown cost. Without devices the cost is zero.
            is_known: (!by_money || priced || unpriced_ms == 0)
                && (there || whole || !self.is_confined(span)?),
        })
    }

    /// True when hours with snapshots contain unobserved devices: the recorder may not see all pods.
    fn is_confined(&self, span: Span) -> Result<bool, UsageFault> {
        let query = "SELECT EXISTS (SELECT 1 FROM hour_rows r JOIN hours h ON h.hour = r.hour
             WHERE r.hour >= ?1 AND r.hour < ?2 AND r.unobserved_ms > 0 AND h.observed_ms = h.until_ms)";
        self.sql
            .query_row(query, params![span.from * HOUR, span.to * HOUR], |row| {
                row.get(0)
            })
            .map_err(UsageFault::sql("read", self.path()))
    }

    /// The first hour in the file, and the first hour after the last one; `None` when the file is empty.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn extent(&self) -> Result<Option<Span>, UsageFault> {
        let hours = self.hours()?;
        let ends = hours.first().zip(hours.last());
        Ok(ends.map(|((from, ..), (to, ..))| Span {
            from: *from,
            to: to + 1,
        }))
    }
}
