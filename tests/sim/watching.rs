//! Watches: what is told, in which order, to whom, and when they end.

use std::time::Duration;

use futures::StreamExt;
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use sim::Service;
use sim::api::Body;

use super::{cluster, get, open, pass, patch, send, within};

/// A watch that reads event by event.
struct Watcher {
    body: Body,
    left: Vec<u8>,
}

impl Watcher {
    async fn open(service: &Service, path: &str) -> Self {
        Self::with(service, path, "application/json").await
    }

    async fn with(service: &Service, path: &str, accept: &str) -> Self {
        let request = Request::get(path)
            .header("accept", accept)
            .body(Full::default())
            .expect("a request");
        let response = open(service, request).await;
        assert_eq!(response.status(), 200);
        Self {
            body: response.into_body(),
            left: Vec::new(),
        }
    }

    /// The next event; `None` when the watch has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(at) = self.left.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.left.drain(..=at).collect();
                return Some(serde_json::from_slice(&line).expect("an event"));
            }
            let frame = within("an event", self.body.frame()).await?;
            self.left
                .extend_from_slice(&frame.expect("a frame").into_data().expect("data"));
        }
    }

    async fn next_event(&mut self) -> (String, String) {
        let event = self.next().await.expect("an event");
        let name = event["object"]["metadata"]["name"]
            .as_str()
            .unwrap_or("")
            .to_owned();
        (event["type"].as_str().unwrap_or("").to_owned(), name)
    }

    /// True when nothing comes: the clock is paused, so this time passes when nothing is left to do.
    async fn quiet(&mut self) -> bool {
        self.left.is_empty()
            && tokio::time::timeout(Duration::from_secs(30), self.body.frame())
                .await
                .is_err()
    }
}

async fn label(service: &Service, pod: &str, value: Value) -> Value {
    let body = json!({"metadata": {"labels": {"x": value}}});
    patch(
        service,
        &format!("/api/v1/namespaces/nlp/pods/{pod}"),
        "merge-patch",
        &body,
    )
    .await
    .json()
}

async fn newest(service: &Service) -> String {
    let list = get(service, "/api/v1/pods").await.json();
    list["metadata"]["resourceVersion"]
        .as_str()
        .expect("a revision")
        .to_owned()
}

fn pair(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_each_change_once_from_any_revision() {
    let service = cluster();
    let from = newest(&service).await;
    let path = format!("/api/v1/namespaces/nlp/pods?watch=true&resourceVersion={from}");
    let mut live = Watcher::open(&service, &path).await;
    assert!(live.quiet().await);
    label(&service, "serve-0", json!("a")).await;
    let middle = label(&service, "serve-1", json!("b")).await;
    send(
        &service,
        "DELETE",
        "/api/v1/namespaces/nlp/pods/serve-2?gracePeriodSeconds=0",
        &[],
        "",
    )
    .await;
    // Another namespace's change is not this watcher's.
    send(
        &service,
        "DELETE",
        "/api/v1/namespaces/monitoring/pods/exporter-a?gracePeriodSeconds=0",
        &[],
        "",
    )
    .await;
    let all = [
        pair("MODIFIED", "serve-0"),
        pair("MODIFIED", "serve-1"),
        pair("DELETED", "serve-2"),
    ];
    for expected in &all {
        assert_eq!(&live.next_event().await, expected);
    }
    assert!(live.quiet().await);
    let mut late = Watcher::open(&service, &path).await;
    for expected in &all {
        assert_eq!(&late.next_event().await, expected);
    }
    let revision = middle["metadata"]["resourceVersion"]
        .as_str()
        .expect("a revision");
    let resumed = format!("/api/v1/namespaces/nlp/pods?watch=true&resourceVersion={revision}");
    assert_eq!(
        Watcher::open(&service, &resumed).await.next_event().await,
        all[2]
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_a_revision_begins_with_what_there_is() {
    let service = cluster();
    for query in ["watch=1", "watch=1&resourceVersion=0"] {
        let mut watcher = Watcher::open(&service, &format!("/api/v1/nodes?{query}")).await;
        for name in ["gpu-a", "gpu-b", "gpu-c"] {
            assert_eq!(watcher.next_event().await, pair("ADDED", name));
        }
        assert!(watcher.quiet().await);
    }
    let listing = "/api/v1/nodes?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watcher = Watcher::open(&service, listing).await;
    for name in ["gpu-a", "gpu-b", "gpu-c"] {
        assert_eq!(watcher.next_event().await, pair("ADDED", name));
    }
    let bookmark = watcher.next().await.expect("a bookmark");
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(
        bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    assert_eq!(
        get(&service, "/api/v1/nodes?watch=1&sendInitialEvents=true")
            .await
            .code,
        422
    );
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_the_selector_is_deleted_for_its_watcher() {
    let service = cluster();
    let from = newest(&service).await;
    let path = format!("/api/v1/pods?watch=1&labelSelector=x%3Da&resourceVersion={from}");
    let mut watcher = Watcher::open(&service, &path).await;
    label(&service, "serve-0", json!("a")).await;
    label(&service, "serve-1", json!("b")).await;
    let left = label(&service, "serve-0", json!("b")).await;
    assert_eq!(watcher.next_event().await, pair("ADDED", "serve-0"));
    let gone = watcher.next().await.expect("an event");
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(
        gone["object"]["metadata"]["resourceVersion"],
        left["metadata"]["resourceVersion"]
    );
    assert_eq!(gone["object"]["metadata"]["labels"]["x"], "a");
    let one = format!(
        "/api/v1/namespaces/nlp/pods?watch=1&fieldSelector=metadata.name%3Dserve-1&resourceVersion={from}"
    );
    let mut watcher = Watcher::open(&service, &one).await;
    assert_eq!(watcher.next_event().await, pair("MODIFIED", "serve-1"));
    assert!(watcher.quiet().await);
}

#[tokio::test(start_paused = true)]
async fn a_table_watch_sends_its_columns_once() {
    let service = cluster();
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let mut watcher = Watcher::with(&service, "/api/v1/nodes?watch=1", accept).await;
    let first = watcher.next().await.expect("an event");
    assert!(
        first["object"]["columnDefinitions"]
            .as_array()
            .is_some_and(|c| c.len() == 10)
    );
    assert_eq!(first["object"]["rows"][0]["cells"][0], "gpu-a");
    let second = watcher.next().await.expect("an event");
    assert_eq!(second["object"]["columnDefinitions"], Value::Null);
    assert_eq!(second["object"]["rows"][0]["cells"][0], "gpu-b");
}

#[tokio::test(start_paused = true)]
async fn a_revision_beyond_retention_is_an_error_event() {
    let service = cluster();
    let mut watcher = Watcher::open(&service, "/api/v1/pods?watch=1&resourceVersion=1").await;
    let event = watcher.next().await.expect("an event");
    assert_eq!(
        (
            &event["type"],
            &event["object"]["code"],
            &event["object"]["reason"]
        ),
        (&json!("ERROR"), &json!(410), &json!("Expired"))
    );
    assert!(watcher.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn fifty_watchers_of_different_speed_see_the_same() {
    let service = cluster();
    let from = newest(&service).await;
    let path = format!("/api/v1/pods?watch=1&resourceVersion={from}");
    let mut watchers = Vec::new();
    for _ in 0..50 {
        watchers.push(Watcher::open(&service, &path).await);
    }
    for round in 0..40 {
        label(
            &service,
            &format!("serve-{}", round % 3),
            json!(round.to_string()),
        )
        .await;
        // One in seven reads along; the others have not read a byte yet.
        for watcher in watchers.iter_mut().step_by(7) {
            let event = watcher.next().await.expect("an event");
            assert_eq!(
                event["object"]["metadata"]["labels"]["x"],
                round.to_string()
            );
        }
    }
    for (at, watcher) in watchers
        .iter_mut()
        .enumerate()
        .filter(|(at, _)| at % 7 != 0)
    {
        for round in 0..40 {
            let event = watcher.next().await.expect("an event");
            assert_eq!(
                event["object"]["metadata"]["labels"]["x"],
                round.to_string(),
                "watcher {at}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn watches_end_when_their_time_is_up_and_when_the_server_closes() {
    let service = cluster();
    let from = newest(&service).await;
    let mut short = Watcher::open(
        &service,
        &format!("/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion={from}"),
    )
    .await;
    assert!(short.next().await.is_none());
    let mut open = Watcher::open(
        &service,
        &format!("/api/v1/pods?watch=1&resourceVersion={from}"),
    )
    .await;
    service.cluster().close();
    assert!(open.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_in_time_and_carry_the_newest_revision() {
    let service = cluster();
    assert_eq!(service.cluster().bookmark_every(), Duration::from_secs(60));
    service
        .cluster()
        .set_bookmark_every(Duration::from_millis(40));
    let from = newest(&service).await;
    let path = format!("/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion={from}");
    let request = Request::get(&path)
        .body(Full::default())
        .expect("a request");
    let mut body = open(&service, request).await.into_body();
    // Another resource moves on; the bookmark spares this watcher a relist.
    pass(&service, 120);
    let now = newest(&service).await;
    assert_ne!(now, from);
    let frame = body
        .frame()
        .await
        .expect("open")
        .expect("a frame")
        .into_data()
        .expect("data");
    let event: Value = serde_json::from_slice(&frame).expect("an event");
    assert_eq!(
        (
            &event["type"],
            event["object"]["metadata"]["resourceVersion"].as_str()
        ),
        (&json!("BOOKMARK"), Some(now.as_str()))
    );
    assert_eq!(event["object"]["kind"], "Pod");
}

#[tokio::test(start_paused = true)]
async fn logs_are_followed_until_the_pod_ends() {
    let service = cluster();
    let path = "/api/v1/namespaces/nlp/pods/serve-0/log?follow=true&tailLines=1";
    let request = Request::get(path).body(Full::default()).expect("a request");
    let mut body = open(&service, request).await.into_body();
    let mut next = async || {
        let frame = within("a part of the log", body.frame()).await;
        frame.map(|f| f.expect("a frame").into_data().expect("data"))
    };
    assert_eq!(next().await.expect("a line"), "step 6\n");
    pass(&service, 20);
    assert_eq!(next().await.expect("lines"), "step 7\nstep 8\n");
    send(
        &service,
        "DELETE",
        "/api/v1/namespaces/nlp/pods/serve-0?gracePeriodSeconds=0",
        &[],
        "",
    )
    .await;
    assert!(next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn kube_rs_watches_lists_and_resumes() {
    use kube::runtime::watcher::{Config, Event, watcher};
    let service = cluster();
    let client = kube::Client::new(service.clone(), "default");
    let api: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::all(client);
    assert_eq!(
        api.list(&Default::default())
            .await
            .expect("a list")
            .items
            .len(),
        4
    );
    for config in [Config::default(), Config::default().streaming_lists()] {
        let mut stream = std::pin::pin!(watcher(api.clone(), config));
        let mut next = async || {
            let event = within("an event", stream.next()).await;
            event.expect("open").expect("no error")
        };
        assert!(matches!(next().await, Event::Init));
        for _ in 0..4 {
            assert!(matches!(next().await, Event::InitApply(_)));
        }
        assert!(matches!(next().await, Event::InitDone));
        let value = format!("r{}", service.cluster().core().store.revision());
        label(&service, "serve-1", json!(value)).await;
        match next().await {
            Event::Apply(pod) => assert_eq!(pod.metadata.name.as_deref(), Some("serve-1")),
            other => panic!("{other:?}"),
        }
    }
}
