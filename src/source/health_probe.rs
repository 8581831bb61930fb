//! The connection as a whole: is the server there, how fast, what does its clock say, how much do we ask of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use model::base::Name;
use model::fleet::observe::{Observation, SourceHealth, SourceState};

use super::again::Again;
use super::api_error::ApiError;
use super::api_stats::{ApiStats, Class};
use super::server::Api;

/// The server is asked for its version this often.
const EVERY: Duration = Duration::from_secs(30);

/// A server that does not answer is asked this often: the others wait for it to return.
const WHEN_LOST: Duration = Duration::from_secs(4);

/// The clock and the counts are looked at this often.
const LOOK: Duration = Duration::from_secs(2);

/// How long the server may take for its version.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that was asked and has sent nothing for this long may be gone: it is asked for its version at once.
const DOUBT: Duration = Duration::from_secs(3);

/// How long the version may take then.
const PATIENCE_IN_DOUBT: Duration = Duration::from_secs(5);

/// A skew that moves by more than this is told anew, milliseconds.
const MOVED: i64 = 1000;

/// Runs until nobody listens or it is dropped.
pub(super) async fn run(
    stats: Arc<ApiStats>,
    server: Arc<Api>,
    out: mpsc::Sender<Vec<Observation>>,
    mut again: Again,
) {
    let mut told: Option<i64> = None;
    let mut errors = 0;
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
            errors += u64::from(state == SourceState::Lost);
            every = if state == SourceState::Lost {
                WHEN_LOST
            } else {
                EVERY
            };
            let figures = stats.figures(Class::Server);
            batch.push(Observation::Source(SourceHealth {
                name: Name::new("api"),
                kind: Name::new("kubernetes"),
                state,
                // Whatever it sends shows that it is there, a refusal too.
                last_ok: stats.heard(),
                node: None,
                failing_since: None,
                last_outage: None,
                patience: EVERY * 3,
                latency_ms: figures.latency_ms,
                errors,
                series_used: None,
                series_skipped: None,
                calls_per_minute: Some(stats.calls_per_minute()),
                message,
            }));
        }
        if let Some(skew) = stats.skew_ms()
            && told.is_none_or(|told| (told - skew).abs() > MOVED)
        {
            told = Some(skew);
            batch.insert(0, Observation::Skew(skew));
        }
        if !batch.is_empty() && out.send(batch).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = again.asked() => asked = None,
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
