//! Scrapes exporters' pages: finds the pods that serve them, limits the request rate, reads each page in its dialect.

pub mod ask;
pub mod burst;
mod options;
pub mod page;
mod rows;
pub mod schedule;
mod target;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use exporter::{Dialects, HostRule, PageSource, ParsedPage, Rates, read};
use model::base::{Moment, Name, Names, ObjectKey};
use model::fleet::observe::{Observation, SourceState};
use model::fleet::reading::Page;
use model::fleet::skipped_series::SkippedSeries;

use super::api_stats::ApiStats;
use super::reread::Again;
use super::scrape_coverage::{ScrapeCoverage, ScrapedNodes};
use super::serving::{ServingNews, ServingPod};
pub use ask::Endpoint;
use ask::{Direct, PodPage};
pub use options::{ScrapeAccess, ScrapeOptions};
use page::{NoPage, PageFault, ScrapeRoute};
use rows::{forget, row, waiting};
use schedule::{NextScrape, Schedule, ScrapeEnd};
use target::{KnownTarget, PageLocation};

/// Interval for a page whose dialect is not known yet.
const UNKNOWN_INTERVAL: Duration = Duration::from_secs(30);

/// Where the proxy is forbidden, it is tried again after this time.
const RETRY_PROXY: Duration = Duration::from_secs(600);

/// How long scrapes wait for a Prometheus that has not answered yet.
const GRACE: Duration = Duration::from_secs(8);

/// Pages above this size in bytes are parsed on a blocking thread.
const LARGE: usize = 256 << 10;

/// Inputs of the scraper.
pub(super) struct Scraper {
    pub client: Client,
    pub stats: Arc<ApiStats>,
    pub dialects: Arc<Dialects>,
    pub names: Arc<Mutex<Names>>,
    pub options: ScrapeOptions,
    pub out: mpsc::Sender<Vec<Observation>>,
    pub news: mpsc::UnboundedReceiver<ServingNews>,
    pub on_screen: watch::Receiver<BTreeSet<Name>>,
    /// Targets that Prometheus covers.
    pub cover: watch::Receiver<ScrapeCoverage>,
    /// Whose readings are needed.
    pub reach: watch::Receiver<ScrapedNodes>,
    pub again: Again,
}

/// Result of one request.
struct ScrapeResult {
    id: u64,
    way: ScrapeRoute,
    latency_ms: u32,
    page: Result<(ParsedPage, Moment), NoPage>,
    /// State for the next page.
    rates: Rates,
}

struct ScrapeState {
    schedule: Schedule,
    targets: BTreeMap<u64, KnownTarget>,
    by_pod: BTreeMap<ObjectKey, u64>,
    listed: Option<BTreeSet<ObjectKey>>,
    last_id: u64,
    /// Namespaces whose proxy is forbidden: since when, and the server's message.
    refused: BTreeMap<Name, (Moment, String)>,
    cover: ScrapeCoverage,
    reach: ScrapedNodes,
    /// The pods have been listed once.
    found: bool,
    /// The complete list of targets has been reported: each has a row.
    found_reported: bool,
    /// The skipped series of the last page of each dialect.
    skipped: BTreeMap<Name, Arc<[SkippedSeries]>>,
}

impl Scraper {
    /// Runs until the receiver is closed or the task is dropped.
    pub(super) async fn run(mut self) {
        let mut state = ScrapeState {
            schedule: Schedule::new(self.options.per_second, self.options.in_flight)
                .with_burst(self.options.burst),
            targets: BTreeMap::new(),
            by_pod: BTreeMap::new(),
            listed: None,
            last_id: 0,
            refused: BTreeMap::new(),
            cover: self.cover.borrow_and_update().clone(),
            reach: self.reach.borrow_and_update().clone(),
            found: false,
            found_reported: false,
            skipped: BTreeMap::new(),
        };
        let direct = Arc::new(Direct::default());
        let observations = self.add_endpoints(&mut state);
        if !observations.is_empty() && self.out.send(observations).await.is_err() {
            return;
        }
        let mut under_way: JoinSet<ScrapeResult> = JoinSet::new();
        let mut pods_open = true;
        let mut screen_open = true;
        let mut cover_open = true;
        let mut reach_open = true;
        let grace = tokio::time::sleep(GRACE);
        tokio::pin!(grace);
        loop {
            let wake = loop {
                match state.schedule.next(self.stats.local()) {
                    NextScrape::Ask(id) => self.start(&mut state, id, &direct, &mut under_way),
                    NextScrape::Wait(until) => break Some(until),
                    NextScrape::Rest => break None,
                }
            };
            let nap = async {
                match wake {
                    Some(until) => {
                        let left = until.since(self.stats.local()).millis();
                        tokio::time::sleep(Duration::from_millis(left.max(1))).await;
                    }
                    None => std::future::pending().await,
                }
            };
            let mut observations = tokio::select! {
                news = self.news.recv(), if pods_open => match news {
                    Some(news) => self.hear(&mut state, news),
                    None => { pods_open = false; Vec::new() }
                },
                changed = self.on_screen.changed(), if screen_open => {
                    match changed {
                        Ok(()) => {
                            let nodes: Vec<Name> = self.on_screen.borrow_and_update().iter().cloned().collect();
                            state.schedule.look_at(nodes);
                        }
                        Err(_) => screen_open = false,
                    }
                    Vec::new()
                }
                changed = self.cover.changed(), if cover_open => {
                    cover_open = changed.is_ok();
                    let cover = match changed {
                        Ok(()) => self.cover.borrow_and_update().clone(),
                        // The Prometheus task has ended.
                        Err(_) => ScrapeCoverage::nothing(),
                    };
                    self.take_cover(&mut state, cover)
                }
                changed = self.reach.changed(), if reach_open => {
                    reach_open = changed.is_ok();
                    let reach = self.reach.borrow_and_update().clone();
                    // Prometheus is queried only from now on.
                    grace.set(tokio::time::sleep(GRACE));
                    self.take_reach(&mut state, reach)
                }
                () = &mut grace, if state.cover == ScrapeCoverage::Pending && state.reach != ScrapedNodes::Undecided => {
                    self.take_cover(&mut state, ScrapeCoverage::nothing())
                }
                Some(ended) = under_way.join_next(), if !under_way.is_empty() => match ended {
                    Ok(outcome) => self.end(&mut state, outcome),
                    Err(error) => {
                        tracing::error!(%error, "a scrape ended without an outcome");
                        Vec::new()
                    }
                },
                () = nap => Vec::new(),
                () = self.again.requested() => {
                    // Where the proxy was forbidden, it may be allowed by now.
                    state.refused.clear();
                    state.schedule.hasten();
                    Vec::new()
                }
                () = self.out.closed() => return,
            };
            observations.extend(state.all_found());
            if !observations.is_empty() && self.out.send(observations).await.is_err() {
                return;
            }
        }
    }

    fn add_endpoints(&self, state: &mut ScrapeState) -> Vec<Observation> {
        let mut observations = Vec::new();
        let now = self.stats.local();
        for endpoint in self.options.endpoints.clone() {
            state.last_id += 1;
            let id = state.last_id;
            let node = endpoint.node.as_deref().map(Name::new);
            let known = KnownTarget {
                node: node.clone(),
                timeout: self.options.timeout,
                spared: !state.reach.includes(node.as_ref()),
                ..KnownTarget::new(
                    Name::from(endpoint.name.clone()),
                    PageLocation::Endpoint(Arc::new(endpoint)),
                )
            };
            if !known.spared {
                observations.push(Observation::Source(waiting(&known)));
                state
                    .schedule
                    .add(id, node, UNKNOWN_INTERVAL, ScrapeRoute::Direct, now);
            }
            state.targets.insert(id, known);
        }
        observations
    }

    /// Applies news of a pod; returns the observations to send.
    fn hear(&self, state: &mut ScrapeState, news: ServingNews) -> Vec<Observation> {
        match news {
            ServingNews::Begin => state.listed = Some(BTreeSet::new()),
            ServingNews::End => {
                if let Some(listed) = state.listed.take() {
                    let gone: Vec<ObjectKey> = state
                        .by_pod
                        .keys()
                        .filter(|key| !listed.contains(*key))
                        .cloned()
                        .collect();
                    state.found = true;
                    return gone.iter().filter_map(|key| forget(state, key)).collect();
                }
            }
            ServingNews::Gone(key) => return forget(state, &key).into_iter().collect(),
            ServingNews::Seen(pod) => {
                if let Some(listed) = &mut state.listed {
                    listed.insert(pod.key.clone());
                }
                return self.see(state, pod);
            }
        }
        Vec::new()
    }

    fn see(&self, state: &mut ScrapeState, pod: ServingPod) -> Vec<Observation> {
        let mut gone = Vec::new();
        if let Some(id) = state.by_pod.get(&pod.key) {
            let known = state.targets.get(id).and_then(|known| known.pod.as_ref());
            if known == Some(&pod) {
                return gone;
            }
            let (id, ready) = (*id, pod.ready);
            let known = state
                .targets
                .get_mut(&id)
                .and_then(|known| known.pod.as_mut());
            if let Some(known) = known
                && (ServingPod {
                    ready,
                    started: pod.started,
                    ..known.clone()
                }) == pod
            {
                known.ready = ready;
                known.started = pod.started;
                if ready {
                    // Its node is back, or it has restarted: end the back-off.
                    state.schedule.hasten_one(id);
                }
                return gone;
            }
            // Another pod, port or address: the old target's state is invalid.
            gone.extend(forget(state, &pod.key));
        }
        let Some(dialect) = self.dialects.get(&pod.dialect) else {
            return gone;
        };
        state.last_id += 1;
        let id = state.last_id;
        let spot = PageLocation::Pod(Arc::new(PodPage {
            pod: pod.key.clone(),
            ip: pod.ip.as_deref().map(str::to_owned),
            port: pod.port,
            scheme: dialect.discovery.scheme.clone(),
            path: dialect.discovery.path.clone(),
        }));
        let spared = self.spares(state, &pod);
        let name = Name::from(format!("{} {}", dialect.name, pod.key));
        let known = KnownTarget {
            spared,
            dialect: Some(dialect.name.clone()),
            node: pod.node.clone(),
            interval: dialect.interval,
            timeout: dialect.timeout.min(self.options.timeout),
            pod: Some(pod.clone()),
            ..KnownTarget::new(name, spot)
        };
        if spared {
            state.by_pod.insert(pod.key.clone(), id);
            state.targets.insert(id, known);
            return gone;
        }
        let way = self.way(state, &pod.key.namespace, self.stats.local());
        state.schedule.add(
            id,
            pod.node.clone(),
            dialect.interval,
            way,
            self.stats.local(),
        );
        state.by_pod.insert(pod.key.clone(), id);
        // Replaced under the same name: its row continues.
        gone.retain(|observation| !matches!(observation, Observation::SourceGone(name) if *name == known.name));
        gone.push(Observation::Source(waiting(&known)));
        state.targets.insert(id, known);
        gone
    }

    /// How to reach the pods of a namespace now.
    fn way(&self, state: &ScrapeState, namespace: &Name, now: Moment) -> ScrapeRoute {
        match self.options.mode {
            ScrapeAccess::Proxy => ScrapeRoute::Proxy,
            ScrapeAccess::Direct => ScrapeRoute::Direct,
            ScrapeAccess::Auto => {
                let lately = state
                    .refused
                    .get(namespace)
                    .is_some_and(|(since, _)| now.since(*since) < RETRY_PROXY.into());
                if lately {
                    ScrapeRoute::Direct
                } else {
                    ScrapeRoute::Proxy
                }
            }
        }
    }

    fn start(
        &self,
        state: &mut ScrapeState,
        id: u64,
        direct: &Arc<Direct>,
        under_way: &mut JoinSet<ScrapeResult>,
    ) {
        let sent = self.stats.local();
        let way = match state.targets.get(&id).map(|known| &known.spot) {
            Some(PageLocation::Pod(page)) => self.way(state, &page.pod.namespace, sent),
            _ => ScrapeRoute::Direct,
        };
        let Some(known) = state.targets.get_mut(&id) else {
            state.schedule.ended(id, ScrapeEnd::Badly, sent);
            return;
        };
        known.asked.push_back(sent);
        let (client, stats, direct) = (
            self.client.clone(),
            Arc::clone(&self.stats),
            Arc::clone(direct),
        );
        let (dialects, names) = (Arc::clone(&self.dialects), Arc::clone(&self.names));
        let (spot, timeout) = (known.spot.clone(), known.timeout);
        let rates = std::mem::take(&mut known.rates);
        let (dialect, node) = (known.dialect.clone(), known.node.clone());
        let pod = known.pod.as_ref().map(|pod| pod.key.clone());
        under_way.spawn(async move {
            let body = match &spot {
                PageLocation::Pod(page) if way == ScrapeRoute::Proxy => {
                    ask::through_proxy(&client, page, timeout).await
                }
                PageLocation::Pod(page) => direct.pod(page, timeout).await,
                PageLocation::Endpoint(endpoint) => direct.endpoint(endpoint, timeout).await,
            };
            let latency_ms = u32::try_from(stats.local().since(sent).millis()).unwrap_or(u32::MAX);
            let at = stats.now();
            let (page, rates) = match body {
                Ok(body) => {
                    let job = ParseInput {
                        dialects,
                        body,
                        dialect,
                        pod,
                        node,
                        names,
                        rates,
                        at,
                    };
                    match job.read().await {
                        Ok((read, rates, at)) => (Ok((read, at)), rates),
                        Err(no) => (Err(no), Rates::default()),
                    }
                }
                Err(no) => (Err(no), rates),
            };
            ScrapeResult {
                id,
                way,
                latency_ms,
                page,
                rates,
            }
        });
    }

    fn end(&self, state: &mut ScrapeState, outcome: ScrapeResult) -> Vec<Observation> {
        let now = self.stats.local();
        let namespace = state
            .targets
            .get(&outcome.id)
            .and_then(|known| known.pod.as_ref())
            .map(|pod| pod.key.namespace.clone());
        let mut how = match &outcome.page {
            Ok(_) => ScrapeEnd::Well,
            Err(no) => match no.why {
                PageFault::Throttled(wait) => ScrapeEnd::Throttled(wait),
                _ => ScrapeEnd::Badly,
            },
        };
        if let (Some(namespace), ScrapeRoute::Proxy) = (&namespace, outcome.way) {
            match &outcome.page {
                Ok(_) => drop(state.refused.remove(namespace)),
                Err(no) if no.why == PageFault::Refused => {
                    state
                        .refused
                        .insert(namespace.clone(), (now, no.message.clone()));
                    if self.options.mode == ScrapeAccess::Auto {
                        how = ScrapeEnd::Elsewhere;
                    }
                }
                Err(_) => {}
            }
        }
        state.schedule.ended(outcome.id, how, now);
        if let Some(namespace) = &namespace {
            let way = self.way(state, namespace, now);
            state.schedule.send_by(outcome.id, way);
        }
        let round = state.schedule.round();
        let through_proxy = namespace
            .and_then(|namespace| state.refused.get(&namespace))
            .map(|(_, words)| words.clone());
        let Some(known) = state.targets.get_mut(&outcome.id) else {
            return Vec::new();
        };
        let minute_ago = now.minus(Duration::from_secs(60));
        while known.asked.front().is_some_and(|at| *at < minute_ago) {
            known.asked.pop_front();
        }
        let mut observations = Vec::new();
        known.rates = outcome.rates;
        // Forbidden through the API server and never read at its address: rights are missing.
        let refused = outcome.page.is_err()
            && known.last_ok.is_none()
            && known.pod.is_some()
            && through_proxy.is_some();
        let (report, message) = match outcome.page {
            Ok((read, at)) => {
                known.last_ok = Some(at);
                let understood = read.report.dialect.is_some() || read.report.starting;
                known.failing_since = match understood {
                    true => {
                        let over = known.failing_since.map(|since| (since, now));
                        known.last_outage = over.or(known.last_outage);
                        None
                    }
                    false => known.failing_since.or(Some(now)),
                };
                if let Some(dialect) = read
                    .report
                    .dialect
                    .as_ref()
                    .and_then(|name| self.dialects.get(name))
                {
                    known.dialect = Some(dialect.name.clone());
                    if known.interval != dialect.interval {
                        known.interval = dialect.interval;
                        state.schedule.add(
                            outcome.id,
                            known.node.clone(),
                            dialect.interval,
                            ScrapeRoute::Direct,
                            now,
                        );
                    }
                }
                let message = read.report.messages.join("; ");
                // A page about many nodes has no readings for the node of its own pod.
                let of_its_node = known
                    .dialect
                    .as_ref()
                    .and_then(|name| self.dialects.get(name))
                    .is_none_or(|dialect| dialect.host == HostRule::Target);
                if !read.readings.is_empty() {
                    observations.push(Observation::Page(Box::new(Page {
                        node: known.node.clone().filter(|_| of_its_node),
                        at,
                        interval: known.interval,
                        readings: read.readings,
                    })));
                }
                (Some(read.report), message)
            }
            Err(no) => {
                known.failing_since = known.failing_since.or(Some(now));
                let message = match (through_proxy, outcome.way) {
                    (Some(words), ScrapeRoute::Direct)
                        if known.pod.is_some() && self.options.mode == ScrapeAccess::Auto =>
                    {
                        format!("{}; and through the API server: {words}", no.message)
                    }
                    _ => no.message,
                };
                known.errors.add(self.stats.now(), message.as_str());
                (None, message)
            }
        };
        if known.spared {
            return observations;
        }
        let mut row = row(
            known,
            outcome.latency_ms,
            report.as_ref(),
            message,
            (round, now),
        );
        if refused {
            row.state = SourceState::NotVisible;
        }
        if let Some(report) = report {
            row.skipped = state.shared(&row.kind, report.skipped);
        }
        observations.push(Observation::Source(row));
        observations
    }
}

/// A page and its parser's inputs.
struct ParseInput {
    dialects: Arc<Dialects>,
    body: Vec<u8>,
    dialect: Option<Name>,
    pod: Option<ObjectKey>,
    node: Option<Name>,
    names: Arc<Mutex<Names>>,
    rates: Rates,
    at: Moment,
}

impl ParseInput {
    fn done(mut self) -> (ParsedPage, Rates, Moment) {
        let target = PageSource {
            pod: self.pod,
            node: self.node,
            dialect: self.dialect.as_deref(),
        };
        let mut out = {
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            read(&self.dialects, &self.body, &target, &mut names)
        };
        self.rates.fill(self.at, &mut out);
        (out, self.rates, self.at)
    }

    /// Parses the page; a large one on a blocking thread.
    async fn read(self) -> Result<(ParsedPage, Rates, Moment), NoPage> {
        if self.body.len() < LARGE {
            return Ok(self.done());
        }
        tokio::task::spawn_blocking(move || self.done())
            .await
            .map_err(|_| {
                NoPage::failed("the page could not be read: a bug in Stokehold, please report it")
            })
    }
}
