//! What the fleet will be like after a plan: the engine's own cycle and forecast on the fleet as it is and as it will be.
//!
//! Both are looked at after one cycle, so that what would have happened anyway is not told as the plan's doing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::compiled::{CompiledFleet, NodeId, WorkloadId};
use engine::cycle::{self, Options};
use engine::forecast;
use engine::snapshot::{Snapshot, Status};
use engine::spending::spending;
use engine::state::{Allocation, State};
use model::base::quantities::{counted, first_named};
use model::base::{Moment, Name};
use model::fleet::job::JobKey;
use model::plan::{CONTESTED, Displaced, Forecast, JobName, Loss, PoolChange, StartChange};
use model::usage::FleetSpending;

use super::caused::{Caused, Reach};
use super::contention;
use super::planner_context::{loss, name, seated};
use super::reserved;

/// So many jobs are named.
const NAMED: usize = 5;

/// A fleet after a cycle.
pub(super) struct Picture {
    /// When those that waited start, nothing where that is unknown.
    starts: BTreeMap<JobKey, Option<Moment>>,
    /// Nodes of those that started in the cycle, in order, each once.
    pub(super) placed: BTreeMap<JobKey, Vec<Name>>,
    /// Who was taken off its devices in the cycle, and for whom.
    pub(super) preempted: BTreeMap<JobKey, Option<JobKey>>,
    /// Who has its quota, and no room on nodes.
    quota_reserved: BTreeSet<JobKey>,
    /// Who starts at once or not, as others come before it or after; the start is unknown then.
    contested: BTreeSet<JobKey>,
    /// Thousandths of devices held after the cycle, by pool.
    pools: BTreeMap<Name, i64>,
    /// What workloads hold then, and what it costs.
    spending: FleetSpending,
    /// What its workloads compete for.
    reach: Reach,
}

/// What happens in the first cycle of a fleet.
pub(super) struct FirstCycle {
    started: Vec<(WorkloadId, Arc<Allocation>)>,
    quota_reserved: Vec<WorkloadId>,
    preempted: BTreeMap<JobKey, Option<JobKey>>,
}

/// What changes once the first cycle is over, and another one follows.
#[derive(Clone, Copy, Default)]
pub(super) struct Then<'a> {
    /// These nodes are opened.
    pub(super) opened: &'a [NodeId],
    /// These, which were kept out of their queues, wait in them.
    pub(super) back: &'a [WorkloadId],
    /// This one has this priority.
    pub(super) priority: Option<(WorkloadId, i32)>,
}

impl Then<'_> {
    fn is_nothing(&self) -> bool {
        self.opened.is_empty() && self.back.is_empty() && self.priority.is_none()
    }
}

impl FirstCycle {
    /// Looks at it.
    pub(super) fn of(state: &mut State<'_>, then: Then<'_>) -> Self {
        let compiled = state.compiled();
        let key = |work: WorkloadId| compiled.workload(work).key.clone();
        let mut started: Vec<(WorkloadId, Arc<Allocation>)> = Vec::new();
        let mut quota_reserved: Vec<WorkloadId> = Vec::new();
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
            let (seated, unseated) = cycle::place(state, &quota_reserved);
            started.extend(seated);
            let options = Options {
                quota_alone: true,
                ..Options::default()
            };
            let cycle = cycle::cycle(state, options);
            quota_reserved = unseated.into_iter().chain(cycle.quota_reserved).collect();
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
        Self {
            started,
            quota_reserved,
            preempted,
        }
    }
}

impl FirstCycle {
    /// True when it starts a job, and nobody preempts that again.
    pub(super) fn starts(&self, compiled: &CompiledFleet, work: WorkloadId) -> bool {
        let mut started = self.started.iter();
        started.any(|(other, _)| *other == work)
            && self.pushed(&compiled.workload(work).key).is_none()
    }

    /// Who preempts a job, where somebody does: another (`Some(Some)`), or its queue evicts it.
    pub(super) fn pushed(&self, job: &JobKey) -> Option<Option<&JobKey>> {
        self.preempted.get(job).map(Option::as_ref)
    }

    /// Whom it starts, and who has quota and no room on nodes.
    pub(super) fn admitted(self) -> BTreeSet<WorkloadId> {
        let started = self.started.into_iter().map(|(work, _)| work);
        started.chain(self.quota_reserved).collect()
    }
}

impl Picture {
    /// Looks at a fleet.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        Self::and_then(snapshot, Then::default())
    }

    /// The same, without what hangs on who comes first. Those who are `away` leave their queues and come back a moment later, in
    /// which their queues admit others.
    pub(super) fn sure(snapshot: &Snapshot, away: &[JobKey]) -> Self {
        let compiled = CompiledFleet::new(snapshot.clone());
        let mut picture = Self::on(&compiled, Then::default());
        let starts = picture.starts.iter();
        let at_once = starts.filter(|(_, start)| start.is_some_and(|start| start <= snapshot.at));
        let at_once: BTreeSet<JobKey> = at_once.map(|(key, _)| key.clone()).collect();
        let mut orders = vec![contention::start_late(&compiled)];
        let away: Vec<WorkloadId> = away.iter().filter_map(|key| compiled.work(key)).collect();
        if !away.is_empty() {
            orders.push(contention::start_in_gap(&compiled, &away));
        }
        for order in &orders {
            for key in at_once.symmetric_difference(order) {
                picture.starts.insert(key.clone(), None);
                picture.contested.insert(key.clone());
            }
        }
        picture
    }

    /// Looks at a fleet that changes once its first cycle is over.
    pub(super) fn and_then(snapshot: &Snapshot, then: Then<'_>) -> Self {
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
        let mut starts: BTreeMap<JobKey, Option<Moment>> = started
            .iter()
            .map(|(work, _)| (key(*work), Some(now)))
            .collect();
        for (work, start) in forecast::forecast_after(&state) {
            starts.insert(key(work), start.p50);
        }
        starts.extend(reserved::starts(&state, &started, &quota_reserved));
        let quota_reserved: BTreeSet<JobKey> = quota_reserved.into_iter().map(key).collect();
        let placed = started.into_iter().map(|(work, allocation)| {
            let nodes = allocation.nodes().into_iter();
            let names: BTreeSet<Name> = nodes
                .map(|node| {
                    compiled.snapshot.nodes[state.room(node).origin]
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
            pools: held(&state),
            spending: spending(&state),
            reach: Reach::of(compiled),
        }
    }

    /// When a job starts: nothing where it does not wait, or its start is unknown.
    pub(super) fn start(&self, key: &JobKey) -> Option<Moment> {
        self.starts.get(key).copied().flatten()
    }

    /// True where it starts at once or not, as others come before it or after.
    pub(super) fn is_contested(&self, key: &JobKey) -> bool {
        self.contested.contains(key)
    }

    /// What these hold costs an hour, micro-USD; unknown where a price is, or they hold slices.
    pub(super) fn rate_of(&self, which: impl Fn(&JobKey) -> bool) -> Option<i64> {
        let jobs = self.spending.jobs.iter().filter(|one| which(&one.key));
        jobs.map(|one| one.rate).sum()
    }

    /// Where a displaced job goes, in words.
    pub(super) fn where_to(&self, key: &JobKey) -> String {
        match (self.placed.get(key), self.start(key)) {
            // (Whose start hangs on who comes first has none.)
            (Some(nodes), Some(_)) if !nodes.is_empty() => {
                format!("starts again at once on {}", first_named(nodes, NAMED))
            }
            _ if self.contested.contains(key) => CONTESTED.to_owned(),
            (_, Some(at)) if self.quota_reserved.contains(key) => format!(
                "has its quota again at once, and finds nodes about {}",
                at.rfc3339()
            ),
            _ if self.quota_reserved.contains(key) => {
                "has its quota again at once, and waits for room on nodes".to_owned()
            }
            (_, Some(at)) => format!("waits, and starts again about {}", at.rfc3339()),
            _ => "waits, and when it starts again is unknown".to_owned(),
        }
    }
}

/// Thousandths of devices that are held, by pool.
fn held(state: &State<'_>) -> BTreeMap<Name, i64> {
    let compiled = state.compiled();
    let mut pools: BTreeMap<Name, i64> = BTreeMap::new();
    for ((node, _), milli) in state.device_use() {
        let node = &compiled.snapshot.nodes[state.room(node).origin];
        *pools.entry(node.pool.clone()).or_default() += i64::from(milli);
    }
    pools
}

/// A job that a plan takes off its devices.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Leaver {
    /// Which.
    pub(super) key: JobKey,
    /// Devices that it gives back.
    pub(super) devices: u32,
    /// What is lost.
    pub(super) loss: Loss,
}

impl Leaver {
    /// All of a workload.
    pub(super) fn whole(snapshot: &Snapshot, work: WorkloadId) -> Option<Self> {
        let model = &snapshot.workloads[work];
        let devices: u32 = seated(model).map(|(set, _)| set.ask.device_count()).sum();
        seated(model).next()?;
        Some(Self {
            key: model.key.clone(),
            devices,
            loss: loss(snapshot, model, seated(model)),
        })
    }
}

/// Compares a fleet with what it will be; `leavers` are those that the plan's own steps take off their devices.
pub(super) fn compare(
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
        // What is contested is told apart: its start is not unknown, it is now or later.
        .filter(|key| !all.contains_key(*key) && !after.contested.contains(*key))
        .filter(|key| before.start(key) != after.start(key))
        .filter_map(|key| {
            let work = snapshot.workloads.iter().find(|work| work.key == *key)?;
            let change = StartChange {
                job: name(key),
                devices: u32::try_from(work.device_count()).unwrap_or(u32::MAX),
                before: before.start(key),
                after: after.start(key),
            };
            caused.tells(key, &change).then_some(change)
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
        // Nodes are paid for whether they work or not.
        burn_change_micro_usd_per_hour: Some(0),
        budgets: Vec::new(),
        spending: Some(Box::new([before.spending.clone(), after.spending.clone()])),
        displaced: all
            .into_values()
            .map(|leaver| Displaced {
                job: name(&leaver.key),
                devices: leaver.devices,
                back: after.start(&leaver.key),
                loss: leaver.loss,
            })
            .collect(),
    }
}

/// Who is preempted after a change and not without it, in words: the first few.
pub(super) fn preempted(before: &Picture, then: &Picture) -> Vec<String> {
    let pushed = then
        .preempted
        .iter()
        .filter(|(key, _)| !before.preempted.contains_key(*key));
    let words = pushed.take(NAMED).map(|(key, by)| {
        let why = by
            .as_ref()
            .map_or_else(String::new, |by| format!(" for {by}"));
        format!("{key} is preempted{why}")
    });
    words.collect()
}

/// Sentences about a forecast for the reasons of a plan: who starts when instead.
pub(super) fn news(forecast: &Forecast, now: Moment) -> Vec<String> {
    let earlier: Vec<&StartChange> = forecast
        .starts
        .iter()
        .filter(|change| change.is_notable())
        .filter(|change| {
            change
                .after
                .is_some_and(|after| change.before.is_none_or(|before| after < before))
        })
        .collect();
    let notable = forecast.starts.iter().filter(|change| change.is_notable());
    let later = notable.count() - earlier.len();
    let mut all = Vec::new();
    let at_once: Vec<String> = earlier
        .iter()
        .filter(|change| change.after.is_some_and(|after| after <= now))
        .map(|change| job_words(&change.job, change.devices))
        .collect();
    if !at_once.is_empty() {
        all.push(format!("starts now: {}", first_named(&at_once, NAMED)));
    }
    match &forecast.contested[..] {
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
            1 => "1 job starts earlier than it would".to_owned(),
            more => format!("{more} jobs start earlier than they would"),
        });
    }
    if later > 0 {
        all.push(match later {
            1 => "1 job starts later than it would, or its start becomes unknown".to_owned(),
            more => {
                format!("{more} jobs start later than they would, or their start becomes unknown")
            }
        });
    }
    all
}

fn job_words(job: &JobName, devices: u32) -> String {
    format!("{job} ({})", counted(devices.into(), "device"))
}
