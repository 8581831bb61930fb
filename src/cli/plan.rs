//! `plan`: computes and prints a plan; with `--apply`, carries it out once it is confirmed.

use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal, Write};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use tokio::sync::watch;

use crate::action::{Target, hold, reprioritise, resume};
use crate::base::name::printable;
use crate::base::{Exit, Failure};
use crate::engine::plan::{Budgets, Effect, Outcome as Checked, Plan, Refusal};
use crate::exec::look::Unseen;
use crate::exec::{End, Over, Progress, Run, Stand, runs};
use crate::grant::{Confirmed, Consent};
use crate::report::value::Value;
use crate::runtime::acting::{Acting, Outcome, interruptible, journal_of};
use crate::runtime::clock;
use crate::settings::Settings;
use crate::source::kubeconfig::Choice;

use super::{out, wire};

/// What to plan.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct PlanFlags {
    #[command(subcommand)]
    action: Option<Action>,
    /// Read the journal of what was done
    #[arg(long)]
    log: bool,
    /// How to print it
    #[arg(
        short,
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "table"
    )]
    output: PlanFormat,
    /// Carry it out after confirmation
    #[arg(long, global = true)]
    apply: bool,
    /// With --apply: it is confirmed
    #[arg(long, global = true)]
    yes: bool,
    /// With --apply: why, for the journal and the cluster's events
    #[arg(long, global = true, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Subcommand, Clone, PartialEq, Eq, Debug)]
enum Action {
    /// Take a job off its devices and keep it waiting; or let a queue admit nothing more
    Hold {
        /// NAME, NAMESPACE/NAME, KIND/NAME or KIND/NAMESPACE/NAME
        target: String,
    },
    /// Let a held job or queue go on
    Resume {
        /// NAME, NAMESPACE/NAME, KIND/NAME or KIND/NAMESPACE/NAME
        target: String,
    },
    /// Give a job another priority
    #[command(alias = "reprioritize")]
    Reprioritise {
        /// NAME, NAMESPACE/NAME, KIND/NAME or KIND/NAMESPACE/NAME
        job: String,
        /// A number, or the name of a priority class
        #[arg(allow_negative_numbers = true)]
        priority: String,
    },
    /// Take back what a run did
    Undo {
        /// The run, as `plan --log` names it
        run: String,
    },
    /// Go on with a run that was stopped or whose process was ended
    Continue {
        /// The run, as `plan --log` names it
        run: String,
    },
}

/// A format on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum PlanFormat {
    /// For people
    Table,
    /// One document
    Json,
    /// The same as YAML
    Yaml,
}

/// Runs `plan`.
pub(super) fn run(
    settings: &Settings,
    choice: Choice,
    plan: &PlanFlags,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    if (plan.yes || plan.reason.is_some()) && !plan.apply {
        let message = "--yes and --reason go with --apply";
        return Err(Failure::new(Exit::Usage, message));
    }
    match (&plan.action, plan.log) {
        (None, true) => log(settings, plan, out, err),
        (Some(_), true) => {
            let message = "--log stands alone: it reads what was done";
            Err(Failure::new(Exit::Usage, message))
        }
        (None, false) => {
            let message =
                "what is to be planned? hold, resume, reprioritise, undo, continue; or --log";
            Err(Failure::new(Exit::Usage, message))
        }
        (Some(action), false) => wire::block_on(async {
            let acting = Acting::open(settings, choice, true)?;
            act(settings, &acting, action, plan, out, err).await
        }),
    }
}

async fn act(
    settings: &Settings,
    acting: &Acting,
    action: &Action,
    flags: &PlanFlags,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    if let Action::Continue { run } = action {
        if !flags.apply {
            let message = "to go on with a run is to act: give --apply";
            return Err(Failure::new(Exit::Usage, message));
        }
        return carry_out(acting, None, run, flags, out, err).await;
    }
    let made = match make(settings, acting, action).await {
        Ok(plan) => plan,
        Err(Unseen::Failed(failure)) => return Err(failure),
        Err(Unseen::Refused(refusal)) => return refused(&refusal, flags, out),
    };
    let mut plan = made;
    acting.check(&mut plan).await;
    if !flags.apply {
        out::write(out, &printed(&plan, acting, flags.output))?;
        return Ok(match plan.failed_check() {
            Some(_) => Exit::Refused,
            None => Exit::Done,
        });
    }
    if flags.output == PlanFormat::Table {
        out::write(out, &printed(&plan, acting, flags.output))?;
    }
    // Whoever may not write is told before being asked.
    if let Err(denied) = acting.grant() {
        return Err(Failure::new(Exit::Refused, denied.to_string()));
    }
    let confirmed = if flags.yes {
        Confirmed::Outright
    } else {
        ask(&plan, acting, err)?
    };
    carry_out(acting, Some((plan, confirmed)), "", flags, out, err).await
}

async fn make(settings: &Settings, acting: &Acting, action: &Action) -> Result<Plan, Unseen> {
    let namespace = match settings.scope.namespaces.as_slice() {
        [one] => Some(one.as_str()),
        _ => None,
    };
    let plan = match action {
        Action::Hold { target } => {
            let found = acting.target(namespace, target).await?;
            hold::plan(&found, target, acting.now())
        }
        Action::Resume { target } => {
            let found = acting.target(namespace, target).await?;
            resume::plan(&found, target, acting.now())
        }
        Action::Reprioritise { job, priority } => match acting.target(namespace, job).await? {
            Target::Job(subject) => reprioritise::plan(&subject, priority, acting.now()),
            Target::Queue(queue) => {
                let sentence = format!("{} is a queue; a priority is a job's", queue.object);
                Err(Refusal::new(
                    crate::engine::plan::RefusalCode::Unsupported,
                    sentence,
                ))
            }
        },
        Action::Undo { run } | Action::Continue { run } => {
            let journal = journal_of(settings).map_err(Unseen::Failed)?;
            let past = crate::exec::run::find(&journal, run)
                .map_err(|broken| Unseen::Failed(broken.into()))?;
            if past.cluster.context != acting.context() {
                let sentence = format!(
                    "{run} was carried out on {}, and this is {}",
                    past.cluster.context,
                    acting.context()
                );
                return Err(Unseen::Failed(Failure::new(Exit::Refused, sentence)));
            }
            past.undo(acting.now())
        }
    };
    Ok(plan?)
}

fn refused(refusal: &Refusal, flags: &PlanFlags, out: &mut dyn Write) -> Result<Exit, Failure> {
    if flags.output != PlanFormat::Table {
        let document = json!({ "refusal": refusal });
        out::write(out, &document_text(&document, flags.output))?;
    }
    Err(Failure::new(
        Exit::Refused,
        printable(&refusal.to_string()).into_owned(),
    ))
}

/// Asks for what must be typed.
fn ask(plan: &Plan, acting: &Acting, err: &mut dyn Write) -> Result<Confirmed, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        let message = "nobody can be asked here: give --yes to confirm";
        return Err(Failure::new(Exit::Usage, message));
    }
    let wanted = if plan.is_grave() {
        plan.typed(acting.context())
    } else {
        "yes".to_owned()
    };
    let _ = write!(err, "type {} to confirm: ", printable(&wanted));
    let _ = err.flush();
    let mut typed = String::new();
    let read = input.lock().read_line(&mut typed);
    if read.is_err() || typed.trim() != wanted {
        return Err(Failure::new(
            Exit::Refused,
            "not confirmed; nothing was changed",
        ));
    }
    Ok(Confirmed::Typed(plan.typed(acting.context())))
}

async fn carry_out(
    acting: &Acting,
    plan: Option<(Plan, Confirmed)>,
    run: &str,
    flags: &PlanFlags,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let (progress, mut seen) = watch::channel(None);
    let (stop, stopped) = watch::channel(false);
    let shown = plan.as_ref().map(|(plan, _)| plan.clone());
    let work = async {
        match plan {
            Some((plan, confirmed)) => {
                let reason = flags.reason.clone().unwrap_or_default();
                let approved = acting.approve(plan, Consent { reason, confirmed })?;
                acting.carry_out(&approved, progress, stopped).await
            }
            None => acting.take_up(run, progress, stopped).await,
        }
    };
    let telling = async {
        let mut told: Vec<(Stand, String)> = Vec::new();
        while seen.changed().await.is_ok() {
            let now: Option<Progress> = seen.borrow_and_update().clone();
            for (at, step) in now.iter().flat_map(|now| now.steps.iter().enumerate()) {
                if let Some(line) = news(told.get(at), step) {
                    out::say(err, &format!("step {}: {line}", at + 1));
                }
            }
            told = now.map(|now| now.steps).unwrap_or_default();
        }
    };
    let (outcome, ()) = tokio::join!(interruptible(stop, work), telling);
    let Outcome { run, end } = outcome?;
    if flags.output != PlanFormat::Table {
        let document = json!({"plan": shown, "run": run, "end": end});
        out::write(out, &document_text(&document, flags.output))?;
    }
    match end {
        End::Done => {
            out::say(err, &format!("done; run {run}"));
            Ok(Exit::Done)
        }
        End::Stopped => {
            let words = format!(
                "stopped after a step; go on with `plan continue {run} --apply`, take back with `plan undo {run} --apply`"
            );
            Err(Failure::new(Exit::Interrupted, words))
        }
        End::Failed { step, words } => {
            let words = format!(
                "step {step} failed: {}; nothing was sent after it. What was done before it can be taken back: `plan undo {run} --apply`",
                printable(&words)
            );
            Err(Failure::new(Exit::Failed, words))
        }
    }
}

/// What is new about a step; waits are told when their words change.
fn news(before: Option<&(Stand, String)>, now: &(Stand, String)) -> Option<String> {
    let same = before.is_some_and(|(stand, words)| {
        *words == now.1 && std::mem::discriminant(stand) == std::mem::discriminant(&now.0)
    });
    let words = printable(&now.1);
    match now.0 {
        _ if same => None,
        Stand::Todo => None,
        Stand::Waiting(_) | Stand::Settling(_) if words.is_empty() => None,
        Stand::Waiting(_) | Stand::Settling(_) => Some(format!("waits: {words}")),
        Stand::Over(Over::Done) => Some("done".to_owned()),
        Stand::Over(Over::Already) => Some(format!("nothing to do: {words}")),
        Stand::Over(Over::Left) => Some(format!("left undone: {words}")),
        Stand::Over(Over::Failed) => Some(format!("failed: {words}")),
    }
}

fn document_text(document: &serde_json::Value, format: PlanFormat) -> String {
    if format == PlanFormat::Yaml {
        let value = Value::of(&document.to_string()).printable();
        return serde_saphyr::to_string(&value).expect("documents have text keys");
    }
    let mut text =
        serde_json::to_string_pretty(document).expect("a value of JSON can be written as JSON");
    text.push('\n');
    text
}

fn printed(plan: &Plan, acting: &Acting, format: PlanFormat) -> String {
    if format != PlanFormat::Table {
        let document = serde_json::to_value(plan).expect("a plan is a document");
        return document_text(&document, format);
    }
    let mut text = format!(
        "PLAN  {}  on {}\n",
        printable(&plan.title),
        printable(acting.context())
    );
    for (at, step) in plan.steps.iter().enumerate() {
        let _ = write!(text, "  {} {}", at + 1, printable(&step.to_string()));
        if let Some(devices) = step.job.as_ref().and_then(|job| job.devices) {
            let _ = write!(text, "  {devices} devices");
        }
        let effects = &step.side_effects;
        if let Some(gang) = effects.gang_broken {
            let _ = write!(text, "  gang of {gang} stops");
        }
        match effects.loss.as_ref().map(|loss| loss.device_seconds) {
            Some(Some(seconds)) => {
                let _ = write!(text, "  loses {:.1} device-hours", seconds as f64 / 3600.0);
            }
            Some(None) => text.push_str("  loses an unknown amount of work"),
            None => {}
        }
        if effects.budgets == Budgets::Ignored {
            text.push_str("  disruption budgets are not asked");
        }
        text.push('\n');
    }
    let mut line = |title: &str, words: &str| {
        if !words.is_empty() {
            let _ = writeln!(text, "{title:<9} {}", printable(words));
        }
    };
    match &plan.effect {
        Effect::Unknown { why } => line("effect", &format!("unknown: {why}")),
        Effect::Forecast(forecast) => line(
            "effect",
            &format!(
                "{} jobs start at another time, {} leave their devices",
                forecast.starts.len(),
                forecast.displaced.len()
            ),
        ),
    }
    for reason in &plan.reasons {
        line("because", reason);
    }
    for warning in &plan.warnings {
        line("warning", warning);
    }
    for check in &plan.checks {
        let outcome = match check.outcome {
            Checked::Ok => "ok",
            Checked::Failed => "FAILED",
            Checked::NotCheckableYet => "not checkable yet",
            Checked::NotChecked => "not checked",
        };
        let words = if check.sentence.is_empty() {
            String::new()
        } else {
            format!(": {}", check.sentence)
        };
        line("check", &format!("{} {outcome}{words}", check.name));
    }
    for alternative in &plan.alternatives {
        let command = alternative.command.as_ref();
        let command = command.map_or_else(String::new, |command| format!(": stokehold {command}"));
        line("instead", &format!("{}{command}", alternative.sentence));
    }
    for note in &plan.undo.notes {
        line("undo", note);
    }
    text
}

fn log(
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
        out::say(
            err,
            &format!(
                "{} lines of the journal cannot be read: torn by a crash, or of a later version",
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
        out::say(
            err,
            &format!(
                "nothing has been done yet; the journal is {}",
                journal.path().display()
            ),
        );
        return Ok(Exit::Done);
    }
    let text: String = all
        .iter()
        .map(|run| told(run, journal.is_running(&run.name)))
        .collect();
    out::write(out, &text)?;
    Ok(Exit::Done)
}

fn told(run: &Run, running: bool) -> String {
    let end = match &run.end {
        Some(End::Done) => "done".to_owned(),
        Some(End::Stopped) => "stopped".to_owned(),
        Some(End::Failed { step, .. }) => format!("failed at step {step}"),
        None if running => "runs".to_owned(),
        None => "broken off".to_owned(),
    };
    let ago = clock::now().since(run.begun);
    let mut text = format!(
        "{}  {}  {ago} ago  {}  on {}  by {}  {end}",
        run.name,
        run.begun.rfc3339(),
        printable(&run.plan.title),
        printable(&run.cluster.context),
        printable(run.who.name()),
    );
    if !run.reason.is_empty() {
        let _ = write!(text, "  ({})", printable(&run.reason));
    }
    text.push('\n');
    for (at, (trace, step)) in run.steps.iter().zip(&run.plan.steps).enumerate() {
        let state = match trace.over {
            Some(Over::Done) => "done",
            Some(Over::Already) => "was so already",
            Some(Over::Left) => "left undone",
            Some(Over::Failed) => "failed",
            None if trace.is_unresolved() => "sent, not known whether carried out",
            None if trace.has_written() => "carried out",
            None => "not done",
        };
        let _ = write!(
            text,
            "  {} {}: {state}",
            at + 1,
            printable(&step.to_string())
        );
        if !trace.words.is_empty() && trace.over != Some(Over::Done) {
            let _ = write!(text, ": {}", printable(&trace.words));
        }
        text.push('\n');
    }
    text
}
