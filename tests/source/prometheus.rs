//! Prometheus as a source: the same readings as from the pages, preferred while it answers, replaced while it does not.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use exporter::{Dialects, Matchers};
use model::base::{Moment, Name};
use model::fleet::observe::{Observation, SourceHealth, SourceState, Table};
use model::fleet::reading::{Page, Reading, ReadingScope};
use model::fleet::signal::Signal;
use serde_json::{Value, json};
use sim::serve::{Running, ServeOptions, Server as Sim};
use sim::world;
use source::client::connect;
use source::kubeconfig::ContextChoice;
use source::kubernetes::Namespaces;
use source::prometheus::PrometheusOptions;
use source::prometheus::prometheus_client::{PrometheusEndpoint, ServiceAddress};
use source::scrape::{Endpoint, ScrapeAccess, ScrapeOptions};
use source::scrape_coverage::ScrapedNodes;
use source::{StartOptions, proxied_paths, start};
use tokio::sync::{mpsc, watch};

use super::api::*;

const AT: &str = "2026-11-21T06:40:00Z";

fn wide() -> Namespaces {
    Namespaces::All {
        otherwise: "default".into(),
        of_context: true,
    }
}

fn at_url(url: &str) -> PrometheusOptions {
    PrometheusOptions {
        endpoint: Some(PrometheusEndpoint::Direct(Endpoint {
            name: "prometheus".into(),
            url: url.into(),
            ..Endpoint::default()
        })),
        history: Duration::ZERO,
        timeout: PATIENCE,
        ..PrometheusOptions::default()
    }
}

/// The simulated fleet on loopback, its clock standing still.
async fn fleet(honor_labels: bool) -> Running {
    let any = Some("127.0.0.1:0".parse().unwrap());
    let options = ServeOptions {
        speed: 0.0,
        exporters: any,
        prometheus: any,
        honor_labels,
        ..ServeOptions::default()
    };
    let world = world::World::new(world::Options {
        seed: 3,
        nodes: Some(12),
        devices: None,
        past: true,
        at: Moment::parse(AT).unwrap(),
    });
    let zero = Moment::parse(AT).unwrap();
    Sim::start(options, Box::new(world), Arc::new(move || zero))
        .await
        .expect("it serves")
}

fn observe(
    sim: &Running,
    folder: &std::path::Path,
    scrape: Option<ScrapeOptions>,
    prometheus: Option<PrometheusOptions>,
) -> Bench {
    let config = folder.join("config");
    std::fs::write(&config, &sim.kubeconfig).unwrap();
    let choice = ContextChoice {
        kubeconfig: Some(config),
        context: Some("sim-viewer".into()),
        environment: Arc::new(|_| None),
        ..ContextChoice::default()
    };
    let dialects = Dialects::builtin();
    let start_at = tokio::time::Instant::now();
    let zero = Moment::parse(AT).unwrap();
    let clock = Arc::new(move || zero.plus(start_at.elapsed()));
    let connection = connect(choice, clock, proxied_paths(&dialects), false).expect("a config");
    let (out, seen) = mpsc::channel(64);
    let reach = watch::Sender::new(ScrapedNodes::All);
    let (screen, on_screen) = watch::channel(Default::default());
    let sources = start(StartOptions {
        connection,
        namespaces: wide(),
        tables: vec![Table::Nodes, Table::Pods],
        govern_namespace: "stokehold".to_owned(),
        dialects: Arc::new(dialects),
        scrape,
        prometheus,
        out,
        on_screen,
        reach: reach.subscribe(),
    });
    Bench {
        seen,
        observations: Vec::new(),
        sources,
        screen,
        reach,
    }
}

/// What tells one reading from another.
type Key = (
    Option<Name>,
    Name,
    u8,
    Option<u32>,
    Option<Name>,
    Option<Name>,
    String,
);

/// Readings by what they are about, of the first page of each exporter.
async fn readings(mut bench: Bench, exporters: usize) -> BTreeMap<Key, Reading> {
    let mut pages: BTreeMap<(Option<Name>, Name), Page> = BTreeMap::new();
    while pages.len() < exporters {
        bench
            .until("pages", |one| matches!(one, Observation::Page(_)))
            .await;
        for one in std::mem::take(&mut bench.observations) {
            if let Observation::Page(page) = one {
                let dialect = page.readings[0].dialect.clone();
                pages.entry((page.node.clone(), dialect)).or_insert(*page);
            }
        }
    }
    let mut all = BTreeMap::new();
    for page in pages.into_values() {
        for reading in page.readings {
            let key = (
                page.node.clone(),
                reading.dialect.clone(),
                reading.scope as u8,
                reading.index,
                reading.uuid.clone(),
                reading.slice.clone(),
                reading
                    .pod
                    .clone()
                    .map(|pod| pod.to_string())
                    .unwrap_or_default(),
            );
            assert!(all.insert(key, reading).is_none());
        }
    }
    all
}

fn assert_same(found: &BTreeMap<Key, Reading>, wanted: &BTreeMap<Key, Reading>, how: &str) {
    for (key, reading) in wanted {
        assert_eq!(found.get(key), Some(reading), "{how}: {key:?}");
    }
    assert_eq!(found.len(), wanted.len(), "{how}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readings_are_the_same_over_prometheus_and_scrapes() {
    let folder = tempfile::tempdir().unwrap();
    let sim = fleet(false).await;
    let served: Vec<(String, u16)> = {
        let core = sim.cluster().core();
        let all = core.world.exporters();
        all.iter()
            .map(|(pod, port, _)| (format!("/{}/{}", pod.namespace, pod.name), *port))
            .collect()
    };
    assert!(served.len() >= 12, "{served:?}");
    let proxied = ScrapeOptions {
        mode: ScrapeAccess::Proxy,
        per_second: 1000.0,
        timeout: PATIENCE,
        ..ScrapeOptions::default()
    };
    let bench = observe(&sim, folder.path(), Some(proxied), None);
    let through_proxy = readings(bench, served.len()).await;
    let held = through_proxy
        .values()
        .filter(|reading| reading.pod.is_some())
        .count();
    let dialects: std::collections::BTreeSet<&str> = through_proxy
        .values()
        .map(|reading| reading.dialect.as_str())
        .collect();
    assert!(held > 20 && dialects.len() == 3, "{held} {dialects:?}");
    assert!(
        through_proxy
            .values()
            .any(|reading| reading.scope == ReadingScope::Slice)
    );

    // Directly: the settings say which node each page is about.
    let nodes: BTreeMap<String, Name> = {
        let core = sim.cluster().core();
        let pods = core.world.exporters();
        pods.iter()
            .map(|(pod, _, _)| {
                let object = core
                    .store
                    .get(sim::change::Resource::Pods, &pod.namespace, &pod.name)
                    .expect("is there");
                let node = object
                    .pointer("/spec/nodeName")
                    .and_then(Value::as_str)
                    .unwrap();
                (format!("/{}/{}", pod.namespace, pod.name), Name::new(node))
            })
            .collect()
    };
    let exporters = sim.exporters.clone().unwrap();
    let direct = ScrapeOptions {
        endpoints: served
            .iter()
            .map(|(path, port)| Endpoint {
                name: path.clone(),
                url: format!("{exporters}{path}:{port}/metrics"),
                node: Some(nodes[path].to_string()),
                ..Endpoint::default()
            })
            .collect(),
        mode: ScrapeAccess::Proxy,
        per_second: 0.1,
        timeout: PATIENCE,
        ..ScrapeOptions::default()
    };
    let bench = observe(&sim, folder.path(), Some(direct), None);
    assert_eq!(
        readings(bench, served.len()).await,
        through_proxy,
        "directly"
    );

    for honor in [false, true] {
        let sim = fleet(honor).await;
        let options = at_url(sim.prometheus.as_deref().unwrap());
        let bench = observe(&sim, folder.path(), None, Some(options));
        let found = readings(bench, served.len()).await;
        assert_same(
            &found,
            &through_proxy,
            &format!("from Prometheus, honorLabels {honor}"),
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_past_is_filled_in_behind_the_present() {
    let folder = tempfile::tempdir().unwrap();
    let sim = fleet(false).await;
    let options = PrometheusOptions {
        history: Duration::from_secs(600),
        per_minute: 6000.0,
        ..at_url(sim.prometheus.as_deref().unwrap())
    };
    let mut bench = observe(&sim, folder.path(), None, Some(options));
    let mut past = Vec::new();
    while !past
        .iter()
        .any(|past: &model::fleet::observe::PastPages| past.last)
    {
        bench
            .until("the past", |one| matches!(one, Observation::Past(_)))
            .await;
        for one in std::mem::take(&mut bench.observations) {
            if let Observation::Past(found) = one {
                past.push(*found);
            }
        }
    }
    let pages: Vec<&Page> = past.iter().flat_map(|past| &past.pages).collect();
    let moments: std::collections::BTreeSet<i64> =
        pages.iter().map(|page| page.at.millis()).collect();
    assert_eq!(moments.len(), 11, "every minute of ten");
    assert!(pages.iter().all(|page| page.node.is_some()));
    let readings = || pages.iter().flat_map(|page| &page.readings);
    assert!(readings().all(|reading| reading.scope == ReadingScope::Device));
    assert!(readings().any(|reading| {
        reading
            .signals
            .get(Signal::Util)
            .is_some_and(|util| util > 0.5)
    }));
    assert!(readings().all(|reading| reading.signals.get(Signal::SmClock).is_none()));
}

const NAMES: &str = "/api/v1/label/__name__/values";

/// A cluster with two exporters and a Prometheus that scrapes one of them.
struct Watched {
    /// The API server answers nothing at all.
    down: AtomicBool,
    status: AtomicU16,
    queries: Mutex<Vec<String>>,
    scraped: AtomicUsize,
}

fn exporter(name: &str, node: &str, ip: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "gpu-operator", "uid": name, "resourceVersion": "1",
            "labels": {"app": "nvidia-dcgm-exporter"}},
        "spec": {"nodeName": node, "containers": [{"ports": [{"name": "metrics", "containerPort": 9400}]}]},
        "status": {"phase": "Running", "podIP": ip,
            "containerStatuses": [{"state": {"running": {"startedAt": "2026-11-01T00:00:00Z"}}}]}})
}

fn vector(rows: Vec<Value>) -> Reply {
    Reply::Json(
        200,
        json!({"status": "success", "data": {"resultType": "vector", "result": rows}}),
    )
}

fn watched() -> (Server, Arc<Watched>) {
    let state = Arc::new(Watched {
        down: AtomicBool::new(false),
        status: AtomicU16::new(200),
        queries: Mutex::default(),
        scraped: AtomicUsize::new(0),
    });
    let table = ServedTable::new(
        vec![
            exporter("dcgm-a", "gpu-a", "10.0.0.1"),
            exporter("dcgm-b", "gpu-b", "10.0.0.2"),
        ],
        0,
    );
    let own = Arc::clone(&state);
    let server = Server::new(move |asked| {
        if own.down.load(Ordering::SeqCst) {
            return Reply::Broken(std::io::ErrorKind::ConnectionRefused);
        }
        if asked.path == "/api/v1/pods" {
            return table.answer(asked);
        }
        if asked.path == "/api/v1/services" {
            let item = json!({"metadata": {"name": "prometheus", "namespace": "monitoring"},
                "spec": {"ports": [{"name": "http", "port": 9090}]}});
            return Reply::Json(200, json!({"kind": "ServiceList", "items": [item]}));
        }
        if asked.path.contains("/pods/dcgm-") {
            own.scraped.fetch_add(1, Ordering::SeqCst);
            let page = b"DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-x\"} 11\n";
            return Reply::Text(200, "text/plain", page.to_vec());
        }
        let base = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy";
        let Some(path) = asked.path.strip_prefix(base) else {
            return not_found();
        };
        let status = own.status.load(Ordering::SeqCst);
        if status != 200 {
            let body = json!({"status": "error", "errorType": "unavailable", "error": "it is ill"});
            return Reply::Json(status, body);
        }
        if path == NAMES {
            return Reply::Json(
                200,
                json!({"status": "success", "data": ["up", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP"]}),
            );
        }
        let query = asked.param("query").unwrap_or_default();
        own.queries.lock().unwrap().push(query.clone());
        let now = 1_800_000_000.0;
        let target = json!({"job": "dcgm", "instance": "10.0.0.1:9400", "namespace": "gpu-operator", "pod": "dcgm-a"});
        let with = |more: Value| {
            let mut labels = target.clone();
            for (key, value) in more.as_object().unwrap() {
                labels[key] = value.clone();
            }
            labels
        };
        if query.starts_with("timestamp") {
            return vector(vec![
                json!({"metric": target, "value": [now, (now - 12.0).to_string()]}),
            ]);
        }
        // Two metrics at once are more than this one gives.
        if query.contains("GPU_UTIL") && query.contains("GPU_TEMP") {
            let error = "query processing would load too many samples into memory";
            return Reply::Json(
                422,
                json!({"status": "error", "errorType": "execution", "error": error}),
            );
        }
        let name = if query.contains("GPU_UTIL") {
            "DCGM_FI_DEV_GPU_UTIL"
        } else {
            "DCGM_FI_DEV_GPU_TEMP"
        };
        vector(vec![
            json!({"metric": with(json!({"__name__": name, "gpu": "0", "UUID": "GPU-a"})), "value": [now, "50"]}),
        ])
    });
    (server, state)
}

fn through_service() -> PrometheusOptions {
    PrometheusOptions {
        endpoint: Some(PrometheusEndpoint::Service(ServiceAddress {
            namespace: "monitoring".into(),
            name: "prometheus".into(),
            port: "9090".into(),
            tls: false,
            prefix: String::new(),
        })),
        interval: Duration::from_millis(300),
        per_minute: 3000.0,
        history: Duration::ZERO,
        ..PrometheusOptions::default()
    }
}

fn bench(server: &Server, prometheus: PrometheusOptions) -> Bench {
    let scrape = ScrapeOptions {
        mode: ScrapeAccess::Proxy,
        ..ScrapeOptions::default()
    };
    run_all(
        server,
        &[Table::Pods],
        wide(),
        Some(scrape),
        Some(prometheus),
        Dialects::builtin(),
    )
}

async fn row(bench: &mut Bench, state: SourceState) -> SourceHealth {
    let found = bench
        .until("Prometheus' row", |one| {
            matches!(one, Observation::Source(row) if &*row.kind == "prometheus" && row.state == state)
        })
        .await;
    match found {
        Observation::Source(row) => row,
        _ => unreachable!("it was chosen"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_prometheus_reads_is_not_asked_for_until_it_is_lost() {
    let (server, state) = watched();
    let mut bench = bench(&server, through_service());
    let live = row(&mut bench, SourceState::Live).await;
    assert_eq!(&*live.name, "prometheus monitoring/prometheus:9090");
    assert_eq!(live.series_used, Some(2), "{live:?}");
    assert!(live.message.contains("1 of dcgm"), "{}", live.message);
    let page = bench.observations.iter().find_map(|one| match one {
        Observation::Page(page) if page.node.as_deref() == Some("gpu-a") => Some(page.clone()),
        _ => None,
    });
    let page = page.expect("it comes from Prometheus");
    // Its samples are as old as the scrape.
    let age = 1_800_000_000_000 - page.at.millis();
    assert_eq!(age, 12_000);
    assert_eq!(page.readings[0].signals.get(Signal::Util), Some(0.5));
    assert_eq!(
        page.readings[0].signals.get(Signal::Temp),
        Some(50.0),
        "asked for in two halves"
    );
    assert_eq!(
        page.readings[0].pod, None,
        "the exporter's own pod holds nothing"
    );
    // The other exporter is unknown to Prometheus and asked itself.
    bench
        .until(
            "the other's page",
            |one| matches!(one, Observation::Page(page) if page.node.as_deref() == Some("gpu-b")),
        )
        .await;
    let names = |bench: &Bench| -> Vec<String> {
        let rows = bench.observations.iter().filter_map(|one| match one {
            Observation::Source(row) if &*row.kind == "dcgm" => Some(row.name.to_string()),
            _ => None,
        });
        rows.collect()
    };
    assert!(
        names(&bench).iter().all(|name| name.ends_with("dcgm-b")),
        "{:?}",
        names(&bench)
    );
    assert_eq!(state.scraped.load(Ordering::SeqCst), 1);
    // The same scrape again is no news, and the halves are remembered.
    bench.observations.clear();
    bench.during(Duration::from_secs(1)).await;
    assert!(
        !bench
            .observations
            .iter()
            .any(|one| matches!(one, Observation::Page(_)))
    );
    let whole = state
        .queries
        .lock()
        .unwrap()
        .iter()
        .filter(|query| query.contains("GPU_UTIL") && query.contains("GPU_TEMP"))
        .count();
    assert_eq!(whole, 1);
    // Lost: the exporter is asked itself, and the row says so.
    state.status.store(503, Ordering::SeqCst);
    let lost = row(&mut bench, SourceState::Lost).await;
    assert!(
        lost.message.contains("503") && lost.message.contains("it is ill"),
        "{}",
        lost.message
    );
    bench
        .until(
            "the exporter's own page",
            |one| matches!(one, Observation::Page(page) if page.node.as_deref() == Some("gpu-a")),
        )
        .await;
    let lost = bench.observations.iter().rev().find_map(|one| match one {
        Observation::Source(row) if &*row.kind == "prometheus" => Some(row.message.clone()),
        _ => None,
    });
    assert!(
        lost.as_ref()
            .is_some_and(|words| words.contains("scraped instead")),
        "{lost:?}"
    );
    // Back: its row goes again.
    state.status.store(200, Ordering::SeqCst);
    bench
        .until(
            "the end of the exporter's row",
            |one| matches!(one, Observation::SourceGone(name) if name.ends_with("dcgm-a")),
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn prometheus_is_asked_at_once_when_the_api_server_answers_again() {
    let (server, state) = watched();
    let options = PrometheusOptions {
        interval: Duration::from_secs(60),
        ..through_service()
    };
    let mut bench = bench(&server, options);
    row(&mut bench, SourceState::Live).await;
    let last_state = |bench: &Bench| {
        let rows = bench.observations.iter().rev().filter_map(|one| match one {
            Observation::Source(row) if &*row.kind == "prometheus" => Some(row.state),
            _ => None,
        });
        rows.take(1).next()
    };
    let tries = || {
        let log = server.log.lock().unwrap();
        let of_prometheus = |one: &&(_, SeenRequest)| one.1.path.contains("prometheus:9090");
        log.iter().filter(of_prometheus).count()
    };
    state.down.store(true, Ordering::SeqCst);
    // Long enough that it is tried once a minute only.
    bench.during(Duration::from_secs(500)).await;
    assert_eq!(last_state(&bench), Some(SourceState::Lost));
    let before = tries();
    let mut waited = 0;
    while tries() == before {
        bench.during(Duration::from_secs(1)).await;
        waited += 1;
        assert!(waited < 70, "it is tried once a minute");
    }
    // Its own next try is a minute away.
    state.down.store(false, Ordering::SeqCst);
    bench.during(Duration::from_secs(30)).await;
    assert_eq!(last_state(&bench), Some(SourceState::Live));
}

#[tokio::test(start_paused = true)]
async fn a_prometheus_of_the_cluster_is_found_by_its_service() {
    let (server, _) = watched();
    let mut bench = bench(
        &server,
        PrometheusOptions {
            endpoint: None,
            ..through_service()
        },
    );
    let live = row(&mut bench, SourceState::Live).await;
    assert_eq!(&*live.name, "prometheus monitoring/prometheus:9090");
}

#[tokio::test(start_paused = true)]
async fn where_services_may_not_be_listed_exporters_are_asked_at_once() {
    let table = ServedTable::new(vec![exporter("dcgm-a", "gpu-a", "10.0.0.1")], 0);
    let server = Server::new(move |asked| match &*asked.path {
        "/api/v1/pods" => table.answer(asked),
        "/api/v1/services" => status(403, "Forbidden", "services is forbidden"),
        path if path.contains("/pods/dcgm-") => {
            let page = b"DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-x\"} 11\n";
            Reply::Text(200, "text/plain", page.to_vec())
        }
        _ => not_found(),
    });
    let mut bench = bench(&server, PrometheusOptions::default());
    bench
        .until("page", |one| matches!(one, Observation::Page(_)))
        .await;
    let gone =
        |one: &Observation| matches!(one, Observation::SourceGone(name) if &**name == "prometheus");
    if !bench.observations.iter().any(gone) {
        bench.until("the end of looking", gone).await;
    }
    let services = server
        .asked()
        .iter()
        .filter(|asked| asked.path == "/api/v1/services")
        .count();
    assert_eq!(services, 1, "refused once is enough");
}

#[tokio::test(start_paused = true)]
async fn prometheus_faults_are_reported_with_the_fix() {
    for (reply, words) in [
        (
            Reply::Json(
                403,
                json!({"kind": "Status", "message": "services is forbidden"}),
            ),
            "services/proxy",
        ),
        (
            Reply::Text(404, "text/plain", b"404 page not found".to_vec()),
            "no dialect's",
        ),
        (
            Reply::Text(200, "text/html", b"<html>Grafana</html>".to_vec()),
            "HTML",
        ),
        (
            Reply::Json(200, json!({"hello": 1})),
            "not an answer of a Prometheus API",
        ),
        (
            Reply::With(302, vec![("location", "/login".into())], Vec::new()),
            "redirects",
        ),
        (Reply::Hang, "no answer within"),
    ] {
        let once = Mutex::new(Some(reply));
        let hangs = words.starts_with("no answer within");
        let server = Server::new(move |asked| {
            if !asked.path.contains("/proxy/") {
                return not_found();
            }
            match once.lock().unwrap().take() {
                Some(reply) => reply,
                None if hangs => Reply::Hang,
                None => Reply::Json(404, json!({"status": "error", "error": "gone"})),
            }
        });
        let options = PrometheusOptions {
            timeout: Duration::from_secs(1),
            ..through_service()
        };
        let mut bench = run_all(
            &server,
            &[],
            wide(),
            None,
            Some(options),
            Dialects::builtin(),
        );
        let lost = row(&mut bench, SourceState::Lost).await;
        if words != "no dialect's" && words != "services/proxy" {
            assert!(lost.message.contains(words), "{words}: {}", lost.message);
        }
        assert!(
            lost.message.len() > 20 && !lost.message.contains('<'),
            "{}",
            lost.message
        );
    }
}

#[tokio::test]
async fn matchers_and_credentials_go_with_every_question() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/prefix/", listener.local_addr().unwrap());
    let heads = Arc::clone(&seen);
    tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        while let Ok((mut socket, _)) = listener.accept().await {
            let heads = Arc::clone(&heads);
            tokio::spawn(async move {
                let mut buffer = vec![0; 16384];
                while let Ok(read @ 1..) = socket.read(&mut buffer).await {
                    let head = String::from_utf8_lossy(&buffer[..read]).into_owned();
                    let body = if head.contains("__name__/values") {
                        r#"{"status":"success","data":["DCGM_FI_DEV_GPU_UTIL"]}"#
                    } else {
                        r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#
                    };
                    heads.lock().unwrap().push(head);
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    if socket.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let mut options = at_url(&url);
    if let Some(PrometheusEndpoint::Direct(endpoint)) = &mut options.endpoint {
        endpoint.bearer_file = Some(token);
        endpoint
            .headers
            .insert("X-Scope-OrgID".into(), "gpu".into());
    }
    options.matchers = Matchers::parse("cluster=\"a b\"").unwrap();
    let server = Server::new(|_| not_found());
    let mut bench = run_all(
        &server,
        &[],
        wide(),
        None,
        Some(options),
        Dialects::builtin(),
    );
    let live = row(&mut bench, SourceState::Live).await;
    assert!(
        live.message.contains("no current exporter samples"),
        "{}",
        live.message
    );
    let heads = seen.lock().unwrap().clone();
    assert_eq!(heads.len(), 2, "{heads:#?}");
    for head in &heads {
        let lower = head.to_ascii_lowercase();
        assert!(head.starts_with("GET /prefix/api/v1/"), "{head}");
        assert!(
            lower.contains("authorization: bearer s3cret") && lower.contains("x-scope-orgid: gpu")
        );
        assert!(head.contains("cluster%3D%22a%20b%22"), "{head}");
    }
    assert!(!live.message.contains("s3cret"));
}
