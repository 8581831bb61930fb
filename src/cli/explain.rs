//! `explain`: why a job waits, what would start it, when it starts by itself.

use std::fmt::Write as _;
use std::io::Write;

use clap::{Args, Subcommand};

use engine::explain::{Reason, StartState, Unblock, UnblockChange};
use engine::explanations::{ChangeWithStart, WorkloadExplanation};
use engine::forecast::{Basis, Start};
use engine::options;
use engine::snapshot::Snapshot;
use model::base::name::printable;
use model::base::{Exit, Failure, Moment};
use model::fleet::job::JobKey;
use model::plan::evicted_words;
use table::output::safe_json;
use table::text::{NO_ETA, eta, hour, with_hours};
use table::waiting::explanations::{JobExplanation, Now, named_victims};

use super::common::figures::TableOrJson;
use super::common::out;
use super::common::setup::Situation;
use super::plan::FleetRead;
use super::record::PastFlags;

/// Flags of `explain`. `explain JOB` and `explain job JOB` mean the same.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ExplainFlags {
    #[command(subcommand)]
    kind: Option<Explain>,
    #[command(flatten)]
    job: ExplainJob,
}

#[derive(Subcommand, Clone, PartialEq, Eq, Debug)]
pub enum Explain {
    /// A job that waits
    Job(ExplainJob),
}

/// The job to explain, and how to print the answer.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct ExplainJob {
    /// NAMESPACE/NAME, or NAME where only one job has this name
    #[arg(required = true)]
    pub name: Option<String>,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: TableOrJson,
    /// The moment of a record to look at instead
    #[command(flatten)]
    pub past: PastFlags,
}

impl ExplainFlags {
    /// The job, from either form of the command.
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
    situation: &Situation,
    explain: &ExplainFlags,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let job = explain.job();
    // clap requires the name, so it is never empty.
    let name = job.name.as_deref().unwrap_or_default();
    let seen = FleetRead::for_report(situation, err)?;
    let name = match (
        name.contains('/'),
        situation.settings.scope.namespaces.as_slice(),
    ) {
        (false, [namespace]) => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    };
    let JobExplanation { answer, now } = seen
        .explain(&name)
        .map_err(|message| Failure::new(Exit::Failed, message))?;
    for gap in &seen.gaps {
        out::print_message(err, gap);
    }
    let id = JobKey {
        key: answer.explanation.job.0.clone(),
        kind: answer.explanation.kind.clone(),
    };
    let known = seen.facts.fleet.job(&id);
    let not_visible = answer.explanation.reasons.iter().any(Reason::is_blind);
    let mut text = answer_text(&answer, now.as_ref(), &seen.snapshot, job.output);
    // The answer of the job's own system comes first, then what is missing for one of ours.
    if let (TableOrJson::Table, Some(known)) = (job.output, known) {
        let reason = Some(&*known.reason).filter(|reason| !reason.is_empty());
        if let (Some(_), Some(blind)) =
            (reason, table::waiting::no_help(&answer.explanation.reasons))
        {
            let own = answer.explanation.reasons.iter().find(|it| it.is_blind());
            let own = own.map_or_else(String::new, Reason::sentence);
            let says = table::waiting::says(&seen.facts, known);
            let both = format!("{}\n  {:<10} {blind}", printable(&says), "change");
            text = text.replacen(&own, &both, 1);
        }
        let mut line = |title: &str, words: Option<String>| {
            if let Some(words) = words {
                let _ = writeln!(text, "  {title:<10} {}", printable(&words));
            }
        };
        let now = seen.facts.now;
        let age = |at: Moment| now.since(at).to_string();
        line("waiting", table::rows::jobs::waited_words(known, age));
        let is_held = answer.explanation.state == StartState::Held;
        line("held", reason.filter(|_| is_held).map(str::to_owned));
        let govern = known.govern.as_ref();
        line("priority", govern.and_then(|it| it.priority_words()));
    }
    if let (TableOrJson::Table, Some(note)) = (job.output, table::rows::list_price::note(&text)) {
        let _ = writeln!(text, "  {note}");
    }
    out::write(out, &text)?;
    Ok(if not_visible {
        Exit::Refused
    } else {
        Exit::Done
    })
}

/// When a job starts, in words; times of day are in UTC.
pub(super) fn start_words(start: &Start, now: Moment) -> String {
    match start.p50 {
        Some(_) if start.basis == Basis::Now && !start.victims.is_empty() => {
            format!("now, preempting {}", evicted_words(&start.victims))
        }
        Some(_) if !start.victims.is_empty() => format!(
            "{}: it gets its quota, preempting {}, and then waits for nodes",
            eta(now, [start.p10, start.p50, start.p90]),
            evicted_words(&start.victims)
        ),
        Some(_) => eta(now, [start.p10, start.p50, start.p90]),
        None if start.basis == Basis::NotForecast => format!("{NO_ETA}: not forecast"),
        None if !start.victims.is_empty() => format!(
            "{NO_ETA}: it gets its quota, preempting {}, and the wait for nodes has no known end",
            evicted_words(&start.victims)
        ),
        None => format!("{NO_ETA}: the wait has no known end"),
    }
}

/// A change, and when the job starts with it: `raise research's quota by 64 h100: starts ~14:40 (13:55–15:30)`.
fn later_words(later: &ChangeWithStart, now: Moment) -> String {
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
    format: TableOrJson,
) -> String {
    answer_text(answer, None, snapshot, format)
}

/// Like [`printed`]. `preemption` are the jobs that `plan admit --preempt` would evict so that the job starts now.
fn answer_text(
    answer: &WorkloadExplanation,
    preemption: Option<&Now>,
    snapshot: &Snapshot,
    format: TableOrJson,
) -> String {
    if format == TableOrJson::Json {
        return safe_json(answer);
    }
    let (explanation, now) = (&answer.explanation, snapshot.at);
    let mut workloads = snapshot.workloads.iter();
    let own = workloads
        .find(|work| work.key.key == explanation.job.0 && work.key.kind == explanation.kind);
    let devices = own.map(|work| work.device_count());
    let mut text = format!(
        "{} {} · as of {} UTC\n",
        printable(&explanation.kind),
        printable(&explanation.job.to_string()),
        hour(now)
    );
    let mut line = |title: &str, words: &str| {
        let words = with_hours(words, now);
        let _ = writeln!(text, "  {title:<10} {}", printable(&words));
    };
    line(
        "state",
        match explanation.state {
            StartState::Waiting => "waiting",
            StartState::Ready if !explanation.victims.is_empty() => {
                "would start now by preempting others"
            }
            StartState::Ready => "would start now: nothing blocks it",
            StartState::Running => "running",
            StartState::Held => "on hold",
            StartState::Blocked => "blocked: no queue or scheduler can start it now",
            StartState::Ending => "terminating",
        },
    );
    if !explanation.victims.is_empty() {
        line("preempts", &evicted_words(&explanation.victims));
    }
    if let Some(queue) = &explanation.queue {
        let place = explanation.position.map_or_else(String::new, |place| {
            let ahead = explanation
                .ahead
                .map_or_else(String::new, |ahead| format!(", {ahead} ahead"));
            format!(", position {place}{ahead}")
        });
        line(
            "queue",
            &format!("{queue}, priority {}{place}", explanation.priority),
        );
    }
    if !explanation.ahead_first.is_empty() {
        let names: Vec<String> = explanation
            .ahead_first
            .iter()
            .map(ToString::to_string)
            .collect();
        line("ahead", &names.join(", "));
    }
    for reason in &explanation.reasons {
        line("reason", &reason.sentence());
    }
    // Kueue, Volcano and KAI keep priorities: a plan cannot change the priority of a job without a queue.
    let command = |unblock: &Unblock| match &unblock.changes[..] {
        [one] if explanation.queue.is_some() => one.command(&explanation.job),
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
    let is_forecast = !explanation.reasons.iter().any(Reason::is_not_forecast);
    if let Some(start) = start.filter(|_| explanation.state != StartState::Ready) {
        line("starts", &start_words(start, now));
    }
    // The first line is titled `change`, the others `or`.
    let mut title = "change";
    let mut change = |line: &mut dyn FnMut(&str, &str), words: &str| {
        line(std::mem::replace(&mut title, "or"), words);
    };
    let has_eta = start.is_some_and(|start| start.p50.is_some());
    let is_wait = |unblock: &&Unblock| matches!(unblock.changes[..], [UnblockChange::Wait { .. }]);
    // `wait` is left out when the start is printed above. Single changes come first: combined ones are harder to make.
    let others = explanation
        .alternatives
        .iter()
        .filter(|one| !(has_eta && is_wait(one)));
    let all: Vec<&Unblock> = explanation.unblock.iter().chain(others).collect();
    let (single, several): (Vec<&Unblock>, Vec<&Unblock>) =
        all.into_iter().partition(|one| one.changes.len() == 1);
    if preemption.is_none()
        && single.iter().all(is_wait)
        && matches!(explanation.state, StartState::Waiting)
        && is_forecast
        && !explanation.reasons.iter().any(Reason::is_blind)
    {
        change(&mut line, "no single known change starts it now");
    }
    for one in single {
        change(&mut line, &words(one));
    }
    if let Some(preemption) = preemption {
        let words = format!(
            "preempt {}: starts now · stokehold plan admit {} --preempt",
            named_victims(preemption),
            explanation.job
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
    for used in options::changed(&answer.options) {
        line("settings", &used.to_string());
    }
    text
}
