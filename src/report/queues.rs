//! Rows of `queues`, from what is known of them so far: the queues that jobs name.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::base::{Moment, Rate};
use crate::cost::Scope;
use crate::fleet::job::{Job, JobState};

use super::table::Column;
use super::text::{age, or_unknown, usd, word};
use super::{Facts, UNATTRIBUTED};

/// Quota of one flavor in one queue, in devices.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct QuotaCell<'a> {
    /// Flavor.
    pub flavor: &'a str,
    /// The queue's own.
    pub nominal: u32,
    /// How much it may borrow; `None` is unlimited.
    pub borrow_limit: Option<u32>,
    /// How much it may lend; `None` is all of it.
    pub lend_limit: Option<u32>,
    /// In use.
    pub used: u32,
    /// Of that, borrowed.
    pub borrowed: u32,
}

/// One queue.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QueueRow<'a> {
    /// Name.
    pub name: &'a str,
    /// The queue above it.
    pub parent: Option<&'a str>,
    /// `kueue`, `volcano`, `kai`, `stokehold` or `none`.
    pub system: &'static str,
    /// Weight among its siblings.
    pub weight: Option<f64>,
    /// True when it lets nothing in.
    pub stopped: Option<bool>,
    /// Its quota by flavor.
    pub quota: Vec<QuotaCell<'a>>,
    /// Use against fair share.
    pub share: Option<f64>,
    /// Jobs that hold devices.
    pub running: u32,
    /// Jobs that wait.
    pub waiting: u32,
    /// How long the one that waits longest has waited.
    pub oldest_waiting_seconds: Option<u64>,
    /// USD an hour of what its jobs hold.
    pub burn_usd_per_hour: Option<f64>,
}

#[derive(Default)]
struct Tally {
    system: Option<&'static str>,
    running: u32,
    waiting: u32,
    oldest: Option<Moment>,
}

impl Tally {
    fn add(&mut self, job: &Job) {
        self.system = self.system.or_else(|| system_of(job));
        match job.state {
            JobState::Starting | JobState::Running | JobState::Finishing => self.running += 1,
            JobState::Waiting => {
                self.waiting += 1;
                self.oldest = self
                    .oldest
                    .into_iter()
                    .chain(job.waiting_since.or(Some(job.created)))
                    .min();
            }
            JobState::Suspended | JobState::Failed | JobState::Done => {}
        }
    }
}

/// Columns as CSV.
pub(super) const FIELDS: &[&str] = &[
    "name",
    "parent",
    "system",
    "weight",
    "stopped",
    "quota",
    "share",
    "running",
    "waiting",
    "oldest_waiting_seconds",
    "burn_usd_per_hour",
];

/// Columns as a table.
pub(super) fn columns<'a>() -> Vec<Column<QueueRow<'a>>> {
    vec![
        Column::text("NAME", |row: &QueueRow<'_>| row.name.to_owned()),
        Column::wide_text("PARENT", |row| word(row.parent)),
        Column::text("SYSTEM", |row| row.system.to_owned()),
        Column::wide_number("WEIGHT", |row| or_unknown(row.weight)),
        Column::wide_number("SHARE", |row| or_unknown(row.share)),
        Column::number("RUNNING", |row| row.running.to_string()),
        Column::number("WAITING", |row| row.waiting.to_string()),
        Column::number("OLDEST", |row| age(row.oldest_waiting_seconds)),
        Column::number("$/H", |row| usd(row.burn_usd_per_hour)),
    ]
}

/// Every queue that a job names, by name; then `unattributed` for jobs and money of no queue.
pub fn rows(facts: &Facts) -> Vec<QueueRow<'_>> {
    let mut queues: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut none = Tally::default();
    for job in facts.fleet.jobs.iter() {
        match &job.queue {
            Some(queue) => queues.entry(queue).or_default().add(job),
            None => none.add(job),
        }
    }
    let mut rows: Vec<QueueRow<'_>> = queues
        .into_iter()
        .map(|(name, tally)| row(facts, name, &tally))
        .collect();
    let rest = row(facts, UNATTRIBUTED, &none);
    if rest.running > 0 || rest.waiting > 0 || rest.burn_usd_per_hour != Some(0.0) {
        rows.push(rest);
    }
    rows
}

fn row<'a>(facts: &Facts, name: &'a str, tally: &Tally) -> QueueRow<'a> {
    QueueRow {
        name,
        parent: None,
        system: tally.system.unwrap_or("none"),
        weight: None,
        stopped: None,
        quota: Vec::new(),
        share: None,
        running: tally.running,
        waiting: tally.waiting,
        oldest_waiting_seconds: tally.oldest.map(|since| facts.now.since(since).seconds()),
        burn_usd_per_hour: match facts.burn.row(Scope::Queue, name) {
            Some(row) => row.known().map(|spend| spend.burn.usd()),
            None => Some(Rate::ZERO.usd()),
        },
    }
}

/// The system whose label put the job into its queue.
fn system_of(job: &Job) -> Option<&'static str> {
    let pod = job.pods.first()?;
    let queue = job.queue.as_deref()?;
    pod.seen
        .labels
        .iter()
        .filter(|(_, value)| value.as_str() == queue)
        .find_map(|(key, _)| {
            let (domain, _) = key.split_once('/')?;
            match domain {
                "kueue.x-k8s.io" => Some("kueue"),
                "kai.scheduler" | "runai" => Some("kai"),
                "volcano.sh" | "scheduling.volcano.sh" => Some("volcano"),
                "stokehold.dev" => Some("stokehold"),
                _ => None,
            }
        })
}
