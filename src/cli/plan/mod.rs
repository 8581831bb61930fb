//! `plan`: computes and prints a plan; with `--apply`, carries it out once it is confirmed.

mod fleet;
mod log;
pub(super) mod show;

use std::io::{BufRead, IsTerminal, Write};

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use tokio::sync::watch;

use crate::runtime::acting::{Acting, Outcome, interruptible};
use exec::look::Unseen;
use exec::{End, Over, Progress, Stand};
use model::base::name::{is_hostile, printable};
use model::base::{Exit, Failure};
use model::plan::Plan;
use plan::Author;
use plan::grant::{Confirmed, Consent};
use settings::Settings;
use source::kubeconfig::Choice;

use super::patience::patiently;
use super::wire::Situation;
use super::{out, wire};
pub(super) use fleet::Seen;
use show::{document_text, printed};

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
    /// Take all work off nodes, which take no new work
    Drain {
        /// NODE, pool/NAME, rack/NAME, zone/NAME, or any level of the topology
        #[arg(required = true)]
        nodes: Vec<String>,
        /// Be over by then (30m, 2h, 2026-11-21T12:00:00Z); until then checkpoints and budgets are waited for
        #[arg(long, value_name = "TIME")]
        deadline: Option<String>,
    },
    /// Let nodes take no new work; who and why is written on them
    Cordon {
        /// NODE, pool/NAME, rack/NAME, zone/NAME, or any level of the topology
        #[arg(required = true)]
        nodes: Vec<String>,
    },
    /// Let nodes take new work again
    Uncordon {
        /// NODE, pool/NAME, rack/NAME, zone/NAME, or any level of the topology
        #[arg(required = true)]
        nodes: Vec<String>,
    },
    /// Take a job off its devices, so that another starts; it is queued again
    Preempt {
        /// NAMESPACE/NAME
        job: String,
    },
    /// Take a job off its devices and queue it again
    Requeue {
        /// NAMESPACE/NAME
        job: String,
    },
    /// Start a waiting job
    Admit {
        /// NAMESPACE/NAME
        job: String,
        /// Take others off their devices for it, if need be
        #[arg(long)]
        preempt: bool,
    },
    /// Move jobs so that whole nodes become free
    Rebalance {
        /// Only in this pool
        pool: Option<String>,
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
pub enum PlanFormat {
    /// For people
    Table,
    /// One document
    Json,
    /// The same as YAML
    Yaml,
}

/// Runs `plan`.
pub(super) fn run(
    at: &Situation,
    choice: Choice,
    plan: &PlanFlags,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    if (plan.yes || plan.reason.is_some()) && !plan.apply {
        let message = "--yes and --reason go with --apply";
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
    match (&plan.action, plan.log) {
        (None, true) => log::log(settings, plan, out, err),
        (Some(_), true) => {
            let message = "--log stands alone: it reads what was done";
            Err(Failure::new(Exit::Usage, message))
        }
        (None, false) => {
            let message = "what is to be planned? drain, cordon, uncordon, preempt, requeue, admit, reprioritise, hold, resume, rebalance, undo, continue; or --log";
            Err(Failure::new(Exit::Usage, message))
        }
        (Some(action), false) => {
            let seen = fleet::look(at, action)?;
            wire::block_on(async {
                let acting = Acting::open(settings, choice, true)?;
                act(settings, &acting, seen.as_ref(), action, plan, out, err).await
            })
        }
    }
}

async fn act(
    settings: &Settings,
    acting: &Acting,
    seen: Option<&Seen>,
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
        if let Some(doubt) = acting.doubt(run).await? {
            out::say(err, &doubt);
        }
        return carry_out(acting, None, run, flags, out, err).await;
    }
    let tell = |line: &str| out::say(&mut std::io::stderr(), line);
    let made = match patiently(tell, make(settings, acting, seen, flags, action)).await? {
        Ok(plan) => plan,
        Err(Unseen::Failed(failure)) => return Err(failure),
        Err(Unseen::Refused(refusal)) => return show::refused(&refusal, flags.output, out),
    };
    let mut plan = made;
    patiently(tell, async {
        acting.settle(&mut plan).await;
        acting.check(&mut plan).await;
    })
    .await?;
    if !flags.apply {
        out::write(out, &printed(&plan, Some(acting.context()), flags.output))?;
        return Ok(match plan.failed_check() {
            Some(_) => Exit::Refused,
            None => Exit::Done,
        });
    }
    if flags.output == PlanFormat::Table {
        out::write(out, &printed(&plan, Some(acting.context()), flags.output))?;
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

async fn make(
    settings: &Settings,
    acting: &Acting,
    seen: Option<&Seen>,
    flags: &PlanFlags,
    action: &Action,
) -> Result<Plan, Unseen> {
    let namespace = match settings.scope.namespaces.as_slice() {
        [one] => Some(one.as_str()),
        _ => None,
    };
    let mut plan = match action {
        Action::Hold { target } => acting.hold(namespace, target).await?,
        Action::Resume { target } => acting.resume(namespace, target).await?,
        Action::Reprioritise { job, priority } => {
            acting.reprioritise(namespace, job, priority).await?
        }
        Action::Undo { run } | Action::Continue { run } => {
            let refused = |sentence| Unseen::Failed(Failure::new(Exit::Refused, sentence));
            acting.undo(run, refused).await?
        }
        Action::Drain { .. }
        | Action::Cordon { .. }
        | Action::Uncordon { .. }
        | Action::Preempt { .. }
        | Action::Requeue { .. }
        | Action::Admit { .. }
        | Action::Rebalance { .. } => {
            let seen = seen.expect("the fleet was looked at for these");
            let own = namespace.unwrap_or_else(|| acting.namespace());
            let intent = fleet::intent(&seen.snapshot, own, action)?;
            let author = Author {
                by: acting.user().await,
                why: flags.reason.clone().unwrap_or_default(),
            };
            return Ok(seen.plan(&intent, &author)?);
        }
    };
    if let Some(seen) = seen {
        seen.foretell(&mut plan);
    }
    Ok(plan)
}

/// Asks for what must be typed.
fn ask(plan: &Plan, acting: &Acting, err: &mut dyn Write) -> Result<Confirmed, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        let message = "no terminal to ask on: give --yes to confirm";
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
    let outcome = outcome?;
    let undone = outcome.undone();
    let Outcome { run, end, left } = outcome;
    if flags.output != PlanFormat::Table {
        let mut document = json!({"plan": shown, "run": run, "end": end});
        if let Ok(left) = left
            && !left.is_empty()
        {
            document["left"] = left.into();
        }
        out::write(out, &document_text(&document, flags.output))?;
    }
    match end {
        End::Done => {
            if let Some(undone) = undone {
                return Err(Failure::new(Exit::Failed, format!("{undone}; run {run}")));
            }
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
