//! `export`: serves the Prometheus metrics that `record --metrics` serves, but records nothing. It runs until it is interrupted.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;

use model::base::{Exit, Failure};

use crate::runtime::export::{self, ServedExport};
use crate::runtime::records::record_metrics::RecordMetrics;
use crate::runtime::records::recorder::{self, PerJob};
use crate::runtime::session;
use crate::runtime::status_server;

use super::common::listen;
use super::common::out;
use super::common::setup::{self, Situation};
use super::common::simulated::FleetFlags;
use super::watch;

/// Flags of `export`.
#[derive(Args, Clone, Debug)]
pub struct ExportFlags {
    /// Serve /metrics, /healthz and /readyz on this address, over plain HTTP; :PORT listens on all interfaces
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9845", value_parser = listen::address)]
    listen: SocketAddr,
    /// Serve the metrics of the simulated fleet instead of the cluster's
    #[arg(long)]
    demo: bool,
    #[command(flatten)]
    fleet: FleetFlags,
}

impl ExportFlags {
    /// Flags of the simulated fleet; `None` without `--demo`.
    pub(super) fn fleet(&self) -> Option<FleetFlags> {
        self.demo.then_some(self.fleet)
    }
}

pub(super) fn run(
    situation: &Situation,
    flags: &ExportFlags,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    flags.fleet.refuse_unless(flags.demo, "export", "--demo")?;
    situation.host.block_on(async {
        let setup = situation.setup(true);
        let listener = status_server::listen(flags.listen).await?;
        let (session, _) = session::watch(&setup, situation.target()?, recorder::SNAPSHOT_INTERVAL).await?;
        let jobs = PerJob(situation.settings.record.job_metrics);
        let prices = Arc::clone(&situation.rulebook.prices);
        let (counters, last_snapshot_at) = export::count_usage(session.facts.clone(), prices, jobs);
        // Budgets need the hours of their period, from this machine's usage ledger or from a Prometheus.
        let usage = watch::inputs(situation, &session).usage;
        let metrics = RecordMetrics {
            facts: session.facts.clone(),
            counters,
            usage,
            remote: None,
            notify: None,
            common: RecordMetrics::common(&situation.settings, &session.context),
        };
        let address = listener.local_addr().unwrap_or(flags.listen);
        let words = format!(
            "serves metrics of {} at http://{address}/metrics, with /healthz and /readyz; ctrl-c ends it\n",
            session.context
        );
        out::write(out, &words)?;
        let mut ended = last_snapshot_at.clone();
        let served = Arc::new(ServedExport {
            metrics,
            last_snapshot_at,
        });
        tokio::select! {
            () = setup::ended() => Ok(Exit::Done),
            () = status_server::accept(listener, served) => Ok(Exit::Done),
            // Returns only when the sender is dropped: every source has ended.
            _ = ended.wait_for(|_| false) => {
                Err(Failure::new(Exit::Unreachable, "every source has ended; start again"))
            }
        }
    })
}
