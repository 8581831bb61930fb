//! After a drain: finds pods that came to a node between the plan and the cordon.

use kube::Client;
use serde_json::Value;

use cluster::mutations::{is_mirror, text};
use engine::snapshot::belongs_to_node;
use model::base::SmallSort;
use model::base::name::printable;
use model::plan::{Intent, Plan};

use super::request::get;

/// Pods still on the nodes that a drain plan should have emptied, as `NAMESPACE/NAME on NODE`. DaemonSet pods, static pods, and
/// pods that have ended or are terminating are excluded. Empty for any other plan.
///
/// # Errors
/// The API server returned no pod list; the message is meant for a person.
pub async fn left_behind(client: &Client, plan: &Plan) -> Result<Vec<String>, String> {
    let Intent::Drain { nodes, .. } = &plan.intent else {
        return Ok(Vec::new());
    };
    let mut left = Vec::new();
    for node in nodes {
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
        let answer = get(client, &path).await;
        let Some(pods) = answer.body.get("items").and_then(Value::as_array) else {
            let code = answer
                .code
                .map_or("no answer".to_owned(), |code| code.to_string());
            return Err(format!("the pods of {node} could not be listed ({code})"));
        };
        left.extend(pods.iter().filter_map(|pod| stays(pod, node)));
    }
    left.small_sort();
    Ok(left)
}

/// Describes a pod that should have left the node; `None` when it may stay.
fn stays(pod: &Value, node: &str) -> Option<String> {
    let meta = pod.get("metadata")?;
    let owners = meta.get("ownerReferences").and_then(Value::as_array);
    let mut owners = owners.into_iter().flatten();
    let belongs = owners.any(|owner| belongs_to_node(text(owner, "/kind"))) || is_mirror(pod);
    let ends = meta
        .get("deletionTimestamp")
        .is_some_and(|at| !at.is_null());
    let over = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    if belongs || ends || over {
        return None;
    }
    let (namespace, name) = (
        meta.get("namespace")?.as_str()?,
        meta.get("name")?.as_str()?,
    );
    let key = format!("{namespace}/{name}");
    Some(format!("{} on {node}", printable(&key)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_belongs_to_a_node_or_ends_is_not_left_behind() {
        let pod = |meta: Value, phase: &str| {
            let mut pod = json!({ "metadata": { "namespace": "nlp", "name": "a" }, "status": { "phase": phase } });
            for (key, value) in meta.as_object().expect("an object") {
                pod["metadata"][key] = value.clone();
            }
            stays(&pod, "n1")
        };
        let owner = |kind: &str| json!({ "ownerReferences": [{ "kind": kind, "name": "o" }] });
        assert_eq!(pod(json!({}), "Running").as_deref(), Some("nlp/a on n1"));
        assert!(pod(owner("ReplicaSet"), "Pending").is_some());
        for (meta, phase) in [
            (owner("DaemonSet"), "Running"),
            (owner("Node"), "Running"),
            (
                json!({ "annotations": { "kubernetes.io/config.mirror": "x" } }),
                "Running",
            ),
            (
                json!({ "deletionTimestamp": "2026-11-21T08:00:00Z" }),
                "Running",
            ),
            (json!({}), "Succeeded"),
            (json!({}), "Failed"),
        ] {
            assert_eq!(pod(meta.clone(), phase), None, "{meta} {phase}");
        }
        assert_eq!(stays(&json!([]), "n1"), None);
    }
}
