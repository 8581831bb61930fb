//! `get`: every kind of object, once or as it changes.

use std::ffi::OsStr;
use std::io::Write;
use std::time::Duration;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, ValueEnum};

use model::base::{Exit, Failure, When};
use model::value::Json;
use settings::Settings;
use table::output::json_style::JsonStyle;
use table::output::{self, OutputRow, OutputTable, output_table};
use table::table::Layout;
use table::watch::{RowChange, RowEvent};
use table::{
    Facts, Format, Kind, Needs, Query, Select, Sort, Template, Unanswered, Watch, losses, silent,
};

use super::common::flags::span;
use super::common::setup::{self, Situation};
use super::record::PastFlags;
use super::{
    advise,
    common::{console_options, out},
};

mod changes;
pub mod get_kind;
pub mod objects;

use objects::{Objects, ObjectsParser};

/// What the help of `get` ends with.
pub(super) const EXAMPLES: &str = "\
Examples:
  # Jobs of a namespace, the one with the most devices first
  stokehold get jobs -n nlp --sort-by -devices

  # One node, and the pods on it
  stokehold get node/a100-1 -o yaml
  stokehold get pods --field-selector spec.nodeName=a100-1

  # What each team spends
  stokehold get cost --field-selector scope=team

  # The ids of all devices with a fault
  stokehold get devices --field-selector health=fault -o jsonpath='{.items[*].id}'
";

/// What to get.
///
/// As kubectl has it: -o name, -o jsonpath=TEMPLATE, -l, --field-selector, --sort-by, -w.
///
/// A template is kubectl's: {.items[*].name}, {range .items[*]}{.name}{"\t"}{.node}{"\n"}{end}, {.name} of one object. Fields are
/// those of -o json; unknown is null. A path without braces that begins with $ is RFC 9535 on the array that -o json prints. What
/// cannot be translated is refused with the reason.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Get {
    /// What to list: a kind (its singular and short name too), several as KIND,KIND, or objects as KIND/NAME, as -o name prints them
    #[arg(id = "kind", value_name = "KIND", value_parser = ObjectsParser)]
    pub objects: Objects,
    /// Only the objects of these names (jobs and pods also as NAMESPACE/NAME, devices also by node or UUID);
    /// behind KIND/NAME, further KIND/NAME
    #[arg(id = "name", value_name = "NAME")]
    pub names: Vec<String>,
    /// How to print it: one of these, or jsonpath=TEMPLATE
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = OutputParser)]
    pub output: Output,
    /// Only objects of these labels (nodes, pods, jobs): key=value, key!=value, key, !key, key in (a,b), key notin (a,b)
    #[arg(
        short = 'l',
        long,
        value_name = "LABELS",
        default_value = "",
        hide_default_value = true
    )]
    pub selector: String,
    /// Only rows of these values: FIELD=VALUE, FIELD!=VALUE, by fields of -o json or kubectl's (spec.nodeName, status.phase)
    #[arg(
        long,
        value_name = "FIELDS",
        default_value = "",
        hide_default_value = true
    )]
    pub field_selector: String,
    /// Sort by a column or a field of -o json; with a - before it the greatest first
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub sort_by: Option<String>,
    /// Omit the header line of tables and CSV
    #[arg(long)]
    pub no_headers: bool,
    /// Print changes as they come; with `-o json`, one object a line
    #[arg(short, long, conflicts_with_all = ["at", "record"])]
    pub watch: bool,
    /// Of usage: from this hour on (03:00, yesterday 14:00, -2h, RFC 3339, UTC); without it, the day before --to
    #[arg(long, value_name = "T", value_parser = When::parse, allow_hyphen_values = true)]
    pub from: Option<When>,
    /// Of usage: up to this hour; without it, the end of the ledger
    #[arg(long, value_name = "T", value_parser = When::parse, allow_hyphen_values = true)]
    pub to: Option<When>,
    /// Of cost: only this scope
    #[arg(long, value_name = "SCOPE", value_parser = ["pool", "queue", "team", "job", "class"])]
    pub by: Option<String>,
    /// Of changes: how far back (90s, 30m, 2h, 1d); half an hour without it
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub since: Option<Duration>,
    /// The moment of a record to look at instead
    #[command(flatten)]
    pub past: PastFlags,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Output {
    /// In one of the plain formats.
    Plain(FormatName),
    /// As a template has it.
    JsonPath(String),
}

impl Output {
    /// The shape of rows.
    pub fn format(&self) -> Format {
        match self {
            Self::Plain(name) => (*name).into(),
            Self::JsonPath(_) => Format::Template,
        }
    }
}

/// Reads `-o`: help and completion list the plain formats.
#[derive(Clone)]
struct OutputParser;

impl TypedValueParser for OutputParser {
    type Value = Output;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Output, clap::Error> {
        let text = value.to_str().unwrap_or_default();
        if let Some(template) = text.strip_prefix("jsonpath=") {
            return Ok(Output::JsonPath(template.to_owned()));
        }
        let head = text.split('=').next().unwrap_or(text);
        if let Some((_, why)) = ABSENT.iter().find(|(name, _)| *name == head) {
            let message = format!("-o {head}: {why}\n");
            return Err(command.clone().error(ErrorKind::InvalidValue, message));
        }
        EnumValueParser::<FormatName>::new()
            .parse_ref(command, argument, value)
            .map(Output::Plain)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let plain = FormatName::value_variants().iter();
        let plain = plain.filter_map(ValueEnum::to_possible_value);
        let path = PossibleValue::new("jsonpath=").help("As a template has it");
        Some(Box::new(plain.chain([path])))
    }
}

/// Formats of kubectl that are not here, and what serves instead.
const ABSENT: &[(&str, &str)] = &[
    (
        "jsonpath",
        "a template is missing: -o jsonpath='{.items[*].name}'",
    ),
    (
        "jsonpath-file",
        "files are not read: -o jsonpath=\"$(cat FILE)\"",
    ),
    ("jsonpath-as-json", "use -o json, or -o jsonpath='{.items}'"),
    (
        "go-template",
        "Go templates are not read: use -o jsonpath=TEMPLATE",
    ),
    (
        "go-template-file",
        "Go templates are not read: use -o jsonpath=TEMPLATE",
    ),
    (
        "custom-columns",
        "use -o csv, or -o jsonpath='{range .items[*]}{.name}{\"\\t\"}{.pool}{\"\\n\"}{end}'",
    ),
    ("custom-columns-file", "use -o csv, or -o jsonpath=TEMPLATE"),
    ("kyaml", "use -o yaml"),
];

/// A format on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum FormatName {
    /// Columns
    Table,
    /// More columns
    Wide,
    /// An array of objects
    Json,
    /// The same as YAML
    Yaml,
    /// A line a row
    Csv,
    /// KIND/NAME a line
    Name,
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Table => Self::Table,
            FormatName::Wide => Self::Wide,
            FormatName::Json => Self::Json,
            FormatName::Yaml => Self::Yaml,
            FormatName::Csv => Self::Csv,
            FormatName::Name => Self::Name,
        }
    }
}

pub(super) fn run(
    situation: &Situation,
    get: &Get,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let query = query(get, &situation.settings)?;
    let format = get.output.format();
    if get.watch {
        let mut follower = RowFollower::new(query, format);
        let mut printed = Vec::new();
        setup::follow(situation, err, &mut |facts, err| {
            let facts = &part_of(facts, &follower.query);
            let text = follower.take(facts)?;
            let lost: Vec<String> = losses(facts, follower.query.kind)
                .into_iter()
                .map(|(_, message)| message)
                .collect();
            if lost != printed {
                out::print_message(err, &lost.join("\n"));
                printed = lost;
            }
            out::write(out, &text)
        })?;
        return Ok(Exit::Done);
    }
    if query.kind == Kind::Changes {
        return changes::run(situation, get, &query, format, out, err);
    }
    if query.kind == Kind::Advice {
        let facts = advise::with_pools(setup::half_hour(situation, None, err)?, &query);
        return advise::print(&facts, &query, format, out, err);
    }
    let template = match &get.output {
        Output::JsonPath(text) => text.as_str(),
        Output::Plain(_) => "",
    };
    if query.asks_half_hour() || (query.kind == Kind::Jobs && template.contains("bound")) {
        let facts = part_of(&setup::half_hour(situation, None, err)?, &query);
        advise::say_not_judged(&facts, err);
        return print(&facts, &query, format, out, err);
    }
    let needs = Needs::of(&query, format);
    let facts = setup::snapshot(situation, &needs, err)?;
    say_unknown_scope(&facts, &query, err);
    print(&part_of(&facts, &query), &query, format, out, err)
}

/// Warns that a team or namespace without known objects may be misspelled.
pub(super) fn say_unknown_scope(facts: &Facts, query: &Query, err: &mut dyn Write) {
    for message in query.scope.unknown(facts) {
        out::print_message(err, &message);
    }
}

/// The facts within the requested scope, as in the console.
pub(super) fn part_of(facts: &Facts, query: &Query) -> Facts {
    facts.scoped(&query.scope)
}

pub(super) fn query(get: &Get, settings: &Settings) -> Result<Query, Failure> {
    if get.from.is_some() || get.to.is_some() {
        let message = "--from and --to belong to `get usage`; give --at for a moment of a record";
        return Err(Failure::new(Exit::Usage, message));
    }
    if get.since.is_some() && get.kind().snapshot_kind() != Some(Kind::Changes) {
        let message = "--since belongs to `get changes`; give --at for a moment of a record";
        return Err(Failure::new(Exit::Usage, message));
    }
    let kind = get.kind().snapshot_kind().ok_or_else(|| {
        Failure::new(
            Exit::Usage,
            "get usage and get budgets read only the ledger of a record",
        )
    })?;
    if kind == Kind::Fleet && !get.names.is_empty() {
        let message = "get fleet takes no name: there is one fleet";
        return Err(Failure::new(Exit::Usage, message));
    }
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let mut fields = get.field_selector.clone();
    if let Some(scope) = &get.by {
        if kind != Kind::Cost {
            let message = "--by belongs to `get cost`";
            return Err(usage(message.to_owned()));
        }
        let comma = if fields.trim().is_empty() { "" } else { "," };
        fields.push_str(&format!("{comma}scope={scope}"));
    }
    let select = Select::parse(kind, &get.selector, &fields).map_err(usage)?;
    if !get.names.is_empty() && !select.is_all() {
        let message = "give a name, or -l and --field-selector, not both";
        return Err(usage(message.to_owned()));
    }
    let sort = get.sort_by.as_deref();
    let sort = sort.map(|text| Sort::parse(kind, text, &output::titles(kind)));
    let template = match &get.output {
        Output::JsonPath(text) => Some(Template::parse(kind, text).map_err(usage)?),
        Output::Plain(_) => None,
    };
    let of_one = template.as_ref().is_some_and(Template::is_of_one);
    if of_one && get.names.len() != 1 {
        let message =
            "-o jsonpath: a path begins at one object: write {.items[*]…}, or give one NAME";
        return Err(usage(message.to_owned()));
    }
    Ok(Query {
        names: get.names.clone(),
        scope: console_options::scope(settings),
        select,
        sort: sort.transpose().map_err(usage)?,
        template,
        titled: !get.no_headers,
        ..Query::all(kind)
    })
}

/// Prints what a query finds; names each lost kind and ends with its code when the answer is partial.
pub fn print(
    facts: &Facts,
    query: &Query,
    format: Format,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let lost = losses(facts, query.kind);
    let text = match output::render(facts, query, format) {
        Ok(text) => text,
        Err(Unanswered::Refused(why)) => return Err(Failure::new(Exit::Usage, why)),
        Err(missing) => {
            // Objects of a kind that was not listed may still exist.
            for (_, message) in &lost {
                out::print_message(err, message);
            }
            let exit = lost.iter().map(|(exit, _)| *exit).max();
            return Err(Failure::new(
                exit.unwrap_or(Exit::Failed),
                missing.to_string(),
            ));
        }
    };
    out::write(out, &text)?;
    for (_, message) in &lost {
        out::print_message(err, message);
    }
    // Names have no readings.
    if let Some(message) = silent(facts, query.kind).filter(|_| format != Format::Name) {
        out::print_message(err, &message);
    }
    if let Some(message) = (query.kind.output().note)(facts, format) {
        out::print_message(err, &message);
    }
    if matches!(format, Format::Table | Format::Wide)
        && let Some(message) = table::rows::list_price::note(&text)
    {
        out::print_message(err, message);
    }
    let exit = lost.iter().map(|(exit, _)| *exit).max();
    Ok(exit.unwrap_or(selected(facts, query, err)))
}

/// Reports what a selector could not decide, and the likely mistake in one that matches nothing. Output with unknown rows left
/// out ends with the exit code of a refused request.
fn selected(facts: &Facts, query: &Query, err: &mut dyn Write) -> Exit {
    let message = query
        .select
        .asks_labels()
        .then(|| output::unselected(facts, query));
    match message.flatten() {
        Some(output::Unselected::NotKnown(why)) => {
            out::print_message(err, &why);
            Exit::Refused
        }
        Some(output::Unselected::NoSuch(why)) => {
            out::print_message(err, &why);
            Exit::Done
        }
        None => {
            let none = || {
                output_table(facts, query, Format::Name, JsonStyle::Line)
                    .is_ok_and(|found| found.items.is_empty())
            };
            if !query.select.is_all() && none() {
                let kind = query.kind.name();
                out::print_message(err, &format!("no {kind} match {}", query.select.words()));
            }
            Exit::Done
        }
    }
}

/// Turns facts into lines as they change.
pub(super) struct RowFollower {
    query: Query,
    format: Format,
    watch: Watch,
    layout: Option<Layout>,
    started: bool,
}

impl RowFollower {
    pub(super) fn new(query: Query, format: Format) -> Self {
        Self {
            query,
            format,
            watch: Watch::default(),
            layout: None,
            started: false,
        }
    }

    /// What there is to print now.
    pub(super) fn take(&mut self, facts: &Facts) -> Result<String, Failure> {
        let sheet = match output_table(facts, &self.query, self.format, JsonStyle::Line) {
            Ok(sheet) => sheet,
            // Once seen, an object may go, and come back.
            Err(_) if self.started => OutputTable::default(),
            Err(missing) => return Err(Failure::new(Exit::Failed, missing.to_string())),
        };
        let first = !self.started;
        self.started = true;
        let titles = sheet.titles.clone();
        let changes = self.watch.update(sheet);
        let at = facts.now;
        Ok(match self.format {
            Format::Json => changes.iter().map(|change| change.line(at)).collect(),
            Format::Yaml => changes
                .iter()
                .map(|change| {
                    let value = Json::of(&change.line(at)).printable();
                    let text = serde_saphyr::to_string(&value)
                        .expect("rows have text keys and finite numbers");
                    format!("---\n{text}")
                })
                .collect(),
            Format::Csv => {
                let fields = output::fields(self.query.kind);
                let mut text = String::new();
                if first && self.query.titled {
                    let own = ["event", "at"].into_iter();
                    let names: Vec<&str> = own.chain(fields.iter().map(|name| &**name)).collect();
                    text = output::csv_line(&names);
                }
                for change in &changes {
                    let mut cells = vec![change.event.name().to_owned(), at.rfc3339()];
                    cells.extend(output::flat(&fields, &change.item.json));
                    text.push_str(&output::csv_line(&cells));
                }
                text
            }
            Format::Name => {
                let named = |change: &RowChange| {
                    let name = output::names(std::slice::from_ref(&change.item));
                    format!("{} {name}", change.event.name())
                };
                changes.iter().map(named).collect()
            }
            Format::Template => {
                // Deleted objects have no values: a template gets only existing ones.
                let set = changes
                    .iter()
                    .filter(|change| change.event == RowEvent::Set);
                let items: Vec<OutputRow> = set.map(|change| change.item.clone()).collect();
                match items.is_empty() {
                    true => String::new(),
                    false => output::templated(&self.query, &items)
                        .map_err(|why| Failure::new(Exit::Usage, why.to_string()))?,
                }
            }
            Format::Table | Format::Wide => self.lines(titles, &changes),
        })
    }

    fn lines(&mut self, titles: Vec<(&'static str, bool)>, changes: &[RowChange]) -> String {
        let lines: Vec<Vec<String>> = changes
            .iter()
            .map(|change| {
                let mut cells = vec![change.event.name().to_owned()];
                cells.extend(change.item.cells.iter().cloned());
                cells
            })
            .collect();
        let mut text = String::new();
        let titled = self.query.titled;
        let layout = self.layout.get_or_insert_with(|| {
            let titles = [("EVENT", false)].into_iter().chain(titles).collect();
            let layout = Layout::new(titles, &lines);
            if titled {
                text.push_str(&layout.header());
            }
            layout
        });
        for line in &lines {
            text.push_str(&layout.line(line));
        }
        text
    }
}
