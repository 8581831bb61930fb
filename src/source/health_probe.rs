//! Health of the connection to the API server: reachability, latency, clock skew and request rate.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use model::base::Name;
use model::fleet::observe::{Observation, SourceHealth, SourceState};
use model::fleet::source_errors::SourceErrors;

use super::api_error::ApiError;
use super::api_stats::{ApiStats, RequestClass};
use super::reread::Again;
use super::server::Api;

/// Interval of the version request.
const EVERY: Duration = Duration::from_secs(30);

/// Interval while the server does not answer: the other tasks wait for its return.
const WHEN_LOST: Duration = Duration::from_secs(4);

/// Interval at which clock and counters are read.
const LOOK: Duration = Duration::from_secs(2);

/// Timeout of the version request.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that has sent nothing for this long after a request may be down: its version is requested immediately.
const DOUBT: Duration = Duration::from_secs(3);

/// Timeout of that version request.
const PATIENCE_IN_DOUBT: Duration = Duration::from_secs(5);

/// A skew that changes by more than this is reported, milliseconds.
const MOVED: i64 = 1000;

/// Runs until the receiver is closed or the task is dropped.
pub(super) async fn run(
    stats: Arc<ApiStats>,
    server: Arc<Api>,
    out: mpsc::Sender<Vec<Observation>>,
    mut again: Again,
) {
    let mut reported: Option<i64> = None;
    let mut errors = SourceErrors::default();
    let mut asked = None;
    let mut every = EVERY;
    loop {
        let now = stats.local();
        let mut batch = Vec::new();
        let doubt = stats.silent_for().is_some_and(|silent| silent >= DOUBT);
        let every_now = if doubt { every.min(WHEN_LOST) } else { every };
        if asked.is_none_or(|at| now.since(at) >= every_now.into()) {
            asked = Some(now);
            let patience = if doubt { PATIENCE_IN_DOUBT } else { PATIENCE };
            let (state, message) = match tokio::time::timeout(patience, server.version()).await {
                Ok(Ok(version)) => (SourceState::Live, version.name().to_owned()),
                Ok(Err(error)) => (SourceState::Lost, words(&error)),
                Err(_) => (
                    SourceState::Lost,
                    format!(
                        "the API server does not answer within {} s",
                        patience.as_secs()
                    ),
                ),
            };
            if state == SourceState::Lost {
                errors.add(stats.now(), message.as_str());
            }
            every = if state == SourceState::Lost {
                WHEN_LOST
            } else {
                EVERY
            };
            let figures = stats.figures(RequestClass::Server);
            batch.push(Observation::Source(SourceHealth {
                // Any answer shows that the server is up, a refusal too.
                last_ok: stats.last_response(),
                latency_ms: figures.latency_ms,
                errors: errors.count,
                last_errors: Arc::clone(&errors.last),
                calls_per_minute: Some(stats.calls_per_minute()),
                message,
                ..SourceHealth::new(Name::new("api"), Name::new("kubernetes"), state, EVERY * 3)
            }));
        }
        if let Some(skew) = stats.skew_ms()
            && reported.is_none_or(|reported| (reported - skew).abs() > MOVED)
        {
            reported = Some(skew);
            batch.insert(0, Observation::Skew(skew));
        }
        if !batch.is_empty() && out.send(batch).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = again.requested() => asked = None,
            () = out.closed() => return,
        }
    }
}

fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{}: the API server does not say its version ({})", status.code, super::api_error::clipped(&status.message)),
        kube::Error::SerdeError(_) => "the answer to GET /version is not what a Kubernetes API sends; check the server's address in the kubeconfig".to_owned(),
        other => ApiError::of_transport(other).message,
    }
}
