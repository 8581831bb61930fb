//! Everything that goes out: the writer and its gate, a run as a pure machine, and the journal.
//!
//! [`run::RunContext::carry_out`] takes an [`plan::grant::Approved`] plan and nothing else. Each call's intent is on disk before
//! it is sent and its answer after; a run that was broken off is taken up where the journal says it stood.

pub mod behind;
pub mod check;
pub mod command;
pub mod gate;
pub mod govern;
pub mod history;
pub mod journal;
pub mod lease;
pub mod look;
pub mod machine;
pub mod record;
pub mod request;
pub mod response;
pub mod run;
mod runs;
#[cfg(test)]
mod tests;
mod waits;
pub mod writer;

pub use check::checks;
pub use history::{Run, Trace, runs, undone_by};
pub use journal::{Journal, Pages};
pub use look::Looker;
pub use machine::{End, Machine, StepResult, StepStatus};
pub use record::{Cluster, Same};
pub use run::{Progress, RunContext, RunError, is_name_of_run, name_of_run};
pub use runs::Runs;
pub use writer::{Probe, Writer, WritingClient, client_for, connect};
