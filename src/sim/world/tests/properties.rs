//! The laws that hold at every moment, checked on what the API serves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::super::super::change::{Resource, SimBackend};
use super::super::World;
use super::super::{catalog, queueing::kueue};
use super::{Store, of};
use model::base::{Moment, ObjectKey};

/// The laws that hold at every moment, on what the API serves.
pub(super) fn check_properties(world: &World, store: &Store) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let count = |value: &Value| {
        value
            .as_str()
            .and_then(|text| text.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let over = |pod: &Value| {
        matches!(
            pod["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed")
        )
    };

    // Every owner exists, is the controller, and has the uid in the reference, unless the pod is ending.
    let mut uids: BTreeSet<String> = BTreeSet::new();
    for object in store.values() {
        let uid = text(&object["metadata"]["uid"]);
        assert_eq!(uid.len(), 36, "{object}");
        assert!(uids.insert(uid), "two objects share a uid: {object}");
        assert!(object["metadata"]["resourceVersion"].is_null());
        let created = text(&object["metadata"]["creationTimestamp"]);
        let created = Moment::parse(&created).expect("a creation time");
        assert!(created <= world.now(), "{object} comes from the future");
    }
    for object in store.values() {
        for owner in object["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let plain = ["Node", "NodePool"].map(Value::from);
            // KAI's pod-grouper names an owner that is no controller.
            let kai = object["apiVersion"] == "scheduling.run.ai/v2alpha2";
            assert!(owner["controller"] == true || kai || plain.contains(&owner["kind"]));
            let ending = !object["metadata"]["deletionTimestamp"].is_null();
            assert!(
                ending || uids.contains(&text(&owner["uid"])),
                "{object} has lost its owner"
            );
        }
    }

    // No node is promised more than it offers; no pod runs on a node that is not there.
    let mut asked: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut cpu: BTreeMap<String, i64> = BTreeMap::new();
    for pod in of(store, Resource::Pods).filter(|pod| !over(pod)) {
        let Some(node) = pod["spec"]["nodeName"].as_str() else {
            assert_eq!(pod["status"]["phase"], "Pending");
            continue;
        };
        assert!(
            store.contains_key(&(Resource::Nodes, ObjectKey::new("", node))),
            "{node} is gone"
        );
        for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
            for (name, amount) in container["resources"]["requests"]
                .as_object()
                .into_iter()
                .flatten()
            {
                if name.contains('/') {
                    *asked.entry((node.to_owned(), name.clone())).or_default() += count(amount);
                } else if name == "cpu" {
                    *cpu.entry(node.to_owned()).or_default() +=
                        model::base::quantities::quantity_milli(&text(amount)).expect("a quantity");
                }
            }
        }
    }
    for ((node, name), amount) in asked {
        let object = &store[&(Resource::Nodes, ObjectKey::new("", node.clone()))];
        let has = count(&object["status"]["capacity"][&name]);
        assert!(amount <= has, "{node} has {has} {name} and holds {amount}");
    }
    for (node, milli) in cpu {
        let object = &store[&(Resource::Nodes, ObjectKey::new("", node.clone()))];
        let has =
            model::base::quantities::quantity_milli(&text(&object["status"]["capacity"]["cpu"]));
        assert!(Some(milli) <= has, "{node} has too much CPU asked of it");
    }

    // No device is allocated twice, and each pod has the devices that it requested.
    let mut held = BTreeSet::new();
    for pod in world.pods.values().filter(|pod| !pod.phase.is_over()) {
        let work = &world.works[&pod.work];
        let Some(node) = pod.node else { continue };
        assert_eq!(pod.units.len() as u32, work.ask.count, "{}", pod.key);
        for unit in &pod.units {
            assert!(
                held.insert((node, *unit)),
                "{} holds a device twice",
                pod.key
            );
            assert_eq!(
                world.nodes[node].unit_pods[usize::from(*unit)].map(|id| &world.pods[&id].key),
                Some(&pod.key)
            );
        }
    }
    let books: usize = world
        .nodes
        .iter()
        .map(|node| node.unit_pods.iter().flatten().count())
        .sum();
    assert_eq!(books, held.len(), "a device is held by nobody that lives");

    claims(store);

    // A gang has all its pods placed, or none.
    for work in world
        .works
        .values()
        .filter(|work| work.gang && !work.is_over() && !work.suspended)
    {
        let active: Vec<_> = work
            .pods
            .iter()
            .map(|id| &world.pods[id])
            .filter(|pod| pod.is_active())
            .collect();
        let placed = active.iter().filter(|pod| pod.node.is_some()).count();
        assert!(
            placed == 0 || placed as u32 == work.width(),
            "{}/{}: {placed} of {} placed",
            work.namespace,
            work.name,
            work.width()
        );
    }

    // Quota: what a queue uses is the sum of what it admitted, within nominal and borrowing, and no cohort lends twice.
    let mut reserved: BTreeMap<(String, String), u64> = BTreeMap::new();
    for workload in of(store, Resource::Workloads) {
        let admission = &workload["status"]["admission"];
        for row in admission["podSetAssignments"]
            .as_array()
            .into_iter()
            .flatten()
        {
            for (resource, flavor) in row["flavors"].as_object().into_iter().flatten() {
                let key = (
                    text(&admission["clusterQueue"]),
                    format!("{}/{resource}", text(flavor)),
                );
                *reserved.entry(key).or_default() += count(&row["resourceUsage"][resource]);
            }
        }
    }
    for queue in &world.queues.clusters {
        for quota in &queue.quotas {
            let flavor = catalog::POOLS[quota.flavor].flavor;
            let key = (
                queue.name.to_string(),
                format!("{flavor}/{}", quota.resource),
            );
            assert_eq!(
                reserved.remove(&key).unwrap_or(0),
                u64::from(quota.used),
                "{key:?}"
            );
            if let Some(borrow) = quota.borrow {
                assert!(
                    quota.used <= quota.nominal + borrow,
                    "{key:?} borrows {} over",
                    quota.used - quota.nominal
                );
            }
            let same = |other: &&kueue::SimQuota| {
                other.flavor == quota.flavor && other.resource == quota.resource
            };
            let cohort = || {
                world
                    .queues
                    .clusters
                    .iter()
                    .filter(|other| other.cohort == queue.cohort)
                    .flat_map(|other| &other.quotas)
                    .filter(same)
            };
            let (used, nominal): (u32, u32) = (
                cohort().map(|q| q.used).sum(),
                cohort().map(|q| q.nominal).sum(),
            );
            assert!(
                used <= nominal,
                "cohort {} uses {used} of {nominal} {flavor}",
                queue.cohort
            );
        }
    }
    assert!(reserved.is_empty(), "{reserved:?}");

    // Budgets count true, and controllers' numbers are those of their pods.
    let mut owned: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for pod in of(store, Resource::Pods) {
        let owner = text(&pod["metadata"]["ownerReferences"][0]["uid"]);
        owned.entry(owner).or_default().push(pod);
    }
    let pods_of = |uid: &Value| {
        owned
            .get(uid.as_str().unwrap_or_default())
            .cloned()
            .unwrap_or_default()
    };
    let ready = |pod: &Value| {
        pod["metadata"]["deletionTimestamp"].is_null()
            && pod["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|row| row["type"] == "Ready" && row["status"] == "True")
    };
    for budget in of(store, Resource::PodDisruptionBudgets) {
        let wanted = budget["spec"]["selector"]["matchLabels"]
            .as_object()
            .expect("a selector");
        let healthy = of(store, Resource::Pods)
            .filter(|pod| pod["metadata"]["namespace"] == budget["metadata"]["namespace"])
            .filter(|pod| {
                wanted
                    .iter()
                    .all(|(key, value)| pod["metadata"]["labels"][key] == *value)
            })
            .filter(|pod| ready(pod))
            .count() as u64;
        let status = &budget["status"];
        assert_eq!(status["currentHealthy"], healthy, "{budget}");
        let allowed = healthy.saturating_sub(status["desiredHealthy"].as_u64().expect("a number"));
        assert_eq!(status["disruptionsAllowed"], allowed, "{budget}");
    }
    let number = |value: &Value| value.as_u64().unwrap_or(0) as usize;
    for job in of(store, Resource::Jobs) {
        let pods = pods_of(&job["metadata"]["uid"]);
        let live = pods
            .iter()
            .filter(|pod| !over(pod) && pod["metadata"]["deletionTimestamp"].is_null())
            .count();
        let status = &job["status"];
        assert_eq!(number(&status["active"]), live, "{job}");
        assert_eq!(
            number(&status["ready"]),
            pods.iter().filter(|pod| ready(pod)).count(),
            "{job}"
        );
        assert!(
            number(&status["succeeded"]) <= number(&job["spec"]["completions"]),
            "{job}"
        );
        if job["spec"]["suspend"] == true && status["completionTime"].is_null() {
            assert_eq!(live, 0, "{job} is suspended and has live pods");
        }
    }
    for (resource, field) in [
        (Resource::PyTorchJobs, "/spec/runPolicy/suspend"),
        (Resource::RayJobs, "/spec/suspend"),
    ] {
        for job in of(store, resource) {
            let key = super::key_of(job);
            let work = world
                .works
                .values()
                .find(|work| {
                    let uid = super::super::noise::uuid(work.uid);
                    work.kind.resource() == Some(resource) && job["metadata"]["uid"] == uid
                })
                .expect("its work");
            let active = work.pods.iter().filter(|id| world.pods[id].is_active());
            let over = work.is_over();
            if job.pointer(field) == Some(&Value::Bool(true)) || over {
                assert_eq!(active.count(), 0, "{key} is suspended or over and has pods");
            }
        }
    }
    for cluster in of(store, Resource::RayClusters) {
        let pods = pods_of(&cluster["metadata"]["uid"]);
        let head = |pod: &&&Value| pod["metadata"]["labels"]["ray.io/node-type"] == "head";
        let ready = pods.iter().filter(|pod| ready(pod) && !head(pod)).count();
        assert_eq!(number(&cluster["status"]["readyWorkerReplicas"]), ready);
    }
    for set in of(store, Resource::ReplicaSets) {
        let pods = pods_of(&set["metadata"]["uid"]);
        let live = pods
            .iter()
            .filter(|pod| !over(pod) && pod["metadata"]["deletionTimestamp"].is_null())
            .count();
        assert_eq!(number(&set["status"]["replicas"]), live);
        assert_eq!(
            number(&set["status"]["readyReplicas"]),
            pods.iter().filter(|pod| ready(pod)).count()
        );
    }
}

/// Each pod with a claim template has its claim, allocated when the pod has a node, to devices that its node publishes; no device
/// is allocated twice, and no such node offers them through a device plugin as well.
fn claims(store: &Store) {
    let mut given = BTreeSet::new();
    let mut owned = 0;
    for pod in of(store, Resource::Pods) {
        let namespace = pod["metadata"]["namespace"].as_str().expect("a text");
        let statuses = pod["status"]["resourceClaimStatuses"].as_array();
        for status in statuses.into_iter().flatten() {
            owned += 1;
            let name = status["resourceClaimName"].as_str().expect("a text");
            let key = (Resource::ResourceClaims, ObjectKey::new(namespace, name));
            let claim = &store[&key];
            assert_eq!(
                claim["metadata"]["ownerReferences"][0]["uid"],
                pod["metadata"]["uid"]
            );
            let results = claim["status"]["allocation"]["devices"]["results"].as_array();
            assert_eq!(results.is_some(), pod["spec"]["nodeName"].is_string());
            let Some(results) = results else { continue };
            let count = &claim["spec"]["devices"]["requests"][0]["exactly"]["count"];
            assert_eq!(Some(results.len() as u64), count.as_u64());
            let slice = of(store, Resource::ResourceSlices)
                .find(|slice| slice["spec"]["nodeName"] == pod["spec"]["nodeName"])
                .expect("the node's slice");
            for result in results {
                let published = slice["spec"]["devices"].as_array().expect("devices");
                assert!(published.iter().any(|it| it["name"] == result["device"]));
                let device = (result["pool"].to_string(), result["device"].to_string());
                assert!(given.insert(device), "{result} is allocated twice");
            }
        }
    }
    assert_eq!(of(store, Resource::ResourceClaims).count(), owned);
    for slice in of(store, Resource::ResourceSlices) {
        let node = slice["spec"]["nodeName"].as_str().expect("a text");
        let node = &store[&(Resource::Nodes, ObjectKey::new("", node))];
        assert!(node["status"]["capacity"]["nvidia.com/gpu"].is_null());
    }
}
