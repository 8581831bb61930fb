//! The cluster objects of a selection, for YAML, events and logs.

use model::base::{Name, ObjectKey, SmallSort};
use model::cost::SpendScope;
use model::fleet::device::{Device, Pod};
use model::fleet::job::Job;
use model::fleet::queue::{QueueKind, QueueSystem};
use model::object::ObjectRef;
use table::Facts;

use super::object_tree;
use crate::commands::Command;
use table::kinds::alerts;
use table::navigation::Selection;

/// Pods of a job whose events are read in addition to the job's own.
const PODS: usize = 12;

/// The object of a selection; `None` where there is none (a pool, a source, a cost row).
pub fn thing(facts: &Facts, selection: &Selection) -> Option<ObjectRef> {
    match selection {
        Selection::Node(name) | Selection::Device(name, _) => Some(ObjectRef::node(name)),
        Selection::Job(id) => Some(ObjectRef {
            kind: id.kind.clone(),
            key: id.key.clone(),
        }),
        Selection::Pod(key) => Some(ObjectRef::new("Pod", key.clone())),
        Selection::Finding(id) => thing(facts, &behind(facts, id)?),
        Selection::Source(name) => Some(ObjectRef::new("Pod", exporter(name)?)),
        Selection::Cost(SpendScope::Job, name) => {
            let job = facts.fleet.job_named(name)?;
            thing(facts, &Selection::Job(job.id.clone()))
        }
        Selection::Queue(name) => queue(facts, name),
        Selection::Cohort(name) => Some(ObjectRef::new("Cohort", ObjectKey::new("", name.clone()))),
        Selection::Pool(_) | Selection::Run(_) | Selection::Cost(..) => None,
    }
}

/// The object of a queue; `None` where two systems have a queue of this name, or where it is a cohort that only queues reference.
/// KAI's queues have the same kind as Volcano's, and a kind without a group means Volcano's.
fn queue(facts: &Facts, name: &Name) -> Option<ObjectRef> {
    let queues = facts.fleet.queues.iter();
    let mut named =
        queues.filter(|known| known.name() == name && known.key.kind == QueueKind::Queue);
    let (one, None) = (named.next()?, named.next()) else {
        return None;
    };
    let system = one.system();
    matches!(system, QueueSystem::Kueue | QueueSystem::Volcano)
        .then(|| ObjectRef::new(system.object_kind(), ObjectKey::new("", name.clone())))
}

/// The object of an action: the subject of a finding, else the object itself.
pub fn meant(facts: &Facts, selection: Selection) -> Selection {
    match &selection {
        Selection::Finding(id) => behind(facts, id).unwrap_or(selection),
        _ => selection,
    }
}

/// The subject of a finding.
pub fn behind(facts: &Facts, id: &Name) -> Option<Selection> {
    let finding = facts.fleet.findings.iter().find(|known| known.id == *id)?;
    let key = &finding.subject.key;
    match finding.subject.kind {
        "Node" => Some(Selection::Node(key.name.clone())),
        "Device" => alerts::device_of(facts, &key.name),
        "Pool" => Some(Selection::Pool(key.name.clone())),
        "Source" => Some(Selection::Source(key.name.clone())),
        // (Where another machine has its journal, it can be undone all the same.)
        "Run" => Some(Selection::Run(key.name.clone())),
        "Pod" => Some(Selection::Pod(key.clone())),
        "Job" => {
            let job = facts.fleet.jobs.iter().find(|job| job.id.key == *key)?;
            Some(Selection::Job(job.id.clone()))
        }
        _ => None,
    }
}

/// The objects whose events are about the selection: the object, the owner of its pods, and its pods, failing ones first.
pub fn things(facts: &Facts, selection: &Selection) -> Vec<ObjectRef> {
    let mut all: Vec<ObjectRef> = thing(facts, selection).into_iter().collect();
    let Some(job) = job(facts, selection) else {
        return all;
    };
    for owner in &job.chain {
        let key = ObjectKey::new(job.namespace().clone(), owner.name.clone());
        all.push(ObjectRef {
            kind: owner.kind.clone(),
            key,
        });
    }
    let mut pods: Vec<&Pod> = job.pods.iter().map(|pod| &**pod).collect();
    pods.small_sort_by_key(|pod| (pod.seen.ready && pod.seen.failure.is_none(), pod.key()));
    all.extend(
        pods.iter()
            .take(PODS)
            .map(|pod| ObjectRef::new("Pod", pod.key().clone())),
    );
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|thing| seen.insert(thing.clone()));
    all
}

/// Why a command that reads a selection finds nothing to read; `None` where it does, and for other commands. Pods of a job can come.
pub fn unreadable(facts: &Facts, command: Command, selection: &Selection) -> Option<String> {
    let name = || selection.heading(facts);
    let is_job = matches!(selection, Selection::Job(_));
    match command {
        Command::Yaml if thing(facts, selection).is_none() => {
            Some(format!("{} is not one Kubernetes object", name()))
        }
        Command::Events if things(facts, selection).is_empty() => {
            Some(format!("{} has no events in Kubernetes", name()))
        }
        Command::Logs if !is_job && pods(facts, selection).is_empty() => {
            Some(format!("{} has no pod with logs", name()))
        }
        Command::Tree if object_tree::tab(facts, selection).is_none() => {
            Some(format!("{} has no tree", name()))
        }
        _ => None,
    }
}

/// The pods whose logs are shown, failing ones first; empty where there is no pod.
pub fn pods(facts: &Facts, selection: &Selection) -> Vec<ObjectKey> {
    match selection {
        Selection::Pod(key) => {
            // One that no node has got has no logs; one of a DaemonSet is in no job.
            let seen = facts.fleet.pod(key);
            let has_logs = seen.is_none_or(|pod| pod.seen.node.is_some());
            has_logs.then(|| key.clone()).into_iter().collect()
        }
        Selection::Device(node, index) => {
            let device = device(facts, node, *index);
            let pod = device.and_then(|device| facts.first_holder(device));
            pod.map(|(pod, _)| pod.key().clone()).into_iter().collect()
        }
        Selection::Finding(id) => behind(facts, id).map_or_else(Vec::new, |of| pods(facts, &of)),
        Selection::Source(name) => exporter(name).into_iter().collect(),
        Selection::Node(name) => {
            let node = facts.fleet.node(name);
            node.map_or_else(Vec::new, |node| {
                node.pods.iter().map(|pod| pod.key().clone()).collect()
            })
        }
        _ => job(facts, selection).map_or_else(Vec::new, |job| {
            let mut pods: Vec<&Pod> = job.pods.iter().map(|pod| &**pod).collect();
            pods.retain(|pod| pod.seen.node.is_some());
            pods.small_sort_by_key(|pod| pod.seen.failure.is_none());
            pods.iter().map(|pod| pod.key().clone()).collect()
        }),
    }
}

fn job<'a>(facts: &'a Facts, selection: &Selection) -> Option<&'a Job> {
    match selection {
        Selection::Job(id) => facts.fleet.job(id).map(|job| &**job),
        Selection::Finding(id) => match behind(facts, id)? {
            Selection::Job(id) => facts.fleet.job(&id).map(|job| &**job),
            _ => None,
        },
        Selection::Cost(SpendScope::Job, name) => facts.fleet.job_named(name).map(|job| &**job),
        _ => None,
    }
}

fn device<'a>(facts: &'a Facts, node: &str, index: u32) -> Option<&'a Device> {
    facts.fleet.node(node)?.device(index)
}

/// The pod of an exporter, from a source name such as `dcgm gpu-operator/dcgm-exporter-x7`.
fn exporter(source: &str) -> Option<ObjectKey> {
    let (_, pod) = source.split_once(' ')?;
    let (namespace, name) = pod.split_once('/')?;
    Some(ObjectKey::new(namespace, name))
}
