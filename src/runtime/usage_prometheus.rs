//! The usage ledger of a machine that has none: in memory, of the hours that a Prometheus holds.

use std::sync::{Arc, Mutex, PoisonError};

use model::base::Moment;
use model::usage::{HourUsage, Span, start_of};
use record::usage::UsageFile;
use settings::Settings;
use source::api_stats::ApiStats;
use source::prometheus::prometheus_client::{PrometheusClient, PrometheusEndpoint};
use source::prometheus::usage_hours::UsageHours;

use super::{clock, source_options};

/// Reads hours, and keeps those that are over.
#[derive(Clone)]
pub struct PrometheusUsage {
    settings: Arc<Settings>,
    context: Option<String>,
    kept: Arc<Mutex<Option<Kept>>>,
}

/// What was read.
struct Kept {
    file: UsageFile,
    /// The first hour that was asked for.
    from: i64,
    name: String,
}

impl PrometheusUsage {
    /// By the settings, where they name a Prometheus by its address; `context` is the one whose hours are meant.
    pub fn of(settings: &Settings, context: Option<&str>) -> Option<Self> {
        let wanted = settings.prometheus.usage && settings.prometheus.url.is_some();
        wanted.then(|| Self {
            settings: Arc::new(settings.clone()),
            context: context.map(str::to_owned),
            kept: Arc::default(),
        })
    }

    /// Reads what is needed of a span and was not read before, and gives the ledger with the name of what it was read from to
    /// `then`. Waits for the answers: it belongs on a thread that may. `None` where no recorder's metrics are there.
    ///
    /// # Errors
    /// Prometheus does not answer, or several clusters are there and none is meant; as `then`.
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
            None => Kept {
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

    /// On a thread with a runtime of its own, for whoever asks may be in one or in none.
    fn read(
        &self,
        wanted: Span,
        all: Span,
        now: Moment,
    ) -> Result<Option<(Vec<HourUsage>, String)>, String> {
        let Some(options) = source_options::prometheus(&self.settings) else {
            return Err("no Prometheus is named: prometheus.url in the settings".to_owned());
        };
        let Some(PrometheusEndpoint::Direct(endpoint)) = options.road else {
            return Err("no Prometheus is named: prometheus.url in the settings".to_owned());
        };
        let host = host(&endpoint.url).to_owned();
        let road = PrometheusEndpoint::Direct(endpoint);
        // Questions of the hours are few and large, and nothing else is asked by this client.
        let per_minute = 600.0;
        let stats = ApiStats::new(clock::shared());
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

    /// As [`PrometheusUsage::with`], and gives the ledger away: for a command that reads once.
    ///
    /// # Errors
    /// As there.
    pub fn into_file(self, span: Span, now: Moment) -> Result<Option<(UsageFile, String)>, String> {
        self.with(span, now, |_, _| Ok(()))?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(kept.take().map(|kept| (kept.file, kept.name)))
    }
}

/// Host and port of an address, without what may be secret.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    host.rsplit_once('@').map_or(host, |(_, host)| host)
}
