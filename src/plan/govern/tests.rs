//! Decisions on small clusters, one rule each.

use std::time::Duration;

use engine::snapshot::{Preemption, Reclaim, Within};
use model::base::{Moment, Name, ObjectKey};
use model::fleet::govern::{
    ADMITTED, CHECKPOINT_WANTED, EVICTIONS, FLAVOR, GovernState, HOLD, POSITION, PREEMPTING,
    REASON, REQUEUE_AT,
};
use model::fleet::observe::{ListedNamespaces, Lost, LostKind, Table};
use model::fleet::run_hold::{HELD, RunHold};
use model::fleet::{Fleet, TableState};

use super::tests_world::{World, cohort, queue};
use super::{AdmissionState, Decision, Purpose, answers, not_ready, status_writes};

const TICK: Duration = Duration::from_secs(5);
const AGED: Duration = Duration::from_secs(30);

pub(super) fn writes_of(decision: &Decision) -> Vec<String> {
    let words = |it: &super::PlannedWrite| format!("{} {}", it.purpose.word(), it.job.key.name);
    decision.writes.iter().map(words).collect()
}

pub(super) fn standing<'a>(decision: &'a Decision, name: &str) -> &'a AdmissionState {
    let mut all = decision.standings.iter();
    let found = all.find(|(key, _)| &*key.key.name == name);
    found.expect("a job").1
}

#[test]
fn on_incomplete_facts_nothing_is_decided() {
    let mut fleet = Fleet::unknown(std::sync::Arc::default());
    let known = |fleet: &mut Fleet, table: Table, known: TableState| {
        std::sync::Arc::make_mut(&mut fleet.known).insert(table, known);
    };
    assert!(not_ready(&fleet).is_some_and(|why| why.contains("not listed yet")));
    for table in Table::ALL {
        known(&mut fleet, *table, TableState::Live);
    }
    let none = "there is no ConfigMap stokehold-queues";
    assert_eq!(not_ready(&fleet).as_deref(), Some(none));
    let state = |is_read| GovernState {
        key: ObjectKey::new("stokehold", "stokehold-queues"),
        uid: Name::default(),
        created: Moment::default(),
        fault: Some(Name::new("queues.toml:3: queue.wieght")),
        is_read,
    };
    fleet.govern = Some(std::sync::Arc::new(state(false)));
    assert!(not_ready(&fleet).is_some_and(|why| why.contains("queues.toml:3")));
    // The queues of the last valid document still count.
    fleet.govern = Some(std::sync::Arc::new(state(true)));
    let none = "ConfigMap stokehold/stokehold-queues has no queue";
    assert_eq!(not_ready(&fleet).as_deref(), Some(none));
    let read = model::fleet::queue_document::read("[[queue]]\nname = \"a\"\n", "queues.toml");
    let queues = read.expect("is right").into_iter();
    fleet.queues = queues.map(std::sync::Arc::new).collect();
    assert_eq!(not_ready(&fleet), None);
    let lost = Lost {
        kind: LostKind::Rights,
        since: fleet.at,
        message: "jobsets is forbidden".to_owned(),
    };
    known(&mut fleet, Table::JobSets, TableState::Lost(lost));
    assert!(not_ready(&fleet).is_some_and(|why| why.contains("forbidden")));
    known(&mut fleet, Table::JobSets, TableState::Absent);
    assert_eq!(not_ready(&fleet), None);
    fleet.extent = ListedNamespaces::Only(std::sync::Arc::from([Name::new("nlp")]));
    assert!(not_ready(&fleet).is_some_and(|why| why.contains("not all namespaces")));
}

/// One node of eight devices, and a queue with quota for them.
fn world() -> World {
    World::new(&[("h100", 8)], vec![queue("a", None, &[("h100", 8, None)])])
}

#[test]
fn a_new_job_is_suspended_then_admitted_then_runs_to_its_end_once() {
    let mut world = world();
    world.submit("j", "a", 0, 2, 4).governed.suspended = false;
    assert_eq!(writes_of(&world.turn()), ["suspend j"]);
    let decision = world.turn();
    assert_eq!(writes_of(&decision), ["admit j"]);
    assert_eq!(world.job("j").note(FLAVOR), Some("h100"));
    assert!(world.job("j").note(ADMITTED).is_some());
    // Its pods do not exist yet: it is not admitted again, and no other job gets its devices.
    world.submit("k", "a", 9, 1, 1);
    assert_eq!(writes_of(&world.turn()), [""; 0]);
    for _ in 0..300 {
        world.pass(TICK);
        world.turn();
    }
    let ended: Vec<u32> = world.jobs.iter().map(|job| job.ended).collect();
    assert_eq!(ended, [1, 1]);
}

#[test]
fn jobs_are_admitted_by_priority_then_by_age_and_only_within_quota() {
    let mut world = World::new(
        &[("h100", 16)],
        vec![queue("a", None, &[("h100", 8, None)])],
    );
    world.submit("old", "a", 0, 1, 4);
    world.submit("new", "a", 0, 1, 4).created = world.now.plus(TICK);
    world.submit("high", "a", 5, 1, 4).created = world.now.plus(TICK);
    let decision = world.turn();
    assert_eq!(writes_of(&decision), ["admit high", "admit old"]);
    assert_eq!(standing(&decision, "new"), &AdmissionState::Waiting(1));
}

#[test]
fn a_gang_waits_whole() {
    let mut world = World::new(
        &[("h100", 8), ("h100", 8)],
        vec![queue("a", None, &[("h100", 16, None)])],
    );
    world.submit("small", "a", 9, 1, 4);
    world.turn();
    world.pass(TICK);
    world.submit("gang", "a", 0, 4, 4);
    let decision = world.turn();
    assert_eq!(writes_of(&decision), [""; 0]);
    assert_eq!(standing(&decision, "gang"), &AdmissionState::Waiting(1));
}

#[test]
fn a_held_job_an_unknown_queue_and_a_cohort_are_never_admitted() {
    let mut world = World::new(
        &[("h100", 8)],
        vec![queue("a", Some("top"), &[("h100", 8, None)]), cohort("top")],
    );
    let hold = [(Name::new(HOLD), Name::new("true"))].into_iter().collect();
    world.submit("held", "a", 0, 1, 1).governed.notes = hold;
    world.submit("lost", "b", 0, 1, 1);
    world.submit("up", "top", 0, 1, 1);
    let decision = world.turn();
    assert_eq!(writes_of(&decision), [""; 0]);
    for (name, words) in [
        ("held", "held by its annotation stokehold.dev/hold"),
        ("lost", "there is no queue b"),
        (
            "up",
            "top is a parent queue and admits no jobs: use one of its queues",
        ),
    ] {
        assert_eq!(
            standing(&decision, name),
            &AdmissionState::Held(words.to_owned())
        );
    }
    let writes = status_writes(&decision, &world.governed(), &answers(&decision.snapshot));
    let reasons: Vec<&str> = writes
        .iter()
        .flat_map(|it| {
            it.write
                .notes
                .iter()
                .filter_map(|(_, value)| value.as_deref())
        })
        .collect();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
}

#[test]
fn others_jobs_are_left_alone_and_hold_what_they_hold() {
    let mut world = world();
    let other = world.submit("other", "", 0, 1, 6);
    other.governed.suspended = false;
    world.pass(TICK);
    let refused = world.submit("owned", "a", 9, 1, 1);
    refused.refused = Some("it belongs to JobSet big: put the label on that".to_owned());
    refused.governed.suspended = false;
    world.submit("mine", "a", 9, 1, 4);
    let decision = world.turn();
    assert_eq!(writes_of(&decision), [""; 0]);
    assert!(matches!(
        standing(&decision, "owned"),
        AdmissionState::Refused(_)
    ));
    assert_eq!(standing(&decision, "mine"), &AdmissionState::Waiting(1));
}

#[test]
fn a_suspended_job_is_not_admitted_and_a_resumed_one_waits_in_its_queue() {
    let mut world = world();
    world.submit("j", "a", 0, 1, 8);
    world.turn();
    world.pass(TICK);
    world.job("j").governed.suspended = true;
    assert_eq!(writes_of(&world.turn()), ["hold j"]);
    world.pass(TICK);
    assert_eq!(writes_of(&world.turn()), [""; 0]);
    world.submit("k", "a", 0, 1, 8);
    assert_eq!(writes_of(&world.turn()), ["admit k"]);
    // After a resume, it does not start beside the job that has its devices now.
    world.job("j").governed.suspended = false;
    let decision = world.turn();
    assert_eq!(writes_of(&decision), ["suspend j"]);
    assert_eq!(standing(&world.turn(), "j"), &AdmissionState::Waiting(1));
}

#[test]
fn what_a_run_left_suspended_waits_in_its_queue_again_once_the_time_of_the_run_is_over() {
    let mut world = world();
    world.submit("j", "a", 0, 1, 8);
    world.turn();
    world.pass(TICK);
    let hold = RunHold {
        run: Name::new("r1"),
        by: Name::new("ana"),
        since: world.now,
        until: world.now.plus(Duration::from_secs(600)),
    };
    let notes = &mut world.job("j").governed.notes;
    let stated = (Name::new(HELD), Name::from(hold.text()));
    let others = notes
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()));
    *notes = others.chain([stated]).collect();
    world.job("j").governed.suspended = true;
    world.pass(TICK);
    let decision = world.turn();
    assert_eq!(writes_of(&decision), [""; 0], "the run resumes it");
    assert_eq!(
        standing(&decision, "j"),
        &AdmissionState::Held(hold.words())
    );
    world.pass(Duration::from_secs(700));
    assert_eq!(writes_of(&world.turn()), ["requeue j"]);
    assert_eq!(world.job("j").note(HELD), None);
    assert_eq!(writes_of(&world.turn()), ["admit j"]);
}

#[test]
fn a_copy_of_an_admitted_job_is_not_admitted() {
    let mut world = world();
    let long_ago = (Name::new(ADMITTED), Name::new("2026-11-20T06:00:00Z"));
    let now = world.now;
    let copy = world.submit("copy", "a", 0, 1, 8);
    copy.governed.notes = [long_ago].into_iter().collect();
    copy.governed.created = now;
    copy.governed.suspended = false;
    assert_eq!(writes_of(&world.turn()), ["suspend copy"]);
    assert_eq!(world.job("copy").note(ADMITTED), None);
}

pub(super) fn preempting() -> World {
    let mut own = queue("a", None, &[("h100", 8, None)]);
    own.preemption = Preemption {
        within: Within::LowerPriority,
        ..Preemption::default()
    };
    World::new(&[("h100", 8)], vec![own])
}

#[test]
fn a_preempted_job_goes_first_and_its_devices_are_given_once_its_pods_have_gone() {
    let mut world = preempting();
    world.submit("low", "a", 0, 1, 8);
    world.turn();
    world.pass(TICK);
    world.submit("high", "a", 5, 1, 8);
    assert_eq!(writes_of(&world.turn()), [""; 0]);
    // A job that was just admitted is not preempted.
    world.pass(AGED);
    let decision = world.turn();
    assert_eq!(writes_of(&decision), ["preempt low"]);
    assert_eq!(
        standing(&decision, "high"),
        &AdmissionState::WaitsForPods(1)
    );
    let low = world.job("low");
    assert_eq!((low.note(EVICTIONS), low.note(ADMITTED)), (Some("1"), None));
    assert_eq!(low.note(REQUEUE_AT), Some("2026-11-21T06:01:35Z"));
    // Its pods still exist: nothing more happens, and no other job is preempted.
    assert_eq!(writes_of(&world.turn()), [""; 0]);
    world.pass(TICK);
    assert_eq!(writes_of(&world.turn()), ["admit high"]);
    world.pass(TICK);
    let decision = world.turn();
    assert!(
        matches!(standing(&decision, "low"), AdmissionState::Held(why) if why.starts_with("preempted once"))
    );
    world.pass(Duration::from_secs(700));
    world.pass(TICK);
    assert_eq!(writes_of(&world.turn()), ["admit low"]);
}

#[test]
fn a_job_that_saves_checkpoints_is_asked_for_one_before_it_goes() {
    let mut world = preempting();
    world.submit("low", "a", 0, 1, 8).last_checkpoint = Some(world.now);
    world.turn();
    world.pass(AGED);
    world.submit("high", "a", 5, 1, 8);
    assert_eq!(writes_of(&world.turn()), ["ask for a checkpoint low"]);
    let low = world.job("low");
    assert!(low.note(PREEMPTING).is_some() && low.note(CHECKPOINT_WANTED).is_some());
    world.pass(TICK);
    assert_eq!(writes_of(&world.turn()), [""; 0]);
    world.job("low").last_checkpoint = Some(world.now);
    assert_eq!(writes_of(&world.turn()), ["preempt low"]);
    let low = world.job("low");
    assert!(low.note(PREEMPTING).is_none() && low.note(CHECKPOINT_WANTED).is_none());
}

#[test]
fn one_that_saves_nothing_in_time_goes_all_the_same_and_one_that_need_not_go_stays() {
    let mut world = preempting();
    world.submit("low", "a", 0, 1, 8).last_checkpoint = Some(world.now);
    world.turn();
    world.pass(AGED);
    world.submit("high", "a", 5, 1, 8);
    world.turn();
    let high = world.jobs.pop().expect("high");
    assert_eq!(writes_of(&world.turn()), ["keep running low"]);
    assert_eq!(world.job("low").note(PREEMPTING), None);
    world.jobs.push(high);
    world.turn();
    world.pass(Duration::from_secs(130));
    assert_eq!(writes_of(&world.turn()), ["preempt low"]);
}

#[test]
fn a_queue_borrows_and_gives_back() {
    let lends = |name: &str| {
        let mut own = queue(name, Some("top"), &[("h100", 4, None)]);
        own.preemption.reclaim = Reclaim::Any;
        own
    };
    let mut world = World::new(&[("h100", 8)], vec![cohort("top"), lends("a"), lends("b")]);
    world.submit("a1", "a", 0, 1, 4);
    assert_eq!(writes_of(&world.turn()), ["admit a1"]);
    world.pass(TICK);
    world.submit("a2", "a", 0, 1, 4);
    assert_eq!(writes_of(&world.turn()), ["admit a2"]);
    world.pass(AGED);
    world.submit("b1", "b", 0, 1, 4);
    assert_eq!(writes_of(&world.turn()), ["preempt a2"]);
    world.pass(TICK);
    assert_eq!(writes_of(&world.turn()), ["admit b1"]);
}

#[test]
fn devices_that_an_admitted_job_lacks_are_not_given_to_others() {
    let mut world = World::new(
        &[("h100", 8)],
        vec![queue("a", None, &[("h100", 16, None)])],
    );
    world.submit("first", "a", 0, 1, 8);
    world.turn();
    // Pods of another job were scheduled first.
    let thief = world.submit("thief", "", 0, 1, 4);
    thief.governed.suspended = false;
    world.jobs.rotate_right(1);
    world.pass(TICK);
    assert!(world.job("first").nodes.is_empty());
    world.submit("second", "a", 9, 1, 4).estimate = Some(Duration::from_secs(3600));
    assert_eq!(writes_of(&world.turn()), [""; 0]);
    // It does not wait forever.
    world.pass(Duration::from_secs(300));
    assert_eq!(writes_of(&world.turn()), ["requeue first"]);
    assert_eq!(writes_of(&world.turn()), ["admit second"]);
    let reason = "requeued: its pods found no nodes for 5 minutes";
    assert_eq!(world.job("first").note(REASON), Some(reason));
}

#[test]
fn what_ran_before_it_was_governed_is_not_stopped() {
    let mut world = world();
    let old = world.submit("old", "a", 0, 1, 4);
    old.governed.suspended = false;
    world.pass(TICK);
    world.pass(Duration::from_secs(90));
    assert_eq!(writes_of(&world.turn()), ["adopt old"]);
    assert_eq!(world.job("old").note(FLAVOR), Some("h100"));
    assert_eq!(writes_of(&world.turn()), [""; 0]);
}

#[test]
fn pods_are_kept_on_the_nodes_of_the_flavor_where_others_would_take_them() {
    let quotas: &[(&str, i64, Option<i64>)] = &[("a100", 0, None), ("h100", 8, None)];
    let mut world = World::new(&[("a100", 8), ("h100", 8)], vec![queue("a", None, quotas)]);
    world.submit("j", "a", 0, 1, 4);
    let decision = world.turn();
    assert_eq!(world.job("j").note(FLAVOR), Some("h100"));
    let rule = decision.writes[0].write.nodes.as_ref().expect("a rule");
    assert_eq!(rule.label, "nvidia.com/gpu.product");
    assert_eq!(rule.values, ["NVIDIA-h100"]);
    // A job that has run keeps its template.
    world.submit("k", "a", 0, 1, 4).governed.has_started = true;
    assert_eq!(world.turn().writes[0].write.nodes, None);
}

#[test]
fn a_waiting_job_gets_its_position_only_when_it_changes() {
    let mut world = world();
    world.submit("first", "a", 0, 1, 8);
    world.turn();
    world.pass(TICK);
    world.submit("second", "a", 0, 1, 8);
    let status_of = |world: &mut World| {
        let decision = world.decide();
        let writes = status_writes(&decision, &world.governed(), &answers(&decision.snapshot));
        for write in &writes {
            assert_eq!(
                (write.purpose.clone(), write.write.suspend),
                (Purpose::Status, None)
            );
            world.apply(write);
        }
        writes.len()
    };
    assert_eq!(status_of(&mut world), 1);
    let second = world.job("second");
    assert_eq!(second.note(POSITION), Some("1"));
    let reason = second.note(REASON).expect("a reason").to_owned();
    assert!(reason.contains("h100"), "{reason}");
    assert_eq!(
        second.note("stokehold.dev/eta"),
        Some("2026-11-21T06:15:00Z")
    );
    assert_eq!(status_of(&mut world), 0);
    world.pass(TICK);
    assert_eq!(status_of(&mut world), 0);
    for _ in 0..125 {
        world.pass(TICK);
        world.turn();
    }
    let second = world.job("second");
    assert!(second.governed.is_admitted());
    assert_eq!((second.note(POSITION), second.note(REASON)), (None, None));
}
