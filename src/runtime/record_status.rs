//! What `record --listen` answers: whether the recorder lives, whether it records, and how much, for probes and for Prometheus.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};

use model::base::{Exit, Failure, Moment};

use table::metrics::{self, MetricFamily, MetricKind};

use super::record_metrics::RecordMetrics;
use super::tape::TapeState;

/// A recorder writes every few seconds: one that has not for so long does not record.
const LATE: Duration = Duration::from_secs(60);
/// Connections that are answered at a time.
const CONNECTIONS: usize = 16;
/// A connection ends after this long, whatever it asked.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long is waited where no connection can be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens there; port 0 picks one.
///
/// # Errors
/// Nobody may listen there, or somebody does already.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        let message = format!("--listen {address}: {error}; name another address");
        Failure::new(Exit::Failed, message)
    })
}

/// Answers until it is dropped; `more` metrics stand beside the recorder's own. `now` tells the record's time.
pub async fn serve(
    listener: TcpListener,
    state: watch::Receiver<TapeState>,
    more: Option<RecordMetrics>,
    now: impl Fn() -> Moment,
) {
    let (told, status) = watch::channel(Status::default());
    tokio::join!(follow(state, &told, now), accept(listener, status, more));
}

/// How recording stands.
#[derive(Clone, Debug, Default)]
struct Status {
    tape: TapeState,
    /// When something was written last, by the record's time and by this machine's.
    wrote: Option<(Moment, Instant)>,
}

impl Status {
    /// Why nothing is recorded; `None` while all is well.
    fn trouble(&self) -> Option<String> {
        if self.tape.ended {
            return Some("the recording has ended".to_owned());
        }
        if let Some(fault) = &self.tape.fault {
            return Some(format!("nothing is recorded: {fault}"));
        }
        match self.wrote {
            None => Some("nothing is recorded yet".to_owned()),
            Some((_, at)) if at.elapsed() > LATE => Some(format!(
                "nothing was recorded in the last {} seconds",
                at.elapsed().as_secs()
            )),
            Some(_) => None,
        }
    }

    /// In the text format of Prometheus. What is not known yet has no sample.
    fn metrics(&self) -> String {
        use MetricKind::{Counter, Gauge};
        let written = &self.tape.written;
        let up = u64::from(self.trouble().is_none());
        let one = |kind, name, help, value: Option<f64>| {
            MetricFamily::new(kind, name, help).with(Vec::new(), value)
        };
        let count = |name, help, value: u64| one(Counter, name, help, Some(value as f64));
        let families = [
            MetricFamily::new(Gauge, "stokehold_build_info", "The version of the program.")
                .with(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1.0),
            one(
                Gauge,
                "stokehold_record_up",
                "Whether the record is written: 1, or 0 where it is not.",
                Some(up as f64),
            ),
            count(
                "stokehold_record_bytes_total",
                "Bytes written by this process.",
                written.bytes,
            ),
            count(
                "stokehold_record_frames_total",
                "Frames written by this process.",
                written.frames,
            ),
            count(
                "stokehold_record_readings_total",
                "Readings of devices taken by this process.",
                written.readings,
            ),
            count(
                "stokehold_record_segments_total",
                "Files begun by this process.",
                written.segments,
            ),
            one(
                Gauge,
                "stokehold_record_last_write_timestamp_seconds",
                "When the record was last written, by the clock of the record.",
                self.wrote.map(|(at, _)| at.millis() as f64 / 1e3),
            ),
        ];
        metrics::text(&families, &[])
    }

    /// The answer to a request.
    fn answer(
        &self,
        method: &Method,
        path: &str,
        more: Option<&RecordMetrics>,
    ) -> Response<String> {
        let text = |status: StatusCode, body: String| {
            let mut response = Response::new(body);
            *response.status_mut() = status;
            let plain = HeaderValue::from_static(metrics::CONTENT_TYPE);
            response.headers_mut().insert(CONTENT_TYPE, plain);
            response
        };
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut response = text(
                StatusCode::METHOD_NOT_ALLOWED,
                "only GET and HEAD are answered\n".to_owned(),
            );
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(ALLOW, allowed);
            return response;
        }
        match path {
            "/healthz" if !self.tape.ended => text(StatusCode::OK, "ok\n".to_owned()),
            "/healthz" | "/readyz" => match self.trouble() {
                None => text(StatusCode::OK, "ok\n".to_owned()),
                Some(why) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
            },
            "/metrics" => {
                let more = more.map(RecordMetrics::page).unwrap_or_default();
                text(StatusCode::OK, self.metrics() + &more)
            }
            _ => text(
                StatusCode::NOT_FOUND,
                "there are /healthz, /readyz and /metrics\n".to_owned(),
            ),
        }
    }
}

/// Keeps the status as the recorder tells it.
async fn follow(
    mut state: watch::Receiver<TapeState>,
    told: &watch::Sender<Status>,
    now: impl Fn() -> Moment,
) {
    loop {
        let tape = state.borrow_and_update().clone();
        told.send_modify(|status| {
            if tape.written.frames > status.tape.written.frames {
                status.wrote = Some((now(), Instant::now()));
            }
            status.tape = tape;
        });
        if state.changed().await.is_err() {
            return;
        }
    }
}

async fn accept(
    listener: TcpListener,
    status: watch::Receiver<Status>,
    more: Option<RecordMetrics>,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Whoever comes when all are taken waits: the recorder itself is never held up.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (status, more) = (status.clone(), more.clone());
                tokio::spawn(async move {
                    let _ = timeout(PATIENCE, converse(stream, status, more)).await;
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

async fn converse(stream: TcpStream, status: watch::Receiver<Status>, more: Option<RecordMetrics>) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        // Made of a copy: nobody who writes waits for it.
        let status = status.borrow().clone();
        let response = status.answer(request.method(), request.uri().path(), more.as_ref());
        async move { Ok::<_, Infallible>(response) }
    });
    let ended = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: &Status, path: &str) -> (u16, String) {
        let response = status.answer(&Method::GET, path, None);
        (response.status().as_u16(), response.into_body())
    }

    #[tokio::test(start_paused = true)]
    async fn ready_while_something_is_written() {
        let mut status = Status::default();
        assert_eq!(of(&status, "/healthz"), (200, "ok\n".to_owned()));
        let (code, why) = of(&status, "/readyz");
        assert_eq!(
            (code, why.as_str()),
            (503, "nothing is recorded yet\n"),
            "what has not begun is not ready"
        );
        assert!(!of(&status, "/metrics").1.contains("last_write"));
        status.wrote = Some((Moment::from_millis(1_500), Instant::now()));
        status.tape.written.bytes = 7;
        assert_eq!(of(&status, "/readyz"), (200, "ok\n".to_owned()));
        let (code, metrics) = of(&status, "/metrics");
        assert_eq!(code, 200);
        for line in [
            "stokehold_record_up 1",
            "stokehold_record_bytes_total 7",
            "stokehold_record_last_write_timestamp_seconds 1.5",
        ] {
            assert!(metrics.lines().any(|known| known == line), "{metrics}");
        }
        tokio::time::advance(LATE + Duration::from_secs(1)).await;
        let (code, why) = of(&status, "/readyz");
        assert_eq!(code, 503);
        assert_eq!(why, "nothing was recorded in the last 61 seconds\n");
        assert!(
            of(&status, "/metrics")
                .1
                .contains("stokehold_record_up 0\n")
        );
        assert_eq!(of(&status, "/healthz").0, 200, "it lives all the same");
        status.tape.fault = Some("disk full".to_owned());
        assert_eq!(of(&status, "/readyz").1, "nothing is recorded: disk full\n");
        status.tape.ended = true;
        assert_eq!(of(&status, "/healthz").0, 503);
    }

    #[test]
    fn nothing_can_be_sent_to_it() {
        let status = Status::default();
        let response = status.answer(&Method::POST, "/metrics", None);
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(of(&status, "/").0, 404);
    }
}
