//! `get` and other commands on a simulated cluster: every kind, every user, both ends.

use std::process::Output;

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
        let schema = kind.schema();
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
    let unprivileged = sim.get(&home, &["jobs", "--context", "sim-nobody", "-o", "json"]);
    assert_eq!(unprivileged.status.code(), Some(3));
    assert!(
        text(&unprivileged.stderr).contains("nothing may be read")
            && text(&unprivileged.stderr).contains("stokehold rbac viewer")
            && text(&unprivileged.stderr).lines().count() == 1,
        "{}",
        text(&unprivileged.stderr)
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

#[test]
fn doctor_says_what_is_reachable_allowed_and_found() {
    let home = Home::new();
    let sim = Sim::start(&home, "kubeconfig");
    let schema = table::checkup::schema();
    let validator = jsonschema::draft202012::new(&schema).expect("is a schema");
    let examine_with = |arguments: &[&str]| {
        let arguments = [&["-o", "json", "--context"], arguments].concat();
        let output = sim.run(&home, "doctor", &arguments);
        let points: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        assert!(validator.is_valid(&points), "{points:#}");
        (output.status.code(), points)
    };
    let examine = |context: &str| examine_with(&[context]);
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
    let own = mends.find_map(|mend| mend.strip_prefix("give -n ")?.split(' ').next());
    let own = own.unwrap_or_else(|| panic!("no namespace in {points:#}"));
    // What a role for namespaces leaves out is one line without a fix.
    assert_eq!(level(&points, "rights"), ["warn", "ok"], "{points:#}");
    let (code, within) = examine_with(&["sim-team", "-n", own]);
    assert_eq!(code, Some(0), "{within:#}");
    assert_eq!(level(&within, "rights"), ["ok", "ok"], "{within:#}");
    assert_eq!(level(&within, "coverage"), ["ok"], "{within:#}");
    let role = format!("`stokehold rbac viewer -n {own}` leaves them out");
    assert!(within.to_string().contains(&role), "{within:#}");
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
    let messages = text(&output.stderr);
    let mut messages = messages.lines().filter(|line| !is_progress(line));
    assert_eq!(messages.next(), None);
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
