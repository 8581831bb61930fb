//! Tests of delivery on a virtual clock, with scripted receivers.

use std::time::Duration;

use serde_json::Value;

use model::base::{Moment, Name, ObjectKey};
use model::fleet::finding::{Finding, Severity, Subject};
use model::notify::{FindingPlace, NotifyFilter, ReceiverKind};

use super::alertmanager::CLOCKS_DIFFER;
use super::delivery::{Delivery, DeliveryRules, GROUP_INTERVAL, GROUP_WAIT};
use super::entry::ALERT_LASTS;
use super::*;

const START: Moment = Moment::from_seconds(1_800_000_000);

fn rules(kind: ReceiverKind) -> DeliveryRules {
    DeliveryRules {
        receiver: Name::new("own"),
        kind,
        filter: NotifyFilter {
            min_severity: Severity::Warn,
            codes: Vec::new(),
            kinds: Vec::new(),
            namespaces: Vec::new(),
            pools: Vec::new(),
        },
        cluster: "prod".to_owned(),
    }
}

fn alert(code: &str, node: &str, rack: &str) -> Alert {
    Alert {
        finding: Finding {
            id: Name::from(format!("{code}:Device:{node}/gpu0")),
            severity: Severity::Warn,
            code: Name::new(code),
            subject: Subject {
                kind: "Device",
                key: ObjectKey::new("", format!("{node}/gpu0")),
            },
            since: START,
            first_seen: false,
            at_least: false,
            value: Some(1.0),
            threshold: None,
            message: "it is hot".to_owned(),
            repair: "cool it".to_owned(),
            members: Box::default(),
            also: Box::default(),
        },
        place: FindingPlace {
            node: Some(Name::new(node)),
            rack: Some(Name::new(rack)),
            pool: Some(Name::new("h100")),
        },
        acknowledged: false,
    }
}

fn standing(alerts: &[Alert]) -> CurrentAlerts {
    CurrentAlerts {
        alerts: alerts.to_vec(),
        budgets_known: true,
        cluster_known: true,
        ..CurrentAlerts::default()
    }
}

/// A delivery with a manual clock.
struct Bench {
    delivery: Delivery,
    up: Duration,
}

impl Bench {
    fn new(kind: ReceiverKind) -> Self {
        Self {
            delivery: Delivery::new(rules(kind)),
            up: Duration::ZERO,
        }
    }

    /// The same receiver after a restart of the process.
    fn restarted(&self, kind: ReceiverKind) -> (Self, usize) {
        let text = saved_text("u", vec![self.delivery.saved()]);
        let saved = read_saved(&text, "u").expect("is ours").expect("of it");
        let mut next = Self::new(kind);
        let saved = saved.into_iter().next().expect("one receiver");
        let unsure = next.delivery.restore(saved);
        (next, unsure)
    }

    fn beat(&self) -> Beat {
        Beat {
            now: START.plus(self.up),
            up: self.up,
        }
    }

    fn after(&mut self, wait: Duration) -> &mut Self {
        self.up += wait;
        self
    }

    fn sees(&mut self, standing: &CurrentAlerts) -> &mut Self {
        let beat = self.beat();
        self.delivery
            .update(beat, standing, |_| Duration::from_secs(60));
        self
    }

    fn next(&mut self) -> Option<Value> {
        let message = self.delivery.next(self.beat())?;
        Some(serde_json::from_str(&message.body).expect("is JSON"))
    }

    fn done(&mut self, outcome: SendOutcome) {
        self.delivery.done(self.beat(), outcome, 0.0);
    }

    /// Every message that is due now, each accepted.
    fn taken(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(body) = self.next() {
            self.done(SendOutcome::Sent);
            all.push(body);
        }
        all
    }
}

fn again() -> SendOutcome {
    SendOutcome::Again(None, "it failed".to_owned())
}

/// Status, code and count of messages.
fn heads(messages: &[Value]) -> Vec<(String, String, u64)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let head = |body: &Value| {
        let count = body["count"].as_u64().unwrap_or_default();
        (text(&body["status"]), text(&body["code"]), count)
    };
    messages.iter().map(head).collect()
}

fn head(status: &str, code: &str, count: u64) -> (String, String, u64) {
    (status.to_owned(), code.to_owned(), count)
}

#[test]
fn each_start_and_end_is_sent_once() {
    let mut bench = Bench::new(ReceiverKind::Webhook);
    let one = standing(&[alert("heat", "n1", "r1")]);
    bench.sees(&one);
    assert_eq!(bench.next(), None, "more of the group may come");
    let sent = bench.after(GROUP_WAIT).sees(&one).taken();
    assert_eq!(heads(&sent), [head("firing", "heat", 1)]);
    let alert = &sent[0]["alerts"][0];
    assert_eq!(alert["object"]["name"], "n1/gpu0");
    assert_eq!(alert["rack"], "r1");
    assert_eq!(sent[0]["cluster"], "prod");
    for _ in 0..100 {
        let sent = bench.after(Duration::from_secs(30)).sees(&one).taken();
        assert_eq!(sent, Vec::<Value>::new());
    }
    bench.sees(&standing(&[]));
    let sent = bench.after(GROUP_WAIT).sees(&standing(&[])).taken();
    assert_eq!(heads(&sent), [head("resolved", "heat", 1)]);
    let sent = bench.after(GROUP_INTERVAL).sees(&standing(&[])).taken();
    assert_eq!(sent, Vec::<Value>::new());
    assert!(bench.delivery.saved().entries.is_empty());
}

#[test]
fn findings_outside_the_filter_are_not_sent() {
    let mut bench = Bench::new(ReceiverKind::Webhook);
    let mut info = alert("heat", "n1", "r1");
    info.finding.severity = Severity::Info;
    bench.sees(&standing(&[info]));
    assert_eq!(bench.after(GROUP_WAIT).taken(), Vec::<Value>::new());
}

#[test]
fn a_storm_is_one_message_a_rack_and_a_larger_one_a_message_a_code() {
    let mut bench = Bench::new(ReceiverKind::Webhook);
    let of = |racks: usize| -> CurrentAlerts {
        let all =
            (0..racks * 10).map(|at| alert("heat", &format!("n{at}"), &format!("r{}", at % racks)));
        standing(&all.collect::<Vec<_>>())
    };
    bench.sees(&of(3));
    let sent = bench.after(GROUP_WAIT).taken();
    assert_eq!(heads(&sent), vec![head("firing", "heat", 10); 3]);
    assert_eq!(sent[0]["place"]["kind"], "rack");
    // More findings of a rack wait for its next message.
    let mut more = of(3);
    more.alerts.push(alert("heat", "n99", "r1"));
    bench.sees(&more);
    assert_eq!(bench.after(GROUP_WAIT).taken(), Vec::<Value>::new());
    let sent = bench.after(GROUP_INTERVAL).taken();
    assert_eq!(heads(&sent), [head("firing", "heat", 1)]);
    // More places than messages may wait.
    let mut bench = Bench::new(ReceiverKind::Webhook);
    bench.sees(&of(MOST_WAITING + 1));
    assert_eq!(bench.delivery.counts().waiting, 1, "the bound holds");
    let sent = bench.after(GROUP_WAIT).taken();
    let all = (MOST_WAITING as u64 + 1) * 10;
    assert_eq!(heads(&sent), [head("firing", "heat", all)]);
    assert_eq!(sent[0]["alerts"].as_array().map(Vec::len), Some(100));
    assert_eq!(sent[0]["omitted"], all - 100);
}

#[test]
fn a_failing_receiver_is_retried_with_backoff_and_gets_the_current_findings() {
    let mut bench = Bench::new(ReceiverKind::Webhook);
    let two = standing(&[alert("heat", "n1", "r1"), alert("xid-79", "n2", "r2")]);
    bench.sees(&two).after(GROUP_WAIT);
    let mut waits = Vec::new();
    assert!(bench.next().is_some());
    assert!(bench.next().is_none(), "one at a time");
    for _ in 0..8 {
        bench.done(again());
        let begun = bench.up;
        while bench.next().is_none() {
            bench.after(Duration::from_secs(1));
        }
        waits.push((bench.up - begun).as_secs());
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    bench.done(again());
    bench.after(Duration::from_secs(60));
    assert_eq!(bench.delivery.counts().retries, 9);
    // One of them ended meanwhile: it is not reported, and it is counted.
    let sent = bench.sees(&standing(&two.alerts[1..])).taken();
    assert_eq!(heads(&sent), [head("firing", "xid-79", 1)]);
    let counts = bench.delivery.counts();
    assert_eq!((counts.dropped, counts.sent, counts.fault), (1, 1, None));
}

#[test]
fn a_retry_after_of_the_receiver_is_obeyed() {
    let mut bench = Bench::new(ReceiverKind::Webhook);
    bench
        .sees(&standing(&[alert("heat", "n1", "r1")]))
        .after(GROUP_WAIT);
    assert!(bench.next().is_some());
    bench.done(SendOutcome::Again(
        Some(Duration::from_secs(90)),
        "429".to_owned(),
    ));
    assert!(bench.after(Duration::from_secs(89)).next().is_none());
    assert!(bench.after(Duration::from_secs(1)).next().is_some());
}

#[test]
fn what_is_refused_holds_nothing_up_and_is_offered_again_much_later() {
    let mut bench = Bench::new(ReceiverKind::Webhook);
    let two = standing(&[alert("heat", "n1", "r1"), alert("xid-79", "n2", "r2")]);
    bench.sees(&two).after(GROUP_WAIT);
    assert!(bench.next().is_some());
    bench.done(SendOutcome::Refused("403".to_owned()));
    assert_eq!(bench.taken().len(), 1, "the other goes out");
    for _ in 0..14 {
        let sent = bench.after(Duration::from_secs(60)).sees(&two).taken();
        assert_eq!(sent, Vec::<Value>::new());
    }
    let sent = bench.after(Duration::from_secs(70)).sees(&two).taken();
    assert_eq!(sent.len(), 1);
    assert_eq!(bench.delivery.counts().refused, 1);
}

#[test]
fn an_alert_that_alertmanager_refuses_keeps_no_other_from_being_sent_again() {
    let mut bench = Bench::new(ReceiverKind::Alertmanager);
    let good = alert("heat", "n1", "r1");
    bench.sees(&standing(std::slice::from_ref(&good)));
    assert_eq!(bench.taken().len(), 1);
    let two = standing(&[good, alert("xid-79", "n2", "r2")]);
    let (mut lasts, mut refused) = (bench.up, 0);
    for _ in 0..40 {
        bench.after(Duration::from_secs(10)).sees(&two);
        while let Some(message) = bench.next() {
            let alerts = message.as_array().expect("is a list").clone();
            let of = |code: &str| {
                let named = |one: &Value| one["labels"]["alertname"] == code;
                alerts.iter().any(named)
            };
            if of("xid-79") {
                refused += 1;
                bench.done(SendOutcome::Refused("413".to_owned()));
            } else {
                assert!(of("heat"));
                lasts = bench.up;
                bench.done(SendOutcome::Sent);
            }
        }
        let since = bench.up.saturating_sub(lasts);
        assert!(since < ALERT_LASTS, "it has run out: {since:?}");
    }
    assert!(refused > 3, "{refused}");
}

#[test]
fn a_restart_sends_nothing_twice_and_sends_what_ended_meanwhile() {
    let mut bench = Bench::new(ReceiverKind::Slack);
    let two = standing(&[alert("heat", "n1", "r1"), alert("xid-79", "n2", "r2")]);
    bench.sees(&two).after(GROUP_WAIT);
    assert_eq!(bench.taken().len(), 2);
    let (mut next, unsure) = bench.restarted(ReceiverKind::Webhook);
    assert_eq!(unsure, 0);
    // It is found again only after its check's `for`, with a later start.
    next.sees(&standing(&[]));
    assert_eq!(
        next.after(Duration::from_secs(120)).taken(),
        Vec::<Value>::new()
    );
    let mut younger = alert("heat", "n1", "r1");
    younger.finding.since = START.plus(Duration::from_secs(500));
    younger.finding.first_seen = true;
    younger.finding.at_least = true;
    let one = standing(&[younger]);
    next.sees(&one).after(Duration::from_secs(115)).sees(&one);
    assert_eq!(next.taken(), Vec::<Value>::new());
    // The other is not found again.
    next.after(Duration::from_secs(10)).sees(&one);
    let sent = next.after(GROUP_WAIT).sees(&one).taken();
    assert_eq!(heads(&sent), [head("resolved", "xid-79", 1)]);
    let entries = next.delivery.saved().entries;
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].finding.since, START, "it is as old as it was");
}

#[test]
fn findings_sent_by_another_process_are_not_sent_again() {
    for kind in [ReceiverKind::Webhook, ReceiverKind::Alertmanager] {
        let mut bench = Bench::new(kind);
        let beat = bench.beat();
        bench.sees(&standing(&[
            alert("heat", "n1", "r1"),
            alert("heat", "n2", "r1"),
        ]));
        bench.delivery.mark_all_sent(beat);
        assert_eq!(bench.delivery.counts(), DeliveryCounts::default());
        // One is over, as the other process has sent too; another begins, and the other process sends nothing any more.
        bench
            .after(Duration::from_secs(20))
            .sees(&standing(&[alert("heat", "n1", "r1")]));
        let beat = bench.beat();
        bench.delivery.mark_all_sent(beat);
        let now = standing(&[alert("heat", "n1", "r1"), alert("heat", "n3", "r1")]);
        let sent = bench.sees(&now).after(GROUP_WAIT).sees(&now).taken();
        let text = serde_json::to_string(&sent).expect("is JSON");
        assert!(text.contains("n3/gpu0"), "{kind:?}: {text}");
        assert!(
            !text.contains("n1/gpu0") && !text.contains("n2/gpu0"),
            "{kind:?}: {text}"
        );
        // A finding that the other process sent is resolved by this one.
        let sent = bench
            .after(GROUP_INTERVAL)
            .sees(&standing(&[]))
            .after(GROUP_WAIT)
            .sees(&standing(&[]))
            .taken();
        let text = serde_json::to_string(&sent).expect("is JSON");
        assert!(
            text.contains("n1/gpu0") && text.contains("n3/gpu0"),
            "{kind:?}: {text}"
        );
    }
}

#[test]
fn what_is_not_known_has_not_ended() {
    let sent = || {
        let mut bench = Bench::new(ReceiverKind::Webhook);
        bench
            .sees(&standing(&[alert("heat", "n1", "r1")]))
            .after(GROUP_WAIT);
        assert_eq!(bench.taken().len(), 1);
        bench.restarted(ReceiverKind::Webhook).0
    };
    let unread = CurrentAlerts {
        unread: vec![Name::new("n1")],
        ..standing(&[])
    };
    let elsewhere = CurrentAlerts {
        unread: vec![Name::new("n2")],
        ..standing(&[])
    };
    for (what, seen, ends) in [
        ("its exporter does not answer", unread, 1800),
        ("another exporter does not answer", elsewhere, 240),
    ] {
        let mut next = sent();
        next.after(Duration::from_secs(ends - 1)).sees(&seen);
        assert_eq!(
            next.after(GROUP_WAIT).taken(),
            Vec::<Value>::new(),
            "{what}"
        );
        next.sees(&seen).after(GROUP_WAIT);
        assert_eq!(
            heads(&next.taken()),
            [head("resolved", "heat", 1)],
            "{what}"
        );
    }
    // While the API server does not answer, no finding ends.
    let unreachable = CurrentAlerts {
        cluster_known: false,
        ..standing(&[])
    };
    let mut bench = Bench::new(ReceiverKind::Webhook);
    let one = standing(&[alert("heat", "n1", "r1")]);
    bench.sees(&one).after(GROUP_WAIT);
    assert_eq!(bench.taken().len(), 1);
    for mut bench in [bench, sent()] {
        for _ in 0..100 {
            bench.after(GROUP_INTERVAL).sees(&unreachable);
            assert_eq!(bench.taken(), Vec::<Value>::new());
        }
    }
    // In the sample fleet, devices without a fresh reading are reported as unread.
    let facts = crate::sample::facts();
    let seen = CurrentAlerts::of(&facts);
    assert_eq!(seen.alerts.len(), facts.fleet.findings.len());
    assert!(!seen.unread.is_empty() && seen.unread.len() < facts.fleet.nodes.len());
}

#[test]
fn a_message_that_was_under_way_when_the_process_ended_is_not_sent_again() {
    let mut bench = Bench::new(ReceiverKind::Webhook);
    let one = standing(&[alert("heat", "n1", "r1")]);
    bench.sees(&one).after(GROUP_WAIT);
    assert!(bench.next().is_some());
    let (mut next, unsure) = bench.restarted(ReceiverKind::Webhook);
    assert_eq!(unsure, 1);
    let sent = next.sees(&one).after(GROUP_INTERVAL).sees(&one).taken();
    assert_eq!(sent, Vec::<Value>::new());
    // Its end was in flight.
    let mut bench = Bench::new(ReceiverKind::Webhook);
    bench.sees(&one).after(GROUP_WAIT);
    assert_eq!(bench.taken().len(), 1);
    bench.sees(&standing(&[])).after(GROUP_INTERVAL);
    assert!(bench.next().is_some());
    let (mut next, unsure) = bench.restarted(ReceiverKind::Webhook);
    assert_eq!(unsure, 1);
    next.sees(&standing(&[])).after(Duration::from_secs(600));
    assert_eq!(next.sees(&standing(&[])).taken(), Vec::<Value>::new());
    // A message with a known failure does not count as in flight.
    let mut bench = Bench::new(ReceiverKind::Webhook);
    bench.sees(&one).after(GROUP_WAIT);
    assert!(bench.next().is_some());
    bench.done(again());
    let (mut next, unsure) = bench.restarted(ReceiverKind::Webhook);
    assert_eq!(unsure, 0);
    assert_eq!(next.sees(&one).after(GROUP_WAIT).taken().len(), 1);
}

#[test]
fn a_muted_finding_is_sent_as_muted_and_again_after_the_mute() {
    let mut bench = Bench::new(ReceiverKind::Webhook);
    let one = standing(&[alert("heat", "n1", "r1")]);
    bench.sees(&one).after(GROUP_WAIT);
    assert_eq!(bench.taken().len(), 1);
    let muted = CurrentAlerts {
        muted: vec![one.alerts[0].finding.id.clone()],
        ..standing(&[])
    };
    bench.after(GROUP_INTERVAL).sees(&muted).after(GROUP_WAIT);
    assert_eq!(heads(&bench.taken()), [head("muted", "heat", 1)]);
    bench.after(GROUP_INTERVAL).sees(&one).after(GROUP_WAIT);
    assert_eq!(heads(&bench.taken()), [head("firing", "heat", 1)]);
    // Muted before it was sent: nothing is sent, and nothing counts as dropped.
    let mut bench = Bench::new(ReceiverKind::Webhook);
    bench.sees(&one).sees(&muted).after(GROUP_WAIT);
    assert_eq!(bench.taken(), Vec::<Value>::new());
    assert_eq!(bench.delivery.counts().dropped, 0);
}

#[test]
fn a_higher_severity_is_sent_again_and_a_flapping_one_is_not() {
    let mut bench = Bench::new(ReceiverKind::Webhook);
    let mut worse = alert("heat", "n1", "r1");
    let one = standing(&[worse.clone()]);
    bench.sees(&one).after(GROUP_WAIT);
    assert_eq!(bench.taken().len(), 1);
    worse.finding.severity = Severity::Crit;
    bench
        .after(GROUP_INTERVAL)
        .sees(&standing(&[worse]))
        .after(GROUP_WAIT);
    let sent = bench.taken();
    assert_eq!(heads(&sent), [head("firing", "heat", 1)]);
    assert_eq!(sent[0]["severity"], "crit");
    // One severity word within one message.
    assert!(
        sent[0]["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("crit: "))
    );
    // A lower severity is not news.
    bench.after(GROUP_INTERVAL).sees(&one).after(GROUP_WAIT);
    assert_eq!(bench.taken(), Vec::<Value>::new());
    for _ in 0..5 {
        bench
            .sees(&standing(&[]))
            .after(Duration::from_secs(1))
            .sees(&one);
        assert_eq!(
            bench.after(Duration::from_secs(1)).taken(),
            Vec::<Value>::new()
        );
    }
}

#[test]
fn a_finding_merged_into_another_has_not_ended() {
    let mut bench = Bench::new(ReceiverKind::Webhook);
    let mut two = [
        alert("throttling", "n1", "r1"),
        alert("throttling", "n1", "r1"),
    ];
    two[1].finding.id = Name::new("throttling:Device:n1/gpu1");
    bench.sees(&standing(&two)).after(GROUP_WAIT);
    assert_eq!(heads(&bench.taken()), [head("firing", "throttling", 2)]);
    let mut whole = alert("throttling", "n1", "r1");
    whole.finding.id = Name::new("throttling:Node:n1:*");
    whole.finding.subject = Subject {
        kind: "Node",
        key: ObjectKey::new("", "n1"),
    };
    let whole = standing(&[whole]);
    bench.after(GROUP_INTERVAL).sees(&whole).after(GROUP_WAIT);
    assert_eq!(heads(&bench.taken()), [head("firing", "throttling", 1)]);
    bench
        .after(GROUP_INTERVAL)
        .sees(&standing(&[]))
        .after(GROUP_WAIT);
    assert_eq!(heads(&bench.taken()), [head("resolved", "throttling", 3)]);
    // A more severe fault of the same device replaces a lesser one.
    let mut bench = Bench::new(ReceiverKind::Webhook);
    bench
        .sees(&standing(&[alert("device-unhealthy", "n1", "r1")]))
        .after(GROUP_WAIT);
    assert_eq!(bench.taken().len(), 1);
    bench
        .sees(&standing(&[alert("xid-79", "n1", "r1")]))
        .after(GROUP_WAIT);
    assert_eq!(heads(&bench.taken()), [head("firing", "xid-79", 1)]);
}

#[test]
fn budgets_that_cannot_be_read_have_not_ended() {
    let budget = |step: &str| {
        let mut one = alert("budget-spent", "", "");
        one.finding.id = Name::from(format!("budget/research/2026-11-01T00:00:00Z/{step}"));
        one.finding.subject = Subject {
            kind: "Budget",
            key: ObjectKey::new("", "research"),
        };
        one.place = FindingPlace::default();
        one
    };
    let mut bench = Bench::new(ReceiverKind::Webhook);
    bench.sees(&standing(&[budget("80")])).after(GROUP_WAIT);
    let sent = bench.taken();
    assert_eq!(sent[0]["place"]["name"], "research");
    let unread = CurrentAlerts::default();
    bench.sees(&unread).after(Duration::from_secs(600));
    assert_eq!(bench.sees(&unread).taken(), Vec::<Value>::new());
    // The next threshold does not end the one before: both end with the period.
    bench.sees(&standing(&[budget("100")])).after(GROUP_WAIT);
    assert_eq!(heads(&bench.taken()), [head("firing", "budget-spent", 1)]);
    bench
        .after(GROUP_INTERVAL)
        .sees(&standing(&[]))
        .after(GROUP_WAIT);
    assert_eq!(heads(&bench.taken()), [head("resolved", "budget-spent", 2)]);
}

fn label<'a>(alert: &'a Value, name: &str) -> &'a str {
    alert["labels"][name].as_str().unwrap_or_default()
}

#[test]
fn alertmanager_gets_repeats_while_firing_and_one_resolve() {
    let mut bench = Bench::new(ReceiverKind::Alertmanager);
    let one = standing(&[alert("heat", "n1", "r1")]);
    let messages = bench.sees(&one).taken();
    assert_eq!(messages.len(), 1, "at once");
    let sent = &messages[0][0];
    assert_eq!(label(sent, "alertname"), "heat");
    assert_eq!(label(sent, "severity"), "warning");
    assert_eq!(label(sent, "rack"), "r1");
    assert_eq!(sent["labels"].get("namespace"), None, "it has none");
    assert_eq!(sent["annotations"]["summary"], "it is hot");
    assert_eq!(sent["startsAt"], START.rfc3339());
    assert_eq!(sent["endsAt"], START.plus(ALERT_LASTS).rfc3339());
    let before = ALERT_LASTS / 3 - Duration::from_secs(1);
    assert_eq!(bench.after(before).sees(&one).taken(), Vec::<Value>::new());
    let messages = bench.after(Duration::from_secs(1)).sees(&one).taken();
    assert_eq!(messages.len(), 1, "a third of the time has gone");
    assert_eq!(messages[0][0]["labels"], sent["labels"]);
    let ends = START.plus(ALERT_LASTS / 3 + ALERT_LASTS).rfc3339();
    assert_eq!(messages[0][0]["endsAt"], ends);
    let messages = bench
        .after(Duration::from_secs(5))
        .sees(&standing(&[]))
        .taken();
    // It has ended even by a clock slightly behind ours.
    let ended = bench.beat().now.minus(CLOCKS_DIFFER);
    assert_eq!(messages[0][0]["endsAt"], ended.rfc3339());
    assert_eq!(messages[0][0]["labels"], sent["labels"]);
    assert_eq!(
        bench.after(ALERT_LASTS).taken(),
        Vec::<Value>::new(),
        "once"
    );
}

#[test]
fn an_alert_of_another_severity_takes_the_place_of_the_one_before() {
    let mut bench = Bench::new(ReceiverKind::Alertmanager);
    let mut worse = alert("heat", "n1", "r1");
    bench.sees(&standing(&[worse.clone()])).taken();
    worse.finding.severity = Severity::Crit;
    let sent = bench.sees(&standing(&[worse])).taken();
    let alerts = sent[0].as_array().expect("a list");
    let of: Vec<(&str, bool)> = alerts
        .iter()
        .map(|alert| (label(alert, "severity"), alert["endsAt"] == START.rfc3339()))
        .collect();
    assert_eq!(of, [("warning", true), ("critical", false)]);
}

#[test]
fn a_restart_keeps_alerts_firing_until_they_were_looked_for() {
    let mut bench = Bench::new(ReceiverKind::Alertmanager);
    bench.sees(&standing(&[alert("heat", "n1", "r1")])).taken();
    let (mut next, _) = bench.restarted(ReceiverKind::Alertmanager);
    let sent = next.sees(&standing(&[])).taken();
    assert_eq!(
        sent.len(),
        1,
        "it is sent at once: Alertmanager may be about to end it"
    );
    assert_ne!(sent[0][0]["endsAt"], START.rfc3339());
    let sent = next
        .after(Duration::from_secs(241))
        .sees(&standing(&[]))
        .taken();
    let ended = next.beat().now.minus(CLOCKS_DIFFER);
    assert_eq!(sent[0][0]["endsAt"], ended.rfc3339());
}

#[test]
fn text_from_the_cluster_brings_no_controls_no_markup_and_no_mentions() {
    let mut bench = Bench::new(ReceiverKind::Slack);
    let mut evil = alert("heat", "n1", "r1");
    evil.finding.message = "<!channel> & @here \u{1b}[2J\u{202e}<https://evil|ok>\nnext".to_owned();
    evil.acknowledged = true;
    bench.sees(&standing(&[evil.clone()])).after(GROUP_WAIT);
    let sent = bench.taken();
    let text = sent[0]["text"].as_str().expect("a text");
    assert!(
        text.starts_with("warning: heat, Device n1/gpu0, rack r1, pool h100 (prod)\n"),
        "{text}"
    );
    assert!(
        text.contains("&lt;!channel&gt; &amp; @\u{200b}here"),
        "{text}"
    );
    assert!(text.contains("(acknowledged)"), "{text}");
    assert!(
        text.contains("\nRepair: cool it\nSince 2027-01-15T08:00:00Z"),
        "{text}"
    );
    for hostile in ['<', '>', '\u{1b}', '\u{202e}'] {
        assert!(!text.contains(hostile), "{text}");
    }
    assert_eq!(
        text.lines().count(),
        4,
        "a line break of the cluster's is none: {text}"
    );
    let mut bench = Bench::new(ReceiverKind::Webhook);
    bench.sees(&standing(&[evil])).after(GROUP_WAIT);
    let body = bench.taken()[0].to_string();
    assert!(
        !body.contains("\\u001b") && !body.contains('\u{202e}'),
        "{body}"
    );
}
