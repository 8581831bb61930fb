//! Error answers of the API server, as `metav1.Status`.

use serde_json::{Map, Value, json};

use crate::names::quoted;
use crate::resource::{Spec, qualified};
use crate::store::Expired;

/// A failure as a `metav1.Status`, with its HTTP code.
#[derive(Clone, PartialEq, Debug)]
pub struct ApiStatus {
    pub code: u16,
    reason: &'static str,
    message: String,
    details: Map<String, Value>,
    bare: bool,
    cursor: Option<String>,
}

/// One cause of a refusal: type, message, field.
pub type Cause = (&'static str, String, String);

impl ApiStatus {
    /// A failure with a code, a reason and a message.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Map::new(),
            bare: false,
            cursor: None,
        }
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                self.details.insert(key.into(), value.into());
            }
        }
        self
    }

    fn causes(mut self, causes: Vec<Cause>) -> Self {
        let causes = causes
            .into_iter()
            .map(|(kind, message, field)| {
                let mut cause = Map::new();
                for (key, value) in [("reason", kind), ("message", &*message), ("field", &*field)] {
                    if !value.is_empty() {
                        cause.insert(key.into(), value.into());
                    }
                }
                Value::Object(cause)
            })
            .collect();
        self.details.insert("causes".into(), Value::Array(causes));
        self
    }

    /// With empty details, as the real server answers before it knows the resource.
    fn bare(mut self) -> Self {
        self.bare = true;
        self
    }

    fn retry_after(mut self, seconds: u32) -> Self {
        if seconds > 0 {
            self.details
                .insert("retryAfterSeconds".into(), seconds.into());
        }
        self
    }

    /// Seconds to wait before a retry, when the refusal has them.
    pub fn retry_seconds(&self) -> Option<u64> {
        self.details
            .get("retryAfterSeconds")
            .and_then(Value::as_u64)
    }

    /// 404: there is no such object.
    pub fn not_found(spec: &Spec, name: &str) -> Self {
        let message = format!("{} {} not found", spec.qualified(), quoted(name));
        Self::new(404, "NotFound", message).about(spec.group, spec.plural, name)
    }

    /// 404: the group has no such resource or version.
    pub fn no_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(404, "NotFound", message).bare()
    }

    /// 409: an object of this name exists.
    pub fn already_exists(spec: &Spec, name: &str) -> Self {
        let message = format!("{} {} already exists", spec.qualified(), quoted(name));
        Self::new(409, "AlreadyExists", message).about(spec.group, spec.plural, name)
    }

    /// 409: the object differs from the client's expectation.
    pub fn conflict(spec: &Spec, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {}: {why}",
            spec.qualified(),
            quoted(name)
        );
        Self::new(409, "Conflict", message).about(spec.group, spec.plural, name)
    }

    /// 409: the object to delete is another one or has changed. The real server puts the kind in place of the resource here.
    pub fn precondition(spec: &Spec, name: &str, why: &str) -> Self {
        let kind = spec.qualified_kind();
        let message = format!(
            "Operation cannot be fulfilled on {kind} {}: {why}",
            quoted(name)
        );
        Self::new(409, "Conflict", message).about(spec.group, spec.kind, name)
    }

    /// 409: written with an old `resourceVersion`.
    pub fn modified(spec: &Spec, name: &str) -> Self {
        Self::conflict(
            spec,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 403 on a resource. An empty group and plural is a path.
    pub fn forbidden(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let what = qualified(group, plural);
        let message = match (what.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{what} is forbidden: {why}"),
            (false, false) => format!("{what} {} is forbidden: {why}", quoted(name)),
        };
        let refusal = Self::new(403, "Forbidden", message).about(group, plural, name);
        if what.is_empty() {
            refusal.bare()
        } else {
            refusal
        }
    }

    /// 401: the request has no valid credentials.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 400: the request is not valid.
    pub fn bad_request(why: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", why)
    }

    /// 410: a revision that is no longer kept.
    pub fn expired(expired: Expired) -> Self {
        let message = format!(
            "too old resource version: {} ({})",
            expired.asked, expired.oldest
        );
        Self::new(410, "Expired", message)
    }

    /// 410 for a list at a revision that is no longer kept.
    pub fn list_expired() -> Self {
        let message = "The resourceVersion for the provided list is too old.";
        Self::new(410, "Expired", message)
    }

    /// 410 for an expired continue token, with a token to continue inconsistently.
    pub fn continue_expired(cursor: String) -> Self {
        let mut refusal = Self::new(
            410,
            "Expired",
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        refusal.cursor = Some(cursor);
        refusal
    }

    /// 504: a revision that does not exist yet.
    pub fn too_large_version(asked: u64, current: u64) -> Self {
        let why = format!("Too large resource version: {asked}, current: {current}");
        Self::new(504, "Timeout", format!("Timeout: {why}"))
            .causes(vec![(
                "ResourceVersionTooLarge",
                "Too large resource version".into(),
                String::new(),
            )])
            .retry_after(1)
    }

    /// 422 on a kind: each cause is a type (`FieldValueInvalid`, ...), a message and a field.
    pub fn invalid(spec: &Spec, name: &str, causes: Vec<Cause>) -> Self {
        let shown: Vec<String> = causes
            .iter()
            .map(|(_, message, field)| format!("{field}: {message}"))
            .collect();
        let list = match shown.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!(
            "{} {} is invalid: {list}",
            spec.qualified_kind(),
            quoted(name)
        );
        Self::new(422, "Invalid", message)
            .about(spec.group, spec.kind, name)
            .causes(causes)
    }

    /// 422 on the options of a list or watch.
    pub fn list_options(field: &str, what: &str) -> Self {
        Self::options("ListOptions", field, what)
    }

    /// 422 on the options of a request, of this kind.
    pub fn options(options: &str, field: &str, what: &str) -> Self {
        let message = format!("{options}.meta.k8s.io \"\" is invalid: {field}: {what}");
        let kind = match what.split(' ').next() {
            Some("Forbidden:") => "FieldValueForbidden",
            Some("Required") => "FieldValueRequired",
            _ => "FieldValueNotSupported",
        };
        Self::new(422, "Invalid", message)
            .about("meta.k8s.io", options, "")
            .causes(vec![(kind, what.to_owned(), field.to_owned())])
    }

    /// 422 on an apply that names no field manager.
    pub fn no_field_manager() -> Self {
        let what = "Required value: is required for apply patch";
        Self::options("PatchOptions", "fieldManager", what)
    }

    /// 409: other managers (first of each pair) applied these fields with other values.
    pub fn apply_conflict(conflicts: &[(String, String)]) -> Self {
        let message = match conflicts {
            [(manager, path)] => {
                format!("1 conflict: conflict with {}: {path}", quoted(manager))
            }
            many => {
                let mut lines = Vec::new();
                let mut last = None;
                for (manager, path) in many {
                    if last != Some(manager) {
                        lines.push(format!("conflicts with {}:", quoted(manager)));
                    }
                    last = Some(manager);
                    lines.push(format!("- {path}"));
                }
                format!("{} conflicts: {}", many.len(), lines.join("\n"))
            }
        };
        let causes = conflicts.iter().map(|(manager, path)| {
            let what = format!("conflict with {}", quoted(manager));
            ("FieldManagerConflict", what, path.clone())
        });
        Self::new(409, "Conflict", format!("Apply failed with {message}")).causes(causes.collect())
    }

    /// 422 on a review without attributes or with both kinds.
    pub fn review(group: &str, field: &str, what: &str) -> Self {
        let message = format!(".{group} \"\" is invalid: {field}: {what}");
        Self::new(422, "Invalid", message)
            .about(group, "", "")
            .causes(vec![(
                "FieldValueInvalid",
                what.to_owned(),
                field.to_owned(),
            )])
    }

    /// 422: a JSON patch that does not apply.
    pub fn patch_failed() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(422, "Invalid", message).bare()
    }

    /// 405: the resource has no such verb.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).bare()
    }

    /// 406: no format that the client accepts.
    pub fn not_acceptable(accepted: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {accepted}");
        Self::new(406, "NotAcceptable", message).bare()
    }

    /// 406: the metadata of one object was requested for a list, or that of a list for one object.
    pub fn not_of_that_shape(why: String) -> Self {
        Self::new(406, "NotAcceptable", why)
    }

    /// 415: the format of the body is not known.
    pub fn unsupported_media(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        );
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// 415 for an unknown patch type.
    pub fn unsupported_patch() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").bare()
    }

    /// 413: the body is above the limit of bytes.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// 429 of the server itself, which clients wait out.
    pub fn too_many(seconds: u32) -> Self {
        let message = "Too many requests, please try again later.";
        Self::new(429, "TooManyRequests", message).retry_after(seconds)
    }

    /// 429 of an eviction that would violate a disruption budget.
    pub fn budget(why: String, seconds: u32) -> Self {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        Self::new(429, "TooManyRequests", message)
            .causes(vec![("DisruptionBudget", why, String::new())])
            .retry_after(seconds)
    }

    /// 500: the server itself failed.
    pub fn internal(why: &str) -> Self {
        Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {why}"),
        )
        .causes(vec![("", why.to_owned(), String::new())])
    }

    /// 503: the server cannot answer now.
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", why)
    }

    pub fn body(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(cursor) = &self.cursor {
            metadata.insert("continue".into(), cursor.clone().into());
        }
        let mut body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            body["reason"] = self.reason.into();
        }
        if self.bare || !self.details.is_empty() {
            body["details"] = Value::Object(self.details.clone());
        }
        body
    }
}

/// The Status of a deletion that is complete.
pub fn success(spec: &Spec, name: &str, uid: &str) -> Value {
    let mut details = Map::new();
    for (key, value) in [
        ("name", name),
        ("group", spec.group),
        ("kind", spec.plural),
        ("uid", uid),
    ] {
        if !value.is_empty() {
            details.insert(key.into(), value.into());
        }
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Resource;
    use crate::resource::spec;

    #[test]
    fn refusals_read_as_the_real_servers_do() {
        let missing = ApiStatus::not_found(spec(Resource::Deployments), "web").body();
        assert_eq!(
            missing,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "deployments.apps \"web\" not found", "reason": "NotFound",
                "details": {"name": "web", "group": "apps", "kind": "deployments"}, "code": 404
            })
        );
        let nodes = ApiStatus::forbidden("", "nodes", "", "User \"x\" cannot list").body();
        assert_eq!(
            nodes["message"],
            "nodes is forbidden: User \"x\" cannot list"
        );
        assert_eq!(nodes["details"], json!({"kind": "nodes"}));
        assert!(ApiStatus::unauthorized().body().get("details").is_none());
    }
}
