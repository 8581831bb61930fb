//! `engine plan`: the engine on a fleet document, without a cluster.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::Path;

use clap::{Args, Parser, Subcommand};
use serde::Serialize;
use serde_json::json;

use engine::compiled::{CompiledFleet, WorkloadId};
use engine::cycle::{self, Options};
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

use super::figures::FigureFormat;
use super::plan::PlanFormat;
use super::plan::show::{printed, refused};
use super::{explain, out, route, what_if};

/// Which fleet, and what is asked.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct DocumentPlan {
    /// The document, as `get fleet -o json` writes it; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub fleet: String,
    /// What is asked, in the words of `stokehold plan`: `drain pool/h100`, `admit NS/NAME --preempt`, `explain NS/NAME`,
    /// `forecast`, `what-if nodes h100 +4`, `cycle`
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub intent: String,
    /// How to print it
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: FigureFormat,
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
    question: AskedOfEngine,
}

#[derive(Subcommand)]
enum AskedOfEngine {
    #[command(flatten)]
    Plan(ActionArguments),
    /// Why a job waits; all waiting jobs without a name
    Explain { name: Option<String> },
    /// When a job starts; all waiting jobs without a name
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

/// Parses `--intent`; `plan` may stand before it, and `job` before the name of what is asked about.
///
/// # Errors
/// It does not follow the grammar.
fn question(text: &str) -> Result<AskedOfEngine, String> {
    let mut words = actions::split(text)?;
    if words.first().is_some_and(|word| word == "plan") {
        words.remove(0);
    }
    let asks = |verb: &str| matches!(verb, "explain" | "forecast" | "route");
    if let [verb, kind, _] = words.as_slice()
        && asks(verb)
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

pub(super) fn run(host: &Host, plan: &DocumentPlan, out: &mut dyn Write) -> Result<Exit, Failure> {
    let text = if plan.fleet == "-" {
        let mut text = String::new();
        (&mut *host.input.lock())
            .take(local::LARGEST)
            .read_to_string(&mut text)
            .map_err(|error| Failure::new(Exit::Failed, format!("standard input: {error}")))?;
        text
    } else {
        local::read_text(Path::new(&plan.fleet))
            .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", plan.fleet)))?
    };
    let snapshot = document::read(&text, &plan.fleet)
        .map_err(|fault| Failure::new(Exit::Usage, fault.to_string()))?;
    let format = match plan.output {
        FigureFormat::Table => PlanFormat::Table,
        FigureFormat::Json => PlanFormat::Json,
    };
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let question = question(&plan.intent).map_err(usage)?;
    let unknown = |message: String| Failure::new(Exit::Refused, message);
    let text = match question {
        AskedOfEngine::Plan(action) => {
            let names = NameResolver {
                snapshot: &snapshot,
                namespace: None,
            };
            let intent = match action.intent(&names) {
                Ok(intent) => intent,
                Err(ParseError::Refused(refusal)) => {
                    return refused(&refusal, snapshot.at, format, out);
                }
                Err(ParseError::Usage(message)) => return Err(usage(message)),
            };
            let author = Author {
                by: "stokehold".to_owned(),
                why: String::new(),
            };
            match plan::plan(&snapshot, &intent, &author) {
                Ok(plan) => printed(&plan, None, format),
                Err(refusal) => return refused(&refusal, snapshot.at, format, out),
            }
        }
        AskedOfEngine::Explain { name: Some(name) } => {
            let answer = explanations::explain(&snapshot, &name).map_err(unknown)?;
            explain::printed(&answer, &snapshot, plan.output)
        }
        AskedOfEngine::Explain { name: None } => {
            let all: Vec<_> = explanations::explain_all(&snapshot).into_values().collect();
            match plan.output {
                FigureFormat::Json => safe_json(&all),
                FigureFormat::Table => all
                    .iter()
                    .map(|answer| explain::printed(answer, &snapshot, plan.output))
                    .collect(),
            }
        }
        AskedOfEngine::Forecast { name } => {
            let mut all: Vec<Start> = explanations::forecast(&snapshot).into_values().collect();
            if let Some(name) = name {
                explanations::find(&snapshot, &name).map_err(unknown)?;
                all.retain(|start| start.job.to_string() == name);
            }
            forecast(
                &all,
                snapshot.at,
                &options::used(&snapshot, None),
                plan.output,
            )
        }
        AskedOfEngine::Route { name } => {
            let routing = explanations::route(&snapshot, &name).map_err(unknown)?;
            route::printed(&routing, snapshot.at, plan.output)
        }
        AskedOfEngine::WhatIf { change } => {
            let change = change.join(" ");
            let changes: Vec<&str> = engine::what_if::split(&change).collect();
            let outcome = explanations::what_if(&snapshot, &changes).map_err(usage)?;
            what_if::printed(&outcome, snapshot.at, plan.output)
        }
        AskedOfEngine::Cycle => decided(snapshot, plan.output),
    };
    out::write(out, &text)?;
    Ok(Exit::Done)
}

/// A start with what it was decided by.
#[derive(Serialize)]
struct StartForecast<'a> {
    #[serde(flatten)]
    start: &'a Start,
    options: &'a [Used],
}

fn forecast(all: &[Start], now: Moment, options: &[Used], format: FigureFormat) -> String {
    if format == FigureFormat::Json {
        let all = all.iter().map(|start| StartForecast { start, options });
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
    for used in options {
        let _ = writeln!(text, "option  {}", printable(&used.to_string()));
    }
    text
}

/// The jobs that start in one cycle, their nodes, and the jobs evicted for them.
fn decided(snapshot: Snapshot, format: FigureFormat) -> String {
    let compiled = CompiledFleet::new(snapshot);
    let mut state = State::new(&compiled);
    let cycle = cycle::cycle(&mut state, Options::default());
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
        json!({ "job": name(admission.work), "nodes": nodes, "passed": admission.passed })
    });
    let preempted = cycle.preempted.iter().flat_map(|push| {
        push.victims.list.iter().map(|victim| {
            json!({
                "job": name(victim.work), "by": name(push.by), "reason": victim.reason.name(),
                "lost_device_seconds": victim.lost_ms / 1_000,
            })
        })
    });
    let drained = cycle.drained.iter().map(
        |victim| json!({ "job": name(victim.work), "lost_device_seconds": victim.lost_ms / 1_000 }),
    );
    let reserved = cycle
        .reservations
        .iter()
        .map(|kept| json!({ "job": name(kept.work), "at": kept.at.rfc3339() }));
    let document = json!({
        "admitted": admitted.collect::<Vec<_>>(),
        "preempted": preempted.collect::<Vec<_>>(),
        "drained": drained.collect::<Vec<_>>(),
        "reservations": reserved.collect::<Vec<_>>(),
        "waiting": cycle.waiting.keys().map(|work| name(*work)).collect::<Vec<_>>(),
    });
    if format == FigureFormat::Json {
        return safe_json(&document);
    }
    let mut text = String::new();
    for one in &cycle.admitted {
        let _ = writeln!(text, "starts  {}", printable(&name(one.work).to_string()));
    }
    for push in &cycle.preempted {
        for victim in &push.victims.list {
            let (gone, by) = (name(victim.work).to_string(), name(push.by).to_string());
            let _ = writeln!(text, "evicted {} for {}", printable(&gone), printable(&by));
        }
    }
    for work in cycle.waiting.keys() {
        let _ = writeln!(text, "waits   {}", printable(&name(*work).to_string()));
    }
    text
}
