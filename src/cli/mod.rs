//! The command line: parse, settle, run, end with an exit code ([`Exit`]). One file a command.

mod advise;
pub mod common;
mod complete;
mod config;
mod describe;
mod diff;
mod doctor;
pub mod engine;
mod explain;
mod export;
mod exporter;
pub mod get;
mod govern;
mod help;
mod keys;
mod man;
mod money;
mod plan;
mod rbac;
mod record;
mod route;
mod schema;
mod shell;
mod shot;
#[cfg(test)]
mod tests;
mod top;
mod watch;
mod what_if;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use model::base::{Exit, Failure};

use crate::runtime::host::Host;
use common::flags::{ConsoleFlags, Global, GlobalFlags};
use common::setup::{FactsSource, Situation};
use common::simulated::{FleetFlags, ServeFlags};
use common::{load, out, setup, simulated};

/// The engine-room console for GPU and TPU fleets on Kubernetes.
///
/// Without a command, opens the console on the current kubeconfig context. Read-only unless --write or the settings grant writing.
#[derive(Parser, Clone, Debug)]
#[command(name = "stokehold", version, max_term_width = help::MAX_WIDTH)]
pub struct Cli {
    #[command(flatten)]
    global: GlobalFlags,
    #[command(flatten)]
    console: ConsoleFlags,
    #[command(subcommand)]
    command: Option<CliCommand>,
}

#[derive(Subcommand, Clone, Debug)]
enum CliCommand {
    /// Open the console on a simulated fleet: no cluster, no network, no GPU
    Demo {
        #[command(flatten)]
        fleet: FleetFlags,
        #[command(flatten)]
        console: ConsoleFlags,
    },
    /// Serve a simulated fleet that kubectl can talk to; --kubeconfig names the file to write
    ///
    /// It serves the workloads, queues and nodes of a fleet with their controllers, and keeps roles, volume claims, network policies and
    /// admission policies as they are written, without enforcing them; server-side apply, dry runs, watches, logs and evictions work.
    /// It does not serve fields for `kubectl explain`, the metrics API of `kubectl top`, events.k8s.io, definitions of custom resources,
    /// or a shell in a container.
    Sim {
        #[command(flatten)]
        fleet: FleetFlags,
        #[command(flatten)]
        serve: ServeFlags,
    },
    /// Print objects, once or as they change; needs no terminal
    Get(get::Get),
    /// Describe one object: the facts of its page in the console, its labels and its events
    Describe(describe::Describe),
    /// Nodes, devices, jobs or teams, what is used most first
    Top(top::Top),
    /// Draw any view as SVG, colored text or plain text; needs no terminal
    Shot(shot::Shot),
    /// Compute a plan, print it, and with --apply carry it out
    Plan(plan::PlanFlags),
    /// Open a shell in a pod or on a node by kubectl; needs the grant to write
    Shell(shell::ShellFlags),
    /// Why a job waits, the smallest change that starts it, and when it starts by itself
    Explain(explain::ExplainFlags),
    /// What to do about jobs' devices by what they did in the last half hour, what saves most first
    Advise(advise::Advise),
    /// On which flavor a job would finish first, what that costs, and why
    Route(route::RouteFlags),
    /// Record what the sources say, for replay and get --at; reads only, needs no terminal
    Record(record::RecordFlags),
    /// Send findings to Alertmanager, Slack and webhooks, as [[notify]] of the settings says; reads only, needs no terminal
    Watch(watch::WatchFlags),
    /// Serve the metrics of `record --listen` to Prometheus without recording; reads only, needs no terminal
    Export(export::ExportFlags),
    /// Open the console on a record: any view of any moment; nothing can be changed there
    Replay {
        #[command(flatten)]
        replay: record::ReplayFlags,
        #[command(flatten)]
        console: ConsoleFlags,
    },
    /// What changed between two moments of a record: jobs, nodes, quotas, findings, money
    Diff(diff::Diff),
    /// What a period cost, by team, pool, queue or job, from the usage ledger of a record; report: a month for chargeback
    Cost(money::cost::Cost),
    /// The usage ledger of a record: where it is, what is in it
    #[command(subcommand)]
    Usage(money::usage::Usage),
    /// Admit jobs by queues, quotas and gangs on a cluster without Kueue, Volcano or KAI
    Govern(govern::Govern),
    /// What a change does to the fleet: which jobs start when, what is in use, what it costs
    ///
    /// For example `what-if nodes h100-train +4`. In the console: `:what-if CHANGE`.
    ///
    /// Changes: nodes POOL|TYPE|NODE +N|-N; pool|zone|node NAME lost; quota QUEUE/FLAVOR +N|-N|=N (any: a quota of devices of every
    /// flavor); quota FROM->TO/FLAVOR N; price FLAVOR|CLASS USD; spot POOL USD; job NAMESPACE/NAME flavor FLAVOR|priority N|removed|+N.
    WhatIf(what_if::WhatIf),
    /// What devices cost on demand, reserved, on spot and owned, for the present demand and a month of the ledger
    Tco(money::tco::TcoFlags),
    /// The known exporter dialects, and what one exposition text means
    #[command(subcommand)]
    Exporter(exporter::Exporter),
    /// The scheduling engine on a fleet document; needs no cluster
    #[command(subcommand)]
    Engine(engine::Engine),
    /// Where settings are, what they come to, whether they are right
    #[command(subcommand)]
    Config(config::Config),
    /// What it can reach and may do here, and what it found: each finding with its fix
    Doctor(doctor::Doctor),
    /// Print the least role that it needs, for kubectl apply
    Rbac(rbac::Rbac),
    /// Print the JSON Schema of what -o json prints: of a kind of `get`, a plan, `tco` or `doctor`
    Schema(schema::Schema),
    /// The keys of the console, yours included; a word chooses: stokehold keys drain
    Keys(keys::Keys),
    /// Print completions for a shell
    Completions {
        /// The shell, or kubectl for its plugin
        shell: complete::Completer,
    },
    /// Print the manual page of a command, or write all pages into a folder
    Man(man::Man),
}

/// Runs the program with these arguments, the program's own name first, on a host and with streams of the caller's. Returns its exit code.
pub fn run_on(
    host: Host,
    arguments: &[OsString],
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> u8 {
    if let Some((_, words)) = arguments.get(1..).and_then(<[OsString]>::split_first)
        && arguments[1] == complete::COMMAND
    {
        // Read by hand: the words are those of another command, flags and all.
        let answer = complete::answer(host, Cli::command(), words);
        return out::write(out, &answer)
            .map_or_else(|failure| failure.exit.code(), |()| Exit::Done.code());
    }
    let cli = match parse(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output and are no mistake.
            let (stream, terminal, exit): (&mut dyn Write, bool, Exit) = match error.use_stderr() {
                true => (err, host.terminal.error, Exit::Usage),
                false => (out, host.terminal.output, Exit::Done),
            };
            let text = error.render();
            let _ = match terminal && host.variable("NO_COLOR").is_none() {
                true => write!(stream, "{}", text.ansi()),
                false => write!(stream, "{text}"),
            };
            return exit.code();
        }
    };
    let global = Global {
        flags: cli.global.clone(),
        host,
    };
    let exit = run(&cli, &global, out, err).unwrap_or_else(|failure| {
        out::print_message(err, &failure.message);
        failure.exit
    });
    exit.code()
}

/// As a plugin of kubectl, the program is called with kubectl's arguments.
fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let plugin = arguments
        .first()
        .and_then(|name| Path::new(name).file_stem())
        .is_some_and(|name| name == "kubectl-stokehold");
    let command = || match plugin {
        true => Cli::command().bin_name("kubectl stokehold"),
        false => Cli::command(),
    };
    let matches = match command().try_get_matches_from(arguments) {
        // Only help needs its own command line.
        Err(error) if is_help(error.kind()) => {
            help::grouped(command()).try_get_matches_from(arguments)?
        }
        other => other?,
    };
    Cli::from_arg_matches(&matches)
}

fn is_help(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

fn run(
    cli: &Cli,
    global: &Global,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let settle = |target: FactsSource| -> Result<Situation, Failure> {
        let settings = load::settings(global)?;
        load::open_log(&global.host, &settings)?;
        let rulebook = match (load::rulebook(&settings)?, &target) {
            (rulebook, FactsSource::Demo(_)) => simulated::rules(rulebook),
            (rulebook, _) => rulebook,
        };
        Ok(Situation {
            every_namespace: false,
            settings,
            rulebook,
            target,
            quiet: global.flags.quiet,
            host: global.host.clone(),
        })
    };
    let cluster = || settle(FactsSource::Cluster(global.choice()));
    let past = |flags: record::PastFlags, speed: f64| {
        settle(FactsSource::Record(record::RecordMoment {
            flags,
            choice: global.choice(),
            speed,
        }))
    };
    // A moment of a record where one is named, else the cluster.
    let cluster_or_past = |flags: &record::PastFlags| match flags.is_given() {
        true => past(flags.clone(), 0.0),
        false => cluster(),
    };
    if cli.command.is_some() && cli.console != ConsoleFlags::default() {
        let message =
            "--size and --for belong to a console: stokehold, stokehold demo or stokehold replay";
        return Err(Failure::new(Exit::Usage, message));
    }
    match &cli.command {
        None => setup::console(&cluster()?, global, &cli.console, out, err),
        Some(CliCommand::Demo { fleet, console }) => {
            let demo = settle(FactsSource::Demo(*fleet))?;
            setup::console(&demo, global, console, out, err)
        }
        Some(CliCommand::Sim { fleet, serve }) => setup::sim(
            &global.host,
            fleet,
            serve,
            global.flags.kubeconfig.as_deref(),
            out,
            err,
        ),
        Some(CliCommand::Get(get)) => {
            use get::get_kind::GetKind::{Budgets, Usage};
            let parts = get.parts()?;
            get::objects::each(&parts, out, err, |get, out, err| match get.kind() {
                Usage => money::usage::get(&past(get.past.clone(), 0.0)?, get, out, err),
                Budgets => money::budgets::get(&past(get.past.clone(), 0.0)?, get, out, err),
                _ => get::run(&cluster_or_past(&get.past)?, get, out, err),
            })
        }
        Some(CliCommand::Cost(cost)) => money::cost::run(&past(cost.past(), 0.0)?, cost, out, err),
        Some(CliCommand::Usage(usage)) => money::usage::run(&past(usage.past(), 0.0)?, out, err),
        Some(CliCommand::Record(record)) => {
            let target = match record.fleet() {
                Some(fleet) => FactsSource::Demo(fleet),
                None => FactsSource::Cluster(global.choice()),
            };
            record::run(&settle(target)?, record, out, err)
        }
        Some(CliCommand::Watch(watch)) => {
            let target = match watch.fleet() {
                Some(fleet) => FactsSource::Demo(fleet),
                None => FactsSource::Cluster(global.choice()),
            };
            watch::run(&settle(target)?, watch, out, err)
        }
        Some(CliCommand::Export(export)) => {
            let target = match export.fleet() {
                Some(fleet) => FactsSource::Demo(fleet),
                None => FactsSource::Cluster(global.choice()),
            };
            export::run(&settle(target)?, export, out)
        }
        Some(CliCommand::Replay { replay, console }) => {
            let record = past(replay.past(), replay.speed())?;
            setup::console(&record, global, console, out, err)
        }
        Some(CliCommand::Diff(diff)) => diff::run(&past(diff.past(), 0.0)?, diff, out, err),
        Some(CliCommand::Describe(describe)) => describe::run(&cluster()?, describe, out, err),
        Some(CliCommand::Top(top)) => top::run(&cluster()?, top, out, err),
        Some(CliCommand::Shot(shot)) => match shot.fleet() {
            Some(fleet) => shot::run(&settle(FactsSource::Demo(fleet))?, shot, out, err),
            None => shot::run(&cluster_or_past(&shot.past())?, shot, out, err),
        },
        Some(CliCommand::Plan(plan)) => {
            let at = cluster_or_past(&plan.past())?;
            plan::run(&at, global.choice(), plan, out, err)
        }
        Some(CliCommand::Shell(flags)) => shell::run(&cluster()?, global.choice(), flags, err),
        Some(CliCommand::Explain(explain)) => {
            explain::run(&cluster_or_past(explain.past())?, explain, out, err)
        }
        Some(CliCommand::Advise(advise)) => {
            advise::run(&cluster_or_past(&advise.past)?, advise, out, err)
        }
        Some(CliCommand::Route(route)) => {
            route::run(&cluster_or_past(route.past())?, route, out, err)
        }
        Some(CliCommand::Govern(govern)) => match &govern.what {
            None => govern::run(&cluster()?, &govern.flags, out, err),
            Some(govern::GovernTask::Check { file }) => {
                let settings = load::settings(global)?;
                let rulebook = load::rulebook(&settings)?;
                govern::check(file, &rulebook.policy.catalog, out, err)
            }
            Some(govern::GovernTask::Manifests { suspend_policy }) => {
                out::write(out, &govern::manifests(*suspend_policy))?;
                Ok(Exit::Done)
            }
        },
        Some(CliCommand::WhatIf(what_if)) => {
            what_if::run(&cluster_or_past(&what_if.past)?, what_if, out, err)
        }
        Some(CliCommand::Tco(tco)) => money::tco::run(&cluster_or_past(&tco.past)?, tco, out, err),
        Some(CliCommand::Exporter(exporter)) => {
            let settings = load::settings(global)?;
            let rulebook = load::rulebook(&settings)?;
            exporter::run(&global.host, exporter, &rulebook.dialects, out, err)
        }
        Some(CliCommand::Engine(engine)) => engine::run(&global.host, engine, out),
        Some(CliCommand::Config(config)) => config::run(config, global, out),
        Some(CliCommand::Doctor(doctor)) => doctor::run(*doctor, global, out, err),
        Some(CliCommand::Rbac(rbac)) => rbac::run(*rbac, &global.flags.namespace, out),
        Some(CliCommand::Schema(schema)) => schema::run(schema, out),
        Some(CliCommand::Keys(keys)) => keys::run(keys, global, out),
        Some(CliCommand::Completions { shell }) => {
            out::write(out, &complete::script(*shell, Cli::command()))?;
            Ok(Exit::Done)
        }
        Some(CliCommand::Man(man)) => man::run(Cli::command(), man, out),
    }
}
