//! Discovery: the version, the groups and their resources, one by one and aggregated.

use http::Response;
use serde_json::{Map, Value, json};

use super::review::REVIEWS;
use super::{ApiRequest, Body, respond};
use model::base::SmallSort;

use crate::resource::{Spec, groups};
use crate::specs::SPECS;

/// The Kubernetes version of the simulated cluster.
pub const VERSION: &str = "v1.36.3";

/// Answers discovery paths; `None` for every other path.
pub fn serve(path: &str, asked: &ApiRequest) -> Option<Response<Body>> {
    let accept = asked.header(http::header::ACCEPT);
    let aggregated = accept
        .split(',')
        .find(|clause| clause.contains("as=APIGroupDiscoveryList"))
        .map(|clause| {
            if clause.contains("v=v2beta1") {
                "v2beta1"
            } else {
                "v2"
            }
        });
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let body = match (parts.as_slice(), aggregated) {
        (["version"], _) => version(),
        (["api"], Some(version)) => return Some(typed(version, &aggregate(version, true))),
        (["apis"], Some(version)) => return Some(typed(version, &aggregate(version, false))),
        (["api"], None) => json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}],
        }),
        (["apis"], None) => json!({
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": by_group().iter().map(|(group, versions)| group_of(group, versions)).collect::<Vec<_>>(),
        }),
        (["apis", group], _) => {
            let (group, versions) = by_group().into_iter().find(|(g, _)| g == group)?;
            let mut body = group_of(group, &versions);
            body["kind"] = "APIGroup".into();
            body["apiVersion"] = "v1".into();
            body
        }
        (["api", "v1"], _) => resource_list("", "v1"),
        (["apis", group, version], _) => {
            let (group, version) = groups()
                .into_iter()
                .find(|(g, v)| g == group && v == version)?;
            resource_list(group, version)
        }
        ([""], _) => {
            let mut paths = vec!["/api".to_owned(), "/api/v1".into(), "/apis".into()];
            for (group, version) in groups() {
                paths.push(format!("/apis/{group}"));
                paths.push(format!("/apis/{group}/{version}"));
            }
            paths.extend(
                [
                    "/healthz",
                    "/livez",
                    "/openapi/v2",
                    "/openapi/v3",
                    "/readyz",
                    "/version",
                ]
                .map(str::to_owned),
            );
            paths.small_sort();
            json!({"paths": paths})
        }
        _ => return None,
    };
    Some(respond(200, "application/json", body.to_string()))
}

fn version() -> Value {
    let (major, minor) = ("1", "36");
    json!({
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": "35",
        "gitVersion": VERSION,
        "gitCommit": "stokehold-simulated",
        "gitTreeState": "clean",
        "buildDate": "2026-07-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": "linux/amd64",
    })
}

/// Every group with its versions, the preferred one first.
fn by_group() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for (group, version) in groups() {
        match all.iter_mut().find(|(known, _)| *known == group) {
            Some((_, versions)) => versions.push(version),
            None => all.push((group, vec![version])),
        }
    }
    all
}

fn group_of(group: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    json!({"name": group, "preferredVersion": versions.first(), "versions": versions})
}

/// A subresource's kind, with its group and version where they are not its parent's, and its verbs.
fn subresource(
    spec: &Spec,
    name: &str,
) -> (
    &'static str,
    Option<(&'static str, &'static str)>,
    Vec<&'static str>,
) {
    let write = vec!["get", "patch", "update"];
    let every = vec!["create", "delete", "get", "patch", "update"];
    match (spec.plural, name) {
        (_, "scale") => ("Scale", Some(("autoscaling", "v1")), write),
        ("nodes", "proxy") => ("NodeProxyOptions", None, every),
        ("services", "proxy") => ("ServiceProxyOptions", None, every),
        (_, "proxy") => ("PodProxyOptions", None, every),
        (_, "attach") => ("PodAttachOptions", None, vec!["create", "get"]),
        (_, "exec") => ("PodExecOptions", None, vec!["create", "get"]),
        (_, "portforward") => ("PodPortForwardOptions", None, vec!["create", "get"]),
        (_, "binding") => ("Binding", None, vec!["create"]),
        (_, "eviction") => ("Eviction", Some(("policy", "v1")), vec!["create"]),
        (_, "log") => (spec.kind, None, vec!["get"]),
        (_, "finalize") => (spec.kind, None, vec!["update"]),
        _ => (spec.kind, None, write),
    }
}

fn resource_list(group: &str, version: &str) -> Value {
    let mut resources = Vec::new();
    for spec in SPECS
        .iter()
        .filter(|s| s.group == group && s.version == version)
    {
        let mut entry = Map::new();
        entry.insert("name".into(), spec.plural.into());
        entry.insert("singularName".into(), spec.singular().into());
        entry.insert("namespaced".into(), spec.namespaced.into());
        entry.insert("kind".into(), spec.kind.into());
        entry.insert("verbs".into(), json!(spec.verbs()));
        if !spec.short.is_empty() {
            entry.insert("shortNames".into(), json!(spec.short));
        }
        if !spec.categories.is_empty() {
            entry.insert("categories".into(), json!(spec.categories));
        }
        entry.insert("storageVersionHash".into(), spec.hash().into());
        resources.push(Value::Object(entry));
        for name in spec.subresources {
            let (kind, other, verbs) = subresource(spec, name);
            let mut entry = json!({
                "name": format!("{}/{name}", spec.plural),
                "singularName": "",
                "namespaced": spec.namespaced,
                "kind": kind,
                "verbs": verbs,
            });
            if let Some((group, version)) = other {
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            resources.push(entry);
        }
    }
    for (_, plural, singular, kind) in REVIEWS.iter().filter(|(g, ..)| *g == group) {
        resources.push(json!({
            "name": plural, "singularName": singular, "namespaced": false, "kind": kind, "verbs": ["create"],
        }));
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    let mut body =
        json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    // The core group's list has no version, for the oldest clients.
    if !group.is_empty() {
        body["apiVersion"] = "v1".into();
    }
    body
}

fn typed(version: &str, body: &Value) -> Response<Body> {
    let kind =
        format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    respond(200, &kind, body.to_string())
}

fn kind_of(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

fn aggregate(version: &str, core: bool) -> Value {
    let groups = if core {
        vec![("", vec!["v1"])]
    } else {
        by_group()
    };
    let items: Vec<Value> = groups
        .iter()
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources = aggregated_resources(group, version);
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let mut metadata = Map::new();
            if !group.is_empty() {
                metadata.insert("name".into(), (*group).into());
            }
            json!({
                "metadata": metadata,
                "versions": versions,
            })
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
}

/// The group and version that aggregated discovery gives to a resource's own kind: the real server leaves both
/// out for the types that it is built with.
fn own(spec: &Spec) -> (&'static str, &'static str) {
    if spec.is_custom() {
        (spec.group, spec.version)
    } else {
        ("", "")
    }
}

fn aggregated_resources(group: &str, version: &str) -> Vec<Value> {
    let scope = |namespaced: bool| if namespaced { "Namespaced" } else { "Cluster" };
    let mut resources = Vec::new();
    for spec in SPECS
        .iter()
        .filter(|s| s.group == group && s.version == version)
    {
        let mut entry = json!({
            "resource": spec.plural,
            "responseKind": kind_of(own(spec).0, own(spec).1, spec.kind),
            "scope": scope(spec.namespaced),
            "singularResource": spec.singular(),
            "verbs": spec.verbs(),
        });
        if !spec.short.is_empty() {
            entry["shortNames"] = json!(spec.short);
        }
        if !spec.categories.is_empty() {
            entry["categories"] = json!(spec.categories);
        }
        let subresources: Vec<Value> = spec
            .subresources
            .iter()
            .map(|name| {
                let (kind, other, verbs) = subresource(spec, name);
                let (group, version) = other.unwrap_or(own(spec));
                json!({"subresource": name, "responseKind": kind_of(group, version, kind), "verbs": verbs})
            })
            .collect();
        if !subresources.is_empty() {
            entry["subresources"] = subresources.into();
        }
        resources.push(entry);
    }
    for (_, plural, singular, kind) in REVIEWS.iter().filter(|(g, ..)| *g == group) {
        resources.push(json!({
            "resource": plural,
            "responseKind": kind_of("", "", kind),
            "scope": "Cluster",
            "singularResource": singular,
            "verbs": ["create"],
        }));
    }
    resources
}
