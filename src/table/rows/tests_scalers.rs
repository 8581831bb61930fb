//! Tests of the rows of autoscalers.

use std::sync::Arc;

use model::fleet::scaling::{Metric, NodeClaim, Stage};

use super::*;

#[test]
fn a_scaled_object_has_the_numbers_of_its_autoscaler_and_its_own_words() {
    let mut facts = crate::sample::facts();
    let object = ScaledObject {
        key: ObjectKey::new("speech", "asr"),
        target: (Name::new("Deployment"), Name::new("asr-stream")),
        min: 0,
        max: 8,
        triggers: Box::from([Name::new("prometheus")]),
        autoscaler: Some(Name::new("keda-hpa-asr")),
        active: Some(true),
        ..ScaledObject::default()
    };
    let autoscaler = PodScaler {
        key: ObjectKey::new("speech", "keda-hpa-asr"),
        target: object.target.clone(),
        min: 1,
        max: Some(8),
        current: Some(8),
        desired: Some(8),
        metrics: Box::from([Metric {
            name: Name::new("s0-prometheus"),
            target: Name::new("10"),
            current: Some(Name::new("30")),
            ..Metric::default()
        }]),
        ..PodScaler::default()
    };
    let mut row_of = |object: ScaledObject, autoscaler: Option<PodScaler>| {
        let mut fleet = (*facts.fleet).clone();
        fleet.scaling.scaled_objects = Arc::from([Arc::new(object)]);
        fleet.scaling.pod_scalers = autoscaler.into_iter().map(Arc::new).collect();
        facts.fleet = Arc::new(fleet);
        let row = row(&facts, ScalerAt::Scaled(0)).expect("it is there");
        (
            row.now,
            row.min,
            row.max,
            row.value.clone(),
            row.state,
            row.why.clone(),
            row.stuck,
        )
    };
    let (now, min, max, value, state, why, _) = row_of(object.clone(), Some(autoscaler));
    assert_eq!(
        (now, min, max),
        (Some(8), Some(0), Some(8)),
        "its own bounds"
    );
    assert_eq!(
        (value.as_deref(), state, why.as_deref()),
        (Some("30"), "steady", Some("at max"))
    );
    // While paused it has no HorizontalPodAutoscaler: missing values are unknown.
    let paused = ScaledObject {
        paused: true,
        ..object.clone()
    };
    let (now, .., value, state, why, stuck) = row_of(paused, None);
    assert_eq!((now, value, state, stuck), (None, None, "paused", false));
    assert_eq!(why.as_deref(), Some("paused by its annotation"));
    let broken = ScaledObject {
        failing: Some((
            Name::new("ScaledObjectCheckFailed"),
            Name::new("no metrics"),
        )),
        ..object.clone()
    };
    let (.., state, why, stuck) = row_of(broken, None);
    assert_eq!((state, stuck), ("broken", true));
    assert_eq!(why.as_deref(), Some("ScaledObjectCheckFailed: no metrics"));
    let idle = ScaledObject {
        active: Some(false),
        ..object
    };
    assert_eq!(
        row_of(idle, None).5.as_deref(),
        Some("no trigger is active")
    );
    // The controller has not read it yet, or no controller does.
    let unseen = ScaledObject {
        key: ObjectKey::new("speech", "new"),
        max: 8,
        ..ScaledObject::default()
    };
    let (.., state, why, stuck) = row_of(unseen, None);
    assert_eq!((state, stuck), ("pending", true));
    assert!(why.is_some_and(|why| why.contains("no status: the KEDA operator")));
}

#[test]
fn a_pool_without_capacity_says_so_until_a_later_node_is_launched() {
    let mut facts = crate::sample::facts();
    let now = facts.now;
    let ago = |seconds| now.minus(std::time::Duration::from_secs(seconds));
    let failure = |claim: &str, at| LaunchFailure {
        key: ObjectKey::new("default", claim),
        claim: Name::new(claim),
        why: (
            Name::new("InsufficientCapacityError"),
            Name::new("none in us-east-1b"),
        ),
        at: Some(at),
    };
    let pool = |name: &str| Scaler {
        name: Name::new(name),
        ..Scaler::default()
    };
    let claim = |seconds| NodeClaim {
        name: Name::new("l40s-new01"),
        node_pool: Some(Name::new("l40s")),
        stage: Stage::Launched,
        created: ago(seconds),
        ..NodeClaim::default()
    };
    let (first, last) = (
        failure("l40s-aaaaa", ago(900)),
        failure("l40s-bbbbb", ago(240)),
    );
    let mut why = |claims: Vec<NodeClaim>| {
        let mut fleet = (*facts.fleet).clone();
        fleet.scaling.scalers = Arc::from([pool("l40s"), pool("l40s-spot"), pool("l4")]);
        fleet.scaling.failures = Arc::from([last.clone(), first.clone()].map(Arc::new));
        fleet.scaling.claims = claims.into_iter().map(Arc::new).collect();
        facts.fleet = Arc::new(fleet);
        [0, 1, 2].map(|at| row(&facts, ScalerAt::Nodes(at)).expect("a row").why)
    };
    let reason = Some("InsufficientCapacityError: none in us-east-1b (4m ago)".to_owned());
    assert_eq!(why(vec![]), [reason.clone(), None, None]);
    // A node that was claimed before says nothing of the capacity since.
    assert_eq!(why(vec![claim(600)]), [reason, None, None]);
    assert_eq!(why(vec![claim(60)]), [None, None, None]);
}

#[test]
fn a_pool_that_adds_nodes_says_how_far_they_are() {
    let mut facts = crate::sample::facts();
    let claim = |stage: Stage| NodeClaim {
        node_pool: Some(Name::new("l4")),
        stage,
        ..NodeClaim::default()
    };
    let mut why = |state: ScalerState, stages: &[Stage]| {
        let mut fleet = (*facts.fleet).clone();
        fleet.scaling.scalers = Arc::from([Scaler {
            name: Name::new("l4"),
            state,
            ..Scaler::default()
        }]);
        let claims = stages.iter().map(|stage| Arc::new(claim(*stage)));
        fleet.scaling.claims = claims.collect();
        facts.fleet = Arc::new(fleet);
        row(&facts, ScalerAt::Nodes(0)).expect("a row").why
    };
    let words = "1 node booting, 2 nodes registered, not ready";
    let stages = [Stage::Registered, Stage::Launched, Stage::Registered];
    assert_eq!(why(ScalerState::Growing, &stages).as_deref(), Some(words));
    assert_eq!(why(ScalerState::Steady, &[Stage::Ready]), None);
}

#[test]
fn an_autoscaler_at_rest_says_that_its_service_misses_an_objective() {
    let mut facts = crate::sample::facts();
    let job = facts.fleet.jobs[0].id.clone();
    let scaler = PodScaler {
        key: ObjectKey::new(job.key.namespace.clone(), "hpa"),
        target: (job.kind.clone(), job.key.name.clone()),
        min: 2,
        max: Some(8),
        current: Some(2),
        desired: Some(2),
        ..PodScaler::default()
    };
    let mut fleet = (*facts.fleet).clone();
    fleet.scaling.pod_scalers = Arc::from([Arc::new(scaler)]);
    let mut missed = fleet.findings[0].clone();
    missed.code = Name::new(OBJECTIVE_MISSED);
    missed.subject.key = job.key;
    let mut why = |findings: Vec<model::fleet::finding::Finding>| {
        fleet.findings = findings.into();
        facts.fleet = Arc::new(fleet.clone());
        let row = row(&facts, ScalerAt::Pods(0)).expect("a row");
        (row.state, row.why.unwrap_or_default())
    };
    let words = "its metrics do not show that an objective is missed";
    let (state, told) = why(vec![missed]);
    assert_eq!(state, "steady");
    assert!(told.ends_with(words), "{told}");
    assert!(!why(Vec::new()).1.contains(words));
}
