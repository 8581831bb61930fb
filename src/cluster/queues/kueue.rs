//! Kueue's queues and what quotas are set for: ClusterQueues, Cohorts, LocalQueues, ResourceFlavors, Topologies, in
//! `v1beta1` and `v1beta2` alike.

use model::base::{Name, Names};
use model::fleet::observe::{Observation, Table};
use model::fleet::queue::{
    Borrow, Door, Flavor, PreemptionPolicy, Queue, QueueActivity, QueueCounts, QueueKey, QueueKind,
    QueueSystem, Quota, Reclaim, Stop, Strategy, Topology, Within,
};

use super::quota::{amount, measure};
use crate::Projected;
use crate::lenient_json::{List, Map, Maybe, Quantity, Text, Whole, partial};
use crate::meta::{Meta, RawCondition, find, labels};
use crate::pod_placement::{RawTaint, RawToleration, taints, tolerations};

partial! {
    /// A ClusterQueue or a Cohort.
    QueueObject {
        meta: Meta = "metadata",
        spec: QueueSpec = "spec",
        status: QueueStatus = "status",
    }
}

partial! {
    /// The `spec` of either.
    QueueSpec {
        groups: List<ResourceGroup> = "resourceGroups",
        /// A ClusterQueue's cohort, in `v1beta1`.
        old_cohort: Text = "cohort",
        /// A ClusterQueue's cohort, in `v1beta2`.
        cohort: Text = "cohortName",
        /// A Cohort's cohort, in `v1alpha1`.
        old_parent: Text = "parent",
        /// A Cohort's cohort, later.
        parent: Text = "parentName",
        /// How the queue is ordered: `StrictFIFO` or `BestEffortFIFO`.
        strategy: Text = "queueingStrategy",
        /// How flavors are tried.
        fungibility: Fungibility = "flavorFungibility",
        preemption: RawPreemption = "preemption",
        /// `None`, `Hold` or `HoldAndDrain`.
        stop: Text = "stopPolicy",
        fair: FairSharing = "fairSharing",
        /// The names of its admission checks, in `v1beta1`.
        old_checks: List<Text> = "admissionChecks",
        checks: ChecksStrategy = "admissionChecksStrategy",
        scope: AdmissionScope = "admissionScope",
        concurrent: Maybe<ConcurrentAdmission> = "concurrentAdmissionPolicy",
    }
}

partial! {
    /// Admission checks, each for some flavors or for all.
    ChecksStrategy {
        checks: List<CheckRule> = "admissionChecks",
    }
}

partial! {
    CheckRule {
        name: Text = "name",
    }
}

partial! {
    AdmissionScope {
        /// Whether past usage orders its workloads: `UsageBasedAdmissionFairSharing` if so.
        mode: Text = "admissionMode",
    }
}

partial! {
    /// Present where flavors are tried at the same time.
    ConcurrentAdmission {
        migration: Map<Text> = "migration",
    }
}

partial! {
    /// Resources that are assigned one flavor together.
    ResourceGroup {
        /// Flavors, the first to be tried first.
        flavors: List<FlavorQuotas> = "flavors",
    }
}

partial! {
    FlavorQuotas {
        name: Text = "name",
        resources: List<ResourceQuota> = "resources",
    }
}

partial! {
    ResourceQuota {
        name: Text = "name",
        nominal: Quantity = "nominalQuota",
        borrow: Quantity = "borrowingLimit",
        /// How much of its own it lends.
        lend: Quantity = "lendingLimit",
    }
}

partial! {
    /// `flavorFungibility`; the values changed from `Borrow` and `Preempt` to `MayStopSearch`.
    Fungibility {
        /// When it could borrow.
        borrow: Text = "whenCanBorrow",
        /// When it could preempt.
        preempt: Text = "whenCanPreempt",
        /// Which flavor comes first.
        preference: Text = "preference",
    }
}

partial! {
    RawPreemption {
        /// Preemption within the ClusterQueue.
        within: Text = "withinClusterQueue",
        /// To get its own back.
        reclaim: Text = "reclaimWithinCohort",
        borrow: BorrowPolicy = "borrowWithinCohort",
    }
}

partial! {
    BorrowPolicy {
        /// Which workloads may be preempted to borrow: `Never` or `LowerPriority`.
        policy: Text = "policy",
        /// Up to this priority.
        threshold: Whole = "maxPriorityThreshold",
    }
}

partial! {
    /// `fairSharing` of a spec or a status.
    FairSharing {
        /// Weight, in a spec.
        weight: Quantity = "weight",
        /// Share, in a status.
        share: Whole = "weightedShare",
    }
}

partial! {
    /// The `status` of either, or of a LocalQueue.
    QueueStatus {
        /// Reserved quota, by flavor.
        reserved: List<FlavorUsage> = "flavorsReservation",
        used: List<FlavorUsage> = "flavorsUsage",
        pending: Whole = "pendingWorkloads",
        /// Workloads with a reservation.
        reserving: Whole = "reservingWorkloads",
        /// Workloads that were admitted.
        admitted: Whole = "admittedWorkloads",
        conditions: List<RawCondition> = "conditions",
        fair: FairSharing = "fairSharing",
    }
}

partial! {
    FlavorUsage {
        name: Text = "name",
        resources: List<ResourceUsage> = "resources",
    }
}

partial! {
    ResourceUsage {
        name: Text = "name",
        total: Quantity = "total",
        borrowed: Quantity = "borrowed",
    }
}

/// The usage of a resource in a flavor. A status that lists usage and omits a resource means zero usage.
fn usage<'a>(all: &'a [FlavorUsage], flavor: &str, resource: &str) -> Option<&'a ResourceUsage> {
    all.iter()
        .find(|usage| &*usage.name == flavor)?
        .resources
        .iter()
        .find(|usage| &*usage.name == resource)
}

fn stop(word: &str) -> Stop {
    match word {
        "Hold" => Stop::Hold,
        "HoldAndDrain" => Stop::Drain,
        _ => Stop::None,
    }
}

impl QueueStatus {
    fn activity(&self, names: &mut Names) -> QueueActivity {
        find(&self.conditions, "Active").map_or_else(QueueActivity::default, |condition| {
            QueueActivity {
                active: condition.status(),
                reason: names.intern(&condition.reason),
                message: names.intern(&condition.message),
            }
        })
    }

    fn counts(&self) -> QueueCounts {
        QueueCounts {
            pending: self.pending.count(),
            reserving: self.reserving.count(),
            admitted: self.admitted.count(),
        }
    }
}

impl QueueObject {
    fn checks(&self, names: &mut Names) -> Box<[Name]> {
        let rules = self.spec.checks.checks.iter();
        let all = rules
            .map(|rule| &rule.name)
            .chain(self.spec.old_checks.iter());
        let named = all.filter_map(|check| check.get());
        named.map(|check| names.intern(check)).collect()
    }

    fn quotas(&self, reports_usage: bool, names: &mut Names) -> Box<[Quota]> {
        let mut quotas: Vec<Quota> = Vec::new();
        for (at, group) in self.spec.groups.iter().enumerate() {
            for flavor in group.flavors.iter() {
                for resource in flavor.resources.iter() {
                    let (Some(_), Some(_)) = (flavor.name.get(), resource.name.get()) else {
                        continue;
                    };
                    let measure = measure(&resource.name);
                    let of = |quantity| amount(quantity, measure);
                    let used = usage(&self.status.used, &flavor.name, &resource.name);
                    let reserved = usage(&self.status.reserved, &flavor.name, &resource.name);
                    let known = |reported: Option<i64>| reported.or(reports_usage.then_some(0));
                    let quota = Quota {
                        flavor: names.intern(&flavor.name),
                        resource: names.intern(&resource.name),
                        measure,
                        group: u32::try_from(at).unwrap_or(u32::MAX),
                        nominal: of(resource.nominal),
                        borrow_limit: of(resource.borrow),
                        lend_limit: of(resource.lend),
                        used: known(used.and_then(|used| of(used.total))),
                        reserved: known(reserved.and_then(|reserved| of(reserved.total))),
                        borrowed: known(used.and_then(|used| of(used.borrowed))),
                        ..Quota::default()
                    };
                    let again = quotas.iter().any(|known| {
                        known.flavor == quota.flavor && known.resource == quota.resource
                    });
                    if !again {
                        quotas.push(quota);
                    }
                }
            }
        }
        quotas.into_boxed_slice()
    }
}

impl Projected for QueueObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let (spec, status) = (&self.spec, &self.status);
        let name = names.intern(self.meta.name.get()?);
        let is_queue = table == Table::ClusterQueues;
        let parent = match is_queue {
            true => [&spec.cohort, &spec.old_cohort],
            false => [&spec.parent, &spec.old_parent],
        };
        // A status with any usage field is complete.
        let reports_usage = is_queue
            && (status.admitted.0.is_some()
                || !status.used.is_empty()
                || !status.conditions.is_empty());
        let preemption = &spec.preemption;
        Some(Observation::Queue(
            table,
            Box::new(Queue {
                uid: names.intern(&self.meta.uid),
                parent: parent
                    .into_iter()
                    .find_map(|parent| parent.get())
                    .filter(|parent| is_queue || *parent != &*name)
                    .map(|parent| names.intern(parent)),
                weight: spec.fair.weight.0.map(|milli| milli as f64 / 1000.0),
                stop: stop(&spec.stop),
                activity: status.activity(names),
                strategy: match &*spec.strategy {
                    "StrictFIFO" => Strategy::Strict,
                    _ => Strategy::BestEffort,
                },
                preemption: PreemptionPolicy {
                    within: match &*preemption.within {
                        "LowerPriority" => Within::LowerPriority,
                        "LowerOrNewerEqualPriority" => Within::LowerOrNewerEqual,
                        _ => Within::Never,
                    },
                    reclaim: match &*preemption.reclaim {
                        "LowerPriority" => Reclaim::LowerPriority,
                        "Any" => Reclaim::Any,
                        _ => Reclaim::Never,
                    },
                    borrow: match &*preemption.borrow.policy {
                        "LowerPriority" => Borrow::LowerPriority,
                        _ => Borrow::Never,
                    },
                    borrow_max_priority: preemption.borrow.threshold.small(),
                    ..PreemptionPolicy::default()
                },
                reclaimable: true,
                next_before_borrow: &*spec.fungibility.borrow == "TryNextFlavor",
                // Kueue's default is to try the next flavor before it preempts.
                next_before_preempt: !matches!(
                    &*spec.fungibility.preempt,
                    "Preempt" | "MayStopSearch"
                ),
                preempts_before_borrowing: &*spec.fungibility.preference
                    == "PreemptionOverBorrowing",
                checks: self.checks(names),
                orders_by_usage: &*spec.scope.mode == "UsageBasedAdmissionFairSharing",
                tries_all_flavors: spec.concurrent.0.is_some(),
                share: match status.fair.share.0 {
                    // A borrower of weight 0 has the largest number there is.
                    Some(i64::MAX) => Some(f64::INFINITY),
                    Some(share) if share >= 0 => Some(share as f64 / 1000.0),
                    _ => None,
                },
                quotas: self.quotas(reports_usage, names),
                counts: status.counts(),
                created: self.meta.created(),
                key: QueueKey {
                    system: QueueSystem::Kueue,
                    kind: match is_queue {
                        true => QueueKind::Queue,
                        false => QueueKind::Cohort,
                    },
                    name,
                },
                ..Queue::default()
            }),
        ))
    }
}

partial! {
    LocalQueueObject {
        meta: Meta = "metadata",
        spec: LocalQueueSpec = "spec",
        status: QueueStatus = "status",
    }
}

partial! {
    LocalQueueSpec {
        /// The queue behind it.
        queue: Text = "clusterQueue",
        /// `None`, `Hold` or `HoldAndDrain`.
        stop: Text = "stopPolicy",
    }
}

impl Projected for LocalQueueObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        Some(Observation::Door(Box::new(Door {
            key: self.meta.key(names)?,
            queue: names.intern(&self.spec.queue),
            stop: stop(&self.spec.stop),
            activity: self.status.activity(names),
            counts: self.status.counts(),
        })))
    }
}

partial! {
    FlavorObject {
        meta: Meta = "metadata",
        spec: FlavorSpec = "spec",
    }
}

partial! {
    FlavorSpec {
        /// Labels of its nodes.
        node_labels: Map<Text> = "nodeLabels",
        /// Taints of its nodes.
        taints: List<RawTaint> = "nodeTaints",
        /// Tolerations added to pods of this flavor.
        tolerations: List<RawToleration> = "tolerations",
        topology: Text = "topologyName",
    }
}

impl Projected for FlavorObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        let spec = &self.spec;
        Some(Observation::Flavor(Box::new(Flavor {
            name: names.intern(self.meta.name.get()?),
            node_labels: labels(&spec.node_labels, names),
            taints: taints(&spec.taints, names).into_boxed_slice(),
            tolerations: tolerations(&spec.tolerations, names),
            topology: spec.topology.get().map(|name| names.intern(name)),
        })))
    }
}

partial! {
    TopologyObject {
        meta: Meta = "metadata",
        spec: TopologySpec = "spec",
    }
}

partial! {
    TopologySpec {
        /// From the widest to the narrowest.
        levels: List<TopologyLevel> = "levels",
    }
}

partial! {
    TopologyLevel {
        label: Text = "nodeLabel",
    }
}

impl Projected for TopologyObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, _: Table, names: &mut Names) -> Option<Observation> {
        Some(Observation::Topology(Box::new(Topology {
            name: names.intern(self.meta.name.get()?),
            levels: self
                .spec
                .levels
                .iter()
                .filter_map(|level| level.label.get())
                .map(|label| names.intern(label))
                .collect(),
        })))
    }
}
