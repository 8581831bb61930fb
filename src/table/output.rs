//! Rows as outputs: filtered, then as a table, JSON, YAML or CSV.

use std::borrow::Cow;

use serde::Serialize;

use model::base::document::nearest;
use model::fleet::signal::Signal;

use super::table::{Column, Layout, cell};
use super::{Facts, Format, Kind};
use super::{alerts, cost, devices, document, jobs, nodes, pods, pools, queues, sources};
use model::value::{Value, escaped};

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query {
    /// Kind.
    pub kind: Kind,
    /// Only objects of this name.
    pub name: Option<String>,
    /// Only objects of these namespaces, where the kind has any; empty is all.
    pub namespaces: Vec<String>,
    /// Only objects of this team, where the kind has any.
    pub team: Option<String>,
}

impl Query {
    /// Every object of a kind.
    pub const fn all(kind: Kind) -> Self {
        Self {
            kind,
            name: None,
            namespaces: Vec::new(),
            team: None,
        }
    }

    /// True when an object of this namespace and team is asked for.
    pub(super) fn wants(&self, namespace: Option<&str>, team: Option<&str>) -> bool {
        let in_namespace = self.namespaces.is_empty()
            || namespace
                .is_some_and(|namespace| self.namespaces.iter().any(|own| own == namespace));
        in_namespace
            && self
                .team
                .as_deref()
                .is_none_or(|wanted| team == Some(wanted))
    }
}

/// No object of the name that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotFound {
    /// Kind.
    pub kind: Kind,
    /// The name that was asked for.
    pub name: String,
    /// The nearest name that there is.
    pub nearest: Option<String>,
}

impl std::fmt::Display for NotFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no {} named `{}`", self.kind.name(), cell(&self.name))?;
        if let Some(near) = &self.nearest {
            write!(f, "; did you mean `{}`?", cell(near))?;
        }
        Ok(())
    }
}

impl std::error::Error for NotFound {}

/// One row, ready for any output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// Tells it from the other rows of its kind, for as long as it lasts.
    pub key: String,
    /// Its JSON.
    pub json: String,
    /// Its cells, when a table was asked for.
    pub cells: Vec<String>,
}

/// The rows that a query finds, with the titles of their columns.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OutputTable {
    /// Titles of columns, each at the right or not.
    pub titles: Vec<(&'static str, bool)>,
    /// The rows.
    pub items: Vec<Item>,
}

/// How a kind is told apart, found by name and filtered.
struct Shape<R> {
    key: fn(&R) -> Cow<'_, str>,
    /// Other names under which it may be asked for.
    also: fn(&R) -> Vec<Cow<'_, str>>,
    place: fn(&R) -> (Option<&str>, Option<&str>),
    /// Whether namespace and team say anything of the kind.
    placed: bool,
}

/// Finds what a query asks for. `pretty` JSON is for people and one-shot output, the other for lines.
pub fn output_table(
    facts: &Facts,
    query: &Query,
    format: Format,
    pretty: bool,
) -> Result<OutputTable, NotFound> {
    match query.kind {
        Kind::Pools => {
            let shape = plain(|row: &pools::PoolRow<'_>| Cow::Borrowed(row.name));
            build(
                pools::rows(facts),
                &shape,
                pools::columns(),
                query,
                format,
                pretty,
            )
        }
        Kind::Nodes => {
            let shape = plain(|row: &nodes::NodeRow<'_>| Cow::Borrowed(row.name));
            build(
                nodes::rows(facts),
                &shape,
                nodes::columns(),
                query,
                format,
                pretty,
            )
        }
        Kind::Devices => {
            let shape = Shape {
                key: |row: &devices::DeviceRow<'_>| Cow::Borrowed(&*row.id),
                also: |row| {
                    let device = row.id.strip_suffix(row.slice.unwrap_or_default());
                    let device = device.map(|id| id.trim_end_matches('/'));
                    let names = [Some(row.node), row.uuid, device].into_iter().flatten();
                    names.map(Cow::Borrowed).collect()
                },
                place: |row| (row.namespace, row.team),
                placed: true,
            };
            build(
                devices::rows(facts),
                &shape,
                devices::columns(),
                query,
                format,
                pretty,
            )
        }
        Kind::Queues => {
            let shape = Shape {
                key: |row: &queues::QueueRow<'_>| {
                    Cow::Owned(format!("{} ({})", row.name, row.system))
                },
                also: |row| vec![Cow::Borrowed(row.name)],
                place: |_| (None, None),
                placed: false,
            };
            build(
                queues::rows(facts),
                &shape,
                queues::columns(),
                query,
                format,
                pretty,
            )
        }
        Kind::Jobs => {
            let shape = Shape {
                key: |row: &jobs::JobRow<'_>| {
                    Cow::Owned(format!("{}/{} ({})", row.namespace, row.name, row.kind))
                },
                also: |row| {
                    let full = format!("{}/{}", row.namespace, row.name);
                    vec![Cow::Owned(full), Cow::Borrowed(row.name)]
                },
                place: |row| (Some(row.namespace), Some(row.team)),
                placed: true,
            };
            build(
                jobs::rows(facts),
                &shape,
                jobs::columns(),
                query,
                format,
                pretty,
            )
        }
        Kind::Pods => {
            let shape = Shape {
                key: |row: &pods::PodRow<'_>| Cow::Owned(format!("{}/{}", row.namespace, row.name)),
                also: |row| vec![Cow::Borrowed(row.name)],
                place: |row| (Some(row.namespace), Some(row.team)),
                placed: true,
            };
            build(
                pods::rows(facts),
                &shape,
                pods::columns(),
                query,
                format,
                pretty,
            )
        }
        Kind::Cost => {
            let shape = Shape {
                key: |row: &cost::CostRow<'_>| Cow::Owned(format!("{}/{}", row.scope, row.name)),
                also: |row| vec![Cow::Borrowed(row.name), Cow::Borrowed(row.scope)],
                ..plain(|row: &cost::CostRow<'_>| Cow::Borrowed(row.name))
            };
            build(
                cost::rows(facts),
                &shape,
                cost::columns(),
                query,
                format,
                pretty,
            )
        }
        Kind::Alerts => {
            let shape = Shape {
                key: |row: &alerts::AlertRow<'_>| Cow::Borrowed(row.id),
                also: |row| vec![Cow::Borrowed(row.object.name), Cow::Borrowed(row.code)],
                place: |row| (row.object.namespace, None),
                placed: false,
            };
            build(
                alerts::rows(facts),
                &shape,
                alerts::columns(),
                query,
                format,
                pretty,
            )
        }
        Kind::Sources => {
            let shape = plain(|row: &sources::SourceRow<'_>| Cow::Borrowed(row.name));
            build(
                sources::rows(facts),
                &shape,
                sources::columns(),
                query,
                format,
                pretty,
            )
        }
        Kind::Fleet => {
            let shape = plain(|_: &document::Document<'_>| Cow::Borrowed("fleet"));
            let document = vec![document::document(facts)];
            build(
                document,
                &shape,
                document::columns(),
                &Query::all(Kind::Fleet),
                format,
                pretty,
            )
        }
    }
}

fn plain<R>(key: fn(&R) -> Cow<'_, str>) -> Shape<R> {
    Shape {
        key,
        also: |_| Vec::new(),
        place: |_| (None, None),
        placed: false,
    }
}

fn build<R: Serialize>(
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
            query.wants(namespace, team)
        });
    }
    if let Some(wanted) = &query.name {
        let named = |row: &R| {
            *(shape.key)(row) == **wanted || (shape.also)(row).iter().any(|name| name == wanted)
        };
        if !rows.iter().any(named) {
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
        rows.retain(named);
    }
    let columns: Vec<Column<R>> = columns
        .into_iter()
        .filter(|column| !column.wide || format == Format::Wide)
        .collect();
    let tabular = matches!(format, Format::Table | Format::Wide);
    let items = rows
        .iter()
        .map(|row| Item {
            key: (shape.key)(row).into_owned(),
            json: if tabular && pretty {
                String::new()
            } else {
                json(row, pretty)
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
            .map(|column| (column.title, column.right))
            .collect(),
        items,
    })
}

fn json<R: Serialize>(row: &R, pretty: bool) -> String {
    let text = if pretty {
        serde_json::to_string_pretty(row)
    } else {
        serde_json::to_string(row)
    };
    escaped(text.expect("rows have text keys, and JSON writes any number"))
}

/// A value as indented JSON with a line break at its end, safe to print.
pub fn safe_json<T: Serialize>(value: &T) -> String {
    json(value, true) + "\n"
}

/// Everything that a query finds, as text.
pub fn render(facts: &Facts, query: &Query, format: Format) -> Result<String, NotFound> {
    let sheet = output_table(facts, query, format, true)?;
    Ok(match format {
        Format::Table | Format::Wide => {
            let layout = Layout::new(sheet.titles, sheet.items.iter().map(|item| &item.cells));
            let mut out = layout.header();
            for item in &sheet.items {
                out.push_str(&layout.line(&item.cells));
            }
            out
        }
        Format::Json => array(query.kind, &sheet.items),
        Format::Yaml => yaml(query.kind, &sheet.items),
        Format::Csv => csv(query.kind, &sheet.items),
    })
}

fn array(kind: Kind, items: &[Item]) -> String {
    if let (Kind::Fleet, [item]) = (kind, items) {
        return format!("{}\n", item.json);
    }
    if items.is_empty() {
        return "[]\n".to_owned();
    }
    let mut out = String::from("[");
    for (at, item) in items.iter().enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        for (at, line) in item.json.lines().enumerate() {
            out.push_str(if at == 0 { "  " } else { "\n  " });
            out.push_str(line);
        }
    }
    out.push_str("\n]\n");
    out
}

fn yaml(kind: Kind, items: &[Item]) -> String {
    let write = |value: &Value| {
        serde_saphyr::to_string(value).expect("rows have text keys and finite numbers")
    };
    if let (Kind::Fleet, [item]) = (kind, items) {
        return write(&Value::of(&item.json).printable());
    }
    if items.is_empty() {
        return "[]\n".to_owned();
    }
    let rows = items.iter();
    rows.map(|item| write(&Value::List(vec![Value::of(&item.json).printable()])))
        .collect()
}

/// The columns of a kind as CSV: always the same, whatever the rows hold. Lists and open maps are JSON.
pub fn fields(kind: Kind) -> Vec<Cow<'static, str>> {
    let plain: &[&'static str] = match kind {
        Kind::Pools => pools::FIELDS,
        Kind::Nodes => nodes::FIELDS,
        Kind::Devices => devices::FIELDS,
        Kind::Queues => queues::FIELDS,
        Kind::Jobs => jobs::FIELDS,
        Kind::Pods => pods::FIELDS,
        Kind::Cost => cost::FIELDS,
        Kind::Alerts => alerts::FIELDS,
        Kind::Sources => sources::FIELDS,
        Kind::Fleet => document::FIELDS,
    };
    let mut all: Vec<Cow<'static, str>> = plain.iter().map(|name| Cow::Borrowed(*name)).collect();
    if kind == Kind::Devices {
        let signals = Signal::ALL.iter();
        all.extend(signals.map(|signal| Cow::Owned(format!("signals.{}", signal.name()))));
    }
    all
}

/// One row's cells in the order of [`fields`].
pub fn flat(fields: &[Cow<'static, str>], json: &str) -> Vec<String> {
    let value = Value::of(json);
    fields
        .iter()
        .map(|path| value.at(path).map(Value::flat).unwrap_or_default())
        .collect()
}

/// A line of CSV.
pub fn csv_line<T: AsRef<[u8]>>(cells: &[T]) -> String {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(cells)
        .expect("a line of its own has no other length to agree with");
    let bytes = out.into_inner().expect("memory takes every byte");
    String::from_utf8(bytes).expect("cells are texts")
}

fn csv(kind: Kind, items: &[Item]) -> String {
    let fields = fields(kind);
    let names: Vec<&str> = fields.iter().map(|name| &**name).collect();
    let mut out = csv_line(&names);
    for item in items {
        out.push_str(&csv_line(&flat(&fields, &item.json)));
    }
    out
}
