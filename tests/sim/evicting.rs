//! Evictions under disruption budgets.

use serde_json::{Value, json};
use sim::Service;

use super::{TestResponse, cluster, get, patch, post};

const PODS: &str = "/api/v1/namespaces/nlp/pods";
const BUDGET: &str = "/apis/policy/v1/namespaces/nlp/poddisruptionbudgets/serve";

async fn evict(service: &Service, pod: &str, options: Value) -> TestResponse {
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "nlp"}, "deleteOptions": options});
    post(service, &format!("{PODS}/{pod}/eviction"), &body).await
}

#[tokio::test(start_paused = true)]
async fn a_budget_allows_one_and_refuses_the_next() {
    let service = cluster();
    let dry = evict(&service, "serve-0", json!({"dryRun": ["All"]})).await;
    assert_eq!((dry.code, &dry.json()["status"]), (201, &json!("Success")));
    assert_eq!(
        get(&service, BUDGET).await.json()["status"]["disruptionsAllowed"],
        1
    );
    let done = evict(&service, "serve-0", json!({})).await;
    assert_eq!(
        done.json(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
    );
    let pod = get(&service, &format!("{PODS}/serve-0")).await.json();
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    let target = pod["status"]["conditions"]
        .as_array()
        .and_then(|c| c.iter().find(|c| c["type"] == "DisruptionTarget"));
    assert_eq!(
        target.map(|c| &c["reason"]),
        Some(&json!("EvictionByEvictionAPI"))
    );
    let budget = get(&service, BUDGET).await.json();
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert_eq!(
        budget["status"]["disruptedPods"]["serve-0"],
        "2026-11-21T08:00:00Z"
    );
    // The world has not counted again, so the budget still believes in three healthy pods.
    let status = json!({"status": {"currentHealthy": 2}});
    patch(
        &service,
        &format!("{BUDGET}/status"),
        "merge-patch",
        &status,
    )
    .await;
    let refused = evict(&service, "serve-1", json!({})).await;
    let body = refused.json();
    assert_eq!(
        (refused.code, body["reason"].as_str()),
        (429, Some("TooManyRequests"))
    );
    assert_eq!(
        refused.message(),
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    assert_eq!(
        body["details"]["causes"],
        json!([{"reason": "DisruptionBudget", "message": "The disruption budget serve needs 2 healthy pods and has 2 currently"}])
    );
    // One that is leaving already needs no budget.
    assert_eq!(evict(&service, "serve-0", json!({})).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_done_and_pods_without_budget_go() {
    let service = cluster();
    patch(
        &service,
        &format!("{BUDGET}/status"),
        "merge-patch",
        &json!({"status": {"disruptionsAllowed": 0}}),
    )
    .await;
    patch(
        &service,
        &format!("{PODS}/serve-1/status"),
        "merge-patch",
        &json!({"status": {"phase": "Succeeded"}}),
    )
    .await;
    assert_eq!(evict(&service, "serve-1", json!({})).await.code, 201);
    assert_eq!(get(&service, &format!("{PODS}/serve-1")).await.code, 404);
    let body = json!({"metadata": {"name": "exporter-a"}});
    let free = post(
        &service,
        "/api/v1/namespaces/monitoring/pods/exporter-a/eviction",
        &body,
    )
    .await;
    assert_eq!(free.code, 201);
}

#[tokio::test(start_paused = true)]
async fn an_unready_pod_goes_when_the_healthy_suffice() {
    let service = cluster();
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    patch(
        &service,
        &format!("{PODS}/serve-2/status"),
        "strategic-merge-patch",
        &unready,
    )
    .await;
    let status = json!({"status": {"disruptionsAllowed": 0, "currentHealthy": 2}});
    patch(
        &service,
        &format!("{BUDGET}/status"),
        "merge-patch",
        &status,
    )
    .await;
    assert_eq!(evict(&service, "serve-2", json!({})).await.code, 201);
    assert_eq!(evict(&service, "serve-1", json!({})).await.code, 429);
}

#[tokio::test(start_paused = true)]
async fn two_budgets_are_one_too_many() {
    let service = cluster();
    let second = json!({"metadata": {"name": "second"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "serve"}}}});
    assert_eq!(
        post(
            &service,
            "/apis/policy/v1/namespaces/nlp/poddisruptionbudgets",
            &second
        )
        .await
        .code,
        201
    );
    let refused = evict(&service, "serve-0", json!({})).await.json();
    assert_eq!(
        (&refused["status"], &refused["code"]),
        (&json!("Failure"), &json!(500))
    );
    assert!(
        refused["message"]
            .as_str()
            .is_some_and(|m| m.contains("more than one PodDisruptionBudget"))
    );
    assert!(
        get(&service, &format!("{PODS}/serve-0")).await.json()["metadata"]
            .get("deletionTimestamp")
            .is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn guards_hold_and_malformed_evictions_are_refused() {
    let service = cluster();
    let wrong = evict(
        &service,
        "serve-0",
        json!({"preconditions": {"uid": "other"}}),
    )
    .await;
    assert_eq!(wrong.code, 409);
    // A refused precondition spends nothing.
    assert_eq!(
        get(&service, BUDGET).await.json()["status"]["disruptionsAllowed"],
        1
    );
    let right = evict(
        &service,
        "serve-0",
        json!({"preconditions": {"uid": "uid-nlp-serve-0"}}),
    )
    .await;
    assert_eq!(right.code, 201);
    assert_eq!(evict(&service, "absent", json!({})).await.code, 404);
    let other = json!({"metadata": {"name": "serve-2"}});
    assert_eq!(
        post(&service, &format!("{PODS}/serve-1/eviction"), &other)
            .await
            .code,
        400
    );
    assert_eq!(
        get(&service, &format!("{PODS}/serve-1/eviction"))
            .await
            .code,
        405
    );
}
