//! The command line in this process. Time is paused: it passes only while a command waits, so that nothing happens between two
//! commands, and the same happens on every machine.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{Cursor, Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kube::client::Body;
use sim::change::{Resource, SimBackend};
use sim::{Service, embed, kubeconfig};
use source::api_stats::Clock;
use source::kubeconfig::Transport;
use stokehold::cli;
use stokehold::runtime::host::{Folders, Host, Input, Terminals};
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, service_fn};

use super::stage::{begin, host, paused, world};
use super::*;

/// How a command ended, and its output.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code.
    pub code: u8,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ended {
    /// The document on standard output.
    pub fn document(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A host that takes requests and never answers.
pub const SILENT: &str = "silent";

/// The clusters that a machine reaches, by the host in their address. At any other address nothing answers.
type Clusters = Arc<Mutex<BTreeMap<String, Reached>>>;

/// A cluster as it is reached, and after how many more writes its link is cut.
#[derive(Clone)]
struct Reached {
    service: Service,
    writes_left: Option<usize>,
}

impl Reached {
    /// What answers a request; nothing once the link is cut.
    fn answers(&mut self, request: &Request<Body>) -> Option<Service> {
        let is_cut = self.writes_left == Some(0);
        let query = request.uri().query().unwrap_or_default();
        if *request.method() == Method::PATCH && !query.contains("dryRun") {
            self.writes_left = self.writes_left.map(|left| left.saturating_sub(1));
        }
        (!is_cut).then(|| self.service.clone())
    }
}

/// A user with a home directory, who runs commands in this process.
pub struct Machine {
    host: Host,
    clusters: Clusters,
    home: PathBuf,
    /// When the command began that runs.
    begun: Begun,
}

type Begun = Arc<Mutex<Instant>>;

/// The most time that passes for a command. One that would never end costs none: without this it would go on for ever.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(3_600);

impl Machine {
    /// With this home directory. The settings are in `config/stokehold` of it.
    pub fn new(home: &Path) -> Self {
        let runtime = paused();
        let clusters = Clusters::default();
        let begun = begun_on(&runtime);
        let host = Host {
            clock: clock_of(&runtime, Arc::clone(&begun)),
            variables: Arc::new(BTreeMap::from([("USER".into(), "tester".into())])),
            folders: Folders {
                home: Some(home.to_owned()),
                config: Some(home.join("config/stokehold")),
                state: Some(home.join(".local/state/stokehold")),
            },
            transport: Some(transport(&clusters)),
            runtime: Some(Arc::new(runtime)),
            ..host()
        };
        Self {
            host,
            clusters,
            home: home.to_owned(),
            begun,
        }
    }

    /// A cluster of this world, whose time runs at this speed of the machine's. Commands reach it with the kubeconfig of this
    /// name in the home directory: a context for each user.
    pub fn cluster(&self, name: &str, world: impl SimBackend + 'static, speed: f64) -> Cluster {
        let service = {
            let runtime = self.host.runtime.as_ref().expect("has one");
            let _within = runtime.enter();
            embed(Box::new(world), Arc::clone(&self.host.clock), speed, 1).expect("a cluster")
        };
        let service = Service::new(Arc::clone(service.cluster()));
        let mut clusters = self.clusters.lock().expect("is whole");
        let host = format!("cluster-{}", clusters.len());
        let kubeconfig = self.home.join(name);
        let text = kubeconfig::render(&format!("http://{host}"), "", service.cluster().users());
        fs::write(&kubeconfig, text).expect("can be written");
        let reached = Reached {
            service: service.clone(),
            writes_left: None,
        };
        clusters.insert(host.clone(), reached);
        Cluster {
            service,
            kubeconfig: kubeconfig.display().to_string(),
            host,
            clusters: Arc::clone(&self.clusters),
        }
    }

    /// Another user's machine, which reaches the same clusters and shares nothing else.
    pub fn beside(&self, home: &Path) -> Self {
        let folders = Folders {
            home: Some(home.to_owned()),
            config: Some(home.join("config/stokehold")),
            state: Some(home.join(".local/state/stokehold")),
        };
        Self {
            host: Host {
                folders,
                ..self.host.clone()
            },
            clusters: Arc::clone(&self.clusters),
            home: home.to_owned(),
            begun: Arc::clone(&self.begun),
        }
    }

    /// Lets time pass.
    pub fn passes(&self, time: std::time::Duration) {
        let runtime = self.host.runtime.as_ref().expect("has one");
        *self.begun.lock().expect("is whole") = {
            let _within = runtime.enter();
            Instant::now()
        };
        runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// The current time.
    pub fn now(&self) -> Moment {
        self.host.now()
    }

    /// Runs the program with these arguments.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.run_with(&[], arguments)
    }

    /// The same with these environment variables.
    pub fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Ended {
        let mut host = self.host.clone();
        let mut all = (*host.variables).clone();
        let named = variables.iter();
        all.extend(named.map(|(name, value)| (OsString::from(name), OsString::from(value))));
        host.variables = Arc::new(all);
        self.call(host, arguments)
    }

    /// The same with this text on standard input, which is no terminal.
    pub fn run_with_input(&self, input: &str, arguments: &[&str]) -> Ended {
        let host = Host {
            input: Input::new(Cursor::new(input.to_owned())),
            ..self.host.clone()
        };
        self.call(host, arguments)
    }

    /// The same where the user types this text on a terminal.
    pub fn run_typing(&self, typed: &str, arguments: &[&str]) -> Ended {
        let host = Host {
            input: Input::new(Cursor::new(typed.to_owned())),
            terminal: Terminals {
                input: true,
                ..Terminals::default()
            },
            ..self.host.clone()
        };
        self.call(host, arguments)
    }

    /// Runs the program on this host.
    fn call(&self, host: Host, arguments: &[&str]) -> Ended {
        {
            let runtime = self.host.runtime.as_ref().expect("has one");
            let _within = runtime.enter();
            *self.begun.lock().expect("is whole") = Instant::now();
        }
        let words = ["stokehold"].iter().chain(arguments);
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        // (On a thread of its own: the caller may be within a runtime.)
        let code = std::thread::scope(|scope| {
            let command = || cli::run_on(host, &words, &mut out, &mut err);
            scope.spawn(command).join().expect("the command ends")
        });
        let text = |bytes| String::from_utf8(bytes).expect("is text");
        Ended {
            code,
            out: text(out),
            err: text(err),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(runtime) = self.host.runtime.take().and_then(Arc::into_inner) {
            runtime.shutdown_background();
        }
    }
}

/// A simulated cluster in this process.
pub struct Cluster {
    /// Its API.
    pub service: Service,
    /// The path of its kubeconfig.
    pub kubeconfig: String,
    host: String,
    clusters: Clusters,
}

impl Cluster {
    /// After so many more writes nothing answers at its address; `None` for as many as come.
    pub fn cut_after(&self, writes: Option<usize>) {
        let mut clusters = self.clusters.lock().expect("is whole");
        let reached = clusters.get_mut(&self.host).expect("is there");
        reached.writes_left = writes;
    }

    /// From now on nothing answers at its address.
    pub fn end(self) {
        self.clusters.lock().expect("is whole").remove(&self.host);
    }
}

fn transport(clusters: &Clusters) -> Transport {
    let clusters = Arc::clone(clusters);
    BoxCloneSyncService::new(service_fn(move |request: Request<Body>| {
        let host = request.uri().host().unwrap_or_default();
        let mut all = clusters.lock().expect("is whole");
        let service = all
            .get_mut(host)
            .and_then(|reached| reached.answers(&request));
        drop(all);
        let is_silent = host == SILENT;
        async move {
            if is_silent {
                return std::future::pending().await;
            }
            match service {
                Some(service) => Ok(service.answer(request).await),
                None => Err(BoxError::from(Error::from(ErrorKind::ConnectionRefused))),
            }
        }
    }))
}

/// The administrator of a simulated fleet.
pub struct CommandLine {
    machine: Machine,
    cluster: Cluster,
    home: tempfile::TempDir,
}

impl CommandLine {
    /// On a fleet of so many nodes.
    pub fn new(nodes: u32) -> Self {
        let home = tempfile::TempDir::new().expect("a folder");
        let machine = Machine::new(home.path());
        let cluster = machine.cluster("kubeconfig", world(1, nodes, false), 1.0);
        Self {
            machine,
            cluster,
            home,
        }
    }

    /// The machine and the cluster.
    pub fn parts(&self) -> (&Machine, &Cluster) {
        (&self.machine, &self.cluster)
    }

    /// Leaves the journal as a process that was killed would, before it could write how its last run ended.
    pub fn forget_end(&self) {
        let journal = self
            .home
            .path()
            .join(".local/state/stokehold/journal.jsonl");
        let text = fs::read_to_string(&journal).expect("is there");
        let is_of_end = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("a record");
            matches!(line["record"].as_str(), Some("end" | "finished"))
        };
        let all: Vec<&str> = text.lines().collect();
        let ended = all.iter().rev().take_while(|line| is_of_end(line)).count();
        let kept = all[..all.len() - ended].join("\n") + "\n";
        fs::write(&journal, kept).expect("can be written");
    }

    /// The file of the plan that was shown last.
    pub fn shown_plan(&self) -> PathBuf {
        let home = self.home.path();
        home.join(".local/state/stokehold/shown-plan.json")
    }

    /// Runs `plan` with these arguments, with the right to write.
    pub fn plan(&self, arguments: &[&str]) -> Ended {
        let own = ["--quiet", "--kubeconfig", &self.cluster.kubeconfig, "plan"];
        let all = [&own[..], arguments, &["--write", "-o", "json"]].concat();
        self.machine.run(&all)
    }

    /// Carries out a plan after this answer to the question for its confirmation.
    pub fn answered(&self, answer: &str, arguments: &[&str]) -> Ended {
        let own = ["--quiet", "--kubeconfig", &self.cluster.kubeconfig, "plan"];
        let all = [&own[..], arguments, &["--write", "--apply"]].concat();
        self.machine.run_typing(answer, &all)
    }

    /// The fleet as it stands.
    pub fn snapshot(&self) -> engine::snapshot::Snapshot {
        super::stage::snapshot(&self.cluster.service)
    }

    /// An object as it stands.
    pub fn object(&self, resource: Resource, namespace: &str, name: &str) -> Value {
        let found = self
            .cluster
            .service
            .cluster()
            .get(resource, namespace, name);
        (*found.unwrap_or_else(|| panic!("{namespace}/{name} is there"))).clone()
    }

    /// Entries of the server's audit so far.
    pub fn noted(&self) -> usize {
        self.cluster.service.cluster().audit().entries().count()
    }

    /// Writes that arrived at the server since so many entries.
    pub fn writes_since(&self, noted: usize) -> usize {
        let audit = self.cluster.service.cluster().audit();
        let new = audit.entries().skip(noted);
        new.filter(|entry| entry.is_mutating()).count()
    }
}

/// The moment of a runtime whose time is paused.
fn begun_on(runtime: &Runtime) -> Begun {
    let _within = runtime.enter();
    Arc::new(Mutex::new(Instant::now()))
}

/// A clock of a runtime whose time is paused; also right outside of it. Panics where a command does not end.
fn clock_of(runtime: &Runtime, begun: Begun) -> Clock {
    let handle = runtime.handle().clone();
    let start = *begun.lock().expect("is whole");
    Arc::new(move || {
        let _within = handle.enter();
        let now = Instant::now();
        let since = now - *begun.lock().expect("is whole");
        assert!(since < LONGEST, "the command does not end");
        begin().plus(now - start)
    })
}
