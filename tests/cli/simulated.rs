//! `sim` and `get` together, as two programs over HTTPS: every kind, every user, both ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use model::base::Moment;
use serde_json::Value;
use sim::world::{Options, World};
use table::Kind;

use super::{Home, is_progress, text};
use crate::exec::command_line::Cluster;

/// A simulated fleet in this process, which stands still.
pub(super) struct Sim {
    cluster: Cluster,
    pub(super) kubeconfig: String,
}

impl Sim {
    pub(super) fn start(home: &Home, name: &str) -> Self {
        Self::of_seed(home, name, 3)
    }

    pub(super) fn of_seed(home: &Home, name: &str, seed: u64) -> Self {
        let at = Moment::parse("2026-11-21T06:40:00Z").expect("a moment");
        let world = World::new(Options {
            seed,
            nodes: Some(12),
            ..Options::new(at)
        });
        let cluster = home.machine.cluster(name, world, 0.0);
        let kubeconfig = cluster.kubeconfig.clone();
        Self {
            cluster,
            kubeconfig,
        }
    }

    fn run(&self, home: &Home, command: &str, arguments: &[&str]) -> Output {
        home.run(&[&[command, "--kubeconfig", &self.kubeconfig], arguments].concat())
    }

    pub(super) fn get(&self, home: &Home, arguments: &[&str]) -> Output {
        self.run(home, "get", arguments)
    }

    /// From now on nothing answers.
    fn end(self) {
        self.cluster.end();
    }
}

/// A running `sim`, a program of its own; ended with the test.
pub(super) struct SimProcess {
    child: Child,
    pub(super) kubeconfig: String,
}

impl SimProcess {
    pub(super) fn start(home: &Home, name: &str) -> Self {
        Self::start_at(home, name, "12", "0")
    }

    /// One of so many nodes, at this speed.
    pub(super) fn start_at(home: &Home, name: &str, nodes: &str, speed: &str) -> Self {
        let kubeconfig = home.path(name).display().to_string();
        let mut child = home
            .command(&[
                "sim",
                "--listen",
                "127.0.0.1:0",
                "--nodes",
                nodes,
                "--seed",
                "3",
                "--speed",
                speed,
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

    fn run(&self, home: &Home, command: &str, arguments: &[&str]) -> Output {
        let mut command = home.command(&[command, "--kubeconfig", &self.kubeconfig]);
        let command = command.args(arguments).stdin(Stdio::null());
        command.output().expect("can be run")
    }

    /// The address of its Prometheus API, which it says on standard error.
    pub(super) fn with_prometheus(home: &Home, name: &str) -> (Self, String) {
        let kubeconfig = home.path(name).display().to_string();
        let mut child = home
            .command(&["sim", "--nodes", "12", "--seed", "3", "--speed", "0"])
            .args(["--at", "2026-11-21T06:40:00Z", "--kubeconfig", &kubeconfig])
            .args(["--prometheus", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("can be run");
        let mut line = String::new();
        let stderr = child.stderr.as_mut().expect("is piped");
        BufReader::new(stderr)
            .read_line(&mut line)
            .expect("says something");
        let url = line
            .strip_prefix("prometheus ")
            .expect("its address")
            .trim()
            .to_owned();
        (Self { child, kubeconfig }, url)
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

impl Drop for SimProcess {
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
    // (Advice needs half an hour of readings: see `advice_comes_from_the_past_of_a_prometheus`.)
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Advice) {
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
            // So small a fleet has no model server that tells of its requests.
            Kind::Alerts | Kind::Services => {}
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
}

#[test]
fn rights_and_reach_have_their_codes() {
    let home = Home::new();
    let sim = Sim::start(&home, "kubeconfig");
    let nobody = sim.get(&home, &["jobs", "--context", "sim-nobody", "-o", "json"]);
    assert_eq!(nobody.status.code(), Some(3));
    assert!(
        text(&nobody.stderr).contains("nothing may be read")
            && text(&nobody.stderr).contains("stokehold rbac viewer")
            && text(&nobody.stderr).lines().count() == 1,
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
    sim.end();
    let gone = home.run(&["get", "nodes", "--kubeconfig", &kubeconfig]);
    assert_eq!(gone.status.code(), Some(4));
    assert!(
        !text(&gone.stderr).contains("panicked"),
        "{}",
        text(&gone.stderr)
    );
}

fn rows(output: &Output) -> Vec<Value> {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {} {}", text(&output.stdout), text(&output.stderr))
    })
}

#[test]
fn a_team_bound_to_its_namespaces_sees_its_jobs_and_their_devices() {
    let home = Home::new();
    let (sim, prometheus) = SimProcess::with_prometheus(&home, "kubeconfig");
    let team = |kind: &str, more: &[&str]| {
        let all = [&[kind, "--context", "sim-team", "-o", "json"], more].concat();
        sim.get(&home, &all)
    };
    let whole = rows(&sim.get(&home, &["jobs", "--context", "sim-viewer", "-o", "json"]));
    // The context's namespace, where all are refused.
    let own = team("jobs", &[]);
    assert_eq!(own.status.code(), Some(3));
    let said = text(&own.stderr);
    // One message for all that is refused.
    assert!(
        said.contains("nodes, namespaces, resourceslices and deviceclasses are not visible to you"),
        "{said}"
    );
    assert!(said.contains("only namespace"), "{said}");
    // (A machine that is busy is told how far it is.)
    let lines = said.lines().filter(|line| !line.contains("listing: "));
    assert_eq!(lines.count(), 1, "{said}");
    let namespaces = |rows: &[Value]| -> std::collections::BTreeSet<String> {
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
    command.env("STOKEHOLD_PROMETHEUS_URL", &prometheus);
    let output = command.stdin(Stdio::null()).output().expect("can be run");
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
        let pool = row["name"] != "unattributed";
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
    let frame = command.stdin(Stdio::null()).output().expect("can be run");
    assert_eq!(frame.status.code(), Some(0), "{}", text(&frame.stderr));
    assert!(text(&frame.stdout).contains("stokehold ▸ sim-team"));
    assert_eq!(sim.end(), Some(0));
}

#[test]
fn doctor_says_what_is_reachable_allowed_and_found() {
    let home = Home::new();
    let sim = Sim::start(&home, "kubeconfig");
    let schema: Value = serde_json::from_str(table::checkup::SCHEMA).expect("is JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("is a schema");
    let examine = |context: &str| {
        let output = sim.run(&home, "doctor", &["--context", context, "-o", "json"]);
        let points: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        assert!(validator.is_valid(&points), "{points:#}");
        (output.status.code(), points)
    };
    let level = |points: &Value, check: &str| -> Vec<String> {
        let all = points.as_array().expect("is an array").iter();
        all.filter(|point| point["check"] == check)
            .map(|point| point["level"].as_str().expect("a text").to_owned())
            .collect()
    };
    let (code, points) = examine("sim-viewer");
    assert_eq!(code, Some(0), "{points:#}");
    for check in [
        "settings",
        "kubeconfig",
        "api",
        "identity",
        "kinds",
        "rights",
        "prices",
    ] {
        assert_eq!(level(&points, check), ["ok"], "{check}: {points:#}");
    }
    assert_eq!(level(&points, "coverage"), ["ok"]);
    let (code, points) = examine("sim-team");
    assert_eq!(code, Some(0), "{points:#}");
    let mends = points.as_array().expect("is an array").iter();
    let mut mends = mends.filter_map(|point| point["mend"].as_str());
    assert!(mends.any(|mend| mend.starts_with("give -n ")), "{points:#}");
    assert!(
        level(&points, "rights").iter().all(|level| level == "warn"),
        "{points:#}"
    );
    let (code, points) = examine("sim-nobody");
    assert_eq!(code, Some(3), "{points:#}");
    assert!(level(&points, "rights").contains(&"fail".to_owned()));
    for point in points.as_array().expect("is an array") {
        assert_eq!(point["mend"].is_null(), point["level"] == "ok", "{point}");
    }
    let kubeconfig = sim.kubeconfig.clone();
    sim.end();
    let gone = home.run(&["doctor", "--kubeconfig", &kubeconfig]);
    assert_eq!(gone.status.code(), Some(4));
    assert!(
        text(&gone.stdout).contains("fail   api"),
        "{}",
        text(&gone.stdout)
    );
    home.settings("[prometheus]\nurl = \"prometheus:9090\"\n");
    let wrong = home.run(&["doctor", "--kubeconfig", &kubeconfig]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        text(&wrong.stdout).contains("prometheus.url"),
        "{}",
        text(&wrong.stdout)
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
    // A first look of more than a second tells how far it has come.
    let said = text(&output.stderr);
    let mut said = said.lines().filter(|line| !is_progress(line));
    assert_eq!(said.next(), None);
}

#[test]
fn advice_comes_from_the_past_of_a_prometheus() {
    let home = Home::new();
    let (sim, prometheus) = SimProcess::with_prometheus(&home, "kubeconfig");
    // Nothing is said where nothing is known of the last half hour.
    let blind = sim.get(&home, &["advice"]);
    assert_eq!(blind.status.code(), Some(1), "{}", text(&blind.stdout));
    let said = text(&blind.stderr);
    assert!(said.contains("no job is judged"), "{said}");
    assert!(said.contains("--for 30m"), "{said}");

    let ask = |arguments: &[&str]| {
        let mut command = home.command(&["advise", "--kubeconfig", &sim.kubeconfig]);
        command.env("STOKEHOLD_PROMETHEUS_URL", &prometheus);
        let output = command.args(arguments).output().expect("can be run");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        output
    };
    let found: Value = serde_json::from_slice(&ask(&["-o", "json"]).stdout).expect("is JSON");
    let schema: Value = serde_json::from_str(Kind::Advice.schema()).expect("is JSON");
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
    let said = text(&job.stderr);
    assert!(said.contains("bound by"), "{said}");
    let team = first["team"].as_str().expect("a name");
    let of_team = ask(&["team", team, "-o", "json"]);
    let of_team: Value = serde_json::from_slice(&of_team.stdout).expect("is JSON");
    let of_team = of_team.as_array().expect("is a list");
    let all = rows.iter().filter(|row| row["team"] == team).count();
    assert_eq!(of_team.len(), all);
    assert_eq!(sim.end(), Some(0));
}

#[test]
fn a_job_is_routed_to_the_flavor_on_which_it_is_done_first() {
    let home = Home::new();
    let sim = Sim::start(&home, "kubeconfig");
    let waiting = sim.get(
        &home,
        &["jobs", "-o", "json", "--field-selector", "state=waiting"],
    );
    let waiting: Value = serde_json::from_slice(&waiting.stdout).expect("is JSON");
    let mut waiting = waiting.as_array().expect("is a list").iter();
    let job = waiting
        .find(|job| job["queue"].is_string())
        .expect("a job waits in a queue");
    let name = |key: &str| job[key].as_str().expect("a name").to_owned();
    let name = format!("{}/{}", name("namespace"), name("name"));
    let found = sim.run(&home, "route", &["job", &name, "-o", "json"]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    let routing: Value = serde_json::from_slice(&found.stdout).expect("is JSON");
    let flavors = routing["flavors"].as_array().expect("is a list");
    assert!(!flavors.is_empty(), "{routing:#}");
    // What is done first stands first, what is not known to end last.
    let done: Vec<&str> = flavors
        .iter()
        .map(|flavor| {
            flavor["done"]
                .as_str()
                .or(flavor["start"].as_str())
                .unwrap_or("~")
        })
        .collect();
    assert!(done.is_sorted(), "{done:?}");
    let table = text(&sim.run(&home, "route", &["job", &name]).stdout);
    for flavor in flavors {
        let name = flavor["flavor"].as_str().expect("a name");
        assert!(table.lines().any(|line| line.starts_with(name)), "{table}");
    }
    let missing = sim.run(&home, "route", &["job", "nowhere/nothing"]);
    assert_eq!(missing.status.code(), Some(1));
}
