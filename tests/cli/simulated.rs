//! `sim` and `get` together, as two programs over HTTPS: every kind, every user, both ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use stokehold::report::Kind;

use super::{Home, text};

/// A running `sim`; ended with the test.
struct Sim {
    child: Child,
    kubeconfig: String,
}

impl Sim {
    fn start(home: &Home, name: &str) -> Self {
        let kubeconfig = home.path(name).display().to_string();
        let mut child = home
            .command(&[
                "sim",
                "--listen",
                "127.0.0.1:0",
                "--nodes",
                "12",
                "--seed",
                "3",
                "--speed",
                "0",
            ])
            .args(["--at", "2026-11-21T06:40:00Z", "--kubeconfig", &kubeconfig])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("can be run");
        let mut ready = String::new();
        let stdout = child.stdout.as_mut().expect("is piped");
        BufReader::new(stdout)
            .read_line(&mut ready)
            .expect("says something");
        assert!(ready.starts_with("ready https://127.0.0.1:"), "{ready}");
        Self { child, kubeconfig }
    }

    fn get(&self, home: &Home, arguments: &[&str]) -> Output {
        let mut command = home.command(&["get", "--kubeconfig", &self.kubeconfig]);
        let command = command.args(arguments).stdin(Stdio::null());
        command.output().expect("can be run")
    }

    /// Ends it as a service manager would; returns its exit code.
    fn end(mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        let sent = Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .expect("can be run");
        assert!(sent.success());
        self.child.wait().expect("ends").code()
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_kind_of_the_simulated_fleet_keeps_to_its_schema_and_adds_up() {
    let home = Home::new();
    let sim = Sim::start(&home, "kubeconfig");
    let mut fleet = Value::Null;
    let mut cost = Value::Null;
    for kind in Kind::ALL {
        let output = sim.get(&home, &[kind.name(), "-o", "json"]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}: {}",
            kind.name(),
            text(&output.stderr)
        );
        let found: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        let schema: Value = serde_json::from_str(kind.schema()).expect("is JSON");
        let validator = jsonschema::draft202012::new(&schema).expect("is a schema");
        let errors: Vec<String> = validator
            .iter_errors(&found)
            .map(|error| error.to_string())
            .take(3)
            .collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", kind.name());
        match kind {
            Kind::Fleet => fleet = found,
            Kind::Cost => cost = found,
            Kind::Alerts => {}
            _ => assert_ne!(found, Value::Array(Vec::new()), "{}", kind.name()),
        }
    }
    let head = fleet["figures"]["burn_usd_per_hour"]
        .as_f64()
        .expect("is priced");
    for scope in ["pool", "queue", "team", "job", "class"] {
        let rows = cost.as_array().expect("is an array").iter();
        let sum: f64 = rows
            .filter(|row| row["scope"] == scope)
            .filter_map(|row| row["burn_usd_per_hour"].as_f64())
            .sum();
        assert!((sum - head).abs() < 1e-6, "{scope}: {sum} of {head}");
    }
    let one = sim.get(&home, &["nodes", "no-such-node"]);
    assert_eq!(one.status.code(), Some(1));
    assert!(text(&one.stderr).contains("no nodes named `no-such-node`"));
    assert_eq!(sim.end(), Some(0));
}

#[test]
fn rights_and_reach_have_their_codes() {
    let home = Home::new();
    let sim = Sim::start(&home, "kubeconfig");
    let nobody = sim.get(&home, &["jobs", "--context", "sim-nobody", "-o", "json"]);
    assert_eq!(nobody.status.code(), Some(3));
    assert!(
        text(&nobody.stderr).contains("403"),
        "{}",
        text(&nobody.stderr)
    );
    let context = sim.get(&home, &["jobs", "--context", "sim-admn"]);
    assert_eq!(context.status.code(), Some(2));
    assert!(
        text(&context.stderr).contains("sim-admin"),
        "{}",
        text(&context.stderr)
    );
    let kubeconfig = sim.kubeconfig.clone();
    assert_eq!(sim.end(), Some(0));
    let gone = home.run(&["get", "nodes", "--kubeconfig", &kubeconfig]);
    assert_eq!(gone.status.code(), Some(4));
    assert!(
        !text(&gone.stderr).contains("panicked"),
        "{}",
        text(&gone.stderr)
    );
}

#[test]
fn without_a_terminal_one_frame_is_printed() {
    let home = Home::new();
    let output = home.run(&["demo", "--nodes", "12", "--speed", "0", "--size", "100x30"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let frame = text(&output.stdout);
    assert!(
        frame.lines().take(1).all(|line| line.contains("stokehold")),
        "{frame}"
    );
    assert!(
        frame.contains("h100-train") && frame.contains("stokehold get KIND"),
        "{frame}"
    );
    assert_eq!(text(&output.stderr), "");
}
