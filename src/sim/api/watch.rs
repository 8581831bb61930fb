//! Watches: a stream of changes from a revision on, made only as fast as the client reads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::{Response, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::present::Manner;
use super::read::{ListFilter, revision};
use super::request::ResourcePath;
use super::status::ApiStatus;
use super::{ApiRequest, ApiResult, BoxError};
use crate::cluster::SimCluster;
use crate::faults::InjectedFaults;
use crate::resource::Spec;
use crate::store::{ListOptions, LoggedChange};

/// Most events in one chunk.
const CHUNK: usize = 256;
/// How long a watch runs that does not say.
const LONGEST: u64 = 2700;

struct Watching {
    cluster: Arc<SimCluster>,
    spec: &'static Spec,
    /// `NAMESPACE/`; empty for all.
    prefix: String,
    filter: ListFilter,
    manner: Manner,
    /// The last revision that was given.
    seen: u64,
    /// The state at the start, still to be given.
    initial: VecDeque<Arc<Value>>,
    /// The bookmark that ends the initial events is still to be given.
    end_of_initial: bool,
    bookmarks: bool,
    headers: bool,
    beats: watch::Receiver<u64>,
    faults: watch::Receiver<InjectedFaults>,
    closing: watch::Receiver<bool>,
    drops: u64,
    bookmark_timer: Interval,
    deadline: std::pin::Pin<Box<tokio::time::Sleep>>,
    ended: bool,
}

/// Serves a watch.
///
/// # Errors
/// 400 and 422 on malformed parameters; a revision that is no longer kept is an event of the stream, as on the
/// real server.
pub fn serve(
    cluster: &Arc<SimCluster>,
    asked: &ApiRequest,
    target: &ResourcePath,
    spec: &'static Spec,
) -> ApiResult {
    let query = &asked.query;
    let manner = asked.manner()?;
    let filter = ListFilter::read(query, target, spec)?;
    let from = revision(query)
        .map_err(|why| ApiStatus::new(500, "", why))?
        .filter(|revision| *revision > 0);
    let send_initial = query
        .get("sendInitialEvents")
        .map(|_| query.flag("sendInitialEvents"));
    let matching = query.get("resourceVersionMatch");
    if send_initial.is_some() && matching != Some("NotOlderThan") {
        return Err(ApiStatus::list_options(
            "resourceVersionMatch",
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if send_initial.is_none() && matching.is_some() {
        return Err(ApiStatus::list_options(
            "resourceVersionMatch",
            "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ));
    }
    let timeout = query
        .get("timeoutSeconds")
        .and_then(|text| text.parse().ok())
        .filter(|seconds| *seconds > 0)
        .unwrap_or(LONGEST);
    let prefix = match target.namespace.as_str() {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    };
    let bookmarks = query.flag("allowWatchBookmarks");
    let mut initial = VecDeque::new();
    let seen;
    {
        let core = cluster.core();
        let newest = core.store.revision();
        if send_initial == Some(true) && from.is_some_and(|from| from > newest) {
            return Err(ApiStatus::too_large_version(from.unwrap_or(0), newest));
        }
        let with_state = send_initial.unwrap_or(from.is_none());
        seen = match (with_state, from) {
            (false, Some(from)) => from,
            _ => newest,
        };
        if with_state {
            let what = ListOptions {
                namespace: Some(target.namespace.as_str()).filter(|n| !n.is_empty()),
                ..ListOptions::default()
            };
            let page = core
                .store
                .list(spec.resource, &what, &|o| filter.keeps(spec, o));
            initial.extend(page.map_err(ApiStatus::expired)?.items);
        }
    }
    let expired = from.is_some() && cluster.judge_watch();
    let faults = cluster.fault_changes();
    let drops = faults.borrow().watch_drops;
    let mut bookmark_timer = interval(cluster.bookmark_every());
    // The first tick of an interval is due at once; the first bookmark is due after one period.
    bookmark_timer.reset();
    bookmark_timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watching = Watching {
        cluster: cluster.clone(),
        spec,
        prefix,
        filter,
        manner,
        seen,
        initial,
        end_of_initial: send_initial == Some(true) && bookmarks,
        bookmarks,
        headers: true,
        beats: cluster.beats(),
        faults,
        closing: cluster.closing(),
        drops,
        bookmark_timer,
        deadline: Box::pin(tokio::time::sleep(Duration::from_secs(timeout))),
        ended: false,
    };
    let first = if expired {
        let stale = crate::store::Expired {
            asked: seen,
            oldest: seen.saturating_add(1),
        };
        Some(refusal_event(&ApiStatus::expired(stale)))
    } else {
        None
    };
    let gone = first.is_some();
    let head = futures::stream::iter(first);
    let tail = futures::stream::unfold(
        Watching {
            ended: gone,
            ..watching
        },
        |mut watching| async move { watching.next().await.map(|chunk| (chunk, watching)) },
    );
    let frames = head
        .chain(tail)
        .map(|chunk| Ok::<_, BoxError>(Frame::data(chunk)));
    let body = BodyExt::boxed_unsync(StreamBody::new(frames));
    Ok(Response::builder()
        .status(200)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CACHE_CONTROL, "no-cache, private")
        .body(body)
        .expect("our own headers are valid"))
}

fn event(kind: &str, object: &Value) -> Bytes {
    // The type first, as API servers have it.
    Bytes::from(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
}

fn refusal_event(refusal: &ApiStatus) -> Bytes {
    event("ERROR", &refusal.body())
}

impl Watching {
    /// The next chunk; `None` when the watch is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.ended || *self.closing.borrow() {
                return None;
            }
            {
                let faults = self.faults.borrow_and_update();
                if faults.watch_drops != self.drops || faults.tokens_expired {
                    return None;
                }
            }
            self.beats.borrow_and_update();
            let silent = self.faults.borrow().silent;
            if !silent && let Some(chunk) = self.ready() {
                return Some(chunk);
            }
            tokio::select! {
                _ = self.beats.changed(), if !silent => {}
                _ = self.faults.changed() => {}
                _ = self.closing.changed() => {}
                _ = &mut self.deadline => return None,
                _ = self.bookmark_timer.tick(), if self.bookmarks && !silent => {
                    return Some(self.bookmark(false));
                }
            }
        }
    }

    /// The events ready to send; `None` when there are none.
    fn ready(&mut self) -> Option<Bytes> {
        let now = self.cluster.now();
        let mut out = Vec::new();
        let count = self.initial.len().min(CHUNK);
        for object in self.initial.drain(..count).collect::<Vec<_>>() {
            let shown = self.shown(&object, now);
            out.extend_from_slice(&event("ADDED", &shown));
        }
        if !out.is_empty() {
            return Some(out.into());
        }
        if std::mem::take(&mut self.end_of_initial) {
            return Some(self.bookmark(true));
        }
        loop {
            let found = self
                .cluster
                .core()
                .store
                .since(self.spec.resource, self.seen, CHUNK);
            let changes = match found {
                Ok(changes) => changes,
                Err(expired) => {
                    self.ended = true;
                    return Some(refusal_event(&ApiStatus::expired(expired)));
                }
            };
            let last = changes.last()?.revision;
            for change in &changes {
                if let Some((kind, object)) = self.event_for(change) {
                    let shown = self.shown(&object, now);
                    out.extend_from_slice(&event(kind, &shown));
                }
            }
            self.seen = last;
            if !out.is_empty() {
                return Some(out.into());
            }
        }
    }

    fn shown(&mut self, object: &Value, now: model::base::Moment) -> Value {
        let headers = std::mem::take(&mut self.headers);
        self.manner.shown(self.spec, object, headers, now)
    }

    /// The event that this watcher gets for a change: an object that begins to match its filter is added, one that no
    /// longer matches is deleted.
    fn event_for(&self, change: &LoggedChange) -> Option<(&'static str, Arc<Value>)> {
        if !change.key.starts_with(&self.prefix) {
            return None;
        }
        let keeps = |object: &Option<Arc<Value>>| {
            object
                .as_ref()
                .is_some_and(|o| self.filter.keeps(self.spec, o))
        };
        match (keeps(&change.before), keeps(&change.after)) {
            (false, false) => None,
            (false, true) => change.after.clone().map(|o| ("ADDED", o)),
            (true, true) => change.after.clone().map(|o| ("MODIFIED", o)),
            (true, false) => {
                // The last state, at the revision of its going.
                let mut object = (**change.before.as_ref()?).clone();
                object["metadata"]["resourceVersion"] = change.revision.to_string().into();
                Some(("DELETED", Arc::new(object)))
            }
        }
    }

    fn bookmark(&mut self, initial: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": self.seen.to_string()});
        if initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        } else {
            // Everything up to here has been given, whatever other resources' revisions are.
            let newest = self.cluster.core().store.revision();
            let waiting = self
                .cluster
                .core()
                .store
                .since(self.spec.resource, self.seen, 1);
            if waiting.is_ok_and(|changes| changes.is_empty()) {
                self.seen = self.seen.max(newest);
                metadata["resourceVersion"] = self.seen.to_string().into();
            }
        }
        let object = json!({
            "kind": self.spec.kind, "apiVersion": self.spec.api_version(), "metadata": metadata,
        });
        let now = self.cluster.now();
        let shown = self.shown(&object, now);
        event("BOOKMARK", &shown)
    }
}
