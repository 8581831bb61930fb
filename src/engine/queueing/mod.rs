//! Queueing: jobs that ask for whole devices of their queue's own nodes, and who of them runs next.
//!
//! Three disciplines that clusters run today (strict FIFO, best-effort FIFO, EASY backfill), and ours, which
//! preempts: with the durations known, or learnt from what has finished. Times are whole milliseconds.

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
pub use replay::{Discipline, Fate, Figures, Past, Span, replay};
pub use trace::{Job, Queue, jobs, pool, queues, sized};

/// Devices of a node.
pub const NODE: u32 = 8;

/// What stopping and resuming a job costs it, in milliseconds.
pub const RESUME: i64 = 62_000;
