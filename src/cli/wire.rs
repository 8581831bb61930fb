//! The doors from commands into the runtime, and nothing else.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::{Exit, Failure, Name};
use crate::console::{App, AppOptions, ColorDepth, Keymap, Msg, Theme, render_text};
use crate::report::Facts;
use crate::runtime::session::{self, Demo, Setup};
use crate::runtime::{clock, telemetry, terminal, ui};
use crate::settings::{ColorChoice, Rulebook, Settings};
use crate::sim;
use crate::source::kubeconfig::Choice;

use super::flags::ConsoleFlags;
use super::simulated::{FleetFlags, ServeFlags};

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

/// Takes facts as they come; an error ends the stream with it.
pub type Take<'a> = dyn FnMut(&Facts) -> Result<(), Failure> + 'a;

fn world(fleet: &FleetFlags) -> sim::world::Options {
    sim::world::Options {
        seed: fleet.seed,
        nodes: fleet.nodes,
        devices: fleet.devices,
        at: fleet.at.unwrap_or_else(clock::now),
    }
}

fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| failed(format!("cannot start: {error}")))?;
    let done = runtime.block_on(work);
    // What still waits for a server is not waited for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    done
}

fn failed(message: String) -> Failure {
    Failure::new(Exit::Failed, message)
}

/// Runs the console until the operator leaves. With an output that is no terminal, prints one frame.
pub(super) fn console(at: &Situation, flags: &ConsoleFlags) -> Result<(), Failure> {
    log(at)?;
    let on_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let mut app = app(at, on_terminal)?;
    if !on_terminal {
        let facts = snapshot(at)?;
        let (width, height) = flags.size.unwrap_or((120, 40));
        app.update(Msg::Resize(width, height));
        app.update(Msg::Facts(facts));
        let frame = render_text(&app, width, height);
        let more = "(this output is no terminal: one frame. `stokehold get KIND -o table|wide|json|yaml|csv` gives \
                    everything, `--size WxH` another size)";
        return super::out::write(&mut io::stdout(), &format!("{frame}\n{more}\n"));
    }
    let end = block_on(async {
        let session = session::open(&at.setup(false), at.target())?;
        let running = ui::Ui {
            app,
            facts: session.facts.clone(),
            clock: session.clock.clone(),
            on_screen: session.on_screen.clone(),
            mouse: false,
            end_after: flags.end_after,
            pictures: PathBuf::from("."),
        };
        ui::run(running)
            .await
            .map_err(|error| failed(format!("the terminal cannot be used: {error}")))
    });
    terminal::give_back();
    match end? {
        ui::End::Quit => Ok(()),
        ui::End::Interrupted => Err(Failure::quiet(Exit::Interrupted)),
        ui::End::Gone => Err(Failure::quiet(Exit::Failed)),
    }
}

fn log(at: &Situation) -> Result<(), Failure> {
    telemetry::log_to(at.settings.log_file.as_deref()).map_err(|error| failed(format!("{error:#}")))
}

fn app(at: &Situation, on_terminal: bool) -> Result<App, Failure> {
    let settings = &at.settings;
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let keys = match &settings.keys_file {
        None => Keymap::builtin(),
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| usage(format!("keys_file {}: {error}", path.display())))?;
            Keymap::builtin()
                .with(&path.display().to_string(), &text)
                .map_err(|error| usage(error.to_string()))?
        }
    };
    let readonly_reason = if settings.write {
        "this version cannot write yet"
    } else {
        "read-only"
    };
    Ok(App::new(AppOptions {
        theme: theme(settings)?,
        depth: depth(settings.color, on_terminal, |name| std::env::var(name).ok()),
        ascii: settings.ascii,
        keys,
        context: match &at.target {
            Target::Demo(_) => Name::new("demo"),
            Target::Cluster(choice) => Name::new(choice.context.as_deref().unwrap_or_default()),
        },
        readonly_reason: readonly_reason.to_owned(),
        team: settings.scope.team.as_deref().map(Name::new),
        ..AppOptions::default()
    }))
}

/// A theme of `themes_dir` comes before one that comes with the program.
fn theme(settings: &Settings) -> Result<Theme, Failure> {
    let usage = |message: String| Failure::new(Exit::Usage, message);
    let file = |name: &str| {
        let dir = settings.themes_dir.as_ref()?;
        // A name is a name: it never leaves the folder.
        let plain = name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
        plain.then(|| dir.join(format!("{name}.toml")))
    };
    if let Some(path) = file(&settings.theme).filter(|path| path.exists()) {
        let text = std::fs::read_to_string(&path)
            .map_err(|error| usage(format!("theme {}: {error}", path.display())))?;
        let others = |name: &str| std::fs::read_to_string(file(name)?).ok();
        return Theme::parse(&path.display().to_string(), &text, &others)
            .map_err(|error| usage(error.to_string()));
    }
    Theme::builtin(&settings.theme).map_err(|error| usage(error.to_string()))
}

/// What the terminal can show, by the settings, NO_COLOR, COLORTERM and TERM.
fn depth(
    choice: ColorChoice,
    on_terminal: bool,
    variable: impl Fn(&str) -> Option<String>,
) -> ColorDepth {
    let has = |name: &str| variable(name).filter(|value| !value.is_empty());
    let able = || {
        let term = has("TERM").unwrap_or_default();
        if has("COLORTERM")
            .is_some_and(|value| value.contains("truecolor") || value.contains("24bit"))
            || term.contains("direct")
        {
            ColorDepth::True
        } else if term.contains("256color") {
            ColorDepth::Ansi256
        } else if term.is_empty() || term == "dumb" {
            ColorDepth::None
        } else {
            ColorDepth::Ansi16
        }
    };
    match choice {
        ColorChoice::Never => ColorDepth::None,
        ColorChoice::Ansi16 => ColorDepth::Ansi16,
        ColorChoice::Ansi256 => ColorDepth::Ansi256,
        ColorChoice::True => ColorDepth::True,
        ColorChoice::Always => able(),
        ColorChoice::Auto if !on_terminal || has("NO_COLOR").is_some() => ColorDepth::None,
        ColorChoice::Auto => able(),
    }
}

/// Waits for the first complete fleet, or until a deadline with what is known then.
pub(super) fn snapshot(at: &Situation) -> Result<Facts, Failure> {
    log(at)?;
    let setup = at.setup(true);
    block_on(async {
        tokio::select! {
            facts = session::snapshot(&setup, at.target()) => facts,
            _ = tokio::signal::ctrl_c() => Err(Failure::quiet(Exit::Interrupted)),
        }
    })
}

/// Hands over the first complete fleet, and each later one, until `take` fails or the process is interrupted.
pub(super) fn follow(at: &Situation, take: &mut Take<'_>) -> Result<(), Failure> {
    log(at)?;
    block_on(async {
        let mut session = session::open(&at.setup(true), at.target())?;
        let watching = async {
            let first = session.first().await?;
            take(&first)?;
            while session.facts.changed().await.is_ok() {
                let latest = session.facts.borrow_and_update().clone();
                if let Some(facts) = latest {
                    take(&facts)?;
                }
            }
            Ok(())
        };
        tokio::select! {
            ended = watching => ended,
            _ = tokio::signal::ctrl_c() => Err(Failure::quiet(Exit::Interrupted)),
        }
    })
}

/// Serves the simulated fleet until it is told to end; writes a kubeconfig where one is asked for.
pub(super) fn sim(
    fleet: &FleetFlags,
    serve: &ServeFlags,
    kubeconfig: Option<&Path>,
) -> Result<(), Failure> {
    block_on(async {
        let options = sim::serve::Options {
            listen: serve.listen,
            kubeconfig: kubeconfig.map(Path::to_path_buf),
            speed: fleet.speed,
            seed: fleet.seed,
            exporters: serve.exporters,
            prometheus: serve.prometheus,
            ..sim::serve::Options::default()
        };
        let scene = Box::new(sim::world::World::new(world(fleet)));
        let running = sim::serve::Server::start(options, scene, clock::shared())
            .await
            .map_err(|error| failed(format!("{error:#}")))?;
        let mut out = io::stdout();
        let said = writeln!(out, "ready {}", running.url).and_then(|()| out.flush());
        if said.is_err() {
            return Ok(());
        }
        for (what, url) in [
            ("exporters", &running.exporters),
            ("prometheus", &running.prometheus),
        ] {
            if let Some(url) = url {
                eprintln!("{what} {url}");
            }
        }
        if kubeconfig.is_none() {
            eprintln!(
                "no kubeconfig was written: --kubeconfig FILE names one, and kubectl needs it"
            );
        }
        running.until(told_to_end()).await;
        Ok(())
    })
}

async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut term) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_the_terminal_and_the_wish() {
        let with = |pairs: &'static [(&str, &str)]| {
            move |name: &str| {
                pairs
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| (*value).to_owned())
            }
        };
        let rich = &[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")];
        assert_eq!(depth(ColorChoice::Auto, true, with(rich)), ColorDepth::True);
        assert_eq!(
            depth(ColorChoice::Auto, false, with(rich)),
            ColorDepth::None
        );
        assert_eq!(
            depth(ColorChoice::Always, false, with(rich)),
            ColorDepth::True
        );
        assert_eq!(
            depth(ColorChoice::Ansi16, true, with(rich)),
            ColorDepth::Ansi16
        );
        let plain = &[("TERM", "screen-256color"), ("NO_COLOR", "1")];
        assert_eq!(
            depth(ColorChoice::Auto, true, with(plain)),
            ColorDepth::None
        );
        assert_eq!(
            depth(ColorChoice::Always, true, with(plain)),
            ColorDepth::Ansi256
        );
        assert_eq!(
            depth(ColorChoice::Auto, true, with(&[("TERM", "linux")])),
            ColorDepth::Ansi16
        );
        assert_eq!(depth(ColorChoice::Auto, true, with(&[])), ColorDepth::None);
    }
}
