//! The kinds of work, how they use their devices, and the bounds of their disruption budgets.

use serde::Deserialize;
use serde_json::Value;

use super::super::change::Resource;

/// The controller at the top.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
pub(super) enum WorkKind {
    /// A JobSet that owns indexed Jobs.
    JobSet,
    Job,
    /// A Deployment that owns a ReplicaSet.
    Deployment,
    StatefulSet,
    /// A DaemonSet of the platform.
    DaemonSet,
    /// A pod without a controller.
    Pod,
    /// The training operator's PyTorchJob, which owns its pods.
    PyTorchJob,
    /// A RayJob that owns a RayCluster while it runs.
    RayJob,
    /// Volcano's Job, which owns its pods.
    VolcanoJob,
    /// A LeaderWorkerSet: a StatefulSet of leaders, each of which owns a StatefulSet of workers.
    LeaderWorkerSet,
}

impl WorkKind {
    /// Work that ends, unlike a service.
    pub(super) const fn is_batch(self) -> bool {
        matches!(
            self,
            Self::JobSet | Self::Job | Self::PyTorchJob | Self::RayJob | Self::VolcanoJob
        )
    }

    /// Its pods belong to an indexed Job.
    pub(super) const fn is_indexed(self) -> bool {
        matches!(self, Self::JobSet | Self::Job)
    }

    /// A pod's name follows from its index: a replacement waits until the last pod is deleted.
    pub(super) const fn keeps_names(self) -> bool {
        matches!(
            self,
            Self::StatefulSet | Self::PyTorchJob | Self::VolcanoJob | Self::LeaderWorkerSet
        )
    }

    /// The resource of the controller itself.
    pub(super) const fn resource(self) -> Option<Resource> {
        match self {
            Self::JobSet => Some(Resource::JobSets),
            Self::Job => Some(Resource::Jobs),
            Self::Deployment => Some(Resource::Deployments),
            Self::StatefulSet => Some(Resource::StatefulSets),
            Self::DaemonSet => Some(Resource::DaemonSets),
            Self::Pod => None,
            Self::PyTorchJob => Some(Resource::PyTorchJobs),
            Self::RayJob => Some(Resource::RayJobs),
            Self::LeaderWorkerSet => Some(Resource::LeaderWorkerSets),
            Self::VolcanoJob => Some(Resource::VolcanoJobs),
        }
    }

    /// The JSON pointer of the field that suspends it; empty without one.
    pub(super) const fn suspend_path(self) -> &'static str {
        match self {
            Self::PyTorchJob => "/spec/runPolicy/suspend",
            _ => "/spec/suspend",
        }
    }

    /// The kind's name in the API.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::JobSet => "JobSet",
            Self::Job => "Job",
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::Pod => "Pod",
            Self::PyTorchJob => "PyTorchJob",
            Self::RayJob => "RayJob",
            Self::LeaderWorkerSet => "LeaderWorkerSet",
            Self::VolcanoJob => VOLCANO_JOB,
        }
    }
}

/// Name for Volcano's Job, which has the same kind as Kubernetes' own Job in another group.
pub(super) const VOLCANO_JOB: &str = "VolcanoJob";

/// How the work uses its devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
pub(super) enum Profile {
    /// Training: busy, synchronized with its peers, with dips for checkpoints.
    Train,
    /// Training that is limited by its input.
    InputBound,
    /// A small training of a sweep: busy, independent of others.
    Sweep,
    Eval,
    /// Inference: follows the daily load curve.
    Serve,
    /// A notebook: memory allocated, no compute.
    Notebook,
    /// No device at all.
    Infra,
}

/// The bound of a disruption budget.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(super) enum DisruptionBound {
    /// At least this value (a number or a percentage).
    MinAvailable(Value),
    /// At most this value (a number or a percentage) unavailable.
    MaxUnavailable(Value),
}
