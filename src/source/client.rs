//! The reading client: every request goes through the read gate and is counted, whatever answers it.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tower::{BoxError, Service};

use model::base::Name;

use super::api_stats::{ApiStats, Clock};
use super::gate::{gated, is_read};
use super::kubeconfig::{ConfigFault, ContextChoice, resolve};
use super::login::Login;

/// A way to a cluster, for reading.
#[derive(Clone)]
pub struct Connection {
    /// The client; reads only.
    pub client: Client,
    /// Statistics of its requests.
    pub stats: Arc<ApiStats>,
    /// Name of the kubeconfig context, or a substitute for it.
    pub context: Name,
    pub namespace: String,
    /// The server's address, for messages; empty for a server in this process.
    pub server: String,
}

/// Connects to the cluster of `choice`. Nothing is sent and no plugin runs until the first request.
/// `proxied` are the paths to pods and services that the gate allows ([`super::gate::is_read`]).
/// With `interactive`, a credential plugin may use the terminal: only for commands without a screen.
///
/// # Errors
/// A fault of the kubeconfig, with file, context and the fix.
pub fn connect(
    choice: ContextChoice,
    clock: Clock,
    proxied: impl IntoIterator<Item = String>,
    interactive: bool,
) -> Result<Connection, ConfigFault> {
    let resolved = resolve(&choice)?;
    let context = Name::from(resolved.context.clone());
    let namespace = resolved.namespace.clone();
    let server = resolved.config.cluster_url.to_string();
    let stats = ApiStats::new(clock);
    let login = Login::new(choice, resolved, interactive, Arc::clone(&stats));
    let client = gated(login, &namespace, &stats, reads(proxied));
    Ok(Connection {
        client,
        stats,
        context,
        namespace,
        server,
    })
}

/// A connection to a service in this process (the simulated cluster): the same gate, the same counts.
pub fn client_for<S, B>(
    service: S,
    context: &str,
    clock: Clock,
    proxied: impl IntoIterator<Item = String>,
) -> Connection
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let stats = ApiStats::new(clock);
    let client = gated(service, "default", &stats, reads(proxied));
    Connection {
        client,
        stats,
        context: Name::new(context),
        namespace: "default".to_owned(),
        server: String::new(),
    }
}

/// The rule of the read gate, which allows these paths through the API server's proxy.
fn reads(
    proxied: impl IntoIterator<Item = String>,
) -> impl Fn(&Method, &str) -> bool + Clone + Send + 'static {
    let proxied: Arc<[String]> = proxied.into_iter().collect();
    move |method, path| is_read(method, path, &proxied)
}
