//! Acting by the command line, end to end: `plan ACTION -o json --apply --yes` by the program itself, the objects of the simulated
//! cluster afterwards, and `plan undo`.

use engine::snapshot::{QueueStop, Snapshot, Status, System, Workload};
use model::plan::Intent;
use sim::change::Resource;

use super::command_line::CommandLine;
use super::stage::{self, name, planned, pods};
use super::*;

/// Carries out a plan; the run and the document.
fn apply(shell: &CommandLine, arguments: &[&str]) -> (String, Value) {
    let mut all = arguments.to_vec();
    all.extend(["--apply", "--yes", "--reason", "a test"]);
    let ended = shell.plan(&all);
    assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
    let document = ended.document();
    assert_eq!(document["end"]["outcome"], "done", "{document}");
    let run = document["run"].as_str().expect("a run").to_owned();
    (run, document)
}

/// A plan that is only shown changes nothing.
fn shown(shell: &CommandLine, arguments: &[&str]) -> Value {
    let before = shell.noted();
    let ended = shell.plan(arguments);
    assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
    assert_eq!(shell.writes_since(before), 0);
    ended.document()
}

fn undo(shell: &CommandLine, run: &str) {
    apply(shell, &["undo", run]);
}

fn under_kueue(work: &Workload) -> bool {
    let kept = work.admission.as_ref();
    kept.is_some_and(|kept| kept.system == System::Kueue)
}

fn of(fleet: &Snapshot, status: Status) -> impl Iterator<Item = &Workload> {
    let all = fleet.workloads.iter().filter(|work| under_kueue(work));
    all.filter(move |work| work.status == status)
}

fn workload(shell: &CommandLine, work: &Workload) -> Value {
    let kept = work.admission.as_ref().expect("has one");
    shell.object(Resource::Workloads, &work.key.key.namespace, &kept.name)
}

#[test]
fn each_action_by_the_command_line_and_back() {
    let shell = CommandLine::new(24);
    let fleet = shell.snapshot();
    // Drain a node with a gang on it.
    let gang = stage::whole_gang(&fleet);
    let node = pods(gang).next().expect("has pods").node.to_string();
    let plan = shown(&shell, &["drain", &node]);
    let steps = plan["steps"].as_array().expect("steps");
    assert!(steps.iter().any(|step| step["verb"] == "suspend"), "{plan}");
    let (run, _) = apply(&shell, &["drain", &node]);
    let closed = || shell.object(Resource::Nodes, "", &node)["spec"]["unschedulable"] == true;
    assert!(closed());
    let after = shell.snapshot();
    let left = after.workloads.iter().filter(|work| {
        let mut here = pods(work).filter(|pod| *pod.node == *node);
        work.key.kind.as_str() != "DaemonSet" && here.any(|pod| pod.deleted.is_none())
    });
    let left: Vec<String> = left.map(|work| work.key.to_string()).collect();
    assert!(left.is_empty(), "{left:?}");
    undo(&shell, &run);
    assert!(!closed());

    // A waiting job gets another priority, and its own again.
    let fleet = shell.snapshot();
    let waits = of(&fleet, Status::Waiting).next().expect("a job waits");
    let job = name(waits).to_string();
    let priority = || workload(&shell, waits)["spec"]["priority"].clone();
    let before = priority();
    let (run, _) = apply(&shell, &["reprioritise", &job, "4321"]);
    assert_eq!(priority(), 4321);
    undo(&shell, &run);
    assert_eq!(priority(), before);
    // The name alone names the only job that has it, whatever its namespace.
    for (job, more) in [
        (name(waits), &["reprioritise", "4321"][..]),
        (name(gang), &["requeue"]),
    ] {
        let mut arguments = more.to_vec();
        arguments.insert(1, &job.0.name);
        let ended = shell.plan(&arguments);
        assert!(ended.out.contains(&job.to_string()), "{ended:?}");
        assert!(!ended.out.contains("there is no job"), "{ended:?}");
    }

    // A Deployment that no autoscaler owns is scaled, and back; one that has an autoscaler is refused with its name.
    let replicas =
        || shell.object(Resource::Deployments, "prod", "moderation")["spec"]["replicas"].clone();
    let before = replicas();
    let more = before.as_u64().expect("a number") + 1;
    let (run, _) = apply(
        &shell,
        &["scale", "deployment", "prod/moderation", &more.to_string()],
    );
    assert_eq!(replicas(), more);
    undo(&shell, &run);
    assert_eq!(replicas(), before);
    let owned = ["scale", "deployment/prod/search-embed", "3"];
    let ended = shell.plan(&owned);
    assert_eq!(ended.code, 3, "{ended:?}");
    let refusal = ended.document();
    let sentence = refusal["refusal"]["sentence"].as_str().unwrap_or_default();
    let scaler = "HorizontalPodAutoscaler prod/search-embed";
    assert!(sentence.contains(scaler), "{refusal}");

    // A queue is held, and goes on.
    let queue = fleet.queues.iter().find(|queue| {
        queue.admits && queue.system == System::Kueue && queue.stop == QueueStop::None
    });
    let queue = queue.expect("a queue").name.to_string();
    let policy = || shell.object(Resource::ClusterQueues, "", &queue)["spec"]["stopPolicy"].clone();
    let before = policy();
    let (run, _) = apply(&shell, &["hold", &queue]);
    assert_eq!(policy(), "Hold");
    undo(&shell, &run);
    assert_eq!(policy(), before);

    // Others leave so that a waiting job starts. The run itself resumes what it suspended and puts the priority back.
    let fleet = shell.snapshot();
    let big = of(&fleet, Status::Waiting).filter(|work| {
        let intent = Intent::Admit {
            job: name(work),
            preempt: true,
        };
        planned(&fleet, &intent).is_ok_and(|plan| plan.steps.len() > 1)
    });
    let big = big.max_by_key(|work| work.device_count());
    let big = big.expect("a job waits that starts once others leave");
    let job = name(big).to_string();
    let (run, document) = apply(&shell, &["admit", &job, "--preempt"]);
    assert_eq!(document["plan"]["intent"]["action"], "admit");
    assert!(document["not_started"].is_null(), "{document}");
    let now = shell.snapshot();
    let found = now.workloads.iter().find(|work| work.key == big.key);
    let status = found.map(|work| work.status);
    assert_eq!(status, Some(Status::Running), "{job}");
    let ended = shell.plan(&["undo", &run, "--apply", "--yes"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    let sentence = format!("{run} has nothing left to undo: the eviction of ");
    assert!(ended.err.contains(&sentence), "{ended:?}");

    // The journal tells of all of it.
    let ended = shell.plan(&["--log"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    for words in ["drain", "reprioritise", "hold", "undo"] {
        assert!(ended.out.contains(words), "{words}");
    }
}

/// Nothing is evicted that was not read: where a plan was shown and now evicts more, it is refused and read again first.
#[test]
fn a_plan_that_evicts_more_than_was_shown_is_read_again_first() {
    let shell = CommandLine::new(24);
    let fleet = shell.snapshot();
    let gang = stage::whole_gang(&fleet);
    let node = pods(gang).next().expect("has pods").node.to_string();
    let drain = ["drain", &node, "--apply", "--yes"];
    let _ = shown(&shell, &["drain", &node]);
    // As if the gang had come to the node since.
    let kept = shell.shown_plan();
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

    let before = shell.noted();
    let ended = shell.plan(&drain);
    assert_eq!(ended.code, 3, "{ended:?}");
    let refused = ended.document();
    assert_eq!(refused["refusal"]["code"], "changed", "{refused}");
    let steps = refused["plan"]["steps"].as_array();
    assert!(
        steps.is_some_and(|steps| steps.iter().any(is_gangs)),
        "it is shown now"
    );
    let sentence = refused["refusal"]["sentence"].as_str().expect("words");
    assert!(sentence.contains(&name(gang).to_string()), "{sentence}");
    assert_eq!(shell.writes_since(before), 0);

    // It has been shown now.
    let (_, document) = apply(&shell, &["drain", &node]);
    assert_eq!(document["end"]["outcome"], "done");
    assert!(!kept.exists(), "it is carried out");
}

/// A plan is carried out only after the words that the question names.
#[test]
fn only_the_words_that_the_question_names_confirm_a_plan() {
    let shell = CommandLine::new(24);
    let fleet = shell.snapshot();
    let waits = of(&fleet, Status::Waiting).next().expect("a job waits");
    let job = name(waits).to_string();
    let reprioritise = ["reprioritise", &job, "4321"];
    let priority = || workload(&shell, waits)["spec"]["priority"].clone();
    let before = (priority(), shell.noted());
    for answer in ["n\n", "y\n", "no\nyes\n", ""] {
        let ended = shell.answered(answer, &reprioritise);
        assert_eq!(ended.code, 3, "{answer:?}: {ended:?}");
        assert!(ended.err.contains("type yes to confirm: "), "{ended:?}");
        let words = "not confirmed; nothing was changed";
        assert!(ended.err.contains(words), "{answer:?}: {ended:?}");
        assert_eq!(priority(), before.0);
    }
    // Without a terminal there is no question.
    let ended = shell.plan(&[&reprioritise[..], &["--apply"]].concat());
    assert_eq!(ended.code, 2, "{ended:?}");
    assert!(ended.err.contains("give --yes"), "{ended:?}");
    assert_eq!(shell.writes_since(before.1), 0);
    let ended = shell.answered("yes\n", &reprioritise);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(priority(), 4321);

    // Where jobs are evicted, the question names the node.
    let gang = stage::whole_gang(&fleet);
    let node = pods(gang).next().expect("has pods").node.to_string();
    let noted = shell.noted();
    let ended = shell.answered("yes\n", &["drain", &node]);
    assert_eq!(ended.code, 3, "{ended:?}");
    let asked = ended.err.lines().find_map(|line| {
        let asked = line.strip_prefix("type ")?;
        asked.split_once(" to confirm: ").map(|(wanted, _)| wanted)
    });
    let wanted = asked.expect("a question").to_owned();
    assert!(wanted.contains(&node), "{wanted}");
    assert_eq!(shell.writes_since(noted), 0);
    let ended = shell.answered(&format!("{wanted}\n"), &["drain", &node]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let object = shell.object(Resource::Nodes, "", &node);
    assert_eq!(object["spec"]["unschedulable"], true);
}

/// A name that no job has is a failure (exit code 1) and not a refusal (3): nothing forbids the question.
#[test]
fn a_job_that_is_not_in_the_fleet_ends_every_command_with_the_same_exit_code() {
    let shell = CommandLine::new(24);
    let (machine, cluster) = shell.parts();
    let run = |arguments: &[&str]| {
        let own = ["--quiet", "--kubeconfig", &cluster.kubeconfig];
        machine.run(&[&own[..], arguments].concat())
    };
    let fleet = run(&["get", "fleet", "-o", "json"]);
    assert_eq!(fleet.code, 0, "{}", fleet.err);
    for verb in ["explain", "forecast", "route"] {
        let intent = format!("{verb} ml/nope");
        let arguments = [
            "engine",
            "plan",
            "--fleet",
            "-",
            "--intent",
            intent.as_str(),
        ];
        let ended = machine.run_with_input(&fleet.out, &arguments);
        assert_eq!(ended.code, 1, "{intent}: {ended:?}");
        assert!(ended.err.contains("there is no job `ml/nope`"), "{ended:?}");
    }
    for arguments in [
        &["explain", "ml/nope"][..],
        &["route", "job", "ml/nope"],
        &["get", "jobs", "ml/nope"],
    ] {
        let ended = run(arguments);
        assert_eq!(ended.code, 1, "{arguments:?}: {ended:?}");
    }
}
