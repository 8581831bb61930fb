//! Kubernetes' own gangs: `scheduling.k8s.io` Workloads and PodGroups in each of their shapes.
//!
//! | served as | Workload | PodGroup |
//! |---|---|---|
//! | `v1alpha1` (1.35) | `spec.podGroups[].policy.gang.minCount` | none |
//! | `v1alpha2` (1.36) | `spec.podGroupTemplates[].schedulingPolicy.gang.minCount` | `spec.schedulingPolicy`, condition `PodGroupScheduled` |
//! | `v1alpha3`, `v1beta1` (1.37) | the same | the same, condition `PodGroupInitiallyScheduled` |

use model::base::{Name, Names};
use model::fleet::admission::{Eviction, GroupSeen};
use model::fleet::observe::{Observation, OwnerRef, Table};
use model::fleet::queue::QueueSystem;
use model::fleet::siting::TopologyConstraint;

use crate::Projected;
use crate::lenient_json::{List, Maybe, Text, Whole, partial};
use crate::meta::{Meta, RawCondition, find};
use crate::pod_placement::topology_constraint;

partial! {
    /// A Workload or a PodGroup.
    GangObject {
        meta: Meta = "metadata",
        spec: GangSpec = "spec",
        status: GangStatus = "status",
    }
}

partial! {
    /// The `spec` of either.
    GangSpec {
        /// The controller that the Workload belongs to.
        controller: Maybe<Reference> = "controllerRef",
        /// Groups of pods, in `v1alpha1`.
        groups: List<GroupPart> = "podGroups",
        /// Groups of pods, later.
        templates: List<GroupPart> = "podGroupTemplates",
        /// A PodGroup's own policy.
        policy: Policy = "schedulingPolicy",
        /// A PodGroup's own constraints.
        constraints: Constraints = "schedulingConstraints",
        priority_class: Text = "priorityClassName",
        priority: Whole = "priority",
    }
}

partial! {
    /// A reference to an object in the same namespace.
    Reference {
        kind: Text = "kind",
        name: Text = "name",
    }
}

partial! {
    /// One group of pods of a Workload.
    GroupPart {
        name: Text = "name",
        old_policy: Policy = "policy",
        policy: Policy = "schedulingPolicy",
        constraints: Constraints = "schedulingConstraints",
    }
}

partial! {
    /// How a group is scheduled; `basic` is the other way.
    Policy {
        gang: Gang = "gang",
    }
}

partial! {
    Gang {
        /// Pods without which it does nothing.
        min: Whole = "minCount",
    }
}

partial! {
    Constraints {
        /// Topology levels: all pods must run within one domain of each.
        topology: List<Level> = "topology",
    }
}

partial! {
    /// A level of a topology.
    Level {
        key: Text = "key",
    }
}

partial! {
    /// The `status` of a PodGroup.
    GangStatus {
        conditions: List<RawCondition> = "conditions",
    }
}

impl GroupPart {
    fn min(&self) -> Option<u32> {
        let min = self.policy.gang.min.count();
        min.or_else(|| self.old_policy.gang.min.count())
    }
}

/// The first level that the constraints name, as a required topology.
fn constrained(constraints: &Constraints, names: &mut Names) -> Option<Box<TopologyConstraint>> {
    let level = constraints
        .topology
        .iter()
        .find_map(|level| level.key.get())?;
    topology_constraint(Some(level), None, false, None, names)
}

impl Projected for GangObject {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn project(&self, table: Table, names: &mut Names) -> Option<Observation> {
        let spec = &self.spec;
        let kind = names.intern(table.api().kind);
        let key = self.meta.key(names)?;
        let mut seen = GroupSeen::unknown(table, QueueSystem::None, kind, key);
        seen.uid = names.intern(&self.meta.uid);
        seen.labels = self.meta.labels(names);
        seen.annotations = self.meta.annotations(names);
        seen.created = self.meta.created();
        seen.deleted = self.meta.deleted.moment();
        // A controller reference carries no uid, so the owner is identified by name only.
        seen.owner = self.meta.main_owner(names).or_else(|| {
            let controller = spec.controller.0.as_ref()?;
            Some(OwnerRef {
                kind: names.intern(controller.kind.get()?),
                name: names.intern(controller.name.get()?),
                uid: Name::default(),
            })
        });
        seen.priority = spec.priority.small();
        seen.priority_class = spec.priority_class.get().map(|class| names.intern(class));
        let parts: Vec<&GroupPart> = spec.groups.iter().chain(spec.templates.iter()).collect();
        let mut topology = constrained(&spec.constraints, names);
        seen.gang_min = match table {
            Table::PodGroups => spec.policy.gang.min.count(),
            // A Workload of several groups is not a gang; each of its groups is.
            _ => match &*parts {
                [only] => {
                    topology = constrained(&only.constraints, names);
                    only.min()
                }
                _ => None,
            },
        };
        seen.topology = topology;
        let conditions = &self.status.conditions;
        let scheduled = find(conditions, "PodGroupInitiallyScheduled")
            .or_else(|| find(conditions, "PodGroupScheduled"));
        match scheduled.map(|condition| (condition, condition.status())) {
            Some((condition, Some(true))) => seen.admitted_at = condition.since.moment(),
            Some((condition, _)) => {
                seen.pending = Some((
                    names.intern(&condition.reason),
                    Name::new(&condition.message),
                ));
            }
            None => {}
        }
        let disrupted =
            find(conditions, "DisruptionTarget").filter(|found| found.status() == Some(true));
        seen.evictions = disrupted
            .map(|condition| Eviction {
                reason: names.intern(&condition.reason),
                count: 1,
                at: condition.since.moment(),
                message: Name::new(&condition.message),
                ..Eviction::default()
            })
            .into_iter()
            .collect();
        Some(Observation::Group(Box::new(seen)))
    }
}
