//! `govern` on a real control plane, seen through kubectl alone: who waits and why, who starts, and what its policies refuse.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::plane::{
    Ends, HttpAnswer, PATIENCE, Undo, alone, apply, items, kubectl, object, rows, stokehold, undo,
};
use super::truth::text;

/// The policies that only let `govern` start jobs: in this test the administrator governs.
const POLICIES: [&str; 2] = ["stokehold-admission", "stokehold-queue-exists"];

/// Deletes what the test makes.
fn forget() {
    let delete = |what: &[&str]| undo(&[&["delete", "--ignore-not-found"], what].concat());
    for policy in POLICIES {
        delete(&["validatingadmissionpolicybinding", policy]);
        delete(&["validatingadmissionpolicy", policy]);
    }
    delete(&["namespace", "governed"]);
    delete(&["-n", "stokehold", "deployment", "stokehold-govern"]);
    delete(&["-n", "stokehold", "configmap", "stokehold-queues"]);
}

/// The ConfigMap with one queue of so many devices.
fn queues(class: &str, nominal: u32) -> String {
    let text = format!(
        "[[queue]]\nname = \"live-a\"\n[[queue.quota]]\nflavor = \"{class}\"\nnominal = {nominal}\n"
    );
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "stokehold", "name": "stokehold-queues"}, "data": {"queues.toml": text},
    });
    object.to_string()
}

fn job(name: &str, queue: Option<&str>) -> String {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "governed", "name": name, "labels": {}},
        "spec": {"parallelism": 2, "completions": 2, "template": {
            "spec": {"restartPolicy": "Never", "tolerations": [{"operator": "Exists"}], "containers": [{
                "name": "main", "image": "registry.example/train:3", "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }]},
        }},
    });
    if let Some(queue) = queue {
        job["metadata"]["labels"]["stokehold.dev/queue"] = queue.into();
    }
    job.to_string()
}

fn seen(name: &str) -> Value {
    object("governed", "job", name)
}

fn note(job: &Value, key: &str) -> String {
    let notes = &job["metadata"]["annotations"];
    notes[format!("stokehold.dev/{key}")]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn until(what: &str, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let job = seen(name);
        if wanted(&job) {
            return job;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {job:#}");
        sleep(Duration::from_millis(500));
    }
}

/// The fleet's own jobs with the label: namespace, name, queue.
fn others() -> Vec<(String, String, String)> {
    let jobs = items("jobs.batch");
    let queue = |job: &Value| {
        let label = &job["metadata"]["labels"]["stokehold.dev/queue"];
        label.as_str().map(str::to_owned)
    };
    jobs.iter()
        .filter_map(|job| {
            let (namespace, name) = (
                text(job, "/metadata/namespace"),
                text(job, "/metadata/name"),
            );
            Some((namespace.to_owned(), name.to_owned(), queue(job)?))
        })
        .collect()
}

/// What `kubectl create` says of an object that is refused.
fn refused(object: &str) -> String {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), object).expect("written");
    let output = Command::new("kubectl")
        .args(["--context=live-admin", "create", "-f"])
        .arg(file.path())
        .output()
        .expect("kubectl runs");
    assert!(!output.status.success(), "{object} was taken");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until a policy that was just made is in force.
fn comes_to_refuse(object: &str, words: &str) {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), object).expect("written");
        let output = Command::new("kubectl")
            .args(["--context=live-admin", "create", "--dry-run=server", "-f"])
            .arg(file.path())
            .output()
            .expect("kubectl runs");
        if String::from_utf8_lossy(&output.stderr).contains(words) {
            return;
        }
        sleep(Duration::from_secs(1));
    }
    panic!("never refused with {words}");
}

#[test]
#[ignore = "needs a control plane: tests/live/run"]
fn jobs_wait_with_a_reason_and_start_when_the_quota_is_raised() {
    let _turn = alone();
    forget();
    let _forgotten = Undo(forget);
    let pools = rows("live-admin", "pools");
    let free = |row: &Value| row["devices"]["free"].as_u64().unwrap_or(0);
    let plain =
        |row: &&Value| row["classes"][0]["class"] == "L40S" || row["classes"][0]["class"] == "L4";
    let pool = pools.iter().filter(plain).max_by_key(|row| free(row));
    let pool = pool.expect("a pool with free devices");
    assert!(free(pool) >= 4, "{pool}");
    let class = text(pool, "/classes/0/class").to_owned();

    // What it prints is taken by a real API server, and its policies work.
    let manifests = HttpAnswer::of(&mut stokehold("live-admin", &["govern", "manifests"]));
    assert_eq!(manifests.code, Some(0), "{manifests:?}");
    apply(&manifests.out);
    kubectl(&[
        "-n",
        "stokehold",
        "delete",
        "deployment",
        "stokehold-govern",
    ]);
    kubectl(&["create", "namespace", "governed"]);
    apply(&queues(&class, 2));
    comes_to_refuse(&job("lost", Some("nowhere")), "there is no queue nowhere");
    let message = refused(&job("lost", Some("nowhere")));
    assert!(message.contains("there is no queue nowhere"), "{message}");
    let mut forged: Value = serde_json::from_str(&job("forged", Some("live-a"))).expect("JSON");
    forged["metadata"]["annotations"] =
        json!({"stokehold.dev/admitted-at": "2026-11-21T06:00:00Z"});
    comes_to_refuse(&forged.to_string(), "written by stokehold govern alone");
    // The test governs as the administrator.
    for policy in POLICIES {
        kubectl(&["delete", "validatingadmissionpolicybinding", policy]);
        kubectl(&["delete", "validatingadmissionpolicy", policy]);
    }

    // The fleet's own jobs lose the queue label, so that they are not governed. Each gets another label: a Job without any gets those
    // of its pod template from the API server.
    let labelled = others();
    let _labelled = Undo(|| {
        for (namespace, name, queue) in &labelled {
            let label = format!("stokehold.dev/queue={queue}");
            let job = ["-n", namespace, "label", "--overwrite", "job", name];
            undo(&[&job[..], &[&label, "live.stokehold.dev/aside-"]].concat());
        }
    });
    for (namespace, name, _) in &labelled {
        let job = ["-n", namespace, "label", "job", name];
        let labels = ["stokehold.dev/queue-", "live.stokehold.dev/aside=true"];
        kubectl(&[&job[..], &labels].concat());
    }
    assert_eq!(others(), [], "nothing of the fleet is governed");
    let log = tempfile::NamedTempFile::new().expect("a file");
    let mut govern = stokehold("live-admin", &["govern", "--write"]);
    let govern = govern.stdout(Stdio::from(log.reopen().expect("a file")));
    let mut govern = Ends(govern.spawn().expect("it starts"));

    for (name, queue) in [("first", Some("live-a")), ("other", None)] {
        apply(&job(name, queue));
    }
    let admitted =
        |job: &Value| job["spec"]["suspend"] == false && !note(job, "admitted-at").is_empty();
    let first = until("it starts", "first", admitted);
    assert_eq!(note(&first, "flavor").to_lowercase(), class.to_lowercase());
    until("its pods run", "first", |job| job["status"]["active"] == 2);
    apply(&job("second", Some("live-a")));
    let waits = |job: &Value| job["spec"]["suspend"] == true && note(job, "position") == "1";
    let second = until("it waits", "second", waits);
    assert!(note(&second, "reason").contains("live-a"), "{second:#}");
    let described = kubectl(&["-n", "governed", "describe", "job", "second"]);
    assert!(described.contains("stokehold.dev/reason"), "{described}");
    assert!(seen("second")["status"]["active"].as_u64().unwrap_or(0) == 0);
    assert!(seen("other")["spec"]["suspend"] != true);
    let queue = |rows: &[Value]| rows.iter().find(|row| row["name"] == "live-a").cloned();
    let row = queue(&rows("live-admin", "queues")).expect("a queue");
    assert_eq!(
        (&row["system"], &row["quota"][0]["used"]),
        (&json!("stokehold"), &json!(2))
    );

    apply(&queues(&class, 4));
    until("it starts with more quota", "second", admitted);
    until("its pods run", "second", |job| job["status"]["active"] == 2);
    let other = seen("other");
    assert!(
        note(&other, "reason").is_empty() && note(&other, "admitted-at").is_empty(),
        "{other:#}"
    );

    let ended = Command::new("kill").arg(govern.0.id().to_string()).status();
    assert!(ended.expect("kill runs").success());
    assert!(govern.0.wait().expect("it ends").success());
    for (namespace, name, _) in &labelled {
        let job = object(namespace, "job", name);
        assert!(
            note(&job, "reason").is_empty(),
            "it was left alone: {job:#}"
        );
    }
    let log_text = std::fs::read_to_string(log.path()).expect("a log");
    assert_eq!(
        log_text.matches("action=admit outcome=done").count(),
        2,
        "{log_text}"
    );
}
