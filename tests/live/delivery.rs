//! `watch` and a real Alertmanager: a finding fires there within seconds, a silence of it holds, and it is resolved. `promtool` reads
//! every page of metrics.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use model::base::Moment;
use stokehold::runtime::clock;

use super::plane::{PATIENCE, Watch, alone, curl, home, kubectl, stokehold};
use super::truth::text;

/// Alertmanager's API.
const ALERTMANAGER: &str = "http://10.255.0.1:9093/api/v2";
const NODE: &str = "a100-1";

/// The alerts that Alertmanager has: those that fire.
fn alerts() -> Vec<Value> {
    let answer = curl(&[&format!("{ALERTMANAGER}/alerts")]);
    serde_json::from_str(&answer).expect("a list")
}

/// The alert about the condition of the node.
fn own() -> Option<Value> {
    let is_own = |alert: &Value| {
        text(alert, "/labels/alertname") == "node-condition" && text(alert, "/labels/name") == NODE
    };
    alerts().into_iter().find(is_own)
}

/// Waits until something holds, and says how long that took.
fn until(what: &str, patience: Duration, holds: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        let waited = begun.elapsed();
        assert!(
            waited < patience,
            "{what}: not after {waited:?}: {:?}",
            alerts()
        );
        sleep(Duration::from_millis(100));
    }
    begun.elapsed()
}

/// A headless program that says on its second line, or its first, where it answers.
struct Service {
    child: Child,
    address: String,
}

impl Service {
    fn start(command: &mut Command) -> Self {
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = child.expect("stokehold runs");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut lines = out.lines().map_while(Result::ok);
        let address = lines.find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            Some(rest.split('/').next()?.to_owned())
        });
        let address = address.expect("says where it answers");
        Self { child, address }
    }

    fn metrics(&self) -> String {
        curl(&[&format!("http://{}/metrics", self.address)])
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Debian's promtool finds nothing wrong with a page.
fn is_clean(page: &str) {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live/lib.sh");
    let script = format!(
        "source {}; $(live_promtool) check metrics",
        library.display()
    );
    let mut child = Command::new("bash")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("bash runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(page.as_bytes()).expect("is read");
    drop(stdin);
    let output = child.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}\n{page}");
}

/// Sets the condition of the node, whose type no controller of the plane writes.
fn condition(is_wrong: bool) {
    let status = if is_wrong { "True" } else { "False" };
    let patch = json!({"status": {"conditions": [{
        "type": "NvlinkProblem", "status": status, "reason": "LinkState",
        "message": "NVLink 3 is down", "lastTransitionTime": clock::now().rfc3339(),
    }]}});
    let patch = patch.to_string();
    kubectl(&[
        "patch",
        "node",
        NODE,
        "--subresource=status",
        "--type=strategic",
        "-p",
        &patch,
    ]);
}

fn silenced(from: Moment) {
    let ends = from.plus(Duration::from_secs(3600));
    let silence = json!({
        "matchers": [{"name": "name", "value": NODE, "isRegex": false, "isEqual": true}],
        "startsAt": from.rfc3339(), "endsAt": ends.rfc3339(),
        "createdBy": "live", "comment": "the link is being replaced",
    });
    let header = "Content-Type: application/json";
    let place = format!("{ALERTMANAGER}/silences");
    curl(&["-H", header, "-d", &silence.to_string(), &place]);
}

/// Settings with Alertmanager as the receiver.
const PAGER: &str = "[[notify]]\nname = \"pager\"\nkind = \"alertmanager\"\nurl = \"http://10.255.0.1:9093\"\nmin_severity = \"info\"\n";

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_finding_fires_is_silenced_and_is_resolved_in_alertmanager() {
    let _plane = alone();
    let home = home(PAGER);
    let state = home.path().join("state").display().to_string();
    let start = || {
        let arguments = ["watch", "--dir", &state, "--listen", "127.0.0.1:0"];
        Service::start(stokehold("live-viewer", &arguments).env("XDG_CONFIG_HOME", home.path()))
    };
    let watch = start();
    let mut shown = Watch::start(&mut stokehold(
        "live-viewer",
        &["get", "alerts", "--watch", "-o", "json"],
    ));
    // What stood before fires once everything was read.
    until("the XID of h100-5", PATIENCE, || {
        let mut all = alerts().into_iter();
        all.any(|alert| text(&alert, "/labels/alertname") == "xid-48")
    });
    condition(true);
    let of = |line: &Value, event: &str| {
        line["event"] == event
            && text(line, "/object/code") == "node-condition"
            && text(line, "/object/object/name") == NODE
    };
    shown.wait("the finding", PATIENCE, |line| of(line, "set"));
    // (How long after `get alerts` showed it is told, not tested: the machine may be busy.)
    let took = until("it fires", PATIENCE, || own().is_some());
    eprintln!("it fires {took:?} after it was shown");
    let alert = own().expect("fires");
    assert_eq!(text(&alert, "/labels/severity"), "critical");
    assert_eq!(text(&alert, "/labels/cluster"), "live-viewer");
    assert_eq!(text(&alert, "/labels/node"), NODE);
    assert!(
        text(&alert, "/annotations/summary").contains("NVLink 3 is down"),
        "{alert}"
    );
    silenced(clock::now());
    until("the silence holds", PATIENCE, || {
        own().is_some_and(|alert| text(&alert, "/status/state") == "suppressed")
    });
    // Killed and started again, it is the same alert.
    drop(watch);
    let watch = start();
    until("it is found again", PATIENCE, || {
        let page = watch.metrics();
        page.lines()
            .any(|line| line.contains("code=\"node-condition\""))
    });
    let all = alerts().into_iter();
    let own_alerts = all.filter(|alert| text(alert, "/labels/name") == NODE);
    assert_eq!(own_alerts.count(), 1);
    condition(false);
    shown.wait("its end", PATIENCE, |line| of(line, "gone"));
    let took = until("it is resolved", PATIENCE, || own().is_none());
    eprintln!("it is resolved {took:?} after its end was shown");
    is_clean(&watch.metrics());
    let export = Service::start(&mut stokehold(
        "live-viewer",
        &["export", "--listen", "127.0.0.1:0"],
    ));
    until("the fleet is exported", PATIENCE, || {
        export.metrics().contains("stokehold_usage_cost_usd_total{")
    });
    is_clean(&export.metrics());
    let record = home.path().join("record").display().to_string();
    let arguments = ["record", "--dir", &record, "--listen", "127.0.0.1:0"];
    let record = Service::start(&mut stokehold("live-viewer", &arguments));
    until("the fleet is recorded", PATIENCE, || {
        record.metrics().contains("stokehold_usage_cost_usd_total{")
    });
    is_clean(&record.metrics());
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn of_two_watchers_one_sends_and_the_other_takes_over() {
    let _plane = alone();
    let home = home(PAGER);
    let start = |name: &str| {
        let state = home.path().join(name).display().to_string();
        let lease = "--lease=default/stokehold-watch";
        let own = ["--dir", &state, "--listen", "127.0.0.1:0"];
        let arguments = [&["watch", "--write", lease], &own[..]].concat();
        let mut command = stokehold("live-admin", &arguments);
        Service::start(command.env("XDG_CONFIG_HOME", home.path()))
    };
    let says =
        |watch: &Service, line: &str| watch.metrics().lines().any(|have| have.starts_with(line));
    let leads = |watch: &Service, leads: u8| {
        let page = watch.metrics();
        page.lines().any(|line| {
            line.starts_with("stokehold_watch_leads") && line.ends_with(&format!(" {leads}"))
        })
    };
    let first = start("first");
    until("the first leads", PATIENCE, || leads(&first, 1));
    let second = start("second");
    until("the second watches", PATIENCE, || {
        says(&second, "stokehold_findings{")
    });
    assert!(leads(&first, 1) && leads(&second, 0));
    let read = || {
        let lease = [
            "get",
            "lease",
            "-n",
            "default",
            "stokehold-watch",
            "-o",
            "json",
        ];
        serde_json::from_str::<Value>(&kubectl(&lease)).expect("a Lease")
    };
    let holder = text(&read(), "/spec/holderIdentity").to_owned();
    drop(first);
    until("the second leads", PATIENCE, || leads(&second, 1));
    let lease = read();
    assert_ne!(text(&lease, "/spec/holderIdentity"), holder);
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    condition(true);
    until("it fires", PATIENCE, || own().is_some());
    condition(false);
    until("it is resolved", PATIENCE, || own().is_none());
}
