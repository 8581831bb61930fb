//! `get`: every kind of object, once or as it changes.

use std::io::Write;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use console::scoped_cost::burn_of;
use console::table_model::Scope;
use model::base::{Exit, Failure, Name};
use model::value::Value;
use settings::Settings;
use table::output::{self, OutputTable, output_table};
use table::table::Layout;
use table::watch::Change;
use table::{Facts, Format, Kind, Needs, Query, Watch, losses, silent};

use super::out;
use super::setup::{self, Situation};

/// What to get.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct Get {
    /// What to list
    pub kind: KindName,
    /// Only the object of this name (jobs and pods also as NAMESPACE/NAME, devices also by node or UUID)
    pub name: Option<String>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: FormatName,
    /// Print changes as they come; with `-o json`, one object a line
    #[arg(short, long)]
    pub watch: bool,
}

/// A kind on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum KindName {
    /// What the fleet is made of
    #[value(alias = "pool")]
    Pools,
    /// Machines
    #[value(aliases = ["node", "no"])]
    Nodes,
    /// GPUs, TPU chips and their slices
    #[value(aliases = ["device", "dev"])]
    Devices,
    /// Queues that jobs wait in
    #[value(alias = "queue")]
    Queues,
    /// What teams submitted
    #[value(alias = "job")]
    Jobs,
    /// Pods that ask for devices
    #[value(aliases = ["pod", "po"])]
    Pods,
    /// Money an hour by pool, queue, team, job and class
    #[value(alias = "costs")]
    Cost,
    /// What needs somebody
    #[value(alias = "alert")]
    Alerts,
    /// Where facts come from and how fresh they are
    #[value(alias = "source")]
    Sources,
    /// Everything as one versioned document
    Fleet,
}

impl From<KindName> for Kind {
    fn from(name: KindName) -> Self {
        match name {
            KindName::Pools => Self::Pools,
            KindName::Nodes => Self::Nodes,
            KindName::Devices => Self::Devices,
            KindName::Queues => Self::Queues,
            KindName::Jobs => Self::Jobs,
            KindName::Pods => Self::Pods,
            KindName::Cost => Self::Cost,
            KindName::Alerts => Self::Alerts,
            KindName::Sources => Self::Sources,
            KindName::Fleet => Self::Fleet,
        }
    }
}

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
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Self {
        match name {
            FormatName::Table => Self::Table,
            FormatName::Wide => Self::Wide,
            FormatName::Json => Self::Json,
            FormatName::Yaml => Self::Yaml,
            FormatName::Csv => Self::Csv,
        }
    }
}

/// Runs `get`.
pub(super) fn run(
    at: &Situation,
    get: &Get,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let query = query(get, &at.settings)?;
    if get.watch {
        let mut follower = Follower::new(query, get.output.into());
        let mut told = Vec::new();
        setup::follow(at, &mut |facts| {
            let facts = &part_of(facts, &follower.query);
            let text = follower.take(facts)?;
            let lost: Vec<String> = losses(facts, follower.query.kind)
                .into_iter()
                .map(|(_, said)| said)
                .collect();
            if lost != told {
                out::say(err, &lost.join("\n"));
                told = lost;
            }
            out::write(out, &text)
        })?;
        return Ok(Exit::Done);
    }
    let needs = Needs::of(&query, get.output.into());
    let facts = part_of(&setup::snapshot(at, &needs)?, &query);
    print(&facts, &query, get.output.into(), out, err)
}

/// The facts with the money of the part that is asked for, as the console has it: rows and sums are those of a team or of
/// some namespaces.
fn part_of(facts: &Facts, query: &Query) -> Facts {
    let scope = Scope {
        team: query.team.as_deref().map(Name::new),
        namespaces: query
            .namespaces
            .iter()
            .map(|name| Name::new(name))
            .collect(),
    };
    let burn = match query.kind == Kind::Cost && !scope.is_all() {
        true => Arc::new(burn_of(facts, &scope)),
        false => Arc::clone(&facts.burn),
    };
    Facts {
        burn,
        ..facts.clone()
    }
}

fn query(get: &Get, settings: &Settings) -> Result<Query, Failure> {
    let kind = Kind::from(get.kind);
    if kind == Kind::Fleet && get.name.is_some() {
        let message = "get fleet takes no name: there is one fleet";
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(Query {
        kind,
        name: get.name.clone(),
        namespaces: settings.scope.namespaces.clone(),
        team: settings.scope.team.clone(),
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
        Err(missing) => {
            // What was not listed may well be there.
            for (_, said) in &lost {
                out::say(err, said);
            }
            let exit = lost.iter().map(|(exit, _)| *exit).max();
            return Err(Failure::new(
                exit.unwrap_or(Exit::Failed),
                missing.to_string(),
            ));
        }
    };
    out::write(out, &text)?;
    for (_, said) in &lost {
        out::say(err, said);
    }
    if let Some(said) = silent(facts, query.kind) {
        out::say(err, &said);
    }
    Ok(lost
        .iter()
        .map(|(exit, _)| *exit)
        .max()
        .unwrap_or(Exit::Done))
}

/// Turns facts into lines as they change.
pub(super) struct Follower {
    query: Query,
    format: Format,
    watch: Watch,
    layout: Option<Layout>,
    started: bool,
}

impl Follower {
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
        let sheet = match output_table(facts, &self.query, self.format, false) {
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
                    let value = Value::of(&change.line(at)).printable();
                    let text = serde_saphyr::to_string(&value)
                        .expect("rows have text keys and finite numbers");
                    format!("---\n{text}")
                })
                .collect(),
            Format::Csv => {
                let fields = output::fields(self.query.kind);
                let mut text = String::new();
                if first {
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
            Format::Table | Format::Wide => self.lines(titles, &changes),
        })
    }

    fn lines(&mut self, titles: Vec<(&'static str, bool)>, changes: &[Change]) -> String {
        let lines: Vec<Vec<String>> = changes
            .iter()
            .map(|change| {
                let mut cells = vec![change.event.name().to_owned()];
                cells.extend(change.item.cells.iter().cloned());
                cells
            })
            .collect();
        let mut text = String::new();
        let layout = self.layout.get_or_insert_with(|| {
            let titles = [("EVENT", false)].into_iter().chain(titles).collect();
            let layout = Layout::new(titles, &lines);
            text.push_str(&layout.header());
            layout
        });
        for line in &lines {
            text.push_str(&layout.line(line));
        }
        text
    }
}
