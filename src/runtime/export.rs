//! Metrics of an exporter that records nothing: usage is counted in memory.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use model::cost::Prices;
use table::Facts;
use table::metrics::{self, MetricFamily, MetricKind};
use usage::UsageCounters;

use super::records::record_metrics::RecordMetrics;
use super::records::recorder::PerJob;
use super::status_server::ServedStatus;
use super::usage::sample;
use super::watch::metrics::{not_read, unlisted};

/// Usage counters, and when the last complete snapshot came.
pub type CountersAt = (
    watch::Receiver<UsageCounters>,
    watch::Receiver<Option<Instant>>,
);

/// Counts usage from now on. Must be called within a tokio runtime.
pub fn count_usage(
    mut facts: watch::Receiver<Option<Arc<Facts>>>,
    prices: Arc<Prices>,
    jobs: PerJob,
) -> CountersAt {
    let (counters, counted) = watch::channel(jobs.counters());
    let (seen, last_snapshot_at) = watch::channel(None);
    tokio::spawn(async move {
        while facts.changed().await.is_ok() {
            let Some(facts) = facts.borrow_and_update().clone() else {
                continue;
            };
            let sample = sample(&facts, &prices);
            counters.send_modify(|counters| counters.take(&sample));
            if facts.fleet.is_complete() && unlisted(&facts.fleet).is_none() {
                seen.send_replace(Some(Instant::now()));
            }
        }
    });
    (counted, last_snapshot_at)
}

/// The metrics that are served.
pub struct ServedExport {
    pub metrics: RecordMetrics,
    /// When the last complete snapshot came.
    pub last_snapshot_at: watch::Receiver<Option<Instant>>,
}

impl ServedStatus for ServedExport {
    fn dead(&self) -> Option<String> {
        let ended = self.last_snapshot_at.has_changed().is_err();
        ended.then(|| "every source has ended".to_owned())
    }

    fn not_ready(&self) -> Option<String> {
        self.dead()
            .or_else(|| not_read(*self.last_snapshot_at.borrow()))
    }

    fn metrics(&self) -> String {
        let up = f64::from(u8::from(self.not_ready().is_none()));
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        let gauge = |name, help| MetricFamily::new(MetricKind::Gauge, name, help);
        let own = [
            gauge("stokehold_build_info", "The version of the program.").with(version, 1.0),
            gauge(
                "stokehold_export_up",
                "Whether the cluster is read: 1, or 0 where it is not.",
            )
            .with(Vec::new(), up),
        ];
        metrics::text(&own, &[]) + &self.metrics.page()
    }
}
