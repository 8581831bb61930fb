//! What breaks under a running program: nothing that was known is lost, what is stale says so, and it recovers alone.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::outages::{Program, server_is_ready};
use super::plane::{
    HttpAnswer, PATIENCE, Undo, Watch, alone, beside, home, kubeconfig, kubectl, place, placement,
    stokehold, undo,
};
use super::terminal::{Terminal, header, is_live, shows_the_fleet};
use super::truth::{list, text};

const WIDE: (u16, u16) = (170, 44);

fn complete(kubeconfig: &Path, context: &str) -> Terminal {
    let mut terminal = Terminal::start(kubeconfig, context, WIDE);
    terminal.wait("the whole fleet", PATIENCE, is_live);
    terminal
}

/// The exporter's pod on a node, and its address.
fn exporter(node: &str) -> (String, String) {
    let placement = placement();
    let own = list(&placement, "/exporters")
        .iter()
        .find(|e| text(e, "/node") == node);
    let own = own.unwrap_or_else(|| panic!("{node} has an exporter"));
    let port = own["port"].as_u64().expect("a port");
    (
        text(own, "/pod").to_owned(),
        format!("{}:{port}", text(own, "/address")),
    )
}

/// Silences exporters; they answer again when the value ends.
fn silence<'a>(pods: [&'a str; 2]) -> Undo<impl FnMut() + 'a> {
    let write = move |note: &'static str| {
        let how = ["annotate", "pod", "-n", "gpu-operator", "--overwrite"];
        [&how[..], &pods[..], &[note]].concat()
    };
    let silenced = Undo(move || {
        undo(&write("live.stokehold.dev/exporter-"));
        place();
    });
    kubectl(&write("live.stokehold.dev/exporter=off"));
    place();
    silenced
}

/// The API server is killed and comes back: nothing leaves the screen, the outage is said, the watch goes on.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn the_api_server_dies_and_comes_back() {
    let _plane = alone();
    let mut terminal = complete(&kubeconfig(), "live-viewer");
    let mut nodes = Watch::start(&mut stokehold(
        "live-viewer",
        &["get", "nodes", "--watch", "-o", "json"],
    ));
    nodes.wait("the last node", PATIENCE, |line| {
        line["object"]["name"] == "l4-5"
    });
    let server = Program::running("kube-apiserver");
    server.kill();
    let text = terminal.wait("the loss", PATIENCE, |text| {
        header(text).contains("unreachable")
    });
    assert!(shows_the_fleet(&text), "what was known stays: {text}");
    sleep(Duration::from_secs(3));
    assert!(
        shows_the_fleet(&terminal.text()),
        "what was known stays: {}",
        terminal.text()
    );
    // Who asks now is told where nobody answers.
    let answer = HttpAnswer::of(&mut stokehold(
        "live-viewer",
        &["get", "nodes", "-o", "json"],
    ));
    assert_eq!(answer.code, Some(4), "{answer:?}");
    assert!(answer.err.contains("10.255.0.1:6443"), "{answer:?}");
    server.start();
    server_is_ready();
    terminal.wait("the recovery", PATIENCE, is_live);
    // What happens now is seen, by a watch that never ended.
    let _uncordoned = Undo(|| undo(&["uncordon", "l4-3"]));
    kubectl(&["cordon", "l4-3"]);
    let is_cordoned =
        |line: &Value| line["object"]["name"] == "l4-3" && line["object"]["cordoned"].is_object();
    nodes.wait("the cordon", PATIENCE, is_cordoned);
    kubectl(&["uncordon", "l4-3"]);
    nodes.wait("its end", PATIENCE, |line| {
        line["object"]["name"] == "l4-3" && line["object"]["cordoned"].is_null()
    });
    let gone: Vec<_> = nodes
        .seen
        .iter()
        .filter(|line| line["event"] == "gone")
        .collect();
    assert_eq!(gone, Vec::<&Value>::new(), "no node ever went");
    assert_eq!(nodes.now().len(), 200);
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
    assert_eq!(terminal.changed(), [""; 0]);
}

/// One exporter stops, one accepts and never answers, Kueue ends and with it its aggregated API: each is said, none holds up the
/// others, all recover. (A program that looks once waits for the one that never answers: who acts is not beside it.)
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn exporters_and_kueue_fail_alone() {
    let _plane = alone();
    scope(|scope| {
        scope.spawn(exporters_fail);
        scope.spawn(super::outages::kueue_is_started_anew);
    });
}

fn exporters_fail() {
    let (stopped, _) = exporter("l4-2");
    let (hung, address) = exporter("l4-3");
    // What the plane's Prometheus has would not be asked of the exporters.
    let home = home("[prometheus]\ndiscover = false\n[scrape]\ntimeout = \"3s\"\n");
    let settings = [("XDG_CONFIG_HOME", home.path())];
    let mut terminal = Terminal::start_with(&settings, &kubeconfig(), "live-viewer", WIDE);
    terminal.wait("the whole fleet", PATIENCE, is_live);
    let mut sources = Watch::start(
        stokehold("live-viewer", &["get", "sources", "--watch", "-o", "json"]).envs(settings),
    );
    let of = |pod: &str, object: &Value| text(object, "/name").contains(pod);
    let is_page = |object: &Value| object["kind"] == "dcgm";
    sources.wait_all("every source", PATIENCE, |object| object["state"] == "live");
    assert_eq!(
        sources
            .now()
            .iter()
            .filter(|object| is_page(object))
            .count(),
        list(&placement(), "/exporters").len(),
        "{:?}",
        sources.now()
    );

    let silenced = silence([&stopped, &hung]);
    let held = AtomicBool::new(true);
    // (The exposition server looks at its placement twice a second.)
    let end = Instant::now() + PATIENCE;
    let listener = loop {
        match TcpListener::bind(&address) {
            Ok(listener) => break listener,
            Err(error) => assert!(Instant::now() < end, "{address}: {error}"),
        }
        sleep(Duration::from_millis(100));
    };
    scope(|scope| {
        let held = &held;
        // Also after a failure: the scope waits for the thread.
        let _free = Undo(|| held.store(false, Ordering::Relaxed));
        scope.spawn(move || {
            listener.set_nonblocking(true).expect("a listener");
            let mut silent = Vec::new();
            while held.load(Ordering::Relaxed) {
                // Taken, and never answered.
                silent.extend(listener.accept().ok());
                sleep(Duration::from_millis(20));
            }
        });
        let failed = |object: &Value| object["state"] != "live" && object["message"].is_string();
        sources.wait_all("the silence of both exporters", PATIENCE, |object| {
            let fails = of(&stopped, object) || of(&hung, object);
            !fails || failed(object) && object["errors"].as_u64() > Some(0)
        });
        let now = sources.now();
        let of_both = |object: &&Value| of(&stopped, object) || of(&hung, object);
        assert_eq!(now.iter().filter(of_both).count(), 2, "{now:?}");
        // The others go on, no slower than before.
        for object in now
            .iter()
            .filter(|object| is_page(object) && !of(&stopped, object) && !of(&hung, object))
        {
            assert_eq!(object["state"], "live", "{object}");
            assert!(object["age_seconds"].as_u64() < Some(60), "{object}");
        }
        let text = terminal.wait("the fault in the header", PATIENCE, |text| {
            !header(text).ends_with("live")
        });
        assert!(shows_the_fleet(&text), "what was known stays: {text}");
    });
    drop(silenced);
    sources.wait_all("the recovery of every source", PATIENCE, |object| {
        object["state"] == "live"
    });
    // It asks at times of its own: one that failed it twice is asked again after two intervals.
    terminal.wait("the recovery", PATIENCE, is_live);
}

/// What a credential plugin prints.
fn credential(token: &str) -> String {
    json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": token},
    })
    .to_string()
}

/// A token of a service account that lives as long as a secret does.
fn bound_token(secret: &str) -> String {
    kubectl(&["create", "secret", "generic", secret, "-n", "default"]);
    let bound = [
        "--bound-object-kind=Secret",
        &format!("--bound-object-name={secret}"),
    ];
    kubectl(&[
        "create", "token", "stoker", "-n", "default", bound[0], bound[1],
    ])
    .trim()
    .to_owned()
}

/// A token is taken back under a running console, and the login command has another.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_token_ends() {
    let _plane = beside();
    let work = tempfile::tempdir().expect("a folder");
    let (printed, plugin) = (
        work.path().join("credential.json"),
        work.path().join("login"),
    );
    fs::write(&plugin, format!("#!/bin/sh\ncat {}\n", printed.display())).expect("written");
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).expect("set");
    let forget = || {
        for what in [
            "secret/stoker-one",
            "secret/stoker-two",
            "serviceaccount/stoker",
        ] {
            undo(&["delete", what, "-n", "default", "--ignore-not-found"]);
        }
        undo(&[
            "delete",
            "clusterrolebinding",
            "stoker",
            "--ignore-not-found",
        ]);
    };
    forget();
    let _forgotten = Undo(forget);
    kubectl(&["create", "serviceaccount", "stoker", "-n", "default"]);
    kubectl(&[
        "create",
        "clusterrolebinding",
        "stoker",
        "--clusterrole=live-viewer",
        "--serviceaccount=default:stoker",
    ]);
    fs::write(&printed, credential(&bound_token("stoker-one"))).expect("written");
    let mut config: Value = serde_json::from_str(&kubectl(&[
        "config", "view", "--raw", "--minify", "-o", "json",
    ]))
    .expect("a document");
    config["users"] = json!([{"name": "stoker", "user": {"exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": plugin,
        "interactiveMode": "Never",
    }}}]);
    config["contexts"] =
        json!([{"name": "stoker", "context": {"cluster": "live", "user": "stoker"}}]);
    config["current-context"] = "stoker".into();
    let own = work.path().join("kubeconfig");
    fs::write(&own, config.to_string()).expect("written");

    let mut terminal = complete(&own, "stoker");
    kubectl(&["delete", "secret", "stoker-one", "-n", "default"]);
    let text = terminal.wait("the end of the token", PATIENCE, |text| {
        header(text).contains("unreachable") || header(text).contains("stale")
    });
    assert!(shows_the_fleet(&text), "what was known stays: {text}");
    fs::write(&printed, credential(&bound_token("stoker-two"))).expect("written");
    terminal.wait("the recovery with a new token", PATIENCE, is_live);
    terminal.keys("q");
    assert!(terminal.end(PATIENCE).success());
}
