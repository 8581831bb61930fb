//! Serving the simulated cluster: HTTPS with a CA of its own, plain HTTP for the exporters and for Prometheus,
//! or a service in process.

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::api::{Body, Service};
use super::change::{Resource, SimBackend};
use super::cluster::{Clock, SimCluster};
use super::json::{name, text};
use super::store::{ListOptions, ObjectStore};
use super::users::{User, Users};
use super::{exporters, kubeconfig, prometheus};

/// Interval at which the world is advanced to the clock.
const TICK: Duration = Duration::from_millis(250);
/// How many changes of each resource a watcher can resume across.
const RETENTION: usize = 8192;
/// How long open requests may take to finish when the server ends.
const GRACE: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Where the API listens; port 0 picks one.
    pub listen: SocketAddr,
    /// Where to write the kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// Virtual seconds per real second; at 0 the clock is stopped.
    pub speed: f64,
    /// Seed of the uids and names that the server generates.
    pub seed: u64,
    /// Where the exporters' pages listen, over plain HTTP.
    pub exporters: Option<SocketAddr>,
    /// Where the Prometheus API listens, over plain HTTP.
    pub prometheus: Option<SocketAddr>,
    /// Whether the exporters' own labels win over their targets' in the Prometheus API.
    pub honor_labels: bool,
    /// How many changes of each resource a watcher can resume across.
    pub retention: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            kubeconfig: None,
            speed: 1.0,
            seed: 1,
            exporters: None,
            prometheus: None,
            honor_labels: false,
            retention: RETENTION,
        }
    }
}

pub struct Server;

/// A running server. Dropping it ends it at once; [`Running::shutdown`] lets open requests finish.
pub struct Running {
    /// `https://ADDRESS:PORT` of the API.
    pub url: String,
    pub kubeconfig: String,
    /// `http://ADDRESS:PORT` of the exporters' pages.
    pub exporters: Option<String>,
    /// `http://ADDRESS:PORT` of the Prometheus API.
    pub prometheus: Option<String>,
    service: Service,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Running {
    /// The same API, in process.
    pub fn service(&self) -> Service {
        self.service.clone()
    }

    /// The cluster behind it.
    pub fn cluster(&self) -> &Arc<SimCluster> {
        self.service.cluster()
    }

    /// Serves until the signal comes, then ends.
    pub async fn until(self, signal: impl Future<Output = ()>) {
        signal.await;
        self.shutdown().await;
    }

    /// Ends every watch, lets other answers finish, and closes.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        self.cluster().close();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// The namespaces of the team's user: the first two with a team label, else the first two that are no system namespaces.
fn team_namespaces(store: &ObjectStore) -> Vec<String> {
    let system = |name: &str| {
        name.starts_with("kube-")
            || name.ends_with("-system")
            || matches!(name, "default" | "monitoring" | "gpu-operator")
    };
    let all = store
        .list(Resource::Namespaces, &ListOptions::default(), &|object| {
            !system(name(object))
        })
        .map(|page| page.items)
        .unwrap_or_default();
    let labelled = |object: &serde_json::Value| {
        ["team", "stokehold.dev~1team"]
            .iter()
            .any(|key| !text(object, &format!("/metadata/labels/{key}")).is_empty())
    };
    let mut names: Vec<String> = all
        .iter()
        .filter(|o| labelled(o))
        .map(|o| name(o).to_owned())
        .collect();
    if names.len() < 2 {
        names = all.iter().map(|object| name(object).to_owned()).collect();
    }
    names.truncate(2);
    names
}

fn tokens() -> anyhow::Result<[String; 4]> {
    let provider = rustls::crypto::ring::default_provider();
    let mut tokens = [const { String::new() }; 4];
    for (token, user) in tokens.iter_mut().zip(User::ALL) {
        let mut bytes = [0u8; 20];
        provider
            .secure_random
            .fill(&mut bytes)
            .map_err(|_| anyhow::anyhow!("the system gives no random numbers for the tokens"))?;
        *token = bytes
            .iter()
            .fold(format!("{}.", user.name()), |text, byte| {
                format!("{text}{byte:02x}")
            });
    }
    Ok(tokens)
}

fn start_cluster(
    world: Box<dyn SimBackend>,
    clock: Clock,
    speed: f64,
    seed: u64,
    retention: usize,
) -> anyhow::Result<Arc<SimCluster>> {
    let tokens = tokens()?;
    let users = |store: &ObjectStore| Users::new(tokens, team_namespaces(store));
    Ok(SimCluster::start(
        world, users, clock, speed, seed, retention,
    ))
}

/// Advances the cluster's clock until the cluster is dropped.
async fn keep_time(cluster: std::sync::Weak<SimCluster>) {
    loop {
        tokio::time::sleep(TICK).await;
        let Some(cluster) = cluster.upgrade() else {
            return;
        };
        // A step of a large world takes a while; it must not block requests.
        let ticked = tokio::task::spawn_blocking(move || cluster.tick()).await;
        if let Err(error) = ticked {
            tracing::error!(%error, "the simulated world has failed; its clock is stopped");
            return;
        }
    }
}

/// The API of a world in process, without ports and certificates: a request without a token is the admin's. The
/// clock runs on the current tokio runtime until the last clone of the service is dropped.
///
/// # Errors
/// When the system gives no random numbers.
pub fn embed(
    world: Box<dyn SimBackend>,
    clock: Clock,
    speed: f64,
    seed: u64,
) -> anyhow::Result<Service> {
    let cluster = start_cluster(world, clock, speed, seed, RETENTION)?;
    if speed > 0.0 {
        tokio::spawn(keep_time(Arc::downgrade(&cluster)));
    }
    Ok(Service::new(cluster).signed(User::Admin))
}

impl Server {
    /// Starts a cluster on a world and serves it.
    ///
    /// # Errors
    /// When an address cannot be listened on, the kubeconfig cannot be written, or no certificate can be made.
    pub async fn start(
        options: ServeOptions,
        world: Box<dyn SimBackend>,
        clock: Clock,
    ) -> anyhow::Result<Running> {
        let cluster = start_cluster(world, clock, options.speed, options.seed, options.retention)?;
        let service = Service::new(cluster.clone());
        let bind = async |address: SocketAddr| {
            TcpListener::bind(address).await.with_context(|| {
                format!("cannot listen on {address}; choose another address or port 0")
            })
        };
        let listener = bind(options.listen).await?;
        let address = listener.local_addr()?;
        let (acceptor, ca) = tls(address.ip()).context("cannot make the server's certificate")?;
        let mut reached = address;
        if reached.ip().is_unspecified() {
            // An unspecified address cannot be connected to.
            reached.set_ip(IpAddr::from([127, 0, 0, 1]));
        }
        let url = format!("https://{reached}");
        let kubeconfig = kubeconfig::render(&url, &ca, cluster.users());
        if let Some(path) = &options.kubeconfig {
            kubeconfig::write(path, &kubeconfig)
                .with_context(|| format!("cannot write the kubeconfig {}", path.display()))?;
        }
        let stop = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        let own = service.clone();
        tasks.spawn(accept(
            listener,
            Some(acceptor),
            stop.subscribe(),
            move |request| {
                let service = own.clone();
                async move { service.answer(request).await }
            },
        ));
        let honor_labels = options.honor_labels;
        let mut plain = [None, None];
        for (at, address) in [options.exporters, options.prometheus]
            .into_iter()
            .enumerate()
        {
            let Some(address) = address else { continue };
            let listener = bind(address).await?;
            plain[at] = Some(format!("http://{}", listener.local_addr()?));
            let cluster = cluster.clone();
            tasks.spawn(accept(listener, None, stop.subscribe(), move |request| {
                let cluster = cluster.clone();
                async move {
                    match at {
                        0 => exporters::answer(&cluster, &request),
                        _ => prometheus::answer(&cluster, request, honor_labels).await,
                    }
                }
            }));
        }
        if options.speed > 0.0 {
            let mut stopped = stop.subscribe();
            let time = keep_time(Arc::downgrade(&cluster));
            tasks.spawn(async move {
                tokio::select! {
                    () = time => {}
                    _ = stopped.changed() => {}
                }
            });
        }
        let [exporters, prometheus] = plain;
        Ok(Running {
            url,
            kubeconfig,
            exporters,
            prometheus,
            service,
            stop,
            tasks,
        })
    }
}

/// A CA of its own, and a certificate by it for this address: the acceptor and the CA's PEM.
fn tls(ip: IpAddr) -> anyhow::Result<(TlsAcceptor, String)> {
    let ca_key = KeyPair::generate()?;
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.distinguished_name
        .push(DnType::CommonName, "stokehold simulated cluster");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let ca_pem = ca.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(ca, ca_key);
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".into(), "::1".into()];
    if !ip.is_unspecified() && !names.contains(&ip.to_string()) {
        names.push(ip.to_string());
    }
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "stokehold sim");
    params.use_authority_key_identifier_extension = true;
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = params.signed_by(&key, &issuer)?;
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), ca_pem))
}

/// Accepts connections until the server is stopped, then waits briefly for open requests.
async fn accept<F, Fut>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    mut stop: watch::Receiver<bool>,
    answer: F,
) where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Response<Body>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(converse(stream, tls.clone(), stop.clone(), answer.clone()));
                }
                Err(error) => {
                    // Most often out of file descriptors: wait until some are free.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            _ = connections.join_next(), if !connections.is_empty() => {}
            _ = stop.changed() => break,
        }
    }
    drop(listener);
    let finished = async { while connections.join_next().await.is_some() {} };
    // Unfinished requests are cut off when the set is dropped.
    let _ = tokio::time::timeout(GRACE, finished).await;
}

async fn converse<F, Fut>(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    mut stop: watch::Receiver<bool>,
    answer: F,
) where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Response<Body>> + Send + 'static,
{
    // Watch events are small and must not be delayed.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no-delay is not to be had");
    }
    let service = service_fn(move |request| {
        let answer = answer.clone();
        async move { Ok::<_, Infallible>(answer(request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(1000);
    macro_rules! drive {
        ($io:expr) => {{
            let connection = builder.serve_connection(TokioIo::new($io), service);
            tokio::pin!(connection);
            let mut stopping = *stop.borrow();
            if stopping {
                connection.as_mut().graceful_shutdown();
            }
            loop {
                tokio::select! {
                    ended = connection.as_mut() => break ended,
                    _ = stop.changed(), if !stopping => {
                        stopping = true;
                        connection.as_mut().graceful_shutdown();
                    }
                }
            }
        }};
    }
    let ended = match tls {
        None => drive!(stream),
        Some(acceptor) => {
            match tokio::time::timeout(Duration::from_secs(10), acceptor.accept(stream)).await {
                Ok(Ok(stream)) => drive!(stream),
                Ok(Err(error)) => {
                    tracing::debug!(%error, "a TLS handshake failed");
                    return;
                }
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended badly");
    }
}
