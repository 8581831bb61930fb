//! The simulated cluster's API, driven with the requests that kubectl and kube-rs send.

mod applying;
mod evicting;
mod faulting;
mod hostile;
mod kinds;
mod reading;
mod recorded;
mod rights;
mod serving;
mod tiny_world;
mod watching;
mod writing;

use std::sync::Arc;

use http::Request;
use http_body_util::{BodyExt, Full};
use model::base::Moment;
use serde_json::Value;
use sim::api::Body;
use sim::{Service, User, embed};

/// Waits for `wait`; panics with `what` was waited for when nothing is left to happen: the clocks of these tests are paused.
async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    match tokio::time::timeout(std::time::Duration::from_secs(60), wait).await {
        Ok(found) => found,
        Err(_) => panic!("waited for {what}"),
    }
}

/// What a client is told.
struct TestResponse {
    code: u16,
    headers: http::HeaderMap,
    text: String,
}

impl TestResponse {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e} in {}", self.text))
    }

    fn message(&self) -> String {
        self.json()["message"].as_str().unwrap_or("").to_owned()
    }
}

/// A tiny cluster whose clock stands still until it is moved.
fn cluster() -> Service {
    let clock = Arc::new(|| Moment::from_seconds(0));
    embed(Box::new(tiny_world::Tiny::new()), clock, 0.0, 7).expect("a cluster")
}

/// Moves the virtual clock by seconds.
fn pass(service: &Service, seconds: u64) {
    let now = service.cluster().now();
    service
        .cluster()
        .advance(now.plus(std::time::Duration::from_secs(seconds)));
}

async fn open(service: &Service, request: Request<Full<bytes::Bytes>>) -> http::Response<Body> {
    service.answer(request).await
}

async fn send(
    service: &Service,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<bytes::Bytes>,
) -> TestResponse {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body.into())).expect("a request");
    let (parts, body) = open(service, request).await.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    TestResponse {
        code: parts.status.as_u16(),
        headers: parts.headers,
        text: String::from_utf8_lossy(&bytes).into_owned(),
    }
}

async fn get(service: &Service, path: &str) -> TestResponse {
    send(service, "GET", path, &[], "").await
}

async fn post(service: &Service, path: &str, body: &Value) -> TestResponse {
    send(
        service,
        "POST",
        path,
        &[("content-type", "application/json")],
        body.to_string(),
    )
    .await
}

async fn patch(service: &Service, path: &str, kind: &str, body: &Value) -> TestResponse {
    let kind = format!("application/{kind}+json");
    send(
        service,
        "PATCH",
        path,
        &[("content-type", &kind)],
        body.to_string(),
    )
    .await
}

async fn table(service: &Service, path: &str) -> Value {
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    send(service, "GET", path, &[("accept", accept)], "")
        .await
        .json()
}

/// The names of a list's items.
fn names(list: &Value) -> Vec<String> {
    list["items"]
        .as_array()
        .map(|items| {
            items
                .iter()
                .filter_map(|i| i["metadata"]["name"].as_str())
                .map(str::to_owned)
                .collect()
        })
        .unwrap_or_default()
}

/// The service as this user.
fn as_user(service: &Service, user: User) -> Service {
    service.clone().signed(user)
}
