//! Prometheus as a source: one query for the readings of a fleet instead of one scrape per exporter.
//!
//! Its samples go through the same dialects as a page. While it answers, the exporters that it scrapes are not
//! scraped here ([`super::scrape_coverage`]); when it is lost, they are scraped again.

pub mod find;
mod past;
pub mod prometheus_client;
mod round;
pub mod usage_hours;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Client;
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use exporter::{Dialects, Matchers, Rates};
use model::base::{Moment, Name, Names, ObjectKey};
use model::fleet::observe::{Observation, SourceHealth, SourceState};
use model::fleet::skipped_series::SkippedSeries;
use model::fleet::source_errors::SourceErrors;

use super::api_stats::ApiStats;
use super::reread::Again;
use super::scrape::page::{NoPage, PageFault};
use super::scrape_coverage::{ScrapeCoverage, ScrapedNodes};
use super::serving::{ServingNews, ServingPod};
use crate::api_error::ChannelClosed;
use prometheus_client::{PrometheusClient, PrometheusEndpoint};

/// Options of the Prometheus source.
#[derive(Clone, PartialEq, Debug)]
pub struct PrometheusOptions {
    /// Location; `None` searches the services of the cluster.
    pub endpoint: Option<PrometheusEndpoint>,
    /// Label matchers of every query.
    pub matchers: Matchers,
    /// Interval between rounds of queries.
    pub interval: Duration,
    /// Most requests a minute.
    pub per_minute: f64,
    /// Timeout of one query.
    pub timeout: Duration,
    /// How much history is loaded; zero loads none.
    pub history: Duration,
}

impl Default for PrometheusOptions {
    fn default() -> Self {
        Self {
            endpoint: None,
            matchers: Matchers::default(),
            interval: Duration::from_secs(30),
            per_minute: 30.0,
            timeout: Duration::from_secs(20),
            history: Duration::from_secs(3600),
        }
    }
}

/// Where no Prometheus was found, the search is repeated after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(900);

/// First retry of a Prometheus that fails; doubles with each failure.
const RETRY: Duration = Duration::from_secs(5);

const LONGEST: Duration = Duration::from_secs(60);

/// Inputs of the feed.
pub(super) struct Feed {
    pub client: Client,
    pub stats: Arc<ApiStats>,
    pub dialects: Arc<Dialects>,
    pub names: Arc<Mutex<Names>>,
    pub options: PrometheusOptions,
    pub out: mpsc::Sender<Vec<Observation>>,
    pub news: mpsc::UnboundedReceiver<ServingNews>,
    pub cover: watch::Sender<ScrapeCoverage>,
    /// Whose readings are needed; no queries while none are.
    pub reach: watch::Receiver<ScrapedNodes>,
    pub again: Again,
}

/// State that is kept between rounds.
#[derive(Default)]
struct RoundState {
    pods: BTreeMap<ObjectKey, ServingPod>,
    listed: Option<BTreeSet<ObjectKey>>,
    /// The pods have been listed once.
    settled: bool,
    /// Metric names of each dialect, grouped by query.
    plan: BTreeMap<Name, Vec<BTreeSet<String>>>,
    planned_at: Option<Moment>,
    targets: FxHashMap<(String, Name), TargetState>,
    errors: SourceErrors,
    last_ok: Option<Moment>,
}

/// State of a target that is kept between rounds.
struct TargetState {
    rates: Rates,
    /// Time of its last scrape, on Prometheus' clock.
    at: Moment,
    spacing: Option<Duration>,
    round: u64,
}

/// Result of a round.
struct Round {
    cover: ScrapeCoverage,
    used: usize,
    skipped: usize,
    /// The metrics of the skipped series, summed over all targets.
    skipped_series: Vec<SkippedSeries>,
    message: String,
    /// Targets for the history query: a dialect, with its targets and how many series each has.
    targets: Vec<PastTarget>,
}

/// A target of the history query.
#[derive(Clone, Debug)]
struct PastTarget {
    dialect: Name,
    job: String,
    instance: String,
    id: String,
    node: Option<Name>,
    series: usize,
}

impl Feed {
    /// Runs until the receiver is closed or the task is dropped.
    pub(super) async fn run(mut self) {
        let needed = |reach: &ScrapedNodes| match reach {
            ScrapedNodes::Undecided => false,
            ScrapedNodes::Nodes(nodes) => !nodes.is_empty(),
            ScrapedNodes::All => true,
        };
        if self.reach.wait_for(needed).await.is_err() {
            // The sender was dropped: no more readings are needed.
            return;
        }
        let mut state = RoundState::default();
        let endpoint = loop {
            if let Some(endpoint) = self.options.endpoint.clone() {
                break endpoint;
            }
            match self.look().await {
                Ok(Some(endpoint)) => break endpoint,
                Ok(None) => {}
                Err(ChannelClosed) => return,
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = self.again.requested() => {}
                () = self.out.closed() => return,
            }
        };
        let asker = Arc::new(PrometheusClient::new(
            self.client.clone(),
            Arc::clone(&self.stats),
            endpoint,
            self.options.timeout,
            self.options.per_minute,
        ));
        let name = Name::from(asker.endpoint.name());
        if self
            .send_status(&state, &asker, &name, None, "not queried yet")
            .await
            .is_err()
        {
            return;
        }
        let mut past: JoinSet<()> = JoinSet::new();
        let mut filled = self.options.history.is_zero();
        let mut failures: u32 = 0;
        let mut number = 0;
        let mut returns = self.stats.returns();
        loop {
            number += 1;
            returns.mark_unchanged();
            let begun = self.stats.local();
            self.again.done();
            let mut throttled = false;
            let round = self.round(&mut state, &asker, number).await;
            let latency =
                u32::try_from(self.stats.local().since(begun).millis()).unwrap_or(u32::MAX);
            let (wait, sent) = match round {
                Err(RoundError::ChannelClosed) => return,
                Ok(round) => {
                    failures = 0;
                    state.last_ok = Some(self.stats.now());
                    self.cover.send_replace(round.cover.clone());
                    if !filled && !round.targets.is_empty() {
                        filled = true;
                        past.spawn(self.past(Arc::clone(&asker), round.targets.clone(), &state));
                    }
                    let sent = self
                        .send_status(
                            &state,
                            &asker,
                            &name,
                            Some((latency, &round)),
                            &round.message,
                        )
                        .await;
                    (self.options.interval, sent)
                }
                Err(RoundError::No(no)) => {
                    failures = failures.saturating_add(1);
                    state.errors.add(self.stats.now(), no.message.as_str());
                    // A single failure is no loss, unless Prometheus never answered.
                    let mut message = no.message;
                    if failures > 1 || state.last_ok.is_none() {
                        self.cover.send_replace(ScrapeCoverage::nothing());
                        message.push_str("; exporters are scraped instead");
                    }
                    let own = RETRY
                        .min(self.options.interval)
                        .saturating_mul(1 << failures.min(8).saturating_sub(1))
                        .min(LONGEST);
                    throttled = matches!(no.why, PageFault::Throttled(_));
                    let wait = match no.why {
                        PageFault::Throttled(Some(asked)) => own.max(asked),
                        PageFault::Throttled(None) => own.max(self.options.interval),
                        _ => own,
                    };
                    let sent = self
                        .send_status(&state, &asker, &name, None, &message)
                        .await;
                    (wait, sent)
                }
            };
            if sent.is_err() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.again.requested(), if !throttled => {}
                // The API server answers again: services behind it may answer too.
                Ok(()) = returns.changed(), if failures > 0 && !throttled => {}
                () = self.out.closed() => return,
            }
            while past.try_join_next().is_some() {}
        }
    }

    /// Searches for a Prometheus once.
    async fn look(&mut self) -> Result<Option<PrometheusEndpoint>, ChannelClosed> {
        let name = Name::new("prometheus");
        if *self.cover.borrow() == ScrapeCoverage::Pending {
            let row = Observation::Source(SourceHealth {
                message: "looking for a Prometheus among the cluster's services".to_owned(),
                ..blank(name.clone(), self.options.interval)
            });
            self.out.send(vec![row]).await.map_err(|_| ChannelClosed)?;
        }
        let found = find::find(&self.client, &self.stats, &self.dialects).await;
        self.cover.send_if_modified(|cover| {
            let pending = *cover == ScrapeCoverage::Pending && found.is_none();
            if pending {
                *cover = ScrapeCoverage::nothing();
            }
            pending
        });
        let gone = vec![Observation::SourceGone(name)];
        self.out.send(gone).await.map_err(|_| ChannelClosed)?;
        Ok(found)
    }

    /// Reports the health of Prometheus: live with a round, without one lost or not queried yet.
    async fn send_status(
        &self,
        state: &RoundState,
        asker: &PrometheusClient,
        name: &Name,
        round: Option<(u32, &Round)>,
        message: &str,
    ) -> Result<(), ChannelClosed> {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let row = SourceHealth {
            state: match round {
                Some(_) => SourceState::Live,
                None if state.errors.count > 0 => SourceState::Lost,
                None => SourceState::Stale,
            },
            last_ok: state.last_ok,
            latency_ms: round.map(|(latency, _)| latency),
            errors: state.errors.count,
            last_errors: Arc::clone(&state.errors.last),
            series_used: round.map(|(_, round)| count(round.used)),
            series_skipped: round.map(|(_, round)| count(round.skipped)),
            skipped: round.map_or_else(Arc::default, |(_, round)| {
                round.skipped_series.as_slice().into()
            }),
            calls_per_minute: Some(asker.calls_per_minute()),
            message: message.to_owned(),
            ..blank(name.clone(), self.options.interval)
        };
        let batch = vec![Observation::Source(row)];
        self.out.send(batch).await.map_err(|_| ChannelClosed)
    }

    /// Applies news of exporters' pods that are in the channel.
    fn hear(&mut self, state: &mut RoundState) {
        while let Ok(news) = self.news.try_recv() {
            state.hear(news);
        }
    }
}

impl RoundState {
    fn hear(&mut self, news: ServingNews) {
        match news {
            ServingNews::Begin => self.listed = Some(BTreeSet::new()),
            ServingNews::End => {
                self.settled = true;
                if let Some(listed) = self.listed.take() {
                    self.pods.retain(|key, _| listed.contains(key));
                }
            }
            ServingNews::Gone(key) => drop(self.pods.remove(&key)),
            ServingNews::Seen(pod) => {
                if let Some(listed) = &mut self.listed {
                    listed.insert(pod.key.clone());
                }
                self.pods.insert(pod.key.clone(), pod);
            }
        }
    }
}

/// A health row without values.
fn blank(name: Name, interval: Duration) -> SourceHealth {
    SourceHealth::new(
        name,
        Name::new("prometheus"),
        SourceState::Stale,
        interval.saturating_mul(3).max(Duration::from_secs(90)),
    )
}

/// Why a round failed.
enum RoundError {
    /// The receiver is closed.
    ChannelClosed,
    /// Prometheus did not answer.
    No(NoPage),
}

impl From<NoPage> for RoundError {
    fn from(no: NoPage) -> Self {
        Self::No(no)
    }
}

impl From<ChannelClosed> for RoundError {
    fn from(_: ChannelClosed) -> Self {
        Self::ChannelClosed
    }
}
