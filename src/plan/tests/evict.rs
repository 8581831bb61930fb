//! Evictions of one pod on a hand-written fleet.

use model::plan::{Budgets, Intent, PlanEffect, RefusalCode};

use serde_json::json;

use crate::actions::{self, NameResolver};
use crate::planner_context;

use super::fleet::{ask, fleet, forecast, lines, mixed, node, planned, work};

#[test]
fn one_pod_of_a_gang_is_evicted_and_placed_again() {
    let snapshot = mixed();
    let plan = planned(&snapshot, "evict ml/gang-0");
    assert_eq!(lines(&plan), ["evict Pod ml/gang-0"]);
    let effects = &plan.steps[0].side_effects;
    assert_eq!(effects.gang_broken, Some(2));
    assert_eq!(effects.budgets, Budgets::Respected);
    // 4 devices for 600 s since the checkpoint, at $2 per device-hour.
    let loss = effects.loss.as_ref().expect("work is lost");
    assert_eq!(
        (loss.device_seconds, loss.micro_usd),
        (Some(2_400), Some(1_333_333))
    );
    let notes = effects.notes.join("\n");
    assert!(notes.contains("the JobSet recreates it"), "{notes}");
    assert!(notes.contains("starts again at once"), "{notes}");
    let displaced = &forecast(&plan).displaced;
    let names: Vec<String> = displaced.iter().map(|one| one.job.to_string()).collect();
    assert_eq!(names, ["ml/gang"]);
    assert_eq!(displaced[0].devices, 4, "the devices of the pod alone");
    assert_eq!(displaced[0].back, Some(snapshot.at));
}

#[test]
fn a_pod_without_devices_is_found_by_its_name_alone() {
    let plan = planned(&mixed(), "evict log");
    assert_eq!(lines(&plan), ["evict Pod ml/log"]);
    let note = "the ReplicaSet recreates it wherever there is room";
    assert_eq!(plan.steps[0].side_effects.notes, [note]);
    assert!(matches!(plan.effect, PlanEffect::Unknown { .. }));
}

#[test]
fn a_plan_warns_of_a_pod_that_no_controller_recreates() {
    let plan = planned(&mixed(), "evict lone-0");
    let warnings = plan.warnings.join("\n");
    assert!(
        warnings.contains("ml/lone-0 has no controller: nothing recreates it"),
        "{warnings}"
    );
    assert!(plan.steps[0].side_effects.notes.is_empty());
    assert_eq!(forecast(&plan).displaced[0].back, None);
}

#[test]
fn a_pod_that_cannot_be_evicted_is_refused_with_the_reason() {
    let mut twice = mixed();
    let mut other = twice.residents[0].clone();
    other.namespace = "ml".into();
    twice.residents.push(other);
    for (snapshot, pod, code, word) in [
        (mixed(), "absent", RefusalCode::NotFound, "no pod absent"),
        (
            mixed(),
            "prod/log",
            RefusalCode::NotFound,
            "no pod prod/log",
        ),
        (mixed(), "ml/gone", RefusalCode::IllegalState, "for 40m"),
        (
            mixed(),
            "ml/web-0",
            RefusalCode::IllegalState,
            "can never allow one",
        ),
        (
            mixed(),
            "kube-system/proxy",
            RefusalCode::Unsupported,
            "a static pod, which the kubelet runs",
        ),
        (
            mixed(),
            "dcgm",
            RefusalCode::Unsupported,
            "belongs to a DaemonSet",
        ),
        (twice, "dcgm", RefusalCode::Ambiguous, "ml/dcgm"),
    ] {
        let refusal = ask(&snapshot, &format!("evict {pod}")).expect_err(pod);
        assert_eq!(refusal.code, code, "{pod}");
        assert!(refusal.sentence.contains(word), "{}", refusal.sentence);
    }
}

#[test]
fn an_eviction_waits_for_a_budget_that_allows_none_now() {
    let mut snapshot = mixed();
    snapshot.budgets[0].desired_healthy = 0;
    let plan = planned(&snapshot, "evict ml/web-0");
    let warnings = plan.warnings.join("\n");
    assert!(warnings.contains("waits up to 5 minutes"), "{warnings}");
}

/// The namespace of the context comes first; a name that only another namespace has is found there.
#[test]
fn a_name_alone_is_looked_up_in_the_namespace_of_the_context_first() {
    let mut snapshot = mixed();
    let mut other = snapshot.residents[0].clone();
    other.namespace = "ml".into();
    snapshot.residents.push(other);
    let asked = |pod: &str| {
        let namespace = Some("ml");
        let names = NameResolver {
            snapshot: &snapshot,
            namespace,
        };
        actions::intent(&format!("evict {pod}"), &names)
    };
    let evict = |pod: &str| Ok(Intent::Evict { pod: pod.into() });
    assert_eq!(asked("dcgm"), evict("ml/dcgm"));
    assert_eq!(asked("proxy"), evict("proxy"));
}

#[test]
fn what_enter_does_names_the_pod_and_not_its_job() {
    let plan = planned(&mixed(), "evict ml/gang-0");
    assert_eq!(plan.evicts_words().as_deref(), Some("pod ml/gang-0"));
    assert_eq!(plan.evicts_count(), "1 pod");
    assert_eq!(planned(&mixed(), "drain a b").evicts_count(), "3 jobs");
}

/// A PodGroup is no controller: nothing recreates the pods of a gang of bare pods, one by one or with their node.
#[test]
fn a_gang_of_bare_pods_does_not_come_back() {
    let gang = work("pg", "PodGroup", 4, &["a", "b"], json!({}));
    let snapshot = fleet(
        json!({ "nodes": [node("a", "r1"), node("b", "r1"), node("c", "r1")], "workloads": [gang] }),
    );
    for action in ["evict ml/pg-0", "drain a"] {
        let plan = planned(&snapshot, action);
        let warnings = plan.warnings.join("\n");
        assert!(
            warnings.contains("has no controller"),
            "{action}: {warnings}"
        );
        let evicted = plan.steps.last().expect("an eviction");
        assert!(evicted.side_effects.notes.is_empty(), "{evicted:?}");
        assert_eq!(forecast(&plan).displaced[0].back, None, "{action}");
    }
}

#[test]
fn pods_that_wait_beside_the_evicted_ones_still_wait() {
    let web = work(
        "web",
        "Deployment",
        1,
        &["a", "b"],
        json!({ "pods": 3, "min": 0 }),
    );
    let mut after =
        fleet(json!({ "nodes": [node("a", "r1"), node("b", "r1")], "workloads": [web] }));
    planner_context::take_pods(&mut after, 0, |pod| *pod.pod == *"web-0");
    let of = |work: usize| {
        let set = &after.workloads[work].sets[0];
        (set.count, set.placements.len())
    };
    assert_eq!((of(0), of(1)), ((2, 1), (1, 0)));
}
