//! Create, update, patch, delete, scale.

use serde_json::{Value, json};

use super::{cluster, get, pass, patch, post, send};

const NODE: &str = "/api/v1/nodes/gpu-a";

#[tokio::test(start_paused = true)]
async fn a_cordon_is_a_strategic_merge_patch() {
    let service = cluster();
    let before = get(&service, NODE).await.json();
    let body = json!({"spec": {"unschedulable": true}});
    let dry = patch(
        &service,
        &format!("{NODE}?dryRun=All"),
        "strategic-merge-patch",
        &body,
    )
    .await
    .json();
    assert_eq!(dry["spec"]["unschedulable"], true);
    assert_eq!(get(&service, NODE).await.json(), before);
    let done = patch(&service, NODE, "strategic-merge-patch", &body)
        .await
        .json();
    assert_eq!(done["spec"]["unschedulable"], true);
    assert_ne!(
        done["metadata"]["resourceVersion"],
        before["metadata"]["resourceVersion"]
    );
    // Again changes nothing, and takes no revision.
    let again = patch(&service, NODE, "strategic-merge-patch", &body)
        .await
        .json();
    assert_eq!(again, done);
    let back = patch(
        &service,
        NODE,
        "merge-patch",
        &json!({"spec": {"unschedulable": null}}),
    )
    .await
    .json();
    assert!(back["spec"].get("unschedulable").is_none());
}

#[tokio::test(start_paused = true)]
async fn json_patch_guards_with_test() {
    let service = cluster();
    let guarded = |uid: &str| {
        json!([
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "add", "path": "/metadata/labels/x", "value": "y"},
        ])
    };
    assert_eq!(
        patch(&service, NODE, "json-patch", &guarded("uid--gpu-a"))
            .await
            .code,
        200
    );
    let refused = patch(&service, NODE, "json-patch", &guarded("other")).await;
    assert_eq!(
        (refused.code, refused.json()["reason"].as_str()),
        (422, Some("Invalid"))
    );
    let apply = [("content-type", "application/apply-patch+yaml")];
    let answer = send(&service, "PATCH", NODE, &apply, "{}").await;
    assert_eq!(answer.code, 422, "an apply names its manager");
    let custom = "/apis/kueue.x-k8s.io/v1beta1/namespaces/nlp/workloads/job-x";
    assert_eq!(
        patch(&service, custom, "strategic-merge-patch", &json!({}))
            .await
            .code,
        415
    );
    assert_eq!(
        patch(
            &service,
            custom,
            "merge-patch",
            &json!({"spec": {"active": false}})
        )
        .await
        .code,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn an_old_revision_conflicts() {
    let service = cluster();
    let mut node = get(&service, NODE).await.json();
    node["metadata"]["labels"]["a"] = "b".into();
    let put = |node: &Value| {
        send(
            &service,
            "PUT",
            NODE,
            &[("content-type", "application/json")],
            node.to_string(),
        )
    };
    assert_eq!(put(&node).await.code, 200);
    node["metadata"]["labels"]["a"] = "c".into();
    let late = put(&node).await;
    assert_eq!(
        (late.code, late.json()["reason"].as_str()),
        (409, Some("Conflict"))
    );
    assert_eq!(
        late.message(),
        "Operation cannot be fulfilled on nodes \"gpu-a\": the object has been modified; please apply your changes to the latest version and try again"
    );
    let patched = json!({"metadata": {"resourceVersion": "1", "labels": {"a": "d"}}});
    assert_eq!(
        patch(&service, NODE, "merge-patch", &patched).await.code,
        409
    );
    node["metadata"]["resourceVersion"] = "".into();
    node["metadata"]["uid"] = "another".into();
    assert_eq!(put(&node).await.code, 409);
}

#[tokio::test(start_paused = true)]
async fn status_and_spec_are_written_apart() {
    let service = cluster();
    let body =
        json!({"spec": {"unschedulable": true}, "status": {"capacity": {"nvidia.com/gpu": "4"}}});
    let main = patch(&service, NODE, "merge-patch", &body).await.json();
    assert_eq!(
        (
            &main["spec"]["unschedulable"],
            &main["status"]["capacity"]["nvidia.com/gpu"]
        ),
        (&json!(true), &json!("8"))
    );
    let status = json!({"spec": {"unschedulable": false}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let answer = patch(
        &service,
        &format!("{NODE}/status"),
        "strategic-merge-patch",
        &status,
    )
    .await
    .json();
    assert_eq!(answer["spec"]["unschedulable"], true);
    let ready = &answer["status"]["conditions"][0];
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!("KubeletReady"))
    );
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_with_what_the_server_sets() {
    let service = cluster();
    let path = "/api/v1/namespaces/nlp/configmaps";
    let made = post(
        &service,
        path,
        &json!({"metadata": {"name": "c"}, "data": {"a": "b"}}),
    )
    .await;
    assert_eq!(made.code, 201);
    let object = made.json();
    assert_eq!(
        (
            &object["metadata"]["namespace"],
            &object["metadata"]["creationTimestamp"]
        ),
        (&json!("nlp"), &json!("2026-11-21T08:00:00Z"))
    );
    assert_eq!(object["metadata"]["uid"].as_str().map(str::len), Some(36));
    let again = post(&service, path, &json!({"metadata": {"name": "c"}})).await;
    assert_eq!(
        (again.code, again.message().as_str()),
        (409, "configmaps \"c\" already exists")
    );
    for (body, code) in [
        (json!({"metadata": {"name": "Bad_Name"}}), 422),
        (json!({"metadata": {}}), 422),
        (
            json!({"metadata": {"name": "x", "namespace": "vision"}}),
            400,
        ),
        (json!({"kind": "Pod", "metadata": {"name": "x"}}), 400),
        (
            json!({"metadata": {"name": "x", "resourceVersion": "1"}}),
            400,
        ),
        (json!("text"), 400),
    ] {
        assert_eq!(post(&service, path, &body).await.code, code, "{body}");
    }
    let nowhere = post(
        &service,
        "/api/v1/namespaces/none/configmaps",
        &json!({"metadata": {"name": "c"}}),
    )
    .await;
    assert_eq!(
        (nowhere.code, nowhere.message().as_str()),
        (404, "namespaces \"none\" not found")
    );
    let yaml = "metadata:\n  name: y\ndata:\n  k: v\n";
    let made = send(
        &service,
        "POST",
        path,
        &[("content-type", "application/yaml")],
        yaml,
    )
    .await;
    assert_eq!((made.code, &made.json()["data"]["k"]), (201, &json!("v")));
    let large = "x".repeat(4 << 20);
    assert_eq!(send(&service, "POST", path, &[], large).await.code, 413);
    assert_eq!(
        send(&service, "POST", path, &[("content-type", "text/csv")], "a")
            .await
            .code,
        415
    );
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = post(&service, "/api/v1/namespaces/nlp/pods?dryRun=All", &pod)
        .await
        .json();
    assert_eq!(
        (&made["status"]["phase"], &made["status"]["qosClass"]),
        (&json!("Pending"), &json!("BestEffort"))
    );
    assert_eq!(
        get(&service, "/api/v1/namespaces/nlp/pods/p").await.code,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn pods_leave_with_grace() {
    let service = cluster();
    let path = "/api/v1/namespaces/nlp/pods/serve-2";
    let json = [("content-type", "application/json")];
    let wrong = json!({"preconditions": {"uid": "other"}}).to_string();
    let refused = send(&service, "DELETE", path, &json, wrong).await;
    assert_eq!(
        (refused.code, refused.json()["reason"].as_str()),
        (409, Some("Conflict"))
    );
    let dry = send(&service, "DELETE", &format!("{path}?dryRun=All"), &[], "").await;
    assert_eq!(
        (
            dry.code,
            &dry.json()["metadata"]["deletionGracePeriodSeconds"]
        ),
        (200, &json!(30))
    );
    assert!(
        get(&service, path).await.json()["metadata"]
            .get("deletionTimestamp")
            .is_none()
    );
    let going = send(
        &service,
        "DELETE",
        path,
        &json,
        json!({"gracePeriodSeconds": 10}).to_string(),
    )
    .await;
    assert_eq!(
        going.json()["metadata"]["deletionTimestamp"],
        "2026-11-21T08:00:10Z"
    );
    let shown = super::table(&service, path).await;
    assert_eq!(shown["rows"][0]["cells"][2], "Terminating");
    pass(&service, 11);
    assert_eq!(get(&service, path).await.code, 404);
    let at_once = "/api/v1/namespaces/nlp/pods/serve-1?gracePeriodSeconds=0";
    assert_eq!(
        send(&service, "DELETE", at_once, &[], "").await.json()["kind"],
        "Pod"
    );
    assert_eq!(
        get(&service, "/api/v1/namespaces/nlp/pods/serve-1")
            .await
            .code,
        404
    );
    let rest = send(
        &service,
        "DELETE",
        "/api/v1/namespaces/nlp/pods?gracePeriodSeconds=0&labelSelector=app%3Dserve",
        &[],
        "",
    )
    .await;
    assert_eq!(super::names(&rest.json()), ["serve-0"]);
    let gone = send(
        &service,
        "DELETE",
        "/apis/apps/v1/namespaces/nlp/replicasets/serve",
        &[],
        "",
    )
    .await
    .json();
    assert_eq!(
        (&gone["status"], &gone["details"]["kind"]),
        (&json!("Success"), &json!("replicasets"))
    );
    assert_eq!(
        send(&service, "DELETE", "/api/v1/namespaces", &[], "")
            .await
            .code,
        405
    );
}

#[tokio::test(start_paused = true)]
async fn workloads_scale() {
    let service = cluster();
    let path = "/apis/apps/v1/namespaces/nlp/replicasets/serve/scale";
    let scale = get(&service, path).await.json();
    assert_eq!(
        (
            &scale["kind"],
            &scale["spec"]["replicas"],
            &scale["status"]["selector"]
        ),
        (&json!("Scale"), &json!(3), &json!("app=serve"))
    );
    let answer = patch(
        &service,
        path,
        "merge-patch",
        &json!({"spec": {"replicas": 5}}),
    )
    .await
    .json();
    assert_eq!(answer["spec"]["replicas"], 5);
    let set = get(&service, "/apis/apps/v1/namespaces/nlp/replicasets/serve")
        .await
        .json();
    assert_eq!(set["spec"]["replicas"], 5);
    assert_eq!(
        patch(
            &service,
            path,
            "merge-patch",
            &json!({"spec": {"replicas": -1}})
        )
        .await
        .code,
        422
    );
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_until_the_last_is_gone() {
    let service = cluster();
    let path = "/api/v1/namespaces/nlp/configmaps";
    let held = json!({"metadata": {"name": "h", "finalizers": ["a/b"], "labels": {"x": "y"}}});
    assert_eq!(post(&service, path, &held).await.code, 201);
    let freed = patch(
        &service,
        &format!("{path}/h"),
        "merge-patch",
        &json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert_eq!(freed.code, 200);
    assert!(freed.json()["metadata"].get("finalizers").is_none());
}
