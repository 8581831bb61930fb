//! Decisions after failures: refused writes, jobs with unknown requests, pods that are never created, and jobs that started while
//! `govern` did not run.

use std::time::Duration;

use engine::snapshot::{PodSet, ResourceRequests};
use model::base::Name;
use model::fleet::govern::{ADMITTED, EVICTIONS, REASON};

use super::tests::{preempting, standing, writes_of};
use super::tests_world::{RULES, World, queue};
use super::{AdmissionState, decide};

const TICK: Duration = Duration::from_secs(5);
const AGED: Duration = Duration::from_secs(30);

fn world(quota: i64) -> World {
    World::new(
        &[("h100", 8)],
        vec![queue("a", None, &[("h100", quota, None)])],
    )
}

#[test]
fn a_job_whose_writes_are_refused_keeps_nothing_from_others() {
    let mut world = preempting();
    world.submit("low", "a", 0, 1, 4);
    let refused = Some("a policy denies it".to_owned());
    world.submit("high", "a", 9, 1, 8).denied = refused.clone();
    let decision = world.turn();
    assert_eq!(writes_of(&decision), ["admit low"]);
    let words = "it could not be changed, and is tried again later: a policy denies it";
    assert_eq!(
        standing(&decision, "high"),
        &AdmissionState::Held(words.into())
    );
    // Nor is anything planned on the preemption of a job that cannot be changed.
    world.pass(AGED);
    world.job("high").denied = None;
    world.job("low").denied = refused;
    let decision = world.turn();
    assert_eq!(writes_of(&decision), [""; 0]);
    assert_eq!(standing(&decision, "high"), &AdmissionState::Waiting(1));
    world.job("low").denied = None;
    assert_eq!(writes_of(&world.turn()), ["preempt low"]);
}

#[test]
fn what_asks_for_something_unknown_is_not_admitted() {
    let mut world = world(8);
    world.submit("j", "a", 0, 1, 8).is_known = false;
    let decision = world.turn();
    assert_eq!(writes_of(&decision), [""; 0]);
    let words = "its resource requests are not known yet";
    assert_eq!(
        standing(&decision, "j"),
        &AdmissionState::Held(words.into())
    );
    world.job("j").is_known = true;
    assert_eq!(writes_of(&world.turn()), ["admit j"]);
}

#[test]
fn an_admitted_job_whose_pods_never_come_waits_again_whatever_the_reason() {
    for most_pods in [0, 3] {
        let mut world = world(8);
        world.submit("stuck", "a", 0, 4, 2).most_pods = most_pods;
        assert_eq!(writes_of(&world.turn()), ["admit stuck"]);
        world.submit("next", "a", 0, 1, 8);
        world.pass(TICK);
        let decision = world.turn();
        assert_eq!(writes_of(&decision), [""; 0]);
        assert_eq!(decision.missing.len(), 1);
        world.pass(Duration::from_secs(290));
        assert_eq!(writes_of(&world.turn()), [""; 0]);
        world.pass(TICK);
        assert_eq!(writes_of(&world.turn()), ["requeue stuck"]);
        let stuck = world.job("stuck");
        assert_eq!(stuck.note(ADMITTED), None);
        let reason = stuck.note(REASON).expect("a reason");
        assert!(
            reason.starts_with("requeued: its pods found no nodes"),
            "{reason}"
        );
        world.pass(TICK);
        assert_eq!(writes_of(&world.turn()), ["admit next"], "{most_pods}");
    }
}

#[test]
fn a_gang_that_lost_a_pod_is_asked_for_a_checkpoint_before_it_waits_again() {
    let mut world = world(8);
    world.submit("gang", "a", 0, 4, 2).last_checkpoint = Some(world.now);
    world.turn();
    world.pass(TICK);
    world.job("gang").most_pods = 3;
    world.job("gang").nodes.pop();
    world.pass(Duration::from_secs(310));
    assert_eq!(writes_of(&world.turn()), ["ask for a checkpoint gang"]);
    assert_eq!(writes_of(&world.turn()), [""; 0]);
    world.pass(Duration::from_secs(130));
    assert_eq!(writes_of(&world.turn()), ["requeue gang"]);
}

#[test]
fn whom_its_owner_resumes_while_its_pods_still_end_waits_in_its_queue() {
    let mut world = preempting();
    world.grace = Duration::from_secs(600);
    world.submit("low", "a", 0, 1, 8);
    world.turn();
    world.pass(Duration::from_secs(300));
    world.submit("high", "a", 5, 1, 8);
    assert_eq!(writes_of(&world.turn()), ["preempt low"]);
    world.pass(TICK);
    world.job("low").governed.suspended = false;
    let decision = world.turn();
    assert_eq!(writes_of(&decision), ["suspend low"]);
    assert_eq!(world.job("low").note(EVICTIONS), Some("1"));
    assert_eq!(
        standing(&decision, "high"),
        &AdmissionState::WaitsForPods(1)
    );
    world.pass(Duration::from_secs(600));
    assert_eq!(writes_of(&world.turn()), ["admit high"]);
}

#[test]
fn what_slipped_through_keeps_no_more_than_its_queue_has() {
    let mut world = world(4);
    for (at, name) in ["first", "second"].into_iter().enumerate() {
        let created = world.now.plus(Duration::from_secs(1 + at as u64));
        let job = world.submit(name, "a", 0, 1, 4);
        job.governed.suspended = false;
        (job.created, job.governed.created) = (created, created);
        world.pass(TICK);
    }
    world.pass(Duration::from_secs(90));
    let decision = world.turn();
    assert_eq!(writes_of(&decision), ["suspend second", "adopt first"]);
    world.pass(TICK);
    assert_eq!(
        standing(&world.turn(), "second"),
        &AdmissionState::Waiting(1)
    );
    world.is_sound(false);
}

/// Pods without devices are not tracked: such a job may have run for hours.
#[test]
fn a_job_without_devices_is_never_stopped() {
    let mut world = world(8);
    let job = world.submit("reads", "a", 0, 1, 0);
    job.governed.suspended = false;
    assert_eq!(writes_of(&world.turn()), ["adopt reads"]);
    world.submit("waits", "a", 0, 1, 0);
    assert_eq!(writes_of(&world.turn()), ["admit waits"]);
}

#[test]
fn pods_that_have_done_their_work_hold_nothing() {
    let mut world = world(8);
    world.submit("gang", "a", 0, 4, 2);
    world.turn();
    world.pass(TICK);
    world.submit("next", "a", 0, 1, 6);
    assert_eq!(writes_of(&world.turn()), [""; 0]);
    let gang = world.job("gang");
    gang.governed.succeeded = 3;
    gang.nodes.truncate(1);
    let decision = world.turn();
    assert_eq!(writes_of(&decision), ["admit next"]);
    assert_eq!(decision.missing, []);
}

#[test]
fn pods_without_devices_are_not_waited_for() {
    let mut world = world(8);
    world.submit("ray", "a", 0, 1, 4);
    world.turn();
    world.pass(TICK);
    world.submit("next", "a", 0, 1, 4);
    let mut snapshot = world.snapshot();
    // Its head is scheduled, and no node has a device for another pod.
    let ray = snapshot
        .workloads
        .iter_mut()
        .find(|it| &*it.key.key.name == "ray");
    ray.expect("ray").sets.push(PodSet {
        name: Name::new("head"),
        requests: ResourceRequests {
            cpu_milli: 2_000_000,
            ..ResourceRequests::default()
        },
        ..PodSet::default()
    });
    let decision = decide(snapshot, &world.governed(), &RULES);
    assert_eq!(writes_of(&decision), ["admit next"]);
    assert_eq!(decision.missing, []);
}

/// Of two jobs that may be preempted, the one of lower priority goes, even if that takes until it may.
#[test]
fn no_job_is_preempted_in_place_of_a_newly_admitted_one() {
    let mut world = preempting();
    world.submit("mid", "a", 5, 1, 4);
    assert_eq!(writes_of(&world.turn()), ["admit mid"]);
    world.pass(Duration::from_secs(20));
    world.submit("low", "a", 1, 1, 4);
    assert_eq!(writes_of(&world.turn()), ["admit low"]);
    world.pass(Duration::from_secs(13));
    world.submit("high", "a", 9, 1, 4);
    let decision = world.turn();
    assert_eq!(
        writes_of(&decision),
        [""; 0],
        "low is spared, and mid is not its stand-in"
    );
    assert_eq!(
        standing(&decision, "high"),
        &AdmissionState::WaitsForPods(1)
    );
    world.pass(Duration::from_secs(18));
    assert_eq!(writes_of(&world.turn()), ["preempt low"]);
}
