//! `plan`: computes and prints a plan; with `--apply`, carries it out once it is confirmed.

mod fleet;
mod log;
pub(super) mod show;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
#[cfg(unix)]
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::runtime::action_service::ActionService;
use crate::runtime::aftermath::Outcome;
use crate::runtime::host::Host;
use crate::runtime::past_plans::OF_JOURNAL;
use crate::runtime::shown_plan;
use exec::look::Unseen;
use exec::record::Record;
use exec::{Journal, Progress, RunEnd, StepResult, StepStatus};
use model::base::name::{is_hostile, printable};
use model::base::{Exit, Failure, When};
use model::plan::{KnownVictims, Plan, Refusal, RefusalCode};
use plan::Author;
use plan::actions::{ACTIONS, ActionArguments};
use plan::grant::{Confirmation, Confirmed};
use settings::Settings;
use source::kubeconfig::ContextChoice;
use table::text::hour;

use super::out;
use super::patience::patiently;
use super::record::PastFlags;
use super::setup::{FactsSource, Situation};
pub(super) use fleet::Seen;
use show::{document_text, printed};

/// What to plan.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct PlanFlags {
    #[command(subcommand)]
    action: Option<PlanCommand>,
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
    /// Compute it on a moment of a record: 03:12, yesterday 14:00, -2h, RFC 3339 (UTC); nothing can be carried out there
    #[arg(long, global = true, value_name = "T", value_parser = When::parse, allow_hyphen_values = true)]
    at: Option<When>,
    /// The record to look at; without it, that of the context
    #[arg(long, global = true, value_name = "DIR")]
    record: Option<PathBuf>,
    /// With --apply: it is confirmed
    #[arg(long, global = true)]
    yes: bool,
    /// With --apply: why, for the journal and the cluster's events
    #[arg(long, global = true, value_name = "TEXT")]
    reason: Option<String>,
    /// With `continue`: the console that began the run ends now, and this process carries it on without a terminal
    #[arg(long, global = true, hide = true)]
    detached: bool,
}

impl PlanFlags {
    /// The moment of a record, if one was given.
    pub(super) fn past(&self) -> PastFlags {
        PastFlags {
            at: self.at,
            record: self.record.clone(),
        }
    }
}

#[derive(Subcommand, Clone, PartialEq, Eq, Debug)]
enum PlanCommand {
    #[command(flatten)]
    Action(ActionArguments),
    /// Continue a run that was stopped or killed
    Continue {
        /// The run, as `plan --log` names it
        run: String,
    },
}

/// A format on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PlanFormat {
    /// For people
    Table,
    /// One document
    Json,
    /// The same as YAML
    Yaml,
}

pub(super) fn run(
    at: &Situation,
    choice: ContextChoice,
    plan: &PlanFlags,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    if (plan.yes || plan.reason.is_some()) && !plan.apply {
        let message = "--yes and --reason need --apply";
        return Err(Failure::new(Exit::Usage, message));
    }
    if plan
        .reason
        .as_deref()
        .is_some_and(|reason| reason.contains(is_hostile))
    {
        let message = "--reason holds control or invisible characters; it is written into the cluster and the journal: leave them out";
        return Err(Failure::new(Exit::Usage, message));
    }
    let settings = &at.settings;
    let of_record = matches!(at.target, FactsSource::Record(_));
    if of_record && plan.log {
        let message = "--log reads the journal: leave out --at and --record";
        return Err(Failure::new(Exit::Usage, message));
    }
    if of_record && plan.apply {
        let message = "nothing can be changed in a record: leave out --apply to see the plan, or --at and --record to change the cluster";
        return Err(Failure::new(Exit::Refused, message));
    }
    match (&plan.action, plan.log) {
        (None, true) => log::log(&at.host, settings, plan, out, err),
        (Some(_), true) => {
            let message = "--log takes no action: it lists past runs";
            Err(Failure::new(Exit::Usage, message))
        }
        (None, false) => {
            let verbs: Vec<&str> = ACTIONS.iter().map(|spec| spec.verb).collect();
            let verbs = verbs.join(", ");
            let message = format!("name an action: {verbs}, continue; or --log");
            Err(Failure::new(Exit::Usage, message))
        }
        (Some(PlanCommand::Action(action)), false) if of_record => {
            fleet::on_record(at, action, plan.output, out, err)
        }
        (Some(PlanCommand::Continue { .. }), false) if of_record => {
            Err(Failure::new(Exit::Refused, OF_JOURNAL))
        }
        (Some(action), false) => {
            let seen = fleet::look(at, action, err)?;
            at.host.block_on(async {
                let action_service = ActionService::open(&at.host, settings, choice, true)?;
                let action_service = action_service.looking(fleet::looking(at));
                act(at, &action_service, seen.as_ref(), action, plan, out, err).await
            })
        }
    }
}

async fn act(
    at: &Situation,
    action_service: &ActionService,
    seen: Option<&Seen>,
    command: &PlanCommand,
    flags: &PlanFlags,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let action = match command {
        PlanCommand::Action(action) => action,
        PlanCommand::Continue { run } if !flags.apply => {
            return log::print_run(
                action_service.local_now(),
                action_service.journal()?,
                run,
                flags.output,
                out,
                err,
            );
        }
        PlanCommand::Continue { run } => {
            if flags.detached {
                wait_for_the_other(action_service.journal()?, run).await;
            }
            if let Some(doubt) = action_service.doubt(run).await? {
                out::print_message(err, &doubt);
            }
            return carry_out(action_service, None, run, flags, out, err).await;
        }
    };
    let settings = &at.settings;
    let place = shown_plan::place(settings);
    let place = place.as_deref();
    // The run matches the plan that the operator read: jobs that the last shown plan evicts are evicted by this one, too.
    let shown = match flags.apply {
        true => {
            let (here, _) = action_service.cluster().await;
            shown_plan::load(place, &here, action_service.now())
        }
        false => None,
    };
    let making = make_plan(
        settings,
        action_service,
        seen,
        flags,
        action,
        shown.as_ref(),
    );
    let made = match patiently(|line| out::print_message(err, line), making).await? {
        Ok(plan) => plan,
        Err(Unseen::Failed(failure)) => return Err(failure),
        Err(Unseen::Refused(refusal)) => {
            return show::refused(&refusal, action_service.now(), flags.output, out);
        }
    };
    let mut plan = made;
    let checking = async {
        action_service.settle(&mut plan).await;
        action_service.check(&mut plan).await;
    };
    patiently(|line| out::print_message(err, line), checking).await?;
    let known = shown.filter(|shown| shown_plan::is_same(&shown.intent, &plan.intent));
    let more = known.and_then(|known| Some((known.evicts_besides(&plan)?, known.computed_at)));
    if !flags.apply {
        out::write(
            out,
            &printed(&plan, Some(action_service.context()), flags.output),
        )?;
        shown_plan::keep(place, &action_service.cluster().await.0, &plan);
        return Ok(match plan.failed_check() {
            Some(_) => Exit::Refused,
            None => Exit::Done,
        });
    }
    if flags.output == PlanFormat::Table {
        out::write(
            out,
            &printed(&plan, Some(action_service.context()), flags.output),
        )?;
    }
    if let Some((more, at)) = more {
        let at = hour(at);
        if flags.yes {
            shown_plan::keep(place, &action_service.cluster().await.0, &plan);
            let sentence = format!("the plan has changed since it was shown at {at}: it {more}");
            let refusal = Refusal::new(RefusalCode::Changed, sentence)
                .instead("read it again, then repeat the command");
            return show::changed(&refusal, &plan, action_service.now(), flags.output, out);
        }
        out::print_message(err, &format!("changed since {at}: it {more}"));
    }
    // Without the right to write there is no prompt.
    if let Err(denied) = action_service.grant() {
        return Err(Failure::new(Exit::Refused, denied.to_string()));
    }
    let confirmed = if flags.yes {
        Confirmed::Outright
    } else {
        ask(&at.host, &plan, action_service, err)?
    };
    shown_plan::forget(place);
    carry_out(action_service, Some((plan, confirmed)), "", flags, out, err).await
}

/// Longest wait for the process that has carried a run out so far.
const TAKING_OVER: Duration = Duration::from_secs(60);

/// Waits until no other process carries the run out.
async fn wait_for_the_other(journal: &Journal, run: &str) {
    let begun = Instant::now();
    while journal.is_running(run) && begun.elapsed() < TAKING_OVER {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn make_plan(
    settings: &Settings,
    action_service: &ActionService,
    seen: Option<&Seen>,
    flags: &PlanFlags,
    action: &ActionArguments,
    shown: Option<&Plan>,
) -> Result<Plan, Unseen> {
    let namespace = match settings.scope.namespaces.as_slice() {
        [one] => Some(one.as_str()),
        _ => None,
    };
    let own = namespace.unwrap_or_else(|| action_service.namespace());
    let named = |name: &str| {
        let seen = seen.filter(|_| namespace.is_none());
        let found = seen.and_then(|it| it.names(own).elsewhere(name));
        found.map_or_else(|| name.to_owned(), |job| job.to_string())
    };
    // What one object is read for may be named by its kind, which an intent does not hold.
    let mut plan = match action {
        ActionArguments::Hold(typed) => {
            let target = named(&typed.target);
            action_service.hold(namespace, &target).await?
        }
        ActionArguments::Resume(typed) => {
            let target = named(&typed.target);
            action_service.resume(namespace, &target).await?
        }
        ActionArguments::Reprioritise(typed) => {
            let job = named(&typed.job);
            action_service
                .reprioritise(namespace, &job, &typed.priority)
                .await?
        }
        ActionArguments::Scale(scale) => {
            let usage = |message| Unseen::Failed(Failure::new(Exit::Usage, message));
            let (target, replicas) = scale.target_and_replicas().map_err(usage)?;
            action_service.scale(namespace, &target, replicas).await?
        }
        ActionArguments::Undo(typed) => {
            let refused = |sentence| Unseen::Failed(Failure::new(Exit::Refused, sentence));
            let facts = seen.map(|seen| &seen.facts);
            let mut plan = action_service.undo(&typed.run, facts, refused).await?;
            if let Some(seen) = seen {
                seen.warn(&mut plan);
            }
            return Ok(plan);
        }
        of_fleet => {
            let seen = seen.expect("the fleet was read for these");
            let intent = fleet::intent(&seen.names(own), of_fleet)?;
            let author = Author {
                by: action_service.user().await,
                why: flags.reason.clone().unwrap_or_default(),
            };
            let shown = shown.filter(|shown| shown_plan::is_same(&shown.intent, &intent));
            let known = shown.map_or_else(KnownVictims::default, KnownVictims::read);
            return Ok(seen.plan(&intent, &author, &known)?);
        }
    };
    if let Some(seen) = seen {
        seen.foretell(&mut plan);
    }
    Ok(plan)
}

/// Prompts for the confirmation.
fn ask(
    host: &Host,
    plan: &Plan,
    action_service: &ActionService,
    err: &mut dyn Write,
) -> Result<Confirmed, Failure> {
    if !host.terminal.input {
        let message = "no terminal for the confirmation: give --yes";
        return Err(Failure::new(Exit::Usage, message));
    }
    let wanted = if plan.is_grave() {
        plan.typed(action_service.context())
    } else {
        "yes".to_owned()
    };
    if let Some(evicted) = plan.evicts_words() {
        out::print_message(err, &format!("it evicts {}", printable(&evicted)));
    }
    let _ = write!(err, "type {} to confirm: ", printable(&wanted));
    let _ = err.flush();
    let mut typed = String::new();
    let read = host.input.lock().read_line(&mut typed);
    if read.is_err() || typed.trim() != wanted {
        return Err(Failure::new(
            Exit::Refused,
            "not confirmed; nothing was changed",
        ));
    }
    Ok(Confirmed::Typed(plan.typed(action_service.context())))
}

async fn carry_out(
    action_service: &ActionService,
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
                let approved = action_service.approve(plan, Confirmation { reason, confirmed })?;
                action_service.carry_out(&approved, progress, stopped).await
            }
            None => action_service.take_up(run, progress, stopped).await,
        }
    };
    let telling = async {
        let mut told: Vec<(StepStatus, String)> = Vec::new();
        while seen.changed().await.is_ok() {
            let now: Option<Progress> = seen.borrow_and_update().clone();
            for (at, step) in now.iter().flat_map(|now| now.steps.iter().enumerate()) {
                if let Some(line) = news(told.get(at), step) {
                    out::print_message(err, &format!("step {}: {line}", at + 1));
                }
            }
            told = now.map(|now| now.steps).unwrap_or_default();
        }
    };
    // A terminal that hangs up does not end a run.
    #[cfg(unix)]
    let _hang_up = signal(SignalKind::hangup());
    let (outcome, ()) = tokio::join!(interruptible(stop, work), telling);
    let outcome = outcome?;
    let undone = outcome.undone();
    if flags.output != PlanFormat::Table {
        let mut document = json!({"plan": shown, "run": outcome.run, "end": outcome.end});
        if !outcome.left().is_empty() {
            document["left"] = outcome.left().into();
        }
        if let Some(Record::NotStarted { job, why }) = &outcome.aftermath {
            document["not_started"] = json!({"job": job, "why": why});
        }
        out::write(out, &document_text(&document, flags.output))?;
    }
    let Outcome { run, end, .. } = outcome;
    match end {
        RunEnd::Done => {
            if let Some(undone) = undone {
                return Err(Failure::new(Exit::Failed, format!("{undone}; run {run}")));
            }
            out::print_message(err, &format!("done; run {run}"));
            Ok(Exit::Done)
        }
        RunEnd::Stopped => {
            let words = format!(
                "stopped after a step; continue with `plan continue {run} --apply`, undo with `plan undo {run} --apply`"
            );
            Err(Failure::new(Exit::Interrupted, words))
        }
        RunEnd::Failed { step, words } => {
            let words = format!(
                "step {step} failed: {}; nothing was sent after it. To undo the steps before it: `plan undo {run} --apply`",
                printable(&words)
            );
            Err(Failure::new(Exit::Failed, words))
        }
    }
}

/// The news of a step; a wait is printed again when its words change.
fn news(before: Option<&(StepStatus, String)>, now: &(StepStatus, String)) -> Option<String> {
    let same = before.is_some_and(|(stand, words)| {
        *words == now.1 && std::mem::discriminant(stand) == std::mem::discriminant(&now.0)
    });
    let words = printable(&now.1);
    match now.0 {
        _ if same => None,
        StepStatus::Todo => None,
        StepStatus::Waiting(_) | StepStatus::Settling(_) if words.is_empty() => None,
        StepStatus::Waiting(_) | StepStatus::Settling(_) => Some(format!("waits: {words}")),
        StepStatus::Finished(StepResult::Done) => Some("done".to_owned()),
        StepStatus::Finished(StepResult::Already) => Some(format!("nothing to do: {words}")),
        StepStatus::Finished(StepResult::Left) => Some(format!("left undone: {words}")),
        StepStatus::Finished(StepResult::Failed) => Some(format!("failed: {words}")),
    }
}

/// Runs `work`; the first interrupt stops it after its current step, the second one at once.
///
/// # Errors
/// Those of `work`; interrupted twice.
async fn interruptible<T>(
    stop: watch::Sender<bool>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        end = &mut work => return end,
        heard = tokio::signal::ctrl_c() => if heard.is_err() {
            return work.await;
        }
    }
    stop.send_replace(true);
    tokio::select! {
        end = &mut work => end,
        _ = tokio::signal::ctrl_c() => Err(Failure::quiet(Exit::Interrupted)),
    }
}
