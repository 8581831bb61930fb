//! Planners on hand-written fleets.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use engine::document;
use engine::snapshot::{Snapshot, SnapshotTaint, TaintEffect};
use model::base::{Name, ObjectKey};
use model::plan::{
    Budgets, Forecast, Intent, JobName, KnownVictims, Mutation, Plan, PlanEffect, RefusalCode,
    Until, Verb,
};

use crate::actions::{self, NameResolver, ParseError};
use crate::{Author, plan, plan_again};

pub(crate) fn node(name: &str, rack: &str) -> Value {
    let devices: Vec<Value> = (0..8)
        .map(|index| json!({ "index": index, "class": "h100", "resource": "nvidia.com/gpu", "usd_per_device_hour": 2.0 }))
        .collect();
    json!({
        "name": name, "uid": format!("uid-{name}"), "pool": "h100", "labels": { "class": "h100" },
        "topology": [["rack", rack]], "devices": devices,
        "allocatable": { "cpu_milli": 96_000, "memory_bytes": 1_i64 << 40 },
    })
}

/// A workload with this number of devices per pod, placed on these nodes, if any.
pub(crate) fn work(name: &str, kind: &str, gpus: u32, nodes: &[&str], more: Value) -> Value {
    let placements: Vec<Value> = nodes
        .iter()
        .enumerate()
        .map(|(at, node)| json!({ "pod": format!("{name}-{at}"), "uid": format!("uid-{name}-{at}"), "node": node }))
        .collect();
    let pods = more
        .get("pods")
        .and_then(Value::as_u64)
        .unwrap_or(nodes.len().max(1) as u64);
    let mut out = json!({
        "namespace": "ml", "name": name, "kind": kind, "uid": format!("uid-{name}"), "created": "2026-11-21T05:00:00Z",
        "state": if nodes.is_empty() { "waiting" } else { "running" },
        "pod_sets": [{
            "count": pods, "min": more.get("min").cloned().unwrap_or(json!(pods)), "placements": placements,
            "requests": { "cpu_milli": 1_000, "memory_bytes": 1 << 30, "devices": { "nvidia.com/gpu": gpus } },
        }],
    });
    if !nodes.is_empty() {
        out["admitted_at"] = json!("2026-11-21T05:40:00Z");
    }
    if let (Value::Object(out), Value::Object(more)) = (&mut out, more) {
        out.extend(more);
    }
    out
}

pub(crate) fn kueue(name: &str) -> Value {
    json!({ "system": "kueue", "name": format!("wl-{name}"), "uid": format!("uid-wl-{name}") })
}

pub(crate) fn queue(policy: Value) -> Value {
    json!({
        "name": "ml", "object": "ml", "system": "kueue", "preemption": policy,
        "quota": [
            { "flavor": "h100", "nominal": 24 },
            { "flavor": "h100", "resource": "cpu", "nominal": "1000" },
            { "flavor": "h100", "resource": "memory", "nominal": "8Ti" },
        ],
    })
}

pub(crate) fn fleet(mut document: Value) -> Snapshot {
    document["version"] = json!(1);
    document["at"] = json!("2026-11-21T06:40:00Z");
    document::from_value(&document, "test").expect("a document")
}

/// Three nodes: a gang of two under Kueue on a and b, a lone pod of a Deployment on a, a bare pod on b, DaemonSet pods.
pub(crate) fn mixed() -> Snapshot {
    fleet(json!({
        "nodes": [node("a", "r1"), node("b", "r1"), node("c", "r2")],
        "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }],
        "queues": [queue(json!({ "within": "lower-priority" }))],
        "budgets": [{ "namespace": "ml", "name": "web", "pods": ["web-0"], "disruptions_allowed": 0, "desired_healthy": 1 }],
        "residents": [
            { "namespace": "kube-system", "name": "dcgm", "uid": "u1", "node": "a", "owner_kind": "DaemonSet" },
            { "namespace": "kube-system", "name": "proxy", "uid": "u2", "node": "a", "owner_kind": "Node" },
            { "namespace": "ml", "name": "log", "uid": "u3", "node": "a", "owner_kind": "ReplicaSet" },
            { "namespace": "ml", "name": "gone", "uid": "u4", "node": "a", "owner_kind": "ReplicaSet", "deleted": "2026-11-21T06:00:00Z" },
        ],
        "workloads": [
            work("gang", "JobSet", 4, &["a", "b"], json!({ "queue": "ml", "admission": kueue("gang"), "last_checkpoint": "2026-11-21T06:30:00Z" })),
            work("web", "Deployment", 1, &["a"], json!({})),
            work("lone", "Pod", 1, &["b"], json!({})),
        ],
    }))
}

pub(crate) fn ask(snapshot: &Snapshot, text: &str) -> Result<Plan, model::plan::Refusal> {
    ask_with(snapshot, text, &KnownVictims::default())
}

/// As `ask`, for a plan that was read, with the victims `known`.
pub(crate) fn ask_again(
    snapshot: &Snapshot,
    text: &str,
    known: &BTreeSet<JobName>,
) -> Result<Plan, model::plan::Refusal> {
    let known = KnownVictims {
        jobs: known.clone(),
        is_read: true,
    };
    ask_with(snapshot, text, &known)
}

/// The intent of a typed action, on a document: names have no namespace.
pub(crate) fn read(snapshot: &Snapshot, text: &str) -> Result<model::plan::Intent, ParseError> {
    let namespace = None;
    actions::intent(
        text,
        &NameResolver {
            snapshot,
            namespace,
        },
    )
}

/// As `ask`, with known victims.
pub(crate) fn ask_with(
    snapshot: &Snapshot,
    text: &str,
    known: &KnownVictims,
) -> Result<Plan, model::plan::Refusal> {
    let author = Author {
        by: "me".into(),
        why: "a test".into(),
    };
    match read(snapshot, text) {
        Ok(intent) => plan_again(snapshot, &intent, &author, known),
        Err(ParseError::Refused(refusal)) => Err(refusal),
        other => panic!("{text}: {other:?}"),
    }
}

/// The plan, checked against its schema, for validity, and for being the same each time.
pub(crate) fn planned(snapshot: &Snapshot, text: &str) -> Plan {
    let made = ask(snapshot, text).unwrap_or_else(|refusal| panic!("{text}: {refusal}"));
    made.validate().expect("is well formed");
    assert_eq!(ask(snapshot, text).as_ref(), Ok(&made), "the same again");
    let document = serde_json::to_value(&made).expect("a document");
    let schema = model::plan::schema();
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let wrong: Vec<String> = validator
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{text}: {wrong:#?}");
    made
}

pub(crate) fn lines(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(ToString::to_string).collect()
}

pub(crate) fn forecast(plan: &Plan) -> &Forecast {
    match &plan.effect {
        PlanEffect::Forecast(forecast) => forecast,
        PlanEffect::Unknown { why } => panic!("not computed: {why}"),
    }
}

#[test]
fn a_drain_of_a_node_that_does_not_answer_says_that_its_pods_stay() {
    let warned = |key: &str| {
        let mut snapshot = mixed();
        snapshot.nodes[0].taints.push(SnapshotTaint {
            key: Name::new(key),
            value: Name::default(),
            effect: TaintEffect::NoExecute,
        });
        let warnings = planned(&snapshot, "drain a").warnings;
        warnings
            .iter()
            .any(|one| one.starts_with("unreachable: a;"))
    };
    // A kubelet that says that it is not ready still ends pods.
    assert!(!warned("node.kubernetes.io/not-ready"));
    assert!(warned("node.kubernetes.io/unreachable"));
}

#[test]
fn a_drain_takes_each_by_its_own_way_and_leaves_the_daemons() {
    let snapshot = mixed();
    let plan = planned(&snapshot, "drain a b");
    assert_eq!(
        lines(&plan),
        [
            "cordon Node a",
            "cordon Node b",
            "evict Pod ml/log",
            "evict Pod ml/lone-0",
            "suspend Workload ml/wl-gang",
            "resume Workload ml/wl-gang",
            "evict Pod ml/web-0",
        ]
    );
    let gang = &plan.steps[4];
    assert_eq!(gang.side_effects.gang_broken, Some(2));
    assert_eq!(gang.side_effects.budgets, Budgets::Ignored);
    // 8 devices for ten minutes since the checkpoint, at 2 dollars.
    let loss = gang.side_effects.loss.as_ref().expect("work is lost");
    assert_eq!(
        (loss.device_seconds, loss.micro_usd),
        (Some(4_800), Some(2_666_666))
    );
    assert_eq!(plan.steps[5].needs, [5]);
    let closed = plan.steps[2..5].iter().chain(&plan.steps[6..]);
    assert!(closed.clone().all(|step| step.needs == [2]));
    let warnings = plan.warnings.join("\n");
    for word in [
        "ml/lone has no controller",
        "disruption budget ml/web requires 1 of 1 pods healthy and can never",
        "ml/gone has been terminating for 40m",
    ] {
        assert!(warnings.contains(word), "{word}: {warnings}");
    }
    assert!(
        plan.reasons
            .iter()
            .any(|reason| reason.contains("2 pods of DaemonSets stay"))
    );
    let predicted = forecast(&plan);
    let names: Vec<String> = predicted
        .displaced
        .iter()
        .map(|one| one.job.to_string())
        .collect();
    assert_eq!(names, ["ml/gang", "ml/lone"], "what its budget keeps stays");
    // Only c is left, and the gang takes all of it.
    assert_eq!(predicted.displaced[0].back, Some(snapshot.at));
    assert!(plan.needs_typed_name());
}

/// Each pod loses its own work, and a slice costs its share of the device.
#[test]
fn what_is_lost_is_counted_by_pod_and_by_slice() {
    let slices = json!([
        { "name": "1g.10gb-0", "resource": "nvidia.com/mig-1g.10gb", "share": 0.125 },
        { "name": "3g.40gb-0", "resource": "nvidia.com/mig-3g.40gb", "share": 0.375 },
        { "name": "3g.40gb-1", "resource": "nvidia.com/mig-3g.40gb", "share": 0.375 },
    ]);
    let mut cut = node("a", "r1");
    cut["devices"] = json!([{
        "index": 0, "class": "h100", "resource": "nvidia.com/gpu", "usd_per_device_hour": 7.0, "slices": slices,
    }]);
    let pod = |name: &str, slice: &str, started: &str| {
        json!({
            "pod": name, "uid": name, "node": "a", "started": started, "devices": [{ "device": 0, "slice": slice }],
        })
    };
    let set = |name: &str, placements: Value| {
        json!({
            "name": name, "count": 1, "min": 1, "placements": [placements],
            "requests": { "devices": { format!("nvidia.com/mig-{name}"): 1 } },
        })
    };
    let sets = json!([
        set("1g.10gb", pod("x-0", "1g.10gb-0", "2026-11-21T05:40:00Z")),
        set("3g.40gb", pod("x-1", "3g.40gb-1", "2026-11-21T06:10:00Z")),
    ]);
    let more = |more: Value| {
        let mut more = more;
        more["pod_sets"] = sets.clone();
        fleet(json!({
            "nodes": [cut], "workloads": [work("x", "Job", 1, &["a"], more)],
        }))
    };
    let lost = |snapshot: &Snapshot| {
        let plan = planned(snapshot, "preempt ml/x");
        let loss = plan.steps[0]
            .side_effects
            .loss
            .clone()
            .expect("work is lost");
        (loss.device_seconds, loss.micro_usd)
    };
    // An hour of one part in eight and half an hour of three, at $7 an hour.
    assert_eq!(lost(&more(json!({}))), (Some(5_400), Some(2_187_500)));
    let saved = json!({ "last_checkpoint": "2026-11-21T06:25:00Z" });
    assert_eq!(lost(&more(saved)), (Some(1_800), Some(875_000)));
}

#[test]
fn with_a_deadline_a_drain_asks_for_a_checkpoint_and_waits() {
    let snapshot = mixed();
    let plan = planned(&snapshot, "drain b --deadline 30m");
    let mark = plan
        .steps
        .iter()
        .find(|step| step.verb == Verb::Mark)
        .expect("it is asked");
    assert_eq!(mark.object.to_string(), "JobSet ml/gang");
    assert!(matches!(mark.waits[0].until, Until::Checkpoint { .. }));
    assert_eq!(
        (mark.waits[0].at_most_seconds, mark.waits[0].go_on),
        (Some(1_800), true)
    );
    let without = planned(&snapshot, "drain b");
    assert!(without.steps.iter().all(|step| step.verb != Verb::Mark));
    assert!(
        without
            .alternatives
            .iter()
            .any(|one| one.command.as_deref() == Some("plan drain b --deadline 30m"))
    );
}

/// A gang with a pod on a node that is not ready saves no more checkpoints: none is waited for.
#[test]
fn no_checkpoint_is_waited_for_of_a_gang_that_a_dead_node_stops() {
    let mut snapshot = mixed();
    let mut nodes = snapshot.nodes.iter_mut();
    nodes.find(|node| &*node.name == "a").expect("there").ready = false;
    let plan = planned(&snapshot, "drain b --deadline 30m");
    assert!(plan.steps.iter().all(|step| step.verb != Verb::Mark));
    let mut instead = planned(&snapshot, "drain b").alternatives.into_iter();
    assert!(instead.all(|one| one.command.as_deref() != Some("plan drain b --deadline 30m")));
}

#[test]
fn racks_and_pools_resolve_to_nodes_and_unknown_names_are_errors() {
    let snapshot = mixed();
    assert_eq!(
        lines(&planned(&snapshot, "cordon rack/r1")),
        ["cordon Node a", "cordon Node b"]
    );
    assert_eq!(planned(&snapshot, "cordon pool/h100").steps.len(), 3);
    let refusal = ask(&snapshot, "drain pool/h10").expect_err("no such pool");
    assert_eq!(refusal.code, RefusalCode::NotFound);
    assert!(
        refusal.sentence.contains("did you mean `pool/h100`?"),
        "{refusal}"
    );
    for text in [
        "drain",
        "drain a --deadline soon",
        "preempt nobody",
        "preempt a/b/c",
        "explode x",
        "",
    ] {
        let read = read(&snapshot, text);
        assert!(
            matches!(read, Err(ParseError::Usage(_))),
            "{text}: {read:?}"
        );
    }
}

#[test]
fn cordon_writes_who_and_why_and_uncordon_takes_it_back() {
    let mut snapshot = mixed();
    let plan = planned(&snapshot, "cordon a");
    let mutation = Mutation::Cordon {
        by: "me".into(),
        why: "a test".into(),
    };
    assert_eq!(plan.steps[0].mutation, mutation);
    let refusal = ask(&snapshot, "uncordon a").expect_err("it is open");
    assert_eq!(refusal.code, RefusalCode::AlreadySo);
    snapshot.nodes[0].cordoned = true;
    assert_eq!(
        lines(&planned(&snapshot, "uncordon a")),
        ["uncordon Node a"]
    );
    assert_eq!(
        ask(&snapshot, "cordon a").expect_err("closed").code,
        RefusalCode::AlreadySo
    );
}

/// All 24 devices are allocated to three jobs of 8; `big` waits for 16, with a higher priority than two of them.
pub(crate) fn full() -> Snapshot {
    let running = |name: &str, node: &str, priority: i32, since: &str| {
        work(
            name,
            "Job",
            8,
            &[node],
            json!({
                "queue": "ml", "admission": kueue(name), "priority": priority, "admitted_at": since,
            }),
        )
    };
    fleet(json!({
        "nodes": [node("a", "r1"), node("b", "r1"), node("c", "r2")],
        "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }],
        "queues": [queue(json!({ "within": "never" }))],
        "workloads": [
            running("old", "a", 5, "2026-11-20T06:40:00Z"),
            running("new", "b", 5, "2026-11-21T06:30:00Z"),
            running("mid", "c", 5, "2026-11-21T05:40:00Z"),
            work("big", "JobSet", 8, &[], json!({ "queue": "ml", "admission": kueue("big"), "pods": 2, "priority": 50 })),
            work("small", "Job", 8, &[], json!({ "queue": "ml", "admission": kueue("small"), "priority": 1 })),
        ],
    }))
}

#[test]
fn a_preempted_job_makes_room_for_what_waits() {
    let snapshot = full();
    let plan = planned(&snapshot, "preempt ml/new");
    assert_eq!(
        lines(&plan),
        ["suspend Workload ml/wl-new", "resume Workload ml/wl-new"]
    );
    let predicted = forecast(&plan);
    assert_eq!(
        (predicted.displaced.len(), predicted.displaced[0].devices),
        (1, 8)
    );
    assert_eq!(predicted.lost_device_seconds, Some(8 * 600));
    let refusal = ask(&snapshot, "preempt ml/big").expect_err("it waits");
    assert_eq!(refusal.code, RefusalCode::IllegalState);
    let refusal = ask(&snapshot, "preempt ml/bigg").expect_err("not there");
    assert!(
        refusal.sentence.contains("did you mean `ml/big`?"),
        "{refusal}"
    );
}

#[test]
fn pods_without_a_controller_are_not_requeued() {
    let snapshot = mixed();
    let refusal = ask(&snapshot, "requeue ml/lone").expect_err("nobody makes it again");
    assert_eq!(refusal.code, RefusalCode::Unsupported);
    assert!(!refusal.instead.is_empty());
    // A Deployment recreates its pods: they are evicted, and the budget is respected.
    let plan = planned(&snapshot, "requeue ml/web");
    assert_eq!(lines(&plan), ["evict Pod ml/web-0"]);
    assert_eq!(plan.steps[0].side_effects.budgets, Budgets::Respected);
}

#[test]
fn a_priority_moves_a_job_in_its_queue_or_says_why_it_cannot() {
    let snapshot = full();
    let plan = planned(&snapshot, "reprioritise ml/small 60");
    assert_eq!(
        plan.steps[0].mutation,
        Mutation::WorkloadPriority { value: 60 }
    );
    let moved = |asked: &str| planned(&snapshot, asked).reasons.remove(1);
    assert_eq!(
        moved("reprioritise ml/small 60"),
        "it moves from position 2 to 1 of the jobs waiting in its queue, ahead of ml/big"
    );
    assert_eq!(
        moved("reprioritise ml/big 0"),
        "it moves from position 1 to 2 of the jobs waiting in its queue, behind ml/small"
    );
    assert_eq!(
        ask(&snapshot, "reprioritise ml/small 1")
            .expect_err("has it")
            .code,
        RefusalCode::AlreadySo
    );
    let refusal = ask(&snapshot, "reprioritise ml/small urgent").expect_err("no such class");
    assert_eq!(refusal.code, RefusalCode::NotFound);
    let refusal = ask(&mixed(), "reprioritise ml/web 5").expect_err("nothing orders it");
    assert_eq!(
        (refusal.code, refusal.instead.len()),
        (RefusalCode::Unsupported, 3)
    );
}

#[test]
fn hold_and_resume_know_jobs_queues_and_what_can_only_be_scaled() {
    let mut snapshot = mixed();
    let plan = planned(&snapshot, "hold ml");
    assert_eq!(lines(&plan), ["hold ClusterQueue ml"]);
    assert!(!plan.needs_typed_name(), "what runs goes on");
    let plan = planned(&snapshot, "hold ml/gang");
    assert_eq!(lines(&plan), ["suspend Workload ml/wl-gang"]);
    assert_eq!(forecast(&plan).displaced[0].back, None);
    let plan = planned(&snapshot, "hold ml/web");
    assert_eq!(plan.steps[0].mutation, Mutation::Scale { replicas: 0 });
    assert_eq!(
        ask(&snapshot, "resume ml/gang").expect_err("runs").code,
        RefusalCode::AlreadySo
    );
    assert_eq!(
        ask(&snapshot, "hold ml/lone").expect_err("a pod").code,
        RefusalCode::Unsupported
    );
    let gang = snapshot
        .workloads
        .iter()
        .position(|work| &*work.key.key.name == "gang")
        .expect("there");
    snapshot.displace(gang, true);
    let plan = planned(&snapshot, "resume ml/gang");
    assert_eq!(lines(&plan), ["resume Workload ml/wl-gang"]);
    assert_eq!(forecast(&plan).starts[0].after, Some(snapshot.at));
    assert_eq!(
        ask(&snapshot, "hold nlp").expect_err("no such queue").code,
        RefusalCode::NotFound
    );
}

#[test]
fn an_admitted_job_goes_first_and_those_that_left_come_back_after_it() {
    let mut snapshot = full();
    snapshot.queues[0].preemption.within = engine::snapshot::Within::LowerPriority;
    let at = |name: &str| {
        let all = snapshot.workloads.iter();
        all.clone()
            .position(|work| &*work.key.key.name == name)
            .expect("there")
    };
    // `big` would start by itself; the small job of a low priority would not.
    let (big, small) = (at("big"), at("small"));
    snapshot.workloads[big].status = engine::snapshot::Status::Held;
    let refusal = ask(&snapshot, "admit ml/small").expect_err("others must leave");
    assert_eq!(refusal.code, RefusalCode::Policy);
    assert!(
        refusal.sentence.contains("ml/new"),
        "the least is lost with it: {refusal}"
    );
    let plan = planned(&snapshot, "admit ml/small --preempt");
    assert_eq!(
        lines(&plan),
        [
            "suspend Workload ml/wl-new",
            "admit Workload ml/wl-small",
            "resume Workload ml/wl-new",
        ]
    );
    assert_eq!(
        (&*plan.steps[1].needs, &*plan.steps[2].needs),
        (&[1][..], &[2][..])
    );
    // Above the victim, but not above what else is waiting: with its own priority the victim would preempt it again.
    assert_eq!(
        plan.steps[1].mutation,
        Mutation::WorkloadPriority { value: 6 }
    );
    let stays = "its priority stays at 6: at 1, ml/new would preempt it at once";
    assert!(plan.warnings.iter().any(|it| it == stays), "{plan:?}");
    // Where no job would, the priority is restored once the job runs.
    let mut calm = snapshot.clone();
    calm.workloads[small].priority = 5;
    let back = planned(&calm, "admit ml/small --preempt");
    assert!(
        back.warnings
            .iter()
            .all(|it| !it.contains("its priority stays"))
    );
    let by_hand = "queue ml preempts only those of its jobs that have a lower priority: ml/new would not be preempted by the queue, but this plan evicts it";
    assert!(
        back.warnings.iter().any(|it| it == by_hand),
        "{:?}",
        back.warnings
    );
    let mutations: Vec<_> = back.steps.iter().map(|step| &step.mutation).collect();
    let to = |value| Mutation::WorkloadPriority { value };
    assert_eq!(mutations.last(), Some(&&to(5)), "{mutations:?}");
    assert!(mutations.contains(&&to(6)), "{mutations:?}");
    let predicted = forecast(&plan);
    let start = predicted
        .starts
        .iter()
        .find(|one| one.job.to_string() == "ml/small");
    assert_eq!(start.and_then(|one| one.after), Some(snapshot.at));
    assert_eq!(predicted.displaced.len(), 1);
    let held = ask(&snapshot, "admit ml/big").expect_err("it is held");
    assert!(held.instead[0].contains("plan resume ml/big"));
    assert_eq!(
        ask(&snapshot, "admit ml/old").expect_err("runs").code,
        RefusalCode::AlreadySo
    );
}

#[test]
fn rebalance_empties_nodes_whose_jobs_fit_elsewhere_and_nothing_else() {
    let lone = |name: &str, node: &str, gpus: u32, since: &str| {
        work(name, "Job", gpus, &[node], json!({ "admitted_at": since }))
    };
    let nodes = json!([node("a", "r1"), node("b", "r1"), node("c", "r2")]);
    let snapshot = fleet(json!({
        "nodes": nodes,
        "workloads": [
            lone("x", "a", 2, "2026-11-21T06:39:00Z"),
            lone("y", "b", 4, "2026-11-20T06:40:00Z"),
            work("wide", "Job", 8, &[], json!({ "pods": 2 })),
        ],
    }));
    let plan = planned(&snapshot, "rebalance");
    assert_eq!(
        lines(&plan),
        [
            "cordon Node a",
            "suspend Job ml/x",
            "resume Job ml/x",
            "uncordon Node a"
        ]
    );
    let notes = &plan.steps[1].side_effects.notes;
    assert!(
        notes.iter().any(|note| note.contains("at once on b")),
        "{notes:?}"
    );
    let dear = fleet(json!({
        "nodes": nodes,
        "workloads": [lone("x", "a", 4, "2026-11-01T06:39:00Z"), lone("y", "b", 4, "2026-11-01T06:40:00Z")],
    }));
    assert_eq!(
        ask(&dear, "rebalance").expect_err("it costs more").code,
        RefusalCode::AlreadySo
    );
    assert_eq!(
        ask(&dear, "rebalance h10").expect_err("no such pool").code,
        RefusalCode::NotFound
    );
}

#[test]
fn undo_is_the_journals() {
    let refusal = plan(
        &mixed(),
        &Intent::Undo { run: "r1".into() },
        &Author::default(),
    );
    assert_eq!(refusal.expect_err("not here").code, RefusalCode::Unknown);
    let unknown = Intent::Drain {
        nodes: vec![Name::new("z")],
        deadline: None,
    };
    let refusal = plan(&mixed(), &unknown, &Author::default()).expect_err("not there");
    assert_eq!(refusal.code, RefusalCode::NotFound);
    let job = JobName(ObjectKey::new("ml", "gang"));
    assert!(plan(&mixed(), &Intent::Requeue { job }, &Author::default()).is_ok());
}

/// When a job starts whose pods neither a queue nor the scheduler can start is not computed, and no plan makes it start.
#[test]
fn a_blocked_job_is_resumed_without_a_forecast_and_cannot_be_admitted() {
    let why = "where its pods may run is not known";
    let fleet = |state: &str| {
        let more = json!({ "state": state, "blocked": why });
        fleet(json!({
            "nodes": [node("a", "r1")],
            "workloads": [work("later", "JobSet", 8, &[], more)],
        }))
    };
    let predicted = ask(&fleet("held"), "resume ml/later").expect("a plan");
    assert!(
        matches!(&predicted.effect, PlanEffect::Unknown { why: text } if text.ends_with(why)),
        "{:?}",
        predicted.effect
    );
    assert!(predicted.reasons.is_empty(), "{:?}", predicted.reasons);
    let refused = ask(&fleet("waiting"), "admit ml/later --preempt").expect_err("is blocked");
    assert_eq!(refused.code, RefusalCode::IllegalState);
    assert!(refused.sentence.ends_with(why), "{}", refused.sentence);
}
