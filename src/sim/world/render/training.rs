//! PyTorchJobs, RayJobs with their RayClusters, and LeaderWorkerSets with their StatefulSets.
//!
//! Sources: kubeflow/training-operator v1.9 (`kubeflow.org/v1`), ray-project/kuberay v1.5 (`ray.io/v1`),
//! kubernetes-sigs/lws v0.8 (`leaderworkerset.x-k8s.io/v1`).

use serde_json::{Map, Value, json};

use super::super::World;
use super::super::noise::{mix, suffix};
use super::super::pod::Pod;
use super::super::work::{Kind, ReplicaGroup, State, Work};
use super::{condition, metadata, owner};

/// The port of Ray's dashboard.
const DASHBOARD: u16 = 8265;

/// The role's key in a PyTorchJob's maps.
fn role(group: &ReplicaGroup) -> &'static str {
    match &*group.name {
        "master" => "Master",
        _ => "Worker",
    }
}

impl World {
    /// The controller without identity, suspension, scale and status.
    pub(super) fn training_spec(&self, work: &Work) -> Value {
        let mut object = json!({
            "apiVersion": super::api_of(work.kind.word()),
            "kind": work.kind.word(),
            "metadata": self.work_metadata(work),
        });
        object["spec"] = match work.kind {
            Kind::PyTorchJob => {
                let roles: Map<String, Value> = work
                    .groups
                    .iter()
                    .map(|group| {
                        let mut replicas =
                            json!({"replicas": group.completions, "restartPolicy": "Never"});
                        replicas["template"] = self.template(work, None);
                        (role(group).to_owned(), replicas)
                    })
                    .collect();
                json!({
                    "nprocPerNode": work.ask.count.to_string(),
                    "pytorchReplicaSpecs": roles,
                    "runPolicy": {"cleanPodPolicy": "None", "ttlSecondsAfterFinished": 1800},
                })
            }
            Kind::RayJob => json!({
                "entrypoint": format!("python -m train --config configs/{}.yaml", work.name),
                "submissionMode": "HTTPMode",
                "backoffLimit": 0,
                "shutdownAfterJobFinishes": true,
                "ttlSecondsAfterFinished": 0,
                "rayClusterSpec": self.ray_spec(work),
            }),
            _ => json!({
                "leaderWorkerTemplate": {
                    "size": work.groups.first().map_or(1, |group| group.completions),
                    "restartPolicy": "RecreateGroupOnPodRestart",
                    "workerTemplate": self.template(work, None),
                },
                "networkConfig": {"subdomainPolicy": "Shared"},
                "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 1, "partition": 0}},
                "startupPolicy": "LeaderCreated",
            }),
        };
        object
    }

    /// Fields that the world overrides in a client's object.
    pub(super) fn fill_training(&self, object: &mut Value, work: &Work) {
        match work.kind {
            Kind::PyTorchJob => {
                object["spec"]["runPolicy"]["suspend"] = json!(work.suspended);
                object["status"] = self.pytorch_status(work);
            }
            Kind::RayJob => {
                object["spec"]["suspend"] = json!(work.suspended);
                object["status"] = self.ray_status(work);
            }
            _ => {
                object["spec"]["replicas"] = json!(replicas(work));
                object["status"] = self.groups_status(work);
            }
        }
    }

    fn pytorch_status(&self, work: &Work) -> Value {
        let row = |kind: &str, status: &str, text: &str, since| {
            let message = format!("PyTorchJob {}/{} {text}", work.namespace, work.name);
            let mut row = condition(kind, status, &format!("PyTorchJob{kind}"), &message, since);
            row["lastUpdateTime"] = row["lastTransitionTime"].clone();
            row
        };
        let mut rows = vec![row("Created", "True", "is created.", work.created)];
        let mut status = Map::new();
        let started = work.groups.iter().filter_map(|group| group.started).min();
        match work.state {
            State::Done(end, ok) => {
                status.insert("completionTime".into(), json!(end.rfc3339()));
                rows.push(row("Running", "False", "is running.", end));
                rows.push(match ok {
                    true => row("Succeeded", "True", "successfully completed.", end),
                    false => row("Failed", "True", "has failed.", end),
                });
            }
            _ if work.suspended => {
                rows.push(row(
                    "Suspended",
                    "True",
                    "is suspended.",
                    work.suspended_since,
                ));
            }
            _ => {
                // Without a suspension there is no such condition.
                if work.suspended_since > work.created {
                    let since = work.suspended_since;
                    rows.push(row("Suspended", "False", "is resumed.", since));
                }
                match work.running_since {
                    Some(since) => rows.push(row("Running", "True", "is running.", since)),
                    None if work.restarts > 0 => {
                        let since = work.suspended_since;
                        rows.push(row("Restarting", "True", "is restarting.", since));
                    }
                    None => {}
                }
            }
        }
        if let Some(started) = started {
            status.insert("startTime".into(), json!(started.rfc3339()));
        }
        let roles: Map<String, Value> = work
            .groups
            .iter()
            .enumerate()
            .map(|(at, group)| {
                let count = self.count(work, at as u32);
                let mut row = Map::new();
                for (key, number) in [
                    ("active", count.active),
                    ("succeeded", group.done.len() as u32),
                    ("failed", group.failed),
                ] {
                    if number > 0 {
                        row.insert(key.to_owned(), json!(number));
                    }
                }
                (role(group).to_owned(), Value::Object(row))
            })
            .collect();
        status.insert("replicaStatuses".into(), Value::Object(roles));
        status.insert("conditions".into(), Value::Array(rows));
        Value::Object(status)
    }

    /// The spec of a job's RayCluster.
    fn ray_spec(&self, work: &Work) -> Value {
        let mut head = json!({"rayStartParams": {"dashboard-host": "0.0.0.0"}});
        head["template"] = self.template(work, None);
        let workers: Vec<Value> = work
            .groups
            .iter()
            .skip(1)
            .map(|group| {
                let pods = group.completions;
                let mut row = json!({
                    "groupName": &*group.name, "replicas": pods, "minReplicas": pods, "maxReplicas": pods,
                    "numOfHosts": 1, "rayStartParams": {},
                });
                row["template"] = self.template(work, None);
                row
            })
            .collect();
        json!({"rayVersion": "2.52.0", "headGroupSpec": head, "workerGroupSpecs": workers})
    }

    fn ray_status(&self, work: &Work) -> Value {
        let (cluster, _) = work.cluster(work.clusters);
        let (job, deployment) = match work.state {
            State::Done(_, true) => ("SUCCEEDED", "Complete"),
            State::Done(_, false) => ("FAILED", "Failed"),
            _ if work.suspended => ("", "Suspended"),
            State::Running => ("RUNNING", "Running"),
            State::Waiting => ("", "Initializing"),
        };
        let mut status = json!({
            "jobStatus": job,
            "jobDeploymentStatus": deployment,
            "observedGeneration": work.edit.generation(),
        });
        // While it is suspended, KubeRay clears the name of the last cluster.
        if !work.suspended && !work.is_over() {
            status["rayClusterName"] = json!(&*cluster);
            status["jobId"] = json!(format!("{}-{}", work.name, suffix(mix(work.uid, 0x1d), 5)));
            if work.running_since.is_some() {
                status["dashboardURL"] = json!(format!(
                    "{cluster}-head-svc.{}.svc.cluster.local:{DASHBOARD}",
                    work.namespace
                ));
            }
        }
        let started = work.groups.iter().filter_map(|group| group.started).min();
        if let Some(started) = started {
            status["startTime"] = json!(started.rfc3339());
        }
        if let State::Done(end, ok) = work.state {
            status["endTime"] = json!(end.rfc3339());
            if !ok {
                status["reason"] = json!("AppFailed");
                let message = work
                    .failure
                    .as_ref()
                    .map(|(_, message)| message.to_string());
                status["message"] = json!(message.unwrap_or_else(|| "job failed".to_owned()));
            }
        }
        status
    }

    /// A job's current RayCluster.
    pub(super) fn ray_cluster(&self, work: &Work) -> Value {
        let (name, uid) = work.cluster(work.clusters);
        let created = work
            .pods
            .iter()
            .filter_map(|id| self.pods.get(id))
            .filter(|pod| pod.attempt == work.clusters)
            .map(|pod| pod.created)
            .min()
            .unwrap_or(work.suspended_since);
        let mut meta = metadata(&work.namespace, &name, uid, created);
        meta["generation"] = json!(1);
        let mut labels = self.template_labels(work);
        labels.insert("ray.io/originated-from-crd".into(), json!("RayJob"));
        labels.insert("ray.io/originated-from-cr-name".into(), json!(&*work.name));
        meta["labels"] = Value::Object(labels);
        meta["ownerReferences"] = owner("ray.io/v1", "RayJob", &work.name, work.uid);
        let (mut wanted, mut ready) = (0, 0);
        for (at, group) in work.groups.iter().enumerate().skip(1) {
            wanted += group.completions;
            ready += self.count(work, at as u32).ready;
        }
        let head = work.groups.first().and_then(|group| group.live.get(&0));
        let head = head
            .and_then(|id| self.pods.get(id))
            .filter(|pod| pod.is_ready());
        let all = i64::from(work.width());
        let since = work.running_since.or(head.and_then(|pod| pod.ready));
        let mut rows = Vec::new();
        if let Some(pod) = head {
            let ready = pod.ready.unwrap_or(pod.created);
            rows.push(condition(
                "HeadPodReady",
                "True",
                "HeadPodRunningAndReady",
                "",
                ready,
            ));
        }
        if ready >= wanted
            && let Some(since) = since.filter(|_| head.is_some())
        {
            rows.push(condition(
                "RayClusterProvisioned",
                "True",
                "AllPodRunningAndReadyFirstTime",
                "All Ray Pods are ready for the first time",
                since,
            ));
        }
        let mut object = json!({
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": meta,
            "status": {
                "conditions": rows,
                "desiredWorkerReplicas": wanted,
                "minWorkerReplicas": wanted,
                "maxWorkerReplicas": wanted,
                "availableWorkerReplicas": ready,
                "readyWorkerReplicas": ready,
                "desiredCPU": (all * work.ask.cpu_milli / 1000).to_string(),
                "desiredMemory": format!("{}Mi", all * work.ask.memory_mib),
                "desiredGPU": (all * i64::from(work.ask.count)).to_string(),
                "desiredTPU": "0",
                "head": {"serviceName": format!("{name}-head-svc")},
                "observedGeneration": 1,
            },
        });
        if let Some(pod) = head {
            object["status"]["head"]["podName"] = json!(&*pod.key.name);
            if let Some(node) = pod.node {
                object["status"]["head"]["podIP"] = json!(self.pod_ip(pod, node));
            }
            if ready >= wanted {
                object["status"]["state"] = json!("ready");
            }
        }
        object["spec"] = self.ray_spec(work);
        object
    }

    fn groups_status(&self, work: &Work) -> Value {
        let wanted = replicas(work);
        let (mut there, mut ready) = (0u32, 0u32);
        for (at, group) in work.groups.iter().enumerate() {
            let count = self.count(work, at as u32);
            there += u32::from(group.live.contains_key(&0));
            let whole = group.parallelism > 0 && count.ready >= group.parallelism;
            ready += u32::from(whole);
        }
        let since = work.running_since.unwrap_or(work.created);
        let (available, progressing) = match ready as usize >= wanted {
            true => ("True", "False"),
            false => ("False", "True"),
        };
        json!({
            "replicas": there,
            "readyReplicas": ready,
            "updatedReplicas": there,
            "observedGeneration": work.edit.generation(),
            "hpaPodSelector": format!(
                "leaderworkerset.sigs.k8s.io/name={},leaderworkerset.sigs.k8s.io/worker-index=0",
                work.name
            ),
            "conditions": [
                condition("Available", available, "AllGroupsReady", "All replicas are ready", since),
                condition("Progressing", progressing, "GroupsProgressing", "Replicas are progressing", since),
            ],
        })
    }

    /// A StatefulSet of a LeaderWorkerSet: that of the leaders, or of one leader's workers.
    pub(super) fn group_set(&self, work: &Work, child: u32) -> Option<Value> {
        let size = work.groups.first()?.completions;
        let name_label = "leaderworkerset.sigs.k8s.io/name";
        let mut selector = json!({name_label: &*work.name});
        let mut labels = self.template_labels(work);
        labels.insert(name_label.into(), json!(&*work.name));
        let (mut meta, wanted, start, pods) = match child.checked_sub(1) {
            None => {
                selector["leaderworkerset.sigs.k8s.io/worker-index"] = json!("0");
                let mut meta = metadata(
                    &work.namespace,
                    &work.name,
                    work.leaders_uid(),
                    work.created,
                );
                meta["ownerReferences"] = owner(
                    "leaderworkerset.x-k8s.io/v1",
                    "LeaderWorkerSet",
                    &work.name,
                    work.uid,
                );
                let leaders = work.groups.iter().filter_map(|group| group.live.get(&0));
                let leaders: Vec<&Pod> = leaders.filter_map(|id| self.pods.get(id)).collect();
                (meta, replicas(work) as u32, 0, leaders)
            }
            Some(at) => {
                let group = work.groups.get(at as usize)?;
                let leader = self.pods.get(group.live.get(&0)?)?;
                let index = "leaderworkerset.sigs.k8s.io/group-index";
                selector[index] = json!(at.to_string());
                labels.insert(index.into(), json!(at.to_string()));
                let uid = mix(group.uid, u64::from(leader.attempt));
                let mut meta = metadata(&work.namespace, &group.name, uid, leader.created);
                meta["ownerReferences"] = owner("v1", "Pod", &leader.key.name, leader.uid);
                let workers = group.live.range(1..).map(|(_, id)| id);
                let workers = workers.filter_map(|id| self.pods.get(id)).collect();
                (meta, size - 1, 1, workers)
            }
        };
        meta["generation"] = json!(1);
        meta["labels"] = Value::Object(labels);
        let active = pods.iter().filter(|pod| pod.is_active()).count();
        let ready = pods.iter().filter(|pod| pod.is_ready()).count();
        let revision = format!(
            "{}-{}",
            meta["name"].as_str().unwrap_or_default(),
            suffix(work.uid, 9)
        );
        Some(json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": meta,
            "spec": {
                "podManagementPolicy": "Parallel",
                "replicas": wanted,
                "revisionHistoryLimit": 10,
                "ordinals": {"start": start},
                "serviceName": &*work.name,
                "selector": {"matchLabels": selector},
                "template": self.template(work, None),
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            },
            "status": {
                "observedGeneration": 1,
                "replicas": active,
                "readyReplicas": ready,
                "availableReplicas": ready,
                "currentReplicas": active,
                "updatedReplicas": active,
                "currentRevision": revision,
                "updateRevision": revision,
                "collisionCount": 0,
            },
        }))
    }
}

/// Desired number of groups of a LeaderWorkerSet.
fn replicas(work: &Work) -> usize {
    let wanted = |group: &&ReplicaGroup| group.parallelism > 0;
    work.groups.iter().filter(wanted).count()
}
