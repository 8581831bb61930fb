//! The fleet model: nodes, devices, pods, jobs and queues, with holders and readings. The crate `ledger` makes it from
//! observations.

pub mod device;
pub mod finding;
#[expect(
    clippy::module_inception,
    reason = "the room is named for the type it exists for"
)]
pub mod fleet;
pub mod history;
pub mod idle;
pub mod job;
pub mod launch_failure;
pub mod node;
pub mod pool;
pub mod pool_sums;
pub mod profile;
pub mod runtimes;
pub mod scaling;
pub mod signal;

pub(crate) mod observed;
pub(crate) mod queueing;
pub(crate) mod rules;
pub(crate) mod serving;

pub use fleet::{Fleet, TableState};
pub use observed::{
    claim, condition, kinds, object_parts, observe, outage, reading, seen, skipped_series,
    source_errors, source_fault, visibility,
};
pub use queueing::{
    admission, budget, govern, kueue_resources, queue, queue_document, run_hold, scheduling, siting,
};
pub use rules::{accelerator, judge, policy, thresholds, xid};
pub use serving::{histogram, replicas, served_model};
