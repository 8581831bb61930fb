//! `plan`: computes and prints a plan; with `--apply`, carries the plan out after confirmation.

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

use crate::runtime::actions::action_service::ActionService;
use crate::runtime::actions::past_plans::OF_JOURNAL;
use crate::runtime::actions::run_outcome::RunOutcome;
use crate::runtime::actions::shown_plan;
use crate::runtime::host::Host;
use exec::record::Record;
use exec::target_reader::Unseen;
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

use super::common::out;
use super::common::patience::patiently;
use super::common::setup::{FactsSource, Situation};
use super::record::PastFlags;
pub(super) use fleet::FleetRead;
use show::{document_text, plan_text};

/// Flags of `plan`.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct PlanFlags {
    #[command(subcommand)]
    action: Option<PlanCommand>,
    /// List past runs from the journal
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
    /// Carry the plan out, after confirmation
    #[arg(long, global = true)]
    apply: bool,
    /// Compute the plan for the fleet as it was then, from a record: 03:12, yesterday 14:00, -2h, RFC 3339 (UTC); it cannot be carried out
    #[arg(long, global = true, value_name = "T", value_parser = When::parse, allow_hyphen_values = true)]
    at: Option<When>,
    /// The record to look at; without it, that of the context
    #[arg(long, global = true, value_name = "DIR")]
    record: Option<PathBuf>,
    /// With --apply: do not ask for confirmation
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
        /// ID of the run, from `plan --log`
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
    situation: &Situation,
    choice: ContextChoice,
    flags: &PlanFlags,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    if (flags.yes || flags.reason.is_some()) && !flags.apply {
        let message = "--yes and --reason need --apply";
        return Err(Failure::new(Exit::Usage, message));
    }
    if flags
        .reason
        .as_deref()
        .is_some_and(|reason| reason.contains(is_hostile))
    {
        let message = "--reason has control or invisible characters: remove them, since it is written to Events and to the journal";
        return Err(Failure::new(Exit::Usage, message));
    }
    let settings = &situation.settings;
    let reads_record = matches!(situation.target, FactsSource::Record(_));
    if reads_record && flags.log {
        let message = "--log reads the journal: leave out --at and --record";
        return Err(Failure::new(Exit::Usage, message));
    }
    if reads_record && flags.apply {
        let message = "nothing can be changed in a record: leave out --apply to see the plan, or --at and --record to change the cluster";
        return Err(Failure::new(Exit::Refused, message));
    }
    match (&flags.action, flags.log) {
        (None, true) => log::log(&situation.host, settings, flags, out, err),
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
        (Some(PlanCommand::Action(action)), false) if reads_record => {
            fleet::on_record(situation, action, flags.output, out, err)
        }
        (Some(PlanCommand::Continue { .. }), false) if reads_record => {
            Err(Failure::new(Exit::Refused, OF_JOURNAL))
        }
        (Some(action), false) => {
            let seen = fleet::read_for(situation, action, err)?;
            situation.host.block_on(async {
                // `true`: a credential plugin may use the terminal.
                let action_service = ActionService::open(&situation.host, settings, choice, true)?;
                let action_service =
                    action_service.with_fleet_reader(fleet::fleet_reader(situation));
                plan_or_apply(
                    situation,
                    &action_service,
                    seen.as_ref(),
                    action,
                    flags,
                    out,
                    err,
                )
                .await
            })
        }
    }
}

async fn plan_or_apply(
    situation: &Situation,
    action_service: &ActionService,
    seen: Option<&FleetRead>,
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
                wait_for_other_process(action_service.journal()?, run).await;
            }
            if let Some(identity_warning) = action_service.identity_warning(run).await? {
                out::print_message(err, &identity_warning);
            }
            return carry_out(action_service, RunStart::Continue(run), flags, out, err).await;
        }
    };
    let settings = &situation.settings;
    let shown_plan_path = shown_plan::file_path(settings);
    let shown_plan_path = shown_plan_path.as_deref();
    // The plan is computed again with the evictions of the plan that was shown last, so that it matches what the operator read.
    let shown = match flags.apply {
        true => {
            let (cluster, _) = action_service.cluster().await;
            shown_plan::load(shown_plan_path, &cluster, action_service.now())
        }
        false => None,
    };
    let plan_future = make_plan(
        settings,
        action_service,
        seen,
        flags,
        action,
        shown.as_ref(),
    );
    let made = match patiently(|line| out::print_message(err, line), plan_future).await? {
        Ok(plan) => plan,
        Err(Unseen::Failed(failure)) => return Err(failure),
        Err(Unseen::Refused(refusal)) => {
            return show::report_refusal(&refusal, action_service.now(), flags.output, out);
        }
    };
    let mut plan = made;
    let checking = async {
        action_service.settle(&mut plan).await;
        action_service.check(&mut plan).await;
    };
    patiently(|line| out::print_message(err, line), checking).await?;
    let known = shown.filter(|shown| shown_plan::is_same(&shown.intent, &plan.intent));
    let added_evictions =
        known.and_then(|known| Some((known.evicts_besides(&plan)?, known.computed_at)));
    if !flags.apply {
        out::write(
            out,
            &plan_text(&plan, Some(action_service.context()), flags.output),
        )?;
        shown_plan::keep(shown_plan_path, &action_service.cluster().await.0, &plan);
        return Ok(match plan.failed_check() {
            Some(_) => Exit::Refused,
            None => Exit::Done,
        });
    }
    if flags.output == PlanFormat::Table {
        out::write(
            out,
            &plan_text(&plan, Some(action_service.context()), flags.output),
        )?;
    }
    if let Some((added_evictions, shown_at)) = added_evictions {
        let shown_at = hour(shown_at);
        if flags.yes {
            shown_plan::keep(shown_plan_path, &action_service.cluster().await.0, &plan);
            let sentence = format!(
                "the plan has changed since it was shown at {shown_at}: it {added_evictions}"
            );
            let refusal = Refusal::new(RefusalCode::Changed, sentence)
                .instead("read it again, then repeat the command");
            return show::report_changed_plan(
                &refusal,
                &plan,
                action_service.now(),
                flags.output,
                out,
            );
        }
        out::print_message(
            err,
            &format!("changed since {shown_at}: it {added_evictions}"),
        );
    }
    // Without the right to write there is no prompt.
    if let Err(denied) = action_service.grant() {
        return Err(Failure::new(Exit::Refused, denied.to_string()));
    }
    let confirmed = if flags.yes {
        Confirmed::ByFlag
    } else {
        ask(&situation.host, &plan, action_service, err)?
    };
    shown_plan::forget(shown_plan_path);
    let start = RunStart::Plan(Box::new(plan), confirmed);
    carry_out(action_service, start, flags, out, err).await
}

/// Longest wait for the process that has carried a run out so far.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until no other process carries the run out, at most [`HANDOVER_TIMEOUT`].
async fn wait_for_other_process(journal: &Journal, run: &str) {
    let begun = Instant::now();
    while journal.is_running(run) && begun.elapsed() < HANDOVER_TIMEOUT {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn make_plan(
    settings: &Settings,
    action_service: &ActionService,
    seen: Option<&FleetRead>,
    flags: &PlanFlags,
    action: &ActionArguments,
    shown: Option<&Plan>,
) -> Result<Plan, Unseen> {
    let namespace = match settings.scope.namespaces.as_slice() {
        [one] => Some(one.as_str()),
        _ => None,
    };
    let default_namespace = namespace.unwrap_or_else(|| action_service.namespace());
    let named = |name: &str| {
        let seen = seen.filter(|_| namespace.is_none());
        let found = seen.and_then(|it| it.names(default_namespace).elsewhere(name));
        found.map_or_else(|| name.to_owned(), |job| job.to_string())
    };
    // These actions read one object, which the user may name with its kind (`KIND/NAME`); an `Intent` has no kind.
    let mut plan = match action {
        ActionArguments::Hold(arguments) => {
            let target = named(&arguments.target);
            action_service.hold(namespace, &target).await?
        }
        ActionArguments::Resume(arguments) => {
            let target = named(&arguments.target);
            action_service.resume(namespace, &target).await?
        }
        ActionArguments::Reprioritise(arguments) => {
            let job = named(&arguments.job);
            action_service
                .reprioritise(namespace, &job, arguments.priority())
                .await?
        }
        ActionArguments::Scale(scale) => {
            let usage = |message| Unseen::Failed(Failure::new(Exit::Usage, message));
            let (target, replicas) = scale.target_and_replicas().map_err(usage)?;
            action_service.scale(namespace, &target, replicas).await?
        }
        ActionArguments::Undo(arguments) => {
            let refused = |sentence| Unseen::Failed(Failure::new(Exit::Refused, sentence));
            let facts = seen.map(|seen| &seen.facts);
            let mut plan = action_service.undo(&arguments.run, facts, refused).await?;
            if let Some(seen) = seen {
                seen.warn(&mut plan);
            }
            return Ok(plan);
        }
        of_fleet => {
            let seen = seen.expect("the fleet was read for these");
            let intent = fleet::intent(&seen.names(default_namespace), of_fleet)?;
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
        seen.add_forecast(&mut plan);
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
    let wanted = if plan.needs_typed_name() {
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

/// How a run begins.
enum RunStart<'a> {
    /// A new run of a confirmed plan.
    Plan(Box<Plan>, Confirmed),
    /// The run with this ID is resumed.
    Continue(&'a str),
}

async fn carry_out(
    action_service: &ActionService,
    start: RunStart<'_>,
    flags: &PlanFlags,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    let (progress, mut progress_receiver) = watch::channel(None);
    let (stop, stopped) = watch::channel(false);
    let shown = match &start {
        RunStart::Plan(plan, _) => Some((**plan).clone()),
        RunStart::Continue(_) => None,
    };
    let work = async {
        match start {
            RunStart::Plan(plan, confirmed) => {
                let reason = flags.reason.clone().unwrap_or_default();
                let approved = action_service.approve(*plan, Confirmation { reason, confirmed })?;
                action_service.carry_out(&approved, progress, stopped).await
            }
            RunStart::Continue(run) => action_service.resume_run(run, progress, stopped).await,
        }
    };
    let print_progress = async {
        let mut printed_steps: Vec<(StepStatus, String)> = Vec::new();
        while progress_receiver.changed().await.is_ok() {
            let now: Option<Progress> = progress_receiver.borrow_and_update().clone();
            for (at, step) in now.iter().flat_map(|now| now.steps.iter().enumerate()) {
                if let Some(line) = progress_line(printed_steps.get(at), step) {
                    out::print_message(err, &format!("step {}: {line}", at + 1));
                }
            }
            printed_steps = now.map(|now| now.steps).unwrap_or_default();
        }
    };
    // A terminal that hangs up does not end a run.
    #[cfg(unix)]
    let _hang_up = signal(SignalKind::hangup());
    let (outcome, ()) = tokio::join!(interruptible(stop, work), print_progress);
    let outcome = outcome?;
    let unmet = outcome.unmet();
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
    let RunOutcome { run, end, .. } = outcome;
    match end {
        RunEnd::Done => {
            if let Some(unmet) = unmet {
                return Err(Failure::new(Exit::Failed, format!("{unmet}; run {run}")));
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

/// The line to print for a step; `None` when nothing changed. A wait is printed again when its text changes.
fn progress_line(
    before: Option<&(StepStatus, String)>,
    now: &(StepStatus, String),
) -> Option<String> {
    let same = before.is_some_and(|(status, words)| {
        *words == now.1 && std::mem::discriminant(status) == std::mem::discriminant(&now.0)
    });
    let words = printable(&now.1);
    match now.0 {
        _ if same => None,
        StepStatus::Todo => None,
        StepStatus::Waiting(_) | StepStatus::Settling(_) if words.is_empty() => None,
        StepStatus::Waiting(_) | StepStatus::Settling(_) => Some(format!("waits: {words}")),
        StepStatus::Finished(StepResult::Done) => Some("done".to_owned()),
        StepStatus::Finished(StepResult::Already) => Some(format!("nothing to do: {words}")),
        StepStatus::Finished(StepResult::Left) => Some(format!("skipped: {words}")),
        StepStatus::Finished(StepResult::Failed) => Some(format!("failed: {words}")),
    }
}

/// Runs `work`; the first interrupt stops it after its current step, the second one at once.
///
/// # Errors
/// `work` fails, or the user interrupts twice.
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
