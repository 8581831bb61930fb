//! The doors from commands into the runtime: sessions, the console, the simulated fleet's server.

use std::future::Future;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use crate::runtime::looking::{Open, Opened, Place, Wish};
use crate::runtime::session::{self, Demo, Setup};
use crate::runtime::ui::{End, Ui};
use crate::runtime::{answering, clock, doctor, hush, telemetry, ui};
use console::{App, Msg, msg, printed_text};
use model::base::{Exit, Failure, Name};
use settings::{Rulebook, Settings};
use sim::{self, Server};
use source::kubeconfig::{self, Choice};
use table::Facts;
use table::checkup::Point;

use super::flags::{ConsoleFlags, Global};
use super::out;
use super::simulated::{FleetFlags, ServeFlags};
use super::{load, look};

/// Size of a frame where the output is no terminal and none is given.
const SIZE: (u16, u16) = (120, 40);

/// Where facts come from.
#[derive(Clone, Debug)]
pub enum Target {
    /// A cluster.
    Cluster(Choice),
    /// The simulated one, in this process.
    Demo(FleetFlags),
}

/// Everything that is settled before a command runs.
#[derive(Clone, Debug)]
pub struct Situation {
    /// Settings.
    pub settings: Settings,
    /// Rules, thresholds, prices and dialects.
    pub rulebook: Rulebook,
    /// Where facts come from.
    pub target: Target,
}

impl Situation {
    fn setup(&self, interactive: bool) -> Setup {
        Setup {
            settings: self.settings.clone(),
            rulebook: self.rulebook.clone(),
            interactive,
        }
    }

    fn target(&self) -> session::Target {
        match &self.target {
            Target::Cluster(choice) => session::Target::Cluster(choice.clone()),
            Target::Demo(fleet) => session::Target::Demo(Demo {
                world: world(fleet),
                speed: fleet.speed,
            }),
        }
    }
}

fn world(fleet: &FleetFlags) -> sim::world::Options {
    sim::world::Options {
        seed: fleet.seed,
        nodes: fleet.nodes,
        devices: fleet.devices,
        at: fleet.at.unwrap_or_else(clock::now),
        past: true,
    }
}

/// Takes facts as they come; an error ends the stream with it.
pub type Take<'a> = dyn FnMut(&Facts) -> Result<(), Failure> + 'a;

/// Runs the console until the operator leaves. With an output that is no terminal, prints one frame.
pub(super) fn console(
    at: &Situation,
    global: &Global,
    flags: &ConsoleFlags,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let both = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let terminal = both && !dumb;
    let mut app = App::new(look::options(&at.settings, terminal)?);
    telemetry::log_to(at.settings.log_file.as_deref())
        .map_err(|error| Failure::new(Exit::Usage, format!("{error:#}")))?;
    if !terminal {
        let facts = answering::answered(snapshot(at)?);
        let (width, height) = flags.size.unwrap_or(SIZE);
        app.update(Msg::Resize(width, height));
        app.update(Msg::Hushed((*facts.hushed).clone()));
        app.update(Msg::Answers(Arc::clone(&facts.answers)));
        app.update(Msg::Facts(facts));
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
    let open = opener(at.clone(), global.clone());
    block_on(async {
        let running = Ui {
            app,
            mouse: at.settings.mouse,
            end_after: flags.end_after,
            hushed: match at.target {
                Target::Cluster(_) => hush::place(),
                Target::Demo(_) => None,
            },
            pictures: std::path::PathBuf::from("."),
        };
        Ok(match ui::run(running, open).await? {
            End::Quit | End::Gone => Exit::Done,
            End::Interrupted => Exit::Interrupted,
        })
    })
}

/// What opens the sessions of a console. Another context has settings of its own, so they are read again for it.
fn opener(at: Situation, global: Global) -> Arc<Open> {
    Arc::new(move |wish: &Wish| {
        let mut global = global.clone();
        let (mut setup, target) = match &wish.place {
            Place::Named => (at.setup(false), at.target()),
            Place::Context(name) => {
                global.context = Some(name.to_string());
                let settings = load::settings(&global)?;
                let setup = Setup {
                    rulebook: load::rulebook(&settings)?,
                    settings,
                    interactive: false,
                };
                (setup, session::Target::Cluster(global.choice()))
            }
            Place::Demo => {
                let fleet = Demo {
                    world: world(&FleetFlags::default()),
                    speed: 1.0,
                };
                (at.setup(false), session::Target::Demo(fleet))
            }
        };
        if let Some(names) = &wish.namespaces {
            setup.settings.scope.namespaces = names.iter().map(ToString::to_string).collect();
        }
        let session = session::open(&setup, target)?;
        // Contexts that cannot be listed cannot be offered; the session is there all the same.
        let contexts = kubeconfig::contexts(&global.choice()).map_or(Vec::new(), |(all, _)| all);
        let names = |all: &[String]| all.iter().map(|name| Name::new(name)).collect();
        let about = msg::Session {
            context: session.context.clone(),
            contexts: names(&contexts),
            namespaces: names(&setup.settings.scope.namespaces),
        };
        Ok(Opened { session, about })
    })
}

/// Waits for the first complete fleet, or until a deadline with what is known then.
pub(super) fn snapshot(at: &Situation) -> Result<Facts, Failure> {
    look_once(at).map(|facts| heard(at, facts))
}

/// The facts with what the operator muted on this machine.
fn heard(at: &Situation, facts: Facts) -> Facts {
    let place = match at.target {
        Target::Cluster(_) => hush::place(),
        Target::Demo(_) => None,
    };
    let hushed = hush::load(place.as_deref(), &facts.context);
    Facts {
        hushed: Arc::new(hushed),
        ..facts
    }
}

fn look_once(at: &Situation) -> Result<Facts, Failure> {
    let setup = at.setup(true);
    let mut looking = out::Looking::default();
    let mut told = |fleet: &_| looking.at(fleet);
    block_on(async {
        tokio::select! {
            facts = session::snapshot(&setup, at.target(), &mut told) => facts,
            () = interrupted() => Err(Failure::quiet(Exit::Interrupted)),
        }
    })
}

/// Looks at everything that `doctor` looks at.
pub(super) fn examine(at: &Situation) -> Result<Vec<Point>, Failure> {
    let setup = at.setup(true);
    let Target::Cluster(choice) = at.target.clone() else {
        return Ok(Vec::new());
    };
    block_on(async {
        tokio::select! {
            points = doctor::examine(&setup, choice) => Ok(points),
            () = interrupted() => Err(Failure::quiet(Exit::Interrupted)),
        }
    })
}

/// Hands over the first complete fleet, and each later one, until `take` fails or the process is interrupted.
/// Two pictures are at least `refresh` apart.
pub(super) fn follow(at: &Situation, take: &mut Take<'_>) -> Result<(), Failure> {
    let refresh = at.settings.refresh.duration();
    block_on(async {
        let mut session = session::open(&at.setup(true), at.target())?;
        let follow = async {
            let first = {
                let mut looking = out::Looking::default();
                session.first(&mut |fleet| looking.at(fleet)).await?
            };
            take(&heard(at, (*first).clone()))?;
            loop {
                tokio::time::sleep(refresh).await;
                session.facts.changed().await.map_err(|_| {
                    Failure::new(Exit::Unreachable, "every source has ended; start again")
                })?;
                let facts = session.facts.borrow_and_update().clone();
                if let Some(facts) = facts {
                    take(&heard(at, (*facts).clone()))?;
                }
            }
        };
        tokio::select! {
            end = follow => end,
            () = interrupted() => Err(Failure::quiet(Exit::Interrupted)),
        }
    })
}

/// Serves the simulated fleet until it is told to end; writes a kubeconfig where one is asked for.
pub(super) fn sim(
    fleet: &FleetFlags,
    serve: &ServeFlags,
    kubeconfig: Option<&Path>,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    block_on(async {
        let world = world(fleet);
        let options = sim::Options {
            listen: serve.listen,
            kubeconfig: kubeconfig.map(Path::to_path_buf),
            speed: fleet.speed,
            seed: fleet.seed,
            exporters: serve.exporters,
            prometheus: serve.prometheus,
            ..sim::Options::default()
        };
        let scene = Box::new(sim::world::World::new(world));
        let running = Server::start(options, scene, clock::shared())
            .await
            .map_err(|error| Failure::new(Exit::Failed, format!("{error:#}")))?;
        out::write(out, &format!("ready {}\n", running.url))?;
        let others = [
            ("exporters", &running.exporters),
            ("prometheus", &running.prometheus),
        ];
        for (what, url) in others {
            if let Some(url) = url {
                eprintln!("{what} {url}");
            }
        }
        if kubeconfig.is_none() {
            eprintln!("no kubeconfig was asked for; kubectl needs one: --kubeconfig FILE");
        }
        running.until(ended()).await;
        Ok(Exit::Done)
    })
}

/// Runs async work on a runtime of its own.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot start: {error}")))?;
    let end = runtime.block_on(work);
    // The process ends now. Taking the runtime down would pull timers from under tasks that still run, and
    // these would say so on the screen.
    std::mem::forget(runtime);
    end
}

/// Comes when the operator interrupts.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Comes when somebody ends the process, by whichever signal.
async fn ended() {
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
