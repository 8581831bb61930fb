//! The doors from commands into the runtime: sessions, the console, the simulated fleet's server.

<<<<<<< HEAD
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
=======
use std::future::Future;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use crate::base::{Exit, Failure};
use crate::console::{App, Msg, render_text};
use crate::report::Facts;
use crate::runtime::session::{self, Demo, Setup};
use crate::runtime::ui::{End, Ui};
use crate::runtime::{clock, telemetry, ui};
use crate::settings::{Rulebook, Settings};
use crate::sim::{self, Server};
>>>>>>> report
use crate::source::kubeconfig::Choice;

use super::flags::ConsoleFlags;
use super::look;
use super::out;
use super::simulated::{FleetFlags, ServeFlags};

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
<<<<<<< HEAD
            rulebook: self.rulebook.clone(),
=======
            catalog: Arc::clone(&self.rulebook.catalog),
            prices: Arc::clone(&self.rulebook.prices),
            thresholds: Arc::clone(&self.rulebook.thresholds),
            dialects: Arc::clone(&self.rulebook.dialects),
            namespace: None,
>>>>>>> report
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

<<<<<<< HEAD
=======
fn world(fleet: &FleetFlags) -> sim::world::Options {
    sim::world::Options {
        seed: fleet.seed,
        nodes: fleet.nodes,
        devices: fleet.devices,
        at: fleet.at.unwrap_or_else(clock::now),
    }
}

>>>>>>> report
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
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot start: {error}")))?;
    let done = runtime.block_on(work);
    // What still waits for a server is not waited for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    done
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
