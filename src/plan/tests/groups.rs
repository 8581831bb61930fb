//! Jobs with a Workload for each group: a plan acts on all of them, or on none.

use crate::tests::fleet::{ask, fleet, lines, node, planned, queue, work};
use crate::*;
use model::plan::{JobRef, Loss, RefusalCode};
use serde_json::json;

/// A LeaderWorkerSet of three groups in Kueue, of which the last has no quota, beside a job that waits.
fn served(state: &str, active: bool) -> Snapshot {
    let other = |at: u32, has_quota: bool| json!({ "name": format!("wl-serve-{at}"), "uid": format!("u-{at}"), "active": active, "has_quota": has_quota });
    let set = json!({
        "queue": "ml", "state": state,
        "admission": {
            "system": "kueue", "name": "wl-serve-2", "uid": "u-2",
            "others": [other(0, active), other(1, active)],
        },
    });
    let on: &[&str] = if active { &["a", "b"] } else { &[] };
    fleet(json!({
        "nodes": [node("a", "r1"), node("b", "r1"), node("c", "r1")],
        "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }],
        "queues": [queue(json!({}))],
        "workloads": [work("serve", "LeaderWorkerSet", 8, on, set)],
    }))
}

fn needs(plan: &Plan) -> Vec<Vec<u32>> {
    plan.steps.iter().map(|step| step.needs.clone()).collect()
}

#[test]
fn a_requeue_stops_every_group_and_resumes_every_group() {
    let plan = planned(&served("running", true), "requeue ml/serve");
    let words = lines(&plan);
    let on = |verb: &str| {
        let all = [2, 0, 1].map(|at| format!("{verb} Workload ml/wl-serve-{at}"));
        all.to_vec()
    };
    let all = [on("suspend"), on("resume")].concat();
    for (line, wanted) in words.iter().zip(&all) {
        assert!(line.contains(wanted), "{words:#?}");
    }
    assert_eq!(words.len(), all.len(), "{words:#?}");
    let none: Vec<u32> = Vec::new();
    let stops = vec![1, 2, 3];
    assert_eq!(
        needs(&plan),
        [
            none.clone(),
            none.clone(),
            none,
            stops.clone(),
            stops.clone(),
            stops
        ],
        "nothing is resumed before all are stopped"
    );
    for step in &plan.steps[..3] {
        assert!(step.guards.iter().all(|guard| guard.object == step.object));
        assert!(!step.waits.is_empty() && step.side_effects.interrupts);
    }
    let losses = plan
        .steps
        .iter()
        .filter(|step| step.side_effects.loss.is_some());
    assert_eq!(losses.count(), 1, "the loss of the job stands once");
    let uids = plan
        .steps
        .iter()
        .filter_map(|step| step.object.uid.as_deref());
    let twice: Vec<&str> = uids.collect();
    assert_eq!(twice, ["u-2", "u-0", "u-1", "u-2", "u-0", "u-1"]);
}

#[test]
fn a_hold_and_a_resume_act_on_what_is_not_so_yet() {
    let plan = planned(&served("running", true), "hold ml/serve");
    assert_eq!(plan.steps.len(), 3, "{:#?}", lines(&plan));
    let plan = planned(&served("held", false), "resume ml/serve");
    assert_eq!(plan.steps.len(), 3, "{:#?}", lines(&plan));
    // One group that is active already is left alone.
    let mut half = served("held", false);
    let admission = half.workloads[0].admission.as_mut().expect("has one");
    admission.others[0].active = true;
    let plan = planned(&half, "resume ml/serve");
    assert_eq!(plan.steps.len(), 2, "{:#?}", lines(&plan));
}

#[test]
fn a_priority_is_that_of_every_group() {
    let plan = planned(&served("running", true), "reprioritise ml/serve 7");
    assert_eq!(plan.steps.len(), 3, "{:#?}", lines(&plan));
    assert!(plan.steps.iter().all(|step| step.job.is_some()));
    let devices: Vec<Option<u32>> = plan
        .steps
        .iter()
        .map(|step| step.job.as_ref().and_then(|job: &JobRef| job.devices))
        .collect();
    assert_eq!(devices, [Some(16), None, None], "its devices stand once");
}

#[test]
fn a_part_loses_its_share() {
    let whole = Loss {
        device_seconds: Some(3_000),
        micro_usd: Some(9_000_001),
        by_list: false,
        since: None,
    };
    let part = whole.part(8, 24);
    assert_eq!(
        (part.device_seconds, part.micro_usd),
        (Some(1_000), Some(3_000_000))
    );
    assert_eq!(
        Loss::default().part(1, 0),
        Loss::default(),
        "unknown stays so"
    );
}

#[test]
fn a_gang_of_bare_pods_says_why_it_cannot_be_requeued() {
    let snapshot = fleet(json!({
        "nodes": [node("a", "r1")],
        "workloads": [work("gang", "PodGroup", 8, &["a"], json!({}))],
    }));
    let refusal = ask(&snapshot, "requeue ml/gang").expect_err("no controller recreates its pods");
    assert_eq!(refusal.code, RefusalCode::Unsupported);
    assert!(
        refusal
            .sentence
            .starts_with("PodGroup ml/gang is a gang of pods without a controller"),
        "{refusal}"
    );
    assert_eq!(refusal.instead.len(), 2, "{refusal}");
}
