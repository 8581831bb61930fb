//! Remote write against receivers in this process, which decode what is sent and answer as they are told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::base::Moment;
use prost::Message;
use source::remote_write::{
    RemoteWrite, RemoteWriteOptions, RemoteWriteState, SeriesValue, WriteRequest,
};
use source::scrape::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::api::{PATIENCE, skip, with_stopped_clock, within};

/// What came: the head of the request, and its decoded body.
type Came = Arc<Mutex<Vec<(String, WriteRequest)>>>;

/// A receiver that gives these answers, the last one again and again; gives its address and what it was sent.
async fn receiver(answers: &[&'static str]) -> (String, Came) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("has one");
    let came = Came::default();
    let seen = Arc::clone(&came);
    let mut answers: VecDeque<&'static str> = answers.iter().copied().collect();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut bytes = Vec::new();
            let (head, body) = loop {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).await.expect("is read");
                assert!(read > 0, "the request ends early");
                bytes.extend_from_slice(&part[..read]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let Some(end) = text.find("\r\n\r\n") else {
                    continue;
                };
                let head = text[..end].to_ascii_lowercase();
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length
                    .and_then(|length| length.parse().ok())
                    .expect("a length");
                let from = bytes
                    .windows(4)
                    .position(|four| four == b"\r\n\r\n")
                    .expect("is there")
                    + 4;
                if bytes.len() >= from + length {
                    break (head, bytes[from..from + length].to_vec());
                }
            };
            let plain = snap::raw::Decoder::new()
                .decompress_vec(&body)
                .expect("is snappy");
            let request = WriteRequest::decode(&plain[..]).expect("is a request");
            seen.lock().expect("no panic").push((head, request));
            let answer = match answers.len() {
                1 => answers[0],
                _ => answers.pop_front().expect("is there"),
            };
            let text =
                format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(text.as_bytes()).await;
        }
    });
    (format!("http://{address}/api/v1/write"), came)
}

fn options(url: String) -> RemoteWriteOptions {
    RemoteWriteOptions {
        endpoint: Endpoint {
            url,
            ..Endpoint::default()
        },
        username: None,
        password_file: None,
        timeout: PATIENCE,
        queue: 4,
    }
}

fn values(value: f64) -> Vec<SeriesValue> {
    let labels = [
        ("pool", "a\"b"),
        ("__name__", "stokehold_usage_cost_usd_total"),
    ];
    vec![SeriesValue {
        labels: labels
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        value,
        is_counter: true,
    }]
}

async fn until(
    write: &RemoteWrite,
    what: &str,
    wanted: impl FnMut(&RemoteWriteState) -> bool,
) -> RemoteWriteState {
    let mut state = write.state();
    let found = within(what, state.wait_for(wanted)).await;
    found.expect("goes on").clone()
}

#[tokio::test]
async fn what_is_sent_is_what_a_receiver_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "secret\n").expect("is written");
    let (url, came) = receiver(&["204 No Content"]).await;
    let mut options = options(url);
    options.endpoint.bearer_file = Some(file);
    let mut write = RemoteWrite::start(options);
    write.send(Moment::from_seconds(100), values(2.5));
    until(&write, "the first sample", |state| state.sent == 1).await;
    write.send(Moment::from_seconds(115), values(3.5));
    let state = with_stopped_clock(write.close()).await;
    assert_eq!((state.sent, state.rejected, state.overflowed), (2, 0, 0));
    let came = came.lock().expect("no panic");
    let (head, request) = &came[0];
    for line in [
        "content-encoding: snappy",
        "content-type: application/x-protobuf",
        "x-prometheus-remote-write-version: 0.1.0",
        "authorization: bearer secret",
    ] {
        assert!(head.lines().any(|known| known == line), "{line} in {head}");
    }
    let series = &request.timeseries[0];
    let labels: Vec<(&str, &str)> = series
        .labels
        .iter()
        .map(|label| (label.name.as_str(), label.value.as_str()))
        .collect();
    assert_eq!(
        labels,
        [
            ("__name__", "stokehold_usage_cost_usd_total"),
            ("pool", "a\"b")
        ]
    );
    assert_eq!(series.samples[0].value, 2.5);
    assert_eq!(series.samples[0].timestamp, 100_000);
    assert_eq!(came[1].1.timeseries[0].samples[0].value, 3.5);
}

#[tokio::test]
async fn a_failure_is_tried_again_and_a_refusal_is_not() {
    let answers = [
        "503 Service Unavailable\r\nRetry-After: 0",
        "429 Too Many Requests\r\nRetry-After: 0",
        "200 OK",
        "400 Bad Request",
        "307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/",
        "200 OK",
    ];
    let (url, came) = receiver(&answers).await;
    let mut write = RemoteWrite::start(options(url));
    write.send(Moment::from_seconds(1), values(1.0));
    // After one second, and after two more: Retry-After asks for no more.
    for (retries, wait) in [(1, 1), (2, 2)] {
        until(&write, "the next failure", |state| state.retries == retries).await;
        skip(Duration::from_secs(wait)).await;
    }
    let state = until(&write, "the sample", |state| state.sent == 1).await;
    assert_eq!(state.retries, 2, "by what Retry-After says");
    write.send(Moment::from_seconds(2), values(2.0));
    let state = until(&write, "the 400", |state| state.rejected == 1).await;
    let why = state.fault.expect("says why");
    assert!(why.starts_with("the receiver answered 400"), "{why}");
    write.send(Moment::from_seconds(3), values(3.0));
    let state = until(&write, "the 307", |state| state.rejected == 2).await;
    let why = state.fault.expect("says why");
    assert!(why.contains("307; redirects are not followed"), "{why}");
    write.send(Moment::from_seconds(4), values(4.0));
    let state = until(&write, "the last sample", |state| state.sent == 2).await;
    assert_eq!(state.fault, None);
    let came = came.lock().expect("no panic");
    let sent: Vec<f64> = came
        .iter()
        .map(|(_, request)| request.timeseries[0].samples[0].value)
        .collect();
    assert_eq!(sent, [1.0, 1.0, 1.0, 2.0, 3.0, 4.0], "in order");
}

#[tokio::test(start_paused = true)]
async fn an_absent_receiver_delays_no_other() {
    let mut write = RemoteWrite::start(options("http://127.0.0.1:1/".to_owned()));
    for second in 1..=20 {
        write.send(Moment::from_seconds(second), values(second as f64));
        tokio::task::yield_now().await;
    }
    let full = |state: &RemoteWriteState| state.overflowed > 0 && state.retries > 0;
    let state = until(&write, "a full queue", full).await;
    assert!(state.waiting <= 4, "the queue is bounded: {state:?}");
    assert!(state.fault.is_some());
    let state = write.close().await;
    assert_eq!(state.sent, 0);
}
