//! Kueue's Workloads: the requests of a job and its admission status.

use model::base::{Name, Names, ObjectKey};
use model::fleet::admission::{
    AdmissionCheck, Assigned, DomainAssignment, Eviction, GroupSeen, QuotaAmounts, Requeue,
};
use model::fleet::observe::{Observation, Pending, Table};
use model::fleet::queue::QueueSystem;

use crate::Projected;
use crate::lenient_json::{List, Map, Maybe, OptionalBool, Text, Whole, partial};
use crate::meta::{Meta, RawCondition, find};
use crate::pod_placement::topology_constraint;
use crate::resources::{ResourceList, Template};
use crate::workloads::pod_sets::pod_set;

partial! {
    /// A Workload of Kueue's, in `v1beta1` or `v1beta2`.
    WorkloadObject {
        meta: Meta = "metadata",
        spec: WorkloadSpec = "spec",
        status: WorkloadStatus = "status",
    }
}

partial! {
    WorkloadSpec {
        sets: List<RawPodSet> = "podSets",
        queue: Text = "queueName",
        priority: Whole = "priority",
        /// Its class, in `v1beta1`.
        old_class: Text = "priorityClassName",
        /// Its class, in `v1beta2`.
        class: ClassRef = "priorityClassRef",
        /// False when a user or controller deactivated it.
        active: OptionalBool = "active",
        /// Maximum run time, seconds.
        time_limit: Whole = "maximumExecutionTimeSeconds",
    }
}

partial! {
    ClassRef {
        name: Text = "name",
    }
}

partial! {
    RawPodSet {
        /// Name; `main` when absent.
        name: Text = "name",
        /// Pods; one when absent.
        count: Whole = "count",
        /// Pods that will do.
        min: Whole = "minCount",
        template: Template = "template",
        topology: TopologyRequest = "topologyRequest",
    }
}

partial! {
    TopologyRequest {
        /// The level that all must share.
        required: Text = "required",
        /// The level that they should share.
        preferred: Text = "preferred",
        unconstrained: OptionalBool = "unconstrained",
        /// The level that each slice must share.
        slice_level: Text = "podSetSliceRequiredTopology",
        /// Pods of a slice.
        slice_size: Whole = "podSetSliceSize",
        /// Slices within slices: the widest first.
        slices: List<SliceLayer> = "podsetSliceRequiredTopologyConstraints",
    }
}

partial! {
    SliceLayer {
        /// The level that each slice must share.
        level: Text = "topology",
        /// How many pods each has.
        size: Whole = "size",
    }
}

partial! {
    WorkloadStatus {
        /// Quota and flavors assigned at admission.
        admission: Maybe<RawAdmission> = "admission",
        conditions: List<RawCondition> = "conditions",
        /// When it is put back.
        requeue: Maybe<RawRequeue> = "requeueState",
        checks: List<RawCheck> = "admissionChecks",
        stats: Stats = "schedulingStats",
        /// The worker cluster that MultiKueue chose.
        cluster: Text = "clusterName",
        /// Pods whose quota is given back.
        reclaimable: List<Reclaimable> = "reclaimablePods",
        /// Requests of a workload without quota, as it was last considered.
        requests: List<SetRequests> = "resourceRequests",
    }
}

partial! {
    /// Pods of a pod set that have ended.
    Reclaimable {
        name: Text = "name",
        count: Whole = "count",
    }
}

partial! {
    /// Requests of all pods of a pod set, in the resources of quotas.
    SetRequests {
        name: Text = "name",
        resources: ResourceList = "resources",
    }
}

partial! {
    RawAdmission {
        /// The queue that admitted it.
        queue: Text = "clusterQueue",
        sets: List<Assignment> = "podSetAssignments",
    }
}

partial! {
    /// Flavors and quota assigned to one pod set.
    Assignment {
        name: Text = "name",
        flavors: Map<Text> = "flavors",
        /// Quota that all its pods use.
        usage: ResourceList = "resourceUsage",
        count: Whole = "count",
        /// Topology domains that the pods are assigned to.
        topology: TopologyAssignment = "topologyAssignment",
    }
}

partial! {
    /// `topologyAssignment`: by domain in `v1beta1`, packed into slices in `v1beta2`.
    TopologyAssignment {
        levels: List<Text> = "levels",
        domains: List<RawDomain> = "domains",
        slices: List<Slice> = "slices",
    }
}

partial! {
    RawDomain {
        /// Values of the levels.
        values: List<Text> = "values",
        count: Whole = "count",
    }
}

partial! {
    /// Domains whose level values share a prefix, suffix or value.
    Slice {
        domains: Whole = "domainCount",
        /// Values, level by level.
        values: List<LevelValues> = "valuesPerLevel",
        counts: List<Whole> = "podCounts",
        /// Pods in each domain, where all have the same number.
        count: Whole = "universalPodCount",
    }
}

partial! {
    LevelValues {
        prefix: Text = "prefix",
        suffix: Text = "suffix",
        roots: List<Text> = "roots",
        /// The same for all.
        value: Text = "universalValue",
    }
}

partial! {
    RawRequeue {
        count: Whole = "count",
        at: Text = "requeueAt",
    }
}

partial! {
    RawCheck {
        name: Text = "name",
        state: Text = "state",
        message: Text = "message",
    }
}

partial! {
    Stats {
        evictions: List<EvictionCount> = "evictions",
    }
}

partial! {
    /// Evictions for one reason.
    EvictionCount {
        reason: Text = "reason",
        cause: Text = "underlyingCause",
        count: Whole = "count",
    }
}

/// Most domains that one assignment may expand to; the rest are dropped.
const MOST_DOMAINS: usize = 100_000;

impl TopologyAssignment {
    fn domains(&self, names: &mut Names) -> Box<[DomainAssignment]> {
        let mut all: Vec<DomainAssignment> = self
            .domains
            .iter()
            .take(MOST_DOMAINS)
            .map(|domain| DomainAssignment {
                values: domain
                    .values
                    .iter()
                    .map(|value| names.intern(value))
                    .collect(),
                count: domain.count.count().unwrap_or(0),
            })
            .collect();
        for slice in self.slices.iter() {
            let declared = slice.domains.count().unwrap_or(0) as usize;
            // Names that are not written out cannot outnumber the written ones.
            let spelt = slice
                .values
                .iter()
                .map(|level| level.roots.len())
                .chain([slice.counts.len()])
                .max()
                .unwrap_or(0);
            let count = match spelt {
                0 => declared,
                spelt => declared.min(spelt),
            };
            for at in 0..count.min(MOST_DOMAINS.saturating_sub(all.len())) {
                let value = |level: &LevelValues| match level.roots.get(at) {
                    Some(root) => format!("{}{}{}", &*level.prefix, &**root, &*level.suffix),
                    None => level.value.to_string(),
                };
                let pods = slice.counts.get(at).copied().unwrap_or(slice.count);
                all.push(DomainAssignment {
                    values: slice
                        .values
                        .iter()
                        .map(|level| names.intern(&value(level)))
                        .collect(),
                    count: pods.count().unwrap_or(0),
                });
            }
        }
        all.into_boxed_slice()
    }
}

impl RawPodSet {
    fn read(&self, names: &mut Names) -> model::fleet::siting::JobPodSet {
        let count = self.count.count().unwrap_or(1);
        let min = self.min.count().unwrap_or(count);
        let name = self.name.get().unwrap_or("main");
        let mut set = pod_set(name, count, min, &self.template, names);
        let asked = &self.topology;
        let slice = asked
            .slice_level
            .get()
            .map(|level| (level, asked.slice_size.count().unwrap_or(1)))
            .or_else(|| {
                let widest = asked.slices.first()?;
                Some((widest.level.get()?, widest.size.count().unwrap_or(1)))
            });
        let requested = topology_constraint(
            asked.required.get(),
            asked.preferred.get(),
            asked.unconstrained.is_set(),
            slice,
            names,
        );
        set.topology = requested.or(set.topology);
        set
    }
}

fn amounts(list: &ResourceList, names: &mut Names) -> QuotaAmounts {
    let known = list
        .iter()
        .filter_map(|(resource, quantity)| Some((resource, quantity.0?.max(0))));
    known
        .map(|(resource, milli)| (names.intern(resource), milli))
        .collect()
}

/// How the message of MultiKueue's check begins once a worker cluster has reserved its quota, before the cluster's name in quotes.
const RESERVED_ON: &str = "The workload got reservation on \"";

/// The id of the workload with priority, from the message of a preemption.
fn preemptor(message: &str) -> Option<Name> {
    let (_, rest) = message.split_once("(UID: ")?;
    let end = rest.find([',', ')'])?;
    let uid = rest[..end].trim();
    (!uid.is_empty() && uid != "UNKNOWN").then(|| Name::new(uid))
}

impl WorkloadStatus {
    /// Evictions, the latest first: counts where they are kept, and the present condition.
    fn evictions(&self, names: &mut Names) -> Box<[Eviction]> {
        let set = |kind: &str| {
            find(&self.conditions, kind).filter(|condition| condition.status() == Some(true))
        };
        let preempted = set("Preempted");
        let latest = set("Evicted").map(|condition| {
            let cause = match &*condition.reason {
                "Preempted" => preempted.map(|condition| &*condition.reason),
                _ => None,
            };
            let message = preempted
                .filter(|_| cause.is_some())
                .map_or(&condition.message, |preempted| &preempted.message);
            Eviction {
                reason: names.intern(&condition.reason),
                cause: names.intern(cause.unwrap_or_default()),
                count: 1,
                at: condition.since.moment(),
                preemptor: preemptor(message),
                message: Name::new(message),
            }
        });
        let mut all: Vec<Eviction> = latest.into_iter().collect();
        for counted in self.stats.evictions.iter() {
            let count = counted.count.count().unwrap_or(0);
            if count == 0 {
                continue;
            }
            // (Kueue counts preemptions without the cause that its condition has.)
            let known = all.iter_mut().find(|known| {
                *known.reason == *counted.reason
                    && (known.cause.is_empty()
                        || counted.cause.is_empty()
                        || *known.cause == *counted.cause)
            });
            match known {
                Some(known) => {
                    known.count = known.count.max(count);
                    if !counted.cause.is_empty() {
                        known.cause = names.intern(&counted.cause);
                    }
                }
                None => all.push(Eviction {
                    reason: names.intern(&counted.reason),
                    cause: names.intern(&counted.cause),
                    count,
                    ..Eviction::default()
                }),
            }
        }
        all.into_boxed_slice()
    }

    /// The worker cluster that runs it: Kueue before 0.14 says it in its check's message only.
    fn worker(&self) -> Option<&str> {
        fn reserved_cluster(check: &RawCheck) -> Option<&str> {
            let (_, rest) = check.message.split_once(RESERVED_ON)?;
            rest.split_once('"').map(|(cluster, _)| cluster)
        }
        let of_check = || self.checks.iter().find_map(reserved_cluster);
        self.cluster.get().or_else(of_check)
    }

    fn assigned(&self, names: &mut Names) -> Box<[Assigned]> {
        let sets = self.admission.0.iter().flat_map(|all| all.sets.iter());
        sets.map(|set| Assigned {
            name: names.intern(set.name.get().unwrap_or("main")),
            count: set.count.count().unwrap_or(0),
            usage: amounts(&set.usage, names),
            flavors: set
                .flavors
                .iter()
                .map(|(resource, flavor)| (names.intern(resource), names.intern(flavor)))
                .collect(),
            levels: set
                .topology
                .levels
                .iter()
                .map(|level| names.intern(level))
                .collect(),
            domains: set.topology.domains(names),
        })
        .collect()
    }
}

impl Projected for WorkloadObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let key = self.meta.key(names)?;
        let kind = names.intern("Workload");
        let mut seen = GroupSeen::unknown(table, QueueSystem::Kueue, kind, key);
        let (spec, status) = (&self.spec, &self.status);
        seen.uid = names.intern(&self.meta.uid);
        seen.owner = self.meta.main_owner(names);
        seen.labels = self.meta.labels(names);
        seen.annotations = self.meta.annotations(names);
        seen.created = self.meta.created();
        seen.deleted = self.meta.deleted.moment();
        seen.queue_name = spec.queue.get().map(|queue| names.intern(queue));
        seen.pod_sets = spec.sets.iter().map(|set| set.read(names)).collect();
        // An annotation shifts the priority where that is switched on.
        let boost = seen
            .annotations
            .get("kueue.x-k8s.io/priority-boost")
            .and_then(|text| text.parse::<i32>().ok())
            .unwrap_or(0);
        seen.priority = spec
            .priority
            .small()
            .map(|priority| priority.saturating_add(boost));
        let class = spec.class.name.get().or_else(|| spec.old_class.get());
        seen.priority_class = class.map(|class| names.intern(class));
        seen.active = spec.active.0 != Some(false);
        seen.time_limit = spec.time_limit.seconds();
        let conditions = &status.conditions;
        let since = |kind: &str| {
            find(conditions, kind)
                .filter(|condition| condition.status() == Some(true))
                .map(|condition| condition.since.moment().unwrap_or(seen.created))
        };
        let finished = find(conditions, "Finished").filter(|found| found.status() == Some(true));
        seen.outcome = finished.map(|condition| !matches!(&*condition.reason, "Failed"));
        seen.reserved_at = since("QuotaReserved").or_else(|| {
            // An assignment in the status takes precedence over the conditions.
            status.admission.0.as_ref().map(|_| seen.created)
        });
        seen.admitted_at = since("Admitted");
        seen.queued_at = since("Requeued").into_iter().chain(since("Evicted")).max();
        // Only a PodsReady timeout or a failed admission check moves a workload to the end of the queue (Kueue,
        // `GetQueueOrderTimestamp`). A preempted workload keeps its position.
        let to_the_end = find(conditions, "Evicted")
            .is_some_and(|found| matches!(&*found.reason, "PodsReadyTimeout" | "AdmissionCheck"));
        seen.ordered_at = since("Evicted").filter(|_| to_the_end);
        seen.ready = find(conditions, "PodsReady").and_then(RawCondition::status);
        seen.admitted_by = status
            .admission
            .0
            .as_ref()
            .and_then(|admission| admission.queue.get())
            .map(|queue| names.intern(queue));
        let refused = |kind: &str| {
            find(conditions, kind)
                .filter(|condition| condition.status() == Some(false))
                .map(|condition| (condition.reason.to_string(), condition.message.to_string()))
        };
        let pending = match (seen.reserved_at, seen.admitted_at) {
            _ if seen.outcome.is_some() => None,
            (None, _) => Some(
                refused("QuotaReserved")
                    .or_else(|| refused("Admitted"))
                    .unwrap_or_else(|| {
                        let text = "Kueue has not evaluated it yet".to_owned();
                        ("PendingEvaluation".to_owned(), text)
                    }),
            ),
            (Some(_), None) => Some(refused("Admitted").unwrap_or_else(|| {
                let text = "waiting for its admission checks".to_owned();
                ("UnsatisfiedAdmissionChecks".to_owned(), text)
            })),
            (Some(_), Some(_)) => None,
        };
        seen.pending = pending.map(|(word, text)| (names.intern(&word), Name::from(text)));
        seen.requeue = status.requeue.0.as_ref().map(|requeue| Requeue {
            count: requeue.count.count().unwrap_or(0),
            at: requeue.at.moment(),
        });
        seen.evictions = status.evictions(names);
        seen.assigned = status.assigned(names);
        seen.cluster = status.worker().map(|cluster| names.intern(cluster));
        let reclaimable = status.reclaimable.iter();
        seen.reclaimable = reclaimable
            .map(|set| {
                let name = names.intern(set.name.get().unwrap_or("main"));
                (name, set.count.count().unwrap_or(0))
            })
            .collect();
        let requests = status.requests.iter();
        seen.requests = requests
            .map(|set| {
                let name = names.intern(set.name.get().unwrap_or("main"));
                (name, amounts(&set.resources, names))
            })
            .collect();
        seen.checks = status
            .checks
            .iter()
            .filter(|check| &*check.state != "Ready")
            .map(|check| AdmissionCheck {
                name: names.intern(&check.name),
                state: names.intern(&check.state),
                message: Name::new(&check.message),
            })
            .collect();
        Some(Observation::Group(Box::new(seen)))
    }
}

partial! {
    /// What `…/clusterqueues/NAME/pendingworkloads` of the visibility API answers.
    PendingList {
        /// In the queue's order.
        items: List<PendingItem> = "items",
    }
}

partial! {
    PendingItem {
        meta: Meta = "metadata",
        /// Its place in the queue, from 0.
        in_queue: Whole = "positionInClusterQueue",
        /// Its position in its LocalQueue, from 0.
        at_door: Whole = "positionInLocalQueue",
    }
}

impl PendingList {
    /// The order of this queue's pending work.
    pub fn read(&self, queue: &str, names: &mut Names) -> Pending {
        let place = |number: Whole, at: usize| {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            number.count().unwrap_or(at)
        };
        let rows: Vec<(ObjectKey, u32, u32)> = self
            .items
            .iter()
            .enumerate()
            .filter_map(|(at, item)| {
                let key = item.meta.key(names)?;
                Some((key, place(item.in_queue, at), place(item.at_door, at)))
            })
            .collect();
        Pending {
            queue: names.intern(queue),
            rows,
        }
    }
}
