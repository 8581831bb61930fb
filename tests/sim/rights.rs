//! Who may do what, and how a refusal reads.

use serde_json::{Value, json};
use sim::{Service, User};

use super::{as_user, cluster, get, post, send};

async fn may(service: &Service, verb: &str, resource: &str, namespace: &str) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let body = json!({"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": {"resourceAttributes":
        {"verb": verb, "resource": resource, "subresource": subresource, "namespace": namespace}}});
    let answer = post(
        service,
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        &body,
    )
    .await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    answer.json()["status"]["allowed"] == true
}

#[tokio::test(start_paused = true)]
async fn without_a_token_it_is_401_with_a_status() {
    let service = Service::new(cluster().cluster().clone());
    let answer = get(&service, "/api/v1/nodes").await;
    assert_eq!(
        (answer.code, answer.json()),
        (
            401,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "Unauthorized", "reason": "Unauthorized", "code": 401})
        )
    );
    for bad in ["Bearer nonsense", "Basic YTpi", ""] {
        assert_eq!(
            send(&service, "GET", "/version", &[("authorization", bad)], "")
                .await
                .code,
            401,
            "{bad}"
        );
    }
    let token = format!("Bearer {}", service.cluster().users().token(User::Viewer));
    assert_eq!(
        send(
            &service,
            "GET",
            "/api/v1/nodes",
            &[("authorization", &token)],
            ""
        )
        .await
        .code,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn each_context_may_what_it_should() {
    let service = cluster();
    let team = as_user(&service, User::Team);
    let refused = get(&team, "/api/v1/pods").await;
    assert_eq!(
        (refused.code, refused.json()),
        (
            403,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
                "message": "pods is forbidden: User \"sim-team\" cannot list resource \"pods\" in API group \"\" at the cluster scope",
                "details": {"kind": "pods"}
            })
        )
    );
    for (path, code) in [
        ("/api/v1/namespaces/nlp/pods", 200),
        ("/api/v1/namespaces/vision/pods", 200),
        ("/api/v1/namespaces/monitoring/pods", 403),
        ("/api/v1/namespaces/nlp", 200),
        ("/api/v1/namespaces", 403),
        ("/api/v1/nodes", 403),
        ("/api/v1/nodes/gpu-a", 403),
        ("/api/v1/namespaces/nlp/pods/serve-0/log", 200),
        ("/api/v1/namespaces/nlp/pods/serve-0/proxy/metrics", 403),
        ("/apis", 200),
        ("/metrics", 403),
    ] {
        assert_eq!(get(&team, path).await.code, code, "{path}");
    }
    let named = get(&team, "/api/v1/nodes/gpu-a").await.message();
    assert_eq!(
        named,
        "nodes \"gpu-a\" is forbidden: User \"sim-team\" cannot get resource \"nodes\" in API group \"\" at the cluster scope"
    );
    let unprivileged = as_user(&service, User::Nobody);
    assert_eq!(
        get(&unprivileged, "/api/v1/namespaces/nlp/pods").await.code,
        403
    );
    assert_eq!(get(&unprivileged, "/api/v1").await.code, 200);
    assert_eq!(
        get(&unprivileged, "/sim/faults").await.message(),
        "forbidden: User \"sim-nobody\" cannot get path \"/sim/faults\""
    );
    let viewer = as_user(&service, User::Viewer);
    assert_eq!(
        get(
            &viewer,
            "/api/v1/namespaces/monitoring/pods/exporter-a:9400/proxy/metrics"
        )
        .await
        .code,
        200
    );
    let evict = post(
        &viewer,
        "/api/v1/namespaces/nlp/pods/serve-0/eviction",
        &json!({}),
    )
    .await;
    assert_eq!(
        evict.message(),
        "pods \"serve-0\" is forbidden: User \"sim-viewer\" cannot create resource \"pods/eviction\" in API group \"\" in the namespace \"nlp\""
    );
    assert!(
        may(&viewer, "list", "nodes", "").await && may(&viewer, "get", "pods/proxy", "x").await
    );
    assert!(!may(&viewer, "patch", "nodes", "").await);
    assert!(may(&team, "list", "pods", "nlp").await && !may(&team, "list", "pods", "").await);
    assert!(may(&service, "delete", "nodes", "").await);
}

#[tokio::test(start_paused = true)]
async fn self_reviews_answer_in_protocol_buffers_too() {
    let service = as_user(&cluster(), User::Team);
    // What kubectl's typed client sends for `auth can-i list pods -n nlp`.
    let part =
        |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8][..], bytes].concat();
    let attributes = [part(1, b"nlp"), part(2, b"list"), part(5, b"pods")].concat();
    let review = part(2, &part(1, &attributes));
    let meta = [
        part(1, b"authorization.k8s.io/v1"),
        part(2, b"SelfSubjectAccessReview"),
    ]
    .concat();
    let body = [b"k8s\0".to_vec(), part(1, &meta), part(2, &review)].concat();
    let headers = [("content-type", "application/vnd.kubernetes.protobuf")];
    let answer = send(
        &service,
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        &headers,
        body,
    )
    .await;
    assert_eq!(
        (answer.code, &answer.json()["status"]["allowed"]),
        (201, &json!(true)),
        "{}",
        answer.text
    );
}

#[tokio::test(start_paused = true)]
async fn rules_and_identity_reviews_are_answered() {
    let service = cluster();
    let team = as_user(&service, User::Team);
    let body = json!({"spec": {"namespace": "nlp"}});
    let rules = post(
        &team,
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        &body,
    )
    .await
    .json();
    let any = |rules: &Value, resource: &str| {
        rules["status"]["resourceRules"]
            .as_array()
            .is_some_and(|all| {
                all.iter().any(|r| {
                    r["resources"]
                        .as_array()
                        .is_some_and(|l| l.contains(&json!(resource)))
                })
            })
    };
    assert!(any(&rules, "pods") && !any(&rules, "nodes"));
    let elsewhere = json!({"spec": {"namespace": "monitoring"}});
    let rules = post(
        &team,
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        &elsewhere,
    )
    .await
    .json();
    assert!(!any(&rules, "pods"));
    let me = post(
        &team,
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        &json!({}),
    )
    .await
    .json();
    assert_eq!(
        me["status"]["userInfo"],
        json!({"username": "sim-team", "groups": ["system:authenticated"]})
    );
}

#[tokio::test(start_paused = true)]
async fn the_admin_may_be_anyone() {
    let service = cluster();
    let asked = |user: User, headers: &'static [(&'static str, &'static str)]| {
        let service = as_user(&service, user);
        async move { send(&service, "GET", "/api/v1/nodes", headers, "").await }
    };
    let team = asked(User::Admin, &[("impersonate-user", "sim-team")]).await;
    assert!(
        team.code == 403 && team.message().contains("User \"sim-team\""),
        "{}",
        team.text
    );
    let masters = [
        ("impersonate-user", "x"),
        ("impersonate-group", "system:masters"),
    ];
    let answer = send(&service, "GET", "/api/v1/nodes", &masters, "").await;
    assert_eq!(answer.code, 200);
    let refused = asked(User::Viewer, &[("impersonate-user", "sim-admin")]).await;
    assert_eq!(
        refused.message(),
        "users \"sim-admin\" is forbidden: User \"sim-viewer\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
    );
}
