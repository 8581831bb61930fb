//! Health and metrics of `watch`, for probes and Prometheus.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use model::fleet::observe::Table;
use model::fleet::{Fleet, TableState};
use table::Facts;
use table::metrics::{self, Labels, MetricFamily, MetricKind};
use table::notify::{DeliveryCounts, DeliveryRules};

use crate::runtime::status_server::ServedStatus;

/// Facts come every few seconds; a watcher without any for this long counts as failed.
const LATE: Duration = Duration::from_secs(60);

/// Status of a watcher.
#[derive(Clone, Default)]
pub struct WatchStatus {
    /// The last facts, and when they came.
    pub facts: Option<(Arc<Facts>, Instant)>,
    /// Receivers and their delivery counts.
    pub receivers: Vec<(DeliveryRules, DeliveryCounts)>,
    /// Whether delivery state is saved on disk; false where messages are only printed.
    pub keeps_state: bool,
    /// Why delivery state cannot be saved; `None` while it works.
    pub state_fault: Option<String>,
    /// Whether this process leads; `None` without leader election.
    pub leads: Option<bool>,
}

/// Why the cluster counts as not read, by when the last facts came.
pub(crate) fn not_read(last: Option<Instant>) -> Option<String> {
    match last {
        None => Some("the cluster is not read yet".to_owned()),
        Some(at) if at.elapsed() > LATE => Some(format!(
            "the cluster was not read in the last {} seconds",
            at.elapsed().as_secs()
        )),
        Some(_) => None,
    }
}

/// Why the facts are unusable: nodes or pods cannot be listed.
pub(crate) fn unlisted(fleet: &Fleet) -> Option<String> {
    [Table::Nodes, Table::Pods].into_iter().find_map(|table| {
        let TableState::Lost(lost) = fleet.visibility(table) else {
            return None;
        };
        Some(format!(
            "{} cannot be listed: {}",
            table.plural(),
            lost.message
        ))
    })
}

impl WatchStatus {
    fn trouble(&self) -> Option<String> {
        let last = self.facts.as_ref().map(|(_, at)| *at);
        let lost = || unlisted(&self.facts.as_ref()?.0.fleet);
        not_read(last).or_else(lost)
    }

    fn families(&self) -> Vec<MetricFamily> {
        use MetricKind::Gauge;
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        let up = f64::from(u8::from(self.trouble().is_none()));
        let mut families = vec![
            MetricFamily::new(Gauge, "stokehold_build_info", "The version of the program.")
                .with(version, 1.0),
            MetricFamily::new(
                Gauge,
                "stokehold_watch_up",
                "Whether the cluster is read: 1, or 0 where it is not.",
            )
            .with(Vec::new(), up),
        ];
        if let Some(leads) = self.leads {
            let help =
                "Whether this process holds the Lease and sends: 1, or 0 where another does.";
            families.push(
                MetricFamily::new(Gauge, "stokehold_watch_leads", help)
                    .with(Vec::new(), f64::from(u8::from(leads))),
            );
        }
        if let Some((facts, _)) = &self.facts {
            families.extend(metrics::findings(facts));
        }
        families.extend(self.delivery());
        families
    }

    pub(crate) fn delivery(&self) -> Vec<MetricFamily> {
        use MetricKind::{Counter, Gauge};
        let kept = f64::from(u8::from(self.state_fault.is_none()));
        let kept = self.keeps_state.then_some(kept);
        let kept = MetricFamily::new(
            Gauge,
            "stokehold_watch_state_written",
            "Whether the list of sent messages is kept on disk: 1, or 0 where a restart would send them again.",
        )
        .with(Vec::new(), kept);
        let mut sent = MetricFamily::new(
            Counter,
            "stokehold_notify_messages_total",
            "Messages that a receiver accepted.",
        );
        let mut failed = MetricFamily::new(
            Counter,
            "stokehold_notify_failures_total",
            "Messages that a receiver did not accept: it failed and they are sent again, or it refused them.",
        );
        let mut dropped = MetricFamily::new(
            Counter,
            "stokehold_notify_dropped_findings_total",
            "Findings that ended before a receiver accepted a message about them.",
        );
        let mut waiting = MetricFamily::new(
            Gauge,
            "stokehold_notify_waiting_messages",
            "Messages that wait for a receiver.",
        );
        let mut last = MetricFamily::new(
            Gauge,
            "stokehold_notify_last_success_timestamp_seconds",
            "When a receiver last accepted a message.",
        );
        for (rules, counts) in &self.receivers {
            let labels: Labels = vec![
                ("receiver", rules.receiver.to_string()),
                ("kind", rules.kind.name().to_owned()),
            ];
            sent.push(labels.clone(), counts.sent as f64);
            for (reason, count) in [("failed", counts.retries), ("refused", counts.refused)] {
                let mut labels = labels.clone();
                labels.push(("reason", reason.to_owned()));
                failed.push(labels, count as f64);
            }
            dropped.push(labels.clone(), counts.dropped as f64);
            waiting.push(labels.clone(), counts.waiting as f64);
            last.push(labels, counts.last_sent.map(|at| at.millis() as f64 / 1e3));
        }
        vec![kept, sent, failed, dropped, waiting, last]
    }
}

/// The served status, with the labels of every series.
pub struct ServedWatch {
    pub status: watch::Receiver<WatchStatus>,
    /// Labels of every series.
    pub common: Labels,
}

impl ServedStatus for ServedWatch {
    fn dead(&self) -> Option<String> {
        // The sender is dropped when the loop ends.
        let ended = self.status.has_changed().is_err();
        ended.then(|| "watching has ended".to_owned())
    }

    fn not_ready(&self) -> Option<String> {
        self.dead().or_else(|| self.status.borrow().trouble())
    }

    fn metrics(&self) -> String {
        metrics::text(&self.status.borrow().families(), &self.common)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::fleet::observe::{Lost, LostKind};

    #[tokio::test(start_paused = true)]
    async fn it_is_ready_while_the_cluster_is_read() {
        let mut status = WatchStatus::default();
        let trouble = |status: &WatchStatus| status.trouble().unwrap_or_default();
        assert_eq!(trouble(&status), "the cluster is not read yet");
        let facts = table::sample::facts();
        status.facts = Some((Arc::new(facts.clone()), Instant::now()));
        assert_eq!(status.trouble(), None);
        tokio::time::advance(LATE + Duration::from_secs(1)).await;
        assert_eq!(
            trouble(&status),
            "the cluster was not read in the last 61 seconds"
        );
        let mut fleet = (*facts.fleet).clone();
        let lost = Lost {
            kind: LostKind::Unreachable,
            since: facts.now,
            message: "connection refused".to_owned(),
        };
        Arc::make_mut(&mut fleet.known).insert(Table::Pods, TableState::Lost(lost));
        let facts = Facts {
            fleet: Arc::new(fleet),
            ..facts
        };
        status.facts = Some((Arc::new(facts), Instant::now()));
        assert_eq!(
            trouble(&status),
            "pods cannot be listed: connection refused"
        );
        let up = |status: &WatchStatus| {
            let families = status.families();
            let own = families
                .iter()
                .find(|family| family.name == "stokehold_watch_up");
            own.map(|family| family.samples[0].1)
        };
        assert_eq!(up(&status), Some(0.0));
    }
}
