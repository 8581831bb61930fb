//! The API server's tables: one task a table lists and watches it, projects each object at once and keeps none.

pub(super) mod order;
pub(super) mod several;
mod telling;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use tokio::sync::mpsc;

use cluster::pod::PodObject;
use cluster::table;
use model::base::{Moment, Name, Names};
use model::fleet::observe::{Extent, Lost, Observation, Table};

use super::again::Again;
use super::api_error::{ApiError, What};
use super::api_stats::{ApiStats, Class};
use super::server::{Api as ServerApi, Served};
use super::serving::Serving;
use super::watch_object::{WatchObject, resource};
use telling::ROW_EVERY;

/// Observations are handed over in batches of at most this many.
const BATCH: usize = 256;

/// Objects a page of a list.
const PAGE: u32 = 500;

/// A watch is renewed after this many seconds; a silent one is noticed as late as that.
const WATCH_SECONDS: u32 = 180;

/// A list that gives nothing for this long is stuck.
const LIST_PATIENCE: Duration = Duration::from_secs(75);

/// Events in a row that cannot be read before the whole answer counts as nonsense.
const NONSENSE: u32 = 20;

/// Which namespaces to look into.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Namespaces {
    /// All of them; where that is refused, this one.
    All {
        /// The context's namespace.
        otherwise: String,
    },
    /// This one.
    One(String),
    /// These, each for itself.
    Several(Vec<String>),
}

/// What every table's task shares.
pub(super) struct Shared {
    pub client: Client,
    pub stats: Arc<ApiStats>,
    pub server: Arc<ServerApi>,
    pub namespaces: Namespaces,
    pub names: Arc<Mutex<Names>>,
    /// How many names there were when those out of use were last forgotten.
    pub kept: AtomicUsize,
    pub out: mpsc::Sender<Vec<Observation>>,
    /// Whoever wants to know of pods that serve readings.
    pub serving: Option<Serving>,
    /// Namespace of the ConfigMap that holds the queues of `govern`.
    pub govern_namespace: String,
    /// Cluster queues with work that waits.
    pub waiting: order::Waiting,
    /// Asks every table to be listed anew.
    pub again: Again,
}

/// Lists and watches `table` until it is dropped or nobody listens.
pub(super) async fn follow(shared: Arc<Shared>, table: Table) {
    let out = Follower::new(&shared, table).run().await;
    if out.is_err() {
        tracing::debug!(table = table.name(), "the receiver is closed");
    }
}

/// Nobody listens: the task ends.
struct ChannelClosed;

/// Why a watcher was given up.
enum Exit {
    /// To start over, after a wait.
    Restart(Duration),
    /// The table is not served.
    Absent,
    /// All namespaces are refused: only this one.
    Narrow(String),
    /// The server does not stream lists.
    PlainLists,
}

/// How far a table's source has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing has been listed yet.
    New,
    /// A list is under way.
    Listing,
    /// Listed, and watched since.
    Watching,
}

struct Follower<'s> {
    shared: &'s Shared,
    table: Table,
    class: Class,
    batch: Vec<Observation>,
    phase: Phase,
    /// The trouble that was told of, until it is over.
    lost: Option<Lost>,
    failed_at: Option<Moment>,
    met: Option<What>,
    attempt: u32,
    unreadable: u32,
    /// Lists that began since the last one that ended.
    hollow: u32,
    errors: u64,
    skipped: u64,
    narrowed: Option<String>,
    /// It was whole once: a refusal now is a loss, before it is a matter of rights.
    listed: bool,
    widen_at: Option<Moment>,
    /// All namespaces have been listed: a refusal now is a passing one.
    wide_listed: bool,
    awaits_return: bool,
    streams: bool,
    row_at: Option<Moment>,
    again: Again,
    /// Discovery is to be asked anew, whatever it said lately.
    afresh: bool,
}

impl<'s> Follower<'s> {
    fn new(shared: &'s Shared, table: Table) -> Self {
        Self {
            shared,
            table,
            class: Class::Table(table),
            batch: Vec::new(),
            phase: Phase::New,
            lost: None,
            failed_at: None,
            met: None,
            attempt: 0,
            unreadable: 0,
            hollow: 0,
            errors: 0,
            skipped: 0,
            narrowed: None,
            listed: false,
            widen_at: None,
            wide_listed: false,
            awaits_return: false,
            streams: true,
            row_at: None,
            again: shared.again.clone(),
            afresh: false,
        }
    }

    async fn run(mut self) -> Result<(), ChannelClosed> {
        // The version that has just turned out not to be served, which discovery may still name.
        let mut gone: Option<String> = None;
        loop {
            let place = table::place(self.table);
            let version = if place.version.is_empty() {
                let afresh = std::mem::take(&mut self.afresh) || gone.is_some();
                let served = self.shared.server.served(self.table, afresh).await;
                match served {
                    Ok(Served::In(version)) if gone.as_ref() != Some(&version) => version,
                    Ok(_) => {
                        gone = None;
                        self.absent().await?;
                        continue;
                    }
                    Err(trouble) => {
                        let wait = self.fail(&trouble).await?;
                        self.pause(wait).await?;
                        continue;
                    }
                }
            } else {
                place.version.to_owned()
            };
            gone = None;
            match self.watch(&version).await? {
                Exit::Restart(wait) => self.pause(wait).await?,
                Exit::Absent if place.version.is_empty() => gone = Some(version),
                Exit::Absent => self.absent().await?,
                Exit::Narrow(namespace) => self.narrowed = Some(namespace),
                Exit::PlainLists => self.streams = false,
            }
        }
    }

    /// Runs one watcher for as long as it is of use.
    async fn watch(&mut self, version: &str) -> Result<Exit, ChannelClosed> {
        let kind = resource(self.table, version);
        let client = self.shared.client.clone();
        let table::TableResource {
            namespaced, only, ..
        } = table::place(self.table);
        let namespace = match (&self.narrowed, &self.shared.namespaces) {
            _ if self.table == Table::GovernQueues => Some(self.shared.govern_namespace.clone()),
            _ if !namespaced => only.map(|(namespace, _)| namespace.to_owned()),
            (Some(only), _) => Some(only.clone()),
            (None, Namespaces::One(only)) => Some(only.clone()),
            (None, Namespaces::All { .. } | Namespaces::Several(_)) => None,
        };
        let place = namespace.clone().unwrap_or_default();
        let api: Api<WatchObject> = match &namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind),
            None => Api::all_with(client, &kind),
        };
        let mut config = watcher::Config::default()
            .page_size(PAGE)
            .timeout(WATCH_SECONDS);
        if let Some((_, name)) = only {
            config = config.fields(&format!("metadata.name={name}"));
        }
        let streams = self.streams && self.shared.server.streams_lists().await;
        if streams {
            config = config.streaming_lists();
        }
        self.phase = if self.phase == Phase::New {
            Phase::New
        } else {
            Phase::Listing
        };
        let mut events = std::pin::pin!(watcher::watcher(api, config));
        let mut asked_at = self.shared.stats.local();
        let mut begun = false;
        let epoch = self.shared.stats.epoch();
        let mut again = self.again.clone();
        loop {
            let listing = self.phase != Phase::Watching;
            // A stream of a list that never ends its list is from a server that ignores the request for one.
            let patience = if !listing {
                ROW_EVERY
            } else if streams && begun {
                Duration::from_secs(10)
            } else {
                LIST_PATIENCE
            };
            let resumed = async {
                match self.lost {
                    Some(_) if !listing => {
                        self.shared
                            .stats
                            .watch_opened(self.class, &place, asked_at)
                            .await
                    }
                    _ => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                event = tokio::time::timeout(patience, events.next()) => event,
                () = resumed => {
                    if self.shared.stats.epoch() == epoch {
                        self.back();
                        self.flush().await?;
                        continue;
                    }
                    return Ok(Exit::Restart(Duration::ZERO));
                }
                () = again.asked() => {
                    self.again.done();
                    if listing {
                        continue;
                    }
                    // All namespaces may be allowed by now.
                    self.narrowed = None;
                    return Ok(Exit::Restart(Duration::ZERO));
                }
                () = self.shared.out.closed() => return Err(ChannelClosed),
            };
            if self.shared.stats.epoch() != epoch {
                // Another server: what it says from our revision on is about other things.
                return Ok(Exit::Restart(Duration::ZERO));
            }
            let event = match event {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(Exit::Restart(Duration::from_secs(1))),
                Err(_) if !listing => {
                    self.row_when_due().await?;
                    if self.may_widen(&WatchObject::url_path(&kind, None)).await {
                        self.narrowed = None;
                        return Ok(Exit::Restart(Duration::ZERO));
                    }
                    continue;
                }
                Err(_) if streams => return Ok(Exit::PlainLists),
                Err(_) => {
                    let stuck = ApiError::unreachable(format!(
                        "the list of {} has stopped half-way; it is started again",
                        self.table.name()
                    ));
                    let wait = self.fail(&stuck).await?;
                    return Ok(Exit::Restart(wait));
                }
            };
            match event {
                Ok(Event::Init) => {
                    begun = true;
                    self.take(Event::Init);
                    self.hollow += 1;
                    // Lists that begin again and again and never end.
                    if self.hollow > 3 {
                        self.hollow = 0;
                        if streams {
                            return Ok(Exit::PlainLists);
                        }
                        let cut = ApiError::unreachable(format!(
                            "the list of {} is cut off again and again; is something between us and the API server closing connections?",
                            self.table.name()
                        ));
                        let wait = self.fail(&cut).await?;
                        return Ok(Exit::Restart(wait));
                    }
                }
                Ok(event) => self.take(event),
                Err(error) => {
                    if let Some(exit) = self
                        .meet(&error, streams, namespace.is_none() && namespaced)
                        .await?
                    {
                        return Ok(exit);
                    }
                    asked_at = self.shared.stats.local();
                    continue;
                }
            }
            // What is there already goes into the same batch; errors wait for their turn.
            while self.batch.len() < BATCH {
                match ready(&mut events) {
                    Some(Ok(event)) => self.take(event),
                    Some(Err(error)) => {
                        self.flush().await?;
                        if let Some(exit) = self
                            .meet(&error, streams, namespace.is_none() && namespaced)
                            .await?
                        {
                            return Ok(exit);
                        }
                        asked_at = self.shared.stats.local();
                    }
                    None => break,
                }
            }
            self.flush().await?;
            self.row_when_due().await?;
        }
    }

    /// Turns one event into observations.
    fn take(&mut self, event: Event<WatchObject>) {
        self.unreadable = 0;
        match event {
            Event::Init => {
                self.phase = Phase::Listing;
                self.note(&Observation::Begin(self.table));
                self.batch.push(Observation::Begin(self.table));
                if let Some(serving) = &self.shared.serving
                    && self.table == Table::Pods
                {
                    serving.begin();
                }
            }
            Event::InitDone => {
                self.phase = Phase::Watching;
                self.hollow = 0;
                self.wide_listed |= self.narrowed.is_none();
                self.lost = None;
                self.row_at = None;
                self.listed = true;
                if self.table == Table::Pods {
                    self.batch.push(Observation::Covers(self.extent()));
                }
                self.batch.push(Observation::End(self.table));
                if let Some(serving) = &self.shared.serving
                    && self.table == Table::Pods
                {
                    serving.end();
                }
                self.forget_names(true);
            }
            Event::Apply(carried) | Event::InitApply(carried) => {
                let object = cluster::read(self.table, carried.json()).ok();
                let seen = object.and_then(|object| {
                    let mut names = self.names();
                    match object.as_pod() {
                        Some(pod) => seen_pod(pod, self.shared.serving.as_ref(), &mut names),
                        None => object.project(self.table, &mut names),
                    }
                });
                match seen {
                    Some(observation) => {
                        self.note(&observation);
                        self.batch.push(observation);
                    }
                    None => self.skipped += 1,
                }
            }
            Event::Delete(carried) => {
                let object = cluster::read(self.table, carried.json()).ok();
                let key = object.and_then(|object| object.meta().key(&mut self.names()));
                match key {
                    Some(key) => {
                        if let Some(serving) = &self.shared.serving
                            && self.table == Table::Pods
                        {
                            serving.gone(&key);
                        }
                        let gone = Observation::Gone(self.table, key);
                        self.note(&gone);
                        self.batch.push(gone);
                        self.forget_names(false);
                    }
                    None => self.skipped += 1,
                }
            }
        }
    }

    /// The namespaces that are listed.
    fn extent(&self) -> Extent {
        let one = |name: &String| Arc::from([Name::new(name)]);
        match (&self.narrowed, &self.shared.namespaces) {
            (Some(only), _) => Extent::Only(one(only)),
            (None, Namespaces::One(chosen)) => Extent::Chosen(one(chosen)),
            (None, Namespaces::All { .. } | Namespaces::Several(_)) => Extent::All,
        }
    }

    /// Tells whoever asks for the order of pending work.
    fn note(&self, observation: &Observation) {
        if self.table == Table::ClusterQueues {
            self.shared.waiting.note(observation);
        }
    }

    /// Forgets names that nobody holds: after a list, and whenever there are twice as many as were of use.
    fn forget_names(&self, now: bool) {
        let kept = self.shared.kept.load(Ordering::Relaxed);
        let mut names = self.names();
        if now || names.len() > kept.saturating_mul(2).max(10_000) {
            names.prune();
            self.shared.kept.store(names.len(), Ordering::Relaxed);
        }
    }

    fn names(&self) -> std::sync::MutexGuard<'s, Names> {
        self.shared
            .names
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Meets an error: waits where the same watcher can go on, or says why it cannot.
    async fn meet(
        &mut self,
        error: &watcher::Error,
        streams: bool,
        wide: bool,
    ) -> Result<Option<Exit>, ChannelClosed> {
        let trouble = ApiError::of_watcher(self.table, error);
        match trouble.what {
            // The server forgot where we were, which it may: the list that follows is no failure.
            What::Expired => {
                let wait = self.again();
                self.pause(wait).await?;
                return Ok(None);
            }
            What::Garbled => {
                self.errors += 1;
                self.skipped += 1;
                self.unreadable += 1;
                if self.unreadable < NONSENSE {
                    // Only an event without a version makes the watcher list anew.
                    if matches!(error, watcher::Error::NoResourceVersion) {
                        let wait = self.again();
                        self.pause(wait).await?;
                    }
                    return Ok(None);
                }
            }
            What::Misunderstood if streams => return Ok(Some(Exit::PlainLists)),
            What::Missing if !table::place(self.table).group.is_empty() => {
                return Ok(Some(Exit::Absent));
            }
            What::Forbidden if wide && !self.wide_listed => {
                if let Namespaces::All { otherwise } = &self.shared.namespaces {
                    return Ok(Some(Exit::Narrow(otherwise.clone())));
                }
            }
            _ => {}
        }
        let wait = self.fail(&trouble).await?;
        // A watcher that the server does not understand, or that reads nonsense, would go on for ever.
        let hopeless = matches!(
            trouble.what,
            What::Misunderstood | What::Garbled | What::Missing
        );
        if hopeless {
            return Ok(Some(Exit::Restart(wait)));
        }
        self.pause(wait).await?;
        Ok(None)
    }
}

/// What is there without waiting; `None` also at the end, which the next wait will find.
fn ready<S: Stream + Unpin>(events: &mut S) -> Option<S::Item> {
    events.next().now_or_never().flatten()
}

/// A pod as it was seen; whoever scrapes hears of it too.
fn seen_pod(pod: &PodObject, serving: Option<&Serving>, names: &mut Names) -> Option<Observation> {
    let serves = serving.is_some_and(|serving| serving.wants(pod));
    let seen = pod.seen(serves, names)?;
    if let Some(serving) = serving {
        serving.seen(serves, &seen, pod);
    }
    Some(Observation::Pod(Box::new(seen)))
}
