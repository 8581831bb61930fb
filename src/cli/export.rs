//! `export`: serves the metrics of a recorder without recording, until it is stopped.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;

use model::base::{Exit, Failure};

use crate::runtime::export::{self, ServedExport};
use crate::runtime::record_metrics::RecordMetrics;
use crate::runtime::recorder::{self, PerJob};
use crate::runtime::session;
use crate::runtime::status_server;

use super::listen;
use super::out;
use super::setup::{self, Situation};
use super::simulated::FleetFlags;
use super::watch;

/// Where to serve, and what.
#[derive(Args, Clone, Debug)]
pub struct ExportFlags {
    /// Answer /metrics, /healthz and /readyz there, over plain HTTP; :PORT is on all interfaces
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9845", value_parser = listen::address)]
    listen: SocketAddr,
    /// Serve those of the simulated fleet, not of the cluster
    #[arg(long)]
    demo: bool,
    #[command(flatten)]
    fleet: FleetFlags,
}

impl ExportFlags {
    /// The simulated fleet, if that is the source.
    pub(super) fn fleet(&self) -> Option<FleetFlags> {
        self.demo.then_some(self.fleet)
    }
}

pub(super) fn run(
    at: &Situation,
    flags: &ExportFlags,
    out: &mut dyn Write,
) -> Result<Exit, Failure> {
    if !flags.demo && flags.fleet != FleetFlags::default() {
        let message = "export: --nodes, --devices, --seed, --speed and --at are of the simulated fleet; add --demo";
        return Err(Failure::new(Exit::Usage, message));
    }
    at.host.block_on(async {
        let setup = at.setup(true);
        let listener = status_server::listen(flags.listen).await?;
        let (session, _) = session::watch(&setup, at.target()?, recorder::PACE).await?;
        let jobs = PerJob(at.settings.record.job_metrics);
        let prices = Arc::clone(&at.rulebook.prices);
        let (counters, last) = export::counted(session.facts.clone(), prices, jobs);
        // Budgets are known where this machine, or a Prometheus, has the hours.
        let usage = watch::inputs(at, &session).usage;
        let metrics = RecordMetrics {
            facts: session.facts.clone(),
            counters,
            usage,
            remote: None,
            notify: None,
            common: RecordMetrics::common(&at.settings, &session.context),
        };
        let address = listener.local_addr().unwrap_or(flags.listen);
        let words = format!(
            "serves metrics of {} at http://{address}/metrics, with /healthz and /readyz; ctrl-c ends it\n",
            session.context
        );
        out::write(out, &words)?;
        let mut ended = last.clone();
        let served = Arc::new(ServedExport { metrics, last });
        tokio::select! {
            () = setup::ended() => Ok(Exit::Done),
            () = status_server::accept(listener, served) => Ok(Exit::Done),
            _ = ended.wait_for(|_| false) => {
                Err(Failure::new(Exit::Unreachable, "every source has ended; start again"))
            }
        }
    })
}
