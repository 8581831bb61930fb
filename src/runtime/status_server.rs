//! HTTP server of commands without a screen: `/healthz`, `/readyz` and `/metrics`, for probes and Prometheus.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use model::base::{Exit, Failure};
use table::metrics;

/// Most connections at a time.
const CONNECTIONS: usize = 64;
/// Longest time of a connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// A connection without a complete request by then is closed.
const ASKS_WITHIN: Duration = Duration::from_secs(2);
/// Pause after a failure to accept connections.
const PAUSE: Duration = Duration::from_millis(100);

/// The status that is served, from a copy of the state: a request never delays the work.
pub trait ServedStatus: Send + Sync + 'static {
    /// Why the process is not alive; `None` while it is.
    fn dead(&self) -> Option<String>;
    /// Why it does not do its work; `None` while it does.
    fn not_ready(&self) -> Option<String>;
    /// What is wrong although it does its work; `None` where nothing is.
    fn degraded(&self) -> Option<String> {
        None
    }
    fn metrics(&self) -> String;
}

/// Listens on `address`; port 0 picks a free port.
///
/// # Errors
/// The address is in use or not permitted.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let message = format!("--listen {address}: {error}; name another address");
        Failure::new(Exit::Failed, message)
    })
}

/// The answer to a request.
pub(super) fn answer(status: &dyn ServedStatus, method: &Method, path: &str) -> Response<String> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let words = "only GET and HEAD are answered\n".to_owned();
        let mut response = text(StatusCode::METHOD_NOT_ALLOWED, words);
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    let verdict = |trouble: Option<String>| match trouble {
        None => text(StatusCode::OK, "ok\n".to_owned()),
        Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    };
    match path {
        "/healthz" => verdict(status.dead()),
        "/readyz" => match (status.not_ready(), status.degraded()) {
            (None, Some(why)) => text(StatusCode::OK, format!("degraded: {why}\n")),
            (trouble, _) => verdict(trouble),
        },
        "/metrics" => text(StatusCode::OK, status.metrics()),
        _ => {
            let words = "there are /healthz, /readyz and /metrics\n".to_owned();
            text(StatusCode::NOT_FOUND, words)
        }
    }
}

fn text(status: StatusCode, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let plain = HeaderValue::from_static(metrics::CONTENT_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

/// Serves requests until it is dropped.
pub async fn accept(listener: TcpListener, status: Arc<dyn ServedStatus>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // When all slots are taken, only new connections wait.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let status = Arc::clone(&status);
                tokio::spawn(async move {
                    let _ = timeout(PATIENCE, converse(stream, status)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, status: Arc<dyn ServedStatus>) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let response = answer(&*status, request.method(), request.uri().path());
        async move { Ok::<_, Infallible>(response) }
    });
    let ended = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(ASKS_WITHIN)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}
