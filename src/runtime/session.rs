//! Opens sessions: connects settings and a target to running sources, a store, and a stream of facts.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use model::base::{Exit, Failure, Moment, Name};
use model::fleet::observe::Table;
use model::object::{ObjectNews, ObjectRequest};
use record::Archive;
use sim;
use source::client::{Connection, connect};
use source::kubeconfig::ContextChoice;
use source::scrape_coverage::ScrapedNodes;
use source::{self, Sources, StartOptions};
use table::spend::UsageFacts;
use table::waiting::explanations::JobExplanations;
use table::{Facts, NeededReadings, Needs};

use super::actions::action_service::ActionService;
use super::actions::action_task::ActionTask;
use super::actions::explanation_task;
use super::actions::journal_place::journal;
use super::actions::open_runs;
use super::actions::past_plans::PastPlans;
use super::clock::SessionClock;
pub use super::first_look::{Coming, PATIENCE};
use super::reading::ObjectReader;
use super::records::playback::{self, ReplayControl};
use super::records::recorder::{self, RecordSettings, Tape, TapeControl};
use super::records::rewind::PastRecord;
use super::setup::Setup;
pub use super::simulated::Demo;
use super::simulated::{self, KeptFleet, embedded, simulated};
use super::source_options::{namespaces, prometheus, proxied, scrape};
use super::store::{JUDGING, Rules};
use super::store_loop;
use super::usage::facts as usage_facts;

/// Batches of observations that may wait for the store; a source that fills the channel waits.
const BACKLOG: usize = 256;

/// Maximum size of the record of a simulated fleet.
const DEMO_RECORD_BYTES: u64 = 500_000_000;

/// Why a session without a console has no record.
const UNRECORDED: &str = "no record belongs to this";

/// The cluster to open.
#[derive(Clone, Debug)]
pub enum ClusterTarget {
    /// A cluster of the kubeconfig.
    Cluster(ContextChoice),
    /// The embedded simulated cluster.
    Demo(Demo),
    /// The embedded simulated cluster in its current state, after it was opened before.
    Begun(KeptFleet),
    /// A simulated cluster that already runs in this process.
    Running(sim::Service),
}

/// A running session. Dropping it ends all its tasks.
pub struct Session {
    /// The latest facts; `None` before the first.
    pub facts: watch::Receiver<Option<Arc<Facts>>>,
    /// The engine's explanations of these facts.
    pub answers: watch::Receiver<Arc<JobExplanations>>,
    /// Facts from the usage ledger, updated at most once a minute.
    pub usage: watch::Receiver<Arc<UsageFacts>>,
    /// The clock of the cluster or record.
    pub clock: SessionClock,
    /// Nodes on screen: their exporters are read first.
    pub on_screen: watch::Sender<BTreeSet<Name>>,
    pub context: Name,
    /// Reads single objects and logs for the view in front.
    pub reading: ObjectReader,
    /// Controls the replay of a record; `None` for a cluster.
    pub replay: Option<ReplayControl>,
    pub recording: Option<TapeControl>,
    /// A notice about opening the session.
    pub notice: Option<String>,
    /// Makes and carries out plans; `None` for a single snapshot.
    pub actions: Option<ActionTask>,
    /// Makes plans on a record, which cannot be carried out; `None` for a cluster.
    pub past_plans: Option<PastPlans>,
    /// The record of this cluster, or why there is none.
    pub record: Result<PastRecord, String>,
    /// The directory of a record that ends with its session.
    scratch: Option<Arc<TempDir>>,
    /// The server's address, for messages.
    pub(super) server: String,
    /// Nodes whose readings are needed.
    pub(super) reach: watch::Sender<ScrapedNodes>,
    /// The running sources; `None` for a record.
    pub sources: Option<Sources>,
    /// Fires once the store has the open runs of this machine; `None` once it was awaited, or where there is no journal.
    pub(super) runs_read: Option<oneshot::Receiver<()>>,
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

/// Opens a session for a console, and records it where the settings enable that; a simulated fleet of this process is always
/// recorded, for as long as its session. Must be called within a tokio runtime, on a thread that may block. If it cannot be
/// recorded, [`Session::notice`] says why.
///
/// # Errors
/// The kubeconfig cannot be used.
pub fn console(setup: &Setup, target: ClusterTarget) -> Result<Session, Failure> {
    if matches!(target, ClusterTarget::Demo(_) | ClusterTarget::Begun(_)) {
        return demo(setup, target);
    }
    let mut session = match setup.settings.record.enabled {
        true => recorded(setup, target, &RecordSettings::of(&setup.settings))?,
        false => open(setup, target)?,
    };
    session.record = PastRecord::of(setup, &session.context);
    Ok(session)
}

/// Opens a session of a simulated fleet of this process, with a record that goes with it: a later fleet is another one.
fn demo(setup: &Setup, target: ClusterTarget) -> Result<Session, Failure> {
    let folder = match setup.host.scratch.folder("stokehold-demo-") {
        Ok(folder) => folder,
        Err(error) => {
            let mut session = open(setup, target)?;
            session.record = Err(format!("the simulated fleet is not recorded: {error}"));
            return Ok(session);
        }
    };
    let place = folder.path().to_owned();
    let settings = RecordSettings {
        folder: Some(place.clone()),
        max_bytes: DEMO_RECORD_BYTES,
        ..RecordSettings::of(&setup.settings)
    };
    let mut session = recorded(setup, target, &settings)?;
    session.record = Ok(PastRecord::of_demo(setup, &session.context, place));
    session.scratch = Some(folder);
    Ok(session)
}

/// Opens a session and records it, where possible.
fn recorded(
    setup: &Setup,
    target: ClusterTarget,
    settings: &RecordSettings,
) -> Result<Session, Failure> {
    let demo = !matches!(target, ClusterTarget::Cluster(_));
    let (connection, action_service, past) = connected(setup, target, true)?;
    let begun = tokio::runtime::Handle::current().block_on(recorder::begin(&connection, settings));
    let (tape, control, notice) = match begun {
        Ok((tape, control, _)) => (Some(tape), Some(control), None),
        Err(why) => (None, None, Some(format!("not recorded: {}", why.message))),
    };
    let purpose = StartFor::Console(tape);
    let mut session = start(setup, connection, action_service, demo, purpose, past);
    (session.recording, session.notice) = (control, notice);
    Ok(session)
}

/// Opens a session. Must be called within a tokio runtime. Returns at once; nothing has been sent yet.
///
/// # Errors
/// The kubeconfig cannot be used.
pub fn open(setup: &Setup, target: ClusterTarget) -> Result<Session, Failure> {
    open_as(setup, target, None)
}

/// Opens a session for what a single snapshot `needs`, or for everything.
fn open_as(
    setup: &Setup,
    target: ClusterTarget,
    needs: Option<&Needs>,
) -> Result<Session, Failure> {
    let demo = !matches!(target, ClusterTarget::Cluster(_));
    let (connection, action_service, past) = connected(setup, target, needs.is_none())?;
    let purpose = needs.map_or(StartFor::Console(None), StartFor::OneLook);
    let session = start(setup, connection, action_service, demo, purpose, past);
    Ok(session)
}

/// Opens a session and records it, without the engine.
///
/// # Errors
/// The kubeconfig cannot be used, or the record cannot be written.
pub async fn record(
    setup: &Setup,
    target: ClusterTarget,
    record: &RecordSettings,
) -> Result<(Session, TapeControl, PathBuf), Failure> {
    let demo = !matches!(target, ClusterTarget::Cluster(_));
    let (connection, ..) = connected(setup, target, false)?;
    let (tape, control, folder) = recorder::begin(&connection, record).await?;
    let session = start(setup, connection, None, demo, StartFor::Record(tape), None);
    Ok((session, control, folder))
}

/// Opens a session for snapshots only, `pace` apart; also returns the cluster's UID, empty where it cannot be read.
///
/// # Errors
/// The kubeconfig cannot be used.
pub async fn watch(
    setup: &Setup,
    target: ClusterTarget,
    pace: Duration,
) -> Result<(Session, String), Failure> {
    let demo = !matches!(target, ClusterTarget::Cluster(_));
    let (connection, ..) = connected(setup, target, false)?;
    let cluster = recorder::identity(&connection).await;
    let session = start(setup, connection, None, demo, StartFor::Watch(pace), None);
    Ok((session, cluster))
}

/// A connection to the target, its action service if requested, and the simulated cluster whose past is read.
pub(super) fn connected(
    setup: &Setup,
    target: ClusterTarget,
    acts: bool,
) -> Result<(Connection, Option<ActionService>, Option<KeptFleet>), Failure> {
    let proxied = proxied(setup);
    let settings = &setup.settings;
    Ok(match target {
        ClusterTarget::Cluster(choice) => {
            let connection = connect(
                choice.clone(),
                setup.host.clock.clone(),
                proxied,
                setup.interactive,
            )
            .map_err(|fault| Failure::new(Exit::Usage, fault.to_string()))?;
            let action_service = match acts {
                true => Some(ActionService::open(
                    &setup.host,
                    settings,
                    choice,
                    setup.interactive,
                )?),
                false => None,
            };
            (connection, action_service, None)
        }
        ClusterTarget::Demo(demo) => {
            let service = embedded(&demo, setup.host.clock.clone())?;
            let past = demo.world.past.then(|| KeptFleet::new(service.clone()));
            let (connection, action_service) = simulated(setup, service, proxied, acts);
            (connection, action_service, past)
        }
        ClusterTarget::Begun(fleet) => {
            let service = fleet.service.clone();
            let (connection, action_service) = simulated(setup, service, proxied, acts);
            (connection, action_service, Some(fleet))
        }
        ClusterTarget::Running(service) => {
            let (connection, action_service) = simulated(setup, service, proxied, acts);
            (connection, action_service, None)
        }
    })
}

/// Purpose of a session.
pub(super) enum StartFor<'n> {
    /// A console, recorded or not.
    Console(Option<Tape>),
    OneLook(&'n Needs),
    Record(Tape),
    /// Sends findings or serves metrics.
    Watch(Duration),
    Govern(Duration),
}

pub(super) fn rules(setup: &Setup, context: Name, one_look: bool) -> Rules {
    let mut policy = (*setup.rulebook.policy).clone();
    policy.xids = Arc::new(setup.rulebook.thresholds.xid.clone());
    Rules {
        context,
        policy: Arc::new(policy),
        // A single snapshot has no past: findings that must persist fire at once.
        thresholds: match one_look {
            true => Arc::new(setup.rulebook.thresholds.at_once()),
            false => Arc::clone(&setup.rulebook.thresholds),
        },
        prices: Arc::clone(&setup.rulebook.prices),
        // The first snapshot ends as soon as it is complete.
        refresh: match one_look {
            true => Duration::ZERO,
            false => setup.settings.refresh.duration(),
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
    purpose: StartFor<'_>,
    past: Option<KeptFleet>,
) -> Session {
    let reads = !matches!(purpose, StartFor::Govern(_));
    // Without a screen, snapshots are needed for the checks only.
    let pace = match purpose {
        StartFor::Record(_) => Some(recorder::SNAPSHOT_INTERVAL),
        StartFor::Watch(pace) | StartFor::Govern(pace) => Some(pace),
        StartFor::Console(_) | StartFor::OneLook(_) => None,
    };
    let (needs, mut tape) = match purpose {
        StartFor::Console(tape) => (None, tape),
        StartFor::OneLook(needs) => (Some(needs), None),
        StartFor::Record(tape) => (None, Some(tape)),
        StartFor::Watch(_) | StartFor::Govern(_) => (None, None),
    };
    let one_look = needs.is_some();
    if one_look {
        connection.stats.pin();
    }
    let namespaces = namespaces(setup, &connection.namespace);
    let (out, seen) = mpsc::channel(BACKLOG);
    let ledger = demo.then(|| {
        past.as_ref()
            .map(|fleet| fleet.ledger.clone())
            .unwrap_or_default()
    });
    if let Some(fleet) = past.filter(|_| pace.is_none() && !one_look) {
        let dialects = Arc::clone(&setup.rulebook.dialects);
        let cluster = Arc::clone(fleet.service.cluster());
        simulated::begin_past(cluster, namespaces.clone(), dialects, out.clone());
    }
    let (on_screen, shown) = watch::channel(BTreeSet::new());
    let (publish, facts) = watch::channel(None);
    let reach = watch::Sender::new(match needs.map(|needs| &needs.readings) {
        None | Some(NeededReadings::All) => ScrapedNodes::All,
        Some(_) => ScrapedNodes::Undecided,
    });
    let context = connection.context.clone();
    let server = connection.server.clone();
    let reading = ObjectReader::new(Some(connection.client.clone()));
    let clock = SessionClock::Server(Arc::clone(&connection.stats));
    let mut rules = rules(setup, context.clone(), one_look);
    if let Some(pace) = pace {
        rules.refresh = rules.refresh.max(pace);
        rules.judging = rules.judging.min(pace);
        rules.history = false;
    }
    // A single snapshot asks the engine once it is complete.
    let asks = !one_look && pace.is_none();
    if let Some(tape) = &mut tape {
        tape.keep_usage(rules.clone());
    }
    let uses_record = !demo && needs.is_none_or(Needs::uses_record);
    let remembered = recorder::kept(&setup.settings, &context).filter(|_| uses_record);
    let store = store_loop::run(rules, clock.clone(), tape, remembered, seen, publish);
    let store = tokio::spawn(store);
    let runs_read = journal(&setup.settings)
        .filter(|_| reads)
        .map(|journal| open_runs::follow(journal, &connection, out.clone()));
    let actions = action_service.map(|service| ActionTask::new(service, facts.clone()));
    let acted = actions.as_ref().map(ActionTask::acted);
    let (say, answers) = watch::channel(Arc::default());
    let engine = asks.then(|| tokio::spawn(explanation_task::run(facts.clone(), say, acted)));
    let usage = match asks {
        true => usage_facts::watched(setup, &context, ledger, (facts.clone(), clock.clone())),
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
        actions,
        past_plans: None,
        record: Err(UNRECORDED.to_owned()),
        scratch: None,
        server,
        reach,
        sources: Some(sources),
        runs_read,
        store,
        engine,
    }
}

/// The rules for a record: the current settings.
pub fn past_rules(setup: &Setup, archive: &Archive) -> Rules {
    rules(setup, Name::new(archive.context()), false)
}

/// Opens a record at a time and plays it from there. Nothing is connected, and no action is possible.
///
/// # Errors
/// The record cannot be read, or has no data at that time.
pub fn replay(setup: &Setup, archive: Archive, at: Moment, speed: f64) -> Result<Session, Failure> {
    let rules = past_rules(setup, &archive);
    let context = Name::from(format!("{} (record)", rules.context));
    let (publish, facts) = watch::channel(None);
    let (clock, clock_setter) = SessionClock::past(at);
    let (store, control) = playback::play(archive, rules, at, speed, clock_setter, publish)
        .map_err(|fault| Failure::new(Exit::Failed, fault.to_string()))?;
    let (say, answers) = watch::channel(Arc::default());
    let engine = tokio::spawn(explanation_task::run(facts.clone(), say, None));
    Ok(Session {
        past_plans: Some(PastPlans::new(facts.clone())),
        facts,
        answers,
        // For a record, `cost` reads its ledger instead.
        usage: watch::channel(Arc::default()).1,
        clock,
        on_screen: watch::Sender::default(),
        context,
        reading: ObjectReader::new(None),
        replay: Some(control),
        recording: None,
        notice: None,
        actions: None,
        record: Err(UNRECORDED.to_owned()),
        scratch: None,
        server: String::new(),
        reach: watch::Sender::new(ScrapedNodes::All),
        sources: None,
        runs_read: None,
        store,
        engine: Some(engine),
    })
}

/// A single snapshot of the needed tables, on the server's clock; `progress` as for [`Session::first`].
///
/// # Errors
/// The kubeconfig cannot be used, or nothing could be listed.
pub async fn snapshot(
    setup: &Setup,
    target: ClusterTarget,
    needs: &Needs,
    progress: &mut (dyn FnMut(Coming) + Send),
) -> Result<Facts, Failure> {
    let mut session = open_as(setup, target, Some(needs))?;
    session.look(needs, progress).await
}

/// As [`snapshot`]; then reads the single object that `wanted` requests from the facts, if any.
///
/// # Errors
/// As [`snapshot`].
pub async fn page(
    setup: &Setup,
    target: ClusterTarget,
    needs: &Needs,
    progress: &mut (dyn FnMut(Coming) + Send),
    wanted: &dyn Fn(&Facts) -> Option<ObjectRequest>,
) -> Result<(Facts, Option<ObjectNews>), Failure> {
    let mut session = open_as(setup, target, Some(needs))?;
    let facts = session.look(needs, progress).await?;
    let Some(want) = wanted(&facts) else {
        return Ok((facts, None));
    };
    session.reading.set_request(Some(want));
    let (_, news) = session.reading.next().await;
    Ok((facts, Some(news)))
}
