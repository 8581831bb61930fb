//! The composition root: settings and a target become running sources, a store, and a stream of facts.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::base::{Moment, Name};
use crate::cost::Prices;
use crate::exporter::Dialects;
use crate::fleet::accelerator::Catalog;
use crate::fleet::observe::{LostKind, SourceState, Table};
use crate::fleet::thresholds::Thresholds;
use crate::fleet::{Fleet, Known};
use crate::report::Facts;
use crate::settings::{ScrapeMode, Settings};
use crate::sim;
use crate::source::client::{Connection, client_for, connect};
use crate::source::kubeconfig::Choice;
use crate::source::kubernetes::Namespaces;
use crate::source::scrape::{Endpoint, Mode, ScrapeOptions};
use crate::source::wire::Wire;
use crate::source::{self, Sources, StartOptions, proxied_paths};

use super::clock;
use super::store::{self, Rules};

/// Batches of observations that may wait for the store; a source that fills them waits.
const BACKLOG: usize = 256;

/// The simulated cluster lives in this process: nobody's API server is loaded by reading it quickly.
const DEMO_PER_SECOND: f64 = 2000.0;

/// What went wrong, with the exit code that the contract gives it.
#[derive(Debug)]
pub enum Failure {
    /// Settings, flags or files: exit code 2.
    Usage(String),
    /// Rights: exit code 3.
    Refused(String),
    /// Nobody answers: exit code 4.
    Unreachable(String),
    /// Anything else: exit code 1.
    Failed(String),
}

impl Failure {
    /// The exit code of the contract.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Refused(_) => 3,
            Self::Unreachable(_) => 4,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::Refused(why) | Self::Unreachable(why) | Self::Failed(why) => {
                f.write_str(why)
            }
        }
    }
}

impl std::error::Error for Failure {}

/// The simulated fleet to start in this process.
#[derive(Clone, Debug)]
pub struct Demo {
    /// What the world is made of.
    pub world: sim::world::Options,
    /// Virtual seconds a real second; 0 stands still.
    pub speed: f64,
}

/// What to look at.
#[derive(Clone, Debug)]
pub enum Target {
    /// A cluster of the kubeconfig.
    Cluster(Choice),
    /// The embedded simulated one.
    Demo(Demo),
}

/// Everything that a session needs, read and checked.
#[derive(Clone)]
pub struct Setup {
    /// Settings.
    pub settings: Settings,
    /// Known accelerators.
    pub catalog: Arc<Catalog>,
    /// Prices.
    pub prices: Arc<Prices>,
    /// When findings fire.
    pub thresholds: Arc<Thresholds>,
    /// What exporters' pages mean.
    pub dialects: Arc<Dialects>,
    /// Only this namespace (`-n`); `None` is all.
    pub namespace: Option<String>,
    /// Credential plugins may use the terminal: for commands without a screen.
    pub interactive: bool,
}

/// A running session. Dropped, everything that it started ends.
pub struct Session {
    /// The latest facts; `None` until the first.
    pub facts: watch::Receiver<Option<Arc<Facts>>>,
    /// The server's clock.
    pub clock: ServerClock,
    /// Which nodes are on screen: their exporters are read first.
    pub on_screen: watch::Sender<BTreeSet<Name>>,
    /// Name of the context.
    pub context: Name,
    _sources: Sources,
    store: JoinHandle<()>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.store.abort();
    }
}

/// The server's clock: this machine's, corrected by what the server's answers show. Ages are taken against
/// it, so that a laptop with a wrong clock shows right ages.
#[derive(Clone)]
pub struct ServerClock(Arc<Wire>);

impl ServerClock {
    /// The server's moment.
    pub fn now(&self) -> Moment {
        self.0.now()
    }
}

/// Starts everything. Must be called within a tokio runtime. Returns at once; nothing has been sent yet.
///
/// # Errors
/// When the kubeconfig cannot be used.
pub fn open(setup: &Setup, target: Target) -> Result<Session, Failure> {
    open_as(setup, target, false)
}

fn open_as(setup: &Setup, target: Target, one_look: bool) -> Result<Session, Failure> {
    let proxied = proxied_paths(&setup.dialects);
    let demo = matches!(target, Target::Demo(_));
    let connection = match target {
        Target::Cluster(choice) => connect(choice, clock::shared(), proxied, setup.interactive)
            .map_err(|fault| Failure::Usage(fault.to_string()))?,
        Target::Demo(demo) => embedded(demo, proxied)?,
    };
    if one_look {
        connection.wire.pin();
    }
    let namespaces = match &setup.namespace {
        Some(one) => Namespaces::One(one.clone()),
        None => match setup.settings.scope.namespaces.as_slice() {
            [one] => Namespaces::One(one.clone()),
            _ => Namespaces::All {
                otherwise: connection.namespace.clone(),
            },
        },
    };
    let (out, seen) = mpsc::channel(BACKLOG);
    let (on_screen, shown) = watch::channel(BTreeSet::new());
    let (publish, facts) = watch::channel(None);
    let context = connection.context.clone();
    let clock = ServerClock(Arc::clone(&connection.wire));
    let mut policy = setup.settings.policy(Arc::clone(&setup.catalog));
    policy.xids = Arc::new(setup.thresholds.xid.clone());
    let rules = Rules {
        context: context.clone(),
        policy: Arc::new(policy),
        thresholds: Arc::clone(&setup.thresholds),
        prices: Arc::clone(&setup.prices),
    };
    let store = tokio::spawn(store::run(rules, clock.clone(), seen, publish));
    let sources = source::start(StartOptions {
        connection,
        namespaces,
        tables: Table::ALL.to_vec(),
        dialects: Arc::clone(&setup.dialects),
        scrape: Some(scrape(&setup.settings, demo)),
        out,
        on_screen: shown,
    });
    Ok(Session {
        facts,
        clock,
        on_screen,
        context,
        _sources: sources,
        store,
    })
}

fn embedded(demo: Demo, proxied: BTreeSet<String>) -> Result<Connection, Failure> {
    let seed = demo.world.seed;
    let world = sim::world::World::new(demo.world);
    let service = sim::serve::embed(Box::new(world), clock::shared(), demo.speed, seed)
        .map_err(|error| Failure::Failed(format!("cannot start the simulated fleet: {error:#}")))?;
    Ok(client_for(service, "demo", clock::shared(), proxied))
}

fn scrape(settings: &Settings, demo: bool) -> ScrapeOptions {
    let endpoints = settings.scrape.target.iter().map(|target| Endpoint {
        name: target.name.clone(),
        url: target.url.clone(),
        node: target.node.clone(),
        headers: target.headers.clone(),
        bearer_file: target.bearer_file.clone(),
        ca_file: target.ca_file.clone(),
    });
    ScrapeOptions {
        mode: match settings.scrape.mode {
            ScrapeMode::Auto => Mode::Auto,
            ScrapeMode::Proxy => Mode::Proxy,
            ScrapeMode::Direct => Mode::Direct,
        },
        per_second: if demo {
            DEMO_PER_SECOND
        } else {
            settings.scrape.per_second.get()
        },
        in_flight: settings.scrape.in_flight.get() as usize,
        timeout: settings.scrape.timeout.duration(),
        endpoints: endpoints.collect(),
    }
}

/// One look: waits until every table and every exporter has answered or failed, and gives the facts of that
/// moment, on the server's own clock. `patience` bounds the wait for exporters; what has not answered by
/// then is unknown.
///
/// # Errors
/// When the kubeconfig cannot be used, or nothing at all could be listed.
pub async fn snapshot(setup: &Setup, target: Target, patience: Duration) -> Result<Facts, Failure> {
    let mut session = open_as(setup, target, true)?;
    let mut complete_since = None;
    let mut latest: Option<Arc<Facts>> = None;
    let begun = tokio::time::Instant::now();
    loop {
        // Facts come at least every few seconds, so that the patience is looked at.
        match tokio::time::timeout(Duration::from_millis(200), session.facts.changed()).await {
            Ok(Ok(())) => latest = session.facts.borrow_and_update().clone(),
            Ok(Err(_)) => break,
            Err(_) => {}
        }
        let Some(facts) = latest.as_ref() else {
            continue;
        };
        if !facts.fleet.is_complete() {
            if begun.elapsed() > patience.max(Duration::from_secs(60)) {
                break;
            }
            continue;
        }
        let since = *complete_since.get_or_insert_with(tokio::time::Instant::now);
        if nothing_known(&facts.fleet) || has_read_all(&facts.fleet) || since.elapsed() > patience {
            break;
        }
    }
    let facts =
        latest.ok_or_else(|| Failure::Unreachable(String::from("no source has answered")))?;
    let mut fleet = (*facts.fleet).clone();
    if nothing_known(&fleet) {
        return Err(why_nothing(&fleet));
    }
    // One look is no rate: a single answer's latency and half a minute's count would be noise.
    let still: Vec<_> = fleet
        .sources
        .iter()
        .map(|source| {
            let mut source = source.clone();
            source.latency_ms = None;
            source.calls_per_minute = None;
            source
        })
        .collect();
    fleet.sources = still.into();
    fleet.revision = 1;
    Ok(Facts {
        fleet: Arc::new(fleet),
        ..(*facts).clone()
    })
}

/// True once no exporter is still to answer for the first time.
fn has_read_all(fleet: &Fleet) -> bool {
    fleet
        .sources
        .iter()
        .all(|source| source.last_ok.is_some() || source.state == SourceState::Lost)
}

fn nothing_known(fleet: &Fleet) -> bool {
    !fleet
        .known
        .values()
        .any(|known| matches!(known, Known::Live))
}

fn why_nothing(fleet: &Fleet) -> Failure {
    let mut lost: Vec<_> = fleet
        .known
        .values()
        .filter_map(|known| match known {
            Known::Lost(lost) => Some(lost),
            _ => None,
        })
        .collect();
    lost.sort_by_key(|lost| lost.kind == LostKind::Rights);
    match lost.first() {
        Some(lost) if lost.kind == LostKind::Rights => Failure::Refused(lost.message.clone()),
        Some(lost) => Failure::Unreachable(lost.message.clone()),
        None => Failure::Unreachable(String::from("the API server has not answered in time")),
    }
}
