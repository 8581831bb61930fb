//! What `get` makes of a kind: rows chosen by name, labels and fields, in order, as JSON and as cells.

use model::base::SmallSort;
use model::base::document::nearest;
use model::value::Json;

use crate::column::{Column, Row, RowOutput};
use crate::output::json_style::JsonStyle;
use crate::output::{OutputRow, OutputTable};
use crate::query::{NotFound, Query};
use crate::table::cell;
use crate::{Facts, Format, Kind, is_remainder};

/// The rows of a query.
///
/// # Errors
/// No object has a requested name.
pub fn output_table(
    facts: &Facts,
    query: &Query,
    format: Format,
    style: JsonStyle,
) -> Result<OutputTable, NotFound> {
    let (spec, output) = (query.kind.spec(), query.kind.output());
    let rows = rows_of(facts, query)?;
    let tabular = matches!(format, Format::Table | Format::Wide);
    let mut json = match tabular && style == JsonStyle::Indented {
        true => vec![String::new(); rows.len()],
        false => (output.json)(facts, &rows, style),
    }
    .into_iter();
    let columns: Vec<&Column> = match query.columns {
        [] => (spec.columns.iter())
            .filter(|column| !column.on_screen && (format == Format::Wide || !column.wide_output))
            .collect(),
        chosen => (chosen.iter())
            .filter_map(|title| {
                spec.columns
                    .iter()
                    .find(|own| own.printed_title() == *title)
            })
            .collect(),
    };
    let items = rows.iter().map(|row| {
        let cells = columns.iter().filter(|_| tabular);
        OutputRow {
            name: output.printed_name(facts, *row),
            json: json.next().unwrap_or_default(),
            cells: cells
                .map(|column| cell(&(column.cell)(facts, *row).value.plain(facts.now)))
                .collect(),
            key: (output.key)(facts, *row),
        }
    });
    let items = items.collect();
    let titles = columns.iter();
    let titles = titles.map(|column| (column.heading(facts), column.is_numeric()));
    Ok(OutputTable {
        titles: titles.collect(),
        items,
    })
}

/// The rows that a query asks for, in its order.
///
/// # Errors
/// No object has a requested name.
pub fn rows_of(facts: &Facts, query: &Query) -> Result<Vec<Row>, NotFound> {
    let output = query.kind.output();
    let mut rows = rows_in(output, facts, query);
    let names = |row: Row| {
        let mut names = (output.also)(facts, row);
        names.push((output.key)(facts, row));
        names
    };
    if !query.names.is_empty() {
        let named: Vec<(Row, Vec<String>)> = rows.iter().map(|row| (*row, names(*row))).collect();
        for wanted in &query.names {
            if !named.iter().any(|(_, names)| names.contains(wanted)) {
                let all = named.iter().flat_map(|(_, names)| names);
                return Err(NotFound {
                    kind: query.kind,
                    name: wanted.clone(),
                    nearest: nearest(wanted, all.map(String::as_str)).map(str::to_owned),
                });
            }
        }
        let is_wanted = |names: &[String]| names.iter().any(|name| query.names.contains(name));
        let wanted = named.into_iter().filter(|(_, names)| is_wanted(names));
        rows = wanted.map(|(row, _)| row).collect();
    }
    if let Some(labels) = output.labels.filter(|_| query.select.asks_labels()) {
        rows.retain(|row| {
            query
                .select
                .wants_labels(labels(facts, *row).and_then(|labels| labels.all()).as_ref())
        });
    }
    if query.select.fields().next().is_some() || query.sort.is_some() {
        rows = sorted(rows, output, facts, query);
    }
    Ok(rows)
}

/// The rows of the query's scope.
pub fn rows_in(output: &RowOutput, facts: &Facts, query: &Query) -> Vec<Row> {
    let selects = |name: &str, value: &str| query.select.selects(name, value);
    let mut rows = (output.rows)(facts, &selects);
    if let Some(place) = output.place {
        rows.retain(|row| {
            let (namespace, team) = place(facts, *row);
            query.scope.has(namespace, team)
        });
    }
    rows
}

/// The rows that match the field selectors, in the requested order. What is a remainder and no object stays last.
fn sorted(rows: Vec<Row>, output: &RowOutput, facts: &Facts, query: &Query) -> Vec<Row> {
    let json = (output.json)(facts, &rows, JsonStyle::Line);
    let values = rows.into_iter().zip(json.iter().map(|text| Json::of(text)));
    let mut all: Vec<(Row, Json)> = values
        .filter(|(_, value)| query.select.wants_row(value))
        .collect();
    if let Some(sort) = &query.sort {
        let rest = |row: Row| is_remainder(&(output.key)(facts, row));
        // Stable: equal rows keep the order of their kind.
        all.small_sort_by(|(row, a), (other, b)| {
            (rest(*row).cmp(&rest(*other))).then_with(|| sort.compare(a, b))
        });
    }
    all.into_iter().map(|(row, _)| row).collect()
}

/// The titles of a kind's columns, each with the fields that it shows.
pub fn titles(kind: Kind) -> Vec<(&'static str, &'static str)> {
    let columns = kind
        .spec()
        .columns
        .iter()
        .filter(|column| !column.field.is_empty());
    columns
        .map(|column| (column.printed_title(), column.field))
        .collect()
}
