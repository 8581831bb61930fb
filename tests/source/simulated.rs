//! The sources on the simulated cluster, over HTTPS as any client, and in process as `demo` uses it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use exporter::Dialects;
use model::base::{Moment, ObjectKey};
use model::fleet::observe::{LostKind, Observation, SourceState, Table};
use serde_json::json;
use sim::change::{Request, Resource, ServedPage, SimBackend, WorldChange};
use sim::faults::InjectedFaults;
use sim::serve::{Running, ServeOptions, Server, embed};
use source::api_stats::Clock;
use source::client::{Connection, client_for, connect};
use source::kubeconfig::ContextChoice;
use source::kubernetes::Namespaces;
use source::scrape::{ScrapeAccess, ScrapeOptions};
use source::scrape_coverage::ScrapedNodes;
use source::{StartOptions, proxied_paths, start};
use tokio::sync::{mpsc, watch};

use super::api::{Bench, PATIENCE};

const START: &str = "2026-11-21T08:00:00Z";

/// One node with an exporter and a gang.
struct Rack {
    now: Moment,
}

impl Rack {
    fn boxed() -> Box<Self> {
        Box::new(Self {
            now: Moment::parse(START).unwrap(),
        })
    }
}

fn meta(namespace: &str, name: &str, labels: serde_json::Value) -> serde_json::Value {
    let mut meta = json!({"name": name, "uid": format!("uid-{name}"), "labels": labels, "creationTimestamp": "2026-11-21T07:00:00Z"});
    if !namespace.is_empty() {
        meta["namespace"] = namespace.into();
    }
    meta
}

fn pod(namespace: &str, name: &str, app: &str, gpus: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta(namespace, name, json!({"app": app})),
        "spec": {"nodeName": "gpu-1", "containers": [{"name": "main", "image": "i", "ports": [{"name": "metrics", "containerPort": 9400}],
            "resources": {"limits": {"nvidia.com/gpu": gpus}, "requests": {"nvidia.com/gpu": gpus}}}]},
        "status": {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0,
            "image": "i", "imageID": "", "state": {"running": {"startedAt": "2026-11-21T07:01:00Z"}}}]}})
}

impl SimBackend for Rack {
    fn start(&mut self) -> Vec<WorldChange> {
        let mut all = Vec::new();
        for (name, labels) in [
            ("default", json!({})),
            ("monitoring", json!({})),
            ("nlp", json!({"team": "nlp"})),
            ("vision", json!({"team": "vision"})),
        ] {
            all.push(WorldChange::Put(Resource::Namespaces, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta("", name, labels), "status": {"phase": "Active"}})));
        }
        all.push(WorldChange::Put(Resource::Nodes, json!({"apiVersion": "v1", "kind": "Node", "metadata": meta("", "gpu-1", json!({})),
            "status": {"capacity": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8"}, "allocatable": {"cpu": "96", "memory": "1Ti", "nvidia.com/gpu": "8"}}})));
        let template = json!({"spec": {"containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]}});
        all.push(WorldChange::Put(Resource::JobSets, json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta("nlp", "clip", json!({})),
            "spec": {"replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": {"parallelism": 2, "completions": 2, "template": template}}}]}})));
        all.push(WorldChange::Put(
            Resource::Pods,
            pod("nlp", "clip-0", "clip", "4"),
        ));
        all.push(WorldChange::Put(
            Resource::Pods,
            pod("monitoring", "dcgm-1", "nvidia-dcgm-exporter", "0"),
        ));
        all
    }
    fn now(&self) -> Moment {
        self.now
    }
    fn advance(&mut self, to: Moment) -> Vec<WorldChange> {
        self.now = to;
        Vec::new()
    }
    fn request(&mut self, request: Request) -> Vec<WorldChange> {
        match request {
            Request::Write(resource, object) => vec![WorldChange::Put(resource, object)],
            Request::Delete(resource, key, _) => vec![WorldChange::Remove(resource, key)],
        }
    }
    fn page(&self, pod: &ObjectKey, port: u16, path: &str) -> Option<ServedPage> {
        (&*pod.name == "dcgm-1" && port == 9400 && path == "/metrics").then(|| ServedPage {
            content_type: "text/plain; version=0.0.4",
            body: "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\",exported_pod=\"clip-0\",exported_namespace=\"nlp\"} 50\n".into(),
        })
    }
    fn log(&self, _: &ObjectKey, _: Option<&str>, _: bool) -> Option<Vec<(Moment, String)>> {
        None
    }
    fn exporters(&self) -> Vec<(ObjectKey, u16, &'static str)> {
        vec![(ObjectKey::new("monitoring", "dcgm-1"), 9400, "/metrics")]
    }
}

fn clock() -> Clock {
    let start = tokio::time::Instant::now();
    let zero = Moment::parse(START).unwrap();
    Arc::new(move || zero.plus(start.elapsed()))
}

fn watching(connection: Connection, namespaces: Namespaces, tables: &[Table]) -> Bench {
    let (out, seen) = mpsc::channel(64);
    let reach = watch::Sender::new(ScrapedNodes::All);
    let (screen, on_screen) = watch::channel(BTreeSet::new());
    let sources = start(StartOptions {
        connection,
        namespaces,
        tables: tables.to_vec(),
        govern_namespace: "stokehold".to_owned(),
        dialects: Arc::new(Dialects::builtin()),
        scrape: Some(ScrapeOptions {
            mode: ScrapeAccess::Proxy,
            timeout: PATIENCE,
            ..ScrapeOptions::default()
        }),
        prometheus: None,
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

/// Everything about the rack is known: every table listed, a page read.
async fn complete(bench: &mut Bench) {
    let mut wanted: BTreeSet<Table> = Table::ALL.iter().copied().collect();
    let mut page = false;
    bench
        .until("the whole rack", |one| {
            match one {
                Observation::End(table) | Observation::Absent(table) => drop(wanted.remove(table)),
                Observation::Page(found) => {
                    page = found.node.as_deref() == Some("gpu-1") && found.readings.len() == 1
                }
                _ => {}
            }
            wanted.is_empty() && page
        })
        .await;
}

async fn serve(folder: &std::path::Path, port: u16) -> Running {
    let options = ServeOptions {
        listen: ([127, 0, 0, 1], port).into(),
        kubeconfig: Some(folder.join("config")),
        ..ServeOptions::default()
    };
    served(options).await
}

/// A simulated API server.
pub(super) async fn served(options: ServeOptions) -> Running {
    Server::start(options, Rack::boxed(), clock())
        .await
        .expect("it serves")
}

fn choice(folder: &std::path::Path, context: &str) -> ContextChoice {
    ContextChoice {
        kubeconfig: Some(folder.join("config")),
        context: Some(context.into()),
        environment: Arc::new(|_| None),
        ..ContextChoice::default()
    }
}

fn wide() -> Namespaces {
    Namespaces::All {
        otherwise: "nlp".into(),
        of_context: true,
    }
}

#[tokio::test]
async fn in_process_and_over_https_the_same_is_seen() {
    let paths = proxied_paths(&Dialects::builtin());
    let service = embed(Rack::boxed(), clock(), 1.0, 1).expect("a cluster");
    let mut inside = watching(
        client_for(service, "demo", clock(), paths.clone()),
        wide(),
        Table::ALL,
    );
    complete(&mut inside).await;
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 0).await;
    let connection =
        connect(choice(folder.path(), "sim-viewer"), clock(), paths, false).expect("a config");
    assert_eq!(
        (
            &*connection.context,
            connection.server.contains("https://127.0.0.1")
        ),
        ("sim-viewer", true)
    );
    let mut outside = watching(connection, wide(), Table::ALL);
    complete(&mut outside).await;
    let named = |bench: &Bench| -> BTreeSet<String> {
        bench
            .observations
            .iter()
            .filter_map(|one| match one {
                Observation::Node(node) => Some(format!(
                    "node {} {}",
                    node.name,
                    node.capacity.device_count()
                )),
                Observation::Pod(pod) => {
                    Some(format!("pod {} {}", pod.key, pod.requests.device_count()))
                }
                Observation::Workload(seen) => Some(format!(
                    "{} {} {:?} {}",
                    seen.kind,
                    seen.key,
                    seen.gang_min,
                    seen.total.device_count()
                )),
                _ => None,
            })
            .collect()
    };
    assert_eq!(named(&inside), named(&outside));
    assert!(
        named(&inside).contains("JobSet nlp/clip Some(2) 8"),
        "{:?}",
        named(&inside)
    );
    drop(outside);
    server.shutdown().await;
}

#[tokio::test]
async fn a_team_sees_its_namespace_and_a_list_of_missing_rights() {
    let folder = tempfile::tempdir().unwrap();
    let _server = serve(folder.path(), 0).await;
    let connection =
        connect(choice(folder.path(), "sim-team"), clock(), [], false).expect("a config");
    assert_eq!(connection.namespace, "nlp");
    let mut bench = watching(connection, wide(), &[Table::Nodes, Table::Pods]);
    bench.end(Table::Pods).await;
    if !bench
        .observations
        .iter()
        .any(|one| matches!(one, Observation::Lost(Table::Nodes, _)))
    {
        bench.lost(Table::Nodes).await;
    }
    let lost = bench.observations.iter().find_map(|one| match one {
        Observation::Lost(Table::Nodes, lost) => Some(lost.clone()),
        _ => None,
    });
    let lost = lost.expect("nodes are refused");
    assert!(
        lost.kind == LostKind::Rights
            && lost.message.contains("list and watch on nodes")
            && !lost.message.contains("-n NAMESPACE"),
        "{}",
        lost.message
    );
    assert!(
        !bench
            .observations
            .iter()
            .any(|one| matches!(one, Observation::Lost(Table::Pods, _)))
    );
}

#[tokio::test(start_paused = true)]
async fn every_fault_passes_and_nothing_is_lost() {
    let faults: [Fault; 5] = [
        ("drop", |_| {}),
        ("expired", |faults| faults.expired_watches = 1),
        ("429", |faults| {
            (faults.too_many, faults.retry_after_seconds) = (1, 1)
        }),
        ("500", |faults| faults.server_errors = 1),
        ("html", |faults| faults.html = 1),
    ];
    futures::future::join_all(faults.map(|(name, change)| passes(name, change))).await;
}

/// What goes wrong, by name.
type Fault = (&'static str, fn(&mut InjectedFaults));

/// A watch that is dropped into this fault comes back, and tells what happened meanwhile.
async fn passes(name: &str, change: fn(&mut InjectedFaults)) {
    let service = embed(Rack::boxed(), clock(), 1.0, 1).expect("a cluster");
    let cluster = Arc::clone(service.cluster());
    let connection = client_for(service, "demo", clock(), []);
    let mut bench = watching(connection, wide(), &[Table::Pods]);
    bench.end(Table::Pods).await;
    let mut faults = InjectedFaults {
        watch_drops: 1,
        ..InjectedFaults::default()
    };
    change(&mut faults);
    cluster.set_faults(faults);
    // The clock is paused: time passes when the watch is dropped, has met the fault and waits.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut changed = pod("nlp", "clip-0", "clip", "4");
    changed["metadata"]["labels"]["seen"] = name.into();
    cluster
        .core()
        .carry_out(Request::Write(Resource::Pods, changed));
    cluster.announce();
    let seen = |one: &Observation| matches!(one, Observation::Pod(pod) if pod.labels.get("seen").is_some_and(|seen| &**seen == name));
    bench.until(name, seen).await;
    let gone = bench
        .observations
        .iter()
        .any(|one| matches!(one, Observation::Gone(..)));
    assert!(!gone, "{name}: nothing is taken for gone");
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_is_a_lack_of_rights_and_recovered_from() {
    let service = embed(Rack::boxed(), clock(), 1.0, 1).expect("a cluster");
    let cluster = Arc::clone(service.cluster());
    let connection = client_for(service, "demo", clock(), []);
    let mut bench = watching(connection, wide(), &[Table::Pods]);
    bench.end(Table::Pods).await;
    cluster.set_faults(InjectedFaults {
        tokens_expired: true,
        watch_drops: 1,
        ..InjectedFaults::default()
    });
    let lost = bench.lost(Table::Pods).await;
    assert!(
        lost.kind == LostKind::Login && lost.message.contains("401"),
        "{}",
        lost.message
    );
    cluster.set_faults(InjectedFaults {
        watch_drops: 1,
        ..InjectedFaults::default()
    });
    bench
        .until("recovery", |one| {
            matches!(
                one,
                Observation::Back(Table::Pods) | Observation::End(Table::Pods)
            )
        })
        .await;
}

#[tokio::test]
async fn a_cluster_that_starts_anew_elsewhere_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), 0).await;
    let connection =
        connect(choice(folder.path(), "sim-viewer"), clock(), [], false).expect("a config");
    let mut bench = watching(connection, wide(), &[Table::Nodes]);
    bench.end(Table::Nodes).await;
    server.shutdown().await;
    let lost = bench.lost(Table::Nodes).await;
    assert_eq!(lost.kind, LostKind::Unreachable, "{}", lost.message);
    // Another port, another CA, other tokens: only the kubeconfig is the same.
    let _server = serve(folder.path(), 0).await;
    bench.end(Table::Nodes).await;
    let row = bench
        .until("row", |one| matches!(one, Observation::Source(row) if &*row.name == "api nodes" && row.state == SourceState::Live))
        .await;
    drop(row);
}
