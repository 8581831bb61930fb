//! Sources of observations: tables of the API server, pages of exporters, Prometheus.
//!
//! [`start`] runs one task per table, one for the exporters, one for Prometheus, one for the order of Kueue's pending workloads
//! and one that probes the connection; all end when its result is dropped. What is seen, lost or refused is reported, not judged.

pub mod api_error;
pub mod api_stats;
mod backoff;
pub mod client;
pub mod counting_layer;
pub mod fetch;
pub mod gate;
mod health_probe;
pub mod kubeconfig;
pub mod kubernetes;
pub mod limits;
pub mod local;
pub mod login;
pub mod logs;
mod no_proxy;
pub mod notify;
pub mod plugin;
pub mod post;
pub mod prometheus;
pub mod remote_write;
pub mod reread;
pub mod rights;
pub mod scrape;
pub mod scrape_coverage;
pub mod server;
pub mod serving;
pub mod trust;
pub mod watch_object;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use exporter::Dialects;
use model::base::{Name, Names};
use model::fleet::observe::{Observation, Table};

use client::Connection;
use kubernetes::Namespaces;
use prometheus::{Feed, PrometheusOptions};
use reread::Bell;
use scrape::{ScrapeOptions, Scraper};
use scrape_coverage::{ScrapeCoverage, ScrapedNodes};

/// The sources to observe, and the receiver of observations.
pub struct StartOptions {
    /// The client, and the statistics of its requests.
    pub connection: Connection,
    /// The namespaces whose objects are read.
    pub namespaces: Namespaces,
    /// Which tables; the others stay unknown.
    pub tables: Vec<Table>,
    /// Namespace of the ConfigMap with the queues of `govern`.
    pub govern_namespace: String,
    /// The dialects of the exporters: which metric is which signal.
    pub dialects: Arc<Dialects>,
    /// How exporters are read; `None` reads none.
    pub scrape: Option<ScrapeOptions>,
    /// How readings are queried from Prometheus; `None` for no Prometheus.
    pub prometheus: Option<PrometheusOptions>,
    /// Where observations go, in batches.
    pub out: mpsc::Sender<Vec<Observation>>,
    /// The nodes on screen: their exporters are read first.
    pub on_screen: watch::Receiver<BTreeSet<Name>>,
    /// The nodes whose readings are needed.
    pub reach: watch::Receiver<ScrapedNodes>,
}

/// The running sources: dropping them ends all.
pub struct Sources {
    _tasks: JoinSet<()>,
    again: Bell,
}

impl Sources {
    /// Reads every source again: tables are listed again, sources that failed or were missing are retried now. All limits
    /// stay: the intervals of exporters, the request budget, and the `Retry-After` of a server.
    ///
    /// # Errors
    /// The last successful call was less than [`reread::SPACING`] ago: the time until the next one is possible.
    pub fn read_again(&mut self) -> Result<(), Duration> {
        self.again.ring()
    }
}

/// The paths behind the API server's proxy that the read gate must allow: the pages of these dialects, and the API of Prometheus.
pub fn proxied_paths(dialects: &Dialects) -> BTreeSet<String> {
    dialects
        .iter()
        .map(|dialect| dialect.discovery.path.clone())
        .chain(prometheus_paths(""))
        .collect()
}

/// The paths of Prometheus' API that are requested, behind a prefix: empty or `/prefix`.
pub fn prometheus_paths(prefix: &str) -> impl Iterator<Item = String> {
    prometheus::prometheus_client::PATHS
        .iter()
        .map(move |path| format!("{prefix}{path}"))
}

/// Starts every source. Must be called within a tokio runtime.
pub fn start(options: StartOptions) -> Sources {
    let Connection { client, stats, .. } = options.connection;
    let again = Bell::new(stats.clock());
    let names = Arc::new(Mutex::new(Names::default()));
    let mut tasks = JoinSet::new();
    let mut receivers = Vec::new();
    let cover = watch::Sender::new(match options.prometheus {
        Some(_) => ScrapeCoverage::Pending,
        None => ScrapeCoverage::nothing(),
    });
    if let Some(scrape) = options.scrape {
        let (sender, news) = mpsc::unbounded_channel();
        receivers.push(sender);
        let scraper = Scraper {
            client: client.clone(),
            stats: Arc::clone(&stats),
            dialects: Arc::clone(&options.dialects),
            names: Arc::clone(&names),
            options: scrape,
            out: options.out.clone(),
            news,
            on_screen: options.on_screen,
            cover: cover.subscribe(),
            reach: options.reach.clone(),
            again: again.listen(),
        };
        tasks.spawn(scraper.run());
    }
    if let Some(prometheus) = options.prometheus {
        let (sender, news) = mpsc::unbounded_channel();
        receivers.push(sender);
        let feed = Feed {
            client: client.clone(),
            stats: Arc::clone(&stats),
            dialects: Arc::clone(&options.dialects),
            names: Arc::clone(&names),
            options: prometheus,
            out: options.out.clone(),
            news,
            cover,
            reach: options.reach,
            again: again.listen(),
        };
        tasks.spawn(feed.run());
    }
    let serving = (!receivers.is_empty())
        .then(|| serving::ServingSenders::new(Arc::clone(&options.dialects), receivers));
    let server = Arc::new(server::Api::new(client.clone(), stats.clock()));
    tasks.spawn(health_probe::run(
        Arc::clone(&stats),
        Arc::clone(&server),
        options.out.clone(),
        again.listen(),
    ));
    let waiting = kubernetes::order::PendingQueues::default();
    if options.tables.contains(&Table::ClusterQueues) {
        let order = kubernetes::order::WatchRequest {
            client: client.clone(),
            clock: stats.clock(),
            waiting: waiting.clone(),
            names: Arc::clone(&names),
            out: options.out.clone(),
            again: again.listen(),
        };
        tasks.spawn(order.run());
    }
    let shared = Arc::new(kubernetes::Shared {
        client,
        stats,
        server,
        namespaces: options.namespaces,
        names,
        kept: AtomicUsize::new(0),
        out: options.out,
        serving,
        govern_namespace: options.govern_namespace,
        waiting,
        again: again.listen(),
    });
    for table in options.tables {
        match &shared.namespaces {
            Namespaces::Several(all) if table.api().namespaced => {
                let all = all.clone();
                tasks.spawn(kubernetes::several::follow(Arc::clone(&shared), table, all));
            }
            _ => drop(tasks.spawn(kubernetes::follow(Arc::clone(&shared), table))),
        }
    }
    Sources {
        _tasks: tasks,
        again,
    }
}
