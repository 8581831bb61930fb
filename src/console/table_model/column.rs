//! What a filter reads of a row.

use table::Facts;
use table::cell::Value;
use table::column::{KindSpec, Row};

use crate::filter::{self, RowFilter};

struct Looked<'a> {
    kind: &'static KindSpec,
    facts: &'a Facts,
    row: Row,
}

impl filter::Row for Looked<'_> {
    fn value(&self, column: usize) -> Value<'_> {
        (self.kind.columns[column].cell)(self.facts, self.row).value
    }
    fn label(&self, key: &str) -> Option<String> {
        (self.kind.label)(self.facts, self.row, key)
    }
}

/// The filter's view of a kind's columns.
pub fn fields(kind: &KindSpec) -> Vec<filter::FilterField> {
    kind.columns
        .iter()
        .map(|column| filter::FilterField {
            id: column.id,
            title: column.head.title,
            numeric: column.is_numeric(),
            plain: !column.wide,
        })
        .collect()
}

/// True when the filter lets this row of this kind through.
pub fn matches(filter: &RowFilter, kind: &'static KindSpec, facts: &Facts, row: Row) -> bool {
    filter.matches(&Looked { kind, facts, row }, facts.now)
}
