//! Health and metrics of `record --listen`: whether the recorder is alive, whether it records, and how much.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;

use model::base::Moment;

use table::metrics::{self, MetricFamily, MetricKind};

use super::record_metrics::RecordMetrics;
use super::recorder::TapeState;
use crate::runtime::status_server::{ServedStatus, accept};

/// A recorder writes every few seconds. A recorder that has not written for this long counts as failed.
const LATE: Duration = Duration::from_secs(60);

/// Serves requests until it is dropped; `more` adds metrics to the recorder's own. `now` returns the record's time.
pub async fn serve(
    listener: TcpListener,
    state: watch::Receiver<TapeState>,
    more: Option<RecordMetrics>,
    now: impl Fn() -> Moment,
) {
    let (sender, status) = watch::channel(RecordingStatus::default());
    let served = Arc::new(RecordingEndpoint { status, more });
    tokio::join!(follow(state, &sender, now), accept(listener, served));
}

/// State of the recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordingStatus {
    /// State of the recording itself.
    pub(crate) tape: TapeState,
    /// Time of the last write, by the record's clock and by this machine's.
    pub(crate) wrote: Option<(Moment, Instant)>,
}

impl RecordingStatus {
    /// Why nothing is recorded; `None` while it works.
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

    /// The metrics; unknown values have no sample.
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
}

impl ServedStatus for RecordingStatus {
    fn dead(&self) -> Option<String> {
        self.trouble().filter(|_| self.tape.ended)
    }

    fn not_ready(&self) -> Option<String> {
        Self::trouble(self)
    }

    fn metrics(&self) -> String {
        Self::metrics(self)
    }
}

/// The current status, and additional metrics.
struct RecordingEndpoint {
    status: watch::Receiver<RecordingStatus>,
    more: Option<RecordMetrics>,
}

impl ServedStatus for RecordingEndpoint {
    fn dead(&self) -> Option<String> {
        self.status.borrow().dead()
    }

    fn not_ready(&self) -> Option<String> {
        self.status.borrow().trouble()
    }

    fn metrics(&self) -> String {
        let own = self.status.borrow().metrics();
        let more = self.more.as_ref().map(RecordMetrics::page);
        own + &more.unwrap_or_default()
    }
}

/// Updates the status from the recorder's state.
async fn follow(
    mut state: watch::Receiver<TapeState>,
    sender: &watch::Sender<RecordingStatus>,
    now: impl Fn() -> Moment,
) {
    loop {
        let tape = state.borrow_and_update().clone();
        sender.send_modify(|status| {
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

#[cfg(test)]
mod tests {
    use http::{Method, StatusCode};

    use super::*;
    use crate::runtime::status_server::answer;

    fn of(status: &RecordingStatus, path: &str) -> (u16, String) {
        let response = answer(status, &Method::GET, path);
        (response.status().as_u16(), response.into_body())
    }

    #[tokio::test(start_paused = true)]
    async fn ready_while_something_is_written() {
        let mut status = RecordingStatus::default();
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
        let status = RecordingStatus::default();
        let response = answer(&status, &Method::POST, "/metrics");
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(of(&status, "/").0, 404);
    }
}
