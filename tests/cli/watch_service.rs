//! `watch` as a service: the unit and the manifest in `config/`, with whose arguments and settings it really starts.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use super::Home;
use super::simulated::Sim;

/// The arguments of the unit, without the program.
fn of_the_unit() -> Vec<String> {
    let unit = include_str!("../../config/systemd/stokehold-watch.service");
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/stokehold "));
    let words = start.expect("starts it").split(' ');
    words.map(str::to_owned).collect()
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
    let sim = Sim::start(&home, "kubeconfig");
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
