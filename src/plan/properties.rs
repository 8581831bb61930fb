//! Laws 5 and 8 of plans on generated fleets: no budget is violated without notice, nothing is left behind or done twice, and the
//! old value of every written field is known, so that it can be restored. A failure prints its seed.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use engine::document;
use engine::rng::Rng;
use engine::snapshot::Snapshot;
use model::plan::{Budgets, Mutation, Plan, Step, Test};

use super::actions::ParseError;
use super::tests::fleet::read;
use super::{Author, plan};

const KINDS: [&str; 6] = [
    "Job",
    "JobSet",
    "Deployment",
    "StatefulSet",
    "Pod",
    "PyTorchJob",
];

/// A few nodes of eight devices, workloads of several kinds on them, some under Kueue, and budgets over some of their pods.
fn fleet(seed: u64, turned: bool) -> Snapshot {
    let mut rng = Rng::new(seed);
    let count = rng.below(4) + 2;
    let node = |at: usize| {
        let devices: Vec<Value> = (0..8)
            .map(|index| json!({ "index": index, "class": "h100", "resource": "nvidia.com/gpu" }))
            .collect();
        json!({
            "name": format!("n{at}"), "uid": format!("uid-n{at}"), "pool": "h100", "topology": [["rack", "r"]],
            "allocatable": { "cpu_milli": 96_000, "memory_bytes": 1_i64 << 40 }, "devices": devices,
        })
    };
    let mut nodes: Vec<Value> = (0..count).map(node).collect();
    let mut free = vec![8_u32; count];
    let mut works: Vec<Value> = Vec::new();
    let mut budgets: Vec<Value> = Vec::new();
    for at in 0..rng.below(8) + 2 {
        let (gpus, pods) = (rng.below(4) as u32 + 1, rng.below(3) + 1);
        let kind = KINDS[rng.below(KINDS.len())];
        let pods = if kind == "Pod" { 1 } else { pods };
        let mut placements: Vec<Value> = Vec::new();
        for pod in 0..pods {
            if let Some(on) = (0..count).find(|on| free[*on] >= gpus) {
                free[on] -= gpus;
                placements.push(json!({
                    "pod": format!("w{at}-{pod}"), "uid": format!("uid-w{at}-{pod}"), "node": format!("n{on}"),
                }));
            }
        }
        let running = placements.len() == pods && rng.below(5) > 0;
        if !running {
            placements.clear();
        }
        if running && rng.below(2) == 0 {
            let names: Vec<String> = (0..pods).map(|pod| format!("w{at}-{pod}")).collect();
            budgets.push(json!({
                "namespace": "ml", "name": format!("b{at}"), "pods": names,
                "disruptions_allowed": rng.below(2), "desired_healthy": pods,
            }));
        }
        let mut work = json!({
            "namespace": "ml", "name": format!("w{at}"), "kind": kind, "uid": format!("uid-w{at}"),
            "created": format!("2026-11-21T05:00:{:02}Z", rng.below(60)), "priority": rng.below(4),
            "state": if running { "running" } else { "waiting" },
            "pod_sets": [{
                "count": pods, "min": pods, "placements": placements,
                "requests": { "cpu_milli": 1_000, "memory_bytes": 1 << 30, "devices": { "nvidia.com/gpu": gpus } },
            }],
        });
        if running {
            work["admitted_at"] = json!("2026-11-21T05:40:00Z");
        }
        if matches!(kind, "Job" | "JobSet" | "PyTorchJob") && rng.below(2) == 0 {
            work["queue"] = json!("ml");
            work["admission"] = json!({ "system": "kueue", "name": format!("wl-w{at}"), "uid": format!("uid-wl-w{at}") });
        }
        works.push(work);
    }
    if turned {
        nodes.reverse();
        works.reverse();
        budgets.reverse();
    }
    let document = json!({
        "version": 1, "at": "2026-11-21T06:40:00Z", "nodes": nodes, "flavors": [{ "name": "h100" }], "budgets": budgets,
        "queues": [{
            "name": "ml", "object": "ml", "system": "kueue", "preemption": { "within": "lower-priority" },
            "quota": [{ "flavor": "h100", "nominal": 8 * count }],
        }],
        "workloads": works,
    });
    document::from_value(&document, "test").expect("a document")
}

fn ask(snapshot: &Snapshot, text: &str) -> Option<Plan> {
    let author = Author {
        by: "me".into(),
        why: "a test".into(),
    };
    match read(snapshot, text) {
        Ok(intent) => plan(snapshot, &intent, &author).ok(),
        Err(ParseError::Refused(_)) => None,
        other => panic!("{text}: {other:?}"),
    }
}

/// The pods that a step stops: its own, or all of its job.
fn stopped(snapshot: &Snapshot, step: &Step) -> Vec<String> {
    if matches!(step.mutation, Mutation::Evict { .. }) {
        return vec![step.object.name.to_string()];
    }
    if !step.side_effects.interrupts {
        return Vec::new();
    }
    let job = step.job.as_ref().expect("what it stops is a job's");
    let mut works = snapshot.workloads.iter();
    let work = works
        .find(|work| work.key.key == job.name.0)
        .expect("is there");
    let pods = work.sets.iter().flat_map(|set| &set.placements);
    pods.map(|placement| placement.pod.to_string()).collect()
}

fn covered(snapshot: &Snapshot, pod: &str) -> bool {
    let mut budgets = snapshot.budgets.iter();
    budgets.any(|budget| budget.pods.iter().any(|own| **own == *pod))
}

/// The field that a mutation writes, with its old value, where that can be restored.
fn written(step: &Step) -> Option<(&'static str, Value)> {
    match &step.mutation {
        Mutation::WorkloadActive { value } => Some(("/spec/active", json!(!value))),
        _ => None,
    }
}

fn lawful(snapshot: &Snapshot, text: &str, plan: &Plan) -> Result<(), TestCaseError> {
    prop_assert!(plan.validate().is_ok(), "{text}: {:?}", plan.validate());
    let mut gone: BTreeMap<String, usize> = BTreeMap::new();
    for step in &plan.steps {
        let pods = stopped(snapshot, step);
        // Law 5: eviction respects budgets; any other mutation that stops pods says that it ignores them.
        let expected = match (&step.mutation, pods.is_empty()) {
            (Mutation::Evict { .. }, _) => Budgets::Respected,
            (_, false) => Budgets::Ignored,
            (_, true) => Budgets::NotTouched,
        };
        prop_assert_eq!(step.side_effects.budgets, expected, "{}: {}", text, step);
        if expected == Budgets::Ignored && pods.iter().any(|pod| covered(snapshot, pod)) {
            let notes = step.side_effects.notes.join("; ");
            prop_assert!(notes.contains("budget"), "{text}: {step}: {notes}");
        }
        for pod in pods {
            *gone.entry(pod).or_default() += 1;
        }
        // Law 8: the old value of a written field was checked before.
        if let Some((path, before)) = written(step).filter(|_| step.side_effects.interrupts) {
            let seen = step.guards.iter().any(|fact| match &fact.test {
                Test::Is { path: of, value } => of == path && *value == before,
                _ => false,
            });
            prop_assert!(seen, "{text}: {step} writes {path} blindly");
        }
    }
    prop_assert!(gone.values().all(|times| *times == 1), "{text}: {gone:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_drain_stops_each_pod_once_by_a_way_that_says_what_it_does_about_budgets(seed in any::<u64>()) {
        let snapshot = fleet(seed, false);
        let text = "drain n0";
        let Some(plan) = ask(&snapshot, text) else { return Ok(()); };
        lawful(&snapshot, text, &plan)?;
        let stopped: BTreeSet<String> = plan.steps.iter().flat_map(|step| stopped(&snapshot, step)).collect();
        let sets = snapshot.workloads.iter().flat_map(|work| &work.sets);
        for placement in sets.flat_map(|set| &set.placements).filter(|it| *it.node == *"n0") {
            prop_assert!(stopped.contains(&*placement.pod), "{} stays on n0", placement.pod);
        }
        prop_assert_eq!(ask(&fleet(seed, true), text), Some(plan));
    }

    #[test]
    fn actions_on_jobs_obey_the_laws_in_any_input_order(seed in any::<u64>()) {
        let (snapshot, turned) = (fleet(seed, false), fleet(seed, true));
        for work in &snapshot.workloads {
            for verb in ["preempt", "requeue", "admit"] {
                let text = format!("{verb} {}", work.key.key);
                let plan = ask(&snapshot, &text);
                prop_assert_eq!(&plan, &ask(&turned, &text), "{}", text);
                if let Some(plan) = plan {
                    lawful(&snapshot, &text, &plan)?;
                }
            }
        }
    }
}
