//! Law 9 over generated fleets: what is proposed lets the workload start, and the next smaller does not.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::fixture::{compiled, node, work};
use crate::snapshot::Snapshot;

/// One node: devices, rack, tainted, cordoned.
type LawNode = (u32, u8, bool, bool);
/// One workload: queue, pods, devices of each, priority, age, topology, tolerates, running on, minutes.
type Job = (u8, u32, u32, i32, u8, u8, bool, Option<u8>, Option<u8>);

fn document(
    sites: &[LawNode],
    quotas: &[(u32, Option<u32>)],
    strict: bool,
    jobs: &[Job],
    backfill: u8,
) -> Value {
    let nodes: Vec<Value> = sites
        .iter()
        .enumerate()
        .map(|(at, &(gpus, rack, tainted, cordoned))| {
            let mut node = node(&format!("n{at}"), gpus, &format!("r{rack}"), "b");
            node["unschedulable"] = json!(cordoned);
            if tainted {
                node["taints"] = json!([{ "key": "spot", "value": "yes", "effect": "NoSchedule" }]);
            }
            node
        })
        .collect();
    let mut queues = vec![json!({ "name": "all", "admits": false })];
    for (at, (nominal, borrow)) in quotas.iter().enumerate() {
        let mut quota = json!({ "flavor": "f", "nominal": nominal });
        if let Some(borrow) = borrow {
            quota["borrow_limit"] = json!(borrow);
        }
        queues.push(json!({
            "name": format!("q{at}"), "parent": "all", "quota": [quota],
            "strategy": if strict && at == 0 { "strict" } else { "best-effort" },
        }));
    }
    let mut free: Vec<u32> = sites.iter().map(|site| site.0).collect();
    let mut works = Vec::new();
    for (at, &(queue, pods, gpus, priority, age, topology, tolerates, on, minutes)) in
        jobs.iter().enumerate()
    {
        let mut more = json!({
            "queue": format!("q{}", usize::from(queue) % quotas.len()), "priority": priority,
            "created": format!("2026-11-21T05:{:02}:00Z", age % 60),
        });
        if let Some(minutes) = minutes {
            more["runtime_estimate_seconds"] = json!(u32::from(minutes) * 60);
        }
        if topology < 2 {
            more["topology"] = json!({ "level": "rack", "required": topology == 0 });
        }
        if tolerates {
            more["tolerations"] = json!([{ "key": "spot" }]);
        }
        let mut pods = pods;
        if let Some(on) = on {
            let on = usize::from(on) % sites.len();
            if free[on] >= gpus {
                free[on] -= gpus;
                pods = 1;
                more["state"] = json!("running");
                more["admitted_at"] = json!("2026-11-21T06:30:00Z");
                more["placements"] = json!([{ "node": format!("n{on}") }]);
            }
        }
        works.push(work(&format!("w{at}"), pods, gpus, more));
    }
    json!({
        "nodes": nodes, "flavors": [{ "name": "f" }], "queues": queues, "workloads": works,
        "engine": { "backfill": if backfill == 0 { json!("none") } else { json!(backfill) } },
    })
}

/// Fleets; `plain` ones have a node that takes any pod.
fn fleet(plain: bool) -> impl Strategy<Value = Value> {
    let sites = prop::collection::vec(
        (
            1_u32..5,
            0_u8..3,
            prop::bool::weighted(0.2),
            prop::bool::weighted(0.1),
        ),
        1..6,
    );
    let quotas = prop::collection::vec((0_u32..10, prop::option::of(0_u32..6)), 1..4);
    let jobs = prop::collection::vec(
        (
            0_u8..3,
            1_u32..4,
            1_u32..5,
            0_i32..3,
            0_u8..60,
            0_u8..6,
            any::<bool>(),
            prop::option::of(0_u8..6),
            prop::option::of(1_u8..60),
        ),
        1..12,
    );
    (sites, quotas, any::<bool>(), jobs, 0_u8..3).prop_map(
        move |(mut sites, quotas, strict, jobs, backfill)| {
            if plain {
                sites[0] = (4, 0, false, false);
            }
            document(&sites, &quotas, strict, &jobs, backfill)
        },
    )
}

/// Whether a cycle on a snapshot, changed, starts a workload.
fn starts(snapshot: &Snapshot, work: WorkloadId, changes: &[Change]) -> bool {
    let mut after = snapshot.clone();
    let key = snapshot.workloads[work].key.clone();
    for change in changes {
        change.apply(&mut after, &key);
    }
    let compiled = CompiledFleet::new(after);
    let mut state = State::new(&compiled);
    let cycle = cycle::cycle(&mut state, super::AS_TOLD);
    let work = compiled.work(&key).expect("it is still there");
    cycle
        .admitted
        .iter()
        .any(|admission| admission.work == work)
}

/// The next smaller changes: each a little less.
fn smaller(changes: &[Change]) -> Vec<Vec<Change>> {
    let mut out = Vec::new();
    for at in 0..changes.len() {
        let mut less = changes.to_vec();
        match &mut less[at] {
            Change::Tolerate { taints } => _ = taints.pop(),
            Change::Priority { to, .. } => *to -= 1,
            Change::Quota { add, .. } => *add -= 1_000,
            Change::Nodes { count, .. } => *count -= 1,
            Change::Ask { to, .. } => *to += 1 << 30,
            Change::Preempt { jobs } if jobs.len() > 1 => _ = jobs.pop(),
            Change::Uncordon { nodes } if nodes.len() > 1 => _ = nodes.pop(),
            Change::Wait { .. }
            | Change::Preempt { .. }
            | Change::Uncordon { .. }
            | Change::ResumeQueue { .. }
            | Change::RelaxTopology { .. }
            | Change::Flavor { .. }
            | Change::Labels { .. } => {
                less.remove(at);
            }
        }
        out.push(less);
    }
    out
}

fn check(document: Value) -> Result<(), TestCaseError> {
    let compiled = compiled(document);
    let all = Explainer::new(&compiled).explain_all();
    for (&work, answer) in &all {
        let one = Explainer::new(&compiled).explain(work);
        prop_assert_eq!(&one, answer);
        let admitted = starts(&compiled.snapshot, work, &[]);
        prop_assert_eq!(admitted, answer.state == StartState::Ready);
        prop_assert_eq!(admitted, answer.reasons.is_empty());
        for unblock in answer.unblock.iter().chain(&answer.alternatives) {
            if matches!(unblock.changes[..], [Change::Wait { .. }]) {
                continue;
            }
            prop_assert!(unblock.proven);
            let name = &answer.job;
            prop_assert!(
                starts(&compiled.snapshot, work, &unblock.changes),
                "{name}: {} does not help",
                unblock.sentence
            );
            for less in smaller(&unblock.changes) {
                prop_assert!(
                    !starts(&compiled.snapshot, work, &less),
                    "{name}: less than {} helps: {less:?}",
                    unblock.sentence
                );
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_is_proposed_helps_and_less_does_not(document in fleet(false)) {
        check(document)?;
    }

    /// With quota, order and reservations alone in the way, something of the list always helps.
    #[test]
    fn whoever_waits_for_quota_or_room_is_told_what_helps(document in fleet(true)) {
        let compiled = compiled(document);
        for answer in Explainer::new(&compiled).explain_all().values() {
            if answer.state == StartState::Waiting {
                prop_assert!(answer.unblock.is_some(), "{}: {}", answer.job, answer.reason);
            }
        }
    }
}

/// What the law below once missed: room and quota lack, and those before it take what is given.
#[test]
fn more_of_two_things_than_those_before_it_take_is_found() {
    let run = |queue, gpus| (queue, 1, gpus, 0, 0, 0, false, Some(0), None);
    let wait =
        |queue, pods, gpus, priority, age| (queue, pods, gpus, priority, age, 0, false, None, None);
    let document = document(
        &[
            (4, 0, false, false),
            (1, 0, false, false),
            (3, 0, false, false),
        ],
        &[(0, None), (0, None)],
        false,
        &[
            wait(1, 3, 2, 1, 0),
            run(0, 2),
            wait(1, 1, 3, 0, 32),
            wait(0, 3, 3, 0, 0),
            wait(1, 2, 2, 0, 0),
            wait(1, 1, 4, 0, 0),
            wait(1, 2, 2, 0, 0),
            run(0, 2),
        ],
        0,
    );
    let compiled = compiled(document);
    for answer in Explainer::new(&compiled).explain_all().values() {
        let helped = answer.state != StartState::Waiting || answer.unblock.is_some();
        assert!(helped, "{}: {}", answer.job, answer.reason);
    }
}
