//! A Lease: of several processes that do the same, one does it.
//!
//! The algorithm is client-go's (`tools/leaderelection`): a Lease that did not change for its duration, by our own clock since
//! we saw it, is free. No clock of another machine is compared, so clocks may differ. Who leads stops [`LEADS`] after its last
//! renewal was sent, before anybody else may begin.

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
use source::kubeconfig::{Choice, ConfigFault};
use source::login::Login;

use super::gate::WriteGate;
use super::request::ask;
use super::response::ServerResponse;
use super::writer::{gated, resolved};

/// How long a Lease is held after its last change.
pub const LASTS: Duration = Duration::from_secs(15);
/// How long who holds it leads after the last renewal was sent.
pub const LEADS: Duration = Duration::from_secs(10);
/// How often it is renewed, and looked at by those who wait.
pub const PACE: Duration = Duration::from_secs(2);
/// Who has let go of it because its work was stuck does not try to hold it again for so long.
pub const RESTS: Duration = Duration::from_secs(300);
/// How long one request may take.
const ANSWERS: Duration = Duration::from_secs(5);

/// Namespace and name of a Lease, `NAMESPACE/NAME` as text.
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

/// Who leads, as far as is known.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Leadership {
    until: Option<Instant>,
    /// How often we have begun to lead.
    term: u32,
    /// Who holds the Lease; empty while that is not known or nobody does.
    pub holder: String,
    /// Why the Lease could not be read or renewed at the last try.
    pub fault: Option<String>,
}

impl Leadership {
    /// Held by `holder`; we lead until then, for the `term`th time.
    pub const fn held(holder: String, until: Option<Instant>, term: u32) -> Self {
        Self {
            until,
            term,
            holder,
            fault: None,
        }
    }

    /// Whether we lead at this moment. Ask again before each thing that one process alone may do.
    pub fn leads(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }
}

/// Whether this process is the one that acts: by a Lease where several wait for it, else always.
#[derive(Clone, Default, Debug)]
pub struct Lead(Option<watch::Receiver<Leadership>>);

impl Lead {
    /// By what an [`Elector`] says.
    pub const fn by(leadership: watch::Receiver<Leadership>) -> Self {
        Self(Some(leadership))
    }

    /// Whether we lead at this moment.
    pub fn leads(&self) -> bool {
        self.told().unwrap_or(true)
    }

    /// The same; `None` without a Lease.
    pub fn told(&self) -> Option<bool> {
        Some(self.0.as_ref()?.borrow().leads())
    }

    /// This time of our leadership: what was decided in an earlier one is decided anew.
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

/// One time of our leadership. Another may have led, and written, between two.
#[derive(Clone, Debug)]
pub struct Term {
    lead: Lead,
    number: u32,
}

impl Term {
    /// Which: 1 is the first; 0 where we have never led, and without a Lease.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Whether we have led without a break until this moment.
    pub fn lasts(&self) -> bool {
        self.lead.leads() && self.lead.number() == self.number
    }

    /// How long it still lasts if nothing renews it, at most `most`: zero where it is over.
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

/// Holds a Lease, or waits for it.
pub struct Elector {
    client: Client,
    stats: Arc<ApiStats>,
    lease: LeaseName,
    identity: String,
    /// The version that was seen last, and since when it has not changed.
    seen: Option<(String, Instant)>,
    state: watch::Sender<Leadership>,
    /// Asked while we lead: why to let go of the Lease.
    stuck: Option<Stuck>,
}

/// Why the work of the leader is stuck; nothing while it goes on.
type Stuck = Box<dyn Fn() -> Option<String> + Send + Sync>;

impl Elector {
    /// Of a Lease in the cluster of `choice`; `identity` is ours and no other process's. Nothing is sent yet.
    ///
    /// # Errors
    /// What is wrong with the kubeconfig, or that the grant is for another context.
    pub fn connect(
        grant: &Grant,
        choice: Choice,
        stats: Arc<ApiStats>,
        lease: LeaseName,
        identity: String,
    ) -> Result<Self, ConfigFault> {
        let resolved = resolved(grant, &choice)?;
        let login = Login::new(choice, resolved, false, Arc::clone(&stats));
        Ok(Self::on(grant, login, stats, lease, identity))
    }

    /// The same on a service.
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
        let gate = WriteGate::Lease {
            all: lease.all(),
            own: lease.own(),
        };
        Self {
            client: gated(service, &lease.namespace, &stats, &gate),
            stats,
            lease,
            identity,
            seen: None,
            state: watch::Sender::default(),
            stuck: None,
        }
    }

    /// Lets go of the Lease while `stuck` says why the work does not go on, and leaves it to others for [`RESTS`].
    #[must_use]
    pub fn unless(self, stuck: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self {
            stuck: Some(Box::new(stuck)),
            ..self
        }
    }

    /// Whether we lead, from now on.
    pub fn lead(&self) -> Lead {
        Lead::by(self.leadership())
    }

    /// Who leads, from now on.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.state.subscribe()
    }

    /// Holds the Lease or waits for it until `end` comes, and then lets go of it. `say` is told when we begin and cease to lead, and
    /// when the Lease cannot be used.
    pub async fn run(mut self, end: impl Future<Output = ()>, mut say: impl FnMut(&str)) {
        tokio::pin!(end);
        let (mut led, mut failed) = (None, false);
        let mut rests: Option<Instant> = None;
        loop {
            let stuck = self.stuck.as_ref().and_then(|stuck| stuck());
            if let Some(why) = stuck.filter(|_| self.state.borrow().leads()) {
                say(&format!("lets go of the Lease {}: {why}", self.lease));
                self.let_go().await;
                rests = Some(Instant::now() + RESTS);
            }
            if rests.is_none_or(|until| Instant::now() >= until) {
                self.turn().await;
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
                Some(why) if !failed => {
                    say(&format!("the Lease {} cannot be held: {why}", self.lease))
                }
                None if failed => say(&format!("the Lease {} can be held again", self.lease)),
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

    /// Looks at the Lease once, and takes or renews it where that may be done.
    pub async fn turn(&mut self) {
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
                    *state = Leadership::held(holder, until, term);
                }
                // It may still be ours, until its time is over.
                Err(why) => state.fault = Some(why),
            }
            if !state.leads() {
                state.until = None;
            }
            *state != before
        });
    }

    /// `None` once it is ours; else who holds it, empty where that is not known.
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
        // Its version goes along: who was quicker wins.
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
            // Somebody else wrote: who holds it is read at the next turn.
            Some(409) => Ok(Some(String::new())),
            _ => Err(answer.words()),
        }
    }

    fn record(&self, changes: u64, acquired: Option<&str>) -> Value {
        let millis = self.stats.now().millis().max(0);
        let at = model::base::Moment::from_millis(millis).rfc3339();
        // A MicroTime.
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

    /// Lets go of the Lease, so that nobody has to wait for its end.
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
