//! Queueing: which of the jobs that request whole devices on their queue's own nodes runs next.
//!
//! Three disciplines in use on clusters (strict FIFO, best-effort FIFO, EASY backfill), least attained service, and Stokehold's, which
//! preempts, with durations known or learned from finished jobs. Times are whole milliseconds.

mod attained;
mod floor;
mod foresight;
mod history;
mod patient;
mod preemptive;
mod replay;
mod trace;

#[cfg(test)]
mod tests;

pub use floor::Hold;
pub use foresight::{Hindsight, foresight};
pub use replay::{AllocatedSpan, Discipline, Fate, QueueingReplayFigures, QueueingResult, replay};
pub use trace::{TraceJob, TraceQueue, jobs, pool, queues, sized};

/// Devices of a node.
pub const NODE: u32 = 8;

/// Cost of preempting and resuming a job, in milliseconds.
pub const RESUME: i64 = 62_000;
