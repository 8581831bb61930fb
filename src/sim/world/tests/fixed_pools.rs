//! The pools whose work is not drawn: every kind is there, behaves as its controller makes it behave, and keeps the laws.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::super::change::{Request, Resource, SimBackend};
use super::super::catalog::{DRAWN, POOL_COUNT, POOLS};
use super::super::{Options, World};
use super::clients::{WorldObjects, live, name};
use super::properties::check_properties;
use super::{Store, begin, noon, of, same, snapshot};
use model::base::ObjectKey;

/// A fleet that is just large enough, drawn once.
static FLEET: LazyLock<(World, Store)> = LazyLock::new(|| {
    begin(Options {
        nodes: Some(200),
        ..Options::new(noon())
    })
});

fn fleet() -> WorldObjects {
    let (world, store) = FLEET.clone();
    WorldObjects { world, store }
}

impl WorldObjects {
    fn one(&self, resource: Resource) -> Value {
        let found = of(&self.store, resource).next();
        found.expect("an object of the kind").clone()
    }

    /// The Workload of a job.
    fn workload(&self, job: &Value) -> Value {
        of(&self.store, Resource::Workloads)
            .find(|workload| {
                workload["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
            })
            .expect("its Workload")
            .clone()
    }

    fn activate(&mut self, workload: &Value, active: bool) {
        let namespace = workload["metadata"]["namespace"].as_str().expect("a text");
        self.edit(Resource::Workloads, namespace, name(workload), |object| {
            object["spec"]["active"] = json!(active)
        });
    }

    fn settle(&mut self, seconds: i64) {
        for _ in 0..seconds / 15 {
            self.wait(15);
            check_properties(&self.world, &self.store);
        }
    }
}

fn has(object: &Value, kind: &str, status: &str) -> bool {
    let rows = object["status"]["conditions"].as_array();
    rows.into_iter()
        .flatten()
        .any(|row| row["type"] == kind && row["status"] == status)
}

#[test]
fn small_fleets_go_without_and_large_ones_are_as_large_as_was_asked() {
    let (world, store) = begin(Options {
        nodes: Some(120),
        ..Options::new(noon())
    });
    assert_eq!(of(&store, Resource::Nodes).count(), 120);
    assert!(world.pools[super::super::catalog::B200].is_empty());
    assert!(of(&store, Resource::PyTorchJobs).next().is_none());
    let cluster = fleet();
    assert_eq!(of(&cluster.store, Resource::Nodes).count(), 200);
    check_properties(&cluster.world, &cluster.store);
}

/// What is drawn at random is for a seed what it was before these pools came.
#[test]
fn the_rest_of_the_fleet_is_not_drawn_anew() {
    let cluster = fleet();
    let guests: u32 = POOLS[DRAWN..].iter().map(|pool| pool.nodes).sum();
    let (_, without) = begin(Options {
        nodes: Some(200 - guests),
        ..Options::new(noon())
    });
    let pods = of(&without, Resource::Pods).filter(|pod| !pod["spec"]["nodeName"].is_null());
    for pod in pods {
        let namespace = pod["metadata"]["namespace"].as_str().expect("a text");
        let same = cluster.get(Resource::Pods, namespace, name(pod));
        let node = same.map(|same| same["spec"]["nodeName"].clone());
        assert_eq!(
            node.as_ref(),
            Some(&pod["spec"]["nodeName"]),
            "{}",
            name(pod)
        );
    }
}

#[test]
fn a_pytorch_job_under_kueue_is_evicted_and_comes_back() {
    let mut cluster = fleet();
    let job = cluster
        .get(Resource::PyTorchJobs, "vision", "segformer-b5")
        .expect("the job");
    assert!(has(&job, "Running", "True"));
    assert_eq!(job["status"]["replicaStatuses"]["Worker"]["active"], 1);
    let workload = cluster.workload(&job);
    let sets = workload["spec"]["podSets"].as_array().expect("sets");
    let names: Vec<&str> = sets.iter().filter_map(|set| set["name"].as_str()).collect();
    assert_eq!(names, ["master", "worker"]);
    cluster.activate(&workload, false);
    cluster.settle(60);
    let job = cluster
        .get(Resource::PyTorchJobs, "vision", "segformer-b5")
        .expect("the job");
    assert_eq!(job["spec"]["runPolicy"]["suspend"], true);
    assert!(has(&job, "Suspended", "True"));
    assert!(cluster.pods("vision", "segformer-b5-").is_empty());
    // What was freed goes to the one that waited.
    let other = cluster
        .get(Resource::PyTorchJobs, "vision", "sam2-ft")
        .expect("the other job");
    assert_eq!(other["spec"]["runPolicy"]["suspend"], false);
    cluster.activate(&workload, true);
    cluster.settle(60);
    // Of 20 devices 8 are allocated to the other job now and 4 to the RayJob: it waits, with a reason.
    let workload = cluster.workload(&job);
    assert!(has(&workload, "QuotaReserved", "False"));
    let other = cluster.workload(&other);
    cluster.activate(&other, false);
    cluster.settle(90);
    let pods = cluster.pods("vision", "segformer-b5-");
    assert_eq!(live(&pods), 2);
    let names: Vec<&str> = pods.iter().map(name).collect();
    assert_eq!(names, ["segformer-b5-master-0", "segformer-b5-worker-0"]);
}

#[test]
fn a_ray_job_has_a_cluster_while_it_runs() {
    let mut cluster = fleet();
    let job = cluster.one(Resource::RayJobs);
    assert_eq!(job["status"]["jobDeploymentStatus"], "Running");
    let before = cluster.one(Resource::RayClusters);
    assert_eq!(job["status"]["rayClusterName"], before["metadata"]["name"]);
    assert_eq!(before["status"]["state"], "ready");
    let workload = cluster.workload(&job);
    cluster.activate(&workload, false);
    cluster.settle(60);
    let job = cluster.one(Resource::RayJobs);
    assert_eq!(job["status"]["jobDeploymentStatus"], "Suspended");
    assert!(of(&cluster.store, Resource::RayClusters).next().is_none());
    assert!(cluster.pods("research", "rlhf-ppo-").is_empty());
    cluster.activate(&workload, true);
    cluster.settle(90);
    let after = cluster.one(Resource::RayClusters);
    assert_ne!(after["metadata"]["name"], before["metadata"]["name"]);
    assert_eq!(live(&cluster.pods("research", "rlhf-ppo-")), 2);
    // One of its pods is deleted: the job continues in the same cluster.
    let pod = cluster.pods("research", "rlhf-ppo-").remove(0);
    cluster.delete(Resource::Pods, "research", name(&pod));
    cluster.settle(90);
    assert_eq!(live(&cluster.pods("research", "rlhf-ppo-")), 2);
    assert_eq!(
        cluster.one(Resource::RayClusters)["metadata"]["name"],
        after["metadata"]["name"]
    );
}

#[test]
fn a_leader_worker_set_is_scaled_and_recreates_its_groups_whole() {
    let mut cluster = fleet();
    let set = cluster.one(Resource::LeaderWorkerSets);
    assert_eq!(set["status"]["readyReplicas"], 2);
    let owned = |cluster: &WorldObjects| {
        let sets = of(&cluster.store, Resource::StatefulSets);
        sets.filter(|set| name(set).starts_with("chat-70b")).count()
    };
    assert_eq!(owned(&cluster), 3, "leaders, and the workers of each");
    let old = cluster
        .get(Resource::Pods, "nlp", "chat-70b-1")
        .expect("a leader");
    cluster.delete(Resource::Pods, "nlp", "chat-70b-1-1");
    cluster.settle(90);
    let new = cluster
        .get(Resource::Pods, "nlp", "chat-70b-1")
        .expect("a leader");
    assert_ne!(new["metadata"]["uid"], old["metadata"]["uid"]);
    cluster.settle(90);
    assert_eq!(live(&cluster.pods("nlp", "chat-70b-")), 4);
    for replicas in [0, 2] {
        cluster.edit(Resource::LeaderWorkerSets, "nlp", "chat-70b", |set| {
            set["spec"]["replicas"] = json!(replicas)
        });
        cluster.settle(120);
        let set = cluster.one(Resource::LeaderWorkerSets);
        assert_eq!(set["spec"]["replicas"], replicas);
        assert_eq!(set["status"]["readyReplicas"], replicas);
        assert_eq!(live(&cluster.pods("nlp", "chat-70b-")), replicas * 2);
        assert_eq!(owned(&cluster), 1 + replicas);
    }
}

#[test]
fn what_is_deleted_takes_its_pods_and_children_along() {
    let mut cluster = fleet();
    for (resource, namespace, job) in [
        (Resource::PyTorchJobs, "vision", "segformer-b5"),
        (Resource::RayJobs, "research", "rlhf-ppo"),
        (Resource::LeaderWorkerSets, "nlp", "chat-70b"),
    ] {
        cluster.delete(resource, namespace, job);
        cluster.settle(60);
        let left: Vec<_> = cluster
            .store
            .keys()
            .filter(|(kind, key)| {
                *kind != Resource::Events && &*key.namespace == namespace && key.name.contains(job)
            })
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn devices_are_allocated_by_claim_and_given_back() {
    let mut cluster = fleet();
    let waiting = cluster.pods("speech", "vocoder-xl-").remove(0);
    let message = waiting["status"]["conditions"][0]["message"].as_str();
    assert!(
        message.is_some_and(|message| message.contains("cannot allocate all claims")),
        "{message:?}"
    );
    assert_eq!(of(&cluster.store, Resource::ResourceSlices).count(), 2);
    assert_eq!(live(&cluster.pods("speech", "asr-distill-")), 2);
    // The running job is suspended: its claims are deleted, and the waiting pod gets its devices.
    cluster.edit(Resource::Jobs, "speech", "asr-distill", |job| {
        job["spec"]["suspend"] = json!(true)
    });
    cluster.settle(60);
    assert!(cluster.pods("speech", "asr-distill-").is_empty());
    assert_eq!(live(&cluster.pods("speech", "vocoder-xl-")), 1);
    // A pod that is done has no claim any more.
    cluster.settle(1_200);
    let ended = |pod: &&Value| pod["status"]["phase"] == "Succeeded";
    let done = cluster.pods("research", "rag-ablation-");
    assert!(done.iter().any(|pod| ended(&pod)));
}

/// What Stokehold sends to Volcano: a command about an object.
fn command(
    cluster: &mut WorldObjects,
    resource: Resource,
    namespace: &str,
    target: &str,
    action: &str,
) {
    let place = if resource == Resource::VolcanoJobs {
        namespace
    } else {
        ""
    };
    let object = cluster.get(resource, place, target).expect("the target");
    let name = format!("stokehold-{target}-{}", action.to_lowercase());
    cluster.ask(Request::Write(
        Resource::VolcanoCommands,
        json!({
            "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
            "metadata": {"name": name, "namespace": namespace},
            "action": action,
            "target": {"kind": object["kind"], "name": target, "uid": object["metadata"]["uid"]},
        }),
    ));
    assert!(
        of(&cluster.store, Resource::VolcanoCommands)
            .next()
            .is_some()
    );
    cluster.settle(60);
    assert!(
        of(&cluster.store, Resource::VolcanoCommands)
            .next()
            .is_none()
    );
}

fn group_of(cluster: &WorldObjects, resource: Resource, job: &str) -> Option<Value> {
    of(&cluster.store, resource)
        .find(|group| group["metadata"]["ownerReferences"][0]["name"] == job)
        .cloned()
}

#[test]
fn volcano_admits_places_aborts_and_resumes() {
    let mut cluster = fleet();
    let phase = |cluster: &WorldObjects, job: &str| {
        let job = cluster.get(Resource::VolcanoJobs, "lab", job);
        job.expect("the job")["status"]["state"]["phase"].clone()
    };
    let group = |cluster: &WorldObjects, job| group_of(cluster, Resource::VolcanoPodGroups, job);
    assert_eq!(phase(&cluster, "render-sim"), "Running");
    assert_eq!(phase(&cluster, "nerf-bake"), "Pending");
    let waiting = group(&cluster, "nerf-bake").expect("a PodGroup");
    assert_eq!(waiting["status"]["phase"], "Inqueue");
    assert_eq!(waiting["status"]["conditions"][0]["type"], "Unschedulable");
    let pod = cluster.pods("lab", "nerf-bake-worker-0").remove(0);
    assert_eq!(pod["spec"]["schedulerName"], "volcano");
    assert_eq!(
        pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"],
        waiting["metadata"]["name"]
    );
    let queue = cluster
        .get(Resource::VolcanoQueues, "", "rendering")
        .expect("the queue");
    assert_eq!(queue["status"]["allocated"]["nvidia.com/gpu"], "8");
    assert_eq!(
        (&queue["status"]["running"], &queue["status"]["inqueue"]),
        (&json!(1), &json!(1))
    );

    command(
        &mut cluster,
        Resource::VolcanoJobs,
        "lab",
        "render-sim",
        "AbortJob",
    );
    assert_eq!(phase(&cluster, "render-sim"), "Aborted");
    assert!(cluster.pods("lab", "render-sim-").is_empty());
    assert!(group(&cluster, "render-sim").is_none());
    cluster.settle(60);
    assert_eq!(phase(&cluster, "nerf-bake"), "Running");
    assert_eq!(live(&cluster.pods("lab", "nerf-bake-")), 2);

    // Of the queue's 24 devices 16 are taken: it is admitted, and finds no room until the other is aborted.
    command(
        &mut cluster,
        Resource::VolcanoJobs,
        "lab",
        "render-sim",
        "ResumeJob",
    );
    assert_eq!(phase(&cluster, "render-sim"), "Pending");
    command(
        &mut cluster,
        Resource::VolcanoJobs,
        "lab",
        "nerf-bake",
        "AbortJob",
    );
    cluster.settle(60);
    assert_eq!(phase(&cluster, "render-sim"), "Running");

    // A closed queue admits nothing; what runs runs on.
    command(
        &mut cluster,
        Resource::VolcanoQueues,
        "default",
        "rendering",
        "CloseQueue",
    );
    let state = |cluster: &WorldObjects| {
        let queue = cluster.get(Resource::VolcanoQueues, "", "rendering");
        queue.expect("the queue")["status"]["state"].clone()
    };
    assert_eq!(state(&cluster), "Closing");
    command(
        &mut cluster,
        Resource::VolcanoJobs,
        "lab",
        "nerf-bake",
        "ResumeJob",
    );
    let pending = group(&cluster, "nerf-bake").expect("a PodGroup");
    assert_eq!(pending["status"]["phase"], "Pending");
    assert!(cluster.pods("lab", "nerf-bake-").is_empty());
    command(
        &mut cluster,
        Resource::VolcanoQueues,
        "default",
        "rendering",
        "OpenQueue",
    );
    assert_eq!(state(&cluster), "Open");
    let admitted = group(&cluster, "nerf-bake").expect("a PodGroup");
    assert_eq!(admitted["status"]["phase"], "Inqueue");

    // The class of a job is copied to its PodGroup.
    cluster.edit(Resource::VolcanoJobs, "lab", "nerf-bake", |job| {
        job["spec"]["priorityClassName"] = json!("research-high")
    });
    let group = group(&cluster, "nerf-bake").expect("a PodGroup");
    assert_eq!(group["spec"]["priorityClassName"], "research-high");
    cluster.edit(Resource::VolcanoQueues, "", "rendering", |queue| {
        queue["spec"]["weight"] = json!(7)
    });
    cluster.settle(15);
    let queue = cluster
        .get(Resource::VolcanoQueues, "", "rendering")
        .expect("the queue");
    assert_eq!(queue["spec"]["weight"], 7);
}

#[test]
fn kai_keeps_to_the_limits_of_its_queues() {
    let mut cluster = fleet();
    let group = |cluster: &WorldObjects, job| {
        group_of(cluster, Resource::KaiPodGroups, job).expect("a PodGroup")
    };
    let waiting = group(&cluster, "diarize-l");
    let message = &waiting["status"]["schedulingConditions"][0]["reasons"][0];
    assert_eq!(message["reason"], "OverLimit");
    assert_eq!(waiting["status"]["pending"], 2);
    assert_eq!(group(&cluster, "wav2vec-ft")["status"]["running"], 2);
    let held = |cluster: &WorldObjects, queue: &str| {
        let queue = cluster
            .get(Resource::KaiQueues, "", queue)
            .expect("the queue");
        queue["status"]["allocated"]["nvidia.com/gpu"].clone()
    };
    assert_eq!(
        (held(&cluster, "audio"), held(&cluster, "media")),
        (json!("8"), json!("8"))
    );
    // The label that its pod-grouper reads.
    cluster.edit(Resource::PyTorchJobs, "speech", "diarize-l", |job| {
        job["metadata"]["labels"]["priorityClassName"] = json!("research-high")
    });
    let class =
        |cluster: &WorldObjects| group(cluster, "diarize-l")["spec"]["priorityClassName"].clone();
    cluster.settle(90);
    assert_eq!(class(&cluster), "research", "it watches pods alone");
    let pod = cluster.pods("speech", "diarize-l-").remove(0);
    cluster.edit(Resource::Pods, "speech", name(&pod), |pod| {
        pod["metadata"]["annotations"]["stokehold.dev/touched"] = json!("now")
    });
    assert_eq!(class(&cluster), "research-high");
    // It comes before the other now, which is preempted for it and waits.
    cluster.settle(90);
    assert_eq!(live(&cluster.pods("speech", "diarize-l-")), 2);
    assert_eq!(live(&cluster.pods("speech", "wav2vec-ft-")), 0);
    // A higher limit is enough for both.
    cluster.edit(Resource::KaiQueues, "", "audio", |queue| {
        queue["spec"]["resources"]["gpu"]["limit"] = json!(16)
    });
    cluster.settle(90);
    assert_eq!(live(&cluster.pods("speech", "wav2vec-ft-")), 2);
    assert_eq!(held(&cluster, "media"), "16");
    // A suspended job gives its devices back.
    cluster.edit(Resource::PyTorchJobs, "speech", "wav2vec-ft", |job| {
        job["spec"]["runPolicy"]["suspend"] = json!(true)
    });
    cluster.settle(60);
    assert!(cluster.pods("speech", "wav2vec-ft-").is_empty());
    assert_eq!(held(&cluster, "audio"), "8");
    cluster.delete(Resource::PyTorchJobs, "speech", "diarize-l");
    cluster.settle(60);
    assert_eq!(held(&cluster, "audio"), "0");
    assert!(group_of(&cluster, Resource::KaiPodGroups, "diarize-l").is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn laws_hold_whatever_clients_do_to_the_other_kinds(picks in prop::collection::vec((0u8..9, any::<prop::sample::Index>()), 1..14)) {
        let mut cluster = fleet();
        for (verb, at) in picks {
            let Some(request) = some_request(&cluster, verb, &at) else { continue };
            cluster.ask(request);
            cluster.settle(30);
        }
        same(&snapshot(&cluster.world), &cluster.store);
    }
}

/// Something that a client may do to one of the kinds that only large fleets have.
fn some_request(cluster: &WorldObjects, verb: u8, at: &prop::sample::Index) -> Option<Request> {
    let guest = |name: &str| {
        let known = |pool: &usize| POOLS[*pool].prefix;
        (DRAWN..POOL_COUNT).any(|pool| name.starts_with(known(&pool)))
    };
    let resources: &[Resource] = match verb {
        0 => &[Resource::Pods],
        1 | 2 => &[Resource::Nodes],
        3 => &[Resource::Workloads],
        4 => &[Resource::PyTorchJobs, Resource::RayJobs],
        5 => &[Resource::LeaderWorkerSets],
        6 => &[Resource::VolcanoJobs, Resource::VolcanoQueues],
        7 => &[
            Resource::RayClusters,
            Resource::StatefulSets,
            Resource::VolcanoPodGroups,
            Resource::KaiPodGroups,
            Resource::ResourceClaims,
        ],
        _ => &[
            Resource::PyTorchJobs,
            Resource::VolcanoJobs,
            Resource::KaiQueues,
        ],
    };
    let all: Vec<(&(Resource, ObjectKey), &Value)> = cluster
        .store
        .iter()
        .filter(|((kind, key), object)| {
            let node = object["spec"]["nodeName"].as_str().unwrap_or("");
            let owner = &object["metadata"]["ownerReferences"][0]["kind"];
            resources.contains(kind)
                && match kind {
                    Resource::Nodes => guest(&key.name),
                    Resource::Pods => guest(node),
                    Resource::Workloads => owner == "PyTorchJob" || owner == "RayJob",
                    Resource::StatefulSets => key.name.starts_with("chat-70b"),
                    _ => true,
                }
        })
        .collect();
    if all.is_empty() {
        return None;
    }
    let (key, object) = all[at.index(all.len())];
    let mut object = object.clone();
    let flip = |value: &mut Value| *value = Value::Bool(*value != Value::Bool(true));
    match verb {
        1 => flip(&mut object["spec"]["unschedulable"]),
        2 => {
            let taint = json!({"key": "maintenance", "value": "soon", "effect": "NoExecute"});
            match object["spec"]["taints"].as_array_mut() {
                Some(taints) => taints.push(taint),
                None => object["spec"]["taints"] = json!([taint]),
            }
        }
        3 => {
            let active = object["spec"]["active"] == true;
            object["spec"]["active"] = json!(!active);
        }
        4 if key.0 == Resource::PyTorchJobs => flip(&mut object["spec"]["runPolicy"]["suspend"]),
        4 => flip(&mut object["spec"]["suspend"]),
        5 => object["spec"]["replicas"] = json!(at.index(4)),
        6 => {
            let actions = match key.0 {
                Resource::VolcanoQueues => &["CloseQueue", "OpenQueue"][..],
                _ => &[
                    "AbortJob",
                    "ResumeJob",
                    "RestartJob",
                    "TerminateJob",
                    "CompleteJob",
                ],
            };
            let action = actions[at.index(actions.len() * 7) % actions.len()];
            let namespace = object["metadata"]["namespace"]
                .as_str()
                .unwrap_or("default");
            let name = format!("c-{}-{}", name(&object), cluster.world.now().millis());
            let command = json!({
                "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command",
                "metadata": {"name": name, "namespace": namespace}, "action": action,
                "target": {"kind": object["kind"], "name": object["metadata"]["name"], "uid": object["metadata"]["uid"]},
            });
            return Some(Request::Write(Resource::VolcanoCommands, command));
        }
        _ => return Some(Request::Delete(key.0, key.1.clone(), None)),
    }
    Some(Request::Write(key.0, object))
}
