//! `explain`: why a job waits, what would start it, when it starts by itself.

use std::fmt::Write as _;
use std::io::Write;

use clap::{Args, Subcommand};

use engine::explain::{Reason, StartState, Unblock, UnblockChange};
use engine::explanations::{Later, WorkloadExplanation};
use engine::forecast::{Basis, Start};
use engine::snapshot::Snapshot;
use model::base::name::printable;
use model::base::{Exit, Failure, Moment};
use model::plan::evicted_words;
use table::explanations::{JobExplanation, Now, named_victims};
use table::output::safe_json;
use table::text::{NO_ETA, eta, hour, with_hours};

use super::figures::FigureFormat;
use super::out;
use super::plan::Seen;
use super::record::PastFlags;
use super::setup::Situation;

/// What to explain: a job, with or without the word.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ExplainFlags {
    #[command(subcommand)]
    kind: Option<Explain>,
    #[command(flatten)]
    job: ExplainJob,
}

/// What to explain.
#[derive(Subcommand, Clone, PartialEq, Eq, Debug)]
pub enum Explain {
    /// A job that waits
    Job(ExplainJob),
}

/// Which job.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct ExplainJob {
    /// NAMESPACE/NAME; the name alone where one job has it
    #[arg(required = true)]
    pub name: Option<String>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: FigureFormat,
    /// The moment of a record to look at instead
    #[command(flatten)]
    pub past: PastFlags,
}

impl ExplainFlags {
    /// The job, with the word or without.
    fn job(&self) -> &ExplainJob {
        self.kind
            .as_ref()
            .map_or(&self.job, |Explain::Job(job)| job)
    }

    /// The moment of a record, if one was given.
    pub(super) fn past(&self) -> &PastFlags {
        &self.job().past
    }
}

pub(super) fn run(
    at: &Situation,
    explain: &ExplainFlags,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let job = explain.job();
    // (The parser requires it.)
    let name = job.name.as_deref().unwrap_or_default();
    let seen = Seen::for_decision(at, err)?;
    let name = match (name.contains('/'), at.settings.scope.namespaces.as_slice()) {
        (false, [namespace]) => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    };
    let JobExplanation { answer, now } = seen
        .explain(&name)
        .map_err(|message| Failure::new(Exit::Failed, message))?;
    for gap in &seen.gaps {
        out::print_message(err, gap);
    }
    let blind = answer.explanation.reasons.iter().any(Reason::is_blind);
    let mut text = answer_text(&answer, now.as_ref(), &seen.snapshot, job.output);
    if let (true, FigureFormat::Table, Some(said)) = (blind, job.output, seen.said_of(&name)) {
        let _ = writeln!(text, "  {:<10} {}", "told", printable(&said));
    }
    if let (FigureFormat::Table, Some(waited)) = (job.output, seen.waited_words(&name)) {
        let _ = writeln!(text, "  {:<10} {}", "waiting", printable(&waited));
    }
    let is_held = matches!(answer.explanation.state, StartState::Held);
    if is_held
        && job.output == FigureFormat::Table
        && let Some(held) = seen.said_of(&name)
    {
        let _ = writeln!(text, "  {:<10} {}", "held", printable(&held));
    }
    if job.output == FigureFormat::Table
        && let Some(words) = seen.priority_words(&name)
    {
        let _ = writeln!(text, "  {:<10} {}", "priority", printable(&words));
    }
    if let (FigureFormat::Table, Some(note)) = (job.output, table::rows::list_price::note(&text)) {
        let _ = writeln!(text, "  {note}");
    }
    out::write(out, &text)?;
    Ok(if blind { Exit::Refused } else { Exit::Done })
}

/// When a job starts, in words; times of day are in UTC.
pub(super) fn start_words(start: &Start, now: Moment) -> String {
    match start.p50 {
        Some(_) if start.basis == Basis::Now && !start.victims.is_empty() => {
            format!("now, evicting {}", evicted_words(&start.victims))
        }
        Some(_) => eta(now, [start.p10, start.p50, start.p90]),
        None => format!("{NO_ETA}: what it waits for has no known end"),
    }
}

/// `raise queue research's quota by 64 h100: starts ~14:40 (13:55–15:30)`.
fn later_words(later: &Later, now: Moment) -> String {
    format!(
        "{}: starts {}",
        later.change.sentence(),
        start_words(&later.start, now)
    )
}

/// An answer as text or as a document.
pub(super) fn printed(
    answer: &WorkloadExplanation,
    snapshot: &Snapshot,
    format: FigureFormat,
) -> String {
    answer_text(answer, None, snapshot, format)
}

/// The same, with the jobs to evict so that it starts now.
fn answer_text(
    answer: &WorkloadExplanation,
    by_hand: Option<&Now>,
    snapshot: &Snapshot,
    format: FigureFormat,
) -> String {
    if format == FigureFormat::Json {
        return safe_json(answer);
    }
    let (it, now) = (&answer.explanation, snapshot.at);
    let mut workloads = snapshot.workloads.iter();
    let own = workloads.find(|work| work.key.key == it.job.0 && work.key.kind == it.kind);
    let devices = own.map(|work| work.device_count());
    let mut text = format!(
        "{} {} · as of {} UTC\n",
        printable(&it.kind),
        printable(&it.job.to_string()),
        hour(now)
    );
    let mut line = |title: &str, words: &str| {
        let words = with_hours(words, now);
        let _ = writeln!(text, "  {title:<10} {}", printable(&words));
    };
    line(
        "state",
        match it.state {
            StartState::Waiting => "waits",
            StartState::Ready if !it.victims.is_empty() => "would start now by preempting others",
            StartState::Ready => "would start now: nothing blocks it",
            StartState::Running => "runs",
            StartState::Held => "is on hold",
            StartState::Blocked => "waits; neither a queue nor the scheduler can start it",
            StartState::Ending => "is ending",
        },
    );
    if !it.victims.is_empty() {
        line("evicts", &evicted_words(&it.victims));
    }
    if let Some(queue) = &it.queue {
        let place = it.position.map_or_else(String::new, |place| {
            let ahead = it
                .ahead
                .map_or_else(String::new, |ahead| format!(", {ahead} ahead"));
            format!(", place {place}{ahead}")
        });
        line(
            "queue",
            &format!("{queue}, priority {}{place}", it.priority),
        );
    }
    if !it.ahead_first.is_empty() {
        let names: Vec<String> = it.ahead_first.iter().map(ToString::to_string).collect();
        line("ahead", &names.join(", "));
    }
    for reason in &it.reasons {
        line("because", &reason.sentence());
    }
    // A priority is set in Kueue, Volcano or KAI: a job in no queue has none that a plan could change.
    let command = |unblock: &Unblock| match &unblock.changes[..] {
        [one] if it.queue.is_some() => one.command(&it.job),
        _ => None,
    };
    let words = |unblock: &Unblock| {
        // As in the console: an estimate that was not simulated is marked.
        let (mark, end) = unblock.marks();
        let others = devices.and_then(|devices| unblock.for_others(devices));
        let others = others.map_or_else(String::new, |words| format!(", {words}"));
        let sentence = match unblock.changes[..] {
            [UnblockChange::Wait { at }] => format!("wait until {}{end}", at.rfc3339()),
            _ => format!("{mark}{}{others}: starts now{end}", unblock.sentence),
        };
        match command(unblock) {
            Some(command) => format!("{sentence} · stokehold {command}"),
            None => sentence,
        }
    };
    let start = answer.start.as_ref();
    if let Some(start) = start.filter(|_| it.state != StartState::Ready) {
        line("starts", &start_words(start, now));
    }
    let mut title = "change";
    let mut change = |line: &mut dyn FnMut(&str, &str), words: &str| {
        line(std::mem::replace(&mut title, "or"), words);
    };
    let has_eta = start.is_some_and(|start| start.p50.is_some());
    let says_eta = |unblock: &&Unblock| matches!(unblock.changes[..], [UnblockChange::Wait { .. }]);
    // The start of a waiting job is printed above, with its range. Several simultaneous changes are the hardest to do.
    let others = it
        .alternatives
        .iter()
        .filter(|one| !(has_eta && says_eta(one)));
    let all: Vec<&Unblock> = it.unblock.iter().chain(others).collect();
    let (single, several): (Vec<&Unblock>, Vec<&Unblock>) =
        all.into_iter().partition(|one| one.changes.len() == 1);
    let is_change = |one: &&Unblock| !matches!(one.changes[..], [UnblockChange::Wait { .. }]);
    if by_hand.is_none()
        && !single.iter().any(is_change)
        && matches!(it.state, StartState::Waiting)
        && !it.reasons.iter().any(Reason::is_blind)
    {
        change(&mut line, "no single known change starts it now");
    }
    for one in single {
        change(&mut line, &words(one));
    }
    if let Some(now) = by_hand {
        let words = format!(
            "evict {}: starts now · stokehold plan admit {} --preempt",
            named_victims(now),
            it.job
        );
        change(&mut line, &words);
    }
    for (later, condition) in answer.later_conditions() {
        change(
            &mut line,
            &format!("{}{condition}", later_words(later, now)),
        );
    }
    for one in several {
        change(&mut line, &words(one));
    }
    for used in &answer.options {
        line("settings", &used.to_string());
    }
    text
}
