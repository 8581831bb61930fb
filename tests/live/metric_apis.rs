//! The metric APIs of the HorizontalPodAutoscaler controller, served by the test itself: `metrics.k8s.io`, `custom.metrics.k8s.io` and
//! `external.metrics.k8s.io`, registered with the API server as long as the value is there.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use super::plane::{PATIENCE, apply, folder, kubectl};
use super::truth::holds;

/// The address of the plane's API server, at which the test listens too.
const ADDRESS: &str = "10.255.0.1";

/// Group and version of each API.
pub const APIS: [(&str, &str); 3] = [
    ("metrics.k8s.io", "v1beta1"),
    ("custom.metrics.k8s.io", "v1beta2"),
    ("external.metrics.k8s.io", "v1beta1"),
];

/// Answers: by `pods/VALUE` for the resource metrics of the pods with the label `app=VALUE`, by the metric's name for any other.
type Answers = BTreeMap<String, Value>;

/// The served APIs.
pub struct MetricApis {
    answers: Arc<Mutex<Answers>>,
}

impl MetricApis {
    /// Serves them without any metric; the Service that the API server finds them by is in this namespace.
    pub fn serve(namespace: &str) -> Self {
        let listener = TcpListener::bind((ADDRESS, 0)).expect("an address of the plane");
        let port = listener.local_addr().expect("an address").port();
        let answers = Arc::new(Mutex::new(Answers::new()));
        let (config, known) = (Arc::new(tls()), answers.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (config, known) = (config.clone(), known.clone());
                std::thread::spawn(move || {
                    // A connection that breaks is the client's affair: it asks again.
                    let _ = talk(stream, config, &known);
                });
            }
        });
        let name = "metric-apis";
        let mut objects = vec![
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
                "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]},
            }),
            json!({
                "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "namespace": namespace},
                "subsets": [{"addresses": [{"ip": ADDRESS}], "ports": [{"name": "https", "port": port}]}],
            }),
        ];
        objects.extend(APIS.map(|(group, version)| {
            json!({
                "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": format!("{version}.{group}")},
                "spec": {
                    "group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100,
                    "insecureSkipTLSVerify": true, "service": {"name": name, "namespace": namespace},
                },
            })
        }));
        let served = Self { answers };
        apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
        let end = Instant::now() + PATIENCE;
        for (group, version) in APIS {
            let name = format!("{version}.{group}");
            let available = || {
                let got = kubectl(&["get", "apiservice", &name, "-o", "json"]);
                let object: Value = serde_json::from_str(&got).expect("an object");
                (holds(&object, "Available"), object)
            };
            while !available().0 {
                assert!(Instant::now() < end, "{name}: {}", available().1);
                sleep(Duration::from_millis(200));
            }
        }
        served
    }

    /// Adds answers.
    pub fn answer(&self, more: Answers) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.extend(more);
    }
}

impl Drop for MetricApis {
    fn drop(&mut self) {
        // An API that does not answer would stop the deletion of every namespace.
        let names = APIS.map(|(group, version)| format!("{version}.{group}"));
        let done = Command::new("kubectl")
            .args([
                "--context=live-admin",
                "delete",
                "--ignore-not-found",
                "apiservice",
            ])
            .args(names)
            .status();
        if !done.is_ok_and(|done| done.success()) {
            eprintln!("the metric APIs could not be deleted");
        }
    }
}

fn tls() -> ServerConfig {
    let file = |name: &str| folder().join("pki").join(name);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file("kueue.crt"))
        .expect("a certificate")
        .collect();
    let key = PrivateKeyDer::from_pem_file(file("kueue.key")).expect("a key");
    ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain.expect("a certificate"), key)
        .expect("a pair")
}

/// Answers the requests of a connection.
fn talk(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    answers: &Mutex<Answers>,
) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let uri = head.split(' ').nth(1).unwrap_or_default();
        let found = {
            let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
            find(uri, &answers)
        };
        let (status, body) = match found {
            Some(body) => ("200 OK", body),
            None => (
                "404 Not Found",
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "no such metric"}),
            ),
        };
        let body = body.to_string();
        let length = body.len();
        let stream = stream.get_mut();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
        stream.flush()?;
    }
}

fn find(uri: &str, answers: &Answers) -> Option<Value> {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match parts.as_slice() {
        ["apis", group, version] => Some(json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"), "resources": [],
        })),
        ["apis", "metrics.k8s.io", _, "namespaces", _, "pods"] => {
            let selectors = query.split('&');
            let app = selectors
                .into_iter()
                .find_map(|one| one.strip_prefix("labelSelector=app%3D"))?;
            answers.get(&format!("pods/{app}")).cloned()
        }
        ["apis", .., metric] => answers.get(*metric).cloned(),
        _ => None,
    }
}
