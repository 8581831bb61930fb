//! Jobs with the label of `govern`: which are governed, and which are left alone and why.

use std::sync::Arc;

use cluster::mutations::{is_other_scheduler, is_own_controller};
use engine::live::Titles;
use model::base::{Moment, Name};
use model::fleet::govern::Governed;
use model::fleet::job::{Job, JobKey, JobState};
use model::fleet::observe::{ListedNamespaces, Table};
use model::fleet::queue::{QueueKey, QueueSystem};
use model::fleet::siting::JobPodSet;
use model::fleet::{Fleet, TableState};
use model::plan::Object;

/// A job with the label of `govern`.
#[derive(Clone, PartialEq, Debug)]
pub struct GovernedJob {
    /// Kind, namespace and name.
    pub key: JobKey,
    pub object: Object,
    /// The job's labels, annotations and status, as read.
    pub governed: Arc<Governed>,
    /// The job's queue, by the engine's name.
    pub queue: Name,
    /// Time of the last checkpoint; `None` if the job never saved one.
    pub last_checkpoint: Option<Moment>,
    /// Start of the oldest running pod; `None` while no pod runs.
    pub running_since: Option<Moment>,
    /// True when a pod of the job is scheduled.
    pub has_pods: bool,
    /// Since when a pod of the job is unscheduled; `None` when every pod is scheduled.
    pub pending_since: Option<Moment>,
    /// Since when the job has been admitted with pods missing; set by the caller from one decision
    /// to the next ([`super::Decision::missing`]).
    pub missing_since: Option<Moment>,
    /// Highest priority of the unscheduled pods, by which kube-scheduler orders them; 0 when there are none.
    pub pod_priority: i32,
    /// True when an earlier decision found the job unsuspended and new; set by the caller from one decision
    /// to the next ([`super::Decision::entering`]).
    pub was_new: bool,
    /// Why the pods are unschedulable; empty when the cluster gives no reason.
    pub missing_reason: Name,
    /// True when the job starts as a whole or not at all.
    pub is_gang: bool,
    /// True when the job's requests are known: without them, the job would be admitted as if it requested nothing.
    pub is_known: bool,
    /// True when the job requests no devices: it uses no quota, and whether its pods run is not known here.
    pub asks_nothing: bool,
    /// True when the job has ended, and its last pods are ending.
    pub is_over: bool,
    /// Why the job is left alone; `None` for a governed job.
    pub refused: Option<String>,
    /// Why the job could not be changed: the server denied the change or did not answer. `None` once the job may be changed again.
    pub denied: Option<String>,
}

/// Tables without which nothing is decided, besides those of jobs that can be suspended; a table that the cluster does not
/// serve counts as empty.
const NEEDED: &[Table] = &[
    Table::GovernQueues,
    Table::Nodes,
    Table::Pods,
    Table::PriorityClasses,
    Table::KueueWorkloads,
    Table::VolcanoPodGroups,
    Table::KaiPodGroups,
    Table::ResourceSlices,
    Table::ResourceClaims,
    Table::ResourceClaimTemplates,
    Table::DeviceClasses,
];

/// Why nothing can be decided on this fleet; `None` where it can. Partial facts would admit too much.
pub fn not_ready(fleet: &Fleet) -> Option<String> {
    let jobs = Table::ALL
        .iter()
        .filter(|table| table.api().suspend.is_some());
    for table in NEEDED.iter().chain(jobs) {
        let name = table.name();
        match fleet.visibility(*table) {
            TableState::Live | TableState::Absent => {}
            TableState::Waiting => return Some(format!("{name} are not listed yet")),
            TableState::Lost(lost) | TableState::NotVisible(lost) => {
                return Some(format!("{name}: {}", lost.message));
            }
        }
    }
    if fleet.extent != ListedNamespaces::All {
        return Some("not all namespaces are read: run it without -n, with the role of `stokehold rbac govern`".to_owned());
    }
    match fleet.govern.as_deref() {
        None => Some("there is no ConfigMap stokehold-queues".to_owned()),
        Some(state) if !state.is_read => Some(format!(
            "ConfigMap {}: {}",
            state.key,
            state.fault.as_deref().unwrap_or_default()
        )),
        Some(state) => {
            let is_ours = |queue: &QueueKey| queue.system == QueueSystem::Stokehold;
            let has_queue = fleet.queues.iter().any(|queue| is_ours(&queue.key));
            (!has_queue).then(|| format!("ConfigMap {} has no queue", state.key))
        }
    }
}

/// Every job with the label that has not ended, by namespace, name and kind.
pub fn governed_jobs(fleet: &Fleet) -> Vec<GovernedJob> {
    let titles = Titles::of(fleet);
    let jobs = fleet.jobs.iter().filter(|job| job.is_live());
    jobs.filter_map(|job| of(job, &titles)).collect()
}

fn of(job: &Job, titles: &Titles) -> Option<GovernedJob> {
    let governed = job.govern.clone()?;
    let table = Table::of_job_kind(&job.id.kind)?;
    let object = Object::of(table, &job.id.key.name);
    let bound = job.pods.iter().filter(|pod| pod.holds_devices());
    let waits = |pod: &&std::sync::Arc<model::fleet::device::Pod>| {
        pod.seen.node.is_none() && !pod.seen.phase.is_over()
    };
    let pending = job.pods.iter().filter(waits);
    // A terminating pod says nothing about whether the job runs.
    let stays = bound.clone().filter(|pod| pod.seen.deleted.is_none());
    let running_since = stays.filter_map(|pod| pod.seen.started).min();
    let is_unresolved =
        |set: &JobPodSet| !set.request.claims.is_empty() && set.request.device_count() == 0;
    let devices = |set: &JobPodSet| u64::from(set.request.device_count()) * u64::from(set.count);
    let asked: u64 = job.pod_sets.iter().map(devices).sum();
    let pods: u64 = job.pod_sets.iter().map(|set| u64::from(set.count)).sum();
    let is_known = pods > 0 && !job.pod_sets.iter().any(is_unresolved);
    Some(GovernedJob {
        object: object.within(&job.id.key.namespace).with_uid(&job.uid),
        queue: titles.of_job(QueueSystem::Stokehold, &governed.queue),
        last_checkpoint: job.last_checkpoint,
        running_since,
        pod_priority: pending
            .clone()
            .map(|pod| pod.seen.priority)
            .max()
            .unwrap_or(0),
        was_new: false,
        pending_since: pending.map(|pod| pod.seen.created).min(),
        has_pods: bound.count() > 0,
        missing_since: None,
        missing_reason: job.reason.clone(),
        is_gang: job.is_gang(),
        is_known,
        asks_nothing: is_known && asked == 0,
        is_over: governed.is_deleted || job.state == JobState::Finishing && !governed.suspended,
        refused: refusal(job, &governed, (table.api().group, table.plural())),
        denied: None,
        key: job.id.clone(),
        governed,
    })
}

/// Why a job with the label is left alone; `place` is the group and plural of its kind.
fn refusal(job: &Job, governed: &Governed, place: (&str, &str)) -> Option<String> {
    if let Some(owner) = &governed.owner {
        let (kind, name) = (&owner.kind, &owner.name);
        return Some(format!(
            "it belongs to {kind} {name}: put the label on that"
        ));
    }
    if !governed.suspends {
        return Some(format!("a {} cannot be suspended", job.id.kind));
    }
    if governed.is_kueues {
        return Some("it is in a queue of Kueue".to_owned());
    }
    if let Some(by) = &governed.managed_by
        && !is_own_controller(place, by)
    {
        return Some(format!("it is managed by {by}"));
    }
    if let Some(scheduler) = &governed.scheduler
        && is_other_scheduler(scheduler)
    {
        return Some(format!("it is scheduled by {scheduler}"));
    }
    match job.queue_system {
        QueueSystem::Stokehold | QueueSystem::None => None,
        system => Some(format!("it is in a queue of {}", system.name())),
    }
}
