//! The only two writers: [`Writer`] sends the calls of approved plans, [`Probe`] sends them as dry runs. Both require a
//! [`Grant`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::{BoxError, Service};

use cluster::discovery::{PlainGroup, Resources};
use cluster::mutations::{Call, text};
use model::base::Moment;
use model::plan::Object;
use plan::grant::Grant;
use source::api_stats::ApiStats;
use source::gate::gated;
use source::kubeconfig::{ConfigFault, ContextChoice, Resolved, resolve};
use source::login::Login;

use super::gate::{WHO, is_allowed};
use super::machine::ObjectRead;
use super::record::ClusterIdentity;
use super::request::{ask, get, identity, read, unwritable};
use super::response::ServerResponse;

/// The writing client: its own gate and its own counters. It does not retry, because a call without an answer is resolved before
/// it is sent again.
#[derive(Clone)]
pub struct WritingClient {
    client: Client,
    stats: Arc<ApiStats>,
    cluster: ClusterIdentity,
}

/// Connects to the cluster of `choice` for writing. Requests are counted in `stats`.
///
/// # Errors
/// The kubeconfig is invalid, or the grant is for another context.
pub fn connect(
    grant: &Grant,
    choice: ContextChoice,
    stats: Arc<ApiStats>,
    interactive: bool,
) -> Result<WritingClient, ConfigFault> {
    let resolved = resolved(grant, &choice)?;
    let cluster = ClusterIdentity {
        context: resolved.context.clone(),
        server: resolved.config.cluster_url.to_string(),
        uid: String::new(),
    };
    let namespace = resolved.namespace.clone();
    let login = Login::new(choice, resolved, interactive, Arc::clone(&stats));
    Ok(writing(login, &namespace, stats, cluster))
}

/// Resolves `choice` and checks that the grant is for this cluster.
pub(super) fn resolved(grant: &Grant, choice: &ContextChoice) -> Result<Resolved, ConfigFault> {
    let resolved = resolve(choice)?;
    if *resolved.context != **grant.context() {
        return Err(ConfigFault(format!(
            "writing is granted for the context \"{}\", but this is \"{}\"",
            grant.context(),
            resolved.context
        )));
    }
    Ok(resolved)
}

/// A writing client on an in-process service.
pub fn client_for<S, B>(grant: &Grant, service: S, stats: Arc<ApiStats>) -> WritingClient
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let cluster = ClusterIdentity {
        context: grant.context().to_string(),
        server: String::new(),
        uid: String::new(),
    };
    writing(service, "default", stats, cluster)
}

fn writing<S, B>(
    service: S,
    namespace: &str,
    stats: Arc<ApiStats>,
    cluster: ClusterIdentity,
) -> WritingClient
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    WritingClient {
        client: gated(service, namespace, &stats, is_allowed),
        stats,
        cluster,
    }
}

impl WritingClient {
    async fn ask(&self, method: Method, path: &str, content: &str, body: &Value) -> ServerResponse {
        ask(&self.client, method, path, content, body).await
    }
}

/// Sends calls. Only a run of an approved plan uses it.
pub struct Writer {
    client: WritingClient,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Writer {
    /// Creates a writer for this grant.
    pub fn new(_grant: &Grant, client: WritingClient) -> Self {
        Self { client }
    }

    /// The cluster that it writes to, as the kubeconfig names it.
    pub fn named(&self) -> &ClusterIdentity {
        &self.client.cluster
    }

    /// The cluster that it writes to, with its UID when that may be read.
    pub async fn cluster(&self) -> ClusterIdentity {
        ClusterIdentity {
            uid: identity(&self.client.client).await.unwrap_or_default(),
            ..self.client.cluster.clone()
        }
    }

    /// Current time on the server's clock.
    pub fn now(&self) -> Moment {
        self.client.stats.now()
    }

    pub async fn read(&self, object: &Object) -> ObjectRead {
        read(&self.client.client, object).await
    }

    pub(super) async fn send(&self, call: &Call) -> ServerResponse {
        send(&self.client, call, false).await
    }

    /// Sends one call with a timeout of `span`, which is also passed to the server. When no answer arrives in time, the result
    /// is unknown. `dry_run` requests a server-side dry run.
    pub(super) async fn send_within(
        &self,
        call: &Call,
        span: Duration,
        dry_run: bool,
    ) -> ServerResponse {
        let Some(path) = call.path(dry_run) else {
            return unwritable(&call.object);
        };
        let mark = if path.contains('?') { '&' } else { '?' };
        // The server accepts whole seconds only: below one second only our own timeout applies.
        let path = match span.as_secs() {
            0 => path,
            seconds => format!("{path}{mark}timeout={seconds}s"),
        };
        let sent = send_to(&self.client, call, &path);
        let late = |_| ServerResponse::none("no answer in time");
        timeout(span, sent).await.unwrap_or_else(late)
    }

    /// Writes a Kubernetes Event. Its failure is ignored.
    pub(super) async fn create_event(&self, namespace: &str, event: &Value) -> ServerResponse {
        let path = format!("/api/v1/namespaces/{namespace}/events?fieldManager=stokehold");
        self.client
            .ask(Method::POST, &path, "application/json", event)
            .await
    }

    /// The version in which the cluster serves a kind, by group and plural: the preferred version if it serves the kind,
    /// otherwise the first that does. `None` when the cluster returned none.
    pub async fn version_of(&self, group: &str, plural: &str) -> Option<String> {
        let answer = get(&self.client.client, &format!("/apis/{group}")).await;
        let reported: PlainGroup = serde_json::from_value(answer.body).ok()?;
        let versions = reported.versions();
        if versions.len() > 1 {
            for version in &versions {
                let path = format!("/apis/{group}/{version}");
                let answer = get(&self.client.client, &path).await;
                let reported: Option<Resources> = serde_json::from_value(answer.body).ok();
                if reported.is_some_and(|all| all.has(plural)) {
                    return Some(version.clone());
                }
            }
        }
        versions.into_iter().next()
    }

    /// Our user name in the cluster; empty when the API server did not return it.
    pub async fn user(&self) -> String {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let answer = self
            .client
            .ask(Method::POST, WHO, "application/json", &body)
            .await;
        text(&answer.body, "/status/userInfo/username").to_owned()
    }
}

async fn send(client: &WritingClient, call: &Call, dry_run: bool) -> ServerResponse {
    let Some(path) = call.path(dry_run) else {
        return unwritable(&call.object);
    };
    send_to(client, call, &path).await
}

async fn send_to(client: &WritingClient, call: &Call, path: &str) -> ServerResponse {
    let method = match call.method.http() {
        "PATCH" => Method::PATCH,
        _ => Method::POST,
    };
    client
        .ask(method, path, call.method.content_type(), &call.body)
        .await
}

/// Sends calls as server-side dry runs. A dry run changes nothing but needs write permission, because the same request is sent.
pub struct Probe {
    client: WritingClient,
}

impl Probe {
    /// Creates a probe for this grant.
    pub fn new(_grant: &Grant, client: WritingClient) -> Self {
        Self { client }
    }

    /// The answer that this call would get now.
    pub async fn ask(&self, call: &Call) -> ServerResponse {
        send(&self.client, call, true).await
    }
}
