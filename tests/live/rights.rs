//! What each kind of user sees: with the role that `stokehold rbac viewer` prints and no more, bound to a namespace, or with nothing.

use std::collections::BTreeSet;

use serde_json::Value;

use super::plane::{
    HttpAnswer, PATIENCE, apply, calm, home, items, kubeconfig, kubectl, listed_role, stokehold,
};
use super::terminal::{Terminal, header, is_live};
use super::truth::{Truth, list, text};

/// The viewer's role, bound to a user who has nothing else, is enough for every kind: nothing is missing on the way.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn the_role_that_rbac_prints_suffices() {
    let _plane = calm();
    listed_role("live-role");
    for kind in [
        "pools", "nodes", "devices", "queues", "jobs", "cost", "alerts", "fleet",
    ] {
        let own = HttpAnswer::whole(&mut stokehold("live-role", &["get", kind, "-o", "json"]));
        if kind != "alerts" {
            // As much as who may do everything: alerts come and go by themselves.
            let all = HttpAnswer::of(&mut stokehold("live-admin", &["get", kind, "-o", "json"]));
            let count = |answer: &HttpAnswer| {
                let value: Value = serde_json::from_str(&answer.out).expect("a document");
                value
                    .as_array()
                    .map_or(list(&value, "/jobs").len(), Vec::len)
            };
            assert_eq!(count(&own), count(&all), "get {kind}");
        }
    }
    let mut terminal = Terminal::start(&kubeconfig(), "live-role", (170, 44));
    terminal.wait("the whole fleet", PATIENCE, is_live);
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
}

/// A team lead, with the printed role in one namespace only (`rbac viewer -n`): jobs and their states are there, what only the
/// whole cluster knows is named as missing, devices are unknown or Prometheus', and no screen is an error.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_team_lead_sees_the_team() {
    let _plane = calm();
    let role = HttpAnswer::of(&mut stokehold(
        "live-admin",
        &["rbac", "viewer", "-n", "nlp"],
    ));
    assert_eq!(role.code, Some(0), "{role:?}");
    apply(&role.out);
    apply(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: live-lead, namespace: nlp}\n\
         roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: stokehold-viewer}\n\
         subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: live-lead}]\n",
    );
    let truth = Truth::now();
    let expected: BTreeSet<(String, String)> = truth
        .jobs()
        .into_iter()
        .filter(|((namespace, _), _)| namespace == "nlp")
        .map(|((_, name), job)| (name, job.state.to_owned()))
        .collect();
    let jobs = HttpAnswer::of(&mut stokehold(
        "live-lead",
        &["get", "jobs", "-n", "nlp", "-o", "json"],
    ));
    assert!(matches!(jobs.code, Some(0 | 3)), "{jobs:?}");
    let shown: BTreeSet<(String, String)> = jobs
        .rows()
        .iter()
        .map(|row| {
            (
                text(row, "/name").to_owned(),
                text(row, "/state").to_owned(),
            )
        })
        .collect();
    assert_eq!(shown, expected, "{jobs:?}");
    // What is missing is named in one line, with the role that helps.
    let message = jobs.err.trim();
    assert!(
        message.starts_with("stokehold: nodes") && message.lines().count() == 1,
        "{jobs:?}"
    );
    assert!(
        message.contains("not visible to you") && message.contains("rbac viewer"),
        "{jobs:?}"
    );
    for kind in ["pools", "nodes", "devices", "queues", "cost", "alerts"] {
        let answer = HttpAnswer::of(&mut stokehold(
            "live-lead",
            &["get", kind, "-n", "nlp", "-o", "json"],
        ));
        assert!(matches!(answer.code, Some(0 | 3)), "get {kind}: {answer:?}");
        answer.rows();
    }
    // With Prometheus at an address, the readings of devices come without any right in the cluster.
    let settings =
        "[scope]\nnamespaces = [\"nlp\"]\n[prometheus]\nurl = \"http://10.255.0.1:9090\"\n";
    let home = home(settings);
    let devices = HttpAnswer::read(
        stokehold("live-lead", &["get", "devices", "-o", "json"])
            .env("XDG_CONFIG_HOME", home.path()),
    );
    assert!(matches!(devices.code, Some(0 | 3)), "{devices:?}");
    let rows = devices.rows();
    let held = truth
        .exporters
        .values()
        .flat_map(|exporter| list(exporter, "/devices"));
    let held = held
        .filter(|device| {
            list(device, "/owners")
                .iter()
                .any(|owner| owner["namespace"] == "nlp")
        })
        .count();
    let own: Vec<&Value> = rows
        .iter()
        .filter(|row| row["namespace"] == "nlp" && row["slice"].is_null())
        .collect();
    assert_eq!(own.len(), held, "the devices that the team's pods hold");
    for row in &own {
        assert!(
            row["signals"]["util_ratio"].is_number() && row["job"].is_string(),
            "{row}"
        );
    }
    let variables = [("XDG_CONFIG_HOME", home.path())];
    let mut terminal = Terminal::start_with(&variables, &kubeconfig(), "live-lead", (170, 44));
    for (key, what) in [
        ("5", "pretrain-7b"),
        ("4", "nlp"),
        ("2", ""),
        ("6", ""),
        ("3", ""),
        ("0", "not-visible"),
    ] {
        terminal.keys(key);
        let text = terminal.wait(&format!("{what:?} on view {key}"), PATIENCE, |text| {
            text.contains(what) && !header(text).is_empty()
        });
        assert!(!text.contains("panicked"), "{text}");
    }
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
}

/// Who may see nothing gets every missing right named, on every kind, and rows of none.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_user_without_rights_sees_every_missing_right() {
    let _plane = calm();
    let answer = HttpAnswer::of(&mut stokehold(
        "live-nobody",
        &["get", "queues", "-o", "json"],
    ));
    assert_eq!(answer.code, Some(3), "{answer:?}");
    let doctor = HttpAnswer::of(&mut stokehold("live-nobody", &["doctor"]));
    assert_ne!(doctor.code, Some(0), "{doctor:?}");
    assert!(
        doctor.out.contains("rbac viewer") || doctor.err.contains("rbac viewer"),
        "the mend: {doctor:?}"
    );
    assert!(items("nodes").len() == 200, "which are there");
}

/// A real API server takes every object of the manifests, to the letter.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn the_manifests_of_the_services_are_valid() {
    let _plane = calm();
    let record = include_str!("../../config/kubernetes/record.yaml");
    let watch = include_str!("../../config/kubernetes/watch.yaml");
    let objects = |name: &str, config: &[&str]| {
        let own = |kind: &str| format!("{kind}/stokehold-{name}");
        let mut all = vec!["namespace/stokehold".to_owned()];
        all.extend(
            [
                "serviceaccount",
                "clusterrolebinding.rbac.authorization.k8s.io",
            ]
            .map(own),
        );
        all.extend(config.iter().map(|kind| own(kind)));
        all.extend(
            [
                "persistentvolumeclaim",
                "deployment.apps",
                "networkpolicy.networking.k8s.io",
            ]
            .map(own),
        );
        all
    };
    for (manifest, wanted) in [
        (record, objects("record", &[])),
        (watch, objects("watch", &["configmap"])),
    ] {
        // Its own namespace is not there in a dry run.
        let manifest = manifest.replace("namespace: stokehold\n", "namespace: default\n");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), manifest).expect("written");
        let path = file.path().to_str().expect("a path");
        let flags = [
            "apply",
            "--dry-run=server",
            "--validate=strict",
            "-o=name",
            "-f",
        ];
        let answer = kubectl(&[&flags[..], &[path]].concat());
        assert_eq!(answer.lines().collect::<Vec<_>>(), wanted);
    }
}
