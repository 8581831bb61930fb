//! Effect of a plan: runs the engine's cycle and forecast on the fleet before and after the plan.
//!
//! Both are compared after one cycle, so that what would have happened anyway is not attributed to the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::compiled::{CompiledFleet, NodeId, WorkloadId};
use engine::cycle;
use engine::forecast::{self, Start};
use engine::snapshot::{Snapshot, Status};
use engine::spending::spending;
use engine::state::{Allocation, State};
use model::base::quantities::{counted, first_named};
use model::base::{Moment, Name};
use model::cost::FleetSpending;
use model::fleet::job::JobKey;
use model::plan::{CONTESTED, Displaced, Forecast, JobName, Loss, PoolChange, StartChange};

use super::caused_changes::{Caused, ContentionIndex};
use super::contention;
use super::reserved;
use crate::planner_context::{key_of_moved, loss, name, seated};

/// Most jobs that are named.
pub(crate) const NAMED: usize = 5;

/// The 10th percentile, the median and the 90th percentile of a start; `None` where unknown.
pub(crate) type Estimate = [Option<Moment>; 3];

/// The estimate of a forecast start.
pub(crate) fn estimate(start: &Start) -> Estimate {
    [start.p10, start.p50, start.p90]
}

/// A fleet after a cycle.
pub(crate) struct Picture {
    /// Starts of jobs that were waiting.
    starts: BTreeMap<JobKey, Estimate>,
    /// Nodes of the jobs that started in the cycle, in order, without duplicates.
    pub(crate) placed: BTreeMap<JobKey, Vec<Name>>,
    /// Jobs that were evicted in the cycle, and the job that preempted each.
    pub(crate) preempted: BTreeMap<JobKey, Option<JobKey>>,
    /// Jobs with quota reserved but without nodes.
    quota_reserved: BTreeSet<JobKey>,
    /// Jobs that start at once or not, depending on the order of events; their start is unknown.
    contested: BTreeSet<JobKey>,
    /// Allocated devices after the cycle by pool, in thousandths.
    pools: BTreeMap<Name, i64>,
    /// Allocation and cost of workloads after the cycle.
    spending: FleetSpending,
    /// What its workloads compete for.
    reach: ContentionIndex,
}

/// Result of the first cycle of a fleet.
pub(crate) struct FirstCycle {
    started: Vec<(WorkloadId, Arc<Allocation>)>,
    quota_reserved: Vec<WorkloadId>,
    preempted: BTreeMap<JobKey, Option<JobKey>>,
}

/// Changes between the first cycle and the second one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Then<'a> {
    pub(crate) opened: &'a [NodeId],
    /// Workloads that were kept out of their queues, to return to them.
    pub(crate) back: &'a [WorkloadId],
    /// A workload and its new priority.
    pub(crate) priority: Option<(WorkloadId, i32)>,
}

impl Then<'_> {
    fn is_nothing(&self) -> bool {
        self.opened.is_empty() && self.back.is_empty() && self.priority.is_none()
    }
}

impl FirstCycle {
    /// Runs the cycle, and a second one where `then` changes anything.
    pub(crate) fn of(state: &mut State<'_>, then: Then<'_>) -> Self {
        let compiled = state.compiled();
        let key = |work: WorkloadId| compiled.workload(work).key.clone();
        let mut started: Vec<(WorkloadId, Arc<Allocation>)> = Vec::new();
        let mut preempted = BTreeMap::new();
        for work in then.back {
            state.set_status(*work, Status::Held);
        }
        for cycles in 0..2 {
            if cycles == 1 {
                if then.is_nothing() {
                    break;
                }
                if let Some((work, priority)) = then.priority {
                    state.set_priority(work, priority);
                }
                for node in then.opened {
                    state.set_open(*node, true);
                }
                for work in then.back {
                    state.set_status(*work, Status::Waiting);
                }
            }
            let cycle = cycle::cycle(state);
            started.extend(cycle.placed);
            let fresh = cycle.admitted.into_iter();
            started.extend(fresh.map(|admission| (admission.work, admission.allocation)));
            for victim in &cycle.drained {
                preempted.insert(key(victim.work), None);
            }
            for push in &cycle.preempted {
                for victim in &push.victims.list {
                    preempted.insert(key(victim.work), Some(key(push.by)));
                }
            }
        }
        let is_forecast = |work: &WorkloadId| {
            let model = state.compiled().workload(*work);
            model.not_forecast.is_none()
        };
        let mut quota_reserved = cycle::unplaced(state);
        quota_reserved.retain(is_forecast);
        Self {
            started,
            quota_reserved,
            preempted,
        }
    }
}

impl FirstCycle {
    /// True when the cycle starts a job and does not preempt it again.
    pub(crate) fn starts(&self, compiled: &CompiledFleet, work: WorkloadId) -> bool {
        let mut started = self.started.iter();
        started.any(|(other, _)| *other == work)
            && self.pushed(&compiled.workload(work).key).is_none()
    }

    /// Who preempts a job: `Some(Some(job))` for another job, `Some(None)` for its own queue, `None` if it is not preempted.
    pub(crate) fn pushed(&self, job: &JobKey) -> Option<Option<&JobKey>> {
        self.preempted.get(job).map(Option::as_ref)
    }

    /// The jobs that start, and those with quota reserved but without nodes.
    pub(crate) fn admitted(self) -> BTreeSet<WorkloadId> {
        let started = self.started.into_iter().map(|(work, _)| work);
        started.chain(self.quota_reserved).collect()
    }
}

impl Picture {
    /// The fleet after its first cycle.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        Self::and_then(snapshot, Then::default())
    }

    /// As [`Self::of`], without the starts that depend on the order of events. The jobs in `away` leave their queues and return a
    /// moment later; in between, their queues admit others.
    pub(crate) fn sure(snapshot: &Snapshot, away: &[JobKey]) -> Self {
        let compiled = CompiledFleet::new(snapshot.clone());
        let mut picture = Self::on(&compiled, Then::default());
        let starts = picture.starts.iter();
        let at_once = starts.filter(|(_, [_, start, _])| start.is_some_and(|at| at <= snapshot.at));
        let at_once: BTreeSet<JobKey> = at_once.map(|(key, _)| key.clone()).collect();
        let mut orders = vec![contention::start_late(&compiled)];
        let away: Vec<WorkloadId> = away.iter().filter_map(|key| compiled.work(key)).collect();
        if !away.is_empty() {
            orders.push(contention::start_in_gap(&compiled, &away));
        }
        for order in &orders {
            for key in at_once.symmetric_difference(order) {
                picture.starts.insert(key.clone(), [None; 3]);
                picture.contested.insert(key.clone());
            }
        }
        picture
    }

    /// The fleet after two cycles, changed by `then` between them.
    pub(crate) fn and_then(snapshot: &Snapshot, then: Then<'_>) -> Self {
        Self::on(&CompiledFleet::new(snapshot.clone()), then)
    }

    fn on(compiled: &CompiledFleet, then: Then<'_>) -> Self {
        let mut state = State::new(compiled);
        let key = |work: WorkloadId| compiled.workload(work).key.clone();
        let FirstCycle {
            started,
            quota_reserved,
            preempted,
        } = FirstCycle::of(&mut state, then);
        let now = state.now();
        let mut starts: BTreeMap<JobKey, Estimate> = started
            .iter()
            .map(|(work, _)| (key(*work), [Some(now); 3]))
            .collect();
        let later = forecast::forecast_after(&state).into_iter();
        starts.extend(later.map(|(work, start)| (key(work), estimate(&start))));
        starts.extend(reserved::starts(&state, &started, &quota_reserved));
        let quota_reserved: BTreeSet<JobKey> = quota_reserved.into_iter().map(key).collect();
        let placed = started.into_iter().map(|(work, allocation)| {
            let nodes = allocation.nodes().into_iter();
            let names: BTreeSet<Name> = nodes
                .map(|node| {
                    compiled.snapshot.nodes[state.node_free(node).origin]
                        .name
                        .clone()
                })
                .collect();
            (key(work), names.into_iter().collect())
        });
        let placed = placed.collect();
        Self {
            starts,
            placed,
            preempted,
            quota_reserved,
            contested: BTreeSet::new(),
            pools: allocated_by_pool(&state),
            spending: spending(&state),
            reach: ContentionIndex::of(compiled),
        }
    }

    /// When a job starts; `None` where it does not wait or its start is unknown.
    pub(crate) fn start(&self, key: &JobKey) -> Option<Moment> {
        self.estimate(key)[1]
    }

    /// The same with its range.
    pub(crate) fn estimate(&self, key: &JobKey) -> Estimate {
        self.starts.get(key).copied().unwrap_or_default()
    }

    /// True where the starts in both differ by no more than their errors.
    fn is_near(&self, other: &Self, key: &JobKey) -> bool {
        let (one, two) = (self.start(key), other.start(key));
        let error = |picture: &Self| {
            let [p10, _, p90] = picture.estimate(key);
            forecast::error_ms(p10, p90)
        };
        let errors = (error(self), error(other));
        match (one, two) {
            // A start in the cycle itself is exact and has no error.
            (Some(one), Some(two)) if errors.0 > 0 && errors.1 > 0 => {
                (one.millis() - two.millis()).abs() <= errors.0.max(errors.1)
            }
            _ => one == two,
        }
    }

    /// True where the job starts at once or not depending on the order of events.
    /// Fills in when the evicted pods of workloads that were not evicted as a whole start again, as this picture has them.
    pub(crate) fn estimate_moved(&self, snapshot: &Snapshot, forecast: &mut Forecast) {
        for displaced in &mut forecast.displaced {
            if displaced.back.is_none() {
                let mut keys = snapshot.workloads.iter().map(|work| &work.key);
                let key = keys.find(|key| key.key == displaced.job.0);
                let moved = key.map(|key| self.estimate(&key_of_moved(key)));
                [displaced.back_p10, displaced.back, displaced.back_p90] =
                    moved.unwrap_or_default();
            }
        }
    }

    /// Whether a job has its quota after the cycle and no nodes.
    pub(crate) fn gets_quota(&self, key: &JobKey) -> bool {
        self.quota_reserved.contains(key)
    }

    pub(crate) fn is_contested(&self, key: &JobKey) -> bool {
        self.contested.contains(key)
    }

    /// Cost of these jobs per hour, micro-USD; `None` where a price is unknown or they use slices.
    pub(crate) fn rate_of(&self, which: impl Fn(&JobKey) -> bool) -> Option<i64> {
        let jobs = self.spending.jobs.iter().filter(|one| which(&one.key));
        jobs.map(|one| one.rate).sum()
    }

    /// Where a displaced job goes, in words.
    pub(crate) fn where_to(&self, key: &JobKey) -> String {
        match (self.placed.get(key), self.start(key)) {
            // (A contested start has no time.)
            (Some(nodes), Some(_)) if !nodes.is_empty() => {
                format!("starts again at once on {}", first_named(nodes, NAMED))
            }
            _ if self.contested.contains(key) => CONTESTED.to_owned(),
            (_, Some(at)) if self.quota_reserved.contains(key) => format!(
                "gets its quota back at once, and nodes at about {}",
                at.rfc3339()
            ),
            _ if self.quota_reserved.contains(key) => {
                "gets its quota back at once, and waits for nodes".to_owned()
            }
            (_, Some(at)) => format!("waits, and restarts at about {}", at.rfc3339()),
            _ => "waits; restart time unknown".to_owned(),
        }
    }
}

/// Allocated devices by pool, in thousandths.
fn allocated_by_pool(state: &State<'_>) -> BTreeMap<Name, i64> {
    let compiled = state.compiled();
    let mut pools: BTreeMap<Name, i64> = BTreeMap::new();
    for ((node, _), milli) in state.device_use() {
        let node = &compiled.snapshot.nodes[state.node_free(node).origin];
        *pools.entry(node.pool.clone()).or_default() += i64::from(milli);
    }
    pools
}

/// A job that a plan evicts.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Leaver {
    pub(crate) key: JobKey,
    /// Devices that it frees.
    pub(crate) devices: u32,
    /// The work that it loses.
    pub(crate) loss: Loss,
}

impl Leaver {
    /// A whole workload; `None` where it has no pod on a node.
    pub(crate) fn whole(snapshot: &Snapshot, work: WorkloadId) -> Option<Self> {
        let model = &snapshot.workloads[work];
        let devices: u32 = seated(model)
            .map(|(set, _)| set.requests.device_count())
            .sum();
        seated(model).next()?;
        Some(Self {
            key: model.key.clone(),
            devices,
            loss: loss(snapshot, model, seated(model)),
        })
    }
}

/// Compares the fleet before and after a plan; `leavers` are the jobs that the plan's own steps evict.
pub(crate) fn compare(
    snapshot: &Snapshot,
    before: &Picture,
    after: &Picture,
    leavers: Vec<Leaver>,
) -> Forecast {
    let mut all: BTreeMap<JobKey, Leaver> = leavers
        .into_iter()
        .map(|leaver| (leaver.key.clone(), leaver))
        .collect();
    for key in after.preempted.keys() {
        if !before.preempted.contains_key(key)
            && !all.contains_key(key)
            && let Some(work) = snapshot.workloads.iter().position(|work| work.key == *key)
            && let Some(leaver) = Leaver::whole(snapshot, work)
        {
            all.insert(key.clone(), leaver);
        }
    }
    let caused = Caused::of(&before.reach, &after.reach);
    let keys: BTreeSet<&JobKey> = before.starts.keys().chain(after.starts.keys()).collect();
    let starts = keys
        .into_iter()
        // Contested starts are reported separately: they are not unknown, but now or later.
        .filter(|key| !all.contains_key(*key) && !after.contested.contains(*key))
        .filter(|key| !before.is_near(after, key))
        .filter_map(|key| {
            let work = snapshot.workloads.iter().find(|work| work.key == *key)?;
            let change = StartChange {
                job: name(key),
                devices: u32::try_from(work.device_count()).unwrap_or(u32::MAX),
                before: before.start(key),
                after: after.start(key),
            };
            caused.is_caused(key, &change).then_some(change)
        });
    let mut devices: BTreeMap<&Name, u32> = BTreeMap::new();
    for node in &snapshot.nodes {
        *devices.entry(&node.pool).or_default() += u32::try_from(node.devices.len()).unwrap_or(0);
    }
    let whole = |milli: i64, most: u32| {
        u32::try_from((milli / 1_000).max(0))
            .unwrap_or(most)
            .min(most)
    };
    let pools = devices.iter().filter_map(|(pool, devices)| {
        let now = before.pools.get(*pool).copied().unwrap_or(0);
        let then = after.pools.get(*pool).copied().unwrap_or(0);
        let (now, then) = (whole(now, *devices), whole(then, *devices));
        (now != then).then(|| PoolChange {
            pool: (*pool).clone(),
            devices: *devices,
            allocated_before: now,
            allocated_after: then,
        })
    });
    let total = |part: fn(&Loss) -> Option<i128>| {
        all.values()
            .try_fold(0_i128, |sum, leaver| Some(sum + part(&leaver.loss)?))
    };
    Forecast {
        starts: starts.collect(),
        contested: after
            .contested
            .difference(&before.contested)
            .map(name)
            .collect(),
        pools: pools.collect(),
        lost_device_seconds: total(|loss| loss.device_seconds.map(i128::from))
            .and_then(|sum| u64::try_from(sum).ok()),
        lost_micro_usd: total(|loss| loss.micro_usd.map(i128::from))
            .and_then(|sum| i64::try_from(sum).ok()),
        // Nodes cost the same whether they are used or not.
        burn_change_micro_usd_per_hour: Some(0),
        budgets: Vec::new(),
        spending: Some(Box::new([before.spending.clone(), after.spending.clone()])),
        displaced: all
            .into_values()
            .map(|leaver| {
                let [back_p10, back, back_p90] = after.estimate(&leaver.key);
                let mut works = snapshot.workloads.iter();
                let work = works.find(|work| work.key == leaver.key);
                Displaced {
                    job: name(&leaver.key),
                    team: work.map_or_else(Name::default, |work| work.team.clone()),
                    priority: work.map(|work| work.priority),
                    devices: leaver.devices,
                    loss: leaver.loss,
                    back_p10,
                    back,
                    back_p90,
                }
            })
            .collect(),
    }
}

/// The first few jobs that are preempted only after a change, and those with quota but without nodes then, in words.
pub(crate) fn queue_news(snapshot: &Snapshot, before: &Picture, then: &Picture) -> Vec<String> {
    let pushed = then
        .preempted
        .iter()
        .filter(|(key, _)| !before.preempted.contains_key(*key));
    let words = pushed.take(NAMED).map(|(key, by)| {
        let why = by
            .as_ref()
            .map_or_else(String::new, |by| format!(" for {by}"));
        let mut all = snapshot.workloads.iter();
        let work = all.find(|work| work.key == *key);
        match work.is_some_and(|work| seated(work).next().is_some()) {
            true => format!("{key} is preempted{why}"),
            false => format!("{key}, which waits for nodes, loses its quota{why}"),
        }
    });
    // A job that has nodes without the change is reported by its start.
    let reserved = then.quota_reserved.difference(&before.quota_reserved);
    let reserved = reserved.filter(|key| !before.placed.contains_key(*key));
    let waits = reserved.take(NAMED);
    words
        .chain(waits.map(|key| format!("{key} gets its quota then, and waits for nodes")))
        .collect()
}

/// Sentences about changed starts, for the reasons of a plan.
pub(crate) fn news(forecast: &Forecast, now: Moment) -> Vec<String> {
    let earlier: Vec<&StartChange> = forecast
        .starts
        .iter()
        .filter(|change| change.is_notable())
        .filter(|change| change.is_earlier())
        .collect();
    let notable = forecast.starts.iter().filter(|change| change.is_notable());
    let later = notable.count() - earlier.len();
    let mut all = Vec::new();
    let at_once: Vec<String> = earlier
        .iter()
        .filter(|change| change.is_at_once(now))
        .map(|change| job_words(&change.job, change.devices))
        .collect();
    if !at_once.is_empty() {
        all.push(format!("starts now: {}", first_named(&at_once, NAMED)));
    }
    // (Displaced jobs have a line of their own.)
    let is_displaced = |job: &&JobName| forecast.displaced.iter().any(|one| one.job == **job);
    let contested = forecast.contested.iter().filter(|job| !is_displaced(job));
    let contested: Vec<JobName> = contested.cloned().collect();
    match &contested[..] {
        [] => {}
        [one] => all.push(format!(
            "{one} may start now or keep waiting: other admitted jobs compete for the devices that become free"
        )),
        more => all.push(format!(
            "{} may start now or keep waiting: they compete for the devices that become free",
            first_named(more, NAMED)
        )),
    }
    let soon = earlier.len() - at_once.len();
    if soon > 0 {
        all.push(match soon {
            1 => "1 job starts earlier".to_owned(),
            more => format!("{more} jobs start earlier"),
        });
    }
    if later > 0 {
        all.push(match later {
            1 => "1 job starts later, or its start becomes unknown".to_owned(),
            more => {
                format!("{more} jobs start later, or their start becomes unknown")
            }
        });
    }
    all
}

fn job_words(job: &JobName, devices: u32) -> String {
    format!("{job} ({})", counted(devices.into(), "device"))
}
