//! Tests of clients' requests and their effects.

use serde_json::{Value, json};

use super::super::super::change::{Request, Resource, SimBackend, WorldChange};
use super::super::{Options, World};
use super::properties::check_properties;
use super::{Store, begin, fold, noon, same, snapshot};
use model::base::ObjectKey;

/// A world with the objects that its API would serve.
pub(super) struct WorldObjects {
    pub(super) world: World,
    pub(super) store: Store,
}

impl WorldObjects {
    pub(super) fn new() -> Self {
        let (world, store) = begin(Options {
            devices: Some(900),
            ..Options::new(noon())
        });
        Self { world, store }
    }

    pub(super) fn wait(&mut self, seconds: i64) {
        let to = self.world.now().plus(super::super::seconds(seconds));
        let changes = self.world.advance(to);
        fold(&mut self.store, changes);
    }

    pub(super) fn ask(&mut self, request: Request) {
        let changes = self.world.request(request);
        if let Some(WorldChange::Put(_, object)) = changes.first() {
            assert!(object["metadata"]["uid"].is_string());
        }
        fold(&mut self.store, changes);
        same(&snapshot(&self.world), &self.store);
    }

    pub(super) fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Value> {
        self.store
            .get(&(resource, ObjectKey::new(namespace, name)))
            .cloned()
    }

    pub(super) fn edit(
        &mut self,
        resource: Resource,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) {
        let mut object = self.get(resource, namespace, name).expect("the object");
        change(&mut object);
        self.ask(Request::Write(resource, object));
    }

    pub(super) fn delete(&mut self, resource: Resource, namespace: &str, name: &str) {
        let key = ObjectKey::new(namespace, name);
        self.ask(Request::Delete(resource, key, None));
    }

    pub(super) fn pods(&self, namespace: &str, prefix: &str) -> Vec<Value> {
        self.store
            .iter()
            .filter(|((kind, key), _)| {
                *kind == Resource::Pods
                    && &*key.namespace == namespace
                    && key.name.starts_with(prefix)
            })
            .map(|(_, pod)| pod.clone())
            .collect()
    }
}

pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(super) fn live(pods: &[Value]) -> usize {
    pods.iter()
        .filter(|pod| {
            pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] == "Running"
        })
        .count()
}

#[test]
fn a_cordon_taints_and_an_uncordon_heals() {
    let mut cluster = WorldObjects::new();
    cluster.edit(Resource::Nodes, "", "a100-2", |node| {
        node["spec"]["unschedulable"] = json!(true)
    });
    let node = cluster
        .get(Resource::Nodes, "", "a100-2")
        .expect("the node");
    assert_eq!(
        node["spec"]["taints"][0]["key"],
        "node.kubernetes.io/unschedulable"
    );
    cluster.edit(Resource::Nodes, "", "a100-2", |node| {
        node["metadata"]["annotations"]["stokehold.dev/cordoned-by"] = json!("me");
        node["spec"]
            .as_object_mut()
            .expect("a spec")
            .remove("unschedulable");
    });
    let node = cluster
        .get(Resource::Nodes, "", "a100-2")
        .expect("the node");
    assert!(node["spec"]["taints"].is_null() && node["spec"]["unschedulable"].is_null());
    assert_eq!(
        node["metadata"]["annotations"]["stokehold.dev/cordoned-by"],
        "me"
    );
    cluster.wait(700);
    let node = cluster
        .get(Resource::Nodes, "", "a100-2")
        .expect("the node");
    assert_eq!(
        node["metadata"]["annotations"]["stokehold.dev/cordoned-by"], "me",
        "a heartbeat keeps it"
    );
}

#[test]
fn a_no_execute_taint_empties_the_node() {
    let mut cluster = WorldObjects::new();
    cluster.edit(Resource::Nodes, "", "h100-1", |node| {
        node["spec"]["taints"] = json!([{"key": "repair", "effect": "NoExecute"}]);
    });
    cluster.wait(90);
    let held: Vec<_> = cluster.pods("", "");
    assert!(held.is_empty());
    let on_it = cluster
        .store
        .iter()
        .filter(|((kind, _), pod)| {
            *kind == Resource::Pods
                && pod["spec"]["nodeName"] == "h100-1"
                && pod["status"]["phase"] == "Running"
        })
        .map(|((_, key), _)| key.namespace.to_string())
        .collect::<Vec<_>>();
    assert_eq!(
        on_it,
        ["gpu-operator"],
        "only the exporter tolerates everything"
    );
    check_properties(&cluster.world, &cluster.store);
}

#[test]
fn an_evicted_replica_comes_back_elsewhere_and_the_budget_counts() {
    let mut cluster = WorldObjects::new();
    let before = cluster
        .get(Resource::PodDisruptionBudgets, "prod", "search-embed")
        .expect("the budget");
    let victim = cluster.pods("prod", "search-embed-")[0].clone();
    cluster.ask(Request::Delete(
        Resource::Pods,
        ObjectKey::new("prod", name(&victim)),
        Some(30),
    ));
    let ending = cluster
        .get(Resource::Pods, "prod", name(&victim))
        .expect("ending, not gone");
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 30);
    let during = cluster
        .get(Resource::PodDisruptionBudgets, "prod", "search-embed")
        .expect("the budget");
    let allowed = |budget: &Value| {
        budget["status"]["disruptionsAllowed"]
            .as_i64()
            .unwrap_or(-1)
    };
    assert_eq!(allowed(&during), allowed(&before) - 1);
    // Before the first spot machine is reclaimed.
    cluster.wait(130);
    assert!(cluster.get(Resource::Pods, "prod", name(&victim)).is_none());
    let after = cluster
        .get(Resource::PodDisruptionBudgets, "prod", "search-embed")
        .expect("the budget");
    assert_eq!(
        after["status"]["currentHealthy"],
        before["status"]["currentHealthy"]
    );
    check_properties(&cluster.world, &cluster.store);
}

#[test]
fn a_gang_that_loses_a_pod_restarts_whole() {
    let mut cluster = WorldObjects::new();
    let gang = cluster
        .world
        .works
        .values()
        .find(|work| {
            work.kind == super::super::work::WorkKind::JobSet
                && work.state == super::super::work::WorkState::Running
                && work.width() > 1
        })
        .map(|work| {
            (
                work.namespace.to_string(),
                work.name.to_string(),
                work.width() as usize,
            )
        })
        .expect("a running gang");
    let old = cluster.pods(&gang.0, &format!("{}-workers-", gang.1));
    assert_eq!(live(&old), gang.2);
    cluster.ask(Request::Delete(
        Resource::Pods,
        ObjectKey::new(&*gang.0, name(&old[0])),
        None,
    ));
    cluster.wait(400);
    let set = cluster
        .get(Resource::JobSets, &gang.0, &gang.1)
        .expect("the set");
    assert_eq!(set["status"]["restarts"], 1);
    for pod in &old {
        assert!(
            cluster.get(Resource::Pods, &gang.0, name(pod)).is_none(),
            "{} is an old member",
            name(pod)
        );
    }
    check_properties(&cluster.world, &cluster.store);
}

#[test]
fn a_job_is_suspended_and_resumed() {
    let mut cluster = WorldObjects::new();
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "mine", "namespace": "nlp", "annotations": {"stokehold.dev/runtime-estimate": "2h"}},
        "spec": {"parallelism": 2, "completions": 2, "template": {
            "metadata": {"labels": {"app": "mine"}},
            "spec": {"restartPolicy": "Never", "nodeSelector": {"karpenter.sh/nodepool": "a100-shared"},
                "containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        }},
    });
    cluster.ask(Request::Write(Resource::Jobs, job));
    cluster.wait(60);
    let pods = cluster.pods("nlp", "mine-");
    assert_eq!(live(&pods), 2, "{pods:#?}");
    assert_eq!(
        pods[0]["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"],
        "1"
    );
    assert_eq!(pods[0]["metadata"]["labels"]["app"], "mine");
    assert!(
        pods[0]["spec"]["nodeName"]
            .as_str()
            .is_some_and(|node| node.starts_with("a100-"))
    );
    cluster.edit(Resource::Jobs, "nlp", "mine", |job| {
        job["spec"]["suspend"] = json!(true)
    });
    cluster.wait(40);
    assert!(cluster.pods("nlp", "mine-").is_empty());
    let job = cluster.get(Resource::Jobs, "nlp", "mine").expect("the job");
    assert_eq!(job["status"]["conditions"][0]["type"], "Suspended");
    cluster.edit(Resource::Jobs, "nlp", "mine", |job| {
        job["spec"]["suspend"] = json!(false)
    });
    cluster.wait(60);
    assert_eq!(live(&cluster.pods("nlp", "mine-")), 2);
    cluster.ask(Request::Delete(
        Resource::Jobs,
        ObjectKey::new("nlp", "mine"),
        None,
    ));
    cluster.wait(60);
    assert!(cluster.pods("nlp", "mine-").is_empty());
    assert!(cluster.get(Resource::Jobs, "nlp", "mine").is_none());
    check_properties(&cluster.world, &cluster.store);
}

#[test]
fn kueue_has_the_last_word_on_what_it_manages() {
    let mut cluster = WorldObjects::new();
    let (namespace, workload, job) = cluster
        .world
        .works
        .values()
        .find(|work| {
            work.kind == super::super::work::WorkKind::Job
                && work.workload.as_ref().is_some_and(|w| w.reserved.is_some())
                && work.width() == 1
                && work.running_since.is_some()
        })
        .map(|work| {
            (
                work.namespace.to_string(),
                work.workload
                    .as_ref()
                    .map(|w| w.name.to_string())
                    .unwrap_or_default(),
                work.name.to_string(),
            )
        })
        .expect("an admitted job");
    // Suspending the job itself is reverted by Kueue.
    cluster.edit(Resource::Jobs, &namespace, &job, |job| {
        job["spec"]["suspend"] = json!(true)
    });
    assert_eq!(
        cluster
            .get(Resource::Jobs, &namespace, &job)
            .expect("the job")["spec"]["suspend"],
        false
    );
    // Deactivating its Workload works.
    cluster.edit(Resource::Workloads, &namespace, &workload, |object| {
        object["spec"]["active"] = json!(false)
    });
    cluster.wait(60);
    let condition = |cluster: &WorldObjects, kind: &str| {
        let object = cluster.get(Resource::Workloads, &namespace, &workload);
        let object = object.expect("the workload");
        let rows = object["status"]["conditions"].as_array();
        let found = rows.into_iter().flatten().find(|row| row["type"] == kind);
        found.unwrap_or_else(|| panic!("{kind}")).clone()
    };
    let evicted = condition(&cluster, "Evicted");
    assert_eq!(
        (&evicted["status"], &evicted["reason"]),
        (&json!("True"), &json!("Deactivated"))
    );
    assert_eq!(
        cluster
            .get(Resource::Jobs, &namespace, &job)
            .expect("the job")["spec"]["suspend"],
        true
    );
    assert!(cluster.pods(&namespace, &format!("{job}-")).is_empty());
    cluster.edit(Resource::Workloads, &namespace, &workload, |object| {
        object["spec"]["active"] = json!(true)
    });
    // The condition keeps the time since which it is pending, as with Kueue.
    let requeued = condition(&cluster, "Requeued");
    assert_eq!(
        (&requeued["status"], &requeued["reason"]),
        (&json!("True"), &json!("Reactivated"))
    );
    cluster.edit(Resource::Workloads, &namespace, &workload, |object| {
        object["spec"]["priority"] = json!(95)
    });
    cluster.wait(60);
    let object = cluster
        .get(Resource::Workloads, &namespace, &workload)
        .expect("the workload");
    assert_eq!(object["spec"]["priority"], 95);
    assert!(
        object["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .all(|row| row["reason"] != "Deactivated")
    );
    check_properties(&cluster.world, &cluster.store);
}

#[test]
fn a_service_is_scaled_and_labels_stay() {
    let mut cluster = WorldObjects::new();
    cluster.edit(Resource::Deployments, "prod", "moderation", |object| {
        object["spec"]["replicas"] = json!(3);
        object["metadata"]["labels"]["note"] = json!("small");
    });
    cluster.wait(120);
    let object = cluster
        .get(Resource::Deployments, "prod", "moderation")
        .expect("the deployment");
    assert_eq!(object["status"]["readyReplicas"], 3);
    assert_eq!(object["metadata"]["labels"]["note"], "small");
    assert_eq!(
        object["metadata"]["generation"],
        object["status"]["observedGeneration"]
    );
    assert_eq!(live(&cluster.pods("prod", "moderation-")), 3);
    check_properties(&cluster.world, &cluster.store);
}

#[test]
fn pods_budgets_and_plain_objects_come_and_go() {
    let mut cluster = WorldObjects::new();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "shell", "namespace": "lab", "labels": {"app": "shell"}},
        "spec": {"containers": [{"name": "sh", "image": "busybox"}], "tolerations": [{"operator": "Exists"}], "nodeSelector": {"kubernetes.io/hostname": "mi300x-1"}},
    });
    cluster.ask(Request::Write(Resource::Pods, pod));
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "shell", "namespace": "lab"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "shell"}}},
    });
    cluster.ask(Request::Write(Resource::PodDisruptionBudgets, budget));
    cluster.wait(40);
    let pod = cluster
        .get(Resource::Pods, "lab", "shell")
        .expect("the pod");
    assert_eq!(
        (&pod["spec"]["nodeName"], &pod["status"]["phase"]),
        (&json!("mi300x-1"), &json!("Running"))
    );
    assert_eq!(pod["status"]["qosClass"], "BestEffort");
    let budget = cluster
        .get(Resource::PodDisruptionBudgets, "lab", "shell")
        .expect("the budget");
    assert_eq!(
        (
            &budget["status"]["currentHealthy"],
            &budget["status"]["disruptionsAllowed"]
        ),
        (&json!(1), &json!(0))
    );
    cluster.ask(Request::Delete(
        Resource::Pods,
        ObjectKey::new("lab", "shell"),
        Some(0),
    ));
    assert!(cluster.get(Resource::Pods, "lab", "shell").is_none());
    for (resource, kind) in [
        (Resource::ConfigMaps, "ConfigMap"),
        (Resource::Namespaces, "Namespace"),
    ] {
        let namespace = if kind == "Namespace" { "" } else { "lab" };
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "thing"}});
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = json!(namespace);
        }
        cluster.ask(Request::Write(resource, object));
        let made = cluster
            .get(resource, namespace, "thing")
            .expect("the object");
        assert!(
            made["metadata"]["uid"].is_string()
                && made["metadata"]["creationTimestamp"].is_string()
        );
        cluster.ask(Request::Delete(
            resource,
            ObjectKey::new(namespace, "thing"),
            None,
        ));
        assert!(cluster.get(resource, namespace, "thing").is_none());
    }
    check_properties(&cluster.world, &cluster.store);
}

#[test]
fn a_stopped_queue_is_drained_and_a_deleted_node_is_cleared() {
    let mut cluster = WorldObjects::new();
    cluster.edit(Resource::ClusterQueues, "", "research", |queue| {
        queue["spec"]["stopPolicy"] = json!("HoldAndDrain")
    });
    cluster.wait(60);
    let queue = cluster
        .get(Resource::ClusterQueues, "", "research")
        .expect("the queue");
    assert_eq!(queue["status"]["admittedWorkloads"], 0);
    assert_eq!(queue["status"]["conditions"][0]["reason"], "Stopped");
    check_properties(&cluster.world, &cluster.store);
    cluster.ask(Request::Delete(
        Resource::Nodes,
        ObjectKey::new("", "l4-3"),
        None,
    ));
    cluster.wait(60);
    assert!(cluster.get(Resource::Nodes, "", "l4-3").is_none());
    assert!(
        cluster
            .store
            .values()
            .all(|object| object["spec"]["nodeName"] != "l4-3")
    );
    check_properties(&cluster.world, &cluster.store);
    cluster.ask(Request::Delete(
        Resource::Namespaces,
        ObjectKey::new("", "speech"),
        None,
    ));
    cluster.wait(60);
    assert!(
        cluster
            .store
            .keys()
            .all(|(kind, key)| &*key.namespace != "speech" || *kind == Resource::Events)
    );
    check_properties(&cluster.world, &cluster.store);
}

/// A cluster queue of a cohort with four L4, and its local queue in `nlp`.
fn queue(name: &str) -> [Value; 2] {
    [
        json!({
            "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": name},
            "spec": {
                "cohort": "pair", "namespaceSelector": {}, "preemption": {"reclaimWithinCohort": "Any"},
                "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [
                    {"name": "l4", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "4"}]},
                ]}],
            },
        }),
        json!({
            "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": {"name": name, "namespace": "nlp"},
            "spec": {"clusterQueue": name},
        }),
    ]
}

fn queued_job(name: &str, queue: &str, pods: u32) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": "nlp", "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {"suspend": true, "parallelism": pods, "completions": pods, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        }}},
    })
}

#[test]
fn an_owner_reclaims_what_its_cohort_borrowed() {
    let mut cluster = WorldObjects::new();
    for name in ["left", "right"] {
        let [cluster_queue, local] = queue(name);
        cluster.ask(Request::Write(Resource::ClusterQueues, cluster_queue));
        cluster.ask(Request::Write(Resource::LocalQueues, local));
    }
    let suspended = |cluster: &WorldObjects, name: &str| {
        cluster.get(Resource::Jobs, "nlp", name).expect("the job")["spec"]["suspend"].clone()
    };
    cluster.ask(Request::Write(Resource::Jobs, queued_job("own", "left", 4)));
    cluster.wait(5);
    cluster.ask(Request::Write(
        Resource::Jobs,
        queued_job("lent", "left", 3),
    ));
    cluster.wait(5);
    assert_eq!(
        (suspended(&cluster, "own"), suspended(&cluster, "lent")),
        (json!(false), json!(false))
    );
    let status = |cluster: &WorldObjects| {
        cluster
            .get(Resource::ClusterQueues, "", "left")
            .expect("the queue")["status"]
            .clone()
    };
    assert_eq!(
        status(&cluster)["flavorsUsage"][0]["resources"][0]["borrowed"],
        "3"
    );
    // More than the cohort has left, and above its own nominal quota: it stays pending.
    cluster.ask(Request::Write(
        Resource::Jobs,
        queued_job("greedy", "left", 2),
    ));
    cluster.wait(5);
    assert_eq!(suspended(&cluster, "greedy"), json!(true));
    // The other queue reclaims its nominal quota: the newest borrower is preempted, and is not readmitted immediately.
    cluster.ask(Request::Write(
        Resource::Jobs,
        queued_job("owner", "right", 4),
    ));
    cluster.wait(30);
    assert_eq!(suspended(&cluster, "owner"), json!(false));
    assert_eq!(suspended(&cluster, "lent"), json!(true));
    assert_eq!(suspended(&cluster, "own"), json!(false));
    let evicted = cluster
        .store
        .iter()
        .find(|((kind, key), _)| *kind == Resource::Workloads && key.name.starts_with("job-lent-"))
        .map(|(_, object)| object["status"]["conditions"].clone())
        .expect("its workload");
    let reasons: Vec<&str> = evicted
        .as_array()
        .into_iter()
        .flatten()
        .filter(|row| row["status"] == "True")
        .filter_map(|row| row["reason"].as_str())
        .collect();
    assert!(
        reasons.contains(&"Preempted") && reasons.contains(&"InCohortReclamation"),
        "{reasons:?}"
    );
    assert_eq!(
        status(&cluster)["flavorsUsage"][0]["resources"][0]["borrowed"],
        "0"
    );
    check_properties(&cluster.world, &cluster.store);
}
