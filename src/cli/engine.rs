//! `engine`: asks the scheduling engine about a fleet document (`get fleet -o json`). It needs no cluster.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::Path;

use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use serde_json::json;

use engine::compiled::{CompiledFleet, WorkloadId};
use engine::cycle;
use engine::forecast::Start;
use engine::options::{self, Used};
use engine::snapshot::Snapshot;
use engine::state::State;
use engine::{document, explanations};
use model::base::name::printable;
use model::base::{Exit, Failure, Moment};
use model::plan::JobName;
use plan::actions::{self, ActionArguments, NameResolver, ParseError};
use plan::{self, Author};
use source::local;
use table::output::safe_json;
use table::text::hour;

use crate::runtime::host::Host;

use super::common::figures::TableOrJson;
use super::plan::PlanFormat;
use super::plan::show::{plan_text, report_refusal};
use super::{common::out, explain, route, what_if};

/// What to ask of the engine.
#[derive(Subcommand, Clone, Debug)]
pub enum Engine {
    /// Ask the engine about a fleet in a document: a plan, a reason, a forecast, a what-if; needs no cluster
    Plan(EnginePlanFlags),
}

/// Flags of `engine plan`.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct EnginePlanFlags {
    /// The document, as `get fleet -o json` writes it; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub fleet: String,
    /// What is asked, in the words of `stokehold plan`: `drain pool/h100`, `admit NS/NAME --preempt`, `explain NS/NAME`,
    /// `forecast`, `what-if nodes h100 +4`, `cycle`
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub intent: String,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: TableOrJson,
}

/// What `--intent` holds: an action of `stokehold plan`, or a question to the engine.
#[derive(Parser)]
#[command(
    no_binary_name = true,
    disable_help_flag = true,
    disable_help_subcommand = true,
    subcommand_value_name = "INTENT"
)]
struct IntentLine {
    #[command(subcommand)]
    question: EngineQuestion,
}

#[derive(Subcommand)]
enum EngineQuestion {
    #[command(flatten)]
    Plan(ActionArguments),
    /// Why a job waits; without NAME, for every waiting job
    Explain { name: Option<String> },
    /// When a job starts; without NAME, for every waiting job
    Forecast { name: Option<String> },
    /// Which flavor a job should request
    Route { name: String },
    /// The effect of changes on the fleet
    WhatIf {
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        change: Vec<String>,
    },
    /// Which jobs start now, and which are preempted for them
    Cycle,
}

/// Parses `--intent`. The word `plan` may come first, and the word `job` may come before the name of a job.
///
/// # Errors
/// The text does not follow the grammar.
fn question(text: &str) -> Result<EngineQuestion, String> {
    let mut words = actions::split(text)?;
    if words.first().is_some_and(|word| word == "plan") {
        words.remove(0);
    }
    let takes_job_name = |verb: &str| matches!(verb, "explain" | "forecast" | "route");
    if let [verb, kind, _] = words.as_slice()
        && takes_job_name(verb)
        && kind == "job"
    {
        words.remove(1);
    }
    if words.is_empty() {
        return Err(String::from(
            "an empty intent; write for example `drain NODE`, or `explain`",
        ));
    }
    let line = IntentLine::try_parse_from(words).map_err(|error| actions::usage(&error))?;
    Ok(line.question)
}

pub(super) fn run(host: &Host, engine: &Engine, out: &mut dyn Write) -> Result<Exit, Failure> {
    let Engine::Plan(flags) = engine;
    let text = if flags.fleet == "-" {
        let mut text = String::new();
        (&mut *host.input.lock())
            .take(local::LARGEST)
            .read_to_string(&mut text)
            .map_err(|error| Failure::new(Exit::Failed, format!("standard input: {error}")))?;
        text
    } else {
        local::read_text(Path::new(&flags.fleet))
            .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", flags.fleet)))?
    };
    let snapshot = document::read(&text, &flags.fleet)
        .map_err(|fault| Failure::new(Exit::Usage, fault.to_string()))?;
    let format = match flags.output {
        TableOrJson::Table => PlanFormat::Table,
        TableOrJson::Json => PlanFormat::Json,
    };
    let usage_error = |message: String| Failure::new(Exit::Usage, message);
    let question = question(&flags.intent).map_err(usage_error)?;
    let failed = |message: String| Failure::new(Exit::Failed, message);
    let text = match question {
        EngineQuestion::Plan(action) => {
            let names = NameResolver {
                snapshot: &snapshot,
                namespace: None,
            };
            let intent = match action.intent(&names) {
                Ok(intent) => intent,
                Err(ParseError::Refused(refusal)) => {
                    return report_refusal(&refusal, snapshot.at, format, out);
                }
                Err(ParseError::Usage(message)) => return Err(usage_error(message)),
            };
            let author = Author {
                by: "stokehold".to_owned(),
                why: String::new(),
            };
            match plan::plan(&snapshot, &intent, &author) {
                Ok(plan) => plan_text(&plan, None, format),
                Err(refusal) => return report_refusal(&refusal, snapshot.at, format, out),
            }
        }
        EngineQuestion::Explain { name: Some(name) } => {
            let answer = explanations::explain(&snapshot, &name).map_err(failed)?;
            explain::printed(&answer, &snapshot, flags.output)
        }
        EngineQuestion::Explain { name: None } => {
            let all: Vec<_> = explanations::explain_all(&snapshot).into_values().collect();
            match flags.output {
                TableOrJson::Json => safe_json(&all),
                TableOrJson::Table => all
                    .iter()
                    .map(|answer| explain::printed(answer, &snapshot, flags.output))
                    .collect(),
            }
        }
        EngineQuestion::Forecast { name } => {
            let mut all: Vec<Start> = explanations::forecast(&snapshot).into_values().collect();
            if let Some(name) = name {
                explanations::find(&snapshot, &name).map_err(failed)?;
                all.retain(|start| start.job.to_string() == name);
            }
            forecast(
                &all,
                snapshot.at,
                &options::used(&snapshot, None),
                flags.output,
            )
        }
        EngineQuestion::Route { name } => {
            let routing = explanations::route(&snapshot, &name).map_err(failed)?;
            route::printed(&routing, snapshot.at, flags.output)
        }
        EngineQuestion::WhatIf { change } => {
            let change = change.join(" ");
            let changes: Vec<&str> = engine::what_if::split(&change).collect();
            let outcome = explanations::what_if(&snapshot, &changes).map_err(usage_error)?;
            what_if::printed(&outcome, snapshot.at, flags.output)
        }
        EngineQuestion::Cycle => cycle_text(snapshot, flags.output),
    };
    out::write(out, &text)?;
    Ok(Exit::Done)
}

/// The forecast start of a job, with the scheduler options that it was computed with.
#[derive(Serialize)]
struct Forecast<'a> {
    #[serde(flatten)]
    start: &'a Start,
    options: &'a [Used],
}

fn forecast(all: &[Start], now: Moment, options: &[Used], format: TableOrJson) -> String {
    if format == TableOrJson::Json {
        let all = all.iter().map(|start| Forecast { start, options });
        return safe_json(&all.collect::<Vec<_>>());
    }
    let mut text = format!("as of {} UTC\n", hour(now));
    for start in all {
        let name = start.job.to_string();
        let _ = writeln!(
            text,
            "{}  {}",
            printable(&name),
            explain::start_words(start, now)
        );
    }
    for used in options::changed(options) {
        let _ = writeln!(text, "option  {}", printable(&used.to_string()));
    }
    text
}

/// The jobs that start in one cycle, their nodes, and the jobs evicted for them.
fn cycle_text(snapshot: Snapshot, format: TableOrJson) -> String {
    let compiled = CompiledFleet::new(snapshot);
    let mut state = State::new(&compiled);
    let cycle = cycle::cycle(&mut state);
    let name = |work: WorkloadId| JobName(compiled.workload(work).key.key.clone());
    let admitted = cycle.admitted.iter().map(|admission| {
        let placements = admission
            .allocation
            .sets
            .iter()
            .flat_map(|set| &set.placements);
        let nodes: Vec<&str> = placements
            .map(|placement| &*compiled.snapshot.nodes[state.node_free(placement.node).origin].name)
            .collect();
        json!({ "job": name(admission.work), "nodes": nodes, "passed": admission.overtook })
    });
    let preempted = cycle.preempted.iter().flat_map(|preemption| {
        preemption.victims.list.iter().map(|victim| {
            json!({
                "job": name(victim.work), "by": name(preemption.by), "reason": victim.reason.name(),
                "lost_device_seconds": victim.lost_ms / 1_000,
            })
        })
    });
    // Evicted because their queue is being drained (Kueue `HoldAndDrain`).
    let drained = cycle.drained.iter().map(
        |victim| json!({ "job": name(victim.work), "lost_device_seconds": victim.lost_ms / 1_000 }),
    );
    let reserved = cycle
        .reservations
        .iter()
        .map(|kept| json!({ "job": name(kept.work), "at": kept.at.rfc3339() }));
    let has_quota = |work: &WorkloadId| cycle.quota_reserved.contains(work);
    let waiting = cycle.waiting.keys().copied();
    let waiting = waiting.filter(|work| !has_quota(work));
    let document = json!({
        "admitted": admitted.collect::<Vec<_>>(),
        "preempted": preempted.collect::<Vec<_>>(),
        "drained": drained.collect::<Vec<_>>(),
        "reservations": reserved.collect::<Vec<_>>(),
        "quota_reserved": cycle.quota_reserved.iter().map(|work| name(*work)).collect::<Vec<_>>(),
        "waiting": waiting.clone().map(name).collect::<Vec<_>>(),
    });
    if format == TableOrJson::Json {
        return safe_json(&document);
    }
    let mut text = String::new();
    for one in &cycle.admitted {
        let _ = writeln!(text, "starts  {}", printable(&name(one.work).to_string()));
    }
    for preemption in &cycle.preempted {
        for victim in &preemption.victims.list {
            let (gone, by) = (
                name(victim.work).to_string(),
                name(preemption.by).to_string(),
            );
            let _ = writeln!(text, "evicted {} for {}", printable(&gone), printable(&by));
        }
    }
    for work in &cycle.quota_reserved {
        let name = name(*work).to_string();
        let _ = writeln!(
            text,
            "quota   {}, its pods wait for nodes",
            printable(&name)
        );
    }
    for work in waiting {
        let _ = writeln!(text, "waits   {}", printable(&name(work).to_string()));
    }
    text
}
