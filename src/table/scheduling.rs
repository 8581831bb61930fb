//! The parts of the fleet document about queueing and admission.
//!
//! The engine's inputs (`queues`, `flavors`, `workloads`, `topologies`, `budgets`, `runs`) are serialized by the engine from
//! the same snapshot that it uses live; fields for people and scripts are added beside them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use engine::live::{Titles, snapshot};
use engine::{document, snapshot};
use model::base::{Moment, Name};
use model::fleet::admission::{Admission, Assigned};
use model::fleet::job::Job;
use model::fleet::queue::{Door, PriorityClass, Queue, QueueCounts};
use model::fleet::siting::PodSet;

use super::document::Amounts;
use super::{Facts, non_empty};

/// What a queueing system records about a job.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AdmissionCell<'a> {
    /// `kueue`, `volcano`, `kai` or `none` (Kubernetes itself).
    pub system: &'static str,
    /// `Workload` or `PodGroup`.
    pub kind: &'a str,
    /// Its name, in the job's namespace.
    pub name: &'a str,
    /// Unique id.
    pub uid: Option<&'a str>,
    /// Queue.
    pub queue: Option<&'a str>,
    /// Name of Kueue's LocalQueue.
    pub local_queue: Option<&'a str>,
    /// Position in the queue, from 0.
    pub position: Option<u32>,
    /// Position in the LocalQueue, from 0.
    pub local_position: Option<u32>,
    /// Priority used for ordering.
    pub priority: Option<i32>,
    /// Name of its priority class.
    pub priority_class: Option<&'a str>,
    /// False when it was deactivated (Kueue's `spec.active`).
    pub active: bool,
    /// When quota was reserved, RFC 3339.
    pub quota_reserved_at: Option<String>,
    /// When it was admitted, RFC 3339.
    pub admitted_at: Option<String>,
    /// When it was queued, RFC 3339.
    pub queued_at: Option<String>,
    /// The system's reason code for the wait.
    pub reason: Option<&'a str>,
    /// The reason as a sentence.
    pub message: Option<&'a str>,
    /// Requeue count and time.
    pub requeue: Option<RequeueCell>,
    /// Evictions, newest first.
    pub evictions: Vec<EvictionCell<'a>>,
    /// Assignments of its pod sets.
    pub assigned: Vec<AssignedCell<'a>>,
    /// Admission checks that are not ready.
    pub checks: Vec<CheckCell<'a>>,
}

/// See [`AdmissionCell::requeue`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RequeueCell {
    /// Number of requeues.
    pub count: u32,
    /// When it is considered again, RFC 3339.
    pub at: Option<String>,
}

/// Evictions with the same reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct EvictionCell<'a> {
    /// Reason.
    pub reason: &'a str,
    /// The underlying cause.
    pub cause: Option<&'a str>,
    /// Number of evictions.
    pub count: u32,
    /// When it last happened, RFC 3339.
    pub at: Option<String>,
    /// A sentence.
    pub message: Option<&'a str>,
    /// Unique id of the preempting workload.
    pub preemptor: Option<&'a str>,
}

/// The assignment of one pod set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AssignedCell<'a> {
    /// Pod set.
    pub name: &'a str,
    /// Number of pods.
    pub count: u32,
    /// Flavor by resource.
    pub flavors: BTreeMap<&'a str, &'a str>,
    /// Node label keys of the topology levels in `domains`.
    pub levels: Vec<&'a str>,
    /// Values of those labels, each with its number of pods.
    pub domains: Vec<(Vec<&'a str>, u32)>,
}

/// An admission check that is not ready.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CheckCell<'a> {
    /// Name.
    pub name: &'a str,
    /// State.
    pub state: &'a str,
    /// A sentence.
    pub message: Option<&'a str>,
}

/// A set of identical pods of a job.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PodSetCell<'a> {
    /// Name.
    pub name: &'a str,
    /// Number of pods.
    pub count: u32,
    /// Minimum number of pods.
    pub min: u32,
    /// Requests of one pod.
    pub requests: Amounts<'a>,
    /// Its topology request.
    pub topology: Option<TopologyCell<'a>>,
}

/// A request for topology-aware placement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TopologyCell<'a> {
    /// `required`, `preferred` or `unconstrained`.
    pub mode: &'static str,
    /// The level within which all pods are placed.
    pub level: Option<&'a str>,
    /// The level within which each slice of `slice_size` pods is placed.
    pub slice_level: Option<&'a str>,
    /// Pods in a slice.
    pub slice_size: Option<u32>,
}

/// A priority class.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct PriorityClassCell<'a> {
    /// `PriorityClass` or `WorkloadPriorityClass`.
    pub kind: &'static str,
    /// Name.
    pub name: &'a str,
    /// Priority.
    pub value: i32,
    /// True for the default class.
    pub default: bool,
    /// True when its pods may preempt others.
    pub preempts: bool,
}

impl<'a> From<&'a PriorityClass> for PriorityClassCell<'a> {
    fn from(class: &'a PriorityClass) -> Self {
        Self {
            kind: class.kind.name(),
            name: &class.name,
            value: class.value,
            default: class.is_default,
            preempts: !class.never_preempts,
        }
    }
}

impl<'a> From<&'a PodSet> for PodSetCell<'a> {
    fn from(set: &'a PodSet) -> Self {
        Self {
            name: &set.name,
            count: set.count,
            min: set.min,
            requests: Amounts::from(&set.request),
            topology: set.topology.as_ref().map(|wish| TopologyCell {
                mode: wish.mode.name(),
                level: non_empty(&wish.level),
                slice_level: wish.slice.as_ref().map(|(level, _)| level.as_str()),
                slice_size: wish.slice.as_ref().map(|(_, size)| *size),
            }),
        }
    }
}

fn assigned(given: &Assigned) -> AssignedCell<'_> {
    AssignedCell {
        name: &given.name,
        count: given.count,
        flavors: given
            .flavors
            .iter()
            .map(|(resource, flavor)| (resource.as_str(), flavor.as_str()))
            .collect(),
        levels: given.levels.iter().map(Name::as_str).collect(),
        domains: given
            .domains
            .iter()
            .map(|domain| {
                (
                    domain.values.iter().map(Name::as_str).collect(),
                    domain.count,
                )
            })
            .collect(),
    }
}

/// What a queueing system records about a job.
pub fn admission(job: &Job) -> Option<AdmissionCell<'_>> {
    let admission: &Admission = job.admission.as_deref()?;
    let seen = &admission.seen;
    let at = |moment: Option<Moment>| moment.map(Moment::rfc3339);
    Some(AdmissionCell {
        system: admission.system().name(),
        kind: &seen.kind,
        name: &seen.key.name,
        uid: non_empty(&seen.uid),
        queue: admission.queue.as_deref(),
        local_queue: seen.queue_name.as_deref(),
        position: admission.position,
        local_position: admission.local_position,
        priority: seen.priority,
        priority_class: seen.priority_class.as_deref(),
        active: seen.active,
        quota_reserved_at: at(seen.reserved_at),
        admitted_at: at(seen.admitted_at),
        queued_at: at(seen.queued_at),
        reason: seen.pending.as_ref().map(|(word, _)| word.as_str()),
        message: seen.pending.as_ref().and_then(|(_, text)| non_empty(text)),
        requeue: seen.requeue.map(|requeue| RequeueCell {
            count: requeue.count,
            at: at(requeue.at),
        }),
        evictions: seen
            .evictions
            .iter()
            .map(|eviction| EvictionCell {
                reason: &eviction.reason,
                cause: non_empty(&eviction.cause),
                count: eviction.count,
                at: at(eviction.at),
                message: non_empty(&eviction.message),
                preemptor: eviction.preemptor.as_deref(),
            })
            .collect(),
        assigned: seen.assigned.iter().map(assigned).collect(),
        checks: seen
            .checks
            .iter()
            .map(|check| CheckCell {
                name: &check.name,
                state: &check.state,
                message: non_empty(&check.message),
            })
            .collect(),
    })
}

/// The engine's inputs as JSON.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Scheduling {
    /// Queues and cohorts: policies, quotas, usage.
    pub queues: Value,
    /// Flavors.
    pub flavors: Value,
    /// Topologies.
    pub topologies: Value,
    /// Disruption budgets (PDBs) with their pods.
    pub budgets: Value,
    /// Pods without devices on device nodes.
    pub residents: Value,
    /// Run times of past jobs, by shared attributes.
    pub runs: Value,
    /// Routes from the settings.
    pub routes: Value,
    /// Engine settings, each with its origin.
    pub engine: Value,
    /// Workloads as the engine sees them: pod sets and placements.
    pub workloads: Value,
    /// What RBAC or the chosen namespaces hide.
    pub not_visible: Value,
}

/// The queueing and admission state at this moment.
pub fn scheduling(facts: &Facts) -> Scheduling {
    let snapshot = snapshot(&facts.fleet, &facts.spend_rates);
    let mut whole = document::value(&snapshot::Snapshot {
        nodes: Vec::new(),
        ..snapshot
    });
    let mut take = |key: &str| whole.get_mut(key).map(Value::take).unwrap_or_default();
    let mut out = Scheduling {
        queues: take("queues"),
        flavors: take("flavors"),
        topologies: take("topologies"),
        budgets: take("budgets"),
        residents: take("residents"),
        runs: take("runs"),
        routes: take("routes"),
        engine: take("engine"),
        workloads: take("workloads"),
        not_visible: take("not_visible"),
    };
    let titles = Titles::of(&facts.fleet);
    let by_title: BTreeMap<&str, &Queue> = facts
        .fleet
        .queues
        .iter()
        .filter_map(|queue| Some((titles.get(&queue.key)?.as_str(), &**queue)))
        .collect();
    for written in out.queues.as_array_mut().into_iter().flatten() {
        let name = written["name"].as_str().unwrap_or_default();
        if let Some(queue) = by_title.get(name) {
            enrich(written, queue);
        }
    }
    let budgets: BTreeMap<(&str, &str), _> = facts
        .fleet
        .budgets
        .iter()
        .map(|budget| {
            let key = (budget.key.namespace.as_str(), budget.key.name.as_str());
            (key, &**budget)
        })
        .collect();
    for written in out.budgets.as_array_mut().into_iter().flatten() {
        let text = |key: &str| written[key].as_str().unwrap_or_default();
        if let Some(budget) = budgets.get(&(text("namespace"), text("name"))) {
            let (healthy, expected) = (budget.healthy, budget.expected);
            let (spares, unobserved) = (budget.spares_unhealthy, budget.unobserved);
            written["current_healthy"] = json!(healthy);
            written["expected_pods"] = json!(expected);
            written["always_allow_unhealthy"] = json!(spares);
            written["observed"] = json!(!unobserved);
        }
    }
    out
}

/// Adds fields that the engine does not need to a serialized queue.
fn enrich(written: &mut Value, queue: &Queue) {
    written["object"] = json!(queue.name());
    written["kind"] = json!(queue.key.kind.name());
    written["uid"] = json!(non_empty(&queue.uid));
    written["priority"] = json!(queue.priority);
    written["reclaimable"] = json!(queue.reclaimable);
    written["active"] = json!(queue.activity.active);
    written["reason"] = json!(non_empty(&queue.activity.reason));
    written["message"] = json!(non_empty(&queue.activity.message));
    written["share"] = json!(queue.share.filter(|share| share.is_finite()));
    let counts = counts(&queue.counts);
    for (key, value) in counts {
        written[key] = json!(value);
    }
    written["local_queues"] = queue.doors.iter().map(door).collect();
    let told = queue
        .quotas
        .iter()
        .filter(|quota| !quota.resource.is_empty());
    for (cell, quota) in written["quota"]
        .as_array_mut()
        .into_iter()
        .flatten()
        .zip(told)
    {
        let whole = quota.measure.whole();
        let amount = |amount: Option<i64>| match amount {
            Some(amount) if amount % whole == 0 => json!(amount / whole),
            Some(amount) => json!(amount as f64 / whole as f64),
            None => Value::Null,
        };
        cell["resource"] = json!(quota.resource);
        cell["unit"] = json!(quota.measure.name());
        cell["group"] = json!(quota.group);
        cell["unbounded"] = json!(quota.nominal.is_none());
        cell["surplus_weight"] = json!(quota.surplus_weight);
        cell["used"] = amount(quota.used);
        cell["reserved"] = amount(quota.reserved);
        cell["borrowed"] = amount(quota.borrowed);
    }
}

fn counts(counts: &QueueCounts) -> [(&'static str, Option<u32>); 3] {
    [
        ("pending", counts.pending),
        ("reserving", counts.reserving),
        ("admitted", counts.admitted),
    ]
}

fn door(door: &Door) -> Value {
    let mut out = json!({
        "namespace": door.key.namespace,
        "name": door.key.name,
        "stopped": door.stop.name(),
        "active": door.activity.active,
        "reason": non_empty(&door.activity.reason),
    });
    for (key, value) in counts(&door.counts) {
        out[key] = json!(value);
    }
    out
}
