//! Requests to the API server: one request and its response, one object, the cluster's identity, access reviews.

use futures::{StreamExt, stream};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use cluster::mutations::{Right, path, text};
use model::plan::Object;
use source::api_error::ApiError;
use source::api_stats::retry_after;

use super::machine::ObjectRead;
use super::response::ServerResponse;

/// Access reviews in flight at once.
const AT_ONCE: usize = 8;

/// Maximum size of a response body, bytes; a larger one is discarded and read as null.
const LARGEST: usize = 64 << 20;

/// Sends one request; a null `body` sends no body. The code is that of the response, `None` when none arrived, and 400 when
/// the request could not be built and was not sent.
pub(super) async fn ask(
    client: &Client,
    method: Method,
    path: &str,
    content: &str,
    body: &Value,
) -> ServerResponse {
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, content)
        .body(Body::from(body));
    let request = match request {
        Ok(request) => request,
        Err(error) => return ServerResponse::of(400, json!({"message": error.to_string()})),
    };
    match client.send(request).await {
        Ok(response) => {
            let code = response.status().as_u16();
            let wait = retry_after(response.headers());
            let body = Limited::new(response.into_body(), LARGEST).collect().await;
            let body = body
                .ok()
                .and_then(|body| serde_json::from_slice(&body.to_bytes()).ok());
            // With a status code, the call was carried out or refused, even if the body is cut off or is not JSON.
            let mut answer = ServerResponse::of(code, body.unwrap_or(Value::Null));
            answer.retry_after = wait;
            answer
        }
        Err(error) => ServerResponse::none(ApiError::of_transport(&error).message),
    }
}

pub(super) async fn get(client: &Client, path: &str) -> ServerResponse {
    ask(client, Method::GET, path, "application/json", &Value::Null).await
}

/// Reads one object: found, absent (404), or unknown with the response.
pub(super) async fn read(client: &Client, object: &Object) -> ObjectRead {
    let Some(path) = path(object, false) else {
        return ObjectRead::Not(unwritable(object));
    };
    let answer = get(client, &path).await;
    match answer.code {
        Some(200) if answer.body.is_object() => ObjectRead::There(Box::new(answer.body)),
        // The body was cut off, or a proxy sent it: without a code, the caller reads again.
        Some(200) => ObjectRead::Not(ServerResponse::none("the answer is not an object")),
        Some(404) => ObjectRead::Gone,
        _ => ObjectRead::Not(answer),
    }
}

/// A local 400, without a request, for an object whose name or version is not valid in a path.
pub(super) fn unwritable(object: &Object) -> ServerResponse {
    let message = format!("{object}: its name or version is not valid in a path");
    ServerResponse::of(400, json!({ "message": message }))
}

/// Identity of the cluster: the UID of the namespace `kube-system`. It is read with a list, which all of our roles permit.
///
/// # Errors
/// The list failed, or it has no namespace `kube-system` with a UID.
pub async fn identity(client: &Client) -> Result<String, String> {
    let path = "/api/v1/namespaces?fieldSelector=metadata.name%3Dkube-system";
    let answer = get(client, path).await;
    let items = answer.body.get("items").and_then(Value::as_array);
    let mut all = items.into_iter().flatten();
    let found = all.find(|item| text(item, "/metadata/name") == "kube-system");
    match found.map(|item| text(item, "/metadata/uid")) {
        Some(uid) if !uid.is_empty() => Ok(uid.to_owned()),
        _ if answer.code != Some(200) => Err(answer.words()),
        _ if items.is_none() => Err("its answer is not a list of namespaces".to_owned()),
        _ => Err("it has no namespace kube-system".to_owned()),
    }
}

/// Whether we have this right, by a SelfSubjectAccessReview; `None` when the API server returned no result.
pub async fn may(client: &Client, right: &Right) -> Option<bool> {
    let mut attributes = json!({
        "verb": right.verb,
        "group": right.group,
        "resource": right.resource,
    });
    if !right.subresource.is_empty() {
        attributes["subresource"] = right.subresource.into();
    }
    if !right.namespace.is_empty() {
        attributes["namespace"] = right.namespace.as_str().into();
    }
    let body = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = ask(client, Method::POST, path, "application/json", &body).await;
    answer.body.pointer("/status/allowed")?.as_bool()
}

/// The rights that the API server reports as denied; a right without a result is not among them.
pub async fn missing(client: &Client, rights: &[Right]) -> Vec<Right> {
    let ask = |right| async move { (may(client, right).await == Some(false)).then_some(right) };
    let asked: Vec<_> = rights.iter().map(ask).collect();
    let answers = stream::iter(asked).buffered(AT_ONCE);
    let lacking: Vec<Option<&Right>> = answers.collect().await;
    lacking.into_iter().flatten().cloned().collect()
}
