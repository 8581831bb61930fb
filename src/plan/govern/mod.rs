//! Govern: decides which jobs of its queues are suspended, admitted and preempted, with the engine's own cycle. Pure: the same
//! fleet gives the same decision, and all its inputs are on the cluster's objects, so a restart changes nothing.
//!
//! A job is governed when it has the label `stokehold.dev/queue`, can be suspended, and no other controller manages it. It is
//! suspended at first sight, admitted as a whole when its queue has quota and nodes have free devices, and preempted by
//! suspension. Quota is reserved as soon as the annotation says so, whether the pods exist or not.

mod batch;
mod class;
mod compare;
mod decide;
mod enter;
mod lasting_cycle;
mod nodes;
mod prepare;
mod status;
mod subject;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_burst;
#[cfg(test)]
mod tests_load;
#[cfg(test)]
mod tests_properties;
#[cfg(test)]
mod tests_race;
#[cfg(test)]
mod tests_safety;
#[cfg(test)]
mod tests_week;
#[cfg(test)]
mod tests_world;

pub use batch::batch;
pub use compare::{Comparison, JobCount, compare};
pub use decide::{AdmissionState, Decision, GovernRules, decide};
pub use status::{PendingStatus, PendingStatuses, answers, has_status, status_writes};
pub use subject::{GovernedJob, governed_jobs, not_ready};

use cluster::mutations::GovernWrite;
use model::base::Name;
use model::fleet::job::JobKey;

/// Purpose of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// It was created unsuspended: it is pending in its queue from now on.
    Suspend,
    /// It ran before it was governed: it counts as admitted.
    Adopt,
    Admit,
    /// It is asked for a checkpoint before it is preempted.
    AskCheckpoint,
    /// It is not preempted after all.
    KeepRunning,
    /// It is preempted so that another starts.
    Preempt,
    /// It was admitted, but its pods are unschedulable, or the run that suspended it did not resume it in time: it is requeued.
    Requeue,
    /// Someone suspended it: it is on hold until it is resumed.
    Hold,
    /// Its position, reason or expected start has changed.
    Status,
}

impl Purpose {
    /// The word for logs and listings.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Suspend => "suspend",
            Self::Adopt => "adopt",
            Self::Admit => "admit",
            Self::AskCheckpoint => "ask for a checkpoint",
            Self::KeepRunning => "keep running",
            Self::Preempt => "preempt",
            Self::Requeue => "requeue",
            Self::Hold => "hold",
            Self::Status => "status",
        }
    }
}

/// One write, with its purpose and reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedWrite {
    pub job: JobKey,
    pub purpose: Purpose,
    pub write: GovernWrite,
    pub queue: Name,
    /// Devices that the job requests.
    pub devices: u64,
    /// The reason, as a sentence.
    pub reason: String,
}
