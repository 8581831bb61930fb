//! Tests of every kind of change, and of the messages for invalid words.

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

fn ask(text: &str) -> WhatIfResult {
    what_if(&fleet(), &[parse(text).expect("a change")]).expect("known")
}

/// Effect on each job, and its start with the changes.
fn jobs(outcome: &WhatIfResult) -> Vec<(WhatIfEffect, String, Option<String>)> {
    let clock = |at: Moment| at.rfc3339()[11..16].to_owned();
    let after = |it: &Shift| it.after.and_then(|after| after.p50).map(clock);
    let all = outcome.jobs.iter();
    all.map(|it| (it.effect, it.job.to_string(), after(it)))
        .collect()
}

fn one(
    effect: WhatIfEffect,
    job: &str,
    after: Option<&str>,
) -> (WhatIfEffect, String, Option<String>) {
    (effect, job.to_owned(), after.map(str::to_owned))
}

#[test]
fn every_change_has_its_stated_effect() {
    use WhatIfEffect::{Added, Evicted, Later, Removed, Starts, Unknown};
    let more = ask("nodes train +1");
    assert_eq!((more.before.devices, more.after.devices), (16, 24));
    assert_eq!(jobs(&more), [one(Starts, "ml/big", Some("06:40"))]);
    let big = &more.jobs[0];
    assert_eq!((big.queue.as_deref(), big.devices), (Some("a"), 16));
    let before = big.before.and_then(|before| before.p50);
    assert_eq!(before, Moment::parse("2026-11-21T07:30:00Z"));
    assert_eq!(
        more.after.burn_micro_usd_per_hour - more.before.burn_micro_usd_per_hour,
        20_000_000
    );
    assert_eq!(
        (more.before.allocated_milli, more.after.allocated_milli),
        (8_000, 24_000)
    );
    assert_eq!(more.before.wait_p50_seconds, Some(3_000));

    // The emptiest node is removed.
    let fewer = ask("nodes train -1");
    assert_eq!(fewer.after.nodes, 1);
    assert_eq!(jobs(&fewer), [one(Unknown, "ml/big", None)]);

    // Its job is pending again, and starts immediately on the other node.
    let zone = ask("zone z1 lost");
    assert_eq!(
        jobs(&zone),
        [
            one(Evicted, "ml/runs", Some("06:40")),
            one(Unknown, "ml/big", None)
        ]
    );
    assert!(zone.jobs[0].before.expect("it was there").runs);
    assert_eq!(
        (zone.after.nodes, zone.after.running, zone.after.waiting),
        (1, 1, 2)
    );
    assert_eq!(ask("pool train lost").after.devices, 0);
    assert_eq!(ask("node n1 lost").after.nodes, 1);

    let moved = ask("quota a->b/h100 4");
    assert_eq!(jobs(&moved)[0], one(Starts, "ml/poor", Some("06:40")));
    assert_eq!(jobs(&ask("quota b/h100 +2")).len(), 1);
    assert_eq!(ask("quota b/h100 =2").after, ask("quota b/h100 +2").after);
    assert_eq!(
        jobs(&ask("quota a/h100 -12")),
        [one(Unknown, "ml/big", None)]
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
        jobs(&removed),
        [
            one(Starts, "ml/big", Some("06:40")),
            one(Removed, "ml/runs", None)
        ]
    );
    let copies = ask("job ml/poor +3");
    assert_eq!(copies.after.waiting, 5);
    assert_eq!(jobs(&copies)[0], one(Added, "ml/poor+1", None));
    assert_eq!(ask("job ml/poor priority 7").jobs, []);
    let flavor = ask("job ml/big flavor tpu");
    assert_eq!(jobs(&flavor), [one(Unknown, "ml/big", None)]);

    // Another of the same size ahead of it: it starts an hour later.
    let fleet = fleet();
    let both = ["job ml/runs +1", "job ml/runs+1 priority 9"];
    let both = both.map(|text| parse(text).expect("a change"));
    let later = what_if(&fleet, &both).expect("known");
    assert!(
        later.jobs.iter().any(|it| it.effect == Later),
        "{:?}",
        jobs(&later)
    );
}

/// Two jobs whose quota is reserved wait for nodes, and what is added is enough for one: the one that was admitted first.
#[test]
fn what_starts_now_fits_on_the_nodes_together() {
    let admitted = |created: &str, admitted_at: &str| json!({ "queue": "a", "state": "running", "created": created, "admitted_at": admitted_at });
    let runs = |node: &str| {
        json!({ "queue": "a", "state": "running", "admitted_at": "2026-11-21T06:30:00Z",
                "runtime_estimate_seconds": 3600, "placements": [{ "node": node }] })
    };
    let place = |name: &str| {
        let mut node = node(name, 8, "r", "b");
        node["pool"] = json!("train");
        node
    };
    let document: Value = json!({
        "version": 1, "at": "2026-11-21T06:40:00Z",
        "nodes": [place("n0"), place("n1")],
        "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }],
        "queues": [{ "name": "a", "quota": [{ "flavor": "h100", "nominal": 64 }] }],
        "workloads": [work("one", 1, 8, runs("n0")), work("other", 1, 8, runs("n1")),
                      work("older", 1, 8, admitted("2026-11-21T05:00:00Z", "2026-11-21T06:36:00Z")),
                      work("younger", 1, 8, admitted("2026-11-21T06:00:00Z", "2026-11-21T06:35:00Z"))],
    });
    let fleet = document::from_value(&document, "test").expect("a document");
    let outcome = what_if(&fleet, &[parse("nodes train +1").expect("a change")]).expect("known");
    let starts: Vec<_> = jobs(&outcome)
        .into_iter()
        .filter(|(effect, ..)| *effect == WhatIfEffect::Starts)
        .collect();
    assert_eq!(
        starts,
        [one(WhatIfEffect::Starts, "ml/younger", Some("06:40"))]
    );
    assert_eq!(outcome.after.running - outcome.before.running, 1);
    assert_eq!(
        outcome.after.allocated_milli - outcome.before.allocated_milli,
        8_000
    );
}

#[test]
fn effects_compare_both_sides() {
    let at = Moment::from_seconds(1_000);
    let start = |minutes: i64| {
        Some(StartEstimate {
            p50: Some(Moment::from_seconds(1_000 + minutes * 60)),
            ..StartEstimate::default()
        })
    };
    let (runs, unknown) = (Some(StartEstimate::RUNS), Some(StartEstimate::default()));
    let of = |was, is| effect(was, is, false, at);
    assert_eq!(of(start(9), start(0)), Some(WhatIfEffect::Starts));
    assert_eq!(of(start(9), start(5)), Some(WhatIfEffect::Earlier));
    assert_eq!(of(start(5), start(9)), Some(WhatIfEffect::Later));
    assert_eq!(of(start(5), start(5)), None);
    assert_eq!(of(unknown, start(5)), Some(WhatIfEffect::Known));
    assert_eq!(of(start(5), unknown), Some(WhatIfEffect::Unknown));
    assert_eq!(of(runs, unknown), Some(WhatIfEffect::Evicted));
    assert_eq!(of(unknown, runs), Some(WhatIfEffect::Kept));
    assert_eq!(of(runs, runs), None);
    assert_eq!(of(None, start(0)), Some(WhatIfEffect::Added));
    assert_eq!(of(runs, None), Some(WhatIfEffect::Removed));
    assert_eq!(
        effect(runs, start(0), true, at),
        Some(WhatIfEffect::Evicted)
    );
}

#[test]
fn a_change_is_understood_as_explanations_word_it() {
    let words = "+64 h100 quota for research and add 2 nodes like mig-4 (metal-dgx-a100)";
    let all: Vec<_> = split(words).map(parse).collect();
    assert_eq!(
        all,
        [parse("quota research/h100 +64"), parse("nodes mig-4 +2")]
    );
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    for text in ["add 2 nodes like", "64 h100 quota for research"] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn nodes_may_be_written_in_any_order() {
    let wanted = parse("nodes h100 +4");
    assert!(wanted.is_ok());
    for text in ["nodes +4 h100", "+4 nodes h100", "+4 h100", "h100 +4"] {
        assert_eq!(parse(text), wanted, "{text}");
    }
    for text in ["+4", "nodes +4", "h100 4", "quota +4", "+4 nodes"] {
        assert!(parse(text).is_err(), "{text}");
    }
    let message = parse("capacity h100").expect_err("no change");
    assert!(
        message.ends_with("for example `nodes POOL +4`"),
        "{message}"
    );
}

#[test]
fn an_unknown_word_is_reported_with_the_nearest_one() {
    let message = |text: &str| match parse(text) {
        Err(message) => message,
        Ok(change) => what_if(&fleet(), &[change]).expect_err(text),
    };
    assert_eq!(
        message("quotas a/h100 +1"),
        "unknown change `quotas`; did you mean `quota`?"
    );
    assert_eq!(
        message("quota a/h10 +1"),
        "unknown flavor `h10`; did you mean `h100`?"
    );
    assert_eq!(
        message("pool trian lost"),
        "unknown pool `trian`; did you mean `train`?"
    );
    assert_eq!(
        message("zone z9 lost"),
        "unknown zone `z9`; did you mean `z1`?"
    );
    assert_eq!(
        message("job ml/bgi removed"),
        "there is no job `ml/bgi`; did you mean `ml/big`?"
    );
    assert_eq!(
        message("job ml/big remove"),
        "unknown word `remove`; did you mean `removed`?"
    );
    assert_eq!(
        message("nodes train 3"),
        "`nodes train 3` is not understood; write `nodes POOL|TYPE|NODE +N` or `nodes POOL|TYPE|NODE -N`"
    );
    assert_eq!(message("nodes train -3"), "train has only 2 nodes");
    assert_eq!(
        message("quota b/h100 -1"),
        "queue b has only 0 devices of h100"
    );
    assert_eq!(
        message("quota b->a/h100 1"),
        "queue b has only 0 devices of h100 to give"
    );
    assert_eq!(
        message("price h101 1"),
        "unknown flavor or class `h101`; did you mean `h100`?"
    );
    assert!(message("price h100 -1").contains("not understood"));
    assert!(message("").contains("empty"));
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

/// An admitted workload without pods on nodes is pending: for nodes.
#[test]
fn what_is_admitted_and_lacks_nodes_waits_until_it_has_them() {
    let mut snapshot = fleet();
    let admitted = json!({ "queue": "a", "state": "running", "admitted_at": "2026-11-21T06:35:00Z",
                           "admitted": { "nvidia.com/gpu": "h100" } });
    let lacks = work("lacks", 2, 8, admitted);
    let document: Value = json!({
        "version": 1, "at": "2026-11-21T06:40:00Z",
        "nodes": [node("n0", 8, "r", "b")],
        "flavors": [{ "name": "h100" }],
        "queues": [{ "name": "a", "quota": [{ "flavor": "h100", "nominal": 24 }] }],
        "workloads": [lacks],
    });
    let known = document::from_value(&document, "test").expect("a document");
    snapshot.workloads = known.workloads;
    snapshot.nodes.truncate(1);
    snapshot.settle();
    let what = |text: &str| what_if(&snapshot, &[parse(text).expect("a change")]).expect("known");
    let more = what("nodes train +1");
    assert_eq!((more.before.running, more.before.waiting), (0, 1));
    assert_eq!((more.after.running, more.after.waiting), (1, 0));
    assert_eq!(
        jobs(&more),
        [one(WhatIfEffect::Starts, "ml/lacks", Some("06:40"))]
    );
    assert_eq!(more.after.allocated_milli, 16_000);
}
