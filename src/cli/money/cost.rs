//! `cost`: what a period cost. `cost report`: a month, for chargeback.

use std::io::Write;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};

use model::base::{Exit, Failure, Moment, When};
use table::spend::{self, IdleShare, PeriodCost, Report};
use usage::{Dimension, Period, Span, UsageSum, month, start_of};

use crate::runtime::usage::budgets::cost_basis;
use crate::runtime::usage::seen;

use super::usage::{back_from, ends, filter, ledger};
use crate::cli::common::out;
use crate::cli::common::setup::Situation;
use crate::cli::record::{PastFlags, failed};

/// What a period cost.
///
/// By the usage ledger of a record, in the time zone of [cost] in the settings (UTC without one). Estimates from list prices, never a bill.
/// Unobserved time is not included; coverage is shown.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Cost {
    #[command(subcommand)]
    command: Option<CostCommand>,
    /// What the rows are by
    #[arg(long, value_name = "WHAT", default_value = "team", value_parser = one_of(&Dimension::ALL, Dimension::name))]
    by: Dimension,
    /// The period: today, the last 7 or 30 days, this or the last calendar month
    #[arg(long, value_name = "PERIOD", default_value = "7d", value_parser = one_of(&Period::ALL, Period::name))]
    period: Period,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: CostFormat,
    /// The moment at which the period ends: 03:12, yesterday 14:00, -2h, RFC 3339 (UTC; now without it)
    #[arg(long, value_name = "T", value_parser = When::parse, allow_hyphen_values = true)]
    at: Option<When>,
    /// The record; default: from the settings, else that of the context
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
}

#[derive(Subcommand, Clone, Debug)]
enum CostCommand {
    /// A month for chargeback: rows that add up to the ledger
    Report(ReportFlags),
}

/// Which month, and how.
#[derive(Args, Clone, Debug)]
struct ReportFlags {
    /// The calendar month, 2026-10
    #[arg(long, value_name = "MONTH")]
    month: String,
    /// What the rows are by, with commas between: team,job
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "team",
        value_delimiter = ',',
        value_parser = one_of(&Dimension::ALL, Dimension::name)
    )]
    by: Vec<Dimension>,
    /// Who pays for unallocated devices: none (a row of their own), all in equal parts, or all by their own cost
    #[arg(long, value_name = "HOW", default_value = "separate", value_parser = one_of(&IdleShare::ALL, IdleShare::name))]
    idle: IdleShare,
    /// How to print it; focus is CSV of the FinOps Open Cost and Usage Specification 1.2
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: ReportFormat,
    /// The record; default: from the settings, else that of the context
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum CostFormat {
    Table,
    Wide,
    Json,
    Csv,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum ReportFormat {
    Table,
    Csv,
    Json,
    Markdown,
    Focus,
}

/// A clap parser of one of these names.
fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.iter().map(|one| name(*one))).try_map(move |text| {
        let found = all.iter().copied().find(|one| name(*one) == text);
        found.ok_or("unknown")
    })
}

impl Cost {
    pub(crate) fn past(&self) -> PastFlags {
        let record = match &self.command {
            Some(CostCommand::Report(report)) => report.record.clone(),
            None => self.record.clone(),
        };
        PastFlags { at: None, record }
    }
}

pub(crate) fn run(
    situation: &Situation,
    cost: &Cost,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    if let Some(CostCommand::Report(flags)) = &cost.command {
        return report(situation, flags, out, err);
    }
    let basis = cost_basis(&situation.host, &situation.settings)?;
    let (file, _) = ledger(situation, err, |now| {
        let then = back_from(cost.at, now);
        let (this, before) = cost.period.spans(then, &basis.zone.zone);
        Span {
            from: before.from,
            to: this.to,
        }
    })?;
    let bounds = ends(&file)?;
    let now = match (cost.at, bounds) {
        (Some(when), Some((start, end))) => when.in_record(start, end),
        _ => situation.host.now(),
    };
    let (this, before) = cost.period.spans(now, &basis.zone.zone);
    let by = cost.by;
    let only = filter(situation);
    let sums = |span: Span, steps: usize| -> Result<Vec<UsageSum>, Failure> {
        file.sums(span, &[by], steps, &only).map_err(failed)
    };
    let (now_seen, _) = seen(&file, this, now).map_err(failed)?;
    let (before_seen, _) = seen(&file, before, now).map_err(failed)?;
    let period = PeriodCost::new(
        cost.period.name(),
        by,
        now_seen,
        &sums(this, PeriodCost::steps(this))?,
        before_seen,
        &sums(before, 1)?,
        basis,
    );
    if !now_seen.is_observed() {
        say_unobserved(err, this, bounds);
    }
    let text = match cost.output {
        CostFormat::Table => period.table(false),
        CostFormat::Wide => period.table(true),
        CostFormat::Json => period.json(),
        CostFormat::Csv => period.csv(),
    };
    out::write(out, &text)?;
    Ok(exit_of(now_seen.is_observed()))
}

/// The exit code: 1 if nothing of the period was observed, so that an empty file is not loaded as a month without cost.
pub(crate) const fn exit_of(is_observed: bool) -> Exit {
    match is_observed {
        true => Exit::Done,
        false => Exit::Failed,
    }
}

fn say_unobserved(err: &mut dyn Write, period: Span, bounds: Option<(Moment, Moment)>) {
    // A record that has just begun has no sums yet.
    let meets = |(from, end): &(Moment, Moment)| {
        start_of(period.from) <= *end && *from < start_of(period.to)
    };
    if let Some((from, _)) = bounds.filter(meets) {
        let words = format!(
            "too little of this period is recorded to know its cost: the ledger begins at {}",
            from.rfc3339()
        );
        out::print_message(err, &words);
        return;
    }
    let has = match bounds {
        Some((from, to)) => format!("; the ledger has {} to {}", from.rfc3339(), to.rfc3339()),
        None => String::new(),
    };
    let words = format!(
        "nothing was recorded in this period, its cost is unknown: run `stokehold record`{has}"
    );
    out::print_message(err, &words);
}

fn report(
    situation: &Situation,
    flags: &ReportFlags,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let basis = cost_basis(&situation.host, &situation.settings)?;
    let Some(span) = month(&flags.month, &basis.zone.zone) else {
        let message = format!("--month {}: write a month as 2026-10", flags.month);
        return Err(Failure::new(Exit::Usage, message));
    };
    let mut by: Vec<Dimension> = Vec::new();
    for one in flags.by.iter().copied() {
        if by.contains(&one) {
            let message = format!("--by names {} twice", one.name());
            return Err(Failure::new(Exit::Usage, message));
        }
        by.push(one);
    }
    let idle = flags.idle;
    if flags.output == ReportFormat::Focus && idle != IdleShare::Separate {
        let message = "-o focus lists unallocated devices in their own rows: leave out --idle";
        return Err(Failure::new(Exit::Usage, message));
    }
    let (file, context) = ledger(situation, err, |_| span)?;
    // A month that is not over is observed up to now.
    let bounds = ends(&file)?;
    let now = bounds.map_or(situation.host.now(), |(_, end)| {
        end.max(situation.host.now())
    });
    let (seen, open) = seen(&file, span, now).map_err(failed)?;
    if !seen.is_observed() {
        say_unobserved(err, span, bounds);
    }
    let exit = exit_of(seen.is_observed());
    let only = filter(situation);
    let sums = |by: &[Dimension]| file.sums(span, by, 1, &only).map_err(failed);
    if flags.output == ReportFormat::Focus {
        let others: Vec<Dimension> = by
            .into_iter()
            .filter(|by| !spend::FOCUS_KEYS.contains(by))
            .collect();
        let keys: Vec<Dimension> = spend::FOCUS_KEYS
            .into_iter()
            .chain(others.clone())
            .collect();
        let sums = sums(&keys)?;
        let report = Report::new(&flags.month, seen, open, &keys, idle, sums.clone(), basis);
        // The file is for programs: notes go to standard error, and the observed share is on each line.
        for note in report.notes() {
            out::print_message(err, &note);
        }
        out::print_message(err, "BilledCost is 0: nothing was billed");
        let cluster = context.unwrap_or_default();
        out::write(
            out,
            &spend::focus(&cluster, span, seen.ratio, &others, &sums),
        )?;
        return Ok(exit);
    }
    let sums = sums(&by)?;
    let report = Report::new(&flags.month, seen, open, &by, idle, sums, basis);
    let text = match flags.output {
        ReportFormat::Table => report.table(),
        ReportFormat::Json => report.json(),
        ReportFormat::Markdown => report.markdown(),
        ReportFormat::Csv | ReportFormat::Focus => {
            for note in report.notes() {
                out::print_message(err, &note);
            }
            report.csv()
        }
    };
    out::write(out, &text)?;
    Ok(exit)
}
