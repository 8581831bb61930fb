//! `what-if`: the same fleet with something changed.

use std::fmt::Write as _;
use std::io::Write;

use clap::Args;

use engine::explanations;
use engine::what_if::{Figures, Outcome};
use model::base::name::printable;
use model::base::{Exit, Failure, Moment};
use table::output::safe_json;
use table::text::or_unknown;

use super::engine::FigureFormat;
use super::out;
use super::plan::Seen;
use super::setup::Situation;

/// What is supposed.
///
/// Changes: nodes POOL|TYPE|NODE +N|-N; pool|zone|node NAME lost; quota QUEUE/FLAVOR +N|-N|=N; quota FROM->TO/FLAVOR N;
/// price FLAVOR|CLASS USD; spot POOL USD; job NAMESPACE/NAME flavor FLAVOR|priority N|removed|+N.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct WhatIf {
    /// Each in quotes, or one in plain words
    #[arg(required = true, value_name = "CHANGE", allow_hyphen_values = true)]
    pub changes: Vec<String>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: FigureFormat,
}

/// Runs `what-if`.
pub(super) fn run(
    at: &Situation,
    what_if: &WhatIf,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let joined;
    let changes: Vec<&str> = if what_if.changes.iter().any(|change| change.contains(' ')) {
        what_if.changes.iter().map(String::as_str).collect()
    } else {
        joined = what_if.changes.join(" ");
        vec![&joined]
    };
    // What is not understood need not wait for the cluster.
    for change in &changes {
        engine::what_if::parse(change).map_err(|said| Failure::new(Exit::Usage, said))?;
    }
    let seen = Seen::of(at)?;
    let outcome = explanations::what_if(&seen.snapshot, &changes)
        .map_err(|message| Failure::new(Exit::Usage, message))?;
    for gap in &seen.gaps {
        out::say(err, gap);
    }
    out::write(out, &printed(&outcome, seen.snapshot.at, what_if.output))?;
    Ok(Exit::Done)
}

/// An outcome as text or as a document.
pub(super) fn printed(outcome: &Outcome, now: Moment, format: FigureFormat) -> String {
    const MOST: usize = 30;
    if format == FigureFormat::Json {
        return safe_json(outcome);
    }
    let mut text = String::new();
    for change in &outcome.changes {
        let _ = writeln!(text, "what if {}", printable(change));
    }
    let mut row = |title: &str, of: &dyn Fn(&Figures) -> String| {
        let (before, after) = (of(&outcome.before), of(&outcome.after));
        let _ = writeln!(text, "  {title:<22} {before:>12} {after:>12}");
    };
    row("", &|figures| {
        let first = std::ptr::eq(figures, &raw const outcome.before);
        if first { "before" } else { "after" }.to_owned()
    });
    row("nodes", &|it| it.nodes.to_string());
    row("devices", &|it| it.devices.to_string());
    row("devices in use", &|it| {
        format!("{:.1}", it.allocated_milli as f64 / 1e3)
    });
    row("jobs that run", &|it| it.running.to_string());
    row("jobs that wait", &|it| it.waiting.to_string());
    row("of unknown start", &|it| it.unknown.to_string());
    row("median wait, seconds", &|it| {
        or_unknown(it.wait_p50_seconds)
    });
    row("$/h", &|it| {
        format!("{:.2}", it.burn_micro_usd_per_hour as f64 / 1e6)
    });
    for job in outcome.displaced.iter().take(MOST) {
        let _ = writeln!(text, "  {} loses its nodes", printable(&job.to_string()));
    }
    let when = |at: Option<Moment>| match at {
        Some(at) if at <= now => "now".to_owned(),
        Some(at) => at.rfc3339(),
        None => "unknown".to_owned(),
    };
    for shift in outcome.starts.iter().take(MOST) {
        let name = shift.job.to_string();
        let _ = writeln!(
            text,
            "  {} starts {}, before: {}",
            printable(&name),
            when(shift.after),
            when(shift.before)
        );
    }
    let more =
        outcome.displaced.len().saturating_sub(MOST) + outcome.starts.len().saturating_sub(MOST);
    if more > 0 {
        let _ = writeln!(text, "  and {more} jobs more");
    }
    for note in &outcome.notes {
        let _ = writeln!(text, "  note: {}", printable(note));
    }
    text
}
