//! The fleet model: what there is, who holds it, what it reads. The crate `ledger` makes it of observations.

pub mod accelerator;
pub mod admission;
pub mod budget;
pub mod claim;
pub mod condition;
pub mod device;
pub mod finding;
#[expect(
    clippy::module_inception,
    reason = "the room is named for the type it exists for"
)]
pub mod fleet;
pub mod govern;
pub mod histogram;
pub mod history;
pub mod idle;
pub mod job;
pub mod judge;
pub mod kinds;
pub mod kueue_resources;
pub mod launch_failure;
pub mod node;
pub mod object_parts;
pub mod observe;
pub mod outage;
pub mod policy;
pub mod pool;
pub mod pool_sums;
pub mod profile;
pub mod queue;
pub mod queue_document;
pub mod reading;
pub mod replicas;
pub mod run_hold;
pub mod runtimes;
pub mod scaling;
pub mod scheduling;
pub mod seen;
pub mod served_model;
pub mod sight;
pub mod signal;
pub mod siting;
pub mod source_fault;
pub mod thresholds;
pub mod xid;

pub use fleet::{Fleet, Known};
