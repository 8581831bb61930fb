//! Acting by the command line, end to end: `plan ACTION -o json --apply --yes` by the program itself, the objects of the simulated
//! cluster afterwards, and `plan undo`.

use engine::snapshot::{Snapshot, Status, Stop, System, Workload};
use model::plan::Intent;
use sim::change::Resource;

use super::program::Bench;
use super::stage::{self, name, planned, pods};
use super::*;

/// Carries out a plan; the run and the document. `None` for a job that has started by itself meanwhile, or is
/// about to.
async fn try_apply(bench: &Bench, arguments: &[&str]) -> Option<(String, Value)> {
    let mut all = arguments.to_vec();
    all.extend(["--apply", "--yes", "--reason", "a test"]);
    let mut output = bench.run(&all).wait_with_output().await.expect("ends");
    let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("has changed since it was shown") {
        output = bench.run(&all).wait_with_output().await.expect("ends");
        said = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    if said.contains("runs already") || said.contains("starts by itself") {
        return None;
    }
    let document: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    // A job that does not run although every step is done is told of, and is no success.
    let wanted = i32::from(!document["not_started"].is_null());
    assert_eq!(output.status.code(), Some(wanted), "{arguments:?}: {said}");
    assert_eq!(document["end"]["outcome"], "done", "{document}");
    let run = document["run"].as_str().expect("a run").to_owned();
    Some((run, document))
}

async fn apply(bench: &Bench, arguments: &[&str]) -> (String, Value) {
    let done = try_apply(bench, arguments).await;
    done.expect("it is as it was planned")
}

/// A plan that is only shown changes nothing.
async fn shown(bench: &Bench, arguments: &[&str]) -> Value {
    let before = bench.noted();
    let output = bench.run(arguments).wait_with_output().await.expect("ends");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    let audit = bench.running.cluster().audit();
    let writes = audit.entries().skip(before);
    assert!(writes.into_iter().all(|entry| !entry.is_mutating()));
    serde_json::from_slice(&output.stdout).expect("is JSON")
}

async fn undo(bench: &Bench, run: &str) {
    apply(bench, &["undo", run]).await;
}

fn under_kueue(work: &Workload) -> bool {
    let kept = work.admission.as_ref();
    kept.is_some_and(|kept| kept.system == System::Kueue)
}

fn of(fleet: &Snapshot, status: Status) -> impl Iterator<Item = &Workload> {
    let all = fleet.workloads.iter().filter(|work| under_kueue(work));
    all.filter(move |work| work.status == status)
}

fn workload(bench: &Bench, work: &Workload) -> Value {
    let kept = work.admission.as_ref().expect("has one");
    bench.object(Resource::Workloads, &work.key.key.namespace, &kept.name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_action_by_the_command_line_and_back() {
    let bench = Bench::new(24, 20.0).await;
    let service = bench.running.service().signed(User::Admin);
    let fleet = stage::snapshot(&service);
    // Drain a node with a gang on it.
    let gang = stage::whole_gang(&fleet);
    let node = pods(gang).next().expect("has pods").node.to_string();
    let plan = shown(&bench, &["drain", &node]).await;
    let steps = plan["steps"].as_array().expect("steps");
    assert!(steps.iter().any(|step| step["verb"] == "suspend"), "{plan}");
    let (run, _) = apply(&bench, &["drain", &node]).await;
    let closed = || bench.object(Resource::Nodes, "", &node)["spec"]["unschedulable"] == true;
    assert!(closed());
    let after = stage::snapshot(&service);
    let left = after.workloads.iter().filter(|work| {
        let mut here = pods(work).filter(|pod| *pod.node == *node);
        work.key.kind.as_str() != "DaemonSet" && here.any(|pod| pod.deleted.is_none())
    });
    let left: Vec<String> = left.map(|work| work.key.to_string()).collect();
    assert!(left.is_empty(), "{left:?}");
    undo(&bench, &run).await;
    assert!(!closed());

    // A waiting job gets another priority, and its own again.
    let fleet = stage::snapshot(&service);
    let waits = of(&fleet, Status::Waiting).next().expect("a job waits");
    let job = name(waits).to_string();
    let priority = || workload(&bench, waits)["spec"]["priority"].clone();
    let before = priority();
    let (run, _) = apply(&bench, &["reprioritise", &job, "4321"]).await;
    assert_eq!(priority(), 4321);
    undo(&bench, &run).await;
    assert_eq!(priority(), before);
    // The name alone names the only job that has it, whatever its namespace.
    for (job, more) in [
        (name(waits), &["reprioritise", "4321"][..]),
        (name(gang), &["requeue"]),
    ] {
        let mut arguments = more.to_vec();
        arguments.insert(1, &job.0.name);
        let output = bench.run(&arguments).wait_with_output().await;
        let output = output.expect("ends");
        // (Meanwhile the job may wait, or have ended: the plan is refused then, of that job all the same.)
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_found = !answer.contains("there is no job") || !answer.contains("did you mean");
        assert!(is_found && answer.contains(&job.to_string()), "{answer}");
    }

    // A Deployment that no autoscaler owns is scaled, and back; one that has an autoscaler is refused with its name.
    let replicas =
        || bench.object(Resource::Deployments, "prod", "moderation")["spec"]["replicas"].clone();
    let before = replicas();
    let more = before.as_u64().expect("a number") + 1;
    let (run, _) = apply(
        &bench,
        &["scale", "deployment", "prod/moderation", &more.to_string()],
    )
    .await;
    assert_eq!(replicas(), more);
    undo(&bench, &run).await;
    assert_eq!(replicas(), before);
    let owned = ["scale", "deployment/prod/search-embed", "3"];
    let output = bench.run(&owned).wait_with_output().await.expect("ends");
    assert_eq!(output.status.code(), Some(3));
    let refusal: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    let sentence = refusal["refusal"]["sentence"].as_str().unwrap_or_default();
    let scaler = "HorizontalPodAutoscaler prod/search-embed";
    assert!(sentence.contains(scaler), "{refusal}");

    // A queue is held, and goes on.
    let queue = fleet
        .queues
        .iter()
        .find(|queue| queue.admits && queue.system == System::Kueue && queue.stop == Stop::None);
    let queue = queue.expect("a queue").name.to_string();
    let policy = || bench.object(Resource::ClusterQueues, "", &queue)["spec"]["stopPolicy"].clone();
    let before = policy();
    let (run, _) = apply(&bench, &["hold", &queue]).await;
    assert_eq!(policy(), "Hold");
    undo(&bench, &run).await;
    assert_eq!(policy(), before);

    // Others leave so that a waiting job starts; what it cost is taken back as far as it goes.
    // (One that waits may start by itself before it is acted on: then another is tried.)
    for _ in 0..5 {
        let fleet = stage::snapshot(&service);
        let big = of(&fleet, Status::Waiting).filter(|work| {
            let intent = Intent::Admit {
                job: name(work),
                preempt: true,
            };
            let plan = planned(&fleet, &intent);
            plan.is_ok_and(|plan| plan.steps.len() > 1)
        });
        let Some(big) = big.max_by_key(|work| work.device_count()) else {
            break;
        };
        let job = name(big).to_string();
        let done = try_apply(&bench, &["admit", &job, "--preempt"]).await;
        let Some((run, document)) = done else {
            continue;
        };
        assert_eq!(document["plan"]["intent"]["action"], "admit");
        let now = stage::snapshot(&service);
        let found = now.workloads.iter().find(|work| work.key == big.key);
        assert!(
            found.is_none_or(|work| work.status == Status::Running),
            "{job}"
        );
        // A priority that was raised for it has been put back by then: nothing of the run is left to be undone.
        let mut put_back = document["plan"]["steps"].as_array().into_iter().flatten();
        let last = put_back.next_back().expect("steps");
        if last["verb"] == "reprioritise" {
            let all = ["undo", run.as_str(), "--apply", "--yes"];
            let output = bench.run(&all).wait_with_output().await.expect("ends");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(3), "{said}");
            assert!(said.contains("nothing to undo"), "{said}");
        } else {
            undo(&bench, &run).await;
        }
        break;
    }
    // The journal tells of all of it.
    let (code, told) = bench.done(&["--log"]).await;
    assert_eq!(code, Some(0), "{told}");
    for words in ["drain", "reprioritise", "hold", "undo"] {
        assert!(told.contains(words), "{words}");
    }
}

/// Nothing is evicted that was not read: where a plan was shown and now evicts more, it is refused and read again first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_evicts_more_than_was_shown_is_read_again_first() {
    let bench = Bench::new(24, 20.0).await;
    let fleet = stage::snapshot(&bench.running.service().signed(User::Admin));
    let gang = stage::whole_gang(&fleet);
    let node = pods(gang).next().expect("has pods").node.to_string();
    let drain = ["drain", &node, "--apply", "--yes"];
    let _ = shown(&bench, &["drain", &node]).await;
    // As if the gang had come to the node since.
    let kept = bench.home().join(".local/state/stokehold/shown-plan.json");
    let text = std::fs::read_to_string(&kept).expect("is kept");
    let mut document: Value = serde_json::from_str(&text).expect("is JSON");
    let is_gangs = |step: &Value| step["job"]["name"] == name(gang).to_string();
    let plan = &mut document["plan"];
    let steps = plan["steps"].as_array_mut().expect("steps");
    let count = steps.len();
    steps.retain(|step| !is_gangs(step));
    assert!(steps.len() < count, "{text}");
    plan["effect"]["displaced"] = json!([]);
    std::fs::write(&kept, document.to_string()).expect("can be written");

    let before = bench.noted();
    let output = bench.run(&drain).wait_with_output().await.expect("ends");
    assert_eq!(output.status.code(), Some(3));
    let refused: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    assert_eq!(refused["refusal"]["code"], "changed", "{refused}");
    let steps = refused["plan"]["steps"].as_array();
    assert!(
        steps.is_some_and(|steps| steps.iter().any(is_gangs)),
        "it is shown now"
    );
    let sentence = refused["refusal"]["sentence"].as_str().expect("words");
    assert!(sentence.contains(&name(gang).to_string()), "{sentence}");
    let writes = |bench: &Bench| {
        let audit = bench.running.cluster().audit();
        let new = audit.entries().skip(before);
        new.filter(|entry| entry.is_mutating()).count()
    };
    assert_eq!(writes(&bench), 0);

    // It has been shown now.
    let (_, document) = apply(&bench, &["drain", &node]).await;
    assert_eq!(document["end"]["outcome"], "done");
    assert!(!kept.exists(), "it is carried out");
}
