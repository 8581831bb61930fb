//! A run that goes on no more and has left jobs suspended: who sees that, where, and how it ends.

use std::time::Duration;

use engine::snapshot::Status;
use model::fleet::run_hold::HELD;
use sim::change::Resource;

use super::command_line::{Cluster, CommandLine, Ended, Machine};
use super::stage::{self, name};
use super::*;

/// Runs a command on a machine.
fn print(machine: &Machine, cluster: &Cluster, arguments: &[&str]) -> Ended {
    let own = ["--quiet", "--kubeconfig", &cluster.kubeconfig, "--write"];
    machine.run(&[&own[..], arguments].concat())
}

/// The findings of runs, as `get alerts` prints them.
fn alerts(machine: &Machine, cluster: &Cluster) -> Vec<Value> {
    let ended = print(machine, cluster, &["get", "alerts", "-o", "json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let all = ended.document();
    let all = all.as_array().expect("rows").iter();
    all.filter(|row| row["code"] == "run-interrupted")
        .cloned()
        .collect()
}

/// Code and sentence of the reason for which a job does not run, as `get jobs` prints them.
fn reason(machine: &Machine, cluster: &Cluster, job: &str) -> (String, String) {
    let ended = print(machine, cluster, &["get", "jobs", job, "-o", "json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let row = ended.document()[0].clone();
    let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
    (text("reason_code"), text("reason"))
}

/// A gang that a run is to requeue; the link is cut once it is suspended, and the process is killed.
fn interrupted() -> (CommandLine, String, String) {
    let shell = CommandLine::new(24);
    let fleet = shell.snapshot();
    let gang = stage::whole_gang(&fleet);
    assert_eq!(gang.status, Status::Running);
    let job = name(gang).to_string();
    let (_, cluster) = shell.parts();
    cluster.cut_after(Some(1));
    let ended = shell.plan(&["requeue", &job, "--apply", "--yes"]);
    assert_ne!(ended.code, 0, "{ended:?}");
    cluster.cut_after(None);
    shell.forget_end();
    let log = shell.plan(&["--log"]).document();
    let run = log[0]["run"].as_str().expect("a run").to_owned();
    (shell, job, run)
}

#[test]
fn an_interrupted_run_is_reported_everywhere_and_can_be_continued() {
    let (shell, job, run) = interrupted();
    let (machine, cluster) = shell.parts();
    let found = alerts(machine, cluster);
    let [found] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(found["severity"], "crit");
    assert_eq!(found["object"]["kind"], "Run");
    assert_eq!(found["object"]["name"], *run);
    let message = found["message"].as_str().expect("words");
    assert!(
        message.starts_with(&format!("{job} is suspended: "))
            && message.ends_with("'s run was interrupted"),
        "{message}"
    );
    let (code, why) = reason(machine, cluster, &job);
    assert_eq!(code, "held-by-run");
    let go_on = format!("plan continue {run} --apply");
    assert!(
        why.contains("was interrupted") && why.contains(&go_on),
        "{why}"
    );
    let explained = print(machine, cluster, &["explain", &job]);
    assert!(explained.out.contains(&go_on), "{explained:?}");
    // The cluster is the same under another name.
    let other = ["--context", "sim-viewer", "explain", &job];
    let explained = print(machine, cluster, &other);
    assert!(explained.out.contains(&go_on), "{explained:?}");

    let ended = shell.plan(&["continue", &run, "--apply"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(alerts(machine, cluster), [Value::Null; 0]);
    assert_ne!(reason(machine, cluster, &job).0, "held-by-run");
}

#[test]
fn another_machine_sees_a_hold_and_ends_it_once_its_time_is_over() {
    let (shell, job, run) = interrupted();
    let (machine, cluster) = shell.parts();
    let home = tempfile::TempDir::new().expect("a folder");
    let other = machine.beside(home.path());
    // It has no journal of the run: for all it knows, the run goes on.
    assert_eq!(alerts(&other, cluster), [Value::Null; 0]);
    let (code, why) = reason(&other, cluster, &job);
    assert_eq!(code, "held-by-run");
    assert!(
        why.contains(&run) && why.contains(" at the latest"),
        "{why}"
    );
    machine.passes(Duration::from_secs(3_000));
    let found = alerts(&other, cluster);
    assert_eq!(found.len(), 1, "{found:?}");
    let undo = format!("stokehold plan undo {run} --apply");
    let repair = found[0]["repair"].as_str().expect("words");
    assert!(repair.contains(&undo), "{repair}");
    let refused = print(&other, cluster, &["plan", "continue", &run, "--apply"]);
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("plan undo"), "{refused:?}");
    let ended = print(&other, cluster, &["plan", "undo", &run, "--apply", "--yes"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let fleet = shell.snapshot();
    let work = fleet
        .workloads
        .iter()
        .find(|work| name(work).to_string() == job);
    let work = work.expect("is there");
    let kept = work.admission.as_ref().expect("is in a queue");
    let object = shell.object(Resource::Workloads, &work.key.key.namespace, &kept.name);
    assert_eq!(object["spec"]["active"], true);
    assert_eq!(object["metadata"]["annotations"][HELD], Value::Null);
    assert_eq!(alerts(&other, cluster), [Value::Null; 0]);
    assert_eq!(alerts(machine, cluster), [Value::Null; 0]);
}
