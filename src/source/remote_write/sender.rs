//! The task that sends requests: one at a time, with retries, from a bounded queue.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use http::{HeaderName, HeaderValue, StatusCode};
use model::base::Moment;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::{BatchEncoder, RemoteWriteOptions, SeriesValue};
use crate::local;
use crate::post::{PostOutcome, post as send, within};
use crate::scrape::ask::{Direct, off_the_loop};

/// The wait after the first failure; each further one doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait between two tries, unless the receiver requests a longer one.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The most time for the remaining requests at the end.
const LAST: Duration = Duration::from_secs(5);
/// Batches that may come while the task does not look.
const BACKLOG: usize = 16;

/// The state of sending.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RemoteWriteState {
    /// Samples that the receiver accepted.
    pub sent: u64,
    /// Samples that it refused for good (4xx, redirects).
    pub rejected: u64,
    /// Samples that were dropped because the queue was full, or at the end.
    pub overflowed: u64,
    /// Tries that failed and were made again.
    pub retries: u64,
    pub waiting: u64,
    /// Why the last try failed; `None` while all is well.
    pub fault: Option<String>,
}

/// A request on its way.
struct WaitingRequest {
    body: Bytes,
    samples: u64,
}

/// Sends batches to a receiver. Dropped, it ends.
pub struct RemoteWrite {
    batches: Option<mpsc::Sender<WaitingRequest>>,
    encoder: BatchEncoder,
    state: watch::Sender<RemoteWriteState>,
    task: JoinHandle<()>,
}

impl Drop for RemoteWrite {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RemoteWrite {
    /// Begins; must be called within a tokio runtime.
    pub fn start(options: RemoteWriteOptions) -> Self {
        let (batches, taken) = mpsc::channel(BACKLOG);
        let state = watch::Sender::new(RemoteWriteState::default());
        let sender = Sender {
            direct: Direct::default(),
            options,
            state: state.clone(),
            queue: VecDeque::new(),
        };
        Self {
            batches: Some(batches),
            encoder: BatchEncoder::default(),
            state,
            task: tokio::spawn(sender.run(taken)),
        }
    }

    /// Sends a batch as soon as the receiver takes it. Waits for nothing.
    pub fn send(&mut self, at: Moment, values: Vec<SeriesValue>) {
        let request = self.encoder.encode(at, values);
        let samples = request.samples();
        let Some(body) = request.body() else {
            self.state.send_modify(|state| state.overflowed += samples);
            return;
        };
        let waiting = WaitingRequest {
            body: body.into(),
            samples,
        };
        let sent = self
            .batches
            .as_ref()
            .map(|batches| batches.try_send(waiting));
        if !matches!(sent, Some(Ok(()))) {
            self.state.send_modify(|state| state.overflowed += samples);
        }
    }

    /// Watches the state from now on.
    pub fn state(&self) -> watch::Receiver<RemoteWriteState> {
        self.state.subscribe()
    }

    /// Sends the remaining requests, for a few seconds at most.
    pub async fn close(mut self) -> RemoteWriteState {
        self.batches = None;
        let _ = timeout(LAST, &mut self.task).await;
        self.state.borrow().clone()
    }
}

struct Sender {
    direct: Direct,
    options: RemoteWriteOptions,
    state: watch::Sender<RemoteWriteState>,
    queue: VecDeque<WaitingRequest>,
}

impl Sender {
    async fn run(mut self, mut batches: mpsc::Receiver<WaitingRequest>) {
        let mut open = true;
        loop {
            let Some(current) = self.queue.pop_front() else {
                match batches.recv().await {
                    Some(waiting) => self.enqueue(waiting),
                    None => return,
                }
                continue;
            };
            let mut wait = FIRST_WAIT;
            loop {
                let outcome = {
                    let trying = within(
                        self.options.timeout,
                        post(&self.direct, &self.options, current.body.clone()),
                    );
                    tokio::pin!(trying);
                    loop {
                        tokio::select! {
                            outcome = &mut trying => break outcome,
                            next = batches.recv(), if open => match next {
                                Some(next) => enqueue(&mut self.queue, &self.options, &self.state, next),
                                None => open = false,
                            },
                        }
                    }
                };
                let samples = current.samples;
                match outcome {
                    PostOutcome::Taken => {
                        self.publish(None, |state| state.sent += samples);
                        break;
                    }
                    PostOutcome::Rejected(why) => {
                        self.publish(Some(why), |state| state.rejected += samples);
                        break;
                    }
                    PostOutcome::Again(asked, why) => {
                        self.publish(Some(why), |state| state.retries += 1);
                        let until = Instant::now() + asked.unwrap_or_default().max(wait);
                        wait = (wait * 2).min(LONGEST_WAIT);
                        self.idle(until, &mut batches, &mut open).await;
                    }
                }
            }
        }
    }

    /// Waits, and accepts batches meanwhile.
    async fn idle(
        &mut self,
        until: Instant,
        batches: &mut mpsc::Receiver<WaitingRequest>,
        open: &mut bool,
    ) {
        let waited = tokio::time::sleep_until(until);
        tokio::pin!(waited);
        loop {
            tokio::select! {
                () = &mut waited => return,
                next = batches.recv(), if *open => match next {
                    Some(next) => self.enqueue(next),
                    None => *open = false,
                },
            }
        }
    }

    fn enqueue(&mut self, waiting: WaitingRequest) {
        enqueue(&mut self.queue, &self.options, &self.state, waiting);
    }

    fn publish(&self, fault: Option<String>, change: impl FnOnce(&mut RemoteWriteState)) {
        let waiting = self.queue.len() as u64;
        self.state.send_modify(|state| {
            change(state);
            state.waiting = waiting;
            state.fault = fault;
        });
    }
}

fn enqueue(
    queue: &mut VecDeque<WaitingRequest>,
    options: &RemoteWriteOptions,
    state: &watch::Sender<RemoteWriteState>,
    waiting: WaitingRequest,
) {
    queue.push_back(waiting);
    let mut dropped = 0;
    while queue.len() > options.queue.max(1) {
        dropped += queue.pop_front().map_or(0, |oldest| oldest.samples);
    }
    state.send_modify(|state| {
        state.overflowed += dropped;
        state.waiting = queue.len() as u64;
    });
}

async fn post(direct: &Direct, options: &RemoteWriteOptions, body: Bytes) -> PostOutcome {
    let mut headers = HeaderMap::new();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/x-protobuf"),
    );
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("snappy"));
    let version = HeaderName::from_static("x-prometheus-remote-write-version");
    headers.insert(version, HeaderValue::from_static("0.1.0"));
    let endpoint = &options.endpoint;
    let prepared = direct
        .prepared(endpoint, headers, "[record.remote_write]")
        .await;
    // A file that cannot be read now may be readable in a minute.
    let (client, mut headers) = match prepared {
        Ok(prepared) => prepared,
        Err(fault) => return PostOutcome::Again(None, fault.message),
    };
    if let (Some(user), Some(file)) = (&options.username, &options.password_file) {
        let password = match off_the_loop(file, local::read_text).await {
            Ok(password) => password,
            Err(error) => {
                let words = format!(
                    "the password_file {} cannot be read ({error})",
                    file.display()
                );
                return PostOutcome::Again(None, words);
            }
        };
        match basic(user, password.trim_end_matches(['\r', '\n'])) {
            Some(value) => headers.insert(AUTHORIZATION, value),
            None => {
                return PostOutcome::Again(
                    None,
                    "the user name or the password makes no header".to_owned(),
                );
            }
        };
    }
    send(&client, &endpoint.url, headers, body, fix).await
}

fn basic(user: &str, password: &str) -> Option<HeaderValue> {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    let mut value = HeaderValue::try_from(format!("Basic {text}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The fix of a refusal.
fn fix(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 | 403 => {
            "check bearer_file, or username and password_file, under [record.remote_write]"
        }
        404 | 405 => {
            "check the path; of Prometheus it is /api/v1/write, with --web.enable-remote-write-receiver"
        }
        _ => "it does not accept these samples",
    }
}
