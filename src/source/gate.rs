//! The read gate: the one rule for the requests of the reading client, and the client that is held to such a rule.
//!
//! A request that is not known to be a read is refused before it reaches a socket. A test of the method would not
//! do: `exec`, `attach` and `portforward` can be GETs, and a `proxy` GET reaches any server behind it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tower::filter::FilterLayer;
use tower::{BoxError, Layer, Service};

use super::api_stats::ApiStats;
use super::counting_layer::CountingLayer;

/// The POSTs that change nothing: self reviews of the client's user and rights.
const REVIEWS: &[&str] = &[
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
];

/// Paths outside the resources that say what the server is and serves.
const ROOTS: &[&str] = &["/version", "/api", "/apis", "/livez", "/readyz", "/healthz"];

/// Subresources that are only read. `pendingworkloads` is Kueue's order of pending workloads.
const TELLING: &[&str] = &["status", "scale", "log", "pendingworkloads"];

/// True when a request of this method and path only reads. `proxied` are the allowed paths to pods
/// and services through the API server's proxy, each matched exactly.
pub fn is_read(method: &Method, path: &str, proxied: &[String]) -> bool {
    if !is_plain(path) {
        return false;
    }
    if *method == Method::POST {
        return REVIEWS.contains(&path);
    }
    if *method != Method::GET && *method != Method::HEAD {
        return false;
    }
    if ROOTS.contains(&path) {
        return true;
    }
    let mut segments: Vec<&str> = path[1..].split('/').collect();
    let base = match segments.as_slice() {
        ["api", "v1", ..] => 2,
        // GROUP alone returns the group's versions.
        ["apis", _group] => return true,
        ["apis", _group, _version, ..] => 3,
        _ => return false,
    };
    let core = base == 2;
    segments.drain(..base);
    if let ["namespaces", _namespace, resource, rest @ ..] = segments.as_slice()
        && !matches!(*resource, "status" | "finalize")
    {
        return reads_resource(core, true, resource, rest, proxied);
    }
    match segments.as_slice() {
        [] => true,
        [resource, rest @ ..] => reads_resource(core, false, resource, rest, proxied),
    }
}

/// `rest` is what follows the resource: nothing, a name, or a name and a subresource.
fn reads_resource(
    core: bool,
    within: bool,
    resource: &str,
    rest: &[&str],
    proxied: &[String],
) -> bool {
    // `/api/v1/watch/…` and `/api/v1/proxy/…` are older spellings of verbs.
    if matches!(resource, "watch" | "proxy" | "redirect") {
        return false;
    }
    match rest {
        [] | [_] => true,
        [_, subresource] => TELLING.contains(subresource),
        [_, "proxy", tail @ ..] => {
            let path = tail
                .iter()
                .fold(String::new(), |path, part| path + "/" + part);
            core && within && matches!(resource, "pods" | "services") && proxied.contains(&path)
        }
        _ => false,
    }
}

/// True for a path that cannot be read in two ways: no escapes, no empty or dotted segments.
fn is_plain(path: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_' | b'.' | b':');
    path.starts_with('/')
        && path.bytes().all(plain)
        && path[1..]
            .split('/')
            .all(|part| !matches!(part, "" | "." | ".."))
}

/// A request that a gate refused.
#[derive(Debug)]
pub struct Refused {
    pub method: Method,
    pub path: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "refused before it was sent: {} {} is not a request that this client may send",
            self.method, self.path
        )
    }
}

impl std::error::Error for Refused {}

/// A client that sends the requests that `allows` returns true for, counted in `stats`. Any other, and any that asks for another
/// protocol, is refused ([`Refused`]) before it is sent.
pub fn gated<S, B>(
    service: S,
    namespace: &str,
    stats: &Arc<ApiStats>,
    allows: impl Fn(&Method, &str) -> bool + Clone + Send + 'static,
) -> Client
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: hyper::body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let counted = CountingLayer::new(Arc::clone(stats)).layer(service);
    let gate = move |request| passed(request, &allows);
    Client::new(FilterLayer::new(gate).layer(counted), namespace)
}

/// The request, if it may be sent.
fn passed<B>(
    request: Request<B>,
    allows: impl Fn(&Method, &str) -> bool,
) -> Result<Request<B>, Refused> {
    let mut connection = request.headers().get_all(CONNECTION).iter();
    let upgrades = request.headers().contains_key(UPGRADE)
        || connection.any(|value| {
            let text = value.to_str().map(str::to_ascii_lowercase);
            text.map_or(true, |text| text.contains("upgrade"))
        });
    let (method, path) = (request.method(), request.uri().path());
    if !upgrades && allows(method, path) {
        return Ok(request);
    }
    Err(Refused {
        method: method.clone(),
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(method: &str, path: &str) -> bool {
        let proxied = ["/metrics".to_owned(), "/api/v1/query".to_owned()];
        is_read(&method.parse().expect("a method"), path, &proxied)
    }

    #[test]
    fn reads_pass() {
        for path in [
            "/version",
            "/api",
            "/apis",
            "/apis/jobset.x-k8s.io",
            "/api/v1",
            "/api/v1/nodes",
            "/api/v1/nodes/gpu-1",
            "/api/v1/nodes/gpu-1/status",
            "/api/v1/pods",
            "/api/v1/namespaces",
            "/api/v1/namespaces/ml",
            "/api/v1/namespaces/ml/status",
            "/api/v1/namespaces/ml/pods",
            "/api/v1/namespaces/ml/pods/p-0",
            "/api/v1/namespaces/ml/pods/p-0/log",
            "/apis/apps/v1/deployments",
            "/apis/apps/v1/namespaces/ml/deployments/d/scale",
            "/apis/jobset.x-k8s.io/v1alpha2/namespaces/ml/jobsets/js",
            "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/nlp/pendingworkloads",
            "/api/v1/namespaces/mon/pods/dcgm-1:9400/proxy/metrics",
            "/api/v1/namespaces/mon/pods/https:dcgm-1:9400/proxy/metrics",
            "/api/v1/namespaces/mon/services/prometheus:9090/proxy/api/v1/query",
        ] {
            assert!(reads("GET", path), "GET {path}");
            assert!(reads("HEAD", path), "HEAD {path}");
        }
        for path in REVIEWS {
            assert!(reads("POST", path), "POST {path}");
        }
    }

    #[test]
    fn no_other_method_passes() {
        for method in [
            "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "PROPFIND", "get",
        ] {
            for path in [
                "/api/v1/nodes/gpu-1",
                "/api/v1/namespaces/ml/pods",
                "/api/v1/namespaces/ml/pods/p-0/eviction",
                "/api/v1/namespaces/mon/pods/dcgm-1:9400/proxy/metrics",
                "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                "/apis/authorization.k8s.io/v1/namespaces/ml/localsubjectaccessreviews",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x",
            ] {
                assert!(!reads(method, path), "{method} {path}");
            }
        }
        assert!(!reads("DELETE", REVIEWS[0]));
    }

    #[test]
    fn what_upgrades_or_reaches_further_is_refused() {
        for path in [
            "/api/v1/namespaces/ml/pods/p-0/exec",
            "/api/v1/namespaces/ml/pods/p-0/attach",
            "/api/v1/namespaces/ml/pods/p-0/portforward",
            "/api/v1/namespaces/ml/pods/p-0/EXEC",
            "/api/v1/namespaces/ml/pods/p-0/exec/x",
            "/api/v1/namespaces/ml/pods/p-0/proxy",
            "/api/v1/namespaces/ml/pods/p-0/proxy/",
            "/api/v1/namespaces/ml/pods/p-0/proxy/admin",
            "/api/v1/namespaces/ml/pods/p-0/proxy/metrics/x",
            "/api/v1/namespaces/ml/pods/p-0/proxy/METRICS",
            "/api/v1/namespaces/ml/pods/p-0/Proxy/metrics",
            "/api/v1/nodes/gpu-1/proxy/metrics",
            "/api/v1/nodes/gpu-1/proxy/exec/ml/p/c",
            "/api/v1/nodes/gpu-1:10250/proxy/run/ml/p/c",
            "/api/v1/proxy/namespaces/ml/pods/p/metrics",
            "/api/v1/proxy/nodes/gpu-1",
            "/api/v1/watch/pods",
            "/apis/apps/v1/namespaces/ml/pods/p/proxy/metrics",
            "/api/v1/pods/p-0/proxy/metrics",
            "/logs/kube-apiserver.log",
            "/debug/pprof/heap",
            "/metrics",
            "/",
            "",
            "api/v1/nodes",
        ] {
            assert!(!reads("GET", path), "GET {path}");
        }
    }

    #[test]
    fn paths_with_two_readings_are_refused() {
        for path in [
            "/api/v1/namespaces/ml/pods/p-0%2fexec",
            "/api/v1/namespaces/ml/pods/p-0/%65xec",
            "/api/v1/namespaces/ml/pods/p-0/proxy/%2e%2e/admin",
            "/api/v1/namespaces/ml/pods/p-0/proxy/metrics/../admin",
            "/api/v1/namespaces/ml/pods/p-0/log/../exec",
            "/api/v1/namespaces/ml/pods/./p-0",
            "/api/v1//namespaces/ml/pods",
            "//api/v1/nodes",
            "/api/v1/nodes/",
            "/api/v1/nodes;x=1",
            "/api/v1/nodes\\..\\pods",
            "/api/v1/namespaces/ml/pods/p-0/proxy/metrics?x",
            "/api/v1/namespaces/ml/pods/p-0/proxy/metrics%3fx",
            "/api/v1/n\u{f6}des",
            "/api/v1/nodes ",
            "/api/v1/nodes\n",
        ] {
            assert!(!reads("GET", path), "GET {path:?}");
        }
    }

    #[test]
    fn an_upgrade_never_passes() {
        let sent = |header: &str, value: &str| {
            let request = Request::get("/api/v1/nodes").header(header, value);
            passed(request.body(()).expect("a request"), |_, _| true)
        };
        sent("Connection", "keep-alive").expect("a read passes");
        for (header, value) in [("Connection", "keep-alive, Upgrade"), ("Upgrade", "spdy")] {
            let refused = sent(header, value).expect_err("an upgrade does not");
            assert!(
                refused.to_string().contains("GET /api/v1/nodes"),
                "{refused}"
            );
        }
    }
}
