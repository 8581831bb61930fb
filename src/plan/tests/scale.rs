//! Scaling: on freshly read objects, and on hand-written fleets.

use serde_json::{Value, json};

use cluster::mutations::{self, Inverse, RunStep};
use engine::snapshot::Snapshot;
use model::base::{Moment, Name, ObjectKey};
use model::fleet::scaling::{PodScaler, Scaling};
use model::plan::{Intent, Mutation, Plan, PlanEffect, RefusalCode, Verb};

use crate::actions::ParseError;
use crate::scale::Autoscalers;
use crate::tests::fleet::read;
use crate::tests::fleet::{ask, fleet, forecast, kueue, node, planned, queue, work};
use crate::tests::{found, subject};
use crate::{FoundObject, JobSubject, add_forecast, scale};

fn now() -> Moment {
    Moment::from_seconds(10_000)
}

const DEPLOYMENT: (&str, &str, &str) = ("apps", "deployments", "Deployment");

/// An object with this number of replicas, each of which requests two devices.
fn with_replicas((group, plural, kind): (&str, &str, &str), replicas: Option<u32>) -> JobSubject {
    let pod = json!({"spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}});
    let mut spec = match kind {
        "LeaderWorkerSet" => json!({"leaderWorkerTemplate": {"size": 2, "workerTemplate": pod}}),
        _ => json!({"template": pod}),
    };
    if let Some(replicas) = replicas {
        spec["replicas"] = replicas.into();
    }
    let mut top: FoundObject = found(group, plural, kind, true, json!({"spec": spec}));
    top.now["metadata"]["name"] = "train".into();
    top.now["metadata"]["namespace"] = "nlp".into();
    subject(top)
}

fn autoscaler(kind: &str) -> PodScaler {
    PodScaler {
        key: ObjectKey::new("nlp", "by-queue"),
        target: (Name::new(kind), Name::new("train")),
        min: 2,
        max: Some(6),
        ..PodScaler::default()
    }
}

#[test]
fn an_object_gets_its_number_and_its_old_one_back() {
    for (what, each) in [
        (DEPLOYMENT, 2),
        (("apps", "statefulsets", "StatefulSet"), 2),
        (
            (
                "leaderworkerset.x-k8s.io",
                "leaderworkersets",
                "LeaderWorkerSet",
            ),
            4,
        ),
    ] {
        let subject = with_replicas(what, Some(3));
        let up = scale::plan(&subject, &Autoscalers::default(), 5, now()).expect("a plan");
        up.validate().expect("is well formed");
        let step = &up.steps[0];
        assert_eq!(step.verb, Verb::Scale);
        assert_eq!(step.mutation, Mutation::Scale { replicas: 5 });
        assert!(!step.side_effects.interrupts && !up.needs_typed_name());
        let devices = each * 2;
        let expected = format!("3 replicas become 5: needs {devices} devices more, {each} each");
        assert_eq!(up.reasons, [expected]);
        assert!(matches!(up.effect, PlanEffect::Unknown { .. }));
        let on = &subject.top().now;
        mutations::call(
            step,
            on,
            RunStep {
                run: "r",
                step: 1,
                hold: None,
            },
        )
        .expect("can be sent");
        assert_eq!(mutations::check_fact(&step.guards[0], Some(on)), Ok(()));
        let Inverse::Step(back) = mutations::inverse(step, on) else {
            panic!("can be taken back")
        };
        assert_eq!(back.mutation, Mutation::Scale { replicas: 3 });
        let down = scale::plan(&subject, &Autoscalers::default(), 1, now()).expect("a plan");
        assert!(down.steps[0].side_effects.interrupts && down.needs_typed_name());
        assert!(down.reasons[0].contains(&format!("{devices} devices become free")));
        let same =
            scale::plan(&subject, &Autoscalers::default(), 3, now()).expect_err("it has them");
        assert_eq!(same.code, RefusalCode::AlreadySo);
    }
    // An absent number means 1.
    let silent = with_replicas(DEPLOYMENT, None);
    let same = scale::plan(&silent, &Autoscalers::default(), 1, now()).expect_err("it has one");
    assert_eq!(same.code, RefusalCode::AlreadySo);
    let job = subject(found("batch", "jobs", "Job", true, json!({"spec": {}})));
    let refused = scale::plan(&job, &Autoscalers::default(), 2, now()).expect_err("no replicas");
    assert_eq!(refused.code, RefusalCode::Unsupported);
    assert!(refused.instead[0].contains("Deployment"), "{refused}");
}

#[test]
fn what_an_autoscaler_owns_is_refused_with_its_name_and_bounds() {
    let subject = with_replicas(DEPLOYMENT, Some(3));
    let refuse = |replicas: u32| {
        let scalers = hpas(&[autoscaler("Deployment")]);
        scale::plan(&subject, &scalers, replicas, now()).expect_err("it is owned")
    };
    for (replicas, bounds) in [
        (5, "{\"spec\":{\"minReplicas\":5}}"),
        (8, "{\"spec\":{\"minReplicas\":8,\"maxReplicas\":8}}"),
        (2, "{\"spec\":{\"maxReplicas\":2}}"),
        (1, "{\"spec\":{\"minReplicas\":1,\"maxReplicas\":1}}"),
    ] {
        let refusal = refuse(replicas);
        assert_eq!(refusal.code, RefusalCode::OwnedByAnother);
        let name = "HorizontalPodAutoscaler nlp/by-queue";
        assert!(refusal.sentence.contains(name), "{refusal}");
        let instead = &refusal.instead[0];
        assert!(instead.contains("2 to 6"), "{instead}");
        assert!(instead.contains(bounds), "{replicas}: {instead}");
    }
    let mut made = autoscaler("Deployment");
    made.key = ObjectKey::new("nlp", "keda-hpa-queue");
    let refusal = scale::plan(&subject, &hpas(&[made]), 8, now()).expect_err("it is owned");
    let bounds = "patch --type=merge scaledobject queue -p '{\"spec\":{\"minReplicaCount\":8,\"maxReplicaCount\":8}}'";
    assert!(refusal.instead[0].contains(bounds), "{refusal}");
    assert!(refuse(0).instead[0].contains("plan hold nlp/train"));
    // An autoscaler of another kind or namespace does not count.
    let mut others = [autoscaler("StatefulSet"), autoscaler("Deployment")];
    others[1].key.namespace = Name::new("other");
    scale::plan(&subject, &hpas(&others), 5, now()).expect("nobody owns it");
    // At 0 replicas an autoscaler is off and does not scale up.
    let off = with_replicas(DEPLOYMENT, Some(0));
    let mut scalers = hpas(&[autoscaler("Deployment")]);
    let plan = scale::plan(&off, &scalers, 2, now()).expect("a plan");
    assert!(plan.warnings[0].contains("takes over"), "{plan:?}");
    // KEDA scales between 0 and the minimum by itself.
    let mut names = model::base::Names::default();
    let seen = cluster::seen(
        model::fleet::observe::Table::ScaledObjects,
        &json!({
            "metadata": {"namespace": "nlp", "name": "by-queue"},
            "spec": {"scaleTargetRef": {"name": "train"}, "minReplicaCount": 0},
            "status": {"conditions": [{"type": "Active", "status": "False"}]},
        }),
        &mut names,
    );
    let Some(model::fleet::observe::Observation::ScaledObject(keda)) = seen else {
        panic!("{seen:?}");
    };
    scalers.keda = vec![*keda];
    let refusal = scale::plan(&off, &scalers, 2, now()).expect_err("it is put back");
    assert_eq!(refusal.code, RefusalCode::OwnedByAnother);
    let expected = "ScaledObject nlp/by-queue sets the replicas of Deployment nlp/train and would reset them to 0 after its cooldown";
    assert!(refusal.sentence.starts_with(expected), "{refusal}");
    assert!(
        refusal.instead[0].ends_with("by-queue autoscaling.keda.sh/paused-replicas=2"),
        "{refusal}"
    );
    scalers.keda[0].paused = true;
    scale::plan(&off, &scalers, 2, now()).expect("it is paused");
}

fn hpas(all: &[PodScaler]) -> Autoscalers {
    Autoscalers {
        pods: all.to_vec(),
        keda: Vec::new(),
    }
}

/// A Deployment of two pods on `a`, and a job that waits for six devices.
fn serving(kind: &str) -> Snapshot {
    fleet(json!({
        "nodes": [node("a", "r1"), node("b", "r1")],
        "workloads": [
            work("web", kind, 4, &["a", "a"], json!({ "min": 1 })),
            work("wide", "Job", 6, &[], json!({ "estimate_seconds": 3600, "created": "2026-11-21T05:00:00Z" })),
        ],
    }))
}

fn assert_reason(plan: &Plan, words: &str) {
    let has = plan.reasons.iter().any(|reason| reason.contains(words));
    assert!(has, "{words}: {:#?}", plan.reasons);
}

#[test]
fn new_replicas_start_where_there_is_room_and_the_rest_stays_waiting() {
    let snapshot = fleet(json!({
        "nodes": [node("a", "r1"), node("b", "r1")],
        "workloads": [work("web", "Deployment", 4, &["a", "a"], json!({ "min": 1 }))],
    }));
    let plan = planned(&snapshot, "scale deployment ml/web 3");
    assert_reason(&plan, "2 replicas become 3: needs 4 devices more");
    assert_reason(&plan, "1 new replica starts now on b, for $8.00/h");
    let effect = forecast(&plan);
    assert_eq!(effect.starts.len(), 1);
    assert_eq!(effect.starts[0].job.to_string(), "ml/web");
    assert_eq!(effect.starts[0].after, Some(snapshot.at));
    assert_eq!(effect.pools[0].allocated_before, 8);
    assert_eq!(effect.pools[0].allocated_after, 12);
    assert!(effect.displaced.is_empty() && plan.undo.possible);
    assert!(plan.adds_replicas(&effect.starts[0].job) && plan.undo.notes.is_empty());

    let plan = planned(&snapshot, "scale ml/web 7");
    assert_reason(&plan, "2 new replicas start now on b, for $16/h");
    assert_reason(&plan, "3 new replicas stay waiting");
    assert_reason(&plan, "needs 4 devices, 0 free on eligible nodes");
    assert_eq!(forecast(&plan).starts[0].devices, 8);
    assert_eq!(forecast(&plan).pools[0].allocated_after, 16);

    let plan = planned(&snapshot, "scale ml/web 1000");
    assert_reason(
        &plan,
        "only the first 200 new replicas are placed by this forecast, not all 998",
    );
}

#[test]
fn replicas_that_end_free_their_devices_for_what_waits() {
    let mut snapshot = serving("Deployment");
    // `b` is cordoned: only the replicas' devices can become free.
    snapshot.nodes[1].cordoned = true;
    let plan = planned(&snapshot, "scale ml/web 1");
    assert_reason(&plan, "2 replicas become 1: 4 devices become free");
    assert_reason(&plan, "the deleted pods cost about $8.00/h");
    assert!(forecast(&plan).starts.is_empty(), "4 are not 6");
    assert_eq!(forecast(&plan).pools[0].allocated_after, 4);
    let plan = planned(&snapshot, "scale ml/web 0");
    let start = &forecast(&plan).starts[0];
    assert_eq!(start.job.to_string(), "ml/wide");
    assert_eq!((start.before, start.after), (None, Some(snapshot.at)));
    assert!(plan.needs_typed_name());
}

#[test]
fn the_highest_ordinals_end_first() {
    let mut snapshot = fleet(json!({
        "nodes": [node("a", "r1"), node("b", "r1")],
        "workloads": [work("web", "StatefulSet", 4, &["a", "b", "b"], json!({ "min": 1 }))],
    }));
    // The oldest has the highest ordinal.
    snapshot.workloads[0].sets[0].placements[2].started = Some(Moment::default());
    let plan = planned(&snapshot, "scale statefulset ml/web 1");
    assert_reason(&plan, "the highest ordinals are deleted");
    let mut then = snapshot.workloads[0].clone();
    scale::shrink(&mut then, 3, 1);
    let left: Vec<&str> = then.sets[0]
        .placements
        .iter()
        .map(|pod| pod.pod.as_str())
        .collect();
    assert_eq!((then.sets[0].count, left), (1, vec!["web-0"]));
}

/// A pod set of the groups of `web`, placed on these nodes.
fn group_set(name: &str, [count, min, gpus]: [u32; 3], nodes: &[&str]) -> Value {
    let placements: Vec<_> = nodes
        .iter()
        .enumerate()
        .map(|(at, node)| {
            let pod = match name {
                "leader" => format!("web-{at}"),
                _ => format!("web-{at}-1"),
            };
            json!({ "pod": pod, "uid": format!("u-{name}-{at}"), "node": node })
        })
        .collect();
    json!({
        "name": name, "count": count, "min": min, "placements": placements,
        "requests": { "cpu_milli": 1_000, "memory_bytes": 1 << 30, "devices": { "nvidia.com/gpu": gpus } },
    })
}

#[test]
fn a_group_comes_and_goes_as_a_whole() {
    let snapshot = fleet(json!({
        "nodes": [node("a", "r1"), node("b", "r1"), node("c", "r1"), node("d", "r1"), node("e", "r1")],
        "workloads": [work("web", "LeaderWorkerSet", 8, &["a"], json!({
            "pod_sets": [group_set("leader", [2, 1, 8], &["a", "b"]), group_set("workers", [2, 1, 8], &["c", "d"])],
        }))],
    }));
    let plan = planned(&snapshot, "scale ml/web 3");
    assert_reason(&plan, "2 replicas become 3: needs 16 devices more, 16 each");
    assert_reason(&plan, "1 new replica stays waiting");
    assert!(
        forecast(&plan).pools.is_empty(),
        "half a group does not start"
    );
    let plan = planned(&snapshot, "scale ml/web 1");
    assert_eq!(forecast(&plan).pools[0].allocated_after, 16);
}

/// A group in Kueue has all of its pods in one set; a new one needs quota of its queue, on the nodes of its queue's flavors.
#[test]
fn new_groups_go_by_the_quota_and_flavors_of_their_queue() {
    let snapshot = |groups: u32, nodes: &[&str]| {
        let mut other = node("e", "r1");
        other["labels"] = json!({ "class": "a100" });
        let sets = match groups {
            1 => json!([group_set("main", [2, 2, 4], nodes)]),
            _ => json!([
                group_set("leader", [groups, 1, 4], &nodes[..2]),
                group_set("workers", [groups, 1, 4], &nodes[2..])
            ]),
        };
        fleet(json!({
            "nodes": [node("a", "r1"), node("b", "r1"), node("c", "r1"), node("d", "r1"), other],
            "flavors": [{ "name": "h100", "node_labels": { "class": "h100" } }],
            "queues": [queue(json!({}))],
            "workloads": [work("web", "LeaderWorkerSet", 4, nodes, json!({
                "queue": "ml", "admission": kueue("web"), "pod_sets": sets,
            }))],
        }))
    };
    // Of 24 devices of quota one group has 8, so two more start, and all that the nodes of the flavor have left is 24.
    let plan = planned(&snapshot(1, &["a", "a"]), "scale ml/web 5");
    assert_reason(&plan, "1 replica becomes 5: needs 32 devices more, 8 each");
    assert_reason(&plan, "2 new replicas start now on b, c, for $32/h");
    assert_reason(&plan, "2 new replicas stay waiting");
    assert_reason(&plan, "queue ml has 0 left");
    // Two groups have 16.
    let plan = planned(&snapshot(2, &["a", "b", "a", "b"]), "scale ml/web 5");
    assert_reason(&plan, "2 replicas become 5: needs 24 devices more, 8 each");
    assert_reason(&plan, "1 new replica starts now on c, for $16/h");
    assert_reason(&plan, "2 new replicas stay waiting");
    // With quota enough, the node of another class is still none of theirs.
    let mut wide = snapshot(1, &["a", "a"]);
    for quota in &mut wide.queues[0].quotas {
        quota.nominal = 1 << 50;
    }
    let plan = planned(&wide, "scale ml/web 5");
    assert_reason(&plan, "3 new replicas start now on b, c, d");
    assert_reason(&plan, "1 new replica stays waiting");
}

#[test]
fn a_plan_for_an_object_contains_the_fleet_forecast() {
    let subject = with_replicas(DEPLOYMENT, Some(2));
    let mut plan = scale::plan(&subject, &Autoscalers::default(), 3, now()).expect("a plan");
    let mut snapshot = serving("Deployment");
    add_forecast(&snapshot, &mut plan);
    assert!(
        matches!(plan.effect, PlanEffect::Unknown { .. }),
        "another's"
    );
    snapshot.workloads[0].key.key = ObjectKey::new("nlp", "train");
    snapshot.settle();
    add_forecast(&snapshot, &mut plan);
    assert!(matches!(plan.effect, PlanEffect::Forecast(_)));
    let intent = Intent::Scale {
        target: "Deployment/nlp/train".into(),
        replicas: 3,
    };
    assert_eq!(plan.intent, intent);
    let scaling = Scaling {
        pod_scalers: [std::sync::Arc::new(autoscaler("Deployment"))].into(),
        ..Scaling::default()
    };
    let refused = scale::check_owner(&snapshot, &intent, &scaling).expect_err("it is owned");
    assert_eq!(refused.code, RefusalCode::OwnedByAnother);
}

#[test]
fn what_cannot_be_scaled_or_read_is_refused() {
    let snapshot = serving("Deployment");
    let refused = |text: &str| ask(&snapshot, text).expect_err("no plan").code;
    assert_eq!(refused("scale ml/wide 3"), RefusalCode::Unsupported);
    assert_eq!(refused("scale ml/web 2"), RefusalCode::AlreadySo);
    assert_eq!(refused("scale ml/nothing 2"), RefusalCode::NotFound);
    assert_eq!(refused("scale statefulset/ml/web 3"), RefusalCode::NotFound);
    for wrong in [
        "scale ml/web",
        "scale ml/web -1",
        "scale ml/web 9999999999",
        "scale a/b c/d 3",
        "scale ml/web 3 --replicas 4",
        "scale a/b c/d --replicas 3",
    ] {
        let parsed = read(&snapshot, wrong);
        assert!(
            matches!(parsed, Err(ParseError::Usage(_))),
            "{wrong}: {parsed:?}"
        );
    }
}
