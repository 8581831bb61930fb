//! Prepares the fleet for a decision: jobs that are not governed are not admitted, preempted or counted against a queue, and
//! missing pods of admitted jobs have their devices reserved.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::compiled::{CompiledFleet, WorkloadId};
use engine::snapshot::{PodSet, Snapshot, Status, System, Workload};
use model::base::{Name, ObjectKey};
use model::fleet::job::JobKey;

use super::GovernedJob;
use super::class::GovernClass;

/// Pods that have been terminating longer than this may stay for good: their devices do not count as becoming free.
const STUCK: Duration = Duration::from_secs(600);

/// Kind of the workloads that represent unscheduled pods of admitted jobs.
pub(super) const PENDING: &str = "pods to come";

/// Restricts the snapshot to governed jobs: others are not admitted, preempted or counted against a queue.
pub(super) fn prepare(
    snapshot: &mut Snapshot,
    by_key: &BTreeMap<&JobKey, &GovernedJob>,
    classes: &BTreeMap<&JobKey, GovernClass>,
) {
    snapshot
        .queues
        .retain(|queue| queue.system == System::Stokehold);
    let mut own = std::mem::take(&mut snapshot.workloads);
    for work in &mut own {
        let class = classes.get(&work.key);
        let job = by_key.get(&work.key);
        let governed = !matches!(
            class,
            None | Some(GovernClass::Refused(_) | GovernClass::Over)
        );
        work.admission = None;
        if !governed {
            work.queue = None;
            work.preemptible = false;
            if work.status == Status::Waiting {
                work.status = Status::Held;
            }
            continue;
        }
        work.queue = job.map(|job| job.queue.clone());
        work.mutations.suspend = true;
        work.preemptible = job.is_none_or(|job| job.denied.is_none());
        if let (Some(job), [set]) = (job, work.sets.as_mut_slice()) {
            // Succeeded pods need nothing any more.
            let placed = u32::try_from(set.placements.len()).unwrap_or(u32::MAX);
            let left = set.count.saturating_sub(job.governed.succeeded);
            set.count = left.max(placed).min(set.count);
        }
        for set in &mut work.sets {
            // A job that is not suspended creates all of its pods.
            set.min = set.count;
        }
        let placed = work.sets.iter().any(|set| !set.placements.is_empty());
        work.status = match class {
            Some(GovernClass::Waiting) => Status::Waiting,
            Some(GovernClass::Admitted | GovernClass::Adopted) => Status::Running,
            Some(GovernClass::Leaving | GovernClass::TakenBack | GovernClass::New) if placed => {
                Status::Ending
            }
            _ => Status::Held,
        };
        if work.status != Status::Running {
            work.admitted_at = None;
        }
    }
    snapshot.workloads = own;
    snapshot.settle();
}

/// Adds workloads that represent the unscheduled pods of admitted jobs: they have quota and still need nodes. Returns the key of
/// each with the key of its job.
pub(super) fn add_pending_pods(
    snapshot: &mut Snapshot,
    classes: &BTreeMap<&JobKey, GovernClass>,
) -> Vec<(JobKey, JobKey)> {
    let mut more: Vec<(i32, JobKey, Workload)> = Vec::new();
    for work in &snapshot.workloads {
        if classes.get(&work.key) != Some(&GovernClass::Admitted) || work.status != Status::Running
        {
            continue;
        }
        for (at, set) in work.sets.iter().enumerate() {
            let placed = u32::try_from(set.placements.len()).unwrap_or(u32::MAX);
            let count = set.count.saturating_sub(placed);
            // Pods without devices are not known by their job: they may exist.
            if count == 0 || set.requests.devices.is_empty() {
                continue;
            }
            let mut selector = set.selector.clone();
            for name in set.admitted.values() {
                let flavor = snapshot.flavors.iter().find(|flavor| flavor.name == *name);
                selector.extend(flavor.into_iter().flat_map(|it| it.labels.clone()));
            }
            let key = &work.key.key;
            let pods = Workload {
                key: JobKey {
                    kind: Name::new(PENDING),
                    key: ObjectKey::new(
                        key.namespace.clone(),
                        format!("{}/{}/{at}", work.key.kind, key.name),
                    ),
                },
                priority: i32::MAX,
                created: work.created,
                estimate_ms: work.estimate_ms,
                sets: vec![PodSet {
                    count,
                    min: 1,
                    selector,
                    topology: None,
                    admitted: BTreeMap::new(),
                    placements: Vec::new(),
                    ..set.clone()
                }],
                status: Status::Waiting,
                ..Workload::default()
            };
            more.push((work.priority, work.key.clone(), pods));
        }
    }
    // In the order of kube-scheduler.
    more.sort_by_key(|(priority, _, work)| (std::cmp::Reverse(*priority), work.created));
    let key = |(_, of, work): &(i32, JobKey, Workload)| (work.key.clone(), of.clone());
    let keys = more.iter().map(key).collect();
    let works = more.into_iter().map(|(_, _, work)| work);
    snapshot.workloads.extend(works);
    snapshot.settle();
    keys
}

/// True where a pod has been terminating for long, or for an unknown time.
pub(super) fn is_stuck(compiled: &CompiledFleet, work: WorkloadId) -> bool {
    let now = compiled.snapshot.at;
    let placements = compiled.workload(work).sets.iter();
    let mut deleted = placements
        .flat_map(|set| &set.placements)
        .filter_map(|pod| pod.deleted);
    deleted.any(|at| now.since(at) >= STUCK.into())
}
