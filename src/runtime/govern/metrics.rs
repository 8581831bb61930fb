//! Health and metrics of `govern`, for probes and Prometheus.

use tokio::sync::watch;

use table::metrics::{self, MetricFamily, MetricKind};

use super::{GovernStatus, LATE};
use crate::runtime::status_server::ServedStatus;

/// The status that probes and Prometheus read.
#[derive(Debug)]
pub struct ServedGovern(pub watch::Receiver<GovernStatus>);

impl ServedStatus for ServedGovern {
    fn dead(&self) -> Option<String> {
        self.0
            .has_changed()
            .err()
            .map(|_| "governing has ended".to_owned())
    }

    fn not_ready(&self) -> Option<String> {
        let status = self.0.borrow();
        // A process that waits for the Lease is healthy.
        if status.leads == Some(false) {
            return None;
        }
        let late = match status.decided {
            None => Some("nothing was decided yet".to_owned()),
            Some(at) if at.elapsed() > LATE => Some(format!(
                "nothing was decided in the last {} seconds",
                at.elapsed().as_secs()
            )),
            Some(_) => None,
        };
        status.blocked.clone().or(late)
    }

    fn degraded(&self) -> Option<String> {
        let status = self.0.borrow();
        let fault = status.fault.as_ref();
        fault.map(|(why, since)| format!("{why} (since {})", since.rfc3339()))
    }

    fn metrics(&self) -> String {
        use MetricKind::{Counter, Gauge};
        let up = f64::from(u8::from(self.not_ready().is_none()));
        let status = self.0.borrow();
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        let mut families = vec![
            MetricFamily::new(Gauge, "stokehold_build_info", "The version of the program.")
                .with(version, 1.0),
            MetricFamily::new(
                Gauge,
                "stokehold_govern_up",
                "Whether jobs are governed: 1, or 0 where nothing can be decided.",
            )
            .with(Vec::new(), up),
            MetricFamily::new(
                Counter,
                "stokehold_govern_decisions_total",
                "Decisions that were made.",
            )
            .with(Vec::new(), status.decisions as f64),
            MetricFamily::new(
                Gauge,
                "stokehold_govern_decision_seconds",
                "How long the last decision took.",
            )
            .with(Vec::new(), status.took.as_secs_f64()),
        ];
        let help = "Whether the document of the queues is valid: 1, or 0 while the queues of an earlier one apply, or none.";
        families.push(
            MetricFamily::new(Gauge, "stokehold_govern_queues_valid", help)
                .with(Vec::new(), f64::from(u8::from(status.fault.is_none()))),
        );
        if let Some(leads) = status.leads {
            let help =
                "Whether this process holds the Lease and governs: 1, or 0 where another does.";
            families.push(
                MetricFamily::new(Gauge, "stokehold_govern_leads", help)
                    .with(Vec::new(), f64::from(u8::from(leads))),
            );
        }
        families.push(
            MetricFamily::new(
                Gauge,
                "stokehold_govern_denied_jobs",
                "Jobs that are not changed for a while because the server refuses changes, or does not answer.",
            )
            .with(Vec::new(), status.denied as f64),
        );
        let mut writes = MetricFamily::new(
            Counter,
            "stokehold_govern_writes_total",
            "Writes on jobs, by purpose and outcome.",
        );
        for ((purpose, outcome), count) in &status.writes {
            let labels = vec![
                ("purpose", (*purpose).to_owned()),
                ("outcome", (*outcome).to_owned()),
            ];
            writes = writes.with(labels, *count as f64);
        }
        let mut jobs = MetricFamily::new(
            Gauge,
            "stokehold_govern_jobs",
            "Jobs with the label, by queue and state.",
        );
        for ((queue, standing), count) in &status.jobs {
            let labels = vec![("queue", queue.clone()), ("state", (*standing).to_owned())];
            jobs = jobs.with(labels, *count as f64);
        }
        families.extend([writes, jobs]);
        metrics::text(&families, &[])
    }
}
