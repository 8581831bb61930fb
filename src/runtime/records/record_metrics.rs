//! Metrics of a recorder, served on its page and sent by remote write.

use std::sync::Arc;

use tokio::sync::watch;

use settings::Settings;
use source::remote_write::{RemoteWriteOptions, RemoteWriteState, SeriesValue};
use source::scrape::Endpoint;
use table::Facts;
use table::metrics::{self, Labels, MetricFamily, MetricKind};
use table::spend::UsageFacts;
use usage::UsageCounters;

use crate::runtime::watch::metrics::WatchStatus;

/// Remote-write requests that may wait for the receiver: half an hour's worth at one per 15 s.
const QUEUE: usize = 120;

/// The data that the metrics are made of.
#[derive(Clone)]
pub struct RecordMetrics {
    pub facts: watch::Receiver<Option<Arc<Facts>>>,
    pub counters: watch::Receiver<UsageCounters>,
    /// States of the budgets.
    pub usage: watch::Receiver<Arc<UsageFacts>>,
    /// State of remote write, where it is configured.
    pub remote: Option<watch::Receiver<RemoteWriteState>>,
    /// State of the delivery of findings, where it is configured.
    pub notify: Option<watch::Receiver<WatchStatus>>,
    /// Labels of every series: the cluster and the recorder.
    pub common: Labels,
}

impl RecordMetrics {
    /// The labels of every series.
    pub fn common(settings: &Settings, context: &str) -> Labels {
        let own = &settings.record;
        let machine = || {
            let name = rustix::system::uname();
            name.nodename().to_string_lossy().into_owned()
        };
        vec![
            (
                "cluster",
                own.cluster.clone().unwrap_or_else(|| context.to_owned()),
            ),
            ("recorder", own.name.clone().unwrap_or_else(machine)),
        ]
    }

    fn families(&self) -> Vec<MetricFamily> {
        let mut families = metrics::usage(&self.counters.borrow());
        let facts = self.facts.borrow().clone();
        if let Some(facts) = facts {
            families.extend(metrics::fleet(&facts));
        }
        families.extend(metrics::budgets(&self.usage.borrow().budgets));
        if let Some(remote) = &self.remote {
            families.extend(sent(&remote.borrow()));
        }
        if let Some(status) = &self.notify {
            families.extend(status.borrow().delivery());
        }
        families
    }

    /// The metrics in Prometheus text format.
    pub fn page(&self) -> String {
        metrics::text(&self.families(), &self.common)
    }

    /// The metrics as remote-write values.
    pub fn values(&self) -> Vec<SeriesValue> {
        let mut values = Vec::new();
        for family in self.families() {
            let is_counter = family.kind == MetricKind::Counter;
            for (labels, value) in family.samples {
                let labels = self.common.iter().cloned().chain(labels);
                let name = ("__name__".to_owned(), family.name.to_owned());
                values.push(SeriesValue {
                    labels: labels
                        .map(|(name, value)| (name.to_owned(), value))
                        .chain([name])
                        .collect(),
                    value,
                    is_counter,
                });
            }
        }
        values
    }
}

/// Metrics about remote write.
fn sent(state: &RemoteWriteState) -> Vec<MetricFamily> {
    use MetricKind::{Counter, Gauge};
    let samples = MetricFamily::new(
        Counter,
        "stokehold_remote_write_samples_total",
        "Samples that the receiver accepted.",
    );
    let mut dropped = MetricFamily::new(
        Counter,
        "stokehold_remote_write_dropped_samples_total",
        "Samples that never arrived: refused by the receiver, or dropped from the full queue.",
    );
    for (reason, count) in [
        ("rejected", state.rejected),
        ("queue_full", state.overflowed),
    ] {
        dropped.push(vec![("reason", reason.to_owned())], count as f64);
    }
    let retries = MetricFamily::new(
        Counter,
        "stokehold_remote_write_retries_total",
        "Requests that failed and were sent again.",
    );
    let waiting = MetricFamily::new(
        Gauge,
        "stokehold_remote_write_waiting_requests",
        "Requests that wait for the receiver.",
    );
    vec![
        samples.with(Vec::new(), state.sent as f64),
        dropped,
        retries.with(Vec::new(), state.retries as f64),
        waiting.with(Vec::new(), state.waiting as f64),
    ]
}

/// Remote-write options of the settings, with `url` in place of theirs if given; `None` where there is no URL.
pub fn remote_write(settings: &Settings, url: Option<&str>) -> Option<RemoteWriteOptions> {
    let own = &settings.record.remote_write;
    let url = url.or(own.url.as_deref())?;
    Some(RemoteWriteOptions {
        endpoint: Endpoint {
            name: "remote write".to_owned(),
            url: url.to_owned(),
            node: None,
            headers: own.headers.clone(),
            bearer_file: own.bearer_file.clone(),
            ca_file: own.ca_file.clone(),
        },
        username: own.username.clone(),
        password_file: own.password_file.clone(),
        timeout: own.timeout.duration(),
        queue: QUEUE,
    })
}

/// Messages about remote write: when it begins to fail, first drops samples, and works again.
#[derive(Default)]
pub struct RemoteWriteNews {
    fails: bool,
    drops: bool,
}

impl RemoteWriteNews {
    /// The message about a new state, if any.
    pub fn of(&mut self, state: &RemoteWriteState) -> Option<String> {
        let dropped = state.rejected + state.overflowed;
        if dropped > 0 && !self.drops {
            self.drops = true;
            self.fails = state.fault.is_some();
            let why = state.fault.as_deref().unwrap_or("the queue was full");
            return Some(format!(
                "remote write dropped {dropped} samples: {why}; stokehold_remote_write_dropped_samples_total counts them"
            ));
        }
        match (&state.fault, self.fails) {
            (Some(why), false) => {
                self.fails = true;
                Some(format!(
                    "remote write fails: {why}; it is tried again, recording continues"
                ))
            }
            (None, true) => {
                self.fails = false;
                Some("remote write works again".to_owned())
            }
            _ => None,
        }
    }
}
