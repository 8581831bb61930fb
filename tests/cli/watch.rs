//! `watch` against receivers in this process: what they are sent, that one that fails delays no other, and that a restart sends
//! nothing twice.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use model::fleet::Fleet;
use model::fleet::finding::{Finding, Severity};
use model::fleet::thresholds::Thresholds;
use model::notify::{NotifyFilter, ReceiverKind};
use source::notify::{Notifier, NotifyEndpoint};
use source::scrape::Endpoint;
use stokehold::runtime::clock::SessionClock;
use stokehold::runtime::watch::{Delivers, WatchInputs, Watcher};
use table::notify::{DeliveryCounts, DeliveryRules};
use table::{Facts, Scope};

use super::simulated::SimProcess;
use super::{Home, text};

/// How long something may take to come on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A receiver, and the bodies that it was sent.
struct Receiver {
    address: String,
    came: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    /// One that always gives this answer; where it is empty it hangs.
    fn new(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("has one").to_string();
        let came = Arc::<Mutex<Vec<Value>>>::default();
        let seen = Arc::clone(&came);
        std::thread::spawn(move || {
            let mut hung = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let Some(body) = request(&stream) else {
                    continue;
                };
                seen.lock().expect("no panic").push(body);
                if answer.is_empty() {
                    hung.push(stream);
                    continue;
                }
                let answer =
                    format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { address, came }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn came(&self) -> Vec<Value> {
        self.came.lock().expect("no panic").clone()
    }

    /// Waits until what came is as wanted.
    fn until(&self, what: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let begun = Instant::now();
        loop {
            let came = self.came();
            if wanted(&came) {
                return came;
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: {came:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The body of a request.
fn request(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// The address of a receiver that answers TLS with plain text.
fn noise() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("has one");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.expect("a connection").write_all(b"no TLS\r\n");
        }
    });
    format!("https://{address}")
}

fn receiver(name: &str, kind: ReceiverKind, url: &str) -> (DeliveryRules, NotifyEndpoint) {
    let rules = DeliveryRules {
        receiver: name.into(),
        kind,
        filter: NotifyFilter {
            min_severity: Severity::Info,
            codes: Vec::new(),
            kinds: Vec::new(),
            namespaces: Vec::new(),
            pools: Vec::new(),
        },
        cluster: "prod".to_owned(),
    };
    let endpoint = NotifyEndpoint {
        endpoint: Endpoint {
            name: name.to_owned(),
            url: url.to_owned(),
            ..Endpoint::default()
        },
        url_file: None,
        path: "",
        timeout: Duration::from_secs(2),
    };
    (rules, endpoint)
}

fn with_findings(facts: &Facts, findings: &[Finding]) -> Facts {
    Facts {
        fleet: Arc::new(Fleet {
            findings: findings.into(),
            exporters_found: true,
            ..(*facts.fleet).clone()
        }),
        ..facts.clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_that_fail_delay_no_other() {
    let facts = table::sample::facts();
    let finding = Finding {
        severity: Severity::Crit,
        ..facts.fleet.findings[0].clone()
    };
    let firing = with_findings(&facts, std::slice::from_ref(&finding));
    let (pager, hook) = (Receiver::new("200 OK"), Receiver::new("200 OK"));
    let (fails, hangs) = (
        Receiver::new("500 Internal Server Error"),
        Receiver::new(""),
    );
    let moved: &'static str = format!("302 Found\r\nLocation: {}/", pager.url()).leak();
    let moved = Receiver::new(moved);
    let receivers = vec![
        receiver("hangs", ReceiverKind::Webhook, &hangs.url()),
        receiver("fails", ReceiverKind::Slack, &fails.url()),
        receiver("moved", ReceiverKind::Webhook, &moved.url()),
        receiver("noise", ReceiverKind::Alertmanager, &noise()),
        receiver("pager", ReceiverKind::Alertmanager, &pager.url()),
        receiver("hook", ReceiverKind::Webhook, &hook.url()),
    ];
    let (pictures, seen) = tokio::sync::watch::channel(None);
    let inputs = WatchInputs {
        facts: seen,
        usage: tokio::sync::watch::channel(Arc::default()).1,
        clock: SessionClock::past(facts.now).0,
        scope: Scope::default(),
        thresholds: Arc::new(Thresholds::default()),
        silences: None,
    };
    let delivers = Delivers::Sends(Arc::new(Notifier::default()));
    let watcher = Watcher::new(inputs, delivers, receivers, None);
    let status = watcher.status();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let said = Arc::<Mutex<Vec<String>>>::default();
    let heard = Arc::clone(&said);
    let end = async {
        let _ = stopped.await;
    };
    let mut say = |words: &str| heard.lock().expect("no panic").push(words.to_owned());
    let running = watcher.run(end, &mut say);
    // Pictures come all the time.
    let shown = Arc::new(Mutex::new(firing));
    let source = Arc::clone(&shown);
    let publisher = tokio::spawn(async move {
        loop {
            let facts = source.lock().expect("no panic").clone();
            pictures.send_replace(Some(Arc::new(facts)));
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let steps = async {
        let told = tokio::task::spawn_blocking(move || {
            let alerts = pager.until("an alert", |came| !came.is_empty());
            let messages = hook.until("a message", |came| !came.is_empty());
            for (what, receiver) in [("hangs", &hangs), ("fails", &fails), ("moved", &moved)] {
                receiver.until(what, |came| !came.is_empty());
            }
            (pager, hook, alerts, messages)
        });
        let (pager, hook, alerts, messages) = told.await.expect("all are told");
        assert_eq!(alerts[0][0]["labels"]["id"], finding.id.as_str());
        assert_eq!(messages[0]["status"], "firing");
        let counts = |name: &str| -> DeliveryCounts {
            let status = status.borrow();
            let mut all = status.receivers.iter();
            let found = all.find(|(rules, _)| rules.receiver.as_str() == name);
            found.map(|(_, counts)| counts.clone()).expect("is there")
        };
        let begun = Instant::now();
        while counts("hangs").retries == 0
            || counts("noise").retries == 0
            || counts("moved").refused == 0
        {
            assert!(begun.elapsed() < PATIENCE, "{:?}", counts("hangs"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(counts("fails").retries > 0);
        assert_eq!(counts("hook").sent, 1);
        // It ends.
        *shown.lock().expect("no panic") = with_findings(&facts, &[]);
        let told = tokio::task::spawn_blocking(move || {
            let alerts = pager.until("it is resolved", |came| came.len() > 1);
            (pager, hook, alerts)
        });
        let (pager, hook, alerts) = told.await.expect("is told");
        assert_eq!(alerts[1][0]["endsAt"], facts.now.rfc3339());
        let _ = stop.send(());
        (pager, hook)
    };
    let (ended, (pager, hook)) = tokio::join!(running, steps);
    ended.expect("ends well");
    publisher.abort();
    assert_eq!(pager.came().len(), 2, "told once that it is over");
    assert!(hook.came().len() <= 2, "{:?}", hook.came());
    let said = said.lock().expect("no panic").join("\n");
    for words in [
        "receiver hangs fails: no answer within 2 s",
        "receiver fails fails: the receiver answered 500",
        "receiver moved fails: the receiver answered 302; redirects are not followed",
        "receiver noise fails: no TLS connection",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// A running `watch` of a simulated cluster.
struct Watch {
    child: Child,
    address: String,
}

impl Watch {
    fn start(home: &Home, kubeconfig: &str) -> Self {
        let arguments = ["watch", "--kubeconfig", kubeconfig, "--dir", "state"];
        let mut child = home
            .command(&arguments)
            .args(["--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("can be run");
        let stdout = child.stdout.take().expect("is piped");
        let mut lines = BufReader::new(stdout).lines();
        let mut line = || lines.next().expect("a line").expect("is text");
        let first = line();
        assert!(
            first.contains("pager (alertmanager), hook (webhook)"),
            "{first}"
        );
        let said = line();
        let address = said
            .strip_prefix("answers http://")
            .and_then(|rest| rest.split('/').next());
        let address = address.expect("the address").to_owned();
        Self { child, address }
    }

    fn ask(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("can be asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        (code.expect("a code"), body.to_owned())
    }

    /// The samples of a metric.
    fn metric(&self, name: &str) -> Vec<String> {
        let (code, page) = self.ask("/metrics");
        assert_eq!(code, 200);
        let lines = page.lines().filter(|line| line.starts_with(name));
        lines.map(str::to_owned).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ids of the findings that messages say begin.
fn begun(messages: &[Value]) -> Vec<String> {
    let firing = messages.iter().filter(|body| body["status"] == "firing");
    let alerts = firing.flat_map(|body| body["alerts"].as_array().cloned().unwrap_or_default());
    let mut ids: Vec<String> = alerts
        .map(|alert| alert["id"].as_str().expect("has one").to_owned())
        .collect();
    ids.sort();
    ids
}

#[test]
fn a_watcher_that_is_killed_goes_on_without_sending_anything_twice() {
    let home = Home::new();
    // (Findings are judged by the cluster's clock: it must not stand still.)
    let sim = SimProcess::start_at(&home, "kubeconfig", "40", "1");
    let (pager, hook) = (Receiver::new("200 OK"), Receiver::new("200 OK"));
    let (pager_url, hook_url) = (pager.url(), hook.url());
    home.settings(&format!(
        "[[notify]]\nname = \"pager\"\nkind = \"alertmanager\"\nurl = \"{pager_url}\"\nmin_severity = \"info\"\n\
         [[notify]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"{hook_url}\"\nmin_severity = \"info\"\n",
    ));
    let watch = Watch::start(&home, &sim.kubeconfig);
    assert_eq!(watch.ask("/healthz").0, 200);
    let alerts = pager.until("alerts", |came| !came.is_empty());
    let all = alerts[0].as_array().expect("a list").len();
    assert!(all > 0);
    let told = hook.until("all of them", |came| begun(came).len() >= all);
    let ids = begun(&told);
    assert_eq!(ids.windows(2).find(|pair| pair[0] == pair[1]), None);
    assert_eq!(watch.ask("/readyz"), (200, "ok\n".to_owned()));
    let findings = watch.metric("stokehold_findings{");
    assert!(!findings.is_empty());
    let sent = watch.metric("stokehold_notify_messages_total{");
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(
        sent[1].contains("cluster=\"sim-admin\",receiver=\"hook\""),
        "{sent:?}"
    );
    // Another on the same directory would send everything once more.
    let state = home.path("state").display().to_string();
    let arguments = ["watch", "--kubeconfig", &sim.kubeconfig, "--dir", &state];
    let other = home.run(&arguments);
    assert_eq!(other.status.code(), Some(1));
    let said = text(&other.stderr);
    let words = format!("another process watches with {state}");
    assert!(said.contains(&words), "{said}");
    // The last outcome is on disk before the next message goes out.
    let settled = watch.metric("stokehold_notify_waiting_messages{");
    assert!(
        settled.iter().all(|line| line.ends_with(" 0")),
        "{settled:?}"
    );
    drop(watch);
    let (before, alerted) = (hook.came().len(), pager.came().len());
    let watch = Watch::start(&home, &sim.kubeconfig);
    pager.until("alerts are sent again", |came| came.len() > alerted);
    // One that somebody mutes is over, for every receiver.
    let id = &ids[0];
    let at = "2026-11-21T06:40:00Z";
    let muted = format!(
        "{{\"version\":1,\"context\":{{\"sim-admin\":{{\"{id}\":{{\"state\":\"muted\",\"at\":\"{at}\"}}}}}}}}"
    );
    home.write(".local/state/stokehold/alerts.json", muted);
    let told = hook.until("it is muted", |came| came.len() > before);
    assert_eq!(
        told.len(),
        before + 1,
        "nothing was sent twice: {:?}",
        &told[before..]
    );
    let last = &told[before];
    assert_eq!(
        (&last["status"], &last["alerts"][0]["id"]),
        (&"muted".into(), &id.as_str().into())
    );
    drop(watch);
}

#[test]
fn a_recorder_sends_findings_as_well() {
    let home = Home::new();
    let sim = SimProcess::start_at(&home, "kubeconfig", "40", "1");
    let hook = Receiver::new("200 OK");
    let url = hook.url();
    let arguments = [
        "record",
        "--kubeconfig",
        &sim.kubeconfig,
        "--dir",
        "record",
        "--notify",
    ];
    let none = home.run(&arguments);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("add a [[notify]]"));
    assert!(!home.path("record").exists(), "nothing was begun");
    home.settings(&format!(
        "[[notify]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"{url}\"\nmin_severity = \"info\"\n",
    ));
    let mut command = home.command(&arguments);
    let mut child = command.stdin(Stdio::null()).spawn().expect("can be run");
    let told = hook.until("a message", |came| !came.is_empty());
    assert_eq!(told[0]["status"], "firing");
    let ended = std::process::Command::new("kill")
        .arg(child.id().to_string())
        .status();
    assert!(ended.expect("kill runs").success());
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    assert!(home.path("record/watch/notified.json").is_file());
    // The record is whole all the same.
    let record = home.path("record").display().to_string();
    let read = home.run(&["get", "nodes", "--record", &record, "-o", "name"]);
    assert_eq!(
        text(&read.stdout).lines().count(),
        40,
        "{}",
        text(&read.stderr)
    );
}

#[test]
fn invalid_settings_are_reported_before_anything_is_sent() {
    let home = Home::new();
    let none = home.run(&["watch"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("add a [[notify]]"));
    let other = home.run(&["watch", "--nodes", "3"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("add --demo"));
    let path = home.settings(
        "[[notify]]\nname = \"chat\"\nkind = \"slack\"\nurl = \"https://hooks.slack.com/services/T/B/hidden\"\n",
    );
    for arguments in [&["config", "validate"][..], &["watch"]] {
        let wrong = home.run(arguments);
        assert_eq!(wrong.status.code(), Some(2));
        let said = text(&wrong.stderr);
        assert!(
            said.contains(&format!("{}:1: notify: receiver `chat`", path.display())),
            "{said}"
        );
        assert!(said.contains("name that in url_file"), "{said}");
        assert!(!said.contains("hidden"), "{said}");
    }
}
