//! The write gates. The writing client may read, send access reviews, and send the calls of mutations. The client of a Lease may
//! read and write that Lease. Any other request is refused.

use http::Method;

use cluster::mutations::writes;
use source::gate::is_read;

/// Path of SelfSubjectReview, which changes nothing.
pub const WHO: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// True when the writing client may send a request with this method and path.
pub fn is_allowed(method: &Method, path: &str) -> bool {
    if is_read(method, path, &[]) || *method == Method::POST && path == WHO {
        return true;
    }
    let verb = match method.as_str() {
        "PATCH" => "patch",
        "POST" => "create",
        _ => return false,
    };
    // Paths that a GET may not have are no write paths either: escapes, dots, empty segments.
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_' | b'.' | b':');
    if !path.starts_with('/') || !path.bytes().all(plain) {
        return false;
    }
    let segments: Vec<&str> = path[1..].split('/').collect();
    if segments.iter().any(|part| matches!(*part, "" | "." | "..")) {
        return false;
    }
    let (group, rest) = match segments.as_slice() {
        ["api", "v1", rest @ ..] => ("", rest),
        ["apis", group, _version, rest @ ..] => (*group, rest),
        _ => return false,
    };
    let rest = match rest {
        ["namespaces", _namespace, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    match (verb, rest) {
        ("patch", [plural, _name]) => writes(group, plural, "", verb),
        ("create", [plural]) => writes(group, plural, "", verb),
        ("create", [plural, _name, subresource]) => writes(group, plural, subresource, verb),
        _ => false,
    }
}

/// True when the client of a Lease may send the request: read the Lease at the API path `own`, replace it, or create one at `all`, the
/// path of the Leases in its namespace.
pub fn is_of_lease(method: &Method, path: &str, all: &str, own: &str) -> bool {
    match method.as_str() {
        "GET" | "PUT" => path == own,
        "POST" => path == all,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(method: &str, path: &str) -> bool {
        is_allowed(&method.parse().expect("a method"), path)
    }

    #[test]
    fn what_mutations_send_passes() {
        for (method, path) in [
            ("PATCH", "/api/v1/nodes/a"),
            ("POST", "/api/v1/namespaces/nlp/pods/p/eviction"),
            ("POST", "/api/v1/namespaces/nlp/events"),
            ("PATCH", "/apis/batch/v1/namespaces/nlp/jobs/j"),
            ("PATCH", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/q"),
            (
                "POST",
                "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands",
            ),
            ("GET", "/apis/batch/v1/namespaces/nlp/jobs/j"),
            ("POST", WHO),
            (
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            ),
        ] {
            assert!(allowed(method, path), "{method} {path}");
        }
    }

    #[test]
    fn the_client_of_a_lease_sends_nothing_else() {
        let all = "/apis/coordination.k8s.io/v1/namespaces/ops/leases";
        let own = format!("{all}/watch");
        for (method, path, passes) in [
            ("GET", own.as_str(), true),
            ("PUT", &own, true),
            ("POST", all, true),
            ("PUT", all, false),
            ("DELETE", &own, false),
            ("PATCH", &own, false),
            ("PUT", &format!("{all}/other"), false),
            ("GET", all, false),
            ("POST", "/api/v1/namespaces/ops/events", false),
            ("PATCH", "/apis/batch/v1/namespaces/nlp/jobs/j", false),
        ] {
            let method = method.parse().expect("a method");
            assert_eq!(
                is_of_lease(&method, path, all, &own),
                passes,
                "{method} {path}"
            );
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for (method, path) in [
            ("DELETE", "/api/v1/namespaces/nlp/pods/p"),
            ("DELETE", "/apis/batch/v1/namespaces/nlp/jobs/j"),
            ("PUT", "/api/v1/nodes/a"),
            ("PATCH", "/api/v1/nodes/a/status"),
            ("PATCH", "/api/v1/nodes"),
            ("PATCH", "/api/v1/namespaces/nlp/secrets/s"),
            ("PATCH", "/apis/batch/v1/namespaces/nlp/jobs/j/status"),
            ("PATCH", "/apis/apps/v1/namespaces/nlp/daemonsets/d"),
            ("POST", "/api/v1/namespaces/nlp/pods"),
            ("POST", "/api/v1/namespaces/nlp/pods/p/exec"),
            ("POST", "/api/v1/namespaces/nlp/pods/p/binding"),
            ("POST", "/api/v1/namespaces"),
            ("PATCH", "/api/v1/namespaces/nlp"),
            ("PATCH", "/apis/batch/v1/namespaces/nlp/jobs/j%2f..%2fx"),
            ("PATCH", "/apis/batch/v1/namespaces/nlp/jobs/../j"),
            ("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/r"),
            ("GET", "/api/v1/namespaces/nlp/pods/p/exec"),
            ("POST", "/apis/apps/v1/namespaces/nlp/deployments"),
        ] {
            assert!(!allowed(method, path), "{method} {path}");
        }
    }
}
