//! Govern: decides which jobs of its queues are suspended, admitted and preempted, with the engine's own cycle. Pure: the same fleet
//! gives the same decision, and all that a decision goes by stands on the cluster's objects, so a restart changes nothing.
//!
//! A job is governed when it carries the label `stokehold.dev/queue`, can be suspended, and nobody else has it. It is suspended at
//! first sight, admitted whole when its queue has quota and nodes have room, and preempted by suspension. What was admitted counts
//! as held from the moment that its annotation says so, whether its pods are there or not.

mod class;
mod compare;
mod decide;
mod nodes;
mod prepare;
mod status;
mod subject;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_laws;
#[cfg(test)]
mod tests_load;
#[cfg(test)]
mod tests_race;
#[cfg(test)]
mod tests_safety;
#[cfg(test)]
mod tests_week;
#[cfg(test)]
mod tests_world;

pub use compare::{Comparison, JobCount, compare};
pub use decide::{Decision, GovernRules, Standing, decide};
pub use status::{Answers, Told, answers, status_writes};
pub use subject::{GovernedJob, governed_jobs, not_ready};

use cluster::mutations::GovernWrite;
use model::base::Name;
use model::fleet::job::JobKey;

/// What a write is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// It was made without being suspended: it waits in its queue from now on.
    Suspend,
    /// It ran before it was governed: it counts as admitted.
    Adopt,
    /// It starts.
    Admit,
    /// It is asked for a checkpoint before it is preempted.
    AskCheckpoint,
    /// It stays after all.
    KeepRunning,
    /// It goes so that another starts.
    Preempt,
    /// It was admitted, and its pods find no nodes: it waits again.
    Requeue,
    /// Somebody suspended it: it is held until it is resumed.
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

/// One write, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedWrite {
    /// The job.
    pub job: JobKey,
    /// What it is for.
    pub purpose: Purpose,
    /// What is written.
    pub write: GovernWrite,
    /// Its queue.
    pub queue: Name,
    /// Devices that it asks for.
    pub devices: u64,
    /// Why, in a sentence.
    pub reason: String,
}
