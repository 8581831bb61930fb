//! The journal read back.

use std::fmt::Write as _;
use std::io::Write;

use crate::runtime::actions::journal_place::journal_of;
use crate::runtime::host::Host;
use exec::history::Trace;
use exec::{Journal, Run, RunEnd, StepResult, runs};
use model::base::name::printable;
use model::base::{Exit, Failure, Moment};
use serde_json::json;
use settings::Settings;

use super::show::document_text;
use super::{PlanFlags, PlanFormat};
use crate::cli::common::out;

pub(super) fn log(
    host: &Host,
    settings: &Settings,
    flags: &PlanFlags,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let journal = journal_of(settings)?;
    let pages = journal
        .read()
        .map_err(|fault| Failure::new(Exit::Failed, fault.to_string()))?;
    if pages.unreadable > 0 {
        out::print_message(
            err,
            &format!(
                "{} lines of the journal cannot be read: cut off by a crash, or written by a later version",
                pages.unreadable
            ),
        );
    }
    if flags.output != PlanFormat::Table {
        let document = serde_json::to_value(&pages.lines)
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        out::write(out, &document_text(&document, flags.output))?;
        return Ok(Exit::Done);
    }
    let all = runs(&pages);
    if all.is_empty() {
        out::print_message(
            err,
            &format!("no runs yet; the journal is {}", journal.path().display()),
        );
        return Ok(Exit::Done);
    }
    let text: String = all
        .iter()
        .map(|run| {
            let undone_by = exec::undone_by(&all, &run.name);
            status_text(host.now(), run, undone_by, journal.is_running(&run.name))
        })
        .collect();
    out::write(out, &text)?;
    Ok(Exit::Done)
}

/// Prints how far a run has come: what would be done if it was continued.
///
/// # Errors
/// There is no such run, or its journal cannot be read.
pub(super) fn print_run(
    now: Moment,
    journal: &Journal,
    name: &str,
    format: PlanFormat,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let run = exec::run::find(journal, name)?;
    if format == PlanFormat::Table {
        out::write(
            out,
            &status_text(now, &run, None, journal.is_running(&run.name)),
        )?;
    } else {
        let steps = run.plan.steps.iter().zip(&run.steps).enumerate();
        let steps = steps.map(|(at, (step, trace))| {
            json!({"step": at + 1, "words": step.to_string(), "stands": standing_of(trace)})
        });
        let document =
            json!({"run": run.name, "plan": run.plan, "steps": steps.collect::<Vec<_>>()});
        out::write(out, &document_text(&document, format))?;
    }
    match run.end {
        None | Some(RunEnd::Stopped) => out::print_message(err, "continue it with --apply"),
        _ => out::print_message(err, "it has ended: there is nothing to continue"),
    }
    Ok(Exit::Done)
}

/// The status of a step of a run, in words.
fn standing_of(trace: &Trace) -> &'static str {
    match trace.over {
        Some(StepResult::Done) => "done",
        Some(StepResult::Already) => "unchanged",
        Some(StepResult::Left) => "skipped",
        Some(StepResult::Failed) => "failed",
        None if trace.is_unresolved() => "sent, result unknown",
        None if trace.has_written() => "carried out",
        None => "not done",
    }
}

fn status_text(now: Moment, run: &Run, undone_by: Option<&Run>, running: bool) -> String {
    let end = match (undone_by, &run.end) {
        (Some(undo), _) => format!("undone by {}", undo.name),
        (None, Some(RunEnd::Done)) => match run.unmet() {
            Some(words) => format!("incomplete: {}", printable(&words)),
            None => "done".to_owned(),
        },
        (None, Some(RunEnd::Stopped)) => "stopped".to_owned(),
        (None, Some(RunEnd::Failed { step, .. })) => format!("failed at step {step}"),
        (None, None) if running => "running".to_owned(),
        (None, None) => "interrupted".to_owned(),
    };
    let ago = now.since(run.begun);
    let mut text = format!(
        "{}  {}  {ago} ago  {}  on {}  by {}  {end}",
        run.name,
        run.begun.rfc3339(),
        printable(&run.plan.title),
        printable(&run.cluster.to_string()),
        printable(run.who.name()),
    );
    if !run.reason.is_empty() {
        let _ = write!(text, "  ({})", printable(&run.reason));
    }
    text.push('\n');
    for (at, (trace, step)) in run.steps.iter().zip(&run.plan.steps).enumerate() {
        let state = standing_of(trace);
        let _ = write!(
            text,
            "  {} {}: {state}",
            at + 1,
            printable(&step.to_string())
        );
        if !trace.words.is_empty() && trace.over != Some(StepResult::Done) {
            let _ = write!(text, ": {}", printable(&trace.words));
        }
        text.push('\n');
    }
    text
}
