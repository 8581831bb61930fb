//! What a queueing system or a gang scheduler keeps of a job: its place in the queue, its quota, its evictions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey};

use super::observe::{Labels, OwnerRef, Table};
use super::queue::QueueSystem;
use super::siting::{PodSet, TopologyConstraint};

/// Waits to be admitted again after an eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Requeue {
    /// How often it was put back.
    pub count: u32,
    /// Not before this moment.
    pub at: Option<Moment>,
}

/// Evictions for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Eviction {
    /// The system's own word: `Preempted`, `PodsReadyTimeout`, `ClusterQueueStopped`.
    pub reason: Name,
    /// What stands behind it: `InCohortReclamation`, say; may be empty.
    pub cause: Name,
    /// How often.
    pub count: u32,
    /// When last; known of the latest eviction only.
    pub at: Option<Moment>,
    /// The same in a sentence.
    pub message: Name,
    /// Unique id of the workload that it had to make room for.
    pub preemptor: Option<Name>,
}

/// So many pods in one domain of a topology.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Domain {
    /// Values of the topology's levels, from the widest that is named.
    pub values: Box<[Name]>,
    /// Pods.
    pub count: u32,
}

/// What one pod set was given.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Assigned {
    /// Name of the pod set.
    pub name: Name,
    /// Pods that were admitted.
    pub count: u32,
    /// Resource and the flavor that it comes from.
    pub flavors: Box<[(Name, Name)]>,
    /// Node labels of the topology's levels that `domains` names values of.
    pub levels: Box<[Name]>,
    /// Where its pods go, when the queueing system chose.
    pub domains: Box<[Domain]>,
}

/// A check that somebody else must pass before a job is admitted (a provisioning request, say).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Check {
    /// Name.
    pub name: Name,
    /// `Pending`, `Ready`, `Retry` or `Rejected`.
    pub state: Name,
    /// A sentence.
    pub message: Name,
}

/// A Kueue Workload, or a PodGroup of any system, projected.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupSeen {
    /// The table it was listed in.
    pub table: Table,
    /// Whose it is; [`QueueSystem::None`] for Kubernetes' own.
    pub system: QueueSystem,
    /// Kind of object, `Workload` or `PodGroup`.
    pub kind: Name,
    /// Namespace and name.
    pub key: ObjectKey,
    /// Unique id.
    pub uid: Name,
    /// What it stands for: its controller, or its only owner.
    pub owner: Option<OwnerRef>,
    /// Labels.
    pub labels: Labels,
    /// Annotations that we know how to read.
    pub annotations: Labels,
    /// When it was made.
    pub created: Moment,
    /// When it was told to end.
    pub deleted: Option<Moment>,
    /// The name that it gives its queue: a LocalQueue in Kueue, the queue itself elsewhere.
    pub queue_name: Option<Name>,
    /// The queue that admitted it.
    pub admitted_by: Option<Name>,
    /// Its pod sets; none when it does not say.
    pub pod_sets: Arc<[PodSet]>,
    /// Pods without which it does nothing.
    pub gang_min: Option<u32>,
    /// How close to each other all its pods want to be, where it says so for all of them.
    pub topology: Option<Box<TopologyConstraint>>,
    /// Priority that orders it in its queue.
    pub priority: Option<i32>,
    /// Name of its priority class.
    pub priority_class: Option<Name>,
    /// Whether it may be preempted; `None` when it does not say.
    pub preemptible: Option<bool>,
    /// False when somebody took it out of the queue.
    pub active: bool,
    /// When its quota was reserved.
    pub reserved_at: Option<Moment>,
    /// When it was admitted.
    pub admitted_at: Option<Moment>,
    /// Since when it has been put back into the queue.
    pub queued_at: Option<Moment>,
    /// By which moment its queue orders it, where that is not its creation.
    pub ordered_at: Option<Moment>,
    /// Every pod is ready.
    pub ready: Option<bool>,
    /// It ended well (true), badly (false), or has not ended.
    pub outcome: Option<bool>,
    /// Its phase, in systems that name one (Volcano).
    pub phase: Option<Name>,
    /// See [`Requeue`].
    pub requeue: Option<Requeue>,
    /// Evictions, the latest first.
    pub evictions: Box<[Eviction]>,
    /// What each pod set was given.
    pub assigned: Box<[Assigned]>,
    /// Checks that are not passed.
    pub checks: Box<[Check]>,
    /// Why it is not admitted: the system's own word and sentence.
    pub pending: Option<(Name, Name)>,
    /// How long it may run at most, seconds.
    pub time_limit: Option<u64>,
}

impl GroupSeen {
    /// A group of which nothing but its name is known.
    pub fn unknown(table: Table, system: QueueSystem, kind: Name, key: ObjectKey) -> Self {
        Self {
            table,
            system,
            kind,
            key,
            uid: Name::default(),
            owner: None,
            labels: Labels::default(),
            annotations: Labels::default(),
            created: Moment::default(),
            deleted: None,
            queue_name: None,
            admitted_by: None,
            pod_sets: Arc::from([]),
            gang_min: None,
            topology: None,
            priority: None,
            priority_class: None,
            preemptible: None,
            active: true,
            reserved_at: None,
            admitted_at: None,
            queued_at: None,
            ordered_at: None,
            ready: None,
            outcome: None,
            phase: None,
            requeue: None,
            evictions: Box::default(),
            assigned: Box::default(),
            checks: Box::default(),
            pending: None,
            time_limit: None,
        }
    }
}

/// Where a job stands with its queueing system.
#[derive(Clone, PartialEq, Debug)]
pub struct Admission {
    /// As last seen.
    pub seen: Arc<GroupSeen>,
    /// The queue that it waits in or draws from, by what admitted it, or by its door.
    pub queue: Option<Name>,
    /// Its place in that queue, from 0, where known.
    pub position: Option<u32>,
    /// Its place at its door, from 0, where known.
    pub local_position: Option<u32>,
}

impl Admission {
    /// Whose it is.
    pub fn system(&self) -> QueueSystem {
        self.seen.system
    }

    /// True once it has its quota.
    pub fn has_quota(&self) -> bool {
        self.seen.reserved_at.is_some()
    }
}
