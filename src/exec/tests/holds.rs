//! Tests: what a run suspends for a while states who holds it and until when; what it resumes states nothing.

use super::*;
use model::fleet::run_hold::{HELD, RunHold, RunStop};
use model::plan::{JobName, JobRef};

/// A plan that suspends `a`, evicts `p`, waits and resumes `a`; then suspends `c` for good.
fn for_a_while() -> Plan {
    let mut again = Step::new(Verb::Resume, job("a"), Mutation::Suspend { value: false });
    again.needs = vec![2];
    again.waits.push(Wait {
        go_on: true,
        ..Wait::new(WaitOrder::Before, Until::Elapsed { seconds: 120 })
    });
    let mut first = suspend("a");
    for step in [&mut first, &mut again] {
        step.job = Some(JobRef {
            name: JobName(model::base::ObjectKey::new("nlp", "a")),
            devices: Some(8),
            gang: None,
        });
    }
    let mut evicts = evict("p");
    evicts.needs = vec![1];
    plan(vec![first, evicts, again, suspend("c")])
}

fn stated(world: &World, name: &str) -> Option<RunHold> {
    let annotations = &world.objects.get(name)?["metadata"]["annotations"];
    let text = annotations[HELD].as_str()?;
    Some(serde_json::from_str(text).expect("can be read"))
}

#[test]
fn what_is_suspended_for_a_while_states_until_when() {
    let plan = for_a_while();
    let mut world = World::new(&plan);
    let begun = world.now;
    let mut machine = Machine::new("r1", &plan, &BTreeMap::new()).by("kim");
    let mut seen = None;
    let (end, _) = drive(&mut machine, &mut world, |world, call| {
        if &*call.object.name == "p" {
            seen = stated(world, "a");
        }
        None
    });
    assert_eq!(end, RunEnd::Done);
    let hold = seen.expect("is stated while it is suspended");
    assert_eq!((&*hold.run, &*hold.by, hold.since), ("r1", "kim", begun));
    // The end of the pod, the wait before the resume, a server that does not answer, and a margin.
    let most = Duration::from_secs(120 + 120 + 600 + 300);
    assert_eq!(hold.until, begun.plus(most));
    assert_eq!(stated(&world, "a"), None, "it is resumed");
    assert_eq!(world.objects["a"]["spec"]["suspend"], false);
    assert_eq!(stated(&world, "c"), None, "nobody resumes it");
    assert_eq!(world.objects["c"]["spec"]["suspend"], true);
}

#[test]
fn an_object_resumed_by_another_states_no_hold() {
    let plan = for_a_while();
    let mut world = World::new(&plan);
    let mut machine = Machine::new("r1", &plan, &BTreeMap::new()).by("kim");
    let (end, _) = drive(&mut machine, &mut world, |world, call| {
        if &*call.object.name == "p" {
            let a = world.objects.get_mut("a").expect("is there");
            a["spec"]["suspend"] = false.into();
        }
        None
    });
    assert_eq!(end, RunEnd::Done);
    assert_eq!(stated(&world, "a"), None);
}

#[test]
fn a_run_that_goes_on_no_more_has_left_suspended_what_it_did_not_resume() {
    use crate::record::Record;

    let answer = |step, accepted| Record::Answer {
        step,
        attempt: 1,
        code: Some(200),
        accepted,
        words: String::new(),
    };
    let intent = |step| Record::Intent {
        step,
        attempt: 1,
        call: cluster::mutations::Call {
            method: cluster::mutations::Method::Patch,
            object: job("a"),
            subresource: Subresource::None,
            body: Value::Null,
        },
        before: serde_json::Map::new(),
    };
    let failed = RunEnd::Failed {
        step: 2,
        words: "no".to_owned(),
    };
    let ended = |end: &RunEnd| Record::End { end: end.clone() };
    let stop_of = |records: Vec<Record>, running: bool| {
        let run = super::left::run_of(for_a_while(), records);
        let open = run.left_suspended(std::slice::from_ref(&run), |_| running)?;
        assert_eq!((&*open.run, &*open.by), ("r", "me"));
        assert_eq!(open.jobs, [model::base::ObjectKey::new("nlp", "a")]);
        Some(open.stop)
    };
    let suspended = || vec![intent(1), answer(1, Some(true))];
    let with = |end: &RunEnd| suspended().into_iter().chain([ended(end)]).collect();
    assert_eq!(stop_of(vec![], false), None, "nothing was sent");
    assert_eq!(stop_of(suspended(), true), None, "it goes on");
    assert_eq!(stop_of(suspended(), false), Some(RunStop::BrokenOff));
    // Whether it was carried out is not known.
    assert_eq!(stop_of(vec![intent(1)], false), Some(RunStop::BrokenOff));
    let refused = vec![intent(1), answer(1, Some(false))];
    assert_eq!(stop_of(refused, false), None);
    assert_eq!(
        stop_of(with(&RunEnd::Stopped), false),
        Some(RunStop::Stopped)
    );
    assert_eq!(stop_of(with(&failed), false), Some(RunStop::Failed));
    let resumed = suspended()
        .into_iter()
        .chain([intent(3), answer(3, Some(true))])
        .collect();
    assert_eq!(stop_of(resumed, false), None);
}
