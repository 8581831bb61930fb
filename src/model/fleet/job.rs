//! Jobs: submitted workloads of any kind, with their gang, pods and state.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Age, Moment, Name, ObjectKey};

use super::device::{Pod, TeamSource};
use super::observed::object_parts::{Labels, OwnerRef, Resources, WorkloadFailure};
use super::queueing::admission::Admission;
use super::queueing::govern::Governed;
use super::queueing::queue::QueueSystem;
use super::queueing::run_hold::RunHold;
use super::queueing::siting::JobPodSet;
use super::serving::served_model::{ServedModel, ServedReplica, SlowReplica};
use super::signal::Signals;

/// Longest time, in seconds, between a job's start and the scheduling of its first pods.
const BETWEEN_PODS: u64 = 120;

/// Kind, namespace and name of a job. Orders by namespace, name, kind.
#[derive(
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct JobKey {
    pub key: ObjectKey,
    pub kind: Name,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.key, f)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum JobState {
    /// No pod is scheduled, and at least one is pending.
    Waiting,
    /// Some pods are scheduled, but fewer than the job needs to run.
    Starting,
    /// All the pods that it needs are running.
    Running,
    Suspended,
    /// Terminating; its pods still have devices allocated.
    Finishing,
    Failed,
    Done,
}

crate::words! {
    impl JobState {
        /// Name in the JSON contract.
        pub fn name(self) {
            Waiting => "waiting",
            Starting => "starting",
            Running => "running",
            Suspended => "suspended",
            Finishing => "finishing",
            Failed => "failed",
            Done => "done",
        }
    }
}

/// Pods that are scheduled together or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gang {
    /// Pods in the gang.
    pub size: u32,
    /// Minimum number of pods for the job to run.
    pub min: u32,
}

/// A device, or a slice of one, that is allocated to a job.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HeldDevice {
    pub node: Name,
    /// Index of the device on its node.
    pub device: u32,
    /// Slice, when only part of the device is allocated.
    pub slice: Option<Name>,
}

/// Serving metrics that a job's pods report.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Serving {
    /// Pods with recent serving metrics.
    pub servers: u32,
    /// Names of the models served, sorted.
    pub models: Vec<Name>,
    /// Counts and totals are summed over pods and models; ratios and times are their unweighted mean.
    pub signals: Signals,
    /// The same metrics per model, sorted by name.
    pub served: Vec<ServedModel>,
    /// The same metrics per pod, sorted by its key.
    pub replicas: Vec<ServedReplica>,
    /// Time of the newest reading.
    pub read_at: Option<Moment>,
}

impl Serving {
    /// What a pod says of its requests; `None` where it has no recent metrics.
    pub fn replica(&self, pod: &ObjectKey) -> Option<&ServedReplica> {
        let place = self.replicas.binary_search_by(|one| one.pod.cmp(pod));
        self.replicas.get(place.ok()?)
    }
}

/// A job: the top of an owner chain, or a pod without an owner.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Kind, namespace and name.
    pub id: JobKey,
    /// Uid, where the API returned one.
    pub uid: Name,
    /// Owner chain from the pods upward, the job itself last: `Job clip-l-w-0`, `JobSet clip-l`.
    pub chain: Box<[OwnerRef]>,
    /// Labels of the job's own object; `None` where that kind is not listed. Pod labels are stored with the pods.
    pub labels: Option<Labels>,
    /// The queue that the job waits in or is charged to: the ClusterQueue behind a LocalQueue, where that is known.
    pub queue: Option<Name>,
    /// The queueing system of that queue.
    pub queue_system: QueueSystem,
    pub team: Name,
    /// The rule that set the team.
    pub team_source: TeamSource,
    /// Priority: the one that orders the job in its queue, else its pods' priority.
    pub priority: Option<i32>,
    pub state: JobState,
    /// Devices (or slices) requested in total.
    pub devices_requested: u32,
    /// Devices (or slices) allocated to its pods.
    pub devices_allocated: u32,
    /// Class of the allocated or requested devices, where known.
    pub class: Option<Name>,
    /// Pools that it runs in, sorted.
    pub pools: Box<[Name]>,
    pub gang: Option<Gang>,
    pub created: Moment,
    /// Start of the current wait, while the job is pending or suspended: its creation, or the loss of its previous allocation.
    pub waiting_since: Option<Moment>,
    pub started: Option<Moment>,
    pub finished: Option<Moment>,
    /// Reason code for the wait: `unschedulable`, `suspended`, `quota`, `gated`, `no-pods`, ….
    pub reason_code: Option<&'static str>,
    /// The reason as a sentence.
    pub reason: Name,
    /// Why it failed or is restarting.
    pub failure: Option<WorkloadFailure>,
    /// Its pods, sorted by name; finished pods are omitted unless the job failed.
    pub pods: Box<[Arc<Pod>]>,
    /// Allocated devices, in order.
    pub places: Box<[HeldDevice]>,
    /// Mean utilization of its devices with fresh readings, 0 to 1.
    pub util: Option<f64>,
    /// Allocated devices that are idle.
    pub idle_devices: u32,
    /// Serving metrics, where its pods export them.
    pub serving: Option<Serving>,
    /// Requests and node selector of one pod, while the job has no pods to read them from.
    pub pod_request: Option<Arc<(Resources, Labels)>>,
    /// Its pod sets: the total request, whether the pods exist or not.
    pub pod_sets: Arc<[JobPodSet]>,
    /// Its state in the queueing system; `None` when no queueing system manages it.
    pub admission: Option<Arc<Admission>>,
    /// Runtime estimate set by the owner (`stokehold.dev/runtime-estimate`).
    pub estimate: Option<Duration>,
    pub time_limit: Option<Duration>,
    /// Time of the last checkpoint (`stokehold.dev/last-checkpoint`).
    pub last_checkpoint: Option<Moment>,
    /// The run that has suspended it and is to resume it.
    pub held: Option<Arc<RunHold>>,
    /// Labels and annotations for `govern`; `None` for a job without its label.
    pub govern: Option<Arc<Governed>>,
}

impl Job {
    /// A job with only its identity known.
    pub fn unknown(id: JobKey) -> Self {
        Self {
            uid: Name::default(),
            chain: Box::default(),
            labels: None,
            queue: None,
            queue_system: QueueSystem::None,
            team: id.key.namespace.clone(),
            team_source: TeamSource::Namespace,
            priority: None,
            state: JobState::Waiting,
            devices_requested: 0,
            devices_allocated: 0,
            class: None,
            pools: Box::default(),
            gang: None,
            created: Moment::default(),
            waiting_since: None,
            started: None,
            finished: None,
            reason_code: None,
            reason: Name::default(),
            failure: None,
            pods: Box::default(),
            places: Box::default(),
            util: None,
            idle_devices: 0,
            serving: None,
            pod_request: None,
            pod_sets: Arc::from([]),
            admission: None,
            estimate: None,
            time_limit: None,
            last_checkpoint: None,
            held: None,
            govern: None,
            id,
        }
    }

    pub fn namespace(&self) -> &Name {
        &self.id.key.namespace
    }

    pub fn name(&self) -> &Name {
        &self.id.key.name
    }

    /// Devices that it waits for; none unless it is waiting.
    pub fn devices_waiting(&self) -> u32 {
        match self.state {
            JobState::Waiting => self
                .devices_requested
                .saturating_sub(self.devices_allocated),
            _ => 0,
        }
    }

    /// True where it has, or requests while it has none, slices of devices only.
    pub fn is_sliced(&self) -> bool {
        if !self.places.is_empty() {
            return self.places.iter().all(|place| place.slice.is_some());
        }
        let asked = || {
            let sets = self.pod_sets.iter();
            sets.flat_map(|set| set.request.devices.iter())
                .filter(|(_, count)| *count > 0)
        };
        asked().next().is_some() && asked().all(|(resource, _)| resource.contains("/mig-"))
    }

    /// True for a pending or suspended job that never had a device allocated: its cost is zero.
    pub fn never_started(&self) -> bool {
        let waits = matches!(self.state, JobState::Waiting | JobState::Suspended);
        let admission = self.admission.as_ref().map(|admission| &admission.seen);
        let was_admitted = admission.is_some_and(|seen| {
            !seen.evictions.is_empty() || seen.admitted_at.is_some() || seen.requeue.is_some()
        });
        let failed = self.failure.is_some();
        let since_made = self.waiting_since.is_none_or(|since| since <= self.created);
        waits
            && since_made
            && self.devices_allocated == 0
            && self.started.is_none()
            && !was_admitted
            && !failed
    }

    /// Earliest allocation time among the pods that have devices allocated now; `None` when no pod has any.
    pub fn held_since(&self) -> Option<Moment> {
        let holding = self.pods.iter().filter(|pod| pod.holds_devices());
        holding.map(|pod| pod.held_since()).min()
    }

    /// True when some of its pods have had devices for a shorter time than the first: they may have replaced others.
    pub fn may_have_replaced_pods(&self) -> bool {
        let holding = self.pods.iter().filter(|pod| pod.holds_devices());
        let last = holding.map(|pod| pod.held_since()).max();
        let between = self.held_since().zip(last);
        between.is_some_and(|(first, last)| last.since(first) > Age::from_seconds(BETWEEN_PODS))
    }

    /// True when the job had devices allocated before those of its current pods. The cost of the earlier allocation is not stored.
    pub fn held_before(&self) -> bool {
        let admission = self.admission.as_ref().map(|admission| &admission.seen);
        let was_evicted =
            admission.is_some_and(|seen| !seen.evictions.is_empty() || seen.requeue.is_some());
        let lost_pods =
            (self.failure.as_ref()).is_some_and(|failure| failure.last_eviction.is_some());
        let ran_earlier = self
            .held_since()
            .zip(self.started)
            .is_some_and(|(first, started)| first.since(started) > Age::from_seconds(BETWEEN_PODS));
        was_evicted || lost_pods || ran_earlier
    }

    /// The replica of a service that answers far more slowly than the others.
    pub fn slow_replica(&self) -> Option<SlowReplica<'_>> {
        SlowReplica::of(&self.serving.as_ref()?.replicas)
    }

    /// True for a kind whose pods serve requests and do not end.
    pub fn is_service(&self) -> bool {
        matches!(self.id.kind.as_str(), "Deployment" | "LeaderWorkerSet")
    }

    /// True when several of its pods are known to be scheduled as one gang.
    pub fn is_gang(&self) -> bool {
        self.gang.is_some_and(|gang| gang.min > 1)
    }

    /// True until the job is done or failed.
    pub fn is_live(&self) -> bool {
        !matches!(self.state, JobState::Done | JobState::Failed)
    }
}
