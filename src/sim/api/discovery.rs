//! Discovery: the version, the groups and their resources, one by one and aggregated.

use http::Response;
use serde_json::{Value, json};

use super::review::REVIEWS;
use super::{ApiRequest, Body, respond};
use model::base::SmallSort;
use model::fleet::kinds::is_built_in;

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

/// The resources of a group's version: each with its subresources behind it, then the reviews.
fn resources(group: &str, version: &str) -> Vec<Value> {
    let mut resources = Vec::new();
    let in_group = |spec: &&Spec| spec.group == group && spec.version == version;
    for spec in SPECS.iter().filter(in_group) {
        let mut entry = json!({
            "name": spec.plural,
            "singularName": spec.singular(),
            "namespaced": spec.namespaced,
            "kind": spec.kind,
            "verbs": spec.verbs(),
            "storageVersionHash": spec.hash(),
        });
        for (key, names) in [("shortNames", spec.short), ("categories", spec.categories)] {
            if !names.is_empty() {
                entry[key] = json!(names);
            }
        }
        resources.push(entry);
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
    resources
}

fn resource_list(group: &str, version: &str) -> Value {
    let group_version = format!("{group}/{version}");
    let mut body = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version.trim_start_matches('/'),
        "resources": resources(group, version),
    });
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

fn aggregate(version: &str, core: bool) -> Value {
    let groups = if core {
        vec![("", vec!["v1"])]
    } else {
        by_group()
    };
    let items: Vec<Value> = groups
        .iter()
        .map(|(group, versions)| {
            let of_version = |version: &&str| {
                let resources = aggregated_resources(group, version);
                json!({"version": version, "resources": resources, "freshness": "Current"})
            };
            let versions: Vec<Value> = versions.iter().map(of_version).collect();
            let metadata = match *group {
                "" => json!({}),
                group => json!({"name": group}),
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
}

/// The same resources as aggregated discovery lists them, subresources inside.
fn aggregated_resources(group: &str, version: &str) -> Vec<Value> {
    // The real server leaves group and version out for the types that it is built with.
    let own = match is_built_in(group) {
        true => ("", ""),
        false => (group, version),
    };
    let mut all: Vec<Value> = Vec::new();
    for entry in resources(group, version) {
        let of = |key: &str, own: &str| match entry[key].as_str() {
            Some(other) => other.to_owned(),
            None => own.to_owned(),
        };
        let kind = json!({"group": of("group", own.0), "version": of("version", own.1), "kind": entry["kind"]});
        let parts = entry["name"].as_str().and_then(|name| name.split_once('/'));
        if let (Some((_, name)), Some(parent)) = (parts, all.last_mut()) {
            let part = json!({"subresource": name, "responseKind": kind, "verbs": entry["verbs"]});
            match parent["subresources"].as_array_mut() {
                Some(parts) => parts.push(part),
                None => parent["subresources"] = json!([part]),
            }
            continue;
        }
        let namespaced = entry["namespaced"] == true;
        let mut resource = json!({
            "resource": entry["name"],
            "responseKind": kind,
            "scope": if namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": entry["singularName"],
            "verbs": entry["verbs"],
        });
        for key in ["shortNames", "categories"] {
            if let Some(names) = entry.get(key) {
                resource[key] = names.clone();
            }
        }
        all.push(resource);
    }
    all
}
