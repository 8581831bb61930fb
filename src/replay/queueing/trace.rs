//! Jobs and queues, and the CSV format of published job traces.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::csv_table::{CsvColumn, CsvRow, CsvTable};
use model::base::Moment;
use model::base::document::DocumentFault;

use super::NODE;

/// Most devices of one job or one queue.
const MOST_DEVICES: i64 = 1_000_000;

/// Longest accepted duration, in seconds: a hundred years.
const LONGEST: i64 = 100 * 366 * 86_400;

/// Shortest replayed duration, in milliseconds.
const SHORTEST: i64 = 1_000;

/// A job: a gang of devices for a time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TraceJob {
    /// Submission time, in milliseconds.
    pub submit: i64,
    pub queue: String,
    /// Devices that it needs at once.
    pub devices: u32,
    /// Run time, in milliseconds, at least 1,000.
    pub duration: i64,
}

/// A queue with its own nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceQueue {
    /// Name; empty for the one pool in which every job runs.
    pub name: String,
    /// Devices of each node.
    pub nodes: Vec<u32>,
}

impl TraceQueue {
    fn new(name: &str, devices: u64) -> Self {
        let node = u64::from(NODE);
        let mut nodes = vec![NODE; (devices / node) as usize];
        nodes.extend(Some((devices % node) as u32).filter(|rest| *rest > 0));
        Self {
            name: name.to_owned(),
            nodes,
        }
    }

    /// Whether it can ever run a job of this size: on one node if that suffices, else on whole nodes with the remainder on another.
    pub fn fits(&self, devices: u32) -> bool {
        super::floor::fit(&self.nodes, devices).is_some()
    }
}

/// One pool with this many devices, in nodes of [`NODE`].
pub fn pool(devices: u64) -> TraceQueue {
    TraceQueue::new("", devices)
}

/// One pool with enough devices for 70 % utilization from the first submission to the last, and for the largest job.
pub fn sized(jobs: &[TraceJob]) -> TraceQueue {
    let work: u128 = jobs
        .iter()
        .map(|job| u128::from(job.duration.unsigned_abs()) * u128::from(job.devices))
        .sum();
    let submits = || jobs.iter().map(|job| job.submit);
    let first = submits().min().unwrap_or_default();
    let last = submits().max().unwrap_or_default();
    let time = u128::from(last.abs_diff(first).max(1));
    let busy = (work * 10).div_ceil(time * 7);
    let largest = jobs.iter().map(|job| job.devices).max().unwrap_or(1);
    let devices = u64::try_from(busy)
        .unwrap_or(u64::MAX)
        .clamp(u64::from(largest), MOST_DEVICES as u64);
    pool(devices.next_multiple_of(u64::from(NODE)))
}

/// Reads the jobs of a CSV with the columns `timestamp, duration, num_gpus, cluster`, sorted by submission
/// (then by cluster, devices and duration); `place` names the file in faults. Durations under a second count as one.
///
/// # Errors
/// A column is missing or a field is invalid.
pub fn jobs(text: &[u8], place: &str) -> Result<Vec<TraceJob>, DocumentFault> {
    let sheet = CsvTable::read(text, place)?;
    let submit = sheet.column("timestamp")?;
    let duration = sheet.column("duration")?;
    let devices = sheet.column("num_gpus")?;
    let queue = sheet.column("cluster")?;
    let mut jobs = Vec::with_capacity(sheet.len());
    for row in sheet.rows() {
        let needs = row.whole(devices, MOST_DEVICES)? as u32;
        if needs == 0 {
            return Err(row.fault(
                devices,
                "is not a gang; a job needs a device, so leave the row out",
            ));
        }
        jobs.push(TraceJob {
            submit: moment(row, submit)?,
            queue: row.text(queue).to_owned(),
            devices: needs,
            duration: row.thousandths(duration, LONGEST)?.max(SHORTEST),
        });
    }
    jobs.sort();
    Ok(jobs)
}

/// Milliseconds of a time: `2017-10-09 07:01:55` (taken as UTC), RFC 3339, or seconds.
fn moment(row: CsvRow<'_>, column: CsvColumn) -> Result<i64, DocumentFault> {
    let text = row.text(column);
    let civil = || {
        let time: DateTime = text.parse().ok()?;
        Some(
            time.to_zoned(TimeZone::UTC)
                .ok()?
                .timestamp()
                .as_millisecond(),
        )
    };
    // Try a time with an offset first: parsed as a civil time, its offset would be ignored.
    Moment::parse(text)
        .map(Moment::millis)
        .or_else(civil)
        .or_else(|| row.thousandths(column, LONGEST * 100).ok())
        .ok_or_else(|| {
            row.fault(
                column,
                "is not a time; write 2017-10-09 07:01:55, RFC 3339, or seconds",
            )
        })
}

/// Reads the queues of a CSV with the columns `cluster` and `devices` or `nodes` (of eight); `place` names the file in faults.
///
/// # Errors
/// A column is missing, a field is invalid, a name is duplicated, or a queue has no device.
pub fn queues(text: &[u8], place: &str) -> Result<Vec<TraceQueue>, DocumentFault> {
    let sheet = CsvTable::read(text, place)?;
    let name = sheet.column("cluster")?;
    let (size, each) = match sheet.optional("nodes")? {
        Some(nodes) => (nodes, i64::from(NODE)),
        None => (sheet.column("devices")?, 1),
    };
    let mut queues = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for row in sheet.rows() {
        if !seen.insert(row.text(name)) {
            return Err(row.fault(name, "appears twice; name each queue once"));
        }
        let devices = row.whole(size, MOST_DEVICES / each)? * each;
        if devices == 0 {
            return Err(row.fault(size, "gives the queue no devices; leave the row out"));
        }
        queues.insert(
            row.text(name),
            TraceQueue::new(row.text(name), devices as u64),
        );
    }
    Ok(queues.into_values().collect())
}
