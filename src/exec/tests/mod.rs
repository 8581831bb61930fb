//! Tests: runs against a small cluster of documents, with all kinds of answers, waits, and stops.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use cluster::mutations::{Call, Subresource};
use model::base::Moment;
use model::plan::{Fact, Intent, Mutation, Object, Plan, Step, Test, Until, Verb, Wait, WaitOrder};

mod holds;
mod kills;
mod left;
mod roles;
mod shown;

use super::machine::{Machine, Note, ObjectRead, RunCommand, RunEnd, StepResult, StepStatus};
use super::response::ServerResponse;

fn job(name: &str) -> Object {
    Object::new("batch", "v1", "jobs", "Job", name)
        .within("nlp")
        .with_uid(&format!("u-{name}"))
}

fn pod(name: &str) -> Object {
    Object::new("", "v1", "pods", "Pod", name)
        .within("nlp")
        .with_uid(&format!("u-{name}"))
}

fn suspend(name: &str) -> Step {
    let mut step = Step::new(Verb::Suspend, job(name), Mutation::Suspend { value: true });
    step.guards.push(Fact {
        object: job(name),
        test: Test::Is {
            path: "/spec/suspend".into(),
            value: false.into(),
        },
    });
    step
}

fn evict(name: &str) -> Step {
    let mut step = Step::new(
        Verb::Evict,
        pod(name),
        Mutation::Evict {
            grace_seconds: None,
        },
    );
    step.waits.push(Wait {
        at_most_seconds: Some(120),
        ..Wait::new(WaitOrder::After, Until::Gone)
    });
    step
}

fn plan(steps: Vec<Step>) -> Plan {
    let mut plan = Plan::new(
        "test",
        Intent::Hold {
            target: "nlp".into(),
        },
        Moment::from_seconds(0),
    );
    plan.steps = steps;
    plan.validate().expect("is well formed");
    plan
}

/// A cluster of jobs and pods.
#[derive(Clone)]
struct World {
    objects: BTreeMap<String, Value>,
    /// Every call that was carried out, by object.
    carried_out: Vec<String>,
    /// Pods whose disruption budget refuses evictions, and until when.
    blocked: BTreeMap<String, Moment>,
    now: Moment,
}

impl World {
    fn new(plan: &Plan) -> Self {
        let mut objects = BTreeMap::new();
        for step in &plan.steps {
            let name = step.object.name.to_string();
            let object = json!({
                "metadata": {
                    "name": name, "uid": format!("u-{name}"), "resourceVersion": "1", "annotations": {},
                },
                "spec": {"suspend": false},
            });
            objects.insert(name, object);
        }
        Self {
            objects,
            carried_out: Vec::new(),
            blocked: BTreeMap::new(),
            now: Moment::from_seconds(1000),
        }
    }

    fn read(&self, object: &Object) -> ObjectRead {
        match self.objects.get(&*object.name) {
            Some(found) => ObjectRead::There(Box::new(found.clone())),
            None => ObjectRead::Gone,
        }
    }

    fn write(&mut self, call: &Call) -> ServerResponse {
        let name = call.object.name.to_string();
        let Some(object) = self.objects.get_mut(&name) else {
            return ServerResponse::of(404, Value::Null);
        };
        if call.subresource == Subresource::Eviction {
            if self
                .blocked
                .get(&name)
                .is_some_and(|until| self.now < *until)
            {
                return ServerResponse::of(
                    429,
                    json!({"details": {"causes": [{"reason": "DisruptionBudget", "message": "no"}]}}),
                );
            }
            self.carried_out.push(name.clone());
            self.objects.remove(&name);
            return ServerResponse::of(201, json!({"kind": "Status", "status": "Success"}));
        }
        let patch: json_patch::Patch = serde_json::from_value(call.body.clone()).expect("a patch");
        match json_patch::patch(object, &patch) {
            Ok(()) => {
                object["metadata"]["resourceVersion"] = "2".into();
                self.carried_out.push(name);
                ServerResponse::of(200, object.clone())
            }
            Err(_) => ServerResponse::of(422, json!({"message": "the patch does not apply"})),
        }
    }
}

/// Drives a machine to its end. `meddle` may replace an answer.
fn drive(
    machine: &mut Machine,
    world: &mut World,
    mut meddle: impl FnMut(&mut World, &Call) -> Option<ServerResponse>,
) -> (RunEnd, Vec<Note>) {
    let mut notes = Vec::new();
    for _ in 0..10_000 {
        match machine.next(world.now) {
            RunCommand::Read(object) => {
                let seen = world.read(&object);
                machine.read(world.now, seen);
            }
            RunCommand::Write { call, .. } => {
                let answer = meddle(world, &call).unwrap_or_else(|| world.write(&call));
                machine.answered(world.now, &answer);
            }
            RunCommand::Sleep(until) => {
                assert!(until > world.now, "a sleep that does not pass time");
                world.now = until;
            }
            RunCommand::End(end) => {
                notes.extend(machine.notes());
                return (end, notes);
            }
        }
        notes.extend(machine.notes());
    }
    panic!("the run does not end");
}

fn go(plan: &Plan, world: &mut World) -> (RunEnd, Vec<Note>) {
    let mut machine = Machine::new("r", plan, &BTreeMap::new());
    drive(&mut machine, world, |_, _| None)
}

fn failed(end: &RunEnd) -> (u32, &str) {
    match end {
        RunEnd::Failed { step, words } => (*step, words),
        other => panic!("{other:?} is no failure"),
    }
}

#[test]
fn steps_go_in_their_order_and_each_once() {
    let plan = plan(vec![suspend("a"), evict("b"), suspend("c")]);
    let mut world = World::new(&plan);
    let (end, notes) = go(&plan, &mut world);
    assert_eq!(end, RunEnd::Done);
    assert_eq!(world.carried_out, ["a", "b", "c"]);
    let over = notes.iter().filter(|note| {
        matches!(
            note,
            Note::Finished {
                how: StepResult::Done,
                ..
            }
        )
    });
    assert_eq!(over.count(), 3);
    // The same plan again: its guards detect that the cluster has changed.
    let (end, _) = go(&plan, &mut world);
    assert_eq!(failed(&end).0, 1);
    assert_eq!(world.carried_out.len(), 3, "nothing is sent");
}

#[test]
fn a_concurrent_change_fails_the_step_with_a_reason() {
    let plan = plan(vec![suspend("a"), suspend("b")]);
    let mut world = World::new(&plan);
    let mut machine = Machine::new("r", &plan, &BTreeMap::new());
    // Another operator suspends b between the read and the write.
    let (end, _) = drive(&mut machine, &mut world, |world, call| {
        if &*call.object.name == "b" {
            let b = world.objects.get_mut("b").expect("is there");
            b["spec"]["suspend"] = true.into();
            b["metadata"]["resourceVersion"] = "9".into();
        }
        None
    });
    let (step, words) = failed(&end);
    assert_eq!(step, 2);
    assert!(
        words.contains("/spec/suspend is true and was false"),
        "{words}"
    );
    assert_eq!(world.carried_out, ["a"]);
}

#[test]
fn a_victim_that_ended_by_itself_does_not_stop_the_others() {
    let plan = plan(vec![suspend("a"), suspend("b"), suspend("c")]);
    let mut world = World::new(&plan);
    let ended = json!([{"type": "Complete", "status": "True"}]);
    world.objects.get_mut("a").expect("is there")["status"]["conditions"] = ended.clone();
    let (end, notes) = go(&plan, &mut world);
    assert_eq!(end, RunEnd::Done);
    assert_eq!(world.carried_out, ["b", "c"]);
    let already = notes.iter().filter(|note| {
        matches!(note, Note::Finished { how: StepResult::Already, words, .. } if words == "it has already ended")
    });
    assert_eq!(already.count(), 1);
    // When the plan has only this job, its end is reported as a failure.
    let plan = self::plan(vec![suspend("a")]);
    let mut world = World::new(&plan);
    world.objects.get_mut("a").expect("is there")["status"]["conditions"] = ended;
    let (end, _) = go(&plan, &mut world);
    assert!(failed(&end).1.contains("has ended"), "{end:?}");
}

#[test]
fn another_object_of_the_same_name_is_not_touched() {
    let plan = plan(vec![suspend("a")]);
    let mut world = World::new(&plan);
    world.objects.get_mut("a").expect("is there")["metadata"]["uid"] = "u-new".into();
    let (end, _) = go(&plan, &mut world);
    assert!(failed(&end).1.contains("another object now"), "{end:?}");
    world.objects.clear();
    let (end, _) = go(&plan, &mut world);
    assert!(failed(&end).1.contains("no longer exists"), "{end:?}");
    assert!(world.carried_out.is_empty());
}

#[test]
fn a_conflict_is_read_again_and_a_true_refusal_is_not_tried_for_ever() {
    let plan = plan(vec![suspend("a")]);
    let mut world = World::new(&plan);
    let mut machine = Machine::new("r", &plan, &BTreeMap::new());
    let mut left = 3;
    let (end, _) = drive(&mut machine, &mut world, |_, _| {
        left -= 1;
        (left >= 0).then(|| ServerResponse::of(409, json!({"message": "modified"})))
    });
    assert_eq!((end, world.carried_out.len()), (RunEnd::Done, 1));
    // 422 with the object unchanged: a webhook refuses.
    let mut world = World::new(&plan);
    let mut machine = Machine::new("r", &plan, &BTreeMap::new());
    let mut sent = 0;
    let (end, _) = drive(&mut machine, &mut world, |_, _| {
        sent += 1;
        Some(ServerResponse::of(
            422,
            json!({"message": "spec.suspend: forbidden"}),
        ))
    });
    assert_eq!((failed(&end), sent), ((1, "spec.suspend: forbidden"), 1));
    // Another client keeps writing the object.
    let mut world = World::new(&plan);
    let mut machine = Machine::new("r", &plan, &BTreeMap::new());
    let (end, _) = drive(&mut machine, &mut world, |_, _| {
        Some(ServerResponse::of(409, Value::Null))
    });
    assert!(
        failed(&end).1.contains("keeps being changed by others"),
        "{end:?}"
    );
}

#[test]
fn after_a_refusal_nothing_more_is_sent() {
    for code in [400, 401, 403, 405, 415] {
        let plan = plan(vec![suspend("a"), suspend("b"), suspend("c")]);
        let mut world = World::new(&plan);
        let mut machine = Machine::new("r", &plan, &BTreeMap::new());
        let (end, _) = drive(&mut machine, &mut world, |_, call| {
            (&*call.object.name == "b").then(|| ServerResponse::of(code, json!({"message": "no"})))
        });
        assert_eq!(failed(&end).0, 2);
        assert_eq!(world.carried_out, ["a"], "{code}");
        let statuses: Vec<StepStatus> =
            machine.step_statuses().map(|(_, stand, _)| stand).collect();
        assert_eq!(
            statuses,
            [
                StepStatus::Finished(StepResult::Done),
                StepStatus::Finished(StepResult::Failed),
                StepStatus::Todo
            ]
        );
    }
}

#[test]
fn a_blocked_eviction_waits_while_others_go_on() {
    let mut last = suspend("d");
    last.needs = vec![1];
    let plan = plan(vec![evict("a"), evict("b"), suspend("c"), last]);
    let mut world = World::new(&plan);
    world
        .blocked
        .insert("a".into(), world.now.plus(Duration::from_secs(300)));
    let (end, notes) = go(&plan, &mut world);
    assert_eq!(end, RunEnd::Done);
    assert_eq!(world.carried_out, ["b", "c", "a", "d"], "d needs a");
    let waits = notes
        .iter()
        .filter(|note| matches!(note, Note::Waits { step: 1, .. }));
    assert_eq!(waits.count(), 1, "the same words once");
}

#[test]
fn a_budget_that_never_allows_stops_the_run_or_is_left() {
    let never = Moment::from_seconds(10_000_000);
    for (go_on, wanted) in [(false, None), (true, Some(StepResult::Left))] {
        let mut first = evict("a");
        first.waits.push(Wait {
            at_most_seconds: Some(60),
            go_on,
            ..Wait::new(WaitOrder::Before, Until::Budget)
        });
        let mut second = suspend("b");
        second.needs = vec![1];
        let plan = plan(vec![first, second]);
        let mut world = World::new(&plan);
        world.blocked.insert("a".into(), never);
        let begun = world.now;
        let (end, notes) = go(&plan, &mut world);
        let left = notes.iter().find_map(|note| match note {
            Note::Finished { step: 1, how, .. } => Some(*how),
            _ => None,
        });
        if let Some(wanted) = wanted {
            assert_eq!((end, left), (RunEnd::Done, Some(wanted)));
            assert_eq!(world.carried_out, ["b"]);
        } else {
            assert!(
                failed(&end).1.contains("has blocked the eviction for 1m"),
                "{end:?}"
            );
            assert!(world.carried_out.is_empty());
        }
        assert!(world.now.since(begun).seconds() <= 61);
    }
}

#[test]
fn without_a_word_in_the_plan_a_budget_is_waited_for_a_quarter_of_an_hour() {
    let plan = plan(vec![evict("a")]);
    let mut world = World::new(&plan);
    let begun = world.now;
    world
        .blocked
        .insert("a".into(), Moment::from_seconds(10_000_000));
    let (end, _) = go(&plan, &mut world);
    assert_eq!(failed(&end).0, 1);
    assert_eq!(world.now.since(begun).seconds(), 900);
}

#[test]
fn a_pod_that_goes_by_itself_counts_as_gone() {
    let plan = plan(vec![evict("a")]);
    let mut world = World::new(&plan);
    world.objects.clear();
    let (end, _) = go(&plan, &mut world);
    assert_eq!((end, world.carried_out.len()), (RunEnd::Done, 0));
    let mut world = World::new(&plan);
    let mut machine = Machine::new("r", &plan, &BTreeMap::new());
    let (end, _) = drive(&mut machine, &mut world, |_, _| {
        Some(ServerResponse::of(404, Value::Null))
    });
    assert_eq!(end, RunEnd::Done);
}

#[test]
fn an_eviction_that_fails_inside_a_201_stops_the_run() {
    let plan = plan(vec![evict("a"), evict("b")]);
    let mut world = World::new(&plan);
    let mut machine = Machine::new("r", &plan, &BTreeMap::new());
    let (end, _) = drive(&mut machine, &mut world, |_, _| {
        Some(ServerResponse::of(
            201,
            json!({"kind": "Status", "status": "Failure", "code": 500, "message": "more than one budget"}),
        ))
    });
    assert!(failed(&end).1.contains("more than one budget"));
    assert!(world.carried_out.is_empty());
}

#[test]
fn an_unanswered_call_is_looked_into_and_not_sent_twice() {
    for carried_out in [false, true] {
        let plan = plan(vec![suspend("a"), suspend("b")]);
        let mut world = World::new(&plan);
        let mut machine = Machine::new("r", &plan, &BTreeMap::new());
        let mut lost = false;
        let (end, notes) = drive(&mut machine, &mut world, |world, call| {
            if std::mem::replace(&mut lost, true) {
                return None;
            }
            if carried_out {
                world.write(call);
            }
            Some(ServerResponse::none("connection reset"))
        });
        assert_eq!(end, RunEnd::Done);
        assert_eq!(world.carried_out, ["a", "b"], "each once");
        assert!(notes.contains(&Note::Resolved {
            step: 1,
            done: carried_out
        }));
    }
}

#[test]
fn a_server_that_stays_away_ends_the_run() {
    let plan = plan(vec![suspend("a")]);
    let mut world = World::new(&plan);
    let mut machine = Machine::new("r", &plan, &BTreeMap::new());
    let begun = world.now;
    loop {
        match machine.next(world.now) {
            RunCommand::Read(_) => {
                machine.read(world.now, ObjectRead::Not(ServerResponse::none("refused")))
            }
            RunCommand::Sleep(until) => world.now = until,
            RunCommand::Write { .. } => panic!("nothing could be read"),
            RunCommand::End(end) => {
                assert!(
                    failed(&end)
                        .1
                        .contains("no answer from the API server for "),
                    "{end:?}"
                );
                break;
            }
        }
    }
    let waited = world.now.since(begun).seconds();
    assert!((600..700).contains(&waited), "{waited}");
    let mut machine = Machine::new("r", &plan, &BTreeMap::new());
    machine.next(world.now);
    machine.read(
        world.now,
        ObjectRead::Not(ServerResponse::of(
            403,
            json!({"message": "may not get jobs"}),
        )),
    );
    let RunCommand::End(end) = machine.next(world.now) else {
        panic!("a right that is missing is not waited for");
    };
    assert!(failed(&end).1.contains("may not get jobs"));
}

#[test]
fn it_waits_for_a_checkpoint_and_for_what_comes_after() {
    let mut step = suspend("a");
    let saved = Moment::from_seconds(5000);
    let after = Moment::from_seconds(4000);
    let suspended = Until::Condition {
        name: "Suspended".into(),
        status: "True".into(),
    };
    step.waits = vec![
        Wait {
            at_most_seconds: Some(3600),
            ..Wait::new(WaitOrder::Before, Until::Checkpoint { after })
        },
        Wait {
            at_most_seconds: Some(30),
            ..Wait::new(WaitOrder::After, suspended)
        },
    ];
    let plan = plan(vec![step]);
    let mut world = World::new(&plan);
    let mut machine = Machine::new("r", &plan, &BTreeMap::new());
    loop {
        match machine.next(world.now) {
            RunCommand::Read(object) => {
                let seen = world.read(&object);
                machine.read(world.now, seen);
            }
            RunCommand::Write { call, .. } => {
                let a = &world.objects["a"];
                assert!(
                    a["metadata"]["annotations"].is_object(),
                    "before the checkpoint"
                );
                let answer = world.write(&call);
                machine.answered(world.now, &answer);
            }
            RunCommand::Sleep(until) => {
                world.now = until.max(world.now.plus(Duration::from_secs(5)));
                let a = world.objects.get_mut("a").expect("is there");
                if world.now >= Moment::from_seconds(1100) {
                    a["metadata"]["annotations"] =
                        json!({"stokehold.dev/last-checkpoint": saved.rfc3339()});
                }
            }
            RunCommand::End(end) => {
                assert!(
                    failed(&end).1.contains("timed out"),
                    "nobody sets the condition: {end:?}"
                );
                break;
            }
        }
    }
    assert_eq!(world.carried_out, ["a"]);
}

#[test]
fn a_stop_comes_after_the_step_under_way() {
    let plan = plan(vec![suspend("a"), suspend("b")]);
    let mut world = World::new(&plan);
    let mut machine = Machine::new("r", &plan, &BTreeMap::new());
    let RunCommand::Read(object) = machine.next(world.now) else {
        panic!("reads first");
    };
    machine.stop();
    machine.read(world.now, world.read(&object));
    let (end, _) = drive(&mut machine, &mut world, |_, _| None);
    assert_eq!(
        (end, world.carried_out),
        (RunEnd::Stopped, vec!["a".to_owned()])
    );
}

#[test]
fn versions_that_the_plan_leaves_open_are_those_that_the_cluster_serves() {
    let mut step = suspend("a");
    step.object.place.version = model::base::Name::default();
    let plan = plan(vec![step]);
    let versions = BTreeMap::from([("batch".to_owned(), "v7".to_owned())]);
    let mut machine = Machine::new("r", &plan, &versions);
    let RunCommand::Read(object) = machine.next(Moment::from_seconds(0)) else {
        panic!("reads first");
    };
    assert_eq!(&*object.place.version, "v7");
}
