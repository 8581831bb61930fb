//! A service in front of a simulated cluster: a test decides the fate of each request.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request, Response};
use hyper::body::Body as HttpBody;
use serde_json::Value;
use sim::{Service, User};
use tokio::sync::watch;
use tower::BoxError;

/// What becomes of one request.
pub enum Fate {
    /// It is answered.
    Pass,
    /// It is answered with this and never arrives.
    Answer(u16, Value),
    /// It gets no answer; carried out or not.
    Lost { carried_out: bool },
    /// It gets none for ever; carried out or not.
    Hangs { carried_out: bool },
}

type Rule = Box<dyn FnMut(&Method, &str) -> Fate + Send>;

/// A service in front of the simulated cluster.
#[derive(Clone)]
pub struct FaultyService {
    pub inner: Service,
    rule: Arc<Mutex<Rule>>,
    /// Every request that arrived, with its answer's code.
    pub seen: Arc<Mutex<Vec<(Method, String, u16)>>>,
    /// Becomes true when a request hangs.
    pub hung: watch::Sender<bool>,
}

impl FaultyService {
    /// All requests pass; those without a token are the administrator's.
    pub fn new(inner: Service) -> Self {
        Self {
            inner: inner.signed(User::Admin),
            rule: Arc::new(Mutex::new(Box::new(|_, _| Fate::Pass))),
            seen: Arc::default(),
            hung: watch::Sender::new(false),
        }
    }

    /// From now on this decides.
    pub fn rule(&self, rule: impl FnMut(&Method, &str) -> Fate + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
        self.hung.send_replace(false);
    }

    /// Answers a request, or fails it by the rule.
    pub async fn take<B>(&self, request: Request<B>) -> Result<Response<sim::api::Body>, BoxError>
    where
        B: HttpBody<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let method = request.method().clone();
        let uri = request.uri();
        let path = uri
            .path_and_query()
            .map_or("", |path| path.as_str())
            .to_owned();
        let fate = (self.rule.lock().unwrap())(&method, &path);
        let arrives = !matches!(
            fate,
            Fate::Answer(..)
                | Fate::Lost { carried_out: false }
                | Fate::Hangs { carried_out: false }
        );
        let answer = if arrives {
            let answer = self.inner.answer(request).await;
            let code = answer.status().as_u16();
            self.seen.lock().unwrap().push((method, path, code));
            Some(answer)
        } else {
            None
        };
        match fate {
            Fate::Pass => Ok(answer.expect("it arrived")),
            Fate::Answer(code, body) => Ok(sim::api::json(code, &body)),
            Fate::Lost { .. } => Err("connection reset by peer".into()),
            Fate::Hangs { .. } => {
                self.hung.send_replace(true);
                std::future::pending().await
            }
        }
    }
}

impl<B> tower::Service<Request<B>> for FaultyService
where
    B: HttpBody<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<sim::api::Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { service.take(request).await })
    }
}
