//! `pods/log`: the lines of a container, all or the last ones, complete or followed.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::Value;

use super::request::ResourcePath;
use super::status::ApiStatus;
use super::{ApiRequest, ApiResult, BoxError, respond};
use crate::change::Resource;
use crate::cluster::SimCluster;
use crate::json::{list, text};
use crate::names::quoted;
use crate::resource::spec;
use model::base::{Moment, ObjectKey};

/// One line and its timestamp.
type Line = (Moment, String);

/// Parameters of a log request.
struct LogQuery {
    container: String,
    previous: bool,
    timestamps: bool,
    follow: bool,
    tail: Option<usize>,
    from: Option<Moment>,
    bytes: Option<usize>,
}

fn number(asked: &ApiRequest, key: &str, least: i64) -> Result<Option<i64>, ApiStatus> {
    let Some(value) = asked.query.get(key) else {
        return Ok(None);
    };
    let number: i64 = value.parse().map_err(|_| {
        ApiStatus::bad_request(format!(
            "strconv.ParseInt: parsing {}: invalid syntax",
            quoted(value)
        ))
    })?;
    if number < least {
        let why = match least {
            0 => "must be greater than or equal to 0".to_owned(),
            _ => "must be greater than 0".to_owned(),
        };
        let message =
            format!("PodLogOptions \"\" is invalid: {key}: Invalid value: {number}: {why}");
        return Err(ApiStatus::new(422, "Invalid", message));
    }
    Ok(Some(number))
}

impl LogQuery {
    fn read(asked: &ApiRequest, pod: &Value, now: Moment) -> Result<Self, ApiStatus> {
        let names = |pointer: &str| -> Vec<String> {
            list(pod, pointer)
                .iter()
                .map(|c| text(c, "/name").to_owned())
                .collect()
        };
        let (main, init) = (names("/spec/containers"), names("/spec/initContainers"));
        let pod_name = text(pod, "/metadata/name");
        let container = match asked.query.get("container") {
            Some(name) if main.iter().chain(&init).any(|n| n == name) => name.to_owned(),
            Some(name) => {
                return Err(ApiStatus::bad_request(format!(
                    "container {name} is not valid for pod {pod_name}"
                )));
            }
            None if main.len() == 1 => main[0].clone(),
            None => {
                let all: Vec<String> = init.into_iter().chain(main).collect();
                return Err(ApiStatus::bad_request(format!(
                    "a container name must be specified for pod {pod_name}, choose one of: [{}]",
                    all.join(" ")
                )));
            }
        };
        let seconds = number(asked, "sinceSeconds", 1)?;
        let from = match (seconds, asked.query.get("sinceTime")) {
            (Some(_), Some(_)) => {
                let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
                let message = format!("PodLogOptions \"\" is invalid: Forbidden: {why}");
                return Err(ApiStatus::new(422, "Invalid", message));
            }
            (Some(seconds), None) => {
                let back = std::time::Duration::from_secs(seconds.unsigned_abs());
                Some(now.minus(back))
            }
            (None, Some(text)) => Some(Moment::parse(text).ok_or_else(|| {
                ApiStatus::bad_request(format!("sinceTime is no RFC 3339 moment: {}", quoted(text)))
            })?),
            (None, None) => None,
        };
        Ok(Self {
            container,
            previous: asked.query.flag("previous"),
            timestamps: asked.query.flag("timestamps"),
            follow: asked.query.flag("follow"),
            tail: number(asked, "tailLines", 0)?.and_then(|n| usize::try_from(n).ok()),
            from,
            bytes: number(asked, "limitBytes", 1)?.and_then(|n| usize::try_from(n).ok()),
        })
    }

    /// The lines as bytes.
    fn write(&self, lines: &[Line]) -> Vec<u8> {
        let mut out = Vec::new();
        for (at, line) in lines {
            if self.timestamps {
                let stamp = at.rfc3339();
                let seconds = stamp.trim_end_matches('Z');
                let nanos = at.millis().rem_euclid(1000) * 1_000_000;
                out.extend_from_slice(format!("{seconds}.{nanos:09}Z ").as_bytes());
            }
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
        out
    }
}

/// Serves a log.
///
/// # Errors
/// 404 when the pod does not exist, 400 when its container is not specified, is not running yet or has no earlier run.
pub fn serve(cluster: &Arc<SimCluster>, asked: &ApiRequest, target: &ResourcePath) -> ApiResult {
    let key = ObjectKey::new(target.namespace.as_str(), target.name.as_str());
    let (query, lines) = {
        let core = cluster.core();
        let pod = target.object(&core, spec(Resource::Pods))?;
        let query = LogQuery::read(asked, &pod, core.world.now())?;
        if text(&pod, "/spec/nodeName").is_empty() {
            // A pod without a node has an empty log, which is no error.
            return Ok(respond(200, "text/plain", Bytes::new()));
        }
        let lines = core.world.log(&key, Some(&query.container), query.previous);
        match lines {
            Some(lines) => (query, lines),
            None => return Err(absent(&pod, &query)),
        }
    };
    let mut kept: VecDeque<Line> = lines.iter().cloned().collect();
    if let Some(from) = query.from {
        kept.retain(|(at, _)| *at >= from);
    }
    if let Some(tail) = query.tail {
        kept.drain(..kept.len().saturating_sub(tail));
    }
    let kept: Vec<Line> = kept.into();
    let mut first = query.write(&kept);
    if let Some(limit) = query.bytes {
        first.truncate(limit);
    }
    if !query.follow || query.previous {
        return Ok(respond(200, "text/plain", first));
    }
    let follower = LogFollower {
        cluster: cluster.clone(),
        key,
        last: mark(&lines),
        left: query.bytes.map(|limit| limit - first.len()),
        query,
    };
    let head = futures::stream::iter((!first.is_empty()).then(|| Bytes::from(first)));
    let tail = futures::stream::unfold(follower, |mut follower| async move {
        follower.next().await.map(|chunk| (chunk, follower))
    });
    let frames = head
        .chain(tail)
        .map(|chunk| Ok::<_, BoxError>(Frame::data(chunk)));
    let mut response = respond(200, "text/plain", Bytes::new());
    *response.body_mut() = BodyExt::boxed_unsync(StreamBody::new(frames));
    Ok(response)
}

/// Why there is no log, with the kubelet's message.
fn absent(pod: &Value, query: &LogQuery) -> ApiStatus {
    let container = quoted(&query.container);
    let name = quoted(text(pod, "/metadata/name"));
    if query.previous {
        return ApiStatus::bad_request(format!(
            "previous terminated container {container} in pod {name} not found"
        ));
    }
    let statuses = list(pod, "/status/containerStatuses");
    let waiting = statuses
        .iter()
        .find(|s| text(s, "/name") == query.container)
        .map_or("", |s| text(s, "/state/waiting/reason"));
    let reason = if waiting.is_empty() {
        "ContainerCreating"
    } else {
        waiting
    };
    ApiStatus::bad_request(format!(
        "container {container} in pod {name} is waiting to start: {reason}"
    ))
}

/// The time of the last line, and how many lines have it.
fn mark(lines: &[Line]) -> Option<(Moment, usize)> {
    let at = lines.last()?.0;
    Some((at, lines.iter().rev().take_while(|(a, _)| *a == at).count()))
}

struct LogFollower {
    cluster: Arc<SimCluster>,
    key: ObjectKey,
    query: LogQuery,
    last: Option<(Moment, usize)>,
    left: Option<usize>,
}

impl LogFollower {
    /// The next lines; `None` when the container or the server has ended.
    async fn next(&mut self) -> Option<Bytes> {
        let mut beats = self.cluster.beats();
        let mut closing = self.cluster.closing();
        loop {
            beats.borrow_and_update();
            if *closing.borrow_and_update() || self.left == Some(0) {
                return None;
            }
            let (lines, pod) = {
                let core = self.cluster.core();
                let pod = core
                    .store
                    .get(Resource::Pods, &self.key.namespace, &self.key.name);
                (
                    core.world
                        .log(&self.key, Some(&self.query.container), false)?,
                    pod,
                )
            };
            let fresh: Vec<Line> = match self.last {
                None => lines.clone(),
                Some((at, count)) => {
                    let same = lines.iter().filter(|(a, _)| *a == at).skip(count);
                    same.chain(lines.iter().filter(|(a, _)| *a > at))
                        .cloned()
                        .collect()
                }
            };
            if !fresh.is_empty() {
                self.last = mark(&lines);
                let mut bytes = self.query.write(&fresh);
                if let Some(left) = &mut self.left {
                    bytes.truncate(*left);
                    *left -= bytes.len();
                }
                return Some(bytes.into());
            }
            let running = pod
                .is_some_and(|pod| !matches!(text(&pod, "/status/phase"), "Succeeded" | "Failed"));
            if !running {
                return None;
            }
            tokio::select! {
                _ = beats.changed() => {}
                _ = closing.changed() => {}
            }
        }
    }
}
