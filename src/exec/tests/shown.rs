//! Steps whose effect another object shows than the one that they change.

use super::*;

/// A step whose effect another object shows.
fn shown_by_another() -> (Plan, World) {
    let group = Object::new("g", "v1", "groups", "Group", "g")
        .within("nlp")
        .with_uid("u-g");
    let mut step = suspend("a");
    step.waits.push(Wait {
        when: WaitOrder::After,
        of: Some(group),
        until: Until::Is {
            path: "/spec/class".into(),
            value: "high".into(),
        },
        at_most_seconds: Some(60),
        deadline: None,
        go_on: false,
    });
    let plan = plan(vec![step]);
    let mut world = World::new(&plan);
    let group = json!({"metadata": {"name": "g", "uid": "u-g"}, "spec": {"class": "low"}});
    world.objects.insert("g".into(), group);
    (plan, world)
}

#[test]
fn a_step_is_done_when_the_object_that_shows_it_says_so() {
    let (plan, mut world) = shown_by_another();
    let mut machine = Machine::new("r", &plan, &BTreeMap::new());
    let mut looks = 0;
    loop {
        match machine.next(world.now) {
            RunCommand::Read(object) => {
                looks += u32::from(&*object.name == "g");
                let seen = world.read(&object);
                machine.read(world.now, seen);
            }
            RunCommand::Write { call, .. } => {
                assert_eq!(looks, 0, "nothing shows it before the call");
                let answer = world.write(&call);
                machine.answered(world.now, &answer);
            }
            RunCommand::Sleep(until) => {
                world.now = until;
                if looks == 3 {
                    world.objects.get_mut("g").expect("a group")["spec"]["class"] = "high".into();
                }
            }
            RunCommand::End(end) => {
                assert_eq!((end, looks), (RunEnd::Done, 4));
                break;
            }
        }
    }
    assert_eq!(world.carried_out, ["a"]);
}

#[test]
fn a_step_that_its_controller_does_not_take_over_fails_and_names_the_object() {
    let (plan, mut world) = shown_by_another();
    let mut machine = Machine::new("r", &plan, &BTreeMap::new());
    let (end, _) = drive(&mut machine, &mut world, |_, _| None);
    let words = failed(&end).1;
    assert!(words.starts_with("Group nlp/g: timed out after"), "{words}");
    assert!(words.contains("until /spec/class is \"high\""), "{words}");
    // Another object of its name shows nothing.
    let (plan, mut world) = shown_by_another();
    let group = world.objects.get_mut("g").expect("a group");
    group["metadata"]["uid"] = "another".into();
    group["spec"]["class"] = "high".into();
    let mut machine = Machine::new("r", &plan, &BTreeMap::new());
    let (end, _) = drive(&mut machine, &mut world, |_, _| None);
    let words = failed(&end).1;
    assert!(words.starts_with("Group nlp/g was deleted"), "{words}");
}
