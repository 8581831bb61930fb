//! An API server that answers as each test tells it to, in process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use exporter::Dialects;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use kube::client::Body;
use model::base::Moment;
use model::fleet::observe::{Observation, Table};
use serde_json::{Value, json};
use source::api_stats::Clock;
use source::client::client_for;
use source::kubernetes::Namespaces;
use source::prometheus::PrometheusOptions;
use source::scrape::ScrapeOptions;
use source::scrape_coverage::ScrapedNodes;
use source::{Sources, StartOptions, proxied_paths, start};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tower::BoxError;

/// The longest that a test waits for anything, so that it ends with the name of what did not come. It measures no speed:
/// in paused time it passes at once when nothing is left to happen.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Waits for `wait`; panics with `what` was waited for when it does not end.
pub async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(found) => found,
        Err(_) => panic!("waited {} s for {what}", PATIENCE.as_secs()),
    }
}

/// Lets a time pass at once, in a test that otherwise runs in real time because it has sockets or processes.
pub async fn skip(span: Duration) {
    tokio::time::pause();
    tokio::time::advance(span).await;
    tokio::time::resume();
}

/// Waits for something over sockets while no time passes, so that no limit of the program's can end it; when it does not
/// end by itself, time goes on.
pub async fn with_stopped_clock<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::pause();
    // A paused clock stands still while a blocking task runs.
    let (done, until_done) = std::sync::mpsc::channel::<()>();
    let holder = tokio::task::spawn_blocking(move || until_done.recv_timeout(PATIENCE));
    let found = wait.await;
    drop(done);
    let _ = holder.await;
    tokio::time::resume();
    found
}

/// What a request is answered with.
pub enum Reply {
    /// Status and body.
    Json(u16, Value),
    /// Status, content type, body.
    Text(u16, &'static str, Vec<u8>),
    /// With headers besides.
    With(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// A stream that a test feeds; closing it ends the answer.
    Stream(mpsc::UnboundedReceiver<Result<Bytes, std::io::Error>>),
    /// The connection fails.
    Broken(std::io::ErrorKind),
    /// Nothing, ever.
    Hang,
}

/// A request as a handler sees it.
#[derive(Clone, Debug)]
pub struct SeenRequest {
    pub method: String,
    pub path: String,
    pub query: String,
}

impl SeenRequest {
    pub fn is_watch(&self) -> bool {
        self.query.contains("watch=true")
    }
    pub fn param(&self, name: &str) -> Option<String> {
        self.query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=')?;
            (key == name).then(|| value.to_owned())
        })
    }
}

type Handler = dyn Fn(&SeenRequest) -> Reply + Send + Sync;

/// The server.
#[derive(Clone)]
pub struct Server {
    handler: Arc<Handler>,
    pub log: Arc<Mutex<Vec<(Instant, SeenRequest)>>>,
}

impl Server {
    pub fn new(handler: impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static) -> Self {
        Self {
            handler: Arc::new(handler),
            log: Arc::default(),
        }
    }

    pub fn asked(&self) -> Vec<SeenRequest> {
        self.log
            .lock()
            .unwrap()
            .iter()
            .map(|(_, asked)| asked.clone())
            .collect()
    }
}

pub type ReplyBody = UnsyncBoxBody<Bytes, BoxError>;

fn full(bytes: Vec<u8>) -> ReplyBody {
    http_body_util::Full::new(Bytes::from(bytes))
        .map_err(|never| match never {})
        .boxed_unsync()
}

impl tower::Service<Request<Body>> for Server {
    type Response = Response<ReplyBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<ReplyBody>, BoxError>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let asked = SeenRequest {
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or("").to_owned(),
        };
        self.log
            .lock()
            .unwrap()
            .push((Instant::now(), asked.clone()));
        let reply = (self.handler)(&asked);
        Box::pin(async move {
            let build = |status: u16| Response::builder().status(status);
            let answer = match reply {
                Reply::Json(status, value) => build(status)
                    .header("content-type", "application/json")
                    .body(full(value.to_string().into_bytes())),
                Reply::Text(status, kind, body) => {
                    build(status).header("content-type", kind).body(full(body))
                }
                Reply::With(status, headers, body) => {
                    let mut builder = build(status);
                    for (name, value) in headers {
                        builder = builder.header(name, value);
                    }
                    builder.body(full(body))
                }
                Reply::Stream(receiver) => {
                    let parts = futures::stream::unfold(receiver, |mut receiver| async move {
                        receiver.recv().await.map(|part| (part, receiver))
                    });
                    let frames = parts.map(|part| part.map(Frame::data).map_err(BoxError::from));
                    build(200)
                        .header("content-type", "application/json")
                        .body(StreamBody::new(frames).boxed_unsync())
                }
                Reply::Broken(kind) => return Err(std::io::Error::from(kind).into()),
                Reply::Hang => return std::future::pending().await,
            };
            Ok(answer.unwrap())
        })
    }
}

/// A table that can be listed in pages and watched, with its watches in the hands of a test.
#[derive(Clone, Default)]
pub struct ServedTable(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    items: Vec<Value>,
    page: usize,
    revision: u64,
    watches: Vec<mpsc::UnboundedSender<Result<Bytes, std::io::Error>>>,
    /// How many watches were opened so far.
    opened: watch::Sender<usize>,
    /// Answers that come before the ordinary one, for lists and for watches.
    lists: VecDeque<Reply>,
    opens: VecDeque<Reply>,
}

impl ServedTable {
    pub fn new(items: Vec<Value>, page: usize) -> Self {
        let table = Self::default();
        {
            let mut inner = table.0.lock().unwrap();
            inner.items = items;
            inner.page = page;
            inner.revision = 100;
        }
        table
    }

    pub fn before_list(&self, reply: Reply) {
        self.0.lock().unwrap().lists.push_back(reply);
    }

    pub fn before_watch(&self, reply: Reply) {
        self.0.lock().unwrap().opens.push_back(reply);
    }

    pub fn set(&self, items: Vec<Value>) {
        let mut inner = self.0.lock().unwrap();
        inner.items = items;
        inner.revision += 1;
    }

    /// Sends a line on every open watch.
    pub fn line(&self, line: &str) {
        self.raw(Ok(Bytes::from(format!("{line}\n"))));
    }

    pub fn event(&self, kind: &str, mut object: Value) {
        let revision = {
            let mut inner = self.0.lock().unwrap();
            inner.revision += 1;
            inner.revision
        };
        object["metadata"]["resourceVersion"] = revision.to_string().into();
        self.line(&json!({"type": kind, "object": object}).to_string());
    }

    pub fn raw(&self, part: Result<Bytes, std::io::Error>) {
        let part = part.map_err(|error| error.kind());
        for watch in &self.0.lock().unwrap().watches {
            let _ = watch.send(part.clone().map_err(std::io::Error::from));
        }
    }

    /// Ends every watch as a server does that has forgotten where they were: they list anew.
    pub fn expire(&self) {
        self.line(
            r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#,
        );
        self.drop_watches();
    }

    /// Ends every watch.
    pub fn drop_watches(&self) {
        self.0.lock().unwrap().watches.clear();
    }

    /// Waits until this many watches were opened in all, those included that have ended since.
    pub async fn watched(&self, times: usize) {
        let mut opened = self.0.lock().unwrap().opened.subscribe();
        let all = opened.wait_for(|count| *count >= times);
        within(&format!("watch number {times}"), all)
            .await
            .expect("the table is there");
    }

    pub fn answer(&self, asked: &SeenRequest) -> Reply {
        let mut inner = self.0.lock().unwrap();
        if asked.is_watch() {
            if let Some(reply) = inner.opens.pop_front() {
                return reply;
            }
            let (send, receive) = mpsc::unbounded_channel();
            inner.watches.push(send);
            inner.opened.send_modify(|count| *count += 1);
            return Reply::Stream(receive);
        }
        if let Some(reply) = inner.lists.pop_front() {
            return reply;
        }
        let start: usize = asked.param("continue").map_or(0, |at| at.parse().unwrap());
        let size = if inner.page == 0 {
            usize::MAX
        } else {
            inner.page
        };
        let end = start.saturating_add(size).min(inner.items.len());
        let mut metadata = json!({"resourceVersion": inner.revision.to_string()});
        if end < inner.items.len() {
            metadata["continue"] = end.to_string().into();
        }
        Reply::Json(
            200,
            json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": inner.items[start..end]}),
        )
    }
}

/// A Status as the API server writes it.
pub fn status(code: u16, reason: &str, message: &str) -> Reply {
    Reply::Json(
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}),
    )
}

pub fn not_found() -> Reply {
    Reply::Text(404, "text/plain", b"404 page not found\n".to_vec())
}

pub fn clock() -> Clock {
    let start = Instant::now();
    Arc::new(move || {
        Moment::from_millis(1_800_000_000_000 + i64::try_from(start.elapsed().as_millis()).unwrap())
    })
}

/// Running sources and what they say.
pub struct Bench {
    pub seen: mpsc::Receiver<Vec<Observation>>,
    pub observations: Vec<Observation>,
    pub sources: Sources,
    pub screen: watch::Sender<std::collections::BTreeSet<model::base::Name>>,
    pub reach: watch::Sender<ScrapedNodes>,
}

pub fn run(server: &Server, tables: &[Table]) -> Bench {
    run_with(
        server,
        tables,
        Namespaces::All {
            otherwise: "default".into(),
            of_context: true,
        },
        None,
        Dialects::builtin(),
    )
}

pub fn run_with(
    server: &Server,
    tables: &[Table],
    namespaces: Namespaces,
    scrape: Option<ScrapeOptions>,
    dialects: Dialects,
) -> Bench {
    run_all(server, tables, namespaces, scrape, None, dialects)
}

pub fn run_all(
    server: &Server,
    tables: &[Table],
    namespaces: Namespaces,
    scrape: Option<ScrapeOptions>,
    prometheus: Option<PrometheusOptions>,
    dialects: Dialects,
) -> Bench {
    let (out, seen) = mpsc::channel(64);
    let (screen, on_screen) = watch::channel(std::collections::BTreeSet::new());
    let reach = watch::Sender::new(ScrapedNodes::All);
    let sources = start(StartOptions {
        connection: client_for(server.clone(), "test", clock(), proxied_paths(&dialects)),
        namespaces,
        govern_namespace: "stokehold".to_owned(),
        tables: tables.to_vec(),
        dialects: Arc::new(dialects),
        scrape,
        prometheus,
        out,
        on_screen,
        reach: reach.subscribe(),
    });
    Bench {
        seen,
        observations: Vec::new(),
        sources,
        screen,
        reach,
    }
}

impl Bench {
    /// Takes in observations until `enough` says so of the new ones; panics when that does not happen.
    pub async fn until(
        &mut self,
        what: &str,
        mut enough: impl FnMut(&Observation) -> bool,
    ) -> Observation {
        let limit = Instant::now() + PATIENCE;
        loop {
            let batch = match tokio::time::timeout_at(limit, self.seen.recv()).await {
                Ok(Some(batch)) => batch,
                Ok(None) => panic!("the sources ended before {what}"),
                Err(_) => panic!(
                    "waited {} s for {what}; told: {:#?}",
                    PATIENCE.as_secs(),
                    self.observations
                ),
            };
            assert!(!batch.is_empty() && batch.len() <= 256);
            let found = batch.iter().position(&mut enough);
            self.observations.extend(batch.iter().cloned());
            if let Some(at) = found {
                return batch[at].clone();
            }
        }
    }

    /// What is told within a time.
    pub async fn during(&mut self, span: Duration) -> Vec<Observation> {
        let limit = Instant::now() + span;
        let mut all = Vec::new();
        while let Ok(Some(batch)) = tokio::time::timeout_at(limit, self.seen.recv()).await {
            all.extend(batch);
        }
        self.observations.extend(all.iter().cloned());
        all
    }

    pub async fn lost(&mut self, table: Table) -> model::fleet::observe::Lost {
        let found = self
            .until(
                "loss",
                |one| matches!(one, Observation::Lost(of, _) if *of == table),
            )
            .await;
        match found {
            Observation::Lost(_, lost) => lost,
            _ => unreachable!("it was chosen"),
        }
    }

    pub async fn end(&mut self, table: Table) {
        self.until(
            "end of a list",
            |one| matches!(one, Observation::End(of) if *of == table),
        )
        .await;
    }
}

pub fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "status": {"capacity": {"nvidia.com/gpu": "8"}}})
}

/// What was told of nodes, in short: `+a`, `-a`, `begin`, `end`, `lost`, `back`.
pub fn story(observations: &[Observation]) -> Vec<String> {
    observations
        .iter()
        .filter_map(|one| match one {
            Observation::Begin(Table::Nodes) => Some("begin".to_owned()),
            Observation::End(Table::Nodes) => Some("end".to_owned()),
            Observation::Lost(Table::Nodes, _) => Some("lost".to_owned()),
            Observation::Back(Table::Nodes) => Some("back".to_owned()),
            Observation::Absent(Table::Nodes) => Some("absent".to_owned()),
            Observation::Node(seen) => Some(format!("+{}", seen.name)),
            Observation::Gone(Table::Nodes, key) => Some(format!("-{}", key.name)),
            _ => None,
        })
        .collect()
}
