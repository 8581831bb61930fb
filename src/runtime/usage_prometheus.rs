//! Usage ledger for a machine without one: in memory, from the hours that a Prometheus has.

use std::sync::{Arc, Mutex, PoisonError};

use model::base::Moment;
use record::usage::UsageFile;
use settings::Settings;
use source::api_stats::ApiStats;
use source::prometheus::prometheus_client::{PrometheusClient, PrometheusEndpoint};
use source::prometheus::usage_hours::UsageHours;
use usage::{HourUsage, Span, start_of};

use super::source_options;

/// Reads hours, and caches closed ones.
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
    /// From the settings, where they have the URL of a Prometheus; `context` is the one to read.
    pub fn of(settings: &Settings, context: Option<&str>) -> Option<Self> {
        let wanted = settings.prometheus.usage && settings.prometheus.url.is_some();
        wanted.then(|| Self {
            settings: Arc::new(settings.clone()),
            context: context.map(str::to_owned),
            kept: Arc::default(),
        })
    }

    /// Reads the hours of a span that are not cached, and calls `then` with the ledger and the name of its source. Blocks until
    /// Prometheus answers. `None` where it has no recorder's metrics.
    ///
    /// # Errors
    /// Prometheus does not answer, or has several clusters and none is selected; those of `then`.
    pub fn with<T>(
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

    /// Reads on a thread with its own runtime, since the caller may or may not be in one.
    fn read(
        &self,
        wanted: Span,
        all: Span,
        now: Moment,
    ) -> Result<Option<(Vec<HourUsage>, String)>, String> {
        let Some(options) = source_options::prometheus(&self.settings) else {
            return Err("no Prometheus is named: prometheus.url in the settings".to_owned());
        };
        let Some(PrometheusEndpoint::Direct(endpoint)) = options.endpoint else {
            return Err("no Prometheus is named: prometheus.url in the settings".to_owned());
        };
        let host = host(&endpoint.url).to_owned();
        let road = PrometheusEndpoint::Direct(endpoint);
        // These queries are few and large, and this client has no others.
        let per_minute = 600.0;
        let stats = ApiStats::new(Arc::new(move || now));
        let client = PrometheusClient::new(None, stats, road, options.timeout, per_minute);
        let client = Arc::new(client);
        let named = self.settings.record.cluster.clone();
        let context = self.context.clone();
        let matchers = options.matchers;
        let work = async move {
            let hours = UsageHours::find(
                client,
                matchers,
                named.as_deref(),
                context.as_deref(),
                start_of(all.from),
                now,
            )
            .await?;
            let Some(hours) = hours else { return Ok(None) };
            let read = hours.read(wanted, now).await?;
            Ok(Some((read, hours.cluster().to_owned())))
        };
        let told: Result<_, String> = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .map_err(|error| format!("cannot start: {error}"))?;
                runtime.block_on(work)
            });
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err("reading it failed; the log has more".to_owned()))
        });
        let told = told.map_err(|why| format!("Prometheus {host}: {why}"))?;
        Ok(told.map(|(read, cluster)| (read, format!("Prometheus {host}, cluster {cluster}"))))
    }

    /// As [`PrometheusUsage::with`], but returns the ledger; for a command that reads once.
    ///
    /// # Errors
    /// As [`PrometheusUsage::with`].
    pub fn into_file(self, span: Span, now: Moment) -> Result<Option<(UsageFile, String)>, String> {
        self.with(span, now, |_, _| Ok(()))?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(kept.take().map(|kept| (kept.file, kept.name)))
    }
}

/// Host and port of a URL, without possible secrets.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    host.rsplit_once('@').map_or(host, |(_, host)| host)
}
