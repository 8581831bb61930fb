//! HTTPS, the kubeconfig, the exporters' pages and the Prometheus API over sockets.

use std::sync::Arc;

use kube::config::{KubeConfigOptions, Kubeconfig};
use model::base::Moment;
use serde_json::{Value, json};
use sim::{Running, ServeOptions, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::tiny_world::Tiny;

async fn serve(options: ServeOptions) -> Running {
    let clock = Arc::new(|| Moment::from_seconds(0));
    Server::start(options, Box::new(Tiny::new()), clock)
        .await
        .expect("serves")
}

async fn client(running: &Running, context: &str) -> kube::Client {
    let kubeconfig = Kubeconfig::from_yaml(&running.kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions {
        context: Some(context.into()),
        ..Default::default()
    };
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .expect("a config");
    // Retrying a 429 for minutes would hide it.
    config.default_retry = false;
    kube::Client::try_from(config).expect("a client")
}

/// A GET over plain HTTP: the body.
async fn plain(url: &str, path: &str) -> String {
    let address = url.strip_prefix("http://").expect("plain");
    let mut stream = tokio::net::TcpStream::connect(address)
        .await
        .expect("connects");
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sends");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("reads");
    text.split_once("\r\n\r\n").expect("a body").1.to_owned()
}

async fn prometheus(url: &str, path: &str) -> Value {
    let body = plain(url, path).await;
    let start = body.find('{').expect("JSON");
    let end = body.rfind('}').expect("JSON");
    serde_json::from_str(&body[start..=end]).unwrap_or_else(|e| panic!("{e} in {body}"))
}

#[tokio::test]
async fn kube_rs_works_over_https_with_every_context() {
    use k8s_openapi::api::core::v1::{Node, Pod};
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kubeconfig");
    let running = serve(ServeOptions {
        kubeconfig: Some(path.clone()),
        speed: 0.0,
        ..ServeOptions::default()
    })
    .await;
    assert_eq!(
        std::fs::read_to_string(&path).expect("written"),
        running.kubeconfig
    );
    assert!(running.url.starts_with("https://127.0.0.1:"));
    let admin = client(&running, "sim-admin").await;
    assert_eq!(
        admin.apiserver_version().await.expect("a version").major,
        "1"
    );
    let nodes: kube::Api<Node> = kube::Api::all(admin.clone());
    assert_eq!(
        nodes
            .list(&Default::default())
            .await
            .expect("a list")
            .items
            .len(),
        3
    );
    assert_eq!(
        nodes
            .cordon("gpu-b")
            .await
            .expect("cordons")
            .spec
            .and_then(|s| s.unschedulable),
        Some(true)
    );
    let pods: kube::Api<Pod> = kube::Api::namespaced(admin, "nlp");
    assert!(
        pods.logs("serve-0", &Default::default())
            .await
            .expect("a log")
            .contains("step 6")
    );
    assert!(pods.evict("serve-0", &Default::default()).await.is_ok());
    let refused = pods
        .evict("serve-1", &Default::default())
        .await
        .expect_err("no budget is left");
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 429),
        "{refused}"
    );
    for (context, allowed) in [
        ("sim-viewer", true),
        ("sim-team", false),
        ("sim-nobody", false),
    ] {
        let nodes: kube::Api<Node> = kube::Api::all(client(&running, context).await);
        assert_eq!(
            nodes.list(&Default::default()).await.is_ok(),
            allowed,
            "{context}"
        );
    }
    running.shutdown().await;
}

#[tokio::test]
async fn an_address_in_use_names_itself() {
    let running = serve(ServeOptions {
        speed: 0.0,
        ..ServeOptions::default()
    })
    .await;
    let taken = running
        .url
        .trim_start_matches("https://")
        .parse()
        .expect("an address");
    let clock = Arc::new(|| Moment::from_seconds(0));
    let options = ServeOptions {
        listen: taken,
        ..ServeOptions::default()
    };
    let error = Server::start(options, Box::new(Tiny::new()), clock)
        .await
        .err()
        .expect("it is taken");
    assert!(error.to_string().contains(&taken.to_string()), "{error:#}");
}

#[tokio::test]
async fn exporters_and_prometheus_serve_the_same_pages() {
    let any = Some("127.0.0.1:0".parse().expect("an address"));
    let running = serve(ServeOptions {
        exporters: any,
        prometheus: any,
        speed: 0.0,
        ..ServeOptions::default()
    })
    .await;
    let exporters = running.exporters.clone().expect("listens");
    assert!(
        plain(&exporters, "/")
            .await
            .contains("/monitoring/exporter-a/metrics")
    );
    for path in [
        "/monitoring/exporter-a/metrics",
        "/monitoring/exporter-a:9400/metrics",
    ] {
        assert!(
            plain(&exporters, path).await.contains("tiny_busy"),
            "{path}"
        );
    }
    assert!(
        !plain(&exporters, "/monitoring/other/metrics")
            .await
            .contains("tiny_busy")
    );
    let url = running.prometheus.clone().expect("listens");
    let found = prometheus(
        &url,
        "/api/v1/query?query=%7B__name__%3D~%22tiny.*%22%2Cgpu%3D%220%22%7D",
    )
    .await;
    let base = json!({"__name__": "tiny_busy", "gpu": "0", "job": "exporter", "instance": "10.0.0.7:9400", "namespace": "monitoring",
        "pod": "exporter-a", "container": "main", "exported_pod": "serve-0"});
    assert_eq!(found["data"]["result"][0]["metric"], base);
    assert_eq!(
        found["data"]["result"][0]["value"],
        json!([1795248000.0, "42"])
    );
    assert_eq!(found["data"]["result"].as_array().map(Vec::len), Some(1));
    let none = prometheus(&url, "/api/v1/query?query=tiny_busy&time=0").await;
    assert_eq!(none["data"]["result"], json!([]));
    let bad = prometheus(&url, "/api/v1/query?query=sum(up)").await;
    assert_eq!(
        (&bad["status"], &bad["errorType"]),
        (&json!("error"), &json!("bad_data"))
    );
    let names = prometheus(&url, "/api/v1/label/__name__/values").await;
    assert_eq!(names["data"], json!(["tiny_busy", "up"]));
    let series = prometheus(&url, "/api/v1/series?match[]=up").await;
    assert_eq!(series["data"].as_array().map(Vec::len), Some(1));
    let metadata = prometheus(&url, "/api/v1/metadata").await;
    assert_eq!(metadata["data"]["tiny_busy"][0]["type"], "gauge");
    let range = prometheus(
        &url,
        "/api/v1/query_range?query=up&start=1795247900&end=1795248000&step=10",
    )
    .await;
    assert_eq!(
        range["data"]["result"][0]["values"],
        json!([[1795248000.0, "1"]])
    );
    let fine = "/api/v1/query_range?query=up&start=0&end=1795248000&step=1s";
    let refused = prometheus(&url, fine).await;
    assert!(
        refused["error"]
            .as_str()
            .is_some_and(|why| why.contains("11,000 points")),
        "{refused}"
    );
    let times = prometheus(&url, "/api/v1/query?query=timestamp(up)").await;
    assert_eq!(
        times["data"]["result"][0],
        json!({"metric": {"job": "exporter", "instance": "10.0.0.7:9400", "namespace": "monitoring", "pod": "exporter-a",
            "container": "main"}, "value": [1795248000.0, "1795248000"]})
    );
    assert_eq!(
        prometheus(&url, "/api/v1/status/buildinfo").await["status"],
        "success"
    );
    running.shutdown().await;
}

#[tokio::test]
async fn the_clock_runs_at_its_speed() {
    let real = Arc::new(std::sync::atomic::AtomicI64::new(0));
    let clock = {
        let real = real.clone();
        Arc::new(move || Moment::from_millis(real.load(std::sync::atomic::Ordering::SeqCst)))
    };
    let options = ServeOptions {
        speed: 60.0,
        ..ServeOptions::default()
    };
    let running = Server::start(options, Box::new(Tiny::new()), clock)
        .await
        .expect("serves");
    let start = running.cluster().now();
    real.store(2_000, std::sync::atomic::Ordering::SeqCst);
    running.cluster().tick();
    assert_eq!(running.cluster().now().since(start).seconds(), 120);
    // A real clock that is set back moves nothing.
    real.store(0, std::sync::atomic::Ordering::SeqCst);
    running.cluster().tick();
    assert_eq!(running.cluster().now().since(start).seconds(), 120);
    running.shutdown().await;
}
