//! How a row is written as JSON.

use serde::Serialize;

use model::value::escaped;

use crate::column::Row;

/// How JSON is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonStyle {
    /// On one line, for output that is read by lines.
    Line,
    Indented,
}

impl JsonStyle {
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

    /// Rows as JSON objects, one each.
    pub fn each<R: Serialize>(self, rows: &[Row], of: impl Fn(Row) -> R) -> Vec<String> {
        rows.iter().map(|row| self.write(&of(*row))).collect()
    }
}
