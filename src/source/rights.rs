//! Self reviews of the API server: this client's user and rights.

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Uri};
use kube::Client;
use serde_json::{Value, json};

use super::fetch::failure_message;

/// Something that a role may allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Permission<'a> {
    pub verb: &'a str,
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural name, with a subresource behind a slash.
    pub resource: &'a str,
    /// Namespace; empty for all of them.
    pub namespace: &'a str,
    /// Name of the object; empty for all of them.
    pub name: &'a str,
}

/// True when this client may do this, by a self-subject access review.
///
/// # Errors
/// The server does not answer the review; with the fix.
pub async fn may(client: &Client, permission: Permission<'_>) -> Result<bool, String> {
    let (resource, subresource) = permission
        .resource
        .split_once('/')
        .unwrap_or((permission.resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "verb": permission.verb, "group": permission.group, "resource": resource, "subresource": subresource,
            "namespace": permission.namespace, "name": permission.name,
        }},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = ask(client, path, &review).await?;
    Ok(answer.pointer("/status/allowed") == Some(&Value::Bool(true)))
}

/// This client's user name and groups on the server.
///
/// # Errors
/// The server does not answer the review; with the fix.
pub async fn self_subject(client: &Client) -> Result<(String, Vec<String>), String> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = ask(client, path, &review).await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = answer.pointer("/status/userInfo/username").map(text);
    let groups = answer
        .pointer("/status/userInfo/groups")
        .and_then(Value::as_array);
    name.filter(|name| !name.is_empty())
        .map(|name| (name, groups.into_iter().flatten().map(text).collect()))
        .ok_or_else(|| "the answer names no user".to_owned())
}

async fn ask(client: &Client, path: &'static str, review: &Value) -> Result<Value, String> {
    let mut request = Request::new(review.to_string().into_bytes());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from_static(path);
    let kind = HeaderValue::from_static("application/json");
    request.headers_mut().insert(CONTENT_TYPE, kind);
    let text = client
        .request_text(request)
        .await
        .map_err(|error| failure_message(&error, "ask what we may do"))?;
    serde_json::from_str(&text).map_err(|error| format!("the answer is malformed: {error}"))
}
