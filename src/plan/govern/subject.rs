//! Which jobs are governed, and which are left alone and why.

use std::sync::Arc;

use cluster::mutations::{is_other_scheduler, is_own_controller};
use cluster::table;
use engine::live::Titles;
use model::base::{Moment, Name};
use model::fleet::govern::Governed;
use model::fleet::job::{Job, JobKey, JobState};
use model::fleet::observe::{Extent, Table};
use model::fleet::queue::{QueueKey, QueueSystem};
use model::fleet::siting::PodSet;
use model::fleet::{Fleet, Known};
use model::plan::Object;

/// A job that carries the label of `govern`.
#[derive(Clone, PartialEq, Debug)]
pub struct GovernedJob {
    /// Kind, namespace and name.
    pub key: JobKey,
    /// Its object.
    pub object: Object,
    /// What it says of itself.
    pub governed: Arc<Governed>,
    /// Its queue as the engine calls it.
    pub queue: Name,
    /// When it last saved its state; nothing for one that never did.
    pub last_checkpoint: Option<Moment>,
    /// Since when pods of it run; nothing while none does.
    pub running_since: Option<Moment>,
    /// Pods of it are on nodes.
    pub has_pods: bool,
    /// Since when pods of it wait for a node; nothing where none does.
    pub pending_since: Option<Moment>,
    /// Since when it was seen that it is admitted and not all of its pods are on nodes; who decides again and again tells it
    /// ([`super::Decision::missing`]).
    pub missing_since: Option<Moment>,
    /// Why its pods have no nodes, where the cluster says it.
    pub missing_reason: Name,
    /// It starts whole or not at all.
    pub is_gang: bool,
    /// What it asks for is known: without that it would be admitted as if it asked for nothing.
    pub is_known: bool,
    /// It asks for no devices: no quota is held by it, and whether its pods run is not known here.
    pub asks_nothing: bool,
    /// It has ended, and its last pods go.
    pub is_over: bool,
    /// Why it is left alone; nothing for one that is governed.
    pub refused: Option<String>,
    /// Why it could not be changed: the server refused or did not answer. Nothing once it may be changed again.
    pub denied: Option<String>,
}

/// Tables of which a lost one keeps from deciding anything; what the cluster does not serve is known to be empty.
const NEEDED: &[Table] = &[
    Table::GovernQueues,
    Table::Nodes,
    Table::Pods,
    Table::Jobs,
    Table::JobSets,
    Table::PyTorchJobs,
    Table::TfJobs,
    Table::MpiJobs,
    Table::TrainJobs,
    Table::RayJobs,
    Table::RayClusters,
    Table::PriorityClasses,
    Table::KueueWorkloads,
    Table::VolcanoPodGroups,
    Table::KaiPodGroups,
    Table::ResourceSlices,
    Table::ResourceClaims,
    Table::ResourceClaimTemplates,
    Table::DeviceClasses,
];

/// Why nothing can be decided on this fleet; nothing where it can. Half of the facts would admit too much.
pub fn not_ready(fleet: &Fleet) -> Option<String> {
    for table in NEEDED {
        let name = table.name();
        match fleet.known(*table) {
            Known::Live | Known::Absent => {}
            Known::Waiting => return Some(format!("{name} are not listed yet")),
            Known::Lost(lost) | Known::NotVisible(lost) => {
                return Some(format!("{name}: {}", lost.message));
            }
        }
    }
    if fleet.extent != Extent::All {
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

/// Every job that carries the label and has not ended, by namespace, name and kind.
pub fn governed_jobs(fleet: &Fleet) -> Vec<GovernedJob> {
    let titles = Titles::of(fleet);
    let jobs = fleet.jobs.iter().filter(|job| job.is_live());
    jobs.filter_map(|job| of(job, &titles)).collect()
}

fn of(job: &Job, titles: &Titles) -> Option<GovernedJob> {
    let governed = job.govern.clone()?;
    let kind = table::of_job_kind(&job.id.kind)?;
    let (place, plural) = (table::place(kind), kind.plural());
    let object = Object::new(
        place.group,
        place.version,
        plural,
        place.kind,
        &job.id.key.name,
    );
    let bound = job.pods.iter().filter(|pod| pod.holds_devices());
    let waits = |pod: &&std::sync::Arc<model::fleet::device::Pod>| {
        pod.seen.node.is_none() && !pod.seen.phase.is_over()
    };
    let pending = job.pods.iter().filter(waits);
    // A pod that was told to end says nothing of a job that is to go on.
    let stays = bound.clone().filter(|pod| pod.seen.deleted.is_none());
    let running_since = stays.filter_map(|pod| pod.seen.started).min();
    let is_unresolved =
        |set: &PodSet| !set.request.claims.is_empty() && set.request.device_count() == 0;
    let devices = |set: &PodSet| u64::from(set.request.device_count()) * u64::from(set.count);
    let asked: u64 = job.pod_sets.iter().map(devices).sum();
    let pods: u64 = job.pod_sets.iter().map(|set| u64::from(set.count)).sum();
    let is_known = pods > 0 && !job.pod_sets.iter().any(is_unresolved);
    Some(GovernedJob {
        object: object.within(&job.id.key.namespace).with_uid(&job.uid),
        queue: titles.of_job(QueueSystem::Stokehold, &governed.queue),
        last_checkpoint: job.last_checkpoint,
        running_since,
        pending_since: pending.map(|pod| pod.seen.created).min(),
        has_pods: bound.count() > 0,
        missing_since: None,
        missing_reason: job.reason.clone(),
        is_gang: job.is_gang(),
        is_known,
        asks_nothing: is_known && asked == 0,
        is_over: governed.is_deleted || job.state == JobState::Finishing && !governed.suspended,
        refused: refusal(job, &governed, (place.group, plural)),
        denied: None,
        key: job.id.clone(),
        governed,
    })
}

/// Why a job with the label, whose kind is served at `place` (group and plural), is left alone.
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
