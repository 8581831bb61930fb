//! Exit codes of commands, and the message of a failed command.

use std::fmt;

/// How a command ends. README.md lists the exit codes for users.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Exit {
    Done,
    Failed,
    /// Wrong use, wrong settings included.
    Usage,
    /// Refused: by rights, by read-only, or by a planner.
    Refused,
    Unreachable,
    Interrupted,
}

impl Exit {
    /// The code that the process ends with.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Unreachable => 4,
            Self::Interrupted => 130,
        }
    }
}

/// Why a command could not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// How the process ends.
    pub exit: Exit,
    /// What failed, where, and the fix; empty to end without a message.
    pub message: String,
}

impl Failure {
    /// A failure with words.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }

    /// An exit without a message: the reader has closed the pipe, or the message was printed before.
    pub const fn quiet(exit: Exit) -> Self {
        Self {
            exit,
            message: String::new(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
