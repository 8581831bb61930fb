//! `pods/proxy` and `services/proxy`: GETs that reach the pages which pods of the world serve.

use std::sync::Arc;

use serde_json::Value;

use super::request::ResourcePath;
use super::status::ApiStatus;
use super::{ApiRequest, ApiResult, respond};
use crate::change::Resource;
use crate::cluster::{Core, SimCluster};
use crate::json::{condition, int, list, name, text};
use crate::names::quoted;
use crate::resource::Spec;
use crate::selector::LabelSelector;
use crate::store::ListOptions;
use model::base::ObjectKey;

/// `[SCHEME:]NAME[:PORT]` split into parts; `None` for any other form.
fn address(id: &str) -> Option<(&str, &str, &str)> {
    let parts: Vec<&str> = id.split(':').collect();
    match parts[..] {
        [name] => Some(("", name, "")),
        [name, port] => Some(("", name, port)),
        [scheme @ ("http" | "https" | ""), name, port] => Some((scheme, name, port)),
        _ => None,
    }
}

/// Serves a proxy request.
///
/// # Errors
/// 400 on a malformed address, 404 when there is no such object, 503 when nothing listens.
pub fn serve(
    cluster: &Arc<SimCluster>,
    asked: &ApiRequest,
    target: &ResourcePath,
    spec: &Spec,
) -> ApiResult {
    let what = spec.singular();
    let (scheme, name, port) = address(&target.name)
        .filter(|(_, name, _)| !name.is_empty())
        .ok_or_else(|| {
            ApiStatus::bad_request(format!("invalid {what} request {}", quoted(&target.name)))
        })?;
    let path = if target.rest.is_empty() {
        if !asked.path.ends_with('/') {
            // As the real server: a proxied root has a slash, so that relative links work.
            let mut moved = respond(301, "", "");
            moved.headers_mut().remove(http::header::CONTENT_TYPE);
            let location = format!("{}/", asked.path);
            if let Ok(location) = location.parse() {
                moved.headers_mut().insert(http::header::LOCATION, location);
            }
            return Ok(moved);
        }
        "/"
    } else {
        &target.rest
    };
    let core = cluster.core();
    let object = core
        .store
        .get(spec.resource, &target.namespace, name)
        .ok_or_else(|| ApiStatus::not_found(spec, name))?;
    let (pod, port) = match spec.resource {
        Resource::Services => behind(&core, &object, port)?,
        _ => {
            let first = list(&object, "/spec/containers")
                .iter()
                .flat_map(|c| list(c, "/ports"))
                .map(|p| int(p, "/containerPort"))
                .next();
            let port = match (port, first) {
                ("", Some(port)) => port,
                ("", None) => 80,
                (text, _) => text.parse().unwrap_or(-1),
            };
            (object, port)
        }
    };
    let ip = text(&pod, "/status/podIP");
    if ip.is_empty() {
        return Err(ApiStatus::bad_request("address not allowed"));
    }
    let refused = || {
        ApiStatus::unavailable(format!(
            "error trying to reach service: dial tcp {ip}:{port}: connect: connection refused"
        ))
    };
    let key = ObjectKey::new(text(&pod, "/metadata/namespace"), crate::json::name(&pod));
    let port = u16::try_from(port).map_err(|_| refused())?;
    let listens = core
        .world
        .exporters()
        .iter()
        .any(|(pod, p, _)| *pod == key && *p == port);
    if listens && scheme == "https" {
        return Err(ApiStatus::unavailable(
            "error trying to reach service: tls: first record does not look like a TLS handshake",
        ));
    }
    if let Some(page) = core.world.page(&key, port, path) {
        return Ok(respond(200, page.content_type, page.body));
    }
    if listens {
        Ok(respond(
            404,
            "text/plain; charset=utf-8",
            "404 page not found\n",
        ))
    } else {
        Err(refused())
    }
}

/// The first ready pod behind a service, and the port that it listens on there.
fn behind(core: &Core, service: &Arc<Value>, port: &str) -> Result<(Arc<Value>, i64), ApiStatus> {
    let own = name(service);
    let ports = list(service, "/spec/ports");
    let found = match port {
        "" => ports.first(),
        wanted => ports
            .iter()
            .find(|p| text(p, "/name") == wanted || int(p, "/port").to_string() == wanted),
    };
    let found = found.ok_or_else(|| {
        ApiStatus::unavailable(format!(
            "no service port {} found for service {}",
            quoted(port),
            quoted(own)
        ))
    })?;
    let labels = service
        .pointer("/spec/selector")
        .filter(|s| s.as_object().is_some_and(|m| !m.is_empty()))
        .and_then(|s| LabelSelector::of_object(&serde_json::json!({"matchLabels": s})));
    let what = ListOptions {
        namespace: Some(text(service, "/metadata/namespace")),
        ..ListOptions::default()
    };
    let ready = |pod: &Value| {
        labels.as_ref().is_some_and(|l| l.matches(pod))
            && condition(pod, "Ready") == "True"
            && !text(pod, "/status/podIP").is_empty()
    };
    let page = core
        .store
        .list(Resource::Pods, &what, &ready)
        .map_err(ApiStatus::expired)?;
    let pod = page.items.into_iter().next().ok_or_else(|| {
        ApiStatus::unavailable(format!(
            "no endpoints available for service {}",
            quoted(own)
        ))
    })?;
    let target = match found.get("targetPort") {
        Some(Value::Number(number)) => number.as_i64().unwrap_or(0),
        Some(Value::String(named)) => list(&pod, "/spec/containers")
            .iter()
            .flat_map(|c| list(c, "/ports"))
            .find(|p| text(p, "/name") == named)
            .map_or(0, |p| int(p, "/containerPort")),
        _ => int(found, "/port"),
    };
    Ok((pod, target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_addresses_come_apart() {
        assert_eq!(address("p"), Some(("", "p", "")));
        assert_eq!(address("p:9400"), Some(("", "p", "9400")));
        assert_eq!(address("https:p:9400"), Some(("https", "p", "9400")));
        assert_eq!(address("ftp:p:21"), None);
        assert_eq!(address("a:b:c:d"), None);
    }
}
