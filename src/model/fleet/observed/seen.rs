//! The fields of nodes, pods and workloads that the ledger uses.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::{Moment, Name, ObjectKey};

use super::claim::Consumed;
use super::condition::Condition;
use super::kinds::Table;
use super::object_parts::{Labels, OwnerRef, Phase, Reserved, Resources, Taint, WorkloadFailure};
use crate::fleet::queueing::siting::{JobPodSet, Siting};

/// The fields of a Node that the ledger uses.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeSeen {
    pub name: Name,
    pub uid: Name,
    pub labels: Labels,
    /// Annotations that we read (cordon marks).
    pub annotations: Labels,
    /// The cloud provider's id of the machine.
    pub provider_id: Option<Name>,
    pub unschedulable: bool,
    pub taints: Vec<Taint>,
    pub conditions: Vec<Condition>,
    /// Capacity of the machine.
    pub capacity: Resources,
    pub allocatable: Resources,
    pub created: Moment,
}

/// A device that the API reports as allocated to a pod.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Claimed {
    /// By the device plugin's id, from `status.containerStatuses[].allocatedResourcesStatus`.
    Id(Name),
    /// By a DRA claim: driver, pool, device.
    Claim(Name, Name, Name),
}

/// A part of a device that a pod has by a DRA claim.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClaimedPart {
    /// Driver, pool and name of the device.
    pub device: (Name, Name, Name),
    /// The part of the device that the claim consumes.
    pub consumed: Consumed,
}

/// Whether the annotation of this key lists a pod's devices as HAMi allocated them: `UUID,TYPE,MIB,CORES:` each, `;` after a container.
pub fn is_hami_allocation(key: &str) -> bool {
    key.starts_with("hami.io/") && key.ends_with("-devices-allocated")
}

/// The fields of a Pod that the ledger uses.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PodSeen {
    pub key: ObjectKey,
    pub uid: Name,
    /// The node that it is scheduled on.
    pub node: Option<Name>,
    pub phase: Phase,
    /// Labels; kept only for pods that request devices or serve readings.
    pub labels: Labels,
    /// Annotations that we read.
    pub annotations: Labels,
    pub owner: Option<OwnerRef>,
    /// Requests (the larger of init and main containers, plus overhead).
    pub requests: Resources,
    pub priority: i32,
    pub created: Moment,
    /// When it was scheduled.
    pub scheduled: Option<Moment>,
    /// When its containers first started.
    pub started: Option<Moment>,
    /// Deletion timestamp; its devices stay allocated until it is gone.
    pub deleted: Option<Moment>,
    /// True when all containers are ready.
    pub ready: bool,
    /// Reason and message of the scheduler while it is unschedulable.
    pub unschedulable: Option<(Name, Name)>,
    pub node_selector: Labels,
    /// Other scheduling constraints and gates; `None` when it has none.
    pub siting: Option<Arc<Siting>>,
    /// Why it failed or is restarting.
    pub failure: Option<WorkloadFailure>,
    /// Devices that the API reports as allocated to it.
    pub claimed: Vec<Claimed>,
    /// Its parts of devices that several claims share. Empty in a pod as it is read: the claims say it.
    pub parts: Vec<ClaimedPart>,
    /// The resource claims that it uses, in its namespace.
    pub claims: Box<[Name]>,
    /// Requested resources that a claim serves; they count once.
    pub by_claim: Box<[Name]>,
    pub ip: Option<Name>,
    /// Set for a placeholder that holds a device for pods that share it: the device is not its own.
    pub reserves: Option<Box<Reserved>>,
}

/// The fields of a workload controller that the ledger uses.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WorkloadSeen {
    /// The table it was listed in.
    pub table: Table,
    /// Kind, such as `JobSet`.
    pub kind: Name,
    pub key: ObjectKey,
    pub uid: Name,
    pub labels: Labels,
    /// Annotations that we read.
    pub annotations: Labels,
    /// Its controller: the next link of the owner chain.
    pub owner: Option<OwnerRef>,
    pub created: Moment,
    /// `spec.suspend`; false where it is absent.
    pub suspended: bool,
    /// Number of pods that run in parallel.
    pub pods: u32,
    /// Minimum number of pods that must run together; `None` when pods are independent.
    pub gang_min: Option<u32>,
    /// Requests of one pod (of the largest pod set).
    pub per_pod: Resources,
    /// Requests of all its pods.
    pub total: Resources,
    /// Node selector of its largest pod set.
    pub node_selector: Labels,
    pub priority_class: Option<Name>,
    pub conditions: Vec<Condition>,
    pub deleted: Option<Moment>,
    pub started: Option<Moment>,
    pub finished: Option<Moment>,
    /// True when it succeeded, false when it failed, `None` before its end.
    pub outcome: Option<bool>,
    pub failed_pods: u32,
    /// Its pod sets; empty when its spec has none.
    pub pod_sets: Arc<[JobPodSet]>,
    /// Maximum runtime in seconds, where it has one.
    pub time_limit: Option<u64>,
    /// The controller that manages it, when it is not its kind's own (`spec.managedBy`).
    #[serde(default)]
    pub managed_by: Option<Name>,
    /// The scheduler of its pods, where its template sets one.
    #[serde(default)]
    pub scheduler: Option<Name>,
    /// Pods of [`Self::pods`] that succeeded and are not replaced.
    #[serde(default)]
    pub succeeded_pods: u32,
    /// How often its controller recreated all of its pods after a failure.
    #[serde(default)]
    pub restarts: u32,
    /// `metadata.generation`, from 1; 0 where absent.
    #[serde(default)]
    pub generation: i64,
}
