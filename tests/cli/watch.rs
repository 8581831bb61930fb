//! `watch` against receivers in this process: what they are sent, that one that fails delays no other, and that a restart sends
//! nothing twice.

use std::io::Write;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

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

use super::receiver::{PATIENCE, Receiver};
use super::{Home, text};

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

/// How long a receiver that hangs is waited for.
const GIVEN_UP: Duration = Duration::from_secs(2);

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
        // Only one that hangs is given up soon.
        timeout: if name == "hangs" { GIVEN_UP } else { PATIENCE },
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
    let log = Arc::<Mutex<Vec<String>>>::default();
    let heard = Arc::clone(&log);
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
        let received = tokio::task::spawn_blocking(move || {
            let alerts = pager.until("an alert", |came| !came.is_empty());
            let messages = hook.until("a message", |came| !came.is_empty());
            for (what, receiver) in [("hangs", &hangs), ("fails", &fails), ("moved", &moved)] {
                receiver.until(what, |came| !came.is_empty());
            }
            (pager, hook, alerts, messages)
        });
        let (pager, hook, alerts, messages) = received.await.expect("all are told");
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
        let received = tokio::task::spawn_blocking(move || {
            let alerts = pager.until("it is resolved", |came| came.len() > 1);
            (pager, hook, alerts)
        });
        let (pager, hook, alerts) = received.await.expect("is told");
        assert_eq!(alerts[1][0]["endsAt"], facts.now.rfc3339());
        let _ = stop.send(());
        (pager, hook)
    };
    let (ended, (pager, hook)) = tokio::join!(running, steps);
    ended.expect("ends well");
    publisher.abort();
    assert_eq!(pager.came().len(), 2, "told once that it is over");
    assert!(hook.came().len() <= 2, "{:?}", hook.came());
    let log = log.lock().expect("no panic").join("\n");
    for words in [
        "receiver hangs fails: no answer within 2 s",
        "receiver fails fails: the receiver answered 500",
        "receiver moved fails: the receiver answered 302; redirects are not followed",
        "receiver noise fails: no TLS connection",
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
}

#[test]
fn invalid_settings_are_reported_before_anything_is_sent() {
    let home = Home::new();
    let none = home.run(&["watch"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("add a [[notify]]"));
    let other = home.run(&["watch", "--nodes", "3"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("need --demo"));
    let path = home.settings(
        "[[notify]]\nname = \"chat\"\nkind = \"slack\"\nurl = \"https://hooks.slack.com/services/T/B/hidden\"\n",
    );
    for arguments in [&["config", "validate"][..], &["watch"]] {
        let wrong = home.run(arguments);
        assert_eq!(wrong.status.code(), Some(2));
        let errors = text(&wrong.stderr);
        assert!(
            errors.contains(&format!("{}:1: notify: receiver `chat`", path.display())),
            "{errors}"
        );
        assert!(errors.contains("name that in url_file"), "{errors}");
        assert!(!errors.contains("hidden"), "{errors}");
    }
}
