//! Beside the real controllers of JobSet, LeaderWorkerSet and Kubeflow Trainer: what is told of their jobs in each state that they
//! make, and that what a plan has written stays, also when they have looked at it.

use serde_json::{Value, json};

use super::acting::Stage;
use super::plane::{HttpAnswer, PATIENCE, Watch, acts_for_long, kubectl, rows, stokehold};
use super::truth::{list, text};

const JOBSET: &str = "jobsets.jobset.x-k8s.io";
const LWS: &str = "leaderworkersets.leaderworkerset.x-k8s.io";
const TRAINJOB: &str = "trainjobs.trainer.kubeflow.org";
const JOBSET_OF_POD: &str = "jobset.sigs.k8s.io/jobset-name";
const LWS_OF_POD: &str = "leaderworkerset.sigs.k8s.io/name";

impl Stage {
    /// One of a JobSet's roles: so many Jobs of one pod with so many devices.
    fn role(&self, name: &str, jobs: u32, devices: u32) -> Value {
        let mut template = self.pods(&json!({}), devices);
        template["spec"]["restartPolicy"] = "Never".into();
        let spec =
            json!({"parallelism": 1, "completions": 1, "backoffLimit": 0, "template": template});
        json!({"name": name, "replicas": jobs, "template": {"spec": spec}})
    }

    /// Makes a JobSet of roles; `with` are further fields of its spec.
    fn jobset(&self, name: &str, roles: &[Value], with: &Value) {
        let mut object = json!({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name, "namespace": self.name},
            "spec": {"replicatedJobs": roles},
        });
        for (key, value) in with.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        self.create(&[object]);
    }

    /// Makes a LeaderWorkerSet of groups of two pods with a device each. Where those of a queue run, its flavor says.
    fn groups(&self, name: &str, groups: u32, labels: &Value) {
        let mut template = self.pods(&json!({}), 1);
        if labels != &json!({}) {
            template["spec"]["nodeSelector"].take();
            template["spec"]["tolerations"].take();
        }
        self.create(&[json!({
            "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
            "metadata": {"name": name, "namespace": self.name, "labels": labels},
            "spec": {"replicas": groups, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}},
        })]);
    }

    /// Makes a runtime of two nodes with a device each.
    fn runtime(&self, name: &str) {
        let mut template = self.pods(&json!({}), 1);
        template["spec"]["restartPolicy"] = "Never".into();
        template["spec"]["containers"][0]["name"] = "node".into();
        let step = json!({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"});
        self.create(&[json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime", "metadata": {"name": name, "namespace": self.name},
            "spec": {"mlPolicy": {"numNodes": 2, "torch": {}}, "template": {"spec": {"replicatedJobs": [
                {"name": "node", "template": {"metadata": {"labels": step}, "spec": {"template": template}}}]}}},
        })]);
    }

    /// Makes a TrainJob that states nothing of its own. (Trainer refuses one whose runtime it has not seen yet.)
    fn train(&self, name: &str, runtime: &str) {
        self.create(&[json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": name, "namespace": self.name},
            "spec": {"runtimeRef": {"kind": "TrainingRuntime", "name": runtime}},
        })]);
    }

    /// Names of a job's pods that run and are not told to end.
    pub fn running(&self, label: &str, job: &str) -> Vec<String> {
        let pods = self.all("pods").into_iter();
        pods.filter(|pod| pod["metadata"]["labels"][label] == job)
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .filter(|pod| pod["status"]["phase"] == "Running")
            .map(|pod| text(&pod, "/metadata/name").to_owned())
            .collect()
    }

    /// So many pods of a job run.
    pub fn runs(&self, label: &str, job: &str, pods: usize) {
        let what = format!("{pods} pods of {job} run");
        self.until(&what, || self.running(label, job).len() == pods);
    }

    /// Ends the running pods of a JobSet whose names begin so.
    fn end(&self, job: &str, begin: &str, how: &str) {
        self.end_of(JOBSET_OF_POD, job, begin, how);
    }

    /// Ends the running pods of a job whose names begin so: `complete-after` well, `fail-after` badly.
    pub fn end_of(&self, label: &str, job: &str, begin: &str, how: &str) {
        let pods = self.running(label, job).into_iter();
        let pods: Vec<String> = pods.filter(|pod| pod.starts_with(begin)).collect();
        assert!(!pods.is_empty(), "{job} has pods {begin}*");
        let mark = format!("live.stokehold.dev/{how}=0s");
        let mut arguments = vec!["-n", self.name, "annotate", "pods"];
        arguments.extend(pods.iter().map(String::as_str));
        arguments.push(&mark);
        kubectl(&arguments);
    }

    /// The row of a job, which comes to be as wanted.
    pub fn wait_for_row(&self, job: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let here = ["get", "jobs", "-n", self.name, "--watch", "-o", "json"];
        let mut watch = Watch::start(&mut stokehold("live-admin", &here));
        let line = watch.wait(&format!("{job}: {what}"), PATIENCE, |line| {
            let row = &line["object"];
            line["event"] == "set" && row["name"] == job && wanted(row)
        });
        line["object"].clone()
    }

    /// It is refused with these words.
    pub fn refused(&self, arguments: &[&str], words: &str) {
        let answer = HttpAnswer::of(&mut self.plan(arguments));
        assert_eq!(answer.code, Some(3), "plan {arguments:?}: {answer:?}");
        let says = answer.err.contains(words);
        assert!(says, "plan {arguments:?} says `{words}`: {answer:?}");
    }

    /// What a plan forecasts, without carrying it out.
    pub fn forecast(&self, arguments: &[&str]) -> Value {
        let all = [&["plan"], arguments, &["-o", "json"]].concat();
        let answer = HttpAnswer::read(&mut stokehold("live-admin", &all));
        assert_eq!(answer.code, Some(0), "{all:?}: {answer:?}");
        serde_json::from_str(&answer.out).expect("a document")
    }
}

/// A row's state, its gang, and devices requested and allocated.
pub fn figures(row: &Value) -> Value {
    json!([
        row["state"],
        row["gang"]["size"],
        row["devices_requested"],
        row["devices_allocated"]
    ])
}

/// A driver and two workers are one gang; suspended it asks on; with one role done it runs; what fails is restarted and counted.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_jobset_is_one_gang_in_each_of_its_states() {
    let stage = &Stage::new("act-jobset");
    let whole = [stage.role("driver", 1, 0), stage.role("worker", 2, 1)];
    stage.jobset("gang", &whole, &json!({}));
    stage.jobset("held", &whole, &json!({"suspend": true}));
    stage.runs(JOBSET_OF_POD, "gang", 3);
    stage.wait_for_row("gang", "all of it runs", |row| {
        row["kind"] == "JobSet" && figures(row) == json!(["running", 3, 2, 2])
    });
    stage.wait_for_row("held", "it is suspended", |row| {
        row["kind"] == "JobSet" && figures(row) == json!(["suspended", 3, 2, 0])
    });
    kubectl(&["-n", stage.name, "delete", JOBSET, "gang", "held"]);

    // The driver is done, the workers go on.
    stage.jobset("staged", &whole, &json!({}));
    stage.runs(JOBSET_OF_POD, "staged", 3);
    stage.end("staged", "staged-driver", "complete-after");
    stage.until("JobSet counts the role as done", || {
        let seen = stage.object(JOBSET, "staged");
        let mut roles = list(&seen, "/status/replicatedJobsStatus").iter();
        roles.any(|role| role["name"] == "driver" && role["succeeded"] == 1)
    });
    let row = stage.wait_for_row("staged", "what is left of it runs", |row| {
        row["state"] == "running" && row["devices_allocated"] == 2
    });
    assert_eq!(row["devices_requested"], 2, "{row:#}");
    assert!(row["failure"].is_null(), "{row:#}");
    stage.end("staged", "staged-worker", "complete-after");
    stage.wait_for_row("staged", "it is done", |row| row["state"] == "done");

    // One worker fails: JobSet makes all Jobs again, once, and then no more.
    let again = json!({"failurePolicy": {"maxRestarts": 1}});
    stage.jobset("flaky", &[stage.role("worker", 2, 1)], &again);
    let restarts = || stage.object(JOBSET, "flaky")["status"]["restarts"].clone();
    stage.runs(JOBSET_OF_POD, "flaky", 2);
    stage.end("flaky", "flaky-worker-0", "fail-after");
    stage.until("JobSet has restarted it", || restarts() == 1);
    stage.runs(JOBSET_OF_POD, "flaky", 2);
    stage.wait_for_row("flaky", "it runs again after one restart", |row| {
        figures(row) == json!(["running", 2, 2, 2]) && row["failure"]["restarts"] == 1
    });
    stage.end("flaky", "flaky-worker-0", "fail-after");
    let row = stage.wait_for_row("flaky", "it has failed after one restart", |row| {
        row["state"] == "failed" && row["devices_allocated"] == 0
    });
    assert_eq!(row["failure"]["restarts"], 1, "{row:#}");
    assert_eq!(restarts(), 1);
}

/// A role that waits for another to end: the job runs, and nothing says that it could start now.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_role_waits_for_another_role() {
    let stage = &Stage::new("act-depends");
    let mut train = stage.role("train", 2, 2);
    train["dependsOn"] = json!([{"name": "prepare", "status": "Complete"}]);
    stage.jobset("chain", &[stage.role("prepare", 1, 0), train], &json!({}));
    stage.runs(JOBSET_OF_POD, "chain", 1);
    let row = stage.wait_for_row("chain", "it waits for its first role", |row| {
        row["devices_allocated"] == 0 && row["devices_requested"] == 4
    });
    assert_ne!(row["state"], "running", "{row:#}");
    assert!(text(&row, "/reason").contains("prepare"), "{row:#}");
    let chain = format!("{}/chain", stage.name);
    let why = HttpAnswer::read(&mut stokehold("live-admin", &["explain", &chain]));
    assert!(why.out.contains("prepare"), "{why:?}");
    assert!(!why.out.contains("would start now"), "{why:?}");
    stage.end("chain", "chain-prepare", "complete-after");
    stage.runs(JOBSET_OF_POD, "chain", 2);
    stage.wait_for_row("chain", "its second role runs", |row| {
        row["state"] == "running" && row["devices_allocated"] == 4 && row["reason"].is_null()
    });
}

/// Held, resumed and held again by undo: each controller follows, and leaves it so.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn what_a_plan_writes_its_controller_keeps() {
    let stage = &Stage::on(acts_for_long(), "act-kept");
    stage.runtime("two-nodes");
    stage.jobset("set", &[stage.role("node", 2, 1)], &json!({}));
    stage.groups("serve", 1, &json!({}));
    stage.runs(JOBSET_OF_POD, "set", 2);
    stage.runs(LWS_OF_POD, "serve", 2);
    stage.train("train", "two-nodes");
    for (typed, kind, label, name, field, [held, free]) in [
        (
            "jobset",
            JOBSET,
            JOBSET_OF_POD,
            "set",
            "/spec/suspend",
            [json!(true), json!(false)],
        ),
        (
            "trainjob",
            TRAINJOB,
            JOBSET_OF_POD,
            "train",
            "/spec/suspend",
            [json!(true), json!(false)],
        ),
        (
            "leaderworkerset",
            LWS,
            LWS_OF_POD,
            "serve",
            "/spec/replicas",
            [json!(0), json!(1)],
        ),
    ] {
        let target = format!("{typed}/{}/{name}", stage.name);
        let now = || stage.object(kind, name).pointer(field).cloned();
        let pods = || stage.running(label, name).len();
        stage.runs(label, name, 2);
        // Its devices stand in no field of the TrainJob.
        stage.wait_for_row(name, "all of it runs", |row| {
            text(row, "/kind").eq_ignore_ascii_case(typed)
                && figures(row) == json!(["running", 2, 2, 2])
        });
        let is_held = || {
            assert_eq!(now().as_ref(), Some(&held), "{target}");
            stage.until("its pods have gone", || pods() == 0);
            stage.stays("it stays on hold", || {
                now().as_ref() == Some(&held) && pods() == 0
            });
            stage.wait_for_row(name, "it is on hold", |row| {
                row["state"] == "suspended" && row["devices_allocated"] == 0
            });
        };
        let goes_on = || {
            assert_eq!(now().as_ref(), Some(&free), "{target}");
            stage.runs(label, name, 2);
            stage.stays("it goes on", || {
                now().as_ref() == Some(&free) && pods() == 2
            });
        };
        let run = stage.act(&["hold", &target]);
        is_held();
        stage.refused(&["hold", &target], "already");
        if typed == "leaderworkerset" {
            stage.act(&["undo", &run]);
            goes_on();
            continue;
        }
        let run = stage.act(&["resume", &target]);
        goes_on();
        stage.refused(&["resume", &target], "not held");
        stage.act(&["undo", &run]);
        is_held();
        stage.act(&["resume", &target]);
        goes_on();
        stage.end(name, name, "complete-after");
        stage.wait_for_row(name, "it is done", |row| row["state"] == "done");
        let before = stage.object(kind, name);
        stage.refused(&["hold", &target], "ended");
        assert_eq!(stage.object(kind, name), before, "{target} is untouched");
    }
    // More groups, and fewer.
    let serve = format!("leaderworkerset/{}/serve", stage.name);
    for groups in [2, 1] {
        stage.act(&["scale", &serve, &groups.to_string()]);
        let pods = 2 * groups;
        stage.runs(LWS_OF_POD, "serve", pods);
        stage.stays("its controller keeps the number", || {
            stage.object(LWS, "serve")["spec"]["replicas"] == groups
                && stage.running(LWS_OF_POD, "serve").len() == pods
        });
        stage.wait_for_row("serve", "each group runs", |row| {
            figures(row) == json!(["running", pods, pods, pods])
        });
    }
}

/// Kueue has a Workload for each group: they are one job, and a hold takes them all.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn groups_behind_a_queue_are_one_job() {
    let stage = &Stage::with_queue("act-groups", 6);
    kubectl(&[
        "label",
        "namespace",
        stage.name,
        "live.stokehold.dev/kueue=pods",
    ]);
    stage.groups("serve", 1, &json!({"kueue.x-k8s.io/queue-name": "door"}));
    let serve = format!("leaderworkerset/{}/serve", stage.name);
    // Devices of new groups that start, by the quota of the queue and on the node of its flavor.
    let starts = |groups: &str| {
        let plan = stage.forecast(&["scale", &serve, groups]);
        let mut pools = list(&plan, "/effect/pools").iter();
        assert!(pools.all(|pool| pool["pool"] == stage.name), "{plan:#}");
        let mut reasons = list(&plan, "/reasons").iter().filter_map(Value::as_str);
        let is_short = reasons.any(|reason| reason.contains("queue act-groups has 0 left"));
        assert!(is_short, "{plan:#}");
        let starts = list(&plan, "/effect/starts").iter();
        starts
            .filter_map(|one| one["devices"].as_u64())
            .sum::<u64>()
    };
    stage.runs(LWS_OF_POD, "serve", 2);
    stage.wait_for_row("serve", "its group runs", |row| {
        figures(row) == json!(["running", 2, 2, 2])
    });
    // The queue has four devices left, then two.
    assert_eq!(starts("4"), 4);
    stage.act(&["scale", &serve, "2"]);
    let active = || -> Vec<bool> {
        let all = stage.all("workloads.kueue.x-k8s.io").into_iter();
        all.map(|one| one["spec"]["active"] != false).collect()
    };
    stage.runs(LWS_OF_POD, "serve", 4);
    assert_eq!(active(), [true, true], "a Workload for each group");
    let row = stage.wait_for_row("serve", "both groups run", |row| {
        row["kind"] == "LeaderWorkerSet" && figures(row) == json!(["running", 4, 4, 4])
    });
    assert_eq!(row["queue"], stage.name, "{row:#}");
    let all = rows("live-admin", "jobs").into_iter();
    let rows: Vec<Value> = all.filter(|row| row["namespace"] == stage.name).collect();
    assert_eq!(rows.len(), 1, "no Workload is a job of its own: {rows:#?}");
    stage.act(&["hold", &serve]);
    assert_eq!(active(), [false, false]);
    let pods = || stage.running(LWS_OF_POD, "serve").len();
    stage.until("the pods of both have gone", || pods() == 0);
    stage.stays("they stay away", || {
        pods() == 0 && active() == [false, false]
    });
    stage.wait_for_row("serve", "it is on hold", |row| {
        row["devices_allocated"] == 0 && row["state"] == "suspended"
    });
    stage.act(&["resume", &serve]);
    stage.runs(LWS_OF_POD, "serve", 4);
    stage.stays("it goes on", || pods() == 4 && active() == [true, true]);

    assert_eq!(starts("4"), 2);
    stage.act(&["scale", &serve, "4"]);
    stage.runs(LWS_OF_POD, "serve", 6);
    stage.stays("the fourth group waits", || pods() == 6);
    stage.wait_for_row("serve", "three of its groups run", |row| {
        row["devices_allocated"] == 6 && row["devices_requested"] == 8
    });
}
