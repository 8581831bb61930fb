//! What is told of KubeRay's jobs in each state that its controller makes, and that what a plan has written stays.

use serde_json::{Value, json};

use super::acting::Stage;
use super::controllers::figures;
use super::plane::{acts_for_long, kubectl};
use super::truth::text;

const RAYJOB: &str = "rayjobs.ray.io";
const RAYCLUSTER: &str = "rayclusters.ray.io";
/// What its pods bear, with the name of their cluster.
const CLUSTER_OF_POD: &str = "ray.io/cluster";
const JOB_OF_POD: &str = "job-name";

impl Stage {
    /// A head and a replica of two hosts with a device each; where those of a queue run, its flavor says.
    fn ray_cluster(&self, queued: bool) -> Value {
        let template = |devices| {
            let mut template = self.pods(&json!({}), devices);
            if queued {
                template["spec"]["nodeSelector"].take();
                template["spec"]["tolerations"].take();
            }
            template
        };
        json!({
            "headGroupSpec": {"rayStartParams": {}, "template": template(0)},
            "workerGroupSpecs": [{"groupName": "gpu", "replicas": 1, "minReplicas": 0, "maxReplicas": 4, "numOfHosts": 2,
                "rayStartParams": {}, "template": template(1)}],
        })
    }

    /// Makes a RayJob over a cluster of its own; `with` are further fields of its spec, or others than these.
    fn ray_job(&self, name: &str, labels: &Value, with: &Value) {
        let mut submitter = self.pods(&json!({}), 0);
        submitter["spec"]["restartPolicy"] = "Never".into();
        submitter["spec"]["containers"][0]["name"] = "ray-job-submitter".into();
        let mut object = json!({
            "apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": name, "namespace": self.name, "labels": labels},
            "spec": {
                "entrypoint": "python tune.py", "shutdownAfterJobFinishes": true, "submitterConfig": {"backoffLimit": 0},
                "rayClusterSpec": self.ray_cluster(labels != &json!({})), "submitterPodTemplate": submitter,
            },
        });
        for (key, value) in with.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        self.create(&[object]);
    }

    /// The cluster that KubeRay has made for a RayJob; empty while it has none.
    fn cluster_of(&self, job: &str) -> String {
        let seen = self.object(RAYJOB, job);
        text(&seen, "/status/rayClusterName").to_owned()
    }

    /// So many pods of a RayJob's cluster run, and the pod that submits the job.
    fn ray_runs(&self, job: &str) {
        self.until("its cluster and its submitter run", || {
            let cluster = self.cluster_of(job);
            !cluster.is_empty()
                && self.running(CLUSTER_OF_POD, &cluster).len() == 3
                && self.running(JOB_OF_POD, job).len() == 1
        });
    }

    /// What KubeRay says of a RayJob.
    fn deployment(&self, job: &str) -> Value {
        self.object(RAYJOB, job)["status"]["jobDeploymentStatus"].clone()
    }
}

/// A RayJob is one row over its cluster and the Job that submits it: running, suspended, refused by its controller, failed once and
/// tried again, failed for good.
#[test]
#[ignore = "needs the plane of tests/live/up second"]
fn a_ray_job_is_one_job_in_each_of_its_states() {
    let stage = &Stage::on(acts_for_long(), "act-ray");
    stage.ray_job("held", &json!({}), &json!({"suspend": true}));
    let wrong = json!({"suspend": true, "shutdownAfterJobFinishes": false});
    stage.ray_job("wrong", &json!({}), &wrong);
    stage.ray_job("flaky", &json!({}), &json!({"backoffLimit": 1}));
    let last = Value::Null;
    let is =
        |state: &str, requested: u64, allocated: u64| json!([state, last, requested, allocated]);
    stage.wait_for_row("held", "it is suspended", |row| {
        row["kind"] == "RayJob" && figures(row) == is("suspended", 2, 0)
    });
    // Its controller refuses it for good: no plan changes that.
    let row = stage.wait_for_row("wrong", "it has failed", |row| row["state"] == "failed");
    let says = text(&row, "/failure/message");
    assert!(says.contains("shutdownAfterJobFinishes"), "{row:#}");
    let wrong = format!("rayjob/{}/wrong", stage.name);
    stage.refused(&["resume", &wrong], "ended");

    stage.ray_runs("flaky");
    let row = stage.wait_for_row("flaky", "it runs", |row| {
        figures(row) == is("running", 2, 2)
    });
    assert!(row["failure"].is_null(), "{row:#}");
    let kinds: Vec<Value> = super::plane::rows("live-admin", "jobs")
        .iter()
        .filter(|row| row["namespace"] == stage.name && row["devices_allocated"] != 0)
        .map(|row| row["kind"].clone())
        .collect();
    assert_eq!(kinds, ["RayJob"], "no row for its cluster or its submitter");
    let first = stage.cluster_of("flaky");
    stage.end_of(JOB_OF_POD, "flaky", "flaky", "fail-after");
    stage.until("KubeRay tries it once more, on another cluster", || {
        let now = stage.cluster_of("flaky");
        !now.is_empty() && now != first
    });
    stage.ray_runs("flaky");
    stage.wait_for_row("flaky", "it runs again after one restart", |row| {
        figures(row) == is("running", 2, 2) && row["failure"]["restarts"] == 1
    });
    stage.end_of(JOB_OF_POD, "flaky", "flaky", "fail-after");
    let row = stage.wait_for_row("flaky", "it has failed after one restart", |row| {
        figures(row) == is("failed", 2, 0) && row["failure"]["restarts"] == 1
    });
    let says = text(&row, "/failure/message");
    assert!(says.contains("BackoffLimitExceeded"), "{row:#}");
    assert_eq!(stage.deployment("flaky"), "Failed");
}

/// Held, resumed and held again by undo: KubeRay follows, and leaves it so. What it cannot suspend is refused, printed or applied.
#[test]
#[ignore = "needs the plane of tests/live/up second"]
fn what_a_plan_writes_kuberay_keeps() {
    let stage = &Stage::on(acts_for_long(), "act-ray-kept");
    stage.ray_job("tune", &json!({}), &json!({}));
    stage.ray_runs("tune");
    let tune = format!("rayjob/{}/tune", stage.name);
    let is_held = || {
        assert_eq!(stage.object(RAYJOB, "tune")["spec"]["suspend"], true);
        let none = || stage.all(RAYCLUSTER).is_empty() && stage.deployment("tune") == "Suspended";
        stage.until("its cluster has gone", none);
        stage.stays("it stays on hold", none);
        stage.wait_for_row("tune", "it is on hold", |row| {
            row["state"] == "suspended" && row["devices_allocated"] == 0
        });
    };
    let goes_on = || {
        assert_ne!(stage.object(RAYJOB, "tune")["spec"]["suspend"], true);
        stage.ray_runs("tune");
        stage.stays("it goes on", || stage.deployment("tune") == "Running");
        stage.wait_for_row("tune", "it runs", |row| {
            row["state"] == "running" && row["devices_allocated"] == 2
        });
    };
    stage.act(&["hold", &tune]);
    is_held();
    stage.refused(&["hold", &tune], "already");
    let run = stage.act(&["resume", &tune]);
    goes_on();
    stage.refused(&["resume", &tune], "not held");
    stage.act(&["undo", &run]);
    is_held();
    kubectl(&["-n", stage.name, "delete", RAYJOB, "tune"]);

    // A cluster of its own, on which others' jobs run.
    stage.create(&[json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "shared", "namespace": stage.name},
        "spec": stage.ray_cluster(false),
    })]);
    stage.runs(CLUSTER_OF_POD, "shared", 3);
    let shared = format!("raycluster/{}/shared", stage.name);
    let run = stage.act(&["hold", &shared]);
    let none = || stage.running(CLUSTER_OF_POD, "shared").is_empty();
    stage.until("its pods have gone", none);
    stage.stays("it stays on hold", none);
    stage.wait_for_row("shared", "it is on hold", |row| {
        row["state"] == "suspended" && row["devices_allocated"] == 0
    });
    stage.act(&["undo", &run]);
    stage.runs(CLUSTER_OF_POD, "shared", 3);
    // Its autoscaler asks for another replica: two hosts more.
    let more = json!([{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 2}]);
    let patch = ["patch", RAYCLUSTER, "shared", "--type=json", "-p"];
    kubectl(&[&["-n", stage.name], &patch[..], &[&more.to_string()]].concat());
    stage.wait_for_row("shared", "both replicas run", |row| {
        row["state"] == "running" && figures(row)[2] == 4 && figures(row)[3] == 4
    });

    // One that keeps its cluster and one that borrows another's cannot be suspended.
    let keeps = json!({"shutdownAfterJobFinishes": false});
    stage.ray_job("keeps", &json!({}), &keeps);
    let borrows = json!({"shutdownAfterJobFinishes": false, "rayClusterSpec": null, "clusterSelector": {"ray.io/cluster": "shared"}});
    stage.ray_job("borrows", &json!({}), &borrows);
    for (name, words) in [
        ("keeps", "shutdownAfterJobFinishes"),
        ("borrows", "does not own"),
    ] {
        stage.refused(&["hold", &format!("rayjob/{}/{name}", stage.name)], words);
        let seen = stage.object(RAYJOB, name);
        assert!(seen["spec"]["suspend"].is_null(), "{seen:#}");
    }
    // What cannot be suspended cannot be requeued: a plan that is only printed says so as well.
    stage.wait_for_row("keeps", "it runs", |row| row["state"] == "running");
    let keeps = format!("{}/keeps", stage.name);
    stage.refused(&["requeue", &keeps], "shutdownAfterJobFinishes");
    let all = ["plan", "requeue", &keeps, "-o", "json"];
    let mut printed = super::plane::stokehold("live-admin", &all);
    let answer = super::plane::HttpAnswer::of(&mut printed);
    assert_eq!(answer.code, Some(3), "{answer:?}");
}

/// Behind a queue: Kueue admits it, a hold takes its quota, a resume gives it back.
#[test]
#[ignore = "needs the plane of tests/live/up second"]
fn a_ray_job_behind_a_queue() {
    let stage = &Stage::with_queue("act-ray-queue", 2);
    let labels = json!({"kueue.x-k8s.io/queue-name": "door"});
    stage.ray_job("first", &labels, &json!({}));
    stage.wait_for_row("first", "it runs", |row| {
        row["state"] == "running" && row["devices_allocated"] == 2
    });
    stage.ray_job("second", &labels, &json!({}));
    let row = stage.wait_for_row("second", "it waits for quota", |row| {
        row["state"] == "waiting" && !row["reason"].is_null()
    });
    assert_eq!(row["queue"], stage.name, "{row:#}");
    let first = format!("rayjob/{}/first", stage.name);
    stage.act(&["hold", &first]);
    stage.wait_for_row("second", "it has the quota", |row| {
        row["state"] == "running" && row["devices_allocated"] == 2
    });
    stage.wait_for_row("first", "it is on hold", |row| {
        row["state"] == "suspended" && row["devices_allocated"] == 0
    });
    stage.stays("it stays on hold", || {
        stage.workload("first")["spec"]["active"] == false
            && stage.deployment("first") == "Suspended"
    });
    stage.act(&["resume", &first]);
    stage.wait_for_row("first", "it waits for the other", |row| {
        row["state"] == "waiting"
    });
    kubectl(&["-n", stage.name, "delete", RAYJOB, "second"]);
    stage.wait_for_row("first", "it runs again", |row| {
        row["state"] == "running" && row["devices_allocated"] == 2
    });
}
