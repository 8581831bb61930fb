//! The layer that counts every request to the API server, and refuses responses that are not those of an API server or
//! are too large.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use tower::{BoxError, Layer, Service};

use super::api_stats::{ApiStats, RequestClass};
use super::limits;

/// The User-Agent of every request: a platform team can tell our load from other load in the audit log.
pub const AGENT: &str = concat!("stokehold/", env!("CARGO_PKG_VERSION"));

/// How long the server may take until it begins to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer that does not come from a Kubernetes API server.
#[derive(Debug)]
pub struct NotKubernetes {
    pub content_type: String,
}

impl fmt::Display for NotKubernetes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the server answered with {} where JSON was due",
            self.content_type
        )
    }
}

impl std::error::Error for NotKubernetes {}

/// An answer that did not come.
#[derive(Debug)]
pub struct ResponseTimeout;

impl fmt::Display for ResponseTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the server accepted the request and did not answer within {} s",
            PATIENCE.as_secs()
        )
    }
}

impl std::error::Error for ResponseTimeout {}

#[derive(Clone, Debug)]
pub struct CountingLayer {
    stats: Arc<ApiStats>,
}

impl CountingLayer {
    /// A layer that writes into `stats`.
    pub fn new(stats: Arc<ApiStats>) -> Self {
        Self { stats }
    }
}

impl<S> Layer<S> for CountingLayer {
    type Service = CountedService<S>;
    fn layer(&self, inner: S) -> CountedService<S> {
        CountedService {
            inner,
            stats: Arc::clone(&self.stats),
        }
    }
}

/// A service whose requests are counted.
#[derive(Clone, Debug)]
pub struct CountedService<S> {
    inner: S,
    stats: Arc<ApiStats>,
}

/// A body whose arrival is noted.
pub type NotedBody = UnsyncBoxBody<Bytes, BoxError>;

impl<S, Q, B> Service<Request<Q>> for CountedService<S>
where
    S: Service<Request<Q>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    Q: Send + 'static,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<NotedBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<NotedBody>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Q>) -> Self::Future {
        let agent = HeaderValue::from_static(AGENT);
        request.headers_mut().insert(USER_AGENT, agent);
        // The clone that was polled ready is the one to call.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        let stats = Arc::clone(&self.stats);
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            let class = RequestClass::of(&path);
            let watches = request.uri().query().is_some_and(|query| {
                query
                    .split('&')
                    .any(|pair| matches!(pair, "watch=true" | "watch=1"))
            });
            let wait = stats.before(class, &path, watches);
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            let sent = stats.local();
            let answer = match tokio::time::timeout(PATIENCE, inner.call(request)).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => {
                    stats.unanswered();
                    return Err(error.into());
                }
                Err(_) => {
                    stats.unanswered();
                    return Err(ResponseTimeout.into());
                }
            };
            stats.after(class, &path, watches, sent, &answer);
            if class != RequestClass::Proxy {
                if !answer.status().is_success() {
                    return Ok(explained(answer).await);
                }
                refuse_pages(answer.headers())?;
            }
            let arrived = Arc::clone(&stats);
            Ok(answer.map(|body| {
                let noted = body
                    .map_err(Into::into)
                    .map_frame(move |frame| {
                        arrived.alive(class);
                        frame
                    })
                    .boxed_unsync();
                limits::Limited::new(noted, class, &path, watches).boxed_unsync()
            }))
        })
    }
}

/// More of an error than this explains nothing.
const LARGEST_ERROR: usize = 64 << 10;

/// An error whose body is a Status with the answer's own code, whatever the body was: a proxy before the API server answers
/// in its own format.
async fn explained<B>(answer: Response<B>) -> Response<NotedBody>
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
{
    let (mut parts, body) = answer.into_parts();
    let body = tokio::time::timeout(
        Duration::from_secs(10),
        Limited::new(Box::pin(body).map_err(|_| "interrupted"), LARGEST_ERROR).collect(),
    )
    .await
    .ok()
    .and_then(Result::ok)
    .map(|body| body.to_bytes())
    .unwrap_or_default();
    let mut status = serde_json::from_slice::<serde_json::Value>(&body)
        .ok()
        .filter(|value| value.get("kind").is_some_and(|kind| kind == "Status"))
        .unwrap_or_else(
            || serde_json::json!({"kind": "Status", "message": String::from_utf8_lossy(&body)}),
        );
    status["code"] = parts.status.as_u16().into();
    parts.headers.remove(CONTENT_LENGTH);
    let text = Full::new(Bytes::from(status.to_string()));
    Response::from_parts(parts, text.map_err(|never| match never {}).boxed_unsync())
}

/// A login page or a proxy's greeting has status 200 and HTML.
fn refuse_pages(headers: &HeaderMap) -> Result<(), NotKubernetes> {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    if content_type.to_ascii_lowercase().contains("html") {
        return Err(NotKubernetes {
            content_type: content_type.to_owned(),
        });
    }
    Ok(())
}
