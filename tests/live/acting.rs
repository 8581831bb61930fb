//! Acting on the real control plane with Kueue's real controller: each action by the program itself, and the objects afterwards as
//! the API server has them.
//!
//! Each test has a node, a namespace and queues of its own. Other tests compare the whole fleet: they run when these do not.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::plane::{HttpAnswer, PATIENCE, acts, kubectl, stokehold, undo};
use super::truth::{holds, list, text};
use super::turns::PlaneTurn;

/// The mark of all that a test makes outside its namespace, and the taint that keeps others off its node.
const MARK: &str = "stokehold-test";

/// How the names of stages begin on which our program acts: elsewhere it writes nothing.
pub const ACTING: &str = "act-";

/// How many have been made.
static STAGES: AtomicU8 = AtomicU8::new(0);

/// What one test works on; all of it goes with the value.
pub struct Stage {
    /// Namespace, node, flavor and ClusterQueue are named so.
    pub name: &'static str,
    /// The third number of its pods' addresses.
    block: u8,
    journal: tempfile::TempDir,
    _plane: PlaneTurn,
}

impl Stage {
    /// A namespace and a node with eight devices, on which only this test's pods run.
    pub fn new(name: &'static str) -> Self {
        Self::on(acts(), name)
    }

    /// The same for a test that has this turn.
    pub fn on(plane: PlaneTurn, name: &'static str) -> Self {
        let stage = Self {
            name,
            // (The fleet's own nodes have addresses below these.)
            block: 230 + STAGES.fetch_add(1, Ordering::Relaxed),
            _plane: plane,
            journal: tempfile::tempdir().expect("a folder"),
        };
        // What a try that was killed has left.
        let there = [
            "get",
            "namespace,node",
            name,
            "--ignore-not-found",
            "-o=name",
        ];
        if !kubectl(&there).is_empty() {
            stage.remove();
        }
        stage.create(&[
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            stage.node(name, "0/25"),
        ]);
        stage.until("the node is ready", || {
            holds(&stage.object("node", name), "Ready")
        });
        stage
    }

    /// A node with eight devices for this test's pods, which get these of the stage's addresses.
    fn node(&self, node: &str, addresses: &str) -> Value {
        let name = self.name;
        let block = format!("10.244.{}.{addresses}", self.block);
        let has = json!({"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"});
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": node, "labels": {
                MARK: name, "kubernetes.io/hostname": node, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                "nvidia.com/gpu.product": "NVIDIA-L4", "karpenter.sh/nodepool": name,
            }},
            "spec": {
                // (Karpenter waits for a node of a pool that has none.)
                "providerID": format!("live:///{node}"),
                "podCIDR": block, "podCIDRs": [block],
                "taints": [{"key": MARK, "value": name, "effect": "NoSchedule"}],
            },
            "status": {"capacity": has, "allocatable": has},
        })
    }

    /// The names that its nodes have, where it has three.
    fn node_names(&self) -> [String; 3] {
        ["", "-b", "-c"].map(|end| format!("{}{end}", self.name))
    }

    /// Two nodes more; the names of all three.
    pub fn three_nodes(&self) -> [String; 3] {
        let all = self.node_names();
        let [_, second, third] = &all;
        self.create(&[self.node(second, "128/26"), self.node(third, "192/26")]);
        self.until("the nodes are ready", || {
            [second, third]
                .iter()
                .all(|node| holds(&self.object("node", node), "Ready"))
        });
        all
    }

    /// The same with a ClusterQueue for so many devices, and a LocalQueue to it.
    pub fn with_queue(name: &'static str, devices: u32) -> Self {
        Self::with_queue_on(acts(), name, devices)
    }

    /// The same for a test that has this turn.
    pub fn with_queue_on(plane: PlaneTurn, name: &'static str, devices: u32) -> Self {
        let stage = Self::on(plane, name);
        stage.create(&[
            json!({
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": name},
                "spec": {"nodeLabels": {MARK: name}, "tolerations": [{"key": MARK, "operator": "Exists"}]},
            }),
            json!({
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": name},
                "spec": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}, "resourceGroups": [{
                    "coveredResources": ["nvidia.com/gpu"],
                    "flavors": [{"name": name, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": devices.to_string()}]}],
                }]},
            }),
            json!({
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "LocalQueue", "metadata": {"name": "door", "namespace": name},
                "spec": {"clusterQueue": name},
            }),
        ]);
        stage.until("the queue admits", || {
            holds(&stage.object("clusterqueue", name), "Active")
        });
        stage
    }

    pub fn create(&self, objects: &[Value]) {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let all = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(file.path(), all.to_string()).expect("written");
        // (Created, not applied: a node's status comes with it.)
        // (The server looks at them. kubectl would fetch the OpenAPI document first, for which a busy machine needs longer than
        // kubectl waits.)
        let path = file.path().to_str().expect("a path");
        kubectl(&["create", "--validate=false", "-f", path]);
    }

    /// What runs on this test's node alone.
    pub fn pods(&self, labels: &Value, devices: u32) -> Value {
        let limits = match devices {
            0 => json!({}),
            devices => json!({"nvidia.com/gpu": devices.to_string()}),
        };
        json!({
            "metadata": {"labels": labels},
            "spec": {
                "nodeSelector": {MARK: self.name}, "tolerations": [{"key": MARK, "operator": "Exists"}],
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "registry.example/train:3", "resources": {"requests": {"cpu": "1"}, "limits": limits}}],
            },
        })
    }

    /// A Job of so many pods with a device each, behind the LocalQueue or without a queue.
    pub fn job_object(&self, job: &str, pods: u32, queued: bool) -> Value {
        let mut template = self.pods(&json!({}), 1);
        template["spec"]["restartPolicy"] = "Never".into();
        let labels = match queued {
            true => json!({"kueue.x-k8s.io/queue-name": "door"}),
            false => json!({}),
        };
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job, "namespace": self.name, "labels": labels},
            "spec": {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "suspend": queued, "template": template},
        })
    }

    /// Makes such a Job.
    fn job(&self, job: &str, pods: u32, queued: bool) {
        self.create(&[self.job_object(job, pods, queued)]);
    }

    pub fn object(&self, kind: &str, name: &str) -> Value {
        super::plane::object(self.name, kind, name)
    }

    pub fn all(&self, kind: &str) -> Vec<Value> {
        let got = kubectl(&["-n", self.name, "get", kind, "-o", "json"]);
        let got: Value = serde_json::from_str(&got).expect("a list");
        list(&got, "/items").to_vec()
    }

    /// Names of the pods that run on the node and are not told to end; `owner` is the kind that owns them.
    fn here(&self, owner: &str) -> Vec<String> {
        let on = format!("--field-selector=spec.nodeName={}", self.name);
        let got = kubectl(&["get", "pods", "-A", &on, "-o", "json"]);
        let got: Value = serde_json::from_str(&got).expect("a list");
        let pods = list(&got, "/items").iter();
        pods.filter(|pod| text(pod, "/metadata/ownerReferences/0/kind") == owner)
            .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .map(|pod| text(pod, "/metadata/name").to_owned())
            .collect()
    }

    /// What Kueue keeps of a job; null before it has made it.
    pub fn workload(&self, job: &str) -> Value {
        let all = self.all("workloads.kueue.x-k8s.io");
        let mut of = all
            .into_iter()
            .filter(|one| text(one, "/metadata/ownerReferences/0/name") == job);
        of.next().unwrap_or_default()
    }

    fn admitted(&self, job: &str) -> bool {
        holds(&self.workload(job), "Admitted")
    }

    fn waits(&self, job: &str) -> bool {
        let workload = self.workload(job);
        workload.is_object() && !holds(&workload, "QuotaReserved")
    }

    /// Devices that the ClusterQueue has given away.
    fn reserved(&self) -> u64 {
        let queue = self.object("clusterqueue", self.name);
        let used = text(&queue, "/status/flavorsReservation/0/resources/0/total");
        used.parse().unwrap_or(0)
    }

    pub fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds() {
            if Instant::now() >= end {
                let seen = kubectl(&["-n", self.name, "get", "jobs,pods", "-o", "wide"]);
                let kept = self.all("workloads.kueue.x-k8s.io");
                panic!("waited {PATIENCE:?} in vain: {what}\n{seen}\n{kept:#?}");
            }
            sleep(Duration::from_millis(200));
        }
    }

    /// It is so, and stays so for two seconds.
    pub fn stays(&self, what: &str, holds: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            assert!(holds(), "{what}");
            sleep(Duration::from_millis(300));
        }
    }

    pub fn plan(&self, arguments: &[&str]) -> Command {
        self.with_journal(stokehold("live-admin", &self.applied(arguments)))
    }

    /// The arguments of a plan that is carried out.
    pub fn applied<'a>(&self, arguments: &[&'a str]) -> Vec<&'a str> {
        assert!(self.name.starts_with(ACTING), "{}", self.name);
        let mut all = vec!["plan"];
        all.extend(arguments);
        all.extend(["--apply", "--yes", "--reason", "a live test"]);
        all.extend(["-o", "json", "--write"]);
        all
    }

    /// Where runs on this stage are recorded.
    pub fn journal(&self) -> &Path {
        self.journal.path()
    }

    /// A command with this stage's journal.
    pub fn with_journal(&self, mut command: Command) -> Command {
        command.env("STOKEHOLD_JOURNAL_DIR", self.journal.path());
        command
    }

    /// Carries an action out; the name of its run.
    pub fn act(&self, arguments: &[&str]) -> String {
        done(arguments, &HttpAnswer::of(&mut self.plan(arguments)))
    }
}

/// The run of an action that was carried out to its end.
fn done(arguments: &[&str], answer: &HttpAnswer) -> String {
    assert_eq!(answer.code, Some(0), "plan {arguments:?}: {answer:?}");
    let document: Value = serde_json::from_str(&answer.out).expect("a document");
    assert_eq!(document["end"]["outcome"], "done", "{arguments:?}");
    text(&document, "/run").to_owned()
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Stage {
    fn remove(&self) {
        let name = self.name;
        let nodes = format!("-l={MARK}={name}");
        let gone = |arguments: &[&str]| {
            let delete = ["delete", "--timeout=180s", "--ignore-not-found"];
            undo(&[&delete, arguments].concat());
        };
        // A job that Kueue keeps is let go by Kueue: before its queue goes.
        let kinds = "trainjobs.trainer.kubeflow.org,jobsets.jobset.x-k8s.io,leaderworkersets.leaderworkerset.x-k8s.io,rayjobs.ray.io,rayclusters.ray.io,jobs,pdb,deployments";
        gone(&["-n", name, kinds, "--all"]);
        gone(&["namespace", name]);
        gone(&["clusterqueue,resourceflavor", name]);
        gone(&["node", &nodes]);
        // What the fleet's own daemons had there.
        for node in self.node_names() {
            let on = format!("--field-selector=spec.nodeName={node}");
            gone(&["pods", "-A", &on, "--force", "--grace-period=0"]);
        }
    }
}

/// A program that is ended with the value.
struct Ends(Option<Child>);

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Of two that wait, the younger gets a higher priority and is admitted first.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_higher_priority_is_admitted_first() {
    let stage = Stage::with_queue("act-priority", 1);
    stage.job("holder", 1, true);
    stage.until("the first is let in", || stage.admitted("holder"));
    stage.job("older", 1, true);
    stage.until("the older waits", || stage.waits("older"));
    // (Moments of creation have whole seconds.)
    sleep(Duration::from_millis(1100));
    stage.job("younger", 1, true);
    stage.until("the younger waits", || stage.waits("younger"));
    assert_eq!(stage.workload("younger")["spec"]["priority"], 0);
    let run = stage.act(&["reprioritise", "act-priority/younger", "700"]);
    assert_eq!(stage.workload("younger")["spec"]["priority"], 700);
    stage.act(&["undo", &run]);
    assert_eq!(stage.workload("younger")["spec"]["priority"], 0);
    stage.act(&["reprioritise", "act-priority/younger", "500"]);
    assert_eq!(stage.workload("younger")["spec"]["priority"], 500);
    assert_eq!(stage.workload("older")["spec"]["priority"], 0);
    assert!(stage.waits("younger") && stage.waits("older"));
    kubectl(&["-n", "act-priority", "delete", "job", "holder"]);
    stage.until("the younger is let in", || stage.admitted("younger"));
    stage.stays("the older waits on", || stage.waits("older"));
}

/// How often Kueue has evicted a job.
fn evictions(workload: &Value) -> u64 {
    let all = list(workload, "/status/schedulingStats/evictions").iter();
    all.filter_map(|one| one["count"].as_u64()).sum()
}

/// What runs is taken off: Kueue evicts it, its quota goes to who waits, and it comes back when there is room.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn kueue_evicts_and_queues_again() {
    let stage = Stage::with_queue("act-preempt", 2);
    stage.job("first", 2, true);
    let pods = || stage.here("Job");
    stage.until("the first runs", || pods().len() == 2);
    let before = pods();
    stage.job("second", 2, true);
    stage.until("the second waits", || stage.waits("second"));
    // The one that waits stands before it in the queue, and preempts nobody by itself.
    stage.act(&["reprioritise", "act-preempt/second", "300"]);
    stage.stays("the second waits on", || stage.waits("second"));
    assert_eq!(evictions(&stage.workload("first")), 0);
    stage.act(&["preempt", "act-preempt/first"]);
    stage.until("its quota went to the second", || stage.admitted("second"));
    let first = stage.workload("first");
    assert!(evictions(&first) >= 1, "{first:#}");
    let mut conditions = list(&first, "/status/conditions").iter();
    assert!(conditions.any(|c| c["type"] == "Evicted"), "{first:#}");
    assert_eq!(first["spec"]["active"], true, "it is queued again");
    stage.until("the first waits", || stage.waits("first"));
    stage.until("its Job is suspended", || {
        stage.object("job", "first")["spec"]["suspend"] == true
    });
    stage.until("the second's pods run in place of them", || {
        let now = pods();
        now.len() == 2 && now.iter().all(|pod| pod.starts_with("second-"))
    });
    kubectl(&["-n", "act-preempt", "delete", "job", "second"]);
    stage.until("it is let in again", || stage.admitted("first"));
    stage.until("it runs again", || {
        let now = pods();
        now.len() == 2 && now.iter().all(|pod| !before.contains(pod))
    });
    // Queued again with nobody before it: evicted once more, and back.
    let (before, count) = (pods(), evictions(&stage.workload("first")));
    stage.act(&["requeue", "act-preempt/first"]);
    stage.until("Kueue counts one more eviction", || {
        evictions(&stage.workload("first")) > count
    });
    stage.until("it runs once more", || {
        let now = pods();
        stage.admitted("first") && now.len() == 2 && now.iter().all(|pod| !before.contains(pod))
    });
    // (Kueue counts what its queues have given away a moment after it gave it.)
    stage.until("its quota is counted", || stage.reserved() == 2);
    // Held, it gives its quota back and stays out until it may go on.
    stage.act(&["hold", "job/act-preempt/first"]);
    assert_eq!(stage.workload("first")["spec"]["active"], false);
    stage.until("its quota is free", || stage.reserved() == 0);
    stage.stays("it stays out", || stage.waits("first"));
    stage.act(&["resume", "job/act-preempt/first"]);
    stage.until("it is let in at last", || stage.admitted("first"));
}

/// Queues on hold let nothing in; resumed or undone they do.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_queue_on_hold_lets_nothing_in() {
    let stage = Stage::with_queue("act-hold", 4);
    stage.job("before", 1, true);
    stage.until("one is let in", || stage.admitted("before"));
    for (kind, name, target) in [
        ("clusterqueue", "act-hold", "clusterqueue/act-hold"),
        ("localqueue", "door", "localqueue/act-hold/door"),
    ] {
        let policy = || stage.object(kind, name)["spec"]["stopPolicy"].clone();
        let had = policy();
        let late = format!("late-{kind}");
        let later = format!("later-{kind}");
        let run = stage.act(&["hold", target]);
        assert_eq!(policy(), "Hold", "{target}");
        stage.until("Kueue says so", || {
            !holds(&stage.object(kind, name), "Active")
        });
        stage.job(&late, 1, true);
        stage.until("Kueue judges who comes: the queue is stopped", || {
            let workload = stage.workload(&late);
            let mut all = list(&workload, "/status/conditions").iter();
            // (Which of the two it writes depends on which of its controllers comes to it first.)
            let says = |c: &Value| {
                let message = text(c, "/message");
                message.ends_with("is stopped") || message.ends_with("is inactive")
            };
            all.any(|c| c["type"] == "QuotaReserved" && says(c))
        });
        stage.stays("nothing is let in", || stage.waits(&late));
        assert!(stage.admitted("before"), "what runs goes on");
        stage.act(&["undo", &run]);
        assert_eq!(policy(), had, "{target}");
        stage.until("it is let in", || stage.admitted(&late));
        // And by its own word.
        stage.act(&["hold", target]);
        stage.job(&later, 1, true);
        stage.until("who comes waits", || stage.waits(&later));
        stage.act(&["resume", target]);
        assert_eq!(policy(), "None", "{target}");
        stage.until("it is let in", || stage.admitted(&later));
        kubectl(&["-n", "act-hold", "delete", "job", &late, &later]);
    }
}

/// A Job without a queue is suspended by its own controller, and goes on.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_native_job_is_suspended_and_goes_on() {
    let stage = Stage::new("act-suspend");
    stage.job("plain", 2, false);
    let pods = || stage.here("Job");
    stage.until("it runs", || pods().len() == 2);
    let before = pods();
    let job = || stage.object("job", "plain");
    let held = || {
        assert_eq!(job()["spec"]["suspend"], true);
        stage.until("its controller says so", || holds(&job(), "Suspended"));
        stage.until("its pods have gone", || pods().is_empty());
        stage.stays("they stay away", || pods().is_empty());
    };
    let again = || {
        assert_eq!(job()["spec"]["suspend"], false);
        stage.until("it runs again", || pods().len() == 2);
        assert!(pods().iter().all(|pod| !before.contains(pod)));
        stage.until("its controller says so", || !holds(&job(), "Suspended"));
    };
    stage.act(&["hold", "job/act-suspend/plain"]);
    held();
    stage.act(&["resume", "job/act-suspend/plain"]);
    again();
    let run = stage.act(&["hold", "job/act-suspend/plain"]);
    held();
    stage.act(&["undo", &run]);
    again();
}

/// The server dry-runs a planned eviction, which evicts nothing; carried out, the pod is gone and its owner makes another.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn one_pod_is_evicted_and_its_plan_evicts_none() {
    let name = "act-evict";
    let stage = Stage::new(name);
    let labels = json!({"app": "served"});
    stage.create(&[json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "served", "namespace": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": stage.pods(&labels, 1)},
    })]);
    let pods = || stage.here("ReplicaSet");
    stage.until("it runs", || pods().len() == 1);
    let before = pods();
    let pod = format!("{name}/{}", before[0]);
    let arguments = ["plan", "evict", &pod, "-o", "json", "--write"];
    let mut command = stage.with_journal(stokehold("live-admin", &arguments));
    let answer = HttpAnswer::of(&mut command);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let plan: Value = serde_json::from_str(&answer.out).expect("a document");
    let checks = list(&plan, "/checks");
    let ok = |check: &&Value| check["name"] == "server dry run" && check["outcome"] == "ok";
    assert_eq!(checks.iter().filter(ok).count(), 1, "{checks:?}");
    assert_eq!(pods(), before, "a dry run evicts nothing");
    stage.act(&["evict", &pod]);
    stage.until("another runs", || pods().len() == 1 && pods() != before);
}

/// A budget holds one eviction back while the others go on; without it the drain ends, and only daemons are left.
#[test]
#[ignore = "needs the plane of tests/live/up"]
fn a_drain_waits_for_a_budget() {
    let name = "act-drain";
    let stage = Stage::new(name);
    let of = |kind: &str, own: &str, replicas: Value, devices: u32| {
        let labels = json!({"app": own});
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": own, "namespace": name},
            "spec": {"selector": {"matchLabels": labels}, "template": stage.pods(&labels, devices)},
        });
        if !replicas.is_null() {
            object["spec"]["replicas"] = replicas;
        }
        object
    };
    stage.create(&[
        of("Deployment", "guarded", json!(1), 1),
        of("Deployment", "served", json!(2), 1),
        of("Deployment", "plain", json!(2), 0),
        of("DaemonSet", "agent", Value::Null, 0),
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all-up", "namespace": name},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        }),
    ]);
    let movable = || stage.here("ReplicaSet");
    stage.until("all of it runs", || {
        movable().len() == 5 && !stage.here("DaemonSet").is_empty()
    });
    stage.until("the budget counts its pod", || {
        stage.object("pdb", "all-up")["status"]["currentHealthy"] == 1
    });
    let node = || stage.object("node", name);
    let mut command = stage.plan(&["drain", name]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut drain = Ends(Some(command.spawn().expect("stokehold runs")));
    let guarded = || {
        let left = movable();
        left.len() == 1 && left[0].starts_with("guarded-")
    };
    stage.until("the others have gone", guarded);
    assert_eq!(node()["spec"]["unschedulable"], true);
    stage.stays("the budget holds", guarded);
    let child = drain.0.as_mut().expect("it runs");
    assert!(child.try_wait().expect("asked").is_none(), "it waits");
    kubectl(&["-n", name, "delete", "pdb", "all-up"]);
    stage.until("the last has gone", || movable().is_empty());
    let output = drain.0.take().expect("it runs").wait_with_output();
    let output = output.expect("it ends");
    let answer = HttpAnswer {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).expect("a text"),
        err: String::from_utf8(output.stderr).expect("a text"),
    };
    let run = done(&["drain", name], &answer);
    assert!(
        answer.err.contains("waits:") && answer.err.contains("disruption budget"),
        "it says what it waits for: {answer:?}"
    );
    let on = format!("--field-selector=spec.nodeName={name}");
    let left = kubectl(&["get", "pods", "-A", &on, "-o", "json"]);
    let left: Value = serde_json::from_str(&left).expect("a list");
    let left = list(&left, "/items");
    assert!(!left.is_empty(), "the daemon's pod is there");
    for pod in left {
        let owner = text(pod, "/metadata/ownerReferences/0/kind");
        assert_eq!(owner, "DaemonSet", "{pod:#}");
    }
    assert_eq!(node()["spec"]["unschedulable"], true);
    stage.act(&["undo", &run]);
    assert_ne!(node()["spec"]["unschedulable"], true);
    stage.until("what its owners made again has its place", || {
        movable().len() == 5
    });
}
