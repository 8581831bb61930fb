//! Shells and port-forwards: what their keys ask for, where, and what they say where they may not.

use std::sync::Arc;

use console::pod_access::{PortForward, Ports, ShellTarget};
use console::{App, AppOptions, Effect, Key, KeyPress, Msg, render_text};
use model::base::{Name, ObjectKey};
use model::fleet::job::JobState;
use model::fleet::observe::Phase;
use table::Facts;
use table::actions::{ActionState, May};
use table::navigation::{Selection, ViewId};

use crate::frames::{LARGE, console, press};

const SIZE: (u16, u16) = (140, 40);

fn text(app: &App) -> String {
    render_text(app, SIZE.0, SIZE.1)
}

fn app(view: ViewId, may: May) -> App {
    let mut app = console(&LARGE, view, SIZE, AppOptions::default());
    let _ = app.update(Msg::ActionState(Arc::new(ActionState {
        may,
        ..ActionState::default()
    })));
    app
}

fn read_only() -> May {
    May::No {
        short: String::from("read-only"),
        sentence: String::from("read-only: allow writing with --write"),
    }
}

/// Moves the cursor down to what is looked for.
fn down_to(app: &mut App, wanted: impl Fn(&Selection, &Facts) -> bool) -> Selection {
    for _ in 0..500 {
        let facts = app.facts();
        let selection = app.view().selection(facts);
        if let Some(found) = selection.filter(|selection| wanted(selection, facts)) {
            return found;
        }
        press(app, "j");
    }
    panic!("no such row");
}

fn is_job_in(state: JobState) -> impl Fn(&Selection, &Facts) -> bool {
    move |selection, facts| match selection {
        Selection::Job(id) => facts.fleet.job(id).is_some_and(|job| job.state == state),
        _ => false,
    }
}

/// The first pod of a job that runs.
fn first_pod(selection: &Selection, facts: &Facts) -> ObjectKey {
    let Selection::Job(id) = selection else {
        panic!("a job, not {selection:?}");
    };
    let job = facts.fleet.job(id).expect("is there");
    let mut running = job
        .pods
        .iter()
        .filter(|pod| pod.seen.phase == Phase::Running);
    running.next().expect("one runs").key().clone()
}

/// Effects but those of looking.
fn asked(effects: Vec<Effect>) -> Vec<Effect> {
    let looks = |effect: &Effect| matches!(effect, Effect::OnScreen(_) | Effect::Read(_));
    effects
        .into_iter()
        .filter(|effect| !looks(effect))
        .collect()
}

#[test]
fn without_a_grant_no_shell_and_no_port_forward_is_asked_for() {
    for keys in [
        "S",
        "F",
        ":shell\n",
        ":port-forward\n",
        ":port-forward 8080\n",
        ":port-forward 8080:80\n",
    ] {
        for view in [ViewId::Nodes, ViewId::Jobs, ViewId::Devices] {
            let mut app = app(view, read_only());
            assert_eq!(asked(press(&mut app, keys)), [], "{keys} in {view:?}");
            let shown = text(&app);
            assert!(
                shown.contains("read-only: allow writing with --write"),
                "{keys}: {shown}"
            );
        }
    }
}

#[test]
fn a_shell_is_opened_on_the_node_or_in_the_pod_under_the_cursor() {
    let mut nodes = app(ViewId::Nodes, May::Yes);
    let Selection::Node(name) = down_to(&mut nodes, |_, _| true) else {
        panic!("a node");
    };
    let on_node = [Effect::Shell(ShellTarget::Node(name))];
    assert_eq!(asked(press(&mut nodes, "S")), on_node);
    assert_eq!(asked(press(&mut nodes, ":shell\n")), on_node);
    // On its page, too.
    assert_eq!(asked(press(&mut nodes, "dS")), on_node);

    let mut jobs = app(ViewId::Jobs, May::Yes);
    let job = down_to(&mut jobs, is_job_in(JobState::Running));
    let pod = first_pod(&job, jobs.facts());
    let in_pod = [Effect::Shell(ShellTarget::Pod(pod, None))];
    assert_eq!(asked(press(&mut jobs, "S")), in_pod);
    assert_eq!(asked(press(&mut jobs, "yS")), in_pod, "on its YAML");
    let mut jobs = app(ViewId::Jobs, May::Yes);
    let waiting = down_to(&mut jobs, is_job_in(JobState::Waiting));
    assert_eq!(asked(press(&mut jobs, "S")), []);
    let message = format!("{} has no running pod", waiting.name());
    assert!(text(&jobs).contains(&message), "{message}: {}", text(&jobs));

    // While it is not known whether writing is granted, who has the grant decides.
    let mut early = app(ViewId::Nodes, May::Unknown);
    assert!(matches!(
        asked(press(&mut early, "S")).as_slice(),
        [Effect::Shell(_)]
    ));
    let mut pools = app(ViewId::Pools, May::Yes);
    assert_eq!(asked(press(&mut pools, "S")), []);
    assert!(
        text(&pools).contains("put the cursor on"),
        "{}",
        text(&pools)
    );
}

#[test]
fn a_device_leads_to_the_pod_that_holds_it_else_to_its_node() {
    let facts = &*LARGE;
    let mut seen = (false, false);
    for (node, device) in facts.fleet.devices() {
        let selection = [Selection::Device(node.name().clone(), device.index)];
        let target = console::pod_access::shell_target(&selection, facts).expect("always one");
        match device.first_holder() {
            Some((pod, _)) => {
                assert_eq!(target, ShellTarget::Pod(pod.key().clone(), None));
                seen.0 = true;
            }
            None => {
                assert_eq!(target, ShellTarget::Node(node.name().clone()));
                assert!(console::pod_access::running_pod(&selection, facts).is_err());
                seen.1 = true;
            }
        }
    }
    assert_eq!(seen, (true, true));
}

#[test]
fn ports_are_asked_for_and_what_runs_is_stopped_in_the_same_place() {
    let mut app = app(ViewId::Jobs, May::Yes);
    let job = down_to(&mut app, is_job_in(JobState::Running));
    let pod = first_pod(&job, app.facts());
    assert_eq!(asked(press(&mut app, "F")), []);
    assert!(
        text(&app).contains(&format!("to pod {pod}")),
        "{}",
        text(&app)
    );
    // What is no port asks for nothing, and stays to be mended.
    assert_eq!(asked(press(&mut app, "80x\n")), []);
    assert!(text(&app).contains("port-forward 80x"), "{}", text(&app));
    press(&mut app, "\u{1b}");
    let ports = Ports {
        local: 8080,
        remote: 80,
    };
    let effects = [Effect::PortForward(pod.clone(), ports)];
    assert_eq!(asked(press(&mut app, "F8080:80\n")), effects);
    assert_eq!(asked(press(&mut app, ":pf 8080:80\n")), effects);
    press(&mut app, ":port-forwards\n");
    assert!(!text(&app).contains("stop "), "nothing runs yet");
    press(&mut app, "\u{1b}");

    let _ = app.update(Msg::PortForwards(vec![PortForward {
        number: 7,
        context: Name::new("prod"),
        pod,
        ports,
        address: Some(String::from("127.0.0.1:8080")),
    }]));
    press(&mut app, ":port-forwards\n");
    assert!(text(&app).contains("stop 127.0.0.1:8080"), "{}", text(&app));
    let _ = app.update(Msg::Key(KeyPress::plain(Key::Down)));
    assert_eq!(asked(press(&mut app, "\n")), [Effect::StopPortForward(7)]);
}
