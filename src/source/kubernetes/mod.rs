//! Watches of the API server's tables: one task per table lists and watches, and projects each object without keeping it.

pub(super) mod order;
mod reporting;
pub(super) mod several;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use tokio::sync::mpsc;

use cluster::pod::PodObject;
use model::base::{Moment, Name, Names};
use model::fleet::observe::{ListedNamespaces, Lost, Observation, Table};
use model::fleet::source_errors::SourceErrors;

use super::api_error::{ApiError, ChannelClosed, What};
use super::api_stats::{ApiStats, RequestClass};
use super::reread::Again;
use super::server::{Api as ServerApi, TableAvailability};
use super::serving::ServingSenders;
use super::watch_object::{WatchObject, resource};
use reporting::ROW_EVERY;

/// Most observations in one batch.
const BATCH: usize = 256;

/// Objects per page of a list.
const PAGE: u32 = 500;

/// Timeout of a watch in seconds, after which it is renewed; a dead watch is noticed at that time at the latest.
const WATCH_SECONDS: u32 = 180;

/// A list that sends nothing for this long is treated as stuck.
const LIST_PATIENCE: Duration = Duration::from_secs(75);

/// Unreadable events in a row before the whole answer counts as invalid.
const NONSENSE: u32 = 20;

/// Which namespaces to read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Namespaces {
    /// All namespaces; where that is forbidden, `otherwise`.
    All {
        /// The context's namespace, or the first of the settings.
        otherwise: String,
        /// True for the context's.
        of_context: bool,
    },
    One(String),
    /// Several namespaces, each listed and watched separately.
    Several(Vec<String>),
}

impl Namespaces {
    /// True where objects of this namespace are read, if permissions allow it.
    pub fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All { .. } => true,
            Self::One(one) => one == namespace,
            Self::Several(all) => all.iter().any(|one| one == namespace),
        }
    }
}

/// What the tasks of all tables share.
pub(super) struct Shared {
    pub client: Client,
    pub stats: Arc<ApiStats>,
    pub server: Arc<ServerApi>,
    pub namespaces: Namespaces,
    pub names: Arc<Mutex<Names>>,
    /// Number of interned names after the last cleanup of unused ones.
    pub kept: AtomicUsize,
    pub out: mpsc::Sender<Vec<Observation>>,
    /// Receives pods that serve metrics pages, if anything scrapes them.
    pub serving: Option<ServingSenders>,
    /// Namespace of the ConfigMap that contains the queues of `govern`.
    pub govern_namespace: String,
    /// Cluster queues with pending workloads.
    pub waiting: order::PendingQueues,
    /// Requests a new list of every table.
    pub again: Again,
}

/// Lists and watches `table` until the task is dropped or the receiver is closed.
pub(super) async fn follow(shared: Arc<Shared>, table: Table) {
    let out = TableFollower::new(&shared, table).run().await;
    if out.is_err() {
        tracing::debug!(table = table.name(), "the receiver is closed");
    }
}

/// Why a watcher ended.
enum WatcherEnd {
    /// Start over after this wait.
    Restart(Duration),
    /// The table is not served.
    Absent,
    /// Listing all namespaces is forbidden: only this one.
    Narrow(String),
    /// The server does not support streaming lists.
    PlainLists,
}

/// State of a table's source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WatchPhase {
    /// Nothing has been listed yet.
    New,
    /// A list is under way.
    Listing,
    /// Listed, and watched since.
    Watching,
}

struct TableFollower<'s> {
    shared: &'s Shared,
    table: Table,
    class: RequestClass,
    batch: Vec<Observation>,
    phase: WatchPhase,
    /// The failure that was reported and is not over yet.
    lost: Option<Lost>,
    failed_at: Option<Moment>,
    met: Option<What>,
    attempt: u32,
    unreadable: u32,
    /// Lists that began since the last one that completed.
    hollow: u32,
    errors: SourceErrors,
    skipped: u64,
    narrowed: Option<String>,
    /// The table was complete once: a refusal is reported as a loss before it counts as missing rights.
    listed: bool,
    widen_at: Option<Moment>,
    /// All namespaces were listed once: a refusal now may be transient.
    wide_listed: bool,
    awaits_return: bool,
    streams: bool,
    row_at: Option<Moment>,
    again: Again,
    /// Repeat discovery, whatever its last answer was.
    afresh: bool,
}

impl<'s> TableFollower<'s> {
    fn new(shared: &'s Shared, table: Table) -> Self {
        Self {
            shared,
            table,
            class: RequestClass::Table(table),
            batch: Vec::new(),
            phase: WatchPhase::New,
            lost: None,
            failed_at: None,
            met: None,
            attempt: 0,
            unreadable: 0,
            hollow: 0,
            errors: SourceErrors::default(),
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
        // The version that turned out not to be served, though discovery may still list it.
        let mut gone: Option<String> = None;
        loop {
            let place = self.table.api();
            // What has to be served for it to have objects: mostly its own kind.
            let basis = place.follows.unwrap_or(self.table);
            let version = if basis.api().version.is_empty() {
                let afresh = std::mem::take(&mut self.afresh) || gone.is_some();
                let served = self.shared.server.served(basis, afresh).await;
                match served {
                    Ok(TableAvailability::In(_)) if basis != self.table => place.version.to_owned(),
                    Ok(TableAvailability::In(version)) if gone.as_ref() != Some(&version) => {
                        version
                    }
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
                WatcherEnd::Restart(wait) => self.pause(wait).await?,
                WatcherEnd::Absent if place.version.is_empty() => gone = Some(version),
                WatcherEnd::Absent => self.absent().await?,
                WatcherEnd::Narrow(namespace) => self.narrowed = Some(namespace),
                WatcherEnd::PlainLists => self.streams = false,
            }
        }
    }

    /// Runs one watcher until it ends.
    async fn watch(&mut self, version: &str) -> Result<WatcherEnd, ChannelClosed> {
        let kind = resource(self.table, version);
        let client = self.shared.client.clone();
        let it = self.table.api();
        let namespaced = it.namespaced;
        let namespace = match (&self.narrowed, &self.shared.namespaces) {
            _ if self.table == Table::GovernQueues => Some(self.shared.govern_namespace.clone()),
            _ if !namespaced => it.namespace().map(str::to_owned),
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
        if let Some(fields) = it.fields() {
            config = config.fields(&fields);
        }
        let streams = self.streams && self.shared.server.streams_lists().await;
        if streams {
            config = config.streaming_lists();
        }
        self.phase = if self.phase == WatchPhase::New {
            WatchPhase::New
        } else {
            WatchPhase::Listing
        };
        let mut events = std::pin::pin!(watcher::watcher(api, config));
        let mut asked_at = self.shared.stats.local();
        let mut begun = false;
        let epoch = self.shared.stats.epoch();
        let mut again = self.again.clone();
        loop {
            let listing = self.phase != WatchPhase::Watching;
            // A streaming list that never completes comes from a server that ignores the request for one.
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
                    return Ok(WatcherEnd::Restart(Duration::ZERO));
                }
                () = again.requested() => {
                    self.again.done();
                    if listing {
                        continue;
                    }
                    // Listing all namespaces may be allowed by now.
                    self.narrowed = None;
                    return Ok(WatcherEnd::Restart(Duration::ZERO));
                }
                () = self.shared.out.closed() => return Err(ChannelClosed),
            };
            if self.shared.stats.epoch() != epoch {
                // Another server answers: its events after our revision are unrelated to the list.
                return Ok(WatcherEnd::Restart(Duration::ZERO));
            }
            let event = match event {
                Ok(Some(event)) => event,
                Ok(None) => return Ok(WatcherEnd::Restart(Duration::from_secs(1))),
                Err(_) if !listing => {
                    self.row_when_due().await?;
                    if self.may_widen(&WatchObject::url_path(&kind, None)).await {
                        self.narrowed = None;
                        return Ok(WatcherEnd::Restart(Duration::ZERO));
                    }
                    continue;
                }
                Err(_) if streams => return Ok(WatcherEnd::PlainLists),
                Err(_) => {
                    let stuck = ApiError::unreachable(format!(
                        "the list of {} has stopped half-way; it is started again",
                        self.table.name()
                    ));
                    let wait = self.fail(&stuck).await?;
                    return Ok(WatcherEnd::Restart(wait));
                }
            };
            match event {
                Ok(Event::Init) => {
                    begun = true;
                    self.take(Event::Init);
                    self.hollow += 1;
                    // Lists that begin again and again and never complete.
                    if self.hollow > 3 {
                        self.hollow = 0;
                        if streams {
                            return Ok(WatcherEnd::PlainLists);
                        }
                        let cut = ApiError::unreachable(format!(
                            "the list of {} is cut off again and again; is something between us and the API server closing connections?",
                            self.table.name()
                        ));
                        let wait = self.fail(&cut).await?;
                        return Ok(WatcherEnd::Restart(wait));
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
            // Events that are ready go into the same batch; errors are handled after it.
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
                self.phase = WatchPhase::Listing;
                self.note(&Observation::Begin(self.table));
                self.batch.push(Observation::Begin(self.table));
                if let Some(serving) = &self.shared.serving
                    && self.table == Table::Pods
                {
                    serving.begin();
                }
            }
            Event::InitDone => {
                self.phase = WatchPhase::Watching;
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

    /// The namespaces that this table lists.
    fn extent(&self) -> ListedNamespaces {
        let one = |name: &String| Arc::from([Name::new(name)]);
        match (&self.narrowed, &self.shared.namespaces) {
            (Some(only), Namespaces::All { of_context, .. }) => ListedNamespaces::Fallback {
                namespace: Name::new(only),
                of_context: *of_context,
            },
            (Some(only), _) => ListedNamespaces::Only(one(only)),
            (None, Namespaces::One(chosen)) => ListedNamespaces::Chosen(one(chosen)),
            (None, Namespaces::All { .. } | Namespaces::Several(_)) => ListedNamespaces::All,
        }
    }

    /// Notes cluster queues with pending workloads, for the query of their order.
    fn note(&self, observation: &Observation) {
        if self.table == Table::ClusterQueues {
            self.shared.waiting.note(observation);
        }
    }

    /// Drops unused interned names: after a list, and when their number has doubled since the last cleanup.
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

    /// Handles an error: waits where the same watcher can continue, or returns why it cannot.
    async fn meet(
        &mut self,
        error: &watcher::Error,
        streams: bool,
        wide: bool,
    ) -> Result<Option<WatcherEnd>, ChannelClosed> {
        let trouble = ApiError::of_watcher(self.table, error);
        match trouble.what {
            // The revision expired, which is normal: the list that follows is no failure.
            What::Expired => {
                let wait = self.again();
                self.pause(wait).await?;
                return Ok(None);
            }
            What::Garbled => {
                self.errors
                    .add(self.shared.stats.now(), trouble.message.as_str());
                self.skipped += 1;
                self.unreadable += 1;
                if self.unreadable < NONSENSE {
                    // Only an event without a resourceVersion makes the watcher list again.
                    if matches!(error, watcher::Error::NoResourceVersion) {
                        let wait = self.again();
                        self.pause(wait).await?;
                    }
                    return Ok(None);
                }
            }
            What::Misunderstood if streams => return Ok(Some(WatcherEnd::PlainLists)),
            What::Missing if !self.table.api().group.is_empty() => {
                return Ok(Some(WatcherEnd::Absent));
            }
            What::Forbidden if wide && !self.wide_listed => {
                if let Namespaces::All { otherwise, .. } = &self.shared.namespaces {
                    return Ok(Some(WatcherEnd::Narrow(otherwise.clone())));
                }
            }
            _ => {}
        }
        let wait = self.fail(&trouble).await?;
        // A watcher whose request the server rejects, or that reads invalid data, would otherwise retry forever.
        let hopeless = matches!(
            trouble.what,
            What::Misunderstood | What::Garbled | What::Missing
        );
        if hopeless {
            return Ok(Some(WatcherEnd::Restart(wait)));
        }
        self.pause(wait).await?;
        Ok(None)
    }
}

/// The next event if one is ready; also `None` at the end of the stream, which the next wait detects.
fn ready<S: Stream + Unpin>(events: &mut S) -> Option<S::Item> {
    events.next().now_or_never().flatten()
}

/// A pod's observation; also passed to the scraper if the pod serves metrics.
fn seen_pod(
    pod: &PodObject,
    serving: Option<&ServingSenders>,
    names: &mut Names,
) -> Option<Observation> {
    let serves = serving.is_some_and(|serving| serving.is_model_server(pod));
    let seen = pod.seen(serves, names)?;
    if let Some(serving) = serving {
        serving.seen(serves, &seen, pod);
    }
    Some(Observation::Pod(Box::new(seen)))
}
