//! Every kind of change, and what a wrong word is told.

use serde_json::{Value, json};

use super::*;
use crate::document;
use crate::fixture::{node, work};

fn fleet() -> Snapshot {
    let place = |name: &str, pool: &str, zone: &str| {
        let mut node = node(name, 8, "r", "b");
        node["pool"] = json!(pool);
        node["labels"]["topology.kubernetes.io/zone"] = json!(zone);
        for device in node["devices"].as_array_mut().expect("devices") {
            device["usd_per_device_hour"] = json!(2.5);
        }
        node
    };
    let runs = json!({ "queue": "a", "state": "running", "admitted_at": "2026-11-21T06:30:00Z",
                       "runtime_estimate_seconds": 3600, "placements": [{ "node": "n0" }] });
    let document: Value = json!({
        "version": 1, "at": "2026-11-21T06:40:00Z",
        "nodes": [place("n0", "train", "z1"), place("n1", "train", "z2")],
        "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }, { "name": "tpu" }],
        "queues": [{ "name": "a", "quota": [{ "flavor": "h100", "nominal": 24 }] },
                   { "name": "b", "quota": [{ "flavor": "h100", "nominal": 0 }] }],
        "workloads": [work("runs", 1, 8, runs), work("big", 2, 8, json!({ "queue": "a" })),
                      work("poor", 1, 2, json!({ "queue": "b", "runtime_estimate_seconds": 60 }))],
    });
    document::from_value(&document, "test").expect("a document")
}

fn ask(text: &str) -> Outcome {
    what_if(&fleet(), &[parse(text).expect("a change")]).expect("known")
}

fn starts(outcome: &Outcome) -> Vec<(String, Option<String>)> {
    let clock = |at: Moment| at.rfc3339()[11..16].to_owned();
    outcome
        .starts
        .iter()
        .map(|it| (it.job.to_string(), it.after.map(clock)))
        .collect()
}

#[test]
fn every_change_does_what_it_says() {
    let more = ask("nodes train +1");
    assert_eq!((more.before.devices, more.after.devices), (16, 24));
    assert_eq!(
        starts(&more),
        [("ml/big".to_owned(), Some("06:40".to_owned()))]
    );
    assert_eq!(
        more.after.burn_micro_usd_per_hour - more.before.burn_micro_usd_per_hour,
        20_000_000
    );
    assert_eq!(
        (more.before.allocated_milli, more.after.allocated_milli),
        (8_000, 24_000)
    );
    assert_eq!(more.before.wait_p50_seconds, Some(3_000));

    // The emptiest goes.
    let fewer = ask("nodes train -1");
    assert_eq!((fewer.after.nodes, fewer.displaced.len()), (1, 0));
    assert_eq!(starts(&fewer), [("ml/big".to_owned(), None)]);

    let zone = ask("zone z1 lost");
    assert_eq!(zone.displaced[0].to_string(), "ml/runs");
    assert_eq!(
        (zone.after.nodes, zone.after.running, zone.after.waiting),
        (1, 1, 2)
    );
    assert_eq!(ask("pool train lost").after.devices, 0);
    assert_eq!(ask("node n1 lost").after.nodes, 1);

    let moved = ask("quota a->b/h100 4");
    assert_eq!(
        starts(&moved)[0],
        ("ml/poor".to_owned(), Some("06:40".to_owned()))
    );
    assert_eq!(starts(&ask("quota b/h100 +2")).len(), 1);
    assert_eq!(ask("quota b/h100 =2").after, ask("quota b/h100 +2").after);
    assert_eq!(
        starts(&ask("quota a/h100 -12")),
        [("ml/big".to_owned(), None)]
    );

    assert_eq!(
        ask("price h100 2.10").after.burn_micro_usd_per_hour,
        16 * 2_100_000
    );
    assert_eq!(
        ask("spot train 1").after.burn_micro_usd_per_hour,
        16_000_000
    );

    let removed = ask("job ml/runs removed");
    assert_eq!(
        starts(&removed),
        [("ml/big".to_owned(), Some("06:40".to_owned()))]
    );
    assert_eq!(ask("job ml/poor +3").after.waiting, 5);
    assert_eq!(ask("job ml/poor priority 7").starts, []);
    let flavor = ask("job ml/big flavor tpu");
    assert_eq!(starts(&flavor), [("ml/big".to_owned(), None)]);
}

#[test]
fn wrong_words_are_told_the_nearest() {
    let told = |text: &str| match parse(text) {
        Err(told) => told,
        Ok(change) => what_if(&fleet(), &[change]).expect_err(text),
    };
    assert_eq!(
        told("quotas a/h100 +1"),
        "unknown change `quotas`; did you mean `quota`?"
    );
    assert_eq!(
        told("quota a/h10 +1"),
        "unknown flavor `h10`; did you mean `h100`?"
    );
    assert_eq!(
        told("pool trian lost"),
        "unknown pool `trian`; did you mean `train`?"
    );
    assert_eq!(
        told("zone z9 lost"),
        "unknown zone `z9`; did you mean `z1`?"
    );
    assert_eq!(
        told("job ml/bgi removed"),
        "there is no job `ml/bgi`; did you mean `ml/big`?"
    );
    assert_eq!(
        told("job ml/big remove"),
        "unknown word `remove`; did you mean `removed`?"
    );
    assert_eq!(
        told("nodes train 3"),
        "`nodes train 3` is not understood; write `nodes POOL|TYPE|NODE +N` or `nodes POOL|TYPE|NODE -N`"
    );
    assert_eq!(told("nodes train -3"), "train has only 2 nodes");
    assert_eq!(
        told("quota b/h100 -1"),
        "queue b has only 0 devices of h100"
    );
    assert_eq!(
        told("quota b->a/h100 1"),
        "queue b has only 0 devices of h100 to give"
    );
    assert_eq!(
        told("price h101 1"),
        "unknown flavor or class `h101`; did you mean `h100`?"
    );
    assert!(told("price h100 -1").contains("not understood"));
    assert!(told("").contains("empty"));
}

#[test]
fn what_was_understood_is_written_as_it_is_read() {
    for text in [
        "nodes train +8",
        "zone z1 lost",
        "quota a/h100 -4",
        "quota a/h100 =4",
        "quota a->b/h100 64",
        "price h100 2.10",
        "price h100 0.123456",
        "spot train 1.00",
        "job ml/big flavor tpu",
        "job ml/big priority -3",
        "job ml/big removed",
        "job ml/big +2",
    ] {
        assert_eq!(parse(text).expect("a change").to_string(), text);
    }
}
