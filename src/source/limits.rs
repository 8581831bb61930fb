//! Limits on the size and duration of an answer: enforced while it arrives and after decompression, so that no
//! server, proxy or compressed page determines how much memory the program uses or how long a command waits.
//!
//! Pages of pods and services have limits of their own, where they are read (`scrape::page`, `prometheus::prometheus_client`),
//! and lines of logs are cut where they are read (`logs`).

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Sleep;
use tower::BoxError;

use super::api_stats::RequestClass;

const MIB: u64 = 1 << 20;

/// Bytes of one page of a list: 500 objects, or all of them from a server without pagination.
pub const LIST: u64 = 256 * MIB;
/// Bytes of one watch event: an object, which etcd limits to 1.5 MiB.
pub const EVENT: u64 = 16 * MIB;
/// Bytes of any other answer: discovery, one object, events, reviews.
pub const OTHER: u64 = 8 * MIB;

/// How long an answer may take after it has begun.
pub const PATIENCE: Duration = Duration::from_secs(75);

/// An answer above its size limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TooLarge {
    what: String,
    limit: u64,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.limit / MIB;
        write!(f, "{} is larger than {mib} MiB", self.what)
    }
}

impl std::error::Error for TooLarge {}

/// An answer that began and did not end in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TooSlow {
    what: String,
}

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = PATIENCE.as_secs();
        write!(f, "{} did not end within {seconds} s", self.what)
    }
}

impl std::error::Error for TooSlow {}

/// What the limit applies to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ResponseLimit {
    /// The whole answer in bytes, which must also arrive in time.
    Whole(u64),
    /// Each line in bytes; without a time limit.
    Line(u64),
    /// No limit here: the reader enforces one.
    Elsewhere,
}

impl ResponseLimit {
    /// The limit of an answer to a request for `path`.
    pub(super) fn of(class: RequestClass, path: &str, watches: bool) -> Self {
        match class {
            RequestClass::Proxy => Self::Elsewhere,
            RequestClass::Other if path.ends_with("/log") => Self::Elsewhere,
            _ if watches => Self::Line(EVENT),
            RequestClass::Table(_) => Self::Whole(LIST),
            RequestClass::Server | RequestClass::Other => Self::Whole(OTHER),
        }
    }
}

/// A description of the answer.
fn words(class: RequestClass, path: &str, watches: bool) -> String {
    match class {
        RequestClass::Table(table) if watches => {
            format!("one event of the watch of {}", table.name())
        }
        _ if watches => format!("one event of the watch of {path}"),
        RequestClass::Table(table) => format!("a page of the list of {}", table.name()),
        _ => format!("the answer to {path}"),
    }
}

/// A body that is read up to its limit.
pub(super) struct Limited<B> {
    inner: B,
    limit: ResponseLimit,
    what: String,
    /// Bytes of the answer, or of the current line.
    read: u64,
    late: Option<Pin<Box<Sleep>>>,
    over: bool,
}

impl<B> Limited<B> {
    pub(super) fn new(inner: B, class: RequestClass, path: &str, watches: bool) -> Self {
        let limit = ResponseLimit::of(class, path, watches);
        let timed = matches!(limit, ResponseLimit::Whole(_));
        Self {
            inner,
            limit,
            what: words(class, path, watches),
            read: 0,
            late: timed.then(|| Box::pin(tokio::time::sleep(PATIENCE))),
            over: false,
        }
    }

    fn count(&mut self, data: &Bytes) -> Result<(), TooLarge> {
        let length = |part: &[u8]| part.len() as u64;
        let (largest, limit) = match self.limit {
            ResponseLimit::Elsewhere => return Ok(()),
            ResponseLimit::Whole(limit) => {
                self.read = self.read.saturating_add(length(data));
                (self.read, limit)
            }
            ResponseLimit::Line(limit) => {
                let mut largest = 0;
                for part in data.split_inclusive(|byte| *byte == b'\n') {
                    self.read = self.read.saturating_add(length(part));
                    largest = largest.max(self.read);
                    if part.ends_with(b"\n") {
                        self.read = 0;
                    }
                }
                (largest, limit)
            }
        };
        if largest <= limit {
            return Ok(());
        }
        Err(TooLarge {
            what: self.what.clone(),
            limit,
        })
    }
}

impl<B> Body for Limited<B>
where
    B: Body<Data = Bytes, Error = BoxError> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) else {
            let late = self.late.as_mut().map(|late| late.as_mut().poll(context));
            if late.is_some_and(|late| late.is_ready()) {
                self.over = true;
                let what = self.what.clone();
                return Poll::Ready(Some(Err(TooSlow { what }.into())));
            }
            return Poll::Pending;
        };
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(large) = self.count(data)
        {
            self.over = true;
            return Poll::Ready(Some(Err(large.into())));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.over || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The first error of this type in the chain of causes, including those inside an I/O error.
pub fn cause<'e, E: std::error::Error + 'static>(
    error: &'e (dyn std::error::Error + 'static),
) -> Option<&'e E> {
    let mut at = Some(error);
    while let Some(error) = at {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        let carried = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        // `source()` of an I/O error skips the error that it wraps.
        at = match carried {
            Some(carried) => Some(carried as &(dyn std::error::Error + 'static)),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;
    use model::fleet::observe::Table;

    type Chunk = Result<Frame<Bytes>, BoxError>;

    fn endless(chunk: &'static [u8]) -> impl futures::Stream<Item = Chunk> + Unpin {
        futures::stream::repeat_with(move || Ok(Frame::data(Bytes::from_static(chunk))))
    }

    /// Bytes read until the answer is rejected, and the error.
    async fn read(
        class: RequestClass,
        path: &str,
        watches: bool,
        chunk: &'static [u8],
    ) -> (u64, String) {
        let body = StreamBody::new(endless(chunk));
        let mut body = Limited::new(body, class, path, watches);
        let mut read = 0;
        loop {
            match body.frame().await {
                Some(Ok(frame)) => read += frame.data_ref().map_or(0, |data| data.len() as u64),
                Some(Err(error)) => {
                    assert!(body.frame().await.is_none(), "nothing comes after");
                    return (read, error.to_string());
                }
                None => panic!("it is endless"),
            }
        }
    }

    static CHUNK: [u8; 1 << 20] = [b' '; 1 << 20];

    #[tokio::test(start_paused = true)]
    async fn an_endless_answer_is_read_up_to_its_limit_and_named() {
        for (class, path, watches, limit, words) in [
            (
                RequestClass::Table(Table::Pods),
                "/api/v1/pods",
                false,
                LIST,
                "a page of the list of pods is larger than 256 MiB",
            ),
            (
                RequestClass::Table(Table::Pods),
                "/api/v1/pods",
                true,
                EVENT,
                "one event of the watch of pods is larger than 16 MiB",
            ),
            (
                RequestClass::Server,
                "/apis",
                false,
                OTHER,
                "the answer to /apis is larger than 8 MiB",
            ),
            (
                RequestClass::Other,
                "/api/v1/events",
                false,
                OTHER,
                "the answer to /api/v1/events is larger than 8 MiB",
            ),
        ] {
            let (read, message) = read(class, path, watches, &CHUNK).await;
            assert_eq!((read, message.as_str()), (limit, words));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_may_last_as_long_as_its_events_are_short() {
        let path = "/api/v1/pods";
        let chunk: &'static [u8] = b"{\"type\":\"BOOKMARK\"}\n{\"type\"";
        let lines = endless(chunk).take(2_000_000);
        let body = StreamBody::new(lines);
        let mut body = Limited::new(body, RequestClass::Table(Table::Pods), path, true);
        let mut read = 0;
        while let Some(frame) = body.frame().await {
            read += frame
                .expect("within the limit")
                .data_ref()
                .map_or(0, Bytes::len);
        }
        assert!(read as u64 > 2 * EVENT);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_drips_ends_in_time() {
        let drops = futures::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let drop: Chunk = Ok(Frame::data(Bytes::from_static(b" ")));
            Some((drop, ()))
        });
        let mut body = Limited::new(
            StreamBody::new(Box::pin(drops)),
            RequestClass::Server,
            "/apis",
            false,
        );
        let mut read = 0;
        let message = loop {
            match body.frame().await {
                Some(Ok(_)) => read += 1,
                Some(Err(error)) => break error.to_string(),
                None => panic!("it is endless"),
            }
        };
        assert_eq!(message, "the answer to /apis did not end within 75 s");
        assert!((70..=75).contains(&read), "{read}");
    }

    #[test]
    fn what_an_io_error_carries_is_found() {
        let large = TooLarge {
            what: "x".to_owned(),
            limit: MIB,
        };
        let error = std::io::Error::other(large.clone());
        assert_eq!(cause::<TooLarge>(&error), Some(&large));
        assert_eq!(cause::<TooSlow>(&error), None);
    }
}
