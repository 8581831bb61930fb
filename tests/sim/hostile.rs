//! Hostile requests: whatever a client sends, the server answers, and goes on serving.

use http::Request;
use http_body_util::Full;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{cluster, get, send};

/// JSON of any shape, with words that mean something to the server.
fn anything() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "metadata",
        "name",
        "namespace",
        "labels",
        "finalizers",
        "spec",
        "status",
        "template",
        "containers",
        "conditions",
        "type",
        "uid",
        "resourceVersion",
        "$patch",
        "replace",
        "delete",
        "merge",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
        "op",
        "path",
        "/spec/-",
        "test",
        "replicas",
        "deleteOptions",
        "preconditions",
        "resourceAttributes",
        "suspend",
        "selector",
        "matchLabels",
        "tolerations",
        "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..5).prop_map(|fields| {
                fields
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()
            }),
        ]
    })
}

/// A body with something unfit at a place that the server reads.
fn unfit() -> impl Strategy<Value = Value> {
    let place = prop::sample::select(vec![
        "metadata",
        "metadata/labels",
        "metadata/labels/app",
        "metadata/annotations",
        "metadata/finalizers",
        "metadata/name",
        "metadata/namespace",
        "metadata/generation",
        "metadata/resourceVersion",
        "metadata/deletionTimestamp",
        "spec",
        "spec/template",
        "spec/template/metadata",
        "spec/template/metadata/labels",
        "spec/template/spec",
        "spec/template/spec/containers",
        "spec/containers",
        "spec/initContainers",
        "spec/tolerations",
        "spec/selector",
        "spec/selector/matchLabels",
        "spec/replicas",
        "spec/suspend",
        "spec/ports",
        "spec/nodeName",
        "status",
        "status/conditions",
        "status/phase",
        "status/podIP",
        "status/podIPs",
        "status/disruptedPods",
        "status/disruptionsAllowed",
        "status/containerStatuses",
        "status/initContainerStatuses",
        "status/addresses",
        "deleteOptions",
        "deleteOptions/preconditions",
        "preconditions",
        "dryRun",
        "kind",
        "apiVersion",
    ]);
    (place, anything(), any::<bool>()).prop_map(|(place, leaf, named)| {
        let mut body = leaf;
        for key in place.rsplit('/') {
            body = json!({key: body});
        }
        // Without a name nothing is created, and nothing is evicted.
        if named && let Some(Value::Object(metadata)) = body.get_mut("metadata") {
            metadata.insert("name".into(), "serve-1".into());
        } else if named && body.get("metadata").is_none() {
            body["metadata"] = json!({"name": "serve-1"});
        }
        body
    })
}

const OBJECTS: &[&str] = &[
    "/api/v1/nodes/gpu-a",
    "/api/v1/nodes/gpu-a/status",
    "/api/v1/namespaces/nlp/pods/serve-0",
    "/api/v1/namespaces/nlp/pods/serve-0/status",
    "/apis/apps/v1/namespaces/nlp/replicasets/serve",
    "/apis/apps/v1/namespaces/nlp/replicasets/serve/scale",
    "/apis/policy/v1/namespaces/nlp/poddisruptionbudgets/serve",
    "/apis/policy/v1/namespaces/nlp/poddisruptionbudgets/serve/status",
    "/apis/batch/v1/namespaces/nlp/jobs/held",
    "/apis/batch/v1/namespaces/nlp/jobs/held/status",
];

const LISTS: &[&str] = &[
    "/api/v1/namespaces",
    "/api/v1/namespaces/nlp/pods",
    "/api/v1/namespaces/nlp/pods/serve-1/eviction",
    "/api/v1/namespaces/nlp/services",
    "/apis/batch/v1/namespaces/nlp/jobs",
    "/apis/apps/v1/namespaces/nlp/deployments",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
];

fn run<F: Future<Output = ()>>(work: F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(work);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_body_gets_an_answer_and_every_table_still_prints(
        bodies in prop::collection::vec((prop_oneof![1 => anything(), 4 => unfit()], 0usize..6, any::<prop::sample::Index>()), 1..12),
    ) {
        run(async {
            let service = cluster();
            let job = json!({"metadata": {"name": "held"}, "spec": {"suspend": true, "template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}}});
            assert_eq!(super::post(&service, "/apis/batch/v1/namespaces/nlp/jobs", &job).await.code, 201);
            for (body, how, at) in &bodies {
                let (method, kind, path) = match how {
                    0 => ("PATCH", "application/merge-patch+json", at.get(OBJECTS)),
                    1 => ("PATCH", "application/strategic-merge-patch+json", at.get(OBJECTS)),
                    2 => ("PATCH", "application/json-patch+json", at.get(OBJECTS)),
                    3 => ("PUT", "application/json", at.get(OBJECTS)),
                    4 => ("DELETE", "application/json", at.get(OBJECTS)),
                    _ => ("POST", "application/json", at.get(LISTS)),
                };
                let answer = send(&service, method, path, &[("content-type", kind)], body.to_string()).await;
                assert!((200..600).contains(&answer.code), "{method} {path} {body}: {}", answer.code);
                let eviction = json!({"metadata": {"name": "serve-2"}, "deleteOptions": {"dryRun": ["All"]}});
                super::post(&service, "/api/v1/namespaces/nlp/pods/serve-2/eviction", &eviction).await;
            }
            for path in [
                "/api/v1/nodes", "/api/v1/pods", "/api/v1/services", "/apis/apps/v1/replicasets", "/apis/apps/v1/deployments",
                "/apis/batch/v1/jobs", "/apis/policy/v1/poddisruptionbudgets", "/api/v1/namespaces",
            ] {
                let table = super::table(&service, path).await;
                assert_eq!(table["kind"], "Table", "{path}");
            }
            assert_eq!(get(&service, "/version").await.code, 200);
        });
    }

    #[test]
    fn any_path_and_query_get_an_answer(
        parts in prop::collection::vec(prop::sample::select(vec![
            "api", "apis", "v1", "apps", "namespaces", "nlp", "pods", "serve-0", "log", "proxy", "status", "watch", "nodes", "scale",
            "exporter-a:9400", "https:a:b", "", "%2F", "%zz", "%C3", "metrics", "openapi", "v3", "sim", "faults", "..",
        ]), 0..8),
        query in prop::collection::vec((prop::sample::select(vec![
            "watch", "limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector", "timeoutSeconds",
            "follow", "tailLines", "sinceTime", "includeObject", "sendInitialEvents", "allowWatchBookmarks", "pretty", "dryRun",
        ]), "[a-z0-9=!(),%.+-]{0,8}"), 0..4),
        method in prop::sample::select(vec!["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]),
        accept in prop::sample::select(vec!["", "application/json", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml", ";;q=x", "*/*"]),
    ) {
        run(async {
            let service = cluster();
            let query: Vec<String> = query.iter().map(|(key, value)| format!("{key}={value}")).collect();
            let uri = format!("/{}?{}", parts.join("/"), query.join("&"));
            let request = Request::builder().method(method).uri(&uri).header("accept", accept);
            let Ok(request) = request.body(Full::<bytes::Bytes>::default()) else { return };
            let response = service.answer(request).await;
            assert!((200..600).contains(&response.status().as_u16()), "{method} {uri}");
        });
    }
}
