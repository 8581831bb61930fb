//! The doors from commands into the runtime, and nothing else.

use std::path::Path;

use crate::base::{Exit, Failure};
use crate::report::Facts;
use crate::settings::{Rulebook, Settings};
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

/// Takes facts as they come; an error ends the stream with it.
pub type Take<'a> = dyn FnMut(&Facts) -> Result<(), Failure> + 'a;

/// Runs the console until the operator leaves. With an output that is no terminal, prints one frame.
pub(super) fn console(_at: &Situation, _flags: &ConsoleFlags) -> Result<(), Failure> {
    Err(absent("the console"))
}

/// Waits for the first complete fleet, or until a deadline with what is known then.
pub(super) fn snapshot(_at: &Situation) -> Result<Facts, Failure> {
    Err(absent("get"))
}

/// Hands over the first complete fleet, and each later one, until `take` fails or the process is interrupted.
pub(super) fn follow(_at: &Situation, _take: &mut Take<'_>) -> Result<(), Failure> {
    Err(absent("get --watch"))
}

/// Serves the simulated fleet until it is told to end; writes a kubeconfig where one is asked for.
pub(super) fn sim(
    _fleet: &FleetFlags,
    _serve: &ServeFlags,
    _kubeconfig: Option<&Path>,
) -> Result<(), Failure> {
    Err(absent("sim"))
}

fn absent(what: &str) -> Failure {
    Failure::new(Exit::Failed, format!("{what} is not part of this build"))
}
