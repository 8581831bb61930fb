//! Sends the recorded requests to a simulated cluster, in the recorded order, with what happened between them.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::future::join_all;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use sim::Service;

use super::normal::{Filling, Normal, TIME};
use super::recorded_world;
use super::recording::{RecordedRequest, RecordedResponse, Recording, part, read};

/// The headers that a client acts on, which are all that is recorded.
const HEADERS: [&str; 6] = [
    "location",
    "retry-after",
    "www-authenticate",
    "warning",
    "allow",
    "content-encoding",
];

/// The answers to a group of recorded requests, normalised as the recordings are.
pub async fn replay(group: &str, recordings: &[Recording]) -> Vec<RecordedResponse> {
    let replay = Replay {
        service: Service::new(recorded_world::cluster()),
        normal: Normal::new(),
    };
    if group == "watch" {
        return replay.watches(recordings).await;
    }
    let mut answers = Vec::new();
    let mut token = String::new();
    for recording in recordings {
        replay.before(group, &recording.name).await;
        let (answer, next) = replay.ask(recording, &token).await;
        token = next.unwrap_or(token);
        answers.push(answer);
    }
    answers
}

struct Replay {
    service: Service,
    normal: Normal,
}

impl Replay {
    /// What the recorder did before a request.
    async fn before(&self, group: &str, name: &str) {
        match (group, name) {
            ("pages", "expired-continue") => {
                let label = json!({"metadata": {"labels": {"step": "one"}}});
                self.write("PATCH", "/api/v1/namespaces/recorded", label)
                    .await;
                self.service.cluster().core().store.forget();
            }
            // The node controller followed the cordon.
            ("writes", "uncordon") => {
                let taints = json!([
                    {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
                    {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": TIME},
                ]);
                self.write(
                    "PATCH",
                    "/api/v1/nodes/a100-1",
                    json!({"spec": {"taints": taints}}),
                )
                .await;
            }
            ("proxy", "no-address") => {
                self.write(
                    "POST",
                    "/api/v1/namespaces/recorded/pods",
                    recorded_world::pod("pending-two"),
                )
                .await;
            }
            _ => {}
        }
    }

    /// A write of the administrator's between the recorded requests.
    async fn write(&self, method: &str, path: &str, body: Value) {
        let asked = RecordedRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            user: "live-admin".to_owned(),
            headers: BTreeMap::from([
                ("accept".to_owned(), "application/json".to_owned()),
                (
                    "content-type".to_owned(),
                    match method {
                        "PATCH" => "application/merge-patch+json".to_owned(),
                        _ => "application/json".to_owned(),
                    },
                ),
            ]),
            body: Some(body),
        };
        let (status, ..) = self.send(&asked, path).await;
        assert!((200..300).contains(&status), "{method} {path}: {status}");
    }

    /// All watches; those that wait for nothing run at the same time.
    async fn watches(&self, recordings: &[Recording]) -> Vec<RecordedResponse> {
        let changing =
            |r: &&Recording| matches!(r.name.as_str(), "changes" | "selector-enters-leaves");
        let still = recordings.iter().filter(|r| !changing(r));
        let mut answers: BTreeMap<&str, RecordedResponse> = join_all(
            still.map(async |recording| (recording.name.as_str(), self.ask(recording, "").await.0)),
        )
        .await
        .into_iter()
        .collect();
        for recording in recordings.iter().filter(changing) {
            let (answer, ()) = futures::join!(self.ask(recording, ""), self.life(&recording.name));
            answers.insert(&recording.name, answer.0);
        }
        recordings
            .iter()
            .map(|recording| {
                answers
                    .remove(recording.name.as_str())
                    .expect("each was asked")
            })
            .collect()
    }

    /// What the recorder did while a watch ran.
    async fn life(&self, name: &str) {
        // The watch comes first: the clock is paused, so time passes when the watch waits for events.
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let maps = "/api/v1/namespaces/recorded/configmaps";
        let (own, steps): (&str, &[&str]) = match name {
            "changes" => ("watched", &["two"]),
            _ => ("leaving", &["two", "three"]),
        };
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": own}});
        if name == "changes" {
            map["data"] = json!({"a": "1"});
        }
        self.write("POST", maps, map).await;
        for step in steps {
            let label = json!({"metadata": {"labels": {"step": step}}});
            self.write("PATCH", &format!("{maps}/{own}"), label).await;
        }
        self.write("DELETE", &format!("{maps}/{own}"), json!({}))
            .await;
    }

    /// The answer to a recorded request, and the token of the list's next page when it has one.
    async fn ask(&self, recording: &Recording, token: &str) -> (RecordedResponse, Option<String>) {
        let asked = &recording.request;
        let revision = self.service.cluster().core().store.revision();
        let path = asked
            .path
            .replace("<continue>", token)
            .replace("<rv>", &revision.to_string())
            .replace("timeoutSeconds=4", "timeoutSeconds=1");
        let path = Filling::new().text(&path);
        let (status, headers, body) = self.send(asked, &path).await;
        let content_type = headers.get("content-type").cloned().unwrap_or_default();
        let watching = status == 200 && path.contains("watch=1");
        let mut body = String::from_utf8(body).expect("a text");
        if let Some(count) = recording.answer.first_lines {
            body = body.split_inclusive('\n').take(count).collect();
        }
        let mut body: Value = if watching {
            let events = serde_json::Deserializer::from_str(&body).into_iter();
            events
                .map(|event: Result<Value, _>| event.expect("an event"))
                .collect()
        } else if content_type.contains("json") {
            serde_json::from_str(&body).unwrap_or_else(|_| body.into())
        } else {
            read(body.into())
        };
        let next = body.pointer("/metadata/continue").and_then(Value::as_str);
        let next = next.filter(|token| !token.is_empty()).map(str::to_owned);
        if let Some(only) = &recording.answer.only {
            body = part(only, body);
        }
        let kept = headers
            .into_iter()
            .filter(|(name, _)| HEADERS.contains(&name.as_str()));
        let answer = RecordedResponse {
            status,
            content_type,
            headers: kept
                .map(|(name, value)| (name, self.normal.text(&value)))
                .collect(),
            only: recording.answer.only.clone(),
            first_lines: recording.answer.first_lines,
            body: self.normal.body(body),
        };
        (answer, next)
    }

    /// Sends a request on its way: status, headers, body.
    async fn send(
        &self,
        asked: &RecordedRequest,
        path: &str,
    ) -> (u16, BTreeMap<String, String>, Vec<u8>) {
        let mut request = Request::builder().method(asked.method.as_str()).uri(path);
        for (name, value) in &asked.headers {
            request = request.header(name, value);
        }
        let token = match asked.user.as_str() {
            "none" => None,
            "live-admin" => Some(recorded_world::TOKENS[0]),
            "live-viewer" => Some(recorded_world::TOKENS[1]),
            "live-team" => Some(recorded_world::TOKENS[2]),
            "live-nobody" => Some(recorded_world::TOKENS[3]),
            "wrong" => Some("wrong"),
            other => panic!("no such user: {other}"),
        };
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let body = match &asked.body {
            None => Bytes::new(),
            Some(Value::String(text)) => text.clone().into(),
            Some(document) => document.to_string().into(),
        };
        let request = request.body(Full::new(body)).expect("a request");
        let response = self.service.answer(request).await;
        let status = response.status().as_u16();
        let headers = response
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().expect("a text").to_owned()))
            .collect();
        let body = response.into_body().collect().await.expect("a whole body");
        (status, headers, body.to_bytes().to_vec())
    }
}
