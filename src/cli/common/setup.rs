//! Entry points from commands into the runtime: sessions, the console, the simulated fleet's server.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::runtime::clock::Stopwatch;
use crate::runtime::connection::{ClusterChoice, ConnectionRequest, Open, Opened};
use crate::runtime::host::Host;
use crate::runtime::identity::random_identity;
use crate::runtime::screen::ui::{ConsoleEnd, Ui};
use crate::runtime::session::{self, Demo};
use crate::runtime::setup::Setup;
use crate::runtime::simulated::KeptFleets;
use crate::runtime::usage::facts::UsageReader;
use crate::runtime::{
    actions::{action_task, explanation_task},
    doctor,
    records::past,
    screen::ui,
    silence,
};
use console::{App, Msg, msg, printed_text};
use model::base::{Exit, Failure, Name};
use model::object::{ObjectNews, ObjectRequest};
use settings::{Rulebook, Settings};
use sim::{self, Server};
use source::kubeconfig::{self, ContextChoice};
use table::checkup::Point;
use table::{Facts, Needs};

use super::flags::{ConsoleFlags, Global};
use super::out;
use super::patience::patiently;
use super::simulated::{self, FleetFlags, ServeFlags};
use crate::cli::record::RecordMoment;
use crate::cli::{
    common::{console_options, load},
    record,
};

/// Size of a frame where the output is no terminal and no size is given.
const SIZE: (u16, u16) = (120, 40);

/// Where facts come from.
#[derive(Clone, Debug)]
pub enum FactsSource {
    Cluster(ContextChoice),
    /// The simulated cluster, in this process.
    Demo(FleetFlags),
    /// A record of a cluster.
    Record(RecordMoment),
}

/// Longest wait for Prometheus' history of a whole fleet, which arrives in parts.
const PAST_WAIT: Duration = Duration::from_secs(180);

/// Everything that is determined before a command runs.
#[derive(Clone, Debug)]
pub struct Situation {
    pub settings: Settings,
    /// Rules, thresholds, prices and dialects.
    pub rulebook: Rulebook,
    /// Where facts come from.
    pub target: FactsSource,
    /// Reads every readable namespace, whichever was selected.
    pub every_namespace: bool,
    pub quiet: bool,
    /// The host: its clock, its runtime.
    pub host: Host,
}

impl Situation {
    pub(crate) fn setup(&self, interactive: bool) -> Setup {
        Setup {
            settings: self.settings.clone(),
            rulebook: self.rulebook.clone(),
            interactive,
            every_namespace: self.every_namespace,
            host: self.host.clone(),
        }
    }

    /// The cluster to connect to.
    ///
    /// # Errors
    /// A record was selected: there is no connection.
    pub(crate) fn target(&self) -> Result<session::ClusterTarget, Failure> {
        match &self.target {
            FactsSource::Cluster(choice) => Ok(session::ClusterTarget::Cluster(choice.clone())),
            FactsSource::Demo(fleet) => Ok(session::ClusterTarget::Demo(Demo {
                world: world(&self.host, fleet),
                speed: fleet.speed,
            })),
            FactsSource::Record(_) => {
                let message = "this needs a cluster and not a record: leave out --at and --record";
                Err(Failure::new(Exit::Usage, message))
            }
        }
    }
}

fn world(host: &Host, fleet: &FleetFlags) -> sim::world::Options {
    sim::world::Options {
        seed: fleet.seed,
        nodes: fleet.nodes,
        devices: fleet.devices,
        at: fleet.at.unwrap_or_else(|| host.now()),
        past: true,
    }
}

/// Receives facts as they come, with standard error; its error ends the stream.
pub type Take<'a> = dyn FnMut(&Facts, &mut (dyn Write + Send)) -> Result<(), Failure> + 'a;

/// Runs the console until the operator quits. If the output is no terminal, prints one frame.
pub(crate) fn console(
    situation: &Situation,
    global: &Global,
    flags: &ConsoleFlags,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> Result<Exit, Failure> {
    let both = situation.host.terminal.output && situation.host.terminal.input;
    let dumb = situation
        .host
        .variable("TERM")
        .is_some_and(|term| term == "dumb");
    let terminal = both && !dumb;
    let mut app = App::new(console_options::options(
        &situation.host,
        &situation.settings,
        terminal,
    )?);
    if !terminal {
        let facts = explanation_task::answered(snapshot(situation, &Needs::everything(), err)?);
        let facts = with_usage(situation, facts);
        let (width, height) = flags.size.unwrap_or(SIZE);
        app.picture([
            Msg::Resize(width, height),
            Msg::Silences((*facts.silences).clone()),
            Msg::Usage(Arc::clone(&facts.usage)),
            Msg::JobExplanations(Arc::clone(&facts.answers)),
            Msg::Facts(facts),
        ]);
        out::write(out, &printed_text(&app, width, height))?;
        let why = match both {
            true => "TERM=dumb has no full screen",
            false => "not a terminal",
        };
        out::write(
            out,
            &format!(
                "\n{why}: printed one frame. More: `stokehold get KIND -o table|wide|json|yaml|csv`;\n\
                 another size: `--size WxH`.\n"
            ),
        )?;
        return Ok(Exit::Done);
    }
    let open = opener(situation.clone(), global.clone());
    situation.host.block_on(async {
        let running = Ui {
            app,
            mouse: situation.settings.mouse,
            end_after: flags.end_after,
            silences: match situation.target {
                FactsSource::Cluster(_) => silence::file_path(&situation.settings),
                FactsSource::Demo(_) | FactsSource::Record(_) => None,
            },
            pictures: std::path::PathBuf::from("."),
        };
        Ok(match ui::run(&situation.host, running, open).await? {
            ConsoleEnd::Quit | ConsoleEnd::Gone => Exit::Done,
            ConsoleEnd::Interrupted => Exit::Interrupted,
        })
    })
}

/// Opens the sessions of a console. Each context has its own settings, so they are read again for it.
fn opener(situation: Situation, global: Global) -> Arc<Open> {
    // A simulated fleet keeps running while its console switches to another view.
    let begun = KeptFleets::default();
    Arc::new(move |request: &ConnectionRequest| {
        let mut global = global.clone();
        let (mut setup, target) = match &request.place {
            ClusterChoice::Named => {
                let target = match &situation.target {
                    FactsSource::Record(moment) => Err(moment),
                    _ => Ok(situation.target()?),
                };
                (situation.setup(false), target)
            }
            ClusterChoice::Context(name) => {
                global.flags.context = Some(name.to_string());
                let settings = load::settings(&global)?;
                let setup = Setup {
                    rulebook: load::rulebook(&settings)?,
                    settings,
                    interactive: false,
                    every_namespace: false,
                    host: situation.host.clone(),
                };
                (setup, Ok(session::ClusterTarget::Cluster(global.choice())))
            }
            ClusterChoice::Demo => {
                let fleet = Demo {
                    world: world(&situation.host, &FleetFlags::default()),
                    speed: 1.0,
                };
                let mut setup = situation.setup(false);
                setup.rulebook = simulated::rules(setup.rulebook);
                (setup, Ok(session::ClusterTarget::Demo(fleet)))
            }
        };
        if let Some(names) = &request.namespaces {
            setup.settings.scope.namespaces = names.iter().map(ToString::to_string).collect();
        }
        let target = match target {
            Ok(session::ClusterTarget::Demo(demo)) => {
                let is_asked_for = request.place == ClusterChoice::Demo;
                Ok(session::ClusterTarget::Begun(begun.of(
                    is_asked_for,
                    &demo,
                    situation.host.clock.clone(),
                )?))
            }
            target => target,
        };
        let mut session = match target {
            Ok(target) => session::console(&setup, target)?,
            Err(moment) => {
                let (archive, then) = record::open(moment, &setup.settings, true, &mut io::sink())?;
                session::replay(&setup, archive, then, moment.speed)?
            }
        };
        // Contexts that cannot be listed are not offered; the session works without them.
        let contexts = kubeconfig::contexts(&global.choice()).map_or(Vec::new(), |(all, _)| all);
        let names = |all: &[String]| all.iter().map(|name| Name::new(name)).collect();
        let about = msg::SessionInfo {
            context: session.context.clone(),
            contexts: names(&contexts),
            namespaces: names(&setup.settings.scope.namespaces),
            notice: session.notice.take(),
        };
        Ok(Opened { session, about })
    })
}

/// Waits for all needed facts, or until a deadline, and returns the facts known then.
pub(crate) fn snapshot(
    situation: &Situation,
    needs: &Needs,
    err: &mut (dyn Write + Send),
) -> Result<Facts, Failure> {
    look_once(situation, needs, err)
        .map(|facts| budgeted(situation, with_silences(situation, facts)))
}

/// The same within a time limit and without progress; `None` on a timeout or failure.
pub(crate) fn read_within(situation: &Situation, needs: &Needs, most: Duration) -> Option<Facts> {
    let look = async {
        Ok(tokio::time::timeout(most, read(situation, needs))
            .await
            .ok())
    };
    situation.host.block_on(look).ok()??.ok()
}

/// The facts with the findings that the operator muted on this machine.
fn with_silences(situation: &Situation, facts: Facts) -> Facts {
    let place = match situation.target {
        FactsSource::Cluster(_) => silence::file_path(&situation.settings),
        FactsSource::Demo(_) => None,
        // It brings what had been done with its findings by then.
        FactsSource::Record(_) => return facts,
    };
    let silences = silence::load(place.as_deref(), &facts.context);
    Facts {
        silences: Arc::new(silences),
        ..facts
    }
}

/// The facts with the state of the settings' budgets, where there is a ledger.
fn budgeted(situation: &Situation, mut facts: Facts) -> Facts {
    if matches!(situation.target, FactsSource::Cluster(_)) && !situation.settings.budget.is_empty()
    {
        let reader =
            UsageReader::new(&situation.host, &situation.settings, &facts.context).of_budgets();
        facts.take_usage(Arc::new(reader.read(facts.now)));
    }
    facts
}

/// The facts with the runs of this machine on the cluster, for frames of the console.
///
/// # Errors
/// The runtime cannot be built.
pub(crate) fn with_runs(situation: &Situation, mut facts: Facts) -> Result<Facts, Failure> {
    if let FactsSource::Cluster(choice) = &situation.target {
        let read = action_task::once(&situation.host, &situation.settings, choice.clone());
        facts.acts = Arc::new(situation.host.block_on(async { Ok(read.await) })?);
    }
    Ok(facts)
}

/// The facts with the whole usage ledger, for frames of the console.
pub(crate) fn with_usage(situation: &Situation, mut facts: Facts) -> Facts {
    if matches!(situation.target, FactsSource::Cluster(_)) {
        let reader = UsageReader::new(&situation.host, &situation.settings, &facts.context);
        facts.take_usage(Arc::new(reader.read(facts.now)));
    }
    facts
}

/// One look within an existing runtime, without progress.
pub(crate) async fn read(situation: &Situation, needs: &Needs) -> Result<Facts, Failure> {
    let mut progress = |_| {};
    session::snapshot(
        &situation.setup(false),
        situation.target()?,
        needs,
        &mut progress,
    )
    .await
}

fn look_once(
    situation: &Situation,
    needs: &Needs,
    err: &mut (dyn Write + Send),
) -> Result<Facts, Failure> {
    let setup = situation.setup(true);
    if let FactsSource::Record(moment) = &situation.target {
        return record::facts(&setup, moment, situation.quiet, err, past::facts_at);
    }
    let target = situation.target()?;
    let mut looking = out::LookProgress::new(&situation.host, situation.quiet, err);
    let mut progress = |coming| looking.at(coming);
    situation.host.block_on(async {
        tokio::select! {
            facts = session::snapshot(&setup, target, needs, &mut progress) => facts,
            () = interrupted() => Err(Failure::quiet(Exit::Interrupted)),
        }
    })
}

/// Facts with the last half hour: from a record, else from Prometheus, else observed within `watch`.
///
/// # Errors
/// As [`snapshot`].
pub(crate) fn half_hour(
    situation: &Situation,
    watch: Option<Duration>,
    err: &mut (dyn Write + Send),
) -> Result<Facts, Failure> {
    let setup = situation.setup(true);
    let choice = match &situation.target {
        FactsSource::Record(moment) => {
            return record::facts(&setup, moment, situation.quiet, err, past::half_hour);
        }
        FactsSource::Cluster(choice) => Some(choice),
        FactsSource::Demo(_) => None,
    };
    if let (Some(choice), None) = (choice, watch)
        && let Some(facts) = record::half_hour_so_far(&setup, choice, situation.quiet, err)
    {
        return Ok(with_silences(situation, facts));
    }
    let facts = situation.host.block_on(async {
        let mut session = session::open(&setup, situation.target()?)?;
        let look = async {
            let mut looking = out::LookProgress::new(&situation.host, situation.quiet, err);
            let needs = Needs::everything();
            let mut progress = |coming| looking.at(coming);
            let mut facts = session.first(&needs, &mut progress).await?;
            let mut sources = facts.fleet.sources.iter();
            let has_past = sources.any(|source| source.kind.as_str() == "prometheus");
            let most = watch.unwrap_or(if has_past { PAST_WAIT } else { Duration::ZERO });
            let begun = Stopwatch::start();
            let enough = |facts: &Facts| {
                table::kinds::advice::is_settled(facts)
                    || (watch.is_none() && facts.history.has_past())
            };
            while begun.elapsed() < most && !enough(&facts) {
                let left = most.saturating_sub(begun.elapsed());
                match tokio::time::timeout(left, session.facts.changed()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) | Err(_) => break,
                }
                let newer = session.facts.borrow_and_update().clone();
                facts = newer.unwrap_or(facts);
            }
            Ok((*facts).clone())
        };
        tokio::select! {
            facts = look => facts,
            () = interrupted() => Err(Failure::quiet(Exit::Interrupted)),
        }
    })?;
    Ok(with_silences(situation, facts))
}

/// The same, with the result of a read of a single object.
pub(crate) fn page(
    situation: &Situation,
    needs: &Needs,
    wanted: &dyn Fn(&Facts) -> Option<ObjectRequest>,
    err: &mut (dyn Write + Send),
) -> Result<(Facts, Option<ObjectNews>), Failure> {
    let setup = situation.setup(true);
    let target = situation.target()?;
    let mut looking = out::LookProgress::new(&situation.host, situation.quiet, err);
    let mut progress = |coming| looking.at(coming);
    let (facts, news) = situation.host.block_on(async {
        tokio::select! {
            page = session::page(&setup, target, needs, &mut progress, wanted) => page,
            () = interrupted() => Err(Failure::quiet(Exit::Interrupted)),
        }
    })?;
    Ok((budgeted(situation, with_silences(situation, facts)), news))
}

/// Runs the checks of `doctor`.
pub(crate) fn examine(
    situation: &Situation,
    err: &mut (dyn Write + Send),
) -> Result<Vec<Point>, Failure> {
    let setup = situation.setup(true);
    let FactsSource::Cluster(choice) = situation.target.clone() else {
        return Ok(Vec::new());
    };
    // Both progress and the messages about a wait go to standard error.
    let looking = Mutex::new(out::LookProgress::new(
        &situation.host,
        situation.quiet,
        err,
    ));
    let locked = || looking.lock().unwrap_or_else(PoisonError::into_inner);
    let mut progress = |coming| locked().at(coming);
    let report = |line: &str| locked().print_message(line);
    situation.host.block_on(async {
        tokio::select! {
            points = patiently(report, doctor::examine(&setup, choice, &mut progress)) => points,
            () = interrupted() => Err(Failure::quiet(Exit::Interrupted)),
        }
    })
}

/// Passes the first complete fleet and each later one to `take`, until it fails or the process is interrupted.
/// Two calls are at least `refresh` apart.
pub(crate) fn follow(
    situation: &Situation,
    err: &mut (dyn Write + Send),
    take: &mut Take<'_>,
) -> Result<(), Failure> {
    let refresh = situation.settings.refresh.duration();
    situation.host.block_on(async {
        let mut session = session::open(&situation.setup(true), situation.target()?)?;
        let follow = async {
            let first = {
                let mut looking = out::LookProgress::new(&situation.host, situation.quiet, err);
                let needs = Needs::everything();
                session
                    .first(&needs, &mut |coming| looking.at(coming))
                    .await?
            };
            let first = budgeted(situation, with_silences(situation, (*first).clone()));
            take(&first, err)?;
            let (mut usage, mut read) = (first.usage, Stopwatch::start());
            loop {
                tokio::time::sleep(refresh).await;
                session.facts.changed().await.map_err(|_| {
                    Failure::new(Exit::Unreachable, "every source has ended; start again")
                })?;
                let facts = session.facts.borrow_and_update().clone();
                if let Some(facts) = facts {
                    let mut facts = with_silences(situation, (*facts).clone());
                    // The ledger grows once a minute.
                    if read.elapsed() >= Duration::from_secs(60) {
                        facts = budgeted(situation, facts);
                        (usage, read) = (Arc::clone(&facts.usage), Stopwatch::start());
                    } else {
                        facts.take_usage(Arc::clone(&usage));
                    }
                    take(&facts, err)?;
                }
            }
        };
        tokio::select! {
            end = follow => end,
            () = interrupted() => Err(Failure::quiet(Exit::Interrupted)),
        }
    })
}

/// Serves the simulated fleet until the process is stopped; writes a kubeconfig if one is requested.
pub(crate) fn sim(
    host: &Host,
    fleet: &FleetFlags,
    serve: &ServeFlags,
    kubeconfig: Option<&Path>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<Exit, Failure> {
    host.block_on(async {
        let world = world(host, fleet);
        let options = sim::ServeOptions {
            listen: serve.listen,
            kubeconfig: kubeconfig.map(Path::to_path_buf),
            speed: fleet.speed,
            seed: fleet.seed,
            exporters: serve.exporters,
            prometheus: serve.prometheus,
            ..sim::ServeOptions::default()
        };
        let simulated = sim::world::World::new(world).identified(random_identity());
        let simulated = Box::new(simulated);
        let running = Server::start(options, simulated, host.clock.clone())
            .await
            .map_err(|error| Failure::new(Exit::Failed, format!("{error:#}")))?;
        out::write(out, &format!("ready {}\n", running.url))?;
        let mut say = |line: &str| {
            let _ = writeln!(err, "{line}");
        };
        let others = [
            ("exporters", &running.exporters),
            ("prometheus", &running.prometheus),
        ];
        for (what, url) in others {
            if let Some(url) = url {
                say(&format!("{what} {url}"));
            }
        }
        for warning in serve.warnings() {
            say(&warning);
        }
        match kubeconfig {
            None => say("no kubeconfig was written; kubectl needs one: --kubeconfig FILE"),
            Some(path) => say(&format!(
                "use it in another terminal: export KUBECONFIG={}; stokehold, or stokehold get pools",
                path.display()
            )),
        }
        running.until(ended()).await;
        Ok(Exit::Done)
    })
}

/// Completes when the operator interrupts.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Completes when the process gets one of the termination signals.
pub(crate) async fn ended() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut term) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = term.recv() => {}
                () = interrupted() => {}
            }
            return;
        }
    }
    interrupted().await;
}
