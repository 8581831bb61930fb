//! Forecasts put to the proof: a simulated week is lived through, each job's start is forecast when it begins to wait, and
//! compared with when it started.
//!
//! The world schedules by its own imitation of kube-scheduler and Kueue, draws durations that nobody is told, and goes
//! on submitting; the forecast sees the objects that any console sees, and the runs that have ended by then.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use cluster::seen;
use engine::explanations;
use engine::forecast::{Basis, Start};
use engine::live;
use model::base::{Moment, Names, SmallSort};
use model::cost::Burn;
use model::fleet::job::{JobKey, JobState};
use model::fleet::observe::{Observation, Table};
use model::fleet::policy::Policy;
use model::fleet::{Fleet, Ledger};
use sim::Cluster;
use sim::change::{Change, Resource, Scene};
use sim::specs::SPECS;
use sim::store::Listing;
use sim::world::{Options, World};

/// Between two looks at the fleet.
const LOOK: i64 = 60_000;

/// How long, and on which world.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The world.
    pub world: Options,
    /// Milliseconds that are lived through before forecasts count: past runs are nobody's at first.
    pub warm_up_ms: i64,
    /// Milliseconds that count.
    pub length_ms: i64,
    /// Forecasts know how long past jobs ran.
    pub history: bool,
}

/// What came of it. Times in seconds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// Nodes of the world.
    pub nodes: usize,
    /// Devices and slices of the world.
    pub devices: usize,
    /// Jobs that began to wait and whose start was asked for.
    pub asked: usize,
    /// Of these, still waiting at the end.
    pub still_waiting: usize,
    /// Of these, gone without a start.
    pub gone: usize,
    /// Of those that started: the forecast had said that it does not know.
    pub unknown: usize,
    /// Of those that started: with a forecast. What follows is of these.
    pub judged: usize,
    /// Median of what lies between forecast and start.
    pub abs_error_p50_seconds: Option<f64>,
    /// Nine in ten were nearer.
    pub abs_error_p90_seconds: Option<f64>,
    /// How long half of them waited at most, to hold the error against.
    pub wait_p50_seconds: Option<f64>,
    /// How long nine in ten waited at most.
    pub wait_p90_seconds: Option<f64>,
    /// Share that started within the interval from p10 to p90, give or take one look.
    pub coverage_ratio: Option<f64>,
    /// Share that started before the interval.
    pub early_ratio: Option<f64>,
    /// Forecasts by what they were reckoned from.
    pub by_basis: BTreeMap<String, usize>,
}

/// A forecast that waits for the truth.
struct Asked {
    at: Moment,
    start: Start,
}

/// Lives through it. `tell` hears of each hour: those over, and all.
pub fn rehearse(setup: &Setup, mut tell: impl FnMut(usize, usize)) -> Outcome {
    let mut world = World::new(setup.world);
    let mut ledger = Ledger::new(Arc::new(Policy::default()));
    let mut names = Names::default();
    for table in TABLES {
        ledger.apply(Observation::Begin(*table));
    }
    fold(&mut ledger, &mut names, world.start());
    for table in TABLES {
        ledger.apply(Observation::End(*table));
    }
    let begin = world.now();
    let (counts_from, end) = (
        begin.millis() + setup.warm_up_ms,
        begin.millis() + setup.warm_up_ms + setup.length_ms,
    );
    let mut open: BTreeMap<JobKey, Asked> = BTreeMap::new();
    // Who waited at the last look: only who begins to wait is asked for.
    let mut waited: BTreeMap<JobKey, ()> = BTreeMap::new();
    let mut judged: Vec<(Asked, Moment)> = Vec::new();
    let (mut asked, mut gone) = (0, 0);
    let hour = |at: i64| usize::try_from((at - begin.millis()) / 3_600_000).unwrap_or(0);
    let mut nodes = 0;
    let mut at = begin.millis();
    while at < end {
        at += LOOK;
        let now = Moment::from_millis(at);
        fold(&mut ledger, &mut names, world.advance(now));
        let fleet = ledger.publish(now);
        nodes = nodes.max(fleet.nodes.len());
        settle(&fleet, &mut open, &mut judged, &mut gone);
        let waits: BTreeMap<JobKey, ()> = fleet
            .jobs
            .iter()
            .filter(|job| job.state == JobState::Waiting && job.devices_requested > 0)
            .map(|job| (job.id.clone(), ()))
            .collect();
        let fresh: Vec<&JobKey> = waits
            .keys()
            .filter(|key| !waited.contains_key(*key))
            .collect();
        if at > counts_from && !fresh.is_empty() {
            let mut snapshot = live::snapshot(&fleet, &Burn::default());
            if !setup.history {
                snapshot.runs.clear();
            }
            let mut starts = explanations::forecast(&snapshot);
            for key in fresh {
                if let Some(start) = starts.remove(key) {
                    asked += 1;
                    open.insert(key.clone(), Asked { at: now, start });
                }
            }
        }
        waited = waits;
        tell(hour(at), hour(end));
    }
    outcome(&judged, asked, gone, open.len(), nodes, world.devices())
}

/// A cluster's fleet at this moment, as a console sees it that has read every object: for tests that stop the clock.
pub fn picture_of(cluster: &Cluster, policy: Arc<Policy>) -> Fleet {
    let mut ledger = Ledger::new(policy);
    let mut names = Names::default();
    let core = cluster.core();
    for table in Table::ALL {
        ledger.apply(Observation::Begin(*table));
    }
    for spec in SPECS {
        let queues = (spec.resource == Resource::ConfigMaps).then_some(Table::GovernQueues);
        let Some(table) = table(spec.resource).or(queues) else {
            continue;
        };
        let all = core
            .store
            .list(spec.resource, &Listing::default(), &|_| true);
        for object in all.map(|page| page.items).unwrap_or_default() {
            // Of ConfigMaps the one that holds the queues of `govern`.
            let name = object.pointer("/metadata/name");
            if queues.is_some() && name.is_none_or(|name| name != "stokehold-queues") {
                continue;
            }
            if let Some(observation) = seen(table, &object, &mut names) {
                ledger.apply(observation);
            }
        }
    }
    for table in Table::ALL {
        ledger.apply(Observation::End(*table));
    }
    let now = core.scene.now();
    drop(core);
    ledger.publish(now)
}

/// Takes what has started, or gone, off the open ones.
fn settle(
    fleet: &Fleet,
    open: &mut BTreeMap<JobKey, Asked>,
    judged: &mut Vec<(Asked, Moment)>,
    gone: &mut usize,
) {
    let over: Vec<(JobKey, Option<Moment>)> = open
        .keys()
        .filter_map(|key| {
            let Some(job) = fleet.job(key) else {
                return Some((key.clone(), None));
            };
            match job.state {
                JobState::Waiting => None,
                JobState::Starting | JobState::Running => Some((key.clone(), Some(fleet.at))),
                JobState::Finishing | JobState::Done | JobState::Failed | JobState::Suspended => {
                    Some((key.clone(), job.started))
                }
            }
        })
        .collect();
    for (key, started) in over {
        let Some(asked) = open.remove(&key) else {
            continue;
        };
        match started {
            Some(started) => judged.push((asked, started)),
            None => *gone += 1,
        }
    }
}

fn outcome(
    all: &[(Asked, Moment)],
    asked: usize,
    gone: usize,
    still_waiting: usize,
    nodes: usize,
    devices: usize,
) -> Outcome {
    let mut errors = Vec::new();
    let mut waits = Vec::new();
    let (mut within, mut early, mut bounded) = (0usize, 0usize, 0usize);
    let mut by_basis: BTreeMap<String, usize> = BTreeMap::new();
    for (asked, started) in all {
        let basis = match asked.start.basis {
            Basis::Now => "now",
            Basis::Limits => "limits",
            Basis::History => "history",
            Basis::None => "none",
        };
        *by_basis.entry(basis.to_owned()).or_default() += 1;
        let Some(p50) = asked.start.p50 else { continue };
        errors.push(p50.millis().abs_diff(started.millis()));
        waits.push(started.millis().abs_diff(asked.at.millis()));
        let Some(p10) = asked.start.p10 else { continue };
        bounded += 1;
        // Without a p90 the interval is open; a look is a minute wide.
        let late = asked
            .start
            .p90
            .is_some_and(|p90| started.millis() > p90.millis() + LOOK);
        let soon = started.millis() < p10.millis() - LOOK;
        within += usize::from(!late && !soon);
        early += usize::from(soon);
    }
    errors.small_sort();
    waits.small_sort();
    let at = |sorted: &[u64], percent: usize| {
        let rank = (sorted.len() * percent).div_ceil(100).max(1) - 1;
        sorted.get(rank).map(|millis| *millis as f64 / 1_000.0)
    };
    let share = |part: usize| (bounded > 0).then(|| part as f64 / bounded as f64);
    Outcome {
        nodes,
        devices,
        asked,
        still_waiting,
        gone,
        unknown: all.len() - errors.len(),
        judged: errors.len(),
        abs_error_p50_seconds: at(&errors, 50),
        abs_error_p90_seconds: at(&errors, 90),
        wait_p50_seconds: at(&waits, 50),
        wait_p90_seconds: at(&waits, 90),
        coverage_ratio: share(within),
        early_ratio: share(early),
        by_basis,
    }
}

/// What the world has of what a console watches.
pub const TABLES: &[Table] = &[
    Table::Nodes,
    Table::Pods,
    Table::Namespaces,
    Table::ReplicaSets,
    Table::Deployments,
    Table::StatefulSets,
    Table::DaemonSets,
    Table::Jobs,
    Table::JobSets,
    Table::PyTorchJobs,
    Table::RayJobs,
    Table::RayClusters,
    Table::LeaderWorkerSets,
    Table::VolcanoJobs,
    Table::VolcanoPodGroups,
    Table::VolcanoQueues,
    Table::KaiPodGroups,
    Table::KaiQueues,
    Table::ResourceSlices,
    Table::ResourceClaims,
    Table::ResourceClaimTemplates,
    Table::DeviceClasses,
    Table::KueueWorkloads,
    Table::ClusterQueues,
    Table::LocalQueues,
    Table::ResourceFlavors,
    Table::Budgets,
    Table::PriorityClasses,
];

/// The table that a resource is one of, for those that are watched.
const fn table(resource: Resource) -> Option<Table> {
    Some(match resource {
        Resource::Nodes => Table::Nodes,
        Resource::Pods => Table::Pods,
        Resource::Namespaces => Table::Namespaces,
        Resource::ReplicaSets => Table::ReplicaSets,
        Resource::Deployments => Table::Deployments,
        Resource::StatefulSets => Table::StatefulSets,
        Resource::DaemonSets => Table::DaemonSets,
        Resource::Jobs => Table::Jobs,
        Resource::JobSets => Table::JobSets,
        Resource::PyTorchJobs => Table::PyTorchJobs,
        Resource::RayJobs => Table::RayJobs,
        Resource::RayClusters => Table::RayClusters,
        Resource::LeaderWorkerSets => Table::LeaderWorkerSets,
        Resource::VolcanoJobs => Table::VolcanoJobs,
        Resource::VolcanoPodGroups => Table::VolcanoPodGroups,
        Resource::VolcanoQueues => Table::VolcanoQueues,
        Resource::VolcanoCommands => return None,
        Resource::KaiPodGroups => Table::KaiPodGroups,
        Resource::KaiQueues => Table::KaiQueues,
        Resource::ResourceSlices => Table::ResourceSlices,
        Resource::ResourceClaims => Table::ResourceClaims,
        Resource::ResourceClaimTemplates => Table::ResourceClaimTemplates,
        Resource::DeviceClasses => Table::DeviceClasses,
        Resource::Workloads => Table::KueueWorkloads,
        Resource::ClusterQueues => Table::ClusterQueues,
        Resource::LocalQueues => Table::LocalQueues,
        Resource::ResourceFlavors => Table::ResourceFlavors,
        Resource::PodDisruptionBudgets => Table::Budgets,
        Resource::PriorityClasses => Table::PriorityClasses,
        Resource::Events | Resource::ConfigMaps | Resource::Services => return None,
        Resource::ServiceAccounts | Resource::Leases => return None,
        // They foretell nothing that the world does.
        Resource::NodePools | Resource::NodeClaims => return None,
        Resource::ProvisioningRequests | Resource::PodAutoscalers | Resource::ScaledObjects => {
            return None;
        }
    })
}

fn fold(ledger: &mut Ledger, names: &mut Names, changes: Vec<Change>) {
    for change in changes {
        if let Some(observation) = observed(change, names) {
            ledger.apply(observation);
        }
    }
}

/// What a watch makes of a change of the world; `None` where nobody watches its kind.
pub fn observed(change: Change, names: &mut Names) -> Option<Observation> {
    match change {
        Change::Put(resource, object) => seen(table(resource)?, &object, names),
        Change::Remove(resource, key) => Some(Observation::Gone(table(resource)?, key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forecasts_are_judged_by_what_the_world_does() {
        let at = Moment::parse("2026-11-21T08:00:00Z").expect("a moment");
        let setup = Setup {
            world: Options {
                nodes: Some(24),
                ..Options::new(at)
            },
            warm_up_ms: 2 * 3_600_000,
            length_ms: 4 * 3_600_000,
            history: true,
        };
        let outcome = rehearse(&setup, |_, _| ());
        assert!(outcome.asked > 0, "{outcome:?}");
        assert_eq!(
            outcome.asked,
            outcome.still_waiting + outcome.gone + outcome.unknown + outcome.judged
        );
        let judged: usize = outcome.by_basis.values().sum();
        assert_eq!(judged, outcome.unknown + outcome.judged);
        assert_eq!(outcome, rehearse(&setup, |_, _| ()), "twice the same");
    }
}
