//! What `explain` says of the jobs that wait on the demo fleet: each reason held against what the simulated Kueue and
//! scheduler say themselves, each change done to a copy of the same world.

use std::collections::BTreeMap;

use engine::explain::{StartState, TaintName, Unblock, UnblockChange};
use engine::explanations::{self, WorkloadExplanation};
use engine::snapshot::{Snapshot, Status, Workload};
use sim::change::SimBackend;
use sim::world::{Options, World};

use super::stage::{self, begin, pass};
use super::*;

/// What is made at the start has settled by then: pods that are admitted at once have their nodes, seconds.
const SETTLED: u64 = 30;
/// Nobody may take longer to start once nothing is in the way: pods of large gangs are made and bound by and by, seconds.
const PATIENCE: u64 = 120;

/// The path of an object of the API.
fn path(group: &str, namespace: &str, kind: &str, name: &str) -> String {
    match namespace {
        "" => format!("/{group}/{kind}/{name}"),
        namespace => format!("/{group}/namespaces/{namespace}/{kind}/{name}"),
    }
}

const KUEUE: &str = "apis/kueue.x-k8s.io/v1beta1";

/// Where the controller of a workload is.
fn owner(work: &Workload) -> String {
    let key = &work.key.key;
    let (group, kind) = match work.key.kind.as_str() {
        "Job" => ("apis/batch/v1", "jobs"),
        "JobSet" => ("apis/jobset.x-k8s.io/v1alpha2", "jobsets"),
        "Deployment" => ("apis/apps/v1", "deployments"),
        "StatefulSet" => ("apis/apps/v1", "statefulsets"),
        "Pod" => ("api/v1", "pods"),
        other => panic!("{other}: no path known"),
    };
    path(group, &key.namespace, kind, &key.name)
}

/// The pod template of a controller.
fn template<'a>(object: &'a mut Value, kind: &str) -> &'a mut Value {
    let pointer = match kind {
        "JobSet" => "/spec/replicatedJobs/0/template/spec/template",
        "Pod" => "",
        _ => "/spec/template",
    };
    object.pointer_mut(pointer).expect("a template")
}

async fn must(service: &FaultyService, method: Method, path: &str, body: &Value) {
    let (code, answer) = service.send(method.clone(), path, body).await;
    assert!(code < 300, "{method} {path}: {code} {answer}");
}

/// Changes a controller's template as its owner would: in place while it is suspended, else by making it anew.
async fn retemplate(service: &FaultyService, work: &Workload, edit: impl Fn(&mut Value)) {
    let path = owner(work);
    let kind = work.key.kind.as_str();
    let mut object = service.get(&path).await;
    edit(template(&mut object, kind));
    let suspended = object.pointer("/spec/suspend") == Some(&Value::Bool(true));
    if suspended {
        return must(service, Method::PUT, &path, &object).await;
    }
    must(service, Method::DELETE, &path, &json!({})).await;
    pass(40).await;
    let metadata = &object["metadata"];
    let mut fresh = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "spec": object["spec"],
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "labels": metadata["labels"], "annotations": metadata["annotations"]},
    });
    if let Some(spec) = fresh["spec"].as_object_mut() {
        spec.remove("selector");
    }
    let pod = template(&mut fresh, kind);
    if let Some(labels) = pod
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut)
    {
        labels.retain(|key, _| !key.contains("controller-uid"));
    }
    let all = path.rsplit_once('/').expect("a name").0;
    must(service, Method::POST, all, &fresh).await;
}

fn toleration(taint: &TaintName) -> Value {
    json!({"key": taint.key.as_str(), "operator": "Equal", "value": taint.value.as_str(), "effect": taint.effect})
}

/// Does one change to the cluster, as an operator would through its API.
async fn carry(service: &FaultyService, change: &UnblockChange, work: &Workload, fleet: &Snapshot) {
    match change {
        UnblockChange::Wait { at } => {
            let seconds = (at.millis() - begin().millis()) / 1_000;
            pass(seconds.max(0).unsigned_abs()).await;
        }
        UnblockChange::Tolerate { taints } => {
            let more: Vec<Value> = taints.iter().map(toleration).collect();
            retemplate(service, work, |pod| {
                let spec = &mut pod["spec"];
                let mut all = spec["tolerations"].as_array().cloned().unwrap_or_default();
                all.extend(more.iter().cloned());
                spec["tolerations"] = all.into();
            })
            .await;
        }
        UnblockChange::RelaxTopology { level } => {
            panic!(
                "{}: {level} is asked for, and no job here insists on a level",
                work.key
            )
        }
        UnblockChange::Flavor { flavor } => {
            let found = fleet.flavors.iter().find(|one| one.name == *flavor);
            let labels = &found.expect("the flavor").labels;
            let labels: BTreeMap<&str, &str> = labels
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect();
            retemplate(service, work, |pod| {
                pod["spec"]["nodeSelector"] = json!(labels);
            })
            .await;
        }
        UnblockChange::Labels { .. } => {
            retemplate(service, work, |pod| {
                let spec = pod["spec"].as_object_mut().expect("a spec");
                spec.remove("nodeSelector");
                spec.remove("affinity");
            })
            .await;
        }
        UnblockChange::Ask { to, .. } => {
            retemplate(service, work, |pod| {
                for list in ["requests", "limits"] {
                    let path = format!("/spec/containers/0/resources/{list}/memory");
                    if let Some(memory) = pod.pointer_mut(&path) {
                        *memory = json!(to.to_string());
                    }
                }
            })
            .await;
        }
        UnblockChange::Priority { to, .. } => {
            let handle = work.admission.as_ref().expect("a Workload of Kueue's");
            let path = path(KUEUE, &work.key.key.namespace, "workloads", &handle.name);
            must(
                service,
                Method::PATCH,
                &path,
                &json!({"spec": {"priority": to}}),
            )
            .await;
        }
        UnblockChange::Quota {
            queue,
            flavor,
            resource,
            nominal,
            ..
        } => {
            let path = path(KUEUE, "", "clusterqueues", queue);
            let mut object = service.get(&path).await;
            let was = object.clone();
            let groups = object["spec"]["resourceGroups"].as_array_mut();
            let quota = groups
                .into_iter()
                .flatten()
                .flat_map(|group| group["flavors"].as_array_mut().into_iter().flatten())
                .filter(|one| one["name"] == flavor.as_str())
                .flat_map(|one| one["resources"].as_array_mut().into_iter().flatten())
                .find(|one| one["name"] == resource.as_str());
            let why = || format!("{}: {queue} has no {resource} of {flavor}: {was}", work.key);
            quota.unwrap_or_else(|| panic!("{}", why()))["nominalQuota"] =
                json!((nominal / 1_000).to_string());
            must(service, Method::PUT, &path, &object).await;
        }
        UnblockChange::Nodes { like, count, .. } => {
            let like = service.get(&path("api/v1", "", "nodes", like)).await;
            for at in 0..*count {
                let name = format!("more-{at}");
                let mut labels = like["metadata"]["labels"].clone();
                labels["kubernetes.io/hostname"] = json!(name);
                let node = json!({
                    "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
                    "spec": {"taints": like["spec"]["taints"]},
                });
                must(service, Method::POST, "/api/v1/nodes", &node).await;
            }
        }
        UnblockChange::ResumeQueue { queue } => {
            let path = path(KUEUE, "", "clusterqueues", queue);
            let open = json!({"spec": {"stopPolicy": "None"}});
            must(service, Method::PATCH, &path, &open).await;
        }
        UnblockChange::Preempt { jobs } => {
            for on in [true, false] {
                for job in jobs {
                    stop(service, fleet, &job.0, on).await;
                }
                // They are away until the one that waits has its pods.
                pass(if on { 150 } else { 5 }).await;
            }
        }
        UnblockChange::Uncordon { nodes } => {
            for node in nodes {
                let path = path("api/v1", "", "nodes", node);
                let open = json!({"spec": {"unschedulable": false}});
                must(service, Method::PATCH, &path, &open).await;
            }
        }
    }
}

/// Stops a job, or lets it go on.
async fn stop(service: &FaultyService, fleet: &Snapshot, key: &model::base::ObjectKey, on: bool) {
    let mut all = fleet.workloads.iter();
    let work = all.find(|work| work.key.key == *key).expect("the job");
    match &work.admission {
        Some(handle) => {
            let path = path(KUEUE, &key.namespace, "workloads", &handle.name);
            let active = json!({"spec": {"active": !on}});
            must(service, Method::PATCH, &path, &active).await;
        }
        None => {
            let suspend = json!({"spec": {"suspend": on}});
            must(service, Method::PATCH, &owner(work), &suspend).await;
        }
    }
}

/// The name of a change's kind.
fn kind(change: &UnblockChange) -> &'static str {
    match change {
        UnblockChange::Wait { .. } => "wait",
        UnblockChange::Tolerate { .. } => "tolerate",
        UnblockChange::RelaxTopology { .. } => "relax-topology",
        UnblockChange::Flavor { .. } => "flavor",
        UnblockChange::Labels { .. } => "labels",
        UnblockChange::Ask { .. } => "ask",
        UnblockChange::Priority { .. } => "priority",
        UnblockChange::Quota { .. } => "quota",
        UnblockChange::Nodes { .. } => "nodes",
        UnblockChange::ResumeQueue { .. } => "resume-queue",
        UnblockChange::Preempt { .. } => "preempt",
        UnblockChange::Uncordon { .. } => "uncordon",
    }
}

/// The pods of a workload.
async fn pods(service: &FaultyService, work: &Workload) -> Vec<Value> {
    let key = &work.key.key;
    let mut all = service
        .get(&format!("/api/v1/namespaces/{}/pods", key.namespace))
        .await;
    let mut own = all["items"]
        .as_array_mut()
        .map(std::mem::take)
        .unwrap_or_default();
    own.retain(|pod| {
        let name = pod["metadata"]["name"].as_str();
        name.is_some_and(|name| name.starts_with(key.name.as_str()))
    });
    own
}

/// Whether a workload has pods on nodes, or had them.
async fn has_started(service: &FaultyService, work: &Workload) -> bool {
    let pods = pods(service, work).await;
    pods.iter().any(|pod| !pod["spec"]["nodeName"].is_null())
}

/// What the cluster says itself of why a job waits: its Workload's condition, or its pods'.
async fn condition_message(service: &FaultyService, work: &Workload) -> String {
    let namespace = &work.key.key.namespace;
    if let Some(handle) = &work.admission {
        let object = service
            .get(&path(KUEUE, namespace, "workloads", &handle.name))
            .await;
        let conditions = object["status"]["conditions"].as_array();
        let quota = conditions
            .into_iter()
            .flatten()
            .find(|one| one["type"] == "QuotaReserved");
        if let Some(quota) = quota.filter(|one| one["status"] == "False") {
            return quota["message"].as_str().unwrap_or_default().to_owned();
        }
    }
    let pods = service
        .get(&format!("/api/v1/namespaces/{namespace}/pods"))
        .await;
    let name = work.key.key.name.as_str();
    let own = pods["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|pod| {
            pod["metadata"]["name"]
                .as_str()
                .is_some_and(|own| own.starts_with(name))
        });
    let words: Vec<&str> = own
        .flat_map(|pod| pod["status"]["conditions"].as_array().into_iter().flatten())
        .filter(|one| one["type"] == "PodScheduled" && one["status"] == "False")
        .filter_map(|one| one["message"].as_str())
        .collect();
    words
        .first()
        .map_or(String::new(), |words| (*words).to_owned())
}

/// Codes of which one must be among the reasons, by what the cluster says.
fn codes(condition_message: &str) -> &'static [&'static str] {
    if condition_message.contains("maximum capacity") {
        &["over-most"]
    } else if condition_message.contains("insufficient unused quota") {
        // Who stands before it may have what it asks for by the time that the scheduler comes to it.
        &["quota", "behind", "reserved"]
    } else if condition_message.contains("nodes are available") {
        &[
            "no-room",
            "fragmented",
            "absent",
            "labels",
            "taints",
            "closed",
            "topology",
            "too-large",
        ]
    } else {
        &[]
    }
}

struct UnblockCase {
    seed: u64,
    name: String,
    condition_message: String,
    answer: WorkloadExplanation,
}

impl UnblockCase {
    fn words(&self) -> String {
        let answer = &self.answer.explanation;
        let unblock = answer.unblock.as_ref().map(|it| &it.sentence);
        format!(
            "seed {} {}: {}; unblock {unblock:?}; the cluster says: {}",
            self.seed, self.name, answer.reason, self.condition_message
        )
    }
}

/// A fleet like the demo's, nobody coming.
fn fleet(seed: u64, nodes: Option<u32>) -> World {
    let options = Options {
        seed,
        nodes,
        ..Options::new(begin())
    };
    let mut world = World::new(options).without_arrivals();
    world.start();
    world.advance(begin().plus(std::time::Duration::from_secs(SETTLED)));
    world
}

/// A cluster of a copy of the world.
fn copy(world: &World) -> FaultyService {
    let start = tokio::time::Instant::now();
    let clock = std::sync::Arc::new(move || {
        begin()
            .plus(std::time::Duration::from_secs(SETTLED))
            .plus(start.elapsed())
    });
    FaultyService::new(stage::cluster(world.clone(), clock))
}

#[derive(Default)]
struct Sum {
    waiting: usize,
    ready: usize,
    tried: BTreeMap<&'static str, usize>,
    late: Vec<String>,
    none: Vec<String>,
    wrong: Vec<String>,
}

async fn look(seed: u64, nodes: Option<u32>, sum: &mut Sum) {
    let world = fleet(seed, nodes);
    let service = copy(&world);
    let snapshot = stage::snapshot(&service.inner);
    let waiting = snapshot.workloads.iter().filter(|work| {
        (work.status == Status::Waiting || explanations::has_reserved_quota(work))
            && work.device_count() > 0
    });
    // Said now: the clock goes on while changes are tried.
    let mut words: Vec<(&Workload, String)> = Vec::new();
    for work in waiting {
        words.push((work, condition_message(&service, work).await));
    }
    let mut answers = explanations::explain_all(&snapshot);
    for (work, message) in words {
        sum.waiting += 1;
        let name = work.key.key.to_string();
        let case = UnblockCase {
            seed,
            condition_message: message,
            answer: answers.remove(&work.key).expect("it waits"),
            name,
        };
        let explanation = &case.answer.explanation;
        let own: Vec<&str> = explanation
            .reasons
            .iter()
            .map(|reason| reason.code())
            .collect();
        let theirs = codes(&case.condition_message);
        if !theirs.is_empty() && explanation.state == StartState::Waiting {
            let so = theirs.iter().any(|code| own.contains(code));
            if !so {
                sum.wrong
                    .push(format!("{}: not one of {theirs:?}: {own:?}", case.words()));
            }
        }
        if explanation.state == StartState::Ready {
            sum.ready += 1;
            continue;
        }
        let Some(Unblock { changes, .. }) = &explanation.unblock else {
            // Nothing of the list makes a node that could take it.
            let never = |code: &&str| matches!(*code, "absent" | "too-large");
            match own.iter().any(never) {
                true => sum.none.push(case.words()),
                false => sum.wrong.push(format!("{}: nothing helps", case.words())),
            }
            continue;
        };
        let twin = copy(&world);
        for change in changes {
            *sum.tried.entry(kind(change)).or_default() += 1;
            carry(&twin, change, work, &snapshot).await;
        }
        pass(PATIENCE).await;
        let runs = has_started(&twin, work).await;
        let waited = matches!(changes[..], [UnblockChange::Wait { .. }]);
        match (runs, waited) {
            (true, _) => {}
            (false, true) => sum.late.push(case.words()),
            (false, false) => sum.wrong.push(format!(
                "{}: waits still, and the cluster says: {}",
                case.words(),
                condition_message(&twin, work).await
            )),
        }
    }
}

/// How many fleets are looked at, the demo's as large as it is first: more than a small one where there are minutes for it
/// (`STOKEHOLD_FLEETS=20`).
fn fleets() -> Option<u64> {
    let case = std::env::var("STOKEHOLD_FLEETS").ok();
    case.map(|case| case.parse().expect("a number of fleets"))
}

#[tokio::test(start_paused = true)]
async fn what_unblocks_a_job_starts_it() {
    let mut sum = Sum::default();
    match fleets() {
        Some(fleets) => {
            look(1, None, &mut sum).await;
            for seed in 2..2 + fleets {
                look(seed, Some(48), &mut sum).await;
            }
        }
        None => look(1, Some(48), &mut sum).await,
    }
    println!(
        "{} wait, {} start at once; changes tried: {:?}; {} would wait longer than half of them: {:#?}; nothing of the list helps {}: {:#?}; {} wrong: {:#?}",
        sum.waiting,
        sum.ready,
        sum.tried,
        sum.late.len(),
        sum.late,
        sum.none.len(),
        sum.none,
        sum.wrong.len(),
        sum.wrong
    );
    assert!(sum.waiting > 10 && sum.tried.len() > 2);
    assert!(sum.wrong.is_empty(), "{:#?}", sum.wrong);
}
