//! Get, list, tables, selectors, pages, discovery.

use serde_json::{Value, json};

use super::{cluster, get, names, pass, patch, post, send, table};

#[tokio::test(start_paused = true)]
async fn lists_are_lists_of_their_kind_at_one_revision() {
    let service = cluster();
    let list = get(&service, "/api/v1/pods").await.json();
    assert_eq!(
        (list["kind"].as_str(), list["apiVersion"].as_str()),
        (Some("PodList"), Some("v1"))
    );
    assert_eq!(
        names(&list),
        ["exporter-a", "serve-0", "serve-1", "serve-2"]
    );
    // The real server leaves kind and version out of the items of its own types, and keeps them in custom ones.
    assert!(list["items"][0].get("kind").is_none());
    let workloads = get(&service, "/apis/kueue.x-k8s.io/v1beta1/workloads")
        .await
        .json();
    assert_eq!(workloads["items"][0]["kind"], "Workload");
    let own = get(&service, "/api/v1/namespaces/nlp/pods").await.json();
    assert_eq!(names(&own).len(), 3);
    assert_eq!(
        own["metadata"]["resourceVersion"],
        list["metadata"]["resourceVersion"]
    );
    let empty = get(&service, "/apis/batch/v1/namespaces/nlp/jobs")
        .await
        .json();
    assert_eq!(empty["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn selectors_select_and_say_what_they_cannot() {
    let service = cluster();
    for (query, found) in [
        ("labelSelector=app%3Dserve", 3),
        ("labelSelector=app+notin+(serve)", 1),
        ("labelSelector=app,!other", 4),
        ("fieldSelector=spec.nodeName%3Dgpu-a", 3),
        (
            "fieldSelector=spec.nodeName!%3Dgpu-a,status.phase%3DRunning",
            1,
        ),
        ("fieldSelector=metadata.name%3Dserve-1", 1),
        (
            "fieldSelector=metadata.namespace%3Dnlp&labelSelector=app",
            3,
        ),
    ] {
        let list = get(&service, &format!("/api/v1/pods?{query}")).await.json();
        assert_eq!(names(&list).len(), found, "{query}");
    }
    let bad = get(&service, "/api/v1/pods?fieldSelector=spec.foo%3Da").await;
    assert_eq!(
        (bad.code, bad.message().as_str()),
        (400, "field label not supported: spec.foo")
    );
    let bad = get(&service, "/apis/apps/v1/deployments?fieldSelector=x%3Da").await;
    assert_eq!(
        bad.message(),
        "\"x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
    );
    assert_eq!(
        get(&service, "/api/v1/pods?labelSelector=a+in+b")
            .await
            .code,
        400
    );
    assert_eq!(get(&service, "/api/v1/pods?limit=x").await.code, 400);
    assert_eq!(
        get(&service, "/api/v1/pods?resourceVersion=x").await.code,
        400
    );
}

#[tokio::test(start_paused = true)]
async fn pages_show_one_moment_and_expire() {
    let service = cluster();
    let first = get(&service, "/api/v1/pods?limit=2").await.json();
    assert_eq!(names(&first), ["exporter-a", "serve-0"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 2);
    let label = json!({"metadata": {"labels": {"late": "yes"}}});
    patch(
        &service,
        "/api/v1/namespaces/nlp/pods/serve-2",
        "merge-patch",
        &label,
    )
    .await;
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let rest = get(&service, &format!("/api/v1/pods?limit=5&continue={token}"))
        .await
        .json();
    assert_eq!(names(&rest), ["serve-1", "serve-2"]);
    assert!(rest["items"][1]["metadata"]["labels"].get("late").is_none());
    assert_eq!(
        rest["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    assert!(rest["metadata"].get("continue").is_none());
    let selected = get(&service, "/api/v1/pods?limit=1&labelSelector=app")
        .await
        .json();
    assert!(selected["metadata"].get("remainingItemCount").is_none());
    assert_eq!(
        get(&service, "/api/v1/pods?continue=nonsense").await.code,
        400
    );
    let future = get(&service, "/api/v1/pods?resourceVersion=999999").await;
    assert_eq!(
        (future.code, future.json()["reason"].as_str()),
        (504, Some("Timeout"))
    );
    let old = get(
        &service,
        "/api/v1/pods?resourceVersion=1&resourceVersionMatch=Exact",
    )
    .await;
    assert_eq!(
        (old.code, old.json()["reason"].as_str()),
        (410, Some("Expired"))
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_page_offers_to_go_on_inconsistently() {
    let options = sim::ServeOptions {
        retention: 1,
        speed: 0.0,
        ..Default::default()
    };
    let clock = std::sync::Arc::new(|| model::base::Moment::from_seconds(0));
    let tiny_world = Box::new(super::tiny_world::Tiny::new());
    let running = sim::Server::start(options, tiny_world, clock)
        .await
        .expect("serves");
    let service = running.service().signed(sim::User::Admin);
    let first = get(&service, "/api/v1/pods?limit=1").await.json();
    for value in ["a", "b", "c"] {
        let label = json!({"metadata": {"labels": {"x": value}}});
        patch(
            &service,
            "/api/v1/namespaces/nlp/pods/serve-2",
            "merge-patch",
            &label,
        )
        .await;
    }
    let token = first["metadata"]["continue"].as_str().expect("a token");
    let gone = get(&service, &format!("/api/v1/pods?limit=9&continue={token}")).await;
    assert_eq!(gone.code, 410, "{}", gone.text);
    let token = gone.json()["metadata"]["continue"]
        .as_str()
        .expect("a token")
        .to_owned();
    let rest = get(&service, &format!("/api/v1/pods?limit=9&continue={token}"))
        .await
        .json();
    assert_eq!(names(&rest).len(), 3);
    running.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn tables_carry_columns_cells_and_metadata() {
    let service = cluster();
    let nodes = table(&service, "/api/v1/nodes").await;
    assert_eq!(
        (nodes["kind"].as_str(), nodes["apiVersion"].as_str()),
        (Some("Table"), Some("meta.k8s.io/v1"))
    );
    let columns: Vec<(String, i64)> = nodes["columnDefinitions"]
        .as_array()
        .expect("columns")
        .iter()
        .map(|c| {
            (
                c["name"].as_str().unwrap_or("").to_owned(),
                c["priority"].as_i64().unwrap_or(-1),
            )
        })
        .collect();
    assert_eq!(
        columns[..5]
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>(),
        ["Name", "Status", "Roles", "Age", "Version"]
    );
    assert!(columns[..5].iter().all(|(_, p)| *p == 0) && columns[5..].iter().all(|(_, p)| *p == 1));
    assert_eq!(
        nodes["rows"][0]["cells"],
        json!([
            "gpu-a",
            "Ready",
            "gpu",
            "60m",
            "v1.36.3",
            "10.1.0.1",
            "<none>",
            "Linux",
            "6.8.0 (amd64)",
            "containerd://2.0.0"
        ])
    );
    assert_eq!(nodes["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(nodes["rows"][0]["object"]["metadata"]["name"], "gpu-a");
    // Ages are taken against the server's clock.
    pass(&service, 600);
    let one = table(&service, "/api/v1/nodes/gpu-b").await;
    assert_eq!(
        (
            one["rows"][0]["cells"][3].as_str(),
            one["rows"].as_array().map(Vec::len)
        ),
        (Some("70m"), Some(1))
    );
    let none = table(&service, "/api/v1/nodes?includeObject=None").await;
    assert_eq!(none["rows"][0]["object"], Value::Null);
    let whole = table(&service, "/api/v1/nodes?includeObject=Object").await;
    assert_eq!(whole["rows"][0]["object"]["kind"], "Node");
    // Every table has as many cells as columns.
    for path in [
        "/api/v1/pods",
        "/api/v1/namespaces",
        "/api/v1/services",
        "/apis/apps/v1/replicasets",
        "/apis/policy/v1/poddisruptionbudgets",
        "/apis/kueue.x-k8s.io/v1beta1/workloads",
    ] {
        let table = table(&service, path).await;
        let columns = table["columnDefinitions"].as_array().map(Vec::len);
        assert_eq!(
            table["rows"][0]["cells"].as_array().map(Vec::len),
            columns,
            "{path}"
        );
        assert!(columns > Some(1), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_alone_and_yaml_are_offered() {
    let service = cluster();
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = send(&service, "GET", "/api/v1/pods", &[("accept", accept)], "")
        .await
        .json();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert!(list["items"][0].get("spec").is_none());
    let yaml = send(
        &service,
        "GET",
        "/api/v1/nodes/gpu-a",
        &[("accept", "application/yaml")],
        "",
    )
    .await;
    assert!(
        yaml.text.contains("kind: Node") && !yaml.text.starts_with('{'),
        "{}",
        yaml.text
    );
    let refused = send(
        &service,
        "GET",
        "/api/v1/nodes",
        &[("accept", "image/png")],
        "",
    )
    .await;
    assert_eq!(
        (refused.code, refused.json()["reason"].as_str()),
        (406, Some("NotAcceptable"))
    );
    let protobuf = "application/vnd.kubernetes.protobuf";
    let answer = send(
        &service,
        "GET",
        "/api/v1/nodes",
        &[("accept", protobuf)],
        "",
    )
    .await;
    assert_eq!(answer.headers["content-type"], "application/json");
}

#[tokio::test(start_paused = true)]
async fn not_found_responses_equal_those_of_the_real_server() {
    let service = cluster();
    let missing = get(&service, "/api/v1/namespaces/nlp/pods/nope").await;
    assert_eq!(
        missing.json(),
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "pods \"nope\" not found",
            "reason": "NotFound", "details": {"name": "nope", "kind": "pods"}, "code": 404
        })
    );
    for path in [
        "/apis/none.example/v1",
        "/apis/none.example/v1/things",
        "/nowhere",
    ] {
        let answer = get(&service, path).await;
        assert_eq!(
            (answer.code, answer.text.as_str()),
            (404, "404 page not found\n"),
            "{path}"
        );
    }
    for path in ["/api/v1/nonsense", "/apis/apps/v1/namespaces/a/b/c/d"] {
        let answer = get(&service, path).await;
        assert_eq!(
            (answer.code, answer.message().as_str()),
            (404, "the server could not find the requested resource"),
            "{path}"
        );
    }
    assert_eq!(
        send(&service, "POST", "/api/v1/nodes/gpu-a", &[], "{}")
            .await
            .code,
        405
    );
    let date = get(&service, "/version").await.headers["date"]
        .to_str()
        .expect("text")
        .to_owned();
    assert_eq!(date, "Sat, 21 Nov 2026 08:00:00 GMT");
}

#[tokio::test(start_paused = true)]
async fn discovery_names_every_resource_plain_and_aggregated() {
    let service = cluster();
    let plain = get(&service, "/api/v1").await.json();
    let pods = plain["resources"]
        .as_array()
        .expect("resources")
        .iter()
        .find(|r| r["name"] == "pods")
        .expect("pods");
    assert_eq!(
        pods,
        &json!({
            "name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "shortNames": ["po"], "categories": ["all"],
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "storageVersionHash": "xPOwRZ+Yhw8="
        })
    );
    let eviction = plain["resources"]
        .as_array()
        .expect("resources")
        .iter()
        .find(|r| r["name"] == "pods/eviction");
    assert_eq!(
        eviction.map(|r| (&r["group"], &r["version"], &r["kind"])),
        Some((&json!("policy"), &json!("v1"), &json!("Eviction")))
    );
    let groups = get(&service, "/apis").await.json();
    for group in groups["groups"].as_array().expect("groups") {
        let version = group["preferredVersion"]["groupVersion"]
            .as_str()
            .expect("a version");
        let list = get(&service, &format!("/apis/{version}")).await.json();
        assert_eq!(list["kind"], "APIResourceList", "{version}");
        assert!(
            list["resources"].as_array().is_some_and(|r| !r.is_empty()),
            "{version}"
        );
    }
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    for path in ["/api", "/apis"] {
        let answer = send(&service, "GET", path, &[("accept", accept)], "").await;
        assert_eq!(
            answer.headers["content-type"],
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        );
        assert_eq!(answer.json()["kind"], "APIGroupDiscoveryList");
    }
    let index = get(&service, "/openapi/v3").await.json();
    for (path, entry) in index["paths"].as_object().expect("paths") {
        let url = entry["serverRelativeURL"].as_str().expect("a url");
        assert_eq!(
            get(&service, url).await.json()["openapi"],
            "3.0.0",
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn logs_are_cut_and_explained() {
    let service = cluster();
    let log = "/api/v1/namespaces/nlp/pods/serve-0/log";
    assert_eq!(get(&service, log).await.text.lines().count(), 7);
    let tail = get(&service, &format!("{log}?tailLines=2&timestamps=true"))
        .await
        .text;
    assert_eq!(
        tail,
        "2026-11-21T07:59:50.000000000Z step 5\n2026-11-21T08:00:00.000000000Z step 6\n"
    );
    assert_eq!(
        get(&service, &format!("{log}?sinceSeconds=15")).await.text,
        "step 5\nstep 6\n"
    );
    assert_eq!(
        get(&service, &format!("{log}?limitBytes=4")).await.text,
        "step"
    );
    let bad = get(&service, &format!("{log}?container=zz")).await;
    assert_eq!(
        (bad.code, bad.message().as_str()),
        (400, "container zz is not valid for pod serve-0")
    );
    let previous = get(&service, &format!("{log}?previous=true")).await;
    assert_eq!(
        previous.message(),
        "previous terminated container \"main\" in pod \"serve-0\" not found"
    );
    assert_eq!(
        get(&service, &format!("{log}?tailLines=-1")).await.code,
        422
    );
    assert_eq!(
        get(&service, "/api/v1/namespaces/nlp/pods/no/log")
            .await
            .code,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn proxies_reach_exporters_and_nothing_else() {
    let service = cluster();
    let pods = "/api/v1/namespaces/monitoring/pods";
    for path in [
        format!("{pods}/exporter-a:9400/proxy/metrics"),
        format!("{pods}/http:exporter-a:9400/proxy/metrics"),
        format!("{pods}/exporter-a/proxy/metrics"),
        "/api/v1/namespaces/monitoring/services/exporter:metrics/proxy/metrics".to_owned(),
        "/api/v1/namespaces/monitoring/services/exporter:80/proxy/metrics".to_owned(),
    ] {
        let page = get(&service, &path).await;
        assert!(
            page.code == 200 && page.text.contains("tiny_busy"),
            "{path}: {}",
            page.text
        );
    }
    let silent = get(&service, &format!("{pods}/exporter-a:9401/proxy/metrics")).await;
    assert_eq!(
        (silent.code, silent.message().as_str()),
        (
            503,
            "error trying to reach service: dial tcp 10.0.0.7:9401: connect: connection refused"
        )
    );
    assert_eq!(
        get(&service, &format!("{pods}/exporter-a:9400/proxy/nope"))
            .await
            .code,
        404
    );
    let post = post(
        &service,
        &format!("{pods}/exporter-a:9400/proxy/metrics"),
        &json!({}),
    )
    .await;
    assert_ne!(post.code, 200);
    let unknown = get(
        &service,
        "/api/v1/namespaces/monitoring/services/exporter:zz/proxy/metrics",
    )
    .await;
    assert_eq!(
        (unknown.code, unknown.message().as_str()),
        (503, "no service port \"zz\" found for service \"exporter\"")
    );
}

#[tokio::test(start_paused = true)]
async fn two_clusters_of_one_seed_give_the_same_bytes() {
    let (one, other) = (cluster(), cluster());
    for service in [&one, &other] {
        let job = json!({"metadata": {"generateName": "job-"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}}});
        let made = post(service, "/apis/batch/v1/namespaces/nlp/jobs", &job).await;
        assert_eq!(made.code, 201, "{}", made.text);
        pass(service, 90);
    }
    for path in [
        "/api/v1/pods",
        "/api/v1/nodes",
        "/apis/batch/v1/jobs",
        "/apis/coordination.k8s.io/v1/leases",
    ] {
        assert_eq!(
            get(&one, path).await.text,
            get(&other, path).await.text,
            "{path}"
        );
    }
}
