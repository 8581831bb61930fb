//! An in-memory usage ledger for a machine that has none, read from the hourly usage metrics in a Prometheus.

use std::sync::{Arc, Mutex, PoisonError};

use model::base::Moment;
use record::usage::UsageFile;
use settings::Settings;
use source::api_stats::ApiStats;
use source::prometheus::prometheus_client::{PrometheusClient, PrometheusEndpoint};
use source::prometheus::usage_hours::UsageHours;
use usage::{HourUsage, Span, start_of};

use crate::runtime::source_options;

/// Reads usage hours from Prometheus, and caches the closed ones.
#[derive(Clone)]
pub struct PrometheusUsage {
    settings: Arc<Settings>,
    context: Option<String>,
    kept: Arc<Mutex<Option<CachedHours>>>,
}

struct CachedHours {
    file: UsageFile,
    /// The first hour that was requested.
    from: i64,
    name: String,
}

impl PrometheusUsage {
    /// `None` unless `prometheus.usage` is on and `prometheus.url` is set. `context` selects the cluster whose hours are read.
    pub fn of(settings: &Settings, context: Option<&str>) -> Option<Self> {
        let is_enabled = settings.prometheus.usage && settings.prometheus.url.is_some();
        is_enabled.then(|| Self {
            settings: Arc::new(settings.clone()),
            context: context.map(str::to_owned),
            kept: Arc::default(),
        })
    }

    /// Reads the hours of a span that are not cached, and calls `then` with the ledger and the name of its source. Blocks until
    /// Prometheus answers. `None` when Prometheus has no metrics of a recorder.
    ///
    /// # Errors
    /// Prometheus does not answer, or has several clusters and none is selected, or `then` fails.
    pub fn with_ledger<T>(
        &self,
        span: Span,
        now: Moment,
        then: impl FnOnce(&UsageFile, &str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| kept.from > span.from) {
            *kept = None;
        }
        let failed = |fault: &dyn std::fmt::Display| fault.to_string();
        let from = match &*kept {
            Some(kept) => kept.file.resumes_at().map_err(|fault| failed(&fault))?,
            None => None,
        };
        let wanted = Span {
            from: from.unwrap_or(span.from),
            to: span.to,
        };
        let Some((hours, name)) = self.read(wanted, span, now)? else {
            return Ok(None);
        };
        let mut next = match kept.take() {
            Some(kept) => kept,
            None => CachedHours {
                file: UsageFile::in_memory()
                    .map_err(|fault| failed(&fault))?
                    .without_ends(),
                from: span.from,
                name,
            },
        };
        let written = next.file.write(&hours, &[]);
        written.map_err(|fault| failed(&fault))?;
        let next = kept.insert(next);
        then(&next.file, &next.name).map(Some)
    }

    /// Reads on a thread with its own tokio runtime: the caller may already be inside a runtime, where blocking is not allowed.
    fn read(
        &self,
        wanted: Span,
        all: Span,
        now: Moment,
    ) -> Result<Option<(Vec<HourUsage>, String)>, String> {
        let Some(options) = source_options::prometheus(&self.settings) else {
            return Err(
                "no Prometheus is configured: set prometheus.url in the settings".to_owned(),
            );
        };
        let Some(PrometheusEndpoint::Direct(endpoint)) = options.endpoint else {
            return Err(
                "no Prometheus is configured: set prometheus.url in the settings".to_owned(),
            );
        };
        let host = host(&endpoint.url).to_owned();
        let endpoint = PrometheusEndpoint::Direct(endpoint);
        // No throttling: this client sends only these few large queries.
        let per_minute = 600.0;
        let stats = ApiStats::new(Arc::new(move || now));
        let client = PrometheusClient::new(None, stats, endpoint, options.timeout, per_minute);
        let client = Arc::new(client);
        let cluster_name = self.settings.record.cluster.clone();
        let context = self.context.clone();
        let matchers = options.matchers;
        let work = async move {
            let hours = UsageHours::find(
                client,
                matchers,
                cluster_name.as_deref(),
                context.as_deref(),
                start_of(all.from),
                now,
            )
            .await?;
            let Some(hours) = hours else { return Ok(None) };
            let read = hours.read(wanted, now).await?;
            Ok(Some((read, hours.cluster().to_owned())))
        };
        let result: Result<_, String> = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|error| format!("cannot start: {error}"))?;
                runtime.block_on(work)
            });
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err("reading failed; see the log".to_owned()))
        });
        let result = result.map_err(|why| format!("Prometheus {host}: {why}"))?;
        Ok(result.map(|(read, cluster)| (read, format!("Prometheus {host}, cluster {cluster}"))))
    }

    /// As [`PrometheusUsage::with_ledger`], but returns the ledger; for a command that reads once.
    ///
    /// # Errors
    /// As [`PrometheusUsage::with_ledger`].
    pub fn into_file(self, span: Span, now: Moment) -> Result<Option<(UsageFile, String)>, String> {
        self.with_ledger(span, now, |_, _| Ok(()))?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(kept.take().map(|kept| (kept.file, kept.name)))
    }
}

/// Host and port of a URL, without credentials.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    host.rsplit_once('@').map_or(host, |(_, host)| host)
}
