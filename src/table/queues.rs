//! Rows of `queues`: every queue of a queueing system, and every other queue that a job names.

use std::collections::BTreeMap;

use schemars::{JsonSchema, json_schema};
use serde::{Serialize, Serializer};

use model::base::{Moment, Rate, SmallSort, natural};
use model::cost::{Money, Scope};
use model::fleet::job::{Job, JobState};
use model::fleet::queue::{Measure, Queue, QueueKind, QueueSystem, Quota};

use super::list_price::{list_usd, rate_cell};
use super::queue_tree::Tree;
use super::table::Column;
use super::text::{age, or_unknown, word};
use super::{Facts, UNATTRIBUTED, non_empty};

/// A number of devices in thousandths, printed as an integer where it is whole (KAI allows quotas of fractions of a GPU).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceQuantity(i64);

impl DeviceQuantity {
    /// From thousandths of a device.
    pub const fn of_milli(milli: i64) -> Self {
        Self(milli)
    }

    /// The number of devices.
    pub fn devices(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

model::written_as!(
    DeviceQuantity,
    json_schema!({ "type": "number", "minimum": 0 })
);

impl Serialize for DeviceQuantity {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 % 1000 {
            0 => to.serialize_i64(self.0 / 1000),
            _ => to.serialize_f64(self.devices()),
        }
    }
}

impl std::fmt::Display for DeviceQuantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.devices(), f)
    }
}

/// Quota of one resource in one flavor of one queue, in devices.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct QuotaCell<'a> {
    /// Flavor; null in systems without flavors.
    pub flavor: Option<&'a str>,
    /// Resource, `nvidia.com/gpu`; `devices` counts accelerators of every kind together.
    pub resource: &'a str,
    /// Nominal quota; null is unlimited.
    pub nominal: Option<DeviceQuantity>,
    /// Borrowing limit; null is as much as others lend.
    pub borrow_limit: Option<DeviceQuantity>,
    /// Lending limit; null allows lending everything.
    pub lend_limit: Option<DeviceQuantity>,
    /// Limit that its use never exceeds; null is unlimited.
    pub cap: Option<DeviceQuantity>,
    /// Devices of the quota in use.
    pub used: Option<DeviceQuantity>,
    /// The borrowed part of `used`.
    pub borrowed: Option<DeviceQuantity>,
}

impl<'a> From<&'a Quota> for QuotaCell<'a> {
    fn from(quota: &'a Quota) -> Self {
        let count = |amount: Option<i64>| amount.map(DeviceQuantity::of_milli);
        Self {
            flavor: non_empty(&quota.flavor),
            resource: &quota.resource,
            nominal: count(quota.nominal),
            borrow_limit: count(quota.borrow_limit),
            lend_limit: count(quota.lend_limit),
            cap: count(quota.cap),
            used: count(quota.used),
            borrowed: count(quota.borrowed),
        }
    }
}

/// One queue.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct QueueRow<'a> {
    /// Name; `unattributed` for jobs and money of no queue.
    pub name: &'a str,
    /// The parent queue or cohort.
    pub parent: Option<&'a str>,
    /// The queueing system that it belongs to.
    #[schemars(with = "QueueSystem")]
    pub system: &'static str,
    /// Weight among its siblings in fair sharing.
    pub weight: Option<f64>,
    /// True when it admits nothing; null when only its name is known.
    pub stopped: Option<bool>,
    /// Device quotas, by flavor and resource.
    pub quota: Vec<QuotaCell<'a>>,
    /// Its fair-sharing share: use above its nominal quota relative to its weight, as reported by its system.
    #[schemars(range(min = 0))]
    pub share: Option<f64>,
    /// Running jobs with devices in it and in all queues below it.
    pub running: u32,
    /// Waiting jobs in the same queues.
    pub waiting: u32,
    /// Longest wait among them, seconds.
    pub oldest_waiting_seconds: Option<u64>,
    /// Rate of its jobs' devices, USD/h.
    #[schemars(range(min = 0))]
    pub burn_usd_per_hour: Option<f64>,
    /// The part of that rate that is list prices in place of what is paid, which is not known, USD/h.
    #[schemars(range(min = 0))]
    pub list_usd_per_hour: Option<f64>,
}

/// Workload counts of one queue or of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub running: u32,
    pub waiting: u32,
    /// When the longest wait began.
    pub oldest: Option<Moment>,
}

impl Tally {
    pub fn merge(&mut self, other: &Self) {
        self.running += other.running;
        self.waiting += other.waiting;
        self.oldest = self.oldest.into_iter().chain(other.oldest).min();
    }

    pub fn add(&mut self, job: &Job) {
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

/// Columns as a table.
pub(super) fn columns<'a>() -> Vec<Column<QueueRow<'a>>> {
    vec![
        Column::text("NAME", |row: &QueueRow<'_>| row.name.to_owned()),
        Column::wide_text("PARENT", |row| word(row.parent)),
        Column::text("SYSTEM", |row| row.system.to_owned()),
        Column::wide_number("WEIGHT", |row| or_unknown(row.weight)),
        Column::wide_text("STOPPED", |row| {
            word(
                row.stopped
                    .map(|stopped| if stopped { "yes" } else { "no" }),
            )
        }),
        Column::text("QUOTA", |row: &QueueRow<'_>| quotas(&row.quota)).whole("QUEUE QUOTA"),
        Column::wide_number("SHARE", |row: &QueueRow<'_>| {
            or_unknown(row.share.map(|share| format!("{share:.2}")))
        })
        .whole("QUEUE SHARE"),
        Column::number("RUNNING", |row| row.running.to_string()),
        Column::number("WAITING", |row| row.waiting.to_string()),
        Column::number("OLDEST", |row: &QueueRow<'_>| {
            age(row.oldest_waiting_seconds)
        })
        .by("oldest_waiting_seconds"),
        Column::number("$/H", |row: &QueueRow<'_>| {
            rate_cell(row.burn_usd_per_hour, row.list_usd_per_hour)
        })
        .by("burn_usd_per_hour"),
    ]
}

/// `h100 12/8 (4 borrowed)`: used, nominal and borrowed, by flavor.
fn quotas(cells: &[QuotaCell<'_>]) -> String {
    let cell = |cell: &QuotaCell<'_>| {
        let used = match (
            cell.used,
            cell.borrowed
                .filter(|borrowed| *borrowed != DeviceQuantity(0)),
        ) {
            (Some(used), Some(borrowed)) => (used.to_string(), format!(" ({borrowed} borrowed)")),
            (used, _) => (or_unknown(used), String::new()),
        };
        let (used, borrowed) = used;
        let own = cell
            .nominal
            .map_or_else(|| "any".to_owned(), |own| own.to_string());
        let resource = cell.resource.rsplit('/').next().unwrap_or_default();
        let name = match cell.flavor {
            None => cell.resource.to_owned(),
            // A flavor with several resources names the resource.
            Some(flavor) if cells.iter().filter(|it| it.flavor == cell.flavor).count() > 1 => {
                format!("{flavor}:{resource}")
            }
            Some(flavor) => flavor.to_owned(),
        };
        format!("{name} {used}/{own}{borrowed}")
    };
    match cells {
        [] => "-".to_owned(),
        cells => cells.iter().map(cell).collect::<Vec<_>>().join(", "),
    }
}

/// Identity of a queue: two systems may have queues of the same name.
type QueueIdentity<'a> = (&'a str, QueueSystem);

/// Every queue by name and system; then `unattributed` for jobs and cost without a queue.
pub fn rows(facts: &Facts) -> Vec<QueueRow<'_>> {
    let mut places: BTreeMap<QueueIdentity<'_>, (Option<usize>, Tally)> = BTreeMap::new();
    let queues = &facts.fleet.queues;
    let identity = |at: usize| -> Option<QueueIdentity<'_>> {
        let queue = queues.get(at)?;
        let is_queue = queue.key.kind == QueueKind::Queue;
        is_queue.then(|| (queue.name().as_str(), queue.system()))
    };
    for at in 0..queues.len() {
        if let Some(place) = identity(at) {
            places.entry(place).or_default().0 = Some(at);
        }
    }
    let mut none = Tally::default();
    for job in facts.fleet.jobs.iter().filter(|job| facts.has_job(job)) {
        match &job.queue {
            Some(queue) => places
                .entry((queue.as_str(), system_of(facts, job)))
                .or_default()
                .1
                .add(job),
            None => none.add(job),
        }
    }
    let mut rows: Vec<QueueRow<'_>> = Vec::with_capacity(places.len() + 1);
    let tree = Tree::of(queues);
    let mut all: Vec<_> = places.iter().collect();
    all.small_sort_by(|((a, _), _), ((b, _), _)| natural(a, b));
    for ((name, system), (at, own)) in all {
        let mut tally = *own;
        // A parent includes the work of the queues below it.
        let below = at.iter().flat_map(|at| tree.below(*at));
        let mut money = queue_rate(facts, name, *system);
        for (one, (_, other)) in below.filter_map(|at| places.get_key_value(&identity(at)?)) {
            tally.merge(other);
            money = money
                .zip(queue_rate(facts, one.0, one.1))
                .map(|(sum, own)| sum + own);
        }
        let queue = at.map(|at| &*queues[at]);
        rows.push(row(facts, name, *system, queue, &tally, money));
    }
    let burn = burn_of(facts, UNATTRIBUTED);
    let rest = row(facts, UNATTRIBUTED, QueueSystem::None, None, &none, burn);
    if rest.running > 0 || rest.waiting > 0 || rest.burn_usd_per_hour != Some(0.0) {
        rows.push(rest);
    }
    rows
}

/// The system of a job's queue. A job whose label names no system belongs to the queue of that name, where exactly one
/// exists.
pub fn system_of(facts: &Facts, job: &Job) -> QueueSystem {
    if job.queue_system != QueueSystem::None {
        return job.queue_system;
    }
    let queues = facts.fleet.queues.iter();
    let mut named = queues.filter(|queue| {
        queue.key.kind == QueueKind::Queue && Some(queue.name()) == job.queue.as_ref()
    });
    match (named.next(), named.next()) {
        (Some(only), None) => only.system(),
        _ => QueueSystem::None,
    }
}

/// Rate of the devices of a queue's jobs; `None` where unknown.
pub fn queue_rate(facts: &Facts, name: &str, system: QueueSystem) -> Option<Money> {
    let queues = facts.fleet.queues.iter();
    let of_others = queues
        .filter(|queue| queue.key.kind == QueueKind::Queue)
        .any(|queue| queue.name().as_str() == name && queue.system() != system);
    let elsewhere = |job: &&std::sync::Arc<Job>| {
        job.queue.as_deref() == Some(name) && system_of(facts, job) != system
    };
    match of_others || facts.fleet.jobs.iter().any(|job| elsewhere(&job)) {
        true => burn_of_jobs(facts, name, system),
        false => burn_of(facts, name),
    }
}

/// Rate of the devices of all jobs that name a queue, in any system; `None` where unknown.
pub fn burn_of(facts: &Facts, name: &str) -> Option<Money> {
    match facts.spend_rates.row(Scope::Queue, name) {
        Some(row) => row.known().map(|spend| spend.rate),
        None => Some(Money::ZERO),
    }
}

/// Rate of one of several queues with the same name, which the cost rows do not separate.
fn burn_of_jobs(facts: &Facts, name: &str, system: QueueSystem) -> Option<Money> {
    let mut sum = Money::ZERO;
    let mut unknown = false;
    for job in facts.fleet.jobs.iter().filter(|job| facts.has_job(job)) {
        if job.queue.as_deref() == Some(name) && system_of(facts, job) == system {
            match facts.spend_rates.jobs.get(&job.id) {
                Some((spend, _)) => sum += spend.rate,
                None => unknown |= job.devices_allocated > 0,
            }
        }
    }
    (!unknown || sum.all > Rate::ZERO).then_some(sum)
}

fn row<'a>(
    facts: &Facts,
    name: &'a str,
    system: QueueSystem,
    queue: Option<&'a Queue>,
    tally: &Tally,
    burn: Option<Money>,
) -> QueueRow<'a> {
    QueueRow {
        name,
        parent: queue.and_then(|queue| queue.parent.as_deref()),
        system: system.name(),
        weight: queue.and_then(|queue| queue.weight),
        stopped: queue.map(Queue::is_stopped),
        quota: queue
            .into_iter()
            .flat_map(|queue| queue.quotas.iter())
            .filter(|quota| quota.measure == Measure::MilliDevices)
            .map(QuotaCell::from)
            .collect(),
        share: queue
            .and_then(|queue| queue.share)
            .filter(|share| share.is_finite()),
        running: tally.running,
        waiting: tally.waiting,
        oldest_waiting_seconds: tally.oldest.map(|since| facts.now.since(since).seconds()),
        burn_usd_per_hour: burn.map(Money::usd),
        list_usd_per_hour: list_usd(burn),
    }
}

#[cfg(test)]
mod tests {
    use model::base::Name;

    use super::*;

    #[test]
    fn a_flavor_of_several_resources_says_which() {
        let of = |flavor: &str, resource: &str| Quota {
            flavor: Name::new(flavor),
            resource: Name::new(resource),
            nominal: Some(8_000),
            used: Some(3_000),
            ..Quota::default()
        };
        let all = [
            of("h100", "nvidia.com/gpu"),
            of("mig", "nvidia.com/mig-1g.10gb"),
            of("mig", "nvidia.com/mig-3g.40gb"),
        ];
        let cells: Vec<QuotaCell<'_>> = all.iter().map(QuotaCell::from).collect();
        assert_eq!(
            quotas(&cells),
            "h100 3/8, mig:mig-1g.10gb 3/8, mig:mig-3g.40gb 3/8"
        );
    }

    #[test]
    fn what_is_borrowed_is_said_and_not_added_up_by_the_reader() {
        let quota = Quota {
            flavor: Name::new("h100"),
            resource: Name::new("nvidia.com/gpu"),
            nominal: Some(131_000),
            used: Some(138_000),
            borrowed: Some(7_000),
            ..Quota::default()
        };
        assert_eq!(
            quotas(&[QuotaCell::from(&quota)]),
            "h100 138/131 (7 borrowed)"
        );
    }

    #[test]
    fn a_queue_counts_the_work_below_it() {
        let mut facts = crate::sample::facts();
        let queue = |name: &str, parent: Option<&str>| {
            std::sync::Arc::new(Queue {
                key: model::fleet::queue::QueueKey {
                    system: QueueSystem::Kai,
                    kind: QueueKind::Queue,
                    name: Name::new(name),
                },
                parent: parent.map(Name::new),
                ..Queue::default()
            })
        };
        let job = |name: &str, queue: &str, state: JobState| {
            let mut job = Job::unknown(model::fleet::job::JobKey {
                kind: Name::new("Job"),
                key: model::base::ObjectKey::new("nlp", name),
            });
            job.queue = Some(Name::new(queue));
            job.queue_system = QueueSystem::Kai;
            job.state = state;
            std::sync::Arc::new(job)
        };
        let fleet = std::sync::Arc::make_mut(&mut facts.fleet);
        fleet.queues = std::sync::Arc::from([
            queue("all", None),
            queue("mid", Some("all")),
            queue("leaf", Some("mid")),
        ]);
        fleet.jobs = std::sync::Arc::from([
            job("a", "leaf", JobState::Running),
            job("b", "leaf", JobState::Waiting),
            job("c", "mid", JobState::Running),
        ]);
        let told: Vec<(&str, u32, u32)> = rows(&facts)
            .iter()
            .filter(|row| row.name != UNATTRIBUTED)
            .map(|row| (row.name, row.running, row.waiting))
            .collect();
        assert_eq!(told, [("all", 2, 1), ("leaf", 1, 1), ("mid", 2, 1)]);
    }
}
