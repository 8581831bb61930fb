//! `usage sql`: prints the path of the usage ledger, its extent, and a query. `get usage`: prints the hours of the ledger.

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;

use ::record::Archive;
use ::record::usage::{UsageFault, UsageFile};
use ::usage::{Span, UsageFilter, hour_of, start_of};
use console::clipboard::quoted;
use model::base::{Exit, Failure, Moment, When};
use table::spend;

use crate::runtime::clock::Stopwatch;
use crate::runtime::session;
use crate::runtime::usage;
use crate::runtime::usage::prometheus::PrometheusUsage;

use crate::cli::common::setup::{FactsSource, Situation};
use crate::cli::common::{console_options, out};
use crate::cli::get::{FormatName, Get, Output};
use crate::cli::record::{self as records, PastFlags, RecordMoment, failed};

#[derive(Subcommand, Clone, Debug)]
pub enum Usage {
    /// Print where its SQLite file is, what is in it, and a query to begin with
    Sql {
        /// The record; default: from the settings, else that of the context
        #[arg(long, value_name = "DIR")]
        record: Option<PathBuf>,
    },
}

impl Usage {
    pub(crate) fn past(&self) -> PastFlags {
        let Self::Sql { record } = self;
        PastFlags {
            at: None,
            record: record.clone(),
        }
    }
}

/// Time after which progress is printed.
const PROGRESS_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

/// The ledger of the record, and the name of its context. Hours that the record has and the ledger lacks are computed.
/// If no record is named and this machine has none, the hours are read from the Prometheus of the
/// settings, and a message names it.
///
/// # Errors
/// There is no usage ledger, or the ledger cannot be read.
pub(crate) fn ledger(
    situation: &Situation,
    err: &mut dyn Write,
    looks_at: impl FnOnce(Moment) -> Span,
) -> Result<(UsageFile, Option<String>), Failure> {
    let FactsSource::Record(moment) = &situation.target else {
        let message = "the usage ledger is part of a record: --record DIR";
        return Err(Failure::new(Exit::Usage, message));
    };
    let path = match records::directory_of(moment, &situation.settings) {
        Ok(path) => path,
        Err(failure) => return from_prometheus(situation, err, moment, looks_at)?.ok_or(failure),
    };
    let is_none = Archive::open(&path).is_err_and(|fault| fault.is_absent());
    if is_none && matches!(UsageFile::open_to_read(&path), Err(UsageFault::Absent(_))) {
        if let Some(printed) = from_prometheus(situation, err, moment, looks_at)? {
            return Ok(printed);
        }
        if moment.flags.record.is_none() {
            let message = format!(
                "no record of this context yet: run `stokehold record` (it is kept in {}; --record names another)",
                path.display()
            );
            return Err(failed(message));
        }
    }
    let setup = situation.setup(true);
    let begun = Stopwatch::start();
    let mut next_report = PROGRESS_AFTER;
    usage::of_record(
        &path,
        |archive| session::past_rules(&setup, archive),
        |now, end| {
            if !situation.quiet && begun.elapsed() >= next_report {
                next_report = begun.elapsed() + PROGRESS_AFTER;
                let words = format!(
                    "making the usage ledger from the record: {} of {}",
                    now.rfc3339(),
                    end.rfc3339()
                );
                out::print_message(err, &words);
            }
        },
    )
}

fn from_prometheus(
    situation: &Situation,
    err: &mut dyn Write,
    moment: &RecordMoment,
    looks_at: impl FnOnce(Moment) -> Span,
) -> Result<Option<(UsageFile, Option<String>)>, Failure> {
    if moment.flags.record.is_some() {
        return Ok(None);
    }
    let context = records::context(moment);
    let Some(usage) = PrometheusUsage::of(&situation.settings, context.as_deref()) else {
        return Ok(None);
    };
    let now = situation.host.now();
    let read = usage.into_file(looks_at(now), now);
    let read = read.map_err(|why| {
        failed(format!(
            "there is no usage ledger on this machine, and hours of usage cannot be read from {why}"
        ))
    })?;
    Ok(read.map(|(file, name)| {
        if !situation.quiet {
            let words =
                format!("there is no usage ledger on this machine: hours are read from {name}");
            out::print_message(err, &words);
        }
        (file, context)
    }))
}

/// The moment that `when` names in the 92 days before `now`, which is as much history as is read from a Prometheus; `now` for `None`.
pub(crate) fn back_from(when: Option<When>, now: Moment) -> Moment {
    const LOOKS_BACK: std::time::Duration = std::time::Duration::from_secs(92 * 86_400);
    when.map_or(now, |when| when.in_record(now.minus(LOOKS_BACK), now))
}

/// The filter for rows of the settings' scope: team and namespaces.
pub(crate) fn filter(situation: &Situation) -> UsageFilter {
    let scope = console_options::scope(&situation.settings);
    UsageFilter {
        team: scope.team.map(|team| team.to_string()),
        namespaces: scope.namespaces.iter().map(ToString::to_string).collect(),
    }
}

/// The first and the last moment of a ledger; `None` for an empty ledger.
pub(crate) fn ends(file: &UsageFile) -> Result<Option<(Moment, Moment)>, Failure> {
    let extent = file.extent().map_err(failed)?;
    let until = file.until().map_err(failed)?;
    Ok(extent.map(|span| start_of(span.from)).zip(until))
}

const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 3_600);

/// The hours from a day before `from` up to `to`.
fn day_before(from: Moment, to: Moment) -> Span {
    Span {
        from: hour_of(from.minus(DAY)),
        to: hour_of(to) + 1,
    }
}

const QUERY: &str = "SELECT coalesce(nullif(team, ''), CASE WHEN allocated_ms > 0 THEN 'unattributed' ELSE '(unallocated)' END) AS team, round(sum(cost_micros) / 1e6, 2) AS usd, round(sum(allocated_ms) / 3.6e6, 1) AS device_hours
  FROM usage_hours WHERE hour >= '2026-11-01' AND hour < '2026-12-01' GROUP BY 1 ORDER BY usd DESC;";

pub(crate) fn run(
    situation: &Situation,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let (file, _) = ledger(situation, err, |now| day_before(now, now))?;
    let mut text = format!("{}\n\n", file.path().display());
    match ends(&file)? {
        Some((from, until)) => text.push_str(&format!(
            "hours from {} to {}\n\n",
            from.rfc3339(),
            until.rfc3339()
        )),
        None => text.push_str("no hours yet\n\n"),
    }
    text.push_str(
        "usage    view: one row an hour, pool, class, billing, zone, namespace, team, queue, owner, job, model and price;\n\
         \x20        hour_start in seconds since 1970 UTC, device time in ms, cost in micro-USD (NULL: no price is known)\n\
         usage_hours    the same with the hour as text; for SQLite alone (DuckDB reads all its columns as text)\n\
         hours    each hour: open or closed, how much of it was observed\n\
         keys, hour_rows, losses    what the view is made of\n\
         finished    jobs that ended well: hour and key of each, counted from `counted` on\n\
         on_demand   what the spot time of a row would have cost on demand, in micro-USD\n\n\
         Read it while it is written; never write to it. For example:\n\n",
    );
    text.push_str(&format!(
        "sqlite3 -readonly {} \"{QUERY}\"\n",
        quoted(&file.path().display().to_string())
    ));
    out::write(out, &text)?;
    Ok(Exit::Done)
}

pub(crate) fn get(
    situation: &Situation,
    get: &Get,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let refused = [
        (!get.names.is_empty(), "a name"),
        (!get.selector.is_empty(), "-l"),
        (!get.field_selector.is_empty(), "--field-selector"),
        (get.sort_by.is_some(), "--sort-by"),
        (get.watch, "--watch"),
        (get.past.at.is_some(), "--at"),
        (
            matches!(
                get.output,
                Output::JsonPath(_) | Output::Plain(FormatName::Name)
            ),
            "this output",
        ),
    ];
    if let Some((_, what)) = refused.iter().find(|(given, _)| *given) {
        let message = format!(
            "get usage does not take {what}: it takes --from, --to, --record, -n, --team, and -o table, wide, json, yaml or csv; `stokehold usage sql` for anything else"
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    let (file, _) = ledger(situation, err, |now| {
        let to = back_from(get.to, now);
        match get.from {
            Some(from) => day_before(back_from(Some(from), now).plus(DAY), to),
            None => day_before(to, to),
        }
    })?;
    let Some((start, end)) = ends(&file)? else {
        out::print_message(err, "the usage ledger has no hours yet");
        return Err(failed("nothing to print"));
    };
    let to = get.to.map_or(end, |when| when.in_record(start, end));
    let from = get
        .from
        .map_or_else(|| to.minus(DAY), |when| when.in_record(start, end));
    if from > to {
        let (from, to) = (from.rfc3339(), to.rfc3339());
        let message = format!("--from must be before --to: {from} is not before {to}");
        return Err(Failure::new(Exit::Usage, message));
    }
    let span = Span {
        from: hour_of(from),
        // The span includes the hour that has begun.
        to: hour_of(Moment::from_millis(to.millis() - 1)) + 1,
    };
    let rows = file.rows(span, &filter(situation)).map_err(failed)?;
    let rows = spend::hours(&rows);
    let titled = !get.no_headers;
    let text = match get.output.format() {
        table::Format::Json => serde_json::to_string_pretty(&rows).map_err(failed)? + "\n",
        table::Format::Yaml => serde_saphyr::to_string(&rows).map_err(failed)?,
        table::Format::Csv => spend::csv(&rows, titled),
        format => spend::table(&rows, titled, format == table::Format::Wide),
    };
    out::write(out, &text)?;
    Ok(Exit::Done)
}
