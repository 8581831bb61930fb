//! A piece of work: what a team calls its job, with its controller objects and pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use model::base::{Moment, Name};

use super::super::change::Resource;
use super::clients::patch::Edit;
pub(super) use super::kinds::{DisruptionBound, Profile, VOLCANO_JOB, WorkKind};
use super::noise::{mix, suffix, uuid};
use super::pod::{Ending, PodId};

/// Number of a piece of work; never reused.
pub(super) type WorkId = u32;

/// The scheduler that places a work's pods.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Scheduler {
    Kube,
    /// Volcano, through this queue.
    Volcano(Name),
    /// KAI, through this queue.
    Kai(Name),
}

impl Scheduler {
    /// Its `schedulerName` in pods.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Kube => "default-scheduler",
            Self::Volcano(_) => "volcano",
            Self::Kai(_) => "kai-scheduler",
        }
    }
}

/// Resource requests of one pod.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct WorkloadRequests {
    /// Extended resource, if any.
    pub resource: Option<Name>,
    pub count: u32,
    /// The ResourceClaimTemplate of its devices, if it requests them through DRA.
    pub claim: Option<Name>,
    pub cpu_milli: i64,
    pub memory_mib: i64,
}

/// A toleration: key, value (empty: any), effect (empty: all).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SimToleration {
    pub key: Name,
    pub value: Option<Name>,
    pub effect: Name,
    pub seconds: Option<i64>,
}

/// One replicated part of a work: a child Job, a ReplicaSet, or the controller itself.
#[derive(Clone, Debug)]
pub(super) struct ReplicaGroup {
    /// Name of the object that owns the pods.
    pub name: Name,
    pub uid: u64,
    pub created: Moment,
    pub parallelism: u32,
    pub completions: u32,
    /// Live pods by index.
    pub live: BTreeMap<u32, PodId>,
    /// Indices that have completed.
    pub done: BTreeSet<u32>,
    pub failed: u32,
    pub started: Option<Moment>,
    pub completed: Option<Moment>,
    pub edit: Edit,
}

impl ReplicaGroup {
    /// A group without pods.
    pub(super) fn new(
        name: Name,
        uid: u64,
        created: Moment,
        parallelism: u32,
        completions: u32,
    ) -> Self {
        Self {
            name,
            uid,
            created,
            parallelism,
            completions,
            live: BTreeMap::new(),
            done: BTreeSet::new(),
            failed: 0,
            started: None,
            completed: None,
            edit: Edit::default(),
        }
    }
}

/// Phase of a work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WorkState {
    /// Suspended, queued, or its pods are not all placed.
    Waiting,
    /// All its pods run.
    Running,
    /// Over: when, and whether it succeeded.
    Done(Moment, bool),
}

/// The Kueue Workload of a queued work.
#[derive(Clone, Debug)]
pub(super) struct SimWorkload {
    pub name: Name,
    pub uid: u64,
    pub created: Moment,
    pub active: bool,
    /// A priority that overrides the class's.
    pub priority: Option<i32>,
    /// Cluster queue and quota while quota is reserved, and since when.
    pub reserved: Option<(usize, usize, Moment)>,
    /// Devices that the reservation counts.
    pub size: u32,
    /// Reason, message and moment of the last failed attempt.
    pub pending: (Name, Name, Moment),
    /// Reason, message and moment of the last eviction.
    pub evicted: Option<(Name, Name, Moment)>,
    /// Set when the eviction was a preemption: its reason.
    pub preempted: Option<Name>,
    pub pods_ready: Option<Moment>,
    pub evictions: u32,
    /// When it was last queued.
    pub queued: Moment,
    pub edit: Edit,
}

/// A workload of the simulated fleet: its parameters and its state.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// What it was begun with; [`Self::groups`] are its groups.
    pub parameters: WorkParameters,
    pub uid: u64,
    pub created: Moment,
    /// Priority class of its PodGroup, which its owner may change.
    pub group_class: Name,
    /// The class that its owner names: KAI's pod-grouper takes it over when a pod changes.
    pub owner_class: Name,
    /// Since when Volcano has admitted its PodGroup.
    pub inqueue: Option<Moment>,
    pub groups: Vec<ReplicaGroup>,
    /// Pod index and device within the pod of the gang's straggler.
    pub straggler: Option<(u32, u32)>,
    /// Since when a rank has been dead without an error: the other ranks wait for it.
    pub stalled: Option<Moment>,
    pub last_checkpoint: Option<Moment>,
    /// Milliseconds of work that checkpoints have saved.
    pub saved: i64,
    pub suspended: bool,
    pub suspended_since: Moment,
    pub state: WorkState,
    pub running_since: Option<Moment>,
    /// The run that events refer to.
    pub epoch: u32,
    pub restarts: u32,
    /// RayClusters that it had before the current one.
    pub clusters: u32,
    /// Why it failed: reason and message of the condition.
    pub failure: Option<(Name, Name)>,
    pub workload: Option<SimWorkload>,
    /// Every pod that still exists.
    pub pods: BTreeSet<PodId>,
    /// Nodes that match its selector, and the version of the fleet's labels at that time.
    pub matching: Option<(u64, Box<[usize]>)>,
    /// A reconcile is already scheduled.
    pub queued_reconcile: bool,
    pub edit: Edit,
}

impl std::ops::Deref for Work {
    type Target = WorkParameters;

    fn deref(&self) -> &WorkParameters {
        &self.parameters
    }
}

impl std::ops::DerefMut for Work {
    fn deref_mut(&mut self) -> &mut WorkParameters {
        &mut self.parameters
    }
}

impl Work {
    /// The live pods of its groups.
    pub(super) fn live_pods(&self) -> impl Iterator<Item = PodId> {
        self.groups
            .iter()
            .flat_map(|group| group.live.values().copied())
    }

    /// Devices that its concurrent pods request together.
    pub(super) fn devices(&self) -> u32 {
        self.width() * self.ask.count
    }

    /// Number of concurrent pods.
    pub(super) fn width(&self) -> u32 {
        self.groups
            .iter()
            .map(|group| group.parallelism.min(group.completions))
            .sum()
    }

    /// Name and uid of its current or a former RayCluster; `before` is the number of earlier ones.
    pub(super) fn cluster(&self, before: u32) -> (Name, u64) {
        let uid = mix(self.uid, 0xc1 + u64::from(before));
        let name = Name::from(format!("{}-{}", self.name, suffix(uid, 5)));
        (name, uid)
    }

    /// The uid of the StatefulSet of leaders.
    pub(super) fn leaders_uid(&self) -> u64 {
        mix(self.uid, 0x1ead)
    }

    /// Kind, name and uid of the owner of a pod at this index and attempt; `None` for a pod without a controller.
    pub(super) fn owner_of(
        &self,
        group: u32,
        index: u32,
        attempt: u32,
    ) -> Option<(&'static str, Name, u64)> {
        let part = self.groups.get(group as usize)?;
        match self.kind {
            WorkKind::Pod => None,
            WorkKind::JobSet => Some(("Job", part.name.clone(), part.uid)),
            WorkKind::Deployment => Some(("ReplicaSet", part.name.clone(), part.uid)),
            WorkKind::RayJob => {
                let (name, uid) = self.cluster(attempt);
                Some(("RayCluster", name, uid))
            }
            WorkKind::LeaderWorkerSet if index == 0 => {
                Some(("StatefulSet", self.name.clone(), self.leaders_uid()))
            }
            WorkKind::LeaderWorkerSet => {
                let uid = mix(part.uid, u64::from(attempt));
                Some(("StatefulSet", part.name.clone(), uid))
            }
            kind => Some((kind.word(), self.name.clone(), self.uid)),
        }
    }

    /// The objects between the controller and its pods, including those that do not exist at all times.
    pub(super) fn children(&self) -> Vec<(Resource, Name)> {
        let groups = |resource| {
            let names = self.groups.iter().map(|group| group.name.clone());
            names.map(|name| (resource, name)).collect()
        };
        match self.kind {
            WorkKind::JobSet => groups(Resource::Jobs),
            WorkKind::Deployment => groups(Resource::ReplicaSets),
            WorkKind::VolcanoJob => {
                let name = Name::from(format!("{}-{}", self.name, uuid(self.uid)));
                vec![(Resource::VolcanoPodGroups, name)]
            }
            WorkKind::PyTorchJob if matches!(self.scheduler, Scheduler::Kai(_)) => {
                let name = Name::from(format!("pg-{}-{}", self.name, uuid(self.uid)));
                vec![(Resource::KaiPodGroups, name)]
            }
            WorkKind::RayJob => vec![(Resource::RayClusters, self.cluster(self.clusters).0)],
            WorkKind::LeaderWorkerSet => {
                let mut all = vec![(Resource::StatefulSets, self.name.clone())];
                all.extend(groups(Resource::StatefulSets));
                all
            }
            _ => Vec::new(),
        }
    }

    /// True for a child that is created with the pods and deleted before its controller: a RayCluster, or the workers of a leader.
    pub(super) fn comes_with_pods(&self, child: usize) -> bool {
        match self.kind {
            WorkKind::RayJob => true,
            WorkKind::LeaderWorkerSet => child > 0,
            _ => false,
        }
    }

    /// How many [`Self::children`] there are.
    pub(super) fn child_count(&self) -> usize {
        match self.kind {
            WorkKind::JobSet | WorkKind::Deployment => self.groups.len(),
            WorkKind::RayJob | WorkKind::VolcanoJob => 1,
            WorkKind::PyTorchJob if matches!(self.scheduler, Scheduler::Kai(_)) => 1,
            WorkKind::LeaderWorkerSet => 1 + self.groups.len(),
            _ => 0,
        }
    }

    /// True once it has ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, WorkState::Done(..))
    }

    /// Noise key that all ranks of a work share.
    pub(super) fn noise(&self) -> u64 {
        self.uid
    }
}

/// Parameters of a work.
#[derive(Clone, Debug)]
pub(super) struct WorkParameters {
    pub namespace: Name,
    pub name: Name,
    pub kind: WorkKind,
    pub user: Name,
    pub team: Name,
    pub queue: Option<Name>,
    /// Priority class; may be empty.
    pub class: Name,
    pub priority: i32,
    pub ask: WorkloadRequests,
    /// The pool that it must run on, if its labels select one.
    pub pool: Option<usize>,
    pub selector: BTreeMap<Name, Name>,
    pub tolerations: Vec<SimToleration>,
    /// All pods or none.
    pub gang: bool,
    pub scheduler: Scheduler,
    /// Each group has a TPU slice of its own.
    pub sliced: bool,
    /// Groups at the start: name, concurrent pods and completions of each.
    pub groups: Vec<(Name, u32, u32)>,
    pub profile: Profile,
    /// Mean utilization of its devices while it works, 0 to 1.
    pub util: f64,
    /// Share of device memory that it uses, 0 to 1.
    pub memory: f64,
    /// Milliseconds of work in all (of one pod, when the pods are independent).
    pub length: i64,
    pub ending: Ending,
    /// Milliseconds between checkpoints; 0 when it makes none.
    pub checkpoint_every: i64,
    pub image: &'static str,
    /// True while its owner has it suspended.
    pub held: bool,
    /// Least and most replicas of a service over the day.
    pub curve: Option<(u32, u32)>,
    /// Labels besides the usual ones.
    pub labels: Vec<(Name, Name)>,
    /// The controller object as a client wrote it.
    pub foreign: Option<Arc<Value>>,
}
