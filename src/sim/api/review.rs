//! Self reviews: who am I, may I do this, what may I do.

use std::sync::Arc;

use serde_json::{Value, json};

use super::request::ResourcePath;
use super::status::ApiStatus;
use super::{ApiRequest, ApiResult, validate};
use crate::cluster::SimCluster;
use crate::json::text;
use crate::users::{AccessRequest, PolicyRule};

/// Kinds of reviews by their group and plural.
pub const REVIEWS: &[(&str, &str, &str, &str)] = &[
    (
        "authentication.k8s.io",
        "selfsubjectreviews",
        "selfsubjectreview",
        "SelfSubjectReview",
    ),
    (
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        "selfsubjectaccessreview",
        "SelfSubjectAccessReview",
    ),
    (
        "authorization.k8s.io",
        "selfsubjectrulesreviews",
        "selfsubjectrulesreview",
        "SelfSubjectRulesReview",
    ),
];

/// Serves the review groups; `None` for every other group.
pub fn serve(
    cluster: &Arc<SimCluster>,
    asked: &ApiRequest,
    target: &ResourcePath,
) -> Option<ApiResult> {
    if !matches!(
        target.group.as_str(),
        "authentication.k8s.io" | "authorization.k8s.io"
    ) {
        return None;
    }
    let known = REVIEWS
        .iter()
        .find(|(group, plural, ..)| *group == target.group && *plural == target.plural);
    let Some((_, _, _, kind)) = known.filter(|_| target.version == "v1") else {
        return Some(Err(ApiStatus::no_resource()));
    };
    if asked.method != http::Method::POST || !target.name.is_empty() {
        return Some(Err(ApiStatus::method_not_allowed()));
    }
    Some(review(cluster, asked, target, kind))
}

fn review(
    cluster: &Arc<SimCluster>,
    asked: &ApiRequest,
    target: &ResourcePath,
    kind: &str,
) -> ApiResult {
    let manner = asked.manner()?;
    let body = validate::body(asked, kind)?;
    if !matches!(
        text(&body, "/kind"),
        "" | "SelfSubjectReview" | "SelfSubjectAccessReview" | "SelfSubjectRulesReview"
    ) {
        return Err(ApiStatus::bad_request(format!("not a {kind}")));
    }
    let spec = body.get("spec").cloned().unwrap_or_else(|| json!({}));
    let mut answer = json!({
        "kind": kind,
        "apiVersion": format!("{}/v1", target.group),
        "metadata": {},
    });
    match kind {
        "SelfSubjectReview" => {
            let mut user = json!({"username": asked.who.name, "groups": asked.who.groups});
            if !asked.who.uid.is_empty() {
                user["uid"] = asked.who.uid.as_str().into();
            }
            answer["metadata"]["creationTimestamp"] = cluster.now().rfc3339().into();
            answer["status"] = json!({"userInfo": user});
        }
        "SelfSubjectAccessReview" => {
            answer["status"] = may(cluster, asked, &spec)?;
            answer["spec"] = spec;
        }
        _ => {
            let namespace = text(&spec, "/namespace");
            if namespace.is_empty() {
                return Err(ApiStatus::bad_request("no namespace on request"));
            }
            let rules = cluster.users().rules(&asked.who, namespace);
            answer["spec"] = json!({});
            answer["status"] = rules_json(&rules);
        }
    }
    manner.document(201, &answer)
}

fn may(cluster: &SimCluster, asked: &ApiRequest, spec: &Value) -> Result<Value, ApiStatus> {
    let (resource, path) = (
        spec.get("resourceAttributes"),
        spec.get("nonResourceAttributes"),
    );
    let ask = match (resource, path) {
        (Some(attributes), None) => AccessRequest::Resource {
            verb: text(attributes, "/verb"),
            group: text(attributes, "/group"),
            plural: text(attributes, "/resource"),
            subresource: text(attributes, "/subresource"),
            namespace: text(attributes, "/namespace"),
            name: text(attributes, "/name"),
        },
        (None, Some(attributes)) => AccessRequest::Path {
            verb: text(attributes, "/verb"),
            path: text(attributes, "/path"),
        },
        _ => {
            let group = "authorization.k8s.io";
            let what = "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
            return Err(ApiStatus::review(group, "spec.resourceAttributes", what));
        }
    };
    let users = cluster.users();
    let mut status = json!({"allowed": users.may(&asked.who, &ask)});
    if let Some(binding) = users.binding(&asked.who, &ask) {
        status["reason"] = format!("RBAC: allowed by {binding}").into();
    }
    Ok(status)
}

fn rules_json(rules: &[PolicyRule]) -> Value {
    let (paths, resources): (Vec<&PolicyRule>, Vec<&PolicyRule>) =
        rules.iter().partition(|rule| !rule.paths.is_empty());
    json!({
        "incomplete": false,
        "resourceRules": resources.iter().map(|rule| json!({
            "verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources,
        })).collect::<Vec<_>>(),
        "nonResourceRules": paths.iter().map(|rule| json!({
            "verbs": rule.verbs, "nonResourceURLs": rule.paths,
        })).collect::<Vec<_>>(),
    })
}
