//! A job's state in its queueing system or gang scheduler: position, quota, evictions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey};

use super::queue::QueueSystem;
use super::siting::{JobPodSet, TopologyConstraint};
use crate::fleet::observed::kinds::Table;
use crate::fleet::observed::object_parts::{Labels, OwnerRef};

/// The wait for readmission after an eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Requeue {
    pub count: u32,
    pub at: Option<Moment>,
}

/// Evictions for one reason.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Eviction {
    /// Reason code of the system: `Preempted`, `PodsReadyTimeout`, `ClusterQueueStopped`.
    pub reason: Name,
    /// Underlying cause, such as `InCohortReclamation`; may be empty.
    pub cause: Name,
    pub count: u32,
    /// Time of the last one; known for the latest eviction only.
    pub at: Option<Moment>,
    pub message: Name,
    /// Uid of the workload that preempted it.
    pub preemptor: Option<Name>,
}

/// Pods in one domain of a topology.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DomainAssignment {
    /// Values of the topology's levels, from the widest named level.
    pub values: Box<[Name]>,
    pub count: u32,
}

/// Amounts of quotas by resource, in thousandths of the resource's unit.
pub type QuotaAmounts = Box<[(Name, i64)]>;

/// Assignment of one pod set.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Assigned {
    /// Name of the pod set.
    pub name: Name,
    /// Pods that were admitted.
    pub count: u32,
    /// Resource and the flavor that it comes from.
    pub flavors: Box<[(Name, Name)]>,
    /// What all its pods use of quotas.
    pub usage: QuotaAmounts,
    /// Node labels of the topology's levels that `domains` names values of.
    pub levels: Box<[Name]>,
    /// Topology domains of its pods, when the queueing system chose them.
    pub domains: Box<[DomainAssignment]>,
}

/// An admission check, such as a provisioning request.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AdmissionCheck {
    pub name: Name,
    /// `Pending`, `Ready`, `Retry` or `Rejected`.
    pub state: Name,
    pub message: Name,
}

/// The fields of a Kueue Workload, or of any PodGroup, that the ledger uses.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupSeen {
    /// The table it was listed in.
    pub table: Table,
    /// Its queueing system; [`QueueSystem::None`] for Kubernetes' own.
    pub system: QueueSystem,
    /// Kind of object, `Workload` or `PodGroup`.
    pub kind: Name,
    pub key: ObjectKey,
    pub uid: Name,
    /// The object that it represents: its controller, or its only owner.
    pub owner: Option<OwnerRef>,
    pub labels: Labels,
    /// Annotations that we read.
    pub annotations: Labels,
    pub created: Moment,
    pub deleted: Option<Moment>,
    /// The queue name in its spec: a LocalQueue in Kueue, the queue itself elsewhere.
    pub queue_name: Option<Name>,
    /// The queue that admitted it.
    pub admitted_by: Option<Name>,
    /// Its pod sets; empty when its spec has none.
    pub pod_sets: Arc<[JobPodSet]>,
    /// Minimum number of pods to run.
    pub gang_min: Option<u32>,
    /// Topology request for all its pods, where it has one.
    pub topology: Option<Box<TopologyConstraint>>,
    /// Priority that orders it in its queue.
    pub priority: Option<i32>,
    pub priority_class: Option<Name>,
    /// Whether it may be preempted; `None` when not specified.
    pub preemptible: Option<bool>,
    /// False when it was deactivated.
    pub active: bool,
    /// When its quota was reserved.
    pub reserved_at: Option<Moment>,
    /// When it was admitted.
    pub admitted_at: Option<Moment>,
    /// Time of the last requeue.
    pub queued_at: Option<Moment>,
    /// Time by which its queue orders it, when not its creation.
    pub ordered_at: Option<Moment>,
    /// True when every pod is ready.
    pub ready: Option<bool>,
    /// True when it succeeded, false when it failed, `None` before its end.
    pub outcome: Option<bool>,
    /// Its phase, in systems that name one (Volcano).
    pub phase: Option<Name>,
    pub requeue: Option<Requeue>,
    /// Evictions, the latest first.
    pub evictions: Box<[Eviction]>,
    /// Assignment of each pod set.
    pub assigned: Box<[Assigned]>,
    /// Checks that have not passed.
    pub checks: Box<[AdmissionCheck]>,
    /// Why it is not admitted: reason code and message.
    pub pending: Option<(Name, Name)>,
    /// Maximum runtime in seconds, where it has one.
    pub time_limit: Option<u64>,
    /// The worker cluster that runs it, where MultiKueue has sent it to one.
    #[serde(default)]
    pub cluster: Option<Name>,
    /// Pods that need no quota anymore, by pod set.
    #[serde(default)]
    pub reclaimable: Box<[(Name, u32)]>,
    /// What all pods of each pod set ask of quotas, as its queueing system counted it when it last considered it.
    #[serde(default)]
    pub requests: Box<[(Name, QuotaAmounts)]>,
}

impl GroupSeen {
    /// A group with only its identity known.
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
            cluster: None,
            reclaimable: Box::default(),
            requests: Box::default(),
        }
    }
}

/// State of a job in its queueing system.
#[derive(Clone, PartialEq, Debug)]
pub struct Admission {
    pub seen: Arc<GroupSeen>,
    /// The queue that it waits in or is charged to: the one that admitted it, else the one of its LocalQueue.
    pub queue: Option<Name>,
    /// Position in that queue, from 0, where known.
    pub position: Option<u32>,
    /// Position in its LocalQueue, from 0, where known.
    pub local_position: Option<u32>,
    /// Its other groups in that system that have not ended: a LeaderWorkerSet has a Workload for each of its groups.
    pub others: Box<[Arc<GroupSeen>]>,
}

impl Admission {
    pub fn system(&self) -> QueueSystem {
        self.seen.system
    }

    /// True once its quota is reserved.
    pub fn has_quota(&self) -> bool {
        self.seen.reserved_at.is_some()
    }

    /// The worker cluster that runs it: it uses quota here, and its pods are there.
    pub fn worker_cluster(&self) -> Option<&Name> {
        let runs = self.has_quota() && self.seen.active && self.seen.outcome.is_none();
        self.seen.cluster.as_ref().filter(|_| runs)
    }

    /// Pods of a pod set that need no quota anymore, over all its groups.
    pub fn reclaimable(&self, set: &str) -> u32 {
        let groups = std::iter::once(&self.seen).chain(&self.others);
        let counts = groups.flat_map(|group| group.reclaimable.iter());
        let own = counts.filter(|(name, _)| name.as_str() == set);
        own.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }
}
