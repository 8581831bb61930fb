//! Property tests of delivery: whatever findings, receivers and restarts do, nothing is sent twice, and in the end the
//! receiver knows the current state.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use model::base::rng::Rng;
use model::base::{Moment, Name, ObjectKey};
use model::fleet::finding::{Finding, Severity, Subject};
use model::notify::{FindingPlace, NotifyFilter, ReceiverKind};

use super::*;

const START: Moment = Moment::from_seconds(1_800_000_000);

fn alert(number: usize) -> Alert {
    let node = format!("n{number}");
    Alert {
        finding: Finding {
            id: Name::from(format!("heat:Device:{node}/gpu0")),
            severity: Severity::Warn,
            code: Name::new(["heat", "straggler"][number % 2]),
            subject: Subject {
                kind: "Device",
                key: ObjectKey::new("", format!("{node}/gpu0")),
            },
            since: START,
            first_seen: false,
            at_least: false,
            value: None,
            threshold: None,
            message: String::new(),
            repair: String::new(),
            members: Box::default(),
            also: Box::default(),
        },
        place: FindingPlace {
            node: Some(Name::from(node)),
            rack: Some(Name::from(format!("r{}", number % 3))),
            pool: None,
        },
        acknowledged: false,
    }
}

fn fresh(kind: ReceiverKind) -> Delivery {
    Delivery::new(DeliveryRules {
        receiver: Name::new("own"),
        kind,
        filter: NotifyFilter {
            min_severity: Severity::Info,
            codes: Vec::new(),
            kinds: Vec::new(),
            namespaces: Vec::new(),
            pools: Vec::new(),
        },
        cluster: "prod".to_owned(),
    })
}

/// What a receiver knows.
#[derive(Default)]
struct Receiver {
    firing: BTreeSet<String>,
    /// Ids whose message was in flight, and did not arrive, when the process was killed: these are not sent again.
    unsure: BTreeSet<String>,
}

impl Receiver {
    fn ids(body: &Value) -> Vec<String> {
        let alerts = body["alerts"].as_array().expect("has alerts");
        let id = |alert: &Value| alert["id"].as_str().expect("has an id").to_owned();
        alerts.iter().map(id).collect()
    }

    fn takes(&mut self, body: &Value, seed: u64) {
        for id in Self::ids(body) {
            let is_new = match body["status"] == "firing" {
                true => self.firing.insert(id.clone()),
                false => self.firing.remove(&id),
            };
            let twice = !is_new && !self.unsure.contains(&id);
            assert!(!twice, "seed {seed}: {id} is told twice: {body}");
        }
    }
}

#[test]
fn nothing_is_sent_twice_and_everything_is_sent_in_the_end() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut delivery = fresh(ReceiverKind::Webhook);
        let mut receiver = Receiver::default();
        let mut there = [false; 12];
        let mut under_way: Option<Value> = None;
        let (mut now, mut begun) = (Duration::ZERO, Duration::ZERO);
        // The last quarter is calm: by its end everything must have been sent.
        let (storm, all) = (600, 800);
        for step in 0..all {
            let calm = step >= storm;
            now += Duration::from_secs(if calm { 20 } else { rng.below(20) as u64 });
            if !calm && rng.below(3) == 0 {
                let at = rng.below(there.len());
                there[at] = !there[at];
            }
            if !calm && rng.below(40) == 0 {
                // Killed: the message in flight may have arrived.
                let text = saved_text("u", vec![delivery.saved()]);
                if let Some(body) = under_way.take() {
                    match rng.below(2) {
                        0 => receiver.takes(&body, seed),
                        _ => receiver.unsure.extend(Receiver::ids(&body)),
                    }
                }
                let saved = read_saved(&text, "u").expect("is ours").expect("of it");
                delivery = fresh(ReceiverKind::Webhook);
                delivery.restore(saved.into_iter().next().expect("one"));
                begun = now;
            }
            let beat = Beat {
                now: START.plus(now),
                up: now - begun,
            };
            let standing = CurrentAlerts {
                alerts: (0..there.len())
                    .filter(|at| there[*at])
                    .map(alert)
                    .collect(),
                budgets_known: true,
                cluster_known: true,
                ..CurrentAlerts::default()
            };
            delivery.update(beat, &standing, |_| Duration::ZERO);
            if under_way.is_none() {
                let next = delivery.next(beat);
                under_way = next.map(|next| serde_json::from_str(&next.body).expect("is JSON"));
            }
            let outcome = match rng.below(10) {
                _ if calm => SendOutcome::Sent,
                0..=3 => SendOutcome::Sent,
                4 | 5 => SendOutcome::Again(None, "it failed".to_owned()),
                6 => SendOutcome::Refused("it refuses".to_owned()),
                _ => continue,
            };
            if let Some(body) = under_way.take() {
                if outcome == SendOutcome::Sent {
                    receiver.takes(&body, seed);
                }
                delivery.done(beat, outcome, 0.5);
            }
        }
        for (at, is_there) in there.into_iter().enumerate() {
            let id = alert(at).finding.id.to_string();
            if !receiver.unsure.contains(&id) {
                let knows = receiver.firing.contains(&id);
                assert_eq!(knows, is_there, "seed {seed}: {id}");
            }
        }
        let counts = delivery.counts();
        assert_eq!((counts.waiting, counts.fault), (0, None), "seed {seed}");
    }
}
