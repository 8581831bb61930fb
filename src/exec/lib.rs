//! Execution: the writer and its gate, the run state machine, and the journal.
//!
//! [`run::RunContext::carry_out`] takes only an [`plan::grant::Approved`] plan. Each call's intent is on disk before the call is
//! sent, and its answer after. An interrupted run is resumed from the journal.

pub mod behind;
mod blocking;
pub mod check;
pub mod command;
mod follow_up;
pub mod gate;
pub mod govern;
pub mod history;
mod hold_end;
pub mod journal;
pub mod lease;
pub mod machine;
pub mod record;
pub mod request;
pub mod response;
pub mod run;
mod runs;
pub mod target_reader;
#[cfg(test)]
mod tests;
mod waits;
pub mod writer;

pub use blocking::blocking;
pub use check::checks;
pub use history::{Run, Trace, runs, undone_by};
pub use journal::{Journal, Pages};
pub use machine::{Machine, RunEnd, StepResult, StepStatus};
pub use record::{ClusterIdentity, Same};
pub use run::{Progress, RunContext, RunError, is_name_of_run, name_of_run};
pub use runs::Runs;
pub use target_reader::Looker;
pub use writer::{Probe, Writer, WritingClient, client_for, connect};
