//! The parts of the fleet document about queueing and admission.
//!
//! The engine's inputs (`queues`, `flavors`, `workloads`, `topologies`, `budgets`, `runs`) are serialized by the engine from
//! the same snapshot that it uses live; fields for people and scripts are added beside them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use engine::document::{
    self, Decimal, EngineBudget, EngineCell, EngineQueue, EngineQuota, FlavorCell, LabelTopology,
    ResidentCell, RouteCell, RunsCell, WorkloadCell,
};
use engine::live::{Titles, snapshot};
use model::base::{Moment, Name};
use model::fleet::admission::{Admission, Assigned};
use model::fleet::job::Job;
use model::fleet::queue::{Door, PriorityClass, Queue, QueueCounts, Quota};
use model::fleet::siting::JobPodSet;

use super::document::Amounts;
use crate::{Facts, non_empty};

/// What a queueing system records about a job.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct AdmissionCell<'a> {
    /// The queueing system; `none` is Kubernetes itself.
    #[schemars(with = "model::fleet::queue::QueueSystem")]
    pub system: &'static str,
    /// Kind of the object: `Workload` or `PodGroup`.
    pub kind: &'a str,
    /// Its name, in the job's namespace.
    pub name: &'a str,
    /// Unique id of that object.
    pub uid: Option<&'a str>,
    /// The queue that it is in.
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
    #[schemars(with = "Option<model::base::Moment>")]
    pub quota_reserved_at: Option<String>,
    /// When it was admitted, RFC 3339.
    #[schemars(with = "Option<model::base::Moment>")]
    pub admitted_at: Option<String>,
    /// When it was queued, RFC 3339.
    #[schemars(with = "Option<model::base::Moment>")]
    pub queued_at: Option<String>,
    /// The system's reason code for the wait.
    pub reason: Option<&'a str>,
    /// The reason as a sentence.
    pub message: Option<&'a str>,
    /// Requeue count and time.
    pub requeue: Option<RequeueCell>,
    /// Evictions of the workload, newest first.
    pub evictions: Vec<EvictionCell<'a>>,
    /// Assignments of its pod sets.
    pub assigned: Vec<AssignedCell<'a>>,
    /// Admission checks that are not ready.
    pub checks: Vec<CheckCell<'a>>,
}

/// How often it was requeued, and until when it is held back.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct RequeueCell {
    /// How often it was requeued.
    pub count: u32,
    /// When it is considered again, RFC 3339.
    #[schemars(with = "Option<model::base::Moment>")]
    pub at: Option<String>,
}

/// Evictions with the same reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct EvictionCell<'a> {
    /// Reason code of the evictions.
    pub reason: &'a str,
    /// What the system gives as its cause.
    pub cause: Option<&'a str>,
    /// Number of these evictions.
    pub count: u32,
    /// When it last happened, RFC 3339.
    #[schemars(with = "Option<model::base::Moment>")]
    pub at: Option<String>,
    /// The reason as a sentence.
    pub message: Option<&'a str>,
    /// Unique id of the preempting workload.
    pub preemptor: Option<&'a str>,
}

/// The assignment of one pod set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct AssignedCell<'a> {
    /// Name of the pod set.
    pub name: &'a str,
    /// Number of its pods.
    pub count: u32,
    /// Flavor of each resource.
    pub flavors: BTreeMap<&'a str, &'a str>,
    /// Node label keys of the topology levels in `domains`.
    pub levels: Vec<&'a str>,
    /// Values of those labels, each with its number of pods.
    pub domains: Vec<(Vec<&'a str>, u32)>,
}

/// An admission check that is not ready.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct CheckCell<'a> {
    /// Name of the admission check.
    pub name: &'a str,
    /// State as Kueue reports it.
    pub state: &'a str,
    /// The state as a sentence.
    pub message: Option<&'a str>,
}

/// A set of identical pods of a job.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct PodSetCell<'a> {
    /// Name of the set.
    pub name: &'a str,
    /// Number of its pods.
    pub count: u32,
    /// Minimum number of pods; with fewer, none starts.
    pub min: u32,
    /// Requests of one pod.
    #[schemars(with = "engine::document::RequestCell")]
    pub requests: Amounts<'a>,
    /// How close its pods must be placed.
    pub topology: Option<TopologyCell<'a>>,
}

/// A request for topology-aware placement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct TopologyCell<'a> {
    /// How strictly the level is kept.
    #[schemars(with = "model::fleet::siting::ConstraintMode")]
    pub mode: &'static str,
    /// The level within which all pods are placed.
    pub level: Option<&'a str>,
    /// The level within which each slice of `slice_size` pods is placed.
    pub slice_level: Option<&'a str>,
    /// Number of pods in a slice.
    pub slice_size: Option<u32>,
}

/// A priority class of Kubernetes or Kueue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct PriorityClassCell<'a> {
    /// Kind of the object.
    #[schemars(with = "model::fleet::queue::PriorityKind")]
    pub kind: &'static str,
    /// Name of the class.
    pub name: &'a str,
    /// Priority that it gives.
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

impl<'a> From<&'a JobPodSet> for PodSetCell<'a> {
    fn from(set: &'a JobPodSet) -> Self {
        Self {
            name: &set.name,
            count: set.count,
            min: set.min,
            requests: Amounts::from(&set.request),
            topology: set.topology.as_ref().map(|requested| TopologyCell {
                mode: requested.mode.name(),
                level: non_empty(&requested.level),
                slice_level: requested.slice.as_ref().map(|(level, _)| level.as_str()),
                slice_size: requested.slice.as_ref().map(|(_, size)| *size),
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

/// What a queueing system reports about a queue.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct QueueReport<'a> {
    /// Kind of the object: `cohort` or `queue`.
    #[schemars(with = "model::fleet::queue::QueueKind")]
    pub kind: &'static str,
    /// Unique id of its object.
    pub uid: Option<&'a str>,
    /// Priority among queues, where its system has one.
    pub priority: Option<i32>,
    /// False where other queues may not reclaim what it borrows.
    pub reclaimable: bool,
    /// Whether its system uses it; null where it does not say.
    pub active: Option<bool>,
    /// The reason code of that.
    pub reason: Option<&'a str>,
    /// The reason as a sentence.
    pub message: Option<&'a str>,
    /// Its fair-sharing share: use above its nominal quota relative to its weight.
    #[schemars(range(min = 0))]
    pub share: Option<f64>,
    /// Counts of its workloads.
    #[serde(flatten)]
    pub counts: CountCells,
    /// Kueue's LocalQueues that lead to it.
    pub local_queues: Vec<LocalQueueCell<'a>>,
}

/// Workloads of a queue, as its system counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct CountCells {
    /// Workloads that wait for quota.
    pub pending: Option<u32>,
    /// Workloads that have quota reserved.
    pub reserving: Option<u32>,
    /// Workloads that are admitted.
    pub admitted: Option<u32>,
}

/// A LocalQueue of Kueue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct LocalQueueCell<'a> {
    /// Namespace whose workloads use it.
    pub namespace: &'a str,
    /// Name of the LocalQueue.
    pub name: &'a str,
    /// Whether it is stopped.
    #[schemars(with = "model::fleet::queue::Stop")]
    pub stopped: &'static str,
    /// Whether Kueue uses it; null where it does not say.
    pub active: Option<bool>,
    /// The reason code of that.
    pub reason: Option<&'a str>,
    /// Counts of its workloads.
    #[serde(flatten)]
    pub counts: CountCells,
}

/// A queue or cohort: its rules, and what its system reports.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct QueueCell<'a> {
    /// Rules that the engine goes by.
    #[serde(flatten)]
    pub rules: EngineQueue<QuotaRules<'a>>,
    /// What its system reports.
    #[serde(flatten)]
    #[schemars(required)]
    pub report: Option<QueueReport<'a>>,
}

/// Quota of one resource in one flavor, and what its system reports.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct QuotaRules<'a> {
    /// Limits that the engine goes by.
    #[serde(flatten)]
    pub limits: EngineQuota,
    /// What its system reports.
    #[serde(flatten)]
    #[schemars(required)]
    pub report: Option<QuotaReport<'a>>,
}

/// What a queueing system reports about a quota.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct QuotaReport<'a> {
    /// Resource, `nvidia.com/gpu`; `devices` counts accelerators of every kind together.
    pub resource: &'a str,
    /// Unit of `used`, `reserved` and `borrowed`.
    #[schemars(with = "model::fleet::queue::Measure")]
    pub unit: &'static str,
    /// Index of the queue's resource group with the flavor, from 0: within a group flavors are tried in order.
    pub group: u32,
    /// True where `nominal` means no limit.
    pub unbounded: bool,
    /// Weight by which KAI divides what is left over.
    #[schemars(range(min = 0))]
    pub surplus_weight: Option<i64>,
    /// Amount in use, in `unit`.
    pub used: Option<Decimal>,
    /// Amount that workloads have reserved, in `unit`.
    pub reserved: Option<Decimal>,
    /// The borrowed part of `used`.
    pub borrowed: Option<Decimal>,
}

/// A disruption budget with its pods, and what Kubernetes reports about it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct BudgetCell {
    /// Its pods and limits.
    #[serde(flatten)]
    pub rules: EngineBudget,
    /// What Kubernetes reports about it.
    #[serde(flatten)]
    #[schemars(required)]
    pub report: Option<BudgetReport>,
}

/// What Kubernetes reports about a disruption budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct BudgetReport {
    /// Pods that are healthy now.
    pub current_healthy: u32,
    /// Pods that it covers.
    pub expected_pods: u32,
    /// True where pods that are not ready may always be evicted (`unhealthyPodEvictionPolicy: AlwaysAllow`).
    pub always_allow_unhealthy: bool,
    /// False until Kubernetes has looked at its present spec.
    pub observed: bool,
}

/// What the engine schedules by.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Scheduling<'a> {
    /// Queues and cohorts: policies, quotas, usage.
    #[serde(serialize_with = "by_key")]
    pub queues: Vec<QueueCell<'a>>,
    /// Kinds of capacity with quotas of their own.
    #[serde(serialize_with = "by_key")]
    pub flavors: Vec<FlavorCell>,
    /// Topologies of node labels.
    #[serde(serialize_with = "by_key")]
    pub topologies: Vec<LabelTopology>,
    /// Disruption budgets (PDBs) with their pods.
    #[serde(serialize_with = "by_key")]
    pub budgets: Vec<BudgetCell>,
    /// Pods without devices on device nodes.
    #[serde(serialize_with = "by_key")]
    pub residents: Vec<ResidentCell>,
    /// Run times of past jobs, by shared attributes.
    #[serde(serialize_with = "by_key")]
    pub runs: Vec<RunsCell>,
    /// Routes from the settings.
    #[serde(serialize_with = "by_key")]
    pub routes: Vec<RouteCell>,
    /// Engine settings, each with its origin.
    #[serde(serialize_with = "by_key")]
    pub engine: EngineCell,
    /// Workloads as the engine sees them: pod sets and placements.
    #[serde(serialize_with = "by_key")]
    pub workloads: Vec<WorkloadCell>,
    /// What RBAC or the chosen namespaces hide: nodes, queues, pods, other namespaces.
    pub not_visible: Vec<Name>,
}

/// Writes these parts with their keys in alphabetical order, as they always were.
fn by_key<T: Serialize, S: Serializer>(parts: &T, out: S) -> Result<S::Ok, S::Error> {
    let value = serde_json::to_value(parts).map_err(serde::ser::Error::custom)?;
    value.serialize(out)
}

/// The queueing and admission state at this moment.
pub fn scheduling(facts: &Facts) -> Scheduling<'_> {
    let snapshot = snapshot(&facts.fleet, &facts.spend_rates);
    let whole = document::scheduling(&snapshot);
    let titles = Titles::of(&facts.fleet);
    let by_title: BTreeMap<&str, &Queue> = facts
        .fleet
        .queues
        .iter()
        .filter_map(|queue| Some((titles.get(&queue.key)?.as_str(), &**queue)))
        .collect();
    let reported = |rules: EngineQueue<EngineQuota>| {
        let queue = by_title.get(rules.name.as_str()).copied();
        queue_cell(rules, queue)
    };
    let budgets: BTreeMap<(&str, &str), _> = facts
        .fleet
        .budgets
        .iter()
        .map(|budget| {
            let key = (budget.key.namespace.as_str(), budget.key.name.as_str());
            (key, &**budget)
        })
        .collect();
    let budget = |rules: EngineBudget| {
        let own = budgets.get(&(rules.namespace.as_str(), rules.name.as_str()));
        let report = own.map(|budget| BudgetReport {
            current_healthy: budget.healthy,
            expected_pods: budget.expected,
            always_allow_unhealthy: budget.spares_unhealthy,
            observed: !budget.unobserved,
        });
        BudgetCell { rules, report }
    };
    Scheduling {
        queues: whole.queues.into_iter().map(reported).collect(),
        flavors: whole.flavors,
        topologies: whole.topologies,
        budgets: whole.budgets.into_iter().map(budget).collect(),
        residents: whole.residents,
        runs: whole.runs,
        routes: whole.routes,
        engine: whole.engine,
        workloads: whole.workloads,
        not_visible: whole.not_visible,
    }
}

/// A queue's rules with what its system reports.
fn queue_cell(rules: EngineQueue<EngineQuota>, queue: Option<&Queue>) -> QueueCell<'_> {
    let quotas = queue.map_or(&[][..], |queue| &queue.quotas);
    let mut reported = quotas.iter().filter(|quota| !quota.resource.is_empty());
    let limits = rules.quota.into_iter().map(|limits| {
        let report = reported.next().map(quota_report);
        QuotaRules {
            limits: EngineQuota {
                resource: limits.resource.filter(|_| report.is_none()),
                ..limits
            },
            report,
        }
    });
    let report = queue.map(|queue| QueueReport {
        kind: queue.key.kind.name(),
        uid: non_empty(&queue.uid),
        priority: queue.priority,
        reclaimable: queue.reclaimable,
        active: queue.activity.active,
        reason: non_empty(&queue.activity.reason),
        message: non_empty(&queue.activity.message),
        share: queue.share.filter(|share| share.is_finite()),
        counts: counts(&queue.counts),
        local_queues: queue.doors.iter().map(local_queue).collect(),
    });
    let quota = limits.collect();
    QueueCell {
        rules: EngineQueue {
            name: rules.name,
            object: queue.map_or(rules.object, |queue| queue.name().clone()),
            parent: rules.parent,
            system: rules.system,
            admits: rules.admits,
            weight: rules.weight,
            stopped: rules.stopped,
            strategy: rules.strategy,
            preemption: rules.preemption,
            left_alone: rules.left_alone,
            fungibility: rules.fungibility,
            orders_by_usage: rules.orders_by_usage,
            quota,
        },
        report,
    }
}

fn quota_report(quota: &Quota) -> QuotaReport<'_> {
    let amount = |amount: Option<i64>| Some(Decimal::of(amount?, quota.measure.whole()));
    QuotaReport {
        resource: &quota.resource,
        unit: quota.measure.name(),
        group: quota.group,
        unbounded: quota.nominal.is_none(),
        surplus_weight: quota.surplus_weight,
        used: amount(quota.used),
        reserved: amount(quota.reserved),
        borrowed: amount(quota.borrowed),
    }
}

fn counts(counts: &QueueCounts) -> CountCells {
    CountCells {
        pending: counts.pending,
        reserving: counts.reserving,
        admitted: counts.admitted,
    }
}

fn local_queue(door: &Door) -> LocalQueueCell<'_> {
    LocalQueueCell {
        namespace: &door.key.namespace,
        name: &door.key.name,
        stopped: door.stop.name(),
        active: door.activity.active,
        reason: non_empty(&door.activity.reason),
        counts: counts(&door.counts),
    }
}
