//! Every mutation on the schema of its kind, as the kind's project publishes it: held, let go and held again by undo, and refused where
//! there is nothing left to hold. The controllers of these kinds do not run here: the test writes the status that they would. Kinds
//! whose controllers do are in `controllers`.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use serde_json::{Value, json};

use super::plane::{HttpAnswer, acts, acts_for_long, kubectl, stokehold};
use super::truth::{list, text};
use super::turns::PlaneTurn;

/// What one kind is like.
struct Kind {
    /// As it is named on the command line, and to kubectl.
    names: [&'static str; 2],
    /// An object of it, without a name.
    object: Value,
    /// The field that holds it.
    field: &'static str,
    /// What stands there when it is held, and when it is not.
    values: [Value; 2],
    /// What its controller writes once it is held, and once it goes on.
    answers: [Value; 2],
    /// What its controller writes once it has ended; null for kinds that never end.
    over: Value,
}

fn condition(name: &str, status: &str) -> Value {
    json!({"type": name, "status": status, "reason": name, "message": "", "lastTransitionTime": "2026-11-20T08:00:00Z"})
}

fn suspended(status: &str) -> Value {
    json!({"conditions": [condition("Suspended", status)]})
}

fn ended(name: &str) -> Value {
    json!({"conditions": [condition(name, "True")]})
}

/// A pod of one device that finds no node.
fn pod(restart: &str) -> Value {
    json!({"spec": {
        "restartPolicy": restart, "nodeSelector": {"stokehold-test": "nowhere"},
        "containers": [{"name": "main", "image": "registry.example/train:3", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
    }})
}

fn kinds() -> Vec<Kind> {
    let replica = |count: u32| json!({"replicas": count, "restartPolicy": "OnFailure", "template": pod("OnFailure")});
    let held = || [json!(true), json!(false)];
    let by_condition = || [suspended("True"), suspended("False")];
    vec![
        Kind {
            names: ["pytorchjob", "pytorchjobs.kubeflow.org"],
            // (Without a runPolicy: the field has no parent yet.)
            object: json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {
                "pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(1)}}}),
            field: "/spec/runPolicy/suspend",
            values: held(),
            answers: by_condition(),
            over: ended("Succeeded"),
        },
        Kind {
            names: ["mpijob", "mpijobs.kubeflow.org"],
            object: json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": {
                "slotsPerWorker": 1, "runPolicy": {"cleanPodPolicy": "Running"}, "mpiReplicaSpecs": {"Launcher": replica(1), "Worker": replica(1)}}}),
            field: "/spec/runPolicy/suspend",
            values: held(),
            answers: by_condition(),
            over: ended("Failed"),
        },
    ]
}

/// A namespace, gone with the value, and a journal.
struct TestNamespace {
    name: &'static str,
    journal: tempfile::TempDir,
    _plane: PlaneTurn,
}

impl TestNamespace {
    fn new(name: &'static str, plane: PlaneTurn) -> Self {
        let place = Self {
            name,
            journal: tempfile::tempdir().expect("a folder"),
            _plane: plane,
        };
        // (An earlier try may have left it, or it is still being deleted.)
        kubectl(&["delete", "namespace", name, "--ignore-not-found"]);
        kubectl(&["create", "namespace", name]);
        place
    }

    /// An object of it as typed.
    fn target(&self, kind: &str, name: &str) -> String {
        format!("{kind}/{}/{name}", self.name)
    }

    fn get(&self, kind: &str, name: &str) -> Value {
        super::plane::object(self.name, kind, name)
    }

    fn create(&self, mut object: Value, name: &str) {
        object["metadata"]["name"] = name.into();
        object["metadata"]["namespace"] = self.name.into();
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), object.to_string()).expect("written");
        // (The server looks at them. kubectl would fetch the OpenAPI document first, for which a busy machine needs longer than
        // kubectl waits.)
        let path = file.path().to_str().expect("a path");
        kubectl(&["create", "--validate=false", "-f", path]);
    }

    /// Writes what a controller would.
    fn set_status(&self, kind: &str, name: &str, status: &Value) {
        let patch = json!({ "status": status }).to_string();
        let merge = ["--subresource=status", "--type=merge", "-p", &patch];
        kubectl(&[&["-n", self.name, "patch", kind, name], &merge[..]].concat());
    }

    fn plan(&self, arguments: &[&str]) -> HttpAnswer {
        let how = "--apply --yes --reason test -o json --write";
        let mut all = vec!["plan"];
        all.extend(arguments);
        all.extend(how.split(' '));
        let mut command = stokehold("live-admin", &all);
        HttpAnswer::of(command.env("STOKEHOLD_JOURNAL_DIR", self.journal.path()))
    }

    /// Carries it out while the controller's part is played, until that says that it has done it; the name of the run.
    fn done(&self, arguments: &[&str], controller: impl Fn() -> bool + Sync) -> String {
        let over = AtomicBool::new(false);
        let answer = scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) && !controller() {
                    sleep(Duration::from_millis(200));
                }
            });
            let answer = self.plan(arguments);
            over.store(true, Ordering::Relaxed);
            answer
        });
        assert_eq!(answer.code, Some(0), "plan {arguments:?}: {answer:?}");
        let document: Value = serde_json::from_str(&answer.out).expect("a document");
        assert_eq!(document["end"]["outcome"], "done", "{arguments:?}");
        text(&document, "/run").to_owned()
    }

    /// It is refused with these words.
    fn refused(&self, arguments: &[&str], words: &str) {
        let answer = self.plan(arguments);
        assert_eq!(answer.code, Some(3), "plan {arguments:?}: {answer:?}");
        assert!(
            answer.err.contains(words),
            "plan {arguments:?} says `{words}`: {answer:?}"
        );
    }
}

impl Drop for TestNamespace {
    fn drop(&mut self) {
        let _ = Command::new("kubectl")
            .args([
                "--context=live-admin",
                "delete",
                "namespace",
                self.name,
                "--wait=false",
            ])
            .status();
    }
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn every_kind_is_put_on_hold_by_its_own_field() {
    let here = &TestNamespace::new("act-fields", acts_for_long());
    for kind in kinds() {
        let [typed, kubernetes] = kind.names;
        let name = format!("a-{typed}");
        here.create(kind.object.clone(), &name);
        let target = here.target(typed, &name);
        let field = || here.get(kubernetes, &name).pointer(kind.field).cloned();
        let [held, free] = &kind.values;
        // Its controller says so once the field is written.
        let plays = |at: usize| {
            let (name, field) = (&name, &field);
            let kind = &kind;
            move || {
                let now = field().unwrap_or(json!(false));
                let so = now == kind.values[at];
                if so {
                    here.set_status(kubernetes, name, &kind.answers[at]);
                }
                so
            }
        };
        here.set_status(kubernetes, &name, &kind.answers[1]);
        here.done(&["hold", &target], plays(0));
        assert_eq!(field().as_ref(), Some(held), "{target}");
        here.refused(&["hold", &target], "already held");
        let run = here.done(&["resume", &target], plays(1));
        assert_eq!(field().as_ref(), Some(free), "{target}");
        here.refused(&["resume", &target], "not held");
        here.done(&["undo", &run], plays(0));
        assert_eq!(field().as_ref(), Some(held), "{target}");
        here.done(&["resume", &target], plays(1));
        if !kind.over.is_null() {
            here.set_status(kubernetes, &name, &kind.over);
            let before = here.get(kubernetes, &name);
            here.refused(&["hold", &target], "ended");
            assert_eq!(here.get(kubernetes, &name), before, "{target} is untouched");
        }
    }
}

#[test]
#[ignore = "needs the plane of tests/live/up"]
fn what_cannot_be_suspended_says_what_can_be_done() {
    let here = &TestNamespace::new("act-instead", acts());
    // What another object owns is its owner's.
    let kinds = kinds();
    here.create(kinds[0].object.clone(), "owner");
    let uid = text(&here.get(kinds[0].names[1], "owner"), "/metadata/uid").to_owned();
    let owned = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"ownerReferences": [{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "owner", "uid": uid, "controller": true}]},
        "spec": {"replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": {"parallelism": 1, "completions": 1, "template": pod("Never")}}}]}});
    here.create(owned, "owned");
    let held = || here.get(kinds[0].names[1], "owner")["spec"]["runPolicy"]["suspend"] == true;
    here.done(&["hold", &here.target("jobset", "owned")], || {
        // Asked once: it may be held only after a first look said that it is not, and then nothing would be written.
        let is_held = held();
        if is_held {
            here.set_status(kinds[0].names[1], "owner", &kinds[0].answers[0]);
        }
        is_held
    });
    assert!(held());
    assert!(here.get("jobsets.jobset.x-k8s.io", "owned")["spec"]["suspend"].is_null());
    // Groups and replicas are scaled to nothing, and back.
    let group = json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "spec": {
        "replicas": 3, "leaderWorkerTemplate": {"size": 2, "workerTemplate": pod("Always")}}});
    here.create(group, "group");
    let served = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "served"}},
        "template": {"metadata": {"labels": {"app": "served"}}, "spec": pod("Always")["spec"]}}});
    here.create(served, "served");
    for (typed, kubernetes, name, replicas) in [
        (
            "leaderworkerset",
            "leaderworkersets.leaderworkerset.x-k8s.io",
            "group",
            3,
        ),
        ("deployment", "deployments.apps", "served", 2),
    ] {
        let target = here.target(typed, name);
        let now = || here.get(kubernetes, name)["spec"]["replicas"].clone();
        let run = here.done(&["hold", &target], || true);
        assert_eq!(now(), 0, "{target}");
        here.done(&["undo", &run], || true);
        assert_eq!(now(), replicas, "{target}");
    }
}

/// Volcano's jobs and queues take commands, which its controller carries out and deletes.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn volcano_is_asked_in_its_own_way() {
    let here = &TestNamespace::new("act-commands", acts());
    let job = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {
        "minAvailable": 1, "queue": "research", "schedulerName": "volcano", "tasks": [{"name": "worker", "replicas": 1, "template": pod("Never")}]}});
    here.create(job, "farm");
    let kind = "jobs.batch.volcano.sh";
    let phase = |phase: &str| here.set_status(kind, "farm", &json!({"state": {"phase": phase}}));
    phase("Running");
    // What Volcano's controller does with a command on this job.
    let carries_out = |action: &'static str, then: &'static str| {
        move || {
            let got = kubectl(&[
                "-n",
                here.name,
                "get",
                "commands.bus.volcano.sh",
                "-o",
                "json",
            ]);
            let got: Value = serde_json::from_str(&got).expect("a list");
            let Some(command) = list(&got, "/items").first() else {
                return false;
            };
            assert_eq!(text(command, "/action"), action);
            assert_eq!(text(command, "/target/kind"), "Job");
            assert_eq!(text(command, "/target/name"), "farm");
            assert_eq!(
                command["target"]["uid"],
                here.get(kind, "farm")["metadata"]["uid"]
            );
            kubectl(&[
                "-n",
                here.name,
                "delete",
                "commands.bus.volcano.sh",
                text(command, "/metadata/name"),
            ]);
            here.set_status(kind, "farm", &json!({"state": {"phase": then}}));
            true
        }
    };
    let target = here.target("job", "farm");
    here.refused(&["resume", &target], "not held");
    here.done(&["hold", &target], carries_out("AbortJob", "Aborted"));
    here.refused(&["hold", &target], "already held");
    here.done(&["resume", &target], carries_out("ResumeJob", "Running"));
    // Its class, of those that the cluster has.
    let class = || here.get(kind, "farm")["spec"]["priorityClassName"].clone();
    let run = here.done(&["reprioritise", &target, "production"], || true);
    assert_eq!(class(), "production");
    here.refused(&["reprioritise", &target, "no-such-class"], "no-such-class");
    here.done(&["undo", &run], || true);
    assert!(class().is_null());
    phase("Completed");
    here.refused(&["hold", &target], "ended");
    here.refused(&["reprioritise", &target, "production"], "ended");
}
