//! The Kubernetes API of the simulated cluster: one service that answers requests over HTTPS and in process alike.

pub mod apply;
pub mod defaults;
pub mod discovery;
pub mod eviction;
pub mod log;
pub mod openapi;
pub mod patch;
pub mod present;
pub mod protobuf;
pub mod proxy;
pub mod read;
pub mod request;
pub mod review;
pub mod scale;
pub mod status;
pub mod validate;
pub mod watch;
pub mod write;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};

use self::present::Manner;
use self::request::{ResourcePath, UrlQuery};
use self::status::ApiStatus;
use super::audit::AuditEntry;
use super::cluster::SimCluster;
use super::faults::{FaultAction, InjectedFaults};
use super::resource::{Spec, groups};
use super::users::{AccessRequest, Identity, User, refused};

/// Any error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
/// The body of an answer: complete, or a stream that makes each chunk on demand.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;
/// An answer or a refusal.
pub type ApiResult = Result<Response<Body>, ApiStatus>;

/// The largest request body that is read, in bytes: what the real server allows.
const BODY_LIMIT: usize = 3 * 1024 * 1024;
/// Where faults are read and set.
pub const FAULTS_PATH: &str = "/sim/faults";
/// Where the audit log is read.
pub const AUDIT_PATH: &str = "/sim/audit";

/// One request, read completely and split into parts.
pub struct ApiRequest {
    pub method: Method,
    pub path: String,
    pub query: UrlQuery,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The user of the request.
    pub who: Identity,
}

impl ApiRequest {
    /// The text of a header; empty when absent.
    pub fn header(&self, name: header::HeaderName) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("")
    }

    /// The type of the body, without its parameters; empty when absent.
    pub fn media_type(&self) -> &str {
        let kind = self.header(header::CONTENT_TYPE);
        kind.split(';').next().unwrap_or("").trim()
    }

    /// How the answer is to be written.
    ///
    /// # Errors
    /// 406 when nothing that the client accepts can be made.
    pub fn manner(&self) -> Result<Manner, ApiStatus> {
        Manner::negotiate(
            self.header(header::ACCEPT),
            &self.query,
            self.header(header::USER_AGENT),
        )
    }

    /// True when nothing is to be written: `dryRun=All` in the query.
    ///
    /// # Errors
    /// 422 on any other value.
    pub fn dry_run(&self) -> Result<bool, ApiStatus> {
        let options = match self.method {
            Method::POST => "CreateOptions",
            Method::PUT => "UpdateOptions",
            Method::PATCH => "PatchOptions",
            _ => "DeleteOptions",
        };
        validate::dry_run(options, self.query.all("dryRun"))
    }
}

pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

/// An answer of this code and content type with a whole body.
pub fn respond(code: u16, content_type: &str, body: impl Into<Bytes>) -> Response<Body> {
    Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::CACHE_CONTROL, "no-cache, private")
        .body(full(body))
        .expect("codes and types of our own are valid")
}

pub fn json(code: u16, value: &serde_json::Value) -> Response<Body> {
    respond(code, "application/json", value.to_string())
}

/// The path leads nowhere: the real server's plain 404.
pub fn nowhere() -> Response<Body> {
    respond(404, "text/plain; charset=utf-8", "404 page not found\n")
}

/// The API as a tower service. Clones share the cluster.
#[derive(Clone)]
pub struct Service {
    cluster: Arc<SimCluster>,
    user: Option<User>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl Service {
    /// The API of this cluster. A request must carry a bearer token.
    pub fn new(cluster: Arc<SimCluster>) -> Self {
        Self {
            cluster,
            user: None,
        }
    }

    /// The same service, where a request without a token is this user's. For clients in process.
    #[must_use]
    pub fn signed(mut self, user: User) -> Self {
        self.user = Some(user);
        self
    }

    /// The cluster behind it.
    pub fn cluster(&self) -> &Arc<SimCluster> {
        &self.cluster
    }

    /// Answers one request; every failure is an answer too.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let delay = self.cluster.faults().latency();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let mut asked = ApiRequest {
            method: parts.method,
            path: parts.uri.path().to_owned(),
            query: UrlQuery::parse(parts.uri.query().unwrap_or("")),
            headers: parts.headers,
            body: Bytes::new(),
            who: Identity::of(User::Nobody),
        };
        let answer = match self.enter(&mut asked).await {
            Ok(Some(early)) => Ok(early),
            Ok(None) => match Limited::new(body, BODY_LIMIT).collect().await {
                Ok(collected) => {
                    asked.body = collected.to_bytes();
                    self.dispatch(&asked).await
                }
                Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
                    Err(ApiStatus::too_large(BODY_LIMIT))
                }
                Err(error) => Err(ApiStatus::bad_request(format!(
                    "the body cannot be read: {error}"
                ))),
            },
            Err(refusal) => Err(refusal),
        };
        let mut response = answer.unwrap_or_else(|refusal| {
            let mut response = json(refusal.code, &refusal.body());
            if let Some(seconds) = refusal.retry_seconds() {
                response
                    .headers_mut()
                    .insert(header::RETRY_AFTER, seconds.into());
            }
            response
        });
        let now = self.cluster.now();
        if asked.path != FAULTS_PATH && asked.path != AUDIT_PATH {
            let watches = asked.query.flag("watch");
            let mut audit = self.cluster.audit();
            audit.count(asked.method.as_str(), &asked.path, watches);
        }
        let reads = matches!(asked.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let forbidden = response.status() == http::StatusCode::FORBIDDEN;
        if (!reads || forbidden) && asked.path != FAULTS_PATH {
            let entry = AuditEntry {
                at: now,
                user: asked.who.name,
                method: asked.method.to_string(),
                path: parts
                    .uri
                    .path_and_query()
                    .map_or(asked.path, |path| path.to_string()),
                code: response.status().as_u16(),
            };
            self.cluster.audit().note(entry);
        }
        if let Ok(date) = http_date(now).parse() {
            response.headers_mut().insert(header::DATE, date);
        }
        response
    }

    /// Faults and authentication: an answer already, or on to the work.
    async fn enter(&self, asked: &mut ApiRequest) -> Result<Option<Response<Body>>, ApiStatus> {
        if asked.path != FAULTS_PATH {
            match self.cluster.judge() {
                FaultAction::Serve => {}
                FaultAction::TooMany(seconds) => return Err(ApiStatus::too_many(seconds)),
                FaultAction::ServerError => {
                    return Err(ApiStatus::internal("a requested fault"));
                }
                FaultAction::Expired => return Err(ApiStatus::unauthorized()),
                FaultAction::Html => {
                    let page = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n";
                    return Ok(Some(respond(502, "text/html", page)));
                }
                FaultAction::Silent => self.cluster.heard_again().await,
            }
        }
        asked.who = self.authenticate(&asked.headers)?;
        let hangs = self.cluster.faults().hangs(&asked.path);
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(None)
    }

    fn authenticate(&self, headers: &HeaderMap) -> Result<Identity, ApiStatus> {
        let users = self.cluster.users();
        let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
        let who = match (text("authorization"), self.user) {
            (Some(value), _) => {
                let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
                if !scheme.eq_ignore_ascii_case("bearer") {
                    return Err(ApiStatus::unauthorized());
                }
                users
                    .authenticate(token.trim())
                    .ok_or_else(ApiStatus::unauthorized)?
            }
            (None, Some(user)) => Identity::of(user),
            (None, None) => return Err(ApiStatus::unauthorized()),
        };
        let groups: Vec<String> = headers
            .get_all("impersonate-group")
            .iter()
            .filter_map(|v| v.to_str().ok())
            .map(str::to_owned)
            .collect();
        let Some(name) = text("impersonate-user") else {
            if groups.is_empty() {
                return Ok(who);
            }
            return Err(ApiStatus::internal(
                "requested impersonation without impersonating a user",
            ));
        };
        let mut wanted = vec![("users", name.to_owned())];
        wanted.extend(groups.iter().map(|group| ("groups", group.clone())));
        for (plural, name) in wanted {
            let ask = AccessRequest::Resource {
                verb: "impersonate",
                group: "",
                plural,
                subresource: "",
                namespace: "",
                name: &name,
            };
            if !users.may(&who, &ask) {
                return Err(ApiStatus::forbidden(
                    "",
                    plural,
                    &name,
                    &refused(&who, &ask),
                ));
            }
        }
        let mut groups = groups;
        if !groups.iter().any(|g| g == "system:authenticated") {
            groups.push("system:authenticated".to_owned());
        }
        Ok(Identity {
            name: name.to_owned(),
            groups,
            uid: text("impersonate-uid").unwrap_or("").to_owned(),
        })
    }

    async fn dispatch(&self, asked: &ApiRequest) -> ApiResult {
        let Some(target) = ResourcePath::parse(&asked.path) else {
            return self.path(asked);
        };
        let mut target = target;
        let verb = self.verb(asked, &mut target);
        let ask = target.ask(verb);
        if !self.cluster.users().may(&asked.who, &ask) {
            let why = refused(&asked.who, &ask);
            return Err(ApiStatus::forbidden(
                &target.group,
                &target.plural,
                &target.name,
                &why,
            ));
        }
        if let Some(answer) = review::serve(&self.cluster, asked, &target) {
            return answer;
        }
        let Some(spec) = target.spec() else {
            let known = target.group.is_empty() || groups().iter().any(|(g, _)| *g == target.group);
            return if known {
                Err(ApiStatus::no_resource())
            } else {
                Ok(nowhere())
            };
        };
        if matches!(verb, "list" | "watch") && self.cluster.faults().breaks(spec.plural) {
            return Err(ApiStatus::internal("a requested fault"));
        }
        self.resource(asked, &target, spec, verb).await
    }

    /// The verb of a request on a resource. A list or watch of one name is a request on that name.
    fn verb(&self, asked: &ApiRequest, target: &mut ResourcePath) -> &'static str {
        match asked.method {
            Method::GET | Method::HEAD => {
                let watching = target.watch || asked.query.flag("watch");
                let named = !target.name.is_empty();
                if (watching && target.subresource.is_empty()) || !named {
                    let fields = asked.query.get("fieldSelector").unwrap_or("");
                    if let Ok(fields) = super::selector::FieldSelector::parse(fields)
                        && let Some(name) = fields.exact("metadata.name")
                    {
                        target.name = name.to_owned();
                    }
                    if watching { "watch" } else { "list" }
                } else {
                    "get"
                }
            }
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if target.name.is_empty() => "deletecollection",
            Method::DELETE => "delete",
            _ => "",
        }
    }

    async fn resource(
        &self,
        asked: &ApiRequest,
        target: &ResourcePath,
        spec: &'static Spec,
        verb: &str,
    ) -> ApiResult {
        let cluster = &self.cluster;
        // A namespaced resource by name needs its namespace; a cluster-scoped one has none.
        let astray = match spec.namespaced {
            true => target.namespace.is_empty() && !matches!(verb, "list" | "watch" | "create"),
            false => !target.namespace.is_empty(),
        };
        if astray {
            return Err(ApiStatus::no_resource());
        }
        if matches!(verb, "update" | "patch") && target.name.is_empty() {
            return Err(ApiStatus::method_not_allowed());
        }
        if target.subresource.is_empty() {
            return match verb {
                "get" => read::get(cluster, asked, target, spec),
                "list" => read::list(cluster, asked, target, spec),
                "watch" => watch::serve(cluster, asked, target, spec),
                "create" if target.name.is_empty() => write::create(cluster, asked, target, spec),
                "update" => write::update(cluster, asked, target, spec),
                "patch" => write::patch(cluster, asked, target, spec),
                "delete" => write::delete(cluster, asked, target, spec),
                "deletecollection" if spec.verbs().contains(&"deletecollection") => {
                    write::delete_collection(cluster, asked, target, spec)
                }
                _ => Err(ApiStatus::method_not_allowed()),
            };
        }
        if !spec.subresources.contains(&target.subresource.as_str()) {
            return Err(ApiStatus::no_resource());
        }
        match (target.subresource.as_str(), verb) {
            ("status", "get") => read::get(cluster, asked, target, spec),
            ("status", "update") => write::update(cluster, asked, target, spec),
            ("status", "patch") => write::patch(cluster, asked, target, spec),
            ("scale", "get" | "update" | "patch") => scale::serve(cluster, asked, target, spec),
            ("eviction", "create") => eviction::create(cluster, asked, target),
            ("log", "get") => log::serve(cluster, asked, target),
            ("proxy", "get") => proxy::serve(cluster, asked, target, spec),
            ("status" | "scale" | "eviction" | "log", _) => Err(ApiStatus::method_not_allowed()),
            (subresource, _) => Err(ApiStatus::new(
                501,
                "NotImplemented",
                format!(
                    "the simulated cluster runs no containers, so {}/{subresource} does nothing in it",
                    spec.plural
                ),
            )),
        }
    }

    fn path(&self, asked: &ApiRequest) -> ApiResult {
        let verb = asked.method.as_str().to_lowercase();
        let ask = AccessRequest::Path {
            verb: if verb == "head" { "get" } else { &verb },
            path: &asked.path,
        };
        if !self.cluster.users().may(&asked.who, &ask) {
            return Err(ApiStatus::forbidden("", "", "", &refused(&asked.who, &ask)));
        }
        match asked.path.as_str() {
            FAULTS_PATH => self.set_faults(asked),
            AUDIT_PATH if asked.method == Method::GET => {
                Ok(json(200, &self.cluster.audit().document()))
            }
            "/healthz" | "/livez" | "/readyz" if asked.method == Method::GET => Ok(health(asked)),
            path => {
                let found = discovery::serve(path, asked).or_else(|| openapi::serve(path, asked));
                match found {
                    Some(_) if asked.method != Method::GET && asked.method != Method::HEAD => {
                        Err(ApiStatus::method_not_allowed())
                    }
                    found => Ok(found.unwrap_or_else(nowhere)),
                }
            }
        }
    }

    fn set_faults(&self, asked: &ApiRequest) -> ApiResult {
        let query: BTreeMap<String, String> = asked.query.pairs().iter().cloned().collect();
        let next = match asked.method {
            Method::DELETE => InjectedFaults::default(),
            Method::PUT => serde_json::from_slice(&asked.body)
                .map_err(|error| ApiStatus::bad_request(format!("these are no faults: {error}")))?,
            Method::POST => self
                .cluster
                .faults()
                .with(&query)
                .map_err(ApiStatus::bad_request)?,
            _ => self.cluster.faults(),
        };
        let body = serde_json::to_value(&next).unwrap_or_default();
        self.cluster.set_faults(next);
        Ok(json(200, &body))
    }
}

fn health(asked: &ApiRequest) -> Response<Body> {
    let name = asked.path.trim_start_matches('/');
    let body = if asked.query.pairs().iter().any(|(key, _)| key == "verbose") {
        format!("[+]ping ok\n[+]log ok\n[+]world ok\n{name} check passed\n")
    } else {
        "ok".to_owned()
    };
    respond(200, "text/plain; charset=utf-8", body)
}

/// A moment as HTTP headers write it.
fn http_date(now: model::base::Moment) -> String {
    match jiff::Timestamp::from_millisecond(now.millis()) {
        Ok(stamp) => stamp.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
        Err(_) => String::new(),
    }
}

impl<B> tower::Service<Request<B>> for Service
where
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}
