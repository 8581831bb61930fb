//! The composition root: settings and a target become running sources, a store, and a stream of facts.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use model::base::{Exit, Failure, Moment, Name};
use model::fleet::observe::Table;
use model::object::{ObjectNews, ObjectRequest};
use record::Archive;
use settings::{Rulebook, Settings};
use sim;
use source::client::{Connection, connect};
use source::kubeconfig::Choice;
use source::kubernetes::Namespaces;
use source::scrape_coverage::Reach;
use source::{self, Sources, StartOptions};
use table::explanations::JobExplanations;
use table::spend::UsageFacts;
use table::{Facts, Needs, Readings};

use super::action_service::ActionService;
use super::action_task::ActionTask;
use super::clock::{self, SessionClock};
use super::explanation_task;
use super::first_look::{
    has_found_all, has_places, listed, lull, nothing_known, readings, waits_for_prometheus,
    why_nothing,
};
use super::past_plans::PastPlans;
use super::playback::{self, ReplayControl};
use super::reading::Reading;
use super::rewind::PastRecord;
use super::simulated::{self, embedded, simulated};
use super::source_options::{prometheus, proxied, scrape};
use super::store::{self, JUDGING, Rules};
use super::tape::{self, RecordSettings, Tape, TapeControl};
use super::usage_facts;

/// Batches of observations that may wait for the store; a source that fills them waits.
const BACKLOG: usize = 256;

/// Where no console was opened, no record is looked for.
const UNRECORDED: &str = "no record belongs to this";

/// Namespaces that are each watched for themselves.
const MOST_NAMESPACES: usize = 12;

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
pub enum ClusterTarget {
    /// A cluster of the kubeconfig.
    Cluster(Choice),
    /// The embedded simulated one.
    Demo(Demo),
    /// A simulated one that runs in this process already.
    Running(sim::Service),
}

/// Everything that a session needs, read and checked.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Settings.
    pub settings: Settings,
    /// Rules, thresholds, prices and dialects.
    pub rulebook: Rulebook,
    /// Credential plugins may use the terminal: for commands without a screen.
    pub interactive: bool,
    /// Every namespace is listed; the first that was chosen stands in where that is refused.
    pub every_namespace: bool,
}

/// A running session. Dropped, everything that it started ends.
pub struct Session {
    /// The latest facts; `None` until the first.
    pub facts: watch::Receiver<Option<Arc<Facts>>>,
    /// What the engine says of them.
    pub answers: watch::Receiver<Arc<JobExplanations>>,
    /// What the usage ledger of its record tells, at most once a minute.
    pub usage: watch::Receiver<Arc<UsageFacts>>,
    /// The clock of what is looked at.
    pub clock: SessionClock,
    /// Which nodes are on screen: their exporters are read first.
    pub on_screen: watch::Sender<BTreeSet<Name>>,
    /// Name of the context.
    pub context: Name,
    /// Reads single objects and logs for the view in front.
    pub reading: Reading,
    /// Moves in the record that is replayed; nothing for a cluster.
    pub replay: Option<ReplayControl>,
    /// What is written down of it, where it is recorded.
    pub recording: Option<TapeControl>,
    /// A notice about how it was opened.
    pub notice: Option<String>,
    /// Makes plans and carries them out; `None` for one look.
    pub actions: Option<ActionTask>,
    /// Makes plans on a record, which nothing carries out; nothing for a cluster.
    pub past_plans: Option<PastPlans>,
    /// The record of what is looked at, or why there is none.
    pub record: Result<PastRecord, String>,
    /// The server's address, for messages.
    server: String,
    /// Whose readings are needed.
    reach: watch::Sender<Reach>,
    /// What is read; nothing of a record.
    pub sources: Option<Sources>,
    store: JoinHandle<()>,
    engine: Option<JoinHandle<()>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.store.abort();
        if let Some(engine) = &self.engine {
            engine.abort();
        }
    }
}

/// Starts everything for a console, and records it where the settings want that. Must be called within a tokio runtime, on a
/// thread that may block. What keeps it from being recorded is said in [`Session::notice`]: the console goes on.
///
/// # Errors
/// When the kubeconfig cannot be used.
pub fn console(setup: &Setup, target: ClusterTarget) -> Result<Session, Failure> {
    // A simulated fleet of this process is another one each time.
    let passing = matches!(target, ClusterTarget::Demo(_));
    let mut session = match setup.settings.record.enabled && !passing {
        true => recorded(setup, target)?,
        false => open(setup, target)?,
    };
    session.record = PastRecord::of(setup, &session.context, passing);
    Ok(session)
}

/// Starts everything and records it, where that can be.
fn recorded(setup: &Setup, target: ClusterTarget) -> Result<Session, Failure> {
    let recording = &setup.settings.record;
    let demo = !matches!(target, ClusterTarget::Cluster(_));
    let (connection, action_service, _) = connected(setup, target, true)?;
    let settings = RecordSettings::of(recording);
    let begun = tokio::runtime::Handle::current().block_on(tape::begin(&connection, &settings));
    let (tape, control, notice) = match begun {
        Ok((tape, control, _)) => (Some(tape), Some(control), None),
        Err(why) => (None, None, Some(format!("not recorded: {}", why.message))),
    };
    let mut session = start(
        setup,
        connection,
        action_service,
        demo,
        Purpose::Console(tape),
        None,
    );
    (session.recording, session.notice) = (control, notice);
    Ok(session)
}

/// Starts everything. Must be called within a tokio runtime. Returns at once; nothing has been sent yet.
///
/// # Errors
/// When the kubeconfig cannot be used.
pub fn open(setup: &Setup, target: ClusterTarget) -> Result<Session, Failure> {
    open_as(setup, target, None)
}

/// Starts what one look `needs`, or everything.
fn open_as(
    setup: &Setup,
    target: ClusterTarget,
    needs: Option<&Needs>,
) -> Result<Session, Failure> {
    let demo = !matches!(target, ClusterTarget::Cluster(_));
    let (connection, action_service, past) = connected(setup, target, needs.is_none())?;
    let purpose = needs.map_or(Purpose::Console(None), Purpose::OneLook);
    let session = start(setup, connection, action_service, demo, purpose, past);
    Ok(session)
}

/// Starts everything and records it; the engine is not asked, for nobody looks.
///
/// # Errors
/// When the kubeconfig cannot be used, or the record cannot be written.
pub async fn record(
    setup: &Setup,
    target: ClusterTarget,
    record: &RecordSettings,
) -> Result<(Session, TapeControl, PathBuf), Failure> {
    let demo = !matches!(target, ClusterTarget::Cluster(_));
    let (connection, ..) = connected(setup, target, false)?;
    let (tape, control, folder) = tape::begin(&connection, record).await?;
    let session = start(setup, connection, None, demo, Purpose::Record(tape), None);
    Ok((session, control, folder))
}

/// Starts everything for pictures alone, `pace` apart; gives the cluster's UID as well, empty where it may not be read.
///
/// # Errors
/// When the kubeconfig cannot be used.
pub async fn watch(
    setup: &Setup,
    target: ClusterTarget,
    pace: Duration,
) -> Result<(Session, String), Failure> {
    let demo = !matches!(target, ClusterTarget::Cluster(_));
    let (connection, ..) = connected(setup, target, false)?;
    let cluster = tape::identity(&connection).await;
    let session = start(setup, connection, None, demo, Purpose::Watch(pace), None);
    Ok((session, cluster))
}

/// A connection to what is looked at, what acts on it where it is asked for, and the simulated cluster whose past is read.
pub(super) fn connected(
    setup: &Setup,
    target: ClusterTarget,
    acts: bool,
) -> Result<(Connection, Option<ActionService>, Option<sim::Service>), Failure> {
    let proxied = proxied(setup);
    let settings = &setup.settings;
    Ok(match target {
        ClusterTarget::Cluster(choice) => {
            let connection = connect(choice.clone(), clock::shared(), proxied, setup.interactive)
                .map_err(|fault| Failure::new(Exit::Usage, fault.to_string()))?;
            let action_service = match acts {
                true => Some(ActionService::open(settings, choice, setup.interactive)?),
                false => None,
            };
            (connection, action_service, None)
        }
        ClusterTarget::Demo(demo) => {
            let has_past = demo.world.past;
            let service = embedded(demo)?;
            let (connection, action_service) = simulated(settings, service.clone(), proxied, acts);
            (
                connection,
                action_service,
                Some(service).filter(|_| has_past),
            )
        }
        ClusterTarget::Running(service) => {
            let (connection, action_service) = simulated(settings, service, proxied, acts);
            (connection, action_service, None)
        }
    })
}

/// What a session is for.
pub(super) enum Purpose<'n> {
    /// Somebody looks; recorded or not.
    Console(Option<Tape>),
    OneLook(&'n Needs),
    Record(Tape),
    /// Findings are sent, or metrics served.
    Watch(Duration),
    Govern(Duration),
}

/// What the store judges by.
pub(super) fn rules(setup: &Setup, context: Name, one_look: bool) -> Rules {
    let mut policy = (*setup.rulebook.policy).clone();
    policy.xids = Arc::new(setup.rulebook.thresholds.xid.clone());
    Rules {
        context,
        policy: Arc::new(policy),
        // One look has no past: what must last to fire fires at once.
        thresholds: if one_look {
            Arc::new(setup.rulebook.thresholds.at_once())
        } else {
            Arc::clone(&setup.rulebook.thresholds)
        },
        prices: Arc::clone(&setup.rulebook.prices),
        // A first look is over as soon as it is whole.
        refresh: if one_look {
            Duration::ZERO
        } else {
            setup.settings.refresh.duration()
        },
        judging: if one_look { Duration::ZERO } else { JUDGING },
        one_look,
        history: true,
    }
}

pub(super) fn start(
    setup: &Setup,
    connection: Connection,
    action_service: Option<ActionService>,
    demo: bool,
    purpose: Purpose<'_>,
    past: Option<sim::Service>,
) -> Session {
    let reads = !matches!(purpose, Purpose::Govern(_));
    // Without a screen, pictures are made for the checks alone.
    let pace = match purpose {
        Purpose::Record(_) => Some(tape::PACE),
        Purpose::Watch(pace) | Purpose::Govern(pace) => Some(pace),
        Purpose::Console(_) | Purpose::OneLook(_) => None,
    };
    let (needs, tape) = match purpose {
        Purpose::Console(tape) => (None, tape),
        Purpose::OneLook(needs) => (Some(needs), None),
        Purpose::Record(tape) => (None, Some(tape)),
        Purpose::Watch(_) | Purpose::Govern(_) => (None, None),
    };
    let one_look = needs.is_some();
    if one_look {
        connection.stats.pin();
    }
    let namespaces = match setup.settings.scope.namespaces.as_slice() {
        [first, ..] if setup.every_namespace => Namespaces::All {
            otherwise: first.clone(),
        },
        [one] => Namespaces::One(one.clone()),
        // More than these are cut out of all of them where rows are made: a watch for each would be dearer.
        several @ [_, ..] if several.len() <= MOST_NAMESPACES => {
            Namespaces::Several(several.to_vec())
        }
        _ => Namespaces::All {
            otherwise: connection.namespace.clone(),
        },
    };
    let (out, seen) = mpsc::channel(BACKLOG);
    if let Some(service) = past.filter(|_| pace.is_none() && !one_look) {
        let dialects = Arc::clone(&setup.rulebook.dialects);
        simulated::begin_past(Arc::clone(service.cluster()), dialects, out.clone());
    }
    let (on_screen, shown) = watch::channel(BTreeSet::new());
    let (publish, facts) = watch::channel(None);
    let reach = watch::Sender::new(match needs.map(|needs| &needs.readings) {
        None | Some(Readings::All) => Reach::All,
        Some(_) => Reach::Undecided,
    });
    let context = connection.context.clone();
    let server = connection.server.clone();
    let reading = Reading::new(Some(connection.client.clone()));
    let clock = SessionClock::Server(Arc::clone(&connection.stats));
    let mut rules = rules(setup, context.clone(), one_look);
    if let Some(pace) = pace {
        rules.refresh = rules.refresh.max(pace);
        rules.judging = rules.judging.min(pace);
        rules.history = false;
    }
    // One look asks when it has all that it looks at.
    let asks = !one_look && pace.is_none();
    let mut tape = tape;
    if let Some(tape) = &mut tape {
        tape.keep_usage(rules.clone());
    }
    let store = tokio::spawn(store::run(rules, clock.clone(), tape, seen, publish));
    let facts_of_deeds = facts.clone();
    let (say, answers) = watch::channel(Arc::default());
    let engine = asks.then(|| tokio::spawn(explanation_task::run(facts.clone(), say)));
    let usage = match asks {
        true => usage_facts::watched(setup, &context, demo, (facts.clone(), clock.clone())),
        false => watch::channel(Arc::default()).1,
    };
    let sources = source::start(StartOptions {
        connection,
        namespaces,
        tables: needs.map_or(Table::ALL, |needs| needs.tables).to_vec(),
        govern_namespace: setup.settings.govern.namespace.clone(),
        dialects: Arc::clone(&setup.rulebook.dialects),
        scrape: reads.then(|| scrape(&setup.settings, demo)),
        prometheus: prometheus(&setup.settings).filter(|_| reads && !demo),
        out,
        on_screen: shown,
        reach: reach.subscribe(),
    });
    Session {
        facts,
        answers,
        usage,
        clock,
        on_screen,
        context,
        reading,
        replay: None,
        recording: None,
        notice: None,
        actions: action_service
            .map(|action_service| ActionTask::new(action_service, facts_of_deeds)),
        past_plans: None,
        record: Err(UNRECORDED.to_owned()),
        server,
        reach,
        sources: Some(sources),
        store,
        engine,
    }
}

/// What the store judges a record by: the settings of now.
pub fn past_rules(setup: &Setup, archive: &Archive) -> Rules {
    rules(setup, Name::new(archive.context()), false)
}

/// Opens a record at a moment and plays on from there. Nothing is connected, and nothing can be acted on.
///
/// # Errors
/// The record cannot be read, or has nothing of that moment.
pub fn replay(setup: &Setup, archive: Archive, at: Moment, speed: f64) -> Result<Session, Failure> {
    let rules = past_rules(setup, &archive);
    let context = Name::from(format!("{} (record)", rules.context));
    let (publish, facts) = watch::channel(None);
    let (clock, hands) = SessionClock::past(at);
    let (store, control) = playback::play(archive, rules, at, speed, hands, publish)
        .map_err(|fault| Failure::new(Exit::Failed, fault.to_string()))?;
    let (say, answers) = watch::channel(Arc::default());
    let engine = tokio::spawn(explanation_task::run(facts.clone(), say));
    Ok(Session {
        past_plans: Some(PastPlans::new(facts.clone())),
        facts,
        answers,
        // The record is looked at: `cost` tells of its ledger.
        usage: watch::channel(Arc::default()).1,
        clock,
        on_screen: watch::Sender::default(),
        context,
        reading: Reading::new(None),
        replay: Some(control),
        recording: None,
        notice: None,
        actions: None,
        record: Err(UNRECORDED.to_owned()),
        server: String::new(),
        reach: watch::Sender::new(Reach::All),
        sources: None,
        store,
        engine: Some(engine),
    })
}

/// A number that no other simulated cluster has: what was done on one is not done on the next, though both are made from
/// one seed.
pub fn identity() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// How long a first look takes at most. What has not answered by then is unknown.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long a first look waits, once the tables are complete, for the places of work that waits. A Kueue that does not tell says so at once; one that is slow is not waited for.
const ORDER: Duration = Duration::from_millis(1500);

/// How far a first look has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coming {
    /// Tables that are listed, absent or lost, and all that are needed.
    pub tables: (usize, usize),
    /// Exporters (or Prometheus in their stead) that have answered or failed, and all that are asked.
    pub readings: (usize, usize),
}

impl Session {
    /// One look: the facts as they are printed.
    async fn look(
        &mut self,
        needs: &Needs,
        told: &mut dyn FnMut(Coming),
    ) -> Result<Facts, Failure> {
        let facts = self.first(needs, told).await?;
        let mut fleet = (*facts.fleet).clone();
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

    /// Waits until all that is needed has answered or failed, and gives the facts of that moment.
    ///
    /// `told` is told how far it has come, some five times a second.
    ///
    /// # Errors
    /// When nothing at all could be listed: refused, or not reachable.
    pub async fn first(
        &mut self,
        needs: &Needs,
        told: &mut dyn FnMut(Coming),
    ) -> Result<Arc<Facts>, Failure> {
        let begun = tokio::time::Instant::now();
        let mut latest: Option<Arc<Facts>> = None;
        let mut listed_at = None;
        let mut answered = (0, begun);
        while begun.elapsed() < PATIENCE {
            match tokio::time::timeout(Duration::from_millis(200), self.facts.changed()).await {
                Ok(Ok(())) => latest = self.facts.borrow_and_update().clone(),
                Ok(Err(_)) => break,
                Err(_) => {}
            }
            let Some(fleet) = latest.as_ref().map(|facts| &facts.fleet) else {
                continue;
            };
            let coming = Coming {
                tables: listed(fleet, needs),
                readings: readings(fleet),
            };
            told(coming);
            if coming.tables.0 < coming.tables.1 {
                continue;
            }
            let listed_at = *listed_at.get_or_insert_with(tokio::time::Instant::now);
            if nothing_known(fleet) {
                break;
            }
            if *self.reach.borrow() == Reach::Undecided {
                let nodes = needs.nodes(fleet);
                self.reach
                    .send_replace(nodes.map_or(Reach::All, Reach::Nodes));
                answered = (0, tokio::time::Instant::now());
            }
            let placed = !needs.places
                || fleet.order_not_told
                || has_places(fleet)
                || listed_at.elapsed() >= ORDER;
            if coming.readings.0 != answered.0 || !has_found_all(fleet) {
                answered = (coming.readings.0, tokio::time::Instant::now());
            }
            let read = match &*self.reach.borrow() {
                Reach::Nodes(nodes) if nodes.is_empty() => true,
                _ if !has_found_all(fleet) => false,
                _ => {
                    let lull = answered.1.elapsed() >= lull(coming.readings);
                    coming.readings.0 == coming.readings.1 || lull && !waits_for_prometheus(fleet)
                }
            };
            if placed && read {
                break;
            }
        }
        match latest {
            Some(facts) if nothing_known(&facts.fleet) => {
                Err(why_nothing(&facts.fleet, &self.server))
            }
            Some(facts) => Ok(facts),
            None => Err(Failure::new(Exit::Unreachable, "no source has answered")),
        }
    }
}

/// One look at all that is needed, on the server's own clock; `told` as for [`Session::first`].
///
/// # Errors
/// When the kubeconfig cannot be used, or nothing at all could be listed.
pub async fn snapshot(
    setup: &Setup,
    target: ClusterTarget,
    needs: &Needs,
    told: &mut dyn FnMut(Coming),
) -> Result<Facts, Failure> {
    let mut session = open_as(setup, target, Some(needs))?;
    session.look(needs, told).await
}

/// The same, and what comes of what is wanted to be read of a single object then; nothing where nothing is.
///
/// # Errors
/// As [`snapshot`].
pub async fn page(
    setup: &Setup,
    target: ClusterTarget,
    needs: &Needs,
    told: &mut dyn FnMut(Coming),
    wanted: &dyn Fn(&Facts) -> Option<ObjectRequest>,
) -> Result<(Facts, Option<ObjectNews>), Failure> {
    let mut session = open_as(setup, target, Some(needs))?;
    let facts = session.look(needs, told).await?;
    let Some(want) = wanted(&facts) else {
        return Ok((facts, None));
    };
    session.reading.want(Some(want));
    let (_, news) = session.reading.next().await;
    Ok((facts, Some(news)))
}
