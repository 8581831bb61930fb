//! `watch` and `record --notify` against receivers in this process: a restart sends nothing twice.

#[path = "../cli/receiver.rs"]
mod receiver;

use serde_json::Value;

use super::simulated::Sim;
use super::{Home, Running, alone, ask, text};
use receiver::Receiver;

/// A running `watch` of a simulated cluster.
struct Watch {
    _running: Running,
    address: String,
}

impl Watch {
    fn start(home: &Home, kubeconfig: &str) -> Self {
        let arguments = ["watch", "--kubeconfig", kubeconfig, "--dir", "state"];
        let listen = ["--listen", "127.0.0.1:0"];
        let mut running = Running::start(home, &[&arguments[..], &listen].concat());
        let first = running.line();
        let receivers = "pager (alertmanager), hook (webhook)";
        assert!(first.contains(receivers), "{first}");
        let address = running.address("serves http://");
        Self {
            _running: running,
            address,
        }
    }

    fn ask(&self, path: &str) -> (u16, String) {
        ask(&self.address, &format!("GET {path}"))
    }

    /// The samples of a metric.
    fn metric(&self, name: &str) -> Vec<String> {
        let (code, page) = self.ask("/metrics");
        assert_eq!(code, 200);
        let lines = page.lines().filter(|line| line.starts_with(name));
        lines.map(str::to_owned).collect()
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
    let _alone = alone();
    let home = Home::new();
    // (Findings are judged by the cluster's clock: it must not stand still.)
    let sim = Sim::start_at(&home, "kubeconfig", "40", "1");
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
    let received = hook.until("all of them", |came| begun(came).len() >= all);
    let ids = begun(&received);
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
    let message = text(&other.stderr);
    let words = format!("another process uses {state}");
    assert!(message.contains(&words), "{message}");
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
    let received = hook.until("it is muted", |came| came.len() > before);
    assert_eq!(
        received.len(),
        before + 1,
        "nothing was sent twice: {:?}",
        &received[before..]
    );
    let last = &received[before];
    assert_eq!(
        (&last["status"], &last["alerts"][0]["id"]),
        (&"muted".into(), &id.as_str().into())
    );
    drop(watch);
}

#[test]
fn a_recorder_sends_findings_as_well() {
    let _alone = alone();
    let home = Home::new();
    let sim = Sim::start_at(&home, "kubeconfig", "40", "1");
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
    let recorder = Running::start(&home, &arguments);
    let received = hook.until("a message", |came| !came.is_empty());
    assert_eq!(received[0]["status"], "firing");
    assert_eq!(recorder.end(), Some(0));
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
