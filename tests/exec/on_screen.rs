//! Acting from the keyboard, end to end: keys into the console, and the objects of the simulated cluster afterwards.

use std::time::Duration;

use console::KeyPress;
use engine::snapshot::{Status, System};
use model::plan::Intent;
use sim::change::Resource;

use super::keyboard::Keyboard;
use super::stage::{self, begin, cluster, pods, ticking, world};
use super::*;

fn object(service: &Service, resource: Resource, at: (&str, &str)) -> Value {
    let found = service.cluster().get(resource, at.0, at.1);
    (*found.unwrap_or_else(|| panic!("{at:?} is there"))).clone()
}

/// Opens the plan of what is under the cursor, confirms it, and leaves the dialog.
async fn act(keyboard: &mut Keyboard, keys: &str, title: &str) {
    assert!(keys.chars().count() <= 4, "{keys:?} is more than four keys");
    keyboard.press(keys);
    keyboard.sees(&format!("PLAN  {title}")).await;
    keyboard.confirm().await;
    keyboard.press("\u{1b}");
}

/// Takes back the latest run: `U` and the confirmation.
async fn undo(keyboard: &mut Keyboard, title: &str) {
    act(keyboard, "U", &format!("undo {title}")).await;
}

/// Puts the cursor on something by its name, as an operator does who knows it. Not counted: who is on it already needs no key.
async fn stand_on(keyboard: &mut Keyboard, view: char, name: &str) {
    keyboard.press(&format!("{view}/"));
    // What was looked for before stands there still.
    keyboard.key(KeyPress::ctrl('u'));
    keyboard.press(&format!("{name}\n"));
    keyboard
        .until(name, |it| {
            let selection = it.app.view().selection(it.app.facts());
            selection.is_some_and(|selection| selection.name().contains(name))
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn every_action_from_the_keyboard_and_back() {
    let service = cluster(world(1, 24, false), ticking());
    let mut keyboard = Keyboard::open(&service, &[]).await;
    let fleet = stage::snapshot(&service);
    let is_kueue = |work: &&engine::snapshot::Workload| {
        work.admission
            .as_ref()
            .is_some_and(|kept| kept.system == System::Kueue)
    };
    // A node with a gang on it.
    let gang = stage::whole_gang(&fleet);
    let node = pods(gang).next().expect("has pods").node.clone();
    stand_on(&mut keyboard, '6', &node).await;
    act(&mut keyboard, "D", &format!("drain {node}")).await;
    let closed = |service: &Service| {
        object(service, Resource::Nodes, ("", &node))["spec"]["unschedulable"] == true
    };
    assert!(closed(&service));
    let after = stage::snapshot(&service);
    let left = after.workloads.iter().filter(|work| {
        let mut here = pods(work).filter(|pod| pod.node == node);
        work.key.kind.as_str() != "DaemonSet" && here.any(|pod| pod.deleted.is_none())
    });
    let left: Vec<String> = left.map(|work| work.key.to_string()).collect();
    assert!(left.is_empty(), "{left:?}");
    undo(&mut keyboard, "drain").await;
    assert!(!closed(&service), "opened again");

    // A waiting job gets another priority.
    let waits = after
        .workloads
        .iter()
        .filter(is_kueue)
        .find(|work| work.status == Status::Waiting)
        .expect("a job waits");
    let job = waits.key.key.name.to_string();
    let namespace = waits.key.key.namespace.to_string();
    let workload = waits.admission.as_ref().expect("has one").name.to_string();
    let priority = |service: &Service| {
        let found = object(service, Resource::Workloads, (&namespace, &workload));
        found["spec"]["priority"].clone()
    };
    let before = priority(&service);
    stand_on(&mut keyboard, '5', &job).await;
    keyboard.press("P");
    keyboard.sees("priority of").await;
    keyboard.press("4321\n");
    keyboard.sees("PLAN  set priority of").await;
    keyboard.confirm().await;
    keyboard.press("\u{1b}");
    assert_eq!(priority(&service), 4321);
    undo(&mut keyboard, "set priority of").await;
    assert_eq!(priority(&service), before);

    // A Deployment is scaled, and back.
    let replicas = |service: &Service| {
        let found = object(service, Resource::Deployments, ("prod", "moderation"));
        found["spec"]["replicas"].as_u64().expect("a number")
    };
    let before = replicas(&service);
    stand_on(&mut keyboard, '5', "moderation").await;
    keyboard.press("N");
    keyboard.sees("replicas of prod/moderation").await;
    keyboard.press(&format!("{}\n", before + 1));
    keyboard.sees("PLAN  scale prod/moderation").await;
    keyboard.confirm().await;
    keyboard.press("\u{1b}");
    assert_eq!(replicas(&service), before + 1);
    undo(&mut keyboard, "scale").await;
    assert_eq!(replicas(&service), before);

    // A queue is held, and goes on.
    stand_on(&mut keyboard, '4', "nlp").await;
    let policy = |service: &Service| {
        let found = object(service, Resource::ClusterQueues, ("", "nlp"));
        found["spec"]["stopPolicy"].clone()
    };
    act(&mut keyboard, "H", "hold").await;
    assert_eq!(policy(&service), "Hold");
    undo(&mut keyboard, "hold").await;
    assert_eq!(policy(&service), "None");

    // Others leave so that a big job starts: one that has waited for a while, and does not start by itself meanwhile.
    let earlier = stage::snapshot(&service);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let fleet = stage::snapshot(&service);
    let waited = |work: &&engine::snapshot::Workload| {
        let mut all = earlier.workloads.iter();
        all.any(|known| known.key == work.key && known.status == Status::Waiting)
    };
    let admits = |work: &&engine::snapshot::Workload| {
        let intent = Intent::Admit {
            job: stage::name(work),
            preempt: true,
        };
        let plan = stage::planned(&fleet, &intent);
        plan.is_ok_and(|plan| plan.steps.len() > 1)
    };
    let waiting = fleet.workloads.iter().filter(is_kueue);
    let waiting = waiting.filter(|work| work.status == Status::Waiting);
    let big = waiting
        .filter(waited)
        .filter(admits)
        .max_by_key(|work| work.device_count())
        .expect("a job waits that starts once others leave");
    stand_on(&mut keyboard, '5', &big.key.key.name).await;
    keyboard.press("A");
    keyboard.sees("PLAN  admit").await;
    keyboard.begin().await;
    // It has resumed what it suspended and put the priority back itself.
    keyboard
        .sees("has nothing left to undo: the eviction of ")
        .await;
    keyboard.press("\u{1b}");
    let now = stage::snapshot(&service);
    let found = now.workloads.iter().find(|work| work.key == big.key);
    let status = found.map(|work| work.status);
    assert_eq!(status, Some(Status::Running), "{}", big.key);

    // The runs stand in `9 plans`, the latest first; from there they are undone too.
    keyboard.press("9");
    keyboard.sees("undo hold").await;
    let runs = &keyboard.app.facts().acts.runs;
    assert_eq!(runs.len(), 9, "{runs:?}");
    assert!(begin() < service.cluster().now());
}

/// What another program of the same user does is among the runs, without a key.
#[tokio::test(start_paused = true)]
async fn what_another_program_does_is_among_the_runs() {
    let service = cluster(world(1, 24, false), ticking());
    let folder = tempfile::TempDir::new().expect("a folder");
    let mut one = Keyboard::open_with(&service, &[], folder.path()).await;
    assert!(one.app.facts().acts.runs.is_empty());
    let mut other = Keyboard::open_with(&service, &[], folder.path()).await;
    stand_on(&mut other, '4', "nlp").await;
    act(&mut other, "H", "hold").await;
    one.until("the run", |it| !it.app.facts().acts.runs.is_empty())
        .await;
}
