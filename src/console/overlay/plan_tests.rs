//! Tests of the plan dialog: what it asks for, what it keeps, and when it counts a key.

use super::*;
use model::base::{Name, ObjectKey};
use model::plan::{Mutation, Object, Step, Verb};

fn plan(jobs: &[&str]) -> Plan {
    let job = JobName(ObjectKey::new("nlp", "train"));
    let mut plan = Plan::new("preempt", Intent::Preempt { job }, Moment::default());
    for name in jobs {
        let object = Object::new("batch", "v1", "jobs", "Job", name).within("nlp");
        let step = Step::new(Verb::Suspend, object, Mutation::Suspend { value: true });
        plan.steps.push(step);
    }
    plan
}

fn asked() -> Dialog {
    let intent = Intent::Rebalance {
        pool: Some(Name::new("a100")),
    };
    let mut dialog = Dialog::new(7, ActionRequest::Intent(intent), Moment::default());
    assert_eq!(dialog.due(Moment::default()).expect("asks").number, 7);
    assert_eq!(dialog.due(Moment::default()), None, "asks once");
    dialog
}

fn shown(dialog: &Dialog) -> Vec<String> {
    match &dialog.phase {
        PlanPhase::Shown(plan) => plan.steps.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_open_plan_does_not_change_and_changes_are_marked() {
    let mut dialog = asked();
    let at = Moment::from_seconds;
    dialog.made(6, PlanOutcome::Plan(Box::new(plan(&["old"]))), at(1));
    assert!(
        matches!(dialog.phase, PlanPhase::Computing),
        "another question"
    );
    dialog.made(7, PlanOutcome::Plan(Box::new(plan(&["a", "b"]))), at(1));
    let first = shown(&dialog);
    assert_eq!(dialog.due(at(3)), None, "too soon");
    assert!(dialog.due(at(10)).is_some());
    dialog.made(7, PlanOutcome::Plan(Box::new(plan(&["b", "a"]))), at(10));
    assert_eq!(dialog.changed(), None, "the same steps in another order");
    assert_eq!(shown(&dialog), first);
    assert!(dialog.due(at(20)).is_some());
    dialog.reason.insert("incident");
    dialog.made(7, PlanOutcome::Plan(Box::new(plan(&["a", "c"]))), at(20));
    let changed = "suspend Job nlp/c instead of suspend Job nlp/b; ctrl-r recomputes the plan";
    assert_eq!(dialog.changed().as_deref(), Some(changed));
    assert_eq!(shown(&dialog), first, "it stands still");
    // A plan equal to the one that is shown has not changed.
    assert!(dialog.due(at(30)).is_some());
    dialog.made(7, PlanOutcome::Plan(Box::new(plan(&["a", "b"]))), at(30));
    assert_eq!(dialog.changed(), None);
    assert!(dialog.due(at(40)).is_some());
    dialog.made(7, PlanOutcome::Plan(Box::new(plan(&["a", "c"]))), at(40));
    dialog.make_anew(at(41));
    assert_ne!(shown(&dialog), first);
    assert_eq!(dialog.changed(), None);
    assert_eq!(dialog.reason.text(), "incident", "what was typed stays");
}

#[test]
fn an_impossible_plan_is_shown_until_it_is_made_again() {
    let mut dialog = asked();
    let at = Moment::from_seconds;
    dialog.made(7, PlanOutcome::Plan(Box::new(plan(&["a"]))), at(1));
    assert!(dialog.due(at(10)).is_some());
    let refusal = Refusal::new(model::plan::RefusalCode::AlreadySo, "it runs already");
    dialog.made(7, PlanOutcome::Refused(refusal.clone()), at(10));
    assert!(matches!(dialog.phase, PlanPhase::Shown(_)));
    let message = "it runs already; ctrl-r recomputes the plan";
    assert_eq!(dialog.changed().as_deref(), Some(message));
    dialog.make_anew(at(11));
    assert_eq!(dialog.phase, PlanPhase::Refused(refusal));
}

#[test]
fn what_is_typed_before_there_is_a_plan_is_kept() {
    let at = Moment::from_seconds;
    let mut grave = asked();
    grave.paste("demo/a1", &May::Yes);
    let mut stops = plan(&["a"]);
    stops.steps[0].side_effects.interrupts = true;
    grave.made(7, PlanOutcome::Plan(Box::new(stops)), at(1));
    assert_eq!((grave.typed.text(), grave.reason.text()), ("demo/a1", ""));

    let mut light = asked();
    light.paste("incident", &May::Yes);
    light.made(7, PlanOutcome::Plan(Box::new(plan(&["a"]))), at(1));
    assert_eq!((light.typed.text(), light.reason.text()), ("", "incident"));
}

#[test]
fn a_run_that_could_not_begin_brings_its_plan_back() {
    let mut dialog = asked();
    dialog.phase = PlanPhase::Sent(Box::new(plan(&["a"])));
    dialog.began(7, Err(String::from("the journal cannot be written")));
    assert!(matches!(dialog.phase, PlanPhase::Shown(_)));
    assert!(dialog.error.is_some());
    dialog.phase = PlanPhase::Sent(Box::new(plan(&["a"])));
    dialog.began(7, Ok(String::from("run-1")));
    assert_eq!(dialog.phase, PlanPhase::Runs(String::from("run-1")));
}

#[test]
fn a_sign_changes_the_present_number_of_replicas() {
    assert_eq!(replica_count("10", Some(8)), Some(10));
    assert_eq!(replica_count("+2", Some(8)), Some(10));
    assert_eq!(replica_count("-2", Some(8)), Some(6));
    assert_eq!(replica_count("-9", Some(8)), None);
    assert_eq!(
        replica_count("+2", None),
        None,
        "the present number is not known"
    );
    assert_eq!(replica_count("two", Some(8)), None);
}
