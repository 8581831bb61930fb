//! `watch` as a service: the unit and the manifest in `config/`, with whose arguments and settings it really starts. And `export`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::Value;

use super::record_service::arguments_of;
use super::simulated::SimProcess;
use super::{Home, until};

fn of_the_unit() -> Vec<String> {
    arguments_of(include_str!("../../config/systemd/stokehold-watch.service"))
}

/// The objects of the manifest.
fn objects() -> Vec<Value> {
    let text = include_str!("../../config/kubernetes/watch.yaml");
    serde_saphyr::from_multiple(text).expect("is YAML")
}

fn object(kind: &str) -> Value {
    let found = objects().into_iter().find(|object| object["kind"] == kind);
    found.unwrap_or_else(|| panic!("a {kind}"))
}

fn pod() -> Value {
    object("Deployment")["spec"]["template"]["spec"].clone()
}

fn settings() -> String {
    let text = object("ConfigMap")["data"]["stokehold.toml"].clone();
    text.as_str().expect("is text").to_owned()
}

/// Starts it on a simulated cluster with the manifest's settings and these arguments; gives the first two lines that it prints.
fn started(arguments: &[String]) -> [String; 2] {
    let home = Home::new();
    let sim = SimProcess::start(&home, "kubeconfig");
    home.settings(&settings());
    let folder = home.path("state").display().to_string();
    let all = arguments.iter().map(|argument| {
        argument
            .replace("/state", &folder)
            .replace("%S/stokehold-watch", &folder)
            .replace(":9844", ":0")
            .replace("0.0.0.0", "127.0.0.1")
    });
    let mut child = home
        .command(&["--kubeconfig", &sim.kubeconfig])
        .args(all)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("can be run");
    let stdout = child.stdout.take().expect("is piped");
    let mut lines = BufReader::new(stdout).lines();
    let mut line = || lines.next().expect("a line").expect("is text");
    let said = [line(), line()];
    let _ = child.kill();
    let _ = child.wait();
    said
}

#[test]
fn the_unit_and_the_manifest_start_it() {
    let of_the_manifest = pod()["containers"][0]["args"].clone();
    let of_the_manifest: Vec<String> = serde_json::from_value(of_the_manifest).expect("are words");
    for arguments in [of_the_unit(), of_the_manifest] {
        let [watching, answers] = started(&arguments);
        assert!(
            watching.ends_with(
                "sends findings to alertmanager (alertmanager), chat (slack); ctrl-c ends it"
            ),
            "{watching}"
        );
        assert!(
            answers.contains("/healthz, /readyz and /metrics"),
            "{answers}"
        );
    }
}

#[test]
fn the_manifest_asks_for_what_the_watcher_has() {
    let (pod, settings) = (pod(), settings());
    let container = &pod["containers"][0];
    let paths: Vec<&Value> = ["livenessProbe", "readinessProbe"]
        .iter()
        .map(|probe| &container[*probe]["httpGet"]["path"])
        .collect();
    assert_eq!(paths, ["/healthz", "/readyz"]);
    let port = container["ports"][0]["containerPort"].to_string();
    let listens = container["args"].to_string();
    assert!(listens.contains(&format!(":{port}\"")), "{listens}");
    let role = include_str!("../../config/kubernetes/viewer.yaml");
    let role: Value = serde_saphyr::from_str(role).expect("is YAML");
    let bound = object("ClusterRoleBinding");
    assert_eq!(bound["roleRef"]["name"], role["metadata"]["name"]);
    // Files that the settings name are where the Secret is mounted.
    let mounts = container["volumeMounts"].as_array().expect("a list");
    let secret = mounts.iter().find(|mount| mount["name"] == "notify");
    let place = secret.expect("is mounted")["mountPath"]
        .as_str()
        .expect("a path");
    let file = settings
        .lines()
        .find_map(|line| line.strip_prefix("url_file = "));
    assert!(file.expect("names one").contains(&format!("\"{place}/")));
}

#[test]
fn export_serves_the_metrics_of_a_recorder_and_writes_nothing() {
    let home = Home::new();
    let mut child = home
        .command(&["export", "--demo", "--nodes", "40", "--speed", "60"])
        .args(["--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("can be run");
    let mut first = String::new();
    let stdout = child.stdout.as_mut().expect("is piped");
    BufReader::new(stdout)
        .read_line(&mut first)
        .expect("says something");
    let address = first
        .strip_prefix("serves metrics of demo at http://")
        .and_then(|rest| rest.split('/').next());
    let address = address.unwrap_or_else(|| panic!("{first}"));
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(address).expect("listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("can be asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answers");
        answer
    };
    let wanted = [
        "stokehold_usage_cost_usd_total{cluster=\"demo\",recorder=",
        "stokehold_devices{cluster=",
        "stokehold_queue_used_devices{cluster=",
        "stokehold_source_age_seconds{cluster=",
        "stokehold_export_up 1",
    ];
    until("metrics of the fleet", || {
        let page = ask("/metrics");
        let has = |start: &&str| page.lines().any(|line| line.starts_with(start));
        let samples = page.lines().filter(|line| line.starts_with("stokehold_"));
        assert!(samples.count() <= 2_000);
        wanted.iter().all(has)
    });
    assert!(ask("/readyz").starts_with("HTTP/1.1 200 "));
    let _ = child.kill();
    let _ = child.wait();
    assert!(!home.path(".local").exists(), "nothing is kept");
    let other = home.run(&["export", "--nodes", "3"]);
    assert_eq!(other.status.code(), Some(2));
}
