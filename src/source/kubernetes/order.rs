//! The order of Kueue's pending workloads, from its visibility API where it is served: one queue at a time, rate limited.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use tokio::sync::{Notify, mpsc};

use cluster::discovery::PlainGroup;
use cluster::queues::admission::PendingList;
use model::base::{Moment, Name, Names};
use model::fleet::observe::{Observation, Pending, Table};

use super::super::api_stats::Clock;
use super::super::fetch::escaped;
use super::super::reread::Again;

/// The API group of Kueue's visibility API.
const GROUP: &str = "visibility.kueue.x-k8s.io";

/// Interval between queries of any queue's order.
const TICK: Duration = Duration::from_secs(20);

/// Wait between two queues that were never queried.
const SOON: Duration = Duration::from_millis(30);

/// Shortest interval between queries of one queue.
const EACH: Duration = Duration::from_secs(60);

/// A server that does not serve the API, or forbids it, is queried again after this time.
const AGAIN: Duration = Duration::from_secs(600);

/// An API that answered before and fails now, as during a restart of Kueue, is queried again after this time.
const RETURN: Duration = Duration::from_secs(30);

/// Timeout of one query.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most workloads per answer.
const MOST: u32 = 1000;

/// Cluster queues with pending workloads, as reported by their watch.
#[derive(Clone, Default)]
pub(crate) struct PendingQueues {
    queues: Arc<Mutex<BTreeMap<Name, u32>>>,
    /// Signals that a queue has pending workloads which had none, or was unknown.
    news: Arc<Notify>,
}

impl PendingQueues {
    /// Records a cluster queue's state from an observation.
    pub(super) fn note(&self, observation: &Observation) {
        let mut all = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        match observation {
            Observation::Queue(Table::ClusterQueues, queue) => {
                let pending = queue.counts.pending.unwrap_or(0);
                let before = all.insert(queue.name().clone(), pending);
                if pending > 0 && before.unwrap_or(0) == 0 {
                    self.news.notify_one();
                }
            }
            Observation::Gone(Table::ClusterQueues, key) => {
                all.remove(&key.name);
            }
            Observation::Begin(Table::ClusterQueues)
            | Observation::Absent(Table::ClusterQueues) => {
                all.clear();
            }
            _ => {}
        }
    }

    /// Queues with work that waits.
    fn queues(&self) -> Vec<Name> {
        let all = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .filter(|(_, pending)| **pending > 0)
            .map(|(name, _)| name.clone())
            .collect()
    }
}

/// What the task needs.
pub(crate) struct WatchRequest {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) waiting: PendingQueues,
    pub(crate) names: Arc<Mutex<Names>>,
    pub(crate) out: mpsc::Sender<Vec<Observation>>,
    pub(crate) again: Again,
}

impl WatchRequest {
    /// Queries the order of one queue after the other until the receiver is closed.
    pub(crate) async fn run(mut self) {
        let mut reported: BTreeMap<Name, Moment> = BTreeMap::new();
        let mut version: Option<String> = None;
        let mut ever = false;
        loop {
            let wait = match self.look(&mut reported, &mut version).await {
                AGAIN if ever => RETURN,
                wait => wait,
            };
            ever |= !reported.is_empty();
            // A new queue is queried at once, unless the API does not answer.
            let news = async {
                match !reported.is_empty() || wait < RETURN {
                    true => self.waiting.news.notified().await,
                    false => std::future::pending().await,
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.again.requested() => {
                    for at in reported.values_mut() {
                        *at = at.minus(EACH);
                    }
                }
                () = news => tokio::time::sleep(SOON).await,
                () = self.out.closed() => return,
            }
        }
    }

    /// One query; returns how long to wait for the next.
    async fn look(
        &self,
        reported: &mut BTreeMap<Name, Moment>,
        version: &mut Option<String>,
    ) -> Duration {
        let waiting = self.waiting.queues();
        let over: Vec<Name> = reported
            .keys()
            .filter(|name| !waiting.contains(name))
            .cloned()
            .collect();
        for queue in over {
            reported.remove(&queue);
            self.forget(queue).await;
        }
        let now = (self.clock)();
        let due = waiting
            .into_iter()
            .filter(|queue| {
                // A clock that was set back must not stop a queue's queries.
                reported
                    .get(queue)
                    .is_none_or(|at| now < *at || now.since(*at) >= EACH.into())
            })
            .min_by_key(|queue| reported.get(queue).copied());
        let Some(queue) = due else { return TICK };
        if version.is_none() {
            *version = self.version().await;
        }
        let Some(served) = version.clone() else {
            self.send(Observation::OrderNotTold).await;
            return AGAIN;
        };
        let path = format!(
            "/apis/{GROUP}/{served}/clusterqueues/{}/pendingworkloads?limit={MOST}",
            escaped(&queue)
        );
        match self.ask::<PendingList>(&path).await {
            Some(list) => {
                let pending = {
                    let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
                    list.read(&queue, &mut names)
                };
                reported.insert(queue, (self.clock)());
                self.send(Observation::Pending(Box::new(pending))).await;
                let all_reported = self
                    .waiting
                    .queues()
                    .iter()
                    .all(|queue| reported.contains_key(queue));
                if all_reported { TICK } else { SOON }
            }
            None => {
                // An unknown order is reported as such: no position is better than an old one.
                *version = None;
                for queue in std::mem::take(reported).into_keys() {
                    self.forget(queue).await;
                }
                self.send(Observation::OrderNotTold).await;
                AGAIN
            }
        }
    }

    async fn version(&self) -> Option<String> {
        let group: PlainGroup = self.ask(&format!("/apis/{GROUP}")).await?;
        group.versions().into_iter().next()
    }

    async fn ask<T: serde::de::DeserializeOwned>(&self, path: &str) -> Option<T> {
        let request = Request::builder()
            .method(Method::GET)
            .uri(path)
            .body(Vec::new())
            .ok()?;
        let asked = self.client.request(request);
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(error)) => {
                tracing::debug!(path, %error, "the order of pending workloads is not served");
                None
            }
            Err(_) => None,
        }
    }

    async fn forget(&self, queue: Name) {
        let rows = Vec::new();
        self.send(Observation::Pending(Box::new(Pending { queue, rows })))
            .await;
    }

    async fn send(&self, news: Observation) {
        // A closed receiver is noticed in the loop.
        let _ = self.out.send(vec![news]).await;
    }
}
