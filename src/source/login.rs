//! The client that authenticates requests, and renews credentials before they expire, when the server rejects them, and
//! when the kubeconfig of an unreachable server has changed.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tokio::sync::Mutex;
use tower::{BoxError, Service, ServiceBuilder};

use model::base::Moment;

use super::api_stats::ApiStats;
use super::kubeconfig::{ContextChoice, Resolved, Transport, resolve};
use super::local;
use super::plugin::{self, Credential};
use super::trust;

/// There is no credential that the server could accept; why, and the repair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoginFailed(pub String);

impl fmt::Display for LoginFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LoginFailed {}

/// Shortest interval between renewals.
const SPACING: Duration = Duration::from_secs(10);

/// A token read from a file is read again after this time.
const FILE_LIFE: Duration = Duration::from_secs(60);

/// After a failure a plugin is not run again for this long; doubles with each further failure.
const FIRST_REST: Duration = Duration::from_secs(1);

/// The longest of these pauses.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// A credential is renewed this long before it expires, or after three quarters of a shorter life.
const MARGIN: Duration = Duration::from_secs(60);

/// A client that logs in on its own. Clones share one login.
#[derive(Clone)]
pub struct Login {
    shared: Arc<SharedLogin>,
}

struct SharedLogin {
    choice: ContextChoice,
    interactive: bool,
    stats: Arc<ApiStats>,
    state: Mutex<LoginState>,
}

struct LoginState {
    resolved: Resolved,
    /// Contents of the files behind `resolved`.
    fingerprint: u64,
    client: Option<Client>,
    token: Option<HeaderValue>,
    renew_at: Option<Moment>,
    tried: Option<Moment>,
    /// The plugin failed the last time.
    failed: Option<PluginFailed>,
    generation: u64,
}

/// A plugin's failure: every request until `until` gets this error without another run.
struct PluginFailed {
    error: LoginFailed,
    rest: Duration,
    until: Moment,
}

/// What one request is sent with.
struct Ready {
    client: Client,
    token: Option<HeaderValue>,
    generation: u64,
}

impl Login {
    /// A login that has not happened yet: the first request triggers it. With `interactive`, a plugin may use the
    /// terminal; never while a screen is up.
    pub fn new(
        choice: ContextChoice,
        resolved: Resolved,
        interactive: bool,
        stats: Arc<ApiStats>,
    ) -> Self {
        let fingerprint = fingerprint(&resolved);
        Self {
            shared: Arc::new(SharedLogin {
                choice,
                interactive,
                stats,
                state: Mutex::new(LoginState {
                    resolved,
                    fingerprint,
                    client: None,
                    token: None,
                    renew_at: None,
                    tried: None,
                    failed: None,
                    generation: 0,
                }),
            }),
        }
    }
}

impl SharedLogin {
    async fn ready(&self) -> Result<Ready, LoginFailed> {
        let mut state = self.state.lock().await;
        let now = self.stats.local();
        let due = state.renew_at.is_some_and(|at| now >= at);
        match state.client.clone() {
            None => {
                // A repaired kubeconfig takes effect at once.
                if state.failed.is_some() {
                    self.reread(&mut state);
                }
                self.log_in(&mut state, now).await?;
            }
            // A credential that still works is kept if its renewal fails.
            Some(_) if due && self.may_try(&mut state, now) => {
                if let Err(failed) = self.log_in(&mut state, now).await {
                    tracing::warn!(%failed, "renewing credentials");
                }
            }
            Some(_) => {}
        }
        let Some(client) = state.client.clone() else {
            return Err(LoginFailed("there is no client".to_owned()));
        };
        Ok(Ready {
            client,
            token: state.token.clone(),
            generation: state.generation,
        })
    }

    fn may_try(&self, state: &mut LoginState, now: Moment) -> bool {
        let soon = state
            .tried
            .is_some_and(|tried| now.since(tried) < SPACING.into());
        if !soon {
            state.tried = Some(now);
        }
        !soon
    }

    /// Runs the plugin, unless it has just failed. The caller has locked the state, so at most one call is in flight.
    async fn ask_plugin(
        &self,
        state: &mut LoginState,
        now: Moment,
    ) -> Result<Credential, LoginFailed> {
        if let Some(failed) = state.failed.as_ref().filter(|failed| now < failed.until) {
            return Err(failed.error.clone());
        }
        let Some(exec) = &state.resolved.exec else {
            return Ok(Credential::default());
        };
        match plugin::run(exec, self.interactive).await {
            Ok(credential) => {
                state.failed = None;
                Ok(credential)
            }
            Err(error) => {
                let rest = match &state.failed {
                    Some(before) => before.rest.saturating_mul(2).min(LONGEST_REST),
                    None => FIRST_REST,
                };
                state.failed = Some(PluginFailed {
                    error: error.clone(),
                    rest,
                    until: self.stats.local().plus(rest),
                });
                Err(error)
            }
        }
    }

    /// Obtains a credential and, if the connection depends on it, rebuilds the client.
    async fn log_in(&self, state: &mut LoginState, now: Moment) -> Result<(), LoginFailed> {
        let credential = if state.resolved.exec.is_some() {
            self.ask_plugin(state, now).await?
        } else if let Some(file) = &state.resolved.token_file {
            let text = local::read_text(file).map_err(|error| {
                LoginFailed(format!(
                    "the token file {} cannot be read ({error}); check tokenFile in the kubeconfig",
                    file.display()
                ))
            })?;
            Credential {
                token: Some(text.trim().to_owned()),
                identity: None,
                expires: Some(now.plus(FILE_LIFE + MARGIN)),
            }
        } else {
            Credential::default()
        };
        let mut config = state.resolved.config.clone();
        // The library's own policy repeats a 429, 503 or 504 up to fifteen times below the layer that counts: a
        // page of a hung exporter would be sixteen requests. The caller decides when to retry.
        config.default_retry = false;
        let has_identity = credential.identity.is_some();
        if let Some((certificate, key)) = credential.identity {
            let encode = |pem: String| base64::engine::general_purpose::STANDARD.encode(pem);
            config.auth_info.client_certificate_data = Some(encode(certificate));
            config.auth_info.client_key_data = Some(encode(key).into());
        }
        let plain = config.cluster_url.scheme_str() == Some("http");
        if config.root_cert.is_none() && (plain || config.accept_invalid_certs) {
            // Nothing is verified, so no CA certificates are needed.
            config.root_cert = Some(Vec::new());
        }
        if state.client.is_none() || has_identity {
            // Several crypto providers may be linked in: select one. A second call fails harmlessly.
            let _ = rustls::crypto::ring::default_provider().install_default();
            let client = client(config, self.choice.transport.clone()).map_err(|error| {
                LoginFailed(format!(
                    "no client for context \"{}\": {}",
                    state.resolved.context,
                    trust::explained(&error)
                ))
            })?;
            state.client = Some(client);
        }
        state.token = match credential.token {
            None => None,
            Some(token) => {
                let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| {
                    LoginFailed(
                        "the token has characters that no header may have; log in again".to_owned(),
                    )
                })?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        state.renew_at = credential.expires.map(|expires| {
            let quarter = Duration::from_millis(expires.since(now).millis() / 4);
            expires.minus(MARGIN.min(quarter))
        });
        state.generation += 1;
        Ok(())
    }

    /// After a 401: reads all credentials again. True when the request is worth repeating.
    async fn renew(&self, used: u64) -> Result<bool, LoginFailed> {
        let mut state = self.state.lock().await;
        if state.generation != used {
            return Ok(true);
        }
        let now = self.stats.local();
        if !self.may_try(&mut state, now) {
            return Ok(false);
        }
        let changed = self.reread(&mut state);
        let asks = state.resolved.exec.is_some() || state.resolved.token_file.is_some();
        if !changed && !asks {
            return Ok(false);
        }
        let before = state.token.clone();
        self.log_in(&mut state, now).await?;
        Ok(changed || state.token != before || state.resolved.exec.is_some())
    }

    /// After no answer: a changed kubeconfig may name another server. True when it has changed.
    async fn moved(&self, used: u64) -> Result<bool, LoginFailed> {
        let mut state = self.state.lock().await;
        if state.generation != used {
            return Ok(true);
        }
        let now = self.stats.local();
        if !self.reread(&mut state) {
            return Ok(false);
        }
        state.tried = Some(now);
        self.log_in(&mut state, now).await?;
        Ok(true)
    }

    /// Resolves the kubeconfig again when its files have changed. True when they have, and are still valid.
    fn reread(&self, state: &mut LoginState) -> bool {
        if fingerprint(&state.resolved) == state.fingerprint {
            return false;
        }
        let mut choice = self.choice.clone();
        // The screen shows one context: `kubectl config use-context` elsewhere does not switch it.
        if !state.resolved.files.is_empty() {
            choice.context = Some(state.resolved.context.clone());
        }
        match resolve(&choice) {
            Ok(resolved) => {
                let (old, new) = (&state.resolved.config, &resolved.config);
                if old.cluster_url != new.cluster_url || old.root_cert != new.root_cert {
                    self.stats.moved();
                }
                state.fingerprint = fingerprint(&resolved);
                state.resolved = resolved;
                state.client = None;
                state.failed = None;
                true
            }
            Err(fault) => {
                tracing::warn!(%fault, "the kubeconfig has changed and can no longer be used");
                false
            }
        }
    }
}

/// A digest of the kubeconfig and of the files that it references.
fn fingerprint(resolved: &Resolved) -> u64 {
    let auth = &resolved.config.auth_info;
    let named = [&auth.client_certificate, &auth.client_key]
        .into_iter()
        .flatten()
        .map(std::path::PathBuf::from);
    let mut hasher = rustc_hash::FxHasher::default();
    for file in resolved.files.iter().cloned().chain(named) {
        hasher.write(&std::fs::read(file).unwrap_or_default());
    }
    hasher.finish()
}

impl Service<Request<Body>> for Login {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let ready = shared.ready().await?;
            // A write without an answer may have been applied: the caller must check before it is repeated.
            let reads = matches!(*request.method(), Method::GET | Method::HEAD);
            let again = copy(&request);
            let answer = send(&ready, request).await;
            let Some(again) = again else {
                return answer.map_err(Into::into);
            };
            let refused = answer
                .as_ref()
                .is_ok_and(|answer| answer.status() == StatusCode::UNAUTHORIZED);
            let repeat = if refused {
                shared.renew(ready.generation).await?
            } else if answer.is_err() && reads {
                shared.moved(ready.generation).await?
            } else {
                false
            };
            if !repeat {
                return answer.map_err(Into::into);
            }
            let ready = shared.ready().await?;
            send(&ready, again).await.map_err(Into::into)
        })
    }
}

/// A client with these credentials; over the transport, if there is one.
fn client(config: Config, transport: Option<Transport>) -> Result<Client, kube::Error> {
    let Some(transport) = transport else {
        return Client::try_from(config);
    };
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .service(transport);
    Ok(Client::new(service, config.default_namespace))
}

/// A copy of the request, if its body can be cloned.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut again = Request::new(request.body().try_clone()?);
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    Some(again)
}

async fn send(ready: &Ready, mut request: Request<Body>) -> Result<Response<Body>, kube::Error> {
    if let Some(token) = &ready.token {
        request.headers_mut().insert(AUTHORIZATION, token.clone());
    }
    ready.client.send(request).await
}
