//! `record` as a service: what it answers to probes, and the unit and the manifest in `config/`, with which it really starts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::{Home, until};

/// A recorder of a small simulated fleet, and where it answers.
struct Recorder(Child, String);

impl Recorder {
    /// Started with these arguments, those that name the service's own places in the place of which stand ours.
    fn start(home: &Home, arguments: &[String]) -> Self {
        let folder = home.path("record").display().to_string();
        let mut all: Vec<String> = arguments
            .iter()
            .map(|argument| {
                argument
                    .replace("/record", &folder)
                    .replace("%S/stokehold", &folder)
                    .replace(":9843", ":0")
                    .replace("0.0.0.0", "127.0.0.1")
            })
            .collect();
        all.extend(["--demo", "--nodes", "40", "--speed", "60"].map(str::to_owned));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let mut command = home.command(&all);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("can be run");
        let stdout = child.stdout.take().expect("is piped");
        let mut lines = BufReader::new(stdout).lines();
        let mut line = || lines.next().expect("a line").expect("is text");
        assert!(line().starts_with("recording demo into "));
        let said = line();
        let address = said
            .strip_prefix("answers http://")
            .and_then(|rest| rest.split('/').next());
        let address = address.expect("the address").to_owned();
        Self(child, address)
    }

    /// The status code and what is answered.
    fn ask(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.1).expect("listens");
        let request = format!("{request} HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("can be asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        (code.expect("a code"), body.to_owned())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn of_the_unit() -> Vec<String> {
    arguments_of(include_str!(
        "../../config/systemd/stokehold-record.service"
    ))
}

/// The arguments of a systemd unit, without the program.
pub(super) fn arguments_of(unit: &str) -> Vec<String> {
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/stokehold "));
    let words = start.expect("starts it").split(' ');
    words.map(str::to_owned).collect()
}

/// The objects of the manifest.
fn objects() -> Vec<Value> {
    let text = include_str!("../../config/kubernetes/record.yaml");
    serde_saphyr::from_multiple(text).expect("is YAML")
}

fn container() -> Value {
    let objects = objects();
    let deployment = objects
        .iter()
        .find(|object| object["kind"] == "Deployment")
        .expect("a Deployment");
    deployment["spec"]["template"]["spec"]["containers"][0].clone()
}

#[test]
fn it_is_ready_once_it_writes() {
    let home = Home::new();
    let arguments = container()["args"].clone();
    let arguments: Vec<String> = serde_json::from_value(arguments).expect("are words");
    let recorder = Recorder::start(&home, &arguments);
    assert_eq!(recorder.ask("GET /healthz"), (200, "ok\n".to_owned()));
    until("a recorder that is ready", || {
        recorder.ask("GET /readyz").0 == 200
    });
    let (code, metrics) = recorder.ask("GET /metrics");
    assert_eq!(code, 200);
    let value = |name: &str| -> f64 {
        let found = metrics.lines().find_map(|line| line.strip_prefix(name));
        let value = found.unwrap_or_else(|| panic!("{name}: {metrics}"));
        value.trim().parse().expect("a number")
    };
    assert_eq!(value("stokehold_record_up "), 1.0);
    assert!(value("stokehold_record_bytes_total ") > 0.0);
    assert!(value("stokehold_record_last_write_timestamp_seconds ") > 0.0);
    // Beside its own metrics stand those of the fleet, once there is a picture.
    until("metrics of the fleet", || {
        let (_, metrics) = recorder.ask("GET /metrics");
        let has = |name: &str| metrics.lines().any(|line| line.starts_with(name));
        let is_whole = has("stokehold_usage_cost_usd_total{cluster=\"demo\",recorder=")
            && has("stokehold_devices{cluster=")
            && has("stokehold_queue_used_devices{cluster=");
        let series = metrics.lines().filter(|line| !line.starts_with('#'));
        assert!(series.count() <= 2_000);
        is_whole
    });
    assert_eq!(recorder.ask("DELETE /metrics").0, 405);
    assert_eq!(recorder.ask("GET /etc/passwd").0, 404);
    let port = recorder.1.rsplit(':').next().expect("a port").to_owned();
    let taken = home.run(&[
        "record",
        "--demo",
        "--listen",
        &format!("127.0.0.1:{port}"),
        "--dir",
        "other",
    ]);
    assert_eq!(taken.status.code(), Some(1));
    let said = super::text(&taken.stderr);
    assert!(said.contains("--listen 127.0.0.1:"), "{said}");
}

#[test]
fn the_unit_starts_it() {
    let home = Home::new();
    let recorder = Recorder::start(&home, &of_the_unit());
    assert_eq!(recorder.ask("HEAD /healthz"), (200, String::new()));
}

#[test]
fn the_manifest_asks_for_what_the_recorder_has() {
    let container = container();
    let paths: Vec<&Value> = ["livenessProbe", "readinessProbe"]
        .iter()
        .map(|probe| &container[*probe]["httpGet"]["path"])
        .collect();
    assert_eq!(paths, ["/healthz", "/readyz"]);
    let port = container["ports"][0]["containerPort"].to_string();
    let listens = container["args"].to_string();
    assert!(listens.contains(&format!(":{port}\"")), "{listens}");
    let bound = objects()
        .into_iter()
        .find(|object| object["kind"] == "ClusterRoleBinding")
        .expect("is bound");
    let role = include_str!("../../config/kubernetes/viewer.yaml");
    let role: Value = serde_saphyr::from_str(role).expect("is YAML");
    assert_eq!(bound["roleRef"]["name"], role["metadata"]["name"]);
}
