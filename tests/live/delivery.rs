//! `watch` and a real Alertmanager: a finding fires there within seconds, a silence of it holds, and it is resolved. `promtool` reads
//! every page of metrics.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use model::base::Moment;
use stokehold::runtime::clock;

use super::acting::Stage;
use super::plane::{
    Ends, PATIENCE, Undo, Watch, alone, curl, home, kubectl, own_kubeconfig, parts, stokehold,
    stokehold_at,
};
use super::truth::text;

/// Alertmanager's API.
const ALERTMANAGER: &str = "http://10.255.0.1:9093/api/v2";

/// A node of a test's own, and a context of that name. The name is new at each try, and it is the label `cluster` of what is sent:
/// Alertmanager may still have the alerts and silences of earlier ones.
struct Own {
    name: &'static str,
    kubeconfig: PathBuf,
    _folder: TempDir,
    stage: Stage,
}

impl Own {
    /// With the rights of this user of the plane.
    fn new(name: &str, user: &str) -> Self {
        let name: &'static str = format!("act-{name}-{}", std::process::id()).leak();
        let (cluster, user) = parts(user);
        let (folder, kubeconfig) = own_kubeconfig(name, &cluster, &user);
        Self {
            name,
            kubeconfig,
            _folder: folder,
            stage: Stage::on(alone(), name),
        }
    }

    fn stokehold(&self, arguments: &[&str]) -> Command {
        stokehold_at(&self.kubeconfig, self.name, arguments)
    }

    /// The alerts of this cluster that Alertmanager has: those that fire.
    fn alerts(&self) -> Vec<Value> {
        let answer = curl(&[&format!("{ALERTMANAGER}/alerts")]);
        let mut all: Vec<Value> = serde_json::from_str(&answer).expect("a list");
        all.retain(|alert| text(alert, "/labels/cluster") == self.name);
        all
    }

    /// Those about the condition of the node.
    fn of_node(&self) -> Vec<Value> {
        let mut all = self.alerts();
        all.retain(|alert| {
            text(alert, "/labels/alertname") == "node-condition"
                && text(alert, "/labels/name") == self.name
        });
        all
    }

    /// Waits until something holds, and says how long that took.
    fn until(&self, what: &str, patience: Duration, holds: impl Fn() -> bool) -> Duration {
        let begun = Instant::now();
        while !holds() {
            let waited = begun.elapsed();
            assert!(
                waited < patience,
                "waited {waited:?} in vain until {what}; alerts of {}: {:#?}",
                self.name,
                self.of_node()
            );
            sleep(Duration::from_millis(100));
        }
        begun.elapsed()
    }

    /// Sets the condition of the node, whose type no controller of the plane writes.
    fn condition(&self, is_wrong: bool) {
        let status = if is_wrong { "True" } else { "False" };
        let patch = json!({"status": {"conditions": [{
            "type": "NvlinkProblem", "status": status, "reason": "LinkState",
            "message": "NVLink 3 is down", "lastTransitionTime": clock::now().rfc3339(),
        }]}});
        let patch = patch.to_string();
        kubectl(&[
            "patch",
            "node",
            self.name,
            "--subresource=status",
            "--type=strategic",
            "-p",
            &patch,
        ]);
    }

    /// Silences the node for an hour, or until the value ends.
    fn silenced(&self, from: Moment) -> Undo<impl FnMut()> {
        let ends = from.plus(Duration::from_secs(3600));
        let silence = json!({
            "matchers": [{"name": "name", "value": self.name, "isRegex": false, "isEqual": true}],
            "startsAt": from.rfc3339(), "endsAt": ends.rfc3339(),
            "createdBy": "live", "comment": "the link is being replaced",
        });
        let header = "Content-Type: application/json";
        let place = format!("{ALERTMANAGER}/silences");
        let made = curl(&["-H", header, "-d", &silence.to_string(), &place]);
        let made: Value = serde_json::from_str(&made).expect("a document");
        let place = format!("{ALERTMANAGER}/silence/{}", text(&made, "/silenceID"));
        Undo(move || {
            let _ = Command::new("curl")
                .args(["-sS", "-X", "DELETE", &place])
                .status();
        })
    }
}

/// A headless program that says on its second line, or its first, where it answers.
struct Service {
    _child: Ends,
    address: String,
}

impl Service {
    fn start(command: &mut Command) -> Self {
        let child = command.stdout(Stdio::piped()).spawn();
        let mut child = Ends(child.expect("stokehold runs"));
        let out = BufReader::new(child.0.stdout.take().expect("a pipe"));
        let (send, lines) = channel();
        // (Read to its end, so that the program can always write.)
        spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some((_, rest)) = line.split_once("http://") {
                    let address = rest.split('/').next().unwrap_or_default();
                    let _ = send.send(address.to_owned());
                }
            }
        });
        let address = lines.recv_timeout(PATIENCE);
        Self {
            address: address.expect("says where it answers"),
            _child: child,
        }
    }

    fn metrics(&self) -> String {
        curl(&[&format!("http://{}/metrics", self.address)])
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
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && message.is_empty(),
        "{message}\n{page}"
    );
}

/// Settings with Alertmanager as the receiver.
const PAGER: &str = "[[notify]]\nname = \"pager\"\nkind = \"alertmanager\"\nurl = \"http://10.255.0.1:9093\"\nmin_severity = \"info\"\n";

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_finding_fires_is_silenced_and_is_resolved_in_alertmanager() {
    let own = Own::new("alert", "live-viewer");
    let home = home(PAGER);
    let state = home.path().join("state").display().to_string();
    let start = || {
        let arguments = ["watch", "--dir", &state, "--listen", "127.0.0.1:0"];
        Service::start(
            own.stokehold(&arguments)
                .env("XDG_CONFIG_HOME", home.path()),
        )
    };
    let watch = start();
    let mut shown = Watch::start(&mut own.stokehold(&["get", "alerts", "--watch", "-o", "json"]));
    // What stood before fires once everything was read.
    own.until("the XID of h100-5 fires", PATIENCE, || {
        let mut all = own.alerts().into_iter();
        all.any(|alert| text(&alert, "/labels/alertname") == "xid-48")
    });
    own.condition(true);
    let of = |line: &Value, event: &str| {
        line["event"] == event
            && text(line, "/object/code") == "node-condition"
            && text(line, "/object/object/name") == own.name
    };
    shown.wait("the finding", PATIENCE, |line| of(line, "set"));
    // (How long after `get alerts` showed it is told, not tested: the machine may be busy.)
    let fires = || own.of_node().len() == 1;
    let took = own.until("it fires", PATIENCE, fires);
    eprintln!("it fires {took:?} after it was shown");
    let alert = own.of_node().remove(0);
    assert_eq!(text(&alert, "/labels/severity"), "critical");
    assert_eq!(text(&alert, "/labels/node"), own.name);
    assert!(
        text(&alert, "/annotations/summary").contains("NVLink 3 is down"),
        "{alert}"
    );
    let _silence = own.silenced(clock::now());
    own.until("it is silenced", PATIENCE, || {
        let mut all = own.of_node().into_iter();
        all.any(|alert| text(&alert, "/status/state") == "suppressed")
    });
    // Killed and started again, it is the same alert.
    drop(watch);
    let watch = start();
    own.until("it is found again", PATIENCE, || {
        let page = watch.metrics();
        page.lines()
            .any(|line| line.contains("code=\"node-condition\""))
    });
    let all = own.alerts().into_iter();
    let about_node = all.filter(|alert| text(alert, "/labels/name") == own.name);
    let about_node: Vec<Value> = about_node.collect();
    assert_eq!(about_node.len(), 1, "{about_node:#?}");
    own.condition(false);
    shown.wait("its end", PATIENCE, |line| of(line, "gone"));
    let resolved = || own.of_node().is_empty();
    let took = own.until("it is resolved", PATIENCE, resolved);
    eprintln!("it is resolved {took:?} after its end was shown");
    is_clean(&watch.metrics());
    let export = Service::start(&mut stokehold(
        "live-viewer",
        &["export", "--listen", "127.0.0.1:0"],
    ));
    own.until("the fleet is exported", PATIENCE, || {
        export.metrics().contains("stokehold_usage_cost_usd_total{")
    });
    is_clean(&export.metrics());
    let record = home.path().join("record").display().to_string();
    let arguments = ["record", "--dir", &record, "--listen", "127.0.0.1:0"];
    let record = Service::start(&mut stokehold("live-viewer", &arguments));
    own.until("the fleet is recorded", PATIENCE, || {
        record.metrics().contains("stokehold_usage_cost_usd_total{")
    });
    is_clean(&record.metrics());
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn of_two_watchers_one_sends_and_the_other_takes_over() {
    let own = Own::new("lease", "live-admin");
    let home = home(PAGER);
    let lease = format!("--lease={}/stokehold-watch", own.name);
    let start = |name: &str| {
        let state = home.path().join(name).display().to_string();
        let arguments = [
            "watch",
            "--write",
            &lease,
            "--dir",
            &state,
            "--listen",
            "127.0.0.1:0",
        ];
        Service::start(
            own.stokehold(&arguments)
                .env("XDG_CONFIG_HOME", home.path()),
        )
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
    own.until("the first leads", PATIENCE, || leads(&first, 1));
    let second = start("second");
    own.until("the second watches", PATIENCE, || {
        says(&second, "stokehold_findings{")
    });
    assert!(leads(&first, 1) && leads(&second, 0));
    let read = || own.stage.object("lease", "stokehold-watch");
    let holder = text(&read(), "/spec/holderIdentity").to_owned();
    drop(first);
    own.until("the second leads", PATIENCE, || leads(&second, 1));
    let lease = read();
    assert_ne!(text(&lease, "/spec/holderIdentity"), holder);
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    own.condition(true);
    own.until("it fires", PATIENCE, || own.of_node().len() == 1);
    own.condition(false);
    own.until("it is resolved", PATIENCE, || own.of_node().is_empty());
}
