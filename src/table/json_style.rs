//! How a row is written as JSON.

use serde::Serialize;

use model::value::escaped;

/// How JSON is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonStyle {
    /// On one line, for output that is read by lines.
    Line,
    /// Indented, for people.
    Indented,
}

impl JsonStyle {
    /// Indented where `pretty`.
    pub const fn of(pretty: bool) -> Self {
        match pretty {
            true => Self::Indented,
            false => Self::Line,
        }
    }

    /// A row as JSON, escaped for terminals.
    pub fn write<R: Serialize>(self, row: &R) -> String {
        let text = match self {
            Self::Line => serde_json::to_string(row),
            Self::Indented => serde_json::to_string_pretty(row),
        };
        escaped(text.expect("rows have text keys, and JSON writes any number"))
    }
}
