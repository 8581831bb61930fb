//! Rows of `usage`: the hourly rows of the usage ledger.

use serde::Serialize;

use model::usage::{CostPart, HourRow, start_of};

use super::{safe_line, usd};
use crate::non_empty;
use crate::table::{Layout, cell};
use crate::text;

/// The JSON Schema of the rows (draft 2020-12).
pub const SCHEMA: &str = include_str!("../../../config/schema/usage.json");

/// One ledger row of one hour. Times are device-seconds; unknown is `None`.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the fields are those of the schema, which says what each is"
)]
pub struct UsageHour<'a> {
    pub hour: String,
    pub state: &'static str,
    pub pool: &'a str,
    pub class: &'a str,
    pub billing: Option<&'static str>,
    pub zone: Option<&'a str>,
    pub namespace: Option<&'a str>,
    pub team: Option<&'a str>,
    pub queue: Option<&'a str>,
    pub owner: Option<&'a str>,
    pub job: Option<&'a str>,
    pub model: Option<&'a str>,
    pub allocated_device_seconds: f64,
    pub busy_device_seconds: f64,
    pub idle_device_seconds: f64,
    pub not_read_device_seconds: f64,
    pub unallocated_device_seconds: f64,
    pub out_of_service_device_seconds: f64,
    pub lost_to_failure_device_seconds: Option<f64>,
    pub lost_to_preemption_device_seconds: Option<f64>,
    pub unobserved_device_seconds: f64,
    pub energy_wh: Option<f64>,
    pub cost_usd: Option<f64>,
    pub useful_usd: Option<f64>,
    pub under_used_usd: Option<f64>,
    pub idle_usd: Option<f64>,
    pub not_read_usd: Option<f64>,
    pub unallocated_usd: Option<f64>,
    pub out_of_service_usd: Option<f64>,
    pub lost_to_failure_usd: Option<f64>,
    pub lost_to_preemption_usd: Option<f64>,
    pub price_source: Option<&'a str>,
    pub price_as_of: Option<&'a str>,
}

/// Columns as CSV.
pub const FIELDS: [&str; 33] = [
    "hour",
    "state",
    "pool",
    "class",
    "billing",
    "zone",
    "namespace",
    "team",
    "queue",
    "owner",
    "job",
    "model",
    "allocated_device_seconds",
    "busy_device_seconds",
    "idle_device_seconds",
    "not_read_device_seconds",
    "unallocated_device_seconds",
    "out_of_service_device_seconds",
    "lost_to_failure_device_seconds",
    "lost_to_preemption_device_seconds",
    "unobserved_device_seconds",
    "energy_wh",
    "cost_usd",
    "useful_usd",
    "under_used_usd",
    "idle_usd",
    "not_read_usd",
    "unallocated_usd",
    "out_of_service_usd",
    "lost_to_failure_usd",
    "lost_to_preemption_usd",
    "price_source",
    "price_as_of",
];

/// The hourly rows in the JSON contract's form.
pub fn hours(rows: &[HourRow]) -> Vec<UsageHour<'_>> {
    rows.iter().map(hour).collect()
}

fn hour(row: &HourRow) -> UsageHour<'_> {
    let (key, totals) = (&row.key, &row.totals);
    let seconds = |ms: i64| ms as f64 / 1e3;
    let part = |part| totals.part_micros(part).map(usd);
    let lost = |ms: i64| (!totals.losses_unknown).then(|| seconds(ms));
    UsageHour {
        hour: start_of(row.hour).rfc3339(),
        state: if row.closed { "closed" } else { "open" },
        pool: &key.pool,
        class: &key.class,
        billing: key.billing.map(|billing| billing.name()),
        zone: non_empty(&key.zone),
        namespace: non_empty(&key.namespace),
        team: non_empty(&key.team),
        queue: non_empty(&key.queue),
        owner: non_empty(&key.owner),
        job: non_empty(&key.job),
        model: non_empty(&key.model),
        allocated_device_seconds: seconds(totals.allocated_ms()),
        busy_device_seconds: seconds(totals.busy_ms),
        idle_device_seconds: seconds(totals.idle_ms),
        not_read_device_seconds: seconds(totals.not_read_ms),
        unallocated_device_seconds: seconds(totals.unallocated_ms),
        out_of_service_device_seconds: seconds(totals.out_of_service_ms),
        lost_to_failure_device_seconds: lost(totals.lost_failure_ms),
        lost_to_preemption_device_seconds: lost(totals.lost_preemption_ms),
        unobserved_device_seconds: seconds(totals.unobserved_ms),
        energy_wh: totals.energy_mwh.map(|mwh| mwh as f64 / 1e3),
        cost_usd: totals.cost_micros().map(usd),
        useful_usd: part(CostPart::Useful),
        under_used_usd: part(CostPart::UnderUsed),
        idle_usd: part(CostPart::Idle),
        not_read_usd: part(CostPart::NotRead),
        unallocated_usd: part(CostPart::Unallocated),
        out_of_service_usd: part(CostPart::OutOfService),
        lost_to_failure_usd: part(CostPart::LostToFailure),
        lost_to_preemption_usd: part(CostPart::LostToPreemption),
        price_source: non_empty(&key.price_source),
        price_as_of: non_empty(&key.price_as_of),
    }
}

/// The rows as CSV.
pub fn csv(rows: &[UsageHour<'_>], titled: bool) -> String {
    let mut out = String::new();
    if titled {
        out.push_str(&safe_line(&FIELDS.map(str::to_owned)));
    }
    for row in rows {
        let value = serde_json::to_value(row).unwrap_or_default();
        let cells = FIELDS.map(|field| match value.get(field) {
            Some(serde_json::Value::String(text)) => text.clone(),
            None | Some(serde_json::Value::Null) => String::new(),
            Some(other) => other.to_string(),
        });
        out.push_str(&safe_line(&cells));
    }
    out
}

/// The rows as a table; `wide` adds every cost column.
pub fn table(rows: &[UsageHour<'_>], titled: bool, wide: bool) -> String {
    let mut titles = vec![
        ("HOUR", false),
        ("POOL", false),
        ("CLASS", false),
        ("TEAM", false),
        ("NAMESPACE", false),
        ("JOB", false),
        ("ALLOC H", true),
        ("BUSY H", true),
        ("IDLE H", true),
        ("UNALLOC H", true),
        ("OUT H", true),
        ("COST", true),
    ];
    if wide {
        titles.extend([
            ("BILLING", false),
            ("ZONE", false),
            ("QUEUE", false),
            ("OWNER", false),
            ("NOT READ H", true),
            ("UNSEEN H", true),
            ("ENERGY WH", true),
            ("PRICE DATE", false),
            ("PRICE FROM", false),
        ]);
    }
    let lines: Vec<Vec<String>> = rows.iter().map(|row| line(row, wide)).collect();
    let layout = Layout::new(titles, &lines);
    let mut out = if titled {
        layout.header()
    } else {
        String::new()
    };
    lines
        .iter()
        .for_each(|line| out.push_str(&layout.line(line)));
    out
}

fn line(row: &UsageHour<'_>, wide: bool) -> Vec<String> {
    let hours = |seconds: f64| format!("{:.2}", seconds / 3_600.0);
    let word = |text: Option<&str>| cell(text.unwrap_or_default());
    let mut line = vec![
        row.hour.get(..16).unwrap_or(&row.hour).to_owned(),
        cell(row.pool),
        cell(row.class),
        word(row.team),
        word(row.namespace),
        word(row.job),
        hours(row.allocated_device_seconds),
        hours(row.busy_device_seconds),
        hours(row.idle_device_seconds),
        hours(row.unallocated_device_seconds),
        hours(row.out_of_service_device_seconds),
        text::or_unknown(row.cost_usd.map(|usd| format!("${usd:.2}"))),
    ];
    if wide {
        line.extend([
            word(row.billing),
            word(row.zone),
            word(row.queue),
            word(row.owner),
            hours(row.not_read_device_seconds),
            hours(row.unobserved_device_seconds),
            text::or_unknown(row.energy_wh.map(|wh| format!("{wh:.0}"))),
            word(row.price_as_of),
            word(row.price_source),
        ]);
    }
    line
}
