//! The host of a command: its clock, its environment and folders, its standard input, and the runtime that its work waits on.
//! Tests give their own, with a clock that they pause and a simulated cluster in this process.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::future::Future;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use directories::{BaseDirs, ProjectDirs};
use model::base::{Exit, Failure, Moment};
use source::api_stats::Clock;
use source::kubeconfig::Environment;
use source::kubeconfig::Transport;
use tokio::runtime::Runtime;

use super::actions::own_runs::OwnRuns;
use super::clock;
use super::scratch::Scratch;

/// The user's folders for Stokehold. Each is `None` for a user without a home directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Folders {
    /// The home directory, for `~/`.
    pub home: Option<PathBuf>,
    pub config: Option<PathBuf>,
    /// Journal, records, silences: state that is kept and is no setting.
    pub state: Option<PathBuf>,
}

impl Folders {
    /// Those of the platform.
    fn of_platform() -> Self {
        let own = ProjectDirs::from("", "", "stokehold");
        Self {
            home: BaseDirs::new().map(|base| base.home_dir().to_path_buf()),
            config: own.as_ref().map(|own| own.config_dir().to_path_buf()),
            state: own.map(|own| {
                let folder = own.state_dir().unwrap_or_else(|| own.data_local_dir());
                folder.to_path_buf()
            }),
        }
    }
}

/// Which of the standard streams are a terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terminals {
    pub input: bool,
    pub output: bool,
    pub error: bool,
}

impl Terminals {
    fn of_process() -> Self {
        Self {
            input: io::stdin().is_terminal(),
            output: io::stdout().is_terminal(),
            error: io::stderr().is_terminal(),
        }
    }
}

/// Standard input of a command. Clones read on where another has stopped.
#[derive(Clone)]
pub struct Input(Arc<Mutex<dyn BufRead + Send>>);

impl Input {
    /// Reads from this source.
    pub fn new(source: impl Read + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(BufReader::new(source))))
    }

    /// The input, for one reader.
    pub fn lock(&self) -> MutexGuard<'_, dyn BufRead + Send + 'static> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The host of a command. It has no default, so that no command runs on another host than its caller's.
#[derive(Clone)]
pub struct Host {
    pub clock: Clock,
    pub variables: Arc<BTreeMap<OsString, OsString>>,
    pub folders: Folders,
    pub input: Input,
    /// Which of the standard streams are a terminal.
    pub terminal: Terminals,
    /// Sends requests to API servers in the place of TCP and TLS.
    pub transport: Option<Transport>,
    /// The runs that this process carries out on real clusters.
    pub own_runs: OwnRuns,
    /// The temporary directories of this process.
    pub scratch: Scratch,
    /// The runtime of all commands; `None` makes one for each.
    pub runtime: Option<Arc<Runtime>>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("folders", &self.folders)
            .finish_non_exhaustive()
    }
}

impl Host {
    /// The host of this process's command.
    pub fn of_process() -> Self {
        Self {
            variables: Arc::new(std::env::vars_os().collect()),
            folders: Folders::of_platform(),
            input: Input::new(io::stdin()),
            terminal: Terminals::of_process(),
            own_runs: OwnRuns::of(std::env::current_exe().ok()),
            ..Self::bare(clock::shared())
        }
    }

    /// A host with a clock alone: no environment, no folders, an empty standard input, no terminal.
    pub fn bare(clock: Clock) -> Self {
        Self {
            clock,
            variables: Arc::default(),
            folders: Folders::default(),
            input: Input::new(io::empty()),
            terminal: Terminals::default(),
            transport: None,
            own_runs: OwnRuns::default(),
            scratch: Scratch::default(),
            runtime: None,
        }
    }

    pub fn now(&self) -> Moment {
        (self.clock)()
    }

    pub fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(OsStr::new(name)).cloned()
    }

    /// An environment variable that is text; `None` where it is empty or not UTF-8.
    pub fn text_variable(&self, name: &str) -> Option<String> {
        let value = self.variable(name)?.into_string().ok();
        value.filter(|value| !value.is_empty())
    }

    /// The environment, for the kubeconfig.
    pub fn environment(&self) -> Environment {
        let variables = Arc::clone(&self.variables);
        Arc::new(move |name| variables.get(OsStr::new(name)).cloned())
    }

    /// The user's name, from the environment; `unknown` where it has none.
    pub fn user_name(&self) -> String {
        ["USER", "LOGNAME", "USERNAME"]
            .iter()
            .find_map(|name| self.text_variable(name))
            .unwrap_or_else(|| "unknown".to_owned())
    }

    /// Runs async work to its end.
    ///
    /// # Errors
    /// Those of the work; no runtime can be made.
    pub fn block_on<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        if let Some(runtime) = &self.runtime {
            return runtime.block_on(work);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| Failure::new(Exit::Failed, format!("cannot start: {error}")))?;
        let end = runtime.block_on(work);
        // The process ends now. Shutting the runtime down would drop timers of running tasks, whose
        // panics would appear on the screen.
        std::mem::forget(runtime);
        end
    }
}
