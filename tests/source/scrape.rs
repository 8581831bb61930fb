//! Exporters' pages through the API server and at their addresses.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use exporter::Dialects;
use model::base::Name;
use model::fleet::observe::{Observation, SourceHealth, SourceState, Table};
use model::fleet::signal::Signal;
use serde_json::{Value, json};
use source::kubernetes::Namespaces;
use source::scrape::ask::Endpoint;
use source::scrape::{ScrapeAccess, ScrapeOptions};
use source::scrape_coverage::ScrapedNodes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::api::*;

const PAGE: &str = "# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"x\"} 73
DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",UUID=\"GPU-2\",modelName=\"NVIDIA H100 80GB HBM3\",Hostname=\"x\"} 0
";

fn exporter(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "gpu-operator", "uid": name, "resourceVersion": "1",
            "labels": {"app": "nvidia-dcgm-exporter"}},
        "spec": {"nodeName": node, "containers": [{"ports": [{"name": "metrics", "containerPort": 9400}]}]},
        "status": {"phase": "Running", "podIP": "127.0.0.1",
            "containerStatuses": [{"state": {"running": {"startedAt": "2026-11-01T00:00:00Z"}}}]}})
}

/// How long an exporter has for its answer.
const TIMEOUT: Duration = Duration::from_millis(400);

fn options(mode: ScrapeAccess) -> ScrapeOptions {
    ScrapeOptions {
        mode,
        timeout: TIMEOUT,
        ..ScrapeOptions::default()
    }
}

/// The same for exporters behind sockets: real time may not run out before they answer.
fn over_sockets(mode: ScrapeAccess) -> ScrapeOptions {
    ScrapeOptions {
        timeout: PATIENCE,
        ..options(mode)
    }
}

/// A page of 17 MiB in few bytes.
fn bomb() -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..17 {
        std::io::Write::write_all(&mut out, &vec![b'#'; 1 << 20]).unwrap();
    }
    out.finish().unwrap()
}

fn serving(table: &ServedTable, page: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Server {
    let table = table.clone();
    Server::new(move |asked| {
        if asked.path == "/api/v1/pods" {
            return table.answer(asked);
        }
        match asked
            .path
            .strip_prefix("/api/v1/namespaces/gpu-operator/pods/")
        {
            Some(rest) => page(rest),
            None => not_found(),
        }
    })
}

fn bench(server: &Server, options: ScrapeOptions) -> Bench {
    let all = Namespaces::All {
        otherwise: "default".into(),
        of_context: true,
    };
    run_with(
        server,
        &[Table::Pods],
        all,
        Some(options),
        Dialects::builtin(),
    )
}

async fn row(bench: &mut Bench, name: &str) -> SourceHealth {
    let found = bench
        .until(
            name,
            |one| matches!(one, Observation::Source(row) if &*row.name == name && row.state != SourceState::Stale),
        )
        .await;
    match found {
        Observation::Source(row) => row,
        _ => unreachable!("it was chosen"),
    }
}

fn page() -> Reply {
    Reply::Text(200, "text/plain; version=0.0.4", PAGE.into())
}

#[tokio::test(start_paused = true)]
async fn all_exporters_are_reported_before_discovery_is_complete() {
    let table = ServedTable::new(["a", "b", "c"].map(|node| exporter(node, node)).to_vec(), 0);
    let server = serving(&table, |_| page());
    let mut bench = bench(&server, options(ScrapeAccess::Auto));
    let found = |one: &Observation| matches!(one, Observation::ExportersFound);
    bench.until("the end of the list", found).await;
    let before = bench.observations.iter().take_while(|one| !found(one));
    let rows: std::collections::BTreeSet<&str> = before
        .filter_map(|one| match one {
            Observation::Source(row) => row.name.strip_prefix("dcgm gpu-operator/"),
            _ => None,
        })
        .collect();
    assert_eq!(rows.into_iter().collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_page_comes_through_the_proxy_and_is_its_nodes() {
    let table = ServedTable::new(
        vec![
            exporter("dcgm-a", "gpu-a"),
            json!({"metadata": {"name": "web", "resourceVersion": "1"}}),
        ],
        0,
    );
    let server = serving(&table, |rest| match rest {
        "dcgm-a:9400/proxy/metrics" => page(),
        _ => not_found(),
    });
    let mut bench = bench(&server, options(ScrapeAccess::Auto));
    let found = bench
        .until("page", |one| matches!(one, Observation::Page(_)))
        .await;
    let Observation::Page(page) = found else {
        unreachable!("it was chosen")
    };
    assert_eq!(page.node.as_deref(), Some("gpu-a"));
    assert_eq!(page.interval, Duration::from_secs(30));
    assert_eq!(page.readings.len(), 2);
    assert_eq!(page.readings[0].signals.get(Signal::Util), Some(0.73));
    assert_eq!(page.readings[1].signals.get(Signal::Util), Some(0.0));
    let row = bench.observations.iter().find_map(|one| match one {
        Observation::Source(row)
            if row.name.starts_with("dcgm ") && row.state != SourceState::Stale =>
        {
            Some(row.clone())
        }
        _ => None,
    });
    let row = row.expect("a row comes with the page");
    assert_eq!(&*row.name, "dcgm gpu-operator/dcgm-a");
    assert_eq!(
        (row.state, row.series_used, row.calls_per_minute),
        (SourceState::Live, Some(2), Some(1))
    );
    // Asked once: the exporter has nothing new for thirty seconds.
    bench.during(Duration::from_secs(29)).await;
    assert_eq!(pages(&server).len(), 1);
    // A pod that goes takes its row along.
    table.event("DELETED", exporter("dcgm-a", "gpu-a"));
    bench.until("end of the row", |one| matches!(one, Observation::SourceGone(name) if &**name == "dcgm gpu-operator/dcgm-a")).await;
}

#[tokio::test(start_paused = true)]
async fn exporter_faults_are_reported_with_the_fix() {
    let table = ServedTable::new(
        [
            "good", "absent", "broken", "html", "bomb", "hung", "unready", "noise",
        ]
        .map(|name| exporter(name, name))
        .to_vec(),
        0,
    );
    let bomb = bomb();
    let server = serving(&table, move |rest| match rest.split(':').next().unwrap() {
        "good" => page(),
        "absent" => status(404, "NotFound", "pods \"absent\" not found"),
        "broken" => Reply::Text(500, "text/plain", b"collector panicked\n".to_vec()),
        "html" => Reply::Text(200, "text/html", b"<html>Grafana</html>".to_vec()),
        "bomb" => Reply::With(200, vec![("content-encoding", "gzip".into())], bomb.clone()),
        "hung" => Reply::Hang,
        "unready" => status(
            503,
            "ServiceUnavailable",
            "error trying to reach service: dial tcp 10.0.0.1:9400: connect: connection refused",
        ),
        _ => Reply::Text(
            200,
            "text/plain",
            b"\xff\xfe\x00nonsense{{{ 1\nfoo_total 1\n".to_vec(),
        ),
    });
    let mut bench = bench(&server, options(ScrapeAccess::Proxy));
    let mut rows = BTreeMap::new();
    while rows.len() < 8 {
        let found = bench
            .until(
                "row",
                |one| matches!(one, Observation::Source(row) if row.name.starts_with("dcgm ") && row.state != SourceState::Stale),
            )
            .await;
        if let Observation::Source(row) = found {
            rows.insert(row.name.rsplit('/').next().unwrap().to_owned(), row);
        }
        for one in std::mem::take(&mut bench.observations) {
            if let Observation::Source(row) = one
                && row.name.starts_with("dcgm ")
                && row.state != SourceState::Stale
            {
                rows.insert(row.name.rsplit('/').next().unwrap().to_owned(), row);
            }
        }
    }
    assert_eq!(rows["good"].state, SourceState::Live);
    for (name, words) in [
        ("absent", "check port and path"),
        ("broken", "collector panicked"),
        ("html", "HTML"),
        ("bomb", "larger than 16 MiB"),
        ("hung", "no answer within"),
        ("unready", "connection refused"),
    ] {
        let row = &rows[name];
        assert_eq!((row.state, row.errors), (SourceState::Lost, 1), "{name}");
        assert!(row.message.contains(words), "{name}: {}", row.message);
        let [error] = &*row.last_errors else {
            panic!("{name}: {:?}", row.last_errors);
        };
        assert_eq!(error.message, row.message, "{name}");
        assert!(Some(error.at) >= row.failing_since, "{name}: {error:?}");
    }
    assert!(!rows["noise"].message.is_empty(), "{:?}", rows["noise"]);
}

#[tokio::test(start_paused = true)]
async fn an_exporter_that_has_just_come_is_not_lost_yet() {
    let mut young = exporter("young", "young");
    let now = clock()().rfc3339();
    young["status"]["containerStatuses"][0]["state"]["running"]["startedAt"] = json!(now);
    let table = ServedTable::new(vec![young, exporter("old", "old")], 0);
    let server = serving(&table, |_| status(404, "NotFound", "not there"));
    let mut bench = bench(&server, options(ScrapeAccess::Proxy));
    for (name, state) in [("old", SourceState::Lost), ("young", SourceState::Stale)] {
        let name = format!("dcgm gpu-operator/{name}");
        let tried = |one: &Observation| matches!(one, Observation::Source(row) if *row.name == *name && row.errors > 0);
        let observation = bench.observations.iter().find(|one| tried(one)).cloned();
        let found = match observation {
            Some(found) => found,
            None => bench.until(&name, tried).await,
        };
        let Observation::Source(row) = found else {
            unreachable!("it was chosen")
        };
        assert_eq!(row.state, state, "{name}");
        assert!(row.failing_since.is_some(), "{name} fails all the same");
    }
}

#[tokio::test(start_paused = true)]
async fn hung_exporters_hold_no_other_up() {
    let all: Vec<Value> = (0..60)
        .map(|at| {
            exporter(
                &format!("{}-{at}", if at % 2 == 0 { "hung" } else { "good" }),
                &format!("n{at}"),
            )
        })
        .collect();
    let table = ServedTable::new(all, 0);
    let server = serving(&table, |rest| {
        if rest.starts_with("hung") {
            Reply::Hang
        } else {
            page()
        }
    });
    let mut bench = bench(
        &server,
        ScrapeOptions {
            per_second: 1000.0,
            in_flight: 8,
            ..options(ScrapeAccess::Proxy)
        },
    );
    let mut nodes = std::collections::BTreeSet::new();
    let start = tokio::time::Instant::now();
    while nodes.len() < 30 {
        bench
            .until("page", |one| matches!(one, Observation::Page(_)))
            .await;
        for one in std::mem::take(&mut bench.observations) {
            if let Observation::Page(page) = one {
                nodes.insert(page.node.expect("from a pod"));
            }
        }
    }
    // Seven of the eight slots are for exporters that were not asked yet: thirty that hang hold these five times in all.
    assert!(start.elapsed() <= 5 * TIMEOUT, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_budget_holds_on_the_wire() {
    let all: Vec<Value> = (0..80)
        .map(|at| exporter(&format!("good-{at}"), &format!("n{at}")))
        .collect();
    let table = ServedTable::new(all, 0);
    let server = serving(&table, |_| page());
    let mut bench = bench(
        &server,
        ScrapeOptions {
            per_second: 20.0,
            burst: 0,
            ..options(ScrapeAccess::Proxy)
        },
    );
    bench
        .screen
        .send_replace(["n70", "n71"].map(Name::new).into_iter().collect());
    bench.during(Duration::from_secs(10)).await;
    let log = server.log.lock().unwrap();
    let proxied: Vec<_> = log
        .iter()
        .filter(|(_, asked)| asked.path.contains("/proxy/"))
        .collect();
    assert_eq!(proxied.len(), 80);
    for pair in proxied.windows(2) {
        assert_eq!(pair[1].0 - pair[0].0, Duration::from_millis(50));
    }
    let early: Vec<&str> = proxied
        .iter()
        .take(8)
        .map(|(_, asked)| asked.path.as_str())
        .collect();
    for near in ["good-70:", "good-71:"] {
        assert!(
            early.iter().any(|path| path.contains(near)),
            "{near} is on screen: {early:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn throttling_is_obeyed() {
    let table = ServedTable::new(
        (0..20)
            .map(|at| exporter(&format!("e-{at}"), &format!("n{at}")))
            .collect(),
        0,
    );
    let first = Arc::new(Mutex::new(true));
    let server = serving(&table, move |_| {
        if std::mem::take(&mut *first.lock().unwrap()) {
            Reply::With(429, vec![("retry-after", "2".into())], Vec::new())
        } else {
            page()
        }
    });
    let mut bench = bench(
        &server,
        ScrapeOptions {
            burst: 0,
            ..options(ScrapeAccess::Proxy)
        },
    );
    bench
        .until("page", |one| matches!(one, Observation::Page(_)))
        .await;
    bench.during(Duration::from_secs(2)).await;
    let log = server.log.lock().unwrap();
    let proxied: Vec<_> = log
        .iter()
        .filter(|(_, asked)| asked.path.contains("/proxy/"))
        .collect();
    // Nothing for the two seconds that it asks for, then at half of the twenty requests a second.
    let waits: Vec<Duration> = proxied
        .windows(2)
        .map(|pair| pair[1].0 - pair[0].0)
        .collect();
    assert_eq!(waits[0], Duration::from_secs(2));
    assert_eq!(waits[1..], [Duration::from_millis(100); 18]);
}

/// The pages that were asked for through the API server.
fn pages(server: &Server) -> Vec<String> {
    let asked = server.asked();
    let paths = asked.iter().map(|asked| asked.path.clone());
    paths.filter(|path| path.contains("/proxy/")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_first_look_is_a_burst_and_the_first_429_ends_it() {
    let exporters = (0..300).map(|at| exporter(&format!("e-{at}"), &format!("n{at}")));
    let table = ServedTable::new(exporters.collect(), 0);
    let left = Arc::new(Mutex::new(100));
    let server = serving(&table, move |_| {
        let mut left = left.lock().unwrap();
        *left -= 1;
        match *left {
            0 => Reply::With(429, vec![("retry-after", "60".into())], Vec::new()),
            _ => page(),
        }
    });
    let mut bench = bench(
        &server,
        ScrapeOptions {
            per_second: 1.0,
            in_flight: 4,
            ..options(ScrapeAccess::Proxy)
        },
    );
    let throttled = |one: &Observation| matches!(one, Observation::Source(row) if row.message.starts_with("429"));
    bench.until("the 429", throttled).await;
    let asked = pages(&server).len();
    // Those under way when it came are answered; nobody is asked for the minute after it.
    assert!((100..=103).contains(&asked), "{asked}");
    bench.during(Duration::from_secs(59)).await;
    assert_eq!(pages(&server).len(), asked);
    bench.during(Duration::from_secs(2)).await;
    assert_eq!(pages(&server).len(), asked + 1, "then one by one");
}

#[tokio::test(start_paused = true)]
async fn only_exporters_whose_readings_are_needed_are_asked() {
    let table = ServedTable::new(["a", "b", "c"].map(|node| exporter(node, node)).to_vec(), 0);
    let server = serving(&table, |_| page());
    let found = |one: &Observation| matches!(one, Observation::ExportersFound);
    let mut bench = bench(&server, options(ScrapeAccess::Proxy));
    bench.reach.send_replace(ScrapedNodes::Undecided);
    bench.end(Table::Pods).await;
    bench.during(Duration::from_secs(60)).await;
    assert!(
        !bench.observations.iter().any(found),
        "who is asked is not decided"
    );
    let none = std::collections::BTreeSet::new();
    bench.reach.send_replace(ScrapedNodes::Nodes(none));
    bench.until("the end of the list", found).await;
    assert_eq!(pages(&server), Vec::<String>::new());
    bench
        .reach
        .send_replace(ScrapedNodes::Nodes([Name::new("b")].into()));
    let row = row(&mut bench, "dcgm gpu-operator/b").await;
    assert_eq!(row.state, SourceState::Live);
    assert_eq!(pages(&server).len(), 1, "{:?}", pages(&server));
}

/// A server on a port of this machine that answers every request with these bytes; gives what it was asked.
async fn listening(answer: &'static [u8]) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut buffer = vec![0; 8192];
            let read = socket.read(&mut buffer).await.unwrap_or(0);
            log.lock()
                .unwrap()
                .push(String::from_utf8_lossy(&buffer[..read]).into_owned());
            let _ = socket.write_all(answer).await;
        }
    });
    (port, asked)
}

#[tokio::test]
async fn where_the_proxy_is_refused_the_pod_is_asked_itself() {
    let (port, asked) = listening(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\"} 50\n").await;
    let mut pod = exporter("dcgm-a", "gpu-a");
    pod["spec"]["containers"][0]["ports"][0]["containerPort"] = port.into();
    let table = ServedTable::new(vec![pod], 0);
    let server = serving(&table, |_| {
        status(403, "Forbidden", "cannot get resource \"pods/proxy\"")
    });
    let mut auto = bench(&server, over_sockets(ScrapeAccess::Auto));
    let found = auto
        .until("page", |one| matches!(one, Observation::Page(_)))
        .await;
    assert!(matches!(found, Observation::Page(page) if page.node.as_deref() == Some("gpu-a")));
    assert!(asked.lock().unwrap()[0].starts_with("GET /metrics HTTP/1.1"));
    // Told to use the proxy only, it says what right is missing.
    let mut proxied = bench(&server, over_sockets(ScrapeAccess::Proxy));
    let row = row(&mut proxied, "dcgm gpu-operator/dcgm-a").await;
    assert!(
        row.message.contains("pods/proxy") && row.state == SourceState::NotVisible,
        "{}",
        row.message
    );
}

#[tokio::test]
async fn endpoints_of_the_settings_are_read_with_their_headers() {
    let (port, asked) = listening(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nDCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\"} 50\n").await;
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let endpoint = |name: &str, url: String| Endpoint {
        name: name.into(),
        url,
        node: Some("rack-7".into()),
        headers: [("X-Scope-OrgID".to_owned(), "gpu".to_owned())].into(),
        bearer_file: Some(token.clone()),
        ca_file: None,
    };
    let server = Server::new(|_| not_found());
    let endpoints = vec![
        endpoint("rack7", format!("http://127.0.0.1:{port}/metrics")),
        endpoint("nobody", "http://127.0.0.1:1/metrics".into()),
        endpoint("nowhere", "not a url".into()),
        Endpoint {
            bearer_file: Some(folder.path().join("none")),
            ..endpoint("tokenless", "http://127.0.0.1:1/".into())
        },
    ];
    let mut bench = bench(
        &server,
        ScrapeOptions {
            endpoints,
            ..over_sockets(ScrapeAccess::Auto)
        },
    );
    let found = bench
        .until("page", |one| matches!(one, Observation::Page(_)))
        .await;
    assert!(matches!(found, Observation::Page(page) if page.node.as_deref() == Some("rack-7")));
    let request = asked.lock().unwrap()[0].to_ascii_lowercase();
    assert!(
        request.contains("authorization: bearer s3cret") && request.contains("x-scope-orgid: gpu"),
        "{request}"
    );
    let mut rows: BTreeMap<String, SourceHealth> = BTreeMap::new();
    while rows.len() < 4 {
        for one in std::mem::take(&mut bench.observations) {
            if let Observation::Source(row) = one
                && !row.name.starts_with("api")
                && row.state != SourceState::Stale
            {
                rows.insert(row.name.to_string(), row);
            }
        }
        if rows.len() < 4 {
            bench
                .until("row", |one| matches!(one, Observation::Source(_)))
                .await;
        }
    }
    assert_eq!(
        (rows["rack7"].state, &*rows["rack7"].kind),
        (SourceState::Live, "dcgm")
    );
    assert!(
        rows["nobody"].message.contains("nothing listens"),
        "{}",
        rows["nobody"].message
    );
    assert!(
        rows["nowhere"].message.contains("address"),
        "{}",
        rows["nowhere"].message
    );
    assert!(
        rows["tokenless"].message.contains("bearer_file"),
        "{}",
        rows["tokenless"].message
    );
    assert!(rows.values().all(|row| !row.message.contains("s3cret")));
}
