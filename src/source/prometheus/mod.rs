//! Prometheus as a source: one question for a fleet's readings instead of one for each exporter.
//!
//! What it holds goes through the same dialects as a page. While it answers, the exporters that it scrapes are not
//! asked ([`super::scrape_coverage`]); when it is lost, they are asked again.

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

use super::again::Again;
use super::api_stats::ApiStats;
use super::scrape::page::{NoPage, Why};
use super::scrape_coverage::{Coverage, Reach};
use super::serving::{ServingNews, ServingPod};
use prometheus_client::{PrometheusClient, PrometheusEndpoint};

/// How Prometheus is asked.
#[derive(Clone, PartialEq, Debug)]
pub struct PrometheusOptions {
    /// Where it is; `None` looks for one among the services of the cluster.
    pub road: Option<PrometheusEndpoint>,
    /// Label matchers that every query carries.
    pub matchers: Matchers,
    /// How often it is asked.
    pub interval: Duration,
    /// Most requests a minute.
    pub per_minute: f64,
    /// How long one answer may take.
    pub timeout: Duration,
    /// How far back the past is filled in; zero leaves it empty.
    pub history: Duration,
}

impl Default for PrometheusOptions {
    fn default() -> Self {
        Self {
            road: None,
            matchers: Matchers::default(),
            interval: Duration::from_secs(30),
            per_minute: 30.0,
            timeout: Duration::from_secs(20),
            history: Duration::from_secs(3600),
        }
    }
}

/// Where there is no Prometheus, one is looked for again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(900);

/// A Prometheus that fails is asked again after this time, and twice that, and so on.
const RETRY: Duration = Duration::from_secs(5);

/// The longest wait for one that fails.
const LONGEST: Duration = Duration::from_secs(60);

/// What the feed is made of.
pub(super) struct Feed {
    pub client: Client,
    pub stats: Arc<ApiStats>,
    pub dialects: Arc<Dialects>,
    pub names: Arc<Mutex<Names>>,
    pub options: PrometheusOptions,
    pub out: mpsc::Sender<Vec<Observation>>,
    pub news: mpsc::UnboundedReceiver<ServingNews>,
    pub cover: watch::Sender<Coverage>,
    /// Whose readings are needed: where nobody's are, it is not asked.
    pub reach: watch::Receiver<Reach>,
    pub again: Again,
}

/// What is kept from round to round.
#[derive(Default)]
struct State {
    pods: BTreeMap<ObjectKey, ServingPod>,
    listed: Option<BTreeSet<ObjectKey>>,
    /// The pods have been listed once.
    settled: bool,
    /// Metric names of each dialect, in the parts in which they are asked for.
    plan: BTreeMap<Name, Vec<BTreeSet<String>>>,
    planned_at: Option<Moment>,
    targets: FxHashMap<(String, Name), Kept>,
    errors: u64,
    last_ok: Option<Moment>,
}

/// What is kept of a target between rounds.
struct Kept {
    rates: Rates,
    /// When it was last scraped, on Prometheus' clock.
    at: Moment,
    spacing: Option<Duration>,
    round: u64,
}

/// What a round came to.
struct Round {
    cover: Coverage,
    used: usize,
    skipped: usize,
    message: String,
    /// What the past is asked for: a dialect, with its targets and how many series each has.
    targets: Vec<PastTarget>,
}

/// A target as the past is asked for.
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
    /// Feeds until nobody listens or it is dropped.
    pub(super) async fn run(mut self) {
        let needed = |reach: &Reach| match reach {
            Reach::Undecided => false,
            Reach::Nodes(nodes) => !nodes.is_empty(),
            Reach::All => true,
        };
        if self.reach.wait_for(needed).await.is_err() {
            // Nobody will say any more: nothing is needed.
            return;
        }
        let mut state = State::default();
        let road = loop {
            if let Some(road) = self.options.road.clone() {
                break road;
            }
            match self.look().await {
                Ok(Some(road)) => break road,
                Ok(None) => {}
                Err(ChannelClosed) => return,
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = self.again.asked() => {}
                () = self.out.closed() => return,
            }
        };
        let asker = Arc::new(PrometheusClient::new(
            self.client.clone(),
            Arc::clone(&self.stats),
            road,
            self.options.timeout,
            self.options.per_minute,
        ));
        let name = Name::from(asker.road.name());
        if self
            .tell(&state, &asker, &name, None, "not asked yet")
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
            let (wait, told) = match round {
                Err(RoundError::ChannelClosed) => return,
                Ok(round) => {
                    failures = 0;
                    state.last_ok = Some(self.stats.now());
                    self.cover.send_replace(round.cover.clone());
                    if !filled && !round.targets.is_empty() {
                        filled = true;
                        past.spawn(self.past(Arc::clone(&asker), round.targets.clone(), &state));
                    }
                    let told = self
                        .tell(
                            &state,
                            &asker,
                            &name,
                            Some((latency, &round)),
                            &round.message,
                        )
                        .await;
                    (self.options.interval, told)
                }
                Err(RoundError::No(no)) => {
                    failures = failures.saturating_add(1);
                    state.errors += 1;
                    // One slip is no loss, unless it never answered.
                    let mut message = no.message;
                    if failures > 1 || state.last_ok.is_none() {
                        self.cover.send_replace(Coverage::nothing());
                        message.push_str("; exporters are asked themselves meanwhile");
                    }
                    let own = RETRY
                        .min(self.options.interval)
                        .saturating_mul(1 << failures.min(8).saturating_sub(1))
                        .min(LONGEST);
                    throttled = matches!(no.why, Why::Throttled(_));
                    let wait = match no.why {
                        Why::Throttled(Some(asked)) => own.max(asked),
                        Why::Throttled(None) => own.max(self.options.interval),
                        _ => own,
                    };
                    let told = self.tell(&state, &asker, &name, None, &message).await;
                    (wait, told)
                }
            };
            if told.is_err() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.again.asked(), if !throttled => {}
                // The API server answers again: so may what stands behind it.
                Ok(()) = returns.changed(), if failures > 0 && !throttled => {}
                () = self.out.closed() => return,
            }
            while past.try_join_next().is_some() {}
        }
    }

    /// Looks for a Prometheus once.
    async fn look(&mut self) -> Result<Option<PrometheusEndpoint>, ChannelClosed> {
        let name = Name::new("prometheus");
        if *self.cover.borrow() == Coverage::Pending {
            let row = Observation::Source(SourceHealth {
                message: "looking for a Prometheus among the cluster's services".to_owned(),
                ..blank(name.clone(), self.options.interval)
            });
            self.out.send(vec![row]).await.map_err(|_| ChannelClosed)?;
        }
        let found = find::find(&self.client, &self.stats, &self.dialects).await;
        self.cover.send_if_modified(|cover| {
            let pending = *cover == Coverage::Pending && found.is_none();
            if pending {
                *cover = Coverage::nothing();
            }
            pending
        });
        let gone = vec![Observation::SourceGone(name)];
        self.out.send(gone).await.map_err(|_| ChannelClosed)?;
        Ok(found)
    }

    /// Tells how Prometheus fares: with a round it is live, without one lost, or not asked yet.
    async fn tell(
        &self,
        state: &State,
        asker: &PrometheusClient,
        name: &Name,
        round: Option<(u32, &Round)>,
        message: &str,
    ) -> Result<(), ChannelClosed> {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let row = SourceHealth {
            state: match round {
                Some(_) => SourceState::Live,
                None if state.errors > 0 => SourceState::Lost,
                None => SourceState::Stale,
            },
            last_ok: state.last_ok,
            latency_ms: round.map(|(latency, _)| latency),
            errors: state.errors,
            series_used: round.map(|(_, round)| count(round.used)),
            series_skipped: round.map(|(_, round)| count(round.skipped)),
            calls_per_minute: Some(asker.calls_per_minute()),
            message: message.to_owned(),
            ..blank(name.clone(), self.options.interval)
        };
        let batch = vec![Observation::Source(row)];
        self.out.send(batch).await.map_err(|_| ChannelClosed)
    }

    /// Takes in the news of exporters' pods that have come.
    fn hear(&mut self, state: &mut State) {
        while let Ok(news) = self.news.try_recv() {
            state.hear(news);
        }
    }
}

impl State {
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

/// A row without figures.
fn blank(name: Name, interval: Duration) -> SourceHealth {
    SourceHealth {
        name,
        kind: Name::new("prometheus"),
        state: SourceState::Stale,
        last_ok: None,
        node: None,
        failing_since: None,
        last_outage: None,
        patience: interval.saturating_mul(3).max(Duration::from_secs(90)),
        latency_ms: None,
        errors: 0,
        series_used: None,
        series_skipped: None,
        calls_per_minute: None,
        message: String::new(),
    }
}

/// Nobody listens.
struct ChannelClosed;

/// Why a round came to nothing.
enum RoundError {
    /// Nobody listens.
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
