//! Tables: the columns that the API server prints for each resource, and the cells of one object.
//!
//! Column names, types, priorities and the rules for cells follow
//! `k8s.io/kubernetes/pkg/printers/internalversion` and, for custom resources, the printer columns of their
//! definitions. Ages are relative to the server's clock.

mod cells;
mod columns;
#[cfg(test)]
mod tests;

pub use columns::columns;

use serde_json::{Value, json};

use super::change::Resource;
use super::human::since;
use super::json::{flag, int, list, name, text};
use model::base::Moment;

/// How a cell follows from an object. Texts are JSON pointers but where it is said otherwise.
#[derive(Clone, Copy, Debug)]
enum CellSource {
    /// The name of the object.
    Name,
    /// Time since the object was created.
    Age,
    /// A text; empty when absent.
    Text(&'static str),
    /// A text, and the text that replaces it when it is absent or empty.
    Or(&'static str, &'static str),
    /// Any value as text; null when absent.
    Scalar(&'static str),
    /// A whole number; zero when absent.
    Int(&'static str),
    /// A whole number; null when absent.
    Count(&'static str),
    /// Whether a field is true.
    Flag(&'static str),
    /// Entries of a list.
    Length(&'static str),
    /// Time since a moment; null when absent.
    Ago(&'static str),
    /// The status of the condition of a type; null when there is none.
    Condition(&'static str),
    /// The type of the last condition; null when there is none.
    LastCondition,
    Words(fn(&Value) -> String),
    Number(fn(&Value) -> i64),
    /// A text that depends on the time of now.
    Since(fn(&Value, Moment) -> String),
}

/// Any value as text; null when absent.
fn scalar(object: &Value, pointer: &str) -> Value {
    match object.pointer(pointer) {
        None | Some(Value::Null) => Value::Null,
        Some(Value::String(text)) => text.as_str().into(),
        Some(other) => other.to_string().into(),
    }
}

impl CellSource {
    fn of(self, object: &Value, now: Moment) -> Value {
        let conditions = || list(object, "/status/conditions").iter();
        match self {
            Self::Name => name(object).into(),
            Self::Age => since(now, text(object, "/metadata/creationTimestamp")).into(),
            Self::Text(at) => text(object, at).into(),
            Self::Or(at, otherwise) => or(text(object, at), otherwise).into(),
            Self::Scalar(at) => scalar(object, at),
            Self::Int(at) => int(object, at).into(),
            Self::Count(at) => object.pointer(at).and_then(Value::as_i64).into(),
            Self::Flag(at) => flag(object, at).into(),
            Self::Length(at) => list(object, at).len().into(),
            Self::Ago(at) => match text(object, at) {
                "" => Value::Null,
                then => since(now, then).into(),
            },
            Self::Condition(kind) => conditions()
                .find(|condition| text(condition, "/type") == kind)
                .map_or(Value::Null, |condition| scalar(condition, "/status")),
            Self::LastCondition => conditions()
                .next_back()
                .map_or(Value::Null, |condition| scalar(condition, "/type")),
            Self::Words(words) => words(object).into(),
            Self::Number(number) => number(object).into(),
            Self::Since(words) => words(object, now).into(),
        }
    }
}

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct PrinterColumn {
    name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    kind: &'static str,
    /// `name` for the column that names the object.
    format: &'static str,
    /// 0 is always shown, 1 only in wide output.
    priority: u8,
    description: &'static str,
    cell: CellSource,
}

const NAME: PrinterColumn = PrinterColumn {
    name: "Name",
    kind: "string",
    format: "name",
    priority: 0,
    description: "Name of the object, unique within its namespace.",
    cell: CellSource::Name,
};
const AGE: PrinterColumn = PrinterColumn {
    name: "Age",
    format: "",
    description: "Time since the object was created.",
    cell: CellSource::Age,
    ..NAME
};
/// The age of an object of a custom kind.
const DATED: PrinterColumn = AGE.typed("date");

impl PrinterColumn {
    const fn typed(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }

    const fn wide(mut self) -> Self {
        self.priority = 1;
        self
    }

    /// The column definition of a `meta.k8s.io/v1` Table.
    pub fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format,
            "description": self.description, "priority": self.priority,
        })
    }
}

/// The cells of one object, one for each column.
pub fn cells(resource: Resource, object: &Value, now: Moment) -> Vec<Value> {
    let columns = columns(resource).iter();
    columns.map(|column| column.cell.of(object, now)).collect()
}

/// The row's conditions: set for a pod that has ended.
pub fn conditions(resource: Resource, object: &Value) -> Option<Value> {
    let done = |reason: &str, message: &str| {
        Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
    };
    match (resource, text(object, "/status/phase")) {
        (Resource::Pods, "Succeeded") => done("Succeeded", "The pod has completed successfully."),
        (Resource::Pods, "Failed") => done("Failed", "The pod failed."),
        _ => None,
    }
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}
