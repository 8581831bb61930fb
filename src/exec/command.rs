//! The words of a run: what it orders, what it is told, where its steps stand, how it ended.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use cluster::mutations::Call;
use model::base::Moment;
use model::plan::Object;

use super::response::ServerResponse;

/// What is to be done next.
#[derive(Clone, PartialEq, Debug)]
pub enum Command {
    /// Read this object and tell [`super::Machine::read`].
    Read(Object),
    /// Send this call and tell [`super::Machine::answered`]; the intent goes to the journal first.
    Write {
        /// Number of the step, from 1.
        step: u32,
        /// How often this step has been sent, this time included.
        attempt: u32,
        /// The call.
        call: Box<Call>,
        /// The fields that it writes as they were, by path.
        before: Map<String, Value>,
    },
    /// Nothing to do until then.
    Sleep(Moment),
    /// The run is over.
    End(End),
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum End {
    /// Every step is over.
    Done,
    /// Stopped by its operator after a step.
    Stopped,
    /// A step failed; nothing was sent after it.
    Failed {
        /// Its number, from 1.
        step: u32,
        /// Why.
        words: String,
    },
}

/// Something to be written down, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// An intent without an answer was looked into: it had been carried out, or not.
    Resolved {
        /// Number of the step.
        step: u32,
        /// Whether it had been carried out.
        done: bool,
    },
    /// A step waits.
    Waits {
        /// Number of the step.
        step: u32,
        /// For what.
        words: String,
    },
    /// A step is over.
    Finished {
        /// Number of the step.
        step: u32,
        /// How.
        how: StepResult,
        /// Why; empty when it went as planned.
        words: String,
    },
}

/// How a step is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepResult {
    /// Carried out.
    Done,
    /// It was so already: nothing was sent.
    Already,
    /// Left undone, as its plan allows.
    Left,
    /// Failed.
    Failed,
}

/// Where a step stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepStatus {
    /// Not begun.
    Todo,
    /// Waits before its call until the next look.
    Waiting(Moment),
    /// Was sent and is not over yet; the next look.
    Settling(Moment),
    /// Over.
    Finished(StepResult),
}

/// What a run reads.
#[derive(Clone, PartialEq, Debug)]
pub enum Seen {
    /// The object.
    There(Box<Value>),
    /// There is none of this name.
    Gone,
    /// It could not be read.
    Not(ServerResponse),
}
