//! Types of a run: commands, inputs, step status, and results.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use cluster::mutations::Call;
use model::base::Moment;
use model::plan::Object;

use super::response::ServerResponse;

/// The next action of a run.
#[derive(Clone, PartialEq, Debug)]
pub enum RunCommand {
    /// Read this object and pass the result to [`super::Machine::read`].
    Read(Object),
    /// Send this call and pass the answer to [`super::Machine::answered`]. The intent is written to the journal first.
    Write {
        /// Number of the step, from 1.
        step: u32,
        /// Number of attempts for this step, including this one.
        attempt: u32,
        call: Box<Call>,
        /// Previous values of the fields that the call writes, by path.
        before: Map<String, Value>,
    },
    /// Nothing to do until this time.
    Sleep(Moment),
    /// The run is over.
    End(RunEnd),
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum RunEnd {
    /// Every step has finished.
    Done,
    /// Stopped by the operator after a step.
    Stopped,
    /// A step failed; nothing was sent after it.
    Failed {
        /// Number of the step, from 1.
        step: u32,
        words: String,
    },
}

/// An entry for the journal, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// An intent without an answer was resolved by reading the object.
    Resolved {
        step: u32,
        /// Whether the call had been carried out.
        done: bool,
    },
    /// A step is waiting.
    Waits {
        step: u32,
        /// What the step waits for.
        words: String,
    },
    /// A step has finished.
    Finished {
        step: u32,
        how: StepResult,
        /// Reason; empty when the step went as planned.
        words: String,
    },
}

/// Result of a finished step.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepResult {
    Done,
    /// The object already had this state: nothing was sent.
    Already,
    /// Skipped, as the plan allows.
    Left,
    Failed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepStatus {
    Todo,
    /// Waiting before its call; the time of the next check.
    Waiting(Moment),
    /// Sent and not finished; the time of the next check.
    Settling(Moment),
    Finished(StepResult),
}

/// Result of reading an object.
#[derive(Clone, PartialEq, Debug)]
pub enum ObjectRead {
    There(Box<Value>),
    /// No object has this name.
    Gone,
    /// It could not be read.
    Not(ServerResponse),
}
