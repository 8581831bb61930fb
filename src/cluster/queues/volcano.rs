//! Volcano: Jobs, PodGroups, Queues.

use std::collections::BTreeSet;

use model::base::{Name, Names};
use model::fleet::admission::GroupSeen;
use model::fleet::observe::{Labels, Observation, Table};
use model::fleet::queue::{
    Measure, Queue, QueueActivity, QueueCounts, QueueKey, QueueKind, QueueSystem, Quota, Stop,
    Strategy,
};

use super::quota::{amount, measure};
use crate::Projected;
use crate::lenient_json::{List, Maybe, OptionalBool, Quantity, Text, Whole, partial};
use crate::meta::{Meta, RawCondition};
use crate::pod_placement::topology_constraint;
use crate::resources::{ResourceList, Template};
use crate::workloads::pod_sets::{common_condition, of_sets, pod_set};

partial! {
    VolcanoJobObject {
        meta: Meta = "metadata",
        spec: VolcanoJobSpec = "spec",
        status: VolcanoJobStatus = "status",
    }
}

partial! {
    VolcanoJobSpec {
        /// Minimum number of pods (gang size); all when not set.
        min: Whole = "minAvailable",
        tasks: List<Task> = "tasks",
        queue: Text = "queue",
        priority_class: Text = "priorityClassName",
        network: NetworkTopology = "networkTopology",
    }
}

partial! {
    Task {
        name: Text = "name",
        /// Number of pods; 1 when not set.
        replicas: Whole = "replicas",
        /// Minimum number of pods of this set; all when not set.
        min: Whole = "minAvailable",
        template: Template = "template",
    }
}

partial! {
    NetworkTopology {
        /// Whether the tier limit is required or preferred: `hard` or `soft`.
        mode: Text = "mode",
        /// The widest allowed tier, by name.
        tier_name: Text = "highestTierName",
        /// The same by number; 1 is the narrowest.
        tier: Whole = "highestTierAllowed",
    }
}

partial! {
    VolcanoJobStatus {
        state: JobPhase = "state",
        failed: Whole = "failed",
    }
}

partial! {
    /// `state` of a Volcano Job.
    JobPhase {
        /// `Pending`, `Running`, `Aborted`, `Completed`, `Failed`, `Terminated`, ….
        phase: Text = "phase",
        reason: Text = "reason",
        message: Text = "message",
        /// Time of the last transition.
        since: Text = "lastTransitionTime",
    }
}

impl NetworkTopology {
    fn topology_constraint(
        &self,
        names: &mut Names,
    ) -> Option<Box<model::fleet::siting::TopologyConstraint>> {
        let tier = match (self.tier_name.get(), self.tier.0) {
            (Some(name), _) => name.to_owned(),
            (None, Some(tier)) => format!("tier-{tier}"),
            (None, None) => return None,
        };
        match &*self.mode {
            "soft" => topology_constraint(None, Some(&tier), false, None, names),
            _ => topology_constraint(Some(&tier), None, false, None, names),
        }
    }
}

impl Projected for VolcanoJobObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let topology = self.spec.network.topology_constraint(names);
        let mut sets = Vec::new();
        for (at, task) in self.spec.tasks.iter().enumerate() {
            let count = task.replicas.count().unwrap_or(1);
            let named = format!("task-{at}");
            let name = task.name.get().unwrap_or(&named);
            let min = task.min.count().unwrap_or(count);
            let mut set = pod_set(name, count, min, &task.template, names);
            set.topology = set.topology.or_else(|| topology.clone());
            sets.push((set, &task.template.spec));
        }
        let mut seen = of_sets(table, &self.meta, &[], sets, names)?;
        let min = self.spec.min.count().unwrap_or(seen.pods).min(seen.pods);
        seen.gang_min = (min > 1).then_some(min);
        if let Some(class) = self.spec.priority_class.get() {
            seen.priority_class = Some(names.intern(class));
        }
        // Its queue is a field; its pods have the same as a label.
        let queue = names.intern(self.spec.queue.get().unwrap_or("default"));
        let labels = seen.labels.iter();
        seen.labels = labels
            .map(|(key, value)| (key.clone(), value.clone()))
            .filter(|(key, _)| key.as_str() != QUEUE_LABEL)
            .chain([(names.intern(QUEUE_LABEL), queue)])
            .collect::<Labels>();
        let state = &self.status.state;
        seen.suspended = matches!(&*state.phase, "Aborting" | "Aborted");
        seen.outcome = match &*state.phase {
            "Completed" => Some(true),
            "Failed" | "Terminated" => Some(false),
            _ => None,
        };
        seen.failed_pods = self.status.failed.count().unwrap_or(0);
        if seen.outcome.is_some() {
            seen.finished = state.since.moment();
        }
        if seen.outcome == Some(false) {
            let reason = state.reason.get().unwrap_or(&state.phase);
            let message = state.message.get().unwrap_or(reason);
            seen.conditions
                .push(common_condition("Failed", reason, message));
        }
        Some(Observation::Workload(Box::new(seen)))
    }
}

/// The pod label with the queue's name.
const QUEUE_LABEL: &str = "volcano.sh/queue-name";

partial! {
    VolcanoPodGroupObject {
        meta: Meta = "metadata",
        spec: VolcanoPodGroupSpec = "spec",
        status: VolcanoPodGroupStatus = "status",
    }
}

partial! {
    VolcanoPodGroupSpec {
        /// Minimum number of pods (gang size).
        min: Whole = "minMember",
        queue: Text = "queue",
        priority_class: Text = "priorityClassName",
        network: NetworkTopology = "networkTopology",
    }
}

partial! {
    VolcanoPodGroupStatus {
        /// `Pending`, `Inqueue`, `Running`, `Unknown`, `Completed`.
        phase: Text = "phase",
        /// Conditions; the latest of a type counts.
        conditions: List<RawCondition> = "conditions",
    }
}

impl Projected for VolcanoPodGroupObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let key = self.meta.key(names)?;
        let kind = names.intern("PodGroup");
        let mut seen = GroupSeen::unknown(table, QueueSystem::Volcano, kind, key);
        let (spec, status) = (&self.spec, &self.status);
        seen.uid = names.intern(&self.meta.uid);
        seen.owner = self.meta.main_owner(names);
        seen.labels = self.meta.labels(names);
        seen.annotations = self.meta.annotations(names);
        seen.created = self.meta.created();
        seen.deleted = self.meta.deleted.moment();
        seen.queue_name = Some(names.intern(spec.queue.get().unwrap_or("default")));
        seen.gang_min = spec.min.count();
        seen.priority_class = spec.priority_class.get().map(|class| names.intern(class));
        seen.topology = spec.network.topology_constraint(names);
        seen.phase = status.phase.get().map(|phase| names.intern(phase));
        let latest = |kind: &str| {
            status
                .conditions
                .iter()
                .filter(|condition| &*condition.kind == kind && condition.status() == Some(true))
                .max_by_key(|condition| condition.since.moment())
        };
        let quota_reserved = matches!(&*status.phase, "Inqueue" | "Running" | "Completed");
        let scheduled = latest("Scheduled").and_then(|condition| condition.since.moment());
        if quota_reserved {
            seen.reserved_at = scheduled.or(Some(seen.created));
        }
        match &*status.phase {
            "Running" | "Completed" => seen.admitted_at = scheduled.or(Some(seen.created)),
            phase => {
                seen.pending = match latest("Unschedulable") {
                    Some(condition) => Some((
                        names.intern(&condition.reason),
                        Name::new(&condition.message),
                    )),
                    None if phase == "Pending" => Some((
                        names.intern("Pending"),
                        Name::from(format!(
                            "not yet admitted by queue {}",
                            spec.queue.get().unwrap_or("default")
                        )),
                    )),
                    None => None,
                };
            }
        }
        Some(Observation::Group(Box::new(seen)))
    }
}

partial! {
    VolcanoQueueObject {
        meta: Meta = "metadata",
        spec: VolcanoQueueSpec = "spec",
        status: VolcanoQueueStatus = "status",
    }
}

partial! {
    VolcanoQueueSpec {
        /// Weight among its siblings; 1 when not set.
        weight: Whole = "weight",
        /// Upper limit of its resources.
        capability: ResourceList = "capability",
        /// Its own share, lent to other queues while unused.
        deserved: ResourceList = "deserved",
        /// Resources that are never lent.
        guarantee: Guarantee = "guarantee",
        parent: Text = "parent",
        priority: Whole = "priority",
        /// Whether other queues may reclaim borrowed resources; true when not set.
        reclaimable: OptionalBool = "reclaimable",
        /// How jobs leave the queue: `fifo` or `traverse`.
        dequeue: Text = "dequeueStrategy",
    }
}

partial! {
    Guarantee {
        resource: ResourceList = "resource",
    }
}

partial! {
    VolcanoQueueStatus {
        /// `Open`, `Closing`, `Closed` or `Unknown`.
        state: Text = "state",
        /// Resources allocated to its jobs.
        allocated: Maybe<ResourceList> = "allocated",
        /// PodGroups not yet admitted.
        pending: Whole = "pending",
        /// PodGroups that are admitted and not running.
        inqueue: Whole = "inqueue",
        running: Whole = "running",
    }
}

impl VolcanoQueueObject {
    /// Quotas of every resource that is limited or allocated. A queue without a share in `deserved` owns its guaranteed
    /// resources, and borrows everything else by weight.
    fn quotas(&self, names: &mut Names) -> Box<[Quota]> {
        let spec = &self.spec;
        let guaranteed = &spec.guarantee.resource;
        let allocated = self.status.allocated.0.as_ref();
        let mut resources: BTreeSet<&str> = BTreeSet::new();
        for list in [&spec.capability, &spec.deserved, guaranteed] {
            resources.extend(list.iter().map(|(name, _)| name));
        }
        let held = allocated.into_iter().flat_map(|list| list.iter());
        resources.extend(
            held.filter(|(name, _)| measure(name) == Measure::MilliDevices)
                .map(|(name, _)| name),
        );
        resources
            .into_iter()
            .map(|resource| {
                let measure = measure(resource);
                let of = |list: &ResourceList| {
                    let quantity = list.get(resource).copied();
                    quantity.and_then(|quantity| amount(quantity, measure))
                };
                // Resources in neither list are shared by weight: the queue's own share is not known.
                let kept = of(guaranteed);
                let nominal = of(&spec.deserved).max(kept);
                let used = allocated.map(|list| {
                    let none = Quantity(Some(0));
                    let quantity = list.get(resource).copied().unwrap_or(none);
                    amount(quantity, measure).unwrap_or(0)
                });
                Quota {
                    resource: names.intern(resource),
                    measure,
                    nominal,
                    lend_limit: nominal.map(|nominal| nominal - kept.unwrap_or(0)),
                    cap: of(&spec.capability),
                    used,
                    reserved: used,
                    borrowed: used
                        .zip(nominal)
                        .map(|(used, nominal)| (used - nominal).max(0)),
                    ..Quota::default()
                }
            })
            .collect()
    }
}

impl Projected for VolcanoQueueObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let (spec, status) = (&self.spec, &self.status);
        let name = names.intern(self.meta.name.get()?);
        let open = match &*status.state {
            "Open" => Some(true),
            "Closed" | "Closing" => Some(false),
            _ => None,
        };
        let running = status.running.count();
        Some(Observation::Queue(
            table,
            Box::new(Queue {
                uid: names.intern(&self.meta.uid),
                parent: spec
                    .parent
                    .get()
                    .filter(|parent| *parent != &*name)
                    .map(|parent| names.intern(parent)),
                weight: Some(spec.weight.0.map_or(1.0, |weight| weight.max(0) as f64)),
                priority: spec.priority.small(),
                stop: match open {
                    Some(false) => Stop::Hold,
                    _ => Stop::None,
                },
                activity: QueueActivity {
                    active: open,
                    reason: names.intern(&status.state),
                    message: Name::default(),
                },
                strategy: match &*spec.dequeue {
                    "fifo" => Strategy::Strict,
                    _ => Strategy::BestEffort,
                },
                reclaimable: spec.reclaimable.0 != Some(false),
                quotas: self.quotas(names),
                counts: QueueCounts {
                    pending: status.pending.count(),
                    reserving: running
                        .zip(status.inqueue.count().or(Some(0)))
                        .map(|(running, quota_reserved)| running.saturating_add(quota_reserved)),
                    admitted: running,
                },
                created: self.meta.created(),
                key: QueueKey {
                    system: QueueSystem::Volcano,
                    kind: QueueKind::Queue,
                    name,
                },
                ..Queue::default()
            }),
        ))
    }
}
