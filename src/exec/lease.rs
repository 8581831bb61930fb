//! Leader election with a Lease: of several identical processes, one acts.
//!
//! The algorithm is client-go's (`tools/leaderelection`): a Lease that has not changed for its duration, measured by our own
//! clock, has expired. Clocks of different machines are never compared, so they may differ. The leader stops [`LEADS`] after it
//! sent its last renewal, before another process can acquire the Lease.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, Service};

use cluster::mutations::text;
use model::base::name::{is_dns_label, is_dns_subdomain, printable};
use plan::grant::Grant;
use source::api_stats::ApiStats;
use source::gate::gated;
use source::kubeconfig::{ConfigFault, ContextChoice};
use source::login::Login;

use super::gate::is_of_lease;
use super::request::ask;
use super::response::ServerResponse;
use super::writer::resolved;

/// Lease duration: time after its last change when the Lease expires (client-go's `LeaseDuration`).
pub const LASTS: Duration = Duration::from_secs(15);
/// How long the holder acts as leader after it sent its last renewal (client-go's `RenewDeadline`).
pub const LEADS: Duration = Duration::from_secs(10);
/// Interval at which the leader renews the Lease and others check it (client-go's `RetryPeriod`).
pub const PACE: Duration = Duration::from_secs(2);
/// How long a process that released the Lease because its work was stuck waits before it tries to acquire it again.
pub const RESTS: Duration = Duration::from_secs(300);
/// Timeout of one request.
const ANSWERS: Duration = Duration::from_secs(5);

/// Namespace and name of a Lease; as text `NAMESPACE/NAME`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseName {
    namespace: String,
    name: String,
}

impl FromStr for LeaseName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((namespace, name)) if is_dns_label(namespace) && is_dns_subdomain(name) => {
                Ok(Self {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                })
            }
            _ => Err(format!(
                "`{}` is not NAMESPACE/NAME of a Lease: stokehold/watch",
                printable(text)
            )),
        }
    }
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl LeaseName {
    fn all(&self) -> String {
        let namespace = &self.namespace;
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")
    }

    fn own(&self) -> String {
        format!("{}/{}", self.all(), self.name)
    }
}

/// The last known state of the leader election.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Leadership {
    until: Option<Instant>,
    /// How many times this process has become leader.
    term: u32,
    /// Identity of the holder; empty when it is unknown or the Lease has no holder.
    pub holder: String,
    /// Why the last read or renewal of the Lease failed.
    pub fault: Option<String>,
}

impl Leadership {
    /// The Lease is held by `holder`. This process leads until `until`, in its term number `term`.
    pub const fn held_by(holder: String, until: Option<Instant>, term: u32) -> Self {
        Self {
            until,
            term,
            holder,
            fault: None,
        }
    }

    /// Whether this process leads now. Check again before each action that only the leader may take.
    pub fn leads(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }
}

/// Whether this process may act: decided by a Lease when one is configured, otherwise always true.
#[derive(Clone, Default, Debug)]
pub struct Lead(Option<watch::Receiver<Leadership>>);

impl Lead {
    /// Follows the state of an [`Elector`].
    pub const fn by(leadership: watch::Receiver<Leadership>) -> Self {
        Self(Some(leadership))
    }

    /// Whether this process leads now.
    pub fn leads(&self) -> bool {
        self.leads_if_elected().unwrap_or(true)
    }

    /// Like [`Self::leads`]; `None` without a Lease.
    pub fn leads_if_elected(&self) -> Option<bool> {
        Some(self.0.as_ref()?.borrow().leads())
    }

    /// The current term. Decisions from an earlier term must be made again.
    pub fn term(&self) -> Term {
        Term {
            lead: self.clone(),
            number: self.number(),
        }
    }

    fn number(&self) -> u32 {
        self.0.as_ref().map_or(0, |state| state.borrow().term)
    }
}

/// One term of leadership. Another process may have led and written between two terms.
#[derive(Clone, Debug)]
pub struct Term {
    lead: Lead,
    number: u32,
}

impl Term {
    /// Term number, from 1; 0 when this process has never led, and without a Lease.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Whether the term is still current: this process has led without interruption.
    pub fn lasts(&self) -> bool {
        self.lead.leads() && self.lead.number() == self.number
    }

    /// Time left in the term without another renewal, at most `most`; zero when the term is over.
    pub fn left(&self, most: Duration) -> Duration {
        let Some(leadership) = &self.lead.0 else {
            return most;
        };
        let state = leadership.borrow();
        let until = state.until.filter(|_| state.term == self.number);
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        left.unwrap_or_default().min(most)
    }
}

/// Acquires and renews a Lease.
pub struct Elector {
    client: Client,
    stats: Arc<ApiStats>,
    lease: LeaseName,
    identity: String,
    /// The version seen last, and since when it has not changed.
    seen: Option<(String, Instant)>,
    state: watch::Sender<Leadership>,
    /// Checked while this process leads: why to release the Lease.
    stuck: Option<Stuck>,
}

/// Returns why the leader's work is stuck; `None` while it progresses.
type Stuck = Box<dyn Fn() -> Option<String> + Send + Sync>;

impl Elector {
    /// An elector for a Lease in the cluster of `choice`. `identity` must be unique to this process. Sends nothing yet.
    ///
    /// # Errors
    /// The kubeconfig is invalid, or the grant is for another context.
    pub fn connect(
        grant: &Grant,
        choice: ContextChoice,
        stats: Arc<ApiStats>,
        lease: LeaseName,
        identity: String,
    ) -> Result<Self, ConfigFault> {
        let resolved = resolved(grant, &choice)?;
        let login = Login::new(choice, resolved, false, Arc::clone(&stats));
        Ok(Self::on(grant, login, stats, lease, identity))
    }

    /// Like `connect`, with a given service.
    pub fn on<S, B>(
        _grant: &Grant,
        service: S,
        stats: Arc<ApiStats>,
        lease: LeaseName,
        identity: String,
    ) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (all, own) = (lease.all(), lease.own());
        let allows = move |method: &_, path: &_| is_of_lease(method, path, &all, &own);
        Self {
            client: gated(service, &lease.namespace, &stats, allows),
            stats,
            lease,
            identity,
            seen: None,
            state: watch::Sender::default(),
            stuck: None,
        }
    }

    /// Releases the Lease while `stuck` returns a reason, and does not try to acquire it again for [`RESTS`].
    #[must_use]
    pub fn unless(self, stuck: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self {
            stuck: Some(Box::new(stuck)),
            ..self
        }
    }

    /// Follows whether this process leads.
    pub fn lead(&self) -> Lead {
        Lead::by(self.leadership())
    }

    /// Follows the state of the leader election.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.state.subscribe()
    }

    /// Runs the election until `end` completes, then releases the Lease. `say` receives a message when this process gains or
    /// loses leadership, and when the Lease cannot be used.
    pub async fn run(mut self, end: impl Future<Output = ()>, mut say: impl FnMut(&str)) {
        tokio::pin!(end);
        let (mut led, mut failed) = (None, false);
        let mut rests: Option<Instant> = None;
        loop {
            let stuck = self.stuck.as_ref().and_then(|stuck| stuck());
            if let Some(why) = stuck.filter(|_| self.state.borrow().leads()) {
                say(&format!("releases the Lease {}: {why}", self.lease));
                self.let_go().await;
                rests = Some(Instant::now() + RESTS);
            }
            if rests.is_none_or(|until| Instant::now() >= until) {
                self.renew_or_acquire().await;
            }
            let state = self.state.borrow().clone();
            let leads = state.leads();
            if led != Some(leads) {
                let words = match (leads, state.holder.as_str()) {
                    (true, _) => format!("leads: holds the Lease {}", self.lease),
                    (false, "") => format!("does not lead: waits for the Lease {}", self.lease),
                    (false, holder) => format!(
                        "does not lead: {} holds the Lease {}",
                        printable(holder),
                        self.lease
                    ),
                };
                say(&words);
                led = Some(leads);
            }
            match &state.fault {
                Some(why) if !failed => say(&format!(
                    "the Lease {} cannot be acquired or renewed: {why}",
                    self.lease
                )),
                None if failed => say(&format!("the Lease {} can be renewed again", self.lease)),
                _ => {}
            }
            failed = state.fault.is_some();
            tokio::select! {
                () = &mut end => break,
                () = sleep(PACE) => {}
            }
        }
        self.let_go().await;
    }

    /// Reads the Lease once, and acquires or renews it when possible.
    pub async fn renew_or_acquire(&mut self) {
        let begun = Instant::now();
        let outcome = self.try_to_hold().await;
        self.state.send_if_modified(|state| {
            let before = state.clone();
            match outcome {
                Ok(other) => {
                    let is_ours = other.is_none();
                    let term = before.term + u32::from(is_ours && !before.leads());
                    let until = is_ours.then_some(begun + LEADS);
                    let holder = other.unwrap_or_else(|| self.identity.clone());
                    *state = Leadership::held_by(holder, until, term);
                }
                // We may still be the leader until the term ends.
                Err(why) => state.fault = Some(why),
            }
            if !state.leads() {
                state.until = None;
            }
            *state != before
        });
    }

    /// Returns `None` when this process holds the Lease, otherwise the identity of the holder (empty when unknown).
    async fn try_to_hold(&mut self) -> Result<Option<String>, String> {
        let read = self.ask(Method::GET, &self.lease.own(), &Value::Null).await;
        let mut lease = match read.code {
            Some(200) if read.body.is_object() => read.body,
            Some(404) => {
                let body = json!({
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"namespace": self.lease.namespace, "name": self.lease.name},
                    "spec": self.record(0, None),
                });
                return self.written(Method::POST, &self.lease.all(), &body).await;
            }
            _ => return Err(read.words()),
        };
        let record = lease["spec"].clone();
        let version = text(&lease, "/metadata/resourceVersion").to_owned();
        let now = Instant::now();
        let since = match &self.seen {
            Some((seen, since)) if *seen == version => *since,
            _ => now,
        };
        self.seen = Some((version, since));
        let holder = text(&record, "/holderIdentity");
        let is_ours = holder == self.identity;
        if !holder.is_empty() && !is_ours {
            let lasts = record["leaseDurationSeconds"].as_u64();
            let lasts = lasts.map_or(LASTS, |seconds| Duration::from_secs(seconds.min(3600)));
            if now.duration_since(since) < lasts {
                return Ok(Some(holder.to_owned()));
            }
        }
        let changes = record["leaseTransitions"].as_u64().unwrap_or_default();
        let acquired = record["acquireTime"].as_str().filter(|_| is_ours);
        // The PUT includes the resourceVersion: if another process wrote first, it fails with 409.
        lease["spec"] = self.record(changes + u64::from(!is_ours), acquired);
        self.written(Method::PUT, &self.lease.own(), &lease).await
    }

    async fn written(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Option<String>, String> {
        let answer = self.ask(method, path, body).await;
        match answer.code {
            Some(200 | 201) => Ok(None),
            // Another process wrote first: the next call reads the holder.
            Some(409) => Ok(Some(String::new())),
            _ => Err(answer.words()),
        }
    }

    fn record(&self, changes: u64, acquired: Option<&str>) -> Value {
        let millis = self.stats.now().millis().max(0);
        let at = model::base::Moment::from_millis(millis).rfc3339();
        // Kubernetes MicroTime format.
        let now = format!("{}.{:03}000Z", at.trim_end_matches('Z'), millis % 1000);
        json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": LASTS.as_secs(),
            "acquireTime": acquired.unwrap_or(&now),
            "renewTime": now,
            "leaseTransitions": changes,
        })
    }

    async fn ask(&self, method: Method, path: &str, body: &Value) -> ServerResponse {
        let asked = ask(&self.client, method, path, "application/json", body);
        let late = |_| ServerResponse::none("no answer within 5 seconds");
        timeout(ANSWERS, asked).await.unwrap_or_else(late)
    }

    /// Releases the Lease, so that other processes need not wait for it to expire.
    async fn let_go(&mut self) {
        if !self.state.borrow().leads() {
            return;
        }
        self.state.send_modify(|state| state.until = None);
        let read = self.ask(Method::GET, &self.lease.own(), &Value::Null).await;
        let mut lease = read.body;
        if read.code == Some(200) && text(&lease, "/spec/holderIdentity") == self.identity {
            lease["spec"]["holderIdentity"] = "".into();
            lease["spec"]["leaseDurationSeconds"] = 1.into();
            self.ask(Method::PUT, &self.lease.own(), &lease).await;
        }
    }
}
