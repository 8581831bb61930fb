//! Query output: rows filtered, then printed as a table, JSON, YAML or CSV.

use std::borrow::Cow;

use serde::Serialize;

use model::base::SmallSort;
use model::base::document::nearest;
use model::fleet::signal::Signal;

use super::csv_output::csv;
pub use super::csv_output::{csv_line, flat};
use super::encode::{array, yaml};
use super::json_style::JsonStyle;
use super::kinds::{self, spec};
use super::query::{NotFound, Query, Unanswered};
use super::select::Labelled;
use super::table::{Column, Layout, cell};
pub use super::unselected::{Unselected, unselected};
use super::{Facts, Format, Kind, is_remainder};
use super::{document, queues, schemas};
use model::value::Value;

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

/// How rows of a kind are identified, found by name and filtered.
struct Shape<R> {
    /// Its name for `-o name`, where that is not the kind and the key.
    name: Option<fn(&R) -> String>,
    /// Its labels, where the kind has any.
    labels: Option<fn(&R) -> Labelled<'_>>,
    key: fn(&R) -> Cow<'_, str>,
    /// Other names that it can be requested by.
    also: fn(&R) -> Vec<Cow<'_, str>>,
    place: fn(&R) -> (Option<&str>, Option<&str>),
    /// Whether the kind has a namespace and a team.
    placed: bool,
}

/// Runs a query. `pretty` JSON is for people and one-shot output, compact JSON for line-based output.
pub fn output_table(
    facts: &Facts,
    query: &Query,
    format: Format,
    pretty: bool,
) -> Result<OutputTable, NotFound> {
    if let Some(spec) = spec(query.kind) {
        return kinds::output::output_table(spec, facts, query, format, JsonStyle::of(pretty));
    }
    match query.kind {
        Kind::Queues => {
            let shape = Shape {
                name: Some(|row: &queues::QueueRow<'_>| format!("queue/{}", row.name)),
                labels: None,
                key: |row: &queues::QueueRow<'_>| {
                    Cow::Owned(format!("{} ({})", row.name, row.system))
                },
                also: |row| vec![Cow::Borrowed(row.name)],
                place: |_| (None, None),
                placed: false,
            };
            build(
                facts,
                queues::rows(facts),
                &shape,
                queues::columns(),
                query,
                format,
                pretty,
            )
        }
        Kind::Fleet => {
            let shape = plain(|_: &document::Document<'_>| Cow::Borrowed("fleet"));
            let document = vec![document::document(facts)];
            build(
                facts,
                document,
                &shape,
                document::columns(),
                &Query::all(Kind::Fleet),
                format,
                pretty,
            )
        }
        _ => Ok(OutputTable::default()),
    }
}

fn plain<R>(key: fn(&R) -> Cow<'_, str>) -> Shape<R> {
    Shape {
        name: None,
        labels: None,
        key,
        also: |_| Vec::new(),
        place: |_| (None, None),
        placed: false,
    }
}

fn build<R: Serialize>(
    facts: &Facts,
    mut rows: Vec<R>,
    shape: &Shape<R>,
    columns: Vec<Column<R>>,
    query: &Query,
    format: Format,
    pretty: bool,
) -> Result<OutputTable, NotFound> {
    if shape.placed {
        rows.retain(|row| {
            let (namespace, team) = (shape.place)(row);
            query.scope.has(namespace, team)
        });
    }
    let is_named = |row: &R, wanted: &String| {
        *(shape.key)(row) == **wanted || (shape.also)(row).iter().any(|name| name == wanted)
    };
    for wanted in &query.names {
        if !rows.iter().any(|row| is_named(row, wanted)) {
            let names: Vec<String> = rows
                .iter()
                .flat_map(|row| {
                    let mut names = (shape.also)(row);
                    names.push((shape.key)(row));
                    names
                        .into_iter()
                        .map(Cow::into_owned)
                        .collect::<Vec<String>>()
                })
                .collect();
            return Err(NotFound {
                kind: query.kind,
                name: wanted.clone(),
                nearest: nearest(wanted, names.iter().map(String::as_str)).map(str::to_owned),
            });
        }
    }
    if !query.names.is_empty() {
        rows.retain(|row| query.names.iter().any(|wanted| is_named(row, wanted)));
    }
    if let Some(labels) = shape.labels.filter(|_| query.select.asks_labels()) {
        rows.retain(|row| query.select.wants_labels(labels(row).all().as_ref()));
    }
    let rows = arranged(rows, shape, query);
    let columns: Vec<Column<R>> = match query.columns {
        [] => columns
            .into_iter()
            .filter(|column| !column.wide || format == Format::Wide)
            .collect(),
        chosen => {
            let mut chosen: Vec<Column<R>> = columns
                .into_iter()
                .filter(|column| chosen.contains(&column.title))
                .collect();
            let place = |title| query.columns.iter().position(|own| *own == title);
            chosen.small_sort_by_key(|column| place(column.title));
            chosen
        }
    };
    let tabular = matches!(format, Format::Table | Format::Wide);
    let items = rows
        .iter()
        .map(|row| OutputRow {
            key: (shape.key)(row).into_owned(),
            name: match shape.name {
                Some(name) => name(row),
                None if query.kind == Kind::Fleet => query.kind.singular().to_owned(),
                None => format!("{}/{}", query.kind.singular(), (shape.key)(row)),
            },
            json: if tabular && pretty {
                String::new()
            } else {
                JsonStyle::of(pretty).write(row)
            },
            cells: if tabular {
                columns
                    .iter()
                    .map(|column| cell(&(column.cell)(row)))
                    .collect()
            } else {
                Vec::new()
            },
        })
        .collect();
    Ok(OutputTable {
        titles: columns
            .iter()
            .map(|column| (column.heading(facts.part.is_some()), column.right))
            .collect(),
        items,
    })
}

/// The rows that match the field selectors, in the requested order. What is a remainder and no object stays last.
fn arranged<R: Serialize>(rows: Vec<R>, shape: &Shape<R>, query: &Query) -> Vec<R> {
    if query.select.fields().next().is_none() && query.sort.is_none() {
        return rows;
    }
    let values = rows
        .into_iter()
        .map(|row| (Value::of(&JsonStyle::Line.write(&row)), row));
    let mut all: Vec<(Value, R)> = values
        .filter(|(value, _)| query.select.wants_row(value))
        .collect();
    if let Some(sort) = &query.sort {
        let rest = |row: &R| is_remainder(&(shape.key)(row));
        // Stable: equal rows keep the order of their kind.
        all.small_sort_by(|(a, row), (b, other)| {
            (rest(row).cmp(&rest(other))).then_with(|| sort.compare(a, b))
        });
    }
    all.into_iter().map(|(_, row)| row).collect()
}

/// The column titles of a kind, each with the fields that it shows.
pub fn titles(kind: Kind) -> Vec<(&'static str, &'static str)> {
    fn of<R>(kind: Kind, columns: Vec<Column<R>>) -> Vec<(&'static str, &'static str)> {
        let fields = fields(kind);
        let field = |column: &Column<R>| match column.field {
            Some(field) => Some(field),
            None => fields.iter().find_map(|field| match field {
                Cow::Borrowed(own) if own.eq_ignore_ascii_case(column.title) => Some(*own),
                _ => None,
            }),
        };
        let all = columns.iter();
        all.filter_map(|column| Some((column.title, field(column)?)))
            .filter(|(_, field)| !field.is_empty())
            .collect()
    }
    if let Some(spec) = spec(kind) {
        return kinds::output::titles(spec);
    }
    match kind {
        Kind::Queues => of(kind, queues::columns()),
        _ => Vec::new(),
    }
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
    let sheet = output_table(facts, query, format, true)?;
    Ok(match format {
        Format::Table | Format::Wide => {
            let layout = Layout::new(sheet.titles, sheet.items.iter().map(|item| &item.cells));
            let mut out = match query.titled {
                true => layout.header(),
                false => String::new(),
            };
            for item in &sheet.items {
                out.push_str(&layout.line(&item.cells));
            }
            out
        }
        Format::Json => array(query.kind, &sheet.items),
        Format::Yaml => yaml(query.kind, &sheet.items),
        Format::Csv => csv(query, &sheet.items),
        Format::Name => names(&sheet.items),
        Format::Template => return templated(query, &sheet.items),
    })
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
