//! Rows of `usage`: the hourly rows of the usage ledger.

use schemars::JsonSchema;
use serde::Serialize;

use model::schema::{columns, of_rows};
use usage::{CostPart, HourRow, start_of};

use super::{safe_line, usd};
use crate::kind::{KindNames, UNKNOWN_IS_NULL};
use crate::non_empty;
use crate::table::{cell, text_table};
use crate::text;

/// How hours of the usage ledger are called.
pub static NAMES: KindNames = KindNames {
    plural: "usage",
    singular: "usage",
    aliases: &[],
    help: "Hours of the usage ledger of a record",
    title: "Hours of the usage ledger",
    description: UNKNOWN_IS_NULL,
    schema: of_rows::<UsageHour<'_>>,
};

/// Whether an hour is over.
#[derive(Clone, Copy)]
enum HourState {
    Open,
    Closed,
}

model::words! {
    impl HourState {
        pub fn name(self) {
            Open => "open",
            Closed => "closed",
        }
    }
}

/// One ledger row of one hour. Times are device-seconds; unknown is null.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct UsageHour<'a> {
    /// Start of the hour, RFC 3339, a whole hour of UTC.
    #[schemars(with = "model::base::Moment")]
    pub hour: String,
    /// An open hour still grows; a closed one never changes.
    #[schemars(with = "HourState")]
    pub state: &'static str,
    /// Pool of the devices.
    pub pool: &'a str,
    /// Class of the devices.
    pub class: &'a str,
    /// How the devices are paid for; null where it is not known.
    #[schemars(with = "Option<model::fleet::node::Billing>")]
    pub billing: Option<&'static str>,
    /// Availability zone of the nodes.
    pub zone: Option<&'a str>,
    /// Null for what is not allocated, as are team, queue, owner, job and model.
    pub namespace: Option<&'a str>,
    /// The team that the job counts for.
    pub team: Option<&'a str>,
    /// The queue of the job.
    pub queue: Option<&'a str>,
    /// Kind of the object that owns the pods.
    pub owner: Option<&'a str>,
    /// Name of that object.
    pub job: Option<&'a str>,
    /// Models that the job serves.
    pub model: Option<&'a str>,
    /// Allocated to pods: busy, idle and not read, together.
    #[schemars(range(min = 0))]
    pub allocated_device_seconds: f64,
    /// Allocated and at work.
    #[schemars(range(min = 0))]
    pub busy_device_seconds: f64,
    /// Allocated and known to do nothing.
    #[schemars(range(min = 0))]
    pub idle_device_seconds: f64,
    /// Allocated, and no fresh reading says whether it works.
    #[schemars(range(min = 0))]
    pub not_read_device_seconds: f64,
    /// Allocated to no pod, and usable.
    #[schemars(range(min = 0))]
    pub unallocated_device_seconds: f64,
    /// Allocated to no pod, and cordoned, faulty or on a node that is not ready.
    #[schemars(range(min = 0))]
    pub out_of_service_device_seconds: f64,
    /// Of the allocated time, that of runs that failed, since their last checkpoint; null where it is not known which runs ended so.
    #[schemars(range(min = 0))]
    pub lost_to_failure_device_seconds: Option<f64>,
    /// Of the allocated time, that of runs that were preempted or evicted, since their last checkpoint; null where it is not
    /// known which runs ended so.
    #[schemars(range(min = 0))]
    pub lost_to_preemption_device_seconds: Option<f64>,
    /// Device time of which nothing is known.
    #[schemars(range(min = 0))]
    pub unobserved_device_seconds: f64,
    /// Energy by the devices' counters, watt-hours.
    #[schemars(range(min = 0))]
    pub energy_wh: Option<f64>,
    /// The sum of the eight fields behind it, USD; an estimate, never a bill.
    #[schemars(range(min = 0))]
    pub cost_usd: Option<f64>,
    /// Cost of allocated devices at work that are not under-used.
    #[schemars(range(min = 0))]
    pub useful_usd: Option<f64>,
    /// Cost of allocated devices at work whose utilization is low.
    #[schemars(range(min = 0))]
    pub under_used_usd: Option<f64>,
    /// Cost of allocated devices that are idle.
    #[schemars(range(min = 0))]
    pub idle_usd: Option<f64>,
    /// Cost of allocated devices without a fresh reading.
    #[schemars(range(min = 0))]
    pub not_read_usd: Option<f64>,
    /// Cost of usable devices that are allocated to no pod.
    #[schemars(range(min = 0))]
    pub unallocated_usd: Option<f64>,
    /// Cost of devices that are out of service.
    #[schemars(range(min = 0))]
    pub out_of_service_usd: Option<f64>,
    /// Cost of the time that failed runs lost.
    #[schemars(range(min = 0))]
    pub lost_to_failure_usd: Option<f64>,
    /// Cost of the time that preempted or evicted runs lost.
    #[schemars(range(min = 0))]
    pub lost_to_preemption_usd: Option<f64>,
    /// Price book and row; null where no price is known.
    pub price_source: Option<&'a str>,
    /// Date of the price, as far as it is known.
    pub price_as_of: Option<&'a str>,
}

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
        state: match row.closed {
            true => HourState::Closed.name(),
            false => HourState::Open.name(),
        },
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
    let fields = columns(&NAMES.schema());
    let mut out = String::new();
    if titled {
        out.push_str(&safe_line(&fields));
    }
    for row in rows {
        let value = serde_json::to_value(row).unwrap_or_default();
        let cells = fields.iter().map(|field| match value.get(field) {
            Some(serde_json::Value::String(text)) => text.clone(),
            None | Some(serde_json::Value::Null) => String::new(),
            Some(other) => other.to_string(),
        });
        out.push_str(&safe_line(&cells.collect::<Vec<String>>()));
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
        ("OUT OF SERVICE H", true),
        ("COST", true),
    ];
    if wide {
        titles.extend([
            ("BILLING", false),
            ("ZONE", false),
            ("QUEUE", false),
            ("OWNER", false),
            ("NOT READ H", true),
            ("UNOBSERVED H", true),
            ("ENERGY WH", true),
            ("PRICE DATE", false),
            ("PRICE FROM", false),
        ]);
    }
    let lines: Vec<Vec<String>> = rows.iter().map(|row| line(row, wide)).collect();
    text_table(titles, &lines, titled)
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
        text::usd(row.cost_usd),
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
