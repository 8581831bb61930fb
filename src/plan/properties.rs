//! Laws 5 and 8 of plans on generated fleets. 5: an eviction respects disruption budgets, and any other step that stops pods says
//! that it ignores them. 8: a step that deactivates a Kueue Workload checks the old value first. Each pod is stopped once, and a
//! drained node has no pod left. A failure prints its seed.

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

/// Two to five nodes of eight devices, workloads of several kinds on them, some under Kueue, and disruption budgets of some of
/// their pods. `reversed` lists the same objects in the reverse order.
fn fleet(seed: u64, reversed: bool) -> Snapshot {
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
    let mut workloads: Vec<Value> = Vec::new();
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
        workloads.push(work);
    }
    if reversed {
        nodes.reverse();
        workloads.reverse();
        budgets.reverse();
    }
    let document = json!({
        "version": 1, "at": "2026-11-21T06:40:00Z", "nodes": nodes, "flavors": [{ "name": "h100" }], "budgets": budgets,
        "queues": [{
            "name": "ml", "object": "ml", "system": "kueue", "preemption": { "within": "lower-priority" },
            "quota": [{ "flavor": "h100", "nominal": 8 * count }],
        }],
        "workloads": workloads,
    });
    document::from_value(&document, "test").expect("a document")
}

/// The plan of an action; `None` if it is refused.
fn plan_of(snapshot: &Snapshot, text: &str) -> Option<Plan> {
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

/// Names of the pods that a step stops: the evicted pod, or all pods of the job that it interrupts.
fn stopped(snapshot: &Snapshot, step: &Step) -> Vec<String> {
    if matches!(step.mutation, Mutation::Evict { .. }) {
        return vec![step.object.name.to_string()];
    }
    if !step.side_effects.interrupts {
        return Vec::new();
    }
    let job = step.job.as_ref().expect("what it stops is a job's");
    let mut workloads = snapshot.workloads.iter();
    let work = workloads
        .find(|work| work.key.key == job.name.0)
        .expect("is there");
    let pods = work.sets.iter().flat_map(|set| &set.placements);
    pods.map(|placement| placement.pod.to_string()).collect()
}

/// True if a disruption budget covers the pod; all pods are in one namespace.
fn covered(snapshot: &Snapshot, pod: &str) -> bool {
    let mut budgets = snapshot.budgets.iter();
    budgets.any(|budget| budget.pods.iter().any(|own| **own == *pod))
}

/// The field that a step writes, with the value that it must have before; only `spec.active` of a Kueue Workload is checked.
fn written(step: &Step) -> Option<(&'static str, Value)> {
    match &step.mutation {
        Mutation::WorkloadActive { value } => Some(("/spec/active", json!(!value))),
        _ => None,
    }
}

/// Checks laws 5 and 8 for each step, and that no pod is stopped twice.
fn obeys_laws(snapshot: &Snapshot, text: &str, plan: &Plan) -> Result<(), TestCaseError> {
    prop_assert!(plan.validate().is_ok(), "{text}: {:?}", plan.validate());
    let mut stops: BTreeMap<String, usize> = BTreeMap::new();
    for step in &plan.steps {
        let pods = stopped(snapshot, step);
        // Law 5: an eviction respects budgets; any other mutation that stops pods says that it ignores them.
        let expected = match (&step.mutation, pods.is_empty()) {
            (Mutation::Evict { .. }, _) => match step.side_effects.budgets {
                Budgets::Refusing => Budgets::Refusing,
                _ => Budgets::Respected,
            },
            (_, false) => Budgets::Ignored,
            (_, true) => Budgets::NotTouched,
        };
        prop_assert_eq!(step.side_effects.budgets, expected, "{}: {}", text, step);
        if expected == Budgets::Ignored && pods.iter().any(|pod| covered(snapshot, pod)) {
            let notes = step.side_effects.notes.join("; ");
            prop_assert!(
                notes.contains("ignores PodDisruptionBudgets"),
                "{text}: {step}: {notes}"
            );
        }
        for pod in pods {
            *stops.entry(pod).or_default() += 1;
        }
        // Law 8: a guard checks the old value of the written field.
        if let Some((path, before)) = written(step).filter(|_| step.side_effects.interrupts) {
            let seen = step.guards.iter().any(|fact| match &fact.test {
                Test::Is { path: of, value } => of == path && *value == before,
                _ => false,
            });
            prop_assert!(seen, "{text}: {step} writes {path} blindly");
        }
    }
    prop_assert!(stops.values().all(|n| *n == 1), "{text}: {stops:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_drain_stops_each_pod_of_its_node_once_and_says_what_it_does_about_budgets(seed in any::<u64>()) {
        let snapshot = fleet(seed, false);
        let text = "drain n0";
        let Some(plan) = plan_of(&snapshot, text) else { return Ok(()); };
        obeys_laws(&snapshot, text, &plan)?;
        let stopped: BTreeSet<String> = plan.steps.iter().flat_map(|step| stopped(&snapshot, step)).collect();
        let sets = snapshot.workloads.iter().flat_map(|work| &work.sets);
        for placement in sets.flat_map(|set| &set.placements).filter(|it| *it.node == *"n0") {
            prop_assert!(stopped.contains(&*placement.pod), "{} stays on n0", placement.pod);
        }
        prop_assert_eq!(plan_of(&fleet(seed, true), text), Some(plan));
    }

    #[test]
    fn actions_on_jobs_and_pods_obey_the_laws_and_do_not_depend_on_input_order(seed in any::<u64>()) {
        let (snapshot, reversed) = (fleet(seed, false), fleet(seed, true));
        for work in &snapshot.workloads {
            let of_job = |verb: &str| format!("{verb} {}", work.key.key);
            let mut actions = ["preempt", "requeue", "admit"].map(of_job).to_vec();
            let pods = work.sets.iter().flat_map(|set| &set.placements);
            actions.extend(pods.map(|pod| format!("evict ml/{}", pod.pod)));
            for text in actions {
                let plan = plan_of(&snapshot, &text);
                prop_assert_eq!(&plan, &plan_of(&reversed, &text), "{}", text);
                if let Some(plan) = plan {
                    obeys_laws(&snapshot, &text, &plan)?;
                }
            }
        }
    }
}
