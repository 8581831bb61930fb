//! Jobs: what a team submitted, whatever kind of object it is, with its gang, its pods and its state.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Age, Moment, Name, ObjectKey};

use super::admission::Admission;
use super::device::{Pod, TeamSource};
use super::govern::Governed;
use super::observe::{Failure, Labels, OwnerRef, Resources};
use super::queue::QueueSystem;
use super::served_model::ServedModel;
use super::signal::Signals;
use super::siting::PodSet;

/// A job's first pods are bound to nodes within so many seconds of its start.
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
    /// Namespace and name.
    pub key: ObjectKey,
    /// Kind, `JobSet` say.
    pub kind: Name,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.key, f)
    }
}

/// Where a job stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum JobState {
    /// None of its pods has a node, and it wants one.
    Waiting,
    /// Some pods have a node, but not all that it needs to work.
    Starting,
    /// All that it needs run.
    Running,
    /// Held by somebody.
    Suspended,
    /// Told to end; its pods still hold devices.
    Finishing,
    /// Ended badly.
    Failed,
    /// Ended well.
    Done,
}

impl JobState {
    /// As in the JSON contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Finishing => "finishing",
            Self::Failed => "failed",
            Self::Done => "done",
        }
    }
}

/// Pods that run together or not at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gang {
    /// Pods that it wants.
    pub size: u32,
    /// Pods without which it does nothing.
    pub min: u32,
}

/// A device, or a slice of one, that a job holds.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HeldDevice {
    /// Node.
    pub node: Name,
    /// Index of the device on its node.
    pub device: u32,
    /// Slice, for a part of a device.
    pub slice: Option<Name>,
}

/// What a job's pods say of the requests that they serve.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Serving {
    /// Pods that said something lately.
    pub servers: u32,
    /// Models that they serve, sorted.
    pub models: Vec<Name>,
    /// Requests and totals added up over pods and models; shares and times as their plain mean.
    pub signals: Signals,
    /// The same model by model, by name.
    pub served: Vec<ServedModel>,
    /// When the newest of it was read.
    pub read_at: Option<Moment>,
}

/// A job.
#[derive(Clone, PartialEq, Debug)]
pub struct Job {
    /// Kind, namespace and name.
    pub id: JobKey,
    /// Unique id, where the API gave one.
    pub uid: Name,
    /// Owner chain from the pods upward, the job itself last: `Job clip-l-w-0`, `JobSet clip-l`.
    pub chain: Box<[OwnerRef]>,
    /// Labels of its own object; `None` where that is not listed. Those of its pods stand with them.
    pub labels: Option<Labels>,
    /// The queue that it waits in or draws from: the one behind its door, where that is known.
    pub queue: Option<Name>,
    /// Whose queue that is.
    pub queue_system: QueueSystem,
    /// Team.
    pub team: Name,
    /// Which rule named the team.
    pub team_source: TeamSource,
    /// Priority: what orders it in its queue, else that of its pods.
    pub priority: Option<i32>,
    /// State.
    pub state: JobState,
    /// Devices (or slices) that it asks for in all.
    pub devices_requested: u32,
    /// Devices (or slices) that its pods hold.
    pub devices_allocated: u32,
    /// Class of the devices it holds or asks for, where known.
    pub class: Option<Name>,
    /// Pools it runs in, sorted.
    pub pools: Box<[Name]>,
    /// Its gang.
    pub gang: Option<Gang>,
    /// When it was made.
    pub created: Moment,
    /// Since when it has waited, while it waits or is suspended: since it was made, or since it lost what it ran on.
    pub waiting_since: Option<Moment>,
    /// When it first ran.
    pub started: Option<Moment>,
    /// When it ended.
    pub finished: Option<Moment>,
    /// A word for why it waits: `unschedulable`, `suspended`, `quota`, `gated`, `no-pods`, ….
    pub reason_code: Option<&'static str>,
    /// The same in a sentence.
    pub reason: Name,
    /// Why it failed or restarts.
    pub failure: Option<Failure>,
    /// Its pods, by name; those that are over are left out unless it failed.
    pub pods: Box<[Arc<Pod>]>,
    /// What it holds, in order.
    pub places: Box<[HeldDevice]>,
    /// Mean utilization of its devices that are known and fresh, 0 to 1.
    pub util: Option<f64>,
    /// Its devices that do no work.
    pub idle_devices: u32,
    /// The requests that it serves, where its pods tell.
    pub serving: Option<Serving>,
    /// What one pod of it asks for and where it may go, while it has no pods to tell.
    pub wish: Option<Arc<(Resources, Labels)>>,
    /// Its pods, set by set: what it asks for as a whole, whether they exist or not.
    pub pod_sets: Arc<[PodSet]>,
    /// Where it stands with its queueing system; `None` when no such system knows it.
    pub admission: Option<Arc<Admission>>,
    /// How long its owner says it runs (`stokehold.dev/runtime-estimate`).
    pub estimate: Option<Duration>,
    /// How long it may run at most.
    pub time_limit: Option<Duration>,
    /// When it last saved its state (`stokehold.dev/last-checkpoint`).
    pub last_checkpoint: Option<Moment>,
    /// What it says of itself to `govern`; `None` for one without its label.
    pub govern: Option<Arc<Governed>>,
}

impl Job {
    /// A job of which nothing but its name is known.
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
            wish: None,
            pod_sets: Arc::from([]),
            admission: None,
            estimate: None,
            time_limit: None,
            last_checkpoint: None,
            govern: None,
            id,
        }
    }

    /// Namespace.
    pub fn namespace(&self) -> &Name {
        &self.id.key.namespace
    }

    /// Name.
    pub fn name(&self) -> &Name {
        &self.id.key.name
    }

    /// True for a job that waits or is held and never had a device: nothing was spent on it.
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

    /// Since when the first of its pods that hold devices now has held them; `None` where none does.
    pub fn held_since(&self) -> Option<Moment> {
        let holding = self.pods.iter().filter(|pod| pod.holds_devices());
        holding.map(|pod| pod.held_since()).min()
    }

    /// True where something says that it held devices before those that its pods hold now: what those cost is not kept.
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

    /// True where it is known that several of its pods run as one.
    pub fn is_gang(&self) -> bool {
        self.gang.is_some_and(|gang| gang.min > 1)
    }

    /// True while it still wants or holds something.
    pub fn is_live(&self) -> bool {
        !matches!(self.state, JobState::Done | JobState::Failed)
    }
}
