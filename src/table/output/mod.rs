//! Query output: rows filtered, then printed as a table, JSON, YAML or CSV.

pub(super) mod csv;
pub(super) mod encode;
pub mod json_style;
pub(super) mod template;

use std::borrow::Cow;

use serde::Serialize;

use model::fleet::signal::Signal;

pub use super::kinds::output::{output_table, rows_of, titles};
pub use super::output::csv::{csv_line, flat};
use super::output::encode::{array, yaml};
use super::output::json_style::JsonStyle;
pub use super::query::unselected::{Unselected, unselected};
use super::query::{Query, Unanswered};
use super::schemas;
use super::table::{cell, text_table};
use super::{Facts, Format, Kind};

/// One row, ready for any output format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutputRow {
    /// Unique key among the rows of its kind, stable while the row exists.
    pub key: String,
    /// Its name for `-o name`: `node/a100-1`, `job/nlp/pretrain`.
    pub name: String,
    pub json: String,
    /// Its cells, when a table was requested.
    pub cells: Vec<String>,
}

/// The rows of a query, with column titles.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OutputTable {
    /// Column titles, each with whether it is right-aligned.
    pub titles: Vec<(&'static str, bool)>,
    pub items: Vec<OutputRow>,
}

/// A value as indented JSON with a final line break, escaped for terminals.
pub fn safe_json<T: Serialize>(value: &T) -> String {
    JsonStyle::Indented.write(value) + "\n"
}

/// The output of a query as text.
///
/// # Errors
/// No object has the requested name, or the template does not fit the rows.
pub fn render(facts: &Facts, query: &Query, format: Format) -> Result<String, Unanswered> {
    let sheet = output_table(facts, query, format, JsonStyle::Indented)?;
    Ok(match format {
        Format::Table | Format::Wide => {
            let lines = sheet.items.iter().map(|item| &item.cells);
            text_table(sheet.titles, lines, query.titled)
        }
        Format::Json => array(query.kind, &sheet.items),
        Format::Yaml => yaml(query.kind, &sheet.items),
        Format::Csv => csv(query, &sheet.items),
        Format::Name => names(&sheet.items),
        Format::Template => return templated(query, &sheet.items),
    })
}

/// The result of a query as CSV.
fn csv(query: &Query, items: &[OutputRow]) -> String {
    let fields = fields(query.kind);
    let names: Vec<&str> = fields.iter().map(|name| &**name).collect();
    let mut out = match query.titled {
        true => csv_line(&names),
        false => String::new(),
    };
    for item in items {
        out.push_str(&csv_line(&flat(&fields, &item.json)));
    }
    out
}

/// The rows' names, one a line.
pub fn names(items: &[OutputRow]) -> String {
    items
        .iter()
        .map(|item| format!("{}\n", cell(&item.name)))
        .collect()
}

/// Applies a query's template to rows.
///
/// # Errors
/// The template is for one object, and there are more.
pub fn templated(query: &Query, items: &[OutputRow]) -> Result<String, Unanswered> {
    let template = query.template.as_ref();
    let rows = items.iter().map(|item| item.json.as_str());
    let text = template.map_or_else(|| Ok(String::new()), |template| template.render(rows));
    text.map_err(Unanswered::Refused)
}

/// The CSV columns of a kind, as its schema has them: the same for every row. Lists and open maps are JSON.
pub fn fields(kind: Kind) -> Vec<Cow<'static, str>> {
    let plain = schemas::columns(kind).iter();
    let mut all: Vec<Cow<'static, str>> = plain.map(|name| Cow::Borrowed(&**name)).collect();
    if kind == Kind::Devices {
        let signals = Signal::ALL.iter();
        all.extend(signals.map(|signal| Cow::Owned(format!("signals.{}", signal.name()))));
    }
    all
}
