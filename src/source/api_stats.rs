//! Statistics of API requests: requests a minute by class, latency, the server's clock, `Retry-After`, and a back-off
//! for watches that end right after they begin.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Response;
use http::header::{DATE, HeaderMap, RETRY_AFTER};
use tokio::sync::watch;

use model::base::Moment;
use model::fleet::observe::Table;

/// An injected clock: this machine's, or a test's.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// Purpose of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RequestClass {
    /// Lists and watches of a table.
    Table(Table),
    /// Discovery and version requests.
    Server,
    /// Pages of pods and services through the API server's proxy.
    Proxy,
    Other,
}

impl RequestClass {
    /// The class of a request path.
    pub fn of(path: &str) -> Self {
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next() {
            Some("api") => "",
            Some("apis") => parts.next().unwrap_or(""),
            _ => return Self::Server,
        };
        let mut rest: Vec<&str> = parts.skip(1).collect();
        if rest.is_empty() {
            return Self::Server;
        }
        let mut namespace = None;
        if rest.len() > 2 && rest[0] == "namespaces" {
            namespace = rest.drain(..2).next_back();
        }
        if rest.get(2) == Some(&"proxy") {
            return Self::Proxy;
        }
        Table::ALL
            .iter()
            .find(|known| {
                let place = known.api();
                // Of several tables of one kind, each has its own namespace.
                let here = place.namespace().is_none_or(|of| namespace == Some(of));
                rest == [known.plural()] && place.group == group && here
            })
            .copied()
            // The settings define the namespace of this table.
            .or_else(|| {
                let ours = Table::GovernQueues;
                (rest == [ours.plural()] && group.is_empty() && namespace.is_some()).then_some(ours)
            })
            .map_or(Self::Other, Self::Table)
    }
}

/// Seconds over which calls are counted.
const WINDOW: usize = 60;

/// A watch that lived shorter than this ended too early.
const HASTY: Duration = Duration::from_secs(5);

/// Calls in each of the last [`WINDOW`] seconds.
#[derive(Clone)]
struct Calls {
    by_second: [u32; WINDOW],
    last: i64,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            by_second: [0; WINDOW],
            last: i64::MIN,
        }
    }
}

impl Calls {
    fn slot(second: i64) -> usize {
        usize::try_from(second.rem_euclid(WINDOW as i64)).unwrap_or(0)
    }

    fn advance(&mut self, now: Moment) {
        let second = now.millis().div_euclid(1000);
        if second <= self.last {
            return;
        }
        let passed = second.saturating_sub(self.last).min(WINDOW as i64);
        for back in 0..passed {
            self.by_second[Self::slot(second - back)] = 0;
        }
        self.last = second;
    }

    fn count(&mut self, now: Moment) {
        self.advance(now);
        self.by_second[Self::slot(self.last)] += 1;
    }

    fn in_a_minute(&mut self, now: Moment) -> u32 {
        self.advance(now);
        self.by_second.iter().sum()
    }
}

/// State of one class of requests.
#[derive(Clone, Default)]
struct ClassState {
    calls: Calls,
    latency_ms: Option<u32>,
    last_ok: Option<Moment>,
    retry_at: Option<Moment>,
    /// Watches by namespace; the empty one means all namespaces.
    watches: BTreeMap<String, WatchState>,
}

/// State of the watches of one class in one namespace.
#[derive(Clone, Copy, Default)]
struct WatchState {
    opened: Option<Moment>,
    hasty: u32,
}

/// The namespace of a request path; empty where it has none.
fn namespace_of(path: &str) -> &str {
    let mut parts = path
        .split('/')
        .skip_while(|part| *part != "namespaces")
        .skip(1);
    match (parts.next(), parts.next()) {
        (Some(namespace), Some(_)) => namespace,
        _ => "",
    }
}

/// A class's figures for the `sources` view.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct RequestFigures {
    /// Requests in the last minute.
    pub calls_per_minute: u32,
    /// Milliseconds until the last answer began.
    pub latency_ms: Option<u32>,
    /// When the server last sent useful data, on its clock.
    pub last_ok: Option<Moment>,
}

struct ApiCounters {
    classes: BTreeMap<RequestClass, ClassState>,
    total: Calls,
    /// The last request got no answer at all.
    down: bool,
    /// When the first request since the server last sent anything was sent, on this machine's clock.
    waiting: Option<Moment>,
    /// When the server last sent anything, on its clock.
    last_response: Option<Moment>,
    skew_ms: Option<i64>,
    /// The latest Date of any answer.
    date: Option<Moment>,
    pinned: bool,
}

impl ApiCounters {
    fn server(&self, local: Moment) -> Moment {
        match self.date {
            Some(date) if self.pinned => date,
            _ => Moment::from_millis(local.millis().saturating_add(self.skew_ms.unwrap_or(0))),
        }
    }
}

/// Shared statistics of all requests and answers.
pub struct ApiStats {
    clock: Clock,
    /// Incremented when another server answers than before.
    epoch: AtomicU64,
    inner: Mutex<ApiCounters>,
    opened: watch::Sender<u64>,
    /// Incremented when the server answers again after it did not.
    returned: watch::Sender<u64>,
}

impl fmt::Debug for ApiStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiStatsLayer").finish_non_exhaustive()
    }
}

impl ApiStats {
    /// Empty statistics that read the time from `clock`.
    pub fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            epoch: AtomicU64::new(0),
            inner: Mutex::new(ApiCounters {
                classes: BTreeMap::new(),
                total: Calls::default(),
                down: false,
                waiting: None,
                last_response: None,
                skew_ms: None,
                date: None,
                pinned: false,
            }),
            opened: watch::Sender::new(0),
            returned: watch::Sender::new(0),
        })
    }

    fn inner(&self) -> MutexGuard<'_, ApiCounters> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This machine's clock, for use elsewhere.
    pub fn clock(&self) -> Clock {
        Arc::clone(&self.clock)
    }

    pub fn local(&self) -> Moment {
        (self.clock)()
    }

    /// The server's clock, estimated from the skew if it is known.
    pub fn now(&self) -> Moment {
        let local = self.local();
        self.inner().server(local)
    }

    /// Pins the server's clock to the `Date` of its latest answer: for one look at the cluster, whose ages then
    /// match the server's own to the second.
    pub fn pin(&self) {
        self.inner().pinned = true;
    }

    /// The server's clock minus this machine's, milliseconds.
    pub fn skew_ms(&self) -> Option<i64> {
        self.inner().skew_ms
    }

    /// Identity of the server that answers: a new number means another server, whose revisions are unrelated.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Another server answers from now on.
    pub(super) fn moved(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    pub fn figures(&self, class: RequestClass) -> RequestFigures {
        let now = self.local();
        let mut inner = self.inner();
        let state = inner.classes.entry(class).or_default();
        RequestFigures {
            calls_per_minute: state.calls.in_a_minute(now),
            latency_ms: state.latency_ms,
            last_ok: state.last_ok,
        }
    }

    /// Requests of all classes in the last minute.
    pub fn calls_per_minute(&self) -> u32 {
        let now = self.local();
        self.inner().total.in_a_minute(now)
    }

    /// Remaining time of the server's `Retry-After` for this class.
    pub fn asked_to_wait(&self, class: RequestClass) -> Option<Duration> {
        let now = self.local();
        let retry_at = self.inner().classes.get(&class)?.retry_at?;
        let left = retry_at.since(now).millis();
        (left > 0).then(|| Duration::from_millis(left))
    }

    /// Completes when a watch of `class` in `namespace` (empty: in all) has been opened after `since` (local clock).
    pub async fn watch_opened(&self, class: RequestClass, namespace: &str, since: Moment) {
        let mut changes = self.opened.subscribe();
        loop {
            let opened = self
                .inner()
                .classes
                .get(&class)
                .and_then(|state| state.watches.get(namespace)?.opened);
            if opened.is_some_and(|at| at >= since) {
                return;
            }
            if changes.changed().await.is_err() {
                // The sender lives in `self`: it cannot be dropped.
                return std::future::pending().await;
            }
        }
    }

    /// Counts how often the server answered again after it did not.
    pub fn returns(&self) -> watch::Receiver<u64> {
        self.returned.subscribe()
    }

    /// Completes when the server answers again after it did not.
    pub async fn returned(&self) {
        let mut changes = self.returns();
        if changes.changed().await.is_err() {
            // The sender lives in `self`: it cannot be dropped.
            std::future::pending::<()>().await;
        }
    }

    /// A request got no answer.
    pub(super) fn unanswered(&self) {
        self.inner().down = true;
    }

    /// How long the server has sent nothing since a request; `None` without an open request.
    pub(super) fn silent_for(&self) -> Option<Duration> {
        let now = self.local();
        let since = self.inner().waiting?;
        Some(Duration::from_millis(now.since(since).millis()))
    }

    /// When the server last sent anything, on its clock.
    pub(super) fn last_response(&self) -> Option<Moment> {
        self.inner().last_response
    }

    /// Counts a request and returns how long to delay it.
    pub(super) fn before(&self, class: RequestClass, path: &str, watches: bool) -> Duration {
        let now = self.local();
        let mut inner = self.inner();
        inner.total.count(now);
        inner.waiting.get_or_insert(now);
        let state = inner.classes.entry(class).or_default();
        state.calls.count(now);
        if !watches {
            return Duration::ZERO;
        }
        let state = state
            .watches
            .entry(namespace_of(path).to_owned())
            .or_default();
        let soon = state
            .opened
            .is_some_and(|opened| now.since(opened) < HASTY.into());
        state.hasty = if soon {
            state.hasty.saturating_add(1)
        } else {
            0
        };
        match state.hasty {
            // One list and its watch, or one disconnect, are normal.
            0 | 1 => Duration::ZERO,
            more => Duration::from_millis(250 << more.min(7)).min(Duration::from_secs(30)),
        }
    }

    pub(super) fn after<B>(
        &self,
        class: RequestClass,
        path: &str,
        watches: bool,
        sent: Moment,
        answer: &Response<B>,
    ) {
        let now = self.local();
        let mut inner = self.inner();
        let took = now.since(sent).millis();
        if let Some(date) = answer
            .headers()
            .get(DATE)
            .and_then(|date| http_date(date.to_str().ok()?))
        {
            note_skew(&mut inner.skew_ms, sent, now, date);
            inner.date = inner.date.max(Some(date));
        }
        let server = inner.server(now);
        let state = inner.classes.entry(class).or_default();
        state.latency_ms = Some(u32::try_from(took).unwrap_or(u32::MAX));
        let status = answer.status();
        if status.is_success() {
            state.retry_at = None;
            state.last_ok = Some(server);
            if watches {
                let place = namespace_of(path).to_owned();
                state.watches.entry(place).or_default().opened = Some(now);
            }
        } else if let Some(wait) = retry_after(answer.headers()) {
            state.retry_at = Some(now.plus(wait));
        }
        inner.waiting = None;
        inner.last_response = Some(server);
        let returned = std::mem::take(&mut inner.down);
        drop(inner);
        if returned {
            self.returned.send_modify(|count| *count += 1);
        }
        if watches && status.is_success() {
            self.opened.send_modify(|count| *count += 1);
        }
    }

    /// Bytes of an answer have arrived.
    pub(super) fn alive(&self, class: RequestClass) {
        let now = self.now();
        let mut inner = self.inner();
        inner.waiting = None;
        inner.last_response = Some(now);
        inner.classes.entry(class).or_default().last_ok = Some(now);
    }
}

/// Updates the clock skew from one answer. `Date` has whole seconds and was written at some time between request and answer:
/// within that range the old estimate is kept.
fn note_skew(known: &mut Option<i64>, sent: Moment, received: Moment, date: Moment) {
    // A slow answer is too imprecise, and a cached one has an old date.
    if received.since(sent) > Duration::from_secs(5).into() {
        return;
    }
    let least = date.millis() - received.millis();
    let most = date.millis() + 999 - sent.millis();
    *known = match *known {
        Some(skew) if (least..=most).contains(&skew) => Some(skew),
        // The true skew is in both ranges: move no further than this answer requires.
        Some(skew) if (skew - least).abs() < 3000 => Some(skew.clamp(least, most)),
        _ => Some(least + (most - least) / 2),
    };
}

/// The longest `Retry-After` that is honored.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The value of `Retry-After` in seconds; its date form is ignored.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    let seconds: u64 = text.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

/// Parses an HTTP date (`Sat, 21 Nov 2026 06:40:00 GMT`).
fn http_date(text: &str) -> Option<Moment> {
    let mut parts = text.split_ascii_whitespace().skip(1);
    let (day, month, year) = (parts.next()?, parts.next()?, parts.next()?);
    let (time, zone) = (parts.next()?, parts.next()?);
    let month = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
    .iter()
    .position(|known| *known == month)?
        + 1;
    (zone == "GMT").then_some(())?;
    Moment::parse(&format!("{year}-{month:02}-{day:0>2}T{time}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Moment {
        Moment::from_millis(millis)
    }

    #[test]
    fn classes_follow_paths() {
        for (path, class) in [
            ("/api/v1/nodes", RequestClass::Table(Table::Nodes)),
            ("/api/v1/namespaces", RequestClass::Table(Table::Namespaces)),
            (
                "/api/v1/namespaces/ml/pods",
                RequestClass::Table(Table::Pods),
            ),
            ("/apis/batch/v1/jobs", RequestClass::Table(Table::Jobs)),
            (
                "/apis/jobset.x-k8s.io/v1alpha2/jobsets",
                RequestClass::Table(Table::JobSets),
            ),
            ("/apis/other.io/v1/jobs", RequestClass::Other),
            (
                "/api/v1/namespaces/kueue-system/configmaps",
                RequestClass::Table(Table::KueueConfig),
            ),
            (
                "/api/v1/namespaces/kube-system/configmaps",
                RequestClass::Table(Table::NodeGroups),
            ),
            (
                "/api/v1/namespaces/ml/configmaps",
                RequestClass::Table(Table::GovernQueues),
            ),
            ("/api/v1/configmaps", RequestClass::Other),
            ("/apis/jobset.x-k8s.io", RequestClass::Server),
            ("/version", RequestClass::Server),
            (
                "/api/v1/namespaces/mon/pods/d:9400/proxy/metrics",
                RequestClass::Proxy,
            ),
            ("/api/v1/namespaces/ml/pods/p", RequestClass::Other),
        ] {
            assert_eq!(RequestClass::of(path), class, "{path}");
        }
    }

    #[test]
    fn a_minute_is_sixty_seconds_long() {
        let mut calls = Calls::default();
        for second in 0..90 {
            calls.count(at(second * 1000));
            calls.count(at(second * 1000 + 500));
        }
        assert_eq!(calls.in_a_minute(at(89_999)), 120);
        assert_eq!(calls.in_a_minute(at(89_999 + 30_000)), 60);
        assert_eq!(calls.in_a_minute(at(10_000_000)), 0);
        // A clock that is set back loses no counts and causes no panic.
        calls.count(at(0));
        assert_eq!(calls.in_a_minute(at(10_000_000)), 1);
    }

    #[test]
    fn skew_is_found_and_does_not_tremble() {
        let mut skew = None;
        // The server is 90 s ahead; its Date is truncated to seconds.
        for local in (0..60_000).step_by(370) {
            let date = (local + 20 + 90_000) / 1000 * 1000;
            note_skew(&mut skew, at(local), at(local + 40), at(date));
        }
        let found = skew.expect("answers came");
        assert!((found - 90_000).abs() <= 60, "{found}");
        let before = skew;
        note_skew(&mut skew, at(0), at(20_000), at(500_000));
        assert_eq!(skew, before, "a slow answer says nothing");
        note_skew(&mut skew, at(60_000), at(60_040), at(60_000));
        assert!(
            skew.expect("known").abs() < 1000,
            "a clock that jumped is followed"
        );
    }

    #[test]
    fn dates_are_read() {
        let at = Moment::parse("2026-11-01T06:40:00Z");
        assert_eq!(http_date("Sun, 01 Nov 2026 06:40:00 GMT"), at);
        assert_eq!(http_date("Sun, 1 Nov 2026 06:40:00 GMT"), at);
        for bad in [
            "",
            "Sun",
            "Sun, 01 Foo 2026 06:40:00 GMT",
            "Sun, 99 Nov 2026 06:40:00 GMT",
        ] {
            assert_eq!(http_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn watches_that_end_at_once_are_braked() {
        let now = Arc::new(std::sync::atomic::AtomicI64::new(0));
        let read = Arc::clone(&now);
        let stats = ApiStats::new(Arc::new(move || {
            at(read.load(std::sync::atomic::Ordering::SeqCst))
        }));
        let class = RequestClass::Table(Table::Pods);
        let answer = Response::new(());
        let mut waits = Vec::new();
        for _ in 0..12 {
            waits.push(stats.before(class, "/api/v1/pods", true));
            stats.after(class, "/api/v1/pods", true, stats.local(), &answer);
        }
        assert_eq!(waits[..2], [Duration::ZERO; 2]);
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]), "{waits:?}");
        assert!(waits[11] >= Duration::from_secs(30));
        now.store(60_000, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(
            stats.before(class, "/api/v1/pods", true),
            Duration::ZERO,
            "one that lived is forgiven"
        );
    }
}
