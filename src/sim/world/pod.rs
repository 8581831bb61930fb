//! A pod: its node, its devices, its end.

use std::sync::Arc;

use serde_json::Value;

use model::base::{Moment, Name, ObjectKey};

use super::clients::patch::Edit;
use super::node::NodeId;
use super::work::WorkId;

/// Number of a pod; never reused.
pub(super) type PodId = u32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
}

impl PodPhase {
    /// The phase's name in the API.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    /// True once its containers have ended for good.
    pub(super) const fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// How a container ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    Success,
    Exit(i32),
    /// Killed for memory (OOM), exit code 137.
    OutOfMemory,
}

impl Ending {
    pub(super) const fn code(self) -> i32 {
        match self {
            Self::Success => 0,
            Self::Exit(code) => code,
            Self::OutOfMemory => 137,
        }
    }

    /// The reason in the container's state.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Success => "Completed",
            Self::Exit(_) => "Error",
            Self::OutOfMemory => "OOMKilled",
        }
    }
}

/// One run of a container that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PastRun {
    pub ending: Ending,
    pub started: Moment,
    pub finished: Moment,
}

#[derive(Clone, Debug)]
pub(super) struct SimPod {
    pub key: ObjectKey,
    pub uid: u64,
    pub work: WorkId,
    /// Which of the work's groups.
    pub group: u32,
    /// Completion index, ordinal or slot within the group.
    pub index: u32,
    pub node: Option<NodeId>,
    /// Its allocated units, as indices into its node's.
    pub units: Box<[u8]>,
    pub created: Moment,
    pub scheduled: Option<Moment>,
    pub started: Option<Moment>,
    /// Since when it is ready; `None` while it is not.
    pub ready: Option<Moment>,
    pub finished: Option<Moment>,
    pub phase: PodPhase,
    pub ending: Option<Ending>,
    pub restarts: u32,
    pub last: Option<PastRun>,
    /// The reason and message of a pod that was failed by the cluster.
    pub reason: Option<(Name, Name)>,
    /// Deletion timestamp and grace in seconds.
    pub deleting: Option<(Moment, u64)>,
    /// Why the scheduler could not place it, and since when.
    pub verdict: Option<(Name, Moment)>,
    /// A disruption that the cluster announced: reason and message.
    pub disrupted: Option<(&'static str, Name, Moment)>,
    /// Restarts of its gang, or RayClusters of its job, before it was created.
    pub attempt: u32,
    /// The pod, or its controller, as a client had written it then.
    pub foreign: Option<Arc<Value>>,
    pub edit: Edit,
}

impl SimPod {
    /// Counts as active for its controller: not ended and not being deleted.
    pub(super) fn is_active(&self) -> bool {
        !self.phase.is_over() && self.deleting.is_none()
    }

    /// Runs and is ready.
    pub(super) fn is_ready(&self) -> bool {
        self.phase == PodPhase::Running && self.ready.is_some()
    }
}
