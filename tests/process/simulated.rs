//! `sim` and `get` as two programs over HTTPS, and the Prometheus of the first.

use std::collections::BTreeSet;
use std::process::Output;

use serde_json::Value;
use table::Kind;

use super::{Home, Running, alone, text};

/// A running `sim`; ended with the test.
pub(super) struct Sim {
    running: Running,
    pub(super) kubeconfig: String,
    /// The address of its Prometheus API.
    pub(super) prometheus: String,
}

impl Sim {
    /// One that stands still.
    pub(super) fn start(home: &Home, name: &str) -> Self {
        Self::start_at(home, name, "12", "0")
    }

    /// One of so many nodes, at this speed.
    pub(super) fn start_at(home: &Home, name: &str, nodes: &str, speed: &str) -> Self {
        let kubeconfig = home.path(name).display().to_string();
        let fleet = ["sim", "--nodes", nodes, "--seed", "3", "--speed", speed];
        let place = ["--at", "2026-11-21T06:40:00Z", "--kubeconfig", &kubeconfig];
        let served = ["--prometheus", "127.0.0.1:0"];
        let mut running = Running::start(home, &[&fleet[..], &place, &served].concat());
        let ready = running.line();
        assert!(ready.starts_with("ready https://127.0.0.1:"), "{ready}");
        let prometheus = running.line_after("prometheus ");
        Self {
            running,
            kubeconfig,
            prometheus,
        }
    }

    fn run(&self, home: &Home, command: &str, arguments: &[&str]) -> Output {
        home.run(&[&[command, "--kubeconfig", &self.kubeconfig], arguments].concat())
    }

    fn get(&self, home: &Home, arguments: &[&str]) -> Output {
        self.run(home, "get", arguments)
    }

    /// Ends it as a service manager would; its exit code.
    fn end(self) -> Option<i32> {
        self.running.end()
    }
}

fn rows(output: &Output) -> Vec<Value> {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {} {}", text(&output.stdout), text(&output.stderr))
    })
}

#[test]
fn a_team_bound_to_its_namespaces_sees_its_jobs_and_their_devices() {
    let _alone = alone();
    let home = Home::new();
    let sim = Sim::start(&home, "kubeconfig");
    let team = |kind: &str, more: &[&str]| {
        let all = [&[kind, "--context", "sim-team", "-o", "json"], more].concat();
        sim.get(&home, &all)
    };
    let whole = rows(&sim.get(&home, &["jobs", "--context", "sim-viewer", "-o", "json"]));
    // The context's namespace, where all are refused.
    let own = team("jobs", &[]);
    assert_eq!(own.status.code(), Some(3));
    let message = text(&own.stderr);
    // One message for all that is refused.
    assert!(
        message
            .contains("nodes, namespaces, resourceslices and deviceclasses are not visible to you"),
        "{message}"
    );
    assert!(message.contains("reading namespace"), "{message}");
    // (A machine that is busy is told how far it is.)
    let lines = message.lines().filter(|line| !line.contains("listing: "));
    assert_eq!(lines.count(), 1, "{message}");
    let namespaces = |rows: &[Value]| -> BTreeSet<String> {
        rows.iter()
            .map(|row| row["namespace"].as_str().expect("a text").to_owned())
            .collect()
    };
    let first = namespaces(&rows(&own))
        .into_iter()
        .next()
        .expect("has jobs");
    // Both of its namespaces, each watched for itself.
    let described = sim.run(&home, "rbac", &[]);
    assert_eq!(described.status.code(), Some(0));
    let all = namespaces(&whole);
    let second = all
        .iter()
        .find(|name| {
            **name != first && {
                let output = team("jobs", &["-n", name]);
                !text(&output.stderr).contains("pods")
            }
        })
        .expect("has two namespaces")
        .clone();
    let both = format!("{first},{second}");
    let found = rows(&team("jobs", &["-n", &both]));
    let count =
        |rows: &[Value], name: &str| rows.iter().filter(|row| row["namespace"] == name).count();
    for name in [&first, &second] {
        assert_eq!(count(&found, name), count(&whole, name), "{name}");
    }
    // Without Prometheus devices are held and read nothing; with it they are read.
    let blind = rows(&team("devices", &["-n", &first]));
    assert!(!blind.is_empty());
    let util = |row: &Value| row["signals"]["util_ratio"].as_f64();
    assert!(
        blind
            .iter()
            .all(|row| util(row).is_none() && row["health"] == "unknown"),
        "{blind:#?}"
    );
    let mut command = home.command(&["get", "devices", "--kubeconfig", &sim.kubeconfig]);
    command.args(["--context", "sim-team", "-n", &first, "-o", "json"]);
    command.env("STOKEHOLD_PROMETHEUS_URL", &sim.prometheus);
    let output = command.output().expect("can be run");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let read = rows(&output);
    assert!(
        read.iter()
            .any(|row| util(row).is_some_and(|util| util > 0.0)),
        "{read:#?}"
    );
    let held = read.iter().filter(|row| row["slice"].is_null());
    assert!(held.clone().count() > 0);
    let nodes = rows(&team("nodes", &["-n", &first]));
    for row in &nodes {
        let unseen = ["ready", "pods", "burn_usd_per_hour"];
        assert!(unseen.iter().all(|key| row[*key].is_null()), "{row:#}");
        let devices = row["devices"].as_object().expect("an object");
        assert!(devices.values().all(Value::is_null), "{row:#}");
    }
    for row in rows(&team("pools", &[])) {
        let counts =
            ["nodes", "devices"].map(|key| row[key].as_object().expect("an object").clone());
        let pool = row["name"] != "(not visible)";
        assert!(
            !pool || counts.iter().flatten().all(|(_, count)| count.is_null()),
            "{row:#}"
        );
        assert!(!pool || row["free_usd_per_hour"].is_null(), "{row:#}");
    }
    // The flavor that its Workloads were given says the class, and with it the price.
    let jobs = rows(&team("jobs", &[]));
    let held = jobs
        .iter()
        .filter(|row| row["devices_allocated"].as_u64() > Some(0));
    assert!(
        held.clone()
            .any(|row| row["class"].is_string() && row["burn_usd_per_hour"].as_f64() > Some(0.0)),
        "{jobs:#?}"
    );
    for row in jobs
        .iter()
        .filter(|row| row["state"] == "done" || row["state"] == "failed")
    {
        assert!(row["cost_usd"].is_null(), "{row:#}");
    }
    // A console, or the frame of one, never an error page.
    let mut command = home.command(&["--kubeconfig", &sim.kubeconfig, "--context", "sim-team"]);
    let frame = command.output().expect("can be run");
    assert_eq!(frame.status.code(), Some(0), "{}", text(&frame.stderr));
    assert!(text(&frame.stdout).contains("stokehold ▸ sim-team"));
    assert_eq!(sim.end(), Some(0));
}

#[test]
fn advice_comes_from_the_past_of_a_prometheus() {
    let _alone = alone();
    let home = Home::new();
    let sim = Sim::start_at(&home, "kubeconfig", "6", "0");
    // Nothing is said where nothing is known of the last half hour.
    let blind = sim.get(&home, &["advice"]);
    assert_eq!(blind.status.code(), Some(1), "{}", text(&blind.stdout));
    let message = text(&blind.stderr);
    assert!(message.contains("no verdict for any job ("), "{message}");
    assert!(message.contains("--for 30m"), "{message}");

    let ask = |arguments: &[&str]| {
        let mut command = home.command(&["advise", "--kubeconfig", &sim.kubeconfig]);
        command.env("STOKEHOLD_PROMETHEUS_URL", &sim.prometheus);
        let output = command.args(arguments).output().expect("can be run");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        output
    };
    let found: Value = serde_json::from_slice(&ask(&["-o", "json"]).stdout).expect("is JSON");
    let schema = Kind::Advice.schema();
    let validator = jsonschema::draft202012::new(&schema).expect("is a schema");
    let errors: Vec<String> = validator
        .iter_errors(&found)
        .map(|error| error.to_string())
        .take(3)
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    let rows = found.as_array().expect("is a list");
    assert!(!rows.is_empty());
    // What saves most stands first, what saves an unknown sum last; no advice saves more than the devices cost.
    let saves = |row: &Value| row["saves_usd_per_month"].as_f64();
    assert!(rows.is_sorted_by(|a, b| saves(a) >= saves(b)), "{found:#}");
    for row in rows {
        if let (Some(saves), Some(costs)) = (saves(row), row["costs_usd_per_month"].as_f64()) {
            assert!(saves > 0.0 && saves <= costs * 1.000_001, "{row:#}");
        }
    }
    for release in rows.iter().filter(|row| row["action"] == "release") {
        let [saves, costs] = ["saves_usd_per_month", "costs_usd_per_month"];
        assert_eq!(release[saves], release[costs]);
    }
    let mut jobs = rows.iter().filter(|row| row["object"]["kind"] != "Pool");
    let first = jobs.next().expect("a job could do better");

    // One job, and one team.
    let name = |row: &Value| {
        let object = &row["object"];
        let part = |key: &str| object[key].as_str().expect("a name").to_owned();
        format!("{}/{}", part("namespace"), part("name"))
    };
    let job = ask(&["job", &name(first), "-o", "json"]);
    let own: Value = serde_json::from_slice(&job.stdout).expect("is JSON");
    let own = own.as_array().expect("is a list");
    assert!(!own.is_empty() && own.iter().all(|row| name(row) == name(first)));
    let message = text(&job.stderr);
    assert!(message.contains("limited by"), "{message}");
    let team = first["team"].as_str().expect("a name");
    let of_team = ask(&["team", team, "-o", "json"]);
    let of_team: Value = serde_json::from_slice(&of_team.stdout).expect("is JSON");
    let of_team = of_team.as_array().expect("is a list");
    let all = rows.iter().filter(|row| row["team"] == team).count();
    assert_eq!(of_team.len(), all);
    assert_eq!(sim.end(), Some(0));
}
