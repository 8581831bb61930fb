//! Decoding of every kind of job, in every served version.

use serde_json::{Value, json};

use crate::queues::volcano::VolcanoJobObject;
use crate::tests::{read, workload};
use crate::workloads::job::JobSetObject;
use crate::workloads::leader::LeaderWorkerSetObject;
use crate::workloads::ray::{RayClusterObject, RayJobObject};
use crate::workloads::training::{ReplicaJobObject, TrainJobObject};
use crate::*;
use model::fleet::siting::{ConstraintMode, JobPodSet};

/// A pod template whose container asks for so many GPUs.
pub(crate) fn template(gpus: u32) -> Value {
    let limits = match gpus {
        0 => json!({"cpu": "2"}),
        gpus => json!({"cpu": "8", "nvidia.com/gpu": gpus.to_string()}),
    };
    json!({"spec": {"containers": [{"resources": {"limits": limits}}]}})
}

/// Name, pods, minimum and GPUs of each set.
pub(crate) fn sets(sets: &[JobPodSet]) -> Vec<(&str, u32, u32, u32)> {
    sets.iter()
        .map(|set| (&*set.name, set.count, set.min, set.request.device_count()))
        .collect()
}

#[test]
fn a_leader_worker_set_is_gangs_of_its_size() {
    let seen = workload::<LeaderWorkerSetObject>(
        Table::LeaderWorkerSets,
        &json!({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
            "metadata": {"name": "llm", "namespace": "serve", "uid": "l1", "annotations":
                {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack", "unknown.io/x": "y"}},
            "spec": {"replicas": 3, "leaderWorkerTemplate": {"size": 4,
                "leaderTemplate": template(0), "workerTemplate": template(8)}},
            "status": {"conditions": [{"type": "Available", "status": "True"}]}}),
    );
    assert_eq!(&*seen.kind, "LeaderWorkerSet");
    assert_eq!(
        sets(&seen.pod_sets),
        [("leader", 3, 1, 0), ("workers", 9, 3, 8)]
    );
    assert_eq!((seen.pods, seen.gang_min), (12, Some(4)));
    assert_eq!(seen.total.device_count(), 72);
    let topology = seen.pod_sets[1].topology.as_ref().expect("a wish");
    assert_eq!(
        topology
            .slice
            .as_ref()
            .map(|(level, size)| (&**level, *size)),
        Some(("rack", 4))
    );
    // Without a leader's template the leader is like its workers.
    let plain = workload::<LeaderWorkerSetObject>(
        Table::LeaderWorkerSets,
        &json!({"metadata": {"name": "a"}, "spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": template(1)}}}),
    );
    assert_eq!(
        sets(&plain.pod_sets),
        [("leader", 1, 1, 1), ("workers", 1, 1, 1)]
    );
}

#[test]
fn training_jobs_are_gangs_of_their_roles() {
    let torch = workload::<ReplicaJobObject>(
        Table::PyTorchJobs,
        &json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "t", "namespace": "n", "uid": "u"},
            "spec": {"pytorchReplicaSpecs": {
                    "Master": {"replicas": 1, "template": template(8)},
                    "Worker": {"replicas": 3, "template": template(8)}},
                "runPolicy": {"suspend": true, "activeDeadlineSeconds": 3600}},
            "status": {"conditions": [{"type": "Failed", "status": "True", "message": "no",
                    "lastTransitionTime": "2026-11-02T00:00:00Z"}],
                "replicaStatuses": {"Worker": {"failed": 2}}}}),
    );
    assert_eq!(
        sets(&torch.pod_sets),
        [("master", 1, 1, 8), ("worker", 3, 3, 8)]
    );
    assert_eq!(torch.gang_min, Some(4));
    assert!(torch.suspended);
    assert_eq!((torch.outcome, torch.failed_pods), (Some(false), 2));
    assert_eq!(torch.time_limit, Some(3600));
    let elastic = workload::<ReplicaJobObject>(
        Table::PyTorchJobs,
        &json!({"metadata": {"name": "t"}, "spec": {"elasticPolicy": {"minReplicas": 2},
            "pytorchReplicaSpecs": {"Worker": {"replicas": 5, "template": template(1)}}}}),
    );
    assert_eq!(elastic.gang_min, Some(2));
    let tf = workload::<ReplicaJobObject>(
        Table::TfJobs,
        &json!({"metadata": {"name": "t"}, "spec": {"tfReplicaSpecs": {
            "Chief": {"template": template(1)}, "PS": {"replicas": 2, "template": template(0)}},
            "runPolicy": {"schedulingPolicy": {"minAvailable": 2, "priorityClass": "high"}}}}),
    );
    assert_eq!(sets(&tf.pod_sets), [("chief", 1, 1, 1), ("ps", 2, 2, 0)]);
    assert_eq!(
        (tf.gang_min, tf.priority_class.as_deref()),
        (Some(2), Some("high"))
    );
    let jax = workload::<ReplicaJobObject>(
        Table::JaxJobs,
        &json!({"metadata": {"name": "j"}, "spec": {"runPolicy": {"suspend": true},
            "jaxReplicaSpecs": {"Worker": {"replicas": 2, "template": template(4)}}}}),
    );
    assert_eq!(sets(&jax.pod_sets), [("worker", 2, 2, 4)]);
    assert_eq!((jax.gang_min, jax.suspended), (Some(2), true));
    let paddle = workload::<ReplicaJobObject>(
        Table::PaddleJobs,
        &json!({"metadata": {"name": "p"}, "spec": {"elasticPolicy": {"minReplicas": 1},
            "paddleReplicaSpecs": {"Worker": {"replicas": 3, "template": template(2)}}}}),
    );
    assert_eq!(sets(&paddle.pod_sets), [("worker", 3, 1, 2)]);
    let xgboost = workload::<ReplicaJobObject>(
        Table::XgBoostJobs,
        &json!({"metadata": {"name": "x"}, "spec": {"xgbReplicaSpecs": {
            "Master": {"template": template(1)}, "Worker": {"replicas": 2, "template": template(1)}}}}),
    );
    assert_eq!(
        sets(&xgboost.pod_sets),
        [("master", 1, 1, 1), ("worker", 2, 2, 1)]
    );
    let mpi = workload::<ReplicaJobObject>(
        Table::MpiJobs,
        &json!({"apiVersion": "kubeflow.org/v2beta1", "metadata": {"name": "m"}, "spec": {"slotsPerWorker": 8,
            "mpiReplicaSpecs": {"Launcher": {"replicas": 1, "template": template(0)},
                "Worker": {"replicas": 8, "template": template(8)}}},
            "status": {"conditions": [{"type": "Succeeded", "status": "True"}], "completionTime": "2026-11-02T00:00:00Z"}}),
    );
    assert_eq!((mpi.pods, mpi.total.device_count()), (9, 64));
    assert_eq!(mpi.outcome, Some(true));
    assert!(mpi.finished.is_some());
}

#[test]
fn a_train_job_says_what_its_runtime_does_not() {
    let reported = workload::<TrainJobObject>(
        Table::TrainJobs,
        &json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "metadata": {"name": "t"},
            "spec": {"runtimeRef": {"name": "torch"}, "suspend": true, "trainer": {"numNodes": 4,
                "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}}}),
    );
    assert_eq!(sets(&reported.pod_sets), [("node", 4, 4, 8)]);
    assert_eq!((reported.gang_min, reported.suspended), (Some(4), true));
    assert!(
        reported.pod_sets.iter().all(|set| !set.has_placement()),
        "its runtime may select nodes"
    );
    // The resources are in the runtime: the JobSet below has them.
    let silent = workload::<TrainJobObject>(
        Table::TrainJobs,
        &json!({"metadata": {"name": "t"}, "spec": {"trainer": {"numNodes": 4}}}),
    );
    assert!(silent.pod_sets.is_empty());
    assert_eq!((silent.total.device_count(), silent.gang_min), (0, None));
}

/// Pod sets of a JobSet that start after another one, while that has not got there.
#[test]
fn a_role_that_comes_later_is_blocked_until_the_one_before_it_is_there() {
    let blocks = |policy: Value, depends_on: Value, status: Value| {
        let role = |name: &str, depends_on: &Value| {
            json!({"name": name, "replicas": 2, "dependsOn": depends_on,
                "template": {"spec": {"parallelism": 1, "completions": 1, "template": template(8)}}})
        };
        let seen = workload::<JobSetObject>(
            Table::JobSets,
            &json!({"metadata": {"name": "a"}, "spec": {"startupPolicy": policy,
                "replicatedJobs": [role("init", &Value::Null), role("node", &depends_on)]},
                "status": status}),
        );
        let words = seen.pod_sets.iter().map(JobPodSet::block_words);
        words
            .map(|words| words.map(|words| words.to_string()))
            .collect::<Vec<_>>()
    };
    let complete = || json!([{"name": "init", "status": "Complete"}]);
    let ready = || json!([{"name": "init", "status": "Ready"}]);
    let jobs = |succeeded: u32, ready: u32| {
        json!({"replicatedJobsStatus": [
            {"name": "node", "active": 0, "ready": 0},
            {"name": "init", "active": 2, "succeeded": succeeded, "ready": ready, "failed": 0},
        ]})
    };
    let waits = |until: &str| {
        let words = format!("its role node waits until role init is {until}");
        vec![None, Some(words)]
    };
    let free = vec![None, None];
    assert_eq!(
        blocks(Value::Null, complete(), Value::Null),
        waits("Complete")
    );
    assert_eq!(
        blocks(Value::Null, complete(), jobs(1, 1)),
        waits("Complete")
    );
    assert_eq!(blocks(Value::Null, complete(), jobs(2, 0)), free);
    assert_eq!(blocks(Value::Null, ready(), jobs(0, 1)), waits("Ready"));
    assert_eq!(blocks(Value::Null, ready(), jobs(1, 1)), free);
    let in_order = || json!({"startupPolicyOrder": "InOrder"});
    assert_eq!(blocks(in_order(), Value::Null, jobs(0, 1)), waits("Ready"));
    assert_eq!(blocks(in_order(), Value::Null, jobs(0, 2)), free);
    assert_eq!(
        blocks(
            json!({"startupPolicyOrder": "AnyOrder"}),
            Value::Null,
            jobs(0, 0)
        ),
        free
    );
    // A running job goes on, and an ended job waits for nothing.
    let begun = json!({"replicatedJobsStatus": [
        {"name": "node", "active": 1}, {"name": "init", "active": 1, "ready": 1}]});
    assert_eq!(blocks(in_order(), Value::Null, begun), free);
    let failed = json!({"conditions": [{"type": "Failed", "status": "True"}]});
    assert_eq!(blocks(in_order(), Value::Null, failed), free);
}

#[test]
fn ray_is_a_head_and_groups_of_workers() {
    let cluster = json!({"headGroupSpec": {"template": template(0)}, "workerGroupSpecs": [
        {"groupName": "GPU", "replicas": 2, "minReplicas": 1, "numOfHosts": 2, "template": template(4)},
        {"groupName": "idle", "replicas": 5, "suspend": true, "template": template(4)},
        {"minReplicas": 3, "template": template(1)}]});
    let ray = workload::<RayClusterObject>(
        Table::RayClusters,
        &json!({"apiVersion": "ray.io/v1", "metadata": {"name": "r"}, "spec": cluster}),
    );
    assert_eq!(
        sets(&ray.pod_sets),
        [
            ("head", 1, 1, 0),
            ("gpu", 4, 2, 4),
            ("idle", 0, 0, 4),
            ("workers-2", 3, 3, 1)
        ]
    );
    assert_eq!((ray.total.device_count(), ray.gang_min), (19, None));
    let status = |deployment: &str, job: &str| {
        let seen = workload::<RayJobObject>(
            Table::RayJobs,
            &json!({"metadata": {"name": "j"}, "spec": {"rayClusterSpec": cluster, "suspend": false},
                "status": {"jobDeploymentStatus": deployment, "jobStatus": job, "message": "it broke",
                    "startTime": "2026-11-02T00:00:00Z", "endTime": "2026-11-03T00:00:00Z"}}),
        );
        let statuses = seen
            .conditions
            .first()
            .map(|condition| condition.message.to_string());
        (seen.outcome, seen.finished.is_some(), statuses)
    };
    assert_eq!(status("Running", "RUNNING"), (None, false, None));
    assert_eq!(status("Complete", "SUCCEEDED"), (Some(true), true, None));
    let broke = (Some(false), true, Some("it broke".to_owned()));
    assert_eq!(status("Complete", "FAILED"), broke);
    assert_eq!(status("Failed", ""), broke);
    assert_eq!(status("ValidationFailed", ""), broke, "it is final");
    // A try that failed was followed by another, but for the last.
    let tries = |deployment: &str, failed: u32| {
        let status = json!({"jobDeploymentStatus": deployment, "failed": failed, "succeeded": 0});
        let job = json!({"metadata": {"name": "j"}, "spec": {"rayClusterSpec": cluster}, "status": status});
        workload::<RayJobObject>(Table::RayJobs, &job).restarts
    };
    assert_eq!([tries("Running", 0), tries("Running", 1)], [0, 1]);
    assert_eq!([tries("Failed", 2), tries("Failed", 0)], [1, 0]);
    // A RayJob on an existing cluster requests nothing itself.
    let guest = workload::<RayJobObject>(
        Table::RayJobs,
        &json!({"metadata": {"name": "j"}, "spec": {"clusterSelector": {"ray.io/cluster": "r"}}}),
    );
    assert_eq!(guest.total.device_count(), 0);
}

#[test]
fn a_volcano_job_is_not_taken_for_a_job() {
    let seen = workload::<VolcanoJobObject>(
        Table::VolcanoJobs,
        &json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "v", "namespace": "n", "uid": "v1"},
            "spec": {"minAvailable": 3, "queue": "research", "priorityClassName": "high",
                "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
                "tasks": [{"name": "ps", "replicas": 1, "template": template(0)},
                    {"name": "worker", "replicas": 4, "minAvailable": 2, "template": template(8)}]},
            "status": {"state": {"phase": "Aborted"}}}),
    );
    assert_eq!(&*seen.kind, "VolcanoJob");
    assert_eq!(sets(&seen.pod_sets), [("ps", 1, 1, 0), ("worker", 4, 2, 8)]);
    assert_eq!((seen.gang_min, seen.suspended), (Some(3), true));
    assert_eq!(
        seen.labels.get("volcano.sh/queue-name").map(|name| &**name),
        Some("research")
    );
    let topology = seen.pod_sets[1].topology.as_ref().expect("a wish");
    assert_eq!(
        (topology.mode, &*topology.level),
        (ConstraintMode::Required, "tier-2")
    );
    // Its pods' owner reference has the kind `Job`, of another group.
    let meta: Meta = serde_json::from_value(json!({"name": "p", "ownerReferences": [
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "v", "uid": "v1", "controller": true}]}))
    .expect("lenient");
    let owner = meta.owner(&mut Names::default()).expect("an owner");
    assert_eq!(&*owner.kind, "VolcanoJob");
    let ended = workload::<VolcanoJobObject>(
        Table::VolcanoJobs,
        &json!({"metadata": {"name": "v"}, "status": {"state": {"phase": "Failed", "message": "out of retries",
            "lastTransitionTime": "2026-11-02T00:00:00Z"}}}),
    );
    assert_eq!(ended.outcome, Some(false));
    assert_eq!(&*ended.conditions[0].message, "out of retries");
}

/// Kueue makes no owner of a Workload its controller where the pods of the group own it, too.
#[test]
fn what_an_object_and_its_pods_own_belongs_to_the_object() {
    let owner = |kinds: &[&str]| {
        let all: Vec<_> = kinds
            .iter()
            .enumerate()
            .map(|(at, kind)| json!({"apiVersion": "v1", "kind": kind, "name": format!("o{at}"), "uid": format!("u{at}")}))
            .collect();
        let meta: Meta =
            serde_json::from_value(json!({"name": "w", "ownerReferences": all})).expect("lenient");
        let owner = meta.main_owner(&mut Names::default());
        owner.map(|owner| owner.name.to_string())
    };
    let named = Some("o1".to_owned());
    assert_eq!(owner(&["Pod", "LeaderWorkerSet", "Pod"]), named);
    assert_eq!(owner(&["Pod"]).as_deref(), Some("o0"), "the only one");
    assert_eq!(owner(&["Pod", "Pod"]), None, "a group of bare pods");
    assert_eq!(owner(&["Job", "JobSet"]), None, "either");
    assert_eq!(owner(&[]), None);
}

#[test]
fn no_odd_object_is_an_error() {
    let hostile = [
        json!(null),
        json!([]),
        json!({"metadata": {"name": "x"}}),
        json!({"metadata": {"name": "x"}, "spec": 7, "status": "gone"}),
        json!({"metadata": {"name": "x"}, "spec": {"replicas": -5, "leaderWorkerTemplate": {"size": 99999999999i64}}}),
        json!({"metadata": {"name": "x"}, "spec": {"pytorchReplicaSpecs": [1, 2], "runPolicy": null}}),
        json!({"metadata": {"name": "x"}, "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 4294967295u64, "template": template(4294967)}}}}),
        json!({"metadata": {"name": "x"}, "spec": {"tasks": [null, 3, {"replicas": "many"}], "minAvailable": 1e300}}),
        json!({"metadata": {"name": "x"}, "spec": {"rayClusterSpec": {"workerGroupSpecs": {"a": 1}}, "workerGroupSpecs": [{"numOfHosts": 4294967295u64, "replicas": 4294967295u64}]}}),
        json!({"metadata": {"name": "x"}, "spec": {"trainer": {"numNodes": [], "resourcesPerNode": "all"}}}),
    ];
    for value in &hostile {
        let mut names = Names::default();
        let all = [
            read::<LeaderWorkerSetObject>(value).project(Table::LeaderWorkerSets, &mut names),
            read::<ReplicaJobObject>(value).project(Table::PyTorchJobs, &mut names),
            read::<TrainJobObject>(value).project(Table::TrainJobs, &mut names),
            read::<RayJobObject>(value).project(Table::RayJobs, &mut names),
            read::<RayClusterObject>(value).project(Table::RayClusters, &mut names),
            read::<VolcanoJobObject>(value).project(Table::VolcanoJobs, &mut names),
        ];
        let named = value.pointer("/metadata/name").is_some();
        assert!(all.iter().all(|seen| seen.is_some() == named), "{value}");
    }
}
