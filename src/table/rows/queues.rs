//! Rows of `queues`: every queue of a queueing system, and every other queue that a job names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::{JsonSchema, json_schema};
use serde::{Serialize, Serializer};

use model::base::{Moment, Rate, SmallSort, natural};
use model::cost::{Money, SpendScope};
use model::fleet::job::{Job, JobState};
use model::fleet::queue::{Measure, Queue, QueueKind, QueueSystem, Quota};

use super::list_price::list_usd;
use super::queue_tree::QueueOrder;
use crate::text::or_unknown;
use crate::{Facts, UNATTRIBUTED, non_empty};

/// A number of devices in thousandths, printed as an integer where it is whole (KAI allows quotas of fractions of a GPU).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceQuantity(i64);

impl DeviceQuantity {
    /// From thousandths of a device.
    pub const fn of_milli(milli: i64) -> Self {
        Self(milli)
    }

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
    /// Running jobs with devices in it and in all queues below it; null where none is seen and not every job is visible.
    pub running: Option<u32>,
    /// Waiting jobs in the same queues, by the same rule.
    pub waiting: Option<u32>,
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

/// `h100 12/8 (4 borrowed)`: used, nominal and borrowed, by flavor.
pub fn quota_list(cells: &[QuotaCell<'_>]) -> String {
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
    cells.iter().map(cell).collect::<Vec<_>>().join(", ")
}

/// Identity of a queue: two systems may have queues of the same name.
pub type QueueIdentity<'a> = (&'a str, QueueSystem);

/// The jobs of queues.
pub type Tallies<'a> = BTreeMap<QueueIdentity<'a>, Tally>;

/// What a row of queues is.
#[derive(Clone, Copy, Debug)]
pub enum RowOf<'a> {
    /// A queue or a cohort of a queueing system, by its index among them.
    Queue(usize, &'a Queue),
    /// A queue that only jobs name, by its index among [`named`].
    Named(usize, QueueIdentity<'a>),
    /// Jobs and money of no queue.
    Unattributed,
}

impl<'a> RowOf<'a> {
    /// Its name and its queueing system.
    pub fn identity(self) -> QueueIdentity<'a> {
        match self {
            Self::Queue(_, queue) => (queue.name(), queue.system()),
            Self::Named(_, identity) => identity,
            Self::Unattributed => (UNATTRIBUTED, QueueSystem::None),
        }
    }

    /// The queue in its system; `None` where only the name is known.
    pub fn queue(self) -> Option<&'a Queue> {
        match self {
            Self::Queue(_, queue) => Some(queue),
            Self::Named(..) | Self::Unattributed => None,
        }
    }

    /// The queues whose jobs and money count for the row: the queue itself and those below it.
    pub fn members(self, queues: &'a [Arc<Queue>], tree: &QueueOrder) -> Vec<QueueIdentity<'a>> {
        let Self::Queue(at, _) = self else {
            return vec![self.identity()];
        };
        let all = std::iter::once(at).chain(tree.below(at));
        all.map(|at| &queues[at])
            .filter(|queue| queue.key.kind == QueueKind::Queue)
            .map(|queue| (queue.name().as_str(), queue.system()))
            .collect()
    }
}

/// The jobs of each queue whose name is wanted; those of no queue as `unattributed`.
pub fn tallies(facts: &Facts, wanted: impl Fn(&str) -> bool) -> Tallies<'_> {
    let mut all = Tallies::new();
    for job in facts.fleet.jobs.iter() {
        let name = job.queue.as_deref().unwrap_or(UNATTRIBUTED);
        if !wanted(name) || !facts.has_job(job) {
            continue;
        }
        let system = match job.queue {
            Some(_) => system_of(facts, job),
            None => QueueSystem::None,
        };
        all.entry((name, system)).or_default().add(job);
    }
    all
}

/// The queues that jobs name and no system has, by name.
pub fn named<'a>(facts: &Facts, tallies: &Tallies<'a>) -> Vec<QueueIdentity<'a>> {
    let queues = facts.fleet.queues.iter();
    let queues = queues.filter(|queue| queue.key.kind == QueueKind::Queue);
    let known: BTreeSet<QueueIdentity<'_>> = queues
        .map(|queue| (queue.name().as_str(), queue.system()))
        .collect();
    let mut all: Vec<QueueIdentity<'_>> = tallies.keys().copied().collect();
    all.retain(|one| *one != RowOf::Unattributed.identity() && !known.contains(one));
    all
}

/// Every queue by name and system, then the jobs and the money of no queue; cohorts are no rows.
pub fn rows_of<'a>(facts: &'a Facts, tallies: &Tallies<'a>) -> Vec<RowOf<'a>> {
    let queues = facts.fleet.queues.iter().enumerate();
    let mut all: Vec<RowOf<'_>> = queues
        .filter(|(_, queue)| queue.key.kind == QueueKind::Queue)
        .map(|(at, queue)| RowOf::Queue(at, queue))
        .collect();
    let named = named(facts, tallies).into_iter().enumerate();
    all.extend(named.map(|(at, identity)| RowOf::Named(at, identity)));
    all.small_sort_by(|a, b| {
        let (a, b) = (a.identity(), b.identity());
        natural(a.0, b.0).then(a.1.cmp(&b.1))
    });
    let rest = RowOf::Unattributed;
    let is_used = |tally: &Tally| tally.running > 0 || tally.waiting > 0;
    if tallies.get(&rest.identity()).is_some_and(is_used)
        || burn_of(facts, UNATTRIBUTED) != Some(Money::ZERO)
    {
        all.push(rest);
    }
    all
}

/// The rows of `get queues`.
pub fn rows(facts: &Facts) -> Vec<QueueRow<'_>> {
    let tallies = tallies(facts, |_| true);
    rows_as_json(facts, rows_of(facts, &tallies), &tallies)
}

/// These rows, as JSON has them.
pub fn rows_as_json<'a>(
    facts: &'a Facts,
    rows: impl IntoIterator<Item = RowOf<'a>>,
    tallies: &Tallies<'_>,
) -> Vec<QueueRow<'a>> {
    let tree = QueueOrder::of(&facts.fleet.queues);
    let rows = rows.into_iter();
    rows.map(|of| row(facts, of, &tree, tallies)).collect()
}

/// The jobs of a row's queues.
pub fn tally_of(members: &[QueueIdentity<'_>], tallies: &Tallies<'_>) -> Tally {
    let mut sum = Tally::default();
    for tally in members.iter().filter_map(|member| tallies.get(member)) {
        sum.merge(tally);
    }
    sum
}

/// Rate of the devices of the jobs of these queues; `None` where unknown, as nothing is where not every job is visible.
pub fn rate_of(facts: &Facts, members: &[QueueIdentity<'_>]) -> Option<Money> {
    let rates = members
        .iter()
        .map(|(name, system)| queue_rate(facts, name, *system));
    let sum: Option<Money> = rates.sum();
    sum.filter(|sum| *sum != Money::ZERO || facts.fleet.sees_all_work())
}

/// The system of a job's queue. A job whose label names no system belongs to the queue of that name, where exactly one exists.
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
fn queue_rate(facts: &Facts, name: &str, system: QueueSystem) -> Option<Money> {
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
fn burn_of(facts: &Facts, name: &str) -> Option<Money> {
    match facts.spend_rates.row(SpendScope::Queue, name) {
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
    facts: &'a Facts,
    of: RowOf<'a>,
    tree: &QueueOrder,
    tallies: &Tallies<'_>,
) -> QueueRow<'a> {
    let (queue, (name, system)) = (of.queue(), of.identity());
    let members = of.members(&facts.fleet.queues, tree);
    let (tally, burn) = (tally_of(&members, tallies), rate_of(facts, &members));
    QueueRow {
        name,
        parent: queue.and_then(|queue| queue.parent.as_deref()),
        system: system.name(),
        weight: queue.and_then(|queue| queue.weight),
        stopped: queue.map(Queue::is_stopped),
        quota: queue.map_or_else(Vec::new, quota_cells),
        share: queue
            .and_then(|queue| queue.share)
            .filter(|share| share.is_finite()),
        running: seen(facts, tally.running),
        waiting: seen(facts, tally.waiting),
        oldest_waiting_seconds: tally.oldest.map(|since| facts.now.since(since).seconds()),
        burn_usd_per_hour: burn.map(Money::usd),
        list_usd_per_hour: list_usd(burn),
    }
}

/// A count of jobs; `None` where none is seen and not every job is visible.
pub fn seen(facts: &Facts, count: u32) -> Option<u32> {
    (count > 0 || facts.fleet.sees_all_work()).then_some(count)
}

/// The quotas of a queue that count devices.
pub fn quota_cells(queue: &Queue) -> Vec<QuotaCell<'_>> {
    let quotas = queue.quotas.iter();
    let quotas = quotas.filter(|quota| quota.measure == Measure::MilliDevices);
    quotas.map(QuotaCell::from).collect()
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
            quota_list(&cells),
            "h100 3/8, mig:mig-1g.10gb 3/8, mig:mig-3g.40gb 3/8"
        );
    }

    #[test]
    fn borrowed_quota_is_printed_as_a_number() {
        let quota = Quota {
            flavor: Name::new("h100"),
            resource: Name::new("nvidia.com/gpu"),
            nominal: Some(131_000),
            used: Some(138_000),
            borrowed: Some(7_000),
            ..Quota::default()
        };
        assert_eq!(
            quota_list(&[QuotaCell::from(&quota)]),
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
        let counts: Vec<(&str, Option<u32>, Option<u32>)> = rows(&facts)
            .iter()
            .filter(|row| row.name != UNATTRIBUTED)
            .map(|row| (row.name, row.running, row.waiting))
            .collect();
        let wanted = [("all", 2, 1), ("leaf", 1, 1), ("mid", 2, 1)];
        let wanted = wanted.map(|(name, runs, waits)| (name, Some(runs), Some(waits)));
        assert_eq!(counts, wanted);
    }
}
